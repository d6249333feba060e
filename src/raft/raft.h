// Raft (Ongaro and Ousterhout, 2014) as a pure step machine: the election of a leader, and one log
// that a majority of the voters has on stable storage. With PreVote, CheckQuorum, leadership
// transfer and membership changes by one voter of Ongaro's thesis (9.6, 6.2, 3.10, 4).
//
// No clock and no memory of its own. The host gives the time, lends the window of entries, delivers
// messages, stores records in the order of the requests and reports when each is durable. Messages
// may be lost, doubled, delayed and reordered; a process may pause, or restart with its store.
//
// Voters change by one at a time, so any majority before and any majority after share a voter. A
// single voter may add several at once: a majority of the new voters includes one that has the
// entry, and so all entries before it, and behind the entry the single voter commits nothing alone.
// Such an entry is sent only when it is durable at the leader, because a leader that forgot it
// would go on alone.
//
// Two deviations from the paper. A voter is a peer *with its store* (log_voter.store): a peer that
// lost its store is another voter, so no vote is forgotten. And compaction keeps no copy of the
// state: a LOG_BASE is accepted only by a host that has applied everything up to it, by whatever
// path, and the host stores its state together with that record.
#ifndef BRAID_RAFT_RAFT_H
#define BRAID_RAFT_RAFT_H

#include "base/rng.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stdint.h>

// The election timeout follows from the round trips to the voters, between these limits.
#define RAFT_ELECTION_LEAST_NS ((uint64_t)1000000000)
#define RAFT_ELECTION_MOST_NS ((uint64_t)30000000000)

enum {
    RAFT_WINDOW = 256,    // newest entries that a host keeps in memory, usually
    RAFT_IN_FLIGHT = 64,  // entries sent ahead of a follower's answer
    RAFT_TERM_STEP = 1 << 20,  // messages with a term further ahead are ignored, since terms end at WIRE_MAX_TERM
};

typedef struct raft_host {
    void *context;
    // A zeroed message of this kind to fill; `send` sends it; without a link it is lost.
    message *(*compose)(void *context, message_kind kind);
    void (*send)(void *context, const braid_id *to);
    // Stores an entry, LOG_VOTE or LOG_BASE; the host calls raft_stored when it is durable. An
    // entry with an index that is already stored replaces that entry and all later ones. With
    // LOG_BASE the present state of the host replaces everything that was stored before, except the
    // newest LOG_VOTE, atomically.
    void (*store)(void *context, const log_entry *record);
} raft_host;

typedef enum raft_role { RAFT_FOLLOWER, RAFT_PRE_CANDIDATE, RAFT_CANDIDATE, RAFT_LEADER } raft_role;

// For the tests of the tests: each breaks one rule.
typedef enum raft_mutant {
    RAFT_MUTANT_VOTES_TWICE = 1 << 0,       // in one term
    RAFT_MUTANT_ACKS_UNSTORED = 1 << 1,     // acknowledges an entry before it is durable
    RAFT_MUTANT_ANY_LOG = 1 << 2,           // votes for a candidate with an older log
    RAFT_MUTANT_NO_MATCH = 1 << 3,          // accepts entries without comparing the one before
    RAFT_MUTANT_KEEPS_TAIL = 1 << 4,        // keeps entries that conflict with the leader's
    RAFT_MUTANT_HALF = 1 << 5,              // half of the voters are a majority
    RAFT_MUTANT_COMMITS_ALL = 1 << 6,      // a follower commits entries that it did not compare
} raft_mutant;

typedef struct raft_progress {
    uint64_t next, match;
    bool probing;         // the last common entry is not known yet: one APPEND at a time
    bool voted;
    uint64_t sent_ns, heard_ns, round_trip_ns;
} raft_progress;

typedef struct raft {
    raft_host host;
    braid_id self;
    uint64_t store;
    uint32_t mutants;
    bool low_priority;    // stands for election later than others
    rng random;

    uint64_t term;
    uint64_t term_stored; // the newest durable term: messages of older leaders are refused
    log_vote vote;        // in `term`
    uint64_t base, base_term;  // the entry before the window's first
    uint64_t last;
    uint64_t stored;      // entries durable here
    uint64_t committed, applied, applied_term;
    log_voters base_voters;    // as of `base`
    log_voters voters;         // newest, committed or not
    uint64_t voters_index;     // 0: none in the window
    log_entry *entry;     // [window], entry i at i mod window
    uint32_t window;

    uint8_t role;
    bool leader_known;
    braid_id leader;
    uint64_t leader_store;
    uint64_t matched;     // at a follower: its log equals its leader's up to here
    uint64_t heard_ns;    // from the leader
    bool leader_gone;     // the host says that the process of the leader is gone
    bool timeout_now;     // the leader transfers leadership to this voter
    uint64_t election_deadline_ns;
    uint32_t election_attempts;  // since there was a leader
    uint64_t election_timeout_ns;
    bool vote_pending;    // a vote that is not durable yet, for:
    braid_id vote_pending_for;
    raft_progress progress[WIRE_MAX_VOTERS];
} raft;

// `entries`: [window], zeroed; valid as long as `r`.
void raft_init(raft *r, const raft_host *host, const braid_id *self, uint64_t store, uint64_t random_seed, log_entry *entries, uint32_t window,
               uint64_t now_ns);
// The first and only voter of a new run: it leads at once.
void raft_bootstrap(raft *r, const char *address, uint64_t now_ns);
// One record of the store after a restart, in order, before anything else. Entries of the state
// that follow a LOG_BASE are for the host. False: it does not follow from the records before it.
// The host first applies what the record implies to be committed (raft_implied_commit): with a full
// window the next record drops the oldest entry.
bool raft_restore(raft *r, const log_entry *record);
// Up to this index entries were committed when `record` was appended, because a leader appends no
// further than its window allows. A store does not name the commit index. Reason: if all voters
// restarted without knowing it, their windows would be full, and no leader would have room for its
// first entry.
uint64_t raft_implied_commit(const raft *r, const log_entry *record);

void raft_receive(raft *r, uint64_t now_ns, const braid_id *from, const message *msg);
void raft_tick(raft *r, uint64_t now_ns);
uint64_t raft_deadline(const raft *r);
void raft_stored(raft *r, uint64_t now_ns, const log_entry *record);
// The host has applied everything up to an entry of this term (0: it does not know of which).
void raft_applied(raft *r, uint64_t index, uint64_t term);
// The host has discarded its state: nothing is applied.
void raft_reset_applied(raft *r);
// True if the host has applied everything before the window. Otherwise it discarded its state, and
// the window cannot bring it back: such a voter never stands for election.
bool raft_has_state(const raft *r);
// The process of a voter is known to be gone.
void raft_peer_gone(raft *r, uint64_t now_ns, const braid_id *who);
// The process was paused for `late_ns`: the others were not silent meanwhile. A leader that was
// paused long enough for an election steps down and follows the new leader.
void raft_compensate_pause(raft *r, uint64_t now_ns, uint64_t late_ns);

// ---- the leader's
// How many entries may be appended now.
uint32_t raft_room(const raft *r);
// Appends and returns the index; the term and index of `entry` are filled in. There must be room.
uint64_t raft_append(raft *r, uint64_t now_ns, log_entry *entry);
// True if a LOG_VOTERS may be appended: those before it are committed, and so is something of this
// term.
bool raft_may_change(const raft *r);
// True if the newest change by one voter is not committed; the configuration before it, `voters`,
// may be appended to undo it.
bool raft_may_undo(const raft *r, log_voters *voters);
void raft_transfer_leadership(raft *r, const braid_id *to);
// A leader becomes a follower.
void raft_step_down(raft *r, uint64_t now_ns);

// True if every entry is committed and applied, so that the host's state may replace the entries in
// the store.
bool raft_may_compact(const raft *r);
// Stores a LOG_BASE behind the last entry. The window stays as it is.
void raft_compact(raft *r);

// Entry of the window; NULL: not there.
const log_entry *raft_entry(const raft *r, uint64_t index);
bool raft_leads(const raft *r);
// True if this voter leads and an entry of its own term is committed: its log is complete (Raft 8).
bool raft_in_charge(const raft *r);
bool raft_is_voter(const raft *r, const braid_id *id, uint64_t store);
bool raft_votes(const raft *r);  // this peer is a voter
// At the leader: time since that voter was last heard; at others: since its last VOTE or VOTED.
// UINT64_MAX: it is no voter.
uint64_t raft_silence(const raft *r, uint64_t now_ns, const braid_id *id, uint64_t store);

// ---- between raft.c and append.c
log_entry *raft_at(const raft *r, uint64_t index);
uint64_t raft_term_of(const raft *r, uint64_t index);  // base <= index <= last
uint32_t raft_myself(const raft *r);                   // among the voters; WIRE_MAX_VOTERS: not one
void raft_follow(raft *r, uint64_t now_ns, uint64_t term, const braid_id *leader);
bool raft_may_insert(const raft *r);
bool raft_insert(raft *r, const log_entry *entry);
// A leader that steps down truncates an uncommitted change of an odd number of voters, and all
// behind it, if it may be undone.
void raft_undo_change(raft *r);
void raft_install_base(raft *r, uint64_t index, uint64_t term, const log_voters *voters);
void raft_replicate(raft *r, uint64_t now_ns, bool beat);
void raft_advance(raft *r, uint64_t now_ns);
void raft_on_append(raft *r, uint64_t now_ns, const braid_id *from, const message_append *body);
void raft_on_appended(raft *r, uint64_t now_ns, const braid_id *from, const message_appended *body);
void raft_acknowledge(raft *r);
uint32_t raft_majority(const raft *r);

#endif
