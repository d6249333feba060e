// A swarm with 40 relays in one stage, some of which die and restart. Training goes on, every rule
// holds, and the routers' flow costs little more than the cheapest flow over all links. Lost and
// stale views are noticed.
#include "braid/peer.h"
#include "protocol/core/faults.h"
#include "sim/routes.h"
#include "sim/scenario.h"
#include "sim/swarm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char crowd[] =
    "model: {preset: demo, tokens: 64}\n"
    "stages: 4\n"
    "microbatches: 34\n"
    "links: {jitter_ms: 1, up_mbps: 500, down_mbps: 500}\n"
    "peers:\n"
    "- {name: d, role: data, place: Ohio, gflops: 2000, capacity: 34}\n"
    "- {name: v1, count: 14, stage: 1, place: Virginia, gflops: 2}\n"
    "- {name: l1, count: 13, stage: 1, place: London, gflops: 2}\n"
    "- {name: t1, count: 13, stage: 1, place: Tokyo, gflops: 2}\n"
    "- {name: o2, count: 6, stage: 2, place: Ohio, gflops: 6, capacity: 8}\n"
    "- {name: l2, count: 6, stage: 2, place: London, gflops: 6, capacity: 8}\n"
    "- {name: o3, count: 6, stage: 3, place: Ohio, gflops: 6, capacity: 8}\n"
    "- {name: t3, count: 6, stage: 3, place: Tokyo, gflops: 6, capacity: 8}\n";

static const char churning[] = "churn: {crash: 0.01, rejoin: 0.5, dies: process}\n";

typedef struct result {
    const scenario *s;
    sim_swarm_report report;
    sim_routes_mean looks;
    sim_routes routes;  // the mean over the second half of the run
} result;

static void look(void *context, uint32_t done, const sim_swarm_report *now) {
    result *r = context;
    sim_routes routes;
    braid_error error = {0};
    if (2 * done < r->s->iterations) return;
    if (sim_routes_look(r->s, now, &routes, &error) != BRAID_OK) fail_msg("%s", error.text);
    sim_routes_add(&r->looks, &routes);
}

static void simulate(const char *more, uint64_t seed, uint32_t iterations, sim_check_level check, peer_view_mutant mutant, result *out) {
    char all[4096];
    snprintf(all, sizeof all, "%s%s", crowd, more);
    scenario *s = NULL;
    braid_error error = {0};
    if (scenario_parse(all, strlen(all), "s.yaml", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    s->seed = seed;
    s->iterations = iterations;
    *out = (result){.s = s};
    const sim_swarm_options options = {.check = check, .replay = "the command", .view_mutant = (uint8_t)mutant, .iteration = look, .context = out};
    if (sim_swarm_run(s, &options, &out->report, &error) != BRAID_OK) fail_msg("%s", error.text);
    if (out->report.failed) fail_msg("seed %llu: %s", (unsigned long long)seed, out->report.text);
    assert_int_equal(out->report.iterations, iterations);
    out->routes = sim_routes_of(&out->looks);
    const sim_routes *r = &out->routes;
    print_message("seed %llu: %.0f s, %llu crashes, %llu joins, %llu repairs; %.1f of %.1f units, %.1f ms each (%.1f); %.0f messages, %.1f KB a minute each\n",
                  (unsigned long long)seed, (double)out->report.virtual_ns / 1e9, (unsigned long long)out->report.crashes, (unsigned long long)out->report.joins,
                  (unsigned long long)out->report.repairs, r->units, r->wanted, r->cost_ms, r->least_ms, r->view_messages, r->view_bytes / 1e3);
    scenario_free(s);
}

// A peer crashes and another restarts every two seconds. Still nine of ten units have a path, at
// most a fifth dearer than the optimum.
static bool routes_well(const sim_routes *r) { return r->units > 0 && r->units >= 0.9 * r->wanted && r->cost_ms <= 1.2 * r->least_ms; }

static void test_training_continues_during_churn(void **state) {
    (void)state;
    result r;
    simulate("compute: kernels\nchurn: {crash: 0.02, rejoin: 0.5, dies: process}\n", 1, 8, SIM_CHECK_RULES, PEER_VIEW_WORKS, &r);
    assert_true(r.report.crashes >= 3 && r.report.joins > 64);
    sim_swarm_report_free(&r.report);
}

static void test_routes_are_near_the_optimum(void **state) {
    (void)state;
    result r;
    simulate(churning, 3, 40, SIM_CHECK_LIVENESS, PEER_VIEW_WORKS, &r);
    assert_true(r.report.crashes >= 10);
    assert_true(routes_well(&r.routes));
    assert_int_equal(r.routes.choosers, 52);
    sim_swarm_report_free(&r.report);
}

static void test_lost_and_stale_views_are_noticed(void **state) {
    (void)state;
    const peer_view_mutant broken[] = {PEER_VIEW_SLEEPS, PEER_VIEW_GROWS_STALE};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        result r;
        simulate(churning, 3, 40, SIM_CHECK_LIVENESS, broken[i], &r);
        if (routes_well(&r.routes)) fail_msg("view mutant %d goes unnoticed", (int)broken[i]);
        sim_swarm_report_free(&r.report);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_continues_during_churn),
        cmocka_unit_test(test_routes_are_near_the_optimum),
        cmocka_unit_test(test_lost_and_stale_views_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
