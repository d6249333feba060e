// Products with quantised weights on processors with AMX: one instruction multiplies 16 rows of
// activations with a block of a strip, as exact integers. Scales are applied with AVX-512.
#include "tensor/cpu/q_avx512_parts.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8")))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum {
    LEAF_FEATURES = 7,
    TILE_BIT = 24,
    INT8_BIT = 25,
    REQUEST_PERMISSION = 0x1023,  // arch_prctl: ARCH_REQ_XCOMP_PERM
    TILE_DATA = 18,               // the tile data component of the XSAVE state
    SUM_BYTES = Q_STRIP * sizeof(int32_t),
    RING = 4,  // blocks between a product of tiles and its use
    HALF_ROWS = Q_ROWS / 2,
    FEW_ROWS = 8
};

// Linux enables the tile registers only for processes that request them.
static bool request_tile_registers(void) {
    unsigned a, b, c, d;
    if (!q_avx512_works() || !__get_cpuid_count(LEAF_FEATURES, 0, &a, &b, &c, &d)) return false;
    if (!(d >> TILE_BIT & 1) || !(d >> INT8_BIT & 1)) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool amx_works(void) {
    enum { UNKNOWN, WORKS, FAILS };
    static atomic_int known = UNKNOWN;
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now == UNKNOWN) {
        now = request_tile_registers() ? WORKS : FAILS;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == WORKS;
}

typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
} tile_shapes;

// Tile registers: 0 holds sums, 2 and 3 a block of activations and of weights, 4 and 5 half a block
// of each. 1, 6 and 7 are as 0, 2 and 4 for HALF_ROWS rows, which take half the time.
AMX static void begin(void) {
    tile_shapes shapes = {.palette = 1};
    static const uint8_t lines[] = {Q_ROWS, HALF_ROWS, Q_ROWS, Q_GROUPS, Q_ROWS, Q_GROUPS / 2, HALF_ROWS, HALF_ROWS};
    static const uint16_t bytes[] = {SUM_BYTES, SUM_BYTES, Q_BLOCK, Q_LINE, Q_BLOCK / 2, Q_LINE, Q_BLOCK, Q_BLOCK / 2};
    for (size_t i = 0; i < sizeof lines; i++) {
        shapes.lines[i] = lines[i];
        shapes.line_bytes[i] = bytes[i];
    }
    // the compilers' intrinsic does not declare all memory that the instruction reads
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

AMX static void end(void) { _tile_release(); }

// sums[rows, 16] of one block, or of half a block. `rows` is Q_ROWS or HALF_ROWS.
AMX INLINE void multiply_block(const size_t rows, const int8_t *x, const int8_t *w, int32_t *to) {
    _tile_loadd(3, w, Q_LINE);
    if (rows == Q_ROWS) {
        _tile_zero(0);
        _tile_loadd(2, x, Q_BLOCK);
        _tile_dpbssd(0, 2, 3);
        _tile_stored(0, to, SUM_BYTES);
    } else {
        _tile_zero(1);
        _tile_loadd(6, x, Q_BLOCK);
        _tile_dpbssd(1, 6, 3);
        _tile_stored(1, to, SUM_BYTES);
    }
}

AMX INLINE void multiply_half(const size_t rows, const int8_t *x, const int8_t *w, int32_t *to) {
    _tile_loadd(5, w, Q_LINE);
    if (rows == Q_ROWS) {
        _tile_zero(0);
        _tile_loadd(4, x, Q_BLOCK);
        _tile_dpbssd(0, 4, 5);
        _tile_stored(0, to, SUM_BYTES);
    } else {
        _tile_zero(1);
        _tile_loadd(7, x, Q_BLOCK);
        _tile_dpbssd(1, 7, 5);
        _tile_stored(1, to, SUM_BYTES);
    }
}

AMX INLINE void add_block(const size_t rows, const int32_t *from, __m512 scale, const float *scales, __m512 *dots) {
    UNROLL for (size_t r = 0; r < rows; r++) {
        __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(from + r * Q_STRIP));
        dots[r] = _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(scales[r])), dot, dots[r]);
    }
}

// The products of tiles run RING - 1 blocks ahead of their use. A tile has `rows` rows in memory,
// also where fewer exist.
AMX INLINE void sum_dots(const size_t rows, const q_rows *x, const q_panel *w, const size_t parts, __m512 *dots) {
    _Alignas(Q_LINE) int32_t ring[RING][Q_ROWS * Q_STRIP];
    const size_t steps = x->blocks * parts, ahead = RING - 1, bytes = Q_BLOCK / parts, row_bytes = x->rows * Q_BLOCK;
    UNROLL for (size_t r = 0; r < rows; r++) dots[r] = _mm512_setzero_ps();
    for (size_t i = 0; i < steps + ahead; i++) {
        if (i < steps) {
            const int8_t *values = x->values + i / parts * row_bytes + i % parts * bytes;
            const int8_t *weights = w->values + i * bytes * Q_STRIP;
            if (parts == 1)
                multiply_block(rows, values, weights, ring[i % RING]);
            else
                multiply_half(rows, values, weights, ring[i % RING]);
        }
        if (i < ahead) continue;
        size_t done = i - ahead;
        add_block(rows, ring[done % RING], _mm512_load_ps(w->scales + done * Q_STRIP),
                  x->scales + done / parts * x->rows, dots);
    }
}

AMX INLINE void sum_mins(const size_t rows, const q_rows *x, const q_panel *w, __m512 *mins) {
    UNROLL for (size_t r = 0; r < rows; r++) mins[r] = _mm512_setzero_ps();
    for (size_t b = 0; b < x->blocks; b++) {
        __m512 minimum = _mm512_load_ps(w->minimums + b * Q_STRIP);
        const float *sums = x->sums + b * x->rows;
        UNROLL for (size_t r = 0; r < rows; r++) mins[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(sums[r]), mins[r]);
    }
}

AMX INLINE void multiply(const size_t rows, const size_t parts, const bool minimum, const q_rows *x, const q_panel *w,
                         float *y, size_t y_stride) {
    _Alignas(Q_LINE) float minimums[Q_ROWS * Q_STRIP];
    __m512 sums[Q_ROWS];
    if (minimum) {
        sum_mins(rows, x, w, sums);
        UNROLL for (size_t r = 0; r < rows; r++) _mm512_store_ps(minimums + r * Q_STRIP, sums[r]);
    }
    sum_dots(rows, x, w, parts, sums);
    UNROLL for (size_t r = 0; r < rows; r++) {
        if (r >= x->rows) break;
        __m512 sum = minimum ? _mm512_add_ps(sums[r], _mm512_load_ps(minimums + r * Q_STRIP)) : sums[r];
        _mm512_storeu_ps(y + r * y_stride, sum);
    }
}

AMX INLINE void multiply_rows(const size_t rows, const q_rows *x, const q_panel *w, float *y, size_t y_stride) {
    if (w->format->parts == 2)
        multiply(rows, 2, false, x, w, y, y_stride);
    else if (w->minimums)
        multiply(rows, 1, true, x, w, y, y_stride);
    else
        multiply(rows, 1, false, x, w, y, y_stride);
}

AMX static void amx_product(const q_rows *x, const q_panel *w, float *y, size_t y_stride) {
    if (x->rows <= FEW_ROWS)
        q_avx512_product(x, w, y, y_stride);
    else if (x->rows <= HALF_ROWS)
        multiply_rows(HALF_ROWS, x, w, y, y_stride);
    else
        multiply_rows(Q_ROWS, x, w, y, y_stride);
}

const q_kernels q_amx = {
    .name = "AMX",
    .works_here = amx_works,
    .quantise = q_avx512_quantise,
    .unpack = q_avx512_unpack,
    .begin = begin,
    .end = end,
    .product = amx_product,
    .direct = q_avx512_direct,
    .direct_rows = FEW_ROWS,
};

#endif
