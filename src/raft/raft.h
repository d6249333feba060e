// Raft (Ongaro and Ousterhout, 2014) as a pure step machine: who leads, and one log that a majority of the voters has on
// stable storage. With the trial vote, the leader's watch over its quorum, the hand-over and the changes of one voter at a time
// of Ongaro's thesis (9.6, 6.2, 3.10, 4).
//
// No clock, no memory of its own: the host says what time it is, lends the window of entries, delivers messages, stores
// records in the order in which it is asked to and says when each is durable. Messages may be lost, doubled, delayed and
// reordered; a peer may fall silent, or come back with what its store holds.
//
// Voters change by one at a time, so that any majority of before and any of after have one in common. A single voter may take on
// several at once: who has that entry has all before it, and behind it the one alone commits nothing. So that it does not
// forget that, such an entry is sent only once it is durable at the leader.
//
// Two simplifications. A voter is a peer *with its store* (log_voter.store): who lost the store is another voter, so nobody
// forgets a vote. And a log's beginning is dropped without a copy of the state: what replaces it (LOG_BASE) is taken over only
// by a host that has already applied everything up to there, by whatever way, and stores its state together with that record.
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
    RAFT_TERM_STEP = 1 << 20,  // who names a term that lies further ahead is not believed: terms end at WIRE_MAX_TERM
};

typedef struct raft_host {
    void *context;
    // A zeroed message of this kind to fill; it is sent by `send`, or lost when nobody is there.
    message *(*compose)(void *context, message_kind kind);
    void (*send)(void *context, const braid_id *to);
    // An entry, LOG_VOTE or LOG_BASE, copied here; raft_stored when it is durable. An entry whose index is not above the last
    // one's replaces that one and all behind it. With LOG_BASE the host's state as it stands goes into the store, and
    // everything stored before, but for the newest LOG_VOTE, goes out of it; all of that or nothing.
    void (*store)(void *context, const log_entry *record);
} raft_host;

typedef enum raft_role { RAFT_FOLLOWER, RAFT_TRIAL, RAFT_CANDIDATE, RAFT_LEADER } raft_role;

// For the tests of the tests: each breaks one rule.
typedef enum raft_mutant {
    RAFT_MUTANT_VOTES_TWICE = 1 << 0,       // in one term, for whoever asks
    RAFT_MUTANT_ACKS_UNSTORED = 1 << 1,     // says that it has an entry before that is durable
    RAFT_MUTANT_ANY_LOG = 1 << 2,           // votes for a candidate whose log is behind
    RAFT_MUTANT_NO_MATCH = 1 << 3,          // takes entries behind any other
    RAFT_MUTANT_KEEPS_TAIL = 1 << 4,        // what contradicts the leader stays
    RAFT_MUTANT_HALF = 1 << 5,              // half of the voters are enough
    RAFT_MUTANT_COMMITS_ALL = 1 << 6,      // a follower believes in entries that it did not compare
} raft_mutant;

typedef struct raft_progress {
    uint64_t next, match;
    bool probing;         // where the logs agree is not known: one APPEND at a time
    bool voted;
    uint64_t sent_ns, heard_ns, round_trip_ns;
} raft_progress;

typedef struct raft {
    raft_host host;
    braid_id self;
    uint64_t store;
    uint32_t mutants;
    bool reluctant;       // others first: it waits longer before it stands
    rng random;

    uint64_t term;
    uint64_t term_stored; // the newest one whose record is durable: what older leaders say is refused for good
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
    uint64_t matched;     // a follower: known to agree with its leader up to here
    uint64_t heard_ns;    // from the leader
    bool lost;            // the leader's host says that it is gone
    bool invited;         // to stand, by the leader
    uint64_t elect_ns;    // then it stands
    uint32_t stands;      // so often since somebody led
    uint64_t patience_ns;
    bool promised;        // a vote that is not durable yet, for:
    braid_id promised_to;
    raft_progress progress[WIRE_MAX_VOTERS];
} raft;

// `entries`: [window], zeroed, for the machine's life.
void raft_init(raft *r, const raft_host *host, const braid_id *self, uint64_t store, uint64_t random_seed, log_entry *entries, uint32_t window,
               uint64_t now_ns);
// The first and only voter of a new run: it leads at once.
void raft_found(raft *r, const char *address, uint64_t now_ns);
// One record of the store of an earlier life, in order; before anything else. Entries of the state that follow a LOG_BASE are
// the host's. False: it does not follow from those before it. The host applies first what the record proves to be committed
// (raft_proves): of a full window the oldest entry goes with the next one.
bool raft_recall(raft *r, const log_entry *record);
// Up to here entries were committed when this one was appended, since no leader goes further without. A store does not say how far that was; and were
// all voters to come back without knowing, none could lead: for its first word there must be room.
uint64_t raft_proves(const raft *r, const log_entry *record);

void raft_receive(raft *r, uint64_t now_ns, const braid_id *from, const message *msg);
void raft_tick(raft *r, uint64_t now_ns);
uint64_t raft_deadline(const raft *r);
void raft_stored(raft *r, uint64_t now_ns, const log_entry *record);
// The host has applied everything up to an entry of this term (0: it does not know of which).
void raft_applied(raft *r, uint64_t index, uint64_t term);
// The host begins again: it has applied nothing any more.
void raft_afresh(raft *r);
// All that lies before the window has been applied. Else it has begun again and not come so far, and nothing here can bring it there: it would
// never be in charge, and stands for no election.
bool raft_has_state(const raft *r);
// The process of a voter is known to be gone.
void raft_lost(raft *r, uint64_t now_ns, const braid_id *who);
// The host stood still for so long: silence meanwhile was not the others'. Long enough for them to have chosen another leader: it leads no more, and hears
// what that one has said.
void raft_forgive(raft *r, uint64_t now_ns, uint64_t late_ns);

// ---- the leader's
// How many entries may be appended now.
uint32_t raft_room(const raft *r);
// Its index; the term and index of `entry` are filled in. There must be room.
uint64_t raft_append(raft *r, uint64_t now_ns, log_entry *entry);
// A LOG_VOTERS may be appended: those before it are committed, and so is something of this term.
bool raft_may_change(const raft *r);
// The newest change by one voter is not committed, and what was before it may be appended again in place of it: `voters`.
bool raft_may_undo(const raft *r, log_voters *voters);
void raft_hand_over(raft *r, const braid_id *to);
// Leads no more, if it did: somebody else may.
void raft_yield(raft *r, uint64_t now_ns);

// All that there is, is committed and applied: the host's state may stand in the store in place of it.
bool raft_may_shorten(const raft *r);
// Stores a LOG_BASE behind the last entry. The window stays as it is.
void raft_shorten(raft *r);

// Entry of the window; NULL: not there.
const log_entry *raft_entry(const raft *r, uint64_t index);
bool raft_leads(const raft *r);
// It leads, and everything of earlier terms is committed.
bool raft_in_charge(const raft *r);
bool raft_is_voter(const raft *r, const braid_id *id, uint64_t store);
bool raft_votes(const raft *r);  // it is one itself
// The leader: for how long nothing came from that voter; others: no vote, and no wish for one. UINT64_MAX: it is none.
uint64_t raft_silence(const raft *r, uint64_t now_ns, const braid_id *id, uint64_t store);

// raft.c and raft_append.c
log_entry *raft_at(const raft *r, uint64_t index);
uint64_t raft_term_of(const raft *r, uint64_t index);  // base <= index <= last
uint32_t raft_myself(const raft *r);                   // among the voters; WIRE_MAX_VOTERS: not one
void raft_follow(raft *r, uint64_t now_ns, uint64_t term, const braid_id *leader);
bool raft_may_put(const raft *r);
bool raft_put(raft *r, const log_entry *entry);
// Who leads no more: a change of an odd number of voters that it did not see committed, and all behind it, if it may be undone.
void raft_take_back(raft *r);
void raft_rebase(raft *r, uint64_t index, uint64_t term, const log_voters *voters);
void raft_replicate(raft *r, uint64_t now_ns, bool beat);
void raft_advance(raft *r, uint64_t now_ns);
void raft_on_append(raft *r, uint64_t now_ns, const braid_id *from, const message_append *body);
void raft_on_appended(raft *r, uint64_t now_ns, const braid_id *from, const message_appended *body);
void raft_acknowledge(raft *r);
uint32_t raft_majority(const raft *r);

#endif
