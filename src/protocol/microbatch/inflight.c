// A microbatch at a member: x -> F -> y, dy -> B -> dx, COMMIT -> W -> counted (docs/protocol.md,
// The life of a microbatch).
#include "protocol/microbatch/microbatch.h"

#include <string.h>

// The entry that a finished job worked on; NULL: it is gone, and the work was wasted.
static inflight_microbatch *entry_of(peer *p, const core_job *t, const job_result *r) {
    inflight_microbatch *h = &p->microbatch->inflight[t->work.m];
    if (h->used && h->serial == t->serial) {
        h->spent_ns += r->cost_ns;
        h->touched_ns = p->now;
        return h;
    }
    p->microbatch->wasted_ns += r->cost_ns;
    return NULL;
}

// ---- answers ------------------------------------------------------------------------------------

// A microbatch without a slot may wait as long as others are under way; a repair only for a weight
// gradient, if one is due.
static uint64_t forward_eta(const peer *p, uint32_t m) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    bool long_wait = inflight_waits_for_slot(h) && !(h->repair && inflight_slot_is_due(p, m));
    return inflight_eta(p, PHASE_FORWARD) + (long_wait ? TIMING_FILL_MOST_NS : 0);
}

static void answer_accept(peer *p, member_id to, const message_subject *subject, uint8_t phase) {
    message_accept *accept = &peer_compose(p, MESSAGE_ACCEPT)->u.accept;
    accept->subject = *subject;
    accept->phase = phase;
    accept->eta_ns = phase == PHASE_FORWARD ? forward_eta(p, subject->m) : inflight_eta(p, phase);
    peer_send_member(p, to, 0);
}

static void answer_complete(peer *p, member_id to, uint32_t m, uint8_t phase, uint64_t cost_ns) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    message_complete *complete = &peer_compose(p, MESSAGE_COMPLETE)->u.complete;
    complete->subject = inflight_subject(p, m, h);
    complete->phase = phase;
    complete->hash = phase == PHASE_FORWARD ? h->y_hash : h->dx_hash;
    complete->compute_ns = cost_ns;
    peer_send_member(p, to, 0);
}

// ---- FORWARD ------------------------------------------------------------------------------------

static deny_reason refusal(const peer *p, const message *msg, bool fits, const message_subject *subject) {
    if (msg->iteration != p->state.iteration || !p->ready || !p->state.started || p->standby) return DENY_VERSION;
    if (subject->m >= p->microbatches || subject->stage != p->stage || !fits) return DENY_STALE;
    // a newer ownership epoch means that the log here is behind; an older one does not change the
    // tensor
    if (subject->owner_term > p->state.owner_term[subject->m % p->run.slots]) return DENY_VERSION;
    if (private_orphan(p, subject->m)) return DENY_STALE;
    if (p->state.has_close) return DENY_CLOSED;
    return DENY_REASONS;
}

// Takes the path of a message. If the gradient is here, the forward pass was complete: a message
// sent before that does not know the whole path.
static void take_path(inflight_microbatch *h, const message_path *path) {
    const message_path known = h->path;
    h->path = *path;
    for (uint16_t s = 0; inflight_gradient_came(h) && known.member[0] == path->member[0] && s < known.stages; s++)
        if (h->path.member[s] == 0) h->path.member[s] = known.member[s];
}

// A second copy of a forward: the answer is repeated, and nothing is computed twice.
static void forward_again(peer *p, const message_forward *body, member_id sender) {
    uint32_t m = body->subject.m;
    inflight_microbatch *h = &p->microbatch->inflight[m];
    h->upstream = sender;
    h->cancelled = false;  // cancelled while it was computed, and needed again
    if (body->repair && inflight_waits_for_slot(h)) h->repair = true;  // the other holders are gone: it may evict now
    if (h->forward != WORK_DONE) {
        // A repair is newer than a resend by a sender that lost its receiver, and names the end of
        // the gap: behind it the results exist.
        if (body->repair) {
            take_path(h, &body->path);
            h->forward_to = body->forward_to;
        }
        answer_accept(p, sender, &body->subject, PHASE_FORWARD);
        return;
    }
    answer_complete(p, sender, m, PHASE_FORWARD, 0);
    if (body->forward_to > p->stage && body->forward_to > h->forward_to) {
        h->path = body->path;
        h->forward_to = body->forward_to;
        send_forward(p, m);
    } else if (h->on.state == SEND_LOST) {
        h->path = body->path;
        send_forward(p, m);
    }
}

// Takes the owner's plan for the rest of the path. If the plan was for another member of this
// stage, its forwarders do not apply here.
static void take_plan(const peer *p, inflight_microbatch *h, const message_forward *body, member_id sender) {
    bool mine = body->ahead_count > 0 && body->ahead[0].member == p->me;
    h->ahead_count = body->ahead_count > 0 ? body->ahead_count - 1 : 0;
    memcpy(h->ahead, body->ahead + 1, h->ahead_count * sizeof *h->ahead);
    h->back_from = sender;
    h->back_by = mine ? body->ahead[0].back_by : 0;
    if (!mine && h->ahead_count > 0) h->ahead[0].by = h->ahead[0].back_by = 0;
}

void on_forward(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    const message_forward *body = &msg->u.forward;
    if (forwarded_announced(p, msg)) return;
    if (body->home) {
        if (bytes == peer_tensor_bytes(&p->run, PHASE_FORWARD)) own_home(p, msg, blob);
        else peer_release(p, &blob);
        return;
    }
    deny_reason reason = refusal(p, msg, bytes == peer_tensor_bytes(&p->run, PHASE_FORWARD), &body->subject);
    // after CLOSE a repair recomputes what a dead member had counted
    if (reason == DENY_CLOSED && body->repair) reason = DENY_REASONS;
    if (reason != DENY_REASONS || p->stage == 0) {
        inflight_deny(p, msg->sender, &body->subject, PHASE_FORWARD, reason == DENY_REASONS ? DENY_STALE : reason);
        peer_release(p, &blob);
        return;
    }
    inflight_microbatch *h = &p->microbatch->inflight[body->subject.m];
    if (!h->used) inflight_open(p, body->subject.m);
    if (h->forward != WORK_NONE) {
        peer_release(p, &blob);
        forward_again(p, body, msg->sender);
        return;
    }
    take_path(h, &body->path);
    h->repair = body->repair || h->dy != 0;
    bool may_wait = h->repair ? inflight_waiting_places(p) > 0 || inflight_slot_is_due(p, body->subject.m) : inflight_room(p) > 0;
    bool claimed = !inflight_passes_by(p, body->subject.m, h->repair) && inflight_claim(p, body->subject.m);
    if (!claimed && !may_wait) {
        if (h->dy == 0) inflight_free(p, body->subject.m);
        inflight_deny(p, msg->sender, &body->subject, PHASE_FORWARD, DENY_FULL);
        peer_release(p, &blob);
        return;
    }
    h->x = blob;
    h->forward_to = body->forward_to;
    take_plan(p, h, body, msg->sender);
    h->upstream = msg->sender;
    h->forward = WORK_QUEUED;
    answer_accept(p, msg->sender, &body->subject, PHASE_FORWARD);
    inflight_trace(p, body->subject.m, TRACE_ACCEPTED, forward_eta(p, body->subject.m), 0);
}

// True if the forward pass is done here, and in stage 0 the loss too. Reason: after a failover the
// gradient may arrive before it.
static bool backward_may_start(const peer *p, uint32_t m) {
    return p->microbatch->inflight[m].forward == WORK_DONE && (p->stage > 0 || p->microbatch->owned[m].phase == OWNED_BACKWARD);
}

// Inputs are kept while the gradient may have to be subtracted again.
static bool keeps_inputs(const peer *p) { return private_elastic(p) && p->stage > 0; }

void inflight_forward_done(peer *p, const core_job *t, const job_result *r) {
    uint32_t m = t->work.m;
    blob_id out = r->out;
    inflight_microbatch *h = entry_of(p, t, r);
    p->microbatch->forward_ns = timing_smooth(p->microbatch->forward_ns, r->cost_ns);
    if (h == NULL) {
        peer_release(p, &out);
        return;
    }
    if (r->failed && p->stage == 0) {
        // its text has changed, or memory is short: it still votes, serves its state and saves,
        // until its host ends it
        p->disabled = true;
        h->forward = WORK_QUEUED;
        return;
    }
    if (h->taking_back) {
        peer_release(p, &out);
        h->forward = WORK_DONE;
        h->backward = WORK_QUEUED;
        return;
    }
    if (!keeps_inputs(p)) peer_release(p, &h->x);
    h->y = out;
    h->y_hash = r->hash64;
    h->forward = WORK_DONE;
    if (h->cancelled) {
        inflight_free(p, m);
        return;
    }
    if (p->stage > 0) answer_complete(p, h->upstream, m, PHASE_FORWARD, r->cost_ns);
    if (h->dy != 0 && backward_may_start(p, m)) h->backward = WORK_QUEUED;
    send_forward(p, m);
    if (h->used) inflight_trace(p, m, TRACE_FORWARD_DONE, 0, h->on.to);
}

// ---- BACKWARD -----------------------------------------------------------------------------------

static void backward_again(peer *p, const message_backward *body, member_id sender) {
    uint32_t m = body->subject.m;
    inflight_microbatch *h = &p->microbatch->inflight[m];
    h->downstream = sender;
    bool waits_at_home = p->stage == 0 && h->backward == WORK_NONE;
    if (h->backward != WORK_DONE && !waits_at_home) {
        answer_accept(p, sender, &body->subject, PHASE_BACKWARD);
        return;
    }
    answer_complete(p, sender, m, PHASE_BACKWARD, 0);
    bool further = body->back_to < h->back_to && p->stage > body->back_to;
    if (p->stage == 0 || (!further && h->back.state != SEND_LOST)) return;
    h->path = body->path;
    h->back_to = body->back_to;
    send_backward(p, m);
}

void on_backward(peer *p, const message *msg, blob_id blob, uint64_t bytes) {
    if (forwarded_announced(p, msg)) return;
    const message_backward *body = &msg->u.backward;
    uint32_t m = body->subject.m;
    deny_reason reason = refusal(p, msg, bytes == peer_tensor_bytes(&p->run, PHASE_BACKWARD), &body->subject);
    if (reason == DENY_CLOSED && body->repair) reason = DENY_REASONS;
    inflight_microbatch *h = reason == DENY_REASONS ? &p->microbatch->inflight[m] : NULL;
    if (h != NULL && !h->used && !body->repair) reason = DENY_MISSING;
    if (h != NULL && !h->used && p->stage == 0) reason = DENY_STALE;  // not begun here: its owner will request it
    if (reason != DENY_REASONS) {
        inflight_deny(p, msg->sender, &body->subject, PHASE_BACKWARD, reason);
        peer_release(p, &blob);
        return;
    }
    // in a repair the gradient may come before the activation
    if (!h->used) h = inflight_open(p, m);
    h->cancelled = false;
    // it waits for a slot behind a microbatch that may wait for a slot this one holds in another
    // stage
    if (inflight_waits_for_slot(h)) h->repair = true;
    send_forward_proven(p, m, msg->sender);
    if (h->dy != 0 || h->backward != WORK_NONE) {
        peer_release(p, &blob);
        backward_again(p, body, msg->sender);
        return;
    }
    h->dy = blob;
    h->path = body->path;
    h->back_to = body->back_to;
    h->downstream = msg->sender;
    if (backward_may_start(p, m)) h->backward = WORK_QUEUED;
    if (p->stage == 0 && h->backward == WORK_NONE) answer_complete(p, msg->sender, m, PHASE_BACKWARD, 0);  // complete at its owner; the loss comes first
    else answer_accept(p, msg->sender, &body->subject, PHASE_BACKWARD);
    inflight_trace(p, m, TRACE_RETURNING, inflight_eta(p, PHASE_BACKWARD), 0);
}

void inflight_backward_done(peer *p, const core_job *t, const job_result *r) {
    uint32_t m = t->work.m;
    blob_id out = r->out;
    inflight_microbatch *h = entry_of(p, t, r);
    p->microbatch->backward_ns = timing_smooth(p->microbatch->backward_ns, r->cost_ns);
    if (h == NULL) {
        peer_release(p, &out);
        return;
    }
    if (h->taking_back) {
        peer_release(p, &out);
        h->backward = WORK_DONE;
        h->weight = WORK_QUEUED;
        return;
    }
    if (!keeps_inputs(p)) peer_release(p, &h->dy);
    h->dx = out;
    h->dx_hash = r->hash64;
    h->backward = WORK_DONE;
    if (h->cancelled) {
        inflight_free(p, m);
        return;
    }
    if (h->downstream != p->me) answer_complete(p, h->downstream, m, PHASE_BACKWARD, r->cost_ns);
    if (p->stage == 0) {
        own_backward_done(p, m, r->finite);
        return;
    }
    inflight_trace(p, m, TRACE_BACKWARD_DONE, 0, 0);
    send_backward(p, m);
}

// ---- COMMIT -------------------------------------------------------------------------------------

static void answer_counted(peer *p, uint32_t m) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    message_counted *counted = &peer_compose(p, MESSAGE_COUNTED)->u.counted;
    counted->subject = inflight_subject(p, m, h);
    counted->rev = h->rev;
    counted->overflow = h->overflow;
    peer_send_member(p, h->owner, 0);
}

static void refuse_commit(peer *p, const message *msg, commit_refusal reason) {
    message_deny_commit *deny = &peer_compose(p, MESSAGE_DENY_COMMIT)->u.deny_commit;
    *deny = (message_deny_commit){.subject = msg->u.commit.subject, .reason = (uint8_t)reason, .rev = msg->u.commit.rev};
    peer_send_member(p, msg->sender, 0);
}

void on_commit(peer *p, const message *msg) {
    const message_commit *body = &msg->u.commit;
    inflight_microbatch *h = &p->microbatch->inflight[body->subject.m];
    if (body->subject.stage != p->stage || !p->ready) return;
    if (body->path.member[p->stage] != p->me) return;  // meant for an earlier incarnation
    if (private_closed_out(p, body->subject.m)) {
        refuse_commit(p, msg, COMMIT_CLOSED);
        return;
    }
    bool stale = h->used && body->subject.owner_term < h->owner_term && !peer_breaks(p, PEER_MUTANT_OBEYS_OLDER_OWNER);
    bool possible = h->used && !stale && h->backward == WORK_DONE && !h->cancelled && body->rev > h->refused_rev;
    if (!possible && !(h->used && h->counted)) {
        if (body->rev > h->refused_rev) h->refused_rev = body->rev;
        if (peer_breaks(p, PEER_MUTANT_REFUSES_SILENTLY)) return;
        refuse_commit(p, msg, stale ? COMMIT_STALE : COMMIT_MISSING);
        return;
    }
    if (body->rev > h->rev || body->subject.owner_term > h->commit_term) h->rev = body->rev;
    h->commit_term = body->subject.owner_term;
    bool again = peer_breaks(p, PEER_MUTANT_COMMITS_TWICE);
    if (h->counted && !again) {
        answer_counted(p, body->subject.m);
        return;
    }
    if (h->weight != WORK_NONE && !again) return;
    core_report(p, &(core_change){.kind = CHANGE_SUM});
    h->weight = WORK_QUEUED;
    h->touched_ns = p->now;
    if (peer_breaks(p, PEER_MUTANT_FREES_AT_COMMIT) && h->slot != NO_SLOT) p->microbatch->slot_taken[h->slot] = 0;
}

void inflight_weight_done(peer *p, const core_job *t, const job_result *r) {
    uint32_t m = t->work.m;
    inflight_microbatch *h = entry_of(p, t, r);
    p->microbatch->weight_ns = timing_smooth(p->microbatch->weight_ns, r->cost_ns);
    if (h == NULL) return;
    if (h->taking_back) {
        inflight_uncount(p, m);
        return;
    }
    h->weight = WORK_DONE;
    h->counted = true;
    h->overflow = r->overflow;
    bitset_add(p->microbatch->k.words, m);
    p->microbatch->counted++;
    p->microbatch->useful_ns += h->spent_ns;
    h->spent_ns = 0;
    if (!peer_breaks(p, PEER_MUTANT_FREES_AT_FINAL)) inflight_slot_free(p, h);
    answer_counted(p, m);
    if (p->stage == 0) own_launch(p);
}

// ---- CANCEL, PROBE, RESUME ----------------------------------------------------------------------

void on_cancel(peer *p, const message *msg) {
    const message_subject *s = &msg->u.cancel.subject;
    inflight_microbatch *h = &p->microbatch->inflight[s->m];
    if (!h->used || p->stage == 0 || h->counted || h->weight != WORK_NONE) return;
    if (s->owner_term >= h->owner_term) inflight_drop(p, s->m);
}

void on_probe(peer *p, const message *msg) {
    const message_probe *body = &msg->u.probe;
    uint32_t m = body->subject.m;
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    message_status *status = &peer_compose(p, MESSAGE_STATUS)->u.status;
    status->subject = body->subject;
    status->subject.stage = p->stage;
    status->nonce = body->nonce;
    if (h->used && !h->cancelled) {
        status->has_x = h->x != 0;
        status->has_y = h->forward == WORK_DONE && (h->slot != NO_SLOT || h->counted);
        status->has_dy = h->dy != 0;
        status->has_dx = h->backward == WORK_DONE;
        status->forward_done = h->forward == WORK_DONE;
        status->backward_done = h->backward == WORK_DONE;
        status->forwarding = h->forward == WORK_QUEUED || h->forward == WORK_RUNNING || send_pending(&h->on);
        status->working = status->forwarding || h->backward == WORK_QUEUED || h->backward == WORK_RUNNING || h->weight == WORK_QUEUED ||
                          h->weight == WORK_RUNNING || send_pending(&h->back);
        status->counted = h->counted;
        status->rev = h->rev;
        status->eta_ns = inflight_eta(p, PHASE_BACKWARD);
    }
    peer_send_member(p, msg->sender, 0);
}

// True if the message under way already says the same.
static bool says_the_same(const peer *p, const inflight_microbatch *h, uint8_t phase, uint16_t until, const message_path *path) {
    bool forward = phase == PHASE_FORWARD;
    for (uint16_t s = 0; s < (forward ? p->run.stages : p->stage); s++)
        if (s != p->stage && path->member[s] != h->path.member[s]) return false;  // this peer is on the path anyway
    return forward ? until == h->forward_to : until >= h->back_to;
}

void inflight_resend(peer *p, uint32_t m, uint8_t phase, uint16_t until, const message_path *path) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    tensor_sending *s = phase == PHASE_FORWARD ? &h->on : &h->back;
    if (says_the_same(p, h, phase, until, path) && send_is_under_way(p, s, s->to)) return;
    take_path(h, path);
    h->touched_ns = p->now;
    if (phase == PHASE_FORWARD) {
        h->forward_to = until;
        if (until < p->run.stages && inflight_waits_for_slot(h)) h->repair = true;  // the forward pass was complete, and others wait for this recomputation
        h->on = (tensor_sending){0};
        if (h->forward == WORK_DONE) send_forward(p, m);
    } else {
        h->back_to = until;
        h->repair = true;  // the receiver may still be waiting for its activation
        h->back = (tensor_sending){0};
        if (h->backward == WORK_DONE) send_backward(p, m);
    }
}

void on_resume(peer *p, const message *msg) {
    const message_resume *body = &msg->u.resume;
    uint32_t m = body->subject.m;
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    bool forward = body->phase == PHASE_FORWARD;
    bool holds = h->used && !h->cancelled && body->subject.stage == p->stage && (forward ? h->forward != WORK_NONE : h->dy != 0 || h->dx != 0);
    if (holds) {
        inflight_resend(p, m, body->phase, body->until, &body->path);
        return;
    }
    peer_compose(p, MESSAGE_DENY_RESUME)->u.deny_resume.subject = body->subject;
    peer_send_member(p, msg->sender, 0);
}

// A stash that has waited long reports to its owner, which may have cancelled it: CANCEL can be
// lost.
void inflight_tick(peer *p) {
    if (p->stage == 0 || p->me == 0 || peer_breaks(p, PEER_MUTANT_KEEPS_LOSERS)) return;
    EACH_INFLIGHT(p, m) {
        inflight_microbatch *h = &p->microbatch->inflight[m];
        if (h->counted) continue;
        if (p->now >= h->touched_ns + TIMING_TRACE_NS) {
            uint8_t phase = h->backward == WORK_DONE ? TRACE_BACKWARD_DONE
                          : h->dy != 0               ? TRACE_RETURNING
                          : h->forward == WORK_DONE  ? TRACE_FORWARD_DONE
                                                     : TRACE_ACCEPTED;
            inflight_trace(p, m, phase, inflight_eta(p, PHASE_BACKWARD), h->on.to);
        }
        peer_wake_at(p, h->touched_ns + TIMING_TRACE_NS);
    }
}
