// Times of iterations calculated by hand, and rules for all of them.
#include "base/rng.h"
#include "bench/training/pipeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { PEERS = 8, BATCHES = 12, LENGTH = 5 };

typedef struct scene {
    pipeline_peer peer[PEERS];
    int64_t latency[PEERS * PEERS], transfer[PEERS * PEERS];
    uint32_t path[BATCHES * LENGTH];
    pipeline p;
    int64_t iteration, done[BATCHES], busy[PEERS];
} scene;

static void open_scene(scene *s, uint32_t peers, uint32_t length) {
    memset(s, 0, sizeof *s);
    s->p = (pipeline){.peers = peers,
                      .length = length,
                      .peer = s->peer,
                      .latency_ns = s->latency,
                      .transfer_ns = s->transfer,
                      .path = s->path};
}

static void add_path(scene *s, const uint32_t *path) {
    memcpy(s->path + s->p.microbatches++ * s->p.length, path, s->p.length * sizeof *path);
}

// Both directions.
static void set_link(scene *s, uint32_t a, uint32_t b, int64_t latency, int64_t transfer) {
    s->latency[a * s->p.peers + b] = s->latency[b * s->p.peers + a] = latency;
    s->transfer[a * s->p.peers + b] = s->transfer[b * s->p.peers + a] = transfer;
}

static int64_t play(scene *s) {
    braid_error error = {0};
    if (pipeline_run(&s->p, &s->iteration, s->done, s->busy, &error)) fail_msg("%s", error.text);
    return s->iteration;
}

// Data peer 0, relay 1: forward 0 and 1, loss, backward 1 and 0, four transfers.
static void test_one_microbatch_takes_the_sum_of_its_steps(void **state) {
    (void)state;
    scene s;
    open_scene(&s, 2, 3);
    s.peer[0] = (pipeline_peer){.forward_ns = 3, .backward_ns = 5, .home_ns = 7};
    s.peer[1] = (pipeline_peer){.forward_ns = 11, .backward_ns = 13, .capacity = 1};
    s.latency[1] = 100, s.transfer[1] = 1000;      // 0 -> 1
    s.latency[2] = 10000, s.transfer[2] = 100000;  // 1 -> 0
    add_path(&s, (uint32_t[]){0, 1, 0});
    assert_int_equal(play(&s), 3 + 11 + 7 + 13 + 5 + 2 * (1100 + 110000));
    assert_int_equal(s.busy[0], 15);
    assert_int_equal(s.busy[1], 24);
    assert_int_equal(s.done[0], s.iteration);
}

// The same, with a relay that arrives at 5000 and a replacement on the backward pass.
static void test_replacement_on_the_backward_pass(void **state) {
    (void)state;
    scene s;
    int64_t passed[6];
    open_scene(&s, 3, 3);
    s.peer[0] = (pipeline_peer){.forward_ns = 3, .backward_ns = 5, .home_ns = 7};
    s.peer[1] = (pipeline_peer){.forward_ns = 11, .backward_ns = 13, .capacity = 1, .from_ns = 5000};
    s.peer[2] = (pipeline_peer){.forward_ns = 17, .backward_ns = 19, .capacity = 1};
    set_link(&s, 0, 1, 100, 1000);
    set_link(&s, 0, 2, 200, 2000);
    s.p.back = (uint32_t[]){0, 2, 0};
    s.p.passed_ns = passed;
    add_path(&s, (uint32_t[]){0, 1, 0});
    int64_t there = 5000 + 1100, home = there + 11 + 1100, back = home + 7 + 2200;
    assert_int_equal(play(&s), back + 19 + 2200 + 5);
    assert_int_equal(passed[0], there - 100);
    assert_int_equal(passed[1], home - 100);
    assert_int_equal(passed[2], back - 200);
    assert_int_equal(passed[3], back + 19 + 2000);
    assert_int_equal(s.busy[1], 11);
    // two relays that replace each other, with room for one: the first keeps its room until its
    // gradient has been sent on
    s.peer[1].from_ns = 0;
    s.p.back = (uint32_t[]){0, 2, 0, 0, 1, 0};
    s.p.passed_ns = NULL;
    add_path(&s, (uint32_t[]){0, 2, 0});
    assert_true(play(&s) == INT64_MAX);
    s.peer[1].capacity = 2;
    assert_true(play(&s) < 2 * back);
}

// Computing takes no time, the link 10 and 1 more: the second microbatch follows 10 later, on four
// transfers at once.
static void test_transfers_of_a_link_follow_one_another(void **state) {
    (void)state;
    scene s;
    open_scene(&s, 2, 3);
    set_link(&s, 0, 1, 1, 10);
    add_path(&s, (uint32_t[]){0, 1, 0});
    add_path(&s, (uint32_t[]){0, 1, 0});
    // Activations arrive at the relay at 11 and 21, at the data peer at 22 and 32; gradients at the
    // relay at 33 and 43, at the data peer at 44 and 54.
    assert_int_equal(play(&s), 54);
    assert_int_equal(s.done[0], 44);
}

// A relay of capacity 1 takes the second microbatch only after the first one's backward pass.
static void test_a_full_relay_makes_others_wait(void **state) {
    (void)state;
    scene s;
    open_scene(&s, 2, 3);
    s.peer[1] = (pipeline_peer){.forward_ns = 10, .backward_ns = 20, .capacity = 1};
    set_link(&s, 0, 1, 1, 0);
    for (uint32_t m = 0; m < 3; m++) add_path(&s, (uint32_t[]){0, 1, 0});
    // 1 there, 10 forward, 2 to the data peer and back, 20 backward: 33; the next forward begins
    // there.
    assert_int_equal(play(&s), 33 + 32 + 32 + 1);
    s.peer[1].capacity = 2;
    // Forward 1..11 and 11..21. The gradient that arrives at 13 waits until 21 and precedes the
    // third microbatch, which has had no room: backward 21..41, then the other gradient, there
    // since 23: 41..61; forward 61..71, backward 73..93.
    assert_int_equal(play(&s), 94);
    s.peer[1].capacity = 0;
    // With room for all the third waits just as long: gradients go first.
    assert_int_equal(play(&s), 94);
}

// Three data peers at 1, 4 and 6 from one relay: microbatches are served in order of arrival.
static void test_longest_wait_is_served_first(void **state) {
    (void)state;
    scene s;
    open_scene(&s, 4, 3);
    s.peer[1] = (pipeline_peer){.forward_ns = 10};
    set_link(&s, 0, 1, 1, 0);
    set_link(&s, 2, 1, 6, 0);
    set_link(&s, 3, 1, 4, 0);
    add_path(&s, (uint32_t[]){0, 1, 0});
    add_path(&s, (uint32_t[]){2, 1, 2});
    add_path(&s, (uint32_t[]){3, 1, 3});
    // Forward: the first 1..11, then the third, there since 4, 11..21, then the second 21..31.
    // Gradients arrive at 13, 29 and 43; the first two wait until 21 and 31.
    assert_int_equal(play(&s), 49);
    assert_int_equal(s.done[0], 22);
    assert_int_equal(s.done[2], 35);
}

// Two relays of one stage: with a link for each pair both are served at once, with one link for
// each peer in turn.
static void test_links_by_pair_or_by_peer(void **state) {
    (void)state;
    scene s;
    open_scene(&s, 3, 3);
    set_link(&s, 0, 1, 0, 10);
    set_link(&s, 0, 2, 0, 10);
    add_path(&s, (uint32_t[]){0, 1, 0});
    add_path(&s, (uint32_t[]){0, 2, 0});
    assert_int_equal(play(&s), 40);
    s.p.link = PIPELINE_PEER;
    assert_int_equal(play(&s), 50);
    assert_int_equal(s.done[0], 40);
}

static void fill_at_random(scene *s, uint64_t seed) {
    rng r = {seed};
    open_scene(s, PEERS, LENGTH);
    for (uint32_t i = 0; i < PEERS; i++)
        s->peer[i] = (pipeline_peer){.forward_ns = (int64_t)rng_below(&r, 5),
                                     .backward_ns = (int64_t)rng_below(&r, 9),
                                     .home_ns = (int64_t)rng_below(&r, 4),
                                     .capacity = 1 + (uint32_t)rng_below(&r, 4)};
    for (uint32_t l = 0; l < PEERS * PEERS; l++) {
        s->latency[l] = (int64_t)rng_below(&r, 4);
        s->transfer[l] = (int64_t)rng_below(&r, 30);
    }
    s->p.link = rng_below(&r, 2) == 0 ? PIPELINE_PAIR : PIPELINE_PEER;
    uint32_t batches = 1 + (uint32_t)rng_below(&r, BATCHES);
    for (uint32_t m = 0; m < batches; m++) {
        uint32_t data = (uint32_t)rng_below(&r, 2);
        uint32_t path[LENGTH] = {data, 2 + (uint32_t)rng_below(&r, 2), 4 + (uint32_t)rng_below(&r, 2),
                                 6 + (uint32_t)rng_below(&r, 2), data};
        add_path(s, path);
    }
}

// The time of microbatch m in an idle swarm.
static int64_t alone(const scene *s, uint32_t m) {
    scene one = *s;
    one.p.peer = one.peer, one.p.latency_ns = one.latency, one.p.transfer_ns = one.transfer, one.p.path = one.path;
    memcpy(one.path, s->path + m * LENGTH, LENGTH * sizeof *one.path);
    one.p.microbatches = 1;
    return play(&one);
}

// Every scene ends. No microbatch is faster than in an idle swarm, no peer computes longer than the
// iteration, and all together are no slower than one after another.
static void test_random_scenes_stay_between_the_bounds(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        scene s;
        fill_at_random(&s, seed);
        int64_t time = play(&s), in_turn = 0, work = 0;
        for (uint32_t m = 0; m < s.p.microbatches; m++) {
            int64_t least = alone(&s, m);
            const uint32_t *path = s.path + m * LENGTH;
            if (s.done[m] < least || s.done[m] > time)
                fail_msg("seed %llu: %u ends too early", (unsigned long long)seed, m);
            in_turn += least;
            work += s.peer[path[0]].home_ns;
            for (uint32_t i = 0; i + 1 < LENGTH; i++) work += s.peer[path[i]].forward_ns + s.peer[path[i]].backward_ns;
        }
        for (uint32_t i = 0; i < PEERS; i++) {
            assert_true(s.busy[i] <= time);
            work -= s.busy[i];
        }
        assert_int_equal(work, 0);
        assert_true(time <= in_turn);
        assert_int_equal(play(&s), time);
    }
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    scene s;
    braid_error error = {0};
    open_scene(&s, 3, 4);
    add_path(&s, (uint32_t[]){0, 1, 2, 1});
    assert_int_equal(pipeline_run(&s.p, &s.iteration, NULL, NULL, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "ends at 1"));
    s.path[3] = 0;
    add_path(&s, (uint32_t[]){0, 2, 1, 0});
    assert_int_equal(pipeline_run(&s.p, &s.iteration, NULL, NULL, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "stage"));
    s.path[5] = 3;
    assert_int_equal(pipeline_run(&s.p, &s.iteration, NULL, NULL, &error), BRAID_ARGUMENT);
    s.p.microbatches = 1;
    assert_int_equal(pipeline_run(&s.p, &s.iteration, NULL, NULL, &error), BRAID_OK);
    s.latency[5] = -1;
    assert_int_equal(pipeline_run(&s.p, &s.iteration, NULL, NULL, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "from peer 1 to 2"));
    s.p.length = 1;
    assert_int_equal(pipeline_run(&s.p, &s.iteration, NULL, NULL, &error), BRAID_LIMIT);
}

// The swarm of the first test with a second relay on equal links. If the relay dies with a
// microbatch, or while it is on the line, the microbatch is sent again. After its arrival the other
// relay takes the backward pass, and nothing is late.
static int64_t end_with_death(int64_t dies_ns, bool goes_back) {
    scene s;
    uint32_t back[] = {0, 1, 0};
    braid_error error = {0};
    pipeline_state *now, *copy;
    open_scene(&s, 3, 3);
    s.peer[0] = (pipeline_peer){.forward_ns = 3, .backward_ns = 5, .home_ns = 7};
    s.peer[1] = s.peer[2] = (pipeline_peer){.forward_ns = 11, .backward_ns = 13, .capacity = 1};
    for (uint32_t relay = 1; relay < 3; relay++) {
        s.latency[relay] = 100, s.transfer[relay] = 1000;
        s.latency[3 * relay] = 10000, s.transfer[3 * relay] = 100000;
    }
    add_path(&s, (uint32_t[]){0, 1, 0});
    s.p.back = back;
    assert_int_equal(pipeline_open(&s.p, &now, &error), BRAID_OK);
    assert_int_equal(pipeline_open(&s.p, &copy, &error), BRAID_OK);
    assert_int_equal(pipeline_play(now, dies_ns), dies_ns);
    pipeline_lose(now, 1);
    pipeline_copy(copy, now);
    pipeline_play(copy, INT64_MAX);
    assert_false(pipeline_is_done(copy));  // the dead relay has no replacement
    assert_int_equal(pipeline_is_settled(now, 0, 1), !goes_back);
    assert_false(pipeline_is_settled(now, 0, 3));
    if (goes_back) s.path[1] = 2;
    back[1] = 2;
    int64_t end = pipeline_play(now, INT64_MAX);
    assert_true(pipeline_is_done(now));
    assert_int_equal(pipeline_done_ns(now, 0), end);
    pipeline_close(now);
    pipeline_close(copy);
    return end;
}

static void test_paths_change_after_a_death(void **state) {
    (void)state;
    int64_t out = 1100, home = 110000, all = 3 + 11 + 7 + 13 + 5 + 2 * (out + home);
    assert_int_equal(end_with_death(1110, true), 1110 + all - 3);    // it computes
    assert_int_equal(end_with_death(500, true), 500 + all - 3);      // on the line to the relay
    assert_int_equal(end_with_death(50000, true), 50000 + all - 3);  // on the line from the relay
    assert_int_equal(end_with_death(105000, false), all);            // it has left the line
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_microbatch_takes_the_sum_of_its_steps),
        cmocka_unit_test(test_replacement_on_the_backward_pass),
        cmocka_unit_test(test_transfers_of_a_link_follow_one_another),
        cmocka_unit_test(test_a_full_relay_makes_others_wait),
        cmocka_unit_test(test_longest_wait_is_served_first),
        cmocka_unit_test(test_links_by_pair_or_by_peer),
        cmocka_unit_test(test_random_scenes_stay_between_the_bounds),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_paths_change_after_a_death),
    };
    return cmocka_run_group_tests_name("training_pipeline", tests, NULL, NULL);
}
