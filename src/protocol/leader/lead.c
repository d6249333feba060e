// A new leader's beginning, the choice of voters, leadership transfer, and the exit when there will
// be no leader any more (docs/protocol.md, Leaders and voters).
#include "protocol/leader/leader.h"

#include <string.h>


// ---- hearing of it ------------------------------------------------------------------------------

// How long a voter is waited for at the end of the run. After END no checkpoint is pending.
static uint64_t end_grace_ns(const peer *p) {
    uint64_t grace = p->state.end_index != 0 ? TIMING_EXPEL_SILENCE_NS : rollback_grace_ns(p);
    return !run_state_is_complete(&p->state) && grace < TIMING_HOME_NS ? TIMING_HOME_NS : grace;
}

// True if the voter has exited. Compare the log store, not only the peer id: a restarted peer that
// lost its log is a different voter.
static bool voter_has_exited(const peer *p, const log_voter *v) {
    if (id_equal(&v->id, &p->config.self)) return v->store != p->raft.store;
    uint32_t at = contact_find(p, &v->id);
    uint64_t grace = end_grace_ns(p);
    if (at == NO_CONTACT) return p->now - p->microbatch->iteration_ns >= grace;  // it never had a link with this peer, so it could not send the shutdown message
    const cluster_contact *c = &p->cluster->contacts[at];
    if (p->now >= contact_awaited_until(p, c, 0, grace)) return true;
    if (c->link != LINK_UP) return false;
    if (c->store != 0 && c->store != v->store) return true;
    // without a leader voters request votes from each other repeatedly, so silence shows that it is
    // no voter any more
    uint64_t since_ns = p->raft.heard_ns > p->microbatch->iteration_ns ? p->raft.heard_ns : p->microbatch->iteration_ns, unled_ns = p->now - since_ns;
    uint64_t silent_ns = raft_votes(&p->raft) ? raft_silence(&p->raft, p->now, &v->id, v->store) : 0;
    if (silent_ns > unled_ns) silent_ns = unled_ns;
    uint64_t election_ns = 4 * p->raft.election_timeout_ns;  // a relay's election timer is up to three times as long
    return silent_ns >= TIMING_HOME_NS && silent_ns >= election_ns && silent_ns >= grace;
}

// True if the run is over and too few voters are left to elect a leader that could send the
// shutdown message. Before the last checkpoint the voters may be restarted and need this peer's
// state, so they are waited for as long as recomputing would take. Also after a shutdown message of
// an unknown leader, if no voter is left to contradict it.
bool lead_run_is_over(const peer *p) {
    if (p->cluster->leads || (!run_state_is_complete(&p->state) && p->cluster->lead.shutdown_position <= p->state.position)) return false;
    uint32_t at = contact_find(p, &p->cluster->lead.id), here = 0;
    if (p->state.voters.count <= 1) {
        uint64_t since = at == NO_CONTACT ? 0 : p->cluster->contacts[at].refused_ns;
        return since != 0 && p->now - since >= end_grace_ns(p);
    }
    const cluster_contact *c = at == NO_CONTACT ? NULL : &p->cluster->contacts[at];
    // do not exit before a leader, or a peer that may lead and has sent no heartbeat on this link:
    // a joiner may know no other voter, and while it replays the log it passes through an older
    // state in which the run was complete
    bool may_lead = c != NULL && c->link == LINK_UP && (c->beat.leads != 0 || c->beat_position == 0);
    if (may_lead && p->now < contact_awaited_until(p, c, 0, 0)) return false;
    for (uint32_t i = 0; i < p->state.voters.count; i++) here += !voter_has_exited(p, &p->state.voters.voter[i]);
    return here < p->state.voters.count / 2u + 1;
}

// ---- beginning and ending -----------------------------------------------------------------------

static void resume_iteration(peer *p) {
    peer_leader *l = p->leader;
    leader_begin_iteration(p);
    if (p->state.has_close) l->phase = LEADER_REDUCING;
    l->close = p->state.close;
    l->close_index = p->state.close_index;
    // it is not known whether the leader before has written it; writing it again costs only time
    leader_save_when_due(p);
}

// Everything that was decided is in the log. All else is reported again or asked for.
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
        if (c->used && c->link == LINK_UP) lead_send(p, i);  // they may have an outdated address of this peer
    }
    for (uint32_t i = 0; i < p->cluster->member_count; i++) p->cluster->members[i].expelling = false;
    if (p->state.end_index != 0) {
        l->phase = LEADER_OVER;
        lead_tell_all_again(p);         // peers that are no members obey only a known leader
        leader_dismiss(p, false);  // the leader before may have begun to
        return;
    }
    if (p->state.started) resume_iteration(p);
    else l->phase = LEADER_GATHERING;
    lead_tell_all_again(p);
}

// Too few voters' processes exist for a quorum: their ports refuse connections. Voters that are
// only silent may have another leader.
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
    if (over && too_few_live(p)) leader_dismiss(p, false);  // all that is left is to agree on what is written already
    save_drop_pulls(p);
    p->leaving |= p->drain_ns != 0;
    contacts_touch(p);
}

// ---- the voters ---------------------------------------------------------------------------------

// Rank of a voter for replacement, highest first; a log index is below all of these.
#define RANK_RELAY (UINT64_C(1) << 61)
#define RANK_GONE (UINT64_C(1) << 62)
#define RANK_SILENT (UINT64_C(1) << 63)

static const cluster_contact *contact_of(const peer *p, const cluster_member *m) { return m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact]; }

static bool votes(const peer *p, const cluster_member *m) {
    const cluster_contact *c = contact_of(p, m);
    return c == NULL ? raft_votes(&p->raft) : raft_is_voter(&p->raft, &c->id, c->store);
}

// Time since it was last heard; a falling link is not a message.
static uint64_t silence_ns(const peer *p, const cluster_contact *c) { return p->now - (c->timing.heard_ns != 0 ? c->timing.heard_ns : c->down_ns); }

static bool listed(const log_voters *v, const cluster_contact *c) {
    for (uint32_t i = 0; i < v->count; i++)
        if (v->voter[i].store == c->store && id_equal(&v->voter[i].id, &c->id)) return true;
    return false;
}

// True if another data peer stays. Otherwise a leaving data peer must stay to the end.
static bool data_stays(const peer *p) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_contact *c = contact_of(p, &p->cluster->members[i]);
        if (p->cluster->members[i].kind == MEMBER_DATA && c != NULL && !c->departing && member_answers(p, p->cluster->members[i].id)) return true;
    }
    return false;
}

// False: the leadership is transferred. A relay leads only until a data peer can, because it writes
// no checkpoint. A leaving peer does so too, because it has no state.
static bool leads_for_good(const peer *p) { return p->config.kind == MEMBER_DATA && (p->me != 0 || !p->leaving); }

// A voter that is silent for so long is replaced, and a candidate that is silent is not chosen.
static bool is_silent(uint64_t silence) { return silence >= TIMING_EXPEL_SILENCE_NS / 2; }

// Rule V6: true if the contact has applied the newest VOTERS entry. A peer that can be heard but
// hears nothing would otherwise be dropped as silent and chosen again, for ever.
static bool is_informed(const peer *p, const cluster_contact *c) { return c->log_position >= p->state.voters_index; }

static bool is_nobody(const braid_id *id) {
    const braid_id nobody = {{0}};
    return id_equal(id, &nobody);
}

// True if a voter would die together with this peer: a member of the same whole-model peer.
static bool machine_votes(const peer *p, const log_voters *v, const cluster_contact *c) {
    for (uint32_t i = 0; i < v->count && !is_nobody(&c->host); i++) {
        uint32_t at = contact_find(p, &v->voter[i].id);
        bool self = id_equal(&v->voter[i].id, &p->config.self);
        if (id_equal(&v->voter[i].id, &c->host) || (self && id_equal(&p->config.host, &c->host))) return true;
        if (at != NO_CONTACT && id_equal(&p->cluster->contacts[at].host, &c->host)) return true;
    }
    return false;
}

// The best new voter among members that answer: data peers first, then relays, each in the order of
// admission. A machine has one vote, because its members end together.
static const cluster_member *candidate(const peer *p, const log_voters *v, bool data_only) {
    for (int kind = MEMBER_DATA; kind >= (data_only ? MEMBER_DATA : MEMBER_RELAY); kind--)
        for (uint32_t i = 0; i < p->cluster->member_count; i++) {
            const cluster_member *m = &p->cluster->members[i];
            const cluster_contact *c = contact_of(p, m);
            if (m->kind != kind || m->expelling || c == NULL || listed(v, c) || machine_votes(p, v, c)) continue;
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

// Silence of a voter, member or not: one that is leaving stays until it is replaced (leave_tick);
// one that was removed and has no link is dead.
static uint64_t voter_silence_ns(const peer *p, const log_voter *v) {
    uint32_t at = contact_find(p, &v->id);
    const cluster_contact *c = at == NO_CONTACT ? NULL : &p->cluster->contacts[at];
    bool there = c != NULL && (c->store == 0 || c->store == v->store) && (c->member != 0 || c->link == LINK_UP);
    if (!there) return RANK_SILENT - 1;
    // the link may be that of a later incarnation, which is no voter
    uint64_t as_voter = raft_silence(&p->raft, p->now, &v->id, v->store), silence = silence_ns(p, c);
    if (as_voter != UINT64_MAX && as_voter > silence) silence = as_voter;
    return silence < RANK_SILENT ? silence : RANK_SILENT - 1;
}

// The voter to replace: the longest silent one, which is most likely dead; then one that has left,
// then relays, then the newest.
static uint32_t least_wanted(const peer *p, const log_voters *v) {
    uint32_t worst = WIRE_MAX_VOTERS;
    uint64_t most = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        if (id_equal(&v->voter[i].id, &p->config.self)) continue;
        const cluster_member *m = member_of(p, &v->voter[i]);
        uint64_t silence = voter_silence_ns(p, &v->voter[i]);
        uint64_t rank = m == NULL ? RANK_GONE : m->id + (m->kind == MEMBER_DATA ? 0 : RANK_RELAY);
        if (is_silent(silence)) rank = RANK_SILENT + silence;
        else if (!leads_for_good(p) && m != NULL && m->kind == MEMBER_DATA) continue;  // leadership is transferred to it
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

// Rule V9: true if a relay leads and every data peer among the voters is leaving.
static bool all_data_voters_leave(const peer *p) {
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

// A single voter adds two or four others at once: two voters tolerate no failure at all.
static bool several_voters(const peer *p, uint32_t target, log_voters *v) {
    const cluster_member *m;
    while (v->count < target && (m = candidate(p, v, false)) != NULL) add_voter(p, m, v);
    if (v->count % 2 == 0) v->voter[--v->count] = (log_voter){.store = 0};
    return v->count > 1;
}

// A single voter that must hand over leadership: two voters, until the next leader removes it.
static bool add_successor_voter(const peer *p, log_voters *v) {
    const cluster_member *m = leads_for_good(p) ? NULL : candidate(p, v, true);
    if (m != NULL) add_voter(p, m, v);
    return m != NULL;
}

// True if another member of its machine comes before it: the peer that is its host, or an older
// member with the same host.
static bool machine_is_counted(const peer *p, uint32_t index) {
    const cluster_contact *c = contact_of(p, &p->cluster->members[index]);
    if (c == NULL || is_nobody(&c->host)) return false;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_contact *other = contact_of(p, &p->cluster->members[i]);
        if (id_equal(other == NULL ? &p->config.self : &other->id, &c->host)) return true;
        if (i < index && other != NULL && p->cluster->members[i].kind != MEMBER_SHADOW && id_equal(&other->host, &c->host)) return true;
    }
    return false;
}

// Standbys do not vote, and a machine has one vote.
static uint32_t could_vote(const peer *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        count += p->cluster->members[i].kind != MEMBER_SHADOW && !machine_is_counted(p, i);
    return count;
}

static bool drop_voter(const peer *p, log_voters *v) {
    uint32_t worst = least_wanted(p, v);
    if (worst == WIRE_MAX_VOTERS) return false;
    memmove(&v->voter[worst], &v->voter[worst + 1], (v->count - worst - 1u) * sizeof v->voter[0]);
    v->voter[--v->count] = (log_voter){.store = 0};
    return true;
}

// The next configuration: one voter more or less, towards an odd number. A silent voter is removed
// before another is added, because with both a majority would need one more live voter. A leaving
// voter is removed after its replacement is added.
static bool other_voters(const peer *p, log_voters *v) {
    uint32_t able = could_vote(p), most = p->config.voters < able ? p->config.voters : able;
    uint32_t target = most >= PEER_VOTERS ? PEER_VOTERS : most >= 3 ? 3 : 1;
    *v = p->raft.voters;
    if (v->count > target) return drop_voter(p, v);
    if (v->count == 1 && several_voters(p, target, v)) return true;
    if (v->count == 1) return add_successor_voter(p, v);
    bool left = some_voter_has_left(p), silence = some_voter_is_silent(p), full = v->count == target;
    const cluster_member *m = candidate(p, v, full && !silence && !left);
    if (left && (m == NULL || silence)) return drop_voter(p, v);
    if (m == NULL || (full && !silence && !left && !some_voter_relays(p) && !all_data_voters_leave(p))) return false;
    if (full && silence) return drop_voter(p, v);
    add_voter(p, m, v);
    return true;
}

// Rule V4: true if a majority of `v` was heard within half an election timeout (voters answer four
// times in one), and since this process last resumed from a pause.
static bool has_recent_majority(const peer *p, const log_voters *v) {
    uint64_t awake_ns = p->now - p->resumed_ns, moment_ns = p->raft.election_timeout_ns / 2;
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

// An odd number of voters needs no larger majority than one voter less or more. So undoing a change
// to it is never worse, even if some are unreachable now: they may return after this leader steps
// down, and only this leader can undo the change.
static bool may_go_back_to(const peer *p, const log_voters *before) { return before->count % 2 != 0 || has_recent_majority(p, before); }

static void choose_voters(peer *p) {
    log_entry entry = {.kind = LOG_VOTERS};
    bool over = p->leader->phase == LEADER_OVER && leads_for_good(p);  // everything is written: voters exit
    if (p->config.voters <= 1 || !p->state.started) return;
    if (log_room(p) == 0) return;
    // a voter died during a change, and the new configuration has no quorum
    if (raft_may_undo(&p->raft, &entry.u.voters) && !has_recent_majority(p, &p->raft.voters) && may_go_back_to(p, &entry.u.voters)) log_append(p, &entry);
    else if (!over && raft_may_change(&p->raft) && other_voters(p, &entry.u.voters) && has_recent_majority(p, &entry.u.voters)) {
        lead_renew_addresses(p, &entry.u.voters);
        log_append(p, &entry);
    }
}

// A leaving leader transfers leadership, unless it is the last data peer or the last checkpoint is
// being written.
static void hand_on(peer *p) {
    bool data = p->config.kind == MEMBER_DATA, stays = data_stays(p) && p->leader->phase < LEADER_SAVING_LAST;
    if (p->leader->phase == LEADER_OVER) return;  // the run ends with this leader
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

// Reports missing voters to the user when no leader can be elected.
static void tell_unled(peer *p) {
    const log_voters *v = &p->raft.voters;
    bool led = raft_leads(&p->raft) || !raft_votes(&p->raft) || p->raft.leader_known;
    if (led || p->cluster->lead.miss_ns == 0) p->cluster->lead.miss_ns = p->now + TIMING_UNLED_NS;
    if (p->now < p->cluster->lead.miss_ns) return;
    tell t = {.kind = TELL_UNLED, .iteration = p->state.iteration, .total = v->count};
    for (uint32_t i = 0; i < v->count; i++) {
        // a voter requests votes repeatedly; a link alone may be that of a later incarnation, which
        // is no voter
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
    // the first step of a new run: no store was restored
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
    if (!p->cluster->leads && id_equal(&p->cluster->lead.id, &p->config.self)) lead_ask(p);  // this peer led before: LEADER of the new one may have come too early
    if (!p->cluster->leads) return;
    choose_voters(p);
    hand_on(p);
}
