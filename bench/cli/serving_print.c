// The output of braid-bench serving.
#include "bench/cli/serving_inside.h"

#include <inttypes.h>
#include <stdio.h>

void serving_print_swarm(uint64_t seed, const placement_problem *p, const placement_figures *f, double reference) {
    printf("seed %" PRIu64 ": %u peers, reference %.2f ms;", seed, p->peers, reference / 1000);
    for (int s = 0; s < SERVING_SYSTEMS; s++)
        printf(" %s %.2f ms (%u/%u)", serving_system_name((serving_system)s), f[s].mean_us / 1000, f[s].served,
               p->sessions);
    printf("\n");
}

static void print_json_row(const serving_bench *b, const serving_rows *rows, int s) {
    const serving_row *r = &rows->row[s];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "serving");
    json_out_string(&o, "system", serving_system_name((serving_system)s));
    json_out_u64(&o, "first_seed", b->first);
    json_out_u64(&o, "swarms", b->seeds);
    json_out_u64(&o, "effort", b->effort);
    json_out_u64(&o, "sessions", r->sessions);
    json_out_u64(&o, "served", r->served);
    json_out_u64(&o, "all_served", r->whole);
    json_out_u64(&o, "within_3_percent", r->near);
    figures_put_sample(&o, "token_ms", &r->mean_ms);
    figures_put_sample(&o, "hops", &r->hops);
    figures_put_sample(&o, "ratio", &r->ratio);
    json_out_u64(&o, "programs", rows->programs);
    json_out_u64(&o, "proven", rows->proven);
    figures_put_sample(&o, "braid_over_proven", &rows->optimal);
    figures_print_line(&o);
}

static void print_table_row(int s, const serving_row *r) {
    printf("%-10s | %8.1f %6u | ", serving_system_name((serving_system)s), figures_part(100.0 * r->served, r->sessions),
           r->whole);
    figures_print_mean(&r->mean_ms, 8, 2);
    figures_print_mean(&r->hops, 5, 2);
    printf("| ");
    figures_print_mean(&r->ratio, 7, 4);
    figures_print_worst(&r->ratio, 7, 4);
    printf("%7u\n", r->near);
}

void serving_print_routing(const serving_bench *b, const serving_rows *rows) {
    if (!b->json) {
        uint64_t least = b->peers > 0 ? b->peers : SERVING_LEAST_PEERS,
                 most = b->peers > 0 ? b->peers : SERVING_MOST_PEERS;
        printf("%" PRIu64 " random swarms of %" PRIu64 " to %" PRIu64 " peers from seed %" PRIu64 ", %" PRIu64
               " layers; %" PRIu64 " steps of search\n",
               b->seeds, least, most, b->first, b->layers, b->effort);
        if (rows->programs > 0) {
            printf("%u integer programs with a limit of %" PRIu64
                   " s, %u solved to the end; braid over these optima: mean",
                   rows->programs, b->seconds, rows->proven);
            figures_print_mean(&rows->optimal, 7, 4);
            printf("worst");
            figures_print_worst(&rows->optimal, 7, 4);
            printf("\n");
        }
        printf("%-10s | %8s %6s | %8s %5s | %-23s\n", "", "sessions", "swarms", "a token", "", "over the bound");
        printf("%-10s | %8s %6s | %8s %5s | %7s %7s %7s\n", "", "served %", "whole", "ms", "hops", "mean", "worst",
               "<= 1.03");
    }
    for (int s = 0; s < SERVING_SYSTEMS; s++) {
        if (b->json)
            print_json_row(b, rows, s);
        else
            print_table_row(s, &rows->row[s]);
    }
}

static const char *const shown_name[SERVING_SHOWN] = {"nesa", "petals", "braid"};

void serving_print_cases_head(const serving_bench *b) {
    if (b->json) return;
    printf("Nesa's Table 2 from stated inputs: six peers of two speeds; steps/s, tokens/s and spans of a path\n");
    printf("%-9s %-12s %-8s %5s %7s |", "lent", "model", "RTT", "batch", "context");
    for (int s = 0; s < SERVING_SHOWN; s++) printf(" %7s %8s %5s |", shown_name[s], "tokens/s", "spans");
    printf("\n");
}

// The spans of the only session's path, as "PEER:FIRST:END PEER:FIRST:END ...".
static void put_path(json_out *o, const placement_path *path) {
    char text[PLACEMENT_MAX_HOPS * 12 + 1] = "";
    size_t length = 0;
    for (uint32_t h = 0; h < path->hops; h++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%u:%u:%u", h > 0 ? " " : "",
                                   path->visit[h].peer, path->visit[h].begin, path->visit[h].end);
    json_out_string(o, "path", text);
}

static void print_json_case(const serving_n2 *c, const placement_figures *f, const placement_plan *plan, int s) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "table2");
    json_out_string(&o, "system", shown_name[s]);
    json_out_string(&o, "model", serving_model_name(c->model));
    json_out_bool(&o, "small_shares", c->small_shares);
    json_out_u64(&o, "rtt_ms", c->slow_link ? 10 : 5);
    json_out_u64(&o, "mbit_s", c->slow_link ? 100 : 1000);
    json_out_u64(&o, "batch", c->batch);
    json_out_u64(&o, "context", c->context);
    json_out_u64(&o, "served", f[s].served);
    json_out_double(&o, "steps_per_second", figures_part(1e6, f[s].mean_us));
    json_out_double(&o, "tokens_per_second", figures_part(1e6 * c->batch, f[s].mean_us));
    json_out_double(&o, "spans", f[s].hops);
    put_path(&o, &plan[s].path[0]);
    figures_print_line(&o);
}

void serving_print_case(const serving_bench *b, const serving_n2 *c, const placement_figures *f,
                        const placement_plan *plan) {
    for (int s = 0; b->json && s < SERVING_SHOWN; s++) print_json_case(c, f, plan, s);
    if (b->json) return;
    printf("%-9s %-12s %-8s %5u %7u |", c->small_shares ? "10 layers" : "all", serving_model_name(c->model),
           c->slow_link ? "< 10 ms" : "< 5 ms", c->batch, c->context);
    for (int s = 0; s < SERVING_SHOWN; s++) {
        if (f[s].served == 0)
            printf(" %7s %8s %5s |", "-", "-", "-");
        else
            printf(" %7.2f %8.1f %5.0f |", 1e6 / f[s].mean_us, 1e6 * c->batch / f[s].mean_us, f[s].hops);
    }
    printf("\n");
}

void serving_print_scale_head(const serving_bench *b) {
    if (b->json) return;
    printf("growing swarms in views of at most %d peers; %" PRIu64 " steps of search a view\n", SERVING_VIEW,
           b->effort);
    printf("%6s %6s | %6s | %8s | %8s | %12s\n", "peers", "seed", "views", "served %", "token ms", "steps a peer");
}

void serving_print_scale(const serving_bench *b, uint64_t seed, const serving_scale *s) {
    if (!b->json) {
        printf("%6u %6" PRIu64 " | %6u | %8.1f | %8.2f | %12.0f\n", s->peers, seed, s->views,
               100.0 * s->served / s->sessions, s->mean_us / 1000, s->steps);
        return;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "serving-scale");
    json_out_u64(&o, "peers", s->peers);
    json_out_u64(&o, "seed", seed);
    json_out_u64(&o, "views", s->views);
    json_out_u64(&o, "sessions", s->sessions);
    json_out_u64(&o, "served", s->served);
    json_out_double(&o, "token_ms", s->mean_us / 1000);
    json_out_double(&o, "steps_per_peer", s->steps);
    figures_print_line(&o);
}
