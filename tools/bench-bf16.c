// Measures bf16 on this processor: products of packed panels in the first-level cache with fp32 and with bf16 operands (fp32 sums in
// both), and the rate of conversions. The ratio is an upper bound for the gain of a matrix product.
//
//     gcc -O3 -march=native -o bench-bf16 tools/bench-bf16.c && ./bench-bf16
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if !defined(__AVX512BF16__)
int main(void) {
    puts("this processor has no bf16 products");
    return 1;
}
#else

enum { ROWS = 8, COLS = 48, DEPTH = 256, REPEATS = 20000, BURSTS = 9, NUMBERS = 1 << 22 };

static float a[ROWS * DEPTH] __attribute__((aligned(64))), b[COLS * DEPTH] __attribute__((aligned(64)));
static float from[NUMBERS] __attribute__((aligned(64)));
static uint16_t to[NUMBERS] __attribute__((aligned(64)));

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float keep(__m512 sum[ROWS][COLS / 16]) {
    __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int j = 0; j < COLS / 16; j++) all = _mm512_add_ps(all, sum[i][j]);
    return _mm512_reduce_add_ps(all);
}

// Operations a step of each: 2 * ROWS * COLS * DEPTH. bf16 operands are stored in pairs of k, so their panels have half the bytes.
static float product_fp32(void) {
    __m512 sum[ROWS][COLS / 16] = {{{0}}};
    for (int k = 0; k < DEPTH; k++)
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            __m512 x = _mm512_set1_ps(a[k * ROWS + i]);
#pragma GCC unroll 3
            for (int j = 0; j < COLS / 16; j++)
                sum[i][j] = _mm512_fmadd_ps(x, _mm512_load_ps(b + k * COLS + 16 * j), sum[i][j]);
        }
    return keep(sum);
}

static float product_bf16(void) {
    __m512 sum[ROWS][COLS / 16] = {{{0}}};
    for (int k = 0; k < DEPTH / 2; k++)
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32(((const int32_t *)a)[k * ROWS + i]);
#pragma GCC unroll 3
            for (int j = 0; j < COLS / 16; j++)
                sum[i][j] =
                    _mm512_dpbf16_ps(sum[i][j], x, (__m512bh)_mm512_load_si512((const int32_t *)b + k * COLS + 16 * j));
        }
    return keep(sum);
}

static double best_rate(float (*product)(void)) {
    double best = 0;
    volatile float sink = 0;
    for (int burst = 0; burst < BURSTS; burst++) {
        double start = now();
        for (int i = 0; i < REPEATS; i++) sink = product();
        double rate = 2.0 * ROWS * COLS * DEPTH * REPEATS / (now() - start);
        if (rate > best) best = rate;
    }
    (void)sink;
    return best;
}

static void narrow(void) {
    for (size_t i = 0; i < NUMBERS; i += 16)
        _mm256_store_si256((__m256i *)(to + i), (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(from + i)));
}

static void widen(void) {
    for (size_t i = 0; i < NUMBERS; i += 16) {
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i *)(to + i)));
        _mm512_store_ps(from + i, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
    }
}

static double best_numbers(void (*convert)(void)) {
    double best = 0;
    for (int burst = 0; burst < BURSTS; burst++) {
        double start = now();
        convert();
        double rate = NUMBERS / (now() - start);
        if (rate > best) best = rate;
    }
    return best;
}

int main(void) {
    for (size_t i = 0; i < NUMBERS; i++) from[i] = (float)(rand() % 2001 - 1000) / 1000;
    for (size_t i = 0; i < ROWS * DEPTH; i++) a[i] = from[i];
    for (size_t i = 0; i < COLS * DEPTH; i++) b[i] = from[i];
    double plain = best_rate(product_fp32), half = best_rate(product_bf16);
    printf("products: fp32 %.1f GFLOP/s, bf16 %.1f GFLOP/s: %.2f times\n", plain * 1e-9, half * 1e-9, half / plain);
    printf("fp32 to bf16 %.2f, back %.2f thousand million numbers a second\n", best_numbers(narrow) * 1e-9,
           best_numbers(widen) * 1e-9);
    return 0;
}
#endif
