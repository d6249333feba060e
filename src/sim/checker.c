// The rules that hold after every step and at the end of a run (docs/protocol.md, invariants).
#include "sim/inside.h"

#include "base/bitset.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t SECOND = 1000000000;

void sim_check_open(sim_cluster *s) {
    sim_checker *k = &s->checker;
    k->commit = calloc((size_t)s->c->microbatches * s->c->stages, sizeof *k->commit);
    k->watch = calloc(s->node_capacity, sizeof *k->watch);
    k->member = calloc(SIM_MAX_LOG_MEMBERS, sizeof *k->member);
    k->closes = calloc(s->c->iterations, sizeof *k->closes);
    k->finals = calloc(s->c->iterations, sizeof *k->finals);
    BRAID_ALLOCATED(k->commit && k->watch && k->member && k->closes && k->finals, SIM_MAX_LOG_MEMBERS * sizeof *k->member);
}

void sim_check_incarnation(sim_cluster *s, uint32_t node) {
    sim_watch *w = &s->checker.watch[node];
    memset(w, 0, sizeof *w);
    memset(w->block_version, 0xff, sizeof w->block_version);
    w->left = UINT64_MAX;
}

void sim_check_close(sim_cluster *s) {
    free(s->checker.entry);
    free(s->checker.closes);
    free(s->checker.finals);
    free(s->checker.commit);
    free(s->checker.watch);
    free(s->checker.member);
}

static bool sets_intersect(const message_set *a, const message_set *b) {
    for (uint32_t i = 0; i < WIRE_SET_WORDS; i++)
        if (a->words[i] & b->words[i]) return true;
    return false;
}

// I2: no two members, alive or dead, have added the same microbatch in the same stage.
static void check_holders(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    if (!sim_check_member_live(s, n->view.member)) return;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *other = &s->node[i];
        if (i == node || other->view.stage != n->view.stage || other->view.iteration != n->view.iteration || other->view.generation != n->view.generation) continue;
        if (!sim_check_member_live(s, other->view.member) || !sets_intersect(&n->view.k, &other->view.k)) continue;
        sim_fail(s, "I2: %s and %s of stage %u both count one microbatch of iteration %llu", n->name, other->name, n->view.stage,
                 (unsigned long long)n->view.iteration);
    }
}

// I3: the sum contains exactly the microbatches that the peer believes to be in it, once each.
static void check_sum(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    const sim_watch *w = &s->checker.watch[node];
    uint32_t counted = bitset_count(n->view.k.words, WIRE_SET_WORDS);
    if (counted != n->view.counted) sim_fail(s, "%s says |K| = %u and K has %u", n->name, n->view.counted, counted);
    if (counted == 0) return;
    if (w->sum_iteration != n->view.iteration || memcmp(&w->sum, &n->view.k, sizeof w->sum) != 0)
        sim_fail(s, "I3: %s reports %u microbatches of iteration %llu, its sum holds %u of iteration %llu", n->name, counted,
                 (unsigned long long)n->view.iteration, bitset_count(w->sum.words, WIRE_SET_WORDS), (unsigned long long)w->sum_iteration);
}

void sim_check_steps(sim_cluster *s, uint32_t node, event_kind kind) {
    sim_watch *w = &s->checker.watch[node];
    if (s->now - w->window_ns >= SECOND) {
        w->window_ns = s->now;
        w->window_messages = w->window_ticks = 0;
    }
    if (kind != EVENT_TICK) return;
    s->stats->ticks++;
    if (++w->window_ticks > s->stats->most_ticks) s->stats->most_ticks = w->window_ticks;
}

// After a rollback every peer starts again from the older version, and holds none of its state
// until it receives it.
static void check_rollback(sim_cluster *s, uint32_t node) {
    sim_watch *w = &s->checker.watch[node];
    const peer_view *v = &s->node[node].view;
    if (v->generation < w->generation) sim_fail(s, "I9: %s returns from generation %llu to %llu", s->node[node].name, (unsigned long long)w->generation, (unsigned long long)v->generation);
    if (v->generation > w->generation && v->generation > 1) {
        memset(w->block_version, 0xff, sizeof w->block_version);
        w->left = UINT64_MAX;
        w->committed = (message_set){{0}};
        w->committed_iteration = 0;
        w->kept_iteration = 0;
        w->ready = w->reduced = false;
        w->last_version = 0;
    }
    w->generation = v->generation;
}

static bool contains(const member_id *known, uint32_t count, member_id member) {
    for (uint32_t i = 0; i < count; i++)
        if (known[i] == member) return true;
    return false;
}

// I9: a peer that has read the whole log knows the workers of each stage, whether it read entries
// or a snapshot.
static void check_members(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    sim_watch *w = &s->checker.watch[node];
    bool whole = n->view.log_position == s->checker.committed;
    if (whole && w->members_at == s->checker.committed) return;
    w->members_at = whole ? s->checker.committed : 0;
    if (!whole) return;
    member_id known[SIM_MAX_LOG_MEMBERS];
    uint32_t count = 0, others = 0;
    for (uint16_t i = 0; i < s->c->stages; i++) count += peer_members(n->peer, i, &known[count], SIM_MAX_LOG_MEMBERS - count);
    for (uint32_t i = 0; i < s->checker.members; i++) {
        const sim_log_member *m = &s->checker.member[i];
        // a membership of an earlier incarnation
        bool own = id_equal(&m->entry.peer, &n->id) && m->member != n->view.member;
        if (m->expelled || m->shadow || own) continue;
        others++;
        if (!contains(known, count, m->member)) sim_fail(s, "I9: %s has read all of the log and does not know member #%llu", n->name, (unsigned long long)m->member);
    }
    if (count != others) sim_fail(s, "I9: %s has read all of the log and knows %u workers, of %u", n->name, count, others);
}

void sim_check_step(sim_cluster *s, uint32_t node) {
    sim_node *n = &s->node[node];
    sim_watch *w = &s->checker.watch[node];
    const peer_view *v = &n->view;
    check_rollback(s, node);
    sim_check_mover(s, node);
    if (v->version < w->last_version) sim_fail(s, "I9: %s returns from version %llu to %llu", n->name, (unsigned long long)w->last_version, (unsigned long long)v->version);
    if (v->log_position < w->last_log && v->member != 0) sim_fail(s, "I9: the log of %s shrinks to %llu", n->name, (unsigned long long)v->log_position);
    if (v->slots_used > v->capacity) sim_fail(s, "I9: %s uses %u of %u slots", n->name, v->slots_used, v->capacity);
    if (v->blobs_held != n->blobs.held)
        sim_fail(s, "%s reports %llu blobs and holds %llu", n->name, (unsigned long long)v->blobs_held, (unsigned long long)n->blobs.held);
    if (v->useful_ns + v->wasted_ns > w->compute_ns)
        sim_fail(s, "I12: %s booked %llu ns of compute and did %llu", n->name, (unsigned long long)(v->useful_ns + v->wasted_ns), (unsigned long long)w->compute_ns);
    // a new membership begins without state, except for state that the peer keeps (note_apply)
    if (v->member != w->member && v->member != 0) {
        w->left = n->worker && n->worker->stage == v->stage ? sim_check_kept_version(s, node) : UINT64_MAX;
        memset(w->block_version, 0xff, sizeof w->block_version);
    }
    sim_check_needed(s, node);
    check_members(s, node);
    w->member = v->member;
    w->last_version = v->version;
    w->last_log = v->log_position;
    if (v->ready && !w->ready) w->ready_since_ns = s->now;
    if (v->ready && !w->ever_ready && node >= s->c->data_peers + s->c->relays) {
        uint64_t took = s->now - n->started_ns;
        s->stats->joined.count++;
        if (took > s->stats->joined.most_ns) s->stats->joined.most_ns = took;
    }
    w->ready = v->ready;
    w->ever_ready = w->ever_ready || v->ready;
    if (w->k_iteration != v->iteration || w->k_member != v->member || memcmp(&w->k, &v->k, sizeof w->k) != 0) {
        w->k = v->k;
        w->k_iteration = v->iteration;
        w->k_member = v->member;
        check_sum(s, node);
        check_holders(s, node);
    }
    if (!s->any_route) sim_check_route(s, node);
}

// ---- the end

static const void *nothing_read(void *context, blob_id blob, uint64_t *bytes) {
    (void)context, (void)blob, (void)bytes;
    return NULL;
}

static void *nothing_write(void *context, uint64_t bytes, blob_id *blob) {
    (void)context, (void)bytes, (void)blob;
    return NULL;
}

// A member may be dismissed before it has applied the last FINAL; its state is then that of an
// earlier version. Blocks at two versions are no state at all.
static bool check_final_state(sim_cluster *s, uint32_t node) {
    sim_node *n = &s->node[node];
    const sim_watch *w = &s->checker.watch[node];
    if (n->worker->stage != n->view.stage) return false;
    for (uint32_t b = 1; b < s->model->blocks[n->view.stage]; b++)
        if (w->block_version[b] != w->block_version[0]) return false;
    if (w->block_version[0] == UINT64_MAX) return false;
    const worker_blobs blobs = {NULL, nothing_read, nothing_write};
    job work = {.id = 1, .kind = JOB_STATE_ROOT, .stage = n->view.stage, .version = w->block_version[0]};
    job_result result;
    n->worker->run(n->worker, &work, &blobs, &result);
    bool right = !s->reference || (w->block_version[0] <= s->c->iterations && hash_equal(&result.hash, sim_reference_state(s->reference, w->block_version[0], n->view.stage)));
    if (!right)
        sim_fail(s, "I13: the weights of %s (stage %u) are not those of the one-process run", n->name, n->view.stage);
    return w->block_version[0] == s->checker.version;
}

// An elastic run decides at each CLOSE what it skips. So the reference is computed afterwards, from
// the contribution sets of the CLOSE entries, and must give the same numbers.
static sim_reference *replay(sim_cluster *s) {
    const sim_checker *k = &s->checker;
    sim_reference *r = sim_reference_of(s->model, s->c->start_version, k->version, s->c->microbatches, k->closes);
    s->reference = r;
    for (uint64_t t = s->c->start_version; t < k->version && !sim_failed(s); t++) {
        sim_check_close_numbers(s, &k->closes[t]);
        sim_check_final_numbers(s, &k->finals[t]);
    }
    return r;
}

static void check_end(sim_cluster *s);

void sim_check_end(sim_cluster *s) {
    if (!s->checker.started && s->checker.drained) return;
    sim_reference *replayed = s->c->elastic ? replay(s) : NULL;
    if (!sim_failed(s)) check_end(s);
    if (replayed) s->reference = NULL;
    sim_reference_free(replayed);
}

static void check_end(sim_cluster *s) {
    const sim_checker *k = &s->checker;
    if (!k->finished || (k->version != s->c->iterations && !k->drained)) sim_fail(s, "the run ended after %llu of %u iterations", (unsigned long long)k->version, s->c->iterations);
    if (s->run.save && !k->saved_last) sim_fail(s, "the run ended without its last checkpoint");
    bool present[WIRE_MAX_STAGES] = {false};
    for (uint32_t i = 0; i < s->nodes && !sim_failed(s); i++) {
        const sim_node *n = &s->node[i];
        if (!(n->exited || (n->alive && n->missed_end)) || !n->view.member || !k->watch[i].ever_ready || sim_check_is_rolled_back(s, i)) continue;
        if (check_final_state(s, i)) present[n->view.stage] = true;
        if (k->unfinished) continue;  // all peers leave in the middle of an iteration
        // a peer that was dismissed early takes its blobs with it
        if (n->blobs.held && !n->busy && n->view.version == k->version && !n->asked_to_leave) sim_fail(s, "%s left and still holds %llu blobs", n->name, (unsigned long long)n->blobs.held);
        bool all_count = s->c->fake.void_percent == 0;
        if (sim_case_is_faultless(s->c) && all_count && n->view.wasted_ns) sim_fail(s, "%s wasted %llu ns of compute in a run without faults", n->name, (unsigned long long)n->view.wasted_ns);
        // a peer that was dismissed before the last FINAL has not booked the work that it held
        if (n->view.iteration == k->version && n->view.useful_ns + n->view.wasted_ns < k->watch[i].compute_ns)
            sim_fail(s, "I12: %s booked %llu ns of compute and did %llu", n->name, (unsigned long long)(n->view.useful_ns + n->view.wasted_ns), (unsigned long long)k->watch[i].compute_ns);
    }
    // a member removed during the last iteration may not have been admitted again
    for (uint16_t i = 0; i < s->c->stages && !k->unfinished; i++)
        if (!present[i] && k->lost_version[i] != k->version + 1) sim_fail(s, "no member of stage %u has the final weights", i);
}
