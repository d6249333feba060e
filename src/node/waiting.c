#include "node/waiting.h"

#include "format/quantity.h"
#include "node/clock.h"
#include "node/internal.h"
#include "node/plan.h"

#include <stdio.h>

waiting_verdict waiting_step(waiting *w, uint64_t now_ns, bool missing, bool draining, uint64_t limit_ns) {
    if (!missing) {
        *w = (waiting){0};
        return WAITING_ON;
    }
    if (w->since_ns == 0) *w = (waiting){.since_ns = now_ns, .next_ns = now_ns + WAITING_FIRST_NS, .pause_ns = WAITING_FIRST_NS};
    if (draining && w->drain_ns == 0) w->drain_ns = now_ns;
    if (draining && now_ns - w->drain_ns >= WAITING_DRAIN_NS) return WAITING_STOP;
    if (limit_ns > 0 && now_ns - w->since_ns >= limit_ns) return WAITING_END;
    if (now_ns < w->next_ns) return WAITING_ON;
    w->pause_ns = 2 * w->pause_ns < WAITING_MOST_NS ? 2 * w->pause_ns : WAITING_MOST_NS;
    w->next_ns = now_ns + w->pause_ns;
    return WAITING_SAY;
}

// The first stage without a peer; `stages`: each has one.
static uint16_t empty_stage(const node *n) {
    member_id any;
    uint16_t s = 0;
    while (s < n->plan.stages && peer_members(n->core, s, &any, 1) > 0) s++;
    return s;
}

static uint32_t count_relays(const node *n) {
    uint32_t count = 0;
    member_id any;
    for (uint16_t s = 1; s < n->plan.stages; s++) count += peer_members(n->core, s, &any, 0);
    return count;
}

// A relay must be able to hold any stage, because its future stage is not known.
static void stage_text(const node *n, uint16_t number, char *text, size_t room) {
    worker_config config;
    char needed[QUANTITY_TEXT];
    plan_stage_worker(&n->run, number, 1, &config);
    snprintf(text, room, "stage %u has no peer; a %s for it needs at least %s for weights, optimizer and one microbatch (--max-memory)", number,
             number == 0 ? "data peer" : "relay", quantity_size_text(worker_memory_bytes(&config), needed));
}

static void missing_text(const node *n, uint16_t empty, char *text, size_t room) {
    member_id any;
    if (empty < n->plan.stages) stage_text(n, empty, text, room);
    else snprintf(text, room, "the run has not started: %u of %u data peers and %u of %u relays are present", peer_members(n->core, 0, &any, 0), n->plan.start_data_peers, count_relays(n),
                  n->plan.start_relays);
}

static void end_waiting(node *n, const char *missing, waiting_verdict verdict, double seconds) {
    braid_error error;
    const char *saved = jobs_saved_path(n->jobs);
    if (verdict == WAITING_STOP)
        braid_fail(&error, BRAID_STATE, "stopped by the user; the current iteration could not be completed: %.250s. Resume from %.150s (--resume)", missing, *saved ? saved : "the newest checkpoint, if there is one");
    else braid_fail(&error, BRAID_STATE, "waited %.0f s for peers (--wait-for-peers): %.400s", seconds, missing);
    node_fail(n, &error);
}

void node_look_for_gaps(node *n) {
    char text[400];
    peer_view view;
    uint64_t now = clock_now_ns();
    peer_look(n->core, &view);
    uint16_t empty = view.leads ? empty_stage(n) : n->plan.stages;
    bool short_of_peers = view.leads && view.generation == 0 && !n->draining;
    waiting_verdict verdict = waiting_step(&n->waiting, now, empty < n->plan.stages || short_of_peers, n->draining, n->config.wait_ns);
    if (verdict == WAITING_ON) return;
    missing_text(n, empty, text, sizeof text);
    double seconds = (double)(now - n->waiting.since_ns) * 1e-9;
    if (verdict == WAITING_SAY) node_note(n, "waiting for %.0f s: %s", seconds, text);
    else end_waiting(n, text, verdict, seconds);
}
