// Rules for messages.
#include "sim/inside.h"

#include "base/bitset.h"

#include <string.h>

enum { MAX_SENDS_PER_SECOND = 20000, MAX_SENDS_PER_PAIR = 4 };

static sim_commit *commit_at(sim_cluster *s, const message_subject *subject) {
    if (subject->m >= s->c->microbatches || subject->stage >= s->c->stages) return NULL;
    return &s->checker.commit[(size_t)subject->m * s->c->stages + subject->stage];
}

static member_id member_of(const sim_cluster *s, const braid_id *id, uint16_t index) {
    for (uint32_t i = s->checker.members; i-- > 0;) {
        const sim_log_member *m = &s->checker.member[i];
        if (id_equal(&m->entry.peer, id) && m->entry.stage == index && !m->expelled) return m->member;
    }
    return 0;
}

// True if the older owner's COMMIT did not reach its receiver, which has read of the newer owner
// and does not count that COMMIT.
static bool commit_was_lost(const sim_cluster *s, const sim_commit *c, const message_subject *subject) {
    for (uint32_t i = 0; i < s->nodes && c->owner_term < subject->owner_term; i++) {
        const peer_view *v = &s->node[i].view;
        if (v->member == c->to) return v->log_position >= subject->owner_term && !bitset_has(v->k.words, subject->m);
    }
    return false;
}

// A microbatch gets a new holder only after the old one was removed or reported that it holds
// nothing. The revision of a path never decreases.
static void check_commit(sim_cluster *s, uint32_t node, const braid_id *to, const message *msg) {
    const message_commit *body = &msg->u.commit;
    sim_commit *c = commit_at(s, &body->subject);
    member_id member = body->subject.stage < s->c->stages ? body->path.member[body->subject.stage] : 0;
    // the receiver is no member any more
    if (member_of(s, to, body->subject.stage) != member) return;
    if (!c || msg->iteration != s->checker.version || member == 0 || sim_check_is_rolled_back(s, node)) return;
    bool same = c->iteration == msg->iteration && c->to != 0;
    // The owner does not know its successor yet. Before the successor sent anything, all peers had
    // read that it owns the slot.
    if (same && body->subject.owner_term < c->owner_term) return;
    if (same && c->to != member && sim_check_member_live(s, c->to) && !c->refused && !commit_was_lost(s, c, &body->subject))
        sim_fail(s, "%s moves t=%llu m=%u stage %u from #%llu, a live member that did not refuse, to #%llu", s->node[node].name,
                 (unsigned long long)msg->iteration, body->subject.m, body->subject.stage, (unsigned long long)c->to, (unsigned long long)member);
    if (same && c->owner_term == body->subject.owner_term && body->rev < c->rev)
        sim_fail(s, "I9: the revision of t=%llu m=%u stage %u decreases from %u to %u", (unsigned long long)msg->iteration, body->subject.m,
                 body->subject.stage, c->rev, body->rev);
    bool keep = same && c->to == member && c->rev == body->rev;
    // an eviction report may cross the COMMIT on its way, and counts as a refusal
    bool refused = (keep && c->refused) || c->evicted == member;
    *c = (sim_commit){msg->iteration, body->subject.owner_term, member, body->rev, refused, c->evicted};
}

// A holder refuses the COMMIT, by DENY COMMIT or by EVICTED. The COMMIT may have been lost with its
// link.
static void note_refused_commit(sim_cluster *s, uint32_t node, const message *msg, sim_commit *c) {
    if (msg->iteration == c->iteration && c->to == s->node[node].view.member) c->refused = true;
}

static void check_deny_commit(sim_cluster *s, uint32_t node, const message *msg) {
    sim_commit *c = commit_at(s, &msg->u.deny_commit.subject);
    if (c && !sim_check_is_rolled_back(s, node)) note_refused_commit(s, node, msg, c);
}

static void check_evicted(sim_cluster *s, uint32_t node, const message *msg) {
    const message_subject *of = &msg->u.evicted.subject;
    sim_commit *c = commit_at(s, of);
    if (!c || sim_check_is_rolled_back(s, node)) return;
    c->evicted = s->node[node].view.member;
    const sim_watch *w = &s->checker.watch[node];
    if (w->kept_iteration == msg->iteration + 1 && bitset_has(w->kept.words, of->m))
        sim_fail(s, "I9: %s gives up m=%u, for which it has a COMMIT", s->node[node].name, of->m);
    note_refused_commit(s, node, msg, c);
}

static void check_counted(sim_cluster *s, uint32_t node, const message *msg) {
    const sim_watch *w = &s->checker.watch[node];
    const message_counted *body = &msg->u.counted;
    if (msg->iteration != s->checker.version || body->subject.m >= s->c->microbatches || sim_check_is_rolled_back(s, node)) return;
    if (w->sum_iteration != msg->iteration || !bitset_has(w->sum.words, body->subject.m))
        sim_fail(s, "%s says COUNTED for t=%llu m=%u, which is not in its sum", s->node[node].name, (unsigned long long)msg->iteration, body->subject.m);
}

// I5: the parts of an aggregation attempt cover the contribution set of CLOSE, each microbatch
// once.
static void check_begin(sim_cluster *s, uint32_t node, const message *msg) {
    const message_begin *body = &msg->u.begin;
    const log_close *close = &s->checker.close;
    bool older = msg->iteration < s->checker.version || (s->c->elastic && body->close_index < s->checker.close_index);
    // a deposed leader that does not know it yet
    if (s->node[node].view.term < s->leader_term && older) return;
    if (sim_check_is_rolled_back(s, node)) return;
    if (!s->checker.closed || body->close_index != s->checker.close_index || close->iteration != msg->iteration) {
        sim_fail(s, "%s begins a round of iteration %llu on CLOSE %llu, the newest is %llu of iteration %llu", s->node[node].name,
                 (unsigned long long)msg->iteration, (unsigned long long)body->close_index, (unsigned long long)s->checker.close_index, (unsigned long long)close->iteration);
        return;
    }
    message_set all = {{0}};
    for (uint32_t i = 0; i < body->parts; i++)
        for (uint32_t word = 0; word < WIRE_SET_WORDS; word++) {
            if (all.words[word] & body->part[i].set.words[word]) sim_fail(s, "I5: two parts of stage %u share a microbatch", body->stage);
            all.words[word] |= body->part[i].set.words[word];
        }
    if (memcmp(&all, &close->counted, sizeof all) != 0)
        sim_fail(s, "I5: the parts of stage %u hold %u microbatches, CLOSE counts %u", body->stage, bitset_count(all.words, WIRE_SET_WORDS),
                 bitset_count(close->counted.words, WIRE_SET_WORDS));
    if (body->tokens != close->tokens) sim_fail(s, "I5: a round divides by %llu tokens, CLOSE counts %llu", (unsigned long long)body->tokens, (unsigned long long)close->tokens);
}

static void check_reduced(sim_cluster *s, uint32_t node, const message *msg) {
    const message_reduced *body = &msg->u.reduced;
    sim_watch *w = &s->checker.watch[node];
    w->reduced = !sim_check_is_rolled_back(s, node);
    w->reduced_iteration = msg->iteration;
    if (msg->iteration >= s->c->iterations || body->stage >= s->c->stages) return;
    if (s->reference && !hash_equal(&body->root, sim_reference_result(s->reference, msg->iteration, body->stage)))
        sim_fail(s, "I6: the result of %s for iteration %llu is not that of the one-process run", s->node[node].name, (unsigned long long)msg->iteration);
}

// A part carries the hash of the set in the sum. The sum cannot have changed, because the part was
// packed in this step.
static void check_part(sim_cluster *s, uint32_t node, const message *msg) {
    const message_get *get = &msg->u.data.get;
    const sim_watch *w = &s->checker.watch[node];
    if (get->what != GET_PART) return;
    uint64_t digest = 0x6272616964;
    for (uint32_t i = 0; i < WIRE_SET_WORDS; i++) digest = rng_seed(digest, w->sum.words[i]);
    if (digest != get->set_digest) sim_fail(s, "%s sends a part of iteration %llu with the hash of another set", s->node[node].name, (unsigned long long)get->version);
}

static void check_state(sim_cluster *s, uint32_t node, const message *msg) {
    const message_state *body = &msg->u.state;
    if (!s->reference) return;
    if (body->version > s->c->iterations || body->stage >= s->c->stages ||
        !hash_equal(&body->state_root, sim_reference_state(s->reference, body->version, body->stage)))
        sim_fail(s, "I8: the state of %s at version %llu is not that of the one-process run", s->node[node].name, (unsigned long long)body->version);
}

static void check_settled(sim_cluster *s, uint32_t node, const message *msg) {
    const message_settled *body = &msg->u.settled;
    if (body->subject.m >= s->c->microbatches || msg->iteration >= s->c->iterations) return;
    if (s->reference && body->is_void != bitset_has(s->reference->iteration[msg->iteration].voided.words, body->subject.m))
        sim_fail(s, "%s settles t=%llu m=%u as %s", s->node[node].name, (unsigned long long)msg->iteration, body->subject.m, body->is_void ? "void" : "counted");
}

static void check_message_rate(sim_cluster *s, uint32_t node) {
    sim_watch *w = &s->checker.watch[node];
    // every joiner is announced to every peer
    uint64_t most = MAX_SENDS_PER_SECOND + (uint64_t)MAX_SENDS_PER_PAIR * s->nodes * s->nodes;
    if (++w->window_messages > most) sim_fail(s, "%s sends more than %llu messages in a second", s->node[node].name, (unsigned long long)most);
}

// Records the microbatches that wait for a slot of the next stage, from the messages sent since a
// receiver had room.
static void note_waiting(sim_checker *k, const message *msg) {
    const message_subject *of = msg->kind == MESSAGE_TRACE ? &msg->u.trace.subject : msg->kind == MESSAGE_DENY ? &msg->u.deny.subject : NULL;
    if (of == NULL || of->m >= WIRE_MAX_MICROBATCHES) return;
    if (k->waiting_iteration != msg->iteration + 1) k->waiting = (message_set){{0}};
    k->waiting_iteration = msg->iteration + 1;
    if (msg->kind == MESSAGE_TRACE && msg->u.trace.phase == TRACE_ACCEPTED) bitset_remove(k->waiting.words, of->m);
    bool no_next = msg->kind == MESSAGE_TRACE && msg->u.trace.phase == TRACE_FORWARD_DONE && msg->u.trace.next == 0;
    bool full = msg->kind == MESSAGE_DENY && msg->u.deny.phase == PHASE_FORWARD && msg->u.deny.reason == DENY_FULL;
    if (no_next || full) bitset_add(k->waiting.words, of->m);
}

static bool is_waiting(const sim_checker *k, const message *msg, uint32_t m) {
    return k->waiting_iteration == msg->iteration + 1 && m < WIRE_MAX_MICROBATCHES && bitset_has(k->waiting.words, m);
}

// Without deaths and broken links nothing is sent twice. Only a microbatch that waits for a slot
// may be probed, because two waiting microbatches can block each other.
static void check_no_repairs(sim_cluster *s, uint32_t node, const message *msg) {
    note_waiting(&s->checker, msg);
    bool looks = msg->kind == MESSAGE_PROBE && !is_waiting(&s->checker, msg, msg->u.probe.subject.m);
    bool repairs = looks || msg->kind == MESSAGE_RESUME || msg->kind == MESSAGE_SUSPECT;
    if (repairs && sim_case_is_faultless(s->c)) sim_fail(s, "%s sends %s in a run without faults", s->node[node].name, message_kind_name(msg->kind));
}

// A standby uses a quarter of its line. In a run without faults it has one GET under way, so the
// time until DATA is its use of the line.
static void check_line_share(sim_cluster *s, uint32_t node) {
    sim_watch *w = &s->checker.watch[node];
    if (!sim_case_is_faultless(s->c) || !s->node[node].view.standby) return;
    if (w->first_get_ns == 0) w->first_get_ns = s->now;
    if (s->now - w->first_get_ns < 4 * w->line_ns)
        sim_fail(s, "%s is a shadow, and has used %.1f of %.1f ms of its line", s->node[node].name, (double)w->line_ns / 1e6, (double)(s->now - w->first_get_ns) / 1e6);
    w->get_ns = s->now;
}

void sim_check_send(sim_cluster *s, uint32_t node, const braid_id *to, const message *msg) {
    check_message_rate(s, node);
    check_no_repairs(s, node, msg);
    s->checker.watch[node].answered |= msg->kind == MESSAGE_COUNTED || msg->kind == MESSAGE_DENY_COMMIT;
    switch (msg->kind) {
    case MESSAGE_COMMIT: check_commit(s, node, to, msg); break;
    case MESSAGE_DENY_COMMIT: check_deny_commit(s, node, msg); break;
    case MESSAGE_EVICTED: check_evicted(s, node, msg); break;
    case MESSAGE_COUNTED: check_counted(s, node, msg); break;
    case MESSAGE_BEGIN_AGGREGATION: check_begin(s, node, msg); break;
    case MESSAGE_REDUCED: check_reduced(s, node, msg); break;
    case MESSAGE_STATE: check_state(s, node, msg); break;
    case MESSAGE_DATA: check_part(s, node, msg); break;
    case MESSAGE_GET: check_line_share(s, node); break;
    case MESSAGE_SETTLED: check_settled(s, node, msg); break;
    case MESSAGE_ROUTE: sim_check_route_sent(s, msg); break;
    default: break;
    }
}

void sim_check_kept(sim_cluster *s, uint32_t node, const message *msg) {
    const sim_node *n = &s->node[node];
    const message_commit *body = &msg->u.commit;
    message_holdings holds;
    bool meant = body->subject.stage == n->view.stage && body->path.member[body->subject.stage] == n->view.member && msg->iteration == n->view.iteration;
    if (!n->alive || n->config.kind != MEMBER_RELAY || !n->view.ready || !meant || msg->log_position < s->checker.fence || s->checker.watch[node].answered || !sim_check_member_live(s, msg->sender)) return;
    peer_holdings(n->peer, 0, &holds);
    if (!bitset_has(holds.committed.words, body->subject.m)) sim_fail(s, "%s neither keeps nor refuses a COMMIT of m=%u", n->name, body->subject.m);
    sim_watch *w = &s->checker.watch[node];
    if (w->kept_iteration != msg->iteration + 1) w->kept = (message_set){{0}};
    w->kept_iteration = msg->iteration + 1;
    bitset_add(w->kept.words, body->subject.m);
}

// A member that has read a newer OWNER entry of a slot must not obey the older owner.
static bool has_newer_owner(const sim_cluster *s, uint32_t node, const message_subject *subject) {
    const sim_checker *k = &s->checker;
    for (uint32_t i = 0; i < k->owners && i < SIM_MAX_OWNERS; i++) {
        const sim_owner *o = &k->owner[i];
        if (o->slot == subject->m % s->c->slots && o->index > subject->owner_term && o->index <= s->node[node].view.log_position) return true;
    }
    return false;
}

void sim_check_arrival(sim_cluster *s, uint32_t node, const message *msg) {
    sim_watch *w = &s->checker.watch[node];
    if (msg->kind == MESSAGE_DATA && w->get_ns != 0) w->line_ns += s->now - w->get_ns;
    if (msg->kind == MESSAGE_FORWARD) {
        sim_commit *c = commit_at(s, &msg->u.forward.subject);
        if (c && c->evicted == s->node[node].view.member) c->evicted = 0;
        if (msg->u.forward.subject.m < WIRE_MAX_MICROBATCHES) bitset_remove(w->kept.words, msg->u.forward.subject.m);
    }
    w->answered = false;
    if (msg->kind != MESSAGE_COMMIT || has_newer_owner(s, node, &msg->u.commit.subject)) return;
    if (msg->log_position < s->checker.fence && !sim_check_is_rolled_back(s, node)) return;
    if (msg->iteration < w->committed_iteration) return;  // too late to matter
    if (w->committed_iteration != msg->iteration) w->committed = (message_set){{0}};
    w->committed_iteration = msg->iteration;
    if (msg->u.commit.subject.m < WIRE_MAX_MICROBATCHES) bitset_add(w->committed.words, msg->u.commit.subject.m);
}
