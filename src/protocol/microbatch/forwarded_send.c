// A tensor is sent directly, or in pieces by a forwarder where that is faster.
#include "protocol/microbatch/microbatch.h"

enum { PATIENCE = 6, MOST_FAILURES = 2 };

// The planned forwarder is used once; then the fastest one that has not failed.
static route_forwarding carrier_for(peer *p, const tensor_sending *s, member_id to, member_id planned) {
    route_forwarding d;
    if (s->failures == MOST_FAILURES) return (route_forwarding){0};
    if (p->faults.carried_percent != 0 && rng_below(&p->random, 100) < p->faults.carried_percent) return (route_forwarding){.by = forward_random(p, to)};
    return s->failed == 0 && route_forwarder_planned(p, to, planned, &d) ? d : route_forwarder(p, to, s->failed);
}

static bool send_pieces(peer *p, const tensor_sending *s, member_id to, blob_id blob, uint64_t bytes, uint16_t count) {
    for (uint16_t i = 0; i < count; i++) {
        peer_compose(p, MESSAGE_CARRY)->u.carry = (message_carry){.origin = p->me, .to = to, .serial = s->serial, .index = i, .count = count};
        if (!peer_send_part(p, s->by, blob, message_piece_at(bytes, i, count), message_piece_bytes(bytes, i, count))) return false;
    }
    return true;
}

bool forwarded_send(peer *p, tensor_sending *s, member_id to, blob_id blob, member_id planned) {
    bool forward = p->core.scratch.kind == MESSAGE_FORWARD;
    if (s->to != to) s->failed = s->failures = 0;
    route_forwarding d = carrier_for(p, s, to, planned);
    s->by = d.by;
    if (s->by == 0) return peer_send_member(p, to, blob);
    s->serial = (uint32_t)rng_next(&p->random) | 1;
    s->carried_ns = TIMING_FORWARD_NS + PATIENCE * (uint64_t)d.us * 1000;
    s->direct_ns = (uint64_t)d.direct_us * 1000;
    uint16_t pieces = route_pieces(p);
    uint64_t bytes = peer_tensor_bytes(&p->run, forward ? PHASE_FORWARD : PHASE_BACKWARD);
    *(forward ? &p->core.scratch.u.forward.parcel : &p->core.scratch.u.backward.parcel) = (message_parcel){s->serial, pieces};
    bool left = peer_send_member(p, to, 0) && send_pieces(p, s, to, blob, bytes, pieces);
    p->microbatch->carried += left;
    return left;
}
