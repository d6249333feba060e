// F7's instances, and the sorting by name of every instance.
#include "base/rng.h"
#include "bench/routing/routing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const routing_f7 routing_f7_tests[ROUTING_TESTS] = {
    {1, 40, 8, 1, 3, 1, 20},   // 1
    {1, 40, 10, 1, 3, 1, 20},  // 2
    {1, 40, 8, 5, 15, 1, 20},  // 3
    {1, 40, 8, 1, 3, 5, 100},  // 4
    {2, 40, 8, 1, 3, 1, 20},   // 5
    {4, 80, 8, 1, 3, 1, 20},   // 6
};

typedef struct listed_peer {
    char name[ROUTING_NAME];
    plan_peer peer;
    uint32_t listed;  // its place in the listing
} listed_peer;

// Peers and links in their listed order.
typedef struct listing {
    listed_peer *peer;
    plan_link *link;
    uint32_t peers, links, stages;
} listing;

static uint64_t hash_name(const char *name) {
    uint64_t h = 0;
    for (; *name != 0; name++) h = rng_seed(h, (uint8_t)*name);
    return h;
}

// The floor of a uniform number in [low, high).
static uint32_t draw(uint64_t seed, const char *a, const char *b, uint32_t low, uint32_t high) {
    rng r = {rng_seed(rng_seed(seed, hash_name(a)), hash_name(b))};
    return low + (uint32_t)rng_below(&r, high - low);
}

static void shuffle_peers(listing *l, rng *r) {
    for (uint32_t i = l->peers; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(r, i);
        listed_peer t = l->peer[i - 1];
        l->peer[i - 1] = l->peer[j];
        l->peer[j] = t;
    }
}

static void shuffle_links(listing *l, rng *r) {
    for (uint32_t i = l->links; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(r, i);
        plan_link t = l->link[i - 1];
        l->link[i - 1] = l->link[j];
        l->link[j] = t;
    }
}

static void list_peers(listing *l, const routing_f7 *t, uint64_t seed) {
    for (uint32_t i = 0; i < l->peers; i++) {
        listed_peer *p = &l->peer[i];
        if (i < t->sources) {
            snprintf(p->name, sizeof p->name, "d%u", i + 1);
            continue;
        }
        uint32_t relay = i - t->sources;
        p->peer.stage = 1 + relay % t->stages;
        snprintf(p->name, sizeof p->name, "r%u.%u", p->peer.stage, 1 + relay / t->stages);
        p->peer.capacity = draw(seed, p->name, "capacity", t->capacity_low, t->capacity_high);
    }
}

// Data peers can send what fits through the narrowest stage; equal demands share it.
static void set_demands(listing *l, uint32_t sources, routing_demand demand) {
    uint64_t fits = UINT64_MAX;
    for (uint32_t stage = 1; stage <= l->stages; stage++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < l->peers; i++) sum += l->peer[i].peer.stage == stage ? l->peer[i].peer.capacity : 0;
        if (sum < fits) fits = sum;
    }
    for (uint32_t i = 0; i < l->peers; i++)
        if (l->peer[i].peer.stage == 0)
            l->peer[i].peer.capacity = (uint32_t)(demand == ROUTING_EQUAL ? fits / sources : fits);
}

static void list_links(listing *l, const routing_f7 *t, uint64_t seed) {
    for (uint32_t i = 0; i < l->peers; i++)
        for (uint32_t j = 0; j < l->peers; j++) {
            uint32_t next = (l->peer[i].peer.stage + 1) % (t->stages + 1);
            if (l->peer[j].peer.stage != next) continue;
            uint32_t cost = draw(seed, l->peer[i].name, l->peer[j].name, t->cost_low, t->cost_high);
            l->link[l->links++] = (plan_link){i, j, (int64_t)cost * ROUTING_SCALE};
        }
}

static int compare_peers(const void *a, const void *b) {
    const listed_peer *x = a, *y = b;
    if (x->peer.stage != y->peer.stage) return x->peer.stage < y->peer.stage ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_links(const void *a, const void *b) {
    const plan_link *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static braid_err sort_instance(listing *l, routing_instance *out) {
    uint32_t *place = calloc(l->peers, sizeof *place);
    plan_peer *peer = calloc(l->peers, sizeof *peer);
    out->name = calloc(l->peers, sizeof *out->name);
    out->problem = (plan_problem){peer, l->link, l->peers, l->links, l->stages};
    if (place == NULL || peer == NULL || out->name == NULL) {
        free(place);
        return BRAID_MEMORY;
    }
    for (uint32_t i = 0; i < l->peers; i++) l->peer[i].listed = i;
    qsort(l->peer, l->peers, sizeof *l->peer, compare_peers);
    for (uint32_t i = 0; i < l->peers; i++) {
        place[l->peer[i].listed] = i;
        peer[i] = l->peer[i].peer;
        memcpy(out->name[i], l->peer[i].name, ROUTING_NAME);
        out->sources += peer[i].stage == 0;
    }
    for (uint32_t i = 0; i < l->links; i++)
        l->link[i] = (plan_link){place[l->link[i].from], place[l->link[i].to], l->link[i].cost};
    qsort(l->link, l->links, sizeof *l->link, compare_links);
    free(place);
    return BRAID_OK;
}

// `seed` is the instance's own.
static braid_err draw_instance(const routing_f7 *t, uint64_t seed, routing_demand demand, uint64_t order, routing_instance *out,
                               braid_error *error) {
    *out = (routing_instance){.seed = seed};
    uint32_t peers = t->sources + t->relays;
    listing l = {.peer = calloc(peers, sizeof *l.peer),
                 .peers = peers,
                 .stages = t->stages,
                 .link = calloc((size_t)peers * peers, sizeof *l.link)};
    rng r = {rng_seed(order, 0)};
    braid_err err = BRAID_MEMORY;
    if (l.peer != NULL && l.link != NULL) {
        list_peers(&l, t, out->seed);
        set_demands(&l, t->sources, demand);
        if (order != 0) shuffle_peers(&l, &r);
        list_links(&l, t, out->seed);
        if (order != 0) shuffle_links(&l, &r);
        err = sort_instance(&l, out);
    }
    free(l.peer);
    if (out->problem.link == NULL) free(l.link);
    if (err) {
        routing_instance_close(out);
        return braid_fail(error, err, "no memory for an instance of %u peers", peers);
    }
    return BRAID_OK;
}

braid_err routing_f7_make(uint32_t test, uint64_t seed, routing_demand demand, uint64_t order, routing_instance *out,
                          braid_error *error) {
    *out = (routing_instance){0};
    if (test < 1 || test > ROUTING_TESTS)
        return braid_fail(error, BRAID_ARGUMENT, "F7 has tests 1 to %d, not %u", ROUTING_TESTS, test);
    return draw_instance(&routing_f7_tests[test - 1], rng_seed(seed, test), demand, order, out, error);
}

void routing_instance_close(routing_instance *instance) {
    free((void *)(uintptr_t)instance->problem.peer);
    free((void *)(uintptr_t)instance->problem.link);
    free(instance->name);
    *instance = (routing_instance){0};
}
