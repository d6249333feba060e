// Passing tensors on, and guarding them until the receiver has computed (docs/protocol.md, The life of a microbatch).
#include "protocol/internal.h"

#include <string.h>

enum { MOST_TRUSTED = 4 };

static uint32_t links_of(const peer *p, member_id id) {
    const member *m = member_find(p, id);
    return m == NULL || m->contact == NO_CONTACT ? 0 : p->contacts[m->contact].links;
}

bool send_is_under_way(peer *p, sending *s, member_id to) {
    bool here = s->state == SEND_SENT && s->to == to && s->links == links_of(p, to) && member_answers(p, to);
    if (!here || (s->by != 0 && !member_answers(p, s->by)) || s->trusted == MOST_TRUSTED) return false;
    s->trusted++;
    return true;
}

static void sent(peer *p, sending *s, member_id to) {
    const member *m = member_find(p, to);
    const timing_link none = {0};
    const timing_link *link = m == NULL || m->contact == NO_CONTACT ? &none : &p->contacts[m->contact].timing;
    uint64_t before = (uint64_t)route_on_line(p, to);  // what is on that line leaves first
    s->state = SEND_SENT;
    s->to = to;
    s->sent_ns = p->now;
    s->waiting_since_ns = 0;
    s->links = links_of(p, to);
    s->trusted = 0;
    s->deadline_ns = p->now + (s->by != 0 ? s->carried_ns : timing_accept_limit(link, p->run.activation_bytes) * (1 + before));
}

// When it is sent again, the copy before lies on that line still; but not if it went by way of somebody, or if the link has fallen.
static bool pass_on(peer *p, sending *s, member_id to, blob_id blob, member_id planned) {
    if (s->state == SEND_SENT && (s->by != 0 || s->links != links_of(p, to))) s->state = SEND_NONE;
    if (!parcel_send(p, s, to, blob, planned)) return false;
    sent(p, s, to);
    return true;
}

// However often it is tried meanwhile, when its time has come those who refused it are asked again: they may be all that there are.
static void wait_for_somebody(peer *p, sending *s) {
    s->to = 0;
    if (s->state == SEND_WAITING) return;
    s->state = SEND_WAITING;
    s->waiting_since_ns = p->now;
    s->deadline_ns = p->now + TIMING_REPEAT_NS;
}

static void add_tried(sending *s, member_id who) {
    if (who == 0) return;
    s->tried[s->tried_count % PEER_MAX_TRIED] = who;
    if (s->tried_count < PEER_MAX_TRIED) s->tried_count++;
}

static void tell_owner_lost(peer *p, uint32_t m, uint8_t phase, member_id who) {
    const held *h = &p->held[m];
    message_suspect *suspect = &peer_compose(p, MESSAGE_SUSPECT)->u.suspect;
    suspect->member = who;
    suspect->has_subject = true;
    suspect->subject = (message_subject){.m = m, .stage = p->stage, .owner_term = h->owner_term};
    suspect->phase = phase;
    peer_send_member(p, h->owner, 0);
}

// ---- forward ------------------------------------------------------------------------------------------------------

static bool transmit_forward(peer *p, uint32_t m, member_id to, bool home) {
    held *h = &p->held[m];
    message_forward *body = &peer_compose(p, MESSAGE_FORWARD)->u.forward;
    body->subject = (message_subject){.m = m, .stage = home ? 0 : (uint16_t)(p->stage + 1), .owner_term = h->owner_term};
    body->owner = h->owner;
    body->forward_to = h->forward_to;
    body->home = home;
    body->repair = h->forward_to < p->run.stages || p->has_close;
    body->hash = h->y_hash;
    body->path = h->path;
    body->path.member[p->stage] = p->me;
    bool planned = h->ahead_count > 0 && h->ahead[0].member == to;
    body->ahead_count = home ? 0 : h->ahead_count;
    memcpy(body->ahead, h->ahead, body->ahead_count * sizeof *h->ahead);
    if (!pass_on(p, &h->on, to, h->y, planned ? h->ahead[0].by : 0)) return false;
    flow_sent(&p->flow, to);
    return true;
}

static void forward_routed(peer *p, uint32_t m) {
    held *h = &p->held[m];
    // (of more than so many it does not remember who was tried)
    for (uint32_t tries = 0; tries <= PEER_MAX_TRIED; tries++) {
        bool wait = false;
        member_id to = route_pick(p, m, &wait);
        bool by_unit = to != 0;
        if (wait) break;
        if (!by_unit) to = flow_pick(&p->flow, h->on.tried, h->on.tried_count, rng_seed(p->config.random_seed, m));
        if (to == 0) break;
        if (transmit_forward(p, m, to, false)) {
            route_sent(p, m, to, by_unit);
            return;
        }
        add_tried(&h->on, to);
    }
    wait_for_somebody(p, &h->on);
    uint64_t time = route_plan_time(p, h);
    if (time > p->now && time < h->on.deadline_ns) h->on.deadline_ns = time;
}

// The member of the path, in a repair; its owner chooses again when that one does not answer.
static void forward_named(peer *p, uint32_t m, member_id to, bool home) {
    held *h = &p->held[m];
    bool there = member_at(p, to, home ? 0 : (uint16_t)(p->stage + 1));
    if (there && transmit_forward(p, m, to, home)) return;
    if (there && home) {
        wait_for_somebody(p, &h->on);  // the owner does not die in this iteration's eyes: its link comes back
        return;
    }
    h->on.state = SEND_LOST;
    h->on.deadline_ns = p->now + TIMING_REPEAT_NS;
    tell_owner_lost(p, m, PHASE_FORWARD, to);
}

void send_forward_again(peer *p, uint32_t m) {
    bool home = p->stage + 1 == p->run.stages;
    member_id to = p->held[m].on.to;
    if (!member_at(p, to, home ? 0 : (uint16_t)(p->stage + 1)) || !transmit_forward(p, m, to, home)) send_forward(p, m);
}

void send_forward(peer *p, uint32_t m) {
    held *h = &p->held[m];
    BRAID_ASSERT(h->used && h->forward == WORK_DONE);
    if (h->forward_to <= p->stage) return;  // the last of a repair: it waits for dy
    uint16_t next = (uint16_t)(p->stage + 1);
    if (next == p->run.stages) {
        if (p->stage == 0) {
            message msg = {.kind = MESSAGE_FORWARD, .iteration = p->iteration, .sender = p->me};
            msg.u.forward = (message_forward){.subject = {.m = m, .owner_term = h->owner_term}, .owner = p->me, .home = true, .path = h->path};
            msg.u.forward.path.member[0] = p->me;
            h->on.state = SEND_DONE;
            own_home(p, &msg, 0);
            return;
        }
        forward_named(p, m, h->owner, true);
        return;
    }
    bool repair = h->forward_to < p->run.stages;
    if (repair) forward_named(p, m, h->path.member[next], false);
    else forward_routed(p, m);
}

// ---- backward -----------------------------------------------------------------------------------------------------

void send_backward(peer *p, uint32_t m) {
    held *h = &p->held[m];
    BRAID_ASSERT(h->used && h->backward == WORK_DONE);
    if (p->stage == 0 || p->stage <= h->back_to) return;
    member_id to = h->path.member[p->stage - 1];
    if (p->stage == 1) to = h->owner;
    message_backward *body = &peer_compose(p, MESSAGE_BACKWARD)->u.backward;
    body->subject = (message_subject){.m = m, .stage = (uint16_t)(p->stage - 1), .owner_term = h->owner_term};
    body->owner = h->owner;
    body->back_to = h->back_to;
    body->repair = h->repair || h->back_to > 0 || p->has_close;
    body->hash = h->dx_hash;
    body->path = h->path;
    if (member_at(p, to, (uint16_t)(p->stage - 1)) && pass_on(p, &h->back, to, h->dx, to == h->back_from ? h->back_by : 0)) return;
    h->back.state = SEND_LOST;
    h->back.to = to;
    h->back.deadline_ns = p->now + TIMING_REPEAT_NS;
    tell_owner_lost(p, m, PHASE_BACKWARD, to);
}

// The owner's gradient to the last stage.
void own_send_gradient(peer *p, uint32_t m) {
    owned *o = &p->owned[m];
    const held *h = &p->held[m];
    uint16_t last = (uint16_t)(p->run.stages - 1);
    member_id to = o->stage[last].member;
    message_backward *body = &peer_compose(p, MESSAGE_BACKWARD)->u.backward;
    body->subject = (message_subject){.m = m, .stage = last, .owner_term = h->owner_term};
    body->owner = p->me;
    body->back_to = 0;
    body->repair = o->phase > OWNED_BACKWARD || o->stage[last].rev > 1 || p->has_close;
    if (h->backward == WORK_DONE && last > 1 && o->stage[last - 1].backward_done) body->back_to = last;
    body->hash = o->gradient_hash;
    body->path.stages = p->run.stages;
    for (uint16_t s = 0; s < p->run.stages; s++) body->path.member[s] = s == 0 ? p->me : o->stage[s].member;
    if (member_at(p, to, last) && pass_on(p, &o->back, to, o->gradient, route_plan_back(p, m, to))) return;
    o->back.state = SEND_LOST;
    o->back.deadline_ns = p->now + TIMING_REPEAT_NS;
}

// ---- answers ------------------------------------------------------------------------------------------------------

// What the answer `subject` speaks of: my tensor on its way to that sender, or NULL when I no longer wait for it.
static sending *waiting_for(peer *p, const message *msg, const message_subject *subject, uint8_t phase) {
    held *h = &p->held[subject->m];
    if (!h->used) return NULL;
    sending *s = phase == PHASE_FORWARD ? &h->on : &h->back;
    if (phase == PHASE_BACKWARD && p->stage == 0) s = &p->owned[subject->m].back;
    bool waits = s->state == SEND_SENT || s->state == SEND_ACCEPTED;
    return waits && s->to == msg->sender ? s : NULL;
}

static timing_link *link_of(peer *p, member_id id) {
    const member *m = member_find(p, id);
    return m == NULL || m->contact == NO_CONTACT ? NULL : &p->contacts[m->contact].timing;
}

static bool waits_at(const sending *s, member_id to) {
    return s->to == to && (s->state == SEND_SENT || s->state == SEND_ACCEPTED);
}

// Who has computed nothing yet cannot say how long it takes: as long as I would, then, for all that it has of mine.
static uint64_t newcomers_eta(peer *p, member_id to) {
    uint64_t given = 0;
    EACH_HELD(p, m) given += waits_at(&p->held[m].on, to) || waits_at(&p->held[m].back, to);
    return (given > 0 ? given : 1) * (p->forward_ns + p->backward_ns);
}

void on_accept(peer *p, const message *msg) {
    const message_accept *body = &msg->u.accept;
    sending *s = waiting_for(p, msg, &body->subject, body->phase);
    timing_link *link = link_of(p, msg->sender);
    if (s == NULL || link == NULL) return;
    if (s->state == SEND_SENT && s->by != 0 && s->straight_ns != 0 && s->failures == 0) route_carried(p, msg->sender, p->now - s->sent_ns, s->straight_ns);
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
    sending *s = waiting_for(p, msg, &body->subject, body->phase);
    if (s != NULL) s->state = SEND_DONE;
}

void send_forward_proven(peer *p, uint32_t m, member_id by) {
    held *h = &p->held[m];
    if (h->used && (waits_at(&h->on, by) || h->on.state == SEND_WAITING)) h->on.state = SEND_DONE;
}

static void forward_denied(peer *p, uint32_t m, member_id by, uint8_t reason) {
    held *h = &p->held[m];
    flow_peer *f = flow_find(&p->flow, by);
    bool named = h->forward_to < p->run.stages;
    if (reason == DENY_STALE || reason == DENY_CLOSED) {
        h->on.state = SEND_DONE;
        return;
    }
    if (reason == DENY_FULL && f != NULL) f->free_slots = 0;
    if (h->on.state == SEND_SENT && h->on.by == 0 && reason == DENY_FULL) route_taken(p, by, p->run.activation_bytes, h->on.sent_ns);
    if (reason != DENY_FULL) add_tried(&h->on, by);
    if (named || p->stage + 1 == p->run.stages) {  // to a named member: try it again later, or let the owner choose
        h->on.state = SEND_LOST;
        h->on.deadline_ns = p->now + TIMING_REPEAT_NS;
        if (reason != DENY_FULL) tell_owner_lost(p, m, PHASE_FORWARD, by);
        return;
    }
    forward_routed(p, m);
}

static bool is_told_to_count(const peer *p, uint32_t m, member_id who) {
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (p->owned[m].stage[s].member == who && p->owned[m].stage[s].committed) return true;
    return false;
}

void on_deny(peer *p, const message *msg) {
    const message_deny *body = &msg->u.deny;
    uint32_t m = body->subject.m;
    if (body->phase == PHASE_GET) {
        for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
            pull *q = &p->pulls[i];
            if (q->used && q->from == msg->sender && q->what == m && q->stage == body->subject.stage && q->first == body->subject.owner_term) {
                fetch_denied(p, q, body);
                reduce_denied(p, q);
                return;
            }
        }
        return;
    }
    if (!member_live(p, msg->sender)) return;
    if (body->phase == PHASE_FORWARD && body->reason == DENY_EVICTED) {
        // it may hold it again by now, and count it: who was told to count says for itself whether it does
        if (owns(p, m) && !is_told_to_count(p, m, msg->sender)) repair_holder_lost(p, m, body->subject.stage, msg->sender);
        return;
    }
    if (body->phase == PHASE_RESUME && owns(p, m) && is_told_to_count(p, m, msg->sender)) {
        own_commit_again(p, m, msg->sender);  // that it has nothing it must say to the COMMIT, which it refuses then for good
        return;
    }
    if (body->phase == PHASE_COMMIT || body->phase == PHASE_RESUME) {
        uint16_t s = body->subject.stage;
        // a late copy may refuse a COMMIT that came again and was kept, or one to an earlier holder
        bool present = body->phase == PHASE_RESUME || (s < p->run.stages && owns(p, m) && body->rev == p->owned[m].stage[s].rev);
        if (present && owns(p, m) && body->reason == DENY_MISSING) repair_holder_lost(p, m, body->subject.stage, msg->sender);
        return;
    }
    held *h = &p->held[m];
    if (body->phase == PHASE_FORWARD && body->reason == DENY_NO_PEER && h->used && h->on.to == msg->sender && h->on.state == SEND_DONE)
        h->on.state = SEND_SENT;  // it had computed, and gives it back
    sending *s = waiting_for(p, msg, &body->subject, body->phase);
    if (s == NULL) return;
    if (body->phase == PHASE_FORWARD) {
        forward_denied(p, m, msg->sender, body->reason);
        return;
    }
    if (body->reason == DENY_STALE) {
        s->state = SEND_DONE;
        return;
    }
    s->state = SEND_LOST;
    s->deadline_ns = p->now + TIMING_REPEAT_NS;
    if (p->stage > 0) tell_owner_lost(p, m, PHASE_BACKWARD, msg->sender);
    // who was told to count moves only when it refuses that; it is probed. Whose log is behind has lost nothing: another one is chosen
    // when its time is up, and until then it is asked again at leisure
    else if (owns(p, m) && body->reason != DENY_VERSION && !is_told_to_count(p, m, msg->sender)) repair_holder_lost(p, m, body->subject.stage, msg->sender);
}

// ---- guards -------------------------------------------------------------------------------------------------------

void send_retry_waiting(peer *p) {
    if (p->me == 0) return;
    EACH_HELD(p, m)
        if (p->held[m].on.state == SEND_WAITING) send_forward(p, m);
}

// It went over a link that has fallen since: it did not arrive, or the answer was lost.
static bool fell(const peer *p, const sending *s, member_id to) {
    return s->state == SEND_SENT && s->by == 0 && s->to == to && s->links != links_of(p, to);
}

void send_link_back(peer *p, member_id to) {
    if (p->me == 0) return;
    EACH_HELD(p, m) {
        held *h = &p->held[m];
        if (fell(p, &h->on, to)) send_forward_again(p, m);
        if (h->used && fell(p, &h->back, to)) send_backward(p, m);
        if (owns(p, m) && fell(p, &p->owned[m].back, to)) own_send_gradient(p, m);
    }
}

static void trust_ends(peer *p, sending *s, member_id to) {
    if (s->state != SEND_SENT || s->to != to || s->trusted == 0 || s->deadline_ns <= p->now + TIMING_S) return;
    s->deadline_ns = p->now + TIMING_S;
    peer_wake_at(p, s->deadline_ns);
}

void send_link_lost(peer *p, member_id to) {
    EACH_HELD(p, m) {
        trust_ends(p, &p->held[m].back, to);
        if (owns(p, m)) trust_ends(p, &p->owned[m].back, to);
    }
}

void send_member_gone(peer *p, member_id gone) {
    if (p->me == 0) return;
    EACH_HELD(p, m) {
        held *h = &p->held[m];
        bool on_way = h->on.state == SEND_SENT || h->on.state == SEND_ACCEPTED;
        if (on_way && h->on.to == gone) {
            add_tried(&h->on, gone);
            if (p->stage == 0 && owns(p, m)) {
                tell t = {.kind = TELL_REPAIR, .iteration = p->iteration, .m = m, .stage = 1, .member = gone, .phase = REPAIR_FORWARD};
                peer_tell(p, &t);
            }
            send_forward(p, m);
        }
        bool back_way = h->back.state == SEND_SENT || h->back.state == SEND_ACCEPTED;
        if (back_way && h->back.to == gone) {
            h->back.state = SEND_LOST;
            h->back.deadline_ns = p->now + TIMING_REPEAT_NS;
            tell_owner_lost(p, m, PHASE_BACKWARD, gone);
        }
    }
}

// A stage that has stayed empty: give the microbatch back, upstream may know somebody else.
static bool nobody_left(peer *p, uint32_t m) {
    held *h = &p->held[m];
    if (p->stage == 0 || h->weight != WORK_NONE || p->now - h->on.waiting_since_ns < TIMING_NO_PEER_NS) return false;
    if (member_count_stage(p, (uint16_t)(p->stage + 1)) > 0) return false;
    message_deny *deny = &peer_compose(p, MESSAGE_DENY)->u.deny;
    deny->subject = (message_subject){.m = m, .stage = p->stage, .owner_term = h->owner_term};
    deny->phase = PHASE_FORWARD;
    deny->reason = DENY_NO_PEER;
    if (!peer_send_member(p, h->upstream, 0)) return false;
    hold_free(p, m);
    return true;
}

// Who answers heartbeats and has not accepted has a slow line, or waits behind others on it; not whose link fell.
static void overdue(peer *p, const sending *s) {
    timing_link *link = s->state == SEND_SENT && s->links == links_of(p, s->to) ? link_of(p, s->to) : NULL;
    if (link != NULL && member_answers(p, s->to)) timing_accept_overdue(link, p->now - s->sent_ns);
}

bool send_waits_on(peer *p, sending *s) {
    overdue(p, s);
    if (!send_is_under_way(p, s, s->to)) return false;
    const member *m = member_find(p, s->to);
    bool stands = m->contact == NO_CONTACT || p->contacts[m->contact].link == LINK_UP;
    s->deadline_ns = p->now + (stands ? timing_accept_limit(link_of(p, s->to), p->run.activation_bytes) : TIMING_S);
    peer_wake_at(p, s->deadline_ns);
    return true;
}

static void forward_overdue(peer *p, uint32_t m) {
    held *h = &p->held[m];
    switch (h->on.state) {
    case SEND_WAITING:
        if (p->stage + 1 < p->run.stages && nobody_left(p, m)) return;
        h->on.tried_count = 0;  // who refused a while ago may have changed its mind
        h->on.deadline_ns = p->now + TIMING_REPEAT_NS;
        send_forward(p, m);
        return;
    case SEND_LOST:
        send_forward(p, m);
        return;
    default: {
        // too slow: somebody else computes it too, and the first to come home wins; the same one again when there is nobody
        member_id slow = h->on.to;
        overdue(p, &h->on);
        tell_owner_lost(p, m, PHASE_FORWARD, slow);
        add_tried(&h->on, slow);
        if (p->stage + 1 < p->run.stages && h->forward_to == p->run.stages) {
            member_id other = flow_pick(&p->flow, h->on.tried, h->on.tried_count, m);
            if (other == 0) h->on.tried_count = 0;
        }
        send_forward(p, m);
    }
    }
}

static void backward_overdue(peer *p, uint32_t m) {
    held *h = &p->held[m];
    if (send_waits_on(p, &h->back)) return;
    if (h->back.state != SEND_LOST) tell_owner_lost(p, m, PHASE_BACKWARD, h->back.to);
    send_backward(p, m);
}

static bool guarded(const sending *s, uint64_t now, peer *p) {
    if (s->state == SEND_NONE || s->state == SEND_DONE) return false;
    if (s->deadline_ns <= now) return true;
    peer_wake_at(p, s->deadline_ns);
    return false;
}

void sends_tick(peer *p) {
    if (p->me == 0) return;
    EACH_HELD(p, m) {
        held *h = &p->held[m];
        if (guarded(&h->on, p->now, p)) forward_overdue(p, m);
        if (h->used && guarded(&h->back, p->now, p)) backward_overdue(p, m);
    }
}
