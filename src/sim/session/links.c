// Links: in order, with a delay; they fall and are dialed again.
#include "sim/session/inside.h"

#include <string.h>

world_link *link_of(world *w, uint32_t a, uint32_t b) { return a < b ? &w->link[a][b] : &w->link[b][a]; }

static uint64_t delay(world *w, const world_link *l) {
    return l->latency_ns + rng_below(&w->random, l->latency_ns / 4 + 1);
}

static void deliver(world *w, uint32_t from, uint32_t to, world_item *item) {
    world_link *l = link_of(w, from, to);
    item->from = from;
    item->life = w->node[to].life;
    item->generation = l->generation;
    uint64_t at = w->now;
    if (from != to) {
        at += delay(w, l);
        if (l->cut_until > w->now && l->holds) at += l->cut_until - w->now;
        uint64_t *last = &l->last_ns[from > to];
        if (at < *last) at = *last;
        *last = at;
    }
    world_put(w, at, item);
}

void link_send(world *w, uint32_t from, uint32_t to, const session_effect *e, const uint64_t *values, uint32_t rows,
               uint32_t layers) {
    world_link *l = link_of(w, from, to);
    if (from != to) {
        if (!l->up[from > to] || !l->whole) return;
        if (l->cut_until > w->now && !l->holds) return;
    }
    w->result->messages++;
    size_t payload = (size_t)rows * layers * sizeof(uint64_t);
    world_item *item = world_item_new(ITEM_MESSAGE, to, e->byte_count + payload);
    item->count = e->byte_count;
    item->rows = rows;
    item->layers = layers;
    memcpy(item->bytes, e->bytes, e->byte_count);
    if (payload > 0) memcpy(item->bytes + e->byte_count, values, payload);
    deliver(w, from, to, item);
}

static void tell(world *w, uint32_t node, uint32_t about, item_kind kind, uint64_t at_ns, bool refused) {
    world_item *item = world_item_new(kind, node, 0);
    item->from = about;
    item->life = w->node[node].life;
    item->generation = link_of(w, node, about)->generation;
    item->refused = refused;
    world_put(w, at_ns, item);
}

void link_dial(world *w, uint32_t from, uint32_t to) {
    world_link *l = link_of(w, from, to);
    bool cut = l->cut_until > w->now;
    l->dialing[from > to] = true;
    world_item *item = world_item_new(ITEM_DIALED, from, 0);
    item->from = to;
    item->life = w->node[from].life;
    world_put(w, w->now + (cut ? 1000 * WORLD_MS : 2 * delay(w, l)), item);
}

static void bring_down(world *w, uint32_t node, uint32_t about, bool refused) {
    session_event e = {.kind = SESSION_EVENT_LINK_DOWN, .id = w->node[about].id, .refused = refused};
    host_event(w, node, &e);
}

static void bring_up(world *w, uint32_t node, uint32_t about) {
    world_link *l = link_of(w, node, about);
    if (!w->node[node].alive) return;
    if (l->up[node > about]) {  // of the connection before
        l->up[node > about] = false;
        bring_down(w, node, about, false);
    }
    l->up[node > about] = true;
    session_event e = {.kind = SESSION_EVENT_LINK_UP, .id = w->node[about].id};
    host_event(w, node, &e);
}

void link_dialed(world *w, const world_item *item) {
    uint32_t from = item->node, to = item->from;
    world_link *l = link_of(w, from, to);
    if (!w->node[from].alive || w->node[from].life != item->life) return;
    l->dialing[from > to] = false;
    if (l->whole && l->up[from > to]) return;  // the other side was faster
    if (l->cut_until > w->now || !w->node[to].alive || w->node[to].paused_until > w->now) {
        bring_down(w, from, to, !w->node[to].alive && l->cut_until <= w->now);
        return;
    }
    if (!l->whole) l->generation++;
    l->whole = true;
    l->last_ns[0] = l->last_ns[1] = w->now;
    bring_up(w, from, to);
    tell(w, to, from, ITEM_UP, w->now, false);
}

// LINK_UP or LINK_DOWN at one end.
void link_told(world *w, const world_item *item) {
    world_link *l = link_of(w, item->node, item->from);
    bool *up = &l->up[item->node > item->from];
    if (item->kind == ITEM_UP) {
        if (l->whole && l->generation == item->generation && !(*up))
            bring_up(w, item->node, item->from);
        else if (l->whole && l->generation == item->generation)
            bring_up(w, item->node, item->from);
        return;
    }
    if (!*up || (l->whole && l->generation != item->generation)) return;
    *up = false;
    bring_down(w, item->node, item->from, item->refused);
}

void link_fall(world *w, uint32_t a, uint32_t b, bool refused_a, bool refused_b) {
    world_link *l = link_of(w, a, b);
    if (!l->whole) return;
    l->whole = false;
    l->generation++;
    tell(w, a, b, ITEM_DOWN, w->now + rng_below(&w->random, l->latency_ns + 1), refused_a);
    tell(w, b, a, ITEM_DOWN, w->now + rng_below(&w->random, l->latency_ns + 1), refused_b);
}

void links_crash(world *w, uint32_t node) {
    for (uint32_t k = 0; k < w->nodes; k++) {
        if (k == node) continue;
        world_link *l = link_of(w, node, k);
        link_fall(w, node, k, false, l->cut_until <= w->now && rng_below(&w->random, 4) > 0);
        l->up[node > k] = false;
        l->dialing[node > k] = false;
    }
}
