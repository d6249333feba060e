// Cycles that save something in a flow that is known as a whole: walks that become cheaper from round to round (Bellman and Ford), until they
// lead in a circle.
#include "flow/lone_inside.h"

#include "base/err.h"

enum { ROUNDS = 64 };  // walks of more links make no cycle that a token could go

#define UNIT_MORE ((int64_t)1 << 40)  // what it is worth: more than any cycle of links
_Static_assert((int64_t)ROUTER_MAX_CYCLE *ROUTER_MAX_COST < UNIT_MORE, "a cycle of links");

// --- What is known -----------------------------------------------------------------------------------------------------

// What goes through a relay is what comes in or goes out, whichever is more: it may be about to mend a difference.
static void load_relays(lone *w) {
    for (uint32_t h = 0; h < 1 + 2 * w->peers; h++) w->half[h] = (lone_half){0};
    for (uint32_t i = 0; i < w->peers; i++) {
        for (uint32_t l = w->place[i].first; l < w->place[i].first + w->place[i].links; l++) {
            w->half[half_out(i)].cost += w->link[l].units;
            w->half[w->link[l].to].cost += w->link[l].units;
        }
    }
    w->sent = (uint32_t)w->half[half_out(w->at_home)].cost;
    for (uint32_t i = 0; i < w->peers; i++) {
        if (i == w->at_home) continue;
        lone_link *through = &w->link[w->place[i].first - 1];
        int64_t in = w->half[half_in(i)].cost, out = w->half[half_out(i)].cost, most = in > out ? in : out;
        through->units = (uint16_t)(most < through->room ? most : through->room);
    }
}

// How far each is from home.
static void find_levels(lone *w) {
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < w->peers; i++) w->place[i].before = w->place[i].level = UINT32_MAX;
    w->place[w->at_home].level = 0;
    w->stack[tail++] = w->at_home;
    while (head < tail) {
        uint32_t at = w->stack[head++];
        for (uint32_t l = w->place[at].first; l < w->place[at].first + w->place[at].links; l++) {
            uint32_t to = place_of(w->link[l].to);
            if (w->link[l].room == 0 || w->place[to].level != UINT32_MAX) continue;
            w->place[to].level = w->place[at].level + 1;
            w->place[to].before = at;
            w->stack[tail++] = to;
        }
    }
}

static bool get_ready(lone *w) {
    if (w->ready) return true;
    if (w->peers < 2 || w->place[w->at_home].peer != w->home) return false;
    lone_find_ends(w);
    load_relays(w);
    find_levels(w);
    w->halves = 1 + 2 * w->peers;
    for (uint32_t h = 0; h < w->halves; h++) w->half[h].below = 0;
    w->ready = true;
    return true;
}

// --- Walks -------------------------------------------------------------------------------------------------------------

// Of a half: `cost` of the cheapest walk that ends there, the half `above` from which it comes, over `link`; `below`: it is on a cycle that was found;
// `depth`: in which search for a circle it was seen last.
static bool relax(lone *w, uint32_t from, uint32_t to, uint32_t link, int64_t cost) {
    lone_half *f = &w->half[from], *t = &w->half[to];
    if (f->below != 0 || t->below != 0 || f->cost + cost >= t->cost) return false;
    t->cost = f->cost + cost;
    t->above = from;
    t->link = link;
    return true;
}

// A link from a peer to itself is of no use to anybody.
static bool relax_all(lone *w, int64_t slack) {
    bool cheaper = false;
    for (uint32_t i = 0; i < w->links; i++) {
        const lone_link *l = &w->link[i];
        bool through = l->from == half_in(place_of(l->from)), back = !through && place_of(l->from) == place_of(l->to);
        if (l->room == 0 || back) continue;
        int64_t toll = through ? 0 : slack;
        if (l->units < l->room) cheaper |= relax(w, l->from, l->to, i, toll + l->cost);
        if (l->units > 0) cheaper |= relax(w, l->to, l->from, i, toll - l->cost);
    }
    if (w->sent < w->wanted) cheaper |= relax(w, half_in(w->at_home), half_out(w->at_home), w->links, -UNIT_MORE);
    return cheaper;
}

// A half on a circle of walks; 0: there is none.
static uint32_t find_circle(lone *w) {
    for (uint32_t h = 1; h < w->halves; h++) w->half[h].depth = 0;
    for (uint32_t h = 1; h < w->halves; h++) {
        uint32_t at = h;
        while (at != 0 && w->half[at].depth == 0) {
            w->half[at].depth = h;
            at = w->half[at].above;
        }
        if (at != 0 && w->half[at].depth == h) return at;
    }
    return 0;
}

static uint32_t length_of(const lone *w, uint32_t circle) {
    uint32_t length = 1;
    for (uint32_t h = w->half[circle].above; h != circle; h = w->half[h].above) length++;
    return length;
}

// --- The cycle ---------------------------------------------------------------------------------------------------------

static uint32_t room_over(const lone *w, uint32_t half) {
    const lone_half *h = &w->half[half];
    if (h->link == w->links) return 1;
    const lone_link *l = &w->link[h->link];
    return h->above == l->from ? l->room - (uint32_t)l->units : l->units;
}

static void carry_over(lone *w, uint32_t half, uint32_t units) {
    const lone_half *h = &w->half[half];
    if (h->link == w->links) {
        w->sent += units;
        return;
    }
    lone_link *l = &w->link[h->link];
    l->units = (uint16_t)(h->above == l->from ? l->units + units : l->units - units);
}

static void take_for_done(lone *w, uint32_t circle) {
    uint32_t units = UINT16_MAX, h = circle;
    do {
        uint32_t room = room_over(w, h);
        if (room < units) units = room;
    } while ((h = w->half[h].above) != circle);
    do {
        carry_over(w, h, units);
    } while ((h = w->half[h].above) != circle);
    do {
        uint32_t place = place_of(h);
        w->half[half_in(place)].below = w->half[half_out(place)].below = 1;
    } while ((h = w->half[h].above) != circle);
}

// Whose level is the lowest, and the half at which the cycle comes to that one.
static uint32_t find_first(const lone *w, uint32_t circle) {
    uint32_t first = 0, h = circle;
    do {
        bool comes = place_of(w->half[h].above) != place_of(h);
        if (comes && (first == 0 || w->place[place_of(h)].level < w->place[place_of(first)].level)) first = h;
    } while ((h = w->half[h].above) != circle);
    return first;
}

static router_half name_of(const lone *w, uint32_t half) {
    router_peer peer = w->place[place_of(half)].peer;
    return half == half_in(place_of(half)) ? router_in(peer) : router_out(peer);
}

static uint32_t write_cycle(const lone *w, uint32_t first, uint32_t length, router_half cycle[ROUTER_MAX_CYCLE]) {
    uint32_t h = first;
    for (uint32_t i = length + 1; i > 0; i--, h = w->half[h].above) cycle[i - 1] = name_of(w, h);
    return length + 1;
}

uint32_t lone_cycle(lone *w, int64_t slack, router_half cycle[ROUTER_MAX_CYCLE]) {
    if (!get_ready(w)) return 0;
    for (uint32_t h = 0; h < w->halves; h++) w->half[h].cost = w->half[h].above = 0;
    for (uint32_t round = 0; round < ROUNDS && relax_all(w, slack); round++) {
        uint32_t circle = find_circle(w), length = circle == 0 ? 0 : length_of(w, circle);
        if (length == 0 || length >= ROUTER_MAX_CYCLE) continue;
        uint32_t first = find_first(w, circle);
        uint32_t written = write_cycle(w, first, length, cycle);
        take_for_done(w, circle);
        return written;
    }
    return 0;
}

uint32_t lone_path(const lone *w, router_peer to, router_peer path[LONE_MAX_HOPS]) {
    uint32_t at = 0;
    while (at < w->peers && w->place[at].peer != to) at++;
    if (at == w->peers || w->place[at].level > LONE_MAX_HOPS || w->place[at].level == 0) return 0;
    uint32_t hops = w->place[at].level;
    for (uint32_t i = hops; i > 0; i--, at = w->place[at].before) path[i - 1] = w->place[at].peer;
    return hops;
}
