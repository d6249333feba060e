// Handlers of the changes that lower parts report (core/change.h): the parts that act on each one,
// in order.
#include "protocol/internal.h"

#include <math.h>
#include <string.h>

// The version that all chunks here have, unless a job is about to change some.
static uint64_t whole_version(const peer *p) {
    bool changes = p->core.running.work.id != 0 && (p->core.running.work.kind == JOB_APPLY || p->core.running.work.kind == JOB_STATE_INIT);
    if (!p->chunks->initialised || changes) return UINT64_MAX;
    for (uint32_t b = 1; b < p->chunks->blocks; b++)
        if (p->chunks->block_version[b] != p->chunks->block_version[0]) return UINT64_MAX;
    return p->chunks->block_version[0];
}

// This peer's membership has ended. Its gradient sum is discarded, because other members recompute
// those contributions. Weights and optimizer state stay for the next admission. `join_floor` makes
// sure that an older log received later does not revive this membership.
static void forget_membership(peer *p) {
    p->cluster->join_floor = p->me;
    p->chunks->cached_version = whole_version(p);
    p->ready = p->microbatch->can_take = false;
    if (!peer_breaks(p, PEER_MUTANT_KEEPS_ITS_SUM)) inflight_free_all(p);
    own_free_all(p);
    failover_drop(p);
    reduce_leave(p);
    p->me = 0;
    p->chunks->initialised = false;
    p->chunks->state_asked = p->chunks->state_known = p->chunks->applying = false;
    p->microbatch->can_take_sent = 0;
    p->cluster->join_sent_ns = 0;
    p->chunks->stored.looking = false;
    jobs_drop(p);
    core_job *clear = jobs_add(p, JOB_SUM_CLEAR);
    BRAID_ASSERT(clear != NULL);
    p->core.sum_dirty = false;
}

static void tell_iteration(peer *p, const log_final *f) {
    double tokens = (double)p->state.close.tokens;
    tell t = {.kind = TELL_ITERATION, .iteration = f->iteration, .tokens = p->state.close.tokens, .skip = f->skip};
    t.loss = tokens > 0 ? p->state.close.loss / tokens : 0;
    t.norm = sqrt(f->norm2);
    t.learning_rate = (double)f->learning_rate;
    t.microbatches = bitset_count(p->state.close.counted.words, WIRE_SET_WORDS);
    t.left_out = p->run.microbatches - t.microbatches - bitset_count(p->state.close.voided.words, WIRE_SET_WORDS);
    t.wasted = p->microbatch->wasted;
    t.wasted_ns = p->microbatch->wasted_ns;
    t.useful_ns = p->microbatch->useful_ns;
    t.carried = p->microbatch->carried;
    t.carried_bytes = p->microbatch->carried_bytes;
    peer_tell(p, &t);
}

static void tell_diverged(peer *p, const log_final *f) {
    tell t = {.kind = TELL_DIVERGED, .iteration = f->iteration, .total = f->skipped};
    peer_tell(p, &t);
}

static void final_applied(peer *p, const log_final *final, const run_change *c) {
    // FINAL is the boundary: nothing of the iteration is needed after it
    bool was_ready = p->ready && p->version == final->iteration;
    p->microbatch->can_take = p->ready = false;  // first, so that no freed slot launches a microbatch
    p->leader->rollback.iteration_ns = p->now - p->leader->rollback.began_ns;
    p->leader->rollback.began_ns = p->now;
    inflight_free_all(p);
    own_free_all(p);
    failover_drop(p);
    reduce_final(p, final);
    p->leader->skipped_before = c->skipped;
    if (c->was_closed && p->me != 0) tell_iteration(p, final);  // not of the past that a joiner reads
    if (p->me != 0 && final_is_hopeless(p, final)) tell_diverged(p, final);
    p->microbatch->iteration_ns = p->now;
    p->chunks->state_asked = p->chunks->state_known = false;
    if (p->core.sum_dirty) {
        core_job *clear = jobs_add(p, JOB_SUM_CLEAR);
        BRAID_ASSERT(clear != NULL);
        p->core.sum_dirty = false;
    }
    if (was_ready || p->chunks->initialised) reduce_apply(p);
    credit_refresh(p);
}

static void run_applied(peer *p, const log_run *run, const run_change *c) {
    if (p->me != 0) p->microbatch->iteration_ns = p->now;  // members may have waited for RUN for different times
    p->routing->stale = true;
    if (!c->applied) return;
    if (c->rolled_back) rollback_run(p, run, c->newer);
    if (!c->first) return;
    tell t = {.kind = TELL_STARTED, .iteration = p->state.iteration};
    peer_tell(p, &t);
    credit_update(p, false);
}

// ---- entries of the log -------------------------------------------------------------------------

static void entry_applies(peer *p, const log_entry *entry) {
    const run_change c = run_state_apply(&p->state, entry);
    switch (entry->kind) {
    case LOG_RUN: run_applied(p, &entry->u.run, &c); break;
    case LOG_MEMBER: member_add(p, entry->index, &entry->u.member); break;
    case LOG_EXPEL:
        if (entry->u.expel.reason == EXPEL_MOVED) leader_move_applied(p, entry->u.expel.member);
        member_remove(p, entry->u.expel.member, entry->u.expel.reason);
        break;
    case LOG_PROMOTE: standby_promote(p, entry->index, entry->u.promote.member); break;
    case LOG_OWNER:
        if (c.applied) failover_owner(p, entry->u.owner.slot, c.older);
        break;
    case LOG_CLOSE:
        // the new CLOSE counts fewer microbatches
        if (c.recounted && p->chunks->aggregation.results == p->state.iteration) reduce_reset(p);
        break;
    case LOG_FINAL:
        if (c.applied) final_applied(p, &entry->u.final, &c);
        break;
    case LOG_SHARE:
        if (c.applied) private_share(p, entry->u.share.share, c.freed_share);
        break;
    case LOG_CHECKPOINT:
        if (c.applied) p->chunks->stored.looked = 0;
        break;
    case LOG_VOTERS: contacts_touch(p); break;
    default: break;
    }
}

// ---- the report of each change ------------------------------------------------------------------

static void members_changed(peer *p) {
    p->routing->stale = true;
    credit_refresh(p);
}

static void link_is_up(peer *p, uint32_t index) {
    const cluster_contact *c = &p->cluster->contacts[index];
    p->cluster->join_sent_ns = 0;
    p->routing->stale = true;
    lead_send(p, index);
    credit_refresh(p);
    if (c->member != 0) send_link_back(p, c->member);
    send_retry_waiting(p);
}

static void link_is_down(peer *p, uint32_t index, bool refused) {
    const cluster_contact *c = &p->cluster->contacts[index];
    members_changed(p);
    if (refused) raft_peer_gone(&p->raft, p->now, &c->id);
    if (c->member != 0) pulls_link_lost(p, c->member);
    if (c->member != 0) send_link_lost(p, c->member);
    if (refused && c->member != 0) send_member_gone(p, c->member);
    if (refused && c->member != 0) repair_member_gone(p, c->member, false);
}

static void admitted(peer *p) {
    p->chunks->rest_until_ns = 0;
    p->chunks->blocks = p->run.blocks[p->stage];
    p->chunks->segments = (p->chunks->blocks + PEER_SEGMENT_BLOCKS - 1) / PEER_SEGMENT_BLOCKS;
    for (uint32_t b = 0; b < p->chunks->blocks; b++) p->chunks->block_version[b] = UINT64_MAX;
    versions_changed(p);
    reduce_enter(p);
    fetch_reset(p);
}

static void member_is_gone(peer *p, member_id gone) {
    send_member_gone(p, gone);
    private_gone(p, gone);
    repair_member_gone(p, gone, true);
    close_member_gone(p, gone);
}

// State reports to resend immediately to a new leader.
static void leader_is_another(peer *p) {
    for (uint32_t m = 0; p->config.kind == MEMBER_DATA && m < p->microbatches; m++)
        if (p->microbatch->owned[m].phase == OWNED_SETTLED) p->microbatch->owned[m].settled_ns = 0;
    p->chunks->aggregation.reduced_ns = p->chunks->aggregation.mismatch_ns = 0;
    p->chunks->state_sent_ns = p->cluster->join_sent_ns = 0;
    reduce_invalidate(p);
}

static void is_home(peer *p, uint32_t m) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    message msg = {.kind = MESSAGE_FORWARD, .iteration = p->state.iteration, .sender = p->me};
    msg.u.forward = (message_forward){.subject = {.m = m, .owner_term = h->owner_term}, .owner = p->me, .home = true, .path = h->path};
    msg.u.forward.path.member[0] = p->me;
    own_home(p, &msg, 0);
}

void events_handle(peer *p, const core_change *c) {
    switch (c->kind) {
    case CHANGE_LINK_UP: link_is_up(p, c->contact); break;
    case CHANGE_LINK_DOWN: link_is_down(p, c->contact, c->refused); break;
    case CHANGE_MEMBERS: members_changed(p); break;
    case CHANGE_ADMITTED: admitted(p); break;
    case CHANGE_DISMISSED:
        forget_membership(p);
        if (c->reason == EXPEL_LEFT) leave_when_free(p);
        break;
    case CHANGE_MEMBER_GONE: member_is_gone(p, c->member); break;
    case CHANGE_MEMBER_DEAD: leader_remove_silent(p, c->member); break;
    case CHANGE_HEARTBEAT_DUE: send_heartbeat(p, c->contact); break;
    case CHANGE_LEADER: leader_is_another(p); break;
    case CHANGE_LEADS: leader_begin(p); break;
    case CHANGE_LEADS_NO_MORE: leader_end(p); break;
    case CHANGE_ENTRY: entry_applies(p, c->entry); break;
    case CHANGE_ENTRY_DONE:
        if (peer_is_leader(p)) leader_applied(p, c->entry);
        break;
    case CHANGE_SUM: reduce_open(p); break;
    case CHANGE_HOME: is_home(p, c->m); break;
    case CHANGE_MAY_LAUNCH: own_launch(p); break;
    }
}
