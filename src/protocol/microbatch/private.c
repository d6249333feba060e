// Local-data training (docs/protocol.md, Private data). A data shard and its share of the
// microbatches belong to one peer, in all of its incarnations, and wait while it is away.
#include "protocol/microbatch/microbatch.h"

#include <string.h>

static uint16_t share_of(const peer *p, uint16_t slot) { return (uint16_t)(slot % p->run.shares); }
static uint16_t share_of_microbatch(const peer *p, uint32_t m) { return share_of(p, (uint16_t)(m % p->run.slots)); }

static member_id member_of(const peer *p, const run_share *s) {
    if (s->index == 0) return 0;
    if (id_equal(&s->entry.peer, &p->config.self)) return p->me;
    uint32_t at = contact_find(p, &s->entry.peer);
    const cluster_member *m = at == NO_CONTACT ? NULL : member_find(p, p->cluster->contacts[at].member);
    return m == NULL || m->kind != MEMBER_DATA ? 0 : m->id;
}

// True if the member has the newest state, by its heartbeats or, for this peer, by its own state.
static bool has_newest_state(const peer *p, member_id who) {
    const cluster_member *m = member_find(p, who);
    if (m == NULL) return false;
    return m->contact == NO_CONTACT ? p->ready : p->cluster->contacts[m->contact].beat.ready == p->state.iteration + 1;
}

// Elastic: a peer that returns gets its slots when it has the state, and not in an iteration that
// goes on without it.
member_id private_owner(const peer *p, uint16_t slot) {
    uint16_t share = share_of(p, slot);
    member_id who = member_of(p, &p->state.share[share]);
    bool in_time = !private_elastic(p) || !p->state.started || (!p->microbatch->share[share].left_out && has_newest_state(p, who));
    return in_time ? who : 0;
}

void private_share(peer *p, uint16_t share, uint16_t freed) {
    if (freed != RUN_STATE_NO_SHARE) p->microbatch->share[freed] = (share_state){0};
    p->microbatch->share[share] = (share_state){0};
}

// ---- the leader ---------------------------------------------------------------------------------

static bool is_its(const run_share *s, const braid_id *who) { return s->index != 0 && id_equal(&s->entry.peer, who); }

// True if the share has no peer. Before the start a share is free again when its peer is gone.
static bool is_free(const peer *p, const run_share *s, const braid_id *who) {
    return s->index == 0 || (!p->state.started && (is_its(s, who) || member_of(p, s) == 0));
}

static join_refusal admit_again(const run_share *s, uint16_t number, uint16_t wish, const braid_hash *text) {
    if (wish != 0 && wish != number) return REFUSAL_OTHER_SHARE;
    return hash_equal(&s->entry.text, text) ? REFUSAL_NONE : REFUSAL_OTHER_TEXT;
}

join_refusal private_admit(const peer *p, const braid_id *who, uint16_t wish, const braid_hash *text, log_entry *entry) {
    const braid_hash none = {{0}};
    memset(entry, 0, sizeof *entry);
    if (hash_equal(text, &none)) return REFUSAL_NO_TEXT;
    for (uint16_t s = 0; s < p->run.shares && p->state.started; s++)
        if (is_its(&p->state.share[s], who)) return admit_again(&p->state.share[s], (uint16_t)(s + 1), wish, text);
    for (uint16_t s = 0; s < p->run.shares; s++) {
        if ((wish != 0 && wish != s + 1) || !is_free(p, &p->state.share[s], who)) continue;
        entry->kind = LOG_SHARE;
        entry->u.share = (log_share){.share = s, .peer = *who, .text = *text};
        return REFUSAL_NONE;
    }
    return wish != 0 && wish <= p->run.shares ? REFUSAL_TAKEN : REFUSAL_NO_SHARE;
}

bool private_gathered(const peer *p) {
    for (uint16_t s = 0; s < p->run.shares; s++)
        if (member_of(p, &p->state.share[s]) == 0) return false;
    return true;
}

// ---- the leader, elastic: how long an iteration waits -------------------------------------------

bool private_left_out(const peer *p, uint32_t m) { return private_elastic(p) && p->microbatch->share[share_of_microbatch(p, m)].left_out; }

void private_lead_begin(peer *p) {
    for (uint16_t s = 0; s < p->run.shares; s++) {
        p->microbatch->share[s].left_out = false;
        p->microbatch->share[s].missed_ns = 0;
    }
}

// True if the owner had the state of the last iteration, so that it is ready as soon as other
// members are (rule P11).
static bool keeps_up(const peer *p, member_id who) {
    const cluster_member *m = member_find(p, who);
    if (m == NULL) return false;
    if (m->contact != NO_CONTACT) return p->cluster->contacts[m->contact].beat.ready >= p->state.iteration;
    return p->newest_block != UINT64_MAX && p->oldest_block + 1 >= p->state.iteration;
}

// A peer that is back with its state is waited for again.
void private_next_iteration(peer *p) {
    for (uint16_t s = 0; s < p->run.shares; s++) {
        if (!p->microbatch->share[s].left_out || !keeps_up(p, member_of(p, &p->state.share[s]))) continue;
        p->microbatch->share[s].left_out = false;
        p->microbatch->share[s].missed_ns = p->now;
    }
}

void private_lead(peer *p) {
    for (uint16_t s = 0; s < p->run.shares && private_elastic(p); s++) {
        share_state *its = &p->microbatch->share[s];
        if (member_live(p, p->state.owner[s])) {
            its->missed_ns = 0;
            continue;
        }
        if (its->missed_ns == 0) its->missed_ns = p->now;
        uint64_t until = its->missed_ns + p->run.patience_ns;
        if (p->now < until) peer_wake_at(p, until);
        else its->left_out |= p->raft.last == p->state.position;  // its OWNER entries may be being appended
    }
}

// ---- members, elastic ---------------------------------------------------------------------------

// Frees uncommitted microbatches of a gone owner: other microbatches may need their slots.
void private_gone(peer *p, member_id gone) {
    if (!private_elastic(p)) return;
    EACH_INFLIGHT(p, m)
        if (p->state.owner[m % p->run.slots] == gone && !p->microbatch->inflight[m].counted && p->microbatch->inflight[m].weight == WORK_NONE) inflight_drop(p, m);
}

// Removes a microbatch that CLOSE leaves out. If it is in the sum, it is computed again and
// subtracted: parts hold exactly what CLOSE counts.
static void take_back(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->weight == WORK_RUNNING) return;
    if (!h->counted) {
        inflight_drop(p, m);
        return;
    }
    if (peer_breaks(p, PEER_MUTANT_KEEPS_LEFT_OUT)) {
        inflight_uncount(p, m);
        return;
    }
    if (!h->taking_back) core_report(p, &(core_change){.kind = CHANGE_SUM});
    h->taking_back = true;
    if (h->slot != NO_SLOT || !inflight_slot(p, h)) return;
    h->on = h->back = (tensor_sending){0};  // receivers that have not answered need it no more
    h->forward = WORK_QUEUED;
    h->backward = h->weight = WORK_NONE;
}

static void take_all_back(peer *p) {
    if (!private_elastic(p) || !p->state.has_close || p->me == 0) return;
    EACH_INFLIGHT(p, m)
        if (private_closed_out(p, m)) take_back(p, m);
}

// ---- every member: awaited peers (rule P2) ------------------------------------------------------

static void tell_share(peer *p, uint16_t s, tell_kind kind) {
    tell t = {.kind = kind, .iteration = p->state.iteration, .id = p->state.share[s].entry.peer};
    if (kind == TELL_AWAITED && p->run.elastic) t.total = p->run.patience_ns;
    if (kind == TELL_BACK) t.done = p->now - p->microbatch->share[s].awaited_ns;
    for (uint32_t m = 0; m < p->run.microbatches; m++) t.microbatches += share_of_microbatch(p, m) == s;
    peer_tell(p, &t);
}

void private_tick(peer *p) {
    take_all_back(p);
    if (!p->state.started || p->me == 0) return;
    for (uint16_t s = 0; s < p->run.shares; s++) {
        share_state *its = &p->microbatch->share[s];
        bool gone = p->state.share[s].index != 0 && member_of(p, &p->state.share[s]) == 0;
        if (gone == its->awaited) continue;
        its->awaited = gone;
        if (gone) its->awaited_ns = p->now;
        tell_share(p, s, gone ? TELL_AWAITED : TELL_BACK);
    }
}

void private_compensate_pause(peer *p, uint64_t late_ns) {
    for (uint16_t s = 0; s < p->run.shares; s++) {
        share_state *its = &p->microbatch->share[s];
        if (its->missed_ns != 0) its->missed_ns += late_ns;
        if (its->awaited) its->awaited_ns += late_ns;
    }
}

// ---- the leader, strict: the end of the run while a data shard is missing (rule P5) -------------

static bool is_given_up(peer *p, const share_state *s) {
    uint64_t until = (s->awaited_ns > p->drain_ns ? s->awaited_ns : p->drain_ns) + TIMING_AWAITED_NS;
    if (!s->awaited) return false;
    if (p->now < until) peer_wake_at(p, until);
    return p->now >= until;
}

bool private_given_up(peer *p, uint32_t m) {
    return p->run.shares > 0 && !p->run.elastic && p->drain_ns != 0 && is_given_up(p, &p->microbatch->share[share_of_microbatch(p, m)]);
}

void private_tell_unfinished(peer *p, uint32_t m) { tell_share(p, share_of_microbatch(p, m), TELL_UNFINISHED); }
