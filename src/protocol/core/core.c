// The base of all parts of the protocol: effects, the outbox, messages to oneself, the deadline,
// reports of changes.
#include "protocol/core/core.h"

#include <string.h>

void peer_inject(peer *p, peer_faults faults) { p->faults = faults; }

bool peer_breaks(const peer *p, peer_mutant rule) { return (p->faults.mutants >> rule & 1) != 0; }

effect *peer_effect(peer *p, effect_kind kind) {
    if (p->core.effect_count == PEER_MAX_EFFECTS) return NULL;
    effect *e = &p->core.effects[p->core.effect_count++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    return e;
}

// Sends are the only effects that may be lost, so they leave room for the others.
effect *core_send_effect(peer *p) {
    if (p->core.effect_count >= PEER_MAX_EFFECTS / 2) return NULL;
    return peer_effect(p, EFFECT_SEND);
}

void peer_release(peer *p, blob_id *blob) {
    if (*blob == 0) return;
    effect *e = peer_effect(p, EFFECT_RELEASE);
    BRAID_ASSERT(e != NULL && p->core.blobs_held > 0);
    e->blob = *blob;
    *blob = 0;
    p->core.blobs_held--;
}

void peer_tell(peer *p, const tell *what) {
    effect *e = peer_effect(p, EFFECT_TELL);
    if (e != NULL) e->tell = *what;
}

void peer_wake_at(peer *p, uint64_t when_ns) {
    if (when_ns < p->core.deadline) p->core.deadline = when_ns;
}

message *peer_compose(peer *p, message_kind kind) {
    memset(&p->core.scratch, 0, offsetof(message, u) + message_body_bytes((uint8_t)kind));
    p->core.scratch.kind = (uint8_t)kind;
    return &p->core.scratch;
}

// Encodes p->core.scratch into the outbox; 0: no room left in this step.
size_t core_encode(peer *p, const uint8_t **bytes) {
    p->core.scratch.iteration = p->state.iteration;
    p->core.scratch.sender = p->me;
    p->core.scratch.log_position = p->state.position;
    size_t room = PEER_OUTBOX_BYTES - p->core.outbox_bytes;
    size_t count = message_encode(&p->core.scratch, p->core.outbox + p->core.outbox_bytes, room);
    *bytes = p->core.outbox + p->core.outbox_bytes;
    p->core.outbox_bytes += count;
    BRAID_ASSERT(count != 0 || room < WIRE_MAX_CONTROL_BYTES);
    if (count == 0) p->core.dropped_sends++;
    return count;
}

bool core_send_local(peer *p, blob_id blob) {
    BRAID_ASSERT(blob == 0);  // tensors to oneself are handed over directly
    const uint8_t *bytes;
    uint32_t room = sizeof p->core.local / sizeof p->core.local[0];
    if (p->core.local_count == room) return false;
    size_t count = core_encode(p, &bytes);
    if (count == 0) return false;
    local_message *l = &p->core.local[(p->core.local_first + p->core.local_count++) % room];
    l->offset = (size_t)(bytes - p->core.outbox);
    l->bytes = count;
    return true;
}

bool peer_next_effect(peer *p, effect *out) {
    if (p->core.effect_next == p->core.effect_count) return false;
    *out = p->core.effects[p->core.effect_next++];
    return true;
}

uint64_t peer_deadline(const peer *p) { return p->core.deadline; }

void core_report(peer *p, const core_change *c) { p->core.on_change(p, c); }

uint64_t message_set_digest(const message_set *set) {
    uint64_t digest = 0x6272616964;
    for (uint32_t i = 0; i < WIRE_SET_WORDS; i++) digest = rng_seed(digest, set->words[i]);
    return digest;
}

// True for messages about computed work (rule G6). A rollback does not change the log, votes and
// routes.
static bool is_about_work(uint8_t kind) {
    switch (kind) {
    case MESSAGE_HEARTBEAT: case MESSAGE_GET_LOG: case MESSAGE_LOG: case MESSAGE_JOIN: case MESSAGE_LEAVE: case MESSAGE_DISMISS:
    case MESSAGE_ROUTE: case MESSAGE_VIEW: case MESSAGE_VOTE: case MESSAGE_VOTED: case MESSAGE_APPEND: case MESSAGE_APPENDED:
    case MESSAGE_HAND_OVER: case MESSAGE_LEADER:
        return false;
    default:
        return true;
    }
}

bool core_is_past(const peer *p, const message *msg) { return run_state_predates(&p->state, msg->log_position) && !peer_breaks(p, PEER_MUTANT_HEARS_THE_PAST); }

bool core_outdates(const peer *p, const message *msg) { return core_is_past(p, msg) && is_about_work(msg->kind); }
