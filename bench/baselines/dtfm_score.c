// The cost of a split into groups: bottleneck matchings between groups, and the cheapest order of
// the groups.
#include "bench/baselines/dtfm_inside.h"

#include <string.h>

// --- matching

typedef struct matching {
    int64_t cost[PLAN_DTFM_MAX_WIDTH][PLAN_DTFM_MAX_WIDTH], limit;
    uint32_t width;
    int8_t partner[PLAN_DTFM_MAX_WIDTH];  // partner of each column; -1: none
} matching;

// True if `row` finds a column by links of at most `limit`, when other rows may change theirs
// (Kuhn's augmenting path).
static bool place_row(matching *m, uint32_t row, uint32_t *tried) {
    for (uint32_t c = 0; c < m->width; c++) {
        if (m->cost[row][c] > m->limit || (*tried >> c & 1) != 0) continue;
        *tried |= 1u << c;
        if (m->partner[c] >= 0 && !place_row(m, (uint32_t)m->partner[c], tried)) continue;
        m->partner[c] = (int8_t)row;
        return true;
    }
    return false;
}

// The next larger cost than `limit`.
static int64_t next_limit(const matching *m) {
    int64_t next = INT64_MAX;
    for (uint32_t r = 0; r < m->width; r++)
        for (uint32_t c = 0; c < m->width; c++)
            if (m->cost[r][c] > m->limit && m->cost[r][c] < next) next = m->cost[r][c];
    return next;
}

int64_t dtfm_match(const plan_dtfm_problem *p, const uint8_t *a, const uint8_t *b) {
    matching m = {.width = p->width};
    memset(m.partner, -1, sizeof m.partner);
    for (uint32_t r = 0; r < p->width; r++) {
        // No matching is below the cheapest link of any row.
        int64_t least = INT64_MAX;
        for (uint32_t c = 0; c < p->width; c++) {
            m.cost[r][c] = p->link[a[r] * dtfm_peers(p) + b[c]];
            if (m.cost[r][c] < least) least = m.cost[r][c];
        }
        if (least > m.limit) m.limit = least;
    }
    for (uint32_t row = 0; row < p->width;) {
        uint32_t tried = 0;
        if (place_row(&m, row, &tried))
            row++;
        else
            m.limit = next_limit(&m);
    }
    return m.limit;
}

// --- order

// best[set][last]: the cheapest path through the groups of `set` that ends at `last`.
static void fill_orders(const plan_dtfm_problem *p, dtfm_scratch *s) {
    uint32_t g = p->groups, sets = 1u << g;
    for (uint32_t i = 0; i < sets * g; i++) s->best[i] = INT64_MAX;
    for (uint32_t i = 0; i < (p->home ? 1 : g); i++) s->best[(1u << i) * g + i] = 0;
    // With `home` every path begins at group 0, so sets without it are unreachable.
    for (uint32_t set = 1; set < sets; set += p->home ? 2 : 1)
        for (uint32_t last = 0; last < g; last++) {
            int64_t so_far = s->best[set * g + last];
            if (so_far == INT64_MAX) continue;
            for (uint32_t next = 0; next < g; next++) {
                if ((set >> next & 1) != 0) continue;
                int64_t *to = &s->best[(set | 1u << next) * g + next];
                if (so_far + s->between[last][next] < *to) *to = so_far + s->between[last][next];
            }
        }
}

static int64_t closing(const plan_dtfm_problem *p, const dtfm_scratch *s, uint32_t last) {
    return p->home ? s->between[last][0] : 0;
}

static int64_t best_order(const plan_dtfm_problem *p, dtfm_scratch *s, uint8_t *order) {
    uint32_t g = p->groups, set = (1u << g) - 1, at = 0;
    fill_orders(p, s);
    int64_t total = INT64_MAX;
    for (uint32_t last = 0; last < g; last++) {
        int64_t way = s->best[set * g + last];
        if (way == INT64_MAX || way + closing(p, s, last) >= total) continue;
        total = way + closing(p, s, last);
        at = last;
    }
    for (uint32_t i = g; order != NULL && i-- > 0;) {
        order[i] = (uint8_t)at;
        uint32_t rest = set & ~(1u << at);
        for (uint32_t before = 0; before < g; before++) {
            int64_t way = s->best[rest * g + before];
            if (way == INT64_MAX || way + s->between[before][at] != s->best[set * g + at]) continue;
            set = rest;
            at = before;
            break;
        }
    }
    return total;
}

// --- score

int64_t dtfm_group_exchange(const plan_dtfm_problem *p, const uint8_t *member) {
    int64_t worst = 0;
    for (uint32_t i = 0; p->exchange != NULL && i < p->width; i++) {
        int64_t sum = 0;
        for (uint32_t j = 0; j < p->width; j++)
            if (i != j) sum += p->exchange[member[i] * dtfm_peers(p) + member[j]];
        if (sum > worst) worst = sum;
    }
    return worst;
}

static int64_t worst_exchange(const plan_dtfm_problem *p, const dtfm_split *split) {
    int64_t worst = 0;
    for (uint32_t g = 0; g < p->groups; g++) {
        int64_t own = dtfm_group_exchange(p, split->member[g]);
        if (own > worst) worst = own;
    }
    return worst;
}

plan_dtfm_answer dtfm_score(const plan_dtfm_problem *p, const dtfm_split *split, dtfm_scratch *scratch,
                            uint8_t *order) {
    for (uint32_t a = 0; a < p->groups; a++)
        for (uint32_t b = 0; b < a; b++)
            scratch->between[a][b] = scratch->between[b][a] = dtfm_match(p, split->member[a], split->member[b]);
    plan_dtfm_answer answer = {.data_parallel = worst_exchange(p, split), .pipeline = best_order(p, scratch, order)};
    answer.score = answer.data_parallel + 2 * answer.pipeline;
    return answer;
}

dtfm_split dtfm_split_of(const plan_dtfm_problem *p, const uint32_t *stage) {
    dtfm_split split;
    uint32_t count[PLAN_DTFM_MAX_GROUPS] = {0};
    memset(&split, 0, sizeof split);
    for (uint32_t i = 0; i < dtfm_peers(p); i++) {
        BRAID_ASSERT(stage[i] < p->groups && count[stage[i]] < p->width);
        split.member[stage[i]][count[stage[i]]++] = (uint8_t)i;
    }
    return split;
}

plan_dtfm_answer plan_dtfm_cost(const plan_dtfm_problem *p, const uint32_t *stage) {
    dtfm_split split = dtfm_split_of(p, stage);
    plan_dtfm_answer answer = {.data_parallel = worst_exchange(p, &split)};
    for (uint32_t s = 0; s + 1 < p->groups; s++) answer.pipeline += dtfm_match(p, split.member[s], split.member[s + 1]);
    if (p->home) answer.pipeline += dtfm_match(p, split.member[p->groups - 1], split.member[0]);
    answer.score = answer.data_parallel + 2 * answer.pipeline;
    return answer;
}
