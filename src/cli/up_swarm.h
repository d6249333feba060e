// A swarm on this machine: the supervisor's view of its child processes, and its ordered kills and
// joins.
#ifndef BRAID_CLI_UP_SWARM_H
#define BRAID_CLI_UP_SWARM_H

#include "base/err.h"
#include "base/machine.h"
#include "base/rng.h"
#include "cli/report.h"
#include "cli/report_sinks.h"
#include "cli/up_cause.h"
#include "cli/up_restart.h"
#include "node/fault.h"
#include "node/measure.h"
#include "train/files.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

enum {
    UP_MAX_CHILDREN = 512,
    UP_MAX_ACTIONS = 256,
    UP_MAX_ARGUMENTS = 44,
    UP_MAX_NUMBER = 24,
    UP_TICK_MS = 250,
    UP_PROMOTE_MS = 60000,  // time for a standby replica to take over after a stage's last peer
    UP_LOST_MS = 3000,      // at the end of a run with an empty stage: time for a peer that is about to join
    UP_ELECT_MS = 20000,    // added if there is no leader, or the leader has not noticed the loss
    UP_MAX_KEY_PATH = 1024,
    UP_LEAVE_MS = 10000,  // after the run's end, for the other processes to end by themselves
    // After this many iterations a data peer that has not reached its fault point is killed, and an
    // idle relay is spared.
    UP_HURRY_ITERATIONS = 3,
    UP_RELAY_NICE = 5,    // lower priority than the leader's loop, on which all peers depend
};

typedef enum child_role { CHILD_LEADER, CHILD_DATA, CHILD_RELAY } child_role;

typedef struct swarm swarm;

// up_children.c: the pipes' contents that are not processed yet.
typedef struct child_output {
    char line[REPORT_MAX_LINE];  // of its standard output, incomplete
    size_t bytes;
    char complaint[512];         // the last line on its standard error
    size_t complaint_bytes;
    char input[4096];            // room for the next read
} child_output;

// up_chaos.c: the ordered death of a child.
typedef struct child_order {
    bool armed;            // has a fault set and will die soon
    bool takes_stage;      // all other peers of its stage die with it
    bool spared;           // had a fault set; the command to live may not have arrived yet
    uint64_t spared_version;  // its version when that command was sent
    fault_point armed_at;
    uint64_t armed_iteration;
    uint32_t index;        // of the action that set the fault
} child_order;

// up_measure.c
typedef struct child_measure {
    bool known;            // `figures` have been reported
    double processor_s;    // processor time at the latest reading
    node_figures figures;  // the latest ones
} child_measure;

typedef struct child {
    swarm *swarm;
    child_role role;
    bool whole;            // it has a member in every stage (node --whole)
    uint32_t number;       // relay 1, 2, ...; data peers: the leader is 1. With private data also the number of the share
    char name[16];         // "relay3", "data2", "whole4", "leader"
    uv_process_t process;
    uv_pipe_t commands, events, complaints;
    uint32_t open_handles;
    pid_t pid;
    bool alive, killed;    // killed: on purpose
    bool told_end;
    bool exited, heard_out;  // its exit is known; its output is read to the end
    int64_t status;
    int signal_number;
    uint64_t gone_ms;      // when its end was noticed
    uint64_t return_ms;    // when a successor with its text is started, 0: never
    uint64_t began_ms, began_at;  // when it was started; the run's iteration at that time
    uint32_t for_stage;    // the empty stage that this relay was started for, 0: none
    restart_record text_deaths;   // data peer with private data: deaths of all processes with its text, including its own
    bool voted;            // it may have been a voter at its end
    char peer[REPORT_HASH_TEXT];
    char ticket[512];      // a ticket with its address
    bool joined, ready;    // member of a stage; its state is whole
    bool listed;           // still a member in the log, dead or not
    uint64_t member, stage, version;
    uint64_t generation;   // of the run, by its latest report
    char cause[CAUSE_TEXT];  // the cause of its death, "": requested
    child_output output;
    child_order order;
    uint32_t idle;         // iterations since its last computation
    report_work work;      // by its latest report
    child_measure measure;
} child;

typedef enum action_kind { ACTION_KILL, ACTION_ARM, ACTION_SPAWN } action_kind;

// Why no victim was chosen: the obstacle of the most eligible candidate.
typedef enum order_wait {
    WAIT_NOT,      // no obstacle, or not tried yet
    WAIT_MISSING,  // there is no candidate
    WAIT_DEAD,
    WAIT_DYING,    // because of another order
    WAIT_BEHIND,   // has not reached the run's iteration
    WAIT_LAST,     // its stage could not continue
    WAIT_VOTES,    // too few voters would remain
    WAIT_SHADOW,   // the stage has no standby replica yet
} order_wait;

// A member that is not one of our children, or a child that has not reported its id yet.
typedef struct guest {
    char peer[REPORT_HASH_TEXT];
    uint64_t member, stage;
    bool shadow;
} guest;

enum { UP_MAX_LOSSES = 256, UP_MAX_PHASES = 8 };

// A lost member.
typedef struct loss {
    uint64_t member, stage;
    bool placed;           // whether the stage is known
    bool killed;           // by an order
    char peer[REPORT_HASH_TEXT];
    char killed_in[24];    // the fault point of the order
    char reason[64];       // why the leader expelled it
    uint64_t taken;        // microbatches of each iteration that other peers took over
    uint32_t repairs;
    struct {
        char name[24];
        uint32_t count;
    } phase[UP_MAX_PHASES];  // repairs by phase
} loss;

// The machine's load since the first measured iteration, for --measure.
typedef struct up_clock {
    uint32_t seen;
    double start_s, last_s;
    // Processor time up to `last_s`: idle time of this machine, and time of our processes.
    double idle_s, ours_s;
    double *cores;           // [seen - MEASURE_WARM_UP], allocated: `room`; cores available to us, by iteration
    uint32_t room;
} up_clock;

// An order for an iteration, carried out as soon afterwards as it is safe.
typedef struct action {
    action_kind kind;
    uint64_t iteration;
    child_role role;  // of the victim, or of the joining peers
    uint32_t number;  // the victim's number, 0: any that can be spared
    uint32_t count;   // ACTION_SPAWN
    uint32_t stage;   // all relays of this stage die at once, 0: one peer does
    fault at;         // ACTION_ARM
    bool whole;       // the victim is a whole-model peer
    bool done;
    bool came;        // the ordered event has happened
    order_wait waits;  // the obstacle, if it has not
    char victim[16];  // ACTION_ARM: the peer with the fault set, "": none
    const char *spec;  // the user's text, NULL: from --chaos
} action;

// Calls for the children's pipes and ends, so that up_children.c needs no file above it.
typedef struct swarm_hooks {
    void (*event)(swarm *s, child *c, const report_event *news);
    void (*advanced)(swarm *s, child *c, uint64_t version);
    bool (*voters)(swarm *s, const child *c, const char *line);  // false: it is another kind of line
    void (*gone)(swarm *s, child *c, int64_t status, int signal);
} swarm_hooks;

// The parameters of the run and of its children, set before the start.
typedef struct swarm_settings {
    report_style style;
    report_sink_paths sinks;
    const char *run_path, *resume, *from, *log, *trace, *measure, *state_directory;
    struct run_config *run;
    char model[FILES_MAX_PATH];  // checkpoint of the model that the run starts from; "": none
    bool private_data;
    bool elastic;               // ... and the run continues without a data peer after a while
    bool anew;                  // newer checkpoints are set aside
    bool continues;             // continue from the run's newest checkpoint
    uint32_t stages;
    uint64_t iterations;
    uint64_t data_peers, relays, wholes, shadows, threads, capacity, max_memory, voters, carried;
    bool whole_only;            // all data peers are whole-model peers, the leader among them
    uint64_t stop_within_ns;
    char program[1024];
} swarm_settings;

// up_keys.c, with private data: a directory for the data peers' identities and, without --log, their
// logs, which a restarted peer uses again.
typedef struct swarm_keys {
    char path[UP_MAX_KEY_PATH];
    int fd;                      // ... its lock
} swarm_keys;

// The newest committed configuration of voters that a child has reported.
typedef struct up_voters {
    uint64_t index;  // its log index
    uint32_t count;  // 0: none was reported; the first leader votes alone
    char machine[WIRE_MAX_VOTERS][REPORT_HASH_TEXT];  // each voter's peer, or the whole-model peer of which it is a member
} up_voters;

// up_chaos.c and up_orders.c
typedef struct swarm_orders {
    up_voters voters;
    action action[UP_MAX_ACTIONS];
    uint32_t count, kills;
    rng random;
} swarm_orders;

// up_losses.c
typedef struct swarm_losses {
    loss list[UP_MAX_LOSSES];
    uint32_t count;
    struct {
        uint64_t gone, heir;  // members
    } takeover[UP_MAX_LOSSES];  // takeovers already reported
    uint32_t takeover_count;
} swarm_losses;

// up_story.c: the run, by its peers' reports.
typedef struct swarm_progress {
    bool started;
    char ticket[512];
    guest guests[WIRE_MAX_MEMBERS];  // members that joined by the ticket
    uint32_t guest_count;
    child *leading;             // NULL: no known leader
    uint64_t newest_member;     // largest member number reported
    uint64_t iteration, first;  // reported versions
    uint64_t furthest;          // furthest iteration that the run has reached
    uint64_t generation;        // number of rollbacks plus one; 0: none yet
    uint64_t tokens, start_ms;
    uint64_t saved;             // version of the newest checkpoint
    char saved_path[1024];      // its path, "": none was written
    uint32_t repairs;
} swarm_progress;

// up_stages.c: stages without a peer.
typedef struct swarm_stages {
    uint64_t bereft_ms[WIRE_MAX_STAGES];  // when relays are started for an empty stage, 0: it is not empty
    uint64_t lost_ms[WIRE_MAX_STAGES];    // when it became empty
    restart_record deaths[WIRE_MAX_STAGES];  // of each stage's relays
    const child *last_dead[WIRE_MAX_STAGES]; // the latest of them
} swarm_stages;

// up.c and swarm_fail: the end of the run.
typedef struct swarm_finish {
    bool draining, ending, failed;
    bool dropped;               // ... without waiting for the current iteration
    uint64_t stop_ms;           // when the orderly end was requested
    uint64_t leave_deadline_ms;
    report_event event;         // the last line of a child with the weights
    char why[512];
} swarm_finish;

struct swarm {
    swarm_hooks hooks;
    uv_loop_t loop;
    uv_timer_t tick;
    uv_poll_t signals;
    report *report;
    child *children[UP_MAX_CHILDREN];
    uint32_t child_count, relay_count, alive;

    swarm_settings settings;
    swarm_keys keys;
    swarm_orders orders;
    swarm_losses losses;
    swarm_progress progress;
    swarm_stages stage;
    swarm_finish finish;

    char run_copy[32];  // path of the copy, if the description can be read only once
    machine machine;
    char memory_note[512];  // printed at the start; "": none
    cause_memory memory;    // of this container, at the latest death of a child
    up_clock clock;         // with --measure
};

// Whether the first leader is the only voter: the run ends with it.
static inline bool swarm_has_one_voter(const swarm *s) { return s->settings.voters <= 1; }

// up_children.c
braid_err swarm_spawn(swarm *s, child_role role, braid_error *error);
// Starts a data peer that has a member in every stage.
braid_err swarm_spawn_whole(swarm *s, braid_error *error);
// Restarts a data peer with its share of the private data and its identity.
braid_err swarm_spawn_again(swarm *s, const child *gone, braid_error *error);
void child_command(child *c, const char *text);
void child_kill(child *c);
// Frees all children, which must be dead; call before the loop ends.
void swarm_free_children(swarm *s);

// up_story.c
void swarm_event(swarm *s, child *c, const report_event *news);
// Records that the child's state is complete at `version`.
void swarm_advanced(swarm *s, child *c, uint64_t version);
void story_sum_work(const swarm *s, report_event *news);  // sets the total work of all processes, including dead ones

// up_state.c
void swarm_note(swarm *s, const char *text);
void swarm_kill_all(swarm *s);
// Kills all children; `why` is the end's message, unless an earlier failure has one.
void swarm_fail(swarm *s, const char *why);
void swarm_spawn_others(swarm *s);
bool stage_works(const swarm *s, uint64_t number, const child *but);
// Whether the stage has a standby replica.
bool stage_is_shadowed(const swarm *s, uint64_t number);

// up.c
void swarm_child_gone(swarm *s, child *c, int64_t status, int signal);

// up_stages.c
// Records that a member of the stage left in order; after the last one, replacements are started.
void swarm_stage_left(swarm *s, uint64_t number);
// Counts an unplanned death towards the limit of restarts.
void stages_note_death(swarm *s, child *c);
// Records that a stage lost its last peer, and schedules replacements unless the limit is reached.
void stage_bereft(swarm *s, uint64_t number);
// Records that the only peer with a text is gone.
void text_bereft(swarm *s, child *c);
// Whether the only peer with a text is gone and may be restarted now.
bool swarm_may_return(const swarm *s, const child *c);
// Starts replacements that are due, and ends a run that cannot continue.
void stages_tick(swarm *s);
// Writes the remedy that names the newest checkpoint: ". Go on from ... (--resume)".
void swarm_way_on(const swarm *s, char *text, size_t room);

// up_chaos.c
// "PEER@iteration:K", "PEER@POINT[:COUNT]" (from the start) or "PEER@iteration:K/POINT[:COUNT]".
// PEER is relayN, any (relay), dataN, data (any but the leader), wholeN, whole (any but the
// leader), leader (the current one) or stage:N. For stage:N all relays of that stage die together with the first of them.
braid_err chaos_add_kill(swarm *s, const char *spec, braid_error *error);
// "N@iteration:K": N more relays.
braid_err chaos_add_late(swarm *s, const char *spec, braid_error *error);
// "kills=5,joins=2,data=1,leader=1,within=40,seed=7" over `iterations` or the first 40; the first
// `from` of them are done.
braid_err chaos_add_random(swarm *s, const char *spec, uint64_t from, uint64_t iterations, braid_error *error);
// Kills all relays of a stage.
void chaos_take_stage(swarm *s, uint64_t number);
// Carries out the orders that are due.
void chaos_step(swarm *s);
// Whether it may become a voter, by its role and the order of joining.
bool chaos_may_vote(const swarm *s, const child *c);
// Whether it, or a member of this whole-model peer, is a voter in the log.
bool chaos_votes(const swarm *s, const child *c);
// Reads a child's line of voters; false: it is another kind of line.
bool chaos_voters_line(swarm *s, const child *c, const char *line);

// up_orders.c
// Rejects impossible orders; call it when all orders are known.
braid_err orders_check(const swarm *s, braid_error *error);
// Records the ordered death of a child.
void orders_note_death(swarm *s, const child *c);
// Reports at the end the orders that were not carried out, and why.
void orders_tell(const swarm *s);

// up_source.c
braid_err swarm_keep_description(swarm *s, const char *path, braid_error *error);

// up_keys.c
// With private data: creates the directory for identities and logs, and removes it at the end.
braid_err swarm_open_keys(swarm *s, braid_error *error);
void swarm_close_keys(swarm *s);

// up_measure.c
// Reads a child's line of figures; false: it is another kind of line.
bool measure_line(child *c);
// Called when the leader reports an iteration.
void measure_iteration_over(swarm *s);
// Writes the scenario that `braid sim` reads.
braid_err measure_write(const swarm *s, braid_error *error);

// up_losses.c
// Records a repair, a kill (with its `member`) or the leader's report of a lost member.
void losses_note(swarm *s, const report_event *news);
// Records a takeover of a lost member's microbatches.
void losses_note_takeover(swarm *s, const report_event *news);
bool losses_know_takeover(const swarm *s, const report_event *news);
// Prints at the end one line per loss, with the repairs that it caused. Prints nothing with --json,
// which has the events.
void losses_tell(const swarm *s);

// up_data.c
braid_err swarm_prepare_data(swarm *s, braid_error *error);

#endif
