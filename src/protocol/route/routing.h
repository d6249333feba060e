// The routers' links, views and plans in a peer, and what routing lets the rest of the peer call. 
#ifndef BRAID_PROTOCOL_ROUTE_ROUTING_H
#define BRAID_PROTOCOL_ROUTE_ROUTING_H

#include "routing/core/pick.h"
#include "routing/core/measure.h"
#include "routing/core/router.h"
#include "routing/schedule/schedule.h"
#include "protocol/route/inflight.h"

enum {
    ROUTE_NEIGHBOURS = 16,          // of a relay's router, a side: among more members its view chooses
    ROUTE_MAX_LINKS = 2 * WIRE_MAX_STAGE_MEMBERS,  // a data peer has all of both its stages
    ROUTE_MAX_KNOWN = 3 * WIRE_MAX_STAGE_MEMBERS,  // among whom a view chooses, and those of the own stage
    ROUTE_MAX_UNITS = 512,          // entries of router_units that are looked at
    ROUTE_MAX_PATHS = 16,            // between two members, that are looked at
    ROUTE_MAX_FLOWS = 32,           // told to the user
};

// One end of a link between two routers. It counts only while both ends know each other's session, so that a router whose
// other end forgot what it had heard forgets too.
typedef struct route_link {
    member_id member;
    bool up;                  // the router has it as a neighbour
    bool broken;              // a frame was lost here: begin a new session
    uint32_t session, heard;  // of this end; of the other, 0: not heard
    uint32_t sent, got;       // newest sequence
    uint32_t told;            // cost that the other end names, of its link to here
    uint32_t their_us;        // its clock when it last spoke
    uint64_t their_ns;        // mine then, 0: never
    uint64_t last_frame_ns;         // when a frame last went out
    measure_link measured;    // the link from here
    uint64_t taken_ns;        // when a tensor was last answered
    uint16_t share[ROUTER_MAX_SOURCES];  // microbatches sent there in this iteration, by source
    int64_t home[ROUTER_MAX_SOURCES];       // cost from there to each source, as it says; 0: not known
    int64_t home_sent[ROUTER_MAX_SOURCES];  // ... from here, as it was told
    int64_t hop_cost;         // as its cost, by the best way that there is; 0: not looked at yet
} route_link;

// To any member, where tensors are large.
typedef struct link_bandwidth {
    member_id member;         // 0: none
    int64_t rate;             // bytes a second, 0: not known. Of probes alone: a tensor that others slowed down says little of a line
    int64_t round_trip_ns;    // 0: not known
    uint32_t percent;         // of what my own line would take, tensors took that went by way of somebody; 0: none did
    uint64_t direct_until_ns;  // it was hardly less, so none goes that way before
    uint32_t train;           // that sounds this line, 0: none is under way
    bool train_long;
    uint64_t probed_ns;      // 0: never
    uint32_t probes;       // that were answered
    uint32_t heard_train, heard_index, heard_bytes;  // of the other end's
    uint64_t heard_since_ns;
} link_bandwidth;

typedef struct route_linkstate route_linkstate;  // route_linkstate.c

// A member that the view may choose as a neighbour, or of this peer's own stage.
typedef struct route_known {
    member_id member;         // 0: none
    uint16_t stage;
    uint64_t paid_ns;         // rate limit of its VIEW messages: more are ignored
    measure_link measured;    // while it is no neighbour of the router
    uint32_t rate_out, rate_in;  // bytes a millisecond of its line, as it says; 0: not seen
    uint32_t rate_here;          // from it to this peer, as it measured
} route_known;

// At a data peer: the ways of an iteration's microbatches, where lines are slow beside computing (src/routing/schedule/schedule.h).
typedef struct route_plan {
    uint64_t planned;  // 1 + the iteration of these ways
    bool found;
    message_ahead way[SCHEDULE_MAX_WAYS][SCHEDULE_MAX_STAGES + 1];  // of microbatch m, by stage, home last; behind it: what a search needs
} route_plan;

typedef struct peer_routing {
    void *memory, *view_memory;
    route_plan *plan;         // NULL: not at a data peer
    struct view *view;        // NULL: all members are neighbours
    route_known *known;       // [ROUTE_MAX_KNOWN]
    uint32_t known_count;
    bool crowded[2];          // the neighbouring stage, or this one, has more members than a router has neighbours
    router *router;           // NULL: this peer has no place in the routing
    uint64_t epoch;           // names the sources
    bool stale;               // members or links changed since the neighbours were chosen
    bool serves;              // it had a whole state, so it may be given units
    uint32_t sources;
    router_peer source[ROUTER_MAX_SOURCES];
    uint32_t links;
    route_link link[ROUTE_MAX_LINKS];
    uint32_t capacity, bound;  // what it may carry; what it may still carry of what it had before
    uint64_t iteration;       // of the links' shares
    uint64_t next_clock_ns;          // no link has anything to say before; 0: look
    uint64_t updated_ns;       // when costs and capacity were last looked at
    uint64_t routed, unrouted;  // microbatches sent by the router's units, and otherwise
    uint64_t changes;         // of the units of each neighbour, so far
    uint64_t shape, told;     // hash of that now; of what was last told, costs included
    uint64_t told_ns;
    route_linkstate *linkstate;   // NULL: tensors are small
    uint64_t probe_until_ns;  // a train is under way, or was lost by then
    peer_flow flow[ROUTE_MAX_FLOWS];  // as told
} peer_routing;

// ---- route.c: the router in this peer; route_link.c: its links; route_view.c: its neighbours ---------------------
void route_tick(peer *p);
void on_route(peer *p, const message *msg);
// The member of the next stage that gets the microbatch by the router's units of flow; 0: no unit, or none can take it.
// `wait`: the planned member has no free slot now, and waiting for it is cheaper.
member_id route_pick(peer *p, uint32_t m, bool *wait);
void route_sent(peer *p, uint32_t m, member_id to, bool by_unit);
// A tensor was taken there, this long after it was sent.
void route_taken(peer *p, member_id to, uint64_t bytes, uint64_t sent_ns);
size_t route_bytes(const peer_run *run, const peer_config *config);
int64_t route_cost_of(const route_link *l);
int64_t route_hop_cost(const route_link *l);
void route_look(const peer *p, peer_view *view);
void route_tell(peer *p);  // when it has come to rest in another shape
route_link *route_find(peer *p, member_id id);
void route_link_open(peer *p, route_link *l);  // a new session
void route_link_close(peer *p, route_link *l);
void route_links_tick(peer *p);
void route_send_clock(peer *p, route_link *l);  // a frame without parts
void route_flush(peer *p);
message_route *route_frame_begin(peer *p, const route_link *l);  // in p->scratch; parts go in, then
void route_frame_send(peer *p, route_link *l);
// route_home.c
void route_home_advertise(peer *p);
void route_home_heard(peer *p, route_link *l, const route_part *part);
bool route_by_time(const peer *p);
member_id route_pick_by_time(const peer *p, uint32_t m, uint32_t source, int64_t *time);
int64_t route_time_by(const peer *p, const route_link *l, uint32_t source);
// route_linkstate.c
bool route_worth_probing(const peer_run *run);  // tensors are so large that a train costs nothing beside them
size_t route_linkstate_bytes(const peer_run *run);
void route_probe_tick(peer *p);
// A forwarded tensor has arrived there; `expected_ns`: what the direct line would have taken.
void route_forwarded(peer *p, member_id to, uint64_t took_ns, uint64_t expected_ns);
void route_linkstate_advertise(peer *p);
void on_lines(peer *p, const message *msg);
const message_lines *route_linkstate_of(const peer *p, member_id of);  // as it said; NULL: nothing
uint64_t route_linkstate_cost(const peer *p, member_id from, member_id to);  // of a hop; a line of unknown bandwidth costs much
// The forwarder, other than `but`, by which a tensor arrives there sooner than directly; 0: none.
typedef struct route_forwarding {
    member_id by;
    int64_t us, direct_us;  // what it takes so, and on my own line
} route_forwarding;
int64_t route_queued_on_link(const peer *p, member_id to);  // tensors of mine that are on my line there
route_forwarding route_forwarder(const peer *p, member_id to, member_id but);
// The same as was planned: by way of `by`, or straight if that is `to`. False: it cannot be.
bool route_forwarder_planned(const peer *p, member_id to, member_id by, route_forwarding *d);
// What a tensor takes straight from that member to me, in microseconds (0: not known), and who, at most so many, might carry others at the same time: the
// quickest first.
uint32_t route_paths_from(const peer *p, member_id from, int64_t *direct_us, route_forwarding *path, uint32_t capacity);
uint64_t route_round_trip(const peer *p, member_id to);  // 0: not known
int64_t route_best_hop(const peer *p, const route_link *l);  // its cost by the best ways
uint16_t route_pieces(const peer *p);  // of a carried tensor
void on_sound(peer *p, const message *msg);
void on_sounded(peer *p, const message *msg);
// route_plan.c
size_t route_plan_bytes(const peer_run *run, const peer_config *config);
void route_plan_ahead(peer *p, uint32_t m);  // at the owner: plans the path
uint64_t route_plan_time(const peer *p, const inflight_microbatch *h);  // the earliest time to send it to the next stage
member_id route_plan_back(const peer *p, uint32_t m, member_id to);  // at its owner: who carries its gradient to that one of the last stage
member_id route_pick_planned(peer *p, uint32_t m, uint32_t source, bool *wait);
uint64_t route_time_at(const peer *p, const cluster_member *m);
size_t route_view_bytes(const peer_run *run, const peer_config *config);
void route_view_refresh(peer *p);  // members or links changed
void route_view_stop(peer *p);
bool route_view_wants(const peer *p, const cluster_member *m);  // a relay of a neighbouring stage
void route_view_opens(peer *p, route_link *l);   // the router gets it, with what is known of it
void route_view_closes(peer *p, const route_link *l);
void route_view_look(peer *p);
void route_view_tick(peer *p);
uint64_t route_uplink_rate(const peer *p);  // bytes a second: the best that my line was seen to carry, 0: nothing yet
void on_view(peer *p, const message *msg);
bool route_is_next(const peer *p, member_id id);
bool route_is_previous(const peer *p, member_id id);

#endif
