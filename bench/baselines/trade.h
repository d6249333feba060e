// Relays trade places: an arrangement without global knowledge. Joiners begin in some stage. Two
// relays of different stages change places when that makes the links between their stages and the
// neighbouring ones cheaper. For that they need the links between peers of at most six stages:
// their own and the adjacent ones. Every trade lowers the sum over all neighbouring stages, so
// trading ends.
#ifndef BRAID_BENCH_BASELINES_TRADE_H
#define BRAID_BENCH_BASELINES_TRADE_H

#include "bench/baselines/dtfm.h"

// The sum over neighbouring stages of the cheapest matching of their peers (least sum of links).
int64_t plan_trade_cost(const plan_dtfm_problem *p, const uint32_t *stage);

// Each relay in turn makes the trade that saves most, if one saves at least `least`, until no relay
// finds one; `least` > 0. With `home` data peers stay. `stage` must name each group `width` times;
// p within the bounds of plan_dtfm. Returns the number of trades.
uint32_t plan_trade(const plan_dtfm_problem *p, int64_t least, uint32_t *stage);

#endif
