// The ways of an iteration's microbatches where lines are slow beside computing: planned as a whole by whoever sees all lines.
//
// A unit of flow (router.h) is a place in a steady state of many microbatches. Where a tensor is on a line for much longer than a
// relay computes there are few, they queue for lines and slots, and the iteration lasts as long as the last one of them. So data
// peers of a small swarm, who are told what each line costs (LINES, docs/protocol.md), look for the ways themselves: all for
// all microbatches, each from the same numbers, so that they find the same without asking each other.
//
// What an iteration with given ways would take:
//   1. A tensor occupies its line for as long as it is said to take there, else for as long as the line costs; tensors of one line go one
//      after the other, lines do not disturb each other. The way back is the way there, over the same lines the other way. Where it is
//      said what tensors take between any two, a tensor goes by way of somebody else if it is there sooner so (detour.h), and occupies his lines.
//   2. One tensor may wait before each relay, or be on its way there, when all slots are taken; another one leaves for it only when
//      that has a slot, first come, first served. A slot is free again when its gradient goes on.
//   3. All microbatches are ready at home at time 0. Computing is part of what a line costs (measure.h), and what that is beyond
//      what tensors take passes while the line is free again.
//
// Pure, and the same everywhere: integers, no allocation, every choice ends at a number. Peers stand in the order of their member
// numbers, so nothing depends on who came first.
#ifndef BRAID_ROUTING_SCHEDULE_H
#define BRAID_ROUTING_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SCHEDULE_MAX_PEERS = 64,   // data peers and relays
    SCHEDULE_MAX_STAGES = 16,
    SCHEDULE_MAX_WAYS = 64,    // microbatches of an iteration
    SCHEDULE_EFFORT = 1600000,  // tensors followed in a search: some 50 milliseconds
};

typedef struct schedule_peer {
    uint64_t member;    // what the host calls it; rising
    uint16_t stage;     // 0: a data peer
    uint32_t capacity;  // a relay's slots
} schedule_peer;

typedef struct schedule schedule;

// Of the memory that schedule_init needs, aligned to 8.
uint32_t schedule_bytes(void);
// An empty one with `stages` (2 .. SCHEDULE_MAX_STAGES), the data peers' counted.
schedule *schedule_init(void *memory, uint32_t stages);
// Its index, or SCHEDULE_MAX_PEERS when there is no room. Members are added with rising numbers.
uint32_t schedule_peer_add(schedule *s, schedule_peer peer);
// From one of a stage to one of the next, or from the last stage home; in microseconds, 0: no line.
void schedule_line(schedule *s, uint32_t from, uint32_t to, int64_t cost);
// What a tensor takes on the line from one to any other, in microseconds; and in how many pieces it is carried. Lines of which nobody
// said it carry for nobody else.
void schedule_tensor(schedule *s, uint32_t from, uint32_t to, int64_t time);
void schedule_pieces(schedule *s, uint32_t pieces);
// A microbatch of that data peer; false when there is no room. Ways are numbered in the order in which they are added.
bool schedule_way_add(schedule *s, uint32_t home);

// Looks for ways that end the iteration early. False: some way has no line to go on.
bool schedule_search(schedule *s);
// After a search: the member of that stage on a way, and the time of the iteration in microseconds.
uint64_t schedule_member(const schedule *s, uint32_t way, uint32_t stage);
int64_t schedule_time(const schedule *s);
// When it leaves for that stage (1 or more): there is a slot, or the place before them.
int64_t schedule_leave(const schedule *s, uint32_t way, uint32_t stage);
// Who is to carry it to that stage from the one before (the number of stages: home), or its gradient from there back; who it is for: nobody.
uint64_t schedule_carrier(const schedule *s, uint32_t way, uint32_t stage, bool back);

#endif
