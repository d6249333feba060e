// Central re-optimisation by a single source that has planned the initial paths.
//
// When each peer searches for cycles by itself, a small repair makes most peers exchange labels.
// Here the data peer uses its map instead. Entries report changed loads (mincost_map.c). The data
// peer finds cycles that save cost (single_source_cycles.c) and sends a cycle proposal to one peer
// of each. That peer starts a commit as if it had found the cycle itself (mincost_cycle_commit.c),
// and the LOCK verifies the true cost. Peers that are on no cycle, and not on the way to one, take
// no part.
//
// A proposal is a MAP that travels downstream. Its first word holds PROPOSAL_BIT and the number of
// peers still to pass; these peers and the cycle follow. A proposal may get lost. If the same
// cycles are found again and again, or the map stays incomplete, the data peer decentralises the
// run (mincost_initial.c): from then on all peers exchange labels.
#include "routing/plan/mincost_planner.h"

#include <string.h>

enum {
    // Delays.
    MAP_STABLE = 4,    // the map was stable for so long
    RETRY = 60,        // a found cycle is searched for again if nothing changed
    GAP_TIMEOUT = 60,  // a named peer may lack an entry for so long
    // Counts.
    MAX_REPEATS = 12,    // searches that repeat an earlier result
    MAX_PROPOSALS = 16,  // cycles in one search
};

#define PROPOSAL_BIT ((uint32_t)1 << 31)
_Static_assert((int)SINGLE_SOURCE_MAX_HOPS + (int)ROUTER_MAX_CYCLE <= 4 * (int)ROUTER_MAX_PATH,
               "a hint fits a message");
_Static_assert((int)MINCOST_PROPOSED <= (int)MAX_PROPOSALS, "of those that were found");

void mincost_compose_proposal(const mincost_planner *pl, const router_outgoing *from, router_message *out) {
    out->cost = 0;
    out->why = 0;
    out->length = (uint16_t)from->cost;
    memcpy(out->u.word, pl->staged.path_word + from->extra, out->length * sizeof *out->u.word);
}

static void send_proposal(mincost_planner *pl, const router_peer *path, uint32_t hops, const router_node *cycle,
                          uint32_t length) {
    uint32_t words = hops + length;  // the receiver is left out; the first word takes its place
    uint32_t *word = router_slot(&pl->mc.r, ROUTER_NEXT, path[0]) < 0 ? NULL : mincost_take_path_words(pl, words);
    if (word == NULL) return;
    word[0] = PROPOSAL_BIT | (hops - 1);
    memcpy(word + 1, path + 1, (hops - 1) * sizeof *word);
    memcpy(word + hops, cycle, length * sizeof *word);
    router_outgoing *o = router_post(&pl->mc.r, path[0], ROUTER_MAP);
    o->why = MINCOST_PROPOSAL;
    o->extra = (uint32_t)(word - pl->staged.path_word);
    o->cost = words;
}

static void begin_commit(mincost_planner *pl, const router_node *cycle, uint32_t length) {
    bool mine = router_owner(cycle[0]) == pl->mc.r.config.self && cycle[0] == cycle[length - 1];
    if (!mine || pl->mc.commit.own_active || pl->mc.r.now < pl->mc.commit.back_off_until || mincost_commits_paused(pl))
        return;
    mincost_begin_commit(&pl->mc, 0, cycle, length);
}

void mincost_on_proposal(mincost_planner *pl, const router_message *m) {
    if (!mincost_is_centralised(&pl->mc) || pl->mc.r.is_source || m->length == 0 || (m->u.word[0] & PROPOSAL_BIT) == 0)
        return;
    uint32_t more = m->u.word[0] & ~PROPOSAL_BIT;
    if (more >= m->length) return;
    const uint32_t *cycle = m->u.word + 1 + more;
    uint32_t length = m->length - 1 - more;
    if (length < 3 || length > ROUTER_MAX_CYCLE) return;
    if (more > 0) {
        send_proposal(pl, m->u.word + 1, more, cycle, length);
        return;
    }
    mincost_start(&pl->mc);
    begin_commit(pl, cycle, length);
}

static bool was_found_before(const mincost_planner *pl, uint64_t hash) {
    for (uint32_t i = 0; i < MINCOST_PROPOSED; i++)
        if (pl->reopt.proposed[i] == hash) return true;
    return false;
}

// The best cycle comes first. Finding it again shows that its proposal failed; a new one shows
// progress.
static void count_repeats(mincost_planner *pl, uint64_t best) {
    if (was_found_before(pl, best))
        pl->reopt.repeats++;
    else if (pl->reopt.repeats > 0)
        pl->reopt.repeats--;
}

static uint64_t cycle_hash(const router_node *cycle, uint32_t length) {
    uint64_t hash = length;
    for (uint32_t i = 0; i < length; i++) hash = rng_seed(hash, cycle[i]);
    return hash | 1;
}

// Searches the loaded map. False: no cycle saves anything.
static bool propose_cycles(mincost_planner *pl) {
    router_node cycle[ROUTER_MAX_CYCLE];
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    uint64_t found[MAX_PROPOSALS] = {0};
    uint32_t count = 0;
    for (uint32_t length;
         count < MAX_PROPOSALS && (length = single_source_cycle(pl->single, pl->mc.r.config.slack, cycle)) > 0;
         count++) {
        router_peer first = router_owner(cycle[0]);
        uint32_t hops = first == pl->mc.r.config.self ? 0 : single_source_path(pl->single, first, path);
        found[count] = cycle_hash(cycle, length);
        if (hops == 0)
            begin_commit(pl, cycle, length);
        else
            send_proposal(pl, path, hops, cycle, length);
    }
    if (count > 0)
        count_repeats(pl, found[0]);
    else
        pl->reopt.repeats = 0;
    memcpy(pl->reopt.proposed, found, sizeof pl->reopt.proposed);
    return count > 0;
}

// Whether the input has changed. After proposals were sent only a new map counts, because the map
// lags behind.
static bool has_new_input(const mincost_planner *pl) {
    bool moved = pl->reopt.search_again_at == ROUTER_NEVER && pl->reopt.moves != pl->mc.r.moves;
    return moved || pl->reopt.map_version != pl->map->version;
}

// A named peer without an entry has gone, and its neighbours will report that, or its entry does
// not fit the forwarders' maps. Waits for the former, and decentralises after GAP_TIMEOUT.
static bool waits_for_entry(mincost_planner *pl) {
    if (!mincost_map_has_gap(pl)) return false;
    int64_t until = mincost_map_changed_at(pl) + GAP_TIMEOUT * pl->mc.r.config.delay;
    if (pl->mc.r.now < until)
        router_want(&pl->mc.r, until);
    else
        mincost_decentralise(pl);
    return true;
}

static void search_cycles(mincost_planner *pl) {
    bool loaded = mincost_map_load_single(pl, true), found = loaded && propose_cycles(pl);
    pl->reopt.map_version = pl->map->version;
    pl->reopt.moves = pl->mc.r.moves;
    pl->reopt.search_again_at = found ? pl->mc.r.now + RETRY * pl->mc.r.config.delay : ROUTER_NEVER;
    if (!loaded || pl->reopt.repeats >= MAX_REPEATS)
        mincost_decentralise(pl);
    else if (found)
        router_want(&pl->mc.r, pl->reopt.search_again_at);
}

void mincost_reoptimise(mincost_planner *pl) {
    if (!pl->mc.r.is_source || !pl->mc.phase.started || pl->initial.dispatching || mincost_is_dispatching(&pl->mc))
        return;
    if (!mincost_map_usable(pl)) {
        mincost_decentralise(pl);
        return;
    }
    int64_t at = has_new_input(pl) ? mincost_map_changed_at(pl) + MAP_STABLE * pl->mc.r.config.delay
                                   : pl->reopt.search_again_at;
    // the end of the own commit will change the state
    if (pl->mc.commit.own_active || at == ROUTER_NEVER) return;
    if (pl->mc.r.now < at)
        router_want(&pl->mc.r, at);
    else if (!waits_for_entry(pl))
        search_cycles(pl);
}
