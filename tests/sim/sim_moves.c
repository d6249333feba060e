// Random schedules in which the leader moves relays to other stages (docs/protocol.md, rule J14),
// with deaths while a relay leaves, joins again and fetches the other stage's state.
#include "campaign_run.h"

enum { MOST_STEPS = 100 };

static void moves_pass(sim_campaign campaign) {
    sim_campaign_result r;
    campaign.moves = true;
    campaign_passes(campaign, MOST_STEPS, &r);
    print_message("  %llu relays moved\n", (unsigned long long)r.moves);
    assert_true(r.moves > campaign.count);
}

static void test_moves_with_deaths_of_relays(void **state) {
    (void)state;
    moves_pass((sim_campaign){.count = 80, .flaps = true, .odd = true});
}

static void test_moves_with_deaths_of_leaders(void **state) {
    (void)state;
    moves_pass((sim_campaign){.count = 60, .flaps = true, .odd = true, .leader_deaths = true});
}

static void test_moves_on_real_kernels(void **state) {
    (void)state;
    moves_pass((sim_campaign){.count = 20, .real = true, .flaps = true});
}

// After a rollback a moved relay's iteration comes again.
static void test_move_after_a_rollback(void **state) {
    (void)state;
    campaign_ends((sim_campaign){.moves = true, .flaps = true, .odd = true, .data_deaths = true, .first = 3702});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_with_deaths_of_relays),
        cmocka_unit_test(test_moves_with_deaths_of_leaders),
        cmocka_unit_test(test_moves_on_real_kernels),
        cmocka_unit_test(test_move_after_a_rollback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
