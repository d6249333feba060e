// A serving swarm in memory on a virtual clock: the peers of src/session with links, computing times
// and texts, driven by one queue of events and one seed. Processes crash, restart, are paused and
// drain; links fall; the network is cut; caches are full; sessions are cancelled.
//
// The model is a chain of hashes: a layer's output for a token is a hash of the layer and of all
// inputs of that layer so far. So a cache with a wrong, missing or doubled row changes every later
// token.
//
// Checked at every event: each text equals the undisturbed one, token by token; no host rule of
// session.h is broken; kept rows and caches are within their bounds. Checked afterwards, when all
// faults are over: every text of a living origin is finished in time, and nothing is left of it.
#ifndef BRAID_SIM_SESSION_SIM_H
#define BRAID_SIM_SESSION_SIM_H

#include "session/session.h"

#include <stdio.h>

typedef struct session_sim_result {
    bool failed;
    char why[512];
    uint64_t events, messages, virtual_ns;
    uint64_t crashes, window_deaths, pauses, falls, cuts, drains, cancels, reroutes, slow, moves;
    uint64_t texts, finished, lost;  // lost: with their origin
    uint64_t tokens, refused_drafts;
    uint64_t repairs, refused, replayed_rows, recomputed_rows, imported_rows, adopted;
    uint64_t longest_wait_ns;  // between two tokens of a text
} session_sim_result;

// Beside the faults of each schedule.
typedef enum session_sim_mode {
    SESSION_SIM_FAULTS,
    SESSION_SIM_WINDOWS,  // all texts have drafts, and spans die while a window of them is on its way
} session_sim_mode;

// Runs the schedule of `seed` to its end or to the first violation. `trace` receives a line for each
// event, or is NULL.
void session_sim_run(uint64_t seed, session_sim_mode mode, uint64_t mutants, FILE *trace, session_sim_result *result);

#endif
