// Admission and removal: JOIN, LEAVE, removal of members, the start of the
// run.
#include "protocol/leader/leader.h"

#include <string.h>

// ---- the joiner ---------------------------------------------------------------------------------

static const char *refusal_text(join_refusal why) {
    static const char *const text[REFUSALS] = {
        [REFUSAL_NONE] = "the run is over",
        [REFUSAL_FULL] = "the run has as many peers of this kind as it may have",
        [REFUSAL_NO_TEXT] = "the run's data are private: a data peer needs a text of its own",
        [REFUSAL_TAKEN] = "this share of the private data belongs to another peer; request another one, or use the identity (--identity) that has it",
        [REFUSAL_NO_SHARE] = "there is no such share of the private data, or every share belongs to another peer; a restarted peer needs its former identity (--identity)",
        [REFUSAL_OTHER_SHARE] = "this peer has another share of the private data; leave out --share, or use another identity",
        [REFUSAL_OTHER_TEXT] = "this peer had another text before: give the same one, because its microbatches need it",
    };
    return text[why];
}

static void refuse_myself(peer *p, join_refusal why) {
    p->over = true;
    tell t = {.kind = TELL_REFUSED, .text = refusal_text(why), .stopped = why == REFUSAL_NONE && !run_state_is_complete(&p->state)};
    peer_tell(p, &t);
    peer_effect(p, EFFECT_EXIT);
}

// Appends a data peer's share. False: not now (`why` is REFUSAL_NONE), or never.
static bool admit_share(peer *p, const braid_id *who, uint16_t wish, const braid_hash *text, join_refusal *why) {
    *why = REFUSAL_NONE;
    if (p->run.shares == 0) return true;
    if (p->raft.last != p->state.position || log_room(p) < 2) return false;  // an entry being appended may take the share
    log_entry entry;
    *why = private_admit(p, who, wish, text, &entry);
    if (*why != REFUSAL_NONE) return false;
    return entry.kind == LOG_NONE || log_append(p, &entry);
}

// The leader's earlier incarnation is still a member in the log, and it gets no new stage: remove
// that member. Example: a promoted standby that restarts and is not needed as a standby.
static void leader_takes_leave_of_itself(peer *p) {
    const log_entry entry = {.kind = LOG_EXPEL, .u.expel = {.member = member_before(p), .reason = EXPEL_RETURNED}};
    if (entry.u.expel.member != 0 && p->raft.last == p->state.position) log_append(p, &entry);
}

static void leader_admits_itself(peer *p) {
    const message_join wish = {.kind = (uint8_t)p->config.kind, .stage = p->config.stage};
    uint16_t stage;
    join_refusal why;
    if (p->cluster->admitted) return;
    if (!place_joiner(p, NO_CONTACT, &wish, &stage)) {
        leader_takes_leave_of_itself(p);
        return;
    }
    if (wish.kind == MEMBER_DATA && !admit_share(p, &p->config.self, p->config.share, &p->config.text, &why)) {
        if (why != REFUSAL_NONE) refuse_myself(p, why);
        return;
    }
    log_entry entry = {.kind = LOG_MEMBER};
    entry.u.member = (log_member){.peer = p->config.self, .stage = stage, .kind = (uint8_t)p->config.kind, .capacity = p->config.capacity,
                                  .incarnation = p->config.random_seed, .store = p->raft.store};
    memcpy(entry.u.member.address, p->config.address, WIRE_MAX_ADDRESS);
    p->cluster->admitted = log_append(p, &entry);
}

// Exits when this peer is neither member nor voter. A voter stays until it is replaced, because the
// others might have no quorum.
void leave_when_free(peer *p) {
    p->leaving = true;
    if (p->me != 0 || p->cluster->rejoin_first || lead_is_voter(p, &p->config.self)) return;
    p->over = true;
    peer_effect(p, EFFECT_EXIT);
}

static void tell_alone(peer *p) {
    tell t = {.kind = TELL_ALONE, .stage = p->stage, .member = p->me};
    if (p->cluster->alone_told || p->me == 0 || p->stage == 0 || p->standby || member_count_stage(p, p->stage) > 1) return;
    p->cluster->alone_told = true;
    peer_tell(p, &t);
}

// Repeats LEAVE until the log removes this peer, or the leader dismisses it.
static void leave_tick(peer *p) {
    tell_alone(p);
    if (p->cluster->join_sent_ns == 0 || p->now >= p->cluster->join_sent_ns + TIMING_REPEAT_NS) {
        peer_compose(p, MESSAGE_LEAVE)->u.leave.reason = EXPEL_LEFT;
        p->cluster->join_sent_ns = peer_send_leader(p) ? p->now : 0;
    }
    peer_wake_at(p, p->now + TIMING_REPEAT_NS);
}

// True if the contact has sent its first message, a heartbeat, which carries its log position.
static bool has_spoken(const cluster_contact *c) { return c->used && c->link == LINK_UP && c->log_known; }

// Where JOIN is sent: to the leader, if there is a link. Its address may be outdated; then to other
// contacts in turn, which answer with the leader's address (on_join). A voter without the state
// asks others too: an election may need it, and a peer with the state sends a snapshot.
static uint32_t who_answers_join(peer *p) {
    uint32_t at = contact_find(p, &p->cluster->lead.id);
    if (at != NO_CONTACT && p->cluster->contacts[at].link == LINK_UP && raft_has_state(&p->raft)) return has_spoken(&p->cluster->contacts[at]) ? at : NO_CONTACT;
    for (uint32_t tries = 0; tries < p->cluster->contact_high; tries++) {
        uint32_t other = p->cluster->lead.asked++ % p->cluster->contact_high;
        if (has_spoken(&p->cluster->contacts[other])) return other;
    }
    return NO_CONTACT;
}

void join_tick(peer *p) {
    if (!peer_is_leader(p) && lead_run_is_over(p)) {
        p->over = true;
        peer_effect(p, EFFECT_EXIT);
        return;
    }
    if (p->leaving && !p->over && !p->cluster->rejoin_first) leave_tick(p);
    if (p->me != 0 || p->over) return;
    bool leaves = p->leaving && !p->cluster->rejoin_first;
    if (peer_is_leader(p)) {
        if (leaves) leader_takes_leave_of_itself(p);
        else leader_admits_itself(p);
        return;
    }
    if (leaves) return;
    if (p->cluster->join_sent_ns != 0 && p->now < p->cluster->join_sent_ns + TIMING_REPEAT_NS) {
        peer_wake_at(p, p->cluster->join_sent_ns + TIMING_REPEAT_NS);
        return;
    }
    uint32_t at = who_answers_join(p);
    if (at == NO_CONTACT) return;
    message_join *join = &peer_compose(p, MESSAGE_JOIN)->u.join;
    join->kind = (uint8_t)p->config.kind;
    join->stage = p->config.stage;
    join->capacity = p->config.capacity;
    join->incarnation = p->config.random_seed;
    join->store = p->raft.store;
    join->share = p->config.share;
    join->text = p->config.text;
    join->host = p->config.host;
    memcpy(join->address, p->config.address, WIRE_MAX_ADDRESS);
    if (peer_send(p, at, 0)) p->cluster->join_sent_ns = p->now;
}

// ---- the leader ---------------------------------------------------------------------------------

static void dismiss(peer *p, uint32_t who, join_refusal why) {
    peer_compose(p, MESSAGE_DISMISS)->u.dismiss.refusal = (uint8_t)why;
    peer_send(p, who, 0);
}

void on_join(peer *p, uint32_t from, const message *msg) {
    const message_join *join = &msg->u.join;
    if (from == NO_CONTACT) return;
    contact_add(p, &p->cluster->contacts[from].id, join->address);  // its present address; the log may have an older one
    if (!peer_is_leader(p)) {
        p->cluster->contacts[from].asks_in_ns = p->now;
        lead_send(p, from);
        if (!lead_is_voter(p, &p->cluster->contacts[from].id)) return;
        if (msg->log_position < p->state.position) log_send_snapshot(p, from, p->state.position);
        else log_send_addresses(p, from);
        return;
    }
    cluster_contact *c = &p->cluster->contacts[from];
    if (c->joining || join->capacity == 0) return;
    // it is a member and has not read that yet. A joiner that has read its MEMBER entry has
    // discarded its membership
    if (c->member != 0 && c->incarnation == join->incarnation && msg->log_position < c->member) {
        log_send_from(p, from, msg->log_position + 1);
        return;
    }
    uint16_t stage;
    // the run is ending: it is dismissed when all is saved; a rollback may need it until then
    if (p->leader->phase >= LEADER_SAVING_LAST && !rollback_is_likely(p)) {
        if (c->member != 0) leader_remove(p, c->member, EXPEL_RETURNED);
        return;
    }
    if (!place_joiner(p, from, join, &stage)) {
        if (join->kind != MEMBER_SHADOW) dismiss(p, from, REFUSAL_FULL);  // a standby waits until it is needed
        else if (c->member != 0) leader_remove(p, c->member, EXPEL_RETURNED);  // its older membership is over
        return;
    }
    join_refusal why;
    if (join->kind == MEMBER_DATA && !admit_share(p, &c->id, join->share, &join->text, &why)) {
        if (why != REFUSAL_NONE) dismiss(p, from, why);
        return;
    }
    log_entry entry = {.kind = LOG_MEMBER};
    entry.u.member = (log_member){.peer = c->id, .stage = stage, .kind = join->kind, .capacity = join->capacity, .incarnation = join->incarnation, .store = join->store, .host = join->host};
    memcpy(entry.u.member.address, join->address, WIRE_MAX_ADDRESS);
    if (!log_append(p, &entry)) return;
    if (leader_move_target(p, &c->id) != 0) p->leader->move.pending = false;
    c->joiner.may_move = join->stage == 0;
    c->joining = true;
    c->joiner.kind = join->kind;
    c->joiner.stage = stage;
    c->joiner.capacity = join->capacity;
}

// True if the sender has discarded the membership that the log still has (a snapshot replaced its
// log).
static bool left_behind(const cluster_contact *c, const message *msg) { return c->member != 0 && msg->sender == 0 && msg->log_position >= c->member; }

void on_leave(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT) return;
    cluster_contact *c = &p->cluster->contacts[from];
    if (peer_is_leader(p) && left_behind(c, msg)) leader_remove(p, c->member, EXPEL_LEFT);
    c->departing = peer_is_leader(p) && c->member != 0;
    if (peer_is_leader(p) && c->member == 0 && !lead_is_voter(p, &c->id)) dismiss(p, from, REFUSAL_NONE);
}

void on_dismiss(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT) return;
    const cluster_contact *c = &p->cluster->contacts[from];
    // a voter with a newer log may have been the leader of an END that this peer missed, and will
    // not repeat it
    bool knows_more = p->me != 0 && msg->log_position > p->state.position && (c->member != 0 || lead_is_voter(p, &c->id));
    if (peer_is_leader(p)) return;
    if (!run_state_is_complete(&p->state) && !knows_more && !id_equal(&c->id, &p->cluster->lead.id)) {
        if (p->me != 0 && msg->log_position > p->cluster->lead.shutdown_position) p->cluster->lead.shutdown_position = msg->log_position;
        return;
    }
    if (p->me == 0 && !p->leaving) {
        refuse_myself(p, (join_refusal)msg->u.dismiss.refusal);
        return;
    }
    p->over = true;  // the run is complete
    peer_effect(p, EFFECT_EXIT);
}

void leader_remove(peer *p, member_id who, uint8_t reason) {
    cluster_member *m = member_find(p, who);
    if (m == NULL || m->expelling || who == p->me) return;
    log_entry entry = {.kind = LOG_EXPEL};
    entry.u.expel = (log_expel){.member = who, .reason = reason};
    m->expelling = log_append(p, &entry);
}

// True if it has the state and was heard within TIMING_FRESH_NS. Not being suspected is not enough
// for decisions that may lose the last copy.
static bool has_state(const peer *p, const cluster_member *m) {
    const cluster_contact *c = m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact];
    if (c != NULL && (c->link != LINK_UP || p->now - c->timing.heard_ns >= TIMING_FRESH_NS)) return false;
    if (c == NULL) return p->newest_block != UINT64_MAX && p->oldest_block + 1 >= p->state.iteration;  // of the version before FINAL, as for other members
    return c->beat.ready != 0 && c->beat.ready >= p->state.iteration;
}

static bool is_up_to_date(const peer *p, const cluster_member *m) {
    return m->contact == NO_CONTACT ? p->ready && p->version == p->state.iteration : p->cluster->contacts[m->contact].beat.ready > p->state.iteration;
}

bool member_is_whole(const peer *p, const cluster_member *m) { return !m->expelling && has_state(p, m) && is_up_to_date(p, m); }

// True if another member, or a standby, has the whole newest state. A member that is behind does
// not count: it may need `m`.
bool stage_has_another(const peer *p, const cluster_member *m) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *other = &p->cluster->members[i];
        if (other != m && other->keeps == m->keeps && member_is_whole(p, other)) return true;
    }
    return false;
}

static bool has_reported(const stage_round *r, member_id who) {
    for (uint32_t i = 0; i < r->reports; i++)
        if (r->reporter[i] == who) return true;
    return false;
}

// At FINAL: another member that stays and can make version t + 1, 0: none. `skip`: any member with
// version t can.
static member_id keeper_of(const peer *p, const cluster_member *m, bool skip) {
    const stage_round *r = &p->leader->round[m->keeps];
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *other = &p->cluster->members[i];
        bool stays = other->contact == NO_CONTACT || !p->cluster->contacts[other->contact].departing;
        if (other == m || other->stage != m->keeps || other->expelling || !stays || !has_state(p, other)) continue;
        if (skip || has_reported(r, other->id)) return other->id;
    }
    return 0;
}

member_id leader_keeper(const peer *p, const cluster_member *m) { return keeper_of(p, m, p->state.final.u.final.skip); }

// FINAL is being appended, and `m` is the only member that can make the next version: it reported
// the results, or, if nothing counts, has this version. Before that the aggregation is repeated
// without a removed member.
static bool is_only_source_of_next_version(const peer *p, const cluster_member *m) {
    const peer_leader *l = p->leader;
    if (l->phase != LEADER_FINISHING || member_is_standby(m)) return false;
    if (l->close.tokens == 0) return !stage_has_another(p, m);
    return has_reported(&l->round[m->stage], m->id) && keeper_of(p, m, false) == 0;
}

// Decides whether a suspected member is removed:
//   1. Its port refuses connections, so the process is gone: remove it.
//   2. It is only silent: remove it if it is replaceable, since silence may end. Replaceable means
//      that another member of its stage has the state, or that before the first FINAL the start
//      state can be had without it.
//   3. Never remove the only reader of the start checkpoint while a stage still needs it, nor the
//      only maker of the next version.
void leader_remove_silent(peer *p, member_id who) {
    const cluster_member *m = member_find(p, who);
    bool refused = p->cluster->contacts[m->contact].refused_ns != 0;
    bool at_start = p->state.iteration == p->state.start_version && rollback_start_available(p);
    bool replaceable = (at_start && failover_has_successor(p, m)) || (stage_has_another(p, m) && !rollback_needs(p, m));
    if (refused || !p->state.started || (replaceable && !is_only_source_of_next_version(p, m))) leader_remove(p, who, EXPEL_DEAD);
}

void leader_dismiss(peer *p, bool failed) {
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        if (!p->cluster->contacts[i].used || p->cluster->contacts[i].link != LINK_UP) continue;
        dismiss(p, i, REFUSAL_NONE);
    }
    p->over = true;
    effect *e = peer_effect(p, EFFECT_EXIT);
    if (e != NULL) e->failed = failed || (p->state.has_final && final_is_hopeless(p, &p->state.final.u.final));
}

// ---- the start ----------------------------------------------------------------------------------

static bool gathered(const peer *p) {
    uint32_t data = 0, relays = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        data += p->cluster->members[i].kind == MEMBER_DATA;
        relays += p->cluster->members[i].kind == MEMBER_RELAY;
    }
    for (uint16_t s = 0; s < p->run.stages; s++)
        if (member_count_stage(p, s) == 0) return false;
    return data >= p->run.start_data_peers && relays >= p->run.start_relays && private_gathered(p);
}

static void start_run(peer *p) {
    member_id data[WIRE_MAX_STAGE_MEMBERS];
    uint32_t count = peer_members(p, 0, data, WIRE_MAX_STAGE_MEMBERS);
    if (log_room(p) < p->run.slots + 1u) return;
    for (uint16_t s = 0; s < p->run.slots; s++) {
        log_entry entry = {.kind = LOG_OWNER};
        entry.u.owner = (log_owner){.slot = s, .member = p->run.shares > 0 ? private_owner(p, s) : data[s % count]};
        log_append(p, &entry);
    }
    log_entry entry = {.kind = LOG_RUN};
    entry.u.run = (log_run){.description = p->run.description, .generation = 1, .start_version = p->state.start_version};
    log_append(p, &entry);
    p->leader->phase = LEADER_RUNNING;
    p->leader->begun_ns = p->now;
}

bool leader_can_spare(const peer *p, const cluster_member *m) {
    return leader_keeper(p, m) != 0 && (member_is_standby(m) || failover_has_successor(p, m)) && !rollback_loses(p, m);
}

void leader_release_leaving(peer *p) {
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        const cluster_member *m = c->used && c->departing ? member_find(p, c->member) : NULL;
        if (m == NULL || m->expelling) continue;
        if (!p->state.started || leader_can_spare(p, m) || peer_breaks(p, PEER_MUTANT_LETS_THE_LAST_GO)) leader_remove(p, c->member, EXPEL_LEFT);
    }
}

// True if no remaining member has its state (rule J12).
static bool is_last(const peer *p, const cluster_member *m) {
    if (member_is_standby(m) || m->stage == 0) return false;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *other = &p->cluster->members[i];
        bool remains = other->contact == NO_CONTACT || !p->cluster->contacts[other->contact].departing;
        if (other != m && other->keeps == m->keeps && remains && !other->expelling && has_state(p, other)) return false;
    }
    return true;
}

// True if a checkpoint is being written, or CHECKPOINT is not committed, or data peers still look
// for the files.
static bool save_is_pending(const peer *p) {
    const peer_leader *l = p->leader;
    const stored_checkpoints *b = &p->chunks->stored;
    return l->save_wanted || l->saving || l->checkpoint_due || b->looking || b->looked < p->state.checkpoint_count;
}

// A member that alone has its state leaves as soon as a checkpoint of the present version is
// complete and in the log. Nothing is lost with it, and the run continues from there when another
// peer joins. FINAL waits meanwhile, because it would make a version that is not saved.
void leader_release_last(peer *p) {
    peer_leader *l = p->leader;
    bool awaited = l->awaits_save;
    l->awaits_save = false;
    // In the iteration that a resumed run began with, its first leader alone has the start (rule G3), so
    // no rollback to another checkpoint of that version would follow: the member stays for FINAL.
    if (!peer_makes(p, p->state.start_version) && p->state.iteration == p->state.start_version) return;
    if (!p->run.save || l->phase < LEADER_RUNNING || l->phase > LEADER_DECIDED) return;
    // its checkpoint or its removal is being appended: FINAL must not overtake what follows from it
    if (p->raft.last != p->state.position) {
        l->awaits_save = awaited;
        return;
    }
    bool due = l->save_tried_ns == 0 || p->now >= l->save_tried_ns + TIMING_EXPEL_SILENCE_NS;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        const cluster_member *m = c->used && c->departing ? member_find(p, c->member) : NULL;
        if (m == NULL || m->expelling || !is_last(p, m)) continue;
        if (rollback_is_kept(p, p->state.iteration) || peer_breaks(p, PEER_MUTANT_LETS_THE_LAST_GO)) {
            leader_remove(p, c->member, EXPEL_LEFT);
            l->awaits_save |= m->expelling;
            continue;
        }
        if (due) l->save_tried_ns = p->now;
        l->save_wanted |= due;
        l->awaits_save |= save_is_pending(p);
    }
}

void leader_begin_iteration(peer *p) {
    peer_leader *l = p->leader;
    private_next_iteration(p);
    l->phase = LEADER_RUNNING;
    memset(l->settled, 0, p->microbatches * sizeof *l->settled);
    l->close_index = 0;
    l->begun_ns = p->now;
    for (uint16_t s = 0; s < p->run.stages; s++) {
        stage_round *r = &l->round[s];
        double *norm2 = r->norm2;
        memset(r, 0, sizeof *r);
        r->norm2 = norm2;
    }
}

void leader_tick(peer *p) {
    if (!peer_is_leader(p)) return;
    if (p->leader->phase == LEADER_GATHERING) {
        leader_attest(p);
        leader_release_leaving(p);
        if (p->drain_ns != 0) leader_dismiss(p, false);  // nothing was begun
        else if (gathered(p)) start_run(p);
        return;
    }
    if (p->leader->phase == LEADER_OVER) {  // independent of the members
        const log_entry end = {.kind = LOG_END};
        if (!p->over && !p->leader->end_appended && !rollback_under_way(p)) p->leader->end_appended = log_append(p, &end);
        return;
    }
    leader_release_last(p);
    private_lead(p);
    failover_lead(p);
    standby_tick(p);
    rollback_lead(p);
    if (rollback_under_way(p)) return;
    leader_attest(p);
    close_tick(p);
    save_tick(p);
}
