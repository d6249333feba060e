// Hashes of the traces of routing experiments, which must not depend on compiler, optimisation or
// listing. Called with "print" it prints them: tests/e2e/same_traces.py builds it with other
// compilers and compares.
#include "base/rng.h"
#include "bench/routing/routing.h"
#include "bench/routing/scale.h"
#include "bench/training/t6.h"
#include "bench/routing/views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LISTINGS = 3, SEED = 5 };

static void good(braid_err err, const braid_error *error) {
    if (err) fail_msg("%s", error->text);
}

static routing_settings settings_of(router_algorithm algorithm, routing_delay delay) {
    return (routing_settings){.algorithm = algorithm,
                              .delay = delay,
                              .slack = ROUTING_SCALE / 20,
                              .gather = true,
                              .limit_rounds = algorithm == ROUTER_GWTF ? 120 : 600};
}

// A hash of all figures of a result that an experiment shows.
static uint64_t digest(const routing_result *r) {
    const uint64_t shown[] = {r->hash,     r->events,  r->messages,        r->frames,
                              r->bytes,    r->quiet,   (uint64_t)r->whole, (uint64_t)r->last_move,
                              r->end.whole, (uint64_t)r->end.units, (uint64_t)r->end.cost, (uint64_t)r->early.cost};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) hash = rng_seed(hash, shown[i]);
    return hash;
}

static uint64_t f7_planned(uint32_t test, router_algorithm algorithm, router_objective objective, uint64_t listing, bool plan_first) {
    uint64_t hash = 0;
    braid_error error = {0};
    routing_instance i;
    good(routing_f7_make(test, SEED, ROUTING_EQUAL, listing, &i, &error), &error);
    for (int delay = 0; delay < ROUTING_DELAYS; delay++) {
        routing_settings settings = settings_of(algorithm, (routing_delay)delay);
        settings.objective = objective;
        settings.plan_first = plan_first;
        routing_result r;
        good(routing_run(&i, &settings, i.problem.peer[0].capacity, &r, &error), &error);
        hash = rng_seed(hash, digest(&r));
        routing_result_close(&r);
    }
    routing_instance_close(&i);
    return hash;
}

static uint64_t f7(uint32_t test, router_algorithm algorithm, router_objective objective, uint64_t listing) {
    return f7_planned(test, algorithm, objective, listing, false);
}

static uint64_t churn(bool join, uint64_t listing) {
    braid_error error = {0};
    routing_instance i;
    good(routing_f7_make(1, SEED, ROUTING_EQUAL, listing, &i, &error), &error);
    const uint32_t peer[] = {3, 30};
    routing_change change = {.peer = peer, .count = 2, .join = join};
    routing_settings settings = settings_of(ROUTER_MINCOST, ROUTING_UNIFORM);
    routing_result before, after;
    good(routing_run_change(&i, &settings, &change, i.problem.peer[0].capacity, i.problem.peer[0].capacity, &before,
                            &after, &error), &error);
    uint64_t hash = rng_seed(digest(&before), digest(&after));
    routing_result_close(&before);
    routing_result_close(&after);
    routing_instance_close(&i);
    return hash;
}

static uint64_t run_briefly(const routing_instance *i, routing_delay delay, bool plan_first) {
    braid_error error = {0};
    routing_settings settings = settings_of(ROUTER_MINCOST, delay);
    settings.seldom = true;
    settings.path_limit = 24;
    settings.limit_rounds = 150;
    settings.plan_first = plan_first;
    routing_result r;
    good(routing_run(i, &settings, i->problem.peer[0].capacity, &r, &error), &error);
    uint64_t hash = rng_seed(digest(&r), i->problem.links);
    routing_result_close(&r);
    return hash;
}

static uint64_t scale(uint32_t relays, routing_delay delay, bool plan_first) {
    braid_error error = {0};
    scale_spec spec = {relays, 16, 90, SEED};
    routing_instance i;
    good(scale_make(&spec, &i, &error), &error);
    uint64_t hash = run_briefly(&i, delay, plan_first);
    routing_instance_close(&i);
    return hash;
}

static uint64_t views(views_costs costs) {
    braid_error error = {0};
    views_settings settings = {.relays = 96, .stages = 6, .sources = 1, .costs = costs, .demand = 0.9, .seed = SEED,
                               .links = 6, .limit_rounds = 60};
    views_swarm swarm;
    views_gossip gossip;
    routing_instance i;
    good(views_swarm_make(&settings, &swarm, &error), &error);
    good(views_gossip_run(&swarm, &gossip, &error), &error);
    good(views_instance(&swarm, &gossip, &i, &error), &error);
    uint64_t hash = rng_seed(gossip.hash, run_briefly(&i, ROUTING_LOCKSTEP, false));
    routing_instance_close(&i);
    views_gossip_close(&gossip);
    views_swarm_close(&swarm);
    return hash;
}

// DT-FM's search, trades and routing on their stages, and the time of an iteration.
static uint64_t t6(bool dtfm, pipeline_link link) {
    braid_error error = {0};
    t6_settings settings = {.microbatches = 3, .capacity = 4, .link = link};
    t6_world world;
    t6_world_make(SEED, &settings, &world);
    uint32_t stage[T6_PEERS], of[T6_PEERS];
    plan_dtfm_answer answer = {0};
    if (dtfm)
        good(t6_arrange_dtfm(&world, stage, &answer, &error), &error);
    else
        t6_arrange_traded(&world, stage);
    routing_instance i;
    good(t6_instance(&world, stage, &i, of, &error), &error);
    routing_settings run = settings_of(ROUTER_MINCOST, ROUTING_LOCKSTEP);
    routing_result r;
    good(routing_run(&i, &run, 3 * T6_DATA, &r, &error), &error);
    t6_time took;
    good(t6_time_of(&world, stage, &i, of, r.flow, &took, &error), &error);
    uint64_t hash = rng_seed(rng_seed(digest(&r), (uint64_t)took.iteration_ns), (uint64_t)answer.score);
    routing_result_close(&r);
    routing_instance_close(&i);
    return hash;
}

static void print_all(void) {
    for (uint32_t test = 1; test <= ROUTING_TESTS; test++)
        for (int a = 0; a < ROUTER_ALGORITHMS; a++)
            printf("f7 test %u, algorithm %d: %016" PRIx64 "\n", test, a, f7(test, (router_algorithm)a, ROUTER_SUM, 0));
    for (uint32_t test = 1; test <= ROUTING_TESTS; test += 2)
        for (int a = ROUTER_MINCOST; a <= ROUTER_GWTF; a++)
            printf("f7 test %u for the heaviest link, algorithm %d: %016" PRIx64 "\n", test, a,
                   f7(test, (router_algorithm)a, ROUTER_BOTTLENECK, 0));
    for (int join = 0; join < 2; join++) printf("churn, join %d: %016" PRIx64 "\n", join, churn(join != 0, 0));
    for (int delay = 0; delay < ROUTING_DELAYS; delay++)
        printf("scale, %s: %016" PRIx64 ", planned %016" PRIx64 "\n", routing_delay_name((routing_delay)delay), scale(99, (routing_delay)delay, false), scale(160, (routing_delay)delay, true));
    for (uint32_t test = 1; test <= ROUTING_TESTS; test++)
        printf("f7 test %u, planned: %016" PRIx64 "\n", test, f7_planned(test, ROUTER_MINCOST, ROUTER_SUM, 0, true));
    for (int costs = 0; costs < VIEWS_COSTS; costs++)
        printf("views, %s: %016" PRIx64 "\n", views_costs_name((views_costs)costs), views((views_costs)costs));
    for (int dtfm = 0; dtfm < 2; dtfm++)
        for (int link = 0; link < 2; link++)
            printf("t6, dtfm %d, link %d: %016" PRIx64 "\n", dtfm, link, t6(dtfm != 0, (pipeline_link)link));
}

static void test_f7_does_not_depend_on_the_listing(void **state) {
    (void)state;
    for (uint32_t test = 1; test <= 5; test += 2)
        for (int a = 0; a < ROUTER_ALGORITHMS; a++)
            for (uint64_t listing = 1; listing <= LISTINGS; listing++)
                assert_true(f7(test, (router_algorithm)a, ROUTER_SUM, listing) == f7(test, (router_algorithm)a, ROUTER_SUM, 0));
    for (uint64_t listing = 1; listing <= LISTINGS; listing++)
        assert_true(f7(3, ROUTER_MINCOST, ROUTER_BOTTLENECK, listing) == f7(3, ROUTER_MINCOST, ROUTER_BOTTLENECK, 0));
    for (uint32_t test = 1; test <= 5; test += 2)
        for (uint64_t listing = 1; listing <= LISTINGS; listing++)
            assert_true(f7_planned(test, ROUTER_MINCOST, ROUTER_SUM, listing, true) == f7_planned(test, ROUTER_MINCOST, ROUTER_SUM, 0, true));
    assert_true(f7(1, ROUTER_MINCOST, ROUTER_SUM, 0) != f7(2, ROUTER_MINCOST, ROUTER_SUM, 0));
    assert_true(f7(1, ROUTER_MINCOST, ROUTER_SUM, 0) != f7(1, ROUTER_MINCOST, ROUTER_BOTTLENECK, 0));
    assert_true(f7(1, ROUTER_GWTF, ROUTER_SUM, 0) != f7(1, ROUTER_GWTF, ROUTER_BOTTLENECK, 0));
}

static void test_churn_does_not_depend_on_the_listing(void **state) {
    (void)state;
    for (int join = 0; join < 2; join++)
        for (uint64_t listing = 1; listing <= LISTINGS; listing++)
            assert_true(churn(join != 0, listing) == churn(join != 0, 0));
    assert_true(churn(false, 0) != churn(true, 0));
}

static void test_t6_runs_twice_the_same(void **state) {
    (void)state;
    assert_true(t6(true, PIPELINE_PAIR) == t6(true, PIPELINE_PAIR) && t6(true, PIPELINE_PAIR) != t6(false, PIPELINE_PAIR));
}

static void test_large_swarms_run_twice_the_same(void **state) {
    (void)state;
    for (int delay = 0; delay < ROUTING_DELAYS; delay++)
        assert_true(scale(99, (routing_delay)delay, false) == scale(99, (routing_delay)delay, false));
    assert_true(scale(99, ROUTING_LOCKSTEP, false) != scale(99, ROUTING_UNIFORM, false));
    assert_true(scale(160, ROUTING_UNIFORM, true) == scale(160, ROUTING_UNIFORM, true) && scale(160, ROUTING_UNIFORM, true) != scale(160, ROUTING_UNIFORM, false));
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "print") == 0) {
        print_all();
        return fflush(stdout) == 0 ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f7_does_not_depend_on_the_listing),
        cmocka_unit_test(test_churn_does_not_depend_on_the_listing),
        cmocka_unit_test(test_t6_runs_twice_the_same),
        cmocka_unit_test(test_large_swarms_run_twice_the_same),
    };
    return cmocka_run_group_tests_name("training_traces", tests, NULL, NULL);
}
