// A frozen model with an adapter. The weights stay in the form of their file: each layer is converted
// to fp32 when it is computed, and again for the backward pass. So the memory is that of one layer,
// the head, and the activations.
//
// The layers may be elsewhere (tune_remote): then only the ends are computed here. A machine that
// lends some layers has a base without the ends (`part`). The bits are the same in each case.
#ifndef BRAID_TUNE_BASE_H
#define BRAID_TUNE_BASE_H

#include "model/adapter.h"
#include "weights/model_file.h"
#include "weights/peft.h"

typedef struct tune_base tune_base;

// Layers that other machines compute. Each call blocks until its result is there, or fails.
typedef struct tune_remote {
    void *context;
    // Once, before the others: what each microbatch has, and the adapter's elements in a layer.
    braid_err (*open)(void *context, const adapter_config *adapter, uint32_t sequences, uint32_t tokens,
                      size_t layer_parameters, braid_error *error);
    // The adapter of the calls until `end`; borrowed.
    void (*begin)(void *context, const float *parameters);
    // x[rows, dim] -> y[rows, dim]. `keep`: backward follows for the same microbatch.
    braid_err (*forward)(void *context, const uint32_t *documents, const float *x, bool keep, float *y,
                         braid_error *error);
    // Adds the microbatch's gradient to `gradient`, or nothing if it fails.
    braid_err (*backward)(void *context, const float *dy, float *gradient, braid_error *error);
    // The other machines forget the adapter.
    void (*end)(void *context);
} tune_remote;

typedef struct tune_part {
    uint32_t begin, end;  // layers [begin, end) without the ends; equal: all layers and the ends
} tune_part;

typedef struct tune_base_config {
    const model_file *file;  // borrowed, as the pool
    tensor_pool *pool;
    adapter_config adapter;
    tune_part part;
    const tune_remote *remote;   // borrowed; NULL: the layers are computed here
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

// Around the microbatches that have the same parameters. With layers elsewhere they travel once.
void tune_base_begin(tune_base *b, const float *parameters);
void tune_base_end(tune_base *b);

// A microbatch, each array of [sequences * tokens] (model/stage.h). *loss is the sum of the losses of
// its targets; adds the gradient of that sum; `gradient` NULL: only the loss. Fails only with layers
// elsewhere.
typedef struct tune_microbatch {
    const int32_t *tokens, *targets;
    const uint32_t *documents;
} tune_microbatch;
braid_err tune_base_run(tune_base *b, const tune_microbatch *m, const float *parameters, float *gradient, double *loss,
                        braid_error *error);

// Of a base without the ends: the same in parts. `parameters` and `gradient` are those of its layers.
// x[rows, dim] -> y[rows, dim]; then dy -> dx, with the gradient added. dx may be dy.
void tune_base_forward(tune_base *b, const uint32_t *documents, const float *x, const float *parameters, float *y);
void tune_base_backward(tune_base *b, const uint32_t *documents, const float *dy, const float *parameters, float *dx,
                        float *gradient);
// Overwrites all memory that was computed from the adapter's parameters.
void tune_base_wipe(tune_base *b);

#endif
