#include "cli/own_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

void own_child_begin(own_child_arguments *a, const char *verb) {
    *a = (own_child_arguments){.count = 0};
    own_child_add(a, "braid");
    own_child_add(a, verb);
}

void own_child_add(own_child_arguments *a, const char *text) {
    BRAID_ASSERT(a->count < OWN_CHILD_ARGUMENTS);
    a->list[a->count++] = (char *)(uintptr_t)text;
}

void own_child_text(own_child_arguments *a, const char *flag, const char *value) {
    if (!value) return;
    own_child_add(a, flag);
    own_child_add(a, value);
}

static char *number_room(own_child_arguments *a) {
    BRAID_ASSERT(a->number_count < OWN_CHILD_NUMBERS);
    return a->numbers[a->number_count++];
}

void own_child_number(own_child_arguments *a, const char *flag, uint64_t value) {
    if (!value) return;
    char *text = number_room(a);
    snprintf(text, OWN_CHILD_NUMBER, "%llu", (unsigned long long)value);
    own_child_text(a, flag, text);
}

void own_child_duration(own_child_arguments *a, const char *flag, uint64_t ns) {
    char *text = number_room(a);
    snprintf(text, OWN_CHILD_NUMBER, "%llums", (unsigned long long)(ns / 1000000 + (ns % 1000000 != 0)));
    own_child_text(a, flag, text);
}

static char **environment_make(void) {
    static char no_configuration[] = "BRAID_CONFIG=/dev/null";
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **own = calloc(count + 2, sizeof *own);
    if (!own) return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "BRAID_", 6) != 0) own[kept++] = environ[i];
    own[kept] = no_configuration;
    return own;
}

// The child's ends of both pipes, or -1.
typedef struct child_ends {
    int input, output;
} child_ends;

static void ends_close(const child_ends *ends) {
    if (ends->input >= 0) close(ends->input);
    if (ends->output >= 0) close(ends->output);
}

// No other child inherits the ends.
static int pipe_open(int ends[2]) {
    if (pipe(ends) != 0) return errno;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return 0;
}

static int pipes_open(own_child_pipes *pipes, child_ends *ends) {
    int in[2], out[2];
    int code = pipe_open(in);
    if (code) return code;
    code = pipe_open(out);
    if (code) {
        close(in[0]);
        close(in[1]);
        return code;
    }
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    *ends = (child_ends){.input = in[0], .output = out[1]};
    *pipes = (own_child_pipes){.commands = in[1], .events = out[0]};
    return 0;
}

static int file_actions_fill(posix_spawn_file_actions_t *files, const child_ends *ends) {
    if (ends->input < 0) {
        int code = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
        return code ? code : posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
    }
    int code = posix_spawn_file_actions_adddup2(files, ends->input, 0);
    return code ? code : posix_spawn_file_actions_adddup2(files, ends->output, 1);
}

static int spawn(own_child_arguments *a, char **environment, const child_ends *ends, pid_t *pid) {
    posix_spawn_file_actions_t files;
    int code = posix_spawn_file_actions_init(&files);
    if (code != 0) return code;
    code = file_actions_fill(&files, ends);
    if (code == 0) code = posix_spawn(pid, "/proc/self/exe", &files, NULL, a->list, environment);
    posix_spawn_file_actions_destroy(&files);
    return code;
}

braid_err own_child_start(own_child_arguments *a, const char *what, pid_t *pid, own_child_pipes *pipes,
                          braid_error *error) {
    child_ends ends = {-1, -1};
    int code = pipes ? pipes_open(pipes, &ends) : 0;
    char **environment = code == 0 ? environment_make() : NULL;
    if (code == 0 && !environment) code = ENOMEM;
    if (code == 0) code = spawn(a, environment, &ends, pid);
    if (code != 0 && ends.input >= 0) {
        close(pipes->commands);
        close(pipes->events);
    }
    free(environment);
    ends_close(&ends);
    return code == 0 ? BRAID_OK
                     : braid_fail(error, BRAID_STATE, "cannot start the process of %s: %s", what, strerror(code));
}

void own_child_bind(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }
