#define _GNU_SOURCE  // O_DIRECT
#include "store/block_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[] = "braid state 1\n";
static const char file_name[] = "braid.state";

struct block_file {
    int fd;
    bool direct;
    char path[BLOCK_FILE_MAX_PATH];
    block_file_faults faults;
    atomic_uint_fast64_t reads, writes;
    uint64_t rate;
    pthread_mutex_t lock;  // of next_ns
    uint64_t next_ns;      // the limited rate permits the next transfer at this time
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

// Transfers reserve their time one after another, as at a device with this rate.
static void pace(block_file *f, size_t bytes) {
    if (f->rate == 0) return;
    uint64_t cost = (uint64_t)((double)bytes * 1e9 / (double)f->rate), now = now_ns(), until;
    pthread_mutex_lock(&f->lock);
    f->next_ns = (f->next_ns > now ? f->next_ns : now) + cost;
    until = f->next_ns;
    pthread_mutex_unlock(&f->lock);
    sleep_until(until);
}

static bool is_nth(atomic_uint_fast64_t *counter, uint64_t n) { return atomic_fetch_add(counter, 1) + 1 == n; }

static braid_err transfer_failed(const block_file *f, const char *verb, uint64_t offset, size_t bytes, int code,
                                 braid_error *error) {
    return braid_fail(error, code == ENOSPC || code == EDQUOT ? BRAID_FULL : BRAID_IO,
                      "cannot %s %zu bytes at %llu of '%s': %s; check the disk, or name another state directory", verb,
                      bytes, (unsigned long long)offset, f->path,
                      code ? strerror(code) : "the file is shorter than it was");
}

braid_err block_file_read(block_file *f, uint64_t offset, void *data, size_t bytes, braid_error *error) {
    pace(f, bytes);
    uint64_t number = atomic_fetch_add(&f->reads, 1) + 1;
    if (number == f->faults.fail_read) return transfer_failed(f, "read", offset, bytes, EIO, error);
    if (number == f->faults.stall_read) sleep_until(now_ns() + f->faults.stall_ns);
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(f->fd, (char *)data + done, bytes - done, (off_t)(BLOCK_FILE_ALIGNMENT + offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return transfer_failed(f, "read", offset, bytes, got < 0 ? errno : 0, error);
        done += (size_t)got;
    }
    return BRAID_OK;
}

braid_err block_file_write(block_file *f, uint64_t offset, const void *data, size_t bytes, braid_error *error) {
    pace(f, bytes);
    if (is_nth(&f->writes, f->faults.fail_write)) return transfer_failed(f, "write", offset, bytes, EIO, error);
    for (size_t done = 0; done < bytes;) {
        ssize_t put =
            pwrite(f->fd, (const char *)data + done, bytes - done, (off_t)(BLOCK_FILE_ALIGNMENT + offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return transfer_failed(f, "write", offset, bytes, put < 0 ? errno : ENOSPC, error);
        done += (size_t)put;
    }
    return BRAID_OK;
}

// --- opening

static braid_err open_in(block_file *f, const char *directory, braid_error *error) {
    int length = snprintf(f->path, sizeof f->path, "%s/%s", directory, file_name);
    if (length < 0 || (size_t)length >= sizeof f->path)
        return braid_fail(error, BRAID_LIMIT, "the path of the state directory is too long; name a shorter one");
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return braid_fail(error, BRAID_IO, "cannot make the state directory '%s': %s; name another one", directory,
                          strerror(errno));
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0)
        return braid_fail(error, BRAID_IO, "cannot open '%s': %s; name another state directory", f->path,
                          strerror(errno));
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_STATE, "'%s' is in use by another process; name another state directory", f->path);
}

// The owner in a file's first page: printable text with a line end, or "".
static void read_owner(const char *page, char owner[BLOCK_FILE_MAX_OWNER + 1]) {
    const char *at = page + sizeof magic - 1;
    size_t length = 0;
    while (length < BLOCK_FILE_MAX_OWNER && at[length] > ' ' && at[length] <= '~') length++;
    if (at[length] != '\n') length = 0;
    memcpy(owner, at, length);
    owner[length] = 0;
}

// Refuses a file that is not this owner's. An empty one is left by a process that ended while it
// created the file.
static braid_err check_owner(const block_file *f, const char *owner, const char *page, size_t bytes,
                             braid_error *error) {
    char found[BLOCK_FILE_MAX_OWNER + 1];
    if (bytes == 0) return BRAID_OK;
    bool ours = bytes == BLOCK_FILE_ALIGNMENT && memcmp(page, magic, sizeof magic - 1) == 0;
    if (ours) read_owner(page, found);
    if (!ours || !found[0])
        return braid_fail(error, BRAID_STATE, "'%s' is not a state file of braid; name another state directory",
                          f->path);
    if (strcmp(found, owner) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_STATE,
                      "'%s' has the state of another run (%.12s); name another state directory, or remove the file if "
                      "that run does not need it any more",
                      f->path, found);
}

// Some file systems accept O_DIRECT and then refuse the first transfer.
static bool try_direct(block_file *f, char *page) {
    int flags = fcntl(f->fd, F_GETFL);
    if (f->faults.no_direct || flags < 0 || fcntl(f->fd, F_SETFL, flags | O_DIRECT) != 0) return false;
    if (pwrite(f->fd, page, BLOCK_FILE_ALIGNMENT, 0) == BLOCK_FILE_ALIGNMENT &&
        pread(f->fd, page, BLOCK_FILE_ALIGNMENT, 0) == BLOCK_FILE_ALIGNMENT)
        return true;
    fcntl(f->fd, F_SETFL, flags);
    return false;
}

static braid_err reserve(const block_file *f, uint64_t bytes, braid_error *error) {
    int code = ftruncate(f->fd, BLOCK_FILE_ALIGNMENT) != 0
                   ? errno
                   : posix_fallocate(f->fd, 0, (off_t)(BLOCK_FILE_ALIGNMENT + bytes));
    if (code == 0) return BRAID_OK;
    bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
    return braid_fail(error, full ? BRAID_FULL : BRAID_IO,
                      "no room for the %llu MiB of '%s': %s; free some space or name another state directory",
                      (unsigned long long)(bytes >> 20) + 1, f->path, strerror(code));
}

static braid_err prepare(block_file *f, const block_file_config *config, braid_error *error) {
    braid_err err = open_in(f, config->directory, error);
    if (err) return err;
    char *page = aligned_alloc(BLOCK_FILE_ALIGNMENT, BLOCK_FILE_ALIGNMENT);
    if (!page) return braid_fail(error, BRAID_MEMORY, "no memory to open '%s'", f->path);
    memset(page, 0, BLOCK_FILE_ALIGNMENT);
    ssize_t got = pread(f->fd, page, BLOCK_FILE_ALIGNMENT, 0);
    err = got < 0 ? braid_fail(error, BRAID_IO, "cannot read '%s': %s", f->path, strerror(errno))
                  : check_owner(f, config->owner, page, (size_t)got, error);
    if (!err) {
        memset(page, 0, BLOCK_FILE_ALIGNMENT);
        snprintf(page, BLOCK_FILE_ALIGNMENT, "%s%.*s\n", magic, BLOCK_FILE_MAX_OWNER, config->owner);
        ssize_t put = pwrite(f->fd, page, BLOCK_FILE_ALIGNMENT, 0);
        if (put != BLOCK_FILE_ALIGNMENT)
            err = transfer_failed(f, "write", 0, BLOCK_FILE_ALIGNMENT, put < 0 ? errno : ENOSPC, error);
    }
    if (!err) err = reserve(f, config->bytes, error);
    if (!err) f->direct = try_direct(f, page);
    free(page);
    if (err && err != BRAID_STATE) unlink(f->path);
    return err;
}

braid_err block_file_open(const block_file_config *config, block_file **out, braid_error *error) {
    block_file *f = calloc(1, sizeof *f);
    if (!f) return braid_fail(error, BRAID_MEMORY, "no memory for a state file");
    f->fd = -1;
    f->faults = config->faults;
    f->rate = config->rate;
    pthread_mutex_init(&f->lock, NULL);
    braid_err err = prepare(f, config, error);
    if (!err) {
        *out = f;
        return BRAID_OK;
    }
    if (f->fd >= 0) close(f->fd);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return err;
}

void block_file_close(block_file *f) {
    if (!f) return;
    unlink(f->path);
    close(f->fd);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

const char *block_file_path(const block_file *f) { return f->path; }
bool block_file_direct(const block_file *f) { return f->direct; }
