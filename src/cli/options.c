#include "cli/options.h"

#include "base/err.h"
#include "cli/cli.h"
#include "format/quantity.h"
#include "format/suggest.h"
#include "format/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPTIONS_MAX_TABLE = 64,
    OPTIONS_NAME_SPACE = 80,
    OPTIONS_DEFAULT_SPACE = 256,
    OPTIONS_HELP_SPACE = 768,
    OPTIONS_HELP_COLUMN = 30,
    OPTIONS_HELP_WIDTH = 100,
    OPTIONS_MAX_PATH = 1024
};

// Text that outlives its source: list items cut from a longer text, and values of the configuration
// file.
typedef struct owned_text {
    struct owned_text *next;
    char text[];
} owned_text;

static const char *keep_text(options *o, const char *text, size_t length) {
    owned_text *owned = malloc(sizeof *owned + length + 1);
    if (owned == NULL) return NULL;
    memcpy(owned->text, text, length);
    owned->text[length] = 0;
    owned->next = o->owned;
    o->owned = owned;
    return owned->text;
}

void options_close(options *o) {
    owned_text *owned = o->owned;
    while (owned != NULL) {
        owned_text *next = owned->next;
        free(owned);
        owned = next;
    }
    o->owned = NULL;
}

static option *option_find(const options *o, const char *name, size_t length) {
    for (size_t i = 0; i < o->count; i++) {
        if (strlen(o->table[i].name) == length && strncmp(o->table[i].name, name, length) == 0) return &o->table[i];
    }
    return NULL;
}

bool option_is_set(const options *o, const char *name) {
    const option *found = option_find(o, name, strlen(name));
    return found != NULL && found->source != OPTION_FROM_DEFAULT;
}

static void environment_name(const char *name, char out[OPTIONS_NAME_SPACE]) {
    size_t length = (size_t)snprintf(out, OPTIONS_NAME_SPACE, "BRAID_%s", name);
    for (size_t i = 0; i < length && i < OPTIONS_NAME_SPACE; i++) {
        if (out[i] >= 'a' && out[i] <= 'z')
            out[i] = (char)(out[i] - 'a' + 'A');
        else if (out[i] == '-')
            out[i] = '_';
    }
}

// ---- one value ----

static braid_err read_switch(const char *text, bool *value, braid_error *error) {
    static const char *const words[] = {"yes", "true", "1", "on", "no", "false", "0", "off"};
    for (size_t i = 0; i < 8; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *value = i < 4;
        return BRAID_OK;
    }
    return braid_fail(error, BRAID_ARGUMENT, "'%.64s' is neither yes nor no", text);
}

static braid_err read_list(options *o, option_list *list, const char *text, bool split, braid_error *error) {
    do {
        size_t length = split ? strcspn(text, ",") : strlen(text);
        if (!split && length == 0)
            return braid_fail(error, BRAID_ARGUMENT, "the value is empty; give one, or leave the flag out");
        const char *item = length > 0 ? keep_text(o, text, length) : "";
        if (item == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
        if (list->count == OPTIONS_MAX_LIST)
            return braid_fail(error, BRAID_LIMIT, "given more than %d times", OPTIONS_MAX_LIST);
        if (length > 0) list->item[list->count++] = item;
        text += length;
    } while (*text++ == ',');
    return BRAID_OK;
}

static braid_err check_range(const option *f, double value, const char *text, braid_error *error) {
    bool low = value<f->min, high = f->max> 0 && value > f->max;
    if (!low && !high) return BRAID_OK;
    char limit[QUANTITY_TEXT];
    double bound = low ? f->min : f->max;
    if (f->kind == OPTION_SIZE)
        quantity_size_text((uint64_t)bound, limit);
    else if (f->kind == OPTION_DURATION)
        quantity_duration_text(bound, limit);
    else
        snprintf(limit, sizeof limit, "%.10g", bound);
    return braid_fail(error, BRAID_ARGUMENT, "%.64s is too %s: at %s %s", text, low ? "small" : "large",
                      low ? "least" : "most", limit);
}

static braid_err read_value(options *o, option *f, const char *text, option_source source, braid_error *error) {
    uint64_t whole = 0;
    double real = 0;
    braid_err code = BRAID_OK;
    // A list grows by each flag; values of a weaker source are replaced.
    if (f->kind == OPTION_LIST && f->source != source) ((option_list *)f->value)->count = 0;
    f->source = source;
    switch (f->kind) {
    case OPTION_SWITCH: return read_switch(text, f->value, error);
    case OPTION_ADDRESS:
    case OPTION_TEXT: *(const char **)f->value = text; return BRAID_OK;
    case OPTION_LIST: return read_list(o, f->value, text, source != OPTION_FROM_FLAG, error);
    case OPTION_COUNT: code = quantity_read_count(text, &whole, error); break;
    case OPTION_SIZE: code = quantity_read_size(text, &whole, error); break;
    case OPTION_DURATION: code = quantity_read_duration(text, &whole, error); break;
    case OPTION_REAL: code = quantity_read_real(text, &real, error); break;
    }
    if (f->kind != OPTION_REAL) real = f->kind == OPTION_DURATION ? (double)whole * 1e-9 : (double)whole;
    if (code == BRAID_OK) code = check_range(f, real, text, error);
    if (code != BRAID_OK) return code;
    if (f->kind == OPTION_REAL)
        *(double *)f->value = real;
    else
        *(uint64_t *)f->value = whole;
    return BRAID_OK;
}

// ---- environment and file ----

static int read_environment(options *o) {
    for (size_t i = 0; i < o->count; i++) {
        char name[OPTIONS_NAME_SPACE];
        braid_error error = {0};
        environment_name(o->table[i].name, name);
        const char *text = getenv(name);
        if (text == NULL || *text == 0 || o->table[i].source == OPTION_FROM_FLAG) continue;
        if (read_value(o, &o->table[i], text, OPTION_FROM_ENVIRONMENT, &error) != BRAID_OK)
            return cli_complain(CLI_USAGE, o->verb, "%s: %s", name, error.text);
    }
    return CLI_OK;
}

// Path of the user's file; false if there is none. An explicitly named file must exist.
static bool file_path(const options *o, char path[OPTIONS_MAX_PATH]) {
    const char *named = o->config != NULL ? o->config : getenv("BRAID_CONFIG");
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    bool wanted = named != NULL && *named;
    if (wanted)
        length = snprintf(path, OPTIONS_MAX_PATH, "%s", named);
    else if (xdg != NULL && *xdg)
        length = snprintf(path, OPTIONS_MAX_PATH, "%s/braid/config.yaml", xdg);
    else if (home != NULL && *home)
        length = snprintf(path, OPTIONS_MAX_PATH, "%s/.config/braid/config.yaml", home);
    if (length <= 0 || length >= OPTIONS_MAX_PATH) return false;
    return wanted || access(path, F_OK) == 0;
}

static braid_err read_file_value(options *o, const yaml *file, option *f, const yaml_node *node, braid_error *error) {
    char joined[OPTIONS_MAX_PATH] = "";
    size_t length = 0;
    if (node->kind == YAML_MAP) return yaml_fail(file, node, error, "%s must be one value", f->name);
    for (const yaml_node *item = node->kind == YAML_LIST ? node->first : node; item != NULL;
         item = node->kind == YAML_LIST ? item->next : NULL) {
        if (item->kind != YAML_SCALAR) return yaml_fail(file, item, error, "%s must be plain values", f->name);
        int written = snprintf(joined + length, sizeof joined - length, "%s%s", length > 0 ? "," : "", item->text);
        if (written < 0 || (size_t)written >= sizeof joined - length)
            return yaml_fail(file, node, error, "%s is too long", f->name);
        length += (size_t)written;
    }
    braid_error why = {0};
    const char *text = keep_text(o, joined, length);
    if (text == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
    if (read_value(o, f, text, OPTION_FROM_FILE, &why) == BRAID_OK) return BRAID_OK;
    return yaml_fail(file, node, error, "%s: %s", f->name, why.text);
}

// clang-format off
// The flags of all verbs of braid and braid-bench. The file serves all of them, so a key without a
// flag here may belong to another verb.
static const char *const all_flags[] = {
    "account", "adapter", "advise", "alpha", "anew", "batch", "beside", "best-stages", "bound",
    "bytes", "cache-f16", "capacity", "carried", "carry", "cell", "certificate", "chaos", "check",
    "checkpoint-every", "choices", "close", "context", "continue", "copies", "costs", "crash",
    "data", "dead-after", "delay", "delays", "demand", "details", "die-at", "draft", "dump",
    "effort", "events", "exact", "first", "force", "frequency-penalty", "from", "from-adapter",
    "gather", "gossip-rounds", "hold", "hold-out", "host", "hours", "identity", "ids", "ignore-end",
    "int8", "iterations", "join", "json", "key-file", "keys", "kill", "late", "layers", "lazy",
    "lead", "learning-rate", "limit-rounds", "link", "links", "listen", "listing", "log", "loss",
    "max-memory", "measure", "microbatches", "min-p", "model", "most-tokens", "name", "neighbours",
    "objective", "once", "origin", "out", "own-layers", "page", "page-keys", "parallel",
    "parameters", "part", "path-limit", "patience", "peers", "placement", "plan-first", "plan-join",
    "plot", "port", "presence-penalty", "private-key", "probes", "products", "profile", "prompt",
    "prompt-file", "prompt-rows", "prompt-tokens", "public-address", "quality", "queue", "rank",
    "recompute", "relays", "repeat-penalty", "repetitions", "reproducible", "reps", "resume",
    "rslora", "run", "same-prompt", "save", "save-every", "seconds", "seed", "seeds", "sequence",
    "session", "sessions", "set-aside", "shadow", "shadows", "shapes", "shard-size", "share",
    "show-prompt", "slack", "solo", "solver-time", "sources", "spare", "special", "stage",
    "state-dir", "state-rate", "stop", "stop-within", "stride", "supervised", "swap", "system",
    "systems", "targets", "temperature", "template", "tensorboard", "tensors", "tests", "text",
    "threads", "time", "timing", "timings", "to", "together", "tokens", "top-k", "top-p", "trace",
    "train", "upload-share", "validate-every", "validation", "variables", "vocab", "voters",
    "wait-data-peers", "wait-for-peers", "wait-relays", "warmup", "weights", "whole", "whole-share",
    "window", "without-key",
};
// clang-format on
enum { ALL_FLAGS = sizeof all_flags / sizeof *all_flags };

static braid_err check_keys(const options *o, const yaml *file, braid_error *error) {
    const char *known[OPTIONS_MAX_TABLE + ALL_FLAGS];
    size_t count = 0;
    BRAID_ASSERT(o->count <= OPTIONS_MAX_TABLE);
    for (size_t i = 0; i < o->count; i++) known[count++] = o->table[i].name;
    for (size_t i = 0; i < ALL_FLAGS; i++) known[count++] = all_flags[i];
    return yaml_check_keys(file, yaml_root(file), "", known, count, error);
}

static int read_config_file(options *o) {
    char path[OPTIONS_MAX_PATH];
    yaml *file = NULL;
    braid_error error = {0};
    if (!file_path(o, path)) return CLI_OK;
    if (yaml_load(path, &file, &error) != BRAID_OK) return cli_complain(CLI_USAGE, o->verb, "%s", error.text);
    int code = CLI_OK;
    if (check_keys(o, file, &error) != BRAID_OK) code = cli_complain(CLI_USAGE, o->verb, "%s", error.text);
    for (const yaml_node *node = yaml_root(file)->first; node != NULL && code == CLI_OK; node = node->next) {
        option *f = option_find(o, node->key, strlen(node->key));
        bool open = f != NULL && f->source == OPTION_FROM_DEFAULT;
        if (open && read_file_value(o, file, f, node, &error) != BRAID_OK)
            code = cli_complain(CLI_USAGE, o->verb, "%s", error.text);
    }
    yaml_free(file);
    return code;
}

// ---- the command line ----

static int unknown_flag(const options *o, const char *flag, size_t length) {
    const char *names[OPTIONS_MAX_TABLE + 2];
    char text[SUGGEST_MAX_NAME + 1];
    size_t count = 0;
    BRAID_ASSERT(o->count <= OPTIONS_MAX_TABLE);
    for (size_t i = 0; i < o->count; i++) names[count++] = o->table[i].name;
    names[count++] = "help";
    names[count++] = "config";
    snprintf(text, sizeof text, "%.*s", (int)length, flag);
    const char *near = suggest_name(text, names, count);
    if (near != NULL) return cli_complain(CLI_USAGE, o->verb, "unknown flag --%s; did you mean --%s?", text, near);
    return cli_complain(CLI_USAGE, o->verb, "unknown flag --%s; '%s %s --help' lists them", text, cli_program_name,
                        o->verb);
}

// "8080" or "0.0.0.0:8080": the word after an OPTION_ADDRESS may be an argument of the verb.
static bool is_address(const char *word) {
    const char *colon = strrchr(word, ':'), *digits = colon ? colon + 1 : word;
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

// Parses one flag at argv[*i]; consumes the next word as well if the value is there.
static int read_flag(options *o, int argc, char **argv, int *i) {
    const char *flag = argv[*i] + 2;
    size_t length = strcspn(flag, "=");
    const char *text = flag[length] == '=' ? flag + length + 1 : NULL;
    braid_error error = {0};
    option config = {.name = "config", .kind = OPTION_TEXT, .value = &o->config};
    option *f = length == 6 && strncmp(flag, "config", 6) == 0 ? &config : option_find(o, flag, length);
    if (f == NULL && strncmp(flag, "no-", 3) == 0 && text == NULL) {
        f = option_find(o, flag + 3, length - 3);
        text = "no";
        if (f != NULL && f->kind != OPTION_SWITCH) f = NULL;
    }
    if (f == NULL) return unknown_flag(o, flag, length);
    if (text == NULL && f->kind == OPTION_SWITCH) text = "yes";
    if (text == NULL && f->kind == OPTION_ADDRESS && (*i + 1 == argc || !is_address(argv[*i + 1]))) text = "";
    if (text == NULL && *i + 1 < argc) text = argv[++*i];
    if (text == NULL)
        return cli_complain(CLI_USAGE, o->verb, "--%s needs a value; '%s %s --help' shows which", f->name,
                            cli_program_name, o->verb);
    if (read_value(o, f, text, OPTION_FROM_FLAG, &error) == BRAID_OK) return CLI_OK;
    return cli_complain(CLI_USAGE, o->verb, "--%s: %s", f->name, error.text);
}

static int read_command_line(options *o, int argc, char **argv) {
    bool flags = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int code = CLI_OK;
        if (flags && strcmp(word, "--") == 0) {
            flags = false;
        } else if (flags && strncmp(word, "--", 2) == 0) {
            code = read_flag(o, argc, argv, &i);
        } else if (flags && word[0] == '-' && word[1] != 0) {
            code = cli_complain(CLI_USAGE, o->verb,
                                "unknown flag %s; flags have long names, and '%s %s --help' lists them", word,
                                cli_program_name, o->verb);
        } else if (o->given_count == OPTIONS_MAX_GIVEN) {
            code = cli_complain(CLI_USAGE, o->verb, "more than %d arguments", OPTIONS_MAX_GIVEN);
        } else {
            o->given[o->given_count++] = word;
        }
        if (code != CLI_OK) return code;
    }
    return CLI_OK;
}

// ---- help ----

static const char *unit_of(const option *f) {
    static const char *const units[] = {
        [OPTION_SWITCH] = "",   [OPTION_TEXT] = "TEXT",     [OPTION_COUNT] = "N",   [OPTION_REAL] = "X",
        [OPTION_SIZE] = "SIZE", [OPTION_DURATION] = "TIME", [OPTION_LIST] = "TEXT", [OPTION_ADDRESS] = "[HOST:PORT]",
    };
    return f->unit != NULL ? f->unit : units[f->kind];
}

static void default_text(const option *f, char text[OPTIONS_DEFAULT_SPACE]) {
    text[0] = 0;
    if (f->fallback != NULL)
        snprintf(text, OPTIONS_DEFAULT_SPACE, "%s", f->fallback);
    else if (f->kind == OPTION_TEXT && *(const char **)f->value != NULL)
        snprintf(text, OPTIONS_DEFAULT_SPACE, "%s", *(const char **)f->value);
    else if (f->kind == OPTION_COUNT)
        snprintf(text, OPTIONS_DEFAULT_SPACE, "%llu", (unsigned long long)*(uint64_t *)f->value);
    else if (f->kind == OPTION_REAL)
        snprintf(text, OPTIONS_DEFAULT_SPACE, "%g", *(double *)f->value);
    else if (f->kind == OPTION_SIZE)
        quantity_size_text(*(uint64_t *)f->value, text);
    else if (f->kind == OPTION_DURATION)
        quantity_duration_text((double)*(uint64_t *)f->value * 1e-9, text);
    else if (f->kind == OPTION_SWITCH && *(bool *)f->value)
        snprintf(text, OPTIONS_DEFAULT_SPACE, "yes");
}

// Prints the words of `text`, wrapped at the help's width, each new line indented.
static void print_wrapped(const char *text, size_t column) {
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > OPTIONS_HELP_COLUMN && column + 1 + length > OPTIONS_HELP_WIDTH) {
            printf("\n%*s", OPTIONS_HELP_COLUMN, "");
            column = OPTIONS_HELP_COLUMN;
        } else if (column > OPTIONS_HELP_COLUMN) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_flag(const char *name, const char *unit, const char *text) {
    int column = printf("  --%s%s%s", name, *unit ? " " : "", unit);
    if (column + 2 > OPTIONS_HELP_COLUMN) column = printf("\n") - 1;
    printf("%*s", OPTIONS_HELP_COLUMN - column, "");
    print_wrapped(text, OPTIONS_HELP_COLUMN);
}

static void print_help(const options *o) {
    printf("Usage: %s %s%s%s%s\n\n%s\n", cli_program_name, o->verb, o->count > 0 ? " [FLAGS]" : "",
           o->arguments != NULL ? " " : "", o->arguments != NULL ? o->arguments : "", o->summary);
    printf("\nFlags:\n");
    for (size_t i = 0; i < o->count; i++) {
        const option *f = &o->table[i];
        char fallback[OPTIONS_DEFAULT_SPACE], text[OPTIONS_HELP_SPACE];
        if (f->hidden) continue;
        default_text(f, fallback);
        snprintf(text, sizeof text, "%s%s%s%s", f->help, *fallback ? " (default: " : "", fallback,
                 *fallback ? ")" : "");
        print_flag(f->name, unit_of(f), text);
    }
    print_flag("config", "PATH", "a file with defaults for these flags (default: ~/.config/braid/config.yaml)");
    print_flag("help", "", "print this text");
    char name[OPTIONS_NAME_SPACE];
    environment_name(o->count > 0 ? o->table[0].name : "config", name);
    printf("\nEvery flag can also be set by an environment variable, such as %s, or by a key in that file.\n"
           "Flags take precedence over the environment, and the environment over the file.\n",
           name);
    if (o->examples == NULL) return;
    printf("\nExamples:\n");
    for (const char *line = o->examples; *line; line += strcspn(line, "\n") + 1) {
        printf("  %.*s\n", (int)strcspn(line, "\n"), line);
        if (line[strcspn(line, "\n")] == 0) break;
    }
}

// ---- all of it ----

static int check_given(const options *o) {
    const char *arguments = o->arguments != NULL ? o->arguments : "no arguments";
    if (o->given_count > o->max_given)
        return cli_complain(CLI_USAGE, o->verb, "unexpected argument '%s': expected %s", o->given[o->max_given],
                            arguments);
    if (o->given_count < o->min_given)
        return cli_complain(CLI_USAGE, o->verb, "%s is missing; '%s %s --help' shows an example", arguments,
                            cli_program_name, o->verb);
    return CLI_OK;
}

bool options_parse(options *o, int argc, char **argv, int *code) {
    bool help = false;
    o->given_count = 0;
    o->owned = NULL;
    o->config = NULL;
    for (size_t i = 0; i < o->count; i++) o->table[i].source = OPTION_FROM_DEFAULT;
    // --help shows the defaults, so the flag is detected before any value is read.
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        help = help || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (help) {
        print_help(o);
        *code = CLI_OK;
        return false;
    }
    // The strongest source first: weaker ones do not replace its values.
    *code = read_command_line(o, argc, argv);
    if (*code == CLI_OK) *code = read_environment(o);
    if (*code == CLI_OK) *code = read_config_file(o);
    if (*code == CLI_OK) *code = check_given(o);
    if (*code != CLI_OK) options_close(o);
    return *code == CLI_OK;
}
