// Relayed sums: parts of a reduction that come through forwarders, at the puller, the source and
// the forwarder.
#include "protocol_world.h"

#include "base/rng.h"
#include "protocol/internal.h"

// The owner, and three relays of one stage: each of them pulls, serves or forwards.
enum { OWNER = 1, RELAY_A = 2, RELAY_B = 3, RELAY_C = 4, STANDBY = 5, UNKNOWN = 99 };

enum { HASH = 99, SERIAL = 7, MOST_CARRIED = 32 };

static void pass(world *w, uint64_t ns) {
    w->now += ns;
    step(w, &(event){.kind = EVENT_TICK});
}

static void beats(world *w) {
    for (uint32_t i = 1; i <= 3; i++)
        deliver(w, i, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
}

// One of a stage's three members adds up one segment; both others have a part. All of it is to be
// relayed.
static void open_stage(world *w) {
    w->run = run_of(2, 2, 1);
    open_world(w, RELAY_C, MEMBER_RELAY);
    admit(w, OWNER, MEMBER_DATA, 0);
    for (uint32_t i = RELAY_A; i <= RELAY_C; i++) admit(w, i, MEMBER_RELAY, 1);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
    beats(w);
}

static void open_parts(world *w) {
    uint64_t close = append(w, (log_entry){.kind = LOG_CLOSE, .u.close = {.counted.words = {3}, .tokens = 2}});
    message begin = {
        .kind = MESSAGE_BEGIN_AGGREGATION,
        .u.begin = {.stage = 1, .term = 1, .round = 1, .close_index = close, .tokens = 2, .parts = 2, .owners = 1}};
    for (uint32_t i = 0; i < 2; i++) begin.u.begin.part[i] = (message_part){.member = RELAY_A + i, .set.words = {1u << i}};
    begin.u.begin.owner[0] = (message_block_owner){.member = RELAY_C, .first = 0, .count = 1};
    deliver(w, OWNER, &begin, false);
    pass(w, 300 * MILLISECOND);
    assert_int_equal(w->get_count, 2);
    w->busy = true;
}

static void open_reduction(world *w) {
    w->carried_percent = 100;
    open_stage(w);
    open_parts(w);
}

static const message_get *got(const world *w, uint32_t i) { return &w->get[i].u.get; }

static void say(world *w, uint32_t i) {
    deliver(w, w->get_to[i], &(message){.kind = MESSAGE_DATA, .u.data = {.get = *got(w, i), .hash = HASH}}, false);
}

static message piece_of(const world *w, uint32_t i) {
    const message_get *get = got(w, i);
    return (message){.kind = MESSAGE_CARRY_CHUNKS,
                     .u.carry_chunks = {.origin = w->get_to[i],
                                        .to = RELAY_C,
                                        .serial = get->serial,
                                        .what = get->what,
                                        .stage = get->stage,
                                        .count = (uint16_t)get->count}};
}

static void bring(world *w, uint32_t i) {
    message piece = piece_of(w, i);
    deliver(w, (uint32_t)got(w, i)->by, &piece, true);
}

static void done(world *w, job_kind kind, uint64_t hash) {
    assert_int_equal(w->work.kind, kind);
    const job_result r = {
        .id = w->work.id, .kind = kind, .cost_ns = MILLISECOND, .out = 1000 + ++w->blobs, .hash64 = hash};
    w->work.id = 0;
    step(w, &(event){.kind = EVENT_JOB_DONE, .result = &r});
}

static uint64_t held_blobs(const world *w) {
    peer_view view;
    peer_look(w->p, &view);
    return view.blobs_held;
}

// Rule A6. Given a reduction with relayed parts, when DATA and pieces arrive in either order with
// the right hash, then the parts are added.
static void test_relayed_parts_are_joined_and_added(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(got(&w, i)->by != 0 && got(&w, i)->by != w.get_to[i] && got(&w, i)->by != 4 &&
                    got(&w, i)->serial != 0);
    say(&w, 0);
    assert_int_equal(w.work.id, 0);
    bring(&w, 0);
    done(&w, JOB_JOIN, HASH);
    bring(&w, 1);
    assert_int_equal(w.work.id, 0);
    say(&w, 1);
    done(&w, JOB_JOIN, HASH);
    assert_int_equal(w.work.kind, JOB_REDUCE);
    assert_int_equal(w.get_count, 2);
    free(w.p);
}

static void assert_asked_straight(const world *w) {
    assert_int_equal(w->get_count, 3);
    assert_int_equal(w->get_to[2], w->get_to[0]);
    assert_true(got(w, 2)->by == 0 && got(w, 2)->serial == 0);
    assert_int_equal(got(w, 2)->first, got(w, 0)->first);
}

// Rule A8. Given a relayed range, when its bytes do not have the hash in DATA, then it is requested
// once more, directly.
static void test_wrong_hash_is_fetched_directly(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    say(&w, 0);
    bring(&w, 0);
    done(&w, JOB_JOIN, HASH + 1);
    assert_asked_straight(&w);
    assert_int_equal(held_blobs(&w), 0);
    deliver(&w, w.get_to[2], &(message){.kind = MESSAGE_DATA, .u.data = {.get = *got(&w, 2), .hash = HASH}},
            true);  // straight, it is as it was
    assert_int_equal(held_blobs(&w), 1);
    free(w.p);
}

// Rule A8. Given a relayed range, when its forwarder sends UNCARRIED CHUNKS, then it is requested
// directly. one from another member has no effect.
static void test_uncarried_is_fetched_directly(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    message no = {.kind = MESSAGE_UNCARRIED_CHUNKS, .u.uncarried_chunks.serial = got(&w, 0)->serial};
    deliver(&w, w.get_to[0], &no, false);  // he was not to carry it
    pass(&w, 300 * MILLISECOND);
    assert_int_equal(w.get_count, 2);
    deliver(&w, (uint32_t)got(&w, 0)->by, &no, false);
    pass(&w, 300 * MILLISECOND);
    assert_asked_straight(&w);
    free(w.p);
}

// Rule A8. Given a forwarder that has not read its own MEMBER entry, when it sends UNCARRIED CHUNKS, then
// the range is requested directly.
static void test_uncarried_without_membership_is_obeyed(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    const message no = {.kind = MESSAGE_UNCARRIED_CHUNKS, .u.uncarried_chunks.serial = got(&w, 0)->serial};
    step(&w, &(event){.kind = EVENT_MESSAGE, .id = name_of((uint32_t)got(&w, 0)->by), .msg = &no});
    pass(&w, 300 * MILLISECOND);
    assert_asked_straight(&w);
    free(w.p);
}

// Rule A8. Given a relayed range, when its limit passes without bytes, then it is requested
// directly.
static void test_late_range_is_fetched_directly(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    for (uint32_t i = 0; i < 2; i++) say(&w, i);
    bring(&w, 1);
    done(&w, JOB_JOIN, HASH);
    for (uint32_t i = 0; i < 9; i++) {
        beats(&w);
        pass(&w, 500 * MILLISECOND);
        assert_int_equal(w.get_count, 2);
    }
    beats(&w);
    pass(&w, 700 * MILLISECOND);
    assert_asked_straight(&w);  // in the step that notices it
    free(w.p);
}

// Rule A7. Given a relayed range, when a piece has another forwarder, serial number, origin or
// count, or is a second copy, then it is dropped.
static void test_pieces_from_other_members_are_dropped(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    message piece = piece_of(&w, 0);
    say(&w, 0);
    deliver(&w, w.get_to[0], &piece, true);  // not from the named forwarder
    piece.u.carry_chunks.count++;
    deliver(&w, (uint32_t)got(&w, 0)->by, &piece, true);
    piece = piece_of(&w, 0);
    piece.u.carry_chunks.serial++;
    deliver(&w, (uint32_t)got(&w, 0)->by, &piece, true);
    piece = piece_of(&w, 0);
    deliver_bytes(&w, (uint32_t)got(&w, 0)->by, &piece, (uint64_t)piece.u.carry_chunks.count * WIRE_CARRIED_BLOCK_BYTES + 1);
    piece = piece_of(&w, 0);
    piece.u.carry_chunks.origin = 1 + w.get_to[0] % 3;
    deliver(&w, (uint32_t)got(&w, 0)->by, &piece, true);
    assert_int_equal(w.work.id, 0);
    assert_int_equal(held_blobs(&w), 0);
    bring(&w, 0);
    bring(&w, 0);
    assert_int_equal(held_blobs(&w), 1);
    done(&w, JOB_JOIN, HASH);
    bring(&w, 0);
    assert_int_equal(held_blobs(&w), 1);
    free(w.p);
}

// Rule A7. Given relayed ranges, when DATA names another range or comes from another member, then
// no job starts.
static void test_unrequested_data_is_ignored(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    bring(&w, 0);
    message data = {.kind = MESSAGE_DATA, .u.data = {.get = *got(&w, 0), .hash = HASH}};
    deliver(&w, 1 + w.get_to[0] % 3, &data, false);
    data.u.data.get.set_digest++;
    deliver(&w, w.get_to[0], &data, false);
    data.u.data.get = *got(&w, 0);
    data.u.data.get.count++;
    deliver(&w, w.get_to[0], &data, false);
    assert_int_equal(w.work.id, 0);
    say(&w, 0);
    assert_int_equal(w.work.kind, JOB_JOIN);
    free(w.p);
}

static void fall(world *w, uint32_t who) { step(w, &(event){.kind = EVENT_LINK_DOWN, .id = name_of(who)}); }

// Rule A8. Given a relayed range, when the link to its forwarder or source falls, then it is
// requested directly at once.
static void test_lost_link_is_fetched_directly_at_once(void **state) {
    (void)state;
    world w = {.self = 0};
    open_reduction(&w);
    uint32_t by = (uint32_t)got(&w, 0)->by;
    say(&w, 0);
    fall(&w, w.get_to[0]);  // it has said what it had to say
    bring(&w, 0);
    assert_int_equal(w.work.kind, JOB_JOIN);
    free(w.p);
    w = (world){.self = 0};
    open_reduction(&w);
    say(&w, 0);
    fall(&w, by);
    pass(&w, MILLISECOND);
    message late = piece_of(&w, 0);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(by)});
    deliver(&w, by, &late, true);
    assert_int_equal(w.work.id, 0);
    assert_int_equal(held_blobs(&w), 0);
    free(w.p);
}

// ---- who may carry ------------------------------------------------------------------------------

enum { STRAIGHT_MS = 9000, CARRIED_MS = 900, NOBODY = 99 };

// Member 1 has quick lines to all, and that is known for ever.
static void open_quick(world *w) {
    open_stage(w);
    for (uint32_t i = 0; i < 2; i++)
        w->p->chunks->multipath.known[i] = (multipath_paths){.from = 2 + i,
                                              .until_ns = UINT64_MAX,
                                              .count = 2,
                                              .way = {{.us = STRAIGHT_MS * 1000}, {.by = OWNER, .us = CARRIED_MS * 1000}}};
    open_parts(w);
}

static member_id chosen(world *w, bool straight) {
    multipath_choice way;
    return multipath_choose(w->p, 2, straight, &way) ? way.by : NOBODY;
}

static void beat(world *w, uint32_t who) {
    deliver(w, who, &(message){.kind = MESSAGE_HEARTBEAT, .u.heartbeat = {.ready = 1, .can_take = 1}}, false);
}

// Rule A5. Given a forwarder with faster links, when parts are pulled, then it relays them; a
// standby pulls directly.
static void test_faster_path_is_chosen(void **state) {
    (void)state;
    world w = {.self = 0};
    open_quick(&w);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(got(&w, i)->by, 1);
    assert_int_equal(chosen(&w, false), 1);
    assert_int_equal(chosen(&w, true), 0);
    w.p->standby = true;  // a standby has one request at a time
    assert_int_equal(chosen(&w, false), 0);
    free(w.p);
}

// Rule A8. Given a forwarder that failed, when less than a minute has passed, then it is not used.
static void test_failed_forwarder_rests_for_a_minute(void **state) {
    (void)state;
    world w = {.self = 0};
    open_quick(&w);
    deliver(&w, OWNER, &(message){.kind = MESSAGE_UNCARRIED_CHUNKS, .u.uncarried_chunks.serial = got(&w, 0)->serial}, false);
    for (uint32_t i = 0; i < 118; i++) {
        beats(&w);
        pass(&w, 500 * MILLISECOND);
        assert_int_not_equal(chosen(&w, false), 1);
    }
    for (uint32_t i = 0; i < 6; i++) {
        beats(&w);
        pass(&w, 500 * MILLISECOND);
    }
    assert_int_equal(chosen(&w, false), 1);
    free(w.p);
}

// Rule A8. Given a silent forwarder, when parts are pulled, then they come directly, and pending
// ones are requested again.
static void test_silent_forwarder_is_not_used(void **state) {
    (void)state;
    world w = {.self = 0};
    open_quick(&w);
    for (uint32_t i = 0; i < 2; i++) say(&w, i);
    for (uint32_t i = 0; i < 9; i++) {  // before patience with what is carried is at an end
        for (uint32_t who = 2; who <= 3; who++) beat(&w, who);
        pass(&w, 500 * MILLISECOND);
    }
    assert_int_equal(w.get_count, 4);
    for (uint32_t i = 2; i < 4; i++) assert_int_equal(got(&w, i)->by, 0);
    memset(w.p->chunks->multipath.rest, 0, sizeof w.p->chunks->multipath.rest);  // not only because it failed
    assert_int_not_equal(chosen(&w, false), 1);
    free(w.p);
}

// Rule A8. Given a forwarder with a lost link, when the link is up again, then the forwarder is
// used at once.
static void test_forwarder_with_a_lost_link_has_not_failed(void **state) {
    (void)state;
    world w = {.self = 0};
    open_quick(&w);
    fall(&w, 1);
    step(&w, &(event){.kind = EVENT_LINK_UP, .id = name_of(OWNER)});
    beats(&w);
    assert_int_equal(chosen(&w, false), 1);
    free(w.p);
}

// Rule A9. Given relayed ranges that take as long as direct ones, when the mean reaches the limit,
// then the forwarder rests.
static void test_forwarder_without_gain_rests(void **state) {
    (void)state;
    static const uint64_t late_ms[] = {1, 4000};
    for (uint32_t i = 0; i < 2; i++) {
        world w = {.self = 0};
        open_quick(&w);
        w.p->run.activation_bytes = 4 * BYTES;  // straight, what comes would need 2.25 s
        for (uint32_t k = 0; k < 2; k++) w.p->chunks->multipath.known[k].way[1].percent = 94;
        for (uint64_t passed = 0; passed < late_ms[i]; passed += 500) {
            beats(&w);
            pass(&w, (late_ms[i] < 500 ? late_ms[i] : 500) * MILLISECOND);
        }
        assert_int_equal(w.get_count, 2);
        say(&w, 0);
        bring(&w, 0);
        done(&w, JOB_JOIN, HASH);
        multipath_choice way;
        assert_true(multipath_choose(w.p, w.get_to[0], false, &way));
        assert_int_equal(way.by, i == 0 ? 1 : 0);
        free(w.p);
    }
}

// ---- at the source --------------------------------------------------------------------------------

static message question(member_id by) {
    message get = {
        .kind = MESSAGE_GET,
        .u.get = {
            .what = GET_PART, .stage = 1, .round = 1, .count = 1, .by = by, .serial = by == 0 ? 0 : SERIAL}};
    message_set none = {{0}};
    get.u.get.set_digest = 0x6272616964;
    for (uint32_t i = 0; i < WIRE_SET_WORDS; i++) get.u.get.set_digest = rng_seed(get.u.get.set_digest, none.words[i]);
    return get;
}

// Rule A6. Given a GET that names a forwarder, when the source answers, then the bytes go to it in
// CARRY, or directly if it is not available.
static void test_source_answers_through_the_named_forwarder(void **state) {
    (void)state;
    static const struct {
        member_id by;
        bool carried;
    } ways[] = {{0, false}, {RELAY_B, true},  {RELAY_A, false},
                {RELAY_C, false}, {STANDBY, false}, {UNKNOWN, false}};  // directly; the puller; the source itself; a standby; no member
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        world w = {.self = 0};
        w.run = run_of(2, 2, 1);
        open_world(&w, RELAY_C, MEMBER_RELAY);
        admit(&w, OWNER, MEMBER_DATA, 0);
        for (uint32_t k = RELAY_A; k <= RELAY_C; k++) admit(&w, k, MEMBER_RELAY, 1);
        admit(&w, STANDBY, MEMBER_SHADOW, 1);
        own(&w, 0, OWNER);
        append(&w, (log_entry){.kind = LOG_RUN});
        beats(&w);
        w.busy = true;
        message get = question(ways[i].by);
        deliver(&w, RELAY_A, &get, false);
        done(&w, JOB_PACK, HASH);
        assert_int_equal(w.sent[MESSAGE_DATA], 1);
        assert_int_equal(w.last_receiver[MESSAGE_DATA], RELAY_A);
        assert_int_equal(w.last_had_blob[MESSAGE_DATA], !ways[i].carried);
        assert_int_equal(w.sent[MESSAGE_CARRY_CHUNKS], ways[i].carried);
        if (ways[i].carried) assert_true(w.last_receiver[MESSAGE_CARRY_CHUNKS] == ways[i].by && w.last_had_blob[MESSAGE_CARRY_CHUNKS]);
        free(w.p);
    }
}

// ---- at the forwarder ---------------------------------------------------------------------------

static void open_forwarder(world *w) {
    w->run = run_of(2, 1, 1);
    open_world(w, RELAY_B, MEMBER_RELAY);
    admit(w, OWNER, MEMBER_DATA, 0);
    for (uint32_t i = RELAY_A; i <= RELAY_C; i++) admit(w, i, MEMBER_RELAY, 1);
    own(w, 0, OWNER);
    append(w, (log_entry){.kind = LOG_RUN});
}

static const message passing = {
    .kind = MESSAGE_CARRY_CHUNKS,
    .u.carry_chunks = {.origin = RELAY_A, .to = RELAY_C, .serial = SERIAL, .what = GET_PART, .stage = 1, .count = 1}};

// Rule A6. Given a piece for another member, when it arrives at the forwarder, then it is passed on
// unchanged.
static void test_forwarder_passes_pieces_on(void **state) {
    (void)state;
    world w = {.self = 0};
    open_forwarder(&w);
    message piece = passing;
    deliver(&w, RELAY_A, &piece, true);
    assert_int_equal(w.sent[MESSAGE_CARRY_CHUNKS], 1);
    assert_int_equal(w.last_receiver[MESSAGE_CARRY_CHUNKS], RELAY_C);
    assert_int_equal(w.sent[MESSAGE_UNCARRIED_CHUNKS], 0);
    deliver(&w, RELAY_C, &piece, true);  // one forwarder is enough
    deliver_bytes(&w, RELAY_A, &piece, WIRE_CARRIED_BLOCK_BYTES + 1);
    piece.u.carry_chunks.origin = UNKNOWN;
    deliver(&w, UNKNOWN, &piece, true);
    assert_int_equal(w.sent[MESSAGE_CARRY_CHUNKS], 1);
    assert_int_equal(held_blobs(&w), 0);
    free(w.p);
}

// Rule A8. Given a forwarder with full links, or one that relays nothing, when a piece arrives,
// then the puller gets UNCARRIED CHUNKS.
static void test_forwarder_reports_to_the_puller(void **state) {
    (void)state;
    message piece = passing;
    world w = {.waiting_bytes = (uint64_t)MOST_CARRIED * BYTES};
    open_forwarder(&w);
    deliver(&w, RELAY_A, &piece, true);
    assert_int_equal(w.sent[MESSAGE_CARRY_CHUNKS], 0);
    assert_int_equal(w.last_uncarried_to, RELAY_C);
    free(w.p);
    w = (world){.carries_nothing = true};
    open_forwarder(&w);
    deliver(&w, RELAY_A, &piece, true);
    assert_int_equal(w.sent[MESSAGE_CARRY_CHUNKS], 0);
    assert_int_equal(w.last_uncarried_to, RELAY_C);
    assert_int_equal(held_blobs(&w), 0);
    free(w.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relayed_parts_are_joined_and_added),
        cmocka_unit_test(test_wrong_hash_is_fetched_directly),
        cmocka_unit_test(test_uncarried_is_fetched_directly),
        cmocka_unit_test(test_uncarried_without_membership_is_obeyed),
        cmocka_unit_test(test_late_range_is_fetched_directly),
        cmocka_unit_test(test_pieces_from_other_members_are_dropped),
        cmocka_unit_test(test_unrequested_data_is_ignored),
        cmocka_unit_test(test_lost_link_is_fetched_directly_at_once),
        cmocka_unit_test(test_faster_path_is_chosen),
        cmocka_unit_test(test_failed_forwarder_rests_for_a_minute),
        cmocka_unit_test(test_silent_forwarder_is_not_used),
        cmocka_unit_test(test_forwarder_with_a_lost_link_has_not_failed),
        cmocka_unit_test(test_forwarder_without_gain_rests),
        cmocka_unit_test(test_source_answers_through_the_named_forwarder),
        cmocka_unit_test(test_forwarder_passes_pieces_on),
        cmocka_unit_test(test_forwarder_reports_to_the_puller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
