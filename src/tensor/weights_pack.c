// Packs fp32 values in the formats that braid writes.
#include "tensor/half.h"
#include "tensor/weights.h"

#include <math.h>

enum { BLOCK = 32, Q8_0_BYTES = 34 };

static void put_u16(uint8_t *at, uint16_t x) { memcpy(at, &x, sizeof x); }

static float largest(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

// Zero where 1 / x is too large for a float: x is then far below what F16 holds.
static float inverse_of(float x) { return x > 0 && isfinite(1 / x) ? 1 / x : 0; }

static void pack_q8_0(const float *x, size_t n, uint8_t *out) {
    for (size_t b = 0; b < n / BLOCK; b++, x += BLOCK, out += Q8_0_BYTES) {
        float d = largest(x, BLOCK) / 127, inverse = inverse_of(d);
        put_u16(out, half_to_f16(d));
        for (int j = 0; j < BLOCK; j++) out[2 + j] = (uint8_t)(int8_t)roundf(x[j] * inverse);
    }
}

void weight_pack(weight_type type, const float *values, size_t count, void *out) {
    uint8_t *to = out;
    if (type == WEIGHT_F32) memcpy(to, values, count * sizeof *values);
    if (type == WEIGHT_Q8_0) pack_q8_0(values, count, to);
    for (size_t i = 0; i < count && type == WEIGHT_F16; i++) put_u16(to + 2 * i, half_to_f16(values[i]));
    for (size_t i = 0; i < count && type == WEIGHT_BF16; i++) put_u16(to + 2 * i, half_to_bf16(values[i]));
}

void mixed8_score(const float *values, size_t rows, size_t cols, double *score) {
    for (size_t r = 0; r < rows; r++, values += cols) {
        double sum = 0;
        for (size_t j = 0; j < cols; j++) sum += (double)values[j] * (double)values[j];
        double inverse = sum > 0 ? (double)cols / sum : 0;
        for (size_t j = 0; j < cols; j++) {
            double share = (double)values[j] * (double)values[j] * inverse;
            score[j] += share * share;
        }
    }
}

// Inserts into the best so far, sorted by score; an equal score of a lower column stays ahead.
static void insert(const double *score, uint32_t *best, size_t held, size_t most, uint32_t j) {
    size_t at = held;
    while (at > 0 && score[best[at - 1]] < score[j]) at--;
    if (at == most) return;
    size_t kept = held < most ? held : most - 1;
    memmove(best + at + 1, best + at, (kept - at) * sizeof *best);
    best[at] = j;
}

void mixed8_choose(const double *score, size_t cols, uint32_t *column) {
    size_t most = mixed8_critical(cols), held = 0;
    for (size_t j = 0; j < cols; j++) {
        insert(score, column, held, most, (uint32_t)j);
        if (held < most) held++;
    }
    for (size_t i = 1; i < most; i++) {  // ascending
        uint32_t x = column[i];
        size_t at = i;
        for (; at > 0 && column[at - 1] > x; at--) column[at] = column[at - 1];
        column[at] = x;
    }
}

static bool is_critical(const uint32_t *column, size_t count, size_t *next, size_t j) {
    if (*next == count || column[*next] != j) return false;
    ++*next;
    return true;
}

void mixed8_pack(const uint32_t *column, const float *row, size_t cols, void *out) {
    size_t count = mixed8_critical(cols), next = 0;
    uint8_t *q = (uint8_t *)out + sizeof(float), *critical = q + cols;
    float most = 0;
    for (size_t j = 0; j < cols; j++)
        if (!is_critical(column, count, &next, j)) most = fmaxf(most, fabsf(row[j]));
    float scale = most / 127, inverse = inverse_of(scale);
    memcpy(out, &scale, sizeof scale);
    next = 0;
    for (size_t j = 0; j < cols; j++) {
        bool apart = is_critical(column, count, &next, j);
        float x = fminf(fmaxf(row[j], -65504), 65504);  // the largest of F16
        q[j] = apart ? 0 : (uint8_t)(int8_t)roundf(row[j] * inverse);
        if (apart) put_u16(critical + 2 * (next - 1), half_to_f16(x));
    }
}
