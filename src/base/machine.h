// Processors, memory and open files that this process may use, and the limit that decides each.
//
// Sources: sched_getaffinity(2), getrlimit(2), cgroups(7); control groups v2
// (Documentation/admin-guide/cgroup-v2.rst: cpu.max, memory.max, memory.high) and v1
// (cpu.cfs_quota_us, memory.limit_in_bytes).
#ifndef BRAID_BASE_MACHINE_H
#define BRAID_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MACHINE_MOST_FILES = 65536, MACHINE_TEXT = 256 };

typedef enum machine_limit {
    MACHINE_WHOLE,     // no limit: the machine's own figure
    MACHINE_AFFINITY,  // taskset, cpuset
    MACHINE_CGROUP,
    MACHINE_RLIMIT,    // ulimit -v, -d or -n
} machine_limit;

typedef struct machine {
    unsigned processors;    // at least 1
    unsigned present;       // processors of the machine
    uint64_t memory_bytes;  // UINT64_MAX: unknown
    uint64_t files;         // open files at once
    machine_limit processors_by, memory_by, files_by;
} machine;

// Figures of the system calls, before control groups are read. Bytes and files without a limit are
// UINT64_MAX.
typedef struct machine_facts {
    unsigned present, allowed;
    uint64_t physical_bytes, rlimit_bytes, files;
} machine_facts;

// Limits of this process's control groups and of their parents.
typedef struct machine_groups {
    double processors;      // quota divided by period; 0: none
    uint64_t memory_bytes;  // UINT64_MAX: none
} machine_groups;

// `root` is put before the paths /proc and /sys ("" on a real machine, a directory in tests). A
// missing or malformed file sets no limit.
void machine_read_groups(const char *root, machine_groups *out);
// A quota is rounded to whole processors, halves up, and to at least one.
void machine_decide(const machine_facts *facts, const machine_groups *groups, machine *out);
// System calls and control groups of this process. The first call raises the soft limit on open
// files to the hard one, at most MACHINE_MOST_FILES.
void machine_look(machine *out);
// "1 of 192 processors (affinity mask), 3.0 GiB of memory (control group), 1024 open files (ulimit
// -n)".
void machine_describe(const machine *m, char text[MACHINE_TEXT]);
// Number of files that this process has open.
unsigned machine_files_open(void);
// Resident memory of this process in bytes, 0: not known.
uint64_t machine_resident_bytes(void);

#endif
