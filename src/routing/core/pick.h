// Fallback choice of the next peer, for a microbatch without a unit of flow (router.h): the
// cheapest reachable peer with a free slot.
//
// All inputs come from traffic that passes anyway: ACCEPT delays, computing times in COMPLETE, CAN
// TAKE and heartbeats. Pure: time and randomness are parameters.
#ifndef BRAID_ROUTING_PICK_H
#define BRAID_ROUTING_PICK_H

#include <stdbool.h>
#include <stdint.h>

enum { PICK_MAX_PEERS = 64 };  // known peers of the next stage; more are ignored

typedef struct pick_peer {
    uint64_t member;      // 0: unused
    bool reachable;       // the link is up
    bool can_take;        // announced for the current iteration
    uint32_t free_slots;  // announced slots less those sent to since
    uint32_t queued;      // microbatches waiting there or sent since
    uint64_t forward_ns;  // measured time of one forward pass
    uint64_t link_ns;     // smoothed time from FORWARD to ACCEPT
} pick_peer;

typedef struct pick_table {
    uint32_t count;
    pick_peer peer[PICK_MAX_PEERS];
} pick_table;

void pick_init(pick_table *f);
// Returns the peer's entry and adds it if needed; NULL: the table is full.
pick_peer *pick_add(pick_table *f, uint64_t member);
pick_peer *pick_find(pick_table *f, uint64_t member);
// Read-only lookup; NULL: unknown.
const pick_peer *pick_known(const pick_table *f, uint64_t member);
void pick_remove(pick_table *f, uint64_t member);
// Expected time until a microbatch sent now is computed there.
uint64_t pick_cost_ns(const pick_peer *peer);
// Expected time until the queue there and one more microbatch are computed.
uint64_t pick_wait_ns(const pick_peer *peer);
// The peer is reachable, has a free slot and is not in `tried`.
bool pick_is_usable(const pick_peer *peer, const uint64_t *tried, uint32_t tried_count);
// The cheapest usable peer. `salt` breaks ties. 0: there is none.
uint64_t pick_choose(const pick_table *f, const uint64_t *tried, uint32_t tried_count, uint64_t salt);
// Accounts for a microbatch sent to that peer.
void pick_sent(pick_table *f, uint64_t member);

#endif
