// The genetic search. Its parameters and operators follow the public scheduler. Where only their
// kind is known, a comment at the function gives our interpretation.
#include "base/rng.h"
#include "bench/baselines/dtfm_inside.h"

#include <string.h>

enum { CROSSED = 5 };  // peers that take their group from the second parent

typedef struct individual {
    int64_t score;
    dtfm_split split;
} individual;

typedef struct search {
    const plan_dtfm_problem *p;
    dtfm_scratch scratch;
    rng random;
    uint32_t fixed;  // groups that never change: 1 with `home`
} search;

// --- bounds

static bool fits(const plan_dtfm_problem *p, const plan_dtfm_settings *settings) {
    return p->groups >= 2 && p->groups <= PLAN_DTFM_MAX_GROUPS && p->width >= 1 && p->width <= PLAN_DTFM_MAX_WIDTH &&
           settings->population <= PLAN_DTFM_MAX_POPULATION && settings->population != 1;
}

static uint32_t population_of(const plan_dtfm_settings *settings) {
    return settings->population == 0 ? PLAN_DTFM_POPULATION : settings->population;
}

static size_t table_bytes(const plan_dtfm_problem *p) { return ((size_t)1 << p->groups) * p->groups * sizeof(int64_t); }

size_t plan_dtfm_bytes(const plan_dtfm_problem *p, const plan_dtfm_settings *settings) {
    if (!fits(p, settings)) return 0;
    return table_bytes(p) + population_of(settings) * sizeof(individual);
}

static braid_err check(const plan_dtfm_problem *p, const plan_dtfm_settings *settings, braid_error *error) {
    if (!fits(p, settings))
        return braid_fail(error, BRAID_LIMIT,
                          "%u groups of %u peers, population %u; an arrangement has 2 to %d groups of 1 to %d peers, a "
                          "population 2 to %d",
                          p->groups, p->width, settings->population, PLAN_DTFM_MAX_GROUPS, PLAN_DTFM_MAX_WIDTH,
                          PLAN_DTFM_MAX_POPULATION);
    uint32_t peers = dtfm_peers(p);
    for (uint32_t i = 0; i < peers; i++)
        for (uint32_t j = 0; j < peers; j++) {
            int64_t link = p->link[i * peers + j], exchange = p->exchange == NULL ? 0 : p->exchange[i * peers + j];
            if (i == j) continue;
            if (link < 0 || link > PLAN_DTFM_MAX_COST || exchange < 0 || exchange > PLAN_DTFM_MAX_COST)
                return braid_fail(error, BRAID_ARGUMENT,
                                  "between peers %u and %u a microbatch costs %lld, the weights %lld", i, j,
                                  (long long)link, (long long)exchange);
            if (link != p->link[j * peers + i])
                return braid_fail(error, BRAID_ARGUMENT,
                                  "the link between peers %u and %u costs not the same both ways", i, j);
        }
    return BRAID_OK;
}

// --- operators

static int64_t score(search *s, const dtfm_split *split) { return dtfm_score(s->p, split, &s->scratch, NULL).score; }

static uint32_t draw(search *s, uint32_t bound) { return (uint32_t)rng_below(&s->random, bound); }

// Groups of equal size, each peer anywhere with the same probability; data peers stay.
static dtfm_split draw_split(search *s) {
    uint8_t peer[DTFM_MAX_PEERS];
    uint32_t peers = dtfm_peers(s->p), first = s->fixed * s->p->width;
    for (uint32_t i = 0; i < peers; i++) peer[i] = (uint8_t)i;
    for (uint32_t i = peers; i > first + 1; i--) {
        uint32_t j = first + draw(s, i - first);
        uint8_t t = peer[i - 1];
        peer[i - 1] = peer[j];
        peer[j] = t;
    }
    dtfm_split split;
    memset(&split, 0, sizeof split);
    for (uint32_t i = 0; i < peers; i++) split.member[i / s->p->width][i % s->p->width] = peer[i];
    return split;
}

static void groups_of(const plan_dtfm_problem *p, const dtfm_split *split, uint32_t *group) {
    for (uint32_t g = 0; g < p->groups; g++)
        for (uint32_t k = 0; k < p->width; k++) group[split->member[g][k]] = g;
}

// Moves random peers of groups that are too large to the first group that is too small.
static void repair(search *s, uint32_t *group) {
    uint32_t peers = dtfm_peers(s->p), size[PLAN_DTFM_MAX_GROUPS] = {0};
    for (uint32_t i = 0; i < peers; i++) size[group[i]]++;
    for (uint32_t large = 0; large < s->p->groups; large++)
        for (uint32_t small = 0; size[large] > s->p->width; small = 0) {
            while (size[small] >= s->p->width) small++;
            uint32_t skip = draw(s, size[large]), i = 0;
            while (group[i] != large || skip-- > 0) i++;
            group[i] = small;
            size[large]--;
            size[small]++;
        }
}

// A child is its first parent, with the groups of five random peers taken from the second.
static dtfm_split cross(search *s, const dtfm_split *first, const dtfm_split *second) {
    uint32_t own[DTFM_MAX_PEERS], other[DTFM_MAX_PEERS], fixed = s->fixed * s->p->width;
    groups_of(s->p, first, own);
    groups_of(s->p, second, other);
    for (uint32_t c = 0; c < CROSSED; c++) {
        uint32_t i = fixed + draw(s, dtfm_peers(s->p) - fixed);
        own[i] = other[i];
    }
    repair(s, own);
    return dtfm_split_of(s->p, own);
}

static void swap(uint8_t *a, uint8_t *b) {
    uint8_t t = *a;
    *a = *b;
    *b = t;
}

// One pass similar to Kernighan-Lin. A peer moves to the next group on a random round through all
// groups, a peer of that group moves on to the one after it, and so on; the first gap is filled
// after every step, so that each step is a valid split. Each step takes the best peer, even if the
// score gets worse; the best step is kept.
static void move_round(search *s, individual *child) {
    uint32_t round[PLAN_DTFM_MAX_GROUPS], count = 0;
    for (uint32_t g = s->fixed; g < s->p->groups; g++) round[count++] = g;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = draw(s, i), t = round[i - 1];
        round[i - 1] = round[j];
        round[j] = t;
    }
    dtfm_split work = child->split;
    uint8_t *gap = &work.member[round[0]][draw(s, s->p->width)];
    for (uint32_t step = 1; step < count; step++) {
        uint8_t *member = work.member[round[step]];
        int64_t best = INT64_MAX;
        uint32_t at = 0;
        for (uint32_t k = 0; k < s->p->width; k++) {
            swap(gap, &member[k]);
            int64_t tried = score(s, &work);
            swap(gap, &member[k]);
            if (tried >= best) continue;
            best = tried;
            at = k;
        }
        swap(gap, &member[at]);
        if (best < child->score) *child = (individual){best, work};
    }
}

// --- search

// The child replaces the worse of its parents.
static void breed(search *s, individual *population, uint32_t count) {
    uint32_t a = draw(s, count), b = draw(s, count - 1);
    if (b >= a) b++;
    individual child = {.split = cross(s, &population[a].split, &population[b].split)};
    child.score = score(s, &child.split);
    move_round(s, &child);
    population[population[a].score > population[b].score ? a : b] = child;
}

static const individual *best_of(const individual *population, uint32_t count) {
    const individual *best = population;
    for (uint32_t i = 1; i < count; i++)
        if (population[i].score < best->score) best = &population[i];
    return best;
}

braid_err plan_dtfm(const plan_dtfm_problem *p, const plan_dtfm_settings *settings, void *memory, uint32_t *stage,
                    plan_dtfm_answer *answer, braid_error *error) {
    braid_err err = check(p, settings, error);
    if (err) return err;
    search s = {
        .p = p, .scratch.best = memory, .random = {rng_seed(settings->seed, dtfm_peers(p))}, .fixed = p->home ? 1 : 0};
    uint32_t count = population_of(settings), trials = settings->trials == 0 ? PLAN_DTFM_TRIALS : settings->trials;
    individual *population = (individual *)(void *)((char *)memory + table_bytes(p));
    for (uint32_t i = 0; i < count; i++) {
        population[i].split = draw_split(&s);
        population[i].score = score(&s, &population[i].split);
    }
    for (uint32_t t = 0; t < trials; t++) breed(&s, population, count);
    const individual *best = best_of(population, count);
    uint8_t order[PLAN_DTFM_MAX_GROUPS];
    *answer = dtfm_score(p, &best->split, &s.scratch, order);
    for (uint32_t at = 0; at < p->groups; at++)
        for (uint32_t k = 0; k < p->width; k++) stage[best->split.member[order[at]][k]] = at;
    return BRAID_OK;
}
