// Checkpoints at this peer's host: which of those in the log it has, and whether the run can start
// from one.
#include "protocol/chunks/chunks.h"

#include <string.h>

// True if the host has the state from which the run began.
static bool has_start(const peer *p) { return p->config.leader && !p->config.lacks_start; }

// 1 + the version of that state, which stays whatever happens to later checkpoints; 0: none.
uint64_t stored_at_least(const peer *p) { return has_start(p) && !peer_makes(p, p->state.first_version) ? p->state.first_version + 1 : 0; }

void stored_open(peer *p) {
    p->chunks->stored.saved = stored_at_least(p);
}

bool stored_compares(const peer *p, uint64_t version, braid_hash *root) { return p->state.fence != 0 && version > 0 && run_state_names_root(&p->state, version, p->stage, root); }

bool stored_is_start(const peer *p) {
    return p->state.fence == 0 ? has_start(p) : !peer_makes(p, p->state.start_version) && p->chunks->stored.saved == p->state.start_version + 1;
}

void stored_unreadable(peer *p) {
    stored_checkpoints *b = &p->chunks->stored;
    if (p->state.fence == 0) return;
    b->saved = p->state.start_version > p->state.first_version ? stored_at_least(p) : 0;
    for (uint32_t i = 0; i < p->state.checkpoint_count; i++)  // an older one may be readable
        if (p->state.checkpoint[i].entry.version == p->state.start_version) b->looked = p->state.checkpoint_count - i;
}

// Looks for the newest checkpoint of the log at the host, whichever peer wrote it.
void stored_tick(peer *p) {
    stored_checkpoints *b = &p->chunks->stored;
    if (p->config.kind != MEMBER_DATA || b->looking || b->looked >= p->state.checkpoint_count) return;
    core_job *t = jobs_add(p, JOB_SAVE_FIND);
    if (t == NULL) return;
    const log_checkpoint *said = &p->state.checkpoint[p->state.checkpoint_count - 1 - b->looked].entry;
    t->work.version = said->version;
    t->work.weights = said->weights;
    b->looking = true;
}

void stored_found(peer *p, const core_job *t, const job_result *r) {
    stored_checkpoints *b = &p->chunks->stored;
    b->looking = false;
    if (b->looked >= p->state.checkpoint_count || p->state.checkpoint[p->state.checkpoint_count - 1 - b->looked].entry.version != t->work.version) return;  // a newer one has been logged
    if (r->failed) {
        b->looked++;
        if (b->looked == p->state.checkpoint_count) b->saved = stored_at_least(p);
        return;
    }
    b->looked = p->state.checkpoint_count;
    b->saved = t->work.version + 1;
    contacts_touch(p);
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) p->cluster->contacts[i].sent_ns = 0;
    if (p->state.fence != 0 && stored_is_start(p) && !p->ready && !p->chunks->applying) p->chunks->initialised = false;
}
