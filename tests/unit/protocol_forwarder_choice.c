// The choice of a forwarder. The link state is written by the test, since probes take minutes.
#include "protocol/route/route_linkstate.c"

#include "protocol_world.h"

enum { MOST_RELAYS = 12, STRAIGHT_US = 30000000, DETOUR_US = 3000000 };

static void beat(world *w, uint32_t relays) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .reaches = 1, .can_take = 1, .free_slots = 2}};
    for (uint32_t i = 1; i < 3 + relays; i++)
        if (i != w->self) deliver(w, i, &m, false);
}

// An owner's activation, while its lines to all relays are narrow, and a wide one leads to another
// data peer, as do theirs.
static void send_one(uint32_t relays, bool falls, world *w) {
    *w = (world){.run = run_of(2, 1, 1), .forward_held = 1};
    w->run.activation_bytes = 4 << 20;
    w->run.routing = ROUTER_MINCOST;
    open_world(w, 2, MEMBER_DATA);
    for (uint32_t i = 1; i <= 2; i++) admit(w, i, MEMBER_DATA, 0);
    for (uint32_t i = 3; i < 3 + relays; i++) admit(w, i, MEMBER_RELAY, 1);
    own(w, 0, 2);
    append(w, (log_entry){.kind = LOG_RUN, .u.run = {.generation = 1}});
    for (uint32_t i = 0; i < 10; i++) {
        beat(w, relays);
        tick(w);
    }
    assert_int_equal(w->work.kind, JOB_FORWARD);
    route_linkstate *r = w->p->routing->linkstate;
    r->advertised[0].member = 1;
    r->told.count = r->advertised[0].lines.count = relays;
    for (uint32_t i = 0; i < relays; i++) {
        bandwidth_entry(w->p, 3 + i);
        r->told.line[i].member = r->advertised[0].lines.line[i].member = 3 + i;
        r->told.line[i].way = STRAIGHT_US;
        r->advertised[0].lines.line[i].way = DETOUR_US;
    }
    r->told.line[r->told.count].member = 1;
    r->told.line[r->told.count++].way = DETOUR_US;
    if (falls) step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(1)});
    assert_true(member_answers(w->p, 1));
    w->forward_held = 0;
    do_job(w);
}

// Rule C1. Given slow links to all relays and a data peer with fast links, when the owner sends,
// then that data peer forwards.
static void test_fast_third_member_is_forwarder(void **state) {
    (void)state;
    static world w;
    send_one(MOST_RELAYS, false, &w);
    assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
    assert_false(w.last_had_blob[MESSAGE_FORWARD]);
    assert_int_equal(w.sent[MESSAGE_CARRY], route_pieces(w.p));
    route_forwarding planned;
    assert_true(route_forwarder_planned(w.p, 3, 1, &planned));
    assert_int_equal(planned.by, 1);
    free(w.p);
}

// Rule C4. Given a forwarder with a lost link that still counts as alive, when the owner sends,
// then the tensor goes directly, also against the plan.
static void test_member_with_a_lost_link_is_no_forwarder(void **state) {
    (void)state;
    for (uint32_t relays = 1; relays <= MOST_RELAYS; relays += MOST_RELAYS - 1) {
        static world w;
        send_one(relays, true, &w);
        assert_int_equal(w.sent[MESSAGE_FORWARD], 1);
        assert_true(w.last_had_blob[MESSAGE_FORWARD]);
        assert_int_equal(w.sent[MESSAGE_CARRY], 0);
        route_forwarding planned;
        assert_false(route_forwarder_planned(w.p, 3, 1, &planned));  // though a plan says so
        free(w.p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_third_member_is_forwarder),
        cmocka_unit_test(test_member_with_a_lost_link_is_no_forwarder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
