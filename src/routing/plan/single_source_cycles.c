// Cycles that save something in a flow that is known as a whole: walks that become cheaper from round to round (Bellman and Ford), until they
// lead in a circle.
#include "routing/plan/single_source_internal.h"

enum {
    ROUNDS = 64,  // walks of more links make no cycle that a token could go
    FURTHER = 8,  // once there is a cycle: others that save more may show
};

#define UNIT_MORE ((int64_t)1 << 40)  // what it is worth: more than any cycle of links
_Static_assert((int64_t)ROUTER_MAX_CYCLE *ROUTER_MAX_COST < UNIT_MORE, "a cycle of links");

// --- What is known -----------------------------------------------------------------------------------------------------

// What goes through a relay is what comes in or goes out, whichever is more: it may be about to mend a difference.
static void load_relays(single_source *w) {
    for (uint32_t h = 0; h < 1 + 2 * w->peers; h++) w->node[h] = (single_source_node){0};
    for (uint32_t i = 0; i < w->peers; i++) {
        for (uint32_t l = w->place[i].first; l < w->place[i].first + w->place[i].links; l++) {
            w->node[node_out(i)].potential += w->link[l].units;
            w->node[w->link[l].to].potential += w->link[l].units;
        }
    }
    w->sent = (uint32_t)w->node[node_out(w->at_home)].potential;
    for (uint32_t i = 0; i < w->peers; i++) {
        if (i == w->at_home) continue;
        single_source_arc *through = &w->link[w->place[i].first - 1];
        int64_t in = w->node[node_in(i)].potential, out = w->node[node_out(i)].potential, most = in > out ? in : out;
        through->units = (uint16_t)(most < through->room ? most : through->room);
    }
}

// How far each is from home.
static void find_levels(single_source *w) {
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

static bool get_ready(single_source *w) {
    if (w->resolved) return true;
    if (w->peers < 2 || w->place[w->at_home].peer != w->home) return false;
    single_source_resolve(w);
    load_relays(w);
    find_levels(w);
    w->nodes = 1 + 2 * w->peers;
    for (uint32_t h = 0; h < w->nodes; h++) w->node[h].first_child = 0;
    w->resolved = true;
    return true;
}

// --- Walks -------------------------------------------------------------------------------------------------------------

// Of a half: `cost` of the cheapest walk that ends there, the half `above` from which it comes, over `link`; `depth`: in which search for a circle it
// was seen last; `below`: its peer is on a cycle that was found.
static bool relax(single_source *w, uint32_t from, uint32_t to, uint32_t link, int64_t cost) {
    single_source_node *f = &w->node[from], *t = &w->node[to];
    if (f->first_child != 0 || t->first_child != 0 || f->potential + cost >= t->potential) return false;
    t->potential = f->potential + cost;
    t->parent = from;
    t->arc = link;
    return true;
}

// A link from a peer to itself is of no use to anybody.
static bool relax_all(single_source *w, int64_t slack) {
    bool cheaper = false;
    for (uint32_t i = 0; i < w->links; i++) {
        const single_source_arc *l = &w->link[i];
        bool through = l->from == node_in(place_of(l->from)), back = !through && place_of(l->from) == place_of(l->to);
        if (l->room == 0 || back) continue;
        int64_t toll = through ? 0 : slack;
        if (l->units < l->room) cheaper |= relax(w, l->from, l->to, i, toll + l->cost);
        if (l->units > 0) cheaper |= relax(w, l->to, l->from, i, toll - l->cost);
    }
    if (w->sent < w->wanted) cheaper |= relax(w, node_in(w->at_home), node_out(w->at_home), w->links, -UNIT_MORE);
    return cheaper;
}

static int64_t cost_of(const single_source *w, uint32_t circle) {
    int64_t cost = 0;
    uint32_t h = circle;
    do {
        uint32_t link = w->node[h].arc;
        if (link == w->links)
            cost -= UNIT_MORE;
        else
            cost += w->node[h].parent == w->link[link].from ? w->link[link].cost : -w->link[link].cost;
    } while ((h = w->node[h].parent) != circle);
    return cost;
}

static uint32_t length_of(const single_source *w, uint32_t circle) {
    uint32_t length = 1;
    for (uint32_t h = w->node[circle].parent; h != circle; h = w->node[h].parent) length++;
    return length;
}

// Of who is nearest to home the half to which the circle comes from somebody else.
static uint32_t find_first(const single_source *w, uint32_t circle) {
    uint32_t first = 0, h = circle;
    do {
        bool comes = place_of(w->node[h].parent) != place_of(h);
        if (comes && (first == 0 || w->place[place_of(h)].level < w->place[place_of(first)].level)) first = h;
    } while ((h = w->node[h].parent) != circle);
    return first;
}

typedef struct best {
    int64_t cost;
    uint32_t length, node[ROUTER_MAX_CYCLE];  // in the order in which a token comes to them
} best;

static void keep_if_better(const single_source *w, uint32_t circle, best *b) {
    int64_t cost = cost_of(w, circle);
    uint32_t length = length_of(w, circle);
    if (cost >= b->cost || length >= ROUTER_MAX_CYCLE) return;
    b->cost = cost;
    b->length = length;
    uint32_t h = find_first(w, circle);
    for (uint32_t i = length; i > 0; i--) {
        b->node[i % length] = h;
        h = w->node[h].parent;
    }
}

// Circles of walks do not share halves.
static void find_circles(single_source *w, best *b) {
    for (uint32_t h = 1; h < w->nodes; h++) w->node[h].depth = 0;
    for (uint32_t h = 1; h < w->nodes; h++) {
        uint32_t at = h;
        while (at != 0 && w->node[at].depth == 0) {
            w->node[at].depth = h;
            at = w->node[at].parent;
        }
        if (at != 0 && w->node[at].depth == h) keep_if_better(w, at, b);
    }
}

// --- The cycle ---------------------------------------------------------------------------------------------------------

static router_half name_of(const single_source *w, uint32_t half) {
    router_peer peer = w->place[place_of(half)].peer;
    return half == node_in(place_of(half)) ? router_in(peer) : router_out(peer);
}

static bool find_best(single_source *w, int64_t slack, best *b) {
    uint32_t further = 0;
    for (uint32_t h = 0; h < w->nodes; h++) w->node[h].potential = w->node[h].parent = 0;
    for (uint32_t round = 0; round < ROUNDS && further < FURTHER && relax_all(w, slack); round++) {
        find_circles(w, b);
        further += b->length > 0;
    }
    return b->length > 0;
}

uint32_t single_source_cycle(single_source *w, int64_t slack, router_half cycle[ROUTER_MAX_CYCLE]) {
    best b = {0};
    if (!get_ready(w) || !find_best(w, slack, &b)) return 0;
    for (uint32_t i = 0; i <= b.length; i++) cycle[i] = name_of(w, b.node[i % b.length]);
    for (uint32_t i = 0; i < b.length; i++) w->node[node_in(place_of(b.node[i]))].first_child = w->node[node_out(place_of(b.node[i]))].first_child = 1;
    return b.length + 1;
}

uint32_t single_source_path(const single_source *w, router_peer to, router_peer path[SINGLE_SOURCE_MAX_HOPS]) {
    uint32_t at = 0;
    while (at < w->peers && w->place[at].peer != to) at++;
    if (at == w->peers || w->place[at].level > SINGLE_SOURCE_MAX_HOPS || w->place[at].level == 0) return 0;
    uint32_t hops = w->place[at].level;
    for (uint32_t i = hops; i > 0; i--, at = w->place[at].before) path[i - 1] = w->place[at].peer;
    return hops;
}
