#include "sim/case.h"

#include "base/err.h"
#include "base/rng.h"
#include "routing/core/router.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t MILLISECOND = 1000000;
static const uint64_t SECOND = 1000000000;

const char *sim_moment_name(sim_moment moment) {
    static const char *const names[SIM_MOMENTS] = {"at a time", "before sending", "after sending", "before receiving", "after receiving",
                                                   "before a job", "after a job, untold", "after a job"};
    return moment < SIM_MOMENTS ? names[moment] : "?";
}

const char *sim_trouble_name(sim_trouble_kind kind) {
    static const char *const names[SIM_TROUBLES] = {"a relay slows down", "a relay pauses", "a data peer pauses", "the leader pauses",
                                                    "a relay is asked to leave", "a data peer is asked to leave", "the run is asked to end",
                                                    "a peer is cut off", "a peer is cut off in one direction", "a clock jumps",
                                                    "a partition", "a partition in one direction"};
    return kind < SIM_TROUBLES ? names[kind] : "?";
}

const char *sim_mutant_name(sim_mutant mutant) {
    static const char *const names[SIM_MUTANTS] = {"none", "eager-weight", "lost-weight", "moved-part", "forged-deny", "lost-counted", "wrong-state", "early-apply", "shadow-skips", "shadow-twice", "unrounded", "imagines-saves", "unrounded-repair",
                                                    "moves-on-suspicion", "frees-at-commit", "complete-ends-guard", "commits-twice", "same-name", "no-eviction", "frees-at-final", "refuses-silently",
                                                    "routes-across-falls", "routes-to-the-gone", "routes-too-much",
                                                    "commits-unanswered", "obeys-older-owner", "forgets-committed", "keeps-its-number", "keeps-its-sum", "one-round", "lends-shares", "promotes-early", "counts-shadows",
                                                    "round-before-close", "keeps-losers", "records-are-truth", "old-results",
                                                    "trusts-donors", "waits-for-the-dead", "forwards-anything", "keeps-left-out", "divides-by-all", "hears-the-past", "keeps-the-past", "lets-the-last-go", "goes-back-for-one", "evicts-committed",
                                                    "moves-with-sum", "moves-at-work", "moves-to-the-full", "moves-several", "moves-again", "ready-early"};
    return mutant < SIM_MUTANTS ? names[mutant] : "?";
}

const char *sim_job_name(job_kind kind) {
    static const char *const names[JOB_KINDS] = {"NONE", "FORWARD", "LOSS", "BACKWARD", "WEIGHT", "PACK", "REDUCE", "RESULT_PUT", "RESULT_GET", "NORM",
                                                 "DECIDE", "APPLY", "STATE_ROOT", "STATE_GET", "STATE_PUT", "STATE_KEEP", "NAMES_GET", "NAMES_PUT", "STATE_INIT", "LEAVES", "SUM_CLEAR", "JOIN", "SAVE_NAMES", "SAVE", "SAVE_END", "SAVE_FIND"};
    return kind < JOB_KINDS ? names[kind] : "?";
}

sim_case sim_case_plain(uint64_t seed, uint16_t stages, uint32_t data_peers, uint32_t relays, uint32_t microbatches, uint32_t iterations) {
    return (sim_case){.seed = seed, .stages = stages, .data_peers = data_peers, .relays = relays, .microbatches = microbatches, .iterations = iterations,
                      .slots = data_peers, .data_capacity = 4, .relay_capacity = 4, .compute_ns = 20 * MILLISECOND,
                      .net = {.latency_ns = 20 * MILLISECOND, .jitter_ns = 2 * MILLISECOND, .payload_ns = 10 * MILLISECOND}};
}

uint64_t sim_case_faultless_ns(const sim_case *c) {
    uint64_t round_trip = 2 * (c->net.latency_ns + c->net.jitter_ns + c->net.payload_ns);
    uint64_t flow = c->stages * 2 * (round_trip + 2 * c->compute_ns);
    if (c->net.asymmetric) round_trip *= 5;
    return 5 * SECOND + (c->iterations - c->start_version) * (c->microbatches * (flow + 8 * c->compute_ns) + 20 * round_trip);
}

// ---- random cases

static uint64_t between(rng *r, uint64_t low, uint64_t high) { return low + rng_below(r, high - low + 1); }

// The message and job kinds around which a relay's death is most likely to break a rule.
static void random_moment(rng *r, sim_crash *crash) {
    static const uint8_t messages[] = {MESSAGE_FORWARD, MESSAGE_BACKWARD, MESSAGE_ACCEPT, MESSAGE_COMPLETE, MESSAGE_DENY, MESSAGE_TRACE, MESSAGE_STATUS,
                                       MESSAGE_RESUME, MESSAGE_COMMIT, MESSAGE_COUNTED, MESSAGE_BEGIN_AGGREGATION, MESSAGE_RESULT, MESSAGE_REDUCED,
                                       MESSAGE_STATE, MESSAGE_GET, MESSAGE_DATA, MESSAGE_CAN_TAKE, MESSAGE_LOG, MESSAGE_JOIN, MESSAGE_PROBE, MESSAGE_CANCEL,
                                       MESSAGE_MISMATCH};
    static const uint8_t jobs[] = {JOB_FORWARD, JOB_BACKWARD, JOB_WEIGHT, JOB_PACK, JOB_REDUCE, JOB_RESULT_PUT, JOB_RESULT_GET, JOB_NORM, JOB_APPLY,
                                   JOB_STATE_ROOT, JOB_STATE_GET, JOB_STATE_PUT, JOB_SUM_CLEAR};
    crash->moment = (sim_moment)between(r, SIM_AT_TIME, SIM_MOMENTS - 1);
    if (crash->moment >= SIM_BEFORE_JOB) crash->kind = jobs[rng_below(r, sizeof jobs)];
    else crash->kind = messages[rng_below(r, sizeof messages)];
}

static void random_crash(rng *r, const sim_case *c, uint64_t span_ns, sim_crash *crash) {
    random_moment(r, crash);
    crash->iteration = rng_below(r, c->iterations);
    crash->skip = (uint32_t)(rng_below(r, 3) ? rng_below(r, 3) : rng_below(r, 20));
    crash->at_ns = between(r, 0, span_ns);
    crash->machine = rng_below(r, 3) == 0;
    crash->restart = rng_below(r, 2) == 0;
    crash->same_id = rng_below(r, 2) == 0;
    crash->restart_ns = rng_below(r, 2) ? between(r, MILLISECOND, SECOND) : between(r, SECOND, 20 * SECOND);
}

static void random_shape(rng *r, sim_case *c, bool real) {
    c->stages = (uint16_t)between(r, 2, 4);
    uint32_t hidden = c->stages - 1u;
    c->data_peers = (uint32_t)between(r, 1, 2);
    c->relays = (uint32_t)between(r, hidden, 3 * hidden);
    if (rng_below(r, 4)) c->relays = (uint32_t)between(r, 2 * hidden, 3 * hidden);
    c->microbatches = real ? 4 : (uint32_t)between(r, 1, 8);
    c->iterations = real ? 3 : (uint32_t)between(r, 1, 4);
    c->slots = c->data_peers * (uint32_t)between(r, 1, 2);
    c->data_capacity = (uint32_t)between(r, 1, 8);
    c->relay_capacity = (uint32_t)between(r, 1, 6);
    if (rng_below(r, 3) == 0) c->eval_every = c->eval_microbatches = (uint32_t)between(r, 1, 2);
    if (rng_below(r, 3) == 0) c->checkpoint_every = (uint32_t)between(r, 1, 2);
    if (real || rng_below(r, 4)) return;
    c->fake.void_percent = (uint32_t)between(r, 0, 20);
    c->fake.overflow_percent = (uint32_t)between(r, 0, 3);
}

sim_case sim_case_random(uint64_t seed, bool real) {
    rng r = {rng_seed(seed, 77)};
    sim_case c = {.seed = seed};
    random_shape(&r, &c, real);
    c.net.latency_ns = between(&r, 1, 60) * MILLISECOND;
    c.net.jitter_ns = between(&r, 0, 20) * MILLISECOND;
    c.net.payload_ns = between(&r, 0, 40) * MILLISECOND;
    c.compute_ns = between(&r, 2, 60) * MILLISECOND;
    uint64_t span = sim_case_faultless_ns(&c) / 2;
    c.crashes = (uint32_t)between(&r, 0, 6);
    for (uint32_t i = 0; i < c.crashes; i++) random_crash(&r, &c, span, &c.crash[i]);
    c.joins = (uint32_t)between(&r, 0, 3);
    for (uint32_t i = 0; i < c.joins; i++) c.join_ns[i] = between(&r, 0, span);
    return c;
}

void sim_case_add_flaps(sim_case *c) {
    rng r = {rng_seed(c->seed, 78)};
    c->flaps = (uint32_t)between(&r, 1, 8);
    for (uint32_t i = 0; i < c->flaps; i++) c->flap_ns[i] = between(&r, 0, sim_case_faultless_ns(c) / 2);
}

// All tensors of an iteration may queue for one slow line. A relayed transfer takes two links, and
// is repeated once where the forwarder corrupts it. After 4 s the owner asks, and the sender tries
// another receiver.
static bool may_look_dead(const sim_case *c) {
    uint64_t slowest_ns = c->net.payload_ns * (c->net.asymmetric ? SIM_ASYMMETRY : 1), legs = 1u + (c->net.carried_percent > 0) + c->net.forwarder_corrupts;
    return legs * c->microbatches * slowest_ns > 4 * SECOND;
}

bool sim_case_is_faultless(const sim_case *c) {
    bool faults = c->crashes || c->flaps || c->net.lost_permille || c->net.doubled_permille || c->net.doubled_tensors || c->troubles || c->rough || c->mutant != SIM_MUTANT_NONE;
    return !faults && !may_look_dead(c);
}

static void unusual_shape(rng *r, sim_case *c) {
    c->stages = (uint16_t)between(r, 1, 4);
    uint32_t hidden = c->stages - 1u;
    c->relays = (uint32_t)between(r, hidden, 3 * hidden);
    c->data_peers = (uint32_t)between(r, 1, 3);
    c->slots = c->data_peers * (uint32_t)between(r, 1, 2);
    c->fake.fast = rng_below(r, 3) == 0;
    c->net.asymmetric = rng_below(r, 3) == 0;
    if (rng_below(r, 4) == 0) c->relay_capacity = c->data_capacity = 1;
    c->start_version = rng_below(r, 3) ? 0 : between(r, 1, 3);
    c->iterations += (uint32_t)c->start_version;
    // entries at the log's beginning are forgotten
    if (rng_below(r, 40) == 0) c->iterations += 140;
}

static void random_trouble(rng *r, const sim_case *c, uint64_t span_ns, sim_trouble *t) {
    t->kind = (sim_trouble_kind)rng_below(r, SIM_CLOCK_JUMPS + 1);
    if (t->kind == SIM_DRAIN_LEADER && rng_below(r, 2)) t->kind = SIM_PAUSE;
    if (c->data_peers == 1 && (t->kind == SIM_PAUSE_DATA || t->kind == SIM_DRAIN_DATA)) t->kind = SIM_SLOW;
    t->factor = (uint32_t)between(r, 20, 50);
    t->at_ns = between(r, 0, span_ns);
    t->for_ns = between(r, 3 * SECOND, t->kind == SIM_PAUSE_DATA ? 7 * SECOND : 15 * SECOND);
}

void sim_case_add_forwarders(sim_case *c) {
    c->net.carried_percent = 50;
    c->net.forwarder_corrupts = c->seed % 4 == 0;
}

void sim_case_make_unusual(sim_case *c) {
    static const uint8_t arrivals[] = {MESSAGE_BEGIN_AGGREGATION, MESSAGE_RESULT, MESSAGE_REDUCED, MESSAGE_GET, MESSAGE_DATA, MESSAGE_COMMIT};
    rng r = {rng_seed(c->seed, 79)};
    unusual_shape(&r, c);
    uint64_t span = sim_case_faultless_ns(c) / 2;
    c->troubles = (uint32_t)rng_below(&r, 4);
    for (uint32_t i = 0; i < c->troubles; i++) random_trouble(&r, c, span, &c->trouble[i]);
    c->arrivals = (uint32_t)rng_below(&r, 3);
    for (uint32_t i = 0; i < c->arrivals; i++) c->arrival[i] = (sim_arrival){arrivals[rng_below(&r, sizeof arrivals)], c->start_version + rng_below(&r, 3)};
    if (rng_below(&r, 3)) c->crashes = (uint32_t)rng_below(&r, 3);
    if (rng_below(&r, 3) == 0) {  // several stages lose a member at once
        c->crashes = (uint32_t)between(&r, 2, 4);
        for (uint32_t i = 0; i < c->crashes; i++) {
            c->crash[i].moment = SIM_AT_TIME;
            c->crash[i].at_ns = c->crash[0].at_ns;
            c->crash[i].restart_ns = SECOND;
        }
    }
    for (uint32_t i = 0; i < c->crashes; i++) c->crash[i].iteration += c->start_version;
    static const uint8_t routings[] = {ROUTER_MINCOST, ROUTER_MINCOST, ROUTER_GWTF, ROUTER_SWARM};
    c->router.routing = routings[rng_mix(c->seed) % sizeof routings];
    c->router.objective = c->router.routing == ROUTER_SWARM ? ROUTER_SUM : rng_mix(c->seed) / sizeof routings % ROUTER_OBJECTIVES;
    c->router.plan_first = c->router.routing == ROUTER_MINCOST && c->router.objective == ROUTER_SUM && rng_mix(c->seed) / 8 % 2 == 0;
    if (rng_below(&r, 8) == 0) c->awaited = c->stages > 1;
    if (c->awaited && c->joins == 0) c->join_ns[c->joins++] = between(&r, 0, 90 * SECOND);
}

void sim_case_add_moves(sim_case *c) {
    rng r = {rng_seed(c->seed, 89)};
    c->moves = true;
    if (c->stages < 3) c->stages = (uint16_t)between(&r, 3, 4);
    uint32_t hidden = c->stages - 1u;
    c->relays = (uint32_t)between(&r, hidden + 2, 3 * hidden + 1);
    c->iterations += (uint32_t)between(&r, 2, 5);
    // deaths while a relay leaves its stage, joins again and fetches the other state
    static const uint8_t messages[] = {MESSAGE_JOIN, MESSAGE_LOG, MESSAGE_STATE, MESSAGE_GET, MESSAGE_DATA};
    static const uint8_t jobs[] = {JOB_SUM_CLEAR, JOB_STATE_PUT, JOB_STATE_GET, JOB_STATE_ROOT};
    for (uint32_t i = (uint32_t)between(&r, 0, 2); i > 0 && c->crashes < SIM_MAX_CRASHES; i--) {
        sim_crash *crash = &c->crash[c->crashes++];
        random_crash(&r, c, sim_case_faultless_ns(c) / 2, crash);
        crash->iteration = c->start_version + between(&r, 1, c->iterations - c->start_version - 1);
        crash->kind = crash->moment >= SIM_BEFORE_JOB ? jobs[rng_below(&r, sizeof jobs)] : messages[rng_below(&r, sizeof messages)];
    }
}

// The moments at which an owner does something that its successor must know or repeat.
static void data_moment(rng *r, sim_crash *crash) {
    static const uint8_t messages[] = {MESSAGE_FORWARD, MESSAGE_BACKWARD, MESSAGE_TRACE, MESSAGE_COMMIT, MESSAGE_COUNTED, MESSAGE_SETTLED, MESSAGE_SURVEY,
                                       MESSAGE_HOLDINGS, MESSAGE_PROBE, MESSAGE_STATUS, MESSAGE_RESUME, MESSAGE_BEGIN_AGGREGATION, MESSAGE_REDUCED, MESSAGE_LOG};
    static const uint8_t jobs[] = {JOB_FORWARD, JOB_LOSS, JOB_BACKWARD, JOB_WEIGHT, JOB_PACK, JOB_REDUCE, JOB_NORM, JOB_APPLY};
    crash->data = true;
    crash->moment = (sim_moment)between(r, SIM_AT_TIME, SIM_MOMENTS - 1);
    crash->kind = crash->moment >= SIM_BEFORE_JOB ? jobs[rng_below(r, sizeof jobs)] : messages[rng_below(r, sizeof messages)];
}

void sim_case_add_data_deaths(sim_case *c) {
    static const sim_trouble_kind kinds[] = {SIM_PAUSE_DATA, SIM_PAUSE_DATA, SIM_DRAIN_DATA, SIM_CUT, SIM_CUT, SIM_CUT_ONE_WAY, SIM_CUT_ONE_WAY, SIM_CLOCK_JUMPS, SIM_PAUSE, SIM_SLOW};
    rng r = {rng_seed(c->seed, 80)};
    uint64_t span = sim_case_faultless_ns(c) / 2;
    c->data_deaths = true;
    c->data_peers = (uint32_t)between(&r, 2, 4);
    c->slots = c->data_peers * (uint32_t)between(&r, 1, 2);
    for (uint32_t i = 0; i < c->crashes; i++)
        if (rng_below(&r, 3)) data_moment(&r, &c->crash[i]);
    // awaited joiners are relays
    c->data_joins = (uint32_t)rng_below(&r, c->joins - c->awaited + 1);
    for (uint32_t i = (uint32_t)rng_below(&r, 4); i > 0 && c->troubles < SIM_MAX_TROUBLES; i--) {
        sim_trouble *t = &c->trouble[c->troubles++];
        *t = (sim_trouble){kinds[rng_below(&r, sizeof kinds / sizeof *kinds)], (uint32_t)between(&r, 20, 50), between(&r, 0, span), between(&r, SECOND, 25 * SECOND)};
        // resumes in the middle of the failover
        if (t->kind == SIM_PAUSE_DATA && rng_below(&r, 2)) t->for_ns = between(&r, 10 * SECOND, 12 * SECOND);
    }
    if (rng_below(&r, 3) == 0) c->net.lost_permille = (uint32_t)between(&r, 1, 20);
    if (rng_below(&r, 3) == 0) c->net.doubled_permille = (uint32_t)between(&r, 1, 200);
}

// The moments at which a leader decides, or receives what a decision needs.
static void leader_moment(rng *r, const sim_case *c, sim_crash *crash) {
    static const uint8_t messages[] = {MESSAGE_APPEND, MESSAGE_APPENDED, MESSAGE_LOG, MESSAGE_SETTLED, MESSAGE_BEGIN_AGGREGATION, MESSAGE_REDUCED, MESSAGE_STATE,
                                       MESSAGE_JOIN, MESSAGE_DATA, MESSAGE_HEARTBEAT, MESSAGE_COMMIT, MESSAGE_VOTED, MESSAGE_SURVEY, MESSAGE_LEAVE};
    static const uint8_t jobs[] = {JOB_FORWARD, JOB_BACKWARD, JOB_REDUCE, JOB_NORM, JOB_DECIDE, JOB_APPLY, JOB_SAVE, JOB_SAVE_END};
    *crash = (sim_crash){.leader = true, .iteration = rng_below(r, c->iterations) + c->start_version, .skip = (uint32_t)rng_below(r, rng_below(r, 3) ? 4 : 30)};
    crash->moment = (sim_moment)between(r, SIM_AT_TIME, SIM_MOMENTS - 1);
    crash->kind = crash->moment >= SIM_BEFORE_JOB ? jobs[rng_below(r, sizeof jobs)] : messages[rng_below(r, sizeof messages)];
    crash->at_ns = between(r, 0, sim_case_faultless_ns(c) / 2);
    crash->machine = rng_below(r, 3) == 0;
    crash->restart = rng_below(r, 2) == 0;
    crash->same_id = rng_below(r, 4) != 0;
    crash->keeps_store = rng_below(r, 3) != 0;
    crash->restart_ns = rng_below(r, 2) ? between(r, MILLISECOND, SECOND) : between(r, SECOND, 20 * SECOND);
}

void sim_case_add_leader_deaths(sim_case *c) {
    sim_case_add_data_deaths(c);
    rng r = {rng_seed(c->seed, 81)};
    c->leader_deaths = true;
    c->voters = rng_below(&r, 3) ? 5 : 3;
    for (uint32_t i = (uint32_t)between(&r, 1, 3); i > 0 && c->crashes < SIM_MAX_CRASHES; i--) leader_moment(&r, c, &c->crash[c->crashes++]);
    for (uint32_t i = (uint32_t)rng_below(&r, 3); i > 0 && c->troubles < SIM_MAX_TROUBLES; i--)
        c->trouble[c->troubles++] = (sim_trouble){SIM_PAUSE_LEADER, 1, between(&r, 0, sim_case_faultless_ns(c) / 2), between(&r, SECOND, 20 * SECOND)};
}

void sim_case_add_restarts(sim_case *c) {
    static const uint8_t messages[] = {MESSAGE_APPEND, MESSAGE_APPENDED, MESSAGE_VOTE, MESSAGE_VOTED, MESSAGE_LOG, MESSAGE_JOIN, MESSAGE_HAND_OVER, MESSAGE_LEAVE, MESSAGE_LEADER};
    static const sim_trouble_kind kinds[] = {SIM_DRAIN, SIM_DRAIN_DATA, SIM_DRAIN, SIM_CUT, SIM_CUT_ONE_WAY, SIM_PAUSE_LEADER, SIM_PARTITION};
    rng r = {rng_seed(c->seed, 87)};
    for (uint32_t i = (uint32_t)between(&r, 1, 4); i > 0 && c->crashes < SIM_MAX_CRASHES; i--) {
        sim_crash *crash = &c->crash[c->crashes++];
        leader_moment(&r, c, crash);
        crash->leader = rng_below(&r, 2) == 0;
        crash->data = !crash->leader && rng_below(&r, 2) == 0;
        if (crash->moment < SIM_BEFORE_JOB) crash->kind = messages[rng_below(&r, sizeof messages)];
    }
    for (uint32_t i = 0; i < c->crashes; i++) {
        sim_crash *crash = &c->crash[i];
        if (rng_below(&r, 6) == 0) continue;
        crash->restart = crash->same_id = crash->keeps_store = true;
        crash->restart_ns = rng_below(&r, 2) ? between(&r, MILLISECOND, SECOND) : between(&r, SECOND, 6 * SECOND);
    }
    for (uint32_t i = (uint32_t)between(&r, 1, 3); i > 0 && c->troubles < SIM_MAX_TROUBLES; i--) {
        sim_trouble_kind kind = kinds[rng_below(&r, sizeof kinds / sizeof *kinds)];
        if (kind == SIM_DRAIN_DATA && c->data_peers == 1) kind = SIM_DRAIN;
        c->trouble[c->troubles++] = (sim_trouble){kind, 1, between(&r, 0, sim_case_faultless_ns(c) / 2), between(&r, SECOND, 12 * SECOND)};
    }
    c->store_entries = (uint32_t)between(&r, 1, 6);
}

void sim_case_shorten_stores(sim_case *c) {
    rng r = {rng_seed(c->seed, 86)};
    c->store_entries = (uint32_t)between(&r, 1, 12);
}

void sim_case_add_scarce_slots(sim_case *c, bool real) {
    rng r = {rng_seed(c->seed, 88)};
    uint32_t hidden = c->stages - 1u;
    c->relay_capacity = rng_below(&r, 4) ? 1 : 2;
    if (rng_below(&r, 4)) c->data_capacity = (uint32_t)between(&r, 2, 8);
    if (rng_below(&r, 2)) c->relays = (uint32_t)between(&r, hidden, 2 * hidden);
    if (rng_below(&r, 2) && !real) c->microbatches = (uint32_t)between(&r, 6, 12);
    if (rng_below(&r, 2) && c->iterations < 20) c->net.payload_ns = between(&r, 40, 1000) * MILLISECOND;
    if (rng_below(&r, 3) == 0 && c->iterations < 20) c->compute_ns = between(&r, 60, 500) * MILLISECOND;
}

void sim_case_make_private(sim_case *c) {
    c->private_data = true;
    if (c->slots < c->data_peers) c->slots = c->data_peers;
    c->data_joins = 0;  // there is no shard for them
    for (uint32_t i = 0; i < c->crashes; i++)
        if (c->crash[i].data || c->crash[i].leader) c->crash[i].restart = c->crash[i].same_id = true;
    for (uint32_t i = 0; i < c->troubles; i++)
        if (c->trouble[i].kind == SIM_DRAIN_DATA) c->trouble[i].kind = SIM_PAUSE_DATA;
        // A leader that was deposed before it ends the run would leave, and the run would wait for
        // its private data.
        else if (c->trouble[i].kind == SIM_DRAIN_LEADER && c->leader_deaths) c->trouble[i].kind = SIM_PAUSE_LEADER;
}

// The moments at which the members of a stage die together: forward, backward, between commit and
// aggregation, in the reduction, and during a state transfer.
static void stage_moment(rng *r, sim_crash *crash) {
    static const uint8_t messages[] = {MESSAGE_FORWARD, MESSAGE_BACKWARD, MESSAGE_ACCEPT, MESSAGE_COMPLETE, MESSAGE_COMMIT, MESSAGE_COUNTED, MESSAGE_BEGIN_AGGREGATION,
                                       MESSAGE_RESULT, MESSAGE_REDUCED, MESSAGE_STATE, MESSAGE_GET, MESSAGE_DATA, MESSAGE_CAN_TAKE, MESSAGE_LOG};
    static const uint8_t jobs[] = {JOB_FORWARD, JOB_BACKWARD, JOB_WEIGHT, JOB_PACK, JOB_REDUCE, JOB_NORM, JOB_APPLY, JOB_STATE_GET};
    crash->moment = (sim_moment)between(r, SIM_AT_TIME, SIM_MOMENTS - 1);
    crash->kind = crash->moment >= SIM_BEFORE_JOB ? jobs[rng_below(r, sizeof jobs)] : messages[rng_below(r, sizeof messages)];
}

void sim_case_add_stage_deaths(sim_case *c) {
    rng r = {rng_seed(c->seed, 82)};
    uint64_t span = sim_case_faultless_ns(c) / 2;
    c->shadows = (uint32_t)between(&r, 1, 2);
    c->shadow_peers = (uint32_t)((c->stages - 1u) * c->shadows + between(&r, 0, 2));
    for (uint32_t i = (uint32_t)between(&r, 1, 3); i > 0 && c->crashes < SIM_MAX_CRASHES; i--) {
        sim_crash *crash = &c->crash[c->crashes++];
        random_crash(&r, c, span, crash);
        crash->iteration += c->start_version;
        crash->stage = true;
        stage_moment(&r, crash);
    }
}

void sim_case_add_stage_losses(sim_case *c) {
    rng r = {rng_seed(c->seed, 86)};
    uint64_t span = sim_case_faultless_ns(c) / 2;
    uint32_t first = c->crashes;
    if (c->data_deaths) {  // the checkpoint that the run began with may be lost for good
        c->iterations -= (uint32_t)c->start_version;
        for (uint32_t i = 0; i < c->crashes; i++) c->crash[i].iteration -= c->crash[i].iteration < c->start_version ? c->crash[i].iteration : c->start_version;
        c->start_version = 0;
    }
    c->checkpoint_every = (uint32_t)rng_below(&r, 3);
    if (rng_below(&r, 3) == 0) c->shadow_peers = (c->stages - 1u) * (c->shadows = 1);
    for (uint32_t i = (uint32_t)between(&r, 1, 3); i > 0 && c->crashes < SIM_MAX_CRASHES; i--) {
        sim_crash *crash = &c->crash[c->crashes++];
        random_crash(&r, c, span, crash);
        crash->iteration += c->start_version;
        stage_moment(&r, crash);
        crash->stage = crash->lost = crash->restart = true;
        crash->data = c->voters > 1 && rng_below(&r, 4) == 0;
        if (i == 1 && c->crashes - first > 1 && rng_below(&r, 3) == 0) {  // several stages at once
            c->crash[first].moment = crash->moment = SIM_AT_TIME;
            crash->at_ns = c->crash[first].at_ns;
        }
    }
}

void sim_case_add_partitions(sim_case *c) {
    rng r = {rng_seed(c->seed, 82)};
    for (uint32_t i = (uint32_t)between(&r, 1, 2); i > 0 && c->troubles < SIM_MAX_TROUBLES; i--) {
        sim_trouble_kind kind = rng_below(&r, 2) ? SIM_PARTITION : SIM_PARTITION_ONE_WAY;
        c->trouble[c->troubles++] = (sim_trouble){kind, 1, between(&r, 0, sim_case_faultless_ns(c) / 2), between(&r, SECOND, rng_below(&r, 2) ? 25 * SECOND : 8 * SECOND)};
    }
}

void sim_case_make_elastic(sim_case *c) {
    rng r = {rng_seed(c->seed, 85)};
    sim_case_make_private(c);
    c->elastic = true;
    c->patience_ns = between(&r, 1, 20) * SECOND;
    c->fake.void_percent = 0;
    for (uint32_t i = 0; i < c->crashes; i++) {
        sim_crash *x = &c->crash[i];
        if (!x->data && !x->leader) continue;
        x->restart = rng_below(&r, 3) != 0;
        if (rng_below(&r, 2)) x->restart_ns = between(&r, 10 * SECOND, 60 * SECOND);
    }
}

static sim_trouble random_departure(rng *r, sim_trouble_kind kind, uint64_t at_ns) {
    return (sim_trouble){kind, 1, at_ns, rng_below(r, 2) ? between(r, MILLISECOND, 20 * SECOND) : 0};
}

void sim_case_add_departures(sim_case *c, bool real) {
    rng r = {rng_seed(c->seed, 89)};
    uint64_t span = sim_case_faultless_ns(c) / 4;
    // a peer leaves at the end of an iteration, and may return in a later one
    c->iterations += real ? 3 : (uint32_t)between(&r, 1, 6);
    for (uint32_t i = 0; i < c->troubles; i++)
        if (c->trouble[i].kind == SIM_PAUSE_DATA && rng_below(&r, 2)) c->trouble[i] = random_departure(&r, SIM_DRAIN_DATA, c->trouble[i].at_ns);
    for (uint32_t i = (uint32_t)between(&r, 1, 2); i > 0 && c->troubles < SIM_MAX_TROUBLES; i--)
        c->trouble[c->troubles++] = random_departure(&r, SIM_DRAIN_DATA, between(&r, 0, span));
    if (c->leader_deaths && rng_below(&r, 8) == 0 && c->troubles < SIM_MAX_TROUBLES) c->trouble[c->troubles++] = random_departure(&r, SIM_DRAIN_LEADER, between(&r, 0, span));
    if (!real && rng_below(&r, 4)) c->fake.void_percent = (uint32_t)between(&r, 5, 30);
}

void sim_case_describe(const sim_case *c, char *text, size_t capacity) {
    size_t used = 0;
#define ADD(...)                                                                          \
    do {                                                                                  \
        int n = snprintf(text + used, capacity - used, __VA_ARGS__);                      \
        used = n < 0 || used + (size_t)n >= capacity ? capacity - 1 : used + (size_t)n;   \
    } while (0)
    ADD("seed %" PRIu64 ": %u stages, %u data peers (capacity %u, %u slots), %u relays (capacity %u), %u microbatches, %u iterations\n", c->seed, c->stages,
        c->data_peers, c->data_capacity, c->slots, c->relays, c->relay_capacity, c->microbatches, c->iterations);
    ADD("  links up to %.0f + %.0f ms, payloads up to %.0f ms, F about %.0f ms; mutant %s\n", (double)c->net.latency_ns / 1e6, (double)c->net.jitter_ns / 1e6,
        (double)c->net.payload_ns / 1e6, (double)c->compute_ns / 1e6, sim_mutant_name(c->mutant));
    if (c->eval_every || c->checkpoint_every) ADD("  held-out loss every %u, checkpoint every %u iterations\n", c->eval_every, c->checkpoint_every);
    for (uint32_t i = 0; i < c->crashes; i++) {
        const sim_crash *x = &c->crash[i];
        if (x->moment == SIM_AT_TIME) ADD("  crash %u: at %.3f s", i, (double)x->at_ns / 1e9 + 1);
        else ADD("  crash %u: %s %s, iteration >= %" PRIu64 ", after %u others", i, sim_moment_name(x->moment),
                 x->moment >= SIM_BEFORE_JOB ? sim_job_name((job_kind)x->kind) : message_kind_name(x->kind), x->iteration, x->skip);
        ADD("%s%s%s%s\n", x->leader ? ", the leader" : x->lost ? ", a stage is lost" : x->stage ? ", a whole stage" : x->data ? ", a data peer" : "", x->machine ? ", machine dies" : "", x->restart ? ", restarts" : "", !x->restart || !x->same_id ? "" : x->keeps_store ? " with its identity and its log" : " with its identity");
    }
    if (c->shadow_peers) ADD("  %u shadows of each stage, %u processes for them\n", c->shadows, c->shadow_peers);
    for (uint32_t i = 0; i < c->joins; i++) ADD("  %sjoiner at %.3f s\n", i + c->data_joins >= c->joins ? "data " : "", (double)c->join_ns[i] / 1e9 + 1);
    if (c->private_data) ADD("  private data%s\n", c->elastic ? ", elastic" : "");
    if (c->fake.void_percent) ADD("  of 100 microbatches %u are void\n", c->fake.void_percent);
    if (c->voters > 1) ADD("  up to %u voters\n", c->voters);
    if (c->store_entries) ADD("  logs are compacted after %u entries\n", c->store_entries);
    if (c->net.lost_permille || c->net.doubled_permille) ADD("  of 1,000 messages %u are lost, %u are duplicated\n", c->net.lost_permille, c->net.doubled_permille);
    if (c->net.doubled_tensors) ADD("  of 1,000 tensors %u are duplicated\n", c->net.doubled_tensors);
    if (c->net.slow_stores) ADD("  logs are slow now and then\n");
    if (c->fake.fast || c->net.asymmetric || c->start_version || c->awaited)
        ADD("  %s%sfrom version %" PRIu64 ", %u joiners awaited\n", c->fake.fast ? "fast, " : "", c->net.asymmetric ? "asymmetric links, " : "", c->start_version, c->awaited);
    if (c->router.routing != ROUTER_MINCOST) ADD("  routed by %s\n", c->router.routing == ROUTER_GWTF ? "gwtf" : "swarm");
    if (c->router.plan_first) ADD("  the first paths are planned\n");
    if (c->router.objective == ROUTER_BOTTLENECK) ADD("  objective: the least bottleneck\n");
    for (uint32_t i = 0; i < c->troubles; i++)
        ADD("  %s at %.3f s (%u times, %.1f s)\n", sim_trouble_name(c->trouble[i].kind), (double)c->trouble[i].at_ns / 1e9 + 1, c->trouble[i].factor, (double)c->trouble[i].for_ns / 1e9);
    for (uint32_t i = 0; i < c->arrivals; i++) ADD("  joiner at %s of iteration %" PRIu64 "\n", message_kind_name(c->arrival[i].kind), c->arrival[i].iteration);
    for (uint32_t i = 0; i < c->flaps; i++) ADD("  a link breaks at %.3f s\n", (double)c->flap_ns[i] / 1e9 + 1);
#undef ADD
}
