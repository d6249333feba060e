// The beginning of a membership: the state is made, read or fetched, and its hash reported
// (docs/protocol.md, Members and state).
#include "protocol/chunks/chunks.h"

static void initialise(peer *p) {
    p->chunks->initialised = true;
    bool fresh = !p->state.has_final && (peer_makes(p, p->state.start_version) || stored_is_start(p));
    if (!fresh) return;
    core_job *t = jobs_add(p, JOB_STATE_INIT);
    BRAID_ASSERT(t != NULL);
    t->work.version = p->state.start_version;
    p->chunks->applying = true;  // no other job changes the state before it is complete
}

void transfer_tick(peer *p) {
    if (p->me == 0) return;
    if (!p->chunks->initialised) initialise(p);
    if (!p->ready && !p->chunks->applying) fetch_tick(p);
    if (p->chunks->state_known && p->ready && (p->chunks->state_sent_ns == 0 || p->now >= p->chunks->state_sent_ns + 2 * TIMING_REPEAT_NS)) {
        p->chunks->state_sent_ns = p->now;
        message_state *state = &peer_compose(p, MESSAGE_STATE)->u.state;
        state->stage = p->stage;
        state->version = p->version;
        state->state_root = p->chunks->state_root;
        peer_send_leader(p);
    }
}

static void begin_at(peer *p, uint64_t version) {
    for (uint32_t b = 0; b < p->chunks->blocks; b++) p->chunks->block_version[b] = version;
    versions_changed(p);
    p->chunks->cached_stage = 1u + p->stage;
    reduce_apply(p);  // FINAL may have come meanwhile
    versions_check_ready(p);
}

void transfer_init_done(peer *p, const job_result *r) {
    braid_hash root;
    p->chunks->applying = false;
    if (p->me == 0) return;
    if (r->failed) {  // other peers may have it
        stored_unreadable(p);
        return;
    }
    if (!stored_compares(p, r->version, &root)) {
        begin_at(p, r->version);
        return;
    }
    core_job *compare = jobs_add(p, JOB_STATE_ROOT);
    BRAID_ASSERT(compare != NULL);
    compare->work.version = r->version;
    compare->of_start = true;
    p->chunks->applying = true;
}

// A stored checkpoint is used only if its hash is the one in the log.
void transfer_start_compared(peer *p, uint64_t version, const braid_hash *root) {
    braid_hash said;
    p->chunks->applying = false;
    if (p->me == 0) return;
    if (stored_compares(p, version, &said) && hash_equal(&said, root)) {
        begin_at(p, version);
        return;
    }
    tell t = {.kind = TELL_SPOILT, .iteration = version, .stage = p->stage};
    peer_tell(p, &t);
    stored_unreadable(p);
}
