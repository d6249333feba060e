// A frozen model with an adapter, on one machine. The weights stay in the form of their file: each
// layer is converted to fp32 when it is computed, and again for the backward pass. So the memory is
// that of one layer, the head, and the activations.
#ifndef BRAID_TUNE_BASE_H
#define BRAID_TUNE_BASE_H

#include "model/adapter.h"
#include "weights/model_file.h"
#include "weights/peft.h"

typedef struct tune_base tune_base;

typedef struct tune_base_config {
    const model_file *file;  // borrowed, as the pool
    tensor_pool *pool;
    adapter_config adapter;
    uint32_t sequences, tokens;  // of a microbatch
    uint64_t max_memory;         // of the base besides its file; 0: all layers' activations are kept
} tune_base_config;

// BRAID_LIMIT: the memory does not suffice; the message names the least. Results do not depend on
// the memory. Free with tune_base_free.
braid_err tune_base_new(const tune_base_config *config, tune_base **out, braid_error *error);
void tune_base_free(tune_base *b);
size_t tune_base_parameters(const tune_base *b);  // of the adapter, elements
// The number of layers with activations kept for the backward pass; the others are computed again.
uint32_t tune_base_kept(const tune_base *b);
uint64_t tune_base_bytes(const tune_base *b);

// A random start, as peft's: B is zero.
void tune_base_init(const tune_base *b, float *parameters, uint64_t seed);
// Matrix `i` of the adapter in the memory of `parameters`, for reading and writing files.
uint32_t tune_base_matrices(const tune_base *b);
peft_matrix tune_base_matrix(const tune_base *b, uint32_t i, float *parameters);

// A microbatch, each array of [sequences * tokens] (model/stage.h). Returns the sum of the losses of
// its targets, and adds the gradient of that sum; `gradient` NULL: only the loss.
typedef struct tune_microbatch {
    const int32_t *tokens, *targets;
    const uint32_t *documents;
} tune_microbatch;
double tune_base_run(tune_base *b, const tune_microbatch *m, const float *parameters, float *gradient);

#endif
