// A cluster in memory on a virtual clock: peers, links, disks and workers driven by one queue of events and one seed.
// The peers are the very object code of the real process.
#ifndef BRAID_SIM_CLUSTER_H
#define BRAID_SIM_CLUSTER_H

#include "peer/peer.h"
#include "sim/case.h"
#include "sim/model.h"
#include "sim/reference.h"

#include <stdio.h>

enum { SIM_MAX_REPORT = 1024 };

typedef struct sim_stats {
    uint64_t virtual_ns, events, messages;
    uint64_t ticks, most_ticks;  // steps that a peer asked for itself; of one peer in one virtual second
    uint32_t crashes, joins, repairs, skipped_crashes;
    uint64_t repairs_in[REPAIR_PHASES];
    uint64_t relay_jobs, again;  // F and B in relays; those whose result another living member of the stage still had
    uint32_t leaders, leader_deaths;  // times that another one led; that one was elected after the one before had died
    uint32_t stage_deaths, promotions;  // all of a stage at once; shadows that took its work
    uint32_t voter_changes;      // entries of the log that change who votes
    uint64_t leaderless_ns, most_leaderless_ns;  // from such a death until then
    uint64_t quiet_looks;        // at routing that had nothing more to say
    uint64_t routed, unrouted;   // microbatches sent by the routers' units, and otherwise
} sim_stats;

typedef struct sim_report {
    bool failed;
    char text[SIM_MAX_REPORT];  // what went wrong, where and when
    sim_stats stats;
} sim_report;

// Runs a case to its end or to the first violation. `trace`: every event in lines, or NULL.
void sim_cluster_run(const sim_case *c, const sim_model *model, const sim_reference *reference, FILE *trace, sim_report *report);

#endif
