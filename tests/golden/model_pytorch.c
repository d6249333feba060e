// Logits, loss and every gradient of small models compared with PyTorch in fp64
// (tools/make-fixtures.py). Measure: the largest difference of any element, divided by the root
// mean square of the tensor, below 1e-4.
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
    uint32_t arch, dim, layers, heads, kv_heads, ffn_dim, vocab, context, tied, sequences, tokens, entries;
    float rope_theta, norm_eps;
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

static void fixture_read(const char *name, fixture *f) {
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/fixtures/%s.bin", BRAID_TEST_FIXTURES, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&f->header, sizeof f->header, 1, file), 1);
    assert_memory_equal(f->header.magic, "BRAIDFX1", 8);
    f->entries = calloc(f->header.entries, sizeof *f->entries);
    for (uint32_t i = 0; i < f->header.entries; i++) {
        fixture_entry *e = &f->entries[i];
        assert_int_equal(fread(e->name, sizeof e->name, 1, file), 1);
        assert_int_equal(fread(&e->count, sizeof e->count, 1, file), 1);
        e->values = malloc(e->count * sizeof *e->values);
        assert_int_equal(fread(e->values, sizeof *e->values, e->count, file), e->count);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    const fixture_header *h = &f->header;
    f->config = (model_config){.arch = h->arch == 0 ? MODEL_LLAMA : MODEL_GPT,
                               .dim = h->dim,
                               .layers = h->layers,
                               .heads = h->heads,
                               .kv_heads = h->kv_heads,
                               .ffn_dim = h->ffn_dim,
                               .vocab = h->vocab,
                               .context = h->context,
                               .rope_theta = h->rope_theta,
                               .norm_eps = h->norm_eps,
                               .tied = h->tied != 0};
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
    double relative = worst / sqrt(square / (double)expected->count);
    if (!(relative <= tolerance)) fail_msg("%s: error %g of the root mean square", what, relative);
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

static void load_parameters(const fixture *f, const stage *s, float *parameters) {
    const stage_tensor *tensors = stage_tensors(s);
    assert_int_equal(2 * stage_tensor_count(s) + 4, f->header.entries);
    for (uint32_t i = 0; i < stage_tensor_count(s); i++) {
        const fixture_entry *e = fixture_find(f, "p:", tensors[i].name);
        assert_int_equal(e->count, tensors[i].elements);
        memcpy(parameters + tensors[i].offset, e->values, e->count * sizeof *e->values);
    }
}

// The output of the decoder, which reads one token at a time.
static void check_logits(const fixture *f, const float *parameters, const int32_t *read, tensor_pool *pool) {
    size_t sequences = f->header.sequences, tokens = f->header.tokens, vocab = f->header.vocab;
    const fixture_entry *expected = fixture_find(f, "", "logits");
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

static void check_fixture(const char *name, bool recompute, bool fastest) {
    fixture f;
    fixture_read(name, &f);
    stage_shape shape = {.layer_begin = 0,
                         .layer_end = f.config.layers,
                         .ends = true,
                         .sequences = f.header.sequences,
                         .tokens = f.header.tokens,
                         .recompute = recompute,
                         .fastest = fastest};
    braid_error error;
    tensor_pool *pool;
    stage *s;
    assert_int_equal(tensor_pool_new(2, &pool, &error), BRAID_OK);
    assert_int_equal(stage_new(&f.config, &shape, pool, &s, &error), BRAID_OK);
    size_t parameters = stage_parameters(s), activation = stage_activation_elements(s),
           rows = shape.sequences * shape.tokens;
    float *weights = malloc(parameters * sizeof *weights), *gradient = malloc(parameters * sizeof *gradient);
    float *y = malloc(activation * sizeof *y), *dx = malloc(activation * sizeof *dx);
    int32_t *tokens = malloc(rows * sizeof *tokens), *targets = malloc(rows * sizeof *targets);
    void *stash = aligned_alloc(64, stage_stash_bytes(s));
    for (size_t i = 0; i < parameters; i++) gradient[i] = NAN;
    for (size_t i = 0; i < rows; i++) {
        tokens[i] = (int32_t)fixture_find(&f, "", "tokens")->values[i];
        targets[i] = (int32_t)fixture_find(&f, "", "targets")->values[i];
    }
    load_parameters(&f, s, weights);
    stage_bind(s, weights);

    uint32_t counted, expected_counted = 0;
    for (size_t i = 0; i < rows; i++) expected_counted += targets[i] >= 0;
    stage_forward(s, stash, tokens, NULL, y);
    check_logits(&f, weights, tokens, pool);
    float loss = (float)stage_loss(s, stash, y, targets, dx, &counted);
    assert_int_equal(counted, expected_counted);
    expect_near("loss", &loss, fixture_find(&f, "", "loss"));
    stage_input_gradient(s, stash, dx, NULL);
    gathered all = {.gradient = gradient};
    stage_weight_gradient(s, stash, &(stage_sink){.take = gather, .context = &all});
    assert_false(all.twice);
    for (uint32_t i = 0; i < stage_tensor_count(s); i++) {
        const stage_tensor *t = &stage_tensors(s)[i];
        expect_near(t->name, gradient + t->offset, fixture_find(&f, "g:", t->name));
    }
    free(stash);
    free(targets);
    free(tokens);
    free(dx);
    free(y);
    free(gradient);
    free(weights);
    stage_free(s);
    tensor_pool_free(pool);
    fixture_free(&f);
}

static void test_fixture(void **state) {
    for (int i = 0; i < 4; i++) check_fixture(*state, i & 1, i & 2);
}

#define FIXTURE(file) \
    { .name = file, .test_func = test_fixture, .initial_state = (void *)(uintptr_t)file }

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE("llama-gqa-tied"), FIXTURE("llama-untied-long"), FIXTURE("llama-mqa-odd"),
        FIXTURE("gpt-tied"),       FIXTURE("gpt-untied-long"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
