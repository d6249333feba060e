// Places of the world and the network between them, for experiments with peers in many regions.
#ifndef BRAID_SIM_PLACES_H
#define BRAID_SIM_PLACES_H

#include <stdint.h>

// Places are numbered from 0 to place_count() - 1; the order never changes.
uint32_t place_count(void);
const char *place_name(uint32_t place);

// Between two peers at these places, the same in both directions; a == b: both at one place. The
// latency is one way, as in the papers, although figures of this size are round trips on the real
// internet.
int64_t place_latency_ns(uint32_t a, uint32_t b);
int64_t place_bandwidth_bps(uint32_t a, uint32_t b);

// The bandwidth mapped linearly from the table's range (slowest to fastest pair of different
// places) to low .. high, as in GWTF's experiments; inside one place `high`.
int64_t place_scaled_bps(uint32_t a, uint32_t b, int64_t low, int64_t high);

#endif
