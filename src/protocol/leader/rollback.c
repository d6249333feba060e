// Rollback (docs/protocol.md, Rollback). When all copies of a stage's state are lost, the whole run
// returns to a checkpoint that can still be read, in a new generation.
#include "protocol/leader/leader.h"

#include <string.h>

// ---- effects of RUN in the log (rule G4) --------------------------------------------------------

static void tell_rolled_back(peer *p, const log_run *run) {
    tell t = {.kind = TELL_ROLLED_BACK, .iteration = run->start_version, .stage = run->lost, .generation = run->generation};
    t.total = run->reached > run->start_version ? run->reached - run->start_version : 0;
    peer_tell(p, &t);
}

// Discards the state, all computed work and all requests of the generation that was rolled back.
static void forget_work(peer *p) {
    bool keeps = peer_breaks(p, PEER_MUTANT_KEEPS_THE_PAST);
    p->ready = p->microbatch->can_take = p->chunks->initialised = p->chunks->applying = false;  // first, so that freed slots are not taken
    if (!keeps) inflight_free_all(p);
    own_free_all(p);
    failover_drop(p);
    p->chunks->stored.looking = false;
    jobs_drop(p);
    reduce_reset(p);
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) pull_end(p, &p->chunks->pulls[i]);
    p->chunks->state_asked = p->chunks->state_known = p->chunks->root_wanted = false;
    p->microbatch->can_take_sent = p->chunks->state_sent_ns = p->chunks->upload.bytes = 0;
    if (!p->core.sum_dirty || keeps) return;
    core_job *clear = jobs_add(p, JOB_SUM_CLEAR);
    BRAID_ASSERT(clear != NULL);
    p->core.sum_dirty = false;
}

// Discards the heartbeats of members from before the rollback (rule G4).
static void discard_heartbeats(peer *p) {
    for (uint32_t i = 0; i < p->cluster->contact_high; i++) {
        cluster_contact *c = &p->cluster->contacts[i];
        uint64_t saved = c->beat.saved;
        memset(&c->beat, 0, sizeof c->beat);
        c->beat.saved = saved;  // checkpoints on disk remain
        c->beat_position = c->attested_ns = c->source.rest_ns = 0;
        c->sent_ns = 0;  // report this peer's own state at once
    }
    contacts_touch(p);
}

void rollback_run(peer *p, const log_run *run, bool newer) {
    leader_rollback *b = &p->leader->rollback;
    if (newer && p->me != 0) tell_rolled_back(p, run);  // not of the past that a joiner reads
    b->began_ns = p->now;
    memset(b->lost_ns, 0, sizeof b->lost_ns);
    if (p->chunks->stored.saved > run->start_version + 1) {
        p->chunks->stored.saved = stored_at_least(p);
        p->chunks->stored.looked = 0;
    }
    p->version = run->start_version;
    forget_work(p);
    discard_heartbeats(p);
    p->chunks->cached_version = UINT64_MAX;
    memset(p->cluster->former, 0, sizeof p->cluster->former);
    if (p->me != 0) {
        for (uint32_t i = 0; i < p->chunks->blocks; i++) p->chunks->block_version[i] = UINT64_MAX;
        versions_changed(p);
        fetch_reset(p);
    }
    p->routing->stale = true;
    credit_refresh(p);
}

// ---- the leader ---------------------------------------------------------------------------------

// True if a live member can read the checkpoint of this version.
static bool readable(const peer *p, uint64_t version) {
    if (p->me != 0 && p->chunks->stored.saved == version + 1) return true;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->contact == NO_CONTACT || m->expelling || m->kind != MEMBER_DATA) continue;
        const cluster_contact *c = &p->cluster->contacts[m->contact];
        if (c->link == LINK_UP && member_answers(p, m->id) && c->beat.saved == version + 1) return true;
    }
    return false;
}

// True if the state from which the present generation began is available.
bool rollback_start_available(const peer *p) {
    return peer_makes(p, p->state.start_version) || stored_is_start(p) || (p->state.fence != 0 && readable(p, p->state.start_version));
}

static const log_checkpoint *readable_checkpoint(const peer *p, uint64_t version) {
    for (uint32_t i = 0; i < p->state.checkpoint_count; i++) {
        const log_checkpoint *entry = &p->state.checkpoint[i].entry;
        if (entry->version == version && readable(p, version)) return entry;
    }
    return NULL;
}

bool rollback_weights(const peer *p, uint64_t version, braid_hash *weights) {
    const log_checkpoint *entry = readable_checkpoint(p, version);
    if (entry != NULL) *weights = entry->weights;
    return entry != NULL;
}

static bool is_fetched(const peer *p, uint16_t stage) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (p->cluster->members[i].keeps == stage && member_is_whole(p, &p->cluster->members[i])) return true;
    return false;
}

// A reader that is leaving takes its checkpoint with it.
static bool stays_readable(const peer *p, uint64_t version) {
    if (p->me != 0 && !p->leaving && p->chunks->stored.saved == version + 1) return true;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->contact == NO_CONTACT || m->expelling || m->kind != MEMBER_DATA) continue;
        const cluster_contact *c = &p->cluster->contacts[m->contact];
        if (c->link == LINK_UP && !c->departing && member_answers(p, m->id) && c->beat.saved == version + 1) return true;
    }
    return false;
}

bool rollback_is_kept(const peer *p, uint64_t version) {
    if (peer_makes(p, version)) return rollback_is_saved(p, version);
    // the start of the run lies with its first leader alone, which may leave
    return readable_checkpoint(p, version) != NULL && stays_readable(p, version);
}

bool rollback_loses(const peer *p, const cluster_member *leaving) {
    uint64_t version = p->state.iteration;
    bool reads = leaving->contact != NO_CONTACT && p->cluster->contacts[leaving->contact].beat.saved == version + 1;
    if (peer_makes(p, version) || !reads || stays_readable(p, version)) return false;
    for (uint16_t s = 1; s < p->run.stages; s++)
        if (!is_fetched(p, s)) return true;
    return false;
}

bool rollback_is_saved(const peer *p, uint64_t version) {
    if (readable_checkpoint(p, version) != NULL) return true;
    return version == p->state.start_version && rollback_start_available(p);
}

bool rollback_needs(const peer *p, const cluster_member *m) {
    uint64_t version = p->state.start_version;
    bool reads = m->contact != NO_CONTACT && p->cluster->contacts[m->contact].beat.saved == version + 1;
    if (peer_makes(p, version) || p->state.iteration != version || !reads || readable(p, version)) return false;
    for (uint16_t s = 0; s < p->run.stages; s++)
        if (!is_fetched(p, s)) return true;
    return false;
}

// Finds the newest version that every stage still has. False: there is none.
static bool newest_common_version(const peer *p, uint64_t *version) {
    for (uint32_t i = p->state.checkpoint_count; i-- > 0;) {
        *version = p->state.checkpoint[i].entry.version;
        if (*version <= p->state.iteration && readable(p, *version)) return true;
    }
    *version = p->state.first_version;
    return peer_makes(p, *version) || readable(p, *version);
}

bool rollback_is_given(const peer *p) {
    if (p->state.iteration != p->state.start_version) return false;
    return peer_makes(p, p->state.start_version) || p->state.fence == 0 || readable(p, p->state.start_version);
}

// Time to recompute from `version` to `from`: so long members that may make the rollback
// unnecessary are waited for.
static uint64_t recompute_ns(const peer *p, uint64_t from, uint64_t version) {
    double cost_ns = (double)(from - version) * (double)p->leader->rollback.iteration_ns;
    if (cost_ns < (double)TIMING_EXPEL_SILENCE_NS) return TIMING_EXPEL_SILENCE_NS;
    return cost_ns < (double)TIMING_BACK_MOST_NS ? (uint64_t)cost_ns : TIMING_BACK_MOST_NS;
}

static bool may_have(peer *p, const cluster_member *m, uint64_t grace) {
    uint64_t reaches, newest = p->state.has_final ? p->state.final.index : 0;
    if (m->contact == NO_CONTACT) {
        bool finds = fetch_finds_its_own(p) && p->now < p->leader->rollback.lead_ns + grace;
        if (finds) peer_wake_at(p, p->leader->rollback.lead_ns + grace);
        return finds || (versions_reach(p, &reaches) && reaches >= p->state.iteration);
    }
    const cluster_contact *c = &p->cluster->contacts[m->contact];
    if (newest < p->state.fence) newest = p->state.fence;
    bool known = c->beat_position >= newest && c->beat_position != 0;
    if (known && c->beat.reaches <= p->state.iteration) return p->now - c->progress_ns < TIMING_BEAT_NS;  // it may still find the state in its cache
    uint64_t until = contact_awaited_until(p, c, p->leader->rollback.lead_ns, grace);
    if (p->now >= until) return false;
    peer_wake_at(p, until);
    return true;
}

static bool is_lost(peer *p, uint16_t stage, uint64_t grace) {
    bool one = peer_breaks(p, PEER_MUTANT_GOES_BACK_FOR_ONE);
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (p->cluster->members[i].keeps == stage && may_have(p, &p->cluster->members[i], grace) != one) return one;
    return !one;
}

// The checkpoint being written has all of this stage, so it can be rolled back to soon, or the run
// is over.
static bool is_read(const peer *p, uint16_t stage) {
    const peer_leader *l = p->leader;
    return l->saving && l->save_version == p->state.iteration && stage < l->save_stage;
}

uint64_t rollback_grace_ns(const peer *p) { return recompute_ns(p, p->state.iteration, run_state_newest_checkpoint(&p->state)); }

static void go_back(peer *p, uint64_t version, uint16_t lost) {
    log_entry entry = {.kind = LOG_RUN};
    entry.u.run = (log_run){.description = p->run.description, .generation = p->state.run.generation + 1, .start_version = version, .reached = p->state.iteration, .lost = lost};
    if (log_append(p, &entry)) p->leader->rollback.decided = p->raft.last;
}

bool rollback_under_way(const peer *p) { return p->leader->rollback.decided > p->state.position; }

// Members that this leader did not hear before it led are waited for from now on.
void rollback_lead_begin(peer *p) {
    leader_rollback *b = &p->leader->rollback;
    b->decided = 0;
    b->lead_ns = p->now;
    memset(b->lost_ns, 0, sizeof b->lost_ns);
}

void rollback_compensate_pause(peer *p, uint64_t late_ns) {
    for (uint16_t s = 0; s < p->run.stages; s++)
        if (p->leader->rollback.lost_ns[s] != 0) p->leader->rollback.lost_ns[s] += late_ns;
}

bool rollback_is_likely(const peer *p) {
    for (uint16_t s = 0; s < p->run.stages; s++)
        if (p->leader->rollback.lost_ns[s] != 0) return true;
    return false;
}

// True if a standby could take over the work of `m`, the only member of its stage. A promoted
// standby is not moved: it would join as a standby again.
static bool has_standby(const peer *p, const cluster_member *m, uint16_t empty) {
    return standby_can_take_over(p, m->stage) && (m->promoted == 0 || !standby_exists(p, empty));
}

// Chooses the relay to move into the empty stage: the newest member of the most populated stage,
// never the leader itself. A stage with one relay qualifies only if one of its standbys can take
// over.
static member_id most_easily_spared(const peer *p, uint16_t empty) {
    uint32_t most = 1;
    member_id newest = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->kind != MEMBER_RELAY || m->stage == 0 || m->expelling || m->contact == NO_CONTACT) continue;
        uint32_t count = member_count_stage(p, m->stage);
        if (count < most || (count == 1 && !has_standby(p, m, empty))) continue;
        most = count;
        newest = m->id;
    }
    return newest;
}

// Before the first FINAL any relay can be moved without loss: fill empty stages from populated
// ones.
static void fill_the_empty(peer *p) {
    leader_rollback *b = &p->leader->rollback;
    for (uint16_t s = 1; s < p->run.stages; s++) {
        if (stage_has_workers(p, s)) {
            b->lost_ns[s] = 0;
            continue;
        }
        if (b->lost_ns[s] == 0) b->lost_ns[s] = p->now;
        peer_wake_at(p, b->lost_ns[s] + TIMING_LOST_NS);
        if (p->now < b->lost_ns[s] + TIMING_LOST_NS) continue;
        b->lost_ns[s] = p->now;
        leader_remove(p, most_easily_spared(p, s), EXPEL_MOVED);
        return;
    }
}

// Waits while entries are being appended, since they may change the members.
void rollback_lead(peer *p) {
    leader_rollback *b = &p->leader->rollback;
    uint64_t version;
    if (!p->state.started || p->raft.last != p->state.position) return;
    if (rollback_is_given(p)) {
        fill_the_empty(p);
        return;
    }
    bool to_be_had = newest_common_version(p, &version);  // otherwise a joiner may bring it, and is admitted for that (rollback_nears)
    // a joiner may bring a newer checkpoint
    uint64_t newest = run_state_newest_checkpoint(&p->state), due = version < newest ? recompute_ns(p, newest, version) : TIMING_LOST_NS;
    for (uint16_t s = 0; s < p->run.stages; s++) {
        if (is_read(p, s) || !is_lost(p, s, recompute_ns(p, p->state.iteration, version))) {
            b->lost_ns[s] = 0;
            continue;
        }
        if (b->lost_ns[s] == 0 || !to_be_had) b->lost_ns[s] = p->now;
        if (!to_be_had) continue;
        if (p->now < b->lost_ns[s] + due) {
            peer_wake_at(p, b->lost_ns[s] + due);
            continue;
        }
        go_back(p, version, s);
        return;
    }
}

// The leader's records of the iteration are of the generation that was rolled back.
void rollback_lead_again(peer *p) {
    peer_leader *l = p->leader;
    l->saving = l->save_ending = l->checkpoint_due = false;
    l->attest_ns = 0;
    leader_begin_iteration(p);
}
