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
#include "routing/mincost/mincost.h"

#include <string.h>

enum {
    // Delays.
    SETTLED = 4,   // the map has been the same for so long
    AGAIN = 60,    // until cycles are looked for again that were found, and nothing is heard of them
    LACKING = 60,  // that somebody may be silent whom others name
    // Numbers of them.
    IN_VAIN = 12,  // searches of that kind
    MOST = 16,     // cycles of a search
    HINT = 0xff,   // outgoing.why of a MAP
};

#define IS_HINT ((uint32_t)1 << 31)
_Static_assert((int)LONE_MAX_HOPS + (int)ROUTER_MAX_CYCLE <= 4 * (int)ROUTER_MAX_PATH, "a hint fits a message");
_Static_assert((int)BRAID_HINTED <= (int)MOST, "of those that were found");

bool braid_is_hint(const outgoing *o) { return o->kind == ROUTER_MAP && o->why == HINT; }

void braid_compose_hint(const braid *b, const outgoing *from, router_message *out) {
    out->cost = 0;
    out->why = 0;
    out->length = (uint16_t)from->cost;
    memcpy(out->u.word, b->way_word + from->extra, out->length * sizeof *out->u.word);
}

static void send_hint(braid *b, const router_peer *path, uint32_t hops, const router_half *cycle, uint32_t length) {
    uint32_t words = hops + length;  // the first peer is the receiver, and one word says what it is
    uint32_t *word = router_slot(&b->r, ROUTER_NEXT, path[0]) < 0 ? NULL : braid_take_words(b, words);
    if (word == NULL) return;
    word[0] = IS_HINT | (hops - 1);
    memcpy(word + 1, path + 1, (hops - 1) * sizeof *word);
    memcpy(word + hops, cycle, length * sizeof *word);
    outgoing *o = router_post(&b->r, path[0], ROUTER_MAP);
    o->why = HINT;
    o->extra = (uint32_t)(word - b->way_word);
    o->cost = words;
}

static void launch(braid *b, const router_half *cycle, uint32_t length) {
    bool mine = router_owner(cycle[0]) == b->r.config.self && cycle[0] == cycle[length - 1];
    if (!mine || b->out || b->r.now < b->back_off_until || braid_still(b)) return;
    braid_launch(b, 0, cycle, length);
}

void braid_on_hint(braid *b, const router_message *m) {
    if (!braid_is_steered(b) || b->r.is_source || m->length == 0 || (m->u.word[0] & IS_HINT) == 0) return;
    uint32_t more = m->u.word[0] & ~IS_HINT;
    if (more >= m->length) return;
    const uint32_t *cycle = m->u.word + 1 + more;
    uint32_t length = m->length - 1 - more;
    if (length < 3 || length > ROUTER_MAX_CYCLE) return;
    if (more > 0) {
        send_hint(b, m->u.word + 1, more, cycle, length);
        return;
    }
    braid_begin(b);
    launch(b, cycle, length);
}

static bool was_found_before(const braid *b, uint64_t hash) {
    for (uint32_t i = 0; i < BRAID_HINTED; i++)
        if (b->hinted[i] == hash) return true;
    return false;
}

// The best one comes first. What is found again nothing came of; what is new shows that something does.
static void judge(braid *b, uint64_t best) {
    if (was_found_before(b, best))
        b->in_vain++;
    else if (b->in_vain > 0)
        b->in_vain--;
}

static uint64_t hash_of(const router_half *cycle, uint32_t length) {
    uint64_t hash = length;
    for (uint32_t i = 0; i < length; i++) hash = rng_seed(hash, cycle[i]);
    return hash | 1;
}

// On the map that is drawn. False: there is none.
static bool find_cycles(braid *b) {
    router_half cycle[ROUTER_MAX_CYCLE];
    router_peer path[LONE_MAX_HOPS];
    uint64_t found[MOST] = {0};
    uint32_t count = 0;
    for (uint32_t length; count < MOST && (length = lone_cycle(b->lone, b->r.config.slack, cycle)) > 0; count++) {
        router_peer first = router_owner(cycle[0]);
        uint32_t hops = first == b->r.config.self ? 0 : lone_path(b->lone, first, path);
        found[count] = hash_of(cycle, length);
        if (hops == 0)
            launch(b, cycle, length);
        else
            send_hint(b, path, hops, cycle, length);
    }
    if (count > 0)
        judge(b, found[0]);
    else
        b->in_vain = 0;
    memcpy(b->hinted, found, sizeof b->hinted);
    return count > 0;
}

// Of what was found last others will tell: until then I know less than is so.
static bool is_another(const braid *b) {
    bool moved = b->steers_again == ROUTER_NEVER && b->steered_at != b->r.moves;
    return moved || b->steered_of != b->map->changes;
}

// Somebody who is named says nothing: it has gone, and who names it will say so; or what it says finds no room with those who carry it.
static bool waits_for_somebody(braid *b) {
    if (!braid_map_lacks(b)) return false;
    int64_t until = braid_map_changed_at(b) + LACKING * b->r.config.delay;
    if (b->r.now < until)
        router_want(&b->r, until);
    else
        braid_set_free(b);
    return true;
}

static void search(braid *b) {
    bool drawn = braid_map_draw_lone(b, true), found = drawn && find_cycles(b);
    b->steered_of = b->map->changes;
    b->steered_at = b->r.moves;
    b->steers_again = found ? b->r.now + AGAIN * b->r.config.delay : ROUTER_NEVER;
    if (!drawn || b->in_vain >= IN_VAIN)
        braid_set_free(b);
    else if (found)
        router_want(&b->r, b->steers_again);
}

void braid_steer(braid *b) {
    if (!b->r.is_source || !b->begun || b->sends || braid_begin_spreads(b)) return;
    if (!braid_maps(b)) {
        braid_set_free(b);
        return;
    }
    int64_t at = is_another(b) ? braid_map_changed_at(b) + SETTLED * b->r.config.delay : b->steers_again;
    if (b->out || at == ROUTER_NEVER) return;  // a token that comes home changes something
    if (b->r.now < at)
        router_want(&b->r, at);
    else if (!waits_for_somebody(b))
        search(b);
}
