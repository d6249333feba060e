#include "weights/tensor_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

typedef struct writer {
    const model_file_tensor *t;
    const tensor_target *target;
    size_t rows, cols;  // of the target
    float *whole;       // the transposed matrix; NULL: rows are read from the file
    float *values;
    uint8_t *packed;
    size_t block;  // rows at once
    output *o;
    braid_error *error;
} writer;

void tensor_target_shape(const model_file_tensor *t, const tensor_target *target, size_t *rows, size_t *cols) {
    bool turned = t->transposed != target->transposed;
    *rows = turned ? t->weights.cols : t->weights.rows;
    *cols = turned ? t->weights.rows : t->weights.cols;
}

// Where element i of the target is in the source: of each head, halves or pairs.
static size_t source_of(const writer *w, size_t i) {
    size_t width = w->t->head_dim;
    if (w->t->rope_pairs == w->target->rope_pairs || width == 0) return i;
    size_t head = i / width * width, j = i % width;
    if (w->target->rope_pairs) return head + j / 2 + j % 2 * (width / 2);
    return head + (j < width / 2 ? 2 * j : 2 * (j - width / 2) + 1);
}

static braid_err check_values(const writer *w, size_t count) {
    // the scale of a block of Q8_0 is the largest value / 127 in F16
    static const float limits[WEIGHT_TYPES] = {
        [WEIGHT_F16] = 65504, [WEIGHT_BF16] = 3.38e38f, [WEIGHT_Q8_0] = 127.0f * 65504, [WEIGHT_MIXED8] = 3.4e38f};
    float most = limits[w->target->type];
    if (w->target->type == WEIGHT_F32) return BRAID_OK;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(w->values[i]) <= most))
            return braid_fail(w->error, BRAID_NUMERIC,
                              "the tensor '%s' has the value %g, which %s does not hold; use f32", w->t->name,
                              (double)w->values[i], weight_type_name(w->target->type));
    return BRAID_OK;
}

// Fills w->values with the target's rows [first, first + count).
static void read_rows(const writer *w, size_t first, size_t count) {
    const weight_matrix *m = &w->t->weights;
    bool reorder = w->t->rope_pairs != w->target->rope_pairs;
    if (w->whole)
        memcpy(w->values, w->whole + first * w->cols, count * w->cols * sizeof *w->values);
    else
        for (size_t i = 0; i < count; i++)
            weight_rows(m, w->t->vector ? first + i : source_of(w, first + i), 1, w->values + i * w->cols);
    bool shifted = w->target->shift < 0 ||
                   w->target->shift > 0;  // adding zero would change the sign of a negative zero
    for (size_t i = 0; i < count * w->cols && shifted; i++) w->values[i] += w->target->shift;
    if (!w->t->vector || !reorder) return;
    float *copy = (float *)(void *)w->packed;  // of a vector's elements, which are packed afterwards
    memcpy(copy, w->values, w->cols * sizeof *copy);
    for (size_t i = 0; i < w->cols; i++) w->values[i] = copy[source_of(w, i)];
}

static braid_err copy_rows(const writer *w) {
    const weight_matrix *m = &w->t->weights;
    size_t bytes = weight_row_bytes(m->type, m->cols);
    if (m->type == WEIGHT_MIXED8) return output_put(w->o, m->data, weight_bytes(m->type, m->rows, m->cols), w->error);
    if (w->t->rope_pairs == w->target->rope_pairs) return output_put(w->o, m->data, m->rows * bytes, w->error);
    braid_err err = BRAID_OK;
    for (size_t i = 0; i < m->rows && !err; i++)
        err = output_put(w->o, weight_row(m, source_of(w, i)), bytes, w->error);
    return err;
}

static braid_err pack_rows(const writer *w) {
    size_t bytes = weight_row_bytes(w->target->type, w->cols);
    for (size_t first = 0; first < w->rows; first += w->block) {
        size_t count = w->rows - first < w->block ? w->rows - first : w->block;
        read_rows(w, first, count);
        braid_err err = check_values(w, count * w->cols);
        if (err) return err;
        for (size_t i = 0; i < count; i++)
            weight_pack(w->target->type, w->values + i * w->cols, w->cols, w->packed + i * bytes);
        err = output_put(w->o, w->packed, count * bytes, w->error);
        if (err) return err;
    }
    return BRAID_OK;
}

static braid_err choose_columns(const writer *w, double *score, uint32_t *column) {
    for (size_t first = 0; first < w->rows; first += w->block) {
        size_t count = w->rows - first < w->block ? w->rows - first : w->block;
        read_rows(w, first, count);
        braid_err err = check_values(w, count * w->cols);
        if (err) return err;
        mixed8_score(w->values, count, w->cols, score);
    }
    mixed8_choose(score, w->cols, column);
    return output_put(w->o, column, mixed8_critical(w->cols) * sizeof *column, w->error);
}

static braid_err pack_mixed8(const writer *w) {
    double *score = calloc(w->cols, sizeof *score);
    uint32_t *column = calloc(mixed8_critical(w->cols) + 1, sizeof *column);
    size_t bytes = weight_row_bytes(WEIGHT_MIXED8, w->cols);
    braid_err err = score && column ? choose_columns(w, score, column)
                                    : braid_fail(w->error, BRAID_MEMORY, "no memory to convert '%s'", w->t->name);
    for (size_t row = 0; row < w->rows && !err; row++) {
        read_rows(w, row, 1);
        mixed8_pack(column, w->values, w->cols, w->packed);
        err = output_put(w->o, w->packed, bytes, w->error);
    }
    free(score);
    free(column);
    return err;
}

// The transposed matrix as a whole. Only GPT-2 has such matrices, and they are small.
static bool turn(writer *w) {
    const weight_matrix *m = &w->t->weights;
    float *row = malloc((m->cols + 1) * sizeof *row);
    w->whole = malloc((m->rows * m->cols + 1) * sizeof *w->whole);
    for (size_t i = 0; row && w->whole && i < m->rows; i++) {
        weight_rows(m, i, 1, row);
        for (size_t j = 0; j < m->cols; j++) w->whole[j * m->rows + i] = row[j];
    }
    free(row);
    return row && w->whole;
}

static braid_err write_values(writer *w) {
    size_t row = w->cols * sizeof(float);
    w->block = row < BLOCK_BYTES ? BLOCK_BYTES / row : 1;
    w->values = malloc(w->block * row);
    w->packed = malloc(w->block * row + 2 * row);
    bool ready = w->values && w->packed && (w->t->transposed == w->target->transposed || turn(w));
    if (!ready) return braid_fail(w->error, BRAID_MEMORY, "no memory to convert '%s'", w->t->name);
    return w->target->type == WEIGHT_MIXED8 ? pack_mixed8(w) : pack_rows(w);
}

braid_err tensor_write(const model_file_tensor *t, const tensor_target *target, output *o, braid_error *error) {
    writer w = {.t = t, .target = target, .o = o, .error = error};
    tensor_target_shape(t, target, &w.rows, &w.cols);
    bool shifted = target->shift < 0 || target->shift > 0;
    bool reordered = t->vector && t->rope_pairs != target->rope_pairs;
    if (t->weights.type == target->type && t->transposed == target->transposed && !shifted && !reordered)
        return copy_rows(&w);
    braid_err err = write_values(&w);
    free(w.whole);
    free(w.values);
    free(w.packed);
    return err;
}
