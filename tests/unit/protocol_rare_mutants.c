// Mutations that random schedules hardly notice: each is planted in one peer here, in a situation in which it matters.
// The same situation without the mutation shows that the rule holds.
//
// The mutations are those of src/protocol/core/faults.h; docs/protocol.md names the rules.
#include "protocol_world.h"

#include "protocol/internal.h"

enum { NO_MUTATION = -1, OWNER = 1, RELAY = 2, NEXT_OWNER = 3, FELLOW = 4, STAGES = 2, MICROBATCHES = 4 };

static void plant(world *w, int mutation) {
    if (mutation != NO_MUTATION) w->p->faults.mutants = (uint64_t)1 << mutation;
}

// A relay of stage 1 with two slots, another relay of that stage, and two data peers. OWNER has all microbatches.
static void open_relay(world *w, int mutation, uint8_t algorithm) {
    *w = (world){.run = run_of(STAGES, MICROBATCHES, 1)};
    w->run.routing = algorithm;
    open_world(w, RELAY, MEMBER_RELAY);
    plant(w, mutation);
    admit(w, OWNER, MEMBER_DATA, 0);
    admit(w, RELAY, MEMBER_RELAY, 1);
    admit(w, NEXT_OWNER, MEMBER_DATA, 0);
    admit(w, FELLOW, MEMBER_RELAY, 1);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    for (uint32_t other = 1; other <= FELLOW; other++) {
        message beat = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}};
        if (other != RELAY) deliver(w, other, &beat, false);
    }
}

static void give_forward(world *w, uint32_t m, bool repair) {
    message forward = {.kind = MESSAGE_FORWARD,
                       .u.forward = {.subject = subject_of(w, m, 1),
                                     .owner = OWNER,
                                     .forward_to = repair ? 1 : STAGES,
                                     .repair = repair,
                                     .path = {.stages = STAGES, .member = {OWNER, repair ? RELAY : 0}}}};
    deliver(w, OWNER, &forward, true);
}

static void give_backward(world *w, uint32_t m) {
    message backward = {.kind = MESSAGE_BACKWARD,
                        .u.backward = {.subject = subject_of(w, m, 1),
                                       .owner = OWNER,
                                       .path = {.stages = STAGES, .member = {OWNER, RELAY}}}};
    deliver(w, OWNER, &backward, true);
}

static message commit_by_owner(const world *w, uint32_t m) {
    return (message){
        .kind = MESSAGE_COMMIT,
        .u.commit = {.subject = subject_of(w, m, 1), .rev = 1, .path = {.stages = STAGES, .member = {OWNER, RELAY}}}};
}

// Rule O1.
// Given a microbatch that the relay has computed, and a new owner of it,
// when a COMMIT of the previous owner arrives,
// then the relay does not count the microbatch.
static bool counts_for_older_owner(int mutation) {
    world w;
    open_relay(&w, mutation, UINT8_MAX);
    give_forward(&w, 0, false);
    give_backward(&w, 0);
    message order = commit_by_owner(&w, 0);
    own(&w, 0, NEXT_OWNER);
    deliver(&w, OWNER, &order, false);
    bool counted = w.sent[MESSAGE_COUNTED] > 0;
    free(w.p);
    return counted;
}

static void test_commit_of_an_older_owner_is_ignored(void **state) {
    (void)state;
    assert_false(counts_for_older_owner(NO_MUTATION));
    assert_true(counts_for_older_owner(PEER_MUTANT_OBEYS_OLDER_OWNER));
}

// Rule T4: the digest in a GET names the contribution set of the requested sum.
// Given a relay that has counted microbatch 0 alone,
// when the other relay of its stage asks for the part of another set,
// then the relay refuses; it serves the part of its own set.
static bool serves_part_of(int mutation, bool own_set) {
    world w;
    open_relay(&w, mutation, UINT8_MAX);
    give_forward(&w, 0, false);
    give_backward(&w, 0);
    message order = commit_by_owner(&w, 0);
    deliver(&w, OWNER, &order, false);
    assert_int_equal(w.sent[MESSAGE_COUNTED], 1);
    uint64_t digest = message_set_digest(&w.p->microbatch->k);
    message get = {.kind = MESSAGE_GET,
                   .u.get = {.what = GET_PART, .stage = 1, .count = 1, .set_digest = own_set ? digest : digest + 1}};
    w.busy = true;
    deliver(&w, FELLOW, &get, false);
    bool served = w.work.id != 0 && w.work.kind == JOB_PACK;
    assert_int_equal(w.sent[MESSAGE_DENY_GET], served ? 0 : 1);
    free(w.p);
    return served;
}

static void test_part_is_served_under_the_digest_of_its_set(void **state) {
    (void)state;
    assert_true(serves_part_of(NO_MUTATION, true));
    assert_false(serves_part_of(NO_MUTATION, false));
    assert_true(serves_part_of(PEER_MUTANT_SAME_NAME, false));
}

// Rule R8: a repair takes the slot of the least advanced uncommitted microbatch.
// Given two slots with microbatches 1 and 2,
// when a repair of microbatch 0 arrives,
// then the relay evicts microbatch 2, tells its owner, and computes the repair.
static bool evicts_for_repair(int mutation) {
    world w;
    open_relay(&w, mutation, UINT8_MAX);
    give_forward(&w, 1, false);
    give_forward(&w, 2, false);
    uint32_t computed = w.sent[MESSAGE_COMPLETE];
    give_forward(&w, 0, true);
    bool evicted = w.sent[MESSAGE_EVICTED] == 1;
    assert_int_equal(w.sent[MESSAGE_COMPLETE], computed + evicted);
    assert_int_equal(w.p->microbatch->inflight[0].used, evicted);
    assert_int_equal(w.p->microbatch->inflight[2].used, !evicted);
    free(w.p);
    return evicted;
}

static void test_repair_evicts_when_slots_are_full(void **state) {
    (void)state;
    assert_true(evicts_for_repair(NO_MUTATION));
    assert_false(evicts_for_repair(PEER_MUTANT_NO_EVICTION));
}

// Rule M2: a stash reports itself to its owner after TIMING_TRACE_NS without a message about it.
// Given an activation that the relay holds, and a CANCEL for it that was lost,
// when nothing arrives about it,
// then the relay sends TRACE, and frees the slot at the CANCEL that answers it.
static bool frees_after_lost_cancel(int mutation) {
    world w;
    open_relay(&w, mutation, UINT8_MAX);
    give_forward(&w, 0, false);
    assert_true(w.p->microbatch->inflight[0].used);
    uint32_t traces = w.sent[MESSAGE_TRACE];
    for (uint64_t end = w.now + 2 * TIMING_TRACE_NS; w.now < end && w.sent[MESSAGE_TRACE] == traces;) {
        tick(&w);
        for (uint32_t other = 1; other <= FELLOW; other++) {  // every link stays up
            message beat = {.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}};
            if (other != RELAY) deliver(&w, other, &beat, false);
        }
    }
    if (w.sent[MESSAGE_TRACE] > traces) {
        assert_int_equal(w.last_receiver[MESSAGE_TRACE], OWNER);
        message cancel = {.kind = MESSAGE_CANCEL, .u.cancel = {.subject = subject_of(&w, 0, 1)}};
        deliver(&w, OWNER, &cancel, false);
    }
    bool freed = !w.p->microbatch->inflight[0].used;
    free(w.p);
    return freed;
}

static void test_stash_reports_itself_after_a_lost_cancel(void **state) {
    (void)state;
    assert_true(frees_after_lost_cancel(NO_MUTATION));
    assert_false(frees_after_lost_cancel(PEER_MUTANT_KEEPS_LOSERS));
}

// Rule M3: a weight gradient is added at COMMIT, not before.
// Given a microbatch with its backward pass computed by the relay,
// when no COMMIT has arrived, then no weight gradient is computed;
// when COMMIT arrives, then it is computed once.
static void test_weight_gradient_is_added_at_commit(void **state) {
    (void)state;
    world w;
    open_relay(&w, NO_MUTATION, UINT8_MAX);
    give_forward(&w, 0, false);
    give_backward(&w, 0);
    assert_int_equal(w.work.kind, JOB_BACKWARD);
    assert_int_equal(w.p->microbatch->inflight[0].weight, WORK_NONE);
    for (int i = 0; i < 10; i++) tick(&w);
    assert_int_equal(w.work.kind, JOB_BACKWARD);
    w.busy = true;
    message order = commit_by_owner(&w, 0);
    deliver(&w, OWNER, &order, false);
    assert_int_equal(w.work.kind, JOB_WEIGHT);
    w.busy = false;
    do_job(&w);
    deliver(&w, OWNER, &order, false);
    assert_int_equal(w.work.kind, JOB_WEIGHT);
    assert_int_equal(w.work.id, 0);
    assert_int_equal(w.sent[MESSAGE_COUNTED], 2);  // the second COMMIT is answered from the first result
    free(w.p);
}

// Section Routing: frames of a router belong to a session, and a session ends with its link.
// Given a link between two routers,
// when it fails and is established again,
// then the relay begins another session, so a frame that was lost cannot be missed unnoticed.
static bool begins_another_session(int mutation) {
    world w;
    open_relay(&w, mutation, ROUTER_MINCOST);
    for (int i = 0; i < 10; i++) tick(&w);
    const peer_routing *r = w.p->routing;
    assert_true(r->links > 0);
    uint32_t end = (uint32_t)r->link[0].member;  // the number of the peer, too
    uint32_t before = r->link[0].session;
    assert_true(before != 0);
    step(&w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(end)});
    tick(&w);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(end)});
    tick(&w);
    uint32_t after = 0;
    for (uint32_t i = 0; i < r->links; i++)
        if (r->link[i].member == end) after = r->link[i].session;
    assert_true(after != 0);
    free(w.p);
    return after != before;
}

static void test_link_failure_ends_the_session_of_routers(void **state) {
    (void)state;
    assert_true(begins_another_session(NO_MUTATION));
    assert_false(begins_another_session(PEER_MUTANT_ROUTES_ACROSS_FALLS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit_of_an_older_owner_is_ignored),
        cmocka_unit_test(test_part_is_served_under_the_digest_of_its_set),
        cmocka_unit_test(test_repair_evicts_when_slots_are_full),
        cmocka_unit_test(test_stash_reports_itself_after_a_lost_cancel),
        cmocka_unit_test(test_weight_gradient_is_added_at_commit),
        cmocka_unit_test(test_link_failure_ends_the_session_of_routers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
