// What the routing algorithms share: neighbours, and messages that wait for the end of a step. Only src/routing needs this.
#ifndef BRAID_ROUTING_INSIDE_H
#define BRAID_ROUTING_INSIDE_H

#include "base/foresee.h"
#include "base/rng.h"
#include "routing/core/router.h"

#define ROUTER_NEVER INT64_MAX

// Memory handed out piece by piece; with base NULL only counted.
typedef struct arena {
    char *base;
    size_t used;
    size_t zero;  // bytes that must be 0 in the beginning; 0: arena_need_no_zero has not been called yet
} arena;

void *arena_take(arena *a, size_t bytes);
// What is taken from now on is written before it counts what is in it: in a large swarm clearing it all takes long.
static inline void arena_need_no_zero(arena *a) {
    if (a->zero == 0) a->zero = a->used;
}

typedef struct neighbour {
    router_peer peer;  // 0: free
    int64_t cost;
} neighbour;

// A message that waits. What is long (a label, a cycle) is read from the state when the message leaves.
typedef struct outgoing {
    router_peer to;
    uint8_t kind, side, why, k;
    uint16_t position;
    uint32_t units, taken_back;
    uint32_t extra;  // the algorithm's own
    int64_t cost;
    router_token token;
} outgoing;

// What every message needs comes first: in a large simulation each line of memory is far away.
struct router {
    int64_t now, deadline;
    uint32_t count[ROUTER_SIDES];
    uint64_t bits[ROUTER_SIDES];        // of the peers there: most others have none of these
    bool terms_changed;                 // neighbours, their costs or what I may carry, since the algorithm took note
    bool in_order[ROUTER_SIDES];        // the slots rise with the peers: `order` says nothing new
    router_peer *sorted[ROUTER_SIDES];  // the peers, rising: nothing depends on who came first
    uint16_t *order[ROUTER_SIDES];      // the slots in which they are
    neighbour *slot[ROUTER_SIDES];
    outgoing *queue;
    uint32_t queue_count, queue_next, queue_max;
    bool flush;           // the step is over: messages may leave
    router_peer last_to;  // of the frame that is leaving
    bool is_source;
    uint64_t moves;      // router_moves
    uint64_t loaded_at;  // `moves` when the rules said what the load is
    uint32_t rules_load;
    bool settled_known, rules_settled;  // what the rules say, since nothing has happened
    uint32_t commodities;                    // a data peer knows only its own
    router_peer source[ROUTER_MAX_SOURCES];  // of commodity k
    rng random;
    router_config config;
    const struct router_rules *rules;
};

// One algorithm. Its state begins with a struct router.
typedef struct router_rules {
    size_t state_bytes;
    void (*lay_out)(router *r, const router_config *config, arena *a);  // r NULL: count only
    void (*init)(router *r);
    void (*receive)(router *r, const router_message *m, int previous, int next, int same);  // slots, -1: is none
    void (*tick)(router *r);
    void (*link_up)(router *r, router_side side, uint32_t slot);
    void (*link_gone)(router *r, router_peer peer);                         // still in the table; removed afterwards
    bool (*compose)(router *r, const outgoing *from, router_message *out);  // false: no longer worth sending
    uint32_t (*units)(const router *r, router_unit *units, uint32_t max);
    uint32_t (*load)(const router *r);
    bool (*link_busy)(const router *r, router_side side, router_peer peer);
    bool (*settled)(const router *r);
    uint32_t (*queue_max)(const router_config *config);
    void (*foresee)(const router *r, bool tick);  // these may be NULL
    void (*foresee_tick)(const router *r);
    void (*foresee_link)(const router *r, router_side side, uint32_t slot);
} router_rules;

// router_bytes and router_init for a configuration that router_config_is_valid.
bool router_config_is_valid(const router_config *config);
size_t router_bytes_for(const router_rules *rules, const router_config *config);
router *router_init_for(const router_rules *rules, void *memory, const router_config *config, int64_t now);

// One of 64, so that a set of peers fits a word, and most who are not in it can be told by that.
static inline uint64_t router_bit(router_peer peer) { return (uint64_t)1 << (peer * 0x9e3779b9u >> 26); }

static inline void router_want(router *r, int64_t at) {
    if (at < r->deadline) r->deadline = at;
}

bool router_names_source(const router_config *config, router_peer peer);
int router_find_slot(const router *r, router_side side, router_peer peer);
int router_commodity(const router *r, router_peer source);
// A place for a message; only `to` and `kind` are set.
outgoing *router_post(router *r, router_peer to, router_kind kind);
// The last waiting message of this kind to that peer about commodity k; NULL if there is none.
outgoing *router_waiting(router *r, router_peer to, router_kind kind, uint32_t k);
static inline int router_slot(const router *r, router_side side, router_peer peer) {
    return (r->bits[side] & router_bit(peer)) == 0 ? -1 : router_find_slot(r, side, peer);
}
void router_add_unit(router_unit *units, uint32_t max, uint32_t *n, router_unit unit);

// The slot of the peer that is at that place when they rise.
static inline uint32_t router_slot_at(const router *r, uint32_t side, uint32_t place) { return r->in_order[side] ? place : r->order[side][place]; }

#define EACH_NEIGHBOUR(r, side, slot)               \
    for (uint32_t slot##_i = 0, slot = 0;           \
         slot##_i < (r)->count[side] && (slot = router_slot_at(r, (uint32_t)(side), slot##_i), true); slot##_i++)

#endif
