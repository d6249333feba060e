// braid bench step: the speed of whole training steps, as `braid train --solo` does them.
#include "base/rng.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/bench_step_inside.h"
#include "cli/options.h"
#include "train/data.h"
#include "train/solo.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char examples[] = "braid bench step --model gpt2-124m --threads 1\n"
                               "braid bench step --model llama-15m --reproducible --reps 15\n"
                               "braid bench step --model llama-1.2m --json\n";

enum { TEXT_BYTES = 1 << 20, NAMES = 80 };

// Six layers, as many key heads as query heads, tied embeddings.
#define LLAMA(width, head_count, ffn, words, length) \
    {.arch = MODEL_LLAMA,                            \
     .dim = width,                                   \
     .layers = 6,                                    \
     .heads = head_count,                            \
     .kv_heads = head_count,                         \
     .ffn_dim = ffn,                                 \
     .vocab = words,                                 \
     .context = length,                              \
     .rope_theta = 10000,                            \
     .norm_eps = 1e-5f,                              \
     .tied = true}

const step_model step_models[STEP_MODELS] = {
    {"gpt2-124m",
     {.arch = MODEL_GPT,
      .dim = 768,
      .layers = 12,
      .heads = 12,
      .kv_heads = 12,
      .ffn_dim = 3072,
      .vocab = 50257,
      .context = 1024,
      .norm_eps = 1e-5f,
      .tied = true},
     4,
     256},
    {"llama-15m", LLAMA(288, 6, 768, 32000, 256), 8, 256},
    {"llama-4.9m", LLAMA(256, 8, 704, 256, 128), 8, 128},
    {"llama-1.2m", LLAMA(128, 4, 352, 256, 128), 8, 128},
};

// --- measurement

static void on_loop(void *context, const char *function, uint64_t nanoseconds) {
    step_bench *b = context;
    uint32_t i = 0;
    while (i < b->loops && strcmp(b->loop[i].function, function) != 0) i++;
    if (i == STEP_MAX_LOOPS) return;
    if (i == b->loops) b->loop[b->loops++] = (step_loop){.function = function};
    b->loop[i].calls++;
    b->loop[i].nanoseconds += nanoseconds;
}

static void on_job(void *context, job_kind kind, uint64_t cost_ns) {
    step_bench *b = context;
    b->job_ns[kind] += cost_ns;
}

static void on_event(void *context, const solo_event *event) {
    step_bench *b = context;
    if (event->kind == SOLO_STARTED) {
        b->parameters = event->parameters;
        b->last_peak = step_peak();
        b->processor_start = step_processor_now();
    }
    if (event->kind != SOLO_ITERATION) return;
    b->loss = event->loss;
    double used = step_processor_now() - b->processor_start, peak = step_peak(), beside = (b->last_peak + peak) / 2;
    b->last_peak = peak;
    b->processor_start = step_processor_now();
    if (event->iteration > b->warmup) {
        b->processor[b->steps] = used;
        b->peaks[b->steps] = beside;
        b->seconds[b->steps++] = (double)event->tokens / event->tokens_per_second;
        return;
    }
    b->loops = 0;
    memset(b->job_ns, 0, sizeof b->job_ns);
}

// --- one run

// Random bytes, which no model can learn; the same for every program that is compared.
static braid_err random_text(uint32_t tokens, train_data **out, braid_error *error) {
    static uint8_t bytes[TEXT_BYTES];
    rng random = {1};
    for (size_t i = 0; i < TEXT_BYTES; i++) bytes[i] = (uint8_t)rng_below(&random, 256);
    FILE *file = tmpfile();
    if (!file) return braid_fail(error, BRAID_IO, "cannot make a temporary file for the text; is /tmp full?");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    const char *paths[] = {path};
    bool written = fwrite(bytes, 1, TEXT_BYTES, file) == TEXT_BYTES && fflush(file) == 0;
    braid_err err = written ? train_data_open(paths, 1, 0, tokens, out, error)
                            : braid_fail(error, BRAID_IO, "cannot write a text of %d bytes", TEXT_BYTES);
    fclose(file);
    return err;
}

static void describe_run(const step_bench *b, run_config *run) {
    const step_model *m = b->model;
    *run = (run_config){.seed = 1,
                        .model = m->model,
                        .stages = 1,
                        .microbatches = 1,
                        .sequences = m->sequences,
                        .tokens = m->tokens,
                        .recompute = b->recompute,
                        .products = b->fastest ? RUN_PRODUCTS_FASTEST : RUN_PRODUCTS_COMMON};
    snprintf(run->name, sizeof run->name, "%s", m->name);
    run->blocks[0] = m->model.layers;
    run->recipe = (train_recipe){.iterations = b->warmup + b->reps,
                                 .learning_rate = 1e-4f,
                                 .min_learning_rate = 1e-4f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.1f,
                                 .clip = 1.0f,
                                 .reproducible = b->reproducible};
}

static braid_err measure(step_bench *b, braid_error *error) {
    static run_config run;  // too large for the stack
    train_data *data = NULL;
    tensor_watch watch = {b, on_loop};
    solo_result result;
    describe_run(b, &run);
    braid_err err = random_text(run.tokens, &data, error);
    solo_config config = {.run = &run, .data = data, .threads = (unsigned)b->threads, .context = b};
    config.tell = on_event;
    config.watch = &watch;
    config.job_done = on_job;
    if (!err) err = solo_run(&config, &result, error);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    b->peak_memory = (uint64_t)usage.ru_maxrss << 10;
    if (!err && b->shapes_wanted) err = step_time_shapes(b, error);
    train_data_free(data);
    return err;
}

// --- command line

static bool choose_model(step_bench *b, const char *name) {
    char names[NAMES] = "";
    for (uint32_t i = 0; i < STEP_MODELS; i++) {
        if (strcmp(step_models[i].name, name) == 0) b->model = &step_models[i];
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", step_models[i].name);
    }
    if (!b->model) cli_complain(CLI_USAGE, "bench step", "unknown model '%.64s'; choose one of %s", name, names);
    return b->model != NULL;
}

static bool choose_products(step_bench *b, const char *name) {
    bool common = strcmp(name, "common") == 0, fastest = strcmp(name, "fastest") == 0;
    b->fastest = *name ? fastest : !b->reproducible;
    if (!*name || common || fastest) return true;
    cli_complain(CLI_USAGE, "bench step", "--products is 'common' or 'fastest', not '%.64s'", name);
    return false;
}

static int run_bench(step_bench *b, const char *model, const char *products) {
    braid_error error = {0};
    if (!choose_model(b, model) || !choose_products(b, products)) return CLI_USAGE;
    if (measure(b, &error)) return cli_complain(CLI_FAILED, "bench step", "%s", error.text);
    return step_print(b) ? CLI_OK : cli_complain(CLI_FAILED, "bench step", "out of memory");
}

int bench_step(int argc, char **argv) {
    static step_bench b = {.threads = 1, .reps = 7, .warmup = 2, .shapes_wanted = true};
    const char *model = "llama-15m", *products = "";
    option table[] = {
        {"model", OPTION_TEXT, &model, .unit = "NAME", .help = "gpt2-124m, llama-15m, llama-4.9m or llama-1.2m"},
        {"threads", OPTION_COUNT, &b.threads, .help = "compute threads", .min = 1, .max = 1024},
        {"reps", OPTION_COUNT, &b.reps, .help = "timed steps", .min = 1, .max = STEP_MAX_REPS},
        {"warmup", OPTION_COUNT, &b.warmup, .help = "warm-up steps before them", .max = 1000},
        {"reproducible", OPTION_SWITCH, &b.reproducible, .help = "exact sums of gradients, instead of fp32"},
        {"products", OPTION_TEXT, &products, .unit = "WHICH",
         .help = "common: same bits on all processors; fastest: best for this one (default: as in a run, common with --reproducible)"},
        {"recompute", OPTION_SWITCH, &b.recompute, .help = "keep only a microbatch's input, and recompute its activations in backward"},
        {"shapes", OPTION_SWITCH, &b.shapes_wanted, .help = "also time each matrix product separately"},
        {"json", OPTION_SWITCH, &b.json, .help = "print one JSON object"},
    };
    options o = {.verb = "bench step",
                 .summary = "Measures whole training steps: forward, backward, AdamW, in one process.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = run_bench(&b, model, products);
    options_close(&o);
    return code;
}
