// A whole swarm on a virtual clock, as a scenario describes it: peers with machines, links and places, churn, and the
// protocol itself (the object code of src/peer). Says how long iterations take, who waits for whom and what was wasted.
//
// The result depends on the scenario's names and seed alone: not on the order in which peers are listed, the compiler,
// or the machine. Two runs of one scenario have the same `hash`.
#ifndef BRAID_SIM_SWARM_H
#define BRAID_SIM_SWARM_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct scenario;  // sim/scenario.h
struct sim_swarm_report;

enum { SIM_SWARM_ABSENT = 0xffff, SIM_SWARM_NAME = 64, SIM_SWARM_TEXT = 1024, SIM_SWARM_REPLAY = 512 };

// What is looked at while the swarm runs. A violation ends the run: `failed` in the report.
typedef enum sim_check_level {
    SIM_CHECK_LIVENESS,  // every rule of docs/protocol.md after every event, exactly-once among them; an iteration that gets
                         // no further for too long, a peer that steps without end; it ends with the last FINAL
    SIM_CHECK_RULES,     // and every number against a run of one process, to the farewell of the last peer
} sim_check_level;

typedef struct sim_swarm_progress {
    uint64_t virtual_ns, events;
    uint64_t iteration, iterations;  // done, wanted
    uint32_t peers;                  // alive
} sim_swarm_progress;

typedef struct sim_swarm_options {
    const char *trace_path;  // a timeline in Chrome's trace format, which Perfetto opens; NULL: none
    const char *replay;      // the command that repeats this run, quoted in `replay` of a failed report; NULL: none
    sim_check_level check;
    uint8_t view_mutant;     // of peer_view_mutant: a mistake put in on purpose
    void (*progress)(void *context, const sim_swarm_progress *progress);  // about ten times a second; NULL: none
    // After each iteration, `done` so far, with peers and flows as they are now; NULL: none
    void (*iteration)(void *context, uint32_t done, const struct sim_swarm_report *now);
    void *context;
} sim_swarm_options;

typedef struct sim_swarm_iteration {
    uint64_t iteration;
    uint64_t start_ns, end_ns;  // FINAL to FINAL, as the leader's log has it
    uint64_t close_ns;          // its CLOSE: everything is computed; from here on sums are reduced and applied
    uint32_t microbatches;      // counted
    uint32_t crashes, joins, leaves, repairs;
    uint64_t useful_ns, wasted_ns;  // compute of F, B and W that counted, and that did not
    uint64_t lost_counted_ns;       // of those that died in it: what they had counted and somebody computed again, since their sums died with them
    uint64_t lost_held_ns;          // and what they had computed and not yet counted
    uint64_t transfer_ns;           // of activations and gradients on lines, all added up
    uint16_t *stage;                // [peers of the scenario]: of who lived and was a member when it began, else SIM_SWARM_ABSENT
    uint64_t *died_ns;              // [peers of the scenario]: when it first crashed in this iteration; UINT64_MAX: it did not
    uint16_t *joined;               // [peers of the scenario]: stage of who became a member while it lasted, else SIM_SWARM_ABSENT
    uint64_t *joined_ns;            // [peers of the scenario]: and since when it last was one; UINT64_MAX: it did not
} sim_swarm_iteration;

typedef struct sim_swarm_peer {
    char name[SIM_SWARM_NAME];
    bool data, alive, member;   // at the end
    uint16_t stage;             // the last one it had; meaningful when it ever was a member
    bool ever_member;
    uint64_t up_ns;             // alive, over all its lives
    uint64_t busy_ns, idle_ns;  // of up_ns: with a job, without one
    uint64_t bytes_up, bytes_down;
    double up_share, down_share;  // of up_ns: time in which at least one tensor was on its way there
    uint32_t microbatches;        // weight gradients that it added
    uint32_t crashes, joins;
    uint64_t useful_ns, wasted_ns;
    uint64_t fetch_ns;            // of its last joining: from its admission until it had its stage's state; 0: never
    uint32_t route_capacity;      // at the end: units that its router may carry; of a data peer, that it wants to send
    uint64_t view_messages, view_bytes;    // gossip about who is near that it sent
    uint64_t route_messages, route_bytes;  // and words between routers
} sim_swarm_peer;

// Units that routers send over a link, of all data peers.
typedef struct sim_swarm_flow {
    uint32_t from, to;  // of `peer`
    uint32_t units;
    uint32_t cost_us;   // of the link, as the sender measured it
} sim_swarm_flow;

typedef struct sim_swarm_report {
    bool failed;
    char text[SIM_SWARM_TEXT];      // what went wrong, where and when
    char replay[SIM_SWARM_REPLAY];  // the one command that shows it again
    sim_swarm_iteration *iteration;  // [iterations], those that were finished
    uint32_t iterations;
    sim_swarm_peer *peer;            // [peers], by name
    uint32_t peers;
    sim_swarm_flow *flow;            // [flows], by sender
    uint32_t flows;
    uint64_t events, messages, repairs, crashes, joins, leaves;
    uint64_t hash;                   // of every event in its order
    uint64_t virtual_ns, wall_ns;
} sim_swarm_report;

// Runs it to its end, or to the first violation (BRAID_OK with report->failed). Errors: BRAID_LIMIT for a scenario that
// cannot run (more peers or microbatches than the protocol has room for), BRAID_IO for the trace file.
braid_err sim_swarm_run(const struct scenario *s, const sim_swarm_options *options, sim_swarm_report *out, braid_error *error);
void sim_swarm_report_free(sim_swarm_report *report);

#endif
