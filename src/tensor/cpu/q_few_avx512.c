#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>

#define TARGET       __attribute__((target("avx512f")))
#define VECTOR       __m512
#define PREFIX(NAME) avx512_##NAME
enum { LANES = 16 };

#define VECTOR_INLINE TARGET static inline __attribute__((always_inline))

VECTOR_INLINE __m512 vector_zero(void) { return _mm512_setzero_ps(); }
VECTOR_INLINE __m512 vector_all(float x) { return _mm512_set1_ps(x); }
VECTOR_INLINE __m512 vector_add(__m512 x, __m512 y) { return _mm512_add_ps(x, y); }
VECTOR_INLINE __m512 vector_multiply_add(__m512 x, __m512 y, __m512 z) { return _mm512_fmadd_ps(x, y, z); }
VECTOR_INLINE __m512 vector_load(const float *from) { return _mm512_loadu_ps(from); }
VECTOR_INLINE void vector_store(float *to, __m512 x) { _mm512_storeu_ps(to, x); }

VECTOR_INLINE __m128 quarter(const float *from, const size_t count) {
    return count == 4 ? _mm_loadu_ps(from) : _mm_load_ss(from);
}

// Quarter q of vector j has the columns of row 4 q + j; squares of 4 x 4 are transposed then.
VECTOR_INLINE void load_columns(const float *const *at, size_t stride, const size_t count, __m512 to[4]) {
    __m512 x[4], y[4];
    _Pragma("GCC unroll 4") for (size_t j = 0; j < 4; j++) {
        x[j] = _mm512_castps128_ps512(quarter(at[0] + j * stride, count));
        x[j] = _mm512_insertf32x4(x[j], quarter(at[1] + j * stride, count), 1);
        x[j] = _mm512_insertf32x4(x[j], quarter(at[2] + j * stride, count), 2);
        x[j] = _mm512_insertf32x4(x[j], quarter(at[3] + j * stride, count), 3);
    }
    for (int j = 0; j < 4; j += 2) {
        y[j] = _mm512_unpacklo_ps(x[j], x[j + 1]);
        y[j + 1] = _mm512_unpackhi_ps(x[j], x[j + 1]);
    }
    for (int j = 0; j < 2; j++) {
        __m512d low = _mm512_castps_pd(y[j]), up = _mm512_castps_pd(y[j + 2]);
        to[2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, up));
        to[2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, up));
    }
}

#include "tensor/cpu/q_few_loops.h"

enum { AHEAD = 4096 };  // bytes

TARGET static void avx512_widen_f16(const uint8_t *from, size_t count, float *to) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        __builtin_prefetch(from + 2 * i + AHEAD, 0, 2);
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + 2 * i))));
    }
    q_widen_f16(from + 2 * i, count - i, to + i);
}

TARGET static void avx512_widen_bf16(const uint8_t *from, size_t count, float *to) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        __builtin_prefetch(from + 2 * i + AHEAD, 0, 2);
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(from + 2 * i)));
        _mm512_storeu_si512(to + i, _mm512_slli_epi32(wide, 16));
    }
    q_widen_bf16(from + 2 * i, count - i, to + i);
}

static bool avx512_works(void) { return __builtin_cpu_supports("avx512f"); }

const q_few_kernels q_few_avx512 = {"AVX-512", avx512_works, avx512_product, avx512_widen_f16, avx512_widen_bf16};
const q_few_kernels *const q_few_all[Q_FEW_KERNELS] = {&q_few_avx512, &q_few_avx2};

#else
typedef int q_few_avx512_needs_x86;
#endif
