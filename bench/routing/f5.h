// Placement of joining peers (GWTF, Table IV and Figure 5): a run of 97 peers gets 20 more, one after
// another. Each rule builds a run of its own from the same draws.
#ifndef BRAID_BENCH_ROUTING_F5_H
#define BRAID_BENCH_ROUTING_F5_H

#include "base/err.h"

#include <stdint.h>

enum { F5_TESTS = 5, F5_PEERS = 97, F5_JOINERS = 20 };

typedef enum f5_system {
    F5_OPTIMUM,   // each candidate in each stage, exact flow over all links
    F5_CAPACITY,  // the largest candidate, a random stage
    F5_RANDOM,    // a random candidate, a random stage
    F5_GWTF,      // the largest candidate, the most used stage
    F5_BRAID,     // the best flow on the leader's map, with the candidates' probes
    F5_SYSTEMS
} f5_system;
const char *f5_system_name(f5_system system);

typedef struct f5_result {
    int64_t before, after;     // cost of the cheapest flow
    uint64_t messages, bytes;  // sent for the placement of all joiners
} f5_result;

// `test` is 1 .. F5_TESTS.
braid_err f5_run(uint32_t test, uint64_t seed, f5_system system, f5_result *out, braid_error *error);

#endif
