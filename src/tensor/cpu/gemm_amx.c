// Split products on processors with AMX: eight tile registers of 16 rows of 64 bytes, and an
// instruction that multiplies two of them.
#include "tensor/cpu/gemm_split.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX    __attribute__((target("avx512f,amx-tile,amx-bf16")))
#define INLINE static inline __attribute__((always_inline))

enum {
    LEAF_FEATURES = 7,
    TILE_BIT = 24,
    BF16_BIT = 22,
    REQUEST_PERMISSION = 0x1023,  // arch_prctl: ARCH_REQ_XCOMP_PERM
    TILE_DATA = 18,               // the tile data component of the XSAVE state
    LINE_BYTES = 64,
    LINE_FLOATS = 16,
    PART = 2 * SPLIT_TILE  // elements of one part of a panel, for one step
};

// Linux enables the tile registers only for processes that request them.
static bool request_tile_registers(void) {
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx512f") || !__get_cpuid_count(LEAF_FEATURES, 0, &a, &b, &c, &d)) return false;
    if (!(d >> TILE_BIT & 1) || !(d >> BF16_BIT & 1)) return false;
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

// --- packing

// The upper 16 bits of a float: its truncation to bf16.
AMX INLINE __m512i upper_half(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi32(-(1 << 16))); }

// The nearest bf16, as a float.
AMX INLINE __m512i nearest(__m512 x) {
    return upper_half(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(1 << 15)));
}

// Packs bf16 pairs: x into the lower halves of the elements, y into the upper halves.
AMX INLINE __m512i pack_pair(__m512i x, __m512i y) { return _mm512_or_si512(_mm512_srli_epi32(x, 16), y); }

// Splits 16 pairs into high, middle and low parts, one row of each part's tile.
AMX INLINE void split(__m512 x, __m512 y, uint16_t *to) {
    __m512i high_x = nearest(x), high_y = nearest(y);
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(high_x));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(high_y));
    __m512i middle_x = nearest(x), middle_y = nearest(y);
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(middle_x));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(middle_y));
    _mm512_storeu_si512(to, pack_pair(high_x, high_y));
    _mm512_storeu_si512(to + PART, pack_pair(middle_x, middle_y));
    // The remainder of a very small number is longer than a bf16, so it is truncated.
    _mm512_storeu_si512(to + 2 * PART, pack_pair(_mm512_castps_si512(x), upper_half(_mm512_castps_si512(y))));
}

AMX INLINE __mmask16 first_of(size_t count) { return (__mmask16)(count >= SPLIT_HALF ? 0xffff : (1u << count) - 1); }

static size_t excess(size_t x, size_t y) { return x > y ? x - y : 0; }

// SPLIT_ALONG: a row of the tile is a line of the source. `k` numbers of each line are left.
AMX INLINE void split_lines(const float *from, size_t stride, size_t lines, size_t k, uint16_t *to) {
    __mmask16 low = first_of(k), up = first_of(excess(k, SPLIT_HALF));
    for (size_t i = 0; i < SPLIT_LINES; i++, to += SPLIT_STEP) {
        const float *line = from + i * stride;
        bool there = i < lines;
        split(_mm512_maskz_loadu_ps(there ? low : 0, line), _mm512_maskz_loadu_ps(there ? up : 0, line + SPLIT_HALF),
              to);
    }
}

// SPLIT_ACROSS: a row of the tile holds the numbers of one k, one per line.
AMX INLINE void split_rows(const float *from, size_t stride, size_t lines, size_t k, uint16_t *to) {
    __mmask16 all = first_of(lines);
    for (size_t i = 0; i < SPLIT_HALF; i++, to += SPLIT_STEP) {
        const float *row = from + i * stride;
        split(_mm512_maskz_loadu_ps(i < k ? all : 0, row),
              _mm512_maskz_loadu_ps(i + SPLIT_HALF < k ? all : 0, row + SPLIT_HALF * stride), to);
    }
}

// to[j][i] = from[i][j] for i < rows and j < cols, both at most 16; the rest of to[16][16] is zero.
AMX INLINE void transpose(const float *from, size_t stride, size_t rows, size_t cols, float *to, size_t to_stride) {
    __m512 x[16], y[16];
    __mmask16 wide = first_of(cols);
    for (size_t i = 0; i < 16; i++) x[i] = _mm512_maskz_loadu_ps(i < rows ? wide : 0, from + i * stride);
    for (size_t i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for (size_t i = 0; i < 16; i += 4)
        for (size_t j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(y[i + j]), up = _mm512_castps_pd(y[i + j + 2]);
            x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, up));
            x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, up));
        }
    for (size_t i = 0; i < 16; i += 8)
        for (size_t j = 0; j < 4; j++) {
            y[i + j] = _mm512_shuffle_f32x4(x[i + j], x[i + j + 4], 0x88);
            y[i + j + 4] = _mm512_shuffle_f32x4(x[i + j], x[i + j + 4], 0xdd);
        }
    for (size_t j = 0; j < 8; j++) {
        _mm512_store_ps(to + j * to_stride, _mm512_shuffle_f32x4(y[j], y[j + 8], 0x88));
        _mm512_store_ps(to + (j + 8) * to_stride, _mm512_shuffle_f32x4(y[j], y[j + 8], 0xdd));
    }
}

// Packs one step of up to 16 lines, of which `k` numbers are left. A source in the other order is
// transposed first.
AMX static void pack_a_tile(const float *from, const split_source *s, size_t lines, size_t k, uint16_t *to) {
    _Alignas(LINE_BYTES) float transposed[SPLIT_LINES * SPLIT_STEP];
    if (s->order == SPLIT_ALONG) {
        split_lines(from, s->stride, lines, k, to);
        return;
    }
    transpose(from, s->stride, k, lines, transposed, SPLIT_STEP);
    transpose(from + SPLIT_HALF * s->stride, s->stride, excess(k, SPLIT_HALF), lines, transposed + SPLIT_HALF,
              SPLIT_STEP);
    split_lines(transposed, SPLIT_STEP, SPLIT_LINES, SPLIT_STEP, to);
}

AMX static void pack_b_tile(const float *from, const split_source *s, size_t lines, size_t k, uint16_t *to) {
    _Alignas(LINE_BYTES) float transposed[SPLIT_STEP * SPLIT_LINES];
    if (s->order == SPLIT_ACROSS) {
        split_rows(from, s->stride, lines, k, to);
        return;
    }
    transpose(from, s->stride, lines, k, transposed, SPLIT_LINES);
    transpose(from + SPLIT_HALF, s->stride, lines, excess(k, SPLIT_HALF), transposed + SPLIT_HALF * SPLIT_LINES,
              SPLIT_LINES);
    split_rows(transposed, SPLIT_LINES, SPLIT_LINES, SPLIT_STEP, to);
}

typedef void (*pack_tile)(const float *from, const split_source *s, size_t lines, size_t k, uint16_t *to);

AMX INLINE void pack(const split_source *s, pack_tile tile, uint16_t *to) {
    size_t right = s->order == SPLIT_ALONG ? 1 : s->stride, down = s->order == SPLIT_ALONG ? s->stride : 1;
    for (size_t k = 0; k < s->depth; k += SPLIT_STEP, to += SPLIT_PANEL) {
        const float *from = s->at + k * right;
        tile(from, s, s->lines, s->depth - k, to);
        tile(from + SPLIT_LINES * down, s, excess(s->lines, SPLIT_LINES), s->depth - k, to + SPLIT_TILE);
    }
}

AMX static void pack_a(const split_source *s, uint16_t *to) { pack(s, pack_a_tile, to); }
AMX static void pack_b(const split_source *s, uint16_t *to) { pack(s, pack_b_tile, to); }

// --- multiplying

typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
} tile_shapes;

AMX static void begin(void) {
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.line_bytes[i] = LINE_BYTES;
        shapes.lines[i] = SPLIT_LINES;
    }
    // the compilers' intrinsic does not declare all memory that the instruction reads
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

AMX static void end(void) { _tile_release(); }

// Tile registers: 0 to 3 hold c, 4 and 5 one part of a, 6 and 7 one part of b.
// clang-format off
#define LOAD_A(WHICH)                                          \
    _tile_loadd(4, a + (WHICH) * PART, LINE_BYTES);            \
    _tile_loadd(5, a + (WHICH) * PART + SPLIT_TILE, LINE_BYTES)
#define LOAD_B(WHICH)                                          \
    _tile_loadd(6, b + (WHICH) * PART, LINE_BYTES);            \
    _tile_loadd(7, b + (WHICH) * PART + SPLIT_TILE, LINE_BYTES)
#define MULTIPLY()            \
    _tile_dpbf16ps(0, 4, 6);  \
    _tile_dpbf16ps(1, 4, 7);  \
    _tile_dpbf16ps(2, 5, 6);  \
    _tile_dpbf16ps(3, 5, 7)
// clang-format on

AMX static void product(const split_block *p) {
    size_t bytes = p->c_stride * sizeof *p->c, below = SPLIT_LINES * p->c_stride;
    if (p->add) {
        _tile_loadd(0, p->add, bytes);
        _tile_loadd(1, p->add + SPLIT_LINES, bytes);
        _tile_loadd(2, p->add + below, bytes);
        _tile_loadd(3, p->add + below + SPLIT_LINES, bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    const uint16_t *a = p->a, *b = p->b;
    enum { HIGH, MIDDLE, LOW, ROWS_A_STEP = 8 };
    for (size_t i = 0; i < p->steps; i++, a += SPLIT_PANEL, b += SPLIT_PANEL) {
        const float *next = p->c_next + i * ROWS_A_STEP * p->c_stride;
        for (size_t row = 0; row < ROWS_A_STEP; row++, next += p->c_stride) {
            __builtin_prefetch(next, 1);
            __builtin_prefetch(next + LINE_FLOATS, 1);
        }
        LOAD_A(HIGH);
        LOAD_B(HIGH);
        MULTIPLY();
        LOAD_A(LOW);
        MULTIPLY();
        LOAD_A(MIDDLE);
        MULTIPLY();
        LOAD_B(MIDDLE);
        MULTIPLY();
        LOAD_A(HIGH);
        MULTIPLY();
        LOAD_B(LOW);
        MULTIPLY();
    }
    _tile_stored(0, p->c, bytes);
    _tile_stored(1, p->c + SPLIT_LINES, bytes);
    _tile_stored(2, p->c + below, bytes);
    _tile_stored(3, p->c + below + SPLIT_LINES, bytes);
}

const split_kernels split_amx = {
    .name = "AMX, numbers in three parts",
    .works_here = amx_works,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .begin = begin,
    .end = end,
    .product = product,
};

#endif
