// One simulated run: who takes part, how its links are, what fails when. Drawn from a seed or written by a test.
#ifndef BRAID_SIM_CASE_H
#define BRAID_SIM_CASE_H

#include "protocol/job.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_MAX_CRASHES = 16, SIM_MAX_JOINS = 8, SIM_MAX_FLAPS = 16, SIM_MAX_TROUBLES = 8, SIM_MAX_ARRIVALS = 4, SIM_LOPSIDED = 8 };

// The moment of a crash, relative to what the victim does.
typedef enum sim_moment {
    SIM_AT_TIME,
    SIM_BEFORE_SEND,     // of a message of `kind`: it and all that follows is lost
    SIM_AFTER_SEND,
    SIM_BEFORE_MESSAGE,  // the message arrives at a dead peer
    SIM_AFTER_MESSAGE,   // its effects are out
    SIM_BEFORE_JOB,      // of a job of `kind`: the request is the last thing it did
    SIM_AFTER_JOB,       // computed, never told
    SIM_AFTER_JOB_TOLD,  // told, and its effects are out
    SIM_MOMENTS
} sim_moment;

typedef struct sim_crash {
    sim_moment moment;
    uint8_t kind;        // message_kind or job_kind
    uint64_t iteration;  // not before
    uint32_t skip;       // so many such moments pass first
    uint64_t at_ns;      // SIM_AT_TIME
    bool data;           // a data peer dies, not a relay
    bool leader;         // whoever leads dies
    bool stage;          // all that work for the victim's stage die with it, while a shadow can go on
    bool lost;           // ... and its shadows, so that nobody has its state any more; data peers come back as themselves
    bool keeps_store;    // with same_id: what it had stored of the log is found again
    bool machine;        // dies without a word: links fall late, dials time out; else the kernel closes its links
    bool restart;        // a new process follows
    bool same_id;
    uint64_t restart_ns;
} sim_crash;

// What else may befall a living peer.
typedef enum sim_trouble_kind {
    SIM_SLOW,          // a relay computes `factor` times slower than it has said
    SIM_PAUSE,         // a relay stands still; its links do not fall
    SIM_PAUSE_DATA,    // the same of a data peer
    SIM_PAUSE_LEADER,  // the same of the leader
    SIM_DRAIN,         // a relay is asked to leave
    SIM_DRAIN_DATA,    // a data peer other than the leader is
    SIM_DRAIN_LEADER,  // the run is asked to end
    SIM_CUT,           // a peer other than the leader is cut off: what is sent arrives when that is over
    SIM_CUT_ONE_WAY,   // in one direction only
    SIM_CLOCK_JUMPS,   // a peer's clock jumps ahead by `for_ns`
    SIM_PARTITION,     // some peers and the others do not hear each other: what is sent arrives when that is over
    SIM_PARTITION_ONE_WAY,  // some are not heard by the others, and hear them
    SIM_TROUBLES
} sim_trouble_kind;

typedef struct sim_trouble {
    sim_trouble_kind kind;
    uint32_t factor;
    uint64_t at_ns;
    uint64_t for_ns;  // of a data peer that leaves an elastic run: until it is back, 0: never
} sim_trouble;

// A joiner that comes when a message of `kind` is sent for the first time in `iteration`.
typedef struct sim_arrival {
    uint8_t kind;
    uint64_t iteration;
} sim_arrival;

// Deliberately wrong behaviour, put in between peers and their world: the checkers must notice each.
typedef enum sim_mutant {
    SIM_MUTANT_NONE,
    SIM_MUTANT_EAGER_WEIGHT,   // a weight gradient is added when the input gradient is, without a commit
    SIM_MUTANT_LOST_WEIGHT,    // a weight gradient is never added
    SIM_MUTANT_MOVED_PART,     // a packed part is not what its set says
    SIM_MUTANT_FORGED_DENY,    // a COMMIT that is kept is answered with DENY(MISSING) too: two holders
    SIM_MUTANT_LOST_COUNTED,   // COUNTED never arrives: the run must be seen to be stuck
    SIM_MUTANT_WRONG_STATE,    // a state chunk is not what the donor has, and is taken without a look at its name
    SIM_MUTANT_EARLY_APPLY,    // results are applied when they are there, before FINAL
    SIM_MUTANT_SHADOW_SKIPS,   // a shadow does not apply the results of iteration 1
    SIM_MUTANT_SHADOW_TWICE,   // and another one twice
    SIM_MUTANT_UNROUNDED,      // a block's owner keeps another number than the one that it gives away
    SIM_MUTANT_IMAGINES_SAVES, // a data peer finds each checkpoint on its disk, wherever it lies
    // the core breaks a rule itself (peer_mutant)
    SIM_MUTANT_MOVES_ON_SUSPICION,
    SIM_MUTANT_FREES_AT_COMMIT,
    SIM_MUTANT_COMPLETE_ENDS_GUARD,
    SIM_MUTANT_COMMITS_TWICE,
    SIM_MUTANT_SAME_NAME,
    SIM_MUTANT_NO_EVICTION,
    SIM_MUTANT_FREES_AT_FINAL,
    SIM_MUTANT_REFUSES_SILENTLY,
    SIM_MUTANT_ROUTES_ACROSS_FALLS,
    SIM_MUTANT_ROUTES_TO_THE_GONE,
    SIM_MUTANT_ROUTES_TOO_MUCH,
    SIM_MUTANT_COMMITS_UNANSWERED,
    SIM_MUTANT_OBEYS_OLDER_OWNER,
    SIM_MUTANT_FORGETS_COMMITTED,
    SIM_MUTANT_KEEPS_ITS_NUMBER,
    SIM_MUTANT_KEEPS_ITS_SUM,
    SIM_MUTANT_ONE_ROUND,
    SIM_MUTANT_LENDS_SHARES,
    SIM_MUTANT_PROMOTES_EARLY,
    SIM_MUTANT_COUNTS_SHADOWS,
    SIM_MUTANT_ROUND_BEFORE_CLOSE,
    SIM_MUTANT_KEEPS_LOSERS,
    SIM_MUTANT_RECORDS_ARE_TRUTH,
    SIM_MUTANT_OLD_RESULTS,
    SIM_MUTANT_TRUSTS_DONORS,
    SIM_MUTANT_WAITS_FOR_THE_DEAD,
    SIM_MUTANT_FORWARDS_ANYTHING,
    SIM_MUTANT_KEEPS_LEFT_OUT,
    SIM_MUTANT_DIVIDES_BY_ALL,
    SIM_MUTANT_HEARS_THE_PAST,
    SIM_MUTANT_KEEPS_THE_PAST,
    SIM_MUTANT_LETS_THE_LAST_GO,
    SIM_MUTANT_GOES_BACK_FOR_ONE,
    SIM_MUTANT_EVICTS_COMMITTED,
    SIM_MUTANTS
} sim_mutant;

typedef struct sim_case {
    uint64_t seed;
    uint16_t stages;
    uint32_t data_peers, relays, microbatches, iterations, slots;
    uint32_t data_capacity, relay_capacity;
    uint64_t latency_ns, jitter_ns, payload_ns;  // of a link, at most
    uint64_t compute_ns;                         // of one F, about
    uint32_t void_percent, overflow_percent;     // fake kernels only
    uint32_t eval_every, eval_microbatches;      // held-out losses between iterations, 0: none
    uint32_t checkpoint_every;
    bool spoilt_saves;      // what lies on disks is another state than was saved, though it can be read
    uint32_t crashes, joins;
    sim_crash crash[SIM_MAX_CRASHES];
    uint64_t join_ns[SIM_MAX_JOINS];
    uint32_t flaps;                              // a link between two living peers falls
    uint64_t flap_ns[SIM_MAX_FLAPS];
    uint32_t troubles, arrivals;
    sim_trouble trouble[SIM_MAX_TROUBLES];
    sim_arrival arrival[SIM_MAX_ARRIVALS];
    uint64_t start_version;                      // the run goes on from a checkpoint; fake kernels only
    uint32_t blocks;                             // of each stage's state; 0: few, from the seed. Fake kernels only
    uint32_t liars;                              // relays, the first ones, that send state which is not what they have; with an odd seed, names too
    bool copies;                                 // joiners have the checkpoint of `start_version` already
    bool rough;                                  // so slow or shared that living peers may be suspected and repaired
    bool fast;                                   // not reproducible; sums of fake kernels are exact all the same
    bool lopsided;                               // the two ways of a link differ, and some are much slower than others
    bool data_deaths;                            // data peers other than the leader may die, too
    bool leader_deaths;                          // and the leader
    bool private_data;                           // each of the first data peers has a share of its own
    bool elastic;                                // an iteration waits for them for `patience_ns` at most
    uint64_t patience_ns;
    uint32_t voters;                             // of the log, at most; 0 or 1: the first leader alone
    uint32_t store_entries;                      // voters begin their stores anew after so many; 0: as many as is sensible
    uint32_t data_joins;                         // of the joiners, the last ones are data peers
    uint32_t lost_permille, doubled_permille;    // of the messages without a payload
    uint32_t doubled_tensors;                    // ... and of those with one, of 1,000
    bool slow_stores;                            // of two in three peers: one record in eight takes up to 1.5 s
    uint32_t shadows, shadow_peers;              // of each stage; processes that offer themselves
    uint8_t carried_percent;                     // of tensors that go by way of somebody
    bool spoiled;                                // ... and the first relay changes what it carries
    uint32_t awaited;                            // joiners without which the run does not start
    uint8_t routing, objective;                  // router_algorithm, router_objective
    bool plan_first;                             // router_config.plan_first
    bool looks_again;                            // a tick right after each step must have no effect
    sim_mutant mutant;
} sim_case;

// A quiet run of `relays` relays over `stages` stages; fields may be changed afterwards.
sim_case sim_case_plain(uint64_t seed, uint16_t stages, uint32_t data_peers, uint32_t relays, uint32_t microbatches, uint32_t iterations);
// Everything from the seed: shape, links, crashes, joins. `real`: only shapes of which few exist, so that the
// one-process runs they are compared with can be kept.
sim_case sim_case_random(uint64_t seed, bool real);
// Adds links that fall although nobody dies, from the case's seed.
void sim_case_add_flaps(sim_case *c);
// Half of all tensors go in pieces by way of somebody, who in every fourth case spoils them.
void sim_case_add_carriers(sim_case *c);
// Turns it, from its seed, into one of the less ordinary runs: one or two stages, single slots, fast mode, from a
// checkpoint, lopsided links, peers that pause, slow down or leave, losses in several stages at once. Fake kernels only.
void sim_case_add_oddities(sim_case *c);
// Lets data peers die, be cut off and come back as often as relays do; messages are lost and doubled, clocks jump.
void sim_case_add_data_deaths(sim_case *c);
// The same of whoever leads, at the moments in which it decides; three or five vote.
void sim_case_add_leader_deaths(sim_case *c);
// ... and most of those that die are back soon with what they had stored, many when they vote or are let in; some take their leave; stores are very short.
void sim_case_add_comebacks(sim_case *c);
// Voters begin their stores anew after a few entries.
void sim_case_shorten_stores(sim_case *c);
// Relays have one slot or two, data peers more, and a stage hardly more than one relay: what waits for a slot, and what gives way. `real` as above.
void sim_case_add_crowds(sim_case *c, bool real);
// Gives each data peer data of its own: who dies comes back as itself. The last to be called.
void sim_case_make_private(sim_case *c);
// Shadows keep every stage; at some moments all that work for a stage die at once.
void sim_case_add_stage_deaths(sim_case *c);
// At some moments all that have a stage's state die at once, and the run must go back. Of data peers where they may die and several vote.
void sim_case_add_stage_losses(sim_case *c);
// Some peers are cut off from the others for a while, once or twice.
void sim_case_add_partitions(sim_case *c);
// Lets it go on without them after a while; who dies need not come back.
void sim_case_make_elastic(sim_case *c);
// ... and data peers are asked to leave, of whom half come back; where leaders die the run may be asked to end; on fake kernels (not `real`)
// microbatches are void.
void sim_case_add_leavers(sim_case *c, bool real);
// Nobody dies, pauses or leaves, no link falls, and none is so slow that it looks as if: then nothing may be repaired.
bool sim_case_quiet(const sim_case *c);
// A rough upper estimate of the virtual time that a run without faults takes.
uint64_t sim_case_quiet_ns(const sim_case *c);
// Writes lines for people.
void sim_case_describe(const sim_case *c, char *text, size_t capacity);
const char *sim_moment_name(sim_moment moment);
const char *sim_trouble_name(sim_trouble_kind kind);
const char *sim_mutant_name(sim_mutant mutant);
const char *sim_job_name(job_kind kind);

#endif
