// Petals' placement and routing in our own version (arXiv 2209.01188, section 3.2): a server takes the
// consecutive blocks with the lowest throughput, and moves when that has changed; a client takes the
// path of least time over the servers with room. Servers keep a fifth of their memory for caches.
#include "bench/serving/serving.h"

enum { PASSES = 3 };
static const double for_weights = 0.8;

void serving_petals_place(const placement_problem *p, placement_plan *plan) {
    for (uint32_t pass = 0; pass < PASSES; pass++)
        for (uint32_t i = 0; i < p->peers; i++) {
            double room = for_weights * p->peer[i].memory_bytes / p->layer_bytes;
            uint32_t layers = room < p->layers ? (uint32_t)room : p->layers;
            plan->begin[i] = plan->end[i] = 0;
            if (layers == 0) continue;
            uint32_t start = placement_choose_start(p, plan, i, layers);
            plan->begin[i] = (uint8_t)start;
            plan->end[i] = (uint8_t)(start + layers);
        }
}

void serving_petals(const placement_problem *p, placement_plan *plan, placement_work *work) {
    serving_petals_place(p, plan);
    for (uint32_t s = 0; s < p->sessions; s++) {
        placement_path path;
        if (placement_route(p, plan, s, PLACEMENT_ALONE, false, work, &path)) placement_add(plan, s, &path);
    }
}
