// Command-line flags from a table. Every flag --some-name has the environment twin BRAID_SOME_NAME
// and the key `some-name` in the user's configuration file. The file is --config, else
// $BRAID_CONFIG, else $XDG_CONFIG_HOME/braid/config.yaml, else ~/.config/braid/config.yaml. A flag
// wins over the environment, the environment over the file, the file over the default. --help is
// made from the table.
//
//     uint64_t iterations = 0; bool json = false;
//     option table[] = {
//         {"iterations", OPTION_COUNT, &iterations, .unit = "N",
//          .help = "stop after N iterations", .max = 1000000},
//         {"json", OPTION_SWITCH, &json, .help = "one JSON object a line"},
//     };
//     options o = {.verb = "train", .arguments = "RUN.yaml", .summary = "train in one process",
//                  .examples = "braid train --solo RUN.yaml\n", .table = table, .count = 2,
//                  .min_given = 1, .max_given = 1};
//     int code = 0;
//     if (!options_parse(&o, argc, argv, &code)) return code;
//     ... o.given[0] is RUN.yaml, option_is_set(&o, "iterations") says whether the user said so
#ifndef BRAID_CLI_OPTIONS_H
#define BRAID_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_SWITCH,    // bool: --name, --no-name, --name=yes|no
    OPTION_TEXT,      // const char *: points into argv, the environment or what options_close frees
    OPTION_COUNT,     // uint64_t
    OPTION_REAL,      // double
    OPTION_SIZE,      // uint64_t, bytes: 4096, 512K, 512M, 1.5G (format/quantity.h)
    OPTION_DURATION,  // uint64_t, nanoseconds: 250ms, 2s, 5m, 1h; a bare number is seconds
    OPTION_ADDRESS,   // const char *: "", or the next word if it is PORT or ends with :PORT
    OPTION_LIST,      // may be repeated; in the environment and the file separated by commas
} option_kind;

typedef enum option_source {
    OPTION_FROM_DEFAULT,
    OPTION_FROM_FILE,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_FLAG
} option_source;

enum { OPTIONS_MAX_GIVEN = 64, OPTIONS_MAX_LIST = 64 };

typedef struct option_list {
    uint32_t count;
    const char *item[OPTIONS_MAX_LIST];
} option_list;

typedef struct option {
    const char *name;  // without the dashes
    option_kind kind;
    void *value;           // of the kind's type, the caller's; holds the default on entry
    const char *unit;      // placeholder in --help (N, PATH, HOST:PORT); NULL: depends on the kind
    const char *help;      // one sentence; the default is added to it
    const char *fallback;  // text for the default in --help; NULL: made from `value`, "": not shown
    double min, max;       // numbers, sizes and durations (in seconds); max 0: no limit
    bool hidden;           // works, but is not shown by --help
    option_source source;  // the origin of the value, set by options_parse
} option;

typedef struct options {
    const char *verb;       // "train"
    const char *arguments;  // the part after the flags in the usage line, e.g. "RUN.yaml"; NULL: none
    const char *summary;    // one sentence for --help
    const char *examples;   // lines of --help, each ended by '\n'; NULL: none
    option *table;
    size_t count;
    uint32_t min_given, max_given;         // how many arguments; more or fewer is a usage error
    uint32_t given_count;                  // set by options_parse:
    const char *given[OPTIONS_MAX_GIVEN];  // the arguments, in order; "--" ends the flags
    const char *config;                    // --config PATH, which every verb has; NULL: not given
    void *owned;                           // text copied from the file or split at commas
} options;

// Fills the values. Returns true when the verb should run; otherwise the verb returns `*code`. In
// that case --help was printed, or a message on stderr names the mistake and the nearest flag.
// argv[0] is the verb.
bool options_parse(options *o, int argc, char **argv, int *code);
// Frees the memory of options_parse. Text values from the file or the environment's lists become
// invalid.
void options_close(options *o);

// Whether the user set the option (flag, environment or file).
bool option_is_set(const options *o, const char *name);

// Check the allowed values of a text option (options_choose.c). False: the value is not allowed,
// and a message on stderr names the allowed ones. `flag` is without its dashes.
//
// One of `names`.
bool options_read_choice(const char *verb, const char *flag, const char *text, const char *const *names, uint32_t count,
                         uint32_t *choice);
// "a,c": some of `names`, at least one; every element of `set` is written.
bool options_read_set(const char *verb, const char *flag, const char *text, const char *const *names, uint32_t count,
                      bool *set);
// "10,200": 1 to `room` numbers.
typedef struct option_numbers {
    uint32_t least, most, room;
    uint32_t count, *number;  // set by options_read_numbers; number: [room]
} option_numbers;
bool options_read_numbers(const char *verb, const char *flag, const char *text, option_numbers *numbers);

#endif
