// The planners against independent solutions: ours for one source against GLPK's out-of-kilter
// solver, the integer program for several sources against every routing, tried one by one.
#include "base/rng.h"
#include "bench/optimum/optimum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef BRAID_HAVE_GLPK
#include <glpk.h>

enum { NODES = 14, ARCS = 60 };

static plan_graph random_graph(uint64_t seed, plan_arc *arc) {
    rng r = {rng_seed(seed, 1)};
    plan_graph g = {.nodes = 4 + (uint32_t)rng_below(&r, NODES - 3), .source = 0, .sink = 1, .arc = arc};
    uint32_t wanted = (uint32_t)rng_below(&r, ARCS + 1);
    while (g.arcs < wanted) {
        plan_arc a = {.from = (uint32_t)rng_below(&r, g.nodes), .to = (uint32_t)rng_below(&r, g.nodes)};
        a.capacity = (int64_t)rng_below(&r, 6);
        a.cost = (int64_t)rng_below(&r, 20);
        // GLPK takes no arc from a node to itself; no cheapest flow uses one.
        if (a.from == a.to)
            wanted--;
        else
            arc[g.arcs++] = a;
    }
    return g;
}

static plan_answer solve(plan_graph *g) {
    void *memory = malloc(plan_min_cost_bytes(g->nodes, g->arcs));
    assert_non_null(memory);
    plan_answer answer;
    braid_error error = {0};
    if (plan_min_cost(g, INT64_MAX, memory, &answer, &error)) fail_msg("%s", error.text);
    free(memory);
    return answer;
}

typedef struct glpk_arc {
    double capacity, cost, flow;
} glpk_arc;

// The cost of a cheapest flow of `units`; -1 units: there is none.
static plan_answer solve_with_glpk(const plan_graph *g, int64_t units) {
    glp_graph *graph = glp_create_graph(sizeof(double), sizeof(glpk_arc));
    glp_add_vertices(graph, (int)g->nodes);
    for (uint32_t v = 0; v < g->nodes; v++) {
        double need = v == g->source ? (double)units : v == g->sink ? -(double)units : 0;
        memcpy(graph->v[v + 1]->data, &need, sizeof need);
    }
    for (uint32_t i = 0; i < g->arcs; i++) {
        glp_arc *a = glp_add_arc(graph, (int)g->arc[i].from + 1, (int)g->arc[i].to + 1);
        glpk_arc values = {(double)g->arc[i].capacity, (double)g->arc[i].cost, 0};
        memcpy(a->data, &values, sizeof values);
    }
    double cost = 0;
    int code = glp_mincost_okalg(graph, 0, -1, offsetof(glpk_arc, capacity), offsetof(glpk_arc, cost), &cost,
                                 offsetof(glpk_arc, flow), -1);
    glp_delete_graph(graph);
    return code == 0 ? (plan_answer){units, llround(cost)} : (plan_answer){-1, 0};
}

static void test_one_source(void **state) {
    (void)state;
    uint32_t carried = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        plan_arc arc[ARCS];
        plan_graph g = random_graph(seed, arc);
        plan_answer ours = solve(&g), theirs = solve_with_glpk(&g, ours.units);
        if (theirs.units != ours.units || theirs.cost != ours.cost)
            fail_msg("seed %u: %d units at %d, GLPK %d", (unsigned)seed, (int)ours.units, (int)ours.cost,
                     (int)theirs.cost);
        assert_int_equal(solve_with_glpk(&g, ours.units + 1).units, -1);
        carried += ours.units > 0;
    }
    assert_true(carried > 300);
}

// --- several sources: two data peers, two stages of three relays, all linked

enum { SOURCES = 2, WIDTH = 3, PEERS = SOURCES + 2 * WIDTH, LINKS = 2 * SOURCES * WIDTH + WIDTH * WIDTH };

typedef struct tiny {
    routing_instance instance;
    plan_peer peer[PEERS];
    plan_link link[LINKS];
    int64_t cost[PEERS][PEERS];
} tiny;

static void make_tiny(tiny *t, uint64_t seed) {
    rng r = {rng_seed(seed, 9)};
    *t = (tiny){.instance = {.problem = {t->peer, t->link, PEERS, 0, 2}, .sources = SOURCES}};
    for (uint32_t i = 0; i < PEERS; i++) {
        uint32_t relay = i < SOURCES ? 0 : i - SOURCES;
        t->peer[i] = i < SOURCES ? (plan_peer){0, 2} : (plan_peer){1 + relay / WIDTH, (uint32_t)rng_below(&r, 3)};
    }
    for (uint32_t i = 0; i < PEERS; i++)
        for (uint32_t j = 0; j < PEERS; j++) {
            if (t->peer[j].stage != (t->peer[i].stage + 1) % 3) continue;
            t->cost[i][j] = (1 + (int64_t)rng_below(&r, 19)) * ROUTING_SCALE;
            t->link[t->instance.problem.links++] = (plan_link){i, j, t->cost[i][j]};
        }
}

static void try_all(const tiny *t, uint32_t *left, plan_answer now, uint32_t first, plan_answer *best) {
    if (now.units > best->units || (now.units == best->units && now.cost < best->cost)) *best = now;
    for (uint32_t way = first; way < SOURCES * WIDTH * WIDTH; way++) {
        uint32_t a = way % SOURCES, x = SOURCES + way / SOURCES % WIDTH, y = SOURCES + WIDTH + way / SOURCES / WIDTH;
        if (left[a] == 0 || left[x] == 0 || left[y] == 0) continue;
        left[a]--, left[x]--, left[y]--;
        int64_t cost = t->cost[a][x] + t->cost[x][y] + t->cost[y][a];
        try_all(t, left, (plan_answer){now.units + 1, now.cost + cost}, way, best);
        left[a]++, left[x]++, left[y]++;
    }
}

static void test_several_sources(void **state) {
    (void)state;
    uint32_t dearer = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        tiny t;
        make_tiny(&t, seed);
        uint32_t left[PEERS];
        for (uint32_t i = 0; i < PEERS; i++) left[i] = t.peer[i].capacity;
        plan_answer best = {0};
        try_all(&t, left, (plan_answer){0}, 0, &best);
        routing_optimum found;
        braid_error error = {0};
        if (routing_optimum_find(&t.instance, 10, &found, &error)) fail_msg("%s", error.text);
        assert_true(found.proven);
        assert_int_equal(found.units, best.units);
        assert_int_equal(found.cost, best.cost);
        assert_true(found.relaxed <= found.cost && found.bound < (double)found.cost + 0.5);
        dearer += found.relaxed < found.cost;
        routing_optimum_close(&found);
    }
    assert_true(dearer > 20);  // instances in which returning to the own data peer costs more
}

// The same for the heaviest link: most units, then the least bottleneck, then the least cost.
typedef struct loaded {
    int64_t units, worst, cost;
} loaded;

static int64_t put_on(const tiny *t, int64_t on[PEERS][PEERS], uint32_t from, uint32_t to, int64_t units) {
    on[from][to] += units;
    return on[from][to] * t->cost[from][to];
}

static void try_loads(const tiny *t, uint32_t *left, int64_t on[PEERS][PEERS], loaded now, uint32_t first, loaded *best) {
    bool lighter = now.worst < best->worst || (now.worst == best->worst && now.cost < best->cost);
    if (now.units > best->units || (now.units == best->units && lighter)) *best = now;
    for (uint32_t way = first; way < SOURCES * WIDTH * WIDTH; way++) {
        uint32_t a = way % SOURCES, x = SOURCES + way / SOURCES % WIDTH, y = SOURCES + WIDTH + way / SOURCES / WIDTH;
        if (left[a] == 0 || left[x] == 0 || left[y] == 0) continue;
        left[a]--, left[x]--, left[y]--;
        int64_t load[] = {put_on(t, on, a, x, 1), put_on(t, on, x, y, 1), put_on(t, on, y, a, 1)};
        loaded next = {now.units + 1, now.worst, now.cost + t->cost[a][x] + t->cost[x][y] + t->cost[y][a]};
        for (int i = 0; i < 3; i++) next.worst = load[i] > next.worst ? load[i] : next.worst;
        try_loads(t, left, on, next, way, best);
        put_on(t, on, a, x, -1), put_on(t, on, x, y, -1), put_on(t, on, y, a, -1);
        left[a]++, left[x]++, left[y]++;
    }
}

static void test_several_sources_with_bottleneck_objective(void **state) {
    (void)state;
    uint32_t heavier = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        tiny t;
        make_tiny(&t, seed);
        uint32_t left[PEERS];
        int64_t on[PEERS][PEERS] = {{0}};
        for (uint32_t i = 0; i < PEERS; i++) left[i] = t.peer[i].capacity;
        loaded best = {0};
        try_loads(&t, left, on, (loaded){0}, 0, &best);
        routing_optimum found;
        braid_error error = {0};
        if (routing_optimum_worst(&t.instance, 10, &found, &error)) fail_msg("%s", error.text);
        assert_true(found.proven);
        assert_int_equal(found.units, best.units);
        assert_int_equal(found.cost, best.worst);
        assert_int_equal(found.sum, best.cost);
        assert_true(found.relaxed <= found.cost);
        heavier += found.relaxed < found.cost;
        routing_optimum_close(&found);
    }
    // instances in which returning to the own data peer loads some link more
    assert_true(heavier > 5);
}

// Two data peers that share every relay: planned paths are near the integer optimum, under any
// delays, and routing settles.
static void share_relays_well(router_objective objective, uint64_t seeds, double most, double most_on_average) {
    double sum = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        routing_instance instance;
        routing_optimum best;
        routing_result r;
        braid_error error = {0};
        assert_int_equal(routing_f7_make(5, seed, ROUTING_EQUAL, 0, &instance, &error), BRAID_OK);
        bool worst = objective == ROUTER_BOTTLENECK;
        braid_err err = worst ? routing_optimum_worst(&instance, 20, &best, &error) : routing_optimum_find(&instance, 20, &best, &error);
        assert_int_equal(err, BRAID_OK);
        routing_settings s = {.algorithm = ROUTER_MINCOST,
                              .objective = objective,
                              .delay = (routing_delay)(seed % ROUTING_DELAYS),
                              .slack = ROUTING_SCALE / 20,
                              .gather = true,
                              .limit_rounds = 30000};
        assert_int_equal(routing_run(&instance, &s, best.units, &r, &error), BRAID_OK);
        assert_true(best.proven && r.quiet && r.end.whole && r.end.consistent);
        assert_int_equal(r.over_capacity, 0);
        double ratio = (double)(worst ? r.end.worst : r.end.cost) / (double)best.cost;
        if (ratio > most) fail_msg("seed %llu: %.4f of the optimum", (unsigned long long)seed, ratio);
        sum += ratio;
        routing_result_close(&r);
        routing_optimum_close(&best);
        routing_instance_close(&instance);
    }
    if (sum / (double)seeds > most_on_average) fail_msg("%.4f of the optimum on average", sum / (double)seeds);
}

static void test_braid_shares_relays_well(void **state) {
    (void)state;
    share_relays_well(ROUTER_SUM, 8, 1.01, 1.002);
}

static void test_braid_shares_relays_with_bottleneck_objective(void **state) {
    (void)state;
    share_relays_well(ROUTER_BOTTLENECK, 6, 1.02, 1.01);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_source),
        cmocka_unit_test(test_several_sources),
        cmocka_unit_test(test_several_sources_with_bottleneck_objective),
        cmocka_unit_test(test_braid_shares_relays_well),
        cmocka_unit_test(test_braid_shares_relays_with_bottleneck_objective),
    };
    return cmocka_run_group_tests_name("optimum_glpk", tests, NULL, NULL);
}
#else

// Without GLPK no optimum is claimed.
static void test_no_optimum_is_claimed_without_glpk(void **state) {
    (void)state;
    routing_instance instance;
    routing_optimum found;
    braid_error error = {0};
    assert_int_equal(routing_f7_make(5, 1, ROUTING_EQUAL, 0, &instance, &error), BRAID_OK);
    assert_int_equal(routing_optimum_find(&instance, 1, &found, &error), BRAID_OK);
    assert_false(found.proven);
    assert_true(found.bound > 0 && found.flow == NULL);
    routing_optimum_close(&found);
    routing_instance_close(&instance);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_optimum_is_claimed_without_glpk)};
    return cmocka_run_group_tests_name("optimum_glpk", tests, NULL, NULL);
}
#endif
