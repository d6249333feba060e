// A run that goes back, at one peer: what it is told.
#include "peer_world.h"

static void open_relay(world *w) {
    w->run = run_of(2, 2, 1);
    open_world(w, 2, MEMBER_RELAY);
    admit(w, 1, MEMBER_DATA, 0);
    admit(w, 2, MEMBER_RELAY, 1);
    own(w, 0, 1);
}

static void run_begins(world *w, uint64_t generation) { append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = generation, .lost = 1}}); }

// Who joins afterwards finds a run that has begun; how often is no news to him.
static void test_who_joins_afterwards_is_told_that_it_runs(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    run_begins(&w, 2);
    assert_int_equal(w.told[TELL_STARTED], 1);
    free(w.p);
}

static void test_who_was_there_is_told_that_it_goes_back(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    run_begins(&w, 1);
    assert_int_equal(w.told[TELL_STARTED], 1);
    run_begins(&w, 2);
    assert_int_equal(w.told[TELL_STARTED], 1);
    assert_int_equal(w.told[TELL_ROLLED_BACK], 1);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_joins_afterwards_is_told_that_it_runs),
        cmocka_unit_test(test_who_was_there_is_told_that_it_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
