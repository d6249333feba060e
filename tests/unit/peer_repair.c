// How an owner mends ways: when it looks, and what it keeps of what lives.
#include "peer_world.h"

static void beat(world *w, uint32_t from, bool ready) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = ready, .can_take = ready, .free_slots = ready ? 2 : 0}};
    deliver(w, from, &m, false);
}

enum { OWNER = 2, HOLDER = 3, NEXT = 7 };

// Time passes in which those of whom the log knows speak.
static void pass(world *w, uint32_t ms, uint32_t relay, bool ready) {
    for (uint32_t i = 0; i < ms / 100; i++) {
        if (i % 5 == 0) beat(w, 1, true);
        if (i % 5 == 0 && relay != 0) beat(w, relay, ready);
        tick(w);
    }
}

// The one relay of a stage, which was told to count, is expelled. For a while nobody else is there; then somebody comes, has the state after another
// while, and says so by CAN TAKE or by a heartbeat.
static void somebody_comes(bool by_heartbeat) {
    world w = {.run = run_of(2, 1, 1)};
    open_world(&w, OWNER, MEMBER_DATA);
    for (uint32_t i = 1; i <= 2; i++) admit(&w, i, MEMBER_DATA, 0);
    admit(&w, HOLDER, MEMBER_RELAY, 1);
    own(&w, 0, OWNER);
    append(&w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    beat(&w, 1, true);
    beat(&w, HOLDER, true);
    const message_path path = {.stages = 2, .member = {OWNER, HOLDER}};
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 0), .owner = OWNER, .forward_to = 2, .home = true, .path = path}};
    deliver(&w, HOLDER, &home, true);
    message back = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 0), .owner = OWNER, .path = path}};
    deliver(&w, HOLDER, &back, true);
    assert_int_equal(w.sent_to[MESSAGE_COMMIT], HOLDER);
    append(&w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = HOLDER}});
    pass(&w, 60000, 0, false);
    admit(&w, NEXT, MEMBER_RELAY, 1);
    pass(&w, 63000, NEXT, false);
    const uint32_t sent = w.sent[MESSAGE_FORWARD];
    const uint64_t since = w.now;
    message can_take = {.kind = MESSAGE_CAN_TAKE, .u.can_take = {.stage = 1, .free_slots = 2}};
    if (!by_heartbeat) deliver(&w, NEXT, &can_take, false);
    while (w.sent[MESSAGE_FORWARD] == sent) pass(&w, 500, NEXT, true);
    print_message("asked after %.1f s\n", (double)(w.now - since) / 1e9);
    assert_int_equal(w.sent_to[MESSAGE_FORWARD], NEXT);
    assert_in_range(w.now - since, 0, 500 * MILLISECOND);
    free(w.p);
}

static void test_who_comes_to_have_the_state_is_asked_at_once(void **state) {
    (void)state;
    somebody_comes(true);
    somebody_comes(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_comes_to_have_the_state_is_asked_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
