// What the files of the cluster share. Nothing outside src/sim includes it.
#ifndef BRAID_SIM_INSIDE_H
#define BRAID_SIM_INSIDE_H

#include "base/rng.h"
#include "protocol/peer.h"
#include "sim/blobs.h"
#include "sim/cluster.h"
#include "sim/queue.h"

#include <string.h>

enum {
    SIM_KEPT_OWNERS = 256,
    SIM_MAX_NODES = 48,
    SIM_MAX_STAGE_BLOCKS = SIM_FAKE_BLOCKS,
    SIM_MAX_LOG_MEMBERS = 4 * WIRE_MAX_MEMBERS,  // who is expelled is forgotten when there is no room
    SIM_MAX_CAPACITY = WIRE_MAX_MICROBATCHES,
    SIM_NAME = 32,
};

typedef enum sim_lane { LANE_CONTROL, LANE_BULK, LANES } sim_lane;

// One end's view of a link and the way from it to the other end. A message overtakes payloads, never another message.
typedef struct sim_link {
    bool up;
    bool dialing;
    uint32_t connection;    // of the present one, or of the one whose LINK_UP is on its way
    uint64_t last_ns[LANES];  // arrival of the newest
    uint64_t cut_ns[LANES];   // later arrivals were lost when this end died
} sim_link;

typedef enum sim_item_kind {
    ITEM_MESSAGE, ITEM_DIAL, ITEM_LINK_UP, ITEM_LINK_DOWN, ITEM_JOB_DONE, ITEM_STORED, ITEM_START, ITEM_KILL, ITEM_FLAP, ITEM_TROUBLE
} sim_item_kind;

typedef struct sim_item {
    sim_item_kind kind;
    uint32_t node, from;     // whom it concerns, whence it comes
    uint32_t connection;     // 0: LINK_DOWN that answers a dial or a close
    uint64_t serial;         // of the job
    sim_lane lane;
    bool refused;
    uint64_t sent_ns;
    member_kind kind_of_member;  // ITEM_START
    uint64_t arrived_ns;     // at a peer that stood still, 0: now
    braid_id id;             // ITEM_DIAL: who is wanted
    sim_buffer *payload;
    size_t byte_count;
    uint8_t bytes[];         // ITEM_MESSAGE
} sim_item;

// What a peer's EFFECT_APPENDs have put into its store, with the state that goes with a LOG_BASE.
typedef struct sim_disk {
    log_entry *record;
    uint32_t records, room;
    uint32_t durable;        // of these
    uint64_t stored_ns;      // when the newest one is
    uint64_t base, last;     // indices
} sim_disk;

// A complete checkpoint on a peer's disk.
typedef struct sim_kept {
    uint64_t version;
    braid_hash weights;
    sim_buffer **block;      // as sim_node's `saved`; NULL: there is none
} sim_kept;

enum { SIM_KEPT = 2 };  // as a real host: the one before stays until the next is complete

typedef struct sim_node {
    char name[SIM_NAME];
    braid_id id;
    peer_config config;
    bool alive, exited, machine_died;
    bool returns;            // it died, and comes back with all that it had stored, where it was
    bool missed_end;         // no link to the leader when that left: nobody tells it
    void *memory;
    size_t memory_bytes;
    peer *peer;
    peer_view view;          // after its last step
    uint64_t speed;          // its time for one unit of compute, ns
    uint64_t slow_until_ns, slow_factor;
    uint64_t paused_until_ns;
    uint64_t sends_cut_until_ns, hears_cut_until_ns;  // what goes out, what comes in, arrives then
    uint64_t clock_ahead_ns;
    uint64_t newest_sent_ns;  // of the messages that came
    sim_disk disk;
    sim_buffer **saved;      // [stages][blocks]: what JOB_SAVE was given, by first block; NULL: nothing
    sim_worker *saver[WIRE_MAX_STAGES];  // knows the names of a stage's blocks, as JOB_SAVE_NAMES was told; NULL: nothing
    sim_kept kept[SIM_KEPT]; // the newest first
    bool spoilt;            // has begun with a state that is not what was saved, and nobody has looked yet
    bool asked_to_leave;
    uint64_t away_ns;        // ... and back after that, 0: never
    uint64_t tick_serial, steps_now, stepped_ns;
    uint64_t started_ns;
    sim_blobs blobs;
    sim_worker *worker;
    bool busy;
    job job;
    uint64_t job_serial, job_ns, job_generation;
    uint16_t job_stage;  // the peer's when it began
    rng random;              // compute jitter
    message_set eager;       // SIM_MUTANT_EAGER_WEIGHT: added already
    uint64_t eager_iteration;
} sim_node;

// What the checker remembers of one node; by observation only, never by asking the protocol.
typedef struct sim_stash {
    enum { WATCH_EMPTY, WATCH_FORWARD, WATCH_LOSS, WATCH_BACKWARD } phase;
    uint64_t iteration;
    uint32_t m;
} sim_stash;

// What a member can come to by itself.
typedef struct sim_reach {
    member_id member;
    uint64_t generation;
    uint64_t versions;  // 1 + the version that its stage's state is at, or will be with the results that it has; 0: none
    uint16_t stage;
} sim_reach;

typedef struct sim_watch {
    uint64_t block_version[SIM_MAX_STAGE_BLOCKS];  // UINT64_MAX: nothing there
    uint64_t left;           // version of the whole state that its worker has of the membership before, UINT64_MAX: none
    sim_stash stash[SIM_MAX_CAPACITY];
    message_set sum, k, committed, kept;  // kept: told to count, and it said so or will
    uint64_t sum_iteration, k_iteration, committed_iteration, kept_iteration;
    member_id k_member, member;
    uint64_t compute_ns;                  // F, B and W run so far
    bool reduced;
    uint64_t reduced_iteration;
    bool ready, ever_ready;
    uint64_t last_version, last_log;
    uint64_t members_at;                  // up to here its log was read when it was last asked who the members are
    uint64_t generation;
    uint64_t ready_since_ns;
    uint64_t window_ns, window_messages, window_ticks;  // this virtual second's
    uint64_t route_changes;
    bool routes;
    bool answered;                        // the COMMIT at hand
    sim_reach reach;                      // as it says, after its last step
    uint64_t reached_ns;                  // since when that is some whole state
    uint64_t first_get_ns, get_ns, line_ns;  // of a shadow: its first and newest GET; how long its line was in use
} sim_watch;

typedef struct sim_log_member {
    member_id member;
    log_member entry;
    bool expelled;
    bool shadow;   // and was not promoted
    sim_reach reach;  // of who is dead: what it had when it died
} sim_log_member;

// Who was told to count (m, stage) of the present iteration.
typedef struct sim_commit {
    uint64_t iteration, owner_term;
    member_id to;
    uint32_t rev;
    bool refused;  // `to` said that it has no stash
    member_id evicted;  // who said last that it gave its stash up, and has not got another one since
} sim_commit;

// An OWNER entry.
typedef struct sim_owner {
    uint16_t slot;
    uint64_t index;
} sim_owner;

typedef struct sim_checker {
    sim_owner owner[SIM_KEPT_OWNERS];  // the newest; entry i lies at i mod their number
    uint32_t owners;
    member_id slot_owner[WIRE_MAX_SLOTS];  // the newest of each
    log_close *closes;        // elastic: the last of each iteration
    log_final *finals;        // elastic
    braid_id share[WIRE_MAX_SLOTS];    // whose private data they are
    sim_watch *watch;         // [node_capacity]
    sim_log_member *member;   // [SIM_MAX_LOG_MEMBERS]
    uint32_t members;
    sim_commit *commit;      // [microbatches][stages]
    message_set waiting;     // for a slot of the next stage
    uint64_t waiting_iteration;  // 1 + that of these
    uint64_t committed;
    uint64_t *entry;          // [committed + 1]: what each says
    uint32_t entries_room;
    uint64_t version;        // newest, by FINAL committed
    uint64_t generation, fence;  // of the newest RUN; its index, when it is not the first
    uint64_t start_version;      // ... and where it begins
    uint64_t lost_version[WIRE_MAX_STAGES];      // 1 + the newest when all that had the stage's state died last
    bool started, closed, finished, ended, drained;  // drained: the leader was asked to end the run
    bool given_up;           // who leads has said that the iteration is not waited for any more
    bool unfinished;         // it ended so, in an iteration that private data did not come back for
    log_close close;         // newest CLOSE appended
    uint64_t close_index, close_appended_for;
    log_final final;         // newest FINAL committed
    bool has_final;
    braid_hash saved_hash;
    bool saved_last;
    uint64_t route_said_ns, route_looked_ns;  // when routing last said something; when its quiet was last looked at
} sim_checker;

typedef struct sim_cluster {
    const sim_case *c;
    const sim_model *model;
    const sim_reference *reference;  // NULL: numbers are not compared, or in elastic runs at the end
    FILE *trace;
    sim_report *report;
    sim_stats *stats;
    peer_run run;
    rng random;
    uint64_t now, limit_ns, leader_exit_ns;
    uint64_t begin_ns;            // the 0 of messages
    uint32_t leader;              // who led last
    uint64_t leader_term;
    uint64_t lost_leader_ns;      // since when nobody leads, 0: somebody does
    sim_queue queue;
    sim_node *node;               // [node_capacity], one for each life of a process
    uint32_t nodes, node_capacity;
    uint32_t id_begins[SIM_MAX_NODES];  // sim_id_begins of each node's id
    sim_link (*link)[SIM_MAX_NODES];  // [one end][the other]
    uint32_t connections;
    bool crash_done[SIM_MAX_CRASHES];
    uint32_t crash_seen[SIM_MAX_CRASHES];
    bool arrival_done[SIM_MAX_ARRIVALS];
    sim_checker checker;
    struct {
        uint64_t until_ns, side;  // side: one bit a node
        uint64_t over_ns;         // when all that was held up will have come
        bool one_way;             // those with the bit are not heard by the others, and hear them
    } parted;
    bool any_route;                               // routers may end as they will: nobody asked for the rules
    message message;              // of the event at hand: effects may point into it
    message sent;                 // of the effect at hand
} sim_cluster;

// Tells most ids apart, and is quicker to come by.
static inline uint32_t sim_id_begins(const braid_id *id) {
    uint32_t begins;
    memcpy(&begins, id->bytes, sizeof begins);
    return begins;
}

// --- cluster.c
sim_item *sim_item_new(sim_item_kind kind, uint32_t node, size_t bytes);
void sim_item_put(sim_cluster *s, uint64_t at_ns, sim_item *item);
void sim_step(sim_cluster *s, uint32_t node, const event *e);
void sim_fail(sim_cluster *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_failed(const sim_cluster *s);
// `store_of`: whose store it finds; SIM_MAX_NODES: nobody's.
// `host`: of a shadow, who works on its machine.
void sim_start(sim_cluster *s, member_kind kind, const braid_id *id, uint32_t store_of, const braid_id *host);
// The node that leads in the newest term; the one that led last when none does.
uint32_t sim_leader(const sim_cluster *s);

// --- disk.c: the stores of voters
void sim_disk_append(sim_cluster *s, uint32_t node, const log_entry *entry);
void sim_disk_stored(sim_cluster *s, uint32_t node);
void sim_disk_crash(sim_cluster *s, uint32_t node);
// What `from` had stored is found by a new life of it.
void sim_disk_recall(sim_cluster *s, uint32_t node, const sim_disk *from);

// --- links.c
void sim_link_send(sim_cluster *s, uint32_t from, const effect *e);
void sim_link_dial(sim_cluster *s, uint32_t from, const effect *e);
void sim_link_close(sim_cluster *s, uint32_t from, const braid_id *id);
void sim_link_die(sim_cluster *s, uint32_t node, bool machine, bool clean);
// Some link between two living peers falls; what was on its way arrives in part.
void sim_link_flap(sim_cluster *s);
void sim_link_item(sim_cluster *s, sim_item *item);

// --- work.c: the host's side of jobs
void sim_job_start(sim_cluster *s, uint32_t node, const job *work);
void sim_job_done(sim_cluster *s, uint32_t node);
// The halves of these that have no clock. Takes a job and borrows its inputs; false: that broke a rule.
bool sim_job_take(sim_cluster *s, uint32_t node, const job *work);
// Does the job that was taken, which cost node's `job_ns`; false: that broke a rule.
bool sim_job_run(sim_cluster *s, uint32_t node, job_result *result);

// How a worker gets at blobs.
worker_blobs sim_blobs_access(sim_blobs *blobs);

// --- saves.c: checkpoints
bool sim_save_concerns(const sim_node *n, const job *work);
void sim_save_run(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result);
// JOB_STATE_INIT at the version of a checkpoint that lies here.
void sim_save_load(sim_cluster *s, uint32_t node, sim_worker *w, const job *work, job_result *result);
void sim_save_recall(sim_cluster *s, uint32_t node, uint32_t from);
void sim_save_drop(sim_cluster *s, uint32_t node);

// --- mutant.c
uint64_t sim_mutant_of_core(sim_mutant mutant);  // peer_config.mutants, 0: it is put in between
// True: the job must not be done; `result` says that it was.
bool sim_mutant_swallows(sim_cluster *s, uint32_t node, const job *work, job_result *result);
void sim_mutant_job(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result);
// Bytes of another message to send instead, written to `bytes`; 0: as it is.
size_t sim_mutant_send(sim_cluster *s, const message *msg, uint8_t *bytes, size_t capacity);
// True: the message is not to arrive.
bool sim_mutant_loses(const sim_cluster *s, const message *msg);

// --- crash.c
void sim_crash_moment(sim_cluster *s, uint32_t node, sim_moment moment, uint8_t kind);
void sim_crash_timed(sim_cluster *s, uint32_t index);
void sim_crash_plan(sim_cluster *s);
void sim_crash_left(sim_cluster *s, uint32_t node);  // of its own will
void sim_crash_gone_back(sim_cluster *s);            // the run
// For good: in an elastic run somebody else who has data stays.
bool sim_crash_may_leave(const sim_cluster *s, uint32_t node);
// The others of its stage can do without it.
bool sim_crash_allowed(const sim_cluster *s, uint32_t node);

// --- trouble.c: what else befalls living peers
void sim_trouble_plan(sim_cluster *s);
void sim_trouble_begin(sim_cluster *s, uint32_t index);
// A message of `kind` is sent: joiners that were to come then come.
void sim_trouble_arrivals(sim_cluster *s, uint8_t kind);
// Until when nothing gets from `from` to `to`; 0: it does now.
uint64_t sim_trouble_parts(const sim_cluster *s, uint32_t from, uint32_t to);
// Until when the peer stands still; 0: it does not, or is dead.
uint64_t sim_trouble_stands_until(const sim_cluster *s, uint32_t node);
// True: the peer stands still, and the item was put off.
bool sim_trouble_defers(sim_cluster *s, sim_item *item);

// --- checker.c: every rule that can be seen from outside (docs/protocol.md, invariants)
void sim_check_open(sim_cluster *s);
void sim_check_close(sim_cluster *s);
// A new life in a node: nothing is known of it.
void sim_check_life(sim_cluster *s, uint32_t node);
void sim_check_step(sim_cluster *s, uint32_t node);
// Before a step: a peer wakes by itself only when it has something to do.
void sim_check_steps(sim_cluster *s, uint32_t node, event_kind kind);
void sim_check_end(sim_cluster *s);
void sim_check_unfinished(sim_cluster *s, uint32_t node);  // it says so
bool sim_check_member_live(const sim_cluster *s, member_id member);
bool sim_check_is_shadow(const sim_cluster *s, member_id member);
// It has not read yet that the run went back: what it does counts for nobody.
bool sim_check_is_past(const sim_cluster *s, uint32_t node);
// The version of the whole state that its worker has, of whatever membership; UINT64_MAX: of none.
uint64_t sim_check_lies(const sim_cluster *s, uint32_t node);
// --- check_needed.c
// After a step: what it said that it had and says no more, somebody else has.
void sim_check_needed(sim_cluster *s, uint32_t node);
// Before its worker's state goes.
void sim_check_given_up(sim_cluster *s, uint32_t node);
// After the log's word about somebody, of a slot, of a version; when a leader decides to go back.
void sim_check_expelled(sim_cluster *s, const sim_log_member *gone);
void sim_check_owner(sim_cluster *s, const log_owner *entry);
void sim_check_made(sim_cluster *s);
void sim_check_appended(sim_cluster *s, uint32_t node, const log_entry *entry);
// --- check_message.c
void sim_check_send(sim_cluster *s, uint32_t node, const braid_id *to, const message *msg);
void sim_check_arrival(sim_cluster *s, uint32_t node, const message *msg);
// After the step: a COMMIT is kept or answered.
void sim_check_kept(sim_cluster *s, uint32_t node, const message *msg);
// --- check_route.c
void sim_check_route(sim_cluster *s, uint32_t node);
void sim_check_route_sent(sim_cluster *s, const message *msg);
// --- check_log.c
void sim_check_final_numbers(sim_cluster *s, const log_final *final);  // against the one-process run's
void sim_check_close_numbers(sim_cluster *s, const log_close *close);
// A peer takes an entry for committed: the first to do so, or it says what all others said.
void sim_check_applied(sim_cluster *s, uint32_t node, const log_entry *entry);
// --- check_job.c
void sim_check_job(sim_cluster *s, uint32_t node, const job *work);
void sim_check_result(sim_cluster *s, uint32_t node, const job *work, const job_result *result);

// --- losses.c: what the dead take with them, and when it is there again
// `sent`: the message that `node` dies of receiving, or NULL.
void sim_loss_died(sim_cluster *s, uint32_t node, const message *sent);
void sim_loss_job(sim_cluster *s, uint32_t node, const job *work, uint64_t cost_ns, bool done);
void sim_loss_final(sim_cluster *s, uint64_t iteration);

// --- trace.c
void sim_trace(sim_cluster *s, uint32_t node, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sim_trace_effect(sim_cluster *s, uint32_t node, const effect *e);
void sim_trace_event(sim_cluster *s, uint32_t node, const event *e, uint32_t from, uint64_t sent_ns);
void sim_trace_result(sim_cluster *s, uint32_t node, const job *work, const job_result *result);

#endif
