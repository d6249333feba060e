// Tests of the checkers: every mutation in docs/protocol.md is planted, and must be noticed within
// the schedules of its row. unit_protocol_rare_mutants has those that need a rare coincidence.
//     sim_sim_cluster --seeds 1:10000 FLAGS --mutant NAME     shows how rare
#include "campaign_run.h"

#include <string.h>

enum { SLICE = 8 };

typedef enum kind { PLAIN, ODD, DATA, LEADERS, CROWDED, REAL, MOVES, KINDS } kind;

static const char *const kind_flags[KINDS] = {"--flaps", "--flaps --odd", "--flaps --odd --data-deaths", "--flaps --odd --leader-deaths", "--crowded --flaps --odd", "--real --flaps", "--moves --flaps --odd"};

typedef struct planted {
    sim_mutant mutant;
    kind kind;
    uint64_t first;  // first seed
    uint32_t most;   // schedules within which it must be noticed
    const char *as;  // expected part of the violation; NULL: any
} planted;

static const planted all[] = {
    {SIM_MUTANT_LOST_WEIGHT, PLAIN, 1, 8, NULL},
    {SIM_MUTANT_MOVED_PART, PLAIN, 1, 8, NULL},
    {SIM_MUTANT_FORGED_DENY, PLAIN, 1, 8, NULL},
    {SIM_MUTANT_LOST_COUNTED, PLAIN, 1, 8, NULL},
    {SIM_MUTANT_WRONG_STATE, PLAIN, 1, 8, NULL},
    {SIM_MUTANT_EARLY_APPLY, PLAIN, 1, 8, NULL},
    {SIM_MUTANT_UNROUNDED, ODD, 1, 8, NULL},
    {SIM_MUTANT_UNROUNDED_REPAIR, REAL, 33, 8, "the output is not that of the one-process run"},
    {SIM_MUTANT_MOVES_ON_SUSPICION, ODD, 47, 8, NULL},
    {SIM_MUTANT_FREES_AT_COMMIT, ODD, 3, 8, NULL},
    {SIM_MUTANT_COMPLETE_ENDS_GUARD, ODD, 15, 8, NULL},
    {SIM_MUTANT_COMMITS_TWICE, ODD, 13, 8, NULL},
    {SIM_MUTANT_FREES_AT_FINAL, ODD, 3, 8, NULL},
    {SIM_MUTANT_REFUSES_SILENTLY, ODD, 120, 8, NULL},
    {SIM_MUTANT_ROUTES_TO_THE_GONE, ODD, 98, 8, NULL},
    {SIM_MUTANT_ROUTES_TOO_MUCH, ODD, 5, 8, NULL},
    {SIM_MUTANT_COMMITS_UNANSWERED, DATA, 11, 8, NULL},
    {SIM_MUTANT_FORGETS_COMMITTED, DATA, 13, 8, NULL},
    {SIM_MUTANT_KEEPS_ITS_NUMBER, DATA, 39, 16, NULL},
    {SIM_MUTANT_KEEPS_ITS_SUM, DATA, 27, 16, NULL},
    {SIM_MUTANT_ONE_ROUND, DATA, 10, 8, NULL},
    {SIM_MUTANT_ROUND_BEFORE_CLOSE, DATA, 35, 24, NULL},
    {SIM_MUTANT_RECORDS_ARE_TRUTH, ODD, 119, 8, NULL},
    {SIM_MUTANT_OLD_RESULTS, ODD, 23, 8, NULL},
    {SIM_MUTANT_LETS_THE_LAST_GO, LEADERS, 39, 8, "I10: "},
    {SIM_MUTANT_GOES_BACK_FOR_ONE, DATA, 20, 8, "I10: "},
    {SIM_MUTANT_EVICTS_COMMITTED, CROWDED, 3, 8, "I9: "},
    {SIM_MUTANT_MOVES_WITH_SUM, MOVES, 2, 8, "J14: "},
    {SIM_MUTANT_MOVES_AT_WORK, MOVES, 2, 8, "J14: "},
    {SIM_MUTANT_MOVES_TO_THE_FULL, MOVES, 1, 8, "J14: "},
    {SIM_MUTANT_MOVES_SEVERAL, MOVES, 1, 8, "J14: "},
    {SIM_MUTANT_MOVES_AGAIN, MOVES, 8, 8, "J14: "},
    {SIM_MUTANT_READY_EARLY, MOVES, 3, 8, NULL},
};

static void notice(const planted *p) {
    const sim_campaign campaign = {.first = p->first, .count = SLICE, .flaps = true, .odd = p->kind != PLAIN && p->kind != REAL, .real = p->kind == REAL, .scarce_slots = p->kind == CROWDED, .moves = p->kind == MOVES, .leader_deaths = p->kind == LEADERS,
                                   .data_deaths = p->kind == DATA, .mutant = p->mutant};
    campaign_notices_as(campaign, p->most, kind_flags[p->kind], p->as ? p->as : "");
}

static void test_each_mutant_is_noticed(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) notice(&all[i]);
}

// The table of the page has the same rows.
static void test_protocol_page_lists_the_same_mutants(void **state) {
    (void)state;
    static char page[1 << 17];
    FILE *file = fopen(BRAID_TEST_FIXTURES "/../docs/protocol.md", "r");
    assert_non_null(file);
    size_t length = fread(page, 1, sizeof page - 1, file);
    assert_true(feof(file));
    page[length] = 0;
    fclose(file);
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        char row[128];
        snprintf(row, sizeof row, "| `%s` | `%s` | %llu |", sim_mutant_name(all[i].mutant), kind_flags[all[i].kind], (unsigned long long)all[i].first);
        if (!strstr(page, row)) fail_msg("docs/protocol.md has no row with %s", row);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_protocol_page_lists_the_same_mutants), cmocka_unit_test(test_each_mutant_is_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
