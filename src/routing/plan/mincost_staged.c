// braid with several data peers: a draft, in which planned ways (ways.h) are put in the place of the flow that there is.
//
// Counters begin at zero, and each data peer sends each of its units, with its whole way, to the first relay of it; each relay sends it
// on. Nothing else happens in a draft: a unit that cannot go on stays where it is, so that it is never at home, and whoever has such
// a one, or misses one, gives the draft up (braid_mode.c).
#include "routing/mincost/mincost.h"

#include <string.h>

enum {
    GAIN = 2,  // per cent that planned ways must be cheaper than those in force
};

// --- The plan ----------------------------------------------------------------------------------------------------------

static bool gains(braid *b) {
    if (b->in_force < 0) return true;
    return ways_value(b->ways) < b->in_force - b->in_force * GAIN / 100;
}

// Whether each data peer's units with their ways can wait to leave.
static bool can_be_sent(const braid *b) {
    router_peer path[WAYS_MAX_HOPS];
    for (uint32_t i = 0; i < b->r.config.source_count; i++) {
        uint32_t words = 0;
        for (uint32_t v = 0; v < ways_count(b->ways); v++)
            if (ways_home(b->ways, v) == b->r.config.source[i]) words += ways_path(b->ways, v, path) - 1;
        if (words > BRAID_WAY_WORDS) return false;
    }
    return true;
}

// Looks for ways on the map as it is. It takes long, so only when the map is another one.
void braid_plan(braid *b) {
    BRAID_ASSERT(b->ways != NULL);
    if (b->planned_of == b->map->changes) return;
    b->planned_of = b->map->changes;
    b->planned = 0;
    if (!braid_map_draw(b)) return;
    uint64_t hash = ways_arrange(b->ways);
    b->in_force = ways_in_force(b->ways);
    if (!ways_search(b->ways) || !can_be_sent(b)) return;
    b->planned = (uint32_t)(hash % (BRAID_LAST_PLAN - 1)) + 1;
    b->worth_it = gains(b);
}

int32_t braid_planned_units(const braid *b) {
    int32_t units = 0;
    for (uint32_t i = 0; b->planned != 0 && i < ways_count(b->ways); i++)
        units += ways_home(b->ways, i) == b->r.config.self;
    return units;
}

// --- Units on their way ------------------------------------------------------------------------------------------------

// Of the words, those that have left need no room.
static bool has_room_for(braid *b, uint32_t words) {
    uint32_t i = b->r.queue_count;
    while (i > 0 && b->r.queue[i - 1].kind != ROUTER_WAY && !braid_is_hint(&b->r.queue[i - 1])) i--;
    if (i == 0) b->way_words = 0;
    return b->way_words + words <= BRAID_WAY_WORDS;
}

// Where `words` of a path may wait until the message leaves; NULL: no room.
uint32_t *braid_take_words(braid *b, uint32_t words) {
    if (!has_room_for(b, words)) return NULL;
    b->way_words += words;
    return &b->way_word[b->way_words - words];
}

// To path[0], and from there to the rest of it. False: it stays here.
static bool send(braid *b, uint32_t k, const router_peer *path, uint32_t length, int32_t units) {
    int slot = length > 0 ? router_slot(&b->r, ROUTER_NEXT, path[0]) : -1;
    uint32_t *words = slot < 0 ? NULL : braid_take_words(b, length - 1);
    if (words == NULL) return false;
    memcpy(words, path + 1, (length - 1) * sizeof *words);
    braid_down *d = down_of(b, k, (uint32_t)slot);
    d->out += units;
    recount(b, k);
    outgoing *o = router_post(&b->r, path[0], ROUTER_WAY);
    o->k = (uint8_t)k;
    o->units = (uint32_t)d->out;
    o->taken_back = d->denied_done;
    o->position = (uint16_t)units;
    o->extra = (uint32_t)(words - b->way_word);
    o->cost = length - 1;
    if (b->way_words + WAYS_MAX_HOPS > BRAID_WAY_WORDS) b->r.flush = true;  // so that the next one finds room, should it come before a tick
    return true;
}

void braid_send_ways(braid *b) {
    router_peer path[WAYS_MAX_HOPS];
    if (b->planned != b->plan) return;  // it is somebody else's, and will not be in force
    for (uint32_t i = 0; i < ways_count(b->ways); i++) {
        if (ways_home(b->ways, i) == b->r.config.self) send(b, 0, path, ways_path(b->ways, i, path), 1);
    }
}

bool braid_send_lone_ways(braid *b) {
    router_peer path[LONE_MAX_HOPS];
    for (uint32_t sent = 0; sent < WAYS_MAX_UNITS && has_room_for(b, LONE_MAX_HOPS); sent++) {
        uint32_t hops = lone_next(b->lone, path);
        if (hops == 0) return false;
        send(b, 0, path, hops, 1);
    }
    return true;
}

void braid_compose_way(const braid *b, const outgoing *from, router_message *out) {
    out->cost = 0;
    out->length = (uint16_t)from->cost;
    memcpy(out->u.word, b->way_word + from->extra, out->length * sizeof *out->u.word);
}

// As many as came and are not on their way yet; what is too much for me goes back. What comes after the draft is excess like any other.
void braid_on_way(braid *b, uint32_t k, uint32_t slot, const router_message *m) {
    int32_t before = braid_in(b, k, slot);
    if (m->length >= WAYS_MAX_HOPS) return;
    if (!braid_on_counts(b, k, slot, m->units, m->taken_back)) return;
    braid_hand_back_overflow(b, k, slot, braid_in(b, k, slot) - before);
    int32_t units = least((int32_t)m->position, braid_excess(b, k));
    bool goes_on = b->drafts || braid_plans_first(&b->r.config);
    if (units <= 0 || !goes_on || b->r.is_source) return;
    if (!send(b, k, m->u.word, m->length, units)) braid_begin_differs(b);
}
