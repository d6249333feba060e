// Scheduled paths: the paths of an iteration's microbatches where lines are slow compared to
// computing, planned by simulating the iteration.
//
// A unit of flow (router.h) is a place in a steady state of many microbatches. Where a tensor
// occupies a line much longer than a relay computes, there are few microbatches. They queue for
// lines and slots, and the iteration lasts as long as the last one. So the data peers of a small
// swarm, which receive the cost of each line (LINES, docs/protocol.md), search for the paths
// themselves. Each uses the same numbers and finds the same result.
//
// The model of an iteration with given paths:
// 1. A tensor occupies its line for its transfer time if that is known, else for the cost of the
//    line. Tensors of one line are sent one after the other; lines are independent. Gradients
//    return over the same lines in the other direction. Where transfer times between all peers are
//    known, a tensor may be forwarded over a third peer if it arrives earlier (forwarding.h), and
//    occupies that peer's lines.
// 2. One tensor may wait before a relay, or be on its way to it, while all slots are taken. A
//    further one leaves when it has a slot, first come, first served. A slot is free again when its
//    gradient leaves.
// 3. All microbatches are ready at their data peers at time 0. Computing is part of a line's cost
//    (measure.h). The part of a cost beyond the transfer passes while the line is free again.
//
// Pure and deterministic: integers, no allocation, ties are broken by numbers. Peers are ordered by
// their member numbers.
#ifndef BRAID_ROUTING_SCHEDULE_H
#define BRAID_ROUTING_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SCHEDULE_MAX_PEERS = 64,  // data peers and relays
    SCHEDULE_MAX_STAGES = 16,
    SCHEDULE_MAX_WAYS = 64,     // microbatches of an iteration
    SCHEDULE_EFFORT = 1600000,  // tensors simulated in a search: about 50 ms
};

typedef struct schedule_peer {
    uint64_t member;    // number used by the host; rising
    uint16_t stage;     // 0: a data peer
    uint32_t capacity;  // slots of a relay
} schedule_peer;

typedef struct schedule schedule;

// Bytes for schedule_init, aligned to 8.
uint32_t schedule_bytes(void);
// An empty schedule with `stages` (2 .. SCHEDULE_MAX_STAGES), that of the data peers included.
schedule *schedule_init(void *memory, uint32_t stages);
// Returns the peer's index, or SCHEDULE_MAX_PEERS: no room. Members are added with rising numbers.
uint32_t schedule_peer_add(schedule *s, schedule_peer peer);
// A line to a peer of the next stage, or from the last stage to a data peer; cost in microseconds,
// 0: none.
void schedule_line(schedule *s, uint32_t from, uint32_t to, int64_t cost);
// Transfer time of a tensor between any two peers in microseconds, and the number of pieces of a
// forwarded tensor. Peers without transfer times forward nothing.
void schedule_tensor(schedule *s, uint32_t from, uint32_t to, int64_t time);
void schedule_pieces(schedule *s, uint32_t pieces);
// Adds a microbatch of that data peer; false: no room. Paths are numbered in the order of these
// calls.
bool schedule_way_add(schedule *s, uint32_t home);

// Searches for paths that end the iteration early. False: some path has no line.
bool schedule_search(schedule *s);
// The same with another effort than SCHEDULE_EFFORT, at least 4.
bool schedule_search_within(schedule *s, uint64_t effort);
// After a search: the member of that stage on a path, and the duration of the iteration in
// microseconds.
uint64_t schedule_member(const schedule *s, uint32_t way, uint32_t stage);
int64_t schedule_time(const schedule *s);
// Departure for that stage (1 or more), when a slot or the place before it is free.
int64_t schedule_leave(const schedule *s, uint32_t way, uint32_t stage);
// The forwarder to that stage (the number of stages: to the data peer), or of its gradient back.
// The receiver itself means the direct line.
uint64_t schedule_carrier(const schedule *s, uint32_t way, uint32_t stage, bool back);

#endif
