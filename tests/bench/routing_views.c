// Swarms with partial views. The optimum over all links equals the result of a solver on the full
// problem, and gossip ends with links that both ends have.
#include "bench/routing/views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above
#include <cmocka.h>

static views_settings settings(uint32_t relays, uint32_t stages, uint32_t sources, views_costs costs, uint64_t seed) {
    return (views_settings){.relays = relays,
                            .stages = stages,
                            .sources = sources,
                            .costs = costs,
                            .demand = 0.9,
                            .seed = seed,
                            .links = VIEW_LINKS,
                            .limit_rounds = 400};
}

static views_swarm make(const views_settings *t) {
    views_swarm s;
    braid_error error = {0};
    assert_int_equal(views_swarm_make(t, &s, &error), BRAID_OK);
    return s;
}

static plan_answer solve_all(const views_swarm *s) {
    uint32_t links = 0;
    plan_link *link = calloc((size_t)s->peers * s->peers, sizeof *link);
    assert_non_null(link);
    for (uint32_t i = 0; i < s->peers; i++)
        for (uint32_t j = 0; j < s->peers; j++)
            if (s->peer[j].stage == (s->peer[i].stage + 1) % (s->settings.stages + 1))
                link[links++] = (plan_link){i, j, views_cost(s, i, j)};
    routing_instance all = {.problem = {s->peer, link, s->peers, links, s->settings.stages},
                            .sources = s->settings.sources};
    plan_answer answer;
    braid_error error = {0};
    assert_int_equal(views_best(&all, &answer, &error), BRAID_OK);
    free(link);
    return answer;
}

static void optimum_is_that_of_all_links(void **state) {
    (void)state;
    const struct { uint32_t relays, stages, sources; } shapes[] = {{40, 8, 1}, {300, 3, 1}, {200, 8, 3}, {37, 1, 2}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int costs = 0; costs < VIEWS_COSTS; costs++) {
            views_settings t = settings(shapes[k].relays, shapes[k].stages, shapes[k].sources, (views_costs)costs, k);
            views_swarm s = make(&t);
            plan_answer all = solve_all(&s);
            views_optimum found;
            braid_error error = {0};
            assert_int_equal(views_optimum_find(&s, &found, &error), BRAID_OK);
            assert_int_equal(found.units, all.units);
            assert_int_equal(found.units, s.units);
            assert_int_equal(found.cost, all.cost);
            assert_true(found.solved_links <= found.all_links);
            if (shapes[k].relays == 300) assert_true(found.solved_links < found.all_links / 2);
            views_swarm_close(&s);
        }
}

static void gossip_ends_with_links_of_both(void **state) {
    (void)state;
    uint64_t hash[VIEWS_COSTS] = {0};
    for (int round = 0; round < 2; round++)
        for (int costs = 0; costs < VIEWS_COSTS; costs++) {
            views_settings t = settings(160, 4, 2, (views_costs)costs, 5);
            views_swarm s = make(&t);
            views_gossip g;
            braid_error error = {0};
            assert_int_equal(views_gossip_run(&s, &g, &error), BRAID_OK);
            assert_int_equal(g.one_sided, 0);
            assert_true(g.most_links > VIEW_LINKS / 2 && g.most_links <= VIEW_LINKS);
            assert_true(round == 0 || hash[costs] == g.hash);
            hash[costs] = g.hash;
            routing_instance instance;
            assert_int_equal(views_instance(&s, &g, &instance, &error), BRAID_OK);
            assert_int_equal(plan_check(&instance.problem, &error), BRAID_OK);
            plan_answer best, all = solve_all(&s);
            assert_int_equal(views_best(&instance, &best, &error), BRAID_OK);
            assert_int_equal(best.units, all.units);
            assert_true(best.cost >= all.cost && (double)best.cost <= 1.03 * (double)all.cost);
            routing_instance_close(&instance);
            views_gossip_close(&g);
            views_swarm_close(&s);
        }
    assert_int_not_equal(hash[0], hash[1]);
}

static void bad_swarms(void **state) {
    (void)state;
    views_settings good = settings(40, 8, 1, VIEWS_WORLD, 0), bad[] = {good, good, good, good};
    bad[0].stages = 0;
    bad[1].relays = 7;
    bad[2].sources = ROUTER_MAX_SOURCES + 1;
    bad[3].relays = VIEWS_MAX_RELAYS + 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        views_swarm s;
        braid_error error = {0};
        assert_int_equal(views_swarm_make(&bad[i], &s, &error), BRAID_ARGUMENT);
        assert_non_null(strstr(error.text, "data peers"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimum_is_that_of_all_links),
        cmocka_unit_test(gossip_ends_with_links_of_both),
        cmocka_unit_test(bad_swarms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
