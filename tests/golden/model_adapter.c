// LoRA and rank-stabilised LoRA compared with peft 0.21 in fp64 (tools/make-adapter-fixtures.py):
// the loss, and the gradients of A and B. Measure: the largest difference of any element, divided
// by the root mean square of the tensor, below 1e-4.
#include "model/adapter.h"
#include "model/decoder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-4;

typedef struct head {
    char magic[8];
    uint32_t arch, dim, layers, heads, kv_heads, ffn_dim, vocab, context, tied, sequences, tokens, entries;
    float rope_theta, norm_eps;
    uint32_t rank;
    float alpha;
    uint32_t rank_stabilised;
} head;

typedef struct entry {
    char name[96];
    uint64_t count;
    float *values;
} entry;

typedef struct golden {
    head head;
    entry *entries;
    tensor_pool *pool;
    stage *stage;
    adapter *adapter;
    float *base, *merged, *parameters, *gradient;
    int32_t *read, *targets;
} golden;

static void read_file(golden *g, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/fixtures/adapter-%s.bin", BRAID_TEST_FIXTURES, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&g->head, sizeof g->head, 1, file), 1);
    assert_memory_equal(g->head.magic, "BRAIDAD1", 8);
    g->entries = calloc(g->head.entries, sizeof *g->entries);
    for (uint32_t i = 0; i < g->head.entries; i++) {
        entry *e = &g->entries[i];
        assert_int_equal(fread(e->name, sizeof e->name, 1, file), 1);
        assert_int_equal(fread(&e->count, sizeof e->count, 1, file), 1);
        e->values = malloc(e->count * sizeof *e->values);
        assert_int_equal(fread(e->values, sizeof *e->values, e->count, file), e->count);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static const entry *find(const golden *g, const char *prefix, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (uint32_t i = 0; i < g->head.entries; i++)
        if (strcmp(g->entries[i].name, full) == 0) return &g->entries[i];
    fail_msg("the fixture has no %s", full);
    return NULL;
}

static void expect_near(const entry *expected, const float *found) {
    double square = 0, worst = 0;
    for (uint64_t i = 0; i < expected->count; i++) {
        double e = (double)expected->values[i], difference = fabs((double)found[i] - e);
        square += e * e;
        if (!(difference <= worst)) worst = difference;
    }
    double relative = worst / sqrt(square / (double)expected->count);
    if (!(relative <= tolerance)) fail_msg("%s: error %g of the root mean square", expected->name, relative);
}

static model_config config_of(const head *h) {
    return (model_config){.arch = h->arch == 0 ? MODEL_LLAMA : MODEL_GPT,
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

static void load(golden *g) {
    const stage_tensor *t = stage_tensors(g->stage);
    const adapter_tensor *at = adapter_tensors(g->adapter);
    size_t rows = (size_t)g->head.sequences * g->head.tokens;
    for (uint32_t i = 0; i < stage_tensor_count(g->stage); i++, t++) {
        const entry *e = find(g, "p:", t->name);
        assert_int_equal(e->count, t->elements);
        memcpy(g->base + t->offset, e->values, e->count * sizeof *e->values);
    }
    for (uint32_t i = 0; i < adapter_tensor_count(g->adapter); i++, at++) {
        const entry *a = find(g, "a:", adapter_tensor_name(g->adapter, i));
        const entry *b = find(g, "b:", adapter_tensor_name(g->adapter, i));
        assert_int_equal(a->count, (size_t)at->in * g->head.rank);
        assert_int_equal(b->count, (size_t)at->out * g->head.rank);
        memcpy(g->parameters + at->a, a->values, a->count * sizeof(float));
        memcpy(g->parameters + at->b, b->values, b->count * sizeof(float));
    }
    for (size_t i = 0; i < rows; i++) {
        g->read[i] = (int32_t)find(g, "", "read")->values[i];
        g->targets[i] = (int32_t)find(g, "", "targets")->values[i];
        if (g->targets[i] < 0) g->targets[i] = -1;
    }
}

static void open_case(golden *g, const char *name, unsigned threads, bool recompute) {
    uint64_t llama = 1u << ROLE_Q | 1u << ROLE_V,
             all = llama | 1u << ROLE_K | 1u << ROLE_O | 1u << ROLE_GATE | 1u << ROLE_UP | 1u << ROLE_DOWN;
    *g = (golden){0};
    read_file(g, name);
    model_config config = config_of(&g->head);
    stage_shape shape = {.layer_end = config.layers,
                         .ends = true,
                         .sequences = g->head.sequences,
                         .tokens = g->head.tokens,
                         .frozen = true,
                         .recompute = recompute};
    adapter_config wanted = {.rank = g->head.rank,
                             .alpha = g->head.alpha,
                             .rank_stabilised = g->head.rank_stabilised != 0,
                             .roles = strcmp(name, "rslora") == 0 ? llama : all};
    if (strcmp(name, "gpt") == 0) wanted.roles = 1u << ROLE_QKV | 1u << ROLE_O | 1u << ROLE_UP | 1u << ROLE_DOWN;
    assert_int_equal(tensor_pool_new(threads, &g->pool, NULL), BRAID_OK);
    assert_int_equal(stage_new(&config, &shape, g->pool, &g->stage, NULL), BRAID_OK);
    assert_int_equal(adapter_new(g->stage, &wanted, &g->adapter, NULL), BRAID_OK);
    size_t rows = (size_t)shape.sequences * shape.tokens;
    g->base = aligned_alloc(64, (stage_parameters(g->stage) * sizeof(float) + 63) / 64 * 64);
    g->merged = aligned_alloc(64, (stage_parameters(g->stage) * sizeof(float) + 63) / 64 * 64);
    g->parameters = calloc(adapter_parameters(g->adapter), sizeof(float));
    g->gradient = calloc(adapter_parameters(g->adapter), sizeof(float));
    g->read = calloc(rows, sizeof *g->read);
    g->targets = calloc(rows, sizeof *g->targets);
    load(g);
    adapter_merge(g->adapter, g->base, g->parameters, true, g->merged);
    stage_bind(g->stage, g->merged);
}

static void close_case(golden *g) {
    for (uint32_t i = 0; i < g->head.entries; i++) free(g->entries[i].values);
    free(g->entries);
    adapter_free(g->adapter);
    stage_free(g->stage);
    tensor_pool_free(g->pool);
    free(g->base);
    free(g->merged);
    free(g->parameters);
    free(g->gradient);
    free(g->read);
    free(g->targets);
}

static void take(void *context, size_t offset, const float *gradient, size_t count) {
    memcpy((float *)context + offset, gradient, count * sizeof *gradient);
}

static double run(golden *g) {
    size_t elements = stage_activation_elements(g->stage) * sizeof(float);
    float *y = aligned_alloc(64, (elements + 63) / 64 * 64), *dy = aligned_alloc(64, (elements + 63) / 64 * 64);
    void *stash = aligned_alloc(64, (stage_stash_bytes(g->stage) + 63) / 64 * 64);
    uint32_t tokens = 0;
    stage_forward(g->stage, stash, g->read, NULL, y);
    double loss = stage_loss(g->stage, stash, y, g->targets, dy, &tokens);
    assert_int_equal(tokens, g->head.sequences * g->head.tokens - 3);
    stage_input_gradient(g->stage, stash, dy, NULL);
    adapter_gradient(g->adapter, stash, g->parameters, &(stage_sink){.take = take, .context = g->gradient});
    free(y);
    free(dy);
    free(stash);
    return loss;
}

static void check_logits(const golden *g) {
    const entry *expected = find(g, "", "logits");
    model_config config = config_of(&g->head);
    float *found = malloc(expected->count * sizeof *found);
    decoder *d = NULL;
    assert_int_equal(decoder_new(&config, g->merged, false, g->pool, &d, NULL), BRAID_OK);
    for (size_t i = 0; i < (size_t)g->head.sequences * g->head.tokens; i++) {
        if (i % g->head.tokens == 0) decoder_rewind(d);
        decoder_read(d, (uint32_t)g->read[i], found + i * g->head.vocab);
    }
    expect_near(expected, found);
    decoder_free(d);
    free(found);
}

static void check_case(const char *name, bool recompute) {
    golden g, other;
    open_case(&g, name, 2, recompute);
    float loss = (float)run(&g);
    expect_near(find(&g, "", "loss"), &loss);
    check_logits(&g);
    const adapter_tensor *t = adapter_tensors(g.adapter);
    assert_true(adapter_tensor_count(g.adapter) > 0);
    for (uint32_t i = 0; i < adapter_tensor_count(g.adapter); i++, t++) {
        expect_near(find(&g, "ga:", adapter_tensor_name(g.adapter, i)), g.gradient + t->a);
        expect_near(find(&g, "gb:", adapter_tensor_name(g.adapter, i)), g.gradient + t->b);
    }
    open_case(&other, name, 1, !recompute);
    run(&other);
    assert_memory_equal(g.gradient, other.gradient, adapter_parameters(g.adapter) * sizeof(float));
    close_case(&g);
    close_case(&other);
}

static void lora_equals_peft(void **state) {
    (void)state;
    check_case("lora", false);
}

static void rank_stabilised_lora_equals_peft(void **state) {
    (void)state;
    check_case("rslora", true);
}

static void lora_on_transposed_matrices_equals_peft(void **state) {
    (void)state;
    check_case("gpt", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lora_equals_peft),
        cmocka_unit_test(rank_stabilised_lora_equals_peft),
        cmocka_unit_test(lora_on_transposed_matrices_equals_peft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
