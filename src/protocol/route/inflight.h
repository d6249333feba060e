// Microbatches as data: at a member, on their way, at their owner. This is the part of the folder microbatch; it is defined
// here because routing looks at it as well.
#ifndef BRAID_PROTOCOL_ROUTE_INFLIGHT_H
#define BRAID_PROTOCOL_ROUTE_INFLIGHT_H

#include "flow/flow.h"
#include "protocol/cluster/cluster.h"

enum { PEER_MAX_TRIED = 8 };

typedef enum work_state { WORK_NONE, WORK_QUEUED, WORK_RUNNING, WORK_DONE } work_state;

// Sending a tensor on: who has it and who guards it.
typedef enum send_state {
    SEND_NONE,
    SEND_WAITING,   // for somebody with a slot
    SEND_SENT,      // waits for ACCEPT
    SEND_ACCEPTED,  // waits for COMPLETE
    SEND_DONE,
    SEND_LOST,      // the receiver died or refused; the owner was told and will say what to do
} send_state;

typedef struct tensor_sending {
    uint8_t state;
    member_id to;
    member_id by;           // it goes in pieces by way of this member, as parcel `serial`; 0: straight
    uint32_t serial;
    member_id failed;       // who was to carry it last, and did not bring it there
    uint32_t failures;      // of carriers that live
    uint64_t carried_ns;    // it should be taken within this
    uint64_t straight_ns;   // the own line would take so long; 0: not known
    uint64_t sent_ns, deadline_ns, waiting_since_ns;
    uint32_t links;         // of `to`, when it was sent
    uint32_t trusted;       // so often it was not sent again because it is still on its way
    uint32_t tried_count;
    member_id tried[PEER_MAX_TRIED];
} tensor_sending;

// The member on whose line it is; 0: none.
static inline member_id send_line(const tensor_sending *s) { return s->state != SEND_SENT ? 0 : s->by != 0 ? s->by : s->to; }
static inline bool send_pending(const tensor_sending *s) { return s->state == SEND_WAITING || s->state == SEND_SENT || s->state == SEND_ACCEPTED; }

typedef struct inflight_microbatch {
    bool used;
    uint32_t serial;         // grows when the entry is freed, so that late job answers are known as such
    uint64_t owner_term;
    member_id owner;
    message_path path;
    uint16_t forward_to, back_to;
    bool repair;
    uint32_t slot;
    blob_id x, y, dy, dx;
    uint64_t y_hash, dx_hash;
    uint8_t forward, backward, weight;  // work_state
    bool counted;            // in K
    bool overflow;
    bool cancelled;          // free it as soon as its job ends
    bool taking_back;        // counted, and left out by CLOSE: computed once more, to be subtracted
    uint32_t rev, refused_rev;
    uint64_t commit_term;    // of the owner whose COMMIT gave `rev`
    member_id upstream, downstream;  // who waits for COMPLETE(F), COMPLETE(B)
    uint32_t ahead_count;
    message_ahead ahead[WIRE_MAX_AHEAD];  // its owner's plan for its way on, the next stage first, home last
    member_id back_from, back_by;         // ... for the gradient to whom it came from; 0: the sender chooses
    tensor_sending on, back;
    uint64_t touched_ns;     // last change, for the waiting-stash TRACE
    uint64_t spent_ns;       // compute booked on it so far
} inflight_microbatch;

enum { PEER_MAX_ARRIVALS = 32 };  // tensors on their way that a forwarder carries

// A tensor that somebody carries, on its way to me.
typedef struct forwarded_arrival {
    member_id origin;
    uint32_t serial;
    member_id me;            // who I was when it was first heard of,
    uint64_t fence;          // and as of which past
    bool announced, joining; // by its FORWARD or BACKWARD; its pieces are being put together
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
    OWNED_FORWARD,    // under way to home
    OWNED_LOSS,       // home, loss is computed
    OWNED_BACKWARD,   // the gradient is on its way
    OWNED_COMMITTED,  // own B is done: COMMIT to everybody on the path
    OWNED_SETTLED,
} owned_phase;

typedef struct owned_stage {
    member_id member;    // holder as far as known, 0: none
    bool forward_done, returning, backward_done, counted;
    bool committed;      // COMMIT was sent to `member`
    uint32_t rev;
    uint64_t chosen_ns;  // when a repair chose `member`, 0: routing did
    bool dy_ordered;     // since then its right neighbour was told to send the gradient
    uint64_t eta_ns;     // 1 + what its last TRACE promised, 0: none came
    // answers to the present probe
    bool answered, has_x, has_y, has_dy, has_dx, working, forwarding;
} owned_stage;

typedef struct owned_microbatch {
    uint8_t phase;
    bool is_void, overflow;
    blob_id home, gradient;      // x of the ends, dx of the head (this owner's own record)
    uint64_t gradient_hash;
    tensor_sending back;                // the gradient to the last stage
    uint32_t tokens;
    double loss;
    uint64_t deadline_ns;        // then the path is probed
    uint64_t probe_ns;           // the present probe ends then, 0: none
    uint64_t nonce;
    uint64_t settled_ns;         // when SETTLED was last sent
    uint32_t backoff;            // probes that found nothing wrong; each makes the next one later
    uint64_t believed_ns;        // since when its members say that they go on, and nothing has come of it
    bool adopted;                // of another owner's: members hold it already
    owned_stage *stage;          // [stages]
} owned_microbatch;

// Slots that became mine in the middle of an iteration: nothing is ordered before every member has told what it holds.
typedef struct failover_state {
    bool open;
    uint64_t term;               // of the newest OWNER entry
    uint64_t asked_ns;
    bool slot[WIRE_MAX_SLOTS];
    uint32_t answers;
    member_id *answer;           // [WIRE_MAX_MEMBERS]
} failover_state;

// Private data: whose a share of the slots is, and whether it is there.
typedef struct share_state {
    bool awaited;          // told: its peer is no member
    uint64_t awaited_ns;   // since when
    // the leader, elastic
    uint64_t missed_ns;    // since when its slots have no owner, 0: they have
    bool left_out;         // the present iteration waits no longer
} share_state;

typedef struct peer_microbatches {
    flow flow;              // next stage
    inflight_microbatch *inflight;             // [microbatches]
    uint64_t inflight_set[WIRE_SET_WORDS];  // those that are used
    uint32_t slots_used;
    uint8_t *slot_taken;    // [capacity]
    uint64_t forward_ns, backward_ns, weight_ns;  // smoothed cost of a job
    uint64_t progress;
    message_set k;          // contribution set: what the sum here counts
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
    uint64_t carried_until_ns;  // the line may be busy with what it forwards for others until then
} peer_microbatches;

// Each microbatch that is held here, in order; the loop may free it.
#define EACH_INFLIGHT(p, m) \
    for (uint32_t m = bitset_next((p)->microbatch->inflight_set, 0, (p)->microbatches); m < (p)->microbatches; m = bitset_next((p)->microbatch->inflight_set, m + 1, (p)->microbatches))

#endif
