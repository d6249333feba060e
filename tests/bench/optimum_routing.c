// Routing runs: F7's instances match the table, a run does not depend on the order of its peers,
// and no system is cheaper than the optimum.
#include "format/json.h"
#include "bench/optimum/optimum.h"
#include "bench/routing/routing_dump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make(uint32_t test, uint64_t seed, uint64_t listing, routing_instance *out) {
    braid_error error = {0};
    if (routing_f7_make(test, seed, ROUTING_EQUAL, listing, out, &error)) fail_msg("%s", error.text);
}

static void test_instances_are_as_the_table_says(void **state) {
    (void)state;
    for (uint32_t test = 1; test <= ROUTING_TESTS; test++) {
        const routing_f7 *t = &routing_f7_tests[test - 1];
        uint32_t capacities = 0, costs = 0;  // sets of the values at the ends of the ranges
        for (uint64_t seed = 0; seed < 20; seed++) {
            routing_instance i;
            make(test, seed, 0, &i);
            assert_int_equal(i.sources, t->sources);
            assert_int_equal(i.problem.peers, t->sources + t->relays);
            uint32_t width = t->relays / t->stages, fits = UINT32_MAX;
            assert_int_equal(i.problem.links, 2 * t->sources * width + (t->stages - 1) * width * width);
            assert_int_equal(plan_check(&i.problem, NULL), BRAID_OK);
            for (uint32_t stage = 1; stage <= t->stages; stage++) {
                uint32_t sum = 0;
                for (uint32_t p = 0; p < i.problem.peers; p++) {
                    uint32_t capacity = i.problem.peer[p].capacity;
                    if (i.problem.peer[p].stage != stage) continue;
                    assert_in_range(capacity, t->capacity_low, t->capacity_high - 1);
                    capacities |= (capacity == t->capacity_low ? 1u : 0u) |
                                  (capacity + 1 == t->capacity_high ? 2u : 0u);
                    sum += capacity;
                }
                if (sum < fits) fits = sum;
            }
            for (uint32_t l = 0; l < i.problem.links; l++) {
                uint32_t cost = (uint32_t)(i.problem.link[l].cost / ROUTING_SCALE);
                assert_in_range(cost, t->cost_low, t->cost_high - 1);
                costs |= (cost == t->cost_low ? 1u : 0u) | (cost + 1 == t->cost_high ? 2u : 0u);
            }
            assert_int_equal(i.problem.peer[0].capacity, fits / t->sources);
            routing_instance_close(&i);
        }
        assert_int_equal(capacities, 3);
        assert_int_equal(costs, 3);
    }
    routing_instance none;
    braid_error error = {0};
    assert_int_equal(routing_f7_make(7, 1, ROUTING_EQUAL, 0, &none, &error), BRAID_ARGUMENT);
}

static void test_listing_changes_nothing(void **state) {
    (void)state;
    routing_instance a, b, other;
    make(6, 4, 0, &a);
    make(6, 4, 99, &b);
    make(6, 5, 0, &other);
    assert_int_equal(a.problem.links, b.problem.links);
    assert_memory_equal(a.name, b.name, a.problem.peers * sizeof *a.name);
    assert_memory_equal(a.problem.peer, b.problem.peer, a.problem.peers * sizeof *a.problem.peer);
    assert_memory_equal(a.problem.link, b.problem.link, a.problem.links * sizeof *a.problem.link);
    assert_memory_not_equal(a.problem.link, other.problem.link, a.problem.links * sizeof *a.problem.link);
    routing_instance_close(&a);
    routing_instance_close(&b);
    routing_instance_close(&other);
}

static routing_result run(const routing_instance *i, router_algorithm algorithm, routing_delay delay, int64_t units) {
    routing_settings settings = {.algorithm = algorithm,
                                 .delay = delay,
                                 .slack = ROUTING_SCALE / 20,
                                 .gather = true,
                                 .limit_rounds = algorithm == ROUTER_GWTF ? 200 : 16000};
    routing_result result;
    braid_error error = {0};
    if (routing_run(i, &settings, units, &result, &error)) fail_msg("%s", error.text);
    return result;
}

// An independent check of a flow: conserved for each data peer, within capacity.
static void check_flow(const routing_instance *i, const int64_t *flow, int64_t units, int64_t cost) {
    const plan_problem *p = &i->problem;
    int64_t *load = calloc(p->peers, sizeof *load), sent = 0, paid = 0;
    assert_non_null(load);
    for (uint32_t k = 0; k < i->sources; k++) {
        int64_t *balance = calloc(p->peers, sizeof *balance);
        assert_non_null(balance);
        for (uint32_t l = 0; l < p->links; l++) {
            int64_t f = flow[(size_t)k * p->links + l];
            assert_true(f >= 0);
            balance[p->link[l].from] -= f;
            balance[p->link[l].to] += f;
            load[p->link[l].to] += f;
            paid += f * p->link[l].cost;
            if (p->link[l].from < i->sources) sent += f;
        }
        for (uint32_t v = 0; v < p->peers; v++) assert_int_equal(balance[v], 0);
        free(balance);
    }
    for (uint32_t v = 0; v < p->peers; v++) assert_true(load[v] <= p->peer[v].capacity);
    assert_int_equal(sent, units);
    assert_int_equal(paid, cost);
    free(load);
}

static void check_run(const routing_instance *i, const routing_optimum *best, router_algorithm algorithm,
                      routing_delay delay, bool exact) {
    routing_result r = run(i, algorithm, delay, best->units), again = run(i, algorithm, delay, best->units);
    assert_true(r.hash == again.hash && r.events == again.events && r.messages > 0);
    assert_true(r.end.units <= best->units);
    bool whole = r.end.whole;
    if (algorithm != ROUTER_GWTF) assert_true(r.quiet && r.end.consistent);
    if (algorithm == ROUTER_MINCOST) assert_true(whole);
    if (algorithm == ROUTER_MINCOST && exact) assert_int_equal(r.end.cost, best->cost);
    if (whole || r.end.consistent) check_flow(i, r.flow, r.end.units, r.end.cost);
    if (whole) assert_true((double)r.end.cost + 0.5 > best->bound);
    routing_result_close(&r);
    routing_result_close(&again);
}

static void test_no_system_is_cheaper_than_the_optimum(void **state) {
    (void)state;
    for (uint32_t test = 1; test <= ROUTING_TESTS; test++) {
        routing_instance i;
        routing_optimum best;
        braid_error error = {0};
        make(test, 3 + test, 0, &i);
        if (routing_optimum_find(&i, 10, &best, &error)) fail_msg("%s", error.text);
        for (int a = 0; a < ROUTER_ALGORITHMS; a++)
            for (int delay = 0; delay < ROUTING_DELAYS; delay++)
                check_run(&i, &best, (router_algorithm)a, (routing_delay)delay, test <= 4);
        routing_optimum_close(&best);
        routing_instance_close(&i);
    }
}

// The heaviest link of a flow, by code independent of the one under test.
static int64_t heaviest(const routing_instance *i, const int64_t *flow) {
    int64_t most = 0;
    for (uint32_t l = 0; l < i->problem.links; l++) {
        int64_t units = 0;
        for (uint32_t k = 0; k < i->sources; k++) units += flow[(size_t)k * i->problem.links + l];
        if (units * i->problem.link[l].cost > most) most = units * i->problem.link[l].cost;
    }
    return most;
}

static void check_worst(const routing_instance *i, const routing_optimum *best, routing_delay delay, uint64_t *hash) {
    routing_settings settings = {.algorithm = ROUTER_MINCOST, .objective = ROUTER_BOTTLENECK, .delay = delay,
                                 .slack = ROUTING_SCALE / 20, .gather = true, .limit_rounds = 16000};
    routing_result r;
    braid_error error = {0};
    if (routing_run(i, &settings, best->units, &r, &error)) fail_msg("%s", error.text);
    assert_true(r.quiet && r.end.whole && r.end.consistent && r.over_capacity == 0);
    check_flow(i, r.flow, best->units, r.end.cost);
    assert_int_equal(heaviest(i, r.flow), r.end.worst);
    assert_int_equal(r.end.worst, best->cost);
    assert_true(r.end.cost >= best->sum && (double)r.end.cost < 1.08 * (double)best->sum);
    *hash = r.hash;
    routing_result_close(&r);
}

static void test_bottleneck_objective_reaches_the_optimum(void **state) {
    (void)state;
    for (uint32_t test = 1; test <= 4; test++) {
        routing_instance i, listed;
        routing_optimum best, cheapest;
        braid_error error = {0};
        make(test, 5 + test, 0, &i);
        make(test, 5 + test, 7, &listed);
        if (routing_optimum_worst(&i, 1, &best, &error)) fail_msg("%s", error.text);
        if (routing_optimum_find(&i, 10, &cheapest, &error)) fail_msg("%s", error.text);
        assert_true(best.proven && best.units == cheapest.units && best.sum >= cheapest.cost);
        assert_int_equal(heaviest(&i, best.flow), best.cost);
        assert_true(best.cost <= heaviest(&i, cheapest.flow));
        check_flow(&i, best.flow, best.units, best.sum);
        for (int delay = 0; delay < ROUTING_DELAYS; delay++) {
            uint64_t hash[2];
            check_worst(&i, &best, (routing_delay)delay, &hash[0]);
            check_worst(&listed, &best, (routing_delay)delay, &hash[1]);
            assert_true(hash[0] == hash[1]);
        }
        routing_optimum_close(&best);
        routing_optimum_close(&cheapest);
        routing_instance_close(&i);
        routing_instance_close(&listed);
    }
}

static void test_runs_depend_on_seed_and_delay_not_on_listing(void **state) {
    (void)state;
    routing_instance a, b, other;
    make(1, 11, 0, &a);
    make(1, 11, 5, &b);
    make(1, 12, 0, &other);
    routing_result r = run(&a, ROUTER_MINCOST, ROUTING_HEAVY, 1), same = run(&b, ROUTER_MINCOST, ROUTING_HEAVY, 1);
    routing_result late = run(&a, ROUTER_MINCOST, ROUTING_EXPONENTIAL, 1);
    routing_result elsewhere = run(&other, ROUTER_MINCOST, ROUTING_HEAVY, 1);
    assert_true(r.hash == same.hash);
    assert_true(r.hash != late.hash && r.hash != elsewhere.hash);
    routing_result_close(&r);
    routing_result_close(&same);
    routing_result_close(&late);
    routing_result_close(&elsewhere);
    routing_instance_close(&a);
    routing_instance_close(&b);
    routing_instance_close(&other);
}

// A relay dies, another one joins: braid ends at the optimum of the remaining swarm, and two runs
// are the same.
static void check_change(uint64_t seed, routing_delay delay, bool join) {
    routing_instance full, less;
    routing_optimum all, rest;
    braid_error error = {0};
    make(1, seed, 0, &full);
    uint32_t peer[] = {1 + (uint32_t)seed % 40, 1 + (uint32_t)(seed + 7) % 40};
    routing_change change = {.peer = peer, .count = 2, .join = join};
    assert_int_equal(routing_without(&full, &change, &less, &error), BRAID_OK);
    assert_int_equal(less.problem.peers, full.problem.peers - 2);
    assert_int_equal(plan_check(&less.problem, &error), BRAID_OK);
    assert_int_equal(routing_optimum_find(&full, 1, &all, &error), BRAID_OK);
    assert_int_equal(routing_optimum_find(&less, 1, &rest, &error), BRAID_OK);
    const routing_optimum *first = join ? &rest : &all, *then = join ? &all : &rest;
    routing_settings settings = {
        .algorithm = ROUTER_MINCOST, .delay = delay, .slack = ROUTING_SLACK, .gather = true, .limit_rounds = 16000};
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        routing_result before, after;
        if (routing_run_change(&full, &settings, &change, first->units, then->units, &before, &after, &error))
            fail_msg("%s", error.text);
        assert_true(before.quiet && after.quiet && after.whole >= 0 && after.whole_messages <= after.messages);
        assert_true(before.end.whole && before.end.consistent && before.end.cost == first->cost);
        assert_true(after.end.whole && after.end.consistent && after.end.cost == then->cost);
        check_flow(&full, after.flow, then->units, then->cost);
        assert_int_equal(before.over_capacity + after.over_capacity, 0);
        hash[i] = before.hash ^ after.hash;
        routing_result_close(&before);
        routing_result_close(&after);
    }
    assert_true(hash[0] == hash[1]);
    routing_optimum_close(&all);
    routing_optimum_close(&rest);
    routing_instance_close(&full);
    routing_instance_close(&less);
}

static void test_changes_end_at_the_new_optimum(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++)
        for (int delay = 0; delay < ROUTING_DELAYS; delay++) check_change(seed, (routing_delay)delay, seed % 2 == 1);
}

static char *read_all(const char *path, size_t *length) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *length = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

static void test_dumps_hold_paths(void **state) {
    (void)state;
    routing_instance i;
    routing_optimum best;
    braid_error error = {0};
    make(1, 2, 0, &i);
    assert_int_equal(routing_optimum_find(&i, 10, &best, &error), BRAID_OK);
    char path[] = "/tmp/braid-routing-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    routing_found found = {"optimum", best.flow, 1, 2, 3};
    assert_int_equal(routing_dump(&i, &found, 1, path, &error), BRAID_OK);
    size_t length = 0;
    char *text = read_all(path, &length);
    json *doc = NULL;
    if (json_parse(text, length, &doc, &error)) fail_msg("%s", error.text);
    const json_value *root = json_root(doc);
    const json_value *system = json_member(doc, json_member(doc, root, "systems"), "optimum");
    const json_value *paths = json_member(doc, system, "paths");
    assert_int_equal(json_member(doc, root, "peers")->count, 41);
    assert_int_equal(json_member(doc, root, "links")->count, i.problem.links);
    assert_int_equal(paths->count, best.units);
    assert_int_equal(json_first(doc, paths)->count, 10);
    assert_string_equal(json_string(json_first(doc, json_first(doc, paths))), "d1");
    json_free(doc);
    free(text);
    unlink(path);
    assert_int_equal(routing_dump(&i, &found, 1, "/nowhere/at/all", &error), BRAID_IO);
    routing_optimum_close(&best);
    routing_instance_close(&i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instances_are_as_the_table_says),
        cmocka_unit_test(test_listing_changes_nothing),
        cmocka_unit_test(test_no_system_is_cheaper_than_the_optimum),
        cmocka_unit_test(test_bottleneck_objective_reaches_the_optimum),
        cmocka_unit_test(test_runs_depend_on_seed_and_delay_not_on_listing),
        cmocka_unit_test(test_changes_end_at_the_new_optimum),
        cmocka_unit_test(test_dumps_hold_paths),
    };
    return cmocka_run_group_tests_name("optimum_routing", tests, NULL, NULL);
}
