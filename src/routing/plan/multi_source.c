#include "routing/plan/multi_source.h"

#include "base/err.h"
#include "base/rng.h"

#include <string.h>

enum {
    SWEEPS = 120,  // over all units, in which relays' prices are looked for
    PUSH = 12,     // per cent of a link's mean cost: what each unit too many costs beside the price meanwhile,
    STEP = 6,      // ... and a price's first step
    SHRINK = 70,   // per cent of a step that are left when the price turns round
    FEWEST = 2,    // ways that are taken off and put on again at a time
    MOST = 4,
    NOISES = 4,     // sizes of what is added to prices by chance: a link's mean cost, halved so often
    PRICED = 4,     // quarters of the prices count, none to all
    HEAT = 1,       // links' mean costs that a change for the worse may cost in the beginning
    PARTS = 4,      // of the effort, with the objective worst: one for the sum before, one for each load that is tried
    EFFORT = 2000,  // for each unit and link
};

#define OVERLOADED ((int64_t)1 << 45)  // of a unit too many: all ways together cost less
#define BARRED     ((int64_t)1 << 60)
#define NOWHERE    INT64_MAX
_Static_assert((int64_t)MULTI_SOURCE_MAX_UNITS *MULTI_SOURCE_MAX_HOPS *ROUTER_MAX_COST < OVERLOADED, "all ways");
_Static_assert((int64_t)2 * MULTI_SOURCE_MAX_HOPS < BARRED / OVERLOADED, "a way where all is overloaded");

typedef struct link {
    int64_t cost;
    router_peer peer;       // where to, as it was said
    uint16_t from, to;      // places in ways.peer
    uint16_t units, limit;  // on it; that may be
} link;

typedef struct node {
    router_peer peer;
    uint16_t capacity, load, level, first, links;
    uint32_t life;
    int8_t source;  // its number; -1: a relay
    bool home;      // some link leads there
} node;

// One unit: its links from its data peer home.
typedef struct course {
    uint8_t source, hops;
    uint16_t hop[MULTI_SOURCE_MAX_HOPS];
} course;

typedef struct past {
    uint8_t hops;
    router_peer home, peer[MULTI_SOURCE_MAX_HOPS];
    uint64_t lives;  // of all on it
} past;

struct multi_source {
    bool worst;
    // The map.
    uint32_t peers, links, sources, ordered, wanted;
    uint32_t useful;  // links that a unit may go
    node peer[MULTI_SOURCE_MAX_PEERS];
    link link[MULTI_SOURCE_MAX_LINKS];
    uint16_t order[MULTI_SOURCE_MAX_PEERS];  // relays that units may go over, by level
    uint16_t source[ROUTER_MAX_SOURCES], sent[ROUTER_MAX_SOURCES];
    uint64_t hash;
    // The search.
    uint32_t units;
    course way[MULTI_SOURCE_MAX_UNITS], best[MULTI_SOURCE_MAX_UNITS];
    int64_t cost, best_cost;  // with OVERLOADED for each unit too many
    int64_t mean, push;       // of a link; each unit too many costs so much only (0: OVERLOADED)
    int64_t price[MULTI_SOURCE_MAX_PEERS], now[MULTI_SOURCE_MAX_PEERS];  // of relays; with what chance adds and what is too much
    int64_t far[MULTI_SOURCE_MAX_PEERS];                         // from home
    uint16_t over[MULTI_SOURCE_MAX_PEERS];                       // ... by that link
    rng random;
    int64_t budget, effort;  // links that may be looked at, in all and still
    // What is in force.
    uint32_t in_force;
    past path[MULTI_SOURCE_MAX_UNITS];
};

uint32_t multi_source_bytes(void) { return sizeof(multi_source); }

multi_source *multi_source_init(void *memory, router_objective objective) {
    multi_source *w = memory;
    memset(w, 0, sizeof *w);
    w->worst = objective == ROUTER_WORST;
    return w;
}

// --- The map -----------------------------------------------------------------------------------------------------------

void multi_source_clear(multi_source *w) { w->peers = w->links = w->sources = w->ordered = w->wanted = w->useful = w->units = 0; }

bool multi_source_add_peer(multi_source *w, router_peer peer, uint32_t capacity, uint32_t life, bool is_source) {
    if (w->peers == MULTI_SOURCE_MAX_PEERS || (is_source && w->sources == ROUTER_MAX_SOURCES)) return false;
    uint32_t most = capacity > ROUTER_MAX_UNITS ? ROUTER_MAX_UNITS : capacity;
    node *n = &w->peer[w->peers];
    *n = (node){.peer = peer, .capacity = (uint16_t)most, .first = (uint16_t)w->links, .life = life, .source = -1};
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
    w->link[w->links++] = (link){.cost = cost, .peer = to, .from = from, .to = MULTI_SOURCE_MAX_PEERS, .limit = UINT16_MAX};
    w->peer[from].links++;
    return true;
}

static uint32_t find(const multi_source *w, router_peer peer) {
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

static void find_ends(multi_source *w) {
    for (uint32_t i = 0; i < w->links; i++) {
        link *l = &w->link[i];
        l->to = (uint16_t)find(w, l->peer);
        if (l->to < MULTI_SOURCE_MAX_PEERS && w->peer[l->from].source < 0) w->peer[l->to].home = true;
    }
}

// Keeps the links of a peer that lead to the next level, or home; who is seen first there joins the end of `queue`.
static void keep_links(multi_source *w, node *n, uint16_t *queue, uint32_t *tail) {
    uint16_t kept = 0;
    for (uint32_t i = 0; i < n->links; i++) {
        link l = w->link[n->first + i];
        if (l.to == MULTI_SOURCE_MAX_PEERS) continue;
        node *next = &w->peer[l.to];
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

static void fold_peer(multi_source *w, const node *n) {
    fold(&w->hash, (uint64_t)n->peer << 32 | (uint64_t)n->capacity << 16 | n->links);
    fold(&w->hash, n->life);
    for (uint32_t i = n->first; i < (uint32_t)n->first + n->links; i++)
        fold(&w->hash, (uint64_t)w->link[i].peer << 32 | (uint64_t)w->link[i].cost);
}

static void keep_useful(multi_source *w, node *n) {
    uint16_t kept = 0;
    for (uint32_t i = 0; i < n->links; i++) {
        link l = w->link[n->first + i];
        if (w->peer[l.to].source >= 0 || w->peer[l.to].links > 0) w->link[n->first + kept++] = l;
    }
    n->links = kept;
    w->useful += kept;
}

// From whom no link goes on has no room for anybody, nor has who leads to such only. What is left costs a search its effort, which is
// counted in links: of relays there are no more than those.
static void leave_out_dead_ends(multi_source *w) {
    uint32_t reached = w->ordered;
    for (uint32_t i = reached; i > 0; i--) keep_useful(w, &w->peer[w->order[i - 1]]);
    w->ordered = 0;
    for (uint32_t i = 0; i < reached; i++)
        if (w->peer[w->order[i]].links > 0) w->order[w->ordered++] = w->order[i];
    for (uint32_t k = 0; k < w->sources; k++)
        if (w->peer[w->source[k]].home) keep_useful(w, &w->peer[w->source[k]]);
}

// Levels count from the data peers on. A data peer to whom no link leads has gone.
uint64_t multi_source_arrange(multi_source *w) {
    uint16_t queue[MULTI_SOURCE_MAX_PEERS];
    uint32_t head = 0, tail = 0;
    find_ends(w);
    for (uint32_t i = 0; i < w->peers; i++) {
        node *n = &w->peer[i];
        n->level = n->source >= 0 ? 0 : UINT16_MAX;
        if (n->source >= 0 && !n->home) n->capacity = 0;
        if (n->source >= 0 && n->home) queue[tail++] = (uint16_t)i;
        if (n->source >= 0) w->wanted += n->capacity;
    }
    w->hash = w->worst;
    while (head < tail) {
        uint16_t at = queue[head++];
        node *n = &w->peer[at];
        if (n->source < 0) w->order[w->ordered++] = at;
        keep_links(w, n, queue, &tail);
        fold_peer(w, n);
    }
    leave_out_dead_ends(w);
    return w->hash;
}

// How many units find room at most: what the narrowest level takes.
static uint32_t most_units(const multi_source *w) {
    uint32_t room[MULTI_SOURCE_MAX_HOPS] = {0}, most = w->wanted;
    for (uint32_t i = 0; i < w->ordered; i++) room[w->peer[w->order[i]].level] += w->peer[w->order[i]].capacity;
    for (uint32_t level = 1; level < MULTI_SOURCE_MAX_HOPS && room[level] > 0; level++)
        most = room[level] < most ? room[level] : most;
    return w->ordered > 0 ? most : 0;
}

// --- One way -----------------------------------------------------------------------------------------------------------

static int64_t overload(const multi_source *w, const node *n) {
    if (n->source >= 0 || n->load < n->capacity) return 0;
    return w->push == 0 ? OVERLOADED : w->push * (n->load - n->capacity + 1);
}

// What the unit pays that comes over the link next.
static int64_t cost_of(const multi_source *w, const link *l) {
    return l->cost + overload(w, &w->peer[l->to]) + (l->units >= l->limit ? OVERLOADED : 0);
}

static void relax(multi_source *w, const node *n, int64_t far) {
    for (uint32_t i = n->first; i < (uint32_t)n->first + n->links; i++) {
        const link *l = &w->link[i];
        int64_t cost = far + l->cost + w->now[l->to] + (l->units >= l->limit ? OVERLOADED : 0);
        if (cost >= w->far[l->to]) continue;
        w->far[l->to] = cost;
        w->over[l->to] = (uint16_t)i;
    }
    w->effort -= n->links;
}

static void trace(const multi_source *w, uint32_t home, course *out) {
    uint16_t back[MULTI_SOURCE_MAX_HOPS];
    uint32_t at = home;
    out->hops = 0;
    do {
        back[out->hops++] = w->over[at];
        at = w->link[w->over[at]].from;
    } while (at != home);
    for (uint32_t i = 0; i < out->hops; i++) out->hop[i] = back[out->hops - 1u - i];
}

// The cheapest way beside those that there are; NOWHERE: none.
static int64_t cheapest(multi_source *w, uint32_t source, course *out) {
    uint32_t home = w->source[source];
    for (uint32_t k = 0; k < w->sources; k++) {
        w->far[w->source[k]] = NOWHERE;
        w->now[w->source[k]] = k == source ? 0 : BARRED;
    }
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        w->far[at] = NOWHERE;
        w->now[at] = w->price[at] + overload(w, &w->peer[at]);
    }
    relax(w, &w->peer[home], 0);
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        if (w->far[at] < NOWHERE) relax(w, &w->peer[at], w->far[at]);
    }
    if (w->far[home] >= BARRED) return NOWHERE;
    out->source = (uint8_t)source;
    trace(w, home, out);
    return w->far[home];
}

static void put(multi_source *w, const course *v) {
    for (uint32_t i = 0; i < v->hops; i++) {
        link *l = &w->link[v->hop[i]];
        w->cost += cost_of(w, l);
        l->units++;
        w->peer[l->to].load++;
    }
    w->sent[v->source]++;
}

static void take(multi_source *w, const course *v) {
    for (uint32_t i = 0; i < v->hops; i++) {
        link *l = &w->link[v->hop[i]];
        l->units--;
        w->peer[l->to].load--;
        w->cost -= cost_of(w, l);
    }
    w->sent[v->source]--;
}

// Where data peers want more than fits the unit is anybody's who wants more. False: there is no way.
static bool place(multi_source *w, course *v) {
    int64_t best = NOWHERE;
    course found;
    for (uint32_t k = 0; k < w->sources; k++) {
        if (w->wanted == w->units && k != v->source) continue;
        if (w->sent[k] >= w->peer[w->source[k]].capacity) continue;
        int64_t cost = cheapest(w, k, &found);
        if (cost >= best) continue;
        best = cost;
        *v = found;
        if (w->wanted == w->units) break;
    }
    if (best >= NOWHERE) return false;
    put(w, v);
    return true;
}

// --- The search --------------------------------------------------------------------------------------------------------

static void put_all(multi_source *w) {
    w->cost = 0;
    for (uint32_t i = 0; i < w->links; i++) w->link[i].units = 0;
    for (uint32_t i = 0; i < w->peers; i++) w->peer[i].load = 0;
    for (uint32_t k = 0; k < w->sources; k++) w->sent[k] = 0;
    for (uint32_t i = 0; i < w->units; i++) put(w, &w->way[i]);
}

// Data peers take turns.
static bool begin(multi_source *w) {
    uint32_t units = w->units, k = 0;
    int64_t sum = 0, links = 0;
    w->units = 0;
    put_all(w);
    w->units = units;
    for (uint32_t i = 0; i < units; i++) {
        while (w->sent[k % w->sources] >= w->peer[w->source[k % w->sources]].capacity) k++;
        w->way[i].source = (uint8_t)(k++ % w->sources);
        if (!place(w, &w->way[i])) return false;
        for (uint32_t j = 0; j < w->way[i].hops; j++) sum += w->link[w->way[i].hop[j]].cost;
        links += w->way[i].hops;
    }
    w->mean = sum / links + 1;
    return true;
}

static void move_prices(multi_source *w, int64_t *step, int8_t *turned) {
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        const node *n = &w->peer[at];
        int8_t sign = n->load > n->capacity ? 1 : n->load < n->capacity && w->price[at] > 0 ? -1 : 0;
        if (sign == 0) continue;
        if (turned[at] == -sign) step[at] = step[at] * SHRINK / 100 + 1;
        turned[at] = sign;
        w->price[at] += sign * step[at];
        if (w->price[at] < 0) w->price[at] = 0;
    }
}

// What a place is worth. Units go one after the other where it is cheapest for them, whoever has too many raises the price, and who has
// room lowers it.
static void find_prices(multi_source *w) {
    int64_t step[MULTI_SOURCE_MAX_PEERS];
    int8_t turned[MULTI_SOURCE_MAX_PEERS] = {0};
    for (uint32_t i = 0; i < w->peers; i++) step[i] = w->mean * STEP / 100 + 1;
    w->push = w->mean * PUSH / 100 + 1;
    put_all(w);
    for (uint32_t sweep = 0; sweep < SWEEPS && w->effort > w->budget / 2; sweep++) {
        for (uint32_t i = 0; i < w->units; i++) {
            course *v = &w->way[rng_below(&w->random, w->units)];
            take(w, v);
            place(w, v);
        }
        move_prices(w, step, turned);
    }
    w->push = 0;
    put_all(w);
}

static void keep_best(multi_source *w) {
    memcpy(w->best, w->way, w->units * sizeof *w->way);
    w->best_cost = w->cost;
}

static uint32_t pick(multi_source *w, uint32_t *picked) {
    uint32_t count = FEWEST + (uint32_t)rng_below(&w->random, MOST - FEWEST + 1), n = 0;
    while (n < count && n < w->units) {
        uint32_t one = (uint32_t)rng_below(&w->random, w->units), i = 0;
        while (i < n && picked[i] != one) i++;
        if (i == n) picked[n++] = one;
    }
    return n;
}

// Prices that differ a little each time.
static void draw_prices(multi_source *w, const int64_t *price) {
    int64_t part = (int64_t)rng_below(&w->random, PRICED + 2);
    uint64_t noise = (uint64_t)(w->mean >> rng_below(&w->random, NOISES)) + 1;
    for (uint32_t i = 0; i < w->ordered; i++) {
        uint32_t at = w->order[i];
        w->price[at] = price[at] * (part < PRICED ? part : PRICED) / PRICED;
        if (rng_below(&w->random, 2) == 0) w->price[at] += (int64_t)rng_below(&w->random, noise);
    }
}

// A change for the worse, too, the less likely the worse it is and the less effort is left.
static bool is_kept(multi_source *w, int64_t before) {
    int64_t heat = HEAT * w->mean * (w->effort >> 10) / ((w->budget >> 10) + 1);
    return w->cost <= before + (heat > 0 ? (int64_t)rng_below(&w->random, (uint64_t)heat + 1) : 0);
}

// Some ways are taken off, and put on again one after the other.
static void attempt(multi_source *w, const int64_t *price) {
    uint32_t picked[MOST], n = pick(w, picked);
    course old[MOST];
    int64_t before = w->cost;
    draw_prices(w, price);
    for (uint32_t i = 0; i < n; i++) {
        old[i] = w->way[picked[i]];
        take(w, &old[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        bool placed = place(w, &w->way[picked[i]]);
        BRAID_ASSERT(placed);  // it was somewhere
    }
    if (is_kept(w, before)) {
        if (w->cost < w->best_cost) keep_best(w);
        return;
    }
    for (uint32_t i = 0; i < n; i++) take(w, &w->way[picked[i]]);
    for (uint32_t i = 0; i < n; i++) {
        w->way[picked[i]] = old[i];
        put(w, &old[i]);
    }
}

static void improve(multi_source *w, const int64_t *price, int64_t left) {
    keep_best(w);
    while (w->effort > left) attempt(w, price);
}

static void go_back(multi_source *w) {
    memcpy(w->way, w->best, w->units * sizeof *w->way);
    put_all(w);
}

static int64_t heaviest(const multi_source *w) {
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
    put_all(w);
}

// No link may be as heavy as the heaviest is, until that does not succeed any more.
static void lighten(multi_source *w, const int64_t *price) {
    for (;;) {
        int64_t most = heaviest(w), left = w->effort - w->budget / PARTS;
        if (most == 0 || left < w->budget / PARTS) return;
        limit_loads(w, most - 1);
        w->best_cost = OVERLOADED;
        while (w->effort > left && w->best_cost >= OVERLOADED) attempt(w, price);
        bool found = w->best_cost < OVERLOADED;
        if (!found) limit_loads(w, most);
        go_back(w);
        if (!found) return;
    }
}

static bool search(multi_source *w) {
    int64_t price[MULTI_SOURCE_MAX_PEERS];
    w->random.state = w->hash;
    w->budget = (int64_t)EFFORT * w->units * w->useful;
    int64_t most = MULTI_SOURCE_EFFORT + (w->useful > MULTI_SOURCE_SMALL_MAP ? (int64_t)MULTI_SOURCE_EFFORT_PER_LINK * (w->useful - MULTI_SOURCE_SMALL_MAP) : 0);
    if (w->budget > most) w->budget = most;
    w->effort = w->budget;
    memset(w->price, 0, sizeof w->price);
    if (!begin(w)) return false;
    find_prices(w);
    memcpy(price, w->price, sizeof price);
    improve(w, price, w->worst ? w->budget / PARTS * (PARTS - 1) : 0);
    go_back(w);
    if (w->cost >= OVERLOADED) return false;
    if (w->worst) {
        lighten(w, price);
        improve(w, price, 0);
        go_back(w);
    }
    return true;
}

bool multi_source_search(multi_source *w) {
    w->units = most_units(w);
    bool found = w->units > 0 && w->units <= MULTI_SOURCE_MAX_UNITS && search(w);
    if (!found) w->units = 0;
    return found;
}

// --- What was found ----------------------------------------------------------------------------------------------------

int64_t multi_source_value(const multi_source *w) { return w->worst ? heaviest(w) : w->cost; }

uint32_t multi_source_count(const multi_source *w) { return w->units; }

router_peer multi_source_home(const multi_source *w, uint32_t way) { return w->peer[w->source[w->way[way].source]].peer; }

uint32_t multi_source_path(const multi_source *w, uint32_t way, router_peer path[MULTI_SOURCE_MAX_HOPS]) {
    uint32_t hops = w->way[way].hops;
    for (uint32_t i = 0; i < hops; i++) path[i] = w->peer[w->link[w->way[way].hop[i]].to].peer;
    return hops;
}

static uint64_t lives_on(const multi_source *w, const course *v) {
    uint64_t lives = 0;
    for (uint32_t i = 0; i < v->hops; i++) fold(&lives, w->peer[w->link[v->hop[i]].from].life);
    return lives;
}

void multi_source_activate(multi_source *w) {
    w->in_force = w->units;
    for (uint32_t i = 0; i < w->units; i++) {
        past *p = &w->path[i];
        p->home = multi_source_home(w, i);
        p->hops = (uint8_t)multi_source_path(w, i, p->peer);
        p->lives = lives_on(w, &w->way[i]);
    }
}

// Puts the unit on a way that was in force; false: a link of it is no more, or not what it was, or its data peer wants fewer.
static bool put_again(multi_source *w, const past *p) {
    uint32_t at = find(w, p->home);
    if (at == MULTI_SOURCE_MAX_PEERS || w->peer[at].source < 0) return false;
    course v = {.source = (uint8_t)w->peer[at].source, .hops = p->hops};
    if (w->sent[v.source] >= w->peer[at].capacity) return false;
    for (uint32_t i = 0; i < p->hops; i++) {
        const node *n = &w->peer[at];
        uint32_t l = n->first;
        while (l < (uint32_t)n->first + n->links && w->link[l].peer != p->peer[i]) l++;
        if (l == (uint32_t)n->first + n->links) return false;
        v.hop[i] = (uint16_t)l;
        at = w->link[l].to;
    }
    put(w, &v);
    return lives_on(w, &v) == p->lives;
}

int64_t multi_source_active_value(multi_source *w) {
    uint32_t units = w->units;
    w->units = 0;
    put_all(w);
    w->units = units;
    bool whole = w->in_force > 0 && w->in_force == most_units(w);
    for (uint32_t i = 0; whole && i < w->in_force; i++) whole = put_again(w, &w->path[i]);
    int64_t value = whole && w->cost < OVERLOADED ? multi_source_value(w) : -1;
    put_all(w);
    return value;
}
