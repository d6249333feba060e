// State that all routing algorithms share: neighbours, and messages that wait for the end of a
// step. Private to src/routing.
#ifndef BRAID_ROUTING_ROUTER_INTERNAL_H
#define BRAID_ROUTING_ROUTER_INTERNAL_H

#include "base/rng.h"
#include "routing/core/router.h"

#define ROUTER_NEVER INT64_MAX

// A bump allocator. With base NULL it only counts.
typedef struct router_arena {
    char *base;
    size_t used;
    // size of the prefix that must be zeroed; 0: router_arena_skip_zero has not been called
    size_t zero;
} router_arena;

void *router_arena_take(router_arena *a, size_t bytes);
// Memory taken from now on is written before it is read. In a large swarm zeroing all of it takes
// long.
static inline void router_arena_skip_zero(router_arena *a) {
    if (a->zero == 0) a->zero = a->used;
}

typedef struct router_neighbour {
    router_peer peer;  // 0: free
    int64_t cost;
} router_neighbour;

// A queued message. Long contents (a label, a cycle) are read from the state when the message is
// sent.
typedef struct router_outgoing {
    router_peer to;
    uint8_t kind, side, why, k;
    uint16_t position, on_path;
    uint32_t units, taken_back, scale, turn, plan, attempts;
    uint32_t extra;  // free for the algorithm
    uint64_t epoch;
    int64_t cost;
    router_token token;
} router_outgoing;

// Fields that every message touches come first: in a large simulation each cache line is cold.
struct router {
    int64_t now, deadline;
    uint32_t count[ROUTER_SIDES];
    uint64_t bits[ROUTER_SIDES];  // union of the neighbours' router_bit: rejects most other peers
    // neighbours, their costs or the capacity changed since the algorithm looked
    bool terms_changed;
    bool in_order[ROUTER_SIDES];  // slots are in the order of the peers: `order` is the identity
    // the peers, rising: results do not depend on the order of arrival
    router_peer *sorted[ROUTER_SIDES];
    uint16_t *order[ROUTER_SIDES];  // slot of each of them
    router_neighbour *slot[ROUTER_SIDES];
    router_outgoing *queue;
    uint32_t queue_count, queue_next, queue_max;
    bool flush;           // the step is over: messages may be sent
    router_peer last_to;  // receiver of the current frame
    bool is_source;
    uint64_t moves;      // router_moves
    uint64_t loaded_at;  // `moves` when rules_load was computed
    uint32_t rules_load;
    bool settled_known, rules_settled;       // cached result of rules->settled
    uint32_t commodities;                    // a data peer has only its own
    router_peer source[ROUTER_MAX_SOURCES];  // data peer of commodity k
    rng random;
    router_config config;
    const struct router_rules *rules;
};

// An algorithm. Its state begins with a struct router.
typedef struct router_rules {
    size_t state_bytes;
    void (*lay_out)(router *r, const router_config *config, router_arena *a);  // r NULL: only count
    void (*init)(router *r);
    // slots; -1: not a neighbour on that side
    void (*receive)(router *r, const router_message *m, int previous, int next, int same);
    void (*tick)(router *r);
    void (*link_up)(router *r, router_side side, uint32_t slot);
    // the neighbour is still in the table and removed afterwards
    void (*link_gone)(router *r, router_peer peer);
    // false: the message is obsolete
    bool (*compose)(router *r, const router_outgoing *from, router_message *out);
    uint32_t (*units)(const router *r, router_unit *units, uint32_t max);
    uint32_t (*load)(const router *r);
    bool (*link_busy)(const router *r, router_side side, router_peer peer);
    bool (*settled)(const router *r);
    uint32_t (*queue_max)(const router_config *config);
} router_rules;

// router_bytes and router_init for a configuration that router_config_is_valid.
bool router_config_is_valid(const router_config *config);
size_t router_bytes_for(const router_rules *rules, const router_config *config);
router *router_init_for(const router_rules *rules, void *memory, const router_config *config, int64_t now);

// A hash to one of 64 bits, so that a word is a Bloom filter for a set of peers.
static inline uint64_t router_bit(router_peer peer) { return (uint64_t)1 << (peer * 0x9e3779b9u >> 26); }

static inline void router_want(router *r, int64_t at) {
    if (at < r->deadline) r->deadline = at;
}

bool router_names_source(const router_config *config, router_peer peer);
int router_find_slot(const router *r, router_side side, router_peer peer);
int router_commodity(const router *r, router_peer source);
// Appends a message to the queue; only `to` and `kind` are set.
router_outgoing *router_post(router *r, router_peer to, router_kind kind);
// The last queued message of this kind to that peer about commodity k; NULL: there is none.
router_outgoing *router_waiting(router *r, router_peer to, router_kind kind, uint32_t k);
static inline int router_slot(const router *r, router_side side, router_peer peer) {
    return (r->bits[side] & router_bit(peer)) == 0 ? -1 : router_find_slot(r, side, peer);
}
void router_add_unit(router_unit *units, uint32_t max, uint32_t *n, router_unit unit);

// The slot of the peer at that place in rising order.
static inline uint32_t router_slot_at(const router *r, uint32_t side, uint32_t place) {
    return r->in_order[side] ? place : r->order[side][place];
}

#define EACH_NEIGHBOUR(r, side, slot)     \
    for (uint32_t slot##_i = 0, slot = 0; \
         slot##_i < (r)->count[side] && (slot = router_slot_at(r, (uint32_t)(side), slot##_i), true); slot##_i++)

#endif
