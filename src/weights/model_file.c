#include "weights/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *model_file_copy(const char *text, size_t length) {
    char *out = malloc(length + 1);
    if (!out) return NULL;
    memcpy(out, text, length);
    out[length] = 0;
    return out;
}

braid_err model_file_reserve(model_file *f, uint32_t shards, braid_error *error) {
    f->map = calloc(shards, sizeof *f->map);
    f->gguf = calloc(shards, sizeof *f->gguf);
    f->header = calloc(shards, sizeof(safetensors *));
    return f->map && f->gguf && f->header
               ? BRAID_OK
               : braid_fail(error, BRAID_MEMORY, "no memory for %u shards", (unsigned)shards);
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(model_file_tensor *const *)a)->name, (*(model_file_tensor *const *)b)->name);
}

braid_err model_file_expect(model_file *f, braid_error *error) {
    braid_err err = expected_tensors(&f->config, &f->expected, error);
    if (err) return err;
    uint32_t count = f->expected.count;
    f->tensor = calloc((size_t)count + 1, sizeof *f->tensor);
    f->by_name = calloc((size_t)count + 1, sizeof(model_file_tensor *));
    if (!f->tensor || !f->by_name) return braid_fail(error, BRAID_MEMORY, "no memory for %u tensors", count);
    f->count = count;
    for (uint32_t i = 0; i < count; i++) {
        const model_tensor *e = &f->expected.tensor[i];
        snprintf(f->tensor[i].name, sizeof f->tensor[i].name, "%s", e->name);
        f->tensor[i].vector = e->vector;
        f->tensor[i].transposed = e->transposed;
        f->tensor[i].head_dim = model_head_dim(&f->config);
        f->by_name[i] = &f->tensor[i];
    }
    qsort(f->by_name, count, sizeof(model_file_tensor *), compare_names);
    return BRAID_OK;
}

braid_err model_file_open(const char *path, model_file **out, braid_error *error) {
    struct stat info;
    model_file *f = calloc(1, sizeof *f);
    if (!f) return braid_fail(error, BRAID_MEMORY, "no memory for a model");
    braid_err err = BRAID_OK;
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        err = braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", path);
    else if (stat(path, &info) != 0)
        err = braid_fail(error, BRAID_IO, "cannot open '%s': %s", path, strerror(errno));
    f->directory = !err && S_ISDIR(info.st_mode);
    if (!err) err = f->directory ? directory_open(f, error) : gguf_model_open(f, error);
    if (err) {
        model_file_close(f);
        return err;
    }
    *out = f;
    return BRAID_OK;
}

void model_file_close(model_file *f) {
    if (!f) return;
    for (uint32_t i = 0; i < f->shards; i++) {
        gguf_free(&f->gguf[i]);
        safetensors_free(f->header[i]);
        mapped_close(&f->map[i]);
    }
    free(f->map);
    free(f->gguf);
    free(f->header);
    free(f->tensor);
    free(f->by_name);
    free(f->expected.tensor);
    free(f->owned.read);
    free(f->owned.merged);
    free(f->chat_template);
    free(f);
}

const model_config *model_file_config(const model_file *f) { return &f->config; }
uint32_t model_file_count(const model_file *f) { return f->count; }
const model_file_tensor *model_file_at(const model_file *f, uint32_t i) { return &f->tensor[i]; }
const char *model_file_chat_template(const model_file *f) { return f->chat_template; }

const model_file_tensor *model_file_find(const model_file *f, const char *name) {
    model_file_tensor wanted;
    if (snprintf(wanted.name, sizeof wanted.name, "%s", name) >= (int)sizeof wanted.name) return NULL;
    const model_file_tensor *key = &wanted, **found;
    found = bsearch(&key, f->by_name, f->count, sizeof(model_file_tensor *), compare_names);
    return found ? *found : NULL;
}

// Where element i of a head is among its pairs.
static size_t pair_of(size_t i, size_t width) { return i < width / 2 ? 2 * i : 2 * (i - width / 2) + 1; }

// The elements of a vector, one head after the other.
static void undo_pairs(float *out, size_t count, size_t width) {
    float head[MODEL_MAX_DIM];  // model_config_check: no head is wider
    for (size_t at = 0; at + width <= count; at += width) {
        memcpy(head, out + at, width * sizeof *head);
        for (size_t i = 0; i < width; i++) out[at + i] = head[pair_of(i, width)];
    }
}

void model_file_values(const model_file_tensor *t, float *out) {
    const weight_matrix *w = &t->weights;
    size_t width = t->head_dim;
    if (!t->rope_pairs || t->vector) weight_rows(w, 0, w->rows, out);
    if (!t->rope_pairs) return;
    if (t->vector) undo_pairs(out, w->cols, width);
    for (size_t row = 0; row < w->rows && !t->vector; row++)
        weight_rows(w, row / width * width + pair_of(row % width, width), 1, out + row * w->cols);
}

bool model_file_has_tokenizer(const model_file *f) {
    char path[MAPPED_MAX_PATH + 16];
    struct stat info;
    if (!f->directory) return gguf_find(&f->gguf[0], "tokenizer.ggml.tokens") != NULL;
    snprintf(path, sizeof path, "%s/tokenizer.json", f->path);
    return stat(path, &info) == 0;
}

// A directory's embedding may have more rows than the tokenizer has tokens: they are rounded up for
// speed.
braid_err model_file_tokenizer(const model_file *f, tokenizer **out, braid_error *error) {
    *out = NULL;
    if (!f->directory) return gguf_tokenizer(f, out, error);
    if (!model_file_has_tokenizer(f)) return braid_fail(error, BRAID_CONFIG, "%s has no tokenizer.json", f->path);
    braid_err err = tokenizer_open(f->path, out, error);
    if (err || tokenizer_size(*out) <= f->config.vocab) return err;
    err = braid_fail(error, BRAID_FORMAT,
                     "%s: the tokenizer has %u tokens, the embedding %u rows; they are not of one model", f->path,
                     (unsigned)tokenizer_size(*out), (unsigned)f->config.vocab);
    tokenizer_free(*out);
    *out = NULL;
    return err;
}
