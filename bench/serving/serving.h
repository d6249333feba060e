// Placement and routing of serving sessions on random swarms: instances, compared systems, optima.
#ifndef BRAID_BENCH_SERVING_SERVING_H
#define BRAID_BENCH_SERVING_SERVING_H

#include "placement/placement.h"

typedef enum serving_system {
    SERVING_NESA,        // Nesa eq. 18 with parameters from eq. 19 and 20 (arXiv 2407.19401), as printed
    SERVING_NESA_FIXED,  // the same with C/G, R = uptime, and the token's time as fitness
    SERVING_PETALS,      // greedy choice of blocks, shortest path (our own version)
    SERVING_HELIX,       // maximum flow, requests by weighted round robin (our own version, local search)
    SERVING_BRAID,
    SERVING_SYSTEMS
} serving_system;

const char *serving_system_name(serving_system system);

enum { SERVING_LAYERS = 32, SERVING_LEAST_PEERS = 6, SERVING_MOST_PEERS = 60 };

// A random swarm of 6 to 60 peers: 2 to 4 sites up to 85 ms apart, peers of a site up to 8 ms; 32
// layers; speeds within a factor of 16 (log-uniform); memory for 6 to 24 layers; as many sessions as
// peers, at 1 origin and one more per 20 peers; caches at 1,024 tokens of Llama-3-8B in 8 bits (1/52
// of a layer); an offered load of 5 to 35 % of what all peers compute. `peers` 0: random. Fewer layers
// scale the memory down with them.
void serving_make(uint64_t seed, uint32_t peers, uint32_t layers, placement_problem *p);

// Plans and routes with a system. Sessions without a path stay unserved.
void serving_plan(serving_system system, const placement_problem *p, uint32_t effort, uint64_t seed,
                  placement_plan *plan, placement_work *work);

void serving_nesa(const placement_problem *p, bool fixed, uint64_t seed, placement_plan *plan, placement_work *work);
void serving_petals_place(const placement_problem *p, placement_plan *plan);
void serving_petals(const placement_problem *p, placement_plan *plan, placement_work *work);
void serving_helix(const placement_problem *p, uint32_t effort, uint64_t seed, placement_plan *plan,
                   placement_work *work);

// ---- Nesa's Table 2 (n2)

typedef enum serving_model {
    SERVING_LLAMA_3_8B,
    SERVING_MIXTRAL_8X7B,
    SERVING_SMOLLM2_135M,
    SERVING_MODELS
} serving_model;

typedef struct serving_n2 {
    serving_model model;
    bool slow_link;           // RTT 10 ms and 100 Mbit/s instead of 5 ms and 1 Gbit/s
    bool small_shares;        // each peer lends memory for 10 layers at most
    uint32_t batch, context;  // rows of a step; tokens before it
} serving_n2;

const char *serving_model_name(serving_model model);
// Six peers, three of each speed, and a seventh, the client, that holds nothing. One session stands for
// the batch. n2.c states the inputs and their sources.
void serving_n2_make(const serving_n2 *c, placement_problem *p);

// ---- optimum by an integer program, for small swarms

typedef struct serving_optimum {
    bool ran, proven;
    double mean_us, bound_us;  // of the best plan found (0: none) and the solver's bound
} serving_optimum;

// GLPK with a time limit. ran: false if braid-bench has no GLPK. BRAID_MEMORY.
braid_err serving_optimum_find(const placement_problem *p, uint32_t seconds, serving_optimum *out, braid_error *error);

// ---- growing swarms, planned in views of bounded size

enum { SERVING_VIEW = 48 };

typedef struct serving_scale {
    uint32_t peers, views, sessions, served;
    double mean_us, steps;  // token time; examined hops and visits per peer
} serving_scale;

// Peers in the plane, the same density for each size. Each view holds the peers of one area, at most
// SERVING_VIEW, and plans its own sessions. BRAID_MEMORY.
braid_err serving_scale_run(uint32_t peers, uint32_t effort, uint64_t seed, serving_scale *out, braid_error *error);

#endif
