#include "cli/adapter_flags.h"

#include <stdlib.h>
#include <string.h>

braid_err adapter_flags_read(adapter_flags *f, const option_list *given, uint32_t most, braid_error *error) {
    size_t bytes = 1;
    *f = (adapter_flags){0};
    if (given->count > most)
        return braid_fail(error, BRAID_CONFIG, "--adapter: %u adapters are too many; give at most %u", given->count,
                          most);
    for (uint32_t i = 0; i < given->count; i++) bytes += strlen(given->item[i]) + 1;
    char *at = f->names = malloc(bytes);
    if (!at) return braid_fail(error, BRAID_MEMORY, "no memory for the names of adapters");
    for (uint32_t i = 0; i < given->count; i++) {
        strcpy(at, given->item[i]);
        char *equals = strchr(at, '=');
        if (!equals || equals == at || !equals[1])
            return braid_fail(error, BRAID_CONFIG, "--adapter %.200s: give NAME=DIRECTORY", given->item[i]);
        *equals = 0;
        f->place[f->count++] = (adapter_place){at, equals + 1};
        at += strlen(given->item[i]) + 1;
    }
    return BRAID_OK;
}

void adapter_flags_close(adapter_flags *f) {
    free(f->names);
    *f = (adapter_flags){0};
}
