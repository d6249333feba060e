// The rates of a machine's tiers of memory.
#define _GNU_SOURCE  // O_DIRECT
#include "train/files.h"
#include "train/profile_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 64 << 20, COPY_REPS = 5, FILE_BYTES = 256 << 20, PIECE_BYTES = 4 << 20, PAGE = 4096 };

void profile_memory_rate(train_profile *out) {
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double best = 0;
    for (int i = 0; from && to && i <= COPY_REPS; i++) {
        memset(from, i, PAGE);
        double start = profile_now();
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" : : "r"(to) : "memory");  // the copy is not left out
        double rate = COPY_BYTES / (profile_now() - start);
        if (i > 0 && rate > best) best = rate;  // the first one only makes the pages
    }
    out->memory_bytes_s = best;
    free(from);
    free(to);
}

// Without the page cache where the file system allows it.
static int open_file(const char *path, int flags, bool *direct) {
    int fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0600);
    *direct = fd >= 0;
    return fd >= 0 || errno != EINVAL ? fd : open(path, flags | O_CLOEXEC, 0600);
}

static braid_err move_file(const char *path, bool writing, double *rate, bool *direct, braid_error *error) {
    void *piece = aligned_alloc(PAGE, PIECE_BYTES);
    if (!piece) return braid_fail(error, BRAID_MEMORY, "no memory to measure %s", path);
    memset(piece, 0x5a, PIECE_BYTES);
    int fd = open_file(path, writing ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, direct);
    braid_err err = fd < 0 ? braid_fail(error, BRAID_IO, "cannot open %s: %s", path, strerror(errno)) : BRAID_OK;
    double start = profile_now();
    for (uint64_t at = 0; at < FILE_BYTES && !err; at += PIECE_BYTES)
        err = writing ? files_write_at(fd, path, piece, PIECE_BYTES, at, error)
                      : files_read_at(fd, path, piece, PIECE_BYTES, at, error);
    if (!err && writing && fdatasync(fd))
        err = braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
    *rate = FILE_BYTES / (profile_now() - start);
    if (fd >= 0) close(fd);
    free(piece);
    return err;
}

static void forget_pages(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

braid_err profile_file_rates(const char *directory, train_profile *out, braid_error *error) {
    char path[FILES_MAX_PATH];
    bool read_direct;
    braid_err err = files_join(directory, "profile.tmp", path, error);
    if (!err) err = move_file(path, true, &out->write_bytes_s, &out->direct, error);
    if (!err && !out->direct) forget_pages(path);
    if (!err) err = move_file(path, false, &out->read_bytes_s, &read_direct, error);
    unlink(path);
    return err;
}
