#include "tensor/codec.h"

#include "base/err.h"
#include "tensor/sizes.h"

#include <string.h>

// A block without a larger value is sent as zeros: 127 divided by its largest might overflow.
static const float smallest_block = 1e-30f;

enum {
    CHUNK = 64 * CODEC_BLOCK,  // values of one task
    INT8_MOST = 127,
    INT4_MOST = 7,
    INT4_ZERO = 8,
};

const char *const tensor_codec_names[TENSOR_CODECS] = {"fp32", "bf16", "int8", "int4"};

static size_t blocks_of(size_t count) { return size_pieces(count, CODEC_BLOCK); }

size_t tensor_codec_bytes(tensor_codec codec, size_t count) {
    size_t bytes = count * sizeof(float);
    if (codec == CODEC_BF16) bytes = count * sizeof(uint16_t);
    if (codec == CODEC_INT8) bytes = blocks_of(count) * sizeof(float) + count;
    if (codec == CODEC_INT4) bytes = blocks_of(count) * (2 * sizeof(float) + 1 + CODEC_BLOCK / 2);
    return (bytes + 3) / 4 * 4;
}

// --- values

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bf16(float x) {
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);  // stays NaN
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Rounds |x| < 2^22 to the nearest integer, ties to even: the sum has no bits for a fraction.
static int32_t nearest(float x) {
    static const float shift = 12582912.0f;  // 1.5 * 2^23
    return (int32_t)(bits_of(x + shift) - bits_of(shift));
}

// The bits of the largest magnitude. As integers, NaN is above infinity, which is above all numbers.
static uint32_t largest_of(const float *x, size_t count) {
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t bits = (int32_t)(bits_of(x[i]) & 0x7fffffffu);
        largest = bits > largest ? bits : largest;
    }
    return (uint32_t)largest;
}

typedef struct block_scale {
    float scale, inverse;
} block_scale;

static block_scale scale_of(uint32_t largest, int most) {
    float magnitude = float_of(largest);
    if (largest >= 0x7f800000u) return (block_scale){float_of(0x7fc00000u), 0};
    if (magnitude < smallest_block) return (block_scale){0, 0};
    return (block_scale){magnitude / (float)most, (float)most / magnitude};
}

// --- the arrays of an encoded tensor

typedef struct int8_view {
    uint8_t *scales, *values;
} int8_view;

typedef struct int4_view {
    uint8_t *scales, *largest, *places, *values;
} int4_view;

static int8_view view_int8(void *at, size_t count) {
    uint8_t *bytes = at;
    return (int8_view){bytes, bytes + blocks_of(count) * sizeof(float)};
}

static int4_view view_int4(void *at, size_t count) {
    uint8_t *bytes = at;
    size_t blocks = blocks_of(count);
    return (int4_view){bytes, bytes + 4 * blocks, bytes + 8 * blocks, bytes + 9 * blocks};
}

// --- blocks

static void encode_int8(const int8_view *v, const float *x, size_t block, size_t count) {
    block_scale s = scale_of(largest_of(x, count), INT8_MOST);
    int8_t *to = (int8_t *)v->values + block * CODEC_BLOCK;
    memcpy(v->scales + 4 * block, &s.scale, 4);
    if (!(s.inverse > 0)) {
        memset(to, 0, count);
        return;
    }
    for (size_t i = 0; i < count; i++) to[i] = (int8_t)nearest(x[i] * s.inverse);
}

static void decode_int8(const int8_view *v, float *x, size_t block, size_t count) {
    const int8_t *from = (const int8_t *)v->values + block * CODEC_BLOCK;
    float scale;
    memcpy(&scale, v->scales + 4 * block, 4);
    for (size_t i = 0; i < count; i++) x[i] = (float)from[i] * scale;
}

// The first value of the largest magnitude.
static size_t place_of(const float *x, size_t count, uint32_t largest) {
    size_t i = 0;
    while (i + 1 < count && (bits_of(x[i]) & 0x7fffffffu) != largest) i++;
    return i;
}

static void encode_int4(const int4_view *v, const float *x, size_t block, size_t count) {
    float rest[CODEC_BLOCK] = {0};
    uint8_t nibble[CODEC_BLOCK];
    uint32_t largest = largest_of(x, count);
    size_t place = place_of(x, count, largest);
    memcpy(rest, x, count * sizeof *rest);
    rest[place] = 0;
    block_scale s = scale_of(largest >= 0x7f800000u ? largest : largest_of(rest, count), INT4_MOST);
    memcpy(v->scales + 4 * block, &s.scale, 4);
    memcpy(v->largest + 4 * block, &x[place], 4);
    v->places[block] = (uint8_t)place;
    for (size_t i = 0; i < CODEC_BLOCK; i++)
        nibble[i] = (uint8_t)(s.inverse > 0 ? nearest(rest[i] * s.inverse) + INT4_ZERO : INT4_ZERO);
    for (size_t i = 0; i < CODEC_BLOCK / 2; i++)
        v->values[block * (CODEC_BLOCK / 2) + i] = (uint8_t)(nibble[2 * i] | nibble[2 * i + 1] << 4);
}

static void decode_int4(const int4_view *v, float *x, size_t block, size_t count) {
    const uint8_t *from = v->values + block * (CODEC_BLOCK / 2);
    float scale;
    memcpy(&scale, v->scales + 4 * block, 4);
    for (size_t i = 0; i < count; i++) x[i] = (float)((int)(from[i / 2] >> 4 * (i % 2) & 15) - INT4_ZERO) * scale;
    // of a block that was not finite, all values are NaN
    if (v->places[block] < count && scale == scale) memcpy(&x[v->places[block]], v->largest + 4 * block, 4);
}

// --- tensors

typedef struct codec_call {
    tensor_codec codec;
    float *x;
    void *packed;
    size_t count;
} codec_call;

static void encode_block(const codec_call *c, size_t begin, size_t n) {
    int8_view eight = view_int8(c->packed, c->count);
    int4_view four = view_int4(c->packed, c->count);
    uint16_t *half = c->packed;
    if (c->codec == CODEC_INT8) encode_int8(&eight, c->x + begin, begin / CODEC_BLOCK, n);
    if (c->codec == CODEC_INT4) encode_int4(&four, c->x + begin, begin / CODEC_BLOCK, n);
    for (size_t i = 0; c->codec == CODEC_BF16 && i < n; i++) half[begin + i] = to_bf16(c->x[begin + i]);
}

static void decode_block(const codec_call *c, size_t begin, size_t n) {
    int8_view eight = view_int8(c->packed, c->count);
    int4_view four = view_int4(c->packed, c->count);
    const uint16_t *half = c->packed;
    if (c->codec == CODEC_INT8) decode_int8(&eight, c->x + begin, begin / CODEC_BLOCK, n);
    if (c->codec == CODEC_INT4) decode_int4(&four, c->x + begin, begin / CODEC_BLOCK, n);
    for (size_t i = 0; c->codec == CODEC_BF16 && i < n; i++)
        c->x[begin + i] = float_of((uint32_t)half[begin + i] << 16);
}

static void encode_range(const void *context, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += CODEC_BLOCK) encode_block(context, at, size_least(CODEC_BLOCK, end - at));
}

static void decode_range(const void *context, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += CODEC_BLOCK) decode_block(context, at, size_least(CODEC_BLOCK, end - at));
}

// Each block by itself: its arrays are those of a tensor of one block.
static void round_range(const void *context, size_t begin, size_t end) {
    const codec_call *c = context;
    uint32_t packed[CODEC_BLOCK + 4];
    for (size_t at = begin; at < end; at += CODEC_BLOCK) {
        codec_call one = {c->codec, c->x + at, packed, size_least(CODEC_BLOCK, end - at)};
        encode_block(&one, 0, one.count);
        decode_block(&one, 0, one.count);
    }
}

// Padding is zero, so that equal tensors have equal bytes.
static void clear_padding(tensor_codec codec, size_t count, void *out) {
    size_t bytes = tensor_codec_bytes(codec, count), last = bytes < 4 ? bytes : 4;
    memset((uint8_t *)out + bytes - last, 0, last);
}

void tensor_codec_encode(tensor_pool *pool, tensor_codec codec, const float *x, size_t count, void *out) {
    BRAID_ASSERT(codec < TENSOR_CODECS);
    if (codec == CODEC_FP32) {
        memcpy(out, x, count * sizeof *x);
        return;
    }
    clear_padding(codec, count, out);
    codec_call c = {codec, (float *)(uintptr_t)x, out, count};
    tensor_pool_ranges(pool, count, CHUNK, encode_range, &c);
}

void tensor_codec_decode(tensor_pool *pool, tensor_codec codec, const void *in, size_t count, float *out) {
    BRAID_ASSERT(codec < TENSOR_CODECS);
    if (codec == CODEC_FP32) {
        memcpy(out, in, count * sizeof *out);
        return;
    }
    codec_call c = {codec, out, (void *)(uintptr_t)in, count};
    tensor_pool_ranges(pool, count, CHUNK, decode_range, &c);
}

void tensor_codec_round(tensor_pool *pool, tensor_codec codec, float *x, size_t count) {
    BRAID_ASSERT(codec < TENSOR_CODECS);
    if (codec == CODEC_FP32) return;
    codec_call c = {codec, x, NULL, count};
    tensor_pool_ranges(pool, count, CHUNK, round_range, &c);
}
