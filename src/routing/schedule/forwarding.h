// Time of a forwarded transfer: a tensor that goes over a third peer in pieces, which that peer
// forwards while the next piece arrives.
#ifndef BRAID_ROUTING_FORWARDING_H
#define BRAID_ROUTING_FORWARDING_H

#include <stdbool.h>
#include <stdint.h>

// `there`, `on`: time of the whole tensor to the forwarder and from it. The slower line is never
// idle; the other one begins or ends a piece earlier.
static inline int64_t forwarding_time(int64_t there, int64_t on, uint32_t pieces) {
    int64_t slower = there > on ? there : on, faster = there > on ? on : there;
    return slower + faster / pieces;
}

// The gain is worth the forwarder's lines: at least a third of the direct time, or an eighth if the
// direct line is busy.
static inline bool forwarding_pays(int64_t forwarded, int64_t straight, bool crowded) {
    return forwarded < straight - straight / (crowded ? 8 : 3);
}

#endif
