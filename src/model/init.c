// Initial values: normal with the layout's deviation (projections into the residual stream are
// divided by sqrt(2 layers), as in GPT-2), norms are the identity, biases 0. Element e of a tensor
// depends on (seed, name, e) alone, so no split changes it.
#include "base/rng.h"
#include "model/adapter.h"
#include "model/stage_inner.h"
#include "tensor/elementary.h"

#include <math.h>
#include <string.h>

enum { ELEMENTS_PER_TASK = 1 << 14 };

// FNV-1a, 64 bits.
static uint64_t name_hash(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return hash;
}

// Elements 2 p and 2 p + 1 (Box and Muller 1958).
static void normal_pair(uint64_t seed, uint64_t p, double *first, double *second) {
    rng r = {rng_seed(seed, p)};
    double radius = sqrt(-2.0 * elementary_log(1.0 - rng_unit(&r))), sine, cosine;
    elementary_sin_cos(6.28318530717958647693 * rng_unit(&r), &sine, &cosine);
    *first = radius * cosine;
    *second = radius * sine;
}

typedef struct init_job {
    float *values;
    float deviation;
    uint64_t seed;
} init_job;

static void init_normal(const void *context, size_t begin, size_t end) {
    const init_job *job = context;
    for (size_t e = begin; e < end; e += 2) {  // begin is even
        double first, second;
        normal_pair(job->seed, e / 2, &first, &second);
        job->values[e] = (float)first * job->deviation;
        if (e + 1 < end) job->values[e + 1] = (float)second * job->deviation;
    }
}

void adapter_init(const adapter *a, float *parameters, uint64_t seed) {
    const adapter_tensor *t = adapter_tensors(a);
    memset(parameters, 0, adapter_parameters(a) * sizeof *parameters);
    for (uint32_t i = 0; i < adapter_tensor_count(a); i++, t++) {
        const char *name = adapter_tensor_name(a, i);
        float bound = 1.0f / sqrtf((float)t->in);
        for (size_t e = t->a; e < t->b; e++) {
            rng r = {rng_seed(rng_seed(seed, name_hash(name)), e - t->a)};
            parameters[e] = (float)(2 * rng_unit(&r) - 1) * bound;
        }
    }
}

void stage_init(const stage *s, float *parameters, uint64_t seed) {
    for (uint32_t i = 0; i < s->layout.tensors; i++) {
        const stage_tensor *t = &s->layout.tensor[i];
        float *values = parameters + t->offset;
        init_job job = {values, s->layout.start[i].deviation, rng_seed(seed, name_hash(t->name))};
        if (job.deviation > 0)
            tensor_pool_ranges(s->pool, t->elements, ELEMENTS_PER_TASK, init_normal, &job);
        else
            for (size_t e = 0; e < t->elements; e++) values[e] = s->layout.start[i].value;
    }
}
