// I10: until FINAL(t) the swarm can repeat any (m, stage): an owner has m's tokens, and every stage
// has version t. Faults may destroy that state together with the peers that die or pause. But a
// living peer never discards the last copy, and the log never removes its only holder.
#include "sim/inside.h"

static const uint32_t NOBODY = UINT32_MAX;
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

static bool suffices(const sim_checker *k, const sim_reach *had) { return had->versions > needed_version(k) && had->generation == k->generation; }

// True if the newest version is the start of the run or the target of a rollback. It is made from
// the seed, or is on the disk of a process that lives or restarts.
static bool is_at_start(const sim_cluster *s) {
    const sim_checker *k = &s->checker;
    if (k->version != k->start_version) return false;
    if (k->version == 0) return true;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        bool reads = k->generation == 1 && n->config.leader;
        for (uint32_t kept = 0; kept < SIM_KEPT; kept++) reads |= n->kept[kept].block && n->kept[kept].version == k->version;
        if (reads && (n->alive || n->returns)) return true;
    }
    return false;
}

// True if the worker has the whole state, or all that makes it, even without a membership. The peer
// will be admitted for that state.
static bool lies_at(const sim_cluster *s, uint32_t node, uint16_t index) {
    const sim_node *n = &s->node[node];
    if (!n->worker || n->worker->stage != index || s->checker.watch[node].generation != s->checker.generation) return false;
    uint64_t version = sim_check_lies(s, node);
    bool makes = version != UINT64_MAX && n->view.left == version + 1;
    return version != UINT64_MAX && version + makes >= needed_version(&s->checker);
}

static bool stays(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    return n->alive && !n->exited && (!n->asked_to_leave || n->view.stands_again || sim_check_member_live(s, n->view.member));
}

// True if a complete checkpoint of the newest version is on the disk of a process that lives or
// restarts.
static bool is_saved(const sim_cluster *s) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        for (uint32_t kept = 0; kept < SIM_KEPT && (n->alive || n->returns); kept++)
            if (n->kept[kept].block && n->kept[kept].version == s->checker.version) return true;
    }
    return false;
}

// True if another peer has the state, as far as the log can know: a dead member counts until its
// removal.
static bool somebody_has(const sim_cluster *s, uint16_t index, uint32_t but) {
    const sim_checker *k = &s->checker;
    member_id not = but == NOBODY ? 0 : s->node[but].view.member;
    for (uint32_t i = 0; i < k->members; i++) {
        const sim_log_member *m = &k->member[i];
        if (!m->expelled && m->member != not && m->entry.stage == index && suffices(k, &m->reach)) return true;
    }
    for (uint32_t i = 0; i < s->nodes; i++)
        if (i != but && stays(s, i) && lies_at(s, i, index)) return true;
    return is_at_start(s);
}

static void needed_fail(sim_cluster *s, const char *who, const char *what, uint16_t index) {
    sim_fail(s, "I10: %s %s, and nobody else has version %llu of stage %u", who, what, (unsigned long long)s->checker.version, index);
}

static sim_log_member *record_of(sim_checker *k, member_id member) {
    for (uint32_t i = k->members; member != 0 && i-- > 0;)
        if (k->member[i].member == member) return &k->member[i];
    return NULL;
}

// The state that a peer claims must be there: all blocks at that version, or at the one before
// if the claim includes the results of an iteration.
static void check_word(sim_cluster *s, uint32_t node, const sim_reach *says) {
    const sim_watch *w = &s->checker.watch[node];
    for (uint32_t b = 0; b < s->model->blocks[says->stage]; b++) {
        uint64_t version = w->block_version[b] == UINT64_MAX ? w->left : w->block_version[b];
        if (version + 1 != says->versions && version + 2 != says->versions)
            sim_fail(s, "I10: %s says that it has version %llu of stage %u, and block %u is at %lld", s->node[node].name,
                     (unsigned long long)says->versions - 1, says->stage, b, (long long)version);
    }
}

static bool reach_same(const sim_reach *a, const sim_reach *b) {
    return a->member == b->member && a->generation == b->generation && a->versions == b->versions;
}

static sim_reach reach_of(const sim_node *n) {
    const peer_view *v = &n->view;
    bool says = v->member != 0 && v->whole && !n->exited;
    return (sim_reach){.member = v->member, .generation = v->generation, .versions = says ? v->reaches + 1 : 0, .stage = v->stage};
}

void sim_check_needed(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    sim_checker *k = &s->checker;
    sim_watch *w = &k->watch[node];
    const sim_reach now = reach_of(n), before = w->reach;
    if (n->exited) sim_check_given_up(s, node);
    if (reach_same(&now, &before)) return;
    w->reach = now;
    if (before.versions == 0 || before.member != now.member || before.generation != now.generation) w->reached_ns = s->now;
    if (now.versions > before.versions) check_word(s, node, &now);
    sim_log_member *was = record_of(k, before.member), *is = record_of(k, now.member);
    bool counted = was && !was->expelled && is_needed(k) && suffices(k, &before);
    if (was) was->reach.versions = 0;
    if (is) is->reach = now;
    if (counted && !somebody_has(s, before.stage, NOBODY)) needed_fail(s, n->name, "gives up its state", before.stage);
}

void sim_check_given_up(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    bool goes = n->asked_to_leave && !sim_check_member_live(s, n->view.member);  // that was said when it was expelled
    if (!is_needed(&s->checker) || !n->worker || goes || !lies_at(s, node, n->worker->stage)) return;
    if (!somebody_has(s, n->worker->stage, node)) needed_fail(s, n->name, "drops its state", n->worker->stage);
}

// ---- entries of the log

static uint32_t process_of(const sim_cluster *s, const log_member *entry) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->node[i].alive && !s->node[i].exited && s->node[i].config.random_seed == entry->incarnation) return i;
    return NOBODY;
}

static bool another_owner(const sim_checker *k) {
    for (uint32_t i = 0; i < k->members; i++)
        if (!k->member[i].expelled && k->member[i].entry.kind == MEMBER_DATA) return true;
    return false;
}

void sim_check_expelled(sim_cluster *s, const sim_log_member *gone) {
    const sim_checker *k = &s->checker;
    uint32_t node = process_of(s, &gone->entry);
    if (!is_needed(k) || node == NOBODY) return;
    const char *name = s->node[node].name;
    // the only holder of a stage's state may leave then: the run repeats no completed iteration
    bool may_go = s->node[node].asked_to_leave && is_saved(s);
    if (suffices(k, &gone->reach) && !may_go && !somebody_has(s, gone->entry.stage, NOBODY)) needed_fail(s, name, "is expelled", gone->entry.stage);
    bool waits = s->run.shares > 0;  // private data wait for their owner
    if (gone->entry.kind == MEMBER_DATA && !waits && !another_owner(k)) sim_fail(s, "I10: %s is expelled, and nobody else has the tokens", name);
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
void sim_check_made(sim_cluster *s) {
    const sim_checker *k = &s->checker;
    for (uint16_t index = 0; index < s->c->stages && is_needed(k); index++)
        if (!somebody_has(s, index, NOBODY))
            sim_fail(s, "I10: FINAL makes version %llu, and nobody of stage %u has what it is made of", (unsigned long long)k->version, index);
}

// True if nothing has delayed the peer's messages for long enough.
static bool is_undisturbed(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    uint64_t since = n->paused_until_ns;
    if (since < n->sends_cut_until_ns) since = n->sends_cut_until_ns;
    if (since < n->hears_cut_until_ns) since = n->hears_cut_until_ns;
    if (since < s->parted.over_ns) since = s->parted.over_ns;
    return since == 0 || s->now >= since + KNOWN_NS;
}

// A leader decides on a rollback only if no holder of the state is known to it. The entry may
// commit long after that decision.
void sim_check_appended(sim_cluster *s, uint32_t node, const log_entry *entry) {
    const sim_checker *k = &s->checker;
    const log_run *run = &entry->u.run;
    bool goes_back = entry->kind == LOG_RUN && run->generation > 1 && node == sim_leader(s);
    if (!goes_back || !s->link || !is_undisturbed(s, node)) return;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        const sim_log_member *m = n->alive ? record_of(&s->checker, n->view.member) : NULL;
        bool has = m && !m->expelled && m->entry.stage == run->lost && suffices(k, &m->reach);
        if (has && is_undisturbed(s, i) && s->now >= s->checker.watch[i].reached_ns + KNOWN_NS)
            sim_fail(s, "I10: the run goes back to version %llu for the sake of stage %u, of which %s has version %llu",
                     (unsigned long long)run->start_version, run->lost, n->name, (unsigned long long)k->version);
    }
}
