// Events in order of (time, sequence): two events of one time keep the order in which they were put in.
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) over times that never go back: the bucket of a level and a digit holds what
// differs from the time now in the hexadecimal digit of that level at the highest, and has that digit there. An event moves to a lower
// level a few times at most, always in a sweep over an array, and what has the same time keeps its order on the way.
#ifndef BRAID_SIM_QUEUE_H
#define BRAID_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_QUEUE_BITS = 4, SIM_QUEUE_DIGITS = 1 << SIM_QUEUE_BITS, SIM_QUEUE_LEVELS = 64 / SIM_QUEUE_BITS };

typedef struct sim_queue_entry {
    uint64_t at_ns;
    void *item;
} sim_queue_entry;

typedef struct sim_queue_bucket {
    sim_queue_entry *entry;
    uint32_t count, capacity;
} sim_queue_bucket;

typedef struct sim_queue {
    uint64_t now;     // time of the latest event taken
    uint32_t taken;   // of `soon`
    uint32_t count;   // events that wait
    uint32_t held, most;  // entries that there is memory for, now and at most
    uint32_t levels;  // bit l: a bucket of that level is not empty
    uint16_t filled[SIM_QUEUE_LEVELS];  // bit d: that of this digit is not
    sim_queue_bucket soon;              // events of the time now
    sim_queue_bucket bucket[SIM_QUEUE_LEVELS][SIM_QUEUE_DIGITS];
} sim_queue;

void sim_queue_close(sim_queue *q);
// `item` is only carried. A time before that of the latest event taken counts as that one, until sim_queue_take has
// said that the queue is empty.
void sim_queue_put(sim_queue *q, uint64_t at_ns, void *item);
// False when it is empty.
bool sim_queue_take(sim_queue *q, uint64_t *at_ns, void **item);
// The time of the event to be taken next; UINT64_MAX: there is none.
uint64_t sim_queue_next(const sim_queue *q);
// Bytes held at most.
size_t sim_queue_bytes(const sim_queue *q);

#endif
