// Bytes that grow. Memory that runs out is remembered in `failed`; what is added then is dropped.
#ifndef BRAID_TEXT_BUFFER_H
#define BRAID_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffer {
    char *at;
    size_t count, capacity;
    bool failed;
    bool full;    // failed because of `most`
    size_t most;  // about the largest count, 0: no limit; memory from before may hold more
} buffer;

static inline bool buffer_room(buffer *b, size_t more) {
    if (b->capacity - b->count >= more) return true;
    if (b->most > 0 && (more > b->most || b->count > b->most - more)) {
        b->failed = b->full = true;
        return false;
    }
    size_t capacity = b->capacity * 2 < b->count + more ? b->count + more + 64 : b->capacity * 2;
    char *at = realloc(b->at, capacity);
    if (!at) {
        b->failed = true;
        return false;
    }
    b->at = at;
    b->capacity = capacity;
    return true;
}

static inline void buffer_add(buffer *b, const void *bytes, size_t count) {
    if (count == 0 || !buffer_room(b, count)) return;
    memcpy(b->at + b->count, bytes, count);
    b->count += count;
}

static inline void buffer_byte(buffer *b, char byte) { buffer_add(b, &byte, 1); }

static inline void buffer_free(buffer *b) {
    free(b->at);
    *b = (buffer){0};
}

#endif
