#include "cli/plan_whole.h"

#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/plan_whole_plot.h"
#include "format/quantity.h"
#include "plan/swap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPS = 3, WEIGHT_BYTES = 4, MOMENT_BYTES = 8 };

_Static_assert((int)PROFILE_MAX_ITEMS == (int)SWAP_MAX_ITEMS, "a profile is the input of a plan");

typedef struct whole {
    const run_config *run;
    const plan_whole_flags *flags;
    train_profile profile;
    swap_item item[SWAP_MAX_ITEMS];
    swap_machine machine;
    swap_plan plan;
    bool spilled;  // activations between layers are in the file, too
    void *room;
} whole;

// ---- the problem

// With clipping the norm of all gradients is known only after the backward pass: the sums are
// written, and a second pass applies them. Without it AdamW is applied while a layer is there.
static void put_item(const whole *w, const profile_item *from, double rate_read, double rate_write, bool spilled,
                     swap_item *to) {
    double count = (double)from->parameters, rounds = w->run->microbatches;
    double sum_bytes = w->run->recipe.reproducible ? 8 : 4;
    double boundary = spilled ? rounds * (double)w->profile.activation_bytes : 0;
    bool clips = w->run->recipe.clip > 0;
    double weights = WEIGHT_BYTES * count, moments = MOMENT_BYTES * count, sums = sum_bytes * count;
    *to = (swap_item){.forward_s = rounds * from->forward_s,
                      .backward_s = rounds * from->backward_s,
                      .load_s = weights / rate_read + boundary / rate_write,
                      .again_s = (weights + (clips ? 0 : moments) + boundary) / rate_read,
                      .store_s = (clips ? sums : weights + moments) / rate_write,
                      .apply_s = clips ? (weights + moments + sums) / rate_read + (weights + moments) / rate_write : 0,
                      .bytes = weights + sums + moments,
                      .cut = (double)w->profile.activation_bytes};
}

// The memory beside the items: the work area, and the activations of all microbatches between layers
// unless they are in the file.
static double memory_for_items(const whole *w, double memory, bool spilled) {
    double boundaries = (double)w->profile.activation_bytes *
                        (spilled ? 4 : (double)w->run->microbatches * w->profile.items);
    return memory - (double)w->profile.work_bytes - boundaries;
}

static bool try_plan(whole *w, double memory, double faster, bool spilled, swap_plan *best, braid_error *error) {
    double read = w->profile.read_bytes_s * faster, write = w->profile.write_bytes_s * faster;
    for (uint32_t i = 0; i < w->profile.items; i++) put_item(w, &w->profile.item[i], read, write, spilled, &w->item[i]);
    w->machine = (swap_machine){.memory = memory_for_items(w, memory, spilled)};
    return swap_plan_best(w->item, w->profile.items, &w->machine, w->room, best, error) == BRAID_OK;
}

// The better of both places of the activations. False: nothing fits.
static bool best_plan(whole *w, double memory, double faster, swap_plan *best, bool *spilled, braid_error *error) {
    swap_plan kept, moved;
    bool has_kept = try_plan(w, memory, faster, false, &kept, error);
    bool has_moved = try_plan(w, memory, faster, true, &moved, error);
    *spilled = has_moved && (!has_kept || moved.seconds < kept.seconds);
    *best = *spilled ? moved : kept;
    return has_kept || has_moved;
}

// ---- text

static void print_part(const whole *w, uint32_t begin, uint32_t end) {
    uint32_t last = w->profile.items - 1;
    char text[64];
    uint32_t first_layer = begin == 0 ? 0 : begin - 1, end_layer = end > last ? last - 1 : end - 1;
    bool layers = end_layer > first_layer;
    int n = snprintf(text, sizeof text, "%s", begin == 0 ? "embedding" : "");
    const char *comma = begin == 0 ? ", " : "";
    if (layers && end_layer == first_layer + 1)
        n += snprintf(text + n, sizeof text - (size_t)n, "%slayer %u", comma, first_layer);
    else if (layers)
        n += snprintf(text + n, sizeof text - (size_t)n, "%slayers %u-%u", comma, first_layer, end_layer - 1);
    if (end > last) snprintf(text + n, sizeof text - (size_t)n, "%shead", n ? ", " : "");
    printf(" %-34s", text);
}

static void print_group(const whole *w, const char *name, uint32_t begin, uint32_t end) {
    double bytes = 0, forward = 0, backward = 0, moved = 0;
    char text[QUANTITY_TEXT];
    for (uint32_t i = begin; i < end; i++) {
        const swap_item *item = &w->item[i];
        bytes += item->bytes;
        forward += item->forward_s;
        backward += item->backward_s;
        moved += item->load_s + item->again_s + item->store_s + item->apply_s;
    }
    printf("%-10s", name);
    print_part(w, begin, end);
    printf(" %10s %10.2f %10.2f", quantity_size_text((uint64_t)bytes, text), forward, backward);
    if (*name == 'r')
        printf(" %10s\n", "-");
    else
        printf(" %10.2f\n", moved);
}

static void print_gain(whole *w, const char *what, double memory, double faster) {
    swap_plan other;
    bool spilled;
    braid_error ignored;
    if (!best_plan(w, memory, faster, &other, &spilled, &ignored)) return;
    printf("  %-34s %8.2f s (%.2f of it)\n", what, other.seconds, other.seconds / w->plan.seconds);
}

static void print_whole(whole *w) {
    const swap_plan *p = &w->plan;
    char text[QUANTITY_TEXT], name[16];
    printf("One machine, the whole model in %s: %u microbatches of %u x %u tokens an iteration.\n\n",
           quantity_size_text(w->flags->max_memory, text), w->run->microbatches, w->run->sequences, w->run->tokens);
    printf("%-10s %-34s %10s %10s %10s %10s\n", "sub-model", "parts", "bytes", "forward s", "backward s", "moving s");
    if (p->resident) print_group(w, "resident", 0, p->resident);
    for (uint32_t g = 0; g < p->groups; g++) {
        snprintf(name, sizeof name, "%u", g + 1);
        print_group(w, name, p->begin[g], p->begin[g + 1]);
    }
    printf("\nActivations between layers are %s.\n", w->spilled ? "in the file" : "in memory");
    printf("An iteration takes %.2f s, %.2f s of it computing; idle %.0f %%.\n", p->seconds, p->compute_s,
           100 * (1 - p->compute_s / p->seconds));
    if (p->groups < 2) {
        printf("All of it fits: nothing is swapped.\n");
        return;
    }
    printf("\nWith\n");
    swap_plan plan = *p;
    double memory = (double)w->flags->max_memory;
    print_gain(w, "a quarter more memory", 1.25 * memory, 1);
    print_gain(w, "twice the memory", 2 * memory, 1);
    print_gain(w, "a disk twice as fast", memory, 2);
    w->plan = plan;
}

// ---- JSON

static bool put_whole(const whole *w) {
    const swap_plan *p = &w->plan;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_u64(&o, "max_memory_bytes", w->flags->max_memory);
    json_out_double(&o, "iteration_s", p->seconds);
    json_out_double(&o, "compute_s", p->compute_s);
    json_out_double(&o, "idle_share", 1 - p->compute_s / p->seconds);
    json_out_bool(&o, "activations_in_file", w->spilled);
    json_out_u64(&o, "resident_items", p->resident);
    json_out_open(&o, "sub_models", '[');
    for (uint32_t g = 0; g < p->groups; g++) {
        json_out_open(&o, NULL, '{');
        json_out_u64(&o, "first_item", p->begin[g]);
        json_out_u64(&o, "items", p->begin[g + 1] - p->begin[g]);
        json_out_close(&o, '}');
    }
    json_out_close(&o, ']');
    return figures_print_line(&o);
}

// ---- all of it

static braid_err get_profile(whole *w, braid_error *error) {
    const plan_whole_flags *f = w->flags;
    if (f->profile) return profile_read(f->profile, w->run, &w->profile, error);
    fprintf(stderr, "Measuring this machine; 'braid profile RUN.yaml --state-dir DIR --out FILE' keeps the figures.\n");
    return profile_measure(w->run, f->threads, REPS, ".", &w->profile, error);
}

static bool fits(whole *w, double memory) {
    swap_plan ignored;
    bool spilled;
    braid_error why;
    return best_plan(w, memory, 1, &ignored, &spilled, &why);
}

// The least memory with which the model can be trained, up to one part in 2^LEAST_STEPS; 0: none.
static double least_memory(whole *w) {
    enum { LEAST_STEPS = 12, MOST_DOUBLINGS = 30 };
    double low = (double)w->flags->max_memory, high = low > 0x1p20 ? 2 * low : 0x1p21;
    for (int i = 0; i < MOST_DOUBLINGS && !fits(w, high); i++) low = high, high *= 2;
    if (!fits(w, high)) return 0;
    for (int i = 0; i < LEAST_STEPS; i++) {
        double middle = (low + high) / 2;
        if (fits(w, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static braid_err make_plan(whole *w, braid_error *error) {
    char text[QUANTITY_TEXT], advice[48] = "";
    if (w->profile.read_bytes_s <= 0 || w->profile.write_bytes_s <= 0)
        return braid_fail(
            error, BRAID_CONFIG,
            "%s has no rates of a state file; measure with 'braid profile RUN.yaml --state-dir DIR --out FILE'",
            w->flags->profile);
    if (best_plan(w, (double)w->flags->max_memory, 1, &w->plan, &w->spilled, error)) {
        swap_plan ignored;
        try_plan(w, (double)w->flags->max_memory, 1, w->spilled, &ignored, error);  // leaves the items of this choice
        return BRAID_OK;
    }
    double least = least_memory(w);
    if (least > 0) snprintf(advice, sizeof advice, ", at least %.0fK", ceil(least / 1024));
    return braid_fail(error, BRAID_LIMIT,
                      "%s are too few: two neighbouring layers with their sums, moments and work area do not fit; give "
                      "more with --max-memory%s",
                      quantity_size_text(w->flags->max_memory, text), advice);
}

int plan_whole(const run_config *run, const plan_whole_flags *flags) {
    static whole w;  // too large for the stack
    braid_error error = {0};
    w = (whole){.run = run, .flags = flags};
    if (!flags->max_memory)
        return cli_complain(CLI_USAGE, "plan",
                            "--whole plans for a limit of memory; give --max-memory, e.g. --max-memory 2G");
    if (run->recipe.adapter.rank > 0)
        return cli_complain(CLI_USAGE, "plan", "a run with an adapter keeps its model in memory: leave out --whole");
    if (run->model.layers + 2 > SWAP_MAX_ITEMS)
        return cli_complain(CLI_FAILED, "plan", "--whole plans at most %d layers", SWAP_MAX_ITEMS - 2);
    if (get_profile(&w, &error)) return cli_complain(CLI_FAILED, "plan", "%s", error.text);
    w.room = malloc(swap_plan_room(w.profile.items));
    if (!w.room) return cli_complain(CLI_FAILED, "plan", "out of memory");
    braid_err err = make_plan(&w, &error);
    if (!err && flags->plot) err = plan_whole_plot(flags->plot, w.item, w.profile.items, &w.machine, &w.plan, &error);
    int code = CLI_OK;
    if (err)
        code = cli_complain(CLI_FAILED, "plan", "%s", error.text);
    else if (!flags->json)
        print_whole(&w);
    else if (!put_whole(&w))
        code = cli_complain(CLI_FAILED, "plan", "out of memory");
    free(w.room);
    return code;
}
