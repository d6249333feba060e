// No decision waits for a timer once all its inputs are there: a second tick right after each step
// of a peer has no effect.
#include "case_run.h"

static const uint64_t MILLISECOND = 1000000;

static void look(void **state, const char *name, sim_case c) {
    sim_report report;
    c.check_late_decisions = true;
    case_run(*state, name, &c, false, "", &report);
}

static void test_one_relay(void **state) {
    for (uint64_t seed = 1; seed <= 8; seed++) look(state, "one relay", sim_case_plain(seed, 2, 1, 1, 4, 5));
}

static void test_relays(void **state) {
    for (uint64_t seed = 11; seed <= 26; seed++) look(state, "relays", sim_case_plain(seed, (uint16_t)(2 + seed % 3), 1, 4 + (uint32_t)(seed % 5), 6, 4));
}

static void test_data_peers(void **state) {
    for (uint64_t seed = 31; seed <= 42; seed++) {
        sim_case c = sim_case_plain(seed, (uint16_t)(2 + seed % 3), 3, 6, 9, 4);
        c.voters = seed % 2 == 0 ? 1 : 3;
        look(state, "data peers", c);
    }
}

// Several members of each stage, blocks that each of them adds up, and an fp32 sum that depends on
// the attempt.
static void test_reduction(void **state) {
    for (uint64_t seed = 51; seed <= 62; seed++) {
        sim_case c = sim_case_plain(seed, 3, 2, 8, 8, 4);
        c.fake.blocks = 1 + (uint32_t)(seed % 24);
        c.fake.fast = seed % 2 == 0;
        look(state, "reduction", c);
    }
}

static void test_losses_and_checkpoints(void **state) {
    for (uint64_t seed = 71; seed <= 82; seed++) {
        sim_case c = sim_case_plain(seed, 3, 2, 5, 8, 5);
        c.eval_every = 2;
        c.eval_microbatches = 3;
        c.checkpoint_every = 1 + (uint32_t)(seed % 2);
        c.fake.void_percent = seed % 3 == 0 ? 20 : 0;
        c.voters = seed % 2 == 0 ? 1 : 3;
        look(state, "losses and checkpoints", c);
    }
}

static void test_joiners_and_shadows(void **state) {
    for (uint64_t seed = 91; seed <= 106; seed++) {
        sim_case c = sim_case_plain(seed, 3, 2, 3, 8, 6);
        c.joins = 2;
        c.join_ns[0] = 700 * MILLISECOND;
        c.join_ns[1] = 1900 * MILLISECOND;
        c.data_joins = seed % 2;
        c.checkpoint_every = 3;
        c.shadows = seed % 3 == 0;
        c.shadow_peers = seed % 3 == 0 ? 3 : 0;
        look(state, "joiners and shadows", c);
    }
}

// After deaths, departures and cuts the remaining peers' decisions do not wait either.
static void test_deaths_departures_and_cuts(void **state) {
    for (uint64_t seed = 1001; seed <= 1160; seed++) {
        sim_case c = sim_case_random(seed, false);
        switch (seed % 8) {
        case 1: sim_case_add_flaps(&c); break;
        case 2: sim_case_make_unusual(&c); break;
        case 3: sim_case_add_data_deaths(&c); break;
        case 4: sim_case_add_leader_deaths(&c); break;
        case 5: sim_case_add_stage_deaths(&c); break;
        case 6: sim_case_add_partitions(&c); break;
        case 7: sim_case_add_forwarders(&c); break;
        default: sim_case_make_private(&c); break;
        }
        if (seed % 16 == 0) sim_case_make_elastic(&c);
        look(state, "troubles", c);
    }
}

static int begin(void **state) {
    static sim_bench bench;
    *state = &bench;
    return 0;
}

static int end(void **state) {
    sim_bench_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_relay),              cmocka_unit_test(test_relays),
        cmocka_unit_test(test_data_peers),             cmocka_unit_test(test_reduction),
        cmocka_unit_test(test_losses_and_checkpoints), cmocka_unit_test(test_joiners_and_shadows),
        cmocka_unit_test(test_deaths_departures_and_cuts),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
