// Training a whole model on one machine by swapping (ATOM, III-C and III-D): which layers are loaded
// together, which stay, and how long an iteration takes.
//
// An iteration runs A microbatches through one sub-model after the other (layer-major), forward and
// then backward. While a sub-model computes, the next one is read from the lower tier and the last
// one is written back. Two neighbouring sub-models are in memory at once. So the last two of the
// forward pass need no reading for the backward pass, nor do the first two for the next iteration.
#ifndef BRAID_PLAN_SWAP_H
#define BRAID_PLAN_SWAP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SWAP_MAX_ITEMS = 130 };  // 128 layers and the two ends

// A part that is moved as a whole: the embedding, a layer, or the head. Seconds are those of all
// microbatches of an iteration; none is negative.
typedef struct swap_item {
    double forward_s, backward_s;
    double load_s;   // reading it for the forward pass
    double again_s;  // reading it for the backward pass
    double store_s;  // writing it after the backward pass
    double apply_s;  // a second pass of reading and writing for the optimizer; 0: none is needed
    double bytes;    // in memory while it is in use
    double cut;      // bytes of the activations behind it (for Algorithm 1's choice)
} swap_item;

typedef struct swap_machine {
    double memory;  // bytes for items
    bool duplex;    // reading and writing do not share the lower tier's rate
} swap_machine;

// Items [0, resident) stay in memory. Sub-model g has the items [begin[g], begin[g + 1]);
// begin[0] == resident, begin[groups] == the number of items.
typedef struct swap_plan {
    uint32_t resident, groups;
    uint32_t begin[SWAP_MAX_ITEMS + 1];
    double seconds;    // of an iteration
    double compute_s;  // of these, computing
} swap_plan;

// One step: a sub-model computes while another one is read and a third one is written.
enum { SWAP_RESIDENT = UINT32_MAX, SWAP_NONE = UINT32_MAX - 1 };
typedef struct swap_step {
    bool backward, apply;
    uint32_t group;          // that computes; SWAP_RESIDENT: the resident items
    uint32_t read, written;  // groups; SWAP_NONE: none
    double compute_s, read_s, write_s, seconds;
} swap_step;

typedef void (*swap_step_fn)(void *context, const swap_step *step);

// Computes plan->seconds and compute_s from its other fields, and calls `each` (may be NULL) for
// every step of an iteration in order. False: neighbouring sub-models do not fit.
bool swap_plan_time(const swap_item *item, uint32_t count, const swap_machine *machine, swap_plan *plan,
                    swap_step_fn each, void *context);

// Scratch memory of swap_plan_best, aligned for double.
size_t swap_plan_room(uint32_t count);

// The plan with the shortest iteration among all numbers of resident items and all partitions of the
// others into sub-models of which two neighbours are in memory: dynamic programming over the last two
// sub-models, O(count^5) at worst. BRAID_LIMIT: no partition fits, or more than SWAP_MAX_ITEMS.
braid_err swap_plan_best(const swap_item *item, uint32_t count, const swap_machine *machine, void *room,
                         swap_plan *best, braid_error *error);

// ATOM's Algorithm 1 as published: all partitions in which each sub-model fits by itself and computes
// for at least as long as its successor is read; of these, that with the smallest cuts. It keeps
// no items and looks only at the forward pass. *visited: calls of PartitionModel; the search ends at
// `most` of them. BRAID_LIMIT: it found none. The plan's time is that of swap_plan_time,
// or infinite if neighbouring sub-models do not fit together.
braid_err swap_plan_published(const swap_item *item, uint32_t count, const swap_machine *machine, uint64_t most,
                              uint64_t *visited, swap_plan *out, braid_error *error);

#endif
