// The exact planner on random graphs: its flows are valid and leave no negative cycle
// (tests/bench/optimum_glpk.c compares with GLPK).
#include "base/rng.h"
#include "plan/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static plan_answer solve(plan_graph *g, int64_t limit) {
    void *memory = malloc(plan_min_cost_bytes(g->nodes, g->arcs));
    assert_non_null(memory);
    plan_answer answer;
    braid_error error = {0};
    if (plan_min_cost(g, limit, memory, &answer, &error)) fail_msg("%s", error.text);
    free(memory);
    return answer;
}

// Checks a result: within capacity, conserved, and of the reported cost and size.
static void check_flow(const plan_graph *g, const plan_answer *answer) {
    int64_t cost = 0, *balance = calloc(g->nodes, sizeof *balance);
    assert_non_null(balance);
    for (uint32_t i = 0; i < g->arcs; i++) {
        const plan_arc *a = &g->arc[i];
        assert_true(a->flow >= 0 && a->flow <= a->capacity);
        balance[a->from] -= a->flow;
        balance[a->to] += a->flow;
        cost += a->flow * a->cost;
    }
    for (uint32_t v = 0; v < g->nodes; v++) {
        int64_t want = v == g->source ? -answer->units : v == g->sink ? answer->units : 0;
        assert_int_equal(balance[v], want);
    }
    assert_int_equal(cost, answer->cost);
    free(balance);
}

// A flow of its size is cheapest exactly if its residual graph has no negative cycle (Klein 1967).
// Uses Bellman and Ford.
static void check_no_negative_cycle(const plan_graph *g) {
    int64_t *d = calloc(g->nodes, sizeof *d);
    assert_non_null(d);
    bool better = true;
    for (uint32_t round = 0; better; round++) {
        assert_true(round <= g->nodes);
        better = false;
        for (uint32_t i = 0; i < g->arcs; i++) {
            const plan_arc *a = &g->arc[i];
            if (a->flow < a->capacity && d[a->from] + a->cost < d[a->to]) {
                d[a->to] = d[a->from] + a->cost;
                better = true;
            }
            if (a->flow > 0 && d[a->to] - a->cost < d[a->from]) {
                d[a->from] = d[a->to] - a->cost;
                better = true;
            }
        }
    }
    free(d);
}

enum { NODES = 14, ARCS = 60 };

static plan_graph random_graph(uint64_t seed, plan_arc *arc) {
    rng r = {rng_seed(seed, 1)};
    plan_graph g = {.nodes = 4 + (uint32_t)rng_below(&r, NODES - 3), .source = 0, .sink = 1, .arc = arc};
    g.arcs = (uint32_t)rng_below(&r, ARCS + 1);
    for (uint32_t i = 0; i < g.arcs; i++)
        arc[i] = (plan_arc){.from = (uint32_t)rng_below(&r, g.nodes),
                            .to = (uint32_t)rng_below(&r, g.nodes),
                            .capacity = (int64_t)rng_below(&r, 6),
                            .cost = (int64_t)rng_below(&r, 20)};
    return g;
}

static void test_random_graphs_have_optimal_flows(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        plan_arc arc[ARCS];
        plan_graph g = random_graph(seed, arc);
        plan_answer all = solve(&g, INT64_MAX);
        check_flow(&g, &all);
        check_no_negative_cycle(&g);
        plan_answer part = solve(&g, all.units / 2);
        assert_int_equal(part.units, all.units / 2);
        check_flow(&g, &part);
        check_no_negative_cycle(&g);
    }
}

static void test_augmentation_returns_an_arc(void **state) {
    (void)state;
    // The cheapest first path 0-2-3-1 must return its middle arc for the second unit.
    plan_arc arc[] = {{0, 2, 1, 1, 0}, {2, 3, 1, 0, 0}, {3, 1, 1, 1, 0}, {0, 3, 1, 10, 0}, {2, 1, 1, 10, 0}};
    plan_graph g = {4, 5, 0, 1, arc};
    plan_answer one = solve(&g, 1);
    assert_int_equal(one.units, 1);
    assert_int_equal(one.cost, 2);
    plan_answer two = solve(&g, INT64_MAX);
    assert_int_equal(two.units, 2);
    assert_int_equal(two.cost, 22);
    assert_int_equal(arc[1].flow, 0);
}

static void test_mistakes_are_reported(void **state) {
    (void)state;
    plan_arc arc[] = {{0, 1, 1, -1, 0}};
    plan_graph g = {2, 1, 0, 1, arc};
    int64_t memory[64];
    assert_true(plan_min_cost_bytes(2, 1) <= sizeof memory);
    plan_answer answer;
    braid_error error = {0};
    assert_int_equal(plan_min_cost(&g, 1, memory, &answer, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "arc 0"));
    arc[0] = (plan_arc){0, 2, 1, 1, 0};
    assert_int_equal(plan_min_cost(&g, 1, memory, &answer, &error), BRAID_ARGUMENT);
    g.sink = 0;
    assert_int_equal(plan_min_cost(&g, 1, memory, &answer, &error), BRAID_ARGUMENT);
    g.nodes = PLAN_MAX_NODES + 1;
    assert_int_equal(plan_min_cost(&g, 1, memory, &answer, &error), BRAID_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs_have_optimal_flows),
        cmocka_unit_test(test_augmentation_returns_an_arc),
        cmocka_unit_test(test_mistakes_are_reported),
    };
    return cmocka_run_group_tests_name("plan_min_cost", tests, NULL, NULL);
}
