// braid tune MODEL --join TICKET: this machine as a member of a run that trains an adapter.
#ifndef BRAID_CLI_TUNE_JOIN_H
#define BRAID_CLI_TUNE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tune_join_flags {
    const char *ticket, *model;
    uint64_t threads, max_memory;  // 0: the default
    bool json;
} tune_join_flags;

// The status of the process.
int tune_join(const tune_join_flags *flags);

#endif
