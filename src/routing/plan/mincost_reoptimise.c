// braid with one data peer that has planned the first ways: it goes on steering.
//
// Peers that look for cycles by themselves tell all others of all ways, over and over: a repair that concerns a dozen wakes everybody up. Here the
// data peer has a map already. Who carries something else than was planned says so on it (braid_map.c); the data peer finds the
// cycles that save something (lone_cycle.c) and sends a hint to one on each, which goes it with a token as if it had found it (braid_token.c):
// what a cycle really costs, and whether it is possible, is seen on the way. So whoever is not on a way to the data peer, and on no cycle, says
// and hears nothing.
//
// A hint is a MAP that goes downstream: a word that says so and how many peers it is still to go to, these, and the cycle. It may get lost.
// When cycles are found again and again and nothing comes of it, or not all is on the map, the data peer sets all free (braid_begin.c): then everybody
// looks for cycles, as without a plan, for good.
#include "routing/plan/mincost_planner.h"

#include <string.h>

enum {
    // Delays.
    SETTLED = 4,   // the map has been the same for so long
    AGAIN = 60,    // until cycles are looked for again that were found, and nothing is heard of them
    LACKING = 60,  // that somebody may be silent whom others name
    // Numbers of them.
    IN_VAIN = 12,  // searches of that kind
    MOST = 16,     // cycles of a search
};

#define IS_HINT ((uint32_t)1 << 31)
_Static_assert((int)SINGLE_SOURCE_MAX_HOPS + (int)ROUTER_MAX_CYCLE <= 4 * (int)ROUTER_MAX_PATH, "a hint fits a message");
_Static_assert((int)MINCOST_PROPOSED <= (int)MOST, "of those that were found");

void mincost_compose_proposal(const mincost_planner *pl, const outgoing *from, router_message *out) {
    out->cost = 0;
    out->why = 0;
    out->length = (uint16_t)from->cost;
    memcpy(out->u.word, pl->staged.path_word + from->extra, out->length * sizeof *out->u.word);
}

static void send_hint(mincost_planner *pl, const router_peer *path, uint32_t hops, const router_half *cycle, uint32_t length) {
    uint32_t words = hops + length;  // the first peer is the receiver, and one word says what it is
    uint32_t *word = router_slot(&pl->mc.r, ROUTER_NEXT, path[0]) < 0 ? NULL : mincost_take_path_words(pl, words);
    if (word == NULL) return;
    word[0] = IS_HINT | (hops - 1);
    memcpy(word + 1, path + 1, (hops - 1) * sizeof *word);
    memcpy(word + hops, cycle, length * sizeof *word);
    outgoing *o = router_post(&pl->mc.r, path[0], ROUTER_MAP);
    o->why = MINCOST_PROPOSAL;
    o->extra = (uint32_t)(word - pl->staged.path_word);
    o->cost = words;
}

static void launch(mincost_planner *pl, const router_half *cycle, uint32_t length) {
    bool mine = router_owner(cycle[0]) == pl->mc.r.config.self && cycle[0] == cycle[length - 1];
    if (!mine || pl->mc.commit.own_active || pl->mc.r.now < pl->mc.commit.back_off_until || mincost_commits_paused(pl)) return;
    mincost_begin_commit(&pl->mc, 0, cycle, length);
}

void mincost_on_proposal(mincost_planner *pl, const router_message *m) {
    if (!mincost_is_centralised(&pl->mc) || pl->mc.r.is_source || m->length == 0 || (m->u.word[0] & IS_HINT) == 0) return;
    uint32_t more = m->u.word[0] & ~IS_HINT;
    if (more >= m->length) return;
    const uint32_t *cycle = m->u.word + 1 + more;
    uint32_t length = m->length - 1 - more;
    if (length < 3 || length > ROUTER_MAX_CYCLE) return;
    if (more > 0) {
        send_hint(pl, m->u.word + 1, more, cycle, length);
        return;
    }
    mincost_start(&pl->mc);
    launch(pl, cycle, length);
}

static bool was_found_before(const mincost_planner *pl, uint64_t hash) {
    for (uint32_t i = 0; i < MINCOST_PROPOSED; i++)
        if (pl->reopt.proposed[i] == hash) return true;
    return false;
}

// The best one comes first. What is found again nothing came of; what is new shows that something does.
static void judge(mincost_planner *pl, uint64_t best) {
    if (was_found_before(pl, best))
        pl->reopt.repeats++;
    else if (pl->reopt.repeats > 0)
        pl->reopt.repeats--;
}

static uint64_t hash_of(const router_half *cycle, uint32_t length) {
    uint64_t hash = length;
    for (uint32_t i = 0; i < length; i++) hash = rng_seed(hash, cycle[i]);
    return hash | 1;
}

// On the map that is drawn. False: there is none.
static bool find_cycles(mincost_planner *pl) {
    router_half cycle[ROUTER_MAX_CYCLE];
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    uint64_t found[MOST] = {0};
    uint32_t count = 0;
    for (uint32_t length; count < MOST && (length = single_source_cycle(pl->single, pl->mc.r.config.slack, cycle)) > 0; count++) {
        router_peer first = router_owner(cycle[0]);
        uint32_t hops = first == pl->mc.r.config.self ? 0 : single_source_path(pl->single, first, path);
        found[count] = hash_of(cycle, length);
        if (hops == 0)
            launch(pl, cycle, length);
        else
            send_hint(pl, path, hops, cycle, length);
    }
    if (count > 0)
        judge(pl, found[0]);
    else
        pl->reopt.repeats = 0;
    memcpy(pl->reopt.proposed, found, sizeof pl->reopt.proposed);
    return count > 0;
}

// Of what was found last others will tell: until then I know less than is so.
static bool is_another(const mincost_planner *pl) {
    bool moved = pl->reopt.search_again_at == ROUTER_NEVER && pl->reopt.moves != pl->mc.r.moves;
    return moved || pl->reopt.map_version != pl->map->version;
}

// Somebody who is named says nothing: it has gone, and who names it will say so; or what it says finds no room with those who carry it.
static bool waits_for_somebody(mincost_planner *pl) {
    if (!mincost_map_has_gap(pl)) return false;
    int64_t until = mincost_map_changed_at(pl) + LACKING * pl->mc.r.config.delay;
    if (pl->mc.r.now < until)
        router_want(&pl->mc.r, until);
    else
        mincost_decentralise(pl);
    return true;
}

static void search(mincost_planner *pl) {
    bool drawn = mincost_map_load_single(pl, true), found = drawn && find_cycles(pl);
    pl->reopt.map_version = pl->map->version;
    pl->reopt.moves = pl->mc.r.moves;
    pl->reopt.search_again_at = found ? pl->mc.r.now + AGAIN * pl->mc.r.config.delay : ROUTER_NEVER;
    if (!drawn || pl->reopt.repeats >= IN_VAIN)
        mincost_decentralise(pl);
    else if (found)
        router_want(&pl->mc.r, pl->reopt.search_again_at);
}

void mincost_reoptimise(mincost_planner *pl) {
    if (!pl->mc.r.is_source || !pl->mc.phase.started || pl->initial.dispatching || mincost_is_dispatching(&pl->mc)) return;
    if (!mincost_map_usable(pl)) {
        mincost_decentralise(pl);
        return;
    }
    int64_t at = is_another(pl) ? mincost_map_changed_at(pl) + SETTLED * pl->mc.r.config.delay : pl->reopt.search_again_at;
    if (pl->mc.commit.own_active || at == ROUTER_NEVER) return;  // a token that comes home changes something
    if (pl->mc.r.now < at)
        router_want(&pl->mc.r, at);
    else if (!waits_for_somebody(pl))
        search(pl);
}
