// The output of braid-bench t2 and t3: a table, JSON lines, a drawing.
#include "bench/cli/t2_inside.h"
#include "bench/cli/plot.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>

static double goodput(const t2_row *r) { return figures_part(r->oracle_s, r->iterations_s); }
// Goodput of an oracle that gives no work to peers that will die.
static double goodput_of_fewer(const t2_row *r) { return figures_part(r->oracle_s + r->fewer_s, r->iterations_s); }
static double lost_counted(const t2_row *r) { return figures_part(r->lost_counted_s, r->needed_s); }
static double lost_held(const t2_row *r) { return figures_part(r->lost_held_s, r->needed_s); }
static double lost(const t2_row *r) { return lost_counted(r) + lost_held(r); }
static double wasted(const t2_row *r) { return figures_part(r->wasted_s, r->needed_s); }

static t2_placement placement_of(const t2_bench *b, t2_system system) {
    return system == T2_BRAID ? b->placement : T2_PLACE_CAPACITY;
}

// --- table

static void print_head(const t2_bench *b) {
    printf("%s: %d data peers with %d microbatches each, %d relays, %d stages; %" PRIu64 " iterations, %" PRIu64 " repetition%s from seed %" PRIu64 "\n",
           b->model == T2_GPT ? "T3" : "T2", T2_DATA, T2_MICROBATCHES, T2_RELAYS, T2_STAGES, b->iterations, b->repetitions,
           figures_s(b->repetitions), b->first);
    printf("%-20s | %-30s | %-9s | %-9s | %-22s | %-8s | %-15s |\n", "", "min per microbatch", "per iter.", "transfers", "wasted compute",
           "goodput,", "per iteration");
    printf("%-6s %-7s %-5s | %6s %6s %6s %9s | %9s | %9s | %6s %7s %7s | %8s | %7s %7s | %s\n", "cell", "system", "place", "mean", "sd", "worst", "/ swarm's",
           "microb.", "min / mb", "min", "died, %", "else, %", "% oracle", "crashes", "repairs", "hash of all");
}

static void print_row(const t2_row *r, const t2_row *swarm, const char *cell, const char *system, const char *placement) {
    printf("%-6s %-7s %-5s | %6.3f %6.3f %6.3f %9.3f | %9.2f | %9.3f | %6.3f %7.2f %7.2f | %8.1f | %7.2f %7.2f | %016" PRIx64 "\n", cell, system, placement,
           figures_mean(&r->minutes), figures_deviation(&r->minutes), r->minutes.worst,
           figures_part(figures_mean(&r->minutes), figures_mean(&swarm->minutes)), figures_mean(&r->microbatches),
           figures_mean(&r->transfers), figures_mean(&r->wasted), 100 * lost(r), 100 * (wasted(r) - lost(r)), 100 * goodput(r), figures_mean(&r->crashes),
           figures_mean(&r->repairs), r->hash);
}

// Prints where the remaining time went; the goodput says only how much it is.
static void print_account(const t2_row *r, const char *cell, const char *system) {
    double n = r->minutes.count;
    printf("%-6s %-7s | %8.1f %8.1f %8.1f %8.1f | %9.1f | %8.1f %8.1f | %9.1f %8.1f %8.1f %8.1f | %9.1f %8.1f %8.1f %8.1f | %7.2f %9.2f |\n",
           cell, system, figures_part(r->oracle_s, n),
           figures_part(r->fewer_s, n), figures_part(r->ways_s, n), figures_part(r->exchange_s, n), figures_part(r->iterations_s, n), 100 * goodput(r),
           100 * goodput_of_fewer(r), figures_part(r->foresight_s, n), 100 * figures_part(r->oracle_s, r->foresight_s),
           figures_part(r->kept_s, n), 100 * figures_part(r->oracle_s, r->kept_s), figures_part(r->at_once_s, n),
           100 * figures_part(r->oracle_s, r->at_once_s), figures_part(r->at_once_kept_s, n), 100 * figures_part(r->oracle_s, r->at_once_kept_s),
           100 * lost_counted(r), 100 * lost_held(r));
}

static void print_accounts(const t2_bench *b) {
    printf("\nSeconds of an iteration. dead: what the oracle needs more without those that die before CLOSE; ways: beyond that until CLOSE; end: from CLOSE to FINAL\n"
           "foresight: of an oracle that knows all deaths and arrivals, with sums of the dead lost, and with sums kept; and its goodput, %% of the first oracle\n"
           "at once: of one that learns of each death and arrival when it happens, and plans again at once, likewise\n"
           "died, %%: compute lost with dead relays, added or still under way, over the compute that is needed\n");
    printf("%-14s | %-35s | %-9s | %-17s | %-36s | %-36s | %-17s |\n", "", "", "", "goodput", "foresight", "at once", "died, %");
    printf("%-6s %-7s | %8s %8s %8s %8s | %9s | %8s %8s | %9s %8s %8s %8s | %9s %8s %8s %8s | %7s %9s |\n", "cell", "system", "oracle", "+ dead", "+ ways", "+ end", "iteration",
           "% oracle", "% + dead", "sums die", "%", "kept", "%", "sums die", "%", "kept", "%", "counted", "under way");
    for (uint32_t cell = 0; cell < T2_CELLS; cell++)
        for (t2_system system = 0; system < T2_SYSTEMS && b->wanted[cell]; system++)
            if (b->system[system]) print_account(&b->row[cell][system], t2_cell_names[cell], t2_system_names[system]);
}

static void print_best_stages(const t2_bench *b) {
    printf("\nSeconds of an iteration by the search of paths: with the relays in their stages, and in the best stages found\n");
    for (uint32_t cell = 0; cell < T2_CELLS; cell++)
        for (t2_system system = 0; system < T2_SYSTEMS && b->wanted[cell]; system++) {
            const t2_row *r = &b->row[cell][system];
            if (b->system[system])
                printf("%-6s %-7s %-5s %8.1f %8.1f  %5.3f\n", t2_cell_names[cell], t2_system_names[system],
                       t2_placement_names[placement_of(b, system)], figures_part(r->placed_s, r->minutes.count),
                       figures_part(r->best_s, r->minutes.count), figures_part(r->best_s, r->placed_s));
        }
}

// --- JSON

static void put_account(json_out *o, const t2_row *r) {
    double n = r->minutes.count;
    json_out_open(o, "seconds_per_iteration", '{');
    json_out_double(o, "oracle", figures_part(r->oracle_s, n));
    json_out_double(o, "dead", figures_part(r->fewer_s, n));
    json_out_double(o, "ways", figures_part(r->ways_s, n));
    json_out_double(o, "end", figures_part(r->exchange_s, n));
    json_out_double(o, "all", figures_part(r->iterations_s, n));
    json_out_double(o, "foresight", figures_part(r->foresight_s, n));
    json_out_double(o, "foresight_sums_kept", figures_part(r->kept_s, n));
    json_out_double(o, "at_once", figures_part(r->at_once_s, n));
    json_out_double(o, "at_once_sums_kept", figures_part(r->at_once_kept_s, n));
    json_out_close(o, '}');
}

static void print_json(const t2_bench *b, uint32_t cell, t2_system system) {
    const t2_row *r = &b->row[cell][system];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", b->model == T2_GPT ? "t3" : "t2");
    json_out_string(&o, "cell", t2_cell_names[cell]);
    json_out_string(&o, "system", t2_system_names[system]);
    json_out_string(&o, "placement", t2_placement_names[placement_of(b, system)]);
    json_out_u64(&o, "iterations", b->iterations);
    json_out_u64(&o, "first_seed", b->first);
    json_out_u64(&o, "runs", r->runs);
    figures_put_spread(&o, "minutes_per_microbatch", &r->minutes);
    figures_put_spread(&o, "microbatches", &r->microbatches);
    figures_put_spread(&o, "transfer_minutes_per_microbatch", &r->transfers);
    figures_put_spread(&o, "wasted_minutes_per_iteration", &r->wasted);
    json_out_double(&o, "wasted_over_needed", wasted(r));
    json_out_double(&o, "died_over_needed", lost(r));
    json_out_double(&o, "died_counted_over_needed", lost_counted(r));
    json_out_double(&o, "died_under_way_over_needed", lost_held(r));
    json_out_double(&o, "goodput_over_oracle", goodput(r));
    json_out_double(&o, "goodput_over_oracle_without_dead", goodput_of_fewer(r));
    put_account(&o, r);
    figures_put_spread(&o, "crashes_per_iteration", &r->crashes);
    figures_put_spread(&o, "repairs_per_iteration", &r->repairs);
    figures_put_hash(&o, r->hash);
    figures_print_line(&o);
}

void t2_print(const t2_bench *b) {
    if (!b->json) print_head(b);
    for (uint32_t cell = 0; cell < T2_CELLS; cell++)
        for (t2_system system = 0; system < T2_SYSTEMS && b->wanted[cell]; system++) {
            if (!b->system[system]) continue;
            if (b->json) print_json(b, cell, system);
            else print_row(&b->row[cell][system], &b->row[cell][T2_SWARM], t2_cell_names[cell], t2_system_names[system], t2_placement_names[placement_of(b, system)]);
        }
    if (b->account && !b->json) print_accounts(b);
    if (b->best_stages && !b->json) print_best_stages(b);
}

// --- drawing

braid_err t2_plot(const t2_bench *b, braid_error *error) {
    const char *group[T2_CELLS];
    plot_bar bar[T2_CELLS * T2_SYSTEMS];
    uint32_t groups = 0;
    for (uint32_t cell = 0; cell < T2_CELLS; cell++) {
        if (!b->wanted[cell]) continue;
        group[groups] = t2_cell_names[cell];
        for (t2_system s = 0; s < T2_SYSTEMS; s++) bar[groups * T2_SYSTEMS + s] = figures_bar(&b->row[cell][s].minutes);
        groups++;
    }
    plot_bars p = {.title = b->model == T2_GPT ? "T3: time per microbatch, GPT-like model" : "T2: time per microbatch, LLaMA-like model",
                   .note = "bar: mean of all iterations, whisker: worst; hom: relays hold 4 microbatches, het: 1 to 3; churn in percent",
                   .unit = "minutes per microbatch",
                   .groups = groups,
                   .series = T2_SYSTEMS,
                   .group = group,
                   .name = t2_system_names,
                   .bar = bar};
    return plot_bars_write(&p, b->plot, error);
}
