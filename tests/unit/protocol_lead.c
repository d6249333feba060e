// Leaders, voters and the end of a run, at one peer.
#include "protocol/core/timing.h"
#include "protocol_world.h"

// The peers of most tests: the data peer under test, another data peer that votes, and a relay of
// stage 1. The log does not name the other two.
enum { SELF = 1, OTHER = 2, RELAY = 3, NO_MEMBER = 3, UNKNOWN = 5 };
// The peers of a computed run: three data peers that vote, and the relay under test.
enum { VOTER_A = 1, VOTER_B = 2, VOTER_C = 3, NO_VOTER = 4 };
// Two of these voters: a leader with a new address, and the member that reports its address.
enum { MOVED = 2, REPORTER = 3 };
// The peers of a run of two: the leader, where it is not SELF, and the only relay.
enum { LEADER = 1, ONLY_RELAY = 2 };
// The peers beside SELF in the test of a leaving voter: a dead voter, the leaving one, two relays.
enum { DEAD = 2, LEAVING = 3, RELAY_A = 4, RELAY_B = 5 };
// The members beside SELF and OTHER in a run of four: a voter that dies, and one without a vote.
enum { THIRD = 3, FOURTH = 4 };

// The relay under test has the last FINAL and does not vote. Three data peers vote. Each is a
// member with the log store of its number plus `newer`.
static void all_is_computed(world *w, uint64_t newer) {
    *w = (world){.run = run_of(2, 1, 1)};
    open_world(w, NO_VOTER, MEMBER_RELAY);
    log_voters voters = {.count = 3};
    for (uint32_t i = VOTER_A; i <= VOTER_C; i++) {
        append(w, (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .store = i + newer}});
        voters.voter[i - 1] = (log_voter){.id = name_of(i), .store = i};
    }
    admit(w, NO_VOTER, MEMBER_RELAY, 1);
    own(w, 0, VOTER_A);
    append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    append(w, (log_entry){.kind = LOG_VOTERS, .u.voters = voters});
    append(w, (log_entry){.kind = LOG_FINAL, .u.final = {.skip = true, .last = true, .stages = 2}});
}

// Rule V35. Given the last FINAL and voters with silent links, when a minute passes, then the
// member exits.
static void test_silent_links_do_not_hold_a_finished_member(void **state) {
    (void)state;
    world w;
    all_is_computed(&w, 0);
    const uint64_t began = w.now;
    while (!w.exited && w.now - began < 100000 * MILLISECOND) tick(&w);
    assert_true(w.exited);
    assert_in_range((w.now - began) / MILLISECOND, 59000, 62000);
    free(w.p);
}

// Rule V32. Given END in the log, compacted or not, when a new leader is elected, then it dismisses
// all peers.
static void test_new_leader_that_finds_end_sends_leave(void **state) {
    (void)state;
    const log_member member[2] = {{.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(ONLY_RELAY), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = SELF}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_FINAL, .u.final = {.last = true, .stages = 2}}, {.kind = LOG_END}};
    world w = {.run = run_of(2, 1, 1)};
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    log_entry kept;
    bool ends = false;
    for (uint64_t after = 0; peer_snapshot(w.p, after, &kept); after = kept.index) ends |= kept.kind == LOG_END;
    assert_true(ends);
    for (uint32_t i = ONLY_RELAY; i <= NO_MEMBER; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; !w.exited; i++) {
        assert_true(i < 100);
        tick(&w);
    }
    assert_int_equal(w.sent[MESSAGE_DISMISS], 2);
    assert_int_equal(w.notifications[TELL_END], 0);
    free(w.p);
}

// Rule V32. Given END in an unfinished iteration, when its leader dies, then the next one dismisses
// the peers.
static void test_end_without_the_last_iteration_is_continued(void **state) {
    (void)state;
    world w = {.run = run_of(2, 1, 1)};
    open_world(&w, ONLY_RELAY, MEMBER_RELAY);
    admit(&w, LEADER, MEMBER_DATA, 0);
    admit(&w, ONLY_RELAY, MEMBER_RELAY, 1);
    own(&w, 0, LEADER);
    append(&w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    append(&w, (log_entry){.kind = LOG_END});
    const uint64_t began = w.now;
    while (!w.exited && w.now - began < 60000 * MILLISECOND) {
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(LEADER), .refused = true});
        tick(&w);
    }
    assert_true(w.exited);
    assert_in_range((w.now - began) / MILLISECOND, 9000, 12000);
    free(w.p);
}

// Rule V35. Given a finished run, when its voters return without their logs, then they do not count
// as present.
static void test_voter_without_its_log_does_not_count(void **state) {
    (void)state;
    for (uint64_t lost = 0; lost < 2; lost++) {
        world w;
        all_is_computed(&w, 100 * lost);
        for (uint32_t v = VOTER_B; v <= VOTER_C; v++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(v)});
        for (uint32_t i = 0; i < 1000 && !w.exited; i++) {
            for (uint32_t v = VOTER_A; v <= VOTER_C; v++) beat_at(&w, v, 0);
            tick(&w);
        }
        assert_int_equal(w.exited, lost);
        free(w.p);
    }
}

// SELF reads its log. OTHER is the second voter, and all iterations are computed.
static void recall_all_computed(world *w) {
    const log_member member[2] = {{.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(OTHER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2, .store = 2}};
    const log_voters voters = {.count = 2, .voter = {{.id = name_of(SELF), .store = 1}, {.id = name_of(OTHER), .store = 2}}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = SELF}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_VOTERS, .u.voters = voters}, {.kind = LOG_FINAL, .u.final = {.last = true, .stages = 1}}};
    *w = (world){.run = run_of(1, 1, 1)};
    recall_all(w, 2, log, sizeof log / sizeof *log);
}

// Rule V35. Given no leader for long, when a linked voter sends Raft messages, then it counts as
// present; other messages do not suffice.
static void test_raft_messages_prove_a_voter(void **state) {
    (void)state;
    for (uint32_t speaks = 0; speaks < 2; speaks++) {
        world w;
        recall_all_computed(&w);
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
        for (uint32_t i = 0; i < 1000 && !w.exited; i++) {
            message no = {.kind = MESSAGE_VOTED, .u.voted = {.to = SELF, .from = OTHER, .term = 1, .pre_vote = true}};
            beat_at(&w, OTHER, 0);
            if (speaks) deliver(&w, OTHER, &no, false);
            tick(&w);
        }
        assert_int_equal(w.exited, !speaks);
        free(w.p);
    }
}

// Rule V35. Given voters with long election timeouts, when no leader is elected for a minute, then
// the present voter is still waited for.
static void test_long_election_timeout_is_waited_for(void **state) {
    (void)state;
    world w;
    recall_all_computed(&w);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
    message late = {.kind = MESSAGE_APPEND, .u.append = {.to = SELF, .from = OTHER, .term = 1, .election_timeout_ns = 30000 * MILLISECOND, .previous = w.last_appended, .previous_term = 1}};
    deliver(&w, OTHER, &late, false);
    const uint64_t began = w.now;
    while (!w.exited && w.now - began < 300000 * MILLISECOND) {
        beat_at(&w, OTHER, 0);
        tick(&w);
    }
    assert_in_range((w.now - began) / MILLISECOND, 115000, 135000);
    free(w.p);
}

// SELF alone began a run of one iteration and has computed it. It writes the last checkpoint, in
// which jobs of kind `fails` fail.
static void come_to_the_end(world *w, job_kind fails) {
    *w = (world){.run = run_of(1, 1, 1), .starts_run = true, .failing_job = fails};
    w->run.start_relays = 0;
    w->run.iterations = 1;
    w->run.save = true;
    begin_world(w, SELF, MEMBER_DATA);
    for (uint32_t i = 0; !w->exited; i++) {
        assert_true(i < 100);
        tick(w);
    }
    assert_int_equal(w->notifications[TELL_ITERATION], 1);
    assert_int_equal(w->notifications[TELL_END], 1);
}

// Rule V34. Given a computed run, when its last checkpoint cannot be written, then END is not
// appended.
static void test_no_end_without_the_last_checkpoint(void **state) {
    (void)state;
    const job_kind fails[] = {JOB_NONE, JOB_SAVE, JOB_SAVE_END};
    for (uint32_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        world w;
        come_to_the_end(&w, fails[i]);
        assert_int_equal(w.last_record_kind, fails[i] == JOB_NONE ? LOG_END : LOG_FINAL);
        free(w.p);
    }
}

static void pass(world *w, uint64_t seconds) {
    for (uint64_t until = w->now + seconds * 1000 * MILLISECOND; w->now < until;) tick(w);
}

// Rule V6. Given a member that was silent for 6 s or has not read the configuration, when a voter
// is needed, then it is not chosen.
static void test_silent_or_outdated_member_does_not_become_voter(void **state) {
    (void)state;
    world w = {.voters = 3};
    recall(&w, 2, false);
    timing_link line = {.heard_ns = 0};
    w.log += 100;  // every peer has read the entries that are decided next
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(RELAY)});
    for (uint32_t i = 0; i < 10; i++) {
        timing_heard(&line, w.now);
        beat_at(&w, RELAY, 1);
        pass(&w, i < 9 ? 3 : 6);
    }
    be_elected(&w);
    pass(&w, 1);
    assert_false(timing_suspect(&line, w.now));
    assert_int_equal(w.records[LOG_VOTERS], 1);  // two voters are both needed, so a second one alone is not added
    w.log = 0;
    beat_at(&w, RELAY, 1);
    assert_int_equal(w.records[LOG_VOTERS], 1);
    w.log = w.last_appended;
    beat_at(&w, RELAY, 1);
    assert_int_equal(w.records[LOG_VOTERS], 2);
    free(w.p);
}

// SELF reads the last state from OTHER and appends END.
static void write_the_end(world *w) {
    for (uint32_t i = 0; w->records[LOG_END] == 0; i++) {
        assert_true(i < 100);
        answer(w, MESSAGE_APPENDED, false);
        beat_at(w, OTHER, 2);
        deliver(w, OTHER, &(message){.kind = MESSAGE_STATE, .iteration = 1, .u.state.version = 1}, false);
        while (w->get_count > 0) deliver(w, OTHER, &(message){.kind = MESSAGE_DATA, .iteration = 1, .u.data.get = w->get[--w->get_count].u.get}, true);
        tick(w);
    }
}

// Rule V33. Given END written but not committed, when the other voter refuses connections, then
// peers are dismissed; when it is only silent, then not.
static void test_leader_without_quorum_dismisses_only_if_voters_are_gone(void **state) {
    (void)state;
    for (uint32_t gone = 0; gone < 2; gone++) {
        world w;
        recall_all_computed(&w);
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(NO_MEMBER)});
        pass(&w, 5);
        be_elected(&w);
        write_the_end(&w);
        if (gone) step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER), .refused = true});
        for (uint32_t i = 0; leads(&w) && !w.exited; i++) {
            assert_true(i < 100);
            tick(&w);
        }
        assert_int_equal(w.exited, gone);
        assert_int_equal(w.sent[MESSAGE_DISMISS], gone);
        free(w.p);
    }
}

// Rule V24. Given a leader that lost its quorum, when it steps down, then it asks its known peers
// for the leader.
static void test_deposed_leader_asks_for_the_new_one(void **state) {
    (void)state;
    world w = {0};
    recall(&w, 2, false);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(RELAY)});
    pass(&w, 5);
    be_elected(&w);
    uint32_t asked = w.sent[MESSAGE_GET_LOG];
    for (uint32_t i = 0; leads(&w); i++) {
        assert_true(i < 100);
        assert_int_equal(w.sent[MESSAGE_GET_LOG], asked);
        tick(&w);
    }
    pass(&w, 3);
    assert_true(w.sent[MESSAGE_GET_LOG] > asked);
    free(w.p);
}

static void speak_of_votes(world *w, uint64_t store, uint32_t seconds) {
    for (uint32_t i = 0; i < seconds; i++) {
        message no = {.kind = MESSAGE_VOTED, .u.voted = {.to = SELF, .from = store, .term = 1, .pre_vote = true}};
        deliver(w, OTHER, &no, false);
        pass(w, 1);
    }
}

// Rule V10. Given no leader, when the other voter is absent or returned without its log, then the
// user is told every two minutes. Raft messages of that voter end the reports.
static void test_voter_reports_missing_voters(void **state) {
    (void)state;
    world w = {.voters = 3};
    recall(&w, 2, false);
    pass(&w, 9);
    assert_int_equal(w.notifications[TELL_UNLED], 0);
    pass(&w, 3);
    assert_int_equal(w.notifications[TELL_UNLED], 1);
    pass(&w, 60);
    assert_int_equal(w.notifications[TELL_UNLED], 1);
    pass(&w, 70);
    assert_int_equal(w.notifications[TELL_UNLED], 2);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
    speak_of_votes(&w, 20, 130);
    assert_int_equal(w.notifications[TELL_UNLED], 3);
    speak_of_votes(&w, 2, 300);
    assert_int_equal(w.notifications[TELL_UNLED], 3);
    free(w.p);
}

static void be_for_it(world *w, uint32_t from, message_kind kind, uint64_t term, bool pre_vote) {
    message m = {.kind = (uint8_t)kind};
    if (kind == MESSAGE_VOTED) m.u.voted = (message_voted){.to = SELF, .from = from, .term = term, .pre_vote = pre_vote, .granted = true};
    else m.u.appended = (message_appended){.to = SELF, .from = from, .term = term, .accepted = true, .match = w->last_appended};
    deliver(w, from, &m, false);
}

static void lead_by(world *w, uint32_t voter, uint64_t term) {
    for (uint32_t i = 0; !leads(w); i++) {
        assert_true(i < 300);
        w->log = w->last_appended;
        be_for_it(w, voter, MESSAGE_VOTED, term, true);
        uint32_t led = w->records[LOG_LEAD];
        be_for_it(w, voter, MESSAGE_VOTED, term, false);
        if (w->records[LOG_LEAD] > led) be_for_it(w, voter, MESSAGE_APPENDED, term, false);
        tick(w);
    }
}

static void lead_in(world *w, uint64_t term) { lead_by(w, OTHER, term); }

// Rule V18. Given a leader that owns a large iteration, when it is elected again, then it resends
// all SETTLED to itself at once.
static void test_reelected_leader_gets_its_own_settled_messages(void **state) {
    (void)state;
    enum { MANY = WIRE_MAX_MICROBATCHES };
    const log_member me = {.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = me}, {.kind = LOG_OWNER, .u.owner = {.member = SELF}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    static world w;
    w = (world){.run = run_of(1, MANY, 1), .voters = 1, .forward_held = MANY};
    recall_all(&w, 2, log, sizeof log / sizeof *log);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
    lead_in(&w, 2);
    peer_view view = {0};
    for (uint32_t i = 0; view.counted + 1 < MANY; i++) {
        assert_true(i < 20 * MANY);
        be_for_it(&w, OTHER, MESSAGE_APPENDED, 2, false);
        tick(&w);
        peer_look(w.p, &view);
    }
    while (leads(&w)) tick(&w);
    peer_look(w.p, &view);
    const uint64_t term = view.term + 1;
    lead_in(&w, term);
    w.forward_held = 0;
    do_job(&w);
    for (uint32_t i = 0; w.records[LOG_CLOSE] == 0; i++) {
        assert_true(i < 100);
        be_for_it(&w, OTHER, MESSAGE_APPENDED, term, false);
        tick(&w);
    }
    free(w.p);
}

// Rule V7. Given a dead voter and a leaving one that the snapshot omits, when the latter sends Raft
// messages, then it counts as present.
static void test_leaving_voter_counts_as_present(void **state) {
    (void)state;
    const log_member member[4] = {{.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7, .store = 1}, {.peer = name_of(DEAD), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2, .store = 2},
                                  {.peer = name_of(RELAY_A), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 4, .store = 4}, {.peer = name_of(RELAY_B), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 5, .store = 5}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_MEMBER, .u.member = member[2]}, {.kind = LOG_MEMBER, .u.member = member[3]},
                             {.kind = LOG_OWNER, .u.owner = {.member = SELF}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    world w = {.run = run_of(2, 1, 1), .voters = 3};
    recall_all(&w, 3, log, sizeof log / sizeof *log);
    w.log += 100;
    for (uint32_t i = LEAVING; i <= RELAY_B; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; i < 50 && w.sent[MESSAGE_APPEND] == 0; i++) {
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(DEAD), .refused = true});
        be_for_it(&w, LEAVING, MESSAGE_VOTED, 2, true);
        be_for_it(&w, LEAVING, MESSAGE_VOTED, 2, false);
        tick(&w);
    }
    for (uint32_t i = 0; i < 600; i++) {
        if (i % 20 == 0) step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(DEAD), .refused = true});
        be_for_it(&w, LEAVING, MESSAGE_APPENDED, 2, false);
        message beat = {.kind = MESSAGE_HEARTBEAT};
        event e = {.kind = EVENT_MESSAGE, .id = name_of(LEAVING), .msg = &beat};
        beat.log_position = w.log;
        step(&w, &e);
        for (uint32_t relay = RELAY_A; relay <= RELAY_B; relay++) {  // members 3 and 4 of the log
            beat.sender = relay - 1u;
            e.id = name_of(relay);
            step(&w, &e);
        }
        tick(&w);
    }
    assert_true(leads(&w));
    assert_true(w.records[LOG_VOTERS] > 0);
    free(w.p);
}

// SELF returns with its log. If it leaves, it does not join again. It votes for OTHER. The
// log of OTHER begins after its own.
static uint32_t asks_for_the_log(bool leaves) {
    world w = {.voters = 3};
    recall(&w, 2, false);
    if (leaves) step(&w, &(event){.kind = EVENT_DRAIN});
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
    w.log += 3;
    for (uint32_t i = 0; i < 100 && !w.exited; i++) {
        message m = {.kind = MESSAGE_APPEND, .u.append = {.to = SELF, .from = OTHER, .term = 2, .has_entry = true, .previous = w.log, .previous_term = 1}};
        m.u.append.entry = (log_entry){.kind = LOG_BASE, .index = w.log, .term = 1, .u.base.voters = {.count = 2, .voter = {{.id = name_of(SELF), .store = 1}, {.id = name_of(OTHER), .store = 2}}}};
        deliver(&w, OTHER, &m, false);
        beat_at(&w, OTHER, 1);
        tick(&w);
    }
    assert_false(w.exited);
    free(w.p);
    return w.sent[MESSAGE_GET_LOG] + w.sent[MESSAGE_JOIN];
}

// Rule V7. Given a leaving voter, when the elected leader is ahead of its log, then it asks for the
// missing entries.
static void test_leaving_voter_asks_for_missing_entries(void **state) {
    (void)state;
    assert_true(asks_for_the_log(false) > 0);
    assert_true(asks_for_the_log(true) > 0);
}

// Rule V18. Given the only voter, restarted and leaving, when it leads, then it first removes its
// older membership; only then a standby is promoted.
static void test_leaving_leader_removes_its_older_membership(void **state) {
    (void)state;
    const log_member member[3] = {{.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(OTHER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2},
                                  {.peer = name_of(RELAY), .kind = MEMBER_SHADOW, .stage = 1, .capacity = 2, .incarnation = 3}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_MEMBER, .u.member = member[2]},
                             {.kind = LOG_OWNER, .u.owner = {.member = SELF}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    world w = {.run = run_of(2, 1, 1)};
    w.run.standbys = 1;
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    step(&w, &(event){.kind = EVENT_DRAIN});
    for (uint32_t i = OTHER; i <= RELAY; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    for (uint32_t i = 0; w.records[LOG_PROMOTE] == 0; i++) {
        assert_true(i < 100);
        for (uint32_t other = OTHER; other <= RELAY; other++) beat_at(&w, other, 1);
        tick(&w);
    }
    assert_true(leads(&w));
    assert_int_equal(w.records[LOG_EXPEL], 1);
    free(w.p);
}

// Rule V25. Given a cut-off voter and dead known voters, when only unknown leaders are heard for a
// minute, then it joins again.
static void test_member_led_only_by_unknown_peers_rejoins(void **state) {
    (void)state;
    world w = {.voters = 3};
    recall(&w, 2, false);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
    message m = {.kind = MESSAGE_LOG, .u.log = {.previous = 5, .entry = {.kind = LOG_MEMBER, .index = 6, .term = 1, .u.member = {.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .store = 1}}}};
    deliver(&w, OTHER, &m, false);
    for (uint32_t i = OTHER; i <= RELAY; i++) step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(i), .refused = true});
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(UNKNOWN)});
    w.sent[MESSAGE_JOIN] = 0;
    for (uint32_t i = 0; i < 6000; i++) {
        message beat = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat.leads = 9, .log_position = 100, .sender = 50};
        step(&w, &(event){.kind = EVENT_MESSAGE, .id = name_of(UNKNOWN), .msg = &beat});
        for (uint32_t v = OTHER; i % 50 == 0 && v <= RELAY; v++) step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(v), .refused = true});
        tick(&w);
    }
    assert_true(w.sent[MESSAGE_JOIN] > 0);
    free(w.p);
}

static void say_who_leads(world *w, uint32_t from, uint64_t term, const char *where) {
    message m = {.kind = MESSAGE_LEADER, .u.leader = {.term = term, .id = name_of(MOVED)}};
    snprintf(m.u.leader.address, WIRE_MAX_ADDRESS, "%s", where);
    deliver(w, from, &m, false);
}

// The peer under test dials `to` at the address `where` within 30 s. Every dial fails.
static void expect_dialed(world *w, uint32_t to, const char *where) {
    for (uint32_t i = 0; i < 300 && strcmp(w->last_address[to], where) != 0; i++) {
        const bool dialed = w->last_address[to][0] != 0;
        w->last_address[to][0] = 0;
        if (dialed) step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(to)});
        for (uint32_t other = VOTER_A; other <= VOTER_C; other++)
            if (other != to) beat_at(w, other, 1);
        tick(w);
    }
    assert_string_equal(w->last_address[to], where);
}

// Rule V21. Given a leader at a new address, when another peer reports the old one, then both are
// dialled and its own report wins.
static void test_leader_address_is_authoritative(void **state) {
    (void)state;
    for (uint32_t later = 0; later < 2; later++) {
        world w;
        all_is_computed(&w, 0);
        append(&w, (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(MOVED), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 9, .store = 2, .address = "new:1"}});
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(REPORTER)});
        if (!later) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(MOVED)});
        say_who_leads(&w, REPORTER, 5, "old:1");
        if (later) {
            expect_dialed(&w, MOVED, "old:1");
            expect_dialed(&w, MOVED, "new:1");
            step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(MOVED)});
            say_who_leads(&w, MOVED, 5, "newest:1");
        }
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(MOVED)});
        expect_dialed(&w, MOVED, later ? "newest:1" : "new:1");
        expect_dialed(&w, MOVED, "old:1");
        free(w.p);
    }
}

// Rule V22. Given a lost link to a leader that has moved, when the member has no leader, then it
// asks other members.
static void test_member_without_leader_asks_for_its_address(void **state) {
    (void)state;
    world w;
    all_is_computed(&w, 0);
    for (uint32_t i = MOVED; i <= REPORTER; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    say_who_leads(&w, REPORTER, 5, "old:1");
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(MOVED)});
    beat_at(&w, REPORTER, 1);
    const uint32_t asked = w.sent[MESSAGE_GET_LOG];
    for (uint32_t i = 0; i < 30; i++) {
        beat_at(&w, VOTER_A, 1);
        beat_at(&w, REPORTER, 1);
        pass(&w, 1);
    }
    assert_in_range(w.sent[MESSAGE_GET_LOG] - asked, 3, 8);
    say_who_leads(&w, REPORTER, 5, "new:1");
    expect_dialed(&w, MOVED, "new:1");
    free(w.p);
}

// Rule D3. Given a relay with a link younger than 10 s, when it is silent, then it is removed later
// than one with a steady link.
static void test_new_link_is_given_more_time(void **state) {
    (void)state;
    world w = {0};
    recall(&w, 1, false);
    w.now += 1000 * 1000 * MILLISECOND;
    while (!leads(&w)) tick(&w);
    for (uint32_t i = OTHER; i <= RELAY; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    const uint32_t gone = w.records[LOG_EXPEL];
    uint64_t silent = 0;
    for (uint32_t i = 0; w.records[LOG_EXPEL] == gone; i++) {
        if (i < 30) silent = w.now;
        if (i < 30) beat_at(&w, RELAY, 1);
        beat_at(&w, OTHER, 1);
        tick(&w);
    }
    assert_in_range((w.now - silent) / MILLISECOND, 9000, 12000);
    free(w.p);
}

// SELF continues with its log, which has the present address of OTHER. The user names the older
// address.
static void go_on_by_the_log(world *w) {
    *w = (world){.run = run_of(2, 1, 1), .leader = OTHER};
    const log_member member[2] = {{.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(OTHER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 2, .address = "new:1"}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = SELF}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    recall_all(w, 1, log, sizeof log / sizeof *log);
    step(w, &(event){.kind = EVENT_TICK});
}

// Rule V21. Given an address named by the user and another one in the log, when the peer dials,
// then it tries both.
static void test_address_of_the_log_is_dialled_too(void **state) {
    (void)state;
    world w;
    go_on_by_the_log(&w);
    expect_dialed(&w, OTHER, "new:1");
    expect_dialed(&w, OTHER, "peer-1:1");
    for (uint32_t i = 0; i < 2; i++) {  // the address of the last link is dialled first
        const char *where = i == 0 ? "new:1" : "peer-1:1";
        expect_dialed(&w, OTHER, where);
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
        w.last_address[OTHER][0] = 0;
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER)});
        while (w.last_address[OTHER][0] == 0) tick(&w);
        assert_string_equal(w.last_address[OTHER], where);
    }
    free(w.p);
}

// Rule V21. Given a peer with two addresses, when one refuses, then it is waited for; when both
// refuse, then it is gone.
static void test_refusal_at_one_of_two_addresses_is_none(void **state) {
    (void)state;
    for (uint32_t both = 0; both < 2; both++) {
        world w;
        go_on_by_the_log(&w);
        while (!leads(&w)) tick(&w);
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OTHER)});
        for (uint32_t i = 0; i < 30; i++) {
            beat_at(&w, OTHER, 1);
            tick(&w);
        }
        const uint64_t began = w.now;
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER)});
        while (w.records[LOG_EXPEL] == 0) {
            const bool dialed = w.last_address[OTHER][0] != 0, older = strcmp(w.last_address[OTHER], "peer-1:1") == 0;
            w.last_address[OTHER][0] = 0;
            if (dialed) step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER), .refused = older || both});
            tick(&w);
        }
        const uint64_t least = both ? 0 : 8000, most = both ? 3000 : 15000;
        assert_in_range((w.now - began) / MILLISECOND, least, most);
        free(w.p);
    }
}

// Rule V20. Given a voter that returned at another address, when it is elected, then all linked
// peers get LEADER with its address.
static void test_elected_leader_sends_its_address(void **state) {
    (void)state;
    world w = {.voters = 3};
    recall(&w, 2, false);
    w.log += 100;
    for (uint32_t i = OTHER; i <= RELAY; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    pass(&w, 5);
    const uint32_t said = w.sent[MESSAGE_LEADER];
    be_elected(&w);
    assert_int_equal(w.sent[MESSAGE_LEADER], said + 2);
    beat_at(&w, RELAY, 1);
    pass(&w, 1);
    assert_true(w.records[LOG_VOTERS] > 0);
    const braid_id self = name_of(SELF);
    uint32_t at = 0;
    while (at < w.last_voters.count && !id_equal(&w.last_voters.voter[at].id, &self)) at++;
    assert_true(at < w.last_voters.count);
    assert_string_equal(w.last_voters.voter[at].address, "peer:1");
    free(w.p);
}

// Rule T5. Given results that only a relay reports, when that relay asks for readmission, then
// FINAL is not appended.
static void test_final_does_not_depend_on_a_rejoining_member(void **state) {
    (void)state;
    const log_member member[2] = {{.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7}, {.peer = name_of(ONLY_RELAY), .kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 2}};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = member[0]}, {.kind = LOG_MEMBER, .u.member = member[1]}, {.kind = LOG_OWNER, .u.owner = {.member = SELF}},
                             {.kind = LOG_RUN, .u.run = {.generation = 1}}, {.kind = LOG_CLOSE}};
    for (uint32_t again = 0; again < 2; again++) {
        world w = {.run = run_of(2, 1, 1)};
        recall_all(&w, 1, log, sizeof log / sizeof *log);
        step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(ONLY_RELAY)});
        for (uint32_t i = 0; i < 100; i++) {
            beat_at(&w, ONLY_RELAY, 1);
            tick(&w);
        }
        assert_true(leads(&w));
        assert_int_equal(w.records[LOG_FINAL], 0);
        w.slow_store = true;
        const uint32_t members = w.records[LOG_MEMBER];
        w.log = w.last_appended;
        message join = {.kind = MESSAGE_JOIN, .u.join = {.stage = 1, .kind = MEMBER_RELAY, .capacity = 2, .incarnation = 3}};
        if (again) deliver(&w, ONLY_RELAY, &join, false);
        assert_int_equal(w.records[LOG_MEMBER], members + again);
        deliver(&w, ONLY_RELAY, &(message){.kind = MESSAGE_STATE, .u.state = {.stage = 1}}, false);
        assert_int_equal(w.records[LOG_FINAL], !again);
        free(w.p);
    }
}

// Rule V37. Given a voter without its log, when the replayed log passes a complete state, then it
// exits only if the sender does not lead.
static void test_replayed_complete_run_does_not_end_a_peer(void **state) {
    (void)state;
    for (uint32_t leading = 0; leading < 2; leading++) {
        world w = {.run = run_of(2, 1, 1)};
        log_entry voters = {.kind = LOG_VOTERS, .u.voters = {.count = 2, .voter = {{.id = name_of(LEADER), .store = 1}, {.id = name_of(RELAY), .store = 99}}}};
        open_world(&w, RELAY, MEMBER_RELAY);
        append(&w, (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(LEADER), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .store = 1}});
        own(&w, 0, LEADER);
        append(&w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
        append(&w, (log_entry){.kind = LOG_FINAL, .u.final = {.skip = true, .last = true, .stages = 2}});
        append(&w, voters);
        assert_false(w.exited);
        deliver(&w, LEADER, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.leads = leading}}, false);
        tick(&w);
        assert_int_equal(w.exited, !leading);
        free(w.p);
    }
}

// SELF leads OTHER and THIRD, which vote as well, and FOURTH, which does not.
// `host`: the peer that runs on the same machine as FOURTH, 0: none.
static void lead_three_of_four(world *w, const member_kind kind[4], uint32_t host, bool all_computed) {
    log_voters voters = {.count = 3};
    log_entry log[8] = {{.kind = LOG_NONE}};
    for (uint32_t i = 0; i < 4; i++) {
        log[i] = (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i + 1), .kind = (uint8_t)kind[i], .stage = kind[i] != MEMBER_DATA, .capacity = 2, .incarnation = i + 7, .store = i + 1}};
        if (i < 3) voters.voter[i] = (log_voter){.id = name_of(i + 1), .store = i + 1};
    }
    if (host > 0) log[3].u.member.host = name_of(host);
    log[4] = (log_entry){.kind = LOG_OWNER, .u.owner = {.member = SELF}};
    log[5] = (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}};
    log[6] = (log_entry){.kind = LOG_VOTERS, .u.voters = voters};
    log[7] = (log_entry){.kind = LOG_FINAL, .u.final = {.last = true, .stages = 2}};
    *w = (world){.run = run_of(2, 1, 1), .voters = 5};
    w->run.standbys = 1;
    recall_all(w, 3, log, all_computed ? 8 : 7);
    for (uint32_t i = OTHER; i <= FOURTH; i++) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    lead_in(w, 2);
}

// THIRD is dead, and the others have the state of version `reaches` - 1.
static void third_is_gone_for(world *w, uint32_t ticks, uint64_t reaches) {
    for (uint32_t i = 0; i < ticks; i++) {
        step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(THIRD), .refused = true});
        for (uint32_t from = OTHER; from <= FOURTH; from += FOURTH - OTHER) {
            w->log = w->last_appended;
            beat_at(w, from, reaches);
        }
        be_for_it(w, OTHER, MESSAGE_APPENDED, 2, false);
        tick(w);
    }
}

// Rule V1. Given a dead voter, two members and a standby, when voters are replaced, then the
// standby is not chosen.
static void test_standby_is_no_voter(void **state) {
    (void)state;
    world w;
    lead_three_of_four(&w, (const member_kind[4]){MEMBER_DATA, MEMBER_RELAY, MEMBER_RELAY, MEMBER_SHADOW}, 0, false);
    third_is_gone_for(&w, 200, 1);
    assert_int_equal(w.notifications[TELL_EXPELLED], 1);
    assert_int_equal(w.last_voters.count, 1);
    free(w.p);
}

// Rule V1. Given a dead voter and a relay on the machine of another voter, when voters are
// replaced, then that relay is not chosen: it would end together with the other voter.
static void test_a_machine_has_one_vote(void **state) {
    (void)state;
    for (uint32_t host = OTHER; host <= THIRD; host++) {
        world w;
        lead_three_of_four(&w, (const member_kind[4]){MEMBER_DATA, MEMBER_DATA, MEMBER_RELAY, MEMBER_RELAY}, host, true);
        third_is_gone_for(&w, 100, 2);
        assert_int_equal(w.notifications[TELL_EXPELLED], 1);
        assert_int_equal(w.last_voters.count, host == OTHER ? 1 : 3);
        free(w.p);
    }
}

// Rule V1. Given the last checkpoint under way, when a voter dies, then it is replaced.
static void test_voters_are_replaced_during_the_last_checkpoint(void **state) {
    (void)state;
    world w;
    lead_three_of_four(&w, (const member_kind[4]){MEMBER_DATA, MEMBER_DATA, MEMBER_RELAY, MEMBER_RELAY}, 0, true);
    third_is_gone_for(&w, 100, 2);
    assert_int_equal(w.notifications[TELL_EXPELLED], 1);
    assert_int_equal(w.notifications[TELL_END], 0);
    assert_int_equal(w.last_voters.count, 3);
    assert_int_equal(w.last_voters.voter[2].id.bytes[0], FOURTH);
    assert_int_equal(w.records[LOG_RUN], 0);
    free(w.p);
}

// Rule V19. Given the only voter, restarted, when it is asked to leave before it leads, then it
// ends the run in order.
static void test_only_voter_asked_to_leave_ends_the_run(void **state) {
    (void)state;
    const log_member me = {.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 7};
    const log_entry log[] = {{.kind = LOG_MEMBER, .u.member = me}, {.kind = LOG_OWNER, .u.owner = {.member = SELF}}, {.kind = LOG_RUN, .u.run = {.generation = 1}}};
    world w = {.run = run_of(1, 1, 1), .starts_run = true, .voters = 1};
    recall_all(&w, 1, log, sizeof log / sizeof *log);
    step(&w, &(event){.kind = EVENT_DRAIN});
    assert_false(w.exited);
    for (uint32_t i = 0; !w.exited; i++) {
        assert_true(i < 200);
        tick(&w);
    }
    assert_int_equal(w.notifications[TELL_ITERATION], 1);
    assert_int_equal(w.notifications[TELL_END], 1);
    assert_int_equal(w.last_record_kind, LOG_END);
    free(w.p);
}

// OTHER leads in term 2 and appends an entry, which is committed.
static uint64_t append_by_other(world *w, uint64_t previous_term, log_entry entry) {
    message m = {.kind = MESSAGE_APPEND, .u.append = {.to = SELF, .from = OTHER, .term = 2, .has_entry = true, .previous = w->log, .previous_term = previous_term, .committed = w->log + 1}};
    m.u.append.entry = entry;
    m.u.append.entry.index = ++w->log;
    m.u.append.entry.term = 2;
    deliver(w, OTHER, &m, false);
    return w->log;
}

// Rule G2. Given a new leader that checks its own copy, when the last other holder is dead, then no
// rollback begins at once.
static void test_new_leader_checks_its_own_state_before_rollback(void **state) {
    (void)state;
    log_voters voters = {.count = 3};
    log_entry log[6] = {{.kind = LOG_NONE}};
    for (uint32_t i = 0; i < 3; i++) {
        log[i] = (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(i + 1), .kind = (uint8_t)(i < 2 ? MEMBER_DATA : MEMBER_RELAY), .stage = i > 1, .capacity = 2, .incarnation = i + 7, .store = i + 1}};
        voters.voter[i] = (log_voter){.id = name_of(i + 1), .store = i + 1};
    }
    log[3] = (log_entry){.kind = LOG_OWNER, .u.owner = {.member = OTHER}};
    log[4] = (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}};
    log[5] = (log_entry){.kind = LOG_VOTERS, .u.voters = voters};
    world w = {.run = run_of(2, 1, 1), .voters = 5};
    recall_all(&w, 3, log, sizeof log / sizeof *log);
    for (uint32_t i = OTHER; i <= RELAY; i++) step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    const log_entry me = {.kind = LOG_MEMBER, .u.member = {.peer = name_of(SELF), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .store = 1}};
    append_by_other(&w, 1, (log_entry){.kind = LOG_LEAD});
    const uint64_t number = append_by_other(&w, 2, me);
    for (uint32_t i = 0; i < 10; i++) tick(&w);
    append_by_other(&w, 2, (log_entry){.kind = LOG_FINAL, .u.final = {.skip = true, .stages = 2}});
    for (uint32_t i = 0; i < 10; i++) tick(&w);
    w.busy = true;
    append_by_other(&w, 2, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = number, .reason = EXPEL_DEAD}});
    append_by_other(&w, 2, me);
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER), .refused = true});
    lead_by(&w, RELAY, 3);
    for (uint32_t i = 0; i < 150; i++) {
        step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(OTHER), .refused = true});
        w.log = w.last_appended;
        beat_at(&w, RELAY, 2);
        be_for_it(&w, RELAY, MESSAGE_APPENDED, 3, false);
        tick(&w);
        if (i == 80) assert_int_equal(w.records[LOG_RUN], 0);
    }
    assert_int_equal(w.notifications[TELL_EXPELLED], 2);
    assert_int_equal(w.records[LOG_RUN], 1);  // it waits for its own check only for a time
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_links_do_not_hold_a_finished_member),
        cmocka_unit_test(test_new_leader_that_finds_end_sends_leave),
        cmocka_unit_test(test_end_without_the_last_iteration_is_continued),
        cmocka_unit_test(test_voter_without_its_log_does_not_count),
        cmocka_unit_test(test_raft_messages_prove_a_voter),
        cmocka_unit_test(test_no_end_without_the_last_checkpoint),
        cmocka_unit_test(test_long_election_timeout_is_waited_for),
        cmocka_unit_test(test_silent_or_outdated_member_does_not_become_voter),
        cmocka_unit_test(test_leader_without_quorum_dismisses_only_if_voters_are_gone),
        cmocka_unit_test(test_deposed_leader_asks_for_the_new_one),
        cmocka_unit_test(test_voter_reports_missing_voters),
        cmocka_unit_test(test_reelected_leader_gets_its_own_settled_messages),
        cmocka_unit_test(test_leaving_voter_counts_as_present),
        cmocka_unit_test(test_leaving_voter_asks_for_missing_entries),
        cmocka_unit_test(test_leaving_leader_removes_its_older_membership),
        cmocka_unit_test(test_member_led_only_by_unknown_peers_rejoins),
        cmocka_unit_test(test_leader_address_is_authoritative),
        cmocka_unit_test(test_member_without_leader_asks_for_its_address),
        cmocka_unit_test(test_new_link_is_given_more_time),
        cmocka_unit_test(test_address_of_the_log_is_dialled_too),
        cmocka_unit_test(test_refusal_at_one_of_two_addresses_is_none),
        cmocka_unit_test(test_elected_leader_sends_its_address),
        cmocka_unit_test(test_final_does_not_depend_on_a_rejoining_member),
        cmocka_unit_test(test_replayed_complete_run_does_not_end_a_peer),
        cmocka_unit_test(test_only_voter_asked_to_leave_ends_the_run),
        cmocka_unit_test(test_new_leader_checks_its_own_state_before_rollback),
        cmocka_unit_test(test_standby_is_no_voter),
        cmocka_unit_test(test_a_machine_has_one_vote),
        cmocka_unit_test(test_voters_are_replaced_during_the_last_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
