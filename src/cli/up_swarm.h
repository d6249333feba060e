// A swarm on this machine: the supervisor's view of its child processes, and what it does to them on purpose.
#ifndef BRAID_CLI_UP_SWARM_H
#define BRAID_CLI_UP_SWARM_H

#include "base/err.h"
#include "base/machine.h"
#include "base/rng.h"
#include "cli/report.h"
#include "cli/up_cause.h"
#include "cli/up_restart.h"
#include "node/fault.h"
#include "node/measure.h"

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
    UP_PROMOTE_MS = 60000,  // after a stage's last peer, for a shadow to do its work
    UP_LOST_MS = 3000,      // the run is to end and a stage has no peer: so long is waited for one that is about to join
    UP_ELECT_MS = 20000,    // so much later while nobody leads, or who leads has not missed it
    UP_MAX_KEY_PATH = 1024,
    UP_LEAVE_MS = 10000,  // after the run's end, for the others to go by themselves
    UP_HURRY_ITERATIONS = 3,  // after these a data peer is killed that did not come to where it should die, and a relay that had no work is spared
    UP_REPLACED_MS = 1500,  // after a voter's end, if it was expelled by then, another one votes
    UP_RELAY_NICE = 5,    // below the leader's loop, which everybody waits for
};

typedef enum child_role { CHILD_LEADER, CHILD_DATA, CHILD_RELAY } child_role;

typedef struct swarm swarm;

typedef struct child {
    swarm *swarm;
    child_role role;
    uint32_t number;       // relay 1, 2, ...; data peers: the leader is 1. With private data it is the share, too
    char name[16];         // "relay3", "data2", "leader"
    uv_process_t process;
    uv_pipe_t commands, events, complaints;
    uint32_t open_handles;
    pid_t pid;
    bool alive, killed;    // killed: on purpose
    bool armed;            // will die by itself soon
    bool takes_stage;      // and all others of its stage with it
    bool spared;           // was armed, and may not have heard yet that it is to live
    uint64_t spared_version;  // how far it was when it was told
    fault_point armed_at;
    uint64_t armed_iteration;
    uint32_t order;        // the action that armed it
    uint32_t idle;         // iterations since it computed anything, as it said last
    bool told_end;
    bool exited, heard_out;  // its exit is known; all that it said has been read
    int64_t status;
    int signal_number;
    uint64_t gone_ms;      // when its end was known
    uint64_t return_ms;    // when its text's next peer is started, 0: not to be
    uint64_t began_ms, began_at;  // when it was started, and how far the run had come by then
    uint32_t for_stage;    // a relay that was started because this stage had none left, 0: not so
    restart_record text_deaths;   // a data peer with private data: of those that had its text, itself included
    bool voted;            // it may have, then
    char peer[REPORT_HASH_TEXT];
    char ticket[512];      // that leads to it
    bool joined, ready;    // member of a stage; its state is whole
    bool listed;           // the log still has it as one, dead or not
    uint64_t member, stage, version;
    uint64_t generation;   // of the run, as it said last
    char line[REPORT_MAX_LINE];
    size_t line_bytes;
    bool measured;
    double processor_s;    // that it had, when last looked at
    double computed_seconds, wasted_seconds;  // as it said last
    uint64_t wasted, carried, carried_bytes;
    node_figures figures;  // the newest, when `measured`
    char complaint[512];   // the last line on its standard error
    char cause[CAUSE_TEXT];  // the cause of its death, "": it was asked to end
    size_t complaint_bytes;
    char input[4096];
} child;

typedef enum action_kind { ACTION_KILL, ACTION_ARM, ACTION_SPAWN } action_kind;

// Why nobody was chosen to die: of all who might have been, whoever was nearest to it.
typedef enum order_wait {
    WAIT_NOT,      // nothing is in the way, or it was not tried
    WAIT_MISSING,  // there is nobody
    WAIT_DEAD,
    WAIT_DYING,    // on another order
    WAIT_BEHIND,   // not as far as the run
    WAIT_LAST,     // its stage would not go on
    WAIT_VOTES,    // too few would vote
    WAIT_SHADOW,   // the stage has no shadow yet
} order_wait;

// A member that is none of our children, or none that has said its id yet.
typedef struct guest {
    char peer[REPORT_HASH_TEXT];
    uint64_t member, stage;
    bool shadow;
} guest;

enum { UP_MAX_LOSSES = 256, UP_MAX_PHASES = 8 };

// A member that was lost.
typedef struct loss {
    uint64_t member, stage;
    bool placed;           // the stage is known
    bool killed;           // on purpose
    char peer[REPORT_HASH_TEXT];
    char killed_in[24];    // the point of death on order
    char reason[64];       // why the leader expelled it
    uint64_t taken;        // microbatches of each iteration that others took over from it
    uint32_t repairs;
    struct {
        char name[24];
        uint32_t count;
    } phase[UP_MAX_PHASES];  // of the repairs
} loss;

// What the machine did meanwhile, for --measure: since the first iteration that counts.
typedef struct up_clock {
    uint32_t seen;
    double start_s, last_s;
    double idle_s, ours_s;   // processor time that nobody has used on this machine, and that our processes have; as of `last_s`
    double *cores;           // [seen - MEASURE_WARM_UP], of `room`: what others left to us, by iteration
    uint32_t room;
} up_clock;

// Something to be done at an iteration, or as soon afterwards as it is safe.
typedef struct action {
    action_kind kind;
    uint64_t iteration;
    child_role role;  // of the victim, or of those who come
    uint32_t number;  // the victim's, 0: any that can be spared
    uint32_t count;   // ACTION_SPAWN
    uint32_t stage;   // all relays of this stage die at once, 0: one peer does
    fault at;         // ACTION_ARM
    bool done;
    bool came;        // and what was ordered has happened
    order_wait waits;  // else
    char victim[16];  // ACTION_ARM: who was told to die, "": nobody
    const char *spec;  // as the user gave it, NULL: of --chaos
} action;

struct swarm {
    uv_loop_t loop;
    uv_timer_t tick;
    uv_poll_t signals;
    report *report;
    report_style style;
    child *children[UP_MAX_CHILDREN];
    uint32_t child_count, relay_count, alive;
    action actions[UP_MAX_ACTIONS];
    uint32_t action_count, kills, repairs;
    loss losses[UP_MAX_LOSSES];
    uint32_t loss_count;
    struct {
        uint64_t gone, heir;  // members
    } takeover[UP_MAX_LOSSES];  // that were told
    uint32_t takeover_count;
    rng random;

    // what the children are started with
    const char *run_path, *resume, *log, *trace, *measure;
    bool private_data;
    bool elastic;               // ... and it goes on without a data peer after a while
    bool anew;                  // newer checkpoints are set aside
    bool continues;             // from the run's newest checkpoint
    char keys[UP_MAX_KEY_PATH];  // with private data: a directory for the data peers' identities and, without --log, their logs; they come back with their texts
    int keys_fd;                 // ... which is locked
    uint32_t stages;
    uint64_t iterations;
    uint64_t data_peers, relays, shadows, threads, capacity, max_memory, voters, carried;
    char program[1024];
    char ticket[512];
    char run_copy[32];  // of a description that can be read only once
    machine machine;
    char memory_note[512];  // for the start; "": none

    guest guests[WIRE_MAX_MEMBERS];  // somebody used the ticket
    uint32_t guest_count;
    child *leading;             // NULL: nobody, as far as is known
    uint64_t newest_member;     // that was told of
    uint64_t iteration, first;  // versions that were reported
    uint64_t generation;        // how often the run went back, and one; 0: it did not
    uint64_t tokens, start_ms;
    bool started, draining, ending, failed;
    bool dropped;               // ... and the iteration under way is not waited for
    uint64_t stop_ms;           // when the orderly end was asked for
    uint64_t stop_within_ns;
    uint64_t leave_deadline_ms;
    uint64_t bereft_ms[WIRE_MAX_STAGES];  // when relays are started for a stage that has none, 0: it has some
    uint64_t lost_ms[WIRE_MAX_STAGES];    // since when it has none
    restart_record deaths[WIRE_MAX_STAGES];  // of each stage's relays,
    const child *last_dead[WIRE_MAX_STAGES]; // and the newest of them
    uint64_t furthest;          // iteration that the run ever reached
    uint64_t saved;             // version of the newest checkpoint,
    char saved_path[1024];      // "": none was written
    cause_memory memory;        // of this container, when the newest child died
    report_event end;           // the last line of who had the weights
    up_clock clock;             // with --measure
    char why[512];
};

// up_children.c
braid_err swarm_spawn(swarm *s, child_role role, braid_error *error);
// The data peer with its share of the private data, and its identity.
braid_err swarm_spawn_again(swarm *s, const child *gone, braid_error *error);
void child_command(child *c, const char *text);
void child_kill(child *c);
// Closes what is left of every child, which must be dead; call before the loop ends.
void swarm_free_children(swarm *s);

// up_story.c
void swarm_event(swarm *s, child *c, const report_event *news);
// Its state is whole, and of that iteration.
void swarm_advanced(swarm *s, child *c, uint64_t version);
// The first leader has the only vote: the run ends with it.
bool story_has_one_voice(const swarm *s);
void story_sum_work(const swarm *s, report_event *news);  // sets what all processes have computed so far, the dead too

// up.c
void swarm_spawn_others(swarm *s);
void swarm_fail(swarm *s, const char *why);
bool stage_works(const swarm *s, uint64_t number, const child *but);
void swarm_note(swarm *s, const char *text);
// Somebody keeps its state who does not do its work.
bool stage_is_shadowed(const swarm *s, uint64_t number);
// A member of that stage has left in order; if it was the last one, others are started.
void swarm_stage_left(swarm *s, uint64_t number);
void swarm_child_gone(swarm *s, child *c, int64_t status, int signal);

// up_stages.c
// It is gone, and not on purpose: counts towards giving up.
void stages_note_death(swarm *s, child *c);
// A stage has lost its last peer: when others are started, unless that is hopeless.
void stage_bereft(swarm *s, uint64_t number);
// The only peer with a text is gone.
void text_bereft(swarm *s, child *c);
// The only peer with a text is gone, and may be started again.
bool swarm_may_return(const swarm *s, const child *c);
// Starts what is due, and ends a run that cannot go on.
void stages_tick(swarm *s);
// The newest checkpoint, as a remedy: ". Go on from ... (--resume)".
void swarm_way_on(const swarm *s, char *text, size_t room);

// up_chaos.c
// "WHO@iteration:K", "WHO@POINT[:COUNT]" (from the start) or "WHO@iteration:K/POINT[:COUNT]"; WHO is relayN, any (relay), dataN, data (any but who leads) leader (who leads)
// or stage:N (all relays of that stage, when the first of them dies).
braid_err chaos_add_kill(swarm *s, const char *spec, braid_error *error);
// "N@iteration:K": N more relays.
braid_err chaos_add_late(swarm *s, const char *spec, braid_error *error);
// "kills=5,joins=2,data=1,leader=1,within=40,seed=7" over `iterations`, or the first 40, of which the first `from` are done.
braid_err chaos_add_random(swarm *s, const char *spec, uint64_t from, uint64_t iterations, braid_error *error);
// Kills all relays of a stage.
void chaos_take_stage(swarm *s, uint64_t number);
// Does what is due.
void chaos_step(swarm *s);
bool chaos_may_vote(const swarm *s, const child *c);

// up_orders.c
// Refuses an order to die or to come that cannot come about, when all of them are known.
braid_err orders_check(const swarm *s, braid_error *error);
// One of ours has died on purpose.
void orders_note_death(swarm *s, const child *c);
// For the end: which did not come about, and why.
void orders_tell(const swarm *s);

// up_source.c
braid_err swarm_keep_description(swarm *s, const char *path, braid_error *error);

// up_keys.c
// With private data: where identities and logs are kept until the end, and their end.
braid_err swarm_open_keys(swarm *s, braid_error *error);
void swarm_close_keys(swarm *s);

// up_measure.c
// A child's line of figures; false: it is another one.
bool measure_line(child *c);
// The leader has told of an iteration.
void measure_iteration_over(swarm *s);
// Writes the scenario that `braid sim` reads.
braid_err measure_write(const swarm *s, braid_error *error);

// up_losses.c
// A repair, a kill (with its `member`) or what the leader says of a lost member.
void losses_note(swarm *s, const report_event *news);
// Somebody has taken over its microbatches.
void losses_note_takeover(swarm *s, const report_event *news);
bool losses_know_takeover(const swarm *s, const report_event *news);
// For the end: a line for each, with the repairs that it made necessary. Nothing with --json, which has the events.
void losses_tell(const swarm *s);

#endif
