// DT-FM's search against every arrangement of small swarms, tried one by one.
#include "base/rng.h"
#include "bench/baselines/dtfm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PEERS = 18 };

typedef struct swarm {
    int64_t link[MAX_PEERS * MAX_PEERS], exchange[MAX_PEERS * MAX_PEERS];
    plan_dtfm_problem p;
} swarm;

static void open_swarm(swarm *w, uint64_t seed, uint32_t groups, uint32_t width, bool home) {
    rng r = {rng_seed(seed, 7)};
    uint32_t peers = groups * width;
    bool weights = rng_below(&r, 2) == 0;
    for (uint32_t i = 0; i < peers; i++)
        for (uint32_t j = 0; j <= i; j++) {
            w->link[i * peers + j] = w->link[j * peers + i] = (int64_t)rng_below(&r, 50);
            w->exchange[i * peers + j] = w->exchange[j * peers + i] = (int64_t)rng_below(&r, 50);
        }
    w->p = (plan_dtfm_problem){groups, width, w->link, weights ? w->exchange : NULL, home};
}

static void search(const swarm *w, uint64_t seed, uint32_t *stage, plan_dtfm_answer *answer) {
    plan_dtfm_settings settings = {.seed = seed};
    void *memory = malloc(plan_dtfm_bytes(&w->p, &settings));
    assert_non_null(memory);
    memset(memory, (int)seed, plan_dtfm_bytes(&w->p, &settings));
    braid_error error = {0};
    if (plan_dtfm(&w->p, &settings, memory, stage, answer, &error)) fail_msg("%s", error.text);
    free(memory);
}

// --- exhaustive search

// The least largest link over all pairings of the peers of two stages.
static int64_t try_pairs(const swarm *w, const uint32_t *a, const uint32_t *b, uint32_t row, uint32_t taken) {
    int64_t best = row == w->p.width ? 0 : INT64_MAX;
    for (uint32_t c = 0; row < w->p.width && c < w->p.width; c++) {
        if ((taken >> c & 1) != 0) continue;
        int64_t own = w->link[a[row] * w->p.groups * w->p.width + b[c]];
        int64_t rest = try_pairs(w, a, b, row + 1, taken | 1u << c);
        if (rest > own) own = rest;
        if (own < best) best = own;
    }
    return best;
}

static void members(const swarm *w, const uint32_t *stage, uint32_t of, uint32_t *member) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->p.groups * w->p.width; i++)
        if (stage[i] == of) member[n++] = i;
    assert_int_equal(n, w->p.width);
}

static int64_t slow_score(const swarm *w, const uint32_t *stage) {
    uint32_t peers = w->p.groups * w->p.width, a[MAX_PEERS], b[MAX_PEERS];
    int64_t worst = 0, pipeline = 0;
    for (uint32_t i = 0; i < peers && w->p.exchange != NULL; i++) {
        int64_t sum = 0;
        for (uint32_t j = 0; j < peers; j++) sum += i != j && stage[i] == stage[j] ? w->exchange[i * peers + j] : 0;
        if (sum > worst) worst = sum;
    }
    for (uint32_t s = 0; s + (w->p.home ? 0 : 1) < w->p.groups; s++) {
        members(w, stage, s, a);
        members(w, stage, (s + 1) % w->p.groups, b);
        pipeline += try_pairs(w, a, b, 0, 0);
    }
    return worst + 2 * pipeline;
}

static int64_t try_stages(const swarm *w, uint32_t *stage, uint32_t *size, uint32_t peer) {
    if (peer == w->p.groups * w->p.width) return slow_score(w, stage);
    int64_t best = INT64_MAX;
    for (uint32_t s = 0; s < w->p.groups; s++) {
        if (size[s] == w->p.width || (w->p.home && (s == 0) != (peer < w->p.width))) continue;
        stage[peer] = s;
        size[s]++;
        int64_t score = try_stages(w, stage, size, peer + 1);
        size[s]--;
        if (score < best) best = score;
    }
    return best;
}

static void compare(uint64_t seed, uint32_t groups, uint32_t width, bool home) {
    swarm w;
    uint32_t stage[MAX_PEERS], tried[MAX_PEERS], size[PLAN_DTFM_MAX_GROUPS] = {0};
    plan_dtfm_answer answer;
    open_swarm(&w, seed, groups, width, home);
    search(&w, seed, stage, &answer);
    plan_dtfm_answer again = plan_dtfm_cost(&w.p, stage);
    assert_int_equal(answer.score, slow_score(&w, stage));
    assert_memory_equal(&answer, &again, sizeof answer);
    for (uint32_t i = 0; home && i < width; i++) assert_int_equal(stage[i], 0);
    int64_t best = try_stages(&w, tried, size, 0);
    if (answer.score != best)
        fail_msg("seed %llu, %u groups of %u: score %lld, the best is %lld", (unsigned long long)seed, groups, width,
                 (long long)answer.score, (long long)best);
}

static void test_small_swarms_are_arranged_best(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        compare(seed, 2, 3, false);
        compare(seed, 3, 2, false);
        compare(seed, 4, 2, true);
        compare(seed, 3, 3, true);
        compare(seed, 2, 6, false);
        compare(seed, 5, 1, seed % 2 == 0);
    }
}

// --- pipelines

static bool lower(int64_t a, int64_t a_sum, int64_t b, int64_t b_sum) { return a != b ? a < b : a_sum < b_sum; }

// All permutations of the peers of each stage; path[k][s] so far for the stages before `s`.
static void try_paths(const swarm *w, const uint32_t *stage, uint32_t *path, uint32_t s, int64_t largest, int64_t sum,
                      int64_t *best, int64_t *best_sum);

static void try_orders(const swarm *w, const uint32_t *stage, uint32_t *path, uint32_t s, uint32_t k, int64_t largest,
                       int64_t sum, int64_t *best, int64_t *best_sum) {
    uint32_t groups = w->p.groups, peers = groups * w->p.width, member[MAX_PEERS];
    if (k == w->p.width) {
        int64_t hop = 0;
        for (uint32_t i = 0; i < k; i++) {
            int64_t link = w->link[path[i * groups + s - 1] * peers + path[i * groups + s % groups]];
            if (link > hop) hop = link;
            sum += link;
        }
        try_paths(w, stage, path, s + 1, largest + hop, sum, best, best_sum);
        return;
    }
    members(w, stage, s, member);
    for (uint32_t c = 0; c < w->p.width; c++) {
        bool taken = false;
        for (uint32_t i = 0; i < k; i++) taken |= path[i * groups + s] == member[c];
        if (taken) continue;
        path[k * groups + s] = member[c];
        try_orders(w, stage, path, s, k + 1, largest, sum, best, best_sum);
    }
}

static void try_paths(const swarm *w, const uint32_t *stage, uint32_t *path, uint32_t s, int64_t largest, int64_t sum,
                      int64_t *best, int64_t *best_sum) {
    if (s < w->p.groups) {
        try_orders(w, stage, path, s, 0, largest, sum, best, best_sum);
    } else if (w->p.home && s == w->p.groups) {
        try_orders(w, stage, path, s, w->p.width, largest, sum, best, best_sum);
    } else if (lower(largest, sum, *best, *best_sum)) {
        *best = largest;
        *best_sum = sum;
    }
}

static void test_pipelines_are_the_best_of_an_arrangement(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        swarm w;
        uint32_t stage[MAX_PEERS], path[MAX_PEERS], tried[MAX_PEERS], first[MAX_PEERS];
        open_swarm(&w, seed, 4, 3, seed % 2 == 0);
        for (uint32_t i = 0; i < 12; i++) stage[i] = seed % 3 == 0 ? i / 3 : i % 4;
        void *memory = malloc(plan_dtfm_paths_bytes(&w.p));
        assert_non_null(memory);
        int64_t found = plan_dtfm_paths(&w.p, stage, memory, path), largest = 0, sum = 0;
        free(memory);
        assert_true(found >= plan_dtfm_cost(&w.p, stage).pipeline);
        bool seen[MAX_PEERS] = {false};
        for (uint32_t s = 0; s < 4; s++) {
            int64_t hop = 0;
            for (uint32_t k = 0; k < 3; k++) {
                uint32_t peer = path[k * 4 + s], next = path[k * 4 + (s + 1) % 4];
                assert_true(stage[peer] == s && !seen[peer]);
                seen[peer] = true;
                if (s == 3 && !w.p.home) continue;
                sum += w.link[peer * 12 + next];
                if (w.link[peer * 12 + next] > hop) hop = w.link[peer * 12 + next];
            }
            largest += hop;
        }
        assert_int_equal(found, largest);
        int64_t best = INT64_MAX, best_sum = INT64_MAX;
        members(&w, stage, 0, first);
        for (uint32_t k = 0; k < 3; k++) tried[k * 4] = first[k];
        try_paths(&w, stage, tried, 1, 0, 0, &best, &best_sum);
        assert_int_equal(largest, best);
        assert_int_equal(sum, best_sum);
    }
}

// --- T6's size

static void test_a_seed_gives_one_answer(void **state) {
    (void)state;
    swarm w;
    uint32_t stage[MAX_PEERS], again[MAX_PEERS], random[MAX_PEERS];
    plan_dtfm_answer answer, second;
    open_swarm(&w, 3, 6, 3, true);
    search(&w, 1, stage, &answer);
    search(&w, 1, again, &second);
    assert_memory_equal(stage, again, sizeof *stage * 18);
    assert_memory_equal(&answer, &second, sizeof answer);
    rng r = {9};
    for (uint32_t i = 0; i < 18; i++) random[i] = i / 3;
    for (uint32_t t = 0; t < 20000; t++) {
        for (uint32_t i = 18; i > 4; i--) {
            uint32_t j = 3 + (uint32_t)rng_below(&r, i - 3), old = random[i - 1];
            random[i - 1] = random[j];
            random[j] = old;
        }
        assert_true(answer.score <= plan_dtfm_cost(&w.p, random).score);
    }
}

// Checks that no exchange of two peers improves the result.
static void test_no_swap_is_left(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        swarm w;
        uint32_t stage[MAX_PEERS];
        plan_dtfm_answer answer;
        open_swarm(&w, seed, 6, 3, true);
        search(&w, seed, stage, &answer);
        for (uint32_t i = 3; i < 18; i++)
            for (uint32_t j = 3; j < i; j++) {
                uint32_t a = stage[i], b = stage[j];
                stage[i] = b, stage[j] = a;
                if (plan_dtfm_cost(&w.p, stage).score < answer.score)
                    fail_msg("seed %llu: peers %u and %u should swap", (unsigned long long)seed, i, j);
                stage[i] = a, stage[j] = b;
            }
    }
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    swarm w;
    uint32_t stage[MAX_PEERS];
    uint64_t memory[1];
    plan_dtfm_settings settings = {0};
    plan_dtfm_answer answer;
    braid_error error = {0};
    open_swarm(&w, 1, 3, 2, false);
    w.p.groups = 1;
    assert_int_equal(plan_dtfm_bytes(&w.p, &settings), 0);
    assert_int_equal(plan_dtfm(&w.p, &settings, memory, stage, &answer, &error), BRAID_LIMIT);
    w.p.groups = 3;
    settings.population = 1;
    assert_int_equal(plan_dtfm(&w.p, &settings, memory, stage, &answer, &error), BRAID_LIMIT);
    settings.population = 0;
    w.link[1] = w.link[6] + 1;
    assert_int_equal(plan_dtfm(&w.p, &settings, memory, stage, &answer, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "both ways"));
    w.link[1] = -1;
    assert_int_equal(plan_dtfm(&w.p, &settings, memory, stage, &answer, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "peers 0 and 1"));
    w.p.width = PLAN_DTFM_MAX_WIDTH + 1;
    assert_int_equal(plan_dtfm_paths_bytes(&w.p), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_swarms_are_arranged_best),
        cmocka_unit_test(test_pipelines_are_the_best_of_an_arrangement),
        cmocka_unit_test(test_a_seed_gives_one_answer),
        cmocka_unit_test(test_no_swap_is_left),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests_name("baselines_dtfm", tests, NULL, NULL);
}
