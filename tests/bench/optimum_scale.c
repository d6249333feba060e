// Large swarms: instances keep their promises, each peer has its cheapest links, and a run reaches
// the demand.
#include "bench/optimum/optimum.h"
#include "bench/routing/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void make(uint32_t relays, uint32_t neighbours, uint64_t seed, routing_instance *out) {
    scale_spec spec = {relays, neighbours, 90, seed};
    braid_error error = {0};
    if (scale_make(&spec, out, &error)) fail_msg("%s", error.text);
}

static void check_instance(const routing_instance *i, uint32_t relays, uint32_t neighbours) {
    const plan_problem *p = &i->problem;
    uint64_t fits = UINT64_MAX;
    uint32_t least = neighbours < 8 ? 0 : 1;  // a peer with few links may be chosen by none
    uint32_t *next = calloc(p->peers, sizeof *next), *previous = calloc(p->peers, sizeof *previous);
    assert_true(next != NULL && previous != NULL);
    assert_int_equal(p->peers, relays + 1);
    assert_int_equal(plan_check(p, NULL), BRAID_OK);
    for (uint32_t l = 0; l < p->links; l++) {
        const plan_link *k = &p->link[l];
        next[k->from]++;
        previous[k->to]++;
        assert_in_range(k->cost, ROUTING_SCALE, (SCALE_SIDE * 3 / 2 + SCALE_MAX_ACCESS) * ROUTING_SCALE);
        // no link twice
        if (l > 0) assert_true(k[-1].from < k->from || (k[-1].from == k->from && k[-1].to < k->to));
    }
    for (uint32_t s = 1; s <= SCALE_STAGES; s++) {
        uint64_t sum = 0;
        uint32_t width = 0;
        for (uint32_t v = 1; v <= relays; v++) {
            if (p->peer[v].stage != s) continue;
            width++;
            sum += p->peer[v].capacity;
            assert_in_range(p->peer[v].capacity, 1, 2);
            assert_in_range(next[v], least, s == SCALE_STAGES ? 1 : neighbours);
            assert_in_range(previous[v], least, s == 1 ? 1 : neighbours);
        }
        assert_in_range(width, relays / SCALE_STAGES, relays / SCALE_STAGES + 1);
        if (sum < fits) fits = sum;
    }
    assert_int_equal(p->peer[0].capacity, fits * 90 / 100);
    free(next);
    free(previous);
}

static void test_instances_keep_their_bounds(void **state) {
    (void)state;
    const uint32_t relays[] = {8, 99, 315, 1000};
    for (size_t n = 0; n < sizeof relays / sizeof *relays; n++)
        for (uint32_t neighbours = 2; neighbours <= 16; neighbours *= 2) {
            routing_instance i;
            make(relays[n], neighbours, n, &i);
            check_instance(&i, relays[n], neighbours);
            routing_instance_close(&i);
        }
}

static void test_instances_follow_their_seed(void **state) {
    (void)state;
    routing_instance a, b, other;
    make(200, 16, 3, &a);
    make(200, 16, 3, &b);
    make(200, 16, 4, &other);
    assert_int_equal(a.problem.links, b.problem.links);
    assert_memory_equal(a.problem.link, b.problem.link, a.problem.links * sizeof *a.problem.link);
    assert_memory_equal(a.name, b.name, a.problem.peers * sizeof *a.name);
    assert_memory_not_equal(a.problem.link, other.problem.link, 100 * sizeof *a.problem.link);
    routing_instance_close(&a);
    routing_instance_close(&b);
    routing_instance_close(&other);
}

static int64_t best_of(const routing_instance *i, int64_t *units) {
    routing_optimum best;
    braid_error error = {0};
    if (routing_optimum_find(i, 1, &best, &error)) fail_msg("%s", error.text);
    int64_t cost = best.cost;
    *units = best.units;
    routing_optimum_close(&best);
    return cost;
}

// Half of the links the cheapest and half random ones: little is lost against four times as many.
static void test_few_good_links_are_enough(void **state) {
    (void)state;
    routing_instance few, many;
    int64_t units[2];
    make(400, 8, 1, &few);
    make(400, 32, 1, &many);
    int64_t cost = best_of(&few, &units[0]), least = best_of(&many, &units[1]);
    assert_int_equal(units[0], units[1]);
    assert_int_equal(units[0], few.problem.peer[0].capacity);
    assert_true(cost >= least && cost < least + least / 10);
    routing_instance_close(&few);
    routing_instance_close(&many);
}

static void test_a_run_fills_the_swarm_and_comes_near(void **state) {
    (void)state;
    routing_instance i;
    int64_t units;
    make(200, 16, 2, &i);
    int64_t cost = best_of(&i, &units);
    routing_settings settings = {.algorithm = ROUTER_MINCOST, .slack = ROUTING_SCALE / 20, .path_limit = 24,
                                 .near_cost = cost + cost / 20, .seldom = true, .limit_rounds = 2000};
    routing_result r;
    braid_error error = {0};
    if (routing_run(&i, &settings, units, &r, &error)) fail_msg("%s", error.text);
    assert_true(r.quiet && r.end.whole && r.end.consistent);
    assert_in_range(r.end.cost, cost, cost + cost / 20);
    assert_true(r.whole >= 0 && r.near >= r.whole && r.near_messages >= r.whole_messages);
    assert_true(r.near_messages <= r.messages);
    assert_int_equal(r.over_capacity, 0);
    assert_true(r.router_bytes + r.run_bytes <= (uint64_t)i.problem.peers * 96 * 1024);
    routing_result_close(&r);
    routing_instance_close(&i);
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    const scale_spec bad[] = {{7, 16, 90, 0}, {SCALE_MAX_RELAYS + 1, 16, 90, 0}, {100, 1, 90, 0}, {100, 33, 90, 0},
                              {100, 16, 0, 0}, {100, 16, 101, 0}};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        routing_instance i;
        braid_error error = {0};
        assert_int_equal(scale_make(&bad[b], &i, &error), BRAID_ARGUMENT);
        assert_non_null(strstr(error.text, "neighbours 2 to 32"));
        assert_null(i.problem.link);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instances_keep_their_bounds),
        cmocka_unit_test(test_instances_follow_their_seed),
        cmocka_unit_test(test_few_good_links_are_enough),
        cmocka_unit_test(test_a_run_fills_the_swarm_and_comes_near),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests_name("optimum_scale", tests, NULL, NULL);
}
