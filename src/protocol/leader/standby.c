// Standbys: members that keep the state of a stage and do none of its work (docs/protocol.md,
// Standby replicas). Each is on the machine of a worker of another stage, so the state survives the
// loss of all working members.
#include "protocol/leader/leader.h"

#include <string.h>

enum {
    WAIT_PART = 10,  // FINAL waits for standbys for 1/10 of the iteration's time, or TIMING_STANDBY_NS
};

// ---- every member -------------------------------------------------------------------------------

void standby_promote(peer *p, uint64_t index, member_id who) {
    cluster_member *m = member_find(p, who);
    if (m == NULL || !member_is_standby(m)) return;
    m->stage = m->keeps;
    m->kind = MEMBER_RELAY;
    m->promoted = index;
    p->routing->stale = true;
    contacts_touch(p);
    tell t = {.kind = TELL_PROMOTED, .member = who, .stage = m->stage, .iteration = p->state.iteration};
    t.id = m->contact == NO_CONTACT ? p->config.self : p->cluster->contacts[m->contact].id;
    peer_tell(p, &t);
    credit_refresh(p);
    repair_stage_filled(p, m->stage);
    if (m->contact != NO_CONTACT) return;
    p->standby = false;
    p->chunks->state_sent_ns = 0;
    credit_update(p, false);
}

// ---- the leader: placement (rule B1) ------------------------------------------------------------

static uint32_t standbys_of(const peer *p, uint16_t stage, uint32_t but) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        count += member_is_standby(m) && m->keeps == stage && !m->expelling && m->contact != but;
    }
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        count += c->used && c->joining && c->joiner.kind == MEMBER_SHADOW && c->joiner.stage == stage;
    }
    return count;
}

bool standby_exists(const peer *p, uint16_t stage) { return standbys_of(p, stage, NO_CONTACT) > 0; }

static const cluster_member *member_of(const peer *p, const braid_id *id) {
    uint32_t at = contact_find(p, id);
    if (id_equal(id, &p->config.self)) return member_find(p, p->me);
    return at == NO_CONTACT ? NULL : member_find(p, p->cluster->contacts[at].member);
}

static bool works_alone(const braid_id *host) {
    const braid_id no_id = {{0}};
    return id_equal(host, &no_id);
}

// Chooses the stage with the fewest standbys, then the fewest members, but not the stage of the
// same machine's worker.
bool standby_choose_stage(const peer *p, uint32_t from, const message_join *join, uint16_t *stage) {
    const cluster_member *host = member_of(p, &join->host);
    uint64_t least = UINT64_MAX;
    if (host == NULL && !works_alone(&join->host)) return false;
    for (uint16_t s = 1; s < p->run.stages; s++) {
        uint32_t standbys = standbys_of(p, s, from);
        uint64_t rank = (uint64_t)standbys << 32 | member_count_stage(p, s);
        if ((host != NULL && host->stage == s) || standbys >= p->run.standbys || rank >= least) continue;
        least = rank;
        *stage = s;
    }
    return least != UINT64_MAX;
}

// ---- the leader: promotion (B4)------------------------------------------------------------------

bool stage_has_workers(const peer *p, uint16_t stage) {
    if (member_count_stage(p, stage) > 0) return true;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        if (c->used && c->joining && c->joiner.kind != MEMBER_SHADOW && c->joiner.stage == stage) return true;
    }
    return false;
}

static bool fresh(const peer *p, const cluster_member *m) {
    const cluster_contact *c = &p->cluster->contacts[m->contact];
    return !m->expelling && leader_sees_at_version(p, m) && p->now - c->timing.heard_ns < TIMING_FRESH_NS;
}

static bool could_work(const peer *p, const cluster_member *m) { return member_is_standby(m) && m->contact != NO_CONTACT && fresh(p, m); }

bool standby_can_take_over(const peer *p, uint16_t stage) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (p->cluster->members[i].keeps == stage && could_work(p, &p->cluster->members[i])) return true;
    return false;
}

// True if the worker of its machine is in the stage that it keeps: both would die together.
static bool shares_its_fate(const peer *p, const cluster_member *m) {
    const braid_id *id = &p->cluster->contacts[m->contact].host;
    const cluster_member *host = works_alone(id) ? NULL : member_of(p, id);
    return host != NULL && host->stage == m->keeps && stage_has_another(p, m);
}

// Waits while entries are being appended, since they may change the members, and until the leader's
// own earlier incarnation is removed.
void standby_tick(peer *p) {
    if (p->run.standbys == 0 || !p->state.started || p->raft.last != p->state.position || member_before(p) != 0) return;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!could_work(p, m)) continue;
        if (!stage_has_workers(p, m->keeps) || peer_breaks(p, PEER_MUTANT_PROMOTES_EARLY)) {
            log_entry entry = {.kind = LOG_PROMOTE, .u.promote.member = m->id};
            log_append(p, &entry);
            return;
        }
        if (shares_its_fate(p, m)) leader_remove(p, m->id, EXPEL_RETURNED);
    }
}

// ---- the leader: the end of an iteration --------------------------------------------------------

bool standby_keeps(const peer *p, member_id who, uint16_t stage) {
    const cluster_member *m = member_find(p, who);
    return m != NULL && member_is_standby(m) && m->keeps == stage;
}

void standby_on_reduced(peer *p, const message *msg) {
    const message_reduced *body = &msg->u.reduced;
    stage_round *r = &p->leader->round[body->stage];
    uint32_t at = 0;
    while (at < r->standbys && r->standby[at] != msg->sender) at++;
    if (at == PEER_MAX_STANDBYS) return;
    if (at == r->standbys) r->standbys++;
    r->standby[at] = msg->sender;
    r->standby_root[at] = body->root;
}

static bool has_results(const stage_round *r, member_id who) {
    for (uint32_t i = 0; i < r->standbys; i++)
        if (r->standby[i] == who) return hash_equal(&r->standby_root[i], &r->result_root);
    return false;
}

// True if FINAL may be appended. A standby at the present version should have the results before
// the parts are discarded; it is waited for briefly. A standby that is behind is not waited for.
bool standby_lets_final_go(peer *p, uint16_t stage) {
    stage_round *r = &p->leader->round[stage];
    bool waits = false;
    if (r->agreed_ns == 0) r->agreed_ns = p->now;
    uint64_t part = (r->agreed_ns - p->leader->begun_ns) / WAIT_PART;
    uint64_t until = r->agreed_ns + (part > TIMING_STANDBY_NS ? part : TIMING_STANDBY_NS);
    if (p->now >= until) return true;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->keeps != stage || !could_work(p, m)) continue;
        if (has_results(r, m->id)) return true;
        waits = true;
    }
    if (waits) peer_wake_at(p, until);
    return !waits;
}

// Compares the state hash of a standby with that of its stage, so that a wrong one is removed
// before it is needed.
void standby_on_state(peer *p, const message *msg) {
    const message_state *body = &msg->u.state;
    stage_round *r = &p->leader->round[body->stage];
    r->kept = true;
    r->kept_root = body->state_root;
    if (r->state_agreed && !hash_equal(&body->state_root, &r->agreed_state)) leader_remove(p, msg->sender, EXPEL_DIVERGED);
}
