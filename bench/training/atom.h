// ATOM's experiments (V-B) from data sheets: pipelines over a network (GPipe, PipeDream) against
// machines that swap a whole model, by the time of a result.
#ifndef BRAID_BENCH_TRAINING_ATOM_H
#define BRAID_BENCH_TRAINING_ATOM_H

#include "plan/swap.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ATOM_MODELS = 8,
    ATOM_DEVICES = 3,
    ATOM_GPUS = 4,       // of a server, so stages of a pipeline
    ATOM_TOKENS = 2048,  // of a mini-batch
    ATOM_ROUNDS = 4,     // mini-batches of an iteration: gradient accumulation
};

typedef struct atom_model {
    const char *name;
    uint32_t layers, dim, heads;
} atom_model;

// Vendors' data sheets: fp32 rate, memory, and 80 % of the bus's nominal rate.
typedef struct atom_device {
    const char *name;
    double flops, memory_bytes, bus_bytes_s;
} atom_device;

extern const atom_model atom_models[ATOM_MODELS];
extern const atom_device atom_devices[ATOM_DEVICES];

typedef struct atom_result {
    double seconds;      // of a mini-batch on one GPU: GPUs * time / mini-batches
    double utilisation;  // share of the GPUs' time that computes
    bool fits;           // a pipeline's stage or a pair of sub-models in the GPU's memory
} atom_result;

typedef enum atom_policy { ATOM_GPIPE, ATOM_PIPEDREAM, ATOM_SWAP, ATOM_SWAP_PUBLISHED, ATOM_POLICIES } atom_policy;
extern const char *const atom_policy_names[ATOM_POLICIES];

uint64_t atom_parameters(const atom_model *m);
// `network`: bytes a second between GPUs, in each direction.
atom_result atom_time(const atom_model *m, const atom_device *d, atom_policy policy, double network);

// Fig. 16: one iteration of `batch` mini-batches on `servers` servers with the devices 2, 1, 0 in
// this order, with the reduction over a network of `between` bytes a second; pipelines have
// `network` between their GPUs.
typedef struct atom_total {
    double seconds, reduction_s;
} atom_total;
atom_total atom_global_batch(const atom_model *m, uint32_t servers, atom_policy policy, double network, double between,
                             uint32_t batch);

#endif
