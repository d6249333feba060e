#include "train/data.h"

#include "base/sha256.h"
#include "train_tiny.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = 16, SEQUENCES = 3, ROWS = TOKENS * SEQUENCES };

static char directory[64];

static int set_up(void **state) {
    (void)state;
    tiny_directory(directory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tiny_remove(directory);
    return 0;
}

static const char *path_of(const char *name) {
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", directory, name);
    return p;
}

// Bytes that encode their position, so that a sample shows its offset.
static void write_counting(const char *path, uint32_t first, uint32_t count) {
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    for (uint32_t i = 0; i < count; i++) bytes[i] = (uint8_t)((first + i) * 31 / 7 + (first + i));
    tiny_file(path, bytes, count);
    free(bytes);
}

static train_data *open_one(const char *path, double holdout) {
    train_data *data = NULL;
    braid_error error = {0};
    if (train_data_open(&path, 1, holdout, TOKENS, &data, &error)) fail_msg("%s", error.text);
    return data;
}

static void test_targets_are_the_inputs_shifted(void **state) {
    (void)state;
    const char *path = path_of("text");
    tiny_text(path, 5000);
    train_data *data = open_one(path, 0.1);
    int32_t inputs[ROWS], targets[ROWS];
    train_data_sample(data, 1, 2, 3, SEQUENCES, TOKENS, inputs, targets, NULL);
    for (int s = 0; s < SEQUENCES; s++)
        for (int i = 0; i + 1 < TOKENS; i++) assert_int_equal(targets[s * TOKENS + i], inputs[s * TOKENS + i + 1]);
    for (int i = 0; i < ROWS; i++) assert_true(inputs[i] >= 0 && inputs[i] < 256);
    train_data_free(data);
}

// Microbatch m is the same as the one drawn by the data peer of its data shard, which has only its
// own text.
static void test_each_data_shard_has_its_text(void **state) {
    (void)state;
    const char *paths[] = {path_of("own0"), path_of("own1")};
    for (uint32_t i = 0; i < 2; i++) write_counting(paths[i], 1000 * i, 3000 + i);
    train_data *all = NULL, *own[] = {open_one(paths[0], 0.1), open_one(paths[1], 0.1)};
    const train_shares shares = {.slots = 3, .microbatches = 7};
    braid_error error = {0};
    if (train_data_open_shares(paths, 2, &shares, 0.1, TOKENS, &all, &error)) fail_msg("%s", error.text);
    int32_t inputs[ROWS], targets[ROWS], others[ROWS];
    for (uint32_t m = 0; m < 12; m++) {
        uint32_t share = m % 3 % 2;
        for (uint32_t which = 0; which < 2; which++) {
            if (m < 7) {
                train_data_sample(all, 5, 1, m, SEQUENCES, TOKENS, inputs, targets, NULL);
                train_data_sample(own[which], 5, 1, m, SEQUENCES, TOKENS, others, targets, NULL);
            } else {
                train_data_held_out(all, 5, m - 7, SEQUENCES, TOKENS, inputs, targets, NULL);
                train_data_held_out(own[which], 5, m - 7, SEQUENCES, TOKENS, others, targets, NULL);
            }
            assert_int_equal(memcmp(inputs, others, sizeof inputs) == 0, which == share);
        }
    }
    train_data_free(all);
    train_data_free(own[0]);
    train_data_free(own[1]);
}

static void test_a_sample_depends_on_its_indices_only(void **state) {
    (void)state;
    const char *path = path_of("text");
    tiny_text(path, 50000);
    train_data *data = open_one(path, 0.1);
    int32_t a[ROWS], b[ROWS], targets[ROWS];
    train_data_sample(data, 1, 2, 3, SEQUENCES, TOKENS, a, targets, NULL);
    train_data_sample(data, 1, 2, 3, SEQUENCES, TOKENS, b, targets, NULL);
    assert_memory_equal(a, b, sizeof a);
    // Fewer sequences are the first ones of more: the size of a microbatch does not reshuffle it.
    train_data_sample(data, 1, 2, 3, 1, TOKENS, b, targets, NULL);
    assert_memory_equal(a, b, TOKENS * sizeof *a);
    const struct {
        uint64_t seed, iteration;
        uint32_t m;
    } others[] = {{2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {1, 3, 2}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        train_data_sample(data, others[i].seed, others[i].iteration, others[i].m, SEQUENCES, TOKENS, b, targets, NULL);
        assert_memory_not_equal(a, b, sizeof a);
    }
    train_data_held_out(data, 1, 3, SEQUENCES, TOKENS, b, targets, NULL);
    assert_memory_not_equal(a, b, sizeof a);
    train_data_free(data);
}

// The text is 'a's and then 'b's, so a sample shows its part of the text.
static void test_held_out_text_is_not_trained_on(void **state) {
    (void)state;
    char text[1000];
    memset(text, 'a', 800);
    memset(text + 800, 'b', 200);
    const char *path = path_of("ab");
    tiny_file(path, text, sizeof text);
    train_data *data = open_one(path, 0.2);
    int32_t inputs[ROWS], targets[ROWS];
    for (uint32_t m = 0; m < 200; m++) {
        train_data_sample(data, 1, 0, m, SEQUENCES, TOKENS, inputs, targets, NULL);
        for (int i = 0; i < ROWS; i++) assert_true(inputs[i] == 'a' && targets[i] == 'a');
        train_data_held_out(data, 1, m, SEQUENCES, TOKENS, inputs, targets, NULL);
        for (int i = 0; i < ROWS; i++) assert_true(inputs[i] == 'b' && targets[i] == 'b');
    }
    assert_true(train_data_has_held_out(data));
    train_data_free(data);
}

static void test_the_whole_text_is_drawn_from(void **state) {
    (void)state;
    uint8_t text[TOKENS + 20];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)i;
    const char *path = path_of("short");
    tiny_file(path, text, sizeof text);
    train_data *data = open_one(path, 0);
    bool first = false, last = false;
    int32_t inputs[TOKENS], targets[TOKENS];
    for (uint32_t m = 0; m < 1000; m++) {
        train_data_sample(data, 1, 0, m, 1, TOKENS, inputs, targets, NULL);
        first |= inputs[0] == 0;
        last |= targets[TOKENS - 1] == (int32_t)sizeof text - 1;
    }
    assert_true(first && last);
    assert_false(train_data_has_held_out(data));
    train_data_free(data);
}

static void test_several_files_are_one_text(void **state) {
    (void)state;
    const char *whole = path_of("whole"), *parts[] = {path_of("p0"), path_of("p1"), path_of("p2")};
    write_counting(whole, 0, 3000);
    write_counting(parts[0], 0, 7);
    write_counting(parts[1], 7, 1);
    write_counting(parts[2], 8, 2992);
    train_data *one = open_one(whole, 0.1), *three = NULL;
    assert_int_equal(train_data_open(parts, 3, 0.1, TOKENS, &three, NULL), BRAID_OK);
    assert_int_equal(train_data_size(three), 3000);
    assert_same_hash(train_data_hash(one), train_data_hash(three));
    int32_t a[ROWS], b[ROWS], ta[ROWS], tb[ROWS];
    for (uint32_t m = 0; m < 500; m++) {
        train_data_sample(one, 1, 0, m, SEQUENCES, TOKENS, a, ta, NULL);
        train_data_sample(three, 1, 0, m, SEQUENCES, TOKENS, b, tb, NULL);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(ta, tb, sizeof ta);
    }
    train_data_free(one);
    train_data_free(three);
}

static void expect_refused(const char *path, double holdout, const char *says) {
    train_data *data = NULL;
    braid_error error = {0};
    if (!train_data_open(&path, 1, holdout, TOKENS, &data, &error)) fail_msg("accepted: %s", path);
    if (!strstr(error.text, says)) fail_msg("'%s' does not say '%s'", error.text, says);
}

static void test_bad_text_is_explained(void **state) {
    (void)state;
    const char *empty = path_of("empty"), *small = path_of("small"), *holed = path_of("holed");
    tiny_file(empty, "", 0);
    tiny_file(small, "0123456789abcdef", TOKENS);
    tiny_text(holed, 100);
    expect_refused(path_of("absent"), 0, "no text at");
    expect_refused(directory, 0, "is a directory");
    expect_refused("/dev/null", 0, "not a regular file");
    expect_refused(empty, 0, "is empty");
    expect_refused(small, 0, "too short: 16 bytes to train on, one sequence needs 17");
    expect_refused(holed, 0.1, "the held-out text is too short: 10 bytes");
    train_data *data = NULL;
    assert_int_equal(train_data_open(NULL, 0, 0, TOKENS, &data, NULL), BRAID_CONFIG);
    assert_int_equal(train_data_open(&holed, 1, 0.6, TOKENS, &data, NULL), BRAID_CONFIG);
    const char *pipe = path_of("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_refused(pipe, 0, "not a regular file");  // a pipe must not block
}

static void write_at(const char *path, off_t at, const char *text) {
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, text, strlen(text), at), (ssize_t)strlen(text));
    assert_int_equal(close(file), 0);
}

static bool drawn(const train_data *data) {
    int32_t inputs[ROWS], targets[ROWS];
    return train_data_sample(data, 1, 2, 3, SEQUENCES, TOKENS, inputs, targets, NULL);
}

// Users edit the file, overwrite it with another one, or truncate it during the run.
static void test_a_text_that_changes_is_noticed(void **state) {
    (void)state;
    const char *path = path_of("edited");
    braid_error error = {0};
    write_counting(path, 0, 5000);
    train_data *data = open_one(path, 0);
    assert_true(drawn(data));
    write_at(path, 5000, "more behind its end");
    assert_true(drawn(data));
    uint8_t was = (uint8_t)(100 * 31 / 7 + 100);
    write_at(path, 100, was == 'x' ? "y" : "x");
    assert_false(drawn(data));
    assert_false(drawn(data));
    train_data_why(data, &error);
    assert_non_null(strstr(error.text, path));
    assert_non_null(strstr(error.text, "restore it"));
    write_counting(path, 0, 5000);
    assert_true(drawn(data));
    assert_int_equal(truncate(path, 0), 0);
    assert_false(drawn(data));
    train_data_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets_are_the_inputs_shifted),
        cmocka_unit_test(test_each_data_shard_has_its_text),
        cmocka_unit_test(test_a_sample_depends_on_its_indices_only),
        cmocka_unit_test(test_held_out_text_is_not_trained_on),
        cmocka_unit_test(test_the_whole_text_is_drawn_from),
        cmocka_unit_test(test_several_files_are_one_text),
        cmocka_unit_test(test_bad_text_is_explained),
        cmocka_unit_test(test_a_text_that_changes_is_noticed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
