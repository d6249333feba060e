// The cost of jobs and the size of payloads. The simulated model has only a few numbers per block;
// its times and its sizes on the wire are those of the model that the scenario describes.
#include "sim/swarm/inside.h"

#include "train/blocks.h"
#include "train/byte_sum.h"

enum {
    TOUCHES_PER_UPDATE = 33,    // memory accesses to each element during `update_ns`
    FLOPS_PER_TOUCH = 16,       // operations of a machine in the time of one access
    STATE_BYTES = 12,           // per element: weight and two moments
    RESULT_BYTES = 4,
    JOIN_BYTES_PER_NS = 2,      // rate of copying and hashing
    EXACT_BYTES = 8, FAST_BYTES = 4,  // per element of a sum
};

// time to wake a thread and to report the result
static const uint64_t JOB_OVERHEAD_NS = 20 * SWARM_US;

uint32_t swarm_stage_blocks(const scenario *s, uint16_t index) {
    uint64_t blocks = (s->stage[index].parameters + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    // a block belongs to one tensor
    if (blocks < s->stage[index].tensors) blocks = s->stage[index].tensors;
    if (blocks < 1) return 1;
    return blocks > SIM_FAKE_BLOCKS ? SIM_FAKE_BLOCKS : (uint32_t)blocks;
}

static uint64_t elements_of(const swarm *w, uint16_t index, uint32_t blocks) {
    return w->s->stage[index].parameters * blocks / w->core->model->blocks[index];
}

// Memory accesses of a job per element, in measured proportions (braid up --measure on one core:
// hashes cost most). The jobs of one member in an iteration add up to 32 to 34, for any number of
// members.
static uint32_t touches(const job *work) {
    switch (work->kind) {
    case JOB_PACK: return 4;
    case JOB_REDUCE: return 4 + 8 * work->inputs;
    case JOB_RESULT_PUT:
    case JOB_RESULT_GET: return 1;
    case JOB_NORM: return 8;
    case JOB_APPLY: return 2;
    case JOB_STATE_ROOT:
    case JOB_STATE_GET:
    case JOB_STATE_PUT: return 9;
    case JOB_STATE_KEEP: return 9;
    case JOB_STATE_INIT: return 2;
    case JOB_LEAVES: return 8;
    case JOB_SUM_CLEAR: return 1;
    default: return 0;
    }
}

static uint64_t update_ns(const swarm *w, uint32_t number, const job *work) {
    const scenario_peer *p = w->peer[number].s;
    uint16_t index = work->stage < w->s->stages ? work->stage : 0;
    uint64_t elements = work->count ? elements_of(w, index, work->count) : w->s->stage[index].parameters;
    uint64_t whole = w->s->stage[index].parameters ? w->s->stage[index].parameters : 1;
    unsigned __int128 touched = (unsigned __int128)elements * touches(work);
    if (p->update_ns) return (uint64_t)(touched * p->update_ns / whole / TOUCHES_PER_UPDATE);
    return (uint64_t)((double)(uint64_t)touched * FLOPS_PER_TOUCH * 1e9 / p->flops);
}

uint64_t swarm_job_ns(const swarm *w, uint32_t number, const job *work) {
    uint32_t index = w->peer[number].index;
    switch (work->kind) {
    case JOB_FORWARD: return JOB_OVERHEAD_NS + scenario_cost_ns(w->s, index, work->stage, WORK_FORWARD);
    case JOB_LOSS: return JOB_OVERHEAD_NS + scenario_cost_ns(w->s, index, work->stage, WORK_LOSS);
    case JOB_BACKWARD: return JOB_OVERHEAD_NS + scenario_cost_ns(w->s, index, work->stage, WORK_BACKWARD);
    case JOB_WEIGHT: return JOB_OVERHEAD_NS + scenario_cost_ns(w->s, index, work->stage, WORK_WEIGHT);
    case JOB_JOIN: return JOB_OVERHEAD_NS + (work->count > 0 ? elements_of(w, work->stage, work->count) * RESULT_BYTES : w->s->activation_bytes) / JOIN_BYTES_PER_NS;
    default: return JOB_OVERHEAD_NS + update_ns(w, number, work);
    }
}

bool swarm_carries_blocks(const message *msg) { return msg->kind == MESSAGE_CARRY_CHUNKS; }

static uint64_t sum_bytes(const scenario *s, uint64_t elements) {
    if (s->byte_sums) return byte_sum_bytes(elements);
    return elements * (s->reproducible ? EXACT_BYTES : FAST_BYTES);
}

static uint64_t result_bytes(const scenario *s, uint64_t elements) {
    return s->byte_sums ? byte_sum_bytes(elements) : elements * RESULT_BYTES;
}

static uint64_t chunk_bytes(const swarm *w, uint8_t what, uint16_t of_stage, uint32_t count) {
    if (of_stage >= w->s->stages) return 0;
    uint64_t elements = elements_of(w, of_stage, count);
    switch (what) {
    case GET_PART: return sum_bytes(w->s, elements);
    case GET_RESULT: return result_bytes(w->s, elements);
    case GET_NAMES: return (elements / BLOCK_ELEMENTS + 1) * sizeof(braid_hash);
    default: return elements * STATE_BYTES;
    }
}

uint64_t swarm_payload_bytes(const swarm *w, const message *msg) {
    switch (msg->kind) {
    case MESSAGE_CARRY: return message_piece_bytes(w->s->activation_bytes, msg->u.carry.index, msg->u.carry.count);
    case MESSAGE_CARRY_CHUNKS: return chunk_bytes(w, msg->u.carry_chunks.what, msg->u.carry_chunks.stage, msg->u.carry_chunks.count);
    case MESSAGE_DATA: return chunk_bytes(w, msg->u.data.get.what, msg->u.data.get.stage, msg->u.data.get.count);
    default: return w->s->activation_bytes;
    }
}

static uint64_t slower(uint64_t a_bps, uint64_t b_bps) { return a_bps && (!b_bps || a_bps < b_bps) ? a_bps : b_bps; }

// The time of an activation between two peers.
static uint64_t arc_delay_ns(const scenario *s, uint32_t from, uint32_t to) {
    const scenario_machine *a = &s->machine[s->peer[from].machine], *b = &s->machine[s->peer[to].machine];
    scenario_link link;
    scenario_link_of(s, from, to, &link);
    uint64_t bps = a == b ? link.bps : slower(link.bps, slower(a->up_bps, b->down_bps));
    return link.latency_ns + (bps ? s->activation_bytes * 8 * 1000 / (bps / 1000000 + 1) : 0);
}

// Adds up the slowest peer of each stage and the slowest link between each two stages.
uint64_t swarm_round_trip_ns(const swarm *w) {
    uint64_t total = 0, slowest = 0, arc = 0;
    for (uint16_t at = 0; at < w->s->stages; at++) {
        uint64_t worst = 0;
        for (uint32_t i = 0; i < w->s->peers; i++) {
            const scenario_peer *p = &w->s->peer[i];
            bool fits = p->data ? at == 0 : at != 0 && (p->stage == at || p->stage == SCENARIO_ANY_STAGE);
            if (!fits) continue;
            uint64_t cost = 0;
            for (int work = WORK_FORWARD; work <= WORK_WEIGHT; work++)
                if (work != WORK_LOSS || p->data) cost += scenario_cost_ns(w->s, i, at, (scenario_work)work);
            worst = cost > worst ? cost : worst;
        }
        total += worst;
        slowest = worst > slowest ? worst : slowest;
    }
    for (uint32_t i = 0; i < w->s->peers; i++)
        for (uint32_t k = 0; k < w->s->peers; k++) {
            uint64_t one = i == k ? 0 : arc_delay_ns(w->s, i, k);
            arc = one > arc ? one : arc;
        }
    return total + slowest + 2 * arc * w->s->stages;
}
