// Rebalancing: which layers to fetch, and in which order.
#include "placement/inside.h"

#include <string.h>

uint32_t placement_fetched(const placement_plan *from, const placement_plan *to, uint32_t peer) {
    uint32_t count = 0;
    for (uint32_t l = to->begin[peer]; l < to->end[peer]; l++) count += l < from->begin[peer] || l >= from->end[peer];
    return count;
}

typedef struct ordering {
    const placement_problem *p;
    const placement_plan *to;
    placement_plan at;  // the layers that are held now
    uint32_t holders[PLACEMENT_MAX_LAYERS];
    placement_moves *out;
} ordering;

static void count_holders(ordering *o) {
    memset(o->holders, 0, sizeof o->holders);
    for (uint32_t i = 0; i < o->p->peers; i++)
        for (uint32_t l = o->at.begin[i]; l < o->at.end[i]; l++) o->holders[l]++;
}

// True if no layer loses its only holder when peer i holds [begin, end) alone.
static bool covers(const ordering *o, uint32_t i, uint32_t begin, uint32_t end) {
    for (uint32_t l = o->at.begin[i]; l < o->at.end[i]; l++) {
        if ((l < begin || l >= end) && o->holders[l] < 2) return false;
    }
    return true;
}

static void move(ordering *o, uint32_t i, uint8_t begin, uint8_t end) {
    placement_plan next = {0};
    next.begin[i] = begin;
    next.end[i] = end;
    uint32_t fetched = placement_fetched(&o->at, &next, i);
    o->out->move[o->out->count++] = (placement_move){(uint8_t)i, begin, end, (uint8_t)fetched};
    o->out->fetched += fetched;
    o->at.begin[i] = begin;
    o->at.end[i] = end;
    count_holders(o);
}

static bool is_done(const ordering *o, uint32_t i) {
    bool empty = o->to->begin[i] >= o->to->end[i] && o->at.begin[i] >= o->at.end[i];
    return empty || (o->at.begin[i] == o->to->begin[i] && o->at.end[i] == o->to->end[i]);
}

// The possible final move that fetches least; PLACEMENT_MAX_PEERS: none.
static uint32_t next_move(const ordering *o) {
    uint32_t best = PLACEMENT_MAX_PEERS, least = UINT32_MAX;
    for (uint32_t i = 0; i < o->p->peers; i++) {
        if (is_done(o, i) || !covers(o, i, o->to->begin[i], o->to->end[i])) continue;
        uint32_t fetched = placement_fetched(&o->at, o->to, i);
        if (fetched >= least) continue;
        least = fetched;
        best = i;
    }
    return best;
}

// A peer that has memory for all layers from its old to its new ones takes those first.
static bool widen(ordering *o) {
    for (uint32_t i = 0; i < o->p->peers; i++) {
        if (is_done(o, i) || o->at.begin[i] >= o->at.end[i] || o->to->begin[i] >= o->to->end[i]) continue;
        uint8_t begin = o->at.begin[i] < o->to->begin[i] ? o->at.begin[i] : o->to->begin[i];
        uint8_t end = o->at.end[i] > o->to->end[i] ? o->at.end[i] : o->to->end[i];
        if (begin == o->at.begin[i] && end == o->at.end[i]) continue;
        if (!placement_fits(o->p, i, (uint32_t)(end - begin), o->at.load[i])) continue;
        move(o, i, begin, end);
        return true;
    }
    return false;
}

void placement_order_moves(const placement_problem *p, const placement_plan *from, const placement_plan *to,
                           placement_moves *out) {
    ordering o = {.p = p, .to = to, .at = *from, .out = out};
    *out = (placement_moves){0};
    count_holders(&o);
    // a peer is widened at most once and reaches its goal once
    while (out->count < PLACEMENT_MAX_MOVES) {
        uint32_t i = next_move(&o);
        if (i < PLACEMENT_MAX_PEERS)
            move(&o, i, to->begin[i], to->end[i]);
        else if (!widen(&o))
            break;
    }
    out->complete = true;
    for (uint32_t i = 0; i < p->peers; i++) out->complete &= is_done(&o, i);
}

uint32_t placement_choose_start(const placement_problem *p, const placement_plan *plan, uint32_t peer,
                                uint32_t layers) {
    double rate[PLACEMENT_MAX_LAYERS] = {0}, least = PLACEMENT_NEVER, least_sum = PLACEMENT_NEVER;
    uint32_t best = 0;
    for (uint32_t i = 0; i < p->peers; i++)
        for (uint32_t l = plan->begin[i]; i != peer && l < plan->end[i]; l++)
            rate[l] += 1 / (p->peer[i].layer_us * (plan->end[i] - plan->begin[i]) + 1e-3);
    for (uint32_t start = 0; start + layers <= p->layers; start++) {
        double low = PLACEMENT_NEVER, sum = 0;
        for (uint32_t l = start; l < start + layers; l++) {
            if (rate[l] < low) low = rate[l];
            sum += rate[l];
        }
        if (low > least || (low >= least && sum >= least_sum)) continue;
        least = low;
        least_sum = sum;
        best = start;
    }
    return best;
}
