// Scheduled paths: times computed by hand, bounds on small swarms, and inputs that cannot be
// planned.
#include "base/rng.h"
#include "routing/schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static schedule *open_schedule(uint32_t stages) {
    void *memory = aligned_alloc(16, (schedule_bytes() + 15u) / 16 * 16);
    assert_non_null(memory);
    return schedule_init(memory, stages);
}

// A data peer and two relays of one stage; lines of 5 and 7 s.
static schedule *two_relays(uint32_t capacity, uint32_t ways) {
    schedule *s = open_schedule(2);
    uint32_t home = schedule_peer_add(s, (schedule_peer){1, 0, 0});
    uint32_t near = schedule_peer_add(s, (schedule_peer){2, 1, capacity}),
             far = schedule_peer_add(s, (schedule_peer){3, 1, capacity});
    schedule_line(s, home, near, 5);
    schedule_line(s, near, home, 5);
    schedule_line(s, home, far, 7);
    schedule_line(s, far, home, 7);
    for (uint32_t i = 0; i < ways; i++) assert_true(schedule_way_add(s, home));
    return s;
}

static void test_times_by_hand(void **state) {
    (void)state;
    // tensor and gradient to the relay and back: four transfers
    schedule *s = two_relays(8, 1);
    assert_true(schedule_search(s));
    assert_int_equal(schedule_time(s), 20);
    assert_int_equal(schedule_member(s, 0, 1), 2);
    assert_int_equal(schedule_member(s, 0, 0), 1);
    assert_int_equal(schedule_leave(s, 0, 1), 0);
    free(s);
    // the second one follows 5 s later on the same line; the slower line would take 28
    s = two_relays(8, 2);
    assert_true(schedule_search(s));
    assert_int_equal(schedule_time(s), 25);
    assert_true(schedule_member(s, 0, 1) == 2 && schedule_member(s, 1, 1) == 2);
    free(s);
    // one slot each: three over the fast line would take 50. Two do, in 35, and the third uses the
    // slow line, in 28
    s = two_relays(1, 3);
    assert_true(schedule_search(s));
    assert_int_equal(schedule_time(s), 35);
    uint32_t near = 0;
    for (uint32_t way = 0; way < 3; way++) near += schedule_member(s, way, 1) == 2;
    assert_int_equal(near, 2);
    free(s);
}

// One relay with one slot. The first gradient returns from 15 to 20, and from 20 to 25 that of the
// second, which waited since 10; so each further one is 15 later. The third leaves when the second
// has the slot.
static void test_one_tensor_waits_for_a_slot(void **state) {
    (void)state;
    schedule *s = open_schedule(2);
    uint32_t home = schedule_peer_add(s, (schedule_peer){1, 0, 0}),
             relay = schedule_peer_add(s, (schedule_peer){2, 1, 1});
    schedule_line(s, home, relay, 5);
    for (uint32_t i = 0; i < 4; i++) assert_true(schedule_way_add(s, home));
    assert_true(schedule_search(s));
    uint64_t left = 0;
    for (uint32_t way = 0; way < 4; way++) left |= (uint64_t)1 << schedule_leave(s, way, 1);
    assert_int_equal(left, 1 | (uint64_t)1 << 15 | (uint64_t)1 << 30);
    assert_int_equal(schedule_time(s), 20 + 3 * 15);
    free(s);
}

// ---- carriers

// A data peer and a relay with a slow line, `ways` microbatches, and another data peer with fast
// lines to both.
static schedule *one_carrier(uint32_t ways, bool says_nothing) {
    schedule *s = open_schedule(2);
    uint32_t home = schedule_peer_add(s, (schedule_peer){1, 0, 0}), by = schedule_peer_add(s, (schedule_peer){2, 0, 0});
    uint32_t relay = schedule_peer_add(s, (schedule_peer){3, 1, 8});
    schedule_line(s, home, relay, 22);
    schedule_tensor(s, home, relay, 40);
    schedule_tensor(s, relay, home, 40);
    schedule_pieces(s, 4);
    const uint32_t end[] = {home, relay};
    for (uint32_t i = 0; i < 2; i++) {
        schedule_tensor(s, end[i], by, 16);
        schedule_tensor(s, by, end[i], says_nothing ? 0 : 16);
    }
    for (uint32_t i = 0; i < ways; i++) assert_true(schedule_way_add(s, home));
    assert_true(schedule_search(s));
    return s;
}

static void test_forwarders(void **state) {
    (void)state;
    // a tensor takes 16 and a quarter of it, and the hop 2 more
    schedule *s = one_carrier(1, false);
    assert_int_equal(schedule_time(s), 4 * 22);
    for (uint32_t stage = 1; stage <= 2; stage++)
        assert_true(schedule_carrier(s, 0, stage, false) == 2 && schedule_carrier(s, 0, stage, true) == 2);
    free(s);
    // the second waits for the first one's pieces and arrives at 36. The third would arrive at 52,
    // or at 40 directly
    s = one_carrier(3, false);
    assert_true(schedule_carrier(s, 0, 1, false) == 2 && schedule_carrier(s, 1, 1, false) == 2);
    assert_int_equal(schedule_carrier(s, 2, 1, false), 3);
    free(s);
    s = one_carrier(1, true);
    assert_int_equal(schedule_time(s), 4 * 40);
    assert_int_equal(schedule_carrier(s, 0, 1, false), 3);
    assert_true(schedule_carrier(s, 0, 1, true) == 1 && schedule_carrier(s, 0, 2, false) == 1 &&
                schedule_carrier(s, 0, 2, true) == 3);
    free(s);
}

// ---- small swarms

#ifdef ALL_CASES  // tests/campaign/routing_schedule.c
enum { SEEDS = 8 };
#else
enum { SEEDS = 1 };
#endif
enum { STAGES = 3, EACH = 2, HOMES = 2, WAYS = 4, PEERS = HOMES + (STAGES - 1) * EACH };

typedef struct small {
    int64_t line[PEERS][PEERS];
    uint32_t capacity[PEERS];
} small;

static uint32_t stage_of(uint32_t peer) { return peer < HOMES ? 0 : 1 + (peer - HOMES) / EACH; }

static small by_chance(uint64_t seed) {
    rng r = {rng_seed(seed, 1)};
    small q = {0};
    for (uint32_t i = 0; i < PEERS; i++) q.capacity[i] = 1 + (uint32_t)rng_below(&r, 3);
    for (uint32_t i = 0; i < PEERS; i++)
        for (uint32_t k = 0; k < PEERS; k++) q.line[i][k] = 1 + (int64_t)rng_below(&r, 40);
    return q;
}

// Only the members in `only` have slots: one choice per stage for each path.
static schedule *draw(const small *q, const uint32_t *only) {
    schedule *s = open_schedule(STAGES);
    for (uint32_t i = 0; i < PEERS; i++)
        schedule_peer_add(s,
                          (schedule_peer){i + 1, (uint16_t)stage_of(i), only == NULL || only[i] ? q->capacity[i] : 0});
    for (uint32_t i = 0; i < PEERS; i++)
        for (uint32_t k = 0; k < PEERS; k++)
            if ((stage_of(i) + 1) % STAGES == stage_of(k)) schedule_line(s, i, k, q->line[i][k]);
    for (uint32_t way = 0; way < WAYS; way++) assert_true(schedule_way_add(s, way % HOMES));
    return s;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// No path is faster than alone, and no line carries more than must cross it when one member of a
// stage has slots.
static void test_times_respect_lower_bounds(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        small q = by_chance(seed);
        schedule *s = draw(&q, NULL);
        assert_true(schedule_search(s));
        int64_t alone = 0;
        for (uint32_t way = 0; way < WAYS; way++) {
            int64_t time = 0;
            for (uint32_t stage = 0; stage < STAGES; stage++) {
                uint32_t from = (uint32_t)schedule_member(s, way, stage) - 1,
                         to = (uint32_t)schedule_member(s, way, (stage + 1) % STAGES) - 1;
                assert_int_equal(stage_of(from), stage);
                time += 2 * q.line[from][to];
            }
            alone = most(alone, time);
        }
        assert_true(schedule_time(s) >= alone);
        free(s);
    }
}

// With one member in each stage there is one plan; more members never make it slower.
static void test_more_members_do_not_slow_an_iteration(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        small q = by_chance(seed);
        schedule *s = draw(&q, NULL);
        assert_true(schedule_search(s));
        int64_t best = schedule_time(s);
        free(s);
        for (uint32_t choice = 0; choice < 1u << (STAGES - 1); choice++) {
            uint32_t only[PEERS] = {0};
            for (uint32_t stage = 1; stage < STAGES; stage++)
                only[HOMES + (stage - 1) * EACH + (choice >> (stage - 1) & 1)] = 1;
            s = draw(&q, only);
            assert_true(schedule_search(s));
            assert_true(best <= schedule_time(s));
            free(s);
        }
    }
}

// The same numbers give the same paths.
static void test_same_numbers_give_same_paths(void **state) {
    (void)state;
    small q = by_chance(7);
    schedule *a = draw(&q, NULL), *b = draw(&q, NULL);
    memset((char *)b + schedule_bytes() - 64, 0x5a, 32);  // leftovers of an earlier search
    assert_true(schedule_search(a) && schedule_search(b));
    assert_int_equal(schedule_time(a), schedule_time(b));
    for (uint32_t way = 0; way < WAYS; way++)
        for (uint32_t stage = 0; stage < STAGES; stage++)
            assert_int_equal(schedule_member(a, way, stage), schedule_member(b, way, stage));
    free(a);
    free(b);
}

static void test_impossible_inputs_are_refused(void **state) {
    (void)state;
    schedule *s = open_schedule(2);
    assert_false(schedule_search(s));  // no microbatch
    uint32_t home = schedule_peer_add(s, (schedule_peer){1, 0, 0});
    assert_true(schedule_way_add(s, home));
    assert_false(schedule_search(s));  // stage 1 is empty
    uint32_t relay = schedule_peer_add(s, (schedule_peer){2, 1, 1});
    assert_false(schedule_search(s));  // no line
    schedule_line(s, home, relay, 3);
    assert_true(schedule_search(s));
    assert_int_equal(schedule_time(s), 12);
    for (uint32_t i = 3; i <= SCHEDULE_MAX_PEERS; i++)
        assert_int_equal(schedule_peer_add(s, (schedule_peer){i, 1, 1}), i - 1);
    assert_int_equal(schedule_peer_add(s, (schedule_peer){99, 1, 1}), SCHEDULE_MAX_PEERS);
    for (uint32_t i = 1; i < SCHEDULE_MAX_WAYS; i++) assert_true(schedule_way_add(s, home));
    assert_false(schedule_way_add(s, home));
    assert_true(schedule_search(s));  // 64 through one slot
    assert_int_equal(schedule_time(s), 12 + 63 * 9);
    free(s);
    s = two_relays(0, 1);
    assert_false(schedule_search(s));  // no slot at all
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_by_hand),
        cmocka_unit_test(test_one_tensor_waits_for_a_slot),
        cmocka_unit_test(test_forwarders),
        cmocka_unit_test(test_times_respect_lower_bounds),
        cmocka_unit_test(test_more_members_do_not_slow_an_iteration),
        cmocka_unit_test(test_same_numbers_give_same_paths),
        cmocka_unit_test(test_impossible_inputs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
