// Failover of an owner (docs/protocol.md, Owner failover). The leader gives its slots to another
// data peer. The new owner takes an inventory (SURVEY, HOLDINGS) before it gives its first order.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

// ---- every member: OWNER is a fence -------------------------------------------------------------

// Rule O1. Tensors that a member holds do not depend on the owner, so they stay. Tensors under way
// to the older owner wait for orders. So do gradients, because the older owner may have repaired
// their path.
static void inflight_changes_owner(peer *p, uint16_t slot, member_id older) {
    for (uint32_t m = slot; m < p->microbatches; m += p->run.slots) {
        inflight_microbatch *h = &p->microbatch->inflight[m];
        h->refused_rev = 0;  // revisions are compared within an ownership epoch
        if (!h->used) continue;
        h->owner = p->state.owner[slot];
        h->owner_term = p->state.owner_term[slot];
        h->touched_ns = p->now;
        if (p->stage + 1 == p->run.stages && (h->on.to == older || h->on.state == SEND_LOST)) h->on = (tensor_sending){0};
        h->back = (tensor_sending){0};
    }
}

static void tell_failover(peer *p, uint16_t slot, member_id older) {
    const cluster_member *m = member_find(p, p->state.owner[slot]);
    if (m == NULL) return;
    tell t = {.kind = TELL_TAKEOVER, .iteration = p->state.iteration, .member = m->id, .gone = older};
    t.id = m->contact == NO_CONTACT ? p->config.self : p->cluster->contacts[m->contact].id;
    t.microbatches = (p->run.microbatches + p->run.slots - 1 - slot) / p->run.slots;
    peer_tell(p, &t);
}

void failover_owner(peer *p, uint16_t slot, member_id older) {
    inflight_changes_owner(p, slot, older);
    if (p->state.started && p->me != 0 && p->run.shares == 0) tell_failover(p, slot, older);  // not of the past that a joiner reads
    if (!p->state.started || p->config.kind != MEMBER_DATA || p->state.owner[slot] != p->me || p->me == 0) return;
    failover_state *t = &p->microbatch->failover;
    t->open = true;
    t->slot[slot] = true;
    t->term = p->state.owner_term[slot];
    t->answers = 0;
    t->asked_ns = 0;
}

void failover_drop(peer *p) {
    p->microbatch->failover.open = false;
    p->microbatch->starved_ns = 0;
    memset(p->microbatch->failover.slot, 0, sizeof p->microbatch->failover.slot);
}

void peer_holdings(const peer *p, member_id owner, message_holdings *out) {
    memset(out, 0, sizeof *out);
    for (uint32_t m = 0; m < p->microbatches && p->stage > 0; m++) {
        const inflight_microbatch *h = &p->microbatch->inflight[m];
        if (!h->used || h->cancelled || (owner != 0 && p->state.owner[microbatch_slot(p, m)] != owner)) continue;
        bitset_add(out->held.words, m);
        if (h->forward == WORK_DONE) bitset_add(out->forward.words, m);
        if (h->dy != 0 || h->backward != WORK_NONE) bitset_add(out->returning.words, m);
        if (h->backward == WORK_DONE) bitset_add(out->backward.words, m);
        if (h->weight != WORK_NONE || h->counted) bitset_add(out->committed.words, m);
    }
}

void on_survey(peer *p, const message *msg) {
    uint64_t term = msg->u.survey.owner_term;
    bool asks_rightly = false;
    for (uint16_t s = 0; s < p->run.slots; s++) asks_rightly |= p->state.owner[s] == msg->sender && p->state.owner_term[s] == term;
    if (!asks_rightly || msg->iteration != p->state.iteration) {
        log_compare(p, msg->log_position);  // its OWNER entry must be applied first: it is the fencing token
        return;
    }
    message_holdings *body = &peer_compose(p, MESSAGE_HOLDINGS)->u.holdings;
    peer_holdings(p, msg->sender, body);
    body->owner_term = term;
    peer_send_member(p, msg->sender, 0);
}

// ---- the new owner ------------------------------------------------------------------------------

// The progress of the stage's work at its holder; larger is further. A gradient that a repair
// delivered before the activation does not count.
static uint32_t progress_of(const owned_stage *st) {
    if (st->member == 0) return 0;
    return st->committed ? 5 : st->backward_done ? 4 : st->forward_done ? 2 + st->returning : 1;
}

// Has the revision of a repair's choice, so that no TRACE of a slower copy replaces it.
static owned_stage told_of(const message_holdings *body, uint32_t m, member_id who) {
    return (owned_stage){.member = who, .rev = 2, .forward_done = bitset_has(body->forward.words, m), .returning = bitset_has(body->returning.words, m),
                         .backward_done = bitset_has(body->backward.words, m), .committed = bitset_has(body->committed.words, m)};
}

// Of two holders in a stage the more advanced one keeps it; a committed one always does.
static void merge(peer *p, uint32_t m, uint16_t stage, const owned_stage *told) {
    owned_stage *st = &p->microbatch->owned[m].stage[stage];
    bool better = !member_live(p, st->member) || st->member == told->member || progress_of(told) > progress_of(st);
    if (peer_breaks(p, PEER_MUTANT_FORGETS_COMMITTED) && told->committed) return;
    member_id loser = better ? st->member : told->member;
    if (loser != told->member || !better) own_cancel(p, m, loser);
    if (better) *st = *told;
}

static bool has_answered(const failover_state *t, member_id who) {
    for (uint32_t i = 0; i < t->answers; i++)
        if (t->answer[i] == who) return true;
    return false;
}

// Members admitted later have applied OWNER before they could hold anything.
static bool must_answer(const peer *p, const cluster_member *m) { return m->contact != NO_CONTACT && !member_is_standby(m) && m->id < p->microbatch->failover.term && !has_answered(&p->microbatch->failover, m->id); }

void on_holdings(peer *p, const message *msg) {
    const message_holdings *body = &msg->u.holdings;
    failover_state *t = &p->microbatch->failover;
    const cluster_member *from = member_find(p, msg->sender);
    if (!t->open || body->owner_term != t->term || msg->iteration != p->state.iteration || !must_answer(p, from)) return;
    t->answer[t->answers++] = msg->sender;
    for (uint32_t m = 0; m < p->microbatches && from->stage > 0; m++) {
        if (!microbatch_is_mine(p, m) || !failover_pending(p, m) || !bitset_has(body->held.words, m)) continue;
        const owned_stage told = told_of(body, m, from->id);
        merge(p, m, from->stage, &told);
    }
}

static bool all_have_answered(const peer *p) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (must_answer(p, &p->cluster->members[i])) return false;
    return true;
}

// The inventory is complete: each stage of each microbatch has at most one holder, which obeys only
// this owner.
static void adopt(peer *p, uint32_t m) {
    owned_microbatch *o = &p->microbatch->owned[m];
    for (uint16_t s = 1; s < p->run.stages; s++) {
        owned_stage *st = &o->stage[s];
        if (!member_live(p, st->member)) *st = (owned_stage){0};
        if (st->rev == 0) st->rev = 1;
        o->adopted |= st->member != 0;
    }
    if (!p->state.has_close || bitset_has(p->state.close.counted.words, m)) return;
    own_cancel_path(p, m);  // not needed any more: free it before FINAL
    o->adopted = false;
}

static void ask(peer *p) {
    failover_state *t = &p->microbatch->failover;
    t->asked_ns = p->now;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!must_answer(p, m)) continue;
        peer_compose(p, MESSAGE_SURVEY)->u.survey.owner_term = t->term;
        peer_send(p, m->contact, 0);
    }
}

void failover_tick(peer *p) {
    failover_state *t = &p->microbatch->failover;
    if (!t->open || p->me == 0) return;
    if (!all_have_answered(p) && !(peer_breaks(p, PEER_MUTANT_COMMITS_UNANSWERED) && t->answers > 0)) {
        if (t->asked_ns == 0 || p->now >= t->asked_ns + TIMING_REPEAT_NS) ask(p);
        peer_wake_at(p, t->asked_ns + TIMING_REPEAT_NS);
        return;
    }
    for (uint32_t m = 0; m < p->microbatches; m++)
        if (microbatch_is_mine(p, m) && failover_pending(p, m)) adopt(p, m);
    failover_drop(p);
}

// ---- the leader ---------------------------------------------------------------------------------

static bool may_inherit(const peer *p, const cluster_member *m) {
    if (m->kind != MEMBER_DATA || m->expelling) return false;
    return m->contact == NO_CONTACT || (!p->cluster->contacts[m->contact].departing && member_answers(p, m->id));
}

// True if another data peer can take over the slots. Slots of private data need no successor: they
// wait for their peer.
bool failover_has_successor(const peer *p, const cluster_member *of) {
    if (p->run.shares > 0) return true;
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (&p->cluster->members[i] != of && may_inherit(p, &p->cluster->members[i])) return true;
    return of->kind != MEMBER_DATA;
}

// The new owner: a data peer with the state before one that fetches it, then the one with the
// fewest slots.
static member_id successor(const peer *p, const member_id *owner) {
    member_id best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!may_inherit(p, m)) continue;
        bool ready = m->contact == NO_CONTACT ? p->ready : p->cluster->contacts[m->contact].beat.ready != 0;
        uint64_t owns_slots = ready ? 0 : WIRE_MAX_SLOTS;
        for (uint16_t s = 0; s < p->run.slots; s++) owns_slots += owner[s] == m->id;
        if (owns_slots >= least) continue;
        least = owns_slots;
        best = m->id;
    }
    return best;
}

// Gives slots of removed owners to others. Waits while entries are being appended, since they may
// change the members.
void failover_lead(peer *p) {
    if (!p->state.started || p->raft.last != p->state.position) return;
    member_id owner[WIRE_MAX_SLOTS];
    memcpy(owner, p->state.owner, sizeof owner);
    for (uint16_t s = 0; s < p->run.slots; s++) {
        if (member_live(p, owner[s])) continue;
        log_entry entry = {.kind = LOG_OWNER};
        bool any_peer = p->run.shares == 0 || peer_breaks(p, PEER_MUTANT_LENDS_SHARES);
        entry.u.owner = (log_owner){.slot = s, .member = any_peer ? successor(p, owner) : private_owner(p, s)};
        if (entry.u.owner.member == 0) continue;
        if (!log_append(p, &entry)) return;
        owner[s] = entry.u.owner.member;
    }
}
