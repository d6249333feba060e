// Events in order of (time, sequence): two events of one time keep the order in which they were put in.
#ifndef BRAID_SIM_QUEUE_H
#define BRAID_SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_queue_entry {
    uint64_t at_ns, sequence;
    void *item;
} sim_queue_entry;

typedef struct sim_queue {
    sim_queue_entry *heap;
    uint32_t count, capacity;
    uint64_t next_sequence;
} sim_queue;

void sim_queue_close(sim_queue *q);
// `item` is only carried.
void sim_queue_put(sim_queue *q, uint64_t at_ns, void *item);
// False when it is empty.
bool sim_queue_take(sim_queue *q, uint64_t *at_ns, void **item);

#endif
