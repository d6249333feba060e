// run_limited [--cpu SECONDS] COMMAND...
// Runs a test with a limit on its processor time, which does not depend on what else the machine computes. CTest's
// TIMEOUT counts wall time; it is the generous limit, for a test that hangs.
//
// The limit holds for each process of the test alone, as RLIMIT_CPU does. The exit status is the command's, or 128
// plus the number of the signal that ended it. BRAID_TEST_TIMES=FILE appends a line for each test: processor
// seconds of all its processes, wall seconds, exit status, command.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { USAGE_STATUS = 2, START_STATUS = 127, SIGNAL_STATUS = 128, GRACE_SECONDS = 5 };

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static double wall_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void start(unsigned long limit, char *const command[]) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test does not outlive CTest's limit
    if (limit > 0) {
        struct rlimit given = {.rlim_cur = limit, .rlim_max = limit + GRACE_SECONDS};
        if (setrlimit(RLIMIT_CPU, &given) != 0) perror("run_limited: setrlimit");
    }
    execvp(command[0], command);
    fprintf(stderr, "run_limited: %s: %s\n", command[0], strerror(errno));
    _exit(START_STATUS);
}

static int status_of(int wait_status, unsigned long limit) {
    if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
    int by = WTERMSIG(wait_status);
    if (by == SIGXCPU)
        fprintf(stderr, "run_limited: the test used more than its %lu seconds of processor time\n", limit);
    else
        fprintf(stderr, "run_limited: the test was ended by signal %d (%s)\n", by, strsignal(by));
    return SIGNAL_STATUS + by;
}

static void write_times(const char *path, double began, int status, char *const command[]) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    FILE *file = fopen(path, "a");
    if (file == NULL) {
        fprintf(stderr, "run_limited: %s: %s\n", path, strerror(errno));
        return;
    }
    fprintf(file, "%.2f %.2f %d", seconds_of(used.ru_utime) + seconds_of(used.ru_stime), wall_seconds() - began,
            status);
    for (; *command != NULL; command++) fprintf(file, " %s", *command);
    fputc('\n', file);
    fclose(file);
}

int main(int argc, char **argv) {
    unsigned long limit = 0;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--cpu") == 0) {
        limit = strtoul(argv[2], NULL, 10);
        first = 3;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: run_limited [--cpu SECONDS] COMMAND...\n");
        return USAGE_STATUS;
    }
    double began = wall_seconds();
    pid_t child = fork();
    if (child < 0) {
        perror("run_limited: fork");
        return START_STATUS;
    }
    if (child == 0) start(limit, argv + first);
    int wait_status = 0;
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
    }
    int status = status_of(wait_status, limit);
    const char *times = getenv("BRAID_TEST_TIMES");
    if (times != NULL) write_times(times, began, status, argv + first);
    return status;
}
