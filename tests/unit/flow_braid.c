// braid's routers in a small network: the exact optimum for one source, always quiet, under any delays, crashes and joins.
#include "flow_net.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { LONGEST = 1000000 };  // rounds until quiet: a single heavy-tailed delay may be thousands

static const net_case published[] = {{.sources = 1,
                                      .relays = 40,
                                      .stages = 8,
                                      .capacity_from = 1,
                                      .capacity_below = 3,
                                      .cost_from = 1,
                                      .cost_below = 20},
                                     {.sources = 1,
                                      .relays = 40,
                                      .stages = 10,
                                      .capacity_from = 1,
                                      .capacity_below = 3,
                                      .cost_from = 1,
                                      .cost_below = 20},
                                     {.sources = 1,
                                      .relays = 40,
                                      .stages = 8,
                                      .capacity_from = 5,
                                      .capacity_below = 15,
                                      .cost_from = 1,
                                      .cost_below = 20},
                                     {.sources = 1,
                                      .relays = 40,
                                      .stages = 8,
                                      .capacity_from = 1,
                                      .capacity_below = 3,
                                      .cost_from = 5,
                                      .cost_below = 100}};

static void fail_case(const net *n, const net_result *r, const char *what) {
    fail_msg("%s: seed %llu, delays %d, relays %u, stages %u: %s (at %u), %s", what, (unsigned long long)n->c.seed,
             (int)n->c.delays, n->c.relays, n->c.stages, n->broken != NULL ? n->broken : "no check failed",
             n->broken_at, r->why != NULL ? r->why : "whole");
}

// Quiet, whole, and (one source) as many units as fit at the least cost.
static void expect_optimum(net *n, const char *what) {
    bool quiet = net_run(n, LONGEST);
    net_result r = net_measure(n);
    if (!quiet || n->broken != NULL || !r.whole) fail_case(n, &r, what);
    net_result best = net_optimum(n);
    if (r.units == best.units && r.cost == best.cost) return;
    fail_msg("%s: seed %llu: %u units cost %lld, but %u could cost %lld", what, (unsigned long long)n->c.seed, r.units,
             (long long)r.cost, best.units, (long long)best.cost);
}

static void test_reaches_the_optimum_of_the_published_tests(void **state) {
    (void)state;
    for (uint32_t test = 0; test < 4; test++) {
        for (uint64_t seed = 0; seed < 6; seed++) {
            net_case c = published[test];
            c.seed = seed;
            c.delays = (net_delays)(seed % 4);
            net *n = net_new(&c);
            expect_optimum(n, "published");
            net_free(n);
        }
    }
}

static net_case random_case(rng *r) {
    uint32_t stages = 1 + (uint32_t)rng_below(r, 6);
    return (net_case){.sources = 1,
                      .stages = stages,
                      .relays = stages * (1 + (uint32_t)rng_below(r, 4)),
                      .capacity_from = 1,
                      .capacity_below = 2 + (uint32_t)rng_below(r, 5),
                      .cost_from = 1,
                      .cost_below = 3 + (uint32_t)rng_below(r, 40),
                      .delays = (net_delays)rng_below(r, 4),
                      .seed = rng_next(r)};
}

// Crashes and restarts at any moment. A stage may die out for a while.
static void churn(net *n, rng *r) {
    uint32_t blows = 1 + (uint32_t)rng_below(r, 6);
    for (uint32_t i = 0; i < blows; i++) {
        net_run(n, 1 + (int64_t)rng_below(r, 40));
        router_peer p = 2 + (router_peer)rng_below(r, n->peers - 1);
        if (n->alive[p])
            net_crash(n, p);
        else
            net_restart(n, p);
    }
}

static void test_random_schedules_with_crashes_and_restarts(void **state) {
    (void)state;
    rng r = seeded_rng("churn", 2026);
    for (int i = 0; i < 5000; i++) {
        net_case c = random_case(&r);
        net *n = net_new(&c);
        churn(n, &r);
        expect_optimum(n, "churn");
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reaches_the_optimum_of_the_published_tests),
        cmocka_unit_test(test_random_schedules_with_crashes_and_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
