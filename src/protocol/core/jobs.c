// Jobs that wait for the host, and the one that it runs.
#include "protocol/core/core.h"

#include <string.h>

// True for jobs that may wait and be requested again. The other jobs always find room, because an
// iteration needs them.
static bool is_bulk(job_kind kind) {
    return kind == JOB_PACK || kind == JOB_REDUCE || kind == JOB_RESULT_PUT || kind == JOB_RESULT_GET || kind == JOB_STATE_GET || kind == JOB_STATE_PUT ||
           kind == JOB_NAMES_GET || kind == JOB_NAMES_PUT || kind == JOB_STATE_KEEP || kind == JOB_JOIN;
}

core_job *jobs_add(peer *p, job_kind kind) {
    uint32_t room = is_bulk(kind) ? PEER_MAX_TASKS - PEER_KEPT_TASKS : PEER_MAX_TASKS;
    if (p->core.task_count >= room) return NULL;
    core_job *t = &p->core.tasks[(p->core.task_first + p->core.task_count++) % PEER_MAX_TASKS];
    memset(t, 0, sizeof *t);
    t->work.kind = kind;
    t->work.stage = p->stage;
    t->work.iteration = p->state.iteration;
    t->member = p->me;
    t->contact = NO_CONTACT;
    t->fence = p->state.fence;
    return t;
}

void jobs_release_inputs(peer *p, const core_job *t) {
    bool own_in = t->work.kind == JOB_RESULT_PUT || t->work.kind == JOB_STATE_PUT || t->work.kind == JOB_NAMES_PUT || t->work.kind == JOB_SAVE_NAMES || t->work.kind == JOB_SAVE;
    blob_id in = own_in ? t->work.in : 0;
    peer_release(p, &in);
    for (uint32_t i = 0; i < t->work.inputs; i++) {
        blob_id part = t->work.input[i];
        peer_release(p, &part);
    }
}

void jobs_drop(peer *p) {
    for (; p->core.task_count > 0; p->core.task_count--) {
        p->core.sum_dirty |= p->core.tasks[p->core.task_first].work.kind == JOB_SUM_CLEAR;
        jobs_release_inputs(p, &p->core.tasks[p->core.task_first]);
        p->core.task_first = (p->core.task_first + 1) % PEER_MAX_TASKS;
    }
}

void jobs_start(peer *p, const core_job *t) {
    p->core.running = *t;
    p->core.running.work.id = ++p->core.next_job;
    effect *e = peer_effect(p, EFFECT_JOB);
    BRAID_ASSERT(e != NULL);
    e->job = &p->core.running.work;
}
