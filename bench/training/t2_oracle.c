// The time of an iteration of T2 for an oracle with global knowledge, without crashes or with all
// of them known. A tensor takes the direct line or the fastest forwarder, as if no other peer used
// their lines. The paths of all microbatches are improved as long as the iteration ends earlier
// after a change of one peer on one path, or of the peers of one stage between two paths.
#include "bench/training/t2_inside.h"

#include "base/rng.h"
#include "routing/schedule/forwarding.h"
#include "routing/schedule/schedule.h"
#include "wire/limits.h"

#include <stdlib.h>
#include <string.h>

enum {
    // starting points of the search: the peers in turn and random ones, every second one only with
    // peers present throughout
    STARTS = 4,
    SUM_BYTES = 4
};

// the value of impossible paths, above that of all others
static const int64_t CUT_OFF = INT64_MAX / 2;

typedef t2_search search;

static bool stays(const t2_presence *there) { return there->from_ns == 0 && there->until_ns == INT64_MAX; }

static void set_members(search *q, const t2_presence *there, bool who_stay) {
    for (uint32_t i = 0; i < T2_PEERS; i++) {
        uint16_t stage = there[i].stage;
        if (stage >= T2_STAGES || stays(&there[i]) != who_stay) continue;
        q->member[stage][q->members[stage]++] = i;
        q->stay[stage] += who_stay;
    }
}

static void set_peers(search *q, const scenario *s, const t2_presence *there) {
    set_members(q, there, true);
    set_members(q, there, false);
    for (uint32_t i = 0; i < T2_PEERS; i++) {
        uint16_t stage = there[i].stage;
        if (stage >= T2_STAGES) continue;
        uint64_t loss = s->peer[i].data ? scenario_cost_ns(s, i, 0, WORK_LOSS) : 0;
        q->until_ns[i] = there[i].until_ns;
        q->sum_dies[i] = there[i].sum_dies;
        q->peer[i] = (pipeline_peer){.forward_ns = (int64_t)scenario_cost_ns(s, i, stage, WORK_FORWARD),
                                     .backward_ns = (int64_t)scenario_cost_ns(s, i, stage, WORK_BACKWARD),
                                     .home_ns = (int64_t)loss,
                                     .capacity = s->peer[i].data ? 0 : s->peer[i].capacity,
                                     .from_ns = there[i].from_ns};
    }
}

static int64_t send_ns(uint64_t bytes, uint64_t bps) { return (int64_t)(bytes * 8 * 1000 / (bps / 1000000)); }

static void set_lines(search *q, const scenario *s) {
    for (uint32_t i = 0; i < T2_PEERS; i++)
        for (uint32_t k = 0; k < T2_PEERS; k++) {
            scenario_link link;
            if (i == k) continue;
            scenario_link_of(s, i, k, &link);
            q->latency_ns[i * T2_PEERS + k] = (int64_t)(link.latency_ns + link.jitter_ns / 2);
            q->transfer_ns[i * T2_PEERS + k] = send_ns(s->activation_bytes, link.bps);
        }
}

// Uses the best forwarder for each pair, if it is faster.
static void set_links(search *q, const scenario *s) {
    int64_t line[T2_PEERS * T2_PEERS];
    set_lines(q, s);
    memcpy(line, q->transfer_ns, sizeof line);
    for (uint32_t i = 0; i < T2_PEERS * T2_PEERS; i++) line[i] += q->latency_ns[i];
    for (uint32_t from = 0; from < T2_PEERS; from++)
        for (uint32_t to = 0; to < T2_PEERS; to++) {
            int64_t *best = &q->transfer_ns[from * T2_PEERS + to], latency = q->latency_ns[from * T2_PEERS + to];
            for (uint32_t by = 0; by < T2_PEERS && from != to; by++) {
                bool there = by != from && by != to && q->peer[by].forward_ns > 0;
                int64_t time = there ? forwarding_time(line[from * T2_PEERS + by], line[by * T2_PEERS + to], WIRE_MAX_PIECES) : INT64_MAX;
                if (time - latency < *best) *best = time - latency;
            }
        }
}

static int64_t after_ns(int64_t at_ns, int64_t until_ns) { return at_ns > until_ns ? at_ns - until_ns : 0; }

// The sum of the times by which dead peers would send tensors too late.
static int64_t too_late_ns(const search *q) {
    int64_t late = 0;
    for (uint32_t way = 0; way < T2_WAYS; way++)
        for (uint32_t stage = 1; stage < T2_STAGES; stage++) {
            const int64_t *passed_ns = &q->passed_ns[way * 2 * T2_LENGTH];
            uint32_t at = way * T2_LENGTH + stage;
            late += after_ns(passed_ns[stage], q->until_ns[q->path[at]]);
            late += q->sum_dies[q->back[at]] ? PIPELINE_MAX_NS : after_ns(passed_ns[2 * (T2_LENGTH - 1) - stage], q->until_ns[q->back[at]]);
        }
    return late;
}

// The value to minimise: the iteration's end, and among equal ends the sum of the microbatches'
// ends. Paths cut off by a death are impossible.
static braid_err measure(const search *q, int64_t *value, int64_t *iteration_ns, braid_error *error) {
    int64_t done[T2_WAYS], sum = 0;
    braid_err err = pipeline_run(&q->p, iteration_ns, done, NULL, error);
    *value = INT64_MAX;
    if (err || *iteration_ns == INT64_MAX) return err;
    for (uint32_t i = 0; i < T2_WAYS; i++) sum += done[i];
    int64_t late = too_late_ns(q);
    *value = late > 0 ? CUT_OFF + late : *iteration_ns + sum / (64 * T2_WAYS);
    return BRAID_OK;
}

// The peers at one place of a path.
typedef struct hop {
    uint32_t forward, back;
} hop;

static hop hop_at(const search *q, uint32_t at) { return (hop){q->path[at], q->back[at]}; }

static void set_hop(search *q, uint32_t at, hop who) {
    q->path[at] = who.forward;
    q->back[at] = who.back;
}

// Keeps a change if it is better, else restores `a` and `b`.
static braid_err judge(search *q, uint32_t at_a, hop a, uint32_t at_b, hop b, int64_t *best, bool *better, braid_error *error) {
    int64_t value, iteration_ns;
    braid_err err = measure(q, &value, &iteration_ns, error);
    if (!err && value < *best) {
        *best = value;
        *better = true;
    } else {
        set_hop(q, at_a, a);
        set_hop(q, at_b, b);
    }
    return err;
}

// A peer that will die may be used forward, with a replacement backward.
static braid_err try_stage(search *q, uint32_t way, uint32_t stage, int64_t *best, bool *better, braid_error *error) {
    uint32_t at = way * T2_LENGTH + stage, n = q->members[stage];
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < n * n && !err; i++) {
        hop before = hop_at(q, at), now = {q->member[stage][i / n], q->member[stage][i % n]};
        bool same = now.forward == before.forward && now.back == before.back;
        if (same || (now.forward != now.back && q->until_ns[now.forward] == INT64_MAX)) continue;
        set_hop(q, at, now);
        err = judge(q, at, before, at, before, best, better, error);
    }
    for (uint32_t other = 0; other < way && !err; other++) {
        uint32_t there = other * T2_LENGTH + stage;
        hop mine = hop_at(q, at), theirs = hop_at(q, there);
        if (mine.forward == theirs.forward && mine.back == theirs.back) continue;
        set_hop(q, at, theirs);
        set_hop(q, there, mine);
        err = judge(q, at, mine, there, theirs, best, better, error);
    }
    return err;
}

static void start_ways(search *q, uint32_t start) {
    rng r = {rng_seed(start, 7)};
    for (uint32_t way = 0; way < T2_WAYS; way++)
        for (uint32_t stage = 0; stage < T2_LENGTH; stage++) {
            uint32_t in = stage % T2_STAGES, n = start % 2 == 0 && q->stay[in] > 0 ? q->stay[in] : q->members[in];
            uint32_t pick = in == 0 || start == 0 ? way % n : (uint32_t)rng_below(&r, n);
            set_hop(q, way * T2_LENGTH + stage, (hop){q->member[in][pick], q->member[in][pick]});
        }
}

static braid_err find_ways(search *q, int64_t *least, braid_error *error) {
    *least = INT64_MAX;
    for (uint32_t start = 0; start < STARTS; start++) {
        int64_t best, iteration_ns;
        start_ways(q, start);
        braid_err err = measure(q, &best, &iteration_ns, error);
        for (bool better = true; better && !err;) {
            better = false;
            for (uint32_t way = 0; way < T2_WAYS && !err; way++)
                for (uint32_t stage = 1; stage < T2_STAGES && !err; stage++) err = try_stage(q, way, stage, &best, &better, error);
        }
        if (!err) err = measure(q, &best, &iteration_ns, error);
        if (err) return err;
        if (best < CUT_OFF && iteration_ns < *least) *least = iteration_ns;
    }
    return BRAID_OK;
}

// The paths that braid's data peers would plan with knowledge of every line
// (src/routing/schedule/schedule.h): no oracle is slower than these.
braid_err t2_search_schedule(search *q, const scenario *s, int64_t *least, braid_error *error) {
    schedule *plan = schedule_init(q->schedule, T2_STAGES);
    uint32_t index[T2_PEERS], count = 0;
    int64_t iteration_ns, done[T2_WAYS];
    for (uint16_t stage = 0; stage < T2_STAGES; stage++)
        for (uint32_t i = 0; i < q->members[stage]; i++) {
            uint32_t who = q->member[stage][i];
            index[who] = schedule_peer_add(plan, (schedule_peer){count++, stage, s->peer[who].capacity});
            q->who[index[who]] = who;
        }
    for (uint16_t stage = 0; stage < T2_STAGES; stage++)
        for (uint32_t i = 0; i < q->members[stage]; i++)
            for (uint32_t k = 0, next = (stage + 1u) % T2_STAGES; k < q->members[next]; k++) {
                uint32_t from = q->member[stage][i], to = q->member[next][k], there = from * T2_PEERS + to, back = to * T2_PEERS + from;
                int64_t both = q->latency_ns[there] + q->transfer_ns[there] + q->latency_ns[back] + q->transfer_ns[back];
                schedule_line(plan, index[from], index[to], both / 2000);
            }
    for (uint32_t way = 0; way < T2_WAYS; way++) schedule_way_add(plan, index[q->member[0][way % q->members[0]]]);
    if (!schedule_search(plan)) return BRAID_OK;
    for (uint32_t way = 0; way < T2_WAYS; way++)
        for (uint32_t stage = 0; stage < T2_LENGTH; stage++) {
            uint32_t who = q->who[schedule_member(plan, way, stage % T2_STAGES)];
            set_hop(q, way * T2_LENGTH + stage, (hop){who, who});
        }
    braid_err err = pipeline_run(&q->p, &iteration_ns, done, NULL, error);
    if (!err && iteration_ns < *least) *least = iteration_ns;
    return err;
}

// Bits per second between two peers by all routes at once: direct, and through each forwarder.
static uint64_t all_ways_bps(const search *q, const scenario *s, uint32_t from, uint32_t to) {
    scenario_link straight, there, on;
    scenario_link_of(s, from, to, &straight);
    uint64_t bps = straight.bps;
    for (uint32_t by = 0; by < T2_PEERS; by++) {
        if (by == from || by == to || q->peer[by].forward_ns == 0) continue;
        scenario_link_of(s, from, by, &there);
        scenario_link_of(s, by, to, &on);
        bps += there.bps < on.bps ? there.bps : on.bps;
    }
    return bps;
}

// Each member adds up an equal share of its stage: sums go to it, then its results to the others.
// Each pair uses all routes at once, as if no other peer used their lines.
static int64_t exchange_ns(const search *q, const scenario *s) {
    int64_t longest = 0;
    for (uint32_t stage = 0; stage < T2_STAGES; stage++) {
        uint32_t n = q->members[stage];
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n; k++) {
                scenario_link link;
                uint32_t from = q->member[stage][i], to = q->member[stage][k];
                if (i == k) continue;
                scenario_link_of(s, from, to, &link);
                int64_t once = (int64_t)link.latency_ns + send_ns(s->stage[stage].parameters * SUM_BYTES / n, all_ways_bps(q, s, from, to));
                longest = 2 * once > longest ? 2 * once : longest;
            }
    }
    return longest;
}

void t2_search_set(search *q, const scenario *s, const t2_presence *there) {
    memset(q->members, 0, sizeof q->members);
    memset(q->stay, 0, sizeof q->stay);
    memset(q->peer, 0, sizeof q->peer);
    set_peers(q, s, there);
    set_links(q, s);
}

braid_err t2_search_open(const scenario *s, const t2_presence *there, search **out, braid_error *error) {
    search *q = *out = calloc(1, sizeof *q);
    if (q != NULL) q->schedule = malloc(schedule_bytes());
    if (q == NULL || q->schedule == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for T2's oracle");
    t2_search_set(q, s, there);
    q->p = (pipeline){.peers = T2_PEERS, .microbatches = T2_WAYS, .length = T2_LENGTH, .link = PIPELINE_PAIR, .peer = q->peer,
                      .latency_ns = q->latency_ns, .transfer_ns = q->transfer_ns, .path = q->path, .back = q->back,
                      .passed_ns = q->passed_ns};
    return BRAID_OK;
}

uint32_t t2_search_empty(const search *q) {
    uint32_t at = 0;
    while (at < T2_STAGES && q->members[at] > 0) at++;
    return at;
}

void t2_search_close(search *q) {
    if (q != NULL) free(q->schedule);
    free(q);
}

braid_err t2_oracle(const scenario *s, const uint16_t *stage, t2_time *out, braid_error *error) {
    t2_presence there[T2_PEERS];
    for (uint32_t i = 0; i < T2_PEERS; i++) there[i] = (t2_presence){.stage = stage[i], .until_ns = INT64_MAX};
    search *q;
    int64_t least = 0;
    braid_err err = t2_search_open(s, there, &q, error);
    if (!err && t2_search_empty(q) < T2_STAGES) err = braid_fail(error, BRAID_ARGUMENT, "stage %u is empty", t2_search_empty(q));
    if (!err) err = find_ways(q, &least, error);
    if (!err) err = t2_search_schedule(q, s, &least, error);
    if (!err) *out = (t2_time){(uint64_t)least, (uint64_t)exchange_ns(q, s)};
    t2_search_close(q);
    return err;
}

braid_err t2_foresight(const scenario *s, const t2_presence there[T2_PEERS], int64_t *ways_ns, braid_error *error) {
    search *q;
    braid_err err = t2_search_open(s, there, &q, error);
    *ways_ns = INT64_MAX;
    if (!err && t2_search_empty(q) == T2_STAGES) err = find_ways(q, ways_ns, error);
    t2_search_close(q);
    return err;
}
