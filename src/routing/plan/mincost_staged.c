// Planned paths on the wire: numbering plans, sending units with their whole path, and forwarding
// them. Used for staged plans of several data peers (mincost_epochs.c) and for initial plans.
//
// While a plan is staged all counters start at 0. Each data peer sends each of its units with its
// path to the first relay, and relays forward it. Nothing else happens. A unit that cannot continue
// stays where it is. A peer that holds such a unit, or misses one, gives the staged plan up.
#include "routing/plan/mincost_planner.h"

#include <string.h>

enum {
    GAIN_PERCENT = 2,  // percent: a plan must be cheaper than the active paths by this much
};

// --- The plan ------------------------------------------------------------------------------------

static bool is_worthwhile(mincost_planner *pl) {
    if (pl->staged.active_value < 0) return true;
    return multi_source_value(pl->multi) < pl->staged.active_value - pl->staged.active_value * GAIN_PERCENT / 100;
}

// The paths of each data peer fit its buffer of words that wait to be sent.
static bool fits_path_words(const mincost_planner *pl) {
    router_peer path[MULTI_SOURCE_MAX_HOPS];
    for (uint32_t i = 0; i < pl->mc.r.config.source_count; i++) {
        uint32_t words = 0;
        for (uint32_t v = 0; v < multi_source_count(pl->multi); v++)
            if (multi_source_home(pl->multi, v) == pl->mc.r.config.source[i])
                words += multi_source_path(pl->multi, v, path) - 1;
        if (words > MINCOST_PATH_WORDS) return false;
    }
    return true;
}

// Plans on the current map. A search takes long, so each version of the map is planned on once.
void mincost_plan(mincost_planner *pl) {
    BRAID_ASSERT(pl->multi != NULL);
    if (pl->staged.map_version == pl->map->version) return;
    pl->staged.map_version = pl->map->version;
    pl->staged.plan = 0;
    if (!mincost_map_load_multi(pl)) return;
    uint64_t hash = multi_source_arrange(pl->multi);
    pl->staged.active_value = multi_source_active_value(pl->multi);
    if (!multi_source_search(pl->multi) || !fits_path_words(pl)) return;
    pl->staged.plan = (uint32_t)(hash % (MINCOST_LAST_PLAN - 1)) + 1;
    pl->staged.worthwhile = is_worthwhile(pl);
}

int32_t mincost_planned_units(const mincost_planner *pl) {
    int32_t units = 0;
    for (uint32_t i = 0; pl->staged.plan != 0 && i < multi_source_count(pl->multi); i++)
        units += multi_source_home(pl->multi, i) == pl->mc.r.config.self;
    return units;
}

// --- Sending paths -------------------------------------------------------------------------------

// Frees the words of messages that have left.
static bool has_room_for(mincost_planner *pl, uint32_t words) {
    uint32_t i = pl->mc.r.queue_count;
    while (i > 0 && pl->mc.r.queue[i - 1].kind != ROUTER_WAY && !mincost_is_proposal(&pl->mc.r.queue[i - 1])) i--;
    if (i == 0) pl->staged.path_words = 0;
    return pl->staged.path_words + words <= MINCOST_PATH_WORDS;
}

// Reserves words for a path until its message is sent; NULL: no room.
uint32_t *mincost_take_path_words(mincost_planner *pl, uint32_t words) {
    if (!has_room_for(pl, words)) return NULL;
    pl->staged.path_words += words;
    return &pl->staged.path_word[pl->staged.path_words - words];
}

// Sends units to path[0], with the rest of the path. False: they stay here.
static bool send_path(mincost_planner *pl, uint32_t k, const router_peer *path, uint32_t length, int32_t units) {
    int slot = length > 0 ? router_slot(&pl->mc.r, ROUTER_NEXT, path[0]) : -1;
    uint32_t *words = slot < 0 ? NULL : mincost_take_path_words(pl, length - 1);
    if (words == NULL) return false;
    memcpy(words, path + 1, (length - 1) * sizeof *words);
    mincost_downstream *d = downstream_of(&pl->mc, k, (uint32_t)slot);
    d->units += units;
    invalidate_sums(&pl->mc, k);
    router_outgoing *o = router_post(&pl->mc.r, path[0], ROUTER_WAY);
    o->k = (uint8_t)k;
    o->units = (uint32_t)d->units;
    o->taken_back = d->returned_done;
    o->on_path = (uint16_t)units;
    o->extra = (uint32_t)(words - pl->staged.path_word);
    o->cost = length - 1;
    // flush now, so that the next path finds room even before a tick
    if (pl->staged.path_words + MULTI_SOURCE_MAX_HOPS > MINCOST_PATH_WORDS) pl->mc.r.flush = true;
    return true;
}

void mincost_send_plan(mincost_planner *pl) {
    router_peer path[MULTI_SOURCE_MAX_HOPS];
    // the plan of another data peer, which will not become active
    if (pl->staged.plan != pl->epochs.plan) return;
    for (uint32_t i = 0; i < multi_source_count(pl->multi); i++) {
        if (multi_source_home(pl->multi, i) == pl->mc.r.config.self)
            send_path(pl, 0, path, multi_source_path(pl->multi, i, path), 1);
    }
}

bool mincost_send_single_plan(mincost_planner *pl) {
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    for (uint32_t sent = 0; sent < MULTI_SOURCE_MAX_UNITS && has_room_for(pl, SINGLE_SOURCE_MAX_HOPS); sent++) {
        uint32_t hops = single_source_next(pl->single, path);
        if (hops == 0) return false;
        send_path(pl, 0, path, hops, 1);
    }
    return true;
}

void mincost_compose_path(const mincost_planner *pl, const router_outgoing *from, router_message *out) {
    out->cost = 0;
    out->length = (uint16_t)from->cost;
    memcpy(out->u.word, pl->staged.path_word + from->extra, out->length * sizeof *out->u.word);
}

// Forwards units that have arrived and not left yet; units beyond the capacity are returned. Units
// that come after the plan became active are ordinary excess.
void mincost_on_path(mincost_planner *pl, uint32_t k, uint32_t slot, const router_message *m) {
    int32_t before = mincost_inflow(&pl->mc, k, slot);
    if (m->length >= MULTI_SOURCE_MAX_HOPS) return;
    if (!mincost_accept_counts(&pl->mc, k, slot, m->units, m->taken_back)) return;
    mincost_return_overflow(&pl->mc, k, slot, mincost_inflow(&pl->mc, k, slot) - before);
    int32_t units = least((int32_t)m->on_path, mincost_excess(&pl->mc, k));
    bool may_forward = pl->mc.phase.staged || mincost_plans_first(&pl->mc.r.config);
    if (units <= 0 || !may_forward || pl->mc.r.is_source) return;
    if (!send_path(pl, k, m->u.word, m->length, units)) mincost_note_deviation(&pl->mc);
}
