// Converts the protocol's reports into events for people and programs.
#ifndef BRAID_CLI_NODE_EVENTS_H
#define BRAID_CLI_NODE_EVENTS_H

#include "base/id.h"
#include "cli/report.h"
#include "braid/peer.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PEER_TEXT_BYTES = 6,  // shown bytes of an id
    NODE_TAKEOVERS = 8,   // takeovers that wait to be reported
};

// The number of microbatches of an iteration that this member takes over from an owner that is
// gone.
typedef struct node_takeover {
    uint64_t iteration, microbatches;
    member_id member, gone;
    braid_id id;
} node_takeover;

// Fields are set as they become known.
typedef struct node_events {
    report *report;          // borrowed
    char name[RUN_MAX_NAME];
    char checkpoint[RUN_MAX_PATH];  // the last complete one
    char unsaved[512];              // why the last one is not complete
    uint64_t iterations, parameters, tokens_per_iteration;
    uint32_t stages, microbatches;
    uint64_t start_ns, last_ns, tokens;  // monotonic; since the start
    double last_loss;
    report_work work;
    uint64_t tensor_bytes, message_bytes;  // sent so far; the caller sets them before node_events_tell
    uint64_t version;
    uint64_t repairs;
    bool ended;              // TELL_END or TELL_REFUSED was reported
    bool diverged;           // TELL_DIVERGED was reported
    braid_hash weights;
    char refused[512];
    const char *stopped_by;  // the signal that requested an orderly end; NULL: no request
    node_takeover taken[NODE_TAKEOVERS];  // reported together once all slots are known: the log names them one by one
    uint32_t taken_count;
    bool taken_now;  // a takeover was added since the last tick
} node_events;

void node_events_init(node_events *e, report *out);
void node_events_run(node_events *e, const run_config *run, uint64_t parameters);
void node_events_tell(node_events *e, const tell *t, uint64_t now_ns);
// Reports events that waited for further ones; call it together with report_tick.
void node_events_tick(node_events *e);
void node_events_note(node_events *e, const char *text);
// The last line: how the process ended. `why` is NULL when the run is complete.
void node_events_end(node_events *e, const char *why, uint64_t now_ns);

// The first digits of an id, enough for a reader to tell peers apart.
void peer_text(const braid_id *id, char text[REPORT_HASH_TEXT]);

#endif
