// Negative cycles of a given flow by rounds of relaxation (Bellman and Ford): a cycle of
// predecessors is a negative cycle of the residual graph.
#include "routing/plan/single_source_internal.h"

enum {
    ROUNDS = 64,       // longer paths form no cycle that fits a commit
    EXTRA_ROUNDS = 8,  // after the first cycle: better ones may appear
};

#define UNIT_VALUE ((int64_t)1 << 40)  // gain of one more unit: above the cost of any cycle
_Static_assert((int64_t)ROUTER_MAX_CYCLE *ROUTER_MAX_COST < UNIT_VALUE, "a cycle of links");

// --- Contents ------------------------------------------------------------------------------------

// The load of a relay is the larger of inflow and outflow: it may be about to repair the
// difference.
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

// Hop counts from the data peer (breadth-first search).
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

static bool prepare(single_source *w) {
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

// --- Paths ---------------------------------------------------------------------------------------

// State of a node during a search. `potential`: cost of the cheapest path that ends there; `parent`
// and `arc`: where it comes from; `depth`: the last search for cycles that saw it; `first_child`: 1
// if its peer is on an earlier result.
static bool relax(single_source *w, uint32_t from, uint32_t to, uint32_t link, int64_t cost) {
    single_source_node *f = &w->node[from], *t = &w->node[to];
    if (f->first_child != 0 || t->first_child != 0 || f->potential + cost >= t->potential) return false;
    t->potential = f->potential + cost;
    t->parent = from;
    t->arc = link;
    return true;
}

// An arc from a peer to itself is ignored.
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
    if (w->sent < w->wanted) cheaper |= relax(w, node_in(w->at_home), node_out(w->at_home), w->links, -UNIT_VALUE);
    return cheaper;
}

static int64_t cycle_cost(const single_source *w, uint32_t on_cycle) {
    int64_t cost = 0;
    uint32_t h = on_cycle;
    do {
        uint32_t link = w->node[h].arc;
        if (link == w->links)
            cost -= UNIT_VALUE;
        else
            cost += w->node[h].parent == w->link[link].from ? w->link[link].cost : -w->link[link].cost;
    } while ((h = w->node[h].parent) != on_cycle);
    return cost;
}

static uint32_t cycle_length(const single_source *w, uint32_t on_cycle) {
    uint32_t length = 1;
    for (uint32_t h = w->node[on_cycle].parent; h != on_cycle; h = w->node[h].parent) length++;
    return length;
}

// Of the cycle's nodes that are entered from another peer, the one nearest to the data peer.
static uint32_t first_node(const single_source *w, uint32_t on_cycle) {
    uint32_t first = 0, h = on_cycle;
    do {
        bool comes = place_of(w->node[h].parent) != place_of(h);
        if (comes && (first == 0 || w->place[place_of(h)].level < w->place[place_of(first)].level)) first = h;
    } while ((h = w->node[h].parent) != on_cycle);
    return first;
}

typedef struct best_cycle {
    int64_t cost;
    uint32_t length, node[ROUTER_MAX_CYCLE];  // nodes in the order of a commit
} best_cycle;

static void keep_if_better(const single_source *w, uint32_t on_cycle, best_cycle *b) {
    int64_t cost = cycle_cost(w, on_cycle);
    uint32_t length = cycle_length(w, on_cycle);
    if (cost >= b->cost || length >= ROUTER_MAX_CYCLE) return;
    b->cost = cost;
    b->length = length;
    uint32_t h = first_node(w, on_cycle);
    for (uint32_t i = length; i > 0; i--) {
        b->node[i % length] = h;
        h = w->node[h].parent;
    }
}

// Cycles of predecessors are disjoint.
static void find_cycles(single_source *w, best_cycle *b) {
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

// --- Results -------------------------------------------------------------------------------------

static router_node router_node_of(const single_source *w, uint32_t node) {
    router_peer peer = w->place[place_of(node)].peer;
    return node == node_in(place_of(node)) ? router_in(peer) : router_out(peer);
}

static bool find_best(single_source *w, int64_t slack, best_cycle *b) {
    uint32_t further = 0;
    for (uint32_t h = 0; h < w->nodes; h++) w->node[h].potential = w->node[h].parent = 0;
    for (uint32_t round = 0; round < ROUNDS && further < EXTRA_ROUNDS && relax_all(w, slack); round++) {
        find_cycles(w, b);
        further += b->length > 0;
    }
    return b->length > 0;
}

uint32_t single_source_cycle(single_source *w, int64_t slack, router_node cycle[ROUTER_MAX_CYCLE]) {
    best_cycle b = {0};
    if (!prepare(w) || !find_best(w, slack, &b)) return 0;
    for (uint32_t i = 0; i <= b.length; i++) cycle[i] = router_node_of(w, b.node[i % b.length]);
    for (uint32_t i = 0; i < b.length; i++)
        w->node[node_in(place_of(b.node[i]))].first_child = w->node[node_out(place_of(b.node[i]))].first_child = 1;
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
