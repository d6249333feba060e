// The gain of a joiner as the cost of the flow on the map of the run.
#include "routing/join/join.h"
#include "routing/plan/single_source.h"

// The planner numbers peers from 1; the candidate is behind all of the map.
typedef struct join_problem {
    const join_map *map;
    const join_candidate *candidate;
    uint16_t stage;
    single_source *plan;
} join_problem;

size_t join_flow_bytes(uint32_t peers, uint32_t links) { return single_source_bytes(peers + 1, links); }

static uint16_t next_stage(const join_map *map, uint16_t stage) { return (uint16_t)((stage + 1) % map->stages); }

static void add_link(const join_problem *j, uint32_t to, int64_t cost) {
    if (cost >= 0 && cost <= ROUTER_MAX_COST) single_source_add_link(j->plan, to + 1, cost);
}

static void add_links(const join_problem *j, uint32_t from) {
    const join_map *map = j->map;
    uint16_t after = next_stage(map, map->peer[from].stage);
    for (uint32_t to = 0; to < map->peers; to++)
        if (map->peer[to].stage == after) add_link(j, to, map->cost(map->context, from, to));
    if (j->candidate == NULL || j->stage != after) return;
    for (uint32_t i = 0; i < j->candidate->probes; i++)
        if (j->candidate->probe[i].peer == from) add_link(j, map->peers, j->candidate->probe[i].cost);
}

static void add_candidate(const join_problem *j) {
    const join_map *map = j->map;
    single_source_add_peer(j->plan, map->peers + 1, j->candidate->capacity);
    for (uint32_t i = 0; i < j->candidate->probes; i++) {
        const join_probe *probe = &j->candidate->probe[i];
        if (probe->peer < map->peers && map->peer[probe->peer].stage == next_stage(map, j->stage))
            add_link(j, probe->peer, probe->cost);
    }
}

join_flow join_flow_with(const join_map *map, const join_candidate *candidate, uint16_t stage, void *memory,
                         uint32_t links) {
    join_problem j = {map, candidate, stage, single_source_init(memory, map->peers + 1, links)};
    single_source_clear(j.plan, 1, map->peer[0].capacity);
    for (uint32_t from = 0; from < map->peers; from++) {
        single_source_add_peer(j.plan, from + 1, map->peer[from].capacity);
        add_links(&j, from);
    }
    if (candidate != NULL) add_candidate(&j);
    join_flow flow = {.units = single_source_solve(j.plan)};
    flow.cost = single_source_cost(j.plan);
    return flow;
}

bool join_flow_is_better(const join_flow *a, const join_flow *b) {
    return a->units > b->units || (a->units == b->units && a->cost < b->cost);
}

join_choice join_choose(const join_map *map, const join_candidate *candidate, uint32_t candidates, void *memory,
                        uint32_t links) {
    join_choice best = {.stage = 0};
    for (uint32_t c = 0; c < candidates; c++)
        for (uint16_t s = 1; s < map->stages; s++) {
            join_flow flow = join_flow_with(map, &candidate[c], s, memory, links);
            if (best.stage != 0 && !join_flow_is_better(&flow, &best.flow)) continue;
            best = (join_choice){c, s, flow};
        }
    return best;
}
