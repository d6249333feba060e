// Microbatches in flight at a member, and their slots: taken, waited for, evicted, freed.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

bool inflight_slot(peer *p, inflight_microbatch *h) {
    for (uint32_t s = 0; s < p->config.capacity; s++) {
        if (p->microbatch->slot_taken[s]) continue;
        p->microbatch->slot_taken[s] = 1;
        p->microbatch->slots_used++;
        h->slot = s;
        return true;
    }
    return false;
}

// True for a microbatch that was accepted and waits for a slot (rule M5).
bool inflight_waits_for_slot(const inflight_microbatch *h) { return h->used && h->slot == NO_SLOT && h->forward == WORK_QUEUED && !h->taking_back; }

// On slow links one microbatch is accepted before it has a slot. Otherwise each freed slot would
// stay empty while the next tensor is under way. (Also in tests that force forwarded transfers.)
uint32_t inflight_waiting_places(const peer *p) { return p->stage > 0 && (route_by_time(p) || p->faults.carried_percent != 0) ? 1 : 0; }

static bool slot_is_awaited(const peer *p) {
    EACH_INFLIGHT(p, m)
        if (inflight_waits_for_slot(&p->microbatch->inflight[m])) return true;
    return false;
}

// Number of repairs that wait for a slot, without `but`.
static uint32_t repairs_waiting(const peer *p, uint32_t but) {
    uint32_t count = 0;
    EACH_INFLIGHT(p, m) count += m != but && p->microbatch->inflight[m].repair && inflight_waits_for_slot(&p->microbatch->inflight[m]);
    return count;
}

// True if a slot becomes free without other peers, by a pending weight gradient, and is not taken
// by other waiting repairs.
bool inflight_slot_is_due(const peer *p, uint32_t for_m) {
    uint32_t due = p->config.capacity - p->microbatch->slots_used;
    EACH_INFLIGHT(p, m) {
        const inflight_microbatch *h = &p->microbatch->inflight[m];
        due += h->slot != NO_SLOT && (h->weight == WORK_QUEUED || h->weight == WORK_RUNNING);
    }
    return due > repairs_waiting(p, for_m);
}

// True if a newcomer would take a slot that earlier microbatches wait for. Some of those hold slots
// in other stages, so overtaking could block all.
bool inflight_passes_by(const peer *p, uint32_t m, bool repair) {
    uint32_t room = p->config.capacity - p->microbatch->slots_used;
    return repair ? room > 0 && room <= repairs_waiting(p, m) : slot_is_awaited(p);
}

uint32_t inflight_room(const peer *p) {
    uint32_t waiting = 0, places = p->config.capacity + inflight_waiting_places(p);
    EACH_INFLIGHT(p, m) waiting += inflight_waits_for_slot(&p->microbatch->inflight[m]);
    return p->microbatch->slots_used + waiting < places ? places - p->microbatch->slots_used - waiting : 0;
}

void inflight_slot_free(peer *p, inflight_microbatch *h) {
    if (h->slot == NO_SLOT) return;
    p->microbatch->slot_taken[h->slot] = 0;
    p->microbatch->slots_used--;
    h->slot = NO_SLOT;
    // senders count their credit down; only CAN TAKE or the next heartbeat restores it
    credit_update(p, true);
}

inflight_microbatch *inflight_open(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    uint32_t serial = h->serial, refused = h->refused_rev;
    memset(h, 0, sizeof *h);
    h->used = true;
    bitset_add(p->microbatch->inflight_set, m);
    h->serial = serial;
    h->refused_rev = refused;
    h->owner_term = p->state.owner_term[m % p->run.slots];
    h->owner = p->state.owner[m % p->run.slots];
    h->slot = NO_SLOT;
    h->path.stages = p->run.stages;
    h->touched_ns = p->now;
    return h;
}

void inflight_free(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (!h->used) return;
    bool waited = inflight_waits_for_slot(h);
    if (m >= p->run.microbatches && h->forward == WORK_DONE) {  // held-out text needs no backward pass
        p->microbatch->useful_ns += h->spent_ns;
    } else {
        p->microbatch->wasted_ns += h->spent_ns;  // spent since it was counted
        p->microbatch->wasted += h->spent_ns > 0;
    }
    peer_release(p, &h->x);
    peer_release(p, &h->y);
    peer_release(p, &h->dy);
    peer_release(p, &h->dx);
    h->used = false;
    bitset_remove(p->microbatch->inflight_set, m);
    h->serial++;
    inflight_slot_free(p, h);
    if (waited) credit_update(p, true);
}

void inflight_free_all(peer *p) {
    for (uint32_t m = 0; m < p->microbatches; m++) {
        inflight_free(p, m);
        p->microbatch->inflight[m].refused_rev = 0;
    }
    memset(&p->microbatch->k, 0, sizeof p->microbatch->k);
    p->microbatch->counted = 0;
}

void inflight_uncount(peer *p, uint32_t m) {
    bitset_remove(p->microbatch->k.words, m);
    p->microbatch->counted--;
    p->microbatch->inflight[m].counted = false;
    inflight_free(p, m);
}

void inflight_drop(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->forward == WORK_RUNNING || h->backward == WORK_RUNNING) h->cancelled = true;
    else inflight_free(p, m);
}

message_subject inflight_subject(const peer *p, uint32_t m, const inflight_microbatch *h) {
    return (message_subject){.m = m, .stage = p->stage, .owner_term = h->owner_term};
}

void inflight_deny(peer *p, member_id to, const message_subject *subject, message_phase phase, deny_reason reason) {
    message_deny *deny = &peer_compose(p, MESSAGE_DENY)->u.deny;
    *deny = (message_deny){.subject = *subject, .phase = (uint8_t)phase, .reason = (uint8_t)reason};
    peer_send_member(p, to, 0);
}

// Estimated time until a microbatch that arrives now has finished `phase`: the queue before it at
// measured cost.
uint64_t inflight_eta(const peer *p, uint8_t phase) {
    uint64_t forward = 0, backward = 0, weight = 0;
    EACH_INFLIGHT(p, m) {
        const inflight_microbatch *h = &p->microbatch->inflight[m];
        forward += h->forward == WORK_QUEUED || h->forward == WORK_RUNNING;
        backward += h->backward == WORK_QUEUED || h->backward == WORK_RUNNING;
        weight += h->weight == WORK_QUEUED || h->weight == WORK_RUNNING;
    }
    uint64_t eta = (backward + 1) * p->microbatch->backward_ns + weight * p->microbatch->weight_ns;
    return phase == PHASE_FORWARD ? eta + (forward + 1) * p->microbatch->forward_ns : eta + p->microbatch->forward_ns;
}

void inflight_trace(peer *p, uint32_t m, uint8_t phase, uint64_t eta_ns, member_id next) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (p->stage == 0) return;  // this peer is the owner
    h->touched_ns = p->now;
    message_trace *trace = &peer_compose(p, MESSAGE_TRACE)->u.trace;
    trace->subject = inflight_subject(p, m, h);
    trace->phase = phase;
    trace->eta_ns = eta_ns;
    trace->next = next;
    peer_send_member(p, h->owner, 0);
}

// True if the activation has reached the *current* owner. While the forward pass is incomplete the
// path has no member for the last stage. After a failover, delivery to the previous owner does not
// count.
static bool was_home(const peer *p, uint32_t m) {
    const message_path *path = &p->microbatch->inflight[m].path;
    return path->member[p->run.stages - 1] != 0 && path->member[0] == p->state.owner[m % p->run.slots];
}

bool inflight_gradient_came(const inflight_microbatch *h) { return h->dy != 0 || h->backward != WORK_NONE; }

// Evicts the least advanced uncommitted microbatch and gives its slot to a repair: one in its
// forward pass before one past the loss, then the larger index, never one that is more advanced
// than the repair. Its owner repairs it later.
static bool evict(peer *p, uint32_t for_m, bool for_home) {
    if (peer_breaks(p, PEER_MUTANT_NO_EVICTION)) return false;
    uint32_t victim = UINT32_MAX;
    bool victim_backward = true;
    EACH_INFLIGHT(p, m) {
        const inflight_microbatch *h = &p->microbatch->inflight[m];
        bool counts = h->weight != WORK_NONE && !(h->weight == WORK_QUEUED && peer_breaks(p, PEER_MUTANT_EVICTS_COMMITTED));
        if (h->slot == NO_SLOT || counts || h->taking_back || m == for_m) continue;
        if (h->forward == WORK_RUNNING || h->backward == WORK_RUNNING) continue;
        bool backward = was_home(p, m) && (h->repair || inflight_gradient_came(h));
        if (backward && (m < for_m || !for_home)) continue;  // more advanced than the repair
        if (victim == UINT32_MAX || (victim_backward && !backward) || (victim_backward == backward && m > victim)) {
            victim = m;
            victim_backward = backward;
        }
    }
    if (victim == UINT32_MAX) return false;
    inflight_microbatch *h = &p->microbatch->inflight[victim];
    message_subject subject = inflight_subject(p, victim, h);
    peer_compose(p, MESSAGE_EVICTED)->u.evicted.subject = subject;
    peer_send_member(p, h->owner, 0);
    if (h->forward == WORK_QUEUED) inflight_deny(p, h->upstream, &subject, PHASE_FORWARD, DENY_FULL);  // its sender would wait until its time limit
    p->microbatch->inflight[for_m].slot = h->slot;  // handed over directly: announcing it free would make every sender retry
    h->slot = NO_SLOT;
    inflight_free(p, victim);
    return true;
}

bool inflight_claim(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->slot != NO_SLOT || inflight_slot(p, h)) return true;
    bool may = (h->repair && !inflight_slot_is_due(p, m)) || peer_breaks(p, PEER_MUTANT_EVICTS_COMMITTED);
    return may && evict(p, m, was_home(p, m));
}

bool inflight_weights_pending(const peer *p) {
    EACH_INFLIGHT(p, m)
        if (p->microbatch->inflight[m].weight == WORK_QUEUED || p->microbatch->inflight[m].weight == WORK_RUNNING) return true;
    return false;
}
