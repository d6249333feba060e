// Instances in which nobody knows everybody.
#include "base/rng.h"
#include "sim/routing.h"

#include <stdlib.h>

typedef struct candidate {
    uint64_t rank;  // of those kept for their cost, then of those drawn
    uint32_t link;
} candidate;

static int compare_candidates(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->link < y->link ? -1 : x->link > y->link;
}

// The links first .. first + count - 1 leave one relay; marks those that stay.
static void choose(const routing_instance *i, uint32_t first, uint32_t count, uint32_t views, candidate *scratch,
                   bool *stays) {
    const plan_link *link = i->problem.link;
    uint32_t near = views / 2;
    for (uint32_t l = 0; l < count; l++) scratch[l] = (candidate){(uint64_t)link[first + l].cost, first + l};
    qsort(scratch, count, sizeof *scratch, compare_candidates);
    rng r = {rng_seed(rng_seed(i->seed, 8), link[first].from)};
    for (uint32_t l = near; l < count; l++) scratch[l].rank = rng_next(&r);
    if (count > near) qsort(scratch + near, count - near, sizeof *scratch, compare_candidates);
    for (uint32_t l = 0; l < count && l < views; l++) stays[scratch[l].link] = true;
}

static void mark(const routing_instance *i, uint32_t views, candidate *scratch, bool *stays) {
    const plan_problem *p = &i->problem;
    uint32_t next = 0;
    for (uint32_t first = 0; first < p->links; first = next) {
        next = first;
        while (next < p->links && p->link[next].from == p->link[first].from) next++;
        bool all = p->peer[p->link[first].from].stage == 0 || p->peer[p->link[first].to].stage == 0;
        if (!all) choose(i, first, next - first, views, scratch, stays);
        for (uint32_t l = first; all && l < next; l++) stays[l] = true;
    }
}

braid_err routing_thin(routing_instance *instance, uint32_t views, braid_error *error) {
    plan_problem *p = &instance->problem;
    plan_link *link = (plan_link *)(uintptr_t)p->link;
    candidate *scratch = calloc(p->links + 1, sizeof *scratch);
    bool *stays = calloc(p->links + 1, sizeof *stays);
    braid_err err = BRAID_OK;
    if (scratch == NULL || stays == NULL) {
        err = braid_fail(error, BRAID_MEMORY, "no memory to thin out %u links", p->links);
    } else {
        mark(instance, views, scratch, stays);
        uint32_t kept = 0;
        for (uint32_t l = 0; l < p->links; l++)
            if (stays[l]) link[kept++] = link[l];
        p->links = kept;
    }
    free(scratch);
    free(stays);
    return err;
}
