// Distributed inference under faults: random schedules that must pass, and mutations that must be
// noticed.
//     sim_sim_session                                        the tests
//     sim_sim_session --seeds FROM:COUNT [--windows] [--mutant BIT] [--trace]
#include "sim/session/session_sim.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SCHEDULES = 120, WINDOW_SCHEDULES = 60, MUTANT_SCHEDULES = 8 };

static void add(session_sim_result *sum, const session_sim_result *r) {
    uint64_t *to = &sum->events;
    const uint64_t *from = &r->events;
    size_t count = (sizeof *sum - offsetof(session_sim_result, events)) / sizeof *to;
    uint64_t longest = sum->longest_wait_ns > r->longest_wait_ns ? sum->longest_wait_ns : r->longest_wait_ns;
    for (size_t i = 0; i < count; i++) to[i] += from[i];
    sum->longest_wait_ns = longest;
}

static void print_sum(uint64_t runs, uint64_t failures, const session_sim_result *s) {
    printf("%" PRIu64 " schedules, %" PRIu64 " failures: %" PRIu64 " events, %.1f virtual hours\n", runs, failures,
           s->events, (double)s->virtual_ns / 3.6e12);
    printf("  faults: %" PRIu64 " crashes (%" PRIu64 " in mid-window), %" PRIu64 " pauses, %" PRIu64
           " fallen links, %" PRIu64 " cuts, %" PRIu64 " drains, %" PRIu64 " slow, %" PRIu64 " cancelled, %" PRIu64
           " reroutes, %" PRIu64 " moved spans\n",
           s->crashes, s->window_deaths, s->pauses, s->falls, s->cuts, s->drains, s->slow, s->cancels, s->reroutes,
           s->moves);
    printf("  texts: %" PRIu64 ", finished %" PRIu64 ", lost with their origin %" PRIu64 ", %" PRIu64
           " tokens, %" PRIu64 " refused drafts, longest wait %.2f s\n",
           s->texts, s->finished, s->lost, s->tokens, s->refused_drafts, (double)s->longest_wait_ns / 1e9);
    printf("  %" PRIu64 " repairs, %" PRIu64 " refusals, rows: %" PRIu64 " replayed, %" PRIu64 " recomputed, %" PRIu64
           " imported, %" PRIu64 " from prefix caches\n",
           s->repairs, s->refused, s->replayed_rows, s->recomputed_rows, s->imported_rows, s->adopted);
}

// Returns the number of failures.
static uint64_t run_seeds(uint64_t first, uint64_t count, session_sim_mode mode, uint64_t mutants, FILE *trace,
                          session_sim_result *sum) {
    uint64_t failures = 0;
    *sum = (session_sim_result){0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        session_sim_result r;
        session_sim_run(seed, mode, mutants, trace, &r);
        if (r.failed && failures++ < 5)
            printf("seed %" PRIu64 ": %s\n  sim_sim_session --seeds %" PRIu64 ":1%s --trace\n", seed, r.why, seed,
                   mode == SESSION_SIM_WINDOWS ? " --windows" : "");
        add(sum, &r);
    }
    return failures;
}

static void test_every_text_is_the_undisturbed_one(void **state) {
    (void)state;
    session_sim_result sum;
    uint64_t failures = run_seeds(1, SCHEDULES, SESSION_SIM_FAULTS, 0, NULL, &sum);
    print_sum(SCHEDULES, failures, &sum);
    assert_int_equal(failures, 0);
    assert_true(sum.crashes > SCHEDULES);
    assert_true(sum.repairs > SCHEDULES);
    assert_true(sum.finished > 2 * SCHEDULES);
    assert_true(sum.adopted > 100);
    assert_true(sum.refused_drafts > 0 && sum.imported_rows > 0 && sum.recomputed_rows > 0 && sum.refused > 0);
}

static void test_spans_may_die_in_mid_window(void **state) {
    (void)state;
    session_sim_result sum;
    uint64_t failures = run_seeds(1, WINDOW_SCHEDULES, SESSION_SIM_WINDOWS, 0, NULL, &sum);
    print_sum(WINDOW_SCHEDULES, failures, &sum);
    assert_int_equal(failures, 0);
    assert_true(sum.window_deaths > WINDOW_SCHEDULES);
    assert_true(sum.finished > WINDOW_SCHEDULES && sum.refused_drafts > 10 * WINDOW_SCHEDULES);
}

// A schedule that notices each mutation and passes without it.
static const struct {
    session_mutant mutant;
    uint64_t seed;
} mutations[] = {
    {SESSION_MUTANT_ANY_EPOCH, 49},      {SESSION_MUTANT_ANY_CUT, 1},        {SESSION_MUTANT_APPENDS_TWICE, 2},
    {SESSION_MUTANT_SKIPS_GAPS, 2},      {SESSION_MUTANT_KEEPS_VOID_RUN, 1}, {SESSION_MUTANT_NO_REWIND, 1},
    {SESSION_MUTANT_SENDS_DROPPED, 1},   {SESSION_MUTANT_NO_LEASE, 42},      {SESSION_MUTANT_NO_BOUND, 1},
    {SESSION_MUTANT_OTHER_LAYERS, 1},    {SESSION_MUTANT_OVERFILLS, 1},      {SESSION_MUTANT_NO_REPAIR, 1},
    {SESSION_MUTANT_FORGETS_CUTS, 1},    {SESSION_MUTANT_KEEPS_REJECTED, 1}, {SESSION_MUTANT_ADOPTS_ROWS, 1},
    {SESSION_MUTANT_NAMES_ANY_CUT, 809},
};
_Static_assert(sizeof mutations / sizeof *mutations == SESSION_MUTANTS, "a mutation without a schedule");

static void test_every_mutation_is_noticed(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof mutations / sizeof *mutations; k++) {
        session_sim_result r = {0}, sound = {0};
        uint64_t seed = mutations[k].seed;
        for (; seed < mutations[k].seed + MUTANT_SCHEDULES && !r.failed; seed++)
            session_sim_run(seed, SESSION_SIM_FAULTS, (uint64_t)1 << mutations[k].mutant, NULL, &r);
        if (!r.failed) fail_msg("mutant %d went unnoticed", (int)mutations[k].mutant);
        printf("mutant %d: noticed with seed %" PRIu64 ": %s\n", (int)mutations[k].mutant, seed - 1, r.why);
        session_sim_run(seed - 1, SESSION_SIM_FAULTS, 0, NULL, &sound);
        if (sound.failed) fail_msg("seed %" PRIu64 " fails without the mutant, too: %s", seed - 1, sound.why);
    }
}

int main(int argc, char **argv) {
    uint64_t first = 0, count = 0, mutants = 0;
    session_sim_mode mode = SESSION_SIM_FAULTS;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0)
            trace = true;
        else if (strcmp(argv[i], "--windows") == 0)
            mode = SESSION_SIM_WINDOWS;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc &&
                 sscanf(argv[i + 1], "%" SCNu64 ":%" SCNu64, &first, &count) == 2)
            i++;
        else if (strcmp(argv[i], "--mutant") == 0 && i + 1 < argc)
            mutants = (uint64_t)1 << (strtoul(argv[++i], NULL, 10) % 64);
        else
            return 2;
    }
    if (count > 0) {
        session_sim_result sum;
        uint64_t failures = run_seeds(first, count, mode, mutants, trace ? stdout : NULL, &sum);
        print_sum(count, failures, &sum);
        return failures > 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_text_is_the_undisturbed_one),
        cmocka_unit_test(test_spans_may_die_in_mid_window),
        cmocka_unit_test(test_every_mutation_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
