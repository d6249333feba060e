#if defined(__aarch64__)
#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

typedef struct vector_neon {
    float32x4_t part[4];
} vector_neon;

#define TARGET
#define VECTOR       vector_neon
#define PREFIX(NAME) neon_##NAME
enum { BLOCK_ROWS = 4, BLOCK_VECTORS = 1 };

#define VECTOR_INLINE static inline __attribute__((always_inline))

VECTOR_INLINE vector_neon vector_all(float x) {
    float32x4_t all = vdupq_n_f32(x);
    return (vector_neon){{all, all, all, all}};
}
VECTOR_INLINE vector_neon vector_zero(void) { return vector_all(0); }
VECTOR_INLINE vector_neon vector_load(const float *from) {
    return (vector_neon){{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}
VECTOR_INLINE vector_neon vector_load_half(const uint16_t *from) {
    vector_neon x;
    for (int i = 0; i < 4; i++) x.part[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * i)));
    return x;
}
VECTOR_INLINE void vector_store(float *to, vector_neon x) {
    for (int i = 0; i < 4; i++) vst1q_f32(to + 4 * i, x.part[i]);
}
VECTOR_INLINE vector_neon vector_multiply_add(vector_neon x, vector_neon y, vector_neon z) {
    for (int i = 0; i < 4; i++) z.part[i] = vfmaq_f32(z.part[i], x.part[i], y.part[i]);
    return z;
}

#include "tensor/cpu/cache_loops.h"

static bool neon_works(void) { return true; }

const cache_kernels cache_neon = {
    .name = "NEON",
    .works_here = neon_works,
    .scores = {neon_scores, neon_scores_half},
    .values = {neon_values, neon_values_half},
};

#else
typedef int cache_neon_needs_arm;
#endif
