#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_every_code_has_a_text(void **state) {
    (void)state;
    assert_string_equal(braid_err_text(BRAID_OK), "no error");
    assert_string_equal(braid_err_text(BRAID_LIMIT), "a limit was exceeded");
    assert_string_equal(braid_err_text((braid_err)-1000), "an unknown error");
}

static void test_fail_formats_and_returns_the_code(void **state) {
    (void)state;
    braid_error error;
    assert_int_equal(braid_fail(&error, BRAID_IO, "%s: line %d", "run.yaml", 7), BRAID_IO);
    assert_int_equal(error.code, BRAID_IO);
    assert_string_equal(error.text, "run.yaml: line 7");
    assert_int_equal(braid_fail(NULL, BRAID_MEMORY, "nobody listens"), BRAID_MEMORY);
}

static void test_fail_wraps_its_own_text(void **state) {
    (void)state;
    braid_error error;
    braid_fail(&error, BRAID_IO, "no space left");
    braid_fail(&error, BRAID_IO, "checkpoint: %s; free some", error.text);
    assert_string_equal(error.text, "checkpoint: no space left; free some");
}

static void test_fail_truncates(void **state) {
    (void)state;
    char sentence[2 * sizeof((braid_error *)0)->text];
    memset(sentence, 'x', sizeof sentence - 1);
    sentence[sizeof sentence - 1] = '\0';
    braid_error error;
    braid_fail(&error, BRAID_LIMIT, "%s", sentence);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void test_assertion_stops_the_process(void **state) {
    (void)state;
    BRAID_ASSERT(1 + 1 == 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);  // cmocka reports the failed assertion
        fclose(stderr);
        BRAID_ASSERT(1 + 1 == 3);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_has_a_text),
        cmocka_unit_test(test_fail_formats_and_returns_the_code),
        cmocka_unit_test(test_fail_wraps_its_own_text),
        cmocka_unit_test(test_fail_truncates),
        cmocka_unit_test(test_assertion_stops_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
