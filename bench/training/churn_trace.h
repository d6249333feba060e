// A recorded trace of losses and arrivals of machines, replayed by the simulator with T2's model:
// what the system computes, beside what the live machines could compute, and beside restarts from a
// checkpoint. docs/results/churn-trace.md has the definitions.
#ifndef BRAID_BENCH_TRAINING_CHURN_TRACE_H
#define BRAID_BENCH_TRAINING_CHURN_TRACE_H

#include "bench/training/t2.h"

enum { CHURN_TRACE_MAX_EVENTS = 1024, CHURN_TRACE_MAX_NODES = 256 };

typedef struct churn_trace_event {
    uint64_t at_ns;
    uint32_t node;
    bool adds;
} churn_trace_event;

// The trace from the moment at which T2_RELAYS machines are there. Those are at time 0.
typedef struct churn_trace {
    char name[CHURN_TRACE_MAX_NODES][SCENARIO_MAX_NAME];
    bool first[CHURN_TRACE_MAX_NODES];  // there at time 0
    uint32_t nodes, firsts;
    churn_trace_event event[CHURN_TRACE_MAX_EVENTS];
    uint32_t events;
    uint64_t end_ns;  // the last event
} churn_trace;

// Reads lines MILLISECONDS,add|remove,NAME; '#' begins a comment. BRAID_CONFIG: "path:line: ...".
braid_err churn_trace_read(const char *path, churn_trace *out, braid_error *error);
// From text, which is changed; `origin` names it in messages.
braid_err churn_trace_parse(char *text, const char *origin, churn_trace *out, braid_error *error);

// Iteration time where the live machines cannot fill all stages.
#define CHURN_SPAN_NEVER ((uint64_t)1 << 62)

// A span of time with the same live machines.
typedef struct churn_span {
    uint64_t from_ns, until_ns;
    uint32_t live;
    bool arrivals_only, deaths_only;  // the change since the span before
    uint64_t iteration_ns;            // the least time of an iteration that the oracle finds
    uint64_t state_ns;                // time until each of these machines has its stage's state from a data peer
} churn_span;

// Of each span until `end_ns`: the oracle places the live machines as it likes, and knows each
// line. It has no deaths. `span` has room for CHURN_TRACE_MAX_EVENTS + 1.
braid_err churn_trace_spans(const churn_trace *t, const t2_case *c, uint64_t end_ns, churn_span *span, uint32_t *spans,
                            braid_error *error);
// Iterations that the live machines could have done between two moments.
double churn_trace_possible(const churn_span *span, uint32_t spans, uint64_t from_ns, uint64_t until_ns);

// Restarts from a checkpoint, at the oracle's pace between deaths.
typedef struct churn_restart {
    uint64_t interval_ns;  // between two checkpoints, which are taken after an iteration
    uint64_t start_ns;     // from a death until the run computes again, beside the fetch of the state
} churn_restart;
// Iterations until `end_ns` that no later death took back.
double churn_trace_restart(const churn_span *span, uint32_t spans, const churn_restart *r, uint64_t end_ns);

// The scenario of the replay, which the caller frees with scenario_free. Relay i is peer T2_DATA + i.
braid_err churn_trace_scenario(const churn_trace *t, const t2_case *c, t2_system system, scenario **out,
                               braid_error *error);
// Runs a system through the trace until `until_ns`. `report` is freed with sim_swarm_report_free.
braid_err churn_trace_run(const churn_trace *t, const t2_case *c, t2_system system, uint64_t until_ns,
                          const sim_swarm_options *options, sim_swarm_report *report, braid_error *error);

#endif
