#include "cli/up_cause.h"

#include "format/quantity.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_PATH = 1024, FILE_TEXT = 4096 };

// ---- the control group ----

static bool file_read(const char *directory, const char *name, char text[FILE_TEXT]) {
    char path[2 * GROUP_PATH];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t count = fread(text, 1, FILE_TEXT - 1, file);
    text[count] = 0;
    fclose(file);
    return true;
}

// Reads a value from a file with lines such as "oom_kill 3"; the name is the same in memory.events
// (2) and memory.oom_control (1).
static uint64_t kills_in(const char *text) {
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, "oom_kill ", 9) == 0) return strtoull(line + 9, NULL, 10);
    return 0;
}

// "max", or a value near 2^63 in version 1, means no limit.
static uint64_t limit_in(const char *text) {
    char *end;
    uint64_t limit = strtoull(text, &end, 10);
    return end == text || limit >= UINT64_C(1) << 60 ? UINT64_MAX : limit;
}

// Every parent group may set a limit.
static void walk_up(const char *base, char group[GROUP_PATH], const char *limit_name, const char *kills_name, cause_memory *out) {
    char directory[2 * GROUP_PATH], text[FILE_TEXT];
    bool own = true;
    for (;;) {
        snprintf(directory, sizeof directory, "%s%s", base, group);
        if (file_read(directory, limit_name, text) && limit_in(text) < out->limit) out->limit = limit_in(text);
        if (own && file_read(directory, kills_name, text)) {
            out->oom_kills = kills_in(text);
            own = false;
        }
        char *slash = strrchr(group, '/');
        if (!slash) return;
        *slash = 0;
    }
}

static void group_take(const char *line, const char *root, cause_memory *out) {
    char group[GROUP_PATH], base[GROUP_PATH];
    const char *path = strchr(line, ':') ? strchr(strchr(line, ':') + 1, ':') : NULL;
    bool two = strncmp(line, "0::", 3) == 0, one = strstr(line, ":memory:") != NULL;
    if (!path || (!two && !one)) return;
    snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
    snprintf(base, sizeof base, "%s%s", root, two ? "" : "/memory");
    if (two) walk_up(base, group, "memory.max", "memory.events", out);
    else walk_up(base, group, "memory.limit_in_bytes", "memory.oom_control", out);
}

void cause_memory_read(const char *self, const char *root, cause_memory *out) {
    char line[GROUP_PATH];
    *out = (cause_memory){.limit = UINT64_MAX};
    FILE *file = fopen(self, "r");
    while (file && fgets(line, sizeof line, file)) group_take(line, root, out);
    if (file) fclose(file);
}

// ---- causes ----

static const struct {
    int number;
    const char *name, *likely;
} signals[] = {
    {SIGILL, "SIGILL", "this processor most likely lacks instructions that the program was built for: build it on this machine"},
    {SIGBUS, "SIGBUS", "a disk or /dev/shm is most likely full, or a file was cut short"},
    {SIGSEGV, "SIGSEGV", "a bug in braid: please report it"},
    {SIGABRT, "SIGABRT", "a bug in braid: please report it"},
    {SIGXCPU, "SIGXCPU", "its processor time is limited (ulimit -t)"},
    {SIGXFSZ, "SIGXFSZ", "the size of files is limited (ulimit -f)"},
    {SIGSYS, "SIGSYS", "the container forbids a system call that it needs (seccomp)"},
    {SIGTERM, "SIGTERM", "it was stopped from outside"},
    {SIGHUP, "SIGHUP", "it was stopped from outside"},
    {SIGINT, "SIGINT", "it was stopped from outside"},
};

static void memory_text(const cause_memory *memory, int oom, char *text, size_t room) {
    char limit[QUANTITY_TEXT], where[96] = "";
    if (memory->limit != UINT64_MAX) snprintf(where, sizeof where, " (the limit of this container is %s)", quantity_size_text(memory->limit, limit));
    snprintf(text, room, "%s%s: use fewer relays, smaller stages or microbatches, or give it more memory",
             oom ? "the kernel killed it for lack of memory" : "most likely by the kernel for lack of memory", where);
}

static void signal_text(int number, const cause_memory *memory, int oom, char *text, size_t room) {
    char likely[240] = "";
    if (number == SIGKILL) {
        memory_text(memory, oom, likely, sizeof likely);
        snprintf(text, room, "was ended by signal 9 (SIGKILL), %s", likely);
        return;
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (signals[i].number != number) continue;
        snprintf(text, room, "was ended by signal %d (%s), %s", number, signals[i].name, signals[i].likely);
        return;
    }
    snprintf(text, room, "was ended by signal %d", number);
}

void cause_text(int64_t status, int signal_number, const char *complaint, const cause_memory *memory, int oom, char text[CAUSE_TEXT]) {
    if (signal_number) signal_text(signal_number, memory, oom, text, CAUSE_TEXT);
    else if (*complaint) snprintf(text, CAUSE_TEXT, "ended with code %lld: %.240s", (long long)status, complaint);
    else if (status == 126 || status == 127) snprintf(text, CAUSE_TEXT, "ended with code %lld: the program cannot be executed; is it there, and for this machine?", (long long)status);
    else snprintf(text, CAUSE_TEXT, "ended with code %lld and no error message", (long long)status);
}
