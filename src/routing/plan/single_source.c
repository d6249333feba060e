// A network simplex: ways are held together by a tree in which each peer knows what it costs to come to it, and as long as a link that is
// not in the tree would be cheaper, units go round the cycle that it closes, and the link that is full or empty then leaves the tree.
// The tree is kept strongly feasible (Cunningham 1976): from each node units could go up it to the root, so it never goes in circles.
#include "routing/plan/single_source_internal.h"

#include "base/err.h"

#include <string.h>

enum { BLOCKS = 256 };  // parts of all links; in one at a time the cheapest is looked for

static size_t in_eights(size_t bytes) { return (bytes + 7) / 8 * 8; }

static uint32_t halves_of(uint32_t peers) { return 1 + 2 * peers; }

// Also one through each relay, and one between each half and the root.
static uint32_t links_for(uint32_t peers, uint32_t links) { return links + peers + halves_of(peers); }

size_t lone_bytes(uint32_t peers, uint32_t links) {
    return in_eights(sizeof(lone)) + in_eights(peers * sizeof(lone_place)) + in_eights(links_for(peers, links) * sizeof(lone_link)) +
           halves_of(peers) * (sizeof(lone_half) + sizeof(uint32_t));
}

lone *lone_init(void *memory, uint32_t peers, uint32_t links) {
    lone *w = memory;
    memset(w, 0, sizeof *w);
    w->max_peers = peers;
    w->max_links = links + peers;
    w->place = (lone_place *)(void *)((char *)memory + in_eights(sizeof *w));
    w->link = (lone_link *)(void *)((char *)w->place + in_eights(peers * sizeof *w->place));
    w->half = (lone_half *)(void *)((char *)w->link + in_eights(links_for(peers, links) * sizeof *w->link));
    w->stack = (uint32_t *)(w->half + halves_of(peers));
    return w;
}

// --- The map -----------------------------------------------------------------------------------------------------------

void lone_clear(lone *w, router_peer home, uint32_t units) {
    w->home = home;
    w->wanted = units < ROUTER_MAX_UNITS ? units : ROUTER_MAX_UNITS;
    w->left = w->peers = w->links = w->at_home = 0;
    w->ready = false;
}

static bool add_link(lone *w, uint32_t from, uint32_t to, uint32_t room, int64_t cost) {
    if (w->links == w->max_links) return false;
    w->link[w->links++] = (lone_link){.from = from, .to = to, .cost = (int32_t)cost, .room = (uint16_t)(room < w->wanted ? room : w->wanted)};
    return true;
}

bool lone_peer(lone *w, router_peer peer, uint32_t capacity) {
    if (w->peers == w->max_peers) return false;
    if (peer == w->home)
        w->at_home = w->peers;
    else if (!add_link(w, half_in(w->peers), half_out(w->peers), capacity, 0))
        return false;
    w->place[w->peers++] = (lone_place){.peer = peer, .first = w->links};
    return true;
}

bool lone_link_to(lone *w, router_peer to, int64_t cost) {
    if (w->peers == 0 || cost < 0 || cost > ROUTER_MAX_COST || !add_link(w, half_out(w->peers - 1), to, w->wanted, cost)) return false;
    w->place[w->peers - 1].links++;
    return true;
}

void lone_carries(lone *w, uint32_t units) { w->link[w->links - 1].units = (uint16_t)(units < ROUTER_MAX_UNITS ? units : ROUTER_MAX_UNITS); }

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

// A link to nobody has no room.
void lone_find_ends(lone *w) {
    for (uint32_t i = 0; i < w->peers; i++) {
        for (uint32_t l = w->place[i].first; l < w->place[i].first + w->place[i].links; l++) {
            uint32_t to = find(w, w->link[l].to);
            w->link[l].to = half_in(to < w->peers ? to : i);
            if (to == w->peers) w->link[l].room = 0;
        }
    }
}

// --- The tree ----------------------------------------------------------------------------------------------------------

// Links between a half and the root are dear, but for the one from where units begin: so those that have no way go over the root.
static int64_t cost_of(const lone *w, uint32_t link) {
    if (link < w->links) return w->link[link].cost;
    return link == w->links + half_out(w->at_home) ? 0 : w->dear;
}

static void hang(lone *w, uint32_t half, uint32_t above, uint32_t link, bool up) {
    lone_half *h = &w->half[half], *a = &w->half[above];
    h->above = above;
    h->link = link;
    h->up = up;
    h->last = 0;
    h->next = a->below;
    if (a->below != 0) w->half[a->below].last = half;
    a->below = half;
}

static void unhang(lone *w, uint32_t half) {
    const lone_half *h = &w->half[half];
    if (h->last != 0)
        w->half[h->last].next = h->next;
    else
        w->half[h->above].below = h->next;
    if (h->next != 0) w->half[h->next].last = h->last;
}

// What follows from the one above.
static void place_half(lone *w, uint32_t half) {
    lone_half *h = &w->half[half];
    const lone_half *a = &w->half[h->above];
    h->depth = a->depth + 1;
    h->cost = h->up ? a->cost - cost_of(w, h->link) : a->cost + cost_of(w, h->link);
}

// All hang on the root, and no unit has a way.
static void begin(lone *w) {
    int64_t most = 0;
    for (uint32_t l = 0; l < w->links; l++) {
        w->link[l].units = 0;
        if (w->link[l].cost > most) most = w->link[l].cost;
    }
    w->halves = halves_of(w->peers);
    w->dear = most * w->halves + 1;
    w->looked_at = 0;
    w->half[0] = (lone_half){0};
    for (uint32_t h = 1; h < w->halves; h++) {
        bool up = h != half_in(w->at_home), has = h == half_in(w->at_home) || h == half_out(w->at_home);
        w->link[w->links + h] = (lone_link){.from = up ? h : 0, .to = up ? 0 : h, .room = UINT16_MAX, .units = (uint16_t)(has ? w->wanted : 0)};
        w->half[h] = (lone_half){0};
        hang(w, h, 0, w->links + h, up);
        place_half(w, h);
    }
}

static void place_all_below(lone *w, uint32_t half) {
    uint32_t count = 0;
    w->stack[count++] = half;
    while (count > 0) {
        uint32_t h = w->stack[--count];
        place_half(w, h);
        for (uint32_t b = w->half[h].below; b != 0; b = w->half[b].next) w->stack[count++] = b;
    }
}

// `last` and what is below it, `half` among it, leaves the one above it, and hangs with `half` on the other end of `link`.
static void rehang(lone *w, uint32_t half, uint32_t last, uint32_t link) {
    bool up = w->link[link].from == half;
    uint32_t above = up ? w->link[link].to : w->link[link].from, with = link;
    for (uint32_t h = half;;) {
        uint32_t next = w->half[h].above, next_with = w->half[h].link;
        bool next_up = !w->half[h].up;
        unhang(w, h);
        hang(w, h, above, with, up);
        if (h == last) break;
        above = h;
        with = next_with;
        up = next_up;
        h = next;
    }
    place_all_below(w, half);
}

// --- The search --------------------------------------------------------------------------------------------------------

// What a unit more on it gains, or one less if it is full; 0 or less: nothing.
static int64_t gain_of(const lone *w, const lone_link *l) {
    int64_t dearer = l->cost + w->half[l->from].cost - w->half[l->to].cost;
    if (l->room == 0 || dearer == 0) return 0;
    if (dearer < 0) return l->units < l->room ? -dearer : 0;
    return l->units > 0 ? dearer : 0;
}

// The link that gains most, among some hundreds; w->links: none gains anything.
static uint32_t find_gain(lone *w) {
    uint32_t best = w->links, in_block = w->links / BLOCKS + 1;
    int64_t most = 0;
    for (uint32_t n = 0; n < w->links; n++) {
        uint32_t l = w->looked_at;
        int64_t gain = gain_of(w, &w->link[l]);
        w->looked_at = l + 1 < w->links ? l + 1 : 0;
        if (gain > most) {
            most = gain;
            best = l;
        }
        if (n % in_block == in_block - 1 && most > 0) return best;
    }
    return best;
}

static uint32_t join_of(const lone *w, uint32_t a, uint32_t b) {
    while (a != b) {
        if (w->half[a].depth >= w->half[b].depth)
            a = w->half[a].above;
        else
            b = w->half[b].above;
    }
    return a;
}

// How many units more can go over the link to the one above: down it or up it.
static uint32_t room_on(const lone *w, uint32_t half, bool up) {
    const lone_link *l = &w->link[w->half[half].link];
    return w->half[half].up == up ? l->room - (uint32_t)l->units : l->units;
}

static void move_on(lone *w, uint32_t half, bool up, uint32_t units) {
    lone_link *l = &w->link[w->half[half].link];
    l->units = (uint16_t)(w->half[half].up == up ? l->units + units : l->units - units);
}

// BRAID_CHECKED: that is how the tree is kept.
static void check_tree(const lone *w) {
#ifdef BRAID_CHECKED
    for (uint32_t h = 1; h < w->halves; h++) BRAID_ASSERT(room_on(w, h, true) > 0);
#endif
    (void)w;
}

// Units go round: over the link, or back, from `first` to `second`, up the tree to where both meet, and down to `first`. Of the links
// that stop that the last one on the cycle, from where both meet on, leaves the tree.
static void go_round(lone *w, uint32_t link) {
    lone_link *l = &w->link[link];
    bool more = l->cost + w->half[l->from].cost < w->half[l->to].cost;
    uint32_t first = more ? l->from : l->to, second = more ? l->to : l->from, join = join_of(w, first, second);
    uint32_t units = more ? l->room - (uint32_t)l->units : l->units, leaves = 0, under = 0;
    for (uint32_t h = first; h != join; h = w->half[h].above) {
        uint32_t room = room_on(w, h, false);
        if (room >= units) continue;
        units = room;
        leaves = h;
        under = first;
    }
    for (uint32_t h = second; h != join; h = w->half[h].above) {
        uint32_t room = room_on(w, h, true);
        if (room > units) continue;
        units = room;
        leaves = h;
        under = second;
    }
    l->units = (uint16_t)(more ? l->units + units : l->units - units);
    for (uint32_t h = first; h != join; h = w->half[h].above) move_on(w, h, false, units);
    for (uint32_t h = second; h != join; h = w->half[h].above) move_on(w, h, true, units);
    if (leaves != 0) rehang(w, under, leaves, link);
    check_tree(w);
}

uint32_t lone_solve(lone *w) {
    w->left = 0;
    if (w->peers < 2 || w->place[w->at_home].peer != w->home) return 0;
    lone_find_ends(w);
    begin(w);
    for (uint32_t l; (l = find_gain(w)) < w->links;) go_round(w, l);
    return w->left = w->wanted - w->link[w->links + half_in(w->at_home)].units;
}

int64_t lone_cost(const lone *w) {
    int64_t cost = 0;
    for (uint32_t l = 0; l < w->links; l++) cost += (int64_t)w->link[l].units * w->link[l].cost;
    return cost;
}

// --- Ways --------------------------------------------------------------------------------------------------------------

// The first of its links with units.
static lone_link *link_with_units(const lone *w, uint32_t place) {
    lone_link *l = &w->link[w->place[place].first];
    while (l->units == 0) l++;
    return l;
}

// The unit is taken off its links; 0: its way is too long.
static uint32_t follow(lone *w, router_peer path[LONE_MAX_HOPS]) {
    uint32_t hops = 0, at = w->at_home;
    do {
        lone_link *l = link_with_units(w, at);
        l->units--;
        at = place_of(l->to);
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
