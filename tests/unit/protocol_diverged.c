// Runs with gradients that are not finite, at the leader.
#include "protocol_world.h"

static void open_alone(world *w, uint64_t iterations, uint32_t max_skipped) {
    *w = (world){.run = run_of(1, 1, 1), .starts_run = true, .diverges = true};
    w->run.start_relays = 0;
    w->run.iterations = iterations;
    w->run.save = true;
    w->run.checkpoint_every = 2;
    w->run.max_skipped = max_skipped;
}

static void run_to_the_end(world *w) {
    for (uint32_t i = 0; !w->exited; i++) {
        assert_true(i < 200);
        tick(w);
    }
}

// Rule T5a. Given max_skipped, when that many iterations in a row are skipped, then the run ends
// without a checkpoint and fails.
static void test_skipped_iterations_in_a_row_end_the_run(void **state) {
    (void)state;
    world w;
    open_alone(&w, 50, 4);
    begin_world(&w, 1, MEMBER_DATA);
    run_to_the_end(&w);
    assert_int_equal(w.notifications[TELL_ITERATION], 4);
    assert_int_equal(w.notifications[TELL_DIVERGED], 1);
    assert_int_equal(w.notifications[TELL_END], 0);
    assert_int_equal(w.notifications[TELL_CHECKPOINT], 0);  // two were due, with the weights of the version before them
    assert_int_equal(w.last_record_kind, LOG_END);
    assert_true(w.exit_failed);
    free(w.p);
}

// Rule T5a. Given no limit, when every iteration is skipped, then the run continues.
static void test_without_a_limit_the_run_continues(void **state) {
    (void)state;
    world w;
    open_alone(&w, 20, 0);
    begin_world(&w, 1, MEMBER_DATA);
    run_to_the_end(&w);
    assert_int_equal(w.notifications[TELL_ITERATION], 20);
    assert_int_equal(w.notifications[TELL_DIVERGED], 0);
    assert_int_equal(w.notifications[TELL_END], 1);
    assert_false(w.exit_failed);
    free(w.p);
}

// Rule T5a. Given skipped iterations, when one changes the weights, then the count starts again. A
// due checkpoint is written after that iteration.
static void test_a_good_iteration_resets_the_count(void **state) {
    (void)state;
    world w;
    open_alone(&w, 4, 3);
    w.finite_from_iteration = 2;
    begin_world(&w, 1, MEMBER_DATA);
    run_to_the_end(&w);
    assert_int_equal(w.notifications[TELL_ITERATION], 4);
    assert_int_equal(w.notifications[TELL_DIVERGED], 0);
    assert_int_equal(w.notifications[TELL_CHECKPOINT], 2);
    assert_int_equal(w.records[LOG_CHECKPOINT], 1);
    assert_int_equal(w.checkpoint, 3);
    assert_false(w.exit_failed);
    free(w.p);
}

// Rule T5a. Given a leader that read only a snapshot, when the next iteration is skipped, then it
// continues the count of FINAL.
static void test_a_snapshot_keeps_the_count(void **state) {
    (void)state;
    const log_member me = {.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = me}, {.kind = LOG_OWNER, .u.owner = {.member = 1}}, {.kind = LOG_RUN, .u.run = {.generation = 1}},
                             {.kind = LOG_FINAL, .u.final = {.iteration = 5, .skip = true, .skipped = 3, .stages = 1}}};
    world w;
    log_entry entry = {.index = 0};
    open_alone(&w, 50, 4);
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    while (entry.kind != LOG_FINAL) assert_true(peer_snapshot(w.p, entry.index, &entry));
    assert_int_equal(entry.u.final.skipped, 3);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skipped_iterations_in_a_row_end_the_run),
        cmocka_unit_test(test_without_a_limit_the_run_continues),
        cmocka_unit_test(test_a_good_iteration_resets_the_count),
        cmocka_unit_test(test_a_snapshot_keeps_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
