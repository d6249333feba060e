// Answers of a receiver: to a tensor (ACCEPT, COMPLETE, DENY, NO PEER), and refused orders of an owner
// (DENY COMMIT, DENY RESUME, EVICTED).
#include "protocol/microbatch/microbatch.h"

#include <string.h>

// The tensor that an answer is about; NULL: this peer does not wait for that answer.
static tensor_sending *waiting_for(peer *p, const message *msg, const message_subject *subject, uint8_t phase) {
    inflight_microbatch *h = &p->microbatch->inflight[subject->m];
    if (!h->used) return NULL;
    tensor_sending *s = phase == PHASE_FORWARD ? &h->on : &h->back;
    if (phase == PHASE_BACKWARD && p->stage == 0) s = &p->microbatch->owned[subject->m].back;
    bool waits = s->state == SEND_SENT || s->state == SEND_ACCEPTED;
    return waits && s->to == msg->sender ? s : NULL;
}

// A receiver that has computed nothing yet gives no estimate. Assume this peer's own speed for all
// tensors that it has from here.
static uint64_t newcomers_eta(peer *p, member_id to) {
    uint64_t given = 0;
    EACH_INFLIGHT(p, m) given += send_waits_at(&p->microbatch->inflight[m].on, to) || send_waits_at(&p->microbatch->inflight[m].back, to);
    return (given > 0 ? given : 1) * (p->microbatch->forward_ns + p->microbatch->backward_ns);
}

void on_accept(peer *p, const message *msg) {
    const message_accept *body = &msg->u.accept;
    tensor_sending *s = waiting_for(p, msg, &body->subject, body->phase);
    timing_link *link = send_link_of(p, msg->sender);
    if (s == NULL || link == NULL) return;
    if (s->state == SEND_SENT && s->by != 0 && s->direct_ns != 0 && s->failures == 0) route_forwarded(p, msg->sender, p->now - s->sent_ns, s->direct_ns);
    if (s->state == SEND_SENT && s->by == 0) {
        timing_accepted(link, p->now - s->sent_ns);
        route_taken(p, msg->sender, p->run.activation_bytes, s->sent_ns);
    }
    s->state = SEND_ACCEPTED;
    uint64_t eta_ns = body->eta_ns != 0 ? body->eta_ns : newcomers_eta(p, msg->sender);
    s->deadline_ns = p->now + timing_complete_limit(link, eta_ns);
}

void on_complete(peer *p, const message *msg) {
    const message_complete *body = &msg->u.complete;
    tensor_sending *s = waiting_for(p, msg, &body->subject, body->phase);
    if (s != NULL) s->state = SEND_DONE;
}

// The next receiver of a forward. One that an order named is not replaced here: it is asked again
// later, or the owner, which hears of it if `suspect`, chooses another one.
static void forward_elsewhere(peer *p, uint32_t m, member_id by, bool suspect) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    bool named = h->forward_to < p->run.stages;
    if (named || p->stage + 1 == p->run.stages) {
        h->on.state = SEND_LOST;
        h->on.deadline_ns = p->now + TIMING_REPEAT_NS;
        if (suspect) send_suspect_to_owner(p, m, PHASE_FORWARD, by);
        return;
    }
    send_forward_routed(p, m);
}

static void forward_denied(peer *p, uint32_t m, member_id by, uint8_t reason) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    pick_peer *f = pick_find(&p->microbatch->flow, by);
    bool full = reason == DENY_FULL;
    if (reason == DENY_STALE || reason == DENY_CLOSED) {
        h->on.state = SEND_DONE;
        return;
    }
    if (full && f != NULL) f->free_slots = 0;
    if (h->on.state == SEND_SENT && h->on.by == 0 && full) route_taken(p, by, p->run.activation_bytes, h->on.sent_ns);
    if (!full) send_add_tried(&h->on, by);
    forward_elsewhere(p, m, by, !full);
}

static bool has_commit(const peer *p, uint32_t m, member_id who) {
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (p->microbatch->owned[m].stage[s].member == who && p->microbatch->owned[m].stage[s].committed) return true;
    return false;
}

// Rule R8: its holder gave the microbatch up. By now it may hold it again and count it: a member with
// a COMMIT answers the COMMIT itself.
void on_evicted(peer *p, const message *msg) {
    const message_subject *of = &msg->u.evicted.subject;
    if (!member_live(p, msg->sender)) return;
    if (microbatch_is_mine(p, of->m) && !has_commit(p, of->m, msg->sender)) repair_holder_lost(p, of->m, of->stage, msg->sender);
}

// Rule R12: this answer promises nothing. A member with a COMMIT must refuse the COMMIT itself,
// which is final.
void on_deny_resume(peer *p, const message *msg) {
    const message_subject *of = &msg->u.deny_resume.subject;
    if (!member_live(p, msg->sender) || !microbatch_is_mine(p, of->m)) return;
    if (has_commit(p, of->m, msg->sender)) own_commit_again(p, of->m, msg->sender);
    else repair_holder_lost(p, of->m, of->stage, msg->sender);
}

// Rule R12: the holder that refuses its present COMMIT is replaced. A late answer may refuse an older
// COMMIT, or come from an earlier holder.
void on_deny_commit(peer *p, const message *msg) {
    const message_deny_commit *body = &msg->u.deny_commit;
    uint32_t m = body->subject.m;
    uint16_t s = body->subject.stage;
    if (!member_live(p, msg->sender) || body->reason != COMMIT_MISSING) return;
    bool present = s < p->run.stages && microbatch_is_mine(p, m) && body->rev == p->microbatch->owned[m].stage[s].rev;
    if (present) repair_holder_lost(p, m, s, msg->sender);
}

// Rule M4: a receiver hands a forward back that it had accepted, and perhaps computed.
void on_no_peer(peer *p, const message *msg) {
    const message_subject *of = &msg->u.no_peer.subject;
    inflight_microbatch *h = &p->microbatch->inflight[of->m];
    if (!member_live(p, msg->sender)) return;
    if (h->used && h->on.to == msg->sender && h->on.state == SEND_DONE) h->on.state = SEND_SENT;
    if (waiting_for(p, msg, of, PHASE_FORWARD) == NULL) return;
    send_add_tried(&h->on, msg->sender);
    forward_elsewhere(p, of->m, msg->sender, true);
}

static void backward_denied(peer *p, tensor_sending *s, const message_deny *body, member_id by) {
    uint32_t m = body->subject.m;
    if (body->reason == DENY_STALE) {
        s->state = SEND_DONE;
        return;
    }
    s->state = SEND_LOST;
    s->deadline_ns = p->now + TIMING_REPEAT_NS;
    if (p->stage > 0) send_suspect_to_owner(p, m, PHASE_BACKWARD, by);
    // Rule R12: a committed holder is replaced only when it refuses the COMMIT, so it is probed.
    // Rule R11: a member with a log that is behind has lost nothing; it is asked again until the
    // time limit, and then replaced.
    else if (microbatch_is_mine(p, m) && body->reason != DENY_VERSION && !has_commit(p, m, by)) repair_holder_lost(p, m, body->subject.stage, by);
}

void on_deny(peer *p, const message *msg) {
    const message_deny *body = &msg->u.deny;
    if (!member_live(p, msg->sender)) return;
    tensor_sending *s = waiting_for(p, msg, &body->subject, body->phase);
    if (s == NULL) return;
    if (body->phase == PHASE_FORWARD) forward_denied(p, body->subject.m, msg->sender, body->reason);
    else backward_denied(p, s, body, msg->sender);
}

// Rule D9: true if the tensor was sent over a link that has fallen since. The tensor or its answer
// was lost.
static bool was_lost_with_link(const peer *p, const tensor_sending *s, member_id to) {
    return s->state == SEND_SENT && s->by == 0 && s->to == to && s->links != send_links_of(p, to);
}

void send_link_back(peer *p, member_id to) {
    if (p->me == 0) return;
    EACH_INFLIGHT(p, m) {
        inflight_microbatch *h = &p->microbatch->inflight[m];
        if (was_lost_with_link(p, &h->on, to)) send_forward_again(p, m);
        if (h->used && was_lost_with_link(p, &h->back, to)) send_backward(p, m);
        if (microbatch_is_mine(p, m) && was_lost_with_link(p, &p->microbatch->owned[m].back, to)) own_send_gradient(p, m);
    }
}
