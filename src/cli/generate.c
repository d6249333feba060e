// braid generate: text from a checkpoint.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "train/sample.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char examples[] = "braid generate checkpoints --prompt 'The river'\n"
                               "braid generate checkpoints/step-000050 --temperature 0 --tokens 200\n";

typedef struct generate_flags {
    const char *prompt;
    uint64_t tokens, top_k, seed, threads;
    double temperature, top_p;
    bool int8;
} generate_flags;

// A model may produce any character; a terminal would obey control characters.
static void put_byte(uint8_t byte, bool terminal) {
    bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    putchar(terminal && control ? '?' : byte);
    fflush(stdout);
}

static int write_text(generator *g, const generate_flags *flags) {
    sample_settings settings = {
        .temperature = flags->temperature, .top_k = (uint32_t)flags->top_k, .top_p = flags->top_p};
    rng random = {rng_seed(flags->seed, 0)};
    bool terminal = isatty(STDOUT_FILENO);
    generator_read(g, (const uint8_t *)flags->prompt, strlen(flags->prompt));
    fputs(flags->prompt, stdout);
    for (uint64_t i = 0; i < flags->tokens && !ferror(stdout); i++)
        put_byte(generator_next(g, &settings, &random), terminal);
    if (terminal) putchar('\n');
    return CLI_OK;
}

static int generate(const char *path, const generate_flags *flags) {
    braid_error error = {0};
    checkpoint *from = NULL;
    generator *g = NULL;
    braid_err err = checkpoint_open_weights(path, &from, &error);
    if (!err) err = generator_new(from, flags->int8, (unsigned)flags->threads, &g, &error);
    checkpoint_close(from);
    if (err) return cli_complain(CLI_FAILED, "generate", "%s", error.text);
    int code = write_text(g, flags);
    generator_free(g);
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
                            .threads = allowance_threads(&here)};
    option table[] = {
        {"prompt", OPTION_TEXT, &flags.prompt, .unit = "TEXT", .help = "what the text begins with",
         .fallback = "a new line"},
        {"tokens", OPTION_COUNT, &flags.tokens, .help = "bytes to write", .max = 1e9},
        {"temperature", OPTION_REAL, &flags.temperature, .help = "0: always the likeliest byte; 1: as the model says",
         .max = 100},
        {"top-k", OPTION_COUNT, &flags.top_k, .help = "choose among the K likeliest, 0: all", .unit = "K",
         .max = SAMPLE_BYTES},
        {"top-p", OPTION_REAL, &flags.top_p, .help = "choose among the likeliest with this probability together",
         .unit = "P", .max = 1},
        {"seed", OPTION_COUNT, &flags.seed, .help = "the same seed writes the same text"},
        {"int8", OPTION_SWITCH, &flags.int8, .help = "weights as 8-bit integers: faster, and nearly as good"},
        {"threads", OPTION_COUNT, &flags.threads, .help = "threads that compute", .min = 1, .max = ALLOWANCE_MOST_THREADS,
         .fallback = "one a processor that may be used"},
    };
    options o = {.verb = "generate",
                 .arguments = "CHECKPOINT",
                 .summary = "Writes text with a trained model.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = generate(o.given[0], &flags);
    options_close(&o);
    return code;
}
