// Feeds events into the protocol core and performs its effects.
#include "node/clock.h"
#include "node/internal.h"
#include "node/trace.h"
#include "train/diverged.h"

#include <string.h>

static void effect_send(node *n, const effect *e) {
    if (n->due.mute) return;
    uint64_t bytes = 0;
    const void *data = NULL;
    if (e->blob) {
        data = blobs_data(n->blobs, e->blob, &bytes);
        if (e->blob_bytes > 0) {
            data = (const uint8_t *)data + e->blob_offset;
            bytes = e->blob_bytes;
        }
        blobs_hold(n->blobs, e->blob);
        measure_sent(&n->measure, bytes);
    }
    // A message to a failed link is dropped; the core learns of the failure by EVENT_LINK_DOWN.
    braid_err err = net_send(n->net, &e->id, e->bytes, e->byte_count, data, bytes, e->blob);
    if (err && e->blob) blobs_release(n->blobs, e->blob);
}

static void effect_dial(node *n, const effect *e) {
    braid_error error;
    if (!net_dial(n->net, &e->id, e->address, &error)) return;
    node_note(n, "cannot dial %s: %s", e->address, error.text);
    if (n->due.failed_dial_count < NODE_MAX_FAILED_DIALS) n->due.failed_dials[n->due.failed_dial_count++] = e->id;
}

static void tell_figures(node *n) {
    if (!n->config.measure || !measure_iteration(&n->measure) || !n->callbacks.figures) return;
    peer_view view;
    peer_look(n->core, &view);
    n->measure.figures.stage = view.stage;
    n->measure.figures.capacity = n->capacity;
    n->callbacks.figures(n->callbacks.context, &n->measure.figures);
}

static void diverged(node *n, const tell *t) {
    const char *saved = jobs_saved_path(n->jobs), *began = n->config.resume ? n->config.resume : "";
    run_diverged(&n->run, t->iteration + 1, t->total, *saved ? saved : began, &n->error);
}

static void effect_tell(node *n, const tell *t) {
    if (t->kind == TELL_JOINED) jobs_place(n->jobs, t->stage);
    if (t->kind == TELL_LEADER) node_leader_is(n, &t->id, t->text);
    if (t->kind == TELL_DIVERGED) diverged(n, t);
    if (t->kind == TELL_ALONE) {
        n->ending.alone = t->stage;
        node_note(n, "no other peer has the state of stage %u: this peer leaves after the leader has saved a checkpoint, or after another peer has that state", t->stage);
    }
    if (t->kind == TELL_REFUSED) {
        braid_fail(&n->error, BRAID_STATE, "%s", t->text ? t->text : "the leader refused this peer");
        n->ending.log_is_over = t->stopped;
    }
    if (n->callbacks.told) n->callbacks.told(n->callbacks.context, t);
    if (t->kind == TELL_ITERATION) tell_figures(n);
}

static void effect_exit(node *n, const effect *e) {
    if (e->failed && !n->error.code) braid_fail(&n->error, BRAID_STATE, "the run ended before it was complete");
    n->ending.end_wanted = true;
}

// A job holds a reference to each of its input blobs until it ends, so a release by the core cannot
// free them.
void node_job_blobs(node *n, const job *work, void (*each)(blobs *, blob_id)) {
    if (work->in) each(n->blobs, work->in);
    for (uint32_t i = 0; i < work->inputs; i++)
        if (work->input[i] != JOB_OWN_SUM) each(n->blobs, work->input[i]);
}

static void effect_append(node *n, const log_entry *entry) {
    log_entry each, next;
    bool more = entry->kind == LOG_BASE && peer_snapshot(n->core, 0, &next);
    log_writer_append(n->log, entry, more);
    while (more) {
        each = next;
        more = peer_snapshot(n->core, each.index, &next);
        log_writer_append(n->log, &each, more);
    }
}

static void effect_do(node *n, const effect *e) {
    switch (e->kind) {
    case EFFECT_SEND: effect_send(n, e); break;
    case EFFECT_DIAL: effect_dial(n, e); break;
    case EFFECT_CLOSE: net_close(n->net, &e->id, "the protocol closed the link"); break;
    case EFFECT_JOB:
        n->idle.worked = true;
        node_job_blobs(n, e->job, blobs_hold);
        compute_post(n->compute, e->job);
        break;
    case EFFECT_APPEND: effect_append(n, e->entry); break;
    case EFFECT_APPLIED: break;
    case EFFECT_RELEASE: blobs_release(n->blobs, e->blob); break;
    case EFFECT_TELL: effect_tell(n, &e->tell); break;
    case EFFECT_EXIT: effect_exit(n, e); break;
    default: braid_assert_failed("an effect of a known kind", __FILE__, __LINE__);
    }
}

// If a fault is set for the moment between COMPLETE and the next stage, tensors wait until the
// fault has been ruled out.
static bool effect_defer(node *n, const effect *e) {
    if (n->die_at.point != FAULT_COMPLETE_SENT || e->kind != EFFECT_SEND || !e->blob) return false;
    if (n->due.deferred_count == NODE_MAX_DEFERRED) return false;
    blobs_hold(n->blobs, e->blob);
    n->due.deferred[n->due.deferred_count++] = *e;
    return true;
}

static void effects_drain(node *n) {
    effect e;
    while (peer_next_effect(n->core, &e)) {
        if (n->trace) trace_effect(n->trace, &e, &n->scratch);
        fault_verdict verdict = fault_at_effect(&n->die_at, &e, &n->scratch);
        if (verdict == FAULT_DIE_NOW) fault_die();
        if (!effect_defer(n, &e)) effect_do(n, &e);
        if (verdict == FAULT_DIE_WHEN_SENT) n->due.mute = true;
    }
    for (uint32_t i = 0; i < n->due.deferred_count; i++) {
        effect_do(n, &n->due.deferred[i]);
        blobs_release(n->blobs, n->due.deferred[i].blob);
    }
    n->due.deferred_count = 0;
}

static bool all_sent(node *n) {
    net_stats stats;
    for (uint32_t i = 0; i < n->links.count; i++)
        if (net_link_stats(n->net, &n->links.id[i], &stats) && stats.control_queued > 0) return false;
    return true;
}

static void deadline_passed(uv_timer_t *timer) {
    node *n = timer->data;
    if (n->due.mute && all_sent(n)) fault_die();
    uint32_t failed = n->due.failed_dial_count;
    braid_id ids[NODE_MAX_FAILED_DIALS];
    memcpy(ids, n->due.failed_dials, failed * sizeof ids[0]);
    n->due.failed_dial_count = 0;
    for (uint32_t i = 0; i < failed && n->phase == NODE_RUNNING; i++)
        if (!net_linked(n->net, &ids[i])) node_feed(n, &(event){.kind = EVENT_LINK_DOWN, .id = ids[i]});
    node_feed(n, &(event){.kind = EVENT_TICK});
}

// The timer waits at least one millisecond: a deadline in the past must not starve the sockets.
static void deadline_arm(node *n) {
    if (n->phase != NODE_RUNNING) return;
    uint64_t now = clock_now_ns(), at = peer_deadline(n->core), wait_ms = 1;
    if (at > now && !n->due.mute) wait_ms = (at - now) / 1000000 + 1;
    if (wait_ms > NODE_TICK_MS) wait_ms = NODE_TICK_MS;
    if (n->due.failed_dial_count && wait_ms > NODE_REDIAL_MS) wait_ms = NODE_REDIAL_MS;
    uv_update_time(&n->loop);
    uv_timer_start(&n->deadline, deadline_passed, wait_ms, 0);
}

void node_look_at_voters(node *n) {
    braid_id machine[WIRE_MAX_VOTERS] = {{{0}}};
    uint64_t index;
    uint32_t count = peer_voting_machines(n->core, &index, machine);
    if (!n->callbacks.voters || count == 0) return;
    if (index == n->due.voting_index && memcmp(machine, n->due.voting, sizeof machine) == 0) return;
    n->due.voting_index = index;
    memcpy(n->due.voting, machine, sizeof machine);
    n->callbacks.voters(n->callbacks.context, index, machine, count);
}

static void advance_look(node *n) {
    peer_view view;
    node_look_at_voters(n);
    peer_look(n->core, &view);
    if (!view.ready || (n->due.advanced_told && view.version == n->due.advanced_version)) return;
    n->due.advanced_told = true;
    n->due.advanced_version = view.version;
    if (n->callbacks.advanced) n->callbacks.advanced(n->callbacks.context, view.version);
}

void node_unlogged(node *n) {
    if (n->ending.dropped || n->phase != NODE_RUNNING) return;
    n->ending.dropped = true;
    if (n->ending.stop_ns == 0) n->ending.stop_ns = clock_now_ns();
    node_note(n, "%s; saving the state before this iteration", n->error.text);
    node_feed(n, &(event){.kind = EVENT_DRAIN, .whole = true, .drop = true, .unlogged = true});
}

void node_feed(node *n, const event *e) {
    if (n->phase != NODE_RUNNING) return;
    BRAID_ASSERT(!n->due.stepping);
    n->due.stepping = true;
    uint64_t now = clock_now_ns();
    if (n->trace) trace_event(n->trace, n->start_ns, now, e);
    peer_step(n->core, now, e);
    effects_drain(n);
    n->due.stepping = false;
    if (e->kind == EVENT_JOB_DONE) advance_look(n);
    if (!n->ending.end_wanted) log_writer_deliver(n->log);
    if (n->ending.end_wanted) node_end(n);
    else deadline_arm(n);
    if (n->ending.unlogged && !n->ending.dropped) node_unlogged(n);
}
