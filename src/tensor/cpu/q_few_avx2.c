#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET       __attribute__((target("avx2,fma")))
#define VECTOR       __m256
#define PREFIX(NAME) avx2_##NAME
enum { LANES = 8 };

#define VECTOR_INLINE TARGET static inline __attribute__((always_inline))

VECTOR_INLINE __m256 vector_zero(void) { return _mm256_setzero_ps(); }
VECTOR_INLINE __m256 vector_all(float x) { return _mm256_set1_ps(x); }
VECTOR_INLINE __m256 vector_add(__m256 x, __m256 y) { return _mm256_add_ps(x, y); }
VECTOR_INLINE __m256 vector_multiply_add(__m256 x, __m256 y, __m256 z) { return _mm256_fmadd_ps(x, y, z); }
VECTOR_INLINE __m256 vector_load(const float *from) { return _mm256_loadu_ps(from); }
VECTOR_INLINE void vector_store(float *to, __m256 x) { _mm256_storeu_ps(to, x); }

VECTOR_INLINE __m128 half(const float *from, const size_t count) {
    return count == 4 ? _mm_loadu_ps(from) : _mm_load_ss(from);
}

// Half h of vector j has the columns of row 4 h + j; squares of 4 x 4 are transposed then.
VECTOR_INLINE void load_columns(const float *const *at, size_t stride, const size_t count, __m256 to[4]) {
    __m256 x[4], y[4];
    _Pragma("GCC unroll 4") for (size_t j = 0; j < 4; j++) {
        x[j] = _mm256_castps128_ps256(half(at[0] + j * stride, count));
        x[j] = _mm256_insertf128_ps(x[j], half(at[1] + j * stride, count), 1);
    }
    for (int j = 0; j < 4; j += 2) {
        y[j] = _mm256_unpacklo_ps(x[j], x[j + 1]);
        y[j + 1] = _mm256_unpackhi_ps(x[j], x[j + 1]);
    }
    for (int j = 0; j < 2; j++) {
        __m256d low = _mm256_castps_pd(y[j]), up = _mm256_castps_pd(y[j + 2]);
        to[2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, up));
        to[2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, up));
    }
}

#include "tensor/cpu/q_few_loops.h"

static bool avx2_works(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

const q_few_kernels q_few_avx2 = {"AVX2", avx2_works, avx2_product, q_widen_f16, q_widen_bf16};

#else
typedef int q_few_avx2_needs_x86;
#endif
