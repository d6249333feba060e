// Rule J14: moves of relays to another stage. They are judged when the leader appends them, by the
// entries that the leader itself has applied.
#include "sim/inside.h"

enum { REST = 1, STAYS = 10 };  // iterations, docs/protocol.md

static const sim_log_member *find_member(const sim_checker *k, member_id member) {
    for (uint32_t i = 0; i < k->members; i++)
        if (k->member[i].member == member) return &k->member[i];
    return NULL;
}

void sim_check_move_applied(sim_cluster *s, uint32_t node, const log_entry *entry) {
    sim_watch *w = &s->checker.watch[node];
    if (entry->kind == LOG_RUN) w->applied_version = entry->u.run.start_version;
    if (entry->kind == LOG_FINAL) {
        w->applied_version = entry->u.final.iteration + 1;
        w->final_ns = s->now;
    }
    if (entry->kind != LOG_EXPEL || entry->u.expel.reason != EXPEL_MOVED) return;
    const sim_log_member *m = find_member(&s->checker, entry->u.expel.member);
    if (m == NULL) return;
    if (entry->index > s->checker.moved_index) {
        s->checker.moved_index = entry->index;
        s->checker.mover = m->entry.peer;
        s->checker.mover_fetches = false;
    }
    uint32_t at = w->moves++ % SIM_KEPT_MOVES;
    w->moved[at].id = m->entry.peer;
    w->moved[at].version = w->applied_version;
}

static uint32_t members_of(const sim_checker *k, uint16_t index) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < k->members; i++)
        count += !k->member[i].expelled && !k->member[i].shadow && k->member[i].entry.stage == index;
    return count;
}

static void check_pauses(sim_cluster *s, uint32_t node, const sim_log_member *m) {
    const sim_watch *w = &s->checker.watch[node];
    for (uint32_t i = 0; i < w->moves && i < SIM_KEPT_MOVES; i++) {
        uint64_t since = w->applied_version - w->moved[i].version;
        if (w->moved[i].version > w->applied_version) continue;  // before a rollback
        bool newest = i == (w->moves - 1) % SIM_KEPT_MOVES;
        if (newest && since < REST)
            sim_fail(s, "J14: #%llu moves %llu iterations after another relay", (unsigned long long)m->member,
                     (unsigned long long)since);
        if (since < STAYS && id_equal(&w->moved[i].id, &m->entry.peer))
            sim_fail(s, "J14: #%llu moves again after %llu iterations", (unsigned long long)m->member,
                     (unsigned long long)since);
    }
}

void sim_check_mover(sim_cluster *s, uint32_t node) {
    sim_checker *k = &s->checker;
    const sim_node *n = &s->node[node];
    if (!id_equal(&n->id, &k->mover) || n->view.member <= k->moved_index) return;
    if (k->mover_member != n->view.member) k->mover_fetches = true;
    k->mover_member = n->view.member;
    if (n->view.ready) k->mover_fetches = false;
}

// True if the newest mover is a member of its new stage, linked to the leader, and has never had the
// whole state there.
static bool mover_fetches(const sim_cluster *s, uint32_t leader) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        if (!n->alive || !id_equal(&n->id, &s->checker.mover) || !s->link[leader][i].up) continue;
        return s->checker.mover_fetches && sim_check_member_live(s, n->view.member);
    }
    return false;
}

// Before the first FINAL of a generation a rollback moves relays to empty stages.
void sim_check_move_appended(sim_cluster *s, uint32_t node, const log_entry *entry) {
    const sim_checker *k = &s->checker;
    if (entry->kind != LOG_EXPEL || entry->u.expel.reason != EXPEL_MOVED || k->version == k->start_version ||
        node != sim_leader(s))
        return;
    const sim_log_member *m = find_member(k, entry->u.expel.member);
    peer_view v;
    peer_look(s->node[node].peer, &v);
    if (m == NULL || m->expelled) return;
    s->stats->moves++;
    if (k->watch[node].final_ns != s->now) {
        sim_fail(s, "J14: #%llu moves within an iteration", (unsigned long long)m->member);
        return;
    }
    if (members_of(k, v.placement.moves_to) >= members_of(k, m->entry.stage))
        sim_fail(s, "J14: #%llu moves to stage %u, which has as many members", (unsigned long long)m->member,
                 v.placement.moves_to);
    if (mover_fetches(s, node))
        sim_fail(s, "J14: #%llu moves while the last mover fetches its state", (unsigned long long)m->member);
    check_pauses(s, node, m);
}
