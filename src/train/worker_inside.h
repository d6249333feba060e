// Private to the files of the worker; other code includes train/worker.h.
#ifndef BRAID_TRAIN_WORKER_INSIDE_H
#define BRAID_TRAIN_WORKER_INSIDE_H

#include "base/id.h"
#include "train/blocks.h"
#include "train/worker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Content hashes of the blocks at one version, as received from another peer.
typedef struct worker_names {
    bool known;
    uint64_t version;
    braid_hash *name;  // [block_count]
} worker_names;

// Tensors on the links to other stages.
typedef struct worker_link {
    size_t forward_bytes, backward_bytes;  // of an activation and of its gradient as a blob
    float *decoded, *plain;  // [activation_floats] of the job's input, and of its output before it is encoded; NULL: both codecs are fp32
} worker_link;

struct worker {
    worker_config config;
    tensor_pool *pool;
    stage *stage;
    struct {
        adapter *parts;       // NULL: none
        stage_tensor *table;  // its parameters
        float *base;          // the model's weights; only the adapted matrices are filled in
        float *merged;        // the stage's weights: model and adapter
        bool has_base, stale;  // stale: `merged` lacks the latest parameters
    } adapter;
    const stage_tensor *tensors;
    uint32_t tensor_count, block_count;
    bool text_changed;
    size_t parameters, rows;
    size_t stash_bytes;
    worker_link link;
    size_t activation_floats;  // an activation; behind them, with shape.documents, `rows` uint32: the starts of documents

    void *memory;
    size_t memory_bytes;
    // The arrays below point into `memory`. The four fp32 arrays and the sum are indexed like the
    // stage's parameters. `alone`: the results overlap the sum.
    float *weights, *moment1, *moment2, *results;
    int64_t *fixed_sum;  // reproducible
    float *plain_sum;    // fast
    block *blocks;
    uint64_t *versions;         // [block_count]
    // [block_count] number of elements that did not fit into the sum, minus those removed
    _Atomic(uint32_t) *lost;
    size_t *part_at;            // [WIRE_MAX_STAGE_MEMBERS * (block_count + 1)] offsets of blocks in packed blobs
    braid_hash *block_hash;     // [block_count]
    braid_hash *own_name;       // [block_count] content hashes at the last JOB_STATE_ROOT
    worker_names names[2];      // by version % 2
    double *block_norm2;        // [block_count]
    double *tensor_norm2;       // [tensor_count]
    int32_t *inputs, *targets;  // [capacity * rows], stage 0
    uint32_t *documents;        // [rows] of the microbatch that is drawn, with shape.documents
    uint8_t *stashes;           // [capacity * stash_bytes]

    // With local steps: the weights and moments of the local steps, the gradient, the tensors of one
    // microbatch, and the squared norm of the gradient by block.
    struct {
        float *weights, *moment1, *moment2, *gradient, *y, *dx;
        double *norm2;  // [block_count]
    } local;

    bool sum_shares;  // the sum overlaps the only stash; its first addition overwrites it
    bool sum_used;    // since the last JOB_SUM_CLEAR
    bool loaded;      // weights came from a checkpoint
    uint64_t loaded_version;
    uint64_t own_version;       // version of own_name
};

// Sums and results are exchanged in one byte a value (byte_sum.h).
static inline bool worker_has_byte_sums(const worker *w) { return w->config.recipe.byte_sums && !w->config.alone; }

// A running job.
typedef struct worker_call {
    worker *w;
    const job *work;
    const worker_blobs *blobs;
    job_result *result;
} worker_call;

// The blob's data; NULL and result->failed unless it has exactly `bytes`.
const void *worker_read(const worker_call *call, blob_id blob, uint64_t bytes);
// Memory for the output; NULL sets result->failed.
void *worker_write(const worker_call *call, uint64_t bytes);
// Before the stage computes: brings the merged weights of an adapter up to date.
void worker_refresh(worker *w);
// True if blocks [first, first + count) exist; else sets result->failed.
bool worker_range(const worker_call *call);
// Calls `task` for each of `count` blocks on several threads.
void worker_each(const worker_call *call, uint32_t count, tensor_task_fn task, void *context);
// SHA-256 over `count` consecutive hashes.
braid_hash worker_root(const braid_hash *hashes, uint32_t count);
// Hashes `values` of blocks 2 * pair and, if there is one, 2 * pair + 1 into block_hash.
void worker_hash_pair(worker *w, size_t pair, const float *values);

// Inputs of the local steps of a microbatch.
typedef struct worker_local_host {
    const worker_call *call;
    // Draws the tokens of step `step`. False: the text changed.
    bool (*draw)(const worker_call *call, uint32_t step, int32_t *inputs, int32_t *targets);
    // Adds elements from `offset` to the sum, or takes them out of it. Several threads call it for
    // disjoint ranges.
    void (*add)(void *context, size_t offset, const float *difference, size_t count);
    void *context;
} worker_local_host;

// Takes the local steps from the iteration's weights, and adds the difference to the sum. The stash
// has the gradient of the first step's microbatch.
void worker_local_steps(const worker_local_host *host, void *stash);

void worker_forward(const worker_call *call);
void worker_loss(const worker_call *call);
void worker_backward(const worker_call *call);
void worker_weight(const worker_call *call);
void worker_sum_clear(const worker_call *call);
void worker_pack(const worker_call *call);
void worker_reduce(const worker_call *call);
void worker_result_put(const worker_call *call);
void worker_result_get(const worker_call *call);
void worker_norm(const worker_call *call);
void worker_decide(const worker_call *call);
void worker_apply(const worker_call *call);
void worker_state_root(const worker_call *call);
void worker_state_get(const worker_call *call);
void worker_state_put(const worker_call *call);
void worker_state_init(const worker_call *call);
void worker_leaves(const worker_call *call);
void worker_names_get(const worker_call *call);
void worker_names_put(const worker_call *call);
void worker_state_keep(const worker_call *call);
// True if `bytes` match the content hash of the block at `version`.
bool worker_is_named(const worker *w, uint64_t version, uint32_t index, const uint8_t *bytes);

#endif
