// State transfer: the sources that a joiner asks, rate limits, and late chunks.
#include "protocol_world.h"

// The peers of the tests: the leader, sources and the joiner; in the test of the rate limit the relay
// under test, its two next members and a joiner of its stage.
enum { LEADER = 1, SOURCE = 2, HOLDER = 2, SILENT_RELAY = 2, READER = 2, LATE_HOLDER = 4, JOINER = 6 };
enum { RELAY = 2, NEXT_A = 3, BESIDE = 4, NEXT_B = 5 };

static void answer_job(world *w) {
    const job_result r = {.id = w->work.id, .kind = w->work.kind, .version = w->work.version, .hash64 = UINT64_MAX};
    w->work.id = 0;
    w->now += MILLISECOND;
    step(w, &(event){.kind = EVENT_JOB_DONE, .result = &r});
}

// Rule J3. Given a cached chunk under examination and requested too, when FINAL advances it, then
// the requested older bytes do not replace it.
static void test_advanced_chunk_is_not_replaced_by_an_older_one(void **state) {
    (void)state;
    world w = {.self = 0, .has_checkpoint = true};
    w.run = run_of(2, 2, 1);
    w.run.iterations = 100;
    w.run.blocks[1] = 9;
    open_world(&w, JOINER, MEMBER_RELAY);
    admit(&w, LEADER, MEMBER_DATA, 0);
    admit(&w, SOURCE, MEMBER_RELAY, 1);
    own(&w, 0, LEADER);
    append(&w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    append(&w, (log_entry){.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 2}});
    admit(&w, JOINER, MEMBER_RELAY, 1);
    beat_at(&w, SOURCE, 2);
    deliver(&w, LEADER, &(message){.kind = MESSAGE_STATE, .iteration = 1, .u.state = {.stage = 1, .version = 1}}, false);
    while (w.get_count == 0) tick(&w);
    assert_int_equal(w.get[0].u.get.what, GET_NAMES);
    w.busy = true;
    deliver(&w, SOURCE, &(message){.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = w.get[0].u.get}, true);
    while (w.work.kind != JOB_STATE_KEEP || w.work.first == 0) answer_job(&w);
    tick(&w);
    const message_get last = w.get[w.get_count - 1].u.get;
    assert_int_equal(last.what, GET_STATE);
    assert_int_equal(last.first, 8);
    append(&w, (log_entry){.kind = LOG_FINAL, .u.final = {.iteration = 1, .skip = true, .stages = 2}});
    deliver(&w, SOURCE, &(message){.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = last}, true);
    answer_job(&w);
    assert_int_equal(w.work.kind, JOB_APPLY);
    for (peer_view view = {.ready = false}; !view.ready; peer_look(w.p, &view)) answer_job(&w);
    assert_int_not_equal(w.work.kind, JOB_STATE_PUT);
    free(w.p);
}

// A joiner: relay `self` of stage 1. The run has `count` members, listed in `members`; the first
// one is the leader.
static void open_joiner(world *w, const member_kind *members, uint32_t count, uint64_t start_version, uint32_t self) {
    *w = (world){.run = run_of(2, 2, 1)};
    w->run.start_version = start_version;
    w->run.iterations = 100;
    open_world(w, self, MEMBER_RELAY);
    for (uint32_t i = 0; i < count; i++) admit(w, i + 1, members[i], members[i] == MEMBER_RELAY);
    own(w, 0, LEADER);
    append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1, .start_version = start_version}});
    if (self > count) admit(w, self, MEMBER_RELAY, 1);
}

// Rule G8. Given a run that continues from a checkpoint on the second peer, when a joiner fetches,
// then it asks that peer and not the leader.
static void test_holder_of_the_initial_checkpoint_is_asked(void **state) {
    (void)state;
    world w;
    const member_kind members[] = {MEMBER_DATA, MEMBER_DATA};
    open_joiner(&w, members, 2, 5, 5);
    for (uint32_t i = 0; w.last_get_to != HOLDER; i++) {
        assert_true(i < 100);
        beat_at(&w, LEADER, 0);
        deliver(&w, HOLDER, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 6, .reaches = 6, .saved = 6}}, false);
        deliver(&w, LEADER, &(message){.kind = MESSAGE_DENY_GET, .u.deny_get = {.what = GET_NAMES, .stage = 1, .reason = GET_MISSING}}, false);
        tick(&w);
    }
    free(w.p);
}

// Rule J4. Given a relay and a data peer that claim the checkpoint and send nothing, when requests
// time out, then the real holder is asked and its hashes are used.
static void test_unhelpful_source_is_not_asked_forever(void **state) {
    (void)state;
    world w;
    const member_kind members[] = {MEMBER_DATA, MEMBER_RELAY, MEMBER_DATA, MEMBER_DATA};
    open_joiner(&w, members, 4, 5, 7);
    uint32_t asked[5] = {0};
    for (uint32_t i = 0; i < 300 && w.last_get_to != LATE_HOLDER; i++) {
        w.get_count = 0;
        beat_at(&w, LEADER, 0);
        for (uint32_t says = SILENT_RELAY; says <= LATE_HOLDER; says++) deliver(&w, says, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.saved = 6}}, false);
        tick(&w);
        for (uint32_t k = 0; k < w.get_count; k++) asked[w.get_to[k]]++;
        if (w.get_count == 0 || w.last_get_to == LATE_HOLDER) continue;
        message deny = {.kind = MESSAGE_DENY_GET, .u.deny_get = {.what = GET_NAMES, .stage = 1, .reason = GET_MISSING}};
        deliver(&w, w.last_get_to, &deny, false);
    }
    assert_int_equal(asked[SILENT_RELAY], 0);
    assert_int_equal(w.last_get_to, LATE_HOLDER);
    deliver(&w, LATE_HOLDER, &(message){.kind = MESSAGE_DATA, .iteration = 5, .u.data.get = w.get[w.get_count - 1].u.get}, true);
    tick(&w);
    assert_int_equal(w.get[w.get_count - 1].u.get.what, GET_STATE);
    free(w.p);
}

// Rule J9. Given a peer with much unread data on its link, when it sends more GETs, then it is told
// to ask later.
static void test_slow_reader_gets_backpressure(void **state) {
    (void)state;
    world w;
    const member_kind members[] = {MEMBER_DATA, MEMBER_RELAY, MEMBER_RELAY};
    open_joiner(&w, members, 3, 0, 3);
    for (uint32_t clogged = 0; clogged < 2; clogged++) {
        const uint32_t served = w.sent[MESSAGE_DATA], denied = w.sent[MESSAGE_DENY_GET];
        w.waiting_bytes = clogged ? (uint64_t)1 << 30 : 0;
        deliver(&w, READER, &(message){.kind = MESSAGE_GET, .u.get = {.what = GET_STATE, .stage = 1, .count = 1}}, false);
        tick(&w);
        assert_int_equal(w.sent[MESSAGE_DATA] - served, !clogged);
        assert_int_equal(w.sent[MESSAGE_DENY_GET] - denied, clogged);
    }
    w.waiting_bytes = 0;
    w.busy = true;  // or it asks for all at once
    const uint32_t denied = w.sent[MESSAGE_DENY_GET];
    for (uint32_t i = 0; i < 100; i++) deliver(&w, READER, &(message){.kind = MESSAGE_GET, .u.get = {.what = GET_STATE, .stage = 1, .count = 1}}, false);
    assert_in_range(w.sent[MESSAGE_DENY_GET] - denied, 30, 40);
    free(w.p);
}

static void forward(world *w, uint32_t m) {
    message out = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, m, 1), .owner = LEADER, .forward_to = 3, .path = {.stages = 3, .member = {LEADER}}}};
    deliver_bytes(w, LEADER, &out, w->run.activation_bytes);
}

// Whether the joiner beside this relay gets its state at this moment.
static bool is_served(world *w) {
    const uint32_t served = w->sent[MESSAGE_DATA], denied = w->sent[MESSAGE_DENY_GET];
    deliver(w, BESIDE, &(message){.kind = MESSAGE_GET, .u.get = {.what = GET_STATE, .stage = 1, .count = 1}}, false);
    assert_int_equal(w->sent[MESSAGE_DATA] - served + w->sent[MESSAGE_DENY_GET] - denied, 1);
    return w->sent[MESSAGE_DATA] > served;
}

static void beat_room(world *w, uint32_t from, uint16_t free_slots) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = from != BESIDE, .can_take = 1, .free_slots = free_slots, .reaches = 1}};
    deliver(w, from, &m, false);
}

// Rule J8. Given a link that accepted no tensor for a minute, when a tensor passes in 10 ms, then
// the joiner is served at the new rate.
static void test_rate_limit_recovers_after_a_silent_link(void **state) {
    (void)state;
    world w = {.upload_percent = 25, .run = run_of(3, 2, 1)};
    w.run.activation_bytes = w.run.state_bytes[1] = 1 << 20;
    open_world(&w, RELAY, MEMBER_RELAY);
    static const uint16_t stage_of[] = {0, 0, 1, 2, 1, 2};
    for (uint32_t i = LEADER; i <= NEXT_B; i++) admit(&w, i, i == LEADER ? MEMBER_DATA : MEMBER_RELAY, stage_of[i]);
    own(&w, 0, LEADER);
    append(&w, (log_entry){.kind = LOG_RUN});
    beat_room(&w, NEXT_A, 2);
    forward(&w, 0);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], NEXT_A);
    for (uint32_t i = 0; i < 600; i++) {
        for (uint32_t from = LEADER; from <= NEXT_B; from++)
            if (from != w.self) beat_room(&w, from, 0);
        tick(&w);
    }
    beat_room(&w, NEXT_B, 2);
    forward(&w, 1);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], NEXT_B);
    assert_true(is_served(&w));
    assert_false(is_served(&w));
    w.now += 10 * MILLISECOND;
    message accept = {.kind = MESSAGE_ACCEPT, .u.accept = {.subject = subject_of(&w, 1, 2), .phase = PHASE_FORWARD, .eta_ns = 1000 * MILLISECOND}};
    deliver(&w, NEXT_B, &accept, false);
    w.now += 100 * MILLISECOND;  // 1 MiB at a quarter of 100 MiB a second takes 40 ms
    assert_true(is_served(&w));
    assert_false(is_served(&w));
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_advanced_chunk_is_not_replaced_by_an_older_one),
        cmocka_unit_test(test_holder_of_the_initial_checkpoint_is_asked),
        cmocka_unit_test(test_unhelpful_source_is_not_asked_forever),
        cmocka_unit_test(test_slow_reader_gets_backpressure),
        cmocka_unit_test(test_rate_limit_recovers_after_a_silent_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
