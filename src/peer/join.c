// Coming and going: JOIN, the stage that a joiner gets, LEAVE, expulsion, the start of the run.
#include "peer/internal.h"

#include <string.h>

static uint32_t data_peers(const peer *p, uint32_t from) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->member_count; i++) count += p->members[i].stage == 0 && p->members[i].contact != from;
    for (uint32_t i = 0; i < p->contact_high; i++) count += p->contacts[i].used && p->contacts[i].joining && p->contacts[i].join_kind == MEMBER_DATA;
    return count;
}

// The stage that this process belonged to last, or belongs to as far as it is known here: its log may have begun afresh. 0: to none.
static uint16_t stage_before(const peer *p, uint32_t from, const message_join *join) {
    uint16_t was = 0;
    for (uint32_t i = 0; i < PEER_KEPT_FORMER; i++) {  // the newest last
        const former *f = &p->former[(p->next_former + i) % PEER_KEPT_FORMER];
        if (f->incarnation == join->incarnation) was = f->stage;
    }
    const contact *c = from == NO_CONTACT ? NULL : &p->contacts[from];
    const member *older = c == NULL || c->incarnation != join->incarnation ? NULL : member_find(p, c->member);
    return older == NULL ? was : older->keeps;
}

// It comes from a stage of which nobody else is left at this version, and has its state still. A relay may be needed elsewhere more, where
// the state is to be had without it; a shadow is of use nowhere else.
static bool has_what_is_lost(const peer *p, uint32_t from, const message_join *join, uint16_t *stage) {
    uint16_t was = stage_before(p, from, join);
    uint32_t count = 0;
    bool given = rollback_is_given(p) && rollback_to_be_had(p);
    if (was == 0 || !p->run_started || (join->kind == MEMBER_RELAY && given)) return false;
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *m = &p->members[i];
        if (m->keeps != was || m->contact == from) continue;
        count++;
        if (leader_sees_at_version(p, m) && member_answers(p, m->id)) return false;
    }
    *stage = was;
    return count < WIRE_MAX_STAGE_MEMBERS;
}

// The stage that it wishes, unless the run waits for somebody in another one; else where it helps most: least capacity that answers,
// those on their way in counted.
static bool place(const peer *p, uint32_t from, const message_join *join, uint16_t *stage) {
    bool wished = false, nobody = false;
    *stage = 0;
    bool again = from != NO_CONTACT && p->contacts[from].member != 0;  // its older self goes
    if (p->member_count == WIRE_MAX_MEMBERS && !again) return false;
    if (join->kind != MEMBER_DATA && has_what_is_lost(p, from, join, stage)) return true;
    if (join->kind == MEMBER_SHADOW) return shadow_place(p, from, join, stage);
    if (join->kind == MEMBER_DATA) return data_peers(p, from) < WIRE_MAX_STAGE_MEMBERS;
    uint64_t least = UINT64_MAX;
    for (uint16_t s = 1; s < p->run.stages; s++) {
        uint64_t capacity = 0;
        uint32_t count = 0;
        for (uint32_t i = 0; i < p->member_count; i++) {
            if (p->members[i].stage != s || p->members[i].contact == from) continue;  // its older self goes
            if (member_answers(p, p->members[i].id)) capacity += p->members[i].capacity;
            count++;
        }
        for (uint32_t i = 0; i < p->contact_high; i++) {
            const contact *c = &p->contacts[i];
            if (!c->used || !c->joining || c->join_stage != s || c->join_kind == MEMBER_SHADOW) continue;
            capacity += c->join_capacity;
            count++;
        }
        if (count >= WIRE_MAX_STAGE_MEMBERS) continue;
        wished |= s == join->stage;
        nobody |= count == 0;
        // of stages where nobody answers, the one that has nobody: the others may come back; and of those one that no shadow could work for
        capacity = 4 * capacity + 2u * (count > 0) + (capacity == 0 && shadow_keeps(p, s));
        if (capacity < least) {
            least = capacity;
            *stage = s;
        }
    }
    if (wished && !(nobody && p->run_started)) *stage = join->stage;
    return *stage != 0;
}

// ---- the joiner ---------------------------------------------------------------------------------------------------

static const char *refusal_text(join_refusal why) {
    static const char *const text[REFUSALS] = {
        [REFUSAL_NONE] = "the run is over",
        [REFUSAL_FULL] = "the run has as many peers of this kind as it may have",
        [REFUSAL_NO_TEXT] = "the run's data are private: a data peer brings a text of its own",
        [REFUSAL_TAKEN] = "this share of the private data is another peer's; ask for another one, or come with the identity (--identity) that has it",
        [REFUSAL_NO_SHARE] = "there is no such share of the private data, or each is another peer's; who comes back needs the identity (--identity) that it had",
        [REFUSAL_OTHER_SHARE] = "this peer has another share of the private data; leave out --share, or come as another peer",
        [REFUSAL_OTHER_TEXT] = "this peer came with another text before: bring the same one, since its microbatches are made of that",
    };
    return text[why];
}

static void refuse_myself(peer *p, join_refusal why) {
    p->over = true;
    tell t = {.kind = TELL_REFUSED, .text = refusal_text(why)};
    peer_tell(p, &t);
    peer_effect(p, EFFECT_EXIT);
}

// Puts a data peer's share into the log. False: not now (`why` says nothing), or never.
static bool admit_share(peer *p, const braid_id *who, uint16_t wish, const braid_hash *text, join_refusal *why) {
    *why = REFUSAL_NONE;
    if (p->run.shares == 0) return true;
    if (p->raft.last != p->log_position || log_room(p) < 2) return false;  // an entry under way may take the share
    log_entry entry;
    *why = private_admit(p, who, wish, text, &entry);
    if (*why != REFUSAL_NONE) return false;
    return entry.kind == LOG_NONE || log_append(p, &entry);
}

// What it was before is a member to all others, and is no more: a shadow, say, that did the work of a stage, and is not needed as one now.
static void leader_takes_leave_of_itself(peer *p) {
    const log_entry entry = {.kind = LOG_EXPEL, .u.expel = {.member = p->before.index, .reason = EXPEL_RETURNED}};
    if (p->before.index != 0 && p->raft.last == p->log_position) log_append(p, &entry);
}

static void leader_admits_itself(peer *p) {
    const message_join wish = {.kind = (uint8_t)p->config.kind, .stage = p->config.stage};
    uint16_t stage;
    join_refusal why;
    if (p->leader.admitted) return;
    if (!place(p, NO_CONTACT, &wish, &stage)) {
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
    p->leader.admitted = log_append(p, &entry);
}

// A voter stays until it is replaced: without it the others might be too few to do that.
void leave_when_free(peer *p) {
    p->leaving = true;
    if (p->me != 0 || p->stands_again || lead_is_voter(p, &p->config.self)) return;
    p->over = true;
    peer_effect(p, EFFECT_EXIT);
}

static void tell_alone(peer *p) {
    tell t = {.kind = TELL_ALONE, .stage = p->stage, .member = p->me};
    if (p->alone_told || p->me == 0 || p->stage == 0 || p->shadow || member_count_stage(p, p->stage) > 1) return;
    p->alone_told = true;
    peer_tell(p, &t);
}

// Asks to be let go until the log says so, or until a leader says that it votes no more.
static void leave_tick(peer *p) {
    tell_alone(p);
    if (p->join_sent_ns == 0 || p->now >= p->join_sent_ns + TIMING_REPEAT_NS) {
        peer_compose(p, MESSAGE_LEAVE)->u.leave.reason = EXPEL_LEFT;
        p->join_sent_ns = peer_send_leader(p) ? p->now : 0;
    }
    peer_wake_at(p, p->now + TIMING_REPEAT_NS);
}

// Its first word, a heartbeat, says where its log stands.
static bool has_spoken(const contact *c) { return c->used && c->link == LINK_UP && c->log_known; }

// The leader. Where that was said to be may be where an earlier life of it was: while no link to it comes about, the others in
// turn, who say where it is (on_join). So does a voter that lacks the state: nobody may be elected without it, and who has the state
// sends it.
static uint32_t who_answers_join(peer *p) {
    uint32_t at = contact_find(p, &p->lead.id);
    if (at != NO_CONTACT && p->contacts[at].link == LINK_UP && raft_has_state(&p->raft)) return has_spoken(&p->contacts[at]) ? at : NO_CONTACT;
    for (uint32_t tries = 0; tries < p->contact_high; tries++) {
        uint32_t other = p->lead.asked++ % p->contact_high;
        if (has_spoken(&p->contacts[other])) return other;
    }
    return NO_CONTACT;
}

void join_tick(peer *p) {
    if (!peer_is_leader(p) && lead_has_gone_home(p)) {
        p->over = true;
        peer_effect(p, EFFECT_EXIT);
        return;
    }
    if (p->leaving && !p->over && !p->stands_again) leave_tick(p);
    if (p->me != 0 || p->over) return;
    bool leaves = p->leaving && !p->stands_again;
    if (peer_is_leader(p)) {
        if (leaves) leader_takes_leave_of_itself(p);
        else leader_admits_itself(p);
        return;
    }
    if (leaves) return;
    if (p->join_sent_ns != 0 && p->now < p->join_sent_ns + TIMING_REPEAT_NS) {
        peer_wake_at(p, p->join_sent_ns + TIMING_REPEAT_NS);
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
    if (peer_send(p, at, 0)) p->join_sent_ns = p->now;
}

// ---- the leader ---------------------------------------------------------------------------------------------------

static void dismiss(peer *p, uint32_t who, join_refusal why) {
    message_leave *leave = &peer_compose(p, MESSAGE_LEAVE)->u.leave;
    leave->reason = EXPEL_LEFT;
    leave->refusal = (uint8_t)why;
    leave->dismissed = true;
    peer_send(p, who, 0);
}

void on_join(peer *p, uint32_t from, const message *msg) {
    const message_join *join = &msg->u.join;
    if (from == NO_CONTACT) return;
    contact_add(p, &p->contacts[from].id, join->address);  // where it is now; the log may name where it was
    if (!peer_is_leader(p)) {
        p->contacts[from].asks_in_ns = p->now;
        send_leader(p, from);
        if (!lead_is_voter(p, &p->contacts[from].id)) return;
        if (msg->log_position < p->log_position) log_send_snapshot(p, from, p->log_position);
        else log_send_addresses(p, from);
        return;
    }
    contact *c = &p->contacts[from];
    if (c->joining || join->capacity == 0) return;
    // it is one, and does not know yet; but one that has read its MEMBER entry and asks all the same starts afresh
    if (c->member != 0 && c->incarnation == join->incarnation && msg->log_position < c->member) {
        log_send_from(p, from, msg->log_position + 1);
        return;
    }
    uint16_t stage;
    // it is told when all is saved; until then the run may have to go back, and need it
    if (p->leader.phase >= LEADER_SAVING_LAST && !rollback_nears(p)) {
        if (c->member != 0) leader_expel(p, c->member, EXPEL_RETURNED);
        return;
    }
    if (!place(p, from, join, &stage)) {
        if (join->kind != MEMBER_SHADOW) dismiss(p, from, REFUSAL_FULL);  // a shadow waits until it is needed
        else if (c->member != 0) leader_expel(p, c->member, EXPEL_RETURNED);  // what it was it is no more
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
    c->joining = true;
    c->join_kind = join->kind;
    c->join_stage = stage;
    c->join_capacity = join->capacity;
}

// It has read that it is a member and is that one no more (its log began afresh): nobody else speaks for that one.
static bool left_behind(const contact *c, const message *msg) { return c->member != 0 && msg->sender == 0 && msg->log_position >= c->member; }

void on_leave(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT) return;
    contact *c = &p->contacts[from];
    if (!msg->u.leave.dismissed) {
        if (peer_is_leader(p) && left_behind(c, msg)) leader_expel(p, c->member, EXPEL_LEFT);
        c->departing = peer_is_leader(p) && c->member != 0;
        if (peer_is_leader(p) && c->member == 0 && !lead_is_voter(p, &c->id)) dismiss(p, from, REFUSAL_NONE);
        return;
    }
    // a voter may have led since something that I missed, and will not say so again
    bool knows_more = p->me != 0 && msg->log_position > p->log_position && (c->member != 0 || lead_is_voter(p, &c->id));
    if (peer_is_leader(p)) return;
    if (!run_is_complete(p) && !knows_more && !id_equal(&c->id, &p->lead.id)) {
        if (p->me != 0 && msg->log_position > p->lead.farewell) p->lead.farewell = msg->log_position;
        return;
    }
    if (p->me == 0 && !p->leaving) {
        refuse_myself(p, (join_refusal)msg->u.leave.refusal);
        return;
    }
    p->over = true;  // the run is complete
    peer_effect(p, EFFECT_EXIT);
}

void leader_expel(peer *p, member_id who, uint8_t reason) {
    member *m = member_find(p, who);
    if (m == NULL || m->expelling || who == p->me) return;
    log_entry entry = {.kind = LOG_EXPEL};
    entry.u.expel = (log_expel){.member = who, .reason = reason};
    m->expelling = log_append(p, &entry);
}

// Heard a moment ago, not only not yet suspected: what only it has may depend on it.
static bool has_state(const peer *p, const member *m) {
    const contact *c = m->contact == NO_CONTACT ? NULL : &p->contacts[m->contact];
    if (c != NULL && (c->link != LINK_UP || p->now - c->timing.heard_ns >= TIMING_FRESH_NS)) return false;
    if (c == NULL) return p->newest_block != UINT64_MAX && p->oldest_block + 1 >= p->iteration;  // at FINAL of the version before, as theirs is
    return c->beat.ready != 0 && c->beat.ready >= p->iteration;
}

static bool is_up_to_date(const peer *p, const member *m) {
    return m->contact == NO_CONTACT ? p->ready && p->version == p->iteration : p->contacts[m->contact].beat.ready > p->iteration;
}

bool member_is_whole(const peer *p, const member *m) { return !m->expelling && has_state(p, m) && is_up_to_date(p, m); }

// Somebody else, who may be a shadow, answers and has the whole newest state: who is behind may need what this one has.
bool stage_has_another(const peer *p, const member *m) {
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *other = &p->members[i];
        if (other != m && other->keeps == m->keeps && member_is_whole(p, other)) return true;
    }
    return false;
}

static bool has_reported(const stage_round *r, member_id who) {
    for (uint32_t i = 0; i < r->reports; i++)
        if (r->reporter[i] == who) return true;
    return false;
}

// At FINAL: somebody else stays who has what version t + 1 is made of; `skip`: it is made of nothing new.
static bool stage_keeps(const peer *p, const member *m, bool skip) {
    const stage_round *r = &p->leader.round[m->keeps];
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *other = &p->members[i];
        bool stays = other->contact == NO_CONTACT || !p->contacts[other->contact].departing;
        if (other == m || other->stage != m->keeps || other->expelling || !stays || !has_state(p, other)) continue;
        if (skip || has_reported(r, other->id)) return true;
    }
    return false;
}

// FINAL is on its way into the log. From then on the next version is needed, and only those have what it is made of who reported that; where
// nothing counts, those who have this one. (Before, it is reduced again without whoever is expelled.)
static bool makes_the_next(const peer *p, const member *m) {
    const leader *l = &p->leader;
    if (l->phase != LEADER_FINISHING || member_is_shadow(m)) return false;
    if (l->close.tokens == 0) return !stage_has_another(p, m);
    return has_reported(&l->round[m->stage], m->id) && !stage_keeps(p, m, false);
}

// Silence may end; a port that answers "nobody here" does not take it back. So whom nobody can replace is waited for. Until
// the first FINAL is on its way into the log anybody can: the state is that of the start, which everybody can make, or the first leader has, or of a
// checkpoint that somebody here can read. And who alone can read it is waited for until every stage has its state.
void leader_lose(peer *p, member_id who) {
    const member *m = member_find(p, who);
    bool refused = p->contacts[m->contact].refused_ns != 0;
    bool at_start = p->iteration == p->run.start_version && rollback_to_be_had(p);
    bool replaceable = (at_start && takeover_has_heir(p, m)) || (stage_has_another(p, m) && !rollback_needs(p, m));
    if (refused || !p->run_started || (replaceable && !makes_the_next(p, m))) leader_expel(p, who, EXPEL_DEAD);
}

void leader_dismiss(peer *p, bool failed) {
    for (uint32_t i = 0; i < p->contact_high; i++) {
        if (!p->contacts[i].used || p->contacts[i].link != LINK_UP) continue;
        dismiss(p, i, REFUSAL_NONE);
    }
    p->over = true;
    effect *e = peer_effect(p, EFFECT_EXIT);
    if (e != NULL) e->failed = failed || (p->has_final && final_is_hopeless(p, &p->final.u.final));
}

// ---- the start ----------------------------------------------------------------------------------------------------

static bool gathered(const peer *p) {
    uint32_t data = 0, relays = 0;
    for (uint32_t i = 0; i < p->member_count; i++) {
        data += p->members[i].kind == MEMBER_DATA;
        relays += p->members[i].kind == MEMBER_RELAY;
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
    entry.u.run = (log_run){.description = p->run.description, .generation = 1, .start_version = p->run.start_version};
    log_append(p, &entry);
    p->leader.phase = LEADER_RUNNING;
    p->leader.begun_ns = p->now;
}

void leader_let_go(peer *p) {
    for (uint32_t i = 0; i < p->contact_high; i++) {
        const contact *c = &p->contacts[i];
        const member *m = c->used && c->departing ? member_find(p, c->member) : NULL;
        if (m == NULL || m->expelling) continue;
        bool spared = stage_keeps(p, m, p->final.u.final.skip) && (member_is_shadow(m) || takeover_has_heir(p, m));
        if (!p->run_started || spared || peer_breaks(p, PEER_MUTANT_LETS_THE_LAST_GO)) leader_expel(p, c->member, EXPEL_LEFT);
    }
}

// It has a state that no member that stays has: the last one of its stage, or of those that stay.
static bool is_last(const peer *p, const member *m) {
    if (member_is_shadow(m) || m->stage == 0) return false;
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *other = &p->members[i];
        bool stays = other->contact == NO_CONTACT || !p->contacts[other->contact].departing;
        if (other != m && other->keeps == m->keeps && stays && !other->expelling && has_state(p, other)) return false;
    }
    return true;
}

// Under way, in the log's queue, or in the log and looked for on the disks.
static bool save_is_pending(const peer *p) {
    const leader *l = &p->leader;
    return l->save_wanted || l->saving || l->checkpoint_due || p->past.looking || p->past.looked < p->past.checkpoints;
}

// No other peer has its state, so it leaves as soon as a checkpoint of the present version is
// complete and in the log: nothing is lost with it, and the run goes on from there when another
// peer comes. FINAL waits meanwhile, for it would make a version that is not saved.
void leader_let_last_go(peer *p) {
    leader *l = &p->leader;
    bool awaited = l->awaits_save;
    l->awaits_save = false;
    if (!p->run.save || l->phase < LEADER_RUNNING || l->phase > LEADER_DECIDED) return;
    // Its checkpoint or its expulsion is on its way into the log: FINAL must not overtake what follows from it.
    if (p->raft.last != p->log_position) {
        l->awaits_save = awaited;
        return;
    }
    bool due = l->save_tried_ns == 0 || p->now >= l->save_tried_ns + TIMING_EXPEL_SILENCE_NS;
    for (uint32_t i = 0; i < p->contact_high; i++) {
        const contact *c = &p->contacts[i];
        const member *m = c->used && c->departing ? member_find(p, c->member) : NULL;
        if (m == NULL || m->expelling || !is_last(p, m)) continue;
        if (rollback_is_saved(p, p->iteration) || peer_breaks(p, PEER_MUTANT_LETS_THE_LAST_GO)) {
            leader_expel(p, c->member, EXPEL_LEFT);
            l->awaits_save |= m->expelling;
            continue;
        }
        if (due) l->save_tried_ns = p->now;
        l->save_wanted |= due;
        l->awaits_save |= save_is_pending(p);
    }
}

void leader_begin_iteration(peer *p) {
    leader *l = &p->leader;
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
    if (p->leader.phase == LEADER_GATHERING) {
        fetch_vouch(p);
        leader_let_go(p);
        if (p->leader.drain_ns != 0) leader_dismiss(p, false);  // nothing was begun
        else if (gathered(p)) start_run(p);
        return;
    }
    if (p->leader.phase == LEADER_OVER) {  // whoever comes or goes now
        const log_entry end = {.kind = LOG_END};
        if (!p->over && !p->leader.end_appended && !rollback_under_way(p)) p->leader.end_appended = log_append(p, &end);
        return;
    }
    leader_let_last_go(p);
    private_lead(p);
    takeover_lead(p);
    shadow_lead(p);
    rollback_lead(p);
    if (rollback_under_way(p)) return;
    fetch_vouch(p);
    close_tick(p);
    save_tick(p);
}
