#include "cli/node_shadow.h"

#include "node/address.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

extern char **environ;

enum { MOST_ARGUMENTS = 26, NUMBER_TEXT = 24, NUMBERS = 3 };

typedef struct arguments {
    char *list[MOST_ARGUMENTS + 1];
    uint32_t count, number_count;
    char numbers[NUMBERS][NUMBER_TEXT];
    char beside[2 * BRAID_ID_BYTES + 1];
    char listen[WIRE_MAX_ADDRESS], public_address[WIRE_MAX_ADDRESS], patience[NUMBER_TEXT];
} arguments;

static void add(arguments *a, const char *text) {
    BRAID_ASSERT(a->count < MOST_ARGUMENTS);
    a->list[a->count++] = (char *)(uintptr_t)text;
}

static void add_number(arguments *a, const char *flag, uint64_t value) {
    if (!value) return;
    char *text = a->numbers[a->number_count++];
    snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)value);
    add(a, flag);
    add(a, text);
}

static void add_addresses(arguments *a, const node_shadow *shadow) {
    if (!address_beside(shadow->listen, shadow->public_address, a->listen, a->public_address)) return;
    add(a, "--listen");
    add(a, a->listen);
    if (!a->public_address[0]) return;
    add(a, "--public-address");
    add(a, a->public_address);
}

static void arguments_fill(const node_shadow *shadow, const braid_id *beside, arguments *a) {
    *a = (arguments){.count = 0};
    add(a, "braid");
    add(a, "node");
    add(a, "--json");
    add(a, "--join");
    add(a, shadow->ticket);
    id_hex(beside->bytes, BRAID_ID_BYTES, a->beside);
    add(a, "--beside");
    add(a, a->beside);
    add(a, "--state-dir");
    add(a, shadow->state_directory);
    if (shadow->from) {
        add(a, "--from");
        add(a, shadow->from);
    }
    add_addresses(a, shadow);
    snprintf(a->patience, sizeof a->patience, "%llums", (unsigned long long)((shadow->patience_ns + 999999) / 1000000));
    add(a, "--patience");
    add(a, a->patience);
    add_number(a, "--threads", shadow->threads);
    add_number(a, "--capacity", shadow->capacity);
    add_number(a, "--max-memory", shadow->max_memory);
}

// The user's environment and configuration file apply to the parent only.
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

static int spawn(arguments *a, char **environment) {
    posix_spawn_file_actions_t files;
    pid_t pid;
    int code = posix_spawn_file_actions_init(&files);
    if (code != 0) return code;
    code = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (code == 0) code = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (code == 0) code = posix_spawn(&pid, "/proc/self/exe", &files, NULL, a->list, environment);
    posix_spawn_file_actions_destroy(&files);
    return code;
}

braid_err node_shadow_start(const node_shadow *shadow, const braid_id *beside, braid_error *error) {
    arguments a;
    arguments_fill(shadow, beside, &a);
    char **environment = environment_make();
    if (!environment) return braid_fail(error, BRAID_MEMORY, "no memory for a standby replica");
    signal(SIGCHLD, SIG_IGN);  // the exit status is not used
    int code = spawn(&a, environment);
    free(environment);
    return code == 0 ? BRAID_OK : braid_fail(error, BRAID_STATE, "cannot start the process of the standby replica: %s", strerror(code));
}

void node_shadow_bind(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }
