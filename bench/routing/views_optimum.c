// The cheapest flow over all links of a large swarm. Few of 1.7 million links are used, so the
// problem is solved on some links and the answer is proved on all. The potentials of a cheapest
// flow give every link a reduced cost, and a flow is cheapest on all links exactly when no excluded
// link has a negative one. Excluded links with a negative reduced cost are added, and the problem
// is solved again (column generation). Costs are integers, so the proof has no tolerance.
#include "bench/routing/views.h"

#include "plan/min_cost.h"

#include <stdlib.h>
#include <string.h>

enum {
    PER_PEER = 8,       // links that one peer adds at a time, on each side
    MOST_ROUNDS = 200,  // each round adds at least one link
    UNSENT_COST = 1 << 30,     // cost of an unsent unit: more than any path costs
};

typedef struct columns {
    const views_swarm *swarm;
    plan_arc *arc;  // inner arcs, those of data peers, the arc for unsent units, then links
    uint32_t arcs, fixed, room;
    uint64_t *there;    // bit of each included link
    size_t *first_bit;  // first bit of the links from a stage to the next
    bool failed;
} columns;

typedef struct pick {
    int64_t value;
    uint32_t from, to;
} pick;

static uint32_t in_of(uint32_t peer) { return 2 * peer; }
static uint32_t out_of(uint32_t peer) { return 2 * peer + 1; }
static uint32_t next_stage(const views_swarm *s, uint32_t stage) { return stage == s->settings.stages ? 0 : stage + 1; }
static uint32_t width(const views_swarm *s, uint32_t stage) { return s->first[stage + 1] - s->first[stage]; }

static void add_arc(columns *c, plan_arc arc) {
    if (c->arcs == c->room) {
        uint32_t room = c->room * 2 + 1024;
        plan_arc *larger = realloc(c->arc, room * sizeof *larger);
        c->failed |= larger == NULL;
        if (larger == NULL) return;
        c->arc = larger;
        c->room = room;
    }
    c->arc[c->arcs++] = arc;
}

static void add_fixed(columns *c) {
    const views_swarm *s = c->swarm;
    uint32_t source = 2 * s->peers, sink = source + 1;
    for (uint32_t i = 0; i < s->peers; i++) {
        int64_t room = s->peer[i].capacity;
        if (s->peer[i].stage != 0) {
            add_arc(c, (plan_arc){in_of(i), out_of(i), room, 0, 0});
            continue;
        }
        add_arc(c, (plan_arc){source, out_of(i), room, 0, 0});
        add_arc(c, (plan_arc){in_of(i), sink, room, 0, 0});
    }
    add_arc(c, (plan_arc){source, sink, s->units, UNSENT_COST, 0});
    c->fixed = c->arcs;
}

static size_t bit_of(const columns *c, uint32_t from, uint32_t to) {
    const views_swarm *s = c->swarm;
    uint32_t stage = s->peer[from].stage, next = next_stage(s, stage);
    return c->first_bit[stage] + (size_t)(from - s->first[stage]) * width(s, next) + (to - s->first[next]);
}

static void add_link(columns *c, uint32_t from, uint32_t to) {
    const views_swarm *s = c->swarm;
    size_t bit = bit_of(c, from, to);
    if ((c->there[bit / 64] >> bit % 64 & 1) != 0) return;
    c->there[bit / 64] |= (uint64_t)1 << bit % 64;
    int64_t a = s->peer[from].capacity, b = s->peer[to].capacity;
    add_arc(c, (plan_arc){out_of(from), in_of(to), a < b ? a : b, views_cost(s, from, to), 0});
}

// Keeps the PER_PEER least.
static void keep(pick *best, pick p) {
    uint32_t at = PER_PEER;
    while (at > 0 && (best[at - 1].value > p.value)) at--;
    if (at == PER_PEER) return;
    memmove(&best[at + 1], &best[at], (PER_PEER - 1 - at) * sizeof *best);
    best[at] = p;
}

// Adds, for each peer on both sides, the links of least (reduced) cost below `below`. Returns how
// many were added.
static uint32_t price(columns *c, const int64_t *potential, int64_t below, pick *best) {
    const views_swarm *s = c->swarm;
    uint32_t before = c->arcs;
    for (size_t i = 0; i < (size_t)s->peers * 2 * PER_PEER; i++) best[i].value = below;
    for (uint32_t i = 0; i < s->peers; i++) {
        uint32_t next = next_stage(s, s->peer[i].stage);
        for (uint32_t j = s->first[next]; j < s->first[next + 1]; j++) {
            int64_t value = views_cost(s, i, j) + potential[out_of(i)] - potential[in_of(j)];
            if (value >= below) continue;
            keep(&best[(size_t)out_of(i) * PER_PEER], (pick){value, i, j});
            keep(&best[(size_t)in_of(j) * PER_PEER], (pick){value, i, j});
        }
    }
    for (size_t i = 0; i < (size_t)s->peers * 2 * PER_PEER && !c->failed; i++)
        if (best[i].value < below) add_link(c, best[i].from, best[i].to);
    return c->arcs - before;
}

// The first links: every link of a peer includes the peer's own access, so access does not
// distinguish them and is left out.
static bool price_by_access(columns *c, pick *best) {
    int64_t *guess = calloc((size_t)c->swarm->peers * 2, sizeof *guess);
    if (guess == NULL) return false;
    for (uint32_t i = 0; i < c->swarm->peers; i++) {
        guess[out_of(i)] = -c->swarm->access[i];
        guess[in_of(i)] = c->swarm->access[i];
    }
    price(c, guess, INT64_MAX, best);
    free(guess);
    return true;
}

static braid_err solve(columns *c, pick *best, views_optimum *out, braid_error *error) {
    const views_swarm *s = c->swarm;
    uint32_t nodes = 2 * s->peers + 2;
    if (!price_by_access(c, best)) return BRAID_MEMORY;
    while (!c->failed) {
        void *memory = malloc(plan_min_cost_bytes(nodes, c->arcs));
        if (memory == NULL) return BRAID_MEMORY;
        plan_graph g = {nodes, c->arcs, 2 * s->peers, 2 * s->peers + 1, c->arc};
        plan_answer answer;
        braid_err err = plan_min_cost(&g, s->units, memory, &answer, error);
        uint32_t more = err ? 0 : price(c, plan_min_cost_potential(&g, memory), 0, best);
        free(memory);
        if (err) return err;
        int64_t stayed = c->arc[c->fixed - 1].flow;
        *out = (views_optimum){.units = answer.units - stayed,
                               .cost = answer.cost - stayed * UNSENT_COST,
                               .solved_links = g.arcs - c->fixed,
                               .all_links = out->all_links,
                               .rounds = out->rounds + 1};
        if (more == 0) return BRAID_OK;
        if (out->rounds == MOST_ROUNDS)
            return braid_fail(error, BRAID_LIMIT, "no optimum after %d rounds", MOST_ROUNDS);
    }
    return BRAID_MEMORY;
}

braid_err views_best(const routing_instance *instance, plan_answer *answer, braid_error *error) {
    const plan_problem *p = &instance->problem;
    void *memory = malloc(plan_relaxed_bytes(p));
    int64_t *flow = calloc(p->links + 1, sizeof *flow);
    braid_err err = BRAID_MEMORY;
    if (memory != NULL && flow != NULL)
        err = plan_relaxed(p, INT64_MAX, memory, flow, answer, error);
    else
        braid_fail(error, err, "no memory for the optimum of %u links", p->links);
    free(memory);
    free(flow);
    return err;
}

braid_err views_optimum_find(const views_swarm *s, views_optimum *out, braid_error *error) {
    columns c = {.swarm = s, .first_bit = calloc(s->settings.stages + 2, sizeof *c.first_bit)};
    pick *best = calloc((size_t)s->peers * 2 * PER_PEER, sizeof *best);
    *out = (views_optimum){0};
    braid_err err = BRAID_MEMORY;
    if (c.first_bit != NULL && best != NULL) {
        for (uint32_t stage = 0; stage <= s->settings.stages; stage++)
            c.first_bit[stage + 1] = c.first_bit[stage] + (size_t)width(s, stage) * width(s, next_stage(s, stage));
        out->all_links = c.first_bit[s->settings.stages + 1];
        c.there = calloc(out->all_links / 64 + 1, sizeof *c.there);
        add_fixed(&c);
        if (c.there != NULL && !c.failed) err = solve(&c, best, out, error);
    }
    free(c.first_bit);
    free(c.there);
    free(c.arc);
    free(best);
    if (err == BRAID_MEMORY) return braid_fail(error, err, "no memory for the optimum of %u peers", s->peers);
    return err;
}
