// One simulated run: its peers, links and faults. A case is drawn from a seed or written by a test.
#ifndef BRAID_SIM_CASE_H
#define BRAID_SIM_CASE_H

#include "braid/job.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_MAX_CRASHES = 16, SIM_MAX_JOINS = 8, SIM_MAX_FLAPS = 16, SIM_MAX_TROUBLES = 8, SIM_MAX_ARRIVALS = 4, SIM_ASYMMETRY = 8 };

// The moment of a crash, relative to an action of the victim.
typedef enum sim_moment {
    SIM_AT_TIME,
    SIM_BEFORE_SEND,     // before it sends a message of `kind`, which is lost with all later ones
    SIM_AFTER_SEND,
    SIM_BEFORE_MESSAGE,  // a message arrives at the dead peer
    SIM_AFTER_MESSAGE,   // after the effects of a message
    SIM_BEFORE_JOB,      // after it requested a job of `kind`
    SIM_AFTER_JOB,       // the job is computed, its result is not reported
    SIM_AFTER_JOB_TOLD,  // the result is reported, and its effects are done
    SIM_MOMENTS
} sim_moment;

typedef struct sim_crash {
    sim_moment moment;
    uint8_t kind;        // message_kind or job_kind
    uint64_t iteration;  // earliest iteration
    uint32_t skip;       // number of such moments that pass first
    uint64_t at_ns;      // SIM_AT_TIME only
    bool data;           // the victim is a data peer instead of a relay
    bool leader;         // the victim is the leader
    // all workers of the victim's stage die with it, while a standby can continue
    bool stage;
    // also its standbys die, so that all copies of the state are lost; data peers restart with
    // their identity
    bool lost;
    bool keeps_store;    // with same_id: the restarted process finds its durable log
    // the machine dies: links fall late and dials time out; otherwise the kernel closes the links
    bool machine;
    bool restart;        // a new process starts afterwards
    bool same_id;
    uint64_t restart_ns;
} sim_crash;

// Faults of peers that stay alive.
typedef enum sim_trouble_kind {
    SIM_SLOW,          // a relay computes `factor` times slower than it announced
    SIM_PAUSE,         // a relay is paused; its links stay up
    SIM_PAUSE_DATA,    // a data peer is paused
    SIM_PAUSE_LEADER,  // the leader is paused
    SIM_DRAIN,         // a relay is asked to leave
    SIM_DRAIN_DATA,    // a data peer other than the leader is asked to leave
    SIM_DRAIN_LEADER,  // the run is asked to end
    SIM_CUT,           // a peer other than the leader is cut off; messages arrive after the cut
    SIM_CUT_ONE_WAY,   // a cut in one direction only
    SIM_CLOCK_JUMPS,   // a peer's clock jumps ahead by `for_ns`
    SIM_PARTITION,     // a partition into two sides; messages between them arrive after it
    // one side's messages do not arrive at the other, which is received normally
    SIM_PARTITION_ONE_WAY,
    SIM_TROUBLES
} sim_trouble_kind;

typedef struct sim_trouble {
    sim_trouble_kind kind;
    uint32_t factor;
    uint64_t at_ns;
    uint64_t for_ns;  // for a data peer that leaves an elastic run: time until it returns, 0: never
} sim_trouble;

// A joiner that starts when the first message of `kind` in `iteration` is sent.
typedef struct sim_arrival {
    uint8_t kind;
    uint64_t iteration;
} sim_arrival;

// Planted mistakes. The checkers must notice each of them.
typedef enum sim_mutant {
    SIM_MUTANT_NONE,
    // a weight gradient is added together with the input gradient, without a COMMIT
    SIM_MUTANT_EAGER_WEIGHT,
    SIM_MUTANT_LOST_WEIGHT,    // a weight gradient is never added
    SIM_MUTANT_MOVED_PART,     // a packed part does not contain the set in its header
    // a COMMIT that is kept is also answered with DENY COMMIT(MISSING): two holders
    SIM_MUTANT_FORGED_DENY,
    SIM_MUTANT_LOST_COUNTED,   // COUNTED never arrives: the run must be found to be stuck
    // a state chunk differs from the donor's, and its hash is not checked
    SIM_MUTANT_WRONG_STATE,
    SIM_MUTANT_EARLY_APPLY,    // results are applied before FINAL
    SIM_MUTANT_SHADOW_SKIPS,   // a standby does not apply the results of iteration 1
    SIM_MUTANT_SHADOW_TWICE,   // a standby applies the results of an iteration twice
    SIM_MUTANT_UNROUNDED,      // a block's owner keeps another result than the one that it sends
    SIM_MUTANT_IMAGINES_SAVES,  // a data peer claims that every checkpoint is on its disk
    // a forward repeated by another relay differs in its last bit, as without the codec's rounding
    SIM_MUTANT_UNROUNDED_REPAIR,
    // from here on the protocol core breaks a rule itself (peer_mutant)
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
    SIM_MUTANT_MOVES_WITH_SUM,
    SIM_MUTANT_MOVES_AT_WORK,
    SIM_MUTANT_MOVES_TO_THE_FULL,
    SIM_MUTANT_MOVES_SEVERAL,
    SIM_MUTANT_MOVES_AGAIN,
    SIM_MUTANT_READY_EARLY,
    SIM_MUTANTS
} sim_mutant;

// The links of a case, their message faults, and relayed transfers.
typedef struct sim_case_network {
    uint64_t latency_ns, jitter_ns, payload_ns;  // upper bounds for one link
    // links differ by direction, and some are much slower than others
    bool asymmetric;
    uint32_t lost_permille, doubled_permille;    // rates for messages without a payload
    uint32_t doubled_tensors;                    // rate for messages with a payload, per 1,000
    // for two of three peers one record in eight takes up to 1.5 s
    bool slow_stores;
    uint8_t carried_percent;                     // share of tensors that take a relayed transfer
    // the first relay corrupts the tensors that it forwards
    bool forwarder_corrupts;
} sim_case_network;

// Properties of fake kernels; real kernels ignore them.
typedef struct sim_case_fake {
    // shares of microbatches with a loss that is not finite, or with an overflowing sum
    uint32_t void_percent, overflow_percent;
    // blocks of each stage's state; 0: a few, from the seed
    uint32_t blocks;
    // not reproducible mode; sums of fake kernels are exact all the same
    bool fast;
} sim_case_fake;

typedef struct sim_case_routing {
    uint8_t routing, objective;                  // router_algorithm, router_objective
    bool plan_first;                             // router_config.plan_first
} sim_case_routing;

typedef struct sim_case {
    uint64_t seed;
    uint16_t stages;
    uint32_t data_peers, relays, microbatches, iterations, slots;
    uint32_t data_capacity, relay_capacity;
    uint64_t compute_ns;                         // approximate time of one F
    uint32_t eval_every, eval_microbatches;      // held-out losses between iterations; 0: none
    uint32_t checkpoint_every;
    // checkpoints on disk are readable but hold another state than was saved
    bool wrong_checkpoints;
    uint32_t crashes, joins;
    sim_crash crash[SIM_MAX_CRASHES];
    uint64_t join_ns[SIM_MAX_JOINS];
    uint32_t flaps;                              // connections between living peers that break
    uint64_t flap_ns[SIM_MAX_FLAPS];
    uint32_t troubles, arrivals;
    sim_trouble trouble[SIM_MAX_TROUBLES];
    sim_arrival arrival[SIM_MAX_ARRIVALS];
    // first version of a run that resumes a checkpoint; fake kernels only
    uint64_t start_version;
    // the first relays, which send wrong state; with an odd seed also wrong names
    uint32_t corrupt_donors;
    // joiners already have the checkpoint of `start_version`
    bool copies;
    // slow enough that living peers may be suspected and their work repaired
    bool rough;
    bool data_deaths;                            // data peers other than the leader may die, too
    bool leader_deaths;                          // the leader may die, too
    // each of the first data peers has a shard of its own
    bool private_data;
    // an iteration waits for private data for `patience_ns` at most
    bool elastic;
    uint64_t patience_ns;
    // most voters of the log; 0 or 1: only the first leader
    uint32_t voters;
    // entries after which a durable log is compacted; 0: the core's default
    uint32_t store_entries;
    // how many of the joiners, the last ones, are data peers
    uint32_t data_joins;
    bool moves;                                  // the leader moves relays, gain or not
    // standbys wanted for each stage; standby processes
    uint32_t shadows, shadow_peers;
    uint32_t awaited;                            // joiners that must be there before the run starts
    bool check_late_decisions;                            // a tick right after each step must have no effect
    sim_case_network net;
    sim_case_fake fake;
    sim_case_routing router;
    sim_mutant mutant;
} sim_case;

// A run of `relays` relays over `stages` stages without faults. Tests change fields afterwards.
sim_case sim_case_plain(uint64_t seed, uint16_t stages, uint32_t data_peers, uint32_t relays, uint32_t microbatches, uint32_t iterations);
// A case drawn from the seed: shape, links, crashes, joins. `real`: only shapes of which few exist,
// so that their one-process runs can be kept.
sim_case sim_case_random(uint64_t seed, bool real);
// Adds broken connections between living peers, drawn from the case's seed.
void sim_case_add_flaps(sim_case *c);
// Makes half of all tensors relayed transfers in pieces. In every fourth case the forwarder
// corrupts them.
void sim_case_add_forwarders(sim_case *c);
// Turns the case into an unusual run: one or two stages, single slots, fast mode, a resumed
// checkpoint, asymmetric links, pauses, slow peers, departures, losses in several stages at once.
// Fake kernels only.
void sim_case_make_unusual(sim_case *c);
// Relays move; more of them, and more iterations.
void sim_case_add_moves(sim_case *c);
// Makes data peers die, restart and be cut off as often as relays do. Messages are lost and
// duplicated, clocks jump.
void sim_case_add_data_deaths(sim_case *c);
// Makes the leader die at the moments in which it decides. Three or five peers vote.
void sim_case_add_leader_deaths(sim_case *c);
// Makes most dead peers restart soon with their durable log, many during a vote or an admission.
// Some peers leave, and logs are compacted after very few entries.
void sim_case_add_restarts(sim_case *c);
// Makes voters compact their logs after a few entries.
void sim_case_shorten_stores(sim_case *c);
// Gives relays one slot or two, data peers more, and a stage hardly more than one relay. The case
// exercises waits for slots and evictions. `real` as above.
void sim_case_add_scarce_slots(sim_case *c, bool real);
// Gives each data peer private data, so that it restarts with its identity. Call this last.
void sim_case_make_private(sim_case *c);
// Adds standbys for every stage. At some moments all workers of a stage die at once.
void sim_case_add_stage_deaths(sim_case *c);
// At some moments all holders of a stage's state die at once, and the run must roll back. Data
// peers are among them where they may die and several peers vote.
void sim_case_add_stage_losses(sim_case *c);
// Partitions the swarm for a while, once or twice.
void sim_case_add_partitions(sim_case *c);
// Lets the run go on without missing private data after a timeout. Dead data peers need not
// restart.
void sim_case_make_elastic(sim_case *c);
// Asks data peers to leave; half of them return. Where leaders die the run may be asked to end. On
// fake kernels (not `real`) some microbatches are void.
void sim_case_add_departures(sim_case *c, bool real);
// True for a run without deaths, pauses, departures and broken links, and without links so slow that
// they look dead. Such a run may repair nothing.
bool sim_case_is_faultless(const sim_case *c);
// A rough upper bound for the virtual time of a run without faults.
uint64_t sim_case_faultless_ns(const sim_case *c);
// Writes a description in several lines.
void sim_case_describe(const sim_case *c, char *text, size_t capacity);
const char *sim_moment_name(sim_moment moment);
const char *sim_trouble_name(sim_trouble_kind kind);
const char *sim_mutant_name(sim_mutant mutant);
const char *sim_job_name(job_kind kind);

#endif
