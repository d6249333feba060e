// One peer as a process: the protocol core, a thread that computes and the links, bound to one
// libuv loop.
//
// Threads: everything runs on the loop's thread (the caller of node_run), except jobs
// (node/compute.h) and the log's writes (node/log_writer.h). The core is stepped on the loop's
// thread only.
#ifndef BRAID_NODE_NODE_H
#define BRAID_NODE_NODE_H

#include "base/err.h"
#include "net/identity.h"
#include "node/fault.h"
#include "node/measure.h"
#include "node/ticket.h"
#include "braid/peer.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct node node;

typedef enum node_role { NODE_RELAY, NODE_DATA, NODE_LEADER } node_role;

// Called on the loop's thread; arguments are borrowed during the call. Each callback may be NULL.
typedef struct node_callbacks {
    void *context;
    // The node listens. `ticket` is the leader's, NULL for other peers.
    void (*listening)(void *context, const braid_id *self, const char *address, const char *ticket);
    // The run is known; a relay learns it from the leader.
    void (*run_known)(void *context, const run_config *run, uint64_t parameters);
    void (*told)(void *context, const tell *t);
    // This peer's own state is complete at `version`.
    void (*advanced)(void *context, uint64_t version);
    // The committed configuration at this index of the log has voters on these machines: ids of
    // whole-model peers or of voters. Called again if a voter's machine becomes known later.
    void (*voters)(void *context, uint64_t index, const braid_id *machine, uint32_t count);
    // A checkpoint is complete, or could not be written (`why`, else NULL). Precedes its
    // TELL_CHECKPOINT or TELL_END.
    void (*saved)(void *context, const char *path, const char *why);
    // After each iteration except the first ones, if `measure` is set.
    void (*figures)(void *context, const node_figures *figures);
    void (*note)(void *context, const char *text);
    // The checkpoint that a leader was to continue from is the run's last, so the node ends.
    // Replaces any TELL.
    void (*complete)(void *context, uint64_t version, const braid_hash *weights, const char *path);
    void (*tick)(void *context);  // twice a second
} node_callbacks;

typedef struct node_config {
    node_role role;
    const identity *identity;       // borrowed
    const char *listen;             // "host:port"; NULL: every address, any port
    // The address for other peers; port 0: the port it listens on. NULL: derived from `listen` and
    // the route to the leader.
    const char *public_address;
    ticket leader;                  // the leader to join; not for NODE_LEADER
    uint64_t patience_ns;           // how long an unreachable leader is retried, 0: forever
    uint64_t wait_ns;               // how long a leader waits for peers that the run cannot proceed without, 0: forever
    const run_config *run;          // copied; leader and data peers
    const char *from;               // NODE_RELAY: the model that the run adapts, NULL: none
    uint32_t stage;                 // NODE_RELAY: the stage that it wishes, 0: where it helps most
    bool whole;                     // other processes of this machine take part in all other stages; max_memory is for all of them
    uint32_t share;                 // private data: the number of this data peer's text, from 1; 0: any free one
    uint32_t start_data_peers, start_relays;  // NODE_LEADER: the run begins once these have joined
    // NODE_LEADER: the checkpoint to continue from; NULL: begin anew. Other roles: a checkpoint on
    // this machine; blocks that equal the run's are not fetched.
    const char *resume;
    uint32_t upload_percent;        // share of the line for peers that fetch state during the run, 1 .. 100
    const char *log_path;           // the voter's copy of the log, found again after a restart; NULL: in memory only
    // Not for NODE_RELAY: continue from the newest checkpoint if neither `log_path` nor a peer has
    // the run; without a checkpoint `resume` applies. A run that was stopped in order restarts from
    // that checkpoint; a complete run ends immediately.
    bool continues;
    // NODE_LEADER: starts the run anew and sets aside a log of it at `log_path`. Otherwise the run
    // of that log continues.
    bool anew;
    bool sets_aside;                // NODE_LEADER: sets newer checkpoints in its directory aside; otherwise a new start is refused
    bool shadow;                    // NODE_RELAY: a standby replica: it holds a stage's state, and computes only when no other peer of the stage is left
    // NODE_RELAY: the parent peer on this machine, zero: none. A standby replica takes another stage
    // than the parent; a relay is a member of the parent's whole-model peer.
    braid_id beside;
    uint32_t shadows;               // standby replicas that a leader admits per stage, at most 4
    const char *state_directory;    // for an unnamed file with weights and moments, NULL: in memory
    uint32_t voters;                // largest number of voters; 1: only the first leader votes
    unsigned threads;
    uint64_t files;                 // descriptor limit of the process, 0: not known
    // Memory that the process may use; without a cap the capacity follows from it. 0: not known, or
    // shared.
    uint64_t usable_bytes;
    uint32_t capacity;              // 0: plan_capacity
    uint64_t max_memory;            // bytes, 0: no cap
    // Commands arrive on standard input. At its end this peer saves the run if it leads it, and
    // ends.
    bool supervised;
    // This node handles the process's signals (node/stop.h); stop_watch was called.
    bool signals;
    uint64_t stop_within_ns;        // limit of an orderly end, 0: STOP_WITHIN_NS
    fault die_at;
    bool carries_nothing;           // it forwards no tensors of other peers
    uint32_t carried_percent;       // percentage of tensors sent by way of a forwarding peer, whatever the line's speed; 0 outside of tests
    bool measure;
    const char *trace;              // file of node/trace.h; NULL: none
    node_callbacks callbacks;
} node_config;

// Checks all that can be checked before another peer is asked: configuration, text, memory, port.
braid_err node_new(const node_config *config, node **out, braid_error *error);
// Runs until the run is complete, the user ends it or an error occurs. A requested end that
// succeeded is BRAID_OK.
braid_err node_run(node *n, braid_error *error);
// The origin of a requested end: the signal's name or "its supervisor"; NULL: no request.
const char *node_stopped_by(const node *n);
// Bytes sent to other peers so far: tensors, and the messages round them.
void node_sent(const node *n, uint64_t *tensor_bytes, uint64_t *message_bytes);
// The protocol's measurements and decisions so far; false: the node is in no run.
bool node_look(const node *n, peer_view *view);
void node_free(node *n);

#endif
