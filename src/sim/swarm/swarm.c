#include "sim/swarm.h"

#include "base/sha256.h"
#include "sim/swarm/inside.h"
#include "train/state_blob.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// time for the others to leave after the leader has left
static const uint64_t EXIT_NS = 15 * SWARM_S;
static const uint64_t STALL_NS = 120 * SWARM_S;
// per iteration
enum { STALL_ROUNDS = 30, PROGRESS_EVERY = 2048, MOST_EVENTS = 50 * 1000 * 1000 };

// ---- small things

static double wall_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

swarm_item *swarm_item_new(swarm_item_kind kind, uint32_t number, uint32_t bytes) {
    swarm_item *item = malloc(sizeof *item + bytes);
    BRAID_ALLOCATED(item, sizeof *item + bytes);
    *item = (swarm_item){.kind = kind, .peer = number, .byte_count = bytes};
    return item;
}

void swarm_item_free(swarm_item *item) {
    sim_buffer_drop(item->payload);
    free(item->entry);
    free(item);
}

void swarm_put(swarm *w, uint64_t at_ns, swarm_item *item) { sim_queue_put(&w->queue, at_ns, item); }

void swarm_fold(swarm *w, uint64_t value) { w->hash = rng_seed(w->hash, value); }

void swarm_list_add(swarm_list *list, swarm_item *item) {
    item->next = NULL;
    if (list->last) list->last->next = item;
    else list->first = item;
    list->last = item;
}

swarm_item *swarm_list_take(swarm_list *list) {
    swarm_item *item = list->first;
    list->first = item->next;
    if (!list->first) list->last = NULL;
    return item;
}

void swarm_list_clear(swarm_list *list) {
    while (list->first) swarm_item_free(swarm_list_take(list));
}

void swarm_busy_add(swarm_busy *b, uint64_t now_ns) {
    if (b->count++ == 0) b->since_ns = now_ns;
}

void swarm_busy_remove(swarm_busy *b, uint64_t now_ns) {
    if (--b->count == 0) b->total_ns += now_ns - b->since_ns;
}

static uint32_t id_slot(const swarm *w, const braid_id *id) {
    uint64_t start;
    memcpy(&start, id->bytes, sizeof start);
    uint32_t at = (uint32_t)start & (w->slots - 1);
    while (w->at[at] != SWARM_NO_PEER && !id_equal(&w->peer[w->at[at]].id, id)) at = (at + 1) & (w->slots - 1);
    return at;
}

uint32_t swarm_find(const swarm *w, const braid_id *id) { return w->at[id_slot(w, id)]; }

// ---- peers

static int by_name(const void *a, const void *b) { return strcmp((*(scenario_peer *const *)a)->name, (*(scenario_peer *const *)b)->name); }

// Peers in the order of their names, whatever their order in the scenario: names and seed decide
// everything.
static void peers_open(swarm *w) {
    const scenario *s = w->s;
    const scenario_peer **sorted = calloc(s->peers, sizeof(scenario_peer *));
    w->peers = s->peers;
    w->peer = calloc(s->peers, sizeof *w->peer);
    w->by_index = calloc(s->peers, sizeof *w->by_index);
    w->arc = calloc((size_t)s->peers * s->peers, sizeof(swarm_arc *));
    w->dead_ns = calloc((size_t)s->stages * s->microbatches, sizeof *w->dead_ns);
    for (w->slots = 16; w->slots < 4 * s->peers;) w->slots *= 2;
    w->at = malloc(w->slots * sizeof *w->at);
    BRAID_ALLOCATED(sorted && w->peer && w->by_index && w->arc && w->dead_ns && w->at, (size_t)s->peers * s->peers * sizeof(swarm_arc *));
    memset(w->at, 0xff, w->slots * sizeof *w->at);
    for (uint32_t i = 0; i < s->peers; i++) sorted[i] = &s->peer[i];
    qsort(sorted, s->peers, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < s->peers; i++) {
        swarm_peer *p = &w->peer[i];
        p->s = sorted[i];
        p->index = (uint32_t)(sorted[i] - s->peer);
        w->by_index[p->index] = i;
        snprintf(p->name, sizeof p->name, "%s", p->s->name);
        braid_hash hash = sha256_of(p->name, strlen(p->name));
        memcpy(&p->name_hash, hash.bytes, sizeof p->name_hash);
        memcpy(p->id.bytes, hash.bytes, sizeof p->id.bytes);
        p->churn.state = rng_seed(rng_seed(s->seed, p->name_hash), UINT64_MAX);
        p->node = SWARM_NO_PEER;
        w->at[id_slot(w, &p->id)] = i;
    }
    w->leader = w->by_index[scenario_leader(s)];
    w->peer[w->leader].leader = true;
    free(sorted);
}

static void machines_open(swarm *w) {
    const scenario *s = w->s;
    w->machine = calloc(s->machines, sizeof *w->machine);
    BRAID_ALLOCATED(w->machine, s->machines * sizeof *w->machine);
    for (uint32_t i = 0; i < s->machines; i++) {
        swarm_machine *m = &w->machine[i];
        m->cores_milli = (uint64_t)(s->machine[i].cores * 1000 + 0.5);
        m->up_bps = s->machine[i].up_bps;
        m->down_bps = s->machine[i].down_bps;
        m->at_ns = SWARM_BEGIN_NS;
        m->peer = calloc(w->peers, sizeof *m->peer);
        BRAID_ALLOCATED(m->peer, w->peers * sizeof *m->peer);
    }
    for (uint32_t i = 0; i < w->peers; i++) {
        swarm_machine *m = &w->machine[w->peer[i].s->machine];
        m->peer[m->peers++] = i;
    }
}

// ---- what they run

static uint64_t start_of_run(const swarm *w) { return w->peer[w->leader].s->start_ns; }

// Sets the largest latency, by which checkers decide whether a message may still be on its way.
static void set_latency(const scenario *s, sim_case *shape) {
    for (uint32_t i = 0; i < s->peers; i++) {
        for (uint32_t k = 0; k < s->peers; k++) {
            scenario_link link;
            if (i == k) continue;
            scenario_link_of(s, i, k, &link);
            if (link.latency_ns > shape->net.latency_ns) shape->net.latency_ns = link.latency_ns;
            if (link.jitter_ns > shape->net.jitter_ns) shape->net.jitter_ns = link.jitter_ns;
        }
    }
}

static void shape_describe(swarm *w) {
    const scenario *s = w->s;
    w->shape = (sim_case){.seed = s->seed, .stages = s->stages, .microbatches = s->microbatches, .iterations = s->iterations, .rough = true};
    for (uint32_t i = 0; i < s->peers; i++) {
        if (s->peer[i].start_ns > start_of_run(w)) continue;
        w->shape.data_deaths |= s->peer[i].data && scenario_set_has(&s->churn.subjects, i);
        if (s->peer[i].data) w->shape.data_peers++;
        else w->shape.relays++;
    }
    w->shape.slots = w->shape.data_peers;
    set_latency(s, &w->shape);
}

static void run_describe(swarm *w) {
    const scenario *s = w->s;
    const sim_model *model = w->core->model;
    peer_run *run = &w->core->run;
    *run = (peer_run){.description = sha256_of("simulated run", 13), .seed = s->seed, .iterations = s->iterations, .microbatches = s->microbatches,
                      .stages = s->stages, .slots = (uint16_t)w->shape.slots, .reproducible = model->reproducible,
                      .start_data_peers = (uint16_t)w->shape.data_peers, .start_relays = (uint16_t)w->shape.relays,
                      .activation_bytes = s->activation_bytes, .routing = (uint8_t)s->routing, .objective = (uint8_t)s->objective, .plan_first = s->plan_first, .placement = s->placement, .restarts = s->restarts,
                      .model_tensors = model->model_tensors, .tensor_stage = model->tensor_stage};
    memcpy(run->blocks, model->blocks, sizeof run->blocks);
    memcpy(run->tensors, model->tensors, sizeof run->tensors);
    for (uint16_t i = 0; i < s->stages; i++) run->state_bytes[i] = s->stage[i].parameters * STATE_PARTS * sizeof(float);
}

static braid_err model_open(const scenario *s, sim_model **out, braid_error *error) {
    if (s->compute == COMPUTE_KERNELS) return sim_real_new(s->seed, s->stages, s->microbatches, s->iterations, (tensor_links){0}, out, error);
    sim_fake_config config = {.seed = s->seed, .stages = s->stages, .microbatches = s->microbatches, .fast = !s->reproducible};
    for (uint16_t i = 0; i < s->stages; i++) config.blocks[i] = swarm_stage_blocks(s, i);
    *out = sim_fake_new(&config);
    return BRAID_OK;
}

static void core_open(swarm *w, sim_model *model) {
    sim_cluster *core = w->core = calloc(1, sizeof *core);
    BRAID_ALLOCATED(core, sizeof *core);
    core->c = &w->shape;
    core->model = model;
    core->report = calloc(1, sizeof *core->report);
    // the living, and dead peers that are still members: at most one node of each peer
    core->node_capacity = 2 * w->peers + 1;
    core->node = calloc(core->node_capacity, sizeof *core->node);
    BRAID_ALLOCATED(core->report && core->node, core->node_capacity * sizeof *core->node);
    core->stats = &core->report->stats;
    if (w->options->check == SIM_CHECK_RULES) core->reference = sim_reference_new(model, 0, w->s->iterations, w->s->microbatches);
    core->now = core->begin_ns = SWARM_BEGIN_NS;
    core->any_route = w->options->check == SIM_CHECK_LIVENESS;
    run_describe(w);
    sim_check_open(core);
}

static void core_close(swarm *w) {
    sim_cluster *core = w->core;
    for (uint32_t i = 0; i < core->nodes; i++) {
        if (core->node[i].worker) core->node[i].worker->free(core->node[i].worker);
        sim_blobs_close(&core->node[i].blobs);
        free(core->node[i].memory);
    }
    sim_check_close(core);
    sim_reference_free((sim_reference *)(uintptr_t)core->reference);
    free(core->node);
    free(core->report);
    free(core);
}

static void world_close(swarm *w) {
    void *item;
    uint64_t at;
    for (uint32_t i = 0; i < w->peers; i++) swarm_list_clear(&w->peer[i].inbox);
    for (size_t i = 0; i < (size_t)w->peers * w->peers; i++) {
        if (w->arc[i]) swarm_list_clear(&w->arc[i]->waiting);
        free(w->arc[i]);
    }
    while (sim_queue_take(&w->queue, &at, &item)) swarm_item_free(item);
    sim_queue_close(&w->queue);
    for (uint32_t i = 0; i < w->s->machines; i++) {
        free(w->machine[i].peer);
        free(w->machine[i].up.arc);
        free(w->machine[i].down.arc);
    }
    free(w->machine);
    free(w->dead_ns);
    swarm_iteration_free(&w->now);
    free(w->flow);
    free(w->touched);
    free(w->share);
    free(w->arc);
    free(w->at);
    free(w->by_index);
    free(w->peer);
}

// ---- the clock

static void fold_item(swarm *w, const swarm_item *item) {
    swarm_fold(w, w->core->now);
    swarm_fold(w, (uint64_t)item->kind << 32 | item->what);
    swarm_fold(w, w->peer[item->peer].name_hash);
    swarm_fold(w, w->peer[item->other].name_hash);
    if (item->kind == SWARM_MESSAGE) swarm_fold(w, sha256_short(item->bytes, item->byte_count));
}

static bool of_a_peer(swarm_item_kind kind) { return kind <= SWARM_TICK; }

// Takes the item over.
static void item_do(swarm *w, swarm_item *item) {
    if (of_a_peer(item->kind)) {
        if (item->kind != SWARM_MESSAGE || !swarm_arrives(w, item)) swarm_input(w, item);
        return;
    }
    switch (item->kind) {
    case SWARM_DIAL: swarm_dialed(w, item); break;
    case SWARM_RESET: swarm_reset(w, item); break;
    case SWARM_FLOW: swarm_flow_done(w, item); break;
    case SWARM_LINES: swarm_flow_all(w); break;
    case SWARM_MACHINE: swarm_machine_item(w, item); break;
    case SWARM_START: swarm_start(w, item->peer); break;
    default: swarm_churn_item(w, item); break;
    }
    swarm_item_free(item);
}

static bool all_exited(const swarm *w) {
    if (!w->leader_exit_ns) return false;
    if (w->core->now > w->leader_exit_ns + EXIT_NS) return true;
    for (uint32_t i = 0; i < w->peers; i++)
        if (w->peer[i].alive && w->core->node[w->peer[i].node].view.member) return false;
    return true;
}

static void tell_progress(swarm *w) {
    double wall = wall_s();
    if (!w->options->progress || wall - w->wall_told < 0.1) return;
    w->wall_told = wall;
    sim_swarm_progress p = {.virtual_ns = w->core->now - SWARM_BEGIN_NS, .events = w->out->events, .iteration = w->core->checker.version, .iterations = w->s->iterations};
    for (uint32_t i = 0; i < w->peers; i++) p.peers += w->peer[i].alive;
    w->options->progress(w->options->context, &p);
}

// Fails a run without progress. A peer that is still to start extends the time limit.
static void check_stall(swarm *w) {
    if (w->out->events - w->begun_events > MOST_EVENTS)
        sim_fail(w->core, "iteration %llu does not end: %d million events, and it began at %.1f s; do peers come and go faster than they can fetch "
                 "their state?", (unsigned long long)w->now.iteration, MOST_EVENTS / 1000000, (double)(w->begun_ns - SWARM_BEGIN_NS) / 1e9);
    if (w->leader_exit_ns || w->core->now < w->progress_ns + w->stall_ns) return;
    swarm_fail_stuck(w);
}

// True when the run may stop: after the last FINAL only SIM_CHECK_RULES has more to check.
static bool may_stop(const swarm *w) {
    if (w->options->until_ns != 0 && w->core->now >= SWARM_BEGIN_NS + w->options->until_ns) return true;
    return w->options->check == SIM_CHECK_LIVENESS && w->out->iterations == w->s->iterations;
}

// Messages delayed by a partition are still on their way, so routing is not settled meanwhile.
static void note_partitions(swarm *w) {
    uint64_t now = w->core->now - SWARM_BEGIN_NS;
    for (uint32_t i = 0; i < w->s->partitions; i++) {
        const scenario_partition *p = &w->s->partition[i];
        if (now >= p->start_ns && now <= p->stop_ns) w->core->checker.route_message_ns = w->core->now;
    }
}

static void run_loop(swarm *w) {
    void *item;
    uint64_t at;
    while (!sim_failed(w->core) && !all_exited(w) && !may_stop(w)) {
        if (!sim_queue_take(&w->queue, &at, &item)) {
            sim_fail(w->core, "nothing will ever happen again, and the run is not over");
            return;
        }
        w->core->now = at;
        fold_item(w, item);
        note_partitions(w);
        item_do(w, item);
        if (++w->out->events % PROGRESS_EVERY == 0) tell_progress(w);
        check_stall(w);
    }
}

// ---- the whole run

static braid_err check_limits(const scenario *s, braid_error *error) {
    if (s->microbatches > WIRE_MAX_MICROBATCHES)
        return braid_fail(error, BRAID_LIMIT, "%u microbatches an iteration; the protocol has room for %d", s->microbatches, WIRE_MAX_MICROBATCHES);
    if (s->data_peers == 0 || s->data_peers > WIRE_MAX_STAGE_MEMBERS || s->peers > WIRE_MAX_MEMBERS)
        return braid_fail(error, BRAID_LIMIT, "%u peers, %u of them data peers; the protocol has room for %d, and 1 to %d data peers", s->peers, s->data_peers,
                          WIRE_MAX_MEMBERS, WIRE_MAX_STAGE_MEMBERS);
    return BRAID_OK;
}

static void report_failure(swarm *w) {
    sim_swarm_report *out = w->out;
    out->failed = sim_failed(w->core);
    if (!out->failed) return;
    snprintf(out->text, sizeof out->text, "%s", w->core->report->text);
    if (w->options->replay) snprintf(out->replay, sizeof out->replay, "%s", w->options->replay);
}

braid_err sim_swarm_run(const scenario *s, const sim_swarm_options *options, sim_swarm_report *out, braid_error *error) {
    *out = (sim_swarm_report){0};
    sim_model *model;
    braid_err err = check_limits(s, error);
    if (err || (err = model_open(s, &model, error))) return err;
    swarm *w = calloc(1, sizeof *w);
    BRAID_ALLOCATED(w, sizeof *w);
    w->s = s;
    w->options = options;
    w->out = out;
    w->hash = s->seed;
    w->wall_start = w->wall_told = wall_s();
    peers_open(w);
    machines_open(w);
    shape_describe(w);
    core_open(w, model);
    w->progress_ns = SWARM_BEGIN_NS + start_of_run(w);
    w->stall_ns = STALL_NS + STALL_ROUNDS * swarm_round_trip_ns(w);
    if (options->trace_path) err = timeline_open(w, options->trace_path, &w->timeline, error);
    if (!err) {
        swarm_churn_plan(w);
        run_loop(w);
        if (!sim_failed(w->core) && !may_stop(w)) sim_check_end(w->core);
        report_failure(w);
        swarm_report(w);
        out->wall_ns = (uint64_t)((wall_s() - w->wall_start) * 1e9);
        err = timeline_close(w, error);
    }
    world_close(w);
    core_close(w);
    model->free(model);
    free(w);
    return err;
}
