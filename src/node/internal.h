// Internals of a node, for the files of this folder only.
#ifndef BRAID_NODE_INTERNAL_H
#define BRAID_NODE_INTERNAL_H

#include "net/net.h"
#include "node/blobs.h"
#include "node/compute.h"
#include "node/jobs.h"
#include "node/log_writer.h"
#include "node/measure.h"
#include "node/node.h"
#include "node/waiting.h"
#include "train/files.h"

#include <stdio.h>

enum {
    NODE_MAX_DEFERRED = 32,
    NODE_TICK_MS = 500,
    NODE_IDLE_TICKS = 4,        // idle ticks before spare memory is returned to the system
    NODE_STOP_MS = 2500,        // to send the last messages
    // A supervised peer waits this long after SIGTERM for its supervisor, which may have received
    // the signal too.
    NODE_HELD_MS = 2000,
    NODE_ORPHAN_MS = 20000,     // limit of a supervised peer's orderly end after the death of its supervisor
    // A data peer with a broken text votes for this long: the leader may find the same error, and
    // save.
    NODE_BROKEN_MS = 3000,
    NODE_UNLED_MS = 2000,       // a peer without state that is asked to end waits this long for a leader
    NODE_LEAVING_MS = 10,       // between checks whether the last messages are sent; links close by themselves after NET_CLOSE_MS
    NODE_REDIAL_MS = 50,        // until the core is informed of a dial that failed immediately
    // Room for a failed dial of every contact of the core: it would wait forever for an unreported
    // failure.
    NODE_MAX_FAILED_DIALS = PEER_MAX_CONTACTS,
    NODE_RETRY_FIRST_MS = 250,  // first pause between attempts to reach the leader; doubles
    NODE_RETRY_MOST_MS = 10000,
    // A peer with the run in its log waits this long after a failed attempt before it continues by
    // the log. A leader that starts the run anew (--anew) has time to answer first.
    NODE_ENQUIRE_MS = 1500,
    NODE_ENQUIRE_AGAIN_MS = 5000,
    NODE_ENQUIRE_LOST_MS = 2000,  // between enquiries to the named peer while no leader is linked
    NODE_MAX_COMMAND = 128,
    NODE_RESERVED_FILES = 32,  // file descriptors reserved from links
    NODE_LEAST_FILES = 6,      // needed besides links: the log, a checkpoint's directories and files
    NODE_RECYCLE_BYTES = 64 << 20,
    // The generation of a run on links is the name of its start times this, plus one, plus its
    // first version.
    NODE_START_VERSIONS = 1 << 30,
};

typedef enum node_phase {
    NODE_STARTING,
    NODE_ENQUIRING,  // the leader is being asked for the run's description
    NODE_RUNNING,    // the core makes the decisions
    NODE_STOPPING,   // the last messages are being sent
    NODE_STOPPED,
} node_phase;

// ending.c
typedef struct node_ending {
    bool draining;
    // The supervisor ends the run; a signal to this process repeats the same request.
    bool parent_stops;
    bool orphaned, dropped, unlogged;
    bool last_data;          // this peer is to leave and is the last data peer: the run ends
    bool end_wanted;         // the node stops once the core's effects are done
    bool log_is_over;        // the log is of a run that has ended, and lacks that entry
    // The stage for which this peer, though asked to leave, is the only one; 0: none.
    uint16_t alone;
    uint64_t held_ns;        // when SIGTERM arrived and the supervisor's decision is awaited, 0: not
    uint64_t stop_ns;        // when an orderly end was requested
    uint64_t broken_ns;      // when this peer's text was found to be changed
} node_ending;

// own_log.c: the start of the run, by the log and the checkpoint.
typedef struct node_start {
    log_file *log_file;      // until the writer owns it
    uint64_t log_store;      // the name of the log store
    uint64_t generation;     // of this start of the run, with its first version: NODE_START_VERSIONS
    bool by_log;             // this peer continues by its log and knows no leader yet
    bool log_told;           // the log's fault was reported
    bool goes_on;            // NODE_LEADER: the run of the log that was found continues
    bool nothing;            // NODE_LEADER: the checkpoint to continue from already completes the run
    char resume[FILES_MAX_PATH];  // the checkpoint that `continues` found
    char model[FILES_MAX_PATH];   // the checkpoint of the model that the run starts from; "": none
} node_start;

// links.c: the search for the leader.
typedef struct node_leader {
    ticket named;            // the ticket that the user gave; config.leader is the leader as far as is known
    uint64_t enquire_ns, retry_ms;
    uint64_t lost_ns;        // 0: the leader is linked
    char lost[NET_MAX_REASON];  // why the leader is not linked
} node_leader;

// links.c: connections that were refused.
typedef struct node_refused {
    uint32_t max_links;      // set if the descriptor limit allows fewer links than NET_MAX_LINKS; else 0
    bool full_told;
    uint32_t count;          // since since_ns
    uint64_t since_ns;
} node_refused;

// effects.c: what is still to be done for the core.
typedef struct node_due {
    braid_id failed_dials[NODE_MAX_FAILED_DIALS];
    uint32_t failed_dial_count;
    effect deferred[NODE_MAX_DEFERRED];  // sends delayed because a fault may be due
    uint32_t deferred_count;
    bool mute;           // a fault is due: no message is sent any more
    bool stepping;
    bool advanced_told;
    uint64_t advanced_version;
    braid_id voting[WIRE_MAX_VOTERS];  // the machines that were reported last
    uint64_t voting_index;
} node_due;

// commands.c: the supervisor's commands.
typedef struct node_command {
    uv_pipe_t pipe;
    char line[NODE_MAX_COMMAND], input[NODE_MAX_COMMAND];
    size_t bytes;
} node_command;

struct node {
    node_config config;
    node_callbacks callbacks;
    node_phase phase;
    run_config run;
    peer_run plan;
    split split;
    braid_hash run_hash;
    braid_hash kernels;      // this machine's kernel class in a reproducible run, else zero
    struct {
        char text[WIRE_MAX_DESCRIPTION_BYTES];
        size_t bytes;
    } description;
    struct {
        char address[WIRE_MAX_ADDRESS];
        bool only_v4;            // it listens on every IPv4 address and on no IPv6 address
        bool guessed;            // the route to the leader was not yet known, so the address is valid on this machine only
    } own;
    uint32_t capacity;

    uv_loop_t loop;
    uv_timer_t deadline, ticking, retry;
    uv_poll_t signals;

    net *net;
    train_data *data;
    blobs *blobs;
    jobs *jobs;
    compute *compute;
    log_writer *log;
    int lock;                // on the checkpoint directory, -1: none
    peer *core;
    struct {
        void *start;
        size_t bytes;
    } memory;                // of the core
    struct {
        braid_id *id;        // links that are up
        uint32_t count, room;
    } links;
    struct {
        log_entry entry;     // a LOG_BASE that is being stored
        uint32_t left;       // and the number of its entries that are still missing
    } base;
    struct {
        uint32_t ticks;
        bool worked;         // since the last tick
    } idle;

    node_ending ending;
    node_start start;
    node_leader leader;
    node_refused refused;
    node_due due;
    node_command command;
    waiting waiting;         // for peers that the run cannot proceed without

    fault die_at;
    FILE *trace;
    uint64_t start_ns;
    measure measure;
    braid_error error;   // the reason for the end; BRAID_OK: a regular end
    message msg;         // decoded for the current event; too large for the stack
    message scratch;
};

static inline member_kind node_kind(const node *n) {
    return n->config.role != NODE_RELAY ? MEMBER_DATA : n->config.shadow ? MEMBER_SHADOW : MEMBER_RELAY;
}

// shutdown.c
void node_look_at_voters(node *n);  // reports another configuration of voters
void node_note(node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
void node_fail(node *n, const braid_error *error);  // keeps the first error, and ends the node
// Sends the last messages, then stops. May be called inside a link's callback.
void node_end(node *n);
void node_stop_now(node *n);  // must not be called inside a link's callback

// announce.c
braid_err node_announce(node *n, braid_error *error);
void node_leader_is(node *n, const braid_id *id, const char *address);

// effects.c
void node_feed(node *n, const event *e);
// Calls `each` for every input blob of the job.
void node_job_blobs(node *n, const job *work, void (*each)(blobs *, blob_id));
void node_unlogged(node *n);  // the log cannot be written, and the cluster can decide nothing without this peer

// results.c
void node_job_run(void *context, const job *work, job_result *result);
void node_job_done(void *context, const job *work, const job_result *result);
void node_committed(void *context, const log_entry *entry);
void node_log_failed(void *context, const braid_error *error);

// base_model.c
// A relay of a run with an adapter: finds the model's weights on this machine, once the run is known.
braid_err node_open_base(node *n, braid_error *error);

// begin.c
braid_err node_share_memory(node *n, braid_error *error);
braid_err node_try_kernels(node *n, braid_error *error);
braid_err node_prepare(node *n, braid_error *error);  // all that depends on the run's description alone
braid_err node_begin(node *n, braid_error *error);

// links.c
void node_net_callbacks(node *n, net_callbacks *out);
braid_err node_listen(node *n, braid_error *error);
void node_enquire(node *n);
void node_enquire_again(node *n);
void node_enquiry_failed(node *n, const char *reason);

// own_log.c
braid_err node_open_log(node *n, braid_error *error);
braid_err node_find_first_log(node *n, braid_error *error);  // sets goes_on, has no other effect
braid_err node_open_first_log(node *n, braid_error *error);
// With `continues`: chooses the checkpoint to start from. Clears goes_on if the run of the log is
// over, or if the log lacks the newest checkpoint.
braid_err node_find_newest(node *n, braid_error *error);
// Whether this is a data peer, and its log says that the run is complete.
bool node_remembers_end(node *n);
// Whether this is a data peer, and its log describes this run as begun and not ended. If so, the
// log is open and the generation is set.
bool node_remembers_run(node *n);

// waiting.c
// Checks whether a leader lacks peers, and for how long.
void node_look_for_gaps(node *n);

// commands.c
braid_err node_watch(node *n, braid_error *error);

// ending.c
void node_drain(node *n);                 // orderly end by a signal or the supervisor's command
void node_request(node *n);               // handles signals that have arrived
void node_orphan(node *n);                // the supervisor has died
void node_end_run(node *n, bool drop);    // ends the run if this peer leads it; drop: abandons the current iteration
void node_save(node *n, bool quiet);      // writes a checkpoint if this peer leads; quiet: no message if it does not
void node_ending_tick(node *n);           // enforces the limits of orderly ends
void node_text_lost(node *n, const braid_error *error);

#endif
