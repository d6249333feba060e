// Partial views: a small swarm with virtual time, message loss and deaths. BRAID_TEST_SEED=n
// selects other schedules.
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

enum { STAGES = 3, A_STAGE = 40, PEERS = 1 + STAGES * A_STAGE, DELAY = 4, PERIOD = 4 * DELAY, PATIENCE = 3 * DELAY };
enum { MOST_MESSAGES = 1 << 16, LINKS = 12, CLOSE = 6 };

typedef struct net {
    view *view[PEERS + 1];
    bool alive[PEERS + 1];
    int64_t x[PEERS + 1], y[PEERS + 1], access[PEERS + 1];
    bool linked[PEERS + 1][2][PEERS + 1];  // links according to the changes reported to routers
    uint32_t units[PEERS + 1][PEERS + 1];  // from, to
    view_message *waiting;                 // ring buffer: with one delay for all, messages arrive in order
    int64_t *arrives;
    uint32_t head, tail;
    int64_t now;
    rng random;
    double loss;
    bool geography;
    uint32_t links_bound;
    uint64_t messages, bytes, drops, hash;
} net;

static uint64_t test_seed(void) {
    const char *text = getenv("BRAID_TEST_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

static uint16_t stage_of(uint32_t peer) { return (uint16_t)(peer == 1 ? 0 : 1 + (peer - 2) % STAGES); }

static int64_t cost_of(const net *n, uint32_t a, uint32_t b) {
    if (!n->geography) {
        uint64_t pair = rng_seed(rng_seed(77, a < b ? a : b), a < b ? b : a);
        return 1000 * (1 + (int64_t)(pair % 19));
    }
    int64_t dx = n->x[a] - n->x[b], dy = n->y[a] - n->y[b];
    return (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy) + n->access[a] + n->access[b];
}

static void put_in(net *n, uint32_t peer) {
    view_config c = {.self = peer,
                     .stage = stage_of(peer),
                     .stages = STAGES,
                     .links = peer == 1 ? A_STAGE : n->links_bound,
                     .close = peer == 1 ? 0 : CLOSE,
                     .period = PERIOD,
                     .patience = PATIENCE,
                     .seed = n->random.state};
    free(n->view[peer]);
    n->view[peer] = malloc(view_bytes(&c));
    assert_non_null(n->view[peer]);
    view_init(n->view[peer], &c, n->now);
    n->alive[peer] = true;
    if (peer == 1) return;
    view_contact(n->view[peer], n->now, 1, 0);
    for (int i = 0; i < 9; i++) {
        uint32_t other = 2 + (uint32_t)rng_below(&n->random, PEERS - 1);
        if (other != peer && n->alive[other]) view_contact(n->view[peer], n->now, other, stage_of(other));
    }
}

static void post(net *n, const view_message *m) {
    assert_true(m->to >= 1 && m->to <= PEERS && m->from != m->to);
    n->messages++;
    n->bytes += view_message_bytes(m);
    if (n->loss > 0 && rng_unit(&n->random) < n->loss) return;
    n->waiting[n->tail % MOST_MESSAGES] = *m;
    n->arrives[n->tail++ % MOST_MESSAGES] = n->now + DELAY;
    assert_true(n->tail - n->head < MOST_MESSAGES);
}

// Takes out what a call left, and checks the bounds of the view.
static void collect(net *n, uint32_t peer) {
    view_message m;
    view_change c;
    while (view_next(n->view[peer], &m)) post(n, &m);
    while (view_changed(n->view[peer], &c)) {
        assert_true(c.side == ROUTER_PREVIOUS || c.side == ROUTER_NEXT);
        assert_int_not_equal(n->linked[peer][c.side][c.peer], c.add);  // no change is repeated
        n->linked[peer][c.side][c.peer] = c.add;
        if (c.add) continue;
        n->drops++;
        assert_int_equal(c.side == ROUTER_NEXT ? n->units[peer][c.peer] : n->units[c.peer][peer], 0);
    }
    for (int s = 0; s < 2; s++) {
        uint32_t has = view_links(n->view[peer], (router_side)s, NULL, 0), told = 0;
        for (uint32_t i = 1; i <= PEERS; i++) told += n->linked[peer][s][i];
        assert_int_equal(has, told);
        assert_true(has <= (peer == 1 ? A_STAGE : n->links_bound));
    }
}

static void take_messages(net *n) {
    for (; n->head != n->tail && n->arrives[n->head % MOST_MESSAGES] == n->now; n->head++) {
        const view_message *m = &n->waiting[n->head % MOST_MESSAGES];
        if (!n->alive[m->to] || !n->alive[m->from]) continue;
        n->hash = rng_seed(rng_seed(n->hash, (uint64_t)m->from << 32 | m->to), (uint64_t)m->kind << 40 | m->length);
        if (m->kind == VIEW_PONG || m->kind == VIEW_REPLY)
            view_measured(n->view[m->to], n->now, m->from, cost_of(n, m->from, m->to));
        view_receive(n->view[m->to], n->now, m);
        collect(n, m->to);
    }
}

// A link is being made or removed.
static bool changing(const net *n) {
    for (uint32_t i = n->head; i != n->tail; i++) {
        view_kind kind = n->waiting[i % MOST_MESSAGES].kind;
        if (kind == VIEW_ASK || kind == VIEW_YES || kind == VIEW_CUT) return true;
    }
    return false;
}

// For so many periods, and then until no link is changing.
static void run(net *n, int64_t periods) {
    int64_t end = n->now + periods * PERIOD, last = end + 100 * PERIOD;
    for (; n->now < end || (n->now < last && changing(n)); n->now++) {
        take_messages(n);
        for (uint32_t i = 1; i <= PEERS; i++) {
            if (!n->alive[i] || view_deadline(n->view[i]) > n->now) continue;
            view_tick(n->view[i], n->now);
            assert_true(view_deadline(n->view[i]) > n->now);
            collect(n, i);
        }
    }
}

static void die(net *n, uint32_t peer) {
    n->alive[peer] = false;
    for (uint32_t i = 1; i <= PEERS; i++) {
        n->units[peer][i] = n->units[i][peer] = 0;
        if (n->alive[i] && (n->linked[i][0][peer] || n->linked[i][1][peer])) {
            n->linked[i][0][peer] = n->linked[i][1][peer] = false;
            view_gone(n->view[i], n->now, peer);
            collect(n, i);
        }
        n->linked[peer][0][i] = n->linked[peer][1][i] = false;
    }
}

static net *open_net(uint64_t seed, bool geography, uint32_t without) {
    net *n = calloc(1, sizeof *n);
    n->waiting = calloc(MOST_MESSAGES, sizeof *n->waiting);
    n->arrives = calloc(MOST_MESSAGES, sizeof *n->arrives);
    n->random.state = rng_seed(seed, 9);
    n->geography = geography;
    n->links_bound = LINKS;
    for (uint32_t i = 1; i <= PEERS; i++) {
        uint64_t town = rng_below(&n->random, 5);
        n->x[i] = (int64_t)(town * 37 % 100) * 1000 + (int64_t)rng_below(&n->random, 3000);
        n->y[i] = (int64_t)(town * 61 % 100) * 1000 + (int64_t)rng_below(&n->random, 3000);
        n->access[i] = 1000 + (int64_t)rng_below(&n->random, 9000);
        n->alive[i] = i == 1 || i % 4 != without % 4 || without == 0;
    }
    for (uint32_t i = 1; i <= PEERS; i++)
        if (n->alive[i]) put_in(n, i);
    return n;
}

static void close_net(net *n) {
    for (uint32_t i = 1; i <= PEERS; i++) free(n->view[i]);
    free(n->waiting);
    free(n->arrives);
    free(n);
}

// Both ends of each link agree, no peer keeps a dead one, and no peer is isolated.
static void check_links(const net *n) {
    for (uint32_t i = 1; i <= PEERS; i++) {
        uint32_t count[2] = {0};
        for (uint32_t j = 1; n->alive[i] && j <= PEERS; j++) {
            if (n->linked[i][ROUTER_NEXT][j] != n->linked[j][ROUTER_PREVIOUS][i])
                fail_msg("%" PRIu32 " and %" PRIu32 " do not agree", i, j);
            for (int s = 0; s < 2; s++) {
                if (!n->linked[i][s][j]) continue;
                assert_true(n->alive[j]);
                count[s]++;
            }
        }
        for (int s = 0; n->alive[i] && s < 2; s++) assert_true(count[s] >= 1);
    }
}

typedef struct pair {
    int64_t cost;
    uint32_t from, to;
} pair;

static int compare_pairs(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : (int)x->to - (int)y->to;
}

// Mean cost of the links among `all`, cheapest first, that leave each peer at most CLOSE on a side.
static double mean_close(pair *all, uint32_t count) {
    uint32_t out[PEERS + 1] = {0}, in[PEERS + 1] = {0}, taken = 0;
    double sum = 0;
    qsort(all, count, sizeof *all, compare_pairs);
    for (uint32_t k = 0; k < count; k++) {
        if (out[all[k].from] == CLOSE || in[all[k].to] == CLOSE) continue;
        out[all[k].from]++;
        in[all[k].to]++;
        sum += (double)all[k].cost;
        taken++;
    }
    assert_true(taken > A_STAGE);
    return sum / taken;
}

// Mean cost of the links between relays, and of those that an observer of all costs would choose.
static void mean_costs(const net *n, double *had, double *best) {
    static pair all[PEERS * PEERS], made[PEERS * PEERS];
    uint32_t a = 0, m = 0;
    for (uint32_t i = 2; i <= PEERS; i++)
        for (uint32_t j = 2; j <= PEERS; j++) {
            if (!n->alive[i] || !n->alive[j] || stage_of(j) != stage_of(i) + 1) continue;
            all[a++] = (pair){cost_of(n, i, j), i, j};
            if (n->linked[i][ROUTER_NEXT][j]) made[m++] = all[a - 1];
        }
    *had = mean_close(made, m);
    *best = mean_close(all, a);
}

static void views_agree_and_are_cheap(void **state) {
    (void)state;
    for (int geography = 0; geography < 2; geography++) {
        net *n = open_net(test_seed(), geography != 0, 0);
        run(n, 300);
        check_links(n);
        for (uint32_t j = 2; j <= PEERS; j++)  // the data peer has all of its two stages
            assert_true(stage_of(j) != 1 || n->linked[1][ROUTER_NEXT][j]);
        double had, best;
        mean_costs(n, &had, &best);
        print_message("%s: cost of close links %.0f, with a global view %.0f; %.1f messages and %.0f bytes a peer\n",
                      geography ? "geography" : "random", had, best, (double)n->messages / PEERS,
                      (double)n->bytes / PEERS);
        assert_true(had < best * 1.1);
        close_net(n);
    }
}

static void quiet_views_say_little(void **state) {
    (void)state;
    net *n = open_net(test_seed(), true, 0);
    run(n, 500);
    uint64_t messages = n->messages, bytes = n->bytes, drops = n->drops;
    run(n, 160);
    double per_period = (double)(n->messages - messages) / PEERS / 160;
    print_message("quiet: %.2f messages, %.0f bytes a peer and period\n", per_period,
                  (double)(n->bytes - bytes) / PEERS / 160);
    assert_true(per_period < 0.5);
    assert_true(n->drops - drops < PEERS / 10);
    close_net(n);
}

static void lost_messages_are_mended(void **state) {
    (void)state;
    net *n = open_net(test_seed() + 1, true, 0);
    n->loss = 0.2;
    run(n, 200);
    n->loss = 0;
    run(n, 1000);
    check_links(n);
    close_net(n);
}

static void the_dead_are_replaced(void **state) {
    (void)state;
    net *n = open_net(test_seed() + 2, true, 0);
    run(n, 150);
    for (uint32_t i = 2; i <= PEERS; i += 4) die(n, i);
    run(n, 300);
    check_links(n);
    double had, best;
    mean_costs(n, &had, &best);
    assert_true(had < best * 1.1);
    close_net(n);
}

// A quarter of the peers comes late, when every link carries units. Links with units stay (collect
// checks that), and late peers find neighbours with free places.
static void links_with_units_stay(void **state) {
    (void)state;
    net *n = open_net(test_seed() + 3, true, 3);
    run(n, 150);
    uint32_t carrying = 0, left = 0;
    for (uint32_t i = 1; i <= PEERS; i++)
        for (uint32_t j = 1; j <= PEERS; j++) {
            if (!n->linked[i][ROUTER_NEXT][j] || (i + j) % 3 == 0) continue;
            n->units[i][j] = 1;
            view_carries(n->view[i], n->now, ROUTER_NEXT, j, 1);
            view_carries(n->view[j], n->now, ROUTER_PREVIOUS, i, 1);
            carrying++;
        }
    for (uint32_t i = 2; i <= PEERS; i++)
        if (!n->alive[i]) put_in(n, i);
    uint64_t drops = n->drops;
    run(n, 200);
    assert_true(n->drops > drops);  // other links did change
    for (uint32_t i = 1; i <= PEERS; i++)
        for (uint32_t j = 1; j <= PEERS; j++)
            left += n->units[i][j] > 0 && n->linked[i][ROUTER_NEXT][j] && n->linked[j][ROUTER_PREVIOUS][i];
    assert_int_equal(left, carrying);
    for (uint32_t i = 1; i <= PEERS; i++)
        for (uint32_t j = 1; j <= PEERS; j++) {
            if (n->units[i][j] == 0) continue;
            n->units[i][j] = 0;
            view_carries(n->view[i], n->now, ROUTER_NEXT, j, 0);
            view_carries(n->view[j], n->now, ROUTER_PREVIOUS, i, 0);
        }
    run(n, 300);
    check_links(n);
    close_net(n);
}

// Whether `i` keeps the link to `j` after a request to remove it.
static bool stays_when_asked(net *n, uint32_t i, uint32_t j) {
    view_message m = {.from = j,
                      .to = i,
                      .kind = VIEW_PART,
                      .side = ROUTER_PREVIOUS,
                      .linked = 1 << ROUTER_PREVIOUS,
                      .card = {.peer = j, .stage = stage_of(j)}};
    view_receive(n->view[i], n->now, &m);
    collect(n, i);
    return n->linked[i][ROUTER_NEXT][j];
}

static void a_link_in_use_is_not_given_up_when_asked(void **state) {
    (void)state;
    net *n = open_net(test_seed() + 5, true, 0);
    run(n, 150);
    uint32_t i = 2, j = 1;
    while (!n->linked[i][ROUTER_NEXT][j]) j++;
    view_carries(n->view[i], n->now, ROUTER_NEXT, j, 1);
    assert_true(stays_when_asked(n, i, j));
    view_carries(n->view[i], n->now, ROUTER_NEXT, j, 0);
    n->now += 8 * PERIOD - 1;  // it is kept for a while afterwards
    assert_true(stays_when_asked(n, i, j));
    n->now++;
    assert_false(stays_when_asked(n, i, j));
    close_net(n);
}

static void the_same_twice(void **state) {
    (void)state;
    uint64_t hash[3];
    for (uint32_t k = 0; k < 3; k++) {
        net *n = open_net(test_seed() + k / 2, true, 0);
        run(n, 60);
        hash[k] = n->hash;
        close_net(n);
    }
    assert_int_equal(hash[0], hash[1]);
    assert_int_not_equal(hash[0], hash[2]);
}

static void nonsense_is_ignored(void **state) {
    (void)state;
    net *n = open_net(test_seed() + 4, true, 0);
    run(n, 50);
    rng r = {test_seed()};
    for (int k = 0; k < 20000; k++) {
        view_message m;
        uint32_t to = 1 + (uint32_t)rng_below(&r, PEERS);
        for (size_t b = 0; b < sizeof m / 8; b++) {
            uint64_t word = rng_next(&r);
            memcpy((char *)&m + b * 8, &word, 8);
        }
        m.by_chance = k % 2 == 0;
        m.kind = (view_kind)rng_below(&r, VIEW_KIND_COUNT + 1);
        m.side = (uint8_t)rng_below(&r, 4);
        m.length = (uint16_t)rng_below(&r, VIEW_DESCRIPTORS + 2);
        m.card.stage = (uint16_t)rng_below(&r, STAGES + 2);
        m.card.age = (uint16_t)(k % 7 == 0);
        if (k % 2 == 0) m.card.place = (view_coordinate){{k, -k, 1 << 30}, k % 4 == 0 ? 0 : k, (uint16_t)(k % 1001)};
        for (int c = 0; c < VIEW_DESCRIPTORS; c++)
            if (k % 4 != 1)
                m.cards[c] =
                    (view_descriptor){m.cards[c].peer % 300, (uint16_t)(c % 5), (uint16_t)(k % 300), m.card.place};
        if (k % 6 == 0) view_measured(n->view[to], n->now, m.from, k % 12 == 0 ? 0 : 1 + k);
        if (k % 3 == 0) m.card.peer = m.from = 1000 + m.from % 50;
        if (k % 5 == 0) m.cost = (int64_t)rng_below(&r, ROUTER_MAX_COST);
        view_receive(n->view[to], n->now, &m);
        view_message out;
        view_change change;
        while (view_next(n->view[to], &out)) assert_true(out.length <= VIEW_DESCRIPTORS);
        while (view_changed(n->view[to], &change)) continue;
        for (int s = 0; s < 2; s++)
            assert_true(view_links(n->view[to], (router_side)s, NULL, 0) <= (to == 1 ? A_STAGE : LINKS));
    }
    close_net(n);
}

static void bad_configurations(void **state) {
    (void)state;
    view_config good = {.self = 1, .stage = 1, .stages = 3, .period = 4, .patience = 3};
    assert_true(view_bytes(&good) > 0 && view_bytes(&good) < 16384);
    view_config bad[] = {good, good, good, good, good, good};
    bad[0].self = 0;
    bad[1].stage = 4;
    bad[2].links = ROUTER_MAX_NEIGHBOURS + 1;
    bad[3].period = 0;
    bad[4].close = 17, bad[4].links = 16;
    bad[5].patience = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(view_bytes(&bad[i]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_agree_and_are_cheap),
        cmocka_unit_test(quiet_views_say_little),
        cmocka_unit_test(lost_messages_are_mended),
        cmocka_unit_test(the_dead_are_replaced),
        cmocka_unit_test(links_with_units_stay),
        cmocka_unit_test(a_link_in_use_is_not_given_up_when_asked),
        cmocka_unit_test(the_same_twice),
        cmocka_unit_test(nonsense_is_ignored),
        cmocka_unit_test(bad_configurations),
    };
    print_message("BRAID_TEST_SEED=%" PRIu64 "\n", test_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
