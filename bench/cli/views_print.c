// The output of braid-bench views: a table, JSON lines, a drawing.
#include "bench/cli/views_inside.h"
#include "bench/cli/plot.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>

void views_print_head(const views_bench *b) {
    if (b->json) return;
    printf("partial views: relays in 8 stages, at most %" PRIu64
           " neighbours a side of a relay, chosen by at most %" PRIu64 " rounds of gossip; %" PRIu64
           " data peer%s; demand %" PRIu64 " %% of the narrowest stage; path limit %u; %" PRIu64 " seed%s from %" PRIu64
           "; messages and KB per peer\n",
           b->links, b->gossip_rounds, b->sources, b->sources == 1 ? "" : "s", b->demand, b->routing.path_limit,
           b->seeds, figures_s(b->seeds), b->first);
    if (b->crash) return;
    printf("%-6s %6s %6s %5s | %-25s | %-35s | %-5s | %-12s | %-19s | %-11s |\n", "", "", "", "", "gossip",
           "cost over the optimum, mean / worst", "whole", "within 3 %", "to the end", "runs");
    printf("%-6s %6s %6s %5s | %5s %5s %7s %5s | %-11s %-11s %-11s | %5s | %6s %5s | %6s %5s %6s | %-5s %-5s | %s\n",
           "costs", "relays", "links", "units", "msgs", "KB", "changes", "most", "views", "x braid", "= both", "msgs",
           "rounds", "msgs", "rounds", "msgs", "KB", "whole", "quiet", "hash of the traces");
}

static void print_ratio(const figures_sample *s) {
    if (s->count > 0)
        printf("%5.3f/%5.3f ", figures_mean(s), s->worst);
    else
        printf("%11s ", "-");
}

static void print_table_row(const views_row *r) {
    printf("%-6s %6u %6.0f %5.0f | %5.0f %5.0f %7.0f %5u | ", views_costs_name(r->costs), r->relays,
           figures_part((double)r->links, r->runs), figures_part((double)r->units, r->runs),
           figures_mean(&r->gossip_messages), figures_mean(&r->gossip_kilobytes), figures_mean(&r->gossip_changes),
           r->most_links);
    print_ratio(&r->views);
    print_ratio(&r->braid);
    print_ratio(&r->product);
    printf("| ");
    figures_print_mean(&r->whole_messages, 5, 0);
    printf("| ");
    figures_print_mean(&r->near_rounds, 6, 0);
    figures_print_mean(&r->near_messages, 5, 0);
    printf("| %6.0f %5.0f %6.0f | %2u/%-2u %2u/%-2u | %016" PRIx64 "\n", figures_mean(&r->last_move),
           figures_mean(&r->messages), figures_mean(&r->kilobytes), r->whole, r->runs, r->quiet, r->runs, r->hash);
    if (r->one_sided > 0) printf("! %u links had only one end\n", r->one_sided);
    figures_print_over_capacity(r->over_capacity);
}

static void put_head(json_out *o, const views_bench *b, const views_row *r, const char *experiment) {
    json_out_string(o, "experiment", experiment);
    json_out_string(o, "costs", views_costs_name(r->costs));
    json_out_u64(o, "relays", r->relays);
    json_out_u64(o, "sources", b->sources);
    json_out_u64(o, "neighbours", b->links);
    json_out_u64(o, "demand_percent", b->demand);
    json_out_u64(o, "first_seed", b->first);
    json_out_u64(o, "runs", r->runs);
    figures_put_hash(o, r->hash);
    json_out_double(o, "units", figures_part((double)r->units, r->runs));
    json_out_double(o, "links", figures_part((double)r->links, r->runs));
    json_out_u64(o, "most_neighbours", r->most_links);
    json_out_u64(o, "one_sided_links", r->one_sided);
    figures_put_sample(o, "gossip_rounds", &r->gossip_rounds);
    figures_put_sample(o, "gossip_messages_per_peer", &r->gossip_messages);
    figures_put_sample(o, "gossip_kilobytes_per_peer", &r->gossip_kilobytes);
    figures_put_sample(o, "gossip_changes_per_peer", &r->gossip_changes);
}

void views_print_row(const views_bench *b, const views_row *r) {
    if (!b->json) {
        print_table_row(r);
        return;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_head(&o, b, r, "views");
    json_out_double(&o, "all_links", figures_part((double)r->all_links, r->runs));
    json_out_u64(&o, "whole", r->whole);
    json_out_u64(&o, "quiet", r->quiet);
    json_out_u64(&o, "over_capacity", r->over_capacity);
    figures_put_sample(&o, "views_over_optimum", &r->views);
    figures_put_sample(&o, "braid_over_views", &r->braid);
    figures_put_sample(&o, "braid_over_optimum", &r->product);
    figures_put_sample(&o, "messages_until_whole", &r->whole_messages);
    figures_put_sample(&o, "rounds_until_near", &r->near_rounds);
    figures_put_sample(&o, "messages_until_near", &r->near_messages);
    figures_put_sample(&o, "messages_per_peer", &r->messages);
    figures_put_sample(&o, "kilobytes_per_peer", &r->kilobytes);
    figures_put_sample(&o, "rounds_to_last_move", &r->last_move);
    figures_print_line(&o);
}

// --- the loss of one relay

static void put_distances(json_out *o, const views_distances *d) {
    json_out_open(o, "by_distance", '[');
    for (uint32_t i = 0; i <= VIEWS_FAR; i++) {
        if (d->peers[i] == 0) continue;
        json_out_open(o, NULL, '{');
        json_out_u64(o, "distance", i);
        json_out_u64(o, "peers", d->peers[i]);
        json_out_u64(o, "messages_until_whole", d->messages[0][i]);
        json_out_u64(o, "silent_until_whole", d->silent[0][i]);
        json_out_u64(o, "messages", d->messages[1][i]);
        json_out_u64(o, "silent", d->silent[1][i]);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void print_distance_table(const views_bench *b, const views_row *r) {
    const views_distances *d = &b->distances;
    printf(
        "%s costs, %u relays: one that carries units dies, %u of %u swarms (the others were not quiet, or it carried "
        "none), whole again %u; hash of the traces %016" PRIx64 "\n",
        views_costs_name(r->costs), r->relays, d->runs - d->skipped, d->runs, d->whole, r->hash);
    printf("%-22s %7s | %-20s | %-20s\n", "", "", "until whole again", "until quiet");
    printf("%-22s %7s | %9s %10s | %9s %10s\n", "distance", "peers", "messages", "silent", "messages", "silent");
    for (uint32_t i = 0; i <= VIEWS_FAR; i++) {
        double peers = (double)d->peers[i];
        if (peers == 0) continue;
        char name[32];
        snprintf(name, sizeof name, i == 0 ? "carried its units" : i == VIEWS_FAR ? "%u or more" : "%u", i);
        printf("%-22s %7.0f | %9.2f %9.1f%% | %9.2f %9.1f%%\n", name, peers, (double)d->messages[0][i] / peers,
               100 * (double)d->silent[0][i] / peers, (double)d->messages[1][i] / peers,
               100 * (double)d->silent[1][i] / peers);
    }
}

void views_print_distances(const views_bench *b, const views_row *r) {
    if (!b->json) {
        print_distance_table(b, r);
        return;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_head(&o, b, r, "views, one relay dies");
    json_out_u64(&o, "skipped", b->distances.skipped);
    json_out_u64(&o, "whole", b->distances.whole);
    put_distances(&o, &b->distances);
    figures_print_line(&o);
}

// --- the drawing: percent above the optimum

braid_err views_plot(const views_bench *b, braid_error *error) {
    static const char *const name[] = {"best on the views' links", "braid on those links", "braid / optimum"};
    enum { SERIES = sizeof name / sizeof *name, MOST = VIEWS_SIZES * VIEWS_COSTS };
    char label[MOST][32];
    const char *group[MOST];
    plot_bar bar[MOST * SERIES];
    uint32_t groups = 0;
    for (uint32_t k = 0; k < b->kinds; k++)
        for (uint32_t i = 0; i < b->sizes; i++, groups++) {
            const views_row *r = &b->row[k][i];
            snprintf(label[groups], sizeof label[groups], "%u, %s", r->relays, views_costs_name(r->costs));
            group[groups] = label[groups];
            bar[groups * SERIES] = figures_bar_above(&r->views);
            bar[groups * SERIES + 1] = figures_bar_above(&r->braid);
            bar[groups * SERIES + 2] = figures_bar_above(&r->product);
        }
    plot_bars p = {.title = "Partial views: cost above the optimum over all links",
                   .note = "bar: mean over the seeds, whisker: worst; the promise is 3 %",
                   .unit = "percent",
                   .groups = groups,
                   .series = SERIES,
                   .group = group,
                   .name = name,
                   .bar = bar};
    return plot_bars_write(&p, b->plot, error);
}
