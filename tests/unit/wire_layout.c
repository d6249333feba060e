// The exact bytes of each message, so that a change of the layout requires a new WIRE_VERSION, and
// the list of messages in docs/protocol.md.
#include "hex.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t bytes[WIRE_MAX_CONTROL_BYTES], expected[4096];

static void assert_bytes(size_t count, const char *hex) {
    size_t expected_count = hex_bytes(hex, expected, sizeof expected);
    assert_true(expected_count > 0);
    assert_int_equal(count, expected_count);
    assert_memory_equal(bytes, expected, count);
}

// True for a kind with tested bytes; test_each_kind_is_compared runs last.
static bool compared[MESSAGE_KINDS];

static void test_layout_belongs_to_this_version(void **state) {
    (void)state;
    assert_int_equal(WIRE_VERSION, 16);
}

#define HEADER_HEX " 0800000000000000 0900000000000000 0a00000000000000 "
#define SUBJECT {.m = 0x01020304, .stage = 5, .owner_term = 7}
static const message_subject subject = SUBJECT;
#define HASH {.bytes = {0xaa, [31] = 0xbb}}
#define HASH_HEX " aa000000000000000000000000000000 000000000000000000000000000000bb "
#define BALLOT_HEX "0100000000000000 0200000000000000 0300000000000000 "
#define SUBJECT_HEX " 04030201 0500 0700000000000000 "

static message header(message_kind kind) {
    compared[kind] = true;
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
    m.u.deny_commit = (message_deny_commit){.subject = subject, .reason = DENY_MISSING, .rev = 1000};
    assert_bytes(message_encode(&m, bytes, sizeof bytes), "06" HEADER_HEX SUBJECT_HEX "03 e8030000");
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
    m.u.route = (message_route){.session = 1, .heard = 2, .sequence = 3, .epoch = 4, .cost = 5, .sent_us = 6, .echo_us = 7, .held_us = 8, .parts = 12,
                                .part = {{.kind = ROUTE_LABEL, .side = 1, .source = 6, .cost = -7, .words = 3},
                                         {.kind = ROUTE_FLOW_OF_TOKEN, .why = 3, .token.position = 8, .source = 6, .units = 9,
                                          .taken_back = 10, .token.origin = 11, .token.serial = 12},
                                         {.kind = ROUTE_LOCK, .token.position = 1, .source = 6, .units = 1, .token.origin = 11,
                                          .token.serial = 12, .cost = 13, .words = 2},
                                         {.kind = ROUTE_COMMIT, .why = 1, .token.position = 1, .source = 6, .units = 2,
                                          .taken_back = 3, .moved = 4, .token.origin = 11, .token.serial = 12},
                                         {.kind = ROUTE_ADVERT_OF_LOADS, .source = 6, .cost = 7, .units = 8, .sender.scale = 0x90009},
                                         {.kind = ROUTE_FLOW_OF_BID, .why = 6, .source = 6, .cost = 7, .units = 8, .taken_back = 9},
                                         {.kind = ROUTE_WAY, .on_path = 1, .source = 6, .units = 2, .taken_back = 3, .words = 2},
                                         {.kind = ROUTE_MAP, .words = 3},
                                         {.kind = ROUTE_QUERY, .why = 1, .token.position = 2, .source = 6, .cost = 3, .units = 4, .turn = 5, .token.origin = 11, .token.serial = 12},
                                         {.kind = ROUTE_ADVERT_OF_START, .source = 6, .cost = 7, .units = 8, .sender.start = 2},
                                         {.kind = ROUTE_EPOCH, .epoch = {9, 10, 11}},
                                         {.kind = ROUTE_PROPOSAL, .words = 1}},
                                .word = {0x14, 0xfffffff9, 0xffffffff, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "22" HEADER_HEX "01000000 02000000 03000000 0400000000000000 05000000 06000000 07000000 08000000 0c00"
                 "00 01 06000000 f9ffffffffffffff 0300 14000000 f9ffffff ffffffff"
                 "03 03 0800 06000000 09000000 0a000000 0b000000 0c000000"
                 "07 0100 06000000 0d00000000000000 01000000 0b000000 0c000000 0200 16000000 17000000"
                 "08 01 0100 06000000 02000000 03000000 0b000000 0c000000 04000000"
                 "04 06000000 0700000000000000 08000000 09000900"
                 "05 06 06000000 0700000000000000 08000000 09000000"
                 "0a 06000000 02000000 03000000 0100 0200 18000000 19000000"
                 "0b 0300 1a000000 1b000000 1c000000"
                 "0f 01 0200 06000000 0300000000000000 04000000 05000000 0b000000 0c000000 0000"
                 "13 06000000 0700000000000000 08000000 02"
                 "14 09000000 0a000000 0b000000"
                 "15 0100 1d000000");
}

static void test_view(void **state) {
    (void)state;
    message m = header(MESSAGE_VIEW);
    m.u.view = (message_view){.kind = GOSSIP_REPLY, .side = 1, .by_chance = true, .linked = 2, .cost = 3, .echo_us = 4,
                              .rate_out = 5, .rate_in = 6, .rate_here = 7, .place = {.at = {8, -9, 10}, .height = 11, .error = 1000},
                              .cards = 1, .card = {{.member = 12, .age = 13, .place = {.height = 14, .error = 15}}}};
    assert_bytes(message_encode(&m, bytes, sizeof bytes),
                 "23" HEADER_HEX "01 02 08000000 f7ffffff 0a000000 0b000000 e803 01 01 03000000 04000000"
                 "05000000 06000000 07000000 01000000 0c000000 0d00 00000000 00000000 00000000 0e000000 0f00");
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
                 "62727264 1000 cc000000000000000000000000000000 00000000000000000000000000000000"
                 "0100000000000000 dd000000000000000000000000000000 00000000000000000000000000000000 01 0300 613a31 0700 62726169642030");
    handshake_refuse refuse = {.code = REFUSE_FULL, .sentence = "no"};
    assert_bytes(handshake_refuse_encode(&refuse, bytes, sizeof bytes), "62727264 1000 03 0200 6e6f");
}

// The messages without counts, and the shortest forms of the others.
static const struct {
    const char *hex;  // after the header
    message_kind kind;
    union {
        message_backward backward;
        message_accept accept;
        message_complete complete;
        message_trace trace;
        message_cancel cancel;
        message_suspect suspect;
        message_probe probe;
        message_status status;
        message_resume resume;
        message_commit commit;
        message_counted counted;
        message_mismatch mismatch;
        message_result result;
        message_reduced reduced;
        message_state state;
        message_can_take can_take;
        message_get_log get_log;
        message_join join;
        message_leave leave;
        message_dismiss dismiss;
        message_vote vote;
        message_voted voted;
        message_appended appended;
        message_hand_over hand_over;
        message_leader leader;
    } u;
} plain[] = {
    {SUBJECT_HEX "0b00000000000000 0100 01 8877665544332211 0f000000 0200 0100 0c00000000000000", MESSAGE_BACKWARD,
     {.backward = {.subject = SUBJECT, .owner = 0x0b, .back_to = 1, .repair = true, .hash = 0x1122334455667788, .parcel = {0x0f, 2}, .path = {.stages = 1, .member = {0x0c}}}}},
    {SUBJECT_HEX "01 0b00000000000000", MESSAGE_ACCEPT, {.accept = {.subject = SUBJECT, .phase = PHASE_BACKWARD, .eta_ns = 0x0b}}},
    {SUBJECT_HEX "01 0b00000000000000 0c00000000000000", MESSAGE_COMPLETE, {.complete = {.subject = SUBJECT, .phase = PHASE_BACKWARD, .hash = 0x0b, .compute_ns = 0x0c}}},
    {SUBJECT_HEX "02 0b00000000000000 0c00000000000000", MESSAGE_TRACE, {.trace = {.subject = SUBJECT, .phase = TRACE_RETURNING, .eta_ns = 0x0b, .next = 0x0c}}},
    {SUBJECT_HEX, MESSAGE_CANCEL, {.cancel = {.subject = SUBJECT}}},
    {"0b00000000000000" SUBJECT_HEX "01", MESSAGE_SUSPECT, {.suspect = {.member = 0x0b, .subject = SUBJECT, .phase = PHASE_BACKWARD}}},
    {SUBJECT_HEX "0b00000000000000", MESSAGE_PROBE, {.probe = {.subject = SUBJECT, .nonce = 0x0b}}},
    {SUBJECT_HEX "0b00000000000000 01 00 01 00 01 00 01 00 01 0c000000 0d00000000000000", MESSAGE_STATUS,
     {.status = {.subject = SUBJECT, .nonce = 0x0b, .has_x = true, .has_dy = true, .forward_done = true, .working = true, .counted = true, .rev = 0x0c, .eta_ns = 0x0d}}},
    {SUBJECT_HEX "0b00000000000000 01 0300 0100 0c00000000000000", MESSAGE_RESUME,
     {.resume = {.subject = SUBJECT, .owner = 0x0b, .phase = PHASE_BACKWARD, .until = 3, .path = {.stages = 1, .member = {0x0c}}}}},
    {SUBJECT_HEX "0b000000 0c000000 0100 0d00000000000000", MESSAGE_COMMIT, {.commit = {.subject = SUBJECT, .rev = 0x0b, .tokens = 0x0c, .path = {.stages = 1, .member = {0x0d}}}}},
    {SUBJECT_HEX "0b000000 01", MESSAGE_COUNTED, {.counted = {.subject = SUBJECT, .rev = 0x0b, .overflow = true}}},
    {"0100 0200000000000000 0300000000000000 0100 0500000000000000", MESSAGE_MISMATCH, {.mismatch = {.stage = 1, .term = 2, .round = 3, .set = {{5}}}}},
    {"0100 0200000000000000 0300000000000000 04000000 05000000", MESSAGE_RESULT, {.result = {.stage = 1, .term = 2, .round = 3, .first = 4, .count = 5}}},
    {"0100 0200000000000000 0300000000000000 01" HASH_HEX "01000000 000000000000f83f", MESSAGE_REDUCED,
     {.reduced = {.stage = 1, .term = 2, .round = 3, .overflow = true, .root = HASH, .tensors = 1, .norm2 = {1.5}}}},
    {"0100 0200000000000000" HASH_HEX, MESSAGE_STATE, {.state = {.stage = 1, .version = 2, .state_root = HASH}}},
    {"0100000000000000 0200 03000000", MESSAGE_CAN_TAKE, {.can_take = {.iteration = 1, .stage = 2, .free_slots = 3}}},
    {"0100000000000000", MESSAGE_GET_LOG, {.get_log = {.from = 1}}},
    {"00 0100 02000000 0300000000000000 0400000000000000 0500" HASH_HEX "0300 613a31", MESSAGE_JOIN,
     {.join = {.kind = MEMBER_RELAY, .stage = 1, .capacity = 2, .incarnation = 3, .store = 4, .share = 5, .text = HASH, .address = "a:1"}}},
    {"02", MESSAGE_LEAVE, {.leave = {.reason = EXPEL_LEFT}}},
    {"06", MESSAGE_DISMISS, {.dismiss = {.refusal = REFUSAL_FULL}}},
    {BALLOT_HEX "01 00 0400000000000000 0500000000000000", MESSAGE_VOTE, {.vote = {.to = 1, .from = 2, .term = 3, .pre_vote = true, .last_index = 4, .last_term = 5}}},
    {BALLOT_HEX "00 01", MESSAGE_VOTED, {.voted = {.to = 1, .from = 2, .term = 3, .granted = true}}},
    {BALLOT_HEX "01 0400000000000000 0500000000000000", MESSAGE_APPENDED, {.appended = {.to = 1, .from = 2, .term = 3, .accepted = true, .clock_ns = 4, .match = 5}}},
    {BALLOT_HEX "00 0400000000000000 0500000000000000 0600000000000000", MESSAGE_APPENDED, {.appended = {.to = 1, .from = 2, .term = 3, .clock_ns = 4, .previous = 5, .hint = 6}}},
    {BALLOT_HEX, MESSAGE_HAND_OVER, {.hand_over = {.to = 1, .from = 2, .term = 3}}},
    {"0300000000000000" HASH_HEX "0300 613a31", MESSAGE_LEADER, {.leader = {.term = 3, .id = {.bytes = {0xaa, [31] = 0xbb}}, .address = "a:1"}}},
};

static void test_plain_messages(void **state) {
    (void)state;
    static char hex[1024];
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        message m = header(plain[i].kind);
        memcpy(&m.u, &plain[i].u, sizeof plain[i].u);
        snprintf(hex, sizeof hex, "%02x" HEADER_HEX "%s", (unsigned)plain[i].kind, plain[i].hex);
        assert_bytes(message_encode(&m, bytes, sizeof bytes), hex);
    }
}

// Given the table of messages in docs/protocol.md, then it has each kind with its number, and no
// other.
static void test_page_lists_every_kind(void **state) {
    (void)state;
    FILE *page = fopen(BRAID_TEST_FIXTURES "/../docs/protocol.md", "r");
    assert_non_null(page);
    char *line = NULL, name[64];
    size_t room = 0;
    unsigned number, kinds = 0;
    bool reached = false;
    while (getline(&line, &room, page) > 0) {
        reached |= strncmp(line, "## Messages", 11) == 0;
        if (!reached || sscanf(line, "| %u | %63[A-Z_] |", &number, name) != 2) continue;
        assert_in_range(number, 1, MESSAGE_KINDS - 1);
        assert_string_equal(name, message_kind_name((uint8_t)number));
        kinds++;
    }
    free(line);
    fclose(page);
    assert_int_equal(kinds, MESSAGE_KINDS - 1);
}

static void test_each_kind_is_compared(void **state) {
    (void)state;
    for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++)
        if (!compared[kind]) fail_msg("the layout of %s is not tested", message_kind_name(kind));
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
        cmocka_unit_test(test_plain_messages),
        cmocka_unit_test(test_page_lists_every_kind),
        cmocka_unit_test(test_each_kind_is_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
