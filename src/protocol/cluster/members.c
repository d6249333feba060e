// Who is there: links, live members of the log, suspicion, heartbeats, CAN TAKE.
#include "protocol/internal.h"

#include <string.h>

void contact_touch(peer *p, uint32_t index) { p->contact_block[index / PEER_CONTACT_BLOCK].due_ns = 0; }

void contacts_touch(peer *p) {
    for (uint32_t i = 0; i < PEER_CONTACT_BLOCKS; i++) p->contact_block[i].due_ns = 0;
}

static uint32_t hint_of(const braid_id *id) { return (id->bytes[0] | (uint32_t)id->bytes[1] << 8) % PEER_CONTACT_HINTS; }

_Static_assert((int)PEER_MAX_CONTACTS < (int)PEER_CONTACT_HINTS, "a search for an unknown id comes to an empty place");

// Who is forgotten stays in the table until somebody new comes.
uint32_t contact_find(const peer *p, const braid_id *id) {
    for (uint32_t at = hint_of(id); p->contact_at[at] != 0; at = (at + 1) % PEER_CONTACT_HINTS) {
        const contact *c = &p->contacts[p->contact_at[at] - 1];
        if (c->used && id_equal(&c->id, id)) return (uint32_t)(c - p->contacts);
    }
    return NO_CONTACT;
}

static void index_contacts(peer *p) {
    memset(p->contact_at, 0, sizeof p->contact_at);
    for (uint32_t i = 0; i < p->contact_high; i++) {
        if (!p->contacts[i].used) continue;
        uint32_t at = hint_of(&p->contacts[i].id);
        while (p->contact_at[at] != 0) at = (at + 1) % PEER_CONTACT_HINTS;
        p->contact_at[at] = (uint16_t)(i + 1);
    }
}

static bool is_sought(const peer *p, const contact *c);
static void contact_forget(peer *p, contact *c);

// The one that has been here longest and is nothing to the run: anybody may link, and say nothing for ever.
static uint32_t stranger_leaves(peer *p) {
    uint32_t oldest = NO_CONTACT;
    for (uint32_t i = 0; i < p->contact_high; i++) {
        const contact *c = &p->contacts[i];
        if (c->member != 0 || c->joining || c->link != LINK_UP || is_sought(p, c)) continue;
        if (oldest == NO_CONTACT || c->up_ns < p->contacts[oldest].up_ns) oldest = i;
    }
    effect *e = oldest == NO_CONTACT ? NULL : peer_effect(p, EFFECT_CLOSE);
    if (e == NULL) return NO_CONTACT;
    e->id = p->contacts[oldest].id;
    p->contacts[oldest].used = false;
    return oldest;
}

uint32_t contact_add(peer *p, const braid_id *id, const char *address) {
    uint32_t index = contact_find(p, id), unused = NO_CONTACT;
    for (uint32_t i = 0; index == NO_CONTACT && unused == NO_CONTACT && i < PEER_MAX_CONTACTS; i++)
        if (!p->contacts[i].used) unused = i;
    for (uint32_t i = 0; index == NO_CONTACT && unused == NO_CONTACT && i < p->contact_high; i++) {
        contact_forget(p, &p->contacts[i]);  // who voted or led when its link fell was sought then
        if (!p->contacts[i].used) unused = i;
    }
    if (index == NO_CONTACT && unused == NO_CONTACT) unused = stranger_leaves(p);
    if (index == NO_CONTACT && unused == NO_CONTACT) return NO_CONTACT;
    contact *c = &p->contacts[index == NO_CONTACT ? unused : index];
    if (index == NO_CONTACT) {
        memset(c, 0, sizeof *c);
        c->used = true;
        c->id = *id;
        c->down_ns = p->now;
        if (unused >= p->contact_high) p->contact_high = unused + 1;
        index_contacts(p);
        contact_touch(p, unused);
    }
    if (address != NULL && address[0] != '\0' && memcmp(c->address, address, sizeof c->address) != 0) {
        c->moved = c->address[0] != '\0';
        if (c->moved) c->refused_ns = 0;
        memcpy(c->address, address, sizeof c->address);
    }
    return (uint32_t)(c - p->contacts);
}

void contact_may_be_at(peer *p, const braid_id *id, const char *address) {
    uint32_t at = contact_find(p, id);
    if (at == NO_CONTACT || p->contacts[at].address[0] == '\0') {
        contact_add(p, id, address);
        return;
    }
    contact *c = &p->contacts[at];
    if (address[0] == '\0' || memcmp(c->address, address, sizeof c->address) == 0 || memcmp(c->elsewhere, address, sizeof c->elsewhere) == 0) return;
    memcpy(c->elsewhere, address, sizeof c->elsewhere);
    c->turn_elsewhere = c->link != LINK_UP;
    c->refused_ns = 0;
    contact_touch(p, at);
}

// No member, and wanted all the same: who leads, votes, or was named by the user of one who is no member either. Where who leads
// is said to be it may be no more, and then that one is all that a joiner knows.
static bool is_sought(const peer *p, const contact *c) {
    bool leads = !peer_is_leader(p) && id_equal(&c->id, &p->lead.id);
    return leads || (p->me == 0 && is_named(p, &c->id)) || lead_is_voter(p, &c->id);
}

bool is_named(const peer *p, const braid_id *id) { return id_equal(id, &p->config.leader_id) || id_equal(id, &p->config.named_id); }

void contacts_add_named(peer *p) {
    static const braid_id nobody;
    if (!p->config.leader) contact_may_be_at(p, &p->config.leader_id, p->config.leader_address);
    if (!id_equal(&p->config.named_id, &nobody)) contact_may_be_at(p, &p->config.named_id, p->config.named_address);
}

// Nobody needs it any more: not a member nor about to be one, not sought, no link.
static void contact_forget(peer *p, contact *c) {
    if (c->member == 0 && !c->joining && c->link == LINK_NONE && !is_sought(p, c)) c->used = false;
}

void contact_up(peer *p, const braid_id *id) {
    uint32_t index = contact_add(p, id, NULL);
    if (index == NO_CONTACT) {
        effect *e = peer_effect(p, EFFECT_CLOSE);
        if (e != NULL) e->id = *id;
        return;
    }
    contact *c = &p->contacts[index];
    contact_touch(p, index);
    c->turn_elsewhere = c->link == LINK_DIALING && !c->turn_elsewhere;  // where it was found it is looked for first
    c->link = LINK_UP;
    c->up_ns = p->now;
    c->links++;
    c->itself = c->was_refused = false;
    c->refused_ns = 0;
    c->redial_delay_ns = 0;
    c->log_known = false;
    if (c->timing.heard_ns == 0) timing_heard(&c->timing, p->now);
    c->timing.heard_ns = p->now;
    c->sent_ns = c->beat_sent_ns = 0;  // a heartbeat goes out at once
    c->beat.ready = c->beat_position = 0;  // and one comes: it may be another life of the peer, without the state
    p->join_sent_ns = 0;
    p->routing.stale = true;
    send_leader(p, index);
    member_refresh_flow(p);
    if (c->member != 0) send_link_back(p, c->member);
    send_retry_waiting(p);
}

void contact_down(peer *p, const braid_id *id, bool refused) {
    uint32_t index = contact_find(p, id);
    if (index == NO_CONTACT) return;
    contact *c = &p->contacts[index];
    contact_touch(p, index);
    if (c->link == LINK_UP) c->down_ns = p->now;
    c->link = LINK_NONE;
    refused &= !c->moved;  // where it was before
    const bool both = refused && c->was_refused;  // at one of two places somebody may be, though the port of the other says that nobody is there
    c->was_refused = refused;
    if (c->elsewhere[0] != '\0') refused = both;
    if (!refused) c->refused_ns = 0;
    else if (c->refused_ns == 0) c->refused_ns = p->now;
    c->redial_ns = p->now + c->redial_delay_ns;
    c->redial_delay_ns = c->redial_delay_ns == 0 ? TIMING_REDIAL_FIRST_NS : 2 * c->redial_delay_ns;
    if (c->redial_delay_ns > TIMING_REDIAL_MOST_NS) c->redial_delay_ns = TIMING_REDIAL_MOST_NS;
    p->routing.stale = true;
    member_refresh_flow(p);
    if (refused) raft_lost(&p->raft, p->now, id);
    if (c->member != 0) pulls_link_lost(p, c->member);
    if (c->member != 0) send_link_lost(p, c->member);
    if (refused && c->member != 0) send_member_gone(p, c->member);
    if (refused && c->member != 0) repair_member_gone(p, c->member, false);
    contact_forget(p, c);
}

// When all is computed, whoever is only silent may stand still, or have ended the run and be cut off while it says so; where a port refuses
// nobody is.
uint64_t contact_awaited_until(const peer *p, const contact *c, uint64_t from_ns, uint64_t patience_ns) {
    uint64_t silent_ns = c->link == LINK_UP ? c->timing.heard_ns : c->down_ns;
    bool ends = run_is_complete(p) && c->refused_ns == 0;
    if (silent_ns < from_ns) silent_ns = from_ns;
    return silent_ns + (ends && patience_ns < TIMING_HOME_NS ? TIMING_HOME_NS : patience_ns);
}

void contact_dial(peer *p, uint32_t index) {
    contact *c = &p->contacts[index];
    if (c->link != LINK_NONE || c->address[0] == '\0') return;
    effect *e = peer_effect(p, EFFECT_DIAL);
    if (e == NULL) return;
    const bool elsewhere = c->turn_elsewhere && c->elsewhere[0] != '\0';
    c->link = LINK_DIALING;
    c->moved &= elsewhere;
    c->turn_elsewhere = !elsewhere;
    contact_touch(p, index);
    e->id = c->id;
    e->address = elsewhere ? c->elsewhere : c->address;
}

// ---- members ------------------------------------------------------------------------------------------------------

member *member_find(const peer *p, member_id id) {
    uint32_t low = 0, high = p->member_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (p->members[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low < p->member_count && p->members[low].id == id ? &p->members[low] : NULL;
}

bool member_live(const peer *p, member_id id) { return id != 0 && member_find(p, id) != NULL; }

bool member_at(const peer *p, member_id id, uint16_t stage) {
    const member *m = id == 0 ? NULL : member_find(p, id);
    return m != NULL && m->stage == stage && m->contact != NO_CONTACT;
}

// Its link is there, or fell so recently that a redial may bring it back: not when it had been silent before.
static bool contact_answers(const peer *p, const contact *c) {
    if (c->link == LINK_UP) return !timing_suspect(&c->timing, p->now);
    return c->refused_ns == 0 && p->now - c->down_ns < TIMING_S && !timing_suspect(&c->timing, c->down_ns);
}

bool member_answers(const peer *p, member_id id) {
    const member *m = member_find(p, id);
    if (m == NULL) return false;
    return m->contact == NO_CONTACT || contact_answers(p, &p->contacts[m->contact]);
}

// Somebody who does not answer may be heard at any time, so that may change; who is no member stays none.
uint64_t member_answers_until(const peer *p, member_id id) {
    const member *m = member_find(p, id);
    if (m == NULL || m->contact == NO_CONTACT) return UINT64_MAX;
    const contact *c = &p->contacts[m->contact];
    uint64_t sure = c->link == LINK_UP ? timing_sure_until(&c->timing) : 0;
    return sure > p->now ? sure : 0;
}

uint32_t member_count_stage(const peer *p, uint16_t stage) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->member_count; i++) count += p->members[i].stage == stage;
    return count;
}

void member_add(peer *p, uint64_t index, const log_member *entry) {
    bool self = id_equal(&entry->peer, &p->config.self);
    if (entry->stage >= p->run.stages) return;
    if (self) p->before.index = p->before.promoted = 0;
    if (self && (entry->incarnation != p->config.random_seed || index <= p->join_floor)) {
        p->before.index = index;
        p->before.entry = *entry;
        return;
    }
    // MEMBER of a known peer id expels its older member
    uint32_t known = self ? NO_CONTACT : contact_find(p, &entry->peer);
    member_id older = self ? p->me : known == NO_CONTACT ? 0 : p->contacts[known].member;
    if (older != 0 && peer_breaks(p, PEER_MUTANT_KEEPS_ITS_NUMBER)) return;
    if (older != 0) member_remove(p, older, EXPEL_RETURNED);
    uint32_t c = self ? NO_CONTACT : contact_add(p, &entry->peer, entry->address);
    if (c != NO_CONTACT) p->contacts[c].joining = false;  // though there may be no room for it any more
    if (self) p->leader.admitted = false;
    if (p->member_count == WIRE_MAX_MEMBERS || (!self && c == NO_CONTACT)) return;
    member *m = &p->members[p->member_count++];
    contacts_touch(p);
    bool shadow = entry->kind == MEMBER_SHADOW;
    *m = (member){.id = index, .contact = c, .stage = shadow ? NO_STAGE : entry->stage, .keeps = entry->stage, .kind = entry->kind, .capacity = entry->capacity};
    tell t = {.kind = self ? TELL_JOINED : TELL_MEMBER, .member = index, .id = entry->peer, .stage = entry->stage, .shadow = shadow, .iteration = p->iteration};
    peer_tell(p, &t);
    if (self) {
        p->me = index;
        p->stands_again = false;
        p->stage = entry->stage;
        p->shadow = shadow;
        p->rest_until_ns = 0;
        p->blocks = p->run.blocks[p->stage];
        p->segments = (p->blocks + PEER_SEGMENT_BLOCKS - 1) / PEER_SEGMENT_BLOCKS;
        for (uint32_t b = 0; b < p->blocks; b++) p->block_version[b] = UINT64_MAX;
        reduce_blocks_changed(p);
        reduce_enter(p);
        fetch_reset(p);
    } else {
        contact *who = &p->contacts[c];
        who->member = index;
        who->admitted_ns = p->now;
        who->itself = who->joining = false;
        who->incarnation = entry->incarnation;
        who->store = entry->store;
        who->host = entry->host;
        memcpy(who->entered, entry->address, sizeof who->entered);
        memset(&who->beat, 0, sizeof who->beat);
        who->beat_position = 0;
        memset(&who->donor, 0, sizeof who->donor);
        if (who->link == LINK_NONE) who->down_ns = p->now;
        who->refused_ns = 0;
        who->redial_ns = p->now;
    }
    p->routing.stale = true;
    member_refresh_flow(p);
}

// The version of all my blocks, if no job is about to change some.
static uint64_t whole_version(const peer *p) {
    bool changes = p->running.work.id != 0 && (p->running.work.kind == JOB_APPLY || p->running.work.kind == JOB_STATE_INIT);
    if (!p->initialised || changes) return UINT64_MAX;
    for (uint32_t b = 1; b < p->blocks; b++)
        if (p->block_version[b] != p->block_version[0]) return UINT64_MAX;
    return p->block_version[0];
}

// I was expelled: what I summed is replayed by others, so it must go; the state stays until the next admission. That is over for good: somebody
// whose log ends before may send me his.
static void forget_myself(peer *p) {
    p->join_floor = p->me;
    p->lies_version = whole_version(p);
    p->ready = p->can_take = false;
    if (!peer_breaks(p, PEER_MUTANT_KEEPS_ITS_SUM)) hold_free_all(p);
    own_free_all(p);
    takeover_drop(p);
    reduce_leave(p);
    p->me = 0;
    p->initialised = false;
    p->state_asked = p->state_known = p->applying = false;
    p->can_take_sent = 0;
    p->join_sent_ns = 0;
    tasks_drop(p);
    task *clear = task_add(p, JOB_SUM_CLEAR);
    BRAID_ASSERT(clear != NULL);
    p->sum_dirty = false;
}

static void tell_expelled(peer *p, const member *gone, uint8_t reason) {
    tell t = {.kind = TELL_EXPELLED, .member = gone->id, .stage = gone->keeps, .shadow = member_is_shadow(gone), .reason = reason, .iteration = p->iteration};
    t.id = gone->contact == NO_CONTACT ? p->config.self : p->contacts[gone->contact].id;
    peer_tell(p, &t);
}

static void drop(peer *p, member *m, uint8_t reason) {
    member gone = *m;
    member_id id = gone.id;
    uint32_t at = (uint32_t)(m - p->members);
    memmove(m, m + 1, (p->member_count - at - 1) * sizeof *m);
    p->member_count--;
    contacts_touch(p);
    if (gone.contact != NO_CONTACT) {
        contact *c = &p->contacts[gone.contact];
        p->former[p->next_former++ % PEER_KEPT_FORMER] = (former){.incarnation = c->incarnation, .stage = gone.keeps};
        c->member = 0;
        c->departing = false;
        c->untold = c->link == LINK_UP;
    }
    p->routing.stale = true;
    member_refresh_flow(p);
    if (id == p->me) {
        forget_myself(p);
        if (reason == EXPEL_LEFT) leave_when_free(p);
        return;
    }
    send_member_gone(p, id);
    private_gone(p, id);
    repair_member_gone(p, id, true);
    close_member_gone(p, id);
    contact_forget(p, &p->contacts[gone.contact]);
}

void member_remove(peer *p, member_id id, uint8_t reason) {
    member *m = member_find(p, id);
    if (id == p->before.index) p->before.index = p->before.promoted = 0;
    if (m == NULL) return;
    tell_expelled(p, m, reason);
    drop(p, m, reason);
}

// Nobody has expelled them: a state of the log comes, and says who is there.
void members_forget(peer *p) {
    while (p->member_count > 0) drop(p, &p->members[p->member_count - 1], EXPEL_DEAD);
}

// ---- what is known of the next stage -------------------------------------------------------------------------------

void member_refresh_flow(peer *p) {
    if (p->me == 0) return;
    uint16_t next = (uint16_t)(p->stage + 1);
    for (uint32_t i = 0; i < p->flow.count;) {
        const member *m = member_find(p, p->flow.peer[i].member);
        if (m == NULL || m->stage != next) flow_drop(&p->flow, p->flow.peer[i].member);
        else i++;
    }
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *m = &p->members[i];
        if (m->stage != next || m->contact == NO_CONTACT) continue;
        flow_peer *f = flow_add(&p->flow, m->id);
        if (f == NULL) return;
        const contact *c = &p->contacts[m->contact];
        f->reachable = c->link == LINK_UP && !timing_suspect(&c->timing, p->now);
        f->can_take = c->beat.can_take == p->iteration + 1;
        f->link_ns = c->timing.accept_ns;
        f->forward_ns = c->beat.forward_ns;
    }
}

static void send_heartbeat(peer *p, uint32_t index) {
    uint64_t reaches;
    message_heartbeat *beat = &peer_compose(p, MESSAGE_HEARTBEAT)->u.heartbeat;
    beat->ready = p->ready ? p->version + 1 : 0;
    beat->can_take = p->can_take ? p->iteration + 1 : 0;
    beat->free_slots = hold_room(p);
    beat->queued = p->slots_used;
    beat->progress = p->progress;
    beat->forward_ns = p->forward_ns;
    beat->backward_ns = p->backward_ns;
    beat->leads = p->leader.active ? p->leader.term : 0;
    beat->reaches = reduce_reaches(p, &reaches) ? reaches + 1 : 0;
    beat->saved = p->past.saved;
    if (peer_send(p, index, 0)) p->contacts[index].beat_sent_ns = p->now;
}

void on_heartbeat(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT) return;
    contact *c = &p->contacts[from];
    const message_heartbeat *beat = &msg->u.heartbeat;
    if (beat->leads != 0 && !lead_may_come_from(p, from)) lead_strange(p);
    else if (beat->leads != 0 && lead_may_be_in(p, beat->leads)) lead_heard(p, &c->id, beat->leads, true);
    if (!peer_is_leader(p) && id_equal(&c->id, &p->lead.id)) log_compare(p, msg->log_position);
    if (msg->sender != c->member || c->member == 0 || rollback_is_past(p, msg)) return;  // of an earlier life, or of before the run went back
    if (beat->progress != c->beat.progress) c->progress_ns = p->now;
    bool comes = beat->ready == p->iteration + 1 && c->beat.ready != beat->ready;
    c->beat = *beat;
    c->beat_position = msg->log_position;
    member *m = member_find(p, c->member);
    m->was_ready |= beat->ready != 0;
    if (comes) repair_stage_filled(p, m->stage);
    if (m->stage != p->stage + 1) {
        if (m->stage == p->stage) can_take_update(p, false);
        return;
    }
    flow_peer *f = flow_add(&p->flow, m->id);
    if (f == NULL) return;
    bool more = beat->free_slots > f->free_slots;
    f->free_slots = beat->free_slots <= m->capacity ? beat->free_slots : m->capacity + 1;  // one may wait for a slot
    f->queued = beat->queued < m->capacity ? beat->queued : m->capacity;
    member_refresh_flow(p);
    can_take_update(p, false);
    if (more) send_retry_waiting(p);
}

// CAN TAKE(t): the last stage at version t says so, others once somebody of the next stage has. It is said again whenever
// a slot becomes free.
void can_take_update(peer *p, bool again) {
    bool may = p->ready && p->me != 0 && !p->shadow && run_goes_on(p) && p->version == p->iteration;
    if (may && p->stage + 1 < p->run.stages && p->stage > 0) {
        may = false;
        for (uint32_t i = 0; i < p->flow.count; i++) may |= p->flow.peer[i].can_take;
        may |= p->can_take;  // once said for t, it stays true for t
    }
    bool news = may && p->can_take_sent != p->iteration + 1;
    p->can_take = may;
    if (!news && !(may && again)) return;
    p->can_take_sent = p->iteration + 1;
    if (p->stage == 0) {
        own_launch(p);
        return;
    }
    for (uint32_t i = 0; i < p->member_count; i++) {
        if (p->members[i].stage + 1 != p->stage) continue;
        message_can_take *body = &peer_compose(p, MESSAGE_CAN_TAKE)->u.can_take;
        body->iteration = p->iteration;
        body->stage = p->stage;
        body->free_slots = hold_room(p);
        peer_send(p, p->members[i].contact, 0);
    }
}

void on_can_take(peer *p, const message *msg) {
    const member *m = member_find(p, msg->sender);
    const message_can_take *body = &msg->u.can_take;
    if (m == NULL || m->contact == NO_CONTACT || m->stage != p->stage + 1) return;
    contact *c = &p->contacts[m->contact];
    bool comes = body->iteration == p->iteration && c->beat.ready != p->iteration + 1;
    c->beat.can_take = body->iteration + 1;
    c->beat.ready = body->iteration + 1;
    if (comes) repair_stage_filled(p, m->stage);
    flow_peer *f = flow_add(&p->flow, m->id);
    if (f == NULL) return;
    f->free_slots = body->free_slots <= m->capacity ? body->free_slots : m->capacity + 1;
    member_refresh_flow(p);
    can_take_update(p, false);
    send_retry_waiting(p);
    own_launch(p);
}

// ---- suspicion ----------------------------------------------------------------------------------------------------

// Somebody cannot reach a member: the owner of the microbatch repairs, the leader looks for itself.
void on_suspect(peer *p, const message *msg) {
    const message_suspect *body = &msg->u.suspect;
    const member *m = member_find(p, body->member);
    if (m != NULL && m->contact != NO_CONTACT) {
        contact *c = &p->contacts[m->contact];
        if (c->link == LINK_NONE) c->redial_ns = p->now;
        contact_touch(p, m->contact);
    }
    if (body->has_subject && body->subject.m < p->microbatches && msg->iteration == p->iteration) repair_suspect(p, msg);
}

// When its silence expels it. A data peer's slots do not come back to it, so it is waited for twice as long.
static uint64_t silence_ends(const peer *p, const contact *c) {
    uint64_t since = c->timing.heard_ns > c->admitted_ns ? c->timing.heard_ns : c->admitted_ns, limit = timing_expel_limit(&c->timing);
    if (member_find(p, c->member)->kind == MEMBER_DATA) limit *= 2;
    return since + (p->leader.hears_most && limit < TIMING_EXPEL_SILENCE_NS ? limit : TIMING_EXPEL_SILENCE_NS);
}

static bool dead(const peer *p, const contact *c) {
    if (c->link != LINK_UP && c->refused_ns != 0) return p->now - c->refused_ns >= TIMING_EXPEL_REFUSED_NS;
    return p->now >= silence_ends(p, c) && (c->link != LINK_UP || timing_phi(&c->timing, p->now) >= TIMING_EXPEL_PHI);
}

// Where many are silent at once it is rather my own line.
static bool hears_most(const peer *p) {
    uint32_t heard = 0, others = 0;
    for (uint32_t i = 0; i < p->contact_high; i++) {
        const contact *c = &p->contacts[i];
        if (!c->used || c->member == 0) continue;
        others++;
        heard += c->link == LINK_UP && p->now - c->timing.heard_ns < 2 * TIMING_HEARTBEAT_NS;
    }
    return 2 * heard >= others;
}

static uint64_t dial_due(const peer *p, const contact *c) {
    if (c->link != LINK_NONE) return UINT64_MAX;
    if (c->member == 0 && !is_sought(p, c)) return UINT64_MAX;
    // the newer member dials, the older one only when that has not worked for a while
    bool patient = c->member > p->me && c->member != 0 && p->now - c->down_ns < 2 * TIMING_REDIAL_FIRST_NS && c->refused_ns == 0 && !c->moved;
    return patient ? c->down_ns + 2 * TIMING_REDIAL_FIRST_NS : c->redial_ns;
}

static void contact_tick(peer *p, uint32_t index) {
    contact *c = &p->contacts[index];
    uint64_t dial = dial_due(p, c);
    if (dial <= p->now) contact_dial(p, index);
    else peer_wake_at(p, dial);
    bool due = p->now >= c->sent_ns + TIMING_HEARTBEAT_NS || p->now >= c->beat_sent_ns + TIMING_BEAT_NS;
    if (c->link == LINK_UP && c->untold) send_leader(p, index);
    c->untold = false;
    if (c->link == LINK_UP && due) send_heartbeat(p, index);
    if (c->link == LINK_UP) peer_wake_at(p, c->sent_ns + TIMING_HEARTBEAT_NS);
    if (!peer_is_leader(p) || c->member == 0) return;
    if (dead(p, c)) leader_lose(p, c->member);
    else if (c->link != LINK_UP && c->refused_ns != 0) peer_wake_at(p, c->refused_ns + TIMING_EXPEL_REFUSED_NS);
    else if (silence_ends(p, c) > p->now) peer_wake_at(p, silence_ends(p, c));
}

void contacts_forgive(peer *p, uint64_t late_ns) {
    for (uint32_t i = 0; i < p->contact_high; i++) {
        contact *c = &p->contacts[i];
        if (!c->used) continue;
        if (c->timing.heard_ns != 0) c->timing.heard_ns += late_ns;
        c->down_ns += late_ns;
        c->admitted_ns += late_ns;
        if (c->refused_ns != 0) c->refused_ns += late_ns;
    }
    contacts_touch(p);
}

// When contact_tick has to do something for it.
static uint64_t contact_due(const peer *p, const contact *c) {
    if (c->link != LINK_UP) return dial_due(p, c);
    uint64_t silent = c->sent_ns + TIMING_HEARTBEAT_NS, beat = c->beat_sent_ns + TIMING_BEAT_NS;
    return silent < beat ? silent : beat;
}

static void contact_block_tick(peer *p, contact_block *block, uint32_t first) {
    uint64_t deadline = p->deadline, due = UINT64_MAX;
    p->deadline = UINT64_MAX;
    for (uint32_t i = first; i < first + PEER_CONTACT_BLOCK && i < p->contact_high; i++) {
        if (!p->contacts[i].used) continue;
        contact_tick(p, i);
        uint64_t its = contact_due(p, &p->contacts[i]);
        if (its < due) due = its;
    }
    *block = (contact_block){due, p->deadline};
    p->deadline = deadline;
}

// The leader looks at everybody each time: who is dead is a matter of what was heard.
void contacts_tick(peer *p) {
    if (peer_is_leader(p)) p->leader.hears_most = hears_most(p);
    for (uint32_t b = 0; b * PEER_CONTACT_BLOCK < p->contact_high; b++) {
        contact_block *block = &p->contact_block[b];
        if (block->due_ns <= p->now || peer_is_leader(p)) contact_block_tick(p, block, b * PEER_CONTACT_BLOCK);
        peer_wake_at(p, block->wake_ns);
    }
}
