// The path of one session over the spans that a peer knows (for src/session/).
#ifndef BRAID_PLACEMENT_SPANS_H
#define BRAID_PLACEMENT_SPANS_H

#include <stdbool.h>
#include <stdint.h>

enum { SPANS_MAX = 256, SPANS_MAX_LAYERS = 256, SPANS_MAX_HOPS = 64 };

// One span of the view, from its newest report.
typedef struct span_view {
    uint16_t begin, end;      // layers [begin, end)
    bool usable;              // false: dead, suspected, draining, of another model or avoided
    bool whole;               // run from `begin` to `end` or not at all
    uint32_t layer_ns;        // measured time of one row in one layer
    uint32_t waiting_layers;  // layers of rows that it computes before a new row, its mean queue
    uint64_t free_tokens;     // room of its cache: tokens, times layers
    uint32_t cached_tokens;   // of this session's beginning, in its prefix cache or from an older path
} span_view;

typedef struct span_query {
    uint16_t layers;
    uint32_t room;    // tokens that the session may have: a span needs that room for each layer it runs
    uint32_t tokens;  // that the session has: a span computes those that it has not cached
    uint32_t ahead;   // tokens over which that computation is spread, at least 1
} span_query;

// Nanoseconds of one hop between spans `from` and `to` of the view; the number of spans stands for the
// origin. UINT64_MAX: they cannot reach each other. Other values are at most 2^48.
typedef uint64_t (*span_hop_ns)(const void *context, uint32_t from, uint32_t to);

typedef struct span_visit {
    uint16_t span, begin, end;
} span_visit;

typedef struct span_path {
    uint32_t count;
    uint64_t cost_ns;  // of a token: hops, computation, queues, and the share of the missing tokens
    span_visit visit[SPANS_MAX_HOPS];
} span_path;

// Scratch; its content before a call has no meaning.
typedef struct span_work {
    uint64_t cost[SPANS_MAX_LAYERS + 1][SPANS_MAX];
    uint16_t entered[SPANS_MAX_LAYERS + 1][SPANS_MAX], before[SPANS_MAX_LAYERS + 1][SPANS_MAX];
    uint16_t low[SPANS_MAX], high[SPANS_MAX];
} span_work;

// Finds the path of least cost from layer 0 to the last layer and back to the origin. A span may be
// entered and left at any of its layers, and is visited once. Cost of a visit of n layers:
//     n * layer_ns * (1 + missing tokens / ahead) + waiting_layers * layer_ns.
// Among the walks to one (layer, span) only the cheapest is continued, and never into a span that it has
// visited: the result is the optimum whenever the cheapest walk visits no span twice, and nearly always
// otherwise (tests/unit/placement_spans.c compares with all paths). False: no path; then *missing is the
// first layer that cannot be reached. Deterministic and pure: ties go to the lower index.
bool span_route(const span_view *span, uint32_t count, const span_query *query, span_hop_ns hop, const void *context,
                span_work *work, span_path *out, uint16_t *missing);

#endif
