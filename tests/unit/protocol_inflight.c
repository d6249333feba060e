// Microbatches in flight at a member and at a new owner: slots, eviction, void microbatches.
#include "protocol_world.h"

// The peers of the tests: an owner, the relay under test and a relay of the next stage; or the two
// owners of a failover.
enum { OWNER = 1, RELAY = 2, NEXT = 3, OLD_OWNER = 1, NEW_OWNER = 3, FIRST_OWNER = 4, LAST = 4 };

// A relay of stage 1 with two slots. Its owner has four microbatches.
static void open_relay_of(world *w, uint16_t stages) {
    w->run = run_of(stages, 4, 1);
    open_world(w, RELAY, MEMBER_RELAY);
    admit(w, OWNER, MEMBER_DATA, 0);
    admit(w, RELAY, MEMBER_RELAY, 1);
    if (stages == 3) admit(w, NEXT, MEMBER_RELAY, 2);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 1; i <= stages; i += 2) deliver(w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
}

static void open_relay(world *w) {
    *w = (world){.self = 0};
    open_relay_of(w, 2);
}

static void come_forward(world *w, uint32_t m, bool repair) {
    const uint16_t stages = w->run.stages;
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, m, 1), .owner = OWNER, .forward_to = repair ? 1 : stages, .repair = repair, .path = {.stages = stages, .member = {OWNER, repair ? RELAY : 0}}}};
    deliver(w, OWNER, &forward, true);
}

static void come_back(world *w, uint32_t m) {
    message backward = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(w, m, 1), .owner = OWNER, .path = {.stages = 2, .member = {OWNER, RELAY}}}};
    deliver(w, OWNER, &backward, true);
}

static void commit(world *w, uint32_t m) {
    message order = {.kind = MESSAGE_COMMIT, .u.commit = {.subject = subject_of(w, m, 1), .rev = 1, .path = {.stages = 2, .member = {OWNER, RELAY}}}};
    deliver(w, OWNER, &order, false);
}

// With all slots taken, a repair evicts a microbatch that has not returned, unless a queued weight
// gradient will free a slot.
static void repair_comes(bool one_is_committed) {
    world w;
    open_relay(&w);
    come_forward(&w, 1, false);
    come_forward(&w, 2, false);
    if (one_is_committed) {
        come_back(&w, 1);
        w.busy = true;
        commit(&w, 1);
        assert_int_equal(w.work.kind, JOB_WEIGHT);
    }
    const uint32_t room = w.sent[MESSAGE_CAN_TAKE];
    come_forward(&w, 0, true);
    assert_int_equal(w.sent[MESSAGE_CAN_TAKE], room);
    assert_int_equal(w.sent[MESSAGE_EVICTED], one_is_committed ? 0 : 1);
    uint32_t done = w.sent[MESSAGE_COMPLETE];
    if (one_is_committed) {
        w.busy = false;
        do_job(&w);
        assert_int_equal(w.sent[MESSAGE_COUNTED], 1);
        assert_int_equal(w.sent[MESSAGE_COMPLETE], done + 1);
    }
    assert_int_equal(w.sent[MESSAGE_EVICTED], one_is_committed ? 0 : 1);
    free(w.p);
}

// Rule R8. Given a relay with both slots taken by uncommitted microbatches, when a repair arrives,
// then it evicts one.
static void test_repair_evicts_when_all_slots_are_taken(void **state) {
    (void)state;
    repair_comes(false);
}

// Rule R8. Given two accepted microbatches that are not computed yet, when a repair evicts one,
// then the owner gets EVICTED and the sender DENY.
static void test_eviction_before_compute_is_denied_to_the_sender(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    w.forward_held = 1 + 1;
    for (uint32_t m = 1; m <= 2; m++) come_forward(&w, m, false);
    assert_int_equal(w.work.m, 1);
    come_forward(&w, 0, true);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    assert_int_equal(w.sent[MESSAGE_DENY], 1);
    free(w.p);
}

// Rule R8. Given taken slots and a queued weight gradient, when a repair arrives, then it waits for
// that slot and evicts nothing.
static void test_repair_waits_for_a_queued_weight_gradient(void **state) {
    (void)state;
    repair_comes(true);
}

static void job_is_done(world *w) {
    const job_result r = {.id = w->work.id, .kind = w->work.kind, .cost_ns = MILLISECOND, .finite = true};
    w->work.id = 0;
    step(w, &(event){.kind = EVENT_JOB_DONE, .result = &r});
}

static void forward_follows(world *w, uint32_t m) {
    job_is_done(w);
    assert_int_equal(w->work.kind, JOB_FORWARD);
    assert_int_equal(w->work.m, m);
}

// Both slots are taken, a weight gradient is about to give one back, and a repair, of microbatch 0,
// waits for that.
static void open_with_one_waiting(world *w) {
    open_relay(w);
    come_forward(w, 1, false);
    come_forward(w, 2, false);
    come_back(w, 1);
    w->busy = true;
    commit(w, 1);
    assert_int_equal(w->work.kind, JOB_WEIGHT);
    come_forward(w, 0, true);
    assert_int_equal(w->sent[MESSAGE_EVICTED], 0);
}

// Rule R8. Given a repair that waits for the only queued weight gradient, when a second repair
// arrives, then it evicts.
static void test_no_more_repairs_wait_than_weight_gradients_are_queued(void **state) {
    (void)state;
    world w;
    open_with_one_waiting(&w);
    come_forward(&w, 3, true);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    forward_follows(&w, 0);
    forward_follows(&w, 3);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    free(w.p);
}

// Rule R8. Given a freed slot that a repair waited for, when a later repair arrives, then it is
// denied and the first one runs.
static void test_later_repair_does_not_take_the_slot_of_a_waiting_one(void **state) {
    (void)state;
    world w;
    open_with_one_waiting(&w);
    come_back(&w, 2);
    job_is_done(&w);
    assert_int_equal(w.work.kind, JOB_BACKWARD);
    uint32_t denied = w.sent[MESSAGE_DENY];
    come_forward(&w, 3, true);
    assert_int_equal(w.sent[MESSAGE_DENY], denied + 1);
    forward_follows(&w, 0);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 0);
    free(w.p);
}

// Rule R9. Given repairs of returned microbatches in both slots, when their owner dies, then a
// refused repair of the new owner evicts one.
static void test_return_to_a_dead_owner_does_not_protect_from_eviction(void **state) {
    (void)state;
    world w = {.run = run_of(2, 4, 2)};
    open_world(&w, RELAY, MEMBER_RELAY);
    admit(&w, OLD_OWNER, MEMBER_DATA, 0);
    admit(&w, RELAY, MEMBER_RELAY, 1);
    admit(&w, NEW_OWNER, MEMBER_DATA, 0);
    own(&w, 0, OLD_OWNER);
    own(&w, 1, NEW_OWNER);
    append(&w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 1; i <= 3; i += 2) deliver(&w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
    come_forward(&w, 0, true);
    come_forward(&w, 2, true);
    message later = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 3, 1), .owner = NEW_OWNER, .forward_to = 1, .repair = true, .path = {.stages = 2, .member = {NEW_OWNER, RELAY}}}};
    deliver(&w, NEW_OWNER, &later, true);
    assert_int_equal(w.sent[MESSAGE_DENY], 1);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 0);
    own(&w, 0, NEW_OWNER);
    deliver(&w, NEW_OWNER, &later, true);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    free(w.p);
}

static void resume(world *w, uint32_t m, uint16_t until, member_id next) {
    message order = {.kind = MESSAGE_RESUME, .u.resume = {.subject = subject_of(w, m, 1), .owner = OWNER, .phase = PHASE_FORWARD, .until = until, .path = {.stages = 3, .member = {OWNER, RELAY, next}}}};
    deliver(w, OWNER, &order, false);
}

// Rule R10. Given a microbatch that waits for a slot, when RESUME extends its path, then it waits
// on. When RESUME tells it to fill a gap, then it evicts.
static void test_resume_makes_a_waiting_microbatch_a_repair(void **state) {
    (void)state;
    world w = {.carried_percent = 1};
    open_relay_of(&w, 3);
    for (uint32_t m = 1; m <= 3; m++) come_forward(&w, m % 3, false);
    uint32_t done = w.sent[MESSAGE_COMPLETE];
    assert_int_equal(w.sent[MESSAGE_ACCEPT], 3);
    assert_int_equal(done, 2);
    resume(&w, 0, 3, 0);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 0);
    resume(&w, 0, 2, NEXT);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    assert_int_equal(w.sent[MESSAGE_COMPLETE], done + 1);
    free(w.p);
}

static void send_back(world *w, uint32_t m, bool repair) {
    message backward = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(w, m, 1), .owner = OWNER, .repair = repair, .path = {.stages = 3, .member = {OWNER, RELAY, NEXT}}}};
    deliver(w, NEXT, &backward, true);
}

// Rule R10. Given two taken slots and a waiting microbatch, when its gradient arrives, in a repair
// or not, then it evicts.
static void test_gradient_makes_a_waiting_microbatch_a_repair(void **state) {
    (void)state;
    for (int repair = 0; repair < 2; repair++) {
        world w = {.carried_percent = 1};
        open_relay_of(&w, 3);
        for (uint32_t m = 1; m <= 3; m++) come_forward(&w, m % 3, false);
        assert_int_equal(w.sent[MESSAGE_ACCEPT], 3);
        assert_int_equal(w.sent[MESSAGE_EVICTED], 0);
        send_back(&w, 0, repair);
        assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
        free(w.p);
    }
}

// Rule R10. Given taken slots and a gradient that arrived in a repair, when its activation arrives,
// then it evicts.
static void test_activation_after_its_gradient_is_a_repair(void **state) {
    (void)state;
    world w = {.carried_percent = 1};
    open_relay_of(&w, 3);
    for (uint32_t m = 1; m <= 2; m++) come_forward(&w, m, false);
    send_back(&w, 0, true);
    come_forward(&w, 0, false);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    free(w.p);
}

// Rule R9. Given slots with returned microbatches and a gradient, when an older activation with an
// open path arrives, then the microbatch still counts as returned and evicts.
static void test_gradient_proves_that_the_microbatch_has_returned(void **state) {
    (void)state;
    world w = {.carried_percent = 1};
    open_relay_of(&w, 3);
    for (uint32_t m = 1; m <= 2; m++) {
        come_forward(&w, m, false);
        send_back(&w, m, false);
    }
    send_back(&w, 0, true);
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 1), .owner = OWNER, .forward_to = 1, .repair = true, .path = {.stages = 3, .member = {OWNER, RELAY}}}};
    deliver(&w, OWNER, &forward, true);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 1);
    free(w.p);
}

// Rule R9. Given a gradient that an older owner sent, when the new owner sends the activation with
// an open path, then it has not returned and evicts nothing.
static void test_return_to_an_older_owner_is_forgotten_at_failover(void **state) {
    (void)state;
    world w = {.run = run_of(3, 4, 2)};
    open_world(&w, RELAY, MEMBER_RELAY);
    admit(&w, OWNER, MEMBER_DATA, 0);
    admit(&w, RELAY, MEMBER_RELAY, 1);
    admit(&w, NEXT, MEMBER_RELAY, 2);
    admit(&w, FIRST_OWNER, MEMBER_DATA, 0);
    own(&w, 0, FIRST_OWNER);
    own(&w, 1, OWNER);
    append(&w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 1; i <= 4; i++)
        if (i != 2) deliver(&w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
    for (uint32_t m = 1; m <= 3; m += 2) {
        come_forward(&w, m, false);
        send_back(&w, m, false);
    }
    message backward = {.kind = MESSAGE_BACKWARD, .u.backward = {.subject = subject_of(&w, 0, 1), .owner = FIRST_OWNER, .repair = true, .path = {.stages = 3, .member = {FIRST_OWNER, RELAY, NEXT}}}};
    deliver(&w, NEXT, &backward, true);
    own(&w, 0, OWNER);
    message forward = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 0, 1), .owner = OWNER, .forward_to = 3, .repair = true, .path = {.stages = 3, .member = {OWNER, RELAY}}}};
    deliver(&w, OWNER, &forward, true);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 0);
    free(w.p);
}

// Rule R9. Given slots with returned microbatches, when an older RESUME with an open path arrives,
// then a less advanced repair evicts none of them.
static void test_old_resume_does_not_reopen_a_returned_path(void **state) {
    (void)state;
    world w = {.carried_percent = 1};
    open_relay_of(&w, 3);
    for (uint32_t m = 1; m <= 2; m++) {
        come_forward(&w, m, false);
        send_back(&w, m, false);
    }
    resume(&w, 1, 3, 0);
    message other = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(&w, 3, 1), .owner = OWNER, .forward_to = 3, .repair = true, .path = {.stages = 3, .member = {OWNER, RELAY}}}};
    deliver(&w, OWNER, &other, true);
    assert_int_equal(w.sent[MESSAGE_EVICTED], 0);
    free(w.p);
}

// Rule M2. Given an activation without a receiver, when its gradient arrives, then it is not sent,
// also when a slot becomes free.
static void test_activation_is_not_sent_after_its_gradient(void **state) {
    (void)state;
    world w = {.self = 0};
    open_relay_of(&w, 3);
    come_forward(&w, 0, false);
    const uint32_t sent = w.sent[MESSAGE_FORWARD];
    send_back(&w, 0, false);
    message room = {.kind = MESSAGE_CAN_TAKE, .u.can_take = {.stage = 2, .free_slots = 1}};
    deliver(&w, NEXT, &room, false);
    assert_int_equal(w.sent[MESSAGE_FORWARD], sent);
    free(w.p);
}

// Rule R9. Given a microbatch that waits in the last stage, when its holder before it is removed,
// then the repair has an open path.
static void test_uncomputed_microbatch_in_the_last_stage_has_not_returned(void **state) {
    (void)state;
    world w = {.run = run_of(3, 1, 1)};
    open_world(&w, OWNER, MEMBER_DATA);
    admit(&w, OWNER, MEMBER_DATA, 0);
    for (uint32_t i = 2; i <= 4; i++) admit(&w, i, MEMBER_RELAY, i == 4 ? 2 : 1);
    own(&w, 0, OWNER);
    append(&w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 4; i >= 2; i--) deliver(&w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1, .free_slots = 2}}, false);
    const uint32_t first = w.last_receiver[MESSAGE_FORWARD], other = 5 - first;
    message computed = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(&w, 0, 1), .phase = TRACE_FORWARD_DONE}};
    message waits = {.kind = MESSAGE_TRACE, .u.trace = {.subject = subject_of(&w, 0, 2), .phase = TRACE_ACCEPTED}};
    deliver(&w, first, &computed, false);
    deliver(&w, LAST, &waits, false);
    append(&w, (log_entry){.kind = LOG_EXPEL, .u.expel = {.member = first}});
    message has = {.kind = MESSAGE_STATUS, .u.status = {.subject = subject_of(&w, 0, 2), .nonce = w.probe[LAST].u.probe.nonce, .has_x = true, .forwarding = true, .working = true}};
    deliver(&w, LAST, &has, false);
    assert_int_equal(w.last_receiver[MESSAGE_FORWARD], other);
    assert_true(w.last_forward.u.forward.repair);
    assert_int_equal(w.last_forward.u.forward.path.member[1], other);
    assert_int_equal(w.last_forward.u.forward.path.member[2], 0);
    free(w.p);
}

// Two data peers and a relay; the older one owns all microbatches.
static void begin_to_inherit(world *w) {
    open_world(w, NEW_OWNER, MEMBER_DATA);
    admit(w, OLD_OWNER, MEMBER_DATA, 0);
    admit(w, RELAY, MEMBER_RELAY, 1);
    admit(w, NEW_OWNER, MEMBER_DATA, 0);
    own(w, 0, OLD_OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t i = 1; i <= 2; i++) deliver(w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
}

// A data peer inherits a microbatch that is home, and computes its loss once more, which is not
// finite. What it says from then on is counted.
static void inherit(world *w, bool told_to_count, bool closed) {
    const message_set it = {.words = {1}}, none = {.words = {0}};
    *w = (world){.run = run_of(2, 1, 1), .diverges = true};
    w->run.reproducible = false;
    begin_to_inherit(w);
    if (closed) append(w, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {1}, .tokens = 1}});
    own(w, 0, NEW_OWNER);
    message holdings = {.kind = MESSAGE_HOLDINGS, .u.holdings = {.owner_term = w->owner_term[0]}};
    deliver(w, OLD_OWNER, &holdings, false);
    holdings.u.holdings = (message_holdings){.owner_term = w->owner_term[0], .held = it, .forward = it, .returning = it, .backward = it, .committed = told_to_count ? it : none};
    deliver(w, RELAY, &holdings, false);
    memset(w->sent, 0, sizeof w->sent);
    message home = {.kind = MESSAGE_FORWARD, .u.forward = {.subject = subject_of(w, 0, 0), .owner = NEW_OWNER, .home = true, .path = {.stages = 2, .member = {NEW_OWNER, RELAY}}}};
    deliver(w, RELAY, &home, true);
}

// Rule M6. Given a microbatch without COMMIT, when the loss at the new owner is not finite, then it
// is settled as void.
static void test_loss_that_is_not_finite_makes_void(void **state) {
    (void)state;
    world w;
    inherit(&w, false, false);
    assert_int_equal(w.sent[MESSAGE_SETTLED], 1);
    assert_int_equal(w.sent[MESSAGE_COMMIT], 0);
    free(w.p);
}

// Rule M7. Given a member with a COMMIT of the old owner, when the loss at the new owner is not
// finite, then the microbatch is not settled as void and continues.
static void test_committed_microbatch_is_not_void(void **state) {
    (void)state;
    world w;
    inherit(&w, true, false);
    for (uint32_t i = 0; i < 30; i++) {
        w.now += 100 * MILLISECOND;
        step(&w, &(event){.kind = EVENT_TICK});
    }
    assert_int_equal(w.sent[MESSAGE_SETTLED], 0);
    assert_int_equal(w.sent[MESSAGE_RESUME], 1);
    free(w.p);
}

// Rule R12. Given a committed holder, when it answers RESUME with MISSING, then the owner repeats
// the COMMIT and does not probe.
static void test_missing_after_resume_repeats_the_commit(void **state) {
    (void)state;
    world w;
    inherit(&w, true, false);
    for (uint32_t i = 0; i < 30; i++) {
        w.now += 100 * MILLISECOND;
        step(&w, &(event){.kind = EVENT_TICK});
    }
    uint32_t told = w.sent[MESSAGE_COMMIT], probed = w.sent[MESSAGE_PROBE];
    message nothing = {.kind = MESSAGE_DENY_RESUME, .u.deny_resume.subject = subject_of(&w, 0, 1)};
    deliver(&w, RELAY, &nothing, false);
    assert_int_equal(w.sent[MESSAGE_COMMIT], told + 1);
    assert_int_equal(w.sent[MESSAGE_PROBE], probed);
    free(w.p);
}

// Rule M7. Given a microbatch in the counted set of CLOSE, when all members that counted it are
// dead and its loss is not finite, then it is not void.
static void test_closed_microbatch_is_not_void(void **state) {
    (void)state;
    world w;
    inherit(&w, false, true);
    assert_int_equal(w.sent[MESSAGE_SETTLED], 0);
    free(w.p);
}

// Rule O5. Given three microbatches and two slots at a new owner, when two have only a gradient in
// the last stage, then the computed one gets a slot first.
static void test_gradient_ahead_of_its_activation_is_no_progress(void **state) {
    (void)state;
    world w = {.run = run_of(2, 3, 1)};
    begin_to_inherit(&w);
    own(&w, 0, NEW_OWNER);
    message holdings = {.kind = MESSAGE_HOLDINGS, .u.holdings = {.owner_term = w.owner_term[0]}};
    deliver(&w, OLD_OWNER, &holdings, false);
    w.busy = true;
    holdings.u.holdings = (message_holdings){.owner_term = w.owner_term[0], .held.words = {7}, .forward.words = {4}, .returning.words = {3}};
    deliver(&w, RELAY, &holdings, false);
    uint32_t begun = 0;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(w.work.kind, JOB_FORWARD);
        begun |= 1u << w.work.m;
        const job_result done = {.id = w.work.id, .kind = JOB_FORWARD, .cost_ns = MILLISECOND};
        step(&w, &(event){.kind = EVENT_JOB_DONE, .result = &done});
    }
    assert_true(begun & 4);
    free(w.p);
}

// Rule M1. Given an F under way, when the owner cancels it and sends it again, then it is computed
// once and completed.
static void test_cancelled_and_resent_activation_is_computed_once(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    w.forward_held = 1 + 1;
    come_forward(&w, 1, false);
    assert_int_equal(w.work.kind, JOB_FORWARD);
    const uint32_t done = w.sent[MESSAGE_COMPLETE];
    message cancel = {.kind = MESSAGE_CANCEL, .u.cancel = {.subject = subject_of(&w, 1, 1)}};
    deliver(&w, OWNER, &cancel, false);
    come_forward(&w, 1, false);
    w.forward_held = 0;
    const uint64_t first = w.work.id;
    do_job(&w);
    assert_int_equal(w.sent[MESSAGE_COMPLETE], done + 1);
    assert_true(w.work.id == 0 || w.work.kind != JOB_FORWARD || w.work.id == first);
    peer_view view;
    peer_look(w.p, &view);
    assert_int_equal(view.wasted, 0);
    free(w.p);
}

// Rule M1. Given a B under way, when the owner cancels it and the gradient comes again, then it is
// computed once.
static void test_cancelled_and_resent_gradient_is_computed_once(void **state) {
    (void)state;
    world w;
    open_relay(&w);
    come_forward(&w, 1, false);
    w.busy = true;
    come_back(&w, 1);
    assert_int_equal(w.work.kind, JOB_BACKWARD);
    const uint32_t done = w.sent[MESSAGE_COMPLETE], gone_on = w.sent[MESSAGE_BACKWARD];
    message cancel = {.kind = MESSAGE_CANCEL, .u.cancel = {.subject = subject_of(&w, 1, 1)}};
    deliver(&w, OWNER, &cancel, false);
    come_back(&w, 1);
    w.busy = false;
    w.blobs++;
    const job_result r = {.id = w.work.id, .kind = JOB_BACKWARD, .cost_ns = MILLISECOND, .finite = true, .out = 1000 + w.blobs};
    w.work.id = 0;
    step(&w, &(event){.kind = EVENT_JOB_DONE, .result = &r});
    assert_int_equal(w.sent[MESSAGE_COMPLETE], done + 1);
    assert_int_equal(w.sent[MESSAGE_BACKWARD], gone_on + 1);
    free(w.p);
}

// Rule O6. Given a CLOSE, when an owner dies afterwards, then the new owner cancels what is not
// counted and keeps the rest.
static void test_new_owner_keeps_only_counted_microbatches(void **state) {
    (void)state;
    world w = {.run = run_of(2, 2, 1)};
    begin_to_inherit(&w);
    append(&w, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {1}, .tokens = 1}});
    own(&w, 0, NEW_OWNER);
    message holdings = {.kind = MESSAGE_HOLDINGS, .u.holdings = {.owner_term = w.owner_term[0]}};
    deliver(&w, OLD_OWNER, &holdings, false);
    const uint32_t cancelled = w.sent[MESSAGE_CANCEL];
    holdings.u.holdings = (message_holdings){.owner_term = w.owner_term[0], .held.words = {3}, .forward.words = {3}};
    deliver(&w, RELAY, &holdings, false);
    assert_int_equal(w.sent[MESSAGE_CANCEL], cancelled + 1);
    assert_int_equal(w.last_receiver[MESSAGE_CANCEL], RELAY);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repair_evicts_when_all_slots_are_taken),
        cmocka_unit_test(test_eviction_before_compute_is_denied_to_the_sender),
        cmocka_unit_test(test_repair_waits_for_a_queued_weight_gradient),
        cmocka_unit_test(test_no_more_repairs_wait_than_weight_gradients_are_queued),
        cmocka_unit_test(test_later_repair_does_not_take_the_slot_of_a_waiting_one),
        cmocka_unit_test(test_return_to_a_dead_owner_does_not_protect_from_eviction),
        cmocka_unit_test(test_resume_makes_a_waiting_microbatch_a_repair),
        cmocka_unit_test(test_gradient_makes_a_waiting_microbatch_a_repair),
        cmocka_unit_test(test_activation_after_its_gradient_is_a_repair),
        cmocka_unit_test(test_gradient_proves_that_the_microbatch_has_returned),
        cmocka_unit_test(test_return_to_an_older_owner_is_forgotten_at_failover),
        cmocka_unit_test(test_old_resume_does_not_reopen_a_returned_path),
        cmocka_unit_test(test_activation_is_not_sent_after_its_gradient),
        cmocka_unit_test(test_uncomputed_microbatch_in_the_last_stage_has_not_returned),
        cmocka_unit_test(test_loss_that_is_not_finite_makes_void),
        cmocka_unit_test(test_committed_microbatch_is_not_void),
        cmocka_unit_test(test_missing_after_resume_repeats_the_commit),
        cmocka_unit_test(test_closed_microbatch_is_not_void),
        cmocka_unit_test(test_gradient_ahead_of_its_activation_is_no_progress),
        cmocka_unit_test(test_cancelled_and_resent_activation_is_computed_once),
        cmocka_unit_test(test_cancelled_and_resent_gradient_is_computed_once),
        cmocka_unit_test(test_new_owner_keeps_only_counted_microbatches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
