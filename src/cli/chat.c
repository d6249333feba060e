// braid chat: a conversation with a model.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/options.h"
#include "cli/terminal_text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char examples[] =
    "braid chat SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "braid chat models/Qwen3-0.6B --variables '{\"enable_thinking\": false}' --system 'Be brief.'\n"
    "braid chat model.gguf --once 'What is a braid?' --temperature 0\n";

typedef struct chat_flags {
    const char *system, *once, *template_file, *variables, *adapter;
    uint64_t tokens, top_k, seed, threads, context;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    option_list stop;
    bool int8, exact, half_cache, show_prompt;
} chat_flags;

// SIGINT ends the answer, or at the prompt the conversation. A signal handler can set nothing else.
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

typedef struct output {
    bool terminal;
} output;

static bool put_piece(void *context, const char *text, size_t length) {
    terminal_put_text(text, length, ((const output *)context)->terminal);
    return !interrupted && !ferror(stdout);
}

static void note(const conversation_answer *a, const generator *g) {
    uint32_t context = engine_context(g->engine);
    if (a->dropped > 0)
        fprintf(
            stderr,
            "braid chat: the context of %u tokens is full: %u of the oldest questions and their answers were dropped\n",
            context, a->dropped);
    if (a->end == GENERATION_CONTEXT)
        fprintf(stderr, "braid chat: the answer ends here because the context of %u tokens is full\n", context);
    if (a->end == GENERATION_MAX_TOKENS)
        fprintf(stderr, "braid chat: the answer ends here because it has %zu tokens (--tokens)\n", a->tokens);
}

static braid_err ask(conversation *c, const generator *g, const char *question, size_t length, braid_error *error) {
    conversation_answer answer;
    output out = {isatty(STDOUT_FILENO)};
    braid_err err = conversation_ask(c, question, length, put_piece, &out, &answer, error);
    if (err) return err;
    putchar('\n');
    fflush(stdout);
    note(&answer, g);
    interrupted = 0;
    return BRAID_OK;
}

static braid_err show_prompt(conversation *c, const char *question, size_t length, braid_error *error) {
    char *text = NULL;
    size_t text_length = 0;
    braid_err err = conversation_prompt(c, question, length, &text, &text_length, error);
    if (!err) fwrite(text, 1, text_length, stdout);
    free(text);
    return err;
}

// ---- lines of a terminal or a file

static const char help[] = "  /reset          forget the conversation\n"
                           "  /system TEXT    set the message of the system, and forget the conversation\n"
                           "  /quit           end, as the end of the input does\n"
                           "A line that ends in \\ goes on with the next one. Ctrl-C ends an answer.\n";

// A question of one line, or of several with \ between them; false: the end of the input.
static bool read_question(char **text, size_t *capacity, size_t *length, bool prompt) {
    char *line = NULL;
    size_t line_capacity = 0;
    bool goes_on = true, any = false;
    *length = 0;
    while (goes_on) {
        if (prompt) fputs(any ? ". " : "> ", stdout);
        fflush(stdout);
        ssize_t n = getline(&line, &line_capacity, stdin);
        if (n < 0 || interrupted) break;
        any = true;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        goes_on = n > 0 && line[n - 1] == '\\';
        if (goes_on) line[n - 1] = '\n';
        if (*capacity < *length + (size_t)n + 1) {
            char *more = realloc(*text, 2 * (*length + (size_t)n) + 64);
            if (!more) break;
            *text = more;
            *capacity = 2 * (*length + (size_t)n) + 64;
        }
        memcpy(*text + *length, line, (size_t)n);
        *length += (size_t)n;
        (*text)[*length] = 0;
    }
    free(line);
    return any && *text;
}

// A line that begins with '/'; false: the conversation ends.
static bool obey(conversation *c, const char *line, braid_error *error) {
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) return false;
    if (strcmp(line, "/reset") == 0) {
        conversation_reset(c);
    } else if (strncmp(line, "/system", 7) == 0 && (line[7] == ' ' || line[7] == 0)) {
        const char *system = line + 7 + (line[7] == ' ');
        conversation_reset(c);
        if (conversation_set_system(c, *system ? system : NULL, error))
            fprintf(stderr, "braid chat: %s\n", error->text);
    } else {
        if (strcmp(line, "/help") != 0) fprintf(stderr, "braid chat: '%.40s' is not known\n", line);
        fputs(help, stderr);
    }
    return true;
}

// A question that fails is reported, and the conversation goes on.
static int converse(conversation *c, const generator *g) {
    bool prompt = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    char *question = NULL;
    size_t capacity = 0, length;
    int code = CLI_OK;
    if (prompt) fputs("Ask a question. /help shows the other commands, /quit ends.\n", stderr);
    while (!ferror(stdout) && read_question(&question, &capacity, &length, prompt)) {
        braid_error error = {0};
        if (length == 0) continue;
        if (question[0] == '/') {
            if (!obey(c, question, &error)) break;
        } else if (ask(c, g, question, length, &error)) {
            code = cli_complain(CLI_FAILED, "chat", "%s", error.text);
            if (error.code == BRAID_MEMORY) break;
        }
    }
    if (prompt) putchar('\n');
    free(question);
    return prompt ? CLI_OK : code;
}

static int run(generator *g, const chat_flags *flags) {
    const conversation_settings settings = {flags->template_file, flags->system, flags->variables};
    conversation *c = NULL;
    braid_error error = {0};
    braid_err err = conversation_new(g, &settings, &c, &error);
    int code = CLI_OK;
    if (!err && flags->show_prompt)
        err = show_prompt(c, flags->once, strlen(flags->once), &error);
    else if (!err && flags->once)
        err = ask(c, g, flags->once, strlen(flags->once), &error);
    else if (!err)
        code = converse(c, g);
    conversation_free(c);
    return err ? cli_complain(CLI_FAILED, "chat", "%s", error.text) : code;
}

static int chat(const char *path, const chat_flags *flags) {
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
                 .stop_count = flags->stop.count},
        .adapter = flags->adapter,
        .threads = (unsigned)flags->threads,
    };
    struct sigaction action = {.sa_handler = on_interrupt};
    braid_error error = {0};
    generator g;
    sigaction(SIGINT, &action, NULL);
    braid_err err = generator_open(&g, path, &settings, &error);
    int code = err ? cli_complain(CLI_FAILED, "chat", "%s", error.text) : run(&g, flags);
    generator_close(&g);
    return code;
}

static int parse_and_run(int argc, char **argv, chat_flags *flags) {
    option table[] = {
        {"system", OPTION_TEXT, &flags->system, .unit = "TEXT", .help = "the message of the system, before all others",
         .fallback = "none"},
        {"once", OPTION_TEXT, &flags->once, .unit = "QUESTION", .help = "answer this question and end"},
        {"show-prompt", OPTION_SWITCH, &flags->show_prompt,
         .help = "with --once: print the prompt that the template makes, and no answer"},
        {"template", OPTION_TEXT, &flags->template_file, .unit = "FILE", .help = "a chat template (Jinja)",
         .fallback = "the model's"},
        {"variables", OPTION_TEXT, &flags->variables, .unit = "JSON", .help = "an object of variables for the template",
         .fallback = "none"},
        {"tokens", OPTION_COUNT, &flags->tokens, .help = "tokens of an answer at most, 0: no limit", .max = 1e9},
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
        {"seed", OPTION_COUNT, &flags->seed, .help = "the same seed writes the same answers"},
        {"stop", OPTION_LIST, &flags->stop, .unit = "TEXT", .help = "an answer ends before this; may be repeated"},
        {"context", OPTION_COUNT, &flags->context, .help = "tokens of the conversation at most", .min = 16,
         .max = 1 << 20, .fallback = "the model's"},
        {"exact", OPTION_SWITCH, &flags->exact, .help = "do not round activations to 8 bits for quantised weights"},
        {"cache-f16", OPTION_SWITCH, &flags->half_cache, .help = "keys and values in 16 bits: half the memory"},
        {"adapter", OPTION_TEXT, &flags->adapter, .unit = "DIR",
         .help = "a LoRA adapter of the model, as braid tune or peft writes it"},
        {"int8", OPTION_SWITCH, &flags->int8, .help = "weights as 8-bit integers: faster, and nearly as good"},
        {"threads", OPTION_COUNT, &flags->threads, .help = "threads that compute", .min = 1,
         .max = ALLOWANCE_MOST_THREADS, .fallback = "one a processor that may be used"},
    };
    options o = {.verb = "chat",
                 .arguments = "MODEL",
                 .summary = "Talks with a model that has a chat template: a directory of Hugging Face, or a GGUF file.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (flags->show_prompt && !flags->once)
        code = cli_complain(CLI_USAGE, "chat", "--show-prompt needs --once QUESTION");
    else
        code = chat(o.given[0], flags);
    options_close(&o);
    return code;
}

int cli_chat(int argc, char **argv) {
    machine here;
    machine_look(&here);
    chat_flags flags = {.tokens = 1024,
                        .seed = 1,
                        .temperature = 0.7,
                        .top_p = 0.95,
                        .repeat_penalty = 1,
                        .threads = allowance_threads(&here)};
    return parse_and_run(argc, argv, &flags);
}
