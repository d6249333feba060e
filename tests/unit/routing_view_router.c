// Views and routers together: gossip continues while mincost routes on its links. A change of links
// never takes units away, and in the end every unit has a path. BRAID_TEST_SEED=n selects other
// schedules.
#include "routing/view/view.h"

#include "base/rng.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above
#include <cmocka.h>

enum { STAGES = 3, A_STAGE = 24, PEERS = 1 + STAGES * A_STAGE, DELAY = 4, PERIOD = 4 * DELAY, LINKS = 8 };
enum { MOST_MESSAGES = 1 << 14, MOST_UNITS = 256, DEMAND = 24 };

typedef struct flight {
    int64_t at;
    bool routing;
    union {
        view_message view;
        router_message route;
    } m;
} flight;

typedef struct net {
    view *view[PEERS + 1];
    router *router[PEERS + 1];
    bool alive[PEERS + 1];
    int64_t x[PEERS + 1], planned[PEERS + 1];
    uint32_t capacity[PEERS + 1];
    uint32_t carried[PEERS + 1][2][PEERS + 1];
    bool busy[PEERS + 1][2][PEERS + 1];
    flight *flight;  // ring buffer: with one delay for all, messages arrive in order
    uint32_t head, tail;
    int64_t now;
    rng random;
    uint64_t drops, late_drops;
} net;

static uint64_t test_seed(void) {
    const char *text = getenv("BRAID_TEST_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

static uint16_t stage_of(uint32_t peer) { return (uint16_t)(peer == 1 ? 0 : 1 + (peer - 2) % STAGES); }

static int64_t cost_of(const net *n, uint32_t a, uint32_t b) {
    int64_t d = n->x[a] - n->x[b];
    return 1000 + (d < 0 ? -d : d) + (int64_t)(rng_seed(rng_seed(3, a < b ? a : b), a < b ? b : a) % 1000);
}

static flight *depart(net *n) {
    flight *f = &n->flight[n->tail++ % MOST_MESSAGES];
    assert_true(n->tail - n->head < MOST_MESSAGES);
    f->at = n->now + DELAY;
    return f;
}

// The view must know the units that the router reports.
static void tell_units(net *n, uint32_t peer) {
    static router_unit unit[MOST_UNITS];
    uint32_t sum[2][PEERS + 1] = {0}, count = router_units(n->router[peer], unit, MOST_UNITS);
    assert_true(count <= MOST_UNITS);
    for (uint32_t u = 0; u < count; u++) {
        sum[ROUTER_PREVIOUS][unit[u].upstream] += unit[u].count;
        sum[ROUTER_NEXT][unit[u].downstream] += unit[u].count;
    }
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 1; i <= PEERS; i++) {
            uint16_t stands = stage_of(side == ROUTER_NEXT ? peer : i), next = stage_of(side == ROUTER_NEXT ? i : peer);
            if (next != (stands + 1) % (STAGES + 1)) continue;
            bool busy = router_link_busy(n->router[peer], (router_side)side, i);
            assert_true(busy || sum[side][i] == 0);
            n->carried[peer][side][i] = sum[side][i];
            if (n->busy[peer][side][i] == busy) continue;
            n->busy[peer][side][i] = busy;
            view_carries(n->view[peer], n->now, (router_side)side, i, busy ? 1 : 0);
        }
}

static void collect_router(net *n, uint32_t peer) {
    router_message m;
    memset(&m, 0, sizeof m);
    while (router_next(n->router[peer], &m)) {
        flight *f = depart(n);
        f->routing = true;
        f->m.route = m;
    }
    if (peer != 1) assert_true(router_load(n->router[peer]) <= n->capacity[peer]);
    int64_t at = router_deadline(n->router[peer]);
    n->planned[peer] = at < n->now + 1 && at != INT64_MAX ? n->now + 1 : at;
    tell_units(n, peer);
}

static void take_change(net *n, uint32_t peer, const view_change *c) {
    if (c->add) {
        assert_true(router_neighbour_add(n->router[peer], n->now, c->peer, c->side, c->cost));
        return;
    }
    // nothing is lost with this link
    assert_false(router_link_busy(n->router[peer], c->side, c->peer));
    n->drops++;
    router_neighbour_gone(n->router[peer], n->now, c->peer);
}

static void collect(net *n, uint32_t peer) {
    view_message m;
    view_change c;
    while (view_next(n->view[peer], &m)) {
        flight *f = depart(n);
        f->routing = false;
        f->m.view = m;
    }
    bool changed = false;
    while (view_changed(n->view[peer], &c)) {
        take_change(n, peer, &c);
        changed = true;
    }
    if (changed) collect_router(n, peer);
}

static void arrive(net *n) {
    for (; n->head != n->tail && n->flight[n->head % MOST_MESSAGES].at == n->now; n->head++) {
        const flight *f = &n->flight[n->head % MOST_MESSAGES];
        uint32_t to = f->routing ? f->m.route.to : f->m.view.to, from = f->routing ? f->m.route.from : f->m.view.from;
        if (!n->alive[to] || !n->alive[from]) continue;
        if (f->routing) {
            router_receive(n->router[to], n->now, &f->m.route);
            collect_router(n, to);
            continue;
        }
        if (f->m.view.kind == VIEW_PONG || f->m.view.kind == VIEW_REPLY)
            view_measured(n->view[to], n->now, from, cost_of(n, from, to));
        view_receive(n->view[to], n->now, &f->m.view);
        collect(n, to);
    }
}

static void run(net *n, int64_t periods) {
    for (int64_t end = n->now + periods * PERIOD; n->now < end; n->now++) {
        arrive(n);
        for (uint32_t i = 1; i <= PEERS; i++) {
            if (!n->alive[i]) continue;
            if (n->planned[i] <= n->now) {
                router_tick(n->router[i], n->now);
                collect_router(n, i);
            }
            if (view_deadline(n->view[i]) > n->now) continue;
            view_tick(n->view[i], n->now);
            collect(n, i);
        }
    }
}

static void put_in(net *n, uint32_t peer) {
    uint32_t wide = peer == 1 ? A_STAGE : LINKS;
    view_config v = {.self = peer,
                     .stage = stage_of(peer),
                     .stages = STAGES,
                     .links = wide,
                     .period = PERIOD,
                     .patience = 3 * DELAY,
                     .seed = n->random.state};
    router_config r = {.algorithm = ROUTER_MINCOST,
                       .self = peer,
                       .capacity = n->capacity[peer],
                       .source_count = 1,
                       .source = {1},
                       .max_neighbours = wide,
                       .seed = rng_next(&n->random),
                       .delay = DELAY,
                       .slack = 20};
    n->view[peer] = malloc(view_bytes(&v));
    n->router[peer] = aligned_alloc(16, (router_bytes(&r) + 15) / 16 * 16);
    assert_non_null(n->view[peer]);
    assert_non_null(n->router[peer]);
    view_init(n->view[peer], &v, n->now);
    router_init(n->router[peer], &r, n->now);
    n->alive[peer] = true;
    n->planned[peer] = n->now;
    if (peer == 1) return;
    view_contact(n->view[peer], n->now, 1, 0);
    for (int i = 0; i < 9; i++) {
        uint32_t other = 2 + (uint32_t)rng_below(&n->random, PEERS - 1);
        if (other != peer && n->alive[other]) view_contact(n->view[peer], n->now, other, stage_of(other));
    }
}

static void die(net *n, uint32_t peer) {
    n->alive[peer] = false;
    for (uint32_t i = 1; i <= PEERS; i++) {
        if (!n->alive[i]) continue;
        view_gone(n->view[i], n->now, peer);
        n->carried[i][0][peer] = n->carried[i][1][peer] = 0;
        n->busy[i][0][peer] = n->busy[i][1][peer] = false;
        router_neighbour_gone(n->router[i], n->now, peer);
        collect_router(n, i);
        collect(n, i);
    }
}

static bool whole(const net *n) {
    uint32_t sent = 0, home = 0;
    for (uint32_t i = 2; i <= PEERS; i++) {
        sent += n->carried[1][ROUTER_NEXT][i];
        home += n->carried[1][ROUTER_PREVIOUS][i];
    }
    for (uint32_t i = 1; i <= PEERS; i++) {
        if (n->alive[i] && !router_settled(n->router[i])) return false;
        for (uint32_t j = 1; j <= PEERS; j++)
            if (n->alive[i] && n->alive[j] && n->carried[i][ROUTER_NEXT][j] != n->carried[j][ROUTER_PREVIOUS][i])
                return false;
    }
    return sent == DEMAND && home == DEMAND;
}

static void units_outlive_changes(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 4; k++) {
        net *n = calloc(1, sizeof *n);
        n->flight = calloc(MOST_MESSAGES, sizeof *n->flight);
        n->random.state = rng_seed(test_seed(), k);
        for (uint32_t i = 1; i <= PEERS; i++) {
            n->x[i] = (int64_t)rng_below(&n->random, 20000);
            n->capacity[i] = i == 1 ? DEMAND : 1 + (uint32_t)rng_below(&n->random, 2);
            n->alive[i] = i % 5 != 0;  // the others come later
        }
        for (uint32_t i = 1; i <= PEERS; i++)
            if (n->alive[i]) put_in(n, i);
        run(n, 30);
        uint64_t before = n->drops;
        for (uint32_t i = 5; i <= PEERS; i += 5) {
            put_in(n, i);
            run(n, 4);
        }
        n->late_drops = n->drops - before;
        assert_true(n->late_drops > 0);
        die(n, 2 + (uint32_t)k);
        for (int more = 0; more < 300 && !whole(n); more++) run(n, 1);
        assert_true(whole(n));
        for (uint32_t i = 1; i <= PEERS; i++) {
            free(n->view[i]);
            free(n->router[i]);
        }
        free(n->flight);
        free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(units_outlive_changes)};
    print_message("BRAID_TEST_SEED=%" PRIu64 "\n", test_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
