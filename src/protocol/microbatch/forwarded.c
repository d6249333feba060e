// Tensors that a forwarder passes on in pieces (docs/protocol.md, Relayed transfers). The message
// that names the tensor goes directly to the receiver, so a forwarder cannot speak for the sender.
// It sees pieces only, and the joined tensor must have the hash in the message. After any failure
// the sender uses another path, and after two failures the direct one.
#include "protocol/microbatch/microbatch.h"

#include <string.h>


// ---- at the sender ------------------------------------------------------------------------------

static void send_otherwise(peer *p, uint32_t m, tensor_sending *s) {
    s->failures += member_answers(p, s->by);
    s->failed = s->by;
    if (p->stage == 0 && s == &p->microbatch->owned[m].back) own_send_gradient(p, m);
    else if (s == &p->microbatch->inflight[m].back) send_backward(p, m);
    else send_forward_again(p, m);
}

static void each_sending(peer *p, bool (*due)(const peer *p, const tensor_sending *s, uint64_t what), uint64_t what) {
    EACH_INFLIGHT(p, m) {
        tensor_sending *all[] = {&p->microbatch->inflight[m].on, &p->microbatch->inflight[m].back, p->stage == 0 ? &p->microbatch->owned[m].back : NULL};
        for (uint32_t i = 0; i < 3 && p->microbatch->inflight[m].used; i++) {
            tensor_sending *s = all[i];
            if (s != NULL && s->state == SEND_SENT && s->by != 0 && due(p, s, what)) send_otherwise(p, m, s);
        }
    }
}

static bool has_serial(const peer *p, const tensor_sending *s, uint64_t serial) {
    (void)p;
    return s->serial == serial;
}

// The forwarder may not have read its own MEMBER entry yet, so the transfer is found by its number
// alone.
void forwarded_refused(peer *p, uint32_t serial) { each_sending(p, has_serial, serial); }

static bool is_lost(const peer *p, const tensor_sending *s, uint64_t now) { return s->deadline_ns <= now || !member_answers(p, s->by); }

// ---- at the receiver ----------------------------------------------------------------------------

_Static_assert(PEER_MAX_ARRIVALS == 32, "a bit of one word each");

#define EACH_ARRIVAL(p, a) \
    for (forwarded_arrival *a = arrival_from(p, 0); a != NULL; a = arrival_from(p, (uint32_t)(a - (p)->microbatch->arrival) + 1))

// The first used entry from `index` on, NULL: none. Entries are large and mostly unused, so a bit
// mask is searched instead.
static forwarded_arrival *arrival_from(peer *p, uint32_t index) {
    uint32_t later = index < PEER_MAX_ARRIVALS ? p->microbatch->arrivals_used >> index : 0;
    return later == 0 ? NULL : &p->microbatch->arrival[index + (uint32_t)__builtin_ctz(later)];
}

static void arrival_forget(peer *p, forwarded_arrival *a) {
    *a = (forwarded_arrival){0};
    p->microbatch->arrivals_used &= ~(1u << (a - p->microbatch->arrival));
}

static void arrival_clear(peer *p, forwarded_arrival *a) {
    for (uint32_t i = 0; i < WIRE_MAX_PIECES; i++) peer_release(p, &a->piece[i]);
    arrival_forget(p, a);
}

static forwarded_arrival *arrival_of(peer *p, member_id origin, uint32_t serial) {
    EACH_ARRIVAL(p, a)
        if (a->origin == origin && a->serial == serial) return a;
    if (p->microbatch->arrivals_used == UINT32_MAX) return NULL;
    uint32_t room = (uint32_t)__builtin_ctz(~p->microbatch->arrivals_used);
    p->microbatch->arrivals_used |= 1u << room;
    p->microbatch->arrival[room] = (forwarded_arrival){.origin = origin, .serial = serial, .me = p->me, .fence = p->state.fence};
    return &p->microbatch->arrival[room];
}

static void join_if_whole(peer *p, forwarded_arrival *a) {
    a->touched_ns = p->now;
    if (!a->announced || a->joining || a->got == 0 || a->got < a->count) return;
    core_job *t = jobs_add(p, JOB_JOIN);
    if (t == NULL) return;  // forwarded_tick tries again
    t->work.m = (uint32_t)(a - p->microbatch->arrival);
    t->serial = a->serial;
    for (uint32_t i = 0; i < a->count; i++) {
        t->work.input[t->work.inputs++] = a->piece[i];
        a->piece[i] = 0;
    }
    a->joining = true;
}

// Passes a piece on for its origin. One forwarder is enough: a piece that came by another one is
// dropped.
static void pass_on(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry *piece = &msg->u.carry;
    if (msg->sender != piece->origin) return;
    peer_compose(p, MESSAGE_CARRY)->u.carry = *piece;
    if (!forward_pass_on(p, piece->to, blob, bytes)) forward_refuse(p, piece->origin, piece->serial);
}

void on_carry(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_carry *piece = &msg->u.carry;
    bool mine = piece->to == p->me, alive = member_live(p, piece->origin);
    bool fits = bytes == message_piece_bytes(peer_tensor_bytes(&p->run, PHASE_FORWARD), piece->index, piece->count) ||
                bytes == message_piece_bytes(peer_tensor_bytes(&p->run, PHASE_BACKWARD), piece->index, piece->count);
    forwarded_arrival *a = alive && fits && mine && run_state_goes_on(&p->state) ? arrival_of(p, piece->origin, piece->serial) : NULL;
    bool twice = a != NULL && (a->joining || a->piece[piece->index] != 0);
    bool taken = a != NULL && !twice && (a->count == 0 || a->count == piece->count);
    if (!taken) {
        if (alive && fits && !mine) pass_on(p, msg, blob, bytes);
        else if (alive && !twice && (mine ? run_state_goes_on(&p->state) : msg->sender == piece->origin)) forward_refuse(p, piece->origin, piece->serial);
        peer_release(p, &blob);
        return;
    }
    a->count = piece->count;
    a->piece[piece->index] = blob;
    a->got++;
    join_if_whole(p, a);
}

static const message_subject *subject_of(const forwarded_arrival *a) {
    return a->kind == MESSAGE_FORWARD ? &a->u.forward.subject : &a->u.backward.subject;
}

// The sender has started another transfer of the same tensor: the one before was given up.
static void supersede(peer *p, const message *msg, const message_subject *subject, uint32_t serial) {
    EACH_ARRIVAL(p, a) {
        bool other = a->announced && !a->joining && a->origin == msg->sender && a->serial != serial;
        if (other && a->kind == msg->kind && a->iteration == msg->iteration && subject_of(a)->m == subject->m) arrival_clear(p, a);
    }
}

bool forwarded_announced(peer *p, const message *msg) {
    bool forward = msg->kind == MESSAGE_FORWARD;
    const message_parcel *parcel = forward ? &msg->u.forward.parcel : &msg->u.backward.parcel;
    supersede(p, msg, forward ? &msg->u.forward.subject : &msg->u.backward.subject, parcel->serial);
    if (parcel->pieces == 0) return false;
    forwarded_arrival *a = arrival_of(p, msg->sender, parcel->serial);
    if (a == NULL || (a->count != 0 && a->count != parcel->pieces)) {
        forward_refuse(p, msg->sender, parcel->serial);
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

void forwarded_joined(peer *p, const core_job *t, const job_result *r) {
    forwarded_arrival *a = &p->microbatch->arrival[t->work.m];
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
    message *msg = &p->core.received;
    *msg = (message){.kind = a->kind, .iteration = a->iteration, .sender = a->origin};
    if (forward) msg->u.forward = a->u.forward;
    else msg->u.backward = a->u.backward;
    uint32_t serial = a->serial;
    arrival_forget(p, a);
    bool good = out != 0 && !r->failed && r->hash64 == (forward ? msg->u.forward.hash : msg->u.backward.hash);
    if (!good) {
        peer_release(p, &out);
        forward_refuse(p, msg->sender, serial);
        return;
    }
    if (forward) {
        msg->u.forward.parcel = (message_parcel){0};
        on_forward(p, msg, out, peer_tensor_bytes(&p->run, PHASE_FORWARD));
    } else {
        msg->u.backward.parcel = (message_parcel){0};
        on_backward(p, msg, out, peer_tensor_bytes(&p->run, PHASE_BACKWARD));
    }
}

// ---- time ---------------------------------------------------------------------------------------

static bool is_over(const peer *p, const forwarded_arrival *a) {
    bool late = !run_state_goes_on(&p->state) || (a->announced && a->iteration != p->state.iteration);
    return p->me == 0 || a->me != p->me || a->fence != p->state.fence || !member_live(p, a->origin) || (!a->joining && late);
}

void forwarded_tick(peer *p) {
    if (p->me != 0) each_sending(p, is_lost, p->now);
    EACH_ARRIVAL(p, a) {
        bool over = is_over(p, a), forgotten = !over && !a->joining && p->now >= a->touched_ns + TIMING_PIECES_NS;
        if (forgotten && a->announced) forward_refuse(p, a->origin, a->serial);  // the sender may still expect it to arrive
        if (over || forgotten) arrival_clear(p, a);
        else if (a->announced && !a->joining && a->got == a->count) join_if_whole(p, a);
    }
}
