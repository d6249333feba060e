// The routing algorithms by number. This file and mincost_router.c join the folders of the module; no
// folder knows this file.
#include "base/err.h"
#include "routing/gwtf/gwtf.h"
#include "routing/plan/mincost_planner.h"

// SWARM is the min-cost ledger without labels and commits (mincost.greedy).
static const router_rules *const rules[ROUTER_ALGORITHMS] = {
    [ROUTER_MINCOST] = &mincost_rules, [ROUTER_GWTF] = &gwtf_rules, [ROUTER_SWARM] = &mincost_rules};

size_t router_bytes(const router_config *config) {
    return router_config_is_valid(config) ? router_bytes_for(rules[config->algorithm], config) : 0;
}

router *router_init(void *memory, const router_config *config, int64_t now) {
    BRAID_ASSERT(router_config_is_valid(config));
    return router_init_for(rules[config->algorithm], memory, config, now);
}
