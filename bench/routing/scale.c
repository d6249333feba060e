#include "bench/routing/scale.h"

#include "base/rng.h"
#include "bench/routing/scale_inside.h"

#include <stdio.h>
#include <stdlib.h>

static void draw_places(scale_map *m, const scale_spec *spec) {
    for (uint32_t i = 0; i < m->peers; i++) {
        rng r = {rng_seed(rng_seed(spec->seed, 7), i)};
        m->place[i].x = (int32_t)rng_below(&r, SCALE_SIDE * ROUTING_SCALE);
        m->place[i].y = (int32_t)rng_below(&r, SCALE_SIDE * ROUTING_SCALE);
        m->place[i].access = ROUTING_SCALE + (int32_t)rng_below(&r, (SCALE_MAX_ACCESS - 1) * ROUTING_SCALE + 1);
        m->place[i].capacity = 1 + (uint32_t)rng_below(&r, 2);
    }
}

// Draws peers by stage, the data peer first.
static void draw_peers(scale_map *m, const scale_spec *spec, plan_peer *peer, char (*name)[ROUTING_NAME]) {
    uint64_t fits = UINT64_MAX;
    snprintf(name[0], ROUTING_NAME, "d1");
    for (uint32_t s = 1; s <= SCALE_STAGES; s++) {
        uint64_t sum = 0;
        for (uint32_t i = m->first[s]; i < m->first[s + 1]; i++) {
            peer[i] = (plan_peer){s, m->place[i].capacity};
            sum += peer[i].capacity;
            snprintf(name[i], ROUTING_NAME, "r%u.%05u", s, i - m->first[s] + 1);
        }
        if (sum < fits) fits = sum;
    }
    peer[0] = (plan_peer){0, (uint32_t)(fits * spec->demand / 100)};
}

static int by_ends(const void *a, const void *b) {
    const plan_link *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static braid_err draw_links(scale_map *m, const scale_spec *spec, plan_problem *p) {
    for (uint32_t i = m->first[1]; i < m->first[2]; i++) scale_put_link(m, 0, i);
    for (uint32_t i = m->first[SCALE_STAGES]; i < m->first[SCALE_STAGES + 1]; i++) scale_put_link(m, i, 0);
    for (uint32_t s = 1; s < SCALE_STAGES; s++) {
        rng r = {rng_seed(rng_seed(spec->seed, 8), s)};
        if (!scale_join_stages(m, s, spec->neighbours, &r)) return BRAID_MEMORY;
    }
    qsort(m->link, m->links, sizeof *m->link, by_ends);
    p->link = m->link;
    p->links = m->links;
    return BRAID_OK;
}

static braid_err fill(const scale_spec *spec, routing_instance *out) {
    scale_map m = {.peers = spec->relays + 1};
    for (uint32_t s = 1; s <= SCALE_STAGES + 1; s++)
        m.first[s] = 1 + (uint32_t)((uint64_t)spec->relays * (s - 1) / SCALE_STAGES);
    size_t most = (size_t)m.peers * (spec->neighbours + 2);
    m.place = calloc(m.peers, sizeof *m.place);
    m.link = calloc(most, sizeof *m.link);
    plan_peer *peer = calloc(m.peers, sizeof *peer);
    out->name = calloc(m.peers, sizeof *out->name);
    out->sources = 1;
    out->problem = (plan_problem){peer, m.link, m.peers, 0, SCALE_STAGES};
    braid_err err = BRAID_MEMORY;
    if (m.place != NULL && m.link != NULL && peer != NULL && out->name != NULL) {
        draw_places(&m, spec);
        draw_peers(&m, spec, peer, out->name);
        err = draw_links(&m, spec, &out->problem);
    }
    free(m.place);
    return err;
}

braid_err scale_make(const scale_spec *spec, routing_instance *out, braid_error *error) {
    *out = (routing_instance){.seed = rng_seed(spec->seed, 9)};
    if (spec->relays < SCALE_STAGES || spec->relays > SCALE_MAX_RELAYS || spec->neighbours < 2 ||
        spec->neighbours > SCALE_MAX_NEIGHBOURS || spec->demand == 0 || spec->demand > 100)
        return braid_fail(error, BRAID_ARGUMENT,
                          "%u relays with %u neighbours a side and %u %% demand: relays are %d to %d, neighbours 2 to "
                          "%d, demand 1 to 100",
                          spec->relays, spec->neighbours, spec->demand, SCALE_STAGES, SCALE_MAX_RELAYS,
                          SCALE_MAX_NEIGHBOURS);
    braid_err err = fill(spec, out);
    if (!err) return BRAID_OK;
    routing_instance_close(out);
    return braid_fail(error, err, "no memory for an instance of %u relays", spec->relays);
}
