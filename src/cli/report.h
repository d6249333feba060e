// What a person sees of a run, and what a program reads: one event in, three ways out. On a terminal a progress bar
// and a status line, drawn in place; plain lines when piped; with --json one object a line. The JSON lines can be read
// back, so that `braid up` shows its children's events as one view.
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
    // iteration (1 .. of), of, loss, tokens, microbatches, left_out, tokens_per_second, norm, learning_rate, skip
    REPORT_ITERATION,
    REPORT_EVAL,        // iteration (the version of the weights), loss, tokens: held-out text
    REPORT_REPAIR,      // iteration, microbatch, stage, phase, peer, member: what was repaired because that member died
    REPORT_SUSPECT,     // peer, member, stage: does not answer
    REPORT_JOINED,      // peer, member, stage, role
    REPORT_LEFT,        // peer, member, stage: drained
    REPORT_EXPELLED,    // peer, member, stage, reason
    REPORT_TAKEOVER,    // iteration, peer, member, microbatches, gone: so many of an iteration are its now, of the data peer that was the member `gone`
    REPORT_AWAITED,     // iteration, peer, microbatches, seconds: gone, with so many of an iteration whose data it alone has; they wait so long, 0: until it is back
    REPORT_BACK,        // iteration, peer, microbatches, seconds: it is here again, after so long
    REPORT_KILLED,      // peer, process, stage, phase: the supervisor killed it on purpose
    REPORT_SPAWNED,     // process, role: the supervisor started a child
    REPORT_TRANSFER,    // peer, stage, done, total: blocks of state fetched
    REPORT_FLOWS,       // peer, member, stage, changes (so far), flows: what that peer sends on, and to whom
    REPORT_CHECKPOINT,  // iteration, path, failed, text (why)
    REPORT_NOTE,        // text: for the person
    REPORT_REFUSED,     // text: this process cannot take part
    // processors, present (in the machine), memory (bytes), files, text: what the process may use;
    // 0: no known limit
    REPORT_MACHINE,
    REPORT_LEADER,      // peer, address, ticket: leads from now on
    REPORT_PROMOTED,    // peer, member, stage: a shadow that does the stage's work from now on
    REPORT_ROLLED_BACK, // iteration (the version that it goes on from), stage (whose state is lost), total (iterations that are computed again), generation
    REPORT_UNFINISHED,  // iteration (the version whose weights are kept), peer (who is gone), microbatches (of the next iteration that need its text)
    REPORT_UNLED,  // peer, address (who is missed), done, total, text: of `total` peers that vote so many are here, and nobody leads
    // weights, iteration (the version), of, loss, tokens, seconds, repairs, path, failed, text,
    // stopped (in order, before the run's end), reason (the signal, or one of those below); the last line
    REPORT_END,
    REPORT_KINDS
} report_kind;

// Reasons of an END that are no signals.
#define REPORT_DIVERGED "diverged"
#define REPORT_BY_LEADER "leader"  // ... which ended the run early

enum { REPORT_MAX_LINE = 4096, REPORT_HASH_TEXT = 65, REPORT_MAX_FLOWS = 32 };

// Microbatches of an iteration of the data peer `source` that go to the member `to`.
typedef struct report_flow {
    uint64_t to, source, units, cost_us;
} report_flow;

// Fields that an event's kind does not name above are ignored. Text is empty when unknown; losses and norms may be NAN.
typedef struct report_event {
    report_kind kind;
    uint64_t iteration, of;
    double loss, norm, learning_rate, tokens_per_second, seconds;
    double computed_seconds, wasted_seconds;  // of all forwards, gradients and weight gradients so far; of them in vain
    uint64_t wasted;                          // microbatches in a stage that were computed in vain
    uint64_t carried, carried_bytes;          // tensors that left by way of somebody; of others' tensors, passed on here
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

// One line without its '\n', 0-terminated; returns its length. Numbers are exact (a double reads back as the same
// double; a number that is not finite is null). `line` holds REPORT_MAX_LINE bytes; text too long to fit is cut.
size_t report_to_json(const report_event *event, char line[REPORT_MAX_LINE]);
// Reads such a line; unknown fields are ignored, unknown events and malformed lines are BRAID_FORMAT.
braid_err report_from_json(const char *line, size_t length, report_event *event, braid_error *error);
// "iteration", "repair", ...
const char *report_kind_name(report_kind kind);

typedef enum report_style {
    REPORT_AUTO,  // LIVE when `out` is a terminal that can draw, else PLAIN
    REPORT_LIVE,
    REPORT_PLAIN,
    REPORT_JSON,
    REPORT_SILENT,  // nothing
} report_style;

typedef struct report report;

// Writes to `out` (borrowed). NULL when there is no memory.
report *report_new(report_style style, FILE *out);
// Leaves the terminal as it was. NULL is fine.
void report_free(report *r);
// Shows one event. Not thread-safe.
void report_tell(report *r, const report_event *event);
// A line for a person; nothing with --json.
void report_say(report *r, const char *text);
// Redraws the status (elapsed time, ETA) when it is old; call it about twice a second from an event loop. A no-op for
// PLAIN and JSON.
void report_tick(report *r);
// The style that AUTO became.
report_style report_chosen(const report *r);
// Losses seen so far as a small picture in ASCII, `o` for held-out ones; nothing with --json or fewer than two
// iterations.
void report_loss_curve(report *r);
// Who sends how many microbatches to whom, as last heard; nothing with --json.
void report_flows_table(report *r);
// How many repairs, and how many of them in a phase (NULL: all).
uint64_t report_repairs(const report *r, const char *phase);

#endif
