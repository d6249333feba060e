// braid up: a whole swarm on this machine, in child processes, shown as one.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/up_swarm.h"
#include "node/stop.h"
#include "braid/peer.h"
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
    "braid up RUN.yaml --relays 4 --resume checkpoints/latest\n"
    "braid up RUN.yaml --whole 3\n";

static void tell_killed(swarm *s, const child *c) {
    report_event news = {.kind = REPORT_KILLED, .process = (uint64_t)c->pid, .stage = c->stage, .member = c->member, .loss = NAN, .iteration = s->progress.iteration};
    snprintf(news.peer, sizeof news.peer, "%s", c->peer);
    snprintf(news.phase, sizeof news.phase, "%s", c->order.armed || (c->order.spared && !c->killed) ? fault_point_name(c->order.armed_at) : "");
    s->orders.kills++;
    losses_note(s, &news);
    report_tell(s->report, &news);
}

static void note_cause(swarm *s, child *c, int64_t status, int signal_number) {
    uint64_t before = s->memory.oom_kills;
    cause_memory_read("/proc/self/cgroup", "/sys/fs/cgroup", &s->memory);
    cause_text(status, signal_number, c->output.complaint, &s->memory, s->memory.oom_kills > before, c->cause);
}

static void tell_lost(swarm *s, child *c, int64_t status, int signal_number) {
    char text[sizeof s->finish.why], way_on[256] = "";
    bool fatal = (c->role == CHILD_LEADER && swarm_has_one_voter(s)) || !s->progress.started;
    note_cause(s, c, status, signal_number);
    if (fatal && s->progress.started && signal_number) swarm_way_on(s, way_on, sizeof way_on);
    snprintf(text, sizeof text, "%s (process %d) %s", c->name, (int)c->pid, c->cause);
    strncat(text, way_on, sizeof text - strlen(text) - 1);
    if (fatal) swarm_fail(s, text);
    else swarm_note(s, text);
}

// The former leader's error may also be the reason why the other data peers failed.
static void fail_without_data(swarm *s, const child *last) {
    char text[sizeof s->finish.why];
    const char *why = *s->finish.why ? s->finish.why : last->output.complaint;
    snprintf(text, sizeof text, "%.400s%sthe last data peer is gone; resume from a checkpoint with --resume", why, *why ? "; " : "");
    swarm_fail(s, text);
}

// The state of a stage's last peer is lost for other relays. Either a standby replica takes over
// the work, or the run rolls back and needs new relays. Stage 0 has the voters: without them
// nothing can be decided.
static void check_survival(swarm *s, const child *gone) {
    if (s->finish.ending || !s->progress.started || !gone->joined || gone->stage >= WIRE_MAX_STAGES || stage_works(s, gone->stage, gone)) return;
    if (gone->stage == 0) fail_without_data(s, gone);
    else stage_bereft(s, gone->stage);
}

static void swarm_done(swarm *s) {
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->signals, NULL);
    uv_stop(&s->loop);
}

static void plan_return(swarm *s, child *c) {
    if (s->settings.private_data && c->role != CHILD_RELAY && !s->finish.ending && s->progress.started && !c->told_end) text_bereft(s, c);
}

void swarm_child_gone(swarm *s, child *c, int64_t status, int signal_number) {
    bool wanted = signal_number == SIGKILL && (c->killed || c->order.armed || c->order.spared);
    if (wanted && !s->finish.ending) {
        orders_note_death(s, c);
        tell_killed(s, c);
    }
    bool well = wanted || c->told_end || s->finish.ending, mute = c->role == CHILD_LEADER && swarm_has_one_voter(s) && s->finish.event.kind != REPORT_END;
    if (c == s->progress.leading) s->progress.leading = NULL;
    c->gone_ms = uv_now(&s->loop);
    c->voted = chaos_may_vote(s, c) || chaos_votes(s, c);
    if (!well || (mute && !s->finish.failed)) tell_lost(s, c, status, signal_number);
    // left in order, while the run continues
    bool left = c->told_end && !wanted && !s->finish.ending;
    if (left) snprintf(c->cause, sizeof c->cause, "left in order after an outside request");
    if (!well || left) stages_note_death(s, c);
    if (wanted && c->order.takes_stage) chaos_take_stage(s, c->stage);
    if (!c->told_end) check_survival(s, c);
    plan_return(s, c);
    c->order.armed = c->order.spared = c->joined = false;
    if (s->alive == 0) swarm_done(s);
}

// Only the leader can end the run. Leadership may change meanwhile, so the command goes to all data
// peers, repeatedly.
static void tell_data_peers(swarm *s, const char *command) {
    for (uint32_t i = 0; i < s->child_count; i++)
        if (s->children[i]->role != CHILD_RELAY) child_command(s->children[i], command);
}

static void swarm_drain(swarm *s) {
    char text[128];
    uint64_t passed_ns = (uv_now(&s->loop) - s->finish.stop_ms) * 1000000;
    if (s->finish.ending) return;
    if (passed_ns >= s->settings.stop_within_ns) {
        snprintf(text, sizeof text, "did not end within %.3g s (--stop-within)", (double)s->settings.stop_within_ns * 1e-9);
        swarm_fail(s, text);
        return;
    }
    if (passed_ns >= stop_finish_ns(s->settings.stop_within_ns) && !s->finish.dropped) {
        s->finish.dropped = true;
        swarm_note(s, "the current iteration takes too long; saving the state before it");
    }
    tell_data_peers(s, s->finish.dropped ? "drop\n" : "end\n");
}

static void on_tick(uv_timer_t *timer) {
    swarm *s = timer->data;
    report_tick(s->report);
    chaos_step(s);
    if (s->finish.draining) swarm_drain(s);
    stages_tick(s);
    if (s->finish.ending && s->finish.leave_deadline_ms && uv_now(&s->loop) > s->finish.leave_deadline_ms) swarm_kill_all(s);
}

// The children may have received the same signal; this process decides what they do.
static void swarm_stop(swarm *s) {
    char text[256];
    s->finish.draining = true;
    s->finish.stop_ms = uv_now(&s->loop);
    if (s->finish.ending) return;  // a request to end has been sent already
    for (uint32_t i = 0; i < s->child_count; i++) child_command(s->children[i], "stop\n");
    if (!s->progress.started) {
        s->finish.event = (report_event){.kind = REPORT_END, .loss = NAN};
        s->finish.ending = true;
        swarm_kill_all(s);
        return;
    }
    snprintf(text, sizeof text, "%s: saving after this iteration, or without it after %.3g s; at most %.3g s in all; repeat the signal to end at once", stop_signal_name(stop_requested()),
             (double)stop_finish_ns(s->settings.stop_within_ns) * 1e-9, (double)s->settings.stop_within_ns * 1e-9);
    swarm_note(s, text);
    swarm_drain(s);
}

static void swarm_request(swarm *s) {
    if (stop_take_save()) {
        swarm_note(s, s->progress.started ? "SIGUSR1: requesting a checkpoint from the leader" : "SIGUSR1: nothing to save, the run has not started");
        if (s->progress.started) tell_data_peers(s, "save\n");
    }
    if (stop_at_once()) swarm_fail(s, "stopped by the user: a second request ended it at once");
    else if (stop_requested() && !s->finish.draining) swarm_stop(s);
}

static void on_signals(uv_poll_t *handle, int status, int events) {
    (void)status, (void)events;
    stop_clear();
    swarm_request(handle->data);
}

static void watch(swarm *s) {
    uv_timer_init(&s->loop, &s->tick);
    uv_poll_init(&s->loop, &s->signals, stop_descriptor());
    s->tick.data = s->signals.data = s;
    uv_timer_start(&s->tick, on_tick, UP_TICK_MS, UP_TICK_MS);
    uv_poll_start(&s->signals, UV_READABLE, on_signals);
}

// Prints the kills and the last line. Returns whether the run is complete.
static bool swarm_conclude(swarm *s) {
    if (s->progress.started) orders_tell(s);
    bool unreported = s->finish.event.kind != REPORT_END;
    // stopped in the first iteration: there are no new weights
    if (unreported && s->finish.draining && !s->finish.failed && s->progress.iteration == s->progress.first) {
        s->finish.event = (report_event){.kind = REPORT_END, .loss = NAN, .iteration = s->progress.iteration};
        unreported = false;
    }
    if (unreported) s->finish.event = (report_event){.kind = REPORT_END, .failed = true, .loss = NAN, .iteration = s->progress.iteration};
    if (unreported && !*s->finish.why) snprintf(s->finish.why, sizeof s->finish.why, "all processes ended and none reported the final weights; resume from the newest checkpoint (--resume)");
    if (s->finish.failed || unreported) {
        s->finish.event.failed = true;
        snprintf(s->finish.event.text, sizeof s->finish.event.text, "%s", s->finish.why);
    }
    s->finish.event.of = s->settings.iterations;
    // A signal to the leader's process alone stops the run as well; the leader reports which signal
    // it was.
    s->finish.event.stopped = (s->finish.draining || s->finish.event.stopped) && !s->finish.event.failed && s->finish.event.iteration < s->settings.iterations;
    if (s->finish.event.stopped && s->finish.draining) snprintf(s->finish.event.reason, sizeof s->finish.event.reason, "%s", stop_signal_name(stop_requested()));
    s->finish.event.repairs = s->progress.repairs;
    story_sum_work(s, &s->finish.event);
    if (s->settings.measure && s->progress.started) {
        braid_error error;
        if (measure_write(s, &error)) swarm_note(s, error.text);
    }
    report_loss_curve(s->report);
    report_flows_table(s->report);
    losses_tell(s);
    report_tell(s->report, &s->finish.event);
    return !s->finish.event.failed;
}

static int swarm_run(swarm *s) {
    braid_error error;
    report_sinks *sinks;
    if (report_sinks_open(&s->settings.sinks, &sinks, &error)) return cli_complain(CLI_FAILED, "up", "%s", error.text);
    s->hooks = (swarm_hooks){.event = swarm_event, .advanced = swarm_advanced, .voters = chaos_voters_line, .gone = swarm_child_gone};
    uv_loop_init(&s->loop);
    watch(s);
    cause_memory_read("/proc/self/cgroup", "/sys/fs/cgroup", &s->memory);
    s->report = report_new(s->settings.style, stdout);
    report_also(s->report, sinks);
    allowance_tell(s->report, &s->machine, s->settings.max_memory);
    if (*s->memory_note) swarm_note(s, s->memory_note);
    if (swarm_prepare_data(s, &error) || swarm_open_keys(s, &error) || swarm_spawn(s, CHILD_LEADER, &error)) {
        swarm_fail(s, error.text);
        swarm_done(s);
    } else {
        s->progress.leading = s->children[0];
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    bool good = swarm_conclude(s);
    report_free(s->report);
    swarm_free_children(s);
    swarm_close_keys(s);
    free(s->clock.cores);
    uv_loop_close(&s->loop);
    return good ? CLI_OK : cli_complain(CLI_FAILED, "up", "%s", s->finish.event.text);
}

typedef struct up_flags {
    option_list kill, late;
    const char *chaos, *resume, *from, *log, *trace, *measure, *state_directory;
    uint64_t stop_within_ns, relays, wholes, shadows, threads, capacity, max_memory, voters, carried;
    bool json, anew, continues;
    report_sink_paths sinks;
} up_flags;

static braid_err chaos_fill(swarm *s, const up_flags *f, const run_config *run, braid_error *error) {
    braid_err err = BRAID_OK;
    s->orders.random.state = run->seed;
    for (uint32_t i = 0; i < f->kill.count && !err; i++) err = chaos_add_kill(s, f->kill.item[i], error);
    for (uint32_t i = 0; i < f->late.count && !err; i++) err = chaos_add_late(s, f->late.item[i], error);
    if (f->chaos && !err) err = chaos_add_random(s, f->chaos, 0, s->settings.iterations, error);
    return err ? err : orders_check(s, error);
}

enum { FILES_A_CHILD = 3, OWN_FILES = 16 };

// Checked before any child is started: libuv spins or aborts if descriptors run out midway.
static braid_err descriptors_reserve(const swarm *s, braid_error *error) {
    struct rlimit files;
    rlim_t wanted = FILES_A_CHILD * (s->settings.data_peers + s->settings.relays) + OWN_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return BRAID_OK;
    rlim_t most = files.rlim_max;
    files.rlim_cur = wanted;
    if (wanted <= most && setrlimit(RLIMIT_NOFILE, &files) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "%llu processes need %llu open files here, and %llu are allowed; raise the limit (ulimit -n), or start fewer relays",
                      (unsigned long long)(s->settings.data_peers + s->settings.relays), (unsigned long long)wanted, (unsigned long long)most);
}

// With --relays the whole-model peers come beside the run's data peers; without, they are the data
// peers.
static braid_err peers_count(swarm *s, const up_flags *f, const run_config *run, braid_error *error) {
    s->settings.wholes = f->wholes;
    s->settings.whole_only = f->wholes > 0 && f->relays == 0;
    if (f->relays > 0 && run->stages < 2)
        return braid_fail(error, BRAID_ARGUMENT, "--relays %llu: the run has one stage, so it has no relays; leave out --relays, or start whole-model peers with --whole N", (unsigned long long)f->relays);
    if (s->settings.relays == 0 && f->wholes == 0) s->settings.relays = run->stages > 1 ? 2 * (run->stages - 1) : 0;
    if (f->wholes == 0 && f->state_directory)
        return braid_fail(error, BRAID_ARGUMENT, "--state-dir is for whole-model peers: add --whole N, or leave it out");
    if (f->wholes == 0) return BRAID_OK;
    if (run->private_data > 0)
        return braid_fail(error, BRAID_ARGUMENT, "--whole and data.private: a whole-model peer is a data peer, and each text belongs to one; leave out --whole");
    s->settings.data_peers = s->settings.whole_only ? f->wholes : s->settings.data_peers + f->wholes;
    if (s->settings.data_peers <= run->slots) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT, "%llu data peers, the whole-model ones included, but swarm.slots is %u: each needs a slot; raise swarm.slots, or start fewer",
                      (unsigned long long)s->settings.data_peers, run->slots);
}

static braid_err swarm_fill(swarm *s, const up_flags *f, const char *path, run_config *run, braid_error *error) {
    size_t size = sizeof s->settings.program;
    *s = (swarm){.settings = {.run_path = path, .run = run, .resume = f->resume, .from = f->from, .log = f->log, .trace = f->trace, .measure = f->measure, .state_directory = f->state_directory, .relays = f->relays, .wholes = f->wholes, .shadows = f->shadows,
                              .threads = f->threads, .capacity = f->capacity, .max_memory = f->max_memory, .carried = f->carried, .anew = f->anew, .continues = f->continues,
                              .stop_within_ns = f->stop_within_ns, .style = f->json ? REPORT_JSON : REPORT_AUTO, .sinks = f->sinks}};
    if (uv_exepath(s->settings.program, &size) != 0) return braid_fail(error, BRAID_STATE, "cannot find the path of this program; is /proc mounted?");
    braid_err err = swarm_keep_description(s, path, error);
    if (!err) err = cli_load_run(s->settings.run_path, f->from, run, error);
    if (err) return err;
    err = run_config_has_all_texts(run, error);
    if (err) return err;
    if (f->continues && f->anew) return braid_fail(error, BRAID_ARGUMENT, "--continue resumes from the newest checkpoint and --anew sets it aside; give one of them");
    if (f->continues && !run->checkpoint[0]) return braid_fail(error, BRAID_ARGUMENT, "--continue needs a directory of checkpoints: set checkpoint.dir in %s", path);
    s->settings.private_data = run->private_data > 0;
    s->settings.elastic = run->elastic;
    s->settings.stages = run->stages;
    s->settings.iterations = run->recipe.iterations;
    s->settings.data_peers = run->data_peers ? run->data_peers : 1;
    err = peers_count(s, f, run, error);
    if (err) return err;
    // The first leader's death costs the run nothing if another data peer has the text and the log
    // has several copies.
    if (f->voters && f->voters % 2 == 0) return braid_fail(error, BRAID_ARGUMENT, "--voters %u: an even number tolerates no more failures than one voter fewer; give 1, 3 or 5", (unsigned)f->voters);
    bool two_machines = s->settings.whole_only && s->settings.data_peers < 3;  // neither is a majority of three voters without the other
    s->settings.voters = f->voters ? f->voters : s->settings.data_peers < 2 || two_machines || f->measure || s->settings.private_data ? 1 : s->settings.data_peers < 5 ? 3 : 5;
    if (s->settings.wholes == 0 && s->settings.relays + 1 < run->stages)
        return braid_fail(error, BRAID_ARGUMENT, "the run has %u stages: one in the data peers, and each of the others needs a relay; give --relays %u or more",
                          run->stages, run->stages - 1);
    machine_look(&s->machine);
    allowance_swarm_exceeds(&s->machine, run, s->settings.data_peers, s->settings.relays, f->capacity, f->max_memory ? f->max_memory : run->max_memory, s->memory_note, sizeof s->memory_note);
    err = descriptors_reserve(s, error);
    return err ? err : chaos_fill(s, f, run, error);
}

static int swarm_watched(swarm *s) {
    const stop_config stop = {.verb = "up", .within_ns = s->settings.stop_within_ns};
    braid_error error;
    return stop_watch(&stop, &error) ? cli_complain(CLI_FAILED, "up", "%s", error.text) : swarm_run(s);
}

int cli_up(int argc, char **argv) {
    static swarm s;       // large, one per process
    static run_config run;
    up_flags f = {.threads = 1, .stop_within_ns = STOP_WITHIN_NS};
    option table[] = {
        {"relays", OPTION_COUNT, &f.relays, .help = "relay processes to start", .min = 1, .max = UP_MAX_CHILDREN / 2, .fallback = "two per stage; none with --whole"},
        {"whole", OPTION_COUNT, &f.wholes, .help = "whole-model peers: data peers that take part in every stage, so that microbatches can stay on them. With --relays beside the run's data peers, without in their place", .max = WIRE_MAX_STAGE_MEMBERS, .fallback = "none"},
        {"threads", OPTION_COUNT, &f.threads, .help = "compute threads of each process", .min = 1, .max = 1024},
        {"capacity", OPTION_COUNT, &f.capacity, .help = "microbatches that each process holds at once", .max = WIRE_MAX_MICROBATCHES, .fallback = "the run's value"},
        {"max-memory", OPTION_SIZE, &f.max_memory, .help = "memory limit of each process, and of each whole-model peer with all its processes, for weights, optimizer and microbatches", .fallback = "no limit"},
        {"state-dir", OPTION_TEXT, &f.state_directory, .unit = "DIR", .help = "with --whole: keep weights and optimizer of whole-model peers in files in this directory", .fallback = "in memory"},
        {"resume", OPTION_TEXT, &f.resume, .unit = "DIR", .help = "resume from this checkpoint"},
        {"from", OPTION_TEXT, &f.from, .unit = "MODEL", .help = "start from the weights of this model: a Hugging Face directory, a checkpoint or a GGUF file", .fallback = "model.from of the run, else the seed"},
        {"anew", OPTION_SWITCH, &f.anew, .help = "start even if the checkpoint directory has newer checkpoints; those are moved to a folder set-aside-N in it"},
        {"continue", OPTION_SWITCH, &f.continues, .help = "resume from the run's newest checkpoint in checkpoint.dir; without one, start the run, from --resume if given"},
        {"log", OPTION_TEXT, &f.log, .unit = "PATH", .help = "keep the run's log in this file, and those of the other data peers in PATH.data2 and so on", .fallback = "no file"},
        {"shadows", OPTION_COUNT, &f.shadows, .help = "standby replicas per stage: extra processes that keep its state, so that the run survives the stage's loss", .max = 4, .fallback = "none"},
        {"trace", OPTION_TEXT, &f.trace, .unit = "DIR", .hidden = true, .help = "directory in which each process writes the inputs and outputs of the protocol"},
        {"voters", OPTION_COUNT, &f.voters, .help = "maximum number of voters, which keep the log; 3 or 5 survive the leader's death; 1, 3 or 5", .min = 1, .max = PEER_VOTERS, .fallback = "3 with two data peers, 5 with five; else, or with private data or --measure, 1"},
        {"measure", OPTION_TEXT, &f.measure, .unit = "FILE", .help = "write the measured costs of this swarm, as a scenario for braid sim", .fallback = "no measurement"},
        {"carried", OPTION_COUNT, &f.carried, .unit = "PERCENT", .hidden = true, .help = "percentage of tensors to send through a forwarding peer, for tests", .max = 100},
        {"stop-within", OPTION_DURATION, &f.stop_within_ns, .help = "time limit for an orderly stop after SIGINT, SIGTERM or SIGHUP", .min = 1},
        {"json", OPTION_SWITCH, &f.json, .help = "print one JSON object per line"},
        REPORT_SINK_OPTIONS(f.sinks),
        {"kill", OPTION_LIST, &f.kill, .unit = "PEER@TIME", .help = "kill a peer: relay3@iteration:12, any@iteration:5/weight, data2@iteration:7, whole@iteration:8, leader@iteration:9, stage:2@iteration:6/backward (see docs)", .fallback = ""},
        {"late", OPTION_LIST, &f.late, .unit = "N@iteration:K", .help = "start N more relays at iteration K", .fallback = ""},
        {"chaos", OPTION_TEXT, &f.chaos, .unit = "kills=N,joins=N,data=N,leader=N,within=N,seed=N", .help = "kill and start relays and data peers at random, and kill the current leader", .fallback = "none"},
    };
    options o = {.verb = "up", .arguments = "RUN.yaml", .summary = "Trains with a swarm of processes on this machine.",
                 .examples = examples, .table = table, .count = sizeof table / sizeof table[0], .min_given = 1, .max_given = 1};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code)) return code;
    braid_error error = {0};
    braid_err err = swarm_fill(&s, &f, o.given[0], &run, &error);
    if (err)
        code = cli_complain(CLI_USAGE, "up", "%s", error.text);
    else
        code = cli_can_write("up", "measure", s.settings.measure) ? swarm_watched(&s) : CLI_FAILED;
    options_close(&o);
    return code;
}
