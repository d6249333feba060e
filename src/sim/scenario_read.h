// Shared by the files that read a scenario. Private to src/sim/scenario*.c.
#ifndef BRAID_SIM_SCENARIO_READ_H
#define BRAID_SIM_SCENARIO_READ_H

#include "format/yaml.h"
#include "sim/scenario.h"

enum {
    SCENARIO_MAX_KEYS = 24,   // keys of one map
    SCENARIO_MAX_WHERE = 64,  // "peers[relay]"
};

typedef struct scenario_reader {
    const yaml *file;
    const char *base_dir;  // NULL: the text may name no other files
    scenario *s;
    braid_error *error;
    uint64_t up_bps, down_bps, line_ns;         // defaults for machines without their own values
    // microbatches of each data peer; 0: the run's description gives the total
    uint32_t own_microbatches;
    const yaml_node *peers_node, *stages_node;  // for messages
} scenario_reader;

// The type of one key of a map and of its destination. Numbers have bounds in the unit of the file.
typedef enum scenario_kind {
    KEY_NAME,     // char[SCENARIO_MAX_NAME]: a name
    KEY_COUNT,    // uint32_t
    KEY_SEED,     // uint64_t
    KEY_SHARE,    // double
    KEY_MS,       // uint64_t nanoseconds, in milliseconds
    KEY_SECONDS,  // uint64_t nanoseconds, in seconds
    KEY_MBPS,     // uint64_t bits per second, in megabits per second
    KEY_GIGA,     // double, in thousands of millions
    KEY_SWITCH,   // bool
    KEY_NODE,     // const yaml_node *, which the caller reads
} scenario_kind;

typedef struct scenario_key {
    const char *name;
    scenario_kind kind;
    void *into;  // keeps its value when the key is not given
    double least, most;
} scenario_key;

// Reads a map of these keys and no others; `where` is its name in messages, "" for the file itself.
braid_err scenario_read_keys(const scenario_reader *r, const yaml_node *map, const char *where,
                             const scenario_key *keys, size_t count);
// Calls `read` for every item of a list of maps, at most `most` of them.
typedef braid_err (*scenario_item_fn)(scenario_reader *r, const yaml_node *item, uint32_t index);
braid_err scenario_read_list(scenario_reader *r, const yaml_node *node, const char *where, uint32_t most,
                             scenario_item_fn read);
// "list[name]", or "list[3]" for an item without a name.
void scenario_where(const yaml_node *item, const char *list, uint32_t index, char where[SCENARIO_MAX_WHERE]);
// The whole text of another file that `node` names, relative to the scenario; the caller frees it.
// `path`, SCENARIO_MAX_PATH bytes, is its name for messages.
enum { SCENARIO_MAX_PATH = 1024 };
braid_err scenario_read_file(const scenario_reader *r, const yaml_node *node, const char *name,
                             char path[SCENARIO_MAX_PATH], char **text, size_t *length);
// The number of a place.
braid_err scenario_read_place(const scenario_reader *r, const yaml_node *node, const char *name, uint16_t *place);
// A name, or a list of names, of peers, groups, machines and places: adds all peers that are meant.
braid_err scenario_read_who(const scenario_reader *r, const yaml_node *node, const char *name, scenario_set *out);
// The peer of that name, or UINT32_MAX; `near` is then the nearest name, or NULL.
uint32_t scenario_find_peer(const scenario *s, const char *name, const char **near);

static inline void scenario_set_add(scenario_set *set, uint32_t peer) {
    set->word[peer / 64] |= (uint64_t)1 << (peer % 64);
}

// The sections of a file, in the order in which they are read.
braid_err scenario_read_model(scenario_reader *r, const yaml_node *model, const yaml_node *stages);
braid_err scenario_read_machines(scenario_reader *r, const yaml_node *node);
braid_err scenario_read_peers(scenario_reader *r, const yaml_node *node);
braid_err scenario_read_link_defaults(scenario_reader *r, const yaml_node *node);
braid_err scenario_read_links(scenario_reader *r, const yaml_node *node);
braid_err scenario_read_churn(scenario_reader *r, const yaml_node *node);

#endif
