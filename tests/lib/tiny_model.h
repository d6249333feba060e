// Tiny models with random weights, in directories of their own.
#ifndef BRAID_TEST_TINY_MODEL_H
#define BRAID_TEST_TINY_MODEL_H

#include "base/rng.h"
#include "format/hf_config.h"
#include "format/safetensors.h"
#include "model/rows.h"
#include "tensor/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TINY_MOST = 256 };

static inline model_config tiny_llama(void) {
    return (model_config){.arch = MODEL_LLAMA,
                          .dim = 64,
                          .layers = 3,
                          .heads = 4,
                          .kv_heads = 2,
                          .ffn_dim = 96,
                          .vocab = 128,
                          .context = 64,
                          .rope_theta = 10000,
                          .norm_eps = 1e-5f,
                          .tied = true};
}

static inline model_config tiny_gpt(void) {
    return (model_config){.arch = MODEL_GPT,
                          .dim = 64,
                          .layers = 2,
                          .heads = 4,
                          .kv_heads = 4,
                          .ffn_dim = 256,
                          .vocab = 96,
                          .context = 32,
                          .norm_eps = 1e-5f,
                          .tied = true};
}

// The tensors of one safetensors file, which a test may change before it is written.
typedef struct tiny_file {
    safetensors_tensor entry[TINY_MOST];
    char name[TINY_MOST][MODEL_TENSOR_NAME + 32];
    float *values[TINY_MOST];
    uint32_t count;
} tiny_file;

static inline uint64_t tiny_elements(const safetensors_tensor *t) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->dims; d++) n *= t->shape[d];
    return n;
}

static inline void tiny_add(tiny_file *f, const char *name, uint32_t dims, uint64_t first, uint64_t second, rng *r) {
    assert_in_range(f->count, 0, TINY_MOST - 1);
    safetensors_tensor *t = &f->entry[f->count];
    snprintf(f->name[f->count], sizeof f->name[0], "%s", name);
    *t = (safetensors_tensor){
        .name = f->name[f->count], .dtype = SAFETENSORS_F32, .dims = dims, .shape = {first, second}};
    uint64_t n = tiny_elements(t);
    float *values = f->values[f->count++] = malloc((n + 1) * sizeof *values);
    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) values[i] = (float)(rng_unit(r) - 0.5);
}

// All tensors of a config.
static inline void tiny_fill(tiny_file *f, const model_config *c, uint64_t seed) {
    rng r = {seed};
    f->count = 0;
    for (uint32_t i = 0; i < model_tensor_count(c); i++) {
        model_tensor t;
        model_tensor_at(c, i, &t);
        if (t.vector)
            tiny_add(f, t.name, 1, t.cols, 0, &r);
        else
            tiny_add(f, t.name, 2, t.rows, t.cols, &r);
    }
}

static inline uint32_t tiny_index(const tiny_file *f, const char *name) {
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->entry[i].name, name) == 0) return i;
    fail_msg("no tensor %s", name);
    return 0;
}

static inline void tiny_free(tiny_file *f) {
    for (uint32_t i = 0; i < f->count; i++) free(f->values[i]);
    f->count = 0;
}

static inline void tiny_put(const char *directory, const char *name, const void *data, size_t bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static inline void tiny_put_text(const char *directory, const char *name, const char *text) {
    tiny_put(directory, name, text, strlen(text));
}

// Tensors [first, first + count).
static inline void tiny_put_weights(const char *directory, const char *name, const tiny_file *f, uint32_t first,
                                    uint32_t count, const safetensors_note *notes, uint32_t note_count) {
    safetensors_tensor entry[TINY_MOST];
    size_t bytes, at = 0;
    memcpy(entry, f->entry + first, count * sizeof *entry);
    uint8_t *prefix = safetensors_prefix(entry, count, notes, note_count, &bytes);
    assert_non_null(prefix);
    uint64_t total = bytes;
    for (uint32_t i = 0; i < count; i++) total += entry[i].bytes;
    uint8_t *file = malloc(total);
    assert_non_null(file);
    memcpy(file, prefix, at = bytes);
    for (uint32_t i = 0; i < count; i++) {
        weight_type type = entry[i].dtype == SAFETENSORS_F16    ? WEIGHT_F16
                           : entry[i].dtype == SAFETENSORS_BF16 ? WEIGHT_BF16
                                                                : WEIGHT_F32;
        uint64_t n = tiny_elements(&entry[i]);
        weight_pack(type, f->values[first + i], n, file + at);
        at += entry[i].bytes;
    }
    tiny_put(directory, name, file, total);
    free(file);
    free(prefix);
}

static inline void tiny_put_config(const char *directory, const model_config *c) {
    size_t length;
    char *text = hf_config_write(c, &length);
    assert_non_null(text);
    tiny_put(directory, "config.json", text, length);
    free(text);
}

static inline void tiny_directory(const char *directory) { assert_int_equal(mkdir(directory, 0777), 0); }

static inline void tiny_write(const char *directory, const model_config *c, const tiny_file *f) {
    tiny_directory(directory);
    tiny_put_config(directory, c);
    tiny_put_weights(directory, "model.safetensors", f, 0, f->count, NULL, 0);
}

// Removes a directory with at most one level of directories in it.
static inline void tiny_remove(const char *path) {
    DIR *d = opendir(path);
    if (!d) {
        unlink(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        char inner[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (length < (int)sizeof inner && unlink(inner) != 0) tiny_remove(inner);
    }
    closedir(d);
    rmdir(path);
}

// A new directory for one test, which becomes the current one.
static inline int tiny_setup(void **state) {
    char *path = strdup("/tmp/braid-tiny-XXXXXX");
    *state = path;
    return path && mkdtemp(path) && chdir(path) == 0 ? 0 : -1;
}

static inline int tiny_teardown(void **state) {
    int done = chdir("/");
    tiny_remove(*state);
    free(*state);
    return done;
}

static inline uint8_t *tiny_read(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, f), *bytes);
    fclose(f);
    return data;
}

static inline void tiny_assert_same_file(const char *a, const char *b) {
    size_t first, second;
    uint8_t *x = tiny_read(a, &first), *y = tiny_read(b, &second);
    assert_int_equal(first, second);
    assert_memory_equal(x, y, first);
    free(x);
    free(y);
}

#endif
