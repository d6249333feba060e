// Tensors on their way to the next member: resends, other receivers, and limits.
#include "protocol_world.h"

// The peers of the tests: a relay between its owner and two members of the next stage; an owner that
// sends, with a relay in each stage; an owner with two possible holders of its microbatch.
enum { OWNER = 1, RELAY = 2, NEXT_A = 3, NEXT_B = 4 };
enum { OTHER_DATA = 1, FIRST = 2, SENDER = 3, LAST = 4 };
enum { COMMITTER = 2, HOLDER_A = 3, HOLDER_B = 4 };

enum { STEP_MS = 10, BEAT_STEPS = 50, FALLS_AT = 10, MOST_STEPS = 10000 };

static void beat(world *w, uint32_t from) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1, .free_slots = from == 1 ? 0 : 2, .reaches = 1}};
    deliver(w, from, &m, false);
}

// A relay between an owner and two relays of the next stage. It has computed a microbatch and sent
// it to the first of them.
static void open_relay(world *w) {
    *w = (world){.run = run_of(3, 1, 1)};
    open_world(w, RELAY, MEMBER_RELAY);
    admit(w, OWNER, MEMBER_DATA, 0);
    admit(w, RELAY, MEMBER_RELAY, 1);
    for (uint32_t i = NEXT_A; i <= NEXT_B; i++) admit(w, i, MEMBER_RELAY, 2);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 1; i <= 4; i++)
        if (i != 2) beat(w, i);
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, 0, 1), .owner = OWNER, .forward_to = 3, .path = {.stages = 3, .member = {OWNER}}}};
    deliver(w, OWNER, &forward, true);
    assert_int_equal(w->sent[MESSAGE_FORWARD], 1);
}

static uint32_t other_next(uint32_t next) { return NEXT_A + NEXT_B - next; }

static void resume(world *w, member_id next) {
    message m = {.kind = MESSAGE_RESUME, .u.resume = {.subject = subject_of(w, 0, 1), .owner = OWNER, .phase = PHASE_FORWARD, .until = 3, .path = {.stages = 3, .member = {OWNER, RELAY, next}}}};
    deliver(w, OWNER, &m, false);
}

// Rule R1. Given an activation under way, when the owner sends RESUME, then it is not sent a second
// time.
static void test_tensor_under_way_is_not_resent(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    resume(&w, 0);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    resume(&w, NEXT_B);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    free(w.p);
}

// Number of sends of a microbatch after a time in which all peers send heartbeats, and none accepts
// or completes it.
static uint32_t sent_after(world *w, uint32_t ms) {
    for (uint32_t i = 0; i < ms / STEP_MS; i++) {
        w->now += STEP_MS * MILLISECOND;
        for (uint32_t from = 1; i % BEAT_STEPS == 0 && from <= 4; from++)
            if (from != w->self) beat(w, from);
        step(w, &(event){.kind = EVENT_TICK});
    }
    return w->sent[MESSAGE_FORWARD];
}

enum { GUARDED_MS = 4000 };

// The gradient from the next stage, which proves that its sender has computed. `of_it`: it comes
// from the receiver of the activation.
static uint32_t sent_after_gradient(bool of_it) {
    world w;
    open_relay(&w);
    uint32_t to = w.last_receiver[MESSAGE_FORWARD];
    message backward = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 1), .owner = OWNER, .path = {.stages = 3, .member = {OWNER, RELAY, to}}}};
    deliver(&w, of_it ? to : other_next(to), &backward, true);
    uint32_t sent = sent_after(&w, GUARDED_MS);
    free(w.p);
    return sent;
}

// Rule M2. Given an unanswered activation, when its gradient arrives from the receiver, then it is
// not resent.
static void test_gradient_proves_the_arrival_of_the_activation(void **state) {
    (void)state;
    assert_int_equal(sent_after_gradient(true), 1);
    assert_in_range(sent_after_gradient(false), 2, 9);
}

static void deny(world *w, uint32_t by, uint16_t stage, uint8_t reason) {
    message m = {.kind = MESSAGE_DENY, .u.deny = {.subject = subject_of(w, 0, stage), .phase = PHASE_FORWARD, .reason = reason}};
    deliver(w, by, &m, false);
}

// Rule R11. Given two members that refused with an old log, when they announce slots, then they are
// asked again.
static void test_refusing_members_are_asked_again(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    for (uint32_t i = 0; i < 2; i++) deny(&w, w.last_receiver[MESSAGE_FORWARD], 2, DENY_VERSION);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    for (uint32_t i = 0; i < 30; i++) {
        message room = {.kind = MESSAGE_CAN_TAKE, .u.can_take = {.stage = 2, .free_slots = 2}};
        w.now += 100 * MILLISECOND;
        deliver(&w, NEXT_A + i % 2, &room, false);
    }
    assert_in_range(w.sent[MESSAGE_FORWARD], 3, 9);
    free(w.p);
}

// Rule R11. Given a member that refuses always, when many messages arrive, then the number of
// attempts is limited.
static void test_refusing_member_is_not_asked_at_every_step(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    uint32_t steps = 0;
    for (uint64_t until = w.now + 20000 * MILLISECOND; w.now < until; steps++) {
        for (uint32_t sent = 0; sent != w.sent[MESSAGE_FORWARD];) {
            sent = w.sent[MESSAGE_FORWARD];
            deny(&w, w.last_receiver[MESSAGE_FORWARD], 2, DENY_VERSION);
        }
        if (peer_deadline(w.p) > w.now) w.now = peer_deadline(w.p);
        for (uint32_t from = 1; from <= 4; from++)
            if (from != w.self) beat(&w, from);
        step(&w, &(event){.kind = EVENT_TICK});
    }
    assert_in_range(steps, 20, 400);
    free(w.p);
}

static void open_owner(world *w) {
    *w = (world){.run = run_of(3, 1, 1)};
    open_world(w, SENDER, MEMBER_DATA);
    admit(w, OTHER_DATA, MEMBER_DATA, 0);
    admit(w, FIRST, MEMBER_RELAY, 1);
    admit(w, SENDER, MEMBER_DATA, 0);
    admit(w, LAST, MEMBER_RELAY, 2);
    own(w, 0, SENDER);
    append(w, (log_entry){.kind = LOG_RUN});
    beat(w, OTHER_DATA);
    beat(w, LAST);
    beat(w, FIRST);
}

// Rule R8. Given a receiver that evicts an accepted microbatch, when EVICTED and DENY arrive, then the
// sender resends at once.
static void test_evicted_microbatch_is_resent_at_once(void **state) {
    (void)state;
    world w;
    open_owner(&w);
    message accept = {.kind = MESSAGE_ACCEPT, .u.accept = {.subject = subject_of(&w, 0, 1), .phase = PHASE_FORWARD, .eta_ns = 10000 * MILLISECOND}};
    deliver(&w, FIRST, &accept, false);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    deliver(&w, FIRST, &(message){.kind = MESSAGE_EVICTED, .u.evicted.subject = subject_of(&w, 0, 1)}, false);
    deny(&w, FIRST, 1, DENY_FULL);
    assert_int_equal(sent_after(&w, STEP_MS), 2);
    free(w.p);
}

static void trace(world *w, uint32_t from, uint8_t phase) {
    message m = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(w, 0, from == FIRST ? 1 : 2), .phase = phase, .eta_ns = 1000 * MILLISECOND}};
    deliver(w, from, &m, false);
}

static uint32_t sent_after_trace(uint32_t from, uint8_t phase) {
    world w;
    open_owner(&w);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    trace(&w, FIRST, TRACE_ACCEPTED);
    trace(&w, from, phase);
    uint32_t sent = sent_after(&w, GUARDED_MS);
    free(w.p);
    return sent;
}

// Rule M2. Given an owner with an unanswered activation, when TRACE of the first stage arrives,
// then it is not resent.
static void test_trace_proves_the_arrival_of_the_activation(void **state) {
    (void)state;
    assert_int_equal(sent_after_trace(FIRST, TRACE_FORWARD_DONE), 1);
    assert_int_equal(sent_after_trace(FIRST, TRACE_BACKWARD_DONE), 1);
    assert_in_range(sent_after_trace(FIRST, TRACE_ACCEPTED), 2, 9);
    assert_in_range(sent_after_trace(LAST, TRACE_FORWARD_DONE), 2, 9);
}

// An owner's activation that no member accepts. Returns the time from the second to the third send.
static uint64_t time_of_the_second(bool falls) {
    world w;
    uint64_t sent_ns[4] = {0};
    open_owner(&w);
    for (uint32_t i = 0; sent_ns[3] == 0; i++) {
        uint32_t count = w.sent[MESSAGE_FORWARD];
        if (count < 4 && sent_ns[count] == 0) sent_ns[count] = w.now;
        if (falls && i == FALLS_AT) {
            step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(FIRST)});
            step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(FIRST)});
        }
        w.now += STEP_MS * MILLISECOND;
        if (i % BEAT_STEPS == 0) {
            beat(&w, OTHER_DATA);
            beat(&w, FIRST);
            beat(&w, LAST);
        }
        step(&w, &(event){.kind = EVENT_TICK});
        assert_true(i < MOST_STEPS);
    }
    free(w.p);
    return sent_ns[3] - sent_ns[2];
}

// Rule D9. Given a copy that was lost with its link, when the tensor is resent, then neither the
// queue nor the rate counts that copy.
static void test_copy_on_a_lost_link_is_not_waited_for(void **state) {
    (void)state;
    uint64_t stands = time_of_the_second(false), falls = time_of_the_second(true);
    print_message("sent again after %.2f s, %.2f s where the link fell\n", (double)stands / 1e9, (double)falls / 1e9);
    assert_in_range(stands, 10000 * MILLISECOND, 15000 * MILLISECOND);
    assert_in_range(falls, 2000 * MILLISECOND, 2500 * MILLISECOND);
}

static void fall_and_rise(world *w, uint32_t number) {
    step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(number)});
    step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(number)});
}

// Rule D9. Given an unaccepted tensor on a lost link, when the link is up again, then it is resent
// once.
static void test_unaccepted_tensor_is_resent_after_reconnect(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    uint32_t to = w.last_receiver[MESSAGE_FORWARD];
    fall_and_rise(&w, other_next(to));
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    fall_and_rise(&w, to);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], to);
    step(&w, &(event){.kind = EVENT_TICK});
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    message accept = {.kind = MESSAGE_ACCEPT, .u.accept = {.subject = subject_of(&w, 0, 1), .phase = PHASE_FORWARD, .eta_ns = 1000 * MILLISECOND}};
    accept.u.accept.subject.stage = 2;
    deliver(&w, to, &accept, false);
    fall_and_rise(&w, to);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    free(w.p);
}

static void say_where(world *w, uint32_t leader, const char *address) {
    message m = {.kind = MESSAGE_LEADER, .u.leader = {.term = 2, .id = name_of(leader)}};
    snprintf(m.u.leader.address, WIRE_MAX_ADDRESS, "%s", address);
    deliver(w, OWNER, &m, false);
}

static void wait_for_dial(world *w, uint32_t to, const char *address) {
    for (uint32_t i = 0; i < 50 && strcmp(w->last_address[to], address) != 0; i++) {
        w->now += STEP_MS * MILLISECOND;
        step(w, &(event){.kind = EVENT_TICK});
    }
    assert_string_equal(w->last_address[to], address);
}

// Rule V21. Given a receiver that has moved, when its old port refuses, then the tensor is not
// given to another member.
static void test_refusal_at_an_old_address_is_none(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    uint32_t to = w.last_receiver[MESSAGE_FORWARD];
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(to)});
    say_where(&w, to, "old:1");
    wait_for_dial(&w, to, "old:1");
    say_where(&w, to, "new:1");
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(to), .refused = true});
    wait_for_dial(&w, to, "new:1");
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(to), .refused = true});
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], other_next(to));
    free(w.p);
}

// A relay with a COMMIT. Its refusal comes over the link of another relay, or of an unknown peer.
static uint32_t repairs_after_a_refusal(bool its_own, bool member) {
    enum { UNKNOWN = 9 };
    world w = {.run = run_of(2, 1, 1)};
    open_world(&w, COMMITTER, MEMBER_DATA);
    for (uint32_t i = OTHER_DATA; i <= COMMITTER; i++) admit(&w, i, MEMBER_DATA, 0);
    for (uint32_t i = HOLDER_A; i <= HOLDER_B; i++) admit(&w, i, MEMBER_RELAY, 1);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(UNKNOWN)});
    own(&w, 0, COMMITTER);
    append(&w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    beat(&w, HOLDER_A);
    beat(&w, HOLDER_B);
    uint32_t holder = w.last_receiver[MESSAGE_FORWARD];
    const message_path path = {.stages = 2, .member = {2, holder}};
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 0), .owner = COMMITTER, .forward_to = 2, .home = true, .path = path}};
    deliver(&w, holder, &home, true);
    message back = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 0), .owner = COMMITTER, .path = path}};
    deliver(&w, holder, &back, true);
    assert_int_equal(w.last_receiver[MESSAGE_COMMIT], holder);
    message deny = {.kind = MESSAGE_DENY_COMMIT, .sender = holder, .log_position = w.log, .u.deny_commit = {.subject = subject_of(&w, 0, 1), .reason = COMMIT_MISSING, .rev = 1}};
    step(&w, &(event){.kind = EVENT_MESSAGE, .id = name_of(its_own ? holder : member ? HOLDER_A + HOLDER_B - holder : UNKNOWN), .msg = &deny});
    for (uint32_t i = 0; i < 10; i++) {
        beat(&w, HOLDER_A);
        beat(&w, HOLDER_B);
        tick(&w);
    }
    free(w.p);
    return w.notifications[TELL_REPAIR];
}

// Rule R12. Given a committed relay, when another member or an unknown peer denies the COMMIT for
// it, then the relay is not replaced.
static void test_refusal_on_behalf_of_another_member_is_ignored(void **state) {
    (void)state;
    assert_int_equal(repairs_after_a_refusal(true, true), 1);
    assert_int_equal(repairs_after_a_refusal(false, true), 0);
    assert_int_equal(repairs_after_a_refusal(false, false), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_under_way_is_not_resent),
        cmocka_unit_test(test_gradient_proves_the_arrival_of_the_activation),
        cmocka_unit_test(test_refusing_members_are_asked_again),
        cmocka_unit_test(test_refusing_member_is_not_asked_at_every_step),
        cmocka_unit_test(test_evicted_microbatch_is_resent_at_once),
        cmocka_unit_test(test_trace_proves_the_arrival_of_the_activation),
        cmocka_unit_test(test_copy_on_a_lost_link_is_not_waited_for),
        cmocka_unit_test(test_unaccepted_tensor_is_resent_after_reconnect),
        cmocka_unit_test(test_refusal_at_an_old_address_is_none),
        cmocka_unit_test(test_refusal_on_behalf_of_another_member_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
