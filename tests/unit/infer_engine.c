// The engine's promises: its bits depend on a text alone, and its results are those of the older
// decoder.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "infer/engine.h"
#include "model/decoder.h"
#include "model/stage.h"
#include "engine_model.h"

enum { VOCAB = 96, CONTEXT = 700, MOST = 600 };

static model_config llama_config(void) {
    return (model_config){.arch = MODEL_LLAMA,
                          .dim = 64,
                          .layers = 3,
                          .heads = 4,
                          .kv_heads = 2,
                          .ffn_dim = 96,
                          .vocab = VOCAB,
                          .context = CONTEXT,
                          .rope_theta = 10000,
                          .norm_eps = 1e-5f,
                          .tied = true};
}

static model_config gpt_config(void) {
    return (model_config){.arch = MODEL_GPT,
                          .dim = 72,
                          .layers = 2,
                          .heads = 4,
                          .kv_heads = 4,
                          .ffn_dim = 200,
                          .vocab = VOCAB,
                          .context = CONTEXT,
                          .norm_eps = 1e-5f,
                          .tied = false};
}

typedef struct bench {
    tiny_model model;
    engine_source source;
    tensor_pool *pool;
    engine *e;
    uint32_t tokens[MOST];
} bench;

static void bench_open(bench *b, const model_config *c, weight_type type, unsigned threads, engine_settings settings) {
    tiny_model_new(&b->model, c, type, 5);
    b->source = tiny_source(&b->model);
    assert_int_equal(tensor_pool_new(threads, &b->pool, NULL), BRAID_OK);
    settings.pool = b->pool;
    braid_error error = {0};
    if (engine_new(&b->source, &settings, &b->e, &error)) fail_msg("%s", error.text);
    rng r = {9};
    for (size_t i = 0; i < MOST; i++) b->tokens[i] = (uint32_t)rng_below(&r, VOCAB);
}

static void bench_close(bench *b) {
    engine_free(b->e);
    tensor_pool_free(b->pool);
    tiny_model_free(&b->model);
}

// logits[count, VOCAB] of the first tokens, read in pieces of at most `piece`.
static float *read_pieces(bench *b, size_t count, size_t piece) {
    float *logits = malloc(count * VOCAB * sizeof *logits);
    sequence *s;
    assert_non_null(logits);
    assert_int_equal(sequence_new(b->e, &s, NULL), BRAID_OK);
    for (size_t i = 0; i < count; i += piece) {
        size_t n = count - i < piece ? count - i : piece;
        engine_part part = {s, (uint32_t)n, b->tokens + i};
        assert_int_equal(engine_read_all(b->e, &part, 1, logits + i * VOCAB, NULL), BRAID_OK);
    }
    assert_int_equal(sequence_length(s), count);
    sequence_free(s);
    return logits;
}

static void expect_bits(const float *a, const float *b, size_t count) { assert_memory_equal(a, b, count * sizeof *a); }

static void check_pieces(const model_config *c, weight_type type, engine_settings settings) {
    enum { COUNT = 300 };
    bench b;
    bench_open(&b, c, type, 2, settings);
    float *whole = read_pieces(&b, COUNT, COUNT);
    for (size_t i = 0; i < COUNT * VOCAB; i++) assert_true(isfinite(whole[i]));
    static const size_t pieces[] = {1, 7, 64, 255};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        float *again = read_pieces(&b, COUNT, pieces[i]);
        expect_bits(whole, again, COUNT * VOCAB);
        free(again);
    }
    bench one;
    bench_open(&one, c, type, 1, settings);
    float *again = read_pieces(&one, COUNT, COUNT);
    expect_bits(whole, again, COUNT * VOCAB);
    free(again);
    free(whole);
    bench_close(&one);
    bench_close(&b);
}

static void test_pieces_and_threads_change_no_bit(void **state) {
    (void)state;
    model_config llama = llama_config(), gpt = gpt_config();
    check_pieces(&llama, WEIGHT_F32, (engine_settings){0});
    check_pieces(&llama, WEIGHT_Q8_0, (engine_settings){0});
    check_pieces(&llama, WEIGHT_Q8_0, (engine_settings){.exact = true});
    check_pieces(&llama, WEIGHT_Q8_0, (engine_settings){.half_cache = true});
    check_pieces(&gpt, WEIGHT_F32, (engine_settings){0});
}

// Several texts in one call, of which some only begin.
static void test_other_texts_change_no_bit(void **state) {
    (void)state;
    enum { TEXTS = 5 };
    static const uint32_t first[TEXTS] = {3, 250, 0, 1, 40}, more[TEXTS] = {1, 9, 100, 1, 200};
    bench b;
    model_config c = llama_config();
    bench_open(&b, &c, WEIGHT_Q8_0, 2, (engine_settings){0});
    sequence *s[TEXTS];
    engine_part parts[TEXTS];
    float logits[TEXTS * VOCAB];
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(sequence_new(b.e, &s[i], NULL), BRAID_OK);
        parts[i] = (engine_part){s[i], first[i], b.tokens + i};
    }
    assert_int_equal(engine_read(b.e, parts, TEXTS, NULL, NULL), BRAID_OK);
    for (int i = 0; i < TEXTS; i++) parts[i] = (engine_part){s[i], more[i], b.tokens + i + first[i]};
    assert_int_equal(engine_read(b.e, parts, TEXTS, logits, NULL), BRAID_OK);
    for (int i = 0; i < TEXTS; i++) {
        sequence *alone;
        float expected[VOCAB];
        assert_int_equal(sequence_new(b.e, &alone, NULL), BRAID_OK);
        engine_part part = {alone, first[i] + more[i], b.tokens + i};
        assert_int_equal(engine_read(b.e, &part, 1, expected, NULL), BRAID_OK);
        expect_bits(expected, logits + i * VOCAB, VOCAB);
        sequence_free(alone);
        sequence_free(s[i]);
    }
    bench_close(&b);
}

// Stage 0 has the ends and one layer, stage 1 the others.
static void test_a_split_of_layers_changes_no_bit(void **state) {
    (void)state;
    enum { COUNT = 270 };
    bench b;
    model_config c = llama_config();
    bench_open(&b, &c, WEIGHT_F32, 2, (engine_settings){0});
    float *whole = read_pieces(&b, COUNT, COUNT), *logits = malloc(COUNT * VOCAB * sizeof *logits);
    float *x = malloc(COUNT * c.dim * sizeof *x);
    engine *half[2];
    sequence *s[2];
    for (uint32_t i = 0; i < 2; i++) {
        engine_settings settings = {.pool = b.pool, .layer_begin = i, .layer_end = i ? 3 : 1, .no_ends = i == 1};
        assert_int_equal(engine_new(&b.source, &settings, &half[i], NULL), BRAID_OK);
        assert_int_equal(sequence_new(half[i], &s[i], NULL), BRAID_OK);
    }
    for (uint32_t first = 0; first < COUNT; first += COUNT / 2) {
        engine_part part = {s[0], COUNT / 2, b.tokens + first};
        assert_int_equal(engine_embed(half[0], &part, 1, x, NULL), BRAID_OK);
        assert_int_equal(engine_layers(half[0], &part, 1, x, NULL), BRAID_OK);
        part = (engine_part){s[1], COUNT / 2, NULL};
        assert_int_equal(engine_layers(half[1], &part, 1, x, NULL), BRAID_OK);
        assert_int_equal(engine_logits(half[0], x, COUNT / 2, logits + first * VOCAB, NULL), BRAID_OK);
    }
    expect_bits(whole, logits, COUNT * VOCAB);
    assert_int_equal(engine_token_bytes(half[0]) + engine_token_bytes(half[1]), engine_token_bytes(b.e));
    for (int i = 0; i < 2; i++) {
        sequence_free(s[i]);
        engine_free(half[i]);
    }
    free(whole);
    free(logits);
    free(x);
    bench_close(&b);
}

static void expect_continuation(bench *b, sequence *s, uint32_t read, const float *expected) {
    float logits[VOCAB];
    engine_part part = {s, 1, b->tokens + read};
    assert_int_equal(sequence_length(s), read);
    assert_int_equal(engine_read(b->e, &part, 1, logits, NULL), BRAID_OK);
    expect_bits(expected + read * VOCAB, logits, VOCAB);
}

static void test_forks_and_truncations_continue_as_the_text(void **state) {
    (void)state;
    enum { COUNT = 280 };
    bench b;
    model_config c = llama_config();
    bench_open(&b, &c, WEIGHT_F32, 1, (engine_settings){0});
    float *whole = read_pieces(&b, COUNT, COUNT);
    sequence *s, *fork;
    assert_int_equal(sequence_new(b.e, &s, NULL), BRAID_OK);
    engine_part part = {s, 200, b.tokens};
    assert_int_equal(engine_read(b.e, &part, 1, NULL, NULL), BRAID_OK);
    static const uint32_t at[] = {200, 129, 64, 1, 0};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        assert_int_equal(sequence_fork(s, at[i], &fork, NULL), BRAID_OK);
        expect_continuation(&b, fork, at[i], whole);
        sequence_free(fork);
    }
    assert_true(engine_cache_bytes(b.e) >= 200 * engine_token_bytes(b.e));
    sequence_truncate(s, 77);
    expect_continuation(&b, s, 77, whole);
    sequence_free(s);
    assert_int_equal(engine_cache_bytes(b.e), 0);
    free(whole);
    bench_close(&b);
}

static void expect_near(const float *a, const float *b, size_t count, double most) {
    double square = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        square += (double)a[i] * (double)a[i];
        worst = d > worst ? d : worst;
    }
    double relative = worst / sqrt(square / (double)count);
    if (!(relative <= most)) fail_msg("difference %g of the root mean square", relative);
}

static void test_rounded_activations_and_caches_are_near(void **state) {
    (void)state;
    enum { COUNT = 40 };
    static const engine_settings ways[] = {{.exact = true}, {0}, {.exact = true, .half_cache = true}};
    float *logits[3];
    model_config c = llama_config();
    for (int i = 0; i < 3; i++) {
        bench b;
        bench_open(&b, &c, WEIGHT_Q8_0, 1, ways[i]);
        logits[i] = read_pieces(&b, COUNT, COUNT);
        bench_close(&b);
    }
    expect_near(logits[0], logits[1], COUNT * VOCAB, 0.2);
    expect_near(logits[0], logits[2], COUNT * VOCAB, 0.01);
    assert_memory_not_equal(logits[0], logits[1], COUNT * VOCAB * sizeof **logits);
    assert_memory_not_equal(logits[0], logits[2], COUNT * VOCAB * sizeof **logits);
    for (int i = 0; i < 3; i++) free(logits[i]);
}

// The older decoder reads the same weights from a stage's parameter array.
static void check_decoder(const model_config *c) {
    enum { COUNT = 30 };
    bench b;
    bench_open(&b, c, WEIGHT_F32, 1, (engine_settings){0});
    stage_shape shape = {.layer_end = c->layers, .ends = true, .sequences = 1, .tokens = 1};
    stage *s;
    decoder *d;
    assert_int_equal(stage_new(c, &shape, b.pool, &s, NULL), BRAID_OK);
    float *parameters = malloc(stage_parameters(s) * sizeof *parameters);
    for (uint32_t i = 0; i < stage_tensor_count(s); i++) {
        const stage_tensor *t = &stage_tensors(s)[i];
        memcpy(parameters + t->offset, tiny_find(&b.model, t->name)->weights.data, t->elements * sizeof *parameters);
    }
    assert_int_equal(decoder_new(c, parameters, false, b.pool, &d, NULL), BRAID_OK);
    float *found = read_pieces(&b, COUNT, COUNT), expected[VOCAB];
    for (size_t i = 0; i < COUNT; i++) {
        decoder_read(d, b.tokens[i], expected);
        expect_near(expected, found + i * VOCAB, VOCAB, 2e-5);
    }
    free(found);
    free(parameters);
    decoder_free(d);
    stage_free(s);
    bench_close(&b);
}

static void test_the_decoder_agrees(void **state) {
    (void)state;
    model_config llama = llama_config(), gpt = gpt_config();
    check_decoder(&llama);
    check_decoder(&gpt);
}

static void test_mistakes_are_refused_before_anything_is_read(void **state) {
    (void)state;
    bench b;
    model_config c = llama_config();
    bench_open(&b, &c, WEIGHT_F32, 1, (engine_settings){.context = 20});
    braid_error error = {0};
    sequence *s;
    float logits[VOCAB];
    assert_int_equal(sequence_new(b.e, &s, NULL), BRAID_OK);
    engine_part part = {s, 21, b.tokens};
    assert_int_equal(engine_read(b.e, &part, 1, logits, &error), BRAID_LIMIT);
    assert_non_null(strstr(error.text, "context of 20 tokens"));
    uint32_t unknown[2] = {1, VOCAB};
    part = (engine_part){s, 2, unknown};
    assert_int_equal(engine_read(b.e, &part, 1, logits, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "token 96"));
    assert_int_equal(sequence_length(s), 0);
    sequence_free(s);
    engine *e;
    engine_settings settings = {.pool = b.pool, .context = CONTEXT + 1};
    assert_int_equal(engine_new(&b.source, &settings, &e, &error), BRAID_LIMIT);
    settings = (engine_settings){.pool = b.pool, .layer_begin = 2, .layer_end = 4};
    assert_int_equal(engine_new(&b.source, &settings, &e, &error), BRAID_ARGUMENT);
    bench_close(&b);
}

static void test_a_model_without_a_tensor_is_refused(void **state) {
    (void)state;
    bench b;
    model_config c = llama_config();
    bench_open(&b, &c, WEIGHT_F32, 1, (engine_settings){0});
    braid_error error = {0};
    engine *e;
    engine_settings settings = {.pool = b.pool};
    model_file_tensor *t = &b.model.tensors[4];
    t->weights.cols--;
    assert_int_equal(engine_new(&b.source, &settings, &e, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, t->name));
    t->weights.cols++;
    char name[sizeof t->name];
    memcpy(name, t->name, sizeof name);
    t->name[0] = 'x';
    assert_int_equal(engine_new(&b.source, &settings, &e, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, name));
    assert_null(e);
    bench_close(&b);
}

// --- memory of the file

static unsigned embedding_releases;

static void count_release(const void *context, const void *at, size_t bytes) {
    (void)bytes;
    const model_file_tensor *t = tiny_find(context, "model.embed_tokens.weight");
    embedding_releases += t && at == t->weights.data;
}

// How often the embedding's memory is given back by a text of `count` tokens.
static unsigned releases(bool tied, weight_type type, bool exact, uint32_t count) {
    bench b;
    model_config c = llama_config();
    c.tied = tied;
    bench_open(&b, &c, type, 1, (engine_settings){0});
    engine_free(b.e);
    b.source.release = count_release;
    engine_settings settings = {.pool = b.pool, .exact = exact};
    assert_int_equal(engine_new(&b.source, &settings, &b.e, NULL), BRAID_OK);
    embedding_releases = 0;
    free(read_pieces(&b, count, count));
    bench_close(&b);
    return embedding_releases;
}

static void test_the_memory_of_an_embedding_is_given_back(void **state) {
    (void)state;
    assert_int_equal(releases(true, WEIGHT_Q8_0, false, 600), 3);  // chunks
    assert_int_equal(releases(true, WEIGHT_Q8_0, false, 8), 0);
    assert_int_equal(releases(true, WEIGHT_Q8_0, true, 600), 0);  // products read it
    assert_int_equal(releases(true, WEIGHT_F32, false, 600), 0);
    assert_int_equal(releases(false, WEIGHT_F32, false, 600), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_and_threads_change_no_bit),
        cmocka_unit_test(test_other_texts_change_no_bit),
        cmocka_unit_test(test_a_split_of_layers_changes_no_bit),
        cmocka_unit_test(test_forks_and_truncations_continue_as_the_text),
        cmocka_unit_test(test_rounded_activations_and_caches_are_near),
        cmocka_unit_test(test_the_decoder_agrees),
        cmocka_unit_test(test_mistakes_are_refused_before_anything_is_read),
        cmocka_unit_test(test_a_model_without_a_tensor_is_refused),
        cmocka_unit_test(test_the_memory_of_an_embedding_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
