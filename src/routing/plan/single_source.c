// Network simplex with a strongly feasible spanning tree (Cunningham 1976).
//
// Each tree arc has reduced cost 0 under the node potentials. While an arc outside the tree has a
// negative reduced cost, units are pushed round the cycle that it closes. The arc that blocks the
// push leaves the tree. Strong feasibility (every node can push a unit to the root) prevents
// cycling. Entering arcs are chosen by block search: the best of one block of arcs at a time.
#include "routing/plan/single_source_internal.h"

#include "base/err.h"

#include <string.h>

enum { BLOCKS = 256 };  // parts of all arcs

static size_t align_to_eight(size_t bytes) { return (bytes + 7) / 8 * 8; }

static uint32_t nodes_of(uint32_t peers) { return 1 + 2 * peers; }

// With one arc through each relay, and one between each node and the root.
static uint32_t arcs_for(uint32_t peers, uint32_t links) { return links + peers + nodes_of(peers); }

size_t single_source_bytes(uint32_t peers, uint32_t links) {
    return align_to_eight(sizeof(single_source)) + align_to_eight(peers * sizeof(single_source_peer)) +
           align_to_eight(arcs_for(peers, links) * sizeof(single_source_arc)) +
           nodes_of(peers) * (sizeof(single_source_node) + sizeof(uint32_t));
}

single_source *single_source_init(void *memory, uint32_t peers, uint32_t links) {
    single_source *w = memory;
    memset(w, 0, sizeof *w);
    w->max_peers = peers;
    w->max_links = links + peers;
    w->place = (single_source_peer *)(void *)((char *)memory + align_to_eight(sizeof *w));
    w->link = (single_source_arc *)(void *)((char *)w->place + align_to_eight(peers * sizeof *w->place));
    w->node =
        (single_source_node *)(void *)((char *)w->link + align_to_eight(arcs_for(peers, links) * sizeof *w->link));
    w->stack = (uint32_t *)(w->node + nodes_of(peers));
    return w;
}

// --- The map -------------------------------------------------------------------------------------

void single_source_clear(single_source *w, router_peer home, uint32_t units) {
    w->home = home;
    w->wanted = units < ROUTER_MAX_UNITS ? units : ROUTER_MAX_UNITS;
    w->left = w->peers = w->links = w->at_home = 0;
    w->resolved = false;
}

static bool add_link(single_source *w, uint32_t from, uint32_t to, uint32_t room, int64_t cost) {
    if (w->links == w->max_links) return false;
    w->link[w->links++] = (single_source_arc){
        .from = from, .to = to, .cost = (int32_t)cost, .room = (uint16_t)(room < w->wanted ? room : w->wanted)};
    return true;
}

bool single_source_add_peer(single_source *w, router_peer peer, uint32_t capacity) {
    if (w->peers == w->max_peers) return false;
    if (peer == w->home)
        w->at_home = w->peers;
    else if (!add_link(w, node_in(w->peers), node_out(w->peers), capacity, 0))
        return false;
    w->place[w->peers++] = (single_source_peer){.peer = peer, .first = w->links};
    return true;
}

bool single_source_add_link(single_source *w, router_peer to, int64_t cost) {
    if (w->peers == 0 || cost < 0 || cost > ROUTER_MAX_COST ||
        !add_link(w, node_out(w->peers - 1), to, w->wanted, cost))
        return false;
    w->place[w->peers - 1].links++;
    return true;
}

void single_source_set_load(single_source *w, uint32_t units) {
    w->link[w->links - 1].units = (uint16_t)(units < ROUTER_MAX_UNITS ? units : ROUTER_MAX_UNITS);
}

// Place of the peer; the number of peers: unknown.
static uint32_t find_peer(const single_source *w, router_peer peer) {
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

// An arc to an unknown peer gets no capacity.
void single_source_resolve(single_source *w) {
    for (uint32_t i = 0; i < w->peers; i++) {
        for (uint32_t l = w->place[i].first; l < w->place[i].first + w->place[i].links; l++) {
            uint32_t to = find_peer(w, w->link[l].to);
            w->link[l].to = node_in(to < w->peers ? to : i);
            if (to == w->peers) w->link[l].room = 0;
        }
    }
}

// --- The tree ------------------------------------------------------------------------------------

// Artificial arcs are expensive, except the one at the data peer's out node. Units without a path
// thus flow over the root.
static int64_t arc_cost(const single_source *w, uint32_t link) {
    if (link < w->links) return w->link[link].cost;
    return link == w->links + node_out(w->at_home) ? 0 : w->infinity;
}

static void attach(single_source *w, uint32_t node, uint32_t above, uint32_t link, bool up) {
    single_source_node *h = &w->node[node], *a = &w->node[above];
    h->parent = above;
    h->arc = link;
    h->to_parent = up;
    h->previous_sibling = 0;
    h->next_sibling = a->first_child;
    if (a->first_child != 0) w->node[a->first_child].previous_sibling = node;
    a->first_child = node;
}

static void detach(single_source *w, uint32_t node) {
    const single_source_node *h = &w->node[node];
    if (h->previous_sibling != 0)
        w->node[h->previous_sibling].next_sibling = h->next_sibling;
    else
        w->node[h->parent].first_child = h->next_sibling;
    if (h->next_sibling != 0) w->node[h->next_sibling].previous_sibling = h->previous_sibling;
}

// Derives depth and potential from the parent.
static void update_node(single_source *w, uint32_t node) {
    single_source_node *h = &w->node[node];
    const single_source_node *a = &w->node[h->parent];
    h->depth = a->depth + 1;
    h->potential = h->to_parent ? a->potential - arc_cost(w, h->arc) : a->potential + arc_cost(w, h->arc);
}

// Initial tree: every node is a child of the root and no unit has a path.
static void build_tree(single_source *w) {
    int64_t most = 0;
    for (uint32_t l = 0; l < w->links; l++) {
        w->link[l].units = 0;
        if (w->link[l].cost > most) most = w->link[l].cost;
    }
    w->nodes = nodes_of(w->peers);
    w->infinity = most * w->nodes + 1;
    w->next_arc = 0;
    w->node[0] = (single_source_node){0};
    for (uint32_t h = 1; h < w->nodes; h++) {
        bool up = h != node_in(w->at_home), has = h == node_in(w->at_home) || h == node_out(w->at_home);
        w->link[w->links + h] = (single_source_arc){
            .from = up ? h : 0, .to = up ? 0 : h, .room = UINT16_MAX, .units = (uint16_t)(has ? w->wanted : 0)};
        w->node[h] = (single_source_node){0};
        attach(w, h, 0, w->links + h, up);
        update_node(w, h);
    }
}

static void update_subtree(single_source *w, uint32_t node) {
    uint32_t count = 0;
    w->stack[count++] = node;
    while (count > 0) {
        uint32_t h = w->stack[--count];
        update_node(w, h);
        for (uint32_t b = w->node[h].first_child; b != 0; b = w->node[b].next_sibling) w->stack[count++] = b;
    }
}

// Moves the subtree of `last`, which contains `node`, to the other end of `link`: the parents
// between `node` and `last` are reversed.
static void reroot(single_source *w, uint32_t node, uint32_t last, uint32_t link) {
    bool up = w->link[link].from == node;
    uint32_t above = up ? w->link[link].to : w->link[link].from, with = link;
    for (uint32_t h = node;;) {
        uint32_t next = w->node[h].parent, next_with = w->node[h].arc;
        bool next_up = !w->node[h].to_parent;
        detach(w, h);
        attach(w, h, above, with, up);
        if (h == last) break;
        above = h;
        with = next_with;
        up = next_up;
        h = next;
    }
    update_subtree(w, node);
}

// --- The search ----------------------------------------------------------------------------------

// Gain of one more unit on the arc, or of one less if it is full; 0: none.
static int64_t reduced_gain(const single_source *w, const single_source_arc *l) {
    int64_t dearer = l->cost + w->node[l->from].potential - w->node[l->to].potential;
    if (l->room == 0 || dearer == 0) return 0;
    if (dearer < 0) return l->units < l->room ? -dearer : 0;
    return l->units > 0 ? dearer : 0;
}

// The arc with the largest gain in the next block that has one; w->links: the flow is optimal.
static uint32_t find_entering_arc(single_source *w) {
    uint32_t best = w->links, in_block = w->links / BLOCKS + 1;
    int64_t most = 0;
    for (uint32_t n = 0; n < w->links; n++) {
        uint32_t l = w->next_arc;
        int64_t gain = reduced_gain(w, &w->link[l]);
        w->next_arc = l + 1 < w->links ? l + 1 : 0;
        if (gain > most) {
            most = gain;
            best = l;
        }
        if (n % in_block == in_block - 1 && most > 0) return best;
    }
    return best;
}

static uint32_t common_ancestor(const single_source *w, uint32_t a, uint32_t b) {
    while (a != b) {
        if (w->node[a].depth >= w->node[b].depth)
            a = w->node[a].parent;
        else
            b = w->node[b].parent;
    }
    return a;
}

// Residual capacity between a node and its parent: upwards or downwards.
static uint32_t residual_on(const single_source *w, uint32_t node, bool up) {
    const single_source_arc *l = &w->link[w->node[node].arc];
    return w->node[node].to_parent == up ? l->room - (uint32_t)l->units : l->units;
}

static void push_on(single_source *w, uint32_t node, bool up, uint32_t units) {
    single_source_arc *l = &w->link[w->node[node].arc];
    l->units = (uint16_t)(w->node[node].to_parent == up ? l->units + units : l->units - units);
}

// BRAID_CHECKED: the tree is strongly feasible.
static void check_tree(const single_source *w) {
#ifdef BRAID_CHECKED
    for (uint32_t h = 1; h < w->nodes; h++) BRAID_ASSERT(residual_on(w, h, true) > 0);
#endif
    (void)w;
}

// Pushes units over the arc or back from `first` to `second`, up the tree to the common ancestor,
// and down to `first`. Of the blocking arcs the last one on the cycle, seen from the common
// ancestor, leaves the tree (Cunningham's rule).
static void pivot(single_source *w, uint32_t link) {
    single_source_arc *l = &w->link[link];
    bool more = l->cost + w->node[l->from].potential < w->node[l->to].potential;
    uint32_t first = more ? l->from : l->to, second = more ? l->to : l->from, apex = common_ancestor(w, first, second);
    uint32_t units = more ? l->room - (uint32_t)l->units : l->units, leaving = 0, subtree_end = 0;
    for (uint32_t h = first; h != apex; h = w->node[h].parent) {
        uint32_t room = residual_on(w, h, false);
        if (room >= units) continue;
        units = room;
        leaving = h;
        subtree_end = first;
    }
    for (uint32_t h = second; h != apex; h = w->node[h].parent) {
        uint32_t room = residual_on(w, h, true);
        if (room > units) continue;
        units = room;
        leaving = h;
        subtree_end = second;
    }
    l->units = (uint16_t)(more ? l->units + units : l->units - units);
    for (uint32_t h = first; h != apex; h = w->node[h].parent) push_on(w, h, false, units);
    for (uint32_t h = second; h != apex; h = w->node[h].parent) push_on(w, h, true, units);
    if (leaving != 0) reroot(w, subtree_end, leaving, link);
    check_tree(w);
}

uint32_t single_source_solve(single_source *w) {
    w->left = 0;
    if (w->peers < 2 || w->place[w->at_home].peer != w->home) return 0;
    single_source_resolve(w);
    build_tree(w);
    for (uint32_t l; (l = find_entering_arc(w)) < w->links;) pivot(w, l);
    return w->left = w->wanted - w->link[w->links + node_in(w->at_home)].units;
}

int64_t single_source_cost(const single_source *w) {
    int64_t cost = 0;
    for (uint32_t l = 0; l < w->links; l++) cost += (int64_t)w->link[l].units * w->link[l].cost;
    return cost;
}

// --- Paths of single units -----------------------------------------------------------------------

// The first arc of the peer that carries units.
static single_source_arc *link_with_units(const single_source *w, uint32_t place) {
    single_source_arc *l = &w->link[w->place[place].first];
    while (l->units == 0) l++;
    return l;
}

// Takes a unit off the arcs of its path; 0: the path is too long.
static uint32_t take_path(single_source *w, router_peer path[SINGLE_SOURCE_MAX_HOPS]) {
    uint32_t hops = 0, at = w->at_home;
    do {
        single_source_arc *l = link_with_units(w, at);
        l->units--;
        at = place_of(l->to);
        if (hops < SINGLE_SOURCE_MAX_HOPS) path[hops] = w->place[at].peer;
        hops++;
    } while (at != w->at_home);
    return hops <= SINGLE_SOURCE_MAX_HOPS ? hops : 0;
}

uint32_t single_source_next(single_source *w, router_peer path[SINGLE_SOURCE_MAX_HOPS]) {
    uint32_t hops = 0;
    while (hops == 0 && w->left > 0) {
        w->left--;
        hops = take_path(w, path);
    }
    return hops;
}
