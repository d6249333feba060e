// A reduction at one member: requests, rounds, and results that outlive a membership.
#include "protocol_world.h"

enum { OWNER = 1, RELAY_A = 2, RELAY_B = 3, SELF = 4 };  // the relays work on the same stage

enum { PARTS = 2 };

// A member of a stage with two others that have contributions each; the iteration is closed. The
// leader assigns the chunks.
static void open_reduction_of(world *w, bool reproducible, uint32_t blocks, member_id adds_up) {
    *w = (world){.run = run_of(2, 2, 1)};
    w->run.reproducible = reproducible;
    w->run.blocks[1] = blocks;
    open_world(w, SELF, MEMBER_RELAY);
    admit(w, OWNER, MEMBER_DATA, 0);
    for (uint32_t i = RELAY_A; i <= SELF; i++) admit(w, i, MEMBER_RELAY, 1);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = OWNER; i <= RELAY_B; i++) deliver(w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
    uint64_t close = append(w, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {3}, .tokens = 2}});
    message begin = {.kind = MESSAGE_BEGIN_AGGREGATION, .u.begin = {.stage = 1, .term = 1, .round = 1, .close_index = close, .tokens = 2, .parts = PARTS, .owners = 1}};
    for (uint32_t i = 0; i < PARTS; i++) begin.u.begin.part[i] = (message_part){.member = RELAY_A + i, .set.words = {1u << i}};
    begin.u.begin.owner[0] = (message_block_owner){.member = adds_up, .first = 0, .count = blocks};
    deliver(w, OWNER, &begin, false);
}

static void open_reduction(world *w, uint32_t blocks, member_id adds_up) { open_reduction_of(w, true, blocks, adds_up); }

static peer_view look(const world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return view;
}

static void pass(world *w, uint64_t ns) {
    w->now += ns;
    step(w, &(event){.kind = EVENT_TICK});
}

// Rule A2. Given a member that does not have a result, when another one has announced it, then that
// one is asked next.
static void test_announcing_member_is_asked_next(void **state) {
    (void)state;
    world w;
    open_reduction(&w, 1, RELAY_B);
    w.last_get_to = 0;
    pass(&w, 300 * MILLISECOND);
    uint32_t other = w.last_get_to == RELAY_A ? RELAY_B : RELAY_A;
    assert_int_not_equal(w.last_get_to, 0);
    uint32_t guessed = w.last_get_to;
    deliver(&w, other, &(message){.kind = MESSAGE_RESULT, .u.result = {.stage = 1, .term = 1, .round = 1, .first = 0, .count = 1}}, false);
    message deny = {.kind = MESSAGE_DENY_GET, .u.deny_get = {.what = GET_RESULT, .stage = 1, .reason = GET_MISSING}};
    deliver(&w, guessed, &deny, false);
    assert_int_equal(w.last_get_to, other);
    free(w.p);
}

static void announce(world *w, uint64_t round, uint32_t segment, uint32_t count) {
    deliver(w, RELAY_A, &(message){.kind = MESSAGE_RESULT, .u.result = {.stage = 1, .term = 1, .round = round, .first = segment * 8, .count = count}}, false);
}

static void give_all(world *w, uint64_t round) {
    for (uint32_t i = 0; i < w->get_count; i++) {
        assert_int_equal(w->get[i].u.get.round, round);
        deliver(w, w->get_to[i], &(message){.kind = MESSAGE_DATA, .u.data.get = w->get[i].u.get}, true);
    }
}

static bool gives(world *w, uint64_t round) {
    const message_get get = {.what = GET_RESULT, .stage = 1, .first = 0, .count = 8, .version = 0, .round = round, .close_index = w->log - 1};
    uint32_t before = w->sent[MESSAGE_DATA];
    deliver(w, RELAY_B, &(message){.kind = MESSAGE_GET, .u.get = get}, false);
    return w->sent[MESSAGE_DATA] > before;
}

// Rule T7. Given a fast run and half of a round, when FINAL names the next round, then all of that
// is fetched, and requests for the older one are refused.
static void test_rounds_do_not_mix_in_fast_mode(void **state) {
    (void)state;
    world w;
    open_reduction_of(&w, false, 17, 2);
    announce(&w, 1, 0, 8);
    assert_int_equal(w.get_count, 1);
    give_all(&w, 1);
    announce(&w, 1, 1, 8);
    message older = {.kind = MESSAGE_DATA, .u.data.get = w.get[1].u.get};
    assert_int_equal(w.get_count, 2);
    log_entry final = {.kind = LOG_FINAL, .u.final = {.close_index = w.log, .stages = 2, .round = {2, 2}, .clip = 1, .learning_rate = 1, .bias1 = 1, .bias2 = 1}};
    append(&w, final);
    w.get_count = 0;
    announce(&w, 2, 1, 8);
    assert_int_equal(w.get_count, 1);
    w.busy = true;
    deliver(&w, RELAY_A, &older, true);
    assert_int_equal(w.work.id, 0);
    w.busy = false;
    pass(&w, 300 * MILLISECOND);
    assert_int_equal(w.get_count, 3);
    give_all(&w, 2);
    pass(&w, MILLISECOND);
    assert_false(gives(&w, 1));
    assert_true(gives(&w, 2));
    free(w.p);
}

// Rule P10. Given parts that are being added, when a second CLOSE leaves microbatches out, then the
// older sum is not used.
static void test_second_close_stops_older_sums(void **state) {
    (void)state;
    world w;
    open_reduction(&w, 9, SELF);
    pass(&w, 300 * MILLISECOND);
    w.busy = true;
    uint32_t asked = w.get_count;
    assert_int_equal(asked, 2 * PARTS);
    for (uint32_t i = 0; i < asked; i++) deliver(&w, w.get_to[i], &(message){.kind = MESSAGE_DATA, .u.data.get = w.get[i].u.get}, true);
    pass(&w, MILLISECOND);
    assert_int_equal(w.work.kind, JOB_REDUCE);
    append(&w, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {1}, .tokens = 1}});
    const job_result done = {.id = w.work.id, .kind = JOB_REDUCE, .cost_ns = MILLISECOND};
    w.work.id = 0;
    step(&w, &(event){.kind = EVENT_JOB_DONE, .result = &done});
    assert_int_equal(w.work.id, 0);
    free(w.p);
}

static uint64_t held_blobs(const world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return view.blobs_held;
}

// Rule T6. Given one of two parts, when FINAL skips the iteration, then parts and requests are
// dropped.
static void test_skipped_final_drops_parts(void **state) {
    (void)state;
    world w;
    open_reduction(&w, 1, SELF);
    pass(&w, 300 * MILLISECOND);
    assert_int_equal(w.get_count, PARTS);
    deliver(&w, w.get_to[0], &(message){.kind = MESSAGE_DATA, .u.data.get = w.get[0].u.get}, true);
    assert_int_equal(held_blobs(&w), 1);
    append(&w, (log_entry){.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 2}});
    assert_int_equal(held_blobs(&w), 0);
    deliver(&w, w.get_to[1], &(message){.kind = MESSAGE_DATA, .u.data.get = w.get[1].u.get}, true);
    assert_int_equal(held_blobs(&w), 0);
    free(w.p);
}

// Rule A3. Given a fast and a silent source, when parts are pulled, then the number of parts in
// memory is bounded.
static void test_parts_of_a_fast_member_do_not_pile_up(void **state) {
    (void)state;
    enum { SEGMENTS = 400, FEW = 160 };
    world w;
    open_reduction(&w, SEGMENTS * 8, 4);
    uint32_t given = 0;
    for (uint32_t step = 0; step < 2 * SEGMENTS; step++) {
        uint32_t asked = w.get_count;
        w.get_count = 0;
        for (uint32_t i = 0; i < asked; i++) {
            if (w.get_to[i] != 2) continue;
            given++;
            deliver(&w, RELAY_A, &(message){.kind = MESSAGE_DATA, .u.data.get = w.get[i].u.get}, true);
        }
        pass(&w, MILLISECOND);
    }
    assert_in_range(given, FEW / 4, FEW);
    assert_in_range(held_blobs(&w), FEW / 4, FEW);
    free(w.p);
}

// All of it has been added up here when the log says that I am gone, and then what was decided;
// `root`: of the results that it is about.
static void be_let_in_behind_final(world *w, bool reproducible, uint8_t root) {
    open_reduction_of(w, reproducible, 1, 4);
    pass(w, 300 * MILLISECOND);
    assert_int_equal(w->get_count, PARTS);
    for (uint32_t i = 0; i < PARTS; i++) deliver(w, w->get_to[i], &(message){.kind = MESSAGE_DATA, .u.data.get = w->get[i].u.get}, true);
    pass(w, MILLISECOND);
    assert_true(look(w).whole && look(w).reaches == 1);
    append(w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = SELF, .reason = EXPEL_DEAD}});
    assert_true(look(w).member == 0 && look(w).leaving.left == 1);
    log_entry final = {.kind = LOG_FINAL, .u.final = {.stages = 2, .round = {1, 1}, .clip = 1, .learning_rate = 1, .bias1 = 1, .bias2 = 1}};
    final.u.final.result_root[1].bytes[0] = root;
    append(w, final);
    w->get_count = 0;
    append(w, (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(SELF), .stage = 1, .kind = MEMBER_RELAY, .capacity = 2, .incarnation = 1}});
    assert_int_equal(look(w).member, w->log);
}

// Rule J7. Given complete results, when this member is removed before FINAL, then it applies them
// without a fetch.
static void test_results_outlive_a_membership(void **state) {
    (void)state;
    for (int reproducible = 0; reproducible < 2; reproducible++) {
        world w;
        be_let_in_behind_final(&w, reproducible, 0);
        assert_true(look(&w).whole && look(&w).reaches == 1 && look(&w).version == 1);
        pass(&w, 2000 * MILLISECOND);
        assert_int_equal(w.get_count, 0);
        free(w.p);
    }
}

static void read_state(world *w, uint64_t after, log_entry entry, uint64_t index) {
    message m = {.kind = MESSAGE_LOG, .u.log = {.previous = after, .reset = after == 0, .entry = entry}};
    m.u.log.entry.index = index;
    m.u.log.entry.term = 1;
    deliver(w, OWNER, &m, false);
}

// Rule J7. Given complete results, when a snapshot replaces the log and closes the iteration in the
// same way, then they are kept.
static void test_results_outlive_a_snapshot(void **state) {
    (void)state;
    world w;
    open_reduction(&w, 1, SELF);
    pass(&w, 300 * MILLISECOND);
    for (uint32_t i = 0; i < PARTS; i++) deliver(&w, w.get_to[i], &(message){.kind = MESSAGE_DATA, .u.data.get = w.get[i].u.get}, true);
    pass(&w, MILLISECOND);
    assert_true(look(&w).whole && look(&w).reaches == 1);
    const uint64_t close = w.log++;
    for (uint64_t i = 1; i <= 4; i++) {
        const log_member m = {.peer = name_of((uint32_t)i), .stage = i > 1, .kind = i > 1 ? MEMBER_RELAY : MEMBER_DATA, .capacity = 2, .incarnation = 1};
        read_state(&w, i - 1, (log_entry){.kind = LOG_MEMBER, .u.member = m}, i);
    }
    read_state(&w, 4, (log_entry){.kind = LOG_OWNER, .u.owner = {.slot = 0, .member = 1}}, 5);
    read_state(&w, 5, (log_entry){.kind = LOG_RUN}, 6);
    read_state(&w, 6, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {3}, .tokens = 2}}, close);
    assert_true(look(&w).member == 0 && look(&w).leaving.left == 1);
    read_state(&w, close, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {1}, .tokens = 1}}, close + 1);
    assert_int_equal(look(&w).leaving.left, 0);  // another CLOSE counts less
    free(w.p);
}

// Rule J7. Given complete results, when FINAL names another root, then they are dropped.
static void test_results_with_another_root_are_dropped(void **state) {
    (void)state;
    world w;
    be_let_in_behind_final(&w, true, 1);
    assert_int_equal(look(&w).version, 0);
    pass(&w, 2000 * MILLISECOND);
    assert_true(w.get_count > 0);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_announcing_member_is_asked_next),
        cmocka_unit_test(test_rounds_do_not_mix_in_fast_mode),
        cmocka_unit_test(test_second_close_stops_older_sums),
        cmocka_unit_test(test_skipped_final_drops_parts),
        cmocka_unit_test(test_parts_of_a_fast_member_do_not_pile_up),
        cmocka_unit_test(test_results_outlive_a_membership),
        cmocka_unit_test(test_results_with_another_root_are_dropped),
        cmocka_unit_test(test_results_outlive_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
