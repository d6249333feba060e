#include "tensor/cpu/wide.h"
#include "tensor/elementary.h"
#include "tensor/kernels.h"

enum { ELEMENTS_PER_TASK = 1 << 14 };

void tensor_rope_tables(size_t tokens, size_t width, float theta, float *cosines, float *sines) {
    size_t half = width / 2;
    for (size_t i = 0; i < half; i++) {
        double rate = elementary_exp(-2.0 * (double)i / (double)width * elementary_log((double)theta));
        for (size_t t = 0; t < tokens; t++) {
            double sine, cosine;
            elementary_sin_cos((double)t * rate, &sine, &cosine);
            cosines[t * half + i] = (float)cosine;
            sines[t * half + i] = (float)sine;
        }
    }
}

typedef struct rope_job {
    const tensor_rope *r;
    float *x;
    float sign;
} rope_job;

TENSOR_WIDE
static void rope_row(float *x, size_t heads, size_t half, const float *restrict cosines, const float *restrict sines,
                     float sign) {
    for (size_t h = 0; h < heads; h++) {
        float *restrict low = x + h * 2 * half, *restrict high = low + half;
        for (size_t i = 0; i < half; i++) {
            float a = low[i], b = high[i], c = cosines[i], s = sign * sines[i];
            low[i] = a * c - b * s;
            high[i] = b * c + a * s;
        }
    }
}

static void rope_rows(const void *context, size_t begin, size_t end) {
    const rope_job *job = context;
    const tensor_rope *r = job->r;
    size_t half = r->width / 2;
    for (size_t row = begin; row < end; row++) {
        size_t t = row % r->tokens;
        rope_row(job->x + row * r->stride, r->heads, half, r->cosines + t * half, r->sines + t * half, job->sign);
    }
}

void tensor_rope_run(tensor_pool *pool, const tensor_rope *r, float *x, bool inverse) {
    rope_job job = {.r = r, .sign = inverse ? -1.0f : 1.0f};
    job.x = x;
    size_t elements = r->heads * r->width;
    size_t chunk = elements < ELEMENTS_PER_TASK ? ELEMENTS_PER_TASK / elements : 1;
    tensor_pool_ranges(pool, r->sequences * r->tokens, chunk, rope_rows, &job);
}
