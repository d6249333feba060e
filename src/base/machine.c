#define _GNU_SOURCE
#include "base/machine.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MOST_PROCESSORS = 1 << 16,
    LINE_BYTES = 8192,
    PATH_BYTES = 4096,
    USUAL_FILES = 16,  // assumed when /proc cannot be read
};

// Reads the first line of a file without its line end. False: the file is missing or unreadable.
static bool read_line(const char *path, char *line, size_t room) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool good = fgets(line, (int)room, file) != NULL;
    fclose(file);
    if (good) line[strcspn(line, "\n")] = 0;
    return good;
}

static bool read_number(const char *text, uint64_t *out) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    return *end == 0 || *end == ' ';
}

// ---- one control group ----

static void lower_processors(machine_groups *g, double quota, double period) {
    if (!(quota > 0) || !(period > 0)) return;
    double processors = quota / period;
    if (g->processors == 0 || processors < g->processors) g->processors = processors;
}

static bool group_line(const char *directory, const char *name, char *line) {
    char path[PATH_BYTES + 64];
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path && read_line(path, line, LINE_BYTES);
}

static void take_memory(const char *directory, const char *name, machine_groups *g) {
    char line[LINE_BYTES];
    uint64_t bytes;
    if (group_line(directory, name, line) && read_number(line, &bytes) && bytes > 0 && bytes < g->memory_bytes) g->memory_bytes = bytes;
}

static void take_group_v2(const char *directory, machine_groups *g) {
    char line[LINE_BYTES];
    uint64_t quota, period = 0;
    const char *blank = group_line(directory, "cpu.max", line) ? strchr(line, ' ') : NULL;
    if (blank && read_number(line, &quota) && read_number(blank + 1, &period)) lower_processors(g, (double)quota, (double)period);
    take_memory(directory, "memory.max", g);
    take_memory(directory, "memory.high", g);
}

static void take_group_v1(const char *directory, machine_groups *g) {
    char line[LINE_BYTES];
    uint64_t quota, period;
    // no quota is -1
    bool some = group_line(directory, "cpu.cfs_quota_us", line) && read_number(line, &quota);
    if (some && group_line(directory, "cpu.cfs_period_us", line) && read_number(line, &period)) lower_processors(g, (double)quota, (double)period);
    take_memory(directory, "memory.limit_in_bytes", g);
}

// ---- where control groups are mounted ----

typedef struct group_mount {
    bool v2;
    char inside[PATH_BYTES];  // the control group that is mounted at `point`
    char point[PATH_BYTES];
    char options[512];        // v1: the mount options name the controllers
} group_mount;

// mountinfo writes blanks and backslashes of paths as three octal digits.
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from; to++) {
        bool octal = *from == '\\' && strspn(from + 1, "01234567") >= 3;
        *to = octal ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
        from += octal ? 4 : 1;
    }
    *to = 0;
}

static bool mount_read(const char *line, group_mount *out) {
    char kind[32];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", out->inside, out->point) != 2) return false;
    if (sscanf(rest, " - %31s %*s %511s", kind, out->options) != 2) return false;
    unescape(out->inside);
    unescape(out->point);
    out->v2 = strcmp(kind, "cgroup2") == 0;
    return out->v2 || strcmp(kind, "cgroup") == 0;
}

// True if a comma-separated list contains the word.
static bool list_has(const char *list, const char *word, size_t length) {
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == 0 || at[length] == ',' || at[length] == ':')) return true;
    return false;
}

// The path of a line such as "4:memory:/a/b" or "0::/a/b" in /proc/self/cgroup, if the line belongs
// to this mount; else NULL.
static const char *path_in_mount(const char *line, const group_mount *m) {
    const char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) return NULL;
    names++;
    if (m->v2) return names == path ? path + 1 : NULL;
    const char *wanted[] = {"cpu", "memory"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        size_t length = strlen(wanted[i]);
        if (list_has(names, wanted[i], length) && list_has(m->options, wanted[i], length)) return path + 1;
    }
    return NULL;
}

// Collects the limits of the group and of its parents up to the mount's own group. A group outside
// this mount (another namespace) is read at the mount's own path, where containers see their
// limits.
static void take_groups(const char *root, const group_mount *m, const char *path, machine_groups *g) {
    char directory[2 * PATH_BYTES];
    size_t inside = strcmp(m->inside, "/") == 0 ? 0 : strlen(m->inside);
    bool below = strncmp(path, m->inside, inside) == 0 && (path[inside] == '/' || path[inside] == 0) && !strstr(path, "/..");
    int least = snprintf(directory, sizeof directory, "%s%s", root, m->point);
    if (least < 0 || least + PATH_BYTES >= (int)sizeof directory) return;
    if (below) snprintf(directory + least, sizeof directory - (size_t)least, "%s", path + inside);
    for (;;) {
        if (m->v2) take_group_v2(directory, g);
        else take_group_v1(directory, g);
        char *slash = strrchr(directory, '/');
        if (!slash || slash < directory + least) return;
        *slash = 0;
    }
}

static void take_mount(const char *root, const group_mount *m, machine_groups *g) {
    char path[PATH_BYTES], line[LINE_BYTES];
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path) return;
    FILE *file = fopen(path, "re");
    if (!file) {
        take_groups(root, m, "/", g);
        return;
    }
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        const char *its = path_in_mount(line, m);
        if (its && strlen(its) < PATH_BYTES) take_groups(root, m, its, g);
    }
    fclose(file);
}

// The standard mount points, for systems without a list of mounts in /proc.
static void take_usual_places(const char *root, machine_groups *g) {
    static const group_mount usual[] = {
        {.v2 = true, .inside = "/", .point = "/sys/fs/cgroup"},
        {.inside = "/", .point = "/sys/fs/cgroup/cpu", .options = "cpu"},
        {.inside = "/", .point = "/sys/fs/cgroup/memory", .options = "memory"},
    };
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        take_mount(root, &usual[i], g);
        take_groups(root, &usual[i], "/", g);
    }
}

void machine_read_groups(const char *root, machine_groups *out) {
    char path[PATH_BYTES], line[LINE_BYTES];
    group_mount m;
    bool found = false;
    *out = (machine_groups){.memory_bytes = UINT64_MAX};
    if (snprintf(path, sizeof path, "%s/proc/self/mountinfo", root) >= (int)sizeof path) return;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (!mount_read(line, &m)) continue;
        found = true;
        take_mount(root, &m, out);
    }
    if (file) fclose(file);
    if (!found) take_usual_places(root, out);
}

// ---- this process ----

// The mask grows: the call refuses a mask that is smaller than the machine's number of processors.
static unsigned processors_allowed(void) {
    for (int most = 1024; most <= MOST_PROCESSORS; most *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        if (!set) return 0;
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return (unsigned)count;
    }
    return 0;
}

// The soft limit, from a getrlimit call that returned `code`.
static uint64_t limit_of(int code, const struct rlimit *limit) { return code != 0 || limit->rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit->rlim_cur; }

static uint64_t files_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return UINT64_MAX;
    rlim_t wanted = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > MACHINE_MOST_FILES ? MACHINE_MOST_FILES : limit.rlim_max;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted) return limit.rlim_cur;
    struct rlimit higher = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &higher) == 0 ? wanted : limit.rlim_cur;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void facts_read(machine_facts *f) {
    long present = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *f = (machine_facts){.present = present > 0 ? (unsigned)present : 1, .allowed = processors_allowed()};
    f->physical_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    struct rlimit space, data;
    int space_code = getrlimit(RLIMIT_AS, &space), data_code = getrlimit(RLIMIT_DATA, &data);
    f->rlimit_bytes = least(limit_of(space_code, &space), limit_of(data_code, &data));
    f->files = files_raise();
}

void machine_decide(const machine_facts *facts, const machine_groups *groups, machine *out) {
    unsigned present = facts->present > 0 ? facts->present : 1;
    *out = (machine){.processors = present, .present = present, .memory_bytes = facts->physical_bytes, .files = facts->files, .files_by = MACHINE_RLIMIT};
    if (facts->allowed > 0 && facts->allowed < out->processors) {
        out->processors = facts->allowed;
        out->processors_by = MACHINE_AFFINITY;
    }
    if (groups->processors > 0 && groups->processors < (double)out->processors) {
        unsigned whole = (unsigned)(groups->processors + 0.5);
        if (whole < out->processors) out->processors_by = MACHINE_CGROUP;
        out->processors = whole < 1 ? 1 : whole;
    }
    if (groups->memory_bytes < out->memory_bytes) {
        out->memory_bytes = groups->memory_bytes;
        out->memory_by = MACHINE_CGROUP;
    }
    if (facts->rlimit_bytes < out->memory_bytes) {
        out->memory_bytes = facts->rlimit_bytes;
        out->memory_by = MACHINE_RLIMIT;
    }
}

void machine_look(machine *out) {
    machine_facts facts;
    machine_groups groups;
    facts_read(&facts);
    machine_read_groups("", &groups);
    machine_decide(&facts, &groups, out);
}

static const char *by_text(machine_limit by, const char *rlimit) {
    return by == MACHINE_AFFINITY ? " (affinity mask)" : by == MACHINE_CGROUP ? " (control group)" : by == MACHINE_RLIMIT ? rlimit : "";
}

static void processors_text(const machine *m, char *text, size_t room) {
    if (m->processors_by == MACHINE_WHOLE) snprintf(text, room, "%u processor%s", m->processors, m->processors == 1 ? "" : "s");
    else snprintf(text, room, "%u of %u processors%s", m->processors, m->present, by_text(m->processors_by, ""));
}

void machine_describe(const machine *m, char text[MACHINE_TEXT]) {
    char processors[64], memory[64] = "memory without a known limit", files[64] = "open files without a limit";
    double bytes = (double)m->memory_bytes;
    bool large = bytes >= 1024.0 * 1024 * 1024;
    processors_text(m, processors, sizeof processors);
    if (m->memory_bytes != UINT64_MAX)
        snprintf(memory, sizeof memory, "%.1f %s of memory%s", large ? bytes / (1024.0 * 1024 * 1024) : bytes / (1024.0 * 1024), large ? "GiB" : "MiB",
                 by_text(m->memory_by, " (ulimit -v or -d)"));
    if (m->files != UINT64_MAX) snprintf(files, sizeof files, "%llu open files (ulimit -n)", (unsigned long long)m->files);
    snprintf(text, MACHINE_TEXT, "%s, %s, %s", processors, memory, files);
}

unsigned machine_files_open(void) {
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;
    if (!directory) return USUAL_FILES;
    while (readdir(directory)) count++;
    closedir(directory);
    return count > 3 ? count - 3 : 0;  // ".", ".." and the directory itself
}

// proc(5): the second number of statm is resident pages.
uint64_t machine_resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long resident = 0;
    long page = sysconf(_SC_PAGESIZE);
    if (!file) return 0;
    if (fscanf(file, "%*u %llu", &resident) != 1 || page < 0) resident = 0;
    fclose(file);
    return resident * (uint64_t)page;
}
