// The log: its window, replication, commitment, and the configuration of voters.
#include "raft/raft.h"

#include "base/err.h"

#include <string.h>

enum { ELECTION_ROUND_TRIPS = 10 };

log_entry *raft_at(const raft *r, uint64_t index) { return &r->entry[index % r->window]; }

const log_entry *raft_entry(const raft *r, uint64_t index) { return index > r->base && index <= r->last ? raft_at(r, index) : NULL; }

uint64_t raft_term_of(const raft *r, uint64_t index) { return index == r->base ? r->base_term : raft_at(r, index)->term; }

// ---- the voters ---------------------------------------------------------------------------------

static void adopt_voters(raft *r, const log_voters *voters, uint64_t index) {
    raft_progress old[WIRE_MAX_VOTERS];
    log_voters before = r->voters;
    memcpy(old, r->progress, sizeof old);
    r->voters = *voters;
    r->voters_index = index;
    for (uint32_t i = 0; i < voters->count; i++) {
        const log_voter *v = &voters->voter[i];
        r->progress[i] = (raft_progress){.next = r->last + 1, .probing = true, .heard_ns = r->heard_ns};
        for (uint32_t j = 0; j < before.count; j++)
            if (before.voter[j].store == v->store && id_equal(&before.voter[j].id, &v->id)) r->progress[i] = old[j];
    }
}

// The newest LOG_VOTERS of the window, or the configuration before it.
static void find_voters(raft *r) {
    for (uint64_t i = r->last; i > r->base; i--) {
        if (raft_at(r, i)->kind != LOG_VOTERS) continue;
        adopt_voters(r, &raft_at(r, i)->u.voters, i);
        return;
    }
    adopt_voters(r, &r->base_voters, 0);
}

bool raft_may_change(const raft *r) {
    return raft_in_charge(r) && r->voters_index <= r->committed;
}

static bool has_voter(const log_voters *all, const log_voter *v) {
    for (uint32_t i = 0; i < all->count; i++)
        if (all->voter[i].store == v->store && id_equal(&all->voter[i].id, &v->id)) return true;
    return false;
}

// True if one configuration has one voter more than the other, and they are otherwise the same.
static bool differs_by_one(const log_voters *a, const log_voters *b) {
    const log_voters *few = a->count < b->count ? a : b, *many = few == a ? b : a;
    uint32_t same = 0;
    for (uint32_t i = 0; i < few->count; i++) same += has_voter(many, &few->voter[i]);
    return many->count == few->count + 1 && same == few->count;
}

// A change by one voter may be undone before it is committed: any majority of the configuration
// before it shares a voter with any majority of the one after it, so neither can decide without the
// other noticing.
bool raft_may_undo(const raft *r, log_voters *voters) {
    if (!raft_in_charge(r) || r->voters_index <= r->committed) return false;
    *voters = r->base_voters;
    for (uint64_t i = r->base + 1; i <= r->committed; i++)
        if (raft_at(r, i)->kind == LOG_VOTERS) *voters = raft_at(r, i)->u.voters;
    for (uint64_t i = r->committed + 1; i < r->voters_index; i++)
        if (raft_at(r, i)->kind == LOG_VOTERS) return false;  // the change was undone already
    return differs_by_one(voters, &r->voters);
}

// ---- the window ---------------------------------------------------------------------------------

// Entries up to here are applied and replicated; their place in the window may be reused.
static uint64_t reusable_up_to(const raft *r) {
    uint64_t done = r->applied < r->committed ? r->applied : r->committed;
    if (r->stored < done) done = r->stored;
    return done > r->base ? done : r->base;
}

static bool is_full(const raft *r) { return r->last - r->base == r->window; }

// The other half of the window is for the first entries of new leaders.
static uint32_t most_open(const raft *r) { return r->window / 2; }

bool raft_may_insert(const raft *r) { return !is_full(r) || reusable_up_to(r) > r->base; }

static void make_room(raft *r) {
    if (!is_full(r)) return;
    const log_entry *oldest = raft_at(r, r->base + 1);
    if (oldest->kind == LOG_VOTERS) r->base_voters = oldest->u.voters;
    if (r->voters_index == r->base + 1) r->voters_index = 0;
    r->base_term = oldest->term;
    r->base++;
}

// An entry that the host has applied is committed, also when it came as a LOG message. So is every
// entry before it in the window.
static void advance_commit(raft *r) {
    bool here = r->applied > r->committed && r->applied > r->base && r->applied <= r->last;
    if (here && raft_term_of(r, r->applied) == r->applied_term) r->committed = r->applied;
}

static void truncate(raft *r, uint64_t last) {
    r->last = last;
    if (r->stored > last) r->stored = last;
    if (r->voters_index > last) find_voters(r);
}

// No peer counts on entries that this leader appended itself and did not see committed, because it
// never acknowledged them to another leader. Without the change it uses the configuration before
// it, and any majority of that shares a voter with any majority of the new one. Only for an odd
// number of voters: an even number needs as many as one more voter would, and more than one less.
// The last entry that stays is stored again, so that a restart truncates what followed.
void raft_undo_change(raft *r) {
    log_voters before;
    if (!raft_leads(r) || !raft_may_undo(r, &before) || before.count % 2 == 0) return;
    truncate(r, r->voters_index - 1);
    if (r->last > r->base) r->host.store(r->host.context, raft_at(r, r->last));
}

// Appends behind the last entry, or replaces a conflicting entry and all behind it.
bool raft_insert(raft *r, const log_entry *entry) {
    if (entry->index <= r->last) truncate(r, entry->index - 1);
    if (!raft_may_insert(r)) return false;
    make_room(r);
    r->last = entry->index;
    *raft_at(r, entry->index) = *entry;
    if (entry->kind == LOG_VOTERS) adopt_voters(r, &entry->u.voters, entry->index);
    advance_commit(r);
    return true;
}

void raft_install_base(raft *r, uint64_t index, uint64_t term, const log_voters *voters) {
    r->base = r->last = index;
    r->base_term = term;
    r->stored = 0;
    if (r->committed < index) r->committed = index;
    r->base_voters = *voters;
    find_voters(r);
    log_entry record = {.index = index, .term = term, .kind = LOG_BASE, .u.base.voters = *voters};
    r->host.store(r->host.context, &record);
}

bool raft_may_compact(const raft *r) { return r->committed == r->last && r->applied == r->last && r->last > r->base; }

void raft_compact(raft *r) {
    log_entry record = {.index = r->last, .term = raft_term_of(r, r->last), .kind = LOG_BASE, .u.base.voters = r->voters};
    r->host.store(r->host.context, &record);
}

void raft_reset_applied(raft *r) { r->applied = 0; }

bool raft_has_state(const raft *r) { return r->applied >= r->base; }

void raft_applied(raft *r, uint64_t index, uint64_t term) {
    if (index <= r->applied) return;
    r->applied = index;
    r->applied_term = term;
    advance_commit(r);
}

// A leader appends up to raft_room; its first entry up to raft_may_insert.
uint64_t raft_implied_commit(const raft *r, const log_entry *record) {
    uint64_t open = record->kind == LOG_LEAD ? r->window : most_open(r);
    return record->kind < LOG_BASE && record->index > open ? record->index - open : 0;
}

bool raft_restore(raft *r, const log_entry *record) {
    if (record->kind == LOG_VOTE) {
        r->term = r->term_stored = record->term;
        r->vote = record->u.vote;
        return true;
    }
    if (record->kind == LOG_BASE) {
        r->base = r->last = r->stored = r->committed = record->index;
        r->base_term = record->term;
        r->base_voters = record->u.base.voters;
        find_voters(r);
    } else if (record->index == r->base && record->term == r->base_term) {
        truncate(r, r->base);  // the entries after it were truncated (raft_undo_change), just after compaction
    } else {
        if (record->index <= r->base || record->index > r->last + 1) return false;
        uint64_t committed = raft_implied_commit(r, record);
        if (committed > r->committed) r->committed = committed;
        if (record->index > r->last) make_room(r);  // a host without the state has not applied what is dropped
        if (!raft_insert(r, record)) return false;
        r->stored = r->last;
    }
    if (record->term > r->term) r->term = record->term;
    r->term_stored = r->term;
    return true;
}

// ---- the leader ---------------------------------------------------------------------------------

uint32_t raft_room(const raft *r) {
    if (!raft_in_charge(r)) return 0;
    uint64_t open = r->last - reusable_up_to(r);
    return open >= most_open(r) ? 0 : (uint32_t)(most_open(r) - open);
}

uint64_t raft_append(raft *r, uint64_t now, log_entry *entry) {
    entry->index = r->last + 1;
    entry->term = r->term;
    r->heard_ns = now;  // for voters that are added here
    bool put = raft_insert(r, entry);
    BRAID_ASSERT(put);
    r->host.store(r->host.context, entry);
    raft_replicate(r, now, false);
    return entry->index;
}

static uint64_t may_send(const raft *r) {
    return r->voters_index > r->stored ? r->voters_index - 1 : r->last;
}

static void send_append(raft *r, uint64_t now, uint32_t i) {
    raft_progress *to = &r->progress[i];
    message_append *body = &r->host.compose(r->host.context, MESSAGE_APPEND)->u.append;
    body->to = r->voters.voter[i].store;
    body->from = r->store;
    body->term = r->term;
    body->committed = r->committed;
    body->election_timeout_ns = r->election_timeout_ns;
    body->clock_ns = now;
    if (to->next <= r->base) {
        body->has_entry = true;
        body->entry = (log_entry){.kind = LOG_BASE, .index = r->base, .term = r->base_term, .u.base.voters = r->base_voters};
        body->previous = r->base;
        body->previous_term = r->base_term;
    } else {
        body->previous = to->next - 1;
        body->previous_term = raft_term_of(r, to->next - 1);
        body->has_entry = to->next <= may_send(r);
        if (body->has_entry) body->entry = *raft_at(r, to->next);
        if (body->has_entry && !to->probing) to->next++;
    }
    to->sent_ns = now;
    r->host.send(r->host.context, &r->voters.voter[i].id);
}

static void replicate_to(raft *r, uint64_t now, uint32_t i, bool beat) {
    raft_progress *to = &r->progress[i];
    if (to->probing || to->next <= r->base) {
        if (beat && now >= to->sent_ns + r->election_timeout_ns / 4) send_append(r, now, i);
        return;
    }
    bool sent = false;
    while (to->next <= may_send(r) && to->next <= to->match + RAFT_IN_FLIGHT) {
        send_append(r, now, i);
        sent = true;
    }
    if (!sent && beat && now >= to->sent_ns + r->election_timeout_ns / 4) send_append(r, now, i);
}

void raft_replicate(raft *r, uint64_t now, bool beat) {
    uint32_t me = raft_myself(r);
    for (uint32_t i = 0; i < r->voters.count; i++) {
        if (i == me) continue;
        // a new voter, or any voter after an election, is probed at once
        if (r->progress[i].probing && r->progress[i].sent_ns == 0) send_append(r, now, i);
        else replicate_to(r, now, i, beat);
    }
}

static uint64_t matched_up_to(const raft *r, uint32_t i) {
    if (i != raft_myself(r)) return r->progress[i].match;
    return (r->mutants & RAFT_MUTANT_ACKS_UNSTORED) ? r->last : r->stored;
}

// The largest index that a majority has stored, if it is of this term; older entries are committed
// with it (Raft 5.4.2).
void raft_advance(raft *r, uint64_t now) {
    uint64_t best = r->committed;
    for (uint32_t i = 0; i < r->voters.count; i++) {
        uint64_t index = matched_up_to(r, i);
        uint32_t have = 0;
        for (uint32_t j = 0; j < r->voters.count; j++) have += matched_up_to(r, j) >= index;
        if (have >= raft_majority(r) && index > best) best = index;
    }
    if (best == r->committed || raft_term_of(r, best) != r->term) return;
    r->committed = best;
    if (r->voters_index <= r->committed && !raft_votes(r)) raft_follow(r, now, r->term, NULL);
}

// The election timeout: ten times the median round trip.
static void derive_election_timeout(raft *r) {
    uint64_t sorted[WIRE_MAX_VOTERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->voters.count; i++) {
        uint64_t trip = r->progress[i].round_trip_ns;
        if (i == raft_myself(r) || trip == 0) continue;
        uint32_t at = count++;
        for (; at > 0 && sorted[at - 1] > trip; at--) sorted[at] = sorted[at - 1];
        sorted[at] = trip;
    }
    uint64_t wish = count == 0 ? 0 : ELECTION_ROUND_TRIPS * sorted[count / 2];
    r->election_timeout_ns = wish < RAFT_ELECTION_LEAST_NS ? RAFT_ELECTION_LEAST_NS : wish > RAFT_ELECTION_MOST_NS ? RAFT_ELECTION_MOST_NS : wish;
}

static void time_round_trip(raft *r, uint64_t now, uint32_t i, uint64_t clock_ns) {
    raft_progress *to = &r->progress[i];
    if (clock_ns == 0 || clock_ns > now) return;
    uint64_t trip = now - clock_ns;
    if (trip > RAFT_ELECTION_MOST_NS) trip = RAFT_ELECTION_MOST_NS;
    to->round_trip_ns = to->round_trip_ns == 0 ? trip : to->round_trip_ns - to->round_trip_ns / 8 + trip / 8;
    derive_election_timeout(r);
}

void raft_on_appended(raft *r, uint64_t now, const braid_id *from, const message_appended *body) {
    if (body->term > r->term) {
        raft_follow(r, now, body->term, NULL);
        return;
    }
    uint32_t i = 0;
    while (i < r->voters.count && !(r->voters.voter[i].store == body->from && id_equal(&r->voters.voter[i].id, from))) i++;
    if (!raft_leads(r) || body->term != r->term || i == r->voters.count || body->match > r->last || body->hint > r->last) return;
    raft_progress *to = &r->progress[i];
    to->heard_ns = now;
    time_round_trip(r, now, i, body->clock_ns);
    if (!body->accepted) {
        if ((to->match != 0 && body->previous <= to->match) || body->previous >= to->next) return;  // answers an older APPEND
        to->next = (body->hint > to->match ? body->hint : to->match) + 1;
        if (to->next > body->previous) to->next = body->previous;  // not even the window's base matches: send that next
        to->probing = true;
        send_append(r, now, i);
        return;
    }
    if (body->match > to->match) to->match = body->match;
    if (to->next <= to->match) to->next = to->match + 1;
    to->probing = false;
    raft_advance(r, now);
    if (raft_leads(r)) replicate_to(r, now, i, false);
}

// ---- the follower -------------------------------------------------------------------------------

static void answer_append(raft *r, uint64_t clock_ns, uint64_t store) {
    message_appended *body = &r->host.compose(r->host.context, MESSAGE_APPENDED)->u.appended;
    uint64_t durable = (r->mutants & RAFT_MUTANT_ACKS_UNSTORED) ? r->last : r->stored;
    body->to = store;
    body->from = r->store;
    body->term = r->term;
    body->accepted = true;
    body->match = r->matched < durable ? r->matched : durable;
    // acknowledge only when the term is durable: after a crash an older leader could truncate what
    // this one counts on
    if (r->term_stored < r->term) body->match = 0;
    body->clock_ns = clock_ns;
    r->host.send(r->host.context, &r->leader);
}

void raft_acknowledge(raft *r) {
    if (r->role == RAFT_FOLLOWER && r->leader_known) answer_append(r, 0, r->leader_store);
}

static void reject_append(raft *r, const braid_id *to, const message_append *body, uint64_t hint) {
    message_appended *no = &r->host.compose(r->host.context, MESSAGE_APPENDED)->u.appended;
    no->to = body->from;
    no->from = r->store;
    no->term = r->term;
    no->previous = body->previous;
    no->hint = hint;
    no->clock_ns = body->clock_ns;
    r->host.send(r->host.context, to);
}

// Accepts a LOG_BASE: the leader's log begins after the last entry here.
static bool accept_base(raft *r, const log_entry *base) {
    bool has = base->index <= r->last && base->index >= r->base && raft_term_of(r, base->index) == base->term;
    if (has || base->index < r->base) return true;
    if (r->applied < base->index) return false;  // the leader will send a snapshot to the host first
    raft_install_base(r, base->index, base->term, &base->u.base.voters);
    return true;
}

// The last index before `previous` with another term than the entry there: skips a whole term at
// once (Raft 5.3).
static uint64_t skip_back(const raft *r, uint64_t previous) {
    if (previous > r->last) return r->last;
    uint64_t term = raft_term_of(r, previous), at = previous;
    while (at > r->base && at > r->committed && raft_term_of(r, at) == term) at--;
    return at;
}

static bool accept_entry(raft *r, const log_entry *entry) {
    if (entry->index <= r->base) return true;
    if (entry->index <= r->last) {
        bool keeps = (r->mutants & RAFT_MUTANT_KEEPS_TAIL) != 0;
        if (raft_at(r, entry->index)->term == entry->term || keeps) return true;
        if (entry->index <= r->committed) return false;  // no correct leader sends this
    }
    if (!raft_insert(r, entry)) return false;
    r->host.store(r->host.context, entry);
    return true;
}

// The log equals the leader's up to here.
static void note_match(raft *r, const message_append *body, uint64_t index) {
    if (index > r->matched) r->matched = index;
    if (r->base > r->matched) r->matched = r->base;
    uint64_t known = (r->mutants & RAFT_MUTANT_COMMITS_ALL) ? r->last : r->matched;
    uint64_t committed = body->committed < known ? body->committed : known;
    if (committed > r->committed) r->committed = committed;
}

void raft_on_append(raft *r, uint64_t now, const braid_id *from, const message_append *body) {
    if (body->term < r->term) {
        reject_append(r, from, body, 0);
        return;
    }
    if (raft_leads(r) && body->term == r->term) return;  // two leaders in a term: one of them breaks the protocol
    if (body->term > r->term || r->role != RAFT_FOLLOWER || !r->leader_known || !id_equal(&r->leader, from)) raft_follow(r, now, body->term, from);
    r->leader_store = body->from;
    r->heard_ns = now;
    r->leader_gone = false;
    if (body->election_timeout_ns >= RAFT_ELECTION_LEAST_NS && body->election_timeout_ns <= RAFT_ELECTION_MOST_NS) r->election_timeout_ns = body->election_timeout_ns;
    bool base = body->has_entry && body->entry.kind == LOG_BASE;
    if (base && !accept_base(r, &body->entry)) {
        reject_append(r, from, body, 0);
        return;
    }
    bool agrees = body->previous <= r->last && (body->previous < r->base || raft_term_of(r, body->previous) == body->previous_term);
    if (!agrees && !((r->mutants & RAFT_MUTANT_NO_MATCH) && body->previous <= r->last)) {
        reject_append(r, from, body, skip_back(r, body->previous));
        return;
    }
    note_match(r, body, body->previous);
    bool next = body->has_entry && !base && body->entry.index == body->previous + 1;
    if (next && accept_entry(r, &body->entry)) note_match(r, body, body->entry.index);
    answer_append(r, body->clock_ns, body->from);
}
