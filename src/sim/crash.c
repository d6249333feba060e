// Chooses the victims of crashes. Relays die, and where the case allows it data peers. A peer dies
// only while another live member or standby of its stage will hold the state that the run needs
// (docs/protocol.md, Known limits).
#include "sim/inside.h"

static const uint64_t SECOND = 1000000000;
static const uint64_t KNOWN_NS = 3000000000u;  // after this time the leader knows that a new member is ready

// True if another member of the victim's stage, alive or dead, reported a finished reduction of the
// current iteration.
static bool reduced_elsewhere(const sim_cluster *s, uint32_t victim) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_watch *w = &s->checker.watch[i];
        if (i != victim && s->node[i].view.stage == s->node[victim].view.stage && w->reduced && w->reduced_iteration == s->checker.version) return true;
    }
    return false;
}

static bool works_for(const sim_cluster *s, uint32_t node, uint16_t index);

// True if the standby's machine works for the same stage, so that the standby must move to another
// one.
static bool must_move(const sim_cluster *s, uint32_t node, uint16_t index) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (id_equal(&s->node[i].id, &s->node[node].config.host) && works_for(s, i, index)) return true;
    return false;
}

// True if the standby can do its stage's work at the newest version when no other member answers
// any more.
static bool standby_can_work(const sim_cluster *s, uint32_t node, uint16_t index) {
    const sim_node *n = &s->node[node];
    if (n->asked_to_leave || n->paused_until_ns > s->now || n->sends_cut_until_ns > s->now || n->receives_cut_until_ns > s->now) return false;
    if (!n->alive || !n->view.standby || n->view.stage != index || !sim_check_member_live(s, n->view.member)) return false;
    // promoted, but has not read that entry yet
    if (!sim_check_is_shadow(s, n->view.member)) return false;
    if (must_move(s, node, index)) return false;
    bool decided = false;  // true or possible: FINAL rests on their reports
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_watch *w = &s->checker.watch[i];
        decided = decided || (s->node[i].view.stage == index && !s->node[i].view.standby && w->reduced && w->reduced_iteration == s->checker.version);
    }
    return n->view.whole && n->view.reaches >= s->checker.version + decided;
}

static bool can_replace(const sim_cluster *s, uint32_t victim, uint32_t other) {
    const sim_node *n = &s->node[other];
    const sim_watch *w = &s->checker.watch[other];
    if (sim_trouble_cut_until(s, other, sim_leader(s)) || sim_trouble_cut_until(s, sim_leader(s), other)) return false;
    if (other != victim && n->view.standby) return standby_can_work(s, other, s->node[victim].view.stage);
    if (n->asked_to_leave || n->paused_until_ns > s->now || n->sends_cut_until_ns > s->now || n->receives_cut_until_ns > s->now) return false;
    if (other == victim || !n->alive || n->view.stage != s->node[victim].view.stage || !sim_check_member_live(s, n->view.member)) return false;
    if (!n->view.ready || n->view.version != s->checker.version) return false;
    const sim_watch *dying = &s->checker.watch[victim];
    bool reduced = w->reduced && w->reduced_iteration == s->checker.version;
    if (reduced) return true;
    // FINAL may rest on two reports; the victim's must not be the only other one
    if (reduced_elsewhere(s, victim)) return false;
    bool victim_reduced = dying->reduced && dying->reduced_iteration == s->checker.version;
    // the leader was not paused and has received the report
    bool heard = s->node[sim_leader(s)].paused_until_ns + KNOWN_NS < s->now;
    return !victim_reduced || (heard && s->now - w->ready_since_ns > KNOWN_NS);
}

// The victim's newest membership in the log, which the victim itself may not have read yet.
static const sim_log_member *membership(const sim_cluster *s, uint32_t node) {
    for (uint32_t i = s->checker.members; i-- > 0;) {
        const sim_log_member *m = &s->checker.member[i];
        if (!m->expelled && id_equal(&m->entry.peer, &s->node[node].id)) return m;
    }
    return NULL;
}

static bool has_state_of(const sim_cluster *s, uint32_t node, uint16_t index) {
    const sim_log_member *m = s->node[node].alive ? membership(s, node) : NULL;
    return m && m->entry.stage == index;
}

// True if the process is dead and will restart with its durable log.
static bool will_restart(const sim_cluster *s, uint32_t node) {
    if (s->node[node].alive || !s->node[node].returns) return false;
    for (uint32_t i = node + 1; i < s->nodes; i++)
        if (id_equal(&s->node[i].id, &s->node[node].id)) return false;  // it has restarted already
    return true;
}

static bool is_voter(const sim_node *n, const log_voter *v) { return n->config.store == v->store && id_equal(&n->id, &v->id); }

// True if the voter is available without `victim` and, unless `of` is WIRE_MAX_STAGES, without all
// members of stage `of`.
static bool is_available_without(const sim_cluster *s, const log_voter *v, uint32_t victim, uint16_t of) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        bool there = will_restart(s, i) || (n->alive && !has_state_of(s, i, of) && n->paused_until_ns <= s->now);
        if (i != victim && there && n->view.voters > 0 && is_voter(n, v)) return true;
    }
    return false;
}

// A sole voter adds several voters at once. It may add dead ones, because it cannot know yet that
// more than one is dead.
static bool may_add_dead_voter(const sim_cluster *s, uint32_t voter, uint32_t victim) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (i != victim && !s->node[i].alive && s->link[voter][i].up && s->link[voter][victim].up) return true;
    return false;
}

// True if the node's durable log holds all committed entries and every record is on stable storage.
// The log of a sole voter may be lost before the others have these entries and vote.
static bool log_is_complete(const sim_cluster *s, uint32_t node) {
    const sim_disk *d = &s->node[node].disk;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->node[i].view.log_position > s->node[node].view.log_position) return false;
    return d->durable == d->records;
}

// True if some voter has a complete durable log. When all voters die at once and restart with their
// logs, they elect such a voter.
static bool some_voter_has_full_log(const sim_cluster *s) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        if (!(n->alive || will_restart(s, i)) || n->view.voters == 0 || !log_is_complete(s, i)) continue;
        const log_voters *voters = peer_voters(n->peer);
        for (uint32_t k = 0; k < voters->count; k++)
            if (is_voter(n, &voters->voter[k])) return true;
    }
    return false;
}

// True if enough voters stay to decide on membership, by every peer's view of the configuration.
static bool quorum_without(const sim_cluster *s, uint32_t victim, uint16_t of) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (!(s->node[i].alive || will_restart(s, i)) || s->node[i].view.voters == 0) continue;
        const log_voters *voters = peer_voters(s->node[i].peer);
        uint32_t here = 0;
        if (voters->count == 1 && s->c->voters > 1 && may_add_dead_voter(s, i, victim)) return false;
        for (uint32_t k = 0; k < voters->count; k++) here += is_available_without(s, &voters->voter[k], victim, of);
        // of several victims one may be elected before it is known to be dead
        uint32_t count = voters->count;
        count += of < WIRE_MAX_STAGES && s->c->voters > 1;
        if (here < count / 2u + 1) return false;
    }
    return true;
}

static bool has_newest_state(const sim_cluster *s, uint32_t node, uint16_t index) {
    const sim_node *n = &s->node[node];
    if (!n->alive || !n->worker || n->worker->stage != index) return false;
    for (uint32_t b = 0; b < s->model->blocks[index]; b++)
        if (s->checker.watch[node].block_version[b] != s->checker.version) return false;
    return true;
}

// True unless the victim is the only holder of its stage's state. After a removal it may be
// admitted again with that state.
static bool state_is_elsewhere(const sim_cluster *s, uint32_t victim) {
    if (!s->node[victim].worker || !has_newest_state(s, victim, s->node[victim].worker->stage)) return true;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (i != victim && has_newest_state(s, i, s->node[victim].worker->stage)) return true;
    return false;
}

// True if every stage has a member that fetched its state. Until then only the first leader holds
// the checkpoint that the run resumes.
static bool all_fetched(const sim_cluster *s) {
    uint32_t stages = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        if (n->alive && n->view.ready && !n->config.leader && sim_check_member_live(s, n->view.member)) stages |= 1u << n->view.stage;
    }
    return stages == (1u << s->c->stages) - 1;
}

static bool may_die(const sim_cluster *s, uint32_t victim) {
    const sim_node *n = &s->node[victim];
    if (!n->alive || (n->config.kind == MEMBER_DATA && !s->c->data_deaths)) return false;
    bool leads = s->c->leader_deaths ? n->view.leads : n->config.leader;
    if (leads && (!s->c->leader_deaths || !s->checker.started)) return false;
    if (s->c->voters > 1 && !quorum_without(s, victim, WIRE_MAX_STAGES)) return false;
    if (n->config.leader && s->c->start_version > 0 && s->checker.version == s->c->start_version && !all_fetched(s)) return false;
    const sim_log_member *member_of_log = membership(s, victim);
    if (!member_of_log && s->checker.started) return state_is_elsewhere(s, victim);
    if (!s->checker.started) return true;
    if (n->view.member != member_of_log->member) return false;  // between two incarnations
    for (uint32_t i = 0; i < s->nodes; i++)
        if (can_replace(s, victim, i)) return true;
    return false;
}

bool sim_crash_allowed(const sim_cluster *s, uint32_t node) { return may_die(s, node); }

static bool works_for(const sim_cluster *s, uint32_t node, uint16_t index) {
    const sim_log_member *m = s->node[node].alive ? membership(s, node) : NULL;
    return m && !m->shadow && m->entry.stage == index;
}

static bool stage_may_be_lost(const sim_cluster *s, uint32_t victim) {
    uint16_t index = s->node[victim].view.stage;
    if (!works_for(s, victim, index) || !s->checker.started || s->checker.drained || s->checker.saved_last || (index == 0 && (s->c->voters <= 1 || !s->c->leader_deaths))) return false;
    return index == 0 ? some_voter_has_full_log(s) : quorum_without(s, victim, index);
}

static bool stage_may_die(const sim_cluster *s, uint32_t victim) {
    uint16_t index = s->node[victim].view.stage;
    if (index == 0 || !works_for(s, victim, index) || (s->c->voters > 1 && !quorum_without(s, victim, index))) return false;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (standby_can_work(s, i, index)) return true;
    return false;
}

static void restart_plan(sim_cluster *s, uint32_t victim, const sim_crash *crash) {
    sim_item *item = sim_item_new(ITEM_START, victim, 0);
    bool as_itself = crash->same_id || s->node[victim].returns;
    item->connection = as_itself;
    item->kind_of_member = s->node[victim].config.kind;
    item->id = s->node[victim].id;
    item->from = as_itself && (crash->keeps_store || s->node[victim].returns) ? victim : SIM_MAX_NODES;
    sim_item_put(s, s->now + crash->restart_ns, item);
}

static bool loses_stages(const sim_case *c) {
    for (uint32_t i = 0; i < c->crashes; i++)
        if (c->crash[i].lost) return true;
    return false;
}

static bool restarted_at_its_address(const sim_cluster *s, uint32_t node) {
    for (uint32_t i = 0; i < node; i++)
        if (s->node[i].returns && id_equal(&s->node[i].id, &s->node[node].id)) return true;
    return false;
}

// True if a stage has no live worker. Its member may have died as the run began, and the new
// incarnation is no member yet.
static bool some_stage_is_empty(const sim_cluster *s) {
    uint32_t stages = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_log_member *m = s->node[i].alive ? membership(s, i) : NULL;
        if (m && !m->shadow && m->entry.incarnation == s->node[i].config.random_seed) stages |= 1u << m->entry.stage;
    }
    return s->checker.started && stages != (1u << s->c->stages) - 1;
}

// True if this incarnation is a member by the log, though it may be reading the log anew. It knows
// other peers then.
static bool is_admitted(const sim_cluster *s, uint32_t node) {
    const sim_log_member *m = membership(s, node);
    return m && m->entry.incarnation == s->node[node].config.random_seed;
}

// Restarts peers that wait for an admission when the only peer that they know has died or left:
// their user names another contact. This holds for owners of private data, for relays of a stage
// that may be empty, and for voters.
static void restart_unconnected(sim_cluster *s, uint32_t victim) {
    static const sim_crash again = {.same_id = true, .keeps_store = true, .restart_ns = 1000000000};
    bool relays = loses_stages(s->c) || some_stage_is_empty(s);
    for (uint32_t i = 0; i < s->nodes; i++) {
        sim_node *n = &s->node[i];
        bool awaited = n->config.kind == MEMBER_DATA ? s->c->private_data : relays;
        awaited |= s->c->leader_deaths && n->view.voters > 1;
        bool orphan = n->alive && awaited && n->view.member == 0 && !is_admitted(s, i) && id_equal(&n->config.leader_id, &s->node[victim].id);
        if (!orphan || i == victim) continue;
        n->alive = false;
        n->returns = restarted_at_its_address(s, i);
        sim_disk_crash(s, i);
        sim_link_die(s, i, false, false);
        restart_plan(s, i, &again);
        restart_unconnected(s, i);  // it may be the only contact of another peer
    }
}

// True if the last FINAL is committed but all peers that could write the last checkpoint were away
// past every timeout. Restarted peers find no others, until the users of the departed ones start
// them again.
static bool last_checkpoint_is_missing(const sim_cluster *s) {
    return s->checker.finished && !s->checker.saved_last && s->leader_exit_ns == 0;
}

// True if too few relays remain to fill every stage after a stage is lost.
static bool too_few_relays(const sim_cluster *s, uint32_t but) {
    if (s->node[but].config.kind != MEMBER_RELAY || !loses_stages(s->c)) return false;
    uint32_t others = 0;
    for (uint32_t i = 0; i < s->nodes; i++) others += i != but && s->node[i].alive && !s->node[i].asked_to_leave && s->node[i].config.kind == MEMBER_RELAY;
    return others + 1u < s->c->stages;
}

// True if another data peer stays or restarts in an elastic run: no user can replace
// private data. can_replace prevents that all die for good.
bool sim_crash_may_leave(const sim_cluster *s, uint32_t node) {
    bool may = !s->c->elastic;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        may |= i != node && n->alive && n->config.kind == MEMBER_DATA && !n->asked_to_leave;
    }
    return may;
}

static bool lives(const sim_cluster *s, uint64_t incarnation) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->node[i].config.random_seed == incarnation) return s->node[i].alive;
    return false;
}

// A dead member is in the log until its removal. It does not count: nothing would start a
// replacement after that.
static bool every_stage_has_members(const sim_cluster *s) {
    uint32_t stages = 0;
    for (uint32_t i = 0; i < s->checker.members; i++) {
        const sim_log_member *m = &s->checker.member[i];
        if (!m->expelled && !m->shadow && lives(s, m->entry.incarnation)) stages |= 1u << m->entry.stage;
    }
    return stages == (1u << s->c->stages) - 1;
}

// Starts a relay that replaces a relay, or a standby that did its work.
static void start_relay(sim_cluster *s) {
    sim_item *item = sim_item_new(ITEM_START, 0, 0);
    item->kind_of_member = MEMBER_RELAY;
    item->from = SIM_MAX_NODES;
    sim_item_put(s, s->now + 1000000000, item);
}

static bool was_promoted(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    for (uint32_t i = 0; i < s->checker.members; i++) {
        const sim_log_member *m = &s->checker.member[i];
        if (n->config.kind == MEMBER_SHADOW && !m->shadow && m->entry.incarnation == n->config.random_seed) return true;
    }
    return false;
}

// A peer that was asked to leave and removed meanwhile exits at once. When its stage is then empty,
// or too few relays are left to fill an empty stage, its user starts a new peer. An owner of
// private data may return itself.
void sim_crash_after_departure(sim_cluster *s, uint32_t node) {
    static const sim_crash again = {.restart_ns = 1000000000};
    // the log needs the logs of most of its voters
    static const sim_crash as_it_was = {.same_id = true, .keeps_store = true, .restart_ns = 1000000000};
    const sim_node *n = &s->node[node];
    if (last_checkpoint_is_missing(s) && n->config.kind != MEMBER_SHADOW) {
        restart_unconnected(s, node);
        restart_plan(s, node, &as_it_was);
        return;
    }
    if (!n->asked_to_leave || !s->checker.started || s->checker.finished) return;
    if (n->config.kind == MEMBER_SHADOW) {
        if (was_promoted(s, node) && !every_stage_has_members(s)) start_relay(s);
        return;
    }
    restart_unconnected(s, node);
    if (s->c->elastic && n->config.kind == MEMBER_DATA) {
        const sim_crash back = {.same_id = true, .keeps_store = true, .restart_ns = n->away_ns};
        s->stats->departures++;
        if (n->away_ns) restart_plan(s, node, &back);
    } else if (too_few_relays(s, node) || !every_stage_has_members(s)) restart_plan(s, node, &again);
}

// After a rollback relays do the work that standbys did. Where too many relays have died for good,
// their users start new ones. In cases that lose stages enough relays stay.
void sim_crash_after_rollback(sim_cluster *s) {
    uint32_t relays = 0;
    if (loses_stages(s->c)) return;
    for (uint32_t i = 0; i < s->nodes; i++) relays += s->node[i].alive && !s->node[i].asked_to_leave && s->node[i].config.kind == MEMBER_RELAY;
    for (; relays + 1u < s->c->stages; relays++) start_relay(s);
}

static void die(sim_cluster *s, uint32_t victim, uint32_t index) {
    const sim_crash *crash = &s->c->crash[index];
    sim_loss_died(s, victim, crash->moment == SIM_BEFORE_MESSAGE ? &s->message : NULL);
    sim_node *n = &s->node[victim];
    // a run that has not begun, or a stage, may wait for it
    bool waited_for = !s->checker.started || !membership(s, victim);
    s->crash_done[index] = true;
    s->stats->crashes++;
    n->alive = false;
    n->returns = crash->lost && crash->data;
    sim_disk_crash(s, victim);
    if (n->view.leads) s->lost_leader_ns = s->now;
    n->machine_died = crash->machine && s->checker.started;  // a start would wait for it
    sim_trace(s, victim, "XX dies (crash %u: %s), %s", index, sim_moment_name(crash->moment), n->machine_died ? "links stay" : "links reset");
    sim_link_die(s, victim, n->machine_died, false);
    if (crash->restart || crash->lost || waited_for) restart_plan(s, victim, crash);
    restart_unconnected(s, victim);
}

// Kills all workers of the victim's stage, the victim last.
static void die_together(sim_cluster *s, uint32_t victim, uint32_t index) {
    uint16_t of = s->node[victim].view.stage;
    bool lost = s->c->crash[index].lost;
    // after the last FINAL the stage may have no successor; the last checkpoint holds its report
    if (lost || s->checker.finished) s->checker.lost_version[of] = s->checker.version + 1;
    for (uint32_t i = 0; i < s->nodes && s->c->crash[index].stage; i++)
        if (i != victim && (lost ? has_state_of(s, i, of) : works_for(s, i, of))) die(s, i, index);
    s->stats->stage_deaths += s->c->crash[index].stage;
    // otherwise it knew only another victim, and has restarted
    if (s->node[victim].alive) die(s, victim, index);
}

// True if the victim is the last relay that could fill a lost stage, and does not restart.
static bool is_last_relay(const sim_cluster *s, const sim_crash *crash, uint32_t victim) { return !crash->restart && !crash->lost && too_few_relays(s, victim); }

static bool allowed(const sim_cluster *s, const sim_crash *crash, uint32_t victim) {
    if (is_last_relay(s, crash, victim)) return false;
    if (crash->lost) return stage_may_be_lost(s, victim);
    return crash->stage ? stage_may_die(s, victim) : may_die(s, victim);
}

static bool concerns(const sim_cluster *s, const sim_crash *crash, uint32_t node) {
    const sim_node *n = &s->node[node];
    return crash->leader ? n->view.leads : crash->data == (n->config.kind == MEMBER_DATA);
}

// A case names DENY for every refusal, and LEAVE for the leader's DISMISS too.
static uint8_t known_as(sim_moment moment, uint8_t kind) {
    if (moment >= SIM_BEFORE_JOB) return kind;
    switch (kind) {
    case MESSAGE_DENY_COMMIT: case MESSAGE_DENY_RESUME: case MESSAGE_DENY_GET: case MESSAGE_NO_PEER: case MESSAGE_EVICTED: return MESSAGE_DENY;
    case MESSAGE_DISMISS: return MESSAGE_LEAVE;
    default: return kind;
    }
}

void sim_crash_moment(sim_cluster *s, uint32_t node, sim_moment moment, uint8_t kind) {
    for (uint32_t i = 0; i < s->c->crashes; i++) {
        const sim_crash *crash = &s->c->crash[i];
        if (s->crash_done[i] || crash->moment != moment || crash->kind != known_as(moment, kind)) continue;
        if (!s->checker.started || s->checker.version < crash->iteration || !allowed(s, crash, node)) continue;
        if (!concerns(s, crash, node)) continue;
        if (s->crash_seen[i]++ < crash->skip) continue;
        die_together(s, node, i);
        return;
    }
}

void sim_crash_timed(sim_cluster *s, uint32_t index) {
    uint32_t candidates[SIM_MAX_NODES], count = 0;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (allowed(s, &s->c->crash[index], i) && concerns(s, &s->c->crash[index], i)) candidates[count++] = i;
    if (count == 0) {
        s->stats->skipped_crashes++;
        return;
    }
    die_together(s, candidates[rng_below(&s->random, count)], index);
}

void sim_crash_plan(sim_cluster *s) {
    for (uint32_t i = 0; i < s->c->crashes; i++) {
        if (s->c->crash[i].moment != SIM_AT_TIME) continue;
        sim_item *item = sim_item_new(ITEM_KILL, 0, 0);
        item->from = i;
        sim_item_put(s, SECOND + s->c->crash[i].at_ns, item);
    }
    for (uint32_t i = 0; i < s->c->flaps; i++) sim_item_put(s, SECOND + s->c->flap_ns[i], sim_item_new(ITEM_FLAP, 0, 0));
    for (uint32_t i = 0; i < s->c->joins; i++) {
        sim_item *item = sim_item_new(ITEM_START, 0, 0);
        item->from = SIM_MAX_NODES;
        item->kind_of_member = i + s->c->data_joins >= s->c->joins ? MEMBER_DATA : MEMBER_RELAY;
        sim_item_put(s, SECOND + s->c->join_ns[i], item);
    }
}
