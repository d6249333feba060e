#include "data/cache.h"

#include "base/sha256.h"
#include "data/cache_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct cache {
    char *path;
    cache_summary about;
    uint8_t *map;
    size_t bytes;
    const uint8_t *body;
    uint64_t body_bytes;
    const uint64_t *ends;
    const uint8_t *hashes;  // [chunks] of 32 bytes
    uint64_t *verified;     // bit i: chunk i
};

braid_hash cache_content(const cache_header *h, const braid_hash *chunks) {
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, &h->width, sizeof h->width);
    sha256_update(&s, &h->tokens, sizeof h->tokens);
    sha256_update(&s, &h->documents, sizeof h->documents);
    sha256_update(&s, chunks, (size_t)cache_chunks(cache_body_bytes(h)) * sizeof *chunks);
    return sha256_final(&s);
}

static braid_err damaged(const char *why, braid_error *error) {
    return braid_fail(error, BRAID_FORMAT, "the cache of tokens is damaged: %s", why);
}

static braid_err check_counts(const cache_header *h, uint64_t file_bytes, braid_error *error) {
    bool width = h->width == 1 || h->width == 2 || h->width == 4;
    uint64_t most = h->width == 4 ? (uint64_t)INT32_MAX + 1 : (uint64_t)1 << (8 * (h->width & 3));
    if (!width || h->limit > most || h->tokens > CACHE_MAX_TOKENS || h->documents > CACHE_MAX_DOCUMENTS ||
        h->documents > h->tokens)
        return damaged("its counts are impossible", error);
    uint64_t body = cache_body_bytes(h);
    if (file_bytes != CACHE_HEADER_BYTES + body + cache_chunks(body) * sizeof(braid_hash))
        return damaged("its size does not match its counts", error);
    return BRAID_OK;
}

braid_err cache_header_check(const uint8_t *bytes, size_t count, uint64_t file_bytes, cache_summary *out,
                             braid_error *error) {
    cache_header h;
    if (count < CACHE_HEADER_BYTES || file_bytes < CACHE_HEADER_BYTES) return damaged("it is truncated", error);
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, CACHE_MAGIC, sizeof h.magic) != 0) return damaged("it does not begin as one", error);
    if (h.version != CACHE_VERSION || h.order != CACHE_ORDER)
        return damaged("it is of another version of braid or of another machine", error);
    braid_hash own = sha256_of(&h, offsetof(cache_header, own));
    if (!hash_equal(&own, &h.own)) return damaged("its header does not match its hash", error);
    braid_err err = check_counts(&h, file_bytes, error);
    *out = (cache_summary){.key = h.key,
                           .tokenizer = h.tokenizer,
                           .content = h.content,
                           .tokens = h.tokens,
                           .documents = h.documents,
                           .text_bytes = h.text_bytes,
                           .rows_without = h.rows_without,
                           .width = h.width,
                           .limit = h.limit};
    return err;
}

static braid_err map_file(cache *c, braid_error *error) {
    struct stat about;
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        int why = errno;
        if (fd >= 0) close(fd);
        return braid_fail(error, BRAID_IO, "cannot read '%s': %s", c->path, strerror(why));
    }
    c->bytes = (size_t)about.st_size;
    void *map = c->bytes >= CACHE_HEADER_BYTES ? mmap(NULL, c->bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED)
        return c->bytes < CACHE_HEADER_BYTES
                   ? damaged("it is truncated", error)
                   : braid_fail(error, BRAID_MEMORY, "cannot map '%s': %s", c->path, strerror(errno));
    c->map = map;
    return BRAID_OK;
}

// Verifies the chunk unless that was done before.
static bool verify(cache *c, uint64_t chunk) {
    uint64_t bit = (uint64_t)1 << (chunk % 64), at = chunk * CACHE_CHUNK_BYTES;
    if (c->verified[chunk / 64] & bit) return true;
    uint64_t left = c->body_bytes - at;
    braid_hash found = sha256_of(c->body + at, (size_t)(left < CACHE_CHUNK_BYTES ? left : CACHE_CHUNK_BYTES));
    if (memcmp(&found, c->hashes + chunk * sizeof found, sizeof found) != 0) return false;
    c->verified[chunk / 64] |= bit;
    return true;
}

static braid_err check_ends(cache *c, braid_error *error) {
    uint64_t ids = (uint64_t)((const uint8_t *)c->ends - c->body), before = 0;
    for (uint64_t i = ids / CACHE_CHUNK_BYTES; i < cache_chunks(c->body_bytes); i++)
        if (!verify(c, i)) return damaged("the ends of its documents do not match their hash", error);
    for (uint64_t i = 0; i < c->about.documents; i++) {
        if (c->ends[i] <= before) return damaged("the ends of its documents do not rise", error);
        before = c->ends[i];
    }
    return before == c->about.tokens ? BRAID_OK : damaged("its last document does not end with its last token", error);
}

static braid_err check_file(cache *c, const braid_hash *key, braid_error *error) {
    braid_err err = cache_header_check(c->map, c->bytes, c->bytes, &c->about, error);
    if (err) return err;
    if (key && !hash_equal(key, &c->about.key)) return damaged("it is of other sources", error);
    cache_header h;
    memcpy(&h, c->map, sizeof h);
    c->body = c->map + CACHE_HEADER_BYTES;
    c->body_bytes = cache_body_bytes(&h);
    c->ends = (const uint64_t *)(const void *)(c->body + cache_ids_bytes(h.tokens, h.width));
    c->hashes = c->body + c->body_bytes;
    c->verified = calloc((size_t)cache_chunks(c->body_bytes) / 64 + 1, sizeof *c->verified);
    if (!c->verified) return braid_fail(error, BRAID_MEMORY, "no memory to open '%s'", c->path);
    braid_hash content = cache_content(&h, (const braid_hash *)(const void *)c->hashes);
    if (!hash_equal(&content, &h.content)) return damaged("the hashes of its chunks were altered", error);
    return check_ends(c, error);
}

braid_err cache_open(const char *path, const braid_hash *key, cache **out, braid_error *error) {
    cache *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        free(c);
        return braid_fail(error, BRAID_MEMORY, "no memory to open '%s'", path);
    }
    braid_err err = map_file(c, error);
    if (!err) err = check_file(c, key, error);
    if (err)
        cache_close(c);
    else
        *out = c;
    return err;
}

void cache_close(cache *c) {
    if (!c) return;
    if (c->map) munmap(c->map, c->bytes);
    free(c->verified);
    free(c->path);
    free(c);
}

const cache_summary *cache_about(const cache *c) { return &c->about; }
const char *cache_path(const cache *c) { return c->path; }
const uint64_t *cache_ends(const cache *c) { return c->ends; }

static uint32_t id_at(const cache *c, uint64_t i) {
    uint16_t two;
    uint32_t four;
    switch (c->about.width) {
    case 1: return c->body[i];
    case 2: memcpy(&two, c->body + 2 * i, 2); return two;
    default: memcpy(&four, c->body + 4 * i, 4); return four;
    }
}

bool cache_read(cache *c, uint64_t at, uint32_t count, int32_t *out) {
    BRAID_ASSERT(at <= c->about.tokens && count <= c->about.tokens - at);
    if (count == 0) return true;
    uint64_t first = at * c->about.width / CACHE_CHUNK_BYTES,
             last = ((at + count) * c->about.width - 1) / CACHE_CHUNK_BYTES;
    for (uint64_t i = first; i <= last; i++)
        if (!verify(c, i)) return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = id_at(c, at + i);
        if (id >= c->about.limit) return false;
        out[i] = (int32_t)id;
    }
    return true;
}
