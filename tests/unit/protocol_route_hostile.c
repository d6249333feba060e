// A relay in a crowded stage among hostile members: what they say of routes, views and lines may be
// anything that can be encoded, in any order and amid falling links. No assertion, nothing that
// cannot be sent, no more neighbours than there may be, and no more words than were asked for.
#include "protocol/peer.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire_random.h"

enum { STAGES = 4, A_STAGE = 20, OTHERS = 1 + (STAGES - 1) * A_STAGE, SELF = OTHERS + 1, STRANGER, MY_STAGE = 2, FEW = 7, STEPS = 60000,
       ACTIVATION_BYTES = 1 << 22, MOST_PARCELS = 32, MOST_PIECES = (MOST_PARCELS + 1) * WIRE_MAX_PIECES };

static const uint64_t MILLISECOND = 1000000;
static const uint16_t tensor_stage[STAGES] = {0, 1, 2, 3};

typedef struct other {
    bool up;
    uint32_t session, heard, sequence;  // of its end of the router's link; of the peer's as it said
    uint64_t epoch;
    uint32_t clock_us;                  // of the peer's last question
    bool asked;
    uint32_t train, train_bytes;        // with which the peer sounds the line
} other;

typedef struct world {
    rng random;
    peer *p;
    uint64_t seed, now, log, views, routes, sounds;
    uint64_t blobs, joined, carried;  // blobs that came to be; parcels put together, and pieces carried for others
    uint32_t held;                    // of the blobs
    other other[STRANGER + 1];  // by number, which is also its member's; 1 is the data peer and the leader
} world;

static uint32_t below(world *w, uint32_t end) { return (uint32_t)rng_below(&w->random, end); }
static bool chance(world *w, uint32_t of) { return below(w, of) == 0; }
static braid_id name_of(uint32_t number) { return (braid_id){.bytes = {(uint8_t)number, (uint8_t)(number >> 8), 1}}; }
static uint32_t number_of(const braid_id *id) { return id->bytes[0] | (uint32_t)id->bytes[1] << 8; }
static uint16_t stage_of(uint32_t number) { return (uint16_t)(number == 1 ? 0 : number == SELF ? MY_STAGE : 1 + number % (STAGES - 1)); }

static void step(world *w, const event *e);

static void link_change(world *w, uint32_t number, bool up) {
    if (w->other[number].up == up) return;
    w->other[number] = (other){.up = up};
    step(w, &(event){.kind = up ? EVENT_LINK_UP : EVENT_LINK_DOWN, .id = name_of(number)});
}

static void note_said(world *w, uint32_t to, const message *m) {
    other *o = &w->other[to];
    assert_true(o->up);
    if (m->kind == MESSAGE_ROUTE) {
        w->routes++;
        o->heard = m->u.route.session;
        o->epoch = m->u.route.epoch;
    }
    if (m->kind == MESSAGE_SOUND) {
        if (m->u.sound.index == 0) o->train_bytes = 0;
        else o->train_bytes += m->u.sound.padding;
        o->train = m->u.sound.train;
        w->sounds++;
    }
    if (m->kind != MESSAGE_VIEW) return;
    w->views++;
    assert_true(stage_of(to) != 0);  // data peers hear no gossip
    o->asked = m->u.view.kind == GOSSIP_SAMPLE || m->u.view.kind == GOSSIP_PING;
    if (o->asked) o->clock_us = m->u.view.clock_us;
}

static blob_id new_blob(world *w) {
    w->held++;
    return (blob_id)++w->blobs;
}

// A parcel's pieces become one blob, or the host cannot.
static job_result done(world *w, const job *work) {
    job_result r = {.id = work->id, .kind = work->kind, .cost_ns = MILLISECOND, .finite = true, .version = work->version};
    if (work->kind != JOB_JOIN) return r;
    w->joined++;
    r.failed = chance(w, 4);
    r.out = r.failed ? 0 : new_blob(w);
    r.hash64 = below(w, 2);
    return r;
}

static void take_out(world *w) {
    static message m;
    effect e;
    job work = {0};
    uint32_t dial = 0;
    while (peer_next_effect(w->p, &e)) {
        if (e.kind == EFFECT_SEND) {
            assert_true(message_decode(e.bytes, e.byte_count, &m));
            note_said(w, number_of(&e.id), &m);
            w->carried += m.kind == MESSAGE_CARRY && e.blob != 0;
        }
        if (e.kind == EFFECT_RELEASE) {
            assert_true(w->held > 0);
            w->held--;
        }
        if (e.kind == EFFECT_DIAL) dial = number_of(&e.id);
        if (e.kind == EFFECT_JOB) work = *e.job;
        assert_true(e.kind != EFFECT_EXIT);
    }
    if (work.id != 0) {
        const job_result r = done(w, &work);
        step(w, &(event){.kind = EVENT_JOB_DONE, .result = &r});
    }
    if (dial != 0) link_change(w, dial, true);
}

static void step(world *w, const event *e) {
    peer_view view;
    peer_step(w->p, w->now, e);
    take_out(w);
    peer_look(w->p, &view);
    assert_true(view.route_units <= view.route_bound || view.route_bound == 0);
    assert_in_range(w->held, 0, MOST_PIECES);
}

static void deliver_with(world *w, uint32_t from, message *m, uint64_t bytes) {
    if (!w->other[from].up) return;
    m->sender = from;
    m->log_position = w->log;
    step(w, &(event){.kind = EVENT_MESSAGE, .id = name_of(from), .msg = m, .blob = bytes == 0 ? 0 : new_blob(w), .blob_bytes = bytes});
}

static void deliver(world *w, uint32_t from, message *m) { deliver_with(w, from, m, 0); }

static void append(world *w, log_entry entry) {
    message m = {.kind = MESSAGE_LOG, .u.log = {.previous = w->log, .entry = entry}};
    m.u.log.entry.index = ++w->log;
    m.u.log.entry.term = 1;
    deliver(w, 1, &m);
}

static void admit(world *w, uint32_t number) {
    log_entry entry = {.kind = LOG_MEMBER};
    entry.u.member = (log_member){.peer = name_of(number), .stage = stage_of(number), .kind = number == 1 ? MEMBER_DATA : MEMBER_RELAY, .capacity = 4, .incarnation = w->seed};
    snprintf(entry.u.member.address, WIRE_MAX_ADDRESS, "peer-%u:1", number);
    append(w, entry);
}

static void open_swarm(world *w, uint64_t seed, uint8_t routing, uint32_t others) {
    *w = (world){.random = {seed}, .seed = seed, .now = 1000 * MILLISECOND};
    const peer_run run = {.seed = 1, .iterations = 3, .microbatches = 30, .stages = STAGES, .slots = 1, .start_data_peers = 1, .start_relays = 3,
                          .reproducible = true, .activation_bytes = ACTIVATION_BYTES, .blocks = {1, 1, 1, 1}, .tensors = {1, 1, 1, 1}, .model_tensors = STAGES,
                          .tensor_stage = tensor_stage, .routing = routing};
    peer_config config = {.self = name_of(SELF), .address = "peer:1", .capacity = 4, .random_seed = seed, .stage = MY_STAGE, .leader_id = name_of(1), .leader_address = "peer-1:1"};
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, peer_bytes(&run, &config)), 0);
    memset(memory, 0, peer_bytes(&run, &config));
    w->p = peer_init(memory, &run, &config, w->now);
    link_change(w, 1, true);
    for (uint32_t i = 1; i <= others; i++) admit(w, i);
    admit(w, SELF);
    log_entry start = {.kind = LOG_RUN};
    append(w, start);
    log_entry owner = {.kind = LOG_OWNER, .u.owner = {.slot = 0, .member = 1}};
    append(w, owner);
    for (uint32_t i = 2; i <= others; i++) link_change(w, i, true);
}

static void open_world(world *w, uint64_t seed, uint8_t routing) { open_swarm(w, seed, routing, OTHERS); }

// --- what they say

static void say_route(world *w, uint32_t from) {
    static message m;
    wire_random r = {.r = &w->random, .below = chance(w, 2) ? 2 * SELF + 2 : 0};
    memset(&m, 0, sizeof m);
    m.kind = MESSAGE_ROUTE;
    other *o = &w->other[from];
    message_route *route = &m.u.route;
    if (o->session == 0 || chance(w, 40)) *o = (other){.up = o->up, .heard = o->heard, .epoch = o->epoch, .session = 1 + below(w, 1000)};
    if (o->heard != 0 && !chance(w, 4)) random_route(&r, route);
    route->session = o->session;
    route->heard = chance(w, 20) ? below(w, 5) : o->heard;
    o->sequence += route->parts > 0 && !chance(w, 50);
    route->sequence = o->sequence;
    route->epoch = o->epoch;
    if (route->cost > WIRE_MAX_LINK_COST) route->cost = 0;
    deliver(w, from, &m);
}

static void say_view(world *w, uint32_t from) {
    static message m;
    wire_random r = {.r = &w->random, .below = chance(w, 2) ? SELF + 2 : 0};
    memset(&m, 0, sizeof m);
    m.kind = MESSAGE_VIEW;
    random_view(&r, &m.u.view);
    if (w->other[from].asked && chance(w, 2)) {
        m.u.view = (message_view){.kind = GOSSIP_PONG, .side = (uint8_t)below(w, 3), .linked = (uint8_t)below(w, 4), .cost = below(w, 5000)};
        if (chance(w, 3)) m.u.view.kind = GOSSIP_YES;
    }
    if (m.u.view.kind == GOSSIP_PONG || m.u.view.kind == GOSSIP_REPLY) m.u.view.echo_us = chance(w, 8) ? (uint32_t)rng_next(&w->random) : w->other[from].clock_us;
    deliver(w, from, &m);
}

// Of what lines cost and carry: trains that were never sent, and answers to none.
static void say_line(world *w, uint32_t from) {
    static message m;
    memset(&m, 0, sizeof m);
    m.kind = (uint8_t)(chance(w, 3) ? MESSAGE_LINES : chance(w, 2) ? MESSAGE_SOUND : MESSAGE_SOUNDED);
    if (m.kind == MESSAGE_LINES) {
        m.u.lines.count = below(w, WIRE_MAX_LINES + 1);
        for (uint32_t i = 0; i < m.u.lines.count; i++) {
            m.u.lines.line[i].member = chance(w, 2) ? below(w, 2 * SELF) : (uint32_t)rng_next(&w->random);
            m.u.lines.line[i].cost = below(w, WIRE_MAX_LINK_COST + 1);
            m.u.lines.line[i].way = below(w, WIRE_MAX_LINK_COST + 1);
        }
    } else if (m.kind == MESSAGE_SOUND) {
        uint16_t count = (uint16_t)(1 + below(w, chance(w, 2) ? 3 : UINT16_MAX));
        m.u.sound = (message_sound){.train = below(w, 3), .index = (uint16_t)below(w, count), .count = count, .padding = (uint16_t)below(w, WIRE_MAX_SOUND_BYTES + 1)};
    } else {
        bool whole = w->other[from].train != 0 && !chance(w, 4);
        m.u.sounded = (message_sounded){.train = whole ? w->other[from].train : below(w, 3), .bytes = whole ? w->other[from].train_bytes : (uint32_t)rng_next(&w->random),
                                        .ns = rng_next(&w->random) >> below(w, 64)};
    }
    deliver(w, from, &m);
}

static void say_alive(world *w, uint32_t from) {
    message m = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = below(w, 2), .free_slots = below(w, 5), .forward_ns = below(w, 1000) * MILLISECOND, .backward_ns = rng_next(&w->random) >> below(w, 60)}};
    deliver(w, from, &m);
}

static void let_time_pass(world *w) {
    w->now += below(w, 20) * MILLISECOND;
    if (peer_deadline(w->p) > w->now) return;
    step(w, &(event){.kind = EVENT_TICK});
}

static void any_thing(world *w) {
    uint32_t from = 1 + below(w, OTHERS);
    if (chance(w, 3)) let_time_pass(w);
    else if (chance(w, 200)) link_change(w, from, !w->other[from].up);
    else if (chance(w, 6)) say_alive(w, from);
    else if (chance(w, 10)) say_line(w, from);
    else if (chance(w, 2)) say_view(w, from);
    else say_route(w, from);
}

// Transfers with few serial numbers, so that many messages concern the same one: pieces of any
// size, count and receiver, repeated, and pieces that were not announced.
static void say_parcel(world *w, uint32_t from) {
    static message m;
    memset(&m, 0, sizeof m);
    uint32_t serial = below(w, chance(w, 10) ? 200 : 4);
    uint16_t count = (uint16_t)(1 + (chance(w, 10) ? below(w, WIRE_MAX_PIECES) : serial * 5 % WIRE_MAX_PIECES));
    if (chance(w, 4)) {
        bool forward = chance(w, 2);
        m.kind = (uint8_t)(forward ? MESSAGE_FORWARD : MESSAGE_BACKWARD);
        *(forward ? &m.u.forward.parcel : &m.u.backward.parcel) = (message_parcel){serial, count};
        *(forward ? &m.u.forward.subject : &m.u.backward.subject) = (message_subject){.m = below(w, 40), .stage = MY_STAGE};
        deliver(w, from, &m);
        return;
    }
    uint16_t index = (uint16_t)below(w, count);
    uint64_t bytes = message_piece_at(ACTIVATION_BYTES, (uint16_t)(index + 1), count) - message_piece_at(ACTIVATION_BYTES, index, count);
    m.kind = MESSAGE_CARRY;
    m.u.carry = (message_carry){.origin = chance(w, 3) ? 1 + below(w, 2 * SELF) : from, .to = chance(w, 4) ? 1 + below(w, 2 * SELF) : SELF, .serial = serial, .index = index, .count = count};
    deliver_with(w, from, &m, chance(w, 20) ? 1 + below(w, ACTIVATION_BYTES) : bytes);
}

// Rule C5. Given random pieces and announcements, when they arrive in any order, then memory is
// bounded and is freed afterwards.
static void test_any_piece_at_any_time(void **state) {
    (void)state;
    static world w;
    rng r = seeded_rng("hostile parcels", 23);
    open_world(&w, rng_next(&r), 0);
    uint32_t most = 0;
    for (int i = 0; i < STEPS; i++) {
        if (chance(&w, 50)) any_thing(&w);
        else say_parcel(&w, 1 + below(&w, OTHERS));
        if (w.held > most) most = w.held;
    }
    print_message("%llu parcels put together, %llu pieces carried, at most %u blobs\n", (unsigned long long)w.joined, (unsigned long long)w.carried, most);
    assert_true(w.joined > 30 && w.carried > 200 && most > 4 * MOST_PARCELS);
    for (int i = 0; i < 70; i++) {
        w.now += 1000 * MILLISECOND;
        step(&w, &(event){.kind = EVENT_TICK});
    }
    // of what was put together some was accepted, and may wait for a slot
    for (uint32_t i = 0; i < 40; i++) deliver(&w, 1, &(message){.kind = MESSAGE_CANCEL, .u.cancel.subject = {.m = i, .stage = MY_STAGE, .owner_term = w.log}});
    assert_int_equal(w.held, 0);
    free(w.p);
}

// Rule C4. Given incomplete transfers, when this member is removed, readmitted or not, then no
// piece is kept.
static void test_removed_member_keeps_no_piece(void **state) {
    (void)state;
    static world w;
    rng r = seeded_rng("pieces of the expelled", 29);
    open_world(&w, rng_next(&r), 0);
    for (int i = 0; i < 200; i++) say_parcel(&w, 1 + below(&w, OTHERS));
    assert_true(w.held > 0);
    append(&w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = SELF, .reason = EXPEL_DEAD}});
    assert_int_equal(w.held, 0);
    free(w.p);
}

static void say_forward(world *w, uint64_t iteration, uint32_t serial) {
    static message m;
    memset(&m, 0, sizeof m);
    m.kind = MESSAGE_FORWARD;
    m.iteration = iteration;
    m.u.forward.subject.stage = MY_STAGE;
    if (serial != 0) m.u.forward.parcel = (message_parcel){serial, 2};
    deliver_with(w, 2, &m, serial != 0 ? 0 : ACTIVATION_BYTES);
}

// Rule C4. Given a transfer, when a late announcement of the older iteration arrives, then it
// stays; one of this iteration replaces it.
static void test_announcement_of_an_older_iteration_replaces_nothing(void **state) {
    (void)state;
    static world w;
    rng r = seeded_rng("late copies", 31);
    open_world(&w, rng_next(&r), 0);
    say_forward(&w, 0, 7);
    static message m = {.kind = MESSAGE_CARRY, .u.carry = {.origin = 2, .to = SELF, .serial = 7, .count = 2}};
    deliver_with(&w, 3, &m, ACTIVATION_BYTES / 2);
    assert_int_equal(w.held, 1);
    say_forward(&w, 1, 0);
    assert_int_equal(w.held, 1);
    say_forward(&w, 0, 8);
    assert_int_equal(w.held, 0);
    free(w.p);
}

// Rule N4. Given random ROUTE, VIEW and LINES messages amid lost links, when they arrive in any
// order, then all limits hold.
static void test_any_message_at_any_time(void **state) {
    (void)state;
    static world w;
    rng r = seeded_rng("hostile routes and views", 17);
    for (uint8_t routing = 0; routing < 3; routing++) {
        open_world(&w, rng_next(&r), routing);
        for (int i = 0; i < STEPS; i++) any_thing(&w);
        peer_view view;
        peer_look(w.p, &view);
        assert_true(view.member == SELF && view.routes);
        print_message("%llu views, %llu routes, %llu sounds\n", (unsigned long long)w.views, (unsigned long long)w.routes, (unsigned long long)w.sounds);
        assert_true(w.views > 200 && w.routes > 200 && w.sounds > 50);
        free(w.p);
    }
}

// Rule S2. Given a neighbour with the largest cost to the owner, when it is passed on, then the sum
// still fits or is omitted.
static void test_largest_home_cost_stays_encodable(void **state) {
    (void)state;
    static world w;
    static message m;
    open_swarm(&w, 7, 0, FEW);  // so few that all of the next stage are neighbours
    uint32_t said = 0;
    for (int i = 0; i < 300; i++) {
        w.now += 100 * MILLISECOND;
        step(&w, &(event){.kind = EVENT_TICK});
        for (uint32_t from = 2; from <= FEW; from++) {
            other *o = &w.other[from];
            if (i % 5 == 0) say_alive(&w, from);
            if (!o->up || o->heard == 0) continue;
            memset(&m, 0, sizeof m);
            m.kind = MESSAGE_ROUTE;
            m.u.route = (message_route){.session = 1, .heard = o->heard, .epoch = o->epoch, .sequence = ++o->sequence, .cost = stage_of(from) < MY_STAGE, .parts = 1};
            m.u.route.part[0] = (route_part){.kind = ROUTE_HOME, .source = 1, .cost = WIRE_MAX_ROUTE_COST};
            deliver(&w, from, &m);
            said++;
        }
    }
    assert_true(said > 300);
    free(w.p);
}

// Rule W5. Given a peer that sends ten times the allowed VIEWs, when they arrive, then it gets as
// many answers as an ordinary one.
static void test_gossip_above_the_rate_is_dropped(void **state) {
    (void)state;
    static world w;
    open_world(&w, 5, 0);
    uint32_t from = 3;
    uint64_t before = w.views;
    for (int i = 0; i < 1000; i++) {
        message m = {.kind = MESSAGE_VIEW, .u.view = {.kind = GOSSIP_PING, .side = stage_of(from) < MY_STAGE ? 1 : 0, .clock_us = 1, .place.error = 1000}};
        w.now += MILLISECOND;
        deliver(&w, from, &m);
    }
    assert_in_range(w.views - before, 16, 16 + 8 + 8);  // the burst, a second's worth, and what it says by itself
    free(w.p);
}

static uint64_t log_position_of(const world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return view.log_position;
}

// Rule V24. Given a peer that no entry and no member named, when it sends LOG or LEADER, then
// neither has an effect.
static void test_unknown_peer_does_not_lead(void **state) {
    (void)state;
    static world w;
    open_world(&w, 6, 0);
    link_change(&w, STRANGER, true);
    uint64_t position = log_position_of(&w);
    message leader = {.kind = MESSAGE_LEADER, .u.leader = {.term = 9, .id = name_of(STRANGER), .address = "peer-63:1"}};
    deliver(&w, STRANGER, &leader);
    message alive = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.leads = 9}};
    deliver(&w, STRANGER, &alive);
    message log = {.kind = MESSAGE_LOG, .u.log = {.previous = w.log, .entry = {.index = w.log + 1, .term = 9, .kind = LOG_EXPEL, .u.expel = {.member = 2}}}};
    deliver(&w, STRANGER, &log);
    assert_int_equal(log_position_of(&w), position);
    deliver(&w, 2, &log);  // a member may pass it on
    assert_int_equal(log_position_of(&w), position + 1);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_message_at_any_time),
        cmocka_unit_test(test_any_piece_at_any_time),
        cmocka_unit_test(test_removed_member_keeps_no_piece),
        cmocka_unit_test(test_announcement_of_an_older_iteration_replaces_nothing),
        cmocka_unit_test(test_largest_home_cost_stays_encodable),
        cmocka_unit_test(test_gossip_above_the_rate_is_dropped),
        cmocka_unit_test(test_unknown_peer_does_not_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
