// The computation of simulated jobs: a worker per peer. Workers run real kernels on a tiny model,
// or exact pseudo-tensors that make every mix-up of microbatch, stage, version or set visible.
#ifndef BRAID_SIM_MODEL_H
#define BRAID_SIM_MODEL_H

#include "base/err.h"
#include "braid/job.h"
#include "train/worker.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stdint.h>

// blocks: 67 million parameters a stage in blocks of real size
enum { SIM_MAX_COMPLAINT = 256, SIM_FAKE_BLOCKS = 1024 };

typedef struct sim_worker sim_worker;
struct sim_worker {
    void (*run)(sim_worker *w, const job *work, const worker_blobs *blobs, job_result *result);
    void (*free)(sim_worker *w);
    uint16_t stage;
    // not empty: a job was requested that no correct peer requests
    char complaint[SIM_MAX_COMPLAINT];
    bool reduced_known;
    message_set reduced;  // set covered by the inputs of the last JOB_REDUCE
};

typedef struct sim_model sim_model;
struct sim_model {
    uint16_t stages;
    uint32_t blocks[WIRE_MAX_STAGES], tensors[WIRE_MAX_STAGES];
    uint32_t model_tensors;
    uint16_t *tensor_stage;  // [model_tensors]
    uint64_t activation_bytes, gradient_bytes;
    bool reproducible;
    sim_worker *(*open)(const sim_model *model, uint16_t index, uint32_t capacity);
    void (*free)(sim_model *model);
};

// void_percent: share of microbatches with a loss that is not finite. overflow_percent: share with
// an overflowing sum.
typedef struct sim_fake_config {
    uint64_t seed;
    uint16_t stages;
    uint32_t microbatches;  // number in an iteration; larger numbers are held-out text
    uint32_t void_percent, overflow_percent;
    uint32_t blocks[WIRE_MAX_STAGES];  // at most SIM_FAKE_BLOCKS; 0: from the seed
    bool fast;  // claims not to be reproducible; its sums are exact nevertheless
} sim_fake_config;

sim_model *sim_fake_new(const sim_fake_config *config);

// A tiny LLaMA on generated text, with the kernels of the real process.
braid_err sim_real_new(uint64_t seed, uint16_t stages, uint32_t microbatches, uint64_t iterations, tensor_links links, sim_model **out, braid_error *error);

#endif
