// One peer as a process: the protocol core, a thread that computes and the links, bound to one libuv loop.
//
// Threads: everything runs on the loop's thread (the caller of node_run), except jobs (node/compute.h) and the log's
// writes (node/log_writer.h). The core is stepped on the loop's thread only.
#ifndef BRAID_NODE_NODE_H
#define BRAID_NODE_NODE_H

#include "base/err.h"
#include "net/identity.h"
#include "node/fault.h"
#include "node/measure.h"
#include "node/ticket.h"
#include "protocol/peer.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct node node;

typedef enum node_role { NODE_RELAY, NODE_DATA, NODE_LEADER } node_role;

// Called on the loop's thread; what they get is borrowed during the call. Each may be NULL.
typedef struct node_callbacks {
    void *context;
    // It listens. `ticket` is the leader's, NULL for others.
    void (*listening)(void *context, const braid_id *self, const char *address, const char *ticket);
    // The run is known; a relay learns it from the leader.
    void (*run_known)(void *context, const run_config *run, uint64_t parameters);
    void (*told)(void *context, const tell *t);
    // This peer's own state is whole, and at `version`.
    void (*advanced)(void *context, uint64_t version);
    // A checkpoint is complete, or could not be written (`why`, else NULL); told before its TELL_CHECKPOINT or TELL_END.
    void (*saved)(void *context, const char *path, const char *why);
    // After each iteration but the first ones, when `measure` is set.
    void (*figures)(void *context, const node_figures *figures);
    void (*note)(void *context, const char *text);
    // The checkpoint that a leader was to go on from is the run's last: the node ends at once. Told instead of any TELL.
    void (*complete)(void *context, uint64_t version, const braid_hash *weights, const char *path);
    void (*tick)(void *context);  // twice a second
} node_callbacks;

typedef struct node_config {
    node_role role;
    const identity *identity;       // borrowed
    const char *listen;             // "host:port"; NULL: every address, any port
    const char *public_address;     // where others reach it, port 0: the one it listens on; NULL: made from `listen` and the way to the leader
    ticket leader;                  // whom to join; not for NODE_LEADER
    uint64_t patience_ns;           // how long an unreachable leader is tried, 0: for ever
    uint64_t wait_ns;               // how long a leader waits for peers without which nothing goes on, 0: for ever
    const run_config *run;          // copied; leader and data peers
    uint32_t share;                 // private data: which of the texts is this data peer's, from 1; 0: any that is free
    uint32_t start_data_peers, start_relays;  // NODE_LEADER: the run begins when these are there
    const char *resume;             // NODE_LEADER: a checkpoint to go on from, NULL: begin anew. Others: one that lies here; what of it
                                    // the run has, too, is not fetched
    uint32_t upload_percent;        // most of its line that those who fetch state may take while the run goes on, 1 .. 100
    const char *log_path;           // where it keeps the run's log while it is a voter, and finds it again; NULL: in memory only
    bool anew;                      // NODE_LEADER: begins the run though `log_path` has a log of it, which is set aside; else it goes on with that
    bool sets_aside;                // NODE_LEADER: newer checkpoints in its directory are set aside; else a new start is refused
    bool shadow;                    // NODE_RELAY: it keeps a stage's state, and works only when nobody else of that stage is left
    braid_id beside;                // ... on this peer's machine, and of another stage than its; zero: nobody's
    uint32_t shadows;               // of each stage that a leader admits, at most 4
    const char *state_directory;    // where a nameless file holds weights and moments, NULL: in memory
    uint32_t voters;                // of the log, at most; 1: the first leader alone
    unsigned threads;
    uint64_t files;                 // open files that the process may have, 0: not known
    // Memory that the process may use; without a cap its capacity fits that. 0: not known, or shared.
    uint64_t usable_bytes;
    uint32_t capacity;              // 0: plan_capacity
    uint64_t max_memory;            // bytes, 0: no cap
    // commands come on standard input; when that ends, so does this peer, and the run that it leads
    // is saved
    bool supervised;
    // those of this process are for this node (node/stop.h); stop_watch was called
    bool signals;
    uint64_t stop_within_ns;        // for an orderly end, 0: STOP_WITHIN_NS
    fault die_at;
    bool carries_nothing;           // of others' tensors
    uint32_t carried_percent;       // of tensors that go by way of somebody however quick the line is; 0 outside of tests
    bool measure;
    const char *trace;              // file for node/trace.h; NULL: none
    node_callbacks callbacks;
} node_config;

// Checks what can be checked before any peer is asked: configuration, text, memory, port.
braid_err node_new(const node_config *config, node **out, braid_error *error);
// Runs until the run is complete, the user ends it or it fails. An end that was asked for and came
// in order is BRAID_OK.
braid_err node_run(node *n, braid_error *error);
// Whether such an end was asked for: the signal, or "its supervisor"; NULL: it was not.
const char *node_stopped_by(const node *n);
void node_free(node *n);

#endif
