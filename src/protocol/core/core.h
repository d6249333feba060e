// The peer, as all parts of the protocol see it, and what each of them uses: effects, the outbox,
// the deadline, jobs, reports. The parts themselves are defined in the header of their folder, and
// a folder sees only those below it.
#ifndef BRAID_PROTOCOL_CORE_CORE_H
#define BRAID_PROTOCOL_CORE_CORE_H

#include "base/bitset.h"
#include "base/rng.h"
#include "protocol/core/change.h"
#include "protocol/core/faults.h"
#include "protocol/core/timing.h"
#include "braid/peer.h"
#include "protocol/state/run_state.h"
#include "raft/raft.h"

enum {
    PEER_MAX_EFFECTS = 8192,
    PEER_OUTBOX_BYTES = 4 << 20,    // encoded messages of one step; what does not fit is lost, like on a link
    PEER_MAX_TASKS = 512,           // jobs that wait; more requests of others are denied
    PEER_KEPT_TASKS = 32,           // of these, kept for what is not bulk
    NO_SLOT = UINT32_MAX,
    NO_CONTACT = UINT32_MAX,
    NO_STAGE = UINT16_MAX,          // the stage that a standby works for: none
};

// A queued job, with the data that its completion needs.
typedef struct core_job {
    job work;
    uint32_t serial;        // of the microbatch
    member_id member;       // this peer's member id then: the result is ignored when that membership has ended
    uint32_t contact;       // the contact that asked, NO_CONTACT: this peer itself
    message_get get;        // its GET
    uint64_t close;         // reduction: the CLOSE that its blocks belong to
    uint64_t fence;         // the newest rollback then: the result is ignored after another one
    bool of_start;          // JOB_STATE_ROOT: of a checkpoint's state, before it is taken
} core_job;

typedef struct local_message {
    size_t offset, bytes;
} local_message;

typedef struct peer_core {
    core_change_handler *on_change;
    // effects of the present step
    effect *effects;        // [PEER_MAX_EFFECTS]
    uint32_t effect_count, effect_next;
    uint8_t *outbox;        // [PEER_OUTBOX_BYTES]
    size_t outbox_bytes;
    uint64_t dropped_sends;
    message scratch;        // being composed
    // messages to this peer itself, delivered at the end of the step
    local_message local[WIRE_MAX_MICROBATCHES + 256];  // a leader may have all of an iteration to settle at once
    uint32_t local_first, local_count;
    message received;       // one of these being decoded
    // jobs
    core_job running;
    uint64_t next_job;
    core_job *tasks;            // ring [PEER_MAX_TASKS]
    uint32_t task_first, task_count;
    bool sum_dirty;         // the host's sum of weight gradients holds something
    uint64_t blobs_held;
    uint64_t waiting_bytes; // of the event under way
    uint64_t deadline;
} peer_core;

struct peer {
    peer_run run;
    peer_config config;
    peer_faults faults;
    uint64_t now;
    uint64_t resumed_ns;       // when this process last resumed after a pause
    rng random;
    uint32_t microbatches;  // of an iteration, planned and held-out
    member_id me;           // 0: not a member
    uint16_t stage;         // the stage of the state that this peer has
    bool standby;           // it keeps that state and does no work
    bool ready;             // all of the state is here, at `version`
    uint64_t version;
    uint64_t oldest_block, newest_block;  // versions of the blocks of state here
    uint64_t drain_ns;      // when the user asked the leader for the end of the run, 0: not yet
    bool leaving, over;
    bool disabled;          // it computes no microbatch any more
    peer_core core;
    run_state state;
    raft raft;
    struct peer_cluster *cluster;
    struct peer_log *log;
    struct peer_routing *routing;
    struct peer_microbatches *microbatch;
    struct peer_chunks *chunks;
    struct peer_leader *leader;
};

// ---- core.c -------------------------------------------------------------------------------------
message *peer_compose(peer *p, message_kind kind);
void peer_release(peer *p, blob_id *blob);
effect *peer_effect(peer *p, effect_kind kind);  // NULL: too many
void peer_tell(peer *p, const tell *what);
void peer_wake_at(peer *p, uint64_t when_ns);
// Rule G6: true if the sender had not applied the newest RUN.
bool core_is_past(const peer *p, const message *msg);
bool core_outdates(const peer *p, const message *msg);  // ... and the message is about what was computed
void core_report(peer *p, const core_change *c);
effect *core_send_effect(peer *p);
size_t core_encode(peer *p, const uint8_t **bytes);
bool core_send_local(peer *p, blob_id blob);
bool peer_breaks(const peer *p, peer_mutant rule);  // tests only
uint64_t message_set_digest(const message_set *set);

// ---- jobs.c -------------------------------------------------------------------------------------
core_job *jobs_add(peer *p, job_kind kind);  // NULL: too many wait
void jobs_drop(peer *p);               // those that have not begun
void jobs_release_inputs(peer *p, const core_job *t);
void jobs_start(peer *p, const core_job *t);

// True for the version that every peer can make from the run's seed.
static inline bool peer_makes(const peer *p, uint64_t version) { return version == 0 && !p->run.from_model; }

#endif
