#include "sim/inside.h"

#include "base/sha256.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t MILLISECOND = 1000000;
static const uint64_t SECOND = 1000000000;

enum {
    MAX_STEPS_AT_ONCE = 3000,    // limit for one peer at one virtual time; more is a livelock
    MAX_EVENTS = 20 * 1000 * 1000,
};

static void item_free(sim_item *item) {
    sim_buffer_drop(item->payload);
    free(item);
}

// A tick is an event at which a peer looks at its clock. Half of all events are ticks, and most are
// outdated when they come. So a tick is a number in the place of a pointer.
_Static_assert(sizeof(void *) == sizeof(uint64_t) && SIM_MAX_NODES <= 64, "a tick is a serial number, a node in six bits, and one bit that no pointer has");

static void *tick_of(uint64_t serial, uint32_t node) { return (void *)(uintptr_t)(serial << 7 | node << 1 | 1); }
static bool is_tick(const void *item) { return (uintptr_t)item & 1; }
static uint32_t tick_node(const void *tick) { return (uint32_t)((uintptr_t)tick >> 1 & 63); }
static uint64_t tick_serial(const void *tick) { return (uintptr_t)tick >> 7; }

// ---- a peer and its effects

static void effect_send(sim_cluster *s, uint32_t node, const effect *e) {
    if (e->blob && !sim_blobs_get(&s->node[node].blobs, e->blob)) {
        sim_fail(s, "%s sends a blob that it does not hold", s->node[node].name);
        return;
    }
    if (!message_decode(e->bytes, e->byte_count, &s->sent)) {
        sim_fail(s, "%s sends a message of kind %s that cannot be decoded", s->node[node].name, message_kind_name(e->message_kind));
        return;
    }
    s->stats->messages++;
    uint8_t kind = s->sent.kind;
    sim_trouble_arrivals(s, kind);
    sim_crash_moment(s, node, SIM_BEFORE_SEND, kind);
    if (!s->node[node].alive) return;
    sim_check_send(s, node, &e->id, &s->sent);
    uint8_t other[256];
    size_t count = sim_mutant_send(s, &s->sent, other, sizeof other);
    if (count) {
        effect sent = *e;
        sent.bytes = other;
        sent.byte_count = count;
        sim_link_send(s, node, &sent);
    } else {
        sim_link_send(s, node, e);
    }
    sim_crash_moment(s, node, SIM_AFTER_SEND, kind);
}

static void effect_tell(sim_cluster *s, uint32_t node, const tell *what) {
    if (what->kind == TELL_REPAIR) {
        s->stats->repairs++;
        if (what->phase < REPAIR_PHASES) s->stats->repairs_in[what->phase]++;
        if (sim_case_is_faultless(s->c)) sim_fail(s, "%s repairs t=%llu m=%u stage %u in a run without faults", s->node[node].name, (unsigned long long)what->iteration, what->m, what->stage);
    }
    if (what->kind == TELL_END && s->checker.saved_last && !hash_equal(&what->hash, &s->checker.saved_hash))
        sim_fail(s, "%s tells another weights' hash than the last checkpoint has", s->node[node].name);
    if (what->kind == TELL_UNFINISHED) sim_check_unfinished(s, node);
    if (what->kind == TELL_LIED) {
        s->stats->lies++;
        if (s->c->corrupt_donors == 0 && s->c->mutant == SIM_MUTANT_NONE) sim_fail(s, "%s reports that member %llu sent wrong data, and none did", s->node[node].name, (unsigned long long)what->member);
    }
    // a joiner may arrive at the end of the run, or at stages that are full
    bool late = node >= s->c->data_peers + s->c->relays + s->c->shadow_peers || s->checker.finished || s->checker.drained;
    if (what->kind == TELL_REFUSED && !late) sim_fail(s, "%s is refused: %s", s->node[node].name, what->text ? what->text : "");
}

static void effect_exit(sim_cluster *s, uint32_t node, bool failed) {
    sim_node *n = &s->node[node];
    peer_look(n->peer, &n->view);
    bool unsaved = s->stats->saves_given_up > 0 && s->checker.saved_last;
    if (failed && n->view.member != 0 && !unsaved) sim_fail(s, "%s exits with an error", n->name);
    n->exited = true;
    n->alive = false;
    if (n->view.leads) {
        s->leader_exit_ns = s->now;
        for (uint32_t i = 0; i < s->nodes; i++) {
            const sim_link *direction = &s->link[node][i];
            s->node[i].missed_end = !direction->up || !s->link[i][node].up || direction->cut_ns[LANE_CONTROL] != UINT64_MAX;
        }
    }
    sim_link_die(s, node, false, true);
    sim_crash_after_departure(s, node);
}

static void effect_do(sim_cluster *s, uint32_t node, const effect *e) {
    sim_node *n = &s->node[node];
    sim_trace_effect(s, node, e);
    switch (e->kind) {
    case EFFECT_SEND: effect_send(s, node, e); break;
    case EFFECT_DIAL: sim_link_dial(s, node, e); break;
    case EFFECT_CLOSE: sim_link_close(s, node, &e->id); break;
    case EFFECT_JOB: sim_job_start(s, node, e->job); break;
    case EFFECT_APPEND:
        sim_check_appended(s, node, e->entry);
        sim_disk_append(s, node, e->entry);
        break;
    case EFFECT_APPLIED: sim_check_applied(s, node, e->entry); break;
    case EFFECT_RELEASE:
        if (!sim_blobs_release(&n->blobs, e->blob)) sim_fail(s, "%s releases a blob that it does not hold", n->name);
        break;
    case EFFECT_TELL: effect_tell(s, node, &e->tell); break;
    case EFFECT_EXIT: effect_exit(s, node, e->failed); break;
    default: sim_fail(s, "%s: effect %d", n->name, (int)e->kind);
    }
}

static void tick_plan(sim_cluster *s, uint32_t node) {
    sim_node *n = &s->node[node];
    uint64_t at = peer_deadline(n->peer);
    if (at == UINT64_MAX) return;
    at = at > n->clock_ahead_ns ? at - n->clock_ahead_ns : 0;
    if (at < s->now) at = s->now;
    sim_queue_put(&s->queue, at + rng_below(&n->random, MILLISECOND / 2), tick_of(++n->tick_serial, node));
}

static void leader_look(sim_cluster *s, uint32_t node) {
    const peer_view *v = &s->node[node].view;
    if (!v->leads || v->term < s->leader_term) return;
    s->leader_term = v->term;
    if (s->leader == node && s->lost_leader_ns == 0) return;
    s->stats->leaders += s->leader != node;
    s->leader = node;
    if (s->lost_leader_ns == 0) return;
    uint64_t without = s->now - s->lost_leader_ns;
    s->stats->leader_deaths++;
    s->stats->leaderless_ns += without;
    if (without > s->stats->most_leaderless_ns) s->stats->most_leaderless_ns = without;
    s->lost_leader_ns = 0;
}

static const char *effect_text(const effect *e) {
    switch (e->kind) {
    case EFFECT_SEND: return message_kind_name(e->message_kind);
    case EFFECT_DIAL: return "a dial";
    case EFFECT_CLOSE: return "the end of a link";
    case EFFECT_JOB: return sim_job_name(e->job->kind);
    case EFFECT_APPEND: return "an entry of the log";
    case EFFECT_APPLIED: return "an entry that holds";
    case EFFECT_RELEASE: return "a blob to release";
    case EFFECT_TELL: return tell_name(e->tell.kind);
    default: return "its exit";
    }
}

// A step must take every decision that its inputs allow. If a tick at the same time still has an
// effect, a decision was left to the next timer.
static void check_no_late_decision(sim_cluster *s, uint32_t node) {
    sim_node *n = &s->node[node];
    const event tick = {.kind = EVENT_TICK};
    effect late;
    if (!s->c->check_late_decisions || !n->alive || sim_failed(s)) return;
    peer_step(n->peer, s->now + n->clock_ahead_ns, &tick);
    if (peer_next_effect(n->peer, &late)) sim_fail(s, "%s leaves %s to a timer, though all its inputs are there", n->name, effect_text(&late));
}

void sim_step(sim_cluster *s, uint32_t node, const event *e) {
    sim_node *n = &s->node[node];
    if (!n->alive || sim_failed(s)) return;
    if (n->stepped_ns != s->now) n->steps_now = 0;
    n->stepped_ns = s->now;
    sim_check_steps(s, node, e->kind);
    if (++n->steps_now > MAX_STEPS_AT_ONCE) sim_fail(s, "%s steps without end at one time", n->name);
    if (e->kind != EVENT_MESSAGE) sim_trace_event(s, node, e, node, s->now);
    peer_step(n->peer, s->now + n->clock_ahead_ns, e);
    effect next;
    while (n->alive && !sim_failed(s) && peer_next_effect(n->peer, &next)) effect_do(s, node, &next);
    check_no_late_decision(s, node);
    peer_look(n->peer, &n->view);
    if (n->alive) leader_look(s, node);
    if (sim_failed(s) || (!n->alive && !n->exited)) return;
    sim_check_step(s, node);
    if (n->alive) tick_plan(s, node);
}

// ---- processes

// Memory of earlier peers, zeroed, for the peers of the next run. Clearing pages in use is much
// quicker than mapping fresh ones, and untouched pages cost nothing.
enum { ROOM_BYTES = 16 << 20 };
static struct {
    uint8_t *room[SIM_MAX_NODES];
    uint32_t count;
} spare;

static void *memory_new(size_t bytes) {
    if (bytes <= ROOM_BYTES && spare.count > 0) return spare.room[--spare.count];
    void *memory = mmap(NULL, bytes <= ROOM_BYTES ? ROOM_BYTES : bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BRAID_ALLOCATED(memory != MAP_FAILED, bytes);
    return memory;
}

// A page that is not resident was never touched or is swapped out; the kernel discards it.
static void room_clear(uint8_t *room) {
    enum { PAGE = 4096, PAGES = ROOM_BYTES / PAGE };
    static unsigned char here[PAGES];
    bool known = sysconf(_SC_PAGESIZE) == PAGE && mincore(room, ROOM_BYTES, here) == 0;
    for (size_t i = 0, end; i < PAGES; i = end) {
        for (end = i + 1; end < PAGES && known && here[end] % 2 == here[i] % 2;) end++;
        bool forgotten = known && here[i] % 2 == 0 && madvise(room + i * PAGE, (end - i) * PAGE, MADV_DONTNEED) == 0;
        if (!forgotten) memset(room + i * PAGE, 0, (end - i) * PAGE);
    }
}

static void memory_free(void *memory, size_t bytes) {
    if (bytes > ROOM_BYTES || spare.count == SIM_MAX_NODES) {
        munmap(memory, bytes <= ROOM_BYTES ? ROOM_BYTES : bytes);
        return;
    }
    room_clear(memory);
    spare.room[spare.count++] = memory;
}

// The peer that a joiner contacts: the first leader, or another member when that leader is gone.
static uint32_t contact_of(const sim_cluster *s) {
    if (s->node[0].alive || s->nodes == 1) return 0;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->node[i].alive && s->node[i].view.member != 0) return i;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->node[i].returns) return i;
    return 0;
}

// A peer asks for the same data shard in each incarnation.
static uint16_t shard_wanted(const sim_cluster *s, uint32_t index) {
    for (uint32_t i = 0; i < s->c->data_peers && i < s->nodes; i++)
        if (id_equal(&s->node[i].id, &s->node[index].id)) return (uint16_t)(i + 1);
    return 0;
}

void sim_start(sim_cluster *s, member_kind kind, const braid_id *id, uint32_t store_of, const braid_id *host) {
    if (s->nodes == s->node_capacity) return;
    uint32_t ask = contact_of(s);
    uint32_t index = s->nodes++;
    sim_node *n = &s->node[index];
    n->random.state = rng_seed(s->c->seed, 1000 + index);
    braid_hash fresh = sha256_of(&n->random.state, sizeof n->random.state);
    if (id) n->id = *id;
    else memcpy(n->id.bytes, fresh.bytes, sizeof n->id.bytes);
    s->id_begins[index] = sim_id_begins(&n->id);
    bool leader = index == 0;
    snprintf(n->name, sizeof n->name, "%s%u", kind == MEMBER_DATA ? "d" : kind == MEMBER_RELAY ? "r" : "s", index % 1000);
    n->config = (peer_config){.self = n->id, .kind = kind, .leader = leader, .leader_id = s->node[ask].id, .voters = (uint16_t)s->c->voters, .store_entries = s->c->store_entries,
                              .capacity = kind == MEMBER_DATA ? s->c->data_capacity : s->c->relay_capacity,
                              .has_checkpoint = s->c->copies && index >= s->c->data_peers, .random_seed = rng_next(&n->random)};
    if (host) n->config.host = *host;
    snprintf(n->config.address, sizeof n->config.address, "sim-%u:1", index);
    if (store_of != SIM_MAX_NODES && s->node[store_of].returns) memcpy(n->config.address, s->node[store_of].config.address, sizeof n->config.address);
    memcpy(n->config.leader_address, s->node[ask].config.address, sizeof n->config.leader_address);
    n->config.text = sha256_of(n->id.bytes, sizeof n->id.bytes);  // the same in each incarnation
    n->config.share = shard_wanted(s, index);
    n->config.store = store_of == SIM_MAX_NODES ? n->config.random_seed : s->node[store_of].config.store;
    n->started_ns = s->now;
    n->speed = s->c->compute_ns / 2 + rng_below(&n->random, s->c->compute_ns + 1);
    n->memory_bytes = peer_bytes(&s->run, &n->config);
    n->memory = memory_new(n->memory_bytes);
    n->peer = peer_init(n->memory, &s->run, &n->config, s->now);
    BRAID_ASSERT(n->peer);
    peer_inject(n->peer, (peer_faults){.mutants = sim_mutant_of_core(s->c->mutant), .carried_percent = s->c->net.carried_percent});
    n->alive = true;
    if (store_of != SIM_MAX_NODES) sim_disk_recall(s, index, &s->node[store_of].disk);
    for (uint32_t i = index; id && i-- > 0;)
        if (id_equal(&s->node[i].id, id) && !n->kept[0].block) sim_save_recall(s, index, i);
    sim_check_incarnation(s, index);
    event e = {.kind = EVENT_TICK};
    sim_step(s, index, &e);
}

static void item_start(sim_cluster *s, const sim_item *item) {
    if (s->leader_exit_ns) return;
    s->stats->joins++;
    s->stats->returns += item->connection != 0;
    const braid_id host = s->node[item->node].config.host;  // sim_start may add a node
    sim_start(s, item->kind_of_member, item->connection ? &item->id : NULL, item->from, item->kind_of_member == MEMBER_SHADOW ? &host : NULL);
}

static void item_do(sim_cluster *s, sim_item *item) {
    switch (item->kind) {
    case ITEM_START: item_start(s, item); return;
    case ITEM_KILL: sim_crash_timed(s, item->from); return;
    case ITEM_FLAP: sim_link_flap(s); return;
    case ITEM_TROUBLE: sim_trouble_begin(s, item->from); return;
    case ITEM_DIAL: sim_link_item(s, item); return;
    default: break;
    }
    if (!s->node[item->node].alive) return;
    switch (item->kind) {
    case ITEM_JOB_DONE: sim_job_done(s, item->node); break;
    case ITEM_STORED: sim_disk_stored(s, item->node); break;
    default: sim_link_item(s, item); break;
    }
}

static void tick_do(sim_cluster *s, void *tick) {
    uint32_t node = tick_node(tick);
    const sim_node *n = &s->node[node];
    uint64_t until = sim_trouble_paused_until(s, node);
    event e = {.kind = EVENT_TICK};
    if (until) sim_queue_put(&s->queue, until, tick);
    else if (n->alive && tick_serial(tick) == n->tick_serial) sim_step(s, node, &e);
}

// ---- the whole run

static void run_describe(sim_cluster *s) {
    const sim_case *c = s->c;
    const sim_model *model = s->model;
    s->run = (peer_run){.description = sha256_of("simulated run", 13), .seed = 1, .iterations = c->iterations, .microbatches = c->microbatches,
                        .stages = c->stages, .slots = (uint16_t)c->slots, .shares = (uint16_t)(c->private_data ? c->data_peers : 0), .elastic = c->elastic, .patience_ns = c->patience_ns,
                        .reproducible = model->reproducible, .save = true,
                        .routing = c->router.routing, .objective = c->router.objective, .plan_first = c->router.plan_first, .start_version = c->start_version, .eval_every = c->eval_every, .eval_microbatches = c->eval_microbatches, .checkpoint_every = c->checkpoint_every,
                        .start_data_peers = (uint16_t)c->data_peers, .start_relays = (uint16_t)(c->relays + c->awaited), .standbys = (uint16_t)c->shadows,
                        .placement = c->moves ? PLACEMENT_SHUFFLE : PLACEMENT_GAIN,
                        .activation_bytes = model->activation_bytes, .gradient_bytes = model->gradient_bytes, .model_tensors = model->model_tensors, .tensor_stage = model->tensor_stage};
    memcpy(s->run.blocks, model->blocks, sizeof s->run.blocks);
    memcpy(s->run.tensors, model->tensors, sizeof s->run.tensors);
}

// A pause delays events of the paused peer; events of the whole cluster take place all the same.
static bool defer_if_paused(sim_cluster *s, sim_item *item) {
    bool to_all = item->kind == ITEM_START || item->kind == ITEM_KILL || item->kind == ITEM_FLAP || item->kind == ITEM_TROUBLE;
    return !to_all && sim_trouble_defers(s, item);
}

// True when every member has left. Joiners that the run did not wait for are ignored. A leader may
// have died while it dismissed the others.
static bool run_over(const sim_cluster *s) {
    bool dismissed = s->leader_exit_ns != 0;
    if (!dismissed && !(s->checker.finished && s->checker.saved_last)) return false;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        if (n->alive && n->view.leads && !dismissed) return false;
        if (n->alive && !n->missed_end && n->view.member && sim_check_member_live(s, n->view.member)) return false;
    }
    return true;
}

static void run_loop(sim_cluster *s) {
    void *item;
    uint64_t at;
    while (!sim_failed(s) && !run_over(s)) {
        if (!sim_queue_take(&s->queue, &at, &item)) {
            sim_fail(s, "nothing will ever happen again, and the run is not over");
            return;
        }
        s->now = at;
        if (s->now > s->limit_ns) sim_fail(s, "stuck: the run should have ended by now (%llu of %u iterations done)",
                                           (unsigned long long)s->checker.version, s->c->iterations);
        if (++s->stats->events > MAX_EVENTS) sim_fail(s, "too many events");
        if (is_tick(item)) {
            if (!sim_failed(s)) tick_do(s, item);
        } else if (sim_failed(s) || !defer_if_paused(s, item)) {
            if (!sim_failed(s)) item_do(s, item);
            item_free(item);
        }
    }
}

static void trace_all(sim_cluster *s) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const peer_view *v = &s->node[i].view;
        sim_trace(s, i, "%s: member %llu, stage %u, version %llu, log %llu, term %llu%s, %u voters", s->node[i].alive ? "lives" : s->node[i].exited ? "has left" : "is dead",
                  (unsigned long long)v->member, v->stage, (unsigned long long)v->version, (unsigned long long)v->log_position, (unsigned long long)v->term, v->leads ? " leads" : "", v->voters);
    }
}

static void cluster_close(sim_cluster *s) {
    void *item;
    uint64_t at;
    while (sim_queue_take(&s->queue, &at, &item))
        if (!is_tick(item)) item_free(item);
    sim_queue_close(&s->queue);
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (s->node[i].worker) s->node[i].worker->free(s->node[i].worker);
        sim_blobs_close(&s->node[i].blobs);
        free(s->node[i].disk.record);
        sim_save_drop(s, i);
        memory_free(s->node[i].memory, s->node[i].memory_bytes);
    }
    sim_check_close(s);
    free(s->link);
    free(s->node);
    free(s);
}

void sim_cluster_run(const sim_case *c, const sim_model *model, const sim_reference *reference, FILE *trace, sim_report *report) {
    sim_cluster *s = calloc(1, sizeof *s);
    BRAID_ALLOCATED(s, sizeof *s);
    BRAID_ASSERT(model->stages == c->stages);
    s->node_capacity = SIM_MAX_NODES;
    s->node = calloc(s->node_capacity, sizeof *s->node);
    s->link = calloc(SIM_MAX_NODES, sizeof *s->link);
    BRAID_ALLOCATED(s->node && s->link, SIM_MAX_NODES * sizeof *s->node);
    *report = (sim_report){0};
    s->c = c;
    s->checker.version = c->start_version;
    s->model = model;
    s->reference = c->elastic ? NULL : reference;
    s->trace = trace;
    s->report = report;
    s->stats = &report->stats;
    s->random.state = rng_seed(c->seed, 1);
    s->now = SECOND;
    s->limit_ns = s->now + 120 * SECOND + sim_case_faultless_ns(c) * 10 + (uint64_t)(c->crashes + c->joins + c->flaps + 2 * c->troubles) * 60 * SECOND;
    run_describe(s);
    sim_check_open(s);
    for (uint32_t i = 0; i < c->data_peers; i++) sim_start(s, MEMBER_DATA, NULL, SIM_MAX_NODES, NULL);
    for (uint32_t i = 0; i < c->relays; i++) sim_start(s, MEMBER_RELAY, NULL, SIM_MAX_NODES, NULL);
    uint32_t workers = s->nodes;
    for (uint32_t i = 0; i < c->shadow_peers; i++) sim_start(s, MEMBER_SHADOW, NULL, SIM_MAX_NODES, &s->node[i % workers].id);
    sim_crash_plan(s);
    sim_trouble_plan(s);
    run_loop(s);
    if (!sim_failed(s)) sim_check_end(s);
    if (sim_failed(s)) trace_all(s);
    for (uint32_t i = 0; i < s->nodes; i++) {
        s->stats->routed += s->node[i].view.routed;
        s->stats->unrouted += s->node[i].view.unrouted;
    }
    report->stats.virtual_ns = s->now - SECOND;
    cluster_close(s);
}
