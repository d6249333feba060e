// When a fallen link is dialled again, and at which address (rules D3 and V21).
#include "protocol/cluster/cluster.h"
#include "protocol/internal.h"
#include "protocol_world.h"

enum { SELF = 2, OLDER = 1, NEWER = 3, MOST_STEPS = 100 };

// A relay with links to an older and to a newer member.
static void open_links(world *w) {
    *w = (world){.run = run_of(2, 1, 1)};
    open_world(w, SELF, MEMBER_RELAY);
    for (uint32_t i = OLDER; i <= NEWER; i++) {
        log_entry entry = {.kind = LOG_MEMBER,
                           .u.member = {.peer = name_of(i),
                                        .stage = i != OLDER,
                                        .kind = i == OLDER ? MEMBER_DATA : MEMBER_RELAY,
                                        .capacity = 2,
                                        .incarnation = 1}};
        snprintf(entry.u.member.address, sizeof entry.u.member.address, "10.0.0.%u:1", i);
        append(w, entry);
        if (i != SELF) step(w, &(event){.kind = EVENT_LINK_UP, .id = name_of(i)});
    }
}

static void lose(world *w, uint32_t number, bool refused) {
    step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(number), .refused = refused});
}

// Milliseconds until another dial of that peer.
static uint64_t until_dialled(world *w, uint32_t number) {
    const uint64_t began = w->now;
    const uint32_t before = w->dials[number];
    for (int i = 0; w->dials[number] == before; i++) {
        assert_true(i < MOST_STEPS);
        w->now += 10 * MILLISECOND;
        step(w, &(event){.kind = EVENT_TICK});
    }
    return (w->now - began) / MILLISECOND;
}

// Rule D3. Given two members, when their link falls, then the newer one dials at once and the older one soon after.
static void newer_member_dials_first(void **state) {
    (void)state;
    world w;
    open_links(&w);
    uint32_t before = w.dials[OLDER];
    lose(&w, OLDER, false);
    assert_int_equal(w.dials[OLDER], before + 1);
    before = w.dials[NEWER];
    lose(&w, NEWER, false);
    assert_int_equal(w.dials[NEWER], before);
    assert_int_equal(until_dialled(&w, NEWER), 50);
    free(w.p);
}

// Rule V21. Given a peer with two addresses, when one refuses, then the other one is dialled at once; when
// both have refused, then the next dial waits.
static void second_address_follows_a_refusal_at_once(void **state) {
    (void)state;
    world w;
    open_links(&w);
    const braid_id id = name_of(OLDER);
    char other[WIRE_MAX_ADDRESS] = "10.0.1.1:1", first[WIRE_MAX_ADDRESS];
    contact_may_be_at(w.p, &id, other);
    lose(&w, OLDER, false);
    memcpy(first, w.last_address[OLDER], sizeof first);
    uint32_t before = w.dials[OLDER];
    lose(&w, OLDER, true);
    assert_int_equal(w.dials[OLDER], before + 1);
    assert_string_not_equal(w.last_address[OLDER], first);
    lose(&w, OLDER, true);
    assert_int_equal(w.dials[OLDER], before + 1);
    assert_in_range(until_dialled(&w, OLDER), 100, 300);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(newer_member_dials_first),
                                       cmocka_unit_test(second_address_follows_a_refusal_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
