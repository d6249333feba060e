// Addresses in the notation of users, and the addresses of a second process beside a peer.
#include "node/address.h"
#include "node/own_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void an_ephemeral_port(void **state) {
    (void)state;
    char host[WIRE_MAX_ADDRESS];
    uint16_t port = 1;
    assert_false(address_split("192.0.2.7:0", host, &port, NULL));
    assert_true(address_split_public("192.0.2.7:0", host, &port, NULL));
    assert_string_equal(host, "192.0.2.7");
    assert_int_equal(port, 0);
    braid_error error = {0};
    // a public address, so it is advertised
    assert_false(address_split_public("192.0.2.7", host, &port, &error));
    assert_non_null(strstr(error.text, "write host:port"));
    assert_false(address_split_public(":4711", host, &port, NULL));
    assert_false(address_split_public("192.0.2.7:65536", host, &port, NULL));
}

static void address_beside_another_process(void **state) {
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
        {NULL, "198.51.100.3:4711", "*:0", "198.51.100.3:0"},  // the port that leads to it is unknown
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

static void lists_of_addresses(void **state) {
    (void)state;
    char list[WIRE_MAX_ADDRESS] = "", one[WIRE_MAX_ADDRESS];
    assert_true(address_list_add(list, "192.0.2.7", 4711));
    assert_true(address_list_add(list, "2001:db8::7", 4711));
    assert_string_equal(list, "192.0.2.7:4711,[2001:db8::7]:4711");
    const char *rest = list;
    assert_true(address_list_next(&rest, one));
    assert_string_equal(one, "192.0.2.7:4711");
    assert_true(address_list_next(&rest, one));
    assert_string_equal(one, "[2001:db8::7]:4711");
    assert_false(address_list_next(&rest, one));
    assert_true(address_list_check(list, NULL));
    assert_true(address_list_check("host:1", NULL));
    const char *bad[] = {"", ",", "h:1,", "h:1,,h:2", ",h:1", "h:1,h", "h:1,[fe80::1%eth0]:2", "h:0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (address_list_check(bad[i], NULL)) fail_msg("'%s'", bad[i]);
    while (address_list_add(list, "2001:db8:1111:2222:3333:4444:5555:6666", 65535)) assert_true(strlen(list) < WIRE_MAX_ADDRESS);
    assert_true(address_list_check(list, NULL));
}

static void kinds_of_addresses(void **state) {
    (void)state;
    static const struct {
        const char *host;
        address_kind kind;
    } rows[] = {
        {"127.0.0.1", ADDRESS_LOOPBACK},   {"127.0.1.1", ADDRESS_LOOPBACK},   {"::1", ADDRESS_LOOPBACK},          {"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
        {"128.0.0.1", ADDRESS_NUMBER},     {"10.0.0.1", ADDRESS_NUMBER},      {"2001:db8::7", ADDRESS_NUMBER},    {"fd00::2", ADDRESS_NUMBER},
        {"169.254.1.1", ADDRESS_LINK_LOCAL}, {"fe80::1", ADDRESS_LINK_LOCAL}, {"0.0.0.0", ADDRESS_UNSPECIFIED},   {"::", ADDRESS_UNSPECIFIED},
        {"home.example", ADDRESS_NAME},    {"1.2.3", ADDRESS_NAME},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (address_kind_of(rows[i].host) != rows[i].kind) fail_msg("%s", rows[i].host);
    assert_true(address_list_is_local("192.0.2.7:1,127.0.0.1:1"));
    assert_true(address_list_is_local("[::1]:1"));
    assert_false(address_list_is_local("192.0.2.7:1,[2001:db8::7]:1"));
}

static void a_scope_is_refused_with_a_reason(void **state) {
    (void)state;
    char host[WIRE_MAX_ADDRESS];
    uint16_t port;
    braid_error error = {0};
    assert_false(address_split("[fe80::1%eth0]:4711", host, &port, &error));
    assert_non_null(strstr(error.text, "%eth0 names an interface of one machine"));
    assert_false(address_split_listen("[fe80::1%2]:4711", host, &port, &error));
    assert_non_null(strstr(error.text, "cannot listen on \"[fe80::1%2]:4711\": %2 names"));
    assert_false(address_split_public("[fe80::1]:0", host, &port, &error));
    assert_non_null(strstr(error.text, "a link-local address (fe80::) belongs to one interface"));
}

static void expect_hosts(const own_hosts *hosts, const char *text) {
    char all[OWN_MOST_ADDRESSES * WIRE_MAX_ADDRESS] = "";
    for (uint32_t i = 0; i < hosts->count; i++) {
        strcat(all, i > 0 ? " " : "");
        strcat(all, hosts->host[i]);
    }
    assert_string_equal(all, text);
}

static const own_interface interfaces[] = {
    {"lo", "127.0.0.1", false},        {"lo", "::1", false},           {"docker0", "172.17.0.1", true}, {"br-12ab", "172.18.0.1", true}, {"eth0", "fe80::1", true},
    {"eth0", "fd00::2", true},         {"eth0", "2001:db8::2", true},  {"eth0", "192.168.1.2", true},   {"eth1", "10.0.0.2", false},     {"wlan0", "169.254.3.3", true},
    {"wlan0", "192.168.1.3", true},
};

static void interfaces_in_order(void **state) {
    (void)state;
    own_hosts hosts = {.count = 0};
    size_t all = sizeof interfaces / sizeof interfaces[0];
    own_hosts_add_interfaces(&hosts, interfaces, all, false);
    expect_hosts(&hosts, "192.168.1.2 192.168.1.3 2001:db8::2 fd00::2");
    hosts.count = 0;
    own_hosts_add_interfaces(&hosts, interfaces, all, true);
    expect_hosts(&hosts, "192.168.1.2 192.168.1.3");
    hosts.count = 0;
    assert_true(own_hosts_add(&hosts, "192.168.1.3", false));  // found by its route
    own_hosts_add_interfaces(&hosts, interfaces, all, true);
    expect_hosts(&hosts, "192.168.1.3 192.168.1.2");
    hosts.count = 0;
    own_hosts_add_interfaces(&hosts, interfaces, 5, false);  // besides bridges there is no usable interface
    expect_hosts(&hosts, "172.17.0.1 172.18.0.1");
    hosts.count = 0;
    own_hosts_add_interfaces(&hosts, interfaces, 2, false);
    expect_hosts(&hosts, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_addresses),
        cmocka_unit_test(kinds_of_addresses),
        cmocka_unit_test(a_scope_is_refused_with_a_reason),
        cmocka_unit_test(interfaces_in_order),
        cmocka_unit_test(an_ephemeral_port),
        cmocka_unit_test(address_beside_another_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
