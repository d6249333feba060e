// Trades: each one lowers the cost, none is left at the end, data peers stay, and the cost is the
// sum of all matchings.
#include "base/rng.h"
#include "bench/baselines/trade.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_PEERS = 24 };

typedef struct swarm {
    int64_t link[MAX_PEERS * MAX_PEERS];
    plan_dtfm_problem p;
    uint32_t peers, stage[MAX_PEERS];
} swarm;

static void open_swarm(swarm *w, uint64_t seed) {
    rng r = {seed};
    uint32_t groups = 2 + (uint32_t)rng_below(&r, 5), width = 1 + (uint32_t)rng_below(&r, 4);
    w->peers = groups * width;
    for (uint32_t i = 0; i < w->peers; i++) {
        for (uint32_t j = 0; j <= i; j++)
            w->link[i * w->peers + j] = w->link[j * w->peers + i] = (int64_t)rng_below(&r, 100);
        w->stage[i] = i < width ? 0 : 1 + (i - width) % (groups - 1);
    }
    w->p = (plan_dtfm_problem){groups, width, w->link, NULL, rng_below(&r, 2) == 0};
}

// The cheapest pairing of the members of two stages, tried one by one.
static int64_t pair_up(const swarm *w, const uint32_t *stage, uint32_t from, uint32_t to, uint32_t first,
                       uint32_t taken) {
    uint32_t i = first;
    while (i < w->peers && stage[i] != from) i++;
    if (i == w->peers) return 0;
    int64_t best = INT64_MAX;
    for (uint32_t j = 0; j < w->peers; j++) {
        if (stage[j] != to || (taken >> j & 1) != 0) continue;
        int64_t sum = w->link[i * w->peers + j] + pair_up(w, stage, from, to, i + 1, taken | 1u << j);
        if (sum < best) best = sum;
    }
    return best;
}

static int64_t slow_cost(const swarm *w, const uint32_t *stage) {
    int64_t sum = 0;
    for (uint32_t s = 0; s + (w->p.home ? 0 : 1) < w->p.groups; s++)
        sum += pair_up(w, stage, s, (s + 1) % w->p.groups, 0, 0);
    return sum;
}

static void test_no_trade_is_left(void **state) {
    (void)state;
    uint32_t trades = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        swarm w;
        open_swarm(&w, seed);
        int64_t before = plan_trade_cost(&w.p, w.stage), least = 1 + (int64_t)(seed % 20);
        assert_int_equal(before, slow_cost(&w, w.stage));
        uint32_t made = plan_trade(&w.p, least, w.stage);
        int64_t after = plan_trade_cost(&w.p, w.stage);
        trades += made;
        assert_int_equal(after, slow_cost(&w, w.stage));
        if (after > before - least * made)
            fail_msg("seed %llu: %u trades save too little", (unsigned long long)seed, made);
        uint32_t first = w.p.home ? w.p.width : 0, count[MAX_PEERS] = {0};
        for (uint32_t i = 0; i < w.peers; i++) count[w.stage[i]]++;
        for (uint32_t s = 0; s < w.p.groups; s++) assert_int_equal(count[s], w.p.width);
        for (uint32_t i = 0; i < first; i++) assert_int_equal(w.stage[i], 0);
        for (uint32_t i = first; i < w.peers; i++)
            for (uint32_t j = first; j < i; j++) {
                uint32_t a = w.stage[i], b = w.stage[j];
                w.stage[i] = b, w.stage[j] = a;
                if (plan_trade_cost(&w.p, w.stage) <= after - least)
                    fail_msg("seed %llu: peers %u and %u could still trade", (unsigned long long)seed, i, j);
                w.stage[i] = a, w.stage[j] = b;
            }
    }
    assert_true(trades > 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_trade_is_left),
    };
    return cmocka_run_group_tests_name("baselines_trade", tests, NULL, NULL);
}
