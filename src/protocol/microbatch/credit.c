// Flow control between stages: the slots that the next stage has free, and CAN TAKE.
#include "protocol/microbatch/microbatch.h"

void credit_refresh(peer *p) {
    if (p->me == 0) return;
    uint16_t next = (uint16_t)(p->stage + 1);
    for (uint32_t i = 0; i < p->microbatch->flow.count;) {
        const cluster_member *m = member_find(p, p->microbatch->flow.peer[i].member);
        if (m == NULL || m->stage != next) pick_remove(&p->microbatch->flow, p->microbatch->flow.peer[i].member);
        else i++;
    }
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->stage != next || m->contact == NO_CONTACT) continue;
        pick_peer *f = pick_add(&p->microbatch->flow, m->id);
        if (f == NULL) return;
        const cluster_contact *c = &p->cluster->contacts[m->contact];
        f->reachable = c->link == LINK_UP && !timing_suspect(&c->timing, p->now);
        f->can_take = c->beat.can_take == p->state.iteration + 1;
        f->link_ns = c->timing.accept_ns;
        f->forward_ns = c->beat.forward_ns;
    }
}

// CAN TAKE(t): sent by members of the last stage at version t, and by others once a member of the
// next stage has sent it. Repeated whenever a slot becomes free.
void credit_update(peer *p, bool again) {
    bool may = p->ready && p->me != 0 && !p->standby && run_state_goes_on(&p->state) && p->version == p->state.iteration;
    if (may && p->stage + 1 < p->run.stages && p->stage > 0) {
        may = false;
        for (uint32_t i = 0; i < p->microbatch->flow.count; i++) may |= p->microbatch->flow.peer[i].can_take;
        may |= p->microbatch->can_take;  // once sent for t, it stays true for t
    }
    bool news = may && p->microbatch->can_take_sent != p->state.iteration + 1;
    p->microbatch->can_take = may;
    if (!news && !(may && again)) return;
    p->microbatch->can_take_sent = p->state.iteration + 1;
    if (p->stage == 0) {
        core_report(p, &(core_change){.kind = CHANGE_MAY_LAUNCH});
        return;
    }
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        if (p->cluster->members[i].stage + 1 != p->stage) continue;
        message_can_take *body = &peer_compose(p, MESSAGE_CAN_TAKE)->u.can_take;
        body->iteration = p->state.iteration;
        body->stage = p->stage;
        body->free_slots = inflight_room(p);
        peer_send(p, p->cluster->members[i].contact, 0);
    }
}

void on_can_take(peer *p, const message *msg) {
    const cluster_member *m = member_find(p, msg->sender);
    const message_can_take *body = &msg->u.can_take;
    if (m == NULL || m->contact == NO_CONTACT || m->stage != p->stage + 1) return;
    cluster_contact *c = &p->cluster->contacts[m->contact];
    bool comes = body->iteration == p->state.iteration && c->beat.ready != p->state.iteration + 1;
    c->beat.can_take = body->iteration + 1;
    c->beat.ready = body->iteration + 1;
    if (comes) repair_stage_filled(p, m->stage);
    pick_peer *f = pick_add(&p->microbatch->flow, m->id);
    if (f == NULL) return;
    f->free_slots = body->free_slots <= m->capacity ? body->free_slots : m->capacity + 1;
    credit_refresh(p);
    credit_update(p, false);
    send_retry_waiting(p);
    core_report(p, &(core_change){.kind = CHANGE_MAY_LAUNCH});
}
