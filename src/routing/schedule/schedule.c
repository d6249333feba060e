// Scheduled paths (schedule.h): simulation of one iteration with events in a heap, and threshold accepting over
// the assignment of microbatches to relays.
#include "routing/schedule/schedule.h"

#include "base/err.h"
#include "base/rng.h"
#include "routing/schedule/forwarding.h"

#include <string.h>

enum {
    STARTS = 4,                            // starts of the search: the first one in turn, the others at random
    FIRST_THRESHOLD = 30,                  // initial threshold: this fraction of the first value
    FINE = 1024,                           // resolution of the threshold's decrease
    MEAN_WEIGHT = 64,                      // weight of the last microbatch against the mean one
    MAX_FORWARDERS = 4,                    // considered for a hop: the fastest
    PLACES = 2 * SCHEDULE_MAX_STAGES + 1,  // places of a path, with the data peer at both ends
};

#define NEVER INT64_MAX

// Next arrival of a path's tensor; none while it waits for a slot.
typedef struct schedule_arrival {
    int64_t time;
    uint16_t way;
} schedule_arrival;

// From a peer to one of the next stage, or back.
typedef struct hop {
    int64_t straight, beyond;  // time of a tensor on the direct line; time of the hop beyond lines
    uint16_t by[MAX_FORWARDERS];
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
    int64_t time;                                           // duration with the paths evaluated last
    int64_t leave[SCHEDULE_MAX_WAYS][SCHEDULE_MAX_STAGES];  // departure for that stage
    uint16_t by[SCHEDULE_MAX_WAYS][PLACES];                 // forwarder to the `at`-th place, or that place itself
    uint64_t effort, most_effort;                           // of a start

    // State of one evaluation.
    int64_t busy[SCHEDULE_MAX_PEERS][SCHEDULE_MAX_PEERS];
    // slots in use; tensors that will need one
    uint32_t taken[SCHEDULE_MAX_PEERS], coming[SCHEDULE_MAX_PEERS];
    bool inside[SCHEDULE_MAX_WAYS];  // has a slot at its present place
    // place on the path: 0 .. stages - 1 forward, stages: back at the data peer, then up to 2 *
    // stages
    uint16_t at[SCHEDULE_MAX_WAYS];
    schedule_arrival heap[SCHEDULE_MAX_WAYS];  // each path is in one place
    uint32_t heaped;
    uint16_t waiting[SCHEDULE_MAX_WAYS];  // paths that wait for a slot, first come, first served
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

uint64_t schedule_member(const schedule *s, uint32_t way, uint32_t stage) {
    return s->peer[s->best[way][stage]].member;
}
int64_t schedule_leave(const schedule *s, uint32_t way, uint32_t stage) { return s->leave[way][stage]; }
int64_t schedule_time(const schedule *s) { return s->time; }

uint64_t schedule_carrier(const schedule *s, uint32_t way, uint32_t stage, bool back) {
    return s->peer[s->by[way][back ? 2 * s->stages - stage + 1 : stage]].member;
}

static int64_t max_time(int64_t a, int64_t b) { return a > b ? a : b; }

// --- Hops ----------------------------------------------------------------------------------------

static int64_t forwarded_cost(const schedule *s, uint32_t from, uint32_t by, uint32_t to) {
    return forwarding_time(s->tensor[from][by], s->tensor[by][to], s->pieces);
}

// Keeps the fastest forwarders in order.
static void add_forwarder(const schedule *s, hop *h, uint32_t from, uint32_t by, uint32_t to) {
    uint32_t at = h->carriers;
    while (at > 0 && forwarded_cost(s, from, by, to) < forwarded_cost(s, from, h->by[at - 1], to)) at--;
    if (at == MAX_FORWARDERS) return;
    if (h->carriers < MAX_FORWARDERS) h->carriers++;
    for (uint32_t i = h->carriers - 1; i > at; i--) h->by[i] = h->by[i - 1];
    h->by[at] = (uint16_t)by;
}

// Best time of the hop on idle lines; 0: unknown.
static int64_t find_hop(schedule *s, uint32_t from, uint32_t to) {
    hop *h = &s->hop[from][to];
    int64_t straight = s->tensor[from][to];
    *h = (hop){.straight = straight};
    for (uint32_t by = 0; by < s->peers; by++) {
        int64_t there = s->tensor[from][by], on = s->tensor[by][to];
        if (by == from || by == to || there == 0 || on == 0 || there >= straight) continue;
        if (forwarding_pays(forwarded_cost(s, from, by, to), straight, true)) add_forwarder(s, h, from, by, to);
    }
    if (h->carriers == 0) return straight;
    int64_t best = forwarded_cost(s, from, h->by[0], to);
    return forwarding_pays(best, straight, false) ? best : straight;
}

// The cost of a hop: the best transfers forward and back, and computing.
static void find_hops(schedule *s) {
    for (uint32_t a = 0; a < s->peers; a++)
        for (uint32_t b = 0; b < a; b++) {
            if (s->line[a][b] == 0) continue;
            int64_t there = find_hop(s, a, b), back = find_hop(s, b, a), cost = s->line[a][b];
            if (there == 0 || back == 0)
                s->hop[a][b] = s->hop[b][a] = (hop){.straight = cost};
            else
                s->hop[a][b].beyond = s->hop[b][a].beyond = max_time(cost - (there + back) / 2, 0);
        }
}

// --- Simulation of an iteration ------------------------------------------------------------------

static bool is_earlier(schedule_arrival a, schedule_arrival b) {
    return a.time < b.time || (a.time == b.time && a.way < b.way);
}

static void heap_put(schedule *s, schedule_arrival a) {
    uint32_t at = s->heaped++;
    for (; at > 0 && is_earlier(a, s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = a;
}

static schedule_arrival heap_take(schedule *s) {
    schedule_arrival first = s->heap[0], last = s->heap[--s->heaped];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->heaped) break;
        if (child + 1 < s->heaped && is_earlier(s->heap[child + 1], s->heap[child])) child++;
        if (!is_earlier(s->heap[child], last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return first;
}

// The peer at the `at`-th place of a path.
static uint32_t place_of(const schedule *s, uint32_t way, uint32_t at) {
    uint32_t stage = at <= s->stages ? at % s->stages : 2 * s->stages - at;
    return s->path[way][stage];
}

// Arrival time over a forwarder.
static int64_t forwarded_time(const schedule *s, uint32_t from, uint32_t by, uint32_t to, int64_t now) {
    int64_t there = s->tensor[from][by], on = s->tensor[by][to], start = max_time(s->busy[from][by], now);
    return max_time(max_time(start + there / s->pieces, s->busy[by][to]) + on, start + there + on / s->pieces);
}

// The forwarder with the earliest arrival under the present load of the lines; `to`: the direct
// line.
static uint32_t choose_forwarder(const schedule *s, uint32_t from, uint32_t to, int64_t now, int64_t *end) {
    const hop *h = &s->hop[from][to];
    bool crowded = s->busy[from][to] > now;
    uint32_t found = to;
    *end = max_time(s->busy[from][to], now) + h->straight;
    for (uint32_t i = 0; i < h->carriers; i++) {
        uint32_t by = h->by[i];
        int64_t time = forwarded_time(s, from, by, to, now);
        if (time >= *end || !forwarding_pays(forwarded_cost(s, from, by, to), h->straight, crowded)) continue;
        *end = time;
        found = by;
    }
    return found;
}

static void depart(schedule *s, uint32_t way, int64_t now) {
    if (s->at[way] > s->stages) s->taken[place_of(s, way, s->at[way])]--;
    uint32_t from = place_of(s, way, s->at[way]), to = place_of(s, way, s->at[way] + 1u);
    int64_t end;
    uint32_t by = choose_forwarder(s, from, to, now, &end);
    if (by != to) s->busy[from][by] = max_time(s->busy[from][by], now) + s->tensor[from][by];
    s->busy[by == to ? from : by][to] = end;
    s->at[way]++;
    s->by[way][s->at[way]] = (uint16_t)by;
    s->effort++;
    heap_put(s, (schedule_arrival){end + s->hop[from][to].beyond, (uint16_t)way});
}

static bool has_slot(schedule *s, uint32_t way) {
    uint32_t here = place_of(s, way, s->at[way]);
    if (s->at[way] == 0 || s->at[way] >= s->stages || s->inside[way]) return true;
    if (s->taken[here] >= s->peer[here].capacity) return false;
    s->coming[here]--;
    s->taken[here]++;
    s->inside[way] = true;
    return true;
}

// On the forward path the relay must have a slot, or room for one waiting tensor.
static bool try_to_go(schedule *s, uint32_t way, int64_t now) {
    uint32_t next = s->at[way] + 1u;
    if (!has_slot(s, way)) return false;
    if (next < s->stages) {
        uint32_t to = place_of(s, way, next);
        if (s->taken[to] + s->coming[to] >= s->peer[to].capacity + 1) return false;
        s->coming[to]++;
        s->leave[way][next] = now;
        s->inside[way] = false;
    }
    depart(s, way, now);
    return true;
}

static void release_waiting(schedule *s, int64_t now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->waits; i++)
        if (!try_to_go(s, s->waiting[i], now)) s->waiting[kept++] = s->waiting[i];
    s->waits = kept;
}

// The end of the iteration weighs most. Among equal ends the earlier mean wins.
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
        schedule_arrival a = heap_take(s);
        uint32_t at = s->at[a.way];
        if (at == 2 * s->stages) {
            sum += a.time;
            end = a.time;
        } else if (at > s->stages) {
            depart(s, a.way, a.time);
            release_waiting(s, a.time);
        } else if (!try_to_go(s, a.way, a.time)) {
            s->waiting[s->waits++] = a.way;
        }
    }
    s->time = end;
    return end * MEAN_WEIGHT + sum / s->ways;
}

// --- The search ----------------------------------------------------------------------------------

static bool connected(const schedule *s, uint32_t way, uint32_t stage) {
    uint32_t next = stage + 1 == s->stages ? 0 : stage + 1;
    return s->line[s->path[way][stage - 1]][s->path[way][stage]] > 0 &&
           s->line[s->path[way][stage]][s->path[way][next]] > 0;
}

// Assigns reachable members of each stage, beginning with the `pick`-th.
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

// Replaces the member of a stage on one path, or swaps those of two paths.
typedef struct schedule_change {
    uint32_t stage, way, other;  // other == ways: `way` alone
    uint16_t was, others_was;
} schedule_change;

static void put_back(schedule *s, const schedule_change *c) {
    s->path[c->way][c->stage] = c->was;
    if (c->other < s->ways) s->path[c->other][c->stage] = c->others_was;
}

// Makes a random change. False: nothing has changed.
static bool change_by_chance(schedule *s, rng *chance, schedule_change *c) {
    *c = (schedule_change){.stage = 1 + (uint32_t)rng_below(chance, s->stages - 1),
                           .way = (uint32_t)rng_below(chance, s->ways),
                           .other = s->ways};
    c->was = s->path[c->way][c->stage];
    uint16_t to = s->member[c->stage][rng_below(chance, s->members[c->stage])];
    if (rng_below(chance, 2) != 0) {
        c->other = (uint32_t)rng_below(chance, s->ways);
        to = c->others_was = s->path[c->other][c->stage];
        s->path[c->other][c->stage] = c->was;
    }
    s->path[c->way][c->stage] = to;
    if (to == c->was) return false;
    bool good = s->peer[to].capacity > 0 && connected(s, c->way, c->stage) &&
                (c->other == s->ways || connected(s, c->other, c->stage));
    if (!good) put_back(s, c);
    return good;
}

static void keep_better(schedule *s, int64_t *best, int64_t value) {
    if (value >= *best) return;
    *best = value;
    memcpy(s->best, s->path, sizeof s->best);
}

// Threshold accepting (Dueck and Scheuer 1990): increases below a threshold are accepted, and the
// threshold falls to 0.
static void anneal(schedule *s, rng *chance, int64_t *best) {
    uint64_t from = s->effort;
    int64_t now = evaluate(s), first = now / FIRST_THRESHOLD;
    keep_better(s, best, now);
    while (s->effort - from < s->most_effort) {
        schedule_change c;
        int64_t left = (int64_t)(s->most_effort - (s->effort - from)) * FINE / (int64_t)s->most_effort;
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

bool schedule_search(schedule *s) { return schedule_search_within(s, SCHEDULE_EFFORT); }

bool schedule_search_within(schedule *s, uint64_t effort) {
    int64_t best = NEVER;
    rng chance = {rng_seed(s->ways, s->peers)};
    s->effort = 0;
    s->most_effort = effort / STARTS;
    if (s->ways == 0) return false;
    find_hops(s);
    for (uint32_t start = 0; start < STARTS; start++) {
        if (!start_ways(s, &chance, start)) return false;
        anneal(s, &chance, &best);
    }
    memcpy(s->path, s->best, sizeof s->path);
    evaluate(s);
    return true;
}
