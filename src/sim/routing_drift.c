// Links whose costs drift, and how well a run follows them.
#include "sim/routing_drift.h"

#include "sim/routing_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MILLION = 1000000,
    SECOND_ROUNDS = ROUTING_SECOND / ROUTING_ROUND,
    NS = 1000000000 / ROUTING_SECOND,  // of one unit of virtual time
    WARM_SAMPLES = 50,                 // before the drift begins
    SPIKE = 20,
};

const char *routing_told_name(routing_told told) {
    static const char *const names[ROUTING_TOLDS] = {"all", "smooth", "band"};
    return names[told];
}

typedef struct drift_link {
    rng walk, noise;
    int64_t first, cost;    // true cost: at first, now
    int64_t scale, step;    // `cost` over `first` in millionths, and what is added each second
    uint32_t leg_left;      // seconds
    measure_link measured;  // by its upstream peer
    int64_t told;
} drift_link;

typedef struct drift_run {
    routing_net net;
    const routing_drift *drift;
    routing_drift_result *out;
    routing_result during;
    drift_link *link;
    int64_t leg_ppm;                      // most that a leg changes
    int64_t *standing;                    // the latest whole flow, of the rounds
    int64_t *flow[ROUTING_FOLLOWERS];     // of this plan
    int64_t *earlier[ROUTING_FOLLOWERS];  // of the one before
    plan_link *plan;                      // the problem's links with other costs
    void *scratch;
    double error_sum;
} drift_run;

// --- costs

// A new leg; one that would leave the bounds goes the other way.
static void begin_leg(const drift_run *d, drift_link *l) {
    int64_t turn = (int64_t)rng_below(&l->walk, (uint64_t)(2 * d->leg_ppm + 1)) - d->leg_ppm;
    int64_t change = l->scale * turn / MILLION;
    int64_t end = l->scale + change;
    if (end > 2 * MILLION || end < MILLION / 2) change = -change;
    l->step = change / d->drift->leg_seconds;
    l->leg_left = d->drift->leg_seconds;
}

static void walk(const drift_run *d, drift_link *l) {
    if (l->leg_left == 0) begin_leg(d, l);
    l->leg_left--;
    l->scale += l->step;
    l->cost = l->first * l->scale / MILLION;
    if (l->cost < 1) l->cost = 1;
}

// Bell-shaped noise: the sum of four uniform numbers has a standard deviation of 1/sqrt(3).
static int64_t sample(const drift_run *d, drift_link *l) {
    int64_t sum = -2 * MILLION;
    for (int i = 0; i < 4; i++) sum += (int64_t)rng_below(&l->noise, MILLION + 1);
    int64_t noise = sum * (int64_t)d->drift->noise_ppm / MILLION * 1732 / 1000;
    int64_t value = l->cost + l->cost * noise / MILLION;
    if (rng_below(&l->noise, MILLION) < d->drift->spike_ppm) value *= SPIKE;
    if (value > ROUTER_MAX_COST) value = ROUTER_MAX_COST;
    return value < 1 ? 1 : value;
}

// The cost that routing shall be told after a further sample; 0: nothing new.
static int64_t news(const drift_run *d, drift_link *l) {
    int64_t value = sample(d, l);
    measure_round_trip(&l->measured, 2 * value * MEASURE_UNIT_NS);
    if (d->drift->told == ROUTING_TOLD_SMOOTH) value = measure_cost(&l->measured, 0, 0, 0);
    if (d->drift->told == ROUTING_TOLD_BAND) {
        if (!measure_announce(&l->measured, &d->drift->rule, d->net.now * NS, 0, 0, 0)) return 0;
        value = l->measured.cost;
    }
    return value == l->told ? 0 : value;
}

// Both ends hear it, the other one a message later.
static void tell(drift_run *d, uint32_t l, int64_t cost) {
    routing_net *n = &d->net;
    const plan_link *k = &n->instance->problem.link[l];
    d->link[l].told = cost;
    d->out->told++;
    router_cost(n->node[k->from].router, n->now, k->to + 1, ROUTER_NEXT, cost);
    routing_collect(n, k->from);
    router_message m = {.from = k->from + 1, .to = k->to + 1, .kind = (router_kind)ROUTING_TOLD, .cost = cost};
    routing_deliver(n, n->now + ROUTING_ROUND, routing_wire_between(n, k->from, k->to), &m);
}

static void open_link(drift_run *d, uint32_t l) {
    const plan_link *k = &d->net.instance->problem.link[l];
    drift_link *link = &d->link[l];
    uint64_t seed = rng_seed(rng_seed(rng_seed(d->net.instance->seed, 7), k->from), k->to);
    *link = (drift_link){.walk = {rng_seed(seed, 1)},
                         .noise = {rng_seed(seed, 2)},
                         .first = k->cost,
                         .cost = k->cost,
                         .scale = MILLION,
                         .told = k->cost};
    begin_leg(d, link);
    link->leg_left = 1 + (uint32_t)rng_below(&link->walk, d->drift->leg_seconds);  // links turn at different times
    for (int i = 0; i < WARM_SAMPLES; i++) measure_round_trip(&link->measured, 2 * sample(d, link) * MEASURE_UNIT_NS);
    link->measured.cost = k->cost;
}

// --- what is seen

static void keep(drift_run *d, uint64_t value) { d->out->hash = rng_seed(d->out->hash, value); }

// Units that go another way in `b` than in `a`, at least: the most that any layer of links gained.
static uint64_t units_moved(const plan_problem *p, const int64_t *a, const int64_t *b) {
    uint64_t most = 0;
    for (uint32_t stage = 0; stage <= p->stages; stage++) {
        int64_t gained = 0;
        for (uint32_t l = 0; l < p->links; l++)
            if (p->peer[p->link[l].from].stage == stage && b[l] > a[l]) gained += b[l] - a[l];
        if ((uint64_t)gained > most) most = (uint64_t)gained;
    }
    return most;
}

static void see_round(drift_run *d, int64_t round) {
    routing_net *n = &d->net;
    const plan_problem *p = &n->instance->problem;
    routing_look(n, round);
    if (!n->out->end.whole) {
        d->out->passing++;
        return;
    }
    if (memcmp(d->standing, n->kept, p->links * sizeof *n->kept) == 0) return;
    d->out->moved_rounds += units_moved(p, d->standing, n->kept);
    memcpy(d->standing, n->kept, p->links * sizeof *n->kept);
}

static int64_t true_cost(const drift_run *d, const int64_t *flow) {
    int64_t cost = 0;
    for (uint32_t l = 0; l < d->net.instance->problem.links; l++) cost += flow[l] * d->link[l].cost;
    return cost;
}

static void plan(drift_run *d, routing_follower follower) {
    routing_net *n = &d->net;
    plan_problem p = n->instance->problem;
    for (uint32_t l = 0; l < p.links; l++)
        d->plan[l].cost = follower == ROUTING_FOLLOW_NEWS ? d->link[l].told : d->link[l].cost;
    p.link = d->plan;
    plan_answer answer;
    braid_error error = {0};
    braid_err err = plan_relaxed(&p, n->units, d->scratch, d->flow[follower], &answer, &error);
    if (err) routing_net_fail(n, err, "%s", error.text);
}

static void see_plans(drift_run *d, bool look) {
    const plan_problem *p = &d->net.instance->problem;
    memcpy(d->flow[ROUTING_FOLLOW_RUN], d->standing, p->links * sizeof *d->standing);
    plan(d, ROUTING_FOLLOW_NEWS);
    plan(d, ROUTING_FOLLOW_OPTIMUM);
    int64_t best = true_cost(d, d->flow[ROUTING_FOLLOW_OPTIMUM]);
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) {
        routing_followed *followed = &d->out->follower[f];
        followed->moved += units_moved(p, d->earlier[f], d->flow[f]);
        memcpy(d->earlier[f], d->flow[f], p->links * sizeof *d->flow[f]);
        if (!look) continue;
        int64_t cost = true_cost(d, d->flow[f]);
        double ratio = (double)cost / (double)best;
        followed->ratio[d->out->looks] = ratio;
        followed->mean += ratio;
        if (ratio > followed->worst) followed->worst = ratio;
        keep(d, (uint64_t)cost);
    }
    d->out->looks += look;
    for (uint32_t l = 0; l < p->links; l++)
        d->error_sum += fabs((double)(d->link[l].told - d->link[l].cost)) / (double)d->link[l].cost;
}

// --- the run

static braid_err open_run(drift_run *d) {
    const plan_problem *p = &d->net.instance->problem;
    uint32_t looks = d->drift->seconds / d->drift->look_seconds;
    d->link = calloc(p->links, sizeof *d->link);
    d->plan = calloc(p->links, sizeof *d->plan);
    d->standing = calloc(p->links, sizeof *d->standing);
    d->scratch = malloc(plan_relaxed_bytes(p));
    bool missing = d->link == NULL || d->plan == NULL || d->standing == NULL || d->scratch == NULL;
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) {
        d->flow[f] = calloc(p->links, sizeof **d->flow);
        d->earlier[f] = calloc(p->links, sizeof **d->earlier);
        d->out->follower[f].ratio = calloc(looks + 1, sizeof *d->out->follower[f].ratio);
        missing |= d->flow[f] == NULL || d->earlier[f] == NULL || d->out->follower[f].ratio == NULL;
    }
    if (missing) return BRAID_MEMORY;
    memcpy(d->plan, p->link, p->links * sizeof *d->plan);
    double legs = (double)d->drift->leg_seconds / 60;
    d->leg_ppm = (int64_t)(sqrt(legs) * d->drift->drift_ppm);
    for (uint32_t l = 0; l < p->links; l++) open_link(d, l);
    return BRAID_OK;
}

static void close_run(drift_run *d) {
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) {
        free(d->flow[f]);
        free(d->earlier[f]);
    }
    free(d->link);
    free(d->plan);
    free(d->standing);
    free(d->scratch);
    routing_result_close(&d->during);
}

static void run_drift(drift_run *d) {
    routing_net *n = &d->net;
    const plan_problem *p = &n->instance->problem;
    n->out = &d->during;
    n->start = n->now;
    memcpy(d->standing, n->kept, p->links * sizeof *d->standing);
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) memcpy(d->earlier[f], d->standing, p->links * sizeof *d->standing);
    for (uint32_t second = 1; second <= d->drift->seconds && !n->failed; second++) {
        for (uint32_t r = 0; r < SECOND_ROUNDS; r++) {
            for (uint32_t l = r; l < p->links; l += SECOND_ROUNDS) {
                walk(d, &d->link[l]);
                if ((second + l) % d->drift->sample_seconds != 0) continue;
                int64_t cost = news(d, &d->link[l]);
                if (cost != 0) tell(d, l, cost);
            }
            int64_t round = (int64_t)(second - 1) * SECOND_ROUNDS + r + 1;
            routing_events_until(n, n->start + round * ROUTING_ROUND);
            see_round(d, round);
        }
        if (second % d->drift->plan_seconds == 0) see_plans(d, second % d->drift->look_seconds == 0);
    }
}

static void sum_up(drift_run *d) {
    routing_drift_result *out = d->out;
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS && out->looks > 0; f++) out->follower[f].mean /= out->looks;
    out->messages = d->during.messages;
    out->frames = d->during.frames;
    out->bytes = d->during.bytes;
    out->over_capacity = out->before.over_capacity + d->during.over_capacity;
    out->error = d->error_sum / (d->drift->seconds / d->drift->plan_seconds) / d->net.instance->problem.links;
    keep(d, out->before.hash);
    keep(d, d->during.hash);
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) keep(d, out->follower[f].moved);
}

static braid_err check(const routing_instance *instance, const routing_drift *drift, braid_error *error) {
    if (instance->sources != 1)
        return braid_fail(error, BRAID_ARGUMENT, "%u data peers; drift is compared with the exact optimum of one",
                          instance->sources);
    bool bad = drift->seconds < 1 || drift->seconds > ROUTING_MAX_DRIFT_SECONDS || drift->look_seconds < 1 ||
               drift->sample_seconds < 1;
    bad |= drift->plan_seconds < 1 || drift->look_seconds % drift->plan_seconds != 0;
    if (bad || drift->leg_seconds < 1 || drift->leg_seconds > ROUTING_MAX_DRIFT_SECONDS || drift->drift_ppm > MILLION)
        return braid_fail(error, BRAID_ARGUMENT,
                          "drift lasts 1 to %d s, in legs of as many, is at most 100 %% a minute, and there is a look "
                          "at every so manieth plan",
                          ROUTING_MAX_DRIFT_SECONDS);
    return BRAID_OK;
}

braid_err routing_run_drift(const routing_instance *instance, const routing_settings *settings,
                            const routing_drift *drift, int64_t units, routing_drift_result *out, braid_error *error) {
    *out = (routing_drift_result){.before = {.whole = -1, .near = -1}};
    braid_err err = check(instance, drift, error);
    if (err) return err;
    drift_run d = {.drift = drift, .out = out, .during = {.whole = -1, .near = -1}};
    routing_net *n = &d.net;
    err = routing_net_open(n, instance, settings, NULL, units, &out->before, error);
    if (!err) {
        for (uint32_t i = 0; i < n->peers; i++) routing_collect(n, i);
        routing_events(n);
        routing_look_end(n);
        if (!n->failed && !(out->before.quiet && out->before.end.whole))
            routing_net_fail(n, BRAID_STATE, "routing was not quiet and whole after %lld rounds",
                             (long long)settings->limit_rounds);
        if (!n->failed && open_run(&d) != BRAID_OK)
            routing_net_fail(n, BRAID_MEMORY, "no memory for a drift of %u links", instance->problem.links);
    }
    if (!err && !n->failed) {
        run_drift(&d);
        sum_up(&d);
    }
    routing_drain(n);
    err = err ? err : n->failed ? error->code : BRAID_OK;
    close_run(&d);
    routing_net_close(n);
    if (err) routing_drift_result_close(out);
    return err;
}

void routing_drift_result_close(routing_drift_result *result) {
    routing_result_close(&result->before);
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) free(result->follower[f].ratio);
    *result = (routing_drift_result){0};
}
