// The schedule of faults, from the seed.
#include "sim/session/inside.h"

enum {
    WINDOW_DEATHS = 12,  // one of so many windows
    WINDOW_MS = 100,     // about the time of a window in a path
};

static bool spares(const world *w, uint32_t node) { return node < w->origins && !w->origins_die; }

static void put_start(world *w, uint32_t node, uint64_t after_ns) {
    world_put(w, w->now + after_ns, world_item_new(ITEM_START, node, 0));
}

static void crash(world *w, uint32_t node) {
    if (!w->node[node].alive || spares(w, node)) return;
    world_trace(w, "n%u dies", node);
    w->result->crashes++;
    texts_lose(w, node);
    host_stop(w, node);
    links_crash(w, node);
    w->node[node].gone = node < w->origins && rng_below(&w->random, 3) == 0;
    if (!w->node[node].gone && rng_below(&w->random, 3) > 0) put_start(w, node, rng_below(&w->random, 1500) * WORLD_MS);
}

void fault_in_window(world *w, const world_text *t) {
    if (w->mode != SESSION_SIM_WINDOWS || w->now >= w->faults_ns || rng_below(&w->random, WINDOW_DEATHS) > 0) return;
    session_own_view own;
    session_look_own(w->node[t->node].peer, t->number, &own);
    if (!own.exists || own.path->count == 0) return;
    const session_hop *hop = &own.path->hop[rng_below(&w->random, own.path->count)];
    world_item *item = world_item_new(ITEM_WINDOW_DEATH, world_node_of(w, &hop->id), 0);
    world_put(w, w->now + rng_below(&w->random, WINDOW_MS) * WORLD_MS, item);
}

void fault_window_death(world *w, const world_item *item) {
    if (w->healed || !w->node[item->node].alive || spares(w, item->node)) return;
    w->result->window_deaths++;
    crash(w, item->node);
}

static void pause(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    if (!n->alive || n->paused_until > w->now) return;
    n->paused_until = w->now + (50 + rng_below(&w->random, rng_below(&w->random, 2) ? 300 : 3000)) * WORLD_MS;
    world_trace(w, "n%u is paused", node);
    w->result->pauses++;
}

static void fall(world *w) {
    uint32_t a = (uint32_t)rng_below(&w->random, w->nodes), b = (uint32_t)rng_below(&w->random, w->nodes);
    if (a == b) return;
    world_trace(w, "the link n%u - n%u falls", a, b);
    w->result->falls++;
    link_fall(w, a, b, false, false);
}

static void cut_link(world *w, uint32_t a, uint32_t b, uint64_t until, bool holds) {
    world_link *l = link_of(w, a, b);
    l->cut_until = until;
    l->holds = holds;
    if (!holds) link_fall(w, a, b, false, false);
}

// One pair, one peer from all others, or two halves.
static void cut(world *w) {
    uint64_t until = w->now + (100 + rng_below(&w->random, 3000)) * WORLD_MS;
    bool holds = rng_below(&w->random, 2), pair = rng_below(&w->random, 2);
    uint64_t side = pair ? (uint64_t)1 << rng_below(&w->random, w->nodes) : rng_next(&w->random);
    uint64_t others = pair ? (uint64_t)1 << rng_below(&w->random, w->nodes) : ~side;
    world_trace(w, "a cut until %llu ms", (unsigned long long)(until / WORLD_MS));
    w->result->cuts++;
    for (uint32_t a = 0; a < w->nodes; a++) {
        for (uint32_t b = 0; b < a; b++) {
            bool apart = ((side >> a & 1) && (others >> b & 1)) || ((side >> b & 1) && (others >> a & 1));
            if (apart) cut_link(w, a, b, until, holds);
        }
    }
}

static void drain(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    if (!n->alive || spares(w, node) || n->leaving) return;
    n->leaving = true;
    world_trace(w, "n%u drains", node);
    w->result->drains++;
    session_event e = {.kind = SESSION_EVENT_DRAIN};
    host_event(w, node, &e);
    world_item *item = world_item_new(ITEM_LEAVE, node, 0);
    item->life = n->life;
    world_put(w, w->now + (500 + rng_below(&w->random, 4000)) * WORLD_MS, item);
}

static void disturb_text(world *w, bool cancel) {
    world_text *t = &w->text[rng_below(&w->random, WORLD_TEXTS)];
    if (!t->used || t->ended || !w->node[t->node].alive) return;
    if (cancel) {
        world_trace(w, "n%u text %llu is cancelled", t->node, (unsigned long long)t->number);
        w->result->cancels++;
        text_end(w, t);
        return;
    }
    w->result->reroutes++;
    session_event e = {.kind = SESSION_EVENT_REROUTE, .number = t->number};
    host_event(w, t->node, &e);
}

static void slow_down(world *w, uint32_t node) {
    w->node[node].slow_until = w->now + rng_below(&w->random, 4000) * WORLD_MS;
    w->result->slow++;
}

// A span of other layers, as after a rebalancing, or none.
static void change_span(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    if (!n->alive || spares(w, node) || !n->config.serves) return;
    uint16_t *begin = &n->config.span.layer_begin, *end = &n->config.span.layer_end;
    *begin = (uint16_t)rng_below(&w->random, w->layers);
    *end = (uint16_t)(*begin + 1 + rng_below(&w->random, (uint64_t)w->layers - *begin));
    bool none = rng_below(&w->random, 3) == 0;
    world_trace(w, "n%u has layers [%u, %u)%s from now on", node, *begin, *end, none ? " later, and none" : "");
    w->result->moves++;
    session_event e = {.kind = SESSION_EVENT_SPAN, .span = none ? NULL : &n->config.span};
    host_event(w, node, &e);
}

void fault_next(world *w) {
    if (w->now >= w->faults_ns) {
        faults_heal(w);
        return;
    }
    uint32_t node = (uint32_t)rng_below(&w->random, w->nodes);
    switch (rng_below(&w->random, 16)) {
    case 0:
    case 1:
    case 2: crash(w, node); break;
    case 3:  // neighbours, maybe
        crash(w, node);
        crash(w, (node + 1) % w->nodes);
        break;
    case 4:
    case 5: pause(w, node); break;
    case 6:
    case 7: fall(w); break;
    case 8: cut(w); break;
    case 9: drain(w, node); break;
    case 10: disturb_text(w, true); break;
    case 11: disturb_text(w, false); break;
    case 12: slow_down(w, node); break;
    case 13: change_span(w, node); break;
    default: text_begin(w);
    }
    world_put(w, w->now + rng_below(&w->random, w->fault_gap_ns), world_item_new(ITEM_FAULT, 0, 0));
}

static void restart(world *w, uint32_t node) {
    texts_lose(w, node);
    host_stop(w, node);
    links_crash(w, node);
    put_start(w, node, 10 * WORLD_MS);
}

static bool has_first_span(const world_node *n) {
    session_view view;
    session_peer_view(n->peer, &view);
    const session_card *card = &view.peer[0].card;
    if (!n->config.serves) return true;
    return card->serves && card->layer_begin == n->first_span.layer_begin && card->layer_end == n->first_span.layer_end;
}

// All peers live, have their first spans and reach each other from now on, but for origins that do
// not return.
void faults_heal(world *w) {
    world_trace(w, "healed");
    w->healed = true;
    for (uint32_t a = 0; a < w->nodes; a++) {
        world_node *n = &w->node[a];
        for (uint32_t b = 0; b < a; b++) link_of(w, a, b)->cut_until = 0;
        n->paused_until = n->slow_until = 0;
        bool moved = n->alive && !has_first_span(n);
        n->config.span = n->first_span;
        session_event span = {.kind = SESSION_EVENT_SPAN, .span = &n->config.span};
        if (n->gone) continue;
        if (!n->alive)
            put_start(w, a, WORLD_MS);
        else if (n->leaving)
            restart(w, a);
        else if (moved)
            host_event(w, a, &span);
    }
}
