// I10: until FINAL(t) the swarm can repeat any (m, stage): an owner has m's tokens, and every stage
// has version t. Faults may destroy that state together with the peers that die or pause. But a
// living peer never discards the last copy, and the log never removes its only holder.
#include "sim/inside.h"

static const uint32_t NO_NODE = UINT32_MAX;
// after this time the state of a reachable peer is known to the others
static const uint64_t KNOWN_NS = 5000000000u;

// The version from which on a stage's state is needed. After a FINAL with skip the version before
// it is the same state.
static uint64_t needed_version(const sim_checker *k) {
    bool skipped = k->has_final && k->final.skip && k->final.iteration + 1 == k->version;
    return k->version - skipped;
}

// After the last iteration nothing is repeated. A peer that finds no others to write the last
// checkpoint exits.
static bool is_needed(const sim_checker *k) { return k->started && !k->finished; }

static bool is_recent(const sim_checker *k, const sim_reach *had) { return had->versions > needed_version(k) && had->generation == k->generation; }

// True if the newest version is the start of the run or the target of a rollback. It is made from
// the seed, or is on the disk of a process that lives or restarts.
static bool is_at_start(const sim_cluster *s) {
    const sim_checker *k = &s->checker;
    if (k->version != k->start_version) return false;
    if (k->version == 0) return true;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        bool reads = k->generation == 1 && n->config.leader;
        for (uint32_t kept = 0; kept < SIM_MAX_CHECKPOINTS; kept++) reads |= n->kept[kept].block && n->kept[kept].version == k->version;
        if (reads && (n->alive || n->returns)) return true;
    }
    return false;
}

// True if the worker has the whole state, or all that makes it, even without a membership. The peer
// will be admitted for that state.
static bool worker_has_state(const sim_cluster *s, uint32_t node, uint16_t index) {
    const sim_node *n = &s->node[node];
    if (!n->worker || n->worker->stage != index || s->checker.watch[node].generation != s->checker.generation) return false;
    uint64_t version = sim_check_kept_version(s, node);
    bool makes = version != UINT64_MAX && n->view.leaving.left == version + 1;
    return version != UINT64_MAX && version + makes >= needed_version(&s->checker);
}

static bool remains(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    return n->alive && !n->exited && (!n->asked_to_leave || n->view.leaving.stands_again || sim_check_member_live(s, n->view.member));
}

// True if a complete checkpoint of the newest version is on the disk of a process that lives or
// restarts.
static bool is_saved(const sim_cluster *s) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        for (uint32_t kept = 0; kept < SIM_MAX_CHECKPOINTS && (n->alive || n->returns); kept++)
            if (n->kept[kept].block && n->kept[kept].version == s->checker.version) return true;
    }
    return false;
}

// True if another peer has the state, as far as the log can know: a dead member counts until its
// removal.
static bool some_copy_exists(const sim_cluster *s, uint16_t index, uint32_t but) {
    const sim_checker *k = &s->checker;
    member_id not = but == NO_NODE ? 0 : s->node[but].view.member;
    for (uint32_t i = 0; i < k->members; i++) {
        const sim_log_member *m = &k->member[i];
        if (!m->expelled && m->member != not && m->entry.stage == index && is_recent(k, &m->reach)) return true;
    }
    for (uint32_t i = 0; i < s->nodes; i++)
        if (i != but && remains(s, i) && worker_has_state(s, i, index)) return true;
    return is_at_start(s);
}

static void needed_fail(sim_cluster *s, const char *name, const char *what, uint16_t index) {
    sim_fail(s, "I10: %s %s, and no other peer has version %llu of stage %u", name, what, (unsigned long long)s->checker.version, index);
}

static sim_log_member *record_of(sim_checker *k, member_id member) {
    for (uint32_t i = k->members; member != 0 && i-- > 0;)
        if (k->member[i].member == member) return &k->member[i];
    return NULL;
}

// The state that a peer claims must be there: all blocks at that version, or at the one before
// if the claim includes the results of an iteration.
static void check_claim(sim_cluster *s, uint32_t node, const sim_reach *claim) {
    const sim_watch *w = &s->checker.watch[node];
    for (uint32_t b = 0; b < s->model->blocks[claim->stage]; b++) {
        uint64_t version = w->block_version[b] == UINT64_MAX ? w->left : w->block_version[b];
        if (version + 1 != claim->versions && version + 2 != claim->versions)
            sim_fail(s, "I10: %s says that it has version %llu of stage %u, and block %u is at %lld", s->node[node].name,
                     (unsigned long long)claim->versions - 1, claim->stage, b, (long long)version);
    }
}

static bool reach_same(const sim_reach *a, const sim_reach *b) {
    return a->member == b->member && a->generation == b->generation && a->versions == b->versions;
}

static sim_reach reach_of(const sim_node *n) {
    const peer_view *v = &n->view;
    bool claim = v->member != 0 && v->whole && !n->exited;
    return (sim_reach){.member = v->member, .generation = v->generation, .versions = claim ? v->reaches + 1 : 0, .stage = v->stage};
}

void sim_check_needed(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    sim_checker *k = &s->checker;
    sim_watch *w = &k->watch[node];
    const sim_reach now = reach_of(n), before = w->reach;
    if (n->exited) sim_check_discarded(s, node);
    if (reach_same(&now, &before)) return;
    w->reach = now;
    if (before.versions == 0 || before.member != now.member || before.generation != now.generation) w->reached_ns = s->now;
    if (now.versions > before.versions) check_claim(s, node, &now);
    sim_log_member *was = record_of(k, before.member), *is = record_of(k, now.member);
    bool counted = was && !was->expelled && is_needed(k) && is_recent(k, &before);
    if (was) was->reach.versions = 0;
    if (is) is->reach = now;
    if (counted && !some_copy_exists(s, before.stage, NO_NODE)) needed_fail(s, n->name, "discards its state", before.stage);
}

void sim_check_discarded(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    bool goes = n->asked_to_leave && !sim_check_member_live(s, n->view.member);  // that was said when it was expelled
    if (!is_needed(&s->checker) || !n->worker || goes || !worker_has_state(s, node, n->worker->stage)) return;
    if (!some_copy_exists(s, n->worker->stage, node)) needed_fail(s, n->name, "discards its worker's state", n->worker->stage);
}

// ---- entries of the log

static uint32_t process_of(const sim_cluster *s, const log_member *entry) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->node[i].alive && !s->node[i].exited && s->node[i].config.random_seed == entry->incarnation) return i;
    return NO_NODE;
}

static bool any_owner_is_left(const sim_checker *k) {
    for (uint32_t i = 0; i < k->members; i++)
        if (!k->member[i].expelled && k->member[i].entry.kind == MEMBER_DATA) return true;
    return false;
}

void sim_check_expelled(sim_cluster *s, const sim_log_member *gone) {
    const sim_checker *k = &s->checker;
    uint32_t node = process_of(s, &gone->entry);
    if (!is_needed(k) || node == NO_NODE) return;
    const char *name = s->node[node].name;
    // the only holder of a stage's state may leave then: the run repeats no completed iteration
    bool may_go = s->node[node].asked_to_leave && is_saved(s);
    if (is_recent(k, &gone->reach) && !may_go && !some_copy_exists(s, gone->entry.stage, NO_NODE)) needed_fail(s, name, "is removed", gone->entry.stage);
    bool is_waiting = s->run.shares > 0;  // private data wait for their owner
    if (gone->entry.kind == MEMBER_DATA && !is_waiting && !any_owner_is_left(k)) sim_fail(s, "I10: %s is removed, and no other peer has the tokens", name);
}

void sim_check_owner(sim_cluster *s, const log_owner *entry) {
    const sim_log_member *owner = record_of(&s->checker, entry->member);
    bool has = owner && !owner->expelled && owner->entry.kind == MEMBER_DATA;
    if (has && s->run.shares > 0) has = id_equal(&owner->entry.peer, &s->checker.share[entry->slot % s->run.shares]);
    if (s->checker.started && !has)
        sim_fail(s, "I10: slot %u is given to member #%llu, which does not have its tokens", entry->slot, (unsigned long long)entry->member);
}

// FINAL is committed when each stage has all that the next version needs. A reporter may be dead,
// as long as its death is not known.
void sim_check_version_made(sim_cluster *s) {
    const sim_checker *k = &s->checker;
    for (uint16_t index = 0; index < s->c->stages && is_needed(k); index++)
        if (!some_copy_exists(s, index, NO_NODE))
            sim_fail(s, "I10: FINAL makes version %llu, and no member of stage %u has all that it needs", (unsigned long long)k->version, index);
}

// True if nothing has delayed the peer's messages for long enough.
static bool is_reachable(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    uint64_t since = n->paused_until_ns;
    if (since < n->sends_cut_until_ns) since = n->sends_cut_until_ns;
    if (since < n->receives_cut_until_ns) since = n->receives_cut_until_ns;
    if (since < s->partition.over_ns) since = s->partition.over_ns;
    return since == 0 || s->now >= since + KNOWN_NS;
}

// A leader decides on a rollback only if no holder of the state is known to it. The entry may
// commit long after that decision.
void sim_check_appended(sim_cluster *s, uint32_t node, const log_entry *entry) {
    const sim_checker *k = &s->checker;
    const log_run *run = &entry->u.run;
    sim_check_move_appended(s, node, entry);
    bool goes_back = entry->kind == LOG_RUN && run->generation > 1 && node == sim_leader(s);
    if (!goes_back || !s->link || !is_reachable(s, node)) return;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        const sim_log_member *m = n->alive ? record_of(&s->checker, n->view.member) : NULL;
        bool has = m && !m->expelled && m->entry.stage == run->lost && is_recent(k, &m->reach);
        if (has && is_reachable(s, i) && s->now >= s->checker.watch[i].reached_ns + KNOWN_NS)
            sim_fail(s, "I10: the run rolls back to version %llu because of stage %u, though %s has version %llu",
                     (unsigned long long)run->start_version, run->lost, n->name, (unsigned long long)k->version);
    }
}
