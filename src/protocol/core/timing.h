// Every timeout of the protocol (docs/protocol.md, Time); the election timeout is in raft/raft.h.
// Most limits follow from what was measured on the link or at the peer in question, and the
// constants are floors and factors. In the order in which they take effect:
//     heartbeat (0.5 s) < removal of a silent member on a steady link (1.5 s) < ACCEPT limit <
//     COMPLETE limit < probe < removal of a silent member on any link (10 s)
//
// The failure detector is phi accrual (Hayashibara et al. 2004): it estimates how improbable the
// present silence is, from the gaps between messages on this link, because a fixed limit is either
// late on fast links or wrong on slow ones. A false alarm costs one repeated forward pass; each
// doubles the limit of its link.
#ifndef BRAID_PEER_TIMING_H
#define BRAID_PEER_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#define TIMING_MS ((uint64_t)1000000)
#define TIMING_S ((uint64_t)1000000000)
#define TIMING_NEVER UINT64_MAX

// ---- links and the failure detector -------------------------------------------------------------
#define TIMING_HEARTBEAT_NS (500 * TIMING_MS)      // longest silence on a link
#define TIMING_BEAT_NS (2 * TIMING_S)              // a heartbeat goes out this often even between other messages: only it has readiness
#define TIMING_LEAST_WAKE_NS TIMING_MS             // a deadline is never nearer than this
#define TIMING_REDIAL_FIRST_NS (200 * TIMING_MS)   // a fallen link is dialled at once, then after this, doubling
#define TIMING_REDIAL_MOST_NS (5 * TIMING_S)
#define TIMING_DIAL_YIELD_NS (50 * TIMING_MS)      // of two members the newer one dials first; the older one after this
#define TIMING_LINK_GRACE_NS (1 * TIMING_S)        // a link that fell this recently may come back: its peer still counts as answering
#define TIMING_PAUSE_NS (1 * TIMING_S)            // a step this late means that this process was paused
#define TIMING_FRESH_NS (2 * TIMING_S)             // heard within this: alive, for decisions that cannot be undone
#define TIMING_SUSPECT_PHI 4.0                     // suspected: one false alarm in 10^4
#define TIMING_EXPEL_REFUSED_NS (400 * TIMING_MS)  // removed: its port has refused connections for so long
#define TIMING_EXPEL_SILENCE_NS (10 * TIMING_S)    // removed: silent for so long,
#define TIMING_EXPEL_PHI 8.0                       // ... and so improbably
#define TIMING_EXPEL_STEADY_NS (1500 * TIMING_MS)  // ... or for so long, on a link that was never silent for nearly as long
#define TIMING_QUIET_NS (3600 * TIMING_S)          // a false alarm is forgotten after an hour without another one

// ---- the log and its leader ---------------------------------------------------------------------
#define TIMING_REPEAT_NS (1 * TIMING_S)            // an unanswered message to the owner or the leader is sent again
#define TIMING_RETRY_NS (TIMING_REPEAT_NS / 10)    // retry of messages and requests that could not be sent
#define TIMING_ASK_LOG_NS (100 * TIMING_MS)        // between two GET LOG
#define TIMING_FIND_LEADER_NS (5 * TIMING_S)       // without a link to the leader: before other members are asked for it, and between two
#define TIMING_UNLED_NS (10 * TIMING_S)            // without a leader for so long: the user is told,
#define TIMING_UNLED_AGAIN_NS (120 * TIMING_S)     // ... and told again
#define TIMING_HOME_NS (60 * TIMING_S)             // the run is complete: how long a silent voter is waited for, at least
#define TIMING_AWAITED_NS (10 * TIMING_S)          // the user asked for the end, and private data have been away for so long: it ends unfinished

// ---- microbatches -------------------------------------------------------------------------------
#define TIMING_TRACE_NS (3 * TIMING_S)             // a stash that waits reports to its owner, so that a lost CANCEL cannot keep a slot
#define TIMING_PROBE_NS (500 * TIMING_MS)          // how long STATUS is waited for, at least
#define TIMING_FILL_NS (2 * TIMING_S)              // a replacement must get its activation within this, or another one is chosen,
#define TIMING_FILL_MOST_NS (120 * TIMING_S)       // ... or within this while the activation is reported to be on its way
#define TIMING_STARVED_NS (4 * TIMING_S)           // a new owner finds no slot for so long: a less advanced microbatch gives up its own
#define TIMING_NO_PEER_NS (2 * TIMING_S)           // the next stage is empty for so long: NO PEER upstream

// ---- forwarded transfers ------------------------------------------------------------------------
#define TIMING_FORWARD_NS (5 * TIMING_S)           // a forwarded transfer is taken for lost after this and a multiple of the expected time
#define TIMING_FORWARDING_NS (2 * TIMING_S)        // a forwarder's link counts as busy for so long after each piece
#define TIMING_PIECES_NS (60 * TIMING_S)           // incomplete transfers are dropped after so long without another piece
#define TIMING_PATHS_NS (500 * TIMING_MS)          // how often the paths for chunks are chosen again
#define TIMING_FORWARDER_REST_NS (60 * TIMING_S)   // a forwarder that failed is not used for so long,
#define TIMING_FORWARDER_SLOW_NS (600 * TIMING_S)  // ... and one that brought nearly no gain for so long

// ---- state and results --------------------------------------------------------------------------
#define TIMING_GET_NS (4 * TIMING_S)               // how long DATA is waited for, at least
#define TIMING_ANNOUNCED_NS (TIMING_REPEAT_NS / 5) // a result is asked for without its announcement after so long
#define TIMING_SOURCE_REST_NS (100 * TIMING_MS)    // a source that lacks the state is asked again after this,
#define TIMING_CORRUPT_REST_NS (10 * TIMING_S)     // ... and a corrupt one after this, when there is no other
#define TIMING_HEDGE_NS (500 * TIMING_MS)          // hedged request: a chunk so late, and twice its time, is asked of an idle source too
#define TIMING_ATTEST_NS (100 * TIMING_MS)          // how often the leader looks for members that need the hash of their state
#define TIMING_STANDBY_NS (50 * TIMING_MS)          // FINAL waits so long for a standby, in short iterations

// ---- rollback -----------------------------------------------------------------------------------
#define TIMING_LOST_NS (2 * TIMING_S)              // no member reports a stage's state for so long: the run rolls back
#define TIMING_BACK_MOST_NS (600 * TIMING_S)       // how long a silent member that may have it is waited for, at most

// ---- routing ------------------------------------------------------------------------------------
#define TIMING_ROUTE_DELAY_NS (50 * TIMING_MS)     // a usual one-way delay: the unit of the router's waiting
#define TIMING_ROUTE_GATHER_NS (10 * TIMING_MS)    // the router gathers messages for so long before it answers
#define TIMING_ROUTE_UPDATE_NS (500 * TIMING_MS)     // how often costs and capacity are looked at
#define TIMING_ROUTE_CLOCK_NS (2 * TIMING_S)         // longest silence on a link between routers: its delay is measured
#define TIMING_ROUTE_TELL_NS (2 * TIMING_S)        // flows are reported to the user at most this often,
#define TIMING_ROUTE_TELL_RESTLESS_NS (10 * TIMING_S) // ... and so often while the router has not settled
#define TIMING_VIEW_PERIOD_NS (1 * TIMING_S)       // how often a partial view looks for better neighbours, while it finds some
#define TIMING_VIEW_TIMEOUT_NS (3 * TIMING_S)     // a VIEW without an answer for so long has failed
#define TIMING_VIEW_SPACING_NS (TIMING_VIEW_PERIOD_NS / 8)  // rate limit of VIEW: one message per so long,
#define TIMING_VIEW_BURST_NS (2 * TIMING_VIEW_PERIOD_NS)    // ... counted over so long
#define TIMING_BANDWIDTH_LOST_NS (20 * TIMING_S)   // a bandwidth probe without an answer for so long is lost
#define TIMING_BANDWIDTH_QUICK_NS (50 * TIMING_MS) // a short probe that takes less is followed by a long one
#define TIMING_BANDWIDTH_AGAIN_NS (60 * TIMING_S)  // between the first probes of a link,
#define TIMING_BANDWIDTH_RENEW_NS (300 * TIMING_S) // ... and between later ones: bandwidth changes,
#define TIMING_BANDWIDTH_RENEW_EACH_NS (16 * TIMING_S) // ... at least so long for each member
#define TIMING_LINKSTATE_NS (10 * TIMING_S)            // link bandwidths are advertised again, in case they were lost

// Smoothed gaps between messages on a link. φ measures how improbable the present gap is.
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
// The same with another phi, to see what one would bring (braid bench repair).
void timing_heard_at(timing_link *link, uint64_t now_ns, double phi);
bool timing_suspect_at(const timing_link *link, uint64_t now_ns, double phi);
// Before this, silence is no suspicion for sure.
uint64_t timing_sure_until(const timing_link *link);
void timing_accepted(timing_link *link, uint64_t delay_ns);

void timing_got(timing_link *link, uint64_t delay_ns);
// No answer after so long, and the peer is alive: its link is slow, and to ask again sooner would
// only fill it. The next limit is about twice as long.
void timing_accept_overdue(timing_link *link, uint64_t waited_ns);
void timing_get_overdue(timing_link *link, uint64_t waited_ns);

// Rule D3: the silence after which a member is removed. Three times the longest silence of the
// link, once it is known for a while.
uint64_t timing_expel_limit(const timing_link *link);

// How long DATA is waited for after GET.
uint64_t timing_get_limit(const timing_link *link);
// How long a sender waits for ACCEPT after it sent a tensor of `bytes`.
uint64_t timing_accept_limit(const timing_link *link, uint64_t bytes);
// How long a sender waits for COMPLETE after an ACCEPT that promised `eta_ns`. This is the timeout
// of COMPLETE.
uint64_t timing_complete_limit(const timing_link *link, uint64_t eta_ns);
// How long an owner lets a microbatch be silent before it probes the path.
uint64_t timing_owner_limit(uint64_t slowest_step_ns);

// Exponential smoothing of a measured cost.
uint64_t timing_smooth(uint64_t old_ns, uint64_t new_ns);

#endif
