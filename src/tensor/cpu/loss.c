#include "tensor/cpu/wide.h"
#include "tensor/elementary.h"
#include "tensor/kernels.h"

enum { ELEMENTS_PER_TASK = 1 << 14 };

typedef struct loss_job {
    const tensor_loss *l;
    float *logits;
} loss_job;

TENSOR_WIDE
static float row_maximum(const float *x, size_t count) {
    float top = x[0];
    size_t i = 0;
    if (count >= LANES) {
        float lane[LANES];
        memcpy(lane, x, sizeof lane);
        for (i = LANES; i + LANES <= count; i += LANES)
            for (size_t l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
        for (size_t l = 0; l < LANES; l++) top = lane[l] > top ? lane[l] : top;
    }
    for (; i < count; i++) top = x[i] > top ? x[i] : top;
    return top;
}

// Up to 4,096 terms in sixteen fp32 lanes.
TENSOR_WIDE
static float exponential_part(const float *x, size_t count, float maximum) {
    lanes sum = {0}, v;
    for (size_t i = 0; i < count; i += LANES) {
        float term[LANES] = {0};
        if (i + LANES <= count)
            for (size_t l = 0; l < LANES; l++) term[l] = wide_exp(x[i + l] - maximum);
        else
            for (size_t l = 0; i + l < count; l++) term[l] = wide_exp(x[i + l] - maximum);
        lanes_load(&v, term);
        sum += v;
    }
    return lanes_add(&sum);
}

// The parts in fp64: a vocabulary of 10^5 small terms is summed as well as one of 10^2.
static double exponential_sum(const float *x, size_t count, float maximum) {
    double sum = 0;
    for (size_t from = 0; from < count; from += 4096)
        sum += (double)exponential_part(x + from, count - from < 4096 ? count - from : 4096, maximum);
    return sum;
}

TENSOR_WIDE
static void probabilities(float *x, size_t count, float maximum, float inverse) {
    for (size_t i = 0; i < count; i++) x[i] = wide_exp(x[i] - maximum) * inverse;
}

static void loss_row(const tensor_loss *l, float *logits, size_t r) {
    int32_t target = l->targets[r];
    float maximum = row_maximum(logits, l->vocab);
    double sum = exponential_sum(logits, l->vocab, maximum);
    l->maximum[r] = maximum;
    l->inverse[r] = (float)(1.0 / sum);
    l->losses[r] = target < 0 ? 0.0 : elementary_log(sum) + ((double)maximum - (double)logits[target]);
    if (!l->gradient) return;
    if (target < 0) {
        memset(logits, 0, l->vocab * sizeof *logits);
        return;
    }
    probabilities(logits, l->vocab, maximum, l->inverse[r]);
    logits[target] -= 1.0f;
}

static void loss_rows(const void *context, size_t begin, size_t end) {
    const loss_job *job = context;
    for (size_t r = begin; r < end; r++) loss_row(job->l, job->logits + r * job->l->vocab, r);
}

void tensor_loss_run(tensor_pool *pool, const tensor_loss *l, float *logits) {
    loss_job job = {.l = l};
    job.logits = logits;
    size_t chunk = l->vocab < ELEMENTS_PER_TASK ? ELEMENTS_PER_TASK / l->vocab : 1;
    tensor_pool_ranges(pool, l->rows, chunk, loss_rows, &job);
}

void tensor_loss_columns(const tensor_loss *l, float *logits, size_t first, size_t cols) {
    for (size_t r = 0; r < l->rows; r++) {
        float *row = logits + r * cols;
        int32_t target = l->targets[r];
        if (target < 0) {
            memset(row, 0, cols * sizeof *row);
            continue;
        }
        probabilities(row, cols, l->maximum[r], l->inverse[r]);
        if ((size_t)target >= first && (size_t)target < first + cols) row[(size_t)target - first] -= 1.0f;
    }
}
