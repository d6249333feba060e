// Every architecture compared with transformers in fp32 (tools/make-row-fixtures.py): config.json,
// logits, loss and every gradient. Measure: the largest difference of any element, divided by the root
// mean square of the tensor, below 1e-4. The bits must not depend on the split into stages, on threads,
// on recomputation and on the order of microbatches; model_split_rows.c checks that.
#include "format/hf_config.h"
#include "model/decoder.h"
#include "model/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-4;

typedef struct fixture_header {
    char magic[8];
    uint32_t length, sequences, tokens, entries;
} fixture_header;

typedef struct fixture_entry {
    char name[96];
    uint64_t count;
    float *values;
} fixture_entry;

typedef struct fixture {
    fixture_header header;
    fixture_entry *entries;
    model_config config;
} fixture;

static void read_exactly(FILE *file, void *to, size_t size) { assert_int_equal(fread(to, 1, size, file), size); }

static void fixture_read(const char *name, fixture *f) {
    char path[1024], *text;
    braid_error error;
    snprintf(path, sizeof path, "%s/golden/fixtures/row-%s.bin", BRAID_TEST_FIXTURES, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    read_exactly(file, &f->header, sizeof f->header);
    assert_memory_equal(f->header.magic, "BRAIDFX2", 8);
    text = malloc(f->header.length);
    read_exactly(file, text, f->header.length);
    if (hf_config_read(text, f->header.length, name, &f->config, &error)) fail_msg("%s", error.text);
    free(text);
    f->entries = calloc(f->header.entries, sizeof *f->entries);
    for (uint32_t i = 0; i < f->header.entries; i++) {
        fixture_entry *e = &f->entries[i];
        read_exactly(file, e->name, sizeof e->name);
        read_exactly(file, &e->count, sizeof e->count);
        e->values = malloc(e->count * sizeof *e->values);
        read_exactly(file, e->values, e->count * sizeof *e->values);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void fixture_free(fixture *f) {
    for (uint32_t i = 0; i < f->header.entries; i++) free(f->entries[i].values);
    free(f->entries);
}

static const fixture_entry *fixture_find(const fixture *f, const char *prefix, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (uint32_t i = 0; i < f->header.entries; i++)
        if (strcmp(f->entries[i].name, full) == 0) return &f->entries[i];
    fail_msg("the fixture has no %s", full);
    return NULL;
}

static void expect_near(const char *what, const float *found, const fixture_entry *expected) {
    double square = 0, worst = 0;
    for (uint64_t i = 0; i < expected->count; i++) {
        double e = (double)expected->values[i], difference = fabs((double)found[i] - e);
        square += e * e;
        if (!(difference <= worst)) worst = difference;
    }
    // An expert that no token uses has a gradient of zeros.
    double scale = square > 0 ? sqrt(square / (double)expected->count) : 1, relative = worst / scale;
    if (!(relative <= tolerance)) fail_msg("%s: error %g of the root mean square", what, relative);
}

// The function `parameter` of tools/make-row-fixtures.py.
static void make_parameter(const stage_tensor *t, bool plus_one, float *values) {
    uint64_t state = 0xcbf29ce484222325u;
    for (const char *c = t->name; *c; c++) state = (state ^ (uint8_t)*c) * 0x100000001b3u;
    size_t length = strlen(t->name);
    bool bias = length > 5 && strcmp(t->name + length - 5, ".bias") == 0;
    double scale = t->dims > 1 ? 0.5 : 0.25, from = t->dims > 1 || bias || plus_one ? 0 : 1;
    for (size_t e = 0; e < t->elements; e++) {
        uint64_t x = state + (e + 1) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
        values[e] = (float)(((double)(x >> 40) / 8388608.0 - 1) * scale + from);
    }
}

typedef struct gathered {
    float *gradient;
    atomic_bool twice;  // some element was passed twice
} gathered;

static void gather(void *context, size_t offset, const float *gradient, size_t count) {
    gathered *g = context;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(g->gradient[offset + i])) g->twice = true;
        g->gradient[offset + i] = gradient[i];
    }
}

// The output of the decoder, which reads one token at a time.
static void check_logits(const fixture *f, const float *parameters, const int32_t *read, tensor_pool *pool) {
    size_t sequences = f->header.sequences, tokens = f->header.tokens, vocab = f->config.vocab;
    const fixture_entry *expected = fixture_find(f, "", "logits");
    assert_int_equal(expected->count, sequences * tokens * vocab);
    float *found = malloc(expected->count * sizeof *found);
    decoder *d = NULL;
    assert_int_equal(decoder_new(&f->config, parameters, false, pool, &d, NULL), BRAID_OK);
    for (size_t i = 0; i < sequences; i++) {
        decoder_rewind(d);
        for (size_t t = 0; t < tokens; t++)
            decoder_read(d, (uint32_t)read[i * tokens + t], found + (i * tokens + t) * vocab);
    }
    expect_near("logits", found, expected);
    decoder_free(d);
    free(found);
}

typedef struct trained {
    stage *s;
    float *weights, *gradient, *y, *dx;
    int32_t *tokens, *targets;
    void *stash;
} trained;

static void trained_open(trained *t, const fixture *f, const stage_shape *shape, tensor_pool *pool) {
    braid_error error;
    if (stage_new(&f->config, shape, pool, &t->s, &error)) fail_msg("%s", error.text);
    size_t parameters = stage_parameters(t->s), activation = stage_activation_elements(t->s),
           rows = shape->sequences * shape->tokens;
    t->weights = malloc(parameters * sizeof *t->weights);
    t->gradient = malloc(parameters * sizeof *t->gradient);
    t->y = malloc(activation * sizeof *t->y);
    t->dx = malloc(activation * sizeof *t->dx);
    t->tokens = malloc(rows * sizeof *t->tokens);
    t->targets = malloc(rows * sizeof *t->targets);
    t->stash = aligned_alloc(64, stage_stash_bytes(t->s));
    for (size_t i = 0; i < parameters; i++) t->gradient[i] = NAN;
    for (size_t i = 0; i < rows; i++) {
        t->tokens[i] = (int32_t)fixture_find(f, "", "tokens")->values[i];
        t->targets[i] = (int32_t)fixture_find(f, "", "targets")->values[i];
    }
    bool plus_one = model_row_of(f->config.arch)->norm_plus_one;
    assert_int_equal(stage_tensor_count(t->s) + 4, f->header.entries);
    for (uint32_t i = 0; i < stage_tensor_count(t->s); i++)
        make_parameter(&stage_tensors(t->s)[i], plus_one, t->weights + stage_tensors(t->s)[i].offset);
    stage_bind(t->s, t->weights);
}

static void trained_close(trained *t) {
    free(t->stash);
    free(t->targets);
    free(t->tokens);
    free(t->dx);
    free(t->y);
    free(t->gradient);
    free(t->weights);
    stage_free(t->s);
}

static void check_gradients(const fixture *f, trained *t, uint32_t rows) {
    uint32_t counted, expected = 0;
    for (size_t i = 0; i < rows; i++) expected += t->targets[i] >= 0;
    stage_forward(t->s, t->stash, t->tokens, NULL, t->y);
    float loss = (float)stage_loss(t->s, t->stash, t->y, t->targets, t->dx, &counted);
    assert_int_equal(counted, expected);
    expect_near("loss", &loss, fixture_find(f, "", "loss"));
    stage_input_gradient(t->s, t->stash, t->dx, NULL);
    gathered all = {.gradient = t->gradient};
    stage_weight_gradient(t->s, t->stash, &(stage_sink){.take = gather, .context = &all});
    assert_false(all.twice);
    for (uint32_t i = 0; i < stage_tensor_count(t->s); i++) {
        const stage_tensor *one = &stage_tensors(t->s)[i];
        const fixture_entry *e = fixture_find(f, "g:", one->name);
        assert_int_equal(e->count, one->elements);
        expect_near(one->name, t->gradient + one->offset, e);
    }
}

static void test_fixture(void **state) {
    fixture f;
    tensor_pool *pool;
    fixture_read(*state, &f);
    assert_int_equal(tensor_pool_new(2, &pool, NULL), BRAID_OK);
    for (int i = 0; i < 4; i++) {
        stage_shape shape = {.layer_end = f.config.layers,
                             .ends = true,
                             .sequences = f.header.sequences,
                             .tokens = f.header.tokens,
                             .recompute = i & 1,
                             .fastest = i & 2};
        trained t;
        trained_open(&t, &f, &shape, pool);
        if (i == 0) check_logits(&f, t.weights, t.tokens, pool);
        check_gradients(&f, &t, shape.sequences * shape.tokens);
        trained_close(&t);
    }
    tensor_pool_free(pool);
    fixture_free(&f);
}

#define FIXTURE(file) \
    { .name = file, .test_func = test_fixture, .initial_state = (void *)(uintptr_t)file }

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE("llama-llama3"),  FIXTURE("llama-linear"),   FIXTURE("llama-yarn"),     FIXTURE("mistral"),
        FIXTURE("mistral-plain"), FIXTURE("qwen2"),          FIXTURE("qwen3"),          FIXTURE("qwen3-window"),
        FIXTURE("smollm3"),       FIXTURE("smollm3-window"), FIXTURE("gemma3"),         FIXTURE("gemma2"),
        FIXTURE("mixtral"),       FIXTURE("qwen3-moe"),      FIXTURE("qwen3-moe-norm"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
