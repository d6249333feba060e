// The queue of effects. A step adds a bounded number of them, and the host takes them all before the
// next step.
#include "base/err.h"
#include "session/inside.h"

#include <string.h>

session_effect *effect_add(session_peer *p, session_effect_kind kind) {
    effect_queue *q = &p->queue;
    BRAID_ASSERT(q->count < EFFECTS);
    session_effect *e = &q->effect[(q->first + q->count++) % EFFECTS];
    *e = (session_effect){.kind = kind};
    return e;
}

void effect_release(session_peer *p, session_blob blob) {
    if (blob != 0) effect_add(p, SESSION_EFFECT_RELEASE)->blob = blob;
}

session_tell *effect_tell(session_peer *p, session_tell_kind kind) {
    session_effect *e = effect_add(p, SESSION_EFFECT_TELL);
    e->tell.kind = kind;
    return &e->tell;
}

session_message *message_new(session_peer *p, session_message_kind kind) {
    memset(&p->message, 0, sizeof p->message);
    p->message.kind = kind;
    return &p->message;
}

session_effect *message_send(session_peer *p, const braid_id *to) {
    if (!contact_linked(p, to)) return NULL;
    effect_queue *q = &p->queue;
    size_t count = session_message_encode(&p->message, q->bytes + q->used, sizeof q->bytes - q->used);
    BRAID_ASSERT(count > 0);
    session_effect *e = effect_add(p, SESSION_EFFECT_SEND);
    e->id = *to;
    e->bytes = q->bytes + q->used;
    e->byte_count = count;
    e->message_kind = (uint8_t)p->message.kind;
    q->used += count;
    return e;
}

// Does the work of one marked contact or session. False: none is marked.
static bool pump(session_peer *p) {
    uint32_t i = bitset_next(p->contact_dirty, 0, p->count);
    if (i < p->count) {
        bitset_remove(p->contact_dirty, i);
        contacts_pump(p, i);
        return true;
    }
    i = bitset_next(p->own_dirty, 0, p->config.own);
    if (i < p->config.own) {
        bitset_remove(p->own_dirty, i);
        own_pump(p, i);
        return true;
    }
    i = bitset_next(p->slot_dirty, 0, p->config.slots);
    if (i < p->config.slots) {
        bitset_remove(p->slot_dirty, i);
        slot_pump(p, i);
        return true;
    }
    return false;
}

static bool drained(session_peer *p) {
    if (!p->draining || p->drained) return false;
    for (uint32_t i = 0; i < p->config.slots; i++) {
        if (p->slots[i].used) return false;
    }
    p->drained = true;
    effect_add(p, SESSION_EFFECT_DRAINED);
    return true;
}

bool session_next_effect(session_peer *p, session_effect *out) {
    effect_queue *q = &p->queue;
    while (q->count == 0) {
        q->used = 0;
        if (!pump(p) && !drained(p)) return false;
        jobs_bound_kept(p);
    }
    *out = q->effect[q->first];
    q->first = (q->first + 1) % EFFECTS;
    q->count--;
    return true;
}
