#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

#define TARGET       __attribute__((target("avx512f")))
#define VECTOR       __m512
#define PREFIX(NAME) avx512_##NAME
enum { BLOCK_ROWS = 8, BLOCK_VECTORS = 2 };

#define VECTOR_INLINE TARGET static inline __attribute__((always_inline))

VECTOR_INLINE __m512 vector_zero(void) { return _mm512_setzero_ps(); }
VECTOR_INLINE __m512 vector_load(const float *from) { return _mm512_loadu_ps(from); }
VECTOR_INLINE __m512 vector_load_half(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}
VECTOR_INLINE void vector_store(float *to, __m512 x) { _mm512_storeu_ps(to, x); }
VECTOR_INLINE __m512 vector_all(float x) { return _mm512_set1_ps(x); }
VECTOR_INLINE __m512 vector_multiply_add(__m512 x, __m512 y, __m512 z) { return _mm512_fmadd_ps(x, y, z); }

#include "tensor/cpu/cache_loops.h"

static bool avx512_works(void) { return __builtin_cpu_supports("avx512f"); }

const cache_kernels cache_avx512 = {
    .name = "AVX-512",
    .works_here = avx512_works,
    .scores = {avx512_scores, avx512_scores_half},
    .values = {avx512_values, avx512_values_half},
};

#else
typedef int cache_avx512_needs_x86;
#endif
