// braid generate: a text that a model continues.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/generator.h"
#include "cli/options.h"
#include "cli/terminal_text.h"
#include "format/text_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char examples[] =
    "braid generate checkpoints --prompt 'The river'\n"
    "braid generate SmolLM2-135M-Instruct.Q4_1.gguf --prompt 'The capital of France is' --temperature 0\n"
    "braid generate models/Qwen3-0.6B --prompt-file question.txt --stop '\\n' --timings\n";

typedef struct generate_flags {
    const char *prompt, *prompt_file, *adapter;
    uint64_t tokens, top_k, seed, threads, context;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    option_list stop;
    bool int8, exact, half_cache, timings, special, ignore_end;
} generate_flags;

typedef struct generate_times {
    double start, loaded, first, last;
    size_t prompt_tokens, tokens;
} generate_times;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// --- prompt

static braid_err read_file(const char *path, char **text, size_t *length, braid_error *error) {
    enum { MOST = 64 << 20 };
    FILE *file = fopen(path, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open the prompt %s: %s", path, strerror(errno));
    *text = malloc(MOST + 1);
    *length = *text ? fread(*text, 1, MOST + 1, file) : 0;
    bool failed = ferror(file);
    fclose(file);
    if (!*text) return braid_fail(error, BRAID_MEMORY, "no memory for the prompt %s", path);
    if (failed) return braid_fail(error, BRAID_IO, "cannot read the prompt %s: %s", path, strerror(errno));
    if (*length > MOST) return braid_fail(error, BRAID_LIMIT, "the prompt %s is longer than 64 MiB", path);
    char why[TEXT_WHY];
    return text_check_bytes((const uint8_t *)*text, *length, path, why)
               ? BRAID_OK
               : braid_fail(error, BRAID_FORMAT, "the prompt %s %s", path, why);
}

// Tokens of the prompt. Without any, the text begins as the model's texts do.
static braid_err set_prompt(generator *g, const char *text, size_t length, generate_times *times, braid_error *error) {
    tokenizer_ids ids = {0};
    braid_err err = generator_encode(g, text, length, &ids, error);
    if (!err) err = generation_prompt(g->text, ids.at, ids.count, error);
    times->prompt_tokens = ids.count;
    tokenizer_ids_free(&ids);
    return err;
}

// --- text

static braid_err write_steps(generator *g, const generate_flags *flags, bool terminal, generate_times *times,
                             generation_end *end, braid_error *error) {
    generation_step *step = malloc(sizeof *step);
    braid_err err = step ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for a text");
    *end = flags->tokens ? GENERATION_GOES_ON : GENERATION_MAX_TOKENS;
    while (!err && !*end && !ferror(stdout)) {
        err = generation_next(g->text, step, error);
        if (err) break;
        terminal_put_text(step->text, step->length, terminal);
        times->last = now();
        if (times->tokens++ == 0) times->first = times->last;
        *end = step->end;
    }
    free(step);
    return err;
}

static void print_timings(const generator *g, const generate_times *t) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double reading = t->first - t->loaded, writing = t->last - t->first;
    fprintf(stderr, "load %.1f ms; prompt of %zu tokens %.1f ms (%.1f tokens/s)", (t->loaded - t->start) * 1e3,
            t->prompt_tokens, reading * 1e3, reading > 0 ? (double)t->prompt_tokens / reading : 0);
    if (t->tokens > 1)
        fprintf(stderr, "; then %zu tokens %.1f ms (%.1f tokens/s)", t->tokens - 1, writing * 1e3,
                writing > 0 ? (double)(t->tokens - 1) / writing : 0);
    fprintf(stderr, "; cache %zu bytes a token; most memory %ld KiB\n", engine_token_bytes(g->engine), use.ru_maxrss);
}

static braid_err write_text(generator *g, const generate_flags *flags, generate_times *times, braid_error *error) {
    char *read = NULL;
    const char *prompt = flags->prompt;
    size_t length = strlen(prompt);
    bool terminal = isatty(STDOUT_FILENO);
    generation_end end = GENERATION_GOES_ON;
    braid_err err = flags->prompt_file ? read_file(flags->prompt_file, &read, &length, error) : BRAID_OK;
    if (read) prompt = read;
    times->loaded = now();
    if (!err) err = set_prompt(g, prompt, length, times, error);
    if (!err) terminal_put_text(prompt, length, terminal);
    if (!err) err = write_steps(g, flags, terminal, times, &end, error);
    if (!err && terminal) putchar('\n');
    if (!err && flags->timings) print_timings(g, times);
    if (!err && end == GENERATION_CONTEXT)
        fprintf(stderr, "braid generate: the text ends here because the context of %u tokens is full\n",
                engine_context(g->engine));
    free(read);
    return err;
}

static int generate(const char *path, const generate_flags *flags) {
    generate_times times = {.start = now()};
    generator_settings settings = {
        .engine = {.context = (uint32_t)flags->context,
                   .exact = flags->exact,
                   .half_cache = flags->half_cache,
                   .narrow = flags->int8},
        .text = {.sampler = {.temperature = flags->temperature,
                             .top_k = (uint32_t)flags->top_k,
                             .top_p = flags->top_p,
                             .min_p = flags->min_p,
                             .repetition_penalty = flags->repeat_penalty,
                             .presence_penalty = flags->presence_penalty,
                             .frequency_penalty = flags->frequency_penalty,
                             .seed = flags->seed},
                 .max_tokens = flags->tokens,
                 .stops = flags->stop.item,
                 .stop_count = flags->stop.count,
                 .show_special = flags->special,
                 .ignore_stop_ids = flags->ignore_end},
        .adapter = flags->adapter,
        .threads = (unsigned)flags->threads,
    };
    braid_error error = {0};
    generator g;
    braid_err err = generator_open(&g, path, &settings, &error);
    if (!err) err = write_text(&g, flags, &times, &error);
    generator_close(&g);
    return err ? cli_complain(CLI_FAILED, "generate", "%s", error.text) : CLI_OK;
}

static int parse_and_run(int argc, char **argv, generate_flags *flags) {
    option table[] = {
        {"prompt", OPTION_TEXT, &flags->prompt, .unit = "TEXT", .help = "what the text begins with",
         .fallback = "nothing"},
        {"prompt-file", OPTION_TEXT, &flags->prompt_file, .unit = "FILE",
         .help = "a file with what the text begins with"},
        {"tokens", OPTION_COUNT, &flags->tokens, .help = "tokens to write at most", .max = 1e9},
        {"temperature", OPTION_REAL, &flags->temperature, .help = "0: always the likeliest token; 1: as the model says",
         .max = 100},
        {"top-k", OPTION_COUNT, &flags->top_k, .help = "choose among the K likeliest, 0: all", .unit = "K",
         .max = 1 << 20},
        {"top-p", OPTION_REAL, &flags->top_p, .help = "choose among the likeliest with this probability together",
         .unit = "P", .max = 1},
        {"min-p", OPTION_REAL, &flags->min_p, .help = "choose among those with this share of the largest probability",
         .unit = "P", .max = 1},
        {"repeat-penalty", OPTION_REAL, &flags->repeat_penalty,
         .help = "divides the logits of tokens of prompt and text, 1: none", .min = 0.01, .max = 100},
        {"presence-penalty", OPTION_REAL, &flags->presence_penalty,
         .help = "subtracted from the logits of tokens of the text", .min = -100, .max = 100},
        {"frequency-penalty", OPTION_REAL, &flags->frequency_penalty,
         .help = "the same for each time that a token is there", .min = -100, .max = 100},
        {"seed", OPTION_COUNT, &flags->seed, .help = "the same seed writes the same text"},
        {"stop", OPTION_LIST, &flags->stop, .unit = "TEXT", .help = "the text ends before this; may be repeated"},
        {"ignore-end", OPTION_SWITCH, &flags->ignore_end, .help = "go on after tokens that end a text"},
        {"special", OPTION_SWITCH, &flags->special, .help = "show special tokens"},
        {"context", OPTION_COUNT, &flags->context, .help = "tokens of prompt and text together at most", .min = 1,
         .max = 1 << 20, .fallback = "the model's"},
        {"exact", OPTION_SWITCH, &flags->exact, .help = "do not round activations to 8 bits for quantised weights"},
        {"cache-f16", OPTION_SWITCH, &flags->half_cache, .help = "keys and values in 16 bits: half the memory"},
        {"adapter", OPTION_TEXT, &flags->adapter, .unit = "DIR",
         .help = "a LoRA adapter of the model, as braid tune or peft writes it"},
        {"int8", OPTION_SWITCH, &flags->int8, .help = "weights as 8-bit integers: faster, and nearly as good"},
        {"threads", OPTION_COUNT, &flags->threads, .help = "threads that compute", .min = 1,
         .max = ALLOWANCE_MOST_THREADS, .fallback = "one a processor that may be used"},
        {"timings", OPTION_SWITCH, &flags->timings, .help = "print speed and memory on standard error"},
    };
    options o = {.verb = "generate",
                 .arguments = "MODEL",
                 .summary = "Continues a text with a model: a directory of Hugging Face, a checkpoint, or a GGUF file.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (flags->prompt_file && option_is_set(&o, "prompt"))
        code = cli_complain(CLI_USAGE, "generate", "give --prompt or --prompt-file, not both");
    else
        code = generate(o.given[0], flags);
    options_close(&o);
    return code;
}

int cli_generate(int argc, char **argv) {
    machine here;
    machine_look(&here);
    generate_flags flags = {.prompt = "",
                            .tokens = 256,
                            .seed = 1,
                            .temperature = 0.8,
                            .top_p = 1,
                            .repeat_penalty = 1,
                            .threads = allowance_threads(&here)};
    return parse_and_run(argc, argv, &flags);
}
