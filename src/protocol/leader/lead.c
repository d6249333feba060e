// Who leads and who votes: the leader's word of itself, a new leader's start from what the log says, the choice of voters, and
// leadership that is handed on (docs/protocol.md, Leaders and voters).
#include "protocol/leader/leader.h"

#include <string.h>


// ---- hearing of it ------------------------------------------------------------------------------------------------

// Behind END there is no checkpoint that somebody would be waited for. A stranger may be wrong.
static uint64_t end_grace_ns(const peer *p) {
    uint64_t grace = p->state.end_index != 0 ? TIMING_EXPEL_SILENCE_NS : rollback_grace_ns(p);
    return !run_state_is_complete(&p->state) && grace < TIMING_HOME_NS ? TIMING_HOME_NS : grace;
}

// The voter, not only the peer: what a link leads to, or I myself, may be its next life, without its store.
static bool voter_has_exited(const peer *p, const log_voter *v) {
    if (id_equal(&v->id, &p->config.self)) return v->store != p->raft.store;
    uint32_t at = contact_find(p, &v->id);
    uint64_t grace = end_grace_ns(p);
    if (at == NO_CONTACT) return p->now - p->microbatch->iteration_ns >= grace;  // whom I never met cannot have said goodbye
    const cluster_contact *c = &p->cluster->contacts[at];
    if (p->now >= contact_awaited_until(p, c, 0, grace)) return true;
    if (c->link != LINK_UP) return false;
    if (c->store != 0 && c->store != v->store) return true;
    // while nobody leads voters ask each other for votes again and again; before that they have nothing to say
    uint64_t since_ns = p->raft.heard_ns > p->microbatch->iteration_ns ? p->raft.heard_ns : p->microbatch->iteration_ns, unled_ns = p->now - since_ns;
    uint64_t silent_ns = raft_votes(&p->raft) ? raft_silence(&p->raft, p->now, &v->id, v->store) : 0;
    if (silent_ns > unled_ns) silent_ns = unled_ns;
    uint64_t election_ns = 4 * p->raft.election_timeout_ns;  // a relay waits for up to three times as long until it stands
    return silent_ns >= TIMING_HOME_NS && silent_ns >= election_ns && silent_ns >= grace;
}

// The last FINAL is in the log, and too few are left to have a leader who could say goodbye. They may be started again before there
// is a last checkpoint, and need who has the state: waited for as long as to compute it again would take. Or a stranger said goodbye, who came
// and led while I was cut off, and nobody is left who could contradict.
bool lead_run_is_over(const peer *p) {
    if (p->cluster->leads || (!run_state_is_complete(&p->state) && p->cluster->lead.shutdown_position <= p->state.position)) return false;
    uint32_t at = contact_find(p, &p->cluster->lead.id), here = 0;
    if (p->state.voters.count <= 1) {
        uint64_t since = at == NO_CONTACT ? 0 : p->cluster->contacts[at].refused_ns;
        return since != 0 && p->now - since >= end_grace_ns(p);
    }
    const cluster_contact *c = at == NO_CONTACT ? NULL : &p->cluster->contacts[at];
    // it goes before me: a joiner may know nobody else who votes; what it read last is old, and says who voted when the run was complete once
    bool may_lead = c != NULL && c->link == LINK_UP && (c->beat.leads != 0 || c->beat_position == 0);
    if (may_lead && p->now < contact_awaited_until(p, c, 0, 0)) return false;
    for (uint32_t i = 0; i < p->state.voters.count; i++) here += !voter_has_exited(p, &p->state.voters.voter[i]);
    return here < p->state.voters.count / 2u + 1;
}

// ---- beginning and ending -----------------------------------------------------------------------------------------

static void resume_iteration(peer *p) {
    peer_leader *l = p->leader;
    leader_begin_iteration(p);
    if (p->state.has_close) l->phase = LEADER_REDUCING;
    l->close = p->state.close;
    l->close_index = p->state.close_index;
    // it is not known whether the leader before has written it; writing it again costs only time
    leader_save_when_due(p);
}

// Everything that was decided is in the log that it has; all else is said again or asked for.
void leader_begin(peer *p) {
    peer_leader *l = p->leader;
    p->cluster->leads = true;
    p->cluster->own_term = p->raft.term;
    p->cluster->admitted = l->saving = l->checkpoint_due = false;
    l->handed_ns = p->now;
    private_lead_begin(p);
    rollback_lead_begin(p);
    p->cluster->lead.heard = true;
    p->cluster->lead.term = p->cluster->own_term;
    p->cluster->lead.id = p->config.self;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        cluster_contact *c = &p->cluster->contacts[i];
        c->joining = c->departing = false;
        c->beat_sent_ns = c->log_sent_ns = 0;
        if (c->used && c->link == LINK_UP) lead_send(p, i);  // where I am is known to them from others, or from an earlier life of me
    }
    for (uint32_t i = 0; i < p->cluster->member_count; i++) p->cluster->members[i].expelling = false;
    if (p->state.end_index != 0) {
        l->phase = LEADER_OVER;
        lead_tell_all_again(p);         // who is no member obeys only whom it knows to lead
        leader_dismiss(p, false);  // whoever led before may have begun to
        return;
    }
    if (p->state.started) resume_iteration(p);
    else l->phase = LEADER_GATHERING;
    lead_tell_all_again(p);
}

// Where no process is any more its port refuses. Who is only silent, or cut off, may have another leader by now.
static bool too_few_live(const peer *p) {
    uint32_t alive = 0;
    for (uint32_t i = 0; i < p->raft.voters.count; i++) {
        uint32_t at = contact_find(p, &p->raft.voters.voter[i].id);
        alive += at == NO_CONTACT || p->cluster->contacts[at].refused_ns == 0;
    }
    return alive < p->raft.voters.count / 2u + 1;
}

void leader_end(peer *p) {
    peer_leader *l = p->leader;
    bool over = p->cluster->leads && l->phase == LEADER_OVER && p->raft.term == p->cluster->own_term;
    p->cluster->leads = l->saving = l->save_ending = false;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) p->cluster->contacts[i].joining = false;
    if (over && too_few_live(p)) leader_dismiss(p, false);  // to agree on what is written already
    save_drop_pulls(p);
    p->leaving |= p->drain_ns != 0;
    contacts_touch(p);
}

// ---- who votes ----------------------------------------------------------------------------------------------------

// Of voters that are replaced the first; an index of the log is below all of them.
#define RANK_RELAY (UINT64_C(1) << 61)
#define RANK_GONE (UINT64_C(1) << 62)
#define RANK_SILENT (UINT64_C(1) << 63)

static const cluster_contact *contact_of(const peer *p, const cluster_member *m) { return m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact]; }

static bool votes(const peer *p, const cluster_member *m) {
    const cluster_contact *c = contact_of(p, m);
    return c == NULL ? raft_votes(&p->raft) : raft_is_voter(&p->raft, &c->id, c->store);
}

// Since it was last heard: a link that falls is no word from it.
static uint64_t silence_ns(const peer *p, const cluster_contact *c) { return p->now - (c->timing.heard_ns != 0 ? c->timing.heard_ns : c->down_ns); }

static bool listed(const log_voters *v, const cluster_contact *c) {
    for (uint32_t i = 0; i < v->count; i++)
        if (v->voter[i].store == c->store && id_equal(&v->voter[i].id, &c->id)) return true;
    return false;
}

// Another data peer is there that does not take its leave. Else who does so must stay to the end.
static bool data_stays(const peer *p) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_contact *c = contact_of(p, &p->cluster->members[i]);
        if (p->cluster->members[i].kind == MEMBER_DATA && c != NULL && !c->departing && member_answers(p, p->cluster->members[i].id)) return true;
    }
    return false;
}

// A relay leads only until a data peer can, for it writes no checkpoint; so does who has taken its leave, for it has no state.
static bool leads_for_good(const peer *p) { return p->config.kind == MEMBER_DATA && (p->me != 0 || !p->leaving); }

// Who votes and is silent for so long goes; so nobody comes who is.
static bool is_silent(uint64_t silence) { return silence >= TIMING_EXPEL_SILENCE_NS / 2; }

// It has read of the last change of voters. Who has not may be heard and hear nothing: as a voter it would be dropped as silent, and chosen again.
static bool is_informed(const peer *p, const cluster_contact *c) { return c->log_position >= p->state.voters_index; }

// The best of those who answer and do not vote: data peers, then relays, each in the order in which they came.
static const cluster_member *candidate(const peer *p, const log_voters *v, bool data_only) {
    for (int kind = MEMBER_DATA; kind >= (data_only ? MEMBER_DATA : MEMBER_RELAY); kind--)
        for (uint32_t i = 0; i < p->cluster->member_count; i++) {
            const cluster_member *m = &p->cluster->members[i];
            const cluster_contact *c = contact_of(p, m);
            if (m->kind != kind || m->expelling || c == NULL || listed(v, c)) continue;
            if (c->departing && (m->kind != MEMBER_DATA || data_stays(p))) continue;
            if (c->link == LINK_UP && c->itself && member_answers(p, m->id) && !is_silent(silence_ns(p, c)) && is_informed(p, c)) return m;
        }
    return NULL;
}

static const cluster_member *member_of(const peer *p, const log_voter *v) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_contact *c = contact_of(p, &p->cluster->members[i]);
        if (c == NULL ? id_equal(&v->id, &p->config.self) : c->store == v->store && id_equal(&v->id, &c->id)) return &p->cluster->members[i];
    }
    return NULL;
}

// Members or not: who has left is there until it is replaced (leave_tick), and who was expelled and has no link is dead.
static uint64_t voter_silence_ns(const peer *p, const log_voter *v) {
    uint32_t at = contact_find(p, &v->id);
    const cluster_contact *c = at == NO_CONTACT ? NULL : &p->cluster->contacts[at];
    bool there = c != NULL && (c->store == 0 || c->store == v->store) && (c->member != 0 || c->link == LINK_UP);
    if (!there) return RANK_SILENT - 1;
    // the link may be that of its next life, which is no voter
    uint64_t as_voter = raft_silence(&p->raft, p->now, &v->id, v->store), silence = silence_ns(p, c);
    if (as_voter != UINT64_MAX && as_voter > silence) silence = as_voter;
    return silence < RANK_SILENT ? silence : RANK_SILENT - 1;
}

// Whoever says nothing goes first, the longest before the others: most likely that one is dead, and then it is no loss. Then who
// has left, relays, the newest.
static uint32_t least_wanted(const peer *p, const log_voters *v) {
    uint32_t worst = WIRE_MAX_VOTERS;
    uint64_t most = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        if (id_equal(&v->voter[i].id, &p->config.self)) continue;
        const cluster_member *m = member_of(p, &v->voter[i]);
        uint64_t silence = voter_silence_ns(p, &v->voter[i]);
        uint64_t rank = m == NULL ? RANK_GONE : m->id + (m->kind == MEMBER_DATA ? 0 : RANK_RELAY);
        if (is_silent(silence)) rank = RANK_SILENT + silence;
        else if (!leads_for_good(p) && m != NULL && m->kind == MEMBER_DATA) continue;  // it is handed on to that one
        if (rank < most) continue;
        most = rank;
        worst = i;
    }
    return worst;
}

static bool some_voter_relays(const peer *p) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (p->cluster->members[i].contact != NO_CONTACT && p->cluster->members[i].kind != MEMBER_DATA && votes(p, &p->cluster->members[i])) return true;
    return false;
}

// A relay leads, and of the data peers that vote all have taken their leave.
static bool nobody_follows(const peer *p) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_contact *c = contact_of(p, &p->cluster->members[i]);
        if (c != NULL && p->cluster->members[i].kind == MEMBER_DATA && votes(p, &p->cluster->members[i]) && !c->departing) return false;
    }
    return !leads_for_good(p);
}

static bool some_voter_is_silent(const peer *p) {
    for (uint32_t i = 0; i < p->raft.voters.count; i++) {
        const log_voter *v = &p->raft.voters.voter[i];
        if (!id_equal(&v->id, &p->config.self) && is_silent(voter_silence_ns(p, v))) return true;
    }
    return false;
}

static bool some_voter_has_left(const peer *p) {
    for (uint32_t i = 0; i < p->raft.voters.count; i++) {
        const log_voter *v = &p->raft.voters.voter[i];
        if (!id_equal(&v->id, &p->config.self) && member_of(p, v) == NULL) return true;
    }
    return false;
}

static void add_voter(const peer *p, const cluster_member *m, log_voters *v) {
    const cluster_contact *c = contact_of(p, m);
    log_voter *more = &v->voter[v->count++];
    *more = (log_voter){.id = c->id, .store = c->store};
    memcpy(more->address, c->address, WIRE_MAX_ADDRESS);
}

// The one voter takes on two or four others at once: with one more it would be worse off than alone.
static bool several_voters(const peer *p, uint32_t target, log_voters *v) {
    const cluster_member *m;
    while (v->count < target && (m = candidate(p, v, false)) != NULL) add_voter(p, m, v);
    if (v->count % 2 == 0) v->voter[--v->count] = (log_voter){.store = 0};
    return v->count > 1;
}

// Alone, and not for good: with the one that leads next it is two, until that one drops it.
static bool heir_too(const peer *p, log_voters *v) {
    const cluster_member *m = leads_for_good(p) ? NULL : candidate(p, v, true);
    if (m != NULL) add_voter(p, m, v);
    return m != NULL;
}

// A shadow does not vote until it does a stage's work.
static uint32_t could_vote(const peer *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) count += p->cluster->members[i].kind != MEMBER_SHADOW;
    return count;
}

static bool drop_voter(const peer *p, log_voters *v) {
    uint32_t worst = least_wanted(p, v);
    if (worst == WIRE_MAX_VOTERS) return false;
    memmove(&v->voter[worst], &v->voter[worst + 1], (v->count - worst - 1u) * sizeof v->voter[0]);
    v->voter[--v->count] = (log_voter){.store = 0};
    return true;
}

// One voter more or less at a time; an odd number. Who is silent goes before another one comes: with both of them in, one
// more would have to live for a majority. Who has left, and is there until it is replaced, goes afterwards.
static bool other_voters(const peer *p, log_voters *v) {
    uint32_t able = could_vote(p), most = p->config.voters < able ? p->config.voters : able;
    uint32_t target = most >= PEER_VOTERS ? PEER_VOTERS : most >= 3 ? 3 : 1;
    *v = p->raft.voters;
    if (v->count > target) return drop_voter(p, v);
    if (v->count == 1 && several_voters(p, target, v)) return true;
    if (v->count == 1) return heir_too(p, v);
    bool left = some_voter_has_left(p), silence = some_voter_is_silent(p), full = v->count == target;
    const cluster_member *m = candidate(p, v, full && !silence && !left);
    if (left && (m == NULL || silence)) return drop_voter(p, v);
    if (m == NULL || (full && !silence && !left && !some_voter_relays(p) && !nobody_follows(p))) return false;
    if (full && silence) return drop_voter(p, v);
    add_voter(p, m, v);
    return true;
}

// A majority of these has a link and was heard a moment ago (they answer four times as often as they are patient), and since I
// woke: what I forgave says nothing of who is there.
static bool would_hold(const peer *p, const log_voters *v) {
    uint64_t awake_ns = p->now - p->woke_ns, moment_ns = p->raft.election_timeout_ns / 2;
    uint32_t answer = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t at = contact_find(p, &v->voter[i].id);
        const cluster_contact *c = at == NO_CONTACT ? NULL : &p->cluster->contacts[at];
        bool self = id_equal(&v->voter[i].id, &p->config.self);
        uint64_t silent_ns = voter_silence_ns(p, &v->voter[i]);
        answer += self || (c != NULL && c->link == LINK_UP && silent_ns < moment_ns && silent_ns < awake_ns);
    }
    return answer >= v->count / 2u + 1;
}

// Of an odd number no more are needed to agree than of one less or one more. So to go back to them is never worse, though some are cut
// off now: they may come back when this leader leads no more, and what it has not taken back by then nobody else can.
static bool may_go_back_to(const peer *p, const log_voters *before) { return before->count % 2 != 0 || would_hold(p, before); }

static void choose_voters(peer *p) {
    log_entry entry = {.kind = LOG_VOTERS};
    bool over = p->leader->phase == LEADER_OVER && leads_for_good(p);  // all that is left to write is written; who votes goes home
    if (p->config.voters <= 1 || !p->state.started) return;
    if (log_room(p) == 0) return;
    // somebody died in the very moment of a change, and too few are left for it
    if (raft_may_undo(&p->raft, &entry.u.voters) && !would_hold(p, &p->raft.voters) && may_go_back_to(p, &entry.u.voters)) log_append(p, &entry);
    else if (!over && raft_may_change(&p->raft) && other_voters(p, &entry.u.voters) && would_hold(p, &entry.u.voters)) {
        lead_renew_addresses(p, &entry.u.voters);
        log_append(p, &entry);
    }
}

// Who takes its leave does not lead, unless it is the last data peer or the last checkpoint is to be written.
static void hand_on(peer *p) {
    bool data = p->config.kind == MEMBER_DATA, stays = data_stays(p) && p->leader->phase < LEADER_SAVING_LAST;
    if (p->leader->phase == LEADER_OVER) return;  // who goes then ends the run
    if ((data && (!p->leaving || (p->me != 0 && !stays))) || p->now < p->leader->handed_ns + TIMING_REPEAT_NS) return;
    p->leader->handed_ns = p->now;
    for (int kind = MEMBER_DATA; kind >= (p->leaving ? MEMBER_RELAY : MEMBER_DATA); kind--)
        for (uint32_t i = 0; i < p->cluster->member_count; i++) {
            const cluster_member *m = &p->cluster->members[i];
            const cluster_contact *c = contact_of(p, m);
            if (m->kind != kind || c == NULL || (stays && c->departing) || !votes(p, m) || !member_answers(p, m->id)) continue;
            raft_transfer_leadership(&p->raft, &c->id);
            return;
        }
}

// A voter that cannot be elected, nor elect anybody, says whom it misses: only its user can help.
static void tell_unled(peer *p) {
    const log_voters *v = &p->raft.voters;
    bool led = raft_leads(&p->raft) || !raft_votes(&p->raft) || p->raft.leader_known;
    if (led || p->cluster->lead.miss_ns == 0) p->cluster->lead.miss_ns = p->now + TIMING_UNLED_NS;
    if (p->now < p->cluster->lead.miss_ns) return;
    tell t = {.kind = TELL_UNLED, .iteration = p->state.iteration, .total = v->count};
    for (uint32_t i = 0; i < v->count; i++) {
        // while nobody leads voters ask each other for votes again and again; a link alone may be that of its next life, which is no voter
        bool here = id_equal(&v->voter[i].id, &p->config.self) || raft_silence(&p->raft, p->now, &v->voter[i].id, v->voter[i].store) < TIMING_UNLED_NS;
        t.done += here;
        if (here || t.text != NULL) continue;
        t.id = v->voter[i].id;
        t.text = v->voter[i].address;
    }
    if (t.done >= t.total / 2 + 1) return;
    p->cluster->lead.miss_ns = p->now + TIMING_UNLED_AGAIN_NS;
    peer_tell(p, &t);
}

void lead_tick(peer *p) {
    tell_unled(p);
    lead_ask_where(p);
    // the very first step of a new run; a store that was recalled says that it is not
    if (p->config.leader && p->raft.term == 0 && p->raft.voters.count == 0) raft_bootstrap(&p->raft, p->config.address, p->now);
    if (p->now >= raft_deadline(&p->raft)) raft_tick(&p->raft, p->now);
    if (p->now >= p->cluster->lead.looked_ns + TIMING_REPEAT_NS) {
        p->cluster->lead.looked_ns = p->now;
        for (uint32_t i = 0; i < p->raft.voters.count; i++) {
            const log_voter *v = &p->raft.voters.voter[i];
            bool known = id_equal(&v->id, &p->config.self) || contact_find(p, &v->id) != NO_CONTACT;  // maybe at a newer address
            if (raft_votes(&p->raft) && !known) contact_add(p, &v->id, v->address);
        }
    }
    if (!p->cluster->leads && id_equal(&p->cluster->lead.id, &p->config.self)) lead_ask(p);  // I led: who does now may have told me too early
    if (!p->cluster->leads) return;
    choose_voters(p);
    hand_on(p);
}
