#include "base/bitset.h"
#include "base/id.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_hex_round_trip(void **state) {
    (void)state;
    const uint8_t bytes[5] = {0x00, 0x0f, 0xa5, 0xf0, 0xff};
    char text[11];
    id_hex(bytes, sizeof bytes, text);
    assert_string_equal(text, "000fa5f0ff");
    uint8_t back[5];
    assert_true(id_unhex(text, sizeof back, back));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_true(id_unhex("000FA5F0FFmore", sizeof back, back));
    assert_memory_equal(back, bytes, sizeof bytes);
}

static void test_unhex_refuses(void **state) {
    (void)state;
    uint8_t back[2];
    assert_false(id_unhex("", 1, back));
    assert_false(id_unhex("a", 1, back));
    assert_false(id_unhex("abc", 2, back));
    assert_false(id_unhex("ag", 1, back));
    assert_false(id_unhex("/0", 1, back));
    assert_false(id_unhex(":0", 1, back));
    assert_false(id_unhex("@0", 1, back));
    assert_false(id_unhex("`0", 1, back));
    assert_false(id_unhex(" 0", 1, back));
}

static void test_equality_compares_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < BRAID_ID_BYTES; i++) {
        braid_id a = {{0}}, b = {{0}};
        assert_true(id_equal(&a, &b));
        b.bytes[i] = 1;
        assert_false(id_equal(&a, &b));
    }
}

static void test_bitset(void **state) {
    (void)state;
    uint64_t set[BITSET_WORDS(130)] = {0};
    assert_int_equal(sizeof set, 3 * sizeof(uint64_t));
    bitset_add(set, 0);
    bitset_add(set, 63);
    bitset_add(set, 64);
    bitset_add(set, 129);
    assert_int_equal(bitset_count(set, 3), 4);
    assert_true(bitset_has(set, 63) && bitset_has(set, 129));
    assert_false(bitset_has(set, 128));
    bitset_remove(set, 63);
    assert_false(bitset_has(set, 63));
    assert_int_equal(bitset_count(set, 3), 3);
}

// The published first values of splitmix64: samples of a run must be the same on every machine.
static void test_rng_is_splitmix64(void **state) {
    (void)state;
    rng r = {1234567};
    assert_true(rng_next(&r) == 6457827717110365317u);
    assert_true(rng_next(&r) == 3203168211198807973u);
    assert_true(rng_next(&r) == 9817491932198370423u);
    for (int i = 0; i < 1000; i++) {
        assert_true(rng_below(&r, 7) < 7);
        double x = rng_unit(&r);
        assert_true(x >= 0 && x < 1);
    }
    assert_true(rng_seed(1, 2) != rng_seed(2, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex_round_trip), cmocka_unit_test(test_unhex_refuses),
        cmocka_unit_test(test_equality_compares_every_byte), cmocka_unit_test(test_bitset),
        cmocka_unit_test(test_rng_is_splitmix64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
