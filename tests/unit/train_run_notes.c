// Notes at the start of a run about settings that are valid but rarely intended.
#include "train/run_notes.h"

#include "train/optimizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static run_config run;
static char said[4 * RUN_NOTE];
static unsigned notes;

static void hear(void *context, const char *text) {
    (void)context;
    notes++;
    strncat(said, text, sizeof said - strlen(said) - 1);
}

static void read_run(const char *train, uint64_t text_bytes) {
    char text[512];
    braid_error error = {0};
    snprintf(text, sizeof text, "model: {dim: 64, layers: 1, heads: 4, context: 32}\ndata: {text: run-notes-text, holdout: 0.5}\ntrain: {%s}\neval: {every: 0}\n", train);
    if (run_config_parse(text, strlen(text), "run.yaml", NULL, &run, &error)) fail_msg("%s", error.text);
    notes = 0;
    said[0] = 0;
    run_notes(&run, text_bytes, hear, NULL);
}

static void expect_said(const char *text) {
    assert_int_equal(notes, 1);
    if (!strstr(said, text)) fail_msg("'%s' does not hold '%s'", said, text);
}

static void an_ordinary_run_is_silent(void **state) {
    (void)state;
    read_run("iterations: 1", 100000);
    assert_int_equal(notes, 0);
    read_run("iterations: 100, warmup: 99", 100000);
    assert_int_equal(notes, 0);
}

static void a_warm_up_without_end(void **state) {
    (void)state;
    read_run("iterations: 100, warmup: 1000, learning_rate: 0.01", 100000);
    expect_said("train.warmup is 1000 iterations and the run has 100: the learning rate still rises when the run ends, at 0.001 of 0.01");
    read_run("iterations: 100, warmup: 100", 100000);
    expect_said("train.warmup is 100 iterations and the run has 100");
}

static void more_than_the_text_in_an_iteration(void **state) {
    (void)state;
    read_run("iterations: 9, microbatches: 8, sequences: 4", 2048);  // 1024 training bytes
    assert_int_equal(notes, 0);
    read_run("iterations: 9, microbatches: 8, sequences: 5", 2048);
    expect_said("one iteration reads 1280 bytes and the text has 1024 to train on: all of it is seen 1.2 times");
}

static void positions_that_are_not_trained(void **state) {
    (void)state;
    read_run("iterations: 9, tokens: 8", 100000);
    expect_said("model.context is 32 and train.tokens 8: positions from 9 on are not trained");
}

static void a_byte_order_mark(void **state) {
    (void)state;
    FILE *file = fopen("run-notes-text", "w");
    assert_non_null(file);
    fputs("\xef\xbb\xbfwords", file);
    assert_int_equal(fclose(file), 0);
    read_run("iterations: 9", 100000);
    assert_int_equal(unlink("run-notes-text"), 0);
    expect_said("run-notes-text begins with the byte order mark of UTF-8");
}

static train_recipe recipe_of(uint64_t iterations, uint64_t warmup) {
    return (train_recipe){.iterations = iterations, .warmup = warmup, .learning_rate = 0.01f, .min_learning_rate = 0.001f};
}

static bool jumps(const train_recipe *had, const train_recipe *has, uint64_t version, char text[RUN_NOTE]) {
    const run_schedule schedule = {.iterations = had->iterations, .learning_rate = train_learning_rate(had, version - 1)};
    return run_rate_jumps(has, version, &schedule, text);
}

static void rates_that_jump(void **state) {
    (void)state;
    char text[RUN_NOTE];
    const train_recipe had = recipe_of(50, 5), longer = recipe_of(100, 5);
    for (uint64_t version = 1; version < 50; version++) assert_false(jumps(&had, &had, version, text));
    assert_true(jumps(&had, &longer, 50, text));
    if (!strstr(text, "jumps from 0.001 in iteration 50 to 0.00")) fail_msg("%s", text);
    assert_non_null(strstr(text, "the schedule has 100 iterations now and had 50"));
    assert_non_null(strstr(text, "train.min_learning_rate to 0.001 and train.warmup to 0"));
    train_recipe smooth = recipe_of(100, 0);  // as the note proposes
    smooth.learning_rate = smooth.min_learning_rate = 0.001f;
    assert_false(jumps(&had, &smooth, 50, text));
    assert_false(jumps(&had, &longer, 3, text));  // both warm up
    train_recipe faster = had;
    faster.learning_rate = 0.1f;
    assert_true(jumps(&had, &faster, 20, text));
    assert_non_null(strstr(text, "the schedule differs"));
    // an older checkpoint has no schedule
    assert_false(run_rate_jumps(&longer, 50, &(run_schedule){0}, text));
    train_recipe to_zero = had;
    to_zero.min_learning_rate = 0;
    assert_true(jumps(&to_zero, &longer, 50, text));
    assert_null(strstr(text, "train.min_learning_rate"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_run_is_silent),      cmocka_unit_test(a_warm_up_without_end), cmocka_unit_test(more_than_the_text_in_an_iteration),
        cmocka_unit_test(positions_that_are_not_trained), cmocka_unit_test(a_byte_order_mark),     cmocka_unit_test(rates_that_jump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
