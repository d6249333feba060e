// One relay of a quiet swarm dies: which peers send messages because of it?
#include "bench/routing/views.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

// distance of peers that carried the dead relay's units; others are 1 or more links away
enum { ON_PATH = 0 };

// Distances in links from one peer.
static void measure(const plan_problem *p, uint32_t from, uint32_t *distance) {
    uint32_t reached = 1;
    for (uint32_t i = 0; i < p->peers; i++) distance[i] = UINT32_MAX;
    distance[from] = 0;
    for (uint32_t d = 0; reached > 0; d++) {
        reached = 0;
        for (uint32_t l = 0; l < p->links; l++)
            for (int end = 0; end < 2; end++) {
                uint32_t a = end == 0 ? p->link[l].from : p->link[l].to, b = end == 0 ? p->link[l].to : p->link[l].from;
                if (distance[a] != d || distance[b] != UINT32_MAX) continue;
                distance[b] = d + 1;
                reached++;
            }
    }
}

// Marks all peers that units of this one may have passed, towards one end of the flow. A peer's
// units cannot be told apart, so all of their paths are followed.
static void follow(const plan_problem *p, const int64_t *flow, uint32_t peer, bool onward, uint32_t *distance) {
    for (uint32_t l = 0; l < p->links; l++) {
        uint32_t here = onward ? p->link[l].from : p->link[l].to, there = onward ? p->link[l].to : p->link[l].from;
        if (here != peer || flow[l] == 0 || distance[there] == ON_PATH) continue;
        distance[there] = ON_PATH;
        if (p->peer[there].stage != 0) follow(p, flow, there, onward, distance);
    }
}

static bool carries(const plan_problem *p, const int64_t *flow, uint32_t peer) {
    for (uint32_t l = 0; l < p->links; l++)
        if (p->link[l].from == peer && flow[l] > 0) return true;
    return false;
}

static void count(const plan_problem *p, uint32_t dead, const uint32_t *distance, const uint64_t *said,
                  views_distances *out) {
    for (uint32_t i = 0; i < p->peers; i++) {
        if (i == dead || distance[i] == UINT32_MAX) continue;
        uint32_t d = distance[i] < VIEWS_FAR ? distance[i] : VIEWS_FAR;
        uint64_t all = said[i] + said[p->peers + i];
        out->peers[d]++;
        out->messages[0][d] += said[i];
        out->messages[1][d] += all;
        out->silent[0][d] += said[i] == 0;
        out->silent[1][d] += all == 0;
    }
}

static braid_err crash(const routing_instance *instance, const routing_settings *settings, int64_t units,
                       uint32_t *distance, uint64_t *said, views_distances *out, braid_error *error) {
    const plan_problem *p = &instance->problem;
    rng r = {rng_seed(instance->seed, 11)};
    uint32_t dead = instance->sources + (uint32_t)rng_below(&r, p->peers - instance->sources);
    routing_change change = {.peer = &dead, .count = 1, .said = said};
    routing_result before, after;
    braid_err err = routing_run_change(instance, settings, &change, units, units, &before, &after, error);
    if (err) return err;
    out->runs++;
    out->hash = rng_seed(rng_seed(out->hash, before.hash), after.hash);
    if (!before.quiet || !before.end.whole || !carries(p, before.flow, dead)) {
        out->skipped++;
    } else {
        out->whole += after.whole >= 0;
        measure(p, dead, distance);
        follow(p, before.flow, dead, true, distance);
        follow(p, before.flow, dead, false, distance);
        count(p, dead, distance, said, out);
    }
    routing_result_close(&before);
    routing_result_close(&after);
    return BRAID_OK;
}

braid_err views_crash(const routing_instance *instance, const routing_settings *settings, int64_t units,
                      views_distances *out, braid_error *error) {
    uint32_t peers = instance->problem.peers;
    uint32_t *distance = calloc(peers, sizeof *distance);
    uint64_t *said = calloc((size_t)peers * 2, sizeof *said);
    braid_err err = BRAID_MEMORY;
    if (distance != NULL && said != NULL)
        err = crash(instance, settings, units, distance, said, out, error);
    else
        braid_fail(error, err, "no memory to watch %u peers", peers);
    free(distance);
    free(said);
    return err;
}
