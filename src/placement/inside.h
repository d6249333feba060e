// Shared by the files of this room.
#ifndef BRAID_PLACEMENT_INSIDE_H
#define BRAID_PLACEMENT_INSIDE_H

#include "placement/placement.h"

#define PLACEMENT_NEVER 1e30  // more than any path costs

// Reads the cheapest path to the last layer and back to the origin out of `w`. False: none.
bool placement_read_path(const placement_problem *p, uint32_t origin, const placement_work *w, placement_path *out);

// As placement_route, for a path that fits and serves so many sessions of one origin at once.
bool placement_route_bundle(const placement_problem *p, const placement_plan *plan, uint32_t session, uint32_t bundle,
                            placement_price price, bool may_place, placement_work *w, placement_path *out);

// Microseconds of a token, summed over all sessions. A session without a path counts PLACEMENT_UNSERVED.
#define PLACEMENT_UNSERVED 1e15
double placement_total_us(const placement_problem *p, const placement_plan *plan);

#endif
