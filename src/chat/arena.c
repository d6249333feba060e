#include "chat/inside.h"

#include <stdalign.h>

enum { CHUNK_BYTES = 1 << 16 };

struct arena_chunk {
    arena_chunk *next;
    size_t used, size;
    alignas(16) char bytes[];
};

static arena_chunk *new_chunk(arena *a, size_t bytes) {
    size_t size = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
    arena_chunk *c = calloc(1, sizeof *c + size);
    if (!c) return NULL;
    c->size = size;
    // a large block goes behind the newest chunk, which still has room
    arena_chunk **place = size > CHUNK_BYTES && a->chunks ? &a->chunks->next : &a->chunks;
    c->next = *place;
    *place = c;
    return c;
}

void *arena_take(arena *a, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > a->most || a->total > a->most - bytes) return NULL;
    arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < bytes) c = new_chunk(a, bytes);
    if (!c) return NULL;
    void *at = c->bytes + c->used;
    c->used += bytes;
    a->total += bytes;
    return at;
}

void arena_free(arena *a) {
    for (arena_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *a = (arena){0};
}
