#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>

typedef struct vector_avx2 {
    __m256 part[2];
} vector_avx2;

#define TARGET       __attribute__((target("avx2,fma,f16c")))
#define VECTOR       vector_avx2
#define PREFIX(NAME) avx2_##NAME
enum { BLOCK_ROWS = 4, BLOCK_VECTORS = 1 };

#define VECTOR_INLINE TARGET static inline __attribute__((always_inline))

VECTOR_INLINE vector_avx2 vector_all(float x) { return (vector_avx2){{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
VECTOR_INLINE vector_avx2 vector_zero(void) { return vector_all(0); }
VECTOR_INLINE vector_avx2 vector_load(const float *from) {
    return (vector_avx2){{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}};
}
VECTOR_INLINE vector_avx2 vector_load_half(const uint16_t *from) {
    return (vector_avx2){{_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)),
                          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + 8)))}};
}
VECTOR_INLINE void vector_store(float *to, vector_avx2 x) {
    _mm256_storeu_ps(to, x.part[0]);
    _mm256_storeu_ps(to + 8, x.part[1]);
}
VECTOR_INLINE vector_avx2 vector_multiply_add(vector_avx2 x, vector_avx2 y, vector_avx2 z) {
    return (vector_avx2){
        {_mm256_fmadd_ps(x.part[0], y.part[0], z.part[0]), _mm256_fmadd_ps(x.part[1], y.part[1], z.part[1])}};
}

#include "tensor/cpu/cache_loops.h"

// The compilers' feature test has no name for F16C in every version.
static bool avx2_works(void) {
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

const cache_kernels cache_avx2 = {
    .name = "AVX2",
    .works_here = avx2_works,
    .scores = {avx2_scores, avx2_scores_half},
    .values = {avx2_values, avx2_values_half},
};

#else
typedef int cache_avx2_needs_x86;
#endif
