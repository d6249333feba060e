// Tensors that come by way of somebody else, in pieces (docs/protocol.md, Carried tensors). The message that names the tensor goes
// straight to the receiver, so nobody can speak for its sender; the carrier sees pieces only, and what is made of them must have
// the hash that the message says. Whatever goes wrong, the sender sends it again another way, and after two failures without help.
#include "protocol/internal.h"

#include <string.h>

static const uint64_t floor_ns = 5 * TIMING_S;  // until a carried tensor is taken for lost, and `patience` times what it should take
static const uint64_t carrying_ns = 2 * TIMING_S;  // the line is taken for busy with a piece for so long
static const uint64_t forget_ns = 60 * TIMING_S;  // pieces of which nothing more is heard for so long
enum { PATIENCE = 6, MOST_FAILURES = 2 };

// ---- at the sender ------------------------------------------------------------------------------------------------

// For tests: somebody, however quick my own line is.
member_id parcel_anybody(peer *p, member_id to) {
    uint32_t start = (uint32_t)rng_below(&p->random, p->member_count);
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *m = &p->members[(start + i) % p->member_count];
        if (m->id != to && m->contact != NO_CONTACT && !member_is_shadow(m) && p->contacts[m->contact].link == LINK_UP) return m->id;
    }
    return 0;
}

// As it was planned, once.
static route_detour carrier_for(peer *p, const sending *s, member_id to, member_id planned) {
    route_detour d;
    if (s->failures == MOST_FAILURES) return (route_detour){0};
    if (p->config.carried_percent != 0 && rng_below(&p->random, 100) < p->config.carried_percent) return (route_detour){.by = parcel_anybody(p, to)};
    return s->failed == 0 && route_carrier_planned(p, to, planned, &d) ? d : route_carrier(p, to, s->failed);
}

static bool send_pieces(peer *p, const sending *s, member_id to, blob_id blob, uint16_t count) {
    uint64_t bytes = p->run.activation_bytes;
    for (uint16_t i = 0; i < count; i++) {
        peer_compose(p, MESSAGE_CARRY)->u.carry = (message_carry){.origin = p->me, .to = to, .serial = s->serial, .index = i, .count = count};
        if (!peer_send_part(p, s->by, blob, message_piece_at(bytes, i, count), message_piece_bytes(bytes, i, count))) return false;
    }
    return true;
}

bool parcel_send(peer *p, sending *s, member_id to, blob_id blob, member_id planned) {
    bool forward = p->scratch.kind == MESSAGE_FORWARD;
    if (s->to != to) s->failed = s->failures = 0;
    route_detour d = carrier_for(p, s, to, planned);
    s->by = d.by;
    if (s->by == 0) return peer_send_member(p, to, blob);
    s->serial = (uint32_t)rng_next(&p->random) | 1;
    s->carried_ns = floor_ns + PATIENCE * (uint64_t)d.us * 1000;
    s->straight_ns = (uint64_t)d.straight_us * 1000;
    uint16_t pieces = route_pieces(p);
    *(forward ? &p->scratch.u.forward.parcel : &p->scratch.u.backward.parcel) = (message_parcel){s->serial, pieces};
    bool left = peer_send_member(p, to, 0) && send_pieces(p, s, to, blob, pieces);
    p->carried += left;
    return left;
}

static void send_otherwise(peer *p, uint32_t m, sending *s) {
    s->failures += member_answers(p, s->by);
    s->failed = s->by;
    if (p->stage == 0 && s == &p->owned[m].back) own_send_gradient(p, m);
    else if (s == &p->held[m].back) send_backward(p, m);
    else send_forward_again(p, m);
}

static void each_sending(peer *p, bool (*due)(const peer *p, const sending *s, uint64_t what), uint64_t what) {
    EACH_HELD(p, m) {
        sending *all[] = {&p->held[m].on, &p->held[m].back, p->stage == 0 ? &p->owned[m].back : NULL};
        for (uint32_t i = 0; i < 3 && p->held[m].used; i++) {
            sending *s = all[i];
            if (s != NULL && s->state == SEND_SENT && s->by != 0 && due(p, s, what)) send_otherwise(p, m, s);
        }
    }
}

static bool has_serial(const peer *p, const sending *s, uint64_t serial) {
    (void)p;
    return s->serial == serial;
}

// Whoever says so may not have read yet that it is the member that was to carry it.
void on_uncarried(peer *p, uint32_t from, const message *msg) {
    each_sending(p, has_serial, msg->u.uncarried.serial);
    bypass_refused(p, from == NO_CONTACT ? p->me : p->contacts[from].member, msg->u.uncarried.serial);
}

static bool is_lost(const peer *p, const sending *s, uint64_t now) { return s->deadline_ns <= now || !member_answers(p, s->by); }

// ---- at the carrier -----------------------------------------------------------------------------------------------

static void refuse(peer *p, member_id origin, uint32_t serial) {
    peer_compose(p, MESSAGE_UNCARRIED)->u.uncarried.serial = serial;
    peer_send_member(p, origin, 0);
}

static void carry_on(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry *piece = &msg->u.carry;
    if (msg->sender != piece->origin) return;  // one carrier is enough
    bool room = p->waiting_bytes + bytes <= PEER_MOST_CARRIED * p->run.activation_bytes;
    peer_compose(p, MESSAGE_CARRY)->u.carry = *piece;
    if (!room || p->config.carries_nothing || !peer_send_member(p, piece->to, blob)) {
        refuse(p, piece->blocks > 0 ? piece->to : piece->origin, piece->serial);
        return;
    }
    p->carried_bytes += bytes;
    p->carried_until_ns = p->now + carrying_ns;
}

// ---- at the receiver ----------------------------------------------------------------------------------------------

_Static_assert(PEER_MAX_ARRIVALS == 32, "a bit of one word each");

#define EACH_ARRIVAL(p, a) \
    for (arrival *a = arrival_from(p, 0); a != NULL; a = arrival_from(p, (uint32_t)(a - (p)->arrival) + 1))

// The first used one from `index` on, NULL: there is none. They are large and mostly unused, so they are not looked at for that.
static arrival *arrival_from(peer *p, uint32_t index) {
    uint32_t later = index < PEER_MAX_ARRIVALS ? p->arrivals_used >> index : 0;
    return later == 0 ? NULL : &p->arrival[index + (uint32_t)__builtin_ctz(later)];
}

static void arrival_forget(peer *p, arrival *a) {
    *a = (arrival){0};
    p->arrivals_used &= ~(1u << (a - p->arrival));
}

static void arrival_clear(peer *p, arrival *a) {
    for (uint32_t i = 0; i < WIRE_MAX_PIECES; i++) peer_release(p, &a->piece[i]);
    arrival_forget(p, a);
}

static arrival *arrival_of(peer *p, member_id origin, uint32_t serial) {
    EACH_ARRIVAL(p, a)
        if (a->origin == origin && a->serial == serial) return a;
    if (p->arrivals_used == UINT32_MAX) return NULL;
    uint32_t room = (uint32_t)__builtin_ctz(~p->arrivals_used);
    p->arrivals_used |= 1u << room;
    p->arrival[room] = (arrival){.origin = origin, .serial = serial, .me = p->me, .fence = p->past.fence};
    return &p->arrival[room];
}

static void join_if_whole(peer *p, arrival *a) {
    a->touched_ns = p->now;
    if (!a->announced || a->joining || a->got == 0 || a->got < a->count) return;
    task *t = task_add(p, JOB_JOIN);
    if (t == NULL) return;  // parcels_tick asks again
    t->work.m = (uint32_t)(a - p->arrival);
    t->serial = a->serial;
    for (uint32_t i = 0; i < a->count; i++) {
        t->work.input[t->work.inputs++] = a->piece[i];
        a->piece[i] = 0;
    }
    a->joining = true;
}

static void on_carry_blocks(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry *piece = &msg->u.carry;
    if (piece->to == p->me) {
        bypass_piece(p, msg, blob, bytes);
        return;
    }
    if (member_live(p, piece->origin) && bytes <= (uint64_t)piece->blocks * WIRE_CARRIED_BLOCK_BYTES) carry_on(p, msg, blob, bytes);
    peer_release(p, &blob);
}

void on_carry(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry *piece = &msg->u.carry;
    if (piece->blocks > 0) {
        on_carry_blocks(p, msg, blob, bytes);
        return;
    }
    bool mine = piece->to == p->me, alive = member_live(p, piece->origin);
    bool fits = bytes == message_piece_bytes(p->run.activation_bytes, piece->index, piece->count);
    arrival *a = alive && fits && mine && run_goes_on(p) ? arrival_of(p, piece->origin, piece->serial) : NULL;
    bool twice = a != NULL && (a->joining || a->piece[piece->index] != 0);
    bool taken = a != NULL && !twice && (a->count == 0 || a->count == piece->count);
    if (!taken) {
        if (alive && fits && !mine) carry_on(p, msg, blob, bytes);
        else if (alive && !twice && (mine ? run_goes_on(p) : msg->sender == piece->origin)) refuse(p, piece->origin, piece->serial);
        peer_release(p, &blob);
        return;
    }
    a->count = piece->count;
    a->piece[piece->index] = blob;
    a->got++;
    join_if_whole(p, a);
}

static const message_subject *subject_of(const arrival *a) {
    return a->kind == MESSAGE_FORWARD ? &a->u.forward.subject : &a->u.backward.subject;
}

// The same tensor comes in another way: the one before was given up.
static void supersede(peer *p, const message *msg, const message_subject *subject, uint32_t serial) {
    EACH_ARRIVAL(p, a) {
        bool other = a->announced && !a->joining && a->origin == msg->sender && a->serial != serial;
        if (other && a->kind == msg->kind && a->iteration == msg->iteration && subject_of(a)->m == subject->m) arrival_clear(p, a);
    }
}

bool parcel_announced(peer *p, const message *msg) {
    bool forward = msg->kind == MESSAGE_FORWARD;
    const message_parcel *parcel = forward ? &msg->u.forward.parcel : &msg->u.backward.parcel;
    supersede(p, msg, forward ? &msg->u.forward.subject : &msg->u.backward.subject, parcel->serial);
    if (parcel->pieces == 0) return false;
    arrival *a = arrival_of(p, msg->sender, parcel->serial);
    if (a == NULL || (a->count != 0 && a->count != parcel->pieces)) {
        refuse(p, msg->sender, parcel->serial);
        return true;
    }
    if (a->announced) return true;
    a->announced = true;
    a->count = parcel->pieces;
    a->kind = msg->kind;
    a->iteration = msg->iteration;
    if (forward) a->u.forward = msg->u.forward;
    else a->u.backward = msg->u.backward;
    join_if_whole(p, a);
    return true;
}

void parcel_joined(peer *p, const task *t, const job_result *r) {
    arrival *a = &p->arrival[t->work.m];
    blob_id out = r->out;
    bool mine = a->joining && a->serial == t->serial && a->me == p->me;
    for (uint32_t i = 0; i < t->work.inputs; i++) {
        blob_id piece = t->work.input[i];
        peer_release(p, &piece);
    }
    if (!mine || !member_live(p, a->origin)) {
        peer_release(p, &out);
        if (mine) arrival_forget(p, a);
        return;
    }
    bool forward = a->kind == MESSAGE_FORWARD;
    message *msg = &p->received;
    *msg = (message){.kind = a->kind, .iteration = a->iteration, .sender = a->origin};
    if (forward) msg->u.forward = a->u.forward;
    else msg->u.backward = a->u.backward;
    uint32_t serial = a->serial;
    arrival_forget(p, a);
    bool good = out != 0 && !r->failed && r->hash64 == (forward ? msg->u.forward.hash : msg->u.backward.hash);
    if (!good) {
        peer_release(p, &out);
        refuse(p, msg->sender, serial);
        return;
    }
    if (forward) {
        msg->u.forward.parcel = (message_parcel){0};
        on_forward(p, msg, out, p->run.activation_bytes);
    } else {
        msg->u.backward.parcel = (message_parcel){0};
        on_backward(p, msg, out, p->run.activation_bytes);
    }
}

// ---- time ---------------------------------------------------------------------------------------------------------

static bool is_over(const peer *p, const arrival *a) {
    bool late = !run_goes_on(p) || (a->announced && a->iteration != p->iteration);
    return p->me == 0 || a->me != p->me || a->fence != p->past.fence || !member_live(p, a->origin) || (!a->joining && late);
}

void parcels_tick(peer *p) {
    if (p->me != 0) each_sending(p, is_lost, p->now);
    EACH_ARRIVAL(p, a) {
        bool over = is_over(p, a), forgotten = !over && !a->joining && p->now >= a->touched_ns + forget_ns;
        if (forgotten && a->announced) refuse(p, a->origin, a->serial);  // it may trust the line for longer
        if (over || forgotten) arrival_clear(p, a);
        else if (a->announced && !a->joining && a->got == a->count) join_if_whole(p, a);
    }
}
