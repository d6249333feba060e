// The choice between one stage and all of them, by measurements.
#include "cli/node_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const place_facts slow_link = {.stages = 4,
                                      .stage = 2,
                                      .compute_ns = 20000000,
                                      .transfer_ns = 300000000,
                                      .needed_bytes = 1 << 30,
                                      .allowed_bytes = UINT64_C(4) << 30};

static void expect(place_facts facts, place_verdict verdict, const char *why) {
    char text[PLACE_TEXT];
    assert_int_equal(place_choose(&facts, text), verdict);
    if (!strstr(text, why)) fail_msg("\"%s\" lacks \"%s\"", text, why);
}

static void test_the_slower_of_link_and_computing_decides(void **state) {
    (void)state;
    place_facts facts = slow_link;
    expect(facts, PLACE_WHOLE, "20 ms to compute here, and its tensors take 300 ms");
    facts.transfer_ns = facts.compute_ns;
    expect(facts, PLACE_STAGE, "20 ms to the next stage");
    facts.transfer_ns = 2 * facts.compute_ns;  // too short to matter
    expect(facts, PLACE_STAGE, "40 ms to the next stage");
    facts.transfer_ns = 0;
    expect(facts, PLACE_WAIT, "");
    facts = slow_link;
    facts.compute_ns = 0;
    expect(facts, PLACE_WAIT, "");
    facts.stages = 2;
    expect(facts, PLACE_STAGE, "one stage for relays");
}

static void test_memory_must_suffice(void **state) {
    (void)state;
    place_facts facts = slow_link;
    facts.allowed_bytes = facts.needed_bytes - 1;
    expect(facts, PLACE_STAGE, "need 1 GiB");
    facts.allowed_bytes = 0;
    expect(facts, PLACE_WHOLE, "");
    facts.max_memory = UINT64_C(8) << 30;
    expect(facts, PLACE_STAGE, "--whole divides it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_slower_of_link_and_computing_decides),
        cmocka_unit_test(test_memory_must_suffice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
