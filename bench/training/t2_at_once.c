// An iteration of T2 by an oracle that knows every line but not the future. It learns of each death
// and arrival when it happens, and then plans all unsettled paths again (pipeline.h). Detection and
// messages take no time.
#include "bench/training/t2_inside.h"

#include "base/rng.h"

#include <string.h>

enum { STARTS = 8 };  // starting points of each search: the present plan, and random ones

typedef struct plan {
    uint32_t path[T2_WAYS * T2_LENGTH], back[T2_WAYS * T2_LENGTH];
} plan;

typedef struct oracle {
    t2_search *q;  // holds the paths
    const scenario *s;
    t2_presence there[T2_PEERS];  // presence at this moment
    bool came[T2_PEERS];          // it is here, or was
    pipeline_state *now, *then;   // the iteration so far, and a trial continuation
    // holder of an activation that may still be sent to another peer; T2_PEERS: none
    uint32_t waits_at[T2_WAYS];
    int64_t at_ns, redo_ns;       // this moment; end of the repetition of lost sums
} oracle;

static void take_plan(const oracle *o, plan *p) {
    memcpy(p->path, o->q->path, sizeof p->path);
    memcpy(p->back, o->q->back, sizeof p->back);
}

static void put_plan(oracle *o, const plan *p) {
    memcpy(o->q->path, p->path, sizeof p->path);
    memcpy(o->q->back, p->back, sizeof p->back);
}

// ---- one plan

static bool is_present(const oracle *o, uint32_t who) { return o->there[who].stage < T2_STAGES; }

static uint32_t visit_back(uint32_t stage) { return 2 * (T2_LENGTH - 1) - stage; }

static bool is_ahead(const oracle *o, uint32_t way, uint32_t stage) {
    return !pipeline_is_settled(o->now, way, stage) || (o->waits_at[way] < T2_PEERS && pipeline_recallable(o->now, way) == stage);
}

// True if the microbatch has not been there yet, or is to return to a peer that is gone.
static bool may_change(const oracle *o, uint32_t way, uint32_t stage) {
    if (is_ahead(o, way, stage)) return true;
    return !is_present(o, o->q->path[way * T2_LENGTH + stage]) && !pipeline_is_settled(o->now, way, visit_back(stage));
}

static uint32_t member_of(const oracle *o, uint32_t way, uint32_t stage) { return o->q->back[way * T2_LENGTH + stage]; }

static void put_member(oracle *o, uint32_t way, uint32_t stage, uint32_t who) {
    uint32_t at = way * T2_LENGTH + stage;
    if (is_ahead(o, way, stage)) o->q->path[at] = who;
    o->q->back[at] = who;
}

// Recalls activations that wait at a peer of the old plan, so that the sender sends them again.
static void recall(const oracle *o, pipeline_state *iteration) {
    for (uint32_t way = 0; way < T2_WAYS; way++) {
        uint32_t stage = pipeline_recallable(o->now, way);
        if (o->waits_at[way] < T2_PEERS && o->q->path[way * T2_LENGTH + stage] != o->waits_at[way]) pipeline_recall(iteration, way);
    }
}

// As in the oracle without crashes (t2_oracle.c).
static int64_t value_of(oracle *o) {
    pipeline_copy(o->then, o->now);
    recall(o, o->then);
    int64_t end = pipeline_play(o->then, INT64_MAX), sum = 0;
    if (!pipeline_is_done(o->then)) return INT64_MAX;
    for (uint32_t way = 0; way < T2_WAYS; way++) sum += pipeline_done_ns(o->then, way);
    return end + sum / (64 * T2_WAYS);
}

static bool is_better(oracle *o, int64_t *best) {
    int64_t value = value_of(o);
    if (value >= *best) return false;
    *best = value;
    return true;
}

static bool better_member(oracle *o, uint32_t way, uint32_t stage, int64_t *best) {
    bool better = false;
    for (uint32_t i = 0; i < o->q->members[stage]; i++) {
        uint32_t was = member_of(o, way, stage);
        if (o->q->member[stage][i] == was) continue;
        put_member(o, way, stage, o->q->member[stage][i]);
        if (is_better(o, best))
            better = true;
        else
            put_member(o, way, stage, was);
    }
    return better;
}

static bool better_swap(oracle *o, uint32_t way, uint32_t other, uint32_t stage, int64_t *best) {
    uint32_t mine = member_of(o, way, stage), theirs = member_of(o, other, stage);
    if (mine == theirs || !may_change(o, other, stage)) return false;
    put_member(o, way, stage, theirs);
    put_member(o, other, stage, mine);
    if (is_better(o, best)) return true;
    put_member(o, way, stage, mine);
    put_member(o, other, stage, theirs);
    return false;
}

static int64_t better_plan(oracle *o) {
    int64_t best = value_of(o);
    for (bool better = true; better;) {
        better = false;
        for (uint32_t way = 0; way < T2_WAYS; way++)
            for (uint32_t stage = 1; stage < T2_STAGES; stage++) {
                if (!may_change(o, way, stage)) continue;
                better |= better_member(o, way, stage, &best);
                for (uint32_t other = 0; other < way; other++) better |= better_swap(o, way, other, stage, &best);
            }
    }
    return best;
}

// 0: the rest of the present plan, with dead peers replaced.
static void start_plan(oracle *o, uint32_t start) {
    rng chance = {rng_seed(start, 9)};
    for (uint32_t way = 0; way < T2_WAYS; way++)
        for (uint32_t stage = 1; stage < T2_STAGES; stage++)
            if (may_change(o, way, stage) && (start > 0 || !is_present(o, member_of(o, way, stage))))
                put_member(o, way, stage, o->q->member[stage][rng_below(&chance, o->q->members[stage])]);
}

static void plan_anew(oracle *o) {
    plan first, found;
    int64_t best = INT64_MAX;
    take_plan(o, &first);
    for (uint32_t way = 0; way < T2_WAYS; way++) {
        uint32_t stage = pipeline_recallable(o->now, way);
        o->waits_at[way] = stage > 0 ? o->q->path[way * T2_LENGTH + stage] : T2_PEERS;
    }
    for (uint32_t start = 0; start < STARTS; start++) {
        put_plan(o, &first);
        start_plan(o, start);
        int64_t value = better_plan(o);
        if (value >= best && start > 0) continue;
        best = value;
        take_plan(o, &found);
    }
    put_plan(o, &found);
    recall(o, o->now);
    for (uint32_t way = 0; way < T2_WAYS; way++) o->waits_at[way] = T2_PEERS;
    BRAID_ASSERT(value_of(o) == best);  // the trial is reproduced
}

// ---- churn

static int64_t hop_ns(const t2_search *q, uint32_t from, uint32_t to) {
    return q->latency_ns[from * T2_PEERS + to] + q->transfer_ns[from * T2_PEERS + to];
}

// The earliest time at which another member can have both the activation and the gradient.
static int64_t redo_ns(const oracle *o, uint32_t way, uint32_t stage) {
    const t2_search *q = o->q;
    uint32_t previous = member_of(o, way, stage - 1), next = member_of(o, way, stage + 1);
    int64_t best = INT64_MAX;
    for (uint32_t i = 0; i < q->members[stage]; i++) {
        int64_t there = hop_ns(q, previous, q->member[stage][i]), back = hop_ns(q, next, q->member[stage][i]);
        int64_t both = there > back ? there : back;
        if (both < best) best = both;
    }
    return o->at_ns + best;
}

// Repeats all work that the dead peer had added, in parallel.
static void redo_sums(oracle *o, uint32_t dead, uint32_t stage) {
    for (uint32_t way = 0; way < T2_WAYS; way++) {
        if (member_of(o, way, stage) != dead || !pipeline_is_settled(o->now, way, visit_back(stage))) continue;
        int64_t done = redo_ns(o, way, stage);
        if (done > o->redo_ns) o->redo_ns = done;
    }
}

typedef struct event {
    int64_t at_ns;
    uint32_t who;
    bool dies;
} event;

static event next_event(const oracle *o, const t2_presence *there) {
    event next = {.at_ns = INT64_MAX};
    for (uint32_t who = 0; who < T2_PEERS; who++) {
        bool here = is_present(o, who), comes = !o->came[who] && there[who].stage < T2_STAGES;
        int64_t at_ns = here ? there[who].until_ns : comes ? there[who].from_ns : INT64_MAX;
        if (at_ns < next.at_ns) next = (event){at_ns, who, here};
    }
    return next;
}

static void happen(oracle *o, event e, const t2_presence *there) {
    o->at_ns = e.at_ns;
    o->came[e.who] = true;
    o->there[e.who].stage = e.dies ? SIM_SWARM_ABSENT : there[e.who].stage;
    if (e.dies) pipeline_lose(o->now, e.who);
    t2_search_set(o->q, o->s, o->there);
    if (t2_search_empty(o->q) < T2_STAGES) return;
    if (e.dies) redo_sums(o, e.who, there[e.who].stage);
    if (!pipeline_is_done(o->now)) plan_anew(o);
}

static int64_t play(oracle *o, const t2_presence *there) {
    int64_t planned = INT64_MAX;
    for (;;) {
        event e = next_event(o, there);
        planned = pipeline_play(o->now, e.at_ns);
        bool all = pipeline_is_done(o->now) && o->redo_ns < e.at_ns;
        if (all || e.at_ns == INT64_MAX || t2_search_empty(o->q) < T2_STAGES) break;
        happen(o, e, there);
    }
    return pipeline_is_done(o->now) ? planned : INT64_MAX;
}

braid_err t2_at_once(const scenario *s, const t2_presence there[T2_PEERS], int64_t *kept_ns, int64_t *ways_ns, braid_error *error) {
    oracle o = {.s = s};
    *kept_ns = *ways_ns = INT64_MAX;
    for (uint32_t who = 0; who < T2_PEERS; who++) {
        o.came[who] = there[who].from_ns == 0;
        o.there[who] = (t2_presence){.stage = o.came[who] ? there[who].stage : SIM_SWARM_ABSENT, .until_ns = INT64_MAX};
    }
    int64_t least = INT64_MAX;
    braid_err err = t2_search_open(s, o.there, &o.q, error);
    bool nobody = !err && t2_search_empty(o.q) < T2_STAGES;
    if (!err && !nobody) err = t2_search_schedule(o.q, s, &least, error);
    if (!err && !nobody) err = pipeline_open(&o.q->p, &o.now, error);
    if (!err && !nobody) err = pipeline_open(&o.q->p, &o.then, error);
    if (!err && !nobody) {
        plan_anew(&o);
        *kept_ns = play(&o, there);
        *ways_ns = *kept_ns < o.redo_ns ? o.redo_ns : *kept_ns;
    }
    pipeline_close(o.now);
    pipeline_close(o.then);
    t2_search_close(o.q);
    return err;
}
