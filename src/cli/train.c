// braid train --solo: the whole run in one process.
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/report.h"
#include "train/run.h"
#include "train/solo.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRAIN_MAX_THREADS = 1024 };

static const char examples[] = "braid train --solo RUN.yaml\n"
                               "braid train --solo RUN.yaml --threads 8 --save checkpoints\n"
                               "braid train --solo RUN.yaml --resume checkpoints\n";

typedef struct train_flags {
    bool solo, json;
    uint64_t threads, iterations, max_memory;
    const char *resume, *save;
} train_flags;

typedef struct train_view {
    const run_config *run;
    report *report;
    char unsaved[512];  // why the last checkpoint could not be written
} train_view;

// The first Ctrl-C asks for the end after this iteration; the second is the system's own, which ends the process.
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL);
}

static bool wants_stop(void *context) {
    (void)context;
    return interrupted != 0;
}

static void copy_text(char *to, size_t room, const char *text) {
    if (!text) return;
    size_t length = strnlen(text, room - 1);
    memcpy(to, text, length);
    to[length] = 0;
}

static const report_kind kind_of[] = {
    [SOLO_STARTED] = REPORT_STARTED,       [SOLO_ITERATION] = REPORT_ITERATION, [SOLO_EVAL] = REPORT_EVAL,
    [SOLO_CHECKPOINT] = REPORT_CHECKPOINT, [SOLO_NOTE] = REPORT_NOTE,
};

static void show(void *context, const solo_event *event) {
    train_view *view = context;
    report_event e = {.kind = kind_of[event->kind],
                      .iteration = event->iteration,
                      .of = event->of,
                      .loss = event->loss,
                      .norm = event->norm};
    e.learning_rate = event->learning_rate;
    e.tokens_per_second = event->tokens_per_second;
    e.tokens = event->tokens;
    e.parameters = event->parameters;
    e.microbatches = event->microbatches;
    e.stages = 1;
    e.skip = event->skip;
    e.failed = event->failed;
    copy_text(e.text, sizeof e.text, event->text);
    copy_text(e.path, sizeof e.path, event->path);
    copy_text(e.name, sizeof e.name, view->run->name);
    if (event->kind == SOLO_CHECKPOINT && event->failed) copy_text(view->unsaved, sizeof view->unsaved, event->text);
    report_tell(view->report, &e);
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show_end(const train_view *view, const solo_result *result, double seconds) {
    report_event e = {.kind = REPORT_END,
                      .iteration = result->version,
                      .loss = result->loss,
                      .tokens = result->tokens,
                      .seconds = seconds};
    id_hex(result->weights.bytes, BRAID_ID_BYTES, e.weights);
    copy_text(e.path, sizeof e.path, result->path);
    e.failed = result->save_failed;
    if (e.failed) copy_text(e.text, sizeof e.text, "the last checkpoint could not be written");
    report_tell(view->report, &e);
    report_loss_curve(view->report);
}

static int code_of(braid_err err) {
    return err == BRAID_CONFIG || err == BRAID_ARGUMENT || err == BRAID_FORMAT ? CLI_USAGE : CLI_FAILED;
}

static int train_run(const run_config *run, const train_data *data, const train_flags *flags) {
    train_view view = {.run = run, .report = report_new(flags->json ? REPORT_JSON : REPORT_AUTO, stdout)};
    if (!view.report) return cli_complain(CLI_FAILED, "train", "out of memory");
    solo_config config = {.run = run,
                          .data = data,
                          .threads = (unsigned)flags->threads,
                          .resume = flags->resume,
                          .until = flags->iterations,
                          .context = &view,
                          .tell = show,
                          .stop = wants_stop};
    solo_result result;
    braid_error error = {0};
    double start = seconds_now();
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    braid_err err = solo_run(&config, &result, &error);
    if (!err) show_end(&view, &result, seconds_now() - start);
    report_free(view.report);
    if (err) return cli_complain(code_of(err), "train", "%s", error.text);
    return result.save_failed ? cli_complain(CLI_FAILED, "train", "the last checkpoint could not be written: %s", view.unsaved) : CLI_OK;
}

static int train_file(const char *path, const train_flags *flags) {
    static run_config run;  // too large for a careful stack
    braid_error error = {0};
    const char *texts[RUN_MAX_TEXTS];
    train_data *data = NULL;
    braid_err err = cli_load_run(path, &run, &error);
    if (!err && flags->save &&
        snprintf(run.checkpoint, sizeof run.checkpoint, "%s", flags->save) >= (int)sizeof run.checkpoint)
        err = braid_fail(&error, BRAID_LIMIT, "the path given to --save is too long");
    if (flags->max_memory) run.max_memory = flags->max_memory;
    for (uint32_t i = 0; i < run.text_count && !err; i++) texts[i] = run.text[i];
    if (!err) err = run_config_has_all_texts(&run, &error);
    const train_shares shares = {run.slots, run.microbatches};
    if (!err && run.private_data > 0) err = train_data_open_shares(texts, run.text_count, &shares, run.holdout, run.tokens, &data, &error);
    else if (!err) err = train_data_open(texts, run.text_count, run.holdout, run.tokens, &data, &error);
    if (err) return cli_complain(CLI_USAGE, "train", "%s", error.text);
    int code = train_run(&run, data, flags);
    train_data_free(data);
    return code;
}

int cli_train(int argc, char **argv) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    train_flags flags = {.threads = cores > 0 ? (uint64_t)cores : 1};
    option table[] = {
        {"solo", OPTION_SWITCH, &flags.solo, .help = "everything in this process (a swarm: braid up, braid node)"},
        {"threads", OPTION_COUNT, &flags.threads, .help = "threads that compute; the result does not depend on it",
         .min = 1, .max = TRAIN_MAX_THREADS, .fallback = "one a core"},
        {"iterations", OPTION_COUNT, &flags.iterations, .help = "stop when this many are done",
         .fallback = "what the run says"},
        {"resume", OPTION_TEXT, &flags.resume, .unit = "DIR", .help = "go on from this checkpoint, a swarm's too"},
        {"save", OPTION_TEXT, &flags.save, .unit = "DIR", .help = "where checkpoints go",
         .fallback = "what the run says"},
        {"max-memory", OPTION_SIZE, &flags.max_memory, .help = "most memory for weights, optimizer and microbatches",
         .fallback = "no cap"},
        {"json", OPTION_SWITCH, &flags.json, .help = "one JSON object a line"},
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
                            "say --solo to train in this process; 'braid up' starts a swarm on this machine");
    else
        code = train_file(o.given[0], &flags);
    options_close(&o);
    return code;
}
