// The portable kernels, and the list of all kernels.
#include "tensor/cpu/q_format.h"

#include <math.h>
#include <string.h>

typedef struct vector_plain {
    float part[16];
} vector_plain;

#define TARGET
#define VECTOR       vector_plain
#define PREFIX(NAME) plain_##NAME
#define EACH(I)      for (int I = 0; I < 16; I++)
enum { BLOCK_ROWS = 4, BLOCK_VECTORS = 1 };

static inline vector_plain vector_all(float x) {
    vector_plain v;
    EACH(i) v.part[i] = x;
    return v;
}
static inline vector_plain vector_zero(void) { return vector_all(0); }
static inline vector_plain vector_load(const float *from) {
    vector_plain v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline vector_plain vector_load_half(const uint16_t *from) {
    vector_plain v;
    EACH(i) v.part[i] = q_half(from[i]);
    return v;
}
static inline void vector_store(float *to, vector_plain x) { memcpy(to, &x, sizeof x); }
static inline vector_plain vector_multiply_add(vector_plain x, vector_plain y, vector_plain z) {
    EACH(i) z.part[i] = fmaf(x.part[i], y.part[i], z.part[i]);
    return z;
}

#include "tensor/cpu/cache_loops.h"

static bool always(void) { return true; }

const cache_kernels cache_plain = {
    .name = "plain C",
    .works_here = always,
    .scores = {plain_scores, plain_scores_half},
    .values = {plain_values, plain_values_half},
};

#if defined(__x86_64__)
const cache_kernels *const cache_kernels_all[CACHE_KERNELS] = {&cache_avx512, &cache_avx2, &cache_plain};
#elif defined(__aarch64__)
const cache_kernels *const cache_kernels_all[CACHE_KERNELS] = {&cache_neon, &cache_plain};
#else
const cache_kernels *const cache_kernels_all[CACHE_KERNELS] = {&cache_plain};
#endif

const cache_kernels *cache_kernels_here(void) {
    size_t i = 0;
    while (!cache_kernels_all[i]->works_here()) i++;
    return cache_kernels_all[i];
}
