// Sequences of shuffled documents: every token once an epoch, held-out text apart, shares by
// weight, a pure function.
#include "base/rng.h"
#include "train/packed.h"
#include "train/permutation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 16, MOST = 20000 };

// Token i of the source is base + i, so that a token names its place.
typedef struct made {
    uint64_t ends[2000];
    int32_t base;
    int freed;
} made;

static bool read_made(void *context, uint64_t at, uint32_t count, int32_t *out) {
    const made *m = context;
    for (uint32_t i = 0; i < count; i++) out[i] = m->base + (int32_t)(at + i);
    return m->base >= 0;
}

static void why_made(void *context, braid_error *error) {
    (void)context;
    braid_fail(error, BRAID_IO, "unreadable");
}

static void free_made(void *context) { ((made *)context)->freed++; }

static train_tokens make(made *m, uint32_t documents, uint64_t most, int32_t base, double weight) {
    rng r = {documents + most};
    uint64_t at = 0;
    *m = (made){.base = base};
    for (uint32_t i = 0; i < documents; i++) m->ends[i] = at += 1 + rng_below(&r, most);
    train_tokens t = {.name = "made",
                      .weight = weight,
                      .tokens = at,
                      .documents = documents,
                      .ends = m->ends,
                      .limit = 1 << 20,
                      .context = m,
                      .read = read_made,
                      .why = why_made,
                      .free = free_made};
    t.hash.bytes[0] = (uint8_t)base;
    return t;
}

static packed_data *open_packed(train_tokens *sources, uint32_t count, double holdout, bool masks) {
    const packed_settings settings = {.holdout = holdout, .tokens = LENGTH, .vocabulary = 1 << 20, .masks_next = masks};
    packed_data *p = NULL;
    braid_error error = {0};
    if (packed_open(sources, count, &settings, &p, &error)) fail_msg("%s", error.text);
    return p;
}

static uint32_t document_of(const made *m, uint64_t token) {
    uint32_t d = 0;
    while (m->ends[d] <= token) d++;
    return d;
}

static void permutations_are_bijections(void **state) {
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 64, 1000, 4097};
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        bool *seen = calloc(counts[c], 1);
        permutation p = permutation_of(counts[c], 7 + c);
        uint64_t fixed = 0;
        for (uint64_t i = 0; i < counts[c]; i++) {
            uint64_t x = permutation_at(&p, i);
            assert_true(x < counts[c] && !seen[x]);
            seen[x] = true;
            fixed += x == i;
        }
        if (counts[c] > 60) assert_true(fixed < 10);
        free(seen);
    }
}

// An epoch reads each token at most once, and all but fewer than two sequences of them.
static void an_epoch_reads_every_token_once(void **state) {
    static made m;
    train_tokens t = make(&m, 300, 40, 0, 1);
    packed_data *p = open_packed(&t, 1, 0, false);
    uint64_t per_epoch = t.tokens / LENGTH - 1;
    (void)state;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        static uint8_t seen[MOST];
        memset(seen, 0, sizeof seen);
        uint64_t in_order = 0;
        int32_t inputs[LENGTH], targets[LENGTH];
        for (uint64_t i = 0; i < per_epoch; i++) {
            assert_true(packed_sequence(p, 5, epoch * per_epoch + i, inputs, targets, NULL));
            for (uint32_t k = 0; k < LENGTH; k++) {
                assert_int_equal(seen[inputs[k]]++, 0);
                if (k + 1 < LENGTH) assert_int_equal(targets[k], inputs[k + 1]);
                // the next token of the document, or the first of another one
                if (targets[k] != inputs[k] + 1)
                    assert_true(m.ends[document_of(&m, (uint64_t)inputs[k])] == (uint64_t)inputs[k] + 1);
                in_order += targets[k] == inputs[k] + 1;
            }
        }
        assert_true(in_order > per_epoch * LENGTH / 2 && in_order < per_epoch * LENGTH);
    }
    packed_free(p);
    assert_int_equal(m.freed, 1);
}

static void sequences_are_a_pure_function(void **state) {
    static made m, n;
    train_tokens t = make(&m, 300, 40, 0, 1), u = make(&n, 300, 40, 0, 1);
    packed_data *p = open_packed(&t, 1, 0.1, false), *q = open_packed(&u, 1, 0.1, false);
    int32_t a[LENGTH], b[LENGTH], targets[LENGTH];
    uint64_t differ = 0;
    (void)state;
    for (uint64_t i = 0; i < 2000; i += 7) {  // across epochs, the other way round
        assert_true(packed_sequence(p, 5, i, a, targets, NULL));
        assert_true(packed_sequence(q, 5, 1995 - i, b, targets, NULL));
        assert_true(packed_sequence(q, 5, i, b, targets, NULL));
        assert_memory_equal(a, b, sizeof a);
        assert_true(packed_sequence(q, 6, i, b, targets, NULL));
        differ += memcmp(a, b, sizeof a) != 0;
    }
    assert_true(differ > 250);
    packed_free(p);
    packed_free(q);
}

static void mark(packed_data *p, bool held_out, uint64_t seed, uint64_t count, uint8_t *seen) {
    int32_t inputs[LENGTH], targets[LENGTH];
    for (uint64_t i = 0; i < count; i++) {
        assert_true(held_out ? packed_held_out(p, seed, i, inputs, targets, NULL)
                             : packed_sequence(p, seed, i, inputs, targets, NULL));
        for (uint32_t k = 0; k < LENGTH; k++) seen[inputs[k]] = seen[targets[k]] = 1;
    }
}

static void assert_held_out_is_apart(uint32_t documents, uint64_t most, double holdout, bool by_document) {
    static made m;
    static uint8_t trained[MOST], held[MOST];
    train_tokens t = make(&m, documents, most, 0, 1);
    packed_data *p = open_packed(&t, 1, holdout, false);
    uint64_t both = 0, count = 0, whole = 0;
    memset(trained, 0, sizeof trained);
    memset(held, 0, sizeof held);
    mark(p, false, 3, 4 * t.tokens / LENGTH, trained);
    mark(p, true, 3, 4 * t.tokens / LENGTH, held);
    for (uint64_t i = 0; i < t.tokens; i++) {
        both += trained[i] && held[i];
        count += held[i];
    }
    assert_int_equal(both, 0);
    assert_true((double)count > 0.5 * holdout * (double)t.tokens && (double)count < 2 * holdout * (double)t.tokens);
    for (uint32_t d = 0; d < documents; d++) {
        bool any_held = false, any_trained = false;
        for (uint64_t i = d ? m.ends[d - 1] : 0; i < m.ends[d]; i++) {
            any_held |= held[i] != 0;
            any_trained |= trained[i] != 0;
        }
        whole += !(any_held && any_trained);
    }
    assert_true(by_document ? whole == documents : whole < documents);
    packed_free(p);
}

static void held_out_text_is_apart(void **state) {
    (void)state;
    assert_held_out_is_apart(400, 40, 0.1, true);
    assert_held_out_is_apart(3, 5000, 0.1, false);  // few documents: the end of each
    assert_held_out_is_apart(1, 5000, 0.2, false);
}

static void sources_share_by_weight(void **state) {
    static made m[3];
    train_tokens t[3] = {make(&m[0], 100, 40, 0, 3), make(&m[1], 50, 40, 100000, 1), make(&m[2], 50, 40, 200000, 1e-6)};
    packed_data *p = open_packed(t, 3, 0, false);
    uint64_t count[3] = {0};
    int32_t inputs[LENGTH], targets[LENGTH];
    double sum = 0;
    (void)state;
    for (uint64_t i = 0; i < 2 * PACKED_ROUND; i++) {
        assert_true(packed_sequence(p, 1, i, inputs, targets, NULL));
        for (uint32_t k = 1; k < LENGTH; k++) assert_int_equal(inputs[k] / 100000, inputs[0] / 100000);
        count[inputs[0] / 100000]++;
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_true((double)count[i] == packed_share(p, i) * 2 * PACKED_ROUND);
        sum += packed_share(p, i);
    }
    assert_true(sum > 0.999999 && sum < 1.000001);
    assert_int_equal(count[2], 2);  // at least one a round
    assert_true(10 * count[0] > 29 * count[1] && 10 * count[0] < 31 * count[1]);
    packed_free(p);
}

// `first` names the start of each token's document; with masks_next no target crosses documents.
static void documents_are_marked(void **state) {
    static made m;
    train_tokens t = make(&m, 300, 40, 0, 1);
    packed_data *p = open_packed(&t, 1, 0, true);
    int32_t inputs[LENGTH], targets[LENGTH];
    uint32_t first[LENGTH];
    uint64_t masked = 0;
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        assert_true(packed_sequence(p, 2, i, inputs, targets, first));
        for (uint32_t k = 0; k < LENGTH; k++) {
            uint32_t expected = 0;
            for (uint32_t j = 1; j <= k; j++)
                if (document_of(&m, (uint64_t)inputs[j]) != document_of(&m, (uint64_t)inputs[j - 1])) expected = j;
            assert_int_equal(first[k], expected);
            bool last = m.ends[document_of(&m, (uint64_t)inputs[k])] == (uint64_t)inputs[k] + 1;
            assert_int_equal(targets[k], last ? -1 : inputs[k] + 1);
            masked += last;
        }
    }
    assert_true(masked > 100);
    packed_free(p);
}

static void impossible_sources_are_refused(void **state) {
    static made m;
    const packed_settings settings = {.holdout = 0.02, .tokens = LENGTH, .vocabulary = 1 << 20};
    packed_settings few = settings;
    packed_data *p = NULL;
    braid_error error;
    train_tokens t = make(&m, 1, 10, 0, 1);
    (void)state;
    assert_int_equal(packed_open(&t, 1, &settings, &p, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "too short"));
    t = make(&m, 40, 3, 0, 1);
    assert_int_equal(packed_open(&t, 1, &settings, &p, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "held-out"));
    few.vocabulary = 100;
    t = make(&m, 300, 40, 0, 1);
    assert_int_equal(packed_open(&t, 1, &few, &p, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "model.vocab is 100"));
    assert_int_equal(m.freed, 1);
    t = make(&m, 300, 40, 0, 1);
    p = open_packed(&t, 1, 0, false);
    int32_t inputs[LENGTH], targets[LENGTH];
    m.base = -1;
    assert_false(packed_sequence(p, 1, 0, inputs, targets, NULL));
    packed_why(p, &error);
    assert_string_equal(error.text, "unreadable");
    packed_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations_are_bijections),    cmocka_unit_test(an_epoch_reads_every_token_once),
        cmocka_unit_test(sequences_are_a_pure_function),  cmocka_unit_test(held_out_text_is_apart),
        cmocka_unit_test(sources_share_by_weight),        cmocka_unit_test(documents_are_marked),
        cmocka_unit_test(impossible_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
