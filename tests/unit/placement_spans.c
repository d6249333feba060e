// span_route against every path of small views, and its refusals.
#include "base/rng.h"
#include "placement/spans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS = 6, LAYERS = 6 };

typedef struct view {
    span_view span[SPANS];
    span_query query;
    uint64_t hop[SPANS + 1][SPANS + 1];
} view;

static uint64_t hop_ns(const void *context, uint32_t from, uint32_t to) {
    return ((const view *)context)->hop[from][to];
}

static void make(uint64_t seed, view *v) {
    rng r = {seed};
    *v = (view){.query = {.layers = LAYERS, .room = 100, .tokens = 50, .ahead = 64}};
    for (uint32_t i = 0; i < SPANS; i++) {
        uint16_t begin = (uint16_t)rng_below(&r, LAYERS);
        v->span[i] = (span_view){.begin = begin,
                                 .end = (uint16_t)(begin + 1 + rng_below(&r, (uint64_t)(LAYERS - begin))),
                                 .usable = rng_below(&r, 8) > 0,
                                 .layer_ns = 1000 + (uint32_t)rng_below(&r, 100000),
                                 .waiting_layers = (uint32_t)rng_below(&r, 4),
                                 .free_tokens = 100 * (1 + rng_below(&r, LAYERS)),
                                 .cached_tokens = rng_below(&r, 3) == 0 ? 50 : 0};
    }
    for (uint32_t i = 0; i <= SPANS; i++)
        for (uint32_t j = 0; j <= SPANS; j++)
            v->hop[i][j] = rng_below(&r, 20) == 0 ? UINT64_MAX : 1000 + rng_below(&r, 300000);
}

static uint64_t visit_ns(const view *v, uint32_t i, uint32_t layers) {
    const span_view *s = &v->span[i];
    if (layers * v->query.room > s->free_tokens) return UINT64_MAX;
    uint64_t missing = v->query.tokens > s->cached_tokens ? v->query.tokens - s->cached_tokens : 0;
    uint64_t work = (uint64_t)layers * s->layer_ns;
    return work + work * missing / v->query.ahead + (uint64_t)s->waiting_layers * s->layer_ns;
}

// The least cost from span `at` with `layer` layers done; `used`: spans that were visited.
static uint64_t search(const view *v, uint32_t at, uint16_t layer, uint32_t used) {
    if (layer == LAYERS) return v->hop[at][SPANS];
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < SPANS; i++) {
        const span_view *s = &v->span[i];
        if ((used >> i & 1) != 0 || !s->usable || layer < s->begin || layer >= s->end || v->hop[at][i] == UINT64_MAX)
            continue;
        for (uint16_t end = (uint16_t)(layer + 1); end <= s->end; end++) {
            uint64_t here = visit_ns(v, i, (uint32_t)(end - layer)), rest = search(v, i, end, used | 1u << i);
            if (here == UINT64_MAX || rest == UINT64_MAX) continue;
            uint64_t cost = v->hop[at][i] + here + rest;
            if (cost < best) best = cost;
        }
    }
    return best;
}

static void check_path(const view *v, const span_path *path) {
    uint64_t cost = 0;
    uint32_t at = SPANS, layer = 0, used = 0;
    for (uint32_t h = 0; h < path->count; h++) {
        const span_visit *visit = &path->visit[h];
        assert_true(visit->span < SPANS && v->span[visit->span].usable);
        assert_int_equal(visit->begin, layer);
        assert_true(visit->begin >= v->span[visit->span].begin && visit->end <= v->span[visit->span].end);
        assert_int_equal(used >> visit->span & 1, 0);
        used |= 1u << visit->span;
        cost += v->hop[at][visit->span] + visit_ns(v, visit->span, (uint32_t)(visit->end - visit->begin));
        at = visit->span;
        layer = visit->end;
    }
    assert_int_equal(layer, LAYERS);
    assert_int_equal(path->cost_ns, cost + v->hop[at][SPANS]);
}

static void test_paths_are_the_cheapest(void **state) {
    span_work *work = malloc(sizeof *work);
    assert_non_null(work);
    uint32_t found = 0, best = 0, none = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        view v;
        span_path path;
        uint16_t missing;
        make(seed, &v);
        uint64_t least = search(&v, SPANS, 0, 0);
        bool routed = span_route(v.span, SPANS, &v.query, hop_ns, &v, work, &path, &missing);
        if (least == UINT64_MAX) {
            assert_false(routed);
            assert_true(missing < LAYERS || v.hop[0][SPANS] > 0);
            none++;
        }
        if (!routed) continue;
        check_path(&v, &path);
        assert_true(path.cost_ns >= least);
        found++;
        best += path.cost_ns == least;
    }
    free(work);
    // a walk that visits a span twice may have been cheaper, then the result may miss the optimum: 236 of
    // 243 are optimal with these hops, which keep no triangle inequality
    assert_true(found > 200 && none > 20);
    assert_true(best * 100 >= found * 95);
}

static void test_prefix_holders_are_preferred(void **state) {
    span_work *work = malloc(sizeof *work);
    assert_non_null(work);
    view v = {.query = {.layers = LAYERS, .room = 10, .tokens = 1000, .ahead = 64}};
    span_path path;
    uint16_t missing;
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        v.span[i] = (span_view){.end = LAYERS, .usable = true, .layer_ns = 1000 * (i + 1), .free_tokens = 1000};
    assert_true(span_route(v.span, 2, &v.query, hop_ns, &v, work, &path, &missing));
    assert_int_equal(path.visit[0].span, 0);
    v.span[1].cached_tokens = 1000;
    assert_true(span_route(v.span, 2, &v.query, hop_ns, &v, work, &path, &missing));
    assert_int_equal(path.visit[0].span, 1);
    v.span[1].free_tokens = 9;  // one token short of one layer
    assert_true(span_route(v.span, 2, &v.query, hop_ns, &v, work, &path, &missing));
    assert_int_equal(path.visit[0].span, 0);
    free(work);
}

static void test_views_without_a_path_are_refused(void **state) {
    span_work *work = malloc(sizeof *work);
    assert_non_null(work);
    view v = {.query = {.layers = LAYERS, .room = UINT32_MAX, .tokens = 2, .ahead = 0}};
    span_path path;
    uint16_t missing;
    (void)state;
    v.span[0] = (span_view){.end = 4, .usable = true, .layer_ns = UINT32_MAX, .free_tokens = UINT64_MAX};
    v.span[1] = (span_view){.begin = 3, .end = LAYERS + 1, .usable = true, .layer_ns = 1, .free_tokens = UINT64_MAX};
    assert_false(span_route(v.span, 2, &v.query, hop_ns, &v, work, &path, &missing));
    assert_int_equal(missing, 4);
    assert_false(span_route(v.span, SPANS_MAX + 1, &v.query, hop_ns, &v, work, &path, &missing));
    v.query.layers = 0;
    assert_false(span_route(v.span, 2, &v.query, hop_ns, &v, work, &path, &missing));
    assert_false(span_route(v.span, 0, &v.query, hop_ns, &v, work, &path, &missing));
    free(work);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_the_cheapest),
        cmocka_unit_test(test_prefix_holders_are_preferred),
        cmocka_unit_test(test_views_without_a_path_are_refused),
    };
    return cmocka_run_group_tests_name("placement_spans", tests, NULL, NULL);
}
