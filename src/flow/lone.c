#include "flow/lone.h"

#include "plan/min_cost.h"

#include <string.h>

// A peer's two halves: units come in at 2i and go out at 2i + 1, and the arc between them is what a relay can carry. Those of the data
// peer are not joined: its units end at the one and begin at the other.
typedef struct lone_place {
    router_peer peer;
    uint32_t first, arcs;  // of its links
} lone_place;

struct lone {
    uint32_t max_peers, max_arcs;
    router_peer home;
    uint32_t units, left;  // wanted; that have a way and have not been taken
    int64_t cost;
    plan_graph graph;
    uint32_t peers, at_home;  // the place of the data peer
    lone_place *place;        // [max_peers], by rising peers
    plan_arc *arc;            // [max_arcs]; until lone_solve `to` is a peer
    void *scratch;
};

static size_t in_eights(size_t bytes) { return (bytes + 7) / 8 * 8; }

static uint32_t arcs_for(uint32_t peers, uint32_t links) { return peers + links; }

size_t lone_bytes(uint32_t peers, uint32_t links) {
    uint32_t arcs = arcs_for(peers, links);
    return in_eights(sizeof(lone)) + in_eights(peers * sizeof(lone_place)) + arcs * sizeof(plan_arc) + plan_min_cost_bytes(2 * peers, arcs);
}

lone *lone_init(void *memory, uint32_t peers, uint32_t links) {
    lone *w = memory;
    memset(w, 0, sizeof *w);
    w->max_peers = peers;
    w->max_arcs = arcs_for(peers, links);
    w->place = (lone_place *)(void *)((char *)memory + in_eights(sizeof *w));
    w->arc = (plan_arc *)(void *)((char *)w->place + in_eights(peers * sizeof *w->place));
    w->scratch = w->arc + w->max_arcs;
    return w;
}

void lone_clear(lone *w, router_peer home, uint32_t units) {
    w->home = home;
    w->units = units;
    w->left = 0;
    w->cost = 0;
    w->peers = w->at_home = 0;
    w->graph = (plan_graph){.arc = w->arc};
}

static bool add_arc(lone *w, uint32_t from, uint32_t to, uint32_t capacity, int64_t cost) {
    if (w->graph.arcs == w->max_arcs) return false;
    w->arc[w->graph.arcs++] = (plan_arc){.from = from, .to = to, .capacity = capacity, .cost = cost};
    return true;
}

bool lone_peer(lone *w, router_peer peer, uint32_t capacity) {
    if (w->peers == w->max_peers) return false;
    uint32_t i = w->peers;
    if (peer == w->home)
        w->at_home = i;
    else if (!add_arc(w, 2 * i, 2 * i + 1, capacity, 0))
        return false;
    w->place[w->peers++] = (lone_place){peer, w->graph.arcs, 0};
    return true;
}

bool lone_link(lone *w, router_peer to, int64_t cost) {
    if (w->peers == 0 || cost < 0 || cost > ROUTER_MAX_COST || !add_arc(w, 2 * w->peers - 1, to, w->units, cost)) return false;
    w->place[w->peers - 1].arcs++;
    return true;
}

// Its place; the number of peers: it is not on the map.
static uint32_t find(const lone *w, router_peer peer) {
    uint32_t low = 0, high = w->peers;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->place[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->peers && w->place[low].peer == peer ? low : w->peers;
}

static void find_ends(lone *w) {
    for (uint32_t i = 0; i < w->peers; i++) {
        for (uint32_t a = w->place[i].first; a < w->place[i].first + w->place[i].arcs; a++) {
            uint32_t to = find(w, w->arc[a].to);
            w->arc[a].to = to < w->peers ? 2 * to : 0;
            if (to == w->peers) w->arc[a].capacity = 0;
        }
    }
}

uint32_t lone_solve(lone *w) {
    plan_answer answer;
    bool drawn = w->peers > 1 && w->place[w->at_home].peer == w->home;
    find_ends(w);
    w->graph.nodes = 2 * w->peers;
    w->graph.source = 2 * w->at_home + 1;
    w->graph.sink = 2 * w->at_home;
    if (!drawn || plan_min_cost(&w->graph, w->units, w->scratch, &answer, NULL)) return 0;
    w->cost = answer.cost;
    return w->left = (uint32_t)answer.units;
}

int64_t lone_cost(const lone *w) { return w->cost; }

// Over any link with units; the first of them.
static plan_arc *link_with_units(const lone *w, uint32_t place) {
    const lone_place *p = &w->place[place];
    for (uint32_t a = p->first; a < p->first + p->arcs; a++)
        if (w->arc[a].flow > 0) return &w->arc[a];
    return NULL;
}

// The unit is taken off its links; 0: its way is too long.
static uint32_t follow(lone *w, router_peer path[LONE_MAX_HOPS]) {
    uint32_t hops = 0, at = w->at_home;
    do {
        plan_arc *a = link_with_units(w, at);
        a->flow--;
        at = a->to / 2;
        if (hops < LONE_MAX_HOPS) path[hops] = w->place[at].peer;
        hops++;
    } while (at != w->at_home);
    return hops <= LONE_MAX_HOPS ? hops : 0;
}

uint32_t lone_next(lone *w, router_peer path[LONE_MAX_HOPS]) {
    uint32_t hops = 0;
    while (hops == 0 && w->left > 0) {
        w->left--;
        hops = follow(w, path);
    }
    return hops;
}
