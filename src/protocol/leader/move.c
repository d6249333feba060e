// Moves: churn may leave one stage with most of the peers. After FINAL the leader may then send one
// relay to another stage (docs/protocol.md, rule J14). The relay's gradient is in FINAL, so nothing
// is computed twice. It is removed with the reason MOVED, joins again, and gets the stage that was
// chosen for it (place.c).
#include "protocol/leader/leader.h"

enum {
    MOVE_GAIN = 16,       // the iteration must be shorter by 1/16
    MOVE_ITERATIONS = 8,  // the gain of so many iterations must pay for the move
    MOVE_REST = 1,        // iterations between two moves
    MOVE_STAYS = 10,      // iterations that a moved peer stays
    MOVE_TRIED = 8,       // the number of relays that are tried in all stages
};

typedef struct mover {
    const cluster_member *member;
    int64_t without_us;  // duration of an iteration without it
} mover;

// True if the newest mover works in its new stage, is gone, or has not joined again in time. Other joiners are part of the times.
static bool mover_has_arrived(const peer *p) {
    const leader_move *l = &p->leader->move;
    const braid_id *id = &l->kept[(l->count + LEADER_KEPT_MOVES - 1) % LEADER_KEPT_MOVES].id;
    for (uint32_t i = 0; i < p->cluster->contact_high && l->count > 0; i++) {
        const cluster_contact *c = &p->cluster->contacts[i];
        if (!c->used || !id_equal(&c->id, id) || c->link != LINK_UP) continue;
        const cluster_member *m = c->member == 0 ? NULL : member_find(p, c->member);
        if (c->joining || (m != NULL && !m->was_ready) || leader_move_target(p, id) != 0) return false;
    }
    return true;
}

static uint32_t answering(const peer *p, uint16_t stage) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        count += p->cluster->members[i].stage == stage && member_answers(p, p->cluster->members[i].id);
    return count;
}

// True if it has moved within MOVE_STAYS iterations.
static bool stays(const peer *p, const braid_id *id) {
    const leader_move *l = &p->leader->move;
    for (uint32_t i = 0; i < l->count && i < LEADER_KEPT_MOVES; i++)
        if (id_equal(&l->kept[i].id, id) && p->state.iteration < l->kept[i].iteration + MOVE_STAYS) return true;
    return false;
}

static bool may_move(const peer *p, const cluster_member *m, leader_spares *spares) {
    if (m->kind != MEMBER_RELAY || m->stage == 0 || member_is_standby(m) || m->contact == NO_CONTACT ||
        !member_answers(p, m->id))
        return false;
    const cluster_contact *c = &p->cluster->contacts[m->contact];
    if (stays(p, &c->id) && !peer_breaks(p, PEER_MUTANT_MOVES_AGAIN)) return false;
    return c->joiner.may_move && !c->departing && spares(p, m);
}

static route_candidate candidate_of(const peer *p, const cluster_member *m) {
    return (route_candidate){
        .id = &p->cluster->contacts[m->contact].id, .leaves = m->id, .capacity = m->capacity, .contact = m->contact};
}

// The members that may move, those first without which an iteration is shortest.
static uint32_t find_movers(const peer *p, leader_spares *spares, mover *found) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!may_move(p, m, spares)) continue;
        route_candidate c = candidate_of(p, m);
        int64_t us = route_time_with(p, &c, 0);
        if (us == 0) continue;
        uint32_t at = count < MOVE_TRIED ? count++ : MOVE_TRIED;
        for (; at > 0 && found[at - 1].without_us > us; at--)
            if (at < MOVE_TRIED) found[at] = found[at - 1];
        if (at < MOVE_TRIED) found[at] = (mover){m, us};
    }
    return count;
}

// The time to fetch the state of a stage from its member with the fastest link; INT64_MAX: not
// known.
static int64_t fetch_us(const peer *p, const braid_id *to, uint16_t stage) {
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->stage != stage || m->contact == NO_CONTACT || !member_answers(p, m->id)) continue;
        int64_t way = route_way_between(p, &p->cluster->contacts[m->contact].id, to);
        if (way != 0 && way < least) least = way;
    }
    if (least == INT64_MAX) return least;
    return (int64_t)((double)least * (double)p->run.state_bytes[stage] / (double)p->run.activation_bytes);
}

// True if the stage would have no more members than the mover's has now, and room for it.
static bool may_take(const peer *p, const cluster_member *m, uint16_t stage) {
    if (stage == m->stage || member_count_stage(p, stage) >= WIRE_MAX_STAGE_MEMBERS) return false;
    if (peer_breaks(p, PEER_MUTANT_MOVES_TO_THE_FULL)) return true;
    return answering(p, stage) < answering(p, m->stage) &&
           member_count_stage(p, stage) < member_count_stage(p, m->stage);
}

// The gain of a move over MOVE_ITERATIONS, twice the fetch and the longer iteration meanwhile taken
// off. 0: it does not pay.
static int64_t gain_of(const peer *p, const mover *m, uint16_t stage, int64_t now_us) {
    route_candidate c = candidate_of(p, m->member);
    if (!may_take(p, m->member, stage)) return 0;
    int64_t then = route_time_with(p, &c, stage), fetch = fetch_us(p, c.id, stage);
    if (then == 0 || fetch == INT64_MAX || now_us - then < now_us / MOVE_GAIN) return 0;
    int64_t meanwhile = m->without_us > now_us ? m->without_us - now_us : 0;
    int64_t gain = MOVE_ITERATIONS * (now_us - then) - 2 * fetch - meanwhile;
    return gain > 0 ? gain : 0;
}

// The member of the greatest gain, and its stage; NULL: no move pays.
static const cluster_member *choose_by_gain(const peer *p, leader_spares *spares, uint16_t *stage) {
    const route_candidate none = {.contact = NO_CONTACT};
    mover found[MOVE_TRIED];
    const cluster_member *best = NULL;
    int64_t most = 0;
    int64_t now_us = route_time_with(p, &none, 0);
    uint32_t movers = now_us == 0 ? 0 : find_movers(p, spares, found);
    for (uint32_t i = 0; i < movers; i++)
        for (uint16_t s = 1; s < p->run.stages; s++) {
            int64_t gain = gain_of(p, &found[i], s, now_us);
            if (gain <= most) continue;
            most = gain;
            best = found[i].member;
            *stage = s;
        }
    return best;
}

// Tests: any move that the rules permit, drawn by the iteration.
static const cluster_member *choose_any(const peer *p, leader_spares *spares, uint16_t *stage) {
    rng r = {rng_seed(p->run.seed, p->state.iteration)};
    const cluster_member *found = NULL;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        for (uint16_t s = 1; s < p->run.stages && may_move(p, m, spares); s++) {
            if (!may_take(p, m, s) || rng_below(&r, ++seen) != 0) continue;
            found = m;
            *stage = s;
        }
    }
    return found;
}

// Moves are MOVE_REST iterations apart.
static bool may_begin(const peer *p) {
    const leader_move *l = &p->leader->move;
    if (p->run.placement != PLACEMENT_GAIN && p->run.placement != PLACEMENT_SHUFFLE) return false;
    if (peer_breaks(p, PEER_MUTANT_MOVES_SEVERAL)) return true;
    uint64_t last = l->count == 0 ? 0 : l->kept[(l->count - 1) % LEADER_KEPT_MOVES].iteration;
    return (l->count == 0 || p->state.iteration >= last + MOVE_REST) && mover_has_arrived(p);
}

member_id leader_move_choose(peer *p, leader_spares *spares) {
    leader_move *l = &p->leader->move;
    if (!may_begin(p)) return 0;
    bool any = p->run.placement == PLACEMENT_SHUFFLE;
    const cluster_member *m = any ? choose_any(p, spares, &l->stage) : choose_by_gain(p, spares, &l->stage);
    return m == NULL ? 0 : m->id;
}

void leader_move_begin(peer *p, member_id keeper) {
    p->leader->move.keeper = keeper;
    p->leader->move.pending = true;
}

void leader_move_applied(peer *p, member_id moved) {
    leader_move *l = &p->leader->move;
    const cluster_member *m = member_find(p, moved);
    if (m == NULL) return;
    uint32_t at = l->count++ % LEADER_KEPT_MOVES;
    l->kept[at].id = m->contact == NO_CONTACT ? p->config.self : p->cluster->contacts[m->contact].id;
    l->kept[at].iteration = p->state.iteration;
}

uint16_t leader_move_target(const peer *p, const braid_id *id) {
    const leader_move *l = &p->leader->move;
    if (!l->pending || l->count == 0) return 0;
    uint32_t newest = (l->count - 1) % LEADER_KEPT_MOVES;
    bool recent = p->state.iteration <= l->kept[newest].iteration + 1;
    return recent && id_equal(&l->kept[newest].id, id) ? l->stage : 0;
}
