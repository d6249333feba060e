// braid train --solo: the whole run in one process.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/report_sinks.h"
#include "cli/solo_report.h"
#include "node/clock.h"
#include "node/run_data.h"
#include "node/start_model.h"
#include "node/stop.h"
#include "train/run.h"
#include "train/run_notes.h"
#include "train/solo.h"
#include "train/swap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char examples[] = "braid train --solo RUN.yaml\n"
                               "braid train --solo RUN.yaml --threads 8 --save checkpoints\n"
                               "braid train --solo RUN.yaml --resume checkpoints\n"
                               "braid train --solo RUN.yaml --continue           the same command line for the first start and every restart\n";

typedef struct train_flags {
    bool solo, json, anew, continues;
    report_sink_paths sinks;
    uint64_t threads, iterations, max_memory;
    uint64_t stop_within_ns;
    const char *resume, *from, *save;
    const char *state_directory, *schedule;
    uint64_t state_rate;
    machine machine;
} train_flags;

typedef struct train_view {
    const run_config *run;
    report *report;
    char model[FILES_MAX_PATH];  // checkpoint of the model that the run starts from; "": none
    char unsaved[512];  // why the last checkpoint could not be written
    // Limit of an orderly end, and the time of its request (0: none).
    uint64_t within_ns, asked_ns;
} train_view;

static void copy_text(char *to, size_t room, const char *text) {
    if (!text) return;
    size_t length = strnlen(text, room - 1);
    memcpy(to, text, length);
    to[length] = 0;
}

static void show(void *context, const solo_event *event) {
    train_view *view = context;
    if (event->kind == SOLO_CHECKPOINT && event->failed) copy_text(view->unsaved, sizeof view->unsaved, event->text);
    solo_report_show(view->report, view->run->name, event);
}

static void note(const train_view *view, const char *text) {
    report_event e = {.kind = REPORT_NOTE, .loss = NAN};
    copy_text(e.text, sizeof e.text, text);
    report_tell(view->report, &e);
}

static void note_stop(const train_view *view) {
    char text[256];
    snprintf(text, sizeof text, "%s: saving after this iteration, or without it after %.3g s; at most %.3g s in all; repeat the signal to end at once", stop_signal_name(stop_requested()),
             (double)stop_finish_ns(view->within_ns) * 1e-9, (double)view->within_ns * 1e-9);
    note(view, text);
}

static solo_wish wish(void *context) {
    train_view *view = context;
    if (stop_at_once()) return SOLO_ABANDON;
    if (stop_requested()) {
        if (!view->asked_ns) note_stop(view);
        if (!view->asked_ns) view->asked_ns = clock_now_ns();
        return clock_now_ns() - view->asked_ns < stop_finish_ns(view->within_ns) ? SOLO_FINISH : SOLO_DROP;
    }
    if (!stop_take_save()) return SOLO_GO_ON;
    note(view, "SIGUSR1: saving a checkpoint");
    return SOLO_SAVE;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// `why` is NULL unless the run failed.
static void show_end(const train_view *view, const solo_result *result, const char *why, double seconds) {
    report_event e = {.kind = REPORT_END,
                      .iteration = result->version,
                      .of = result->until,
                      .loss = result->loss,
                      .tokens = result->tokens,
                      .seconds = seconds};
    if (!why) id_hex(result->weights.bytes, BRAID_ID_BYTES, e.weights);
    copy_text(e.path, sizeof e.path, result->path);
    e.stopped = result->stopped;
    if (e.stopped) copy_text(e.reason, sizeof e.reason, stop_signal_name(stop_requested()));
    if (result->diverged) copy_text(e.reason, sizeof e.reason, REPORT_DIVERGED);
    e.failed = why || result->save_failed || result->abandoned;
    if (why) copy_text(e.text, sizeof e.text, why);
    else if (result->abandoned) copy_text(e.text, sizeof e.text, "a second request ended it at once");
    else if (e.failed) copy_text(e.text, sizeof e.text, "the last checkpoint could not be written");
    report_tell(view->report, &e);
    if (!why) report_loss_curve(view->report);
}

static void show_note(void *context, const char *text) { show(context, &(solo_event){.kind = SOLO_NOTE, .text = text}); }

static bool is_stopped(void *context) {
    (void)context;
    return stop_requested() != 0;
}

static int code_of(braid_err err) {
    return err == BRAID_CONFIG || err == BRAID_ARGUMENT || err == BRAID_FORMAT ? CLI_USAGE : CLI_FAILED;
}

static bool is_schedule(const train_flags *flags, const char *name) { return flags->schedule && strcmp(flags->schedule, name) == 0; }

static int train_run(train_view *view, const train_data *data, const train_flags *flags) {
    const run_config *run = view->run;
    solo_config config = {.run = run,
                          .data = data,
                          .threads = (unsigned)flags->threads,
                          .resume = flags->resume,
                          .model = view->model[0] ? view->model : NULL,
                          .anew = flags->anew,
                          .continues = flags->continues,
                          .until = flags->iterations,
                          .usable_bytes = flags->machine.memory_bytes,
                          .context = view,
                          .tell = show,
                          .wish = wish};
    const swap_options swapped = {.directory = flags->state_directory,
                                  .max_memory = run->max_memory,
                                  .rate = flags->state_rate,
                                  .stashes = is_schedule(flags, "stashes"),
                                  .naive = is_schedule(flags, "naive")};
    if (flags->state_directory) config.swap = &swapped;
    solo_result result = {0};
    braid_error error = {0};
    allowance_tell(view->report, &flags->machine, run->max_memory);
    run_notes(run, train_data_size(data), show_note, view);
    double start = seconds_now();
    braid_err err = run->checkpoint[0] ? allowance_files(&flags->machine, ALLOWANCE_SOLO_FILES, &error) : BRAID_OK;
    if (!err) err = solo_run(&config, &result, &error);
    if (!err || result.begun) show_end(view, &result, err ? error.text : NULL, seconds_now() - start);
    report_free(view->report);
    if (err) return cli_complain(code_of(err), "train", "%s", error.text);
    if (result.abandoned) return cli_complain(CLI_FAILED, "train", "a second request ended it at once; nothing was saved after the newest checkpoint");
    return result.save_failed ? cli_complain(CLI_FAILED, "train", "the last checkpoint could not be written: %s", view->unsaved) : CLI_OK;
}

static int train_file(const char *path, const train_flags *flags) {
    static run_config run;  // too large for the stack
    braid_error error = {0};
    train_data *data = NULL;
    braid_err err = cli_load_run(path, flags->from, &run, &error);
    if (!err && flags->save &&
        snprintf(run.checkpoint, sizeof run.checkpoint, "%s", flags->save) >= (int)sizeof run.checkpoint)
        err = braid_fail(&error, BRAID_LIMIT, "the path given to --save is too long");
    if (flags->max_memory) run.max_memory = flags->max_memory;
    if (!err) err = run_config_has_all_texts(&run, &error);
    if (err) return cli_complain(CLI_USAGE, "train", "%s", error.text);
    train_view view = {.run = &run, .within_ns = flags->stop_within_ns, .report = report_new(flags->json ? REPORT_JSON : REPORT_AUTO, stdout)};
    if (!view.report) return cli_complain(CLI_FAILED, "train", "out of memory");
    report_sinks *sinks;
    if (report_sinks_open(&flags->sinks, &sinks, &error)) {
        report_free(view.report);
        return cli_complain(CLI_FAILED, "train", "%s", error.text);
    }
    report_also(view.report, sinks);
    const place_host host = {.context = &view, .note = show_note, .stopped = is_stopped};
    const run_data_config texts = {.run = &run, .threads = (unsigned)flags->threads, .describes = true, .host = host};
    err = start_model_make(&run, &host, view.model, &error);
    if (!err) err = run_data_open(&texts, &data, &error);
    if (err) report_free(view.report);
    int code = err ? cli_complain(err == BRAID_STATE ? CLI_FAILED : CLI_USAGE, "train", "%s", error.text) : train_run(&view, data, flags);
    train_data_free(data);
    return code;
}

static int train_watched(const char *path, const train_flags *flags) {
    const stop_config stop = {.verb = "train", .within_ns = flags->stop_within_ns};
    braid_error error;
    return stop_watch(&stop, &error) ? cli_complain(CLI_FAILED, "train", "%s", error.text) : train_file(path, flags);
}

int cli_train(int argc, char **argv) {
    train_flags flags = {.stop_within_ns = STOP_WITHIN_NS};
    machine_look(&flags.machine);
    flags.threads = allowance_threads(&flags.machine);
    option table[] = {
        {"solo", OPTION_SWITCH, &flags.solo, .help = "train in this process alone (for a swarm: braid up, braid node)"},
        {"threads", OPTION_COUNT, &flags.threads, .help = "compute threads; the result does not depend on their number",
         .min = 1, .max = ALLOWANCE_MOST_THREADS, .fallback = "one per usable processor"},
        {"iterations", OPTION_COUNT, &flags.iterations, .help = "stop when this many are done",
         .fallback = "the run's value"},
        {"resume", OPTION_TEXT, &flags.resume, .unit = "DIR", .help = "resume from this checkpoint, also one of a swarm"},
        {"from", OPTION_TEXT, &flags.from, .unit = "MODEL", .help = "start from the weights of this model: a Hugging Face directory, a checkpoint or a GGUF file",
         .fallback = "model.from of the run, else the seed"},
        {"anew", OPTION_SWITCH, &flags.anew, .help = "start even if the checkpoint directory has newer checkpoints; those are moved to a folder set-aside-N in it"},
        {"continue", OPTION_SWITCH, &flags.continues, .help = "resume from the run's newest checkpoint in its directory; without one, start the run, from --resume if given"},
        {"save", OPTION_TEXT, &flags.save, .unit = "DIR", .help = "directory for checkpoints",
         .fallback = "the run's value"},
        {"max-memory", OPTION_SIZE, &flags.max_memory, .help = "memory limit for weights, optimizer and microbatches",
         .fallback = "no limit"},
        {"state-dir", OPTION_TEXT, &flags.state_directory, .unit = "DIR", .help = "keep weights and optimizer in a file in this directory, a few layers in memory (--max-memory)"},
        {"state-rate", OPTION_SIZE, &flags.state_rate, .help = "limit of that file's reads and writes, in bytes per second", .fallback = "no limit"},
        {"swap", OPTION_TEXT, &flags.schedule, .unit = "layers|stashes|naive", .help = "with --state-dir: layer by layer; the same with activations in the file instead of a repeated forward pass; or the baseline, one microbatch after another",
         .fallback = "layers"},
        {"stop-within", OPTION_DURATION, &flags.stop_within_ns, .help = "time limit for an orderly stop after SIGINT, SIGTERM or SIGHUP", .min = 1},
        {"json", OPTION_SWITCH, &flags.json, .help = "print one JSON object per line"},
        REPORT_SINK_OPTIONS(flags.sinks),
    };
    options o = {.verb = "train",
                 .arguments = "RUN.yaml",
                 .summary = "Trains a run in one process.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (!flags.solo)
        code = cli_complain(CLI_USAGE, "train",
                            "add --solo to train in this process; 'braid up' starts a swarm on this machine");
    else if (flags.continues && flags.anew)
        code = cli_complain(CLI_USAGE, "train", "--continue resumes from the newest checkpoint and --anew sets it aside; give one of them");
    else if (flags.schedule && !is_schedule(&flags, "layers") && !is_schedule(&flags, "stashes") && !is_schedule(&flags, "naive"))
        code = cli_complain(CLI_USAGE, "train", "--swap is 'layers', 'stashes' or 'naive', not '%s'", flags.schedule);
    else if (!flags.state_directory && (flags.schedule || flags.state_rate))
        code = cli_complain(CLI_USAGE, "train", "--swap and --state-rate need --state-dir DIR, the directory for the state");
    else
        code = train_watched(o.given[0], &flags);
    options_close(&o);
    return code;
}
