// Contacts: peers that this one knows, the links to them, and the failure detector's verdict on
// each.
#include "protocol/cluster/cluster.h"

#include <string.h>

_Static_assert((int)PEER_MAX_CONTACTS < (int)PEER_CONTACT_HINTS, "a search for an unknown id comes to an empty place");

void contact_touch(peer *p, uint32_t index) { p->cluster->contact_block[index / PEER_CONTACT_BLOCK].due_ns = 0; }

void contacts_touch(peer *p) {
    for (uint32_t i = 0; i < PEER_CONTACT_BLOCKS; i++) p->cluster->contact_block[i].due_ns = 0;
}

static uint32_t hint_of(const braid_id *id) { return (id->bytes[0] | (uint32_t)id->bytes[1] << 8) % PEER_CONTACT_HINTS; }

// A forgotten contact stays in the hash table until index_contacts rebuilds it.
uint32_t contact_find(const peer *p, const braid_id *id) {
    for (uint32_t at = hint_of(id); p->cluster->contact_at[at] != 0; at = (at + 1) % PEER_CONTACT_HINTS) {
        const cluster_contact *c = &p->cluster->contacts[p->cluster->contact_at[at] - 1];
        if (c->used && id_equal(&c->id, id)) return (uint32_t)(c - p->cluster->contacts);
    }
    return NO_CONTACT;
}

static void index_contacts(peer *p) {
    memset(p->cluster->contact_at, 0, sizeof p->cluster->contact_at);
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        if (!p->cluster->contacts[i].used) continue;
        uint32_t at = hint_of(&p->cluster->contacts[i].id);
        while (p->cluster->contact_at[at] != 0) at = (at + 1) % PEER_CONTACT_HINTS;
        p->cluster->contact_at[at] = (uint16_t)(i + 1);
    }
}

static bool must_be_kept(const peer *p, const cluster_contact *c);


// Makes room by closing the oldest link to a peer that the run does not need: any peer may connect
// and stay silent.
static uint32_t stranger_leaves(peer *p) {
    uint32_t oldest = NO_CONTACT;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        if (c->member != 0 || c->joining || c->link != LINK_UP || must_be_kept(p, c)) continue;
        if (oldest == NO_CONTACT || c->up_ns < p->cluster->contacts[oldest].up_ns) oldest = i;
    }
    effect *e = oldest == NO_CONTACT ? NULL : peer_effect(p, EFFECT_CLOSE);
    if (e == NULL) return NO_CONTACT;
    e->id = p->cluster->contacts[oldest].id;
    p->cluster->contacts[oldest].used = false;
    return oldest;
}

uint32_t contact_add(peer *p, const braid_id *id, const char *address) {
    uint32_t index = contact_find(p, id), unused = NO_CONTACT;
    for (uint32_t i = 0; index == NO_CONTACT && unused == NO_CONTACT && i < PEER_MAX_CONTACTS; i++)
        if (!p->cluster->contacts[i].used) unused = i;
    for (uint32_t i = 0; index == NO_CONTACT && unused == NO_CONTACT && i < p->cluster->contact_high; i++) {
        contact_forget(p, &p->cluster->contacts[i]);  // it may have been a voter or the leader when its link fell
        if (!p->cluster->contacts[i].used) unused = i;
    }
    if (index == NO_CONTACT && unused == NO_CONTACT) unused = stranger_leaves(p);
    if (index == NO_CONTACT && unused == NO_CONTACT) return NO_CONTACT;
    cluster_contact *c = &p->cluster->contacts[index == NO_CONTACT ? unused : index];
    if (index == NO_CONTACT) {
        memset(c, 0, sizeof *c);
        c->used = true;
        c->id = *id;
        c->down_ns = p->now;
        if (unused >= p->cluster->contact_high) p->cluster->contact_high = unused + 1;
        index_contacts(p);
        contact_touch(p, unused);
    }
    if (address != NULL && address[0] != '\0' && memcmp(c->address, address, sizeof c->address) != 0) {
        c->moved = c->address[0] != '\0';
        if (c->moved) c->refused_ns = 0;
        memcpy(c->address, address, sizeof c->address);
    }
    return (uint32_t)(c - p->cluster->contacts);
}

void contact_may_be_at(peer *p, const braid_id *id, const char *address) {
    uint32_t at = contact_find(p, id);
    if (at == NO_CONTACT || p->cluster->contacts[at].address[0] == '\0') {
        contact_add(p, id, address);
        return;
    }
    cluster_contact *c = &p->cluster->contacts[at];
    if (address[0] == '\0' || memcmp(c->address, address, sizeof c->address) == 0 || memcmp(c->elsewhere, address, sizeof c->elsewhere) == 0) return;
    memcpy(c->elsewhere, address, sizeof c->elsewhere);
    c->turn_elsewhere = c->link != LINK_UP;
    c->refused_ns = 0;
    contact_touch(p, at);
}

// True for a contact that is no member and must be kept: the leader, a voter, or, for a joiner, a
// peer that its user named. Reason for the last: the address of the leader may be outdated, and
// then the named peer is all that a joiner knows.
static bool must_be_kept(const peer *p, const cluster_contact *c) {
    bool leads = !peer_is_leader(p) && id_equal(&c->id, &p->cluster->lead.id);
    return leads || (p->me == 0 && contact_is_named(p, &c->id)) || lead_is_voter(p, &c->id);
}

bool contact_is_named(const peer *p, const braid_id *id) { return id_equal(id, &p->config.leader_id) || id_equal(id, &p->config.named_id); }

void contacts_add_named(peer *p) {
    static const braid_id no_id;
    if (!p->config.leader) contact_may_be_at(p, &p->config.leader_id, p->config.leader_address);
    if (!id_equal(&p->config.named_id, &no_id)) contact_may_be_at(p, &p->config.named_id, p->config.named_address);
}

// Forgets a contact without a link that is no member, is not being admitted and is not sought.
void contact_forget(peer *p, cluster_contact *c) {
    if (c->member == 0 && !c->joining && c->link == LINK_NONE && !must_be_kept(p, c)) c->used = false;
}

void contact_up(peer *p, const braid_id *id) {
    uint32_t index = contact_add(p, id, NULL);
    if (index == NO_CONTACT) {
        effect *e = peer_effect(p, EFFECT_CLOSE);
        if (e != NULL) e->id = *id;
        return;
    }
    cluster_contact *c = &p->cluster->contacts[index];
    contact_touch(p, index);
    c->turn_elsewhere = c->link == LINK_DIALING && !c->turn_elsewhere;  // the address that worked is dialled first next time
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
    c->beat.ready = c->beat_position = 0;  // its next one counts: this may be a later incarnation, without the state
    core_report(p, &(core_change){.kind = CHANGE_LINK_UP, .contact = index});
}

void contact_down(peer *p, const braid_id *id, bool refused) {
    uint32_t index = contact_find(p, id);
    if (index == NO_CONTACT) return;
    cluster_contact *c = &p->cluster->contacts[index];
    contact_touch(p, index);
    if (c->link == LINK_UP) c->down_ns = p->now;
    c->link = LINK_NONE;
    refused &= !c->moved;  // refused at an outdated address
    const bool both = refused && c->was_refused;  // with two addresses both must refuse: the process may be at either
    c->was_refused = refused;
    const bool untried = refused && !both && c->elsewhere[0] != '\0';
    if (c->elsewhere[0] != '\0') refused = both;
    if (!refused) c->refused_ns = 0;
    else if (c->refused_ns == 0) c->refused_ns = p->now;
    c->redial_ns = p->now + (untried ? 0 : c->redial_delay_ns);
    if (!untried) c->redial_delay_ns = c->redial_delay_ns == 0 ? TIMING_REDIAL_FIRST_NS : 2 * c->redial_delay_ns;
    if (c->redial_delay_ns > TIMING_REDIAL_MOST_NS) c->redial_delay_ns = TIMING_REDIAL_MOST_NS;
    core_report(p, &(core_change){.kind = CHANGE_LINK_DOWN, .contact = index, .refused = refused});
    contact_forget(p, c);
}

// Reason for the longer wait when the run is complete: a silent peer may be paused, or have ended
// the run while this link was down. A port that refuses connections has no process.
uint64_t contact_awaited_until(const peer *p, const cluster_contact *c, uint64_t from_ns, uint64_t grace_ns) {
    uint64_t silent_ns = c->link == LINK_UP ? c->timing.heard_ns : c->down_ns;
    bool ends = run_state_is_complete(&p->state) && c->refused_ns == 0;
    if (silent_ns < from_ns) silent_ns = from_ns;
    return silent_ns + (ends && grace_ns < TIMING_HOME_NS ? TIMING_HOME_NS : grace_ns);
}

void contact_dial(peer *p, uint32_t index) {
    cluster_contact *c = &p->cluster->contacts[index];
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

// True if its link is up and it is not suspected, or the link fell within TIMING_LINK_GRACE_NS and
// it was not suspected then.
bool contact_answers(const peer *p, const cluster_contact *c) {
    if (c->link == LINK_UP) return !timing_suspect(&c->timing, p->now);
    return c->refused_ns == 0 && p->now - c->down_ns < TIMING_LINK_GRACE_NS && !timing_suspect(&c->timing, c->down_ns);
}

// When the leader removes it for its silence. A removed data peer does not get its slots back, so
// its limit is doubled.
static uint64_t silence_ends(const peer *p, const cluster_contact *c) {
    uint64_t since = c->timing.heard_ns > c->admitted_ns ? c->timing.heard_ns : c->admitted_ns, limit = timing_expel_limit(&c->timing);
    if (member_find(p, c->member)->kind == MEMBER_DATA) limit *= 2;
    return since + (p->cluster->hears_most && limit < TIMING_EXPEL_SILENCE_NS ? limit : TIMING_EXPEL_SILENCE_NS);
}

static bool dead(const peer *p, const cluster_contact *c) {
    if (c->link != LINK_UP && c->refused_ns != 0) return p->now - c->refused_ns >= TIMING_EXPEL_REFUSED_NS;
    return p->now >= silence_ends(p, c) && (c->link != LINK_UP || timing_phi(&c->timing, p->now) >= TIMING_EXPEL_PHI);
}

// True if most members were heard. Otherwise this peer's own link is the likely cause of the
// silence.
static bool hears_most(const peer *p) {
    uint32_t heard = 0, others = 0;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        if (!c->used || c->member == 0) continue;
        others++;
        heard += c->link == LINK_UP && p->now - c->timing.heard_ns < 2 * TIMING_HEARTBEAT_NS;
    }
    return 2 * heard >= others;
}

static uint64_t dial_due(const peer *p, const cluster_contact *c) {
    if (c->link != LINK_NONE) return UINT64_MAX;
    if (c->member == 0 && !must_be_kept(p, c)) return UINT64_MAX;
    // Both members dialling at once would make two connections. The wait is short, because the older
    // one learns only from a refused dial that the newer one is dead.
    bool patient = c->member > p->me && c->member != 0 && p->now - c->down_ns < TIMING_DIAL_YIELD_NS && c->refused_ns == 0 && !c->moved;
    return patient ? c->down_ns + TIMING_DIAL_YIELD_NS : c->redial_ns;
}

static void contact_tick(peer *p, uint32_t index) {
    cluster_contact *c = &p->cluster->contacts[index];
    uint64_t dial = dial_due(p, c);
    if (dial <= p->now) contact_dial(p, index);
    else peer_wake_at(p, dial);
    bool due = p->now >= c->sent_ns + TIMING_HEARTBEAT_NS || p->now >= c->beat_sent_ns + TIMING_BEAT_NS;
    if (c->link == LINK_UP && c->untold) lead_send(p, index);
    c->untold = false;
    if (c->link == LINK_UP && due) core_report(p, &(core_change){.kind = CHANGE_HEARTBEAT_DUE, .contact = index});
    if (c->link == LINK_UP) peer_wake_at(p, c->sent_ns + TIMING_HEARTBEAT_NS);
    if (!peer_is_leader(p) || c->member == 0) return;
    if (dead(p, c)) core_report(p, &(core_change){.kind = CHANGE_MEMBER_DEAD, .member = c->member});
    else if (c->link != LINK_UP && c->refused_ns != 0) peer_wake_at(p, c->refused_ns + TIMING_EXPEL_REFUSED_NS);
    else if (silence_ends(p, c) > p->now) peer_wake_at(p, silence_ends(p, c));
}

void contacts_compensate_pause(peer *p, uint64_t late_ns) {
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        cluster_contact *c = &p->cluster->contacts[i];
        if (!c->used) continue;
        if (c->timing.heard_ns != 0) c->timing.heard_ns += late_ns;
        c->down_ns += late_ns;
        c->admitted_ns += late_ns;
        if (c->refused_ns != 0) c->refused_ns += late_ns;
    }
    contacts_touch(p);
}

// When contact_tick has work for it.
static uint64_t contact_due(const peer *p, const cluster_contact *c) {
    if (c->link != LINK_UP) return dial_due(p, c);
    uint64_t silent = c->sent_ns + TIMING_HEARTBEAT_NS, beat = c->beat_sent_ns + TIMING_BEAT_NS;
    return silent < beat ? silent : beat;
}

static void contact_block_tick(peer *p, contact_block *block, uint32_t first) {
    uint64_t deadline = p->core.deadline, due = UINT64_MAX;
    p->core.deadline = UINT64_MAX;
    for (uint32_t i = first; i < first + PEER_CONTACT_BLOCK && i < p->cluster->contact_high; i++) {
        if (!p->cluster->contacts[i].used) continue;
        contact_tick(p, i);
        uint64_t its = contact_due(p, &p->cluster->contacts[i]);
        if (its < due) due = its;
    }
    *block = (contact_block){due, p->core.deadline};
    p->core.deadline = deadline;
}

// The leader checks every contact each time, because the failure detector's verdict depends on what
// was heard.
void contacts_tick(peer *p) {
    if (peer_is_leader(p)) p->cluster->hears_most = hears_most(p);
    for (uint32_t b = 0; b * PEER_CONTACT_BLOCK < p->cluster->contact_high; b++) {
        contact_block *block = &p->cluster->contact_block[b];
        if (block->due_ns <= p->now || peer_is_leader(p)) contact_block_tick(p, block, b * PEER_CONTACT_BLOCK);
        peer_wake_at(p, block->wake_ns);
    }
}
