// Scores of choices and perplexity on a tiny model, against logits that are read one text at a time.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine_model.h"
#include "eval/choices.h"
#include "eval/perplexity.h"
#include "infer/sampler.h"

enum { VOCAB = 32, CONTEXT = 48, TEXT = 130 };

typedef struct fixture {
    tiny_model model;
    tensor_pool *pool;
    engine *e;
    tokenizer *letters;
} fixture;

// "a b" becomes one token, so that a choice can change the last token of its query.
static const char vocabulary[] =
    "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":false},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,"
    "\"c\":2,\"d\":3,\"e\":4,\"ab\":5},\"merges\":[\"a b\"]}}";

static int open_fixture(void **state) {
    static fixture f;
    model_config c = {.arch = MODEL_LLAMA, .dim = 32, .layers = 2, .heads = 2, .kv_heads = 1, .ffn_dim = 64, .vocab = VOCAB,
                      .context = CONTEXT, .rope_theta = 10000, .norm_eps = 1e-5f, .tied = true};
    tiny_model_new(&f.model, &c, WEIGHT_F32, 5);
    engine_source source = tiny_source(&f.model);
    braid_error error = {0};
    assert_int_equal(tensor_pool_new(2, &f.pool, NULL), BRAID_OK);
    engine_settings settings = {.pool = f.pool};
    if (engine_new(&source, &settings, &f.e, &error)) fail_msg("%s", error.text);
    if (tokenizer_parse(vocabulary, sizeof vocabulary - 1, &f.letters, &error)) fail_msg("%s", error.text);
    *state = &f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    engine_free(f->e);
    tensor_pool_free(f->pool);
    tokenizer_free(f->letters);
    tiny_model_free(&f->model);
    return 0;
}

// The sum of the log-probabilities of ids[from, count), each after those before it.
static double reference(fixture *f, const uint32_t *ids, uint32_t from, uint32_t count) {
    static float logits[CONTEXT * VOCAB];
    sequence *s;
    braid_error error = {0};
    assert_int_equal(sequence_new(f->e, &s, &error), BRAID_OK);
    const engine_part part = {s, count, ids};
    if (engine_read_all(f->e, &part, 1, logits, &error)) fail_msg("%s", error.text);
    sequence_free(s);
    double sum = 0;
    for (uint32_t i = from; i < count; i++) sum += (double)sampler_logprob(logits + (i - 1) * VOCAB, VOCAB, ids[i]);
    return sum;
}

// ---- choices

typedef struct expected {
    uint32_t ids[16], count, from;  // from: the first token of the choice
} expected;

static void scores_choices_like_single_texts(void **state) {
    fixture *f = *state;
    static const char *one[] = {"c", "dd", "ecdab"}, *two[] = {"b", "bd", "c"};
    choice_item items[] = {{1, 0, 3, "abc", one, 0}, {2, 0, 3, "ca", two, 3}, {3, 0, 3, "e", one, 6}};
    choice_task task = {.items = items, .count = 3, .choices = 9};
    // the query "ca" and the choice "b" are the tokens c and ab: a is no token of them, and the choice is ab
    static const expected all[] = {{{5, 2, 2}, 3, 2},    {{5, 2, 3, 3}, 4, 2}, {{5, 2, 4, 2, 3, 5}, 6, 2},
                                   {{2, 5}, 2, 1},       {{2, 5, 3}, 3, 1},    {{2, 0, 2}, 3, 2},
                                   {{4, 2}, 2, 1},       {{4, 3, 3}, 3, 1},    {{4, 4, 2, 3, 5}, 5, 1}};
    for (uint32_t together = 1; together <= 4; together++) {
        const choice_settings settings = {.together = together};
        double scores[9];
        braid_error error = {0};
        if (choices_score(f->e, f->letters, &task, &settings, scores, &error)) fail_msg("%s", error.text);
        for (int i = 0; i < 9; i++)
            assert_memory_equal(&scores[i], &(double){reference(f, all[i].ids, all[i].from, all[i].count)}, sizeof(double));
    }
}

static void refuses_items_that_do_not_fit(void **state) {
    fixture *f = *state;
    char longer[CONTEXT + 2];
    memset(longer, 'c', CONTEXT + 1);
    longer[CONTEXT + 1] = 0;
    const char *choices[] = {"d", longer};
    choice_item item = {7, 0, 2, "c", choices, 0};
    const choice_task task = {.items = &item, .count = 1, .choices = 2};
    const choice_settings settings = {.together = 8};
    double scores[2];
    braid_error error = {0};
    assert_int_equal(choices_score(f->e, f->letters, &task, &settings, scores, &error), BRAID_LIMIT);
    assert_non_null(strstr(error.text, "line 7"));
}

// ---- perplexity

static void measures_a_text_in_windows(void **state) {
    fixture *f = *state;
    static const uint32_t sizes[][2] = {{16, 8}, {48, 47}, {2, 1}, {31, 10}, {48, 1}};
    uint32_t ids[TEXT];
    rng r = {9};
    for (int i = 0; i < TEXT; i++) ids[i] = (uint32_t)rng_below(&r, VOCAB);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t window = sizes[s][0], stride = sizes[s][1], scored = 1;
        double nats = 0;
        for (uint32_t begin = 0; scored < TEXT; begin += stride) {
            uint32_t end = begin + window < TEXT ? begin + window : TEXT;
            nats -= reference(f, ids + begin, scored - begin, end - begin);
            scored = end;
        }
        const perplexity_settings settings = {.window = window, .stride = stride};
        perplexity p;
        braid_error error = {0};
        if (perplexity_measure(f->e, ids, TEXT, &settings, &p, &error)) fail_msg("%s", error.text);
        assert_int_equal(p.tokens, TEXT - 1);
        assert_memory_equal(&p.nats, &nats, sizeof nats);
    }
}

static void refuses_windows(void **state) {
    fixture *f = *state;
    static const struct {
        uint32_t window, stride;
        size_t count;
        braid_err want;
    } cases[] = {{1, 1, 5, BRAID_CONFIG}, {8, 8, 5, BRAID_CONFIG}, {8, 0, 5, BRAID_CONFIG}, {CONTEXT + 1, 8, 5, BRAID_LIMIT},
                 {8, 4, 1, BRAID_ARGUMENT}};
    const uint32_t ids[5] = {0}, foreign[3] = {0, VOCAB, 0};
    perplexity p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const perplexity_settings settings = {.window = cases[i].window, .stride = cases[i].stride};
        braid_error error = {0};
        assert_int_equal(perplexity_measure(f->e, ids, cases[i].count, &settings, &p, &error), cases[i].want);
        assert_true(error.text[0] != 0);
    }
    const perplexity_settings settings = {.window = 8, .stride = 4};
    assert_int_equal(perplexity_measure(f->e, foreign, 3, &settings, &p, NULL), BRAID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_choices_like_single_texts), cmocka_unit_test(refuses_items_that_do_not_fit),
        cmocka_unit_test(measures_a_text_in_windows), cmocka_unit_test(refuses_windows)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
