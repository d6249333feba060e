// The messages of an iteration (docs/protocol.md says when they are sent). Names are the paper's where it has one.
// A message is a header, one body, and for some kinds a payload: a tensor that travels beside it as a blob.
#ifndef BRAID_WIRE_MESSAGE_H
#define BRAID_WIRE_MESSAGE_H

#include "base/id.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stdint.h>

// Log index of the MEMBER entry that admitted it; 0: nobody.
typedef uint64_t member_id;

#define WIRE_MESSAGES(X)                                                                                       \
    X(FORWARD, forward) X(BACKWARD, backward) X(ACCEPT, accept) X(COMPLETE, complete) X(DENY, deny)            \
    X(TRACE, trace) X(CANCEL, cancel) X(SUSPECT, suspect) X(PROBE, probe) X(STATUS, status) X(RESUME, resume)  \
    X(COMMIT, commit) X(COUNTED, counted) X(SETTLED, settled) X(BEGIN_AGGREGATION, begin)                      \
    X(MISMATCH, mismatch) X(RESULT, result) X(REDUCED, reduced) X(STATE, state) X(GET, get) X(DATA, data)      \
    X(HEARTBEAT, heartbeat) X(CAN_TAKE, can_take) X(GET_LOG, get_log) X(LOG, log) X(JOIN, join) X(LEAVE, leave) \
    X(ROUTE, route) X(VIEW, view) X(SURVEY, survey) X(HOLDINGS, holdings) X(LINES, lines) X(SOUND, sound) X(SOUNDED, sounded) \
    X(CARRY, carry) X(UNCARRIED, uncarried) \
    X(VOTE, vote) X(VOTED, voted) X(APPEND, append) X(APPENDED, appended) X(HAND_OVER, hand_over) X(LEADER, leader)

typedef enum message_kind {
    MESSAGE_NONE,
#define X(upper, lower) MESSAGE_##upper,
    WIRE_MESSAGES(X)
#undef X
    MESSAGE_KINDS
} message_kind;

typedef enum message_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_COMMIT, PHASE_RESUME, PHASE_GET, PHASE_COUNT } message_phase;

typedef enum deny_reason {
    DENY_FULL,     // no slot now; a CAN TAKE follows when there is one
    DENY_NO_PEER,  // nobody in the next stage
    DENY_STALE,    // a newer term or rev was seen
    DENY_VERSION,  // not at version t
    DENY_MISSING,  // does not hold what was asked for
    DENY_EVICTED,  // gave its slot to a repair
    DENY_LEAVING,
    DENY_CLOSED,   // the iteration no longer counts it
    DENY_REASONS
} deny_reason;

typedef enum trace_phase { TRACE_ACCEPTED, TRACE_FORWARD_DONE, TRACE_RETURNING, TRACE_BACKWARD_DONE, TRACE_PHASES } trace_phase;

// Where a microbatch's ways go: the member of each stage, 0 where routing still has to choose.
typedef struct message_path {
    uint16_t stages;
    member_id member[WIRE_MAX_STAGES];
} message_path;

// Names one microbatch. The receiver knows a higher owner_term where its owner has changed.
typedef struct message_subject {
    uint32_t m;
    uint16_t stage;  // of the receiver, or of whom the message speaks
    uint64_t owner_term;
} message_subject;

typedef struct message_set {
    uint64_t words[WIRE_SET_WORDS];
} message_set;

// Where a microbatch should go, and how long after the iteration began at the earliest: until then others have the slots and lines there. Who
// should carry it there, and its gradient back from there; who it is for: nobody, 0: the sender chooses.
typedef struct message_ahead {
    uint32_t member, after_us, by, back_by;
} message_ahead;

// A tensor that does not come with the message that names it, but in pieces by way of somebody else.
typedef struct message_parcel {
    uint32_t serial;  // names it among those of its sender
    uint16_t pieces;  // 0: it comes with the message
} message_parcel;

// Payload: x. `forward_to` is the last stage that must compute it: the number of stages in the ordinary case (on and
// home to the owner), less in a repair, whose last member waits for dy.
typedef struct message_forward {
    message_subject subject;
    member_id owner;
    uint16_t forward_to;
    bool home;  // the receiver is the owner, x goes into norm, head and loss
    bool repair;
    uint32_t ahead_count;  // 0: whoever holds it chooses where it goes on
    uint64_t hash;         // of x
    message_parcel parcel;
    message_path path;
    message_ahead ahead[WIRE_MAX_AHEAD];  // where its owner would like it to go, the receiver first, home last
} message_forward;

// Payload: dy. `back_to` is the lowest stage that must compute its input gradient: 0 in the ordinary case.
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
    uint64_t hash;  // of what was computed
    uint64_t compute_ns;
} message_complete;

typedef struct message_deny {
    message_subject subject;  // PHASE_GET: m is what was asked for, owner_term the first of its blocks
    uint8_t phase;
    uint8_t reason;
    uint64_t rev;  // PHASE_COMMIT: of the COMMIT that is refused; PHASE_GET, DENY_FULL: ask again after so many milliseconds
} message_deny;

typedef struct message_trace {
    message_subject subject;
    uint8_t phase;  // trace_phase
    uint64_t eta_ns;
    member_id next;  // whom it was sent on to, 0 when not yet
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
    message_subject subject;  // the receiver's own view: highest owner term seen
    uint64_t nonce;
    bool has_x, has_y, has_dy, has_dx, forward_done, backward_done, counted;
    bool working;     // something of it is computed, or on its way to somebody
    bool forwarding;  // ... its x or y
    uint32_t rev;
    uint64_t eta_ns;
} message_status;

// "Send what you still hold once more": y along `path` up to forward_to, or dx down to back_to.
typedef struct message_resume {
    message_subject subject;
    member_id owner;
    uint8_t phase;  // PHASE_FORWARD: resend y; PHASE_BACKWARD: resend dx
    uint16_t until;  // forward_to or back_to
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
    bool is_void;  // loss or gradient not finite: counts in no stage
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
    uint32_t first, count;  // blocks of the stage, canonical order
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

// "I hold the finished blocks [first, first + count)."
typedef struct message_result {
    uint16_t stage;
    uint64_t term, round;
    uint32_t first, count;
} message_result;

typedef struct message_reduced {
    uint16_t stage;
    uint64_t term, round;
    bool overflow;
    braid_hash root;    // of all result blocks of the stage
    uint32_t tensors;
    double norm2[WIRE_MAX_STAGE_TENSORS];  // squared norm per tensor, canonical order
} message_reduced;

typedef struct message_state {
    uint16_t stage;
    uint64_t version;
    braid_hash state_root;  // weights and moments
} message_state;

typedef enum get_what {
    GET_PART,     // packed blocks of the receiver's frozen part
    GET_RESULT,   // finished fp32 blocks
    GET_STATE,    // weights and moments, each block with its version
    GET_NAMES,    // of all blocks of the receiver's state: 32 bytes each, the hash of what is in it
    GET_KINDS
} get_what;

typedef struct message_get {
    uint8_t what;
    uint16_t stage;
    uint64_t term, round;  // GET_PART, GET_RESULT in fast mode
    uint64_t version;      // the iteration for parts and results
    uint32_t first, count;
    uint64_t digest;       // of the part's set; of a result, the log index of the CLOSE that it is the sum of
    member_id by;          // who may carry the answer, a part or a result; 0: nobody
    uint32_t serial;       // ... as this parcel; names it among those of the asker
} message_get;

// The answer, with the bytes as payload; or, `get.by` not 0, with their hash alone, while the bytes come by way of that one.
typedef struct message_data {
    message_get get;
    uint64_t hash;
} message_data;

typedef struct message_heartbeat {
    uint64_t ready;     // 1 + the version at which its whole state stands, 0: still fetching
    uint64_t can_take;  // 1 + highest t for which CAN TAKE was sent, 0: none
    uint32_t free_slots, queued;
    uint64_t progress;  // rises with every piece of work done
    uint64_t forward_ns, backward_ns;  // measured cost of one microbatch
    uint64_t leads;     // the term in which it leads, 0: it does not
    uint64_t reaches;   // 1 + the version that its state will have though nobody gives it anything more, 0: none whole
    uint64_t saved;     // 1 + the version of the newest checkpoint of the log that lies at its host, 0: none
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
    LOG_RUN,         // the start; another one: all goes back to an older version
    LOG_MEMBER,
    LOG_EXPEL,
    LOG_OWNER,
    LOG_CLOSE,
    LOG_FINAL,
    LOG_CHECKPOINT,
    LOG_LEAD,        // a leader's first entry of its term
    LOG_VOTERS,      // who votes from here on: one more or one fewer than before
    LOG_SHARE,       // private data: which peer a share of the microbatches belongs to, for good once the run has begun
    LOG_PROMOTE,     // a shadow does its stage's work from here on
    LOG_END,         // the last checkpoint is written, or none was wanted: of the last FINAL, or of before an iteration whose data never came. Goodbyes are left
    // records of a voter's store, never entries of the log
    LOG_BASE,        // what follows begins behind this entry, with the state that the log up to it makes
    LOG_VOTE,        // the term, and whom this voter gave its vote in it
    LOG_KINDS
} log_kind;

// A shadow keeps the state of `stage` up to date and does none of its work.
typedef enum member_kind { MEMBER_RELAY, MEMBER_DATA, MEMBER_SHADOW, MEMBER_KIND_COUNT } member_kind;

typedef enum expel_reason { EXPEL_DEAD, EXPEL_RETURNED, EXPEL_LEFT, EXPEL_STUCK, EXPEL_DIVERGED, EXPEL_MOVED, EXPEL_REASONS } expel_reason;

// Of a generation after the first: what is lost is the state of a stage, after iteration `reached` had begun.
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
    uint64_t incarnation;  // of its process: another life of the same peer is another member
    uint64_t store;        // where it would keep the log, were it a voter
    braid_id host;         // of a shadow: the peer that works on the same machine; zero: none
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

// The slots s with s mod shares = share are this peer's, in each of its lives. `text` names the data that it came with.
typedef struct log_share {
    uint16_t share;
    braid_id peer;
    braid_hash text;
} log_share;

typedef struct log_close {
    uint64_t iteration;
    message_set counted, voided;
    uint64_t tokens;
    double loss;  // sum over counted tokens
} log_close;

// What every member applies, as bits, so that nobody computes it twice.
typedef struct log_final {
    uint64_t iteration;
    bool skip;  // overflow, not finite, or nothing counted: version t+1 = version t
    uint32_t skipped;  // with `skip`: iterations in a row, up to this one, that had microbatches and no finite gradient
    bool last;  // the run ends here
    uint64_t close_index;
    double norm2;
    float clip, learning_rate, bias1, bias2;  // multiplier of g, rate, 1 - beta1^k, 1 - beta2^k
    uint16_t stages;
    uint64_t round[WIRE_MAX_STAGES];
    braid_hash result_root[WIRE_MAX_STAGES];
    braid_hash state_root[WIRE_MAX_STAGES];  // of version t
} log_final;

// Complete, and what its bytes must be: the hash of all weights, and each stage's state root.
typedef struct log_checkpoint {
    braid_hash weights;
    uint16_t stages;
    uint64_t version;
    braid_hash state_root[WIRE_MAX_STAGES];
} log_checkpoint;

typedef struct log_lead {
    braid_id leader;
} log_lead;

// A voter is a peer with its store: one that lost its store may have promised what it no longer knows, and is another voter.
typedef struct log_voter {
    braid_id id;
    uint64_t store;
    char address[WIRE_MAX_ADDRESS];
} log_voter;

typedef struct log_voters {
    uint16_t count;
    log_voter voter[WIRE_MAX_VOTERS];
} log_voters;

// `index` and `term` are those of the entry before the first that follows. In a store, `entries` others come first: the state
// as it stood when the log had been applied up to `applied`.
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

// `previous` is the index of the entry before it in the sender's log; a receiver behind it asks GET LOG. `reset`: the
// sender no longer has what the receiver missed, so this is the first entry of a fresh start: live members, owners, newest FINAL.
typedef struct message_log {
    bool reset;
    uint64_t previous;
    log_entry entry;
} message_log;

typedef struct message_join {
    uint8_t kind;  // member_kind offered
    uint16_t stage;  // a relay's wish; 0: where it helps most
    uint32_t capacity;
    uint64_t incarnation;  // of the process: the same one asks again, or another life of the same peer
    uint64_t store;        // where it would keep the log
    uint16_t share;        // a data peer's wish with private data, from 1; 0: any that is free
    braid_hash text;       // names its data then; zero: it has none
    braid_id host;         // of a shadow: the peer that works on the same machine, whose stage it must not keep; zero: none
    char address[WIRE_MAX_ADDRESS];  // where others may dial it
} message_join;

// Why a joiner is sent away.
typedef enum join_refusal {
    REFUSAL_NONE,         // the run is over
    REFUSAL_NO_TEXT,      // private data, and it brings none
    REFUSAL_TAKEN,        // the share that it asks for is another peer's
    REFUSAL_NO_SHARE,     // every share is another peer's, or there is none of this number
    REFUSAL_OTHER_SHARE,  // it asks for one, and has another
    REFUSAL_OTHER_TEXT,   // its data are not those that it had
    REFUSAL_FULL,         // every stage that it may work for has as many members as it may have
    REFUSALS
} join_refusal;

typedef struct message_leave {
    uint8_t reason;
    uint8_t refusal;   // join_refusal, when dismissed
    bool dismissed;  // the leader's word: it is over for the receiver. Else the sender asks to go
} message_leave;

// A new owner to every live member: "which of my microbatches do you hold?" Answered by those who have applied the log up to
// `owner_term`, so whoever answers obeys no older owner any more.
typedef struct message_survey {
    uint64_t owner_term;  // of its newest slot
} message_survey;

// The answer, of all microbatches of the asker's slots.
typedef struct message_holdings {
    uint64_t owner_term;
    message_set held, forward, returning, backward;  // x at least; y; dy at least; dx
    message_set committed;                           // told to count, or counted
} message_holdings;

// What the lines from the sender to other members carry, in microseconds.
typedef struct message_lines {
    uint32_t count;
    struct {
        uint32_t member;
        uint32_t cost;  // to one of the next stage: of a hop, there and back and computing, halved, by the best way; else 0
        uint32_t way;   // of a tensor on this line alone
    } line[WIRE_MAX_LINES];
} message_lines;

// One of a train that sounds a line, with so many zeros behind it.
typedef struct message_sound {
    uint32_t train;
    uint16_t index, count;  // index < count
    uint16_t padding;       // bytes, up to WIRE_MAX_SOUND_BYTES
} message_sound;

// How a train came: its bytes behind the first message, and the time from that one to the last.
typedef struct message_sounded {
    uint32_t train, bytes;
    uint64_t ns;
} message_sounded;

// Payload: piece `index` of a tensor that goes from `origin` to `to`, who knows it by FORWARD or BACKWARD; or all blocks of a reduction that
// `to` asked for by GET.
typedef struct message_carry {
    member_id origin, to;
    uint32_t serial;
    uint16_t index, count;  // index < count; one piece, if it is blocks
    uint8_t what;           // get_what, if it is blocks
    uint16_t stage, blocks; // of that stage so many; 0: a tensor
} message_carry;

// To the origin, of blocks to who asked for them: the parcel was not carried, or not whole. It is to be sent without help.
typedef struct message_uncarried {
    uint32_t serial;
} message_uncarried;

// What a part of a ROUTE says (src/routing/core/router.h explains the messages). A kind that does not use a field leaves it zero.
typedef enum route_kind {
    ROUTE_LABEL,   // side, source, cost; words: half, low and high half of the cost from there on
    ROUTE_ADVERT,  // source, cost, units
    ROUTE_FLOW,    // why, source, units, taken_back
    ROUTE_FLOW_OF_TOKEN,  // also token, position
    ROUTE_ADVERT_OF_LOADS,  // as ROUTE_ADVERT; taken_back: the scale of loads (objective worst), or 1: has begun
    ROUTE_FLOW_OF_BID,  // also cost: what the way home from the receiver may cost before the units go elsewhere
    ROUTE_DENY,    // source, units
    ROUTE_LOCK,    // token, source, position, cost, units; words: the cycle
    ROUTE_COMMIT,  // token, source, why, position, units, taken_back, moved
    ROUTE_ABORT,   // token, why, position
    ROUTE_WAY,     // source, units, taken_back, position (units that go this way); words: the peers behind the receiver
    ROUTE_MAP,     // words: entries (src/routing/plan/mincost_map.c), or a hint (src/routing/plan/mincost_reoptimise.c)
    ROUTE_OFFER, ROUTE_REQUEST, ROUTE_ANSWER, ROUTE_QUERY, ROUTE_UNITS, ROUTE_RELINK,  // all but side and moved; words
    ROUTE_HOME,    // source, cost: of the cheapest way from the sender to that data peer; 0: it knows none
    ROUTE_KINDS
} route_kind;

typedef struct route_part {
    uint8_t kind, side, why;
    uint16_t position;
    uint16_t words;    // of message_route.word, behind those of the parts before it
    uint32_t source;   // peers are named by their member number, which a run keeps below 2^31
    uint32_t units, taken_back, moved;
    uint32_t origin, serial;  // of the token
    int64_t cost;
} route_part;

// One frame between the routers of two members. `session` names the sender's end of the link, `heard` the receiver's as
// far as the sender knows (0: not yet): parts count only between two ends that know each other, in the order of `sequence`
// and without a gap. A frame without parts repeats the newest sequence, so that a loss is noticed.
typedef struct message_route {
    uint32_t session, heard, sequence;
    uint64_t epoch;    // names the run's data peers as the sender's log has them: routers of other ones do not talk
    uint32_t cost;     // of the link from the sender to the receiver, as the sender measures it; 0: no such link
    uint32_t sent_us, echo_us, held_us;  // the sender's clock; the receiver's as last heard, and how long ago that was
    uint16_t parts;
    route_part part[WIRE_MAX_ROUTE_PARTS];
    uint32_t word[WIRE_MAX_ROUTE_WORDS];
} message_route;

// What a VIEW says (src/routing/view/view.h explains the messages). A kind that does not use a field leaves it zero.
typedef enum gossip_kind {
    GOSSIP_SAMPLE,                       // clock, rates, cards
    GOSSIP_REPLY,                        // side, by_chance, cost, clock, rates, cards
    GOSSIP_PING,                         // side, clock, rates
    GOSSIP_PONG,                         // side, by_chance, cost, clock, rates
    GOSSIP_ASK, GOSSIP_YES, GOSSIP_NO,   // side, by_chance, cost
    GOSSIP_PART, GOSSIP_CUT,             // side
    GOSSIP_KINDS
} gossip_kind;

// Where a member lies in the space of link costs.
typedef struct message_place {
    int32_t at[WIRE_VIEW_AXES], height;
    uint16_t error;  // 1/1000
} message_place;

// What its sender knows of a member, which the log says the rest of.
typedef struct message_card {
    uint32_t member;  // from 1, below 2^31
    uint16_t age;     // periods since the member itself said so
    message_place place;
} message_card;

// Gossip between members of stages that have more members than a router has neighbours.
typedef struct message_view {
    uint8_t kind;
    uint8_t side;       // of the receiver, as the sender sees it: before, behind, beside
    bool by_chance;
    uint8_t linked;     // bit s: the receiver is the sender's neighbour on its side s
    uint32_t cost;      // in microseconds
    uint32_t clock_us;  // SAMPLE, PING: the sender's; REPLY, PONG: what the question said
    uint32_t rate_out, rate_in;  // bytes a millisecond that the sender's line was seen to carry; 0: not seen
    uint32_t rate_here;          // to the receiver, as the sender measured it
    message_place place;    // the sender's
    uint16_t cards;
    message_card card[WIRE_MAX_VIEW_CARDS];
} message_view;

// Between voters (src/peer/raft.h). `to` and `from` are the stores of the receiver and of the sender: a peer that lost its
// store must not answer for it.
typedef struct message_vote {
    uint64_t to, from, term;
    bool trial;      // would you? Nothing is promised
    bool hand_over;  // the leader wishes it
    uint64_t last_index, last_term;
} message_vote;

typedef struct message_voted {
    uint64_t to, from, term;
    bool trial, granted;
} message_voted;

typedef struct message_append {
    uint64_t to, from, term;
    uint64_t previous, previous_term;
    uint64_t committed;
    uint64_t patience_ns;  // without a word for so long, the leader is taken for lost
    uint64_t clock_ns;     // the sender's, to be sent back
    bool has_entry;
    log_entry entry;       // a LOG_BASE: the sender no longer has the entries up to it
} message_append;

typedef struct message_appended {
    uint64_t to, from, term;
    bool accepted;
    uint64_t match;     // accepted: its store agrees up to here; refused: it may, up to here
    uint64_t previous;  // refused: of the APPEND
    uint64_t clock_ns;
} message_appended;

// "Be the leader: you have all that I have."
typedef struct message_hand_over {
    uint64_t to, from, term;
} message_hand_over;

// Who leads, as far as the sender knows.
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

// Where piece `index` of `count` begins in a tensor of `bytes`; `index` may be `count`.
static inline uint64_t message_piece_at(uint64_t bytes, uint16_t index, uint16_t count) { return bytes * index / count; }

static inline uint64_t message_piece_bytes(uint64_t bytes, uint16_t index, uint16_t count) {
    return message_piece_at(bytes, (uint16_t)(index + 1), count) - message_piece_at(bytes, index, count);
}

// Name of a kind, for people.
const char *message_kind_name(uint8_t kind);
const char *deny_reason_name(uint8_t reason);
const char *route_kind_name(uint8_t kind);
const char *gossip_kind_name(uint8_t kind);
// Whether a part with these words can be encoded at all.
bool route_part_good(const route_part *part, const uint32_t *word);
// Words of all parts before `part`.
uint32_t route_words_before(const message_route *route, uint32_t part);

// Bytes written, or 0 when `capacity` is too small or the message breaks a limit: a count over its maximum, an enum out of
// its range, a text that is not terminated or not printable ASCII, a range of blocks past the largest number.
// Little-endian, no padding, one encoding for each message: `message_encode` and `message_decode` are each other's
// inverse. Entries behind a count do not travel and come back zero. Whether a microbatch, member or block exists is for
// the receiver to check. WIRE_MAX_CONTROL_BYTES is always enough.
size_t message_encode(const message *msg, uint8_t *bytes, size_t capacity);
// False when the bytes are not exactly one well-formed message within the limits; `msg` is then undefined. What lies in `u`
// behind the kind's body is left as it was.
bool message_decode(const uint8_t *bytes, size_t count, message *msg);
// The same for a log entry alone (the log file).
size_t log_entry_encode(const log_entry *entry, uint8_t *bytes, size_t capacity);
bool log_entry_decode(const uint8_t *bytes, size_t count, log_entry *entry);

// Bytes of a kind's body in `u`; 0: there is no such kind.
size_t message_body_bytes(uint8_t kind);
// CARRY has a payload, and DATA, FORWARD and BACKWARD unless somebody carries it.
bool message_has_payload(const message *msg);

#endif
