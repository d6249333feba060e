#define _GNU_SOURCE  // asprintf
#include "data/cache_inside.h"

#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITE_BYTES = 1 << 20 };

_Static_assert(WRITE_BYTES % CACHE_CHUNK_BYTES == 0, "whole chunks are written");

struct cache_writer {
    char *path, *part;
    int fd;
    FILE *ends;  // an unlinked file, because there may be more documents than memory
    cache_header header;
    uint64_t document_tokens;
    bool failed;  // `why` is the system's error
    int why;
    braid_hash *chunk;
    size_t chunks, chunk_room, used;
    uint8_t bytes[WRITE_BYTES];
};

static void fail(cache_writer *w, int why) {
    if (!w->failed) w->why = why;
    w->failed = true;
}

static braid_err failure(const cache_writer *w, braid_error *error) {
    braid_err err = w->why == ENOSPC || w->why == EDQUOT ? BRAID_FULL : BRAID_IO;
    return braid_fail(error, err, "cannot write '%s': %s; set data.cache to a directory with room", w->part,
                      strerror(w->why));
}

static void write_all(cache_writer *w, const void *bytes, size_t count) {
    for (const uint8_t *at = bytes; count > 0 && !w->failed;) {
        ssize_t n = write(w->fd, at, count);
        if (n < 0 && errno != EINTR) fail(w, errno);
        if (n <= 0) continue;
        at += n;
        count -= (size_t)n;
    }
}

static bool chunk_room(cache_writer *w) {
    if (w->chunks < w->chunk_room) return true;
    size_t room = w->chunk_room ? 2 * w->chunk_room : 64;
    braid_hash *more = realloc(w->chunk, room * sizeof *more);
    if (!more) return false;
    w->chunk = more;
    w->chunk_room = room;
    return true;
}

static void flush(cache_writer *w) {
    for (size_t at = 0; at < w->used && !w->failed; at += CACHE_CHUNK_BYTES) {
        size_t count = w->used - at < CACHE_CHUNK_BYTES ? w->used - at : CACHE_CHUNK_BYTES;
        if (chunk_room(w))
            w->chunk[w->chunks++] = sha256_of(w->bytes + at, count);
        else
            fail(w, ENOMEM);
    }
    write_all(w, w->bytes, w->used);
    w->used = 0;
}

static void put(cache_writer *w, const void *bytes, size_t count) {
    for (const uint8_t *at = bytes; count > 0;) {
        size_t some = count < WRITE_BYTES - w->used ? count : WRITE_BYTES - w->used;
        memcpy(w->bytes + w->used, at, some);
        w->used += some;
        at += some;
        count -= some;
        if (w->used == WRITE_BYTES) flush(w);
    }
}

// The ends are kept beside the ids, which come first in the file.
static FILE *open_ends(const cache_writer *w) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s.ends", w->path) >= (int)sizeof path) return NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    unlink(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!file && fd >= 0) close(fd);
    return file;
}

braid_err cache_writer_new(const char *path, uint32_t width, cache_writer **out, braid_error *error) {
    static const uint8_t zeros[CACHE_HEADER_BYTES];
    cache_writer *w = calloc(1, sizeof *w);
    if (w) w->path = strdup(path);
    if (!w || !w->path || asprintf(&w->part, "%s.part", path) < 0) {
        if (w) free(w->path);
        free(w);
        return braid_fail(error, BRAID_MEMORY, "no memory to write '%s'", path);
    }
    w->header.width = width;
    w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd >= 0) w->ends = open_ends(w);
    if (w->fd < 0 || !w->ends) fail(w, errno);
    write_all(w, zeros, sizeof zeros);
    if (w->failed) {
        braid_err err = failure(w, error);
        cache_writer_abort(w);
        return err;
    }
    *out = w;
    return BRAID_OK;
}

void cache_put(cache_writer *w, const uint32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t two = (uint16_t)ids[i];
        uint8_t one = (uint8_t)ids[i];
        if (ids[i] >= w->header.limit) w->header.limit = ids[i] + 1;
        if (w->header.width == 4)
            put(w, &ids[i], 4);
        else if (w->header.width == 2)
            put(w, &two, 2);
        else
            put(w, &one, 1);
    }
    w->document_tokens += count;
}

braid_err cache_end_document(cache_writer *w, braid_error *error) {
    if (w->document_tokens > 0) {
        w->header.tokens += w->document_tokens;
        w->header.documents++;
        w->document_tokens = 0;
        if (fwrite(&w->header.tokens, sizeof w->header.tokens, 1, w->ends) != 1) fail(w, errno);
    }
    return w->failed ? failure(w, error) : BRAID_OK;
}

static void put_ends(cache_writer *w) {
    uint64_t ends[512], zero = 0;
    size_t count;
    put(w, &zero, (size_t)(cache_ids_bytes(w->header.tokens, w->header.width) - w->header.tokens * w->header.width));
    if (fflush(w->ends) != 0 || fseek(w->ends, 0, SEEK_SET) != 0) fail(w, errno);
    while (!w->failed && (count = fread(ends, sizeof *ends, sizeof ends / sizeof *ends, w->ends)) > 0)
        put(w, ends, count * sizeof *ends);
    if (ferror(w->ends)) fail(w, EIO);
    flush(w);
}

static void put_header(cache_writer *w, const cache_summary *about) {
    cache_header *h = &w->header;
    memcpy(h->magic, CACHE_MAGIC, sizeof h->magic);
    h->version = CACHE_VERSION;
    h->order = CACHE_ORDER;
    h->text_bytes = about->text_bytes;
    h->rows_without = about->rows_without;
    h->key = about->key;
    h->tokenizer = about->tokenizer;
    h->content = cache_content(h, w->chunk);
    h->own = sha256_of(h, offsetof(cache_header, own));
    if (!w->failed && pwrite(w->fd, h, sizeof *h, 0) != (ssize_t)sizeof *h) fail(w, errno);
}

braid_err cache_writer_end(cache_writer *w, cache_summary *about, braid_error *error) {
    put_ends(w);
    write_all(w, w->chunk, w->chunks * sizeof *w->chunk);
    put_header(w, about);
    if (!w->failed && fsync(w->fd) != 0) fail(w, errno);
    if (!w->failed && rename(w->part, w->path) != 0) fail(w, errno);
    about->content = w->header.content;
    about->tokens = w->header.tokens;
    about->documents = w->header.documents;
    about->width = w->header.width;
    about->limit = w->header.limit;
    braid_err err = w->failed ? failure(w, error) : BRAID_OK;
    cache_writer_abort(w);
    return err;
}

void cache_writer_abort(cache_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->part) unlink(w->part);  // after a rename there is none
    if (w->ends) fclose(w->ends);
    free(w->chunk);
    free(w->part);
    free(w->path);
    free(w);
}
