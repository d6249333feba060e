// Tickets, addresses and fault points: input that users type.
#include "node/address.h"
#include "node/fault.h"
#include "node/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static ticket make(const char *address) {
    ticket t = {.leader = {{0}}};
    for (int i = 0; i < BRAID_ID_BYTES; i++) t.leader.bytes[i] = (uint8_t)(i * 7 + 1);
    snprintf(t.address, sizeof t.address, "%s", address);
    return t;
}

static void a_ticket_reads_back(void **state) {
    (void)state;
    const char *addresses[] = {"127.0.0.1:4711", "[2001:db8::7]:1", "a-host.example:65535"};
    for (size_t i = 0; i < 6; i++) {
        ticket given = make(addresses[i % 3]), read;
        given.serves = i >= 3;
        char text[TICKET_MAX_TEXT], padded[TICKET_MAX_TEXT + 8];
        ticket_format(&given, text);
        snprintf(padded, sizeof padded, "  %s \n", text);
        assert_int_equal(ticket_parse(padded, &read, NULL), BRAID_OK);
        assert_true(id_equal(&read.leader, &given.leader));
        assert_string_equal(read.address, given.address);
        assert_int_equal(read.serves, given.serves);
    }
}

static void expect_malformed(const char *text, const char *why) {
    ticket t;
    braid_error error = {0};
    assert_int_equal(ticket_parse(text, &t, &error), BRAID_ARGUMENT);
    if (!strstr(error.text, why)) fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, error.text, why);
}

static void every_changed_character_is_noticed(void **state) {
    (void)state;
    ticket given = make("192.0.2.1:4711"), read;
    char text[TICKET_MAX_TEXT], changed[TICKET_MAX_TEXT];
    ticket_format(&given, text);
    for (size_t i = 0; i < strlen(text); i++) {
        strcpy(changed, text);
        changed[i] = changed[i] == '3' ? '4' : '3';
        assert_int_equal(ticket_parse(changed, &read, NULL), BRAID_ARGUMENT);
        strcpy(changed, text);
        changed[i] = 0;
        assert_int_equal(ticket_parse(changed, &read, NULL), BRAID_ARGUMENT);
    }
}

static void mistakes_are_reported(void **state) {
    (void)state;
    expect_malformed("", "does not begin");
    expect_malformed("hello", "does not begin");
    expect_malformed("braid2.00", "another version");
    expect_malformed("braid1.", "too short");
    ticket given = make("h:1");
    char text[TICKET_MAX_TEXT];
    ticket_format(&given, text);
    text[10] = 'x';
    expect_malformed(text, "64 hex digits");
    ticket_format(&given, text);
    strcpy(strchr(text, '@'), "@nowhere");
    expect_malformed(text, "host:port");
    char endless[4096];
    ticket_format(&given, text);
    memset(endless, 'a', sizeof endless);
    memcpy(endless, text, strlen(text));
    endless[sizeof endless - 1] = 0;
    expect_malformed(endless, "too long");
}

static void addresses_are_split(void **state) {
    (void)state;
    char host[WIRE_MAX_ADDRESS];
    uint16_t port;
    assert_true(address_split("h:1", host, &port, NULL));
    assert_string_equal(host, "h");
    assert_int_equal(port, 1);
    assert_true(address_split("[::1]:65535", host, &port, NULL));
    assert_string_equal(host, "::1");
    assert_int_equal(port, 65535);
    const char *bad[] = {"", "h", "h:", "h:0", "h:65536", "h:123456", "h:-1", ":1", "::1:5", "[::1]5", "[::1", "h o:1", "h:1x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(address_split(bad[i], host, &port, NULL));
    assert_true(address_split_listen("*", host, &port, NULL));
    assert_int_equal(port, 0);
    assert_true(address_split_listen(":80", host, &port, NULL));
    assert_string_equal(host, "");
    assert_int_equal(port, 80);
    braid_error error;
    assert_false(address_split_listen("h:x", host, &port, &error));
    assert_non_null(strstr(error.text, "\"h:x\"; write host:port"));
    assert_false(address_split_listen("127.0.0.1:99999", host, &port, &error));
    assert_string_equal(error.text, "cannot listen on \"127.0.0.1:99999\": its port, 99999, is more than 65535");
    assert_false(address_split("h:65536", host, &port, &error));
    assert_non_null(strstr(error.text, "its port, 65536, is more than 65535"));
}

static void addresses_are_joined(void **state) {
    (void)state;
    char out[WIRE_MAX_ADDRESS], host[WIRE_MAX_ADDRESS];
    assert_true(address_join("::1", 5, out));
    assert_string_equal(out, "[::1]:5");
    assert_true(address_local_towards("127.0.0.1:9", host));
    assert_string_equal(host, "127.0.0.1");
}

static void fault_points_are_read(void **state) {
    (void)state;
    fault f;
    for (int p = 1; p < FAULT_POINTS; p++) {
        char text[64];
        snprintf(text, sizeof text, "%s:%d", fault_point_name((fault_point)p), p);
        assert_int_equal(fault_parse(text, &f, NULL), BRAID_OK);
        assert_int_equal(f.point, p);
        assert_int_equal(f.count, p);
    }
    assert_int_equal(fault_parse("weight", &f, NULL), BRAID_OK);
    assert_int_equal(f.count, 1);
    const char *bad[] = {"", "never", "weigh", "weights", "weight:", "weight:0", "weight:x", "weight:9999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(fault_parse(bad[i], &f, NULL), BRAID_ARGUMENT);
}

static void a_fault_is_due_once_and_at_its_count(void **state) {
    (void)state;
    static message scratch;
    fault f = {FAULT_WEIGHT, 2};
    job weight = {.id = 1, .kind = JOB_WEIGHT}, forward = {.id = 2, .kind = JOB_FORWARD};
    effect e = {.kind = EFFECT_JOB, .job = &forward};
    assert_int_equal(fault_at_effect(&f, &e, &scratch), FAULT_GO_ON);
    e.job = &weight;
    assert_int_equal(fault_at_effect(&f, &e, &scratch), FAULT_GO_ON);
    assert_int_equal(fault_at_effect(&f, &e, &scratch), FAULT_DIE_NOW);
    assert_int_equal(fault_at_effect(&f, &e, &scratch), FAULT_GO_ON);
}

static void complete_is_distinguished_from_other_messages(void **state) {
    (void)state;
    static message msg, scratch;
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    fault f = {FAULT_COMPLETE_SENT, 1};
    msg.kind = MESSAGE_COMPLETE;
    for (uint8_t phase = PHASE_BACKWARD; phase < PHASE_COUNT; phase--) {  // first backward, then forward
        msg.u.complete.phase = phase;
        size_t count = message_encode(&msg, bytes, sizeof bytes);
        assert_true(count > 0);
        effect e = {.kind = EFFECT_SEND, .bytes = bytes, .byte_count = count, .message_kind = MESSAGE_COMPLETE};
        assert_int_equal(fault_at_effect(&f, &e, &scratch), phase == PHASE_FORWARD ? FAULT_DIE_WHEN_SENT : FAULT_GO_ON);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_reads_back),
        cmocka_unit_test(every_changed_character_is_noticed),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(addresses_are_split),
        cmocka_unit_test(addresses_are_joined),
        cmocka_unit_test(fault_points_are_read),
        cmocka_unit_test(a_fault_is_due_once_and_at_its_count),
        cmocka_unit_test(complete_is_distinguished_from_other_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
