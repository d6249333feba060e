// How a node ends before its run does: signals, the supervisor's commands, and errors that leave
// the weights intact. Each orderly end has a time limit.
#include "node/clock.h"
#include "node/internal.h"
#include "node/stop.h"

#include <stdio.h>
#include <string.h>

static uint64_t within_ns(const node *n) {
    uint64_t own = n->config.stop_within_ns ? n->config.stop_within_ns : STOP_WITHIN_NS;
    uint64_t most = NODE_ORPHAN_MS * UINT64_C(1000000);
    return n->ending.orphaned && own > most ? most : own;
}

static double seconds_of(uint64_t ns) { return (double)ns * 1e-9; }

const char *node_stopped_by(const node *n) {
    if (!n->ending.draining) return NULL;
    return n->config.signals && stop_requested() ? stop_signal_name(stop_requested()) : "its supervisor";
}

static void look(node *n, peer_view *view) {
    memset(view, 0, sizeof *view);
    if (n->phase == NODE_RUNNING) peer_look(n->core, view);
}

static bool leads(node *n) {
    peer_view view;
    look(n, &view);
    return view.leads;
}

// ---- the orderly end ----------------------------------------------------------------------------

static void begin_limit(node *n) {
    if (n->ending.stop_ns == 0) n->ending.stop_ns = clock_now_ns();
}

static void note_drain(node *n) {
    const char *by = node_stopped_by(n);
    double within = seconds_of(within_ns(n));
    const char *again = n->config.supervised ? "" : "; repeat the signal to end at once";
    if (leads(n) || n->config.role == NODE_LEADER)
        node_note(n, "%s: saving after this iteration, or without it after %.3g s; at most %.3g s in all%s", by, seconds_of(stop_finish_ns(within_ns(n))), within, again);
    else node_note(n, "%s: leaving the run after this iteration; at most %.3g s%s", by, within, again);
}

// May be called in any phase. Before the run is known nothing can be lost; after the run's end the
// node ends by itself.
void node_drain(node *n) {
    bool again = n->ending.draining;
    n->ending.draining = true;
    if (again || n->phase >= NODE_STOPPING) return;
    begin_limit(n);
    if (n->phase != NODE_RUNNING) {
        node_note(n, "%s: stopped before this peer joined a run", node_stopped_by(n));
        node_stop_now(n);
        return;
    }
    note_drain(n);
    node_feed(n, &(event){.kind = EVENT_DRAIN});
}

void node_end_run(node *n, bool drop) { node_feed(n, &(event){.kind = EVENT_DRAIN, .whole = true, .drop = drop}); }

void node_request(node *n) {
    if (!n->config.signals || n->phase == NODE_STOPPED) return;
    if (stop_take_save()) node_save(n, false);
    if (stop_at_once()) {
        if (!n->error.code) braid_fail(&n->error, BRAID_STATE, "stopped by the user: a second request ended it at once");
        node_stop_now(n);
    } else if (stop_requested() && n->config.supervised && !n->ending.orphaned) {
        if (n->ending.held_ns == 0) n->ending.held_ns = clock_now_ns();
    } else if (stop_requested()) {
        node_drain(n);
    }
}

// Only the leader saves the run, and the leader may change meanwhile, so node_ending_tick repeats
// the request.
void node_orphan(node *n) {
    if (n->ending.orphaned || n->phase >= NODE_STOPPING) return;
    n->ending.orphaned = n->ending.draining = true;
    begin_limit(n);
    stop_limit();
    if (n->phase == NODE_RUNNING) node_end_run(n, false);
    else node_stop_now(n);
}

static void fail_late(node *n) {
    braid_error late;
    char why[160] = "";
    peer_view view;
    member_id any;
    look(n, &view);
    for (uint16_t s = 1; view.leads && s < n->plan.stages; s++)
        if (peer_members(n->core, s, &any, 1) == 0) snprintf(why, sizeof why, ": no peer has the state of stage %u, so it cannot be saved; resume from the newest checkpoint", s);
    if (n->ending.alone) snprintf(why, sizeof why, ": no other peer has the state of stage %u, and the leader has saved no checkpoint of it (has it a checkpoint.dir?)", n->ending.alone);
    braid_fail(&late, BRAID_STATE, "did not end within %.3g s (--stop-within)%s", seconds_of(within_ns(n)), why);
    node_fail(n, &late);
}

// A data peer that leads transfers the leadership and leaves, unless it is the last data peer:
// without it nothing can be computed. A run with private data waits for the other texts instead.
static void look_if_last(node *n) {
    member_id any;
    bool last = n->config.role == NODE_DATA && n->run.private_data == 0 && leads(n) && peer_members(n->core, 0, &any, 1) == 1;
    if (!last || n->ending.last_data) return;
    n->ending.last_data = true;
    node_note(n, "this is the last data peer, so the run ends with it");
}

// Without a leader a peer cannot leave in order. A peer without state loses nothing by
// ending if its log is empty or in a file.
static bool has_nothing(const node *n, const peer_view *view) {
    bool unled = n->leader.lost_ns || n->start.by_log;
    bool kept = n->config.log_path || view->log_position == 0;
    return n->config.role != NODE_LEADER && unled && kept && !view->ready && !view->leaving.stands_again && view->leaving.left == 0;
}

static void stop_tick(node *n, uint64_t now) {
    uint64_t passed = now - n->ending.stop_ns;
    peer_view view;
    look(n, &view);
    if (has_nothing(n, &view) && passed >= NODE_UNLED_MS * UINT64_C(1000000)) {
        node_note(n, "%s: the run has no leader, and this peer has no state to lose, so it ends", node_stopped_by(n));
        node_end(n);
        return;
    }
    if (passed >= within_ns(n)) {
        fail_late(n);
        return;
    }
    look_if_last(n);
    bool ends_run = n->ending.orphaned || n->ending.last_data || n->config.role == NODE_LEADER;
    bool drop = passed >= stop_finish_ns(within_ns(n)) && !n->ending.dropped && ends_run && leads(n);
    if (drop) {
        n->ending.dropped = true;
        node_note(n, "the current iteration takes too long; saving the state before it");
    }
    if (n->ending.orphaned || n->ending.last_data || drop) node_end_run(n, drop);
}

void node_ending_tick(node *n) {
    uint64_t now = clock_now_ns();
    bool held = n->ending.held_ns && !n->ending.draining && now - n->ending.held_ns >= NODE_HELD_MS * UINT64_C(1000000);
    if (held && !n->ending.parent_stops) node_drain(n);
    if (n->phase != NODE_RUNNING) return;
    if (n->ending.broken_ns && !n->ending.dropped && now - n->ending.broken_ns >= NODE_BROKEN_MS * UINT64_C(1000000)) node_end(n);
    else if (n->ending.stop_ns) stop_tick(n, clock_now_ns());
}

// ---- an immediate checkpoint
// --------------------------------------------------------------------------------------

void node_save(node *n, bool quiet) {
    bool saves = n->run.checkpoint[0] != 0;
    if (n->phase == NODE_RUNNING && leads(n) && saves) {
        node_note(n, "saving a checkpoint, if the state has changed since the last one");
        node_feed(n, &(event){.kind = EVENT_SAVE});
    } else if (n->phase == NODE_RUNNING && leads(n)) {
        node_note(n, "the run has no checkpoint.dir, so nothing is saved");
    } else if (!quiet && n->phase == NODE_RUNNING) {
        node_note(n, "only the leader can save the run: send SIGUSR1 to the peer at %s", n->config.leader.address);
    } else if (!quiet) {
        node_note(n, "nothing to save: this peer has not joined a run yet");
    }
}

// ---- errors that leave the weights intact
// -------------------------------------------------------------------------

// The leader saves the state before this iteration, and the run ends. Another data peer may have an
// intact text, so the run can continue without this one. This peer keeps voting briefly, because
// the leader may be about to find the same error.
void node_text_lost(node *n, const braid_error *error) {
    if (n->error.code == BRAID_OK) n->error = *error;
    if (n->ending.broken_ns == 0) n->ending.broken_ns = clock_now_ns();
    if (n->phase != NODE_RUNNING || n->ending.dropped || !leads(n)) return;
    n->ending.dropped = true;
    begin_limit(n);
    node_note(n, "%s", error->text);
    node_end_run(n, true);
}
