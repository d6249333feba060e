// Churn: the moments at which peers crash, leave and join. Each peer has its own random numbers, so
// that its fate does not depend on other peers. Random churn never takes the last holder of a
// stage's state (docs/protocol.md, Known limits); such a crash is skipped. Events of the scenario
// are always carried out.
#include "sim/swarm/inside.h"

#include <math.h>

static const uint64_t DELAY_NS = 10 * SWARM_S;

static bool is_subject_to_churn(const swarm *w, uint32_t number) { return scenario_set_has(&w->s->churn.subjects, w->peer[number].index); }

static void plan(swarm *w, uint64_t at_ns, uint32_t number, scenario_event_kind what, bool chance) {
    swarm_item *item = swarm_item_new(SWARM_CHURN, number, 0);
    item->what = (uint8_t)what;
    item->refused = chance;  // random events may be skipped
    item->incarnation = w->peer[number].incarnation;
    swarm_put(w, at_ns, item);
}

static scenario_event_kind death(const swarm *w) { return w->s->churn.kill ? SCENARIO_KILL : SCENARIO_CRASH; }

void swarm_churn_plan(swarm *w) {
    for (uint32_t i = 0; i < w->peers; i++) {
        uint64_t start = w->peer[i].s->start_ns;
        if (start != UINT64_MAX) swarm_put(w, SWARM_BEGIN_NS + start, swarm_item_new(SWARM_START, i, 0));
    }
    uint32_t *by_index = w->by_index;
    for (uint32_t i = 0; i < w->s->churn.event_count; i++) {
        const scenario_event *e = &w->s->churn.event[i];
        plan(w, SWARM_BEGIN_NS + e->at_ns, by_index[e->peer], e->kind, false);
    }
    for (uint32_t i = 0; i < w->s->partitions; i++) {
        const scenario_partition *p = &w->s->partition[i];
        swarm_put(w, SWARM_BEGIN_NS + p->start_ns, swarm_item_new(SWARM_LINES, 0, 0));
        if (p->stop_ns != UINT64_MAX) swarm_put(w, SWARM_BEGIN_NS + p->stop_ns, swarm_item_new(SWARM_LINES, 0, 0));
    }
}

// GWTF's churn: each living relay crashes with one probability at some moment of the iteration, and
// each dead relay rejoins with another. The moment is drawn over the duration of the previous
// iteration.
void swarm_churn_iteration(swarm *w) {
    const scenario_churn *c = &w->s->churn;
    uint64_t span = w->last_ns ? w->last_ns : swarm_round_trip_ns(w);
    for (uint32_t i = 0; i < w->peers; i++) {
        swarm_peer *p = &w->peer[i];
        if (!is_subject_to_churn(w, i)) continue;
        // both are always drawn, so that later draws do not depend on earlier events
        double chance = rng_unit(&p->churn);
        uint64_t at = w->core->now + (uint64_t)(rng_unit(&p->churn) * (double)span);
        if (p->alive && chance < c->crash) plan(w, at, i, death(w), true);
        if (!p->alive && p->incarnation > 0 && chance < c->rejoin) plan(w, at, i, SCENARIO_JOIN, false);
    }
}

static uint64_t exponential_ns(rng *r, uint64_t mean_ns) { return (uint64_t)(-log(1 - rng_unit(r)) * (double)mean_ns); }

// Weibull's scale follows from the mean: mean = scale * gamma(1 + 1 / shape).
static uint64_t session_ns(rng *r, const scenario_churn *c) {
    if (c->sessions == SESSIONS_EXPONENTIAL) return exponential_ns(r, c->session_mean_ns);
    double scale = (double)c->session_mean_ns / tgamma(1 + 1 / c->session_shape);
    return (uint64_t)(scale * pow(-log(1 - rng_unit(r)), 1 / c->session_shape));
}

void swarm_churn_started(swarm *w, uint32_t number) {
    const scenario_churn *c = &w->s->churn;
    if (c->sessions == SESSIONS_NONE || !is_subject_to_churn(w, number)) return;
    plan(w, w->core->now + session_ns(&w->peer[number].churn, c), number, death(w), true);
}

static void session_over(swarm *w, uint32_t number) {
    const scenario_churn *c = &w->s->churn;
    if (c->sessions == SESSIONS_NONE || c->away_mean_ns == 0) return;
    plan(w, w->core->now + exponential_ns(&w->peer[number].churn, c->away_mean_ns), number, SCENARIO_JOIN, false);
}

// A death of the trace that would take the last state of a stage is tried again later, until the
// leader has placed another peer there.
static bool delays_death(swarm *w, const swarm_item *item) {
    const swarm_peer *p = &w->peer[item->peer];
    if (!w->s->churn.keeps_last || !p->alive || sim_crash_allowed(w->core, p->node)) return false;
    swarm_item *again = swarm_item_new(SWARM_CHURN, item->peer, 0);
    again->what = item->what;
    again->incarnation = item->incarnation;
    again->serial = item->serial + 1;
    w->out->delayed += item->serial == 0;
    w->out->delayed_ns += DELAY_NS;
    swarm_put(w, w->core->now + DELAY_NS, again);
    return true;
}

void swarm_churn_item(swarm *w, const swarm_item *item) {
    swarm_peer *p = &w->peer[item->peer];
    bool dies = item->what == SCENARIO_CRASH || item->what == SCENARIO_KILL;
    if (item->refused) {
        if (!p->alive || p->incarnation != item->incarnation) return;
        if (!sim_crash_allowed(w->core, p->node)) {
            // the crash would have emptied a stage; try again when other peers may have joined it
            if (w->s->churn.sessions != SESSIONS_NONE) plan(w, w->core->now + 10 * SWARM_S, item->peer, (scenario_event_kind)item->what, true);
            return;
        }
    }
    if (dies && !item->refused && delays_death(w, item)) return;
    switch ((scenario_event_kind)item->what) {
    case SCENARIO_CRASH:
    case SCENARIO_KILL: swarm_die(w, item->peer, item->what == SCENARIO_CRASH); break;
    case SCENARIO_LEAVE: swarm_leave(w, item->peer); break;
    case SCENARIO_PAUSE: swarm_pause(w, item->peer); break;
    case SCENARIO_RESUME: swarm_resume(w, item->peer); break;
    default: swarm_start(w, item->peer); break;
    }
    if (dies && item->refused) session_over(w, item->peer);
}
