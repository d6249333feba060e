// The leader as this peer knows it: LEADER and heartbeats name it; members that must hear of it are
// told.
#include "protocol/cluster/cluster.h"

#include <string.h>


bool lead_among(const log_voters *voters, const braid_id *id) {
    for (uint32_t i = 0; i < voters->count; i++)
        if (id_equal(&voters->voter[i].id, id)) return true;
    return false;
}

bool lead_is_voter(const peer *p, const braid_id *id) { return lead_among(&p->state.voters, id) || lead_among(&p->raft.voters, id); }

// LOG and LEADER are accepted from peers that the log names, and from the leader or a peer that the
// user named. A peer that is no member accepts them from anyone: the peer that it was told to join
// may be gone.
bool lead_trusts(const peer *p, uint32_t from) {
    if (from == NO_CONTACT || p->me == 0) return true;
    const cluster_contact *c = &p->cluster->contacts[from];
    return c->member != 0 || id_equal(&c->id, &p->cluster->lead.id) || contact_is_named(p, &c->id) || lead_is_voter(p, &c->id);
}

// An unknown peer claims to lead. This peer may have missed so many changes that it knows none of
// the voters, so it asks a known member for the leader (on_get_log), another one each time.
void lead_ask(peer *p) {
    if (p->cluster->member_count == 0 || p->now < p->cluster->lead.asked_ns + TIMING_REPEAT_NS) return;
    p->cluster->lead.asked_ns = p->now;
    for (uint32_t tries = 0; tries < p->cluster->member_count; tries++) {
        const cluster_member *m = &p->cluster->members[p->cluster->lead.asked++ % p->cluster->member_count];
        if (m->contact == NO_CONTACT || p->cluster->contacts[m->contact].link != LINK_UP) continue;
        peer_compose(p, MESSAGE_GET_LOG)->u.get_log.from = p->state.position + 1;
        peer_send(p, m->contact, 0);
        return;
    }
}

static bool somebody_may_lead(const peer *p, const braid_id *id) {
    uint32_t at = contact_find(p, id);
    const cluster_contact *c = at == NO_CONTACT ? NULL : &p->cluster->contacts[at];
    if (c == NULL || (c->asks_in_ns != 0 && p->now < c->asks_in_ns + TIMING_HOME_NS)) return false;  // a later incarnation, which knows less than this peer
    return p->now < contact_awaited_until(p, c, 0, TIMING_HOME_NS);
}

static bool nobody_known_leads(const peer *p) {
    if (p->me == 0 || raft_leads(&p->raft) || somebody_may_lead(p, &p->cluster->lead.id)) return false;
    for (uint32_t i = 0; i < p->raft.voters.count; i++)
        if (raft_votes(&p->raft) && somebody_may_lead(p, &p->raft.voters.voter[i].id)) return false;
    for (uint32_t i = 0; i < p->state.voters.count; i++)
        if (somebody_may_lead(p, &p->state.voters.voter[i].id)) return false;
    return true;
}

// All known voters may have been replaced while this peer was partitioned, and then died. The
// remaining members know no more than this peer does. After TIMING_HOME_NS it gives up its
// membership and joins again: a joiner accepts any leader.
void lead_unknown_claims(peer *p) {
    lead_ask(p);
    if (p->cluster->lead.unknown_since_ns == 0) p->cluster->lead.unknown_since_ns = p->now;
    if (p->now - p->cluster->lead.unknown_since_ns < TIMING_HOME_NS || !nobody_known_leads(p)) return;
    p->cluster->lead.unknown_since_ns = 0;
    run_state_forget_member(&p->state, p->me);
    member_remove(p, p->me, p->leaving ? EXPEL_LEFT : EXPEL_DEAD);
}

bool lead_term_is_plausible(const peer *p, uint64_t term) { return term <= p->cluster->lead.term + RAFT_TERM_STEP; }

// Makes all reports to the leader due at once.
void lead_tell_all_again(peer *p) {
    core_report(p, &(core_change){.kind = CHANGE_LEADER});
    contacts_touch(p);
    if (p->cluster->lead.term <= 1) return;  // the first leader is known to all
    for (uint32_t i = 0; i < p->cluster->contact_high; i++)  // joiners may know an older leader
        if (p->cluster->contacts[i].used && p->cluster->contacts[i].link == LINK_UP && p->cluster->contacts[i].member == 0) lead_send(p, i);
    uint32_t at = contact_find(p, &p->cluster->lead.id);
    tell t = {.kind = TELL_LEADER, .id = p->cluster->lead.id, .iteration = p->state.iteration, .text = at == NO_CONTACT ? p->config.address : p->cluster->contacts[at].address};
    peer_tell(p, &t);
}

// `by_itself`: the leader itself says so, so it has applied everything that was decided before.
void lead_heard(peer *p, const braid_id *id, uint64_t term, bool by_itself) {
    bool newer = term > p->cluster->lead.term;
    if (p->cluster->leads || (!newer && (term < p->cluster->lead.term || !id_equal(id, &p->cluster->lead.id)))) return;
    p->cluster->lead.unknown_since_ns = 0;
    if (newer) {
        contact_add(p, id, NULL);
        p->cluster->lead.heard = false;
        p->cluster->lead.term = term;
        p->cluster->lead.id = *id;
        p->cluster->join_sent_ns = 0;
        contacts_touch(p);
    }
    if (!by_itself || p->cluster->lead.heard) return;
    p->cluster->lead.heard = true;
    lead_tell_all_again(p);
}

// A peer's own address is authoritative. An address from others may belong to an earlier
// incarnation, or be newer than the log that was read here.
static void take_leader_address(peer *p, uint32_t from, const message_leader *body) {
    bool itself = from != NO_CONTACT && from == contact_find(p, &body->id);
    if (itself) contact_add(p, &body->id, body->address);
    else contact_may_be_at(p, &body->id, body->address);
}

void on_leader(peer *p, uint32_t from, const message *msg) {
    const message_leader *body = &msg->u.leader;
    bool known = body->term == p->cluster->lead.term && id_equal(&body->id, &p->cluster->lead.id);
    bool newer = body->term > p->cluster->lead.term && lead_term_is_plausible(p, body->term);
    if ((!known && !newer) || p->cluster->leads || id_equal(&body->id, &p->config.self)) return;
    take_leader_address(p, from, body);
    if (newer) lead_heard(p, &body->id, body->term, false);
}

// Sends LEADER to peers with missing or stale leader information (rule V20).
void lead_send(peer *p, uint32_t contact_index) {
    uint32_t at = contact_find(p, &p->cluster->lead.id);
    if (p->cluster->lead.term <= 1 || (!p->cluster->leads && at == NO_CONTACT)) return;
    message_leader *body = &peer_compose(p, MESSAGE_LEADER)->u.leader;
    body->term = p->cluster->lead.term;
    body->id = p->cluster->lead.id;
    memcpy(body->address, p->cluster->leads ? p->config.address : p->cluster->contacts[at].address, WIRE_MAX_ADDRESS);
    peer_send(p, contact_index, 0);
}

// There is no link to the leader: it may have moved, or another leader was announced while this
// peer was away.
void lead_ask_where(peer *p) {
    uint32_t at = contact_find(p, &p->cluster->lead.id);
    bool linked = at != NO_CONTACT && (p->cluster->contacts[at].link == LINK_UP || p->now < p->cluster->contacts[at].down_ns + TIMING_FIND_LEADER_NS);
    if (p->me != 0 && !p->cluster->leads && !linked && p->now >= p->cluster->lead.asked_ns + TIMING_FIND_LEADER_NS) lead_ask(p);
}

void lead_renew_addresses(const peer *p, log_voters *v) {
    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t at = contact_find(p, &v->voter[i].id);
        const char *address = id_equal(&v->voter[i].id, &p->config.self) ? p->config.address : at != NO_CONTACT ? p->cluster->contacts[at].address : NULL;
        if (address != NULL && address[0] != '\0') memcpy(v->voter[i].address, address, WIRE_MAX_ADDRESS);
    }
}
