#include "train/sum.h"

#include "base/err.h"
#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed sums are little-endian");

enum { CHUNK = 512, FLAG_OVERFLOW = 1, NORM_LANES = 16 };
// An integer of up to 57 bits lies within the 8 bytes that begin at its first byte.
enum { WORD_BITS = 64, MOST_NARROW = 57 };

static const float limit = 0x1p20f;  // 2^SUM_RANGE_BITS
static const double scale = 0x1p30;  // 2^SUM_SCALE_BITS
static const double unscale = 0x1p-30;
// Adding it to a number below 2^51 rounds that number to an integer, to nearest even, in the low
// bits.
static const double rounder = 0x1.8p52;

static inline int64_t bits_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline int64_t to_fixed(float g) { return bits_of((double)g * scale + rounder) - bits_of(rounder); }

// Compares magnitudes as integers: they order like the floats, with infinities and NaNs above all
// numbers.
TENSOR_WIDE
static bool chunk_fits(const float *gradient, size_t count) {
    uint32_t largest = 0, bound;
    memcpy(&bound, &limit, sizeof bound);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &gradient[i], sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest < bound;
}

TENSOR_WIDE
static void add_chunk(int64_t *restrict sum, const float *restrict gradient, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += to_fixed(gradient[i]);
}

static size_t add_what_fits(int64_t *sum, const float *gradient, size_t count) {
    size_t lost = 0;
    for (size_t i = 0; i < count; i++) {
        if (fabsf(gradient[i]) < limit) sum[i] += to_fixed(gradient[i]);
        else lost++;
    }
    return lost;
}

size_t sum_add_fixed(int64_t *sum, const float *gradient, size_t count, bool first) {
    size_t lost = 0;
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        if (first) memset(sum + at, 0, n * sizeof *sum);
        if (chunk_fits(gradient + at, n)) add_chunk(sum + at, gradient + at, n);
        else lost += add_what_fits(sum + at, gradient + at, n);
    }
    return lost;
}

// Sets to zero; multiplication would leave negative zeros.
TENSOR_WIDE
static void begin_floats(float *restrict sum, const float *restrict gradient, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] = 0.0f + gradient[i];
}

void sum_add_plain(float *sum, const float *gradient, size_t count, bool first) {
    if (first)
        begin_floats(sum, gradient, count);
    else
        tensor_add(sum, gradient, count);
}

// The bits of the widest of these integers, with its sign; 0 when all are zero. Widths that a
// word at any bit offset cannot hold become a whole word.
static unsigned group_width(const int64_t *sum, size_t count) {
    uint64_t magnitude = 0, any = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = (uint64_t)sum[i];
        any |= x;
        magnitude |= x ^ (uint64_t)(sum[i] >> 63);
    }
    if (any == 0) return 0;
    unsigned bits = 1 + (magnitude == 0 ? 0 : 64 - (unsigned)__builtin_clzll(magnitude));
    return bits > MOST_NARROW ? WORD_BITS : bits;
}

static size_t group_bytes(size_t count, unsigned width) { return (count * width + 7) / 8; }

static size_t group_count(size_t count, size_t at) { return count - at < SUM_GROUP ? count - at : SUM_GROUP; }

size_t sum_packed_bytes(const int64_t *sum, size_t count, bool overflow) {
    size_t bytes = 1;
    if (overflow) return bytes;
    for (size_t at = 0; at < count; at += SUM_GROUP) {
        size_t n = group_count(count, at);
        bytes += 1 + group_bytes(n, group_width(sum + at, n));
    }
    return bytes;
}

// The integers follow each other without gaps, the low bit first.
static void pack_group(const int64_t *sum, size_t count, unsigned width, uint8_t *out) {
    if (width == WORD_BITS) memcpy(out, sum, count * sizeof *sum);
    if (width == 0 || width == WORD_BITS) return;
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    uint64_t word = 0;
    unsigned used = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = (uint64_t)sum[i] & mask;
        word |= x << used;
        used += width;
        if (used < WORD_BITS) continue;
        memcpy(out, &word, sizeof word);
        out += sizeof word;
        used -= WORD_BITS;
        word = x >> (width - used);
    }
    memcpy(out, &word, (used + 7) / 8);
}

// The copy has room behind it, so that a word can be read at each integer.
static void unpack_group(const uint8_t *bytes, size_t count, unsigned width, int64_t *out) {
    if (width == 0) memset(out, 0, count * sizeof *out);
    if (width == WORD_BITS) memcpy(out, bytes, count * sizeof *out);
    if (width == 0 || width == WORD_BITS) return;
    uint8_t copy[SUM_GROUP * MOST_NARROW / 8 + sizeof(uint64_t)] = {0};
    memcpy(copy, bytes, group_bytes(count, width));
    const unsigned unused = WORD_BITS - width;
    for (size_t i = 0; i < count; i++) {
        size_t bit = i * width;
        uint64_t word;
        memcpy(&word, copy + bit / 8, sizeof word);
        out[i] = (int64_t)((word >> (bit % 8)) << unused) >> unused;
    }
}

size_t sum_pack(const int64_t *sum, size_t count, bool overflow, uint8_t *out) {
    uint8_t *at_byte = out;
    *at_byte++ = overflow ? FLAG_OVERFLOW : 0;
    for (size_t at = 0; at < count && !overflow; at += SUM_GROUP) {
        size_t n = group_count(count, at);
        unsigned width = group_width(sum + at, n);
        *at_byte++ = (uint8_t)width;
        pack_group(sum + at, n, width, at_byte);
        at_byte += group_bytes(n, width);
    }
    return (size_t)(at_byte - out);
}

static bool width_is_valid(uint8_t width) { return width <= MOST_NARROW || width == WORD_BITS; }

size_t sum_packed_length(const uint8_t *bytes, size_t left, size_t count) {
    if (left == 0 || bytes[0] > FLAG_OVERFLOW) return 0;
    size_t used = 1;
    if (bytes[0] == FLAG_OVERFLOW) return used;
    for (size_t at = 0; at < count; at += SUM_GROUP) {
        if (used == left || !width_is_valid(bytes[used])) return 0;
        size_t need = group_bytes(group_count(count, at), bytes[used]);
        used++;
        if (need > left - used) return 0;
        used += need;
    }
    return used;
}

// Reads the group at *bytes and advances.
static void next_group(const uint8_t **bytes, size_t count, int64_t *out) {
    unsigned width = **bytes;
    unpack_group(*bytes + 1, count, width, out);
    *bytes += 1 + group_bytes(count, width);
}

bool sum_unpack(const uint8_t *bytes, size_t count, int64_t *out) {
    if (bytes[0] == FLAG_OVERFLOW) {
        memset(out, 0, count * sizeof *out);
        return false;
    }
    bytes++;
    for (size_t at = 0; at < count; at += SUM_GROUP) next_group(&bytes, group_count(count, at), out + at);
    return true;
}

static bool part_overflowed(const sum_part *part) {
    return part->own ? part->overflow : part->packed[0] == FLAG_OVERFLOW;
}

// Unsigned, because a peer may send any integers, and the signed sum could overflow.
static void add_words(uint64_t *sum, const int64_t *more, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += (uint64_t)more[i];
}

// 1 / tokens if that is exact: then a product has the bits of the quotient and is much faster.
static bool exact_inverse(uint64_t tokens, double *inverse) {
    bool power_of_two = (tokens & (tokens - 1)) == 0;
    *inverse = 1.0 / (double)tokens;
    return power_of_two;
}

// Converts integers below 2^51 to doubles by the addition above, which every vector unit supports.
TENSOR_WIDE
static bool small_words(const uint64_t *sum, size_t count) {
    uint64_t magnitude = 0;
    for (size_t i = 0; i < count; i++) magnitude |= sum[i] ^ (uint64_t)((int64_t)sum[i] >> 63);
    return magnitude < (uint64_t)1 << 51;
}

TENSOR_WIDE
static void small_words_scaled(const uint64_t *restrict sum, size_t count, double factor, float *restrict result) {
    const uint64_t base = (uint64_t)bits_of(rounder);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = sum[i] + base;
        double x;
        memcpy(&x, &bits, sizeof x);
        result[i] = (float)((x - rounder) * factor);
    }
}

static void divide_words(const uint64_t *sum, size_t count, uint64_t tokens, float *result) {
    double inverse;
    if (exact_inverse(tokens, &inverse) && small_words(sum, count))
        small_words_scaled(sum, count, unscale * inverse, result);
    else
        for (size_t i = 0; i < count; i++) result[i] = (float)((double)(int64_t)sum[i] * unscale / (double)tokens);
}

static void reduce_fixed(const sum_part *parts, uint32_t part_count, size_t count, uint64_t tokens, float *result) {
    const uint8_t *cursor[SUM_MAX_PARTS] = {NULL};
    for (uint32_t p = 0; p < part_count; p++)
        if (parts[p].packed) cursor[p] = parts[p].packed + 1;
    for (size_t at = 0; at < count; at += SUM_GROUP) {
        size_t n = group_count(count, at);
        uint64_t sum[SUM_GROUP] = {0};
        int64_t group[SUM_GROUP];
        for (uint32_t p = 0; p < part_count; p++) {
            if (cursor[p]) next_group(&cursor[p], n, group);
            add_words(sum, cursor[p] ? group : parts[p].own + at, n);
        }
        divide_words(sum, n, tokens, result + at);
    }
}

TENSOR_WIDE
static void scale_floats(float *x, size_t count, double factor) {
    for (size_t i = 0; i < count; i++) x[i] = (float)((double)x[i] * factor);
}

TENSOR_WIDE
static void divide_floats(float *x, size_t count, double divisor) {
    for (size_t i = 0; i < count; i++) x[i] = (float)((double)x[i] / divisor);
}

static void reduce_plain(const sum_part *parts, uint32_t part_count, size_t count, uint64_t tokens, float *result) {
    if (parts[0].plain != (const uint8_t *)result) memcpy(result, parts[0].plain, count * sizeof *result);
    for (uint32_t p = 1; p < part_count; p++) {
        const uint8_t *bytes = parts[p].plain;
        for (size_t i = 0; i < count; i++) {
            float more;
            memcpy(&more, bytes + i * sizeof more, sizeof more);
            result[i] += more;
        }
    }
    double inverse;
    if (exact_inverse(tokens, &inverse))
        scale_floats(result, count, inverse);
    else
        divide_floats(result, count, (double)tokens);
}

void sum_reduce(const sum_part *parts, uint32_t part_count, size_t count, bool reproducible, uint64_t tokens,
                float *result) {
    BRAID_ASSERT(part_count <= SUM_MAX_PARTS);
    bool overflow = tokens == 0;
    for (uint32_t p = 0; p < part_count && reproducible && !overflow; p++) overflow = part_overflowed(&parts[p]);
    if (overflow) {
        for (size_t i = 0; i < count; i++) result[i] = NAN;
    } else if (reproducible) {
        reduce_fixed(parts, part_count, count, tokens, result);
    } else {
        reduce_plain(parts, part_count, count, tokens, result);
    }
}

TENSOR_WIDE
static void add_squares(const float *restrict values, size_t whole, double *restrict lane) {
    double sum[NORM_LANES] = {0};
    for (size_t at = 0; at < whole; at += NORM_LANES)
        for (size_t i = 0; i < NORM_LANES; i++) sum[i] += (double)values[at + i] * (double)values[at + i];
    memcpy(lane, sum, sizeof sum);
}

double sum_norm2(const float *values, size_t count) {
    double lane[NORM_LANES];
    size_t whole = count - count % NORM_LANES;
    add_squares(values, whole, lane);
    for (size_t i = 0; whole + i < count; i++) lane[i] += (double)values[whole + i] * (double)values[whole + i];
    for (size_t half = NORM_LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}
