// ATOM's comparison from data sheets: what its conclusions rest on.
#include "bench/training/atom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// after those above
#include <cmocka.h>

#define NETWORK 50e6  // 400 Mbit/s

static void parameters_are_those_of_the_names(void **state) {
    (void)state;
    static const double billions[ATOM_MODELS] = {0.125, 0.35, 0.76, 1.3, 2.7, 6.7, 6.2, 4.9};
    for (int m = 0; m < ATOM_MODELS; m++) {
        double ratio = (double)atom_parameters(&atom_models[m]) / (billions[m] * 1e9);
        if (ratio < 0.9 || ratio > 1.35)
            fail_msg("%s has %.2f of its parameters", atom_models[m].name, ratio);  // untied heads
    }
}

static void swapping_is_fastest_and_pipelines_follow_their_rates(void **state) {
    (void)state;
    for (int d = 0; d < ATOM_DEVICES; d++)
        for (int m = 0; m < ATOM_MODELS; m++) {
            const atom_model *model = &atom_models[m];
            atom_result gpipe = atom_time(model, &atom_devices[d], ATOM_GPIPE, NETWORK),
                        pipedream = atom_time(model, &atom_devices[d], ATOM_PIPEDREAM, NETWORK);
            atom_result swap = atom_time(model, &atom_devices[d], ATOM_SWAP, NETWORK),
                        published = atom_time(model, &atom_devices[d], ATOM_SWAP_PUBLISHED, NETWORK);
            assert_true(gpipe.seconds > pipedream.seconds);
            assert_true(gpipe.utilisation > 0 && pipedream.utilisation <= 1 && swap.utilisation <= 1 + 1e-9);
            if (swap.seconds > 0) assert_true(swap.seconds < pipedream.seconds);
            if (published.seconds > 0) assert_true(swap.seconds <= published.seconds * (1 + 1e-9));
            assert_true(gpipe.seconds > atom_time(model, &atom_devices[d], ATOM_GPIPE, 10 * NETWORK).seconds);
        }
}

static void the_largest_model_swaps_on_the_largest_device(void **state) {
    (void)state;
    const atom_model *largest = &atom_models[ATOM_MODELS - 1];
    assert_true(atom_time(largest, &atom_devices[2], ATOM_SWAP, NETWORK).utilisation > 0.9);
    assert_true(atom_time(largest, &atom_devices[0], ATOM_SWAP, NETWORK).seconds == 0);
}

static void a_batch_shares_servers_by_their_rate(void **state) {
    (void)state;
    const atom_model *m = &atom_models[3];
    double fast = atom_time(m, &atom_devices[2], ATOM_SWAP, 1).seconds,
           slow = atom_time(m, &atom_devices[1], ATOM_SWAP, 1).seconds;
    atom_total t = atom_global_batch(m, 2, ATOM_SWAP, 1, 100e6, 256);
    double expected = 256 / (ATOM_GPUS / fast + ATOM_GPUS / slow) + 4.0 * (double)atom_parameters(m) / 100e6;
    assert_true(t.seconds > 0.999 * expected && t.seconds < 1.001 * expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters_are_those_of_the_names),
                                       cmocka_unit_test(swapping_is_fastest_and_pipelines_follow_their_rates),
                                       cmocka_unit_test(the_largest_model_swaps_on_the_largest_device),
                                       cmocka_unit_test(a_batch_shares_servers_by_their_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
