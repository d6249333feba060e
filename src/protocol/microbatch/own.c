// A microbatch at its owner: launch, completion of the forward pass, loss, gradient, commit,
// settled. Only the owner changes a path after the forward pass, so repairs do not race.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

void own_touch(peer *p, uint32_t m, uint64_t eta_ns) {
    owned_microbatch *o = &p->microbatch->owned[m];
    uint64_t step = p->microbatch->forward_ns + p->microbatch->backward_ns;
    o->deadline_ns = p->now + timing_owner_limit(eta_ns > step ? eta_ns : step) * (1 + o->backoff);
    peer_wake_at(p, o->deadline_ns);
}

static void owned_clear(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    owned_stage *stages = o->stage;
    peer_release(p, &o->home);
    peer_release(p, &o->gradient);
    memset(stages, 0, p->run.stages * sizeof *stages);
    *o = (owned_microbatch){.stage = stages, .nonce = o->nonce};
}

// True if the microbatch is still needed. After CLOSE only counted ones are, and those until FINAL.
static bool wanted(const peer *p, uint32_t m) {
    if (!microbatch_is_mine(p, m) || failover_pending(p, m) || p->microbatch->owned[m].phase != OWNED_IDLE || p->microbatch->inflight[m].used) return false;
    if (p->state.has_close) return !microbatch_is_eval(p, m) && bitset_has(p->state.close.counted.words, m);
    return microbatch_planned(p, m);
}

// The furthest stage that has computed it; `stages` if it was complete at an owner once and the
// last stage still has it. A last stage that lost it must compute it again, and may wait there for
// a slot that others hold.
static uint32_t front_of(const peer *p, uint32_t m) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    uint32_t front = 0;
    bool past = o->phase > OWNED_FORWARD;
    for (uint16_t s = 1; s < p->run.stages && !past; s++) {
        const owned_stage *st = &o->stage[s];
        bool done = st->committed || st->backward_done, computed = done || st->forward_done;
        if (computed) front = s;
        past = (done || (computed && st->returning)) && s + 1 == p->run.stages;
    }
    return past ? p->run.stages : front;
}

// Microbatches of a dead owner hold slots of other members, so they come first, the furthest before
// all.
static uint32_t next_to_launch(const peer *p) {
    uint32_t best = UINT32_MAX, best_front = 0;
    for (uint32_t m = 0; m < p->microbatches; m++) {
        if (!wanted(p, m)) continue;
        uint32_t front = p->microbatch->owned[m].adopted ? 1 + front_of(p, m) : 0;
        if (best != UINT32_MAX && front <= best_front) continue;
        best = m;
        best_front = front;
    }
    return best;
}

void own_restart(peer *p, uint32_t m) {
    own_cancel_path(p, m);
    owned_clear(p, m);
    inflight_free(p, m);  // the free slot launches the next one
}

// No slot became free for long: members may hold slots for microbatches that wait for a slot here.
// The least advanced one in its forward pass gives up its slot and begins again later.
static void give_up_one(peer *p, uint32_t for_m) {
    uint32_t victim = UINT32_MAX, least = front_of(p, for_m);
    for (uint32_t m = p->microbatches; m-- > 0;) {
        const inflight_microbatch *h = &p->microbatch->inflight[m];
        if (!h->used || p->microbatch->owned[m].phase != OWNED_FORWARD || h->forward == WORK_RUNNING) continue;
        uint32_t front = front_of(p, m);
        if (front > least || (front == least && (victim != UINT32_MAX || m < for_m))) continue;
        victim = m;
        least = front;
    }
    if (victim == UINT32_MAX) return;
    owned_microbatch *o = &p->microbatch->owned[victim];
    if (o->adopted) {  // its members keep what they have; committed holders stay on record
        o->phase = OWNED_IDLE;
        o->probe_ns = 0;
        inflight_free(p, victim);  // the free slot launches the next one
    } else {
        own_restart(p, victim);
    }
}

static void starve(peer *p, uint32_t m) {
    if (!p->microbatch->owned[m].adopted) return;
    if (p->microbatch->starved_ns == 0) p->microbatch->starved_ns = p->now;
    if (p->now >= p->microbatch->starved_ns + TIMING_STARVED_NS) {
        p->microbatch->starved_ns = p->now;
        give_up_one(p, m);
    }
    if (p->microbatch->starved_ns != 0) peer_wake_at(p, p->microbatch->starved_ns + TIMING_STARVED_NS);
}

static bool launch(peer *p, uint32_t m) {
    inflight_microbatch *h = inflight_open(p, m);
    if (!inflight_slot(p, h)) {
        inflight_free(p, m);
        starve(p, m);
        return false;
    }
    p->microbatch->starved_ns = 0;
    owned_microbatch *o = &p->microbatch->owned[m];
    h->forward_to = o->adopted ? 0 : p->run.stages;  // the other stages have computed with y0 already
    h->forward = WORK_QUEUED;
    h->path.member[0] = p->me;
    o->phase = OWNED_FORWARD;
    for (uint16_t s = 0; s < p->run.stages && !o->adopted; s++) o->stage[s].rev = 1;
    o->stage[0].rev = 1;
    o->stage[0].member = p->me;
    own_touch(p, m, inflight_eta(p, PHASE_FORWARD));
    if (o->adopted) repair_begin(p, m);
    return true;
}

void own_launch(peer *p) {
    if (!p->ready || p->me == 0 || p->config.kind != MEMBER_DATA || p->version != p->state.iteration || !run_state_goes_on(&p->state)) return;
    uint32_t m = next_to_launch(p);
    while (m != UINT32_MAX && launch(p, m)) m = next_to_launch(p);
}

void own_cancel(peer *p, uint32_t m, member_id who) {
    const cluster_member *at = who == p->me ? NULL : member_find(p, who);
    if (at == NULL || member_is_standby(at)) return;
    message_cancel *cancel = &peer_compose(p, MESSAGE_CANCEL)->u.cancel;
    cancel->subject = (message_subject){.m = m, .stage = at->stage, .owner_term = p->state.owner_term[m % p->run.slots]};
    peer_send_member(p, who, 0);
}

void own_cancel_path(peer *p, uint32_t m) {
    for (uint16_t s = 1; s < p->run.stages; s++) own_cancel(p, m, p->microbatch->owned[m].stage[s].member);
}

void own_free_all(peer *p) {
    if (p->config.kind != MEMBER_DATA) return;
    for (uint32_t m = 0; m < p->microbatches; m++) owned_clear(p, m);
}

// ---- completed at the owner ---------------------------------------------------------------------

static void answer_home(peer *p, const message *msg, bool accepted) {
    if (msg->sender == p->me) return;
    if (accepted) {
        message_complete *complete = &peer_compose(p, MESSAGE_COMPLETE)->u.complete;
        complete->subject = msg->u.forward.subject;
        complete->phase = PHASE_FORWARD;
        peer_send_member(p, msg->sender, 0);
    } else {
        inflight_deny(p, msg->sender, &msg->u.forward.subject, PHASE_FORWARD, DENY_STALE);
    }
}

// The path by which it arrived is its path, except for members that died since and were replaced.
static void adopt_path(peer *p, uint32_t m, const message_path *path) {
    owned_microbatch *o = &p->microbatch->owned[m];
    for (uint16_t s = 1; s < p->run.stages; s++) {
        owned_stage *st = &o->stage[s];
        member_id came = path->member[s];
        if (st->committed && member_live(p, st->member)) continue;
        if (!member_at(p, came, s)) {
            if (!member_live(p, st->member)) *st = (owned_stage){.member = member_live(p, came) ? 0 : came, .rev = st->rev};
            continue;
        }
        if (st->member != came) {
            own_cancel(p, m, st->member);
            *st = (owned_stage){.member = came, .rev = st->rev};
        }
        st->forward_done = true;
    }
}

void own_home(peer *p, const message *msg, blob_id x) {
    const message_forward *body = &msg->u.forward;
    uint32_t m = body->subject.m;
    inflight_microbatch *h = m < p->microbatches ? &p->microbatch->inflight[m] : NULL;
    bool mine = h != NULL && microbatch_is_mine(p, m) && msg->iteration == p->state.iteration && h->used;
    bool last = mine && (p->run.stages == 1 || body->path.member[p->run.stages - 1] == msg->sender);
    if (!last || body->path.stages != p->run.stages) {
        answer_home(p, msg, false);
        peer_release(p, &x);
        return;
    }
    answer_home(p, msg, true);
    owned_microbatch *o = &p->microbatch->owned[m];
    if (o->phase != OWNED_FORWARD) {  // a second copy: a member that is not on the chosen path is told to drop it
        if (o->stage[p->run.stages - 1].member != msg->sender) own_cancel(p, m, msg->sender);
        peer_release(p, &x);
        return;
    }
    adopt_path(p, m, &body->path);
    o->phase = OWNED_LOSS;
    o->home = x;
    o->backoff = 0;
    own_touch(p, m, inflight_eta(p, PHASE_BACKWARD));
}

static bool was_told_to_count(const peer *p, uint32_t m) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    bool told = p->state.has_close && bitset_has(p->state.close.counted.words, m);  // the committed holder may be dead
    for (uint16_t s = 1; s < p->run.stages; s++) told |= o->stage[s].committed || o->stage[s].counted;
    return told;
}

void own_loss_done(peer *p, const core_job *t, const job_result *r) {
    uint32_t m = t->work.m;
    blob_id out = r->out;
    inflight_microbatch *h = &p->microbatch->inflight[m];
    owned_microbatch *o = &p->microbatch->owned[m];
    if (!h->used || h->serial != t->serial || o->phase != OWNED_LOSS) {
        peer_release(p, &out);
        p->microbatch->wasted_ns += r->cost_ns;
        return;
    }
    h->spent_ns += r->cost_ns;
    peer_release(p, &o->home);
    o->loss = r->loss;
    o->tokens = r->tokens;
    // in fast mode the new owner's kernels may differ from those that gave a finite loss: then the
    // iteration is skipped
    bool counts = !microbatch_is_eval(p, m) && (r->finite || was_told_to_count(p, m));
    o->overflow |= counts && !r->finite;
    if (!counts) {
        peer_release(p, &out);
        o->is_void = !microbatch_is_eval(p, m);
        if (microbatch_is_eval(p, m)) {
            p->microbatch->useful_ns += h->spent_ns;
            h->spent_ns = 0;
        }
        own_cancel_path(p, m);
        inflight_free(p, m);
        own_settle(p, m);
        own_launch(p);
        return;
    }
    o->gradient = out;
    o->gradient_hash = r->hash64;
    o->phase = OWNED_BACKWARD;
    own_touch(p, m, 0);
    if (h->dy != 0) h->backward = WORK_QUEUED;
    if (p->run.stages > 1) {
        const owned_stage *last = &o->stage[p->run.stages - 1];
        bool past = o->adopted && member_live(p, last->member) && last->backward_done;
        if (past) repair_begin(p, m);  // complete at the previous owner
        else own_send_gradient(p, m);
        return;
    }
    h->dy = o->gradient;
    h->downstream = p->me;
    o->gradient = 0;
    h->backward = WORK_QUEUED;
}

// ---- commit -------------------------------------------------------------------------------------

static void send_commit(peer *p, uint32_t m, uint16_t s) {
    owned_microbatch *o = &p->microbatch->owned[m];
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    message_commit *commit = &peer_compose(p, MESSAGE_COMMIT)->u.commit;
    commit->subject = (message_subject){.m = m, .stage = s, .owner_term = h->owner_term};
    commit->rev = o->stage[s].rev;
    commit->tokens = o->tokens;
    commit->path.stages = p->run.stages;
    for (uint16_t i = 0; i < p->run.stages; i++) commit->path.member[i] = o->stage[i].member;
    o->stage[s].committed = true;
    peer_send_member(p, o->stage[s].member, 0);
}

// A microbatch with a finite loss counts whatever happens to its path. So a member with its input
// gradient is committed at once and need not keep its slot until all others have theirs. A
// microbatch that may begin again, or be left out, is committed as a whole.
static bool commits(const peer *p, const owned_microbatch *o) {
    return o->phase == OWNED_COMMITTED || (o->phase == OWNED_BACKWARD && !p->run.restarts && !private_elastic(p));
}

// Rule M3: sends COMMIT to every holder that has its input gradient; repeated until COUNTED.
void own_commit(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    for (uint16_t s = 0; s < p->run.stages; s++) {
        const owned_stage *st = &o->stage[s];
        if (st->member != 0 && st->backward_done && !st->counted) send_commit(p, m, s);
    }
}

// In any phase, also after a failover: a member that had a COMMIT may have begun to count, and
// learns no more than that it may.
void own_commit_again(peer *p, uint32_t m, member_id who) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (o->stage[s].member == who && o->stage[s].committed && !o->stage[s].counted) send_commit(p, m, s);
}

void own_backward_done(peer *p, uint32_t m, bool finite) {
    owned_microbatch *o = &p->microbatch->owned[m];
    if (o->phase != OWNED_BACKWARD) return;
    o->overflow |= !finite;  // too late to leave it out: other members may have counted it
    o->phase = OWNED_COMMITTED;
    o->backoff = 0;
    // the gradient has passed every stage; after a failover some may have lost theirs since
    for (uint16_t s = 0; s < p->run.stages && !o->adopted; s++) o->stage[s].backward_done |= o->stage[s].member != 0 && o->stage[s].rev == 1;
    o->stage[0].backward_done = true;
    own_touch(p, m, p->microbatch->weight_ns);
    own_commit(p, m);
}

void on_counted(peer *p, const message *msg) {
    const message_counted *body = &msg->u.counted;
    uint32_t m = body->subject.m;
    uint16_t s = body->subject.stage;
    if (!microbatch_is_mine(p, m) || s >= p->run.stages) return;
    owned_microbatch *o = &p->microbatch->owned[m];
    owned_stage *st = &o->stage[s];
    bool may_count = o->phase == OWNED_COMMITTED || o->phase == OWNED_BACKWARD;
    if (!may_count || st->member != msg->sender || body->rev != st->rev) return;
    st->counted = true;
    o->overflow |= body->overflow;
    if (o->phase == OWNED_BACKWARD) return;
    o->backoff = 0;
    own_touch(p, m, p->microbatch->weight_ns);
    for (s = 0; s < p->run.stages; s++)
        if (!o->stage[s].counted) return;
    own_settle(p, m);
}

void own_settle(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    o->phase = OWNED_SETTLED;
    o->settled_ns = p->now;
    message_settled *settled_body = &peer_compose(p, MESSAGE_SETTLED)->u.settled;
    settled_body->subject = (message_subject){.m = m, .owner_term = p->state.owner_term[m % p->run.slots]};
    settled_body->is_void = o->is_void;
    settled_body->overflow = o->overflow;
    settled_body->tokens = o->is_void ? 0 : o->tokens;
    settled_body->loss = o->is_void ? 0 : o->loss;
    settled_body->path.stages = p->run.stages;
    for (uint16_t s = 0; s < p->run.stages; s++) {
        settled_body->rev[s] = o->stage[s].rev;
        settled_body->path.member[s] = o->stage[s].member;
    }
    peer_send_leader(p);
}

// ---- TRACE --------------------------------------------------------------------------------------

// In a repair the gradient may come before the activation.
static bool reports_forward_done(const message_trace *body) { return body->phase == TRACE_FORWARD_DONE || body->phase == TRACE_BACKWARD_DONE; }

// Of two copies in a stage the more advanced one is recorded. If each replaced the other with every
// TRACE, waiting would look like progress, and a loss behind them would not be repaired.
static bool trace_further(const owned_stage *st, const message_trace *body) {
    bool forward = reports_forward_done(body), returning = body->phase == TRACE_RETURNING || body->phase == TRACE_BACKWARD_DONE;
    if (st->backward_done || st->committed) return false;
    return (forward && !st->forward_done) || (returning && !st->returning);
}

// True if the TRACE reports progress: a stash that only waits repeats its TRACE.
static bool trace_progress(owned_stage *st, const message_trace *body) {
    bool forward = reports_forward_done(body), backward = body->phase == TRACE_BACKWARD_DONE;
    bool news = st->eta_ns == 0 || (forward && !st->forward_done) || (backward && !st->backward_done) || (body->phase == TRACE_RETURNING && !st->returning);
    st->forward_done |= forward;
    st->backward_done |= backward;
    st->returning |= body->phase == TRACE_RETURNING;
    st->eta_ns = body->eta_ns + 1;
    return news;
}

// A TRACE during a probe also answers it; a member that became known after the probe began was not
// asked.
static void trace_answers(owned_stage *st, const message_trace *body) {
    if (!st->answered) st->forwarding = st->working = true;
    st->answered = true;
    st->has_x |= body->phase == TRACE_ACCEPTED;
    st->has_y |= st->forward_done || reports_forward_done(body);
    st->has_dy |= body->phase == TRACE_RETURNING;
    st->has_dx |= body->phase == TRACE_BACKWARD_DONE;
}

void on_trace(peer *p, const message *msg) {
    const message_trace *body = &msg->u.trace;
    uint32_t m = body->subject.m;
    uint16_t s = body->subject.stage;
    if (!microbatch_is_mine(p, m) || s == 0 || s >= p->run.stages || !member_at(p, msg->sender, s)) return;
    owned_microbatch *o = &p->microbatch->owned[m];
    owned_stage *st = &o->stage[s];
    bool chosen = st->member == msg->sender;
    bool waits = o->phase == OWNED_IDLE && (o->adopted || failover_pending(p, m));
    bool open = waits || o->phase == OWNED_FORWARD;
    if (!open && (!chosen || o->is_void || microbatch_is_eval(p, m) || o->phase == OWNED_IDLE)) {
        own_cancel(p, m, msg->sender);
        return;
    }
    if (failover_pending(p, m) && !chosen && member_live(p, st->member)) return;  // its HOLDINGS decides between them
    if (open && !chosen && member_live(p, st->member) && st->rev > 1) {
        own_cancel(p, m, msg->sender);  // a repair has chosen another member
        return;
    }
    if (!chosen && member_live(p, st->member) && member_answers(p, st->member) && !trace_further(st, body)) return;
    if (!chosen) *st = (owned_stage){.member = msg->sender, .rev = st->rev};
    if (s == 1 && reports_forward_done(body)) send_forward_proven(p, m, msg->sender);
    if (o->probe_ns != 0) trace_answers(st, body);
    if (trace_progress(st, body) && !waits && o->phase < OWNED_SETTLED) {
        o->backoff = 0;
        own_touch(p, m, body->eta_ns);
    }
    if (commits(p, o) && st->backward_done && !st->counted) send_commit(p, m, s);
}

// ---- time ---------------------------------------------------------------------------------------

// All other members have counted it and its gradient is here: only this peer's own work is left, so
// no probe is needed.
static bool only_own_work_left(const peer *p, uint32_t m) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (!o->stage[s].counted) return false;
    return o->phase == OWNED_COMMITTED || (o->phase == OWNED_BACKWARD && h->used && h->dy != 0);
}

static void own_one_tick(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    if (o->phase == OWNED_IDLE) return;
    if (o->phase == OWNED_SETTLED) {
        if (p->now >= o->settled_ns + TIMING_REPEAT_NS) own_settle(p, m);
        peer_wake_at(p, o->settled_ns + TIMING_REPEAT_NS);
        return;
    }
    tensor_sending *back = &o->back;
    bool pending = back->state != SEND_NONE && back->state != SEND_DONE;
    if (pending && back->deadline_ns <= p->now && !send_waits_on(p, back)) {
        back->state = SEND_NONE;
        repair_begin(p, m);
    }
    if (pending && back->state != SEND_NONE) peer_wake_at(p, back->deadline_ns);
    repair_tick(p, m);
    if (o->probe_ns == 0 && o->deadline_ns <= p->now) {
        if (o->phase == OWNED_COMMITTED) own_commit(p, m);
        if (only_own_work_left(p, m)) own_touch(p, m, inflight_eta(p, PHASE_BACKWARD));
        else repair_begin(p, m);
    }
    if (o->probe_ns == 0) peer_wake_at(p, o->deadline_ns);
}

void own_tick(peer *p) {
    if (p->config.kind != MEMBER_DATA || p->me == 0 || !p->state.started) return;
    own_launch(p);
    for (uint32_t m = 0; m < p->microbatches; m++)
        if (microbatch_is_mine(p, m)) own_one_tick(p, m);
}

// Sends the gradient of the loss to the last stage.
void own_send_gradient(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    uint16_t last = (uint16_t)(p->run.stages - 1);
    member_id to = o->stage[last].member;
    message_backward *body = &peer_compose(p, MESSAGE_BACKWARD)->u.backward;
    body->subject = (message_subject){.m = m, .stage = last, .owner_term = h->owner_term};
    body->owner = p->me;
    body->back_to = 0;
    body->repair = o->phase > OWNED_BACKWARD || o->stage[last].rev > 1 || p->state.has_close;
    if (h->backward == WORK_DONE && last > 1 && o->stage[last - 1].backward_done) body->back_to = last;
    body->hash = o->gradient_hash;
    body->path.stages = p->run.stages;
    for (uint16_t s = 0; s < p->run.stages; s++) body->path.member[s] = s == 0 ? p->me : o->stage[s].member;
    if (member_at(p, to, last) && send_tensor(p, &o->back, to, o->gradient, route_plan_back(p, m, to))) return;
    o->back.state = SEND_LOST;
    o->back.deadline_ns = p->now + TIMING_REPEAT_NS;
}
