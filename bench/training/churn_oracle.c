// The oracle of churn-trace: placement of the live machines and time of an iteration; restarts from
// a checkpoint at that pace.
#include "bench/training/churn_trace.h"

#include "routing/schedule/schedule.h"
#include "wire/limits.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRY_EFFORT = SCHEDULE_EFFORT / 16,  // of the search of paths for one placement
    PASSES = 3,                         // over all machines and stages
    PEERS = T2_DATA + CHURN_TRACE_MAX_NODES,
    STATE_BYTES = 3 * sizeof(float),  // of a parameter: the weight and both moments
};

typedef struct oracle {
    const scenario *s;
    schedule *plan;
    int64_t *tensor_us;     // [peers][peers]
    uint16_t stage[PEERS];  // SIM_SWARM_ABSENT: not there
    uint32_t index[PEERS];  // in the plan
} oracle;

static int64_t way_us(const scenario *s, uint32_t from, uint32_t to, uint64_t bytes) {
    scenario_link link;
    scenario_link_of(s, from, to, &link);
    return (int64_t)((double)link.latency_ns / 1e3 + (double)link.jitter_ns / 2e3 +
                     (double)bytes * 8e6 / (double)link.bps);
}

static braid_err oracle_open(const scenario *s, oracle *o, braid_error *error) {
    *o = (oracle){
        .s = s, .plan = malloc(schedule_bytes()), .tensor_us = calloc((size_t)s->peers * s->peers, sizeof(int64_t))};
    if (o->plan == NULL || o->tensor_us == NULL)
        return braid_fail(error, BRAID_MEMORY, "no memory for the oracle of %u peers", s->peers);
    for (uint32_t i = 0; i < s->peers; i++) {
        o->stage[i] = i < T2_DATA ? 0 : SIM_SWARM_ABSENT;
        for (uint32_t k = 0; k < s->peers; k++)
            if (i != k) o->tensor_us[i * s->peers + k] = way_us(s, i, k, s->activation_bytes);
    }
    return BRAID_OK;
}

static void oracle_close(oracle *o) {
    free(o->plan);
    free(o->tensor_us);
}

static int64_t compute_us(const oracle *o, uint32_t peer) {
    uint16_t stage = o->stage[peer];
    uint64_t both = scenario_cost_ns(o->s, peer, stage, WORK_FORWARD) +
                    scenario_cost_ns(o->s, peer, stage, WORK_BACKWARD);
    return (int64_t)(both / 2000);
}

static void add_lines(oracle *o) {
    uint32_t peers = o->s->peers;
    for (uint32_t a = 0; a < peers; a++)
        for (uint32_t b = 0; b < peers; b++) {
            if (a == b || o->stage[a] == SIM_SWARM_ABSENT || o->stage[b] == SIM_SWARM_ABSENT) continue;
            int64_t way = o->tensor_us[a * peers + b];
            schedule_tensor(o->plan, o->index[a], o->index[b], way);
            if (o->stage[b] == (o->stage[a] + 1) % T2_STAGES)
                schedule_line(o->plan, o->index[a], o->index[b], way + compute_us(o, b));
        }
}

// The time of an iteration with these stages; INT64_MAX: a stage is empty.
static int64_t time_us(oracle *o, uint64_t effort) {
    schedule_init(o->plan, T2_STAGES);
    for (uint32_t i = 0; i < o->s->peers; i++)
        if (o->stage[i] != SIM_SWARM_ABSENT)
            o->index[i] = schedule_peer_add(o->plan, (schedule_peer){i + 1u, o->stage[i], o->s->peer[i].capacity});
    add_lines(o);
    schedule_pieces(o->plan, WIRE_MAX_PIECES);
    for (uint32_t m = 0; m < T2_DATA * T2_MICROBATCHES; m++)
        if (!schedule_way_add(o->plan, o->index[m % T2_DATA])) return INT64_MAX;
    return schedule_search_within(o->plan, effort) ? schedule_time(o->plan) : INT64_MAX;
}

// Tries the machine in each stage, and leaves it in the best one.
static bool try_stages(oracle *o, uint32_t peer, int64_t *best) {
    uint16_t before = o->stage[peer], found = before;
    for (uint16_t s = 1; s < T2_STAGES; s++) {
        if (s == before) continue;
        o->stage[peer] = s;
        int64_t time = time_us(o, TRY_EFFORT);
        if (time >= *best) continue;
        *best = time;
        found = s;
    }
    o->stage[peer] = found;
    return found != before;
}

// Exchanges the stages of two machines if that is better.
static bool try_trade(oracle *o, uint32_t a, uint32_t b, int64_t *best) {
    uint16_t of_a = o->stage[a], of_b = o->stage[b];
    if (of_a == of_b) return false;
    o->stage[a] = of_b;
    o->stage[b] = of_a;
    int64_t time = time_us(o, TRY_EFFORT);
    if (time < *best) {
        *best = time;
        return true;
    }
    o->stage[a] = of_a;
    o->stage[b] = of_b;
    return false;
}

// The live machine without which its stage still has one; PEERS: none.
static uint32_t spare(const oracle *o) {
    uint32_t members[T2_STAGES] = {0}, found = PEERS;
    for (uint32_t i = T2_DATA; i < o->s->peers; i++)
        if (o->stage[i] != SIM_SWARM_ABSENT) members[o->stage[i]]++;
    for (uint32_t i = T2_DATA; i < o->s->peers; i++)
        if (o->stage[i] != SIM_SWARM_ABSENT && (found == PEERS || members[o->stage[i]] > members[o->stage[found]]))
            found = i;
    return found != PEERS && members[o->stage[found]] > 1 ? found : PEERS;
}

// Gives each empty stage a machine.
static bool fill_stages(oracle *o) {
    for (uint16_t s = 1; s < T2_STAGES; s++) {
        bool empty = true;
        for (uint32_t i = T2_DATA; i < o->s->peers; i++) empty &= o->stage[i] != s;
        uint32_t from = empty ? spare(o) : 0;
        if (from == PEERS) return false;
        if (empty) o->stage[from] = s;
    }
    return true;
}

static int64_t place_us(oracle *o) {
    if (!fill_stages(o)) return INT64_MAX;
    int64_t best = time_us(o, TRY_EFFORT);
    bool better = true;
    for (uint32_t pass = 0; pass < PASSES && better; pass++) {
        better = false;
        for (uint32_t i = T2_DATA; i < o->s->peers; i++)
            if (o->stage[i] != SIM_SWARM_ABSENT) better |= try_stages(o, i, &best);
        for (uint32_t i = T2_DATA; i < o->s->peers; i++)
            for (uint32_t k = T2_DATA; k < i; k++)
                if (o->stage[i] != SIM_SWARM_ABSENT && o->stage[k] != SIM_SWARM_ABSENT)
                    better |= try_trade(o, i, k, &best);
    }
    int64_t full = time_us(o, SCHEDULE_EFFORT);
    return full < best ? full : best;
}

braid_err t2_best_stages(const scenario *s, const uint16_t *stage, uint64_t *now_ns, uint64_t *best_ns,
                         braid_error *error) {
    oracle o;
    braid_err err = oracle_open(s, &o, error);
    for (uint32_t i = 0; i < s->peers && !err; i++) o.stage[i] = stage[i];
    int64_t now = err ? 0 : time_us(&o, SCHEDULE_EFFORT), best = err ? 0 : place_us(&o);
    *now_ns = (uint64_t)now * 1000;
    *best_ns = (uint64_t)(best < now ? best : now) * 1000;
    oracle_close(&o);
    return err;
}

// The longest fetch of a stage's state, each from the data peer with the faster line.
static uint64_t state_ns(const oracle *o) {
    int64_t longest = 0;
    for (uint32_t i = T2_DATA; i < o->s->peers; i++) {
        if (o->stage[i] == SIM_SWARM_ABSENT) continue;
        int64_t least = INT64_MAX;
        for (uint32_t d = 0; d < T2_DATA; d++) {
            int64_t way = way_us(o->s, d, i, o->s->stage[o->stage[i]].parameters * STATE_BYTES);
            if (way < least) least = way;
        }
        if (least > longest) longest = least;
    }
    return (uint64_t)longest * 1000;
}

// A machine that arrives begins in the last stage; the search moves it.
static void apply_event(oracle *o, const churn_trace_event *e) {
    o->stage[T2_DATA + e->node] = e->adds ? T2_STAGES - 1 : SIM_SWARM_ABSENT;
}

// Too few machines for all stages do nothing.
static void add_span(oracle *o, uint64_t from_ns, uint64_t until_ns, churn_span *span) {
    uint32_t live = 0;
    for (uint32_t i = T2_DATA; i < o->s->peers; i++) live += o->stage[i] != SIM_SWARM_ABSENT;
    int64_t time = place_us(o);
    *span = (churn_span){.from_ns = from_ns,
                         .until_ns = until_ns,
                         .live = live,
                         .iteration_ns = time == INT64_MAX ? CHURN_SPAN_NEVER : (uint64_t)time * 1000,
                         .state_ns = state_ns(o)};
}

// More machines never take longer, since they may stay idle.
static void join_spans(churn_span *span, uint32_t spans) {
    for (uint32_t i = 1; i < spans; i++)
        if (span[i].arrivals_only && span[i].iteration_ns > span[i - 1].iteration_ns)
            span[i].iteration_ns = span[i - 1].iteration_ns;
    for (uint32_t i = spans; i-- > 1;)
        if (span[i].deaths_only && span[i - 1].iteration_ns > span[i].iteration_ns)
            span[i - 1].iteration_ns = span[i].iteration_ns;
}

braid_err churn_trace_spans(const churn_trace *t, const t2_case *c, uint64_t end_ns, churn_span *span, uint32_t *spans,
                            braid_error *error) {
    scenario *s;
    oracle o;
    uint64_t from_ns = 0;
    *spans = 0;
    braid_err err = churn_trace_scenario(t, c, T2_BRAID, &s, error);
    if (err) return err;
    err = oracle_open(s, &o, error);
    for (uint32_t i = 0, live = 0; i < t->nodes && !err; i++)
        if (t->first[i]) o.stage[T2_DATA + i] = (uint16_t)(1 + live++ % (T2_STAGES - 1));
    for (uint32_t at = 0; from_ns < end_ns && !err;) {
        bool came = false, died = false;
        for (; at < t->events && t->event[at].at_ns <= from_ns; at++) {
            came |= t->event[at].adds;
            died |= !t->event[at].adds;
            apply_event(&o, &t->event[at]);
        }
        uint64_t until_ns = at < t->events && t->event[at].at_ns < end_ns ? t->event[at].at_ns : end_ns;
        add_span(&o, from_ns, until_ns, &span[*spans]);
        span[*spans].arrivals_only = came && !died;
        span[*spans].deaths_only = died && !came;
        ++*spans;
        from_ns = until_ns;
    }
    if (!err) join_spans(span, *spans);
    oracle_close(&o);
    scenario_free(s);
    return err;
}

double churn_trace_possible(const churn_span *span, uint32_t spans, uint64_t from_ns, uint64_t until_ns) {
    double iterations = 0;
    for (uint32_t i = 0; i < spans; i++) {
        uint64_t from = span[i].from_ns > from_ns ? span[i].from_ns : from_ns;
        uint64_t until = span[i].until_ns < until_ns ? span[i].until_ns : until_ns;
        if (from < until) iterations += (double)(until - from) / (double)span[i].iteration_ns;
    }
    return iterations;
}

// ---- restarts from a checkpoint

typedef struct restarted {
    uint64_t at_ns, saved_ns;  // now; when the last checkpoint was complete
    double done, saved;        // iterations: so far, and in the last checkpoint
    double part;               // of the present iteration
} restarted;

// The run computes with the machines of a span until the span ends. Saving takes as long as
// fetching, and the run waits for it.
static void compute_until(restarted *w, const churn_span *span, const churn_restart *r) {
    while (w->at_ns < span->until_ns) {
        double left_ns = (1 - w->part) * (double)span->iteration_ns, room_ns = (double)(span->until_ns - w->at_ns);
        if (left_ns > room_ns) {
            w->part += room_ns / (double)span->iteration_ns;
            return;
        }
        w->at_ns += (uint64_t)left_ns + 1;
        w->done++;
        w->part = 0;
        if (w->at_ns - w->saved_ns < r->interval_ns || w->at_ns + span->state_ns > span->until_ns) continue;
        w->at_ns += span->state_ns;
        w->saved_ns = w->at_ns;
        w->saved = w->done;
    }
}

double churn_trace_restart(const churn_span *span, uint32_t spans, const churn_restart *r, uint64_t end_ns) {
    restarted w = {0};
    for (uint32_t i = 0; i < spans && span[i].from_ns < end_ns; i++) {
        bool death = i > 0 && span[i].live < span[i - 1].live;
        uint64_t from_ns = span[i].from_ns > w.at_ns ? span[i].from_ns : w.at_ns;
        if (i > 0) w.at_ns = from_ns + span[i].state_ns + r->start_ns;
        if (death) {
            w.done = w.saved;
            w.part = 0;
            w.saved_ns = w.at_ns;
        }
        compute_until(&w, &span[i], r);
    }
    return w.done;
}
