// Addresses as people write them, and where a second process beside a peer listens and is reached.
#include "node/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void a_port_that_is_not_chosen_yet(void **state) {
    (void)state;
    char host[WIRE_MAX_ADDRESS];
    uint16_t port = 1;
    assert_false(address_split("192.0.2.7:0", host, &port, NULL));
    assert_true(address_split_public("192.0.2.7:0", host, &port, NULL));
    assert_string_equal(host, "192.0.2.7");
    assert_int_equal(port, 0);
    braid_error error = {0};
    assert_false(address_split_public("192.0.2.7", host, &port, &error));  // it is for others, so it is said
    assert_non_null(strstr(error.text, "write host:port"));
    assert_false(address_split_public(":4711", host, &port, NULL));
    assert_false(address_split_public("192.0.2.7:65536", host, &port, NULL));
}

static void beside_another_process(void **state) {
    (void)state;
    static const struct {
        const char *listen, *known, *own_listen, *own_known;
    } rows[] = {
        {NULL, NULL, "*:0", ""},
        {"0.0.0.0:4711", NULL, "0.0.0.0:0", ""},
        {"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"},
        {"0.0.0.0:5000", "198.51.100.3:4711", "0.0.0.0:5001", "198.51.100.3:4712"},
        {":4711", "home.example:4711", "*:4712", "home.example:4712"},
        {"[::]:4711", "[2001:db8::7]:4711", "[::]:4712", "[2001:db8::7]:4712"},
        {NULL, "198.51.100.3:4711", "*:0", "198.51.100.3:0"},  // which port leads to it nobody can know
        {"0.0.0.0:65535", "198.51.100.3:4711", "0.0.0.0:0", "198.51.100.3:0"},
        {"0.0.0.0:4711", "198.51.100.3:65535", "0.0.0.0:0", "198.51.100.3:0"},
    };
    char own_listen[WIRE_MAX_ADDRESS], own_known[WIRE_MAX_ADDRESS];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(address_beside(rows[i].listen, rows[i].known, own_listen, own_known));
        assert_string_equal(own_listen, rows[i].own_listen);
        assert_string_equal(own_known, rows[i].own_known);
    }
    assert_false(address_beside("0.0.0.0:4711", "198.51.100.3", own_listen, own_known));
    assert_false(address_beside("::1", NULL, own_listen, own_known));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_that_is_not_chosen_yet),
        cmocka_unit_test(beside_another_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
