// What the files of this room share. Nothing outside src/protocol includes it.
#ifndef BRAID_PEER_INTERNAL_H
#define BRAID_PEER_INTERNAL_H

#include "base/bitset.h"
#include "base/rng.h"
#include "protocol/core/change.h"
#include "protocol/peer.h"
#include "protocol/state/run_state.h"
#include "raft/raft.h"
#include "protocol/route/routing.h"
#include "protocol/core/timing.h"

enum {
    PEER_CONTACT_BLOCK = 4,         // contacts that are looked at together
    PEER_CONTACT_BLOCKS = (PEER_MAX_CONTACTS + PEER_CONTACT_BLOCK - 1) / PEER_CONTACT_BLOCK,
    PEER_CONTACT_HINTS = 1024,      // a power of two
    PEER_MAX_EFFECTS = 8192,
    PEER_OUTBOX_BYTES = 4 << 20,    // encoded messages of one step; what does not fit is lost, like on a link
    PEER_MAX_TASKS = 512,           // jobs that wait; more requests of others are denied
    PEER_KEPT_TASKS = 32,           // of these, kept for what is not bulk
    PEER_MAX_TRIED = 8,
    PEER_MAX_PULLS = 96,            // GETs under way
    PEER_SEGMENT_BLOCKS = 8,        // parameter blocks moved by one GET: 2 MiB of fp32, 6 MiB of state
    PEER_WAITING_PARTS = 256,       // of segments that are collected: about so many may lie here until the others have come
    PEER_LEAST_COLLECTED = 16,      // ... and so many segments are collected at once in any case
    PEER_MAX_APPENDS = 80,          // records stored in one step
    PEER_KEPT_APPENDS = 10,         // of these, kept for votes and entries of others
    PEER_MAX_ARRIVALS = 32,         // tensors on their way that somebody carries
    PEER_MOST_ASKED = 64,           // GETs of one peer that are not served yet, and
    PEER_MOST_SERVED_MIB = 128,     // what waits on its line: more than an honest one asks for at once. It is told to ask later
    PEER_MOST_CARRIED = 32,         // tensors, as bytes that wait on its lines: a carrier takes no more
    PEER_BYPASSES = 4,              // carriers by whom blocks of one member come at once
    PEER_KNOWN_BYPASSES = 16,       // members whose blocks' ways are remembered
    PEER_RESTING_CARRIERS = 16,     // who failed, or was no quicker, lately
    PEER_MAX_SHADOWS = 4,           // of one stage
    PEER_KEPT_FORMER = 64,
    NO_SLOT = UINT32_MAX,
    NO_CONTACT = UINT32_MAX,
    NO_STAGE = UINT16_MAX,          // whose work a shadow does
};

// ---- who is there -------------------------------------------------------------------------------------------------

typedef enum link_state { LINK_NONE, LINK_DIALING, LINK_UP } link_state;

// Whoever changes its member, its link, or a time of its that contacts_tick looks at, calls contact_touch.
typedef struct contact {
    // what most steps look at, close together
    bool used;
    bool joining;       // leader: its MEMBER entry is on its way into the log
    bool departing;     // leader: it asked to leave
    bool untold;        // an earlier life of it is a member no more: the one that is here may have missed who leads
    bool itself;        // what the link leads to has spoken as that member: it is no later life
    bool log_known;
    link_state link;
    member_id member;   // its live member, 0: none
    braid_id id;
    uint64_t sent_ns, beat_sent_ns;
    timing_link timing;
    uint64_t up_ns;         // when its newest link came
    uint64_t down_ns;       // since when there is no link
    uint64_t refused_ns;    // since when every dial to where it is is refused, 0: none was
    bool moved;             // to an address that has not been dialled yet
    bool turn_elsewhere;    // the next dial is to `elsewhere`
    bool was_refused;       // the dial before
    char elsewhere[WIRE_MAX_ADDRESS];  // where it may be as well: its user named that, or others said so. Dialled in turn with `address`
    uint64_t redial_ns, redial_delay_ns;
    uint64_t admitted_ns;   // when it became a member
    uint64_t asks_in_ns;    // when it asked me, who do not lead, to let it in; 0: never
    uint64_t log_position;  // leader: what it has applied, once it has said so on this link
    uint64_t log_sent_ns;
    uint64_t progress_ns;       // when it last said that it had done something more
    message_heartbeat beat;
    uint64_t beat_position;     // of its log, when it said that; 0: it has said nothing on this link
    uint32_t links;         // that it has had with me
    uint64_t incarnation;  // of the process that was admitted
    braid_id host;         // of a shadow: who works on its machine
    uint64_t store;        // where it would keep the log
    uint8_t join_kind;
    uint16_t join_stage;
    uint32_t join_capacity;
    struct {                // as a donor of state
        uint64_t rest_ns;   // not to be asked before
        uint64_t block_ns;  // smoothed time of a block, 0: not measured
        uint64_t came_ns;   // when its last bytes came
        bool paced;         // has said how long to wait: it is asked for one thing at a time
        bool lied;          // sent what is not what its name says
    } donor;
    uint64_t vouched_ns, vouched_version;  // leader: when it was last told the root of its stage's state, and at which version
    char address[WIRE_MAX_ADDRESS];   // where it is, as far as is known
    char entered[WIRE_MAX_ADDRESS];   // where its MEMBER entry says that it was
} contact;

// Of PEER_CONTACT_BLOCK contacts: before `due_ns` there is nothing to do for any, but to wake at `wake_ns`.
typedef struct contact_block {
    uint64_t due_ns, wake_ns;
} contact_block;

typedef struct member {
    member_id id;
    uint32_t contact;    // NO_CONTACT: myself
    uint16_t stage;      // whose work it does; NO_STAGE: it is a shadow
    uint16_t keeps;      // whose state it has
    uint64_t promoted;   // by this entry of the log; 0: it was no shadow, or is one
    uint8_t kind;
    uint32_t capacity;
    bool expelling;      // leader: its EXPEL is on its way into the log
    bool was_ready;      // it has said that it has its state, though it may be busy applying a result now
} member;

// ---- a microbatch at a member -------------------------------------------------------------------------------------

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

typedef struct sending {
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
} sending;

// On whose line it is; 0: on nobody's.
static inline member_id send_line(const sending *s) { return s->state != SEND_SENT ? 0 : s->by != 0 ? s->by : s->to; }
static inline bool send_pending(const sending *s) { return s->state == SEND_WAITING || s->state == SEND_SENT || s->state == SEND_ACCEPTED; }

typedef struct held {
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
    sending on, back;
    uint64_t touched_ns;     // last change, for the waiting-stash TRACE
    uint64_t spent_ns;       // compute booked on it so far
} held;

// A tensor that somebody carries, on its way to me.
typedef struct arrival {
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
} arrival;

// ---- a microbatch at its owner ------------------------------------------------------------------------------------

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

typedef struct owned {
    uint8_t phase;
    bool is_void, overflow;
    blob_id home, gradient;      // x of the ends, dx of the head (this owner's own record)
    uint64_t gradient_hash;
    sending back;                // the gradient to the last stage
    uint32_t tokens;
    double loss;
    uint64_t deadline_ns;        // then the path is probed
    uint64_t probe_ns;           // the present probe ends then, 0: none
    uint64_t nonce;
    uint64_t settled_ns;         // when SETTLED was last sent
    uint32_t patience;           // probes that found nothing wrong
    uint64_t believed_ns;        // since when its members say that they go on, and nothing has come of it
    bool adopted;                // of another owner's: members hold it already
    owned_stage *stage;          // [stages]
} owned;

// Slots that became mine in the middle of an iteration: nothing is ordered before every member has told what it holds.
typedef struct takeover {
    bool open;
    uint64_t term;               // of the newest OWNER entry
    uint64_t asked_ns;
    bool slot[WIRE_MAX_SLOTS];
    uint32_t answers;
    member_id *answer;           // [WIRE_MAX_MEMBERS]
} takeover;

// Private data: whose a share of the slots is, and whether it is there.
typedef struct share_state {
    bool awaited;          // told: its peer is no member
    uint64_t awaited_ns;   // since when
    // the leader, elastic
    uint64_t missed_ns;    // since when its slots have no owner, 0: they have
    bool left_out;         // the present iteration waits no longer
} share_state;

// ---- jobs ---------------------------------------------------------------------------------------------------------

// A job with what to do when it is done.
typedef struct task {
    job work;
    uint32_t serial;        // of the microbatch
    member_id member;       // who I was; the answer means nothing to who I am later
    uint32_t contact;       // who asked, NO_CONTACT: nobody
    message_get get;        // what was asked
    uint64_t close;         // reduction: the CLOSE that its blocks belong to
    uint64_t fence;         // as of past, when it was asked for
    bool of_start;          // JOB_STATE_ROOT: of a checkpoint's state, before it is taken
} task;

// ---- pulling blocks -----------------------------------------------------------------------------------------------

typedef struct pull pull;

// What pulled chunks are for. Each client has its own; functions that it does not need are NULL.
typedef struct pull_client {
    void (*refused)(peer *p, const pull *q, const message_deny *deny);  // before `failed`: the source said why
    void (*overdue)(peer *p, const pull *q);                            // before `failed`: it has not answered in time
    void (*failed)(peer *p, const pull *was);                           // it ended without its chunks
    void (*data)(peer *p, const message *msg, blob_id blob);            // DATA that answers a pull of this client; takes the blob
    void (*again)(peer *p, pull *q);      // the forwarder failed: ask once more, without one
    void (*needless)(peer *p, pull *q);   // its chunks are not needed any more
} pull_client;

struct pull {
    bool used;
    const pull_client *client;
    uint8_t what;
    uint16_t stage;
    member_id from;
    uint32_t first, count;
    uint64_t version, round;
    uint64_t digest;
    uint64_t asked_ns, deadline_ns;
    uint32_t part;          // GET_PART: index of the contributor in the round's list
    member_id by;           // who carries the answer, as parcel `serial`; 0: nobody
    uint32_t serial;
    bool announced, joining;  // its DATA has come, and said `hash`; the bytes are looked at
    uint64_t hash;
    blob_id piece;          // the bytes, so many
    uint64_t bytes;
    uint64_t patience_ns;   // it is waited for so long
};

// By which ways a member's blocks may come to me. The first one is straight.
typedef struct bypass_way {
    member_id by;
    uint64_t us;            // of a tensor; 0: not known
    uint32_t percent;       // of what they may need, blocks needed lately; 0: none came
    uint64_t came_ns;       // when the last ones did
} bypass_way;

typedef struct bypass_ways {
    member_id from;         // 0: nobody
    uint64_t until_ns;      // they are looked for again then
    uint64_t fewer_ns;      // since when one of them rests, for all together were slow
    uint32_t count;
    bypass_way way[1 + PEER_BYPASSES];
} bypass_ways;

typedef struct bypass_rest {
    member_id by;
    uint64_t until_ns;      // it is not asked to carry before
} bypass_rest;

// One way, and when what is asked for now should be there.
typedef struct bypass_choice {
    member_id by;
    uint64_t us;            // of tensors, as many as are under way on it already, and one
} bypass_choice;

// State that is not here yet: which names of blocks the host has, and which blocks it may have already.
typedef struct fetching {
    struct {
        bool known;
        uint64_t version;
    } names[2];             // by version % 2
    bool naming;            // names are on their way to the host
    uint64_t names_ns;      // when they were last asked for
    bool vouched;           // the leader has told the root at `vouched_version`
    uint64_t vouched_version;
    braid_hash vouched_root;
    bool keeps, keeping;    // blocks of this stage lie at the host, of an earlier membership or a checkpoint; one look is under way
    uint32_t keep_next;     // segment to look at next
    uint64_t own_version;   // at which all blocks lie here, UINT64_MAX: they do not
    bool own_asked, own_known;
    braid_hash own_root;    // of these
    uint64_t own_told_ns;   // when the leader was last told
    uint32_t next_donor;    // whom to ask first among equals
} fetching;

// ---- an aggregation at a member -----------------------------------------------------------------------------------

typedef enum segment_state { SEGMENT_MISSING, SEGMENT_PULLING, SEGMENT_WORKING, SEGMENT_DONE } segment_state;

// There are many, and all are looked at often: what is needed seldom lies elsewhere.
typedef struct segment {
    uint8_t state;
    bool mine;              // I add it up
    bool straight;          // somebody has failed to carry it
    uint32_t asked;         // whom to ask next when nobody announced it
    member_id holder;       // who announced it
    uint64_t arrived;       // parts, one bit each
    uint64_t asked_ns;
} segment;

_Static_assert((int)PEER_SEGMENT_BLOCKS <= (int)WIRE_MAX_CARRIED_BLOCKS, "a segment may be carried");
_Static_assert((int)WIRE_MAX_STAGE_MEMBERS <= 64, "the parts of a segment are bits of one word");

typedef struct aggregation {
    bool begun;             // `begin` is this iteration's newest round
    bool adopted;           // the log was applied up to its CLOSE, and my part is what the round says
    bool normed, norm_asked;
    message_begin begin;
    uint64_t begun_ns;      // when BEGIN came
    bool given_up;          // nobody has the results any more: fetch the state instead
    uint32_t refusals;
    uint64_t mismatch_ns;   // when MISMATCH was last sent
    uint64_t reduced_ns;    // when REDUCED was last sent
    message_reduced reduced;
    uint64_t results;       // iteration of the result blocks
    uint32_t done;          // finished segments
    uint64_t calm_until_ns; // before this reduce_tick has nothing to do, unless something other than a trifle comes
    uint64_t calm_wake_ns;  // ... but to wake then
    member_id asked_of;     // in this reduce_tick, of whom it was seen last whether he answers; 0: of nobody
    bool it_answers;
    member_id full;        // ... and of whom as much as may be is under way
    bool candidates_known;  // in this reduce_tick
    uint32_t candidates;
    member_id candidate[WIRE_MAX_STAGE_MEMBERS];  // of the stage, who could be asked for a result
    segment *segment;       // [segments of this stage]
    blob_id (*part)[WIRE_MAX_STAGE_MEMBERS];  // [segments of this stage], those that arrived and wait for the others
} aggregation;

// ---- the leader ---------------------------------------------------------------------------------------------------

typedef struct settled {
    bool known;
    message_settled body;   // path, revs
    uint32_t rev_sum;
} settled;

typedef struct stage_round {
    uint64_t round, first;  // rounds before `first` belong to an older CLOSE
    bool running, dirty;
    uint64_t agreed_ns;     // since when enough members report one root
    uint32_t shadows;       // that have the results
    member_id shadow[PEER_MAX_SHADOWS];
    braid_hash shadow_root[PEER_MAX_SHADOWS];
    uint32_t reports;
    member_id reporter[WIRE_MAX_STAGE_MEMBERS];
    braid_hash root[WIRE_MAX_STAGE_MEMBERS];
    bool overflow;
    braid_hash result_root;
    double *norm2;          // [tensors of the stage]
    message_begin begin;
    uint64_t sent_ns;
    // state roots of the present version
    uint32_t states;
    member_id state_member[WIRE_MAX_STAGE_MEMBERS];
    braid_hash state_root[WIRE_MAX_STAGE_MEMBERS];
    bool state_agreed;
    braid_hash agreed_state;
    bool named;             // the checkpoint being written has the names of this stage's blocks, of `named_root`
    braid_hash named_root;
    bool kept;              // a shadow has told its root: whoever comes to a stage where only shadows have the state gets it from them
    braid_hash kept_root;
} stage_round;

typedef enum leader_phase { LEADER_GATHERING, LEADER_RUNNING, LEADER_CLOSING, LEADER_REDUCING, LEADER_DECIDING, LEADER_DECIDED, LEADER_FINISHING, LEADER_SAVING_LAST, LEADER_OVER } leader_phase;

typedef struct leader {
    uint8_t phase;
    uint64_t term;
    uint32_t decisions;     // JOB_DECIDE asked for
    uint64_t begun_ns;      // when the present iteration began, as far as it knows
    uint64_t handed_ns;     // when it last asked another one to lead
    uint32_t appends;       // on their way into the log
    uint64_t drain_ns;      // when it was said that the run is to end, 0: it was not
    settled *settled;       // [microbatches + eval]
    log_close close;
    uint64_t close_index;
    stage_round *round;     // [stages]
    double norm2;
    log_entry final;        // decided, waits until a checkpoint of the present version is written
    // checkpoint being written
    bool saving, save_failed;
    uint64_t save_version;
    uint32_t save_serial;   // names the attempt: what was under way for an older one counts for nothing
    uint16_t save_stage;
    uint32_t save_next, save_under_way;  // segment to ask for next; asked for and not yet stored
    bool save_ending, save_naming;
    bool end_appended;      // END is on its way into the log
    uint64_t save_names_ns;  // names were last asked for
    uint32_t save_donor;
    bool checkpoint_due;    // CHECKPOINT is to be appended before FINAL: this one, without the state roots
    log_entry checkpoint;
    uint64_t vouch_ns;      // nobody is to be told a root before
    uint64_t eval_tokens;
    double eval_loss;
} leader;

// ---- the log ------------------------------------------------------------------------------------------------------

// What voters keep; others never touch it.
typedef struct log_ring {
    log_entry append[PEER_MAX_APPENDS];  // of this step's EFFECT_APPENDs
    log_entry entry[RAFT_WINDOW];
} log_ring;

// ---- going back ---------------------------------------------------------------------------------------------------

// Where the run began, where it can go back to, and how often it did.
typedef struct rollback {
    uint64_t saved;         // 1 + the version of the newest that lies here, 0: none
    uint32_t looked;        // the host was asked for so many of them, from the newest on
    bool looking;
    uint64_t began_ns, iteration_ns;    // when the present iteration began; how long the one before took
    uint64_t lost_ns[WIRE_MAX_STAGES];  // leader: since when nobody has the stage's state, 0: somebody may
    uint64_t lead_ns;       // leader: since when it leads
    uint64_t decided;       // leader: index of the RUN with which it goes back, 0: none
} rollback;

// Somebody who is a member no more; as long as its process lives it has the state that it had.
typedef struct former {
    uint64_t incarnation;
    uint16_t stage;
} former;

typedef struct local_message {
    size_t offset, bytes;
} local_message;

struct peer {
    peer_run run;
    peer_config config;
    core_change_handler *on_change;
    uint64_t now;
    uint64_t woke_ns;       // when I last did after I had stood still
    rng random;

    // effects of the present step
    effect *effects;
    uint32_t effect_count, effect_next;
    uint8_t *outbox;
    size_t outbox_bytes;
    uint64_t dropped_sends;
    char text[256];

    // messages to myself, delivered at the end of the step
    local_message local[WIRE_MAX_MICROBATCHES + 256];  // who leads may have all of an iteration to settle at once
    uint32_t local_first, local_count;

    contact *contacts;      // [PEER_MAX_CONTACTS]
    uint32_t contact_high;  // all used ones lie below
    contact_block contact_block[PEER_CONTACT_BLOCKS];
    uint16_t contact_at[PEER_CONTACT_HINTS];  // hash table of ids: 1 + index of the contact, 0: none
    member *members;        // [WIRE_MAX_MEMBERS], ascending id
    uint32_t member_count;
    former former[PEER_KEPT_FORMER];  // a ring
    uint32_t next_former;
    run_state state;
    share_state share[WIRE_MAX_SLOTS];  // [run.shares]

    // log
    uint64_t log_asked_ns;
    log_ring *ring;
    uint32_t step_appends;  // EFFECT_APPENDs in this step
    raft raft;
    uint64_t store_until;     // behind this entry the store is begun anew
    uint32_t recall_entries;  // of the state that a store begins with, still to come
    uint64_t recall_position;
    struct {
        uint64_t floor, until_ns;
        uint64_t as_of;     // 0: none comes
        uint32_t from;
    } afresh;               // a state comes, entry by entry, in place of what was known up to `floor`
    struct {
        bool heard;         // it has said itself that it leads in this term
        uint64_t term;
        braid_id id;
        uint64_t looked_ns; // when it was last seen to that all voters are known
        uint64_t asked_ns;  // when somebody was last asked who it is
        uint32_t asked;     // how many of them
        uint64_t miss_ns;   // when it is told who is missing, unless somebody leads by then
        uint64_t strange_ns;  // since when only strangers speak as if they led; 0: whom I know may
        uint64_t farewell;    // the newest entry that one of these had read who said goodbye: who has read more himself does not believe it
    } lead;                 // who leads, as far as this peer knows
    bool leads;             // and it is this peer
    bool admitted;          // ... whose own MEMBER entry is on its way into the log
    bool hears_most;        // ... and which hears most of the other members: the rest are unresponsive by their own fault
    rollback past;

    // me
    member_id me;           // 0: not a member
    uint16_t stage;         // whose state I have
    bool shadow;            // and whose work I do not
    uint64_t rest_until_ns; // a shadow's line is others' until then
    uint64_t join_sent_ns;
    uint64_t join_floor;    // my own MEMBER entries up to here do not count any more
    bool initialised;       // JOB_STATE_INIT or the first transfer has begun
    bool ready;             // whole state at `iteration`
    bool leaving, over;
    bool stands_again;      // it leaves, and its membership went with its log and not by the log: with what it has it comes in again, to be let go
    uint64_t iteration_ns;  // when it began here
    uint64_t version;       // of my whole state, when ready
    uint64_t *block_version;  // [blocks of my stage], UINT64_MAX: not there. Whoever changes one calls reduce_blocks_changed
    uint64_t oldest_block, newest_block;  // of these versions
    uint32_t blocks, segments;
    bool applying;          // an APPLY is queued or running
    bool can_take;
    uint64_t can_take_sent; // iteration + 1
    bool state_asked, state_known;
    braid_hash state_root;
    uint64_t root_version;    // of state_root
    uint64_t state_sent_ns;
    bool root_wanted;       // somebody waits for the names of my blocks
    fetching fetching;
    uint32_t state_lies;    // 1 + the stage of which the host has blocks, 0: none
    uint64_t lies_version;  // at which all of them were when I was expelled, UINT64_MAX: they were not
    struct {
        uint64_t ns, bytes; // when state went out last within my line's share, and how much
    } upload;

    flow flow;              // next stage
    routing routing;
    uint32_t microbatches;  // planned and held-out
    held *held;             // [microbatches]
    uint64_t held_set[WIRE_SET_WORDS];  // those that are used
    uint32_t slots_used;
    uint8_t *slot_taken;    // [capacity]
    uint64_t forward_ns, backward_ns, weight_ns;
    uint64_t progress;
    message_set k;
    uint32_t counted;
    bool sum_dirty;         // the host's sum holds something

    owned *owned;           // [microbatches]
    arrival arrival[PEER_MAX_ARRIVALS];
    uint32_t arrivals_used; // one bit each
    takeover takeover;
    uint64_t starved_ns;    // since when what I took over finds no slot, 0: nothing does
    aggregation aggregation;
    pull pulls[PEER_MAX_PULLS];
    const pull_client *late_state;  // takes state whose pull is over
    struct {
        bypass_ways known[PEER_KNOWN_BYPASSES];
        bypass_rest rest[PEER_RESTING_CARRIERS];
        uint32_t next_known, next_rest;
    } bypass;

    task running;
    uint64_t next_job;
    task *tasks;            // ring [PEER_MAX_TASKS]
    uint32_t task_first, task_count;

    leader leader;
    uint64_t blobs_held;
    uint64_t useful_ns, wasted_ns, wasted;
    uint64_t carried, carried_bytes;
    uint64_t carried_until_ns;  // its line may be busy with what it carries for others until then
    uint64_t waiting_bytes; // of the event under way
    uint64_t deadline;
    message scratch;        // being composed
    message received;       // a local one being decoded
};

#include "protocol/calls.h"

#endif
