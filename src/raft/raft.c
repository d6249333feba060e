// Terms, votes and roles.
#include "raft/raft.h"

#include "base/err.h"

#include <stddef.h>
#include <string.h>

enum { MOST_ATTEMPTS = 30 };

uint32_t raft_myself(const raft *r) {
    for (uint32_t i = 0; i < r->voters.count; i++)
        if (r->voters.voter[i].store == r->store && id_equal(&r->voters.voter[i].id, &r->self)) return i;
    return WIRE_MAX_VOTERS;
}

bool raft_votes(const raft *r) { return raft_myself(r) != WIRE_MAX_VOTERS; }

static uint32_t voter_at(const raft *r, const braid_id *id, uint64_t store) {
    uint32_t i = 0;
    while (i < r->voters.count && !(r->voters.voter[i].store == store && id_equal(&r->voters.voter[i].id, id))) i++;
    return i;
}

bool raft_is_voter(const raft *r, const braid_id *id, uint64_t store) { return voter_at(r, id, store) < r->voters.count; }

uint64_t raft_silence(const raft *r, uint64_t now, const braid_id *id, uint64_t store) {
    uint32_t i = voter_at(r, id, store);
    if (i == r->voters.count) return UINT64_MAX;
    return now > r->progress[i].heard_ns ? now - r->progress[i].heard_ns : 0;
}

uint32_t raft_majority(const raft *r) { return (r->voters.count + ((r->mutants & RAFT_MUTANT_HALF) ? 1u : 2u)) / 2; }

bool raft_leads(const raft *r) { return r->role == RAFT_LEADER; }

bool raft_in_charge(const raft *r) { return raft_leads(r) && r->committed >= r->base && raft_term_of(r, r->committed) == r->term; }

// ---- time ---------------------------------------------------------------------------------------

static void reset_election_timer(raft *r, uint64_t now) {
    uint64_t wait = r->election_timeout_ns + rng_below(&r->random, r->election_timeout_ns);
    r->election_deadline_ns = now + wait + (r->low_priority ? r->election_timeout_ns : 0);
}

void raft_compensate_pause(raft *r, uint64_t now, uint64_t late_ns) {
    if (raft_leads(r) && r->voters.count > 1 && late_ns >= 2 * r->election_timeout_ns) raft_follow(r, now, r->term, NULL);
    else r->election_deadline_ns += late_ns;
    r->heard_ns += late_ns;
    for (uint32_t i = 0; i < r->voters.count; i++) r->progress[i].heard_ns += late_ns;
}

void raft_peer_gone(raft *r, uint64_t now, const braid_id *who) {
    if (!r->leader_known || raft_leads(r) || !id_equal(&r->leader, who) || r->leader_gone) return;
    r->leader_gone = true;
    uint64_t soon = now + rng_below(&r->random, r->election_timeout_ns / 4) + (r->low_priority ? r->election_timeout_ns / 4 : 0);
    if (soon < r->election_deadline_ns) r->election_deadline_ns = soon;
}

// ---- roles --------------------------------------------------------------------------------------

static void store_vote(raft *r) {
    log_entry record = {.kind = LOG_VOTE, .term = r->term, .u.vote = r->vote};
    r->host.store(r->host.context, &record);
}

void raft_follow(raft *r, uint64_t now, uint64_t term, const braid_id *leader) {
    raft_undo_change(r);
    bool other = leader != NULL && (!r->leader_known || !id_equal(&r->leader, leader));
    if (term != r->term || other) r->matched = r->base < r->committed ? r->base : r->committed;
    if (term != r->term) {
        r->term = term;
        r->vote = (log_vote){0};
        r->vote_pending = false;
        store_vote(r);
    }
    if (r->role != RAFT_FOLLOWER) reset_election_timer(r, now);
    r->role = RAFT_FOLLOWER;
    r->leader_gone = r->timeout_now = false;
    r->leader_known = leader != NULL;
    if (leader != NULL) r->leader = *leader;
    if (leader != NULL) r->election_attempts = 0;
}

static void request_votes(raft *r, bool pre_vote) {
    uint32_t me = raft_myself(r);
    for (uint32_t i = 0; i < r->voters.count; i++) {
        if (i == me) continue;
        message_vote *body = &r->host.compose(r->host.context, MESSAGE_VOTE)->u.vote;
        body->to = r->voters.voter[i].store;
        body->from = r->store;
        body->term = r->term + pre_vote;
        body->pre_vote = pre_vote;
        body->hand_over = r->timeout_now;
        body->last_index = r->last;
        body->last_term = raft_term_of(r, r->last);
        r->host.send(r->host.context, &r->voters.voter[i].id);
    }
}

static void start_election(raft *r, uint64_t now);
static void become_leader(raft *r, uint64_t now);

static void count_votes(raft *r, uint64_t now) {
    uint32_t votes = 0;
    for (uint32_t i = 0; i < r->voters.count; i++) votes += r->progress[i].voted;
    if (votes < raft_majority(r)) return;
    if (r->role == RAFT_PRE_CANDIDATE) start_election(r, now);
    else become_leader(r, now);
}

static void clear_votes(raft *r) {
    for (uint32_t i = 0; i < WIRE_MAX_VOTERS; i++) r->progress[i].voted = false;
}

// PreVote (thesis 9.6): raise the term only if a majority would elect this peer. A peer that was
// partitioned does not depose the leader when it returns.
static void start_pre_vote(raft *r, uint64_t now) {
    reset_election_timer(r, now);
    r->role = RAFT_PRE_CANDIDATE;
    r->timeout_now = false;
    r->leader_known = false;
    clear_votes(r);
    r->progress[raft_myself(r)].voted = true;
    request_votes(r, true);
    count_votes(r, now);
}

// Other votes are requested when its own vote is durable (vote_stored).
static void start_election(raft *r, uint64_t now) {
    reset_election_timer(r, now);
    r->election_deadline_ns += r->election_attempts * r->election_timeout_ns;  // slow disks of the others delay their votes
    if (r->election_attempts < MOST_ATTEMPTS) r->election_attempts++;
    clear_votes(r);
    r->role = RAFT_CANDIDATE;
    r->leader_known = false;
    r->vote_pending = false;
    r->term++;
    r->vote = (log_vote){.given = true, .candidate = r->self, .store = r->store};
    store_vote(r);
}

static void become_leader(raft *r, uint64_t now) {
    if (!raft_may_insert(r)) {  // the window is full of uncommitted entries: leave the election to others
        raft_follow(r, now, r->term, NULL);
        return;
    }
    r->role = RAFT_LEADER;
    r->election_attempts = 0;
    r->leader_known = true;
    r->leader = r->self;
    r->leader_gone = r->timeout_now = false;
    for (uint32_t i = 0; i < r->voters.count; i++)
        r->progress[i] = (raft_progress){.next = r->last + 1, .probing = true, .heard_ns = now, .round_trip_ns = r->progress[i].round_trip_ns};
    log_entry entry = {.kind = LOG_LEAD, .u.lead.leader = r->self};
    raft_append(r, now, &entry);
}

void raft_init(raft *r, const raft_host *host, const braid_id *self, uint64_t store, uint64_t random_seed, log_entry *entries, uint32_t window, uint64_t now) {
    memset(r, 0, sizeof *r);
    r->host = *host;
    r->self = *self;
    r->store = store;
    r->random.state = random_seed;
    r->entry = entries;
    r->window = window;
    r->election_timeout_ns = RAFT_ELECTION_LEAST_NS;
    reset_election_timer(r, now);
}

void raft_bootstrap(raft *r, const char *address, uint64_t now) {
    log_voters only = {.count = 1, .voter = {{.id = r->self, .store = r->store}}};
    memcpy(only.voter[0].address, address, WIRE_MAX_ADDRESS);
    raft_install_base(r, 0, 1, &only);
    r->term = 1;
    r->vote = (log_vote){.given = true, .candidate = r->self, .store = r->store};
    store_vote(r);
    r->role = RAFT_LEADER;
    r->leader_known = true;
    r->leader = r->self;
    r->progress[0] = (raft_progress){.next = 1, .heard_ns = now};
}

// ---- votes --------------------------------------------------------------------------------------

static bool up_to_date(const raft *r, const message_vote *body) {
    uint64_t mine = raft_term_of(r, r->last);
    if (r->mutants & RAFT_MUTANT_ANY_LOG) return true;
    return body->last_term > mine || (body->last_term == mine && body->last_index >= r->last);
}

// Leader stickiness (thesis 4.2.3): this peer leads, or heard the leader within the election
// timeout.
static bool leader_is_alive(const raft *r, uint64_t now) {
    if (raft_leads(r)) return true;
    return r->leader_known && !r->leader_gone && now < r->heard_ns + r->election_timeout_ns;
}

static void answer_vote(raft *r, const braid_id *to, uint64_t store, bool pre_vote, uint64_t term, bool granted) {
    message_voted *voted = &r->host.compose(r->host.context, MESSAGE_VOTED)->u.voted;
    voted->to = store;
    voted->from = r->store;
    voted->term = term;
    voted->pre_vote = pre_vote;
    voted->granted = granted;
    r->host.send(r->host.context, to);
}

static bool same_candidate(const log_vote *vote, const braid_id *id, uint64_t store) {
    return vote->store == store && id_equal(&vote->candidate, id);
}

static void on_vote(raft *r, uint64_t now, const braid_id *from, const message_vote *body) {
    bool hears = leader_is_alive(r, now) && !body->hand_over;
    if (body->pre_vote) {
        bool would = body->term > r->term && !hears && up_to_date(r, body);
        answer_vote(r, from, body->from, true, would ? body->term : r->term, would);
        return;
    }
    // a removed peer, or one that cannot hear the leader, must not depose a leader that others hear
    if (hears && body->term > r->term) return;
    if (body->term > r->term) raft_follow(r, now, body->term, NULL);
    bool mine = same_candidate(&r->vote, from, body->from);
    bool grant = body->term == r->term && up_to_date(r, body) && (!r->vote.given || mine || (r->mutants & RAFT_MUTANT_VOTES_TWICE));
    if (!grant) {
        answer_vote(r, from, body->from, false, r->term, false);
        return;
    }
    reset_election_timer(r, now);
    bool durable = r->vote.given && mine && !r->vote_pending;
    if (durable) answer_vote(r, from, body->from, false, r->term, true);
    if (r->vote.given && mine) return;  // answered when it is durable
    r->vote = (log_vote){.given = true, .candidate = *from, .store = body->from};
    r->vote_pending = true;
    r->vote_pending_for = *from;
    store_vote(r);
}

static void on_voted(raft *r, uint64_t now, const braid_id *from, const message_voted *body) {
    if (!body->granted && body->term > r->term) {
        raft_follow(r, now, body->term, NULL);
        return;
    }
    bool expected = body->pre_vote ? r->role == RAFT_PRE_CANDIDATE && body->term == r->term + 1 : r->role == RAFT_CANDIDATE && body->term == r->term;
    if (!body->granted || !expected) return;
    for (uint32_t i = 0; i < r->voters.count; i++)
        if (r->voters.voter[i].store == body->from && id_equal(&r->voters.voter[i].id, from)) r->progress[i].voted = true;
    count_votes(r, now);
}

static void vote_stored(raft *r, uint64_t now, const log_entry *record) {
    if (record->term != r->term || !record->u.vote.given) return;  // a record of the term alone holds no vote
    bool own = same_candidate(&r->vote, &r->self, r->store);
    if (own && r->role == RAFT_CANDIDATE) {
        uint32_t me = raft_myself(r);
        if (me == WIRE_MAX_VOTERS || r->progress[me].voted) return;
        r->progress[me].voted = true;
        request_votes(r, false);
        count_votes(r, now);
        return;
    }
    if (!r->vote_pending) return;
    r->vote_pending = false;
    answer_vote(r, &r->vote_pending_for, r->vote.store, false, r->term, true);
}

void raft_step_down(raft *r, uint64_t now) {
    if (raft_leads(r)) raft_follow(r, now, r->term, NULL);
}

void raft_transfer_leadership(raft *r, const braid_id *to) {
    for (uint32_t i = 0; raft_leads(r) && i < r->voters.count; i++) {
        const log_voter *v = &r->voters.voter[i];
        if (!id_equal(&v->id, to) || r->progress[i].match != r->last) continue;
        message_hand_over *body = &r->host.compose(r->host.context, MESSAGE_HAND_OVER)->u.hand_over;
        body->to = v->store;
        body->from = r->store;
        body->term = r->term;
        r->host.send(r->host.context, to);
    }
}

static void on_hand_over(raft *r, uint64_t now, const message_hand_over *body) {
    if (body->term != r->term || r->role != RAFT_FOLLOWER || !raft_votes(r) || !raft_has_state(r) || r->term >= WIRE_MAX_TERM) return;
    r->timeout_now = true;
    start_election(r, now);
}

// ---- the outside --------------------------------------------------------------------------------

void raft_receive(raft *r, uint64_t now, const braid_id *from, const message *msg) {
    message_ballot ballot;
    if (!message_ballot_of(msg, &ballot) || ballot.to != r->store || ballot.term > r->term + RAFT_TERM_STEP) return;
    uint32_t asks = msg->kind == MESSAGE_VOTE || msg->kind == MESSAGE_VOTED ? voter_at(r, from, ballot.from) : r->voters.count;
    if (asks < r->voters.count && !raft_leads(r)) r->progress[asks].heard_ns = now;  // at a leader only answers to APPEND count
    switch (msg->kind) {
    case MESSAGE_VOTE: on_vote(r, now, from, &msg->u.vote); break;
    case MESSAGE_VOTED: on_voted(r, now, from, &msg->u.voted); break;
    case MESSAGE_APPEND:
        raft_on_append(r, now, from, &msg->u.append);
        if (r->heard_ns == now) reset_election_timer(r, now);
        break;
    case MESSAGE_APPENDED: raft_on_appended(r, now, from, &msg->u.appended); break;
    case MESSAGE_HAND_OVER: on_hand_over(r, now, &msg->u.hand_over); break;
    default: break;
    }
}

void raft_stored(raft *r, uint64_t now, const log_entry *record) {
    if (record->kind == LOG_VOTE) {
        bool newer = record->term > r->term_stored;
        if (newer) r->term_stored = record->term;
        vote_stored(r, now, record);
        if (newer && record->term == r->term) raft_acknowledge(r);
        return;
    }
    bool base = record->kind == LOG_BASE && record->index == r->base;
    bool entry = record->kind != LOG_BASE && record->index > r->base && record->index <= r->last && raft_at(r, record->index)->term == record->term;
    if ((!base && !entry) || record->index <= r->stored) return;
    r->stored = record->index;
    if (!raft_leads(r)) {
        raft_acknowledge(r);
        return;
    }
    raft_advance(r, now);
    if (raft_leads(r) && record->kind == LOG_VOTERS) raft_replicate(r, now, false);
}

// CheckQuorum (thesis 6.2): a leader that hears less than a majority steps down; another one may
// have been elected.
static bool has_quorum(const raft *r, uint64_t now) {
    uint32_t heard = 0, me = raft_myself(r);
    for (uint32_t i = 0; i < r->voters.count; i++) heard += i == me || now < r->progress[i].heard_ns + 2 * r->election_timeout_ns;
    return heard >= raft_majority(r);
}

void raft_tick(raft *r, uint64_t now) {
    if (raft_leads(r)) {
        if (!has_quorum(r, now)) {
            raft_follow(r, now, r->term, NULL);
            return;
        }
        raft_replicate(r, now, true);
        return;
    }
    if (!raft_votes(r) || now < r->election_deadline_ns || r->term >= WIRE_MAX_TERM) return;
    bool writes = r->role == RAFT_CANDIDATE && !r->progress[raft_myself(r)].voted;  // its own vote is not durable yet: a slow disk would never keep up with new terms
    if (raft_has_state(r) && !writes) start_pre_vote(r, now);
    else reset_election_timer(r, now);
}

uint64_t raft_deadline(const raft *r) {
    if (!raft_leads(r)) return raft_votes(r) ? r->election_deadline_ns : UINT64_MAX;
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < r->voters.count; i++)
        if (i != raft_myself(r) && r->progress[i].sent_ns + r->election_timeout_ns / 4 < next) next = r->progress[i].sent_ns + r->election_timeout_ns / 4;
    return next;
}
