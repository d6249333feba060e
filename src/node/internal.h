// The parts of a node, for its own files only.
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
    NODE_IDLE_TICKS = 4,        // without a job, until spare memory goes back to the system
    NODE_STOP_MS = 2500,        // for the last messages
    // a supervised peer waits so long after SIGTERM for its supervisor, which may have got it, too
    NODE_HELD_MS = 2000,
    NODE_ORPHAN_MS = 20000,     // for a supervised peer's end after its supervisor's death
    // for a data peer with a broken text to vote on: the leader may find the same error, and save
    NODE_BROKEN_MS = 3000,
    NODE_UNLED_MS = 2000,       // a peer without state that is asked to end waits so long for a leader
    NODE_LEAVING_MS = 10,       // between looks whether they are written; links end by themselves after NET_CLOSE_MS
    NODE_REDIAL_MS = 50,        // until a dial that failed at once is told to the core
    NODE_MAX_FAILED_DIALS = PEER_MAX_CONTACTS,  // as many as the core may know: of one that it is not told it would wait for ever
    NODE_RETRY_FIRST_MS = 250,  // between attempts to reach the leader, doubled
    NODE_RETRY_MOST_MS = 10000,
    NODE_ENQUIRE_MS = 1500,  // until who knows the run by its log goes on by that, when an attempt fails: a leader that begins anew (--anew) is to be heard first
    NODE_ENQUIRE_AGAIN_MS = 5000,
    NODE_ENQUIRE_LOST_MS = 2000,  // between questions to the named peer while no leader is linked
    NODE_MAX_COMMAND = 128,
    NODE_RESERVED_FILES = 32,  // open files kept back from links
    NODE_LEAST_FILES = 6,      // beside links: the log, a checkpoint's directories and files
    NODE_RECYCLE_BYTES = 64 << 20,
    NODE_START_VERSIONS = 1 << 30,  // a run's generation on links: its start's name times this, and one more than its first version
};

typedef enum node_phase {
    NODE_STARTING,
    NODE_ENQUIRING,  // the leader is asked for the run
    NODE_RUNNING,    // the core decides
    NODE_STOPPING,   // last messages
    NODE_STOPPED,
} node_phase;

struct node {
    node_config config;
    node_callbacks callbacks;
    node_phase phase;
    run_config run;
    peer_run plan;
    split split;
    braid_hash run_hash;
    braid_hash kernels;      // the kernel class of this machine for a reproducible run; else zero
    char description[WIRE_MAX_DESCRIPTION_BYTES];
    size_t description_bytes;
    char address[WIRE_MAX_ADDRESS];
    bool only_v4;            // it listens on every address of IPv4 alone
    bool address_guessed;    // no way to the leader was known yet, so it is one that only this machine knows
    uint32_t capacity;

    uv_loop_t loop;
    uint32_t max_links;      // where open files allow fewer than NET_MAX_LINKS; else 0
    bool full_told;
    uv_timer_t deadline, ticking, retry;
    uv_poll_t signals;
    uv_pipe_t commands;
    char command[NODE_MAX_COMMAND], command_input[NODE_MAX_COMMAND];
    size_t command_bytes;

    net *net;
    train_data *data;
    blobs *blobs;
    jobs *jobs;
    compute *compute;
    log_writer *log;
    log_file *log_file;      // until the writer has it
    uint64_t log_store;      // its name
    uint64_t generation;     // names this start of the run, and its first version: NODE_START_VERSIONS
    bool by_log;             // it went on by its log, and nobody leads yet as far as it knows
    bool log_told;           // what is wrong with its log
    ticket named;            // by the user; config.leader is who leads, as far as is known
    bool goes_on;            // NODE_LEADER: with the run of the log that it found
    char resume[FILES_MAX_PATH];  // the checkpoint that `continues` found
    bool nothing;            // NODE_LEADER: the run is complete in the checkpoint that it was to go on from
    int lock;                // of the checkpoints' directory, -1: none
    log_entry base;          // a LOG_BASE that is being stored, with
    uint32_t base_left;      // so many entries behind it still to be
    peer *core;
    void *core_memory;
    size_t core_bytes;
    braid_id *links;  // that are up
    uint32_t link_count, link_room;

    braid_id failed_dials[NODE_MAX_FAILED_DIALS];
    uint32_t failed_dial_count;
    effect deferred[NODE_MAX_DEFERRED];  // sends held back by a fault that is near
    uint32_t deferred_count;
    bool mute;           // a fault is due: nothing more is sent
    bool stepping, draining;
    // the supervisor ends the run: a signal to this process is the same request
    bool parent_stops;
    bool orphaned, dropped, unlogged;
    bool last_data;          // it is to leave, and no other data peer is here: the run ends
    uint64_t held_ns;        // SIGTERM came, and the supervisor may decide, 0: not
    uint64_t stop_ns;        // an orderly end was asked for
    uint64_t broken_ns;      // this peer's text is not what it was
    // the stage that no other peer has, though this one was asked to leave; 0: none
    uint16_t alone;
    fault die_at;
    FILE *trace;
    measure measure;
    uint64_t start_ns, enquire_start_ns, retry_ms;
    uint64_t leader_lost_ns;  // 0: there is a link to it
    char leader_lost[NET_MAX_REASON];  // why there is none
    uint32_t turned;          // away, since
    uint64_t turned_since_ns;
    waiting waiting;          // for peers without which nothing goes on
    uint64_t advanced_version;
    bool advanced_told;
    uint32_t idle_ticks;
    bool worked;         // since the last tick
    bool end_wanted;     // to be stopped when the core's effects are done
    braid_error error;   // why it ends, BRAID_OK: as it should
    message msg;         // of the event under way; too large for a stack
    message scratch;
};

// effects.c
void node_feed(node *n, const event *e);
void node_tick(node *n);
void node_job_run(void *context, const job *work, job_result *result);
void node_job_done(void *context, const job *work, const job_result *result);
void node_committed(void *context, const log_entry *entry);
void node_log_failed(void *context, const braid_error *error);

// links.c
void node_net_callbacks(node *n, net_callbacks *out);
braid_err node_listen(node *n, braid_error *error);
void node_enquire(node *n);
void node_enquire_again(node *n);
void node_enquiry_failed(node *n, const char *reason);

// node.c
braid_err node_try_kernels(node *n, braid_error *error);
braid_err node_begin(node *n, braid_error *error);
void node_end(node *n);
void node_fail(node *n, const braid_error *error);
void node_stop_now(node *n);
void node_leader_is(node *n, const braid_id *id, const char *address);
void node_note(node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

// own_log.c
braid_err node_open_log(node *n, braid_error *error);
braid_err node_find_first_log(node *n, braid_error *error);  // sets goes_on; changes nothing
braid_err node_open_first_log(node *n, braid_error *error);
// With `continues`: chooses the checkpoint to start from. Clears goes_on when the run of the log is over, or the log lacks the
// newest checkpoint.
braid_err node_find_newest(node *n, braid_error *error);
// Whether this is a data peer, and its log says that the run is complete.
bool node_remembers_end(node *n);
// A data peer whose log has this run, which has begun and not ended: the log is open then, and the generation set.
bool node_remembers_run(node *n);

// waiting.c
// Whether a leader lacks peers, and for how long.
void node_look_for_gaps(node *n);

// commands.c
braid_err node_watch(node *n, braid_error *error);

// ending.c
void node_drain(node *n);                 // by a signal, or the supervisor's order
void node_request(node *n);               // signals have come
void node_orphan(node *n);                // the supervisor has died
void node_end_run(node *n, bool drop);    // if this peer leads it; drop: without the iteration under way
void node_save(node *n, bool quiet);      // a checkpoint, if this peer leads; quiet: else say nothing
void node_ending_tick(node *n);           // limits
void node_text_lost(node *n, const braid_error *error);
void node_unlogged(node *n);              // the log cannot be written, and without this peer nothing is decided

#endif
