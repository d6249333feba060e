// Plans for swapping: against exhaustive search, against ATOM's Algorithm 1, and their time.
#include "base/rng.h"
#include "plan/swap.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
// after those above
#include <cmocka.h>

enum { MOST = 7 };

static double random_s(rng *r) { return (double)rng_below(r, 100) / 10; }

static void random_items(rng *r, swap_item *item, uint32_t count) {
    bool applied = rng_below(r, 2);
    for (uint32_t i = 0; i < count; i++)
        item[i] = (swap_item){random_s(r),
                              random_s(r),
                              random_s(r),
                              random_s(r),
                              random_s(r),
                              applied ? random_s(r) : 0,
                              1 + (double)rng_below(r, 20),
                              (double)rng_below(r, 5)};
}

// All numbers of resident items and all sets of cuts.
static double exhaustive(const swap_item *item, uint32_t count, const swap_machine *m) {
    double best = INFINITY;
    for (uint32_t resident = 0; resident <= count; resident++) {
        uint32_t inner = count > resident + 1 ? count - resident - 1 : 0;
        for (uint32_t cuts = 0; cuts < 1u << inner; cuts++) {
            swap_plan p = {.resident = resident, .begin = {resident}};
            for (uint32_t i = 0; i < inner; i++)
                if (cuts >> i & 1) p.begin[++p.groups] = resident + 1 + i;
            if (resident < count) p.begin[++p.groups] = count;
            if (swap_plan_time(item, count, m, &p, NULL, NULL) && p.seconds < best) best = p.seconds;
        }
    }
    return best;
}

static void best_equals_exhaustive_search(void **state) {
    (void)state;
    uint32_t found = 0, swapped = 0;
    for (uint64_t n = 0; n < 3000; n++) {
        rng r = {rng_seed(11, n)};
        uint32_t count = 1 + (uint32_t)rng_below(&r, MOST);
        swap_item item[MOST];
        random_items(&r, item, count);
        swap_machine m = {.memory = 5 + (double)rng_below(&r, 80), .duplex = rng_below(&r, 2)};
        void *room = malloc(swap_plan_room(count));
        swap_plan best;
        braid_error error = {0};
        braid_err err = swap_plan_best(item, count, &m, room, &best, &error);
        double least = exhaustive(item, count, &m);
        free(room);
        if (err) {
            assert_true(least == INFINITY);
            continue;
        }
        found++;
        swapped += best.groups > 1;
        if (fabs(best.seconds - least) > 1e-9 * (1 + least))
            fail_msg("instance %llu: %.3f s, the least is %.3f s", (unsigned long long)n, best.seconds, least);
    }
    assert_true(found > 1500 && swapped > 500);
}

static void published_is_never_better(void **state) {
    (void)state;
    uint32_t both = 0, only_ours = 0;
    for (uint64_t n = 0; n < 2000; n++) {
        rng r = {rng_seed(12, n)};
        uint32_t count = 2 + (uint32_t)rng_below(&r, MOST - 1);
        swap_item item[MOST];
        random_items(&r, item, count);
        swap_machine m = {.memory = 10 + (double)rng_below(&r, 80)};
        void *room = malloc(swap_plan_room(count));
        swap_plan ours, theirs;
        uint64_t visited;
        braid_error error = {0};
        braid_err err = swap_plan_best(item, count, &m, room, &ours, &error);
        braid_err other = swap_plan_published(item, count, &m, 1 << 20, &visited, &theirs, &error);
        free(room);
        if (!other && theirs.seconds < INFINITY) {
            assert_int_equal(err, BRAID_OK);
            assert_true(ours.seconds <= theirs.seconds * (1 + 1e-12));
            both++;
        } else {
            only_ours += !err;
        }
    }
    assert_true(both > 50 && only_ours > 500);
}

// Three equal sub-models. Forward: 2, then max(2, 3) because the third is read, then 2. Backward: 4,
// then max(4, 1 + 5) because the third is written and the first read over one disk, then max(4, 1).
static void time_by_hand(void **state) {
    (void)state;
    swap_item one = {.forward_s = 2, .backward_s = 4, .load_s = 3, .again_s = 5, .store_s = 1, .bytes = 10};
    swap_item item[3] = {one, one, one};
    swap_plan p = {.groups = 3, .begin = {0, 1, 2, 3}};
    swap_machine shared = {.memory = 20}, small = {.memory = 19}, large = {.memory = 30, .duplex = true};
    assert_true(swap_plan_time(item, 3, &shared, &p, NULL, NULL));
    assert_true(fabs(p.seconds - (2 + 3 + 2 + 4 + 6 + 4)) < 1e-12);
    assert_true(fabs(p.compute_s - 18) < 1e-12);
    assert_false(swap_plan_time(item, 3, &small, &p, NULL, NULL));
    assert_true(swap_plan_time(item, 3, &large, &p, NULL, NULL));
    assert_true(fabs(p.seconds - (2 + 3 + 2 + 4 + 5 + 4)) < 1e-12);
}

static void plan_in_time(const swap_item *item, double memory, void *room) {
    swap_machine m = {.memory = memory};
    swap_plan best;
    braid_error error = {0};
    clock_t before = clock();
    assert_int_equal(swap_plan_best(item, 98, &m, room, &best, &error), BRAID_OK);
    double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
    printf("%.0f of 1030: %u resident, %u sub-models, %.1f s an iteration (%.1f s of computing), found in %.3f s\n",
           memory, best.resident, best.groups, best.seconds, best.compute_s, seconds);
    assert_true(seconds < 1);
}

static void ninety_six_layers_take_less_than_a_second(void **state) {
    (void)state;
    swap_item item[98];
    for (uint32_t i = 0; i < 98; i++) item[i] = (swap_item){1, 2, 0.9, 0.9, 2.7, 0, 10, 1};
    item[0] = item[97] = (swap_item){0.1, 0.2, 3, 3, 9, 0, 35, 1};
    void *room = malloc(swap_plan_room(98));
    // with much memory sub-models may be long, and there are more of them to compare
    for (double memory = 200; memory < 1030; memory += 200) plan_in_time(item, memory, room);
    free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(best_equals_exhaustive_search),
                                       cmocka_unit_test(published_is_never_better), cmocka_unit_test(time_by_hand),
                                       cmocka_unit_test(ninety_six_layers_take_less_than_a_second)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
