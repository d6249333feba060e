// Fallback choice of the next peer (pick.h): a small table and a scan for the lowest cost.
#include "routing/core/pick.h"

#include "base/rng.h"

#include <string.h>

void pick_init(pick_table *f) { memset(f, 0, sizeof *f); }

const pick_peer *pick_known(const pick_table *f, uint64_t member) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peer[i].member == member) return &f->peer[i];
    return NULL;
}

pick_peer *pick_find(pick_table *f, uint64_t member) { return (pick_peer *)pick_known(f, member); }

pick_peer *pick_add(pick_table *f, uint64_t member) {
    pick_peer *found = pick_find(f, member);
    if (found != NULL || f->count == PICK_MAX_PEERS) return found;
    found = &f->peer[f->count++];
    memset(found, 0, sizeof *found);
    found->member = member;
    return found;
}

void pick_remove(pick_table *f, uint64_t member) {
    pick_peer *found = pick_find(f, member);
    if (found != NULL) *found = f->peer[--f->count];
}

uint64_t pick_wait_ns(const pick_peer *peer) { return (uint64_t)(peer->queued + 1) * peer->forward_ns; }

// Computing time and queue of the receiver, and the link: the terms that the sender's choice
// influences.
uint64_t pick_cost_ns(const pick_peer *peer) { return peer->link_ns + pick_wait_ns(peer); }

static bool was_tried(uint64_t member, const uint64_t *tried, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (tried[i] == member) return true;
    return false;
}

bool pick_is_usable(const pick_peer *peer, const uint64_t *tried, uint32_t tried_count) {
    return peer->reachable && peer->can_take && peer->free_slots > 0 && !was_tried(peer->member, tried, tried_count);
}

uint64_t pick_choose(const pick_table *f, const uint64_t *tried, uint32_t tried_count, uint64_t salt) {
    const pick_peer *best = NULL;
    uint64_t best_cost = 0, best_tie = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const pick_peer *c = &f->peer[i];
        if (!pick_is_usable(c, tried, tried_count)) continue;
        uint64_t cost = pick_cost_ns(c), tie = rng_seed(salt, c->member);
        if (best == NULL || cost < best_cost || (cost == best_cost && tie < best_tie)) {
            best = c;
            best_cost = cost;
            best_tie = tie;
        }
    }
    return best == NULL ? 0 : best->member;
}

void pick_sent(pick_table *f, uint64_t member) {
    pick_peer *peer = pick_find(f, member);
    if (peer == NULL) return;
    peer->queued++;
    if (peer->free_slots > 0) peer->free_slots--;
}
