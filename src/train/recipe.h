// How a model is trained: optimizer, schedule, loss, arithmetic.
#ifndef BRAID_TRAIN_RECIPE_H
#define BRAID_TRAIN_RECIPE_H

#include "model/adapter.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct train_recipe {
    uint64_t iterations, warmup;
    float learning_rate, min_learning_rate;  // warm-up, then cosine down to the minimum
    float beta1, beta2, eps, weight_decay;
    float clip;              // the largest global gradient norm; 0: no clipping
    adapter_config adapter;  // is trained, and the model's weights stay fixed; rank 0: the model itself
    bool reproducible;       // 64-bit fixed-point sums; else fp32
    // local steps (worker_local.c): each microbatch of an iteration is this many AdamW steps from the
    // iteration's weights, and the optimizer's step is a Nesterov step on the average of their
    // differences; 0: none
    uint32_t local_steps;
    uint32_t local_rows;  // tokens of one such step
    float outer_rate, outer_momentum;
    bool byte_sums;  // fast mode: members exchange sums and results in one byte a value (byte_sum.h)
} train_recipe;

#endif
