#include "node/log_writer.h"

#include "node/log_thread.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct log_writer {
    uv_loop_t *loop;
    uv_work_t work;
    log_file *file;
    log_entry *batch, *pending;  // `batch` belongs to the thread while `writing`, `pending` to the loop
    uint32_t batch_count, batch_room, pending_count, pending_room;
    bool writing, failed, closed;
    braid_err err;
    braid_error error;
    log_writer_committed_fn committed;
    log_writer_failed_fn fail;
    void *context;
};

braid_err log_writer_new(uv_loop_t *loop, log_file *file, log_writer_committed_fn committed, log_writer_failed_fn failed,
                         void *context, log_writer **out, braid_error *error) {
    log_writer *w = calloc(1, sizeof *w);
    if (!w) {
        log_file_close(file);
        return braid_fail(error, BRAID_MEMORY, "no memory for the log's writer");
    }
    *w = (log_writer){.loop = loop, .file = file, .committed = committed, .fail = failed, .context = context};
    w->work.data = w;
    *out = w;
    return BRAID_OK;
}

static void writer_free(log_writer *w) {
    log_file_close(w->file);
    free(w->batch);
    free(w->pending);
    free(w);
}

// Runs on the log's thread.
static void writer_write(uv_work_t *work) {
    log_writer *w = work->data;
    w->err = BRAID_OK;
    for (uint32_t i = 0; i < w->batch_count && !w->err; i++) w->err = log_file_append(w->file, &w->batch[i], &w->error);
    if (!w->err) w->err = log_file_sync(w->file, &w->error);
}

// The callbacks may append or close; `writing` protects this batch meanwhile.
static void batch_report(log_writer *w) {
    for (uint32_t i = 0; i < w->batch_count && !w->err && !w->closed; i++) w->committed(w->context, &w->batch[i]);
    w->batch_count = 0;
    w->writing = false;
}

static void writer_start(log_writer *w);

static void writer_written(uv_work_t *work, int status) {
    log_writer *w = work->data;
    (void)status;  // set by a cancel only, and this work is never cancelled
    if (!w->closed && w->err && !w->failed) {
        w->failed = true;
        w->fail(w->context, &w->error);
    }
    batch_report(w);
    if (w->closed) writer_free(w);
    else writer_start(w);
}

static void batch_take(log_writer *w) {
    log_entry *entries = w->batch;
    uint32_t room = w->batch_room;
    w->batch = w->pending;
    w->batch_count = w->pending_count;
    w->batch_room = w->pending_room;
    w->pending = entries;
    w->pending_count = 0;
    w->pending_room = room;
    w->writing = true;
}

static void writer_start(log_writer *w) {
    if (w->writing || w->failed || w->pending_count == 0) return;
    batch_take(w);
    int code = log_thread_queue(w->loop, &w->work, writer_write, writer_written);
    BRAID_ASSERT(code == 0);
}

void log_writer_append(log_writer *w, const log_entry *entry, bool more) {
    if (w->failed || w->closed) return;
    if (w->pending_count == w->pending_room) {
        uint32_t room = w->pending_room ? w->pending_room * 2 : 4;
        log_entry *larger = room <= LOG_WRITER_MAX_PENDING ? realloc(w->pending, room * sizeof *larger) : NULL;
        if (!larger) {
            w->failed = true;
            braid_fail(&w->error, BRAID_MEMORY, room > LOG_WRITER_MAX_PENDING ? "the disk is too slow for the log: %u entries wait" : "no memory for the log: %u entries wait for the disk", w->pending_count);
            w->fail(w->context, &w->error);
            return;
        }
        w->pending = larger;
        w->pending_room = room;
    }
    w->pending[w->pending_count++] = *entry;
    if (!more && log_file_is_kept(w->file)) writer_start(w);
}

void log_writer_deliver(log_writer *w) {
    if (log_file_is_kept(w->file) || w->writing) return;
    while (w->pending_count > 0 && !w->failed && !w->closed) {
        batch_take(w);
        batch_report(w);
    }
    if (w->closed) writer_free(w);
}

void log_writer_close(log_writer *w) {
    if (!w) return;
    w->closed = true;
    if (!w->writing) writer_free(w);
}
