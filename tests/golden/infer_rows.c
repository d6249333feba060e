// The engine's logits for every architecture compared with transformers in fp32, on the fixtures of
// tools/make-row-fixtures.py and its formula for the parameters. Texts are read in pieces, and both of a
// fixture in one call.
#include "format/hf_config.h"
#include "infer/engine.h"
#include "model/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-4;

typedef struct fixture_header {
    char magic[8];
    uint32_t length, sequences, tokens, entries;
} fixture_header;

typedef struct fixture {
    fixture_header header;
    model_config config;
    uint32_t *tokens;
    float *logits;
    model_file_tensor *tensors;
} fixture;

static void read_exactly(FILE *file, void *to, size_t size) { assert_int_equal(fread(to, 1, size, file), size); }

// Tokens and logits; other entries are passed over.
static void read_entry(FILE *file, fixture *f) {
    char name[96];
    uint64_t count;
    read_exactly(file, name, sizeof name);
    read_exactly(file, &count, sizeof count);
    float *values = malloc(count * sizeof *values);
    read_exactly(file, values, count * sizeof *values);
    if (strcmp(name, "logits") == 0) {
        assert_int_equal(count, f->header.sequences * f->header.tokens * f->config.vocab);
        f->logits = values;
        return;
    }
    if (strcmp(name, "tokens") == 0) {
        f->tokens = calloc(count, sizeof *f->tokens);
        for (uint64_t i = 0; i < count; i++) f->tokens[i] = (uint32_t)values[i];
    }
    free(values);
}

static void make_parameter(const model_tensor *t, bool plus_one, float *values) {
    uint64_t state = 0xcbf29ce484222325u;
    for (const char *c = t->name; *c; c++) state = (state ^ (uint8_t)*c) * 0x100000001b3u;
    bool bias = strstr(t->name, ".bias") != NULL;
    double scale = t->vector ? 0.25 : 0.5, from = !t->vector || bias || plus_one ? 0 : 1;
    for (size_t e = 0; e < (size_t)t->rows * t->cols; e++) {
        uint64_t x = state + (e + 1) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
        values[e] = (float)(((double)(x >> 40) / 8388608.0 - 1) * scale + from);
    }
}

static void make_tensors(fixture *f) {
    uint32_t count = model_tensor_count(&f->config);
    f->tensors = calloc(count, sizeof *f->tensors);
    for (uint32_t i = 0; i < count; i++) {
        model_tensor t;
        model_tensor_at(&f->config, i, &t);
        float *values = malloc((size_t)t.rows * t.cols * sizeof *values);
        make_parameter(&t, model_row_of(f->config.arch)->norm_plus_one, values);
        memcpy(f->tensors[i].name, t.name, sizeof t.name);
        f->tensors[i].vector = t.vector;
        f->tensors[i].transposed = t.transposed;
        f->tensors[i].weights = (weight_matrix){WEIGHT_F32, t.rows, t.cols, values};
    }
}

static void fixture_read(const char *name, fixture *f) {
    char path[1024];
    braid_error error;
    *f = (fixture){0};
    snprintf(path, sizeof path, "%s/golden/fixtures/row-%s.bin", BRAID_TEST_FIXTURES, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    read_exactly(file, &f->header, sizeof f->header);
    assert_memory_equal(f->header.magic, "BRAIDFX2", 8);
    char *text = malloc(f->header.length);
    read_exactly(file, text, f->header.length);
    if (hf_config_read(text, f->header.length, name, &f->config, &error)) fail_msg("%s", error.text);
    free(text);
    for (uint32_t i = 0; i < f->header.entries; i++) read_entry(file, f);
    fclose(file);
    assert_true(f->tokens && f->logits);
    make_tensors(f);
}

static void fixture_free(fixture *f) {
    for (uint32_t i = 0; i < model_tensor_count(&f->config); i++) free((void *)f->tensors[i].weights.data);
    free(f->tensors);
    free(f->tokens);
    free(f->logits);
}

static const model_file_tensor *find(const void *context, const char *name) {
    const fixture *f = context;
    for (uint32_t i = 0; i < model_tensor_count(&f->config); i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

static void expect_near(const float *found, const float *expected, size_t count) {
    double square = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)found[i] - (double)expected[i]);
        square += (double)expected[i] * (double)expected[i];
        if (!(difference <= worst)) worst = difference;
    }
    double relative = worst / sqrt(square / (double)count);
    if (!(relative <= tolerance)) fail_msg("logits: error %g of the root mean square", relative);
}

// Reads the sequences of a fixture side by side, a piece of each in a call.
static void read_texts(engine *e, const fixture *f, uint32_t piece, float *logits) {
    enum { MOST = 8 };
    sequence *s[MOST];
    engine_part parts[MOST];
    size_t vocab = f->config.vocab, tokens = f->header.tokens, sequences = f->header.sequences;
    float *some = malloc(sequences * piece * vocab * sizeof *some);
    assert_true(sequences <= MOST);
    for (size_t i = 0; i < sequences; i++) assert_int_equal(sequence_new(e, &s[i], NULL), BRAID_OK);
    for (size_t first = 0; first < tokens; first += piece) {
        size_t count = tokens - first < piece ? tokens - first : piece;
        for (size_t i = 0; i < sequences; i++)
            parts[i] = (engine_part){s[i], (uint32_t)count, f->tokens + i * tokens + first};
        assert_int_equal(engine_read_all(e, parts, (uint32_t)sequences, some, NULL), BRAID_OK);
        for (size_t i = 0; i < sequences; i++)
            memcpy(logits + (i * tokens + first) * vocab, some + i * count * vocab, count * vocab * sizeof *some);
    }
    for (size_t i = 0; i < sequences; i++) sequence_free(s[i]);
    free(some);
}

static void test_fixture(void **state) {
    fixture f;
    braid_error error;
    tensor_pool *pool;
    engine *e;
    fixture_read(*state, &f);
    assert_int_equal(tensor_pool_new(2, &pool, NULL), BRAID_OK);
    engine_source source = {.config = &f.config, .find = find, .context = &f};
    engine_settings settings = {.pool = pool};
    if (engine_new(&source, &settings, &e, &error)) fail_msg("%s", error.text);
    size_t count = (size_t)f.header.sequences * f.header.tokens * f.config.vocab;
    float *found = malloc(count * sizeof *found), *again = malloc(count * sizeof *again);
    read_texts(e, &f, f.header.tokens, found);
    expect_near(found, f.logits, count);
    for (uint32_t piece = 1; piece < 8; piece += 2) {
        read_texts(e, &f, piece, again);
        assert_memory_equal(found, again, count * sizeof *found);
    }
    free(found);
    free(again);
    engine_free(e);
    tensor_pool_free(pool);
    fixture_free(&f);
}

#define ROW(name) \
    { name, test_fixture, NULL, NULL, (void *)(uintptr_t)name }

int main(void) {
    const struct CMUnitTest tests[] = {
        ROW("llama-linear"), ROW("llama-llama3"), ROW("llama-yarn"),   ROW("mistral"),   ROW("mistral-plain"),
        ROW("qwen2"),        ROW("qwen3"),        ROW("qwen3-window"), ROW("smollm3"),   ROW("smollm3-window"),
        ROW("gemma2"),       ROW("gemma3"),       ROW("mixtral"),      ROW("qwen3-moe"), ROW("qwen3-moe-norm"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
