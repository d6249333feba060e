// The leader: admission, the end of an iteration, voters, checkpoints, rollback. Joining and
// leaving too.
#ifndef BRAID_PROTOCOL_LEADER_LEADER_H
#define BRAID_PROTOCOL_LEADER_LEADER_H

#include "protocol/chunks/chunks.h"

enum { PEER_MAX_STANDBYS = 4 };  // of one stage

typedef struct settled_microbatch {
    bool known;
    message_settled body;   // path, revs
    uint32_t rev_sum;
} settled_microbatch;

typedef struct stage_round {
    uint64_t round, first;  // attempts before `first` belong to an older CLOSE
    bool running, dirty;
    uint64_t agreed_ns;     // since when enough members report one hash
    uint32_t standbys;       // standbys that have the results
    member_id standby[PEER_MAX_STANDBYS];
    braid_hash standby_root[PEER_MAX_STANDBYS];
    uint32_t reports;
    member_id reporter[WIRE_MAX_STAGE_MEMBERS];
    braid_hash root[WIRE_MAX_STAGE_MEMBERS];
    bool overflow;
    braid_hash result_root;
    double *norm2;          // [tensors of the stage]
    message_begin begin;
    uint64_t sent_ns;
    // state hashes of the present version
    uint32_t states;
    member_id state_member[WIRE_MAX_STAGE_MEMBERS];
    braid_hash state_root[WIRE_MAX_STAGE_MEMBERS];
    bool state_agreed;
    braid_hash agreed_state;
    bool named;             // the checkpoint being written has this stage's content hashes, of `named_root`
    braid_hash named_root;
    bool kept;              // a standby has reported its hash: joiners use it where only standbys have the state
    braid_hash kept_root;
} stage_round;

typedef enum leader_phase { LEADER_GATHERING, LEADER_RUNNING, LEADER_CLOSING, LEADER_REDUCING, LEADER_DECIDING, LEADER_DECIDED, LEADER_FINISHING, LEADER_SAVING_LAST, LEADER_OVER } leader_phase;

// State of the decision about a rollback. All peers measure the iterations; the rest is the
// leader's.
typedef struct leader_rollback {
    uint64_t began_ns, iteration_ns;    // when the present iteration began; how long the one before took
    uint64_t lost_ns[WIRE_MAX_STAGES];  // since when no member has the stage's state, 0: one may
    uint64_t lead_ns;       // since when this peer leads
    uint64_t decided;       // index of the RUN that rolls back, 0: none
} leader_rollback;

enum { LEADER_KEPT_MOVES = 8 };

// Moves of relays to another stage. Every peer notes those of the log, because it may lead later;
// only the leader that chose a move knows its stage.
typedef struct leader_move {
    bool pending;        // the newest one has not joined again yet
    uint16_t stage;      // where it shall go
    member_id keeper;    // a member that keeps the state of its older stage
    uint32_t count;      // moves so far
    struct {
        braid_id id;
        uint64_t iteration;
    } kept[LEADER_KEPT_MOVES];  // the newest ones, by count
} leader_move;

typedef struct peer_leader {
    uint8_t phase;
    uint32_t decisions;     // JOB_DECIDE asked for
    uint64_t begun_ns;      // when this peer, as leader, first knew of the present iteration
    uint64_t handed_ns;     // when it last tried to transfer leadership
    uint32_t appends;       // being appended
    settled_microbatch *settled;       // [microbatches + eval]
    log_close close;
    uint64_t close_index;
    stage_round *round;     // [stages]
    double norm2;
    log_entry final;        // decided; waits for the checkpoint of the present version
    // checkpoint being written
    bool saving, save_failed;
    bool drop, unlogged;    // EVENT_DRAIN's
    bool save_wanted;       // of the present version, though none is due
    uint64_t save_tried_ns; // when the last one for a leaving member began
    bool awaits_save;       // FINAL waits until a checkpoint has what a leaving member alone has
    uint32_t skipped_before;  // skipped iterations in a row before the newest FINAL
    uint64_t save_version;
    uint32_t save_serial;   // number of the attempt: answers to an older one are ignored
    uint16_t save_stage;
    uint32_t save_next, save_under_way;  // first chunk to ask for next; number of requests not stored yet
    bool save_ending, save_naming;
    bool end_appended;      // END is being appended
    uint64_t save_names_ns;  // when content hashes were last requested
    uint32_t save_source;
    bool checkpoint_due;    // `checkpoint`, still without state hashes, must be appended before FINAL
    log_entry checkpoint;
    uint64_t attest_ns;      // next look for members that need an attested hash
    uint64_t eval_tokens;
    double eval_loss;
    leader_rollback rollback;
    leader_move move;
} peer_leader;

// ---- place.c ------------------------------------------------------------------------------------
// The stage of a joiner (`from`: its contact, NO_CONTACT: the leader itself). False: none has room.
bool place_joiner(const peer *p, uint32_t from, const message_join *join, uint16_t *stage);

// ---- move.c -------------------------------------------------------------------------------------
// True if the run can go on without the member, and no state is lost with it.
typedef bool leader_spares(const peer *p, const cluster_member *m);
// After FINAL: a relay that helps more in another stage, 0: none. The caller calls leader_move_begin
// and removes the relay as moved.
member_id leader_move_choose(peer *p, leader_spares *spares);
void leader_move_begin(peer *p, member_id keeper);  // `keeper`: leader_keeper of the relay
void leader_move_applied(peer *p, member_id moved);  // EXPEL with MOVED: called before the member is removed
uint16_t leader_move_target(const peer *p, const braid_id *id);  // the stage chosen for a moved peer; 0: none

// ---- standby.c ----------------------------------------------------------------------------------
void standby_promote(peer *p, uint64_t index, member_id who);  // PROMOTE
// At the leader: the stage that a joining standby shall keep; false: none needs one now.
bool standby_choose_stage(const peer *p, uint32_t from, const message_join *join, uint16_t *stage);
bool standby_exists(const peer *p, uint16_t stage);       // a standby keeps it or is being admitted
bool standby_can_take_over(const peer *p, uint16_t stage);  // a standby of it is here with the state
void standby_tick(peer *p);
// Rule B3. True: FINAL need not wait for this stage's standbys.
bool standby_lets_final_go(peer *p, uint16_t stage);
bool standby_keeps(const peer *p, member_id who, uint16_t stage);
// True if a member works for the stage or is being admitted to it; it may still be fetching the
// state.
bool stage_has_workers(const peer *p, uint16_t stage);
void standby_on_reduced(peer *p, const message *msg);
void standby_on_state(peer *p, const message *msg);

// ---- rollback.c ---------------------------------------------------------------------------------
void rollback_run(peer *p, const log_run *run, bool newer);  // RUN of a generation after the first
uint64_t rollback_grace_ns(const peer *p);  // how long a member that may make the rollback unnecessary is waited for
bool rollback_start_available(const peer *p);  // the start of this generation can be read here or at a live member, or be initialised
// True if the log has a checkpoint of this version that a present peer can read, or the run began
// from it.
bool rollback_is_saved(const peer *p, uint64_t version);
bool rollback_is_kept(const peer *p, uint64_t version);  // and that peer is not leaving
// `leaving` alone can read the checkpoint of the present version, and a stage has no member with its state.
bool rollback_loses(const peer *p, const cluster_member *leaving);
bool rollback_weights(const peer *p, uint64_t version, braid_hash *weights);  // of such a checkpoint
bool rollback_is_given(const peer *p);  // nothing was applied yet: a joiner can get its state from outside its stage
bool rollback_needs(const peer *p, const cluster_member *m);  // `m` alone can read that checkpoint, and a stage still lacks the state
void rollback_lead(peer *p);
void rollback_lead_begin(peer *p);
void rollback_compensate_pause(peer *p, uint64_t late_ns);  // this process was paused
bool rollback_is_likely(const peer *p);  // a stage seems lost: a joiner may bring a checkpoint
bool rollback_under_way(const peer *p);  // RUN is appended and not applied: decisions about the work must wait
void rollback_lead_again(peer *p);

// ---- join.c -------------------------------------------------------------------------------------
void on_join(peer *p, uint32_t from, const message *msg);
void on_leave(peer *p, uint32_t from, const message *msg);
void on_dismiss(peer *p, uint32_t from, const message *msg);
void leave_when_free(peer *p);
void join_tick(peer *p);
void leader_tick(peer *p);
void leader_remove(peer *p, member_id who, uint8_t reason);
void leader_remove_silent(peer *p, member_id who);  // the failure detector's verdict; removed unless it is irreplaceable
bool stage_has_another(const peer *p, const cluster_member *m);
bool member_is_whole(const peer *p, const cluster_member *m);  // it answers and has the newest state of its stage
void leader_begin_iteration(peer *p);
// Members that asked to leave: before the start at once, later at FINAL. The last one with its
// stage's state stays.
void leader_release_leaving(peer *p);
// At FINAL: the run can go on without the member, and no state is lost with it.
bool leader_can_spare(const peer *p, const cluster_member *m);
member_id leader_keeper(const peer *p, const cluster_member *m);  // at FINAL: another member of its stage that can make the next version, 0: none
void leader_release_last(peer *p);
void leader_dismiss(peer *p, bool failed);  // sends the shutdown message to all contacts and exits

// ---- close.c ------------------------------------------------------------------------------------
void on_settled(peer *p, const message *msg);
void on_mismatch(peer *p, const message *msg);
void on_reduced(peer *p, const message *msg);
void on_state(peer *p, uint32_t from, const message *msg);
void leader_applied(peer *p, const log_entry *entry);
// Too many iterations in a row without a finite gradient: the run ends with this FINAL.
bool final_is_hopeless(const peer *p, const log_final *f);
bool leader_sees_at_version(const peer *p, const cluster_member *m);
void leader_decided(peer *p, const core_job *t, const job_result *r);
void close_tick(peer *p);
void close_member_gone(peer *p, member_id gone);

// ---- lead.c -------------------------------------------------------------------------------------
void leader_attest(peer *p);  // attests the state hash to members that fetch it
bool leader_agreed_state(const peer *p, braid_hash *root);
void leader_begin(peer *p);
void leader_end(peer *p);
void lead_tick(peer *p);
bool lead_run_is_over(const peer *p);

// ---- save.c -------------------------------------------------------------------------------------
void save_begin(peer *p, uint64_t version);
void leader_save_when_due(peer *p);  // after FINAL
void save_tick(peer *p);
void save_drop_pulls(peer *p);
void save_job_done(peer *p, const core_job *t, const job_result *r);

#endif
