#include "tensor/cpu/q_format.h"

#include "tensor/sizes.h"

#include <string.h>

// Blocks as in a file. Members are bytes, because a file aligns nothing.
typedef struct block_q4_0 {
    uint8_t scale[2], values[16];
} block_q4_0;
typedef struct block_q4_1 {
    uint8_t scale[2], minimum[2], values[16];
} block_q4_1;
typedef struct block_q5_0 {
    uint8_t scale[2], high[4], values[16];
} block_q5_0;
typedef struct block_q5_1 {
    uint8_t scale[2], minimum[2], high[4], values[16];
} block_q5_1;
typedef struct block_q8_0 {
    uint8_t scale[2], values[32];
} block_q8_0;
typedef struct block_q4_k {
    uint8_t scale[2], minimum[2], factors[12], values[128];
} block_q4_k;
typedef struct block_q5_k {
    uint8_t scale[2], minimum[2], factors[12], high[32], values[128];
} block_q5_k;
typedef struct block_q6_k {
    uint8_t values[128], high[64], factors[16], scale[2];
} block_q6_k;

_Static_assert(sizeof(block_q4_0) == 18 && sizeof(block_q4_1) == 20, "4 bits");
_Static_assert(sizeof(block_q5_0) == 22 && sizeof(block_q5_1) == 24, "5 bits");
_Static_assert(sizeof(block_q8_0) == 34, "8 bits");
_Static_assert(sizeof(block_q4_k) == 144 && sizeof(block_q5_k) == 176 && sizeof(block_q6_k) == 210, "blocks of 256");

enum { BLOCKS = Q_SUPER / Q_BLOCK, NIBBLE = 4, LOW = 15, HALF_BYTES = 2 };

// clang-format off
static const q_format formats[WEIGHT_TYPES] = {
    [WEIGHT_Q8_0] = {Q_BLOCK, sizeof(block_q8_0), 8, 0,  1, false, 512, 32},
    [WEIGHT_Q4_0] = {Q_BLOCK, sizeof(block_q4_0), 4, 8,  1, false, 256, 32},
    [WEIGHT_Q4_1] = {Q_BLOCK, sizeof(block_q4_1), 4, 0,  1, true,  256, 64},
    [WEIGHT_Q5_0] = {Q_BLOCK, sizeof(block_q5_0), 5, 16, 1, false, 320, 32},
    [WEIGHT_Q5_1] = {Q_BLOCK, sizeof(block_q5_1), 5, 0,  1, true,  320, 64},
    [WEIGHT_Q4_K] = {Q_SUPER, sizeof(block_q4_k), 4, 0,  1, true,  256, 64 + BLOCKS * 32},
    [WEIGHT_Q5_K] = {Q_SUPER, sizeof(block_q5_k), 5, 0,  1, true,  320, 64 + BLOCKS * 32},
    [WEIGHT_Q6_K] = {Q_SUPER, sizeof(block_q6_k), 6, 32, 2, false, 384, 32 + BLOCKS * 32},
};
// clang-format on

const q_format *q_format_of(weight_type type) {
    return (unsigned)type < WEIGHT_TYPES && formats[type].elements > 0 ? &formats[type] : NULL;
}

size_t q_strip_bytes(const q_format *f, size_t cols) {
    return size_up(q_scales_at(f, cols) + cols / f->elements * f->scale_bytes, Q_LINE);
}

float q_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits >> 15) << 31, exponent = bits >> 10 & 31u, fraction = bits & 1023u, all;
    float x;
    if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
        x = (float)fraction * 0x1p-24f;
        memcpy(&all, &x, sizeof all);
        all |= sign;
    } else {
        all = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13;
    }
    memcpy(&x, &all, sizeof x);
    return x;
}

uint16_t q_to_half(float x) {
    uint32_t all, rounded;
    memcpy(&all, &x, sizeof all);
    uint32_t sign = all >> 16 & 0x8000u, magnitude = all & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);  // 65520 and more round to infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves a multiple of 2^-24 in the lowest bits
        float y;
        memcpy(&y, &magnitude, sizeof y);
        y += 0.5f;
        memcpy(&rounded, &y, sizeof rounded);
        return (uint16_t)(sign | (rounded - 0x3f000000u));
    }
    rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23);
    return (uint16_t)(sign | rounded >> 13);
}

// --- repacking

// 32 columns of a row: stored integers, before the offset.
typedef struct row_block {
    uint8_t values[Q_BLOCK];
} row_block;

// Block b of a super block with 4-bit values: blocks 2 c and 2 c + 1 are the nibbles of 32 bytes.
static void super_nibbles(const uint8_t *values, size_t b, row_block *to) {
    const uint8_t *from = values + b / 2 * Q_BLOCK;
    for (size_t i = 0; i < Q_BLOCK; i++) to->values[i] = b % 2 ? from[i] >> NIBBLE : from[i] & LOW;
}

static void block_of_q6_k(const block_q6_k *q, size_t b, row_block *to) {
    const uint8_t *low = q->values + b / 4 * 64 + b % 2 * Q_BLOCK, *high = q->high + b / 4 * Q_BLOCK;
    for (size_t i = 0; i < Q_BLOCK; i++) {
        unsigned nibble = b % 4 < 2 ? low[i] & LOW : low[i] >> NIBBLE;
        to->values[i] = (uint8_t)(nibble | (high[i] >> 2 * (b % 4) & 3u) << NIBBLE);
    }
}

// Columns [32 b, 32 b + 32) of a row of a type with blocks of 256.
static void read_block(weight_type type, const uint8_t *row, size_t b, row_block *to) {
    const uint8_t *at = row + b / BLOCKS * formats[type].bytes;
    if (type == WEIGHT_Q6_K) {
        block_of_q6_k((const block_q6_k *)at, b % BLOCKS, to);
        return;
    }
    if (type == WEIGHT_Q4_K) {
        super_nibbles(((const block_q4_k *)at)->values, b % BLOCKS, to);
        return;
    }
    super_nibbles(((const block_q5_k *)at)->values, b % BLOCKS, to);
    for (size_t i = 0; i < Q_BLOCK; i++)
        to->values[i] |= (uint8_t)((((const block_q5_k *)at)->high[i] >> b % BLOCKS & 1) << NIBBLE);
}

// Writes row r's 32 columns into a block of a strip, which is zero.
static void write_block(unsigned bits, const row_block *from, size_t r, uint8_t *to) {
    uint8_t *high = to + Q_BLOCK / 2 * Q_STRIP;
    for (size_t i = 0; i < Q_BLOCK; i++) {
        size_t group = i / Q_GROUP, byte = r * Q_GROUP + i % Q_GROUP, value = from->values[i];
        to[group % 4 * Q_LINE + byte] |= (uint8_t)((value & LOW) << group / 4 * NIBBLE);
        if (bits == 5) high[byte] |= (uint8_t)(value >> NIBBLE << group);
        if (bits == 6) high[group / 4 * Q_LINE + byte] |= (uint8_t)(value >> NIBBLE << 2 * (group % 4));
    }
}

// The 6-bit factors of block b: of the scale and of the minimum.
static void super_factors(const uint8_t q[12], size_t b, uint8_t *scale, uint8_t *minimum) {
    if (b < 4) {
        *scale = q[b] & 63;
        *minimum = q[b + 4] & 63;
    } else {
        *scale = (uint8_t)((q[b + 4] & LOW) | q[b - 4] >> 6 << NIBBLE);
        *minimum = (uint8_t)(q[b + 4] >> NIBBLE | q[b] >> 6 << NIBBLE);
    }
}

// Row r's scales of one block of the file.
static void write_scales(weight_type type, const uint8_t *block, size_t r, uint8_t *to) {
    static const uint8_t none[HALF_BYTES] = {0};
    const uint8_t *scale = block, *minimum = formats[type].minimum ? block + HALF_BYTES : none;
    uint8_t *factors = to + Q_STRIP * HALF_BYTES * (formats[type].minimum ? 2 : 1);
    if (type == WEIGHT_Q6_K) {
        scale = ((const block_q6_k *)block)->scale;
        for (size_t i = 0; i < Q_PARTS * BLOCKS; i++)
            factors[i * Q_STRIP + r] = ((const block_q6_k *)block)->factors[i];
    }
    memcpy(to + r * HALF_BYTES, scale, HALF_BYTES);
    if (formats[type].minimum) memcpy(to + (Q_STRIP + r) * HALF_BYTES, minimum, HALF_BYTES);
    if (type != WEIGHT_Q4_K && type != WEIGHT_Q5_K) return;
    for (size_t b = 0; b < BLOCKS; b++)  // the same place in both types
        super_factors(((const block_q4_k *)block)->factors, b, &factors[2 * b * Q_STRIP + r],
                      &factors[(2 * b + 1) * Q_STRIP + r]);
}

// Words of four bytes, one to each vector: the low nibbles of a file's block of 32 are its first
// half, as in a strip, and groups of 8 bits have four bytes.
static void write_words(const uint8_t *from, size_t count, size_t r, uint8_t *to) {
    for (size_t i = 0; i < count; i++) memcpy(to + i * Q_LINE + r * Q_GROUP, from + i * Q_GROUP, Q_GROUP);
}

// From bit i for column i to bit g of byte c for column 4 g + c.
static void write_high(const uint8_t high[4], size_t r, uint8_t *to) {
    uint32_t all = (uint32_t)high[0] | (uint32_t)high[1] << 8 | (uint32_t)high[2] << 16 | (uint32_t)high[3] << 24;
    for (size_t c = 0; c < Q_GROUP; c++) {
        uint32_t x = all >> c & 0x11111111u;
        x = (x | x >> 3) & 0x03030303u;
        x = (x | x >> 6) & 0x000f000fu;
        to[r * Q_GROUP + c] = (uint8_t)(x | x >> 12);
    }
}

// Columns [32 b, 32 b + 32) of row r.
static void pack_block(const q_format *f, weight_type type, const uint8_t *row, size_t b, size_t r, uint8_t *to) {
    const uint8_t *at = row + b * f->bytes, *high = NULL;
    const size_t words = f->bits == 8 ? Q_GROUPS : Q_GROUPS / 2;
    if (f->elements == Q_SUPER) {
        row_block block;
        read_block(type, row, b, &block);
        write_block(f->bits, &block, r, to);
        return;
    }
    write_words(at + f->bytes - words * Q_GROUP, words, r, to);
    if (type == WEIGHT_Q5_0) high = ((const block_q5_0 *)at)->high;
    if (type == WEIGHT_Q5_1) high = ((const block_q5_1 *)at)->high;
    if (high) write_high(high, r, to + Q_BLOCK / 2 * Q_STRIP);
}

static void pack_row(const q_format *f, const weight_matrix *w, const uint8_t *row, size_t r, uint8_t *strip) {
    uint8_t *scales = strip + q_scales_at(f, w->cols);
    for (size_t b = 0; b < w->cols / Q_BLOCK; b++) pack_block(f, w->type, row, b, r, strip + b * f->value_bytes);
    for (size_t b = 0; b < w->cols / f->elements; b++)
        write_scales(w->type, row + b * f->bytes, r, scales + b * f->scale_bytes);
}

void q_pack_strip(const q_format *f, const weight_matrix *w, size_t first, uint8_t *strip) {
    size_t row_bytes = w->cols / f->elements * f->bytes;
    memset(strip, 0, q_strip_bytes(f, w->cols));
    for (size_t r = 0; r < Q_STRIP && first + r < w->rows; r++)
        pack_row(f, w, (const uint8_t *)w->data + (first + r) * row_bytes, r, strip);
}
