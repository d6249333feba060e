// Machines and their tasks. All tasks of a machine advance at one pace: full speed while there are
// enough cores, else cores / threads. So a machine keeps one clock of work done per task, and a
// task ends when that clock reaches its end. No task is updated when another one starts or ends.
// Integers throughout.
#include "sim/swarm/inside.h"

static swarm_machine *machine_of(const swarm *w, uint32_t number) { return &w->machine[w->peer[number].s->machine]; }

static bool scarce_slots(const swarm_machine *m) { return m->threads * 1000 > m->cores_milli; }

static void advance(swarm_machine *m, uint64_t now_ns) {
    uint64_t passed = now_ns - m->at_ns;
    m->at_ns = now_ns;
    if (m->threads == 0) return;
    m->clock_ps += scarce_slots(m) ? (uint64_t)((unsigned __int128)passed * m->cores_milli / m->threads) : passed * 1000;
}

// The task that ends first; equal ends in order of names, jobs first.
static swarm_task *next_task(swarm *w, const swarm_machine *m, uint32_t *number, swarm_task_kind *kind) {
    swarm_task *best = NULL;
    for (uint32_t i = 0; i < m->peers; i++)
        for (int k = 0; k < TASKS; k++) {
            swarm_task *t = &w->peer[m->peer[i]].task[k];
            if (!t->active || (best && best->finish_ps <= t->finish_ps)) continue;
            best = t;
            *number = m->peer[i];
            *kind = (swarm_task_kind)k;
        }
    return best;
}

static void plan(swarm *w, swarm_machine *m) {
    uint32_t number;
    swarm_task_kind kind;
    const swarm_task *t = next_task(w, m, &number, &kind);
    m->serial++;
    if (!t) return;
    uint64_t left = t->finish_ps > m->clock_ps ? t->finish_ps - m->clock_ps : 0;
    unsigned __int128 slow = (unsigned __int128)left * m->threads;
    uint64_t wait = scarce_slots(m) ? (uint64_t)((slow + m->cores_milli - 1) / m->cores_milli) : (left + 999) / 1000;
    swarm_item *item = swarm_item_new(SWARM_MACHINE, number, 0);
    item->serial = m->serial;
    swarm_put(w, w->core->now + wait, item);
}

static void task_add(swarm *w, uint32_t number, swarm_task_kind kind, uint64_t work_ps) {
    swarm_machine *m = machine_of(w, number);
    swarm_task *t = &w->peer[number].task[kind];
    BRAID_ASSERT(!t->active);
    advance(m, w->core->now);
    t->active = true;
    t->finish_ps = m->clock_ps + work_ps;
    m->threads += t->threads;
    plan(w, m);
}

static void task_remove(swarm_machine *m, swarm_task *t) {
    t->active = false;
    m->threads -= t->threads;
}

void swarm_task_start(swarm *w, uint32_t number, swarm_task_kind kind, uint64_t work_ns, uint32_t threads) {
    w->peer[number].task[kind].threads = threads;
    w->peer[number].task[kind].left_ps = 0;
    task_add(w, number, kind, work_ns * 1000);
}

void swarm_task_stop(swarm *w, uint32_t number, swarm_task_kind kind) {
    swarm_machine *m = machine_of(w, number);
    swarm_task *t = &w->peer[number].task[kind];
    if (!t->active) return;
    advance(m, w->core->now);
    t->left_ps = t->finish_ps > m->clock_ps ? t->finish_ps - m->clock_ps : 1;
    task_remove(m, t);
    plan(w, m);
}

void swarm_task_resume(swarm *w, uint32_t number, swarm_task_kind kind) {
    swarm_task *t = &w->peer[number].task[kind];
    if (t->active || t->left_ps == 0) return;
    uint64_t left = t->left_ps;
    t->left_ps = 0;
    task_add(w, number, kind, left);
}

void swarm_machine_item(swarm *w, const swarm_item *item) {
    swarm_machine *m = machine_of(w, item->peer);
    if (item->serial != m->serial) return;
    advance(m, w->core->now);
    uint32_t number;
    swarm_task_kind kind;
    swarm_task *t = next_task(w, m, &number, &kind);
    BRAID_ASSERT(t && t->finish_ps <= m->clock_ps);
    task_remove(m, t);
    plan(w, m);
    if (kind == TASK_LOOP) {
        swarm_loop_done(w, number);
        return;
    }
    swarm_item *done = swarm_item_new(SWARM_JOB_DONE, number, 0);
    done->incarnation = w->peer[number].incarnation;
    swarm_input(w, done);
}
