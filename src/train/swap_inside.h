// Private to the files of swapped training.
#ifndef BRAID_TRAIN_SWAP_INSIDE_H
#define BRAID_TRAIN_SWAP_INSIDE_H

#include "model/stage.h"
#include "store/tier.h"
#include "train/swap.h"

#include <stdatomic.h>

// The parts of a unit's state in the file. With one microbatch at a time the sums have a part, too.
typedef enum swap_part { SWAP_WEIGHTS, SWAP_MOMENT1, SWAP_MOMENT2, SWAP_RESULTS, SWAP_PARTS } swap_part;

// Kinds of buffers.
enum { SHELF_WEIGHTS, SHELF_SUMS, SHELF_ACTIVATIONS, SHELF_ENDS, SHELF_STASHES, SHELVES };

enum { SWAP_AHEAD = 2, CHUNKS = 3, STATE_ROOM = 3 };

// A layer, or the ends together. Elements are numbered as in its stage's parameter array.
typedef struct swap_unit {
    stage *stage;
    size_t elements;
    uint64_t at[SWAP_PARTS];  // offsets in the file
    tier_block weights;       // not of the ends: their weights stay in memory
    tier_block *sums;         // [segments] of `segment` elements each, the last one shorter
    size_t segment;
    uint32_t segments;
} swap_unit;

// The same for all layers.
typedef struct swap_table {
    const stage_tensor *tensors;
    uint32_t tensor_count, block_count;
    block *blocks;
} swap_table;

typedef struct swap_chunk {
    float *part[SWAP_PARTS];
    store_transfer transfer[SWAP_PARTS];
} swap_chunk;

// Memory for one step at a time.
typedef struct swap_room {
    void *stash;               // of a layer and one microbatch; NULL with `kept`
    float *output, *gradient;  // [activation]
    float *carry;              // [BLOCK_ELEMENTS] results of a block that two segments share
    uint8_t *bounce;           // STATE_ROOM blocks with room for alignment
} swap_room;

// The microbatches of a group.
typedef struct swap_drawn {
    int32_t *tokens, *targets;  // [group * rows]
    uint32_t *documents;        // [group * rows]
    bool *counted;              // [group] its loss is finite
} swap_drawn;

struct swap {
    swap_config config;
    swap_options options;
    const run_config *run;
    tensor_pool *pool;
    stage *layer, *ends;
    swap_table layer_table, ends_table;
    uint32_t layers, before_blocks;  // blocks of the whole model before the first layer
    uint32_t group;                  // microbatches that pass through a layer together
    size_t rows, activation;         // elements
    stage_links links;
    bool fixed;        // sums are 64-bit integers
    size_t sum_bytes;  // of an element

    block_file *file;
    store_io *io;
    tier *tier;
    tier_shelf shelf[SHELVES];
    uint64_t file_bytes, memory_bytes;
    swap_unit *unit;        // [layers + 1], the ends last
    tier_block *inputs;     // [(layers + 1) * group] of each layer, and of the loss
    tier_block *gradients;  // [group]
    tier_block *stashes;    // [group] of the ends
    tier_block *kept;       // [layers * group] activations of blocks; NULL: not kept
    tier_block moment;      // while the state is loaded

    uint8_t *arena;
    size_t arena_bytes;
    float *ends_weights;
    bool ends_loaded;
    swap_room room;
    size_t chunk;  // elements
    swap_chunk chunks[CHUNKS];
    void *tables;
    swap_drawn drawn;
    _Atomic(uint32_t) *lost;  // [split->block_count] elements that did not fit into the sums
    double *block_norm2;      // [split->block_count]
    bool torn;                // an optimizer step began and failed
};

static inline swap_unit *swap_ends(const swap *s) { return &s->unit[s->layers]; }
static inline const swap_table *swap_table_of(const swap *s, const swap_unit *u) {
    return u->stage == s->ends ? &s->ends_table : &s->layer_table;
}
// The number in the whole model of block `index` of a unit.
uint32_t swap_block_number(const swap *s, const swap_unit *u, uint32_t index);
// swap_sums.c
// Begins the sum of a segment: zero, or from the file if `first` is false.
void *swap_sum_begin(swap *s, swap_unit *u, uint32_t segment, bool first, braid_error *error);
// Ends it: divides it by `tokens` if `last`, and starts to write it.
void swap_sum_end(swap *s, swap_unit *u, uint32_t segment, bool last, uint64_t tokens);
// A sink of gradients for one segment.
typedef struct swap_sink {
    swap *s;
    swap_unit *unit;
    size_t first, end;  // elements
    void *sum;
} swap_sink;
swap_sink swap_sink_of(swap *s, swap_unit *u, uint32_t segment, void *sum);
void swap_take(void *sink, size_t offset, const float *gradient, size_t count);
// swap_memory.c: the plan of memory and file
braid_err swap_reserve(swap *s, braid_error *error);
// Waits for the transfers that have begun if the baseline runs.
braid_err swap_pause(swap *s, braid_error *error);

#endif
