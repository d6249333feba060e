// braid sim --advise simulates the swarm with each codec of links and sums. It names the cheapest
// one within the allowed loss of quality.
#include "cli/sim_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETTINGS = 2 * TENSOR_CODECS };

// The held-out loss that a setting may add, in percent (docs/results/links.md says what was
// measured). The losses of links and sums are added.
static const double link_loss[TENSOR_CODECS] = {[CODEC_BF16] = 0.1, [CODEC_INT8] = 0.3, [CODEC_INT4] = 1.0};
static const double byte_sums_loss = 0.4;
// A smaller gain in time is not worth a loss of quality.
static const double WORTH = 0.02;

typedef struct setting {
    tensor_codec links;
    bool byte_sums;
    bool failed;  // the swarm did not complete with it
    double loss, mean_s, tokens_per_s, sent_mb;
} setting;

typedef struct advice {
    const sim_flags *flags;
    const scenario *s;
    uint32_t count;
    setting of[MAX_SETTINGS];
} advice;

// Megabytes that tensors, sums and results of an iteration put on lines.
static double sent_mb(const scenario *s, const sim_summary *u) {
    double bytes = s->stages > 1 ? 2.0 * s->stages * s->microbatches * (double)s->activation_bytes : 0;
    for (uint16_t i = 0; i < s->stages; i++) {
        uint32_t members = u->stage[i].peers;
        if (members > 1) bytes += (double)(members - 1) * (double)scenario_exchanged_bytes(s, i);
    }
    return bytes / 1e6;
}

static braid_err try_setting(const advice *a, setting *x, braid_error *error) {
    char what[96];
    sim_swarm_report report = {0};
    scenario *other = malloc(sizeof *other);
    if (other == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
    *other = *a->s;  // its events are borrowed
    scenario_set_codecs(other, (tensor_links){x->links, x->links}, x->byte_sums);
    snprintf(what, sizeof what, "%s with %s links", other->name, tensor_codec_names[x->links]);
    braid_err code = sim_run_swarm(a->flags, other, what, NULL, NULL, &report, error);
    x->failed = code != BRAID_OK || report.failed || report.iterations == 0;
    if (!x->failed) {
        sim_summary summary;
        sim_summarise(other, &report, &summary);
        x->mean_s = summary.mean_s;
        x->tokens_per_s = summary.tokens_per_s;
        x->sent_mb = sent_mb(other, &summary);
    }
    sim_swarm_report_free(&report);
    free(other);
    return code;
}

static void list_settings(advice *a) {
    for (uint32_t sums = 0; sums < (a->s->reproducible ? 1 : 2); sums++)
        for (uint32_t links = 0; links < TENSOR_CODECS; links++)
            a->of[a->count++] = (setting){.links = (tensor_codec)links,
                                          .byte_sums = sums == 1,
                                          .loss = link_loss[links] + (sums == 1 ? byte_sums_loss : 0)};
}

static bool allowed(const advice *a, const setting *x) { return !x->failed && x->loss <= a->flags->quality + 1e-9; }

// The setting with the smallest loss among those close to the least time; NULL if all failed.
static const setting *choose(const advice *a) {
    const setting *fastest = NULL, *best = NULL;
    for (uint32_t i = 0; i < a->count; i++)
        if (allowed(a, &a->of[i]) && (fastest == NULL || a->of[i].mean_s < fastest->mean_s)) fastest = &a->of[i];
    for (uint32_t i = 0; i < a->count; i++) {
        const setting *x = &a->of[i];
        if (!allowed(a, x) || x->mean_s > fastest->mean_s * (1 + WORTH)) continue;
        if (best == NULL || x->loss < best->loss) best = x;
    }
    return best;
}

static void print_setting(const advice *a, const setting *x, const setting *best) {
    printf("%-6s %-6s %8.1f %%", tensor_codec_names[x->links], x->byte_sums ? "int8" : "exact", x->loss);
    if (x->failed)
        printf("   the swarm failed");
    else
        printf(" %10.1f %11.3f %11.1f", x->sent_mb, x->mean_s, x->tokens_per_s);
    printf("%s\n", x == best ? "  <- advised" : !x->failed && !allowed(a, x) ? "  loses too much" : "");
}

static void print_advice(const advice *a) {
    const setting *best = choose(a);
    printf("\nlinks  sums         loss     MB sent   iteration    tokens/s\n");
    for (uint32_t i = 0; i < a->count; i++) print_setting(a, &a->of[i], best);
    if (best == NULL) {
        printf("\nNo setting completes this swarm.\n");
        return;
    }
    printf("\nWith at most %.1f %% more held-out loss: 'links: %s'", a->flags->quality,
           tensor_codec_names[best->links]);
    if (!a->s->reproducible) printf(" and 'sums: %s'", best->byte_sums ? "int8" : "exact");
    printf(" under 'swarm:' of the run. An iteration takes %.2f of its time with fp32.\n",
           best->mean_s / a->of[0].mean_s);
}

braid_err sim_advise(const sim_flags *flags, const scenario *s, braid_error *error) {
    braid_err code = BRAID_OK;
    advice *a = calloc(1, sizeof *a);
    if (a == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
    a->flags = flags;
    a->s = s;
    list_settings(a);
    for (uint32_t i = 0; i < a->count && code == BRAID_OK; i++) code = try_setting(a, &a->of[i], error);
    if (code == BRAID_OK) print_advice(a);
    free(a);
    return code;
}
