#include "store/tier.h"

#include <stdlib.h>

typedef struct buffer {
    uint8_t *data;
    tier_block *block;  // NULL: none
    store_transfer transfer;
    uint32_t uses;  // since tier_take
    bool dirty;
    uint64_t used;  // time of the last use, for the choice of a buffer
} buffer;

struct tier {
    store_io *io;
    uint32_t shelves;
    tier_shelf shelf[TIER_MAX_SHELVES];
    buffer *first[TIER_MAX_SHELVES];  // of each shelf, in `buffers`
    uint64_t time;
    uint32_t count;
    buffer buffers[];
};

size_t tier_memory(const tier_shelf *shelves, uint32_t count) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += shelves[i].bytes * shelves[i].buffers;
    return bytes;
}

braid_err tier_new(const tier_shelf *shelves, uint32_t count, store_io *io, void *memory, tier **out,
                   braid_error *error) {
    BRAID_ASSERT(count <= TIER_MAX_SHELVES);
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < count; i++) buffers += shelves[i].buffers;
    tier *t = calloc(1, sizeof *t + buffers * sizeof *t->buffers);
    if (!t) return braid_fail(error, BRAID_MEMORY, "no memory for a table of %u buffers", buffers);
    t->io = io;
    t->shelves = count;
    uint8_t *at = memory;
    for (uint32_t i = 0; i < count; i++) {
        BRAID_ASSERT(shelves[i].bytes % BLOCK_FILE_ALIGNMENT == 0);
        t->shelf[i] = shelves[i];
        t->first[i] = &t->buffers[t->count];
        for (uint32_t k = 0; k < shelves[i].buffers; k++, at += shelves[i].bytes) t->buffers[t->count++].data = at;
    }
    *out = t;
    return BRAID_OK;
}

void tier_free(tier *t) {
    if (!t) return;
    for (uint32_t i = 0; i < t->count; i++) store_io_wait(t->io, &t->buffers[i].transfer, NULL);
    free(t);
}

static buffer *buffer_of(tier *t, const tier_block *b) {
    return b->buffer == TIER_NONE ? NULL : &t->first[b->shelf][b->buffer];
}

static bool on_its_way(const tier *t, const buffer *b) { return !store_io_finished(t->io, &b->transfer); }

static void leave(buffer *b) {
    if (b->block) b->block->buffer = TIER_NONE;
    b->block = NULL;
    b->dirty = false;
}

static void enter(tier *t, buffer *b, tier_block *block) {
    leave(b);
    b->block = block;
    b->used = ++t->time;
    block->buffer = (uint32_t)(b - t->first[block->shelf]);
}

// The least recently used buffer that is neither in use nor changed; `moving`: also one on its way.
static buffer *find_free(tier *t, uint32_t shelf, bool moving) {
    buffer *best = NULL;
    for (uint32_t i = 0; i < t->shelf[shelf].buffers; i++) {
        buffer *b = &t->first[shelf][i];
        if (b->uses > 0 || b->dirty || (!moving && on_its_way(t, b))) continue;
        if (!b->block && !on_its_way(t, b)) return b;
        if (!best || b->used < best->used) best = b;
    }
    return best;
}

static buffer *oldest_dirty(tier *t, uint32_t shelf) {
    buffer *best = NULL;
    for (uint32_t i = 0; i < t->shelf[shelf].buffers; i++) {
        buffer *b = &t->first[shelf][i];
        if (b->uses == 0 && b->dirty && (!best || b->used < best->used)) best = b;
    }
    return best;
}

static void start(tier *t, buffer *b, bool write) {
    store_io_start(t->io, &b->transfer, write, b->block->offset, b->data, b->block->bytes);
    if (write) b->dirty = false;
}

static buffer *make_free(tier *t, uint32_t shelf, braid_error *error) {
    buffer *b = find_free(t, shelf, false);
    if (b) return b;
    b = find_free(t, shelf, true);
    if (!b) {
        b = oldest_dirty(t, shelf);
        BRAID_ASSERT(b);
        if (store_io_wait(t->io, &b->transfer, error)) return NULL;
        start(t, b, true);
    }
    return store_io_wait(t->io, &b->transfer, error) ? NULL : b;
}

void *tier_take(tier *t, tier_block *block, bool fresh, braid_error *error) {
    buffer *b = buffer_of(t, block);
    if (!b) {
        b = make_free(t, block->shelf, error);
        if (!b) return NULL;
        enter(t, b, block);
        if (!fresh) start(t, b, false);
    }
    b->used = ++t->time;
    // A block that is being written can be read meanwhile.
    bool waits = fresh || !b->transfer.write;
    if (waits && store_io_wait(t->io, &b->transfer, error)) {
        leave(b);
        return NULL;
    }
    b->uses++;
    return b->data;
}

void *tier_memory_of(tier *t, const tier_block *block) {
    buffer *b = buffer_of(t, block);
    BRAID_ASSERT(b && b->uses > 0);
    return b->data;
}

void tier_give(tier *t, tier_block *block, tier_end end) {
    buffer *b = buffer_of(t, block);
    BRAID_ASSERT(b && b->uses > 0);
    b->uses--;
    if (end == TIER_DIRTY) b->dirty = true;
    if (end == TIER_WRITE) start(t, b, true);
    if (end == TIER_DROP) leave(b);
}

void tier_discard(tier *t, tier_block *block) {
    buffer *b = buffer_of(t, block);
    BRAID_ASSERT(!b || b->uses == 0);
    if (b) leave(b);
}

void tier_prefetch(tier *t, tier_block *block) {
    if (block->buffer != TIER_NONE) return;
    buffer *b = find_free(t, block->shelf, false);
    if (!b) return;
    enter(t, b, block);
    start(t, b, false);
}

void *tier_cached(tier *t, const tier_block *block) {
    buffer *b = buffer_of(t, block);
    bool ready = b && !b->dirty && store_io_finished(t->io, &b->transfer) && !b->transfer.failed;
    return ready ? b->data : NULL;
}

braid_err tier_settle(tier *t, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < t->count; i++) {
        braid_err one = store_io_wait(t->io, &t->buffers[i].transfer, err ? NULL : error);
        if (!err) err = one;
    }
    return err;
}

braid_err tier_forget(tier *t, braid_error *error) {
    braid_err err = tier_settle(t, error);
    for (uint32_t i = 0; i < t->count; i++) leave(&t->buffers[i]);
    return err;
}
