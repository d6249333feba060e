#include "sim/queue.h"

#include "base/err.h"

#include <stdlib.h>

void sim_queue_close(sim_queue *q) {
    free(q->soon.entry);
    for (uint32_t l = 0; l < SIM_QUEUE_LEVELS; l++)
        for (uint32_t d = 0; d < SIM_QUEUE_DIGITS; d++) free(q->bucket[l][d].entry);
    *q = (sim_queue){0};
}

enum { KEPT = 4096 };  // an empty bucket keeps memory for at most so many entries

static void append(sim_queue *q, sim_queue_bucket *b, sim_queue_entry entry) {
    if (b->count == b->capacity) {
        uint32_t more = b->capacity ? b->capacity : 64;
        b->capacity += more;
        q->held += more;
        if (q->held > q->most) q->most = q->held;
        b->entry = realloc(b->entry, b->capacity * sizeof *b->entry);
        BRAID_ALLOCATED(b->entry, b->capacity * sizeof *b->entry);
    }
    b->entry[b->count++] = entry;
}

static void put(sim_queue *q, sim_queue_entry entry) {
    uint64_t apart = entry.at_ns ^ q->now;
    if (apart == 0) {
        append(q, &q->soon, entry);
        return;
    }
    uint32_t level = (63 - (uint32_t)__builtin_clzll(apart)) / SIM_QUEUE_BITS;
    uint32_t digit = entry.at_ns >> level * SIM_QUEUE_BITS & (SIM_QUEUE_DIGITS - 1);
    append(q, &q->bucket[level][digit], entry);
    q->filled[level] |= (uint16_t)(1u << digit);
    q->levels |= 1u << level;
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
    if (q->taken < q->soon.count) return q->now;
    if (q->levels == 0) return UINT64_MAX;
    uint32_t level = (uint32_t)__builtin_ctz(q->levels);
    return first_time(&q->bucket[level][__builtin_ctz(q->filled[level])]);
}

// Advances time to the first event of the lowest bucket with events. All events of that bucket move
// to a lower one.
static void advance(sim_queue *q) {
    uint32_t level = (uint32_t)__builtin_ctz(q->levels), digit = (uint32_t)__builtin_ctz(q->filled[level]);
    sim_queue_bucket *from = &q->bucket[level][digit];
    q->now = first_time(from);
    q->filled[level] &= (uint16_t)~(1u << digit);
    if (q->filled[level] == 0) q->levels &= ~(1u << level);
    if (level == 0) {  // all events of the bucket have the same time
        sim_queue_bucket empty = q->soon;
        q->soon = *from;
        *from = empty;
        return;
    }
    for (uint32_t i = 0; i < from->count; i++) put(q, from->entry[i]);
    from->count = 0;
    if (from->capacity <= KEPT) return;
    q->held -= from->capacity;
    free(from->entry);
    *from = (sim_queue_bucket){0};
}

bool sim_queue_take(sim_queue *q, uint64_t *at_ns, void **item) {
    if (q->count == 0) {
        q->now = 0;
        q->taken = q->soon.count = 0;
        return false;
    }
    sim_queue_bucket *now = &q->soon;
    if (q->taken == now->count) {
        q->taken = now->count = 0;
        advance(q);
    }
    *at_ns = now->entry[q->taken].at_ns;
    *item = now->entry[q->taken++].item;
    q->count--;
    return true;
}

size_t sim_queue_bytes(const sim_queue *q) { return (size_t)q->most * sizeof(sim_queue_entry); }
