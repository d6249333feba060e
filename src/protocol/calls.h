// What each file of src/protocol/ lets the others call, file by file; routing's calls are in routing.h. Only internal.h includes this.
#ifndef BRAID_PEER_CALLS_H
#define BRAID_PEER_CALLS_H

// ---- peer.c: effects ----------------------------------------------------------------------------------------------
message *peer_compose(peer *p, message_kind kind);
// Sends p->scratch. False when there is no link; who must be heard says it again later.
bool peer_send(peer *p, uint32_t contact_index, blob_id blob);
bool peer_send_member(peer *p, member_id to, blob_id blob);
bool peer_send_part(peer *p, member_id to, blob_id blob, uint64_t offset, uint64_t bytes);
bool peer_send_leader(peer *p);
void peer_release(peer *p, blob_id *blob);
effect *peer_effect(peer *p, effect_kind kind);  // NULL: too many
void peer_tell(peer *p, const tell *what);
void peer_wake_at(peer *p, uint64_t when_ns);
// The sender had not read the newest RUN yet.
bool core_is_past(const peer *p, const message *msg);
bool core_outdates(const peer *p, const message *msg);  // ... and the message is about what was computed
void core_report(peer *p, const core_change *c);
effect *core_send_effect(peer *p);
size_t core_encode(peer *p, const uint8_t **bytes);
bool core_send_local(peer *p, blob_id blob);
bool peer_is_leader(const peer *p);
bool peer_breaks(const peer *p, peer_mutant rule);  // tests only

// ---- members.c ----------------------------------------------------------------------------------------------------
uint32_t contact_find(const peer *p, const braid_id *id);
void contact_may_be_at(peer *p, const braid_id *id, const char *address);  // as somebody says who may be wrong
uint32_t contact_add(peer *p, const braid_id *id, const char *address);  // NO_CONTACT: full
void contacts_add_named(peer *p);  // by the user
bool is_named(const peer *p, const braid_id *id);
void contact_up(peer *p, const braid_id *id);
void contact_down(peer *p, const braid_id *id, bool refused);
void contact_dial(peer *p, uint32_t index);
// Who has been silent for `patience_ns`, since `from_ns` at the earliest, is waited for no longer; at the end of the run for a minute at least.
uint64_t contact_awaited_until(const peer *p, const contact *c, uint64_t from_ns, uint64_t patience_ns);
void contact_touch(peer *p, uint32_t index);  // its link, member or times changed: contacts_tick looks at it again
void contacts_touch(peer *p);
void contacts_tick(peer *p);
void contact_forget(peer *p, contact *c);
bool contact_answers(const peer *p, const contact *c);
void contacts_forgive(peer *p, uint64_t late_ns);  // silence of so long was not theirs
member *member_find(const peer *p, member_id id);
bool member_live(const peer *p, member_id id);
bool member_at(const peer *p, member_id id, uint16_t stage);  // live, of that stage, and not myself
// Live and, as far as this peer can see, answering.
bool member_answers(const peer *p, member_id id);
// Until when the answer stays the same if nothing is heard; 0: nobody can tell.
uint64_t member_answers_until(const peer *p, member_id id);
uint32_t member_count_stage(const peer *p, uint16_t stage);
void member_add(peer *p, uint64_t index, const log_member *entry);
void member_remove(peer *p, member_id id, uint8_t reason);
member_id member_before(const peer *p);  // what an earlier incarnation of this peer still is in the log, 0: nothing
void members_forget(peer *p);
static inline bool member_is_shadow(const member *m) { return m->stage == NO_STAGE; }
void member_refresh_flow(peer *p);
void send_heartbeat(peer *p, uint32_t index);
void on_heartbeat(peer *p, uint32_t from, const message *msg);
void on_can_take(peer *p, const message *msg);
void can_take_update(peer *p, bool again);

// ---- log.c --------------------------------------------------------------------------------------------------------
bool log_append(peer *p, const log_entry *entry);  // false: too many are under way, try later
uint32_t log_room(const peer *p);                   // how many may be appended now
void log_open(peer *p);
void log_progress(peer *p);                         // after anything that the consensus heard
void log_stored(peer *p, const log_entry *entry);
void log_vote_message(peer *p, uint32_t from, const message *msg);
void on_log(peer *p, uint32_t from, const message *msg);
void on_get_log(peer *p, uint32_t from, const message *msg);
bool log_send_snapshot(peer *p, uint32_t contact_index, uint64_t until);
void log_send_addresses(peer *p, uint32_t contact_index);  // of the voters
void log_send_from(peer *p, uint32_t contact_index, uint64_t from);
void log_tick(peer *p);
void log_compare(peer *p, uint64_t newest);  // the leader says that its log goes so far

// Each microbatch that is held here, in order; the loop may free it.
#define EACH_HELD(p, m) \
    for (uint32_t m = bitset_next((p)->held_set, 0, (p)->microbatches); m < (p)->microbatches; m = bitset_next((p)->held_set, m + 1, (p)->microbatches))

// ---- hold.c: a microbatch at a member -----------------------------------------------------------------------------
void on_forward(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void on_backward(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void on_cancel(peer *p, const message *msg);
void on_commit(peer *p, const message *msg);
void on_probe(peer *p, const message *msg);
void on_resume(peer *p, const message *msg);
held *hold_open(peer *p, uint32_t m);
bool hold_slot(peer *p, held *h);  // false: none free
bool hold_claim(peer *p, uint32_t m);  // it has a slot, or gets one, in a repair somebody else's
uint32_t hold_room(const peer *p);     // how many more may come
bool hold_waits_for_slot(const held *h);
uint32_t hold_waiting_places(const peer *p);
bool hold_slot_is_due(const peer *p, uint32_t for_m);
bool hold_passes_by(const peer *p, uint32_t m, bool repair);
void hold_slot_free(peer *p, held *h);
bool hold_gradient_came(const held *h);
message_subject hold_subject(const peer *p, uint32_t m, const held *h);
void hold_deny_rev(peer *p, member_id to, const message_subject *subject, uint8_t phase, uint8_t reason, uint32_t rev);
void hold_deny(peer *p, member_id to, const message_subject *subject, uint8_t phase, uint8_t reason);
void hold_free(peer *p, uint32_t m);
void hold_free_all(peer *p);
void hold_uncount(peer *p, uint32_t m);  // it is in K no more
void hold_drop(peer *p, uint32_t m);  // as soon as no job works on it
void hold_tick(peer *p);
void hold_resend(peer *p, uint32_t m, uint8_t phase, uint16_t until, const message_path *path);
void hold_trace(peer *p, uint32_t m, uint8_t phase, uint64_t eta_ns, member_id next);
uint64_t hold_eta(const peer *p, uint8_t phase);
void held_forward_done(peer *p, const task *t, const job_result *r);
void held_backward_done(peer *p, const task *t, const job_result *r);
void held_weight_done(peer *p, const task *t, const job_result *r);

// ---- send.c: passing tensors on and guarding them -----------------------------------------------------------------
void send_forward(peer *p, uint32_t m);
void send_backward(peer *p, uint32_t m);
// It is on its way there on a link that has not fallen since, to who answers: a second copy would only fill the line. (Not for ever.)
bool send_is_under_way(peer *p, sending *s, member_id to);
void send_forward_again(peer *p, uint32_t m);  // to whom it went
void send_forward_proven(peer *p, uint32_t m, member_id by);  // it has computed what I sent, whether or not its COMPLETE comes
void send_tell_owner_lost(peer *p, uint32_t m, uint8_t phase, member_id who);
void send_add_tried(sending *s, member_id who);
void send_forward_routed(peer *p, uint32_t m);
uint32_t send_links_of(const peer *p, member_id id);
timing_link *send_link_of(peer *p, member_id id);
bool send_tensor(peer *p, sending *s, member_id to, blob_id blob, member_id planned);
bool send_waits_at(const sending *s, member_id to);
void send_retry_waiting(peer *p);
void send_link_back(peer *p, member_id to);    // a link came up: what went to it over the one before and was not answered goes again
void send_link_lost(peer *p, member_id to);    // one fell: who was trusted to have a tensor on the line is so for a second more
void send_member_gone(peer *p, member_id gone);
// Its time is up. True: it may lie on the line still, and the limit is a longer one now.
bool send_waits_on(peer *p, sending *s);
void sends_tick(peer *p);
void on_accept(peer *p, const message *msg);
void on_complete(peer *p, const message *msg);
void on_deny(peer *p, const message *msg);

// ---- parcel.c: tensors that somebody carries -----------------------------------------------------------------------
// Sends p->scratch, a FORWARD or BACKWARD, with the tensor: by way of `planned`, straight if that is `to`, or, 0, by the best way.
bool parcel_send(peer *p, sending *s, member_id to, blob_id blob, member_id planned);
// The tensor of that FORWARD or BACKWARD comes in pieces.
bool parcel_announced(peer *p, const message *msg);
void on_carry(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void parcel_refused(peer *p, uint32_t serial);  // by its forwarder
void parcel_joined(peer *p, const task *t, const job_result *r);
void parcels_tick(peer *p);
member_id forward_anybody(peer *p, member_id to);  // for tests: who might carry something there

// ---- forward.c: the forwarder
void forward_refuse(peer *p, member_id origin, uint32_t serial);
void forward_pass_on(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void on_carry_blocks(peer *p, const message *msg, blob_id blob, uint64_t bytes);

// ---- own.c, repair.c: a microbatch at its owner -------------------------------------------------------------------
bool owns(const peer *p, uint32_t m);
bool microbatch_is_eval(const peer *p, uint32_t m);  // held-out text
uint16_t microbatch_slot(const peer *p, uint32_t m);
bool microbatch_planned(const peer *p, uint32_t m);
void own_launch(peer *p);
void own_home(peer *p, const message *msg, blob_id x);
void own_loss_done(peer *p, const task *t, const job_result *r);
void own_backward_done(peer *p, uint32_t m, bool finite);
void own_send_gradient(peer *p, uint32_t m);
void own_commit(peer *p, uint32_t m);
void own_commit_again(peer *p, uint32_t m, member_id who);  // to who was told already, and has not said COUNTED
void own_settle(peer *p, uint32_t m);
void own_touch(peer *p, uint32_t m, uint64_t eta_ns);
void own_cancel_path(peer *p, uint32_t m);
// Begins anew, as if nothing had been computed. Not for what was committed.
void own_restart(peer *p, uint32_t m);
void own_cancel(peer *p, uint32_t m, member_id who);
void own_free_all(peer *p);
void own_tick(peer *p);
void on_trace(peer *p, const message *msg);
void on_counted(peer *p, const message *msg);
void on_status(peer *p, const message *msg);
void repair_begin(peer *p, uint32_t m);
void repair_tick(peer *p, uint32_t m);
void repair_stage_filled(peer *p, uint16_t stage);  // there was nobody who could, and now there is
void repair_member_gone(peer *p, member_id gone, bool expelled);
void repair_holder_lost(peer *p, uint32_t m, uint16_t stage, member_id who);
void repair_suspect(peer *p, const message *msg);

// ---- takeover.c: owners that die -----------------------------------------------------------------------------------
void takeover_owner(peer *p, uint16_t slot, member_id older);  // OWNER
void takeover_drop(peer *p);
void takeover_tick(peer *p);
// m's slot is mine, and not all have told what they hold of it.
bool takeover_pending(const peer *p, uint32_t m);
void on_survey(peer *p, const message *msg);
void on_holdings(peer *p, const message *msg);
void takeover_lead(peer *p);  // the leader gives away slots without an owner
bool takeover_has_heir(const peer *p, const member *of);

// ---- private.c: data that only one peer has -------------------------------------------------------------------------
void private_share(peer *p, uint16_t share, uint16_t freed);  // SHARE
// The member that a slot's data belong to; 0: it is not there.
member_id private_owner(const peer *p, uint16_t slot);
// The leader: whether the joiner gets a share, and its SHARE entry, of index 0 when that is in the log already.
join_refusal private_admit(const peer *p, const braid_id *who, uint16_t wish, const braid_hash *text, log_entry *entry);
bool private_left_out(const peer *p, uint32_t m);
void private_lead(peer *p);
void private_forgive(peer *p, uint64_t late_ns);  // I stood still: nobody could be heard to come back
void private_lead_begin(peer *p);
void private_next_iteration(peer *p);
// Members: m's owner is gone, and what is not yet committed of it is of no use.
bool private_orphan(const peer *p, uint32_t m);
void private_gone(peer *p, member_id gone);
// CLOSE says that m does not count.
bool private_closed_out(const peer *p, uint32_t m);
bool private_elastic(const peer *p);
bool private_gathered(const peer *p);  // each share has its peer
bool private_given_up(peer *p, uint32_t m);  // strict: the run is to end, and its data have been gone for too long
void private_tell_unfinished(peer *p, uint32_t m);
void private_tick(peer *p);

// ---- work.c -------------------------------------------------------------------------------------------------------
task *task_add(peer *p, job_kind kind);  // NULL: too many wait
void tasks_drop(peer *p);               // those that have not begun
void task_release_inputs(peer *p, const task *t);
void task_start(peer *p, const task *t);
void work_next(peer *p);
void events_handle(peer *p, const core_change *c);
void work_done(peer *p, const job_result *r);

// ---- reduce.c -----------------------------------------------------------------------------------------------------
void on_begin(peer *p, const message *msg);
void on_result(peer *p, const message *msg);
void reduce_tick(peer *p);
void reduce_open(peer *p);           // a COMMIT came after the freeze
void reduce_reset(peer *p);
void reduce_leave(peer *p);
void reduce_enter(peer *p);
void reduce_final(peer *p, const log_final *final);
// Something came that the aggregation may have to do with.
static inline void reduce_stir(peer *p) { p->aggregation.calm_until_ns = 0; }
void reduce_job_done(peer *p, const task *t, const job_result *r);
bool reduce_counts(const peer *p, const task *t);  // blocks of what is collected now, not of an older iteration or CLOSE
bool weights_pending(const peer *p);  // a committed microbatch is still to be added
// Which version I can have without asking anybody; false: none whole.
bool reduce_reaches(const peer *p, uint64_t *version);
uint64_t reduce_left(const peer *p);  // 1 + the iteration of results that are whole; 0: they are not
void reduce_blocks_changed(peer *p);
bool reduce_behind(const peer *p, uint64_t version);
bool reduce_complete(const peer *p); // all result blocks of p->aggregation.results are here
void reduce_apply(peer *p);          // FINAL is known: apply as soon as the results are here
void reduce_want(peer *p, uint64_t iteration);
uint64_t reduce_round(const peer *p);  // that the results at hand, or being collected, are of; 0: none yet
uint64_t reduce_close(const peer *p);  // the CLOSE that the results at hand, or being collected, belong to; 0: none
uint64_t set_digest(const message_set *set);
uint32_t segment_first(uint32_t segment_index);
uint32_t segment_count(const peer *p, uint32_t segment_index);

// ---- transfer.c ---------------------------------------------------------------------------------------------------
void on_get(peer *p, uint32_t from, const message *msg);
void on_data(peer *p, const message *msg, blob_id blob);
void transfer_tick(peer *p);
void transfer_init_done(peer *p, const job_result *r);
void transfer_start_compared(peer *p, uint64_t version, const braid_hash *root);
void transfer_check_ready(peer *p);
void serve_done(peer *p, const task *t, const job_result *r);
bool pull_overlaps(const pull *q, uint8_t what, uint16_t stage, uint32_t first, uint32_t count);

// ---- fetch.c: a joiner's state -------------------------------------------------------------------------------------
void fetch_reset(peer *p);           // I became a member
void fetch_own_root(peer *p, const task *t, const job_result *r);
void fetch_own_names(peer *p, const task *t, const job_result *r);
bool fetch_finds_its_own(const peer *p);  // what I had when I was expelled may be what is needed, and is being looked at
void fetch_tick(peer *p);
void fetch_open(peer *p);
bool fetch_counts(const peer *p, const task *t);
void fetch_job_done(peer *p, const task *t, const job_result *r);
void fetch_note_lie(peer *p, uint32_t contact_index, uint16_t stage);
void fetch_vouched(peer *p, uint32_t from, const message *msg);  // the leader's word on the root of my stage's state
void fetch_vouch(peer *p);                        // the leader's part: tells those who fetch
void pulls_denied(peer *p, const message *msg);
pull *pull_start(peer *p, const pull_client *client, uint8_t what, uint16_t stage, member_id from, uint32_t first, uint32_t count, uint64_t version);
void pull_send(peer *p, pull *q);
void pulls_tick(peer *p);
void pulls_drop(peer *p, uint8_t what);
void pull_end(peer *p, pull *q);
void pulls_link_lost(peer *p, member_id from);

// ---- bypass.c: blocks of a reduction that somebody carries ---------------------------------------------------------
// By which way blocks of that member come soonest, for a GET of now. False: enough are under way on all of them. `straight`: by no carrier.
bool bypass_choose(peer *p, member_id from, bool straight, bypass_choice *out);
void bypass_take(peer *p, pull *q, const bypass_choice *way);
bool bypass_send(peer *p, const task *t, blob_id out);  // what was asked for; false: it is to go straight
void bypass_piece(peer *p, const message *msg, blob_id blob, uint64_t bytes);
void bypass_announced(peer *p, const message *msg);  // DATA without its bytes
void bypass_refused(peer *p, member_id by, uint32_t serial);
void bypass_link_lost(peer *p, pull *q, member_id to);
bool bypass_goes_on(peer *p, pull *q);  // false: it needs no more of who asked
void bypass_joined(peer *p, const task *t, const job_result *r);

// ---- shadow.c: members that keep a stage's state and do none of its work ---------------------------------------------------
void shadow_promote(peer *p, uint64_t index, member_id who);  // PROMOTE
// The shadow's line: at most a share of it. False: not now.
bool shadow_may_pull(peer *p);
void shadow_pulled(peer *p, uint64_t took_ns);
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

// ---- rollback.c: when a stage's state is lost ----------------------------------------------------------------------------
void rollback_open(peer *p);
uint64_t saved_at_least(const peer *p);
void rollback_run(peer *p, const log_run *run, bool newer);  // RUN of a generation after the first
bool rollback_compares(const peer *p, uint64_t version, braid_hash *root);  // ... which a state of my host's must have
// Every stage's state, as of the version that the run began at or went back to, lies at my host.
bool rollback_holds(const peer *p);
void rollback_unreadable(peer *p);  // ... but cannot be read
uint64_t rollback_patience_ns(const peer *p);  // how long is waited for who may spare us the way back
bool rollback_to_be_had(const peer *p);  // ... at my host, or at somebody's who is here, or everybody can make it
bool rollback_is_given(const peer *p);  // whoever comes to a stage gets its state from outside of it: nothing was applied yet
bool rollback_needs(const peer *p, const member *m);  // nobody else here can read that state, and some stage has it from nobody yet
void rollback_tick(peer *p);
void rollback_found(peer *p, const task *t, const job_result *r);
void rollback_lead(peer *p);
void rollback_lead_begin(peer *p);
void rollback_forgive(peer *p, uint64_t late_ns);  // I stood still: nobody could be heard to have what is lost
bool rollback_nears(const peer *p);  // some stage seems to be lost: who comes may have a checkpoint to go on from
bool rollback_under_way(const peer *p);  // RUN is in the log and not yet applied: what is decided of the work now would come behind it
void rollback_lead_again(peer *p);

// ---- join.c, close.c, save.c: the leader ------------------------------------------------------------------------------------
void on_join(peer *p, uint32_t from, const message *msg);
void on_leave(peer *p, uint32_t from, const message *msg);
void on_settled(peer *p, const message *msg);
void on_mismatch(peer *p, const message *msg);
void on_reduced(peer *p, const message *msg);
void on_state(peer *p, uint32_t from, const message *msg);
void leave_when_free(peer *p);
void join_tick(peer *p);
void leader_applied(peer *p, const log_entry *entry);
void leader_tick(peer *p);
void leader_begin(peer *p);
void leader_end(peer *p);
// ---- lead.c: who leads, and who votes ------------------------------------------------------------------------------
void lead_heard(peer *p, const braid_id *id, uint64_t term, bool by_itself);
void on_leader(peer *p, uint32_t from, const message *msg);
void send_leader(peer *p, uint32_t contact_index);
void lead_renew_addresses(const peer *p, log_voters *v);  // where they are now; whoever comes back looks for them there
void lead_tick(peer *p);
bool lead_is_voter(const peer *p, const braid_id *id);
void lead_ask(peer *p);
void lead_tell_all_again(peer *p);
bool lead_among(const log_voters *voters, const braid_id *id);
void lead_ask_where(peer *p);
void lead_strange(peer *p);  // a stranger speaks as one that leads
bool lead_may_be_in(const peer *p, uint64_t term);
bool lead_may_come_from(const peer *p, uint32_t contact_index);
bool lead_has_gone_home(const peer *p);
void leader_expel(peer *p, member_id who, uint8_t reason);
void leader_lose(peer *p, member_id who);  // it does not answer any more
bool stage_has_another(const peer *p, const member *m);
bool member_is_whole(const peer *p, const member *m);  // it answers, and has all of its stage's newest state
bool leader_sees_at_version(const peer *p, const member *m);
void leader_decided(peer *p, const task *t, const job_result *r);
void leader_begin_iteration(peer *p);
// Those who asked to leave: before the start at once, then at FINAL, but the last who has its stage's state stays.
void leader_let_go(peer *p);
void leader_dismiss(peer *p, bool failed);  // tells everybody that it is over, and ends
void close_tick(peer *p);
void close_member_gone(peer *p, member_id gone);
void save_begin(peer *p, uint64_t version);
void save_tick(peer *p);
void save_drop_pulls(peer *p);
void save_job_done(peer *p, const task *t, const job_result *r);

#endif
