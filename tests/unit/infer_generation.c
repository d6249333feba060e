// Texts from a tiny model: what one text at a time gives is the reference for everything else.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "infer/generation.h"
#include "engine_model.h"

enum { VOCAB = 300, CONTEXT = 48, MOST = 400 };

typedef struct fixture {
    tiny_model model;
    tensor_pool *pool;
    engine *e;
    tokenizer *words;
} fixture;

// Ids 0 to 7: single characters, one cut in two bytes, and a special token that ends a text.
static const char vocabulary[] =
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<end>\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":false,"
    "\"normalized\":false}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":false},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{"
    "\"a\":0,\"b\":1,"
    "\"c\":2,\"d\":3,\"\xc3\x83\":4,\"\xc2\xa9\":5,\"ab\":6},\"merges\":[\"a b\"]}}";

static int open_fixture(void **state) {
    static fixture f;
    model_config c = {.arch = MODEL_LLAMA,
                      .dim = 32,
                      .layers = 2,
                      .heads = 2,
                      .kv_heads = 1,
                      .ffn_dim = 64,
                      .vocab = VOCAB,
                      .context = CONTEXT,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5f,
                      .tied = true};
    tiny_model_new(&f.model, &c, WEIGHT_F32, 21);
    engine_source source = tiny_source(&f.model);
    braid_error error = {0};
    assert_int_equal(tensor_pool_new(1, &f.pool, NULL), BRAID_OK);
    engine_settings settings = {.pool = f.pool};
    if (engine_new(&source, &settings, &f.e, &error)) fail_msg("%s", error.text);
    if (tokenizer_parse(vocabulary, sizeof vocabulary - 1, &f.words, &error)) fail_msg("%s", error.text);
    *state = &f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    engine_free(f->e);
    tensor_pool_free(f->pool);
    tokenizer_free(f->words);
    tiny_model_free(&f->model);
    return 0;
}

typedef struct told {
    char text[2 * MOST];
    size_t length;
    uint32_t tokens[MOST], count;
    generation_end end;
} told;

static void tell(told *t, const generation_step *s) {
    memcpy(t->text + t->length, s->text, s->length);
    t->length += s->length;
    t->tokens[t->count++] = s->token;
    t->end = s->end;
}

static void go_on(generation *g, uint32_t most, told *t) {
    static generation_step s;
    braid_error error = {0};
    *t = (told){.length = 0};
    while (!t->end && t->count < most) {
        if (generation_next(g, &s, &error)) fail_msg("%s", error.text);
        tell(t, &s);
    }
}

static generation_settings free_choice(uint64_t seed) {
    generation_settings s = {.sampler = sampler_defaults()};
    s.sampler.seed = seed;
    return s;
}

static const uint32_t prompt[] = {1, 5, 0, 2, 2, 9};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static generation *begun(engine *e, const tokenizer *words, const generation_settings *s) {
    generation *g;
    braid_error error = {0};
    if (generation_new(e, words, s, &g, &error)) fail_msg("%s", error.text);
    if (generation_prompt(g, prompt, PROMPT, &error)) fail_msg("%s", error.text);
    return g;
}

static void run(fixture *f, const tokenizer *words, const generation_settings *s, uint32_t most, told *t) {
    generation *g = begun(f->e, words, s);
    go_on(g, most, t);
    size_t count;
    const uint32_t *all = generation_tokens(g, &count);
    if (!s->shift) {
        assert_int_equal(count, PROMPT + t->count);
        assert_memory_equal(all + PROMPT, t->tokens, t->count * sizeof *all);
    }
    generation_free(g);
}

static void test_the_seed_decides(void **state) {
    static told a, b, c;
    generation_settings seven = free_choice(7), eight = free_choice(8);
    run(*state, NULL, &seven, 30, &a);
    run(*state, NULL, &seven, 30, &b);
    run(*state, NULL, &eight, 30, &c);
    assert_memory_equal(a.tokens, b.tokens, sizeof a.tokens);
    assert_memory_not_equal(a.tokens, c.tokens, sizeof a.tokens);
    for (uint32_t i = 0; i < a.count; i++) {
        assert_true(a.tokens[i] < 256);
        assert_int_equal((unsigned char)a.text[i], a.tokens[i]);
    }
}

static void test_texts_end_where_they_should(void **state) {
    static told t;
    generation_settings s = free_choice(7);
    s.max_tokens = 9;
    run(*state, NULL, &s, MOST, &t);
    assert_true(t.end == GENERATION_MAX_TOKENS && t.count == 9);
    s.max_tokens = 0;
    run(*state, NULL, &s, MOST, &t);
    assert_true(t.end == GENERATION_CONTEXT && t.count == CONTEXT - PROMPT + 1);
    s.shift = true;
    run(*state, NULL, &s, 200, &t);
    assert_true(t.end == GENERATION_GOES_ON && t.count == 200);
}

// The text of the tokenizer's ids, of which a bias leaves only these.
static generation_settings only(const uint32_t *ids, uint32_t count, sampler_bias *biases) {
    generation_settings s = free_choice(5);
    for (uint32_t i = 0; i < VOCAB; i++) biases[i] = (sampler_bias){i, -INFINITY};
    for (uint32_t i = 0; i < count; i++) biases[ids[i]].bias = 0;
    s.sampler.biases = biases;
    s.sampler.bias_count = VOCAB;
    return s;
}

static void test_stop_strings_cross_tokens(void **state) {
    static told whole, cut;
    static sampler_bias biases[VOCAB];
    fixture *f = *state;
    static const uint32_t ids[] = {0, 1, 2, 3, 6};
    static const char *const stops[] = {"bcd", "dda", "cab"};
    generation_settings s = only(ids, 5, biases);
    run(f, f->words, &s, 40, &whole);
    s.stops = stops;
    s.stop_count = 3;
    run(f, f->words, &s, 40, &cut);
    size_t first = whole.length;
    whole.text[whole.length] = 0;
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(whole.text, stops[i]);
        if (at && (size_t)(at - whole.text) < first) first = (size_t)(at - whole.text);
    }
    assert_true(first < whole.length);
    assert_int_equal(cut.end, GENERATION_STOP_STRING);
    assert_int_equal(cut.length, first);
    assert_memory_equal(cut.text, whole.text, first);
}

static void test_stop_ids_and_special_tokens(void **state) {
    static told t;
    static sampler_bias biases[VOCAB];
    fixture *f = *state;
    static const uint32_t ids[] = {0, 7};
    generation_settings s = only(ids, 2, biases);
    s.max_tokens = 20;
    run(f, f->words, &s, 40, &t);  // nothing names an end token, so 7 is one of many
    assert_int_equal(t.end, GENERATION_MAX_TOKENS);
    for (size_t i = 0; i < t.length; i++) assert_int_equal(t.text[i], 'a');
    assert_true(t.length < 20);
    s.show_special = true;
    run(f, f->words, &s, 40, &t);
    t.text[t.length] = 0;
    assert_non_null(strstr(t.text, "<end>"));
}

// Whether the text ends within a character; continuation bytes are 10xxxxxx.
static bool is_whole(const char *text, size_t length) {
    return length == 0 || ((text[0] & 0xc0) != 0x80 && (unsigned char)text[length - 1] != 0xc3);
}

// Ids 4 and 5 are the two bytes of one character, which come in any order here.
static void test_pieces_are_whole_characters(void **state) {
    static generation_step step;
    static sampler_bias biases[VOCAB];
    static told t;
    fixture *f = *state;
    static const uint32_t both[] = {4, 5};
    generation_settings s = only(both, 2, biases);
    s.max_tokens = 30;
    generation *g = begun(f->e, f->words, &s);
    memset(&t, 0, sizeof t);
    while (!t.end) {
        assert_int_equal(generation_next(g, &step, NULL), BRAID_OK);
        assert_true(is_whole(step.text, step.length));
        tell(&t, &step);
    }
    generation_free(g);
    char *expected;
    size_t length;
    assert_int_equal(tokenizer_decode(f->words, t.tokens, t.count, true, &expected, &length, NULL), BRAID_OK);
    assert_true(strstr(expected, "\xc3\xa9") != NULL);
    assert_int_equal(length, t.length);
    assert_memory_equal(expected, t.text, length);
    free(expected);
}

// A second prompt that begins as the first text does is read from where they differ, with the same text as a
// generation of its own.
static void test_a_common_beginning_is_not_read_again(void **state) {
    static told first, again, fresh;
    fixture *f = *state;
    generation_settings s = free_choice(7);
    generation *g = begun(f->e, NULL, &s), *h;
    go_on(g, 12, &first);
    uint32_t longer[PROMPT + 12 + 3];
    size_t count;
    memcpy(longer, generation_tokens(g, &count), (PROMPT + 12) * sizeof *longer);
    for (int i = 0; i < 3; i++) longer[PROMPT + 12 + i] = (uint32_t)(40 + i);
    assert_int_equal(generation_prompt(g, longer, PROMPT + 15, NULL), BRAID_OK);
    assert_int_equal(generation_reused(g), PROMPT + 11);  // the last token of the text was not read
    go_on(g, 10, &again);
    assert_int_equal(generation_new(f->e, NULL, &s, &h, NULL), BRAID_OK);
    assert_int_equal(generation_prompt(h, longer, PROMPT + 15, NULL), BRAID_OK);
    assert_int_equal(generation_reused(h), 0);
    go_on(h, 10, &fresh);
    assert_memory_equal(again.tokens, fresh.tokens, sizeof again.tokens);
    // the same prompt again: its last token is read for its logits
    assert_int_equal(generation_prompt(h, longer, PROMPT + 15, NULL), BRAID_OK);
    assert_int_equal(generation_reused(h), PROMPT + 14);
    go_on(h, 10, &again);
    assert_memory_equal(again.tokens, fresh.tokens, sizeof again.tokens);
    generation_free(g);
    generation_free(h);
}

static void test_texts_side_by_side_are_those_alone(void **state) {
    enum { TEXTS = 3, STEPS = 15 };
    static told alone[TEXTS], beside[TEXTS];
    static generation_step step;
    fixture *f = *state;
    generation *g[TEXTS];
    float logits[TEXTS * VOCAB];
    for (uint32_t i = 0; i < TEXTS; i++) {
        generation_settings s = free_choice(i);
        s.sampler.repetition_penalty = 1.3;
        run(f, NULL, &s, STEPS, &alone[i]);
        g[i] = begun(f->e, NULL, &s);
        beside[i] = (told){.length = 0};
    }
    for (int k = 0; k < STEPS; k++) {
        engine_part parts[TEXTS];
        for (int i = 0; i < TEXTS; i++) assert_int_equal(generation_unread(g[i], &parts[i], NULL), BRAID_OK);
        assert_int_equal(engine_read(f->e, parts, TEXTS, logits, NULL), BRAID_OK);
        for (int i = 0; i < TEXTS; i++) {
            assert_int_equal(generation_draw(g[i], logits + i * VOCAB, &step, NULL), BRAID_OK);
            tell(&beside[i], &step);
        }
    }
    for (int i = 0; i < TEXTS; i++) {
        assert_memory_equal(alone[i].tokens, beside[i].tokens, sizeof alone[i].tokens);
        generation_free(g[i]);
    }
}

static void test_log_probabilities_are_those_of_the_model(void **state) {
    static generation_step step;
    fixture *f = *state;
    generation_settings s = free_choice(3);
    s.top_logprobs = 4;
    s.sampler.temperature = 3;
    s.sampler.repetition_penalty = 2;
    generation *g = begun(f->e, NULL, &s);
    sequence *q;
    float logits[VOCAB];
    assert_int_equal(sequence_new(f->e, &q, NULL), BRAID_OK);
    engine_part part = {q, PROMPT, prompt};
    assert_int_equal(engine_read(f->e, &part, 1, logits, NULL), BRAID_OK);
    assert_int_equal(generation_next(g, &step, NULL), BRAID_OK);
    assert_true(step.logprob == sampler_logprob(logits, VOCAB, step.token));
    assert_int_equal(step.top_count, 4);
    for (int i = 0; i < 4; i++) assert_true(step.top[i].logprob == sampler_logprob(logits, VOCAB, step.top[i].token));
    sequence_free(q);
    generation_free(g);
}

static void test_mistakes_are_named(void **state) {
    fixture *f = *state;
    braid_error error = {0};
    generation *g;
    generation_settings s = free_choice(1);
    uint32_t long_prompt[CONTEXT + 1] = {0}, outside = VOCAB;
    engine_part part;
    assert_int_equal(generation_new(f->e, NULL, &s, &g, NULL), BRAID_OK);
    assert_int_equal(generation_unread(g, &part, &error), BRAID_STATE);
    assert_int_equal(generation_prompt(g, long_prompt, 0, &error), BRAID_ARGUMENT);
    assert_int_equal(generation_prompt(g, long_prompt, CONTEXT + 1, &error), BRAID_LIMIT);
    assert_non_null(strstr(error.text, "the prompt has 49 tokens, the context is 48"));
    assert_int_equal(generation_prompt(g, &outside, 1, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, "token 300"));
    assert_int_equal(generation_prompt(g, long_prompt, CONTEXT, &error), BRAID_OK);
    generation_free(g);
    s.sampler.top_p = 2;
    assert_int_equal(generation_new(f->e, NULL, &s, &g, &error), BRAID_CONFIG);
    assert_null(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_seed_decides),
        cmocka_unit_test(test_texts_end_where_they_should),
        cmocka_unit_test(test_stop_strings_cross_tokens),
        cmocka_unit_test(test_stop_ids_and_special_tokens),
        cmocka_unit_test(test_pieces_are_whole_characters),
        cmocka_unit_test(test_a_common_beginning_is_not_read_again),
        cmocka_unit_test(test_texts_side_by_side_are_those_alone),
        cmocka_unit_test(test_log_probabilities_are_those_of_the_model),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
