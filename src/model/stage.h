// A stage: contiguous blocks of a model, and the computation of one machine on a microbatch.
//
// Stage 0 of a run also has the two ends: embedding, final norm, head and loss. Forward, input
// gradient and weight gradient are three calls on a microbatch's stash, so that weight gradients
// can wait for the commit.
//
// Memory: the caller asks for sizes and provides the memory; nothing is allocated per microbatch.
// All arrays are fp32, row-major, aligned to 64 bytes. rows = sequences * tokens.
#ifndef BRAID_MODEL_STAGE_H
#define BRAID_MODEL_STAGE_H

#include "base/err.h"
#include "model/config.h"
#include "model/rows.h"
#include "tensor/codec.h"
#include "tensor/pool.h"

#include <stddef.h>
#include <stdint.h>

enum { STAGE_MAX_ROWS = 1 << 20 };  // tokens per sequence of a microbatch

// One parameter tensor of a stage.
typedef struct stage_tensor {
    char name[MODEL_TENSOR_NAME];  // Hugging Face's name, e.g. model.layers.3.self_attn.q_proj.weight
    uint32_t canonical;            // position in the canonical order of the whole model (rows.h)
    uint32_t rows, cols;  // cols == 1 for vectors (then one-dimensional in files)
    uint8_t dims;         // 1 or 2
    bool decay;           // weight decay applies (matrices, not vectors)
    size_t offset;        // of the first element in the stage's parameter array
    size_t elements;
} stage_tensor;

// Links between stages. A stage that holds several stages of a run rounds at their boundaries as
// their links would.
typedef struct stage_links {
    tensor_codec forward, backward;           // of activations, of their gradients
    uint64_t starts[MODEL_MAX_LAYERS / 64];  // layers at which another stage of the run begins, inside this one
} stage_links;

typedef struct stage_shape {
    uint32_t layer_begin, layer_end;  // blocks [begin, end)
    bool ends;                        // stage 0: embedding, final norm, head, loss
    uint32_t sequences, tokens;       // of one microbatch
    bool recompute;                   // keep only the input; recompute the rest before the input gradient
    bool documents;  // attention ends where a token's document begins (stage_set_documents)
    stage_links links;
    bool frozen;     // without weight gradients of its own, only those of an adapter (adapter.h)
    bool fastest;  // use the processor's fastest products; the bits may differ (tensor/gemm.h)
} stage_shape;

typedef struct stage stage;

// Receives the gradients of one microbatch: `count` elements from `offset` of the stage's parameter
// array. Called once per element of each tensor, possibly from several threads for disjoint ranges.
typedef struct stage_sink {
    void (*take)(void *context, size_t offset, const float *gradient, size_t count);  // fp32, finished
    // Returns memory in which the gradients are computed instead of a call of `take`; NULL: none
    float *(*place)(void *context, size_t offset);
    void *context;
} stage_sink;

// Creates a stage without parameters. `pool` is borrowed and outlives the stage. Free with
// stage_free.
braid_err stage_new(const model_config *config, const stage_shape *shape, tensor_pool *pool, stage **out,
                    braid_error *error);
void stage_free(stage *s);

size_t stage_parameters(const stage *s);  // elements
uint32_t stage_tensor_count(const stage *s);
const stage_tensor *stage_tensors(const stage *s);  // canonical order

// Sets the parameter array (stage_parameters elements, borrowed). Another array may be set later.
void stage_bind(stage *s, float *parameters);
// Makes a stage of one block, without ends, the stage of another layer. All layers have tensors of the
// same shapes; names and canonical positions change. Stashes are empty afterwards.
void stage_move(stage *s, uint32_t layer);
// Initialises parameters from (seed, tensor name, element), independent of the split.
void stage_init(const stage *s, float *parameters, uint64_t seed);

size_t stage_stash_bytes(const stage *s);          // of one microbatch
size_t stage_work_bytes(const stage *s);           // the work area, allocated once in stage_new
size_t stage_activation_elements(const stage *s);  // rows * dim

// With shape.documents, before stage_forward on the same stash: first[rows], for each token the
// position in its sequence where its document begins. stage_documents_valid must hold.
void stage_set_documents(stage *s, void *stash, const uint32_t *first);
// True if each of `first` is the token's own position or that of the token before it.
bool stage_documents_valid(const stage_shape *shape, const uint32_t *first);
// tokens[rows] -> y[rows, dim] for stage 0; x[rows, dim] -> y[rows, dim] otherwise (the unused
// input is NULL). stash: stage_stash_bytes, aligned to 64 bytes, any content; it belongs to this
// microbatch until its weight gradient. Tokens are below the vocabulary. The arrays of one call do
// not overlap.
void stage_forward(stage *s, void *stash, const int32_t *tokens, const float *x, float *y);
// Stage 0 only: final norm, head, and cross-entropy of x (the last stage's output) against
// targets[rows] (-1: ignored). Returns the sum of token losses in fp64 and writes the number of
// counted tokens; dx (gradient of that sum) unless NULL. The stash keeps the inputs of the head's
// weight gradient. stage_forward must have run on it; a new call discards an older loss.
double stage_loss(stage *s, void *stash, const float *x, const int32_t *targets, float *dx, uint32_t *tokens);
// dy -> dx (dx NULL for stage 0). The stash keeps the inputs of the weight gradient. Returns the
// lowest gradient: dx, or that of the embedding's output, valid until the next use of the stash. A
// NaN or infinity in any block reaches it, whatever the split.
const float *stage_input_gradient(stage *s, void *stash, const float *dy, float *dx);
// Passes every gradient of this microbatch to `sink`, or computes it in the memory that the sink
// provides. The stash is free afterwards.
void stage_weight_gradient(stage *s, void *stash, const stage_sink *sink);
// Input and weight gradients together, for callers that need not send dx early. The bits are the
// same; it is faster, because each block is reused while it is in the cache.
const float *stage_gradients(stage *s, void *stash, const float *dy, float *dx, const stage_sink *sink);
// Of a stage that has only the ends: the gradients of its elements [first, end), given the gradient dy of
// the embedding's output. May be called for several ranges; the sink may also get elements outside.
void stage_ends_gradients(stage *s, void *stash, const float *dy, size_t first, size_t end, const stage_sink *sink);
// The sum of one microbatch's gradients, indexed like the parameters, may overlap the memory of
// that microbatch's stash. Its size is rounded up to 64 bytes, and it must end at least this many
// bytes after the stash. The weight gradients then overwrite only parts of the stash that are no
// longer used.
size_t stage_sum_overhang(const stage *s, size_t element_bytes);

#endif
