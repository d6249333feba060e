// The policy of signals, in a separate process for each test, because signals affect the whole
// process.
#include "node/stop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Runs a function in a child and returns its exit code, or minus the signal that ended it.
static int in_a_child(int (*act)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(act());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool watch(bool supervised) {
    const stop_config config = {.verb = "test", .within_ns = STOP_WITHIN_NS, .supervised = supervised};
    return stop_watch(&config, NULL) == BRAID_OK;
}

static int copies(void) {
    if (!watch(false) || stop_requested() != 0) return 1;
    raise(SIGTERM);
    raise(SIGINT);
    raise(SIGHUP);
    if (stop_requested() != SIGTERM || stop_at_once() || stop_take_save()) return 2;
    return strcmp(stop_signal_name(SIGHUP), "SIGHUP") == 0 ? 0 : 3;
}

static void test_repeated_signals_count_once(void **state) {
    (void)state;
    assert_int_equal(in_a_child(copies), 0);
}

static int save(void) {
    char byte;
    if (!watch(false)) return 1;
    raise(SIGUSR1);
    if (read(stop_descriptor(), &byte, 1) != 1) return 2;
    if (stop_requested() != 0 || !stop_take_save() || stop_take_save()) return 3;
    raise(SIGUSR1);
    stop_clear();
    return read(stop_descriptor(), &byte, 1) == -1 && stop_take_save() ? 0 : 4;
}

static void test_a_request_to_save_is_no_end(void **state) {
    (void)state;
    assert_int_equal(in_a_child(save), 0);
}

static int nohup(void) {
    signal(SIGHUP, SIG_IGN);
    if (!watch(false)) return 1;
    raise(SIGHUP);
    return stop_requested();
}

static void test_an_ignored_hangup_stays_ignored(void **state) {
    (void)state;
    assert_int_equal(in_a_child(nohup), 0);
}

static int supervised(void) {
    if (!watch(true)) return 1;
    raise(SIGINT);
    raise(SIGHUP);
    raise(SIGUSR1);
    if (stop_requested() != 0 || stop_take_save()) return 2;
    raise(SIGTERM);
    return stop_requested() == SIGTERM && alarm(0) == 0 ? 0 : 3;  // without a limit of its own
}

static void test_a_supervised_process_defers_to_its_parent(void **state) {
    (void)state;
    assert_int_equal(in_a_child(supervised), 0);
}

static int late(void) {
    close(STDERR_FILENO);  // output is impossible
    if (!watch(false)) return 2;
    raise(SIGTERM);
    raise(SIGALRM);  // as after the limit has passed
    return 3;
}

static void test_a_limit_that_has_passed_ends_the_process(void **state) {
    (void)state;
    assert_int_equal(in_a_child(late), 1);
}

static void test_a_quarter_of_the_limit_finishes_the_iteration(void **state) {
    (void)state;
    assert_true(stop_finish_ns(STOP_WITHIN_NS) == STOP_FINISH_MS * UINT64_C(1000000));
    assert_true(stop_finish_ns(UINT64_C(8000000000)) == UINT64_C(2000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeated_signals_count_once),
        cmocka_unit_test(test_a_request_to_save_is_no_end),
        cmocka_unit_test(test_an_ignored_hangup_stays_ignored),
        cmocka_unit_test(test_a_supervised_process_defers_to_its_parent),
        cmocka_unit_test(test_a_limit_that_has_passed_ends_the_process),
        cmocka_unit_test(test_a_quarter_of_the_limit_finishes_the_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
