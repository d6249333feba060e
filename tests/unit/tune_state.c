// The saved state of tuning: it comes back as it was, belongs to its settings, and damage is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tune/state.h"

enum { COUNT = 50 };
static const char settings[] = "{\"seed\": 1, \"rank\": 4}";

static int make_directory(void **state) {
    char *directory = strdup("/tmp/braid-state-XXXXXX");
    assert_non_null(directory);
    assert_non_null(mkdtemp(directory));
    *state = directory;
    return 0;
}

static void path_in(const char *directory, char path[256]) { snprintf(path, 256, "%s/%s", directory, TUNE_STATE_FILE); }

static int remove_directory(void **state) {
    char path[256];
    path_in(*state, path);
    unlink(path);
    rmdir(*state);
    free(*state);
    return 0;
}

static void make_state(tune_state *s) {
    assert_int_equal(tune_state_new(COUNT, s, NULL), BRAID_OK);
    s->iteration = 12;
    s->best_iteration = 10;
    s->best_loss = 1.0 / 3;
    s->without_gain = 2;
    s->evaluations = 11;
    for (int i = 0; i < COUNT; i++) {
        s->now[i] = (float)i;
        s->moment1[i] = (float)i / 3;
        s->moment2[i] = (float)i / 7;
        s->best[i] = (float)-i;
    }
}

static void test_a_state_comes_back_as_it_was(void **state) {
    tune_state s, again;
    bool there = true;
    make_state(&s);
    assert_int_equal(tune_state_new(COUNT, &again, NULL), BRAID_OK);
    assert_false(tune_state_exists(*state));
    assert_int_equal(tune_state_load(&again, settings, *state, &there, NULL), BRAID_OK);
    assert_false(there);
    for (int i = 0; i < 2; i++) assert_int_equal(tune_state_save(&s, settings, *state, NULL), BRAID_OK);
    assert_true(tune_state_exists(*state));
    assert_int_equal(tune_state_load(&again, settings, *state, &there, NULL), BRAID_OK);
    assert_true(there && again.best_loss == s.best_loss);
    assert_int_equal(again.iteration, 12);
    assert_int_equal(again.best_iteration, 10);
    assert_int_equal(again.without_gain, 2);
    assert_int_equal(again.evaluations, 11);
    assert_memory_equal(again.now, s.now, COUNT * sizeof(float));
    assert_memory_equal(again.moment1, s.moment1, COUNT * sizeof(float));
    assert_memory_equal(again.moment2, s.moment2, COUNT * sizeof(float));
    assert_memory_equal(again.best, s.best, COUNT * sizeof(float));
    tune_state_free(&s);
    tune_state_free(&again);
}

static void expect_refused(tune_state *s, const char *wanted, const char *directory, braid_err code, const char *why) {
    braid_error error = {0};
    bool there;
    assert_int_equal(tune_state_load(s, wanted, directory, &there, &error), code);
    if (!strstr(error.text, why)) fail_msg("'%s' is expected in: %s", why, error.text);
}

static void test_other_settings_and_damage_are_refused(void **state) {
    tune_state s, other;
    char path[256];
    make_state(&s);
    assert_int_equal(tune_state_save(&s, settings, *state, NULL), BRAID_OK);
    expect_refused(&s, "{\"seed\": 2, \"rank\": 4}", *state, BRAID_STATE, "a run with another seed");
    expect_refused(&s, "{\"seed\": 1, \"rank\": 4, \"data\": 1}", *state, BRAID_STATE, "another data");
    assert_int_equal(tune_state_new(COUNT + 1, &other, NULL), BRAID_OK);
    expect_refused(&other, settings, *state, BRAID_FORMAT, "has no 'now' of 51 numbers");
    path_in(*state, path);
    assert_int_equal(truncate(path, 400), 0);
    expect_refused(&s, settings, *state, BRAID_FORMAT, "");
    assert_int_equal(truncate(path, 3), 0);
    expect_refused(&s, settings, *state, BRAID_FORMAT, "no complete safetensors file");
    tune_state_free(&s);
    tune_state_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_state_comes_back_as_it_was, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_other_settings_and_damage_are_refused, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
