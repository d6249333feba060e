// The reader of scenarios: what a file means, what follows from it, and what is said of each mistake.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/places.h"
#include "sim/scenario.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char small[] = "name: small\n"
                            "seed: 7\n"
                            "iterations: 5\n"
                            "model: demo\n"
                            "stages: 3\n"
                            "microbatches: 4\n"
                            "peers:\n"
                            "- {name: anna, role: data, gflops: 100}\n"
                            "- {name: first, stage: 1, gflops: 50, capacity: 2}\n"
                            "- {name: second, stage: 2, gflops: 50, count: 2}\n";

static scenario *parse(const char *text) {
    scenario *s = NULL;
    braid_error error = {0};
    if (scenario_parse(text, strlen(text), "s.yaml", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    return s;
}

static void expect_refused(const char *text, const char *message) {
    scenario *s = NULL;
    braid_error error = {0};
    if (scenario_parse(text, strlen(text), "s.yaml", NULL, &s, &error) != BRAID_CONFIG)
        fail_msg("accepted, not '%s'", message);
    assert_null(s);
    assert_text_holds(error.text, message);
}

// `small` with its first `old` replaced.
static const char *changed(const char *old, const char *new) { return text_changed(small, old, new); }

static const char *with(const char *more) {
    static char text[4096];
    snprintf(text, sizeof text, "%s%s", small, more);
    return text;
}

static void test_small(void **state) {
    (void)state;
    scenario *s = parse(small);
    assert_string_equal(s->name, "small");
    assert_int_equal(s->seed, 7);
    assert_int_equal(s->iterations, 5);
    assert_int_equal(s->microbatches, 4);
    assert_int_equal(s->stages, 3);
    assert_int_equal(s->stage[0].blocks, 0);
    assert_int_equal(s->stage[1].blocks, 3);
    assert_int_equal(s->activation_bytes, 128 * 128 * 4);
    assert_int_equal(s->peers, 4);
    assert_int_equal(s->data_peers, 1);
    assert_string_equal(s->peer[2].name, "second-1");
    assert_string_equal(s->peer[3].name, "second-2");
    assert_string_equal(s->peer[3].group, "second");
    assert_int_equal(s->peer[0].capacity, 4);
    assert_int_equal(s->peer[1].capacity, 2);
    assert_int_equal(s->peer[2].capacity, 4);
    assert_int_equal(s->machines, 4);
    assert_string_equal(s->machine[s->peer[3].machine].name, "second-2");
    assert_int_equal(s->machine[0].up_bps, 100000000);
    assert_int_equal(s->routing, ROUTING_BRAID);
    assert_int_equal(s->objective, ROUTER_SUM);
    assert_true(s->reproducible);
    assert_int_equal(s->churn.event_count, 0);
    scenario_free(s);
}

// The sums are those of the model's own layout.
static void test_sizes(void **state) {
    (void)state;
    scenario *s = parse(changed("model: demo", "model: {preset: gpt2-small, sequences: 2, tokens: 512}"));
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < s->stages; i++) parameters += s->stage[i].parameters;
    assert_int_equal(parameters, 124439808);  // as published
    assert_int_equal(s->activation_bytes, 2 * 512 * 768 * 4);
    double products = 2.0 * 1024 * 12 * 768 * 768 * 6, attention = 2.0 * 1024 * 512 * 768 * 6;
    assert_true(s->stage[1].forward_flops == products + attention);
    assert_true(s->stage[1].backward_flops == products + 2 * attention);
    assert_true(s->stage[1].weight_flops == products);
    assert_true(s->stage[0].loss_flops == 4.0 * 1024 * 768 * 50257);
    assert_int_equal(scenario_cost_ns(s, 1, 1, WORK_WEIGHT), (uint64_t)(products / 50e9 * 1e9));
    scenario_free(s);
}

static void test_speeds(void **state) {
    (void)state;
    scenario *s = parse(changed("stage: 1, gflops: 50", "stage: 1, forward_ms: 20, weight_ms: 35"));
    assert_int_equal(scenario_cost_ns(s, 1, 1, WORK_FORWARD), 20000000);
    assert_int_equal(scenario_cost_ns(s, 1, 1, WORK_WEIGHT), 35000000);
    double more = s->stage[1].backward_flops / s->stage[1].forward_flops;
    assert_true(llabs((int64_t)scenario_cost_ns(s, 1, 1, WORK_BACKWARD) - (int64_t)(20000000 * more)) <= 1);
    scenario_free(s);
    s = parse(changed("gflops: 100", "loss_ms: 8"));
    assert_int_equal(scenario_cost_ns(s, 0, 0, WORK_LOSS), 8000000);
    assert_int_equal(scenario_cost_ns(s, 0, 0, WORK_WEIGHT), 4000000);
    scenario_free(s);
}

static void test_stages_by_name(void **state) {
    (void)state;
    scenario *s = parse("model: demo\n"
                        "stages: [{name: ends, blocks: 0, next: low}, {name: high, blocks: 2, next: ends}, {name: low, "
                        "blocks: 4, next: high}]\n"
                        "peers: [{name: a, role: data, gflops: 1}, {name: b, stage: low, gflops: 1}, {name: c, stage: "
                        "2, gflops: 1}]\n");
    assert_string_equal(s->stage[1].name, "low");
    assert_int_equal(s->stage[1].blocks, 4);
    assert_string_equal(s->stage[2].name, "high");
    assert_int_equal(s->peer[1].stage, 1);
    assert_int_equal(s->peer[2].stage, 2);
    scenario_free(s);
    s = parse(changed("stages: 3", "stages: [1, 2, 3]"));
    assert_int_equal(s->stage[0].blocks, 1);
    assert_int_equal(s->stage[2].blocks, 3);
    scenario_free(s);
}

static void test_machines_and_places(void **state) {
    (void)state;
    scenario *s = parse("model: demo\nstages: 2\n"
                        "machines:\n- {name: tower, cores: 8, place: London, up_mbps: 40, latency_ms: 5}\n"
                        "peers:\n- {name: a, role: data, machine: tower, gflops: 1}\n"
                        "- {name: b, machine: tower, threads: 4, gflops: 1}\n- {name: c, place: Tokyo, gflops: 1}\n"
                        "- {name: d, gflops: 1, latency_ms: 7}\n"
                        "links: {latency_ms: 30, jitter_ms: 1, down_mbps: 250, pairs: [{between: [Tokyo, Tokyo], mbps: 5}]}\n");
    scenario_link link;
    assert_int_equal(s->peer[0].machine, s->peer[1].machine);
    assert_true(s->machine[0].cores == 8.0);
    assert_int_equal(s->machine[0].up_bps, 40000000);
    assert_int_equal(s->machine[0].down_bps, 250000000);
    scenario_link_of(s, 0, 1, &link);  // one machine
    assert_true(link.latency_ns < 1000000 && link.bps == 0);
    scenario_link_of(s, 0, 2, &link);  // two places
    assert_int_equal(link.latency_ns, 210000000 + 5000000);
    assert_int_equal(link.bps, 366000000);
    assert_int_equal(link.jitter_ns, 1000000);
    scenario_link_of(s, 3, 0, &link);  // a place and none
    assert_int_equal(link.latency_ns, 42000000);
    assert_int_equal(link.bps, 0);
    assert_int_equal(s->peer[3].stage, SCENARIO_ANY_STAGE);
    scenario_free(s);
}

static void test_pairs_and_partitions(void **state) {
    (void)state;
    scenario *s = parse(with("links:\n  pairs:\n  - {between: [anna, second], latency_ms: 3}\n"
                             "  - {from: anna, to: second-2, mbps: 8, jitter_ms: 0}\n"
                             "  - {between: [second, second], latency_ms: 9}\n"
                             "  partitions:\n  - {from: first, start_s: 10, stop_s: 20}\n"
                             "  - {from: [anna, first], to: second-1, one_way: true, start_s: 30}\n"));
    scenario_link link;
    scenario_link_of(s, 2, 0, &link);
    assert_int_equal(link.latency_ns, 3000000);
    assert_int_equal(link.jitter_ns, 2000000);
    scenario_link_of(s, 0, 3, &link);
    assert_int_equal(link.latency_ns, 3000000);
    assert_int_equal(link.jitter_ns, 0);
    assert_int_equal(link.bps, 8000000);
    scenario_link_of(s, 3, 0, &link);
    assert_int_equal(link.bps, 0);
    scenario_link_of(s, 2, 3, &link);  // within a group
    assert_int_equal(link.latency_ns, 9000000);
    const uint64_t second = 1000000000;
    assert_false(scenario_cut(s, 1, 0, 9 * second));
    assert_true(scenario_cut(s, 1, 0, 10 * second));
    assert_true(scenario_cut(s, 3, 1, 15 * second));
    assert_false(scenario_cut(s, 0, 2, 15 * second));
    assert_false(scenario_cut(s, 1, 0, 20 * second));
    assert_true(scenario_cut(s, 1, 2, 31 * second));
    assert_false(scenario_cut(s, 2, 1, 31 * second));
    scenario_free(s);
}

static void test_churn(void **state) {
    (void)state;
    scenario *s = parse(
        with("churn: {crash: 0.1, rejoin: 0.5, dies: process, only: second, sessions: {distribution: weibull, mean_s: "
             "3600, shape: 0.6, away_s: 60}}\n"));
    assert_true(s->churn.crash == 0.1 && s->churn.rejoin == 0.5 && s->churn.kill);
    assert_int_equal(s->churn.sessions, SESSIONS_WEIBULL);
    assert_int_equal(s->churn.session_mean_ns / 1000000000, 3600);
    assert_int_equal(s->churn.away_mean_ns / 1000000000, 60);
    assert_false(scenario_set_has(&s->churn.who, 0));
    assert_false(scenario_set_has(&s->churn.who, 1));
    assert_true(scenario_set_has(&s->churn.who, 2));
    scenario_free(s);
}

static void test_one_more(void **state) {
    (void)state;
    scenario *s = parse(small), *more = NULL;
    assert_int_equal(scenario_with_one_more(s, 2, 1, &more, NULL), BRAID_OK);
    assert_int_equal(more->peers, 5);
    assert_int_equal(more->peer[4].stage, 1);
    assert_string_equal(more->peer[4].name, "one-more");
    assert_int_equal(more->peer[4].machine, 4);
    assert_int_equal(s->peers, 4);
    scenario_free(more);
    scenario_free(s);
    s = parse(
        with("links: {pairs: [{from: [anna, first], to: second-2, mbps: 8}]}\nchurn: {only: [first, second-2]}\n"));
    assert_int_equal(scenario_with_one_more(s, 3, 1, &more, NULL), BRAID_OK);
    scenario_link link;
    scenario_link_of(more, 1, 4, &link);
    assert_int_equal(link.bps, 8000000);
    assert_true(scenario_set_has(&more->churn.who, 4));
    scenario_free(more);
    assert_int_equal(scenario_with_one_more(s, 0, 0, &more, NULL), BRAID_OK);
    assert_int_equal(more->data_peers, 2);
    assert_string_equal(more->peer[1].name, "one-more");
    assert_true(more->peer[1].data);
    assert_string_equal(more->peer[4].name, "second-2");
    scenario_link_of(more, 1, 4, &link);
    assert_int_equal(link.bps, 8000000);
    scenario_link_of(more, 1, 3, &link);
    assert_int_equal(link.bps, 0);
    assert_false(scenario_set_has(&more->churn.who, 1));
    assert_true(scenario_set_has(&more->churn.who, 2) && scenario_set_has(&more->churn.who, 4));
    scenario_free(more);
    scenario_free(s);
}

// ---- files that are named

static void write_file(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static char folder[] = "/tmp/braid-scenario-XXXXXX";
static const char *in_folder(const char *name) {
    static char path[2][128];
    static int turn;
    snprintf(path[turn ^= 1], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"s.yaml", "trace.txt", "run.yaml"};
    for (size_t i = 0; i < 3; i++) unlink(in_folder(names[i]));
    return rmdir(folder);
}

static void expect_trace_refused(const char *trace, const char *message) {
    scenario *s = NULL;
    braid_error error = {0};
    write_file(in_folder("trace.txt"), trace);
    write_file(in_folder("s.yaml"), with("churn: {trace: trace.txt}\n"));
    assert_int_equal(scenario_load(in_folder("s.yaml"), &s, &error), BRAID_CONFIG);
    assert_text_holds(error.text, message);
}

static void test_trace_file(void **state) {
    (void)state;
    scenario *s = NULL;
    braid_error error = {0};
    write_file(in_folder("trace.txt"),
               "# time peer event\n9 second-1 join\n2.5\tfirst crash # gone\r\n\n9 first join\n3 second-2 kill");
    write_file(in_folder("s.yaml"), with("churn: {trace: trace.txt}\n"));
    if (scenario_load(in_folder("s.yaml"), &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    assert_int_equal(s->churn.event_count, 4);
    assert_int_equal(s->churn.event[0].at_ns, 2500000000);
    assert_int_equal(s->churn.event[0].peer, 1);
    assert_int_equal(s->churn.event[0].kind, SCENARIO_CRASH);
    assert_int_equal(s->churn.event[1].kind, SCENARIO_KILL);
    assert_int_equal(s->churn.event[2].peer, 2);  // at one time as in the file
    assert_int_equal(s->churn.event[3].peer, 1);
    scenario *more = NULL;
    assert_int_equal(scenario_with_one_more(s, 1, 1, &more, NULL), BRAID_OK);
    assert_int_equal(more->churn.event_count, 4);
    scenario_free(more);
    assert_int_equal(scenario_with_one_more(s, 0, 0, &more, NULL), BRAID_OK);
    assert_int_equal(more->churn.event[0].peer, 2);
    assert_int_equal(s->churn.event[0].peer, 1);
    scenario_free(more);
    scenario_free(s);
    expect_trace_refused("1 first crash\n2 first\n", "trace.txt:2: write 'SECONDS PEER EVENT'");
    expect_trace_refused("1 first crash\n2 firts crash\n",
                         "trace.txt:2: nobody is called 'firts'; did you mean 'first'?");
    expect_trace_refused("1 anna crash\n", "trace.txt:1: 'anna' leads the run, being the first data peer by name");
    expect_trace_refused("1 first crahs\n", "trace.txt:1: unknown event 'crahs'; did you mean 'crash'?");
    expect_trace_refused("-1 first crash\n", "trace.txt:1: '-1' is no time");
}

static void test_run_description(void **state) {
    (void)state;
    scenario *s = NULL;
    braid_error error = {0};
    write_file(in_folder("run.yaml"),
               "stages: [1, 2, 3]\nmodel: {dim: 64, layers: 6, heads: 4}\ndata: {text: none.txt}\n"
               "train: {microbatches: 6, sequences: 3, tokens: 32, mode: fast}\nswarm: {routing: gwtf, objective: worst}\n");
    write_file(in_folder("s.yaml"),
               "model: {run: run.yaml}\npeers: [{name: a, role: data, gflops: 1}, {name: b, gflops: 1, count: 2}]\n");
    if (scenario_load(in_folder("s.yaml"), &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    assert_int_equal(s->stages, 3);
    assert_int_equal(s->stage[2].blocks, 3);
    assert_string_equal(s->name, "s");  // the file's
    assert_int_equal(s->microbatches, 6);
    assert_int_equal(s->peer[0].capacity, 6);
    assert_int_equal(s->activation_bytes, 3 * 32 * 64 * 4);
    assert_false(s->reproducible);
    assert_int_equal(s->routing, ROUTING_GWTF);
    assert_int_equal(s->objective, ROUTER_BOTTLENECK);
    scenario_free(s);
    write_file(in_folder("run.yaml"), "model: {dim: wide, layers: 6, heads: 4}\n");
    assert_int_equal(scenario_load(in_folder("s.yaml"), &s, &error), BRAID_CONFIG);
    assert_text_holds(error.text, "run.yaml:1:14: model.dim must be a whole number, not 'wide'");
    unlink(in_folder("run.yaml"));
    assert_int_equal(scenario_load(in_folder("s.yaml"), &s, &error), BRAID_CONFIG);
    assert_text_holds(error.text, "s.yaml:1:14: model.run: cannot read");
    assert_int_equal(scenario_load(in_folder("nowhere.yaml"), &s, &error), BRAID_IO);
    assert_text_holds(error.text, "nowhere.yaml': No such file or directory");
}

// ---- mistakes

// What is said when `old` in the small scenario is `new`, or when `new` is added to it.
typedef struct mistake {
    const char *old, *new, *message;
} mistake;

static void expect_mistakes(const mistake m[], size_t count) {
    for (size_t i = 0; i < count; i++)
        expect_refused(m[i].old == NULL ? with(m[i].new) : changed(m[i].old, m[i].new), m[i].message);
}

static void test_mistakes_of_the_file(void **state) {
    (void)state;
    expect_refused(changed("iterations", "iteratoins"),
                   "s.yaml:3:1: unknown key 'iteratoins'; did you mean 'iterations'?");
    expect_refused(changed("iterations: 5", "iterations: many"),
                   "s.yaml:3:13: iterations must be a whole number, not 'many'");
    expect_refused(changed("iterations: 5", "iterations: 10001"),
                   "s.yaml:3:13: iterations must be from 1 to 10000, not 10001");
    expect_refused(changed("seed: 7", "seed: -1"), "s.yaml:2:7: seed must be a whole number");
    expect_refused(changed("microbatches: 4", "microbatches: 2000"),
                   "s.yaml:6:15: microbatches must be from 1 to 1024");
    expect_refused(changed("name: small", "name: a b"), "s.yaml:1:7: name: 'a b' is no name: use letters");
    expect_refused(with("routing: shortest\n"),
                   "s.yaml:11:10: routing must be braid, gwtf, swarm or cheapest, not 'shortest'");
    expect_refused(with("objective: best\n"), "s.yaml:11:12: objective must be sum or worst, not 'best'");
    expect_refused(with("routing: cheapest\nobjective: worst\n"),
                   "s.yaml:12:12: objective is for the routings braid and gwtf, not for 'cheapest': leave it out");
    expect_refused(with("routing: gwtf\nplan_first: true\n"),
                   "s.yaml:12:13: plan_first is for the routing braid with the objective sum: leave it out, or choose those");
    expect_refused(with("compute: [1]\n"), "s.yaml:11:10: compute must be model or kernels, not a list");
    expect_refused(with("mode: quick\n"), "s.yaml:11:7: mode must be reproducible or fast, not 'quick'");
    expect_refused("- a\n- b\n", "s.yaml:1:1: a list of 'key: value' lines is expected here");
    expect_refused("", "s.yaml:1:1: model is missing: add for example 'model: gpt2-small'");
    expect_refused("model: demo\n", "stages is missing");
    expect_refused("model: demo\nstages: 2\n", "peers is missing: add a list of them");
    expect_refused(with("peers: []\n"), "key 'peers' is given twice");
}

static void test_mistakes_of_the_model(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {"demo", "gpt2-smal", "s.yaml:4:8: model: no model 'gpt2-smal' is built in; did you mean 'gpt2-small'?"},
        {"demo", "{preset: elephant}", "choose one of demo, gpt2-small"},
        {"demo", "{preset: demo, dims: 3}", "unknown key 'dims' in 'model'; did you mean 'dim'?"},
        {"demo", "{dim: 64, heads: 4}", "model.layers is missing: add for example 'layers: 6' under 'model:'"},
        {"demo", "{dim: 64, heads: 3, layers: 2}", "s.yaml:4:8: model: dim (64) must be a multiple of heads (3)"},
        {"demo", "{preset: demo, tokens: 200}", "model.tokens is 200 but the model's context is 128: lower it"},
        {"demo", "{preset: llama-7b, sequences: 64}", "are too much for one microbatch"},
        {"demo", "{preset: demo, run: x.yaml}", "'preset' and 'run' both say what the model is"},
        {"demo", "{run: x.yaml}", "no other file can be named here"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void test_mistakes_of_stages(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {"stages: 3", "stages: 4", "s.yaml:8:1: stage 3 has no peer: add one with 'stage: 3'"},
        {"stages: 3", "stages: 9", "8 stages of relays share 6 layers, and each needs one: write at most 'stages: 7'"},
        {"stages: 3", "stages: 0", "stages must be from 1 to 64, not 0"},
        {"stages: 3", "stages: 1", "peers[first] is a relay, but the model is one stage"},
        {"stages: 3", "stages: [0, 2, 2]", "stages have 4 blocks in all but the model at line 4 has 6 layers"},
        {"stages: 3", "stages: [0, 6, 0]", "s.yaml:5:16: stages must be from 1 to 1024, not 0"},
        {"stage: 1", "stage: 3",
         "s.yaml:9:24: peers[first].stage: there is no stage '3': stages of relays are 1 to 2 (line 5)"},
        {"stage: 1", "stage: 0", "peers[first].stage: stage 0 is the data peers': choose 1 to 2"},
        {"role: data", "role: data, stage: 1", "peers[anna] is a data peer, which holds stage 0: leave 'stage' out"},
        {"role: data", "stage: 1", "stage 0 has no peer: somebody must have the data; add one with 'role: data'"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void test_mistakes_of_stage_names(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {"stages: 3", "stages: [{name: a}, {name: b, next: c}, {name: c, next: b}]",
         "s.yaml:5:37: stages go round in a circle (b -> c -> b): each is passed once; leave 'next' out at "
         "the last one"},
        {"stages: 3", "stages: [{name: a, next: b}, {name: b, next: b}]", "stages go round in a circle (b -> b)"},
        {"stages: 3", "stages: [{name: a, next: c}, {name: b}, {name: c}]", "no stage leads to 'b'"},
        {"stages: 3", "stages: [{name: a, next: beta}, {name: bet}]", "no stage is called 'beta'; did you mean 'bet'?"},
        {"stages: 3", "stages: [{name: a}, {name: a}]", "two stages are called 'a'"},
        {"stages: 3", "stages: [{name: a}, {blocks: 2}]", "stages[2].name is missing"},
        {"stages: 3", "stages: [{name: a}, {name: b, blocks: 6}, {name: c}]",
         "stages[c].blocks is missing: give it for every stage, or for none"},
        {"stages: 3", "stages: [{name: a}, {name: b, after: a}]",
         "s.yaml:5:31: unknown key 'after' in 'stages[b]'; choose one of name, blocks, next"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void test_mistakes_of_peers(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {"capacity: 2", "capacity: 0", "s.yaml:9:49: peers[first].capacity must be from 1 to 1024, not 0"},
        {"capacity: 2", "capactiy: 2",
         "s.yaml:9:39: unknown key 'capactiy' in 'peers[first]'; did you mean 'capacity'?"},
        {"capacity: 2", "bandwidth: 2",
         "s.yaml:9:39: unknown key 'bandwidth' in 'peers[first]'; choose one of name, count, role, stage, capacity"},
        {"name: first", "name: anna", "s.yaml:9:10: peers[anna].name: 'anna' is taken already"},
        {"name: first", "name: second-2", "'second-2' is taken already"},
        {"name: first, ", "", "s.yaml:9:3: peers[2].name is missing: add for example 'name: anna'"},
        {"role: data", "role: boss", "peers[anna].role must be relay or data, not 'boss'"},
        {"gflops: 100", "place: Atlantis", "no place 'Atlantis' is known; choose one of Oregon"},
        {"gflops: 100", "place: Londn", "peers[anna].place: no place 'Londn' is known; did you mean 'London'?"},
        {"gflops: 50, capacity: 2", "capacity: 2", "peers[first]: how fast does it compute? add 'gflops: 500'"},
        {"gflops: 100", "forward_ms: 3",
         "peers[anna]: how fast does it compute? add 'gflops: 500' (what it reaches, in "
         "thousand million operations a second), or 'loss_ms: 80'"},
        {"gflops: 50", "gflops: 0", "peers[first].gflops must be from 0.001 to 1e+09, not 0"},
        {"gflops: 50", "loss_ms: 5", "peers[first].loss_ms: only data peers compute the loss"},
        {"gflops: 50", "gflops: 50, machine: tower",
         "there is no machine 'tower': add '- {name: tower, cores: 8}' under 'machines:'"},
        {"gflops: 100", "gflops: 100, start_s: 5", "peers[anna].start_s: data peers are there from the start"},
        {"gflops: 50", "gflops: 50, start_s: 5", "stage 1 has no peer from the start"},
        {"gflops: 50", "gflops: 50, count: 2, start_s: trace", "stage 1 has no peer from the start"},
        {NULL, "- {name: third, gflops: 5, start_s: trace}\n",
         "'third' has 'start_s: trace', but no trace under 'churn:' lets it join"},
        {"count: 2", "count: 65", "stage 2 has 65 peers, at most 64 are allowed"},
        {"count: 2", "count: 513", "peers[second].count must be from 1 to 512, not 513"},
        {NULL, "- {name: many, count: 509, gflops: 1}\n", "s.yaml:11:3: more than 512 peers"},
        {NULL, "- {name: more, count: 126, gflops: 1}\n",
         "126 relays without 'stage' are more than the stages have room for"},
        {NULL, "- {name: more, role: data, count: 8, gflops: 1}\n", "more than 8 data peers: make the others relays"},
        {NULL, "- {name: a-name-that-is-much-longer-than-it-may-be}\n", "is longer than 31 bytes"},
        {"peers:\n- {name: anna, role: data, gflops: 100}\n- {name: first, stage: 1, gflops: 50, capacity: 2}\n"
         "- {name: second, stage: 2, gflops: 50, count: 2}\n", "peers:\n",
         "s.yaml:7:1: peers must be a list: begin each of its items with '- '"},
        {NULL, "- just text\n", "s.yaml:11:3: peers[4] must be a group of keys, not 'just text'"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void test_mistakes_of_machines(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {NULL, "machines: [{name: a}]\n", "machines[a].cores is missing"},
        {NULL, "machines: [{name: a, cores: 0}]\n", "machines[a].cores must be from 0.01 to 1024, not 0"},
        {NULL, "machines: [{cores: 2}]\n", "machines[1].name is missing"},
        {NULL, "machines: [{name: a, cores: 2}, {name: a, cores: 2}]\n", "two machines are called 'a'"},
        {NULL, "- {name: x, machine: bx, gflops: 1}\nmachines: [{name: box, cores: 2}]\n",
         "there is no machine 'bx'; did you mean 'box'?"},
        {NULL, "- {name: x, machine: box, threads: 4, gflops: 1}\nmachines: [{name: box, cores: 2}]\n",
         "peers[x].threads is 4 but machine 'box' has 2 cores"},
        {NULL, "- {name: x, machine: box, up_mbps: 4, gflops: 1}\nmachines: [{name: box, cores: 2}]\n",
         "peers[x].up_mbps: place and line belong to its machine"},
        {NULL, "machines: tower\n", "machines must be a list: begin each of its items with '- '"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void test_mistakes_of_links(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {NULL, "links: {latency_ms: -5}\n", "s.yaml:11:21: links.latency_ms must be from 0 to 60000, not -5"},
        {NULL, "links: {latency_ms: fast}\n", "links.latency_ms must be a number, not 'fast'"},
        {NULL, "links: {latncy_ms: 5}\n",
         "s.yaml:11:9: unknown key 'latncy_ms' in 'links'; did you mean 'latency_ms'?"},
        {NULL, "links: {latency: 10}\n", "s.yaml:11:9: unknown key 'latency' in 'links'; did you mean 'latency_ms'?"},
        {NULL, "links: {jitter: 10}\n", "unknown key 'jitter' in 'links'; did you mean 'jitter_ms'?"},
        {NULL, "links: {up: 10}\n", "unknown key 'up' in 'links'; did you mean 'up_mbps'?"},
        {NULL, "links: {bandwidth: 10}\n",
         "unknown key 'bandwidth' in 'links'; choose one of latency_ms, jitter_ms, mbps, up_mbps, down_mbps, line_ms"},
        {NULL, "links: {up_mbps: 0}\n", "links.up_mbps must be from 0.001 to 1e+06, not 0"},
        {NULL, "links: {pairs: [{between: [anna, firts], mbps: 1}]}\n",
         "s.yaml:11:34: links.pairs[1].between: nobody is called 'firts'; did you mean 'first'?"},
        {NULL, "links: {pairs: [{between: [anna, Tokyo], mbps: 1}]}\n",
         "no peer is in Tokyo: give some 'place: Tokyo'"},
        {NULL, "links: {pairs: [{between: [anna, zebra], mbps: 1}]}\n",
         "nobody is called 'zebra': name peers, groups, machines or places"},
        {NULL, "links: {pairs: [{between: [anna], mbps: 1}]}\n",
         "links.pairs[1].between must name two, like [anna, London]"},
        {NULL, "links: {pairs: [{from: anna, mbps: 1}]}\n", "links.pairs[1].to is missing"},
        {NULL, "links: {pairs: [{mbps: 1}]}\n",
         "write either 'between: [A, B]' for both ways, or 'from: A' and 'to: B'"},
        {NULL, "links: {pairs: [{between: [anna, first]}]}\n",
         "says nothing about the link: add 'latency_ms', 'jitter_ms' or 'mbps'"},
        {NULL, "links: {partitions: [{start_s: 1}]}\n", "links.partitions[1].from is missing: say who is cut off"},
        {NULL, "links: {partitions: [{from: first, start_s: 5, stop_s: 5}]}\n",
         "s.yaml:11:56: links.partitions[1].stop_s must be later than start_s"},
        {NULL, "links: {partitions: [{from: []}]}\n", "links.partitions[1].from is an empty list: name somebody"},
        {NULL, "links: {pairs: [{between: [anna, anna], mbps: 1}]}\n",
         "s.yaml:11:34: links.pairs[1].between: both ends are 'anna', and no link goes from a peer to itself: name another one"},
        {NULL, "links: {pairs: [{from: first, to: [first], mbps: 1}]}\n", "links.pairs[1].to: both ends are 'first'"},
        {NULL, "links: {partitions: [{from: second-1, to: second-1}]}\n",
         "s.yaml:11:43: links.partitions[1].to: both ends are 'second-1'"},
        {NULL, "links: {partitions: [{from: [anna, first, second]}]}\n",
         "s.yaml:11:29: links.partitions[1].from names everybody, so that nobody is cut off from anybody: leave some out"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void test_mistakes_of_churn(void **state) {
    (void)state;
    static const mistake mistakes[] = {
        {NULL, "churn: {crash: 1.5}\n", "churn.crash must be from 0 to 1, not 1.5"},
        {NULL, "churn: {crush: 0.5}\n", "unknown key 'crush' in 'churn'; did you mean 'crash'?"},
        {NULL, "churn: {crash: 0.1, only: anna}\n",
         "s.yaml:11:27: churn.only: 'anna' leads the run, being the first data peer by name"},
        {NULL, "churn: {sessions: {shape: 2}}\n", "churn.sessions.mean_s is missing"},
        {NULL, "churn: {sessions: {mean_s: 60, shape: 2}}\n",
         "churn.sessions.shape belongs to 'distribution: weibull'"},
        {NULL, "churn: {sessions: {distribution: normal, mean_s: 60}}\n",
         "churn.sessions.distribution must be exponential or weibull, not 'normal'"},
        {NULL, "churn: {dies: slowly}\n", "churn.dies must be machine or process, not 'slowly'"},
        {NULL, "churn: {trace: x.txt}\n", "churn.trace: no other file can be named here"},
        {NULL, "churn: 0.1\n", "churn must be a group of keys, not '0.1'"},
    };
    expect_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_stages_by_name),
        cmocka_unit_test(test_machines_and_places),
        cmocka_unit_test(test_pairs_and_partitions),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_one_more),
        cmocka_unit_test(test_trace_file),
        cmocka_unit_test(test_run_description),
        cmocka_unit_test(test_mistakes_of_the_file),
        cmocka_unit_test(test_mistakes_of_the_model),
        cmocka_unit_test(test_mistakes_of_stages),
        cmocka_unit_test(test_mistakes_of_stage_names),
        cmocka_unit_test(test_mistakes_of_peers),
        cmocka_unit_test(test_mistakes_of_machines),
        cmocka_unit_test(test_mistakes_of_links),
        cmocka_unit_test(test_mistakes_of_churn),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
