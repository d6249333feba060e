// The exact bytes of some messages, so that a change of the layout requires a new WIRE_VERSION.
#include "hex.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/message.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint8_t bytes[WIRE_MAX_CONTROL_BYTES], expected[4096];

static void assert_bytes(size_t count, const char *hex) {
    size_t expected_count = hex_bytes(hex, expected, sizeof expected);
    assert_true(expected_count > 0);
    assert_int_equal(count, expected_count);
    assert_memory_equal(bytes, expected, count);
}

static void test_layout_belongs_to_this_version(void **state) {
    (void)state;
    assert_int_equal(WIRE_VERSION, 18);
}

static const message_subject subject = {.m = 0x01020304, .stage = 5, .owner_term = 7};
#define HEADER_HEX " 0800000000000000 0900000000000000 0a00000000000000 "
#define SUBJECT_HEX "04030201 0500 0700000000000000 "

static message header(message_kind kind) {
    return (message){.kind = (uint8_t)kind, .iteration = 8, .sender = 9, .log_position = 10};
}

static void test_forward(void **state) {
    (void)state;
    message m = header(MESSAGE_FORWARD);
    m.u.forward = (message_forward){.subject = subject, .owner = 0x0b, .forward_to = 4, .home = true,
                                    .hash = 0x1122334455667788, .parcel = {0x0f, 16}, .path = {.stages = 3, .member = {0x0b, 0x0c}},
                                    .ahead_count = 2, .ahead = {{0x0d, 3, 0x0f, 0}, {0x0e, 4, 0x0e, 0x0f}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "01" HEADER_HEX SUBJECT_HEX "0b00000000000000 0400 01 00 8877665544332211 0f000000 1000"
                 "0300 0b00000000000000 0c00000000000000 0000000000000000 02000000 0d000000 03000000 0f000000 00000000 0e000000 04000000 0e000000 0f000000");
}

static void test_refusals(void **state) {
    (void)state;
    message m = header(MESSAGE_DENY);
    m.u.deny = (message_deny){.subject = subject, .phase = PHASE_BACKWARD, .reason = DENY_VERSION};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "05" HEADER_HEX SUBJECT_HEX "01 02");
    m = header(MESSAGE_DENY_COMMIT);
    m.u.deny_commit = (message_deny_commit){.subject = subject, .reason = COMMIT_MISSING, .rev = 1000};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "06" HEADER_HEX SUBJECT_HEX "01 e8030000");
    m = header(MESSAGE_DENY_RESUME);
    m.u.deny_resume.subject = subject;
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "07" HEADER_HEX SUBJECT_HEX);
    m = header(MESSAGE_DENY_GET);
    m.u.deny_get = (message_deny_get){.what = GET_STATE, .stage = 3, .first = 16, .reason = GET_LATER, .wait_ms = 1000};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "08" HEADER_HEX "02 0300 10000000 01 e8030000");
    m = header(MESSAGE_NO_PEER);
    m.u.no_peer.subject = subject;
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "09" HEADER_HEX SUBJECT_HEX);
    m = header(MESSAGE_EVICTED);
    m.u.evicted.subject = subject;
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "0a" HEADER_HEX SUBJECT_HEX);
}

static void test_settled(void **state) {
    (void)state;
    message m = header(MESSAGE_SETTLED);
    m.u.settled = (message_settled){.subject = subject, .overflow = true, .tokens = 256, .loss = 1.5,
                                    .rev = {3, 4}, .path = {.stages = 2, .member = {1, 2}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "13" HEADER_HEX SUBJECT_HEX "00 01 00010000 000000000000f83f"
                 "0200 0100000000000000 0200000000000000 03000000 04000000");
}

static void test_begin_aggregation(void **state) {
    (void)state;
    message m = header(MESSAGE_BEGIN_AGGREGATION);
    m.u.begin = (message_begin){.stage = 1, .term = 2, .round = 3, .close_index = 4, .tokens = 5, .parts = 1, .owners = 1,
                                .part = {{.member = 6, .set.words = {0xff, 0, 1}}},
                                .owner = {{.member = 6, .first = 16, .count = 32}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "14" HEADER_HEX "0100 0200000000000000 0300000000000000 0400000000000000 0500000000000000"
                 "0100 0600000000000000 0300 ff00000000000000 0000000000000000 0100000000000000"
                 "0100 0600000000000000 10000000 20000000");
}

static void test_heartbeat(void **state) {
    (void)state;
    message m = header(MESSAGE_HEARTBEAT);
    m.u.heartbeat = (message_heartbeat){.ready = 1, .can_take = 2, .free_slots = 3, .queued = 4, .progress = 5,
                                        .forward_ns = 6, .backward_ns = 7, .leads = 8, .reaches = 9, .saved = 10};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "1b" HEADER_HEX "0100000000000000 0200000000000000 03000000 04000000 0500000000000000"
                 "0600000000000000 0700000000000000 0800000000000000 0900000000000000 0a00000000000000");
}

static void test_log_of_a_member(void **state) {
    (void)state;
    message m = header(MESSAGE_LOG);
    m.u.log = (message_log){.reset = true, .previous = 3, .entry = {.index = 4, .term = 5, .kind = LOG_MEMBER}};
    m.u.log.entry.u.member = (log_member){.peer.bytes = {0xaa, [31] = 0xbb}, .stage = 2, .kind = MEMBER_DATA,
                                          .capacity = 8, .incarnation = 9, .store = 10, .address = "[::1]:9"};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "1e" HEADER_HEX "01 0300000000000000 0400000000000000 0500000000000000 02"
                 "aa000000000000000000000000000000 000000000000000000000000000000bb 0200 01 08000000"
                 "0900000000000000 0a00000000000000 0700 5b3a3a315d3a39");
}

static void test_log_of_a_checkpoint_and_a_rollback(void **state) {
    (void)state;
    message m = header(MESSAGE_LOG);
    m.u.log = (message_log){.previous = 3, .entry = {.index = 4, .term = 5, .kind = LOG_CHECKPOINT}};
    m.u.log.entry.u.checkpoint = (log_checkpoint){.version = 6, .weights.bytes = {0xaa, [31] = 0xbb}, .stages = 1, .state_root = {{.bytes = {0xcc, [31] = 0xdd}}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "1e" HEADER_HEX "00 0300000000000000 0400000000000000 0500000000000000 07 0600000000000000"
                 "aa000000000000000000000000000000 000000000000000000000000000000bb 0100"
                 "cc000000000000000000000000000000 000000000000000000000000000000dd");
    m.u.log.entry.kind = LOG_RUN;
    m.u.log.entry.u.run = (log_run){.description.bytes = {0xaa, [31] = 0xbb}, .generation = 2, .start_version = 6, .reached = 7, .lost = 8};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "1e" HEADER_HEX "00 0300000000000000 0400000000000000 0500000000000000 01"
                 "aa000000000000000000000000000000 000000000000000000000000000000bb 0200000000000000 0600000000000000 0700000000000000 0800");
}

// A standby also names the peer on its machine.
static void test_log_of_a_standby_and_its_promotion(void **state) {
    (void)state;
    message m = header(MESSAGE_LOG);
    m.u.log = (message_log){.previous = 3, .entry = {.index = 4, .term = 5, .kind = LOG_MEMBER}};
    m.u.log.entry.u.member = (log_member){.peer.bytes = {0xaa, [31] = 0xbb}, .stage = 2, .kind = MEMBER_SHADOW, .capacity = 8, .incarnation = 9,
                                          .store = 10, .host.bytes = {0xcc, [31] = 0xdd}, .address = "[::1]:9"};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "1e" HEADER_HEX "00 0300000000000000 0400000000000000 0500000000000000 02"
                 "aa000000000000000000000000000000 000000000000000000000000000000bb 0200 02 08000000"
                 "0900000000000000 0a00000000000000 cc000000000000000000000000000000 000000000000000000000000000000dd 0700 5b3a3a315d3a39");
    m.u.log = (message_log){.previous = 3, .entry = {.index = 4, .term = 5, .kind = LOG_PROMOTE, .u.promote.member = 6}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "1e" HEADER_HEX "00 0300000000000000 0400000000000000 0500000000000000 0b 0600000000000000");
    m.u.log = (message_log){.previous = 3, .entry = {.index = 4, .term = 5, .kind = LOG_END}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "1e" HEADER_HEX "00 0300000000000000 0400000000000000 0500000000000000 0c");
}

static void test_append_of_voters(void **state) {
    (void)state;
    message m = header(MESSAGE_APPEND);
    m.u.append = (message_append){.to = 1, .from = 2, .term = 3, .previous = 4, .previous_term = 5, .committed = 6, .election_timeout_ns = 7, .clock_ns = 8,
                                  .has_entry = true, .entry = {.index = 9, .term = 3, .kind = LOG_VOTERS}};
    m.u.append.entry.u.voters = (log_voters){.count = 1, .voter = {{.id.bytes = {0xaa, [31] = 0xbb}, .store = 10, .address = "h:1"}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "2f" HEADER_HEX "0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000"
                 "0600000000000000 0700000000000000 0800000000000000 01 0900000000000000 0300000000000000 09 0100"
                 "aa000000000000000000000000000000 000000000000000000000000000000bb 0a00000000000000 0300 683a31");
}

static void test_route(void **state) {
    (void)state;
    message m = header(MESSAGE_ROUTE);
    m.u.route = (message_route){.session = 1, .heard = 2, .sequence = 3, .epoch = 4, .cost = 5, .sent_us = 6, .echo_us = 7, .held_us = 8, .parts = 10,
                                .part = {{.kind = ROUTE_LABEL, .side = 1, .source = 6, .cost = -7, .words = 3},
                                         {.kind = ROUTE_FLOW_OF_TOKEN, .why = 3, .token.position = 8, .source = 6, .units = 9,
                                          .taken_back = 10, .token.origin = 11, .token.serial = 12},
                                         {.kind = ROUTE_LOCK, .token.position = 1, .source = 6, .units = 1, .token.origin = 11,
                                          .token.serial = 12, .cost = 13, .words = 2},
                                         {.kind = ROUTE_COMMIT, .why = 1, .token.position = 1, .source = 6, .units = 2,
                                          .taken_back = 3, .moved = 4, .token.origin = 11, .token.serial = 12},
                                         {.kind = ROUTE_ADVERT_OF_LOADS, .source = 6, .cost = 7, .units = 8, .scale = 0x90009},
                                         {.kind = ROUTE_FLOW_OF_BID, .why = 6, .source = 6, .cost = 7, .units = 8, .taken_back = 9},
                                         {.kind = ROUTE_WAY, .on_path = 1, .source = 6, .units = 2, .taken_back = 3, .words = 2},
                                         {.kind = ROUTE_MAP, .words = 3},
                                         {.kind = ROUTE_REQUEST, .why = 1, .token.position = 2, .source = 3, .cost = 4, .units = 5, .turn = 6, .token.origin = 7, .token.serial = 8},
                                         {.kind = ROUTE_QUERY, .why = 1, .token.position = 2, .source = 3, .epoch.number = 4, .epoch.attempts = 5, .epoch.plan = 6, .token.origin = 7, .token.serial = 8}},
                                .word = {0x14, 0xfffffff9, 0xffffffff, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "22" HEADER_HEX "01000000 02000000 03000000 0400000000000000 05000000 06000000 07000000 08000000 0a00"
                 "00 01 06000000 f9ffffffffffffff 0300 14000000 f9ffffff ffffffff"
                 "03 03 0800 06000000 09000000 0a000000 0b000000 0c000000"
                 "07 0100 06000000 0d00000000000000 01000000 0b000000 0c000000 0200 16000000 17000000"
                 "08 01 0100 06000000 02000000 03000000 0b000000 0c000000 04000000"
                 "04 06000000 0700000000000000 08000000 09000900"
                 "05 06 06000000 0700000000000000 08000000 09000000"
                 "0a 0100 06000000 02000000 03000000 0200 18000000 19000000"
                 "0b 0300 1a000000 1b000000 1c000000"
                 "0d 01 0200 03000000 0400000000000000 05000000 06000000 07000000 08000000 0000"
                 "0f 01 0200 03000000 0400000000000000 05000000 06000000 07000000 08000000 0000");
}

static void test_view(void **state) {
    (void)state;
    message m = header(MESSAGE_VIEW);
    m.u.view = (message_view){.kind = GOSSIP_REPLY, .side = 1, .by_chance = true, .linked = 2, .cost = 3, .echo_us = 4,
                              .rate_out = 5, .rate_in = 6, .rate_here = 7, .place = {.at = {8, -9, 10}, .height = 11, .error = 1000},
                              .cards = 1, .card = {{.member = 12, .age = 13, .place = {.height = 14, .error = 15}}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "23" HEADER_HEX "01 02 08000000 f7ffffff 0a000000 0b000000 e803 01 01 03000000 04000000"
                 "05000000 06000000 07000000 0100 0c000000 0d00 00000000 00000000 00000000 0e000000 0f00");
}

static void test_survey_and_holdings(void **state) {
    (void)state;
    message m = header(MESSAGE_SURVEY);
    m.u.survey.owner_term = 11;
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "24" HEADER_HEX "0b00000000000000");
    m = header(MESSAGE_HOLDINGS);
    m.u.holdings = (message_holdings){.owner_term = 11, .held = {{7}}, .forward = {{6}}, .returning = {{5}}, .backward = {{4}}, .committed = {{3}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "25" HEADER_HEX "0b00000000000000 0100 0700000000000000 0100 0600000000000000"
                 "0100 0500000000000000 0100 0400000000000000 0100 0300000000000000");
}

static void test_link_state_and_bandwidth_probes(void **state) {
    (void)state;
    message m = header(MESSAGE_LINES);
    m.u.lines = (message_lines){.count = 2, .line = {{1, 1000, 3000}, {2, 0, 4000}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "26" HEADER_HEX "02000000 01000000 e8030000 b80b0000 02000000 00000000 a00f0000");
    m = header(MESSAGE_SOUND);
    m.u.sound = (message_sound){.train = 5, .index = 1, .count = 8, .padding = 3};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "27" HEADER_HEX "05000000 0100 0800 0300 000000");
    m = header(MESSAGE_SOUNDED);
    m.u.sounded = (message_sounded){.train = 5, .bytes = 6, .ns = 7};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "28" HEADER_HEX "05000000 06000000 0700000000000000");
    m = header(MESSAGE_CARRY);
    m.u.carry = (message_carry){.origin = 5, .to = 6, .serial = 7, .index = 1, .count = 8};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "29" HEADER_HEX "0500000000000000 0600000000000000 07000000 0100 0800");
    m = header(MESSAGE_CARRY_CHUNKS);
    m.u.carry_chunks = (message_carry_chunks){.origin = 5, .to = 6, .serial = 7, .what = GET_RESULT, .stage = 2, .count = 8};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "2a" HEADER_HEX "0500000000000000 0600000000000000 07000000 01 0200 0800");
    m = header(MESSAGE_UNCARRIED_CHUNKS);
    m.u.uncarried_chunks.serial = 7;
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "2c" HEADER_HEX "07000000");
    m = header(MESSAGE_UNCARRIED);
    m.u.uncarried.serial = 7;
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "2b" HEADER_HEX "07000000");
}

static void test_get_and_data(void **state) {
    (void)state;
    message m = header(MESSAGE_GET);
    m.u.get = (message_get){.what = GET_RESULT, .stage = 2, .first = 8, .count = 6, .version = 5, .close_index = 7, .round = 4, .by = 0x0b, .serial = 0x0c};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "19" HEADER_HEX "01 0200 08000000 06000000 0500000000000000 0700000000000000 0400000000000000 0b00000000000000 0c000000");
    m = header(MESSAGE_DATA);
    m.u.data = (message_data){.get = {.what = GET_STATE, .stage = 2, .count = 100}, .hash = 9};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "1a" HEADER_HEX "02 0200 00000000 64000000 0000000000000000 0900000000000000");
}

static void test_final_in_the_log_file(void **state) {
    (void)state;
    log_entry e = {.index = 1, .term = 2, .kind = LOG_FINAL};
    e.u.final = (log_final){.iteration = 3, .skip = true, .skipped = 5, .close_index = 4, .norm2 = 2.0, .clip = 1.0f,
                            .learning_rate = 0.5f, .bias1 = 0.25f, .bias2 = -2.0f, .stages = 1, .round = {6},
                            .result_root = {{.bytes = {1}}}, .state_root = {{.bytes = {2}}}};
    assert_bytes(log_entry_encode(&e, bytes, sizeof bytes),
                 "0100000000000000 0200000000000000 06"
                 "0300000000000000 01 05000000 00 0400000000000000 0000000000000040 0000803f 0000003f 0000803e 000000c0"
                 "0100 0600000000000000"
                 "01000000000000000000000000000000 00000000000000000000000000000000"
                 "02000000000000000000000000000000 00000000000000000000000000000000");
}

static void test_frames(void **state) {
    (void)state;
    assert_bytes(frame_control(FRAME_MESSAGE, 0x1234, bytes), "34120000 04 00 0000");
    assert_bytes(frame_transfer(3, 0x20, 0x11223344, bytes), "28000000 05 03 0000 4433221100000000");
    assert_bytes(frame_chunk(2, 0x3f00, bytes), "003f0000 06 02 0000");
}

static void test_handshake(void **state) {
    (void)state;
    handshake_hello hello = {.run.bytes = {0xcc}, .generation = 1, .kernels.bytes = {0xdd}, .kind = MEMBER_DATA,
                             .address = "a:1", .software = "braid 0"};
    assert_bytes(handshake_hello_encode(&hello, bytes, sizeof bytes),
                 "62727264 1200 cc000000000000000000000000000000 00000000000000000000000000000000"
                 "0100000000000000 dd000000000000000000000000000000 00000000000000000000000000000000 01 0300 613a31 0700 62726169642030");
    handshake_refuse refuse = {.code = REFUSE_FULL, .sentence = "no"};
    assert_bytes(handshake_refuse_encode(&refuse, bytes, sizeof bytes), "62727264 1200 03 0200 6e6f");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_belongs_to_this_version),
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_begin_aggregation),
        cmocka_unit_test(test_heartbeat),
        cmocka_unit_test(test_log_of_a_checkpoint_and_a_rollback),
        cmocka_unit_test(test_log_of_a_member),
        cmocka_unit_test(test_log_of_a_standby_and_its_promotion), cmocka_unit_test(test_append_of_voters), cmocka_unit_test(test_route),
        cmocka_unit_test(test_view), cmocka_unit_test(test_survey_and_holdings),
        cmocka_unit_test(test_link_state_and_bandwidth_probes), cmocka_unit_test(test_get_and_data),
        cmocka_unit_test(test_final_in_the_log_file),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_handshake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
