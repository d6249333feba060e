// What the files of the swarm simulator share. Nothing outside src/sim/swarm includes it.
//
// Beneath stands the harness of crash schedules (sim/inside.h): its nodes, blobs, workers and checkers. What is the swarm's own
// is the world: machines that peers share, lines with a rate, messages that take a path, churn.
#ifndef BRAID_SIM_SWARM_INSIDE_H
#define BRAID_SIM_SWARM_INSIDE_H

#include "sim/inside.h"
#include "sim/scenario.h"
#include "sim/swarm.h"

#define SWARM_NOBODY UINT32_MAX
#define SWARM_US ((uint64_t)1000)
#define SWARM_MS ((uint64_t)1000000)
#define SWARM_S ((uint64_t)1000000000)
#define SWARM_BEGIN_NS SWARM_S  // the clock's first moment: 0 means "never" to a peer

typedef struct swarm swarm;
typedef struct timeline timeline;

typedef enum swarm_item_kind {
    SWARM_MESSAGE, SWARM_LINK_UP, SWARM_LINK_DOWN, SWARM_JOB_DONE, SWARM_STORED, SWARM_TICK,  // a peer's: these step it
    SWARM_DIAL, SWARM_RESET, SWARM_FLOW, SWARM_LINES, SWARM_MACHINE, SWARM_START, SWARM_CHURN, SWARM_ITEMS
} swarm_item_kind;

// Something that will happen. Peers are named by their place in the order of names.
typedef struct swarm_item {
    struct swarm_item *next;  // in a list of those that wait
    swarm_item_kind kind;
    uint32_t peer, other;     // whom it concerns, whence it comes
    uint32_t life;            // of `peer`
    uint64_t serial;          // of the connection, tick, flow, machine's plan
    uint8_t what;             // a scenario_event_kind
    bool refused;
    bool tensor;              // an activation or a gradient, no state
    sim_lane lane;
    uint64_t sent_ns, wire_bytes;  // wire_bytes: of message and payload, as they would be on a real wire
    sim_buffer *payload;
    uint64_t payload_bytes;   // as the peer is told
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
    uint64_t finish_ps, left_ps;  // left: while it stands still
} swarm_task;

typedef enum swarm_task_kind { TASK_JOB, TASK_LOOP, TASKS } swarm_task_kind;

// The tensors on a machine's line, in any order.
typedef struct swarm_line {
    struct swarm_way **way;
    uint32_t ways, room;
    uint64_t seen;        // the look that met it last
    bool touched;         // a tensor has come or gone since rates were worked out
} swarm_line;

typedef struct swarm_machine {
    uint64_t cores_milli;
    uint64_t clock_ps, at_ns;  // work that each task has had, as of `at_ns`
    uint64_t threads;          // of active tasks
    uint64_t serial;           // of its next completion
    uint32_t *peer;            // [peers]
    uint32_t peers;
    uint64_t up_bps, down_bps;
    uint64_t control_ns;       // until when its uplink is busy with messages
    uint64_t up_left, down_left;      // while rates are worked out: what nobody has yet
    uint32_t up_flows, down_flows;    // and who still wants some
    swarm_line up, down;
} swarm_machine;

// ---- links

// One end's view of a link and the way from it to the other end.
typedef struct swarm_way {
    uint32_t from, to;
    bool up, dialing;
    uint32_t connection;      // 0: none
    uint64_t opened;          // connections dialed from here so far
    uint64_t last_ns[LANES];  // arrival of the newest
    uint64_t control_ns;      // until when messages keep the pair's own line busy
    scenario_link link;
    bool local;               // both ends on one machine
    swarm_list waiting;       // payloads in their order; the first is on its way
    bool flowing, settled;    // settled: its rate is known in this round
    uint32_t place;           // in `flow`
    uint64_t order;           // of the tensors that set out
    uint64_t seen;            // the look that met it last
    uint64_t left, rate, rate_before;  // of the first: 10^-9 bits, bits per second
    uint64_t at_ns;           // when `left` was true
    uint64_t set_out_ns;      // of the first
    uint64_t serial;
} swarm_way;

typedef struct swarm_busy {
    uint32_t count;
    uint64_t since_ns, total_ns;
} swarm_busy;

typedef struct swarm_peer {
    const scenario_peer *s;
    uint32_t index;           // in the scenario
    char name[SCENARIO_MAX_NAME];
    braid_id id;
    uint64_t name_hash;
    rng churn;                // its own fate
    bool leader, alive, paused, silent, ever_member;  // silent: its machine is gone, nobody answers there
    const char *gone;         // why it does nothing, "died"; NULL: it is alive and does not stand still
    uint64_t gone_ns;         // since when
    uint32_t life;
    uint32_t node;            // of the harness; SWARM_NOBODY when dead
    uint16_t stage;
    uint64_t started_ns, tick_serial;
    swarm_task task[TASKS];
    uint64_t debt_ns;         // of the loop: payloads that it sent
    bool handling;            // the loop is busy
    swarm_list inbox;         // what waits for the loop, or for the end of a pause; the first is being handled
    uint64_t job_started_ns;
    uint64_t compute_ns, booked_ns;  // of F, B, W in this life
    uint64_t useful_before_ns;       // what counted of these before the present iteration
    // over all lives
    uint64_t up_ns, busy_ns, bytes_up, bytes_down, useful_ns, wasted_ns;
    uint64_t admitted_ns, fetch_ns;  // admitted: 0 when it has its state since
    swarm_busy sending, receiving;
    uint32_t microbatches, crashes, joins;
    uint64_t view_messages, view_bytes, route_messages, route_bytes;
} swarm_peer;

struct swarm {
    sim_cluster *core;
    sim_case shape;           // what the harness' checkers ask for
    const scenario *s;
    const sim_swarm_options *options;
    sim_swarm_report *out;
    sim_queue queue;
    swarm_peer *peer;         // [peers] by name
    uint32_t peers, leader;
    uint32_t *by_index;       // [peers]: place by name of each of the scenario's peers
    uint32_t *at;             // hash table of ids: index into peer, or SWARM_NOBODY
    uint32_t slots;           // of that table, a power of two
    swarm_machine *machine;   // [machines]
    swarm_way **way;          // [peers][peers], NULL: never met
    swarm_way **flow;         // [flows]: ways with a tensor under way, in any order
    uint32_t flows, flow_room;
    uint64_t set_out, looks;
    swarm_line **touched;     // [touches]: lines whose rates are to be worked out again
    uint32_t touches, touch_room;
    swarm_way **share;        // [shares]: those who share lines with them, directly or not
    uint32_t shares, share_room;
    bool lines_planned, all_touched;
    uint32_t connections;
    uint64_t begun_ns, begun_events;  // of the present iteration
    uint64_t progress_ns, patience_ns;
    uint64_t last_ns;         // duration of the newest iteration
    uint64_t leader_exit_ns;
    uint32_t counted;         // of the newest CLOSE
    uint64_t useful_seen_ns, wasted_seen_ns;
    sim_swarm_iteration now;  // the present one's
    uint64_t *dead_ns;        // [stages][microbatches]: compute of what one that died in it had counted
    uint32_t iteration_room;
    uint64_t hash;
    timeline *timeline;       // NULL: none is written
    double wall_start, wall_told;
};

// --- swarm.c
swarm_item *swarm_item_new(swarm_item_kind kind, uint32_t who, uint32_t bytes);
void swarm_item_free(swarm_item *item);
void swarm_put(swarm *w, uint64_t at_ns, swarm_item *item);
uint32_t swarm_find(const swarm *w, const braid_id *id);
void swarm_fold(swarm *w, uint64_t value);
void swarm_list_add(swarm_list *list, swarm_item *item);
swarm_item *swarm_list_take(swarm_list *list);
void swarm_list_clear(swarm_list *list);
void swarm_busy_add(swarm_busy *b, uint64_t now_ns);
void swarm_busy_remove(swarm_busy *b, uint64_t now_ns);

// --- process.c: a peer's life, steps and effects
void swarm_start(swarm *w, uint32_t who);
void swarm_die(swarm *w, uint32_t who, bool machine);
void swarm_leave(swarm *w, uint32_t who);
void swarm_pause(swarm *w, uint32_t who);
void swarm_resume(swarm *w, uint32_t who);
// Something for a peer to take note of: when its loop is free and it does not stand still. Takes the item over.
void swarm_input(swarm *w, swarm_item *item);
void swarm_loop_done(swarm *w, uint32_t who);
void swarm_step(swarm *w, uint32_t who, const event *e);

// --- links.c
void swarm_send(swarm *w, uint32_t from, const effect *e);
void swarm_dial(swarm *w, uint32_t from, const braid_id *id);
void swarm_hang_up(swarm *w, uint32_t from, const braid_id *id);
// The links of a peer that is no more. `silent`: nobody is told for a long time.
void swarm_links_die(swarm *w, uint32_t who, bool silent);
bool swarm_linked(const swarm *w, uint32_t one, uint32_t other);  // both ends know it
void swarm_dialed(swarm *w, swarm_item *item);
// A connection falls though both ends live.
void swarm_reset(swarm *w, const swarm_item *item);
// A message is there. True: the item was put off, or dropped; else it is the peer's.
bool swarm_arrives(swarm *w, swarm_item *item);
void swarm_do_link(swarm *w, swarm_item *item);
void swarm_arrive_at(swarm *w, swarm_way *way, swarm_item *item, uint64_t at_ns);

// --- flows.c: tensors share the lines
void swarm_flow_add(swarm *w, swarm_way *way, swarm_item *item);
void swarm_flow_clear(swarm *w, swarm_way *way);
void swarm_flow_done(swarm *w, const swarm_item *item);
// All rates again: partitions begin or end.
void swarm_flow_all(swarm *w);

// --- machine.c
void swarm_task_start(swarm *w, uint32_t who, swarm_task_kind kind, uint64_t work_ns, uint32_t threads);
void swarm_task_stop(swarm *w, uint32_t who, swarm_task_kind kind);  // what is left stays in left_ps
void swarm_task_go_on(swarm *w, uint32_t who, swarm_task_kind kind);
void swarm_machine_item(swarm *w, const swarm_item *item);

// --- cost.c
uint64_t swarm_job_ns(const swarm *w, uint32_t who, const job *work);
bool swarm_carries_blocks(const message *msg);
uint64_t swarm_payload_bytes(const swarm *w, const message *msg);
uint32_t swarm_stage_blocks(const scenario *s, uint16_t index);
// A rough time for one microbatch through all stages and back, alone.
uint64_t swarm_round_ns(const swarm *w);

// --- churn.c
void swarm_churn_plan(swarm *w);       // what the scenario knows beforehand
void swarm_churn_iteration(swarm *w);  // an iteration begins
void swarm_churn_started(swarm *w, uint32_t who);
void swarm_churn_item(swarm *w, const swarm_item *item);

// --- report.c
void swarm_note_committed(swarm *w, const log_entry *entry);
void swarm_note_tell(swarm *w, uint32_t who, const tell *what);
void swarm_note_weight(swarm *w, uint32_t who, const job *work);  // it has added a microbatch's weight gradient to its sum
void swarm_note_life_over(swarm *w, uint32_t who);                // while it is still alive
void swarm_iteration_free(sim_swarm_iteration *i);
void swarm_report(swarm *w);

// --- stuck.c
// Nothing was done for longer than anybody can wait: fails, and says which stage it is and since when.
void swarm_fail_stuck(swarm *w);

// --- timeline.c
braid_err timeline_open(swarm *w, const char *path, timeline **out, braid_error *error);
void timeline_job(swarm *w, uint32_t who, const job *work, uint64_t start_ns, uint64_t end_ns, bool cut_short);
void timeline_flow(swarm *w, const swarm_way *way, const swarm_item *item, bool begins);
void timeline_instant(swarm *w, uint32_t who, const char *what);  // SWARM_NOBODY: of the whole swarm
void timeline_iteration_over(swarm *w);
braid_err timeline_close(swarm *w, braid_error *error);

#endif
