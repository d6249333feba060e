#include "span/choose.h"

#include <string.h>

typedef struct place {
    uint32_t empty;  // layers without a peer
    double slowest;  // rate of the slowest layer that has one
    double sum;      // of all rates
} place;

static void add_rate(const session_card *c, double rate[SESSION_MAX_LAYERS], uint16_t layers) {
    double share = 1e9 / (c->layer_ns ? c->layer_ns : 1) / (c->layer_end - c->layer_begin);
    for (uint32_t i = c->layer_begin; i < c->layer_end && i < layers; i++) rate[i] += share;
}

static bool counts(const session_known *k, const braid_hash *model) {
    const session_card *c = &k->card;
    return c->serves && !c->draining && !k->suspected && c->layer_begin < c->layer_end && hash_equal(&c->model, model);
}

static place look(const double *rate, uint16_t begin, uint16_t count) {
    place p = {.slowest = -1};
    for (uint32_t i = begin; i < (uint32_t)begin + count; i++) {
        p.empty += rate[i] <= 0;
        p.sum += rate[i];
        if (rate[i] > 0 && (p.slowest < 0 || rate[i] < p.slowest)) p.slowest = rate[i];
    }
    return p;
}

static bool is_better(const place *a, const place *b) {
    if (a->empty != b->empty) return a->empty > b->empty;
    if (a->slowest < b->slowest || a->slowest > b->slowest) return a->slowest < b->slowest;
    return a->sum < b->sum;
}

void choose_layers(const session_view *view, const braid_hash *model, uint16_t layers, uint16_t count,
                   uint16_t *begin) {
    double rate[SESSION_MAX_LAYERS] = {0};
    for (uint32_t i = 0; i < view->count; i++)
        if (i > 0 && counts(&view->peer[i], model)) add_rate(&view->peer[i].card, rate, layers);
    *begin = 0;
    place best = look(rate, 0, count);
    for (uint16_t at = 1; at + count <= layers; at++) {
        place here = look(rate, at, count);
        if (!is_better(&here, &best)) continue;
        best = here;
        *begin = at;
    }
}
