// Links between peers that behave like src/net. A dial gets one answer. A message may overtake a
// payload, never another message. A broken link loses all that it had not delivered. A newer
// connection to the same peer replaces the older one. Messages are small: they queue for their
// sender's line among themselves and do not slow tensors down.
#include "sim/swarm/inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t DIAL_TIMEOUT_NS = 5 * SWARM_S;
// time until the kernel gives up a connection to a dead machine
static const uint64_t KERNEL_TIMEOUT_NS = 60 * SWARM_S;
// bytes per message: TLS, TCP and IP headers
enum { WIRE_OVERHEAD_BYTES = 90, HANDSHAKE_TRIPS = 3 };

static swarm_arc **arc_slot(const swarm *w, uint32_t from, uint32_t to) { return &w->arc[(size_t)from * w->peers + to]; }

static swarm_arc *arc_of(swarm *w, uint32_t from, uint32_t to) {
    swarm_arc **slot = arc_slot(w, from, to);
    if (*slot) return *slot;
    swarm_arc *arc = *slot = calloc(1, sizeof *arc);
    BRAID_ALLOCATED(arc, sizeof *arc);
    arc->from = from;
    arc->to = to;
    arc->local = w->peer[from].s->machine == w->peer[to].s->machine;
    scenario_link_of(w->s, w->peer[from].index, w->peer[to].index, &arc->link);
    return arc;
}

bool swarm_linked(const swarm *w, uint32_t one, uint32_t other) {
    const swarm_arc *there = *arc_slot(w, one, other), *back = *arc_slot(w, other, one);
    return there && back && there->up && back->up;
}

static uint64_t arc_delay_ns(swarm *w, const swarm_arc *arc) {
    uint64_t jitter = arc->link.jitter_ns;
    if (jitter == 0 || w->peer[arc->from].node == SWARM_NO_PEER) return arc->link.latency_ns;
    return arc->link.latency_ns + rng_below(&w->core->node[w->peer[arc->from].node].random, jitter + 1);
}

static bool cut(const swarm *w, uint32_t from, uint32_t to) {
    return w->s->partitions && scenario_cut(w->s, w->peer[from].index, w->peer[to].index, w->core->now - SWARM_BEGIN_NS);
}

// The time at which the next partition begins or ends.
static uint64_t next_change(const swarm *w) {
    uint64_t now = w->core->now - SWARM_BEGIN_NS, next = UINT64_MAX;
    for (uint32_t i = 0; i < w->s->partitions; i++) {
        const scenario_partition *p = &w->s->partition[i];
        if (p->start_ns > now && p->start_ns < next) next = p->start_ns;
        if (p->stop_ns > now && p->stop_ns < next) next = p->stop_ns;
    }
    return next == UINT64_MAX ? UINT64_MAX : next + SWARM_BEGIN_NS;
}

static void down_put(swarm *w, uint64_t at, uint32_t number, uint32_t other, uint32_t connection, bool refused) {
    swarm_item *item = swarm_item_new(SWARM_LINK_DOWN, number, 0);
    item->other = other;
    item->incarnation = w->peer[number].incarnation;
    item->serial = connection;
    item->refused = refused;
    swarm_put(w, at, item);
}

// ---- messages

void swarm_arrive_at(swarm *w, swarm_arc *arc, swarm_item *item, uint64_t at_ns) {
    uint64_t at = at_ns + arc_delay_ns(w, arc);
    if (at < arc->last_ns[item->lane]) at = arc->last_ns[item->lane];
    arc->last_ns[item->lane] = at;
    swarm_put(w, at, item);
}

// The time at which the last bit of a message has left.
static uint64_t control_leaves(swarm *w, swarm_arc *arc, uint64_t bytes) {
    swarm_machine *a = &w->machine[w->peer[arc->from].s->machine], *b = &w->machine[w->peer[arc->to].s->machine];
    uint64_t bits = bytes * 8 * SWARM_S, now = w->core->now;
    if (arc->local) return now + (arc->link.bps ? bits / arc->link.bps : 0);
    uint64_t begin = a->control_ns > now ? a->control_ns : now;
    uint64_t end = begin + (a->up_bps ? bits / a->up_bps : 0);
    a->control_ns = end;
    if (arc->link.bps > 0) {
        begin = arc->control_ns > end ? arc->control_ns : end;
        arc->control_ns = end = begin + bits / arc->link.bps;
    }
    return end + (b->down_bps ? bits / b->down_bps : 0);
}

void swarm_send(swarm *w, uint32_t from, const effect *e) {
    uint32_t to = swarm_find(w, &e->id);
    swarm_arc *arc = to == SWARM_NO_PEER ? NULL : *arc_slot(w, from, to);
    if (!arc || !arc->up) return;
    const swarm_arc *theirs = *arc_slot(w, to, from);
    // the other end is gone: the message is lost, and a living machine answers with a reset
    if (!theirs || theirs->connection != arc->connection) {
        if (!w->peer[to].silent && !cut(w, from, to)) down_put(w, w->core->now + 2 * arc_delay_ns(w, arc), from, to, arc->connection, false);
        return;
    }
    swarm_item *item = swarm_item_new(SWARM_MESSAGE, to, (uint32_t)e->byte_count);
    memcpy(item->bytes, e->bytes, e->byte_count);
    item->other = from;
    item->incarnation = w->peer[to].incarnation;
    item->sent_ns = w->core->now;
    item->serial = arc->connection;
    item->lane = e->blob ? LANE_BULK : LANE_CONTROL;
    item->wire_bytes = e->byte_count + WIRE_OVERHEAD_BYTES;
    if (item->lane == LANE_CONTROL) {
        w->peer[from].bytes_up += item->wire_bytes;
        swarm_arrive_at(w, arc, item, control_leaves(w, arc, item->wire_bytes));
        return;
    }
    sim_buffer *payload = sim_blobs_get(&w->core->node[w->peer[from].node].blobs, e->blob);
    bool piece = e->blob_bytes > 0;
    item->payload = piece ? sim_buffer_part(payload, e->blob_offset, e->blob_bytes, w->core->run.activation_bytes) : sim_buffer_hold(payload);
    uint64_t bytes = swarm_payload_bytes(w, &w->core->sent);
    item->tensor = w->core->sent.kind != MESSAGE_DATA && !swarm_carries_blocks(&w->core->sent);
    item->payload_bytes = w->core->sent.kind != MESSAGE_DATA ? bytes : item->payload->bytes;
    item->wire_bytes += bytes;
    swarm_flow_add(w, arc, item);
}

bool swarm_arrives(swarm *w, swarm_item *item) {
    const swarm_arc *mine = *arc_slot(w, item->peer, item->other);
    bool there = mine && mine->up && mine->connection == item->serial && w->peer[item->peer].incarnation == item->incarnation && w->peer[item->peer].alive;
    if (!there) {
        swarm_item_free(item);
        return true;
    }
    if (!cut(w, item->other, item->peer)) {
        w->peer[item->peer].bytes_down += item->wire_bytes;
        return false;
    }
    uint64_t at = next_change(w);
    if (at == UINT64_MAX) swarm_item_free(item);
    else swarm_put(w, at, item);
    return true;
}

// ---- connections

void swarm_dial(swarm *w, uint32_t from, const braid_id *id) {
    uint32_t to = swarm_find(w, id);
    if (to == SWARM_NO_PEER) return;
    swarm_arc *arc = arc_of(w, from, to);
    if (arc->up || arc->dialing) return;
    arc->dialing = true;
    swarm_item *item = swarm_item_new(SWARM_DIAL, to, 0);
    item->other = from;
    item->incarnation = w->peer[from].incarnation;  // incarnation of the dialer
    swarm_put(w, w->core->now + arc_delay_ns(w, arc) * HANDSHAKE_TRIPS, item);
}

void swarm_close_link(swarm *w, uint32_t from, const braid_id *id) {
    uint32_t to = swarm_find(w, id);
    swarm_arc *mine = to == SWARM_NO_PEER ? NULL : *arc_slot(w, from, to);
    if (!mine || !mine->up) return;
    mine->up = false;
    swarm_flow_clear(w, mine);
    uint64_t at = w->core->now + arc_delay_ns(w, mine);
    if (at < mine->last_ns[LANE_CONTROL]) at = mine->last_ns[LANE_CONTROL];
    down_put(w, at, to, from, mine->connection, false);
    mine->connection = 0;
    down_put(w, w->core->now, from, to, 0, false);
}

void swarm_close_all_links(swarm *w, uint32_t number, bool silent) {
    for (uint32_t i = 0; i < w->peers; i++) {
        swarm_arc *mine = *arc_slot(w, number, i), *theirs = *arc_slot(w, i, number);
        if (!mine) continue;
        swarm_flow_clear(w, mine);
        mine->up = mine->dialing = false;
        mine->connection = 0;
        if (!theirs) continue;
        swarm_flow_clear(w, theirs);
        if (!w->peer[i].alive || !theirs->up) continue;
        uint64_t at = w->core->now + arc_delay_ns(w, mine);
        for (int lane = 0; lane < LANES; lane++)
            if (at < mine->last_ns[lane]) at = mine->last_ns[lane];
        down_put(w, silent ? at + KERNEL_TIMEOUT_NS : at, i, number, theirs->connection, false);
    }
}

static void report_down(swarm *w, uint32_t number, uint32_t other, bool refused) {
    event e = {.kind = EVENT_LINK_DOWN, .id = w->peer[other].id, .refused = refused};
    swarm_step(w, number, &e);
}

static void report_up(swarm *w, uint32_t number, uint32_t other, uint32_t connection) {
    swarm_arc *mine = arc_of(w, number, other);
    if (mine->up) {  // an open link to the same peer falls first
        mine->up = false;
        swarm_flow_clear(w, mine);
        report_down(w, number, other, false);
        if (!w->peer[number].alive) return;
    }
    mine->up = true;
    mine->dialing = false;
    mine->connection = connection;
    event e = {.kind = EVENT_LINK_UP, .id = w->peer[other].id};
    swarm_step(w, number, &e);
}

// Draws the time at which a connection breaks, from both names and the number of their connections.
static void reset_plan(swarm *w, uint32_t listener, uint32_t dialer, uint32_t connection) {
    swarm_arc *arc = arc_of(w, dialer, listener);
    if (w->s->resets <= 0) return;
    rng r = {rng_seed(rng_seed(rng_seed(w->s->seed, w->peer[dialer].name_hash), w->peer[listener].name_hash), ++arc->opened)};
    double hours = -log(1 - rng_unit(&r)) / w->s->resets;
    swarm_item *item = swarm_item_new(SWARM_RESET, listener, 0);
    item->other = dialer;
    item->serial = connection;
    swarm_put(w, w->core->now + (uint64_t)(hours * 3600e9), item);
}

void swarm_reset(swarm *w, const swarm_item *item) {
    uint32_t ends[2] = {item->peer, item->other};
    for (int i = 0; i < 2; i++) {
        swarm_arc *arc = arc_of(w, ends[i], ends[1 - i]);
        if (arc->connection != item->serial) continue;
        swarm_flow_clear(w, arc);
        down_put(w, w->core->now + arc_delay_ns(w, arc_of(w, ends[1 - i], ends[i])), ends[i], ends[1 - i], arc->connection, false);
        timeline_instant(w, ends[i], "a link falls");
    }
}

void swarm_dialed(swarm *w, swarm_item *item) {
    uint32_t listener = item->peer, dialer = item->other;
    const swarm_peer *there = &w->peer[listener], *caller = &w->peer[dialer];
    swarm_arc *theirs = arc_of(w, dialer, listener), *mine = arc_of(w, listener, dialer);
    if (!caller->alive || caller->incarnation != item->incarnation || !theirs->dialing) return;
    uint64_t back = w->core->now + arc_delay_ns(w, mine);
    bool unreachable = cut(w, dialer, listener) || cut(w, listener, dialer);
    if (!there->alive || there->paused || unreachable) {
        bool refused = !there->alive && !there->silent && !unreachable;
        down_put(w, refused ? back : w->core->now + DIAL_TIMEOUT_NS, dialer, listener, 0, refused);
        return;
    }
    // a dial in the other direction won
    if (mine->up && mine->connection && theirs->connection == mine->connection) return;
    uint32_t connection = ++w->connections;
    theirs->connection = connection;
    theirs->last_ns[LANE_CONTROL] = theirs->last_ns[LANE_BULK] = 0;
    mine->last_ns[LANE_CONTROL] = mine->last_ns[LANE_BULK] = back;
    swarm_item *up = swarm_item_new(SWARM_LINK_UP, dialer, 0);
    up->other = listener;
    up->incarnation = caller->incarnation;
    up->serial = connection;
    swarm_put(w, back, up);
    reset_plan(w, listener, dialer, connection);
    report_up(w, listener, dialer, connection);
}

static void do_link_up(swarm *w, const swarm_item *item) {
    swarm_arc *mine = arc_of(w, item->peer, item->other);
    const swarm_arc *theirs = arc_of(w, item->other, item->peer);
    if (mine->connection != item->serial || mine->up) return;
    mine->dialing = false;
    if (w->peer[item->other].alive && theirs->up && theirs->connection == item->serial) report_up(w, item->peer, item->other, mine->connection);
    else report_down(w, item->peer, item->other, false);
}

void swarm_do_link(swarm *w, swarm_item *item) {
    if (item->kind == SWARM_LINK_UP) {
        do_link_up(w, item);
        return;
    }
    swarm_arc *mine = arc_of(w, item->peer, item->other);
    if (item->serial == 0) {
        mine->dialing = false;
        if (mine->up) return;  // the peer connected by itself, which is the answer
    } else {
        if (!mine->up || mine->connection != item->serial) return;
        mine->up = false;
        mine->connection = 0;
        swarm_flow_clear(w, mine);
    }
    report_down(w, item->peer, item->other, item->refused);
}
