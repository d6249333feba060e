#include "tensor/matvec.h"

#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

#include <math.h>

enum { ROWS = 32, COLS = 256, LARGEST = 127 };

typedef struct product {
    const tensor_matvec *m;
    const float *x;
    float *y;
} product;

static float with_bias(const tensor_matvec *m, size_t i, float sum) { return m->bias ? sum + m->bias[i] : sum; }

// --- fp32 weights

TENSOR_WIDE
static void rows_plain(const product *p, size_t begin, size_t end) {
    const tensor_matvec *m = p->m;
    for (size_t i = begin; i < end; i++) p->y[i] = with_bias(m, i, lanes_dot(p->x, m->w.at + i * m->w.stride, m->in));
}

TENSOR_WIDE
static void add_scaled(float *restrict y, const float *restrict row, size_t count, float factor) {
    for (size_t j = 0; j < count; j++) y[j] += factor * row[j];
}

static void columns_plain(const product *p, size_t begin, size_t end) {
    const tensor_matvec *m = p->m;
    float sum[COLS] = {0};
    for (size_t k = 0; k < m->in; k++) add_scaled(sum, m->w.at + k * m->w.stride + begin, end - begin, p->x[k]);
    for (size_t j = begin; j < end; j++) p->y[j] = with_bias(m, j, sum[j - begin]);
}

// --- 8-bit weights

// The 64 bytes of a group are stored as 16 words: byte q of word l is number 16 q + l. Shifts then
// widen 16 numbers at once. (Compilers store widened signed bytes in pieces and load them as a
// whole, which stalls every load.)
enum { WORD_BYTES = 4 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word's first byte is its lowest");
_Static_assert((int)MATVEC_GROUP == LANES * WORD_BYTES, "a group is one vector of words");

static size_t place_in_group(size_t k) { return k % LANES * WORD_BYTES + k / LANES; }

// Numbers 16 q .. 16 q + 15 of a group.
LANES_INLINE void widen(lanes *wide, const lanes_words *words, size_t q) {
    LANES_EACH(h) {
        lanes_bits top = (lanes_bits)(words[h] << (unsigned)(8 * (WORD_BYTES - 1 - q)));
        wide->part[h] = __builtin_convertvector(top >> 8 * (WORD_BYTES - 1), lanes_part);
    }
}

LANES_INLINE void add_group(lanes *sum, const int8_t *bytes, float scale, const float *x) {
    lanes part = {{{0}}}, w, with;
    lanes_words words[LANES_PARTS];
    LANES_EACH(h) memcpy(&words[h], bytes + h * sizeof words[h], sizeof words[h]);
    _Pragma("GCC unroll 4") for (size_t q = 0; q < WORD_BYTES; q++) {
        widen(&w, words, q);
        lanes_load(&with, x + q * LANES);
        LANES_EACH(h) part.part[h] += w.part[h] * with.part[h];
    }
    LANES_EACH(h) sum->part[h] += part.part[h] * scale;
}

TENSOR_WIDE
static void rows_narrow(const product *p, size_t begin, size_t end) {
    const tensor_matvec *m = p->m;
    size_t groups = matvec_groups(m->in);
    for (size_t i = begin; i < end; i++) {
        const int8_t *bytes = m->bytes + i * groups * MATVEC_GROUP;
        const float *scales = m->scales + i * groups;
        lanes sum = {{{0}}};
        for (size_t g = 0; g < groups; g++)
            add_group(&sum, bytes + g * MATVEC_GROUP, scales[g], p->x + g * MATVEC_GROUP);
        p->y[i] = with_bias(m, i, lanes_add(&sum));
    }
}

static float element(const tensor_matvec *m, size_t k, size_t i) {
    return m->w.transposed ? m->w.at[i * m->w.stride + k] : m->w.at[k * m->w.stride + i];
}

static void narrow_group(const tensor_matvec *m, size_t i, size_t group) {
    size_t first = group * MATVEC_GROUP, count = m->in - first < MATVEC_GROUP ? m->in - first : MATVEC_GROUP;
    int8_t *bytes = m->bytes + i * matvec_groups(m->in) * MATVEC_GROUP + first;
    float largest = 0;
    for (size_t k = 0; k < count; k++) largest = fmaxf(largest, fabsf(element(m, first + k, i)));
    float scale = largest / LARGEST, inverse = largest > 0 ? LARGEST / largest : 0;
    m->scales[i * matvec_groups(m->in) + group] = scale;
    for (size_t k = 0; k < MATVEC_GROUP; k++)
        bytes[place_in_group(k)] = k < count ? (int8_t)lrintf(element(m, first + k, i) * inverse) : 0;
}

static void narrow_rows(const void *context, size_t begin, size_t end) {
    const tensor_matvec *m = context;
    for (size_t i = begin; i < end; i++)
        for (size_t group = 0; group < matvec_groups(m->in); group++) narrow_group(m, i, group);
}

void tensor_matvec_narrow(tensor_pool *pool, tensor_matvec *m) {
    tensor_pool_ranges(pool, m->out, ROWS, narrow_rows, m);
}

static void product_rows(const void *context, size_t begin, size_t end) {
    const product *p = context;
    if (p->m->bytes)
        rows_narrow(p, begin, end);
    else
        rows_plain(p, begin, end);
}

static void product_columns(const void *context, size_t begin, size_t end) { columns_plain(context, begin, end); }

void tensor_matvec_run(tensor_pool *pool, const tensor_matvec *m, const float *x, float *y) {
    product p = {m, x, y};
    if (m->bytes || m->w.transposed)
        tensor_pool_ranges(pool, m->out, ROWS, product_rows, &p);
    else
        tensor_pool_ranges(pool, m->out, COLS, product_columns, &p);
}

// --- attention

TENSOR_WIDE
static float softmax(float *scores, size_t count) {
    float top = scores[0], sum = 0;
    for (size_t t = 1; t < count; t++) top = scores[t] > top ? scores[t] : top;
    for (size_t t = 0; t < count; t++) scores[t] = wide_exp(scores[t] - top);
    for (size_t t = 0; t < count; t++) sum += scores[t];
    return sum;
}

TENSOR_WIDE
static void score_keys(const float *query, const float *keys, size_t count, size_t width, float scale, float *scores) {
    for (size_t t = 0; t < count; t++) scores[t] = scale * lanes_dot(query, keys + t * width, width);
}

void tensor_attend_scaled(const float *query, const float *keys, const float *values, size_t count, size_t width,
                          float scale, float softcap, float *scores, float *out) {
    score_keys(query, keys, count, width, scale, scores);
    if (softcap > 0) tensor_softcap(scores, NULL, count, 1, softcap);
    float inverse = 1.0f / softmax(scores, count);
    for (size_t i = 0; i < width; i++) out[i] = 0;
    for (size_t t = 0; t < count; t++) add_scaled(out, values + t * width, width, scores[t] * inverse);
}

void tensor_attend(const float *query, const float *keys, const float *values, size_t count, size_t width,
                   float *scores, float *out) {
    tensor_attend_scaled(query, keys, values, count, width, 1.0f / sqrtf((float)width), 0, scores, out);
}
