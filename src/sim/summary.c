#include "sim/summary.h"

#include "format/quantity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Below this share of the time nothing counts as busy.
static const double BUSY = 0.5;

const char *sim_limit_name(sim_limit limit) {
    static const char *const names[SIM_LIMITS] = {"compute", "up", "down", "capacity", "distance", "sums", "update"};
    return limit < SIM_LIMITS ? names[limit] : "?";
}

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

// ---- times

static void sum_times(const scenario *s, const sim_swarm_report *r, sim_summary *out) {
    double sum = 0, squares = 0, pipeline = 0, counted = 0;
    for (uint32_t i = 0; i < r->iterations; i++) {
        const sim_swarm_iteration *t = &r->iteration[i];
        double took = seconds(t->end_ns - t->start_ns);
        bool closed = t->close_ns >= t->start_ns && t->close_ns <= t->end_ns;
        sum += took;
        pipeline += closed ? seconds(t->close_ns - t->start_ns) : took;
        counted += t->microbatches;
        if (i > 0 && took <= out->worst_s) continue;
        out->worst_s = took;
        out->worst = t->iteration;
    }
    out->mean_s = sum / r->iterations;
    for (uint32_t i = 0; i < r->iterations; i++) {
        double off = seconds(r->iteration[i].end_ns - r->iteration[i].start_ns) - out->mean_s;
        squares += off * off;
    }
    out->sd_s = r->iterations > 1 ? sqrt(squares / (r->iterations - 1)) : 0;
    out->pipeline_s = pipeline / r->iterations;
    out->update_s = out->mean_s - out->pipeline_s;
    out->tokens_per_s = sum > 0 ? counted * s->sequences * s->tokens / sum : 0;
}

// ---- stages

// A peer of the scenario and its entry in the report.
typedef struct pair {
    const scenario_peer *peer;
    const sim_swarm_peer *seen;
} pair;

// Pairs in the order of the scenario; the report is sorted by name.
static uint32_t pair_up(const scenario *s, const sim_swarm_report *r, pair pairs[SCENARIO_MAX_PEERS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->peers; i++) {
        uint32_t k = 0;
        while (k < r->peers && strcmp(r->peer[k].name, s->peer[i].name) != 0) k++;
        if (k < r->peers && r->peer[k].ever_member && r->peer[k].stage < s->stages)
            pairs[count++] = (pair){&s->peer[i], &r->peer[k]};
    }
    return count;
}

// The share of a stage's members on this machine. Their transfers to its peers need no line.
static double local_share(const pair *pairs, uint32_t count, uint16_t stage, uint32_t machine) {
    double members = 0, local = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (pairs[i].seen->stage != stage) continue;
        members++;
        local += pairs[i].peer->machine == machine;
    }
    return members > 0 ? local / members : 0;
}

// Seconds of a machine's line for the tensors of its peers' microbatches. The activation goes
// forward and the gradient backward, equally large; both come in and both go out.
static void sum_needs(const scenario *s, const pair *pairs, uint32_t count, double up_s[], double down_s[]) {
    memset(up_s, 0, SCENARIO_MAX_MACHINES * sizeof *up_s);
    memset(down_s, 0, SCENARIO_MAX_MACHINES * sizeof *down_s);
    for (uint32_t i = 0; i < count && s->stages > 1; i++) {
        uint32_t machine = pairs[i].peer->machine;
        uint16_t stage = pairs[i].seen->stage, stages = s->stages;
        const scenario_machine *m = &s->machine[machine];
        double away = 2 - local_share(pairs, count, (uint16_t)((stage + 1) % stages), machine) -
                      local_share(pairs, count, (uint16_t)((stage + stages - 1) % stages), machine);
        double bits = away * 8 * (double)s->activation_bytes * pairs[i].seen->microbatches;
        if (m->up_bps > 0) up_s[machine] += bits / (double)m->up_bps;
        if (m->down_bps > 0) down_s[machine] += bits / (double)m->down_bps;
    }
}

static void sum_stages(const scenario *s, const sim_swarm_report *r, const pair *pairs, uint32_t count,
                       sim_summary *out) {
    double up_s[SCENARIO_MAX_MACHINES], down_s[SCENARIO_MAX_MACHINES];
    double alive[SCENARIO_MAX_STAGES] = {0}, useful = 0, wasted = 0;
    // of a peer's time alive, the part with microbatches under way
    double part = r->virtual_ns > 0 ? out->pipeline_s * r->iterations / seconds(r->virtual_ns) : 0;
    sum_needs(s, pairs, count, up_s, down_s);
    for (uint32_t i = 0; i < count; i++) {
        const sim_swarm_peer *p = pairs[i].seen;
        sim_stage_summary *at = &out->stage[p->stage];
        double up = seconds(p->up_ns);
        alive[p->stage] += up;
        at->peers++;
        at->capacity += pairs[i].peer->capacity;
        at->microbatches += p->microbatches;
        at->busy += seconds(p->busy_ns);
        at->up += p->up_share * up;
        at->down += p->down_share * up;
        at->compute += seconds(p->useful_ns + p->wasted_ns);
        at->need_up += up_s[pairs[i].peer->machine];
        at->need_down += down_s[pairs[i].peer->machine];
        useful += seconds(p->useful_ns);
        wasted += seconds(p->wasted_ns);
    }
    out->wasted = useful + wasted > 0 ? wasted / (useful + wasted) : 0;
    for (uint16_t i = 0; i < s->stages; i++) {
        sim_stage_summary *at = &out->stage[i];
        double whole = alive[i] > 0 ? alive[i] : 1, under_way = part > 0 ? whole * part : whole;
        at->busy /= whole;
        at->up /= whole;
        at->down /= whole;
        at->compute /= under_way;
        at->need_up /= under_way;
        at->need_down /= under_way;
    }
}

// ---- the round trip of one microbatch in an idle swarm

typedef struct round_trip {
    double compute_s, latency_s, send_s;
} round_trip;

// Adds the mean transfer from members of one stage to those of another.
static void add_hop(const scenario *s, const pair *pairs, uint32_t count, uint16_t from, uint16_t to,
                    round_trip *trip) {
    double latency = 0, send = 0, ways = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count && pairs[i].seen->stage == from; k++) {
            if (i == k || pairs[k].seen->stage != to) continue;
            scenario_link link;
            scenario_link_of(s, (uint32_t)(pairs[i].peer - s->peer), (uint32_t)(pairs[k].peer - s->peer), &link);
            bool inside = pairs[i].peer->machine == pairs[k].peer->machine;
            uint64_t up = s->machine[pairs[i].peer->machine].up_bps, down = s->machine[pairs[k].peer->machine].down_bps;
            uint64_t bps = link.bps;
            if (!inside && up > 0 && (bps == 0 || up < bps)) bps = up;
            if (!inside && down > 0 && (bps == 0 || down < bps)) bps = down;
            latency += seconds(link.latency_ns);
            send += bps > 0 ? 8.0 * (double)s->activation_bytes / (double)bps : 0;
            ways++;
        }
    }
    if (ways <= 0) return;
    trip->latency_s += latency / ways;
    trip->send_s += send / ways;
}

static round_trip measure_trip(const scenario *s, const pair *pairs, uint32_t count) {
    round_trip trip = {0};
    for (uint16_t stage = 0; stage < s->stages; stage++) {
        double sum = 0, members = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (pairs[i].seen->stage != stage) continue;
            uint32_t peer = (uint32_t)(pairs[i].peer - s->peer);
            sum += seconds(scenario_cost_ns(s, peer, stage, WORK_FORWARD) +
                           scenario_cost_ns(s, peer, stage, WORK_BACKWARD));
            if (stage == 0) sum += seconds(scenario_cost_ns(s, peer, stage, WORK_LOSS));
            members++;
        }
        trip.compute_s += members > 0 ? sum / members : 0;
        uint16_t next = (uint16_t)(stage + 1 == s->stages ? 0 : stage + 1);
        if (next == stage) continue;
        add_hop(s, pairs, count, stage, next, &trip);
        add_hop(s, pairs, count, next, stage, &trip);
    }
    return trip;
}

// ---- the bottleneck

// "data peer anna", "the data peers", "stage 2", "stage lower".
static const char *stage_label(const scenario *s, uint16_t stage, char text[SCENARIO_MAX_NAME + 16]) {
    if (stage == 0 && s->data_peers == 1)
        snprintf(text, SCENARIO_MAX_NAME + 16, "data peer %s", s->peer[0].name);
    else if (stage == 0)
        snprintf(text, SCENARIO_MAX_NAME + 16, "the data peers");
    else
        snprintf(text, SCENARIO_MAX_NAME + 16, "stage %s", s->stage[stage].name);
    return text;
}

static void consider(sim_summary *out, sim_limit limit, uint16_t stage, double share) {
    if (share <= out->limit_share) return;
    out->limit = limit;
    out->limit_stage = stage;
    out->limit_share = share;
}

// Seconds in which a stage's slowest line carries its share of the reduce-scatter and all-gather:
// each of k members sends and receives (k - 1) / k of the sums and of the results.
static double sums_s(const scenario *s, const pair *pairs, uint32_t count, uint16_t stage) {
    double members = 0, slowest = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (pairs[i].seen->stage != stage) continue;
        const scenario_machine *m = &s->machine[pairs[i].peer->machine];
        uint64_t bps = m->up_bps > 0 && (m->down_bps == 0 || m->up_bps < m->down_bps) ? m->up_bps : m->down_bps;
        members++;
        if (bps > 0 && 1.0 / (double)bps > slowest) slowest = 1.0 / (double)bps;
    }
    double bytes = (double)scenario_exchanged_bytes(s, stage);
    return members > 1 ? 8 * bytes * (members - 1) / members * slowest : 0;
}

static void judge_update(const scenario *s, const pair *pairs, uint32_t count, sim_summary *out) {
    double longest = 0;
    for (uint16_t i = 0; i < s->stages; i++) {
        double took = sums_s(s, pairs, count, i);
        if (took <= longest) continue;
        longest = took;
        out->limit_stage = i;
    }
    out->limit_share = out->update_s / out->mean_s;
    out->limit = longest > 0.3 * out->update_s ? SIM_LIMIT_SUMS : SIM_LIMIT_UPDATE;
    if (out->limit == SIM_LIMIT_SUMS) return;
    out->limit_stage = 0;
    for (uint16_t i = 0; i < s->stages; i++)
        if (s->stage[i].parameters > s->stage[out->limit_stage].parameters) out->limit_stage = i;
}

static void judge_idle(const scenario *s, const round_trip *trip, sim_summary *out) {
    uint16_t narrow = 0;
    for (uint16_t i = 1; i < s->stages; i++)
        if (narrow == 0 || out->stage[i].capacity < out->stage[narrow].capacity) narrow = i;
    double whole = trip->compute_s + trip->latency_s + trip->send_s;
    bool held = narrow > 0 && out->stage[narrow].capacity < s->microbatches && whole < out->pipeline_s * BUSY;
    out->limit = held ? SIM_LIMIT_CAPACITY : SIM_LIMIT_DISTANCE;
    out->limit_stage = held ? narrow : 0;
    double share = held ? (double)out->stage[narrow].capacity / s->microbatches : whole / out->pipeline_s;
    out->limit_share = share < 1 ? share : 1;
}

static void judge(const scenario *s, const pair *pairs, uint32_t count, const round_trip *trip, sim_summary *out) {
    if (out->update_s > out->pipeline_s) {
        judge_update(s, pairs, count, out);
        return;
    }
    for (uint16_t i = 0; i < s->stages; i++) {
        consider(out, SIM_LIMIT_COMPUTE, i, out->stage[i].compute);
        consider(out, SIM_LIMIT_UP, i, out->stage[i].need_up);
        consider(out, SIM_LIMIT_DOWN, i, out->stage[i].need_down);
    }
    if (out->limit_share < BUSY) judge_idle(s, trip, out);
}

// ---- text

static double percent(double share) { return 100 * (share < 1 ? share : 1); }

static void say_compute(const scenario *s, const char *label, sim_summary *out) {
    const sim_stage_summary *at = &out->stage[out->limit_stage];
    char number[32];
    snprintf(number, sizeof number, at->peers == 1 ? "its one peer works" : "each of its %u peers works", at->peers);
    bool data = out->limit_stage == 0;
    if (data) snprintf(number, sizeof number, s->data_peers == 1 ? "it works" : "each works");
    snprintf(
        out->text, sizeof out->text,
        "the computing of %s: %s %.0f %% of the time in which microbatches are under way, %.2f s of each iteration. %s "
        "would help.",
        label, number, percent(out->limit_share), at->compute * out->pipeline_s,
        data ? "Faster ones" : "Faster peers there, more of them, or fewer blocks in that stage");
}

static void say_line(const scenario *s, const char *label, const char *way, sim_summary *out) {
    char size[QUANTITY_TEXT];
    snprintf(
        out->text, sizeof out->text,
        "the lines of %s: to carry the microbatches' activations and gradients (%s each) at full rate, they are busy "
        "%.0f %% of the time %s. Faster lines or a narrower model would help.",
        label, quantity_size_text(s->activation_bytes, size), percent(out->limit_share), way);
}

static void say_idle(const scenario *s, const char *label, const round_trip *trip, sim_summary *out) {
    double busiest = 0;
    for (uint16_t i = 0; i < s->stages; i++)
        if (out->stage[i].compute > busiest) busiest = out->stage[i].compute;
    if (out->limit == SIM_LIMIT_CAPACITY)
        snprintf(
            out->text, sizeof out->text,
            "the room in %s: it holds at most %u at once of an iteration's %u microbatches, so that they wait although "
            "no peer computes more than %.0f %% of the time. More 'capacity' there would help.",
            label, out->stage[out->limit_stage].capacity, s->microbatches, percent(busiest));
    else
        snprintf(out->text, sizeof out->text,
                 "the distance: no peer computes more than %.0f %% of the time, and one microbatch alone needs %.2f s "
                 "there and "
                 "back (%.2f s of computing, %.2f s of latency, %.2f s of sending). More microbatches an iteration "
                 "would fill "
                 "the gaps; nearer peers, faster lines or fewer stages would shorten the way.",
                 percent(busiest), trip->compute_s + trip->latency_s + trip->send_s, trip->compute_s, trip->latency_s,
                 trip->send_s);
}

static void say_update(const scenario *s, const char *label, sim_summary *out) {
    char size[QUANTITY_TEXT];
    uint64_t bytes = scenario_exchanged_bytes(s, out->limit_stage);
    if (out->limit == SIM_LIMIT_SUMS)
        snprintf(
            out->text, sizeof out->text,
            "the sums of gradients: %.0f %% of an iteration passes after its last microbatch, longest in %s, whose "
            "peers "
            "exchange sums and results of %s. More microbatches an iteration make it rarer; faster lines, a smaller "
            "stage%s would shorten it.",
            percent(out->limit_share), label, quantity_size_text(bytes, size), s->reproducible ? " or 'mode: fast'" : s->byte_sums ? "" : " or 'sums: int8'");
    else
        snprintf(
            out->text, sizeof out->text,
            "the update: %.0f %% of an iteration passes after its last microbatch with adding sums and applying them, "
            "most of it in %s, which has %.1f million parameters. More microbatches an iteration make it rarer.",
            percent(out->limit_share), label, (double)s->stage[out->limit_stage].parameters / 1e6);
}

static void say(const scenario *s, const round_trip *trip, sim_summary *out) {
    char text[SCENARIO_MAX_NAME + 16];
    const char *label = stage_label(s, out->limit_stage, text);
    switch (out->limit) {
    case SIM_LIMIT_COMPUTE: say_compute(s, label, out); return;
    case SIM_LIMIT_UP: say_line(s, label, "sending", out); return;
    case SIM_LIMIT_DOWN: say_line(s, label, "receiving", out); return;
    case SIM_LIMIT_SUMS:
    case SIM_LIMIT_UPDATE: say_update(s, label, out); return;
    default: say_idle(s, label, trip, out); return;
    }
}

void sim_summarise(const scenario *s, const sim_swarm_report *report, sim_summary *out) {
    pair pairs[SCENARIO_MAX_PEERS];
    *out = (sim_summary){.stages = s->stages};
    BRAID_ASSERT(!report->failed && report->iterations > 0);
    uint32_t count = pair_up(s, report, pairs);
    sum_times(s, report, out);
    sum_stages(s, report, pairs, count, out);
    round_trip trip = measure_trip(s, pairs, count);
    judge(s, pairs, count, &trip, out);
    say(s, &trip, out);
}

uint32_t sim_median_peer(const scenario *s, bool data) {
    uint32_t first = data ? 0 : s->data_peers, end = data ? s->data_peers : s->peers;
    for (uint32_t i = first; i < end; i++) {
        uint32_t below = 0;
        for (uint32_t k = first; k < end; k++) {
            const scenario_peer *a = &s->peer[k], *b = &s->peer[i];
            below += a->flops < b->flops || (!(a->flops > b->flops) && strcmp(a->name, b->name) < 0);
        }
        if (below == (end - first - 1) / 2) return i;
    }
    return UINT32_MAX;
}
