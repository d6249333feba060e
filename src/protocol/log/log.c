// The replicated log at this peer: stored and committed with the voters (src/raft/raft.h), sent to
// all other members (LOG, GET LOG, snapshots), and applied.
#include "protocol/log/log.h"

#include <string.h>

enum {
    LOG_BATCH = 32,       // entries sent at once to a member that is behind
    STORE_ENTRIES = 512,  // a store with more entries than this, and than STORE_STATES snapshots, is compacted
    STORE_STATES = 4,
};

// ---- applying -----------------------------------------------------------------------------------

// The state is that of the log up to this entry.
static void reach(peer *p, const log_entry *entry) {
    p->state.position = entry->index;
    raft_applied(&p->raft, entry->index, entry->term);
}

static void apply(peer *p, const log_entry *entry) {
    effect *e = peer_effect(p, EFFECT_APPLIED);
    if (e != NULL) e->entry = entry;
    core_report(p, &(core_change){.kind = CHANGE_ENTRY, .entry = entry});
    reach(p, entry);
    core_report(p, &(core_change){.kind = CHANGE_ENTRY_DONE, .entry = entry});
}

// ---- the leader's side --------------------------------------------------------------------------

uint32_t log_room(const peer *p) {
    uint32_t step = PEER_MAX_APPENDS - PEER_KEPT_APPENDS, room = raft_room(&p->raft);
    if (!peer_is_leader(p) || p->log->step_appends >= step) return 0;
    return room < step - p->log->step_appends ? room : step - p->log->step_appends;
}

bool log_append(peer *p, const log_entry *entry) {
    if (log_room(p) == 0) return false;
    log_entry kept = *entry;
    raft_append(&p->raft, p->now, &kept);
    return true;
}

static void send_entry(peer *p, uint32_t contact_index, const log_entry *entry, uint64_t previous, bool reset) {
    message_log *body = &peer_compose(p, MESSAGE_LOG)->u.log;
    body->reset = reset;
    body->previous = previous;
    body->entry = *entry;
    peer_send(p, contact_index, 0);
}

static void announce(peer *p, const log_entry *entry) {
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        cluster_contact *c = &p->cluster->contacts[i];
        // members that are behind get entries in order, from log_tick
        if (!c->used || c->link != LINK_UP || c->member == 0) continue;
        send_entry(p, i, entry, entry->index - 1, false);
        c->log_sent_ns = p->now;
    }
}

bool peer_snapshot(const peer *p, uint64_t after, log_entry *out) { return run_state_next(&p->state, after, UINT64_MAX, out); }

// Sends a snapshot: the state as entries up to `until`, and a LOG_BASE that ends it. Reason for the
// LOG_BASE: the last entries may have left nothing in the state, and a voter must know how far its
// state goes. A peer that does not lead sends it to a voter that restarts while there is no leader,
// for the addresses of the other voters.
bool log_send_snapshot(peer *p, uint32_t contact_index, uint64_t until) {
    if (!raft_has_state(&p->raft)) return false;  // an incomplete snapshot would pass for a whole one
    log_entry entry;
    uint64_t previous = 0;
    while (run_state_next(&p->state, previous, until + 1, &entry)) {
        send_entry(p, contact_index, &entry, previous, previous == 0);
        previous = entry.index;
    }
    const log_voters *voters = p->raft.voters.count > 0 ? &p->raft.voters : &p->state.voters;  // a peer that never voted knows the voters of the log
    if (previous == until || voters->count == 0) return true;
    bool known = until >= p->raft.base && until <= p->raft.committed;
    entry = (log_entry){.index = until, .term = known ? raft_term_of(&p->raft, until) : 0, .kind = LOG_BASE, .u.base.voters = *voters};
    send_entry(p, contact_index, &entry, previous, previous == 0);
    return true;
}

// Sends only the voters' addresses, to a voter that restarts with its log while there is no leader.
// The entry claims to follow itself, so no peer applies it.
void log_send_addresses(peer *p, uint32_t contact_index) {
    log_entry entry = {.index = p->state.voters_index, .kind = LOG_VOTERS, .u.voters = p->state.voters};
    lead_renew_addresses(p, &entry.u.voters);
    if (p->state.voters.count > 0) send_entry(p, contact_index, &entry, entry.index, false);
}

void log_send_from(peer *p, uint32_t contact_index, uint64_t from) {
    uint64_t first = p->raft.base + 1, newest = p->state.position, previous = from - 1;
    if (from < first) {
        previous = p->raft.base;
        if (!log_send_snapshot(p, contact_index, previous)) return;
        from = first;
    }
    // a joiner gets all entries at once, so that it does not fetch an old version of the state
    uint64_t until = from == first ? newest : from + LOG_BATCH - 1;
    for (uint64_t i = from; i <= newest && i <= until; i++) {
        const log_entry *entry = raft_entry(&p->raft, i);
        if (entry == NULL) break;
        send_entry(p, contact_index, entry, previous, false);
        previous = i;
    }
    p->cluster->contacts[contact_index].log_sent_ns = p->now;
}

// An elected leader answers even before its log is complete: its voters may lack the entries that
// it needs them to store.
void on_get_log(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT || msg->u.get_log.from == 0) return;
    if (!peer_is_leader(p) && !raft_leads(&p->raft)) lead_send(p, from);
    else log_send_from(p, from, msg->u.get_log.from);
}

// Sends missing entries to members. Their messages carry their log positions.
void log_tick(peer *p) {
    if (!peer_is_leader(p)) return;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        cluster_contact *c = &p->cluster->contacts[i];
        if (!c->used || c->link != LINK_UP || c->member == 0 || !c->log_known) continue;
        if (c->log_position >= p->state.position || (c->log_sent_ns != 0 && p->now < c->log_sent_ns + TIMING_REPEAT_NS)) continue;
        log_send_from(p, i, c->log_position + 1);
    }
}

// ---- the voters' side ---------------------------------------------------------------------------

static message *compose(void *context, message_kind kind) { return peer_compose(context, kind); }

static void send_to(void *context, const braid_id *to) {
    peer *p = context;
    uint32_t at = contact_find(p, to);
    if (at != NO_CONTACT) peer_send(p, at, 0);
}

// Decides when a store that begins with a snapshot of `entries` is compacted again.
static void store_begins(peer *p, uint64_t index, uint32_t entries) {
    uint64_t most = STORE_ENTRIES > STORE_STATES * entries ? STORE_ENTRIES : STORE_STATES * entries;
    p->log->store_until = index + (p->config.store_entries != 0 ? p->config.store_entries : most);
}

static void store(void *context, const log_entry *record) {
    peer *p = context;
    effect *e = peer_effect(p, EFFECT_APPEND);
    BRAID_ASSERT(e != NULL && p->log->step_appends < PEER_MAX_APPENDS);
    log_entry *kept = &p->log->ring->append[p->log->step_appends++];
    *kept = *record;
    e->entry = kept;
    if (record->kind == LOG_BASE || record->kind == LOG_VOTERS) contacts_touch(p);  // other voters are to be dialled
    if (record->kind != LOG_BASE) return;
    log_entry each;
    kept->u.base.applied = p->state.position;
    for (uint64_t after = 0; peer_snapshot(p, after, &each); after = each.index) kept->u.base.entries++;
    store_begins(p, record->index, kept->u.base.entries);
}

// Compacts the store while no entry is uncommitted, which is most of the time: otherwise it would
// have to be stored again.
static void store_shorten(peer *p) {
    if (p->raft.last <= p->log->store_until || p->log->step_appends >= PEER_MAX_APPENDS - PEER_KEPT_APPENDS || !raft_may_compact(&p->raft)) return;
    if (p->state.position == p->raft.last) raft_compact(&p->raft);
}

void log_open(peer *p) {
    const raft_host host = {p, compose, send_to, store};
    const peer_config *c = &p->config;
    raft_init(&p->raft, &host, &c->self, c->store != 0 ? c->store : c->random_seed, rng_seed(c->random_seed, 9), p->log->ring->entry, RAFT_WINDOW, p->now);
    p->raft.low_priority = c->kind != MEMBER_DATA;  // only a data peer can write checkpoints as a leader
}

// True while a snapshot is arriving. Entries of the own store continue behind it, or replace it if
// it breaks off.
static bool begins_afresh(peer *p) {
    if (p->state.position > p->log->incoming.floor || p->now >= p->log->incoming.until_ns) return false;
    peer_wake_at(p, p->log->incoming.until_ns);
    return true;
}

static void apply_committed(peer *p) {
    const log_entry *entry;
    if (begins_afresh(p)) return;
    while (p->state.position < p->raft.committed && (entry = raft_entry(&p->raft, p->state.position + 1)) != NULL) {
        if (peer_is_leader(p)) announce(p, entry);
        p->log->incoming.as_of = 0;
        apply(p, entry);
    }
}

void log_progress(peer *p) {
    const raft *r = &p->raft;
    if (!raft_has_state(r) && !begins_afresh(p)) raft_step_down(&p->raft, p->now);  // a snapshot replaced its state and broke off
    if (p->cluster->leads && (!raft_leads(r) || r->term != p->cluster->lead.term)) core_report(p, &(core_change){.kind = CHANGE_LEADS_NO_MORE});
    apply_committed(p);
    if (!p->cluster->leads && raft_in_charge(r) && p->state.position == r->committed) core_report(p, &(core_change){.kind = CHANGE_LEADS});
    if (!raft_leads(r) && r->leader_known) lead_heard(p, &r->leader, r->term, false);
    if (raft_deadline(r) != UINT64_MAX) peer_wake_at(p, raft_deadline(r));
    store_shorten(p);
}

void log_stored(peer *p, const log_entry *entry) { raft_stored(&p->raft, p->now, entry); }

static bool hears_leader(const peer *p) {
    uint32_t at = contact_find(p, &p->cluster->lead.id);
    return at != NO_CONTACT && p->cluster->contacts[at].link == LINK_UP;
}

// A candidate that could hear the leader uses an outdated address for it: send it the present one.
void log_vote_message(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT) return;
    raft_receive(&p->raft, p->now, &p->cluster->contacts[from].id, msg);
    if (msg->kind == MESSAGE_VOTE && hears_leader(p)) lead_send(p, from);
}

// Takes addresses from a stored record, even if the entry is not committed. An address named by the
// user is kept as well.
static void recall_addresses(peer *p, const log_entry *record) {
    const log_member *m = &record->u.member;
    if (record->kind == LOG_MEMBER && contact_find(p, &m->peer) != NO_CONTACT) contact_add(p, &m->peer, m->address);
    for (uint32_t i = 0; record->kind == LOG_VOTERS && i < record->u.voters.count; i++) {
        const log_voter *v = &record->u.voters.voter[i];
        if (!id_equal(&v->id, &p->config.self)) contact_add(p, &v->id, v->address);
    }
    contacts_add_named(p);
}

static void recall_up_to(peer *p, uint64_t committed) {
    const log_entry *next;
    while (p->state.position < committed && (next = raft_entry(&p->raft, p->state.position + 1)) != NULL) {
        apply(p, next);
        p->core.effect_count = 0;  // no effects of entries before the restart
    }
    raft_applied(&p->raft, p->state.position, 0);
}

bool peer_recall(peer *p, const log_entry *record) {
    bool good = true;
    if (p->log->recall_entries > 0) {
        apply(p, record);
        if (--p->log->recall_entries == 0) p->state.position = p->log->recall_position;
    } else {
        recall_up_to(p, raft_implied_commit(&p->raft, record));
        good = raft_restore(&p->raft, record);
        if (record->kind == LOG_BASE) {
            store_begins(p, record->index, record->u.base.entries);
            p->log->recall_entries = record->u.base.entries;
            p->log->recall_position = record->u.base.applied;
            if (p->log->recall_entries == 0) p->state.position = p->log->recall_position;
        }
    }
    recall_addresses(p, record);
    raft_applied(&p->raft, p->state.position, 0);
    p->core.effect_count = 0;
    return good;
}

// ---- the others' side ---------------------------------------------------------------------------

static void ask_for_log(peer *p) {
    if (p->now < p->log->asked_ns + TIMING_ASK_LOG_NS) return;
    p->log->asked_ns = p->now;
    peer_compose(p, MESSAGE_GET_LOG)->u.get_log.from = p->state.position + 1;
    peer_send_leader(p);
}

// The leader sends its log to members only. A peer that was removed while it was unreachable learns
// of it by asking.
void log_compare(peer *p, uint64_t newest) {
    if ((p->me != 0 || (p->leaving && raft_votes(&p->raft))) && newest > p->state.position) ask_for_log(p);
}

static void start_afresh(peer *p, uint32_t from, uint64_t as_of) {
    // other members may have replaced its contributions meanwhile: it joins again as a new member
    p->cluster->rejoin_first |= p->me != 0 && p->ready && !p->standby;
    run_state_forget_members(&p->state);
    members_forget(p);
    p->log->incoming.floor = p->state.position;
    p->log->incoming.until_ns = p->now + TIMING_REPEAT_NS;
    p->log->incoming.from = from;
    p->log->incoming.as_of = as_of;
    p->state.position = 0;
    raft_reset_applied(&p->raft);
}

// Voters without a link may have moved: dial their new addresses.
static void take_addresses(peer *p, const log_voters *voters) {
    for (uint32_t i = 0; i < voters->count; i++) {
        const log_voter *v = &voters->voter[i];
        uint32_t at = contact_find(p, &v->id);
        bool stranger = at == NO_CONTACT || id_equal(&v->id, &p->config.self) || !lead_is_voter(p, &v->id);
        if (stranger || p->cluster->contacts[at].link != LINK_NONE || memcmp(p->cluster->contacts[at].address, v->address, WIRE_MAX_ADDRESS) == 0) continue;
        contact_add(p, &v->id, v->address);
        p->cluster->contacts[at].redial_ns = p->now;
        contact_touch(p, at);
    }
}

// Does this entry extend the local log? Snapshot entries may have gaps, because a snapshot omits
// entries that are obsolete at its position. They are accepted only from the sender and position of
// the snapshot being installed. Any other entry must be exactly the next one.
static bool follows(peer *p, uint32_t from, const message *msg) {
    const message_log *body = &msg->u.log;
    if (body->previous != p->state.position) return false;
    if (p->log->incoming.as_of != 0 && from == p->log->incoming.from && msg->log_position == p->log->incoming.as_of) return true;
    if (body->entry.kind == LOG_BASE || body->entry.index != p->state.position + 1) return false;
    p->log->incoming.as_of = 0;
    return true;
}

void on_log(peer *p, uint32_t from, const message *msg) {
    const message_log *body = &msg->u.log;
    if (body->entry.kind == LOG_VOTERS && body->previous == body->entry.index) {
        take_addresses(p, &body->entry.u.voters);
        return;
    }
    // the first entries of a snapshot are older than the state here, the last ones are not
    if (peer_is_leader(p) || body->entry.index == 0 || (body->reset ? msg->log_position : body->entry.index) <= p->state.position) return;
    if (body->reset) start_afresh(p, from, msg->log_position);
    // a snapshot names only live members: applied to another state it would leave removed members
    // in it
    if (!follows(p, from, msg)) {
        ask_for_log(p);
        return;
    }
    if (body->entry.kind == LOG_BASE) reach(p, &body->entry);
    else apply(p, &body->entry);
}
