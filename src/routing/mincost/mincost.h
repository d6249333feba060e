// Decentralised minimum-cost flow: the state of one peer (docs/routing.md).
//
// The algorithm cancels negative cycles of the residual graph (Klein 1967). Peers find cycles with
// distance labels (mincost_labels.c) and apply each cycle with a two-phase commit
// (mincost_cycle_commit.c).
//
// Each link counter has one owner, the upstream peer (mincost_downstream.units). The downstream peer
// keeps a mirror (mincost_upstream.units) that only the owner's messages set. It returns units by
// cumulative counts, so that no message is counted twice. Excess (more inflow than outflow) and deficit
// are derived from the counters in each step and never queued.
//
// This folder knows nothing of maps and plans. The planner (src/routing/plan) extends this struct and
// controls it through mincost_phase.
#ifndef BRAID_ROUTING_MINCOST_H
#define BRAID_ROUTING_MINCOST_H

#include "base/err.h"
#include "routing/core/router_internal.h"

enum {
    MINCOST_MAX_RESERVATIONS = 32,                        // held at once for commits; a LOCK beyond that is aborted
    MINCOST_MULTI_SOURCE_RELAYS = ROUTER_PLANNED_RELAYS,  // relays of the largest run that several data peers plan
    MINCOST_PLAN_ATTEMPTS = 2,                            // staged plans that may fail on one map
    MINCOST_RECENT_LABELS = 8,                            // own labels remembered to detect flapping
    MINCOST_FREE_FLAPS = 3,                               // repetitions before the hold-down grows
    MINCOST_MAX_FLAPS = MINCOST_FREE_FLAPS + 5,
    MINCOST_COARSE_DELAYS = 40,  // age up to which a router ignores small gains, in delays
    MINCOST_MATURE_DELAYS = 80,  // delays after that until a router is mature
};

#define MINCOST_UNIT_VALUE            ((int64_t)1 << 40)  // gain of one more unit: above the cost of any cycle
#define MINCOST_UNIT_VALUE_BOTTLENECK ((int64_t)1 << 50)  // gain of one more unit with the bottleneck objective
#define MINCOST_DEFICIT               (-((int64_t)1 << 37))  // distance that a peer in deficit advertises, to be filled first
#define MINCOST_INFINITY              ((int64_t)1 << 56)     // distance without a path
#define MINCOST_COUNTER_MODULUS       ((uint32_t)1 << 31)    // cumulative counters of a link wrap here
#define MINCOST_NO_BID                ((int64_t)0)           // no alternative path is known
#define MINCOST_RESEND                (-((int64_t)1 << 57))  // forces the next advert, whatever it says
#define MINCOST_RECOMPUTE             INT64_MIN              // mincost_arc.cost: not cacheable
#define MINCOST_NEVER                 INT64_MIN              // a "since" time: the condition does not hold

enum { MINCOST_SEND_LABEL, MINCOST_SEND_EMPTY };  // outgoing.extra of a LABEL: the label, or an empty one
enum { MINCOST_QUERY_EPOCH = 2 };                 // router_message.why of a QUERY that announces an epoch
// router_message.why of a FLOW.
enum { MINCOST_PUSHED, MINCOST_RETURNED, MINCOST_CANCELLED, MINCOST_APPLIED, MINCOST_REFUSED, MINCOST_BID = 6 };

// A distance label: the cheapest residual path from a split node. Its cost is at most 0 (the empty path).
typedef struct mincost_label {
    int64_t cost;
    uint32_t length;           // split nodes on the path
    uint32_t neighbour_steps;  // steps of a received label over neighbours of this peer (mincost_stale.c)
    uint64_t owner_bits;       // router_bit of each peer on the path: a Bloom filter with one hash
    router_node *node;         // [label_limit] the path
    int64_t *at;               // [label_limit] cost from each node of the path to its end
    int64_t since;             // time of receipt or of the last change
} mincost_label;

// One commodity on the link from a previous neighbour. Fields that searches read of all links at once are
// in arrays of their own: mincost_arc, mincost_sent_label, mincost_advert.
typedef struct mincost_upstream {
    mincost_label label;                // label of the neighbour's out node
    int32_t units;                      // mirror of the owner's counter
    uint32_t returned, returned_acked;  // units returned in total, and acknowledged (MINCOST_COUNTER_MODULUS)
    int32_t removing;                   // removals committed here that the owner has not confirmed
    int32_t reserved;                   // units that commits will remove
    int64_t label_sent_at;              // last LABEL to that neighbour
    int64_t bid;                        // path cost beyond which the neighbour moves its units elsewhere
    uint32_t epoch;                     // last announced by the neighbour (commodity 0)
    int32_t active;                     // units of the active flow while a plan is staged
    uint32_t map_sent;                  // map entries up to this sequence number were sent (plan/mincost_map.c)
    bool map_sent_own;                  // ... of this peer's own entry only
} mincost_upstream;

// One commodity on the link to a next neighbour.
typedef struct mincost_downstream {
    mincost_label label;  // label of the neighbour's in node
    int32_t units;        // the counter, owned by this peer
    int32_t owed;         // returns not yet carried out
    int32_t reserved;     // units that commits will remove
    int64_t bid_sent;
    int64_t virtual_time;      // virtual time of weighted greedy routing
    uint32_t returned_done;    // returns carried out in total (MINCOST_COUNTER_MODULUS)
    uint32_t epoch;            // last announced by the neighbour (commodity 0)
    int32_t adding;            // units that commits will add
    int32_t active;            // units of the active flow while a plan is staged
    uint16_t scale, heaviest;  // bottleneck objective: the neighbour's steps (mincost_bottleneck.c)
} mincost_downstream;

// The part of a link that a search reads. It reads the link itself only if this shows that it may count.
typedef struct mincost_arc {
    // Cost of the path that continues with the link's label, before epsilon; or MINCOST_RECOMPUTE.
    int64_t cost;
    int64_t since;  // time since which that label is unchanged; ROUTER_NEVER: it does not settle
} mincost_arc;

// The label last sent to a neighbour: the in node's to a previous one, the out node's to a next one.
typedef struct mincost_sent_label {
    uint64_t hash;  // hash of the label; 0: the empty one
    int64_t cost;
    int64_t changed_since;  // the label differs from the one sent; MINCOST_NEVER: it does not
    int64_t floor;          // settled cost of the out node upstream: that label stays at or below it
    bool has_path;          // the sent label had more than its first node
} mincost_sent_label;

// Contents of an ADVERT: received from a next neighbour, or last sent to a previous one.
typedef struct mincost_advert {
    int64_t distance;  // distance to the sink through peers with room
    int32_t room;      // units that the sender would accept
    uint32_t scale;    // sent ones: mincost_scale_word
} mincost_advert;

// How a negative cycle enters and leaves a peer.
typedef enum mincost_entry { MINCOST_STARTS, MINCOST_FROM_PREVIOUS, MINCOST_FROM_NEXT } mincost_entry;
typedef enum mincost_exit { MINCOST_ENDS, MINCOST_TO_NEXT, MINCOST_TO_PREVIOUS } mincost_exit;

// A participant's reservation: a run of this peer's split nodes on a cycle that is being committed.
typedef struct mincost_reservation {
    router_token token;
    uint8_t k;
    uint8_t entry, exit;   // mincost_entry, mincost_exit
    bool adds, drops;      // the cycle passes in -> out (one unit more through here), out -> in (one less)
    uint16_t first, last;  // positions on the cycle
    uint16_t length;
    router_peer before, after;  // neighbours on the cycle; 0: none
    int32_t units;
    int64_t lease;  // expiry
    router_node cycle[ROUTER_MAX_CYCLE];
} mincost_reservation;

// A removal of inflow, committed here and not yet confirmed by the owner of the counter.
typedef struct mincost_removal {
    router_token token;
    uint16_t position;
    uint8_t k;
    uint16_t slot;
    int32_t units;
} mincost_removal;

// Visits each bit of a set, as it was at the start, in rising order.
#define EACH_OF(set, i)                                                                                    \
    for (uint32_t i##_left = (set), i = 0; i##_left != 0 && (i = (uint32_t)__builtin_ctz(i##_left), true); \
         i##_left &= i##_left - 1)
_Static_assert(MINCOST_MAX_RESERVATIONS == 32, "reservations and removals have a bit for each");

// Result and inputs of the last label search. While the inputs are unchanged a search would find the same.
typedef struct mincost_search_cache {
    bool known;
    bool room, settled, mature;  // inputs that no invalidation covers
    uint32_t settle_count;
    int64_t epsilon;
    int64_t until;     // a label may settle then
    uint64_t watched;  // peers with labels that may contradict a considered path (router_bit)
    struct {
        router_peer direct, through;  // first hops of the best paths on that side
        int64_t direct_cost, through_cost;
    } best[2];  // best paths of each side
} mincost_search_cache;

// Label updates still to send, as of the last time this peer sent any.
typedef enum mincost_update_state {
    MINCOST_UPDATES_UNKNOWN,
    MINCOST_NO_URGENT_UPDATES,  // no distance has risen
    MINCOST_NO_UPDATES          // none before quiet_until, nor before the router becomes mature
} mincost_update_state;

typedef struct mincost_commodity {
    // Read when a label arrives.
    mincost_search_cache cache;
    bool arcs_valid;    // mincost_arc of all links
    bool sums_valid;    // inflow, outflow and `carries`
    bool cancelled;     // the deficit was announced by a CANCELLED: waiting would not help
    bool adverts_sent;  // no advert is due until something changes
    bool quiet_mature;  // the router was mature when quiet_until was computed
    mincost_update_state updates;
    int32_t inflow, outflow;  // sums of the links' counters
    int64_t quiet_until;
    int64_t blocked_since, deficit_since;  // excess without a path; deficit. MINCOST_NEVER: none
    // Written by searches.
    mincost_label in, out;        // labels of this peer's split nodes
    int64_t in_floor, out_floor;  // settled costs: these hold without a path to show for them
    uint64_t in_hash, out_hash;
    router_peer in_next_hop, out_next_hop;  // next hops of those labels, kept on ties
} mincost_commodity;

// Orders of the planner to this layer.
typedef struct mincost_phase {
    int64_t epoch_since;     // start of the current epoch; of a single source: of this router
    int64_t dispatch_until;  // planned units may be under way until then; MINCOST_NEVER: none were sent
    uint32_t plan_attempts;  // staged plans still allowed: while there are any, small gains are ignored
    uint32_t cuts;           // next neighbours lost while they carried units
    bool staged;             // the counters are those of a staged plan; another flow is active
    bool started;            // units and labels may flow (runs that plan first)
    bool decentralised;      // no data peer re-optimises: all peers search for cycles
} mincost_phase;

// Two-phase commit of cycles (mincost_cycle_commit.c).
typedef struct mincost_commit {
    int64_t back_off_until;
    int32_t adding, removing;         // load that reservations will add and remove
    int32_t incoming, outgoing;       // own cycle, committed and on its way back: inflow to come, outflow to go
    uint32_t reservations, removals;  // used entries of the two arrays below, a bit each
    uint32_t serial, failures;        // own commits in total, and failures in a row
    bool own_active;                  // an own cycle is being committed; one at a time
    bool cycle_waiting;               // a negative cycle is known, and own_active or the back-off blocks it
    uint8_t own_commodity;
    mincost_reservation *reservation;  // [MINCOST_MAX_RESERVATIONS]
    mincost_removal *removal;          // [MINCOST_MAX_RESERVATIONS]
} mincost_commit;

// Rate limits of label updates and adverts (mincost_adverts.c).
typedef struct mincost_updates {
    int64_t next_at;        // hold-down
    int64_t adverts_until;  // distances are advertised until then: flow is being built nearby
    uint32_t flaps;
    uint32_t recent_next;
    uint64_t recent[MINCOST_RECENT_LABELS];  // hashes of own labels
} mincost_updates;

// Placement of the first units, and repairs (mincost_auction.c). MINCOST_NEVER: has not happened.
typedef struct mincost_auction {
    int64_t first_placed_at, last_placed_at;  // units pushed to this peer or returned to it
    int64_t repair_began_at, repair_step_at;  // latest repair nearby: its first and last step
} mincost_auction;

// The bottleneck objective (mincost_bottleneck.c): steps of a logarithmic scale.
typedef struct mincost_bottleneck {
    uint16_t scale;     // scale that all peers use
    uint16_t heaviest;  // heaviest load from here to the sink
} mincost_bottleneck;

typedef struct mincost {
    router r;
    // Fields that most ticks read come first: in a large simulation each cache line of a router is cold.
    mincost_upstream *upstream;      // [commodity * max_neighbours + slot]
    mincost_downstream *downstream;  // same order
    mincost_arc *arc;                // [(commodity * 2 + side) * max_neighbours + slot], and the next three
    mincost_sent_label *sent;
    mincost_advert *advert;
    bool *carries;      // units, when the sums were computed
    char *path_memory;  // nodes and costs of all labels, own labels first
    mincost_commodity *commodity;
    uint32_t label_limit;      // nodes in a label; 0: greedy
    int64_t mean_cost;         // mean cost of this peer's links at the last tick
    uint64_t balanced_at;      // router_moves at which nothing was left to balance; 0: something is
    uint32_t settle_count;     // labels settled since links, counters or the mean cost changed here
    bool minimise_bottleneck;  // objective: a unit's cost depends on how many units the link carries
    bool mature;               // mincost_is_mature
    bool greedy;               // swarm: no labels, no commits; a unit takes the cheapest next link
    mincost_phase phase;
    mincost_updates updates;
    mincost_commit commit;
    mincost_auction auction;
    mincost_bottleneck bottleneck;
} mincost;

// --- Tables --------------------------------------------------------------------------------------

static inline mincost_upstream *upstream_of(const mincost *mc, uint32_t k, uint32_t slot) {
    return &mc->upstream[k * mc->r.config.max_neighbours + slot];
}
static inline mincost_downstream *downstream_of(const mincost *mc, uint32_t k, uint32_t slot) {
    return &mc->downstream[k * mc->r.config.max_neighbours + slot];
}
static inline mincost_label *label_from(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return side == ROUTER_NEXT ? &downstream_of(mc, k, slot)->label : &upstream_of(mc, k, slot)->label;
}
static inline size_t link_at(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return (size_t)(k * 2 + (uint32_t)side) * mc->r.config.max_neighbours + slot;
}
static inline mincost_arc *arc_of(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return &mc->arc[link_at(mc, k, side, slot)];
}
static inline mincost_sent_label *sent_of(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return &mc->sent[link_at(mc, k, side, slot)];
}
static inline mincost_advert *advert_of(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return &mc->advert[link_at(mc, k, side, slot)];
}
static inline bool has_room(const mincost_advert *a) { return a->room > 0 && a->distance < MINCOST_INFINITY; }
static inline int64_t link_cost(const mincost *mc, router_side side, uint32_t slot) {
    return mc->r.slot[side][slot].cost;
}
static inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

// --- Invalidation --------------------------------------------------------------------------------

static inline void invalidate_commodity(mincost *mc, uint32_t k) {
    mc->commodity[k].cache.known = false;
    mc->commodity[k].updates = MINCOST_UPDATES_UNKNOWN;
    mc->commodity[k].adverts_sent = false;
    mc->r.moves++;
}
// A counter of the commodity's links has changed.
static inline void invalidate_sums(mincost *mc, uint32_t k) {
    mc->commodity[k].sums_valid = false;
    invalidate_commodity(mc, k);
}
// Links, their costs, reservations or the rules for updates have changed.
static inline void mincost_invalidate(mincost *mc) {
    for (uint32_t k = 0; k < mc->r.commodities; k++) invalidate_commodity(mc, k);
}

// --- Modes ---------------------------------------------------------------------------------------

// Several data peers share relays here.
static inline bool mincost_is_multi_source(const router_config *c) {
    return c->source_count > 1 && c->algorithm == ROUTER_MINCOST;
}
// Data peers compute an initial plan (plan/mincost_initial.c); only with the objective sum.
static inline bool mincost_plans_first(const router_config *c) {
    return c->plan_first && c->algorithm == ROUTER_MINCOST && c->objective == ROUTER_SUM;
}
// A single source re-optimises on its map, so that no peer sends labels. Irrelevant before the run starts.
static inline bool mincost_is_centralised(const mincost *mc) {
    return !mc->phase.decentralised && mincost_plans_first(&mc->r.config) && !mincost_is_multi_source(&mc->r.config);
}
// Neither units nor labels may flow yet, only maps and adverts.
static inline bool mincost_is_waiting(const mincost *mc) {
    return !mc->phase.started && mincost_plans_first(&mc->r.config);
}
// Up to this time a single source ignores small gains.
static inline int64_t mincost_coarse_until(const mincost *mc) {
    return mc->phase.epoch_since + MINCOST_COARSE_DELAYS * mc->r.config.delay;
}
// The router is old enough to send fewer updates.
static inline bool mincost_compute_mature(const mincost *mc) {
    return !mc->minimise_bottleneck && !mincost_is_multi_source(&mc->r.config) &&
           mc->r.now >= mincost_coarse_until(mc) + MINCOST_MATURE_DELAYS * mc->r.config.delay;
}
// The same, as computed at the beginning of this tick.
static inline bool mincost_is_mature(const mincost *mc) {
#ifdef BRAID_CHECKED
    BRAID_ASSERT(mc->mature == mincost_compute_mature(mc));
#endif
    return mc->mature;
}

// mincost_phase.c
void mincost_start(mincost *mc);           // ends mincost_is_waiting
bool mincost_is_dispatching(mincost *mc);  // planned units may be under way: free room may be meant for them
void mincost_note_cut(mincost *mc);        // a next neighbour was lost, or units left their planned path
void mincost_note_deviation(mincost *mc);  // a unit cannot follow its planned path

// --- Ledger: counters of units (mincost_ledger.c) ------------------------------------------------

// Units returned that the owner of the counter has not acknowledged.
static inline int32_t mincost_unacked_returns(const mincost_upstream *u) {
    return (int32_t)((u->returned - u->returned_acked) % MINCOST_COUNTER_MODULUS);
}
// Effective inflow of a link, at least 0. A unit that both left by itself and is to be removed by a commit
// or a return counts twice here; the owner refuses the second removal.
static inline int32_t mincost_inflow(const mincost *mc, uint32_t k, uint32_t slot) {
    const mincost_upstream *u = upstream_of(mc, k, slot);
    return most(0, u->units - mincost_unacked_returns(u) - u->removing);
}
// The part of it that no commit has reserved.
static inline int32_t mincost_free_inflow(const mincost *mc, uint32_t k, uint32_t slot) {
    return mincost_inflow(mc, k, slot) - upstream_of(mc, k, slot)->reserved;
}
// Outflow of a link that is neither reserved nor owed.
static inline int32_t mincost_free_outflow(const mincost *mc, uint32_t k, uint32_t slot) {
    const mincost_downstream *d = downstream_of(mc, k, slot);
    return d->units - d->reserved - d->owed;
}
void mincost_update_sums(const mincost *mc, uint32_t k);  // makes `carries` valid until a counter changes
int32_t mincost_excess(const mincost *mc, uint32_t k);    // inflow less outflow
int32_t mincost_total_in(const mincost *mc, uint32_t k);
int32_t mincost_total_out(const mincost *mc, uint32_t k);
int32_t mincost_load(const mincost *mc);
int32_t mincost_active_load(const mincost *mc);  // load of the active flow while a plan is staged
int32_t mincost_room(const mincost *mc);
bool mincost_is_settled(const mincost *mc);  // no reservation, excess, debt or unacknowledged return
router_outgoing *mincost_post_flow(mincost *mc, uint32_t k, uint32_t slot, uint8_t why);
void mincost_return_units(mincost *mc, uint32_t k, uint32_t slot, int32_t units);
void mincost_settle_returns(mincost *mc, uint32_t k, uint32_t slot);
void mincost_on_flow(mincost *mc, uint32_t k, uint32_t slot, const router_message *m);
void mincost_on_deny(mincost *mc, uint32_t k, uint32_t slot, const router_message *m);
// Takes over the owner's counts; false: they are impossible.
bool mincost_accept_counts(mincost *mc, uint32_t k, uint32_t slot, uint32_t units, uint32_t taken_back);
void mincost_return_overflow(mincost *mc, uint32_t k, uint32_t slot, int32_t arrived);
void mincost_enforce_capacity(mincost *mc);
// Enforces the capacity and gives up passing units after it was lowered.
void mincost_fit_capacity(mincost *mc);
void mincost_balance(mincost *mc);
bool mincost_wants_augmenting_path(const mincost *mc);
// Distance to the sink over that link.
int64_t mincost_distance_over(const mincost *mc, uint32_t k, uint32_t slot);
void mincost_ledger_deadlines(mincost *mc);
uint32_t mincost_units(const router *r, router_unit *units, uint32_t max);

// --- Costs (mincost_costs.c, mincost_bottleneck.c) -----------------------------------------------

int64_t mincost_mean_cost(const mincost *mc);  // mean cost of this peer's links, at least 1
void mincost_update_mean(mincost *mc);
int64_t mincost_coarse_epsilon(const mincost *mc);
// Load of a link with `more` additional units.
int64_t mincost_link_load(const mincost *mc, router_side side, uint32_t slot, int32_t more);
int64_t mincost_bottleneck_increase(const mincost *mc, uint32_t slot);
int64_t mincost_bottleneck_decrease(const mincost *mc, router_side side, uint32_t slot);
int64_t mincost_bottleneck_epsilon(const mincost *mc);
void mincost_update_scale(mincost *mc);
uint32_t mincost_scale_word(const mincost *mc);
void mincost_on_scale(mincost_downstream *d, uint32_t word);

// Cost of one more unit to a next neighbour.
static inline int64_t added_cost(const mincost *mc, uint32_t slot) {
    return mc->minimise_bottleneck ? mincost_bottleneck_increase(mc, slot) : link_cost(mc, ROUTER_NEXT, slot);
}
// Saving of one unit less on a link.
static inline int64_t saved_cost(const mincost *mc, router_side side, uint32_t slot) {
    return mc->minimise_bottleneck ? mincost_bottleneck_decrease(mc, side, slot) : link_cost(mc, side, slot);
}
// Gain of one more unit of a data peer.
static inline int64_t unit_value(const mincost *mc) {
    return mc->minimise_bottleneck ? MINCOST_UNIT_VALUE_BOTTLENECK : MINCOST_UNIT_VALUE;
}
// Gains up to this much for each link of a cycle are ignored (epsilon-optimality; Goldberg, Tarjan 1990).
static inline int64_t epsilon_of(const mincost *mc) {
    return mc->minimise_bottleneck ? mincost_bottleneck_epsilon(mc) : mincost_coarse_epsilon(mc);
}

// The message changes a counter or carries units, so it belongs to one flow version (plan/mincost_epochs.c).
static inline bool mincost_is_counting(router_kind kind) { return kind >= ROUTER_FLOW && kind <= ROUTER_WAY; }

// --- Distance labels (mincost_labels.c, mincost_stale.c) -----------------------------------------

int mincost_position_of(const mincost_label *label, router_node half);
// Position of a split node on the label's path; -1: it is not on it.
static inline int mincost_find_node(const mincost_label *label, router_node half) {
    return (label->owner_bits & router_bit(router_owner(half))) == 0 ? -1 : mincost_position_of(label, half);
}
// A neighbour on the label's path reports a higher cost than the label assumes (single source).
bool mincost_is_stale(const mincost *mc, mincost_label *far);
// Computes both labels of commodity k. Returns the length of the most negative cycle found; 0: none.
uint32_t mincost_update_labels(mincost *mc, uint32_t k, router_node cycle[ROUTER_MAX_CYCLE]);
uint64_t mincost_label_hash(const mincost_label *label);
// The label of `peer` on that side was replaced; `was`: the old one.
void mincost_label_received(mincost *mc, uint32_t k, router_side side, uint32_t slot, router_peer peer,
                            const mincost_label *was);

// --- Updates to neighbours (mincost_adverts.c) ---------------------------------------------------

void mincost_send_updates(mincost *mc);
void mincost_send_urgent(mincost *mc);  // risen distances only, during the hold-down

// --- Auction of places (mincost_auction.c) -------------------------------------------------------

bool mincost_auction_open(const mincost *mc);
void mincost_note_placed(mincost *mc);
void mincost_skip_auction(mincost *mc);
void mincost_note_repair(mincost *mc);
bool mincost_labels_held(mincost *mc);
// Own bid for a place at that next neighbour.
int64_t mincost_bid(const mincost *mc, uint32_t k, uint32_t slot);
int mincost_lowest_bid(const mincost *mc, uint32_t k);  // slot of a previous neighbour; -1: no unit is free
// Places that a higher bid can take; adds their price to the distance.
int32_t mincost_auction_offer(const mincost *mc, uint32_t k, int64_t *distance);
bool mincost_is_outbid(const mincost *mc, uint32_t k, int64_t distance, int *lowest);
bool mincost_update_bid(mincost *mc, uint32_t k, uint32_t slot);

// --- Two-phase commit of cycles (mincost_cycle_commit.c) -----------------------------------------

void mincost_begin_commit(mincost *mc, uint32_t k, const router_node *cycle, uint32_t length);
void mincost_on_lock(mincost *mc, const router_message *m);
void mincost_on_commit(mincost *mc, const router_message *m, int previous, int next);
void mincost_on_abort(mincost *mc, const router_message *m);
void mincost_commit_link_gone(mincost *mc, router_peer peer);
void mincost_expire_reservations(mincost *mc);
void mincost_release_additions(mincost *mc);
void mincost_release_inflow(mincost *mc, uint32_t k, int32_t units);
void mincost_drop_reservations(mincost *mc);
void mincost_end_removal(mincost *mc, const mincost_removal *g);  // confirmed, or its link is gone
mincost_reservation *mincost_find_reservation(mincost *mc, router_token token, uint32_t first);

bool mincost_link_busy(const router *r, router_side side, router_peer peer);  // mincost_busy.c

#endif
