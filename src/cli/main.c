// PROGRAM VERB ...: finds the verb's function and calls it.
#include "base/err.h"
#include "cli/cli.h"
#include "format/suggest.h"
#include "node/stop.h"
#include "tensor/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t verb_count(void) {
    size_t count = 0;
    while (cli_this_program.verb[count].name != NULL) count++;
    return count;
}

static void print_help(FILE *out) {
    fputs(cli_this_program.usage, out);
    for (const cli_verb *v = cli_this_program.verb; v->name != NULL; v++) fprintf(out, "  %-10s %s\n", v->name, v->help);
    fputs(cli_this_program.closing, out);
}

static int unknown_verb(const char *text) {
    enum { MOST_VERBS = 32 };
    const cli_program *p = &cli_this_program;
    const char *names[MOST_VERBS];
    size_t count = verb_count();
    BRAID_ASSERT(count <= MOST_VERBS);
    for (size_t i = 0; i < count; i++) names[i] = p->verb[i].name;
    const char *near = suggest_name(text, names, count);
    if (near != NULL)
        fprintf(stderr, "%s: unknown %s '%.64s'; did you mean '%s'?\n", cli_program_name, p->kind, text, near);
    else
        fprintf(stderr, "%s: unknown %s '%.64s'; '%s --help' lists them\n", cli_program_name, p->kind, text, cli_program_name);
    return CLI_USAGE;
}

// If the caller closed a standard stream, the next file opened would get its number. Messages would
// then be written into a checkpoint, and libuv aborts a process that closes such a number.
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
        printf("%s %s\n", cli_program_name, BRAID_VERSION);
        return CLI_OK;
    }
    for (const cli_verb *v = cli_this_program.verb; v->name != NULL; v++) {
        if (strcmp(argv[1], v->name) == 0) return v->run(argc - 1, argv + 1);
    }
    return unknown_verb(argv[1]);
}

// A failed write must not end with exit code 0 and half a result. If that write was long ago,
// ending its partial line yields the reason.
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
    fprintf(stderr, "%s: not all of the output could be written%s%s%s\n", cli_program_name, why ? ": " : "", why ? strerror(why) : "",
            mend);
    return CLI_FAILED;
}

int main(int argc, char **argv) {
    if (!open_standard_streams()) {
        fprintf(stderr,
                "%s: cannot open /dev/null; is it there, and does the limit on open files (ulimit -n) allow it?\n",
                cli_program_name);
        return CLI_FAILED;
    }
    braid_error error;
    if (tensor_stack_reserve(&error)) {
        fprintf(stderr, "%s: %s\n", cli_program_name, error.text);
        return CLI_FAILED;
    }
    // A reader that disappears, or a file beyond its size limit, is an error of one write and must
    // not end the process.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    stop_watch_as_first();
    return all_written(run_verb(argc, argv));
}
