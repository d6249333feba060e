// The leader: admission, the end of an iteration, voters, checkpoints, rollback. Joining and leaving too.
#ifndef BRAID_PROTOCOL_LEADER_LEADER_H
#define BRAID_PROTOCOL_LEADER_LEADER_H

#include "protocol/chunks/chunks.h"

enum { PEER_MAX_SHADOWS = 4 };  // of one stage

typedef struct settled_microbatch {
    bool known;
    message_settled body;   // path, revs
    uint32_t rev_sum;
} settled_microbatch;

typedef struct stage_round {
    uint64_t round, first;  // rounds before `first` belong to an older CLOSE
    bool running, dirty;
    uint64_t agreed_ns;     // since when enough members report one root
    uint32_t shadows;       // that have the results
    member_id shadow[PEER_MAX_SHADOWS];
    braid_hash shadow_root[PEER_MAX_SHADOWS];
    uint32_t reports;
    member_id reporter[WIRE_MAX_STAGE_MEMBERS];
    braid_hash root[WIRE_MAX_STAGE_MEMBERS];
    bool overflow;
    braid_hash result_root;
    double *norm2;          // [tensors of the stage]
    message_begin begin;
    uint64_t sent_ns;
    // state roots of the present version
    uint32_t states;
    member_id state_member[WIRE_MAX_STAGE_MEMBERS];
    braid_hash state_root[WIRE_MAX_STAGE_MEMBERS];
    bool state_agreed;
    braid_hash agreed_state;
    bool named;             // the checkpoint being written has the names of this stage's blocks, of `named_root`
    braid_hash named_root;
    bool kept;              // a shadow has told its root: whoever comes to a stage where only shadows have the state gets it from them
    braid_hash kept_root;
} stage_round;

typedef enum leader_phase { LEADER_GATHERING, LEADER_RUNNING, LEADER_CLOSING, LEADER_REDUCING, LEADER_DECIDING, LEADER_DECIDED, LEADER_FINISHING, LEADER_SAVING_LAST, LEADER_OVER } leader_phase;

// How far the run is from a rollback. All peers measure the iterations; the rest is the leader's.
typedef struct leader_rollback {
    uint64_t began_ns, iteration_ns;    // when the present iteration began; how long the one before took
    uint64_t lost_ns[WIRE_MAX_STAGES];  // since when no member has the stage's state, 0: one may
    uint64_t lead_ns;       // since when this peer leads
    uint64_t decided;       // index of the RUN that rolls back, 0: none
} leader_rollback;

typedef struct peer_leader {
    uint8_t phase;
    uint32_t decisions;     // JOB_DECIDE asked for
    uint64_t begun_ns;      // when the present iteration began, as far as it knows
    uint64_t handed_ns;     // when it last asked another one to lead
    uint32_t appends;       // on their way into the log
    settled_microbatch *settled;       // [microbatches + eval]
    log_close close;
    uint64_t close_index;
    stage_round *round;     // [stages]
    double norm2;
    log_entry final;        // decided, waits until a checkpoint of the present version is written
    // checkpoint being written
    bool saving, save_failed;
    uint64_t save_version;
    uint32_t save_serial;   // names the attempt: what was under way for an older one counts for nothing
    uint16_t save_stage;
    uint32_t save_next, save_under_way;  // segment to ask for next; asked for and not yet stored
    bool save_ending, save_naming;
    bool end_appended;      // END is on its way into the log
    uint64_t save_names_ns;  // names were last asked for
    uint32_t save_source;
    bool checkpoint_due;    // CHECKPOINT is to be appended before FINAL: this one, without the state roots
    log_entry checkpoint;
    uint64_t attest_ns;      // nobody is to be told a root before
    uint64_t eval_tokens;
    double eval_loss;
    leader_rollback rollback;
} peer_leader;

// ---- shadow.c ------------------------------------------------------------------------------------------------------
void shadow_promote(peer *p, uint64_t index, member_id who);  // PROMOTE
// The leader. Which stage it is to keep; false: none needs it just now.
bool shadow_place(const peer *p, uint32_t from, const message_join *join, uint16_t *stage);
bool shadow_keeps(const peer *p, uint16_t stage);       // somebody does, or is about to
bool shadow_could_work(const peer *p, uint16_t stage);  // now: its shadow is here, with the state
void shadow_lead(peer *p);
// FINAL need not wait for this stage's shadows.
bool shadow_follows(peer *p, uint16_t stage);
bool shadow_of(const peer *p, member_id who, uint16_t stage);
// Somebody does its work or is about to, though he may yet have to fetch the state.
bool stage_has_workers(const peer *p, uint16_t stage);
void shadow_reduced(peer *p, const message *msg);
void shadow_state(peer *p, const message *msg);

// ---- rollback.c ----------------------------------------------------------------------------------------------------
void rollback_run(peer *p, const log_run *run, bool newer);  // RUN of a generation after the first
uint64_t rollback_grace_ns(const peer *p);  // how long is waited for who may spare us the way back
bool rollback_to_be_had(const peer *p);  // ... at my host, or at somebody's who is here, or everybody can make it
bool rollback_is_given(const peer *p);  // whoever comes to a stage gets its state from outside of it: nothing was applied yet
bool rollback_needs(const peer *p, const cluster_member *m);  // nobody else here can read that state, and some stage has it from nobody yet
void rollback_lead(peer *p);
void rollback_lead_begin(peer *p);
void rollback_compensate_pause(peer *p, uint64_t late_ns);  // I stood still: nobody could be heard to have what is lost
bool rollback_nears(const peer *p);  // some stage seems to be lost: who comes may have a checkpoint to go on from
bool rollback_under_way(const peer *p);  // RUN is in the log and not yet applied: what is decided of the work now would come behind it
void rollback_lead_again(peer *p);

// ---- join.c --------------------------------------------------------------------------------------------------------
void on_join(peer *p, uint32_t from, const message *msg);
void on_leave(peer *p, uint32_t from, const message *msg);
void leave_when_free(peer *p);
void join_tick(peer *p);
void leader_tick(peer *p);
void leader_remove(peer *p, member_id who, uint8_t reason);
void leader_remove_silent(peer *p, member_id who);  // it does not answer any more
bool stage_has_another(const peer *p, const cluster_member *m);
bool member_is_whole(const peer *p, const cluster_member *m);  // it answers, and has all of its stage's newest state
void leader_begin_iteration(peer *p);
// Those who asked to leave: before the start at once, then at FINAL, but the last who has its stage's state stays.
void leader_release_leaving(peer *p);
void leader_dismiss(peer *p, bool failed);  // tells everybody that it is over, and ends

// ---- close.c -------------------------------------------------------------------------------------------------------
void on_settled(peer *p, const message *msg);
void on_mismatch(peer *p, const message *msg);
void on_reduced(peer *p, const message *msg);
void on_state(peer *p, uint32_t from, const message *msg);
void leader_applied(peer *p, const log_entry *entry);
bool leader_sees_at_version(const peer *p, const cluster_member *m);
void leader_decided(peer *p, const core_job *t, const job_result *r);
void close_tick(peer *p);
void close_member_gone(peer *p, member_id gone);

// ---- lead.c --------------------------------------------------------------------------------------------------------
void leader_attest(peer *p);  // members that fetch state are told its hash
bool leader_agreed_state(const peer *p, braid_hash *root);
void leader_begin(peer *p);
void leader_end(peer *p);
void lead_tick(peer *p);
bool lead_run_is_over(const peer *p);

// ---- save.c --------------------------------------------------------------------------------------------------------
void save_begin(peer *p, uint64_t version);
void save_tick(peer *p);
void save_drop_pulls(peer *p);
void save_job_done(peer *p, const core_job *t, const job_result *r);

#endif
