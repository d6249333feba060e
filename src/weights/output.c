#define _GNU_SOURCE  // renameat2
#include "weights/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUTPUT_BUFFER = 1 << 20 };

static braid_err fail(const char *verb, const char *path, braid_error *error) {
    int why = errno;
    bool full = why == ENOSPC || why == EDQUOT;
    return braid_fail(error, full ? BRAID_FULL : BRAID_IO, "cannot %s '%s': %s%s", verb, path, strerror(why),
                      full ? "; free some space or choose another place" : "");
}

static braid_err refuse_existing(const char *path, braid_error *error) {
    return braid_fail(error, BRAID_STATE, "'%s' exists; remove it or choose another name", path);
}

braid_err output_check_free(const char *path, braid_error *error) {
    struct stat info;
    return lstat(path, &info) == 0 ? refuse_existing(path, error) : BRAID_OK;
}

braid_err output_temporary(const char *path, char out[MAPPED_MAX_PATH], braid_error *error) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (snprintf(out, MAPPED_MAX_PATH, "%.*s.tmp-%ld", (int)length, path, (long)getpid()) >= MAPPED_MAX_PATH)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", path);
    return output_check_free(out, error);
}

braid_err output_rename(const char *from, const char *to, braid_error *error) {
    int done = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    if (done != 0 && (errno == EINVAL || errno == ENOSYS)) {  // the file system cannot check it in the same step
        braid_err err = output_check_free(to, error);
        if (err) return err;
        done = rename(from, to);
    }
    if (done == 0) return BRAID_OK;
    return errno == EEXIST || errno == ENOTEMPTY ? refuse_existing(to, error) : fail("rename to", to, error);
}

braid_err output_open(output *o, const char *path, output_progress *progress, braid_error *error) {
    *o = (output){.fd = -1, .progress = progress};
    if (snprintf(o->path, sizeof o->path, "%s", path) >= (int)sizeof o->path)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", path);
    o->buffer = malloc(OUTPUT_BUFFER);
    if (!o->buffer) return braid_fail(error, BRAID_MEMORY, "no memory to write '%s'", path);
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd >= 0) return BRAID_OK;
    free(o->buffer);
    o->buffer = NULL;
    return fail("create", path, error);
}

static braid_err write_out(output *o, const uint8_t *data, size_t bytes, braid_error *error) {
    while (bytes > 0) {
        ssize_t done = write(o->fd, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail("write", o->path, error);
        data += done;
        bytes -= (size_t)done;
    }
    return BRAID_OK;
}

static braid_err flush(output *o, braid_error *error) {
    braid_err err = write_out(o, o->buffer, o->held, error);
    if (o->progress) {
        o->progress->done += o->held;
        if (o->progress->tell) o->progress->tell(o->progress->context, o->progress->done, o->progress->total);
    }
    o->held = 0;
    return err;
}

braid_err output_put(output *o, const void *data, size_t bytes, braid_error *error) {
    const uint8_t *from = data;
    o->at += bytes;
    while (bytes > 0) {
        size_t part = OUTPUT_BUFFER - o->held < bytes ? OUTPUT_BUFFER - o->held : bytes;
        memcpy(o->buffer + o->held, from, part);
        o->held += part;
        from += part;
        bytes -= part;
        if (o->held < OUTPUT_BUFFER) continue;
        braid_err err = flush(o, error);
        if (err) return err;
    }
    return BRAID_OK;
}

braid_err output_pad(output *o, size_t alignment, braid_error *error) {
    static const uint8_t zeros[64];
    size_t missing = (alignment - o->at % alignment) % alignment;
    return output_put(o, zeros, missing < sizeof zeros ? missing : 0, error);
}

static void close_file(output *o) {
    if (o->fd >= 0) close(o->fd);
    free(o->buffer);
    o->fd = -1;
    o->buffer = NULL;
}

braid_err output_finish(output *o, braid_error *error) {
    braid_err err = flush(o, error);
    if (!err && fsync(o->fd) != 0) err = fail("write", o->path, error);
    if (err)
        output_abandon(o);
    else
        close_file(o);
    return err;
}

void output_abandon(output *o) {
    if (o->fd >= 0) unlink(o->path);
    close_file(o);
}

braid_err output_file(const char *directory, const char *name, const void *data, size_t bytes, braid_error *error) {
    char path[MAPPED_MAX_PATH];
    output o;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", directory);
    braid_err err = output_open(&o, path, NULL, error);
    if (err) return err;
    err = output_put(&o, data, bytes, error);
    if (!err) return output_finish(&o, error);
    output_abandon(&o);
    return err;
}

braid_err output_replace(const char *directory, const char *name, const output_piece *pieces, uint32_t count,
                         braid_error *error) {
    char path[MAPPED_MAX_PATH], temporary[MAPPED_MAX_PATH];
    output o;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path ||
        snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", directory);
    unlink(temporary);  // of a process that was killed
    braid_err err = output_open(&o, temporary, NULL, error);
    if (err) return err;
    for (uint32_t i = 0; i < count && !err; i++) err = output_put(&o, pieces[i].at, pieces[i].bytes, error);
    if (err)
        output_abandon(&o);
    else
        err = output_finish(&o, error);
    if (!err && rename(temporary, path) != 0) err = fail("rename to", path, error);
    if (err) unlink(temporary);
    return err;
}
