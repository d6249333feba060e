#include "sim/queue.h"

#include "base/err.h"

#include <stdlib.h>

static bool entry_before(const sim_queue_entry *a, const sim_queue_entry *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

void sim_queue_close(sim_queue *q) {
    free(q->heap);
    *q = (sim_queue){0};
}

void sim_queue_put(sim_queue *q, uint64_t at_ns, void *item) {
    if (q->count == q->capacity) {
        q->capacity = q->capacity ? 2 * q->capacity : 256;
        q->heap = realloc(q->heap, q->capacity * sizeof *q->heap);
        BRAID_ASSERT(q->heap);
    }
    sim_queue_entry entry = {at_ns, q->next_sequence++, item};
    uint32_t i = q->count++;
    while (i > 0 && entry_before(&entry, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = entry;
}

bool sim_queue_take(sim_queue *q, uint64_t *at_ns, void **item) {
    if (q->count == 0) return false;
    *at_ns = q->heap[0].at_ns;
    *item = q->heap[0].item;
    sim_queue_entry last = q->heap[--q->count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= q->count) break;
        if (child + 1 < q->count && entry_before(&q->heap[child + 1], &q->heap[child])) child++;
        if (!entry_before(&q->heap[child], &last)) break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    if (q->count) q->heap[i] = last;
    return true;
}
