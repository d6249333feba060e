// Dirty flags: labels are searched and updates sent only after a change of their inputs, and the
// next tick is due at the same time as with a full search. Builds with sanitizers compare both in
// each router (BRAID_CHECKED).
#include "routing/plan/mincost_planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DELAY = 100, HERE = 15, BEFORE = 10, FIRST_NEXT = 20, NEXT = 5, LINK = 10, SETTLES_AFTER = 40 };

typedef struct relay {
    router *r;
    int64_t now;
    uint32_t said[ROUTER_KINDS];
    router_message last[ROUTER_KINDS];  // last one sent of each kind
} relay;

static void hush(relay *a) {
    router_message m;
    while (router_next(a->r, &m)) {
        a->said[m.kind]++;
        a->last[m.kind] = m;
    }
}

static void tick(relay *a) {
    router_tick(a->r, a->now);
    hush(a);
}

static void wait_for(relay *a, int64_t delays) {
    int64_t until = a->now + delays * DELAY;
    while (router_deadline(a->r) <= until) {
        if (router_deadline(a->r) > a->now) a->now = router_deadline(a->r);
        tick(a);
    }
    a->now = until;
}

// A next neighbour's label: with one node, or with three nodes, over another next neighbour where
// the cost is `there`.
static void hear(relay *a, router_peer from, int64_t cost, uint16_t length, router_peer over, int64_t there) {
    router_message m = {.kind = ROUTER_LABEL,
                        .from = from,
                        .to = HERE,
                        .side = ROUTER_PREVIOUS,
                        .source = 1,
                        .cost = cost,
                        .length = length};
    const router_step walk[] = {{router_in(from), cost}, {router_out(90), there}, {router_in(over), there}};
    for (uint16_t i = 0; i < length; i++) m.u.step[i] = walk[i];
    router_receive(a->r, a->now, &m);
    hush(a);
}

static void hear_counts(relay *a, router_message m) {
    m.to = HERE;
    m.source = 1;
    router_receive(a->r, a->now, &m);
    hush(a);
}

static relay young_relay(void) {
    const router_config config = {.algorithm = ROUTER_MINCOST,
                                  .self = HERE,
                                  .capacity = 2,
                                  .source_count = 1,
                                  .source = {1},
                                  .max_neighbours = 8,
                                  .seed = 7,
                                  .delay = DELAY,
                                  .relays = 20};
    size_t bytes = (router_bytes(&config) + 63) / 64 * 64;
    relay a = {.r = router_init(aligned_alloc(64, bytes), &config, 0)};
    for (router_peer p = FIRST_NEXT; p < FIRST_NEXT + NEXT; p++) router_neighbour_add(a.r, 0, p, ROUTER_NEXT, LINK);
    router_neighbour_add(a.r, 0, BEFORE, ROUTER_PREVIOUS, LINK);
    return a;
}

// A mature relay that settles no more labels.
static relay open_relay(void) {
    relay a = young_relay();
    wait_for(&a, 130);
    for (int round = 0; round < 9; round++) {
        for (router_peer p = FIRST_NEXT; p < FIRST_NEXT + NEXT; p++) hear(&a, p, -5, 2, 0, -3);
        wait_for(&a, 45);
    }
    assert_int_equal(((const mincost_planner *)a.r)->mc.settle_count, 4 * (2 + NEXT + 1));
    return a;
}

// Peer 21's path crosses 23, which reports a higher cost; 24 has the best path. A stale path is
// examined again when it may be valid, unless a better path (of 20) hides it.
static void end_hides(bool hidden_first) {
    relay a = open_relay();
    const int64_t hides = -40;
    hear(&a, 20, hidden_first ? hides : 0, hidden_first, 0, 0);
    hear(&a, 21, 0, 0, 0, 0);
    hear(&a, 22, 0, 0, 0, 0);
    hear(&a, 23, -10, 1, 0, 0);
    hear(&a, 24, -100, 1, 0, 0);
    wait_for(&a, 45);
    tick(&a);
    wait_for(&a, 3);
    hear(&a, 21, -35, 3, 23, -20);
    int64_t since = a.now;
    wait_for(&a, 2);
    hear(&a, 20, hidden_first ? 0 : hides, !hidden_first, 0, 0);
    a.now++;
    tick(&a);
    wait_for(&a, 10);
    tick(&a);
    assert_int_equal(router_deadline(a.r), hidden_first ? since + SETTLES_AFTER * DELAY : ROUTER_NEVER);
    free(a.r);
}

static void test_stale_path_is_reexamined_when_the_better_one_is_gone(void **state) {
    (void)state;
    end_hides(true);
}

static void test_stale_path_behind_a_better_one_is_not_reexamined(void **state) {
    (void)state;
    end_hides(false);
}

static void test_quiet_router_sends_changed_adverts(void **state) {
    (void)state;
    relay a = young_relay();
    const int64_t far[] = {50, 30, 80};
    for (int i = 0; i < 3; i++) {
        hear_counts(&a, (router_message){.kind = ROUTER_ADVERT, .from = FIRST_NEXT, .cost = far[i], .units = 1});
        wait_for(&a, 3);
        assert_int_equal(a.last[ROUTER_ADVERT].to, BEFORE);
        assert_int_equal(a.last[ROUTER_ADVERT].cost, LINK + far[i]);
        uint32_t adverts = a.said[ROUTER_ADVERT];
        wait_for(&a, 6);
        assert_int_equal(a.said[ROUTER_ADVERT], adverts);
    }
    free(a.r);
}

static void test_lowered_capacity_releases_units_at_once(void **state) {
    (void)state;
    relay a = young_relay();
    hear_counts(&a, (router_message){.kind = ROUTER_ADVERT, .from = FIRST_NEXT, .cost = 50, .units = 2});
    hear_counts(&a, (router_message){.kind = ROUTER_FLOW, .from = BEFORE, .units = 2});
    wait_for(&a, 40);
    assert_int_equal(router_load(a.r), 2);
    assert_int_equal(a.said[ROUTER_DENY], 0);
    uint64_t moves = router_moves(a.r);
    wait_for(&a, 10);
    assert_int_equal(router_moves(a.r), moves);
    router_capacity(a.r, a.now, 1);
    tick(&a);
    assert_int_equal(a.said[ROUTER_DENY], 1);
    assert_int_equal(a.last[ROUTER_FLOW].units, 1);
    assert_int_equal(router_load(a.r), 1);
    assert_int_not_equal(router_moves(a.r), moves);
    free(a.r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stale_path_is_reexamined_when_the_better_one_is_gone),
        cmocka_unit_test(test_stale_path_behind_a_better_one_is_not_reexamined),
        cmocka_unit_test(test_quiet_router_sends_changed_adverts),
        cmocka_unit_test(test_lowered_capacity_releases_units_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
