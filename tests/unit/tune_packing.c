// Packing: whole examples with document boundaries, in an order of the seed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/stage.h"
#include "tune/packing.h"

enum { COUNT = 40, TOKENS = 24, SEQUENCES = 200 };

typedef struct fixture {
    tune_examples examples;
    uint64_t ends[COUNT];
    uint32_t ids[COUNT * TOKENS], chosen[COUNT];
    uint8_t learned[COUNT * TOKENS];
    int32_t tokens[TOKENS], targets[TOKENS];
    uint32_t documents[TOKENS];
    packing packing;
    packing_row row;
} fixture;

// Token k of example i is (i + 1) * 100 + k; the second half of each example counts.
static void make(fixture *f) {
    rng r = {4};
    uint64_t at = 0;
    *f = (fixture){.examples = {.count = COUNT}};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t length = 2 + (uint32_t)rng_below(&r, TOKENS);
        for (uint32_t k = 0; k < length && at < COUNT * TOKENS; k++, at++) {
            f->ids[at] = (i + 1) * 100 + k;
            f->learned[at] = k >= length / 2;
        }
        f->ends[i] = at;
        f->chosen[i] = i;
    }
    f->examples.ends = f->ends;
    f->examples.learned = f->learned;
    f->examples.ids = (tokenizer_ids){f->ids, at, at};
    f->packing = (packing){&f->examples, f->chosen, COUNT, TOKENS, false, 7};
    f->row = (packing_row){f->tokens, f->targets, f->documents};
}

static uint32_t length_of(const fixture *f, uint32_t example) {
    return (uint32_t)(f->ends[example] - examples_begin(&f->examples, example));
}

// Checks one sequence; counts the examples in it.
static uint32_t check_row(const fixture *f, uint32_t learned, uint32_t *seen) {
    stage_shape shape = {.sequences = 1, .tokens = TOKENS};
    uint32_t documents = 0, counted = 0;
    assert_true(stage_documents_valid(&shape, f->documents));
    for (uint32_t i = 0; i < TOKENS; i++) {
        if (f->tokens[i] == 0) continue;  // after the last example
        uint32_t example = (uint32_t)f->tokens[i] / 100 - 1, k = i - f->documents[i];
        assert_int_equal(f->tokens[i], (example + 1) * 100 + k);
        if (f->targets[i] >= 0) {
            assert_int_equal(f->targets[i], f->tokens[i] + 1);
            assert_true(k + 1 >= length_of(f, example) / 2);
            counted++;
        }
        if (k > 0) continue;
        seen[example]++;
        documents++;
    }
    assert_int_equal(counted, learned);
    return documents;
}

static void test_a_pass_has_each_example_once_and_whole(void **state) {
    (void)state;
    fixture f;
    uint32_t seen[COUNT] = {0}, sequences = 0, more_than_one = 0;
    packing_place at = {0};
    make(&f);
    for (; at.epoch == 0; sequences++) {
        uint32_t learned = packing_next_of_pass(&f.packing, &at, &f.row);
        more_than_one += check_row(&f, learned, seen) > 1;
    }
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(seen[i], 1);
    assert_int_equal(packing_sequences(&f.packing), sequences);
    assert_true(more_than_one > 5 && sequences < COUNT);
    assert_int_equal(packing_next_of_pass(&f.packing, &at, &f.row), 0);
    for (int i = 0; i < TOKENS; i++) assert_int_equal(f.targets[i], -1);
}

static void test_the_order_is_of_the_seed_and_can_be_skipped(void **state) {
    (void)state;
    fixture f, other;
    packing_place one = {0}, two = {0}, three = {0};
    bool differs = false;
    make(&f);
    make(&other);
    other.packing.seed = 8;
    for (int i = 0; i < SEQUENCES; i++) {
        packing_next(&f.packing, &one, &f.row);
        packing_skip(&f.packing, &two);
        assert_memory_equal(&one, &two, sizeof one);
        packing_next(&other.packing, &three, &other.row);
        differs = differs || memcmp(f.tokens, other.tokens, sizeof f.tokens) != 0;
    }
    assert_true(differs && one.epoch > 3);
}

static void test_learned_positions_have_one_example_in_a_sequence(void **state) {
    (void)state;
    fixture f;
    uint32_t seen[COUNT] = {0};
    packing_place at = {0};
    make(&f);
    f.packing.alone = true;
    assert_int_equal(packing_sequences(&f.packing), COUNT);
    for (int i = 0; i < COUNT; i++) {
        uint32_t learned = packing_next(&f.packing, &at, &f.row);
        assert_int_equal(check_row(&f, learned, seen), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pass_has_each_example_once_and_whole),
        cmocka_unit_test(test_the_order_is_of_the_seed_and_can_be_skipped),
        cmocka_unit_test(test_learned_positions_have_one_example_in_a_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
