// Rollback at one peer, and the decisions of a leader around it.
#include "protocol_world.h"

// The peers of the tests: a relay of stage 1 and its leader; or a leader with another data peer and
// up to three members that keep the state of stage 1.
enum { LEADER = 1, RELAY = 2, OTHER_DATA = 2, KEEPER_A = 3, KEEPER_B = 4, KEEPER_C = 5 };
// The peers beside LEADER and RELAY: a joiner, a relay that is moved, a leader that RELAY has not
// heard yet, two voters, and a peer that the log does not name.
enum { JOINER = 3, MOVED = 3, NEW_LEADER = 4, VOTER_A = 3, VOTER_B = 4, UNKNOWN = 5 };
// The relays of two stages: one with the only state of stage 1, one without state, one of stage 2.
enum { HOLDER = 2, EMPTY = 3, LAST_RELAY = 4 };

static void open_relay(world *w) {
    w->run = run_of(2, 2, 1);
    open_world(w, RELAY, MEMBER_RELAY);
    admit(w, LEADER, MEMBER_DATA, 0);
    admit(w, RELAY, MEMBER_RELAY, 1);
    own(w, 0, LEADER);
}

static void run_begins(world *w, uint64_t generation) { append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = generation, .lost = 1}}); }

// Rule G4. Given a run that rolled back, when a peer joins afterwards, then it is told only that
// the run has begun.
static void test_joiner_after_a_rollback_sees_a_start(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    run_begins(&w, 2);
    assert_int_equal(w.notifications[TELL_STARTED], 1);
    free(w.p);
}

// Rule G4. Given a member, when RUN of the next generation arrives, then the user is told of the
// rollback.
static void test_member_is_told_of_a_rollback(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    run_begins(&w, 1);
    assert_int_equal(w.notifications[TELL_STARTED], 1);
    run_begins(&w, 2);
    assert_int_equal(w.notifications[TELL_STARTED], 1);
    assert_int_equal(w.notifications[TELL_ROLLED_BACK], 1);
    free(w.p);
}

// Rule G4. Given a RUN entry on its way into the log, when the last microbatch is settled, then no
// CLOSE is appended.
static void test_no_close_after_an_uncommitted_rollback(void **state) {
    (void)state;
    world w = {.self = 0};
    recall(&w, 1, true);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; w.last_record_kind != LOG_RUN; i++) {
        assert_true(i < 100);
        if (i == 10) w.slow_store = true;
        beat_at(&w, OTHER_DATA, 2);
        beat_at(&w, KEEPER_A, 0);  // no state
        tick(&w);
    }
    message settled = {.kind = MESSAGE_SETTLED, .iteration = 1, .u.settled = {.subject = {.owner_term = 4}, .is_void = true, .path = {.stages = 2, .member = {OTHER_DATA, KEEPER_A}}}};
    deliver(&w, OTHER_DATA, &settled, false);
    tick(&w);
    assert_int_equal(w.last_record_kind, LOG_RUN);
    w.slow_store = false;
    tick(&w);
    assert_int_equal(w.notifications[TELL_ROLLED_BACK], 1);
    assert_int_equal(w.last_record_kind, LOG_RUN);
    free(w.p);
}

// Rule G3. Given a lost stage and no readable checkpoint, when a peer asks for admission, then it
// is admitted.
static void test_any_peer_is_admitted_while_no_checkpoint_is_readable(void **state) {
    (void)state;
    const log_member member[2] = {{.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(RELAY), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = LEADER}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1, .start_version = 1}}, {.kind = LOG_FINAL, .u.final = {.iteration = 1, .last = true, .stages = 2}}};
    world w = {.run = run_of(2, 1, 1)};
    w.run.start_version = 1;
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = RELAY; i <= JOINER; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; i < 50; i++) {
        beat_at(&w, RELAY, 1);
        tick(&w);
    }
    w.slow_store = true;
    w.log = 0;
    deliver(&w, JOINER, &(message){.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_DATA, .capacity = 2, .incarnation = 3}}, false);
    assert_int_equal(w.appends, 1);
    assert_int_equal(w.append[0].kind, LOG_MEMBER);
    free(w.p);
}

// Rule G3. Given half a minute without a leader, when a new one is elected, then silent members are
// waited for 10 s from there.
static void test_new_leader_restarts_the_wait_for_silent_members(void **state) {
    (void)state;
    world w = {.self = 0};
    recall(&w, 2, true);
    for (uint32_t i = 0; i < 300; i++) tick(&w);
    be_elected(&w);
    uint32_t ticks = 0;
    for (; w.notifications[TELL_ROLLED_BACK] == 0; ticks++) {
        assert_true(ticks < 200);
        tick(&w);
        answer(&w, MESSAGE_APPENDED, false);
    }
    assert_in_range(ticks, 100, 140);
    free(w.p);
}

// Rule D4. Given FINAL decided and not stored, when the only holder of its stage is silent, then it
// is not removed.
static void test_only_holder_of_the_next_version_stays(void **state) {
    (void)state;
    world w = {.self = 0};
    recall(&w, 1, false);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    beat_at(&w, KEEPER_A, 1);
    for (uint16_t s = 0; s < 2; s++) deliver(&w, s == 0 ? OTHER_DATA : KEEPER_A, &(message){.kind = MESSAGE_STATE, .u.state.stage = s}, false);
    w.slow_store = true;
    message settled = {.kind = MESSAGE_SETTLED, .u.settled = {.subject = {.owner_term = 4}, .is_void = true, .path = {.stages = 2, .member = {OTHER_DATA, KEEPER_A}}}};
    deliver(&w, OTHER_DATA, &settled, false);
    store(&w);  // CLOSE
    for (uint32_t i = 0; i < 300; i++) {
        beat_at(&w, OTHER_DATA, 1);
        tick(&w);
    }
    assert_int_equal(w.last_record_kind, LOG_FINAL);
    assert_int_equal(w.records[LOG_EXPEL], 0);
    w.slow_store = false;
    tick(&w);
    assert_int_equal(w.notifications[TELL_ITERATION], 1);
    assert_int_equal(w.notifications[TELL_EXPELLED], 0);
    free(w.p);
}

// Rule T5. Given a member with an uncommitted EXPEL, when its report arrives, then FINAL does not
// depend on it.
static void test_final_does_not_depend_on_a_member_under_removal(void **state) {
    (void)state;
    world w = {.self = 0};
    recall(&w, 1, false);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    deliver(&w, OTHER_DATA, &(message){.kind = MESSAGE_STATE}, false);
    message settled = {.kind = MESSAGE_SETTLED, .u.settled = {.subject = {.owner_term = 4}, .is_void = true, .path = {.stages = 2, .member = {OTHER_DATA, KEEPER_A}}}};
    deliver(&w, OTHER_DATA, &settled, false);
    assert_int_equal(w.last_record_kind, LOG_CLOSE);
    w.slow_store = true;
    for (uint32_t i = 0; w.last_record_kind != LOG_EXPEL; i++) {
        assert_true(i < 300);
        beat_at(&w, OTHER_DATA, 1);
        tick(&w);
    }
    beat_at(&w, KEEPER_A, 1);
    deliver(&w, KEEPER_A, &(message){.kind = MESSAGE_STATE, .u.state.stage = 1}, false);
    tick(&w);
    assert_int_equal(w.records[LOG_FINAL], 0);
    w.slow_store = false;
    tick(&w);
    assert_int_equal(w.notifications[TELL_EXPELLED], 1);
    assert_int_equal(w.records[LOG_FINAL], 0);
    free(w.p);
}

static void reports(world *w, uint32_t from, uint16_t stage, uint64_t round, uint8_t root) {
    peer_view view;
    peer_look(w->p, &view);
    message_reduced body = {.stage = stage, .term = view.term, .round = ((view.term - 1) << 32) + round, .root = {.bytes = {root}}, .tensors = 1};
    deliver(w, from, &(message){.kind = MESSAGE_REDUCED, .u.reduced = body}, false);
}

static void dies(world *w, uint32_t number) {
    const uint32_t expelled = w->notifications[TELL_EXPELLED];
    for (uint32_t i = 0; w->notifications[TELL_EXPELLED] == expelled; i++) {
        assert_true(i < 300);
        step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(number), .refused = true});
        for (uint32_t other = OTHER_DATA; other <= KEEPER_C; other++) beat_at(w, other, 1);
        tick(w);
    }
}

// LEADER leads OTHER_DATA, which has a settled microbatch, and the three members of stage 1. CLOSE
// is applied.
static void lead_to_close(world *w, const member_kind kind[3]) {
    log_entry log[7] = {[5] = {.kind = LOG_OWNER, .u.owner = {.member = OTHER_DATA}}, [6] = {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    for (uint32_t i = 0; i < 5; i++)
        log[i] = (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i + 1), .kind = (uint8_t)(i < 2 ? MEMBER_DATA : kind[i - 2]), .stage = i > 1, .capacity = 2, .incarnation = i + 7, .store = i + 7}};
    w->failing_job = JOB_STATE_INIT;
    w->run.standbys = 2;
    w->run.blocks[1] = 16;
    recall_all(w, 1, log, sizeof log / sizeof *log);
    while (!leads(w)) tick(w);
    for (uint32_t i = OTHER_DATA; i <= KEEPER_C; i++) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = OTHER_DATA; i <= KEEPER_C; i++) {
        beat_at(w, i, 1);
        deliver(w, i, &(message){.kind = MESSAGE_STATE, .u.state.stage = i > 2}, false);
    }
    message settled = {.kind = MESSAGE_SETTLED, .u.settled = {.subject = {.owner_term = 6}, .tokens = 1, .path = {.stages = 2, .member = {OTHER_DATA, KEEPER_A}}}};
    deliver(w, OTHER_DATA, &settled, false);
    tick(w);
    assert_int_equal(w->last_record_kind, LOG_CLOSE);
}

// Rule J11. Given two standbys of a stage, when one is asked to leave, then it is removed.
static void test_one_of_two_standbys_leaves(void **state) {
    (void)state;
    world w = {.run = run_of(2, 1, 1)};
    lead_to_close(&w, (const member_kind[3]){MEMBER_RELAY, MEMBER_SHADOW, MEMBER_SHADOW});
    deliver(&w, KEEPER_B, &(message){.kind = MESSAGE_LEAVE, .u.leave.reason = EXPEL_LEFT}, false);
    reports(&w, OTHER_DATA, 0, 1, 1);
    reports(&w, KEEPER_A, 1, 1, 1);
    reports(&w, KEEPER_C, 1, 1, 1);
    for (uint32_t i = 0; w.notifications[TELL_ITERATION] == 0; i++) {
        assert_true(i < 20);
        for (uint32_t other = OTHER_DATA; other <= KEEPER_C; other++) beat_at(&w, other, 1);
        tick(&w);
    }
    tick(&w);
    assert_int_equal(w.notifications[TELL_EXPELLED], 1);
    free(w.p);
}

// A fast run in these steps:
// 1. KEEPER_B dies, so the stage is reduced once more, to other sums or by chance the same.
// 2. KEEPER_A has the new sums and dies while FINAL is made of them.
// 3. The standby, KEEPER_C, had only the first sums and has dropped them.
// The standby is promoted, and FINAL does not use the lost sums.
static void standby_had_an_older_round(uint8_t root) {
    world w = {.run = run_of(2, 1, 1)};
    w.run.reproducible = false;
    lead_to_close(&w, (const member_kind[3]){MEMBER_RELAY, MEMBER_RELAY, MEMBER_SHADOW});
    reports(&w, OTHER_DATA, 0, 1, 1);
    reports(&w, KEEPER_C, 1, 1, 1);
    dies(&w, KEEPER_B);
    w.busy = true;
    reports(&w, KEEPER_A, 1, 2, root);
    for (uint32_t i = 0; w.work.kind != JOB_DECIDE || w.work.id == 0; i++) {
        assert_true(i < 100);
        for (uint32_t other = OTHER_DATA; other <= KEEPER_C; other++) beat_at(&w, other, 1);
        tick(&w);
    }
    dies(&w, KEEPER_A);
    w.busy = false;
    do_job(&w);
    tick(&w);
    assert_int_equal(w.records[LOG_FINAL], 0);
    assert_int_equal(w.records[LOG_PROMOTE], 1);
    free(w.p);
}

// Rule B3. Given a fast run and a standby with results of an older round, when the last relay dies,
// then FINAL does not depend on them.
static void test_standby_reports_of_an_older_round_do_not_count(void **state) {
    (void)state;
    standby_had_an_older_round(2);
    standby_had_an_older_round(1);
}

// Rule G9. Given a stage with two relays and an empty one, when one relay is moved, then it joins
// the empty stage.
static void test_moved_relay_fills_the_empty_stage(void **state) {
    (void)state;
    const log_member member[3] = {{.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(RELAY), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2},
                                  {.peer = name_of(MOVED), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_MEMBER, .u.member = member[2]},
                             {.kind = LOG_OWNER, .u.owner = {.member = LEADER}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    world w = {.run = run_of(3, 1, 1)};
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    while (!leads(&w)) tick(&w);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(MOVED)});
    while (w.notifications[TELL_EXPELLED] == 0) {
        assert_in_range(w.now / MILLISECOND, 0, 8000);
        beat_at(&w, MOVED, 0);
        tick(&w);
    }
    w.slow_store = true;
    w.log = w.last_appended;
    deliver(&w, MOVED, &(message){.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3}}, false);
    assert_int_equal(w.appends, 1);
    assert_int_equal(w.append[0].kind, LOG_MEMBER);
    assert_int_equal(w.append[0].u.member.stage, 2);
    free(w.p);
}

// Rule V38. Given an unheard leader with a longer log, when it sends DISMISS, then the peer exits.
static void test_leave_from_a_member_with_a_longer_log_is_obeyed(void **state) {
    (void)state;
    world w = {.self = 0};
    message leave = {.kind = MESSAGE_DISMISS};
    open_relay(&w);
    admit(&w, NEW_LEADER, MEMBER_DATA, 0);
    run_begins(&w, 1);
    deliver(&w, NEW_LEADER, &leave, false);
    assert_false(w.exited);
    w.log++;
    deliver(&w, NEW_LEADER, &leave, false);
    assert_true(w.exited);
    free(w.p);
}

// RELAY may get DISMISS of UNKNOWN, which leads. It obeys when a majority of the voters has been
// gone for a minute. Returns whether it exits.
static bool exits_after_dismiss(bool told, uint32_t voters_there) {
    world w = {.self = 0};
    message leave = {.kind = MESSAGE_DISMISS};
    log_entry voters = {.kind = LOG_VOTERS, .u.voters = {.count = 3, .voter = {{.id = name_of(LEADER)}, {.id = name_of(VOTER_A)}, {.id = name_of(VOTER_B)}}}};
    open_relay(&w);
    admit(&w, VOTER_B, MEMBER_DATA, 0);
    run_begins(&w, 1);
    append(&w, voters);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(VOTER_A)});
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(UNKNOWN)});
    w.log += 10;
    if (told) deliver(&w, UNKNOWN, &leave, false);
    w.log -= 10;
    for (uint32_t i = 0; i < 3000 && !w.exited; i++) {
        for (uint32_t k = 0; k < voters_there; k++) beat_at(&w, VOTER_A + k, 1);
        tick(&w);
    }
    assert_true(!w.exited || w.now > 60 * 1000 * MILLISECOND);
    free(w.p);
    return w.exited;
}

// Rule V38. Given an unknown leader, when a majority of the known voters is gone for a minute, then
// its DISMISS is obeyed.
static void test_leave_from_an_unknown_leader_is_obeyed_without_voters(void **state) {
    (void)state;
    assert_true(exits_after_dismiss(true, 0));
    assert_true(exits_after_dismiss(true, 1));
    assert_false(exits_after_dismiss(true, 2));
    assert_false(exits_after_dismiss(false, 0));
}

// OTHER_DATA has an old snapshot. It reads the snapshot of LEADER from the beginning, up to `count`
// entries.
static void read_once_more(world *w, const log_entry *entries, uint64_t count) {
    const uint64_t newest = w->log;
    for (uint64_t i = 0; i < count; i++) {
        message m = {.kind = MESSAGE_LOG, .u.log = {.reset = i == 0, .previous = i, .entry = entries[i]}};
        m.u.log.entry.index = i + 1;
        m.u.log.entry.term = 1;
        w->log = newest + 1;
        deliver(w, LEADER, &m, false);
    }
}

// A checkpoint of version 4 is undone, one of version 4 is written again, and the run rolls back to
// `version`. When the entries are read again, the undone CHECKPOINT has no effect. It does not
// replace the valid one either.
static void read_what_was_undone(uint64_t version) {
    const braid_hash undone = {.bytes = {1}}, valid = {.bytes = {2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = {.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1}},
                             {.kind = LOG_MEMBER, .u.member = {.peer = name_of(OTHER_DATA), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1}},
                             {.kind = LOG_CHECKPOINT, .u.checkpoint = {.version = 4, .weights = undone, .stages = 2}},
                             {.kind = LOG_RUN, .u.run = {.generation = 2, .reached = 5}},
                             {.kind = LOG_CHECKPOINT, .u.checkpoint = {.version = 4, .weights = valid, .stages = 2}},
                             {.kind = LOG_RUN, .u.run = {.generation = 3, .start_version = version, .reached = 5}}};
    enum { ENTRIES = sizeof log / sizeof *log };
    world w = {.run = run_of(2, 2, 1)};
    open_world(&w, OTHER_DATA, MEMBER_DATA);
    for (uint32_t i = 0; i < ENTRIES; i++) append(&w, log[i]);
    for (uint64_t read = 1; read <= ENTRIES; read++) {
        log_entry kept;
        uint32_t checkpoints = 0;
        read_once_more(&w, log, read);
        for (uint64_t after = 0; peer_snapshot(w.p, after, &kept); after = kept.index) {
            if (kept.kind != LOG_CHECKPOINT) continue;
            assert_memory_equal(&kept.u.checkpoint.weights, &valid, sizeof valid);
            checkpoints++;
        }
        assert_int_equal(checkpoints, version == 4);
    }
    free(w.p);
}

// Rule G5. Given a CHECKPOINT that a rollback undid, when it is read again from a snapshot, then it
// has no effect.
static void test_undone_checkpoint_read_again_is_void(void **state) {
    (void)state;
    read_what_was_undone(0);
    read_what_was_undone(4);
}

// LEADER continued from a checkpoint, and a newer one was written. No peer has the newest state.
// LEADER restarts and leads.
static void come_back_to_two_checkpoints(world *w) {
    const log_member member[2] = {{.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(RELAY), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = LEADER}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1, .start_version = 5}}, {.kind = LOG_FINAL, .u.final = {.iteration = 5, .stages = 2}},
                             {.kind = LOG_CHECKPOINT, .u.checkpoint = {.version = 6, .stages = 2}}, {.kind = LOG_FINAL, .u.final = {.iteration = 6, .stages = 2}}};
    w->run = run_of(2, 1, 1);
    w->starts_run = true;
    w->run.start_version = 5;
    w->run.iterations = 100;
    w->run.save = true;
    recall_all(w, 1, log, sizeof log / sizeof *log);
    while (!leads(w)) tick(w);
    step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(RELAY)});
}

// Rule G1. Given a newer checkpoint that cannot be read, when the run rolls back, then it returns
// to the initial one.
static void test_initial_checkpoint_stays_a_target(void **state) {
    (void)state;
    world w = {.failing_job = JOB_STATE_INIT};
    come_back_to_two_checkpoints(&w);
    for (uint32_t i = 0; w.notifications[TELL_ROLLED_BACK] < 2; i++) {
        assert_true(i < 300);
        beat_at(&w, RELAY, 0);
        tick(&w);
    }
    free(w.p);
}

// Rule G1. Given a slow disk, when the search for a newer checkpoint ends after the rollback was
// decided, then the initial one still exists.
static void test_initial_checkpoint_stays_when_a_newer_one_is_found(void **state) {
    (void)state;
    const job_kind fails[] = {JOB_NONE, JOB_SAVE_FIND};
    for (uint32_t k = 0; k < 2; k++) {
        world w = {.busy = true, .failing_job = fails[k]};
        come_back_to_two_checkpoints(&w);
        assert_int_equal(w.work.kind, JOB_SAVE_FIND);
        for (uint32_t i = 0; w.last_record_kind != LOG_RUN; i++) {
            assert_true(i < 300);
            w.slow_store = i >= 10;
            beat_at(&w, RELAY, 0);
            tick(&w);
        }
        w.busy = false;
        do_job(&w);
        assert_int_equal(w.notifications[TELL_ROLLED_BACK], 0);
        w.slow_store = false;
        tick(&w);
        assert_int_equal(w.notifications[TELL_ROLLED_BACK], 1);
        peer_view view;
        peer_look(w.p, &view);
        assert_true(view.ready);
        assert_int_equal(view.version, 5);
        free(w.p);
    }
}

// Rule V18. Given a returning leader, when it becomes a member while FINAL is being decided, then
// it completes the decision.
static void test_leader_admitted_during_the_decision_decides(void **state) {
    (void)state;
    log_entry log[6] = {[3] = {.kind = LOG_OWNER, .u.owner = {.member = OTHER_DATA}}, [4] = {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    for (uint32_t i = 0; i < 3; i++)
        log[i] = (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i + 1), .kind = (uint8_t)(i < 2 ? MEMBER_DATA : MEMBER_RELAY), .stage = i > 1, .capacity = 2, .incarnation = i + 7, .store = i + 7}};
    log[5] = (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {1}, .tokens = 1}};
    world w = {.run = run_of(2, 1, 1)};
    w.failing_job = JOB_STATE_INIT;
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    w.slow_store = true;
    for (uint32_t i = 0; !leads(&w); i++) {
        assert_true(i < 100);
        tick(&w);
        if (!leads(&w)) store(&w);
    }
    assert_int_equal(w.last_record_kind, LOG_MEMBER);  // its own, not committed yet
    for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) {
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
        deliver(&w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1}}, false);
    }
    w.busy = true;
    reports(&w, OTHER_DATA, 0, 1, 1);
    reports(&w, KEEPER_A, 1, 1, 1);
    for (uint32_t i = 0; w.work.kind != JOB_DECIDE || w.work.id == 0; i++) {
        assert_true(i < 30);
        for (uint32_t other = OTHER_DATA; other <= KEEPER_A; other++) beat_at(&w, other, 1);
        tick(&w);
    }
    w.slow_store = false;
    store(&w);
    peer_view view;
    peer_look(w.p, &view);
    assert_true(view.member != 0);
    w.busy = false;
    do_job(&w);
    for (uint32_t i = 0; i < 600 && w.records[LOG_FINAL] == 0; i++) {
        for (uint32_t other = OTHER_DATA; other <= KEEPER_A; other++) beat_at(&w, other, 1);
        if (i % 10 == 0) reports(&w, OTHER_DATA, 0, 1, 1);
        if (i % 10 == 0) reports(&w, KEEPER_A, 1, 1, 1);
        tick(&w);
    }
    assert_int_equal(w.records[LOG_FINAL], 1);
    free(w.p);
}

// Rule J11. Given two leaving standbys, when the only relay dies while FINAL is appended, then they
// stay.
static void test_standbys_with_the_only_next_version_stay(void **state) {
    (void)state;
    world w = {.run = run_of(2, 1, 1)};
    lead_to_close(&w, (const member_kind[3]){MEMBER_RELAY, MEMBER_SHADOW, MEMBER_SHADOW});
    for (uint32_t i = KEEPER_B; i <= KEEPER_C; i++) deliver(&w, i, &(message){.kind = MESSAGE_LEAVE, .u.leave.reason = EXPEL_LEFT}, false);
    w.slow_store = true;
    reports(&w, OTHER_DATA, 0, 1, 1);
    for (uint32_t i = KEEPER_A; i <= KEEPER_C; i++) reports(&w, i, 1, 1, 1);
    for (uint32_t i = 0; w.records[LOG_EXPEL] == 0; i++) {
        assert_true(i < 100);
        if (w.records[LOG_FINAL] > 0) step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(KEEPER_A), .refused = true});
        for (uint32_t other = OTHER_DATA; other <= KEEPER_C; other++)
            if (other != KEEPER_A || w.records[LOG_FINAL] == 0) beat_at(&w, other, 1);
        tick(&w);
    }
    assert_int_equal(w.last_record_kind, LOG_EXPEL);
    w.slow_store = false;
    for (uint32_t i = 0; i < 20; i++) {
        for (uint32_t other = OTHER_DATA; other <= KEEPER_C; other++)
            if (other != KEEPER_A) beat_at(&w, other, 2);
        tick(&w);
    }
    assert_int_equal(w.notifications[TELL_ITERATION], 1);
    assert_int_equal(w.records[LOG_EXPEL], 1);
    assert_int_equal(w.records[LOG_PROMOTE], 1);
    free(w.p);
}

// Rule J11. Given two data peers with the same version, when one is asked to leave, then it is
// removed at FINAL.
static void test_other_data_peer_leaves_at_final(void **state) {
    (void)state;
    world w = {.self = 0};
    recall(&w, 1, false);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; i < 20; i++) {
        for (uint32_t other = OTHER_DATA; other <= KEEPER_A; other++) beat_at(&w, other, 1);
        tick(&w);
    }
    peer_view view;
    peer_look(w.p, &view);
    assert_true(view.ready);
    deliver(&w, OTHER_DATA, &(message){.kind = MESSAGE_LEAVE, .u.leave.reason = EXPEL_LEFT}, false);
    for (uint16_t s = 0; s < 2; s++) deliver(&w, s == 0 ? OTHER_DATA : KEEPER_A, &(message){.kind = MESSAGE_STATE, .u.state.stage = s}, false);
    message settled = {.kind = MESSAGE_SETTLED, .u.settled = {.subject = {.owner_term = 4}, .is_void = true, .path = {.stages = 2, .member = {OTHER_DATA, KEEPER_A}}}};
    deliver(&w, OTHER_DATA, &settled, false);
    for (uint32_t i = 0; w.notifications[TELL_ITERATION] == 0; i++) {
        assert_true(i < 20);
        for (uint32_t other = OTHER_DATA; other <= KEEPER_A; other++) beat_at(&w, other, 1);
        tick(&w);
    }
    tick(&w);
    assert_int_equal(w.notifications[TELL_EXPELLED], 1);
    assert_int_equal(w.records[LOG_RUN], 0);
    free(w.p);
}

static void state_of(world *w, uint32_t from, uint16_t stage) {
    beat_at(w, from, 2);
    deliver(w, from, &(message){.kind = MESSAGE_STATE, .iteration = 1, .u.state = {.stage = stage, .version = 1}}, false);
}

// LEADER leads OTHER_DATA and KEEPER_A, and reads version 1 of them for a checkpoint. Returns when
// the last blocks of KEEPER_A have arrived.
static void read_a_checkpoint(world *w) {
    w->run = run_of(2, 1, 1);
    w->run.save = true;
    w->run.checkpoint_every = 1;
    recall(w, 1, true);
    for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; !w->busy; i++) {
        assert_true(i < 100);
        state_of(w, OTHER_DATA, 0);
        state_of(w, KEEPER_A, 1);
        tick(w);
        const uint32_t count = w->get_count;
        w->get_count = 0;
        for (uint32_t k = 0; k < count; k++) {
            const message_get what = w->get[k].u.get;
            w->busy = what.what == GET_STATE && what.stage == 1;
            deliver(w, w->get_to[k], &(message){.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = what}, true);
        }
    }
    assert_int_equal(w->work.kind, JOB_SAVE);
}

// Rule G2. Given a slow disk and a checkpoint with all chunks read, when the relay dies, then the
// run continues from that checkpoint.
static void test_stage_in_a_checkpoint_under_way_is_not_lost(void **state) {
    (void)state;
    world w = {.self = 0};
    read_a_checkpoint(&w);
    for (uint32_t i = 0; i < 100; i++) {
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(KEEPER_A), .refused = true});
        state_of(&w, OTHER_DATA, 0);
        tick(&w);
    }
    assert_int_equal(w.notifications[TELL_EXPELLED], 1);
    assert_int_equal(w.records[LOG_RUN], 0);
    w.busy = false;
    do_job(&w);
    for (uint32_t i = 0; w.notifications[TELL_ROLLED_BACK] == 0; i++) {
        assert_true(i < 100);
        state_of(&w, OTHER_DATA, 0);
        tick(&w);
    }
    peer_view view;
    peer_look(w.p, &view);
    assert_int_equal(view.iteration, 1);
    assert_int_equal(w.records[LOG_CHECKPOINT], 1);
    free(w.p);
}

// Rule D5. Given a lost stage, when the leader is paused, then the pause does not count as time for
// returning peers.
static void test_pause_of_the_leader_is_no_waiting(void **state) {
    (void)state;
    uint32_t ticks[2];
    for (uint32_t sleeps = 0; sleeps < 2; sleeps++) {
        world w = {.self = 0};
        recall(&w, 1, true);
        while (!leads(&w)) tick(&w);
        for (uint32_t i = OTHER_DATA; i <= KEEPER_A; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
        for (ticks[sleeps] = 0; w.records[LOG_RUN] == 0; ticks[sleeps]++) {
            assert_true(ticks[sleeps] < 100);
            if (sleeps && ticks[sleeps] == 12) w.now += 5000 * MILLISECOND;
            tick(&w);
            beat_at(&w, OTHER_DATA, 2);
            beat_at(&w, KEEPER_A, 0);  // no state
        }
        free(w.p);
    }
    assert_in_range(ticks[0], 15, 25);
    assert_in_range(ticks[1], ticks[0] - 1, ticks[0] + 1);
}

// Rule J7. Given a relay with the only state of its stage, when it rejoins after a snapshot, then
// it is admitted to the same stage.
static void test_only_holder_returns_to_its_stage(void **state) {
    (void)state;
    log_entry log[6] = {[4] = {.kind = LOG_OWNER, .u.owner = {.member = LEADER}}, [5] = {.kind = LOG_RUN, .u.run = {.generation = 1, .start_version = 5}}};
    const uint16_t stage_of[] = {0, 1, 1, 2};
    for (uint32_t i = 0; i < 4; i++)
        log[i] = (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i + 1), .kind = (uint8_t)(i == 0 ? MEMBER_DATA : MEMBER_RELAY), .stage = stage_of[i], .capacity = i + 1 == LAST_RELAY ? 1 : 2, .incarnation = i + 7, .store = i + 7}};
    world w = {.run = run_of(3, 1, 1)};
    w.run.start_version = 5;
    w.run.iterations = 100;
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = HOLDER; i <= LAST_RELAY; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = HOLDER; i <= LAST_RELAY; i++) beat_at(&w, i, i == EMPTY ? 0 : 6);
    tick(&w);
    w.slow_store = true;
    w.log = w.last_appended;
    deliver(&w, HOLDER, &(message){.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_RELAY, .capacity = 2, .incarnation = 8}}, false);
    assert_int_equal(w.appends, 1);
    assert_int_equal(w.append[0].kind, LOG_MEMBER);
    assert_int_equal(w.append[0].u.member.stage, 1);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_checkpoint_stays_a_target),
        cmocka_unit_test(test_initial_checkpoint_stays_when_a_newer_one_is_found),
        cmocka_unit_test(test_joiner_after_a_rollback_sees_a_start),
        cmocka_unit_test(test_member_is_told_of_a_rollback),
        cmocka_unit_test(test_no_close_after_an_uncommitted_rollback),
        cmocka_unit_test(test_any_peer_is_admitted_while_no_checkpoint_is_readable),
        cmocka_unit_test(test_new_leader_restarts_the_wait_for_silent_members),
        cmocka_unit_test(test_only_holder_of_the_next_version_stays),
        cmocka_unit_test(test_final_does_not_depend_on_a_member_under_removal),
        cmocka_unit_test(test_one_of_two_standbys_leaves),
        cmocka_unit_test(test_standby_reports_of_an_older_round_do_not_count),
        cmocka_unit_test(test_leader_admitted_during_the_decision_decides),
        cmocka_unit_test(test_standbys_with_the_only_next_version_stay),
        cmocka_unit_test(test_other_data_peer_leaves_at_final),
        cmocka_unit_test(test_only_holder_returns_to_its_stage),
        cmocka_unit_test(test_stage_in_a_checkpoint_under_way_is_not_lost),
        cmocka_unit_test(test_pause_of_the_leader_is_no_waiting),
        cmocka_unit_test(test_moved_relay_fills_the_empty_stage),
        cmocka_unit_test(test_leave_from_a_member_with_a_longer_log_is_obeyed),
        cmocka_unit_test(test_leave_from_an_unknown_leader_is_obeyed_without_voters),
        cmocka_unit_test(test_undone_checkpoint_read_again_is_void),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
