// The router of a mixture of experts.
#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

// The expert with the largest logit of those that are not among chosen[count].
static uint32_t largest(const float *logits, size_t experts, const uint32_t *chosen, size_t count) {
    uint32_t best = UINT32_MAX;
    for (uint32_t e = 0; e < experts; e++) {
        bool taken = false;
        for (size_t i = 0; i < count; i++) taken = taken || chosen[i] == e;
        if (!taken && (best == UINT32_MAX || !(logits[e] <= logits[best]))) best = e;
    }
    return best;
}

static void sort(uint32_t *chosen, size_t count) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && chosen[j - 1] > chosen[j]; j--) {
            uint32_t other = chosen[j];
            chosen[j] = chosen[j - 1];
            chosen[j - 1] = other;
        }
}

// logits[experts] become their softmax.
TENSOR_WIDE
static void softmax_row(float *logits, size_t experts, float top) {
    for (size_t e = 0; e < experts; e++) logits[e] = wide_exp(logits[e] - top);
    float inverse = 1.0f / lanes_sum(logits, experts);
    for (size_t e = 0; e < experts; e++) logits[e] *= inverse;
}

void tensor_route_rows(const tensor_router *r, size_t rows, float *logits, uint32_t *chosen, float *weights) {
    for (; rows > 0; rows--, logits += r->experts, chosen += r->used, weights += r->used) {
        for (size_t i = 0; i < r->used; i++) chosen[i] = largest(logits, r->experts, chosen, i);
        float top = logits[chosen[0]], sum = 0;
        sort(chosen, r->used);
        softmax_row(logits, r->experts, top);
        for (size_t i = 0; i < r->used; i++) sum += logits[chosen[i]];
        for (size_t i = 0; i < r->used; i++) weights[i] = logits[chosen[i]] / (r->normalised ? sum : 1.0f);
    }
}

// Weights that are normalised depend on the chosen experts' logits alone, as their softmax.
void tensor_route_gradient_rows(const tensor_router *r, size_t rows, float *probabilities, const uint32_t *chosen,
                                const float *weights, const float *d_weights) {
    for (; rows > 0; rows--) {
        float mean = 0;
        for (size_t i = 0; i < r->used; i++) mean += weights[i] * d_weights[i];
        for (size_t e = 0; e < r->experts; e++) probabilities[e] = r->normalised ? 0.0f : probabilities[e] * -mean;
        for (size_t i = 0; i < r->used; i++) probabilities[chosen[i]] = weights[i] * (d_weights[i] - mean);
        probabilities += r->experts, chosen += r->used, weights += r->used, d_weights += r->used;
    }
}
