// Shared by the files of braid bench step: models, measurements, output.
#ifndef BRAID_CLI_BENCH_STEP_INSIDE_H
#define BRAID_CLI_BENCH_STEP_INSIDE_H

#include "braid/job.h"
#include "tensor/gemm.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

enum { STEP_MODELS = 4, STEP_MAX_REPS = 1000, STEP_MAX_LOOPS = 64, STEP_MAX_SHAPES = 20 };

typedef struct step_model {
    const char *name;
    model_config model;
    uint32_t sequences, tokens;
} step_model;

extern const step_model step_models[STEP_MODELS];

// Time spent in one function's loops, over the measured steps.
typedef struct step_loop {
    const char *function;
    uint64_t calls, nanoseconds;
} step_loop;

// A matrix product of the step, timed alone.
typedef struct step_shape {
    const char *what;
    size_t m, n, k;
    bool a_transposed, b_transposed;
    uint32_t per_step;
    double seconds;  // median of one product, in one thread's processor time
    double peak;     // peak speed of a core during the timing
} step_shape;

typedef struct step_bench {
    const step_model *model;
    uint64_t threads, reps, warmup;
    bool reproducible, fastest, recompute, shapes_wanted, json;
    // measured
    double seconds[STEP_MAX_REPS];    // of each step
    double processor[STEP_MAX_REPS];  // seconds of all threads
    double peaks[STEP_MAX_REPS];      // of a core beside each step, operations per second: its frequency varies
    double processor_start, last_peak;
    uint32_t steps;
    double loss;
    uint64_t parameters;
    step_loop loop[STEP_MAX_LOOPS];
    uint32_t loops;
    uint64_t job_ns[JOB_KINDS];
    step_shape shape[STEP_MAX_SHAPES];
    uint32_t shapes;
    uint64_t peak_memory;
} step_bench;

// bench_step_gemm.c
double step_peak(void);
braid_err step_time_shapes(step_bench *b, braid_error *error);
// Operations that one step's matrix products require: without recomputation, and with only the
// lower half of attention.
double step_operations(const step_bench *b);
double step_median(double *values, uint32_t count);  // sorts `values`
double step_processor_now(void);                     // processor time of this process, in seconds

// bench_step_print.c
bool step_print(const step_bench *b);

#endif
