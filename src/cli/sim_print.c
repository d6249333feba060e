// Output of braid sim for people.
#include "cli/sim_inside.h"
#include "cli/figures.h"
#include "format/quantity.h"
#include "sim/places.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 64, MAX_EACH = 20, LABEL = 64 };

// A smaller relative decrease of the time counts as none.
static const double NO_GAIN = -0.01;

static const char *const routing_names[ROUTINGS] = {"braid", "gwtf", "swarm", "cheapest"};

void sim_print_head(const scenario *s) {
    char size[QUANTITY_TEXT], parameters[QUANTITY_TEXT];
    double all = 0;
    for (uint16_t i = 0; i < s->stages; i++) all += (double)s->stage[i].parameters;
    printf("%s: %s parameters in %u stages; %u data peer%s, %u relay%s; %u microbatches of %u tokens an iteration\n",
           s->name, quantity_count_text(all, parameters), s->stages, s->data_peers, s->data_peers == 1 ? "" : "s",
           s->peers - s->data_peers, s->peers - s->data_peers == 1 ? "" : "s", s->microbatches,
           s->sequences * s->tokens);
    printf("a microbatch is %s between two stages; routing %s%s%s; seed %" PRIu64 "\n\n",
           quantity_size_text(s->activation_bytes, size), routing_names[s->routing],
           s->objective == ROUTER_BOTTLENECK ? " for the heaviest link" : "", s->plan_first ? ", first paths planned" : "", s->seed);
}

// ---- the unchanged swarm

// Prints each iteration's seconds, so that the time of an incident is visible.
static void print_each(const sim_swarm_report *r, int decimals) {
    if (r->iterations < 2 || r->iterations > MAX_EACH) return;
    printf("                     one after another:");
    for (uint32_t i = 0; i < r->iterations; i++)
        printf(" %.*f", decimals, (double)(r->iteration[i].end_ns - r->iteration[i].start_ns) / 1e9);
    printf("\n");
}

static void print_count(uint64_t count, const char *what, const char *plural, const char *end) {
    printf(" %" PRIu64 " %s%s%s", count, what, count == 1 ? "" : plural, end);
}

static void print_routes(const sim_routes *r) {
    if (r->units <= 0) return;
    printf("routes               %.1f of %.1f microbatches have one, of %.1f ms; the optimum over all links is %.1f ms (ratio %.3f)\n", r->units, r->wanted,
           r->cost_ms, r->least_ms, r->cost_ms / r->least_ms);
    if (r->choosers > 0)
        printf("                     %u relays chose their neighbours by gossip: %.0f messages, %.1f KB a minute each\n", r->choosers, r->view_messages, r->view_bytes / 1e3);
}

static void print_times(const sim_summary *u, const sim_swarm_report *r, const sim_routes *routes) {
    int d = u->mean_s < 1 ? 3 : 2;
    printf("time per iteration   %.*f s (sd %.*f, worst %.*f in iteration %" PRIu64 "; mean of %u)\n", d, u->mean_s, d,
           u->sd_s, d, u->worst_s, u->worst, r->iterations);
    printf("                     %.*f s microbatches, %.*f s sums and update\n", d, u->pipeline_s, d, u->update_s);
    print_each(r, d - 1);
    printf("tokens per second    %.1f\n", u->tokens_per_s);
    uint64_t crashes = 0, joins = 0;
    for (uint32_t i = 0; i < r->iterations; i++) {
        crashes += r->iteration[i].crashes;
        joins += r->iteration[i].joins;
    }
    if (crashes + joins + r->leaves + r->repairs > 0) {
        printf("churn               ");
        print_count(crashes, "crash", "es", ",");
        print_count(joins, "join", "s", ",");
        print_count(r->leaves, "leave", "s", ";");
        print_count(r->repairs, "repair", "s", ";");
        printf(" %.1f %% of the compute wasted\n", 100 * u->wasted);
    }
    print_routes(routes);
    printf("\n");
}

static const char *stage_text(const scenario *s, uint16_t stage, char text[LABEL]) {
    snprintf(text, LABEL, "%.24s%s", s->stage[stage].name, stage == 0 ? " (data)" : "");
    return text;
}

static void print_stages(const scenario *s, const sim_summary *u) {
    printf("%-12s %6s %9s %11s %6s %8s %10s %13s\n", "stage", "peers", "capacity", "computing*", "busy", "line up",
           "line down", "microbatches");
    for (uint16_t i = 0; i < u->stages; i++) {
        const sim_stage_summary *at = &u->stage[i];
        char label[LABEL];
        printf("%-12s %6u %9u %9.0f %% %4.0f %% %6.0f %% %8.0f %% %13u\n", stage_text(s, i, label), at->peers,
               at->capacity, 100 * at->compute, 100 * at->busy, 100 * at->up, 100 * at->down, at->microbatches);
    }
    printf(
        "* while microbatches are in flight; busy, up and down: share of the time alive with a job or a tensor on the line\n\n");
}

// Table rows are ordered by stage and then by position in the file.
typedef struct peer_row {
    const sim_swarm_peer *peer;
    uint32_t stage, listed;
} peer_row;

static int by_stage(const void *a, const void *b) {
    const peer_row *x = a, *y = b;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return (x->listed > y->listed) - (x->listed < y->listed);
}

static void print_peer(const scenario *s, const sim_swarm_peer *p) {
    const char *stage = !p->ever_member ? "-" : p->stage < s->stages ? s->stage[p->stage].name : "?";
    printf("%-20s %-12s %4.0f %% %6.0f %% %8.0f %% %13u", p->name, stage,
           p->up_ns > 0 ? 100 * (double)p->busy_ns / (double)p->up_ns : 0, 100 * p->up_share, 100 * p->down_share,
           p->microbatches);
    if (p->crashes > 0)
        printf("  %u crash%s, %s at the end", p->crashes, p->crashes == 1 ? "" : "es", p->alive ? "alive" : "away");
    if (!p->ever_member) printf("  never a member");
    printf("\n");
}

static void print_peers(const scenario *s, const sim_swarm_report *r) {
    peer_row row[SCENARIO_MAX_PEERS];
    uint32_t count = r->peers < SCENARIO_MAX_PEERS ? r->peers : SCENARIO_MAX_PEERS;
    for (uint32_t i = 0; i < count; i++) {
        const sim_swarm_peer *p = &r->peer[i];
        row[i] = (peer_row){.peer = p, .stage = p->ever_member ? p->stage : UINT32_MAX};
        while (row[i].listed < s->peers && strcmp(s->peer[row[i].listed].name, p->name) != 0) row[i].listed++;
    }
    qsort(row, count, sizeof *row, by_stage);
    printf("%-20s %-12s %6s %8s %10s %13s\n", "peer", "stage", "busy", "line up", "line down", "microbatches");
    for (uint32_t i = 0; i < count && i < MAX_ROWS; i++) print_peer(s, row[i].peer);
    if (count > MAX_ROWS) printf("and %u more; --json has them all\n", count - MAX_ROWS);
    printf("\n");
}

void sim_print_result(const sim_result *r) {
    print_times(&r->summary, r->report, &r->routes);
    print_stages(r->s, &r->summary);
    print_peers(r->s, r->report);
    printf("The bottleneck is %s\n", r->summary.text);
}

// ---- one more peer

static void print_like(const scenario *s, uint32_t like) {
    const scenario_peer *p = &s->peer[like];
    const scenario_machine *m = &s->machine[p->machine];
    bool placed = m->place != SCENARIO_NOWHERE;
    printf("like %s (%.0f Gflop/s, capacity %u%s%s)\n", p->name, p->flops / 1e9, p->capacity, placed ? ", " : "",
           placed ? place_name(m->place) : "");
}

static void print_chance(const sim_chance *c) {
    if (c->seeds == 0) return;
    printf("* not significant: within two standard deviations of the unchanged swarm's time\n"
           "  (%.2f s on average of %u seeds, sd %.2f); more --iterations reduce the deviation.\n", c->mean_s, c->seeds - c->failed, c->sd_s);
    if (c->failed > 0) printf("  With %u other seed%s the swarm does not complete the run.\n", c->failed, figures_s(c->failed));
}

void sim_print_plans(const sim_result *r) {
    if (r->plans == 0) return;
    printf("\nGain from one more peer, best first:\n");
    for (uint32_t i = 0; i < r->plans; i++) {
        const sim_plan *p = &r->plan[i];
        char label[LABEL];
        stage_text(r->s, p->stage, label);
        if (p->failed)
            printf("  stage %-12s the swarm does not complete the run   ", label);
        else
            printf("  stage %-12s %8.2f s an iteration, %+6.1f %%%s  ", label, p->mean_s, 100 * p->change,
                   sim_within_chance(&r->chance, p) ? "*" : " ");
        print_like(r->s, p->like);
    }
    print_chance(&r->chance);
    if (!r->plan[0].failed && r->plan[0].change > NO_GAIN)
        printf("None of them makes it faster: the members of a stage also exchange gradient sums in every "
               "iteration,\neach over the connection of its own machine.\n");
}
