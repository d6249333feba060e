// The most floating-point operations per second of a core, measured with fused multiply-adds
// between registers only.
#include "tensor/gemm.h"

enum { PEAK_ROUNDS = 100000 };

#if defined(__x86_64__)
#include <immintrin.h>

// Twelve independent sums hide the latency of the instruction on every known core.
enum { PEAK_SUMS = 12 };

__attribute__((target("avx512f"))) static float burst_512(void) {
    __m512 sum[PEAK_SUMS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
    for (int i = 0; i < PEAK_SUMS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_SUMS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
    for (int i = 1; i < PEAK_SUMS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx2,fma"))) static float burst_256(void) {
    __m256 sum[PEAK_SUMS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    for (int i = 0; i < PEAK_SUMS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_SUMS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
    for (int i = 1; i < PEAK_SUMS; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return sum[0][0] + sum[0][7];
}
#endif

#if defined(__aarch64__)
#include <arm_neon.h>

enum { NEON_SUMS = 24, BASELINE_SUMS = 4 * NEON_SUMS };  // large cores start four fused operations per cycle

static float burst_baseline(void) {
    float32x4_t sum[NEON_SUMS], x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
    for (int i = 0; i < NEON_SUMS; i++) sum[i] = vdupq_n_f32((float)i);
    for (int round = 0; round < PEAK_ROUNDS; round++)
#pragma GCC unroll 24
        for (int i = 0; i < NEON_SUMS; i++) sum[i] = vfmaq_f32(sum[i], x, y);
    for (int i = 1; i < NEON_SUMS; i++) sum[0] = vaddq_f32(sum[0], sum[i]);
    return vaddvq_f32(sum[0]);
}
#else
enum { BASELINE_SUMS = 48 };

// Plain multiplications and additions over several vectors, for all other processors.
static float burst_baseline(void) {
    float sum[BASELINE_SUMS];
    for (int i = 0; i < BASELINE_SUMS; i++) sum[i] = (float)i;
    for (int round = 0; round < PEAK_ROUNDS; round++)
        for (int i = 0; i < BASELINE_SUMS; i++) sum[i] = sum[i] * 0.999f + 0.001f;
    float total = 0;
    for (int i = 0; i < BASELINE_SUMS; i++) total += sum[i];
    return total;
}
#endif

double tensor_peak_burst(float *sink) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        *sink = burst_512();
        return 2.0 * PEAK_ROUNDS * PEAK_SUMS * 16;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        *sink = burst_256();
        return 2.0 * PEAK_ROUNDS * PEAK_SUMS * 8;
    }
#endif
    *sink = burst_baseline();
    return 2.0 * PEAK_ROUNDS * BASELINE_SUMS;
}
