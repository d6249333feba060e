#include "sim/campaign.h"

#include "base/rng.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

void sim_bench_close(sim_bench *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        sim_reference_free(b->kept[i].reference);
        b->kept[i].model->free(b->kept[i].model);
    }
    b->count = 0;
}

// Every second model sends tensors in fewer bytes.
static tensor_links links_of(uint64_t seed) {
    return seed % 2 == 0 ? (tensor_links){0} : (tensor_links){.forward = CODEC_INT8, .backward = CODEC_INT4};
}

static void bench_run_real(sim_bench *b, const sim_case *c, FILE *trace, sim_report *report) {
    uint64_t seed = c->seed % 2;
    uint32_t i = 0;
    while (i < b->count && (b->kept[i].seed != seed || b->kept[i].stages != c->stages ||
                            b->kept[i].microbatches != c->microbatches || b->kept[i].iterations != c->iterations))
        i++;
    if (i == SIM_MAX_MODELS) {
        sim_bench_close(b);
        i = 0;
    }
    if (i == b->count) {
        braid_error error;
        sim_model *model;
        if (sim_real_new(seed, c->stages, c->microbatches, c->iterations, links_of(seed), &model, &error) != BRAID_OK) {
            *report = (sim_report){.failed = true};
            snprintf(report->text, sizeof report->text, "%s", error.text);
            return;
        }
        b->kept[i].seed = seed;
        b->kept[i].stages = c->stages;
        b->kept[i].microbatches = c->microbatches;
        b->kept[i].iterations = c->iterations;
        b->kept[i].model = model;
        b->kept[i].reference = sim_reference_new(model, 0, c->iterations, c->microbatches);
        b->count++;
    }
    sim_cluster_run(c, b->kept[i].model, b->kept[i].reference, trace, report);
}

void sim_bench_run(sim_bench *b, const sim_case *c, bool real, FILE *trace, sim_report *report) {
    if (real) {
        bench_run_real(b, c, trace, report);
        return;
    }
    sim_fake_config config = {.seed = c->seed,
                              .stages = c->stages,
                              .microbatches = c->microbatches,
                              .void_percent = c->fake.void_percent,
                              .overflow_percent = c->fake.overflow_percent,
                              .fast = c->fake.fast};
    for (uint16_t i = 0; i < c->stages; i++) config.blocks[i] = c->fake.blocks;
    sim_model *model = sim_fake_new(&config);
    sim_reference *reference = sim_reference_new(model, c->start_version, c->iterations, c->microbatches);
    sim_cluster_run(c, model, reference, trace, report);
    sim_reference_free(reference);
    model->free(model);
}

// ---- several processes

// The report of a child process about one run.
typedef struct outcome {
    uint64_t seed;
    sim_report report;
} outcome;

typedef struct child {
    pid_t pid;
    int pipe;
    uint64_t offset;  // its seeds are first + offset, and from there every `processes`-th
    outcome got;
    size_t got_bytes;
} child;

enum { DOUBLED_TENSORS = 50 };  // tensors of 1,000

// Where a stage is lost with its standbys, the run rolls back.
static void mix_all_kinds(rng *r, sim_campaign *mix, uint64_t seed) {
    mix->stage_deaths = rng_below(r, 6) == 0;
    bool may = !mix->stage_deaths && (mix->data_deaths || mix->leader_deaths);
    mix->private_data = may && rng_below(r, 2);
    mix->elastic = mix->private_data && rng_below(r, 2);
    mix->short_stores = mix->leader_deaths && rng_below(r, 2);
    mix->carried = rng_below(r, 4) == 0;
    mix->stage_losses = !mix->stage_deaths && rng_below(r, 8) == 0;
    mix->doubled_tensors = rng_below(r, 4) == 0;
    mix->restarting = mix->leader_deaths && rng_below(r, 3) == 0;
    mix->slow_stores = rng_below(r, 6) == 0;
    mix->departures = seed >= SIM_NEWER_KINDS_FROM && mix->elastic && rng_below(r, 2);
    mix->scarce_slots = seed >= SIM_NEWER_KINDS_FROM && rng_below(r, 6) == 0;
}

sim_campaign sim_campaign_mix(const sim_campaign *campaign, uint64_t seed) {
    sim_campaign mix = *campaign;
    if (!campaign->mixed) return mix;
    rng r = {rng_seed(seed, 83)};
    mix.real = rng_below(&r, 5) != 0;
    mix.odd = !mix.real;
    uint64_t victims = rng_below(&r, campaign->leader_deaths ? 3 : 2);
    mix.data_deaths = victims == 1;
    mix.leader_deaths = victims == 2;
    mix.flaps = rng_below(&r, 2) != 0;
    mix.partitions = rng_below(&r, 2) != 0;
    if (campaign->all_kinds) mix_all_kinds(&r, &mix, seed);
    return mix;
}

sim_case sim_campaign_case(const sim_campaign *all, uint64_t seed) {
    const sim_campaign mix = sim_campaign_mix(all, seed), *campaign = &mix;
    sim_case c = sim_case_random(seed, campaign->real);
    c.mutant = campaign->mutant;
    if (campaign->odd) sim_case_make_unusual(&c);
    if (campaign->moves) sim_case_add_moves(&c);
    if (campaign->leader_deaths)
        sim_case_add_leader_deaths(&c);
    else if (campaign->data_deaths)
        sim_case_add_data_deaths(&c);
    if (campaign->restarting) sim_case_add_restarts(&c);
    if (campaign->short_stores) sim_case_shorten_stores(&c);
    c.net.slow_stores = campaign->slow_stores;
    if (campaign->doubled_tensors) c.net.doubled_tensors = DOUBLED_TENSORS;
    if (campaign->stage_deaths) sim_case_add_stage_deaths(&c);
    if (campaign->stage_losses) sim_case_add_stage_losses(&c);
    if (campaign->flaps) sim_case_add_flaps(&c);
    if (campaign->partitions) sim_case_add_partitions(&c);
    if (campaign->scarce_slots) sim_case_add_scarce_slots(&c, campaign->real);
    if (campaign->elastic)
        sim_case_make_elastic(&c);
    else if (campaign->private_data)
        sim_case_make_private(&c);
    if (campaign->departures) sim_case_add_departures(&c, campaign->real);
    if (campaign->carried) sim_case_add_forwarders(&c);
    return c;
}

static bool is_quiet(const sim_campaign *campaign, uint64_t seed) {
    sim_case c = sim_campaign_case(campaign, seed);
    return sim_case_is_faultless(&c);
}

static _Noreturn void child_main(const sim_campaign *campaign, uint64_t offset, int pipe, uint64_t *now) {
    sim_bench bench = {.count = 0};
    // limit of its own processor time, because the machine may be busy
    const struct itimerval limit = {.it_value.tv_sec = SIM_RUN_SECONDS};
    outcome o;
    memset(&o, 0, sizeof o);
    for (uint64_t i = offset; i < campaign->count; i += campaign->processes) {
        o.seed = *now = campaign->first + i;
        setitimer(ITIMER_PROF, &limit, NULL);
        sim_case c = sim_campaign_case(campaign, o.seed);
        sim_bench_run(&bench, &c, sim_campaign_mix(campaign, o.seed).real, NULL, &o.report);
        const char *from = (const char *)&o;
        for (size_t sent = 0; sent < sizeof o;) {
            ssize_t n = write(pipe, from + sent, sizeof o - sent);
            if (n <= 0) _exit(1);
            sent += (size_t)n;
        }
    }
    _exit(0);
}

static bool child_start(const sim_campaign *campaign, child *c, uint64_t *now) {
    int ends[2];
    if (c->offset >= campaign->count || pipe(ends) != 0) return false;
    c->got_bytes = 0;
    c->pid = fork();
    if (c->pid == 0) {
        close(ends[0]);
        child_main(campaign, c->offset, ends[1], now);
    }
    close(ends[1]);
    c->pipe = ends[0];
    return c->pid > 0;
}

static void failure_print(const sim_campaign *all, FILE *out, uint64_t seed, const char *why) {
    char text[2048];
    const sim_campaign mix = sim_campaign_mix(all, seed), *campaign = &mix;
    sim_case c = sim_campaign_case(all, seed);
    sim_case_describe(&c, text, sizeof text);
    fprintf(out, "FAILED %s  %s\n  again: %s --seeds %" PRIu64 ":1%s", text, why, campaign->replay, seed,
            campaign->real ? " --real" : "");
    if (campaign->mutant) fprintf(out, " --mutant %s", sim_mutant_name(campaign->mutant));
    if (campaign->carried) fputs(" --carried", out);
    if (campaign->doubled_tensors) fputs(" --doubled-tensors", out);
    if (campaign->restarting) fputs(" --comebacks", out);
    if (campaign->slow_stores) fputs(" --slow-stores", out);
    if (campaign->scarce_slots) fputs(" --crowded", out);
    if (campaign->moves) fputs(" --moves", out);
    fprintf(out, "%s%s%s%s%s%s%s%s --trace\n", campaign->stage_losses ? " --stage-losses" : "",
            campaign->departures     ? " --elastic --leavers"
            : campaign->elastic      ? " --elastic"
            : campaign->private_data ? " --private"
                                     : "",
            campaign->stage_deaths ? " --stage-deaths" : "", campaign->flaps ? " --flaps" : "",
            campaign->partitions ? " --partitions" : "", campaign->odd ? " --odd" : "",
            campaign->short_stores ? " --short-stores" : "",
            campaign->leader_deaths ? " --leader-deaths"
            : campaign->data_deaths ? " --data-deaths"
                                    : "");
    fflush(out);
}

static void set_first_failure(sim_campaign_result *r, uint64_t seed, const char *why) {
    r->first_failure = seed;
    snprintf(r->first_why, sizeof r->first_why, "%s", why);
}

static void outcome_add(const sim_campaign *campaign, FILE *out, const outcome *o, sim_campaign_result *r) {
    const sim_stats *stats = &o->report.stats;
    r->runs++;
    r->crashes += stats->crashes;
    r->joins += stats->joins;
    r->repairs += stats->repairs;
    r->leaders += stats->leaders;
    r->leader_deaths += stats->leader_deaths;
    r->stage_deaths += stats->stage_deaths;
    r->promotions += stats->promotions;
    r->shortened += stats->shortened;
    r->recalled += stats->recalled;
    r->rollbacks += stats->rollbacks;
    r->again_iterations += stats->again_iterations;
    r->left_out += stats->left_out;
    r->voided += stats->voided;
    r->departures += stats->departures;
    for (int i = 0; i < SIM_TROUBLES; i++) r->fault_count[i] += stats->fault_count[i];
    r->link_falls += stats->link_falls;
    r->returns += stats->returns;
    r->lost += stats->lost;
    r->doubled += stats->doubled;
    r->delayed += stats->delayed;
    r->reordered += stats->reordered;
    r->leaderless_s += (double)stats->leaderless_ns / 1e9;
    if ((double)stats->most_leaderless_ns / 1e9 > r->most_leaderless_s)
        r->most_leaderless_s = (double)stats->most_leaderless_ns / 1e9;
    r->quiet += is_quiet(campaign, o->seed);
    r->real += sim_campaign_mix(campaign, o->seed).real;
    r->events += stats->events;
    r->messages += stats->messages;
    r->moves += stats->moves;
    r->route_checks += stats->route_checks;
    r->relay_jobs += stats->relay_jobs;
    r->again += stats->again;
    r->routed += stats->routed;
    r->unrouted += stats->unrouted;
    if (stats->most_ticks > r->most_ticks) r->most_ticks = stats->most_ticks;
    r->virtual_hours += (double)stats->virtual_ns / 3.6e12;
    for (int i = 0; i < REPAIR_PHASES; i++) r->repairs_in[i] += stats->repairs_in[i];
    if (!o->report.failed) return;
    if (r->failures == 0 || o->seed < r->first_failure) set_first_failure(r, o->seed, o->report.text);
    if (r->failures++ < campaign->print) failure_print(campaign, out, o->seed, o->report.text);
}

// The process is gone: at the end of its work, or in the middle of a run, which then failed.
static bool child_ended(const sim_campaign *campaign, FILE *out, child *c, uint64_t *now, sim_campaign_result *r) {
    int status = 0;
    close(c->pipe);
    waitpid(c->pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
    outcome o = {.seed = *now, .report = {.failed = true}};
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
        snprintf(o.report.text, sizeof o.report.text, "still running after %d s of computing", SIM_RUN_SECONDS);
    else
        snprintf(o.report.text, sizeof o.report.text, "the process died (%s %d)",
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    outcome_add(campaign, out, &o, r);
    c->offset = *now - campaign->first + campaign->processes;
    return child_start(campaign, c, now);
}

static bool child_read(const sim_campaign *campaign, FILE *out, child *c, sim_campaign_result *r) {
    ssize_t n = read(c->pipe, (char *)&c->got + c->got_bytes, sizeof c->got - c->got_bytes);
    if (n <= 0) return false;
    c->got_bytes += (size_t)n;
    if (c->got_bytes < sizeof c->got) return true;
    c->got_bytes = 0;
    outcome_add(campaign, out, &c->got, r);
    return true;
}

void sim_campaign_run(const sim_campaign *campaign, FILE *out, sim_campaign_result *result) {
    *result = (sim_campaign_result){0};
    unsigned processes = campaign->processes;
    child *children = calloc(SIM_MAX_PROCESSES, sizeof *children);
    uint64_t *now =
        mmap(NULL, SIM_MAX_PROCESSES * sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BRAID_ASSERT(now != MAP_FAILED && children && processes > 0 && processes <= SIM_MAX_PROCESSES);
    struct pollfd polls[SIM_MAX_PROCESSES];
    unsigned alive = 0;
    fflush(out);
    for (unsigned i = 0; i < processes; i++) {
        children[i] = (child){.offset = i};
        polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
        if (!child_start(campaign, &children[i], &now[i])) continue;
        polls[i].fd = children[i].pipe;
        alive++;
    }
    while (alive > 0 && poll(polls, processes, -1) >= 0) {
        for (unsigned i = 0; i < processes; i++) {
            if (polls[i].fd < 0 || !(polls[i].revents & (POLLIN | POLLHUP))) continue;
            if (child_read(campaign, out, &children[i], result)) continue;
            bool again = child_ended(campaign, out, &children[i], &now[i], result);
            polls[i].fd = again ? children[i].pipe : -1;
            if (!again) alive--;
        }
    }
    free(children);
    munmap(now, SIM_MAX_PROCESSES * sizeof *now);
}

void sim_campaign_troubles(const sim_campaign_result *r, char *text, size_t capacity) {
    const uint64_t *of = r->fault_count;
    const uint64_t stood_still = of[SIM_PAUSE] + of[SIM_PAUSE_DATA] + of[SIM_PAUSE_LEADER];
    int used = snprintf(text, capacity,
                        "%" PRIu64 " times a peer was paused (%" PRIu64 " relays, %" PRIu64 " data peers, %" PRIu64
                        " leaders), %" PRIu64 " slowed down, ",
                        stood_still, of[SIM_PAUSE], of[SIM_PAUSE_DATA], of[SIM_PAUSE_LEADER], of[SIM_SLOW]);
    used += snprintf(text + used, capacity - (size_t)used,
                     "%" PRIu64 " relays and %" PRIu64 " data peers were asked to leave and %" PRIu64 " runs to end, ",
                     of[SIM_DRAIN], of[SIM_DRAIN_DATA], of[SIM_DRAIN_LEADER]);
    used += snprintf(text + used, capacity - (size_t)used,
                     "%" PRIu64 " peers were cut off and %" PRIu64 " in one direction, ", of[SIM_CUT],
                     of[SIM_CUT_ONE_WAY]);
    used += snprintf(text + used, capacity - (size_t)used, "%" PRIu64 " partitions and %" PRIu64 " in one direction, ",
                     of[SIM_PARTITION], of[SIM_PARTITION_ONE_WAY]);
    used += snprintf(text + used, capacity - (size_t)used,
                     "%" PRIu64 " clocks jumped, %" PRIu64 " links fell, %" PRIu64 " restarted with their identity; ",
                     of[SIM_CLOCK_JUMPS], r->link_falls, r->returns);
    snprintf(text + used, capacity - (size_t)used,
             "of all messages %" PRIu64 " were lost, %" PRIu64 " were duplicated, %" PRIu64 " were delayed, %" PRIu64
             " arrived after later ones",
             r->lost, r->doubled, r->delayed, r->reordered);
}

void sim_campaign_add(sim_campaign_result *to, const sim_campaign_result *from) {
    if (from->failures && (to->failures == 0 || from->first_failure < to->first_failure))
        set_first_failure(to, from->first_failure, from->first_why);
    to->runs += from->runs;
    to->real += from->real;
    to->failures += from->failures;
    to->crashes += from->crashes;
    to->joins += from->joins;
    to->repairs += from->repairs;
    to->events += from->events;
    to->messages += from->messages;
    for (int i = 0; i < REPAIR_PHASES; i++) to->repairs_in[i] += from->repairs_in[i];
    to->leaders += from->leaders;
    to->leader_deaths += from->leader_deaths;
    to->leaderless_s += from->leaderless_s;
    if (from->most_leaderless_s > to->most_leaderless_s) to->most_leaderless_s = from->most_leaderless_s;
    to->virtual_hours += from->virtual_hours;
    if (from->most_ticks > to->most_ticks) to->most_ticks = from->most_ticks;
    to->moves += from->moves;
    to->route_checks += from->route_checks;
    to->routed += from->routed;
    to->unrouted += from->unrouted;
    to->relay_jobs += from->relay_jobs;
    to->again += from->again;
    to->stage_deaths += from->stage_deaths;
    to->promotions += from->promotions;
    to->rollbacks += from->rollbacks;
    to->again_iterations += from->again_iterations;
    to->left_out += from->left_out;
    to->voided += from->voided;
    to->departures += from->departures;
    for (int i = 0; i < SIM_TROUBLES; i++) to->fault_count[i] += from->fault_count[i];
    to->link_falls += from->link_falls;
    to->returns += from->returns;
    to->lost += from->lost;
    to->doubled += from->doubled;
    to->delayed += from->delayed;
    to->reordered += from->reordered;
    to->shortened += from->shortened;
    to->recalled += from->recalled;
    to->quiet += from->quiet;
}
