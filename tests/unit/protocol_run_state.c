// The replicated state of a run: what each entry of the log changes, and that a snapshot makes an
// equal state.
#include "protocol/state/run_state.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { STAGES = 3, SLOTS = 4, SHARES = 2, START = 10 };

static run_state state_of_log, state_of_snapshot;  // two peers' states

static int opened(void **unused) {
    (void)unused;
    memset(&state_of_log, 0, sizeof state_of_log);
    memset(&state_of_snapshot, 0, sizeof state_of_snapshot);
    run_state_open(&state_of_log, STAGES, SLOTS, SHARES, START);
    run_state_open(&state_of_snapshot, STAGES, SLOTS, SHARES, START);
    return 0;
}

static braid_id id_of(uint8_t n) { return (braid_id){.bytes = {n}}; }

static run_change applied(run_state *s, log_entry entry) {
    run_change c = run_state_apply(s, &entry);
    s->position = entry.index;
    return c;
}

static log_entry run_entry(uint64_t index, uint64_t generation, uint64_t version) {
    return (log_entry){.index = index, .kind = LOG_RUN, .u.run = {.generation = generation, .start_version = version}};
}

static log_entry member_entry(uint64_t index, uint8_t peer, uint16_t stage, uint8_t kind) {
    return (log_entry){.index = index, .kind = LOG_MEMBER, .u.member = {.peer = id_of(peer), .stage = stage, .kind = kind, .capacity = 2, .address = "host:1"}};
}

static log_entry owner_entry(uint64_t index, uint16_t slot, member_id member) {
    return (log_entry){.index = index, .kind = LOG_OWNER, .u.owner = {.slot = slot, .member = member}};
}

static log_entry close_entry(uint64_t index, uint64_t iteration, uint64_t tokens) {
    return (log_entry){.index = index, .kind = LOG_CLOSE, .u.close = {.iteration = iteration, .tokens = tokens}};
}

static log_entry final_entry(uint64_t index, uint64_t iteration, bool last) {
    return (log_entry){.index = index, .term = 7, .kind = LOG_FINAL, .u.final = {.iteration = iteration, .last = last, .stages = STAGES}};
}

static log_entry checkpoint_entry(uint64_t index, uint64_t version) {
    log_entry entry = {.index = index, .kind = LOG_CHECKPOINT, .u.checkpoint = {.version = version, .stages = STAGES}};
    for (uint16_t s = 0; s < STAGES; s++) entry.u.checkpoint.state_root[s].bytes[0] = (uint8_t)(10 * version + s);
    return entry;
}

// ---- members ------------------------------------------------------------------------------------

// Rule L6. Given a member, when its peer restarts, then the newer MEMBER entry replaces the older one.
// Given a stage that the run does not have, when MEMBER names it, then it has no effect.
static void test_a_peer_is_one_member(void **unused) {
    (void)unused;
    applied(&state_of_log, member_entry(1, 'a', 1, MEMBER_RELAY));
    applied(&state_of_log, member_entry(2, 'b', 2, MEMBER_RELAY));
    assert_true(applied(&state_of_log, member_entry(3, 'a', 2, MEMBER_RELAY)).applied);
    const braid_id a = id_of('a');
    assert_int_equal(state_of_log.member_count, 2);
    assert_int_equal(run_state_member_of(&state_of_log, &a)->id, 3);
    assert_false(applied(&state_of_log, member_entry(4, 'c', STAGES, MEMBER_RELAY)).applied);
    assert_int_equal(state_of_log.member_count, 2);
}

// Rule L6. Given a member, when EXPEL names it, then its peer is no member. When EXPEL names an unknown
// member, then it has no effect.
static void test_expelled_is_no_member(void **unused) {
    (void)unused;
    const braid_id a = id_of('a');
    applied(&state_of_log, member_entry(1, 'a', 1, MEMBER_RELAY));
    applied(&state_of_log, (log_entry){.index = 2, .kind = LOG_EXPEL, .u.expel.member = 1});
    assert_null(run_state_member_of(&state_of_log, &a));
    applied(&state_of_log, (log_entry){.index = 3, .kind = LOG_EXPEL, .u.expel.member = 99});
    assert_int_equal(state_of_log.member_count, 0);
}

// Rule B4. Given a standby, when it is promoted twice, then the second entry has no effect. Given a
// relay, when PROMOTE names it, then it has no effect.
static void test_promotion(void **unused) {
    (void)unused;
    applied(&state_of_log, member_entry(1, 'a', 1, MEMBER_SHADOW));
    applied(&state_of_log, member_entry(2, 'b', 1, MEMBER_RELAY));
    assert_true(applied(&state_of_log, (log_entry){.index = 3, .kind = LOG_PROMOTE, .u.promote.member = 1}).applied);
    assert_false(applied(&state_of_log, (log_entry){.index = 4, .kind = LOG_PROMOTE, .u.promote.member = 1}).applied);
    assert_false(applied(&state_of_log, (log_entry){.index = 5, .kind = LOG_PROMOTE, .u.promote.member = 2}).applied);
    assert_int_equal(state_of_log.member[0].promoted, 3);
}

// ---- slots --------------------------------------------------------------------------------------

// Rule O1. Given an owned slot, when OWNER names another member, then the owner term is the index of that
// entry. When OWNER names the same member again, then the term stays.
static void test_owner_and_its_epoch(void **unused) {
    (void)unused;
    assert_int_equal(applied(&state_of_log, owner_entry(5, 1, 3)).older, 0);
    run_change c = applied(&state_of_log, owner_entry(8, 1, 4));
    assert_true(c.applied);
    assert_int_equal(c.older, 3);
    assert_int_equal(state_of_log.owner_term[1], 8);
    assert_false(applied(&state_of_log, owner_entry(9, 1, 4)).applied);  // the same owner: its epoch stays
    assert_int_equal(state_of_log.owner_term[1], 8);
    assert_false(applied(&state_of_log, owner_entry(10, SLOTS, 4)).applied);
}

// Rule P1. Given a peer with a shard, when SHARE gives it another one, then the first one is free. When
// SHARE names a shard that the run does not have, then it has no effect.
static void test_a_peer_has_one_share(void **unused) {
    (void)unused;
    log_entry entry = {.index = 2, .kind = LOG_SHARE, .u.share = {.share = 0, .peer = id_of('a')}};
    assert_int_equal(applied(&state_of_log, entry).freed_share, RUN_STATE_NO_SHARE);
    entry.index = 3;
    entry.u.share.share = 1;
    assert_int_equal(applied(&state_of_log, entry).freed_share, 0);
    assert_int_equal(state_of_log.share[0].index, 0);
    assert_int_equal(state_of_log.share[1].index, 3);
    entry.u.share.share = SHARES;
    assert_false(applied(&state_of_log, entry).applied);
}

// ---- iterations ---------------------------------------------------------------------------------

// Rules T4, T6. Given an iteration, when CLOSE and FINAL of it are applied, then the next one begins.
// When an entry names another iteration, then it has no effect. When FINAL is the last one, then the
// run is complete.
static void test_final_ends_an_iteration(void **unused) {
    (void)unused;
    assert_true(applied(&state_of_log, run_entry(1, 1, START)).first);
    assert_true(run_state_goes_on(&state_of_log));
    assert_false(applied(&state_of_log, close_entry(2, START + 1, 5)).applied);  // of another iteration
    assert_true(applied(&state_of_log, close_entry(3, START, 5)).applied);
    assert_true(applied(&state_of_log, close_entry(4, START, 4)).recounted);
    assert_false(applied(&state_of_log, close_entry(4, START, 4)).recounted);    // read again
    run_change c = applied(&state_of_log, final_entry(5, START, false));
    assert_true(c.applied && c.was_closed);
    assert_int_equal(state_of_log.iteration, START + 1);
    assert_false(state_of_log.has_close);
    assert_false(applied(&state_of_log, final_entry(6, START, false)).applied);
    assert_true(run_state_goes_on(&state_of_log));
    applied(&state_of_log, final_entry(7, START + 1, true));
    assert_true(run_state_is_complete(&state_of_log));
    assert_false(run_state_goes_on(&state_of_log));
}

// ---- rollback -----------------------------------------------------------------------------------

// Rules G4, G5. Given checkpoints 10 and 20, when the run rolls back to 10, then undone entries have no
// effect, in any order.
static void test_rollback_undoes(void **unused) {
    (void)unused;
    braid_hash root;
    applied(&state_of_log, run_entry(1, 1, START));
    applied(&state_of_log, checkpoint_entry(2, 10));
    for (uint64_t i = 0; i < 10; i++) applied(&state_of_log, final_entry(3 + i, START + i, false));
    applied(&state_of_log, checkpoint_entry(20, 20));
    applied(&state_of_log, close_entry(21, 20, 5));
    assert_int_equal(run_state_newest_checkpoint(&state_of_log), 20);
    run_change c = applied(&state_of_log, run_entry(22, 2, 10));
    assert_true(c.applied && c.rolled_back && c.newer && !c.first);
    assert_int_equal(state_of_log.iteration, 10);
    assert_false(state_of_log.has_final || state_of_log.has_close);
    assert_int_equal(run_state_newest_checkpoint(&state_of_log), 10);
    assert_true(run_state_names_root(&state_of_log, 10, 1, &root));
    assert_int_equal(root.bytes[0], 101);
    assert_false(run_state_names_root(&state_of_log, 20, 1, &root));
    assert_true(run_state_predates(&state_of_log, 21));
    assert_false(run_state_predates(&state_of_log, 22));
    assert_false(applied(&state_of_log, final_entry(12, 19, false)).applied);
    assert_false(applied(&state_of_log, checkpoint_entry(20, 20)).applied);
    assert_false(applied(&state_of_log, (log_entry){.index = 21, .kind = LOG_END}).applied);
    assert_false(applied(&state_of_log, run_entry(1, 1, START)).applied);
    assert_int_equal(state_of_log.run.generation, 2);
    assert_true(applied(&state_of_log, checkpoint_entry(30, 12)).applied);
}

// Rule G1. Given as many checkpoints as the state holds, when newer ones follow, then the oldest are
// forgotten. When one is written again, then it is the newest.
static void test_the_newest_checkpoints_stay(void **unused) {
    (void)unused;
    for (uint64_t i = 1; i <= RUN_STATE_CHECKPOINTS + 2; i++) applied(&state_of_log, checkpoint_entry(i, i));
    assert_int_equal(state_of_log.checkpoint_count, RUN_STATE_CHECKPOINTS);
    assert_int_equal(state_of_log.checkpoint[0].entry.version, 3);
    applied(&state_of_log, checkpoint_entry(50, 4));  // written again
    assert_int_equal(state_of_log.checkpoint_count, RUN_STATE_CHECKPOINTS);
    assert_int_equal(state_of_log.checkpoint[RUN_STATE_CHECKPOINTS - 1].index, 50);
}

// ---- snapshots ----------------------------------------------------------------------------------

static log_entry random_entry(rng *r, const run_state *s, uint64_t index) {
    uint64_t generation = s->run.generation;
    member_id some = s->member_count == 0 ? 0 : s->member[rng_below(r, s->member_count)].id;
    switch (rng_below(r, 12)) {
    case 0: return run_entry(index, generation == 0 ? 1 : generation + 1, s->start_version + rng_below(r, s->iteration - s->start_version + 1));
    case 1: return (log_entry){.index = index, .kind = LOG_EXPEL, .u.expel.member = some};
    case 2: return (log_entry){.index = index, .kind = LOG_PROMOTE, .u.promote.member = some};
    case 3: return close_entry(index, s->iteration, index);
    case 4: return final_entry(index, s->iteration, false);
    case 5: return checkpoint_entry(index, s->iteration);
    case 6: return (log_entry){.index = index, .kind = LOG_VOTERS, .u.voters = {.count = 1, .voter[0].store = index}};
    case 7: return (log_entry){.index = index, .kind = LOG_SHARE, .u.share = {.share = (uint16_t)rng_below(r, SHARES), .peer = id_of((uint8_t)(1 + rng_below(r, 9)))}};
    case 8: return owner_entry(index, (uint16_t)rng_below(r, SLOTS), 1 + rng_below(r, index));
    default: return member_entry(index, (uint8_t)(1 + rng_below(r, 9)), (uint16_t)rng_below(r, STAGES), rng_below(r, 2) ? MEMBER_SHADOW : MEMBER_RELAY);
    }
}

// Rule L4. Given any log, when its snapshot is applied to a new state, then both states give the same
// entries.
static void test_a_snapshot_makes_an_equal_state(void **unused) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        opened(unused);
        rng r = {.state = rng_seed(seed, 1)};
        uint64_t index = 0, length = 1 + rng_below(&r, 60);
        for (uint64_t i = 0; i < length; i++) applied(&state_of_log, random_entry(&r, &state_of_log, index += 1 + rng_below(&r, 3)));
        log_entry entry, other;
        for (uint64_t after = 0; run_state_next(&state_of_log, after, UINT64_MAX, &entry); after = entry.index) {
            assert_true(entry.index > after && entry.index <= index);
            applied(&state_of_snapshot, entry);
        }
        for (uint64_t after = 0; run_state_next(&state_of_log, after, UINT64_MAX, &entry); after = entry.index) {
            assert_true(run_state_next(&state_of_snapshot, after, UINT64_MAX, &other));
            assert_memory_equal(&entry, &other, sizeof entry);
        }
        assert_false(run_state_next(&state_of_snapshot, state_of_log.position, UINT64_MAX, &other));
        assert_int_equal(state_of_log.iteration, state_of_snapshot.iteration);
        assert_int_equal(state_of_log.member_count, state_of_snapshot.member_count);
        assert_int_equal(state_of_log.has_close, state_of_snapshot.has_close);
        assert_int_equal(state_of_log.fence, state_of_snapshot.fence);
    }
}

// Rule L4. Given an entry of the state, when a snapshot is read up to a position, then entries from there
// on are not part of it.
static void test_a_snapshot_ends_before_a_position(void **unused) {
    (void)unused;
    log_entry entry;
    applied(&state_of_log, member_entry(4, 'a', 1, MEMBER_RELAY));
    assert_true(run_state_next(&state_of_log, 3, 5, &entry));
    assert_false(run_state_next(&state_of_log, 4, 5, &entry));
    assert_false(run_state_next(&state_of_log, 0, 4, &entry));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_peer_is_one_member, opened),
        cmocka_unit_test_setup(test_expelled_is_no_member, opened),
        cmocka_unit_test_setup(test_promotion, opened),
        cmocka_unit_test_setup(test_owner_and_its_epoch, opened),
        cmocka_unit_test_setup(test_a_peer_has_one_share, opened),
        cmocka_unit_test_setup(test_final_ends_an_iteration, opened),
        cmocka_unit_test_setup(test_rollback_undoes, opened),
        cmocka_unit_test_setup(test_the_newest_checkpoints_stay, opened),
        cmocka_unit_test_setup(test_a_snapshot_makes_an_equal_state, opened),
        cmocka_unit_test_setup(test_a_snapshot_ends_before_a_position, opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
