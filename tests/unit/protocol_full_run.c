// A run with as many members as the protocol allows: admission at the limit, and many unknown
// peers.
#include "braid/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct {
    peer *p;
    uint64_t now;
    log_entry append[256];
    uint32_t appends, members, closed;
} w;

// The peers of the tests: the leader, a member that leaves, one that restarts, two that die, the
// relay under test, which reads the log, and two joiners.
enum { LEADER = 1, LEAVING = 2, RESTARTED = 3, DEAD_A = 7, DEAD_B = 8, READER = 1000, JOINER_A = 1001, JOINER_B = 1002 };
// The first numbers of peers in series: voters that die, unknown peers, the relay that the log names
// last, and unknown peers that link while a joiner asks.
enum { DEAD_VOTERS = 2000, UNKNOWN = 5000, NEW_MEMBER = 9000, MORE_UNKNOWN = 10000 };

static braid_id name_of(uint32_t number) { return (braid_id){.bytes = {(uint8_t)number, (uint8_t)(number >> 8), 1}}; }

// Steps the leader or the reader under test. Every dial is refused.
static void step(const event *e) {
    effect out;
    braid_id dialed[64];
    uint32_t dials = 0;
    peer_step(w.p, w.now, e);
    while (peer_next_effect(w.p, &out)) {
        if (out.kind == EFFECT_DIAL && dials < 64) dialed[dials++] = out.id;
        w.closed += out.kind == EFFECT_CLOSE;
        if (out.kind == EFFECT_APPEND) w.append[w.appends++] = *out.entry;
        if (out.kind == EFFECT_APPEND && out.entry->kind == LOG_MEMBER) w.members++;
    }
    for (uint32_t i = 0; i < dials; i++) step(&(event){.kind = EVENT_LINK_DOWN, .id = dialed[i], .refused = true});
}

static void store(void) {
    while (w.appends > 0) {
        log_entry stored[256];
        uint32_t count = w.appends;
        memcpy(stored, w.append, sizeof stored);
        w.appends = 0;
        for (uint32_t i = 0; i < count; i++) step(&(event){.kind = EVENT_STORED, .entry = &stored[i]});
    }
}

static void say(uint32_t from, message *m) { step(&(event){.kind = EVENT_MESSAGE, .id = name_of(from), .msg = m}); }

static void ask_as(uint32_t from, uint64_t incarnation) {
    message join = {.kind = MESSAGE_JOIN, .u.join = {.kind = MEMBER_RELAY, .capacity = 2, .incarnation = incarnation, .store = from, .address = "a:1"}};
    say(from, &join);
}

static void ask_anew(uint32_t from, uint64_t incarnation) {
    step(&(event){.kind = EVENT_LINK_UP, .id = name_of(from)});
    ask_as(from, incarnation);
}

static void ask(uint32_t from) { ask_anew(from, from); }

static const uint16_t tensor_stage[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static peer_run run_of_twelve(void) {
    peer_run run = {.seed = 1, .iterations = 3, .microbatches = 1, .stages = 12, .slots = 1, .start_data_peers = 1, .start_relays = 60000, .reproducible = true, .activation_bytes = 1024,
                    .model_tensors = 12, .tensor_stage = tensor_stage, .routing = UINT8_MAX};
    for (uint32_t s = 0; s < 12; s++) run.blocks[s] = run.tensors[s] = 1;
    return run;
}

static void init(const peer_run *run, const peer_config *config) {
    void *memory = NULL;
    memset(&w, 0, sizeof w);
    assert_int_equal(posix_memalign(&memory, 64, peer_bytes(run, config)), 0);
    memset(memory, 0, peer_bytes(run, config));
    w.now = 1000000000;
    w.p = peer_init(memory, run, config, w.now);
}

static void begin(const peer_run *run, const peer_config *config) {
    init(run, config);
    step(&(event){.kind = EVENT_TICK});
    store();
}

static void begin_leader(void) {
    const peer_run run = run_of_twelve();
    const peer_config config = {.self = name_of(LEADER), .kind = MEMBER_DATA, .address = "peer:1", .capacity = 2, .random_seed = 1, .leader_id = name_of(LEADER), .leader_address = "peer:1", .leader = true, .voters = 1};
    begin(&run, &config);
}

static void unknown_peers_link(uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
        w.now += 1000000;
        step(&(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
        store();
    }
}

// Rule J1. Given contacts filled by links of unknown peers, when a worker asks for admission, then
// it is admitted.
static void test_unknown_peers_do_not_block_admission(void **state) {
    (void)state;
    begin_leader();
    unknown_peers_link(UNKNOWN, 2 * WIRE_MAX_MEMBERS);
    assert_true(w.closed > 0);
    for (uint32_t i = 2; i <= 40; i++) {
        w.now += 1000000;
        step(&(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
        unknown_peers_link(MORE_UNKNOWN + 100 * i, 100);  // while its JOIN is on its way
        ask_as(i, i);
        store();
    }
    assert_int_equal(w.members, 40);
    free(w.p);
}

// Rule L3. Given contacts filled by unknown peers, when the log names a member, then this peer
// knows it.
static void test_unknown_peers_hide_no_member(void **state) {
    (void)state;
    const peer_run run = run_of_twelve();
    const peer_config config = {.self = name_of(READER), .kind = MEMBER_RELAY, .address = "peer:2", .capacity = 2, .random_seed = 1, .leader_id = name_of(LEADER), .leader_address = "peer:1", .voters = 1};
    member_id members[4];
    begin(&run, &config);
    step(&(event){.kind = EVENT_LINK_UP, .id = name_of(LEADER)});
    unknown_peers_link(UNKNOWN, 2 * WIRE_MAX_MEMBERS);
    for (uint32_t i = 0; i < 3; i++) {
        message m = {.kind = MESSAGE_LOG, .u.log = {.previous = i, .entry = {.kind = LOG_MEMBER, .index = i + 1, .term = 1}}};
        m.u.log.entry.u.member = (log_member){.peer = name_of(i + 1), .kind = MEMBER_DATA, .capacity = 2, .incarnation = 1, .address = "a:1"};
        say(LEADER, &m);
    }
    assert_int_equal(peer_members(w.p, 0, members, 4), 3);
    free(w.p);
}

static uint64_t read_entry(uint64_t index, log_entry entry) {
    message m = {.kind = MESSAGE_LOG, .sender = LEADER, .log_position = index, .u.log = {.previous = index - 1, .entry = entry}};
    m.u.log.entry.index = index;
    m.u.log.entry.term = 1;
    say(LEADER, &m);
    return index;
}

static log_entry member_entry(uint32_t number, member_kind kind) {
    return (log_entry){.kind = LOG_MEMBER, .u.member = {.peer = name_of(number), .kind = (uint8_t)kind, .stage = kind == MEMBER_RELAY, .capacity = 2, .incarnation = number, .store = number, .address = "a:1"}};
}

// Rule V3. Given many voters that died and were replaced, when the log names a member, then this
// peer knows it.
static void test_dead_voters_hide_no_member(void **state) {
    (void)state;
    const peer_run run = run_of_twelve();
    const peer_config config = {.self = name_of(READER), .kind = MEMBER_RELAY, .address = "peer:2", .capacity = 2, .random_seed = 1000, .leader_id = name_of(LEADER), .leader_address = "peer:1", .voters = 5};
    begin(&run, &config);
    step(&(event){.kind = EVENT_LINK_UP, .id = name_of(LEADER)});
    uint64_t index = read_entry(1, member_entry(LEADER, MEMBER_DATA));
    for (uint32_t i = 0; i < 2 * WIRE_MAX_MEMBERS; i++) {
        const braid_id voter = name_of(DEAD_VOTERS + i);
        const uint64_t member = index = read_entry(index + 1, member_entry(DEAD_VOTERS + i, MEMBER_RELAY));
        step(&(event){.kind = EVENT_LINK_UP, .id = voter});
        index = read_entry(index + 1, (log_entry){.kind = LOG_VOTERS, .u.voters = {.count = 2, .voter = {{.id = name_of(LEADER), .store = 1, .address = "a:1"}, {.id = voter, .store = 1, .address = "a:1"}}}});
        step(&(event){.kind = EVENT_LINK_DOWN, .id = voter, .refused = true});
        index = read_entry(index + 1, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = member, .reason = EXPEL_DEAD}});
        w.now += 100000000;
        step(&(event){.kind = EVENT_TICK});
    }
    read_entry(index + 1, member_entry(NEW_MEMBER, MEMBER_RELAY));
    member_id members[4];
    assert_int_equal(peer_members(w.p, 1, members, 4), 1);
    free(w.p);
}

// A leader with one place left.
static void open_full(void) {
    begin_leader();
    for (uint32_t i = 2; i <= WIRE_MAX_MEMBERS - 1; i++) {
        ask(i);
        store();
    }
}

// Rule J1. Given one free place and two joiners, when a member leaves, then the second joiner is
// admitted as well.
static void test_second_joiner_is_admitted_after_a_removal(void **state) {
    (void)state;
    open_full();
    ask(JOINER_A);
    ask(JOINER_B);
    store();
    message leave = {.kind = MESSAGE_LEAVE};
    say(LEAVING, &leave);
    store();
    uint32_t before = w.members;
    for (uint32_t i = 0; i < 25; i++) {
        w.now += 200000000;
        ask(JOINER_B);
        store();
    }
    assert_true(w.members > before);
    free(w.p);
}

// Rule L6. Given a full run, when a member restarts, then its older membership makes room for it.
static void test_restarted_member_takes_its_own_place(void **state) {
    (void)state;
    open_full();
    ask(JOINER_A);
    store();
    uint32_t before = w.members;
    ask_anew(RESTARTED, 2003);
    store();
    assert_int_equal(w.members, before + 1);
    ask(JOINER_B);
    store();
    assert_int_equal(w.members, before + 1);
    free(w.p);
}

// LEADER restarts with its log and leads a run with as many other members as the protocol allows.
static void come_back_to_a_full_run(void) {
    enum { OTHERS = WIRE_MAX_MEMBERS };
    const peer_run run = run_of_twelve();
    const peer_config config = {.self = name_of(LEADER), .kind = MEMBER_DATA, .address = "peer:1", .capacity = 2, .random_seed = 1, .leader_id = name_of(LEADER), .leader_address = "peer:1", .leader = true, .voters = 1};
    log_entry record = {.kind = LOG_BASE, .index = OTHERS + 1, .term = 1, .u.base = {.entries = OTHERS + 1, .applied = OTHERS + 1, .voters = {.count = 1, .voter = {{.id = name_of(LEADER), .store = 1}}}}};
    init(&run, &config);
    assert_true(peer_recall(w.p, &record));
    for (uint32_t i = 1; i <= OTHERS; i++) {
        record = member_entry(i + 1, MEMBER_RELAY);
        record.index = i;
        record.term = 1;
        record.u.member.stage = (uint16_t)(1 + i % 11);
        assert_true(peer_recall(w.p, &record));
    }
    record = (log_entry){.kind = LOG_RUN, .index = OTHERS + 1, .term = 1, .u.run = {.generation = 1}};
    assert_true(peer_recall(w.p, &record));
    for (uint32_t i = 2; i <= OTHERS + 1; i++) step(&(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    peer_view view = {.leads = false};
    for (uint32_t i = 0; !view.leads; i++) {
        assert_true(i < 100);
        w.now += 100000000;
        step(&(event){.kind = EVENT_TICK});
        store();
        peer_look(w.p, &view);
    }
    assert_int_equal(w.members, 0);
}

static void is_gone(uint32_t number) {
    step(&(event){.kind = EVENT_LINK_DOWN, .id = name_of(number), .refused = true});
    w.now += 500000000;
    step(&(event){.kind = EVENT_TICK});
}

// Rule V18. Given a returning leader and a full run, when another joiner takes the first free
// place, then the leader is admitted at the next one.
static void test_returning_leader_is_admitted_when_there_is_room(void **state) {
    (void)state;
    peer_view view;
    come_back_to_a_full_run();
    is_gone(DEAD_A);
    ask_anew(DEAD_A, 9000);
    store();
    peer_look(w.p, &view);
    assert_int_equal(w.members, 2);
    assert_int_equal(view.member, 0);
    is_gone(DEAD_B);
    store();
    peer_look(w.p, &view);
    assert_int_equal(w.members, 3);
    assert_true(view.member != 0);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_joiner_is_admitted_after_a_removal),
        cmocka_unit_test(test_restarted_member_takes_its_own_place),
        cmocka_unit_test(test_returning_leader_is_admitted_when_there_is_room),
        cmocka_unit_test(test_unknown_peers_do_not_block_admission),
        cmocka_unit_test(test_unknown_peers_hide_no_member),
        cmocka_unit_test(test_dead_voters_hide_no_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
