// braid with several data peers: a draft, in which planned ways (ways.h) are put in the place of the flow that there is.
//
// Counters begin at zero, and each data peer sends each of its units, with its whole way, to the first relay of it; each relay sends it
// on. Nothing else happens in a draft: a unit that cannot go on stays where it is, so that it is never at home, and whoever has such
// a one, or misses one, gives the draft up (braid_mode.c).
#include "routing/plan/mincost_planner.h"

#include <string.h>

enum {
    GAIN = 2,  // per cent that planned ways must be cheaper than those in force
};

// --- The plan ----------------------------------------------------------------------------------------------------------

static bool gains(mincost_planner *pl) {
    if (pl->staged.active_value < 0) return true;
    return multi_source_value(pl->multi) < pl->staged.active_value - pl->staged.active_value * GAIN / 100;
}

// Whether each data peer's units with their ways can wait to leave.
static bool can_be_sent(const mincost_planner *pl) {
    router_peer path[MULTI_SOURCE_MAX_HOPS];
    for (uint32_t i = 0; i < pl->mc.r.config.source_count; i++) {
        uint32_t words = 0;
        for (uint32_t v = 0; v < multi_source_count(pl->multi); v++)
            if (multi_source_home(pl->multi, v) == pl->mc.r.config.source[i]) words += multi_source_path(pl->multi, v, path) - 1;
        if (words > MINCOST_PATH_WORDS) return false;
    }
    return true;
}

// Looks for ways on the map as it is. It takes long, so only when the map is another one.
void mincost_plan(mincost_planner *pl) {
    BRAID_ASSERT(pl->multi != NULL);
    if (pl->staged.map_version == pl->map->version) return;
    pl->staged.map_version = pl->map->version;
    pl->staged.plan = 0;
    if (!mincost_map_load_multi(pl)) return;
    uint64_t hash = multi_source_arrange(pl->multi);
    pl->staged.active_value = multi_source_active_value(pl->multi);
    if (!multi_source_search(pl->multi) || !can_be_sent(pl)) return;
    pl->staged.plan = (uint32_t)(hash % (MINCOST_LAST_PLAN - 1)) + 1;
    pl->staged.worthwhile = gains(pl);
}

int32_t mincost_planned_units(const mincost_planner *pl) {
    int32_t units = 0;
    for (uint32_t i = 0; pl->staged.plan != 0 && i < multi_source_count(pl->multi); i++)
        units += multi_source_home(pl->multi, i) == pl->mc.r.config.self;
    return units;
}

// --- Units on their way ------------------------------------------------------------------------------------------------

// Of the words, those that have left need no room.
static bool has_room_for(mincost_planner *pl, uint32_t words) {
    uint32_t i = pl->mc.r.queue_count;
    while (i > 0 && pl->mc.r.queue[i - 1].kind != ROUTER_WAY && !mincost_is_proposal(&pl->mc.r.queue[i - 1])) i--;
    if (i == 0) pl->staged.path_words = 0;
    return pl->staged.path_words + words <= MINCOST_PATH_WORDS;
}

// Where `words` of a path may wait until the message leaves; NULL: no room.
uint32_t *mincost_take_path_words(mincost_planner *pl, uint32_t words) {
    if (!has_room_for(pl, words)) return NULL;
    pl->staged.path_words += words;
    return &pl->staged.path_word[pl->staged.path_words - words];
}

// To path[0], and from there to the rest of it. False: it stays here.
static bool send(mincost_planner *pl, uint32_t k, const router_peer *path, uint32_t length, int32_t units) {
    int slot = length > 0 ? router_slot(&pl->mc.r, ROUTER_NEXT, path[0]) : -1;
    uint32_t *words = slot < 0 ? NULL : mincost_take_path_words(pl, length - 1);
    if (words == NULL) return false;
    memcpy(words, path + 1, (length - 1) * sizeof *words);
    mincost_downstream *d = downstream_of(&pl->mc, k, (uint32_t)slot);
    d->units += units;
    invalidate_sums(&pl->mc, k);
    outgoing *o = router_post(&pl->mc.r, path[0], ROUTER_WAY);
    o->k = (uint8_t)k;
    o->units = (uint32_t)d->units;
    o->taken_back = d->returned_done;
    o->position = (uint16_t)units;
    o->extra = (uint32_t)(words - pl->staged.path_word);
    o->cost = length - 1;
    if (pl->staged.path_words + MULTI_SOURCE_MAX_HOPS > MINCOST_PATH_WORDS) pl->mc.r.flush = true;  // so that the next one finds room, should it come before a tick
    return true;
}

void mincost_send_plan(mincost_planner *pl) {
    router_peer path[MULTI_SOURCE_MAX_HOPS];
    if (pl->staged.plan != pl->epochs.plan) return;  // it is somebody else's, and will not be in force
    for (uint32_t i = 0; i < multi_source_count(pl->multi); i++) {
        if (multi_source_home(pl->multi, i) == pl->mc.r.config.self) send(pl, 0, path, multi_source_path(pl->multi, i, path), 1);
    }
}

bool mincost_send_single_plan(mincost_planner *pl) {
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    for (uint32_t sent = 0; sent < MULTI_SOURCE_MAX_UNITS && has_room_for(pl, SINGLE_SOURCE_MAX_HOPS); sent++) {
        uint32_t hops = single_source_next(pl->single, path);
        if (hops == 0) return false;
        send(pl, 0, path, hops, 1);
    }
    return true;
}

void mincost_compose_path(const mincost_planner *pl, const outgoing *from, router_message *out) {
    out->cost = 0;
    out->length = (uint16_t)from->cost;
    memcpy(out->u.word, pl->staged.path_word + from->extra, out->length * sizeof *out->u.word);
}

// As many as came and are not on their way yet; what is too much for me goes back. What comes after the draft is excess like any other.
void mincost_on_path(mincost_planner *pl, uint32_t k, uint32_t slot, const router_message *m) {
    int32_t before = mincost_inflow(&pl->mc, k, slot);
    if (m->length >= MULTI_SOURCE_MAX_HOPS) return;
    if (!mincost_accept_counts(&pl->mc, k, slot, m->units, m->taken_back)) return;
    mincost_return_overflow(&pl->mc, k, slot, mincost_inflow(&pl->mc, k, slot) - before);
    int32_t units = least((int32_t)m->position, mincost_excess(&pl->mc, k));
    bool goes_on = pl->mc.phase.staged || mincost_plans_first(&pl->mc.r.config);
    if (units <= 0 || !goes_on || pl->mc.r.is_source) return;
    if (!send(pl, k, m->u.word, m->length, units)) mincost_note_deviation(&pl->mc);
}
