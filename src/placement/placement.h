// Placement and routing of sessions in a serving swarm, planned together (docs/placement.md).
//
// A peer holds contiguous layers of one model. The token of a session goes from its origin over
// spans that cover all layers in order, and straight back to the origin.
//
// Objective: the mean time of a token at a stated load. A peer is a processor-sharing queue (the
// law of continuous batching): a visit of `l` layers takes l * layer_us / (1 - u), where the
// utilisation u is load * row_us * rows_per_us, and the load is the sum of layers over the sessions
// that visit. So the time of all sessions at a peer is a convex function of its load alone.
//
// Pure, without allocation: the caller gives the memory. One problem is a view of bounded size.
#ifndef BRAID_PLACEMENT_PLACEMENT_H
#define BRAID_PLACEMENT_PLACEMENT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLACEMENT_MAX_PEERS = 64, PLACEMENT_MAX_LAYERS = 128, PLACEMENT_MAX_SESSIONS = 512, PLACEMENT_MAX_HOPS = 32 };
#define PLACEMENT_MAX_BUSY  0.95  // largest utilisation of a peer
#define PLACEMENT_MAX_VALUE 1e18  // largest time in microseconds and size in bytes

typedef struct placement_peer {
    double layer_us;      // measured time of one row, alone, through one layer
    double row_us;        // time that one more row of the same batch adds per layer
    double memory_bytes;  // for weights and caches
    double uptime;        // share of the time, 0 .. 1
} placement_peer;

typedef struct placement_problem {
    uint32_t peers, layers, sessions;
    placement_peer peer[PLACEMENT_MAX_PEERS];
    double hop_us[PLACEMENT_MAX_PEERS][PLACEMENT_MAX_PEERS];  // [from][to], latency and transfer of one row
    uint8_t origin[PLACEMENT_MAX_SESSIONS];                   // peer where the session's text is
    double layer_bytes;                                       // weights of one layer
    double cache_bytes;  // keys and values of one session in one layer, at its full length
    double rows_per_us;  // rows that a session sends: its tokens and its share of prompts
} placement_problem;

typedef struct placement_visit {
    uint8_t peer, begin, end;  // layers [begin, end)
} placement_visit;

typedef struct placement_path {
    uint8_t hops;  // 0: the session has no path
    placement_visit visit[PLACEMENT_MAX_HOPS];
} placement_path;

typedef struct placement_plan {
    uint8_t begin[PLACEMENT_MAX_PEERS], end[PLACEMENT_MAX_PEERS];  // equal: the peer holds no layer
    uint32_t load[PLACEMENT_MAX_PEERS];                            // layers, summed over the sessions that visit
    placement_path path[PLACEMENT_MAX_SESSIONS];
} placement_plan;

// Scratch of a search. Its content before a call has no meaning.
typedef struct placement_work {
    double cost[PLACEMENT_MAX_LAYERS + 1][PLACEMENT_MAX_PEERS];
    uint8_t entered[PLACEMENT_MAX_LAYERS + 1][PLACEMENT_MAX_PEERS];  // first layer of the visit that ends here
    uint8_t before[PLACEMENT_MAX_LAYERS + 1][PLACEMENT_MAX_PEERS];   // peer of the visit before, or the peer itself
    uint8_t low[PLACEMENT_MAX_PEERS], high[PLACEMENT_MAX_PEERS];     // layers that a search may use
    placement_plan saved, best, from;
    uint8_t reached[PLACEMENT_MAX_PEERS];  // peers with a walk to the layer at hand
    uint32_t bundle;                       // sessions that take the searched path together
    uint64_t steps;                        // examined hops and visits, summed over the calls: the cost of planning
} placement_work;

// Checks counts and that each figure is finite, not negative and within PLACEMENT_MAX_VALUE.
// BRAID_ARGUMENT or BRAID_LIMIT: `error` names the field.
braid_err placement_check(const placement_problem *p, braid_error *error);

// Microseconds of all sessions together, per token, at a peer with this load.
double placement_busy_us(const placement_problem *p, uint32_t peer, uint32_t load);

// True if the peer has memory for so many layers and that load, and is not busier than allowed.
bool placement_fits(const placement_problem *p, uint32_t peer, uint32_t layers, uint32_t load);

// No peer holds a layer, and no session has a path.
void placement_clear(placement_plan *plan);

// Adds or removes the loads of a session's path. Layers that peers hold are not changed.
void placement_add(placement_plan *plan, uint32_t session, const placement_path *path);
void placement_remove(placement_plan *plan, uint32_t session);

typedef struct placement_figures {
    uint32_t served;  // sessions with a path
    double mean_us;   // of a token, over the served sessions; 0 if there is none
    double hops;      // mean number of spans in a path
    double busiest;   // largest utilisation
} placement_figures;

// The figures of a plan. BRAID_STATE: the plan is not valid (a path does not cover all layers in
// order, visits a peer twice, or a peer lacks layers, memory or time); `error` says where.
braid_err placement_measure(const placement_problem *p, const placement_plan *plan, placement_figures *out,
                            braid_error *error);

typedef enum placement_price {
    PLACEMENT_MARGINAL,  // a visit costs its own time and the time that it takes from other sessions
    PLACEMENT_ALONE,     // a visit costs its time at an idle peer
} placement_price;

// Finds the cheapest path of a session. `may_place`: peers may take further layers for it, as far as
// their memory goes; otherwise only layers that are held are used. False: there is no path.
bool placement_route(const placement_problem *p, const placement_plan *plan, uint32_t session, placement_price price,
                     bool may_place, placement_work *work, placement_path *out);

// Lets each peer of the path hold the path's layers, too.
void placement_hold(placement_plan *plan, const placement_path *path);

// Routes every session over the layers that `plan` holds, and routes each again until no change
// saves time (at most `rounds` rounds). Sessions without room stay without a path.
void placement_route_all(const placement_problem *p, placement_plan *plan, uint32_t rounds, placement_work *work);

// Plans layers and paths together: each session takes the path of least marginal time; then `effort`
// times some peers and sessions are planned anew and the plan is kept if it is better. Repeatable: a
// seed has one result. `plan` is where the search starts (placement_clear: from nothing). Peers that
// no session needs hold no layer in the result.
void placement_plan_best(const placement_problem *p, uint32_t effort, uint64_t seed, placement_plan *plan,
                         placement_work *work);

// A lower bound of the mean time of a token over all plans in which every session is served, by
// Lagrangian relaxation: each session takes its cheapest path at prices per layer, and each peer
// chooses its load at those prices. Every price vector gives a valid bound; `rounds` subgradient
// steps raise it. `target_us` is the mean of a known plan (for the step size).
double placement_bound(const placement_problem *p, double target_us, uint32_t rounds, placement_work *work);

// ---- rebalancing: S x P -> S'

enum { PLACEMENT_MAX_MOVES = 2 * PLACEMENT_MAX_PEERS };

// One peer fetches layers and then holds [begin, end). Layers that it held and that are outside are
// dropped after the fetch.
typedef struct placement_move {
    uint8_t peer, begin, end;
    uint8_t fetched;  // layers to fetch
} placement_move;

typedef struct placement_moves {
    uint32_t count, fetched;
    bool complete;  // false: the peers that remain cannot move without leaving a layer uncovered
    placement_move move[PLACEMENT_MAX_MOVES];
} placement_moves;

// Orders the changes from one placement to another so that after each one every layer that `from`
// covers is still held by a peer. A peer that can hold its old and new layers together does so before
// others drop theirs. Among the possible moves the one that fetches least comes first.
void placement_order_moves(const placement_problem *p, const placement_plan *from, const placement_plan *to,
                           placement_moves *out);

// Plans again from `plan` when peers or the load have changed. Objective: the mean time of a token plus
// `fetch_us` for each layer that a peer fetches, so a layer moves only where it saves more than that.
void placement_rebalance(const placement_problem *p, double fetch_us, uint32_t effort, uint64_t seed,
                         placement_plan *plan, placement_work *work);

// Layers that the peer holds in `to` and not in `from`.
uint32_t placement_fetched(const placement_plan *from, const placement_plan *to, uint32_t peer);

// Start of the range of `layers` layers with the weakest service: the lowest rate of its weakest layer
// over the other peers, then the lowest sum of rates. Petals' servers choose blocks by this rule.
uint32_t placement_choose_start(const placement_problem *p, const placement_plan *plan, uint32_t peer, uint32_t layers);

// Peers that hold no layer take as many as fit, by placement_choose_start: substitutes for repair.
void placement_fill_spare(const placement_problem *p, placement_plan *plan);

#endif
