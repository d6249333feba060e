// Link costs from samples of real traffic.
//
//     d(i,j) = (c_i + c_j)/2 + (delay_ij + delay_ji)/2 + 2 * size / (rate_ij + rate_ji)
//
// The unit is a microsecond, which fits ROUTER_MAX_COST up to 17 minutes (GWTF, section IV). Each
// term is the median of its latest samples, then an exponential average. One or two outliers, for
// example of a paused process, change nothing. The router receives a new cost only after it stayed
// outside a band for a while, because routing answers each change with messages.
//
// The upstream peer owns the cost of a link and sends it to the other end, so that both use one
// number:
//
//     measure_round_trip(&link, ns);                       // at both ends; the owner's counts
//     measure_transfer(&link, MEASURE_TO, bytes, ns);
//     if (measure_announce(&link, NULL, now, mine, theirs, size)) {
//         router_cost(r, now, peer, ROUTER_NEXT, link.cost);
//         ... send link.cost; the receiver calls router_cost(r, now, peer, ROUTER_PREVIOUS, cost)
//     }
//
// Pure: no clock, allocation or global state; integers only. All zeros is a valid initial state.
#ifndef BRAID_ROUTING_MEASURE_H
#define BRAID_ROUTING_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MEASURE_WINDOW = 5,             // samples under one median: tolerates two outliers
    MEASURE_WEIGHT = 8,             // the average moves by 1/8 of its distance to the median
    MEASURE_LEAP = 4,               // the median is clamped to 4 times, and 1/4 of, the average
    MEASURE_UNIT_NS = 1000,         // nanoseconds in a unit of cost
    MEASURE_BULK_BYTES = 16 << 10,  // shorter transfers do not reveal a rate
};
// larger samples are clamped: 13 days, or a petabyte a second
#define MEASURE_MAX ((int64_t)1 << 50)

// A smoothed quantity.
typedef struct measure {
    int64_t sample[MEASURE_WINDOW];  // ring buffer of the latest samples
    int64_t average;
    uint8_t count, next;
} measure;

// Samples below 1 count as 1.
void measure_add(measure *m, int64_t sample);
// 0: no sample yet.
static inline int64_t measure_value(const measure *m) { return m->average; }

// Hysteresis of the announced cost.
typedef struct measure_rule {
    uint32_t relative_ppm;  // half-width of the band: millionths of the announced cost
    int64_t absolute;       // plus this many units of cost
    int64_t patience;       // time that the cost must stay on one side of the band, in units of `now`
} measure_rule;

// The default: a band of 10 % and 0.1 ms, for 2 s. `now` is in nanoseconds.
extern const measure_rule measure_usual;

typedef enum measure_direction { MEASURE_TO, MEASURE_FROM, MEASURE_DIRECTIONS } measure_direction;

// A link to a neighbour, as seen from one end.
typedef struct measure_link {
    measure round_trip, rate[MEASURE_DIRECTIONS];  // nanoseconds; bytes a second
    int64_t guessed_rate;                          // used until a rate was measured; 0: none
    int64_t cost;                                  // announced; 0: none yet
    int64_t outside_since;
    int8_t side;  // side of the band that the cost is on: -1, 0 (inside), 1
} measure_link;

// Adds a round trip of a small message, less the waiting time that the other end reports. The
// kernel's estimate, or the sum of two known one-way delays, will do as well.
void measure_round_trip(measure_link *l, int64_t ns);
// Adds a transfer that took `ns` from its first to its last byte at the receiver. `answered`: the
// sender measured `ns` from its first byte to the answer, so the known round trip is subtracted.
void measure_transfer(measure_link *l, measure_direction direction, uint64_t bytes, int64_t ns, bool answered);

// The smoothed cost of a microbatch of `size` bytes, 1 .. ROUTER_MAX_COST; 0: nothing is known.
// `mine`, `theirs`: computing time of one microbatch at both ends in ns (measure_value). A missing
// computing time, or a missing rate of one direction, is taken from the other end or direction.
int64_t measure_cost(const measure_link *l, int64_t mine, int64_t theirs, uint64_t size);
// For the owner of the link: true if `l->cost` is a new number that both ends' routers must
// receive. Call it after samples and from time to time, because the band's time limit passes
// without samples. `rule` NULL: measure_usual.
bool measure_announce(measure_link *l, const measure_rule *rule, int64_t now, int64_t mine, int64_t theirs,
                      uint64_t size);
// Validates a cost received from a neighbour.
bool measure_is_cost(int64_t cost);

#endif
