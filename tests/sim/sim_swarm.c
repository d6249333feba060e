// Whole swarms from scenarios: without faults, with churn, partitioned. The order of the list
// changes no event, and a stalled swarm is reported.
#include "sim/scenario.h"
#include "sim/swarm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const double SECOND = 1e9;

static const char quiet[] = "model: demo\n"
                            "stages: 3\n"
                            "iterations: 4\n"
                            "microbatches: 4\n"
                            "peers:\n"
                            "- {name: d, role: data, gflops: 50, count: 2, capacity: 4}\n"
                            "- {name: one, stage: 1, gflops: 50, count: 3, capacity: 4}\n"
                            "- {name: two, stage: 2, gflops: 50, count: 3, capacity: 4}\n"
                            "links: {latency_ms: 20, jitter_ms: 2, up_mbps: 50, down_mbps: 200}\n";

static void run_scenario(const scenario *s, const char *trace, sim_swarm_report *report) {
    const sim_swarm_options options = {.check = SIM_CHECK_RULES, .replay = "the command", .trace_path = trace};
    braid_error error = {0};
    if (sim_swarm_run(s, &options, report, &error) != BRAID_OK) fail_msg("%s", error.text);
}

static scenario *parse(const char *text) {
    scenario *s = NULL;
    braid_error error = {0};
    if (scenario_parse(text, strlen(text), "s.yaml", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    return s;
}

// A run of `text` with more lines and the test's seed.
static void run(const char *text, const char *more, uint64_t seed, sim_swarm_report *report) {
    char all[4096];
    snprintf(all, sizeof all, "%s%s", text, more);
    scenario *s = parse(all);
    s->seed = seed;
    run_scenario(s, NULL, report);
    scenario_free(s);
}

static void run_well(const char *text, const char *more, uint64_t seed, sim_swarm_report *report) {
    run(text, more, seed, report);
    if (report->failed) fail_msg("seed %llu: %s\n%s%s", (unsigned long long)seed, report->text, text, more);
}

static double seconds(const sim_swarm_iteration *i) { return (double)(i->end_ns - i->start_ns) / SECOND; }

static const sim_swarm_peer *peer_named(const sim_swarm_report *report, const char *name) {
    for (uint32_t i = 0; i < report->peers; i++)
        if (strcmp(report->peer[i].name, name) == 0) return &report->peer[i];
    fail_msg("no peer %s", name);
    return NULL;
}

static void test_run_without_faults(void **state) {
    (void)state;
    sim_swarm_report report;
    run_well(quiet, "", 1, &report);
    assert_int_equal(report.iterations, 4);
    assert_int_equal(report.peers, 8);
    uint64_t last = 0;
    for (uint32_t i = 0; i < report.iterations; i++) {
        const sim_swarm_iteration *it = &report.iteration[i];
        assert_int_equal(it->iteration, i);
        assert_int_equal(it->microbatches, 8);
        assert_true(it->start_ns >= last && it->close_ns > it->start_ns && it->end_ns > it->close_ns);
        assert_int_equal(it->crashes + it->joins + it->leaves + it->repairs, 0);
        assert_true(it->useful_ns > 0 && it->wasted_ns == 0);
        last = it->end_ns;
    }
    uint32_t counted = 0;
    for (uint32_t i = 0; i < report.peers; i++) {
        assert_true(report.peer[i].ever_member);
        assert_true(report.peer[i].bytes_up > 0 && report.peer[i].bytes_down > 0);
        assert_true(report.peer[i].up_share > 0 && report.peer[i].up_share < 1);
        assert_true(report.peer[i].busy_ns > 0 && report.peer[i].busy_ns + report.peer[i].idle_ns == report.peer[i].up_ns);
        counted += report.peer[i].microbatches;
    }
    assert_int_equal(counted, 4 * 8 * 3);  // each microbatch once in each stage
    assert_int_equal(peer_named(&report, "two-3")->stage, 2);
    sim_swarm_report_free(&report);
}

static const char paired[] = "model: demo\n"
                             "stages: 3\n"
                             "iterations: 12\n"
                             "microbatches: 8\n"
                             "peers:\n"
                             "- {name: d, role: data, gflops: 50, capacity: 8}\n"
                             "- {name: one, stage: 1, gflops: 50, count: 2, capacity: 8}\n"
                             "- {name: two, stage: 2, gflops: 50, count: 2, capacity: 8}\n"
                             "links: {latency_ms: 5, up_mbps: 50, down_mbps: 200, pairs: [{from: [one], to: [two], latency_ms: 200}]}\n";

// The most units that a relay of stage 1 sends to one of stage 2 after all iterations.
static uint32_t most_between_relays(const char *more) {
    const sim_swarm_options options = {.check = SIM_CHECK_LIVENESS, .replay = "the command"};
    char text[1024];
    snprintf(text, sizeof text, "%s%s", paired, more);
    scenario *s = parse(text);
    sim_swarm_report r;
    braid_error error = {0};
    if (sim_swarm_run(s, &options, &r, &error) != BRAID_OK || r.failed) fail_msg("%s%s", error.text, r.text);
    uint32_t most = 0, all = 0;
    for (uint32_t i = 0; i < r.flows; i++) {
        const sim_swarm_flow *f = &r.flow[i];
        if (r.peer[f->from].stage != 1) continue;
        all += f->units;
        if (f->units > most) most = f->units;
    }
    assert_int_equal(all, 8);
    sim_swarm_report_free(&r);
    scenario_free(s);
    return most;
}

// Two relays a stage with four units each, and slow links between them. The bottleneck objective
// uses both relays of the next stage; the sum uses the cheaper pairing alone.
static void test_bottleneck_objective_splits_the_flow(void **state) {
    (void)state;
    assert_int_equal(most_between_relays("objective: worst\n"), 2);
    assert_int_equal(most_between_relays("objective: sum\n"), 4);
    sim_swarm_report report;
    run_well(paired, "objective: worst\nchurn: {crash: 0.1, rejoin: 0.5, dies: process}\n", 3, &report);
    sim_swarm_report_free(&report);
}

static void test_names_and_seed_decide(void **state) {
    (void)state;
    static const char other_order[] = "model: demo\nstages: 3\niterations: 4\nmicrobatches: 4\n"
                                      "peers:\n"
                                      "- {name: two, stage: 2, gflops: 50, count: 3, capacity: 4}\n"
                                      "- {name: one, stage: 1, gflops: 50, count: 3, capacity: 4}\n"
                                      "- {name: d, role: data, gflops: 50, count: 2, capacity: 4}\n"
                                      "links: {latency_ms: 20, jitter_ms: 2, up_mbps: 50, down_mbps: 200}\n";
    static const char churn[] = "churn: {crash: 0.1, rejoin: 0.5, dies: process}\n";
    sim_swarm_report a, b, c;
    run_well(quiet, churn, 3, &a);
    run_well(other_order, churn, 3, &b);
    run_well(quiet, churn, 4, &c);
    assert_int_equal(a.hash, b.hash);
    assert_int_equal(a.events, b.events);
    assert_true(a.hash != c.hash);
    sim_swarm_report_free(&a);
    sim_swarm_report_free(&b);
    sim_swarm_report_free(&c);
}

static void test_lines_bound_the_swarm(void **state) {
    (void)state;
    sim_swarm_report wide, narrow;
    run_well(quiet, "", 1, &wide);
    scenario *s = parse(quiet);
    for (uint32_t i = 0; i < s->machines; i++) s->machine[i].up_bps /= 4;
    run_scenario(s, NULL, &narrow);
    scenario_free(s);
    assert_false(narrow.failed);
    double slow = seconds(&narrow.iteration[1]), fast = seconds(&wide.iteration[1]);
    assert_true(slow > 1.5 * fast && slow < 4.5 * fast);
    double narrow_up = 0, wide_up = 0;
    for (uint32_t i = 0; i < narrow.peers; i++) {
        narrow_up += narrow.peer[i].up_share;
        wide_up += wide.peer[i].up_share;
    }
    assert_true(narrow_up > wide_up);
    sim_swarm_report_free(&wide);
    sim_swarm_report_free(&narrow);
}

// Every kind of churn, for some seeds; the checkers run after every event.
static void test_churn(void **state) {
    (void)state;
    static const char *const kinds[] = {
        "churn: {crash: 0.15, rejoin: 0.5, dies: process}\n",
        // another data peer takes over
        "churn: {crash: 0.3, rejoin: 0.6, dies: process, only: [d-2, one, two]}\n",
        "churn: {crash: 0.1, rejoin: 0.3}\n",
        "churn: {sessions: {distribution: exponential, mean_s: 15, away_s: 5}}\n",
        "churn: {dies: process, sessions: {distribution: weibull, mean_s: 10, shape: 0.6, away_s: 3}}\n",
    };
    uint64_t wasted = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint64_t crashes = 0, joins = 0, repairs = 0;
        for (uint64_t seed = 1; seed <= 4; seed++) {
            sim_swarm_report report;
            run_well(quiet, kinds[k], seed, &report);
            assert_int_equal(report.iterations, 4);
            for (uint32_t i = 0; i < report.iterations; i++) {
                assert_int_equal(report.iteration[i].microbatches, 8);
                joins += report.iteration[i].joins;
                wasted += report.iteration[i].wasted_ns;
            }
            crashes += report.crashes;
            repairs += report.repairs;
            sim_swarm_report_free(&report);
        }
        if (crashes == 0 || joins == 0 || repairs == 0)
            fail_msg("%s: %llu crashes, %llu joins, %llu repairs", kinds[k], (unsigned long long)crashes, (unsigned long long)joins,
                     (unsigned long long)repairs);
    }
    assert_true(wasted > 0);
}

static void event_add(scenario *s, double at_s, const char *name, scenario_event_kind kind) {
    static scenario_event events[16];
    if (s->churn.event_count == 0) s->churn.event = events;
    for (uint32_t i = 0; i < s->peers; i++)
        if (strcmp(s->peer[i].name, name) == 0) events[s->churn.event_count++] = (scenario_event){(uint64_t)(at_s * SECOND), i, kind};
}

static void free_with_events(scenario *s) {
    s->churn.event = NULL;
    scenario_free(s);
}

static void test_scenario_events_happen(void **state) {
    (void)state;
    scenario *s = parse(quiet);
    s->iterations = 8;
    event_add(s, 1.5, "one-1", SCENARIO_PAUSE);
    event_add(s, 4, "one-1", SCENARIO_RESUME);
    event_add(s, 4.5, "two-1", SCENARIO_LEAVE);
    event_add(s, 5, "one-2", SCENARIO_KILL);
    event_add(s, 6, "one-2", SCENARIO_JOIN);
    event_add(s, 6.5, "two-2", SCENARIO_CRASH);
    event_add(s, 9, "two-1", SCENARIO_JOIN);  // it leaves at the end of an iteration
    sim_swarm_report report;
    run_scenario(s, NULL, &report);
    free_with_events(s);
    if (report.failed) fail_msg("%s", report.text);
    assert_int_equal(report.iterations, 8);
    assert_int_equal(report.crashes, 2);
    assert_int_equal(report.leaves, 1);
    assert_int_equal(peer_named(&report, "one-2")->crashes, 1);
    assert_int_equal(peer_named(&report, "one-2")->joins, 2);
    assert_int_equal(peer_named(&report, "two-1")->joins, 2);
    assert_int_equal(peer_named(&report, "two-2")->joins, 1);
    sim_swarm_report_free(&report);
}

// A peer that dies and restarts counts once in both figures, also before the run begins and across
// a rollback.
static void test_joins_and_leaves_are_counted_once(void **state) {
    (void)state;
    static const struct {
        double dies_s, comes_s;
        bool all;  // all relays: every copy of their stages' state is lost
    } cases[] = {{0.01, 0.02, false}, {0.01, 3, false}, {3, 5, false}, {3, 60, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        scenario *s = parse(quiet);
        uint64_t crashes = 0, joins = 0, each = 0;
        for (uint32_t i = s->data_peers; i < s->peers && (cases[k].all || each == 0); i++, each++) {
            event_add(s, cases[k].dies_s, s->peer[i].name, SCENARIO_KILL);
            event_add(s, cases[k].comes_s, s->peer[i].name, SCENARIO_JOIN);
        }
        sim_swarm_report report;
        run_scenario(s, NULL, &report);
        free_with_events(s);
        if (report.failed) fail_msg("case %zu: %s", k, report.text);
        for (uint32_t i = 0; i < report.iterations; i++) {
            crashes += report.iteration[i].crashes;
            joins += report.iteration[i].joins;
        }
        if (crashes != each || joins != each || report.crashes != each)
            fail_msg("case %zu: %llu and %llu crashes, %llu joins of %llu", k, (unsigned long long)crashes, (unsigned long long)report.crashes,
                     (unsigned long long)joins, (unsigned long long)each);
        sim_swarm_report_free(&report);
    }
}

static void test_partitions(void **state) {
    (void)state;
    sim_swarm_report report;
    run_well(quiet, "  # links go on\n", 1, &report);
    double calm = (double)report.virtual_ns / SECOND;
    sim_swarm_report_free(&report);
    scenario *s = parse(quiet);
    // one relay receives nothing for a while, another one's messages do not arrive
    s->partitions = 2;
    for (uint32_t i = 0; i < s->peers; i++) {
        if (strcmp(s->peer[i].name, "one-1") == 0) s->partition[0].from.word[0] |= 1u << i;
        else s->partition[0].to.word[0] |= 1u << i;
        if (strcmp(s->peer[i].name, "two-2") == 0) s->partition[1].from.word[0] |= 1u << i;
        else s->partition[1].to.word[0] |= 1u << i;
    }
    s->partition[0].start_ns = (uint64_t)(2 * SECOND);
    s->partition[0].stop_ns = (uint64_t)(6 * SECOND);
    s->partition[1].one_way = true;
    s->partition[1].start_ns = (uint64_t)(3 * SECOND);
    s->partition[1].stop_ns = (uint64_t)(20 * SECOND);
    run_scenario(s, NULL, &report);
    scenario_free(s);
    if (report.failed) fail_msg("%s", report.text);
    assert_int_equal(report.iterations, 4);
    assert_true((double)report.virtual_ns / SECOND > calm);
    sim_swarm_report_free(&report);
}

typedef struct late_joiners {
    const char *share, *gflops, *donors, *joiners, *microbatches;
} late_joiners;

// The longest time that a joiner of stage two took to fetch its state.
static double fetched_from_s(late_joiners l, double start_s) {
    char text[1024];
    sim_swarm_report report;
    snprintf(text, sizeof text,
             "model: demo\nstages: 3\niterations: 12\nmicrobatches: %s\nupload_share: %s\npeers:\n"
             "- {name: d, role: data, gflops: %s, capacity: 16}\n- {name: one, stage: 1, gflops: %s, capacity: 16}\n"
             "- {name: two, stage: 2, gflops: %s, count: %s, capacity: 4}\n- {name: late, stage: 2, gflops: %s, count: %s, capacity: 4, start_s: %.1f}\n"
             "links: {latency_ms: 5, up_mbps: 20, down_mbps: 200}\n",
             l.microbatches, l.share, l.gflops, l.gflops, l.gflops, l.donors, l.gflops, l.joiners, start_s);
    run_well(text, "", 1, &report);
    double most = 0;
    for (uint32_t i = 0; i < report.peers; i++)
        if (strncmp(report.peer[i].name, "late", 4) == 0) most = fmax(most, (double)report.peer[i].fetch_ns / SECOND);
    sim_swarm_report_free(&report);
    assert_true(most > 0);
    return most;
}

// The average over several start times, because a reduction, which nothing may delay, falls into
// some of them.
static double fetched_s(late_joiners l) {
    enum { STARTS = 6 };
    double sum = 0;
    for (int i = 0; i < STARTS; i++) sum += fetched_from_s(l, 12 + i / 2.0);
    return sum / STARTS;
}

// A joiner gets its share of a donor's line, and no more, while the donor sends tensors. An idle
// line is free for joiners, and so is all of a line if most of the stage fetches.
static void test_state_transfer_keeps_the_upload_share(void **state) {
    (void)state;
    double whole = fetched_s((late_joiners){"100", "1000", "2", "1", "32"}), tenth = fetched_s((late_joiners){"10", "1000", "2", "1", "32"});
    double calm = fetched_s((late_joiners){"100", "1", "2", "1", "16"}), spare = fetched_s((late_joiners){"10", "1", "2", "1", "16"});
    double freely = fetched_s((late_joiners){"100", "1", "1", "2", "16"}), urgent = fetched_s((late_joiners){"10", "1", "1", "2", "16"});
    print_message("%.1f s from whole lines, %.1f s from a tenth; %.1f and %.1f s of lines that are idle most of the time; to most of a stage %.1f s, and "
                  "%.1f s from whole lines\n",
                  whole, tenth, calm, spare, urgent, freely);
    assert_true(tenth > 3 * whole);
    assert_true(spare < 2.5 * calm);
    assert_true(urgent < 1.5 * freely);
}

// Two members of a stage with some 42.5 million parameters exchange half of the exact sums, 8 bytes
// each, and half of the results, 4 bytes each: 255 MB at 5 MB/s. No chunk crosses a slow line twice
// because its first copy is late.
static void test_slow_reduction_sends_each_chunk_once(void **state) {
    (void)state;
    static const char text[] =
        "model: gpt2-small\nstages: 3\niterations: 2\nmicrobatches: 4\npeers:\n"
        "- {name: data, role: data, gflops: 4000, capacity: 4}\n"
        "- {name: one, stage: 1, gflops: 4000, capacity: 4, up_mbps: 1000, down_mbps: 1000}\n"
        "- {name: two, count: 2, stage: 2, gflops: 4000, capacity: 4, up_mbps: 40, down_mbps: 1000}\n"
        "links: {latency_ms: 20, up_mbps: 1000, down_mbps: 1000}\n";
    sim_swarm_report report;
    run_well(text, "", 1, &report);
    for (uint32_t i = 0; i < report.iterations; i++) {
        double reduction_s = (double)(report.iteration[i].end_ns - report.iteration[i].close_ns) / SECOND;
        print_message("the reduction of iteration %u took %.1f s\n", i, reduction_s);
        assert_true(reduction_s > 50 && reduction_s < 54);
    }
    sim_swarm_report_free(&report);
}

// Connections break without deaths: everything is done all the same, and some work is repeated.
static void test_broken_links(void **state) {
    (void)state;
    uint64_t repairs = 0;
    // 965: after each broken link the wait for its tensors became longer
    static const uint64_t seeds[] = {1, 2, 3, 4, 7, 17, 965};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        uint64_t seed = seeds[i];
        sim_swarm_report report;
        scenario *s = parse(quiet);
        s->seed = seed;
        s->resets = 6000;
        run_scenario(s, NULL, &report);
        scenario_free(s);
        if (report.failed) fail_msg("seed %llu: %s", (unsigned long long)seed, report.text);
        assert_int_equal(report.iterations, 4);
        assert_int_equal(report.crashes, 0);
        repairs += report.repairs;
        sim_swarm_report_free(&report);
    }
    assert_true(repairs > 0);
}

// All of a stage are gone: a peer of another stage replaces them, and their work is repeated.
static void test_relay_moves_to_an_empty_stage(void **state) {
    (void)state;
    static const char *const all[] = {"two-1", "two-2", "two-3"};
    scenario *s = parse(quiet);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) event_add(s, 3, all[i], SCENARIO_KILL);
    sim_swarm_report report;
    run_scenario(s, NULL, &report);
    free_with_events(s);
    if (report.failed) fail_msg("%s", report.text);
    assert_int_equal(report.crashes, 3);
    sim_swarm_report_free(&report);
}

static void test_stalled_swarm_fails(void **state) {
    (void)state;
    static const char *const all[] = {"one-1", "one-2", "one-3", "two-1", "two-2", "two-3"};
    scenario *s = parse(quiet);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) event_add(s, 3, all[i], SCENARIO_KILL);
    sim_swarm_report report;
    run_scenario(s, NULL, &report);
    free_with_events(s);
    assert_true(report.failed);
    assert_non_null(strstr(report.text, "iteration 0 makes no progress"));
    assert_non_null(strstr(report.text, "no peer has worked in stage 1 since one-1 died at 3.0 s: keep another peer there"));
    assert_string_equal(report.replay, "the command");
    assert_true(report.iterations < 4);
    sim_swarm_report_free(&report);
}

// One peer a stage; `two` cannot work. The report names it and the time.
static void expect_stuck(const char *more, bool paused, const char *words) {
    static const char lone[] = "model: demo\nstages: 3\niterations: 4\nmicrobatches: 8\npeers:\n- {name: d, role: data, gflops: 100}\n"
                               "- {name: one, stage: 1, gflops: 4}\n- {name: two%s, gflops: 4}\n%s";
    bool placed = strstr(words, "ever") == NULL;
    char text[1024];
    snprintf(text, sizeof text, lone, placed ? ", stage: 2" : "", more);
    scenario *s = parse(text);
    if (paused) {
        event_add(s, 1, "one", SCENARIO_PAUSE);
        event_add(s, 2, "one", SCENARIO_RESUME);
        event_add(s, 3, "two", SCENARIO_PAUSE);
    }
    sim_swarm_report report;
    run_scenario(s, NULL, &report);
    free_with_events(s);
    assert_true(report.failed);
    if (strstr(report.text, words) == NULL) fail_msg("'%s' does not hold '%s'", report.text, words);
    sim_swarm_report_free(&report);
}

static void test_stall_report_names_the_peer(void **state) {
    (void)state;
    expect_stuck("", true, "no peer has worked in stage 2 since two was paused at 3.0 s: keep another peer there, or let this one come back");
    expect_stuck("links: {partitions: [{from: two, start_s: 3, stop_s: 9000}]}\n", false,
                 "no peer has worked in stage 2 since two was cut off at 3.0 s: keep another peer there, or end the partition");
    expect_stuck("links: {partitions: [{from: two}]}\n", false,
                 "the run does not start, nothing has happened since 0.2 s; no peer has worked in stage 2 since two was cut off at 0.0 s");
    expect_stuck("links: {partitions: [{from: two}]}\n", false, "no peer has ever reached stage 2: does a partition cut off those");
    expect_stuck("links: {partitions: [{from: one, to: two, start_s: 3}]}\n", false,
                 "every stage has a live peer; does a partition keep them from each other?");
}

// Peers that share a machine slow each other down; with a core each they do not.
static void test_machines_are_shared(void **state) {
    (void)state;
    static const char shared[] = "model: demo\nstages: 3\niterations: 4\nmicrobatches: 16\n"
                                 "machines: [{name: box, cores: 4}]\n"
                                 "peers:\n"
                                 "- {name: d, role: data, gflops: 1, capacity: 8, machine: box}\n"
                                 "- {name: one, stage: 1, gflops: 1, capacity: 8, machine: box}\n"
                                 "- {name: two, stage: 2, gflops: 1, capacity: 8, machine: box}\n";
    sim_swarm_report report;
    run_well(shared, "", 1, &report);
    double alone = seconds(&report.iteration[2]);
    sim_swarm_report_free(&report);
    scenario *s = parse(shared);
    s->machine[0].cores = 0.5;
    run_scenario(s, NULL, &report);
    scenario_free(s);
    assert_false(report.failed);
    double crowded = seconds(&report.iteration[2]);
    uint64_t busy = 0, up = report.peer[0].up_ns;
    for (uint32_t i = 0; i < report.peers; i++) busy += report.peer[i].busy_ns;
    assert_true(crowded > 2 * alone && crowded < 7 * alone);
    assert_true(busy > up);  // waiting for a core counts as busy
    sim_swarm_report_free(&report);
}

static void test_real_kernels(void **state) {
    (void)state;
    sim_swarm_report report;
    run_well(quiet, "compute: kernels\nchurn: {crash: 0.1, rejoin: 0.5, dies: process}\n", 2, &report);
    assert_int_equal(report.iterations, 4);
    sim_swarm_report_free(&report);
}

static void test_unwritable_paths_are_reported(void **state) {
    (void)state;
    scenario *s = parse(quiet);
    const sim_swarm_options options = {.trace_path = "/nowhere/at/all.json"};
    sim_swarm_report report;
    braid_error error = {0};
    assert_int_equal(sim_swarm_run(s, &options, &report, &error), BRAID_IO);
    assert_non_null(strstr(error.text, "/nowhere/at/all.json"));
    sim_swarm_report_free(&report);
    scenario_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_without_faults),
        cmocka_unit_test(test_bottleneck_objective_splits_the_flow),
        cmocka_unit_test(test_names_and_seed_decide),
        cmocka_unit_test(test_lines_bound_the_swarm),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_scenario_events_happen),
        cmocka_unit_test(test_joins_and_leaves_are_counted_once),
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_state_transfer_keeps_the_upload_share),
        cmocka_unit_test(test_slow_reduction_sends_each_chunk_once),
        cmocka_unit_test(test_broken_links),
        cmocka_unit_test(test_relay_moves_to_an_empty_stage),
        cmocka_unit_test(test_stalled_swarm_fails),
        cmocka_unit_test(test_stall_report_names_the_peer),
        cmocka_unit_test(test_machines_are_shared),
        cmocka_unit_test(test_real_kernels),
        cmocka_unit_test(test_unwritable_paths_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
