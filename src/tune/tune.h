// Tuning of a model by a LoRA adapter, in one process. The result is a function of the model, the
// data and the settings: not of threads, memory, or interruptions.
#ifndef BRAID_TUNE_TUNE_H
#define BRAID_TUNE_TUNE_H

#include "train/solo.h"
#include "tune/base.h"
#include "tune/packing.h"
#include "tune/state.h"

typedef struct tune_config {
    const model_file *file;
    tensor_pool *pool;
    const tune_examples *examples;
    const tune_examples *held_out;  // a file of its own; NULL: `held_percent` of the examples
    double held_percent;
    adapter_config adapter;
    const tune_remote *remote;             // borrowed; NULL: this process computes all layers
    const char *targets_text, *base_name;  // of the PEFT files
    const peft_adapter *from;              // starts with these values; NULL: from the seed
    uint64_t iterations;                   // 0: three passes over the data
    uint64_t validate_every, save_every;
    uint32_t patience;  // evaluations without a lower held-out loss; 0: no early stop
    uint32_t sequence, batch;
    float learning_rate;
    uint64_t seed, max_memory;
    const char *directory;
    bool resume;
    void *context;
    void (*tell)(void *context, const solo_event *event);
    solo_wish (*wish)(void *context);  // NULL: no requests
} tune_config;

typedef struct tune_result {
    uint64_t iteration, of, best_iteration;
    double loss;       // mean of the last iteration; NAN: there was none
    double best_loss;  // held-out; INFINITY: without held-out examples
    uint64_t tokens;   // read by this process
    bool begun, stopped, abandoned;
    bool saved;          // the directory has a state of this run
    bool early;          // the held-out loss did not fall any more
    braid_hash weights;  // of the adapter as written
} tune_result;

braid_err tune_run(const tune_config *config, tune_result *out, braid_error *error);

#endif
