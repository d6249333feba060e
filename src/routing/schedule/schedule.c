#include "routing/schedule/schedule.h"

#include "base/err.h"
#include "base/rng.h"
#include "routing/schedule/detour.h"

#include <string.h>

enum {
    STARTS = 4,           // of the search: one in turn, the others by chance
    FIRST_THRESHOLD = 30,  // a part of so many of the first value
    FINE = 1024,          // of the threshold's fall
    MEAN_WEIGHT = 64,     // the last microbatch counts so many times as much as the mean one
    MOST_CARRIERS = 4,    // that are looked at for a hop, the quickest
    PLACES = 2 * SCHEDULE_MAX_STAGES + 1,  // of a way, home twice
};

#define NEVER INT64_MAX

// A way's next arrival; while it waits for a slot there is none.
typedef struct arrival {
    int64_t time;
    uint16_t way;
} arrival;

// From a peer to one of the next stage, or back.
typedef struct hop {
    int64_t straight, beyond;  // what a tensor takes on the line; what the hop takes beyond lines
    uint16_t by[MOST_CARRIERS];
    uint32_t carriers;
} hop;

struct schedule {
    uint32_t stages, peers, ways;
    schedule_peer peer[SCHEDULE_MAX_PEERS];
    uint16_t member[SCHEDULE_MAX_STAGES][SCHEDULE_MAX_PEERS];
    uint32_t members[SCHEDULE_MAX_STAGES];
    int64_t line[SCHEDULE_MAX_PEERS][SCHEDULE_MAX_PEERS], tensor[SCHEDULE_MAX_PEERS][SCHEDULE_MAX_PEERS];
    uint32_t pieces;
    hop hop[SCHEDULE_MAX_PEERS][SCHEDULE_MAX_PEERS];
    uint16_t home[SCHEDULE_MAX_WAYS];
    uint16_t path[SCHEDULE_MAX_WAYS][SCHEDULE_MAX_STAGES], best[SCHEDULE_MAX_WAYS][SCHEDULE_MAX_STAGES];
    int64_t time;  // of the ways that were evaluated last
    int64_t leave[SCHEDULE_MAX_WAYS][SCHEDULE_MAX_STAGES];  // for that stage
    uint16_t by[SCHEDULE_MAX_WAYS][PLACES];                 // carries it to its `at`-th place, or is there
    uint64_t effort;

    // of one evaluation
    int64_t busy[SCHEDULE_MAX_PEERS][SCHEDULE_MAX_PEERS];
    uint32_t taken[SCHEDULE_MAX_PEERS], coming[SCHEDULE_MAX_PEERS];  // slots; ways that are to have one
    bool inside[SCHEDULE_MAX_WAYS];  // it has a slot where it is
    uint16_t at[SCHEDULE_MAX_WAYS];  // place on its way: 0 .. stages - 1 there, stages: home, then back to 2 * stages
    arrival heap[SCHEDULE_MAX_WAYS];  // a way is in one place
    uint32_t heaped;
    uint16_t waiting[SCHEDULE_MAX_WAYS];  // for a slot, in the order in which they began to
    uint32_t waits;
};

uint32_t schedule_bytes(void) { return sizeof(schedule); }

schedule *schedule_init(void *memory, uint32_t stages) {
    schedule *s = memory;
    BRAID_ASSERT(stages >= 2 && stages <= SCHEDULE_MAX_STAGES);
    memset(s, 0, sizeof *s);
    s->stages = stages;
    s->pieces = 1;
    return s;
}

uint32_t schedule_peer_add(schedule *s, schedule_peer peer) {
    if (s->peers == SCHEDULE_MAX_PEERS || peer.stage >= s->stages) return SCHEDULE_MAX_PEERS;
    s->peer[s->peers] = peer;
    s->member[peer.stage][s->members[peer.stage]++] = (uint16_t)s->peers;
    return s->peers++;
}

void schedule_line(schedule *s, uint32_t from, uint32_t to, int64_t cost) {
    s->line[from][to] = cost;
    s->line[to][from] = cost;  // gradients
}

void schedule_tensor(schedule *s, uint32_t from, uint32_t to, int64_t time) { s->tensor[from][to] = time; }
void schedule_pieces(schedule *s, uint32_t pieces) { s->pieces = pieces; }

bool schedule_way_add(schedule *s, uint32_t home) {
    if (s->ways == SCHEDULE_MAX_WAYS) return false;
    s->home[s->ways] = (uint16_t)home;
    s->path[s->ways++][0] = (uint16_t)home;
    return true;
}

uint64_t schedule_member(const schedule *s, uint32_t way, uint32_t stage) { return s->peer[s->best[way][stage]].member; }
int64_t schedule_leave(const schedule *s, uint32_t way, uint32_t stage) { return s->leave[way][stage]; }
int64_t schedule_time(const schedule *s) { return s->time; }

uint64_t schedule_carrier(const schedule *s, uint32_t way, uint32_t stage, bool back) {
    return s->peer[s->by[way][back ? 2 * s->stages - stage + 1 : stage]].member;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

// ---- hops -----------------------------------------------------------------------------------------------------------

static int64_t by_way_of(const schedule *s, uint32_t from, uint32_t by, uint32_t to) {
    return detour_time(s->tensor[from][by], s->tensor[by][to], s->pieces);
}

// The quickest first.
static void carrier_add(const schedule *s, hop *h, uint32_t from, uint32_t by, uint32_t to) {
    uint32_t at = h->carriers;
    while (at > 0 && by_way_of(s, from, by, to) < by_way_of(s, from, h->by[at - 1], to)) at--;
    if (at == MOST_CARRIERS) return;
    if (h->carriers < MOST_CARRIERS) h->carriers++;
    for (uint32_t i = h->carriers - 1; i > at; i--) h->by[i] = h->by[i - 1];
    h->by[at] = (uint16_t)by;
}

// What it takes at best while nobody else uses the lines; 0: not known.
static int64_t hop_find(schedule *s, uint32_t from, uint32_t to) {
    hop *h = &s->hop[from][to];
    int64_t straight = s->tensor[from][to];
    *h = (hop){.straight = straight};
    for (uint32_t by = 0; by < s->peers; by++) {
        int64_t there = s->tensor[from][by], on = s->tensor[by][to];
        if (by == from || by == to || there == 0 || on == 0 || there >= straight) continue;
        if (detour_pays(by_way_of(s, from, by, to), straight, true)) carrier_add(s, h, from, by, to);
    }
    if (h->carriers == 0) return straight;
    int64_t best = by_way_of(s, from, h->by[0], to);
    return detour_pays(best, straight, false) ? best : straight;
}

// A hop's cost is that of the best ways there and back, and of computing.
static void hops_find(schedule *s) {
    for (uint32_t a = 0; a < s->peers; a++)
        for (uint32_t b = 0; b < a; b++) {
            if (s->line[a][b] == 0) continue;
            int64_t there = hop_find(s, a, b), back = hop_find(s, b, a), cost = s->line[a][b];
            if (there == 0 || back == 0) s->hop[a][b] = s->hop[b][a] = (hop){.straight = cost};
            else s->hop[a][b].beyond = s->hop[b][a].beyond = later(cost - (there + back) / 2, 0);
        }
}

// ---- what an iteration would take -----------------------------------------------------------------------------------

static bool before(arrival a, arrival b) { return a.time < b.time || (a.time == b.time && a.way < b.way); }

static void heap_put(schedule *s, arrival a) {
    uint32_t at = s->heaped++;
    for (; at > 0 && before(a, s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = a;
}

static arrival heap_take(schedule *s) {
    arrival first = s->heap[0], last = s->heap[--s->heaped];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->heaped) break;
        if (child + 1 < s->heaped && before(s->heap[child + 1], s->heap[child])) child++;
        if (!before(s->heap[child], last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return first;
}

// Where a way is at its `at`-th place.
static uint32_t place(const schedule *s, uint32_t way, uint32_t at) {
    uint32_t stage = at <= s->stages ? at % s->stages : 2 * s->stages - at;
    return s->path[way][stage];
}

// When it would be there.
static int64_t carried(const schedule *s, uint32_t from, uint32_t by, uint32_t to, int64_t now) {
    int64_t there = s->tensor[from][by], on = s->tensor[by][to], start = later(s->busy[from][by], now);
    return later(later(start + there / s->pieces, s->busy[by][to]) + on, start + there + on / s->pieces);
}

// By way of whom it is there soonest as lines are now; `to`: straight.
static uint32_t choose_carrier(const schedule *s, uint32_t from, uint32_t to, int64_t now, int64_t *end) {
    const hop *h = &s->hop[from][to];
    bool crowded = s->busy[from][to] > now;
    uint32_t found = to;
    *end = later(s->busy[from][to], now) + h->straight;
    for (uint32_t i = 0; i < h->carriers; i++) {
        uint32_t by = h->by[i];
        int64_t time = carried(s, from, by, to, now);
        if (time >= *end || !detour_pays(by_way_of(s, from, by, to), h->straight, crowded)) continue;
        *end = time;
        found = by;
    }
    return found;
}

static void set_out(schedule *s, uint32_t way, int64_t now) {
    if (s->at[way] > s->stages) s->taken[place(s, way, s->at[way])]--;
    uint32_t from = place(s, way, s->at[way]), to = place(s, way, s->at[way] + 1u);
    int64_t end;
    uint32_t by = choose_carrier(s, from, to, now, &end);
    if (by != to) s->busy[from][by] = later(s->busy[from][by], now) + s->tensor[from][by];
    s->busy[by == to ? from : by][to] = end;
    s->at[way]++;
    s->by[way][s->at[way]] = (uint16_t)by;
    s->effort++;
    heap_put(s, (arrival){end + s->hop[from][to].beyond, (uint16_t)way});
}

static bool has_slot(schedule *s, uint32_t way) {
    uint32_t here = place(s, way, s->at[way]);
    if (s->at[way] == 0 || s->at[way] >= s->stages || s->inside[way]) return true;
    if (s->taken[here] >= s->peer[here].capacity) return false;
    s->coming[here]--;
    s->taken[here]++;
    s->inside[way] = true;
    return true;
}

// On the way there a relay must have a slot, or room for one that waits.
static bool try_to_go(schedule *s, uint32_t way, int64_t now) {
    uint32_t next = s->at[way] + 1u;
    if (!has_slot(s, way)) return false;
    if (next < s->stages) {
        uint32_t to = place(s, way, next);
        if (s->taken[to] + s->coming[to] >= s->peer[to].capacity + 1) return false;
        s->coming[to]++;
        s->leave[way][next] = now;
        s->inside[way] = false;
    }
    set_out(s, way, now);
    return true;
}

static void let_go(schedule *s, int64_t now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->waits; i++)
        if (!try_to_go(s, s->waiting[i], now)) s->waiting[kept++] = s->waiting[i];
    s->waits = kept;
}

// The iteration's end weighs most; between equal ones, that as many as possible end early.
static int64_t evaluate(schedule *s) {
    int64_t end = 0, sum = 0;
    for (uint32_t i = 0; i < s->peers; i++) memset(s->busy[i], 0, s->peers * sizeof s->busy[i][0]);
    memset(s->taken, 0, sizeof s->taken);
    memset(s->coming, 0, sizeof s->coming);
    memset(s->inside, 0, sizeof s->inside);
    s->heaped = s->waits = 0;
    for (uint32_t way = 0; way < s->ways; way++) {
        s->at[way] = 0;
        if (!try_to_go(s, way, 0)) s->waiting[s->waits++] = (uint16_t)way;
    }
    while (s->heaped > 0) {
        arrival a = heap_take(s);
        uint32_t at = s->at[a.way];
        if (at == 2 * s->stages) {
            sum += a.time;
            end = a.time;
        } else if (at > s->stages) {
            set_out(s, a.way, a.time);
            let_go(s, a.time);
        } else if (!try_to_go(s, a.way, a.time)) {
            s->waiting[s->waits++] = a.way;
        }
    }
    s->time = end;
    return end * MEAN_WEIGHT + sum / s->ways;
}

// ---- the search -----------------------------------------------------------------------------------------------------

static bool connected(const schedule *s, uint32_t way, uint32_t stage) {
    uint32_t next = stage + 1 == s->stages ? 0 : stage + 1;
    return s->line[s->path[way][stage - 1]][s->path[way][stage]] > 0 && s->line[s->path[way][stage]][s->path[way][next]] > 0;
}

// Any member of a stage that can be reached, from the `pick`-th on.
static bool start_way(schedule *s, uint32_t way, rng *chance, uint32_t start) {
    for (uint32_t stage = 1; stage < s->stages; stage++) {
        uint32_t n = s->members[stage], pick = start == 0 ? way : (uint32_t)rng_below(chance, n), tried = 0;
        for (; tried < n; tried++) {
            uint32_t member = s->member[stage][(pick + tried) % n];
            bool reached = s->line[s->path[way][stage - 1]][member] > 0, last = stage + 1 == s->stages;
            if (s->peer[member].capacity == 0 || !reached || (last && s->line[member][s->home[way]] == 0)) continue;
            s->path[way][stage] = (uint16_t)member;
            break;
        }
        if (tried == n) return false;
    }
    return true;
}

static bool start_ways(schedule *s, rng *chance, uint32_t start) {
    for (uint32_t stage = 1; stage < s->stages; stage++)
        if (s->members[stage] == 0) return false;
    for (uint32_t way = 0; way < s->ways; way++)
        if (!start_way(s, way, chance, start)) return false;
    return true;
}

// Members of a stage on one or two ways change places.
typedef struct change {
    uint32_t stage, way, other;  // other == ways: `way` alone
    uint16_t was, others_was;
} change;

static void put_back(schedule *s, const change *c) {
    s->path[c->way][c->stage] = c->was;
    if (c->other < s->ways) s->path[c->other][c->stage] = c->others_was;
}

// One member for another, or two ways' members swapped. False: nothing has changed.
static bool change_by_chance(schedule *s, rng *chance, change *c) {
    *c = (change){.stage = 1 + (uint32_t)rng_below(chance, s->stages - 1), .way = (uint32_t)rng_below(chance, s->ways), .other = s->ways};
    c->was = s->path[c->way][c->stage];
    uint16_t to = s->member[c->stage][rng_below(chance, s->members[c->stage])];
    if (rng_below(chance, 2) != 0) {
        c->other = (uint32_t)rng_below(chance, s->ways);
        to = c->others_was = s->path[c->other][c->stage];
        s->path[c->other][c->stage] = c->was;
    }
    s->path[c->way][c->stage] = to;
    if (to == c->was) return false;
    bool good = s->peer[to].capacity > 0 && connected(s, c->way, c->stage) && (c->other == s->ways || connected(s, c->other, c->stage));
    if (!good) put_back(s, c);
    return good;
}

static void keep_better(schedule *s, int64_t *best, int64_t value) {
    if (value >= *best) return;
    *best = value;
    memcpy(s->best, s->path, sizeof s->best);
}

// Threshold accepting: what is worse by less than a threshold is kept, too, and the threshold falls to nothing.
static void anneal(schedule *s, rng *chance, int64_t *best) {
    uint64_t from = s->effort;
    int64_t now = evaluate(s), first = now / FIRST_THRESHOLD;
    keep_better(s, best, now);
    while (s->effort - from < SCHEDULE_EFFORT / STARTS) {
        change c;
        int64_t left = (int64_t)(SCHEDULE_EFFORT / STARTS - (s->effort - from)) * FINE / (SCHEDULE_EFFORT / STARTS);
        s->effort++;
        if (!change_by_chance(s, chance, &c)) continue;
        int64_t then = evaluate(s);
        if (then < now + first / (FINE * FINE) * left * left) {
            now = then;
            keep_better(s, best, now);
        } else {
            put_back(s, &c);
        }
    }
}

bool schedule_search(schedule *s) {
    int64_t best = NEVER;
    rng chance = {rng_seed(s->ways, s->peers)};
    s->effort = 0;
    if (s->ways == 0) return false;
    hops_find(s);
    for (uint32_t start = 0; start < STARTS; start++) {
        if (!start_ways(s, &chance, start)) return false;
        anneal(s, &chance, &best);
    }
    memcpy(s->path, s->best, sizeof s->path);
    evaluate(s);
    return true;
}
