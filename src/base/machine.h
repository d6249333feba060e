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
    MACHINE_WHOLE,     // nothing but the machine itself
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

// Limits of this process's control groups and of all groups above them.
typedef struct machine_groups {
    double processors;      // quota over period; 0: none
    uint64_t memory_bytes;  // UINT64_MAX: none
} machine_groups;

// `root` stands before the paths /proc and /sys ("" on a real machine, a directory in tests). Files
// that are missing or malformed limit nothing.
void machine_read_groups(const char *root, machine_groups *out);
// A quota is rounded to whole processors, halves up, and never below one.
void machine_decide(const machine_facts *facts, const machine_groups *groups, machine *out);
// Both, of this process. The first call raises the soft limit on open files to the hard one, at
// most MACHINE_MOST_FILES.
void machine_look(machine *out);
// "1 of 192 processors (affinity mask), 3.0 GiB of memory (control group), 1024 open files (ulimit
// -n)".
void machine_describe(const machine *m, char text[MACHINE_TEXT]);
// Open files of this process now.
unsigned machine_files_open(void);

#endif
