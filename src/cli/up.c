// braid up: a whole swarm on this machine, in child processes, seen as one.
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/up_swarm.h"
#include "protocol/peer.h"
#include "train/run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char examples[] =
    "braid up RUN.yaml --relays 6\n"
    "braid up RUN.yaml --relays 6 --kill relay2@iteration:10 --late 1@iteration:12\n"
    "braid up RUN.yaml --relays 8 --chaos kills=5,joins=2,data=1,leader=1,seed=7\n"
    "braid up RUN.yaml --relays 4 --resume checkpoints/latest\n";

static void swarm_note(swarm *s, const char *text) {
    report_event news = {.kind = REPORT_NOTE, .loss = NAN};
    snprintf(news.text, sizeof news.text, "%s", text);
    report_tell(s->report, &news);
}

static void swarm_kill_all(swarm *s) {
    for (uint32_t i = 0; i < s->child_count; i++) child_kill(s->children[i]);
}

void swarm_fail(swarm *s, const char *why) {
    if (!s->failed) snprintf(s->why, sizeof s->why, "%s", why);
    s->failed = s->ending = true;
    swarm_kill_all(s);
}

void swarm_spawn_others(swarm *s) {
    braid_error error;
    braid_err err = BRAID_OK;
    for (uint64_t i = 1; i < s->data_peers && !err; i++) err = swarm_spawn(s, CHILD_DATA, &error);
    for (uint64_t i = 0; i < s->relays && !err; i++) err = swarm_spawn(s, CHILD_RELAY, &error);
    if (err) swarm_fail(s, error.text);
}

static void tell_killed(swarm *s, const child *c) {
    report_event news = {.kind = REPORT_KILLED, .process = (uint64_t)c->pid, .stage = c->stage, .member = c->member, .loss = NAN, .iteration = s->iteration};
    snprintf(news.peer, sizeof news.peer, "%s", c->peer);
    snprintf(news.phase, sizeof news.phase, "%s", c->armed || (c->spared && !c->killed) ? fault_point_name(c->armed_at) : "");
    s->kills++;
    losses_note(s, &news);
    report_tell(s->report, &news);
}

static void tell_lost(swarm *s, const child *c, int64_t status, int signal_number) {
    char how[64], text[512];
    if (signal_number) snprintf(how, sizeof how, "was ended by signal %d", signal_number);
    else snprintf(how, sizeof how, "ended with code %lld", (long long)status);
    snprintf(text, sizeof text, "%s (process %d) %s%s%.350s", c->name, (int)c->pid, how, *c->complaint ? ": " : "", c->complaint);
    if ((c->role == CHILD_LEADER && story_has_one_voice(s)) || !s->started) swarm_fail(s, text);
    else swarm_note(s, text);
}

static bool stage_works(const swarm *s, uint64_t number, const child *but) {
    for (uint32_t i = 0; i < s->child_count; i++) {
        const child *c = s->children[i];
        if (c != but && c->alive && c->joined && c->stage == number) return true;
    }
    for (uint32_t i = 0; i < s->guest_count; i++)
        if (!s->guests[i].shadow && s->guests[i].stage == number) return true;
    return false;
}

bool stage_is_shadowed(const swarm *s, uint64_t number) {
    for (uint32_t i = 0; i < s->guest_count; i++)
        if (s->guests[i].shadow && s->guests[i].stage == number) return true;
    return false;
}

// What somebody failed at who led may have been what the others failed at, too.
static void fail_without_data(swarm *s, const child *last) {
    char text[sizeof s->why];
    const char *why = *s->why ? s->why : last->complaint;
    snprintf(text, sizeof text, "%.400s%sthe last data peer is gone; go on from a checkpoint with --resume", why, *why ? "; " : "");
    swarm_fail(s, text);
}

// What a stage's last peer held nobody can take over: a shadow does its work from then on, or the run goes back and needs other relays. Of
// stage 0 somebody votes; without any of them nothing is decided any more.
static void check_survival(swarm *s, const child *gone) {
    if (s->ending || !s->started || !gone->joined || gone->stage >= WIRE_MAX_STAGES || stage_works(s, gone->stage, gone)) return;
    if (gone->stage == 0) fail_without_data(s, gone);
    else s->bereft_ms[gone->stage] = uv_now(&s->loop) + (stage_is_shadowed(s, gone->stage) ? UP_PROMOTE_MS : UP_RESTART_MS);
}

static void swarm_done(swarm *s) {
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
    uv_close((uv_handle_t *)&s->terminate, NULL);
    uv_stop(&s->loop);
}

// Nobody else has its text. One that never found its place would not find it the next time either.
static void plan_return(swarm *s, child *c) {
    if (!s->private_data || c->role == CHILD_RELAY || s->ending || !s->started || c->told_end) return;
    if (c->member != 0) c->return_ms = uv_now(&s->loop) + UP_RESTART_MS;
    else if (!s->elastic) swarm_fail(s, "a data peer that alone has its text cannot come back");
}

void swarm_child_gone(swarm *s, child *c, int64_t status, int signal_number) {
    bool wanted = signal_number == SIGKILL && (c->killed || c->armed || c->spared);
    if (wanted && !s->ending) {
        orders_note_death(s, c);
        tell_killed(s, c);
    }
    bool well = wanted || c->told_end || s->ending, mute = c->role == CHILD_LEADER && story_has_one_voice(s) && s->end.kind != REPORT_END;
    if (c == s->leading) s->leading = NULL;
    c->gone_ms = uv_now(&s->loop);
    c->voted = chaos_may_vote(s, c);
    if (!well || (mute && !s->failed)) tell_lost(s, c, status, signal_number);
    if (wanted && c->takes_stage) chaos_take_stage(s, c->stage);
    if (!c->told_end) check_survival(s, c);
    plan_return(s, c);
    c->armed = c->spared = c->joined = false;
    if (s->alive == 0) swarm_done(s);
}

// Whoever leads ends the run; who that is may change meanwhile, so it is said again.
static void swarm_drain(swarm *s) {
    if (story_has_one_voice(s)) return;
    for (uint32_t i = 0; i < s->child_count; i++)
        if (s->children[i]->role != CHILD_RELAY) child_command(s->children[i], "end\n");
}

// As many relays as a stage has when they are dealt out evenly.
static void restart_stage(swarm *s, uint32_t number) {
    char text[160];
    braid_error error;
    uint64_t wanted = s->stages > 1 ? s->relays / (s->stages - 1) : 0;
    snprintf(text, sizeof text, "stage %u has lost its last peer; other relays are started", number);
    swarm_note(s, text);
    for (uint64_t i = 0; i < (wanted > 0 ? wanted : 1); i++) {
        if (swarm_spawn(s, CHILD_RELAY, &error) == BRAID_OK) continue;
        swarm_fail(s, error.text);
        return;
    }
}

static void check_stages(swarm *s) {
    for (uint32_t i = 0; i < WIRE_MAX_STAGES && !s->ending; i++) {
        if (s->bereft_ms[i] == 0 || uv_now(&s->loop) < s->bereft_ms[i]) continue;
        s->bereft_ms[i] = 0;
        if (!stage_works(s, i, NULL)) restart_stage(s, i);
    }
}

// While nobody leads, the ticket may be that of who is to come back; but nobody may lead before it is back. And while its loss is in no
// log, whoever came back would never have been missed, and nobody be told that it was awaited.
bool swarm_may_return(const swarm *s, const child *c) {
    bool missed = s->leading && !c->listed;
    return c->return_ms != 0 && uv_now(&s->loop) >= c->return_ms + (missed ? 0 : UP_ELECT_MS);
}

static void check_returns(swarm *s) {
    char text[160];
    braid_error error;
    uint32_t count = s->child_count;
    for (uint32_t i = 0; i < count && !s->ending; i++) {
        child *c = s->children[i];
        if (!swarm_may_return(s, c)) continue;
        c->return_ms = 0;
        snprintf(text, sizeof text, "%s is started again, for nobody else has its text", c->name);
        swarm_note(s, text);
        if (swarm_spawn_again(s, c, &error)) swarm_fail(s, error.text);
    }
}

static void on_tick(uv_timer_t *timer) {
    swarm *s = timer->data;
    report_tick(s->report);
    chaos_step(s);
    if (s->draining) swarm_drain(s);
    check_stages(s);
    check_returns(s);
    if (s->ending && s->leave_deadline_ms && uv_now(&s->loop) > s->leave_deadline_ms) swarm_kill_all(s);
}

static void on_signal(uv_signal_t *handle, int number) {
    swarm *s = handle->data;
    (void)number;
    if (s->draining || !s->started) {
        swarm_fail(s, "stopped by the user");
        return;
    }
    s->draining = true;
    swarm_note(s, "finishing the iteration and saving; once more to stop at once");
    if (story_has_one_voice(s)) child_command(s->children[0], "drain\n");
    else swarm_drain(s);
}

static void watch(swarm *s) {
    uv_timer_init(&s->loop, &s->tick);
    uv_signal_init(&s->loop, &s->interrupt);
    uv_signal_init(&s->loop, &s->terminate);
    s->tick.data = s->interrupt.data = s->terminate.data = s;
    uv_timer_start(&s->tick, on_tick, UP_TICK_MS, UP_TICK_MS);
    uv_signal_start(&s->interrupt, on_signal, SIGINT);
    uv_signal_start(&s->terminate, on_signal, SIGTERM);
}

// What was killed, and the last line. Returns whether the run is complete.
static bool swarm_conclude(swarm *s) {
    if (s->started) orders_tell(s);
    bool nobody = s->end.kind != REPORT_END;
    if (nobody) s->end = (report_event){.kind = REPORT_END, .failed = true, .loss = NAN, .iteration = s->iteration};
    if (nobody && !*s->why) snprintf(s->why, sizeof s->why, "everybody ended, and nobody said with what weights");
    if (s->failed || nobody) {
        s->end.failed = true;
        snprintf(s->end.text, sizeof s->end.text, "%s", s->why);
    }
    s->end.repairs = s->repairs;
    story_sum_work(s, &s->end);
    if (s->measure && s->started) {
        braid_error error;
        if (measure_write(s, &error)) swarm_note(s, error.text);
    }
    report_loss_curve(s->report);
    report_flows_table(s->report);
    losses_tell(s);
    report_tell(s->report, &s->end);
    return !s->end.failed;
}

static int swarm_run(swarm *s) {
    braid_error error;
    uv_loop_init(&s->loop);
    watch(s);
    s->report = report_new(s->style, stdout);
    if (swarm_open_keys(s, &error) || swarm_spawn(s, CHILD_LEADER, &error)) {
        swarm_fail(s, error.text);
        swarm_done(s);
    } else {
        s->leading = s->children[0];
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    bool good = swarm_conclude(s);
    report_free(s->report);
    swarm_free_children(s);
    swarm_close_keys(s);
    free(s->clock.cores);
    uv_loop_close(&s->loop);
    return good ? CLI_OK : cli_complain(CLI_FAILED, "up", "%s", s->end.text);
}

typedef struct up_flags {
    option_list kill, late;
    const char *chaos, *resume, *log, *trace, *measure;
    uint64_t relays, shadows, threads, capacity, max_memory, voters, carried;
    bool json;
} up_flags;

static braid_err chaos_fill(swarm *s, const up_flags *f, const run_config *run, braid_error *error) {
    braid_err err = BRAID_OK;
    s->random.state = run->seed;
    for (uint32_t i = 0; i < f->kill.count && !err; i++) err = chaos_add_kill(s, f->kill.item[i], error);
    for (uint32_t i = 0; i < f->late.count && !err; i++) err = chaos_add_late(s, f->late.item[i], error);
    if (f->chaos && !err) err = chaos_add_random(s, f->chaos, 0, s->iterations, error);
    return err ? err : orders_check(s, error);
}

enum { FILES_A_CHILD = 3, OWN_FILES = 16 };

// Said before anybody is started: libuv spins, or ends the process, where it runs out of them half-way.
static braid_err files_reserve(const swarm *s, braid_error *error) {
    struct rlimit files;
    rlim_t wanted = FILES_A_CHILD * (s->data_peers + s->relays) + OWN_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return BRAID_OK;
    rlim_t most = files.rlim_max;
    files.rlim_cur = wanted;
    if (wanted <= most && setrlimit(RLIMIT_NOFILE, &files) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "%llu processes need %llu open files here, and %llu are allowed; raise the limit (ulimit -n), or ask for fewer relays",
                      (unsigned long long)(s->data_peers + s->relays), (unsigned long long)wanted, (unsigned long long)most);
}

static braid_err swarm_fill(swarm *s, const up_flags *f, const char *path, run_config *run, braid_error *error) {
    size_t size = sizeof s->program;
    *s = (swarm){.run_path = path, .resume = f->resume, .log = f->log, .trace = f->trace, .measure = f->measure, .relays = f->relays, .shadows = f->shadows, .threads = f->threads,
                 .capacity = f->capacity, .max_memory = f->max_memory, .carried = f->carried, .style = f->json ? REPORT_JSON : REPORT_AUTO};
    if (uv_exepath(s->program, &size) != 0) return braid_fail(error, BRAID_STATE, "cannot find out which program this is");
    braid_err err = run_config_load(path, run, error);
    if (err) return err;
    err = run_config_has_all_texts(run, error);
    if (err) return err;
    s->private_data = run->private_data > 0;
    s->elastic = run->elastic;
    s->stages = run->stages;
    s->iterations = run->recipe.iterations;
    s->data_peers = run->data_peers ? run->data_peers : 1;
    if (s->relays == 0) s->relays = run->stages > 1 ? 2 * (run->stages - 1) : 0;
    // the first leader's death costs the run nothing if another data peer has the text and more than one has the log
    if (f->voters && f->voters % 2 == 0) return braid_fail(error, BRAID_ARGUMENT, "--voters %u: an even number outlives no more deaths than one less; give 1, 3 or 5", (unsigned)f->voters);
    s->voters = f->voters ? f->voters : s->data_peers < 2 || f->measure || s->private_data ? 1 : s->data_peers < 5 ? 3 : 5;
    if (s->relays + 1 < run->stages)
        return braid_fail(error, BRAID_ARGUMENT, "the run has %u stages: one in the data peers, and each of the others needs a relay; give --relays %u or more",
                          run->stages, run->stages - 1);
    err = files_reserve(s, error);
    return err ? err : chaos_fill(s, f, run, error);
}

int cli_up(int argc, char **argv) {
    static swarm s;       // large, one in the process
    static run_config run;
    up_flags f = {.threads = 1};
    option table[] = {
        {"relays", OPTION_COUNT, &f.relays, .help = "relay processes to start", .min = 1, .max = UP_MAX_CHILDREN / 2, .fallback = "two a stage"},
        {"threads", OPTION_COUNT, &f.threads, .help = "threads that compute, in each process", .min = 1, .max = 1024},
        {"capacity", OPTION_COUNT, &f.capacity, .help = "microbatches that a process holds at once", .max = WIRE_MAX_MICROBATCHES, .fallback = "what the run says"},
        {"max-memory", OPTION_SIZE, &f.max_memory, .help = "most memory of one process for weights, optimizer and microbatches", .fallback = "no cap"},
        {"resume", OPTION_TEXT, &f.resume, .unit = "DIR", .help = "go on from this checkpoint"},
        {"log", OPTION_TEXT, &f.log, .unit = "PATH", .help = "keep the run's log in this file, those of the other data peers in PATH.data2 and so on", .fallback = "a temporary file"},
        {"shadows", OPTION_COUNT, &f.shadows, .help = "shadows of each stage: processes beside the others that keep its state, so that the run outlives it", .max = 4, .fallback = "none"},
        {"trace", OPTION_TEXT, &f.trace, .unit = "DIR", .hidden = true, .help = "each process writes what goes into and out of the protocol to a file there"},
        {"voters", OPTION_COUNT, &f.voters, .help = "most peers that keep the log, so that the leader may die: 1, 3 or 5", .min = 1, .max = PEER_VOTERS, .fallback = "3 with two data peers, 5 with five; else, or with private data or --measure, 1"},
        {"measure", OPTION_TEXT, &f.measure, .unit = "FILE", .help = "write what this swarm's peers cost, as a scenario for braid sim", .fallback = "nothing is measured"},
        {"carried", OPTION_COUNT, &f.carried, .unit = "PERCENT", .hidden = true, .help = "send so many of 100 tensors by way of somebody, for tests", .max = 100},
        {"json", OPTION_SWITCH, &f.json, .help = "one JSON object a line"},
        {"kill", OPTION_LIST, &f.kill, .unit = "WHO@WHEN", .help = "kill somebody: relay3@iteration:12, any@iteration:5/weight, data2@iteration:7, leader@iteration:9, stage:2@iteration:6/backward (see docs)", .fallback = ""},
        {"late", OPTION_LIST, &f.late, .unit = "N@iteration:K", .help = "start N more relays at iteration K", .fallback = ""},
        {"chaos", OPTION_TEXT, &f.chaos, .unit = "kills=N,joins=N,data=N,leader=N,within=N,seed=N", .help = "kill and start relays, and data peers, at random; kill whoever leads", .fallback = "none"},
    };
    options o = {.verb = "up", .arguments = "RUN.yaml", .summary = "Train with a whole swarm of processes on this machine.",
                 .examples = examples, .table = table, .count = sizeof table / sizeof table[0], .min_given = 1, .max_given = 1};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code)) return code;
    braid_error error = {0};
    braid_err err = swarm_fill(&s, &f, o.given[0], &run, &error);
    if (err)
        code = cli_complain(CLI_USAGE, "up", "%s", error.text);
    else
        code = cli_can_write("up", "measure", s.measure) ? swarm_run(&s) : CLI_FAILED;
    options_close(&o);
    return code;
}
