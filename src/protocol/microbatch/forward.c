// The forwarder's part: tensors and chunks of other peers, passed on in pieces. It keeps no state
// of them.
#include "protocol/microbatch/microbatch.h"


// For tests: a random forwarder, however fast the direct link is.
member_id forward_random(peer *p, member_id to) {
    uint32_t start = (uint32_t)rng_below(&p->random, p->cluster->member_count);
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[(start + i) % p->cluster->member_count];
        if (m->id != to && m->contact != NO_CONTACT && !member_is_standby(m) && p->cluster->contacts[m->contact].link == LINK_UP && member_answers(p, m->id)) return m->id;
    }
    return 0;
}

void forward_refuse(peer *p, member_id origin, uint32_t serial) {
    peer_compose(p, MESSAGE_UNCARRIED)->u.uncarried.serial = serial;
    peer_send_member(p, origin, 0);
}

bool forward_pass_on(peer *p, member_id to, blob_id blob, uint64_t bytes) {
    bool room = p->core.waiting_bytes + bytes <= FORWARD_MOST_TENSORS * p->run.activation_bytes;
    if (!room || p->config.carries_nothing || !peer_send_member(p, to, blob)) return false;
    p->microbatch->carried_bytes += bytes;
    p->microbatch->carried_until_ns = p->now + TIMING_FORWARDING_NS;
    return true;
}
