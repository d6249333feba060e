// The swarms of the experiment with partial views: the places of peers, and the cost of a link
// between two peers.
#include "bench/routing/views.h"

#include "base/rng.h"
#include "sim/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_PLACE = 1, DRAW_ACCESS, DRAW_CAPACITY, DRAW_PAIR };

const char *views_costs_name(views_costs costs) { return costs == VIEWS_WORLD ? "world" : "random"; }

static rng draw(const views_swarm *s, uint64_t what, uint64_t a, uint64_t b) {
    uint64_t seed = rng_seed(rng_seed(s->settings.seed, s->settings.relays), what);
    return (rng){rng_seed(rng_seed(seed, a), b)};
}

int64_t views_cost(const views_swarm *s, uint32_t a, uint32_t b) {
    rng r = draw(s, DRAW_PAIR, a < b ? a : b, a < b ? b : a);
    if (s->settings.costs == VIEWS_RANDOM) return (int64_t)(1 + rng_below(&r, 19)) * ROUTING_SCALE;
    int64_t latency = place_latency_ns(s->place[a], s->place[b]) / (1000000 / ROUTING_SCALE);
    int64_t detour = (int64_t)rng_below(&r, (uint64_t)(latency / 10 + ROUTING_SCALE));
    return latency + detour + s->access[a] + s->access[b];
}

static void place_peers(views_swarm *s) {
    const views_settings *t = &s->settings;
    for (uint32_t i = 0, stage = 0; i < s->peers; i++) {
        while (i == s->first[stage + 1]) stage++;
        rng place = draw(s, DRAW_PLACE, i, 0), access = draw(s, DRAW_ACCESS, i, 0), room = draw(s, DRAW_CAPACITY, i, 0);
        s->place[i] = (uint32_t)rng_below(&place, place_count());
        if (t->costs == VIEWS_WORLD) s->access[i] = ROUTING_SCALE + (int64_t)rng_below(&access, 19 * ROUTING_SCALE);
        s->peer[i] = (plan_peer){stage, VIEWS_CAPACITY_LOW +
                                            (uint32_t)rng_below(&room, VIEWS_CAPACITY_HIGH - VIEWS_CAPACITY_LOW)};
    }
    uint64_t fits = UINT64_MAX;
    for (uint32_t stage = 1; stage <= t->stages; stage++) {
        uint64_t sum = 0;
        for (uint32_t i = s->first[stage]; i < s->first[stage + 1]; i++) sum += s->peer[i].capacity;
        if (sum < fits) fits = sum;
    }
    uint32_t each = (uint32_t)((double)fits * t->demand) / t->sources;
    for (uint32_t i = 0; i < t->sources; i++) s->peer[i].capacity = each;
    s->units = (int64_t)each * t->sources;
}

braid_err views_swarm_make(const views_settings *t, views_swarm *out, braid_error *error) {
    *out = (views_swarm){.settings = *t, .peers = t->sources + t->relays};
    if (t->stages == 0 || t->stages > VIEWS_MAX_STAGES || t->relays < t->stages || t->relays > VIEWS_MAX_RELAYS ||
        t->sources == 0 || t->sources > ROUTER_MAX_SOURCES)
        return braid_fail(
            error, BRAID_ARGUMENT,
            "%u relays in %u stages and %u data peers: 1 to %d stages with a relay each, at most %d relays "
            "and 1 to %d data peers are simulated",
            t->relays, t->stages, t->sources, VIEWS_MAX_STAGES, VIEWS_MAX_RELAYS, ROUTER_MAX_SOURCES);
    out->peer = calloc(out->peers, sizeof *out->peer);
    out->place = calloc(out->peers, sizeof *out->place);
    out->access = calloc(out->peers, sizeof *out->access);
    out->first = calloc(t->stages + 2, sizeof *out->first);
    if (out->peer == NULL || out->place == NULL || out->access == NULL || out->first == NULL) {
        views_swarm_close(out);
        return braid_fail(error, BRAID_MEMORY, "no memory for a swarm of %u relays", t->relays);
    }
    out->first[1] = t->sources;
    for (uint32_t s = 1; s <= t->stages; s++)
        out->first[s + 1] = out->first[s] + t->relays / t->stages + (s <= t->relays % t->stages);
    place_peers(out);
    return BRAID_OK;
}

void views_swarm_close(views_swarm *s) {
    free(s->peer);
    free(s->place);
    free(s->access);
    free(s->first);
    *s = (views_swarm){0};
}

static void name_peers(const views_swarm *s, routing_instance *out) {
    for (uint32_t i = 0; i < s->peers; i++) {
        uint8_t stage = (uint8_t)s->peer[i].stage;
        uint16_t place = (uint16_t)(i - s->first[stage] + 1);
        if (stage == 0)
            snprintf(out->name[i], ROUTING_NAME, "d%u", place);
        else
            snprintf(out->name[i], ROUTING_NAME, "r%u.%04u", stage, place);
    }
}

braid_err views_instance(const views_swarm *s, const views_gossip *gossip, routing_instance *out, braid_error *error) {
    plan_peer *peer = calloc(s->peers, sizeof *peer);
    plan_link *link = calloc(gossip->links + 1, sizeof *link);
    *out = (routing_instance){.problem = {peer, link, s->peers, gossip->links, s->settings.stages},
                              .name = calloc(s->peers, sizeof *out->name),
                              .sources = s->settings.sources,
                              .seed = rng_seed(s->settings.seed, s->settings.relays)};
    if (peer == NULL || link == NULL || out->name == NULL) {
        routing_instance_close(out);
        return braid_fail(error, BRAID_MEMORY, "no memory for an instance of %u peers", s->peers);
    }
    memcpy(peer, s->peer, s->peers * sizeof *peer);
    memcpy(link, gossip->link, gossip->links * sizeof *link);
    name_peers(s, out);
    return BRAID_OK;
}
