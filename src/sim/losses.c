// Work that a death destroys, and the time until its repair. It is observed from jobs that are
// requested and done, and from the microbatches that a peer reports to hold.
#include "sim/inside.h"

#include "base/bitset.h"

#include <string.h>

const char *sim_loss_name(sim_loss_phase phase) {
    static const char *const names[SIM_LOSS_PHASES] = {"sent", "forward", "backward", "committed", "aggregation", "owner", "reduction"};
    return phase < SIM_LOSS_PHASES ? names[phase] : "?";
}

static void loss_add(sim_cluster *s, const sim_loss *loss) {
    if (s->stats->losses == SIM_MAX_LOSSES) return;
    sim_loss *to = &s->stats->loss[s->stats->losses++];
    *to = *loss;
    to->iteration = s->checker.version;
    to->died_ns = s->now;
}

static bool closed(const sim_cluster *s) { return s->checker.closed && s->checker.close.iteration == s->checker.version; }

// A relay on the path died: its results must be computed again.
static void relay_died(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    message_holdings h;
    peer_holdings(n->peer, 0, &h);
    for (uint32_t m = 0; m < s->c->microbatches; m++) {
        if (!bitset_has(h.held.words, m)) continue;
        sim_loss loss = {.stage = n->view.stage, .m = m, .target = JOB_FORWARD, .phase = SIM_LOSS_FORWARD};
        bool counted = bitset_has(n->view.k.words, m);
        if (bitset_has(h.returning.words, m)) loss.phase = SIM_LOSS_BACKWARD;
        if (bitset_has(h.committed.words, m)) loss.phase = closed(s) ? SIM_LOSS_AGGREGATION : SIM_LOSS_COMMITTED;
        if (bitset_has(h.backward.words, m)) loss.target = counted ? JOB_WEIGHT : JOB_BACKWARD;
        loss.at_start = !bitset_has(h.forward.words, m);
        loss_add(s, &loss);
    }
}

// An owner died: its slots get a new owner, which begins them again.
static void owner_died(sim_cluster *s, uint32_t node) {
    const sim_watch *w = &s->checker.watch[node];
    for (uint32_t i = 0; i < SIM_MAX_CAPACITY && i < s->c->data_capacity; i++) {
        const sim_stash *stash = &w->stash[i];
        if (stash->phase == WATCH_EMPTY || stash->iteration != s->checker.version || stash->m >= s->c->microbatches) continue;
        sim_loss loss = {.phase = SIM_LOSS_OWNER, .m = stash->m};
        loss.target = stash->phase == WATCH_FORWARD ? JOB_FORWARD : stash->phase == WATCH_LOSS ? JOB_LOSS : JOB_BACKWARD;
        loss_add(s, &loss);
    }
}

void sim_loss_died(sim_cluster *s, uint32_t node, const message *sent) {
    const sim_node *n = &s->node[node];
    if (!s->checker.started || n->view.iteration != s->checker.version || !sim_check_member_live(s, n->view.member)) return;
    if (n->config.kind == MEMBER_RELAY) relay_died(s, node);
    else owner_died(s, node);
    if (sent && sent->kind == MESSAGE_FORWARD && !sent->u.forward.home && sent->iteration == s->checker.version && sent->u.forward.subject.stage == n->view.stage) {
        const sim_loss loss = {.phase = SIM_LOSS_SENT, .stage = n->view.stage, .m = sent->u.forward.subject.m, .target = JOB_FORWARD, .at_start = true};
        loss_add(s, &loss);
    }
    const sim_loss all = {.phase = SIM_LOSS_REDUCTION, .m = UINT32_MAX, .target = JOB_NONE};
    if (closed(s)) loss_add(s, &all);
}

static void repaired(const sim_cluster *s, sim_loss *loss) {
    loss->repaired = true;
    loss->repair_ns = s->now - loss->died_ns;
}

void sim_loss_job(sim_cluster *s, uint32_t node, const job *work, uint64_t cost_ns, bool done) {
    for (uint32_t i = 0; i < s->stats->losses; i++) {
        sim_loss *loss = &s->stats->loss[i];
        bool of_it = !loss->repaired && loss->iteration == work->iteration && loss->m == work->m && loss->stage == work->stage && work->kind <= JOB_WEIGHT;
        if (!of_it || !s->node[node].alive) continue;
        if (done && !loss->at_start) loss->lost_ns += cost_ns;
        if (work->kind == loss->target && done != loss->at_start) repaired(s, loss);
    }
}

void sim_loss_final(sim_cluster *s, uint64_t iteration) {
    for (uint32_t i = 0; i < s->stats->losses; i++) {
        sim_loss *loss = &s->stats->loss[i];
        if (loss->repaired || loss->iteration != iteration || loss->target != JOB_NONE) continue;
        repaired(s, loss);
        for (uint32_t k = 0; k < s->stats->losses; k++)  // repairs one after another
            if (s->stats->loss[k].died_ns == loss->died_ns && k != i) loss->lost_ns += s->stats->loss[k].lost_ns;
    }
}
