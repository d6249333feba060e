// The host's side of jobs: one at a time per peer, on the virtual clock, with the checkpoint disk.
#include "sim/inside.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t MILLISECOND = 1000000;

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
    // mostly near its mean, now and then much slower, like machines with other users
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
    n->job_generation = n->view.generation;
    n->job_stage = n->view.stage;
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

// A peer that is moved to another stage begins there without state.
static sim_worker *worker_of(sim_cluster *s, uint32_t node, uint16_t index) {
    sim_node *n = &s->node[node];
    sim_watch *w = &s->checker.watch[node];
    if (n->worker && n->worker->stage != index) {
        sim_check_discarded(s, node);
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

static void job_finish(sim_node *n) {
    if (n->job.in) sim_blobs_return(&n->blobs, n->job.in);
    for (uint32_t i = 0; i < n->job.inputs; i++)
        if (n->job.input[i] != JOB_OWN_SUM) sim_blobs_return(&n->blobs, n->job.input[i]);
    n->busy = false;
}

bool sim_job_run(sim_cluster *s, uint32_t node, job_result *out) {
    sim_node *n = &s->node[node];
    const worker_blobs blobs = sim_blobs_access(&n->blobs);
    job work = n->job;
    job_result result;
    if (sim_save_concerns(n, &work)) {
        sim_save_run(s, node, &work, &blobs, &result);
    } else {
        sim_worker *w = worker_of(s, node, work.stage);
        bool from_disk = work.kind == JOB_STATE_INIT && work.version != s->c->start_version;
        bool state_is_wrong = from_disk && s->c->wrong_checkpoints;
        if (from_disk && !state_is_wrong) sim_save_load(s, node, w, &work, &result);
        else if (!sim_mutant_skips_job(s, node, &work, &result)) w->run(w, &work, &blobs, &result);
        sim_mutant_job(s, node, &work, &blobs, &result);
        n->state_is_wrong |= state_is_wrong;
        if (w->complaint[0]) sim_fail(s, "%s: job %s: %s", n->name, sim_job_name(work.kind), w->complaint);
    }
    if (work.kind == JOB_STATE_GET) s->stats->state_blocks += work.count;
    result.cost_ns = n->job_ns;
    job_finish(n);
    bool looks = n->state_is_wrong && work.kind == JOB_STATE_ROOT;  // this job detects the wrong state
    n->state_is_wrong &= !looks;
    if (!sim_failed(s) && !looks) sim_check_result(s, node, &work, &result);
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
