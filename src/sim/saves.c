// Checkpoints: blocks that a peer's host is given to save, complete checkpoints that survive on its
// disk, and states that are read from them.
#include "sim/inside.h"

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

static sim_buffer **blocks_new(const sim_cluster *s) {
    sim_buffer **blocks = calloc((size_t)s->model->stages * SIM_MAX_STAGE_BLOCKS, sizeof *blocks);
    BRAID_ALLOCATED(blocks, ((size_t)s->model->stages * SIM_MAX_STAGE_BLOCKS) * sizeof *blocks);
    return blocks;
}

static void blocks_drop(const sim_cluster *s, sim_buffer ***blocks) {
    for (uint32_t i = 0; *blocks && i < (uint32_t)s->model->stages * SIM_MAX_STAGE_BLOCKS; i++) sim_buffer_drop((*blocks)[i]);
    free(*blocks);
    *blocks = NULL;
}

// Drops an unfinished checkpoint, with the names that it was checked by.
static void written_drop(sim_cluster *s, sim_node *n) {
    blocks_drop(s, &n->saved);
    for (uint32_t i = 0; i < WIRE_MAX_STAGES; i++) {
        if (n->name_checker[i]) n->name_checker[i]->free(n->name_checker[i]);
        n->name_checker[i] = NULL;
    }
}

void sim_save_drop(sim_cluster *s, uint32_t node) {
    written_drop(s, &s->node[node]);
    for (uint32_t k = 0; k < SIM_MAX_CHECKPOINTS; k++) blocks_drop(s, &s->node[node].kept[k].block);
}

// Gives a new incarnation the checkpoints of an older one.
void sim_save_recall(sim_cluster *s, uint32_t node, uint32_t from) {
    for (uint32_t k = 0; k < SIM_MAX_CHECKPOINTS && s->node[from].kept[k].block; k++) {
        const sim_checkpoint *older = &s->node[from].kept[k];
        sim_checkpoint *kept = &s->node[node].kept[k];
        *kept = *older;
        kept->block = blocks_new(s);
        for (uint32_t i = 0; i < (uint32_t)s->model->stages * SIM_MAX_STAGE_BLOCKS; i++)
            if (older->block[i]) kept->block[i] = sim_buffer_hold(older->block[i]);
    }
}

// Loads all blocks of a stage into a worker. Returns the number of blocks without a gap.
static uint32_t fill(sim_cluster *s, sim_worker *w, sim_buffer *const *all, uint16_t index, uint64_t version) {
    sim_blobs table = {0};
    const worker_blobs blobs = sim_blobs_access(&table);
    job_result result;
    uint32_t next = 0;
    for (uint32_t b = 0; b < s->model->blocks[index]; b++) {
        sim_buffer *saved = all[(uint32_t)index * SIM_MAX_STAGE_BLOCKS + b];
        if (!saved) continue;
        uint32_t end = b + 1;
        while (end < s->model->blocks[index] && !all[(uint32_t)index * SIM_MAX_STAGE_BLOCKS + end]) end++;
        job put = {.id = 1, .kind = JOB_STATE_PUT, .stage = index, .first = b, .count = end - b, .version = version, .in = sim_blobs_add(&table, sim_buffer_hold(saved))};
        w->run(w, &put, &blobs, &result);
        if (result.failed || result.version != version) sim_fail(s, "the checkpoint of version %llu holds stage %u block %u at version %llu",
                                                                 (unsigned long long)version, index, b, (unsigned long long)result.version);
        if (b == next) next = end;
    }
    sim_blobs_close(&table);
    return next;
}

// Verifies a checkpoint: fresh workers loaded from it must have the states of the one-process run.
static braid_hash verify(sim_cluster *s, sim_buffer *const *saved, uint64_t version) {
    sha256 all;
    sha256_init(&all);
    for (uint16_t i = 0; i < s->model->stages && !sim_failed(s); i++) {
        sim_worker *w = s->model->open(s->model, i, 1);
        job_result result;
        uint32_t blocks = fill(s, w, saved, i, version);
        job root = {.id = 1, .kind = JOB_STATE_ROOT, .stage = i, .version = version};
        w->run(w, &root, NULL, &result);
        if (blocks != s->model->blocks[i]) sim_fail(s, "the checkpoint of version %llu lacks blocks of stage %u", (unsigned long long)version, i);
        else if (s->reference && !hash_equal(&result.hash, sim_reference_state(s->reference, version, i)))
            sim_fail(s, "the checkpoint of version %llu is wrong in stage %u", (unsigned long long)version, i);
        sha256_update(&all, result.hash.bytes, sizeof result.hash.bytes);
        w->free(w);
    }
    return sha256_final(&all);
}

// Checks blocks against their names, as a joiner does.
static void check(sim_cluster *s, sim_node *n, const job *work, const worker_blobs *blobs, job_result *result) {
    sim_worker **w = &n->name_checker[work->stage];
    if (!*w) *w = s->model->open(s->model, work->stage, 1);
    job put = *work;
    put.kind = work->kind == JOB_SAVE_NAMES ? JOB_NAMES_PUT : JOB_STATE_PUT;
    job_result checked;
    (*w)->run(*w, &put, blobs, &checked);
    result->hash = checked.hash;
    result->malformed = checked.failed && work->kind == JOB_SAVE;
    result->failed = checked.failed && work->kind == JOB_SAVE_NAMES;
}

static void save(sim_cluster *s, sim_node *n, const job *work, const worker_blobs *blobs, job_result *result) {
    if (work->named) check(s, n, work, blobs, result);
    if (result->malformed) return;
    sim_buffer *given = sim_blobs_borrowed(&n->blobs, work->in);
    if (!given || work->stage >= s->model->stages || work->first >= s->model->blocks[work->stage]) {
        sim_fail(s, "%s saves blocks that do not exist", n->name);
        return;
    }
    if (!n->saved) n->saved = blocks_new(s);
    sim_buffer **at = &n->saved[(uint32_t)work->stage * SIM_MAX_STAGE_BLOCKS + work->first];
    sim_buffer_drop(*at);
    *at = sim_buffer_hold(given);
}

static void save_end(sim_cluster *s, sim_node *n, const job *work, job_result *result) {
    result->failed = work->skip;
    s->stats->saves_given_up += work->skip;
    if (!work->skip && n->saved) {
        result->hash = verify(s, n->saved, work->version);
        bool again = n->kept[0].block && n->kept[0].version == work->version;
        blocks_drop(s, &n->kept[again ? 0 : SIM_MAX_CHECKPOINTS - 1].block);
        if (!again) memmove(&n->kept[1], &n->kept[0], (SIM_MAX_CHECKPOINTS - 1) * sizeof n->kept[0]);
        n->kept[0] = (sim_checkpoint){work->version, result->hash, n->saved};
        n->saved = NULL;
    } else if (!work->skip) sim_fail(s, "%s ends a checkpoint of nothing", n->name);
    s->checker.saved_hash = result->hash;
    s->checker.saved_last = work->final;
    written_drop(s, n);
}

static const sim_checkpoint *kept_of(const sim_node *n, uint64_t version) {
    for (uint32_t k = 0; k < SIM_MAX_CHECKPOINTS; k++)
        if (n->kept[k].block && n->kept[k].version == version) return &n->kept[k];
    return NULL;
}

void sim_save_load(sim_cluster *s, uint32_t node, sim_worker *w, const job *work, job_result *result) {
    const sim_node *n = &s->node[node];
    const sim_checkpoint *kept = kept_of(n, work->version);
    *result = (job_result){.id = work->id, .kind = work->kind, .version = work->version, .failed = !kept};
    if (!kept) sim_fail(s, "%s resumes a checkpoint that it does not have", n->name);
    else fill(s, w, kept->block, work->stage, work->version);
}

// Blocks of another stage, read from the checkpoint that the run resumes or from one on this disk.
static void state_from_disk(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result) {
    sim_worker *w = s->model->open(s->model, work->stage, 1);
    const job init = {.id = work->id, .kind = JOB_STATE_INIT, .stage = work->stage, .version = work->version};
    const job root = {.id = work->id, .kind = JOB_STATE_ROOT, .stage = work->stage, .version = work->version};
    if (work->version == s->c->start_version) w->run(w, &init, blobs, result);
    else sim_save_load(s, node, w, &init, result);
    if (work->kind == JOB_NAMES_GET) w->run(w, &root, blobs, result);
    w->run(w, work, blobs, result);
    if (w->complaint[0]) sim_fail(s, "a state of a checkpoint: %s", w->complaint);
    w->free(w);
}

bool sim_save_concerns(const sim_node *n, const job *work) {
    bool of_another = (work->kind == JOB_STATE_GET || work->kind == JOB_NAMES_GET) && work->stage != n->job_stage;
    return of_another || work->kind == JOB_SAVE_NAMES || work->kind == JOB_SAVE || work->kind == JOB_SAVE_END || work->kind == JOB_SAVE_FIND;
}

void sim_save_run(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result) {
    sim_node *n = &s->node[node];
    const sim_checkpoint *kept;
    *result = (job_result){.id = work->id, .kind = work->kind};
    switch (work->kind) {
    case JOB_SAVE_NAMES: check(s, n, work, blobs, result); break;
    case JOB_SAVE: save(s, n, work, blobs, result); break;
    case JOB_SAVE_END: save_end(s, n, work, result); break;
    case JOB_SAVE_FIND:
        kept = kept_of(n, work->version);
        result->failed = !kept || !hash_equal(&kept->weights, &work->weights);
        if (s->c->mutant == SIM_MUTANT_IMAGINES_SAVES) result->failed = false;
        break;
    default: state_from_disk(s, node, work, blobs, result);
    }
}
