// Checkpoints that the log names, and those that lie at this peer's host.
#include "protocol/internal.h"

#include <string.h>

// What the run began from lies at its host.
static bool has_start(const peer *p) { return p->config.leader && !p->config.lacks_start; }

// Whatever becomes of later ones, its host goes on from that: 1 + its version; 0: it has none.
uint64_t saved_at_least(const peer *p) { return has_start(p) && p->past.first > 0 ? p->past.first + 1 : 0; }

void rollback_open(peer *p) {
    p->past.first = p->run.start_version;
    p->past.began_ns = p->now;
    p->past.saved = saved_at_least(p);
}

void saved_forget(rollback *b, uint32_t at) {
    memmove(&b->checkpoint[at], &b->checkpoint[at + 1], (--b->checkpoints - at) * sizeof b->checkpoint[0]);
}

void rollback_checkpoint(peer *p, const log_entry *entry) {
    rollback *b = &p->past;
    if (entry->index < b->fence && entry->u.checkpoint.version > b->run.start_version) return;  // the run went back behind it
    // read once more: known, or there is a newer one of its version, or there are enough newer ones
    if (b->checkpoints > 0 && entry->index <= b->checkpoint[b->checkpoints - 1].index) return;
    for (uint32_t i = 0; i < b->checkpoints; i++)
        if (b->checkpoint[i].said.version == entry->u.checkpoint.version) saved_forget(b, i--);
    if (b->checkpoints == PEER_KEPT_CHECKPOINTS) saved_forget(b, 0);
    b->checkpoint[b->checkpoints].index = entry->index;
    b->checkpoint[b->checkpoints++].said = entry->u.checkpoint;
    b->looked = 0;
}

bool rollback_root(const peer *p, uint64_t version, braid_hash *root) {
    for (uint32_t i = 0; i < p->past.checkpoints; i++) {
        const log_checkpoint *said = &p->past.checkpoint[i].said;
        if (said->version != version || p->stage >= said->stages) continue;
        *root = said->state_root[p->stage];
        return true;
    }
    return false;
}

bool rollback_compares(const peer *p, uint64_t version, braid_hash *root) { return p->past.fence != 0 && version > 0 && rollback_root(p, version, root); }

bool rollback_holds(const peer *p) {
    return p->past.fence == 0 ? has_start(p) : p->run.start_version > 0 && p->past.saved == p->run.start_version + 1;
}

void rollback_unreadable(peer *p) {
    rollback *b = &p->past;
    if (b->fence == 0) return;
    b->saved = p->run.start_version > b->first ? saved_at_least(p) : 0;
    for (uint32_t i = 0; i < b->checkpoints; i++)  // an older one may be whole
        if (b->checkpoint[i].said.version == p->run.start_version) b->looked = b->checkpoints - i;
}

// Whichever peer wrote it: the newest checkpoint that lies here.
void rollback_tick(peer *p) {
    rollback *b = &p->past;
    if (p->config.kind != MEMBER_DATA || b->looking || b->looked >= b->checkpoints) return;
    task *t = task_add(p, JOB_SAVE_FIND);
    if (t == NULL) return;
    const log_checkpoint *said = &b->checkpoint[b->checkpoints - 1 - b->looked].said;
    t->work.version = said->version;
    t->work.weights = said->weights;
    b->looking = true;
}

void rollback_found(peer *p, const task *t, const job_result *r) {
    rollback *b = &p->past;
    b->looking = false;
    if (b->looked >= b->checkpoints || b->checkpoint[b->checkpoints - 1 - b->looked].said.version != t->work.version) return;  // it goes back no more
    if (r->failed) {
        b->looked++;
        if (b->looked == b->checkpoints) b->saved = saved_at_least(p);
        return;
    }
    b->looked = b->checkpoints;
    b->saved = t->work.version + 1;
    contacts_touch(p);
    for (uint32_t i = 0; i < p->contact_high; i++) p->contacts[i].sent_ns = 0;
    if (b->fence != 0 && rollback_holds(p) && !p->ready && !p->applying) p->initialised = false;
}
