// Adapters of an engine's texts: an adapted text has the logits of a model with merged weights, and
// texts of several adapters change no bit of each other.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "infer/adapters.h"
#include "engine_model.h"

enum { VOCAB = 96, COUNT = 70, RANK = 3 };

static const model_config llama = {.arch = MODEL_LLAMA,
                                   .dim = 64,
                                   .layers = 3,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .ffn_dim = 96,
                                   .vocab = VOCAB,
                                   .context = 200,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f,
                                   .tied = true};
static const model_config gpt = {.arch = MODEL_GPT,
                                 .dim = 72,
                                 .layers = 2,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .ffn_dim = 200,
                                 .vocab = VOCAB,
                                 .context = 200,
                                 .norm_eps = 1e-5f};

static float *random_values(rng *r, size_t count) {
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) values[i] = (float)(2 * rng_unit(r) - 1) * 0.3f;
    return values;
}

static peft_adapter *random_adapter(const model_config *c, uint64_t seed) {
    rng r = {seed};
    peft_adapter *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->rank = RANK;
    p->matrix = calloc(model_tensor_count(c), sizeof *p->matrix);
    assert_non_null(p->matrix);
    for (uint32_t i = 0; i < model_tensor_count(c); i++) {
        model_tensor t;
        model_tensor_at(c, i, &t);
        if (!adapter_may_target(t.role)) continue;
        peft_matrix *m = &p->matrix[p->count++];
        *m = (peft_matrix){.role = t.role,
                           .layer = t.layer,
                           .rank = RANK,
                           .in = t.transposed ? t.rows : t.cols,
                           .out = t.transposed ? t.cols : t.rows,
                           .scale = 0.5f};
        memcpy(m->name, t.name, sizeof t.name);
        m->a = random_values(&r, (size_t)RANK * m->in);
        m->b = random_values(&r, (size_t)RANK * m->out);
    }
    return p;
}

static void merge(tiny_model *model, const peft_adapter *p) {
    for (uint32_t k = 0; k < p->count; k++) {
        const peft_matrix *m = &p->matrix[k];
        const model_file_tensor *t = tiny_find(model, m->name);
        float *w = (float *)t->weights.data;
        for (size_t o = 0; o < m->out; o++)
            for (size_t i = 0; i < m->in; i++)
                for (size_t r = 0; r < RANK; r++)
                    w[t->transposed ? i * m->out + o : o * m->in + i] += m->scale * m->b[o * RANK + r] *
                                                                         m->a[r * m->in + i];
    }
}

// Rows of queries and keys in GGUF's order.
static void pair_rows(tiny_model *model) {
    size_t width = model->config.dim / model->config.heads, cols = model->config.dim;
    for (uint32_t i = 0; i < model->count; i++) {
        model_file_tensor *t = &model->tensors[i];
        if (!strstr(t->name, "q_proj") && !strstr(t->name, "k_proj")) continue;
        float *from = (float *)t->weights.data, *to = malloc(t->weights.rows * cols * sizeof *to);
        assert_non_null(to);
        for (size_t r = 0; r < t->weights.rows; r++) {
            size_t in_head = r % width, source = r - in_head + (in_head % 2 ? width / 2 : 0) + in_head / 2;
            memcpy(to + r * cols, from + source * cols, cols * sizeof *to);
        }
        t->weights.data = to;
        t->rope_pairs = true;
        free(from);
    }
}

typedef struct bench {
    tiny_model model;
    tensor_pool *pool;
    engine *e;
} bench;

static void bench_new(bench *b, const model_config *c, const peft_adapter *merged, bool pairs) {
    tiny_model_new(&b->model, c, WEIGHT_F32, 5);
    if (merged) merge(&b->model, merged);
    if (pairs) pair_rows(&b->model);
    engine_source source = tiny_source(&b->model);
    assert_int_equal(tensor_pool_new(2, &b->pool, NULL), BRAID_OK);
    engine_settings settings = {.pool = b->pool};
    assert_int_equal(engine_new(&source, &settings, &b->e, NULL), BRAID_OK);
}

static void bench_free(bench *b) {
    engine_free(b->e);
    tensor_pool_free(b->pool);
    tiny_model_free(&b->model);
}

static void read_text(engine *e, const engine_adapter *a, uint32_t start, float logits[VOCAB]) {
    uint32_t tokens[COUNT];
    sequence *s;
    for (uint32_t i = 0; i < COUNT; i++) tokens[i] = (start + i * 7) % VOCAB;
    assert_int_equal(sequence_new(e, &s, NULL), BRAID_OK);
    sequence_set_adapter(s, a);
    engine_part part = {s, COUNT, tokens};
    assert_int_equal(engine_read(e, &part, 1, logits, NULL), BRAID_OK);
    sequence_free(s);
}

static float farthest(const float *a, const float *b) {
    float most = 0;
    for (int i = 0; i < VOCAB; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static void check_merged(const model_config *c) {
    float base[VOCAB], adapted[VOCAB], expected[VOCAB];
    peft_adapter *p = random_adapter(c, 3);
    bench plain, merged;
    engine_adapter *a;
    bench_new(&plain, c, NULL, false);
    bench_new(&merged, c, p, false);
    assert_int_equal(engine_adapter_new(plain.e, p, &a, NULL), BRAID_OK);
    read_text(plain.e, NULL, 1, base);
    read_text(plain.e, a, 1, adapted);
    read_text(merged.e, NULL, 1, expected);
    assert_true(farthest(base, expected) > 0.05f);
    assert_true(farthest(adapted, expected) < 1e-3f);
    engine_adapter_free(a);
    peft_close(p);
    bench_free(&plain);
    bench_free(&merged);
}

static void test_an_adapted_text_has_the_logits_of_merged_weights(void **state) {
    (void)state;
    check_merged(&llama);
    check_merged(&gpt);
}

static void test_rows_in_the_order_of_gguf_change_nothing(void **state) {
    (void)state;
    float expected[VOCAB], logits[VOCAB];
    peft_adapter *p = random_adapter(&llama, 3);
    for (int pairs = 0; pairs < 2; pairs++) {
        bench b;
        engine_adapter *a;
        bench_new(&b, &llama, NULL, pairs == 1);
        assert_int_equal(engine_adapter_new(b.e, p, &a, NULL), BRAID_OK);
        read_text(b.e, a, 1, pairs ? logits : expected);
        engine_adapter_free(a);
        bench_free(&b);
    }
    assert_memory_equal(expected, logits, sizeof logits);
    peft_close(p);
}

// Four texts in one call: without an adapter, with one, with another, and a fork of the second.
static void test_texts_of_several_adapters_change_no_bit(void **state) {
    (void)state;
    enum { TEXTS = 4, HALF = COUNT / 2 };
    bench b;
    engine_adapter *a[3] = {NULL};
    sequence *s[TEXTS];
    engine_part parts[TEXTS];
    uint32_t tokens[TEXTS][COUNT];
    float logits[TEXTS * VOCAB], expected[VOCAB];
    bench_new(&b, &llama, NULL, false);
    for (uint32_t i = 1; i < 3; i++) {
        peft_adapter *p = random_adapter(&llama, 20 + i);
        assert_int_equal(engine_adapter_new(b.e, p, &a[i], NULL), BRAID_OK);
        peft_close(p);
    }
    for (uint32_t i = 0; i < TEXTS; i++)
        for (uint32_t t = 0; t < COUNT; t++) tokens[i][t] = (i % 3 + t * 7) % VOCAB;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sequence_new(b.e, &s[i], NULL), BRAID_OK);
        sequence_set_adapter(s[i], a[i]);
        parts[i] = (engine_part){s[i], HALF, tokens[i]};
    }
    assert_int_equal(engine_read(b.e, parts, 3, NULL, NULL), BRAID_OK);
    assert_int_equal(sequence_fork(s[1], HALF, &s[3], NULL), BRAID_OK);
    memcpy(tokens[3], tokens[1], sizeof tokens[3]);
    for (uint32_t i = 0; i < TEXTS; i++) parts[i] = (engine_part){s[i], COUNT - HALF, tokens[i] + HALF};
    assert_int_equal(engine_read(b.e, parts, TEXTS, logits, NULL), BRAID_OK);
    for (uint32_t i = 0; i < TEXTS; i++) {
        uint32_t text = i == 3 ? 1 : i;
        assert_ptr_equal(sequence_adapter(s[i]), a[text]);
        read_text(b.e, a[text], text, expected);
        assert_memory_equal(expected, logits + i * VOCAB, sizeof expected);
        sequence_free(s[i]);
    }
    for (int i = 0; i < 3; i++) engine_adapter_free(a[i]);
    bench_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_adapted_text_has_the_logits_of_merged_weights),
        cmocka_unit_test(test_rows_in_the_order_of_gguf_change_nothing),
        cmocka_unit_test(test_texts_of_several_adapters_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
