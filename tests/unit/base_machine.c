// Limits of control groups, read from fabricated /proc and /sys trees, and the resources that a
// process may use under them.
#include "base/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define V2_MOUNT   "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_CPU     "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_MEMORY  "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define V1_SYSTEMD "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
#define HYBRID_V2  "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define ROOT_DISK  "23 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
#define MEBI       ((uint64_t)1 << 20)

enum { MOST_FILES = 10 };

typedef struct row {
    const char *what;
    double processors;
    uint64_t memory;
    struct {
        const char *path, *text;
    } file[MOST_FILES];
} row;

static const row rows[] = {
    {"no /proc and no /sys", 0, UINT64_MAX, {{0}}},
    {"v2, the group's own", 1.5, 512 * MEBI,
     {{"proc/self/mountinfo", ROOT_DISK V2_MOUNT}, {"proc/self/cgroup", "0::/a.slice/b\n"},
      {"sys/fs/cgroup/a.slice/b/cpu.max", "150000 100000\n"}, {"sys/fs/cgroup/a.slice/b/memory.max", "536870912\n"}}},
    {"v2, a tighter parent", 2, 256 * MEBI,
     {{"proc/self/mountinfo", V2_MOUNT}, {"proc/self/cgroup", "0::/a/b/c\n"},
      {"sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n"}, {"sys/fs/cgroup/a/cpu.max", "200000 100000\n"}, {"sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/a/b/c/memory.max", "max\n"}, {"sys/fs/cgroup/a/b/memory.high", "268435456\n"}, {"sys/fs/cgroup/a/memory.max", "536870912\n"}}},
    {"v2, all of it max", 0, UINT64_MAX,
     {{"proc/self/mountinfo", V2_MOUNT}, {"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/a/memory.max", "max\n"}, {"sys/fs/cgroup/a/memory.high", "max\n"}}},
    {"v2, a group of its own at the mount (a container)", 0.5, 64 * MEBI,
     {{"proc/self/mountinfo", V2_MOUNT}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "50000 100000\n"}, {"sys/fs/cgroup/memory.max", "67108864\n"}}},
    {"v2, moved out of its namespace", 3, UINT64_MAX,
     {{"proc/self/mountinfo", V2_MOUNT}, {"proc/self/cgroup", "0::/../other\n"}, {"sys/fs/cgroup/cpu.max", "300000 100000\n"}}},
    {"v2, only the container's part is mounted", 1, UINT64_MAX,
     {{"proc/self/mountinfo", "31 23 0:28 /docker/f00 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"}, {"proc/self/cgroup", "0::/docker/f00/inner\n"},
      {"sys/fs/cgroup/inner/cpu.max", "400000 100000\n"}, {"sys/fs/cgroup/cpu.max", "100000 100000\n"}}},
    {"v2, the path is not below the mount", 1, UINT64_MAX,
     {{"proc/self/mountinfo", "31 23 0:28 /docker/f00 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"}, {"proc/self/cgroup", "0::/docker/f00d\n"}, {"sys/fs/cgroup/cpu.max", "100000 100000\n"}}},
    {"v1", 2.5, 128 * MEBI,
     {{"proc/self/mountinfo", V1_SYSTEMD V1_CPU V1_MEMORY}, {"proc/self/cgroup", "9:name=systemd:/x\n4:memory:/m/n\n2:cpu,cpuacct:/c\n"},
      {"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "250000\n"}, {"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/memory/m/memory.limit_in_bytes", "134217728\n"}, {"sys/fs/cgroup/memory/m/n/memory.limit_in_bytes", "9223372036854771712\n"}}},
    {"v1 without a quota", 0, UINT64_MAX,
     {{"proc/self/mountinfo", V1_CPU}, {"proc/self/cgroup", "2:cpu,cpuacct:/c\n"}, {"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n"}}},
    {"v1, a controller with a similar name", 0, UINT64_MAX,
     {{"proc/self/mountinfo", "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"}, {"proc/self/cgroup", "3:cpuset:/c\n"},
      {"sys/fs/cgroup/cpuset/c/cpu.cfs_quota_us", "1000\n"}, {"sys/fs/cgroup/cpuset/c/cpu.cfs_period_us", "100000\n"}}},
    {"hybrid", 1, 32 * MEBI,
     {{"proc/self/mountinfo", V1_CPU V1_MEMORY HYBRID_V2}, {"proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/c\n0::/u\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n"}, {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/memory/m/memory.limit_in_bytes", "67108864\n"}, {"sys/fs/cgroup/unified/u/memory.max", "33554432\n"}}},
    {"nothing is said to be mounted", 4, UINT64_MAX, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "400000 100000\n"}}},
    {"a mount with a blank in its name", 1, UINT64_MAX,
     {{"proc/self/mountinfo", "31 23 0:28 / /sys/fs/my\\040groups rw - cgroup2 none rw\n"}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/my groups/cpu.max", "100000 100000\n"}}},
    {"garbage", 0, UINT64_MAX,
     {{"proc/self/mountinfo", "x\n\n - \n31 23 0:28 - cgroup2\n" V2_MOUNT}, {"proc/self/cgroup", "\n:\n::\nabc\n0:/a\n0::/a\n"},
      {"sys/fs/cgroup/a/cpu.max", "fast 1\n"}, {"sys/fs/cgroup/a/memory.max", "-5 MiB\n"}, {"sys/fs/cgroup/cpu.max", "100000 0\n"}, {"sys/fs/cgroup/memory.max", "0\n"}}},
};

static void write_file(const char *root, const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0777);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void remove_tree(const char *root) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void groups_of_fabricated_machines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char root[] = "/tmp/base_machine.XXXXXX";
        machine_groups found;
        assert_non_null(mkdtemp(root));
        for (size_t f = 0; f < MOST_FILES && rows[i].file[f].path; f++) write_file(root, rows[i].file[f].path, rows[i].file[f].text);
        machine_read_groups(root, &found);
        remove_tree(root);
        if (found.processors != rows[i].processors || found.memory_bytes != rows[i].memory)
            fail_msg("%s: %g processors and %llu bytes", rows[i].what, found.processors, (unsigned long long)found.memory_bytes);
    }
}

static machine decide(machine_facts facts, machine_groups groups) {
    machine m;
    machine_decide(&facts, &groups, &m);
    return m;
}

static void the_tightest_limit_holds(void **state) {
    (void)state;
    const machine_facts free_machine = {.present = 192, .allowed = 192, .physical_bytes = 1000, .rlimit_bytes = UINT64_MAX, .files = 1024};
    machine_facts bound = free_machine;
    machine m = decide(free_machine, (machine_groups){.memory_bytes = UINT64_MAX});
    assert_true(m.processors == 192 && m.processors_by == MACHINE_WHOLE && m.memory_bytes == 1000 && m.memory_by == MACHINE_WHOLE);
    bound.allowed = 4;
    m = decide(bound, (machine_groups){.processors = 8, .memory_bytes = 999});
    assert_true(m.processors == 4 && m.processors_by == MACHINE_AFFINITY && m.memory_bytes == 999 && m.memory_by == MACHINE_CGROUP);
    bound.rlimit_bytes = 500;
    m = decide(bound, (machine_groups){.processors = 2, .memory_bytes = 999});
    assert_true(m.processors == 2 && m.processors_by == MACHINE_CGROUP && m.memory_bytes == 500 && m.memory_by == MACHINE_RLIMIT);
    bound.allowed = 0;  // the system has no figure
    assert_int_equal(decide(bound, (machine_groups){.memory_bytes = UINT64_MAX}).processors, 192);
    assert_int_equal(decide((machine_facts){0}, (machine_groups){.memory_bytes = UINT64_MAX}).processors, 1);
}

static void a_quota_becomes_whole_processors(void **state) {
    (void)state;
    static const struct {
        double quota;
        unsigned processors;
    } cases[] = {{0.01, 1}, {0.5, 1}, {1, 1}, {1.4, 1}, {1.5, 2}, {2.6, 3}, {7.9, 8}, {8, 8}, {1e12, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        machine_facts facts = {.present = 8, .allowed = 8, .physical_bytes = 1, .rlimit_bytes = 1, .files = 1};
        assert_int_equal(decide(facts, (machine_groups){.processors = cases[i].quota, .memory_bytes = UINT64_MAX}).processors, cases[i].processors);
    }
}

static void the_limiting_source_is_named(void **state) {
    (void)state;
    char text[MACHINE_TEXT];
    machine m = {.processors = 1, .present = 192, .memory_bytes = (uint64_t)3 << 30, .files = 1024, .processors_by = MACHINE_AFFINITY, .memory_by = MACHINE_CGROUP, .files_by = MACHINE_RLIMIT};
    machine_describe(&m, text);
    assert_string_equal(text, "1 of 192 processors (affinity mask), 3.0 GiB of memory (control group), 1024 open files (ulimit -n)");
    m = (machine){.processors = 2, .present = 2, .memory_bytes = UINT64_MAX, .files = UINT64_MAX};
    machine_describe(&m, text);
    assert_string_equal(text, "2 processors, memory without a known limit, open files without a limit");
}

static void limits_of_this_process(void **state) {
    (void)state;
    machine m;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit low = {.rlim_cur = 40, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    machine_look(&m);
    assert_in_range(m.processors, 1, m.present);
    assert_true(m.memory_bytes > 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(low.rlim_cur, limit.rlim_max < MACHINE_MOST_FILES ? limit.rlim_max : MACHINE_MOST_FILES);
    assert_int_equal(m.files, low.rlim_cur);
    unsigned before = machine_files_open();
    int fd = dup(0);
    assert_int_equal(machine_files_open(), before + 1);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_fabricated_machines), cmocka_unit_test(the_tightest_limit_holds), cmocka_unit_test(a_quota_becomes_whole_processors),
        cmocka_unit_test(the_limiting_source_is_named),       cmocka_unit_test(limits_of_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
