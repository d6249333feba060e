// A run whose gradients are not finite any more, at the peer that leads it.
#include "protocol_world.h"

static void open_alone(world *w, uint64_t iterations, uint32_t max_skipped) {
    *w = (world){.run = run_of(1, 1, 1), .founds = true, .diverges = true};
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

static void test_skipped_iterations_in_a_row_end_the_run(void **state) {
    (void)state;
    world w;
    open_alone(&w, 50, 4);
    begin_world(&w, 1, MEMBER_DATA);
    run_to_the_end(&w);
    assert_int_equal(w.told[TELL_ITERATION], 4);
    assert_int_equal(w.told[TELL_DIVERGED], 1);
    assert_int_equal(w.told[TELL_END], 0);
    assert_int_equal(w.told[TELL_CHECKPOINT], 0);  // two were due, with the weights of the version before them
    assert_int_equal(w.stored, LOG_END);
    assert_true(w.failed);
    free(w.p);
}

static void test_without_a_limit_the_run_goes_on(void **state) {
    (void)state;
    world w;
    open_alone(&w, 20, 0);
    begin_world(&w, 1, MEMBER_DATA);
    run_to_the_end(&w);
    assert_int_equal(w.told[TELL_ITERATION], 20);
    assert_int_equal(w.told[TELL_DIVERGED], 0);
    assert_int_equal(w.told[TELL_END], 1);
    assert_false(w.failed);
    free(w.p);
}

// One good iteration begins the count again. The checkpoint that was due after the second iteration is written after the third,
// which is the first that changed the weights; the fourth is the last and has no entry.
static void test_a_good_iteration_resets_the_count(void **state) {
    (void)state;
    world w;
    open_alone(&w, 4, 3);
    w.recovers = 2;
    begin_world(&w, 1, MEMBER_DATA);
    run_to_the_end(&w);
    assert_int_equal(w.told[TELL_ITERATION], 4);
    assert_int_equal(w.told[TELL_DIVERGED], 0);
    assert_int_equal(w.told[TELL_CHECKPOINT], 2);
    assert_int_equal(w.records[LOG_CHECKPOINT], 1);
    assert_int_equal(w.checkpoint, 3);
    assert_false(w.failed);
    free(w.p);
}

// The count is in the newest FINAL, which a snapshot keeps: a leader that read no more than that goes on counting from it.
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
        cmocka_unit_test(test_without_a_limit_the_run_goes_on),
        cmocka_unit_test(test_a_good_iteration_resets_the_count),
        cmocka_unit_test(test_a_snapshot_keeps_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
