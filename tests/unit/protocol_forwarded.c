// Relayed transfers in pieces, at the receiver and at the forwarder.
#include "protocol_world.h"

enum { OWNER = 1, FORWARDER = 2, RELAY = 3 };  // the relays work on the same stage

enum { PIECES = 2, PIECE_BYTES = BYTES / PIECES, SERIAL = 77, MOST_CARRIED = 32 };

// A relay that has an owner before it and another relay of its stage beside it.
static void open_relay(world *w) {
    w->run = run_of(2, 1, 1);
    open_world(w, RELAY, MEMBER_RELAY);
    admit(w, OWNER, MEMBER_DATA, 0);
    for (uint32_t i = FORWARDER; i <= RELAY; i++) admit(w, i, MEMBER_RELAY, 1);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
}

static void live(world *w, uint32_t seconds) {
    for (uint32_t i = 0; i < 2 * seconds; i++) {
        w->now += 500 * MILLISECOND;
        for (uint32_t other = OWNER; other <= FORWARDER; other++) deliver(w, other, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
        step(w, &(event){.kind = EVENT_TICK});
    }
}

static void announce(world *w, uint32_t m) {
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, m, 1), .owner = OWNER, .forward_to = 2, .path = {.stages = 2, .member = {OWNER}}}};
    forward.u.forward.parcel = (message_parcel){.serial = SERIAL + m, .pieces = PIECES};
    deliver(w, OWNER, &forward, false);
}

static void piece(world *w, uint32_t m, member_id to, uint16_t index, uint64_t bytes) {
    message carry = {.kind = MESSAGE_CARRY, .u.carry = {.origin = OWNER, .to = to, .serial = SERIAL + m, .index = index, .count = PIECES}};
    deliver_bytes(w, to == w->self ? FORWARDER : OWNER, &carry, bytes);
}

static uint32_t under_way(world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return (uint32_t)view.blobs_held;
}

// Rule C4. Given an announced transfer with a missing piece, when no piece comes for a minute, then
// it is dropped and the sender gets UNCARRIED.
static void test_incomplete_transfer_is_dropped_with_uncarried(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    announce(&w, 0);
    live(&w, 50);
    piece(&w, 0, RELAY, 0, PIECE_BYTES);
    live(&w, 50);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 0);
    live(&w, 20);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 1);
    assert_int_equal(w.last_uncarried_to, OWNER);
    assert_int_equal(under_way(&w), 0);
    free(w.p);
}

// Rule C4. Given a piece without announcement, when a minute passes, then it is dropped and no
// message is sent.
static void test_unannounced_pieces_are_dropped(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    piece(&w, 0, RELAY, 0, PIECE_BYTES);
    assert_int_equal(under_way(&w), 1);
    live(&w, 61);
    assert_int_equal(under_way(&w), 0);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 0);
    free(w.p);
}

// Rule C4. Given a transfer, when a piece has the wrong size, then receiver and forwarder refuse it
// with UNCARRIED.
static void test_piece_of_another_size_is_refused(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay(&w);
    announce(&w, 0);
    piece(&w, 0, RELAY, 0, PIECE_BYTES - 1);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 1);
    assert_int_equal(w.last_uncarried_to, OWNER);
    piece(&w, 0, FORWARDER, 0, PIECE_BYTES - 1);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 2);
    assert_int_equal(w.sent[MESSAGE_CARRY], 0);
    assert_int_equal(under_way(&w), 0);
    free(w.p);
}

// Rule C5. Given 32 tensors that wait on the links of a forwarder, when a piece arrives, then it is
// refused.
static void test_forwarder_refuses_when_its_links_are_full(void **state) {
    (void)state;
    world w = {.waiting_bytes = (uint64_t)MOST_CARRIED * BYTES - PIECE_BYTES};
    open_relay(&w);
    piece(&w, 0, FORWARDER, 0, PIECE_BYTES);
    assert_int_equal(w.sent[MESSAGE_CARRY], 1);
    w.waiting_bytes++;
    piece(&w, 0, FORWARDER, 1, PIECE_BYTES);
    assert_int_equal(w.sent[MESSAGE_CARRY], 1);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 1);
    assert_int_equal(w.last_uncarried_to, OWNER);
    assert_int_equal(under_way(&w), 0);
    free(w.p);
}

// Rule C4. Given --no-carry, when a piece for another member arrives, then it is refused; a
// transfer to this peer is taken.
static void test_disabled_forwarder_refuses(void **state) {
    (void)state;
    world w = {.carries_nothing = true};
    open_relay(&w);
    piece(&w, 0, FORWARDER, 0, PIECE_BYTES);
    assert_int_equal(w.sent[MESSAGE_CARRY], 0);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED], 1);
    announce(&w, 0);
    w.busy = true;
    for (uint16_t i = 0; i < PIECES; i++) piece(&w, 0, RELAY, i, PIECE_BYTES);
    assert_int_equal(w.work.kind, JOB_JOIN);  // its own it takes
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incomplete_transfer_is_dropped_with_uncarried),
        cmocka_unit_test(test_unannounced_pieces_are_dropped),
        cmocka_unit_test(test_piece_of_another_size_is_refused),
        cmocka_unit_test(test_forwarder_refuses_when_its_links_are_full),
        cmocka_unit_test(test_disabled_forwarder_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
