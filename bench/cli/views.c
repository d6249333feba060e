// braid-bench views: peers that know only some of the swarm. Gossip chooses their links and braid
// routes on them; both are compared with the optimum over all links between neighbouring stages.
#include "bench/cli/experiments.h"
#include "bench/cli/views_inside.h"
#include "cli/options.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char examples[] = "braid-bench views --seeds 5\n"
                               "braid-bench views --relays 4000 --costs world --plot views.svg\n"
                               "braid-bench views --relays 4000 --plan-first\n"
                               "braid-bench views --relays 400 --crash\n";

static bool read_sizes(views_bench *b, const char *text) {
    option_numbers sizes = {.least = 8, .most = VIEWS_MAX_RELAYS, .room = VIEWS_SIZES, .number = b->size};
    bool good = options_read_numbers("views", "relays", text, &sizes);
    b->sizes = sizes.count;
    return good;
}

static bool read_costs(views_bench *b, const char *text) {
    for (int k = 0; k < VIEWS_COSTS; k++) {
        if (strcmp(text, "both") != 0 && strcmp(text, views_costs_name((views_costs)k)) != 0) continue;
        b->kind[b->kinds++] = (views_costs)k;
    }
    if (b->kinds > 0) return true;
    cli_complain(CLI_USAGE, "views", "--costs is world, random or both, not '%.64s'", text);
    return false;
}

static void add_gossip(views_row *row, const views_swarm *s, const views_gossip *g) {
    row->links += g->links;
    row->one_sided += g->one_sided;
    if (g->most_links > row->most_links) row->most_links = g->most_links;
    figures_add(&row->gossip_rounds, (double)g->rounds);
    figures_add(&row->gossip_messages, (double)g->messages / s->peers);
    figures_add(&row->gossip_kilobytes, (double)g->bytes / s->peers / 1000);
    figures_add(&row->gossip_changes, (double)g->changes / s->peers);
}

// A ratio counts only when all wanted units flow.
static void add_routing(views_row *row, const views_swarm *s, const views_optimum *global, const plan_answer *best,
                        const routing_result *r) {
    bool carried = best->units == s->units, whole = carried && r->end.placed;
    row->quiet += r->quiet;
    row->whole += whole;
    row->over_capacity += r->over_capacity > 0;
    if (carried) figures_add(&row->views, (double)best->cost / (double)global->cost);
    if (whole) {
        figures_add(&row->braid, (double)r->end.paid / (double)best->cost);
        figures_add(&row->product, (double)r->end.paid / (double)global->cost);
    }
    if (r->near >= 0) {
        figures_add(&row->near_rounds, (double)r->near);
        figures_add(&row->near_messages, (double)r->near_messages / s->peers);
    }
    if (r->whole >= 0) figures_add(&row->whole_messages, (double)r->whole_messages / s->peers);
    figures_add(&row->messages, (double)r->messages / s->peers);
    figures_add(&row->kilobytes, (double)r->bytes / s->peers / 1000);
    figures_add(&row->last_move, (double)r->last_move);
}

static braid_err route(views_bench *b, views_row *row, const views_swarm *s, const views_gossip *g,
                       const views_optimum *global, braid_error *error) {
    routing_instance instance;
    routing_result result = {0};
    plan_answer best = {0};
    braid_err err = views_instance(s, g, &instance, error);
    if (err) return err;
    err = views_best(&instance, &best, error);
    if (!err && b->crash) err = views_crash(&instance, &b->routing, s->units, &b->distances, error);
    if (!err && !b->crash) {
        routing_settings settings = b->routing;
        settings.near_cost = global->cost + global->cost * VIEWS_NEAR_PERCENT / 100;
        err = routing_run(&instance, &settings, best.units, &result, error);
        if (!err) add_routing(row, s, global, &best, &result);
    }
    row->hash = rng_seed(rng_seed(row->hash, g->hash), b->crash ? b->distances.hash : result.hash);
    routing_result_close(&result);
    routing_instance_close(&instance);
    return err;
}

static braid_err run_seed(views_bench *b, views_row *row, uint64_t seed, braid_error *error) {
    views_settings settings = {.relays = row->relays,
                               .stages = 8,
                               .sources = (uint32_t)b->sources,
                               .costs = row->costs,
                               .demand = (double)b->demand / 100,
                               .seed = seed,
                               .links = (uint32_t)b->links,
                               .close = (uint32_t)b->close,
                               .probes = (uint32_t)b->probes,
                               .loss = b->loss / 100,
                               .limit_rounds = (int64_t)b->gossip_rounds};
    views_swarm swarm;
    views_optimum global = {0};
    views_gossip gossip = {0};
    braid_err err = views_swarm_make(&settings, &swarm, error);
    if (err) return err;
    if (!b->crash) err = views_optimum_find(&swarm, &global, error);
    if (!err) err = views_gossip_run(&swarm, &gossip, error);
    if (!err) {
        row->runs++;
        row->units += (uint64_t)swarm.units;
        row->all_links += global.all_links;
        add_gossip(row, &swarm, &gossip);
        err = route(b, row, &swarm, &gossip, &global, error);
    }
    views_gossip_close(&gossip);
    views_swarm_close(&swarm);
    return err;
}

static int run_row(views_bench *b, views_row *row) {
    braid_error error = {0};
    bool progress = isatty(STDERR_FILENO) != 0;
    for (uint64_t s = 0; s < b->seeds; s++) {
        if (progress)
            fprintf(stderr, "\r%" PRIu32 " relays, %s costs, seed %" PRIu64 " of %" PRIu64 " ", row->relays,
                    views_costs_name(row->costs), s + 1, b->seeds);
        if (run_seed(b, row, b->first + s, &error))
            return cli_complain(CLI_FAILED, "views", "%u relays: %s", row->relays, error.text);
    }
    if (progress) fprintf(stderr, "\r\x1b[K");
    if (b->crash)
        views_print_distances(b, row);
    else
        views_print_row(b, row);
    fflush(stdout);
    b->distances = (views_distances){0};
    return CLI_OK;
}

static int run(views_bench *b) {
    braid_error error = {0};
    if (!cli_can_write("views", "plot", b->plot)) return CLI_FAILED;
    views_print_head(b);
    fflush(stdout);
    for (uint32_t k = 0; k < b->kinds; k++)
        for (uint32_t i = 0; i < b->sizes; i++) {
            views_row *row = &b->row[k][i];
            *row = (views_row){.relays = b->size[i], .costs = b->kind[k]};
            int code = run_row(b, row);
            if (code != CLI_OK) return code;
        }
    if (b->plot != NULL && views_plot(b, &error)) return cli_complain(CLI_FAILED, "views", "%s", error.text);
    return CLI_OK;
}

int bench_views(int argc, char **argv) {
    views_bench b = {.seeds = 1,
                     .sources = 1,
                     .links = VIEW_LINKS,
                     .demand = 90,
                     .gossip_rounds = 600,
                     .routing = {.algorithm = ROUTER_MINCOST, .gather = true, .seldom = true}};
    uint64_t limit = 2000, path_limit = 32, hold = 0;
    double slack = 0.05;
    const char *sizes = "40,400", *costs = "both";
    option table[] = {
        {"relays", OPTION_TEXT, &sizes, .unit = "LIST",
         .help = "sizes of the swarms, in 8 stages, separated by commas"},
        {"costs", OPTION_TEXT, &costs, .unit = "KIND",
         .help = "of links: world (places with latencies, and each peer's own access), random (F7's, nothing can be "
                 "guessed) or both"},
        {"seeds", OPTION_COUNT, &b.seeds, .help = "swarms of each size", .min = 1, .max = 1000},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"sources", OPTION_COUNT, &b.sources,
         .help = "data peers; with several the optimum is a bound (a unit may come home to any)", .min = 1,
         .max = ROUTER_MAX_SOURCES},
        {"links", OPTION_COUNT, &b.links, .help = "neighbours of a relay on each side, at most", .min = 2, .max = 256},
        {"close", OPTION_COUNT, &b.close, .help = "of these the cheapest, 0: half", .max = 256},
        {"probes", OPTION_COUNT, &b.probes, .help = "strangers measured on a side in one period, 0: the default",
         .max = VIEW_NEAR},
        {"demand", OPTION_COUNT, &b.demand, .help = "percent of what fits through the narrowest stage", .min = 1,
         .max = 100},
        {"gossip-rounds", OPTION_COUNT, &b.gossip_rounds, .help = "gossip before routing begins, at most", .min = 1,
         .max = 1e6},
        {"loss", OPTION_REAL, &b.loss, .help = "percent of gossip's messages that are lost", .max = 90},
        {"limit-rounds", OPTION_COUNT, &limit, .help = "ends a routing run that is not quiet by then", .min = 1,
         .max = 1e6},
        {"path-limit", OPTION_COUNT, &path_limit, .help = "longest path in a label", .min = 2, .max = ROUTER_MAX_PATH},
        {"hold", OPTION_COUNT, &hold, .help = "rounds between two labels to one neighbour, 0: the default",
         .max = 1000},
        {"plan-first", OPTION_SWITCH, &b.routing.plan_first, .help = "the first ways are planned, on a map of the run"},
        {"slack", OPTION_REAL, &slack, .help = "cost per link below which a gain is left alone", .max = 1000},
        {"crash", OPTION_SWITCH, &b.crash, .help = "instead: one relay dies; what peers near it and far from it say"},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of a table"},
        {"plot", OPTION_TEXT, &b.plot, .unit = "FILE.svg", .help = "draws the ratios"},
    };
    options o = {.verb = "views",
                 .summary = "Measures what it costs that peers know only some neighbours, chosen by gossip.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    b.routing.limit_rounds = (int64_t)limit;
    b.routing.path_limit = (uint32_t)path_limit;
    b.routing.hold = (int64_t)hold;
    b.routing.slack = (int64_t)(slack * ROUTING_SCALE + 0.5);
    if (b.close > b.links)
        code = cli_complain(CLI_USAGE, "views", "--close %" PRIu64 " is more than --links %" PRIu64, b.close,
                            b.links);
    else
        code = read_sizes(&b, sizes) && read_costs(&b, costs) ? run(&b) : CLI_USAGE;
    options_close(&o);
    return code;
}
