// The host's side of jobs: one at a time per peer, on the virtual clock, with the disk of the checkpoint.
#include "sim/inside.h"

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t MILLISECOND = 1000000;

static bool is_saving(job_kind kind) { return kind == JOB_SAVE_NAMES || kind == JOB_SAVE || kind == JOB_SAVE_END; }

static uint64_t cost_ns(sim_node *n, const job *work, uint64_t now_ns) {
    uint64_t base;
    switch (work->kind) {
    case JOB_FORWARD:
    case JOB_BACKWARD:
    case JOB_WEIGHT: base = n->speed; break;
    case JOB_LOSS: base = n->speed / 2; break;
    case JOB_PACK:
    case JOB_REDUCE:
    case JOB_RESULT_PUT:
    case JOB_RESULT_GET:
    case JOB_STATE_GET:
    case JOB_STATE_PUT:
    case JOB_STATE_KEEP:
    case JOB_SAVE: base = n->speed / 40 + n->speed / 100 * work->count; break;
    default: base = n->speed / 20; break;
    }
    // mostly near its mean, now and then much slower, as machines are that others use too
    uint64_t cost = base - base / 8 + rng_below(&n->random, base / 4 + 1);
    if (rng_below(&n->random, 200) == 0) cost *= 5;
    if (n->slow_until_ns > now_ns) cost *= n->slow_factor;
    return cost + MILLISECOND / 50;
}

bool sim_job_take(sim_cluster *s, uint32_t node, const job *work) {
    sim_node *n = &s->node[node];
    if (n->busy) sim_fail(s, "%s asks for a second job", n->name);
    n->busy = true;
    n->job = *work;
    if (work->in && !sim_blobs_borrow(&n->blobs, work->in)) sim_fail(s, "%s: job %s reads a blob that it does not hold", n->name, sim_job_name(work->kind));
    for (uint32_t i = 0; i < work->inputs; i++)
        if (work->input[i] != JOB_OWN_SUM && !sim_blobs_borrow(&n->blobs, work->input[i]))
            sim_fail(s, "%s: job %s adds a blob that it does not hold", n->name, sim_job_name(work->kind));
    if (sim_failed(s)) return false;
    peer_look(n->peer, &n->view);
    sim_check_job(s, node, work);
    return !sim_failed(s);
}

void sim_job_start(sim_cluster *s, uint32_t node, const job *work) {
    if (!sim_job_take(s, node, work)) return;
    sim_node *n = &s->node[node];
    n->job_ns = cost_ns(n, work, s->now);
    sim_item *item = sim_item_new(ITEM_JOB_DONE, node, 0);
    item->serial = ++n->job_serial;
    sim_item_put(s, s->now + n->job_ns, item);
    sim_crash_moment(s, node, SIM_BEFORE_JOB, (uint8_t)work->kind);
}

static const void *blobs_read(void *context, blob_id blob, uint64_t *bytes) {
    const sim_buffer *buffer = sim_blobs_borrowed(context, blob);
    if (!buffer) buffer = sim_blobs_get(context, blob);
    if (!buffer) return NULL;
    *bytes = buffer->bytes;
    return buffer->data;
}

static void *blobs_write(void *context, uint64_t bytes, blob_id *blob) {
    sim_buffer *buffer = sim_buffer_new(bytes);
    *blob = sim_blobs_add(context, buffer);
    return buffer->data;
}

// A peer that is moved to another stage begins there with nothing.
static sim_worker *worker_of(sim_cluster *s, uint32_t node, uint16_t index) {
    sim_node *n = &s->node[node];
    sim_watch *w = &s->checker.watch[node];
    if (n->worker && n->worker->stage != index) {
        n->worker->free(n->worker);
        n->worker = NULL;
        w->sum = (message_set){{0}};
        memset(w->block_version, 0xff, sizeof w->block_version);
    }
    if (!n->worker) {
        n->worker = s->model->open(s->model, index, n->config.capacity);
        const job init = {.id = 1, .kind = JOB_STATE_INIT, .stage = index, .version = s->c->start_version};
        job_result ignored;
        if (n->config.has_checkpoint) n->worker->run(n->worker, &init, NULL, &ignored);
    }
    return n->worker;
}

void sim_save_drop(sim_cluster *s, uint32_t node) {
    sim_buffer **saved = s->node[node].saved;
    for (uint32_t i = 0; saved && i < (uint32_t)s->model->stages * SIM_MAX_STAGE_BLOCKS; i++) sim_buffer_drop(saved[i]);
    free(saved);
    s->node[node].saved = NULL;
    for (uint32_t i = 0; i < WIRE_MAX_STAGES; i++) {
        if (s->node[node].saver[i]) s->node[node].saver[i]->free(s->node[node].saver[i]);
        s->node[node].saver[i] = NULL;
    }
}

// A checkpoint is right when fresh workers that are filled from it have the states of the one-process run.
static braid_hash save_verify(sim_cluster *s, sim_buffer *const *all_saved, uint64_t version) {
    sha256 all;
    sha256_init(&all);
    for (uint16_t i = 0; i < s->model->stages && !sim_failed(s); i++) {
        sim_worker *w = s->model->open(s->model, i, 1);
        sim_blobs table = {0};
        const worker_blobs blobs = {&table, blobs_read, blobs_write};
        job_result result;
        uint32_t next = 0;
        for (uint32_t b = 0; b < s->model->blocks[i]; b++) {
            sim_buffer *saved = all_saved[(uint32_t)i * SIM_MAX_STAGE_BLOCKS + b];
            if (!saved) continue;
            uint32_t end = b + 1;
            while (end < s->model->blocks[i] && !all_saved[(uint32_t)i * SIM_MAX_STAGE_BLOCKS + end]) end++;
            job put = {.id = 1, .kind = JOB_STATE_PUT, .stage = i, .first = b, .count = end - b, .version = version, .in = sim_blobs_add(&table, sim_buffer_hold(saved))};
            w->run(w, &put, &blobs, &result);
            if (result.failed || result.version != version) sim_fail(s, "the checkpoint of version %llu holds stage %u block %u at version %llu",
                                                                     (unsigned long long)version, i, b, (unsigned long long)result.version);
            if (b == next) next = end;
        }
        job root = {.id = 1, .kind = JOB_STATE_ROOT, .stage = i, .version = version};
        w->run(w, &root, &blobs, &result);
        if (next != s->model->blocks[i]) sim_fail(s, "the checkpoint of version %llu lacks blocks of stage %u", (unsigned long long)version, i);
        else if (s->reference && !hash_equal(&result.hash, sim_reference_state(s->reference, version, i)))
            sim_fail(s, "the checkpoint of version %llu is wrong in stage %u", (unsigned long long)version, i);
        sha256_update(&all, result.hash.bytes, sizeof result.hash.bytes);
        sim_blobs_close(&table);
        w->free(w);
    }
    return sha256_final(&all);
}

// As a joiner looks at them.
static void save_check(sim_cluster *s, sim_node *n, const job *work, const worker_blobs *blobs, job_result *result) {
    sim_worker **w = &n->saver[work->stage];
    if (!*w) *w = s->model->open(s->model, work->stage, 1);
    job put = *work;
    put.kind = work->kind == JOB_SAVE_NAMES ? JOB_NAMES_PUT : JOB_STATE_PUT;
    job_result checked;
    (*w)->run(*w, &put, blobs, &checked);
    result->hash = checked.hash;
    result->malformed = checked.failed && work->kind == JOB_SAVE;
    result->failed = checked.failed && work->kind == JOB_SAVE_NAMES;
}

static void save_run(sim_cluster *s, sim_node *n, const job *work, const worker_blobs *blobs, job_result *result) {
    *result = (job_result){.id = work->id, .kind = work->kind};
    if (work->kind == JOB_SAVE_NAMES || (work->kind == JOB_SAVE && work->named)) save_check(s, n, work, blobs, result);
    if (work->kind == JOB_SAVE_NAMES || result->malformed) return;
    if (work->kind == JOB_SAVE) {
        sim_buffer *saved = sim_blobs_borrowed(&n->blobs, work->in);
        if (!saved || work->stage >= s->model->stages || work->first >= s->model->blocks[work->stage]) {
            sim_fail(s, "%s saves blocks that do not exist", n->name);
            return;
        }
        if (!n->saved) n->saved = calloc((size_t)s->model->stages * SIM_MAX_STAGE_BLOCKS, sizeof *n->saved);
        BRAID_ASSERT(n->saved);
        sim_buffer **at = &n->saved[(uint32_t)work->stage * SIM_MAX_STAGE_BLOCKS + work->first];
        sim_buffer_drop(*at);
        *at = sim_buffer_hold(saved);
        return;
    }
    result->failed = work->skip;
    s->stats->saves_given_up += work->skip;
    if (work->skip) result->hash = (braid_hash){{0}};
    else if (n->saved) result->hash = save_verify(s, n->saved, work->version);
    else sim_fail(s, "%s ends a checkpoint of nothing", n->name);
    s->checker.saved_hash = result->hash;
    s->checker.saved_last = work->final;
    sim_save_drop(s, (uint32_t)(n - s->node));
}

static void job_finish(sim_node *n) {
    if (n->job.in) sim_blobs_return(&n->blobs, n->job.in);
    for (uint32_t i = 0; i < n->job.inputs; i++)
        if (n->job.input[i] != JOB_OWN_SUM) sim_blobs_return(&n->blobs, n->job.input[i]);
    n->busy = false;
}

// The leader's host serves the state of stages that are not its own from the checkpoint that the run goes on from.
static void state_from_start(sim_cluster *s, const job *work, const worker_blobs *blobs, job_result *result) {
    sim_worker *w = s->model->open(s->model, work->stage, 1);
    const job init = {.id = work->id, .kind = JOB_STATE_INIT, .stage = work->stage, .version = s->c->start_version};
    w->run(w, &init, blobs, result);
    const job root = {.id = work->id, .kind = JOB_STATE_ROOT, .stage = work->stage, .version = s->c->start_version};
    if (work->kind == JOB_NAMES_GET) w->run(w, &root, blobs, result);
    w->run(w, work, blobs, result);
    if (w->complaint[0]) sim_fail(s, "a state of the start: %s", w->complaint);
    w->free(w);
}

bool sim_job_run(sim_cluster *s, uint32_t node, job_result *out) {
    sim_node *n = &s->node[node];
    const worker_blobs blobs = {&n->blobs, blobs_read, blobs_write};
    job work = n->job;
    job_result result;
    if (is_saving(work.kind)) {
        save_run(s, n, &work, &blobs, &result);
    } else if ((work.kind == JOB_STATE_GET || work.kind == JOB_NAMES_GET) && work.stage != n->view.stage) {
        state_from_start(s, &work, &blobs, &result);
    } else {
        sim_worker *w = worker_of(s, node, work.stage);
        if (!sim_mutant_swallows(s, node, &work, &result)) w->run(w, &work, &blobs, &result);
        sim_mutant_job(s, node, &work, &blobs, &result);
        if (w->complaint[0]) sim_fail(s, "%s: job %s: %s", n->name, sim_job_name(work.kind), w->complaint);
    }
    if (work.kind == JOB_STATE_GET) s->stats->state_blocks += work.count;
    result.cost_ns = n->job_ns;
    job_finish(n);
    if (!sim_failed(s)) sim_check_result(s, node, &work, &result);
    *out = result;
    return !sim_failed(s);
}

void sim_job_done(sim_cluster *s, uint32_t node) {
    sim_node *n = &s->node[node];
    job work = n->job;
    job_result result;
    if (!sim_job_run(s, node, &result)) return;
    sim_crash_moment(s, node, SIM_AFTER_JOB, (uint8_t)work.kind);
    if (!n->alive || sim_failed(s)) return;
    sim_trace_result(s, node, &work, &result);
    event e = {.kind = EVENT_JOB_DONE, .result = &result};
    sim_step(s, node, &e);
    if (n->alive) sim_crash_moment(s, node, SIM_AFTER_JOB_TOLD, (uint8_t)work.kind);
}
