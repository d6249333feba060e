// The router of running swarms: src/placement/spans.h over the cards of the view.
//
// A span may be entered and left at any of its layers. Peers of the old path keep their ranges where
// that gives a path, because their caches are of use for these layers only. Draining peers of the old
// path are used where there is no path without them.
#include "placement/spans.h"
#include "session/inside.h"

enum { USUAL_HOP_US = 20000 };  // where no end has measured the link

typedef struct candidates {
    const session_view *view;
    const session_route_query *query;
    uint32_t count;
    uint16_t peer[SPANS_MAX];  // of the view
    span_view span[SPANS_MAX];
    span_work work;
    span_path path;
} candidates;

size_t session_route_spans_bytes(void) { return sizeof(candidates); }

static uint64_t hop_ns(const void *context, uint32_t from, uint32_t to) {
    const candidates *c = context;
    uint32_t a = from == c->count ? 0 : c->peer[from], b = to == c->count ? 0 : c->peer[to];
    const session_route_query *query = c->query;
    if (query->cut_off && query->cut_off(query->cut_off_context, a, b)) return UINT64_MAX;
    return (uint64_t)session_hop_us(c->view, a, b, USUAL_HOP_US) * 1000;
}

static const session_hop *old_hop(const session_route_query *query, const braid_id *id) {
    for (uint32_t h = 0; query->old && h < query->old->count; h++) {
        if (id_equal(&query->old->hop[h].id, id)) return &query->old->hop[h];
    }
    return NULL;
}

// Whether the peer ran the session's first page before. Its prefix cache may have evicted it.
static bool is_warm(const session_route_query *query, const braid_id *id) {
    for (uint32_t h = 0; query->warm && h < query->warm->count; h++)
        if (id_equal(&query->warm->hop[h].id, id)) return true;
    return false;
}

static bool usable(const candidates *c, uint32_t k, bool draining) {
    const session_known *known = &c->view->peer[k];
    const session_card *card = &known->card;
    const session_route_query *query = c->query;
    return card->serves && (k == 0 || !known->suspected) && hash_equal(&card->model, &query->model) &&
           hash_equal(&card->kernels, &query->kernels) && card->layers == query->layers &&
           session_has_adapter(card, query->adapter) && !(query->avoid && bitset_has(query->avoid, k)) &&
           (!card->draining || (draining && old_hop(query, &card->id)));
}

static void add(candidates *c, uint32_t k, bool keeps_ranges) {
    const session_card *card = &c->view->peer[k].card;
    const session_hop *old = old_hop(c->query, &card->id);
    uint64_t layers = (uint64_t)card->layer_end - card->layer_begin;
    span_view *span = &c->span[c->count];
    *span = (span_view){.begin = card->layer_begin,
                        .end = card->layer_end,
                        .usable = true,
                        .layer_ns = card->layer_ns,
                        .waiting_layers = card->waiting_layers,
                        .cached_tokens = is_warm(c->query, &card->id) ? c->query->tokens : 0,
                        .free_tokens = card->free_tokens * layers};
    bool inside = old && old->layer_begin >= card->layer_begin && old->layer_end <= card->layer_end;
    if (inside) {  // it has reserved that room
        span->free_tokens += c->query->room * (uint64_t)(old->layer_end - old->layer_begin);
        if (keeps_ranges) {
            span->begin = old->layer_begin;
            span->end = old->layer_end;
            span->whole = true;
            span->cached_tokens = c->query->tokens;
        }
    }
    c->peer[c->count++] = (uint16_t)k;
}

static bool find(candidates *c, bool keeps_ranges, bool draining, uint16_t *missing) {
    const session_route_query *query = c->query;
    const span_query wanted = {
        .layers = query->layers, .room = query->room, .tokens = query->tokens, .ahead = SESSION_ROUTE_AHEAD};
    c->count = 0;
    for (uint32_t k = 0; k < c->view->count && c->count < SPANS_MAX; k++)
        if (usable(c, k, draining)) add(c, k, keeps_ranges);
    return span_route(c->span, c->count, &wanted, hop_ns, c, &c->work, &c->path, missing);
}

bool session_route_spans(void *context, const session_view *view, const session_route_query *query, session_path *out,
                         uint16_t *missing) {
    candidates *c = context;
    c->view = view;
    c->query = query;
    if (query->layers > SPANS_MAX_LAYERS) return session_route_shortest(NULL, view, query, out, missing);
    bool found = find(c, true, false, missing) || find(c, false, false, missing) || find(c, true, true, missing) ||
                 find(c, false, true, missing);
    if (!found || c->path.count > SESSION_MAX_HOPS) return false;
    out->count = c->path.count;
    for (uint32_t h = 0; h < out->count; h++) {
        const span_visit *v = &c->path.visit[h];
        out->hop[h] =
            (session_hop){.id = view->peer[c->peer[v->span]].card.id, .layer_begin = v->begin, .layer_end = v->end};
    }
    return true;
}
