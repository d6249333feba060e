// A whole swarm on a virtual clock, as a scenario describes it: peers with machines, links and
// places, churn, and the protocol itself (the object code of src/peer). It measures the duration of
// iterations, waits and wasted work.
//
// The result depends on the scenario's names and seed alone: not on the order in which peers are
// listed, the compiler, or the machine. Two runs of one scenario have the same `hash`.
#ifndef BRAID_SIM_SWARM_H
#define BRAID_SIM_SWARM_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct scenario;  // sim/scenario.h
struct sim_swarm_report;

enum { SIM_SWARM_ABSENT = 0xffff, SIM_SWARM_NAME = 64, SIM_SWARM_TEXT = 1024, SIM_SWARM_REPLAY = 512 };

// The checks during a run. A violation ends the run and sets `failed` in the report.
typedef enum sim_check_level {
    // every rule of docs/protocol.md after every event, also stalls and livelocks; ends with the
    // last FINAL
    SIM_CHECK_LIVENESS,
    SIM_CHECK_RULES,  // also every number against a one-process run, until the last peer has left
} sim_check_level;

typedef struct sim_swarm_progress {
    uint64_t virtual_ns, events;
    uint64_t iteration, iterations;  // completed and planned
    uint32_t peers;                  // alive
} sim_swarm_progress;

typedef struct sim_swarm_options {
    // a timeline in Chrome's trace format, which Perfetto opens; NULL: none
    const char *trace_path;
    // the command that repeats this run, for the report of a failure; NULL: none
    const char *replay;
    sim_check_level check;
    uint8_t view_mutant;     // a planted mistake of peer_view_mutant
    uint64_t until_ns;       // the run stops at this time; 0: after its last iteration
    // called about ten times a second; NULL: none
    void (*progress)(void *context, const sim_swarm_progress *progress);
    // Called after each iteration, with peers and flows as they are now; `done`: iterations so far.
    // NULL: none.
    void (*iteration)(void *context, uint32_t done, const struct sim_swarm_report *now);
    void *context;
} sim_swarm_options;

typedef struct sim_swarm_iteration {
    uint64_t iteration;
    uint64_t start_ns, end_ns;  // FINAL to FINAL, by the leader's log
    uint64_t close_ns;          // its CLOSE: everything is computed, and the reduction begins
    uint32_t microbatches;      // counted microbatches
    uint32_t crashes, joins, leaves, repairs;
    uint64_t useful_ns, wasted_ns;  // F, B and W compute that counted, and that did not
    // compute that dead peers had added and that was repeated, because their sums were lost
    uint64_t lost_counted_ns;
    uint64_t lost_held_ns;          // compute of dead peers that they had not yet added
    uint64_t transfer_ns;           // activations and gradients on lines, summed over all transfers
    // [peers of the scenario]: stage of each living member at the start, else SIM_SWARM_ABSENT
    uint16_t *stage;
    // [peers of the scenario]: first crash in this iteration; UINT64_MAX: none
    uint64_t *died_ns;
    // [peers of the scenario]: stage of each peer admitted during it, else SIM_SWARM_ABSENT
    uint16_t *joined;
    // [peers of the scenario]: time of that admission, the last one; UINT64_MAX: none
    uint64_t *joined_ns;
} sim_swarm_iteration;

typedef struct sim_swarm_peer {
    char name[SIM_SWARM_NAME];
    bool data, alive, member;   // at the end
    uint16_t stage;             // the last one; meaningful if ever_member
    bool ever_member;
    uint64_t up_ns;             // alive, over all incarnations
    uint64_t busy_ns, idle_ns;  // parts of up_ns: with a job, without one
    uint64_t bytes_up, bytes_down;
    double up_share, down_share;  // share of up_ns with at least one tensor on its way there
    uint32_t microbatches;        // weight gradients that it added
    uint32_t crashes, joins;
    uint64_t useful_ns, wasted_ns;
    // last state transfer, from its admission to the complete state; 0: none
    uint64_t fetch_ns;
    // at the end: units that its router may carry; for a data peer, units that it wants to send
    uint32_t route_capacity;
    uint64_t view_messages, view_bytes;    // gossip that it sent about near peers
    uint64_t route_messages, route_bytes;  // routing messages that it sent
} sim_swarm_peer;

// Units that routers send over a link, of all data peers.
typedef struct sim_swarm_flow {
    uint32_t from, to;  // indices into `peer`
    uint32_t units;
    uint32_t cost_us;   // cost of the link as the sender measured it
} sim_swarm_flow;

typedef struct sim_swarm_report {
    bool failed;
    char text[SIM_SWARM_TEXT];      // the first violation: rule, place and time
    char replay[SIM_SWARM_REPLAY];  // the command that repeats it
    sim_swarm_iteration *iteration;  // [iterations], the completed ones
    uint32_t iterations;
    sim_swarm_peer *peer;            // [peers], by name
    uint32_t peers;
    sim_swarm_flow *flow;            // [flows], by sender
    uint32_t flows;
    uint64_t events, messages, repairs, crashes, joins, leaves;
    uint32_t delayed;                // deaths delayed by churn.keeps_last
    uint64_t delayed_ns;             // sum of their delays
    uint64_t hash;                   // hash of every event, in order
    uint64_t virtual_ns, wall_ns;
} sim_swarm_report;

// Runs the scenario to its end, or to the first violation (BRAID_OK with report->failed). Errors:
// BRAID_LIMIT for a scenario that cannot run (more peers or microbatches than the protocol allows),
// BRAID_IO for the trace file.
braid_err sim_swarm_run(const struct scenario *s, const sim_swarm_options *options, sim_swarm_report *out, braid_error *error);
void sim_swarm_report_free(sim_swarm_report *report);

#endif
