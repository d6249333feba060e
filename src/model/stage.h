// A stage: contiguous blocks of a model, and what one machine does with a microbatch there.
//
// Stage 0 of a run also holds the two ends: embedding, final norm, head and loss. Forward, input gradient and weight
// gradient are three calls on a microbatch's stash, so that weight gradients can wait for the commit.
//
// Memory: sizes are asked first, the caller binds its own memory, nothing is allocated per microbatch. All arrays are
// fp32, row-major, aligned to 64 bytes. rows = sequences * tokens.
#ifndef BRAID_MODEL_STAGE_H
#define BRAID_MODEL_STAGE_H

#include "base/err.h"
#include "model/config.h"
#include "tensor/pool.h"

#include <stddef.h>
#include <stdint.h>

enum { STAGE_MAX_ROWS = 1 << 20 };  // tokens of a microbatch

// One parameter tensor of a stage.
typedef struct stage_tensor {
    char name[96];        // Hugging Face's name, e.g. model.layers.3.self_attn.q_proj.weight
    uint32_t canonical;   // position in the canonical order of the whole model: embeddings, blocks, final norm, head
    uint32_t rows, cols;  // cols == 1 for vectors (then one-dimensional in files)
    uint8_t dims;         // 1 or 2
    bool decay;           // weight decay applies (matrices, not vectors or embeddings' norms)
    size_t offset;        // of the first element in the stage's parameter array
    size_t elements;
} stage_tensor;

typedef struct stage_shape {
    uint32_t layer_begin, layer_end;  // blocks [begin, end)
    bool ends;                        // stage 0: embedding, final norm, head, loss
    uint32_t sequences, tokens;       // of one microbatch
    bool recompute;                   // keep only the input, compute the rest again before the input gradient
    bool fastest;                     // products by what this processor does best: their bits may be of its own (tensor/gemm.h)
} stage_shape;

typedef struct stage stage;

// Where the gradients of one microbatch go, `count` elements at a time from `offset` of the stage's parameter array on; called once
// per element of each tensor, possibly from several threads for disjoint ranges.
typedef struct stage_sink {
    void (*take)(void *context, size_t offset, const float *gradient, size_t count);  // fp32, finished
    // Memory in which they may be made at once instead, and are not handed over then; NULL: there is none
    float *(*place)(void *context, size_t offset);
    void *context;
} stage_sink;

// Creates a stage; parameters are not set. `pool` is borrowed and outlives it. Free with stage_free.
braid_err stage_new(const model_config *config, const stage_shape *shape, tensor_pool *pool, stage **out,
                    braid_error *error);
void stage_free(stage *s);

size_t stage_parameters(const stage *s);  // elements
uint32_t stage_tensor_count(const stage *s);
const stage_tensor *stage_tensors(const stage *s);  // canonical order
uint32_t model_tensor_count(const model_config *config);
// Stage that holds each canonical tensor, for blocks_per_stage[stages]; out[model_tensor_count].
void model_tensor_stages(const model_config *config, const uint32_t *blocks_per_stage, uint32_t stages, uint16_t *out);

// Binds the parameter array (stage_parameters elements, borrowed). May be called again with another array.
void stage_bind(stage *s, float *parameters);
// Fills parameters from (seed, tensor name, element): the same whatever the split.
void stage_init(const stage *s, float *parameters, uint64_t seed);

size_t stage_stash_bytes(const stage *s);          // of one microbatch
size_t stage_work_bytes(const stage *s);           // work area, one per stage, allocated inside stage_new
size_t stage_activation_elements(const stage *s);  // rows * dim

// tokens[rows] -> y, for stage 0; x -> y otherwise (the unused one is NULL). stash: stage_stash_bytes, aligned to 64 bytes,
// any content; it then belongs to this microbatch until its weight gradient. Tokens are below the vocabulary. Arrays of
// one call do not overlap.
void stage_forward(stage *s, void *stash, const int32_t *tokens, const float *x, float *y);
// Stage 0 only: final norm, head, cross-entropy of x (the last stage's output) against targets[rows] (-1: not counted).
// Returns the sum of token losses in fp64 and writes the counted tokens; dx (gradient of that sum) unless NULL.
// The stash keeps what the head's weight gradient needs; stage_forward must have run on it (and forgets an older loss).
double stage_loss(stage *s, void *stash, const float *x, const int32_t *targets, float *dx, uint32_t *tokens);
// dy -> dx (dx NULL for stage 0). What the weight gradient needs stays in the stash. Returns the lowest gradient: dx, or that
// of the embedding's output, valid until the stash is used again. What is not finite above shows there in every split.
const float *stage_input_gradient(stage *s, void *stash, const float *dy, float *dx);
// Hands every gradient of this microbatch to `sink`, or makes it in the place that the sink has for it. The stash is free afterwards.
void stage_weight_gradient(stage *s, void *stash, const stage_sink *sink);
// Both, for who need not hand dx on at once: the same bits, sooner, since each block is read again while the cache has it.
const float *stage_gradients(stage *s, void *stash, const float *dy, float *dx, const stage_sink *sink);
// A sum of one microbatch's gradients, indexed like the parameters, may lie in the memory of that microbatch's stash: its
// size rounded up to 64 bytes, it has to end at least this many bytes after the stash. What the sink gets then belongs
// where the stash is used no more.
size_t stage_sum_overhang(const stage *s, size_t element_bytes);

#endif
