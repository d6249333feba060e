// Detection of spans that are dead, unreachable or slow, at the origin.
//
// A dead process is noticed by its link: its port refuses, or it is silent for dead_ns. A span that
// answers but does not advance is found by probes: without any progress for stall_ns the origin
// asks each span how far it is.
#include "session/inside.h"

#include <string.h>

void watch_gone(session_peer *p, const braid_id *id, session_reason reason) {
    for (uint32_t i = 0; i < p->config.own; i++) {
        const own *o = &p->owns[i];
        if (o->used && !o->ending && !o->waiting && own_hop_of(o, id) < SESSION_MAX_HOPS) own_repair(p, i, id, reason);
    }
}

void watch_draining(session_peer *p, const braid_id *id) {
    for (uint32_t i = 0; i < p->config.own; i++) {
        const own *o = &p->owns[i];
        if (o->used && !o->ending && own_hop_of(o, id) < SESSION_MAX_HOPS)
            own_repair(p, i, id, SESSION_REASON_DRAINING);
    }
}

// Messages may have been lost, or the peer is another incarnation: everything is offered again.
void watch_link(session_peer *p, const braid_id *id, bool up) {
    for (uint32_t i = 0; i < p->config.own; i++) {
        own *o = &p->owns[i];
        uint32_t h = o->used && !o->ending ? own_hop_of(o, id) : SESSION_MAX_HOPS;
        if (h == SESSION_MAX_HOPS) continue;
        if (up) o->hop[h].open_due = true;
        if (h == 0) o->out.active = false;
        if (h + 1 == o->path.count) o->want_new = true;
        own_mark(p, i);
    }
}

void watch_status(session_peer *p, const braid_id *from, const session_message_status *status) {
    uint32_t i = own_of(p, status->session);
    if (i == p->config.own) return;
    own *o = &p->owns[i];
    uint32_t h = own_hop_of(o, from);
    if (h == SESSION_MAX_HOPS) return;
    own_hop *hop = &o->hop[h];
    hop->status = true;
    if (status->epoch != o->epoch) {
        hop->open_due = true;
        own_mark(p, i);
        return;
    }
    bool busy = status->fetching || (status->running && status->running_ms < p->config.slow_ns / 1000000);
    if (busy || status->have > hop->have || status->next > hop->next) o->progress_ns = p->now_ns;
    hop->have = status->have;
    hop->next = status->next;
    hop->running = status->running;
    hop->running_ms = status->running_ms;
}

// The span that holds the session up: it did not answer, its job takes too long, or rows that its
// upstream neighbour has do not reach it.
static uint32_t culprit(const session_peer *p, const own *o) {
    for (uint32_t h = 0; h < o->path.count; h++) {
        if (!o->hop[h].status) return h;
    }
    uint32_t available = o->length;
    for (uint32_t h = 0; h < o->path.count; h++) {
        const own_hop *hop = &o->hop[h];
        if (hop->running && hop->running_ms >= p->config.slow_ns / 1000000) return h;
        if (hop->have < available) return h;
        available = hop->have;
    }
    return SESSION_MAX_HOPS;
}

// Without progress: probe, then begin a new epoch, at first with the same spans.
static void check_stall(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    if ((o->need >= o->length && o->began) || p->now_ns - o->progress_ns < p->config.stall_ns) return;
    if (o->probe_ns == 0) {
        o->probe_ns = p->now_ns;
        o->probe_due = true;
        own_mark(p, i);
        return;
    }
    if (p->now_ns - o->probe_ns < p->config.stall_ns / 2) return;
    uint32_t h = culprit(p, o);
    const braid_id *id = h < SESSION_MAX_HOPS ? &o->path.hop[h].id : &p->config.self;
    if (h < SESSION_MAX_HOPS && (!o->hop[h].status || o->resyncs > 0)) own_exclude(p, i, id, p->config.avoid_ns);
    o->resyncs++;
    o->probe_ns = 0;
    o->progress_ns = p->now_ns;
    own_repair(p, i, id, SESSION_REASON_SLOW);
}

void watch_beat(session_peer *p) {
    for (uint32_t i = 0; i < p->config.own; i++) {
        own *o = &p->owns[i];
        if (!o->used || o->ending) continue;
        own_mark(p, i);
        if (p->view_changed) o->retry_ns = p->now_ns;
        if (o->waiting) continue;
        check_stall(p, i);
        if (p->beats % GOSSIP_BEATS != 0) continue;
        for (uint32_t h = 0; h < o->path.count; h++) {
            uint32_t k = contact_find(p, &o->path.hop[h].id);
            if (k < p->count && p->known[k].card.draining)
                own_repair(p, i, &o->path.hop[h].id, SESSION_REASON_DRAINING);
        }
    }
    p->view_changed = false;
}

// ---- the begin of a session, and the names of its pages

void watch_send_names(session_peer *p, const session_event *e) {
    uint32_t i = own_find(p, e->number);
    if (i == p->config.own || e->key_count == 0 || e->key_count > SESSION_MAX_NAMES || e->position > SESSION_MAX_TOKENS)
        return;
    const own *o = &p->owns[i];
    for (uint32_t h = 0; h < o->path.count; h++) {
        session_message_names *names = &message_new(p, SESSION_MESSAGE_NAMES)->names;
        *names = (session_message_names){
            .session = own_id(p, o), .cut = o->cuts.now, .first = e->position, .count = e->key_count};
        memcpy(names->key, e->keys, e->key_count * sizeof *e->keys);
        message_send(p, &o->path.hop[h].id);
    }
}

void watch_check_began(session_peer *p, uint32_t i) {
    own *o = &p->owns[i];
    uint32_t least = UINT32_MAX;
    for (uint32_t h = 0; h < o->path.count; h++) {
        if (!o->hop[h].opened) return;
        if (o->hop[h].have < least) least = o->hop[h].have;
    }
    o->began = true;
    session_tell *tell = effect_tell(p, SESSION_TELL_BEGAN);
    tell->number = o->number;
    tell->tokens = least;
}
