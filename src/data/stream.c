#include "data/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { INPUT_BYTES = 1 << 17, MAGIC_BYTES = 4, GZIP_WINDOW = 16 + MAX_WBITS };

typedef enum stream_kind { STREAM_PLAIN, STREAM_GZIP, STREAM_ZSTD } stream_kind;

struct data_stream {
    const char *path;
    int fd;
    stream_kind kind;
    z_stream gzip;
    ZSTD_DCtx *zstd;
    bool at_end;   // of the file
    bool in_part;  // inside a gzip member or a zstd frame
    size_t at, count;
    uint8_t input[INPUT_BYTES];
};

static braid_err read_failed(const data_stream *s, braid_error *error) {
    return braid_fail(error, BRAID_IO, "cannot read '%s': %s", s->path, strerror(errno));
}

// Appends what the next read gives to the input that is left.
static braid_err fill(data_stream *s, braid_error *error) {
    memmove(s->input, s->input + s->at, s->count - s->at);
    s->count -= s->at;
    s->at = 0;
    while (!s->at_end && s->count < INPUT_BYTES) {
        ssize_t n = read(s->fd, s->input + s->count, INPUT_BYTES - s->count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return read_failed(s, error);
        if (n == 0) s->at_end = true;
        s->count += (size_t)n;
        if (n > 0) break;
    }
    return BRAID_OK;
}

static bool begins_with(const data_stream *s, const char *magic, size_t length) {
    return s->count - s->at >= length && memcmp(s->input + s->at, magic, length) == 0;
}

static braid_err choose_kind(data_stream *s, braid_error *error) {
    braid_err err = BRAID_OK;
    while (!err && !s->at_end && s->count < MAGIC_BYTES) err = fill(s, error);
    if (err) return err;
    if (begins_with(s, "\x1f\x8b", 2)) {
        s->kind = STREAM_GZIP;
        if (inflateInit2(&s->gzip, GZIP_WINDOW) != Z_OK) err = BRAID_MEMORY;
    } else if (begins_with(s, "\x28\xb5\x2f\xfd", 4)) {
        s->kind = STREAM_ZSTD;
        if (!(s->zstd = ZSTD_createDCtx())) err = BRAID_MEMORY;
    }
    return err ? braid_fail(error, err, "no memory to decompress '%s'", s->path) : BRAID_OK;
}

static braid_err open_regular(data_stream *s, braid_error *error) {
    struct stat about;
    // O_NONBLOCK: a pipe would block until a writer opens it
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &about) != 0) return read_failed(s, error);
    if (S_ISREG(about.st_mode)) return BRAID_OK;
    return braid_fail(error, BRAID_IO, "'%s' is not a regular file, and sources are read more than once", s->path);
}

braid_err data_stream_open(const char *path, data_stream **out, braid_error *error) {
    data_stream *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", path);
    s->path = path;
    s->fd = -1;
    braid_err err = open_regular(s, error);
    if (!err) err = choose_kind(s, error);
    if (err)
        data_stream_close(s);
    else
        *out = s;
    return err;
}

void data_stream_close(data_stream *s) {
    if (!s) return;
    if (s->kind == STREAM_GZIP) inflateEnd(&s->gzip);
    ZSTD_freeDCtx(s->zstd);
    if (s->fd >= 0) close(s->fd);
    free(s);
}

static braid_err damaged(const data_stream *s, const char *why, braid_error *error) {
    return braid_fail(error, BRAID_FORMAT, "'%s' cannot be decompressed: %s; restore the file", s->path, why);
}

static size_t copy_plain(data_stream *s, uint8_t *to, size_t capacity) {
    size_t count = s->count - s->at < capacity ? s->count - s->at : capacity;
    memcpy(to, s->input + s->at, count);
    s->at += count;
    return count;
}

static braid_err inflate_some(data_stream *s, uint8_t *to, size_t capacity, size_t *count, braid_error *error) {
    if (!s->in_part && inflateReset(&s->gzip) != Z_OK) return damaged(s, "zlib gives up", error);
    s->in_part = true;
    s->gzip.next_in = s->input + s->at;
    s->gzip.avail_in = (uInt)(s->count - s->at);
    s->gzip.next_out = to;
    s->gzip.avail_out = (uInt)(capacity < 1 << 30 ? capacity : 1 << 30);
    size_t room = s->gzip.avail_out;
    int code = inflate(&s->gzip, Z_NO_FLUSH);
    *count = room - s->gzip.avail_out;
    s->at = s->count - s->gzip.avail_in;
    if (code == Z_STREAM_END) s->in_part = false;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return BRAID_OK;
    return damaged(s, s->gzip.msg ? s->gzip.msg : "its gzip data is malformed", error);
}

static braid_err unzstd_some(data_stream *s, uint8_t *to, size_t capacity, size_t *count, braid_error *error) {
    ZSTD_inBuffer in = {s->input, s->count, s->at};
    ZSTD_outBuffer out = {to, capacity, 0};
    size_t left = ZSTD_decompressStream(s->zstd, &out, &in);
    s->at = in.pos;
    *count = out.pos;
    if (ZSTD_isError(left)) return damaged(s, ZSTD_getErrorName(left), error);
    s->in_part = left != 0;
    return BRAID_OK;
}

static braid_err read_some(data_stream *s, uint8_t *to, size_t capacity, size_t *count, braid_error *error) {
    switch (s->kind) {
    case STREAM_GZIP: return inflate_some(s, to, capacity, count, error);
    case STREAM_ZSTD: return unzstd_some(s, to, capacity, count, error);
    default: *count = copy_plain(s, to, capacity); return BRAID_OK;
    }
}

braid_err data_stream_read(data_stream *s, void *to, size_t capacity, size_t *count, braid_error *error) {
    uint8_t *at = to;
    braid_err err = BRAID_OK;
    *count = 0;
    while (!err && *count < capacity) {
        size_t some = 0;
        if (s->at == s->count && !s->at_end) err = fill(s, error);
        if (err || (s->at == s->count && s->at_end && !s->in_part)) break;
        err = read_some(s, at + *count, capacity - *count, &some, error);
        *count += some;
        if (!err && some == 0 && s->at == s->count && s->at_end && s->in_part)
            err = damaged(s, "it is truncated", error);
    }
    return err;
}
