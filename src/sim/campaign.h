// Many simulated runs: one after another, or over several processes so that a run that stops the process is only one
// failure among others.
#ifndef BRAID_SIM_CAMPAIGN_H
#define BRAID_SIM_CAMPAIGN_H

#include "sim/cluster.h"

enum { SIM_MAX_MODELS = 16, SIM_MAX_PROCESSES = 64, SIM_RUN_SECONDS = 60, SIM_NEWER_KINDS_FROM = 17000000 };

// Models of real kernels and their one-process runs, kept from case to case.
typedef struct sim_bench {
    struct {
        uint64_t seed;
        uint16_t stages;
        uint32_t microbatches, iterations;
        sim_model *model;
        sim_reference *reference;
    } kept[SIM_MAX_MODELS];
    uint32_t count;
} sim_bench;

void sim_bench_close(sim_bench *b);
// Runs one case on fake or real kernels.
void sim_bench_run(sim_bench *b, const sim_case *c, bool real, FILE *trace, sim_report *report);

typedef struct sim_campaign {
    uint64_t first, count;   // seeds
    bool real, flaps, odd;   // odd: less ordinary runs
    bool partitions;         // the swarm falls apart for a while
    bool data_deaths;        // data peers die, too
    bool leader_deaths;      // and whoever leads
    bool comebacks;          // with leader_deaths: of those that die most are back soon with their store
    bool short_stores;       // of voters, which begin them anew after a few entries
    bool slow_stores;        // ... and write them slowly now and then
    bool crowded;            // relays have a slot or two, and there are few of them
    bool private_data;       // of data peers that come back
    bool elastic;            // and are not waited for
    bool leavers;            // with elastic: some are asked to leave, and some microbatches are void
    bool stage_deaths;       // shadows keep the stages, and all of a stage die at once
    bool stage_losses;       // ... with their shadows, and the run goes back
    bool carried;            // tensors go by way of somebody
    bool doubled_tensors;    // ... or come twice
    bool mixed;              // the kind by the seed: sim_campaign_mix
    bool all_kinds;          // mixed, and of every kind that there is
    unsigned processes;      // 1 .. SIM_MAX_PROCESSES
    sim_mutant mutant;
    uint32_t print;          // failures printed in full
    const char *replay;      // name of the program; seed and options are appended
} sim_campaign;

typedef struct sim_campaign_result {
    uint64_t runs, real, failures, crashes, joins, repairs, events, messages;
    uint64_t repairs_in[REPAIR_PHASES];
    uint64_t leaders, leader_deaths, left_out, voided, leavers;  // as in sim_stats
    double leaderless_s, most_leaderless_s;
    uint64_t stage_deaths, promotions, rollbacks, again_iterations, shortened, recalled;
    uint64_t first_failure;  // its seed,
    char first_why[SIM_MAX_REPORT];  // and what was wrong
    double virtual_hours;
    uint64_t most_ticks;     // of one peer in one virtual second
    uint64_t quiet_looks, routed, unrouted, relay_jobs, again;
    uint64_t befell[SIM_TROUBLES], link_falls, returns, lost, doubled, delayed, reordered;  // as in sim_stats
    uint64_t quiet;          // runs in which nothing befell anybody
} sim_campaign_result;

// What `seed` is in a mixed campaign: four in five on real kernels; relays or data peers die (leaders, if the campaign says so); in
// every second links fall, in every second the swarm falls apart. Of every kind: whole stages die in one of six, and in one of ten are lost; half of those
// in which data peers or leaders die have private data, half of these elastic, and half of those in which leaders die have short stores; carriers in one of four, and in as many some
// tensors come twice; in one of three in which leaders die most that do come back soon; in one of six stores are slow. From SIM_NEWER_KINDS_FROM on
// data peers leave in half of the elastic ones, and in one of six relays have a slot or two.
sim_campaign sim_campaign_mix(const sim_campaign *campaign, uint64_t seed);
sim_case sim_campaign_case(const sim_campaign *campaign, uint64_t seed);

// Prints failures as they come, each with the command that shows it again.
void sim_campaign_run(const sim_campaign *campaign, FILE *out, sim_campaign_result *result);
enum { SIM_MAX_TROUBLES_TEXT = 1024 };
// Writes a line for people: what befell peers and messages, but for deaths. `capacity`: SIM_MAX_TROUBLES_TEXT.
void sim_campaign_troubles(const sim_campaign_result *r, char *text, size_t capacity);
// Adds what another campaign saw.
void sim_campaign_add(sim_campaign_result *to, const sim_campaign_result *from);

#endif
