// Planted mistakes between the peers and their world. The checkers must notice each.
#include "sim/inside.h"

#include "base/bitset.h"

#include <string.h>

uint64_t sim_mutant_of_core(sim_mutant mutant) {
    const uint64_t first = 1;
    if (mutant == SIM_MUTANT_WRONG_STATE) return first << PEER_MUTANT_TRUSTS_DONORS;
    return mutant < SIM_MUTANT_MOVES_ON_SUSPICION ? 0 : first << (mutant - SIM_MUTANT_MOVES_ON_SUSPICION);
}

static bool is_relay(const sim_cluster *s, uint32_t node) { return s->node[node].config.kind == MEMBER_RELAY; }

bool sim_mutant_skips_job(sim_cluster *s, uint32_t node, const job *work, job_result *result) {
    sim_node *n = &s->node[node];
    if (s->c->mutant == SIM_MUTANT_SHADOW_SKIPS && n->view.standby && work->kind == JOB_APPLY && work->iteration == 1) {
        *result = (job_result){.id = work->id, .kind = work->kind};
        return true;
    }
    if (work->kind != JOB_WEIGHT || !is_relay(s, node)) return false;
    bool eager = s->c->mutant == SIM_MUTANT_EAGER_WEIGHT && n->eager_iteration == work->iteration && bitset_has(n->eager.words, work->m);
    bool lost = s->c->mutant == SIM_MUTANT_LOST_WEIGHT && work->m == 1;
    if (!eager && !lost) return false;
    *result = (job_result){.id = work->id, .kind = work->kind};
    return true;
}

// Adds the weight gradient together with the input gradient, before any COMMIT.
static void add_weight_at_once(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs) {
    sim_node *n = &s->node[node];
    if (n->eager_iteration != work->iteration) n->eager = (message_set){{0}};
    n->eager_iteration = work->iteration;
    if (bitset_has(n->eager.words, work->m)) return;
    bitset_add(n->eager.words, work->m);
    job more = *work;
    more.kind = JOB_WEIGHT;
    more.in = 0;
    job_result ignored;
    n->worker->run(n->worker, &more, blobs, &ignored);
}

static void apply_at_once(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs) {
    job more = {.id = work->id, .kind = JOB_APPLY, .iteration = work->iteration, .clip = 1.0f, .learning_rate = 0.01f, .bias1 = 0.5f, .bias2 = 0.5f};
    job_result ignored;
    s->node[node].worker->run(s->node[node].worker, &more, blobs, &ignored);
}

static void apply_again(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs) {
    job more = *work;
    more.iteration++;  // the version of the blocks now
    job_result ignored;
    s->node[node].worker->run(s->node[node].worker, &more, blobs, &ignored);
}

// Keeps another result than the one that it sends.
static void keep_other_result(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, blob_id sent) {
    sim_node *n = &s->node[node];
    const sim_buffer *from = sim_blobs_get(&n->blobs, sent);
    if (!from) return;
    sim_buffer *kept = sim_buffer_new(from->bytes);
    memcpy(kept->data, from->data, from->bytes);
    kept->data[kept->bytes - 1] ^= 1;
    job put = *work;
    put.kind = JOB_RESULT_PUT;
    put.inputs = 0;
    put.in = sim_blobs_add(&n->blobs, kept);
    job_result ignored;
    n->worker->run(n->worker, &put, blobs, &ignored);
    sim_blobs_release(&n->blobs, put.in);
}

static void corrupt(sim_cluster *s, uint32_t node, blob_id out) {
    sim_buffer *bytes = out ? sim_blobs_get(&s->node[node].blobs, out) : NULL;
    if (bytes && bytes->bytes) bytes->data[bytes->bytes - 1] ^= 1;
}

static bool forwarded_by_another(const sim_cluster *s, uint32_t node, const job *work) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        bool same = i != node && n->eager_iteration == work->iteration && n->job_stage == s->node[node].job_stage;
        if (same && bitset_has(n->eager.words, work->m)) return true;
    }
    return false;
}

// A tensor that is not what a one-process run rounds it to.
static void send_unrounded_repair(sim_cluster *s, uint32_t node, const job *work, blob_id out) {
    sim_node *n = &s->node[node];
    if (n->eager_iteration != work->iteration) n->eager = (message_set){{0}};
    n->eager_iteration = work->iteration;
    bitset_add(n->eager.words, work->m);
    if (forwarded_by_another(s, node, work)) corrupt(s, node, out);
}

void sim_mutant_job(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result) {
    sim_mutant mutant = s->c->mutant;
    if (mutant == SIM_MUTANT_SHADOW_TWICE && s->node[node].view.standby && work->kind == JOB_APPLY && work->iteration == 1) apply_again(s, node, work, blobs);
    if (!is_relay(s, node)) return;
    if (mutant == SIM_MUTANT_EAGER_WEIGHT && work->kind == JOB_BACKWARD) add_weight_at_once(s, node, work, blobs);
    if (mutant == SIM_MUTANT_UNROUNDED_REPAIR && work->kind == JOB_FORWARD) send_unrounded_repair(s, node, work, result->out);
    if (mutant == SIM_MUTANT_EARLY_APPLY && work->kind == JOB_NORM) apply_at_once(s, node, work, blobs);
    if (mutant == SIM_MUTANT_UNROUNDED && work->kind == JOB_REDUCE) keep_other_result(s, node, work, blobs, result->out);
    if (mutant == SIM_MUTANT_MOVED_PART && work->kind == JOB_PACK) corrupt(s, node, result->out);
    bool corrupts_state = mutant == SIM_MUTANT_WRONG_STATE || node - s->c->data_peers < s->c->corrupt_donors;
    bool of_names = s->c->seed % 2 == 1 && mutant == SIM_MUTANT_NONE;
    if (corrupts_state && (work->kind == JOB_STATE_GET || (of_names && work->kind == JOB_NAMES_GET))) {
        corrupt(s, node, result->out);
        result->hash64 = 0;  // the sent hash matches the corrupt bytes
    }
}

size_t sim_mutant_send(sim_cluster *s, const message *msg, uint8_t *bytes, size_t capacity) {
    if (s->c->mutant != SIM_MUTANT_FORGED_DENY || msg->kind != MESSAGE_COUNTED || msg->u.counted.subject.m != 1) return 0;
    message forged = {.kind = MESSAGE_DENY_COMMIT, .iteration = msg->iteration, .sender = msg->sender, .log_position = msg->log_position};
    forged.u.deny_commit = (message_deny_commit){.subject = msg->u.counted.subject, .reason = COMMIT_MISSING, .rev = msg->u.counted.rev};
    return message_encode(&forged, bytes, capacity);
}

bool sim_mutant_loses(const sim_cluster *s, const message *msg) {
    return s->c->mutant == SIM_MUTANT_LOST_COUNTED && msg->kind == MESSAGE_COUNTED;
}
