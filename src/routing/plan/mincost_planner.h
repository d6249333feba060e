// Planning on a map of the run: state and functions that extend the min-cost algorithm (docs/routing.md).
//
// Peers send descriptions of themselves upstream, so that each data peer holds a map of the run. On it a
// data peer computes whole paths: for a single source exactly (single_source.h), for several by search
// (multi_source.h). The paths are dispatched at the start of a run (mincost_initial.c), staged later in
// an epoch protocol (mincost_staged.c, mincost_epochs.c), or corrected cycle by cycle
// (mincost_reoptimise.c). A mincost_planner begins with a struct mincost, as that begins with a router.
#ifndef BRAID_ROUTING_MINCOST_PLANNER_H
#define BRAID_ROUTING_MINCOST_PLANNER_H

#include "routing/mincost/mincost.h"
#include "routing/plan/multi_source.h"
#include "routing/plan/single_source.h"

enum {
    MINCOST_SMALL_RUN = 128,               // relays: up to this many forward the map redundantly (mincost_map.c)
    MINCOST_SINGLE_SOURCE_RELAYS = 65536,  // relays of the largest run that a single source plans
    MINCOST_EPOCHS_PER_FLOW = 1 << 9,      // epochs of one flow version at most (mincost_epochs.c)
    MINCOST_MAP_LINKS = 64,                // links in a peer's own entry
    MINCOST_MAP_BURST = 4,                 // MAP messages to one neighbour in a delay
    // Words of a data peer's map for each relay: an entry with 16 links, and spare words.
    MINCOST_MAP_WORDS_PER_RELAY = 48,
    MINCOST_MAP_WORDS_SINGLE = 8192,  // of a relay's map: about 16 forwarded entries, at worst 200.
                                      // Very uneven stages need more; then re-optimisation is impossible
    MINCOST_MAP_WORDS_MULTI = 24576,  // the same with several data peers, enough for all relays of a plan:
                                      // two relays of a small stage forward all entries
    MINCOST_PATH_WORDS = 1024,        // words of paths and cycle proposals that wait to be sent
    MINCOST_PROPOSED = 4,             // cycle proposals that a data peer remembers (mincost_reoptimise.c)
};

#define MINCOST_LAST_EPOCH ((uint32_t)1 << 30)
#define MINCOST_LAST_PLAN  ((uint32_t)INT32_MAX)

// Positions of the peers' entries in a map, by hash, and a search for reachable peers (mincost_reach.c).
typedef struct mincost_map_index {
    uint32_t table;   // size, a power of two
    uint64_t salt;    // secret salt of the hash: invented peers cannot be chosen to collide
    uint32_t *place;  // [table] 1 + first word of the entry; 0: free
    uint32_t *queue;  // first words of reachable entries
    uint32_t head, tail;
    uint64_t *reached;  // a bit for each word of the map
} mincost_map_index;

// The map of the run as this peer knows it (mincost_map.c).
typedef struct mincost_map {
    uint32_t used, limit;  // words
    uint32_t sequence;     // number of the latest entry stored
    uint32_t max_relays;   // larger runs are not mapped
    int64_t send_at;       // ROUTER_NEVER: all entries were sent
    int64_t changed_at;
    uint32_t version;         // number of changes of the contents, at least 1
    uint32_t pruned_version;  // version at the last prune
    uint32_t closed_version;  // version at the last test for completeness, and its result:
    bool complete;
    bool suspended;           // the run was larger than max_relays
    bool has_loads;           // entries say what links carry (single source)
    mincost_map_index index;  // index of a data peer's map; place NULL: a relay scans its few entries
    uint32_t *word;
} mincost_map;

// Epochs (mincost_epochs.c).
typedef struct mincost_epochs {
    uint32_t epoch;
    uint32_t plan;  // number of the plan that the epoch is about; 0: none
    int64_t neighbours_changed_at;
    bool announce;          // some neighbours may not know the epoch
    bool has_active;        // the active flow was saved when the plan was staged
    bool at_rest;           // a data peer: nothing is under way, and all units sent arrive
    int64_t at_rest_since;  // time since which at_rest holds, or does not hold
    int32_t rested_units;   // sent at that time
    int32_t staged_demand;  // demand of this data peer when the plan was staged
} mincost_epochs;

// Plans of a data peer and their dispatch (mincost_staged.c).
typedef struct mincost_staged {
    uint32_t map_version;             // version of the map that was last planned on
    uint32_t plan;                    // number of the plan found on it; 0: none
    int64_t active_value;             // cost of the active paths on that map; -1: some are gone
    bool worthwhile;                  // the plan is better than the active paths by enough
    uint32_t tried, attempts;         // plan last tried, attempts left
    uint32_t *path_word, path_words;  // paths and proposals that wait to be sent
} mincost_staged;

// The initial plan (mincost_initial.c).
typedef struct mincost_initial {
    bool dispatching;    // a single source: planned units are left to send
    int64_t open_since;  // a data peer: the first stage has room; MINCOST_NEVER: it has none
} mincost_initial;

// Central re-optimisation by a single source (mincost_reoptimise.c).
typedef struct mincost_reopt {
    uint32_t map_version;                 // map.version and
    uint64_t moves;                       // router_moves at the last search
    int64_t search_again_at;              // ROUTER_NEVER: the last search found nothing
    uint32_t repeats;                     // searches that found an earlier cycle first, less those that did not
    uint64_t proposed[MINCOST_PROPOSED];  // hashes of the cycles found last
} mincost_reopt;

typedef struct mincost_planner {
    mincost mc;
    mincost_map *map;       // NULL: a single source without an initial plan
    multi_source *multi;    // planner of one of several data peers
    single_source *single;  // planner of the only data peer
    mincost_epochs epochs;
    mincost_initial initial;
    mincost_staged staged;
    mincost_reopt reopt;
} mincost_planner;

extern const router_rules mincost_rules;  // src/routing/mincost_router.c

// Peers exchange maps.
static inline bool mincost_has_map(const router_config *c) {
    return mincost_is_multi_source(c) || mincost_plans_first(c);
}

// There is a map, and the run is not too large for it.
static inline bool mincost_map_usable(const mincost_planner *pl) {
    return pl->map != NULL && pl->mc.r.config.relays <= pl->map->max_relays;
}

static inline int64_t mincost_map_changed_at(const mincost_planner *pl) {
    return mincost_map_usable(pl) ? pl->map->changed_at : pl->mc.r.now;
}

// --- Map (mincost_map.c)
void mincost_map_tick(mincost_planner *pl);
void mincost_map_link_up(mincost_planner *pl, router_side side);
void mincost_map_link_gone(mincost_planner *pl, bool previous);
void mincost_on_map(mincost_planner *pl, const router_message *m);
void mincost_map_compose(const mincost_planner *pl, const router_outgoing *from, router_message *out);
mincost_map *mincost_map_lay_out(const router_config *c, router_arena *a);
size_t mincost_single_source_bytes(const router_config *c);
single_source *mincost_single_source_init(const router_config *c, void *memory);

// --- Reachability and what plans read (mincost_reach.c)
void mincost_map_prune(mincost_planner *pl);     // removes entries that no link leads to
bool mincost_map_complete(mincost_planner *pl);  // a data peer: all reachable peers have entries, itself included
bool mincost_map_has_gap(mincost_planner *pl);   // a data peer: a reachable peer has no entry
// Passes all reachable entries to pl->multi, or to pl->single, by rising peers; false: too many.
bool mincost_map_load_multi(mincost_planner *pl);
bool mincost_map_load_single(mincost_planner *pl, bool loads);  // `loads`: with the units on links, if all are known

// --- Plans and staged plans (mincost_staged.c)
void mincost_plan(mincost_planner *pl);
int32_t mincost_planned_units(const mincost_planner *pl);  // planned units of this data peer
void mincost_send_plan(mincost_planner *pl);
bool mincost_send_single_plan(mincost_planner *pl);  // sends as many units as fit; true: units are left
uint32_t *mincost_take_path_words(mincost_planner *pl, uint32_t words);
void mincost_on_path(mincost_planner *pl, uint32_t k, uint32_t slot, const router_message *m);
void mincost_compose_path(const mincost_planner *pl, const router_outgoing *from, router_message *out);

// --- Epochs (mincost_epochs.c)
bool mincost_commits_paused(const mincost_planner *pl);
void mincost_epoch_tick(mincost_planner *pl);
void mincost_epoch_link_up(mincost_planner *pl, router_side side, uint32_t slot);
void mincost_epoch_link_gone(mincost_planner *pl, bool kept);
bool mincost_epoch_ignores(const mincost_planner *pl, int previous, int next);
void mincost_on_epoch(mincost_planner *pl, const router_message *m, int previous, int next);

// --- Initial plan (mincost_initial.c)
void mincost_initial_tick(mincost_planner *pl);
void mincost_initial_receive(mincost_planner *pl, const router_message *m);
void mincost_initial_link_up(mincost_planner *pl, uint32_t previous);
void mincost_decentralise(mincost_planner *pl);

// --- Central re-optimisation (mincost_reoptimise.c)
enum { MINCOST_PROPOSAL = 0xff };  // outgoing.why of a MAP that carries a cycle proposal downstream
static inline bool mincost_is_proposal(const router_outgoing *o) {
    return o->kind == ROUTER_MAP && o->why == MINCOST_PROPOSAL;
}
void mincost_reoptimise(mincost_planner *pl);
void mincost_on_proposal(mincost_planner *pl, const router_message *m);
void mincost_compose_proposal(const mincost_planner *pl, const router_outgoing *from, router_message *out);

#endif
