// The layered problem compared with exhaustive search, and its checks.
#include "base/rng.h"
#include "plan/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOURCES = 2,
    STAGES = 2,
    WIDTH = 3,
    PEERS = SOURCES + STAGES * WIDTH,
    LINKS = 2 * SOURCES * WIDTH + WIDTH * WIDTH
};

typedef struct tiny {
    plan_problem p;
    plan_peer peer[PEERS];
    plan_link link[LINKS];
} tiny;

static uint32_t relay(uint32_t stage, uint32_t i) { return SOURCES + (stage - 1) * WIDTH + i; }

static void make_tiny(tiny *t, uint64_t seed) {
    rng r = {rng_seed(seed, 7)};
    *t = (tiny){.p = {t->peer, t->link, PEERS, 0, STAGES}};
    for (uint32_t i = 0; i < SOURCES; i++) t->peer[i] = (plan_peer){0, 1 + (uint32_t)rng_below(&r, 2)};
    for (uint32_t i = SOURCES; i < PEERS; i++)
        t->peer[i] = (plan_peer){1 + (i - SOURCES) / WIDTH, (uint32_t)rng_below(&r, 3)};
    for (uint32_t i = 0; i < PEERS; i++)
        for (uint32_t j = 0; j < PEERS; j++) {
            uint32_t next = t->peer[i].stage == STAGES ? 0 : t->peer[i].stage + 1;
            if (t->peer[j].stage == next) t->link[t->p.links++] = (plan_link){i, j, (int64_t)rng_below(&r, 20)};
        }
}

static int64_t cost_of(const tiny *t, uint32_t from, uint32_t to) {
    for (uint32_t l = 0; l < t->p.links; l++)
        if (t->link[l].from == from && t->link[l].to == to) return t->link[l].cost;
    fail();
    return 0;
}

// Tries every route for unit `n` and all later units: the most units, then the least cost.
static void try_all(const tiny *t, uint32_t *left, plan_answer now, uint32_t first, plan_answer *best) {
    if (now.units > best->units || (now.units == best->units && now.cost < best->cost)) *best = now;
    // Routes are numbered, and tried in ascending order, because the order of units does not
    // matter.
    for (uint32_t way = first; way < SOURCES * WIDTH * WIDTH * SOURCES; way++) {
        uint32_t a = way % SOURCES, x = relay(1, way / SOURCES % WIDTH), y = relay(2, way / SOURCES / WIDTH % WIDTH);
        uint32_t b = way / SOURCES / WIDTH / WIDTH, home = PEERS + b;
        if (left[a] == 0 || left[x] == 0 || left[y] == 0 || left[home] == 0) continue;
        left[a]--, left[x]--, left[y]--, left[home]--;
        plan_answer next = {now.units + 1, now.cost + cost_of(t, a, x) + cost_of(t, x, y) + cost_of(t, y, b)};
        try_all(t, left, next, way, best);
        left[a]++, left[x]++, left[y]++, left[home]++;
    }
}

static plan_answer relaxed(const plan_problem *p, int64_t *flow) {
    void *memory = malloc(plan_relaxed_bytes(p));
    assert_non_null(memory);
    plan_answer answer;
    braid_error error = {0};
    if (plan_relaxed(p, INT64_MAX, memory, flow, &answer, &error)) fail_msg("%s", error.text);
    free(memory);
    return answer;
}

// Remaining capacity of all peers, and of the data peers again as destinations.
static void capacities(const tiny *t, uint32_t left[PEERS + SOURCES]) {
    for (uint32_t i = 0; i < PEERS; i++) left[i] = t->peer[i].capacity;
    for (uint32_t i = 0; i < SOURCES; i++) left[PEERS + i] = t->peer[i].capacity;
}

static void test_relaxed_flow_is_cheapest(void **state) {
    (void)state;
    int64_t units = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        tiny t;
        make_tiny(&t, seed);
        uint32_t left[PEERS + SOURCES];
        capacities(&t, left);
        plan_answer best = {0};
        try_all(&t, left, (plan_answer){0}, 0, &best);
        int64_t flow[LINKS];
        plan_answer ours = relaxed(&t.p, flow);
        assert_int_equal(ours.units, best.units);
        assert_int_equal(ours.cost, best.cost);
        units += ours.units;
    }
    assert_true(units > 100);
}

// Tries every route for unit `n` and all later units: the most units, then the smallest maximum
// load, then the least cost.
typedef struct loaded {
    int64_t units, worst, cost;
} loaded;

static bool lighter(const loaded *a, const loaded *b) {
    if (a->units != b->units) return a->units > b->units;
    return a->worst != b->worst ? a->worst < b->worst : a->cost < b->cost;
}

static int64_t add_load(const tiny *t, int64_t *on, uint32_t from, uint32_t to, int64_t units) {
    on[from * PEERS + to] += units;
    return on[from * PEERS + to] * cost_of(t, from, to);
}

static void try_loads(const tiny *t, uint32_t *left, int64_t *on, loaded now, uint32_t first, loaded *best) {
    if (lighter(&now, best)) *best = now;
    for (uint32_t way = first; way < SOURCES * WIDTH * WIDTH * SOURCES; way++) {
        uint32_t a = way % SOURCES, x = relay(1, way / SOURCES % WIDTH), y = relay(2, way / SOURCES / WIDTH % WIDTH);
        uint32_t b = way / SOURCES / WIDTH / WIDTH, home = PEERS + b;
        if (left[a] == 0 || left[x] == 0 || left[y] == 0 || left[home] == 0) continue;
        left[a]--, left[x]--, left[y]--, left[home]--;
        int64_t load[] = {add_load(t, on, a, x, 1), add_load(t, on, x, y, 1), add_load(t, on, y, b, 1)};
        loaded next = {now.units + 1, now.worst, now.cost + cost_of(t, a, x) + cost_of(t, x, y) + cost_of(t, y, b)};
        for (int i = 0; i < 3; i++) next.worst = load[i] > next.worst ? load[i] : next.worst;
        try_loads(t, left, on, next, way, best);
        add_load(t, on, a, x, -1), add_load(t, on, x, y, -1), add_load(t, on, y, b, -1);
        left[a]++, left[x]++, left[y]++, left[home]++;
    }
}

static void test_bottleneck_flow_has_the_smallest_load(void **state) {
    (void)state;
    int64_t shared = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        tiny t;
        make_tiny(&t, seed);
        uint32_t left[PEERS + SOURCES];
        capacities(&t, left);
        int64_t on[PEERS * PEERS] = {0}, flow[LINKS], worst, most = 0;
        loaded best = {0};
        try_loads(&t, left, on, (loaded){0}, 0, &best);
        void *memory = malloc(plan_relaxed_bytes(&t.p));
        assert_non_null(memory);
        plan_answer answer;
        braid_error error = {0};
        if (plan_worst(&t.p, INT64_MAX, memory, flow, &worst, &answer, &error)) fail_msg("%s", error.text);
        free(memory);
        assert_int_equal(answer.units, best.units);
        assert_int_equal(worst, best.worst);
        assert_int_equal(answer.cost, best.cost);
        for (uint32_t l = 0; l < t.p.links; l++) most = flow[l] * t.link[l].cost > most ? flow[l] * t.link[l].cost : most;
        assert_int_equal(most, worst);
        shared += answer.cost > relaxed(&t.p, flow).cost;
    }
    assert_true(shared > 5);  // the two objectives differ in some cases
}

static void test_paths_carry_the_flow(void **state) {
    (void)state;
    tiny t;
    make_tiny(&t, 3);
    for (uint32_t i = 0; i < PEERS; i++) t.peer[i].capacity = 2;
    int64_t flow[LINKS], cost = 0;
    plan_answer answer = relaxed(&t.p, flow);
    assert_int_equal(answer.units, 4);
    uint32_t path[STAGES + 2], units = 0;
    for (uint32_t source = 0; source < SOURCES; source++)
        while (plan_take_path(&t.p, source, flow, path) == STAGES + 2) {
            for (uint32_t hop = 0; hop <= STAGES; hop++) cost += cost_of(&t, path[hop], path[hop + 1]);
            units++;
        }
    assert_int_equal(units, answer.units);
    assert_int_equal(cost, answer.cost);
    for (uint32_t l = 0; l < t.p.links; l++) assert_int_equal(flow[l], 0);
}

static void test_a_broken_flow_is_detected(void **state) {
    (void)state;
    tiny t;
    make_tiny(&t, 3);
    int64_t flow[LINKS] = {0};
    uint32_t path[STAGES + 2];
    assert_int_equal(plan_take_path(&t.p, 0, flow, path), 0);
    for (uint32_t l = 0; l < t.p.links; l++) flow[l] = t.link[l].from == 0 && t.link[l].to == relay(1, 0);
    assert_int_equal(plan_take_path(&t.p, 0, flow, path), 2);
}

static void test_mistakes_are_reported(void **state) {
    (void)state;
    tiny t;
    braid_error error = {0};
    make_tiny(&t, 1);
    assert_int_equal(plan_check(&t.p, &error), BRAID_OK);
    t.link[3].cost = -1;
    assert_int_equal(plan_check(&t.p, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "link 3"));
    make_tiny(&t, 1);
    t.link[2].to = t.link[2].from;
    assert_int_equal(plan_check(&t.p, &error), BRAID_ARGUMENT);
    make_tiny(&t, 1);
    t.link[2].to = PEERS;
    assert_int_equal(plan_check(&t.p, &error), BRAID_ARGUMENT);
    make_tiny(&t, 1);
    t.peer[4].stage = STAGES + 1;
    assert_int_equal(plan_check(&t.p, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "peer 4"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relaxed_flow_is_cheapest),
        cmocka_unit_test(test_bottleneck_flow_has_the_smallest_load),
        cmocka_unit_test(test_paths_carry_the_flow),
        cmocka_unit_test(test_a_broken_flow_is_detected),
        cmocka_unit_test(test_mistakes_are_reported),
    };
    return cmocka_run_group_tests_name("plan_problem", tests, NULL, NULL);
}
