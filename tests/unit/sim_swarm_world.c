// The world of simulated swarms, step by step: the rates of tensors on shared links, and of jobs on
// a machine.
#include "sim/swarm/inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PEERS = 4, SEEN = 8 };

static const uint64_t MEGABIT = 1000000;

// Four peers, each on its own machine, without latency.
typedef struct world {
    scenario s;
    swarm w;
    sim_cluster core;
    sim_report report;
    sim_swarm_report out;
    sim_swarm_options options;
    scenario_peer peers[PEERS];
    swarm_peer peer[PEERS];
    swarm_machine machine[PEERS];
    uint32_t on[PEERS][PEERS];
    swarm_arc *arc[PEERS * PEERS];
    // What came or was done, in order: by or for whom, and when.
    uint32_t number[SEEN];
    uint64_t at_ns[SEEN];
    uint32_t seen;
} world;

static int world_begin(void **state) {
    world *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->w = (swarm){.core = &d->core, .s = &d->s, .out = &d->out, .options = &d->options, .peer = d->peer, .peers = PEERS, .machine = d->machine, .arc = d->arc};
    d->core.report = &d->report;
    d->core.now = SWARM_BEGIN_NS;
    d->s.machines = PEERS;
    for (uint32_t i = 0; i < PEERS; i++) {
        d->peers[i].machine = i;
        d->peers[i].threads = 1;
        d->peer[i] = (swarm_peer){.s = &d->peers[i], .index = i, .node = SWARM_NO_PEER, .alive = true, .incarnation = 1};
        d->machine[i] = (swarm_machine){.cores_milli = 1000, .at_ns = SWARM_BEGIN_NS, .peer = d->on[i], .peers = 1};
        d->on[i][0] = i;
    }
    *state = d;
    return 0;
}

static int world_end(void **state) {
    world *d = *state;
    void *item;
    uint64_t at;
    while (sim_queue_take(&d->w.queue, &at, &item)) swarm_item_free(item);
    sim_queue_close(&d->w.queue);
    for (uint32_t i = 0; i < PEERS * PEERS; i++) {
        if (d->arc[i]) swarm_list_clear(&d->arc[i]->waiting);
        free(d->arc[i]);
    }
    for (uint32_t i = 0; i < PEERS; i++) swarm_list_clear(&d->peer[i].inbox);
    for (uint32_t i = 0; i < PEERS; i++) {
        free(d->machine[i].up.arc);
        free(d->machine[i].down.arc);
    }
    free(d->w.flow);
    free(d->w.touched);
    free(d->w.share);
    free(d);
    return 0;
}

static void see(world *d, uint32_t number, uint64_t now) {
    if (d->seen == SEEN) fail_msg("more than %d", SEEN);
    d->number[d->seen] = number;
    d->at_ns[d->seen++] = now - SWARM_BEGIN_NS;
}

static void assert_near(uint64_t ns, double s) {
    double got = (double)ns / 1e9;
    if (got < s - 1e-6 || got > s + 1e-6) fail_msg("%.9f s, wanted %.9f s", got, s);
}

static void assert_seen(const world *d, uint32_t count, const double s[]) {
    assert_int_equal(d->seen, count);
    for (uint32_t i = 0; i < count; i++) assert_near(d->at_ns[i], s[i]);
}

static swarm_arc *arc(world *d, uint32_t from, uint32_t to) {
    swarm_arc **slot = &d->arc[from * PEERS + to];
    if (*slot == NULL) *slot = calloc(1, sizeof **slot);
    assert_non_null(*slot);
    (*slot)->from = from;
    (*slot)->to = to;
    return *slot;
}

static void tensor(world *d, uint32_t from, uint32_t to, uint64_t bits) {
    swarm_item *item = swarm_item_new(SWARM_MESSAGE, to, 0);
    item->other = from;
    item->lane = LANE_BULK;
    item->wire_bytes = bits / 8;
    swarm_flow_add(&d->w, arc(d, from, to), item);
}

// Advances the clock of the links alone, and expects tensors to arrive at these seconds, by
// receiver.
static void expect_arrivals(world *d, uint32_t count, const double s[]) {
    void *taken;
    uint64_t at;
    d->seen = 0;
    while (sim_queue_take(&d->w.queue, &at, &taken)) {
        swarm_item *item = taken;
        d->core.now = at;
        if (item->kind == SWARM_FLOW) swarm_flow_done(&d->w, item);
        else if (item->kind == SWARM_LINES) swarm_flow_all(&d->w);
        else see(d, item->peer, at);
        swarm_item_free(item);
    }
    assert_seen(d, count, s);
}

static void test_one_tensor_uses_the_whole_link(void **state) {
    world *d = *state;
    d->machine[0].up_bps = 8 * MEGABIT;
    d->machine[1].down_bps = 100 * MEGABIT;
    tensor(d, 0, 1, 8 * MEGABIT);
    expect_arrivals(d, 1, (double[]){1.0});
}

// Two tensors leave by one link with half the rate each; when the short one is complete, the other
// gets the whole rate.
static void test_a_link_is_shared(void **state) {
    world *d = *state;
    d->machine[0].up_bps = 8 * MEGABIT;
    tensor(d, 0, 1, 8 * MEGABIT);
    tensor(d, 0, 2, 4 * MEGABIT);
    expect_arrivals(d, 2, (double[]){1.0, 1.5});
    assert_int_equal(d->number[0], 2);
}

// A slow receiver's unused share goes to the other tensors (max-min fairness, not equal shares).
static void test_unused_rate_is_redistributed(void **state) {
    world *d = *state;
    d->machine[0].up_bps = 9 * MEGABIT;
    d->machine[1].down_bps = MEGABIT;
    tensor(d, 0, 1, 1 * MEGABIT);
    tensor(d, 0, 2, 8 * MEGABIT);
    expect_arrivals(d, 2, (double[]){1.0, 1.0});
}

// Three senders share one link, one of them slower than a third of it; the pair's own limit counts
// too.
static void test_the_receivers_link_is_shared(void **state) {
    world *d = *state;
    d->machine[3].down_bps = 10 * MEGABIT;
    d->machine[0].up_bps = 2 * MEGABIT;
    arc(d, 1, 3)->link.bps = 3 * MEGABIT;
    tensor(d, 0, 3, 2 * MEGABIT);
    tensor(d, 1, 3, 3 * MEGABIT);
    tensor(d, 2, 3, 5 * MEGABIT);
    expect_arrivals(d, 3, (double[]){1.0, 1.0, 1.0});
}

// Only the receiver's link limits two senders: half each.
static void test_two_senders_share_alike(void **state) {
    world *d = *state;
    d->machine[3].down_bps = 8 * MEGABIT;
    tensor(d, 0, 3, 8 * MEGABIT);
    tensor(d, 1, 3, 4 * MEGABIT);
    expect_arrivals(d, 2, (double[]){1.0, 1.5});
}

static void test_tensors_of_one_route_keep_their_order(void **state) {
    world *d = *state;
    d->machine[0].up_bps = 8 * MEGABIT;
    tensor(d, 0, 1, 8 * MEGABIT);
    tensor(d, 0, 1, 2 * MEGABIT);
    expect_arrivals(d, 2, (double[]){1.0, 1.25});
    assert_int_equal(d->peer[0].sending.total_ns / 1000, 1250000);
}

static void test_a_partitioned_route_pauses(void **state) {
    world *d = *state;
    d->machine[0].up_bps = 8 * MEGABIT;
    d->s.peers = PEERS;
    d->s.partitions = 1;
    d->s.partition[0] = (scenario_partition){.from.word[0] = 1, .to.word[0] = 2, .start_ns = 500000000, .stop_ns = 2500000000u};
    for (int i = 0; i < 2; i++)
        sim_queue_put(&d->w.queue, SWARM_BEGIN_NS + (i ? d->s.partition[0].stop_ns : d->s.partition[0].start_ns), swarm_item_new(SWARM_LINES, 0, 0));
    tensor(d, 0, 1, 8 * MEGABIT);
    tensor(d, 0, 2, 8 * MEGABIT);
    expect_arrivals(d, 2, (double[]){1.25, 2.5 + 0.75});
    assert_int_equal(d->number[0], 2);  // half for 0.5 s, then all
}

static void test_a_cleared_route_releases_its_rate(void **state) {
    world *d = *state;
    d->machine[0].up_bps = 8 * MEGABIT;
    tensor(d, 0, 1, 80 * MEGABIT);
    tensor(d, 0, 2, 8 * MEGABIT);
    swarm_flow_clear(&d->w, arc(d, 0, 1));
    expect_arrivals(d, 1, (double[]){1.0});
}

// ---- machines

// Advances the clock of the machines alone, and expects jobs to complete at these seconds.
static void expect_jobs(world *d, uint32_t count, const double s[]) {
    void *taken;
    uint64_t at;
    d->seen = 0;
    while (sim_queue_take(&d->w.queue, &at, &taken)) {
        swarm_item *item = taken;
        d->core.now = at;
        bool before[PEERS];
        for (uint32_t i = 0; i < PEERS; i++) before[i] = d->peer[i].task[TASK_JOB].active;
        swarm_machine_item(&d->w, item);
        for (uint32_t i = 0; i < PEERS; i++)
            if (before[i] && !d->peer[i].task[TASK_JOB].active) see(d, i, at);
        swarm_item_free(item);
    }
    assert_seen(d, count, s);
}

static void on_one_machine(world *d, uint64_t cores_milli) {
    for (uint32_t i = 0; i < PEERS; i++) {
        d->peers[i].machine = 0;
        d->on[0][i] = i;
        d->peer[i].paused = true;  // completed work waits for the paused peer
    }
    d->machine[0].peers = PEERS;
    d->machine[0].cores_milli = cores_milli;
}

static void test_cores_enough(void **state) {
    world *d = *state;
    on_one_machine(d, 2000);
    swarm_task_start(&d->w, 0, TASK_JOB, SWARM_S, 1);
    swarm_task_start(&d->w, 1, TASK_JOB, SWARM_S / 2, 1);
    expect_jobs(d, 2, (double[]){0.5, 1.0});
    assert_int_equal(d->number[0], 1);
}

// Four jobs on one and a half cores: 3/8 each until the short ones are complete.
static void test_cores_too_few(void **state) {
    world *d = *state;
    on_one_machine(d, 1500);
    for (uint32_t i = 0; i < PEERS; i++) swarm_task_start(&d->w, i, TASK_JOB, i < 2 ? 3 * SWARM_S / 8 : SWARM_S, 1);
    expect_jobs(d, 4, (double[]){1.0, 1.0, 1.0 + 0.625 / 0.75, 1.0 + 0.625 / 0.75});
}

static void test_threads_count_as_weights(void **state) {
    world *d = *state;
    on_one_machine(d, 2000);
    swarm_task_start(&d->w, 0, TASK_JOB, SWARM_S, 3);
    swarm_task_start(&d->w, 1, TASK_JOB, SWARM_S, 1);
    expect_jobs(d, 2, (double[]){2.0, 2.0});
}

static void test_a_paused_peer_receives_nothing(void **state) {
    world *d = *state;
    on_one_machine(d, 1000);
    swarm_task_start(&d->w, 0, TASK_JOB, SWARM_S, 1);
    swarm_task_start(&d->w, 1, TASK_JOB, SWARM_S, 1);
    swarm_task_stop(&d->w, 1, TASK_JOB);
    assert_true(d->peer[1].task[TASK_JOB].left_ps > 0);
    expect_jobs(d, 1, (double[]){1.0});
    uint64_t resumed = d->core.now - SWARM_BEGIN_NS;
    swarm_task_resume(&d->w, 1, TASK_JOB);
    expect_jobs(d, 1, (double[]){(double)resumed / 1e9 + 1.0});
}

#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_one_tensor_uses_the_whole_link),
        WORLD_TEST(test_a_link_is_shared),
        WORLD_TEST(test_unused_rate_is_redistributed),
        WORLD_TEST(test_the_receivers_link_is_shared),
        WORLD_TEST(test_two_senders_share_alike),
        WORLD_TEST(test_tensors_of_one_route_keep_their_order),
        WORLD_TEST(test_a_partitioned_route_pauses),
        WORLD_TEST(test_a_cleared_route_releases_its_rate),
        WORLD_TEST(test_cores_enough),
        WORLD_TEST(test_cores_too_few),
        WORLD_TEST(test_threads_count_as_weights),
        WORLD_TEST(test_a_paused_peer_receives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
