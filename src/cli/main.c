// braid VERB ...: finds the verb's function and calls it.
#include "cli/cli.h"
#include "format/suggest.h"
#include "tensor/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct cli_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} cli_verb;

static const cli_verb verbs[] = {
    {"up", cli_up, "train with a swarm of processes on this machine"},
    {"node", cli_node, "run one peer: join a run, or begin one"},
    {"train", cli_train, "train in one process, from a description (RUN.yaml)"},
    {"plan", cli_plan, "show the memory that a run (RUN.yaml) needs, stage by stage"},
    {"generate", cli_generate, "continue a text with a trained model"},
    {"tokenize", cli_tokenize, "print the token ids of a text, or train a tokenizer"},
    {"keygen", cli_keygen, "make a peer's key"},
    {"sim", cli_sim, "simulate a swarm from its description (SCENARIO.yaml)"},
    {"bench", cli_bench, "run an experiment in a simulator"},
    {NULL, NULL, NULL},
};

static size_t verb_count(void) { return sizeof verbs / sizeof *verbs - 1; }

static void print_help(FILE *out) {
    fprintf(out, "Usage: braid VERB [FLAGS] [ARGUMENTS]\n\nTrains one language model on many machines that may come "
                 "and go.\n\nVerbs:\n");
    for (size_t i = 0; i < verb_count(); i++) fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    fprintf(out, "\n'braid VERB --help' shows a verb's flags and examples; 'braid --version' the version.\n");
}

static int unknown_verb(const char *text) {
    const char *names[sizeof verbs / sizeof *verbs];
    for (size_t i = 0; i < verb_count(); i++) names[i] = verbs[i].name;
    const char *near = suggest_name(text, names, verb_count());
    if (near != NULL)
        fprintf(stderr, "braid: unknown verb '%.64s'; did you mean '%s'?\n", text, near);
    else
        fprintf(stderr, "braid: unknown verb '%.64s'; 'braid --help' lists them\n", text);
    return CLI_USAGE;
}

// What is opened first would take the number of a standard stream that the caller has closed: our lines, or a library's complaint, would
// land in a checkpoint, and libuv ends the process that closes such a number.
static bool open_standard_streams(void) {
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
    return fd >= 0 && close(fd) == 0;
}

static int run_verb(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("braid %s\n", BRAID_VERSION);
        return CLI_OK;
    }
    for (size_t i = 0; i < verb_count(); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) return verbs[i].run(argc - 1, argv + 1);
    }
    return unknown_verb(argv[1]);
}

// Nobody is to get half a result and "all is well". When a write that failed is long over, ending its broken line says why.
static int all_written(int code) {
    bool lost = ferror(stdout) != 0;
    lost = fflush(stdout) != 0 || lost;
    if (!lost || code != CLI_OK) return code;
    errno = 0;
    putchar('\n');
    fflush(stdout);
    int why = errno;
    const char *mend = why == ENOSPC || why == EDQUOT ? "; free some space, or write to another place"
                       : why == EFBIG                 ? "; raise the limit on file sizes (ulimit -f)"
                                                      : "";
    fprintf(stderr, "braid: not all of the output could be written%s%s%s\n", why ? ": " : "", why ? strerror(why) : "",
            mend);
    return CLI_FAILED;
}

int main(int argc, char **argv) {
    if (!open_standard_streams()) {
        fprintf(stderr,
                "braid: cannot open /dev/null; is it there, and does the limit on open files (ulimit -n) allow it?\n");
        return CLI_FAILED;
    }
    braid_error error;
    if (tensor_stack_reserve(&error)) {
        fprintf(stderr, "braid: %s\n", error.text);
        return CLI_FAILED;
    }
    // A reader of our lines that goes away is an error of one write, not the end of the process; so is a file that its limit makes too large.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return all_written(run_verb(argc, argv));
}
