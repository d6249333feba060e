// The stage of a joiner.
#include "protocol/leader/leader.h"

enum { PLACE_BAND = 32 };

static uint32_t data_peers(const peer *p, uint32_t from) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        count += p->cluster->members[i].stage == 0 && p->cluster->members[i].contact != from;
    for (uint32_t i = 0; i < p->cluster->contact_high; i++)
        count += p->cluster->contacts[i].used && p->cluster->contacts[i].joining &&
                 p->cluster->contacts[i].joiner.kind == MEMBER_DATA;
    return count;
}

// The stage of this process's newest membership, which may still be in the log if a snapshot
// replaced its own. 0: none.
static uint16_t stage_before(const peer *p, uint32_t from, const message_join *join) {
    uint16_t was = 0;
    for (uint32_t i = 0; i < PEER_KEPT_FORMER; i++) {  // the newest last
        const former_member *f = &p->cluster->former[(p->cluster->next_former + i) % PEER_KEPT_FORMER];
        if (f->incarnation == join->incarnation) was = f->stage;
    }
    const cluster_contact *c = from == NO_CONTACT ? NULL : &p->cluster->contacts[from];
    const cluster_member *older = c == NULL || c->incarnation != join->incarnation ? NULL : member_find(p, c->member);
    return older == NULL ? was : older->keeps;
}

// True if the joiner still has the state of a stage in which no other member is at this version: it
// gets that stage. Not for a relay while the start state can be had elsewhere, since another stage
// may need it more.
static bool has_what_is_lost(const peer *p, uint32_t from, const message_join *join, uint16_t *stage) {
    uint16_t was = stage_before(p, from, join);
    uint32_t count = 0;
    bool given = rollback_is_given(p) && rollback_start_available(p);
    if (was == 0 || !p->state.started || (join->kind == MEMBER_RELAY && given)) return false;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->keeps != was || m->contact == from) continue;
        count++;
        if (leader_sees_at_version(p, m) && member_answers(p, m->id)) return false;
    }
    // a relay that moves: the others may still be applying the results
    bool moves = from != NO_CONTACT && leader_move_target(p, &p->cluster->contacts[from].id) != 0;
    if (moves && member_find(p, p->leader->move.keeper) != NULL && member_answers(p, p->leader->move.keeper))
        return false;
    *stage = was;
    return count < WIRE_MAX_STAGE_MEMBERS;
}

typedef struct stage_room {
    uint32_t count;     // members and joiners being admitted
    uint64_t capacity;  // of those that answer
} stage_room;

static stage_room room_of(const peer *p, uint32_t from, uint16_t stage) {
    stage_room r = {0};
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->stage != stage || m->contact == from) continue;  // its older membership is replaced
        if (member_answers(p, m->id)) r.capacity += m->capacity;
        r.count++;
    }
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        if (!c->used || !c->joining || c->joiner.stage != stage || c->joiner.kind == MEMBER_SHADOW) continue;
        r.capacity += c->joiner.capacity;
        r.count++;
    }
    return r;
}

// The least is the most urgent. Among stages without capacity: an empty one first, since silent
// members may return; then one without a standby. Each microbatch passes through each stage once,
// so the stage with the least capacity is also the most used one (GWTF, section V-B).
static uint64_t rank_of(const peer *p, uint16_t stage, const stage_room *r) {
    return 4 * r->capacity + 2u * (r->count > 0) + (r->capacity == 0 && standby_exists(p, stage));
}

// The stage with which an iteration is shortest. Among stages within PLACE_BAND of that, the one
// with the least rank: the times come from a search, and capacity helps when a peer dies. 0: the
// times are not known, or a stage has no capacity.
static uint16_t shortest_iteration(const peer *p, const route_candidate *candidate, const uint64_t *rank) {
    int64_t time[WIRE_MAX_STAGES] = {0}, least = 0;
    uint16_t best = 0;
    for (uint16_t s = 1; s < p->run.stages; s++) {
        if (rank[s] < 4) return 0;
        if (rank[s] == UINT64_MAX) continue;
        time[s] = route_time_with(p, candidate, s);
        if (time[s] != 0 && (least == 0 || time[s] < least)) least = time[s];
    }
    for (uint16_t s = 1; s < p->run.stages; s++) {
        if (time[s] == 0 || time[s] > least + least / PLACE_BAND) continue;
        if (best == 0 || rank[s] < rank[best]) best = s;
    }
    return best;
}

// Chooses the joiner's stage: the one it wishes, unless another stage is empty; otherwise the stage
// that gains most; if that is not known, the stage with the least capacity.
bool place_joiner(const peer *p, uint32_t from, const message_join *join, uint16_t *stage) {
    bool wished = false, empty = false;
    *stage = 0;
    bool again = from != NO_CONTACT && p->cluster->contacts[from].member != 0;  // its older membership is replaced
    if (p->cluster->member_count == WIRE_MAX_MEMBERS && !again) return false;
    if (join->kind != MEMBER_DATA && has_what_is_lost(p, from, join, stage)) return true;
    if (join->kind == MEMBER_SHADOW) return standby_choose_stage(p, from, join, stage);
    if (join->kind == MEMBER_DATA) return data_peers(p, from) < WIRE_MAX_STAGE_MEMBERS;
    uint64_t rank[WIRE_MAX_STAGES];
    for (uint16_t s = 1; s < p->run.stages; s++) {
        stage_room r = room_of(p, from, s);
        rank[s] = UINT64_MAX;
        if (r.count >= WIRE_MAX_STAGE_MEMBERS) continue;
        wished |= s == join->stage;
        empty |= r.count == 0;
        rank[s] = rank_of(p, s, &r);
        if (*stage == 0 || rank[s] < rank[*stage]) *stage = s;
    }
    if (wished && !(empty && p->state.started)) {
        *stage = join->stage;
        return true;
    }
    uint16_t moves = from == NO_CONTACT ? 0 : leader_move_target(p, &p->cluster->contacts[from].id);
    if (moves != 0 && moves < p->run.stages && rank[moves] != UINT64_MAX) {
        *stage = moves;
        return true;
    }
    if (*stage == 0 || !p->state.started || p->run.placement == PLACEMENT_CAPACITY || from == NO_CONTACT)
        return *stage != 0;
    const route_candidate candidate = {
        .id = &p->cluster->contacts[from].id, .capacity = join->capacity, .contact = from};
    uint16_t gains = shortest_iteration(p, &candidate, rank);
    if (gains != 0) *stage = gains;
    return true;
}
