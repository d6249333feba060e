// The portable kernels, which define the bits.
#include "tensor/cpu/q_kernels.h"

#include <math.h>
#include <string.h>

enum { LARGEST = 127, NIBBLE = 4, LOW = 15 };

q_block_scale q_scale_of(uint32_t largest_bits) {
    const uint32_t least = 0x0d800000u, infinite = 0x7f800000u;  // 2^-100
    float largest;
    memcpy(&largest, &largest_bits, sizeof largest);
    if (largest_bits >= infinite) return (q_block_scale){NAN, 0};
    if (largest_bits < least) return (q_block_scale){0, 0};
    return (q_block_scale){largest / LARGEST, LARGEST / largest};
}

// The integers of a row's block, with scale and sums.
static void quantise_block(const float *x, size_t row, size_t block, const q_rows *to) {
    size_t at = block * to->rows + row;
    int8_t *values = to->values + at * Q_BLOCK;
    uint32_t top = 0, bits;
    for (size_t i = 0; i < Q_BLOCK; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        if (bits > top) top = bits;
    }
    q_block_scale scale = q_scale_of(top);
    int32_t sum[2] = {0};
    for (size_t i = 0; i < Q_BLOCK; i++) {
        values[i] = scale.inverse > 0 ? (int8_t)rintf(x[i] * scale.inverse) : 0;
        sum[i / (Q_BLOCK / 2)] += values[i];
    }
    to->scales[at] = scale.scale;
    to->sums[at] = scale.scale * (float)(sum[0] + sum[1]);
    for (size_t h = 0; h < 2; h++) to->halves[h][at] = sum[h];
}

static void plain_quantise(const float *x, size_t stride, const q_rows *to) {
    for (size_t row = 0; row < to->rows; row++)
        for (size_t b = 0; b < to->blocks; b++) quantise_block(x + row * stride + b * Q_BLOCK, row, b, to);
}

// One group of a block: 64 stored integers.
static void unpack_group(unsigned bits, const uint8_t *block, size_t group, uint8_t *to) {
    const uint8_t *low = block + group % 4 * Q_LINE, *high = block + Q_BLOCK / 2 * Q_STRIP;
    for (size_t i = 0; i < Q_LINE; i++) {
        unsigned value = low[i] >> group / 4 * NIBBLE & LOW;
        if (bits == 5) value |= (high[i] >> group & 1u) << NIBBLE;
        if (bits == 6) value |= ((unsigned)high[group / 4 * Q_LINE + i] >> 2 * (group % 4) & 3u) << NIBBLE;
        to[i] = (uint8_t)value;
    }
}

static void unpack_values(const q_format *f, const uint8_t *block, int8_t *to) {
    uint8_t group[Q_LINE];
    for (size_t g = 0; g < Q_GROUPS; g++, to += Q_LINE) {
        if (f->bits == 8) {
            memcpy(to, block + g * Q_LINE, Q_LINE);
            continue;
        }
        unpack_group(f->bits, block, g, group);
        for (size_t i = 0; i < Q_LINE; i++) to[i] = (int8_t)(group[i] - f->offset);
    }
}

static float half_at(const uint8_t *from, size_t i) {
    uint16_t bits;
    memcpy(&bits, from + i * sizeof bits, sizeof bits);
    return q_half(bits);
}

// The scales of block b of a strip. Products of fp16 and factors are exact.
void q_unpack_scales(const q_panel *to, const uint8_t *scales, size_t b) {
    const q_format *f = to->format;
    size_t inner = f->elements / Q_BLOCK, part = b % inner;
    const uint8_t *at = scales + b / inner * f->scale_bytes;
    const uint8_t *factors = at + (f->minimum ? 2u : 1u) * Q_STRIP * sizeof(uint16_t) + part * 2 * Q_STRIP;
    for (size_t r = 0; r < Q_STRIP; r++) {
        float scale = half_at(at, r);
        for (size_t p = 0; p < f->parts; p++) {
            int factor = 1;
            if (f->parts > 1)
                factor = (int8_t)factors[p * Q_STRIP + r];
            else if (inner > 1)
                factor = factors[r];
            to->scales[(b * f->parts + p) * Q_STRIP + r] = scale * (float)factor;
        }
        if (!f->minimum) continue;
        float minimum = half_at(at, Q_STRIP + r);
        to->minimums[b * Q_STRIP + r] = inner > 1 ? -(minimum * (float)factors[Q_STRIP + r]) : minimum;
    }
}

static void plain_unpack(const uint8_t *strip, const q_panel *to) {
    const uint8_t *scales = strip + q_scales_at(to->format, to->blocks * Q_BLOCK);
    for (size_t b = 0; b < to->blocks; b++) {
        unpack_values(to->format, strip + b * to->format->value_bytes, to->values + b * Q_BLOCK * Q_STRIP);
        q_unpack_scales(to, scales, b);
    }
}

// sums[r] = the sum of products of groups [first, first + count) for the strip's row r.
static void dot_groups(const int8_t *x, const int8_t *w, size_t first, size_t count, int32_t sums[Q_STRIP]) {
    for (size_t r = 0; r < Q_STRIP; r++) {
        int32_t sum = 0;
        for (size_t g = first; g < first + count; g++)
            for (size_t i = 0; i < Q_GROUP; i++) sum += x[g * Q_GROUP + i] * w[(g * Q_STRIP + r) * Q_GROUP + i];
        sums[r] = sum;
    }
}

static void plain_row(const q_rows *x, const q_panel *w, size_t row, float y[Q_STRIP]) {
    float dots[Q_STRIP] = {0}, mins[Q_STRIP] = {0};
    size_t parts = w->format->parts, groups = Q_GROUPS / parts;
    for (size_t b = 0; b < x->blocks; b++) {
        size_t at = b * x->rows + row;
        for (size_t p = 0; p < parts; p++) {
            int32_t sums[Q_STRIP];
            const float *scales = w->scales + (b * parts + p) * Q_STRIP;
            dot_groups(x->values + at * Q_BLOCK, w->values + b * Q_BLOCK * Q_STRIP, p * groups, groups, sums);
            for (size_t r = 0; r < Q_STRIP; r++) dots[r] = fmaf(scales[r] * x->scales[at], (float)sums[r], dots[r]);
        }
        for (size_t r = 0; w->minimums && r < Q_STRIP; r++)
            mins[r] = fmaf(w->minimums[b * Q_STRIP + r], x->sums[at], mins[r]);
    }
    for (size_t r = 0; r < Q_STRIP; r++) y[r] = w->minimums ? dots[r] + mins[r] : dots[r];
}

static void plain_product(const q_rows *x, const q_panel *w, float *y, size_t y_stride) {
    for (size_t row = 0; row < x->rows; row++) plain_row(x, w, row, y + row * y_stride);
}

static bool always(void) { return true; }

const q_kernels q_plain = {
    .name = "plain C",
    .works_here = always,
    .quantise = plain_quantise,
    .unpack = plain_unpack,
    .product = plain_product,
};

#if defined(__x86_64__)
const q_kernels *const q_kernels_all[Q_KERNELS] = {&q_amx, &q_avx512, &q_avx2, &q_plain};
#else
const q_kernels *const q_kernels_all[Q_KERNELS] = {&q_plain};
#endif

const q_kernels *q_kernels_here(void) {
    size_t i = 0;
    while (!q_kernels_all[i]->works_here()) i++;
    return q_kernels_all[i];
}
