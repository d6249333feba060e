// braid bench serve: tokens per second and time to the first token of a service with many texts at
// once, without HTTP.
#include "cli/allowance.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/generator.h"
#include "cli/options.h"
#include "base/rng.h"
#include "format/json.h"
#include "serve/local.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_SESSIONS = 256, MOST_TOKENS = 1 << 16 };

static const char examples[] = "braid bench serve SmolLM2-135M-Instruct.Q4_1.gguf\n"
                               "braid bench serve models/Qwen3-0.6B --sessions 16 --prompt-tokens 1000 --tokens 50\n";

typedef struct serve_bench {
    uint64_t sessions, prompt_tokens, tokens, threads, prompt_rows, max_memory;
    bool json, exact, shared;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint64_t running, drawn, failed;
    double start, wall, processor;
} serve_bench;

typedef struct bench_text {
    serve_bench *bench;
    double first, last;  // seconds after the start
    uint64_t drawn, cached;
} bench_text;

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_started(void *context, size_t prompt, size_t cached) {
    (void)prompt;
    ((bench_text *)context)->cached = cached;
}

static void on_step(void *context, const generation_step *step) {
    bench_text *t = context;
    (void)step;
    t->last = seconds(CLOCK_MONOTONIC) - t->bench->start;
    if (t->drawn++ == 0) t->first = t->last;
}

static void on_ended(void *context, service_end end, const braid_error *error) {
    bench_text *t = context;
    serve_bench *b = t->bench;
    if (error) fprintf(stderr, "%s\n", error->text);
    pthread_mutex_lock(&b->lock);
    b->failed += end == SERVICE_FAILED;
    b->drawn += t->drawn;
    b->running--;
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
}

static braid_err submit(serve_bench *b, service *s, uint64_t number, bench_text *t, braid_error *error) {
    static uint32_t tokens[MOST_TOKENS];
    rng r = {b->shared ? 1 : number + 1};
    for (uint64_t i = 0; i < b->prompt_tokens; i++)
        tokens[i] = (uint32_t)rng_below(&r, service_model_of(s)->config->vocab);
    service_text text = {.tokens = tokens, .count = b->prompt_tokens};
    text.settings =
        (generation_settings){.sampler = sampler_defaults(), .max_tokens = b->tokens, .ignore_stop_ids = true};
    text.settings.sampler.seed = number;
    service_listener listener = {.context = t, .started = on_started, .step = on_step, .ended = on_ended};
    service_job *job;
    *t = (bench_text){.bench = b};
    pthread_mutex_lock(&b->lock);
    b->running++;
    pthread_mutex_unlock(&b->lock);
    braid_err err = service_submit(s, &text, &listener, &job, error);
    if (!err) service_release(s, job);
    return err;
}

static braid_err run_all(serve_bench *b, service *s, bench_text *texts, braid_error *error) {
    double processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    braid_err err = BRAID_OK;
    b->start = seconds(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < b->sessions && !err; i++) err = submit(b, s, i, &texts[i], error);
    if (err) return err;
    pthread_mutex_lock(&b->lock);
    while (b->running > 0) pthread_cond_wait(&b->ended, &b->lock);
    pthread_mutex_unlock(&b->lock);
    b->wall = seconds(CLOCK_MONOTONIC) - b->start;
    b->processor = seconds(CLOCK_PROCESS_CPUTIME_ID) - processor;
    return BRAID_OK;
}

// --- figures

static double mean_first(const serve_bench *b, const bench_text *texts) {
    double sum = 0;
    for (uint64_t i = 0; i < b->sessions; i++) sum += texts[i].first;
    return sum / (double)b->sessions;
}

static double last_first(const serve_bench *b, const bench_text *texts) {
    double most = 0;
    for (uint64_t i = 0; i < b->sessions; i++) most = texts[i].first > most ? texts[i].first : most;
    return most;
}

static bool show(const serve_bench *b, const bench_text *texts, const service_status *status) {
    double rate = (double)b->drawn / b->wall;
    if (!b->json) {
        printf("%llu texts, prompts of %llu tokens (%llu cached in all), %llu tokens each, %llu thread%s\n",
               (unsigned long long)b->sessions, (unsigned long long)b->prompt_tokens,
               (unsigned long long)status->cached_tokens, (unsigned long long)b->tokens, (unsigned long long)b->threads,
               figures_s(b->threads));
        printf("%.1f tokens/s in all; first token after %.0f ms on average, %.0f ms at most; %.2f s, %.2f s of "
               "processors\n",
               rate, mean_first(b, texts) * 1e3, last_first(b, texts) * 1e3, b->wall, b->processor);
        return true;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_u64(&o, "sessions", b->sessions);
    json_out_u64(&o, "prompt_tokens", b->prompt_tokens);
    json_out_u64(&o, "tokens", b->drawn);
    json_out_u64(&o, "threads", b->threads);
    json_out_double(&o, "tokens_per_second", rate);
    json_out_double(&o, "first_token_mean_s", mean_first(b, texts));
    json_out_double(&o, "first_token_most_s", last_first(b, texts));
    json_out_double(&o, "wall_s", b->wall);
    json_out_double(&o, "processor_s", b->processor);
    json_out_u64(&o, "cached_tokens", status->cached_tokens);
    json_out_u64(&o, "cache_bytes", status->cache_bytes);
    return figures_print_line(&o);
}

static int run(serve_bench *b, const char *path) {
    generator g;
    braid_error error = {0};
    service *s = NULL;
    bench_text *texts = calloc(b->sessions, sizeof *texts);
    braid_err err = texts
                        ? generator_open_model(&g, path, (unsigned)b->threads, &error)
                        : braid_fail(&error, BRAID_MEMORY, "no memory for %llu texts", (unsigned long long)b->sessions);
    service_local_settings settings = {.file = g.file,
                                       .tokenizer = g.tokenizer,
                                       .name = "bench",
                                       .pool = g.pool,
                                       .exact = b->exact,
                                       .parallel = (uint32_t)b->sessions,
                                       .prompt_rows = (uint32_t)b->prompt_rows,
                                       .memory_limit = b->max_memory};
    if (!err) err = service_local_new(&settings, &s, NULL, &error);
    if (!err) err = run_all(b, s, texts, &error);
    if (!err && b->failed) err = braid_fail(&error, BRAID_STATE, "%llu texts failed", (unsigned long long)b->failed);
    service_status status = {0};
    if (!err) service_status_of(s, &status);
    bool shown = !err && show(b, texts, &status);
    service_free(s);
    if (texts) generator_close(&g);
    free(texts);
    if (err) return cli_complain(CLI_FAILED, "bench serve", "%s", error.text);
    return shown ? CLI_OK : cli_complain(CLI_FAILED, "bench serve", "out of memory");
}

int bench_serve(int argc, char **argv) {
    machine here;
    machine_look(&here);
    serve_bench b = {.sessions = 8, .prompt_tokens = 128, .tokens = 64, .threads = allowance_threads(&here)};
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.ended, NULL);
    option table[] = {
        {"sessions", OPTION_COUNT, &b.sessions, .help = "texts at once", .min = 1, .max = MOST_SESSIONS},
        {"prompt-tokens", OPTION_COUNT, &b.prompt_tokens, .help = "tokens of each prompt", .min = 1,
         .max = MOST_TOKENS},
        {"tokens", OPTION_COUNT, &b.tokens, .help = "tokens to write in each text", .min = 1, .max = MOST_TOKENS},
        {"same-prompt", OPTION_SWITCH, &b.shared, .help = "all prompts are equal"},
        {"prompt-rows", OPTION_COUNT, &b.prompt_rows,
         .help = "prompt tokens that are read beside each token of the texts", .max = 256, .fallback = "64"},
        {"max-memory", OPTION_SIZE, &b.max_memory, .help = "memory of the service at most", .fallback = "no limit"},
        {"exact", OPTION_SWITCH, &b.exact, .help = "do not round activations to 8 bits for quantised weights"},
        {"threads", OPTION_COUNT, &b.threads, .help = "threads that compute", .min = 1, .max = ALLOWANCE_MOST_THREADS},
        {"json", OPTION_SWITCH, &b.json, .help = "print one JSON object"},
    };
    options o = {.verb = "bench serve",
                 .arguments = "MODEL",
                 .summary = "Measures a service with many texts at once: tokens per second, time to the first token.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = run(&b, o.given[0]);
    options_close(&o);
    return code;
}
