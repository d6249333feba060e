#include "weights/parts.h"

#include "weights/inside.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 32 };

typedef struct head {
    uint32_t type, flags;
    uint64_t rows, cols, bytes;
} head;

static uint64_t aligned(uint64_t at) { return (at + PARTS_ALIGNMENT - 1) / PARTS_ALIGNMENT * PARTS_ALIGNMENT; }

static void put(uint8_t *to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

braid_err parts_new(const model_config *config, model_file **out, braid_error *error) {
    *out = NULL;
    model_file *f = calloc(1, sizeof *f);
    if (!f) return braid_fail(error, BRAID_MEMORY, "no memory for a model");
    f->config = *config;
    braid_err err = model_file_expect(f, error);
    if (err)
        model_file_close(f);
    else
        *out = f;
    return err;
}

bool parts_has(const model_file *f, uint32_t first, uint32_t end) {
    bool all = true;
    for (uint32_t i = first; i < end; i++) all &= f->tensor[i].weights.data != NULL;
    return all;
}

static uint64_t tensor_bytes(const model_file_tensor *t) {
    return weight_bytes(t->weights.type, t->weights.rows, t->weights.cols);
}

uint64_t parts_bytes(const model_file *f, uint32_t first, uint32_t end) {
    uint64_t at = (uint64_t)(end - first) * HEAD;
    for (uint32_t i = first; i < end; i++) at = aligned(at) + tensor_bytes(&f->tensor[i]);
    return at;
}

typedef struct window {
    uint64_t offset, count;
    uint8_t *out;
} window;

// Bytes at [at, at + count) of the group, as far as the window has them. NULL: zeros.
static void copy(const window *w, uint64_t at, const void *from, uint64_t count) {
    uint64_t begin = at > w->offset ? at : w->offset,
             end = at + count < w->offset + w->count ? at + count : w->offset + w->count;
    if (begin >= end) return;
    if (from)
        memcpy(w->out + (begin - w->offset), (const uint8_t *)from + (begin - at), end - begin);
    else
        memset(w->out + (begin - w->offset), 0, end - begin);
}

void parts_read(const model_file *f, uint32_t first, uint32_t end, uint64_t offset, uint64_t count, void *out) {
    const window w = {offset, count, out};
    uint64_t at = (uint64_t)(end - first) * HEAD;
    for (uint32_t i = first; i < end; i++) {
        const model_file_tensor *t = &f->tensor[i];
        uint8_t bytes[HEAD];
        put(bytes, t->weights.type, 4);
        put(bytes + 4, (uint64_t)t->vector | (uint64_t)t->transposed << 1 | (uint64_t)t->rope_pairs << 2, 4);
        put(bytes + 8, t->weights.rows, 8);
        put(bytes + 16, t->weights.cols, 8);
        put(bytes + 24, tensor_bytes(t), 8);
        copy(&w, (uint64_t)(i - first) * HEAD, bytes, HEAD);
        copy(&w, at, NULL, aligned(at) - at);
        copy(&w, aligned(at), t->weights.data, tensor_bytes(t));
        at = aligned(at) + tensor_bytes(t);
    }
}

static head head_at(const uint8_t *bytes) {
    return (head){.type = (uint32_t)get(bytes, 4),
                  .flags = (uint32_t)get(bytes + 4, 4),
                  .rows = get(bytes + 8, 8),
                  .cols = get(bytes + 16, 8),
                  .bytes = get(bytes + 24, 8)};
}

static bool is_sound(const head *h, const model_tensor *expected) {
    bool turned = ((h->flags >> 1) & 1) != expected->transposed;
    uint64_t rows = turned ? expected->cols : expected->rows, cols = turned ? expected->rows : expected->cols;
    return h->type < WEIGHT_TYPES && h->flags < 8 && (h->flags & 1) == expected->vector && h->rows == rows &&
           h->cols == cols && h->bytes > 0 && h->bytes == weight_bytes((weight_type)h->type, h->rows, h->cols);
}

static bool take(model_file *f, uint32_t i, const head *h, const uint8_t *values) {
    model_file_tensor *t = &f->tensor[i];
    t->weights = (weight_matrix){(weight_type)h->type, h->rows, h->cols, values};
    t->transposed = (h->flags >> 1) & 1;
    t->rope_pairs = (h->flags >> 2) & 1;
    return t->weights.type != WEIGHT_MIXED8 || mixed8_valid(&t->weights);
}

braid_err parts_set(model_file *f, uint32_t first, uint32_t end, const void *bytes, uint64_t count,
                    braid_error *error) {
    uint64_t at = (uint64_t)(end - first) * HEAD;
    bool good = count >= at;
    for (uint32_t i = first; i < end && good; i++) {
        const head h = head_at((const uint8_t *)bytes + (uint64_t)(i - first) * HEAD);
        at = aligned(at);
        good = is_sound(&h, &f->expected.tensor[i]) && at <= count && h.bytes <= count - at &&
               take(f, i, &h, (const uint8_t *)bytes + at);
        at += h.bytes;
    }
    if (good && at == count) return BRAID_OK;
    parts_clear(f, first, end);
    return braid_fail(error, BRAID_FORMAT, "the tensors %s and those after it are not those of this model's shape",
                      f->tensor[first].name);
}

void parts_clear(model_file *f, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) f->tensor[i].weights = (weight_matrix){0};
}
