// The places of --adapter NAME=DIRECTORY, which may be repeated.
#ifndef BRAID_CLI_ADAPTER_FLAGS_H
#define BRAID_CLI_ADAPTER_FLAGS_H

#include "cli/options.h"
#include "serve/adapters.h"

typedef struct adapter_flags {
    uint32_t count;
    adapter_place place[ADAPTERS_MOST];
    char *names;  // memory of their texts
} adapter_flags;

// Close with adapter_flags_close, also after a failure. BRAID_CONFIG: more than `most` <= ADAPTERS_MOST.
braid_err adapter_flags_read(adapter_flags *f, const option_list *given, uint32_t most, braid_error *error);
void adapter_flags_close(adapter_flags *f);

#endif
