// The messages of an iteration (docs/protocol.md defines when they are sent). Names follow the GWTF
// paper where it has one. A message is a header, one body, and for some kinds a payload: a tensor
// that travels beside it as a blob.
#ifndef BRAID_WIRE_MESSAGE_H
#define BRAID_WIRE_MESSAGE_H

#include "base/id.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stdint.h>

// Log index of the MEMBER entry that admitted the member; 0: no member.
typedef uint64_t member_id;

#define WIRE_MESSAGES(X)                                                                                       \
    X(FORWARD, forward) X(BACKWARD, backward) X(ACCEPT, accept) X(COMPLETE, complete) X(DENY, deny)            \
    X(DENY_COMMIT, deny_commit) X(DENY_RESUME, deny_resume) X(DENY_GET, deny_get) X(NO_PEER, no_peer)         \
    X(EVICTED, evicted) X(TRACE, trace) X(CANCEL, cancel) X(SUSPECT, suspect) X(PROBE, probe) X(STATUS, status) X(RESUME, resume)  \
    X(COMMIT, commit) X(COUNTED, counted) X(SETTLED, settled) X(BEGIN_AGGREGATION, begin)                      \
    X(MISMATCH, mismatch) X(RESULT, result) X(REDUCED, reduced) X(STATE, state) X(GET, get) X(DATA, data)      \
    X(HEARTBEAT, heartbeat) X(CAN_TAKE, can_take) X(GET_LOG, get_log) X(LOG, log) X(JOIN, join) X(LEAVE, leave) X(DISMISS, dismiss) \
    X(ROUTE, route) X(VIEW, view) X(SURVEY, survey) X(HOLDINGS, holdings) X(LINES, lines) X(SOUND, sound) X(SOUNDED, sounded) \
    X(CARRY, carry) X(CARRY_CHUNKS, carry_chunks) X(UNCARRIED, uncarried) X(UNCARRIED_CHUNKS, uncarried_chunks) \
    X(VOTE, vote) X(VOTED, voted) X(APPEND, append) X(APPENDED, appended) X(HAND_OVER, hand_over) X(LEADER, leader)

// Kinds about one microbatch that have no tensor. Their bodies have a `subject`.
#define WIRE_SUBJECT_MESSAGES(X)                                                                               \
    X(ACCEPT, accept) X(COMPLETE, complete) X(DENY, deny) X(DENY_COMMIT, deny_commit)                          \
    X(DENY_RESUME, deny_resume) X(NO_PEER, no_peer) X(EVICTED, evicted) X(TRACE, trace) X(CANCEL, cancel)      \
    X(PROBE, probe) X(STATUS, status) X(RESUME, resume) X(COMMIT, commit) X(COUNTED, counted)                  \
    X(SETTLED, settled)

// Kinds between voters. Their bodies have the log stores `to` and `from`, and the `term`.
#define WIRE_VOTER_MESSAGES(X) \
    X(VOTE, vote) X(VOTED, voted) X(APPEND, append) X(APPENDED, appended) X(HAND_OVER, hand_over)

typedef enum message_kind {
    MESSAGE_NONE,
#define X(upper, lower) MESSAGE_##upper,
    WIRE_MESSAGES(X)
#undef X
    MESSAGE_KINDS
} message_kind;

// The tensor of a microbatch that a message is about: x on its way forward, or dy on its way back.
typedef enum message_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_COUNT } message_phase;

// Why a member refuses a tensor (DENY).
typedef enum deny_reason {
    DENY_FULL,     // PHASE_FORWARD: no free slot; a CAN TAKE follows when one is free
    DENY_STALE,    // the tensor is of no use any more
    DENY_VERSION,  // the state of the refusing member is not at version t
    DENY_MISSING,  // PHASE_BACKWARD: the refusing member does not hold the microbatch
    DENY_CLOSED,   // the iteration's contribution set is closed
    DENY_REASONS
} deny_reason;

// Why a member refuses a COMMIT (DENY COMMIT).
typedef enum commit_refusal {
    COMMIT_STALE,    // the member has seen a newer ownership epoch
    COMMIT_MISSING,  // it does not hold the microbatch; it refuses every COMMIT up to that revision
    COMMIT_CLOSED,   // the iteration's contribution set is closed without the microbatch
    COMMIT_REFUSALS
} commit_refusal;

typedef enum trace_phase { TRACE_ACCEPTED, TRACE_FORWARD_DONE, TRACE_RETURNING, TRACE_BACKWARD_DONE, TRACE_PHASES } trace_phase;

// The route of a microbatch: the member of each stage, 0 where routing has not chosen yet.
typedef struct message_path {
    uint16_t stages;
    member_id member[WIRE_MAX_STAGES];
} message_path;

// Identifies one microbatch. `owner_term` is the ownership epoch (fencing token): it rises with
// each change of the owner.
typedef struct message_subject {
    uint32_t m;
    uint16_t stage;  // stage of the receiver, or of the member that the message concerns
    uint64_t owner_term;
} message_subject;

typedef struct message_set {
    uint64_t words[WIRE_SET_WORDS];
} message_set;

// One hop of a planned route. `after_us`: earliest start after the iteration began, because other
// microbatches have the slots and links until then. `by`, `back_by`: forwarders of the activation
// to this member and of the gradient back from it. 0 in a field: the sender chooses.
typedef struct message_ahead {
    uint32_t member, after_us, by, back_by;
} message_ahead;

// A tensor that does not accompany the message that names it, but travels in pieces through a
// forwarder.
typedef struct message_parcel {
    uint32_t serial;  // identifies the tensor among those of its sender
    uint16_t pieces;  // 0: the tensor accompanies the message
} message_parcel;

// Payload: x. `forward_to` is the last stage that must compute it. Normally that is the number of
// stages: all of them, then back to the owner. In a repair it is smaller, and that stage's member
// then waits for dy.
typedef struct message_forward {
    message_subject subject;
    member_id owner;
    uint16_t forward_to;
    bool home;  // the receiver is the owner; x is input of the final norm, head and loss
    bool repair;
    uint32_t ahead_count;  // 0: each holder chooses the next hop
    uint64_t hash;         // of x
    message_parcel parcel;
    message_path path;
    message_ahead ahead[WIRE_MAX_AHEAD];  // the route that the owner planned, from the receiver to the owner
} message_forward;

// Payload: dy. `back_to` is the lowest stage that must compute its input gradient, normally 0.
typedef struct message_backward {
    message_subject subject;
    member_id owner;
    uint16_t back_to;
    bool repair;
    uint64_t hash;  // of dy
    message_parcel parcel;
    message_path path;
} message_backward;

typedef struct message_accept {
    message_subject subject;
    uint8_t phase;  // PHASE_FORWARD or PHASE_BACKWARD
    uint64_t eta_ns;
} message_accept;

typedef struct message_complete {
    message_subject subject;
    uint8_t phase;
    uint64_t hash;  // of the computed tensor
    uint64_t compute_ns;
} message_complete;

// Refuses the x of a FORWARD or the dy of a BACKWARD. Sent to the member that sent the tensor.
typedef struct message_deny {
    message_subject subject;
    uint8_t phase;
    uint8_t reason;  // deny_reason
} message_deny;

// Refuses a COMMIT. Sent to the owner that ordered it.
typedef struct message_deny_commit {
    message_subject subject;
    uint8_t reason;  // commit_refusal
    uint32_t rev;    // revision of the refused COMMIT
} message_deny_commit;

// Refuses a RESUME: the member has no tensor to resend. Sent to the owner; promises nothing about
// COMMITs.
typedef struct message_deny_resume {
    message_subject subject;
} message_deny_resume;

// Hands an accepted microbatch back to the member that sent its x: the next stage has no member
// here. The sender of this message has freed its slot.
typedef struct message_no_peer {
    message_subject subject;
} message_no_peer;

// Tells the owner that an uncommitted microbatch lost its slot to a repair.
typedef struct message_evicted {
    message_subject subject;
} message_evicted;

typedef struct message_trace {
    message_subject subject;
    uint8_t phase;  // trace_phase
    uint64_t eta_ns;
    member_id next;  // the member that it was sent on to, 0 if not sent yet
} message_trace;

typedef struct message_cancel {
    message_subject subject;
} message_cancel;

typedef struct message_suspect {
    member_id member;
    bool has_subject;
    message_subject subject;
    uint8_t phase;
} message_suspect;

typedef struct message_probe {
    message_subject subject;
    uint64_t nonce;
} message_probe;

typedef struct message_status {
    message_subject subject;  // with the highest ownership epoch that the sender has seen
    uint64_t nonce;
    bool has_x, has_y, has_dy, has_dx, forward_done, backward_done, counted;
    bool working;     // a part of it is being computed or sent
    bool forwarding;  // that part is its x or y
    uint32_t rev;
    uint64_t eta_ns;
} message_status;

// Request to resend y or dx along `path`.
typedef struct message_resume {
    message_subject subject;
    member_id owner;
    uint8_t phase;  // PHASE_FORWARD: resend y; PHASE_BACKWARD: resend dx
    uint16_t until;  // the last stage that must compute, on the way of that phase
    message_path path;
} message_resume;

typedef struct message_commit {
    message_subject subject;
    uint32_t rev;
    uint32_t tokens;
    message_path path;
} message_commit;

typedef struct message_counted {
    message_subject subject;
    uint32_t rev;
    bool overflow;  // the fixed-point sum did not fit: the iteration is skipped
} message_counted;

typedef struct message_settled {
    message_subject subject;
    bool is_void;  // loss or gradient is not finite: excluded in every stage
    bool overflow;
    uint32_t tokens;
    double loss;  // sum over tokens
    uint32_t rev[WIRE_MAX_STAGES];
    message_path path;
} message_settled;

typedef struct message_part {
    member_id member;
    message_set set;
} message_part;

typedef struct message_block_owner {
    member_id member;
    uint32_t first, count;  // chunks of the stage, in canonical order
} message_block_owner;

typedef struct message_begin {
    uint16_t stage;
    uint64_t term, round;
    uint64_t close_index;
    uint64_t tokens;
    uint16_t parts, owners;
    message_part part[WIRE_MAX_STAGE_MEMBERS];
    message_block_owner owner[WIRE_MAX_STAGE_MEMBERS];
} message_begin;

typedef struct message_mismatch {
    uint16_t stage;
    uint64_t term, round;
    message_set set;
} message_mismatch;

// The sender has the finished chunks [first, first + count).
typedef struct message_result {
    uint16_t stage;
    uint64_t term, round;
    uint32_t first, count;
} message_result;

typedef struct message_reduced {
    uint16_t stage;
    uint64_t term, round;
    bool overflow;
    braid_hash root;    // hash list root over all result chunks of the stage
    uint32_t tensors;
    double norm2[WIRE_MAX_STAGE_TENSORS];  // squared norm per tensor, canonical order
} message_reduced;

typedef struct message_state {
    uint16_t stage;
    uint64_t version;
    braid_hash state_root;  // weights and moments
} message_state;

typedef enum get_what {
    GET_PART,     // packed chunks of the receiver's frozen sum
    GET_RESULT,   // finished fp32 chunks
    GET_STATE,    // weights and moments, each chunk with its version
    GET_NAMES,    // content hashes of all chunks of the receiver's state, 32 bytes each
    GET_KINDS
} get_what;

typedef enum get_refusal {
    GET_MISSING,  // the asked member cannot serve these chunks
    GET_LATER,    // it can, but its queue is full or its upload rate is used up
    GET_REFUSALS
} get_refusal;

// Requests the chunks [first, first + count) of one stage. A field that its kind does not use is
// zero and is not encoded.
typedef struct message_get {
    uint8_t what;          // get_what
    uint16_t stage;
    uint32_t first, count;
    uint64_t version;      // of the state; of a sum or result: the state from which it was computed
    uint64_t set_digest;   // GET_PART: of the part's contribution set
    uint64_t close_index;  // GET_RESULT: log index of the CLOSE that was summed
    uint64_t round;        // GET_PART, GET_RESULT: the aggregation attempt
    member_id by;          // GET_PART, GET_RESULT: allowed forwarder of the answer; 0: none
    uint32_t serial;       // with `by`: identifies the forwarded answer among those of the requester
} message_get;

// The answer. Its payload are the bytes. If get.by is not 0, the bytes travel through that
// forwarder, and this message has only their hash.
typedef struct message_data {
    message_get get;
    uint64_t hash;
} message_data;

// Refuses a GET, which is named by its kind, stage and first chunk.
typedef struct message_deny_get {
    uint8_t what;  // get_what
    uint16_t stage;
    uint32_t first;
    uint8_t reason;    // get_refusal
    uint32_t wait_ms;  // GET_LATER: milliseconds until the next attempt, at least 1; else 0
} message_deny_get;

typedef struct message_heartbeat {
    uint64_t ready;     // 1 + the version of its complete state, 0: still fetching
    uint64_t can_take;  // 1 + highest t for which CAN TAKE was sent, 0: none
    uint32_t free_slots, queued;
    uint64_t progress;  // rises with every finished job
    uint64_t forward_ns, backward_ns;  // measured time of one microbatch
    uint64_t leads;     // the term in which the sender is leader, 0: it is not
    // 1 + the version that its state reaches without further data from others, 0: incomplete state
    uint64_t reaches;
    uint64_t saved;     // 1 + the version of the newest checkpoint of this run's log at its host, 0: none
} message_heartbeat;

typedef struct message_can_take {
    uint64_t iteration;
    uint16_t stage;
    uint32_t free_slots;
} message_can_take;

typedef struct message_get_log {
    uint64_t from;
} message_get_log;

typedef enum log_kind {
    LOG_NONE,
    LOG_RUN,         // start of the run; a later one is a rollback to an older version
    LOG_MEMBER,
    LOG_EXPEL,
    LOG_OWNER,
    LOG_CLOSE,
    LOG_FINAL,
    LOG_CHECKPOINT,
    LOG_LEAD,        // a leader's first entry of its term
    LOG_VOTERS,      // the voters from here on: one more or one fewer than before
    LOG_SHARE,       // private data: assigns a data shard to a peer, permanently once the run has begun
    LOG_PROMOTE,     // a standby becomes a relay of its stage
    // The final checkpoint is written, or none was needed: of the last FINAL, or of the version
    // before an iteration without data. Only shutdown messages remain.
    LOG_END,
    // records of a voter's durable log, never entries of the replicated log
    // a snapshot: the records that follow begin after this index, on the state of the log up to it
    LOG_BASE,
    LOG_VOTE,        // the term, and the candidate that this voter voted for
    LOG_KINDS
} log_kind;

// A standby (MEMBER_SHADOW) keeps the state of `stage` up to date and does none of its work.
typedef enum member_kind { MEMBER_RELAY, MEMBER_DATA, MEMBER_SHADOW, MEMBER_KIND_COUNT } member_kind;

typedef enum expel_reason { EXPEL_DEAD, EXPEL_RETURNED, EXPEL_LEFT, EXPEL_STUCK, EXPEL_DIVERGED, EXPEL_MOVED, EXPEL_REASONS } expel_reason;

// In generations after the first: stage `lost` lost every copy of its state after iteration
// `reached` had begun.
typedef struct log_run {
    braid_hash description;
    uint64_t generation, start_version;
    uint64_t reached;
    uint16_t lost;
} log_run;

typedef struct log_member {
    braid_id peer;
    uint16_t stage;
    uint8_t kind;
    uint32_t capacity;
    uint64_t incarnation;  // of the process: a restarted peer is another member
    uint64_t store;        // identity of the durable log that it would use as a voter
    braid_id host;         // relay, standby: the peer on the same machine, with which it ends; zero: none
    char address[WIRE_MAX_ADDRESS];
} log_member;

typedef struct log_expel {
    member_id member;
    uint8_t reason;
} log_expel;

typedef struct log_promote {
    member_id member;
} log_promote;

typedef struct log_owner {
    uint16_t slot;
    member_id member;
} log_owner;

// Assigns the slots s with s mod shares = share to a peer, in all its incarnations. `text` is the
// hash of its data.
typedef struct log_share {
    uint16_t share;
    braid_id peer;
    braid_hash text;
} log_share;

typedef struct log_close {
    uint64_t iteration;
    message_set counted, voided;
    uint64_t tokens;
    double loss;  // sum over the tokens of the contribution set
} log_close;

// The inputs of the optimizer step as exact bits, so that members do not compute them separately.
typedef struct log_final {
    uint64_t iteration;
    bool skip;  // overflow, not finite, or empty contribution set: version t+1 = version t
    // with `skip`: consecutive iterations up to this one that had microbatches and no finite
    // gradient
    uint32_t skipped;
    bool last;  // the run ends here
    uint64_t close_index;
    double norm2;
    float clip, learning_rate, bias1, bias2;  // multiplier of g, rate, 1 - beta1^k, 1 - beta2^k
    uint16_t stages;
    uint64_t round[WIRE_MAX_STAGES];
    braid_hash result_root[WIRE_MAX_STAGES];
    braid_hash state_root[WIRE_MAX_STAGES];  // of version t
} log_final;

// A complete checkpoint and its expected content: the hash of all weights, and each stage's state
// hash.
typedef struct log_checkpoint {
    braid_hash weights;
    uint16_t stages;
    uint64_t version;
    braid_hash state_root[WIRE_MAX_STAGES];
} log_checkpoint;

typedef struct log_lead {
    braid_id leader;
} log_lead;

// A voter is a peer together with its durable log. A peer that lost its log is another voter,
// because it no longer knows its votes.
typedef struct log_voter {
    braid_id id;
    uint64_t store;
    char address[WIRE_MAX_ADDRESS];
} log_voter;

typedef struct log_voters {
    uint16_t count;
    log_voter voter[WIRE_MAX_VOTERS];
} log_voters;

// A snapshot. `index` and `term` are those of the last entry that it replaces. In a durable log,
// `entries` records of the snapshot precede it: the replicated state after entry `applied`.
typedef struct log_base {
    uint64_t applied;
    uint32_t entries;
    log_voters voters;
} log_base;

typedef struct log_vote {
    bool given;
    braid_id candidate;
    uint64_t store;
} log_vote;

typedef struct log_entry {
    uint64_t index;
    uint64_t term;
    uint8_t kind;
    union {
        log_run run;
        log_member member;
        log_expel expel;
        log_owner owner;
        log_promote promote;
        log_close close;
        log_final final;
        log_checkpoint checkpoint;
        log_lead lead;
        log_voters voters;
        log_share share;
        log_base base;
        log_vote vote;
    } u;
} log_entry;

// `previous` is the index of the preceding entry in the sender's log; a receiver that is behind it
// sends GET LOG. `reset`: the sender compacted the entries that the receiver missed, so this is the
// first entry of a snapshot: live members, owners, newest FINAL.
typedef struct message_log {
    bool reset;
    uint64_t previous;
    log_entry entry;
} message_log;

typedef struct message_join {
    uint8_t kind;  // the member_kind that the joiner offers
    uint16_t stage;  // the stage that a relay asks for; 0: any
    uint32_t capacity;
    uint64_t incarnation;  // of the process: the same one repeats its request, another one is a restart
    uint64_t store;        // identity of its durable log
    uint16_t share;        // private data: the data shard that it asks for, from 1; 0: any free one
    braid_hash text;       // private data: hash of its data; zero: it has none
    // relay, standby: the peer on the same machine, with which it ends; a standby does not
    // get its stage; zero: none
    braid_id host;
    char address[WIRE_MAX_ADDRESS];  // an address at which other peers can dial it
} message_join;

// Why the leader refuses a joiner.
typedef enum join_refusal {
    REFUSAL_NONE,         // it is not refused: the run is over, or it has left
    REFUSAL_NO_TEXT,      // private data, and the joiner has no text
    REFUSAL_TAKEN,        // the requested data shard belongs to another peer
    REFUSAL_NO_SHARE,     // all data shards are taken, or there is none of that number
    REFUSAL_OTHER_SHARE,  // the peer owns another data shard than the requested one
    REFUSAL_OTHER_TEXT,   // its data differ from those of its first admission
    REFUSAL_FULL,         // every stage that it may work for has its maximum of members
    REFUSALS
} join_refusal;

// The sender asks the leader to remove it.
typedef struct message_leave {
    uint8_t reason;  // expel_reason
} message_leave;

// The leader ends the receiver's membership, or its wish for one: the run is over, or the receiver
// left or cannot be admitted.
typedef struct message_dismiss {
    uint8_t refusal;  // join_refusal
} message_dismiss;

// Inventory request of a new owner to every live member: which of its microbatches do you hold? A
// member answers once it has applied the log up to `owner_term`, and from then on refuses orders of
// older owners.
typedef struct message_survey {
    uint64_t owner_term;  // of the owner's newest slot
} message_survey;

// The inventory reply, over all microbatches of the requester's slots.
typedef struct message_holdings {
    uint64_t owner_term;
    message_set held, forward, returning, backward;  // has x at least; y; dy at least; dx
    message_set committed;                           // accumulated, or ordered to
} message_holdings;

// Link-state advertisement: transfer times from the sender to other members, in microseconds.
typedef struct message_lines {
    uint32_t count;
    struct {
        uint32_t member;
        // To a member of the next stage, by the best route: half of (round trip + computing). Else
        // 0.
        uint32_t cost;
        uint32_t way;   // of a tensor on this direct link
    } line[WIRE_MAX_LINES];
} message_lines;

// One packet of a bandwidth probe, followed by `padding` zero bytes.
typedef struct message_sound {
    uint32_t train;
    uint16_t index, count;  // index < count
    uint16_t padding;       // bytes, up to WIRE_MAX_SOUND_BYTES
} message_sound;

// Result of a bandwidth probe: the bytes after its first packet, and the time from the first packet
// to the last.
typedef struct message_sounded {
    uint32_t train, bytes;
    uint64_t ns;
} message_sounded;

// A piece of a forwarded tensor. Payload: piece `index` of `count`, from `origin` to `to`. FORWARD or
// BACKWARD of the origin announced it, as parcel `serial`.
typedef struct message_carry {
    member_id origin, to;
    uint32_t serial;
    uint16_t index, count;  // index < count
} message_carry;

// Forwarded chunks of a reduction. Payload: all chunks that `to` requested from `origin` by the GET
// with this `serial`.
typedef struct message_carry_chunks {
    member_id origin, to;
    uint32_t serial;
    uint8_t what;  // GET_PART or GET_RESULT
    uint16_t stage;
    uint16_t count;  // chunks, 1 to WIRE_MAX_CARRIED_BLOCKS
} message_carry_chunks;

// A forwarded tensor was not passed on or arrived incomplete. Sent to its origin, which then uses
// the direct link.
typedef struct message_uncarried {
    uint32_t serial;
} message_uncarried;

// Forwarded chunks were not passed on. Sent to their requester, which then asks without a
// forwarder.
typedef struct message_uncarried_chunks {
    uint32_t serial;
} message_uncarried_chunks;

// The kinds of a ROUTE's parts (src/routing/core/router.h explains them). Fields that a kind does
// not use are zero.
typedef enum route_kind {
    ROUTE_LABEL,   // side, source, cost; words: split node, low and high half of the remaining cost
    ROUTE_ADVERT,  // source, cost, units
    ROUTE_FLOW,    // why, source, units, taken_back
    ROUTE_FLOW_OF_TOKEN,  // also token
    ROUTE_ADVERT_OF_LOADS,  // as ROUTE_ADVERT; also scale
    ROUTE_FLOW_OF_BID,  // also cost: the highest return cost from the receiver at which the units stay
    ROUTE_DENY,    // source, units
    ROUTE_LOCK,    // token, source, cost, units; words: the cycle
    ROUTE_COMMIT,  // token, source, why, units, taken_back, moved
    ROUTE_ABORT,   // token, why
    ROUTE_WAY,     // source, units, taken_back, on_path; words: the peers after the receiver
    // words: entries (src/routing/plan/mincost_map.c), or a cycle proposal
    // (src/routing/plan/mincost_reoptimise.c)
    ROUTE_MAP,
    // token, source, why, cost, units, turn; words
    ROUTE_OFFER, ROUTE_REQUEST, ROUTE_ANSWER,
    ROUTE_QUERY,   // token, source, why, epoch; words
    ROUTE_UNITS, ROUTE_RELINK,  // as ROUTE_OFFER
    ROUTE_HOME,    // source, cost: of the sender's cheapest route to that data peer; 0: none known
    ROUTE_KINDS
} route_kind;

// A two-phase commit, and the receiver's place in it.
typedef struct route_token {
    uint32_t origin, serial;
    uint16_t position;  // on the cycle
} route_token;

// An epoch of the planned flow.
typedef struct route_epoch {
    uint64_t number;
    uint32_t plan, attempts;  // number of its plan; attempts left
} route_epoch;

typedef struct route_part {
    uint8_t kind, side, why;
    uint16_t on_path;   // units on a planned path
    uint16_t words;    // number of words of this part in message_route.word, after those of earlier parts
    uint32_t source;   // member number, below 2^31
    uint32_t units, taken_back, moved;
    uint32_t scale;           // of loads (bottleneck objective), or 1: the sender has started
    uint32_t turn;            // turn of a link, or a number of costs
    int64_t cost;
    route_token token;
    route_epoch epoch;
} route_part;

// A frame between the routers of two members. `session` identifies the sender's end of the link,
// `heard` the receiver's end as far as the sender knows (0: unknown). Parts are valid only when
// both ends know each other, in the order of `sequence` and without a gap. A frame without parts
// repeats the newest sequence number, so that the receiver notices a loss.
typedef struct message_route {
    uint32_t session, heard, sequence;
    // hash of the run's data peers in the sender's log; routers with another one ignore the frame
    uint64_t epoch;
    uint32_t cost;  // of the link from the sender to the receiver, as the sender measured it; 0: no such link
    // the sender's clock; the receiver's newest clock value, and the time since its arrival
    uint32_t sent_us, echo_us, held_us;
    uint16_t parts;
    route_part part[WIRE_MAX_ROUTE_PARTS];
    uint32_t word[WIRE_MAX_ROUTE_WORDS];
} message_route;

// The kinds of a VIEW (src/routing/view/view.h explains them). Fields that a kind does not use are
// zero.
typedef enum gossip_kind {
    GOSSIP_SAMPLE,                       // clock, rates, cards
    GOSSIP_REPLY,                        // side, by_chance, cost, echo, rates, cards
    GOSSIP_PING,                         // side, clock, rates
    GOSSIP_PONG,                         // side, by_chance, cost, echo, rates
    GOSSIP_ASK, GOSSIP_YES, GOSSIP_NO,   // side, by_chance, cost
    GOSSIP_PART, GOSSIP_CUT,             // side
    GOSSIP_KINDS
} gossip_kind;

// A network coordinate: the position of a member in the space of link costs.
typedef struct message_place {
    int32_t at[WIRE_VIEW_AXES], height;
    uint16_t error;  // 1/1000
} message_place;

// A descriptor of a member: the sender's knowledge beyond the log.
typedef struct message_card {
    uint32_t member;  // from 1, below 2^31
    uint16_t age;     // gossip periods since the member itself sent it
    message_place place;
} message_card;

// Gossip between members of stages that are larger than a router's set of neighbours.
typedef struct message_view {
    uint8_t kind;
    uint8_t side;       // the receiver's position as the sender sees it: before, behind, beside
    bool by_chance;
    uint8_t linked;     // bit s: the receiver is the sender's neighbour on its side s
    uint16_t cards;
    message_place place;  // the sender's
    uint32_t cost;      // in microseconds
    uint32_t clock_us;  // the sender's
    uint32_t echo_us;   // `clock_us` of the request
    uint32_t rate_out, rate_in;  // measured bytes per millisecond of the sender's link; 0: not measured
    uint32_t rate_here;          // to the receiver, as the sender measured it
    message_card card[WIRE_MAX_VIEW_CARDS];
} message_view;

// Messages between voters (src/raft/raft.h). `to` and `from` identify the durable logs of receiver
// and sender, because a peer that lost its log must not answer for it.
typedef struct message_vote {
    uint64_t to, from, term;
    bool pre_vote;   // PreVote: the answer binds nothing
    bool hand_over;  // leadership transfer: the old leader asked for this election
    uint64_t last_index, last_term;
} message_vote;

typedef struct message_voted {
    uint64_t to, from, term;
    bool pre_vote, granted;
} message_voted;

typedef struct message_append {
    uint64_t to, from, term;
    uint64_t previous, previous_term;
    uint64_t committed;
    uint64_t election_timeout_ns;  // without a message for this long, the leader is suspected
    uint64_t clock_ns;     // of the sender; the answer returns it
    bool has_entry;
    log_entry entry;       // LOG_BASE: the sender compacted the entries up to it
} message_append;

typedef struct message_appended {
    uint64_t to, from, term;
    bool accepted;
    uint64_t match;     // accepted: the log matches up to here, durably; else 0
    uint64_t previous;  // refused: `previous` of the APPEND; else 0
    uint64_t hint;      // refused: the log may match up to here; else 0
    uint64_t clock_ns;
} message_appended;

// Leadership transfer (TimeoutNow): the receiver's log is complete, so it starts an election at
// once.
typedef struct message_hand_over {
    uint64_t to, from, term;
} message_hand_over;

// The leader, as far as the sender knows.
typedef struct message_leader {
    uint64_t term;
    braid_id id;
    char address[WIRE_MAX_ADDRESS];
} message_leader;

typedef struct message {
    uint8_t kind;
    uint64_t iteration;
    member_id sender;       // 0 before it is a member
    uint64_t log_position;  // last entry applied
    union {
#define X(upper, lower) message_##lower lower;
        WIRE_MESSAGES(X)
#undef X
    } u;
} message;

// Offset of piece `index` of `count` in a tensor of `bytes`; `index` may be `count`.
static inline uint64_t message_piece_at(uint64_t bytes, uint16_t index, uint16_t count) { return bytes * index / count; }

static inline uint64_t message_piece_bytes(uint64_t bytes, uint16_t index, uint16_t count) {
    return message_piece_at(bytes, (uint16_t)(index + 1), count) - message_piece_at(bytes, index, count);
}

// The name of a kind in messages for people.
const char *message_kind_name(uint8_t kind);
const char *deny_reason_name(uint8_t reason);
const char *commit_refusal_name(uint8_t reason);
const char *get_refusal_name(uint8_t reason);
const char *route_kind_name(uint8_t kind);
const char *gossip_kind_name(uint8_t kind);
// True if a part with these words can be encoded.
bool route_part_good(const route_part *part, const uint32_t *word);
// Number of words of all parts before `part`.
uint32_t route_words_before(const message_route *route, uint32_t part);

// Returns the bytes written. Returns 0 when `capacity` is too small or the message violates a
// limit: a count over its maximum, an enum out of its range, a text without terminator or not
// printable ASCII, a range of chunks past the largest number. The encoding is little-endian without
// padding, and each message has exactly one: `message_encode` and `message_decode` are each other's
// inverse. Entries behind a count are not encoded and decode as zero. The receiver checks whether a
// microbatch, member or chunk exists. WIRE_MAX_CONTROL_BYTES is always enough.
size_t message_encode(const message *msg, uint8_t *bytes, size_t capacity);
// False unless the bytes are exactly one well-formed message within the limits; `msg` is then
// undefined. Bytes of `u` behind the kind's body keep their content.
bool message_decode(const uint8_t *bytes, size_t count, message *msg);
// The same for a single log entry (the log file).
size_t log_entry_encode(const log_entry *entry, uint8_t *bytes, size_t capacity);
bool log_entry_decode(const uint8_t *bytes, size_t count, log_entry *entry);

// The microbatch of a WIRE_SUBJECT_MESSAGES kind; NULL: the message has another kind.
const message_subject *message_subject_of(const message *msg);

// Whose log stores a message between voters connects, and in which term.
typedef struct message_ballot {
    uint64_t to, from, term;
} message_ballot;

// False: the message has no WIRE_VOTER_MESSAGES kind.
bool message_ballot_of(const message *msg, message_ballot *ballot);

// Size of a kind's body in `u`; 0: unknown kind.
size_t message_body_bytes(uint8_t kind);
// The fewest and the most bytes of an encoded message (wire/layout.h); 0: unknown kind.
size_t message_least_bytes(uint8_t kind);
size_t message_most_bytes(uint8_t kind);
// CARRY and CARRY CHUNKS always have a payload; DATA, FORWARD and BACKWARD have one unless a forwarder carries it.
bool message_has_payload(const message *msg);

#endif
