// Shared by the files of the swarm simulator; no other file includes it.
//
// The swarm is built on the cluster simulator (sim/inside.h) and uses its nodes, blobs, workers and
// checkers. Its own part is the world: machines that peers share, lines with a rate, messages that
// take time on the network, churn.
#ifndef BRAID_SIM_SWARM_INSIDE_H
#define BRAID_SIM_SWARM_INSIDE_H

#include "sim/inside.h"
#include "sim/scenario.h"
#include "sim/swarm.h"

#define SWARM_NO_PEER UINT32_MAX
#define SWARM_US ((uint64_t)1000)
#define SWARM_MS ((uint64_t)1000000)
#define SWARM_S ((uint64_t)1000000000)
#define SWARM_BEGIN_NS SWARM_S  // the clock's first moment, because 0 means "never" to a peer

typedef struct swarm swarm;
typedef struct timeline timeline;

typedef enum swarm_item_kind {
    // events of a peer, which step it
    SWARM_MESSAGE, SWARM_LINK_UP, SWARM_LINK_DOWN, SWARM_JOB_DONE, SWARM_STORED, SWARM_TICK,
    SWARM_DIAL, SWARM_RESET, SWARM_FLOW, SWARM_LINES, SWARM_MACHINE, SWARM_START, SWARM_CHURN, SWARM_ITEMS
} swarm_item_kind;

// A future event. Peers are numbered in the order of their names.
typedef struct swarm_item {
    struct swarm_item *next;  // next item of a waiting list
    swarm_item_kind kind;
    uint32_t peer, other;     // receiver and sender of the event
    uint32_t incarnation;            // incarnation of `peer`
    uint64_t serial;          // number of the connection, tick, transfer or machine completion
    uint8_t what;             // a scenario_event_kind
    bool refused;
    bool tensor;              // an activation or a gradient, not state
    sim_lane lane;
    uint64_t sent_ns, wire_bytes;  // wire_bytes: size of message and payload on a real wire
    sim_buffer *payload;
    uint64_t payload_bytes;   // size that the peer is told
    log_entry *entry;
    uint32_t byte_count;
    uint8_t bytes[];
} swarm_item;

typedef struct swarm_list {
    swarm_item *first, *last;
} swarm_list;

// ---- machines: processor sharing

// Work on a machine; done when the machine's own clock reaches `finish_ps`.
typedef struct swarm_task {
    bool active;
    uint32_t threads;
    uint64_t finish_ps, left_ps;  // left: remaining work during a pause
} swarm_task;

typedef enum swarm_task_kind { TASK_JOB, TASK_LOOP, TASKS } swarm_task_kind;

// The tensors on a machine's line, in any order.
typedef struct swarm_line {
    struct swarm_arc **arc;
    uint32_t arcs, room;
    uint64_t seen;        // number of the last search that reached this line
    bool touched;         // a tensor has started or ended since rates were computed
} swarm_line;

typedef struct swarm_machine {
    uint64_t cores_milli;
    uint64_t clock_ps, at_ns;  // work that each task has received until `at_ns`
    uint64_t threads;          // threads of active tasks
    uint64_t serial;           // number of its next completion
    uint32_t *peer;            // [peers]
    uint32_t peers;
    uint64_t up_bps, down_bps;
    uint64_t control_ns;       // time until which its uplink is busy with messages
    uint64_t up_left, down_left;      // during the computation of rates: capacity not yet assigned
    uint32_t up_flows, down_flows;    // transfers without a rate
    swarm_line up, down;
} swarm_machine;

// ---- links

// One end's view of a link, and the direction from it to the other end.
typedef struct swarm_arc {
    uint32_t from, to;
    bool up, dialing;
    uint32_t connection;      // 0: none
    uint64_t opened;          // number of connections dialed from here so far
    uint64_t last_ns[LANES];  // arrival time of the newest message of each lane
    uint64_t control_ns;      // time until which messages keep the pair's own line busy
    scenario_link link;
    bool local;               // both ends on one machine
    swarm_list waiting;       // payloads in order; the first one is being sent
    bool flowing, settled;    // settled: its rate has been computed in this pass
    uint32_t place;           // index in `flow`
    uint64_t order;           // sequence number of its current tensor
    uint64_t seen;            // number of the last search that reached this link
    uint64_t left, rate, rate_before;  // first payload: 10^-9 bits left, rates in bits per second
    uint64_t at_ns;           // time for which `left` is valid
    uint64_t set_out_ns;      // start of the first payload
    uint64_t serial;
} swarm_arc;

typedef struct swarm_busy {
    uint32_t count;
    uint64_t since_ns, total_ns;
} swarm_busy;

typedef struct swarm_peer {
    const scenario_peer *s;
    uint32_t index;           // index in the scenario
    char name[SCENARIO_MAX_NAME];
    braid_id id;
    uint64_t name_hash;
    rng churn;                // random numbers of its churn
    // silent: its machine died, and nothing answers there
    bool leader, alive, paused, silent, ever_member;
    // reason why it is dead or paused, "died"; NULL: it is alive and active
    const char *inactive;
    uint64_t inactive_ns;         // time since which `inactive` holds
    uint32_t incarnation;
    uint32_t node;            // index of its node; SWARM_NO_PEER when dead
    uint16_t stage;
    uint64_t started_ns, tick_serial;
    swarm_task task[TASKS];
    uint64_t debt_ns;         // work of the event loop for payloads that it sent
    bool handling;            // the loop is busy
    // events that wait for the loop or for the end of a pause; the first is being handled
    swarm_list inbox;
    uint64_t job_started_ns;
    uint64_t compute_ns, booked_ns;  // F, B and W compute of this incarnation
    uint64_t useful_before_ns;       // useful part before the current iteration
    // over all incarnations
    uint64_t up_ns, busy_ns, bytes_up, bytes_down, useful_ns, wasted_ns;
    uint64_t admitted_ns, fetch_ns;  // admitted: 0 once it has its state
    swarm_busy sending, receiving;
    uint32_t microbatches, crashes, joins;
    uint64_t view_messages, view_bytes, route_messages, route_bytes;
} swarm_peer;

struct swarm {
    sim_cluster *core;
    sim_case shape;           // the case by which the checkers judge this swarm
    const scenario *s;
    const sim_swarm_options *options;
    sim_swarm_report *out;
    sim_queue queue;
    swarm_peer *peer;         // [peers], by name
    uint32_t peers, leader;
    uint32_t *by_index;       // [peers]: index by name of each peer of the scenario
    uint32_t *at;             // hash table of ids: index into peer, or SWARM_NO_PEER
    uint32_t slots;           // size of that table, a power of two
    swarm_machine *machine;   // [machines]
    swarm_arc **arc;          // [peers][peers]; NULL: never linked
    swarm_arc **flow;         // [flows]: links with a tensor in transfer, in any order
    uint32_t flows, flow_room;
    uint64_t set_out, looks;
    swarm_line **touched;     // [touches]: lines that need new rates
    uint32_t touches, touch_room;
    // [shares]: links that share these lines, directly or through other links
    swarm_arc **share;
    uint32_t shares, share_room;
    bool lines_planned, all_touched;
    uint32_t connections;
    uint64_t begun_ns, begun_events;  // start of the current iteration
    uint64_t progress_ns, stall_ns;
    uint64_t last_ns;         // duration of the previous iteration
    uint64_t leader_exit_ns;
    uint32_t counted;         // microbatches in the newest CLOSE
    uint64_t useful_seen_ns, wasted_seen_ns;
    sim_swarm_iteration now;  // the current iteration
    uint64_t *dead_ns;        // [stages][microbatches]: compute for work that a dead peer had added
    uint32_t iteration_room;
    uint64_t hash;
    timeline *timeline;       // NULL: none is written
    double wall_start, wall_told;
};

// --- swarm.c
swarm_item *swarm_item_new(swarm_item_kind kind, uint32_t number, uint32_t bytes);
void swarm_item_free(swarm_item *item);
void swarm_put(swarm *w, uint64_t at_ns, swarm_item *item);
uint32_t swarm_find(const swarm *w, const braid_id *id);
void swarm_fold(swarm *w, uint64_t value);
void swarm_list_add(swarm_list *list, swarm_item *item);
swarm_item *swarm_list_take(swarm_list *list);
void swarm_list_clear(swarm_list *list);
void swarm_busy_add(swarm_busy *b, uint64_t now_ns);
void swarm_busy_remove(swarm_busy *b, uint64_t now_ns);

// --- process.c: a peer's incarnations, steps and effects
void swarm_start(swarm *w, uint32_t number);
void swarm_die(swarm *w, uint32_t number, bool machine);
void swarm_leave(swarm *w, uint32_t number);
void swarm_pause(swarm *w, uint32_t number);
void swarm_resume(swarm *w, uint32_t number);
// Delivers an event to a peer, when its loop is free and it is not paused. Takes the item over.
void swarm_input(swarm *w, swarm_item *item);
void swarm_loop_done(swarm *w, uint32_t number);
void swarm_step(swarm *w, uint32_t number, const event *e);

// --- links.c
void swarm_send(swarm *w, uint32_t from, const effect *e);
void swarm_dial(swarm *w, uint32_t from, const braid_id *id);
void swarm_close_link(swarm *w, uint32_t from, const braid_id *id);
// Ends the links of a dead peer. `silent`: the other ends notice it only after a long time.
void swarm_close_all_links(swarm *w, uint32_t number, bool silent);
bool swarm_linked(const swarm *w, uint32_t one, uint32_t other);  // both ends know the connection
void swarm_dialed(swarm *w, swarm_item *item);
// A connection breaks though both ends live.
void swarm_reset(swarm *w, const swarm_item *item);
// A message arrives. True: the item was delayed or dropped; else it is delivered to the peer.
bool swarm_arrives(swarm *w, swarm_item *item);
void swarm_do_link(swarm *w, swarm_item *item);
void swarm_arrive_at(swarm *w, swarm_arc *arc, swarm_item *item, uint64_t at_ns);

// --- flows.c: tensors share the lines
void swarm_flow_add(swarm *w, swarm_arc *arc, swarm_item *item);
void swarm_flow_clear(swarm *w, swarm_arc *arc);
void swarm_flow_done(swarm *w, const swarm_item *item);
// Computes all rates again, because a partition begins or ends.
void swarm_flow_all(swarm *w);

// --- machine.c
void swarm_task_start(swarm *w, uint32_t number, swarm_task_kind kind, uint64_t work_ns, uint32_t threads);
// the remaining work stays in left_ps
void swarm_task_stop(swarm *w, uint32_t number, swarm_task_kind kind);
void swarm_task_resume(swarm *w, uint32_t number, swarm_task_kind kind);
void swarm_machine_item(swarm *w, const swarm_item *item);

// --- cost.c
uint64_t swarm_job_ns(const swarm *w, uint32_t number, const job *work);
bool swarm_carries_blocks(const message *msg);
uint64_t swarm_payload_bytes(const swarm *w, const message *msg);
uint32_t swarm_stage_blocks(const scenario *s, uint16_t index);
// A rough time for one microbatch through all stages and back in an idle swarm.
uint64_t swarm_round_trip_ns(const swarm *w);

// --- churn.c
void swarm_churn_plan(swarm *w);       // plans the events of the scenario
void swarm_churn_iteration(swarm *w);  // called at the begin of an iteration
void swarm_churn_started(swarm *w, uint32_t number);
void swarm_churn_item(swarm *w, const swarm_item *item);

// --- report.c
void swarm_note_committed(swarm *w, const log_entry *entry);
void swarm_note_tell(swarm *w, uint32_t number, const tell *what);
// it has added the weight gradient of a microbatch to its sum
void swarm_note_weight(swarm *w, uint32_t number, const job *work);
// called before its node is released
void swarm_note_incarnation_end(swarm *w, uint32_t number);
void swarm_iteration_free(sim_swarm_iteration *i);
void swarm_report(swarm *w);

// --- stuck.c
void swarm_fail_stuck(swarm *w);

// --- timeline.c
braid_err timeline_open(swarm *w, const char *path, timeline **out, braid_error *error);
void timeline_job(swarm *w, uint32_t number, const job *work, uint64_t start_ns, uint64_t end_ns, bool cut_short);
void timeline_flow(swarm *w, const swarm_arc *arc, const swarm_item *item, bool begins);
// SWARM_NO_PEER: a mark for the whole swarm
void timeline_instant(swarm *w, uint32_t number, const char *what);
void timeline_iteration_over(swarm *w);
braid_err timeline_close(swarm *w, braid_error *error);

#endif
