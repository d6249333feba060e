// How `braid up` interprets the events of its children; their pipes are read in any order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/up_swarm.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEADER, DATA, RELAY, CHILDREN };

static const char *const peers[CHILDREN] = {"1111aaaa", "2222bbbb", "3333cccc"};

static int swarm_begin(void **state) {
    static const child_role roles[CHILDREN] = {CHILD_LEADER, CHILD_DATA, CHILD_RELAY};
    swarm *s = calloc(1, sizeof *s);
    FILE *nowhere = fopen("/dev/null", "w");
    if (!s || !nowhere) return 1;
    s->report = report_new(REPORT_PLAIN, nowhere);
    for (int i = 0; i < CHILDREN; i++) {
        child *c = calloc(1, sizeof *c);
        if (!c) return 1;
        c->role = roles[i];
        s->children[s->child_count++] = c;
    }
    s->alive = 1;  // nonzero, so that the loop, which was never started, is not stopped
    s->progress.started = true;
    s->settings.stages = 4;
    s->settings.shadows = 1;
    *state = s;
    return 0;
}

static void loop_begin(swarm *s) {
    uv_loop_init(&s->loop);
    s->loop.data = s;  // swarm_end closes it
}

static void swarm_end_loop(swarm *s) {
    for (uint32_t i = CHILDREN; i < s->child_count; i++) uv_close((uv_handle_t *)&s->children[i]->commands, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
}

static int swarm_end(void **state) {
    swarm *s = *state;
    report_free(s->report);
    if (s->loop.data) swarm_end_loop(s);
    for (uint32_t i = 0; i < s->child_count; i++) free(s->children[i]);
    free(s);
    return 0;
}

static void say_ready(swarm *s, int who) {
    report_event news = {.kind = REPORT_READY, .loss = NAN};
    strcpy(news.peer, peers[who]);
    swarm_event(s, s->children[who], &news);
}

static void leader_says(swarm *s, report_kind kind, const char *id, uint64_t member, uint64_t stage) {
    report_event news = {.kind = kind, .member = member, .stage = stage, .loss = NAN};
    strcpy(news.peer, id);
    swarm_event(s, s->children[LEADER], &news);
}

static void join(swarm *s, int who, bool leader_first) {
    if (!leader_first) say_ready(s, who);
    leader_says(s, REPORT_JOINED, peers[who], 10 + (uint64_t)who, who == RELAY);
    if (leader_first) say_ready(s, who);
}

static void test_reports_arrive_in_any_order(void **state) {
    swarm *s = *state;
    for (int leader_first = 0; leader_first < 2; leader_first++) {
        child *relay = s->children[RELAY];
        relay->joined = false;
        relay->peer[0] = 0;
        join(s, RELAY, leader_first);
        assert_true(relay->joined);
        assert_int_equal(relay->member, 10 + RELAY);
        assert_int_equal(relay->stage, 1);
        assert_int_equal(s->progress.guest_count, 0);
    }
}

static void test_the_death_of_a_data_peer_ends_the_run(void **state) {
    swarm *s = *state;
    join(s, DATA, true);
    swarm_child_gone(s, s->children[DATA], 0, SIGKILL);
    assert_true(s->finish.failed);
}

static void test_a_guest_keeps_a_stage_alive(void **state) {
    swarm *s = *state;
    join(s, RELAY, true);
    leader_says(s, REPORT_JOINED, "4444dddd", 20, 1);
    swarm_child_gone(s, s->children[RELAY], 0, SIGKILL);
    assert_false(s->finish.failed);
}

static void test_a_guest_that_left_does_not(void **state) {
    swarm *s = *state;
    join(s, RELAY, false);
    leader_says(s, REPORT_JOINED, "4444dddd", 20, 1);
    leader_says(s, REPORT_LEFT, "4444dddd", 20, 1);
    assert_int_equal(s->progress.guest_count, 0);
    swarm_child_gone(s, s->children[RELAY], 0, SIGKILL);
    assert_false(s->finish.failed);
    assert_true(s->stage.bereft_ms[1] > 0);  // replacements are started
}

static void leader_says_shadow(swarm *s, const char *id, uint64_t member, uint64_t number) {
    report_event news = {.kind = REPORT_JOINED, .member = member, .stage = number, .role = "shadow", .loss = NAN};
    strcpy(news.peer, id);
    swarm_event(s, s->children[LEADER], &news);
}

// The run rolls back: repeated iterations are reported again by each child that has read the
// rollback.
static void test_iterations_are_reported_again_after_a_rollback(void **state) {
    swarm *s = *state;
    s->settings.voters = 3;
    report_event told = {.kind = REPORT_ITERATION, .iteration = 7, .loss = NAN}, back = {.kind = REPORT_ROLLED_BACK, .iteration = 4, .total = 3, .stage = 1, .generation = 2, .loss = NAN};
    swarm_event(s, s->children[LEADER], &told);
    swarm_event(s, s->children[DATA], &back);
    assert_int_equal(s->progress.iteration, 4);
    swarm_event(s, s->children[LEADER], &told);  // this child has not read the rollback
    assert_int_equal(s->progress.iteration, 4);
    told.iteration = 5;
    swarm_event(s, s->children[DATA], &told);
    assert_int_equal(s->progress.iteration, 5);
    swarm_event(s, s->children[LEADER], &back);
    assert_int_equal(s->progress.iteration, 5);
    told.iteration = 6;
    swarm_event(s, s->children[LEADER], &told);
    assert_int_equal(s->progress.iteration, 6);
}

// A standby may take over its stage, so the swarm waits for it; after its promotion it is an
// ordinary member.
static void test_the_swarm_waits_for_a_standby(void **state) {
    swarm *s = *state;
    join(s, RELAY, true);
    leader_says_shadow(s, "4444dddd", 20, 1);
    assert_true(stage_is_shadowed(s, 1));
    assert_false(stage_is_shadowed(s, 2));
    swarm_child_gone(s, s->children[RELAY], 0, SIGKILL);
    assert_false(s->finish.failed);
    assert_true(s->stage.bereft_ms[1] > 0);
    leader_says(s, REPORT_PROMOTED, "4444dddd", 20, 1);
    assert_false(stage_is_shadowed(s, 1));
}

static void test_kill_orders_are_parsed(void **state) {
    swarm *s = *state;
    braid_error error;
    assert_int_equal(chaos_add_kill(s, "stage:2@iteration:6/backward", &error), BRAID_OK);
    const action *a = &s->orders.action[0];
    assert_int_equal(a->kind, ACTION_ARM);
    assert_int_equal(a->stage, 2);
    assert_int_equal(a->role, CHILD_RELAY);
    assert_int_equal(a->iteration, 6);
    assert_int_equal(chaos_add_kill(s, "relay3@iteration:6", &error), BRAID_OK);
    assert_int_equal(s->orders.action[1].stage, 0);
    static const char *const wrong[] = {"stage:@weight", "stage:0@weight", "stage:x@weight", "stage2@weight", "stage:2", "stage:4@weight"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(chaos_add_kill(s, wrong[i], &error), BRAID_ARGUMENT);
    s->settings.shadows = 0;
    assert_int_equal(chaos_add_kill(s, "stage:2@weight", &error), BRAID_OK);
    s->settings.private_data = true;  // with private data, killed data peers are restarted
    assert_int_equal(chaos_add_kill(s, "data2@weight", &error), BRAID_OK);
    assert_int_equal(chaos_add_random(s, "data=1", 0, 20, &error), BRAID_OK);
    assert_int_equal(chaos_add_kill(s, "any@weight", &error), BRAID_OK);
    assert_int_equal(chaos_add_random(s, "kills=1", 0, 20, &error), BRAID_OK);
}

static uint32_t orders_left(const swarm *s) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->orders.count; i++) left += !s->orders.action[i].came;
    return left;
}

static void test_a_stage_without_a_standby_is_spared(void **state) {
    swarm *s = *state;
    braid_error error;
    child *relay = s->children[RELAY];
    join(s, RELAY, true);
    relay->alive = relay->ready = true;
    relay->process.pid = INT_MAX;  // of nobody
    assert_int_equal(chaos_add_kill(s, "stage:1@iteration:0", &error), BRAID_OK);
    chaos_step(s);
    assert_int_equal(orders_left(s), 1);
    assert_false(relay->killed);
    leader_says_shadow(s, "4444dddd", 20, 1);
    chaos_step(s);
    assert_int_equal(orders_left(s), 0);
    assert_true(relay->killed && relay->order.takes_stage);
}

// A child without a command pipe.
static child *one_more(swarm *s, child_role role, uint64_t number) {
    child *c = calloc(1, sizeof *c);
    assert_non_null(c);
    s->children[s->child_count++] = c;
    uv_pipe_init(&s->loop, &c->commands, 0);
    c->role = role;
    c->stage = number;
    c->process.pid = INT_MAX;  // of nobody
    c->alive = c->joined = c->listed = c->ready = true;
    return c;
}

static void works(swarm *s, child *c, uint64_t iteration, double computed_seconds) {
    swarm_event(s, c, &(report_event){.kind = REPORT_ITERATION, .iteration = iteration, .work.computed_seconds = computed_seconds, .loss = NAN});
}

static void test_an_order_is_due_when_any_peer_reaches_it(void **state) {
    swarm *s = *state;
    braid_error error;
    loop_begin(s);
    child *first = one_more(s, CHILD_RELAY, 1), *second = one_more(s, CHILD_RELAY, 1);
    assert_int_equal(chaos_add_kill(s, "any@iteration:5", &error), BRAID_OK);
    works(s, s->children[LEADER], 5, 1);
    assert_false(first->killed || second->killed);
    swarm_advanced(s, first, 5);
    assert_false(first->killed);
    assert_true(second->killed);
}

// A relay is armed, idles for many iterations and is spared; another one is armed in its place.
static child *spared_relay(swarm *s, child **other_one) {
    braid_error error;
    loop_begin(s);
    child *idle = one_more(s, CHILD_RELAY, 1), *busy = one_more(s, CHILD_RELAY, 1);
    idle->version = busy->version = 100;
    idle->idle = 1;
    for (int i = 0; i < 20; i++) {
        child *other = one_more(s, CHILD_RELAY, 1);
        other->version = 100;
        other->idle = 1;
    }
    assert_int_equal(chaos_add_kill(s, "any@iteration:0/backward", &error), BRAID_OK);
    chaos_step(s);
    assert_true(busy->order.armed && !idle->order.armed);
    for (uint64_t i = 1; i <= UP_HURRY_ITERATIONS; i++) {  // the two relays swap roles
        assert_true(busy->order.armed);
        works(s, busy, i, 0);
        works(s, idle, i, (double)i);
        works(s, s->children[LEADER], i, (double)i);
    }
    assert_true(idle->order.armed && !busy->order.armed);
    assert_int_equal(orders_left(s), 1);
    *other_one = idle;
    return busy;
}

static void test_a_relay_without_work_is_spared(void **state) {
    swarm *s = *state;
    child *other, *spared = spared_relay(s, &other);
    swarm_child_gone(s, spared, 0, SIGKILL);  // it had not received the cancellation yet
    assert_int_equal(s->orders.kills, 1);
    assert_int_equal(orders_left(s), 0);
}

// A later death of the spared relay does not count as ordered.
static void test_a_spared_relay_is_ordinary_again(void **state) {
    swarm *s = *state;
    child *other, *spared = spared_relay(s, &other);
    swarm_advanced(s, spared, spared->version + 1);
    assert_true(spared->order.spared);
    swarm_advanced(s, spared, spared->version + 1);
    swarm_child_gone(s, spared, 0, SIGKILL);
    assert_int_equal(s->orders.kills, 0);
    assert_int_equal(orders_left(s), 1);
}

static void test_random_deaths_are_early(void **state) {
    swarm *s = *state;
    braid_error error;
    assert_int_equal(chaos_add_random(s, "kills=9,joins=3,within=20,seed=4", 0, 100000, &error), BRAID_OK);
    assert_int_equal(s->orders.count, 12);
    for (uint32_t i = 0; i < s->orders.count; i++) assert_in_range(s->orders.action[i].iteration, 1, 20);
}

// The only owner of a text is restarted one second after its end, provided that a leader has
// removed it from the members.
static void test_a_peer_returns_after_its_removal(void **state) {
    swarm *s = *state;
    child *c = s->children[DATA];
    uint64_t end_ms = 5000;
    assert_false(swarm_may_return(s, c));
    c->return_ms = s->loop.time = end_ms;
    c->listed = true;
    assert_false(swarm_may_return(s, c));
    s->progress.leading = s->children[LEADER];
    assert_false(swarm_may_return(s, c));
    c->listed = false;
    assert_true(swarm_may_return(s, c));
    s->progress.leading = NULL;
    assert_false(swarm_may_return(s, c));
    s->loop.time = end_ms + UP_ELECT_MS;
    assert_true(swarm_may_return(s, c));
}

// The last relay of the stage is killed from outside; then the next one takes its place.
static void lose_relay(swarm *s, uint64_t lived_ms, bool on_order) {
    child *c = s->children[RELAY];
    c->alive = c->joined = true;
    c->exited = c->killed = false;
    stages_tick(s);
    assert_int_equal(s->stage.bereft_ms[1], 0);
    c->began_ms = s->loop.time;
    c->began_at = s->progress.furthest++;
    s->loop.time += lived_ms;
    c->killed = on_order;
    c->alive = false;
    c->exited = true;
    swarm_child_gone(s, c, 0, SIGKILL);
    stages_tick(s);
}

static void relay_alone(swarm *s) {
    s->settings.stages = 2;
    s->settings.iterations = 1000000;
    s->loop.time = 1000;
    join(s, RELAY, false);
    strcpy(s->children[RELAY]->name, "relay1");
}

static void test_repeated_immediate_deaths_end_the_run(void **state) {
    swarm *s = *state;
    relay_alone(s);
    report_event saved = {.kind = REPORT_CHECKPOINT, .iteration = 3, .loss = NAN, .path = "ck/step-000003"};
    swarm_event(s, s->children[LEADER], &saved);
    for (int i = 1; i < RESTART_MOST; i++) {
        lose_relay(s, 500, false);
        assert_false(s->finish.ending);
        assert_int_equal(s->stage.bereft_ms[1], s->loop.time + (UINT64_C(500) << i));
    }
    lose_relay(s, 500, false);
    assert_true(s->finish.ending && s->finish.failed);
    assert_non_null(strstr(s->finish.why, "relays of stage 1 died 5 times in"));
    assert_non_null(strstr(s->finish.why, "relay1, was ended by signal 9 (SIGKILL)"));
    assert_non_null(strstr(s->finish.why, "Resume from ck/step-000003 (--resume); iterations 4 to 5 are lost"));
}

static void test_rare_or_ordered_deaths_do_not_end_the_run(void **state) {
    swarm *s = *state;
    relay_alone(s);
    for (int i = 0; i < 100; i++) {
        lose_relay(s, i % 2 ? 3600000 : 500, i % 2 == 0);
        assert_false(s->finish.ending);
        assert_int_equal(s->stage.bereft_ms[1], s->loop.time + RESTART_FIRST_MS);
    }
}

// The data peer with a text dies at once repeatedly: a strict run ends, an elastic one continues
// without it.
static void test_a_text_is_given_up_after_repeated_deaths(void **state) {
    swarm *s = *state;
    child *c = s->children[DATA];
    s->settings.private_data = true;
    for (int elastic = 1; elastic >= 0; elastic--) {
        s->settings.elastic = elastic;
        *c = (child){.swarm = s, .role = CHILD_DATA, .number = 2, .name = "data2", .member = 11};
        for (int i = 1; i <= RESTART_MOST; i++) {
            assert_false(s->finish.ending);
            c->return_ms = 0;
            c->began_ms = s->loop.time;
            s->loop.time += 400;
            swarm_child_gone(s, c, 0, SIGILL);
            assert_int_equal(c->return_ms, i == RESTART_MOST ? 0 : s->loop.time + (UINT64_C(500) << i));
        }
        assert_int_equal(s->finish.ending, !elastic);
    }
    assert_non_null(strstr(s->finish.why, "data2 died 5 times"));
    assert_non_null(strstr(s->finish.why, "SIGILL"));
}

// The user requested the end, and the current iteration lacks a stage: no peer is started, and the
// run ends.
static void test_a_requested_end_needs_no_complete_stages(void **state) {
    swarm *s = *state;
    relay_alone(s);
    s->finish.draining = true;
    lose_relay(s, 500, false);
    s->loop.time += UP_LOST_MS - 1;
    stages_tick(s);
    assert_false(s->finish.ending);
    s->loop.time++;
    stages_tick(s);
    assert_true(s->finish.ending && s->finish.failed);
    assert_non_null(strstr(s->finish.why, "stopped by the user; stage 1 had no peer left"));
    assert_non_null(strstr(s->finish.why, "No checkpoint was written; iteration 1 is lost"));
}

// The text that `say` writes at the end for the swarm `s`.
static const char *told_by(void (*say)(const swarm *), swarm *s, report_style style) {
    static char text[4096];
    report *before = s->report;
    FILE *out = tmpfile();
    assert_non_null(out);
    s->report = report_new(style, out);
    say(s);
    report_free(s->report);
    s->report = before;
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    fclose(out);
    return text;
}

static const char *told_losses(swarm *s, report_style style) { return told_by(losses_tell, s, style); }

static void test_the_end_names_unfulfilled_orders(void **state) {
    swarm *s = *state;
    braid_error error;
    loop_begin(s);
    for (int i = 0; i < 2; i++) {
        child *relay = one_more(s, CHILD_RELAY, 1);
        relay->number = 1 + (uint32_t)i;
        snprintf(relay->name, sizeof relay->name, "relay%s", i == 0 ? "1" : "2");
    }
    static const char *const orders[] = {"relay1@iteration:0/transfer", "relay2@iteration:0", "relay3@iteration:0", "data3@weight", "any@iteration:7"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) assert_int_equal(chaos_add_kill(s, orders[i], &error), BRAID_OK);
    chaos_step(s);
    assert_string_equal(told_by(orders_tell, s, REPORT_PLAIN),
                        "--kill relay1@iteration:0/transfer was not carried out: relay1 was ordered to die there, and had not reached that point when the run ended\n"
                        "--kill relay2@iteration:0 was not carried out: no other peer of its stage could have continued\n"
                        "--kill relay3@iteration:0 was not carried out: there was no such peer\n"
                        "--kill data3@weight was not carried out: there was no such peer\n"
                        "--kill any@iteration:7 was not carried out: the run ended first\n");
    swarm_child_gone(s, s->children[CHILDREN], 0, SIGKILL);
    assert_null(strstr(told_by(orders_tell, s, REPORT_PLAIN), "relay1"));
}

// Orders that are impossible are refused at the start.
static void test_impossible_orders_are_refused(void **state) {
    swarm *s = *state;
    braid_error error;
    s->settings.relays = 4;
    s->settings.data_peers = s->settings.voters = 3;
    s->settings.iterations = 20;
    static const struct {
        const char *kill;
        braid_err err;
    } all[] = {{"relay6@iteration:3", BRAID_OK}, {"relay7@iteration:3", BRAID_ARGUMENT}, {"data3@iteration:3", BRAID_OK}, {"data4@iteration:3", BRAID_ARGUMENT},
               {"any@iteration:19", BRAID_OK}, {"any@iteration:20", BRAID_ARGUMENT}, {"data@weight", BRAID_OK}, {"data1@weight", BRAID_OK}};
    assert_int_equal(chaos_add_late(s, "2@iteration:5", &error), BRAID_OK);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        s->orders.count = 1;
        assert_int_equal(chaos_add_kill(s, all[i].kill, &error), BRAID_OK);
        assert_int_equal(orders_check(s, &error), all[i].err);
    }
    s->settings.voters = 1;
    assert_int_equal(orders_check(s, &error), BRAID_ARGUMENT);  // data1
    s->orders.count = 0;
    assert_int_equal(chaos_add_late(s, "2@iteration:20", &error), BRAID_OK);
    assert_int_equal(orders_check(s, &error), BRAID_ARGUMENT);
}

static void says_repair(swarm *s, uint64_t member, const char *phase) {
    report_event news = {.kind = REPORT_REPAIR, .member = member, .stage = 1, .loss = NAN};
    strcpy(news.phase, phase);
    strcpy(news.peer, "000000000000");  // the reporting child may have forgotten the peer's id
    swarm_event(s, s->children[DATA], &news);
}

static void test_the_end_names_losses_and_repairs(void **state) {
    swarm *s = *state;
    assert_string_equal(told_losses(s, REPORT_PLAIN), "");
    join(s, RELAY, true);
    leader_says(s, REPORT_JOINED, "4444dddd", 20, 1);
    leader_says(s, REPORT_JOINED, "5555eeee", 21, 1);
    leader_says(s, REPORT_JOINED, "6666ffff", 22, 1);
    s->children[RELAY]->order.armed = true;
    s->children[RELAY]->order.armed_at = FAULT_BACKWARD;
    says_repair(s, 10 + RELAY, "forward");  // a repair may be reported before the loss
    swarm_child_gone(s, s->children[RELAY], 0, SIGKILL);
    leader_says(s, REPORT_EXPELLED, peers[RELAY], 10 + RELAY, 1);
    says_repair(s, 10 + RELAY, "backward");
    says_repair(s, 10 + RELAY, "backward");
    says_repair(s, 20, "committed");
    leader_says(s, REPORT_EXPELLED, "4444dddd", 20, 1);
    leader_says(s, REPORT_EXPELLED, "5555eeee", 21, 1);
    leader_says(s, REPORT_LEFT, "6666ffff", 22, 1);
    assert_string_equal(told_losses(s, REPORT_PLAIN),
                        "lost members, and the repairs that each one caused:\n"
                        "  peer 3333cccc of stage 1: killed in backward; 3 microbatch repairs (1 forward, 2 backward)\n"
                        "  peer 4444dddd of stage 1: lost; 1 microbatch repair (1 committed)\n"
                        "  peer 5555eeee of stage 1: lost; no repairs\n");
    assert_string_equal(told_losses(s, REPORT_JSON), "");
}

static void says(swarm *s, int who, report_event news) {
    news.loss = NAN;
    swarm_event(s, s->children[who], &news);
}

// With several voters all of them report the log's events; the first report counts, from any of
// them.
static void test_events_of_all_voters_count_once(void **state) {
    swarm *s = *state;
    s->settings.voters = 3;
    s->progress.leading = s->children[LEADER];
    for (int who = 0; who < CHILDREN; who++) {
        s->children[who]->alive = true;
        say_ready(s, who);
        for (int teller = 0; teller < 2; teller++) {
            report_event joined = {.kind = REPORT_JOINED, .member = 10 + (uint64_t)who, .stage = who == RELAY};
            strcpy(joined.peer, peers[who]);
            says(s, teller, joined);
        }
    }
    assert_int_equal(s->progress.newest_member, 10 + RELAY);
    says(s, DATA, (report_event){.kind = REPORT_ITERATION, .iteration = 1, .tokens = 7});
    says(s, LEADER, (report_event){.kind = REPORT_ITERATION, .iteration = 1, .tokens = 7});
    says(s, RELAY, (report_event){.kind = REPORT_ITERATION, .iteration = 2, .tokens = 7});
    assert_int_equal(s->progress.iteration, 2);
    assert_int_equal(s->progress.tokens, 14);
}

// The leader is killed, and the next leader reports the removal later. The run ends with the child
// that reports the weights.
static void test_reporting_continues_after_the_leaders_death(void **state) {
    swarm *s = *state;
    test_events_of_all_voters_count_once(state);
    s->children[LEADER]->killed = true;
    swarm_child_gone(s, s->children[LEADER], 0, SIGKILL);
    assert_false(s->finish.failed);
    assert_null(s->progress.leading);
    report_event leads = {.kind = REPORT_LEADER, .ticket = "new"};
    strcpy(leads.peer, peers[DATA]);
    says(s, RELAY, leads);
    assert_null(s->progress.leading);  // only the new leader's own report counts
    says(s, DATA, leads);
    assert_ptr_equal(s->progress.leading, s->children[DATA]);
    assert_string_equal(s->progress.ticket, "new");
    assert_true(s->children[LEADER]->listed);
    report_event expelled = {.kind = REPORT_EXPELLED, .member = 10 + LEADER};
    strcpy(expelled.peer, peers[LEADER]);
    says(s, DATA, expelled);
    assert_false(s->children[LEADER]->listed);
    says(s, RELAY, (report_event){.kind = REPORT_END});
    assert_false(s->finish.ending);
    says(s, DATA, (report_event){.kind = REPORT_END, .weights = "abc", .tokens = 1});
    assert_true(s->finish.ending);
    assert_int_equal(s->finish.event.tokens, 14);
}

// Other data peers take over the microbatches of a lost one.
static void test_the_end_names_takeovers(void **state) {
    swarm *s = *state;
    join(s, DATA, true);
    leader_says(s, REPORT_EXPELLED, peers[DATA], 10 + DATA, 0);
    s->settings.voters = 3;
    for (int who = 0; who < CHILDREN; who++) {  // all of them report it
        says(s, who, (report_event){.kind = REPORT_TAKEOVER, .member = 12, .gone = 10 + DATA, .microbatches = 2});
        says(s, who, (report_event){.kind = REPORT_TAKEOVER, .member = 13, .gone = 10 + DATA, .microbatches = 1});
    }
    says(s, LEADER, (report_event){.kind = REPORT_TAKEOVER, .member = 13, .gone = 77, .microbatches = 1});  // who left
    assert_string_equal(told_losses(s, REPORT_PLAIN),
                        "lost members, and the repairs that each one caused:\n"
                        "  peer 2222bbbb of stage 0: lost; its 3 microbatches of each iteration were taken over; no repairs\n");
}

static void test_the_leader_may_be_killed_with_other_voters(void **state) {
    swarm *s = *state;
    braid_error error;
    s->settings.voters = 1;
    assert_int_equal(chaos_add_kill(s, "leader@iteration:5", &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "only vote"));
    assert_int_equal(chaos_add_random(s, "leader=1", 0, 20, &error), BRAID_ARGUMENT);
    s->settings.voters = 3;
    assert_int_equal(chaos_add_kill(s, "leader@iteration:5/final", &error), BRAID_OK);
    assert_int_equal(s->orders.action[0].role, CHILD_LEADER);
    assert_int_equal(chaos_add_kill(s, "leader2@iteration:5", &error), BRAID_ARGUMENT);
}

// Another child that has reported this id.
static child *one_known(swarm *s, child_role role, uint64_t stage, uint64_t member, const char *id) {
    child *c = one_more(s, role, stage);
    c->member = member;
    strcpy(c->peer, id);
    return c;
}

// 1. A relay is a voter, although enough data peers have joined to take its seat.
// 2. The relay dies and is expelled. Under load the leader replaces it as a voter much later.
// 3. An order to kill a whole-model peer, another voter, waits until then.
static void test_a_majority_of_the_reported_voters_survives(void **state) {
    swarm *s = *state;
    braid_error error;
    loop_begin(s);
    s->settings.voters = 3;
    for (int i = 0; i < CHILDREN; i++) s->children[i]->exited = true;  // not part of this run
    one_known(s, CHILD_DATA, 0, 1, "aaaa");
    child *whole = one_known(s, CHILD_DATA, 0, 2, "bbbb"), *relay = one_known(s, CHILD_RELAY, 1, 3, "cccc");
    one_known(s, CHILD_DATA, 0, 4, "dddd");
    whole->whole = true;
    whole->number = 4;
    one_known(s, CHILD_DATA, 0, 6, "eeee")->whole = true;
    s->progress.leading = s->children[CHILDREN];
    assert_true(chaos_voters_line(s, relay, "{\"event\":\"voters\",\"index\":9,\"machines\":\"aaaa bbbb cccc\"}"));
    assert_false(chaos_voters_line(s, relay, "{\"event\":\"joined\"}"));
    relay->killed = true;
    swarm_child_gone(s, relay, 0, SIGKILL);
    relay->exited = true;
    relay->alive = relay->listed = false;  // expelled, but its seat is not taken yet
    relay->gone_ms = 0;                    // long ago
    assert_int_equal(chaos_add_kill(s, "whole4@iteration:0", &error), BRAID_OK);
    chaos_step(s);
    assert_false(whole->killed);
    assert_int_equal(s->orders.action[0].waits, WAIT_VOTES);
    assert_true(chaos_voters_line(s, relay, "{\"event\":\"voters\",\"index\":12,\"machines\":\"aaaa bbbb dddd\"}"));
    assert_true(chaos_voters_line(s, relay, "{\"event\":\"voters\",\"index\":9,\"machines\":\"aaaa bbbb cccc\"}"));  // late
    chaos_step(s);
    assert_true(whole->killed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_majority_of_the_reported_voters_survives, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_reports_arrive_in_any_order, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_the_end_names_takeovers, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_impossible_orders_are_refused, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_the_end_names_unfulfilled_orders, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_the_death_of_a_data_peer_ends_the_run, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_guest_keeps_a_stage_alive, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_guest_that_left_does_not, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_events_of_all_voters_count_once, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_reporting_continues_after_the_leaders_death, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_the_leader_may_be_killed_with_other_voters, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_the_swarm_waits_for_a_standby, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_iterations_are_reported_again_after_a_rollback, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_kill_orders_are_parsed, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_stage_without_a_standby_is_spared, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_an_order_is_due_when_any_peer_reaches_it, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_relay_without_work_is_spared, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_spared_relay_is_ordinary_again, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_random_deaths_are_early, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_peer_returns_after_its_removal, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_repeated_immediate_deaths_end_the_run, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_rare_or_ordered_deaths_do_not_end_the_run, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_requested_end_needs_no_complete_stages, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_a_text_is_given_up_after_repeated_deaths, swarm_begin, swarm_end),
        cmocka_unit_test_setup_teardown(test_the_end_names_losses_and_repairs, swarm_begin, swarm_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
