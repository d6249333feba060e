#include "cli/node_shadow.h"

#include "cli/own_child.h"
#include "node/address.h"

#include <signal.h>

typedef struct shadow_texts {
    char beside[2 * BRAID_ID_BYTES + 1];
    char listen[WIRE_MAX_ADDRESS], public_address[WIRE_MAX_ADDRESS];
} shadow_texts;

static void add_addresses(own_child_arguments *a, const node_shadow *shadow, shadow_texts *texts) {
    if (!address_beside(shadow->listen, shadow->public_address, texts->listen, texts->public_address)) return;
    own_child_text(a, "--listen", texts->listen);
    if (texts->public_address[0]) own_child_text(a, "--public-address", texts->public_address);
}

static void arguments_fill(const node_shadow *shadow, const braid_id *beside, own_child_arguments *a,
                           shadow_texts *texts) {
    own_child_begin(a, "node");
    own_child_add(a, "--json");
    own_child_text(a, "--join", shadow->ticket);
    id_hex(beside->bytes, BRAID_ID_BYTES, texts->beside);
    own_child_text(a, "--beside", texts->beside);
    own_child_text(a, "--state-dir", shadow->state_directory);
    own_child_text(a, "--from", shadow->from);
    add_addresses(a, shadow, texts);
    own_child_duration(a, "--patience", shadow->patience_ns);
    own_child_number(a, "--threads", shadow->threads);
    own_child_number(a, "--capacity", shadow->capacity);
    own_child_number(a, "--max-memory", shadow->max_memory);
}

braid_err node_shadow_start(const node_shadow *shadow, const braid_id *beside, braid_error *error) {
    own_child_arguments a;
    shadow_texts texts;
    pid_t pid;
    arguments_fill(shadow, beside, &a, &texts);
    signal(SIGCHLD, SIG_IGN);  // the exit status is not used
    return own_child_start(&a, "the standby replica", &pid, NULL, error);
}
