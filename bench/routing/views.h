// Swarms with partial views: the links that gossip builds (src/routing/view), and the cost of the
// best flow over all links. For benchmarks and tests.
#ifndef BRAID_BENCH_ROUTING_VIEWS_H
#define BRAID_BENCH_ROUTING_VIEWS_H

#include "routing/view/view.h"
#include "bench/routing/routing.h"

enum {
    VIEWS_MAX_RELAYS = 20000,
    VIEWS_MAX_STAGES = 64,
    VIEWS_CAPACITY_LOW = 1,  // F7's: the floor of U(1, 3)
    VIEWS_CAPACITY_HIGH = 3,
};

typedef enum views_costs {
    // latencies between ten places, a detour of up to a tenth for each pair, and each peer's own
    // access
    VIEWS_WORLD,
    VIEWS_RANDOM,  // F7's: U(1, 20) for each pair, without structure
    VIEWS_COSTS
} views_costs;
const char *views_costs_name(views_costs costs);

typedef struct views_settings {
    uint32_t relays, stages, sources;
    views_costs costs;
    double demand;  // share of the narrowest stage's capacity
    uint64_t seed;
    // neighbours on each side of a relay; data peers take all of their two stages
    uint32_t links;
    uint32_t close;        // how many of them are the cheapest; 0: half
    uint32_t probes;       // 0: the view's default
    double loss;           // share of lost gossip messages
    int64_t limit_rounds;  // limit of the gossip
} views_settings;

// Peers in the order of a routing_instance: data peers, then stage by stage.
typedef struct views_swarm {
    views_settings settings;
    uint32_t peers;
    int64_t units;  // wanted, of all data peers together
    plan_peer *peer;
    uint32_t *place;
    int64_t *access;
    uint32_t *first;  // [stages + 2]: first peer of each stage
} views_swarm;

braid_err views_swarm_make(const views_settings *settings, views_swarm *out, braid_error *error);
void views_swarm_close(views_swarm *swarm);
// The cost of a link between two peers, the same in both directions, in 1/ROUTING_SCALE.
int64_t views_cost(const views_swarm *swarm, uint32_t a, uint32_t b);

// The cost of the cheapest flow of `swarm->units` over all links between neighbouring stages,
// exact. (A unit may end at any data peer; with several of them this is a bound.) Found on some
// links and proved on all: see views_optimum.c.
typedef struct views_optimum {
    int64_t units, cost;
    uint32_t solved_links;  // links of the last problem that was solved
    uint64_t all_links;
    uint32_t rounds;  // problems solved
} views_optimum;
braid_err views_optimum_find(const views_swarm *swarm, views_optimum *out, braid_error *error);

// The cheapest flow over the links of an instance, with the same meaning.
braid_err views_best(const routing_instance *instance, plan_answer *answer, braid_error *error);

// Messages after the death of one relay, by the distance of their sender from it in links (0: peers
// that carried its units): until all units had a path again, and until it was quiet.
enum { VIEWS_FAR = 6 };  // the last entry: this distance and more
typedef struct views_distances {
    uint32_t runs, skipped;  // skipped: not quiet before, or no unit passed through the relay
    uint32_t whole;
    uint64_t peers[VIEWS_FAR + 1];
    uint64_t messages[2][VIEWS_FAR + 1];  // until whole; until quiet
    uint64_t silent[2][VIEWS_FAR + 1];    // peers that sent no message
    uint64_t hash;
} views_distances;
// Adds one death to `out`: of a relay that carries units, drawn from the instance's seed.
braid_err views_crash(const routing_instance *instance, const routing_settings *settings, int64_t units,
                      views_distances *out, braid_error *error);

typedef struct views_gossip {
    plan_link *link;  // links that both ends agree on, from upstream to downstream, sorted; owned
    uint32_t links;
    uint32_t one_sided;   // links that only one end has
    uint32_t most_links;  // on one side of a relay
    int64_t rounds, last_change;
    uint64_t messages, bytes, changes;
    uint64_t by_kind[VIEW_KIND_COUNT];
    uint64_t source_messages;  // sent by data peers
    uint64_t hash;
} views_gossip;
braid_err views_gossip_run(const views_swarm *swarm, views_gossip *out, braid_error *error);
void views_gossip_close(views_gossip *out);

// A routing problem over these links; close it with routing_instance_close.
braid_err views_instance(const views_swarm *swarm, const views_gossip *gossip, routing_instance *out,
                         braid_error *error);

#endif
