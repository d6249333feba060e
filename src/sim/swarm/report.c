// Counters of a running swarm, and the report at its end.
#include "sim/swarm/inside.h"

#include "base/bitset.h"

#include <stdlib.h>
#include <string.h>

// ---- useful and wasted compute

static void totals(const swarm *w, uint64_t *useful, uint64_t *wasted) {
    *useful = *wasted = 0;
    for (uint32_t i = 0; i < w->peers; i++) {
        const swarm_peer *p = &w->peer[i];
        *useful += p->useful_ns;
        *wasted += p->wasted_ns;
        if (!p->alive) continue;
        const peer_view *view = &w->core->node[p->node].view;
        *useful += view->useful_ns;
        *wasted += view->wasted_ns;
    }
}

// Books the compute of an iteration. A peer learns which of its work counted before FINAL.
static void book(swarm *w, sim_swarm_iteration *of) {
    uint64_t useful, wasted;
    totals(w, &useful, &wasted);
    of->useful_ns += useful - w->useful_seen_ns;
    of->wasted_ns += wasted - w->wasted_seen_ns;
    w->useful_seen_ns = useful;
    w->wasted_seen_ns = wasted;
}

static uint64_t *dead_ns(const swarm *w, uint16_t index, uint32_t m) { return &w->dead_ns[(size_t)index * w->s->microbatches + m]; }

// Records a death. Whether its sum is needed is not known yet: a sum that others have fetched is
// not lost.
static void note_death(swarm *w, uint32_t number, uint64_t held_ns) {
    swarm_peer *p = &w->peer[number];
    const peer_view *view = &w->core->node[p->node].view;
    uint32_t counted = bitset_count(view->k.words, WIRE_SET_WORDS);
    p->crashes++;
    w->now.crashes++;
    w->now.lost_held_ns += held_ns;
    for (uint32_t m = 0; m < w->s->microbatches && counted > 0; m++)
        if (bitset_has(view->k.words, m)) *dead_ns(w, view->stage, m) = (view->useful_ns - p->useful_before_ns) / counted;
    // only the first death of an iteration counts
    if (w->now.died_ns != NULL && w->now.died_ns[p->index] == UINT64_MAX) w->now.died_ns[p->index] = w->core->now - SWARM_BEGIN_NS;
}

void swarm_note_incarnation_end(swarm *w, uint32_t number) {
    swarm_peer *p = &w->peer[number];
    const sim_node *n = &w->core->node[p->node];
    uint64_t booked = n->view.useful_ns + n->view.wasted_ns, held = p->compute_ns > booked ? p->compute_ns - booked : 0;
    p->up_ns += w->core->now - p->started_ns;
    p->useful_ns += n->view.useful_ns;
    p->wasted_ns += n->view.wasted_ns + held;  // work that it held is lost with it
    if (!n->exited) note_death(w, number, held);
}

void swarm_note_weight(swarm *w, uint32_t number, const job *work) {
    w->peer[number].microbatches++;
    if (work->m >= w->s->microbatches) return;
    uint64_t *again = dead_ns(w, work->stage, work->m);
    w->now.lost_counted_ns += *again;
    *again = 0;
}

// ---- iterations

static uint16_t *current_stages(const swarm *w) {
    uint16_t *there = malloc(w->peers * sizeof *there);
    BRAID_ALLOCATED(there, w->peers * sizeof *there);
    for (uint32_t i = 0; i < w->peers; i++) {
        const swarm_peer *p = &w->peer[i];
        bool member = p->alive && w->core->node[p->node].view.member != 0;
        there[p->index] = member ? p->stage : SIM_SWARM_ABSENT;
    }
    return there;
}

// An array with SIM_SWARM_ABSENT, or "never", for each peer.
static void *filled_with_absent(const swarm *w, size_t bytes) {
    void *each = malloc(w->peers * bytes);
    BRAID_ALLOCATED(each, w->peers * bytes);
    return memset(each, 0xff, w->peers * bytes);
}

void swarm_iteration_free(sim_swarm_iteration *i) {
    free(i->stage);
    free(i->died_ns);
    free(i->joined);
    free(i->joined_ns);
    i->stage = i->joined = NULL;
    i->died_ns = i->joined_ns = NULL;
}

// Begins an iteration. Events before the start of the run, or in an iteration that was rolled back,
// count in the one that begins now.
static void iteration_begins(swarm *w, uint64_t iteration) {
    const sim_swarm_iteration before = w->now;
    swarm_iteration_free(&w->now);
    w->begun_ns = w->core->now;
    w->begun_events = w->out->events;
    w->now = (sim_swarm_iteration){.iteration = iteration, .start_ns = w->core->now - SWARM_BEGIN_NS, .stage = current_stages(w),
                                   .died_ns = filled_with_absent(w, sizeof *w->now.died_ns), .joined = filled_with_absent(w, sizeof *w->now.joined),
                                   .joined_ns = filled_with_absent(w, sizeof *w->now.joined_ns),
                                   .crashes = before.crashes, .joins = before.joins, .leaves = before.leaves, .repairs = before.repairs};
    for (uint32_t i = 0; i < w->peers; i++) w->peer[i].useful_before_ns = w->peer[i].alive ? w->core->node[w->peer[i].node].view.useful_ns : 0;
    memset(w->dead_ns, 0, (size_t)w->s->stages * w->s->microbatches * sizeof *w->dead_ns);
    swarm_churn_iteration(w);
}

static void show_iteration(swarm *w);

static void iteration_ends(swarm *w, const log_final *final) {
    sim_swarm_report *out = w->out;
    if (out->iterations == w->iteration_room) {
        w->iteration_room = w->iteration_room ? 2 * w->iteration_room : 16;
        out->iteration = realloc(out->iteration, w->iteration_room * sizeof *out->iteration);
        BRAID_ALLOCATED(out->iteration, w->iteration_room * sizeof *out->iteration);
    }
    book(w, &w->now);
    w->now.end_ns = w->core->now - SWARM_BEGIN_NS;
    w->now.microbatches = w->counted;
    w->last_ns = w->core->now - w->begun_ns;
    out->iteration[out->iterations++] = w->now;
    w->now = (sim_swarm_iteration){0};  // its arrays belong to the report now
    timeline_iteration_over(w);
    if (w->options->iteration) show_iteration(w);
    iteration_begins(w, final->iteration + 1);
}

void swarm_note_committed(swarm *w, const log_entry *entry) {
    switch (entry->kind) {
    case LOG_RUN:
        timeline_instant(w, SWARM_NO_PEER, "the run starts");
        w->progress_ns = w->core->now;
        iteration_begins(w, entry->u.run.start_version);
        break;
    case LOG_MEMBER: w->progress_ns = w->core->now; break;
    case LOG_CLOSE:
        w->counted = bitset_count(entry->u.close.counted.words, WIRE_SET_WORDS);
        w->now.close_ns = w->core->now - SWARM_BEGIN_NS;
        break;
    case LOG_FINAL:
        w->progress_ns = w->core->now;
        iteration_ends(w, &entry->u.final);
        break;
    default: break;
    }
}

void swarm_note_tell(swarm *w, uint32_t number, const tell *what) {
    swarm_peer *p = &w->peer[number];
    switch (what->kind) {
    case TELL_REPAIR:
        w->out->repairs++;
        w->now.repairs++;
        break;
    case TELL_JOINED:
        p->joins++;
        p->stage = what->stage;
        p->ever_member = true;
        p->admitted_ns = w->core->now;
        if (w->now.joined != NULL) {  // the run has begun
            w->now.joined[p->index] = p->stage;
            w->now.joined_ns[p->index] = w->core->now - SWARM_BEGIN_NS;
        }
        if (p->incarnation > 1 || p->s->start_ns > w->peer[w->leader].s->start_ns) {
            w->now.joins++;
            timeline_instant(w, number, "joins");
        }
        break;
    default: break;
    }
}

// ---- the end

static double share(const swarm_busy *b, uint64_t now_ns, uint64_t up_ns) {
    uint64_t busy = b->total_ns + (b->count ? now_ns - b->since_ns : 0);
    return up_ns ? (double)busy / (double)up_ns : 0;
}

static void peer_report(const swarm *w, uint32_t number, sim_swarm_peer *out) {
    const swarm_peer *p = &w->peer[number];
    uint64_t now = w->core->now;
    uint64_t up = p->up_ns + (p->alive ? now - p->started_ns : 0);
    *out = (sim_swarm_peer){.data = p->s->data, .alive = p->alive, .stage = p->stage, .ever_member = p->ever_member, .up_ns = up,
                            .busy_ns = p->busy_ns, .idle_ns = up > p->busy_ns ? up - p->busy_ns : 0, .bytes_up = p->bytes_up, .bytes_down = p->bytes_down,
                            .up_share = share(&p->sending, now, up), .down_share = share(&p->receiving, now, up), .microbatches = p->microbatches,
                            .crashes = p->crashes, .joins = p->joins, .useful_ns = p->useful_ns, .wasted_ns = p->wasted_ns, .fetch_ns = p->fetch_ns,
                            .view_messages = p->view_messages, .view_bytes = p->view_bytes, .route_messages = p->route_messages, .route_bytes = p->route_bytes};
    snprintf(out->name, sizeof out->name, "%s", p->name);
    if (!p->alive) return;
    const peer_view *view = &w->core->node[p->node].view;
    out->member = view->member != 0;
    out->route_capacity = view->routes ? view->route_capacity : 0;
    out->useful_ns += view->useful_ns;
    out->wasted_ns += view->wasted_ns;
}

static uint32_t whose(const swarm *w, member_id id) {
    uint32_t i = 0;
    while (i < w->peers && (!w->peer[i].alive || w->core->node[w->peer[i].node].view.member != id)) i++;
    return i;
}

static void flows_report(const swarm *w, sim_swarm_report *out) {
    enum { MOST = 512 };  // flows of one peer
    peer_flow flow[MOST];
    for (uint32_t i = 0; i < w->peers; i++) {
        uint32_t count = w->peer[i].alive ? peer_flows(w->core->node[w->peer[i].node].peer, flow, MOST) : 0;
        out->flow = realloc(out->flow, (out->flows + count + 1) * sizeof *out->flow);
        BRAID_ALLOCATED(out->flow, (out->flows + count + 1) * sizeof *out->flow);
        for (uint32_t k = 0; k < count && k < MOST; k++) {
            uint32_t to = flow[k].to ? whose(w, flow[k].to) : w->peers;
            if (to < w->peers) out->flow[out->flows++] = (sim_swarm_flow){i, to, flow[k].units, flow[k].cost};
        }
    }
}

static void peers_report(const swarm *w, sim_swarm_report *out) {
    out->peer = calloc(w->peers ? w->peers : 1, sizeof *out->peer);
    BRAID_ALLOCATED(out->peer, (w->peers ? w->peers : 1) * sizeof *out->peer);
    out->peers = w->peers;
    for (uint32_t i = 0; i < w->peers; i++) {
        peer_report(w, i, &out->peer[i]);
        out->crashes += out->peer[i].crashes;
        out->joins += out->peer[i].joins;
    }
    flows_report(w, out);
}

static void show_iteration(swarm *w) {
    sim_swarm_report now = {.virtual_ns = w->core->now - SWARM_BEGIN_NS, .events = w->out->events, .messages = w->out->messages};
    peers_report(w, &now);
    w->options->iteration(w->options->context, w->out->iterations, &now);
    sim_swarm_report_free(&now);
}

void swarm_report(swarm *w) {
    sim_swarm_report *out = w->out;
    if (out->iterations) book(w, &out->iteration[out->iterations - 1]);
    peers_report(w, out);
    for (uint32_t i = 0; i < out->iterations; i++) out->leaves += out->iteration[i].leaves;
    out->hash = w->hash;
    out->virtual_ns = w->core->now - SWARM_BEGIN_NS;
}

void sim_swarm_report_free(sim_swarm_report *report) {
    for (uint32_t i = 0; i < report->iterations; i++) swarm_iteration_free(&report->iteration[i]);
    free(report->iteration);
    free(report->peer);
    free(report->flow);
    *report = (sim_swarm_report){0};
}
