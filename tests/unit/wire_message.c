// Every message and log entry: round trips, every field is encoded, malformed input is refused.
#include "wire/message.h"

#include "wire_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t bytes[WIRE_MAX_CONTROL_BYTES], again[WIRE_MAX_CONTROL_BYTES];
static message original, copy;
static log_entry entry, entry_copy;

static void test_round_trip_of_every_kind(void **state) {
    (void)state;
    rng r = seeded_rng("round trip", 11);
    for (int round = 0; round < 200; round++) {
        for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) {
            wire_random w = {.r = &r, .full = round == 0};
            random_message(&w, kind, &original);
            size_t count = message_encode(&original, bytes, sizeof bytes);
            if (count == 0) fail_msg("%s was not encoded", message_kind_name(kind));
            memset(&copy, 0xa5, sizeof copy);
            if (!message_decode(bytes, count, &copy)) fail_msg("%s was not decoded", message_kind_name(kind));
            // both began as zeros, so padding is equal;
            // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
            if (memcmp(&copy, &original, offsetof(message, u) + message_body_bytes(kind)) != 0) fail_msg("%s came back different", message_kind_name(kind));
            assert_int_equal(message_encode(&copy, again, sizeof again), count);
            assert_memory_equal(again, bytes, count);
        }
    }
}

static void test_round_trip_of_every_log_entry(void **state) {
    (void)state;
    rng r = seeded_rng("log round trip", 12);
    for (int round = 0; round < 300; round++) {
        for (uint8_t kind = 1; kind < LOG_KINDS; kind++) {
            wire_random w = {.r = &r, .full = round == 0};
            random_log_entry(&w, kind, &entry);
            size_t count = log_entry_encode(&entry, bytes, sizeof bytes);
            assert_true(count > 0);
            memset(&entry_copy, 0xa5, sizeof entry_copy);
            assert_true(log_entry_decode(bytes, count, &entry_copy));
            assert_memory_equal(&entry_copy, &entry, sizeof entry);
        }
    }
}

// A truncated length, an extra byte and a small buffer are refused, and nothing is written beyond
// the buffer.
static void test_every_length_but_one_is_refused(void **state) {
    (void)state;
    rng r = seeded_rng("lengths", 13);
    for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) {
        wire_random w = {.r = &r};
        random_message(&w, kind, &original);
        size_t count = message_encode(&original, bytes, sizeof bytes);
        for (size_t cut = 0; cut < count; cut++) {
            // a separate allocation, so that a sanitizer sees accesses beyond its end
            uint8_t *part = malloc(cut + 1);
            assert_non_null(part);
            memcpy(part, bytes, cut);
            assert_false(message_decode(part, cut, &copy));
            memset(part, 0x5a, cut + 1);
            assert_int_equal(message_encode(&original, part, cut), 0);
            assert_int_equal(part[cut], 0x5a);
            free(part);
        }
        assert_int_equal(message_encode(&original, again, count), count);
        bytes[count] = 0;
        assert_false(message_decode(bytes, count + 1, &copy));
    }
    assert_false(message_decode(NULL, 0, &copy));
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define HAS_CLEAR_PADDING 1
#endif
#endif

#if HAS_CLEAR_PADDING
// Flips the lowest bit of every byte of a full body that is not padding: the encoding must change.
// A new field that its codec misses fails here.
static void check_bytes_matter(message *msg, void *body, const uint8_t *is_value, size_t size) {
    size_t count = message_encode(msg, bytes, sizeof bytes);
    assert_true(count > 0);
    for (size_t i = 0; i < size; i++) {
        if (is_value[i] == 0) continue;
        ((uint8_t *)body)[i] ^= 1;
        size_t changed = message_encode(msg, again, sizeof again);
        if (changed == count && memcmp(bytes, again, count) == 0) {
            fail_msg("%s: byte %zu of its body is not encoded", message_kind_name(msg->kind), i);
        }
        ((uint8_t *)body)[i] ^= 1;
    }
}

static void test_every_byte_of_a_body_is_encoded(void **state) {
    (void)state;
    rng r = seeded_rng("bytes matter", 14);
    wire_random w = {.r = &r, .full = true};
    static uint8_t is_value[sizeof(message)];
#define CHECK(upper, body, type)                                  \
    do {                                                          \
        memset(is_value, 0xff, sizeof(type));                     \
        __builtin_clear_padding((type *)(void *)is_value);        \
        check_bytes_matter(&original, body, is_value, sizeof(type)); \
    } while (0);
#define X(upper, lower)                                           \
    if (MESSAGE_##upper != MESSAGE_LOG && MESSAGE_##upper != MESSAGE_APPEND) {                         \
        random_message(&w, MESSAGE_##upper, &original);           \
        CHECK(upper, &original.u.lower, message_##lower)          \
    }
    WIRE_MESSAGES(X)
#undef X
    // the body of a log entry is a union, so each kind is tested
    log_entry *e = &original.u.log.entry;
    random_message(&w, MESSAGE_LOG, &original);
#define LOGGED(upper, lower)                                      \
    random_log_entry(&w, LOG_##upper, e);                         \
    CHECK(upper, &e->u.lower, log_##lower)
    LOGGED(RUN, run)
    LOGGED(MEMBER, member)
    LOGGED(EXPEL, expel)
    LOGGED(OWNER, owner)
    LOGGED(CLOSE, close)
    LOGGED(FINAL, final)
    LOGGED(CHECKPOINT, checkpoint)
    LOGGED(LEAD, lead)
    LOGGED(VOTERS, voters)
    random_message(&w, MESSAGE_APPEND, &original);
    e = &original.u.append.entry;
    LOGGED(BASE, base)
#undef LOGGED
#undef CHECK
}
#endif

static void assert_not_encoded(const message *msg) {
    assert_int_equal(message_encode(msg, bytes, sizeof bytes), 0);
}

static void test_limits_hold_when_encoding(void **state) {
    (void)state;
    message m = {.kind = MESSAGE_NONE};
    assert_not_encoded(&m);
    m.kind = MESSAGE_KINDS;
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_FORWARD, .u.forward.path.stages = WIRE_MAX_STAGES + 1};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_FORWARD, .u.forward.subject.stage = WIRE_MAX_STAGES + 1};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_BEGIN_AGGREGATION, .u.begin.parts = WIRE_MAX_STAGE_MEMBERS + 1};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_BEGIN_AGGREGATION, .u.begin.owners = WIRE_MAX_STAGE_MEMBERS + 1};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_REDUCED, .u.reduced.tensors = WIRE_MAX_STAGE_TENSORS + 1};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_GET, .u.get = {.first = 2, .count = UINT32_MAX - 1}};
    assert_not_encoded(&m);
    // a field of another kind of GET
    m = (message){.kind = MESSAGE_GET, .u.get = {.what = GET_RESULT, .set_digest = 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_GET, .u.get = {.what = GET_PART, .close_index = 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_GET, .u.get = {.what = GET_STATE, .round = 1}};
    assert_not_encoded(&m);
    // only chunks of a reduction use a forwarder
    m = (message){.kind = MESSAGE_GET, .u.get = {.what = GET_STATE, .count = 1, .by = 2, .serial = 3}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_GET, .u.get = {.what = GET_RESULT, .count = WIRE_MAX_CARRIED_BLOCKS + 1, .by = 2, .serial = 3}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_GET, .u.get = {.what = GET_RESULT, .count = 1, .serial = 3}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_CARRY_CHUNKS, .u.carry_chunks = {.what = GET_PART, .count = WIRE_MAX_CARRIED_BLOCKS + 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_CARRY_CHUNKS, .u.carry_chunks = {.what = GET_PART}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_CARRY_CHUNKS, .u.carry_chunks = {.what = GET_NAMES, .count = 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_CARRY, .u.carry = {.index = 1, .count = 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DENY, .u.deny.reason = DENY_REASONS};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DENY, .u.deny = {.phase = PHASE_BACKWARD, .reason = DENY_FULL}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DENY, .u.deny = {.phase = PHASE_FORWARD, .reason = DENY_MISSING}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DENY_COMMIT, .u.deny_commit.reason = COMMIT_REFUSALS};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DENY_GET, .u.deny_get.reason = GET_REFUSALS};
    assert_not_encoded(&m);
    // only a GET that may be repeated has a time
    m = (message){.kind = MESSAGE_DENY_GET, .u.deny_get = {.reason = GET_MISSING, .wait_ms = 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DENY_GET, .u.deny_get.reason = GET_LATER};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_LOG, .u.log.entry.kind = LOG_NONE};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_LOG, .u.log.entry = {.kind = LOG_OWNER, .u.owner.slot = WIRE_MAX_SLOTS}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_LOG, .u.log.entry = {.kind = LOG_SHARE, .u.share.share = WIRE_MAX_SLOTS}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_JOIN, .u.join.share = WIRE_MAX_SLOTS + 1};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_LEAVE, .u.leave.reason = EXPEL_REASONS};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_DISMISS, .u.dismiss.refusal = REFUSALS};
    assert_not_encoded(&m);
    // of the other answer to APPEND
    m = (message){.kind = MESSAGE_APPENDED, .u.appended = {.accepted = true, .hint = 1}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_APPENDED, .u.appended = {.match = 1}};
    assert_not_encoded(&m);
    // a record of a durable log, no entry of the replicated log
    m = (message){.kind = MESSAGE_LOG, .u.log.entry.kind = LOG_VOTE};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_APPEND, .u.append = {.has_entry = true, .entry.kind = LOG_VOTE}};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_LOG, .u.log.entry = {.kind = LOG_VOTERS, .u.voters.count = WIRE_MAX_VOTERS + 1}};
    assert_not_encoded(&m);
    m.u.log.entry.u.voters.count = 0;  // an empty configuration could never decide
    assert_not_encoded(&m);
    // the same voter twice
    m.u.log.entry.u.voters = (log_voters){.count = 3, .voter = {{.store = 1}, {.store = 2}, {.store = 1}}};
    assert_not_encoded(&m);
    m.u.log.entry.u.voters.voter[2].id.bytes[0] = 1;
    assert_true(message_encode(&m, bytes, sizeof bytes) > 0);
    m = (message){.kind = MESSAGE_JOIN, .u.join.kind = MEMBER_KIND_COUNT};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_JOIN, .u.join.stage = WIRE_MAX_STAGES};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_JOIN, .u.join.address = "host\n:1"};
    assert_not_encoded(&m);
    m = (message){.kind = MESSAGE_JOIN};
    memset(m.u.join.address, 'h', sizeof m.u.join.address);  // not terminated
    assert_not_encoded(&m);
}

// Terms are bounded, and so is the upper half of an attempt's number: a peer that uses the last one
// would be the last leader.
static void test_terms_are_bounded(void **state) {
    (void)state;
    const uint64_t end = WIRE_MAX_TERM + 1;
    const message bad[] = {
        {.kind = MESSAGE_VOTE, .u.vote.term = end},
        {.kind = MESSAGE_VOTE, .u.vote.last_term = end},
        {.kind = MESSAGE_VOTED, .u.voted.term = end},
        {.kind = MESSAGE_APPEND, .u.append.term = end},
        {.kind = MESSAGE_APPEND, .u.append.previous_term = end},
        {.kind = MESSAGE_APPEND, .u.append = {.has_entry = true, .entry = {.kind = LOG_LEAD, .term = end}}},
        {.kind = MESSAGE_APPENDED, .u.appended.term = end},
        {.kind = MESSAGE_HAND_OVER, .u.hand_over.term = end},
        {.kind = MESSAGE_LEADER, .u.leader.term = end},
        {.kind = MESSAGE_HEARTBEAT, .u.heartbeat.leads = end},
        {.kind = MESSAGE_LOG, .u.log.entry = {.kind = LOG_LEAD, .term = end}},
        {.kind = MESSAGE_RESULT, .u.result.term = end},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_not_encoded(&bad[i]);
}

// A ROUTE with one part.
static message route_of(route_part part) {
    return (message){.kind = MESSAGE_ROUTE, .u.route = {.parts = 1, .part = {part}}};
}

static void test_limits_of_a_route(void **state) {
    (void)state;
    const route_part bad[] = {
        {.kind = ROUTE_KINDS},
        {.kind = ROUTE_ADVERT, .why = 1},  // a field that this kind does not use
        {.kind = ROUTE_ABORT, .source = 1},
        {.kind = ROUTE_DENY, .words = 1},
        {.kind = ROUTE_LABEL, .side = 3},
        {.kind = ROUTE_LABEL, .words = 4},
        {.kind = ROUTE_LABEL, .words = 123},
        {.kind = ROUTE_LOCK, .words = 45},
        {.kind = ROUTE_QUERY, .words = 161},
        {.kind = ROUTE_QUERY, .epoch.number = (uint64_t)WIRE_MAX_ROUTE_COST + 1},
        {.kind = ROUTE_QUERY, .epoch.attempts = WIRE_MAX_ROUTE_UNITS + 1},
        {.kind = ROUTE_QUERY, .units = 1},
        {.kind = ROUTE_REQUEST, .epoch.plan = 1},
        {.kind = ROUTE_REQUEST, .taken_back = 1},
        {.kind = ROUTE_FLOW, .turn = 1},
        {.kind = ROUTE_ADVERT, .scale = 1},
        {.kind = ROUTE_ADVERT_OF_LOADS, .scale = 1u << 31},
        {.kind = ROUTE_WAY, .words = 64},
        {.kind = ROUTE_WAY, .cost = 1},
        {.kind = ROUTE_WAY, .token.position = 1},
        {.kind = ROUTE_WAY, .on_path = 4096},
        {.kind = ROUTE_WAY, .taken_back = 1u << 31},
        {.kind = ROUTE_MAP, .words = 161},
        {.kind = ROUTE_MAP, .source = 1},
        {.kind = ROUTE_ADVERT, .cost = WIRE_MAX_ROUTE_COST + 1},
        {.kind = ROUTE_ADVERT, .cost = -WIRE_MAX_ROUTE_COST - 1},
        {.kind = ROUTE_DENY, .units = WIRE_MAX_ROUTE_UNITS + 1},
        {.kind = ROUTE_DENY, .source = 1u << 31},
        {.kind = ROUTE_COMMIT, .moved = WIRE_MAX_ROUTE_UNITS + 1},
        {.kind = ROUTE_ABORT, .token.origin = 1u << 31},
        {.kind = ROUTE_ABORT, .token.position = 4096},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        message m = route_of(bad[i]);
        assert_not_encoded(&m);
    }
    message m = route_of((route_part){.kind = ROUTE_LABEL, .words = 3});
    assert_true(message_encode(&m, bytes, sizeof bytes) > 0);
    m.u.route.word[2] = 1u << 30;  // the cost of a step
    assert_not_encoded(&m);
    m = route_of((route_part){.kind = ROUTE_ABORT});
    m.u.route.cost = (1u << 30) + 1;
    assert_not_encoded(&m);
    m.u.route = (message_route){.parts = WIRE_MAX_ROUTE_PARTS + 1};
    assert_not_encoded(&m);
    m.u.route = (message_route){.parts = 9};
    for (uint32_t i = 0; i < 9; i++) m.u.route.part[i] = (route_part){.kind = ROUTE_LABEL, .words = 120};
    assert_not_encoded(&m);  // too many words in sum, each part within its limit
    m.u.route.parts = 8;
    size_t count = message_encode(&m, bytes, sizeof bytes);
    assert_true(count > 0 && message_decode(bytes, count, &copy));
    assert_int_equal(route_words_before(&copy.u.route, 8), WIRE_MAX_ROUTE_WORDS);
    assert_string_equal(route_kind_name(ROUTE_COMMIT), "commit");
    assert_string_equal(route_kind_name(ROUTE_KINDS), "unknown");
}

static void test_limits_of_a_view(void **state) {
    (void)state;
    const message_view bad[] = {
        {.kind = GOSSIP_KINDS},
        {.kind = GOSSIP_SAMPLE, .side = 1},  // a field that this kind does not use
        {.kind = GOSSIP_PING, .by_chance = true},
        {.kind = GOSSIP_PING, .cost = 1},
        {.kind = GOSSIP_ASK, .clock_us = 1},
        {.kind = GOSSIP_PONG, .clock_us = 1},
        {.kind = GOSSIP_PING, .echo_us = 1},
        {.kind = GOSSIP_YES, .rate_out = 1},
        {.kind = GOSSIP_NO, .rate_in = 1},
        {.kind = GOSSIP_CUT, .rate_here = 1},
        {.kind = GOSSIP_PONG, .cards = 1, .card = {{.member = 1}}},
        {.kind = GOSSIP_PART, .side = 3},
        {.kind = GOSSIP_PART, .linked = 4},
        {.kind = GOSSIP_ASK, .cost = WIRE_MAX_LINK_COST + 1},
        {.kind = GOSSIP_CUT, .place.error = 1001},
        {.kind = GOSSIP_CUT, .place.height = -1},
        {.kind = GOSSIP_CUT, .place.at[2] = (1 << 30) + 1},
        {.kind = GOSSIP_CUT, .place.at[0] = INT32_MIN},
        {.kind = GOSSIP_REPLY, .cards = WIRE_MAX_VIEW_CARDS + 1},
        {.kind = GOSSIP_REPLY, .cards = 1},  // of nobody
        {.kind = GOSSIP_REPLY, .cards = 1, .card = {{.member = 1u << 31}}},
        {.kind = GOSSIP_REPLY, .cards = 1, .card = {{.member = 1, .age = 257}}},
        {.kind = GOSSIP_REPLY, .cards = 1, .card = {{.member = 1, .place.height = -1}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        message m = {.kind = MESSAGE_VIEW, .u.view = bad[i]};
        assert_not_encoded(&m);
    }
    assert_string_equal(gossip_kind_name(GOSSIP_PONG), "pong");
    assert_string_equal(gossip_kind_name(GOSSIP_KINDS), "unknown");
}

enum { HEADER = 1 + 8 + 8 + 8, SUBJECT = 4 + 2 + 8 };  // bytes

// Changes one byte of a good message and expects a refusal.
static void assert_refused(size_t count, size_t at, uint8_t value) {
    assert_true(at < count);
    uint8_t before = bytes[at];
    assert_true(message_decode(bytes, count, &copy));
    bytes[at] = value;
    assert_false(message_decode(bytes, count, &copy));
    bytes[at] = before;
}

static void test_limits_hold_when_decoding(void **state) {
    (void)state;
    message m = {.kind = MESSAGE_DENY};
    size_t count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, 0, MESSAGE_NONE);
    assert_refused(count, 0, MESSAGE_KINDS);
    assert_refused(count, 0, 0xff);
    assert_refused(count, HEADER + 4, WIRE_MAX_STAGES + 1);
    assert_refused(count, HEADER + 5, 1);
    assert_refused(count, HEADER + SUBJECT, PHASE_COUNT);
    assert_refused(count, HEADER + SUBJECT + 1, DENY_REASONS);
    assert_refused(count, HEADER + SUBJECT, PHASE_BACKWARD);    // DENY_FULL is an answer to a forward
    assert_refused(count, HEADER + SUBJECT + 1, DENY_MISSING);  // and this one to a gradient
    m = (message){.kind = MESSAGE_DENY_COMMIT};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, HEADER + SUBJECT, COMMIT_REFUSALS);
    m = (message){.kind = MESSAGE_COUNTED, .u.counted.overflow = true};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, HEADER + SUBJECT + 4, 2);
    m = (message){.kind = MESSAGE_RESUME};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, HEADER + SUBJECT + 8, PHASE_COUNT);
    m = (message){.kind = MESSAGE_GET, .u.get = {.first = 2, .count = UINT32_MAX - 2}};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, HEADER, GET_KINDS);
    assert_refused(count, HEADER + 1 + 2, 3);
    m = (message){.kind = MESSAGE_LOG, .u.log.entry = {.kind = LOG_EXPEL}};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, HEADER + 9 + 16, LOG_KINDS);
    assert_refused(count, HEADER + 9 + 17 + 8, EXPEL_REASONS);
    m = (message){.kind = MESSAGE_VIEW, .u.view = {.kind = GOSSIP_ASK}};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, HEADER, GOSSIP_KINDS);
    assert_refused(count, HEADER + 1, 4);
    assert_refused(count, HEADER + 2 + 15, 0x80);       // the height
    assert_refused(count, HEADER + 2 + 17, 0x04);       // the error
    assert_refused(count, HEADER + 2 + 18, 3);          // the side
    assert_refused(count, HEADER + 2 + 18 + 1, 2);  // a bool other than 0 or 1
    assert_refused(count, HEADER + 2 + 18 + 5, 0x41);   // the cost
}

// Counts above the available entries, or above the maximum with enough bytes present.
static void test_counts_of_a_peer_are_bounded(void **state) {
    (void)state;
    static const struct {
        uint8_t kind;
        size_t at;
        unsigned maximum;
    } cases[] = {
        {MESSAGE_COMMIT, HEADER + SUBJECT + 8, WIRE_MAX_STAGES},
        {MESSAGE_BEGIN_AGGREGATION, HEADER + 18 + 16, WIRE_MAX_STAGE_MEMBERS},
        {MESSAGE_REDUCED, HEADER + 18 + 1 + 32, WIRE_MAX_STAGE_TENSORS},
        {MESSAGE_MISMATCH, HEADER + 18, WIRE_SET_WORDS},
        {MESSAGE_JOIN, HEADER + 1 + 2 + 4 + 8 + 8, WIRE_MAX_ADDRESS - 1},
        {MESSAGE_ROUTE, HEADER + 12 + 8 + 16, WIRE_MAX_ROUTE_PARTS},
        {MESSAGE_VIEW, HEADER + 2 + 18 + 16, WIRE_MAX_VIEW_CARDS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (unsigned over = 1; over < 60000; over = over * 3 + 1) {
            message m = {.kind = cases[i].kind};
            memset(bytes, 'x', sizeof bytes);
            size_t count = message_encode(&m, bytes, sizeof bytes);
            assert_true(count > cases[i].at + 1);
            unsigned claimed = cases[i].maximum + over;
            bytes[cases[i].at] = (uint8_t)claimed;
            bytes[cases[i].at + 1] = (uint8_t)(claimed >> 8);
            assert_false(message_decode(bytes, count, &copy));
            assert_false(message_decode(bytes, sizeof bytes, &copy));
        }
    }
}

static void test_one_encoding_for_each_value(void **state) {
    (void)state;
    // the last word of a set may not be zero
    message m = {.kind = MESSAGE_MISMATCH, .u.mismatch.set.words[0] = 1};
    size_t count = message_encode(&m, bytes, sizeof bytes);
    assert_true(message_decode(bytes, count, &copy));
    bytes[HEADER + 18] = 2;
    memset(bytes + count, 0, 8);
    assert_false(message_decode(bytes, count + 8, &copy));
    // a text without terminator or control characters
    m = (message){.kind = MESSAGE_JOIN, .u.join.address = "host:1"};
    count = message_encode(&m, bytes, sizeof bytes);
    assert_refused(count, count - 1, '\0');
    assert_refused(count, count - 1, '\x1b');
    assert_refused(count, count - 1, 0x80);
    // bytes after the terminator are not encoded
    m.u.join.address[100] = 'x';
    assert_int_equal(message_encode(&m, again, sizeof again), count);
    assert_memory_equal(again, bytes, count);
}

// Each changed encoding is refused or is another message: every byte has a meaning.
static void test_accepted_bytes_are_canonical(void **state) {
    (void)state;
    rng r = seeded_rng("canonical", 15);
    unsigned accepted = 0;
    for (int round = 0; round < 20000; round++) {
        wire_random w = {.r = &r};
        random_message(&w, (uint8_t)(1 + rng_below(&r, MESSAGE_KINDS - 1)), &original);
        size_t count = message_encode(&original, bytes, sizeof bytes);
        for (uint64_t flips = 1 + rng_below(&r, 3); flips > 0; flips--) {
            bytes[rng_below(&r, count)] ^= (uint8_t)(1u << rng_below(&r, 8));
        }
        if (!message_decode(bytes, count, &copy)) continue;
        accepted++;
        assert_int_equal(message_encode(&copy, again, sizeof again), count);
        assert_memory_equal(again, bytes, count);
    }
    assert_true(accepted > 1000);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(message_kind_name(MESSAGE_FORWARD), "FORWARD");
    assert_string_equal(message_kind_name(MESSAGE_BEGIN_AGGREGATION), "BEGIN_AGGREGATION");
    assert_string_equal(message_kind_name(MESSAGE_NONE), "UNKNOWN");
    assert_string_equal(message_kind_name(MESSAGE_KINDS), "UNKNOWN");
    for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) assert_string_not_equal(message_kind_name(kind), "UNKNOWN");
    for (uint8_t why = 0; why < DENY_REASONS; why++) assert_string_not_equal(deny_reason_name(why), "UNKNOWN");
    assert_string_equal(deny_reason_name(DENY_STALE), "STALE");
    assert_string_equal(deny_reason_name(DENY_REASONS), "UNKNOWN");
    for (uint8_t why = 0; why < COMMIT_REFUSALS; why++) assert_string_not_equal(commit_refusal_name(why), "UNKNOWN");
    assert_string_equal(commit_refusal_name(COMMIT_MISSING), "MISSING");
    assert_string_equal(commit_refusal_name(COMMIT_REFUSALS), "UNKNOWN");
    for (uint8_t why = 0; why < GET_REFUSALS; why++) assert_string_not_equal(get_refusal_name(why), "UNKNOWN");
    assert_string_equal(get_refusal_name(GET_LATER), "LATER");
    assert_string_equal(get_refusal_name(GET_REFUSALS), "UNKNOWN");
    unsigned with_payload = 0;
    for (uint8_t kind = 0; kind < MESSAGE_KINDS; kind++) with_payload += message_has_payload(&(message){.kind = kind});
    assert_int_equal(with_payload, 5);
    assert_true(message_has_payload(&(message){.kind = MESSAGE_DATA}));
    message carried = {.kind = MESSAGE_BACKWARD};
    carried.u.backward.parcel.pieces = 2;
    assert_false(message_has_payload(&carried));
    assert_false(message_has_payload(&(message){.kind = MESSAGE_DATA, .u.data.get.by = 1}));
}

// Every message fits in one frame at its largest.
static void test_the_longest_message_fits_a_frame(void **state) {
    (void)state;
    rng r = seeded_rng("longest", 16);
    wire_random w = {.r = &r, .full = true};
    size_t longest = 0;
    for (uint8_t kind = 1; kind < MESSAGE_KINDS; kind++) {
        random_message(&w, kind, &original);
        size_t count = message_encode(&original, bytes, sizeof bytes);
        assert_true(count > 0);
        if (count > longest) longest = count;
    }
    assert_true(longest > 8192 && longest < WIRE_MAX_CONTROL_BYTES / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_of_every_kind),
        cmocka_unit_test(test_round_trip_of_every_log_entry),
        cmocka_unit_test(test_every_length_but_one_is_refused),
#if HAS_CLEAR_PADDING
        cmocka_unit_test(test_every_byte_of_a_body_is_encoded),
#endif
        cmocka_unit_test(test_limits_hold_when_encoding),
        cmocka_unit_test(test_terms_are_bounded),
        cmocka_unit_test(test_limits_of_a_route),
        cmocka_unit_test(test_limits_of_a_view),
        cmocka_unit_test(test_limits_hold_when_decoding),
        cmocka_unit_test(test_counts_of_a_peer_are_bounded),
        cmocka_unit_test(test_one_encoding_for_each_value),
        cmocka_unit_test(test_accepted_bytes_are_canonical),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_the_longest_message_fits_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
