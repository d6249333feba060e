// Microbatches: held at a member, sent on, owned, repaired.
#ifndef BRAID_PROTOCOL_MICROBATCH_MICROBATCH_H
#define BRAID_PROTOCOL_MICROBATCH_MICROBATCH_H

#include "protocol/log/log.h"
#include "protocol/route/inflight.h"
#include "protocol/route/routing.h"

enum {
    FORWARD_MOST_TENSORS = 32,         // tensors' worth of bytes may wait on a forwarder's links
};

// ---- credit.c -----------------------------------------------------------------------------------
void credit_refresh(peer *p);
void on_can_take(peer *p, const message *msg);
void credit_update(peer *p, bool again);

// ---- inflight.c ---------------------------------------------------------------------------------
void on_forward(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void on_backward(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void on_cancel(peer *p, const message *msg);
void on_commit(peer *p, const message *msg);
void on_probe(peer *p, const message *msg);
void on_resume(peer *p, const message *msg);
void inflight_tick(peer *p);
void inflight_resend(peer *p, uint32_t m, uint8_t phase, uint16_t until, const message_path *path);
void inflight_forward_done(peer *p, const core_job *t, const job_result *r);
void inflight_backward_done(peer *p, const core_job *t, const job_result *r);
void inflight_weight_done(peer *p, const core_job *t, const job_result *r);

// ---- slots.c ------------------------------------------------------------------------------------
inflight_microbatch *inflight_open(peer *p, uint32_t m);
bool inflight_slot(peer *p, inflight_microbatch *h);  // false: none free
bool inflight_claim(peer *p, uint32_t m);  // it has a slot or gets one; a repair may evict another microbatch
uint32_t inflight_room(const peer *p);     // credit: how many more are accepted
bool inflight_waits_for_slot(const inflight_microbatch *h);
uint32_t inflight_waiting_places(const peer *p);
bool inflight_slot_is_due(const peer *p, uint32_t for_m);
bool inflight_passes_by(const peer *p, uint32_t m, bool repair);
void inflight_slot_free(peer *p, inflight_microbatch *h);
bool inflight_gradient_came(const inflight_microbatch *h);
message_subject inflight_subject(const peer *p, uint32_t m, const inflight_microbatch *h);
// Refuses a tensor.
void inflight_deny(peer *p, member_id to, const message_subject *subject, message_phase phase, deny_reason reason);
void inflight_free(peer *p, uint32_t m);
void inflight_free_all(peer *p);
void inflight_uncount(peer *p, uint32_t m);  // removed from the contribution set
void inflight_drop(peer *p, uint32_t m);  // frees it when no job works on it
void inflight_trace(peer *p, uint32_t m, uint8_t phase, uint64_t eta_ns, member_id next);
uint64_t inflight_eta(const peer *p, uint8_t phase);
bool inflight_weights_pending(const peer *p);  // a committed weight gradient is not in the sum yet

// ---- send.c -------------------------------------------------------------------------------------
void send_forward(peer *p, uint32_t m);
void send_backward(peer *p, uint32_t m);
// True if it is under way over a link that has not fallen since, to a member that answers: a second
// copy would only fill the link. Limited to a few times.
bool send_is_under_way(peer *p, tensor_sending *s, member_id to);
void send_forward_again(peer *p, uint32_t m);  // to the same receiver
void send_forward_proven(peer *p, uint32_t m, member_id by);  // `by` has computed it, whether or not its COMPLETE arrives
void send_suspect_to_owner(peer *p, uint32_t m, uint8_t phase, member_id who);
void send_add_tried(tensor_sending *s, member_id who);
void send_forward_routed(peer *p, uint32_t m);
uint32_t send_links_of(const peer *p, member_id id);
timing_link *send_link_of(peer *p, member_id id);
bool send_tensor(peer *p, tensor_sending *s, member_id to, blob_id blob, member_id planned);
bool send_waits_at(const tensor_sending *s, member_id to);
void send_retry_waiting(peer *p);
void send_link_lost(peer *p, member_id to);    // a link fell: tensors still believed to be under way on it are given TIMING_LINK_GRACE_NS
void send_member_gone(peer *p, member_id gone);
// Called at the time limit of a tensor. True: it may still be under way, so the limit was extended.
bool send_waits_on(peer *p, tensor_sending *s);
void sends_tick(peer *p);

// ---- answers.c ----------------------------------------------------------------------------------
void send_link_back(peer *p, member_id to);    // a link came up: sends again what the link before it lost
void on_accept(peer *p, const message *msg);
void on_complete(peer *p, const message *msg);
void on_deny(peer *p, const message *msg);
void on_deny_commit(peer *p, const message *msg);
void on_deny_resume(peer *p, const message *msg);
void on_no_peer(peer *p, const message *msg);
void on_evicted(peer *p, const message *msg);

// ---- forwarded_send.c ---------------------------------------------------------------------------
// Sends p->core.scratch, a FORWARD or BACKWARD, with its tensor: by the forwarder `planned`,
// directly if that is `to`, and by the fastest path if it is 0.
bool forwarded_send(peer *p, tensor_sending *s, member_id to, blob_id blob, member_id planned);

// ---- forwarded.c --------------------------------------------------------------------------------
// True: the tensor of this FORWARD or BACKWARD arrives in pieces, and the message is handled then.
bool forwarded_announced(peer *p, const message *msg);
void on_carry(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void forwarded_refused(peer *p, uint32_t serial);  // by its forwarder
void forwarded_joined(peer *p, const core_job *t, const job_result *r);
void forwarded_tick(peer *p);

// ---- forward.c ----------------------------------------------------------------------------------
member_id forward_random(peer *p, member_id to);  // for tests: a random forwarder
void forward_refuse(peer *p, member_id origin, uint32_t serial);  // a tensor
// Sends the composed message with another peer's payload. False: this peer has no room for it.
bool forward_pass_on(peer *p, member_id to, blob_id blob, uint64_t bytes);

// ---- ownership.c --------------------------------------------------------------------------------
bool microbatch_is_mine(const peer *p, uint32_t m);
bool microbatch_is_eval(const peer *p, uint32_t m);  // held-out text
uint16_t microbatch_slot(const peer *p, uint32_t m);
bool microbatch_planned(const peer *p, uint32_t m);
// True if this peer owns m, but not all members have sent HOLDINGS of it.
bool failover_pending(const peer *p, uint32_t m);
// Elastic: true if m's owner is gone, so that uncommitted work on m is useless.
bool private_orphan(const peer *p, uint32_t m);
// Elastic: true if the CLOSE of this iteration leaves m out.
bool private_closed_out(const peer *p, uint32_t m);
bool private_elastic(const peer *p);

// ---- own.c --------------------------------------------------------------------------------------
void own_launch(peer *p);
void own_home(peer *p, const message *msg, blob_id x);
void own_loss_done(peer *p, const core_job *t, const job_result *r);
void own_backward_done(peer *p, uint32_t m, bool finite);
void own_send_gradient(peer *p, uint32_t m);
void own_commit(peer *p, uint32_t m);
void own_commit_again(peer *p, uint32_t m, member_id who);  // repeats a COMMIT that was not answered with COUNTED
void own_settle(peer *p, uint32_t m);
void own_touch(peer *p, uint32_t m, uint64_t eta_ns);
void own_cancel_path(peer *p, uint32_t m);
// Begins m again from its first stage. Not for committed microbatches.
void own_restart(peer *p, uint32_t m);
void own_cancel(peer *p, uint32_t m, member_id who);
void own_free_all(peer *p);
void own_tick(peer *p);
void on_trace(peer *p, const message *msg);
void on_counted(peer *p, const message *msg);

// ---- repair.c -----------------------------------------------------------------------------------
void on_status(peer *p, const message *msg);
void repair_begin(peer *p, uint32_t m);
void repair_tick(peer *p, uint32_t m);
void repair_stage_filled(peer *p, uint16_t stage);  // a member of the stage has become ready: repairs that waited for one begin
void repair_member_gone(peer *p, member_id gone, bool expelled);
void repair_holder_lost(peer *p, uint32_t m, uint16_t stage, member_id who);
void repair_suspect(peer *p, const message *msg);

// ---- failover.c ---------------------------------------------------------------------------------
void failover_owner(peer *p, uint16_t slot, member_id older);  // OWNER
void failover_drop(peer *p);
void failover_tick(peer *p);
void on_survey(peer *p, const message *msg);
void on_holdings(peer *p, const message *msg);
void failover_lead(peer *p);  // the leader gives slots without an owner to other data peers
bool failover_has_successor(const peer *p, const cluster_member *of);

// ---- private.c ----------------------------------------------------------------------------------
void private_share(peer *p, uint16_t share, uint16_t freed);  // SHARE
// The member that has a slot's data; 0: it is away.
member_id private_owner(const peer *p, uint16_t slot);
// At the leader: whether the joiner gets a share, and the SHARE entry to append; kind LOG_NONE: it
// is in the log already.
join_refusal private_admit(const peer *p, const braid_id *who, uint16_t wish, const braid_hash *text, log_entry *entry);
bool private_left_out(const peer *p, uint32_t m);
void private_lead(peer *p);
void private_compensate_pause(peer *p, uint64_t late_ns);  // this process was paused
void private_lead_begin(peer *p);
void private_next_iteration(peer *p);
void private_gone(peer *p, member_id gone);
bool private_gathered(const peer *p);  // each share has a peer
bool private_given_up(peer *p, uint32_t m);  // strict: the run is to end, and m's data have been away for too long
void private_tell_unfinished(peer *p, uint32_t m);
void private_tick(peer *p);

#endif
