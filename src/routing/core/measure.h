// What a link costs, from samples of real traffic.
//
//     d(i,j) = (c_i + c_j)/2 + (delay_ij + delay_ji)/2 + 2 * size / (rate_ij + rate_ji)
//
// in microseconds, which fits a router's costs up to 17 minutes (papers: GWTF, section IV). Every part is a median of its
// latest samples, so that one or two from a paused process change nothing, and then an exponential average. What routing is
// told follows that only when it has left a band for a while: routing answers each change of a cost with messages.
//
// A link's cost belongs to its upstream peer, which tells the other end; so both know the same number:
//
//     measure_round_trip(&link, ns);                       // at both ends, whenever it is seen; the owner's counts
//     measure_transfer(&link, MEASURE_TO, bytes, ns);
//     if (measure_announce(&link, NULL, now, mine, theirs, size)) {
//         router_cost(r, now, peer, ROUTER_NEXT, link.cost);   // and the other end, when told `cost`:
//     }                                                        // router_cost(r, now, peer, ROUTER_PREVIOUS, cost)
//
// Pure: no clock, allocation or global; all numbers are integers. Everything is valid when it is all zeros.
#ifndef BRAID_ROUTING_MEASURE_H
#define BRAID_ROUTING_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MEASURE_WINDOW = 5,             // samples under one median: two of them may be nonsense
    MEASURE_WEIGHT = 8,             // the average moves by 1/8 of its distance to the median
    MEASURE_LEAP = 4,               // ... which counts for at most 4 times, and at least 1/4 of, the average
    MEASURE_UNIT_NS = 1000,         // of cost
    MEASURE_BULK_BYTES = 16 << 10,  // a shorter transfer says nothing of a rate
};
#define MEASURE_MAX ((int64_t)1 << 50)  // a larger sample counts as this: 13 days, or a petabyte a second

// One smoothed quantity.
typedef struct measure {
    int64_t sample[MEASURE_WINDOW];  // the latest, round robin
    int64_t average;
    uint8_t count, next;
} measure;

// A sample below 1 counts as 1.
void measure_add(measure *m, int64_t sample);
// 0: no sample yet.
static inline int64_t measure_value(const measure *m) { return m->average; }

// When a new cost is announced.
typedef struct measure_rule {
    uint32_t relative_ppm;  // the band: so many millionths of the announced cost ...
    int64_t absolute;       // ... and so much more, in units of cost, to either side of it
    int64_t patience;       // the cost stays outside for so long, always on the same side (in units of `now`)
} measure_rule;

// docs/results/drift.md says why these; `now` in nanoseconds.
extern const measure_rule measure_usual;

typedef enum measure_direction { MEASURE_TO, MEASURE_FROM, MEASURE_DIRECTIONS } measure_direction;

// A link to a neighbour as one end sees it.
typedef struct measure_link {
    measure round_trip, rate[MEASURE_DIRECTIONS];  // ns; bytes a second
    int64_t guessed_rate;                          // counts while none was measured; 0: no guess
    int64_t cost;                                  // announced; 0: nothing yet
    int64_t outside_since;
    int8_t side;  // of the band on which the cost is: -1, 0, 1
} measure_link;

// A small message went there and its answer came back, less what the other end says it waited; or the kernel's own
// figure. Who knows both one-way delays adds them up.
void measure_round_trip(measure_link *l, int64_t ns);
// `ns` from the first byte to the last at the receiver. When it was taken at the sender, from the first byte sent to the
// answer, `answered`: the round trip known so far is taken off.
void measure_transfer(measure_link *l, measure_direction direction, uint64_t bytes, int64_t ns, bool answered);

// The smoothed cost of a microbatch of `size` bytes, 1 .. ROUTER_MAX_COST; 0: nothing is known. `mine`, `theirs`: ns of
// computing one microbatch, here and there (measure_value); one that is 0 is taken to be like the other. Of two
// directions of which one was never used, likewise.
int64_t measure_cost(const measure_link *l, int64_t mine, int64_t theirs, uint64_t size);
// The owner's: true when `l->cost` is a new number that both ends' routers must hear. Call it after samples, and now and
// then: patience runs out by itself. `rule` NULL: measure_usual.
bool measure_announce(measure_link *l, const measure_rule *rule, int64_t now, int64_t mine, int64_t theirs,
                      uint64_t size);
// What a neighbour says may be anything: false when it is no cost.
bool measure_is_cost(int64_t cost);

#endif
