// Repair and failover at the owner: probes, replacements, and the members that keep their
// microbatches.
#include "protocol_world.h"

static void beat(world *w, uint32_t from, bool ready) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = ready, .can_take = ready, .free_slots = ready ? 2 : 0}};
    deliver(w, from, &m, false);
}

enum { OWNER = 2, HOLDER = 3, SECOND = 6, NEXT = 7 };
// The peers of a failover: three data peers, the relay of the first stage and two of the last one.
enum { OTHER_DATA = 1, OLD_OWNER = 2, NEW_OWNER = 3, FIRST_RELAY = 4, LAST_A = 5, LAST_B = 6 };

// Time passes, with heartbeats from the members in the log.
static void pass(world *w, uint32_t ms, uint32_t relay, bool ready) {
    for (uint32_t i = 0; i < ms / 100; i++) {
        if (i % 5 == 0) beat(w, 1, true);
        if (i % 5 == 0 && relay != 0) beat(w, relay, ready);
        tick(w);
    }
}

// The only relay of a stage has a COMMIT and is removed. Later another relay joins, gets the state,
// and reports it by CAN TAKE or by a heartbeat.
static void replacement_joins(bool by_heartbeat) {
    world w = {.run = run_of(2, 1, 1)};
    open_world(&w, OWNER, MEMBER_DATA);
    for (uint32_t i = 1; i <= 2; i++) admit(&w, i, MEMBER_DATA, 0);
    admit(&w, HOLDER, MEMBER_RELAY, 1);
    own(&w, 0, OWNER);
    append(&w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    beat(&w, 1, true);
    beat(&w, HOLDER, true);
    const message_path path = {.stages = 2, .member = {OWNER, HOLDER}};
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 0), .owner = OWNER, .forward_to = 2, .home = true, .path = path}};
    deliver(&w, HOLDER, &home, true);
    message back = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 0), .owner = OWNER, .path = path}};
    deliver(&w, HOLDER, &back, true);
    assert_int_equal(w.last_receiver[MESSAGE_COMMIT], HOLDER);
    append(&w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = HOLDER}});
    pass(&w, 60000, 0, false);
    admit(&w, NEXT, MEMBER_RELAY, 1);
    pass(&w, 63000, NEXT, false);
    const uint32_t sent = w.sent[MESSAGE_FORWARD];
    const uint64_t since = w.now;
    message can_take = {.kind = MESSAGE_CAN_TAKE, .u.can_take = {.stage = 1, .free_slots = 2}};
    if (!by_heartbeat) deliver(&w, NEXT, &can_take, false);
    while (w.sent[MESSAGE_FORWARD] == sent) pass(&w, 500, NEXT, true);
    print_message("asked after %.1f s\n", (double)(w.now - since) / 1e9);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], NEXT);
    assert_in_range(w.now - since, 0, 500 * MILLISECOND);
    free(w.p);
}

// Repair. Given a removed committed holder without replacement, when a joiner reports state by CAN
// TAKE or heartbeat, then it is asked at once.
static void test_joiner_with_state_becomes_replacement_at_once(void **state) {
    (void)state;
    replacement_joins(true);
    replacement_joins(false);
}

// The new owner of a microbatch. LAST_A may be dead.
static void inherit(world *w, bool both_live) {
    *w = (world){.run = run_of(3, 1, 1)};
    open_world(w, NEW_OWNER, MEMBER_DATA);
    for (uint32_t i = OTHER_DATA; i <= NEW_OWNER; i++) admit(w, i, MEMBER_DATA, 0);
    admit(w, FIRST_RELAY, MEMBER_RELAY, 1);
    for (uint32_t i = LAST_A; i <= LAST_B; i++) admit(w, i, MEMBER_RELAY, 2);
    own(w, 0, OLD_OWNER);
    append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    for (uint32_t i = OTHER_DATA; i <= LAST_B; i++)
        if (i != NEW_OWNER) beat(w, i, true);
    append(w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = OLD_OWNER}});
    if (!both_live) append(w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = LAST_A}});
    own(w, 0, NEW_OWNER);
}

// Rule M3. Given a gradient at the new owner and a last stage without it, when that stage is
// repaired, then COMMIT waits until it has computed.
static void test_new_owner_commits_only_members_that_computed(void **state) {
    (void)state;
    world w;
    inherit(&w, false);
    const message_set it = {.words = {1}};
    message holdings = {.kind = MESSAGE_HOLDINGS, .u.holdings = {.owner_term = w.owner_term[0]}};
    deliver(&w, OTHER_DATA, &holdings, false);
    deliver(&w, LAST_B, &holdings, false);
    holdings.u.holdings = (message_holdings){.owner_term = w.owner_term[0], .held = it, .forward = it, .returning = it, .backward = it};
    deliver(&w, FIRST_RELAY, &holdings, false);
    assert_true(w.probed[FIRST_RELAY]);
    message status = {.kind = MESSAGE_STATUS, .u.status = {.subject = subject_of(&w, 0, 1), .nonce = w.probe[FIRST_RELAY].u.probe.nonce, .has_y = true, .has_dx = true, .forward_done = true, .backward_done = true}};
    deliver(&w, FIRST_RELAY, &status, false);
    assert_int_equal(w.sent[MESSAGE_RESUME], 2);  // the activation continues from there, and the gradient reaches the owner
    message trace = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(&w, 0, 2), .phase = TRACE_FORWARD_DONE}};
    deliver(&w, LAST_B, &trace, false);
    const message_path path = {.stages = 3, .member = {NEW_OWNER, FIRST_RELAY, LAST_B}};
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 0), .owner = NEW_OWNER, .forward_to = 3, .home = true, .path = path}};
    deliver(&w, LAST_B, &home, true);
    assert_int_equal(w.last_receiver[MESSAGE_BACKWARD], LAST_B);
    message back = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 0), .owner = NEW_OWNER, .path = path}};
    deliver(&w, FIRST_RELAY, &back, true);
    assert_int_equal(w.last_receiver[MESSAGE_COMMIT], FIRST_RELAY);
    trace.u.trace.phase = TRACE_BACKWARD_DONE;
    deliver(&w, LAST_B, &trace, false);
    assert_int_equal(w.last_receiver[MESSAGE_COMMIT], LAST_B);
    free(w.p);
}

// Rule O3. Given two holders of a stage, when the older one has computed it, then the new owner
// keeps that one.
static void test_new_owner_keeps_the_member_that_computed(void **state) {
    (void)state;
    world w;
    inherit(&w, true);
    const message_set it = {.words = {1}};
    message holdings = {.kind = MESSAGE_HOLDINGS, .u.holdings = {.owner_term = w.owner_term[0]}};
    deliver(&w, OTHER_DATA, &holdings, false);
    holdings.u.holdings = (message_holdings){.owner_term = w.owner_term[0], .held = it, .forward = it};
    deliver(&w, LAST_A, &holdings, false);
    holdings.u.holdings = (message_holdings){.owner_term = w.owner_term[0], .held = it, .returning = it};
    deliver(&w, LAST_B, &holdings, false);
    assert_int_equal(w.last_receiver[MESSAGE_CANCEL], LAST_B);
    free(w.p);
}

// Rule O3. Given two copies in a stage, when only one holder has answered the SURVEY, then the
// other one is not cancelled.
static void test_new_owner_waits_for_all_holdings(void **state) {
    (void)state;
    world w;
    inherit(&w, true);
    const message_set it = {.words = {1}};
    message holdings = {.kind = MESSAGE_HOLDINGS, .u.holdings = {.owner_term = w.owner_term[0], .held = it}};
    deliver(&w, LAST_B, &holdings, false);
    message trace = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(&w, 0, 2), .phase = TRACE_BACKWARD_DONE}};
    deliver(&w, LAST_A, &trace, false);
    assert_int_equal(w.sent[MESSAGE_CANCEL], 0);
    holdings.u.holdings = (message_holdings){.owner_term = w.owner_term[0], .held = it, .forward = it, .returning = it, .backward = it};
    deliver(&w, LAST_A, &holdings, false);
    assert_int_equal(w.last_receiver[MESSAGE_CANCEL], LAST_B);
    free(w.p);
}

// The owner of a microbatch that its only relay has returned.
static void open_home(world *w) {
    *w = (world){.run = run_of(2, 1, 1)};
    open_world(w, OWNER, MEMBER_DATA);
    for (uint32_t i = 1; i <= 2; i++) admit(w, i, MEMBER_DATA, 0);
    admit(w, HOLDER, MEMBER_RELAY, 1);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    beat(w, 1, true);
    beat(w, HOLDER, true);
    message complete = {.kind = MESSAGE_COMPLETE, .u.complete = {.subject = subject_of(w, 0, 1), .phase = PHASE_FORWARD}};
    deliver(w, HOLDER, &complete, false);
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, 0, 0), .owner = OWNER, .forward_to = 2, .home = true, .path = {.stages = 2, .member = {OWNER, HOLDER}}}};
    deliver(w, HOLDER, &home, true);
    assert_int_equal(w->sent[MESSAGE_BACKWARD], 1);
}

// Its holder, when it is asked, waits for the gradient.
static void waits_for_it(world *w) {
    message status = {.kind = MESSAGE_STATUS, .u.status = {.subject = subject_of(w, 0, 1), .nonce = w->probe[HOLDER].u.probe.nonce, .has_y = true, .forward_done = true}};
    if (w->probed[HOLDER]) deliver(w, HOLDER, &status, false);
    w->probed[HOLDER] = false;
}

// Rule D8. Given a slow link, when the holder reports that it waits for the gradient, then no
// second copy is sent.
static void test_gradient_under_way_is_not_resent(void **state) {
    (void)state;
    world w;
    open_home(&w);
    const uint64_t since = w.now;
    while (w.sent[MESSAGE_BACKWARD] < 2) {
        pass(&w, 500, HOLDER, true);
        waits_for_it(&w);
    }
    print_message("sent again after %.1f s\n", (double)(w.now - since) / 1e9);
    assert_in_range(w.now - since, 100000 * MILLISECOND, 300000 * MILLISECOND);
    free(w.p);
}

// The link is up and silent for this time. Then it falls, without a refusal or a removal. Returns
// how long after that another member is asked.
static uint64_t time_after_a_fall(uint32_t stands_ms) {
    world w;
    open_home(&w);
    admit(&w, SECOND, MEMBER_RELAY, 1);
    for (uint32_t passed = 0; passed < stands_ms; passed += 500) {
        pass(&w, 500, SECOND, true);
        beat(&w, HOLDER, true);
        waits_for_it(&w);
    }
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(HOLDER)});
    const uint64_t since = w.now;
    while (w.sent[MESSAGE_FORWARD] < 2) pass(&w, 500, SECOND, true);
    uint64_t took = w.now - since;
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], SECOND);
    free(w.p);
    return took;
}

// Rule D8. Given a link that was trusted for long, when it falls, then another member is asked
// about a second later.
static void test_lost_link_ends_the_trust_in_a_gradient(void **state) {
    (void)state;
    for (uint32_t stands_ms = 1500; stands_ms < 60000; stands_ms *= 2) {
        uint64_t took = time_after_a_fall(stands_ms);
        print_message("stood for %.1f s: asked %.1f s after it fell\n", stands_ms / 1e3, (double)took / 1e9);
        assert_in_range(took, 0, 2000 * MILLISECOND);
    }
}

// Rule R7. Given a counted relay and a busy owner, when the probe time passes, then no member is
// probed.
static void test_no_probe_when_only_the_owner_has_work_left(void **state) {
    (void)state;
    world w;
    open_home(&w);
    w.busy = true;
    message done = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(&w, 0, 1), .phase = TRACE_BACKWARD_DONE}};
    deliver(&w, HOLDER, &done, false);
    assert_int_equal(w.sent[MESSAGE_COMMIT], 1);
    message counted = {.kind = MESSAGE_COUNTED, .u.counted = {.subject = subject_of(&w, 0, 1), .rev = 1}};
    deliver(&w, HOLDER, &counted, false);
    message back = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 0), .owner = OWNER, .path = {.stages = 2, .member = {OWNER, HOLDER}}}};
    deliver(&w, HOLDER, &back, true);
    assert_int_equal(w.work.kind, JOB_BACKWARD);
    pass(&w, 60000, HOLDER, true);
    assert_int_equal(w.sent[MESSAGE_PROBE], 0);
    admit(&w, 6, MEMBER_RELAY, 1);  // the removal of a member that counted it still causes a replacement at once
    beat(&w, 6, true);
    append(&w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = HOLDER}});
    pass(&w, 500, 6, true);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], 6);
    free(w.p);
}

// Rule R3. Given five silent candidates and one that is heard, when a gap is filled, then the
// latter is chosen.
static void test_replacement_was_heard_recently(void **state) {
    (void)state;
    enum { FIRST = 6, HEARD = 11 };
    world w;
    open_home(&w);
    for (uint32_t i = FIRST; i <= HEARD; i++) admit(&w, i, MEMBER_RELAY, 1);
    for (uint32_t i = FIRST; i <= HEARD; i++) beat(&w, i, true);
    for (uint32_t i = 0; i < 6; i++) {
        pass(&w, 500, HEARD, true);
        beat(&w, HOLDER, true);
    }
    append(&w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = HOLDER}});
    pass(&w, 100, HEARD, true);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], HEARD);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_under_way_is_not_resent),
        cmocka_unit_test(test_lost_link_ends_the_trust_in_a_gradient),
        cmocka_unit_test(test_no_probe_when_only_the_owner_has_work_left),
        cmocka_unit_test(test_replacement_was_heard_recently),
        cmocka_unit_test(test_joiner_with_state_becomes_replacement_at_once),
        cmocka_unit_test(test_new_owner_commits_only_members_that_computed),
        cmocka_unit_test(test_new_owner_keeps_the_member_that_computed),
        cmocka_unit_test(test_new_owner_waits_for_all_holdings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
