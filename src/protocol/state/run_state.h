// The replicated state of a run: what the log says up to `position`, and nothing else. Peers that
// have applied the same entries have the same state, so a snapshot of it may replace the entries.
//
// Pure data: no time, no link, nothing of the peer that holds it. What follows from an entry for
// that peer is decided by the caller, from the change that run_state_apply returns.
#ifndef BRAID_PROTOCOL_STATE_RUN_STATE_H
#define BRAID_PROTOCOL_STATE_RUN_STATE_H

#include "wire/message.h"

enum {
    RUN_STATE_CHECKPOINTS = 4,  // the newest that the log names
    RUN_STATE_NO_SHARE = UINT16_MAX,
};

typedef struct run_member {
    member_id id;         // index of its MEMBER entry
    uint64_t promoted;    // index of its PROMOTE entry, 0: none
    log_member entry;
} run_member;

typedef struct run_share {
    uint64_t index;       // of its SHARE entry, 0: the share belongs to no peer
    log_share entry;
} run_share;

typedef struct run_checkpoint {
    uint64_t index;
    log_checkpoint entry;
} run_checkpoint;

typedef struct run_state {
    uint16_t stages, slots, shares;   // of the run's description
    uint64_t position;                // index of the newest entry that is applied
    // RUN
    bool started;
    uint64_t run_index;
    log_run run;                      // the newest; generation 0: none
    uint64_t fence;                   // index of the newest RUN that rolled back: messages from before it are outdated
    uint64_t first_version;           // at which the first generation began
    uint64_t start_version;           // at which the present generation began
    // MEMBER, EXPEL, PROMOTE: ascending ids
    uint32_t member_count;
    run_member member[WIRE_MAX_MEMBERS];
    // OWNER: `owner_term` is the ownership epoch, the index of the newest OWNER entry of the slot
    member_id owner[WIRE_MAX_SLOTS];
    uint64_t owner_term[WIRE_MAX_SLOTS];
    run_share share[WIRE_MAX_SLOTS];  // [shares]
    // CLOSE, of the present iteration, and FINAL, the newest
    uint64_t iteration;
    bool has_close;
    uint64_t close_index;
    log_close close;
    bool has_final;
    log_entry final;
    uint32_t checkpoint_count;        // CHECKPOINT, the newest last
    run_checkpoint checkpoint[RUN_STATE_CHECKPOINTS];
    uint64_t end_index;               // END; 0: the run has not ended
    log_voters voters;                // VOTERS; none: the first leader alone
    uint64_t voters_index;
} run_state;

// The change that an entry made.
typedef struct run_change {
    bool applied;         // false: the entry has no effect here (older than the state, or undone by a rollback)
    bool first;           // RUN: the run has started
    bool rolled_back;     // RUN: of a generation after the first
    bool newer;           // ... that was not known yet
    member_id older;      // OWNER: the owner before, 0: none
    uint16_t freed_share; // SHARE: the share that this peer had before, or RUN_STATE_NO_SHARE
    bool recounted;       // CLOSE: replaces another CLOSE of this iteration
    bool was_closed;      // FINAL: `close` is still that of its iteration
    uint32_t skipped;     // FINAL: iterations without a finite gradient in a row, before this one
} run_change;

// `s` is zeroed memory.
void run_state_open(run_state *s, uint16_t stages, uint16_t slots, uint16_t shares, uint64_t start_version);
// Applies one entry. The caller sets `position`: a snapshot's entries do not follow each other
// without gaps.
run_change run_state_apply(run_state *s, const log_entry *entry);

// The state as entries in ascending order of their index: the first with `after` < index <
// `before`. False: there is none. Applied to a new state in this order they make an equal one.
// Their term is not known.
bool run_state_next(const run_state *s, uint64_t after, uint64_t before, log_entry *out);

// Members, as a snapshot is about to name them all, or one that this peer no longer takes for a
// member.
void run_state_forget_members(run_state *s);
void run_state_forget_member(run_state *s, member_id id);

const run_member *run_state_member_of(const run_state *s, const braid_id *peer);  // NULL: it is no member
bool run_state_is_complete(const run_state *s);  // no later iteration will end
bool run_state_goes_on(const run_state *s);      // started, and not complete
bool run_state_predates(const run_state *s, uint64_t position);  // a message sent at that log position is from before the rollback
bool run_state_names_root(const run_state *s, uint64_t version, uint16_t stage, braid_hash *root);  // of a stage's state, by a CHECKPOINT
uint64_t run_state_newest_checkpoint(const run_state *s);  // its version, or that at which the run began

#endif
