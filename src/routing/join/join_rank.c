// The published rule of placement (GWTF, section V-B).
#include "routing/join/join.h"

// A stage without capacity has no ratio: it is the bottleneck of everything.
static bool is_more_used(const join_stage *a, const join_stage *b) {
    if (a->capacity == 0 || b->capacity == 0) return a->capacity == 0 && b->capacity != 0;
    return (unsigned __int128)a->flows * b->capacity > (unsigned __int128)b->flows * a->capacity;
}

void join_rank_stages(const join_stage *stage, uint16_t stages, uint16_t *order) {
    for (uint16_t s = 1; s < stages; s++) {
        uint16_t at = (uint16_t)(s - 1);
        for (; at > 0 && is_more_used(&stage[s], &stage[order[at - 1]]); at--) order[at] = order[at - 1];
        order[at] = s;
    }
}

void join_assign(const join_stage *stage, uint16_t stages, const uint32_t *capacity, uint32_t candidates,
                 uint16_t *assigned) {
    uint16_t order[JOIN_MAX_STAGES];
    if (stages > JOIN_MAX_STAGES) stages = JOIN_MAX_STAGES;
    join_rank_stages(stage, stages, order);
    for (uint32_t i = 0; i < candidates; i++) {
        uint32_t larger = 0;
        for (uint32_t k = 0; k < candidates; k++)
            larger += capacity[k] > capacity[i] || (capacity[k] == capacity[i] && k < i);
        assigned[i] = larger + 1u < stages ? order[larger] : 0;
    }
}
