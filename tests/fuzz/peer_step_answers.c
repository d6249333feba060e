// The answers of honest peers, as far as they follow from the peer's own messages.
#include "peer_step.h"

#include "wire_random.h"

#include <string.h>

// The first member of a stage, or the one on this peer; 0: none.
static member_id member_of(const host *h, uint16_t stage, uint32_t number) {
    for (member_id i = 1; i < MAX_MEMBERS; i++) {
        if (h->member[i].capacity == 0) continue;
        uint32_t who = host_number_of(&h->member[i].peer);
        if (number < PEERS ? who == number : h->member[i].stage == stage && who != SELF) return i;
    }
    return 0;
}

typedef struct answers {
    host *h;
    uint8_t spoil;  // the changed byte of an answer, 0: none
    const message *sent;
    uint32_t from;  // who answers
} answers;

static void answer(const answers *a, member_id by, message *msg) {
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    if (by == 0 || by >= MAX_MEMBERS) return;
    msg->iteration = a->sent->iteration;
    msg->sender = by;
    msg->log_position = a->sent->log_position;
    size_t count = message_encode(msg, bytes, sizeof bytes);
    if (count == 0) return;
    if (a->spoil > 0) bytes[a->spoil % count] ^= a->spoil >= 128 ? 1 : 3;
    static message spoilt;
    if (!message_decode(bytes, count, &spoilt)) return;
    host_deliver(a->h, host_number_of(&a->h->member[by].peer), &spoilt, host_payload(a->h, &spoilt));
}

// A returning tensor travels in pieces if its `home` message announces that.
static void answer_tensor(const answers *a, member_id by, message *home) {
    bool forward = home->kind == MESSAGE_FORWARD;
    message_parcel parcel = forward ? home->u.forward.parcel : home->u.backward.parcel;
    answer(a, by, home);
    for (uint16_t i = 0; i < parcel.pieces; i++) {
        message piece = {.kind = MESSAGE_CARRY, .u.carry = {.origin = by, .to = a->sent->sender, .serial = parcel.serial, .index = i, .count = parcel.pieces}};
        answer(a, by, &piece);
    }
}

// The remaining route of a microbatch, to its last stage and back to the owner.
static void answer_forward(const answers *a, member_id by) {
    const message_forward *f = &a->sent->u.forward;
    message accept = {.kind = MESSAGE_ACCEPT,
                      .u.accept = {.subject = f->subject, .phase = PHASE_FORWARD, .eta_ns = 1000000}};
    message complete = {.kind = MESSAGE_COMPLETE,
                        .u.complete = {.subject = f->subject, .phase = PHASE_FORWARD, .hash = 8, .compute_ns = 5}};
    message trace = {.kind = MESSAGE_TRACE,
                     .u.trace = {.subject = f->subject, .phase = TRACE_FORWARD_DONE, .eta_ns = 9}};
    message home = {.kind = MESSAGE_FORWARD, .u.forward = *f};
    member_id last = STAGES - 1 == f->subject.stage ? by : member_of(a->h, STAGES - 1, PEERS);
    home.u.forward.subject.stage = 0;
    home.u.forward.home = true;
    home.u.forward.hash = 8;
    if (f->subject.stage < STAGES) home.u.forward.path.member[f->subject.stage] = by;
    home.u.forward.path.member[STAGES - 1] = last;
    answer(a, by, &accept);
    answer(a, by, &complete);
    answer(a, by, &trace);
    if (!f->home) answer_tensor(a, last, &home);
}

static void answer_backward(const answers *a, member_id by) {
    const message_backward *b = &a->sent->u.backward;
    message accept = {.kind = MESSAGE_ACCEPT,
                      .u.accept = {.subject = b->subject, .phase = PHASE_BACKWARD, .eta_ns = 1000000}};
    message complete = {.kind = MESSAGE_COMPLETE,
                        .u.complete = {.subject = b->subject, .phase = PHASE_BACKWARD, .hash = 8, .compute_ns = 5}};
    message home = {.kind = MESSAGE_BACKWARD, .u.backward = *b};
    message commit = {.kind = MESSAGE_COMMIT,
                      .u.commit = {.subject = b->subject, .rev = 1, .tokens = 16, .path = b->path}};
    home.u.backward.subject.stage = 0;
    home.u.backward.hash = 8;
    answer(a, by, &accept);
    answer(a, by, &complete);
    if (b->subject.stage > 0) answer_tensor(a, b->path.member[1], &home);
    commit.u.commit.subject.stage = (uint16_t)(b->subject.stage + 1);
    if (b->subject.stage < STAGES - 1) answer(a, b->owner, &commit);
}

// A forwarded tensor arrives through its forwarder.
static void answer_get(const answers *a, member_id by) {
    const message_get *get = &a->sent->u.get;
    message data = {.kind = MESSAGE_DATA, .u.data = {.get = *get, .hash = 8}};
    message piece = {.kind = MESSAGE_CARRY_CHUNKS, .u.carry_chunks = {.origin = by, .to = a->sent->sender, .serial = get->serial, .what = get->what, .stage = get->stage, .count = (uint16_t)get->count}};
    answer(a, by, &data);
    if (get->by != 0) answer(a, get->by, &piece);
}

static void answer_reduction(const answers *a, member_id by) {
    const message_begin *b = &a->sent->u.begin;
    message result = {.kind = MESSAGE_RESULT,
                      .u.result = {.stage = b->stage, .term = b->term, .round = b->round}};
    result.u.result.count = a->h->run.blocks[b->stage % STAGES];
    message reduced = {.kind = MESSAGE_REDUCED,
                       .u.reduced = {.stage = b->stage, .term = b->term, .round = b->round, .root.bytes = {8}}};
    reduced.u.reduced.tensors = a->h->run.tensors[b->stage % STAGES];
    answer(a, by, &result);
    answer(a, by, &reduced);
}

static void answer_log(const answers *a, member_id by) {
    const log_entry *e = &a->sent->u.log.entry;
    uint64_t version = e->kind == LOG_FINAL ? e->u.final.iteration + 1 : a->sent->iteration;
    message alive = {
        .kind = MESSAGE_HEARTBEAT,
        .u.heartbeat = {
            .ready = version + 1, .can_take = version + 1, .free_slots = 2, .forward_ns = 1, .backward_ns = 1}};
    message state = {
        .kind = MESSAGE_STATE,
        .u.state = {.stage = by > 0 ? a->h->member[by].stage : 0, .version = version, .state_root.bytes = {8}}};
    answer(a, by, &alive);
    answer(a, by, &state);
}

// A router that knows its end of the link and otherwise sends random parts, with split nodes of the
// run's peers and with two-phase commits that pass the peer under test.
static void answer_route(const answers *a, member_id by) {
    const message_route *sent = &a->sent->u.route;
    if (by == 0 || by >= MAX_MEMBERS) return;
    rng r = {rng_seed(rng_seed(46, a->h->sends), by)};
    wire_random w = {.r = &r, .below = 2 * PEERS + 2};
    message reply = {.kind = MESSAGE_ROUTE};
    message_route *route = &reply.u.route;
    bool known = sent->heard == by;
    if (known) random_route(&w, route);
    for (uint32_t i = 0, words = 0; i < route->parts; words += route->part[i++].words) {
        route_part *p = &route->part[i];
        uint32_t *cycle = &route->word[words];
        if (p->kind != ROUTE_LOCK || p->words < 3) continue;
        p->token.origin = (uint32_t)by;
        p->token.position = 1;
        cycle[0] = cycle[p->words - 1] = 2 * (uint32_t)by + (cycle[0] & 1);
        cycle[1] = 2 * (uint32_t)a->sent->sender + (cycle[1] & 1);
    }
    if (!known) a->h->routed[by] = 0;
    route->session = (uint32_t)by;
    route->heard = sent->session;
    route->sequence = a->h->routed[by] += route->parts > 0;
    route->epoch = sent->epoch;
    route->cost = 1 + (uint32_t)rng_below(&r, 100000);
    answer(a, by, &reply);
}

static void answer_sent(const answers *a) {
    const message *sent = a->sent;
    member_id by = member_of(a->h, 0, a->from);
    message reply = {0};
    switch (sent->kind) {
    case MESSAGE_FORWARD: answer_forward(a, by); return;
    case MESSAGE_BACKWARD: answer_backward(a, by); return;
    case MESSAGE_ROUTE: answer_route(a, by); return;
    case MESSAGE_BEGIN_AGGREGATION: answer_reduction(a, by); return;
    case MESSAGE_LOG:
    case MESSAGE_HEARTBEAT: answer_log(a, by); return;
    case MESSAGE_COMMIT:
        reply = (message){.kind = MESSAGE_COUNTED,
                          .u.counted = {.subject = sent->u.commit.subject, .rev = sent->u.commit.rev}};
        break;
    case MESSAGE_GET: answer_get(a, by); return;
    case MESSAGE_SURVEY:  // a member that holds all microbatches, half of them with a COMMIT
        reply.kind = MESSAGE_HOLDINGS;
        memset(&reply.u.holdings, 0xff, sizeof reply.u.holdings);
        reply.u.holdings.owner_term = sent->u.survey.owner_term;
        memset(&reply.u.holdings.committed, 0x55, sizeof(message_set));
        break;
    case MESSAGE_CARRY:  // every second one is not delivered
        if (sent->u.carry.serial & 2) return;
        reply = (message){.kind = MESSAGE_UNCARRIED, .u.uncarried.serial = sent->u.carry.serial};
        break;
    case MESSAGE_CARRY_CHUNKS:
        if (sent->u.carry_chunks.serial & 2) return;
        reply = (message){.kind = MESSAGE_UNCARRIED_CHUNKS, .u.uncarried_chunks.serial = sent->u.carry_chunks.serial};
        break;
    case MESSAGE_PROBE:
        reply = (message){.kind = MESSAGE_STATUS,
                          .u.status = {.subject = sent->u.probe.subject,
                                       .nonce = sent->u.probe.nonce,
                                       .has_x = true,
                                       .has_y = true,
                                       .forward_done = true}};
        break;
    default: return;
    }
    answer(a, by, &reply);
}

void host_answer_messages(host *h, uint32_t count, uint8_t spoil) {
    static sent_message s;
    uint32_t kept = h->sends < MAX_SENT ? h->sends : MAX_SENT;
    for (uint32_t i = count % MAX_SENT; i > 0 && !h->exited; i--) {
        if (i > kept) continue;
        sent_message *slot = &h->sent[(h->sends - i) % MAX_SENT];
        s = *slot;
        slot->msg.kind = MESSAGE_NONE;
        answer_sent(&(answers){.h = h, .spoil = spoil, .sent = &s.msg, .from = s.to});
    }
}
