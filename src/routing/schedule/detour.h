// How long a tensor takes by way of somebody else: in pieces, of which the carrier sends one on while the next one comes.
#ifndef BRAID_ROUTING_DETOUR_H
#define BRAID_ROUTING_DETOUR_H

#include <stdbool.h>
#include <stdint.h>

// From what the whole tensor takes to the carrier and from there on, in any unit. The slower line is never idle, and the other
// one begins or ends a piece earlier.
static inline int64_t detour_time(int64_t there, int64_t on, uint32_t pieces) {
    int64_t slower = there > on ? there : on, faster = there > on ? on : there;
    return slower + faster / pieces;
}

// Worth the carrier's lines: at least a third less than the straight way, or an eighth where others go that way first.
static inline bool detour_pays(int64_t detour, int64_t straight, bool crowded) { return detour < straight - straight / (crowded ? 8 : 3); }

#endif
