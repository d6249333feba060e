// Events in order of (time, sequence): two events of one time keep the order in which they were put
// in.
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) over times that never decrease. An event's
// bucket is given by the highest hexadecimal digit in which its time differs from the current time,
// and by the value of that digit. An event moves to a lower level a few times at most, always in a
// sweep over an array. Events of the same time keep their order on the way.
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
    uint32_t taken;   // number of events taken from `soon`
    uint32_t count;   // waiting events
    uint32_t held, most;  // entries with memory, now and at most
    uint32_t levels;  // bit l: a bucket of level l is not empty
    uint16_t filled[SIM_QUEUE_LEVELS];  // bit d: the bucket of digit d is not empty
    sim_queue_bucket soon;              // events of the current time
    sim_queue_bucket bucket[SIM_QUEUE_LEVELS][SIM_QUEUE_DIGITS];
} sim_queue;

void sim_queue_close(sim_queue *q);
// `item` is opaque. A time before that of the latest event counts as that time, until
// sim_queue_take has reported an empty queue.
void sim_queue_put(sim_queue *q, uint64_t at_ns, void *item);
// False: the queue is empty.
bool sim_queue_take(sim_queue *q, uint64_t *at_ns, void **item);
// The time of the next event; UINT64_MAX: there is none.
uint64_t sim_queue_next(const sim_queue *q);
// Most bytes held so far.
size_t sim_queue_bytes(const sim_queue *q);

#endif
