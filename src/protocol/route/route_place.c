// The duration of an iteration with another membership: with a candidate in some stage, or after a
// move. Data peers know the transfer times between all peers of a small swarm on slow links
// (route_linkstate.c), those of a former membership included, and the search for scheduled paths
// gives the time (routing/schedule/schedule.h).
#include "protocol/route/routing.h"

enum {
    PLACE_EFFORT = SCHEDULE_EFFORT / 16,  // of a search: only the time is needed, for each stage
};

typedef struct place_peers {
    uint32_t count;
    struct {
        const braid_id *id;
        member_id member;
        uint16_t stage;
        int64_t compute_us;  // of a microbatch
    } peer[SCHEDULE_MAX_PEERS];
} place_peers;

static bool add_peer(place_peers *c, schedule *s, const braid_id *id, schedule_peer as, int64_t compute_us) {
    if (c->count == SCHEDULE_MAX_PEERS || schedule_peer_add(s, as) == SCHEDULE_MAX_PEERS) return false;
    c->peer[c->count].id = id;
    c->peer[c->count].member = as.member;
    c->peer[c->count].compute_us = compute_us;
    c->peer[c->count++].stage = as.stage;
    return true;
}

static const braid_id *identity_of(const peer *p, uint32_t contact) {
    return contact == NO_CONTACT ? &p->config.self : &p->cluster->contacts[contact].id;
}

// Members that answer; those that still fetch the state will take part soon.
static bool add_members(const peer *p, schedule *s, place_peers *c, const route_candidate *but) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (member_is_standby(m) || m->expelling || (but->leaves != 0 && m->id == but->leaves)) continue;
        if (!member_answers(p, m->id) || (but->contact != NO_CONTACT && m->contact == but->contact)) continue;
        int64_t compute_us = (int64_t)(route_time_at(p, m) / 2 / MEASURE_UNIT_NS);
        if (!add_peer(c, s, identity_of(p, m->contact), (schedule_peer){m->id, m->stage, m->capacity}, compute_us))
            return false;
    }
    return true;
}

// Admitted joiners without a MEMBER entry yet. They are numbered behind all members.
static bool add_joiners(const peer *p, schedule *s, place_peers *c, const route_candidate *but) {
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *j = &p->cluster->contacts[i];
        if (!j->used || !j->joining || j->joiner.kind != MEMBER_RELAY || i == but->contact) continue;
        if (!add_peer(c, s, &j->id,
                      (schedule_peer){UINT64_MAX - PEER_MAX_CONTACTS + i, j->joiner.stage, j->joiner.capacity}, 0))
            return false;
    }
    return true;
}

static void add_links(const peer *p, schedule *s, const place_peers *c) {
    for (uint32_t a = 0; a < c->count; a++)
        for (uint32_t b = 0; b < c->count; b++) {
            int64_t way = a == b ? 0 : route_way_between(p, c->peer[a].id, c->peer[b].id);
            if (way == 0) continue;
            schedule_tensor(s, a, b, way);
            if (c->peer[b].stage == (c->peer[a].stage + 1) % p->run.stages)
                schedule_line(s, a, b, way + c->peer[b].compute_us);
        }
}

static bool add_microbatches(const peer *p, schedule *s, const place_peers *c) {
    for (uint32_t m = 0; m < p->run.microbatches; m++) {
        uint32_t home = 0;
        while (home < c->count && c->peer[home].member != p->state.owner[m % p->run.slots]) home++;
        if (home == c->count || !schedule_way_add(s, home)) return false;
    }
    return true;
}

int64_t route_time_with(const peer *p, const route_candidate *candidate, uint16_t stage) {
    place_peers c = {.count = 0};
    if (p->routing->plan == NULL || p->routing->linkstate == NULL || p->cluster->member_count >= SCHEDULE_MAX_PEERS ||
        !route_by_time(p))
        return 0;
    schedule *s = schedule_init(p->routing->plan + 1, p->run.stages);
    if (!add_members(p, s, &c, candidate) || !add_joiners(p, s, &c, candidate)) return 0;
    if (stage != 0 && !add_peer(&c, s, candidate->id, (schedule_peer){UINT64_MAX, stage, candidate->capacity}, 0))
        return 0;
    add_links(p, s, &c);
    schedule_pieces(s, route_pieces(p));
    if (!add_microbatches(p, s, &c) || !schedule_search_within(s, PLACE_EFFORT)) return 0;
    return schedule_time(s);
}
