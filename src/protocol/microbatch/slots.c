// Microbatches held at a member, and their slots: taken, waited for, evicted, freed.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

bool hold_slot(peer *p, held *h) {
    for (uint32_t s = 0; s < p->config.capacity; s++) {
        if (p->microbatch->slot_taken[s]) continue;
        p->microbatch->slot_taken[s] = 1;
        p->microbatch->slots_used++;
        h->slot = s;
        return true;
    }
    return false;
}

// It was accepted, and waits for a slot.
bool hold_waits_for_slot(const held *h) { return h->used && h->slot == NO_SLOT && h->forward == WORK_QUEUED && !h->taking_back; }

// Where lines are slow one microbatch may come before there is a slot for it: else each slot would stay empty for as long as a tensor is on
// its way. (And in tests that have tensors carried.)
uint32_t hold_waiting_places(const peer *p) { return p->stage > 0 && (route_by_time(p) || p->config.carried_percent != 0) ? 1 : 0; }

static bool slot_is_awaited(const peer *p) {
    EACH_HELD(p, m)
        if (hold_waits_for_slot(&p->microbatch->held[m])) return true;
    return false;
}

// Repairs that wait for one, other than of `but`.
static uint32_t repairs_waiting(const peer *p, uint32_t but) {
    uint32_t count = 0;
    EACH_HELD(p, m) count += m != but && p->microbatch->held[m].repair && hold_waits_for_slot(&p->microbatch->held[m]);
    return count;
}

// A weight gradient frees one, and nothing that it waits for is elsewhere; and other repairs do not wait for all of these.
bool hold_slot_is_due(const peer *p, uint32_t for_m) {
    uint32_t due = p->config.capacity - p->microbatch->slots_used;
    EACH_HELD(p, m) {
        const held *h = &p->microbatch->held[m];
        due += h->slot != NO_SLOT && (h->weight == WORK_QUEUED || h->weight == WORK_RUNNING);
    }
    return due > repairs_waiting(p, for_m);
}

// A free slot would go to one that comes, and is what microbatches wait for that came before it: some of them hold slots elsewhere.
bool hold_passes_by(const peer *p, uint32_t m, bool repair) {
    uint32_t room = p->config.capacity - p->microbatch->slots_used;
    return repair ? room > 0 && room <= repairs_waiting(p, m) : slot_is_awaited(p);
}

uint32_t hold_room(const peer *p) {
    uint32_t waiting = 0, places = p->config.capacity + hold_waiting_places(p);
    EACH_HELD(p, m) waiting += hold_waits_for_slot(&p->microbatch->held[m]);
    return p->microbatch->slots_used + waiting < places ? places - p->microbatch->slots_used - waiting : 0;
}

void hold_slot_free(peer *p, held *h) {
    if (h->slot == NO_SLOT) return;
    p->microbatch->slot_taken[h->slot] = 0;
    p->microbatch->slots_used--;
    h->slot = NO_SLOT;
    // senders count down what they know of my slots; only this, or the next heartbeat, counts up again
    can_take_update(p, true);
}

held *hold_open(peer *p, uint32_t m) {
    held *h = &p->microbatch->held[m];
    uint32_t serial = h->serial, refused = h->refused_rev;
    memset(h, 0, sizeof *h);
    h->used = true;
    bitset_add(p->microbatch->held_set, m);
    h->serial = serial;
    h->refused_rev = refused;
    h->owner_term = p->state.owner_term[m % p->run.slots];
    h->owner = p->state.owner[m % p->run.slots];
    h->slot = NO_SLOT;
    h->path.stages = p->run.stages;
    h->touched_ns = p->now;
    return h;
}

void hold_free(peer *p, uint32_t m) {
    held *h = &p->microbatch->held[m];
    if (!h->used) return;
    bool waited = hold_waits_for_slot(h);
    if (m >= p->run.microbatches && h->forward == WORK_DONE) {  // held-out text needs no more
        p->microbatch->useful_ns += h->spent_ns;
    } else {
        p->microbatch->wasted_ns += h->spent_ns;  // since it was counted, if it was
        p->microbatch->wasted += h->spent_ns > 0;
    }
    peer_release(p, &h->x);
    peer_release(p, &h->y);
    peer_release(p, &h->dy);
    peer_release(p, &h->dx);
    h->used = false;
    bitset_remove(p->microbatch->held_set, m);
    h->serial++;
    hold_slot_free(p, h);
    if (waited) can_take_update(p, true);
}

void hold_free_all(peer *p) {
    for (uint32_t m = 0; m < p->microbatches; m++) {
        hold_free(p, m);
        p->microbatch->held[m].refused_rev = 0;
    }
    memset(&p->microbatch->k, 0, sizeof p->microbatch->k);
    p->microbatch->counted = 0;
}

void hold_uncount(peer *p, uint32_t m) {
    bitset_remove(p->microbatch->k.words, m);
    p->microbatch->counted--;
    p->microbatch->held[m].counted = false;
    hold_free(p, m);
}

void hold_drop(peer *p, uint32_t m) {
    held *h = &p->microbatch->held[m];
    if (h->forward == WORK_RUNNING || h->backward == WORK_RUNNING) h->cancelled = true;
    else hold_free(p, m);
}

message_subject hold_subject(const peer *p, uint32_t m, const held *h) {
    return (message_subject){.m = m, .stage = p->stage, .owner_term = h->owner_term};
}

void hold_deny_rev(peer *p, member_id to, const message_subject *subject, uint8_t phase, uint8_t reason, uint32_t rev) {
    message_deny *deny = &peer_compose(p, MESSAGE_DENY)->u.deny;
    deny->subject = *subject;
    deny->phase = phase;
    deny->reason = reason;
    deny->rev = rev;
    peer_send_member(p, to, 0);
}

void hold_deny(peer *p, member_id to, const message_subject *subject, uint8_t phase, uint8_t reason) {
    hold_deny_rev(p, to, subject, phase, reason, 0);
}

// Time until a microbatch that comes now would be through `phase`: what is queued before it, at measured cost.
uint64_t hold_eta(const peer *p, uint8_t phase) {
    uint64_t forward = 0, backward = 0, weight = 0;
    EACH_HELD(p, m) {
        const held *h = &p->microbatch->held[m];
        forward += h->forward == WORK_QUEUED || h->forward == WORK_RUNNING;
        backward += h->backward == WORK_QUEUED || h->backward == WORK_RUNNING;
        weight += h->weight == WORK_QUEUED || h->weight == WORK_RUNNING;
    }
    uint64_t eta = (backward + 1) * p->microbatch->backward_ns + weight * p->microbatch->weight_ns;
    return phase == PHASE_FORWARD ? eta + (forward + 1) * p->microbatch->forward_ns : eta + p->microbatch->forward_ns;
}

void hold_trace(peer *p, uint32_t m, uint8_t phase, uint64_t eta_ns, member_id next) {
    held *h = &p->microbatch->held[m];
    if (p->stage == 0) return;  // the owner knows
    h->touched_ns = p->now;
    message_trace *trace = &peer_compose(p, MESSAGE_TRACE)->u.trace;
    trace->subject = hold_subject(p, m, h);
    trace->phase = phase;
    trace->eta_ns = eta_ns;
    trace->next = next;
    peer_send_member(p, h->owner, 0);
}

// A forward that was not home yet leaves the last stage open. What was home to an older owner must go home to the heir, and may wait for a slot there.
static bool was_home(const peer *p, uint32_t m) {
    const message_path *path = &p->microbatch->held[m].path;
    return path->member[p->run.stages - 1] != 0 && path->member[0] == p->state.owner[m % p->run.slots];
}

bool hold_gradient_came(const held *h) { return h->dy != 0 || h->backward != WORK_NONE; }

// Gives up the least advanced uncommitted microbatch, whose slot a repair takes: a waiting forward before one that is past
// home, then the larger index; never one that is more advanced than the repair. Its owner repairs it later.
static bool evict(peer *p, uint32_t for_m, bool for_home) {
    if (peer_breaks(p, PEER_MUTANT_NO_EVICTION)) return false;
    uint32_t victim = UINT32_MAX;
    bool victim_backward = true;
    EACH_HELD(p, m) {
        const held *h = &p->microbatch->held[m];
        bool counts = h->weight != WORK_NONE && !(h->weight == WORK_QUEUED && peer_breaks(p, PEER_MUTANT_EVICTS_COMMITTED));
        if (h->slot == NO_SLOT || counts || h->taking_back || m == for_m) continue;
        if (h->forward == WORK_RUNNING || h->backward == WORK_RUNNING) continue;
        bool backward = was_home(p, m) && (h->repair || hold_gradient_came(h));
        if (backward && (m < for_m || !for_home)) continue;  // it is more advanced than the repair
        if (victim == UINT32_MAX || (victim_backward && !backward) || (victim_backward == backward && m > victim)) {
            victim = m;
            victim_backward = backward;
        }
    }
    if (victim == UINT32_MAX) return false;
    held *h = &p->microbatch->held[victim];
    message_subject subject = hold_subject(p, victim, h);
    hold_deny(p, h->owner, &subject, PHASE_FORWARD, DENY_EVICTED);
    if (h->forward == WORK_QUEUED) hold_deny(p, h->upstream, &subject, PHASE_FORWARD, DENY_FULL);  // who sent it would wait until it is late
    p->microbatch->held[for_m].slot = h->slot;  // nobody hears of a slot that is not free
    h->slot = NO_SLOT;
    hold_free(p, victim);
    return true;
}

bool hold_claim(peer *p, uint32_t m) {
    held *h = &p->microbatch->held[m];
    if (h->slot != NO_SLOT || hold_slot(p, h)) return true;
    bool may = (h->repair && !hold_slot_is_due(p, m)) || peer_breaks(p, PEER_MUTANT_EVICTS_COMMITTED);
    return may && evict(p, m, was_home(p, m));
}

bool weights_pending(const peer *p) {
    EACH_HELD(p, m)
        if (p->microbatch->held[m].weight == WORK_QUEUED || p->microbatch->held[m].weight == WORK_RUNNING) return true;
    return false;
}
