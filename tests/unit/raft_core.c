// A Raft voter and its durable log: no message promises what is not durable.
#include "raft/raft.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { KEPT = 16 };

static const uint64_t SECOND = 1000000000;

static struct {
    message scratch;
    log_entry record[KEPT];
    uint32_t records, durable, granted, refused, answers, asked;
    uint64_t now;
    uint64_t match;  // the last one that was said
    raft machine;
    log_entry entry[RAFT_WINDOW];
} w;

static message *compose(void *context, message_kind kind) {
    (void)context;
    memset(&w.scratch, 0, sizeof w.scratch);
    w.scratch.kind = (uint8_t)kind;
    return &w.scratch;
}

static void sent(void *context, const braid_id *to) {
    (void)context;
    (void)to;
    if (w.scratch.kind == MESSAGE_APPENDED) {
        assert_true(w.scratch.u.appended.accepted);
        w.answers++;
        w.match = w.scratch.u.appended.match;
    }
    w.asked += w.scratch.kind == MESSAGE_VOTE;
    if (w.scratch.kind != MESSAGE_VOTED) return;
    if (w.scratch.u.voted.granted) w.granted++;
    else w.refused++;
}

static void store(void *context, const log_entry *record) {
    (void)context;
    assert_true(w.records < KEPT);
    w.record[w.records++] = *record;
}

static braid_id named(uint8_t name) {
    braid_id id = {0};
    id.bytes[0] = name;
    return id;
}

static void ask(uint8_t candidate, uint64_t term) {
    const braid_id from = named(candidate);
    message msg = {.kind = MESSAGE_VOTE};
    msg.u.vote = (message_vote){.to = 1, .from = candidate, .term = term, .last_index = 9, .last_term = 9};
    raft_receive(&w.machine, 10 * SECOND, &from, &msg);
}

static int begin(void **state) {
    (void)state;
    const raft_host host = {NULL, compose, sent, store};
    const braid_id self = named(1);
    memset(&w, 0, sizeof w);
    w.now = 10 * SECOND;
    raft_init(&w.machine, &host, &self, 1, 1, w.entry, RAFT_WINDOW, SECOND);
    return 0;
}

static void stored(uint32_t record) { raft_stored(&w.machine, 10 * SECOND, &w.record[record]); }

// Raft 5.2. Given a request for a vote, when only the record of the new term is durable, then the
// vote is not sent.
static void test_vote_waits_for_its_record(void **state) {
    (void)state;
    ask(2, 5);
    assert_int_equal(w.records, 2);
    assert_false(w.record[0].u.vote.given);
    assert_true(w.record[1].u.vote.given);
    assert_int_equal(w.granted, 0);
    stored(0);
    assert_int_equal(w.granted, 0);
    stored(1);
    assert_int_equal(w.granted, 1);
}

// Raft 5.2. Given a vote, when the candidate asks again, then the answer is the same; another
// candidate is refused.
static void test_one_vote_per_term(void **state) {
    (void)state;
    ask(2, 5);
    stored(0);
    ask(2, 5);
    ask(3, 5);
    assert_int_equal(w.granted, 0);
    assert_int_equal(w.refused, 1);
    stored(1);
    ask(2, 5);
    assert_int_equal(w.granted, 2);
    ask(3, 5);
    assert_int_equal(w.granted, 2);
    assert_int_equal(w.refused, 2);
    assert_int_equal(w.records, 2);
}

// Rule V10. Given a crash between the records of term and vote, when the voter restarts, then it
// has only what was durable.
static void test_restart_keeps_the_stored_vote(void **state) {
    ask(2, 5);
    stored(0);
    assert_int_equal(w.granted, 0);
    const log_entry durable = w.record[0];
    begin(state);
    assert_true(raft_restore(&w.machine, &durable));
    ask(3, 5);
    assert_int_equal(w.records, 1);
    stored(0);
    assert_int_equal(w.granted, 1);
}

static void append(uint64_t term, uint64_t previous, uint64_t previous_term) {
    const braid_id from = named(2);
    message msg = {.kind = MESSAGE_APPEND};
    msg.u.append = (message_append){.to = 1, .from = 2, .term = term, .previous = previous, .previous_term = previous_term};
    raft_receive(&w.machine, 10 * SECOND, &from, &msg);
}

// Rule V16. Given a new leader, when its term is not durable here, then the log position is not
// reported.
static void test_match_waits_for_the_durable_term(void **state) {
    (void)state;
    const log_entry base = {.kind = LOG_BASE, .term = 1, .u.base.voters = {.count = 2, .voter = {{.id = named(1), .store = 1}, {.id = named(2), .store = 2}}}};
    assert_true(raft_restore(&w.machine, &base));
    for (uint64_t i = 1; i <= 3; i++) assert_true(raft_restore(&w.machine, &(log_entry){.kind = LOG_EXPEL, .index = i, .term = 1}));
    append(1, 3, 1);
    assert_int_equal(w.match, 3);
    append(2, 3, 1);
    assert_int_equal(w.answers, 2);
    assert_int_equal(w.match, 0);
    stored(0);
    assert_int_equal(w.answers, 3);
    assert_int_equal(w.match, 3);
}

// Rule V17. Given a message with a term 2^20 ahead, when it arrives, then it is ignored.
static void test_distant_terms_are_ignored(void **state) {
    (void)state;
    ask(2, WIRE_MAX_TERM);
    append(2 + RAFT_TERM_STEP, 0, 0);
    assert_int_equal(w.records + w.answers + w.granted, 0);
    assert_int_equal(w.machine.term, 0);
    ask(2, RAFT_TERM_STEP);
    assert_int_equal(w.machine.term, RAFT_TERM_STEP);
}

static void voted(uint8_t voter, bool pre_vote) {
    const braid_id from = named(voter);
    message msg = {.kind = MESSAGE_VOTED};
    msg.u.voted = (message_voted){.to = 1, .from = voter, .term = w.machine.term + pre_vote, .pre_vote = pre_vote, .granted = true};
    raft_receive(&w.machine, w.now, &from, &msg);
}

static void all_stored(void) {
    for (; w.durable < w.records; w.durable++) raft_stored(&w.machine, w.now, &w.record[w.durable]);
}

// No leader, and the election timeout has passed. The named voter grants its vote.
static void elected_by(uint8_t first, uint8_t last) {
    w.now += 10 * SECOND;
    raft_tick(&w.machine, w.now);
    all_stored();
    for (uint8_t v = first; v <= last; v++) voted(v, true);
    all_stored();
    for (uint8_t v = first; v <= last; v++) voted(v, false);
    all_stored();
}

static log_voters voters_up_to(uint8_t count) {
    log_voters all = {.count = count};
    for (uint8_t i = 0; i < count; i++) all.voter[i] = (log_voter){.id = named(i + 1), .store = i + 1};
    return all;
}

// A leader of `before` voters with a committed first entry appends a change to `after` voters, and
// hears none of them any more.
static void change_and_be_left(uint8_t before, uint8_t after) {
    const log_entry base = {.kind = LOG_BASE, .term = 1, .u.base.voters = voters_up_to(before)};
    log_entry change = {.kind = LOG_VOTERS, .u.voters = voters_up_to(after)}, other = {.kind = LOG_EXPEL};
    assert_true(raft_restore(&w.machine, &base));
    uint8_t majority = before / 2 + 1;
    elected_by(2, majority);
    for (uint8_t v = 2; v <= majority; v++) {
        const braid_id voter = named(v);
        message msg = {.kind = MESSAGE_APPENDED};
        msg.u.appended = (message_appended){.to = 1, .from = v, .term = w.machine.term, .accepted = true, .match = 1};
        raft_receive(&w.machine, w.now, &voter, &msg);
    }
    assert_true(raft_may_change(&w.machine));
    raft_append(&w.machine, w.now, &change);
    raft_append(&w.machine, w.now, &other);
    all_stored();
    assert_true(raft_leads(&w.machine) && w.machine.last == 3 && w.machine.committed == 1);
    w.now += 10 * SECOND;
    raft_tick(&w.machine, w.now);
    assert_false(raft_leads(&w.machine));
}

// Rule V5. Given an uncommitted change from three voters, when too few remain to commit it, then
// the leader takes it back.
static void test_uncommitted_change_is_truncated(void **state) {
    (void)state;
    change_and_be_left(3, 2);
    assert_int_equal(w.machine.voters.count, 3);
    assert_int_equal(w.machine.last, 1);
    elected_by(3, 3);
    assert_true(raft_leads(&w.machine));
    assert_int_equal(w.machine.last, 2);
}

// Rule V5. Given an uncommitted change from four voters, when the leader is cut off, then the
// change stays.
static void test_change_of_an_even_configuration_stays(void **state) {
    (void)state;
    change_and_be_left(4, 3);
    assert_int_equal(w.machine.voters.count, 3);
    elected_by(2, 2);
    assert_true(raft_leads(&w.machine));
}

// Rule V5. Given a change that was taken back, when the voter restarts, then the older
// configuration holds.
static void test_truncated_change_stays_truncated_after_restart(void **state) {
    static log_entry kept[KEPT];
    change_and_be_left(3, 2);
    uint32_t count = w.records;
    memcpy(kept, w.record, sizeof kept);
    begin(state);
    const log_entry base = {.kind = LOG_BASE, .term = 1, .u.base.voters = voters_up_to(3)};
    assert_true(raft_restore(&w.machine, &base));
    for (uint32_t i = 0; i < count; i++) assert_true(raft_restore(&w.machine, &kept[i]));
    assert_int_equal(w.machine.voters.count, 3);
    elected_by(3, 3);
    assert_true(raft_leads(&w.machine));
}

// Rule V5. Given a compacted log, when the change after it is taken back, then the older
// configuration holds after a restart.
static void test_truncated_change_stays_truncated_after_compaction(void **state) {
    static log_entry kept[KEPT];
    change_and_be_left(3, 2);
    uint32_t count = w.records, from = 0;
    memcpy(kept, w.record, sizeof kept);
    begin(state);
    while (kept[from].index != 1) from++;
    const log_entry base = {.kind = LOG_BASE, .index = 1, .term = kept[from].term, .u.base.voters = voters_up_to(3)};
    assert_true(raft_restore(&w.machine, &base));
    for (uint32_t i = from + 1; i < count; i++) assert_true(raft_restore(&w.machine, &kept[i]));
    assert_int_equal(kept[count - 1].index, 1);
    assert_int_equal(w.machine.last, 1);
    assert_int_equal(w.machine.voters.count, 3);
    const log_entry other = {.kind = LOG_EXPEL, .index = 1, .term = base.term + 1};
    assert_false(raft_restore(&w.machine, &other));  // that is another one
}

// Rule V2. Given a first configuration that adds several voters at once, when the leader hears
// none, then it is not taken back.
static void test_change_by_several_voters_is_not_truncated(void **state) {
    (void)state;
    change_and_be_left(1, 3);
    assert_int_equal(w.machine.voters.count, 3);
    assert_int_equal(w.machine.last, 3);
    elected_by(2, 1);
    assert_false(raft_leads(&w.machine));
}

// Rule V14. Given an interrupted snapshot, when the election timeout passes, then no election
// starts.
static void test_voter_without_state_stands_for_no_election(void **state) {
    (void)state;
    log_entry base = {.kind = LOG_BASE, .index = 5, .term = 1, .u.base.voters.count = 3};
    for (uint8_t i = 0; i < 3; i++) base.u.base.voters.voter[i] = (log_voter){.id = named(i + 1), .store = i + 1u};
    assert_true(raft_restore(&w.machine, &base));
    raft_applied(&w.machine, 5, 1);
    raft_reset_applied(&w.machine);
    raft_applied(&w.machine, 2, 1);
    for (; w.now < 40 * SECOND; w.now += SECOND / 10) raft_tick(&w.machine, w.now);
    assert_int_equal(w.asked, 0);
    assert_true(raft_deadline(&w.machine) > w.now - SECOND / 10);
    raft_applied(&w.machine, 5, 1);
    for (; w.now < 70 * SECOND && w.asked == 0; w.now += SECOND / 10) raft_tick(&w.machine, w.now);
    assert_int_equal(w.asked, 2);
}

// Rule D5. Given a leader of several voters, when it is paused for long, then it steps down.
static void test_paused_leader_steps_down(void **state) {
    (void)state;
    const log_entry base = {.kind = LOG_BASE, .term = 1, .u.base.voters = voters_up_to(3)};
    assert_true(raft_restore(&w.machine, &base));
    elected_by(2, 2);
    raft_compensate_pause(&w.machine, w.now, SECOND);
    assert_true(raft_leads(&w.machine));
    raft_compensate_pause(&w.machine, w.now, 2 * SECOND);
    assert_false(raft_leads(&w.machine));
    assert_in_range(w.machine.election_deadline_ns, w.now + SECOND, w.now + 3 * SECOND);
}

// Rule D5. Given the only voter, when it is paused, then it leads on.
static void test_only_voter_leads_after_a_pause(void **state) {
    (void)state;
    const char address[WIRE_MAX_ADDRESS] = "here:1";
    raft_bootstrap(&w.machine, address, w.now);
    all_stored();
    assert_true(raft_leads(&w.machine));
    raft_compensate_pause(&w.machine, w.now, 60 * SECOND);
    assert_true(raft_leads(&w.machine));
}

// Rule V31. Given a half window of entries and first entries of leaders that died, when the log is
// read again, then only proven entries count as committed.
static void test_first_entries_of_leaders_prove_fewer_commits(void **state) {
    (void)state;
    const log_entry base = {.kind = LOG_BASE, .term = 1, .u.base.voters = voters_up_to(3)};
    assert_true(raft_restore(&w.machine, &base));
    for (uint64_t i = 1; i <= RAFT_WINDOW + 2; i++) {
        log_entry entry = {.kind = i <= RAFT_WINDOW / 2 ? LOG_EXPEL : LOG_LEAD, .index = i, .term = i};
        raft_applied(&w.machine, raft_implied_commit(&w.machine, &entry), 0);
        assert_true(raft_restore(&w.machine, &entry));
        assert_int_equal(w.machine.committed, i > RAFT_WINDOW ? i - RAFT_WINDOW : 0);
    }
    const log_entry plain = {.kind = LOG_EXPEL, .index = RAFT_WINDOW + 3};
    assert_int_equal(raft_implied_commit(&w.machine, &plain), RAFT_WINDOW / 2 + 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_uncommitted_change_is_truncated, begin), cmocka_unit_test_setup(test_change_by_several_voters_is_not_truncated, begin),
                                       cmocka_unit_test_setup(test_change_of_an_even_configuration_stays, begin), cmocka_unit_test_setup(test_truncated_change_stays_truncated_after_restart, begin),
                                       cmocka_unit_test_setup(test_truncated_change_stays_truncated_after_compaction, begin), cmocka_unit_test_setup(test_first_entries_of_leaders_prove_fewer_commits, begin),
                                       cmocka_unit_test_setup(test_vote_waits_for_its_record, begin), cmocka_unit_test_setup(test_one_vote_per_term, begin),
                                       cmocka_unit_test_setup(test_restart_keeps_the_stored_vote, begin), cmocka_unit_test_setup(test_match_waits_for_the_durable_term, begin),
                                       cmocka_unit_test_setup(test_distant_terms_are_ignored, begin), cmocka_unit_test_setup(test_paused_leader_steps_down, begin),
                                       cmocka_unit_test_setup(test_only_voter_leads_after_a_pause, begin),
                                       cmocka_unit_test_setup(test_voter_without_state_stands_for_no_election, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
