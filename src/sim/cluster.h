// A cluster in memory on a virtual clock: peers, links, disks and workers driven by one queue of events and one seed.
// The peers are the very object code of the real process.
#ifndef BRAID_SIM_CLUSTER_H
#define BRAID_SIM_CLUSTER_H

#include "protocol/peer.h"
#include "sim/case.h"
#include "sim/model.h"
#include "sim/reference.h"

#include <stdio.h>

enum { SIM_MAX_REPORT = 1024, SIM_KEPT_LOSSES = 48 };

// What a microbatch was about to have when somebody died.
typedef enum sim_loss_phase {
    SIM_LOSS_SENT,         // a tensor of it was on its way to the victim
    SIM_LOSS_FORWARD,      // the victim held it, or had computed it, on its way forward
    SIM_LOSS_BACKWARD,     // its gradient had been there
    SIM_LOSS_COMMITTED,    // the victim was told to count it
    SIM_LOSS_AGGREGATION,  // and the iteration was closed
    SIM_LOSS_OWNER,        // the victim owned it: another data peer must take it over
    SIM_LOSS_REDUCTION,    // the iteration as a whole, from CLOSE to FINAL
    SIM_LOSS_PHASES
} sim_loss_phase;

// Something that a death took, and what it took to have it again.
typedef struct sim_loss {
    sim_loss_phase phase;
    uint16_t stage;
    uint32_t m;
    uint64_t iteration, died_ns;
    uint8_t target;      // job_kind: when somebody else has done it, what was lost is there again; JOB_NONE: when FINAL is
    bool at_start;       // or has begun it: nothing had been computed
    bool repaired;
    uint64_t repair_ns;  // from the death until then
    uint64_t lost_ns;    // of that, computing what had been computed before
} sim_loss;

const char *sim_loss_name(sim_loss_phase phase);

typedef struct sim_stats {
    uint64_t virtual_ns, events, messages;
    uint64_t ticks, most_ticks;  // steps that a peer asked for itself; of one peer in one virtual second
    uint32_t crashes, joins, repairs, skipped_crashes;
    uint64_t repairs_in[REPAIR_PHASES];
    uint64_t relay_jobs, again;  // F and B in relays; those whose result another living member of the stage still had
    uint32_t unfinished;             // the run was ended in an iteration whose private data did not come back
    uint64_t left_out, voided;       // microbatches that an elastic run did not wait for; that were void
    uint32_t leavers;                // data peers that left an elastic run before its end
    uint32_t leaders, leader_deaths;  // times that another one led; that one was elected after the one before had died
    uint32_t stage_deaths, promotions;  // all of a stage at once; shadows that took its work
    uint32_t rollbacks;              // times that the run went back to an older version,
    uint64_t again_iterations;       // and by how many iterations in all
    uint32_t befell[SIM_TROUBLES];   // how often each trouble came to pass
    uint32_t link_falls, returns;    // between two who live; of peers that had died and came back as themselves
    uint64_t lost, doubled;          // messages, by chance
    uint64_t delayed, reordered;     // that were sent to or by somebody who was cut off; that came after some that were sent later
    uint32_t voter_changes;      // entries of the log that change who votes
    uint32_t shortened, recalled;    // stores that were begun anew behind what they held already; that were read again
    uint32_t longest_store;      // entries behind the state with which it begins
    uint64_t leaderless_ns, most_leaderless_ns;  // from such a death until then
    uint64_t quiet_looks;        // at routing that had nothing more to say
    uint64_t state_blocks, lies; // blocks of state that were sent; how many chunks or names were not what they should be
    uint64_t saves_given_up;         // checkpoints of which nobody sends what was agreed on
    uint32_t joined;             // joiners and those who came back that have had their stage's state
    uint64_t most_join_ns;       // from the start of such a process until then
    uint64_t routed, unrouted;   // microbatches sent by the routers' units, and otherwise
    uint32_t losses;             // more than SIM_KEPT_LOSSES are not looked at
    sim_loss loss[SIM_KEPT_LOSSES];
} sim_stats;

typedef struct sim_report {
    bool failed;
    char text[SIM_MAX_REPORT];  // what went wrong, where and when
    sim_stats stats;
} sim_report;

// Runs a case to its end or to the first violation. `trace`: every event in lines, or NULL.
void sim_cluster_run(const sim_case *c, const sim_model *model, const sim_reference *reference, FILE *trace, sim_report *report);

#endif
