// AdamW, its schedule, and the decision that ends an iteration (docs/protocol.md, Arithmetic).
//
// Only + - * / and square root, with explicit fused multiply-adds and subnormals kept, so that
// every kind of machine gets the same bits. The leader computes clip, learning rate and bias
// corrections once; they are passed in as floats.
#ifndef BRAID_TRAIN_OPTIMIZER_H
#define BRAID_TRAIN_OPTIMIZER_H

#include "train/recipe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Outer steps of a run with local steps: the Nesterov step of DiLoCo (Douillard et al. 2023,
// arXiv:2311.08105).
//
// The inputs of an optimizer step, the same for all members.
typedef struct train_step {
    float clip;  // multiplier of the gradient; 1 without clipping
    float learning_rate;
    float bias1, bias2;  // 1 - beta^(iteration + 1)
    bool skip;           // empty contribution set, overflow, or not finite: the version rises, the weights stay
} train_step;

// Linear warm-up to the recipe's learning rate, then a cosine down to the minimum at the last
// iteration.
float train_learning_rate(const train_recipe *recipe, uint64_t iteration);
// With local steps the iteration is an outer one; train_local_step has the inner steps.
// norm2: squared norm of the averaged gradient over all stages (NaN after an overflow). `tokens`
// counts those of the contribution set.
train_step train_decide(const train_recipe *recipe, uint64_t iteration, double norm2, uint64_t tokens);

// One step on weights, moment1 and moment2. `decay` is the tensor's.
void adamw_apply(const train_recipe *recipe, const train_step *step, bool decay, size_t count, const float *gradient,
                 float *weights, float *moment1, float *moment2);

// Local step `step` (from 0) of an iteration. norm2: squared norm of the summed gradient of `tokens`
// tokens. Moments begin at zero in each iteration, because a difference must follow from the
// iteration's weights alone.
train_step train_local_step(const train_recipe *recipe, uint64_t iteration, uint32_t step, double norm2,
                            uint32_t tokens);
// The outer step: `difference` is the average of weights before minus weights after the local steps,
// times 1 / step->clip; `momentum` is kept across iterations.
void nesterov_apply(const train_recipe *recipe, const train_step *step, size_t count, const float *difference,
                    float *weights, float *momentum);

#endif
