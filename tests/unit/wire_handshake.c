// Handshake messages: round trips, truncated, of other versions, and hostile.
#include "wire/handshake.h"

#include "wire_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
static char description[WIRE_MAX_DESCRIPTION_BYTES + 1];

static handshake_hello random_hello(wire_random *w) {
    handshake_hello hello;
    memset(&hello, 0, sizeof hello);
    hello.version = WIRE_VERSION;
    hello.run = random_hash(w);
    hello.generation = random_u64(w);
    hello.kernels = random_hash(w);
    hello.kind = random_below(w, MEMBER_KIND_COUNT);
    random_text(w, hello.address, sizeof hello.address);
    random_text(w, hello.software, sizeof hello.software);
    return hello;
}

static void test_hello_round_trip(void **state) {
    (void)state;
    rng r = seeded_rng("hello", 21);
    for (int round = 0; round < 300; round++) {
        wire_random w = {.r = &r, .full = round == 0};
        handshake_hello hello = random_hello(&w), back;
        size_t count = handshake_hello_encode(&hello, bytes, sizeof bytes);
        assert_true(count > 0);
        assert_int_equal(handshake_hello_decode(bytes, count, &back), HANDSHAKE_OK);
        assert_memory_equal(&back.run, &hello.run, sizeof hello.run);
        assert_memory_equal(&back.kernels, &hello.kernels, sizeof hello.kernels);
        assert_true(back.generation == hello.generation && back.kind == hello.kind);
        assert_string_equal(back.address, hello.address);
        assert_string_equal(back.software, hello.software);
        assert_int_equal(back.version, WIRE_VERSION);
    }
}

static handshake_welcome random_welcome(wire_random *w, size_t description_bytes) {
    handshake_hello hello = random_hello(w);
    handshake_welcome welcome = {.version = WIRE_VERSION, .run = hello.run, .generation = hello.generation, .kernels = hello.kernels,
                                 .kind = hello.kind, .leader.bytes = {1, 2, 3}, .description_bytes = description_bytes};
    memcpy(welcome.address, hello.address, sizeof welcome.address);
    memcpy(welcome.software, hello.software, sizeof welcome.software);
    random_text(w, welcome.leader_address, sizeof welcome.leader_address);
    for (size_t i = 0; i < description_bytes; i++) description[i] = (char)(1 + random_below(w, 255));
    if (description_bytes > 0) welcome.description = description;
    return welcome;
}

static void test_welcome_round_trip(void **state) {
    (void)state;
    rng r = seeded_rng("welcome", 22);
    for (int round = 0; round < 100; round++) {
        wire_random w = {.r = &r, .full = round == 0};
        size_t length = round == 0 ? WIRE_MAX_DESCRIPTION_BYTES : round % 3 == 1 ? 0 : rng_below(&r, 2000);
        handshake_welcome welcome = random_welcome(&w, length), back;
        size_t count = handshake_welcome_encode(&welcome, bytes, sizeof bytes);
        assert_true(count > 0);
        assert_int_equal(handshake_welcome_decode(bytes, count, &back), HANDSHAKE_OK);
        assert_memory_equal(&back.leader, &welcome.leader, sizeof welcome.leader);
        assert_memory_equal(&back.kernels, &welcome.kernels, sizeof welcome.kernels);
        assert_string_equal(back.leader_address, welcome.leader_address);
        assert_string_equal(back.address, welcome.address);
        assert_string_equal(back.software, welcome.software);
        assert_true(back.generation == welcome.generation && back.kind == welcome.kind);
        assert_int_equal(back.description_bytes, length);
        if (length == 0) assert_null(back.description);
        if (length > 0) assert_memory_equal(back.description, description, length);
    }
}

static void test_refuse_round_trip(void **state) {
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        handshake_refuse refuse = {.code = (uint8_t)code, .sentence = "this run is \"other\"; ask its owner for a ticket"};
        handshake_refuse back;
        size_t count = handshake_refuse_encode(&refuse, bytes, sizeof bytes);
        assert_true(count > 0);
        assert_int_equal(handshake_refuse_decode(bytes, count, &back), HANDSHAKE_OK);
        assert_int_equal(back.code, code);
        assert_string_equal(back.sentence, refuse.sentence);
        assert_non_null(handshake_refusal_text((uint8_t)code));
    }
    assert_string_equal(handshake_refusal_text(REFUSE_FULL), "there is no room for another link");
    assert_string_equal(handshake_refusal_text(REFUSE_CODES), "it gave a reason that this version does not know");
}

static void test_other_versions_are_distinguished_from_noise(void **state) {
    (void)state;
    rng r = seeded_rng("versions", 23);
    wire_random w = {.r = &r};
    handshake_hello hello = random_hello(&w), back;
    size_t count = handshake_hello_encode(&hello, bytes, sizeof bytes);
    bytes[4] = WIRE_VERSION + 1;
    assert_int_equal(handshake_hello_decode(bytes, count, &back), HANDSHAKE_OTHER_VERSION);
    assert_int_equal(back.version, WIRE_VERSION + 1);
    // other versions share only the first fields
    memset(bytes + 6, 0xff, 100);
    assert_int_equal(handshake_hello_decode(bytes, 106, &back), HANDSHAKE_OTHER_VERSION);
    assert_int_equal(handshake_hello_decode(bytes, 6, &back), HANDSHAKE_OTHER_VERSION);
    assert_int_equal(handshake_hello_decode(bytes, 5, &back), HANDSHAKE_MALFORMED);
    handshake_welcome welcome;
    assert_int_equal(handshake_welcome_decode(bytes, 6, &welcome), HANDSHAKE_OTHER_VERSION);
    // a refusal is readable in every version
    handshake_refuse refuse = {.code = REFUSE_OTHER_VERSION, .sentence = "version 2 is spoken here"}, why;
    count = handshake_refuse_encode(&refuse, bytes, sizeof bytes);
    bytes[4] = WIRE_VERSION + 1;
    assert_int_equal(handshake_refuse_decode(bytes, count, &why), HANDSHAKE_OK);
    assert_int_equal(why.version, WIRE_VERSION + 1);
    // without the magic it is not a peer of braid
    memcpy(bytes, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_int_equal(handshake_hello_decode(bytes, 18, &back), HANDSHAKE_MALFORMED);
}

static void test_every_length_but_one_is_refused(void **state) {
    (void)state;
    rng r = seeded_rng("lengths", 24);
    wire_random w = {.r = &r};
    handshake_welcome welcome = random_welcome(&w, 100), back;
    handshake_hello hello = random_hello(&w), hello_back;
    handshake_refuse refuse = {.sentence = "no"}, refuse_back;
    static uint8_t all[3][WIRE_MAX_CONTROL_BYTES];
    size_t counts[3] = {handshake_hello_encode(&hello, all[0], sizeof all[0]),
                        handshake_welcome_encode(&welcome, all[1], sizeof all[1]),
                        handshake_refuse_encode(&refuse, all[2], sizeof all[2])};
    for (int which = 0; which < 3; which++) {
        all[which][counts[which]] = 0;
        for (size_t count = 0; count <= counts[which] + 1; count++) {
            handshake_result expected = count == counts[which] ? HANDSHAKE_OK : HANDSHAKE_MALFORMED;
            handshake_result got = which == 0   ? handshake_hello_decode(all[0], count, &hello_back)
                                   : which == 1 ? handshake_welcome_decode(all[1], count, &back)
                                                : handshake_refuse_decode(all[2], count, &refuse_back);
            assert_int_equal(got, expected);
        }
    }
    assert_int_equal(handshake_hello_encode(&hello, bytes, counts[0] - 1), 0);
    assert_int_equal(handshake_welcome_encode(&welcome, bytes, counts[1] - 1), 0);
    assert_int_equal(handshake_refuse_encode(&refuse, bytes, counts[2] - 1), 0);
}

static void test_limits(void **state) {
    (void)state;
    handshake_welcome welcome = {.description = description, .description_bytes = sizeof description};
    memset(description, 'd', sizeof description);
    assert_int_equal(handshake_welcome_encode(&welcome, bytes, sizeof bytes), 0);
    welcome.description_bytes = 3;
    size_t count = handshake_welcome_encode(&welcome, bytes, sizeof bytes);
    assert_true(count > 0);
    handshake_welcome back;
    bytes[count - 1] = '\0';  // a text with an embedded zero byte
    assert_int_equal(handshake_welcome_decode(bytes, count, &back), HANDSHAKE_MALFORMED);
    welcome.description = NULL;
    assert_int_equal(handshake_welcome_encode(&welcome, bytes, sizeof bytes), 0);
    // above the limit, and the bytes are really present
    welcome = (handshake_welcome){0};
    count = handshake_welcome_encode(&welcome, bytes, sizeof bytes);
    memset(bytes + count, 'd', WIRE_MAX_DESCRIPTION_BYTES + 1);
    for (uint32_t over = 0; over < 2; over++) {
        uint32_t length = WIRE_MAX_DESCRIPTION_BYTES + over;
        for (int i = 0; i < 4; i++) bytes[count - 4 + (size_t)i] = (uint8_t)(length >> (8 * i));
        handshake_result expected = over == 0 ? HANDSHAKE_OK : HANDSHAKE_MALFORMED;
        assert_int_equal(handshake_welcome_decode(bytes, count + length, &back), expected);
    }
    // messages are shown on terminals, so escape sequences are refused
    handshake_refuse refuse = {.sentence = "\x1b[2J"};
    assert_int_equal(handshake_refuse_encode(&refuse, bytes, sizeof bytes), 0);
    handshake_hello hello = {.kind = MEMBER_KIND_COUNT};
    assert_int_equal(handshake_hello_encode(&hello, bytes, sizeof bytes), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_round_trip),
        cmocka_unit_test(test_welcome_round_trip),
        cmocka_unit_test(test_refuse_round_trip),
        cmocka_unit_test(test_other_versions_are_distinguished_from_noise),
        cmocka_unit_test(test_every_length_but_one_is_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
