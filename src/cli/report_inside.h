// Shared by the files report*.c.
#ifndef BRAID_CLI_REPORT_INSIDE_H
#define BRAID_CLI_REPORT_INSIDE_H

#include "cli/report.h"
#include "cli/report_sinks.h"
#include "wire/limits.h"

#include <time.h>

enum { REPORT_CURVE_POINTS = 1024, REPORT_PHASES = 8, REPORT_LINE = 2048, REPORT_SENDERS = 128, REPORT_CHANGES = 64, REPORT_AWAITED_PEERS = 64, REPORT_PEER_TEXT = 32 };

// The latest report of a peer about the receivers of its microbatches.
typedef struct report_sender {
    uint64_t member, stage, changes;
    char peer[9];
    size_t flows;
    report_flow flow[REPORT_MAX_FLOWS];
} report_sender;

// Losses over the whole run in bounded memory: when it is full, neighbours are merged.
typedef struct report_curve {
    size_t count;
    uint64_t stride, pending;  // iterations per point; iterations in the newest point
    struct {
        uint64_t iteration;  // of its last loss
        double loss;         // mean
    } point[REPORT_CURVE_POINTS];
} report_curve;

typedef struct report_phase_count {
    char phase[24];
    uint64_t count;
} report_phase_count;

// A lost data peer that the others wait for.
typedef struct report_awaited {
    char peer[9];
    int64_t since_ns;
} report_awaited;

struct report {
    report_style style;
    FILE *out;
    bool color;
    int64_t begun_ns, drawn_ns;
    unsigned drawn_lines;  // lines of the status on the screen
    uint64_t first_iteration, repairs, tokens;
    report_event started, iteration, eval, transfer;  // the newest events; kind REPORT_KINDS: none yet
    uint32_t live[WIRE_MAX_STAGES], shadows[WIRE_MAX_STAGES];
    uint32_t stages;  // highest stage seen + 1
    report_phase_count phase[REPORT_PHASES];
    report_curve train, held_out;
    uint32_t awaited_count;
    report_awaited awaited[REPORT_AWAITED_PEERS];
    uint32_t senders, changes;
    bool rerouted;  // the newest event changed the number of microbatches of a receiver, not only a cost
    int64_t changed_ns[REPORT_CHANGES];  // the latest changes of routing
    report_sender sender[REPORT_SENDERS];
    report_sinks *sinks;  // NULL: none
};

static inline int64_t report_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void report_curve_add(report_curve *curve, uint64_t iteration, double loss);
// One line for a person, without '\n'; false when this event has none.
bool report_to_line(const report *r, const report_event *e, char line[REPORT_LINE]);
// "3 repairs (2 forward, 1 backward)"
void report_repairs_text(const report *r, char text[REPORT_LINE]);

// Replaces a joined member's number by its id in later lines.
void report_flows_meet(report *r, const report_event *e);
void report_flows_remember(report *r, const report_event *e);
void report_flows_forget(report *r, uint64_t member);
void report_flows_line(const report *r, const report_event *e, char line[REPORT_LINE]);
// "peer 3c4d5e6f", or "member 7" if its id is not known.
const char *report_flows_name(const report *r, uint64_t member, char text[REPORT_PEER_TEXT]);
// "4 to peer 3c4d5e6f (12.3 ms), ..."
void report_flows_hops(const report *r, const report_flow *flow, size_t flows, char text[REPORT_LINE]);
// All stages in one line; returns its length, 0: nothing is known.
size_t report_flows_summary(const report *r, const char *between, char line[REPORT_LINE]);
// False: nothing is known.
bool report_flows_status(const report *r, char line[REPORT_LINE]);

// The status at the bottom of a terminal.
bool report_can_draw(FILE *out);
// Live peers per stage, "2|2|2|1".
void report_live_text(const report *r, char text[REPORT_LINE]);
void report_draw(report *r);
void report_erase(report *r);

#endif
