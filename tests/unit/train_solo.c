#include "train/solo.h"

#include "train/checkpoint.h"
#include "train/sample.h"
#include "train_tiny.h"

#include <fcntl.h>
#include <math.h>

typedef struct fixture {
    char directory[64];
    train_data *data;
    run_config run;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tiny_directory(f->directory);
    f->data = tiny_data(f->directory);
    f->run = (run_config){.name = "tiny",
                          .seed = 3,
                          .model = tiny_model(MODEL_LLAMA),
                          .stages = 1,
                          .blocks = {TINY_LAYERS},
                          .holdout = 0.1,
                          .recipe = tiny_recipe(true),
                          .microbatches = TINY_MICROBATCHES,
                          .sequences = TINY_SEQUENCES,
                          .tokens = TINY_TOKENS,
                          .slots = 1,
                          .eval_every = 3,
                          .eval_microbatches = 2};
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    train_data_free(f->data);
    tiny_remove(f->directory);
    free(f);
    return 0;
}

typedef struct diary {
    uint32_t count[SOLO_NOTE + 1];
    double first, last, held_out;
    uint64_t stop_at, now;
    uint32_t asked, within;  // calls since the last iteration's end, and calls before the request is made
    solo_wish wish;          // from iteration stop_at on
    uint32_t saves;
    const char *truncates;  // then this text is truncated
    char note[256];
    const char *spoils;  // this directory, once the run has started
} diary;

// Replaces the directory by a file.
static void spoil(const char *directory) {
    tiny_remove(directory);
    int fd = open(directory, O_CREAT | O_WRONLY, 0666);
    assert_true(fd >= 0 && close(fd) == 0);
}

static void note(void *context, const solo_event *event) {
    diary *d = context;
    d->count[event->kind]++;
    if (event->kind == SOLO_ITERATION) {
        if (d->count[SOLO_ITERATION] == 1) d->first = event->loss;
        d->last = event->loss;
        d->now = event->iteration;
        d->asked = 0;
        assert_int_equal(event->microbatches, TINY_MICROBATCHES);
        assert_true(event->tokens == TINY_MICROBATCHES * TINY_SEQUENCES * TINY_TOKENS && event->norm > 0 &&
                    !event->skip);
    }
    if (event->kind == SOLO_STARTED && d->spoils) spoil(d->spoils);
    if (event->kind == SOLO_EVAL) d->held_out = event->loss;
    if (event->kind == SOLO_NOTE) snprintf(d->note, sizeof d->note, "%s", event->text);
}

static solo_wish wish(void *context) {
    diary *d = context;
    d->asked++;
    if (d->stop_at == 0 || d->now < d->stop_at || d->asked <= d->within) return SOLO_GO_ON;
    if (d->wish == SOLO_SAVE && d->saves++ > 0) return SOLO_GO_ON;
    if (d->truncates && truncate(d->truncates, 0)) fail_msg("%s cannot be cut short", d->truncates);
    return d->wish;
}

static solo_result run_solo(fixture *f, diary *d, unsigned threads, const char *resume, uint64_t until) {
    solo_config config = {.run = &f->run,
                          .data = f->data,
                          .threads = threads,
                          .resume = resume,
                          .until = until,
                          .context = d,
                          .tell = note,
                          .wish = wish};
    solo_result result;
    braid_error error = {0};
    if (solo_run(&config, &result, &error)) fail_msg("%s", error.text);
    return result;
}

static void test_training_learns_and_reports(void **state) {
    fixture *f = *state;
    diary d = {0};
    solo_result result = run_solo(f, &d, 1, NULL, 0);
    assert_int_equal(result.version, 12);
    assert_int_equal(d.count[SOLO_STARTED], 1);
    assert_int_equal(d.count[SOLO_ITERATION], 12);
    assert_int_equal(d.count[SOLO_EVAL], 5);  // before iterations 0, 3, 6, 9 and at the end
    assert_int_equal(d.count[SOLO_CHECKPOINT], 0);
    assert_true(d.first > 5.3 && d.first < 5.8);  // log 256 is 5.55
    assert_true(d.last < 4.5 && d.held_out < 4.5);
    assert_true(result.tokens == 12 * TINY_MICROBATCHES * TINY_SEQUENCES * TINY_TOKENS && !result.stopped);
}

static void test_threads_and_recomputation_change_no_bit(void **state) {
    fixture *f = *state;
    diary d = {0};
    solo_result one = run_solo(f, &d, 1, NULL, 4);
    assert_same_hash(run_solo(f, &d, 2, NULL, 4).weights, one.weights);
    assert_same_hash(run_solo(f, &d, 3, NULL, 4).weights, one.weights);
    f->run.recompute = true;
    assert_same_hash(run_solo(f, &d, 2, NULL, 4).weights, one.weights);
    f->run.seed++;
    assert_memory_not_equal(run_solo(f, &d, 2, NULL, 4).weights.bytes, one.weights.bytes, 32);
}

static void test_resuming_changes_no_bit(void **state) {
    fixture *f = *state;
    diary d = {0};
    solo_result straight = run_solo(f, &d, 1, NULL, 6);
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary before = {.stop_at = 3, .wish = SOLO_FINISH}, after = {0};
    solo_result stopped = run_solo(f, &before, 1, NULL, 6);
    assert_true(stopped.stopped && stopped.version == 3 && stopped.path[0]);
    assert_int_equal(before.count[SOLO_CHECKPOINT], 1);
    solo_result resumed = run_solo(f, &after, 2, f->run.checkpoint, 6);
    assert_int_equal(after.count[SOLO_ITERATION], 3);
    assert_int_equal(after.count[SOLO_NOTE], 0);
    assert_int_equal(resumed.version, 6);
    assert_same_hash(resumed.weights, straight.weights);
}

static uint64_t saved_version(const fixture *f) {
    checkpoint *c = NULL;
    assert_int_equal(checkpoint_open(f->run.checkpoint, &c, NULL), BRAID_OK);
    uint64_t version = checkpoint_version(c);
    checkpoint_close(c);
    return version;
}

static void test_a_dropped_iteration_changes_no_bit(void **state) {
    fixture *f = *state;
    diary d = {0}, dropped = {.stop_at = 2, .wish = SOLO_DROP, .within = 2};
    solo_result straight = run_solo(f, &d, 1, NULL, 5);
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    solo_result stopped = run_solo(f, &dropped, 1, NULL, 5);
    assert_true(stopped.stopped && !stopped.abandoned && stopped.version == 2 && dropped.asked > 2);
    assert_int_equal(saved_version(f), 2);
    assert_same_hash(run_solo(f, &d, 1, f->run.checkpoint, 5).weights, straight.weights);
}

static void test_a_checkpoint_on_request_changes_nothing(void **state) {
    fixture *f = *state;
    diary d = {0}, saving = {.stop_at = 2, .wish = SOLO_SAVE, .within = 2}, abandoned = {.stop_at = 4, .wish = SOLO_ABANDON};
    solo_result straight = run_solo(f, &d, 1, NULL, 5);
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    assert_same_hash(run_solo(f, &saving, 1, NULL, 5).weights, straight.weights);
    assert_int_equal(saving.count[SOLO_CHECKPOINT], 2);  // and the one at the end
    assert_int_equal(saved_version(f), 5);
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/abandoned", f->directory);
    solo_result ended = run_solo(f, &abandoned, 1, NULL, 5);
    assert_true(ended.abandoned && ended.version == 4 && abandoned.count[SOLO_CHECKPOINT] == 0);
}

static void test_a_truncated_text_ends_the_run_and_saves(void **state) {
    fixture *f = *state;
    char text[128];
    snprintf(text, sizeof text, "%s/text.txt", f->directory);
    diary d = {.stop_at = 2, .within = 1, .truncates = text};
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    solo_config config = {.run = &f->run, .data = f->data, .threads = 1, .until = 5, .context = &d, .tell = note, .wish = wish};
    solo_result result;
    braid_error error = {0};
    assert_int_equal(solo_run(&config, &result, &error), BRAID_IO);
    assert_non_null(strstr(error.text, "is not what the run began with any more"));
    assert_true(result.begun && result.version == 2 && result.path[0]);
    assert_int_equal(saved_version(f), 2);
}

static void test_checkpoints_come_when_due(void **state) {
    fixture *f = *state;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    f->run.checkpoint_every = 2;
    diary d = {0};
    solo_result result = run_solo(f, &d, 1, NULL, 5);
    assert_int_equal(d.count[SOLO_CHECKPOINT], 3);
    checkpoint *c = NULL;
    assert_int_equal(checkpoint_open(f->run.checkpoint, &c, NULL), BRAID_OK);
    assert_int_equal(checkpoint_version(c), 5);
    assert_same_hash(*checkpoint_weights(c), result.weights);
    checkpoint_close(c);
}

static void test_another_description_is_noted(void **state) {
    fixture *f = *state;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary d = {0};
    run_solo(f, &d, 1, NULL, 2);
    f->run.recipe.learning_rate *= 2;
    run_solo(f, &d, 1, f->run.checkpoint, 3);
    assert_int_equal(d.count[SOLO_NOTE], 2);  // notes about the rate's jump and about the other run
    assert_non_null(strstr(d.note, "this checkpoint is of another run ("));
}

static void test_resuming_with_another_description_is_reported(void **state) {
    fixture *f = *state;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary d = {0}, after = {0};
    run_solo(f, &d, 1, NULL, 2);
    f->run.seed++;
    run_solo(f, &after, 1, f->run.checkpoint, 3);
    assert_int_equal(after.count[SOLO_NOTE], 1);
    assert_non_null(strstr(after.note, "this checkpoint is of another run ("));
    assert_non_null(strstr(after.note, "version 2"));
}

static void test_a_failing_save_does_not_end_the_run(void **state) {
    fixture *f = *state;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    f->run.checkpoint_every = 1;
    diary d = {.spoils = f->run.checkpoint};
    solo_result result = run_solo(f, &d, 1, NULL, 2);
    assert_true(result.save_failed && result.version == 2);
    assert_int_equal(d.count[SOLO_ITERATION], 2);
}

static void let_diverge(fixture *f, uint32_t max_skipped) {
    f->run.recipe = (train_recipe){.iterations = 60, .learning_rate = 10, .min_learning_rate = 10, .eps = 1e-8f, .weight_decay = 1, .reproducible = true};
    f->run.eval_every = 0;
    f->run.max_skipped = max_skipped;
    f->run.checkpoint_every = 1;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
}

static void count_skipped(void *context, const solo_event *event) {
    if (event->kind == SOLO_ITERATION) *(uint32_t *)context = event->skip ? *(uint32_t *)context + 1 : 0;
}

static void test_a_diverged_run_keeps_good_checkpoints(void **state) {
    fixture *f = *state;
    let_diverge(f, 5);
    uint32_t skipped = 0;
    solo_config config = {.run = &f->run, .data = f->data, .threads = 1, .context = &skipped, .tell = count_skipped};
    solo_result result;
    braid_error error = {0};
    assert_int_equal(solo_run(&config, &result, &error), BRAID_STATE);
    assert_true(result.diverged);
    assert_int_equal(skipped, 5);
    assert_in_range(result.version, 6, 59);
    char good[64];
    snprintf(good, sizeof good, "iteration %u was the last good one", (unsigned)result.version - 5);
    assert_non_null(strstr(error.text, good));
    checkpoint *c = NULL;
    assert_int_equal(checkpoint_open(f->run.checkpoint, &c, NULL), BRAID_OK);
    assert_int_equal(checkpoint_version(c), result.version - 5);
    snprintf(good, sizeof good, "saved/step-%06u", (unsigned)result.version - 5);
    assert_non_null(strstr(error.text, good));
    checkpoint_close(c);
}

static void test_without_a_limit_a_diverged_run_continues(void **state) {
    fixture *f = *state;
    let_diverge(f, 0);
    uint32_t skipped = 0;
    solo_config config = {.run = &f->run, .data = f->data, .threads = 1, .context = &skipped, .tell = count_skipped};
    solo_result result;
    assert_int_equal(solo_run(&config, &result, NULL), BRAID_OK);
    assert_int_equal(result.version, 60);
    assert_in_range(skipped, 11, 59);
}

static void test_a_complete_run_computes_nothing(void **state) {
    fixture *f = *state;
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary first = {0}, again = {0};
    solo_result done = run_solo(f, &first, 1, NULL, 3);
    solo_result result = run_solo(f, &again, 1, f->run.checkpoint, 3);
    assert_true(result.nothing && result.version == 3 && !result.save_failed);
    assert_same_hash(result.weights, done.weights);
    assert_string_equal(result.path, done.path);
    assert_int_equal(again.count[SOLO_STARTED] + again.count[SOLO_ITERATION] + again.count[SOLO_EVAL] + again.count[SOLO_CHECKPOINT], 0);
    assert_non_null(strstr(again.note, "nothing to do: iteration 3 of 12 is done; a larger --iterations extends"));
    run_solo(f, &again, 1, f->run.checkpoint, 12);
    run_solo(f, &again, 1, f->run.checkpoint, 12);
    assert_non_null(strstr(again.note, "nothing to do: iteration 12 of 12 is done; a larger train.iterations extends"));
}

static void test_a_run_resumes_from_weights_alone(void **state) {
    fixture *f = *state;
    char optimizer[FILES_MAX_PATH];
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary first = {0}, after = {0};
    solo_result whole = run_solo(f, &first, 1, NULL, 6);
    tiny_remove(f->run.checkpoint);
    run_solo(f, &first, 1, NULL, 3);
    snprintf(optimizer, sizeof optimizer, "%s/step-000003/optimizer-00001-of-00001.safetensors", f->run.checkpoint);
    assert_int_equal(unlink(optimizer), 0);
    solo_result result = run_solo(f, &after, 1, f->run.checkpoint, 6);
    assert_int_equal(result.version, 6);
    assert_non_null(strstr(after.note, "has no optimizer state: its moments begin at zero"));
    assert_memory_not_equal(&result.weights, &whole.weights, sizeof whole.weights);
}

static void expect_refused(fixture *f, const char *resume, uint64_t until, const char *says) {
    solo_config config = {.run = &f->run, .data = f->data, .threads = 1, .resume = resume, .until = until};
    solo_result result;
    braid_error error = {0};
    if (!solo_run(&config, &result, &error)) fail_msg("accepted, although %s", says);
    if (!strstr(error.text, says)) fail_msg("'%s' does not say '%s'", error.text, says);
}

static void test_invalid_configurations_are_refused(void **state) {
    fixture *f = *state;
    expect_refused(f, NULL, 13, "ends after 12 iterations");
    expect_refused(f, "/nowhere", 0, "no checkpoint at");
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/text.txt", f->directory);
    expect_refused(f, NULL, 0, "Not a directory");
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary d = {0};
    run_solo(f, &d, 1, NULL, 4);
    expect_refused(f, f->run.checkpoint, 3, "has done 4 iterations");
    f->run.max_memory = 100000;
    expect_refused(f, NULL, 0, "--max-memory");
    f->run.max_memory = 0;
    f->run.model.dim = 64;
    expect_refused(f, f->run.checkpoint, 0, "its dim is 32, the run's is 64");
}

static checkpoint *trained_checkpoint(fixture *f, uint64_t iterations) {
    snprintf(f->run.checkpoint, sizeof f->run.checkpoint, "%s/saved", f->directory);
    diary d = {0};
    checkpoint *c = NULL;
    f->run.recipe.iterations = iterations;
    tiny_remove(f->run.checkpoint);  // a run does not start over its own newer checkpoints
    run_solo(f, &d, 1, NULL, iterations);
    assert_int_equal(checkpoint_open(f->run.checkpoint, &c, NULL), BRAID_OK);
    return c;
}

static generator *trained(fixture *f, uint64_t iterations, bool narrow) {
    checkpoint *c = trained_checkpoint(f, iterations);
    generator *g = NULL;
    assert_int_equal(generator_new(c, narrow, 1, &g, NULL), BRAID_OK);
    checkpoint_close(c);
    return g;
}

static void writes_its_words(generator *g) {
    rng r = {1};
    sample_settings likeliest = {.top_p = 1};
    generator_read(g, (const uint8_t *)"the river bra", 13);
    char text[4] = {0};
    for (int i = 0; i < 3; i++) text[i] = (char)generator_next(g, &likeliest, &r);
    assert_string_equal(text, "ids");
    // Longer than the context, and with an empty prompt.
    sample_settings free_one = {.temperature = 1, .top_k = 5, .top_p = 0.9};
    for (int i = 0; i < 100; i++) generator_next(g, &free_one, &r);
    generator_free(g);
}

// After some training on a few words, the most likely continuation of "bra" is "ids".
static void test_a_trained_model_writes_its_words(void **state) {
    fixture *f = *state;
    for (int narrow = 0; narrow < 2; narrow++) writes_its_words(trained(f, 150, narrow));
}

static void test_the_same_seed_writes_the_same_text(void **state) {
    fixture *f = *state;
    generator *g = trained(f, 2, false), *h = trained(f, 2, false);
    rng r = {7}, s = {7};
    sample_settings settings = {.temperature = 1, .top_p = 1};
    for (int i = 0; i < 40; i++) assert_int_equal(generator_next(g, &settings, &r), generator_next(h, &settings, &s));
    generator_free(g);
    generator_free(h);
}

// A byte without a token would be outside of its tables.
static void test_a_model_of_few_tokens_is_refused(void **state) {
    fixture *f = *state;
    f->run.model.vocab = 255;  // the text is ASCII
    checkpoint *c = trained_checkpoint(f, 1);
    generator *g = NULL;
    braid_error error = {0};
    assert_int_equal(generator_new(c, false, 1, &g, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "255 tokens"));
    assert_null(g);
    checkpoint_close(c);
}

static void test_sampling_follows_its_settings(void **state) {
    (void)state;
    const float logits[5] = {0, 3, 1, 2, -4};
    rng r = {3};
    uint32_t seen[5] = {0};
    for (int i = 0; i < 2000; i++)
        seen[sample_token(logits, 5, &(sample_settings){.temperature = 1, .top_p = 1}, &r)]++;
    assert_true(seen[1] > seen[3] && seen[3] > seen[2] && seen[2] > seen[0] && seen[0] > 0);
    assert_true(seen[1] > 1200 && seen[1] < 1400);  // 0.643 of 2000
    for (int i = 0; i < 500; i++) {
        assert_int_equal(sample_token(logits, 5, &(sample_settings){.temperature = 0, .top_p = 1}, &r), 1);
        uint32_t k = sample_token(logits, 5, &(sample_settings){.temperature = 5, .top_k = 2, .top_p = 1}, &r);
        assert_true(k == 1 || k == 3);
        uint32_t p = sample_token(logits, 5, &(sample_settings){.temperature = 1, .top_p = 0.7}, &r);
        assert_true(p == 1 || p == 3);
        assert_int_equal(sample_token(logits, 5, &(sample_settings){.temperature = 1, .top_p = 0}, &r), 1);
    }
    const float broken[3] = {NAN, 1, NAN};
    assert_int_equal(sample_token(broken, 3, &(sample_settings){.temperature = 1, .top_p = 1}, &r), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_training_learns_and_reports),
        TEST(test_threads_and_recomputation_change_no_bit),
        TEST(test_resuming_changes_no_bit),
        TEST(test_resuming_with_another_description_is_reported),
        TEST(test_a_dropped_iteration_changes_no_bit),
        TEST(test_a_checkpoint_on_request_changes_nothing),
        TEST(test_a_truncated_text_ends_the_run_and_saves),
        TEST(test_checkpoints_come_when_due),
        TEST(test_a_complete_run_computes_nothing),
        TEST(test_a_run_resumes_from_weights_alone),
        TEST(test_another_description_is_noted),
        TEST(test_a_failing_save_does_not_end_the_run),
        TEST(test_a_diverged_run_keeps_good_checkpoints),
        TEST(test_without_a_limit_a_diverged_run_continues),
        TEST(test_invalid_configurations_are_refused),
        TEST(test_a_trained_model_writes_its_words),
        TEST(test_the_same_seed_writes_the_same_text),
        TEST(test_a_model_of_few_tokens_is_refused),
        TEST(test_sampling_follows_its_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
