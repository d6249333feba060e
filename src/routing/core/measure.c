// Link costs from measured traffic: a median over the latest samples, an exponential average of the
// medians, and a hysteresis band around the announced cost (measure.h).
#include "routing/core/measure.h"

#include "routing/core/router.h"

#include <stddef.h>

const measure_rule measure_usual = {.relative_ppm = 100000, .absolute = 100, .patience = 2000000000};

// Larger values would overflow 64 bits when multiplied by nanoseconds or microseconds of a second.
#define MOST_BYTES ((uint64_t)1 << 33)
#define MOST_SIZE  ((uint64_t)1 << 42)

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

// Of an even number of samples the lower median.
static int64_t median(const measure *m) {
    int64_t sorted[MEASURE_WINDOW];
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > m->sample[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = m->sample[i];
    }
    return sorted[(m->count - 1) / 2];
}

void measure_add(measure *m, int64_t sample) {
    m->sample[m->next] = clamp(sample, 1, MEASURE_MAX);
    m->next = (uint8_t)((m->next + 1) % MEASURE_WINDOW);
    if (m->count < MEASURE_WINDOW) {
        m->count++;
        m->average = median(m);  // the first samples have no history worth averaging
        return;
    }
    int64_t middle = clamp(median(m), m->average / MEASURE_LEAP, m->average * MEASURE_LEAP);
    // Round the step away from zero; a truncated step would never reach the median.
    int64_t step = middle - m->average;
    m->average += (step + (step > 0 ? MEASURE_WEIGHT - 1 : 1 - MEASURE_WEIGHT)) / MEASURE_WEIGHT;
}

void measure_round_trip(measure_link *l, int64_t ns) { measure_add(&l->round_trip, ns); }

void measure_transfer(measure_link *l, measure_direction direction, uint64_t bytes, int64_t ns, bool answered) {
    if (bytes < MEASURE_BULK_BYTES) return;
    ns = clamp(ns, 1, MEASURE_MAX);
    if (answered) ns -= measure_value(&l->round_trip);
    for (; bytes > MOST_BYTES; bytes /= 2) ns /= 2;
    if (ns < 1) ns = 1;
    measure_add(&l->rate[direction], (int64_t)bytes * 1000000000 / ns);
}

bool measure_is_cost(int64_t cost) { return cost >= 1 && cost <= ROUTER_MAX_COST; }

static int64_t or_else(int64_t value, int64_t other) { return value > 0 ? value : other; }

int64_t measure_cost(const measure_link *l, int64_t mine, int64_t theirs, uint64_t size) {
    int64_t to = measure_value(&l->rate[MEASURE_TO]), from = measure_value(&l->rate[MEASURE_FROM]);
    int64_t round_trip = measure_value(&l->round_trip);
    mine = clamp(mine, 0, MEASURE_MAX);
    theirs = clamp(theirs, 0, MEASURE_MAX);
    if (mine + theirs + round_trip + to + from == 0) return 0;
    int64_t cost = (or_else(mine, theirs) + or_else(theirs, mine) + round_trip) / (2 * MEASURE_UNIT_NS);
    int64_t rates = or_else(to, from) + or_else(from, to);
    if (rates == 0) rates = 2 * clamp(l->guessed_rate, 0, MEASURE_MAX);
    if (rates > 0) cost += (int64_t)(size < MOST_SIZE ? size : MOST_SIZE) * (2000000000 / MEASURE_UNIT_NS) / rates;
    return clamp(cost, 1, ROUTER_MAX_COST);
}

bool measure_announce(measure_link *l, const measure_rule *rule, int64_t now, int64_t mine, int64_t theirs,
                      uint64_t size) {
    if (rule == NULL) rule = &measure_usual;
    int64_t cost = measure_cost(l, mine, theirs, size);
    if (cost == 0 || cost == l->cost) {
        l->side = 0;
        return false;
    }
    int64_t band = l->cost * rule->relative_ppm / 1000000 + rule->absolute;
    if (l->cost != 0) {
        int8_t side = cost > l->cost + band ? 1 : cost < l->cost - band ? -1 : 0;
        if (side != l->side) l->outside_since = now;
        l->side = side;
        if (side == 0 || now - l->outside_since < rule->patience) return false;
    }
    l->side = 0;
    l->cost = cost;
    return true;
}
