// Which job the host runs next, and the part that gets its result. Order: jobs that other peers
// wait for (chunks, state), loss and backward, repairs, forward, weight gradients, state hashes.
// Weight gradients go before forward when no slot is free, because only they free slots.
#include "protocol/internal.h"

#include <string.h>

static core_job for_microbatch(const peer *p, uint32_t m, job_kind kind) {
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    core_job t = {.serial = h->serial, .member = p->me, .contact = NO_CONTACT, .fence = p->state.fence};
    t.work.kind = kind;
    t.work.stage = p->stage;
    t.work.iteration = p->state.iteration;
    t.work.m = m;
    t.work.slot = h->slot;
    return t;
}

static bool start_loss(peer *p, uint32_t m) {
    if (p->config.kind != MEMBER_DATA || p->microbatch->owned[m].phase != OWNED_LOSS || p->microbatch->inflight[m].forward != WORK_DONE) return false;
    core_job t = for_microbatch(p, m, JOB_LOSS);
    t.work.in = p->microbatch->owned[m].home != 0 ? p->microbatch->owned[m].home : p->microbatch->inflight[m].y;
    jobs_start(p, &t);
    return true;
}

static bool start_backward(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->backward != WORK_QUEUED) return false;
    core_job t = for_microbatch(p, m, JOB_BACKWARD);
    t.work.in = h->dy;
    h->backward = WORK_RUNNING;
    jobs_start(p, &t);
    return true;
}

static bool start_forward(peer *p, uint32_t m, bool repairs_only) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->forward != WORK_QUEUED || (repairs_only && !h->repair) || !inflight_claim(p, m)) return false;
    core_job t = for_microbatch(p, m, JOB_FORWARD);
    t.work.in = h->x;
    h->forward = WORK_RUNNING;
    jobs_start(p, &t);
    return true;
}

static bool start_weight(peer *p, uint32_t m) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (h->weight != WORK_QUEUED) return false;
    core_job t = for_microbatch(p, m, JOB_WEIGHT);
    t.work.minus = h->taking_back;
    h->weight = WORK_RUNNING;
    p->core.sum_dirty = true;
    jobs_start(p, &t);
    return true;
}

static bool start_microbatch(peer *p) {
    if (p->disabled) return false;
    EACH_INFLIGHT(p, m)
        if (start_loss(p, m) || start_backward(p, m)) return true;
    EACH_INFLIGHT(p, m)
        if (start_forward(p, m, true)) return true;
    if (p->microbatch->slots_used == p->config.capacity)
        EACH_INFLIGHT(p, m)
            if (start_weight(p, m)) return true;
    EACH_INFLIGHT(p, m)
        if (start_forward(p, m, false)) return true;
    EACH_INFLIGHT(p, m)
        if (start_weight(p, m)) return true;
    return false;
}

static bool start_state_root(peer *p) {
    if (!p->ready || p->chunks->state_asked || p->version != p->state.iteration) return false;
    p->chunks->state_asked = true;
    core_job t = {.member = p->me, .contact = NO_CONTACT, .fence = p->state.fence};
    t.work.kind = JOB_STATE_ROOT;
    t.work.stage = p->stage;
    t.work.iteration = t.work.version = p->version;
    jobs_start(p, &t);
    return true;
}

// True if a peer waits for content hashes from here, or fetches this stage's state and needs the
// attested hash. Otherwise a busy peer would compute the hash only at the end of the iteration.
static bool root_is_urgent(const peer *p) {
    if (p->chunks->root_wanted || p->chunks->state_asked) return p->chunks->root_wanted;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        const cluster_contact *c = m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact];
        if (m->keeps == p->stage && c != NULL && c->link == LINK_UP && !m->was_ready && c->beat.ready == 0) return true;
    }
    return false;
}

void work_next(peer *p) {
    if (p->core.running.work.id != 0) return;
    while (p->core.task_count > 0) {
        core_job t = p->core.tasks[p->core.task_first];
        p->core.task_first = (p->core.task_first + 1) % PEER_MAX_TASKS;
        p->core.task_count--;
        bool counts = t.work.kind == JOB_REDUCE ? reduce_counts(p, &t) : t.work.kind != JOB_STATE_PUT || fetch_counts(p, &t);
        if (counts) {
            jobs_start(p, &t);
            return;
        }
        jobs_release_inputs(p, &t);
    }
    if (p->me == 0 || (root_is_urgent(p) && start_state_root(p))) return;
    if (!start_microbatch(p)) start_state_root(p);
}

static void state_root_done(peer *p, const core_job *t, const job_result *r) {
    if (t->of_start) {
        transfer_start_compared(p, t->work.version, &r->hash);
        return;
    }
    if (!p->ready) fetch_own_root(p, t, r);
    if (!p->ready || t->work.version != p->version) return;
    p->chunks->state_known = true;
    p->chunks->root_wanted = false;
    p->chunks->state_root = r->hash;
    p->chunks->root_version = p->version;
    p->chunks->state_sent_ns = 0;
}

void work_done(peer *p, const job_result *r) {
    BRAID_ASSERT(p->core.running.work.id != 0 && r->id == p->core.running.work.id);
    core_job t = p->core.running;
    p->core.running.work.id = 0;
    p->microbatch->progress++;
    if (r->out != 0) p->core.blobs_held++;
    bool of_another = t.member != p->me || t.fence != p->state.fence;
    bool asks_nobody = t.work.kind == JOB_SAVE_FIND || t.work.kind == JOB_DECIDE;  // the leader may become a member meanwhile
    if (of_another && t.work.kind > JOB_WEIGHT && !asks_nobody) {
        blob_id out = r->out;
        jobs_release_inputs(p, &t);
        peer_release(p, &out);
        return;
    }
    switch (t.work.kind) {
    case JOB_FORWARD: inflight_forward_done(p, &t, r); break;
    case JOB_LOSS: own_loss_done(p, &t, r); break;
    case JOB_BACKWARD: inflight_backward_done(p, &t, r); break;
    case JOB_WEIGHT: inflight_weight_done(p, &t, r); break;
    case JOB_REDUCE: case JOB_RESULT_PUT: case JOB_NORM: case JOB_APPLY: reduce_job_done(p, &t, r); break;
    case JOB_PACK: case JOB_RESULT_GET: case JOB_STATE_GET: case JOB_NAMES_GET:
        if (t.contact != NO_CONTACT) serve_done(p, &t, r);
        else (t.work.kind == JOB_NAMES_GET ? fetch_own_names : save_job_done)(p, &t, r);
        break;
    case JOB_STATE_INIT: transfer_init_done(p, r); break;
    case JOB_STATE_PUT: case JOB_NAMES_PUT: case JOB_STATE_KEEP: fetch_job_done(p, &t, r); break;
    case JOB_STATE_ROOT: state_root_done(p, &t, r); break;
    case JOB_DECIDE: leader_decided(p, &t, r); break;
    case JOB_JOIN: (t.get.count > 0 ? multipath_joined : forwarded_joined)(p, &t, r); break;
    case JOB_SAVE_NAMES: case JOB_SAVE: case JOB_SAVE_END: save_job_done(p, &t, r); break;
    case JOB_SAVE_FIND: stored_found(p, &t, r); break;
    default: break;
    }
}
