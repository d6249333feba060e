// Output of a run for people and programs, one event at a time, in three styles. A terminal shows a
// progress bar and a status line, drawn in place; a pipe gets plain lines; --json prints one object
// per line. The JSON lines can be read back, so that `braid up` shows its children's events as one
// view.
#ifndef BRAID_CLI_REPORT_H
#define BRAID_CLI_REPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum report_kind {
    REPORT_STARTED,  // name, iteration (the first), of, stages, parameters, tokens (of one iteration), microbatches
    REPORT_READY,    // a peer listens: peer, address, ticket, process
    // iteration (1 .. of), of, loss, tokens, microbatches, left_out, tokens_per_second, norm,
    // learning_rate, skip
    REPORT_ITERATION,
    REPORT_EVAL,        // iteration (the version of the weights), loss, tokens: held-out text
    REPORT_REPAIR,      // iteration, microbatch, stage, phase, peer, member: work repaired because that member died
    REPORT_SUSPECT,     // peer, member, stage: does not answer
    REPORT_JOINED,      // peer, member, stage, role
    REPORT_LEFT,        // peer, member, stage: drained
    REPORT_EXPELLED,    // peer, member, stage, reason
    REPORT_TAKEOVER,    // iteration, peer, member, microbatches, gone: this member took over microbatches of the data peer with the former number `gone`
    REPORT_AWAITED,     // iteration, peer, microbatches, seconds: a lost data peer is the only one with the data of these; seconds: limit of the wait, 0: none
    REPORT_BACK,        // iteration, peer, microbatches, seconds: an awaited data peer is back after this time
    REPORT_KILLED,      // peer, process, stage, phase: the supervisor killed it on purpose
    REPORT_SPAWNED,     // process, role: the supervisor started a child
    REPORT_TRANSFER,    // peer, stage, done, total: blocks of state fetched
    REPORT_FLOWS,       // peer, member, stage, changes (so far), flows: receivers and counts of that peer's microbatches
    REPORT_CHECKPOINT,  // iteration, path, failed, text (why)
    REPORT_NOTE,        // text: a message for the user
    REPORT_REFUSED,     // text: this process cannot take part
    // processors, present (in the machine), memory (bytes), files, text: what the process may use;
    // 0: no known limit
    REPORT_MACHINE,
    REPORT_LEADER,      // peer, address, ticket: the new leader
    REPORT_PROMOTED,    // peer, member, stage: a standby replica that took over the stage's work
    REPORT_ROLLED_BACK, // iteration (to which the run rolls back), stage (of the lost state), total (iterations to recompute), generation
    REPORT_UNFINISHED,  // iteration (of the weights kept), peer (the lost one), microbatches (of the next iteration that need its text)
    REPORT_UNLED,  // peer, address (the missing leader), done, total, text: only `done` of `total` voters are present, and there is no leader
    // weights, iteration (the version), of, loss, tokens, seconds, repairs, path, failed, text,
    // stopped (in order, before the run's end), reason (the signal, or one of those below); the
    // last line
    REPORT_END,
    REPORT_KINDS
} report_kind;

// Reasons of an END other than signals.
#define REPORT_DIVERGED "diverged"
#define REPORT_BY_LEADER "leader"  // ... which ended the run early
// Reason of an EXPELLED member that joins again in another stage.
#define REPORT_MOVES "it moves to another stage"

enum { REPORT_MAX_LINE = 4096, REPORT_HASH_TEXT = 65, REPORT_MAX_FLOWS = 32, REPORT_PEER_DIGITS = 12 };

// Microbatches of an iteration of the data peer `source` that go to the member `to`.
typedef struct report_flow {
    uint64_t to, source, units, cost_us;
} report_flow;

// The work of a process so far, or of all processes.
typedef struct report_work {
    double computed_seconds, wasted_seconds;  // of all forwards, gradients and weight gradients; of those with an unused result
    uint64_t wasted;                          // computations with an unused result, each of one microbatch in one stage
    uint64_t carried, carried_bytes;          // own tensors sent through a forwarding peer; bytes of others' tensors forwarded here
    uint64_t tensor_bytes, message_bytes;     // sent to other peers: tensors, and the messages round them
    uint64_t memory_bytes;                    // resident now
} report_work;

// Fields not listed above for an event's kind are ignored. Text is empty if unknown; losses and
// norms may be NAN.
typedef struct report_event {
    report_kind kind;
    uint64_t iteration, of;
    double loss, norm, learning_rate, tokens_per_second, seconds;
    report_work work;
    uint64_t tokens, parameters, microbatches, microbatch, member, done, total, process, repairs;
    uint64_t processors, present, memory, files;
    uint64_t stage, stages, changes, left_out, generation, gone;
    report_flow flow[REPORT_MAX_FLOWS];
    size_t flows;
    bool failed, skip, stopped;
    char peer[REPORT_HASH_TEXT];     // hex id, any prefix of it
    char weights[REPORT_HASH_TEXT];  // hex SHA-256
    char phase[24], role[16];
    char name[64], address[128], ticket[512];
    char reason[64];
    char text[512], path[1024];
} report_event;

// Writes one line without its '\n', 0-terminated; returns its length. Numbers are exact: a double
// reads back as the same double. A number that is not finite is null. `line` holds REPORT_MAX_LINE
// bytes; text that does not fit is cut.
size_t report_to_json(const report_event *event, char line[REPORT_MAX_LINE]);
// Reads such a line. Unknown fields are ignored; unknown events and malformed lines are
// BRAID_FORMAT.
braid_err report_from_json(const char *line, size_t length, report_event *event, braid_error *error);
// "iteration", "repair", ...
const char *report_kind_name(report_kind kind);

typedef enum report_style {
    REPORT_AUTO,  // LIVE if `out` is a terminal that can redraw, else PLAIN
    REPORT_LIVE,
    REPORT_PLAIN,
    REPORT_JSON,
    REPORT_SILENT,  // nothing
} report_style;

typedef struct report report;

// Writes to `out` (borrowed). NULL: out of memory.
report *report_new(report_style style, FILE *out);
// Restores the terminal. Accepts NULL.
void report_free(report *r);
// Shows one event. Not thread-safe.
void report_tell(report *r, const report_event *event);
// Prints a line for the user; nothing with --json.
void report_say(report *r, const char *text);
// Redraws the status (elapsed time, ETA) if it is old; call it about twice a second from an event
// loop. Does nothing for PLAIN and JSON.
void report_tick(report *r);
// The style that AUTO resolved to.
report_style report_chosen(const report *r);
// Prints the losses seen so far as a small ASCII chart, `o` for held-out ones. Prints nothing with
// --json or for fewer than two iterations.
void report_loss_curve(report *r);
// Prints the latest known number of microbatches from each sender to each receiver; nothing with
// --json.
void report_flows_table(report *r);
// Number of repairs, in total or in one phase (NULL: all).
uint64_t report_repairs(const report *r, const char *phase);

#endif
