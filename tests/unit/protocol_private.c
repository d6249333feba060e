// Private data at the leader: waiting for the peer of a data shard, and the end of a run.
#include "protocol_world.h"

// The peers of the tests: the leader under test, which has the first data shard, the data peer of
// the second shard, and the only relay, of stage 1.
enum { LEADER = 1, OTHER_DATA = 2, RELAY = 3 };
enum { SAVED_RANGES = 6, RANGE_BLOCKS = 8 };

static const uint64_t PATIENCE_NS = 20000 * MILLISECOND;

// LEADER and OTHER_DATA have a shard each. LEADER has restarted. In the first iteration OTHER_DATA
// has returned without state, and its slot has no owner. From then on each owns its slot.
static void lead_two_shares(world *w, bool elastic, bool one_is_over) {
    const braid_hash text = {.bytes = {1}};
    const log_member member[2] = {{.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(OTHER_DATA), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_SHARE, .u.share = {.peer = name_of(LEADER), .text = text}},
                             {.kind = LOG_SHARE, .u.share = {.share = 1, .peer = name_of(OTHER_DATA), .text = text}}, {.kind = LOG_OWNER, .u.owner = {.member = LEADER}}, {.kind = LOG_RUN, .u.run = {.generation = 1}},
                             {.kind = LOG_OWNER, .u.owner = {.slot = 1, .member = OTHER_DATA}}, {.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 1}}};
    *w = (world){.run = run_of(1, 2, 2), .text = text};
    w->run.shares = 2;
    w->run.elastic = elastic;
    w->run.patience_ns = PATIENCE_NS;
    recall_all(w, 1, log, sizeof log / sizeof *log - (one_is_over ? 0 : 2));
    step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER_DATA)});
    while (w->records[LOG_OWNER] == 0 && !one_is_over) tick(w);
    w->owner_term[0] = w->last_appended;
}

// Returns the time until `iterations` are complete, at most twice the grace period. Meanwhile
// OTHER_DATA reports the state `its_state`.
static uint64_t computes(world *w, uint32_t iterations, uint64_t its_state) {
    const uint64_t began = w->now;
    while (w->notifications[TELL_ITERATION] < iterations && w->now - began < 2 * PATIENCE_NS) {
        beat_at(w, OTHER_DATA, its_state);
        tick(w);
    }
    return w->now - began;
}

// Rule P11. Given an elastic run and a returning owner, when it still fetches its state, then the
// iteration does not wait; with state it does.
static void test_owner_without_state_is_not_waited_for(void **state) {
    (void)state;
    for (uint64_t its_state = 0; its_state < 2; its_state++) {
        world w;
        lead_two_shares(&w, true, false);
        computes(&w, 1, 0);
        assert_int_equal(w.notifications[TELL_ITERATION], 0);
        beat_at(&w, OTHER_DATA, its_state);
        // LEADER takes over its own slot only after this message
        message nothing = {.kind = MESSAGE_HOLDINGS, .u.holdings.owner_term = w.owner_term[0]};
        deliver(&w, OTHER_DATA, &nothing, false);
        assert_int_equal(computes(&w, 2, its_state) / PATIENCE_NS, its_state);
        free(w.p);
    }
}

// OTHER_DATA has settled its microbatch of iteration `t`.
static void settles(world *w, uint64_t t) {
    message settled = {.kind = MESSAGE_SETTLED, .iteration = t, .u.settled = {.subject = {.m = 1, .owner_term = 7}, .is_void = true, .path = {.stages = 1, .member = {OTHER_DATA}}}};
    deliver(w, OTHER_DATA, &settled, false);
    deliver(w, OTHER_DATA, &(message){.kind = MESSAGE_STATE, .iteration = t, .u.state.version = t}, false);
}

// LEADER fetches the state of iterations that were computed without it. It waits for itself only
// once, and a process pause does not count as waiting.
static void waits_for_itself_once(uint64_t asleep_ms) {
    world w;
    lead_two_shares(&w, true, true);
    uint64_t took[3] = {0};
    for (uint32_t t = 1; t < 3; t++) {
        const uint64_t began = t == 1 ? w.now + asleep_ms * MILLISECOND : w.now;
        for (uint32_t i = 0; t == 1 && i < 50; i++) {
            beat_at(&w, OTHER_DATA, t + 1);
            tick(&w);
        }
        if (t == 1) w.now += asleep_ms * MILLISECOND;
        while (w.notifications[TELL_ITERATION] < t && w.now - began < 2 * PATIENCE_NS) {
            beat_at(&w, OTHER_DATA, t + 1);
            settles(&w, t);
            tick(&w);
        }
        took[t] = w.now - began;
    }
    assert_in_range(took[1] / MILLISECOND, PATIENCE_NS / MILLISECOND - 1000, PATIENCE_NS / MILLISECOND + 2000);
    assert_int_equal(took[2] / PATIENCE_NS, 0);
    free(w.p);
}

// Rule P11. Given an elastic run and a leader without state, when it fetches, then it waits for
// itself one grace period; a pause does not count.
static void test_leader_waits_for_its_own_state_once(void **state) {
    (void)state;
    waits_for_itself_once(0);
    waits_for_itself_once(10000);
}

// Strict mode: the run is to end, and OTHER_DATA has been absent for `gone_ms`. Before that time
// LEADER was paused for `asleep_ms`. With `comes_again`, OTHER_DATA has asked for admission.
static uint32_t given_up_after(uint64_t gone_ms, bool comes_again, uint64_t asleep_ms) {
    world w;
    lead_two_shares(&w, false, true);
    while (!leads(&w)) tick(&w);
    step(&w, &(event){.kind = EVENT_DRAIN, .whole = true});
    while (w.notifications[TELL_AWAITED] == 0) {
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER_DATA), .refused = true});
        tick(&w);
    }
    const uint64_t gone = w.now + asleep_ms * MILLISECOND;
    tick(&w);
    w.now += asleep_ms * MILLISECOND;
    while (w.now - gone < 9000 * MILLISECOND) tick(&w);
    if (comes_again) {
        message join = {.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_DATA, .capacity = 2, .incarnation = 9, .store = 9, .address = "a:1", .share = 2, .text = w.text}};
        const uint32_t members = w.records[LOG_MEMBER];
        w.slow_store = true;
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER_DATA)});
        step(&w, &(event){.kind = EVENT_MESSAGE, .id = name_of(OTHER_DATA), .msg = &join});
        assert_int_equal(w.records[LOG_MEMBER], members + 1);
    }
    while (w.now - gone < gone_ms * MILLISECOND) tick(&w);
    free(w.p);
    return w.notifications[TELL_UNFINISHED];
}

// Rule P5. Given a strict run that is to end, when a shard is missing for 10 s without pauses,
// then the iteration is given up.
static void test_missing_shard_is_given_up_at_the_end(void **state) {
    (void)state;
    assert_int_equal(given_up_after(9800, false, 0), 0);
    assert_int_equal(given_up_after(10300, false, 0), 1);
    assert_int_equal(given_up_after(9300, false, 5000), 0);
    assert_int_equal(given_up_after(11000, false, 5000), 1);
    assert_int_equal(given_up_after(12000, true, 0), 0);
}

// OTHER_DATA and RELAY answer the requests of LEADER, for blocks of stage 1 only if `all` is true.
// `given`: the set of ranges of stage 1 that were sent, a bit each.
static void answer_gets(world *w, bool all, uint32_t *given) {
    message get[MOST_GETS];
    uint32_t to[MOST_GETS], count = w->get_count;
    memcpy(get, w->get, sizeof get);
    memcpy(to, w->get_to, sizeof to);
    w->get_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const message_get *what = &get[i].u.get;
        const bool slow = what->what == GET_STATE && what->stage == 1;
        if (slow && !all) {
            w->get_to[w->get_count] = to[i];
            w->get[w->get_count++] = get[i];
            continue;
        }
        if (slow) *given |= 1u << (what->first / RANGE_BLOCKS);
        deliver(w, to[i], &(message){.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = *what}, true);
    }
}

static void state_of_one(world *w, uint32_t from, uint16_t stage) {
    beat_at(w, from, 2);
    deliver(w, from, &(message){.kind = MESSAGE_STATE, .iteration = 1, .u.state = {.stage = stage, .version = 1}}, false);
}

// LEADER leads OTHER_DATA and RELAY. A checkpoint of their state is due, which LEADER fetches.
// Returns the set of ranges of stage 1 that were sent.
static uint32_t lead_a_checkpoint(world *w, job_kind fails, uint32_t every) {
    const braid_hash text = {.bytes = {1}};
    const log_member member[3] = {{.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(OTHER_DATA), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2},
                                  {.peer = name_of(RELAY), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_MEMBER, .u.member = member[2]},
                             {.kind = LOG_SHARE, .u.share = {.peer = name_of(LEADER), .text = text}}, {.kind = LOG_SHARE, .u.share = {.share = 1, .peer = name_of(OTHER_DATA), .text = text}},
                             {.kind = LOG_OWNER, .u.owner = {.member = LEADER}}, {.kind = LOG_OWNER, .u.owner = {.slot = 1, .member = OTHER_DATA}}, {.kind = LOG_RUN, .u.run = {.generation = 1}},
                             {.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 2}}};
    *w = (world){.run = run_of(2, 2, 2), .text = text, .failing_job = fails};
    w->run.shares = 2;
    w->run.save = true;
    w->run.checkpoint_every = every;
    w->run.blocks[1] = SAVED_RANGES * RANGE_BLOCKS;
    recall_all(w, 1, log, sizeof log / sizeof *log);
    uint32_t given = 0;
    for (uint32_t number = OTHER_DATA; number <= RELAY; number++) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(number)});
    for (uint32_t i = 0; i < 20; i++) {
        state_of_one(w, OTHER_DATA, 0);
        state_of_one(w, RELAY, 1);
        tick(w);
        answer_gets(w, fails != JOB_NONE, &given);
    }
    return given;
}

// Rule J10. Given a full disk, when a checkpoint is due, then FINAL does not wait for the chunks.
static void test_checkpoint_without_disk_space_is_not_read(void **state) {
    (void)state;
    world w;
    const uint32_t given = lead_a_checkpoint(&w, JOB_SAVE, 1);
    assert_int_equal(w.notifications[TELL_CHECKPOINT], 1);
    assert_int_equal(given, 0);
    free(w.p);
}

// Rule P5. Given a checkpoint of this version under way, when the run ends without a missing peer,
// then that checkpoint becomes the last one. No chunk is read twice.
static void test_checkpoint_under_way_becomes_the_last_one(void **state) {
    (void)state;
    world w;
    uint32_t given = lead_a_checkpoint(&w, JOB_NONE, 1);
    peer_view view;
    peer_look(w.p, &view);
    assert_true(view.leads && view.ready);
    step(&w, &(event){.kind = EVENT_DRAIN, .whole = true});
    for (uint32_t i = 0; w.notifications[TELL_UNFINISHED] == 0; i++) {
        assert_true(i < 300);
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER_DATA), .refused = true});
        state_of_one(&w, RELAY, 1);
        tick(&w);
        answer_gets(&w, false, &given);
    }
    assert_int_equal(w.notifications[TELL_CHECKPOINT], 0);
    assert_int_equal(given, 0);
    for (uint32_t i = 0; w.notifications[TELL_CHECKPOINT] == 0; i++) {
        assert_true(i < 300);
        state_of_one(&w, RELAY, 1);
        tick(&w);
        answer_gets(&w, true, &given);
    }
    assert_int_equal(given, (1u << SAVED_RANGES) - 1);
    free(w.p);
}

// Rule P5. Given a checkpoint that failed for a moment, when the run ends, then the last checkpoint
// is started anew.
static void test_failed_checkpoint_is_started_again(void **state) {
    (void)state;
    world w;
    uint32_t given = lead_a_checkpoint(&w, JOB_NONE, 1);
    w.failing_job = JOB_SAVE;
    deliver(&w, w.get_to[0], &(message){.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = w.get[0].u.get}, true);
    w.failing_job = JOB_NONE;
    w.get_count--;
    memmove(w.get, w.get + 1, w.get_count * sizeof w.get[0]);
    memmove(w.get_to, w.get_to + 1, w.get_count * sizeof w.get_to[0]);
    step(&w, &(event){.kind = EVENT_DRAIN, .whole = true});
    for (uint32_t i = 0; !w.exited; i++) {
        assert_true(i < 600);
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER_DATA), .refused = true});
        state_of_one(&w, RELAY, 1);
        tick(&w);
        answer_gets(&w, i > 200, &given);
    }
    assert_int_equal(given, (1u << SAVED_RANGES) - 1);
    assert_int_equal(w.last_record_kind, LOG_END);
    free(w.p);
}

static void go_on_until(world *w, bool (*done)(const world *w), uint32_t *given) {
    for (uint32_t i = 0; !done(w); i++) {
        assert_true(i < 300);
        state_of_one(w, OTHER_DATA, 0);
        state_of_one(w, RELAY, 1);
        tick(w);
        answer_gets(w, true, given);
    }
}

static bool has_saved(const world *w) { return w->notifications[TELL_CHECKPOINT] == 1; }
static bool has_ended(const world *w) { return w->exited; }
static bool has_let_go(const world *w) { return w->records[LOG_EXPEL] == 1; }

// Rule J10. Given no due checkpoint, when the user asks for one, then the state before the
// iteration is saved and the run continues.
static void test_requested_checkpoint_needs_no_final(void **state) {
    (void)state;
    world w;
    uint32_t given = lead_a_checkpoint(&w, JOB_NONE, 0);
    assert_int_equal(w.get_count, 0);
    const uint32_t finals = w.records[LOG_FINAL];
    step(&w, &(event){.kind = EVENT_SAVE});
    go_on_until(&w, has_saved, &given);
    assert_int_equal(given, (1u << SAVED_RANGES) - 1);
    assert_int_equal(w.records[LOG_FINAL], finals);
    assert_false(w.exited);
    free(w.p);
}

// Rule J13. Given an iteration that no peer computes, when the user ends the run at once, then
// version 1 is saved. END follows without CLOSE and FINAL.
static void test_end_without_the_iteration(void **state) {
    (void)state;
    world w;
    uint32_t given = lead_a_checkpoint(&w, JOB_NONE, 0);
    const uint32_t finals = w.records[LOG_FINAL], closes = w.records[LOG_CLOSE];
    step(&w, &(event){.kind = EVENT_DRAIN, .whole = true, .drop = true});
    go_on_until(&w, has_ended, &given);
    assert_int_equal(given, (1u << SAVED_RANGES) - 1);
    assert_true(has_saved(&w) && w.notifications[TELL_END] == 1 && w.notifications[TELL_UNFINISHED] == 0);
    assert_true(w.records[LOG_FINAL] == finals && w.records[LOG_CLOSE] == closes && w.last_record_kind == LOG_END);
    free(w.p);
}

// Rule J12. Given the only relay of a stage, when it asks to leave, then it is removed after
// CHECKPOINT of its state is in the log.
static void test_last_member_of_a_stage_leaves_after_a_checkpoint(void **state) {
    (void)state;
    world w;
    uint32_t given = lead_a_checkpoint(&w, JOB_NONE, 0);
    const uint32_t finals = w.records[LOG_FINAL];
    deliver(&w, RELAY, &(message){.kind = MESSAGE_LEAVE, .u.leave.reason = EXPEL_LEFT}, false);
    assert_int_equal(w.records[LOG_EXPEL], 0);
    go_on_until(&w, has_let_go, &given);
    assert_int_equal(given, (1u << SAVED_RANGES) - 1);
    assert_true(has_saved(&w) && w.records[LOG_CHECKPOINT] == 1 && w.records[LOG_FINAL] == finals);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner_without_state_is_not_waited_for),
        cmocka_unit_test(test_leader_waits_for_its_own_state_once),
        cmocka_unit_test(test_missing_shard_is_given_up_at_the_end),
        cmocka_unit_test(test_checkpoint_without_disk_space_is_not_read),
        cmocka_unit_test(test_checkpoint_under_way_becomes_the_last_one),
        cmocka_unit_test(test_failed_checkpoint_is_started_again),
        cmocka_unit_test(test_requested_checkpoint_needs_no_final),
        cmocka_unit_test(test_end_without_the_iteration),
        cmocka_unit_test(test_last_member_of_a_stage_leaves_after_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
