// Processes: start and end of an incarnation, inputs and effects of a peer's step function. Each
// peer has one event loop, as in src/node: a message costs it time, and later events wait.
#include "sim/swarm/inside.h"

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS_AT_ONCE = 5000 };  // limit for one peer at one virtual time; more is a livelock

static sim_node *node_of(const swarm *w, uint32_t number) { return &w->core->node[w->peer[number].node]; }

// ---- effects

static void effect_append(swarm *w, uint32_t number, const log_entry *entry) {
    sim_cluster *core = w->core;
    sim_node *n = node_of(w, number);
    swarm_item *item = swarm_item_new(SWARM_STORED, number, 0);
    item->incarnation = w->peer[number].incarnation;
    item->entry = malloc(sizeof *entry);
    BRAID_ALLOCATED(item->entry, sizeof *entry);
    *item->entry = *entry;
    uint64_t at = core->now + SWARM_MS + rng_below(&n->random, 2 * SWARM_MS);  // a disk that syncs
    if (at > n->disk.stored_ns) n->disk.stored_ns = at;
    swarm_put(w, n->disk.stored_ns, item);
}

static void note_gossip(swarm_peer *p, const effect *e) {
    if (e->message_kind == MESSAGE_VIEW) {
        p->view_messages++;
        p->view_bytes += e->byte_count;
    } else if (e->message_kind == MESSAGE_ROUTE) {
        p->route_messages++;
        p->route_bytes += e->byte_count;
    }
}

static void effect_send(swarm *w, uint32_t number, const effect *e) {
    sim_cluster *core = w->core;
    uint32_t node = w->peer[number].node;
    if (e->blob && !sim_blobs_get(&node_of(w, number)->blobs, e->blob)) {
        sim_fail(core, "%s sends a blob that it does not hold", w->peer[number].name);
        return;
    }
    if (!message_decode(e->bytes, e->byte_count, &core->sent)) {
        sim_fail(core, "%s sends a message of kind %s that cannot be decoded", w->peer[number].name, message_kind_name(e->message_kind));
        return;
    }
    w->out->messages++;
    note_gossip(&w->peer[number], e);
    sim_check_send(core, node, &e->id, &core->sent);
    if (e->blob) w->peer[number].debt_ns += swarm_payload_bytes(w, &core->sent) * w->peer[number].s->megabyte_ns / 1000000;
    swarm_send(w, number, e);
}

static void effect_job(swarm *w, uint32_t number, const job *work) {
    swarm_peer *p = &w->peer[number];
    sim_node *n = node_of(w, number);
    if (!sim_job_take(w->core, p->node, work)) return;
    n->job_ns = swarm_job_ns(w, number, work);
    p->job_started_ns = w->core->now;
    swarm_task_start(w, number, TASK_JOB, n->job_ns, p->s->threads);
}

static void effect_exit(swarm *w, uint32_t number, bool failed) {
    swarm_peer *p = &w->peer[number];
    sim_node *n = node_of(w, number);
    peer_look(n->peer, &n->view);
    if (failed && n->view.member != 0) sim_fail(w->core, "%s exits with an error", p->name);
    n->exited = true;
    if (p->leader) {
        w->leader_exit_ns = w->core->now;
        for (uint32_t i = 0; i < w->peers; i++)
            if (w->peer[i].node != SWARM_NO_PEER) node_of(w, i)->missed_end = !swarm_linked(w, number, i);
    }
    else if (!w->leader_exit_ns) w->now.leaves++;
}

static void effect_do(swarm *w, uint32_t number, const effect *e) {
    switch (e->kind) {
    case EFFECT_SEND: effect_send(w, number, e); break;
    case EFFECT_DIAL: swarm_dial(w, number, &e->id); break;
    case EFFECT_CLOSE: swarm_close_link(w, number, &e->id); break;
    case EFFECT_JOB: effect_job(w, number, e->job); break;
    case EFFECT_APPEND: effect_append(w, number, e->entry); break;
    case EFFECT_APPLIED: sim_check_applied(w->core, w->peer[number].node, e->entry); break;
    case EFFECT_RELEASE:
        if (!sim_blobs_release(&node_of(w, number)->blobs, e->blob)) sim_fail(w->core, "%s releases a blob that it does not hold", w->peer[number].name);
        break;
    case EFFECT_TELL: swarm_note_tell(w, number, &e->tell); break;
    case EFFECT_EXIT: effect_exit(w, number, e->failed); break;
    default: sim_fail(w->core, "%s: effect %d", w->peer[number].name, (int)e->kind);
    }
}

// ---- steps

static void tick_plan(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    uint64_t at = peer_deadline(node_of(w, number)->peer);
    p->tick_serial++;
    if (at == UINT64_MAX) return;
    swarm_item *item = swarm_item_new(SWARM_TICK, number, 0);
    item->incarnation = p->incarnation;
    item->serial = p->tick_serial;
    if (at < w->core->now) at = w->core->now;
    // timers are late, never early
    swarm_put(w, at + rng_below(&node_of(w, number)->random, SWARM_MS / 2), item);
}

static void end_incarnation(swarm *w, uint32_t number, bool silent);

void swarm_step(swarm *w, uint32_t number, const event *e) {
    swarm_peer *p = &w->peer[number];
    sim_cluster *core = w->core;
    if (!p->alive || sim_failed(core)) return;
    sim_node *n = node_of(w, number);
    if (n->stepped_ns != core->now) n->steps_now = 0;
    n->stepped_ns = core->now;
    sim_check_steps(core, p->node, e->kind);
    if (++n->steps_now > MAX_STEPS_AT_ONCE) sim_fail(core, "%s steps without end at one time", p->name);
    peer_step(n->peer, core->now, e);
    effect next;
    while (!n->exited && !sim_failed(core) && peer_next_effect(n->peer, &next)) effect_do(w, number, &next);
    peer_look(n->peer, &n->view);
    if (sim_failed(core)) return;
    if (n->view.ready && p->admitted_ns != 0) {
        p->fetch_ns = core->now - p->admitted_ns;
        p->admitted_ns = 0;
    }
    sim_check_step(core, p->node);
    p->booked_ns = n->view.useful_ns + n->view.wasted_ns;
    if (n->exited) end_incarnation(w, number, false);
    else tick_plan(w, number);
}

// ---- what goes in

static void job_done(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    sim_node *n = node_of(w, number);
    job work = n->job;
    job_result result;
    timeline_job(w, number, &work, p->job_started_ns, w->core->now, false);
    p->busy_ns += w->core->now - p->job_started_ns;
    // measured time, like a real process: it includes other peers on the machine
    n->job_ns = w->core->now - p->job_started_ns;
    if (!sim_job_run(w->core, p->node, &result)) return;
    if (work.kind <= JOB_WEIGHT) p->compute_ns += result.cost_ns;
    if (work.kind == JOB_WEIGHT) swarm_note_weight(w, number, &work);
    if (work.kind >= JOB_WEIGHT) w->progress_ns = w->core->now;
    event e = {.kind = EVENT_JOB_DONE, .result = &result};
    swarm_step(w, number, &e);
}

static void message_there(swarm *w, uint32_t number, const swarm_item *item) {
    sim_cluster *core = w->core;
    if (!message_decode(item->bytes, item->byte_count, &core->message)) {
        sim_fail(core, "%s sent %s a message that cannot be decoded", w->peer[item->other].name, w->peer[number].name);
        return;
    }
    sim_check_arrival(core, w->peer[number].node, &core->message);
    event e = {.kind = EVENT_MESSAGE, .id = w->peer[item->other].id, .msg = &core->message};
    if (item->payload) {
        e.blob = sim_blobs_add(&node_of(w, number)->blobs, sim_buffer_hold(item->payload));
        e.blob_bytes = item->payload_bytes;
    }
    swarm_step(w, number, &e);
}

static void input_do(swarm *w, swarm_item *item) {
    event e = {.kind = EVENT_TICK};
    uint32_t number = item->peer;
    if (!w->peer[number].alive || w->peer[number].incarnation != item->incarnation || sim_failed(w->core)) return;
    switch (item->kind) {
    case SWARM_TICK:
        if (item->serial == w->peer[number].tick_serial) swarm_step(w, number, &e);
        break;
    case SWARM_MESSAGE: message_there(w, number, item); break;
    case SWARM_JOB_DONE: job_done(w, number); break;
    case SWARM_STORED:
        swarm_note_committed(w, item->entry);
        e.kind = EVENT_STORED;
        e.entry = item->entry;
        swarm_step(w, number, &e);
        break;
    default: swarm_do_link(w, item);
    }
}

static uint64_t handling_ns(swarm *w, const swarm_item *item) {
    swarm_peer *p = &w->peer[item->peer];
    uint64_t cost = p->debt_ns;
    p->debt_ns = 0;
    if (item->kind != SWARM_MESSAGE) return cost;
    return cost + p->s->message_ns + (item->payload ? item->wire_bytes * p->s->megabyte_ns / 1000000 : 0);
}

// Handles waiting events until one takes time.
static void inbox_work(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    uint32_t incarnation = p->incarnation;
    while (p->inbox.first && !p->handling && !p->paused && p->incarnation == incarnation && !sim_failed(w->core)) {
        uint64_t cost = handling_ns(w, p->inbox.first);
        if (cost > 0) {
            p->handling = true;
            swarm_task_start(w, number, TASK_LOOP, cost, 1);
            return;
        }
        swarm_item *item = swarm_list_take(&p->inbox);
        input_do(w, item);
        swarm_item_free(item);
    }
}

void swarm_input(swarm *w, swarm_item *item) {
    swarm_peer *p = &w->peer[item->peer];
    if (!p->alive || p->incarnation != item->incarnation) {
        swarm_item_free(item);
        return;
    }
    swarm_list_add(&p->inbox, item);
    inbox_work(w, item->peer);
}

void swarm_loop_done(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    p->handling = false;
    swarm_item *item = swarm_list_take(&p->inbox);
    input_do(w, item);
    swarm_item_free(item);
    inbox_work(w, number);
}

// ---- incarnations

static void *memory_new(size_t bytes, void **allocation) {
    // fresh pages: memory that a peer never touches costs nothing
    *allocation = calloc(1, bytes + 64);
    BRAID_ALLOCATED(*allocation, bytes + 64);
    return (void *)(((uintptr_t)*allocation + 63) & ~(uintptr_t)63);
}

static void node_clear(swarm *w, uint32_t node) {
    sim_node *n = &w->core->node[node];
    if (n->worker) n->worker->free(n->worker);
    sim_blobs_close(&n->blobs);
    free(n->memory);
    n->worker = NULL;
    n->memory = NULL;
    n->peer = NULL;
}

// Takes a node of an incarnation that no check needs any more, or a fresh one. The checkers need a
// dead peer's node as long as it is a member, because of its sum.
static uint32_t node_take(swarm *w) {
    sim_cluster *core = w->core;
    for (uint32_t i = 0; i < core->nodes; i++) {
        const sim_node *n = &core->node[i];
        if (n->alive || (n->view.member && sim_check_member_live(core, n->view.member))) continue;
        node_clear(w, i);
        memset(&core->node[i], 0, sizeof core->node[i]);
        return i;
    }
    BRAID_ASSERT(core->nodes < core->node_capacity);
    return core->nodes++;
}

static void node_config(const swarm *w, uint32_t number, sim_node *n) {
    const swarm_peer *p = &w->peer[number];
    snprintf(n->name, sizeof n->name, "%s", p->name);
    n->id = p->id;
    n->random.state = rng_seed(rng_seed(w->s->seed, p->name_hash), p->incarnation);
    n->config = (peer_config){.self = p->id, .kind = p->s->data ? MEMBER_DATA : MEMBER_RELAY, .leader = p->leader, .leader_id = w->peer[w->leader].id,
                              .capacity = p->s->capacity, .upload_percent = (uint8_t)(w->s->upload_percent ? w->s->upload_percent : PEER_UPLOAD_PERCENT), .random_seed = rng_next(&n->random),
                              .carries_nothing = p->s->carries_nothing};
    if (!p->s->data && p->s->stage != SCENARIO_ANY_STAGE) n->config.stage = p->s->stage;
    snprintf(n->config.address, sizeof n->config.address, "peer-%u:1", number);
    snprintf(n->config.leader_address, sizeof n->config.leader_address, "peer-%u:1", w->leader);
}

void swarm_start(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    if (p->alive || w->leader_exit_ns) return;
    p->incarnation++;
    if (p->incarnation > 1) timeline_instant(w, number, "starts again");
    p->node = node_take(w);
    sim_node *n = node_of(w, number);
    node_config(w, number, n);
    void *at = memory_new(peer_bytes(&w->core->run, &n->config), &n->memory);
    n->peer = peer_init(at, &w->core->run, &n->config, w->core->now);
    peer_inject(n->peer, (peer_faults){.view = (peer_view_mutant)w->options->view_mutant});
    n->alive = p->alive = true;
    p->inactive = NULL;
    p->paused = p->silent = p->handling = false;
    p->started_ns = w->core->now;
    p->compute_ns = p->useful_before_ns = p->booked_ns = p->debt_ns = 0;
    sim_check_incarnation(w->core, p->node);
    swarm_churn_started(w, number);
    event e = {.kind = EVENT_TICK};
    swarm_step(w, number, &e);
}

static void end_incarnation(swarm *w, uint32_t number, bool silent) {
    swarm_peer *p = &w->peer[number];
    sim_node *n = node_of(w, number);
    if (n->busy) {
        timeline_job(w, number, &n->job, p->job_started_ns, w->core->now, true);
        p->busy_ns += w->core->now - p->job_started_ns;
        if (n->job.kind <= JOB_WEIGHT) p->compute_ns += w->core->now - p->job_started_ns;
    }
    for (int k = 0; k < TASKS; k++) {
        swarm_task_stop(w, number, (swarm_task_kind)k);
        p->task[k].left_ps = 0;
    }
    swarm_note_incarnation_end(w, number);
    swarm_close_all_links(w, number, silent);
    swarm_list_clear(&p->inbox);
    p->alive = n->alive = false;
    p->inactive = n->exited ? "left" : "died";
    p->inactive_ns = w->core->now;
    p->silent = silent;
    p->handling = p->paused = false;
    if (!n->exited) node_clear(w, p->node);
    p->node = SWARM_NO_PEER;
}

void swarm_die(swarm *w, uint32_t number, bool machine) {
    if (!w->peer[number].alive) return;
    timeline_instant(w, number, machine ? "its machine dies" : "its process dies");
    end_incarnation(w, number, machine);
}

void swarm_leave(swarm *w, uint32_t number) {
    if (!w->peer[number].alive || node_of(w, number)->asked_to_leave) return;
    event e = {.kind = EVENT_DRAIN};
    node_of(w, number)->asked_to_leave = true;
    timeline_instant(w, number, "is asked to leave");
    swarm_step(w, number, &e);
}

void swarm_pause(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    if (!p->alive || p->paused) return;
    p->paused = true;
    p->inactive = "was paused";
    p->inactive_ns = w->core->now;
    timeline_instant(w, number, "paused");
    for (int k = 0; k < TASKS; k++) swarm_task_stop(w, number, (swarm_task_kind)k);
}

void swarm_resume(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    if (!p->alive || !p->paused) return;
    p->paused = false;
    p->inactive = NULL;
    timeline_instant(w, number, "resumed");
    for (int k = 0; k < TASKS; k++) swarm_task_resume(w, number, (swarm_task_kind)k);
    inbox_work(w, number);
}
