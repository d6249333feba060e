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

static void recall_all(world *w, uint16_t voters, const log_entry *state, uint16_t entries) {
    log_entry base = {.kind = LOG_BASE, .index = entries, .term = 1, .u.base = {.entries = entries, .applied = entries, .voters.count = voters}};
    for (uint16_t i = 0; i < voters; i++) base.u.base.voters.voter[i] = (log_voter){.id = name_of(i + 1u), .store = i + 1u};
    w->log = entries;
    begin_world(w, 1, MEMBER_DATA);
    assert_true(peer_recall(w->p, &base));
    for (uint32_t i = 0; i < entries; i++) {
        log_entry entry = state[i];
        entry.index = i + 1u;
        assert_true(peer_recall(w->p, &entry));
    }
}

// A data peer reads its store, in which it was one of `voters` and another data peer and a relay had begun with it. Iteration 0 is over.
static void recall(world *w, uint16_t voters) {
    const log_member member[3] = {{.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(2), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2, .store = 2},
                                  {.peer = name_of(3), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3}};
    const log_entry state[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_MEMBER, .u.member = member[2]},
                               {.kind = LOG_OWNER, .u.owner = {.member = 2}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 2}}};
    *w = (world){.run = run_of(2, 1, 1)};
    recall_all(w, voters, state, sizeof state / sizeof *state);
}

static void tick(world *w) {
    w->now += 100 * MILLISECOND;
    step(w, &(event){.kind = EVENT_TICK});
}

static bool leads(const world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return view.leads;
}

static void beat(world *w, uint32_t from, uint64_t reaches) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = reaches, .reaches = reaches}};
    deliver(w, from, &m, false);
}

// It goes back, and before that is in the log the last microbatch is settled: a CLOSE would come behind it, and close an iteration that
// is not there any more.
static void test_nothing_is_decided_behind_the_way_back(void **state) {
    (void)state;
    world w;
    recall(&w, 1);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = 2; i <= 3; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; w.stored != LOG_RUN; i++) {
        assert_true(i < 100);
        if (i == 10) w.slow_store = true;
        beat(&w, 2, 2);
        beat(&w, 3, 0);  // it has nothing
        tick(&w);
    }
    message settled = {.kind = MESSAGE_SETTLED, .iteration = 1, .u.settled = {.subject = {.owner_term = 4}, .is_void = true, .path = {.stages = 2, .member = {2, 3}}}};
    deliver(&w, 2, &settled, false);
    tick(&w);
    assert_int_equal(w.stored, LOG_RUN);
    w.slow_store = false;
    tick(&w);
    assert_int_equal(w.told[TELL_ROLLED_BACK], 1);
    assert_int_equal(w.stored, LOG_RUN);
    free(w.p);
}

// All is computed, a stage has lost it, and nobody here can read what the run began from. Whoever comes may, and is let in.
static void test_who_may_have_the_start_is_let_in(void **state) {
    (void)state;
    const log_member member[2] = {{.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(2), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = 1}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1, .start_version = 1}}, {.kind = LOG_FINAL, .u.final = {.iteration = 1, .last = true, .stages = 2}}};
    world w = {.run = run_of(2, 1, 1)};
    w.run.start_version = 1;
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    while (!leads(&w)) tick(&w);
    for (uint32_t i = 2; i <= 3; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; i < 50; i++) {
        beat(&w, 2, 1);
        tick(&w);
    }
    w.slow_store = true;
    w.log = 0;
    deliver(&w, 3, &(message){.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_DATA, .capacity = 2, .incarnation = 3}}, false);
    assert_int_equal(w.appends, 1);
    assert_int_equal(w.append[0].kind, LOG_MEMBER);
    free(w.p);
}

static void answer(world *w, message_kind kind, bool trial) {
    message m = {.kind = (uint8_t)kind};
    if (kind == MESSAGE_VOTED) m.u.voted = (message_voted){.to = 1, .from = 2, .term = 2, .trial = trial, .granted = true};
    else m.u.appended = (message_appended){.to = 1, .from = 2, .term = 2, .accepted = true, .match = w->newest};
    deliver(w, 2, &m, false);
}

// Nobody leads for half a minute. Who is silent then has not been silent towards the leader for so long, and is waited for 10 s.
static void test_a_new_leader_waits_anew(void **state) {
    (void)state;
    world w;
    recall(&w, 2);
    for (uint32_t i = 0; i < 300; i++) tick(&w);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(2)});
    answer(&w, MESSAGE_VOTED, true);
    answer(&w, MESSAGE_VOTED, false);
    answer(&w, MESSAGE_APPENDED, false);
    assert_true(leads(&w));
    uint32_t ticks = 0;
    for (; w.told[TELL_ROLLED_BACK] == 0; ticks++) {
        assert_true(ticks < 200);
        tick(&w);
        answer(&w, MESSAGE_APPENDED, false);
    }
    assert_in_range(ticks, 100, 140);
    free(w.p);
}

// A relay that does not vote has the last FINAL. Three data peers do, each a member with the store of its number and `newer`.
static void all_is_computed(world *w, uint64_t newer) {
    *w = (world){.run = run_of(2, 1, 1)};
    open_world(w, 4, MEMBER_RELAY);
    log_voters voters = {.count = 3};
    for (uint32_t i = 1; i <= 3; i++) {
        append(w, (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .store = i + newer}});
        voters.voter[i - 1] = (log_voter){.id = name_of(i), .store = i};
    }
    admit(w, 4, MEMBER_RELAY, 1);
    own(w, 0, 1);
    run_begins(w, 1);
    append(w, (log_entry){.kind = LOG_VOTERS, .u.voters = voters});
    append(w, (log_entry){.kind = LOG_FINAL, .u.final = {.skip = true, .last = true, .stages = 2}});
}

// All is computed, and nobody says goodbye: those who vote do not speak any more, though their links stand. They are waited for for a minute.
static void test_a_link_on_which_nobody_speaks_holds_nobody(void **state) {
    (void)state;
    world w;
    all_is_computed(&w, 0);
    const uint64_t began = w.now;
    while (!w.exited && w.now - began < 100000 * MILLISECOND) tick(&w);
    assert_true(w.exited);
    assert_in_range((w.now - began) / MILLISECOND, 59000, 62000);
    free(w.p);
}

// Two relays work for one stage, one of them silent, and nobody for the other. Nothing was applied yet: who is moved goes where nobody is,
// though nobody answers where it was.
static void test_who_is_moved_fills_the_empty_stage(void **state) {
    (void)state;
    const log_member member[3] = {{.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(2), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2},
                                  {.peer = name_of(3), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_MEMBER, .u.member = member[2]},
                             {.kind = LOG_OWNER, .u.owner = {.member = 1}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    world w = {.run = run_of(3, 1, 1)};
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    while (!leads(&w)) tick(&w);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(3)});
    while (w.told[TELL_EXPELLED] == 0) {
        assert_in_range(w.now / MILLISECOND, 0, 8000);
        beat(&w, 3, 0);
        tick(&w);
    }
    w.slow_store = true;
    w.log = w.newest;
    deliver(&w, 3, &(message){.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3}}, false);
    assert_int_equal(w.appends, 1);
    assert_int_equal(w.append[0].kind, LOG_MEMBER);
    assert_int_equal(w.append[0].u.member.stage, 2);
    free(w.p);
}

// Who leads by now was never heard to say so. It has read more of the log, and does not say twice that the run is complete.
static void test_who_knows_more_sends_home(void **state) {
    (void)state;
    world w = {.self = 0};
    message leave = {.kind = MESSAGE_LEAVE, .u.leave.dismissed = true};
    open_relay(&w);
    admit(&w, 4, MEMBER_DATA, 0);
    run_begins(&w, 1);
    deliver(&w, 4, &leave, false);
    assert_false(w.exited);
    w.log++;
    deliver(&w, 4, &leave, false);
    assert_true(w.exited);
    free(w.p);
}

// The run has ended, as the log says, and who led has begun to say so. Whoever leads next goes on with that, whatever is lost by then;
// so does one whose store was begun anew behind END.
static void test_who_finds_the_end_says_goodbye(void **state) {
    (void)state;
    const log_member member[2] = {{.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(2), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = 1}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_FINAL, .u.final = {.last = true, .stages = 2}}, {.kind = LOG_END}};
    world w = {.run = run_of(2, 1, 1)};
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    log_entry kept;
    bool ends = false;
    for (uint64_t after = 0; peer_snapshot(w.p, after, &kept); after = kept.index) ends |= kept.kind == LOG_END;
    assert_true(ends);
    for (uint32_t i = 2; i <= 3; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; !w.exited; i++) {
        assert_true(i < 100);
        tick(&w);
    }
    assert_int_equal(w.sent[MESSAGE_LEAVE], 2);
    assert_int_equal(w.told[TELL_END], 0);
    free(w.p);
}

// All is computed, and who voted is back without what it had stored: peers that answer, and no voters.
static void test_a_voter_is_there_with_its_store(void **state) {
    (void)state;
    for (uint64_t lost = 0; lost < 2; lost++) {
        world w;
        all_is_computed(&w, 100 * lost);
        for (uint32_t v = 2; v <= 3; v++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(v)});
        for (uint32_t i = 0; i < 1000 && !w.exited; i++) {
            for (uint32_t v = 1; v <= 3; v++) beat(&w, v, 0);
            tick(&w);
        }
        assert_int_equal(w.exited, lost);
        free(w.p);
    }
}

// All is computed, and nobody is elected for long. Who asks for votes, or answers who does, is there as a voter; a link on which it says
// only other things may be its next life's.
static void test_who_speaks_of_votes_votes(void **state) {
    (void)state;
    const log_member member[2] = {{.peer = name_of(1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(2), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2, .store = 2}};
    const log_voters voters = {.count = 2, .voter = {{.id = name_of(1), .store = 1}, {.id = name_of(2), .store = 2}}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = 1}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_VOTERS, .u.voters = voters}, {.kind = LOG_FINAL, .u.final = {.last = true, .stages = 1}}};
    for (uint32_t speaks = 0; speaks < 2; speaks++) {
        world w = {.run = run_of(1, 1, 1)};
        recall_all(&w, 2, log, sizeof log / sizeof *log);
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(2)});
        for (uint32_t i = 0; i < 1000 && !w.exited; i++) {
            message no = {.kind = MESSAGE_VOTED, .u.voted = {.to = 1, .from = 2, .term = 1, .trial = true}};
            beat(&w, 2, 0);
            if (speaks) deliver(&w, 2, &no, false);
            tick(&w);
        }
        assert_int_equal(w.exited, !speaks);
        free(w.p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_joins_afterwards_is_told_that_it_runs),
        cmocka_unit_test(test_who_was_there_is_told_that_it_goes_back),
        cmocka_unit_test(test_nothing_is_decided_behind_the_way_back),
        cmocka_unit_test(test_who_may_have_the_start_is_let_in),
        cmocka_unit_test(test_a_new_leader_waits_anew),
        cmocka_unit_test(test_a_link_on_which_nobody_speaks_holds_nobody),
        cmocka_unit_test(test_who_is_moved_fills_the_empty_stage),
        cmocka_unit_test(test_who_knows_more_sends_home),
        cmocka_unit_test(test_who_finds_the_end_says_goodbye),
        cmocka_unit_test(test_a_voter_is_there_with_its_store),
        cmocka_unit_test(test_who_speaks_of_votes_votes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
