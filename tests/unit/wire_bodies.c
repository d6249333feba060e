// The offset of each field of each body that tests/unit/wire_layout.c does not show, and the fewest
// and most bytes of every body.
#include "hex.h"
#include "wire/layout.h"
#include "wire/message.h"
#include "wire_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t bytes[WIRE_MAX_CONTROL_BYTES], expected[4096];
static message msg;

#define HEADER_HEX  " 0800000000000000 0900000000000000 0a00000000000000 "
#define SUBJECT_HEX "04030201 0500 0700000000000000 "
#define HASH_HEX    "aa000000000000000000000000000000 000000000000000000000000000000bb "
#define BALLOT_HEX  "0100000000000000 0200000000000000 0300000000000000 "
#define PATH_HEX    "0200 0100000000000000 0200000000000000 "

static const message_subject subject = {.m = 0x01020304, .stage = 5, .owner_term = 7};
static const message_path path = {.stages = 2, .member = {1, 2}};
static const braid_hash hash = {.bytes = {0xaa, [31] = 0xbb}};

static void assert_layout(const message *m, const char *hex) {
    message copy = *m;
    copy.iteration = 8;
    copy.sender = 9;
    copy.log_position = 10;
    size_t want = hex_bytes(hex, expected, sizeof expected), count = message_encode(&copy, bytes, sizeof bytes);
    if (count != want) fail_msg("%s has %zu bytes instead of %zu", message_kind_name(m->kind), count, want);
    assert_memory_equal(bytes, expected, count);
}
#define ASSERT_LAYOUT(upper, lower, hex, ...) \
    assert_layout(&(message){.kind = MESSAGE_##upper, .u.lower = __VA_ARGS__}, hex)

static void test_bodies_about_a_microbatch(void **state) {
    (void)state;
    ASSERT_LAYOUT(BACKWARD, backward,
                  "02" HEADER_HEX SUBJECT_HEX "0b00000000000000 0300 01 8877665544332211 0f000000 1000" PATH_HEX,
                  {.subject = subject,
                   .owner = 11,
                   .back_to = 3,
                   .repair = true,
                   .hash = 0x1122334455667788,
                   .parcel = {15, 16},
                   .path = path});
    ASSERT_LAYOUT(ACCEPT, accept, "03" HEADER_HEX SUBJECT_HEX "01 0b00000000000000",
                  {.subject = subject, .phase = PHASE_BACKWARD, .eta_ns = 11});
    ASSERT_LAYOUT(COMPLETE, complete, "04" HEADER_HEX SUBJECT_HEX "01 0b00000000000000 0c00000000000000",
                  {.subject = subject, .phase = PHASE_BACKWARD, .hash = 11, .compute_ns = 12});
    ASSERT_LAYOUT(TRACE, trace, "0b" HEADER_HEX SUBJECT_HEX "02 0b00000000000000 0c00000000000000",
                  {.subject = subject, .phase = TRACE_RETURNING, .eta_ns = 11, .next = 12});
    ASSERT_LAYOUT(CANCEL, cancel, "0c" HEADER_HEX SUBJECT_HEX, {.subject = subject});
    ASSERT_LAYOUT(SUSPECT, suspect, "0d" HEADER_HEX "0b00000000000000 00", {.member = 11});
    ASSERT_LAYOUT(SUSPECT, suspect, "0d" HEADER_HEX "0b00000000000000 01" SUBJECT_HEX "01",
                  {.member = 11, .has_subject = true, .subject = subject, .phase = PHASE_BACKWARD});
    ASSERT_LAYOUT(PROBE, probe, "0e" HEADER_HEX SUBJECT_HEX "0b00000000000000", {.subject = subject, .nonce = 11});
    ASSERT_LAYOUT(STATUS, status,
                  "0f" HEADER_HEX SUBJECT_HEX "0b00000000000000 01 00 01 00 01 00 01 00 01 0c000000 0d00000000000000",
                  {.subject = subject,
                   .nonce = 11,
                   .has_x = true,
                   .has_dy = true,
                   .forward_done = true,
                   .working = true,
                   .counted = true,
                   .rev = 12,
                   .eta_ns = 13});
    ASSERT_LAYOUT(RESUME, resume, "10" HEADER_HEX SUBJECT_HEX "0b00000000000000 01 0300" PATH_HEX,
                  {.subject = subject, .owner = 11, .phase = PHASE_BACKWARD, .until = 3, .path = path});
    ASSERT_LAYOUT(COMMIT, commit, "11" HEADER_HEX SUBJECT_HEX "0b000000 0c000000" PATH_HEX,
                  {.subject = subject, .rev = 11, .tokens = 12, .path = path});
    ASSERT_LAYOUT(COUNTED, counted, "12" HEADER_HEX SUBJECT_HEX "0b000000 01",
                  {.subject = subject, .rev = 11, .overflow = true});
}

static void test_bodies_of_an_aggregation(void **state) {
    (void)state;
    ASSERT_LAYOUT(MISMATCH, mismatch, "15" HEADER_HEX "0400 0500000000000000 0600000000000000 0100 0700000000000000",
                  {.stage = 4, .term = 5, .round = 6, .set.words = {7}});
    ASSERT_LAYOUT(RESULT, result, "16" HEADER_HEX "0400 0500000000000000 0600000000000000 07000000 08000000",
                  {.stage = 4, .term = 5, .round = 6, .first = 7, .count = 8});
    ASSERT_LAYOUT(REDUCED, reduced,
                  "17" HEADER_HEX "0400 0500000000000000 0600000000000000 01" HASH_HEX "01000000 000000000000f83f",
                  {.stage = 4, .term = 5, .round = 6, .overflow = true, .root = hash, .tensors = 1, .norm2 = {1.5}});
    ASSERT_LAYOUT(STATE, state, "18" HEADER_HEX "0400 0500000000000000" HASH_HEX,
                  {.stage = 4, .version = 5, .state_root = hash});
    ASSERT_LAYOUT(
        GET, get,
        "19" HEADER_HEX
        "00 0400 05000000 06000000 0700000000000000 0b00000000000000 0c00000000000000 0d00000000000000 0e000000",
        {.what = GET_PART,
         .stage = 4,
         .first = 5,
         .count = 6,
         .version = 7,
         .set_digest = 11,
         .round = 12,
         .by = 13,
         .serial = 14});
    ASSERT_LAYOUT(GET, get, "19" HEADER_HEX "03 0400 00000000 06000000 0700000000000000",
                  {.what = GET_NAMES, .stage = 4, .count = 6, .version = 7});
}

static void test_bodies_of_membership_and_log(void **state) {
    (void)state;
    ASSERT_LAYOUT(CAN_TAKE, can_take, "1c" HEADER_HEX "0b00000000000000 0400 05000000",
                  {.iteration = 11, .stage = 4, .free_slots = 5});
    ASSERT_LAYOUT(GET_LOG, get_log, "1d" HEADER_HEX "0b00000000000000", {.from = 11});
    ASSERT_LAYOUT(JOIN, join,
                  "1f" HEADER_HEX "01 0400 05000000 0600000000000000 0700000000000000 0300" HASH_HEX "0300 683a31",
                  {.kind = MEMBER_DATA,
                   .stage = 4,
                   .capacity = 5,
                   .incarnation = 6,
                   .store = 7,
                   .share = 3,
                   .text = hash,
                   .address = "h:1"});
    ASSERT_LAYOUT(JOIN, join,
                  "1f" HEADER_HEX "02 0400 05000000 0600000000000000 0700000000000000 0000" HASH_HEX HASH_HEX
                  "0300 683a31",
                  {.kind = MEMBER_SHADOW,
                   .stage = 4,
                   .capacity = 5,
                   .incarnation = 6,
                   .store = 7,
                   .text = hash,
                   .host.bytes = {0xaa, [31] = 0xbb},
                   .address = "h:1"});
    ASSERT_LAYOUT(LEAVE, leave, "20" HEADER_HEX "02", {.reason = EXPEL_LEFT});
    ASSERT_LAYOUT(DISMISS, dismiss, "21" HEADER_HEX "06", {.refusal = REFUSAL_FULL});
}

static void test_bodies_between_voters(void **state) {
    (void)state;
    ASSERT_LAYOUT(VOTE, vote, "2d" HEADER_HEX BALLOT_HEX "01 00 0400000000000000 0500000000000000",
                  {.to = 1, .from = 2, .term = 3, .pre_vote = true, .last_index = 4, .last_term = 5});
    ASSERT_LAYOUT(VOTED, voted, "2e" HEADER_HEX BALLOT_HEX "00 01", {.to = 1, .from = 2, .term = 3, .granted = true});
    ASSERT_LAYOUT(APPEND, append,
                  "2f" HEADER_HEX BALLOT_HEX
                  "0400000000000000 0500000000000000 0600000000000000 0700000000000000 0800000000000000 00",
                  {.to = 1,
                   .from = 2,
                   .term = 3,
                   .previous = 4,
                   .previous_term = 5,
                   .committed = 6,
                   .election_timeout_ns = 7,
                   .clock_ns = 8});
    ASSERT_LAYOUT(APPENDED, appended, "30" HEADER_HEX BALLOT_HEX "01 0800000000000000 0400000000000000",
                  {.to = 1, .from = 2, .term = 3, .accepted = true, .match = 4, .clock_ns = 8});
    ASSERT_LAYOUT(APPENDED, appended,
                  "30" HEADER_HEX BALLOT_HEX "00 0800000000000000 0500000000000000 0600000000000000",
                  {.to = 1, .from = 2, .term = 3, .previous = 5, .hint = 6, .clock_ns = 8});
    ASSERT_LAYOUT(HAND_OVER, hand_over, "31" HEADER_HEX BALLOT_HEX, {.to = 1, .from = 2, .term = 3});
    ASSERT_LAYOUT(LEADER, leader, "32" HEADER_HEX "0300000000000000" HASH_HEX "0300 683a31",
                  {.term = 3, .id.bytes = {0xaa, [31] = 0xbb}, .address = "h:1"});
}

// The shortest message of a kind. The zero value of some kinds is not valid, or not the shortest.
static void shortest(message *m, uint8_t kind) {
    *m = (message){.kind = kind};
    if (kind == MESSAGE_GET) m->u.get.what = GET_STATE;
    if (kind == MESSAGE_DATA) m->u.data.get.what = GET_STATE;
    if (kind == MESSAGE_JOIN) m->u.join.kind = MEMBER_DATA;
    if (kind == MESSAGE_LOG) m->u.log.entry.kind = LOG_END;
    if (kind == MESSAGE_SOUND) m->u.sound.count = 1;
    if (kind == MESSAGE_CARRY) m->u.carry.count = 1;
    if (kind == MESSAGE_CARRY_CHUNKS) m->u.carry_chunks.count = 1;
    if (kind == MESSAGE_APPENDED) m->u.appended.accepted = true;
    if (kind == MESSAGE_VIEW) m->u.view.kind = GOSSIP_CUT;
}

static void test_fewest_bytes_of_every_body(void **state) {
    (void)state;
    for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) {
        shortest(&msg, kind);
        size_t side = kind == MESSAGE_VIEW,
               count = message_encode(&msg, bytes, sizeof bytes);  // each gossip kind has one field more
        if (count != message_least_bytes(kind) + side)
            fail_msg("%s has %zu bytes instead of %zu", message_kind_name(kind), count,
                     message_least_bytes(kind) + side);
    }
    assert_int_equal(message_least_bytes(MESSAGE_NONE), 0);
    assert_int_equal(message_most_bytes(MESSAGE_KINDS), 0);
}

// No message is longer than its layout. Messages without entries and optional fields have one
// length.
static void test_most_bytes_of_every_body(void **state) {
    (void)state;
    rng r = {rng_seed(45, 1)};
    for (uint32_t round = 0; round < 20; round++) {
        for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) {
            wire_random w = {.r = &r, .full = round == 0};
            random_message(&w, kind, &msg);
            size_t count = message_encode(&msg, bytes, sizeof bytes);
            assert_in_range(count, message_least_bytes(kind), message_most_bytes(kind));
        }
    }
    msg = (message){.kind = MESSAGE_SETTLED, .u.settled.path.stages = WIRE_MAX_STAGES};
    assert_int_equal(message_encode(&msg, bytes, sizeof bytes), LAYOUT_MOST_OF_SETTLED);
    msg = (message){.kind = MESSAGE_REDUCED, .u.reduced.tensors = WIRE_MAX_STAGE_TENSORS};
    assert_int_equal(message_encode(&msg, bytes, sizeof bytes), LAYOUT_MOST_OF_REDUCED);
    msg = (message){.kind = MESSAGE_SOUND, .u.sound = {.count = 1, .padding = WIRE_MAX_SOUND_BYTES}};
    assert_int_equal(message_encode(&msg, bytes, sizeof bytes), LAYOUT_MOST_OF_SOUND);
    msg = (message){.kind = MESSAGE_LOG,
                    .u.log.entry = {.kind = LOG_FINAL, .u.final = {.skip = true, .stages = WIRE_MAX_STAGES}}};
    assert_int_equal(message_encode(&msg, bytes, sizeof bytes), LAYOUT_MOST_OF_LOG);
    msg = (message){.kind = MESSAGE_VIEW, .u.view = {.kind = GOSSIP_REPLY, .cards = WIRE_MAX_VIEW_CARDS}};
    for (uint32_t i = 0; i < WIRE_MAX_VIEW_CARDS; i++) msg.u.view.card[i].member = 1;
    assert_int_equal(message_encode(&msg, bytes, sizeof bytes), LAYOUT_MOST_OF_VIEW);
}

// A length outside the layout is refused before any field is read.
static void test_lengths_outside_the_layout_are_refused(void **state) {
    (void)state;
    for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) {
        memset(bytes, 0, sizeof bytes);
        bytes[0] = kind;
        assert_false(message_decode(bytes, message_least_bytes(kind) - 1, &msg));
        assert_false(message_decode(bytes, message_most_bytes(kind) + 1, &msg));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_about_a_microbatch),
        cmocka_unit_test(test_bodies_of_an_aggregation),
        cmocka_unit_test(test_bodies_of_membership_and_log),
        cmocka_unit_test(test_bodies_between_voters),
        cmocka_unit_test(test_fewest_bytes_of_every_body),
        cmocka_unit_test(test_most_bytes_of_every_body),
        cmocka_unit_test(test_lengths_outside_the_layout_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
