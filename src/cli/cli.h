// The program's verbs. Each is one file, src/cli/<verb>.c, with one function; main.c has the table.
#ifndef BRAID_CLI_CLI_H
#define BRAID_CLI_CLI_H

#include <stdbool.h>

// What a verb's function returns, and with it the process.
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,  // it was tried and did not work; the message is on stderr
    CLI_USAGE = 2,   // a mistake on the command line, in the environment or in a file of the user's
};

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

// "braid VERB: text" on stderr; returns `code`, so that `return cli_complain(...)` reads well.
int cli_complain(int code, const char *verb, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Asked before anything is computed for it: whether --flag's file can be written. What is there stays as it is, and nothing new is
// left. NULL: none is wanted. False: it was complained of.
bool cli_can_write(const char *verb, const char *flag, const char *path);
// The same of --flag's folder for files, which is made when it is not there.
bool cli_can_fill(const char *verb, const char *flag, const char *path);

#endif
