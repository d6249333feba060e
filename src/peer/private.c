// Data that only one peer has: a share of the microbatches belongs to it, in each of its lives, and waits while it is gone
// (docs/protocol.md, Private data).
#include "peer/internal.h"

#include <string.h>

static uint16_t share_of(const peer *p, uint16_t slot) { return (uint16_t)(slot % p->run.shares); }

static member_id member_of(const peer *p, const share_state *s) {
    if (s->index == 0) return 0;
    if (id_equal(&s->entry.peer, &p->config.self)) return p->me;
    uint32_t at = contact_find(p, &s->entry.peer);
    const member *m = at == NO_CONTACT ? NULL : member_find(p, p->contacts[at].member);
    return m == NULL || m->kind != MEMBER_DATA ? 0 : m->id;
}

member_id private_owner(const peer *p, uint16_t slot) { return member_of(p, &p->share[share_of(p, slot)]); }

void private_share(peer *p, const log_entry *entry) {
    const log_share *body = &entry->u.share;
    if (body->share >= p->run.shares) return;
    for (uint16_t s = 0; s < p->run.shares; s++)
        if (id_equal(&p->share[s].entry.peer, &body->peer)) p->share[s] = (share_state){0};  // before the start it may choose anew
    p->share[body->share] = (share_state){.index = entry->index, .entry = *body};
}

// ---- the leader ---------------------------------------------------------------------------------------------------

static bool is_its(const share_state *s, const braid_id *who) { return s->index != 0 && id_equal(&s->entry.peer, who); }

// Before the run begins, a share is nobody's again when its peer is gone.
static bool is_free(const peer *p, const share_state *s, const braid_id *who) {
    return s->index == 0 || (!p->run_started && (is_its(s, who) || member_of(p, s) == 0));
}

static join_refusal admit_again(const share_state *s, uint16_t number, uint16_t wish, const braid_hash *text) {
    if (wish != 0 && wish != number) return REFUSAL_OTHER_SHARE;
    return hash_equal(&s->entry.text, text) ? REFUSAL_NONE : REFUSAL_OTHER_TEXT;
}

join_refusal private_admit(const peer *p, const braid_id *who, uint16_t wish, const braid_hash *text, log_entry *entry) {
    const braid_hash none = {{0}};
    memset(entry, 0, sizeof *entry);
    if (hash_equal(text, &none)) return REFUSAL_NO_TEXT;
    for (uint16_t s = 0; s < p->run.shares && p->run_started; s++)
        if (is_its(&p->share[s], who)) return admit_again(&p->share[s], (uint16_t)(s + 1), wish, text);
    for (uint16_t s = 0; s < p->run.shares; s++) {
        if ((wish != 0 && wish != s + 1) || !is_free(p, &p->share[s], who)) continue;
        entry->kind = LOG_SHARE;
        entry->u.share = (log_share){.share = s, .peer = *who, .text = *text};
        return REFUSAL_NONE;
    }
    return wish != 0 && wish <= p->run.shares ? REFUSAL_TAKEN : REFUSAL_NO_SHARE;
}

bool private_gathered(const peer *p) {
    for (uint16_t s = 0; s < p->run.shares; s++)
        if (member_of(p, &p->share[s]) == 0) return false;
    return true;
}

// ---- everybody: who is awaited ------------------------------------------------------------------------------------

static void tell_share(peer *p, uint16_t s, tell_kind kind) {
    tell t = {.kind = kind, .iteration = p->iteration, .id = p->share[s].entry.peer};
    if (kind == TELL_BACK) t.done = p->now - p->share[s].awaited_ns;
    for (uint32_t m = 0; m < p->run.microbatches; m++) t.microbatches += share_of(p, (uint16_t)(m % p->run.slots)) == s;
    peer_tell(p, &t);
}

void private_tick(peer *p) {
    if (!p->run_started || p->me == 0) return;
    for (uint16_t s = 0; s < p->run.shares; s++) {
        share_state *its = &p->share[s];
        bool gone = its->index != 0 && member_of(p, its) == 0;
        if (gone == its->awaited) continue;
        its->awaited = gone;
        if (gone) its->awaited_ns = p->now;
        tell_share(p, s, gone ? TELL_AWAITED : TELL_BACK);
    }
}
