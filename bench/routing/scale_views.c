// The neighbours of each peer in a large instance. The cheapest links are found with a grid over
// the map, which avoids comparing all pairs.
#include "bench/routing/scale_inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct grid {
    const scale_map *m;
    uint32_t side;  // cells on one side
    int32_t cell;   // width of a cell
    int32_t least_access;
    uint32_t *first;  // [side * side + 1], indices into `peer`
    uint32_t *peer;
} grid;

typedef struct found {
    uint32_t peer;
    int64_t cost;
} found;

// The floor of the square root, in integers: the same on every machine.
static int64_t root_of(uint64_t square) {
    uint64_t root = 0, bit = (uint64_t)1 << 40;
    while (bit > square) bit >>= 2;
    for (; bit != 0; bit >>= 2) {
        bool fits = square >= root + bit;
        if (fits) square -= root + bit;
        root = (root >> 1) + (fits ? bit : 0);
    }
    return (int64_t)root;
}

int64_t scale_cost(const scale_map *m, uint32_t a, uint32_t b) {
    const scale_place *p = &m->place[a], *q = &m->place[b];
    int64_t dx = p->x - q->x, dy = p->y - q->y;
    return root_of((uint64_t)(dx * dx + dy * dy)) + (p->access + q->access) / 2;
}

void scale_put_link(scale_map *m, uint32_t from, uint32_t to) {
    m->link[m->links++] = (plan_link){from, to, scale_cost(m, from, to)};
}

// --- the cheapest peers of a stage

static uint32_t cell_of(const grid *g, uint32_t peer) {
    const scale_place *p = &g->m->place[peer];
    return (uint32_t)(p->y / g->cell) * g->side + (uint32_t)(p->x / g->cell);
}

// About two peers in each cell.
static bool grid_open(grid *g, const scale_map *m, uint32_t first, uint32_t end) {
    *g = (grid){.m = m, .side = 1, .least_access = INT32_MAX};
    while (2 * (g->side + 1) * (g->side + 1) <= end - first) g->side++;
    g->cell = SCALE_SIDE * ROUTING_SCALE / (int32_t)g->side + 1;
    g->first = calloc((size_t)g->side * g->side + 1, sizeof *g->first);
    g->peer = calloc(end - first, sizeof *g->peer);
    if (g->first == NULL || g->peer == NULL) return false;
    for (uint32_t i = first; i < end; i++) {
        g->first[cell_of(g, i)]++;
        if (m->place[i].access < g->least_access) g->least_access = m->place[i].access;
    }
    for (uint32_t c = 1; c <= g->side * g->side; c++) g->first[c] += g->first[c - 1];
    for (uint32_t i = end; i-- > first;) g->peer[--g->first[cell_of(g, i)]] = i;
    return true;
}

static void grid_close(grid *g) {
    free(g->first);
    free(g->peer);
}

static void keep_best(found *best, uint32_t most, uint32_t *count, found f) {
    if (*count == most && f.cost >= best[most - 1].cost) return;
    uint32_t at = *count < most ? (*count)++ : most - 1;
    for (; at > 0 && best[at - 1].cost > f.cost; at--) best[at] = best[at - 1];
    best[at] = f;
}

static void look_in_cell(const grid *g, uint32_t peer, int64_t x, int64_t y, found *best, uint32_t most,
                         uint32_t *count) {
    if (x < 0 || y < 0 || x >= g->side || y >= g->side) return;
    size_t cell = (size_t)y * g->side + (size_t)x;
    for (uint32_t i = g->first[cell]; i < g->first[cell + 1]; i++)
        keep_best(best, most, count, (found){g->peer[i], scale_cost(g->m, peer, g->peer[i])});
}

// The `most` cheapest peers for `peer`: rings of cells, until no cell farther out can be cheaper.
static uint32_t cheapest(const grid *g, uint32_t peer, found *best, uint32_t most) {
    const scale_place *p = &g->m->place[peer];
    int64_t x = p->x / g->cell, y = p->y / g->cell;
    uint32_t count = 0;
    for (int64_t ring = 0; ring < g->side; ring++) {
        int64_t farther = (ring - 1) * g->cell + (p->access + g->least_access) / 2;
        if (count == most && best[most - 1].cost <= farther) break;
        for (int64_t d = -ring; d <= ring; d++) {
            look_in_cell(g, peer, x + d, y - ring, best, most, &count);
            if (ring == 0) break;
            look_in_cell(g, peer, x + d, y + ring, best, most, &count);
            if (d == -ring || d == ring) continue;
            look_in_cell(g, peer, x - ring, y + d, best, most, &count);
            look_in_cell(g, peer, x + ring, y + d, best, most, &count);
        }
    }
    return count;
}

// --- links between two stages

typedef struct joint {
    scale_map *m;
    uint32_t from, middle, end;  // stage s: from .. middle - 1, the next one: middle .. end - 1
    plan_link *wish;
    uint32_t wishes;
    uint32_t *degree;  // [end - from]
    uint32_t *order;   // [end - middle]
} joint;

static int by_cost(const void *a, const void *b) {
    const plan_link *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

// Each peer wishes for twice as many links as it may keep, because others choose too.
static bool gather_wishes(joint *j, uint32_t keep) {
    found best[2 * SCALE_MAX_NEIGHBOURS];
    grid next = {0}, previous = {0};
    bool good = grid_open(&next, j->m, j->middle, j->end) && grid_open(&previous, j->m, j->from, j->middle);
    for (uint32_t i = j->from; good && i < j->end; i++) {
        bool forward = i < j->middle;
        uint32_t count = cheapest(forward ? &next : &previous, i, best, 2 * keep);
        for (uint32_t b = 0; b < count; b++)
            j->wish[j->wishes++] = (plan_link){forward ? i : best[b].peer, forward ? best[b].peer : i, best[b].cost};
    }
    grid_close(&next);
    grid_close(&previous);
    return good;
}

static void take(joint *j, uint32_t from, uint32_t to) {
    j->degree[from - j->from]++;
    j->degree[to - j->from]++;
    scale_put_link(j->m, from, to);
}

// Takes the cheapest link first, if both ends have room. So no two peers would both prefer a link
// that was not taken (a stable matching).
static void take_cheapest(joint *j, uint32_t keep) {
    qsort(j->wish, j->wishes, sizeof *j->wish, by_cost);
    for (uint32_t w = 0; w < j->wishes; w++) {
        const plan_link *l = &j->wish[w];
        if (w > 0 && by_cost(l, l - 1) == 0) continue;  // both ends wished it
        if (j->degree[l->from - j->from] < keep && j->degree[l->to - j->from] < keep) take(j, l->from, l->to);
    }
}

static int by_ends(const void *a, const void *b) {
    const plan_link *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static void shuffle(uint32_t *order, uint32_t count, rng *r) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)rng_below(r, i), t = order[i - 1];
        order[i - 1] = order[other];
        order[other] = t;
    }
}

// In each round each peer meets a random partner, and they keep a link if both have room.
static void take_strangers(joint *j, uint32_t start, uint32_t neighbours, rng *r) {
    uint32_t here = j->middle - j->from, there = j->end - j->middle, most = here > there ? here : there;
    for (uint32_t i = 0; i < there; i++) j->order[i] = j->middle + i;
    for (uint32_t dance = neighbours / 2; dance < neighbours; dance++) {
        uint32_t known = j->m->links - start;
        qsort(j->m->link + start, known, sizeof *j->m->link, by_ends);
        shuffle(j->order, there, r);
        for (uint32_t i = 0; i < most; i++) {
            plan_link l = {j->from + i % here, j->order[i % there], 0};
            if (bsearch(&l, j->m->link + start, known, sizeof l, by_ends) != NULL) continue;
            if (j->degree[l.from - j->from] < neighbours && j->degree[l.to - j->from] < neighbours)
                take(j, l.from, l.to);
        }
    }
}

bool scale_join_stages(scale_map *m, uint32_t s, uint32_t neighbours, rng *r) {
    joint j = {.m = m, .from = m->first[s], .middle = m->first[s + 1], .end = m->first[s + 2]};
    uint32_t all = j.end - j.from, keep = neighbours / 2, start = m->links;
    j.wish = calloc((size_t)all * 2 * keep, sizeof *j.wish);
    j.degree = calloc(all, sizeof *j.degree);
    j.order = calloc(all, sizeof *j.order);
    bool good = j.wish != NULL && j.degree != NULL && j.order != NULL && gather_wishes(&j, keep);
    if (good) {
        take_cheapest(&j, keep);
        take_strangers(&j, start, neighbours, r);
    }
    free(j.wish);
    free(j.degree);
    free(j.order);
    return good;
}
