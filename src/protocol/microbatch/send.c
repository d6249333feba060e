// Passing tensors on, and guarding them until the receiver has computed (docs/protocol.md, The life
// of a microbatch).
#include "protocol/microbatch/microbatch.h"

#include <string.h>

enum { MOST_TRUSTED = 4 };

uint32_t send_links_of(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m == NULL || m->contact == NO_CONTACT ? 0 : p->cluster->contacts[m->contact].links;
}

bool send_is_under_way(peer *p, tensor_sending *s, member_id to) {
    bool here = s->state == SEND_SENT && s->to == to && s->links == send_links_of(p, to) && member_answers(p, to);
    if (!here || (s->by != 0 && !member_answers(p, s->by)) || s->trusted == MOST_TRUSTED) return false;
    s->trusted++;
    return true;
}

static void sent(peer *p, tensor_sending *s, member_id to) {
    const cluster_member *m = member_find(p, to);
    const timing_link none = {0};
    const timing_link *link = m == NULL || m->contact == NO_CONTACT ? &none : &p->cluster->contacts[m->contact].timing;
    uint64_t before = (uint64_t)route_queued_on_link(p, to);  // tensors on that link leave first
    s->state = SEND_SENT;
    s->to = to;
    s->sent_ns = p->now;
    s->waiting_since_ns = 0;
    s->links = send_links_of(p, to);
    s->trusted = 0;
    s->deadline_ns = p->now + (s->by != 0 ? s->carried_ns : timing_accept_limit(link, p->run.activation_bytes) * (1 + before));
}

// Sends a tensor. The previous copy still occupies the link, unless it was forwarded or the link
// has fallen since.
bool send_tensor(peer *p, tensor_sending *s, member_id to, blob_id blob, member_id planned) {
    if (s->state == SEND_SENT && (s->by != 0 || s->links != send_links_of(p, to))) s->state = SEND_NONE;
    if (!forwarded_send(p, s, to, blob, planned)) return false;
    sent(p, s, to);
    return true;
}

// Waits for a free slot. At the deadline members that refused are asked again: there may be no
// others.
static void wait_for_somebody(peer *p, tensor_sending *s) {
    s->to = 0;
    if (s->state == SEND_WAITING) return;
    s->state = SEND_WAITING;
    s->waiting_since_ns = p->now;
    s->deadline_ns = p->now + TIMING_REPEAT_NS;
}

void send_add_tried(tensor_sending *s, member_id who) {
    if (who == 0) return;
    s->tried[s->tried_count % PEER_MAX_TRIED] = who;
    if (s->tried_count < PEER_MAX_TRIED) s->tried_count++;
}

void send_suspect_to_owner(peer *p, uint32_t m, uint8_t phase, member_id who) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    message_suspect *suspect = &peer_compose(p, MESSAGE_SUSPECT)->u.suspect;
    suspect->member = who;
    suspect->has_subject = true;
    suspect->subject = (message_subject){.m = m, .stage = p->stage, .owner_term = h->owner_term};
    suspect->phase = phase;
    peer_send_member(p, h->owner, 0);
}

// ---- forward ------------------------------------------------------------------------------------

static bool transmit_forward(peer *p, uint32_t m, member_id to, bool home) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    message_forward *body = &peer_compose(p, MESSAGE_FORWARD)->u.forward;
    body->subject = (message_subject){.m = m, .stage = home ? 0 : (uint16_t)(p->stage + 1), .owner_term = h->owner_term};
    body->owner = h->owner;
    body->forward_to = h->forward_to;
    body->home = home;
    body->repair = h->forward_to < p->run.stages || p->state.has_close;
    body->hash = h->y_hash;
    body->path = h->path;
    body->path.member[p->stage] = p->me;
    bool planned = h->ahead_count > 0 && h->ahead[0].member == to;
    body->ahead_count = home ? 0 : h->ahead_count;
    memcpy(body->ahead, h->ahead, body->ahead_count * sizeof *h->ahead);
    if (!send_tensor(p, &h->on, to, h->y, planned ? h->ahead[0].by : 0)) return false;
    pick_sent(&p->microbatch->flow, to);
    return true;
}

void send_forward_routed(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    // tried[] has PEER_MAX_TRIED entries
    for (uint32_t tries = 0; tries <= PEER_MAX_TRIED; tries++) {
        bool wait = false;
        member_id to = route_pick(p, m, &wait);
        bool by_unit = to != 0;
        if (wait) break;
        if (!by_unit) to = pick_choose(&p->microbatch->flow, h->on.tried, h->on.tried_count, rng_seed(p->config.random_seed, m));
        if (to == 0) break;
        if (transmit_forward(p, m, to, false)) {
            route_sent(p, m, to, by_unit);
            return;
        }
        send_add_tried(&h->on, to);
    }
    wait_for_somebody(p, &h->on);
    uint64_t time = route_plan_time(p, h);
    if (time > p->now && time < h->on.deadline_ns) h->on.deadline_ns = time;
}

// In a repair: sends to the member that the owner chose. The owner chooses again when it does not
// answer.
static void forward_named(peer *p, uint32_t m, member_id to, bool home) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    bool there = member_at(p, to, home ? 0 : (uint16_t)(p->stage + 1));
    if (there && transmit_forward(p, m, to, home)) return;
    if (there && home) {
        wait_for_somebody(p, &h->on);  // the owner is still a member: its link comes back
        return;
    }
    h->on.state = SEND_LOST;
    h->on.deadline_ns = p->now + TIMING_REPEAT_NS;
    send_suspect_to_owner(p, m, PHASE_FORWARD, to);
}

void send_forward_again(peer *p, uint32_t m) {
    bool home = p->stage + 1 == p->run.stages;
    member_id to = p->microbatch->inflight[m].on.to;
    if (!member_at(p, to, home ? 0 : (uint16_t)(p->stage + 1)) || !transmit_forward(p, m, to, home)) send_forward(p, m);
}

void send_forward(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    BRAID_ASSERT(h->used && h->forward == WORK_DONE);
    if (h->forward_to <= p->stage) return;  // the last stage of a repair waits for the gradient
    uint16_t next = (uint16_t)(p->stage + 1);
    if (next == p->run.stages) {
        if (p->stage == 0) {
            h->on.state = SEND_DONE;
            core_report(p, &(core_change){.kind = CHANGE_HOME, .m = m});
            return;
        }
        forward_named(p, m, h->owner, true);
        return;
    }
    bool repair = h->forward_to < p->run.stages;
    if (repair) forward_named(p, m, h->path.member[next], false);
    else send_forward_routed(p, m);
}

// ---- backward -----------------------------------------------------------------------------------

void send_backward(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    BRAID_ASSERT(h->used && h->backward == WORK_DONE);
    if (p->stage == 0 || p->stage <= h->back_to) return;
    member_id to = h->path.member[p->stage - 1];
    if (p->stage == 1) to = h->owner;
    message_backward *body = &peer_compose(p, MESSAGE_BACKWARD)->u.backward;
    body->subject = (message_subject){.m = m, .stage = (uint16_t)(p->stage - 1), .owner_term = h->owner_term};
    body->owner = h->owner;
    body->back_to = h->back_to;
    body->repair = h->repair || h->back_to > 0 || p->state.has_close;
    body->hash = h->dx_hash;
    body->path = h->path;
    if (member_at(p, to, (uint16_t)(p->stage - 1)) && send_tensor(p, &h->back, to, h->dx, to == h->back_from ? h->back_by : 0)) return;
    h->back.state = SEND_LOST;
    h->back.to = to;
    h->back.deadline_ns = p->now + TIMING_REPEAT_NS;
    send_suspect_to_owner(p, m, PHASE_BACKWARD, to);
}

// ---- answers ------------------------------------------------------------------------------------

timing_link *send_link_of(peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m == NULL || m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact].timing;
}

bool send_waits_at(const tensor_sending *s, member_id to) {
    return s->to == to && (s->state == SEND_SENT || s->state == SEND_ACCEPTED);
}

void send_forward_proven(peer *p, uint32_t m, member_id by) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->used && (send_waits_at(&h->on, by) || h->on.state == SEND_WAITING)) h->on.state = SEND_DONE;
}

// ---- guards -------------------------------------------------------------------------------------

void send_retry_waiting(peer *p) {
    if (p->me == 0) return;
    EACH_INFLIGHT(p, m)
        if (p->microbatch->inflight[m].on.state == SEND_WAITING) send_forward(p, m);
}

static void trust_ends(peer *p, tensor_sending *s, member_id to) {
    if (s->state != SEND_SENT || s->to != to || s->trusted == 0 || s->deadline_ns <= p->now + TIMING_LINK_GRACE_NS) return;
    s->deadline_ns = p->now + TIMING_LINK_GRACE_NS;
    peer_wake_at(p, s->deadline_ns);
}

void send_link_lost(peer *p, member_id to) {
    EACH_INFLIGHT(p, m) {
        trust_ends(p, &p->microbatch->inflight[m].back, to);
        if (microbatch_is_mine(p, m)) trust_ends(p, &p->microbatch->owned[m].back, to);
    }
}

void send_member_gone(peer *p, member_id gone) {
    if (p->me == 0) return;
    EACH_INFLIGHT(p, m) {
        inflight_microbatch *h = &p->microbatch->inflight[m];
        bool on_way = h->on.state == SEND_SENT || h->on.state == SEND_ACCEPTED;
        if (on_way && h->on.to == gone) {
            send_add_tried(&h->on, gone);
            if (p->stage == 0 && microbatch_is_mine(p, m)) {
                tell t = {.kind = TELL_REPAIR, .iteration = p->state.iteration, .m = m, .stage = 1, .member = gone, .phase = REPAIR_FORWARD};
                peer_tell(p, &t);
            }
            send_forward(p, m);
        }
        bool back_way = h->back.state == SEND_SENT || h->back.state == SEND_ACCEPTED;
        if (back_way && h->back.to == gone) {
            h->back.state = SEND_LOST;
            h->back.deadline_ns = p->now + TIMING_REPEAT_NS;
            send_suspect_to_owner(p, m, PHASE_BACKWARD, gone);
        }
    }
}

// The next stage has been empty for TIMING_NO_PEER_NS: return the microbatch upstream, where other
// members may be known.
static bool next_stage_is_empty(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (p->stage == 0 || h->weight != WORK_NONE || p->now - h->on.waiting_since_ns < TIMING_NO_PEER_NS) return false;
    if (member_count_stage(p, (uint16_t)(p->stage + 1)) > 0) return false;
    peer_compose(p, MESSAGE_NO_PEER)->u.no_peer.subject = inflight_subject(p, m, h);
    if (!peer_send_member(p, h->upstream, 0)) return false;
    inflight_free(p, m);
    return true;
}

// A receiver that answers heartbeats but has not accepted has a slow or busy link, unless its link
// fell: raise its limit.
static void overdue(peer *p, const tensor_sending *s) {
    timing_link *link = s->state == SEND_SENT && s->links == send_links_of(p, s->to) ? send_link_of(p, s->to) : NULL;
    if (link != NULL && member_answers(p, s->to)) timing_accept_overdue(link, p->now - s->sent_ns);
}

bool send_waits_on(peer *p, tensor_sending *s) {
    overdue(p, s);
    if (!send_is_under_way(p, s, s->to)) return false;
    const cluster_member *m = member_find(p, s->to);
    bool stands = m->contact == NO_CONTACT || p->cluster->contacts[m->contact].link == LINK_UP;
    s->deadline_ns = p->now + (stands ? timing_accept_limit(send_link_of(p, s->to), p->run.activation_bytes) : TIMING_LINK_GRACE_NS);
    peer_wake_at(p, s->deadline_ns);
    return true;
}

static void forward_overdue(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    switch (h->on.state) {
    case SEND_WAITING:
        if (p->stage + 1 < p->run.stages && next_stage_is_empty(p, m)) return;
        h->on.tried_count = 0;  // members that refused may accept by now
        h->on.deadline_ns = p->now + TIMING_REPEAT_NS;
        send_forward(p, m);
        return;
    case SEND_LOST:
        send_forward(p, m);
        return;
    default: {
        // too slow: another member computes it too, and the first to complete wins; without another
        // one the same is tried again
        member_id slow = h->on.to;
        overdue(p, &h->on);
        send_suspect_to_owner(p, m, PHASE_FORWARD, slow);
        send_add_tried(&h->on, slow);
        if (p->stage + 1 < p->run.stages && h->forward_to == p->run.stages) {
            member_id other = pick_choose(&p->microbatch->flow, h->on.tried, h->on.tried_count, m);
            if (other == 0) h->on.tried_count = 0;
        }
        send_forward(p, m);
    }
    }
}

static void backward_overdue(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (send_waits_on(p, &h->back)) return;
    if (h->back.state != SEND_LOST) send_suspect_to_owner(p, m, PHASE_BACKWARD, h->back.to);
    send_backward(p, m);
}

static bool guarded(const tensor_sending *s, uint64_t now, peer *p) {
    if (s->state == SEND_NONE || s->state == SEND_DONE) return false;
    if (s->deadline_ns <= now) return true;
    peer_wake_at(p, s->deadline_ns);
    return false;
}

void sends_tick(peer *p) {
    if (p->me == 0) return;
    EACH_INFLIGHT(p, m) {
        inflight_microbatch *h = &p->microbatch->inflight[m];
        if (guarded(&h->on, p->now, p)) forward_overdue(p, m);
        if (h->used && guarded(&h->back, p->now, p)) backward_overdue(p, m);
    }
}
