// Routers among hostile neighbours. Whatever a host lets through, in any order and between any
// changes of links, trips no assertion, overflows no sum and leaves no router busy for ever. Most
// messages vary what the router sent last, because tokens, positions and cycles that it knows reach
// furthest.
#include "base/err.h"
#include "base/rng.h"
#include "routing/plan/mincost_planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "seed.h"

enum { SELF = 10, OTHERS = 12, SIDE_PEERS = 3, MEMORY = 1 << 20, HEARD = 16, DELAY = 1000, MESSAGES = 25000 };

// The largest values that hosts let through and that a ROUTE carries.
#define MOST_COST  ((int64_t)1 << 57)
#define MOST_TAKEN ((uint32_t)INT32_MAX)

typedef struct world {
    rng random;
    router_config config;
    router *router;
    int64_t now;
    router_message heard[HEARD];  // last messages of the router
    uint32_t heard_count;
    int64_t era;  // last invented epoch
} world;

static uint32_t below(world *w, uint32_t end) { return (uint32_t)rng_below(&w->random, end); }
static bool chance(world *w, uint32_t of) { return below(w, of) == 0; }

// Peers 1..3 are previous, 4..6 next, 7..9 in the own stage. With one stage the data peer 1 is on
// both sides.
static router_peer neighbour_of(world *w, router_side *side) {
    *side = (router_side)below(w, ROUTER_SIDES);
    return 1 + (uint32_t)*side * SIDE_PEERS + below(w, SIDE_PEERS);
}

static int64_t some_cost(world *w) {
    static const int64_t edge[] = {0, 1, 1 << 20, ROUTER_MAX_COST, (int64_t)1 << 40, (int64_t)1 << 56, MOST_COST};
    int64_t cost = chance(w, 3) ? edge[below(w, sizeof edge / sizeof *edge)] : (int64_t)below(w, 5000);
    return chance(w, 2) ? -cost : cost;
}

static uint32_t some_count(world *w, uint32_t most) {
    if (chance(w, 16)) return most - below(w, 2);
    return chance(w, 8) ? below(w, most) : below(w, 4);
}

static router_node some_half(world *w) {
    return chance(w, 50) ? (router_node)rng_next(&w->random) : 2 + below(w, 2 * OTHERS);
}

static void some_label(world *w, router_message *m) {
    m->length = (uint16_t)below(w, chance(w, 4) ? ROUTER_MAX_PATH + 1 : 5);
    for (uint32_t i = 0; i < m->length; i++) m->u.step[i] = (router_step){some_half(w), some_cost(w)};
}

// A cycle from its sender that enters here at `position`, begun by some peer or as if by the router
// itself.
static void some_cycle(world *w, router_message *m) {
    m->length = (uint16_t)(3 + below(w, chance(w, 4) ? ROUTER_MAX_CYCLE - 2 : 6));
    for (uint32_t i = 0; i < m->length; i++) m->u.cycle[i] = some_half(w);
    m->position = (uint16_t)(1 + below(w, m->length - 1u));
    m->u.cycle[m->position] = SELF * 2 + below(w, 2);
    m->u.cycle[m->position - 1] = m->from * 2 + below(w, 2);
    if (m->position + 1 < m->length && chance(w, 2)) m->u.cycle[m->position + 1] = m->u.cycle[m->position] ^ 1;
    if (m->position > 1 || m->length == 3) m->u.cycle[0] = m->u.cycle[m->length - 1];
    m->u.cycle[m->length - 1] = m->u.cycle[0];
    m->token.origin = router_owner(m->u.cycle[0]);
}

// gwtf: units with expensive places, of any data peer, between neighbours that this router has too.
static void some_units(world *w, router_message *m) {
    uint32_t n = 0;
    m->units = 1 + below(w, 3);
    for (uint32_t i = 0; i < m->units; i++) {
        m->u.word[n++] = below(w, 8) << 8 | (chance(w, 4) ? below(w, 256) : below(w, 4));
        m->u.word[n++] = 1 + below(w, SIDE_PEERS);
        m->u.word[n++] = 1 + SIDE_PEERS + below(w, SIDE_PEERS);
    }
    m->position = SIDE_PEERS;
    m->taken_back = SIDE_PEERS;
    for (uint32_t i = 0; i < 2 * SIDE_PEERS; i++) {
        m->u.word[n++] = 1 + i;
        m->u.word[n++] = chance(w, 8) ? UINT32_MAX : below(w, 1 << 20);
    }
    m->length = (uint16_t)n;
}

// Several data peers: an epoch that may come next, or one of the last ones.
static void some_era(world *w, router_message *m) {
    m->why = MINCOST_QUERY_EPOCH;
    m->epoch = chance(w, 600) ? MINCOST_LAST_EPOCH - below(w, 8) : (uint64_t)w->era + below(w, 5);
    if (chance(w, 5)) m->epoch = (m->epoch / MINCOST_EPOCHS_PER_FLOW + 1) * MINCOST_EPOCHS_PER_FLOW;
    m->attempts = below(w, MINCOST_PLAN_ATTEMPTS + 1);
    m->plan = below(w, 26);
    if (m->epoch > (uint64_t)w->era && m->epoch < MINCOST_LAST_EPOCH - 8) w->era = (int64_t)m->epoch;
}

// A map that connects previous with next neighbours, sometimes with impossible contents.
static void some_map(world *w, router_message *m) {
    uint32_t n = 0, entries = 1 + below(w, 5);
    for (uint32_t i = 0; i < entries; i++) {
        uint32_t links = chance(w, 20) ? below(w, 128) : below(w, 4);
        m->u.word[n++] = chance(w, 50) ? below(w, UINT32_MAX) : 1 + below(w, 3 * OTHERS);
        m->u.word[n++] = chance(w, 20) ? (uint32_t)rng_next(&w->random) : (uint32_t)(w->now / DELAY) + below(w, 4);
        m->u.word[n++] = some_count(w, ROUTER_MAX_UNITS) << 16 | below(w, 4) << 7 | links;
        for (uint32_t j = 0; j < links && n + 2 <= 4 * ROUTER_MAX_PATH; j++) {
            m->u.word[n++] = 1 + below(w, 3 * OTHERS);
            m->u.word[n++] = chance(w, 20) ? (uint32_t)rng_next(&w->random) : below(w, 3000);
        }
        if (n + 3 > 4 * ROUTER_MAX_PATH) break;
    }
    m->length = (uint16_t)(chance(w, 20) ? below(w, n + 1) : n);
}

// Staged units over this router to peers that it may know.
static void some_way(world *w, router_message *m) {
    m->on_path = (uint16_t)some_count(w, ROUTER_MAX_UNITS);
    m->length = (uint16_t)(chance(w, 20) ? below(w, MULTI_SOURCE_MAX_HOPS + 2) : below(w, 4));
    if (m->length > 0 && !chance(w, 4)) m->u.word[0] = 1 + SIDE_PEERS + below(w, SIDE_PEERS);
}

static void any_message(world *w, router_message *m) {
    m->kind = (router_kind)below(w, ROUTER_KINDS);
    m->side = (uint8_t)below(w, ROUTER_SIDES);
    m->why = (uint8_t)below(w, 9);
    m->source = chance(w, 20) ? below(w, 100) : w->config.source[below(w, w->config.source_count)];
    m->position = (uint16_t)some_count(w, 4095);
    m->units = some_count(w, ROUTER_MAX_UNITS);
    m->taken_back = some_count(w, MOST_TAKEN);
    m->turn = some_count(w, MOST_TAKEN);
    m->epoch = some_count(w, MOST_TAKEN);
    m->plan = some_count(w, MOST_TAKEN);
    m->attempts = some_count(w, ROUTER_MAX_UNITS);
    m->scale = chance(w, 2) ? below(w, 800) << 16 | below(w, 800) : some_count(w, MOST_TAKEN);
    m->cost = some_cost(w);
    m->token = (router_token){below(w, OTHERS), below(w, 8)};
    for (uint32_t i = 0; i < 4 * ROUTER_MAX_PATH; i++)
        m->u.word[i] = chance(w, 20) ? (uint32_t)rng_next(&w->random) : below(w, OTHERS);
    m->length = (uint16_t)below(w, 4 * ROUTER_MAX_PATH + 1);
    if (m->kind == ROUTER_LABEL) some_label(w, m);
    if (m->kind == ROUTER_LOCK) some_cycle(w, m);
    if (m->kind == ROUTER_COMMIT) m->u.word[0] = some_count(w, ROUTER_MAX_UNITS);
    if (m->kind == ROUTER_UNITS && !chance(w, 4)) some_units(w, m);
    if (m->kind == ROUTER_QUERY && chance(w, 2)) some_era(w, m);
    if (m->kind == ROUTER_MAP && !chance(w, 8)) some_map(w, m);
    if (m->kind == ROUTER_WAY) some_way(w, m);
}

// A reply to a received message, or one that resembles it.
static void answer(world *w, router_message *m) {
    const router_message *h = &w->heard[below(w, HEARD)];
    router_peer from = chance(w, 10) ? m->from : h->to;
    static const router_kind reply[ROUTER_KINDS] = {
        [ROUTER_LABEL] = ROUTER_LABEL,   [ROUTER_ADVERT] = ROUTER_FLOW,    [ROUTER_FLOW] = ROUTER_DENY,
        [ROUTER_DENY] = ROUTER_FLOW,     [ROUTER_WAY] = ROUTER_DENY,       [ROUTER_MAP] = ROUTER_MAP,
        [ROUTER_LOCK] = ROUTER_COMMIT,   [ROUTER_COMMIT] = ROUTER_FLOW,    [ROUTER_ABORT] = ROUTER_LOCK,
        [ROUTER_OFFER] = ROUTER_REQUEST, [ROUTER_REQUEST] = ROUTER_ANSWER, [ROUTER_ANSWER] = ROUTER_RELINK,
        [ROUTER_QUERY] = ROUTER_UNITS,   [ROUTER_UNITS] = ROUTER_REQUEST,  [ROUTER_RELINK] = ROUTER_RELINK};
    // returns the token over another path, or at once
    if (h->kind == ROUTER_LOCK && chance(w, 3)) {
        *m = *h;
        m->position = (uint16_t)(chance(w, 2) ? h->length - 1u : h->position + below(w, 3));
        if (m->position >= m->length) m->position = (uint16_t)(m->length - 1);
        m->units = some_count(w, ROUTER_MAX_UNITS);
        m->cost = some_cost(w);
        from = m->position > 0 && chance(w, 2) ? router_owner(m->u.cycle[m->position - 1]) : from;
    } else {
        any_message(w, m);
        if (!chance(w, 4)) m->kind = reply[h->kind];
        m->source = h->source;
        m->token = h->token;
        m->position = (uint16_t)(h->position + below(w, 3));
        if (chance(w, 2)) m->taken_back = h->taken_back;
        if (chance(w, 2)) m->turn = h->turn;
        if (chance(w, 2)) m->units = h->units;
        if (m->kind == ROUTER_LABEL) some_label(w, m);
        if (m->kind == ROUTER_LOCK) some_cycle(w, m);
        if (m->kind == ROUTER_COMMIT) m->u.word[0] = some_count(w, ROUTER_MAX_UNITS);
        if (m->kind == ROUTER_UNITS) some_units(w, m);
        if (m->kind == ROUTER_MAP) some_map(w, m);
        if (m->kind == ROUTER_WAY) some_way(w, m);
    }
    m->from = from;
    m->to = SELF;
}

// --- The router ----------------------------------------------------------------------------------

static bool is_neighbour(const world *w, router_peer peer) {
    return peer >= 1 && peer < 1 + 3 * SIDE_PEERS && w->router != NULL;
}

static void take_out(world *w) {
    static router_message m;
    while (router_next(w->router, &m)) {
        assert_true(is_neighbour(w, m.to));
        assert_true(m.kind != ROUTER_LABEL || m.length <= ROUTER_MAX_PATH);
        assert_true(m.kind != ROUTER_LOCK || m.length <= ROUTER_MAX_CYCLE);
        assert_true(m.kind != ROUTER_WAY || m.length < MULTI_SOURCE_MAX_HOPS);
        assert_true(m.kind != ROUTER_MAP || m.length <= 4 * ROUTER_MAX_PATH);
        bool known = false;
        for (uint32_t k = 0; k < w->config.source_count; k++) known |= w->config.source[k] == m.source;
        assert_true(known);
        w->heard[w->heard_count++ % HEARD] = m;
    }
}

static void add_all(world *w) {
    for (uint32_t side = 0; side < ROUTER_SIDES; side++)
        for (uint32_t i = 0; i < SIDE_PEERS; i++)
            router_neighbour_add(w->router, w->now, 1 + side * SIDE_PEERS + i, (router_side)side, 1 + below(w, 3000));
    if (w->config.source[1] != 1) router_neighbour_add(w->router, w->now, 1, ROUTER_NEXT, 1 + below(w, 3000));
    take_out(w);
}

static void news(world *w) {
    router_side side;
    router_peer peer = neighbour_of(w, &side);
    switch (below(w, 4)) {
    case 0: router_neighbour_gone(w->router, w->now, peer); break;
    case 1: add_all(w); break;
    case 2: router_cost(w->router, w->now, peer, side, chance(w, 4) ? ROUTER_MAX_COST : 1 + below(w, 3000)); break;
    default: router_capacity(w->router, w->now, chance(w, 8) ? ROUTER_MAX_UNITS : below(w, 9)); break;
    }
    take_out(w);
}

static void hear(world *w) {
    static router_message m;
    router_side side;
    m.from = neighbour_of(w, &side);
    m.to = SELF;
    if (chance(w, 2))
        answer(w, &m);
    else
        any_message(w, &m);
    router_receive(w->router, w->now, &m);
    take_out(w);
}

// Number of ticks in the next `delays` without messages.
static uint32_t ticks_in(world *w, int64_t delays) {
    int64_t until = w->now + delays * DELAY;
    uint32_t ticks = 0;
    for (int64_t at = router_deadline(w->router); at <= until && ticks < 100000; at = router_deadline(w->router)) {
        if (at > w->now) w->now = at;
        router_tick(w->router, w->now);
        take_out(w);
        ticks++;
    }
    w->now = until;
    return ticks;
}

// The bound on activity afterwards: some messages a delay, and none after all neighbours have gone.
static void expect_to_calm_down(world *w) {
    enum { DELAYS = 2000 };
    assert_in_range(ticks_in(w, DELAYS), 0, 3 * DELAYS);
    for (router_peer peer = 1; peer < 1 + 3 * SIDE_PEERS; peer++) router_neighbour_gone(w->router, w->now, peer);
    take_out(w);
    ticks_in(w, DELAYS);
    assert_true(router_deadline(w->router) == INT64_MAX);
    assert_true(router_settled(w->router));
    assert_int_equal(router_load(w->router), 0);
}

static router_config config_of(router_algorithm algorithm, uint32_t sources, bool data_peer) {
    router_config c = {.algorithm = algorithm,
                       .self = SELF,
                       .capacity = 8,
                       .source_count = sources,
                       .max_neighbours = 4,
                       .delay = DELAY,
                       .gather = DELAY / 4,
                       .slack = 20,
                       .weighted = true,
                       .temperature = 1700,
                       .cooling = 0.95};
    for (uint32_t k = 0; k < sources; k++) c.source[k] = k + 1 < SIDE_PEERS ? 1 + k : 18 + k;
    if (data_peer) c.source[0] = SELF;
    return c;
}

static void stand(router_config config, rng *r) {
    _Alignas(16) static char memory[MEMORY];
    static world w;
    w = (world){.random = {rng_next(r)}, .config = config};
    w.config.seed = rng_next(r);
    assert_in_range(router_bytes(&w.config), 1, MEMORY);
    for (uint32_t i = 0; i < HEARD; i++) w.heard[i] = (router_message){.to = 1, .source = w.config.source[0]};
    w.router = router_init(memory, &w.config, 0);
    add_all(&w);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        hear(&w);
        if (chance(&w, 50)) news(&w);
        w.now += chance(&w, 30) ? (int64_t)below(&w, 20 * DELAY) : chance(&w, 3) ? (int64_t)below(&w, DELAY) : 0;
        if (router_deadline(w.router) <= w.now) router_tick(w.router, w.now);
        take_out(&w);
    }
    expect_to_calm_down(&w);
}

static void expect_to_stand(router_algorithm algorithm, router_objective objective, uint32_t sources, bool data_peer,
                            rng *r) {
    router_config c = config_of(algorithm, sources, data_peer);
    c.objective = objective;
    stand(c, r);
}

static void stand_planning(uint32_t sources, bool data_peer, rng *r) {
    router_config c = config_of(ROUTER_MINCOST, sources, data_peer);
    c.plan_first = true;
    stand(c, r);
}

static void test_arbitrary_messages_break_no_invariant(void **state) {
    (void)state;
    rng r = seeded_rng("hostile", 5);
    for (int algorithm = 0; algorithm < ROUTER_ALGORITHMS; algorithm++) {
        for (uint32_t sources = 1; sources <= 4; sources += 3) {
            expect_to_stand((router_algorithm)algorithm, ROUTER_SUM, sources, false, &r);
            expect_to_stand((router_algorithm)algorithm, ROUTER_SUM, sources, true, &r);
        }
    }
    for (uint32_t sources = 1; sources <= 4; sources += 3) {
        for (int data_peer = 0; data_peer < 2; data_peer++) stand_planning(sources, data_peer == 1, &r);
        expect_to_stand(ROUTER_MINCOST, ROUTER_BOTTLENECK, sources, false, &r);
        expect_to_stand(ROUTER_MINCOST, ROUTER_BOTTLENECK, sources, true, &r);
    }
}

// More returns than a link's cumulative counter holds: values sent stay within what a ROUTE
// carries.
static void test_cumulative_counters_wrap(void **state) {
    (void)state;
    _Alignas(16) static char memory[MEMORY];
    static router_message out;
    router_config c = config_of(ROUTER_MINCOST, 1, false);
    assert_in_range(router_bytes(&c), 1, MEMORY);
    router *r = router_init(memory, &c, 0);
    assert_true(router_neighbour_add(r, 0, 4, ROUTER_NEXT, 100));
    uint32_t last = 0, rounds = 0;
    for (uint32_t i = 0; i < ((uint32_t)1 << 31) / ROUTER_MAX_UNITS + 10; i++) {
        router_receive(
            r, i,
            &(router_message){.from = 4, .to = SELF, .kind = ROUTER_DENY, .source = 1, .units = ROUTER_MAX_UNITS});
        router_tick(r, i);
        while (router_next(r, &out)) {
            if (out.kind != ROUTER_FLOW) continue;
            assert_in_range(out.taken_back, 0, MOST_TAKEN);
            rounds += out.taken_back < last;
            last = out.taken_back;
        }
    }
    assert_int_equal(rounds, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arbitrary_messages_break_no_invariant),
                                       cmocka_unit_test(test_cumulative_counters_wrap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
