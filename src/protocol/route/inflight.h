// Records of microbatches: in flight at a member, under way to it, and at their owner. The folder
// microbatch owns them; they are defined here because routing reads them.
#ifndef BRAID_PROTOCOL_ROUTE_INFLIGHT_H
#define BRAID_PROTOCOL_ROUTE_INFLIGHT_H

#include "routing/core/pick.h"
#include "protocol/cluster/cluster.h"

enum { PEER_MAX_TRIED = 8 };

typedef enum work_state { WORK_NONE, WORK_QUEUED, WORK_RUNNING, WORK_DONE } work_state;

// Transfer of a tensor to the next member. The sender keeps the tensor until COMPLETE (rule M2).
typedef enum send_state {
    SEND_NONE,
    SEND_WAITING,   // for a member with a free slot
    SEND_SENT,      // waits for ACCEPT
    SEND_ACCEPTED,  // waits for COMPLETE
    SEND_DONE,
    SEND_LOST,      // the receiver died or refused: the owner got SUSPECT and decides
} send_state;

typedef struct tensor_sending {
    uint8_t state;
    member_id to;
    member_id by;           // forwarder, which gets it in pieces as transfer `serial`; 0: sent directly
    uint32_t serial;
    member_id failed;       // the forwarder that failed last
    uint32_t failures;      // of live forwarders
    uint64_t carried_ns;    // time limit of the forwarded transfer
    uint64_t direct_ns;   // expected time of a direct transfer; 0: not known
    uint64_t sent_ns, deadline_ns, waiting_since_ns;
    uint32_t links;         // number of links with `to`, when it was sent
    uint32_t trusted;       // how often a resend was postponed because the tensor is still under way (rule D8)
    uint32_t tried_count;
    member_id tried[PEER_MAX_TRIED];
} tensor_sending;

// The member at the other end of the link that the tensor occupies: its forwarder or its receiver;
// 0: none.
static inline member_id send_first_hop(const tensor_sending *s) { return s->state != SEND_SENT ? 0 : s->by != 0 ? s->by : s->to; }
static inline bool send_pending(const tensor_sending *s) { return s->state == SEND_WAITING || s->state == SEND_SENT || s->state == SEND_ACCEPTED; }

typedef struct inflight_microbatch {
    bool used;
    uint32_t serial;         // grows when the entry is freed, so that late job results are recognised
    uint64_t owner_term;
    member_id owner;
    message_path path;
    uint16_t forward_to, back_to;
    bool repair;
    uint32_t slot;
    blob_id x, y, dy, dx;
    uint64_t y_hash, dx_hash;
    uint8_t forward, backward, weight;  // work_state
    bool counted;            // in the contribution set
    bool overflow;
    bool cancelled;          // freed when its job ends
    bool taking_back;        // counted, and left out by CLOSE: it is computed again and subtracted
    uint32_t rev, refused_rev;
    uint64_t commit_term;    // ownership epoch of the COMMIT that gave `rev`
    member_id upstream, downstream;  // the members that wait for COMPLETE of the forward and of the backward pass
    uint32_t ahead_count;
    message_ahead ahead[WIRE_MAX_AHEAD];  // the owner's planned path from here: the next stage first, the owner last
    member_id back_from, back_by;         // ... and the forwarder of the gradient to the sender; 0: chosen here
    tensor_sending on, back;
    uint64_t touched_ns;     // last change; a stash that waits reports after TIMING_TRACE_NS
    uint64_t spent_ns;       // compute time spent on it
} inflight_microbatch;

enum { PEER_MAX_ARRIVALS = 32 };  // forwarded tensors under way to this peer

// A tensor under way to this peer by a forwarder.
typedef struct forwarded_arrival {
    member_id origin;
    uint32_t serial;
    member_id me;            // this peer's member id when its first message came,
    uint64_t fence;          // ... and the newest rollback then
    bool announced, joining; // its FORWARD or BACKWARD came; JOB_JOIN puts its pieces together
    uint16_t count, got;     // pieces
    blob_id piece[WIRE_MAX_PIECES];
    uint64_t touched_ns;
    uint8_t kind;
    uint64_t iteration;
    union {
        message_forward forward;
        message_backward backward;
    } u;
} forwarded_arrival;

typedef enum owned_phase {
    OWNED_IDLE,       // not launched
    OWNED_FORWARD,    // under way to its owner
    OWNED_LOSS,       // at its owner: the loss is computed
    OWNED_BACKWARD,   // the gradient is on its way
    OWNED_COMMITTED,  // the owner's backward pass is done: COMMIT to the whole path
    OWNED_SETTLED,
} owned_phase;

typedef struct owned_stage {
    member_id member;    // the known holder, 0: none
    bool forward_done, returning, backward_done, counted;
    bool committed;      // COMMIT was sent to `member`
    uint32_t rev;
    uint64_t chosen_ns;  // when a repair chose `member`; 0: routing chose it
    bool dy_ordered;     // the next stage got the order to send the gradient since then
    uint64_t eta_ns;     // 1 + the estimate of its last TRACE; 0: none yet
    // answer to the present probe
    bool answered, has_x, has_y, has_dy, has_dx, working, forwarding;
} owned_stage;

typedef struct owned_microbatch {
    uint8_t phase;
    bool is_void, overflow;
    blob_id home, gradient;      // output of the last stage; gradient of the loss
    uint64_t gradient_hash;
    tensor_sending back;                // the gradient to the last stage
    uint32_t tokens;
    double loss;
    uint64_t deadline_ns;        // when the path is probed
    uint64_t probe_ns;           // when the present probe ends, 0: none
    uint64_t nonce;
    uint64_t settled_ns;         // when SETTLED was last sent
    uint32_t backoff;            // probes that found nothing wrong; each makes the next one later
    uint64_t progress_since_ns;        // since when its members report progress that does not arrive
    bool adopted;                // taken over from another owner: members hold it already
    owned_stage *stage;          // [stages]
} owned_microbatch;

// Slots of a dead owner that moved to this peer within an iteration. It gives no order before every
// member has sent HOLDINGS (rules O2, O3).
typedef struct failover_state {
    bool open;
    uint64_t term;               // of the newest OWNER entry
    uint64_t asked_ns;
    bool slot[WIRE_MAX_SLOTS];
    uint32_t answers;
    member_id *answer;           // [WIRE_MAX_MEMBERS]
} failover_state;

// Private data: presence of the peer of one data shard (rules P2, P7). The assignment of shards is
// in run_state.
typedef struct share_state {
    bool awaited;          // its peer is no member, and the user knows
    uint64_t awaited_ns;   // since when
    // the leader, elastic
    uint64_t missed_ns;    // since when its slots have no owner; 0: they have one
    bool left_out;         // the present iteration goes on without it
} share_state;

typedef struct peer_microbatches {
    pick_table flow;              // members of the next stage: fallback routing
    inflight_microbatch *inflight;             // [microbatches]
    uint64_t inflight_set[WIRE_SET_WORDS];  // those that are used
    uint32_t slots_used;
    uint8_t *slot_taken;    // [capacity]
    uint64_t forward_ns, backward_ns, weight_ns;  // smoothed cost of a job
    uint64_t progress;
    message_set k;          // contribution set of the sum at this member
    uint32_t counted;
    uint64_t iteration_ns;  // when the iteration began here
    bool can_take;
    uint64_t can_take_sent; // iteration + 1
    owned_microbatch *owned;           // [microbatches]
    failover_state failover;
    uint64_t starved_ns;    // since when a slot of a dead owner finds no free slot here, 0: it does
    share_state share[WIRE_MAX_SLOTS];  // [run.shares]
    forwarded_arrival arrival[PEER_MAX_ARRIVALS];
    uint32_t arrivals_used; // one bit each
    uint64_t useful_ns, wasted_ns, wasted;
    uint64_t carried, carried_bytes;
    uint64_t carried_until_ns;  // the link may be busy with transfers for others until then
} peer_microbatches;

// Iterates over the microbatches in flight at this member, ascending. The body may free the present
// one.
#define EACH_INFLIGHT(p, m) \
    for (uint32_t m = bitset_next((p)->microbatch->inflight_set, 0, (p)->microbatches); m < (p)->microbatches; m = bitset_next((p)->microbatch->inflight_set, m + 1, (p)->microbatches))

#endif
