// The step: events in, effects out.
#include "protocol/internal.h"

#include <string.h>

enum { PEER_MOST_PASSES = 8 };  // in one step; the rest follows a millisecond later

// ---- dispatch -----------------------------------------------------------------------------------

// True for orders that only the owner of a microbatch gives.
static bool is_order(uint8_t kind) {
    return kind == MESSAGE_CANCEL || kind == MESSAGE_PROBE || kind == MESSAGE_RESUME || kind == MESSAGE_COMMIT;
}

static bool obeys_any_owner(const peer *p, uint8_t kind) { return kind == MESSAGE_COMMIT && peer_breaks(p, PEER_MUTANT_OBEYS_OLDER_OWNER); }

// Messages of another iteration are ignored.
static void dispatch_microbatch(peer *p, const message *msg, const message_subject *of) {
    if (of->m >= p->microbatches || msg->iteration != p->state.iteration) return;
    if (is_order(msg->kind) && p->state.owner[of->m % p->run.slots] != msg->sender && !obeys_any_owner(p, msg->kind)) return;
    switch (msg->kind) {
    case MESSAGE_ACCEPT: on_accept(p, msg); break;
    case MESSAGE_COMPLETE: on_complete(p, msg); break;
    case MESSAGE_DENY: on_deny(p, msg); break;
    case MESSAGE_DENY_COMMIT: on_deny_commit(p, msg); break;
    case MESSAGE_DENY_RESUME: on_deny_resume(p, msg); break;
    case MESSAGE_NO_PEER: on_no_peer(p, msg); break;
    case MESSAGE_EVICTED: on_evicted(p, msg); break;
    case MESSAGE_TRACE: on_trace(p, msg); break;
    case MESSAGE_CANCEL: on_cancel(p, msg); break;
    case MESSAGE_PROBE: on_probe(p, msg); break;
    case MESSAGE_STATUS: on_status(p, msg); break;
    case MESSAGE_RESUME: on_resume(p, msg); break;
    case MESSAGE_COMMIT: on_commit(p, msg); break;
    case MESSAGE_COUNTED: on_counted(p, msg); break;
    default: on_settled(p, msg); break;
    }
}

// True for messages that only a live member may send: those of removed members are ignored.
static bool needs_member(uint8_t kind) {
    switch (kind) {
    case MESSAGE_JOIN: case MESSAGE_LOG: case MESSAGE_GET_LOG: case MESSAGE_LEAVE: case MESSAGE_DISMISS: case MESSAGE_HEARTBEAT:
    case MESSAGE_VOTE: case MESSAGE_VOTED: case MESSAGE_APPEND: case MESSAGE_APPENDED: case MESSAGE_HAND_OVER: case MESSAGE_LEADER:
        return false;
    default: return true;
    }
}

static bool sender_speaks_for_itself(const peer *p, uint32_t from, const message *msg) {
    const cluster_member *m = member_find(p, msg->sender);
    return m != NULL && m->contact == from;
}

// A leader need not be a member: it may have left, or wait for readmission. It may still send
// BEGIN_AGGREGATION and STATE, so that the present iteration can finish.
static bool sender_speaks_as_leader(const peer *p, uint32_t from, const message *msg) {
    bool leads = msg->kind == MESSAGE_BEGIN_AGGREGATION || msg->kind == MESSAGE_STATE;
    return leads && msg->sender == 0 && from != NO_CONTACT && id_equal(&p->cluster->contacts[from].id, &p->cluster->lead.id);
}

// A forwarder that has not read its own MEMBER entry yet refuses transfers all the same.
static bool sender_gives_back(const peer *p, uint32_t from, const message *msg) {
    bool refuses = msg->kind == MESSAGE_UNCARRIED || msg->kind == MESSAGE_UNCARRIED_CHUNKS;
    return refuses && msg->sender == 0 && from != NO_CONTACT && p->cluster->contacts[from].member != 0;
}

static bool may_speak(const peer *p, uint32_t from, const message *msg) {
    return !needs_member(msg->kind) || sender_speaks_for_itself(p, from, msg) || sender_speaks_as_leader(p, from, msg) || sender_gives_back(p, from, msg) || obeys_any_owner(p, msg->kind);
}

// True for messages that only the leader's side sends. Election messages are not among them: they
// name the receiver's log store, and a voter with an old log must accept them from new voters.
static bool leads_others(uint8_t kind) { return kind == MESSAGE_LOG || kind == MESSAGE_LEADER; }

// True for messages that do not concern the aggregation.
static bool leaves_aggregation_alone(uint8_t kind) {
    switch (kind) {
    case MESSAGE_HEARTBEAT: case MESSAGE_ROUTE: case MESSAGE_VIEW: case MESSAGE_LINES: case MESSAGE_SOUND: case MESSAGE_SOUNDED:
    case MESSAGE_CARRY: case MESSAGE_CARRY_CHUNKS: case MESSAGE_UNCARRIED: case MESSAGE_UNCARRIED_CHUNKS:
        return true;
    default: return false;
    }
}

// A member cannot be reached by the sender: dial it at once; the owner of the microbatch repairs
// the path.
static void on_suspect(peer *p, const message *msg) {
    const message_suspect *body = &msg->u.suspect;
    const cluster_member *m = member_find(p, body->member);
    if (m != NULL && m->contact != NO_CONTACT) {
        cluster_contact *c = &p->cluster->contacts[m->contact];
        if (c->link == LINK_NONE) c->redial_ns = p->now;
        contact_touch(p, m->contact);
    }
    if (body->has_subject && body->subject.m < p->microbatches && msg->iteration == p->state.iteration) repair_suspect(p, msg);
}

static void dispatch(peer *p, uint32_t from, const message *msg, blob_id blob, uint64_t bytes) {
    if (!leaves_aggregation_alone(msg->kind)) reduce_invalidate(p);
    if (blob != 0) p->core.blobs_held++;
    if (core_outdates(p, msg)) {
        peer_release(p, &blob);
        return;
    }
    if (!may_speak(p, from, msg)) {
        peer_release(p, &blob);
        return;
    }
    if (leads_others(msg->kind) && !lead_trusts(p, from)) {
        peer_release(p, &blob);
        lead_unknown_claims(p);
        return;
    }
    const message_subject *of = message_subject_of(msg);
    if (of != NULL) {
        peer_release(p, &blob);
        dispatch_microbatch(p, msg, of);
        return;
    }
    switch (msg->kind) {
    case MESSAGE_FORWARD: on_forward(p, msg, blob, bytes); return;
    case MESSAGE_BACKWARD: on_backward(p, msg, blob, bytes); return;
    case MESSAGE_DATA: on_data(p, msg, blob); return;
    case MESSAGE_CARRY: on_carry(p, msg, blob, bytes); return;
    case MESSAGE_CARRY_CHUNKS: on_carry_chunks(p, msg, blob, bytes); return;
    default: break;
    }
    peer_release(p, &blob);
    switch (msg->kind) {
    case MESSAGE_SUSPECT: on_suspect(p, msg); break;
    case MESSAGE_BEGIN_AGGREGATION: on_begin(p, msg); break;
    case MESSAGE_MISMATCH: on_mismatch(p, msg); break;
    case MESSAGE_RESULT: on_result(p, msg); break;
    case MESSAGE_REDUCED: on_reduced(p, msg); break;
    case MESSAGE_STATE: on_state(p, from, msg); break;
    case MESSAGE_GET: on_get(p, from, msg); break;
    case MESSAGE_DENY_GET: pulls_denied(p, msg); break;
    case MESSAGE_HEARTBEAT: on_heartbeat(p, from, msg); break;
    case MESSAGE_CAN_TAKE: on_can_take(p, msg); break;
    case MESSAGE_ROUTE: on_route(p, msg); break;
    case MESSAGE_VIEW: on_view(p, msg); break;
    case MESSAGE_LINES: on_lines(p, msg); break;
    case MESSAGE_SOUND: on_sound(p, msg); break;
    case MESSAGE_SOUNDED: on_sounded(p, msg); break;
    case MESSAGE_UNCARRIED: forwarded_refused(p, msg->u.uncarried.serial); break;
    case MESSAGE_UNCARRIED_CHUNKS:
        multipath_refused(p, from == NO_CONTACT ? p->me : p->cluster->contacts[from].member, msg->u.uncarried_chunks.serial);
        break;
    case MESSAGE_SURVEY: on_survey(p, msg); break;
    case MESSAGE_HOLDINGS: on_holdings(p, msg); break;
    case MESSAGE_GET_LOG: on_get_log(p, from, msg); break;
    case MESSAGE_LOG: on_log(p, from, msg); break;  // entries are valid from any trusted sender
    case MESSAGE_JOIN: on_join(p, from, msg); break;
    case MESSAGE_LEAVE: on_leave(p, from, msg); break;
    case MESSAGE_DISMISS: on_dismiss(p, from, msg); break;
    case MESSAGE_LEADER: on_leader(p, from, msg); break;
    case MESSAGE_VOTE: case MESSAGE_VOTED: case MESSAGE_APPEND: case MESSAGE_APPENDED: case MESSAGE_HAND_OVER:
        log_vote_message(p, from, msg);
        break;
    default: break;
    }
}

static void deliver_remote(peer *p, const event *e) {
    uint32_t from = contact_find(p, &e->id);
    blob_id blob = e->blob;
    if (from == NO_CONTACT || p->cluster->contacts[from].link != LINK_UP) {
        if (blob != 0) p->core.blobs_held++;
        peer_release(p, &blob);
        return;
    }
    cluster_contact *c = &p->cluster->contacts[from];
    uint64_t sure_ns = timing_sure_until(&c->timing);
    timing_heard(&c->timing, p->now);
    if (timing_sure_until(&c->timing) < sure_ns) reduce_invalidate(p);
    c->log_position = e->msg->log_position;
    c->log_known = true;
    c->itself |= c->member != 0 && e->msg->sender == c->member;
    dispatch(p, from, e->msg, blob, e->blob_bytes);
}

// False: there was no message.
static bool deliver_local(peer *p) {
    bool any = p->core.local_count > 0;
    uint32_t room = sizeof p->core.local / sizeof p->core.local[0];
    while (p->core.local_count > 0) {
        local_message l = p->core.local[p->core.local_first];
        p->core.local_first = (p->core.local_first + 1) % room;
        p->core.local_count--;
        bool good = message_decode(p->core.outbox + l.offset, l.bytes, &p->core.received);
        BRAID_ASSERT(good);
        dispatch(p, NO_CONTACT, &p->core.received, 0, 0);
    }
    return any;
}

// EVENT_DRAIN. The whole run is ended by its leader if the event says so, or if this peer began the
// run.
static void drain(peer *p, const event *e) {
    bool whole = e->whole;
    // the only voter will lead, or there is never a leader: remember what its user asked for
    bool will_lead = p->config.leader && p->config.voters <= 1 && p->raft.voters.count == 1 && raft_votes(&p->raft);
    if ((peer_is_leader(p) || will_lead) && (whole || p->config.leader)) {
        if (p->drain_ns == 0) p->drain_ns = p->now;
        p->leader->drop |= e->drop;
        p->leader->unlogged |= e->unlogged;
        p->disabled |= e->drop;  // further computing counts nowhere, and the state must be readable
        return;
    }
    if (whole) return;
    leave_when_free(p);
}

static void handle(peer *p, const event *e) {
    if (e->kind != EVENT_TICK && e->kind != EVENT_MESSAGE) reduce_invalidate(p);
    switch (e->kind) {
    case EVENT_LINK_UP: contact_up(p, &e->id); break;
    case EVENT_LINK_DOWN: contact_down(p, &e->id, e->refused); break;
    case EVENT_MESSAGE: deliver_remote(p, e); break;
    case EVENT_JOB_DONE: work_done(p, e->result); break;
    case EVENT_STORED: log_stored(p, e->entry); break;
    case EVENT_DRAIN: drain(p, e); break;
    case EVENT_SAVE: p->leader->save_wanted = peer_is_leader(p) && p->run.save; break;
    default: break;
    }
}

// This process was paused: the step comes much later than it was due. The silence of others
// meanwhile is not counted.
static void resume_after_pause(peer *p, uint64_t late_ns) {
    contacts_compensate_pause(p, late_ns);
    rollback_compensate_pause(p, late_ns);
    private_compensate_pause(p, late_ns);
    raft_compensate_pause(&p->raft, p->now, late_ns);
    p->resumed_ns = p->now;
    log_progress(p);
}

// Makes one pass over all decisions. True: a later part gave an earlier one an input (a message to
// this peer), or asked to continue at once (peer_wake_at with a time that is not in the future).
static bool decide_all(peer *p) {
    contacts_tick(p);
    lead_tick(p);
    log_progress(p);
    join_tick(p);
    log_tick(p);
    leader_tick(p);
    route_tick(p);
    stored_tick(p);
    transfer_tick(p);
    reduce_tick(p);
    failover_tick(p);
    private_tick(p);
    forwarded_tick(p);
    own_tick(p);
    inflight_tick(p);
    sends_tick(p);
    pulls_tick(p);
    bool again = deliver_local(p);
    work_next(p);
    again |= deliver_local(p);
    return again || p->core.deadline <= p->now;
}

// Rule D0: each decision is taken in the step of its last input. A single pass would delay a
// decision to the next event or timer, up to TIMING_HEARTBEAT_NS later, when that input comes from
// a later part of the same pass.
static void decide_until_settled(peer *p) {
    for (uint32_t pass = 0; pass < PEER_MOST_PASSES; pass++) {
        if (!decide_all(p) || p->over) return;
        if (p->core.deadline <= p->now) p->core.deadline = p->now + TIMING_HEARTBEAT_NS;
    }
    p->core.deadline = p->now;
}

void peer_step(peer *p, uint64_t now_ns, const event *e) {
    BRAID_ASSERT(p->core.effect_next == p->core.effect_count);
    uint64_t late_ns = now_ns > p->core.deadline ? now_ns - p->core.deadline : 0;
    if (now_ns > p->now) p->now = now_ns;
    p->core.effect_count = p->core.effect_next = 0;
    p->core.outbox_bytes = 0;
    p->log->step_appends = 0;
    p->core.waiting_bytes = e->waiting_bytes;
    p->core.deadline = p->now + TIMING_HEARTBEAT_NS;
    if (late_ns > TIMING_PAUSE_NS) resume_after_pause(p, late_ns);
    handle(p, e);
    log_progress(p);
    deliver_local(p);
    if (!p->over) decide_until_settled(p);
    if (p->core.deadline <= p->now) p->core.deadline = p->now + TIMING_LEAST_WAKE_NS;
}

