// Heartbeats: what a peer reports of itself, and what follows from others' reports.
#include "protocol/internal.h"

void send_heartbeat(peer *p, uint32_t index) {
    uint64_t reaches;
    message_heartbeat *beat = &peer_compose(p, MESSAGE_HEARTBEAT)->u.heartbeat;
    beat->ready = p->ready ? p->version + 1 : 0;
    beat->can_take = p->microbatch->can_take ? p->state.iteration + 1 : 0;
    beat->free_slots = inflight_room(p);
    beat->queued = p->microbatch->slots_used;
    beat->progress = p->microbatch->progress;
    beat->forward_ns = p->microbatch->forward_ns;
    beat->backward_ns = p->microbatch->backward_ns;
    beat->leads = p->cluster->leads ? p->cluster->own_term : 0;
    beat->reaches = versions_reach(p, &reaches) ? reaches + 1 : 0;
    beat->saved = p->chunks->stored.saved;
    if (peer_send(p, index, 0)) p->cluster->contacts[index].beat_sent_ns = p->now;
}

void on_heartbeat(peer *p, uint32_t from, const message *msg) {
    if (from == NO_CONTACT) return;
    cluster_contact *c = &p->cluster->contacts[from];
    const message_heartbeat *beat = &msg->u.heartbeat;
    if (beat->leads != 0 && !lead_trusts(p, from)) lead_unknown_claims(p);
    else if (beat->leads != 0 && lead_term_is_plausible(p, beat->leads)) lead_heard(p, &c->id, beat->leads, true);
    if (!peer_is_leader(p) && id_equal(&c->id, &p->cluster->lead.id)) log_compare(p, msg->log_position);
    if (msg->sender != c->member || c->member == 0 || core_is_past(p, msg)) return;  // of an earlier incarnation, or from before a rollback
    if (beat->progress != c->beat.progress) c->progress_ns = p->now;
    bool comes = beat->ready == p->state.iteration + 1 && c->beat.ready != beat->ready;
    c->beat = *beat;
    c->beat_position = msg->log_position;
    cluster_member *m = member_find(p, c->member);
    m->was_ready |= beat->ready != 0;
    if (comes) repair_stage_filled(p, m->stage);
    if (m->stage != p->stage + 1) {
        if (m->stage == p->stage) credit_update(p, false);
        return;
    }
    pick_peer *f = pick_add(&p->microbatch->flow, m->id);
    if (f == NULL) return;
    bool more = beat->free_slots > f->free_slots;
    f->free_slots = beat->free_slots <= m->capacity ? beat->free_slots : m->capacity + 1;  // one more may wait for a slot
    f->queued = beat->queued < m->capacity ? beat->queued : m->capacity;
    credit_refresh(p);
    credit_update(p, false);
    if (more) send_retry_waiting(p);
}
