#include "bench/baselines/trade.h"

#include "bench/baselines/dtfm_inside.h"

// least[set]: the cheapest pairing of the first peers of one stage, as many as `set` has members,
// with the members of `set`.
static int64_t between(const plan_dtfm_problem *p, const uint8_t *a, const uint8_t *b) {
    int64_t least[1 << PLAN_DTFM_MAX_WIDTH];
    least[0] = 0;
    for (uint32_t set = 1; set < 1u << p->width; set++) {
        uint32_t row = (uint32_t)__builtin_popcount(set) - 1;
        least[set] = INT64_MAX;
        for (uint32_t c = 0; c < p->width; c++) {
            if ((set >> c & 1) == 0) continue;
            int64_t sum = least[set & ~(1u << c)] + p->link[a[row] * dtfm_peers(p) + b[c]];
            if (sum < least[set]) least[set] = sum;
        }
    }
    return least[(1u << p->width) - 1];
}

static uint32_t boundaries(const plan_dtfm_problem *p) { return p->home ? p->groups : p->groups - 1; }

// The cost of the links from each stage to the next one, for the boundaries in `touched`.
static int64_t cost_of(const plan_dtfm_problem *p, const dtfm_split *split, uint32_t touched) {
    int64_t sum = 0;
    for (uint32_t s = 0; s < boundaries(p); s++)
        if ((touched >> s & 1) != 0) sum += between(p, split->member[s], split->member[(s + 1) % p->groups]);
    return sum;
}

int64_t plan_trade_cost(const plan_dtfm_problem *p, const uint32_t *stage) {
    dtfm_split split = dtfm_split_of(p, stage);
    return cost_of(p, &split, UINT32_MAX);
}

// The boundaries of a stage: before and after it.
static uint32_t beside(const plan_dtfm_problem *p, uint32_t stage) {
    return 1u << stage | 1u << (stage + p->groups - 1) % p->groups;
}

static void trade(uint8_t *a, uint8_t *b) {
    uint8_t t = *a;
    *a = *b;
    *b = t;
}

static bool make_best_trade(const plan_dtfm_problem *p, int64_t least, dtfm_split *split, uint32_t own, uint8_t *mine) {
    uint8_t *partner = NULL;
    int64_t most = 0;
    for (uint32_t other = p->home ? 1 : 0; other < p->groups; other++) {
        if (other == own) continue;
        uint32_t touched = beside(p, own) | beside(p, other);
        int64_t before = cost_of(p, split, touched);
        for (uint32_t k = 0; k < p->width; k++) {
            trade(mine, &split->member[other][k]);
            int64_t saved = before - cost_of(p, split, touched);
            trade(mine, &split->member[other][k]);
            if (saved < least || saved <= most) continue;
            most = saved;
            partner = &split->member[other][k];
        }
    }
    if (partner != NULL) trade(mine, partner);
    return partner != NULL;
}

static void write_stages(const plan_dtfm_problem *p, const dtfm_split *split, uint32_t *stage) {
    for (uint32_t s = 0; s < p->groups; s++)
        for (uint32_t k = 0; k < p->width; k++) stage[split->member[s][k]] = s;
}

// The position of a peer.
static uint8_t *find(const plan_dtfm_problem *p, dtfm_split *split, uint32_t peer, uint32_t *group) {
    for (*group = 0;; ++*group) {
        BRAID_ASSERT(*group < p->groups);
        for (uint32_t k = 0; k < p->width; k++)
            if (split->member[*group][k] == peer) return &split->member[*group][k];
    }
}

uint32_t plan_trade(const plan_dtfm_problem *p, int64_t least, uint32_t *stage) {
    BRAID_ASSERT(least > 0);
    dtfm_split split = dtfm_split_of(p, stage);
    uint32_t trades = 0, quiet = 0, peers = dtfm_peers(p), first = p->home ? p->width : 0;
    for (uint32_t i = first; quiet < peers - first; i = i + 1 < peers ? i + 1 : first) {
        uint32_t own;
        uint8_t *mine = find(p, &split, i, &own);
        bool traded = make_best_trade(p, least, &split, own, mine);
        trades += traded;
        quiet = traded ? 0 : quiet + 1;
    }
    write_stages(p, &split, stage);
    return trades;
}
