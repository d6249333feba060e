#include "tensor/weights.h"

#include "tensor/half.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian");

enum { BLOCK = 32, SUPER = 256 };

typedef struct form {
    const char *name;
    size_t elements, bytes;                                             // of a block
    void (*decode)(const uint8_t *block, size_t elements, float *out);  // NULL: mixed8
} form;

static uint16_t read_u16(const uint8_t *at) {
    uint16_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static uint32_t read_u32(const uint8_t *at) {
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static void decode_f32(const uint8_t *at, size_t n, float *out) { memcpy(out, at, n * sizeof *out); }

static void decode_f16(const uint8_t *at, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = half_from_f16(read_u16(at + 2 * i));
}

static void decode_bf16(const uint8_t *at, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = half_from_bf16(read_u16(at + 2 * i));
}

static void decode_q8_0(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / BLOCK; b++, at += 34, out += BLOCK) {
        float d = half_read_f16(at);
        for (int j = 0; j < BLOCK; j++) out[j] = (float)(int8_t)at[2 + j] * d;
    }
}

static void decode_q4_0(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / BLOCK; b++, at += 18, out += BLOCK) {
        float d = half_read_f16(at);
        for (int j = 0; j < BLOCK / 2; j++) {
            out[j] = (float)((at[2 + j] & 15) - 8) * d;
            out[j + BLOCK / 2] = (float)((at[2 + j] >> 4) - 8) * d;
        }
    }
}

static void decode_q4_1(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / BLOCK; b++, at += 20, out += BLOCK) {
        float d = half_read_f16(at), m = half_read_f16(at + 2);
        for (int j = 0; j < BLOCK / 2; j++) {
            out[j] = (float)(at[4 + j] & 15) * d + m;
            out[j + BLOCK / 2] = (float)(at[4 + j] >> 4) * d + m;
        }
    }
}

// The fifth bits of all elements are one word in front of the lower four.
static int five_low(const uint8_t *qs, uint32_t high, int j) { return (qs[j] & 15) | (int)(high >> j << 4 & 16); }
static int five_high(const uint8_t *qs, uint32_t high, int j) { return qs[j] >> 4 | (int)(high >> (j + 12) & 16); }

static void decode_q5_0(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / BLOCK; b++, at += 22, out += BLOCK) {
        float d = half_read_f16(at);
        uint32_t high = read_u32(at + 2);
        for (int j = 0; j < BLOCK / 2; j++) {
            out[j] = (float)(five_low(at + 6, high, j) - 16) * d;
            out[j + BLOCK / 2] = (float)(five_high(at + 6, high, j) - 16) * d;
        }
    }
}

static void decode_q5_1(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / BLOCK; b++, at += 24, out += BLOCK) {
        float d = half_read_f16(at), m = half_read_f16(at + 2);
        uint32_t high = read_u32(at + 4);
        for (int j = 0; j < BLOCK / 2; j++) {
            out[j] = (float)five_low(at + 8, high, j) * d + m;
            out[j + BLOCK / 2] = (float)five_high(at + 8, high, j) * d + m;
        }
    }
}

// The j-th of eight pairs of 6-bit scale and minimum, packed into 12 bytes.
static void scale_and_minimum(const uint8_t *s, int j, float *scale, float *minimum) {
    if (j < 4) {
        *scale = (float)(s[j] & 63);
        *minimum = (float)(s[j + 4] & 63);
    } else {
        *scale = (float)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        *minimum = (float)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

static void decode_q4_k(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / SUPER; b++, at += 144, out += SUPER) {
        float d = half_read_f16(at), least = half_read_f16(at + 2);
        for (int part = 0; part < 8; part++) {
            const uint8_t *q = at + 16 + part / 2 * 32;
            float scale, minimum;
            scale_and_minimum(at + 4, part, &scale, &minimum);
            scale *= d;
            minimum *= least;
            for (int j = 0; j < 32; j++) out[32 * part + j] = scale * (float)(q[j] >> part % 2 * 4 & 15) - minimum;
        }
    }
}

static void decode_q5_k(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / SUPER; b++, at += 176, out += SUPER) {
        float d = half_read_f16(at), least = half_read_f16(at + 2);
        const uint8_t *high = at + 16;
        for (int part = 0; part < 8; part++) {
            const uint8_t *q = at + 48 + part / 2 * 32;
            float scale, minimum;
            scale_and_minimum(at + 4, part, &scale, &minimum);
            scale *= d;
            minimum *= least;
            for (int j = 0; j < 32; j++) {
                int value = (q[j] >> part % 2 * 4 & 15) | (high[j] >> part & 1) << 4;
                out[32 * part + j] = scale * (float)value - minimum;
            }
        }
    }
}

static void decode_q6_k(const uint8_t *at, size_t n, float *out) {
    for (size_t b = 0; b < n / SUPER; b++, at += 210, out += SUPER) {
        float d = half_read_f16(at + 208);
        for (int i = 0; i < SUPER; i++) {
            int half = i / 128, quarter = i / 32 % 4, j = i % 32;
            int low = at[64 * half + 32 * (quarter % 2) + j] >> quarter / 2 * 4 & 15;
            int high = at[128 + 32 * half + j] >> 2 * quarter & 3;
            float scale = d * (float)(int8_t)at[192 + i / 16];
            out[i] = scale * (float)((low | high << 4) - 32);
        }
    }
}

static const form forms[WEIGHT_TYPES] = {
    [WEIGHT_F32] = {"F32", 1, 4, decode_f32},          [WEIGHT_F16] = {"F16", 1, 2, decode_f16},
    [WEIGHT_BF16] = {"BF16", 1, 2, decode_bf16},       [WEIGHT_Q8_0] = {"Q8_0", BLOCK, 34, decode_q8_0},
    [WEIGHT_Q4_0] = {"Q4_0", BLOCK, 18, decode_q4_0},  [WEIGHT_Q4_1] = {"Q4_1", BLOCK, 20, decode_q4_1},
    [WEIGHT_Q5_0] = {"Q5_0", BLOCK, 22, decode_q5_0},  [WEIGHT_Q5_1] = {"Q5_1", BLOCK, 24, decode_q5_1},
    [WEIGHT_Q4_K] = {"Q4_K", SUPER, 144, decode_q4_k}, [WEIGHT_Q5_K] = {"Q5_K", SUPER, 176, decode_q5_k},
    [WEIGHT_Q6_K] = {"Q6_K", SUPER, 210, decode_q6_k}, [WEIGHT_MIXED8] = {"mixed8", 1, 1, NULL},
};

const char *weight_type_name(weight_type type) { return forms[type].name; }
size_t weight_block_elements(weight_type type) { return forms[type].elements; }
size_t weight_block_bytes(weight_type type) { return forms[type].bytes; }

size_t weight_row_bytes(weight_type type, size_t cols) {
    const form *f = &forms[type];
    size_t bytes;
    if (cols % f->elements != 0 || __builtin_mul_overflow(cols / f->elements, f->bytes, &bytes)) return 0;
    if (type != WEIGHT_MIXED8) return bytes;
    return cols > SIZE_MAX / 2 ? 0 : sizeof(float) + cols + 2 * mixed8_critical(cols);
}

static size_t table_bytes(weight_type type, size_t cols) {
    return type == WEIGHT_MIXED8 ? mixed8_critical(cols) * sizeof(uint32_t) : 0;
}

size_t weight_bytes(weight_type type, size_t rows, size_t cols) {
    size_t bytes;
    if (__builtin_mul_overflow(weight_row_bytes(type, cols), rows, &bytes)) return 0;
    if (bytes == 0 || __builtin_add_overflow(bytes, table_bytes(type, cols), &bytes)) return 0;
    return bytes;
}

const uint8_t *weight_row(const weight_matrix *w, size_t row) {
    return (const uint8_t *)w->data + table_bytes(w->type, w->cols) + row * weight_row_bytes(w->type, w->cols);
}

static void decode_mixed8(const weight_matrix *w, size_t row, float *out) {
    const uint8_t *at = weight_row(w, row), *critical = at + sizeof(float) + w->cols;
    float scale;
    memcpy(&scale, at, sizeof scale);
    at += sizeof scale;
    for (size_t j = 0; j < w->cols; j++) out[j] = scale * (float)(int8_t)at[j];
    for (size_t i = 0; i < mixed8_critical(w->cols); i++) out[mixed8_column(w, i)] = half_read_f16(critical + 2 * i);
}

void weight_rows(const weight_matrix *w, size_t first, size_t count, float *out) {
    const form *f = &forms[w->type];
    for (size_t row = first; row < first + count; row++, out += w->cols) {
        if (f->decode)
            f->decode(weight_row(w, row), w->cols, out);
        else
            decode_mixed8(w, row, out);
    }
}

size_t mixed8_critical(size_t cols) {
    return cols / MIXED8_COLUMNS_PER_CRITICAL + (cols % MIXED8_COLUMNS_PER_CRITICAL != 0);
}
uint32_t mixed8_column(const weight_matrix *w, size_t i) { return read_u32((const uint8_t *)w->data + 4 * i); }

bool mixed8_valid(const weight_matrix *w) {
    for (size_t i = 0; i < mixed8_critical(w->cols); i++) {
        uint32_t column = mixed8_column(w, i);
        if (column >= w->cols || (i > 0 && column <= mixed8_column(w, i - 1))) return false;
    }
    return true;
}
