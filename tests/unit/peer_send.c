// A tensor that is passed on: when it is sent again, and to whom.
#include "peer_world.h"

static void beat(world *w, uint32_t from) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1, .free_slots = from == 1 ? 0 : 2, .reaches = 1}};
    deliver(w, from, &m, false);
}

// A relay between an owner and two relays of the next stage. It has computed a microbatch and sent it to the first of them.
static void open_relay(world *w) {
    *w = (world){.run = run_of(3, 1, 1)};
    open_world(w, 2, MEMBER_RELAY);
    admit(w, 1, MEMBER_DATA, 0);
    admit(w, 2, MEMBER_RELAY, 1);
    for (uint32_t i = 3; i <= 4; i++) admit(w, i, MEMBER_RELAY, 2);
    own(w, 0, 1);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 1; i <= 4; i++)
        if (i != 2) beat(w, i);
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, 0, 1), .owner = 1, .forward_to = 3, .path = {.stages = 3, .member = {1}}}};
    deliver(w, 1, &forward, true);
    assert_int_equal(w->sent[MESSAGE_FORWARD], 1);
}

static void resume(world *w, member_id next) {
    message m = {.kind = MESSAGE_RESUME, .u.resume = {.subject = subject_of(w, 0, 1), .owner = 1, .phase = PHASE_FORWARD, .until = 3, .path = {.stages = 3, .member = {1, 2, next}}}};
    deliver(w, 1, &m, false);
}

// The owner has not heard of it and asks for what is being done.
static void test_what_is_under_way_is_not_sent_again(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    resume(&w, 0);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    resume(&w, 4);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 2);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_under_way_is_not_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
