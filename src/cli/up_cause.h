// The likely cause of a process's death, and its remedy.
#ifndef BRAID_CLI_UP_CAUSE_H
#define BRAID_CLI_UP_CAUSE_H

#include <stdint.h>

enum { CAUSE_TEXT = 320 };

// Of the control group that this process is in (cgroups 2 or 1).
typedef struct cause_memory {
    uint64_t limit;      // bytes, UINT64_MAX: none is known
    uint64_t oom_kills;  // so far; 0 where the system does not say
} cause_memory;

// `self`: /proc/self/cgroup, `root`: where the hierarchies are mounted, /sys/fs/cgroup.
void cause_memory_read(const char *self, const char *root, cause_memory *out);

// "was ended by signal 9 (SIGKILL), most likely ...". `complaint`: the last line on its standard error, "": none. `oom`: the
// kernel ended a process of this group for want of memory meanwhile.
void cause_text(int64_t status, int signal_number, const char *complaint, const cause_memory *memory, int oom, char text[CAUSE_TEXT]);

#endif
