// Shared by the files of the large instances.
#ifndef BRAID_BENCH_ROUTING_SCALE_INSIDE_H
#define BRAID_BENCH_ROUTING_SCALE_INSIDE_H

#include "base/rng.h"
#include "bench/routing/scale.h"

typedef struct scale_place {
    int32_t x, y, access;  // in 1/ROUTING_SCALE of cost
    uint32_t capacity;
} scale_place;

typedef struct scale_map {
    uint32_t peers, links;
    uint32_t first[SCALE_STAGES + 2];  // stage s: peers first[s] .. first[s + 1] - 1
    scale_place *place;
    plan_link *link;
} scale_map;

int64_t scale_cost(const scale_map *m, uint32_t a, uint32_t b);
void scale_put_link(scale_map *m, uint32_t from, uint32_t to);
// Adds all links from stage `s` to the next one; false without memory.
bool scale_join_stages(scale_map *m, uint32_t s, uint32_t neighbours, rng *r);

#endif
