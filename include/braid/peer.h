// The protocol of one peer: membership, iteration, recovery, aggregation, state transfer
// (docs/protocol.md).
//
// Pure: one call is the whole boundary between the protocol and the world.
//     peer_step(peer, now, event);
//     while (peer_next_effect(peer, &effect)) do it;
//     deadline = peer_deadline(peer);
// No clock, socket, thread, file or global. The simulator and the real process run the same object
// code.
//
// Rules that always hold:
//  1. An effect's pointers are valid until the next peer_step.
//  2. A blob that arrives in an event (payload or job output) belongs to the peer, which gives it
//     back by EFFECT_RELEASE. A blob named in EFFECT_SEND or a job is borrowed: the host holds it
//     until it has used it.
//  3. At most one job is outstanding; its answer always comes.
//  4. Messages without a payload keep their order while a link lives, and so do those with one; the
//     former may overtake the latter. A link that fell loses what it had not delivered.
#ifndef BRAID_PEER_H
#define BRAID_PEER_H

#include "base/err.h"
#include "base/id.h"
#include "braid/job.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct peer peer;

enum {
    PEER_VOTERS = 5,  // more would slow each decision down, and more simultaneous deaths are unlikely
    PEER_MAX_CONTACTS = WIRE_MAX_MEMBERS + 64,  // members and joiners
    PEER_UPLOAD_PERCENT = 25,                   // usual share of a link for state transfer
};

// The rule for the stage of a joiner that asks for none.
typedef enum peer_placement {
    PLACEMENT_GAIN,      // the shortest iteration, where the leader knows the links; else as below
    PLACEMENT_CAPACITY,  // the least capacity: GWTF's rule, for comparison
    PLACEMENT_STAY,      // as PLACEMENT_GAIN, but no member moves later
    PLACEMENT_SHUFFLE,   // tests only: PLACEMENT_CAPACITY, and moves whenever rule J14 permits one, gain or not
    PLACEMENTS
} peer_placement;

// The part of the run's description that the protocol uses.
typedef struct peer_run {
    braid_hash description;
    uint64_t seed, iterations;  // versions 0 .. iterations
    uint64_t start_version;
    bool
        from_model;  // version 0 is a model that the first leader has, and is fetched like a checkpoint; else the seed makes it
    uint32_t microbatches;  // per iteration
    uint16_t stages;        // 0 .. stages - 1
    uint16_t slots;         // m belongs to slot m mod slots
    uint16_t
        shares;  // private data: slot s belongs to share s mod shares, and each share to one peer. 0: all peers have the same data
    bool elastic;          // private data: an iteration goes on without the microbatches of a data peer that is away
    uint64_t patience_ns;  // elastic: grace period for an absent owner
    bool reproducible;
    uint8_t routing;    // router_algorithm; ROUTER_ALGORITHMS: none, each microbatch is sent to the cheapest peer
    uint8_t objective;  // router_objective
    bool plan_first;    // router_config.plan_first
    uint8_t placement;  // peer_placement
    bool restarts;  // for comparison: a microbatch with a broken path in the backward pass starts again, as in SWARM
    uint32_t eval_every;  // iterations between held-out losses, 0: never
    uint32_t eval_microbatches;
    uint32_t checkpoint_every;  // 0: only at the end
    uint32_t max_skipped;       // iterations in a row without a finite gradient that end the run, 0: any number goes on
    bool save;                  // write checkpoints at all; the weights' hash is computed either way
    uint16_t start_data_peers;  // the run starts when these many data members
    uint16_t start_relays;      // and these many relays are there (and each stage has one)
    uint16_t standbys;          // of each stage but the first, where there are machines for them; at most 4
    uint64_t activation_bytes;  // of one microbatch between two stages, as it is sent
    uint64_t gradient_bytes;    // the same for its gradient; 0: as many
    uint64_t state_bytes[WIRE_MAX_STAGES];  // of a stage's weights and moments, about; 0: not known
    uint32_t blocks[WIRE_MAX_STAGES];       // parameter blocks per stage
    uint32_t tensors[WIRE_MAX_STAGES];      // parameter tensors per stage
    uint32_t model_tensors;
    const uint16_t *tensor_stage;  // [model_tensors] in canonical order; borrowed for the peer's life
} peer_run;

// Bytes of a microbatch's tensor on its way between two stages.
static inline uint64_t peer_tensor_bytes(const peer_run *run, message_phase phase) {
    return phase == PHASE_BACKWARD && run->gradient_bytes ? run->gradient_bytes : run->activation_bytes;
}

typedef struct peer_config {
    braid_id self;
    char address[WIRE_MAX_ADDRESS];
    member_kind kind;
    bool leader;         // begins the run: its first leader, and its only voter until there are others
    bool lacks_start;    // the host no longer has the state from which the run began
    braid_id leader_id;  // the leader to JOIN
    char leader_address[WIRE_MAX_ADDRESS];
    braid_id
        named_id;  // the peer that the user named, which named the leader; the leader may have died since. Zero: the leader itself
    char named_address[WIRE_MAX_ADDRESS];
    uint32_t capacity;     // microbatches it can hold at once
    uint16_t stage;        // where a relay would like to be; 0: where it helps most
    uint16_t share;        // a data peer's wish with private data, from 1; 0: any that is free
    braid_hash text;       // names its private data
    braid_id host;         // of a relay or standby: the peer that works on this machine, too; zero: none
    uint64_t random_seed;  // another one in each incarnation: incarnations are told apart by it
    uint64_t store;        // names what EFFECT_APPEND writes to; another one whenever that begins empty. 0: random_seed
    uint32_t store_entries;  // a voter's store of more is made shorter, 0: as many as is sensible
    uint16_t voters;         // at most so many vote, up to PEER_VOTERS; 0 or 1: the first leader alone
    bool has_checkpoint;     // the host begins with blocks of a checkpoint: what is wanted may be among them
    uint8_t upload_percent;  // most of its link that state may take while the run goes on; 0 and 100: all of it
    bool carries_nothing;    // relays no tensors of others
} peer_config;

typedef enum event_kind {
    EVENT_TICK,
    EVENT_LINK_UP,    // id; a dial of ours or theirs; authenticated
    EVENT_LINK_DOWN,  // id; refused: the port of the other side refuses connections
    EVENT_MESSAGE,    // from id, message, blob
    EVENT_JOB_DONE,
    EVENT_STORED,  // the entry of an EFFECT_APPEND is on stable storage
    EVENT_DRAIN,   // the user asked for the end: finish the iteration, save, leave
    // the user asked for a checkpoint: if this peer leads, it saves the present version and the run
    // goes on
    EVENT_SAVE,
    EVENT_KINDS
} event_kind;

typedef struct event {
    event_kind kind;
    braid_id id;
    bool refused;
    const message *msg;  // borrowed
    blob_id blob;
    uint64_t blob_bytes;
    uint64_t
        waiting_bytes;  // of payloads that have not left this host yet, when CARRY or CARRY CHUNKS came; when a MESSAGE_GET, of those to its sender
    const job_result *result;
    const log_entry *entry;
    bool whole;  // EVENT_DRAIN: the run is to end so, if this peer leads it; else nothing
    bool drop;   // end without the iteration under way: the present version is saved
    // The log takes no more entries. For the only voter: entries that are not durable do not count.
    bool unlogged;
} event;

// Notifications for the user.
typedef enum tell_kind {
    TELL_JOINED,     // this peer became `member` of `stage`
    TELL_MEMBER,     // another peer did
    TELL_EXPELLED,   // member, reason
    TELL_STARTED,    // the run starts at `iteration`
    TELL_ITERATION,  // a FINAL: iteration, loss (mean), tokens, microbatches, norm, learning_rate, skip
    TELL_EVAL,       // held-out loss (mean), tokens
    TELL_REPAIR,     // m, stage, phase: what was repaired because `member` died
    TELL_TAKEOVER,  // member, id: the new owner of `microbatches` of each iteration, after its owner `gone` died; once for each slot
    TELL_SUSPECT,     // member, stage: does not answer
    TELL_TRANSFER,    // this peer fetches state: done, total blocks
    TELL_CHECKPOINT,  // version, or failed
    TELL_FLOWS,       // the flow of this peer's router has changed: flow, flows, changes
    TELL_END,         // the run is complete: weights' hash
    TELL_DIVERGED,    // the run ends with `iteration`: `total` iterations in a row had no finite gradient
    TELL_REFUSED,     // this peer cannot take part; `text` has the reason
    TELL_LEADER,      // `id`, at the address `text`, leads from now on
    TELL_AWAITED,  // `id`, the only peer with the data of `microbatches`, is away; they wait `total` ns, 0: until it is back
    TELL_BACK,      // `id` is back after `done` ns
    TELL_PROMOTED,  // member, id: it was a standby of `stage` and does its work from now on
    TELL_LIED,      // member, id, stage: sent corrupt state; it is fetched from another source
    TELL_SPOILT,  // the checkpoint of version `iteration` that lies here has another state of `stage` than was saved: it is not used
    TELL_ROLLED_BACK,  // all copies of the state of `stage` are lost: rolled back to version `iteration`; `total` iterations are computed again
    TELL_UNFINISHED,  // the run ends with version `iteration`, because `id` is away and `microbatches` of the next one need its data
    TELL_ALONE,  // this peer was asked to leave, and no other one has the state of `stage`
    TELL_UNLED,  // no leader, and no quorum: `done` of `total` voters are here; a missing one is `id`, last at the address `text`
    TELL_KINDS
} tell_kind;

// Units of flow through this peer: of which source, from and to which member (0: they begin or end
// here, or have no path yet).
typedef struct peer_flow {
    member_id source, from, to;
    uint32_t units;
    uint32_t cost;  // of the link to `to`, in microseconds; 0: there is none
} peer_flow;

typedef struct tell {
    tell_kind kind;
    uint64_t iteration;
    member_id member;
    member_id gone;  // TELL_TAKEOVER
    braid_id id;
    uint16_t stage;
    uint32_t m;
    uint8_t phase;  // repair_phase
    uint8_t reason;
    bool failed, skip;
    bool stopped;  // TELL_REFUSED: the run has ended, and by this peer's log it was not complete
    bool standby;  // the member keeps the state of `stage`, and does not do its work
    double loss, norm, learning_rate;
    uint64_t tokens;
    uint32_t microbatches;
    uint64_t generation;                    // TELL_ROLLED_BACK: of the run, from now on
    uint32_t left_out;                      // TELL_ITERATION: planned, and of data that was not there in time
    uint64_t wasted, wasted_ns, useful_ns;  // TELL_ITERATION: this peer's so far, as in peer_view
    uint64_t carried, carried_bytes;        // relayed ones of these
    uint64_t done, total;
    braid_hash hash;
    const char *text;
    const peer_flow *flow;  // one for each source and next peer; valid until the next step
    uint32_t flows;
    uint64_t changes;  // of the units of each neighbour, so far
} tell;

// The phase of a microbatch when its path had to be repaired.
typedef enum repair_phase {
    REPAIR_FORWARD,
    REPAIR_BACKWARD,
    REPAIR_COMMITTED,
    REPAIR_AGGREGATION,
    REPAIR_PHASES
} repair_phase;
const char *repair_phase_name(uint8_t phase);
const char *tell_name(tell_kind kind);

typedef enum effect_kind {
    EFFECT_SEND,  // `bytes` (an encoded message) to `id`, with `blob` when not 0, or `blob_bytes` of it; bulk when it has a blob
    EFFECT_DIAL,   // connect to `id` at `address`; EVENT_LINK_UP or EVENT_LINK_DOWN follows
    EFFECT_CLOSE,  // the link to `id`
    EFFECT_JOB,
    EFFECT_APPEND,   // voters: make `entry` durable, after those before it, then EVENT_STORED. See peer_recall
    EFFECT_APPLIED,  // `entry` of the log holds here from now on
    EFFECT_RELEASE,  // `blob`
    EFFECT_TELL,
    EFFECT_EXIT,  // nothing more to do; `failed` says how it ended
    EFFECT_KINDS
} effect_kind;

typedef struct effect {
    effect_kind kind;
    braid_id id;
    const char *address;
    const uint8_t *bytes;
    size_t byte_count;
    uint8_t message_kind;  // of `bytes`, for counting
    blob_id blob;
    uint64_t blob_offset, blob_bytes;  // blob_bytes 0: the whole of it
    const job *job;
    const log_entry *entry;
    tell tell;
    bool failed;
} effect;

// Bytes a peer needs, all reserved here; nothing is allocated later.
size_t peer_bytes(const peer_run *run, const peer_config *config);
// Builds a peer in `memory` (peer_bytes, 64-byte aligned, zeroed). `run` and `config` are copied.
peer *peer_init(void *memory, const peer_run *run, const peer_config *config, uint64_t now_ns);

// After a restart: the stored records of this peer, record by record in the order of EFFECT_APPEND,
// before the first step. An entry replaces that of its index and all behind it. A LOG_BASE replaces
// everything before it but the newest LOG_VOTE, and as many entries follow it as it says: those
// that peer_snapshot gave when it was stored. All of that is stored, or nothing. False: the records
// do not belong together.
bool peer_recall(peer *p, const log_entry *record);
// The state as entries, in ascending order: the first after `after`. False: no more.
bool peer_snapshot(const peer *p, uint64_t after, log_entry *out);

void peer_step(peer *p, uint64_t now_ns, const event *e);
bool peer_next_effect(peer *p, effect *out);
// Latest time at which peer_step must be called again with EVENT_TICK.
uint64_t peer_deadline(const peer *p);

// Read-only views for checkers, the status page and tests.
// What a relay's place is chosen by.
typedef struct peer_site {
    uint16_t moves_to;     // a leader's newest choice of a stage for a relay; 0: none
    uint64_t compute_ns;   // one microbatch here, forward and backward; 0: none was computed yet
    uint64_t transfer_ns;  // its tensors to the next stage and back, over the fastest measured link; 0: none yet
} peer_site;

// Of a peer that is no member and leaves.
typedef struct peer_leaving {
    bool stands_again;  // it joins again first, so that its state stays available
    uint64_t left;      // 1 + the iteration of complete results here; 0: none
} peer_leaving;

typedef struct peer_view {
    member_id member;
    uint16_t stage;
    bool standby;  // keeps the state of `stage` only
    bool whole;    // all that it needs for version `reaches` is here
    uint64_t reaches;
    peer_leaving leaving;
    bool ready;  // at the newest version
    peer_site placement;
    uint64_t version, iteration;
    uint64_t generation;                     // 1 + the number of rollbacks
    uint32_t slots_used, capacity, counted;  // counted: |K|
    message_set k;
    uint64_t log_position;
    bool leads;       // decides what enters the log
    uint64_t term;    // in which it leads, or last heard of
    uint16_t voters;  // number of voters, if this peer is one
    uint64_t blobs_held;
    uint64_t useful_ns, wasted_ns;  // compute booked (invariant I12)
    uint64_t wasted;                // microbatches that were computed here, wholly or in part, and given up
    uint64_t carried;               // tensors that were sent by a forwarder
    uint64_t carried_bytes;         // of others' tensors, forwarded here
    bool routes;                    // true: this peer has a router; the fields below are its state
    bool route_linked;              // sessions with all neighbours are up
    bool route_settled;             // nothing of its is under way
    bool route_waits;               // the router has a deadline
    uint32_t route_units, route_capacity;
    uint32_t route_bound;       // after the capacity fell: what it may still carry until the rest is given up
    uint64_t routed, unrouted;  // microbatches that went by its units, and otherwise
    uint64_t route_changes;     // changes of the flow through this peer so far
} peer_view;

// Whether that peer is a member in the log, as far as it was read here.
bool peer_knows_member(const peer *p, const braid_id *id);
void peer_look(const peer *p, peer_view *view);
// The router's flows. Returns their number; at most `capacity` are written.
uint32_t peer_flows(const peer *p, peer_flow *out, uint32_t capacity);
// The microbatches of this iteration that a relay holds: those of one owner, or all (0).
void peer_holdings(const peer *p, member_id owner, message_holdings *out);
// The voters, as far as this peer knows.
const log_voters *peer_voters(const peer *p);
// Writes the machine of each voter of the newest committed configuration: the whole-model peer of
// which the voter is a member, else the voter itself. `out` holds WIRE_MAX_VOTERS. Returns their
// number; `index` becomes the configuration's log index.
uint32_t peer_voting_machines(const peer *p, uint64_t *index, braid_id *out);
// Live members of a stage, as this peer's log says; returns their number, at most `capacity`
// written.
uint32_t peer_members(const peer *p, uint16_t stage, member_id *out, uint32_t capacity);

#endif
