// A lower bound of the mean time of a token by Lagrangian relaxation of the peers' loads.
#include "placement/inside.h"

#include <math.h>

// Largest load that peer i can have: it holds n layers, each session uses at most n of them.
static double most_load(const placement_problem *p, uint32_t i) {
    double most = 0;
    for (uint32_t n = 1; n <= p->layers; n++) {
        double room = p->peer[i].memory_bytes - n * p->layer_bytes, load = (double)n * p->sessions;
        if (room < 0) break;
        if (p->cache_bytes > 0 && load > room / p->cache_bytes) load = room / p->cache_bytes;
        if (load > most) most = load;
    }
    double rate = p->peer[i].row_us * p->rows_per_us;
    return rate > 0 && most > PLACEMENT_MAX_BUSY / rate ? PLACEMENT_MAX_BUSY / rate : most;
}

// The load at which the peer's time less its price is least, where D'(load) = price.
static double best_load(const placement_problem *p, uint32_t i, double price, double most) {
    double c = p->peer[i].layer_us, rate = p->peer[i].row_us * p->rows_per_us;
    if (price <= c) return 0;
    if (rate <= 0) return most;
    double load = (1 - sqrt(c / price)) / rate;
    return load < most ? load : most;
}

static double time_at(const placement_problem *p, uint32_t i, double load) {
    return load * p->peer[i].layer_us / (1 - load * p->peer[i].row_us * p->rows_per_us);
}

static void enter_priced(const placement_problem *p, uint32_t origin, uint32_t l, const double *price,
                         const uint32_t *span, placement_work *w) {
    for (uint32_t i = 0; i < p->peers; i++) {
        double cost = l == 0 ? p->hop_us[origin][i] : PLACEMENT_NEVER;
        uint32_t before = i;
        for (uint32_t j = 0; l > 0 && j < p->peers; j++) {
            if (j == i || w->cost[l][j] + p->hop_us[j][i] >= cost) continue;
            cost = w->cost[l][j] + p->hop_us[j][i];
            before = j;
        }
        w->steps += p->peers;
        for (uint32_t end = l + 1; cost < PLACEMENT_NEVER && end <= p->layers && end - l <= span[i]; end++) {
            double total = cost + (end - l) * price[i];
            if (total >= w->cost[end][i]) continue;
            w->cost[end][i] = total;
            w->entered[end][i] = (uint8_t)l;
            w->before[end][i] = (uint8_t)before;
        }
    }
}

// The cheapest walk at these prices; it may visit a peer more than once, which only lowers the bound.
static double cheapest(const placement_problem *p, uint32_t origin, const double *price, const uint32_t *span,
                       uint32_t count, double *load, placement_work *w) {
    for (uint32_t l = 0; l <= p->layers; l++)
        for (uint32_t i = 0; i < p->peers; i++) w->cost[l][i] = PLACEMENT_NEVER;
    for (uint32_t l = 0; l < p->layers; l++) enter_priced(p, origin, l, price, span, w);
    double best = PLACEMENT_NEVER;
    uint32_t at = 0;
    for (uint32_t i = 0; i < p->peers; i++) {
        double cost = w->cost[p->layers][i] + p->hop_us[i][origin];
        if (cost >= best) continue;
        best = cost;
        at = i;
    }
    for (uint32_t l = p->layers; best < PLACEMENT_NEVER && l > 0;) {
        uint32_t begin = w->entered[l][at], next = w->before[l][at];
        load[at] += (double)count * (l - begin);
        l = begin;
        at = next;
    }
    return best;
}

// The bound at these prices, and in `slope` its subgradient.
static double bound_at(const placement_problem *p, const double *price, const uint32_t *span, const double *most,
                       double *slope, placement_work *w) {
    uint32_t from[PLACEMENT_MAX_PEERS] = {0};
    double total = 0, load[PLACEMENT_MAX_PEERS] = {0};
    for (uint32_t s = 0; s < p->sessions; s++) from[p->origin[s]]++;
    for (uint32_t o = 0; o < p->peers; o++) {
        if (from[o] > 0) total += from[o] * cheapest(p, o, price, span, from[o], load, w);
    }
    for (uint32_t i = 0; i < p->peers; i++) {
        double best = best_load(p, i, price[i], most[i]);
        total += time_at(p, i, best) - price[i] * best;
        slope[i] = load[i] - best;
    }
    return total / p->sessions;
}

double placement_bound(const placement_problem *p, double target_us, uint32_t rounds, placement_work *w) {
    double price[PLACEMENT_MAX_PEERS], most[PLACEMENT_MAX_PEERS], slope[PLACEMENT_MAX_PEERS], best = 0, scale = 1;
    uint32_t span[PLACEMENT_MAX_PEERS], stuck = 0;
    if (p->sessions == 0) return 0;
    for (uint32_t i = 0; i < p->peers; i++) {
        most[i] = most_load(p, i);
        price[i] = p->peer[i].layer_us;
        for (span[i] = 0; span[i] < p->layers && placement_fits(p, i, span[i] + 1, span[i] + 1);) span[i]++;
    }
    for (uint32_t n = 0; n < rounds; n++) {
        double bound = bound_at(p, price, span, most, slope, w), square = 0;
        stuck = bound > best ? 0 : stuck + 1;
        if (bound > best) best = bound;
        if (stuck >= 10) {
            scale /= 2;
            stuck = 0;
        }
        for (uint32_t i = 0; i < p->peers; i++) square += slope[i] * slope[i];
        if (square <= 0 || bound >= target_us) break;
        // Polyak's step towards the mean of a known plan
        double step = scale * (target_us - bound) * p->sessions / square;
        for (uint32_t i = 0; i < p->peers; i++) {
            price[i] += step * slope[i];
            if (price[i] < p->peer[i].layer_us) price[i] = p->peer[i].layer_us;
        }
    }
    return best;
}
