// Relays trade places: a rule for an arrangement that needs no search by anybody who sees everything. Whoever joined is in
// some stage. Two relays of different stages change places when that makes the ways between their stages and the
// neighbouring ones cheaper; for this they need to know the links between the peers of at most six stages, theirs and those
// beside them. Nobody trades twice for nothing: every trade lowers the sum over all neighbouring stages, so it ends.
#ifndef BRAID_BENCH_BASELINES_TRADE_H
#define BRAID_BENCH_BASELINES_TRADE_H

#include "bench/baselines/dtfm.h"

// The sum over neighbouring stages of the cheapest matching of their peers (least sum of links).
int64_t plan_trade_cost(const plan_dtfm_problem *p, const uint32_t *stage);

// Each relay in turn makes the trade that saves most, if one saves at least `least`, until nobody finds one; `least` > 0.
// With `home` data peers stay. `stage` must name each group `width` times; p within the bounds of plan_dtfm. Returns the
// number of trades.
uint32_t plan_trade(const plan_dtfm_problem *p, int64_t least, uint32_t *stage);

#endif
