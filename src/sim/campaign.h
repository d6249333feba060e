// Many simulated runs: in turn, or over several processes, so that a run that crashes its process
// is only one failure among others.
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
    bool real, flaps, odd;   // odd: unusual runs (sim_case_make_unusual)
    bool partitions;         // the swarm is partitioned for a while
    bool data_deaths;        // data peers die, too
    bool leader_deaths;      // the leader dies, too
    // with leader_deaths: most dead peers restart soon with their durable logs
    bool restarting;
    bool short_stores;       // voters compact their durable logs after a few entries
    bool slow_stores;        // durable logs are slow now and then
    bool moves;              // relays move to another stage
    bool scarce_slots;            // few relays, with one slot or two
    bool private_data;       // each data peer has private data, and restarts after a death
    bool elastic;            // with private data: iterations do not wait for missing owners
    // with elastic: some data peers are asked to leave, some microbatches are void
    bool departures;
    bool stage_deaths;       // standbys keep every stage, and all workers of a stage die at once
    bool stage_losses;       // a stage dies with its standbys, and the run rolls back
    bool carried;            // tensors take relayed transfers
    bool doubled_tensors;    // some tensors arrive twice
    bool mixed;              // the kind depends on the seed: sim_campaign_mix
    bool all_kinds;          // with `mixed`: every kind that there is
    unsigned processes;      // 1 .. SIM_MAX_PROCESSES
    sim_mutant mutant;
    uint32_t print;          // number of failures printed in full
    const char *replay;      // command of a failed run; seed and options are appended
} sim_campaign;

typedef struct sim_campaign_result {
    uint64_t runs, real, failures, crashes, joins, repairs, events, messages;
    uint64_t repairs_in[REPAIR_PHASES];
    uint64_t leaders, leader_deaths, left_out, voided, departures;  // as in sim_stats
    double leaderless_s, most_leaderless_s;
    uint64_t stage_deaths, promotions, rollbacks, again_iterations, shortened, recalled;
    uint64_t first_failure;  // lowest seed of a failed run
    char first_why[SIM_MAX_REPORT];  // violation of that run
    double virtual_hours;
    uint64_t most_ticks;     // most of one peer in one virtual second
    uint64_t moves;          // as in sim_stats
    uint64_t route_checks, routed, unrouted, relay_jobs, again;
    // as in sim_stats
    uint64_t fault_count[SIM_TROUBLES], link_falls, returns, lost, doubled, delayed, reordered;
    uint64_t quiet;          // runs without any fault
} sim_campaign_result;

// The kind of `seed` in a mixed campaign. Four of five run on real kernels. Relays or data peers
// die, or leaders if the campaign has leader_deaths. In every second run links break, in every
// second the swarm is partitioned.
// With all_kinds: whole stages die in one of six, and are lost in about one of ten. Half of the
// runs with dying data peers or leaders have private data, half of these are elastic. Half of the
// runs with dying leaders have short logs, and in a third of them most dead peers restart soon. One
// of four has forwarders, one of four duplicated tensors, one of six slow logs. From
// SIM_NEWER_KINDS_FROM on data peers leave in half of the elastic runs, and in one of six relays
// have few slots.
sim_campaign sim_campaign_mix(const sim_campaign *campaign, uint64_t seed);
sim_case sim_campaign_case(const sim_campaign *campaign, uint64_t seed);

// Prints failures as they come, each with the command that repeats it.
void sim_campaign_run(const sim_campaign *campaign, FILE *out, sim_campaign_result *result);
enum { SIM_MAX_TROUBLES_TEXT = 1024 };
// Writes one line that counts all faults but deaths. `capacity`: SIM_MAX_TROUBLES_TEXT.
void sim_campaign_troubles(const sim_campaign_result *r, char *text, size_t capacity);
// Adds the counts of another campaign.
void sim_campaign_add(sim_campaign_result *to, const sim_campaign_result *from);

#endif
