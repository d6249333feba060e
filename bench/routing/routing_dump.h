// Routing instances and flows as JSON, for independent checks.
#ifndef BRAID_BENCH_ROUTING_ROUTING_DUMP_H
#define BRAID_BENCH_ROUTING_ROUTING_DUMP_H

#include "bench/routing/routing.h"

// A system's flow on an instance. All borrowed.
typedef struct routing_found {
    const char *system;
    const int64_t *flow;  // [sources][links]
    uint64_t messages, bytes, rounds;
} routing_found;

// {"peers":[{"name","stage","capacity","source"}],"links":[{"from","to","cost"}],
// "systems":{NAME:{"paths":[[names, data peer to data peer]],"messages","bytes","rounds"}}}
// A data peer's capacity is the number of units that it wants to send. A path that does not end at
// a data peer breaks off at its last name.
braid_err routing_dump(const routing_instance *instance, const routing_found *found, uint32_t count, const char *path,
                       braid_error *error);

#endif
