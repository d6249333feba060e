// Joint planning of several data peers: subgradient method, then large-neighbourhood search (multi_source.h).
// The map becomes a layered graph; a path is found by one pass over its levels. Costs above a capacity make
// overloads possible and expensive while the search runs.
#include "routing/plan/multi_source.h"

#include "base/err.h"
#include "base/rng.h"

#include <string.h>

enum {
    SUBGRADIENT_STEPS = 120,  // rounds over all units
    // of the mean link cost: surcharge for each unit above a capacity during these rounds
    OVERLOAD_PERCENT = 12,
    STEP_PERCENT = 6,     // first step of a multiplier, in percent of the mean link cost
    SHRINK_PERCENT = 70,  // percent of a step that remain when its multiplier changes direction
    MIN_REMOVED = 2,      // paths removed and replaced at a time
    MAX_REMOVED = 4,
    // magnitudes of the noise on multipliers: the mean link cost, halved so often
    NOISE_LEVELS = 4,
    MULTIPLIER_LEVELS = 4,  // fractions of the multipliers that are used: none to all, in quarters
    TEMPERATURE = 1,        // initial temperature in mean link costs
    // of the effort, with the bottleneck objective: one for the sum before, one for each bound that
    // is tried
    EFFORT_PARTS = 4,
    EFFORT_PER_UNIT_AND_LINK = 2000,  // links examined
};

// cost of a unit above a capacity: more than all paths together
#define OVERLOADED ((int64_t)1 << 45)
#define BARRED     ((int64_t)1 << 60)
#define NOWHERE    INT64_MAX
_Static_assert((int64_t)MULTI_SOURCE_MAX_UNITS *MULTI_SOURCE_MAX_HOPS *ROUTER_MAX_COST < OVERLOADED, "all ways");
_Static_assert((int64_t)2 * MULTI_SOURCE_MAX_HOPS < BARRED / OVERLOADED, "a way where all is overloaded");

typedef struct multi_source_link {
    int64_t cost;
    router_peer peer;       // the other end, as the caller named it
    uint16_t from, to;      // places in multi_source.peer
    uint16_t units, limit;  // units on the link, and most units allowed
} multi_source_link;

typedef struct multi_source_node {
    router_peer peer;
    uint16_t capacity, load, level, first, links;
    uint32_t incarnation;
    int8_t source;  // number of the data peer; -1: a relay
    bool home;      // some link leads to this data peer
} multi_source_node;

// The path of one unit, as links from its data peer back to it.
typedef struct multi_source_path_state {
    uint8_t source, hops;
    uint16_t hop[MULTI_SOURCE_MAX_HOPS];
} multi_source_path_state;

typedef struct multi_source_active {
    uint8_t hops;
    router_peer home, peer[MULTI_SOURCE_MAX_HOPS];
    uint64_t incarnations;  // hash over its peers
} multi_source_active;

struct multi_source {
    bool minimise_bottleneck;
    // The map.
    uint32_t peers, links, sources, ordered, wanted;
    uint32_t useful;  // links that a unit can use
    multi_source_node peer[MULTI_SOURCE_MAX_PEERS];
    multi_source_link link[MULTI_SOURCE_MAX_LINKS];
    uint16_t order[MULTI_SOURCE_MAX_PEERS];  // relays that units can reach, by level
    uint16_t source[ROUTER_MAX_SOURCES], sent[ROUTER_MAX_SOURCES];
    uint64_t hash;
    // The search.
    uint32_t units;
    multi_source_path_state path[MULTI_SOURCE_MAX_UNITS], best_path[MULTI_SOURCE_MAX_UNITS];
    int64_t cost, best_cost;  // total cost, with OVERLOADED for each unit above a capacity
    // of a link; surcharge for a unit above a capacity (0: OVERLOADED)
    int64_t mean, overload_price;
    // Lagrange multipliers of relays; with noise and surcharge
    int64_t multiplier[MULTI_SOURCE_MAX_PEERS], node_cost[MULTI_SOURCE_MAX_PEERS];
    int64_t distance[MULTI_SOURCE_MAX_PEERS];    // distance from the data peer
    uint16_t last_link[MULTI_SOURCE_MAX_PEERS];  // last link on the cheapest path to that peer
    rng random;
    int64_t budget, effort;  // links that may be examined: in all, left
    // The active paths.
    uint32_t active_count;
    multi_source_active active[MULTI_SOURCE_MAX_UNITS];
};

uint32_t multi_source_bytes(void) { return sizeof(multi_source); }

multi_source *multi_source_init(void *memory, router_objective objective) {
    multi_source *w = memory;
    memset(w, 0, sizeof *w);
    w->minimise_bottleneck = objective == ROUTER_BOTTLENECK;
    return w;
}

// --- The map -------------------------------------------------------------------------------------

void multi_source_clear(multi_source *w) {
    w->peers = w->links = w->sources = w->ordered = w->wanted = w->useful = w->units = 0;
}

bool multi_source_add_peer(multi_source *w, router_peer peer, uint32_t capacity, uint32_t incarnation, bool is_source) {
    if (w->peers == MULTI_SOURCE_MAX_PEERS || (is_source && w->sources == ROUTER_MAX_SOURCES)) return false;
    uint32_t most = capacity > ROUTER_MAX_UNITS ? ROUTER_MAX_UNITS : capacity;
    multi_source_node *n = &w->peer[w->peers];
    *n = (multi_source_node){.peer = peer,
                             .capacity = (uint16_t)most,
                             .first = (uint16_t)w->links,
                             .incarnation = incarnation,
                             .source = -1};
    if (is_source) {
        n->source = (int8_t)w->sources;
        w->source[w->sources++] = (uint16_t)w->peers;
    }
    w->peers++;
    return true;
}

bool multi_source_add_link(multi_source *w, router_peer to, int64_t cost) {
    if (w->links == MULTI_SOURCE_MAX_LINKS || w->peers == 0 || cost < 0 || cost > ROUTER_MAX_COST) return false;
    uint16_t from = (uint16_t)(w->peers - 1);
    w->link[w->links++] =
        (multi_source_link){.cost = cost, .peer = to, .from = from, .to = MULTI_SOURCE_MAX_PEERS, .limit = UINT16_MAX};
    w->peer[from].links++;
    return true;
}

static uint32_t find_peer(const multi_source *w, router_peer peer) {
    uint32_t low = 0, high = w->peers;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->peer[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->peers && w->peer[low].peer == peer ? low : MULTI_SOURCE_MAX_PEERS;
}

static void resolve_links(multi_source *w) {
    for (uint32_t i = 0; i < w->links; i++) {
        multi_source_link *l = &w->link[i];
        l->to = (uint16_t)find_peer(w, l->peer);
        if (l->to < MULTI_SOURCE_MAX_PEERS && w->peer[l->from].source < 0) w->peer[l->to].home = true;
    }
}

// Keeps the links of a peer that lead to the next level or to a data peer. A peer seen first joins
// the end of `queue`.
static void keep_links(multi_source *w, multi_source_node *n, uint16_t *queue, uint32_t *tail) {
    uint16_t kept = 0;
    for (uint32_t i = 0; i < n->links; i++) {
        multi_source_link l = w->link[n->first + i];
        if (l.to == MULTI_SOURCE_MAX_PEERS) continue;
        multi_source_node *next = &w->peer[l.to];
        bool home = next->source >= 0 && n->source < 0;
        if (next->level == UINT16_MAX && next->capacity > 0 && n->level + 2 < MULTI_SOURCE_MAX_HOPS) {
            next->level = (uint16_t)(n->level + 1);
            queue[(*tail)++] = l.to;
        }
        if (home || next->level == n->level + 1) w->link[n->first + kept++] = l;
    }
    n->links = kept;
}

static void fold(uint64_t *hash, uint64_t value) { *hash = rng_seed(*hash, value); }

static void fold_peer(multi_source *w, const multi_source_node *n) {
    fold(&w->hash, (uint64_t)n->peer << 32 | (uint64_t)n->capacity << 16 | n->links);
    fold(&w->hash, n->incarnation);
    for (uint32_t i = n->first; i < (uint32_t)n->first + n->links; i++)
        fold(&w->hash, (uint64_t)w->link[i].peer << 32 | (uint64_t)w->link[i].cost);
}

static void keep_useful(multi_source *w, multi_source_node *n) {
    uint16_t kept = 0;
    for (uint32_t i = 0; i < n->links; i++) {
        multi_source_link l = w->link[n->first + i];
        if (w->peer[l.to].source >= 0 || w->peer[l.to].links > 0) w->link[n->first + kept++] = l;
    }
    n->links = kept;
    w->useful += kept;
}

// Removes links into dead ends, and peers left without links. The effort of a search is counted in
// the links left.
static void drop_dead_ends(multi_source *w) {
    uint32_t reached = w->ordered;
    for (uint32_t i = reached; i > 0; i--) keep_useful(w, &w->peer[w->order[i - 1]]);
    w->ordered = 0;
    for (uint32_t i = 0; i < reached; i++)
        if (w->peer[w->order[i]].links > 0) w->order[w->ordered++] = w->order[i];
    for (uint32_t k = 0; k < w->sources; k++)
        if (w->peer[w->source[k]].home) keep_useful(w, &w->peer[w->source[k]]);
}

// Levels count from the data peers. A data peer without incoming links has gone.
uint64_t multi_source_arrange(multi_source *w) {
    uint16_t queue[MULTI_SOURCE_MAX_PEERS];
    uint32_t head = 0, tail = 0;
    resolve_links(w);
    for (uint32_t i = 0; i < w->peers; i++) {
        multi_source_node *n = &w->peer[i];
        n->level = n->source >= 0 ? 0 : UINT16_MAX;
        if (n->source >= 0 && !n->home) n->capacity = 0;
        if (n->source >= 0 && n->home) queue[tail++] = (uint16_t)i;
        if (n->source >= 0) w->wanted += n->capacity;
    }
    w->hash = w->minimise_bottleneck;
    while (head < tail) {
        uint16_t at = queue[head++];
        multi_source_node *n = &w->peer[at];
        if (n->source < 0) w->order[w->ordered++] = at;
        keep_links(w, n, queue, &tail);
        fold_peer(w, n);
    }
    drop_dead_ends(w);
    return w->hash;
}

// Upper bound of the units that fit: the capacity of the narrowest level.
static uint32_t max_units(const multi_source *w) {
    uint32_t room[MULTI_SOURCE_MAX_HOPS] = {0}, most = w->wanted;
    for (uint32_t i = 0; i < w->ordered; i++) room[w->peer[w->order[i]].level] += w->peer[w->order[i]].capacity;
    for (uint32_t level = 1; level < MULTI_SOURCE_MAX_HOPS && room[level] > 0; level++)
        most = room[level] < most ? room[level] : most;
    return w->ordered > 0 ? most : 0;
}

// --- One path ------------------------------------------------------------------------------------

static int64_t overload(const multi_source *w, const multi_source_node *n) {
    if (n->source >= 0 || n->load < n->capacity) return 0;
    return w->overload_price == 0 ? OVERLOADED : w->overload_price * (n->load - n->capacity + 1);
}

// Cost of the next unit on the link.
static int64_t marginal_cost(const multi_source *w, const multi_source_link *l) {
    return l->cost + overload(w, &w->peer[l->to]) + (l->units >= l->limit ? OVERLOADED : 0);
}

static void relax(multi_source *w, const multi_source_node *n, int64_t far) {
    for (uint32_t i = n->first; i < (uint32_t)n->first + n->links; i++) {
        const multi_source_link *l = &w->link[i];
        int64_t cost = far + l->cost + w->node_cost[l->to] + (l->units >= l->limit ? OVERLOADED : 0);
        if (cost >= w->distance[l->to]) continue;
        w->distance[l->to] = cost;
        w->last_link[l->to] = (uint16_t)i;
    }
    w->effort -= n->links;
}

static void trace(const multi_source *w, uint32_t home, multi_source_path_state *out) {
    uint16_t back[MULTI_SOURCE_MAX_HOPS];
    uint32_t at = home;
    out->hops = 0;
    do {
        back[out->hops++] = w->last_link[at];
        at = w->link[w->last_link[at]].from;
    } while (at != home);
    for (uint32_t i = 0; i < out->hops; i++) out->hop[i] = back[out->hops - 1u - i];
}

// The cheapest path besides the present ones; NOWHERE: none.
static int64_t cheapest_path(multi_source *w, uint32_t source, multi_source_path_state *out) {
    uint32_t home = w->source[source];
    for (uint32_t k = 0; k < w->sources; k++) {
        w->distance[w->source[k]] = NOWHERE;
        w->node_cost[w->source[k]] = k == source ? 0 : BARRED;
    }
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        w->distance[at] = NOWHERE;
        w->node_cost[at] = w->multiplier[at] + overload(w, &w->peer[at]);
    }
    relax(w, &w->peer[home], 0);
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        if (w->distance[at] < NOWHERE) relax(w, &w->peer[at], w->distance[at]);
    }
    if (w->distance[home] >= BARRED) return NOWHERE;
    out->source = (uint8_t)source;
    trace(w, home, out);
    return w->distance[home];
}

static void put_path(multi_source *w, const multi_source_path_state *v) {
    for (uint32_t i = 0; i < v->hops; i++) {
        multi_source_link *l = &w->link[v->hop[i]];
        w->cost += marginal_cost(w, l);
        l->units++;
        w->peer[l->to].load++;
    }
    w->sent[v->source]++;
}

static void remove_path(multi_source *w, const multi_source_path_state *v) {
    for (uint32_t i = 0; i < v->hops; i++) {
        multi_source_link *l = &w->link[v->hop[i]];
        l->units--;
        w->peer[l->to].load--;
        w->cost -= marginal_cost(w, l);
    }
    w->sent[v->source]--;
}

// If demand exceeds capacity the unit may belong to any data peer with unmet demand. False: no
// path.
static bool place_unit(multi_source *w, multi_source_path_state *v) {
    int64_t best = NOWHERE;
    multi_source_path_state found;
    for (uint32_t k = 0; k < w->sources; k++) {
        if (w->wanted == w->units && k != v->source) continue;
        if (w->sent[k] >= w->peer[w->source[k]].capacity) continue;
        int64_t cost = cheapest_path(w, k, &found);
        if (cost >= best) continue;
        best = cost;
        *v = found;
        if (w->wanted == w->units) break;
    }
    if (best >= NOWHERE) return false;
    put_path(w, v);
    return true;
}

// --- The search ----------------------------------------------------------------------------------

static void put_all_paths(multi_source *w) {
    w->cost = 0;
    for (uint32_t i = 0; i < w->links; i++) w->link[i].units = 0;
    for (uint32_t i = 0; i < w->peers; i++) w->peer[i].load = 0;
    for (uint32_t k = 0; k < w->sources; k++) w->sent[k] = 0;
    for (uint32_t i = 0; i < w->units; i++) put_path(w, &w->path[i]);
}

// Data peers take turns.
static bool place_all_units(multi_source *w) {
    uint32_t units = w->units, k = 0;
    int64_t sum = 0, links = 0;
    w->units = 0;
    put_all_paths(w);
    w->units = units;
    for (uint32_t i = 0; i < units; i++) {
        while (w->sent[k % w->sources] >= w->peer[w->source[k % w->sources]].capacity) k++;
        w->path[i].source = (uint8_t)(k++ % w->sources);
        if (!place_unit(w, &w->path[i])) return false;
        for (uint32_t j = 0; j < w->path[i].hops; j++) sum += w->link[w->path[i].hop[j]].cost;
        links += w->path[i].hops;
    }
    w->mean = sum / links + 1;
    return true;
}

static void update_multipliers(multi_source *w, int64_t *step, int8_t *turned) {
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        const multi_source_node *n = &w->peer[at];
        int8_t sign = n->load > n->capacity ? 1 : n->load < n->capacity && w->multiplier[at] > 0 ? -1 : 0;
        if (sign == 0) continue;
        if (turned[at] == -sign) step[at] = step[at] * SHRINK_PERCENT / 100 + 1;
        turned[at] = sign;
        w->multiplier[at] += sign * step[at];
        if (w->multiplier[at] < 0) w->multiplier[at] = 0;
    }
}

// Subgradient method: units are placed one after the other on their cheapest paths. An overloaded
// relay raises its multiplier and one with room lowers it.
static void find_multipliers(multi_source *w) {
    int64_t step[MULTI_SOURCE_MAX_PEERS];
    int8_t turned[MULTI_SOURCE_MAX_PEERS] = {0};
    for (uint32_t i = 0; i < w->peers; i++) step[i] = w->mean * STEP_PERCENT / 100 + 1;
    w->overload_price = w->mean * OVERLOAD_PERCENT / 100 + 1;
    put_all_paths(w);
    for (uint32_t sweep = 0; sweep < SUBGRADIENT_STEPS && w->effort > w->budget / 2; sweep++) {
        for (uint32_t i = 0; i < w->units; i++) {
            multi_source_path_state *v = &w->path[rng_below(&w->random, w->units)];
            remove_path(w, v);
            place_unit(w, v);
        }
        update_multipliers(w, step, turned);
    }
    w->overload_price = 0;
    put_all_paths(w);
}

static void keep_best(multi_source *w) {
    memcpy(w->best_path, w->path, w->units * sizeof *w->path);
    w->best_cost = w->cost;
}

static uint32_t pick_paths(multi_source *w, uint32_t *picked) {
    uint32_t count = MIN_REMOVED + (uint32_t)rng_below(&w->random, MAX_REMOVED - MIN_REMOVED + 1), n = 0;
    while (n < count && n < w->units) {
        uint32_t one = (uint32_t)rng_below(&w->random, w->units), i = 0;
        while (i < n && picked[i] != one) i++;
        if (i == n) picked[n++] = one;
    }
    return n;
}

// Adds noise to a fraction of the multipliers, anew for each attempt.
static void perturb_multipliers(multi_source *w, const int64_t *multiplier) {
    int64_t part = (int64_t)rng_below(&w->random, MULTIPLIER_LEVELS + 2);
    uint64_t noise = (uint64_t)(w->mean >> rng_below(&w->random, NOISE_LEVELS)) + 1;
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        w->multiplier[at] = multiplier[at] * (part < MULTIPLIER_LEVELS ? part : MULTIPLIER_LEVELS) / MULTIPLIER_LEVELS;
        if (rng_below(&w->random, 2) == 0) w->multiplier[at] += (int64_t)rng_below(&w->random, noise);
    }
}

// Simulated annealing: accepts increases that become less likely with their size and with the
// effort spent.
static bool accepts(multi_source *w, int64_t before) {
    int64_t temperature = TEMPERATURE * w->mean * (w->effort >> 10) / ((w->budget >> 10) + 1);
    return w->cost <= before + (temperature > 0 ? (int64_t)rng_below(&w->random, (uint64_t)temperature + 1) : 0);
}

// Large-neighbourhood search: removes a few paths and places their units again one by one.
static void destroy_and_repair(multi_source *w, const int64_t *multiplier) {
    uint32_t picked[MAX_REMOVED], n = pick_paths(w, picked);
    multi_source_path_state old[MAX_REMOVED];
    int64_t before = w->cost;
    perturb_multipliers(w, multiplier);
    for (uint32_t i = 0; i < n; i++) {
        old[i] = w->path[picked[i]];
        remove_path(w, &old[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        bool placed = place_unit(w, &w->path[picked[i]]);
        BRAID_ASSERT(placed);  // its former path is free
    }
    if (accepts(w, before)) {
        if (w->cost < w->best_cost) keep_best(w);
        return;
    }
    for (uint32_t i = 0; i < n; i++) remove_path(w, &w->path[picked[i]]);
    for (uint32_t i = 0; i < n; i++) {
        w->path[picked[i]] = old[i];
        put_path(w, &old[i]);
    }
}

static void improve_paths(multi_source *w, const int64_t *multiplier, int64_t left) {
    keep_best(w);
    while (w->effort > left) destroy_and_repair(w, multiplier);
}

static void restore_best(multi_source *w) {
    memcpy(w->path, w->best_path, w->units * sizeof *w->path);
    put_all_paths(w);
}

static int64_t bottleneck_of(const multi_source *w) {
    int64_t most = 0;
    for (uint32_t i = 0; i < w->links; i++) {
        int64_t load = w->link[i].units * w->link[i].cost;
        if (load > most) most = load;
    }
    return most;
}

static void limit_loads(multi_source *w, int64_t most) {
    for (uint32_t i = 0; i < w->links; i++) {
        int64_t cost = w->link[i].cost, units = cost > 0 ? most / cost : UINT16_MAX;
        w->link[i].limit = (uint16_t)(units < UINT16_MAX ? units : UINT16_MAX);
    }
    put_all_paths(w);
}

// Bottleneck objective: forbids links as heavy as the heaviest, until no solution is found.
static void reduce_bottleneck(multi_source *w, const int64_t *multiplier) {
    for (;;) {
        int64_t most = bottleneck_of(w), left = w->effort - w->budget / EFFORT_PARTS;
        if (most == 0 || left < w->budget / EFFORT_PARTS) return;
        limit_loads(w, most - 1);
        w->best_cost = OVERLOADED;
        while (w->effort > left && w->best_cost >= OVERLOADED) destroy_and_repair(w, multiplier);
        bool found = w->best_cost < OVERLOADED;
        if (!found) limit_loads(w, most);
        restore_best(w);
        if (!found) return;
    }
}

static bool search_paths(multi_source *w) {
    int64_t multiplier[MULTI_SOURCE_MAX_PEERS];
    w->random.state = w->hash;
    w->budget = (int64_t)EFFORT_PER_UNIT_AND_LINK * w->units * w->useful;
    int64_t most = MULTI_SOURCE_EFFORT + (w->useful > MULTI_SOURCE_SMALL_MAP ? (int64_t)MULTI_SOURCE_EFFORT_PER_LINK *
                                                                                   (w->useful - MULTI_SOURCE_SMALL_MAP)
                                                                             : 0);
    if (w->budget > most) w->budget = most;
    w->effort = w->budget;
    memset(w->multiplier, 0, sizeof w->multiplier);
    if (!place_all_units(w)) return false;
    find_multipliers(w);
    memcpy(multiplier, w->multiplier, sizeof multiplier);
    improve_paths(w, multiplier, w->minimise_bottleneck ? w->budget / EFFORT_PARTS * (EFFORT_PARTS - 1) : 0);
    restore_best(w);
    if (w->cost >= OVERLOADED) return false;
    if (w->minimise_bottleneck) {
        reduce_bottleneck(w, multiplier);
        improve_paths(w, multiplier, 0);
        restore_best(w);
    }
    return true;
}

bool multi_source_search(multi_source *w) {
    w->units = max_units(w);
    bool found = w->units > 0 && w->units <= MULTI_SOURCE_MAX_UNITS && search_paths(w);
    if (!found) w->units = 0;
    return found;
}

// --- Results -------------------------------------------------------------------------------------

int64_t multi_source_value(const multi_source *w) { return w->minimise_bottleneck ? bottleneck_of(w) : w->cost; }

uint32_t multi_source_count(const multi_source *w) { return w->units; }

router_peer multi_source_home(const multi_source *w, uint32_t way) {
    return w->peer[w->source[w->path[way].source]].peer;
}

uint32_t multi_source_path(const multi_source *w, uint32_t way, router_peer path[MULTI_SOURCE_MAX_HOPS]) {
    uint32_t hops = w->path[way].hops;
    for (uint32_t i = 0; i < hops; i++) path[i] = w->peer[w->link[w->path[way].hop[i]].to].peer;
    return hops;
}

static uint64_t path_incarnations(const multi_source *w, const multi_source_path_state *v) {
    uint64_t incarnations = 0;
    for (uint32_t i = 0; i < v->hops; i++) fold(&incarnations, w->peer[w->link[v->hop[i]].from].incarnation);
    return incarnations;
}

void multi_source_activate(multi_source *w) {
    w->active_count = w->units;
    for (uint32_t i = 0; i < w->units; i++) {
        multi_source_active *p = &w->active[i];
        p->home = multi_source_home(w, i);
        p->hops = (uint8_t)multi_source_path(w, i, p->peer);
        p->incarnations = path_incarnations(w, &w->path[i]);
    }
}

// Replays an active path on the present map. False: a link of it is gone or altered, or its data
// peer wants fewer units.
static bool replay_path(multi_source *w, const multi_source_active *p) {
    uint32_t at = find_peer(w, p->home);
    if (at == MULTI_SOURCE_MAX_PEERS || w->peer[at].source < 0) return false;
    multi_source_path_state v = {.source = (uint8_t)w->peer[at].source, .hops = p->hops};
    if (w->sent[v.source] >= w->peer[at].capacity) return false;
    for (uint32_t i = 0; i < p->hops; i++) {
        const multi_source_node *n = &w->peer[at];
        uint32_t l = n->first;
        while (l < (uint32_t)n->first + n->links && w->link[l].peer != p->peer[i]) l++;
        if (l == (uint32_t)n->first + n->links) return false;
        v.hop[i] = (uint16_t)l;
        at = w->link[l].to;
    }
    put_path(w, &v);
    return path_incarnations(w, &v) == p->incarnations;
}

int64_t multi_source_active_value(multi_source *w) {
    uint32_t units = w->units;
    w->units = 0;
    put_all_paths(w);
    w->units = units;
    bool whole = w->active_count > 0 && w->active_count == max_units(w);
    for (uint32_t i = 0; whole && i < w->active_count; i++) whole = replay_path(w, &w->active[i]);
    int64_t value = whole && w->cost < OVERLOADED ? multi_source_value(w) : -1;
    put_all_paths(w);
    return value;
}
