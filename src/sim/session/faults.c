// The schedule of faults, from the seed.
#include "sim/session/inside.h"

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
    if (rng_below(&w->random, 3) > 0) put_start(w, node, rng_below(&w->random, 1500) * WORLD_MS);
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

// A span with other layers, or none.
static void change_span(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    if (!n->alive || spares(w, node) || !n->config.serves) return;
    bool none = rng_below(&w->random, 3) == 0;
    world_trace(w, "n%u changes its span", node);
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

// All peers live and reach each other from now on.
void faults_heal(world *w) {
    world_trace(w, "healed");
    w->healed = true;
    for (uint32_t a = 0; a < w->nodes; a++) {
        for (uint32_t b = 0; b < a; b++) link_of(w, a, b)->cut_until = 0;
        w->node[a].paused_until = w->node[a].slow_until = 0;
        session_event span = {.kind = SESSION_EVENT_SPAN, .span = &w->node[a].config.span};
        if (!w->node[a].alive)
            put_start(w, a, WORLD_MS);
        else if (w->node[a].leaving) {
            texts_lose(w, a);
            host_stop(w, a);
            links_crash(w, a);
            put_start(w, a, 10 * WORLD_MS);
        } else if (w->node[a].config.serves) {
            session_look(w->node[a].peer, &(session_totals){0});
            session_view view;
            session_peer_view(w->node[a].peer, &view);
            if (!view.peer[0].card.serves) host_event(w, a, &span);
        }
    }
}
