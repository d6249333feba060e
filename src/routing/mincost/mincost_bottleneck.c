// Bottleneck objective (min-max): marginal costs that make the heaviest link as light as possible.
//
// The load of a link is its units times its cost. Minimising the sum of a steep convex function of
// all loads nearly minimises the largest load. A cycle that is negative under the marginal costs of
// that function lowers the sum. So labels and commits stay as they are, and a unit costs
//
//     1. (load / scale) ^ 64 with it, less that without it. Near the heaviest load this exceeds all other
//        terms together, elsewhere it is almost 0. The scale is the current heaviest load, rounded up;
//     2. its cost in the sum objective, so that among flows with the same heaviest link a cheap one wins.
//
// Adverts carry the scale. Each peer reports to its previous neighbours the heaviest load from
// there to the sink, so a data peer knows it for all links. The data peer sends the scale back
// stage by stage.
#include "routing/mincost/mincost.h"

enum {
    STEPS = 16,  // steps of the scale in a doubling
    LAST_STEP = 43 * STEPS,
    SQUARINGS = 6,    // squarings of load / scale: the power is 64
    POWER_BITS = 37,  // bits of term 1 at the scale
    SUM_BITS = 25,    // bits of term 2 for a load of the scale, rounded down to a power of two
};

// Upper bound of a unit's cost. A unit that makes a link heavier than the scale costs at least half
// as much, more than the gain of any cycle. So no commit raises the scale, except for one more
// unit.
#define MAX_UNIT_COST ((int64_t)1 << 44)
_Static_assert(ROUTER_MAX_CYCLE *(((int64_t)1 << POWER_BITS) + ((int64_t)1 << SUM_BITS)) < MAX_UNIT_COST / 2,
               "so much more");
_Static_assert(ROUTER_MAX_CYCLE *MAX_UNIT_COST < MINCOST_UNIT_VALUE_BOTTLENECK,
               "a walk costs less than one more unit is worth");
_Static_assert((int64_t)ROUTER_MAX_UNITS *ROUTER_MAX_COST < (int64_t)1 << LAST_STEP / STEPS, "each load has a step");

// --- Loads and scales ----------------------------------------------------------------------------

// The load that a step stands for. Step 0 means unknown: above all loads, so that nothing has a
// cost.
static int64_t load_of_step(uint32_t step) {
    static const int64_t part[STEPS] = {65536, 68438, 71468, 74632, 77936, 81386, 84990, 88752,
                                        // 2^(16 + i / 16)
                                        92682, 96785, 101070, 105545, 110218, 115098, 120194, 125515};
    int64_t load = part[step % STEPS] << (step == 0 ? LAST_STEP / STEPS : step / STEPS) >> 16;
    return load > 0 ? load : 1;
}

// The lowest step with at least this load.
static uint16_t step_of_load(int64_t load) {
    if (load <= 0) return 0;
    uint32_t step = STEPS;
    while (step < LAST_STEP && load_of_step(step) < load) step += STEPS;
    while (step > 1 && load_of_step(step - 1) >= load) step--;
    return (uint16_t)step;
}

int64_t mincost_link_load(const mincost *mc, router_side side, uint32_t slot, int32_t more) {
    int64_t units = more;
    for (uint32_t k = 0; k < mc->r.commodities; k++)
        units += side == ROUTER_NEXT ? downstream_of(mc, k, slot)->units - downstream_of(mc, k, slot)->owed
                                     : mincost_inflow(mc, k, slot);
    int64_t cost = link_cost(mc, side, slot);
    if (units > ROUTER_MAX_UNITS) units = ROUTER_MAX_UNITS;
    return units > 0 && cost > 0 ? units * cost : 0;
}

// The heaviest load of this peer's links; `far`: of all links from here to the sink.
static uint16_t heaviest_step(const mincost *mc, bool far) {
    int64_t own = 0;
    uint16_t step = 0;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        int64_t load = mincost_link_load(mc, ROUTER_NEXT, slot, 0);
        if (load > own) own = load;
        for (uint32_t k = 0; far && k < mc->r.commodities; k++)
            if (downstream_of(mc, k, slot)->heaviest > step) step = downstream_of(mc, k, slot)->heaviest;
    }
    uint16_t own_step = step_of_load(own);
    return own_step > step ? own_step : step;
}

// Data peers compute the same scale. The other peers adopt it from the next stage. After all
// adverts arrived, all peers agree.
void mincost_update_scale(mincost *mc) {
    mc->bottleneck.heaviest = heaviest_step(mc, true);
    if (mc->r.is_source) {
        mc->bottleneck.scale = mc->bottleneck.heaviest;
        return;
    }
    mc->bottleneck.scale = 0;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        for (uint32_t k = 0; k < mc->r.commodities; k++)
            if (downstream_of(mc, k, slot)->scale > mc->bottleneck.scale)
                mc->bottleneck.scale = downstream_of(mc, k, slot)->scale;
    }
}

// The word in an advert. A data peer is the end of the path, but other data peers need the loads of
// its links.
uint32_t mincost_scale_word(const mincost *mc) {
    uint32_t loads = !mc->r.is_source                ? mc->bottleneck.heaviest
                     : mc->r.config.source_count > 1 ? heaviest_step(mc, false)
                                                     : 0;
    return (uint32_t)mc->bottleneck.scale << 16 | loads;
}

void mincost_on_scale(mincost_downstream *d, uint32_t word) {
    if (word >> 16 > LAST_STEP || (word & 0xffff) > LAST_STEP) return;
    d->scale = (uint16_t)(word >> 16);
    d->heaviest = (uint16_t)word;
}

// --- Costs ---------------------------------------------------------------------------------------

// (load / scale) ^ 64 for a load up to the scale.
static int64_t power(int64_t load, int64_t scale) {
    uint64_t high = ((uint64_t)load << 16) / (uint64_t)scale, rest = ((uint64_t)load << 16) % (uint64_t)scale;
    uint64_t x = high << 16 | (rest << 16) / (uint64_t)scale;  // load / scale, in 2^-32
    for (int i = 0; i < SQUARINGS; i++) x = (x >> 1) * (x >> 1) >> 30;
    return (int64_t)(x << (POWER_BITS - 32));
}

static int64_t sum_term(const mincost *mc, int64_t cost) {
    int64_t scale = load_of_step(mc->bottleneck.scale / STEPS * STEPS);
    return cost >= scale ? (int64_t)1 << SUM_BITS : (cost << SUM_BITS) / scale;
}

// Cost of a unit that raises the load from `from` to `to`. Above the scale it still rises, so that
// the function stays convex.
static int64_t unit_cost(const mincost *mc, int64_t from, int64_t to) {
    int64_t scale = load_of_step(mc->bottleneck.scale);
    if (to <= scale) return power(to, scale) - power(from, scale) + sum_term(mc, to - from);
    return MAX_UNIT_COST - (MAX_UNIT_COST >> 21) * ((scale << 20) / to);
}

int64_t mincost_bottleneck_increase(const mincost *mc, uint32_t slot) {
    return unit_cost(mc, mincost_link_load(mc, ROUTER_NEXT, slot, 0), mincost_link_load(mc, ROUTER_NEXT, slot, 1));
}

int64_t mincost_bottleneck_decrease(const mincost *mc, router_side side, uint32_t slot) {
    return unit_cost(mc, mincost_link_load(mc, side, slot, -1), mincost_link_load(mc, side, slot, 0));
}

int64_t mincost_bottleneck_epsilon(const mincost *mc) { return sum_term(mc, mc->r.config.slack); }
