// One peer among members that send wrong messages, or correct ones at rare moments.
#include "protocol_world.h"

// The peers of the tests. RELAY_A works on stage 1; RELAY_B works on stage 2, or is the only relay of
// a run with two stages.
enum { OTHER_DATA = 1, RELAY_A = 2, RELAY_B = 3, OWNER = 4, JOINER = 4, STANDBY = 4, SELF_OWNER = 5 };
enum { DATA_A = 1, DATA_B = 2, SELF_DATA = 3, DATA_C = 4 };

// ---- a standby that returns an activation

// Standby replicas. Given an owner, when a standby returns an activation, then no answer names a
// stage of the standby, since it has none.
static void test_activation_from_a_standby_is_harmless(void **state) {
    (void)state;
    world w = {.run = run_of(3, 2, 1)};
    w.run.standbys = 1;
    open_world(&w, SELF_OWNER, MEMBER_DATA);
    admit(&w, OTHER_DATA, MEMBER_DATA, 0);
    admit(&w, RELAY_A, MEMBER_RELAY, 1);
    admit(&w, RELAY_B, MEMBER_RELAY, 2);
    admit(&w, STANDBY, MEMBER_SHADOW, 2);
    admit(&w, SELF_OWNER, MEMBER_DATA, 0);
    own(&w, 0, SELF_OWNER);
    append(&w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 0; i < 3; i++) {
        message m = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 0), .owner = SELF_OWNER, .forward_to = 3, .home = true, .path = {.stages = 3, .member = {SELF_OWNER, RELAY_A, STANDBY}}}};
        deliver(&w, STANDBY, &m, true);
    }
    peer_view view;
    peer_look(w.p, &view);
    assert_int_equal(view.slots_used, 2);
    free(w.p);
}

// Rule L1. Given a run with three stages, when MEMBER entries name other stages, then those members
// do not exist here.
static void test_member_of_an_unknown_stage_is_ignored(void **state) {
    (void)state;
    world w = {.run = run_of(3, 2, 1)};
    member_id members[MOST];
    open_world(&w, RELAY_B, MEMBER_RELAY);
    admit(&w, DATA_A, MEMBER_DATA, 0);
    admit(&w, RELAY_A, MEMBER_RELAY, 3);
    admit(&w, RELAY_B, MEMBER_RELAY, WIRE_MAX_STAGES - 1);
    peer_view view;
    peer_look(w.p, &view);
    assert_int_equal(view.member, 0);
    assert_int_equal(view.log_position, 3);
    for (uint16_t s = 0; s < WIRE_MAX_STAGES; s++) assert_int_equal(peer_members(w.p, s, members, MOST), s == 0);
    free(w.p);
}

// ---- a joiner

// Rule J4. Given a joiner that waits for hashes, when another peer sends an empty answer, then the
// joiner still takes those of its source.
static void test_unrequested_answer_does_not_end_a_request(void **state) {
    (void)state;
    world w = {.run = run_of(3, 2, 1)};
    w.run.start_version = 1;
    open_world(&w, JOINER, MEMBER_RELAY);
    admit(&w, DATA_A, MEMBER_DATA, 0);
    admit(&w, RELAY_A, MEMBER_RELAY, 1);
    admit(&w, RELAY_B, MEMBER_RELAY, 2);
    admit(&w, JOINER, MEMBER_RELAY, 1);
    w.busy = true;
    uint32_t asked = w.last_get_to;
    assert_int_not_equal(asked, 0);
    message names = {.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = {.what = GET_NAMES, .stage = 1, .version = 1, .count = 1}};
    deliver(&w, RELAY_B, &names, true);
    assert_int_equal(w.work.id, 0);
    deliver(&w, asked, &names, true);
    assert_int_equal(w.work.kind, JOB_NAMES_PUT);
    free(w.p);
}

// ---- reports without progress

static void beat(world *w, uint32_t from) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1, .free_slots = from == 1 ? 0 : 2, .reaches = 1}};
    deliver(w, from, &m, false);
}

static void trace(world *w, uint32_t from, uint16_t stage, uint8_t phase, member_id next) {
    message m = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(w, 0, stage), .phase = phase, .next = next}};
    deliver(w, from, &m, false);
}

// An owner, its two stages with one relay each, and a microbatch that is sent to the first. The
// second seems to be full.
static void open_owners_world(world *w) {
    *w = (world){.run = run_of(3, 1, 1)};
    open_world(w, OWNER, MEMBER_DATA);
    admit(w, OTHER_DATA, MEMBER_DATA, 0);
    admit(w, RELAY_A, MEMBER_RELAY, 1);
    admit(w, RELAY_B, MEMBER_RELAY, 2);
    admit(w, OWNER, MEMBER_DATA, 0);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = OTHER_DATA; i <= RELAY_B; i++) beat(w, i);
    assert_int_equal(w->sent[MESSAGE_FORWARD], 1);
    message accept = {.kind = MESSAGE_ACCEPT, .u.accept = {.subject = subject_of(w, 0, 1), .phase = PHASE_FORWARD}};
    message complete = {.kind = MESSAGE_COMPLETE, .u.complete = {.subject = subject_of(w, 0, 1), .phase = PHASE_FORWARD}};
    deliver(w, RELAY_A, &accept, false);
    deliver(w, RELAY_A, &complete, false);
    trace(w, RELAY_A, 1, TRACE_FORWARD_DONE, 0);
}

// Sends heartbeats. Each probed member reports the contents `held` and that it works. Returns the
// number of orders given.
static uint32_t half_seconds(world *w, uint32_t count, const message_status *held) {
    w->sent[MESSAGE_RESUME] = 0;
    for (uint32_t half_second = 0; half_second < count; half_second++) {
        w->now += 500 * MILLISECOND;
        for (uint32_t i = OTHER_DATA; i <= RELAY_B; i++) beat(w, i);
        step(w, &(event){.kind = EVENT_TICK});
        for (uint32_t i = 1; i < MOST; i++) {
            message m = {.kind = MESSAGE_STATUS, .u.status = held[i]};
            m.u.status.subject = w->probe[i].u.probe.subject;
            m.u.status.nonce = w->probe[i].u.probe.nonce;
            bool asked = w->probed[i];
            w->probed[i] = false;
            if (asked) deliver(w, i, &m, false);
        }
    }
    return w->sent[MESSAGE_RESUME];
}

static uint32_t ten_minutes(world *w, const message_status *held) { return half_seconds(w, 1200, held); }

// Rule R6. Given a relay that reports forever that it sends the activation, when two minutes pass,
// then the owner gives orders again.
static void test_forwarding_report_expires(void **state) {
    (void)state;
    world w;
    open_owners_world(&w);
    const message_status held[MOST] = {[RELAY_A] = {.has_x = true, .has_y = true, .forward_done = true, .working = true, .forwarding = true}};
    assert_in_range(ten_minutes(&w, held), 2, 6);
    free(w.p);
}

// It is home, and its gradient is sent to the last stage.
static void open_at_home(world *w) {
    open_owners_world(w);
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, 0, 0), .owner = OWNER, .forward_to = 3, .home = true, .path = {.stages = 3, .member = {OWNER, RELAY_A, RELAY_B}}}};
    deliver(w, RELAY_B, &home, true);
    assert_int_equal(w->sent[MESSAGE_BACKWARD], 1);
}

// Rule R6. Given a relay that reports forever that it sends the gradient, when two minutes pass,
// then the owner gives orders again.
static void test_gradient_report_expires(void **state) {
    (void)state;
    world w;
    open_at_home(&w);
    message accept = {.kind = MESSAGE_ACCEPT, .u.accept = {.subject = subject_of(&w, 0, 2), .phase = PHASE_BACKWARD}};
    message complete = {.kind = MESSAGE_COMPLETE, .u.complete = {.subject = subject_of(&w, 0, 2), .phase = PHASE_BACKWARD}};
    deliver(&w, RELAY_B, &accept, false);
    deliver(&w, RELAY_B, &complete, false);
    trace(&w, RELAY_B, 2, TRACE_BACKWARD_DONE, RELAY_A);
    const message_status held[MOST] = {[RELAY_A] = {.has_x = true, .has_y = true, .forward_done = true},
                                       [RELAY_B] = {.has_x = true, .has_y = true, .has_dy = true, .has_dx = true, .forward_done = true, .backward_done = true, .working = true}};
    assert_in_range(ten_minutes(&w, held), 2, 6);
    free(w.p);
}

// Rule R11. Given a last stage with an old log, when it denies the gradient with VERSION, then it
// is not replaced and gets the gradient again.
static void test_member_with_an_old_log_keeps_its_microbatch(void **state) {
    (void)state;
    world w;
    open_at_home(&w);
    const message_status held[MOST] = {[RELAY_A] = {.has_x = true, .has_y = true, .forward_done = true}, [RELAY_B] = {.has_x = true, .has_y = true, .forward_done = true}};
    message deny = {.kind = MESSAGE_DENY, .u.deny = {.subject = subject_of(&w, 0, 2), .phase = PHASE_BACKWARD, .reason = DENY_VERSION}};
    deliver(&w, RELAY_B, &deny, false);
    half_seconds(&w, 1, held);
    assert_int_equal(w.sent[MESSAGE_BACKWARD] + w.sent[MESSAGE_PROBE], 1);
    assert_int_equal(half_seconds(&w, 1, held), 0);
    assert_int_equal(w.sent[MESSAGE_BACKWARD], 2);
    free(w.p);
}

// ---- elastic

static void count_one(world *w, uint32_t m, uint32_t owner) {
    const message_path path = {.stages = 2, .member = {owner, w->self}};
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, m, 1), .owner = owner, .forward_to = 2, .path = path}};
    deliver(w, owner, &forward, true);
    message backward = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(w, m, 1), .owner = owner, .path = path}};
    deliver(w, owner, &backward, true);
    message commit = {.kind = MESSAGE_COMMIT, .u.commit = {.subject = subject_of(w, m, 1), .rev = 1, .tokens = 1, .path = path}};
    deliver(w, owner, &commit, false);
}

static log_entry close_of(uint64_t counted) { return (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {counted}, .tokens = 4}}; }

// Two microbatches of a data peer that dies are in the sum of the one relay, and the first job that
// takes them out is under way.
static void open_elastic_world(world *w) {
    peer_view view;
    *w = (world){.run = run_of(2, 4, 2)};
    w->run.shares = 2;
    w->run.elastic = true;
    open_world(w, RELAY_B, MEMBER_RELAY);
    for (uint32_t i = DATA_A; i <= DATA_B; i++) admit(w, i, MEMBER_DATA, 0);
    admit(w, RELAY_B, MEMBER_RELAY, 1);
    for (uint16_t i = 0; i < 2; i++) append(w, (log_entry){.kind = LOG_SHARE, .u.share = {.share = i, .peer = name_of(i + 1u)}});
    for (uint16_t i = 0; i < 2; i++) own(w, i, i + 1u);
    append(w, (log_entry){.kind = LOG_RUN});
    count_one(w, 1, DATA_B);
    count_one(w, 3, DATA_B);
    peer_look(w->p, &view);
    assert_int_equal(view.k.words[0], 1 << 1 | 1 << 3);
    append(w, close_of(15));
    append(w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = DATA_B, .reason = EXPEL_DEAD}});
    w->busy = true;
    append(w, close_of(1 << 0 | 1 << 2));
    assert_int_equal(w->work.kind, JOB_FORWARD);
}

static void expect_all_taken_back(world *w) {
    peer_view view;
    w->busy = false;
    do_job(w);
    peer_look(w->p, &view);
    assert_int_equal(view.k.words[0], 0);
    assert_int_equal(view.counted, 0);
    free(w->p);
}

// Rule P9. Given microbatches that are being subtracted from the sum, when a repair needs a slot,
// then they are not evicted.
static void test_repair_does_not_evict_a_subtraction(void **state) {
    (void)state;
    world w;
    open_elastic_world(&w);
    message repair = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 2, 1), .owner = DATA_A, .forward_to = 2, .repair = true, .path = {.stages = 2, .member = {DATA_A, RELAY_B}}}};
    deliver(&w, DATA_A, &repair, true);
    expect_all_taken_back(&w);
}

// Rule P9. Given a microbatch under subtraction with an unaccepted tensor, when time passes, then
// the tensor is not resent.
static void test_subtracted_microbatch_is_not_resent(void **state) {
    (void)state;
    world w;
    open_elastic_world(&w);
    for (uint32_t i = 0; i < 10; i++) {
        w.now += 1000 * MILLISECOND;
        step(&w, &(event){.kind = EVENT_TICK});
    }
    expect_all_taken_back(&w);
}

// Rule V23. Given a restarted voter with old addresses in its log, when another peer sends the
// current ones, then it dials those.
static void test_current_addresses_replace_those_of_the_log(void **state) {
    (void)state;
    world w = {.run = run_of(3, 2, 1)};
    begin_world(&w, 4, MEMBER_DATA);
    log_entry records[] = {
        {.kind = LOG_BASE, .index = 9, .term = 1, .u.base = {.applied = 9, .entries = 3, .voters = {.count = 1, .voter = {{.id = name_of(DATA_B), .store = 7, .address = "old-2:1"}}}}},
        {.kind = LOG_MEMBER, .index = 1, .u.member = {.peer = name_of(DATA_A), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .address = "old-1:1"}},
        {.kind = LOG_MEMBER, .index = 2, .u.member = {.peer = name_of(DATA_B), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .address = "old-2:1"}},
        {.kind = LOG_MEMBER, .index = 3, .u.member = {.peer = name_of(RELAY_B), .stage = 1, .kind = MEMBER_RELAY, .capacity = 2, .incarnation = 1, .address = "old-3:1"}},
        // possibly uncommitted
        {.kind = LOG_MEMBER, .index = 10, .term = 1, .u.member = {.peer = name_of(RELAY_B), .stage = 1, .kind = MEMBER_RELAY, .capacity = 2, .incarnation = 2, .address = "new-3:1"}},
        {.kind = LOG_VOTERS, .index = 11, .term = 1, .u.voters = {.count = 1, .voter = {{.id = name_of(DATA_B), .store = 7, .address = "new-2:1"}}}},
    };
    for (uint32_t i = 0; i < sizeof records / sizeof *records; i++) assert_true(peer_recall(w.p, &records[i]));
    w.now += 1000 * MILLISECOND;
    step(&w, &(event){.kind = EVENT_TICK});
    assert_string_equal(w.last_address[DATA_A], "peer-1:1");  // the user has just said so
    assert_string_equal(w.last_address[DATA_B], "new-2:1");
    assert_string_equal(w.last_address[RELAY_B], "new-3:1");
    free(w.p);
}

// Rule V23. Given no leader and voters at new addresses, when a relay knows one of them, then it
// sends that address to the next voter.
static void test_relay_sends_current_voter_addresses(void **state) {
    (void)state;
    world w = {.run = run_of(3, 2, 1)};
    log_entry voters = {.kind = LOG_VOTERS, .u.voters = {.count = 2, .voter = {{.id = name_of(DATA_B), .store = 7, .address = "old-2:1"}, {.id = name_of(DATA_C), .store = 8, .address = "old-4:1"}}}};
    open_world(&w, RELAY_B, MEMBER_RELAY);
    admit(&w, DATA_A, MEMBER_DATA, 0);
    admit(&w, DATA_B, MEMBER_DATA, 0);
    admit(&w, RELAY_B, MEMBER_RELAY, 1);
    admit(&w, DATA_C, MEMBER_DATA, 0);
    append(&w, voters);
    message join = {.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_DATA, .capacity = 2, .incarnation = 9, .store = 8, .address = "new-4:1"}};
    deliver(&w, DATA_C, &join, false);
    snprintf(join.u.join.address, WIRE_MAX_ADDRESS, "new-2:1");
    w.last_log = (message){.kind = MESSAGE_LOG};
    deliver(&w, DATA_B, &join, false);
    assert_string_equal(w.last_log.u.log.entry.u.voters.voter[1].address, "new-4:1");
    free(w.p);

    world other = {.run = run_of(3, 2, 1)};
    open_world(&other, SELF_DATA, MEMBER_DATA);
    admit(&other, DATA_A, MEMBER_DATA, 0);
    admit(&other, DATA_B, MEMBER_DATA, 0);
    admit(&other, SELF_DATA, MEMBER_DATA, 0);
    admit(&other, DATA_C, MEMBER_DATA, 0);
    append(&other, voters);
    step(&other, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(DATA_C), .refused = true});
    deliver(&other, DATA_B, &w.last_log, false);
    assert_string_equal(other.last_address[DATA_C], "new-4:1");
    peer_view view;
    peer_look(other.p, &view);
    assert_int_equal(view.log_position, other.log);
    free(other.p);
}

enum { VOTER = 3, BASE = 20 };

static log_entry base_at(uint64_t index, uint32_t entries) {
    return (log_entry){.kind = LOG_BASE, .index = index, .term = 1, .u.base = {.applied = index, .entries = entries, .voters = {.count = 1, .voter = {{.id = name_of(VOTER), .store = 1}}}}};
}

// A voter comes back with its store, and hears of one entry more.
static void open_one_of(world *w, uint16_t voters) {
    w->run = run_of(3, 2, 1);
    begin_world(w, VOTER, MEMBER_DATA);
    log_entry base = base_at(BASE, 2);
    for (uint16_t i = 1; i < voters; i++) base.u.base.voters.voter[i] = (log_voter){.id = name_of(i), .store = i + 1u};
    base.u.base.voters.count = voters;
    assert_true(peer_recall(w->p, &base));
    for (uint32_t i = 1; i <= 2; i++) {
        const log_entry known = {.kind = LOG_MEMBER, .index = i, .u.member = {.peer = name_of(i), .stage = (uint16_t)(i - 1), .kind = i == 1 ? MEMBER_DATA : MEMBER_RELAY, .capacity = 2, .incarnation = 1}};
        assert_true(peer_recall(w->p, &known));
    }
    for (uint32_t i = 1; i <= 2; i++) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    w->log = BASE;
    append(w, (log_entry){.kind = LOG_LEAD, .u.lead.leader = name_of(1)});
}

static void open_voter(world *w) { open_one_of(w, 1); }

// A peer begins to send a snapshot, and dies.
static void send_half_a_state(world *w) {
    message first = {.kind = MESSAGE_LOG, .u.log = {.reset = true}};
    first.u.log.entry = (log_entry){.kind = LOG_MEMBER, .index = 1, .u.member = {.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1}};
    w->log = BASE + 9;
    deliver(w, 1, &first, false);
}

// The voter is elected and asked for the log; or it follows, and a voter sends an admission
// request.
static uint32_t tells_its_log(bool half_a_state, bool elected) {
    world w = {0};
    open_one_of(&w, elected ? 1 : 2);
    if (half_a_state) send_half_a_state(&w);
    for (uint32_t i = 0; elected && i < 30; i++) {
        w.now += 100 * MILLISECOND;
        step(&w, &(event){.kind = EVENT_TICK});
    }
    uint32_t before = w.sent[MESSAGE_LOG];
    message get = {.kind = MESSAGE_GET_LOG, .u.get_log.from = 1};
    message join = {.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_DATA, .capacity = 2, .address = "a:1"}};
    w.log = 0;
    deliver(&w, elected ? 2 : 1, elected ? &get : &join, false);
    free(w.p);
    return w.sent[MESSAGE_LOG] - before;
}

static uint64_t position_after(world *w, uint32_t from, uint64_t as_of, log_entry entry, uint64_t previous) {
    message m = {.kind = MESSAGE_LOG, .u.log = {.previous = previous, .reset = previous == 0, .entry = entry}};
    peer_view view;
    w->log = as_of;
    deliver(w, from, &m, false);
    peer_look(w->p, &view);
    return view.log_position;
}

// Rule L5. Given an interrupted snapshot of one sender, when another sender starts a later one,
// then no entries of both are combined.
static void test_snapshots_are_not_mixed(void **state) {
    (void)state;
    world w = {0};
    open_voter(&w);
    log_entry first = {.kind = LOG_SHARE, .index = 1}, fourth = {.kind = LOG_SHARE, .index = 4}, fifth = {.kind = LOG_SHARE, .index = 5}, base = base_at(6, 0);
    assert_int_equal(position_after(&w, 1, BASE + 5, first, 0), 1);
    assert_int_equal(position_after(&w, 2, BASE + 6, fourth, 1), 1);
    assert_int_equal(position_after(&w, 1, BASE + 5, fourth, 1), 4);
    assert_int_equal(position_after(&w, 2, BASE + 6, fifth, 4), 5);  // nothing is left out
    assert_int_equal(position_after(&w, 2, BASE + 6, base, 5), 5);   // the omitted entries may have been of any kind
    free(w.p);
}

// A leader with a log that begins after the end of this voter's log.
static bool stores_its_state(bool half_a_state) {
    world w = {0};
    open_voter(&w);
    if (half_a_state) send_half_a_state(&w);
    w.last_record_kind = LOG_NONE;
    message m = {.kind = MESSAGE_APPEND, .u.append = {.to = 1, .from = 9, .term = 2, .has_entry = true, .entry = base_at(BASE + 1, 0), .previous = BASE + 1, .previous_term = 1}};
    deliver(&w, 1, &m, false);
    free(w.p);
    return w.last_record_kind == LOG_BASE;
}

// Rule V14. Given an interrupted snapshot, when another peer asks for the log, then the partial
// state is not sent.
static void test_partial_snapshot_is_not_passed_on(void **state) {
    (void)state;
    for (int elected = 0; elected < 2; elected++) {
        assert_true(tells_its_log(false, elected) > 0);
        assert_int_equal(tells_its_log(true, elected), 0);
    }
}

// Rule V29. Given an interrupted snapshot, when the voter would compact its log, then the partial
// state is not stored.
static void test_partial_snapshot_is_not_stored(void **state) {
    (void)state;
    assert_true(stores_its_state(false));
    assert_false(stores_its_state(true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_current_addresses_replace_those_of_the_log),
        cmocka_unit_test(test_relay_sends_current_voter_addresses),
        cmocka_unit_test(test_partial_snapshot_is_not_passed_on),
        cmocka_unit_test(test_partial_snapshot_is_not_stored),
        cmocka_unit_test(test_snapshots_are_not_mixed),
        cmocka_unit_test(test_activation_from_a_standby_is_harmless),
        cmocka_unit_test(test_member_of_an_unknown_stage_is_ignored),
        cmocka_unit_test(test_unrequested_answer_does_not_end_a_request),
        cmocka_unit_test(test_forwarding_report_expires),
        cmocka_unit_test(test_gradient_report_expires),
        cmocka_unit_test(test_member_with_an_old_log_keeps_its_microbatch),
        cmocka_unit_test(test_repair_does_not_evict_a_subtraction),
        cmocka_unit_test(test_subtracted_microbatch_is_not_resent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
