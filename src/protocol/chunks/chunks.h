// Chunks of state, parts and results: pulled, served, added up, applied.
#ifndef BRAID_PROTOCOL_CHUNKS_CHUNKS_H
#define BRAID_PROTOCOL_CHUNKS_CHUNKS_H

#include "protocol/microbatch/microbatch.h"

enum {
    PEER_MAX_PULLS = 96,            // GETs under way
    PEER_SEGMENT_BLOCKS = 8,        // parameter blocks moved by one GET: 2 MiB of fp32, 6 MiB of state
    PEER_WAITING_PARTS = 256,       // of segments that are collected: about so many may lie here until the others have come
    PEER_LEAST_COLLECTED = 16,      // ... and so many segments are collected at once in any case
    PEER_MOST_ASKED = 64,           // GETs of one peer that are not served yet, and
    PEER_MOST_SERVED_MIB = 128,     // what waits on its line: more than an honest one asks for at once. It is told to ask later
    CHUNK_MAX_PATHS = 4,              // forwarders by whom blocks of one member come at once
    CHUNK_KNOWN_PATHS = 16,       // members whose blocks' ways are remembered
    CHUNK_RESTING_FORWARDERS = 16,     // forwarders that failed, or were no quicker, lately
};

typedef struct chunk_pull chunk_pull;

// What pulled chunks are for. Each client has its own; functions that it does not need are NULL.
typedef struct chunk_client {
    void (*refused)(peer *p, const chunk_pull *q, const message_deny *deny);  // before `failed`: the source said why
    void (*overdue)(peer *p, const chunk_pull *q);                            // before `failed`: it has not answered in time
    void (*failed)(peer *p, const chunk_pull *was);                           // it ended without its chunks
    void (*data)(peer *p, const message *msg, blob_id blob);            // DATA that answers a pull of this client; takes the blob
    void (*again)(peer *p, chunk_pull *q);      // the forwarder failed: ask once more, without one
    void (*needless)(peer *p, chunk_pull *q);   // its chunks are not needed any more
} chunk_client;

struct chunk_pull {
    bool used;
    const chunk_client *client;
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
    uint64_t timeout_ns;    // of a forwarded answer
};

// By which ways a member's blocks may come to me. The first one is straight.
typedef struct multipath_path {
    member_id by;
    uint64_t us;            // of a tensor; 0: not known
    uint32_t percent;       // of what they may need, blocks needed lately; 0: none came
    uint64_t came_ns;       // when the last ones did
} multipath_path;

typedef struct multipath_paths {
    member_id from;         // 0: nobody
    uint64_t until_ns;      // they are looked for again then
    uint64_t fewer_ns;      // since when one of them rests, for all together were slow
    uint32_t count;
    multipath_path way[1 + CHUNK_MAX_PATHS];
} multipath_paths;

typedef struct multipath_rest {
    member_id by;
    uint64_t until_ns;      // it is not asked to carry before
} multipath_rest;

// One way, and when what is asked for now should be there.
typedef struct multipath_choice {
    member_id by;
    uint64_t us;            // of tensors, as many as are under way on it already, and one
} multipath_choice;

// State that is not here yet: which names of blocks the host has, and which blocks it may have already.
typedef struct state_fetch {
    struct {
        bool known;
        uint64_t version;
    } names[2];             // by version % 2
    bool naming;            // names are on their way to the host
    uint64_t names_ns;      // when they were last asked for
    bool attested;          // the leader has told the root at `attested_version`
    uint64_t attested_version;
    braid_hash attested_root;
    bool keeps, keeping;    // blocks of this stage lie at the host, of an earlier membership or a checkpoint; one look is under way
    uint32_t keep_next;     // segment to look at next
    uint64_t own_version;   // at which all blocks lie here, UINT64_MAX: they do not
    bool own_asked, own_known;
    braid_hash own_root;    // of these
    uint64_t own_told_ns;   // when the leader was last told
    uint32_t next_source;    // whom to ask first among equals
} state_fetch;

typedef enum segment_state { SEGMENT_MISSING, SEGMENT_PULLING, SEGMENT_WORKING, SEGMENT_DONE } segment_state;

// There are many, and all are looked at often: what is needed seldom lies elsewhere.
typedef struct chunk_group {
    uint8_t state;
    bool mine;              // I add it up
    bool straight;          // somebody has failed to carry it
    uint32_t asked;         // whom to ask next when nobody announced it
    member_id holder;       // who announced it
    uint64_t arrived;       // parts, one bit each
    uint64_t asked_ns;
} chunk_group;

_Static_assert((int)PEER_SEGMENT_BLOCKS <= (int)WIRE_MAX_CARRIED_BLOCKS, "a chunk_group may be carried");
_Static_assert((int)WIRE_MAX_STAGE_MEMBERS <= 64, "the parts of a chunk_group are bits of one word");

typedef struct chunk_aggregation {
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
    uint64_t idle_until_ns; // before this reduce_tick has nothing to do, unless something other than a trifle comes
    uint64_t idle_wake_ns;  // ... but to wake then
    member_id asked_of;     // in this reduce_tick, of whom it was seen last whether he answers; 0: of nobody
    bool it_answers;
    member_id full;        // ... and of whom as much as may be is under way
    bool candidates_known;  // in this reduce_tick
    uint32_t candidates;
    member_id candidate[WIRE_MAX_STAGE_MEMBERS];  // of the stage, who could be asked for a result
    chunk_group *segment;       // [segments of this stage]
    blob_id (*part)[WIRE_MAX_STAGE_MEMBERS];  // [segments of this stage], those that arrived and wait for the others
} chunk_aggregation;

// Checkpoints at this peer's host.
typedef struct stored_checkpoints {
    uint64_t saved;         // 1 + the version of the newest that lies here, 0: none
    uint32_t looked;        // the host was asked for so many of those in the log, from the newest on
    bool looking;
} stored_checkpoints;

typedef struct peer_chunks {
    uint32_t blocks, segments;
    uint64_t *block_version;  // [blocks of this stage], UINT64_MAX: not there. A change is followed by versions_changed
    bool initialised;       // JOB_STATE_INIT or the first transfer has begun
    bool applying;          // an APPLY is queued or running
    bool state_asked, state_known;
    braid_hash state_root;
    uint64_t root_version;  // of state_root
    uint64_t state_sent_ns;
    bool root_wanted;       // a peer waits for the names of the blocks here
    state_fetch fetching;
    uint32_t cached_stage;    // 1 + the stage of which the host has blocks, 0: none
    uint64_t cached_version;  // at which all of them were when this peer was expelled, UINT64_MAX: they were not
    struct {
        uint64_t ns, bytes; // when state went out last within this line's share, and how much
    } upload;
    uint64_t rest_until_ns; // a shadow's line is others' until then
    chunk_aggregation aggregation;
    chunk_pull pulls[PEER_MAX_PULLS];
    const chunk_client *late_state;  // takes state whose pull is over
    struct {
        multipath_paths known[CHUNK_KNOWN_PATHS];
        multipath_rest rest[CHUNK_RESTING_FORWARDERS];
        uint32_t next_known, next_rest;
    } multipath;
    stored_checkpoints stored;
    bool (*agreed_state)(const peer *p, braid_hash *root);  // at the leader: members of this stage agree on it, at the present version
} peer_chunks;

// ---- bypass.c ------------------------------------------------------------------------------------------------------
void on_carry_blocks(peer *p, const message *msg, blob_id blob, uint64_t bytes);
// By which way blocks of that member come soonest, for a GET of now. False: enough are under way on all of them. `straight`: by no carrier.
bool multipath_choose(peer *p, member_id from, bool straight, multipath_choice *out);
void multipath_take(peer *p, chunk_pull *q, const multipath_choice *way);
bool multipath_send(peer *p, const core_job *t, blob_id out);  // what was asked for; false: it is to go straight
void multipath_piece(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void multipath_announced(peer *p, const message *msg);  // DATA without its bytes
void multipath_refused(peer *p, member_id by, uint32_t serial);
void multipath_link_lost(peer *p, chunk_pull *q, member_id to);
bool multipath_goes_on(peer *p, chunk_pull *q);  // false: it needs no more of who asked
void multipath_joined(peer *p, const core_job *t, const job_result *r);

// ---- reduce.c ------------------------------------------------------------------------------------------------------
void on_begin(peer *p, const message *msg);
void on_result(peer *p, const message *msg);
void reduce_tick(peer *p);
void reduce_open(peer *p);           // a COMMIT came after the freeze
void reduce_reset(peer *p);
void reduce_leave(peer *p);
void reduce_enter(peer *p);
void reduce_final(peer *p, const log_final *final);
void reduce_job_done(peer *p, const core_job *t, const job_result *r);
bool reduce_counts(const peer *p, const core_job *t);  // blocks of what is collected now, not of an older iteration or CLOSE
void reduce_apply(peer *p);          // FINAL is known: apply as soon as the results are here
void reduce_want(peer *p, uint64_t iteration);
uint64_t reduce_round(const peer *p);  // that the results at hand, or being collected, are of; 0: none yet
uint64_t reduce_close(const peer *p);  // the CLOSE that the results at hand, or being collected, belong to; 0: none
uint32_t chunk_group_first(uint32_t segment_index);
uint32_t chunk_group_count(const peer *p, uint32_t segment_index);

// ---- versions.c ----------------------------------------------------------------------------------------------------
// Which version I can have without asking anybody; false: none whole.
bool versions_reach(const peer *p, uint64_t *version);
uint64_t versions_results_left(const peer *p);  // 1 + the iteration of results that are whole; 0: they are not
void versions_changed(peer *p);
bool versions_are_behind(const peer *p, uint64_t version);
bool versions_results_complete(const peer *p); // all result blocks of p->chunks->aggregation.results are here
void versions_check_ready(peer *p);

// ---- serve.c -------------------------------------------------------------------------------------------------------
void on_get(peer *p, uint32_t from, const message *msg);
void serve_done(peer *p, const core_job *t, const job_result *r);

// ---- pulls.c -------------------------------------------------------------------------------------------------------
void on_data(peer *p, const message *msg, blob_id blob);
bool pull_overlaps(const chunk_pull *q, uint8_t what, uint16_t stage, uint32_t first, uint32_t count);
void pulls_denied(peer *p, const message *msg);
chunk_pull *pull_start(peer *p, const chunk_client *client, uint8_t what, uint16_t stage, member_id from, uint32_t first, uint32_t count, uint64_t version);
void pull_send(peer *p, chunk_pull *q);
void pulls_tick(peer *p);
void pulls_drop(peer *p, uint8_t what);
void pull_end(peer *p, chunk_pull *q);
void pulls_link_lost(peer *p, member_id from);
// The shadow's line: at most a share of it. False: not now.
bool pulls_may_start(peer *p);
void pulls_pause_shadow(peer *p, uint64_t took_ns);

// ---- transfer.c ----------------------------------------------------------------------------------------------------
void transfer_tick(peer *p);
void transfer_init_done(peer *p, const job_result *r);
void transfer_start_compared(peer *p, uint64_t version, const braid_hash *root);

// ---- fetch.c -------------------------------------------------------------------------------------------------------
void fetch_reset(peer *p);           // I became a member
void fetch_own_root(peer *p, const core_job *t, const job_result *r);
void fetch_own_names(peer *p, const core_job *t, const job_result *r);
bool fetch_finds_its_own(const peer *p);  // what I had when I was expelled may be what is needed, and is being looked at
void fetch_tick(peer *p);
void fetch_open(peer *p);
bool fetch_counts(const peer *p, const core_job *t);
void fetch_job_done(peer *p, const core_job *t, const job_result *r);
void fetch_note_corrupt(peer *p, uint32_t contact_index, uint16_t stage);
void fetch_attested(peer *p, uint32_t from, const message *msg);  // the leader's word on the root of my stage's state

// ---- saved.c -------------------------------------------------------------------------------------------------------
void stored_open(peer *p);
uint64_t stored_at_least(const peer *p);
bool stored_compares(const peer *p, uint64_t version, braid_hash *root);  // ... which a state of my host's must have
// Every stage's state, as of the version that the run began at or went back to, lies at my host.
bool stored_is_start(const peer *p);
void stored_unreadable(peer *p);  // ... but cannot be read
void stored_tick(peer *p);
void stored_found(peer *p, const core_job *t, const job_result *r);

// Something came that the aggregation may have to do with.
static inline void reduce_invalidate(peer *p) { p->chunks->aggregation.idle_until_ns = 0; }

#endif
