// The likely cause of a process's death, and its remedy.
#ifndef BRAID_CLI_UP_CAUSE_H
#define BRAID_CLI_UP_CAUSE_H

#include <stdint.h>

enum { CAUSE_TEXT = 320 };

// Memory limit of this process's control group (cgroups 2 or 1).
typedef struct cause_memory {
    uint64_t limit;      // bytes, UINT64_MAX: not known
    uint64_t oom_kills;  // count so far; 0 if the system does not provide it
} cause_memory;

// `self` is /proc/self/cgroup; `root` is the mount point of the hierarchies, /sys/fs/cgroup.
void cause_memory_read(const char *self, const char *root, cause_memory *out);

// Writes "was ended by signal 9 (SIGKILL), most likely ...". `complaint` is the last line on the
// child's standard error, "": none. `oom`: the kernel has meanwhile killed a process of this group
// because memory ran out.
void cause_text(int64_t status, int signal_number, const char *complaint, const cause_memory *memory, int oom, char text[CAUSE_TEXT]);

#endif
