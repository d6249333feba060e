#include "placement/spans.h"

#define NEVER UINT64_MAX

typedef struct search {
    const span_view *span;
    uint32_t count;
    const span_query *query;
    span_hop_ns hop;
    const void *context;
    span_work *w;
} search;

static uint64_t plus(uint64_t a, uint64_t b) { return a > NEVER - b ? NEVER : a + b; }

static uint64_t times(uint64_t a, uint64_t b) { return b > 0 && a > NEVER / b ? NEVER : a * b; }

// Time of a visit of n layers; NEVER: the cache has no room.
static uint64_t visit_ns(const search *s, uint32_t i, uint32_t n) {
    const span_view *v = &s->span[i];
    const span_query *q = s->query;
    if (times(q->room, n) > v->free_tokens) return NEVER;
    uint64_t missing = q->tokens > v->cached_tokens ? q->tokens - v->cached_tokens : 0,
             work = (uint64_t)n * v->layer_ns;
    return plus(plus(work, times(work, missing) / (q->ahead > 0 ? q->ahead : 1)),
                times(v->waiting_layers, v->layer_ns));
}

// True if the cheapest walk to (layer, j) has visited span i.
static bool has_visited(const span_work *w, uint32_t layer, uint32_t j, uint32_t i) {
    while (layer > 0) {
        if (j == i) return true;
        uint32_t next = w->before[layer][j];
        layer = w->entered[layer][j];
        j = next;
    }
    return false;
}

// The cheapest way to enter span i, which is not visited yet, at this layer; NEVER: none.
static uint64_t enter(const search *s, uint32_t i, uint32_t layer, uint16_t *before) {
    *before = (uint16_t)i;
    if (layer == 0) return s->hop(s->context, s->count, i);
    uint64_t best = NEVER;
    for (uint32_t j = 0; j < s->count; j++) {
        uint64_t cost = s->w->cost[layer][j];
        if (j == i || cost >= best) continue;
        cost = plus(cost, s->hop(s->context, j, i));
        if (cost >= best || has_visited(s->w, layer, j, i)) continue;
        best = cost;
        *before = (uint16_t)j;
    }
    return best;
}

static void extend(const search *s, uint32_t i, uint32_t layer) {
    uint16_t before;
    bool whole = s->span[i].whole;
    if (whole && layer > s->w->low[i]) return;
    uint64_t base = enter(s, i, layer, &before);
    for (uint32_t end = whole ? s->w->high[i] : layer + 1; base < NEVER && end <= s->w->high[i]; end++) {
        uint64_t cost = plus(base, visit_ns(s, i, end - layer));
        if (cost >= s->w->cost[end][i]) continue;
        s->w->cost[end][i] = cost;
        s->w->entered[end][i] = (uint16_t)layer;
        s->w->before[end][i] = before;
    }
}

static bool read_path(const search *s, span_path *out, uint16_t *missing) {
    uint32_t at = 0, count = 0, layers = s->query->layers;
    out->cost_ns = NEVER;
    out->count = 0;
    *missing = 0;
    for (uint32_t l = 1; l <= layers; l++)
        for (uint32_t i = 0; i < s->count; i++) {
            if (s->w->cost[l][i] < NEVER) *missing = (uint16_t)l;
        }
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->w->cost[layers][i] == NEVER) continue;
        uint64_t cost = plus(s->w->cost[layers][i], s->hop(s->context, i, s->count));
        if (cost >= out->cost_ns) continue;
        out->cost_ns = cost;
        at = i;
    }
    if (out->cost_ns == NEVER) return false;
    for (uint32_t l = layers, i = at; l > 0; count++) {
        uint32_t next = s->w->before[l][i];
        l = s->w->entered[l][i];
        i = next;
    }
    if (count > SPANS_MAX_HOPS) return false;
    out->count = count;
    for (uint32_t l = layers; l > 0;) {
        uint16_t begin = s->w->entered[l][at], next = s->w->before[l][at];
        out->visit[--count] = (span_visit){(uint16_t)at, begin, (uint16_t)l};
        l = begin;
        at = next;
    }
    return true;
}

static void fill(const search *s) {
    uint32_t layers = s->query->layers;
    for (uint32_t l = 0; l <= layers; l++)
        for (uint32_t i = 0; i < s->count; i++) s->w->cost[l][i] = NEVER;
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t i = 0; i < s->count; i++) {
            if (l >= s->w->low[i] && l < s->w->high[i]) extend(s, i, l);
        }
}

bool span_route(const span_view *span, uint32_t count, const span_query *query, span_hop_ns hop, const void *context,
                span_work *work, span_path *out, uint16_t *missing) {
    search s = {span, count, query, hop, context, work};
    *missing = 0;
    out->count = 0;
    if (count > SPANS_MAX || query->layers == 0 || query->layers > SPANS_MAX_LAYERS) return false;
    for (uint32_t i = 0; i < count; i++) {
        bool usable = span[i].usable && span[i].begin < span[i].end && span[i].end <= query->layers;
        work->low[i] = usable ? span[i].begin : 0;
        work->high[i] = usable ? span[i].end : 0;
    }
    fill(&s);
    return read_path(&s, out, missing);
}
