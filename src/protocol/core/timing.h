// Every timeout of the protocol, and nothing else (docs/protocol.md, Time). All are derived from what was measured on the
// link or at the peer in question; the constants are floors and factors, in the order in which they bite:
//     heartbeat (0.5 s) < expulsion by silence on a steady line (1.5 s) < accept limit < COMPLETE limit < probe
//     < expulsion by silence on any line (10 s)
#ifndef BRAID_PEER_TIMING_H
#define BRAID_PEER_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#define TIMING_MS ((uint64_t)1000000)
#define TIMING_S ((uint64_t)1000000000)
#define TIMING_NEVER UINT64_MAX

#define TIMING_HEARTBEAT_NS (500 * TIMING_MS)      // at most this long without a word on a link
#define TIMING_BEAT_NS (2 * TIMING_S)              // and a heartbeat after this even between other words: only it says who is ready
#define TIMING_REDIAL_FIRST_NS (200 * TIMING_MS)   // after a link fell: at once, then this, doubling
#define TIMING_REDIAL_MOST_NS (5 * TIMING_S)
#define TIMING_ASLEEP_NS (1 * TIMING_S)            // called so much later than asked for, a peer stood still itself
#define TIMING_FRESH_NS (2 * TIMING_S)             // who was heard within this is there, for decisions that cannot be taken back
#define TIMING_EXPEL_REFUSED_NS (400 * TIMING_MS)  // its port has answered "nobody here" for so long
#define TIMING_EXPEL_SILENCE_NS (10 * TIMING_S)    // silent and unreachable for so long
#define TIMING_EXPEL_PHI 8.0                       // ... and so surprisingly
#define TIMING_EXPEL_STEADY_NS (1500 * TIMING_MS)  // ... or for so long, on a line that was never silent for nearly as long
#define TIMING_LOST_NS (2 * TIMING_S)              // nobody has a stage's state for so long, by the words of all: the run goes back
#define TIMING_BACK_MOST_NS (600 * TIMING_S)       // whose silence leaves it open is waited for at most so long
#define TIMING_HOME_NS (60 * TIMING_S)             // all is computed: a voter that is only silent is waited for, at least
#define TIMING_AWAITED_NS (10 * TIMING_S)          // private data are gone for so long, and the run is to end: it ends without its last iteration
#define TIMING_REPEAT_NS (1 * TIMING_S)            // an unanswered word to owner or leader is said again
#define TIMING_TRACE_NS (3 * TIMING_S)             // a stash that waits tells its owner, so that no lost CANCEL keeps a slot
#define TIMING_PROBE_NS (500 * TIMING_MS)          // how long STATUS is waited for, at least
#define TIMING_FILL_NS (2 * TIMING_S)              // a replacement gets its activation within this, or another one is chosen
#define TIMING_FILL_MOST_NS (120 * TIMING_S)       // ... or this, while it is said to be on its way
#define TIMING_STARVED_NS (4 * TIMING_S)            // taken over and without a slot for so long: one less advanced gives its own
#define TIMING_GET_NS (4 * TIMING_S)               // how long DATA is waited for, at least
#define TIMING_SHADOW_NS (50 * TIMING_MS)          // short iterations end so much later, at most, for a shadow that follows them
#define TIMING_QUIET_NS (3600 * TIMING_S)          // an hour without a false alarm takes one back
#define TIMING_ROUTE_DELAY_NS (50 * TIMING_MS)     // a usual one-way delay: what the router counts its waiting in
#define TIMING_ROUTE_GATHER_NS (10 * TIMING_MS)    // it waits so long for what else comes before it answers
#define TIMING_ROUTE_LOOK_NS (500 * TIMING_MS)     // how often costs and capacity are looked at
#define TIMING_ROUTE_SAY_NS (2 * TIMING_S)         // a link between routers is not silent for longer: its delay is measured
#define TIMING_VIEW_PERIOD_NS (1 * TIMING_S)       // how often a view looks for better neighbours, while that changes something
#define TIMING_VIEW_PATIENCE_NS (3 * TIMING_S)     // who has not answered it by then will not
#define TIMING_ROUTE_TELL_NS (2 * TIMING_S)        // the user is not told more often where units go
#define TIMING_ROUTE_TELL_RESTLESS_NS (10 * TIMING_S) // ... and so often while its router does not rest
#define TIMING_NO_PEER_NS (2 * TIMING_S)           // a stage empty for so long: DENY(NO_PEER) upstream

// Gaps between words on a link, smoothed, and how surprising the present one is.
typedef struct timing_link {
    double gap_mean_ns, gap_deviation_ns;
    uint64_t heard_ns;
    uint64_t accept_ns;   // smoothed time from FORWARD or BACKWARD to ACCEPT, payload included; 0: not measured
    uint64_t get_ns;      // smoothed time from GET to DATA; 0: not measured
    uint64_t first_ns;    // when it was first heard
    uint64_t longest_ns;  // gap; each quiet hour halves it
    uint32_t false_alarms;  // suspicions that turned out wrong; each doubles the limit, and a quiet hour halves it
    uint64_t quiet_ns;      // since when there was none, and nothing was halved
} timing_link;

void timing_heard(timing_link *link, uint64_t now_ns);
// -log10 of the probability that a living peer is silent for so long (phi accrual, normal tail).
double timing_phi(const timing_link *link, uint64_t now_ns);
bool timing_suspect(const timing_link *link, uint64_t now_ns);
#define TIMING_SUSPECT_PHI 4.0                     // one wrong alarm in 10^4: it costs one forward
// The same with another phi, to see what one would bring (braid bench repair).
void timing_heard_at(timing_link *link, uint64_t now_ns, double phi);
bool timing_suspect_at(const timing_link *link, uint64_t now_ns, double phi);
// Before this, silence is no suspicion for sure.
uint64_t timing_sure_until(const timing_link *link);
void timing_accepted(timing_link *link, uint64_t delay_ns);

void timing_got(timing_link *link, uint64_t delay_ns);
// No answer after so long, and the peer is alive: its line is slow, and to ask again sooner would only fill it. The next limit
// is about twice as long.
void timing_accept_overdue(timing_link *link, uint64_t waited_ns);
void timing_get_overdue(timing_link *link, uint64_t waited_ns);

// How long silence is waited for before it expels: three times the longest that the line has had, once it is known for a while.
uint64_t timing_expel_limit(const timing_link *link);

// How long DATA is waited for after GET.
uint64_t timing_get_limit(const timing_link *link);
// How long a sender waits for ACCEPT after it sent a tensor of `bytes`.
uint64_t timing_accept_limit(const timing_link *link, uint64_t bytes);
// How long a sender waits for COMPLETE after an ACCEPT that promised `eta_ns`. This is the timeout of COMPLETE.
uint64_t timing_complete_limit(const timing_link *link, uint64_t eta_ns);
// How long an owner lets a microbatch be silent before it probes the path.
uint64_t timing_owner_limit(uint64_t slowest_step_ns);

// Exponential smoothing of a measured cost.
uint64_t timing_smooth(uint64_t old_ns, uint64_t new_ns);

#endif
