#include "store/io.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLOW_NS 2000000000u

struct store_io {
    block_file *file;
    store_io_host host;
    unsigned threads;
    pthread_t thread[STORE_IO_MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    // under lock
    bool closing;
    store_transfer *first, **last;  // transfers with pieces that no thread has begun
    braid_error error;              // the first one
    store_io_stats stats;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct piece {
    store_transfer *of;
    size_t at, bytes;
} piece;

// Under lock.
static piece next_piece(store_io *io) {
    store_transfer *t = io->first;
    size_t left = t->bytes - t->begun;
    piece p = {t, t->begun, left < STORE_IO_PIECE ? left : STORE_IO_PIECE};
    t->begun += p.bytes;
    if (t->begun == t->bytes) io->first = t->next;
    if (!io->first) io->last = &io->first;
    return p;
}

// Under lock.
static void finish_piece(store_io *io, const piece *p, braid_err err, const braid_error *error) {
    store_transfer *t = p->of;
    if (err && !io->error.code) io->error = *error;
    if (err) t->failed = err;
    *(t->write ? &io->stats.written_bytes : &io->stats.read_bytes) += p->bytes;
    t->done += p->bytes;
    if (t->done < t->bytes) return;
    t->under_way = false;
    pthread_cond_broadcast(&io->done);
}

static void *serve(void *context) {
    store_io *io = context;
    pthread_mutex_lock(&io->lock);
    for (;;) {
        while (!io->first && !io->closing) pthread_cond_wait(&io->work, &io->lock);
        if (!io->first) break;
        piece p = next_piece(io);
        pthread_mutex_unlock(&io->lock);
        braid_error error = {0};
        uint64_t offset = p.of->offset + p.at;
        braid_err err = p.of->write ? block_file_write(io->file, offset, p.of->data + p.at, p.bytes, &error)
                                    : block_file_read(io->file, offset, p.of->data + p.at, p.bytes, &error);
        pthread_mutex_lock(&io->lock);
        finish_piece(io, &p, err, &error);
    }
    pthread_mutex_unlock(&io->lock);
    return NULL;
}

braid_err store_io_new(block_file *file, unsigned threads, store_io_host host, store_io **out, braid_error *error) {
    store_io *io = calloc(1, sizeof *io);
    if (!io) return braid_fail(error, BRAID_MEMORY, "no memory for the threads of the state file");
    io->file = file;
    io->host = host;
    if (io->host.slow_ns == 0) io->host.slow_ns = SLOW_NS;
    io->last = &io->first;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&io->lock, NULL);
    pthread_cond_init(&io->work, NULL);
    pthread_cond_init(&io->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    while (io->threads < threads && io->threads < STORE_IO_MAX_THREADS &&
           pthread_create(&io->thread[io->threads], NULL, serve, io) == 0)
        io->threads++;
    if (io->threads > 0) {
        *out = io;
        return BRAID_OK;
    }
    store_io_free(io);
    return braid_fail(error, BRAID_MEMORY,
                      "cannot start a thread for the state file; raise the limit of processes (ulimit -u)");
}

void store_io_free(store_io *io) {
    if (!io) return;
    pthread_mutex_lock(&io->lock);
    io->closing = true;
    pthread_cond_broadcast(&io->work);
    pthread_mutex_unlock(&io->lock);
    for (unsigned i = 0; i < io->threads; i++) pthread_join(io->thread[i], NULL);
    pthread_mutex_destroy(&io->lock);
    pthread_cond_destroy(&io->work);
    pthread_cond_destroy(&io->done);
    free(io);
}

void store_io_start(store_io *io, store_transfer *t, bool write, uint64_t offset, void *data, size_t bytes) {
    BRAID_ASSERT(!t->under_way && bytes > 0);
    *t = (store_transfer){.write = write, .under_way = true, .offset = offset, .data = data, .bytes = bytes};
    pthread_mutex_lock(&io->lock);
    *io->last = t;
    io->last = &t->next;
    pthread_cond_broadcast(&io->work);
    pthread_mutex_unlock(&io->lock);
}

static void note_slow(store_io *io, const store_transfer *t, double seconds) {
    char text[BLOCK_FILE_MAX_PATH + 128];
    snprintf(text, sizeof text, "'%s' has not answered a %s for %.2g s; waiting for the disk",
             block_file_path(io->file), t->write ? "write" : "read", seconds);
    if (io->host.note) io->host.note(io->host.context, text);
}

// Under lock.
static void wait_for(store_io *io, const store_transfer *t) {
    uint64_t begun = now_ns(), limit = begun + io->host.slow_ns;
    size_t done = t->done;
    while (t->under_way) {
        struct timespec until = {.tv_sec = (time_t)(limit / 1000000000u), .tv_nsec = (long)(limit % 1000000000u)};
        bool late = pthread_cond_timedwait(&io->done, &io->lock, &until) == ETIMEDOUT;
        if (!late) continue;
        if (t->under_way && t->done == done) note_slow(io, t, (double)(now_ns() - begun) * 1e-9);
        done = t->done;
        limit = now_ns() + io->host.slow_ns;
    }
    io->stats.waited_ns += now_ns() - begun;
}

braid_err store_io_wait(store_io *io, store_transfer *t, braid_error *error) {
    pthread_mutex_lock(&io->lock);
    if (t->under_way) wait_for(io, t);
    braid_err err = io->error.code;
    if (err && error) *error = io->error;
    pthread_mutex_unlock(&io->lock);
    return err;
}

braid_err store_io_wait_alone(store_io *io, store_transfer *t, braid_error *error) {
    pthread_mutex_lock(&io->lock);
    if (t->under_way) wait_for(io, t);
    pthread_mutex_unlock(&io->lock);
    if (!t->failed) return BRAID_OK;
    return braid_fail(error, t->failed, "cannot %s %zu bytes at %llu of '%s'; check the disk",
                      t->write ? "write" : "read", t->bytes, (unsigned long long)t->offset, block_file_path(io->file));
}

bool store_io_finished(store_io *io, const store_transfer *t) {
    pthread_mutex_lock(&io->lock);
    bool finished = !t->under_way;
    pthread_mutex_unlock(&io->lock);
    return finished;
}

store_io_stats store_io_statistics(store_io *io) {
    pthread_mutex_lock(&io->lock);
    store_io_stats stats = io->stats;
    pthread_mutex_unlock(&io->lock);
    return stats;
}
