// The table of places: symmetric, complete, and some known facts.
#include "sim/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static uint32_t place(const char *name) {
    for (uint32_t i = 0; i < place_count(); i++)
        if (strcmp(place_name(i), name) == 0) return i;
    fail_msg("no place is called %s", name);
    return 0;
}

static void test_links_are_symmetric_and_complete(void **state) {
    (void)state;
    assert_int_equal(place_count(), 10);
    int64_t slowest = INT64_MAX, fastest = 0;
    for (uint32_t a = 0; a < place_count(); a++)
        for (uint32_t b = 0; b < place_count(); b++) {
            if (a != b) assert_string_not_equal(place_name(a), place_name(b));
            assert_true(place_latency_ns(a, b) >= 1000000 && place_latency_ns(a, b) <= 265000000);
            assert_true(place_bandwidth_bps(a, b) >= 326000000);
            assert_int_equal(place_latency_ns(a, b), place_latency_ns(b, a));
            assert_int_equal(place_bandwidth_bps(a, b), place_bandwidth_bps(b, a));
            int64_t scaled = place_scaled_bps(a, b, 50, 500);
            assert_int_equal(scaled, place_scaled_bps(b, a, 50, 500));
            if (a != b && scaled < slowest) slowest = scaled;
            if (a != b && scaled > fastest) fastest = scaled;
            if (a == b) assert_int_equal(scaled, 500);
        }
    assert_int_equal(slowest, 50);
    assert_int_equal(fastest, 500);
}

static void test_known_pairs(void **state) {
    (void)state;
    uint32_t oregon = place("Oregon"), virginia = place("Virginia"), tokyo = place("Tokyo");
    uint32_t london = place("London"), sydney = place("Sydney"), ireland = place("Ireland");
    assert_int_equal(place_latency_ns(oregon, virginia), 67000000);
    assert_int_equal(place_bandwidth_bps(oregon, virginia), 790000000);
    assert_int_equal(place_latency_ns(london, sydney), 262000000);
    assert_int_equal(place_bandwidth_bps(london, sydney), 326000000);
    assert_int_equal(place_bandwidth_bps(tokyo, ireland), 465000000);
    assert_int_equal(place_latency_ns(ireland, tokyo), 199000000);
    assert_int_equal(place_scaled_bps(london, sydney, 50, 500), 50);
    assert_int_equal(place_scaled_bps(virginia, london, 50, 500), 500);
    assert_int_equal(place_scaled_bps(tokyo, ireland, 0, 834), 139);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_are_symmetric_and_complete),
        cmocka_unit_test(test_known_pairs),
    };
    return cmocka_run_group_tests_name("sim_places", tests, NULL, NULL);
}
