// Pipelines through an arrangement. Every stage gives each pipeline one peer, so a stage is a
// permutation. The best sequence of permutations is found stage by stage.
#include "bench/baselines/dtfm_inside.h"

#include <string.h>

enum { MAX_ORDERS = 720 };  // number of permutations of PLAN_DTFM_MAX_WIDTH peers

// Sums over the stages so far, of the largest link and of all links.
typedef struct way {
    int64_t largest, sum;
    uint16_t before;  // index of the previous stage's permutation
} way;

typedef struct paths {
    const plan_dtfm_problem *p;
    dtfm_split split;
    uint32_t orders;
    uint8_t (*order)[PLAN_DTFM_MAX_WIDTH];  // [orders]: member of a pipeline
    way *way;                               // [groups][orders]
} paths;

static uint32_t factorial(uint32_t n) { return n < 2 ? 1 : n * factorial(n - 1); }

static size_t orders_bytes(uint32_t orders) { return (size_t)orders * PLAN_DTFM_MAX_WIDTH / 8 * 8 + 8; }

size_t plan_dtfm_paths_bytes(const plan_dtfm_problem *p) {
    if (p->width < 1 || p->width > PLAN_DTFM_MAX_WIDTH || p->groups < 2 || p->groups > PLAN_DTFM_MAX_GROUPS) return 0;
    uint32_t orders = factorial(p->width);
    return orders_bytes(orders) + (size_t)p->groups * orders * sizeof(way);
}

// The n-th permutation of `width` members; the first one is 0, 1, 2 ...
static void write_order(uint32_t n, uint32_t width, uint8_t *order) {
    uint8_t left[PLAN_DTFM_MAX_WIDTH];
    for (uint32_t i = 0; i < width; i++) left[i] = (uint8_t)i;
    for (uint32_t i = 0; i < width; i++) {
        uint32_t rest = width - i, of_each = factorial(rest - 1), at = n / of_each;
        n %= of_each;
        order[i] = left[at];
        memmove(left + at, left + at + 1, rest - at - 1);
    }
}

static void add_hop(const paths *w, uint32_t stage, uint32_t from, uint32_t next_stage, uint32_t to, way *sum) {
    int64_t largest = 0;
    for (uint32_t k = 0; k < w->p->width; k++) {
        uint32_t a = w->split.member[stage][w->order[from][k]], b = w->split.member[next_stage][w->order[to][k]];
        int64_t link = w->p->link[a * dtfm_peers(w->p) + b];
        if (link > largest) largest = link;
        sum->sum += link;
    }
    sum->largest += largest;
}

static bool is_better(const way *a, const way *b) {
    return a->largest != b->largest ? a->largest < b->largest : a->sum < b->sum;
}

// Pipelines are numbered by the first stage, so its permutation is fixed.
static void fill_ways(paths *w) {
    const way nothing = {INT64_MAX, INT64_MAX, 0};
    for (uint32_t i = 0; i < w->p->groups * w->orders; i++) w->way[i] = nothing;
    w->way[0] = (way){0, 0, 0};
    for (uint32_t stage = 1; stage < w->p->groups; stage++)
        for (uint32_t from = 0; from < w->orders; from++) {
            const way *so_far = &w->way[(stage - 1) * w->orders + from];
            if (so_far->largest == INT64_MAX) continue;
            for (uint32_t to = 0; to < w->orders; to++) {
                way next = {so_far->largest, so_far->sum, (uint16_t)from};
                add_hop(w, stage - 1, from, stage, to, &next);
                if (is_better(&next, &w->way[stage * w->orders + to])) w->way[stage * w->orders + to] = next;
            }
        }
}

int64_t plan_dtfm_paths(const plan_dtfm_problem *p, const uint32_t *stage, void *memory, uint32_t *path) {
    paths w = {.p = p, .split = dtfm_split_of(p, stage), .orders = factorial(p->width)};
    BRAID_ASSERT(w.orders <= MAX_ORDERS);
    w.order = memory;
    w.way = (way *)(void *)((char *)memory + orders_bytes(w.orders));
    for (uint32_t i = 0; i < w.orders; i++) write_order(i, p->width, w.order[i]);
    fill_ways(&w);
    uint32_t last = p->groups - 1, at = 0;
    way best = {INT64_MAX, INT64_MAX, 0};
    for (uint32_t i = 0; i < w.orders; i++) {
        way end = w.way[last * w.orders + i];
        if (p->home) add_hop(&w, last, i, 0, 0, &end);
        if (!is_better(&end, &best)) continue;
        best = end;
        at = i;
    }
    for (uint32_t s = p->groups; s-- > 0;) {
        for (uint32_t k = 0; k < p->width; k++) path[k * p->groups + s] = w.split.member[s][w.order[at][k]];
        at = w.way[s * w.orders + at].before;
    }
    return best.largest;
}
