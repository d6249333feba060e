// The default router: the path of shortest time for one token.
//
// Each span runs from the layer at which it is entered to its own end, so a span's position in a path
// is fixed by its end, and the spans sorted by their ends are an acyclic graph: Dijkstra's algorithm
// needs no queue.
#include "session/inside.h"

enum { USUAL_HOP_US = 20000 };                     // where no end has measured the link
static const uint64_t draining_ns = 10000000000u;  // a draining span is the last resort

static uint32_t measured(const session_card *card, uint64_t to) {
    for (uint32_t i = 0; i < card->hops; i++) {
        if (card->hop[i].to == to) return card->hop[i].one_way_us;
    }
    return 0;
}

uint32_t session_hop_us(const session_view *view, uint32_t from, uint32_t to, uint32_t fallback_us) {
    if (from == to) return 0;
    const session_known *a = &view->peer[from], *b = &view->peer[to];
    if (from == 0 && b->one_way_us > 0) return b->one_way_us;
    if (to == 0 && a->one_way_us > 0) return a->one_way_us;
    uint32_t x = measured(&a->card, peer_short(&b->card.id)), y = measured(&b->card, peer_short(&a->card.id));
    if (x > 0 && y > 0) return x / 2 + y / 2 + (x & y & 1);
    return x > 0 ? x : y > 0 ? y : fallback_us;
}

bool session_has_adapter(const session_card *card, uint64_t adapter) {
    bool found = adapter == 0;
    for (uint32_t i = 0; i < card->adapters; i++) found |= card->adapter[i] == adapter;
    return found;
}

typedef struct search {
    const session_view *view;
    const session_route_query *query;
    uint32_t count;  // usable peers, by the ends of their spans
    uint16_t peer[SESSION_MAX_PEERS];
    uint64_t cost[SESSION_MAX_PEERS];  // until the end of its span; UINT64_MAX: not reached
    uint16_t entry[SESSION_MAX_PEERS], before[SESSION_MAX_PEERS];
} search;

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

static bool usable(const search *s, uint32_t k) {
    const session_known *known = &s->view->peer[k];
    const session_card *card = &known->card;
    const session_route_query *query = s->query;
    return card->serves && (k == 0 || !known->suspected) && hash_equal(&card->model, &query->model) &&
           hash_equal(&card->kernels, &query->kernels) && card->layers == query->layers &&
           session_has_adapter(card, query->adapter) && !(query->avoid && bitset_has(query->avoid, k)) &&
           (!card->draining || old_hop(query, &card->id));
}

// Nanoseconds of peer k for layers [from, its end); UINT64_MAX: it has no room.
static uint64_t work(const search *s, uint32_t k, uint16_t from) {
    const session_card *card = &s->view->peer[k].card;
    uint64_t layers = (uint64_t)card->layer_end - from, cost = layers * card->layer_ns;
    const session_hop *old = old_hop(s->query, &card->id);
    if (card->draining) cost += draining_ns;
    if (old && old->layer_begin == from && old->layer_end == card->layer_end) return cost;
    uint64_t all = (uint64_t)card->layer_end - card->layer_begin;
    if (card->free_tokens * all < s->query->room * layers) return UINT64_MAX;
    if (is_warm(s->query, &card->id)) return cost;
    return cost + s->query->tokens * layers * card->layer_ns / SESSION_ROUTE_AHEAD;
}

static uint64_t hop(const search *s, uint32_t a, uint32_t b) {
    const session_route_query *query = s->query;
    if (query->cut_off && query->cut_off(query->cut_off_context, a, b)) return UINT64_MAX;
    return (uint64_t)session_hop_us(s->view, a, b, USUAL_HOP_US) * 1000;
}

static void sort_usable(search *s) {
    for (uint32_t k = 0; k < s->view->count; k++) {
        if (!usable(s, k)) continue;
        uint32_t at = s->count++;
        uint16_t end = s->view->peer[k].card.layer_end;
        for (; at > 0 && s->view->peer[s->peer[at - 1]].card.layer_end > end; at--) s->peer[at] = s->peer[at - 1];
        s->peer[at] = (uint16_t)k;
    }
}

static void relax(search *s, uint32_t n, uint64_t base, uint32_t from, uint16_t layer, uint16_t before) {
    uint64_t link = hop(s, from, s->peer[n]), time = work(s, s->peer[n], layer);
    if (link == UINT64_MAX || time == UINT64_MAX || base + link + time >= s->cost[n]) return;
    s->cost[n] = base + link + time;
    s->entry[n] = layer;
    s->before[n] = before;
}

static void reach(search *s, uint32_t n) {
    const session_card *card = &s->view->peer[s->peer[n]].card;
    s->cost[n] = UINT64_MAX;
    if (card->layer_begin == 0) relax(s, n, 0, 0, 0, SESSION_MAX_PEERS);
    for (uint32_t m = 0; m < n; m++) {
        uint16_t end = s->view->peer[s->peer[m]].card.layer_end;
        if (s->cost[m] == UINT64_MAX || end < card->layer_begin || end >= card->layer_end) continue;
        relax(s, n, s->cost[m], s->peer[m], end, (uint16_t)m);
    }
}

static bool write_path(const search *s, uint32_t last, session_path *out) {
    uint32_t count = 0;
    for (uint32_t n = last; n != SESSION_MAX_PEERS; n = s->before[n]) count++;
    if (count > SESSION_MAX_HOPS) return false;
    out->count = count;
    for (uint32_t n = last; n != SESSION_MAX_PEERS; n = s->before[n]) {
        const session_card *card = &s->view->peer[s->peer[n]].card;
        out->hop[--count] = (session_hop){.id = card->id, .layer_begin = s->entry[n], .layer_end = card->layer_end};
    }
    return true;
}

bool session_route_shortest(void *context, const session_view *view, const session_route_query *query,
                            session_path *out, uint16_t *missing) {
    (void)context;
    search s = {.view = view, .query = query};
    sort_usable(&s);
    uint32_t best = SESSION_MAX_PEERS;
    uint64_t best_cost = UINT64_MAX;
    *missing = 0;
    for (uint32_t n = 0; n < s.count; n++) {
        reach(&s, n);
        if (s.cost[n] == UINT64_MAX) continue;
        uint16_t end = view->peer[s.peer[n]].card.layer_end;
        if (end > *missing) *missing = end;
        if (end != query->layers) continue;
        uint64_t back = hop(&s, s.peer[n], 0);
        if (back == UINT64_MAX || s.cost[n] + back >= best_cost) continue;
        best = n;
        best_cost = s.cost[n] + back;
    }
    return best != SESSION_MAX_PEERS && write_path(&s, best, out);
}
