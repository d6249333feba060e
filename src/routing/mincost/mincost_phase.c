// Transitions of mincost_phase, the state that the planner (src/routing/plan) sets and the counters obey.
#include "routing/mincost/mincost.h"

void mincost_start(mincost *mc) {
    if (!mincost_is_waiting(mc)) return;
    mc->phase.started = true;
    mincost_invalidate(mc);
}

bool mincost_is_dispatching(mincost *mc) {
    if (mc->r.now >= mc->phase.dispatch_until) return false;
    router_want(&mc->r, mc->phase.dispatch_until);
    return true;
}

// The map reports the number of cuts, so that data peers notice that a planned path is gone even if the
// same link comes back at once.
void mincost_note_cut(mincost *mc) { mc->phase.cuts++; }

// With several data peers the active flow then differs from the plan.
void mincost_note_deviation(mincost *mc) {
    if (mincost_is_dispatching(mc)) mincost_note_cut(mc);
}
