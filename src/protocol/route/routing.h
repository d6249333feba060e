// Routing in a peer: links between routers, partial views, link state, planned paths, and the
// functions that other parts call.
#ifndef BRAID_PROTOCOL_ROUTE_ROUTING_H
#define BRAID_PROTOCOL_ROUTE_ROUTING_H

#include "routing/core/pick.h"
#include "routing/core/measure.h"
#include "routing/core/router.h"
#include "routing/schedule/schedule.h"
#include "protocol/route/inflight.h"

enum {
    ROUTE_NEIGHBOURS = 16,          // of a relay's router on one side; in a larger stage its view chooses
    ROUTE_MAX_LINKS = 2 * WIRE_MAX_STAGE_MEMBERS,  // a data peer has all members of the first and of the last stage
    ROUTE_MAX_KNOWN = 3 * WIRE_MAX_STAGE_MEMBERS,  // candidates of a view, and members of the own stage
    ROUTE_MAX_UNITS = 512,          // entries of router_units that are read
    ROUTE_MAX_PATHS = 16,            // paths between two members that are compared
    ROUTE_MAX_FLOWS = 32,           // in one report to the user
};

// One end of a link between two routers (rule N4). It is up only while both ends know each other's
// session, so both forget what they learned over a lost session.
typedef struct route_link {
    member_id member;
    bool up;                  // the router has it as a neighbour
    bool broken;              // a frame was lost here: begin a new session
    uint32_t session, heard;  // of this end; of the other end, 0: not known
    uint32_t sent, got;       // newest sequence
    uint32_t told;            // cost of the link from there to here, as its upstream end names it
    uint32_t their_us;        // clock of the other end in its newest frame
    uint64_t their_ns;        // this clock when that frame came; 0: never
    uint64_t last_frame_ns;         // when the newest frame was sent
    measure_link measured;    // the link from here
    uint64_t taken_ns;        // when a tensor was last accepted
    uint16_t share[ROUTER_MAX_SOURCES];  // microbatches sent there in this iteration, by source
    int64_t home[ROUTER_MAX_SOURCES];       // cost from there to each data peer, as advertised; 0: not known
    int64_t home_sent[ROUTER_MAX_SOURCES];  // cost from here to each data peer, as sent to the other end
    int64_t hop_cost;         // cost of the hop by the best path, relayed ones included; 0: not computed yet
} route_link;

// Bandwidth of the link to any member, where tensors are large.
typedef struct link_bandwidth {
    member_id member;         // 0: none
    int64_t rate;             // bytes a second; 0: not known. From probes only: other traffic slows tensors down
    int64_t round_trip_ns;    // 0: not known
    uint32_t percent;         // time of relayed transfers in percent of the direct time, moving mean; 0: none yet
    uint64_t direct_until_ns;  // relaying gained nothing: direct transfers only until then
    uint32_t train;           // number of the probe under way; 0: none
    bool train_long;
    uint64_t probed_ns;      // 0: never
    uint32_t probes;       // number of answered probes
    uint32_t heard_train, heard_index, heard_bytes;  // state of the other end's probe
    uint64_t heard_since_ns;
} link_bandwidth;

typedef struct route_linkstate route_linkstate;  // route_linkstate.c

// A member that the view may choose as a neighbour, or of this peer's own stage.
typedef struct route_known {
    member_id member;         // 0: none
    uint16_t stage;
    uint64_t paid_ns;         // rate limit of its VIEW messages: more are ignored
    measure_link measured;    // used while it is no neighbour of the router
    uint32_t rate_out, rate_in;  // highest rates that it has reached, bytes per millisecond, from its VIEW; 0: none
    uint32_t rate_here;          // rate from it to this peer, from its VIEW
} route_known;

// At a data peer: planned paths of an iteration's microbatches on slow links (rule S4;
// routing/schedule/schedule.h).
typedef struct route_plan {
    uint64_t planned;  // 1 + the iteration of these paths
    bool found;
    message_ahead way[SCHEDULE_MAX_WAYS][SCHEDULE_MAX_STAGES + 1];  // by microbatch and stage, the owner last; the memory of the search follows
} route_plan;

typedef struct peer_routing {
    void *memory, *view_memory;
    route_plan *plan;         // NULL: not at a data peer
    struct view *view;        // NULL: all members are neighbours
    route_known *known;       // [ROUTE_MAX_KNOWN]
    uint32_t known_count;
    bool crowded[2];          // by side: that stage, or this one, has more members than a router may have neighbours
    router *router;           // NULL: this peer has no place in the routing
    uint64_t epoch;           // hash of the data peers
    bool stale;               // members or links changed since the neighbours were chosen
    bool serves;              // the state was complete once, so units may be assigned
    uint32_t sources;
    router_peer source[ROUTER_MAX_SOURCES];
    uint32_t links;
    route_link link[ROUTE_MAX_LINKS];
    uint32_t capacity, bound;  // units that it may have; after a reduction, units that it may still have
    uint64_t iteration;       // to which the links' `share` belongs
    uint64_t next_clock_ns;          // when the next frame is due on any link; 0: recompute
    uint64_t updated_ns;      // when costs and capacity were last updated
    uint64_t routed, unrouted;  // microbatches sent by units of flow, and by other rules
    uint64_t changes;         // number of changes of the flow so far
    uint64_t shape, told;     // hash of the present flow; of the last report, with costs
    uint64_t told_ns;
    route_linkstate *linkstate;   // NULL: tensors are small
    uint64_t probe_until_ns;  // when a probe under way counts as lost
    peer_flow flow[ROUTE_MAX_FLOWS];  // the last report
} peer_routing;

// ---- route.c: the router in this peer; route_link.c: its links; route_view.c: its neighbours ----
void route_tick(peer *p);
void on_route(peer *p, const message *msg);
// Rule N6. The member of the next stage for microbatch m by the units of flow; 0: no unit, or no
// such member can take it. `wait`: the planned member has no free slot now, and waiting for it is
// cheaper.
member_id route_pick(peer *p, uint32_t m, bool *wait);
void route_sent(peer *p, uint32_t m, member_id to, bool by_unit);
// A tensor that was sent at `sent_ns` was accepted there.
void route_taken(peer *p, member_id to, uint64_t bytes, uint64_t sent_ns);
size_t route_bytes(const peer_run *run, const peer_config *config);
int64_t route_cost_of(const route_link *l);
int64_t route_hop_cost(const route_link *l);
void route_look(const peer *p, peer_view *view);
void route_tell(peer *p);  // reports the flow when it is at rest and has changed
route_link *route_find(peer *p, member_id id);
void route_link_open(peer *p, route_link *l);  // a new session
void route_link_close(peer *p, route_link *l);
void route_links_tick(peer *p);
void route_send_clock(peer *p, route_link *l);  // an empty frame: session and clock
void route_flush(peer *p);
message_route *route_frame_begin(peer *p, const route_link *l);  // in p->core.scratch; add parts, then
void route_frame_send(peer *p, route_link *l);
// route_home.c
void route_home_advertise(peer *p);
void route_home_heard(peer *p, route_link *l, const route_part *part);
bool route_by_time(const peer *p);
member_id route_pick_by_time(const peer *p, uint32_t m, uint32_t source, int64_t *time);
int64_t route_time_by(const peer *p, const route_link *l, uint32_t source);
// route_linkstate.c
bool route_worth_probing(const peer_run *run);  // tensors are so large that a probe costs little beside them
size_t route_linkstate_bytes(const peer_run *run);
void route_probe_tick(peer *p);
// A forwarded tensor has arrived there; `expected_ns`: what the direct link would have taken.
void route_forwarded(peer *p, member_id to, uint64_t took_ns, uint64_t expected_ns);
void route_linkstate_advertise(peer *p);
void on_lines(peer *p, const message *msg);
const message_lines *route_linkstate_of(const peer *p, member_id of);  // as that peer advertised; NULL: nothing
uint64_t route_linkstate_cost(const peer *p, member_id from, member_id to);  // cost of a hop; a link of unknown bandwidth costs much
// The forwarder, other than `but`, by which a tensor arrives there sooner than directly; 0: none.
typedef struct route_forwarding {
    member_id by;
    int64_t us, direct_us;  // transfer times: relayed, and on the direct link
} route_forwarding;
int64_t route_queued_on_link(const peer *p, member_id to);  // number of this peer's tensors that occupy the link
route_forwarding route_forwarder(const peer *p, member_id to, member_id but);
// The planned choice: through `by`, or directly if that is `to`. False: the forwarder is not usable
// now.
bool route_forwarder_planned(const peer *p, member_id to, member_id by, route_forwarding *d);
// Paths from that member to this peer that can be used at the same time (rule A5): the direct
// transfer time in microseconds (0: not known), and up to `capacity` forwarders, the fastest first.
// Returns their number.
uint32_t route_paths_from(const peer *p, member_id from, int64_t *direct_us, route_forwarding *path, uint32_t capacity);
uint64_t route_round_trip(const peer *p, member_id to);  // 0: not known
int64_t route_best_hop(const peer *p, const route_link *l);  // cost of the hop by the best paths in both directions
uint16_t route_pieces(const peer *p);  // number of pieces of a relayed tensor
void on_sound(peer *p, const message *msg);
void on_sounded(peer *p, const message *msg);
// The last known transfer time of a tensor between two peers in microseconds, also of peers that are
// no members at present. 0: not known.
int64_t route_way_between(const peer *p, const braid_id *from, const braid_id *to);
// route_place.c
// A peer that may join a stage, or move there.
typedef struct route_candidate {
    const braid_id *id;
    member_id leaves;   // its present membership, which ends with the move; 0: none
    uint32_t capacity;
    uint32_t contact;   // NO_CONTACT: this peer itself
} route_candidate;
// The duration of an iteration with the candidate in that stage, in microseconds; stage 0: without
// it. 0: the links are not known, or are fast.
int64_t route_time_with(const peer *p, const route_candidate *candidate, uint16_t stage);
// route_plan.c
size_t route_plan_bytes(const peer_run *run, const peer_config *config);
void route_plan_ahead(peer *p, uint32_t m);  // at the owner: plans the path
uint64_t route_plan_time(const peer *p, const inflight_microbatch *h);  // the earliest time to send it to the next stage
member_id route_plan_back(const peer *p, uint32_t m, member_id to);  // at the owner: the planned forwarder of the gradient to `to`
member_id route_pick_planned(peer *p, uint32_t m, uint32_t source, bool *wait);
uint64_t route_time_at(const peer *p, const cluster_member *m);
size_t route_view_bytes(const peer_run *run, const peer_config *config);
void route_view_refresh(peer *p);  // members or links changed
void route_view_stop(peer *p);
bool route_view_wants(const peer *p, const cluster_member *m);  // a relay of a neighbouring stage
void route_view_opens(peer *p, route_link *l);   // the link becomes a neighbour: copies its measurements
void route_view_closes(peer *p, const route_link *l);
void route_view_look(peer *p);
void route_view_tick(peer *p);
uint64_t route_uplink_rate(const peer *p);  // bytes a second: the highest rate of outgoing transfers; 0: none yet
void on_view(peer *p, const message *msg);
bool route_is_next(const peer *p, member_id id);
bool route_is_previous(const peer *p, member_id id);

#endif
