// A cluster in memory on a virtual clock: peers, links, disks and workers, driven by one queue of
// events and one seed. The peers run the object code of the real process.
#ifndef BRAID_SIM_CLUSTER_H
#define BRAID_SIM_CLUSTER_H

#include "braid/peer.h"
#include "sim/case.h"
#include "sim/model.h"
#include "sim/reference.h"

#include <stdio.h>

enum { SIM_MAX_REPORT = 1024, SIM_MAX_LOSSES = 48 };

// The state of a microbatch when a peer that took part in it died.
typedef enum sim_loss_phase {
    SIM_LOSS_SENT,         // a tensor was on its way to the victim
    SIM_LOSS_FORWARD,      // the victim held it, or had computed it, in the forward pass
    SIM_LOSS_BACKWARD,     // the victim had received its gradient
    SIM_LOSS_COMMITTED,    // the victim had received its COMMIT
    SIM_LOSS_AGGREGATION,  // the victim had added it, and the iteration was closed
    SIM_LOSS_OWNER,        // the victim owned it, so another data peer must take it over
    SIM_LOSS_REDUCTION,    // the whole iteration, from CLOSE to FINAL
    SIM_LOSS_PHASES
} sim_loss_phase;

// Work that a death destroyed, and the cost of its repair.
typedef struct sim_loss {
    sim_loss_phase phase;
    uint16_t stage;
    uint32_t m;
    uint64_t iteration, died_ns;
    uint8_t target;      // job_kind; another peer's repairs the loss. JOB_NONE: FINAL does
    bool at_start;       // the begin of that job repairs it, because nothing had been computed
    bool repaired;
    uint64_t repair_ns;  // time from the death to the repair
    uint64_t lost_ns;    // the part of it spent computing something that had been computed before
} sim_loss;

const char *sim_loss_name(sim_loss_phase phase);

typedef struct sim_stats {
    uint64_t virtual_ns, events, messages;
    // steps that peers requested by deadline; most of one peer in one virtual second
    uint64_t ticks, most_ticks;
    uint32_t crashes, joins, repairs, skipped_crashes;
    uint64_t repairs_in[REPAIR_PHASES];
    // F and B at relays; how many repeat a result that a living member of the stage had
    uint64_t relay_jobs, again;
    // runs that ended without the private data of their last iteration
    uint32_t unfinished;
    uint64_t left_out, voided;       // microbatches that an elastic run skipped; void microbatches
    uint32_t departures;                // data peers that left an elastic run before its end
    uint32_t leaders, leader_deaths;  // changes of leader; elections after the death of a leader
    uint32_t stage_deaths, promotions;  // deaths of whole stages; promoted standbys
    uint32_t rollbacks;              // rollbacks to an older version
    uint64_t again_iterations;       // iterations that rollbacks repeat
    uint32_t fault_count[SIM_TROUBLES];   // how often each fault occurred
    // broken connections between living peers; restarts with the same identity
    uint32_t link_falls, returns;
    uint64_t lost, doubled;          // messages lost and duplicated at random
    // messages sent across a cut; messages that arrived after later ones
    uint64_t delayed, reordered;
    uint32_t voter_changes;      // log entries that change the voters
    // compactions of durable logs; durable logs that were read again
    uint32_t shortened, recalled;
    uint32_t longest_store;      // most entries after a log's snapshot
    uint64_t leaderless_ns, most_leaderless_ns;  // time from a leader's death to the next leader
    uint32_t moves;               // relays that the leader moved (rule J14)
    uint64_t route_checks;        // checks of settled routes
    uint64_t state_blocks, lies;  // blocks of state that were sent; corrupt chunks and names
    uint64_t saves_given_up;         // checkpoints abandoned because the agreed state was not sent
    struct {
        uint32_t count;    // joiners and restarted peers that received their stage's state
        uint64_t most_ns;  // longest time from the start of such a process until then
    } joined;
    uint64_t routed, unrouted;   // microbatches sent along the routers' units, and otherwise
    uint32_t losses;             // at most SIM_MAX_LOSSES are recorded
    sim_loss loss[SIM_MAX_LOSSES];
} sim_stats;

typedef struct sim_report {
    bool failed;
    char text[SIM_MAX_REPORT];  // first violation: rule, place and time
    sim_stats stats;
} sim_report;

// Runs a case to its end or to the first violation. `trace` receives a line per event, or is NULL.
void sim_cluster_run(const sim_case *c, const sim_model *model, const sim_reference *reference, FILE *trace, sim_report *report);

#endif
