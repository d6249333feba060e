// Repair of a path by its owner (docs/protocol.md, Repair). The owner PROBEs the members of the
// path, waits one silence limit, and acts on what they hold:
//   - a forward that no member carries on is resent by the last member that has it (R1);
//   - a gap (stages without a usable member) is filled from the left: y goes through replacements,
//     and the last waits for dy (R2);
//   - a gradient that no member carries on is resent from the right (R5).
// Every order may be given twice without harm, so a wrong suspicion costs work and never the
// result.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

static bool committed_and_live(const peer *p, const owned_stage *st) {
    if (peer_breaks(p, PEER_MUTANT_MOVES_ON_SUSPICION) && !member_answers(p, st->member)) return false;
    return (st->committed || st->counted) && member_live(p, st->member);
}

static bool self_sends_forward(const peer *p, uint32_t m) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    return h->forward != WORK_DONE || send_pending(&h->on);
}

// True if the activation for a replacement is under way: the last member on the left that has it
// reports that it is sending. On slow links that takes long. The time is limited, because that
// member may be sending to a replacement that was chosen earlier.
static bool replacement_is_fed(const peer *p, const owned_microbatch *o, uint16_t s) {
    if (p->now >= o->stage[s].chosen_ns + TIMING_FILL_MOST_NS) return false;
    while (s-- > 1) {
        const owned_stage *left = &o->stage[s];
        if (!member_live(p, left->member) || !member_answers(p, left->member) || !left->answered) return false;
        if (left->has_x || left->has_y) return left->forwarding;
        if (left->chosen_ns == 0) return false;
    }
    return self_sends_forward(p, (uint32_t)(o - p->microbatch->owned));
}

// Rule R6. Members that report progress get no new orders, for a limited time: what they wait for
// may never come.
static bool reports_progress(const peer *p, const owned_microbatch *o) { return p->now < o->progress_since_ns + TIMING_FILL_MOST_NS; }

// True if the holder of stage s can continue: it has the input or the output, or it is committed
// and must not be replaced.
static bool can_continue(const peer *p, const owned_microbatch *o, uint16_t s) {
    const owned_stage *st = &o->stage[s];
    if (s == 0) return true;
    if (o->phase == OWNED_FORWARD && st->member == 0) return true;  // only its TRACE is missing
    if (committed_and_live(p, st)) return true;
    bool chosen = st->chosen_ns != 0 && member_answers(p, st->member);
    if (chosen && (p->now < st->chosen_ns + TIMING_FILL_NS || replacement_is_fed(p, o, s))) return true;
    bool has_it = st->has_y || st->has_x || peer_breaks(p, PEER_MUTANT_RECORDS_ARE_TRUTH);
    return member_live(p, st->member) && st->answered && has_it;
}

static void forget_holder(owned_stage *st) {
    // one more than any COMMIT the old holder may have seen
    *st = (owned_stage){.rev = st->rev + (st->committed ? 1 : 0)};
}

// ---- probing ------------------------------------------------------------------------------------

void repair_begin(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    if (o->probe_ns != 0 || o->phase == OWNED_IDLE || o->phase == OWNED_LOSS) {
        if (o->phase == OWNED_LOSS) own_touch(p, m, 0);
        return;
    }
    o->nonce++;
    bool asked = false;
    uint64_t slowest = 0;
    for (uint16_t s = 1; s < p->run.stages; s++) {
        owned_stage *st = &o->stage[s];
        st->answered = st->has_x = st->has_y = st->has_dy = st->has_dx = st->working = st->forwarding = false;
        const cluster_member *who = member_find(p, st->member);
        if (who == NULL || who->contact == NO_CONTACT || !member_answers(p, st->member)) continue;
        message_probe *probe = &peer_compose(p, MESSAGE_PROBE)->u.probe;
        probe->subject = (message_subject){.m = m, .stage = s, .owner_term = p->state.owner_term[m % p->run.slots]};
        probe->nonce = o->nonce;
        asked |= peer_send(p, who->contact, 0);
        double gap = p->cluster->contacts[who->contact].timing.gap_deviation_ns;
        if (gap > 0 && (uint64_t)gap > slowest) slowest = (uint64_t)gap;
    }
    o->probe_ns = p->now + (asked ? TIMING_PROBE_NS + 4 * slowest : 0);
    peer_wake_at(p, o->probe_ns);
}

void on_status(peer *p, const message *msg) {
    const message_status *body = &msg->u.status;
    uint32_t m = body->subject.m;
    uint16_t s = body->subject.stage;
    if (!microbatch_is_mine(p, m) || s == 0 || s >= p->run.stages) return;
    owned_microbatch *o = &p->microbatch->owned[m];
    owned_stage *st = &o->stage[s];
    if (o->probe_ns == 0 || body->nonce != o->nonce || st->member != msg->sender) return;
    st->answered = true;
    st->has_x = body->has_x;
    st->has_y = body->has_y;
    st->has_dy = body->has_dy;
    st->has_dx = body->has_dx;
    st->working = body->working;
    st->forwarding = body->forwarding;
    st->forward_done |= body->forward_done;
    st->backward_done |= body->backward_done;
    for (s = 1; s < p->run.stages; s++) {
        st = &o->stage[s];
        if (member_live(p, st->member) && member_answers(p, st->member) && !st->answered) return;
    }
    o->probe_ns = p->now;  // every member has answered
}

// ---- acting -------------------------------------------------------------------------------------

// The path in orders. While the forward pass is incomplete it has no member for the last stage:
// that is how members recognise a microbatch that may be evicted.
static void path_of(const peer *p, const owned_microbatch *o, message_path *path) {
    memset(path, 0, sizeof *path);
    path->stages = p->run.stages;
    for (uint16_t s = 0; s < p->run.stages; s++) path->member[s] = s == 0 ? p->me : o->stage[s].member;
    if (o->phase == OWNED_FORWARD && p->run.stages > 1) path->member[p->run.stages - 1] = 0;
}

static void order_resend(peer *p, uint32_t m, uint16_t stage, uint8_t phase, uint16_t until) {
    owned_microbatch *o = &p->microbatch->owned[m];
    message_path path;
    path_of(p, o, &path);
    if (stage == 0) {
        inflight_resend(p, m, phase, until, &path);
        return;
    }
    message_resume *resume = &peer_compose(p, MESSAGE_RESUME)->u.resume;
    resume->subject = (message_subject){.m = m, .stage = stage, .owner_term = p->state.owner_term[m % p->run.slots]};
    resume->owner = p->me;
    resume->phase = phase;
    resume->until = until;
    resume->path = path;
    peer_send_member(p, o->stage[stage].member, 0);
}

// Cost of the link to a member of a neighbouring stage; 0: not a neighbour.
static uint64_t link_cost(const peer *p, member_id who) {
    const peer_routing *r = p->routing;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_link *l = &r->link[i];
        if (l->member == who) return l->told != 0 && !route_is_next(p, who) ? l->told : (uint64_t)route_cost_of(l);
    }
    return 0;
}

// Free slots of a candidate, less those that repairs of this owner took since its last heartbeat.
static uint64_t free_slots(const peer *p, const cluster_member *c) {
    uint32_t used = p->cluster->contacts[c->contact].beat.queued;
    uint64_t slots = used < c->capacity ? c->capacity - used : 0;
    for (uint32_t m = 0; m < p->microbatches && slots > 0; m++) {
        const owned_stage *st = &p->microbatch->owned[m].stage[c->stage];
        slots -= microbatch_is_mine(p, m) && st->member == c->id && st->chosen_ns + TIMING_BEAT_NS > p->now;
    }
    return slots < 255 ? slots : 255;
}

// Number of this owner's repairs with a tensor under way on the link between these two members.
static uint64_t repairs_on_link(const peer *p, member_id who, uint16_t stage, member_id beside, uint16_t its_stage) {
    uint64_t crowd = 1;
    for (uint32_t m = 0; m < p->microbatches; m++) {
        if (!microbatch_is_mine(p, m)) continue;
        const owned_stage *st = &p->microbatch->owned[m].stage[stage];
        member_id other = its_stage == 0 ? p->me : p->microbatch->owned[m].stage[its_stage].member;
        crowd += st->member == who && st->chosen_ns != 0 && !st->backward_done && other == beside;
    }
    return crowd;
}

// Cost of bringing a microbatch to `c` from both sides, where link bandwidths are advertised; 0:
// they are not.
static uint64_t way_through(const peer *p, uint32_t m, const cluster_member *c) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    uint16_t before = (uint16_t)(c->stage - 1), behind = (uint16_t)((c->stage + 1) % p->run.stages);
    member_id left = before == 0 ? p->me : o->stage[before].member, right = behind == 0 ? p->me : o->stage[behind].member;
    if (!route_by_time(p)) return 0;
    uint64_t cost = route_linkstate_cost(p, left, c->id) * repairs_on_link(p, c->id, c->stage, left, before);
    return right == 0 ? cost : cost + route_linkstate_cost(p, c->id, right) * repairs_on_link(p, c->id, c->stage, right, behind);
}

// Chooses the replacement in a stage: a member at this iteration that answers, has a free slot, and
// is the cheapest. Without a free slot any will do, since a repair may evict.
static member_id replacement(const peer *p, uint32_t m, uint16_t stage, member_id instead_of, uint64_t salt) {
    member_id best = 0;
    uint64_t best_score = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *c = &p->cluster->members[i];
        if (c->stage != stage || c->id == instead_of || c->contact == NO_CONTACT) continue;
        const cluster_contact *at = &p->cluster->contacts[c->contact];
        if (at->link != LINK_UP || at->beat.ready != p->state.iteration + 1) continue;
        uint64_t slots = free_slots(p, c), way = way_through(p, m, c), far = way != 0 ? way : link_cost(p, c->id);
        uint64_t near = far > ROUTER_MAX_COST ? 1 : ROUTER_MAX_COST + 1 - far;
        uint64_t score = ((uint64_t)member_answers(p, c->id) << 63) + ((uint64_t)(slots > 0) << 62) + (near << 31) + (slots << 23) + (rng_seed(salt, c->id) >> 41);
        if (score > best_score) {
            best = c->id;
            best_score = score;
        }
    }
    return best;
}

static void tell_repair(peer *p, uint32_t m, uint16_t stage, member_id lost) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    tell t = {.kind = TELL_REPAIR, .iteration = p->state.iteration, .m = m, .stage = stage, .member = lost};
    t.phase = o->phase == OWNED_FORWARD ? REPAIR_FORWARD : o->phase == OWNED_BACKWARD ? REPAIR_BACKWARD : REPAIR_COMMITTED;
    if (p->state.has_close) t.phase = REPAIR_AGGREGATION;
    peer_tell(p, &t);
}

// Fills stages first .. last, none of which has a usable member. False: a stage has no possible
// replacement.
static bool fill_gap(peer *p, uint32_t m, uint16_t first, uint16_t last) {
    owned_microbatch *o = &p->microbatch->owned[m];
    for (uint16_t s = first; s <= last; s++)
        if (replacement(p, m, s, 0, m) == 0) return false;
    for (uint16_t s = first; s <= last; s++) {
        owned_stage *st = &o->stage[s];
        member_id lost = st->member, found = replacement(p, m, s, lost, rng_seed(m, o->nonce));
        if (found == 0) found = replacement(p, m, s, 0, m);
        tell_repair(p, m, s, lost);
        if (lost != 0 && lost != found) own_cancel(p, m, lost);
        forget_holder(st);
        if (st->rev == 1) st->rev = 2;  // chosen by the owner: its TRACE counts against others'
        st->member = found;
        st->chosen_ns = p->now;
    }
    order_resend(p, m, (uint16_t)(first - 1), PHASE_FORWARD, last);
    return true;
}

// Fills the gaps among stages 1 .. below - 1. False: one cannot be filled.
static bool fill_gaps(peer *p, uint32_t m, uint16_t below) {
    owned_microbatch *o = &p->microbatch->owned[m];
    bool any = false;
    for (uint16_t s = 1; s < below; s++) {
        if (can_continue(p, o, s)) continue;
        uint16_t last = s;
        while (last + 1 < below && !can_continue(p, o, (uint16_t)(last + 1))) last++;
        any |= fill_gap(p, m, s, last);
        s = last;
    }
    return any;
}

static bool lacks_gradient(const peer *p, uint32_t m, uint16_t s) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    if (s == 0) return h->backward == WORK_NONE && h->dy == 0;
    const owned_stage *st = &p->microbatch->owned[m].stage[s];
    return !st->counted && !st->backward_done && !st->has_dx && !st->has_dy;
}

static void repair_forward(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    uint16_t front = 0;
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (o->stage[s].member != 0 && can_continue(p, o, s)) front = s;
    fill_gaps(p, m, front);
    bool returned = o->adopted && o->stage[1].member != 0 && o->stage[1].has_dx && lacks_gradient(p, m, 0);
    if (returned) order_resend(p, m, 1, PHASE_BACKWARD, 0);  // its F and its loss may be computed meanwhile
    bool moving = front == 0 ? self_sends_forward(p, m) : o->stage[front].forwarding;
    if (moving && reports_progress(p, o)) return;
    if (front + 1 < p->run.stages) tell_repair(p, m, (uint16_t)(front + 1), o->stage[front + 1].member);
    for (uint16_t s = (uint16_t)(front + 1); s < p->run.stages; s++) o->stage[s] = (owned_stage){.rev = o->stage[s].rev};
    order_resend(p, m, front, PHASE_FORWARD, p->run.stages);
}

// True if stage s has the gradient that stage s - 1 needs.
static bool has_gradient(const peer *p, uint32_t m, uint16_t s) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    if (s == p->run.stages) return o->gradient != 0;
    return member_live(p, o->stage[s].member) && (o->stage[s].has_dx || o->stage[s].backward_done);
}

// True if the gradient is under way to the present holder, which may still accept it: a second copy
// would only fill the link.
static bool gradient_under_way(const peer *p, uint32_t m, uint16_t s) {
    const owned_microbatch *o = &p->microbatch->owned[m];
    const owned_stage *to = &o->stage[s - 1];
    if (to->chosen_ns != 0 && (!to->dy_ordered || p->now >= to->chosen_ns + TIMING_FILL_MOST_NS)) return false;
    if (!reports_progress(p, o)) return false;
    if (s < p->run.stages) return o->stage[s].answered && o->stage[s].has_dx && o->stage[s].working;
    return send_pending(&o->back) && o->back.to == o->stage[s - 1].member;
}

static void repair_backward(peer *p, uint32_t m) {
    fill_gaps(p, m, p->run.stages);
    for (uint16_t s = p->run.stages; s >= 1; s--) {
        uint16_t to = (uint16_t)(s - 1);
        if (!has_gradient(p, m, s) || !lacks_gradient(p, m, to) || gradient_under_way(p, m, s)) continue;
        uint16_t until = to;
        while (until > 0 && lacks_gradient(p, m, (uint16_t)(until - 1))) until--;
        if (s == p->run.stages) own_send_gradient(p, m);
        else order_resend(p, m, s, PHASE_BACKWARD, until);
        p->microbatch->owned[m].stage[to].dy_ordered = true;
    }
}

static bool broken(const peer *p, const owned_microbatch *o) {
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (!can_continue(p, o, s)) return true;
    return false;
}

static void repair_decide(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    o->probe_ns = 0;
    if (p->run.restarts && o->phase == OWNED_BACKWARD && !o->adopted && broken(p, o)) {
        own_restart(p, m);
        return;
    }
    if (o->backoff == 0) o->progress_since_ns = p->now;
    bool doubted = !reports_progress(p, o);
    if (o->backoff < 8) o->backoff++;
    own_touch(p, m, 0);
    if (o->phase == OWNED_FORWARD && !peer_breaks(p, PEER_MUTANT_COMPLETE_ENDS_GUARD)) repair_forward(p, m);
    if (o->phase == OWNED_BACKWARD || o->phase == OWNED_COMMITTED) repair_backward(p, m);
    if (o->phase == OWNED_COMMITTED) own_commit(p, m);
    if (doubted) o->progress_since_ns = p->now;
}

void repair_tick(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    if (o->probe_ns == 0) return;
    if (o->probe_ns <= p->now) repair_decide(p, m);
    else peer_wake_at(p, o->probe_ns);
}

// ---- triggers of a repair -----------------------------------------------------------------------

// The known holder of `stage` no longer has microbatch m: it evicted it, or answered MISSING.
void repair_holder_lost(peer *p, uint32_t m, uint16_t stage, member_id who) {
    owned_microbatch *o = &p->microbatch->owned[m];
    if (stage == 0 || stage >= p->run.stages || o->stage[stage].member != who || o->phase == OWNED_IDLE) return;
    if (peer_breaks(p, PEER_MUTANT_RECORDS_ARE_TRUTH)) return;
    if (o->stage[stage].counted || o->is_void || o->phase == OWNED_SETTLED) return;
    o->stage[stage].chosen_ns = 0;
    forget_holder(&o->stage[stage]);
    o->probe_ns = 0;
    repair_begin(p, m);
}

// A member of the stage has become ready: repairs that found no replacement there begin at once,
// whatever their backoff.
void repair_stage_filled(peer *p, uint16_t stage) {
    if (p->config.kind != MEMBER_DATA || p->me == 0 || stage >= p->run.stages) return;
    for (uint32_t m = 0; m < p->microbatches; m++) {
        owned_microbatch *o = &p->microbatch->owned[m];
        bool under_way = o->phase >= OWNED_FORWARD && o->phase <= OWNED_COMMITTED;
        if (!microbatch_is_mine(p, m) || !under_way || member_answers(p, o->stage[stage].member) || can_continue(p, o, stage)) continue;
        o->backoff = 0;
        repair_begin(p, m);
    }
}

// The owner's view of a dead member: while its EXPEL is not in the log, only what was not committed
// to it may move.
void repair_member_gone(peer *p, member_id gone, bool expelled) {
    if (p->config.kind != MEMBER_DATA || p->me == 0) return;
    for (uint32_t m = 0; m < p->microbatches; m++) {
        owned_microbatch *o = &p->microbatch->owned[m];
        if (!microbatch_is_mine(p, m) || o->phase == OWNED_IDLE || o->is_void) continue;
        for (uint16_t s = 1; s < p->run.stages; s++) {
            owned_stage *st = &o->stage[s];
            if (st->member != gone || (!expelled && (st->committed || st->counted))) continue;
            if (o->phase == OWNED_SETTLED && m >= p->run.microbatches) continue;  // held-out text needs nothing more
            if (o->phase == OWNED_SETTLED) o->phase = OWNED_COMMITTED;
            st->counted = false;
            o->probe_ns = 0;
            repair_begin(p, m);
        }
    }
}

void repair_suspect(peer *p, const message *msg) {
    const message_suspect *body = &msg->u.suspect;
    uint32_t m = body->subject.m;
    if (microbatch_is_mine(p, m) && p->microbatch->owned[m].phase != OWNED_IDLE && p->microbatch->owned[m].phase != OWNED_SETTLED) repair_begin(p, m);
}
