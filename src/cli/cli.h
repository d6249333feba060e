// The program's verbs. Each is one file, src/cli/<verb>.c, with one function; program.c has the table.
#ifndef BRAID_CLI_CLI_H
#define BRAID_CLI_CLI_H

#include "base/err.h"

#include <stdbool.h>

// What a verb's function returns, and with it the process.
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,  // it was tried and did not work; the message is on stderr
    CLI_USAGE = 2,   // a mistake on the command line, in the environment or in a file of the user's
};

typedef struct cli_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} cli_verb;

// What main.c, which all programs share, takes from each one: src/cli/program.c of braid, bench/cli/program.c of braid-bench.
typedef struct cli_program {
    const char *name;     // begins every message
    const char *kind;     // of its verbs, in messages: "verb" or "experiment"
    const char *usage;    // --help, before the list of verbs
    const char *closing;  // --help, after it
    const cli_verb *verb;  // ended by one without a name
    bool baselines;        // its runs may choose the routing of a baseline
} cli_program;
extern const cli_program cli_this_program;

// argv[0] is the verb. They print their own errors (cli_complain) and never call exit.
int cli_up(int argc, char **argv);
int cli_node(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_keygen(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_sim(int argc, char **argv);
int cli_tokenize(int argc, char **argv);

// "PROGRAM VERB: text" on stderr; returns `code`, so that `return cli_complain(...)` reads well.
int cli_complain(int code, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));

// run_config_load, with baselines where the program has them.
struct run_config;
braid_err cli_load_run(const char *path, struct run_config *out, braid_error *error);

// Asked before anything is computed for it: whether --flag's file can be written. What is there stays as it is, and nothing new is
// left. NULL: none is wanted. False: it was complained of.
bool cli_can_write(const char *verb, const char *flag, const char *path);
// The same of --flag's folder for files, which is made when it is not there.
bool cli_can_fill(const char *verb, const char *flag, const char *path);

#endif
