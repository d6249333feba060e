// Plans are valid and above the bound, tiny ones are optimal, and moves keep every layer covered.
#include "base/rng.h"
#include "placement/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory {
    placement_problem p;
    placement_plan plan, other;
    placement_work work;
    placement_moves moves;
    placement_figures f;
    braid_error error;
} memory;

static memory *make(uint64_t seed, uint32_t peers, uint32_t layers, uint32_t sessions, uint32_t most_memory) {
    memory *m = calloc(1, sizeof *m);
    assert_non_null(m);
    rng r = {seed};
    m->p = (placement_problem){.peers = peers,
                               .layers = layers,
                               .sessions = sessions,
                               .layer_bytes = 1,
                               .cache_bytes = 0.02,
                               .rows_per_us = 1e-5};
    for (uint32_t i = 0; i < peers; i++) {
        double slow = 1 + rng_unit(&r) * 4;
        m->p.peer[i] = (placement_peer){400 * slow, 100 * slow, 2 + (double)rng_below(&r, most_memory - 1), 1};
        for (uint32_t j = 0; j < i; j++) m->p.hop_us[i][j] = m->p.hop_us[j][i] = 500 + rng_unit(&r) * 5000;
    }
    return m;
}

static void measure(memory *m) {
    if (placement_measure(&m->p, &m->plan, &m->f, &m->error) != BRAID_OK) fail_msg("%s", m->error.text);
}

// The best mean time over all placements and paths of two peers and one session, by trying all.
static double try_all(const memory *m) {
    const placement_problem *p = &m->p;
    double best = INFINITY;
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t cut = 1; cut <= p->layers; cut++) {
            uint32_t b = 1 - a, rest = p->layers - cut;
            if (!placement_fits(p, a, cut, cut) || (rest > 0 && !placement_fits(p, b, rest, rest))) continue;
            double hops = rest == 0 ? p->hop_us[0][a] + p->hop_us[a][0]
                                    : p->hop_us[0][a] + p->hop_us[a][b] + p->hop_us[b][0];
            double time = hops + placement_busy_us(p, a, cut) + placement_busy_us(p, b, rest);
            if (time < best) best = time;
        }
    return best;
}

static void test_tiny_plans_are_optimal(void **state) {
    uint32_t split = 0, whole = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        memory *m = make(seed, 2, 8, 1, 12);
        double best = try_all(m);
        placement_plan_best(&m->p, 20, seed, &m->plan, &m->work);
        measure(m);
        if (best < INFINITY) {
            assert_int_equal(m->f.served, 1);
            assert_true(fabs(m->f.mean_us - best) < 1e-6 * best);
            assert_true(placement_bound(&m->p, best, 50, &m->work) <= best * (1 + 1e-9));
            split += m->plan.path[0].hops == 2;
            whole += m->plan.path[0].hops == 1;
        }
        free(m);
    }
    assert_true(split > 5 && whole > 5);  // a model that fits on one peer is split only where that is faster
}

static void test_plans_are_valid_and_repeatable(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        memory *m = make(seed, 12, 16, 12, 12);
        for (uint32_t s = 0; s < m->p.sessions; s++) m->p.origin[s] = (uint8_t)(s % 2);
        assert_int_equal(placement_check(&m->p, &m->error), BRAID_OK);
        placement_plan_best(&m->p, 60, seed, &m->plan, &m->work);
        measure(m);
        assert_int_equal(m->f.served, 12);
        double bound = placement_bound(&m->p, m->f.mean_us, 100, &m->work);
        assert_true(bound > 0 && bound <= m->f.mean_us * (1 + 1e-9));
        placement_plan_best(&m->p, 60, seed, &m->other, &m->work);
        assert_memory_equal(m->plan.load, m->other.load, sizeof m->plan.load);
        // an idle plan takes substitutes without a change for the sessions
        placement_fill_spare(&m->p, &m->plan);
        double before = m->f.mean_us;
        measure(m);
        assert_true(fabs(before - m->f.mean_us) < 1e-9 * before);
        free(m);
    }
}

static void test_wrong_plans_are_noticed(void **state) {
    (void)state;
    memory *m = make(5, 6, 8, 4, 10);
    placement_plan_best(&m->p, 30, 1, &m->plan, &m->work);
    measure(m);
    m->other = m->plan;
    m->plan.path[0].visit[0].begin = 1;
    assert_int_equal(placement_measure(&m->p, &m->plan, &m->f, &m->error), BRAID_STATE);
    m->plan = m->other;
    m->plan.load[m->plan.path[0].visit[0].peer]++;
    assert_int_equal(placement_measure(&m->p, &m->plan, &m->f, &m->error), BRAID_STATE);
    m->p.hop_us[1][0] = NAN;
    assert_int_equal(placement_check(&m->p, &m->error), BRAID_ARGUMENT);
    assert_non_null(strstr(m->error.text, "peer 1 to peer 0"));
    m->p.peers = PLACEMENT_MAX_PEERS + 1;
    assert_int_equal(placement_check(&m->p, &m->error), BRAID_LIMIT);
    free(m);
}

static void check_moves(const memory *m, const placement_plan *from, const placement_plan *to) {
    placement_plan at = *from;
    uint32_t fetched = 0;
    for (uint32_t k = 0; k < m->moves.count; k++) {
        const placement_move *move = &m->moves.move[k];
        placement_plan before = at;
        at.begin[move->peer] = move->begin;
        at.end[move->peer] = move->end;
        assert_int_equal(move->fetched, placement_fetched(&before, &at, move->peer));
        fetched += move->fetched;
        assert_true(move->end - move->begin <= m->p.peer[move->peer].memory_bytes);
        for (uint32_t l = 0; l < m->p.layers; l++) {
            uint32_t held = 0, was = 0;
            for (uint32_t i = 0; i < m->p.peers; i++) {
                held += l >= at.begin[i] && l < at.end[i];
                was += l >= from->begin[i] && l < from->end[i];
            }
            assert_true(held > 0 || was == 0);
        }
    }
    assert_int_equal(fetched, m->moves.fetched);
    for (uint32_t i = 0; m->moves.complete && i < m->p.peers; i++)
        for (uint32_t l = 0; l < m->p.layers; l++)
            assert_int_equal(l >= at.begin[i] && l < at.end[i], l >= to->begin[i] && l < to->end[i]);
}

static void test_moves_keep_layers_covered(void **state) {
    uint32_t complete = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        memory *m = make(seed, 10, 12, 8, 12);
        placement_plan_best(&m->p, 30, seed, &m->plan, &m->work);
        placement_fill_spare(&m->p, &m->plan);
        m->other = m->plan;
        for (uint32_t s = 0; s < m->p.sessions; s++) placement_remove(&m->other, s);
        memset(m->other.begin, 0, sizeof m->other.begin);
        memset(m->other.end, 0, sizeof m->other.end);
        for (uint32_t s = 0; s < m->p.sessions; s++) m->p.origin[s] = 9;
        placement_plan_best(&m->p, 30, seed + 100, &m->other, &m->work);
        placement_fill_spare(&m->p, &m->other);
        placement_order_moves(&m->p, &m->plan, &m->other, &m->moves);
        check_moves(m, &m->plan, &m->other);
        complete += m->moves.complete;
        free(m);
    }
    assert_true(complete >= 20);
}

static void test_rebalancing_fetches_little(void **state) {
    (void)state;
    memory *m = make(3, 12, 16, 12, 12);
    placement_plan_best(&m->p, 60, 3, &m->plan, &m->work);
    measure(m);
    // no change of the swarm: with a price of fetching, nothing moves
    m->other = m->plan;
    placement_rebalance(&m->p, 1e6, 60, 4, &m->other, &m->work);
    for (uint32_t i = 0; i < m->p.peers; i++) assert_int_equal(placement_fetched(&m->plan, &m->other, i), 0);
    // a peer becomes useless: its sessions are served again, and few layers are fetched
    uint32_t gone = m->plan.path[0].visit[0].peer, fetched = 0, free_fetched = 0;
    m->other = m->plan;
    for (uint32_t s = 0; s < m->p.sessions; s++) placement_remove(&m->other, s);
    m->other.begin[gone] = m->other.end[gone] = 0;
    m->p.peer[gone].memory_bytes = 0;
    placement_plan start = m->other;
    placement_rebalance(&m->p, 2000, 60, 4, &m->other, &m->work);
    assert_int_equal(placement_measure(&m->p, &m->other, &m->f, &m->error), BRAID_OK);
    assert_int_equal(m->f.served, 12);
    for (uint32_t i = 0; i < m->p.peers; i++) fetched += placement_fetched(&start, &m->other, i);
    placement_clear(&m->plan);
    placement_plan_best(&m->p, 60, 4, &m->plan, &m->work);
    for (uint32_t i = 0; i < m->p.peers; i++) free_fetched += placement_fetched(&start, &m->plan, i);
    assert_true(fetched < free_fetched);
    free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_plans_are_optimal),     cmocka_unit_test(test_plans_are_valid_and_repeatable),
        cmocka_unit_test(test_wrong_plans_are_noticed),    cmocka_unit_test(test_moves_keep_layers_covered),
        cmocka_unit_test(test_rebalancing_fetches_little),
    };
    return cmocka_run_group_tests_name("placement_plan", tests, NULL, NULL);
}
