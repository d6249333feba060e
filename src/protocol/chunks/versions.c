// Which version each chunk of this peer's state has, and whether all of it is ready.
#include "protocol/chunks/chunks.h"

#include <string.h>

bool versions_results_complete(const peer *p) { return p->chunks->aggregation.done == p->chunks->segments; }

void versions_changed(peer *p) {
    uint64_t oldest = UINT64_MAX, newest = 0;
    for (uint32_t b = 0; b < p->chunks->blocks; b++) {
        uint64_t v = p->chunks->block_version[b];
        if (v < oldest) oldest = v;
        if (v > newest) newest = v;
    }
    p->oldest_block = oldest;
    p->newest_block = newest;
}

bool versions_reach(const peer *p, uint64_t *version) {
    uint64_t oldest = p->oldest_block, newest = p->newest_block;
    if (newest == UINT64_MAX) return false;
    bool skipped = p->state.has_final && p->state.final.u.final.skip && p->state.final.u.final.iteration == oldest;
    bool further = skipped || (p->chunks->aggregation.results == oldest && versions_results_complete(p));
    *version = oldest + further;
    return p->me != 0 && newest <= *version;
}

uint64_t versions_results_left(const peer *p) {
    const chunk_aggregation *a = &p->chunks->aggregation;
    return a->normed && versions_results_complete(p) ? a->results + 1 : 0;
}

bool versions_are_behind(const peer *p, uint64_t version) {
    if (version < p->oldest_block || version > p->newest_block) return false;
    for (uint32_t b = 0; b < p->chunks->blocks; b++)
        if (p->chunks->block_version[b] == version) return true;
    return false;
}

void versions_check_ready(peer *p) {
    if (p->me == 0 || p->ready) return;
    uint32_t early = peer_breaks(p, PEER_MUTANT_READY_EARLY) && p->chunks->blocks > 1 ? 1 : 0;
    for (uint32_t b = 0; b + early < p->chunks->blocks; b++)
        if (p->chunks->block_version[b] != p->state.iteration) return;
    p->ready = true;
    p->version = p->state.iteration;
    p->chunks->state_asked = p->chunks->state_known = false;
    credit_update(p, false);
    // heartbeats tell other members of a new source: send them at once
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) p->cluster->contacts[i].sent_ns = 0;
    contacts_touch(p);
    own_launch(p);
}
