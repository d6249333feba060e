// Chunks of state, parts and results: pulled, served, added up, applied.
#ifndef BRAID_PROTOCOL_CHUNKS_CHUNKS_H
#define BRAID_PROTOCOL_CHUNKS_CHUNKS_H

#include "protocol/microbatch/microbatch.h"

enum {
    PEER_MAX_PULLS = 96,            // GETs under way
    PEER_SEGMENT_BLOCKS = 8,        // parameter blocks moved by one GET: 2 MiB of fp32, 6 MiB of state
    PEER_WAITING_PARTS = 256,       // parts of incomplete chunk groups in memory, about
    PEER_LEAST_COLLECTED = 16,      // chunk groups that are collected at once in any case
    PEER_MOST_ASKED = 64,           // unserved GETs of one peer, and
    PEER_MOST_SERVED_MIB = 128,     // MiB that wait on its link; beyond that it is refused for a while (backpressure)
    CHUNK_MAX_PATHS = 4,              // forwarders used for one member at once
    CHUNK_KNOWN_PATHS = 16,       // members with remembered paths
    CHUNK_RESTING_FORWARDERS = 16,     // forwarders that failed, or were no faster, lately
};

typedef struct chunk_pull chunk_pull;

// A client of the table of pulls: state transfer, aggregation or checkpoint. Functions that it does
// not need are NULL.
typedef struct chunk_client {
    void (*refused)(peer *p, const chunk_pull *q, const message_deny_get *deny);  // before `failed`: the source said why
    void (*overdue)(peer *p, const chunk_pull *q);                            // before `failed`: it has not answered in time
    void (*failed)(peer *p, const chunk_pull *was);                           // the pull ended without its chunks
    void (*data)(peer *p, const message *msg, blob_id blob);            // DATA that answers a pull of this client; takes the blob
    void (*again)(peer *p, chunk_pull *q);      // the forwarder failed: ask once more, without one
    void (*needless)(peer *p, chunk_pull *q);   // the chunks are not needed any more: ends the pull
} chunk_client;

struct chunk_pull {
    bool used;
    const chunk_client *client;
    uint8_t what;
    uint16_t stage;
    member_id from;
    uint32_t first, count;
    uint64_t version, round;
    uint64_t set_digest;    // GET_PART
    uint64_t close_index;   // GET_RESULT
    uint64_t asked_ns, deadline_ns;
    uint32_t part;          // GET_PART: index of the contributor in the round's list
    member_id by;           // forwarder of the answer, as transfer `serial`; 0: none
    uint32_t serial;
    bool announced, joining;  // DATA came with `hash`; JOB_JOIN checks the bytes
    uint64_t hash;
    blob_id piece;          // `bytes` of it
    uint64_t bytes;
    uint64_t timeout_ns;    // time limit of a relayed answer
};

// A path for chunks of one member. The first one is direct.
typedef struct multipath_path {
    member_id by;
    uint64_t us;            // transfer time of a tensor; 0: not known
    uint32_t percent;       // time of recent chunks in percent of the expected time; 0: none came
    uint64_t came_ns;       // when the newest chunks came
} multipath_path;

typedef struct multipath_paths {
    member_id from;         // 0: none
    uint64_t until_ns;      // when paths are chosen again
    uint64_t fewer_ns;      // start of the rest of one path, because all together were slow
    uint32_t count;
    multipath_path way[1 + CHUNK_MAX_PATHS];
} multipath_paths;

typedef struct multipath_rest {
    member_id by;
    uint64_t until_ns;      // not used before then
} multipath_rest;

// A path, and the expected arrival of what is asked for now.
typedef struct multipath_choice {
    member_id by;
    uint64_t us;            // arrival time of one more tensor behind those under way
} multipath_choice;

// State transfer to this peer: content hashes that the host has, and chunks that may be in its
// local cache.
typedef struct state_fetch {
    struct {
        bool known;
        uint64_t version;
    } names[2];             // by version % 2
    bool naming;            // content hashes are being stored at the host
    uint64_t names_ns;      // when they were last requested
    bool attested;          // the leader has attested the state hash at `attested_version`
    uint64_t attested_version;
    braid_hash attested_root;
    bool keeps, keeping;    // the host has chunks of this stage in its cache; one group is being compared
    uint32_t keep_next;     // first chunk to compare next
    uint64_t own_version;   // version of which all chunks are in the cache, UINT64_MAX: none
    bool own_asked, own_known;
    braid_hash own_root;    // their state hash
    uint64_t own_told_ns;   // when it was last reported to the leader
    uint32_t next_source;    // which of equal sources to ask first
} state_fetch;

typedef enum segment_state { SEGMENT_MISSING, SEGMENT_PULLING, SEGMENT_WORKING, SEGMENT_DONE } segment_state;

// Consecutive chunks that are moved and added up together. There are many and all are read often,
// so the struct is small.
typedef struct chunk_group {
    uint8_t state;
    bool mine;              // this peer adds it up
    bool straight;          // a forwarder failed: fetched directly
    uint32_t asked;         // next member to ask when no member has announced it
    member_id holder;       // the member that announced its result
    uint64_t arrived;       // parts, one bit each
    uint64_t asked_ns;
} chunk_group;

_Static_assert((int)PEER_SEGMENT_BLOCKS <= (int)WIRE_MAX_CARRIED_BLOCKS, "a group of chunks may be forwarded");
_Static_assert((int)WIRE_MAX_STAGE_MEMBERS <= 64, "the parts of a group are bits of one word");

typedef struct chunk_aggregation {
    bool begun;             // `begin` is this iteration's newest round
    bool adopted;           // CLOSE is applied here, and this peer's part equals the manifest's
    bool normed, norm_asked;
    message_begin begin;
    uint64_t begun_ns;      // when BEGIN came
    bool given_up;          // no member has the results: fetch the state instead
    uint32_t refusals;
    uint64_t mismatch_ns;   // when MISMATCH was last sent
    uint64_t reduced_ns;    // when REDUCED was last sent
    message_reduced reduced;
    uint64_t results;       // iteration of the result blocks
    uint32_t done;          // finished groups
    uint64_t idle_until_ns; // reduce_tick has nothing to do before, unless a message or job invalidates this
    uint64_t idle_wake_ns;  // when the next check is due at the latest
    member_id asked_of;     // cached within a reduce_tick: the member asked about last, and the answer; 0: none
    bool it_answers;
    member_id full;        // cached: a member without a free pull
    bool candidates_known;  // in this reduce_tick
    uint32_t candidates;
    member_id candidate[WIRE_MAX_STAGE_MEMBERS];  // members of the stage that could have a result
    chunk_group *segment;       // [segments of this stage]
    blob_id (*part)[WIRE_MAX_STAGE_MEMBERS];  // [groups of this stage]: parts that wait for the others
} chunk_aggregation;

// Checkpoints at this peer's host.
typedef struct stored_checkpoints {
    uint64_t saved;         // 1 + the version of the newest one here, 0: none
    uint32_t looked;        // how many of those in the log the host was asked for, newest first
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
    bool root_wanted;       // a peer waits for content hashes of this state
    state_fetch fetching;
    uint32_t cached_stage;    // 1 + the stage in the host's cache, 0: none
    uint64_t cached_version;  // version of all its chunks at the end of the membership, UINT64_MAX: mixed
    struct {
        uint64_t ns, bytes; // when state was last sent within the upload limit, and how much
    } upload;
    uint64_t rest_until_ns; // a standby has no GET under way until then (rule B2)
    chunk_aggregation aggregation;
    chunk_pull pulls[PEER_MAX_PULLS];
    const chunk_client *late_state;  // takes state that arrives after its pull has ended
    struct {
        multipath_paths known[CHUNK_KNOWN_PATHS];
        multipath_rest rest[CHUNK_RESTING_FORWARDERS];
        uint32_t next_known, next_rest;
    } multipath;
    stored_checkpoints stored;
    bool (*agreed_state)(const peer *p, braid_hash *root);  // set by the leader's part: the state hash that members of this stage agree on
} peer_chunks;

// ---- multipath.c --------------------------------------------------------------------------------
void on_carry_chunks(peer *p, const message *msg, blob_id blob, uint64_t bytes);
// Chooses the fastest path for one more GET to that member. False: enough are under way on all
// paths. `straight`: directly only.
bool multipath_choose(peer *p, member_id from, bool straight, multipath_choice *out);
void multipath_take(peer *p, chunk_pull *q, const multipath_choice *way);
bool multipath_send(peer *p, const core_job *t, blob_id out);  // sends the answer to the forwarder that GET named; false: send it directly
void multipath_piece(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void multipath_announced(peer *p, const message *msg);  // DATA of a forwarded answer, without its bytes
void multipath_refused(peer *p, member_id by, uint32_t serial);
void multipath_link_lost(peer *p, chunk_pull *q, member_id to);
bool multipath_goes_on(peer *p, chunk_pull *q);  // false: handled here, the direct rules do not apply
void multipath_joined(peer *p, const core_job *t, const job_result *r);

// ---- reduce.c -----------------------------------------------------------------------------------
void on_begin(peer *p, const message *msg);
void on_result(peer *p, const message *msg);
void reduce_tick(peer *p);
void reduce_open(peer *p);           // the sum changes after it was frozen
void reduce_reset(peer *p);
void reduce_leave(peer *p);
void reduce_enter(peer *p);
void reduce_final(peer *p, const log_final *final);
void reduce_job_done(peer *p, const core_job *t, const job_result *r);
bool reduce_counts(const peer *p, const core_job *t);  // its chunks are of the present iteration and CLOSE
void reduce_apply(peer *p);          // applies FINAL when all results are here
void reduce_want(peer *p, uint64_t iteration);
uint64_t reduce_round(const peer *p);  // of the results that are collected; 0: none yet
uint64_t reduce_close(const peer *p);  // index of the CLOSE of the results that are collected; 0: none
uint32_t chunk_group_first(uint32_t segment_index);
uint32_t chunk_group_count(const peer *p, uint32_t segment_index);

// ---- versions.c ---------------------------------------------------------------------------------
// The version that this peer can reach without other peers; false: its state is incomplete.
bool versions_reach(const peer *p, uint64_t *version);
uint64_t versions_results_left(const peer *p);  // 1 + the iteration of complete results; 0: they are incomplete
void versions_changed(peer *p);
bool versions_are_behind(const peer *p, uint64_t version);
bool versions_results_complete(const peer *p); // all results of the collected iteration are here
void versions_check_ready(peer *p);

// ---- serve.c ------------------------------------------------------------------------------------
void on_get(peer *p, uint32_t from, const message *msg);
void serve_done(peer *p, const core_job *t, const job_result *r);

// ---- pulls.c ------------------------------------------------------------------------------------
void on_data(peer *p, const message *msg, blob_id blob);
bool pull_overlaps(const chunk_pull *q, uint8_t what, uint16_t stage, uint32_t first, uint32_t count);
void pulls_denied(peer *p, const message *msg);
chunk_pull *pull_start(peer *p, const chunk_client *client, uint8_t what, uint16_t stage, member_id from, uint32_t first, uint32_t count, uint64_t version);
void pull_send(peer *p, chunk_pull *q);
void pulls_tick(peer *p);
void pulls_drop(peer *p, uint8_t what);
void pull_end(peer *p, chunk_pull *q);
void pulls_link_lost(peer *p, member_id from);
// Rule B2. False: this peer is a standby and pauses between its pulls.
bool pulls_may_start(peer *p);
void pulls_pause_standby(peer *p, uint64_t took_ns);

// ---- transfer.c ---------------------------------------------------------------------------------
void transfer_tick(peer *p);
void transfer_init_done(peer *p, const job_result *r);
void transfer_start_compared(peer *p, uint64_t version, const braid_hash *root);

// ---- fetch.c ------------------------------------------------------------------------------------
void fetch_reset(peer *p);           // this peer has become a member
void fetch_own_root(peer *p, const core_job *t, const job_result *r);
void fetch_own_names(peer *p, const core_job *t, const job_result *r);
bool fetch_finds_its_own(const peer *p);  // the host's cache may have the state, and is being compared
void fetch_tick(peer *p);
void fetch_open(peer *p);
bool fetch_counts(const peer *p, const core_job *t);
void fetch_job_done(peer *p, const core_job *t, const job_result *r);
void fetch_note_corrupt(peer *p, uint32_t contact_index, uint16_t stage);
void fetch_attested(peer *p, uint32_t from, const message *msg);  // the leader attests the hash of this stage's state

// ---- stored.c -----------------------------------------------------------------------------------
void stored_open(peer *p);
uint64_t stored_at_least(const peer *p);
bool stored_compares(const peer *p, uint64_t version, braid_hash *root);  // the hash that a stored checkpoint of that version must have; false: it is not compared
// True if the host has the checkpoint, of all stages, from which the present generation starts.
bool stored_is_start(const peer *p);
void stored_unreadable(peer *p);  // that checkpoint cannot be read
void stored_tick(peer *p);
void stored_found(peer *p, const core_job *t, const job_result *r);

// A message or job may concern the aggregation: reduce_tick looks again.
static inline void reduce_invalidate(peer *p) { p->chunks->aggregation.idle_until_ns = 0; }

#endif
