// Types and functions that the files of the simulated cluster share. Only src/sim includes this
// header.
#ifndef BRAID_SIM_INSIDE_H
#define BRAID_SIM_INSIDE_H

#include "base/rng.h"
#include "braid/peer.h"
#include "protocol/core/faults.h"
#include "sim/blobs.h"
#include "sim/cluster.h"
#include "sim/queue.h"

#include <string.h>

enum {
    SIM_MAX_OWNERS = 256,
    SIM_MAX_NODES = 48,
    SIM_KEPT_MOVES = 8,  // newest moves, for rule J14
    SIM_MAX_STAGE_BLOCKS = SIM_FAKE_BLOCKS,
    // expelled members are dropped from the table when it is full
    SIM_MAX_LOG_MEMBERS = 4 * WIRE_MAX_MEMBERS,
    SIM_MAX_CAPACITY = WIRE_MAX_MICROBATCHES,
    SIM_NAME = 32,
};

typedef enum sim_lane { LANE_CONTROL, LANE_BULK, LANES } sim_lane;

// One end's view of a link, and the direction from it to the other end. A message may overtake
// payloads, never another message.
typedef struct sim_link {
    bool up;
    bool dialing;
    // number of the current connection, or of the next one while its LINK_UP is on its way
    uint32_t connection;
    uint64_t last_ns[LANES];  // arrival time of the newest message of each lane
    uint64_t cut_ns[LANES];   // later arrivals were lost when this end died
} sim_link;

typedef enum sim_item_kind {
    ITEM_MESSAGE, ITEM_DIAL, ITEM_LINK_UP, ITEM_LINK_DOWN, ITEM_JOB_DONE, ITEM_STORED, ITEM_START, ITEM_KILL, ITEM_FLAP, ITEM_TROUBLE
} sim_item_kind;

typedef struct sim_item {
    sim_item_kind kind;
    uint32_t node, from;     // receiver and sender of the event
    uint32_t connection;     // 0: a LINK_DOWN that answers a dial or a close
    uint64_t serial;         // number of the job, as in job_serial
    sim_lane lane;
    bool refused;
    uint64_t sent_ns;
    member_kind kind_of_member;  // ITEM_START only
    // arrival at a paused peer; 0: the peer is not paused, the event arrives now
    uint64_t arrived_ns;
    braid_id id;             // ITEM_DIAL: the id that the dialer expects
    sim_buffer *payload;
    size_t byte_count;
    uint8_t bytes[];         // ITEM_MESSAGE only
} sim_item;

// A peer's durable log: the entries of its EFFECT_APPENDs, with the state that belongs to a
// LOG_BASE.
typedef struct sim_disk {
    log_entry *record;
    uint32_t records, room;
    uint32_t durable;        // how many of the records are on stable storage
    uint64_t stored_ns;      // time at which the newest record becomes durable
    uint64_t base, last;     // log indices: base of the snapshot, newest entry
} sim_disk;

// A complete checkpoint on a peer's disk.
typedef struct sim_checkpoint {
    uint64_t version;
    braid_hash weights;
    sim_buffer **block;      // layout of sim_node's `saved`; NULL: no checkpoint
} sim_checkpoint;

// like a real host, which keeps the previous checkpoint until the next is complete
enum { SIM_MAX_CHECKPOINTS = 2 };

typedef struct sim_node {
    char name[SIM_NAME];
    braid_id id;
    peer_config config;
    bool alive, exited, machine_died;
    // the process is dead and will restart at its address with its durable log
    bool returns;
    // no link to the leader when the leader left, so no shutdown message arrives
    bool missed_end;
    void *memory;
    size_t memory_bytes;
    peer *peer;
    peer_view view;          // state as of the last step
    uint64_t speed;          // time for one unit of compute, ns
    uint64_t slow_until_ns, slow_factor;
    uint64_t paused_until_ns;
    // messages sent or received in a cut arrive when it ends
    uint64_t sends_cut_until_ns, receives_cut_until_ns;
    uint64_t clock_ahead_ns;
    uint64_t newest_sent_ns;  // latest send time of all messages that arrived
    sim_disk disk;
    // [stages][blocks]: input of JOB_SAVE, at its first block; NULL: nothing saved
    sim_buffer **saved;
    // checks blocks against the names of JOB_SAVE_NAMES; NULL: no names yet
    sim_worker *name_checker[WIRE_MAX_STAGES];
    sim_checkpoint kept[SIM_MAX_CHECKPOINTS];  // the newest first
    // began with a state that differs from the saved one; no root has been computed yet
    bool state_is_wrong;
    bool asked_to_leave;
    uint64_t away_ns;        // time until it restarts after it left; 0: it does not return
    uint64_t tick_serial, steps_now, stepped_ns;
    uint64_t started_ns;
    sim_blobs blobs;
    sim_worker *worker;
    bool busy;
    job job;
    uint64_t job_serial, job_ns, job_generation;
    uint16_t job_stage;  // the peer's stage when the job began
    rng random;              // compute jitter
    message_set eager;       // planted mistakes: microbatches added, or forwarded, in eager_iteration
    uint64_t eager_iteration;
} sim_node;

// The checker's record of one activation stash. It is built from jobs and messages alone and never
// from the protocol's own state.
typedef struct sim_stash {
    enum { WATCH_EMPTY, WATCH_FORWARD, WATCH_LOSS, WATCH_BACKWARD } phase;
    uint64_t iteration;
    uint32_t m;
} sim_stash;

// The newest version that a member can reach without fetching anything.
typedef struct sim_reach {
    member_id member;
    uint64_t generation;
    // 1 + the version of its stage's state, plus one if it holds the next results; 0: no whole
    // state
    uint64_t versions;
    uint16_t stage;
} sim_reach;

typedef struct sim_watch {
    uint64_t block_version[SIM_MAX_STAGE_BLOCKS];  // UINT64_MAX: no data
    // version of the whole state that its worker kept from the previous membership; UINT64_MAX:
    // none
    uint64_t left;
    sim_stash stash[SIM_MAX_CAPACITY];
    // kept: microbatches with a COMMIT that the member confirmed or will confirm
    message_set sum, k, committed, kept;
    uint64_t sum_iteration, k_iteration, committed_iteration, kept_iteration;
    member_id k_member, member;
    uint64_t compute_ns;                  // sum over all F, B and W jobs so far
    bool reduced;
    uint64_t reduced_iteration;
    bool ready, ever_ready;
    uint64_t last_version, last_log;
    uint64_t members_at;                  // log position at which the member list was last compared
    uint64_t generation;
    uint64_t ready_since_ns;
    uint64_t window_ns, window_messages, window_ticks;  // counters of the current virtual second
    uint64_t route_changes;
    bool routes;
    bool answered;                        // the current COMMIT was answered
    sim_reach reach;                      // as reported after its last step
    uint64_t reached_ns;                  // time since which `reach` has been a whole state
    // the log as this peer has applied it: version and time of its newest FINAL, and moves
    uint64_t applied_version, final_ns;
    uint32_t moves;
    struct {
        braid_id id;
        uint64_t version;
    } moved[SIM_KEPT_MOVES];
    // standbys: times of the first and the newest GET; time its line was in use
    uint64_t first_get_ns, get_ns, line_ns;
} sim_watch;

typedef struct sim_log_member {
    member_id member;
    log_member entry;
    bool expelled;
    bool shadow;   // a standby that was not promoted
    sim_reach reach;  // a dead member keeps its value at its death
} sim_log_member;

// The member that the newest COMMIT of (m, stage) in the current iteration went to.
typedef struct sim_commit {
    uint64_t iteration, owner_term;
    member_id to;
    uint32_t rev;
    bool refused;  // `to` answered that it has no stash
    // the last member that reported its stash evicted and has received no new one
    member_id evicted;
} sim_commit;

// An OWNER entry of the log.
typedef struct sim_owner {
    uint16_t slot;
    uint64_t index;
} sim_owner;

typedef struct sim_checker {
    // ring buffer of the newest entries: entry i lies at i modulo its size
    sim_owner owner[SIM_MAX_OWNERS];
    uint32_t owners;
    member_id slot_owner[WIRE_MAX_SLOTS];  // newest owner of each slot
    log_close *closes;        // elastic runs: the last CLOSE of each iteration
    log_final *finals;        // elastic runs: FINAL of each iteration
    braid_id share[WIRE_MAX_SLOTS];    // owner of each private data shard
    sim_watch *watch;         // [node_capacity]
    sim_log_member *member;   // [SIM_MAX_LOG_MEMBERS]
    uint32_t members;
    sim_commit *commit;      // [microbatches][stages]
    message_set waiting;     // microbatches that wait for a slot of the next stage
    uint64_t waiting_iteration;  // 1 + the iteration of `waiting`
    // the newest mover: its EXPEL, its newest membership, and whether it has not had its state there yet
    uint64_t moved_index;
    braid_id mover;
    member_id mover_member;
    bool mover_fetches;
    uint64_t committed;
    uint64_t *entry;          // [committed + 1]: content hash of each entry
    uint32_t entries_room;
    uint64_t version;        // newest version that a FINAL made
    // generation of the newest RUN entry; fence: its index, unless it is the first RUN
    uint64_t generation, fence;
    uint64_t start_version;      // version at which the newest RUN begins
    // 1 + the version at which all holders of the stage's state died; 0: never
    uint64_t lost_version[WIRE_MAX_STAGES];
    bool started, closed, finished, ended, drained;  // drained: the leader was asked to end the run
    // the leader reported that it does not wait for the iteration any longer
    bool given_up;
    bool unfinished;         // the run ended without the private data of its last iteration
    log_close close;         // the newest CLOSE
    uint64_t close_index, close_appended_for;
    log_final final;         // the newest FINAL
    bool has_final;
    braid_hash saved_hash;
    bool saved_last;
    // time of the last routing message; time of the last check of settled routes
    uint64_t route_message_ns, route_check_ns;
} sim_checker;

typedef struct sim_cluster {
    const sim_case *c;
    const sim_model *model;
    // NULL: numbers are not compared; elastic runs compare at the end
    const sim_reference *reference;
    FILE *trace;
    sim_report *report;
    sim_stats *stats;
    peer_run run;
    rng random;
    uint64_t now, limit_ns, leader_exit_ns;
    uint64_t begin_ns;            // the time that messages and traces call 0
    uint32_t leader;              // the node that led last
    uint64_t leader_term;
    uint64_t lost_leader_ns;      // time at which the leader died; 0: there is a leader
    sim_queue queue;
    sim_node *node;               // [node_capacity], one per incarnation of a process
    uint32_t nodes, node_capacity;
    uint32_t id_begins[SIM_MAX_NODES];  // sim_id_begins of each node's id
    sim_link (*link)[SIM_MAX_NODES];  // [one end][the other end]
    uint32_t connections;
    bool crash_done[SIM_MAX_CRASHES];
    uint32_t crash_seen[SIM_MAX_CRASHES];
    bool arrival_done[SIM_MAX_ARRIVALS];
    sim_checker checker;
    struct {
        uint64_t until_ns, side;  // side: one bit per node
        uint64_t over_ns;         // time at which every delayed message has arrived
        // nodes with the bit receive messages of the others, but theirs do not arrive
        bool one_way;
    } partition;
    bool any_route;                               // no routing rule is checked
    message message;              // the message of the current event; effects may point into it
    message sent;                 // the message of the current effect
} sim_cluster;

// The first bytes of an id. A comparison of these is cheap and tells most ids apart.
static inline uint32_t sim_id_begins(const braid_id *id) {
    uint32_t begins;
    memcpy(&begins, id->bytes, sizeof begins);
    return begins;
}

// --- harness.c
sim_item *sim_item_new(sim_item_kind kind, uint32_t node, size_t bytes);
void sim_item_put(sim_cluster *s, uint64_t at_ns, sim_item *item);
void sim_fail(sim_cluster *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_failed(const sim_cluster *s);
// The node that leads in the newest term; without a leader, the node that led last.
uint32_t sim_leader(const sim_cluster *s);
// Read and write access to blobs for a worker.
worker_blobs sim_blobs_access(sim_blobs *blobs);

// --- members.c
bool sim_check_member_live(const sim_cluster *s, member_id member);
bool sim_check_is_shadow(const sim_cluster *s, member_id member);
// True if the peer has not read the newest rollback yet; its work is discarded.
bool sim_check_is_rolled_back(const sim_cluster *s, uint32_t node);
// The version of the whole state that its worker holds, from any membership; UINT64_MAX: none.
uint64_t sim_check_kept_version(const sim_cluster *s, uint32_t node);

// --- cluster.c
void sim_step(sim_cluster *s, uint32_t node, const event *e);
// Starts a process. `store_of`: the node that stored the durable log that it finds,
// SIM_MAX_NODES for none. `host`: for a standby, the member on the same machine.
void sim_start(sim_cluster *s, member_kind kind, const braid_id *id, uint32_t store_of, const braid_id *host);

// --- disk.c: durable logs
void sim_disk_append(sim_cluster *s, uint32_t node, const log_entry *entry);
void sim_disk_stored(sim_cluster *s, uint32_t node);
void sim_disk_crash(sim_cluster *s, uint32_t node);
// Gives node's new incarnation the log that `from` had stored.
void sim_disk_recall(sim_cluster *s, uint32_t node, const sim_disk *from);

// --- links.c
void sim_link_send(sim_cluster *s, uint32_t from, const effect *e);
void sim_link_dial(sim_cluster *s, uint32_t from, const effect *e);
void sim_link_close(sim_cluster *s, uint32_t from, const braid_id *id);
void sim_link_die(sim_cluster *s, uint32_t node, bool machine, bool clean);
// Breaks a random link between two living peers; the messages on their way arrive in part.
void sim_link_flap(sim_cluster *s);
void sim_link_item(sim_cluster *s, sim_item *item);

// --- work.c: the host's side of jobs
void sim_job_start(sim_cluster *s, uint32_t node, const job *work);
void sim_job_done(sim_cluster *s, uint32_t node);
// The parts of sim_job_start and sim_job_done that need no clock. Takes a job and borrows its
// inputs; false if that broke a rule.
bool sim_job_take(sim_cluster *s, uint32_t node, const job *work);
// Runs the job that was taken, at the cost in node's `job_ns`; false if that broke a rule.
bool sim_job_run(sim_cluster *s, uint32_t node, job_result *result);

// --- saves.c: checkpoints
bool sim_save_concerns(const sim_node *n, const job *work);
void sim_save_run(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result);
// JOB_STATE_INIT at the version of a checkpoint that this node has saved.
void sim_save_load(sim_cluster *s, uint32_t node, sim_worker *w, const job *work, job_result *result);
void sim_save_recall(sim_cluster *s, uint32_t node, uint32_t from);
void sim_save_drop(sim_cluster *s, uint32_t node);

// --- mutant.c
// peer_faults.mutants; 0: the simulator makes the mistake itself
uint64_t sim_mutant_of_core(sim_mutant mutant);
// True: the job is not run, and `result` claims that it was.
bool sim_mutant_skips_job(sim_cluster *s, uint32_t node, const job *work, job_result *result);
void sim_mutant_job(sim_cluster *s, uint32_t node, const job *work, const worker_blobs *blobs, job_result *result);
// Writes another message to send instead to `bytes` and returns its size; 0: send the message as it
// is.
size_t sim_mutant_send(sim_cluster *s, const message *msg, uint8_t *bytes, size_t capacity);
// True: the message is dropped.
bool sim_mutant_loses(const sim_cluster *s, const message *msg);

// --- crash.c
void sim_crash_moment(sim_cluster *s, uint32_t node, sim_moment moment, uint8_t kind);
void sim_crash_timed(sim_cluster *s, uint32_t index);
void sim_crash_plan(sim_cluster *s);
void sim_crash_after_departure(sim_cluster *s, uint32_t node);  // a peer left the run
void sim_crash_after_rollback(sim_cluster *s);            // the run rolled back
// True if the peer may leave for good: in an elastic run another data peer must stay.
bool sim_crash_may_leave(const sim_cluster *s, uint32_t node);
// True if the other members of the stage can go on without this peer.
bool sim_crash_allowed(const sim_cluster *s, uint32_t node);

// --- trouble.c: faults of living peers
void sim_trouble_plan(sim_cluster *s);
void sim_trouble_begin(sim_cluster *s, uint32_t index);
// Called when a message of `kind` is sent: starts the joiners that are due at it.
void sim_trouble_arrivals(sim_cluster *s, uint8_t kind);
// End of the cut between `from` and `to`; 0: messages pass.
uint64_t sim_trouble_cut_until(const sim_cluster *s, uint32_t from, uint32_t to);
// End of the peer's pause; 0: it is not paused, or dead.
uint64_t sim_trouble_paused_until(const sim_cluster *s, uint32_t node);
// True: the peer is paused, and the item was rescheduled.
bool sim_trouble_defers(sim_cluster *s, sim_item *item);

// --- checker.c: the rules that can be observed from outside (docs/protocol.md, invariants)
void sim_check_open(sim_cluster *s);
void sim_check_close(sim_cluster *s);
// Clears the record of a node when a new incarnation begins.
void sim_check_incarnation(sim_cluster *s, uint32_t node);
void sim_check_step(sim_cluster *s, uint32_t node);
// Counts wake-ups before a step. A peer may wake itself only when it has something to do.
void sim_check_steps(sim_cluster *s, uint32_t node, event_kind kind);
void sim_check_end(sim_cluster *s);
// called when the peer reports an unfinished run
void sim_check_unfinished(sim_cluster *s, uint32_t node);
// --- check_needed.c
// After a step: state that the peer no longer claims must exist at another peer.
void sim_check_needed(sim_cluster *s, uint32_t node);
// Called before a worker's state is discarded.
void sim_check_discarded(sim_cluster *s, uint32_t node);
// Called when the log removes a member, sets a slot's owner or makes a version, and when a leader
// appends an entry.
void sim_check_expelled(sim_cluster *s, const sim_log_member *gone);
void sim_check_owner(sim_cluster *s, const log_owner *entry);
void sim_check_version_made(sim_cluster *s);
void sim_check_appended(sim_cluster *s, uint32_t node, const log_entry *entry);
// --- check_message.c
void sim_check_send(sim_cluster *s, uint32_t node, const braid_id *to, const message *msg);
void sim_check_arrival(sim_cluster *s, uint32_t node, const message *msg);
// Called after the step: a COMMIT must be kept or answered.
void sim_check_kept(sim_cluster *s, uint32_t node, const message *msg);
// --- check_route.c
void sim_check_route(sim_cluster *s, uint32_t node);
void sim_check_route_sent(sim_cluster *s, const message *msg);
// --- check_move.c: rule J14
void sim_check_move_applied(sim_cluster *s, uint32_t node, const log_entry *entry);
void sim_check_mover(sim_cluster *s, uint32_t node);  // after each step
void sim_check_move_appended(sim_cluster *s, uint32_t node, const log_entry *entry);
// --- check_log.c
// compares with the one-process run
void sim_check_final_numbers(sim_cluster *s, const log_final *final);
void sim_check_close_numbers(sim_cluster *s, const log_close *close);
// Called when a peer applies a committed entry. All peers must apply the same content at an index.
void sim_check_applied(sim_cluster *s, uint32_t node, const log_entry *entry);
// --- check_job.c
void sim_check_job(sim_cluster *s, uint32_t node, const job *work);
void sim_check_result(sim_cluster *s, uint32_t node, const job *work, const job_result *result);

// --- losses.c: work that a death destroys, and the time of its repair
void sim_loss_died(sim_cluster *s, uint32_t node, const message *sent);
void sim_loss_job(sim_cluster *s, uint32_t node, const job *work, uint64_t cost_ns, bool done);
void sim_loss_final(sim_cluster *s, uint64_t iteration);

// --- trace.c
void sim_trace(sim_cluster *s, uint32_t node, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sim_trace_effect(sim_cluster *s, uint32_t node, const effect *e);
void sim_trace_event(sim_cluster *s, uint32_t node, const event *e, uint32_t from, uint64_t sent_ns);
void sim_trace_result(sim_cluster *s, uint32_t node, const job *work, const job_result *result);

#endif
