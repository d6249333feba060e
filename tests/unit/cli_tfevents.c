#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/tfevents.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 4096 };

static char directory[64];

static size_t read_only_file(uint8_t bytes[MOST_BYTES]) {
    char path[512] = "";
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, "tfevents")) {
            assert_true(path[0] == 0);
            snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        }
    closedir(d);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, MOST_BYTES, file);
    fclose(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    return count;
}

// Written by TensorBoard 2.21's own EventFileWriter for the same event: wall time 1.5, step 300,
// loss/train = 0.25.
static const uint8_t expected[] = {
#include "tfevents_record.inc"
};

static void test_a_record_is_that_of_tensorboard(void **state) {
    (void)state;
    tfevents *t;
    braid_error error;
    uint8_t bytes[MOST_BYTES];
    assert_int_equal(tfevents_open(directory, &t, &error), BRAID_OK);
    tfevents_scalar(t, 1.5, 300, "loss/train", 0.25);
    assert_int_equal(tfevents_flush(t, &error), BRAID_OK);
    tfevents_close(t);
    size_t count = read_only_file(bytes);
    assert_true(count > sizeof expected);
    assert_memory_equal(bytes + count - sizeof expected, expected, sizeof expected);
}

static void test_values_that_are_not_finite_are_left_out(void **state) {
    (void)state;
    tfevents *t;
    braid_error error;
    uint8_t bytes[MOST_BYTES];
    assert_int_equal(tfevents_open(directory, &t, &error), BRAID_OK);
    tfevents_scalar(t, 1, 1, "loss/train", (double)NAN);
    tfevents_scalar(t, 1, 1, "loss/train", 1e300);
    tfevents_close(t);
    size_t count = read_only_file(bytes);
    assert_true(count < 60);  // the version alone
}

static void test_no_directory(void **state) {
    (void)state;
    tfevents *t;
    braid_error error;
    char path[128];
    snprintf(path, sizeof path, "%s/a/b", directory);
    assert_int_equal(tfevents_open(path, &t, &error), BRAID_IO);
    assert_null(t);
    assert_non_null(strstr(error.text, "make its parent directory first"));
}

static int setup(void **state) {
    (void)state;
    strcpy(directory, "/tmp/braid-tfevents-XXXXXX");
    return mkdtemp(directory) && rmdir(directory) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_record_is_that_of_tensorboard, setup),
        cmocka_unit_test_setup(test_values_that_are_not_finite_are_left_out, setup),
        cmocka_unit_test_setup(test_no_directory, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
