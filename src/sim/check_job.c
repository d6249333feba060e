// The jobs that a correct peer may request, and their results. All of it is derived from the
// sequence of jobs alone.
#include "sim/inside.h"

#include "base/bitset.h"

#include <string.h>

static void job_fail(sim_cluster *s, uint32_t node, const job *work, const char *why) {
    sim_fail(s, "%s: job %s t=%llu m=%u stage %u slot %u: %s", s->node[node].name, sim_job_name(work->kind), (unsigned long long)work->iteration,
             work->m, work->stage, work->slot, why);
}

// I1: a job runs on weights of its iteration.
static void check_versions(sim_cluster *s, uint32_t node, const job *work) {
    for (uint32_t b = 0; b < s->model->blocks[work->stage]; b++)
        if (s->checker.watch[node].block_version[b] != work->iteration) {
            job_fail(s, node, work, "I1: the weights are at another version");
            return;
        }
}

static void check_stash(sim_cluster *s, uint32_t node, const job *work) {
    const sim_node *n = &s->node[node];
    if (work->slot >= n->config.capacity || work->slot >= SIM_MAX_CAPACITY) {
        job_fail(s, node, work, "I9: no such slot");
        return;
    }
    const sim_stash *stash = &s->checker.watch[node].stash[work->slot];
    if (work->kind == JOB_FORWARD) return;
    bool ends = work->stage == 0;
    int wanted = work->kind == JOB_LOSS ? WATCH_FORWARD : work->kind == JOB_WEIGHT ? WATCH_BACKWARD : ends ? WATCH_LOSS : WATCH_FORWARD;
    if ((int)stash->phase != wanted || stash->iteration != work->iteration || stash->m != work->m) job_fail(s, node, work, "the slot holds something else");
}

static void check_weight(sim_cluster *s, uint32_t node, const job *work) {
    const sim_watch *w = &s->checker.watch[node];
    bool empty = bitset_count(w->sum.words, WIRE_SET_WORDS) == 0;
    if (!empty && w->sum_iteration != work->iteration) job_fail(s, node, work, "I3: the sum is of another iteration");
    if (work->minus && !bitset_has(w->sum.words, work->m)) job_fail(s, node, work, "I3: this microbatch is not in the sum");
    if (!work->minus && !empty && bitset_has(w->sum.words, work->m)) job_fail(s, node, work, "I3: this microbatch is in the sum already");
    if (work->m >= s->c->microbatches) job_fail(s, node, work, "a microbatch that is not planned");
    if (s->node[node].config.kind == MEMBER_DATA) return;  // an owner sends no COMMIT to itself
    if (w->committed_iteration != work->iteration || !bitset_has(w->committed.words, work->m)) job_fail(s, node, work, "it has no COMMIT");
}

// I7: results are applied only after FINAL, with the factors of FINAL.
static void check_apply(sim_cluster *s, uint32_t node, const job *work) {
    const log_final *final = &s->checker.final;
    if (sim_check_is_rolled_back(s, node)) return;
    if (!s->checker.has_final || work->iteration > final->iteration) {
        job_fail(s, node, work, "I7: there is no FINAL of this iteration");
        return;
    }
    if (!s->reference) return;
    const sim_iteration *r = &s->reference->iteration[work->iteration];
    if (work->skip != r->skip) job_fail(s, node, work, "I7: FINAL said otherwise about skipping");
    if (r->skip) return;
    if (memcmp(&work->clip, &r->clip, sizeof r->clip) != 0 || memcmp(&work->learning_rate, &r->learning_rate, sizeof r->learning_rate) != 0 ||
        memcmp(&work->bias1, &r->bias1, sizeof r->bias1) != 0 || memcmp(&work->bias2, &r->bias2, sizeof r->bias2) != 0)
        job_fail(s, node, work, "I7: other factors than FINAL's");
}

// Counts repeated work. This is no violation: a hedged request to another peer may repeat work that
// was not lost.
static void note_again(sim_cluster *s, uint32_t node, const job *work) {
    s->stats->relay_jobs++;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        message_holdings holds;
        if (i == node || !n->alive || n->view.stage != work->stage || n->view.iteration != work->iteration || !sim_check_member_live(s, n->view.member)) continue;
        peer_holdings(n->peer, 0, &holds);
        const message_set *results = work->kind == JOB_FORWARD ? &holds.forward : &holds.backward;
        if (!bitset_has(results->words, work->m)) continue;
        s->stats->again++;
        sim_trace(s, node, "   again, %s has it", n->name);
        return;
    }
}

static void check_private(sim_cluster *s, uint32_t node, const job *work) {
    if (s->run.shares == 0 || work->kind != JOB_FORWARD || work->stage > 0) return;
    if (!id_equal(&s->node[node].id, &s->checker.share[work->m % s->run.slots % s->run.shares])) job_fail(s, node, work, "its data are another peer's");
}

void sim_check_job(sim_cluster *s, uint32_t node, const job *work) {
    if (work->iteration > s->c->iterations) job_fail(s, node, work, "no such iteration");
    bool works = work->kind <= JOB_REDUCE;
    if (works && sim_check_is_shadow(s, s->node[node].view.member)) job_fail(s, node, work, "a shadow works");
    if (sim_failed(s)) return;
    sim_loss_job(s, node, work, 0, false);
    switch (work->kind) {
    case JOB_FORWARD:
    case JOB_LOSS:
    case JOB_BACKWARD:
    case JOB_WEIGHT:
        check_versions(s, node, work);
        check_private(s, node, work);
        check_stash(s, node, work);
        if (work->kind == JOB_WEIGHT) check_weight(s, node, work);
        if (work->stage > 0 && (work->kind == JOB_FORWARD || work->kind == JOB_BACKWARD)) note_again(s, node, work);
        break;
    case JOB_PACK:
        if (s->checker.watch[node].sum_iteration != work->iteration) job_fail(s, node, work, "the sum is of another iteration");
        break;
    case JOB_REDUCE:
        if (sim_check_is_rolled_back(s, node)) break;
        if (!s->checker.closed || s->checker.close.iteration < work->iteration) job_fail(s, node, work, "before CLOSE");
        else if (s->node[node].view.log_position < s->checker.close_index && s->checker.close.iteration == work->iteration && !s->c->elastic) job_fail(s, node, work, "it has not read CLOSE");
        else if (s->checker.close.iteration == work->iteration && s->node[node].view.log_position >= s->checker.close_index && work->tokens != s->checker.close.tokens) job_fail(s, node, work, "divides by other tokens than CLOSE's");
        break;
    case JOB_APPLY: check_apply(s, node, work); break;
    default: break;
    }
}

// ---- results

static bool known(const sim_cluster *s, const job *work) { return work->iteration < s->c->iterations && work->m < s->c->microbatches; }

static void check_activation(sim_cluster *s, uint32_t node, const job *work, const job_result *result) {
    uint16_t index = work->stage;
    if (!s->reference || !known(s, work)) return;
    uint64_t wanted;
    if (work->kind == JOB_FORWARD) wanted = sim_reference_forward(s->reference, work->iteration, work->m, index);
    else if (work->kind == JOB_LOSS) wanted = sim_reference_backward(s->reference, work->iteration, work->m, s->c->stages);
    else if (index > 0) wanted = sim_reference_backward(s->reference, work->iteration, work->m, index);
    else return;
    if (result->hash64 != wanted) job_fail(s, node, work, "the output is not that of the one-process run");
}

static void note_weight(sim_cluster *s, uint32_t node, const job *work) {
    sim_watch *w = &s->checker.watch[node];
    w->sum_iteration = work->iteration;
    if (work->minus) bitset_remove(w->sum.words, work->m);
    else bitset_add(w->sum.words, work->m);
    w->stash[work->slot].phase = WATCH_EMPTY;
}

static void check_reduced_set(sim_cluster *s, uint32_t node, const job *work) {
    const sim_worker *worker_here = s->node[node].worker;
    // the job comes too late to matter
    if (sim_check_is_rolled_back(s, node) || work->iteration != s->checker.close.iteration || work->tokens != s->checker.close.tokens) return;
    if (worker_here->reduced_known && memcmp(&worker_here->reduced, &s->checker.close.counted, sizeof worker_here->reduced) != 0)
        job_fail(s, node, work, "I6: the parts added do not cover what CLOSE counts");
}

static void note_put(sim_cluster *s, uint32_t node, const job *work, const job_result *result) {
    sim_watch *w = &s->checker.watch[node];
    uint32_t blocks = s->model->blocks[work->stage];
    bool kept = work->kind == JOB_STATE_KEEP;
    if (result->failed) return;
    for (uint32_t b = work->first; b < work->first + work->count && b < blocks; b++) {
        if (kept && !(result->hash64 >> (b - work->first) & 1)) continue;
        if (w->block_version[b] != UINT64_MAX && result->version < w->block_version[b]) job_fail(s, node, work, "I7: a state block returns to an older version");
        w->block_version[b] = result->version;
    }
}

// A peer that was removed and admitted again may update the state that it kept, if that state is
// the version before these results. Some blocks may have come from others meanwhile.
static void note_apply(sim_cluster *s, uint32_t node, const job *work) {
    sim_watch *w = &s->checker.watch[node];
    for (uint32_t b = 0; b < s->model->blocks[work->stage]; b++) {
        uint64_t *version = &w->block_version[b];
        if (*version == work->iteration || (*version == UINT64_MAX && w->left == work->iteration)) *version = work->iteration + 1;
    }
}

static void check_root(sim_cluster *s, uint32_t node, const job *work, const job_result *result) {
    const sim_watch *w = &s->checker.watch[node];
    uint16_t index = work->stage;
    uint64_t version = w->block_version[0];
    for (uint32_t b = 0; b < s->model->blocks[index]; b++)
        if (w->block_version[b] != version) return;
    if (version == UINT64_MAX) version = work->version;  // kept from an earlier membership
    if (!s->reference) return;
    if (version > s->c->iterations || !hash_equal(&result->hash, sim_reference_state(s->reference, version, index)))
        job_fail(s, node, work, "I13: the state is not that of the one-process run");
}

void sim_check_result(sim_cluster *s, uint32_t node, const job *work, const job_result *result) {
    sim_watch *w = &s->checker.watch[node];
    sim_stash *stash = work->slot < SIM_MAX_CAPACITY ? &w->stash[work->slot] : NULL;
    // the peer rolled back while the job ran
    bool outdated = s->node[node].job_generation > 0 && s->node[node].job_generation < s->node[node].view.generation;
    if (work->kind <= JOB_WEIGHT) w->compute_ns += result->cost_ns;
    sim_loss_job(s, node, work, result->cost_ns, true);
    switch (work->kind) {
    case JOB_FORWARD:
        *stash = (sim_stash){WATCH_FORWARD, work->iteration, work->m};
        check_activation(s, node, work, result);
        break;
    case JOB_LOSS:
    case JOB_BACKWARD:
        stash->phase = work->kind == JOB_LOSS ? WATCH_LOSS : WATCH_BACKWARD;
        check_activation(s, node, work, result);
        break;
    case JOB_WEIGHT: note_weight(s, node, work); break;
    case JOB_SUM_CLEAR: w->sum = (message_set){{0}}; break;
    case JOB_REDUCE: check_reduced_set(s, node, work); break;
    case JOB_NORM:
        if (s->node[node].view.leads && !outdated) {  // the leader sends no REDUCED to itself
            w->reduced = true;
            w->reduced_iteration = work->iteration;
        }
        break;
    case JOB_STATE_INIT:
        if (!outdated && sim_check_kept_version(s, node) != result->version) sim_check_discarded(s, node);
        for (uint32_t b = 0; b < SIM_MAX_STAGE_BLOCKS && !outdated; b++) w->block_version[b] = result->version;
        break;
    case JOB_STATE_KEEP:
    case JOB_STATE_PUT:
        if (!outdated) note_put(s, node, work, result);
        break;
    case JOB_APPLY:
        if (!outdated) note_apply(s, node, work);
        break;
    case JOB_STATE_ROOT:
        if (!outdated) check_root(s, node, work, result);
        break;
    default: break;
    }
}
