// braid tune: a LoRA adapter for a model, from examples.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/generator.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/report_sinks.h"
#include "cli/serve_peers.h"
#include "cli/solo_report.h"
#include "cli/tune_join.h"
#include "cli/tune_session.h"
#include "node/clock.h"
#include "node/stop.h"
#include "tune/targets.h"
#include "tune/tune.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char examples_text[] =
    "braid tune SmolLM2-135M-Instruct.Q4_1.gguf --data chats.jsonl --out my-adapter\n"
    "braid tune models/Qwen3-0.6B --data pairs.jsonl --out my-adapter --rank 8 --targets q_proj,v_proj --max-memory "
    "2G\n"
    "braid tune model.gguf --data chats.jsonl --out my-adapter --resume    also after kill -9\n"
    "braid tune model.gguf --data chats.jsonl --out my-adapter --session serve1.TICKET    layers of a serving swarm\n"
    "braid chat SmolLM2-135M-Instruct.Q4_1.gguf --adapter my-adapter\n";

enum { MOST_SEQUENCE = 1 << 16, MOST_BATCH = 1 << 12 };

typedef struct tune_flags {
    const char *data, *out, *validation, *from_adapter, *targets, *template_file, *session, *join;
    uint64_t iterations, rank, sequence, batch, patience, validate_every, save_every, max_memory, threads, seed, relays;
    uint64_t stop_within_ns;
    double alpha, learning_rate, hold_out;
    bool rslora, resume, json;
    report_sink_paths sinks;
    machine machine;
} tune_flags;

typedef struct tune_view {
    const tune_flags *flags;
    report *report;
    const char *name;
    uint64_t asked_ns;  // time of the first request to stop; 0: none
    generator g;
    chat_template *template_;
    tune_examples examples, validation;
    peft_adapter *from;
    tune_session *session;
    pthread_mutex_t lock;  // of the report: notes of a swarm come from a thread of their own
    tune_config config;
} tune_view;

static void show(void *context, const solo_event *event) {
    tune_view *view = context;
    pthread_mutex_lock(&view->lock);
    solo_report_show(view->report, view->name, event);
    pthread_mutex_unlock(&view->lock);
}

static void note(tune_view *view, const char *text) {
    show(view, &(solo_event){.kind = SOLO_NOTE, .text = text, .loss = NAN});
}

static solo_wish wish(void *context) {
    tune_view *view = context;
    uint64_t within = view->flags->stop_within_ns;
    if (stop_at_once()) return SOLO_ABANDON;
    if (!stop_requested()) return SOLO_GO_ON;
    if (!view->asked_ns) {
        view->asked_ns = clock_now_ns();
        note(view, "stopping: the state is saved after this iteration, or without it after a few seconds");
    }
    return clock_now_ns() - view->asked_ns < stop_finish_ns(within) ? SOLO_FINISH : SOLO_DROP;
}

static void note_of_swarm(void *context, const char *text) { note(context, text); }

static bool ends_now(void *context) {
    solo_wish asked = wish(context);
    return asked == SOLO_DROP || asked == SOLO_ABANDON;
}

// ---- data

static braid_err open_template(tune_view *view, braid_error *error) {
    const char *source = model_file_chat_template(view->g.file), *path = view->flags->template_file;
    char *read = NULL;
    size_t length = source ? strlen(source) : 0;
    braid_err err = BRAID_OK;
    if (path) err = files_read(path, CHAT_MAX_SOURCE_BYTES, &read, &length, error);
    if (path) source = read;
    if (!err && source) err = chat_template_parse(source, length, &view->template_, error);
    free(read);
    return err;
}

static void describe(tune_view *view, const char *path, const tune_examples *e) {
    char text[400];
    int used = snprintf(text, sizeof text, "%.200s: %u examples of %zu tokens", path, e->count, e->ids.count);
    if (e->cut > 0)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "; %u were longer than --sequence allows and lost %llu tokens at their ends", e->cut,
                         (unsigned long long)e->cut_tokens);
    if (e->dropped > 0)
        snprintf(text + used, sizeof text - (size_t)used, "; %u were left out, because nothing to learn remained",
                 e->dropped);
    note(view, text);
}

static braid_err read_examples(tune_view *view, const char *path, tune_examples *out, braid_error *error) {
    const examples_source source = {.path = path,
                                    .tokenizer = view->g.tokenizer,
                                    .encoder = view->g.encoder,
                                    .template_ = view->template_,
                                    .longest = view->config.sequence + 1};
    braid_err err = examples_read(out, &source, error);
    if (!err) describe(view, path, out);
    return err;
}

// ---- settings

static uint64_t roles_of_adapter(const peft_adapter *p) {
    uint64_t roles = 0;
    for (uint32_t i = 0; i < p->count; i++) roles |= (uint64_t)1 << p->matrix[i].role;
    return roles;
}

// An adapter that is continued has its own rank, alpha and modules.
static braid_err set_adapter(tune_view *view, const options *o, braid_error *error) {
    const tune_flags *flags = view->flags;
    adapter_config *a = &view->config.adapter;
    static const char *const fixed[] = {"rank", "alpha", "rslora", "targets"};
    if (!flags->from_adapter) {
        *a = (adapter_config){.rank = (uint32_t)flags->rank, .rank_stabilised = flags->rslora};
        a->alpha = option_is_set(o, "alpha") ? (float)flags->alpha : 2 * (float)flags->rank;
        return targets_read(model_file_config(view->g.file), flags->targets, &a->roles, error);
    }
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (option_is_set(o, fixed[i]))
            return braid_fail(error, BRAID_ARGUMENT, "the adapter of --from-adapter has its own %s; leave out --%s",
                              fixed[i], fixed[i]);
    braid_err err = peft_open(flags->from_adapter, view->g.file, &view->from, error);
    if (err) return err;
    *a = (adapter_config){.rank = view->from->rank,
                          .alpha = view->from->alpha,
                          .rank_stabilised = view->from->rank_stabilised,
                          .roles = roles_of_adapter(view->from)};
    return BRAID_OK;
}

static void set_config(tune_view *view, const char *model) {
    const tune_flags *flags = view->flags;
    uint32_t context = model_file_config(view->g.file)->context;
    view->config = (tune_config){.file = view->g.file,
                                 .pool = view->g.pool,
                                 .examples = &view->examples,
                                 .held_out = flags->validation ? &view->validation : NULL,
                                 .held_percent = flags->hold_out,
                                 .base_name = model,
                                 .iterations = flags->iterations,
                                 .validate_every = flags->validate_every,
                                 .save_every = flags->save_every,
                                 .patience = (uint32_t)flags->patience,
                                 .sequence = flags->sequence < context ? (uint32_t)flags->sequence : context,
                                 .batch = (uint32_t)flags->batch,
                                 .learning_rate = (float)flags->learning_rate,
                                 .seed = flags->seed,
                                 .max_memory = flags->max_memory,
                                 .directory = flags->out,
                                 .resume = flags->resume,
                                 .context = view,
                                 .tell = show,
                                 .wish = wish};
}

// ---- the run

static void show_end(const tune_view *view, const tune_result *r, const char *why, double seconds) {
    report_event e = {.kind = REPORT_END, .iteration = r->iteration, .of = r->of, .loss = r->loss, .tokens = r->tokens};
    if (!why && !r->abandoned) id_hex(r->weights.bytes, BRAID_ID_BYTES, e.weights);
    if (r->saved) snprintf(e.path, sizeof e.path, "%s", view->flags->out);
    e.seconds = seconds;
    e.stopped = r->stopped && r->iteration < r->of;
    if (e.stopped) snprintf(e.reason, sizeof e.reason, "%s", stop_signal_name(stop_requested()));
    e.failed = why || r->abandoned;
    if (why) snprintf(e.text, sizeof e.text, "%s", why);
    report_tell(view->report, &e);
}

static void note_result(tune_view *view, const tune_result *r) {
    char text[300];
    if (r->early) note(view, "the held-out loss does not fall any more (--patience), so tuning ends here");
    if (!isfinite(r->best_loss)) return;
    snprintf(text, sizeof text, "%.200s has the adapter of iteration %llu, with a held-out loss of %.4f",
             view->flags->out, (unsigned long long)r->best_iteration, r->best_loss);
    note(view, text);
}

static braid_err prepare(tune_view *view, const options *o, braid_error *error) {
    const tune_flags *flags = view->flags;
    braid_err err = generator_open_model(&view->g, o->given[0], (unsigned)flags->threads, error);
    if (err) return err;
    set_config(view, o->given[0]);
    err = set_adapter(view, o, error);
    view->config.from = view->from;
    if (!err) err = open_template(view, error);
    if (!err) err = read_examples(view, flags->data, &view->examples, error);
    if (!err && flags->validation) err = read_examples(view, flags->validation, &view->validation, error);
    if (err || (!flags->session && !flags->relays)) return err;
    const tune_session_config session = {.ticket = flags->session,
                                         .relays = (uint32_t)flags->relays,
                                         .threads = flags->threads,
                                         .max_memory = flags->max_memory,
                                         .file = view->g.file,
                                         .path = o->given[0],
                                         .context = view,
                                         .note = note_of_swarm,
                                         .stops = ends_now};
    err = tune_session_open(&session, &view->session, error);
    view->config.remote = tune_session_remote(view->session);
    return err;
}

static void close_view(tune_view *view) {
    tune_session_close(view->session);
    peft_close(view->from);
    examples_free(&view->examples);
    examples_free(&view->validation);
    chat_template_free(view->template_);
    generator_close(&view->g);
    report_free(view->report);
    pthread_mutex_destroy(&view->lock);
}

static int code_of(braid_err err) {
    bool usage = err == BRAID_ARGUMENT || err == BRAID_CONFIG || err == BRAID_FORMAT || err == BRAID_STATE;
    return usage ? CLI_USAGE : CLI_FAILED;
}

static double seconds_since(uint64_t start_ns) { return (double)(clock_now_ns() - start_ns) * 1e-9; }

static int tune(const options *o, const tune_flags *flags) {
    tune_view view = {.flags = flags, .name = flags->out};
    tune_result result = {0};
    uint64_t start = clock_now_ns();
    braid_error error = {0};
    report_sinks *sinks = NULL;
    view.report = report_new(flags->json ? REPORT_JSON : REPORT_AUTO, stdout);
    pthread_mutex_init(&view.lock, NULL);
    if (!view.report) return cli_complain(CLI_FAILED, "tune", "out of memory");
    braid_err err = report_sinks_open(&flags->sinks, &sinks, &error);
    if (!err) {
        report_also(view.report, sinks);
        allowance_tell(view.report, &flags->machine, flags->max_memory);
        err = prepare(&view, o, &error);
    }
    if (!err) err = tune_run(&view.config, &result, &error);
    tune_session_tell(view.session);
    if (!err) note_result(&view, &result);
    if (result.begun) show_end(&view, &result, err ? error.text : NULL, seconds_since(start));
    if (result.begun && !err) report_loss_curve(view.report);
    close_view(&view);
    if (err) return cli_complain(code_of(err), "tune", "%s", error.text);
    if (result.abandoned)
        return cli_complain(CLI_FAILED, "tune",
                            "a second request ended it at once; --resume goes on from the last saved state");
    return CLI_OK;
}

// The run behind the ticket has its own data, adapter and directory.
static int join_run(const options *o, const tune_flags *flags) {
    static const char *const foreign[] = {
        "data",    "out",        "session",      "relays", "iterations",    "rank",     "alpha", "rslora",
        "targets", "validation", "from-adapter", "resume", "learning-rate", "sequence", "batch", "seed"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (option_is_set(o, foreign[i]))
            return cli_complain(CLI_USAGE, "tune",
                                "--join lends this machine to a run with its own settings; leave out --%s", foreign[i]);
    const tune_join_flags join = {.ticket = flags->join,
                                  .model = o->given[0],
                                  .threads = flags->threads,
                                  .max_memory = flags->max_memory,
                                  .json = flags->json};
    return tune_join(&join);
}

static int tune_watched(const options *o, const tune_flags *flags) {
    const stop_config stop = {.verb = "tune", .within_ns = flags->stop_within_ns};
    braid_error error;
    if (flags->join) return join_run(o, flags);
    if (flags->session && flags->relays)
        return cli_complain(CLI_USAGE, "tune",
                            "--session has the layers of a swarm, and --relays makes one; give one of them");
    if (!flags->data) return cli_complain(CLI_USAGE, "tune", "give the examples with --data FILE");
    if (!flags->out) return cli_complain(CLI_USAGE, "tune", "give the directory of the adapter with --out DIR");
    return stop_watch(&stop, &error) ? cli_complain(CLI_FAILED, "tune", "%s", error.text) : tune(o, flags);
}

static int parse_and_run(int argc, char **argv, tune_flags *flags) {
    option table[] = {
        {"data", OPTION_TEXT, &flags->data, .unit = "FILE",
         .help = "JSON lines with messages, with prompt and completion, or with text"},
        {"out", OPTION_TEXT, &flags->out, .unit = "DIR",
         .help = "directory of the adapter, as peft writes it, and of the state for --resume"},
        {"iterations", OPTION_COUNT, &flags->iterations, .help = "steps of the optimizer", .max = 1e9,
         .fallback = "three passes over the data"},
        {"rank", OPTION_COUNT, &flags->rank, .help = "rank of the adapter", .min = 1, .max = ADAPTER_MAX_RANK},
        {"alpha", OPTION_REAL, &flags->alpha, .help = "the adapter is scaled by alpha / rank", .max = 1e6,
         .fallback = "twice the rank"},
        {"rslora", OPTION_SWITCH, &flags->rslora, .help = "scale by alpha / sqrt(rank) instead"},
        {"targets", OPTION_TEXT, &flags->targets, .unit = "NAMES",
         .help = "modules to adapt: all, attention, mlp, names such as q_proj,v_proj, or patterns such as mlp.*"},
        {"learning-rate", OPTION_REAL, &flags->learning_rate, .help = "after the warm-up; it falls to a tenth",
         .max = 1},
        {"sequence", OPTION_COUNT, &flags->sequence, .help = "tokens of a sequence; longer examples are cut", .min = 8,
         .max = MOST_SEQUENCE},
        {"batch", OPTION_COUNT, &flags->batch, .help = "sequences of an iteration", .min = 1, .max = MOST_BATCH},
        {"validation", OPTION_TEXT, &flags->validation, .unit = "FILE", .help = "held-out examples",
         .fallback = "--hold-out"},
        {"hold-out", OPTION_REAL, &flags->hold_out, .unit = "PERCENT",
         .help = "share of --data that is held out; 0: none", .max = 90},
        {"validate-every", OPTION_COUNT, &flags->validate_every, .help = "iterations between two held-out losses",
         .min = 1, .max = 1e9},
        {"patience", OPTION_COUNT, &flags->patience,
         .help = "end after this many held-out losses that are not the lowest; 0: never", .max = 1e6},
        {"save-every", OPTION_COUNT, &flags->save_every, .help = "iterations between two saved states", .min = 1,
         .max = 1e9},
        {"from-adapter", OPTION_TEXT, &flags->from_adapter, .unit = "DIR",
         .help = "start from this adapter, also one of peft"},
        {"resume", OPTION_SWITCH, &flags->resume, .help = "go on with the run in --out; without one, begin it"},
        {"session", OPTION_TEXT, &flags->session, .unit = "TICKET",
         .help = "let the peers of a serving swarm compute the layers; they keep nothing of the adapter"},
        {"relays", OPTION_COUNT, &flags->relays, .help = "child processes that compute the layers; they may be killed",
         .max = SERVE_MAX_PEERS, .fallback = "this process computes"},
        {"join", OPTION_TEXT, &flags->join, .unit = "TICKET",
         .help = "lend this machine to the run of an adapter, or to a serving swarm, of the same MODEL"},
        {"template", OPTION_TEXT, &flags->template_file, .unit = "FILE", .help = "another chat template",
         .fallback = "the model's"},
        {"max-memory", OPTION_SIZE, &flags->max_memory,
         .help = "memory besides the model's file; with less, activations are computed twice", .fallback = "no limit"},
        {"threads", OPTION_COUNT, &flags->threads,
         .help = "compute threads; the result does not depend on their number", .min = 1, .max = ALLOWANCE_MOST_THREADS,
         .fallback = "one per usable processor"},
        {"seed", OPTION_COUNT, &flags->seed, .help = "of the start and of the order of the examples"},
        {"stop-within", OPTION_DURATION, &flags->stop_within_ns,
         .help = "time limit for an orderly stop after SIGINT, SIGTERM or SIGHUP", .min = 1},
        {"json", OPTION_SWITCH, &flags->json, .help = "print one JSON object per line"},
        REPORT_SINK_OPTIONS(flags->sinks),
    };
    options o = {.verb = "tune",
                 .arguments = "MODEL",
                 .summary = "Adapts a model to examples: trains a LoRA adapter on the frozen weights of a directory of "
                            "Hugging Face, a checkpoint, or a GGUF file, and writes it as peft does.",
                 .examples = examples_text,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = tune_watched(&o, flags);
    options_close(&o);
    return code;
}

int cli_tune(int argc, char **argv) {
    tune_flags flags = {.rank = 16,
                        .targets = "all",
                        .learning_rate = 2e-4,
                        .sequence = 512,
                        .batch = 4,
                        .hold_out = 5,
                        .validate_every = 10,
                        .save_every = 10,
                        .patience = 5,
                        .seed = 1,
                        .stop_within_ns = STOP_WITHIN_NS};
    machine_look(&flags.machine);
    flags.threads = allowance_threads(&flags.machine);
    return parse_and_run(argc, argv, &flags);
}
