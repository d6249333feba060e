// The program's verbs. Each is one file, src/cli/<verb>.c, with one function; program.c has the
// table.
#ifndef BRAID_CLI_CLI_H
#define BRAID_CLI_CLI_H

#include "base/err.h"

#include <stdbool.h>

// Return values of a verb's function, and exit codes of the process.
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,  // the attempt failed; the message is on stderr
    CLI_USAGE = 2,   // a mistake on the command line, in the environment or in a user's file
};

typedef struct cli_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} cli_verb;

// Each program has these two in its program_name.c, apart from the table of verbs: messages need the
// name, and the verbs need messages.
extern const char cli_program_name[];  // prefix of every message
extern const bool cli_has_baselines;   // its runs may use a baseline's routing

// Properties of a program for main.c, which all programs share: src/cli/program.c of braid,
// bench/cli/program.c of braid-bench.
typedef struct cli_program {
    const char *kind;     // noun for its verbs in messages: "verb" or "experiment"
    const char *usage;    // --help, above the list of verbs
    const char *closing;  // --help, below the list
    const cli_verb *verb;  // terminated by an entry without a name
} cli_program;
extern const cli_program cli_this_program;

// argv[0] is the verb. Verbs print their own errors (cli_complain) and never call exit.
int cli_up(int argc, char **argv);
int cli_node(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_profile(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_keygen(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_sim(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_convert(int argc, char **argv);
int cli_tune(int argc, char **argv);
int cli_merge(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_plot(int argc, char **argv);
int cli_status(int argc, char **argv);

// "PROGRAM VERB: text" on stderr; returns `code`, so that `return cli_complain(...)` reads well.
int cli_complain(int code, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));

// run_config_load, with baselines if the program has them.
struct run_config;
// `from`: the model of --from; NULL: none.
braid_err cli_load_run(const char *path, const char *from, struct run_config *out, braid_error *error);

// Checks before any computation whether --flag's file can be written. An existing file is
// unchanged, and no new file remains. NULL: no file was requested. False: the error was printed.
bool cli_can_write(const char *verb, const char *flag, const char *path);
// The same for --flag's folder, which is created if it does not exist.
bool cli_can_fill(const char *verb, const char *flag, const char *path);

#endif
