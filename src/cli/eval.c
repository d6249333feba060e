// braid eval: the perplexity of a text, and multiple choice by likelihood.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/generator.h"
#include "cli/options.h"
#include "eval/choices.h"
#include "eval/perplexity.h"
#include "format/json.h"
#include "format/text_check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char examples[] = "braid eval SmolLM2-135M-Instruct.Q4_1.gguf --text book.txt\n"
                               "braid eval models/Qwen3-0.6B --choices science.jsonl --choices history.jsonl --json\n";

enum { DEFAULT_WINDOW = 1024 };

typedef struct eval_flags {
    const char *text, *details;
    option_list choices;
    uint64_t window, stride, together, threads, most_tokens;
    bool json, int8, exact, half_cache;
} eval_flags;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void put_line(json_out *o) {
    size_t length;
    char *line = json_out_take(o, &length);
    if (line) printf("%.*s\n", (int)length, line);
    free(line);
}

// ---- progress on a terminal

static void show_share(uint64_t done, uint64_t all, const char *unit) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%llu of %llu %s%s", (unsigned long long)done, (unsigned long long)all, unit,
                done >= all ? "\n" : "");
}
static void show_tokens(void *context, uint64_t scored, uint64_t tokens) {
    (void)context, show_share(scored, tokens, "tokens");
}
static void show_items(void *context, uint32_t done, uint32_t items) {
    (void)context, show_share(done, items, "items");
}

// ---- perplexity

static braid_err read_text(const char *path, char **text, size_t *length, braid_error *error) {
    FILE *file = fopen(path, "rb");
    size_t capacity = 0;
    if (!file) return braid_fail(error, BRAID_IO, "cannot open the text %s: %s", path, strerror(errno));
    braid_err err = BRAID_OK;
    while (!err && !feof(file) && !ferror(file)) {
        if (*length == capacity) {
            char *more = realloc(*text, capacity = capacity ? 2 * capacity : 1 << 16);
            if (!more) err = braid_fail(error, BRAID_MEMORY, "no memory for the text %s", path);
            if (!err) *text = more;
        }
        if (!err) *length += fread(*text + *length, 1, capacity - *length, file);
        if (*length > TOKENIZER_MAX_INPUT_BYTES)
            err = braid_fail(error, BRAID_LIMIT, "the text %s is longer than 1 GiB", path);
    }
    if (!err && ferror(file)) err = braid_fail(error, BRAID_IO, "cannot read the text %s: %s", path, strerror(errno));
    fclose(file);
    if (!err && *length == 0) err = braid_fail(error, BRAID_FORMAT, "the text %s is empty", path);
    char why[TEXT_WHY];
    if (!err && !text_check_bytes((const uint8_t *)*text, *length, path, why))
        err = braid_fail(error, BRAID_FORMAT, "the text %s %s", path, why);
    return err;
}

// The bytes of the first token, which no token predicts; 0 where the tokenizer has added it.
static size_t first_bytes(const generator *g, const tokenizer_ids *ids) {
    char bytes[16];
    if (!g->tokenizer) return 1;
    return tokenizer_is_special(g->tokenizer, ids->at[0])
               ? 0
               : tokenizer_token_bytes(g->tokenizer, ids->at[0], bytes, sizeof bytes);
}

static void print_perplexity(const eval_flags *f, const perplexity *p, size_t bytes, double seconds) {
    double per_token = p->nats / (double)p->tokens, per_byte = p->nats / log(2) / (double)bytes;
    if (!f->json) {
        printf("perplexity %.4f, %.4f bits a byte; %llu tokens, %.3f bytes each; %.1f s\n", exp(per_token), per_byte,
               (unsigned long long)p->tokens, (double)bytes / (double)p->tokens, seconds);
        return;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "event", "perplexity");
    json_out_double(&o, "perplexity", exp(per_token));
    json_out_double(&o, "bits_per_byte", per_byte);
    json_out_u64(&o, "tokens", p->tokens);
    json_out_u64(&o, "bytes", bytes);
    json_out_double(&o, "seconds", seconds);
    json_out_close(&o, '}');
    put_line(&o);
}

static braid_err measure_text(generator *g, const eval_flags *f, braid_error *error) {
    char *text = NULL;
    size_t length = 0;
    tokenizer_ids ids = {0};
    perplexity p;
    double start = now();
    uint32_t context = engine_context(g->engine), window = (uint32_t)f->window;
    if (window == 0) window = context < DEFAULT_WINDOW ? context : DEFAULT_WINDOW;
    const perplexity_settings settings = {window, f->stride ? (uint32_t)f->stride : window / 2, show_tokens, NULL};
    braid_err err = read_text(f->text, &text, &length, error);
    if (!err) err = generator_encode(g, text, length, &ids, error);
    if (!err && f->most_tokens && ids.count > f->most_tokens) {
        // the bytes of the tokens that stay
        ids.count = f->most_tokens;
        free(text);
        text = NULL;
        err = g->tokenizer ? tokenizer_decode(g->tokenizer, ids.at, ids.count, true, &text, &length, error) : BRAID_OK;
        if (!g->tokenizer) length = ids.count;
    }
    if (!err) err = perplexity_measure(g->engine, ids.at, ids.count, &settings, &p, error);
    if (!err) print_perplexity(f, &p, length - first_bytes(g, &ids), now() - start);
    free(text);
    tokenizer_ids_free(&ids);
    return err;
}

// ---- choices

static void print_result(const eval_flags *f, const choice_task *task, const choice_result *r, double seconds) {
    if (!f->json) {
        printf("%-16s %6u items   accuracy %.4f ± %.4f   by bytes %.4f ± %.4f   %.1f s\n", task->name, r->items,
               r->accuracy, r->error, r->normal, r->normal_error, seconds);
        return;
    }
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "event", "choices");
    json_out_string(&o, "task", task->name);
    json_out_u64(&o, "items", r->items);
    json_out_double(&o, "accuracy", r->accuracy);
    json_out_double(&o, "accuracy_error", r->error);
    json_out_double(&o, "accuracy_by_bytes", r->normal);
    json_out_double(&o, "accuracy_by_bytes_error", r->normal_error);
    json_out_double(&o, "seconds", seconds);
    json_out_close(&o, '}');
    put_line(&o);
}

// Of several tasks the mean, with the error of a mean of independent tasks.
static void print_mean(const eval_flags *f, const choice_result *all, uint32_t count) {
    double mean = 0, normal = 0, variance = 0, normal_variance = 0;
    for (uint32_t i = 0; i < count; i++) {
        mean += all[i].accuracy / count;
        normal += all[i].normal / count;
        variance += all[i].error * all[i].error;
        normal_variance += all[i].normal_error * all[i].normal_error;
    }
    if (f->json) {
        json_out o = {0};
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "event", "mean");
        json_out_u64(&o, "tasks", count);
        json_out_double(&o, "accuracy", mean);
        json_out_double(&o, "accuracy_error", sqrt(variance) / count);
        json_out_double(&o, "accuracy_by_bytes", normal);
        json_out_double(&o, "accuracy_by_bytes_error", sqrt(normal_variance) / count);
        json_out_close(&o, '}');
        put_line(&o);
    } else {
        printf("%-16s %6u tasks   accuracy %.4f ± %.4f   by bytes %.4f ± %.4f\n", "mean", count, mean,
               sqrt(variance) / count, normal, sqrt(normal_variance) / count);
    }
}

// One JSON line for each item, with the scores of its choices.
static void write_details(FILE *out, const choice_task *task, const double *scores) {
    for (uint32_t i = 0; i < task->count; i++) {
        const choice_item *item = &task->items[i];
        json_out o = {0};
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "task", task->name);
        json_out_u64(&o, "line", item->line);
        json_out_u64(&o, "gold", item->gold);
        json_out_u64(&o, "answer", choice_answer(item, scores, false));
        json_out_u64(&o, "answer_by_bytes", choice_answer(item, scores, true));
        json_out_open(&o, "scores", '[');
        for (uint32_t c = 0; c < item->count; c++) json_out_double(&o, NULL, scores[item->first + c]);
        json_out_close(&o, ']');
        json_out_close(&o, '}');
        size_t length;
        char *line = json_out_take(&o, &length);
        if (line) fprintf(out, "%.*s\n", (int)length, line);
        free(line);
    }
}

static braid_err measure_task(generator *g, const eval_flags *f, const choice_task *task, FILE *details,
                              choice_result *result, braid_error *error) {
    const choice_settings settings = {(uint32_t)f->together, show_items, NULL};
    double start = now(), *scores = malloc(task->choices * sizeof *scores);
    if (!scores) return braid_fail(error, BRAID_MEMORY, "no memory for the scores of %s", task->name);
    braid_err err = choices_score(g->engine, g->tokenizer, task, &settings, scores, error);
    if (!err) {
        *result = choices_result(task, scores);
        print_result(f, task, result, now() - start);
        fflush(stdout);
        if (details) write_details(details, task, scores);
    }
    free(scores);
    return err;
}

static braid_err close_details(FILE *file, const char *path, braid_error *error) {
    bool lost = ferror(file);
    lost = fclose(file) != 0 || lost;
    return lost ? braid_fail(error, BRAID_IO, "not all of %s could be written", path) : BRAID_OK;
}

// All files are read before the first is measured, so that a mistake in the last one costs no hour.
static braid_err measure_choices(generator *g, const eval_flags *f, braid_error *error) {
    choice_task tasks[OPTIONS_MAX_LIST] = {0};
    choice_result results[OPTIONS_MAX_LIST];
    braid_err err = g->tokenizer ? BRAID_OK
                                 : braid_fail(error, BRAID_CONFIG, "--choices needs a model with a tokenizer");
    for (uint32_t i = 0; i < f->choices.count && !err; i++)
        err = choice_task_read(f->choices.item[i], &tasks[i], error);
    FILE *details = !err && f->details ? fopen(f->details, "w") : NULL;
    if (!err && f->details && !details)
        err = braid_fail(error, BRAID_IO, "cannot write %s: %s", f->details, strerror(errno));
    for (uint32_t i = 0; i < f->choices.count && !err; i++)
        err = measure_task(g, f, &tasks[i], details, &results[i], error);
    if (details) {
        braid_error closing = {0};
        if (close_details(details, f->details, &closing) && !err)
            err = braid_fail(error, closing.code, "%s", closing.text);
    }
    if (!err && f->choices.count > 1) print_mean(f, results, f->choices.count);
    for (uint32_t i = 0; i < f->choices.count; i++) choice_task_free(&tasks[i]);
    return err;
}

// ---- the verb

static int eval(const char *path, const eval_flags *f) {
    generator_settings settings = {
        .engine = {.exact = f->exact, .half_cache = f->half_cache, .narrow = f->int8},
        .text = {.sampler = sampler_defaults(), .max_tokens = 1},
        .threads = (unsigned)f->threads,
    };
    braid_error error = {0};
    generator g;
    braid_err err = generator_open(&g, path, &settings, &error);
    if (!err && f->text) err = measure_text(&g, f, &error);
    if (!err && f->choices.count > 0) err = measure_choices(&g, f, &error);
    generator_close(&g);
    return err ? cli_complain(CLI_FAILED, "eval", "%s", error.text) : CLI_OK;
}

static int parse_and_run(int argc, char **argv, eval_flags *f) {
    option table[] = {
        {"text", OPTION_TEXT, &f->text, .unit = "FILE", .help = "measure the perplexity of this text"},
        {"window", OPTION_COUNT, &f->window, .help = "tokens that are read together", .min = 2, .max = 1 << 20,
         .fallback = "1024, or the model's context"},
        {"stride", OPTION_COUNT, &f->stride, .help = "tokens between the beginnings of two windows", .min = 1,
         .max = 1 << 20, .fallback = "half a window"},
        {"most-tokens", OPTION_COUNT, &f->most_tokens, .help = "measure the beginning of the text only", .max = 1e12,
         .fallback = "all"},
        {"choices", OPTION_LIST, &f->choices, .unit = "FILE",
         .help = "a task: JSON lines with query, choices and gold; may be repeated"},
        {"details", OPTION_TEXT, &f->details, .unit = "FILE", .help = "write the scores of each item to this file"},
        {"together", OPTION_COUNT, &f->together, .help = "items that are read together; it changes no result", .min = 1,
         .max = 4096},
        {"json", OPTION_SWITCH, &f->json, .help = "one JSON object a line"},
        {"exact", OPTION_SWITCH, &f->exact, .help = "do not round activations to 8 bits for quantised weights"},
        {"cache-f16", OPTION_SWITCH, &f->half_cache, .help = "keys and values in 16 bits: half the memory"},
        {"int8", OPTION_SWITCH, &f->int8, .help = "weights as 8-bit integers: faster, and nearly as good"},
        {"threads", OPTION_COUNT, &f->threads, .help = "threads that compute", .min = 1, .max = ALLOWANCE_MOST_THREADS,
         .fallback = "one a processor that may be used"},
    };
    options o = {.verb = "eval",
                 .arguments = "MODEL",
                 .summary = "Measures a model: a directory of Hugging Face, a checkpoint, or a GGUF file.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (!f->text && f->choices.count == 0)
        code = cli_complain(CLI_USAGE, "eval", "say what to measure: --text FILE or --choices FILE");
    else
        code = eval(o.given[0], f);
    options_close(&o);
    return code;
}

int cli_eval(int argc, char **argv) {
    machine here;
    machine_look(&here);
    eval_flags flags = {.together = 16, .threads = allowance_threads(&here)};
    return parse_and_run(argc, argv, &flags);
}
