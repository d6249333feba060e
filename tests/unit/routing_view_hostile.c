// A view among hostile peers. Whatever a host lets through, in any order and amid deaths and
// changes of units, trips no assertion and exceeds no bound. No link with units is removed by the
// view's choice, and no message is sent that another host would refuse.
#include "base/rng.h"
#include "routing/view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "seed.h"

enum {
    STAGES = 3,
    STAGE = 2,
    SELF = 50,
    OTHERS = 40,
    LINKS = 6,
    CLOSE = 3,
    PERIOD = 1000,
    PATIENCE = 3000,
    HEARD = 16,
    CALLS = 60000,
    MOST_AT_ONCE = 24
};

typedef struct world {
    rng random;
    view *view;
    int64_t now;
    view_message heard[HEARD];  // last messages of the view
    uint32_t heard_count;
    uint32_t units[OTHERS + 1];
    bool linked[OTHERS + 1];
    uint64_t links, messages;
} world;

static uint32_t below(world *w, uint32_t end) { return (uint32_t)rng_below(&w->random, end); }
static bool chance(world *w, uint32_t of) { return below(w, of) == 0; }
static uint16_t stage_of(router_peer peer) { return (uint16_t)(1 + peer % STAGES); }

static int64_t some_cost(world *w) {
    static const int64_t edge[] = {0, 1, ROUTER_MAX_COST - 1, ROUTER_MAX_COST};
    return chance(w, 3) ? edge[below(w, sizeof edge / sizeof *edge)] : (int64_t)below(w, 20000);
}

static int32_t some_axis(world *w) {
    static const int32_t edge[] = {0, 1, -1, ROUTER_MAX_COST, -ROUTER_MAX_COST};
    return chance(w, 3) ? edge[below(w, sizeof edge / sizeof *edge)] : (int32_t)below(w, 40000) - 20000;
}

static view_coordinate some_place(world *w) {
    view_coordinate place = {.height = some_axis(w), .error = (uint16_t)below(w, VIEW_SURE + 1)};
    if (place.height < 0) place.height = -place.height;
    for (int i = 0; i < VIEW_AXES; i++) place.at[i] = some_axis(w);
    return place;
}

// As hosts make them: of members, with stages from the log.
static view_descriptor some_card(world *w) {
    router_peer peer = chance(w, 30) ? SELF : 1 + below(w, OTHERS);
    return (view_descriptor){.peer = peer,
                             .stage = peer == SELF ? STAGE : stage_of(peer),
                             .age = (uint16_t)below(w, VIEW_MAX_AGE + 1),
                             .place = some_place(w)};
}

static void any_message(world *w, view_message *m) {
    router_peer from = 1 + below(w, OTHERS);
    *m = (view_message){.from = from,
                        .to = SELF,
                        .kind = (view_kind)below(w, VIEW_KIND_COUNT),
                        .side = (uint8_t)below(w, ROUTER_SIDES),
                        .by_chance = chance(w, 2),
                        .linked = (uint8_t)below(w, 4),
                        .cost = some_cost(w)};
    if (m->kind == VIEW_ASK || m->kind == VIEW_PING) m->side = stage_of(from) < STAGE ? ROUTER_NEXT : ROUTER_PREVIOUS;
    m->card = (view_descriptor){.peer = from, .stage = stage_of(from), .place = some_place(w)};
    if (m->kind == VIEW_SAMPLE || m->kind == VIEW_REPLY) m->length = (uint16_t)below(w, VIEW_DESCRIPTORS + 1);
    for (uint16_t i = 0; i < m->length; i++) m->cards[i] = some_card(w);
}

// Answers requests, truly or not, and denies answers.
static void answer(world *w, view_message *m) {
    static const view_kind reply[VIEW_KIND_COUNT] = {
        [VIEW_SAMPLE] = VIEW_REPLY, [VIEW_REPLY] = VIEW_CUT, [VIEW_PING] = VIEW_PONG,
        [VIEW_PONG] = VIEW_ASK,     [VIEW_ASK] = VIEW_YES,   [VIEW_YES] = VIEW_PART,
        [VIEW_NO] = VIEW_ASK,       [VIEW_PART] = VIEW_CUT,  [VIEW_CUT] = VIEW_ASK};
    const view_message *h = &w->heard[below(w, HEARD)];
    any_message(w, m);
    if (h->to == 0 || h->to > OTHERS) return;
    m->from = m->card.peer = h->to;
    m->card.stage = stage_of(h->to);
    m->kind = chance(w, 8) ? VIEW_NO : reply[h->kind];
    m->side = stage_of(h->to) < STAGE ? ROUTER_NEXT : ROUTER_PREVIOUS;
    if (m->kind == VIEW_YES || chance(w, 2)) m->cost = h->cost;
    if (m->kind != VIEW_REPLY) m->length = 0;
}

static void assert_sayable(const view_message *m) {
    assert_true(m->from == SELF && m->to >= 1 && m->to <= OTHERS);
    assert_true((uint32_t)m->kind < VIEW_KIND_COUNT && m->side < ROUTER_SIDES && m->linked < 4);
    assert_true(m->cost >= 0 && m->cost <= ROUTER_MAX_COST);
    assert_true(m->length <= VIEW_DESCRIPTORS && (m->length == 0 || m->kind <= VIEW_REPLY));
    assert_true(m->card.peer == SELF && m->card.place.height >= 0 && m->card.place.height <= ROUTER_MAX_COST &&
                m->card.place.error <= VIEW_SURE);
    for (int i = 0; i < VIEW_AXES; i++)
        assert_in_range(m->card.place.at[i] + (int64_t)ROUTER_MAX_COST, 0, 2 * (int64_t)ROUTER_MAX_COST);
    for (uint16_t i = 0; i < m->length; i++)
        assert_true(m->cards[i].peer >= 1 && m->cards[i].peer <= OTHERS && m->cards[i].age <= VIEW_MAX_AGE);
}

// `cut_by`: sender of a CUT, or silent peer, of this call; 0: a removed link is the view's own
// choice.
static void take_out(world *w, router_peer cut_by) {
    view_message m;
    view_change c;
    uint32_t said = 0;
    for (; view_next(w->view, &m); said++) {
        assert_sayable(&m);
        w->heard[w->heard_count++ % HEARD] = m;
    }
    w->messages += said;
    assert_true(said <= MOST_AT_ONCE);
    while (view_changed(w->view, &c)) {
        assert_true(c.peer >= 1 && c.peer <= OTHERS && w->linked[c.peer] != c.add && c.cost >= 0 &&
                    c.cost <= ROUTER_MAX_COST);
        w->linked[c.peer] = c.add;
        w->links += c.add;
        if (!c.add && c.peer != cut_by) assert_int_equal(w->units[c.peer], 0);
        if (!c.add) w->units[c.peer] = 0;
    }
    for (int side = 0; side < 2; side++) assert_true(view_links(w->view, (router_side)side, NULL, 0) <= LINKS);
    assert_true(view_deadline(w->view) > w->now - 1);
}

static void one_message(world *w) {
    view_message m;
    if (chance(w, 2))
        answer(w, &m);
    else
        any_message(w, &m);
    if (m.kind == VIEW_REPLY || m.kind == VIEW_PONG) view_measured(w->view, w->now, m.from, some_cost(w));
    view_receive(w->view, w->now, &m);
    take_out(w, m.from);
}

static void one_call(world *w) {
    router_peer peer = 1 + below(w, OTHERS);
    uint16_t stage = stage_of(peer);
    if (chance(w, 4)) {
        w->now = view_deadline(w->view) > w->now ? view_deadline(w->view) : w->now + 1;
        view_tick(w->view, w->now);
    } else if (chance(w, 20)) {
        view_gone(w->view, w->now, peer);
        w->linked[peer] = false;
        w->units[peer] = 0;
    } else if (chance(w, 10)) {
        view_contact(w->view, w->now, peer, stage);
    } else if (w->linked[peer] && chance(w, 4)) {
        w->units[peer] = below(w, 3);
        view_carries(w->view, w->now, stage < STAGE ? ROUTER_PREVIOUS : ROUTER_NEXT, peer, w->units[peer]);
    } else {
        one_message(w);
        return;
    }
    take_out(w, 0);
}

static view *open_view(void *memory, size_t room, uint64_t seed) {
    const view_config c = {.self = SELF,
                           .stage = STAGE,
                           .stages = STAGES,
                           .links = LINKS,
                           .close = CLOSE,
                           .period = PERIOD,
                           .patience = PATIENCE,
                           .seed = seed};
    assert_true(view_bytes(&c) > 0 && view_bytes(&c) <= room);
    return view_init(memory, &c, 0);
}

static void test_arbitrary_messages_at_any_time(void **state) {
    (void)state;
    static _Alignas(16) uint8_t memory[1 << 16];
    rng r = seeded_rng("hostile views", 31);
    uint64_t links = 0;
    for (int life = 0; life < 12; life++) {
        world w = {.random = {rng_next(&r)}, .view = open_view(memory, sizeof memory, rng_next(&r))};
        for (int i = 0; i < CALLS / 12; i++) one_call(&w);
        links += w.links;
    }
    assert_true(links > 500);  // admitted
}

// --- false costs

typedef struct asker {
    view *view;
    int64_t now;
} asker;

static view_message from(router_peer peer, view_kind kind, int64_t cost) {
    return (view_message){.from = peer,
                          .to = SELF,
                          .kind = kind,
                          .side = ROUTER_NEXT,
                          .cost = cost,
                          .card = {.peer = peer, .stage = STAGE - 1, .place.error = VIEW_SURE}};
}

// Returns the kind of the view's answer to this peer.
static view_kind ask(asker *a, router_peer peer, int64_t measured, int64_t claimed) {
    view_message ping = from(peer, VIEW_PING, 0), pong = from(peer, VIEW_PONG, 1), m = from(peer, VIEW_ASK, claimed),
                 out;
    view_change change;
    view_receive(a->view, a->now, &ping);
    view_measured(a->view, a->now, peer, measured);
    view_receive(a->view, a->now, &pong);
    while (view_next(a->view, &out)) {
    }
    view_receive(a->view, a->now, &m);
    view_kind kind = VIEW_KIND_COUNT;
    while (view_next(a->view, &out))
        if (out.to == peer && out.kind != VIEW_PART) kind = out.kind;
    while (view_changed(a->view, &change)) {
    }
    return kind;
}

// All close places are taken by cheap peers: an expensive peer that claims to be cheap gets none.
static void test_false_low_cost_wins_no_close_link(void **state) {
    (void)state;
    static _Alignas(16) uint8_t memory[1 << 16];
    asker a = {open_view(memory, sizeof memory, 1), 1};
    for (router_peer peer = 3; peer < 3 + 3 * CLOSE; peer += 3) assert_int_equal(ask(&a, peer, 100, 100), VIEW_YES);
    assert_int_equal(ask(&a, 30, 5000, 0), VIEW_NO);
    assert_int_equal(ask(&a, 33, 50, 50), VIEW_YES);
    view_link link[LINKS];
    uint32_t count = view_links(a.view, ROUTER_PREVIOUS, link, LINKS);
    for (uint32_t i = 0; i < count; i++) assert_true(link[i].cost <= 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arbitrary_messages_at_any_time),
        cmocka_unit_test(test_false_low_cost_wins_no_close_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
