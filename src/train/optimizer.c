#include "train/optimizer.h"

#include <math.h>

static double power(double base, uint64_t exponent) {
    double result = 1;
    while (exponent > 0) {
        if (exponent & 1) result *= base;
        base *= base;
        exponent >>= 1;
    }
    return result;
}

// cos(pi * x) for x in [0, 1]. The library's cosine may differ between machines; this polynomial
// does not.
static double half_wave(double x) {
    const double pi = 3.14159265358979323846;
    bool upper = x > 0.5;
    double angle = (upper ? 1 - x : x) * pi;
    double term = 1, sum = 1;
    for (int k = 1; k <= 12; k++) {
        term *= -angle * angle / (double)((2 * k - 1) * (2 * k));
        sum += term;
    }
    return upper ? -sum : sum;
}

static float rate_at(const train_recipe *recipe, uint64_t step, uint64_t warmup, uint64_t steps) {
    double top = (double)recipe->learning_rate, low = (double)recipe->min_learning_rate;
    if (step < warmup) return (float)(top * (double)(step + 1) / (double)warmup);
    if (step + 1 >= steps) return steps > warmup + 1 ? (float)low : (float)top;
    double way = (double)(step - warmup) / (double)(steps - 1 - warmup);
    return (float)(low + (top - low) * 0.5 * (1 + half_wave(way)));
}

float train_learning_rate(const train_recipe *recipe, uint64_t iteration) {
    return rate_at(recipe, iteration, recipe->warmup, recipe->iterations);
}

// Results are differences per token, so `clip` restores the whole difference.
static train_step decide_outer(const train_recipe *recipe, double norm2, uint64_t tokens) {
    train_step step = {.learning_rate = recipe->outer_rate, .bias1 = 1, .bias2 = 1};
    step.clip = (float)recipe->local_rows * (float)recipe->local_steps;
    step.skip = tokens == 0 || !isfinite(norm2);
    return step;
}

train_step train_local_step(const train_recipe *recipe, uint64_t iteration, uint32_t step, double norm2,
                            uint32_t tokens) {
    uint64_t steps = recipe->local_steps;
    train_step out = {
        .learning_rate = rate_at(recipe, iteration * steps + step, recipe->warmup * steps, recipe->iterations * steps)};
    out.bias1 = (float)(1 - power((double)recipe->beta1, step + 1));
    out.bias2 = (float)(1 - power((double)recipe->beta2, step + 1));
    double norm = sqrt(norm2), most = (double)recipe->clip * tokens;
    out.skip = tokens == 0;
    double scale = most > 0 && norm > most ? most / norm : 1;
    out.clip = out.skip ? 0 : (float)(scale / tokens);
    return out;
}

train_step train_decide(const train_recipe *recipe, uint64_t iteration, double norm2, uint64_t tokens) {
    if (recipe->local_steps > 0) return decide_outer(recipe, norm2, tokens);
    train_step step = {.clip = 1, .learning_rate = train_learning_rate(recipe, iteration)};
    step.bias1 = (float)(1 - power((double)recipe->beta1, iteration + 1));
    step.bias2 = (float)(1 - power((double)recipe->beta2, iteration + 1));
    step.skip = tokens == 0 || !isfinite(norm2);
    if (step.skip) return step;
    double norm = sqrt(norm2), most = (double)recipe->clip;
    if (most > 0 && norm > most) step.clip = (float)(most / norm);
    return step;
}

typedef struct adamw {
    float clip, beta1, beta2, rest1, rest2, keep, rate, root_bias2, eps;
} adamw;

static inline __attribute__((always_inline)) void apply(const adamw *a, size_t count, const float *restrict gradient,
                                                        float *restrict weights, float *restrict moment1,
                                                        float *restrict moment2) {
    const adamw c = *a;
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * c.clip;
        float m = fmaf(c.beta1, moment1[i], c.rest1 * g);
        float v = fmaf(c.beta2, moment2[i], c.rest2 * g * g);
        float denominator = sqrtf(v) / c.root_bias2 + c.eps;
        weights[i] = fmaf(-c.rate, m / denominator, weights[i] * c.keep);
        moment1[i] = m;
        moment2[i] = v;
    }
}

static void apply_plain(const adamw *a, size_t count, const float *gradient, float *weights, float *moment1,
                        float *moment2) {
    apply(a, count, gradient, weights, moment1, moment2);
}

#if defined(__x86_64__)
// The same operations in wide registers, because without hardware FMA every fmaf is a call.
__attribute__((target("avx2,fma"))) static void apply_wide(const adamw *a, size_t count, const float *gradient,
                                                           float *weights, float *moment1, float *moment2) {
    apply(a, count, gradient, weights, moment1, moment2);
}
#endif

void adamw_apply(const train_recipe *recipe, const train_step *step, bool decay, size_t count, const float *gradient,
                 float *weights, float *moment1, float *moment2) {
    adamw a = {.clip = step->clip, .beta1 = recipe->beta1, .beta2 = recipe->beta2, .eps = recipe->eps};
    a.rest1 = 1 - recipe->beta1;
    a.rest2 = 1 - recipe->beta2;
    a.keep = decay ? 1 - step->learning_rate * recipe->weight_decay : 1;
    a.rate = step->learning_rate / step->bias1;
    a.root_bias2 = sqrtf(step->bias2);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        apply_wide(&a, count, gradient, weights, moment1, moment2);
        return;
    }
#endif
    apply_plain(&a, count, gradient, weights, moment1, moment2);
}

static inline __attribute__((always_inline)) void outer(const train_step *step, float momentum, size_t count,
                                                        const float *restrict difference, float *restrict weights,
                                                        float *restrict velocity) {
    const float scale = step->clip, rate = step->learning_rate;
    for (size_t i = 0; i < count; i++) {
        float d = difference[i] * scale;
        float v = fmaf(momentum, velocity[i], d);
        weights[i] = fmaf(-rate, fmaf(momentum, v, d), weights[i]);
        velocity[i] = v;
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void outer_wide(const train_step *step, float momentum, size_t count,
                                                           const float *difference, float *weights, float *velocity) {
    outer(step, momentum, count, difference, weights, velocity);
}
#endif

void nesterov_apply(const train_recipe *recipe, const train_step *step, size_t count, const float *difference,
                    float *weights, float *momentum) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        outer_wide(step, recipe->outer_momentum, count, difference, weights, momentum);
        return;
    }
#endif
    outer(step, recipe->outer_momentum, count, difference, weights, momentum);
}
