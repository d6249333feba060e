#include "sim/queue.h"

#include "base/err.h"

#include <stdlib.h>

void sim_queue_close(sim_queue *q) {
    for (uint32_t b = 0; b < SIM_QUEUE_BUCKETS; b++) free(q->bucket[b].entry);
    *q = (sim_queue){0};
}

static void append(sim_queue_bucket *b, sim_queue_entry entry) {
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 64;
        b->entry = realloc(b->entry, b->capacity * sizeof *b->entry);
        BRAID_ALLOCATED(b->entry, b->capacity * sizeof *b->entry);
    }
    b->entry[b->count++] = entry;
}

static void put(sim_queue *q, sim_queue_entry entry) {
    uint64_t apart = entry.at_ns ^ q->now;
    uint32_t b = apart == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(apart);
    append(&q->bucket[b], entry);
    if (b > 0) q->filled |= (uint64_t)1 << (b - 1);
}

void sim_queue_put(sim_queue *q, uint64_t at_ns, void *item) {
    put(q, (sim_queue_entry){at_ns > q->now ? at_ns : q->now, item});
    q->count++;
}

static uint64_t first_time(const sim_queue_bucket *b) {
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->entry[i].at_ns < first) first = b->entry[i].at_ns;
    return first;
}

uint64_t sim_queue_next(const sim_queue *q) {
    if (q->taken < q->bucket[0].count) return q->now;
    return q->filled == 0 ? UINT64_MAX : first_time(&q->bucket[__builtin_ctzll(q->filled) + 1]);
}

// Time goes on to the first event of the lowest bucket that holds any; everything in that bucket finds a lower one.
static void advance(sim_queue *q) {
    uint32_t lowest = (uint32_t)__builtin_ctzll(q->filled);
    sim_queue_bucket *from = &q->bucket[lowest + 1];
    q->now = first_time(from);
    q->filled &= ~((uint64_t)1 << lowest);
    for (uint32_t i = 0; i < from->count; i++) put(q, from->entry[i]);
    from->count = 0;
}

bool sim_queue_take(sim_queue *q, uint64_t *at_ns, void **item) {
    if (q->count == 0) {
        q->now = 0;
        q->taken = q->bucket[0].count = 0;
        return false;
    }
    sim_queue_bucket *now = &q->bucket[0];
    if (q->taken == now->count) {
        q->taken = now->count = 0;
        advance(q);
    }
    *at_ns = now->entry[q->taken].at_ns;
    *item = now->entry[q->taken++].item;
    q->count--;
    return true;
}

size_t sim_queue_bytes(const sim_queue *q) {
    size_t entries = 0;
    for (uint32_t b = 0; b < SIM_QUEUE_BUCKETS; b++) entries += q->bucket[b].capacity;
    return entries * sizeof(sim_queue_entry);
}
