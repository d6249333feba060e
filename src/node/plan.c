#include "node/plan.h"

#include "routing/core/router.h"
#include "format/quantity.h"
#include "train/state_blob.h"

enum { DEFAULT_CAPACITY = 16 };
_Static_assert((int)RUN_ROUTING_BRAID == ROUTER_MINCOST && (int)RUN_ROUTING_GWTF == ROUTER_GWTF && (int)RUN_ROUTING_SWARM == ROUTER_SWARM, "one order");
_Static_assert((int)RUN_OBJECTIVE_SUM == ROUTER_SUM && (int)RUN_OBJECTIVE_WORST == ROUTER_BOTTLENECK, "one order");

void plan_make(const run_config *run, const braid_hash *description, const split *model, peer_run *out) {
    *out = (peer_run){
        .description = *description, .seed = run->seed, .iterations = run->recipe.iterations,
        .from_model = run_has_model(run), .microbatches = run->microbatches, .stages = (uint16_t)run->stages, .slots = (uint16_t)run->slots, .shares = (uint16_t)run->private_data,
        .elastic = run->elastic, .patience_ns = run->patience * (uint64_t)1000000000,
        .routing = (uint8_t)run->routing, .objective = (uint8_t)run->objective, .plan_first = run->plan.first, .placement = (uint8_t)run->plan.placement,
        .reproducible = run->recipe.reproducible, .eval_every = run->eval_every,
        .eval_microbatches = run->eval_microbatches, .checkpoint_every = run->checkpoint_every,
        .save = run->checkpoint[0] != 0, .max_skipped = run->max_skipped,
        .activation_bytes = run_activation_bytes(run), .gradient_bytes = run_gradient_bytes(run),
        .model_tensors = model->tensor_count, .tensor_stage = model->tensor_stage,
    };
    for (uint32_t s = 0; s < run->stages; s++) out->blocks[s] = split_count(model, s);
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        uint16_t number = model->tensor_stage[i];
        out->tensors[number]++;
        out->state_bytes[number] += model->tensors[i].elements * STATE_PARTS * sizeof(float);
    }
}

uint64_t plan_parameters(const split *model) {
    uint64_t elements = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++)
        if (!adapter_is_filler(&model->tensors[i])) elements += model->tensors[i].elements;
    return elements;
}

void plan_stage_worker(const run_config *run, uint32_t number, uint32_t capacity, worker_config *out) {
    *out = (worker_config){.model = run->model, .recipe = run->recipe, .seed = run->seed,
                              .microbatches = run->microbatches, .capacity = capacity};
    run_stage_shape(run, number, &out->shape);
}

// A relay does not know its future stage: every stage must fit.
static braid_err capacity_fit(const run_config *run, uint32_t first, uint32_t last, uint64_t max_memory, bool fixed,
                              bool on_disk, uint32_t *capacity, braid_error *error) {
    for (uint32_t s = first; s <= last; s++) {
        worker_config config;
        plan_stage_worker(run, s, fixed ? *capacity : 1, &config);
        config.state_directory = on_disk ? "" : NULL;
        uint64_t needed = worker_memory_bytes(&config);
        char need[QUANTITY_TEXT], limit[QUANTITY_TEXT];
        if (needed > max_memory)
            return braid_fail(error, BRAID_LIMIT, "stage %u needs %s to hold %u microbatch%s, --max-memory allows %s; raise it to at least %lluK%s",
                              s, quantity_size_text(needed, need), config.capacity, config.capacity > 1 ? "es" : "", quantity_size_text(max_memory, limit),
                              (unsigned long long)(needed + 1023) >> 10, config.capacity > 1 ? " or lower the capacity" : "");
        uint32_t fits = worker_fitting_capacity(&config, max_memory, *capacity);
        if (fits < *capacity) *capacity = fits;
    }
    return BRAID_OK;
}

braid_err plan_capacity(const run_config *run, uint32_t wanted, uint64_t max_memory, bool data_peer, bool on_disk, uint32_t *out, braid_error *error) {
    bool fixed = wanted || run->capacity;
    uint32_t capacity = wanted ? wanted : run->capacity ? run->capacity : DEFAULT_CAPACITY;
    if (capacity > run->microbatches) capacity = run->microbatches;
    *out = capacity;
    if (!max_memory) return BRAID_OK;
    return capacity_fit(run, data_peer ? 0 : 1, data_peer ? 0 : run->stages - 1, max_memory, fixed, on_disk, out, error);
}

uint64_t plan_least_bytes(const run_config *run, uint32_t capacity, bool fixed, bool data_peer, bool on_disk) {
    uint64_t most = 0;
    for (uint32_t s = data_peer ? 0 : 1; s <= (data_peer ? 0 : run->stages - 1); s++) {
        worker_config config;
        plan_stage_worker(run, s, fixed ? capacity : 1, &config);
        config.state_directory = on_disk ? "" : NULL;
        uint64_t bytes = worker_memory_bytes(&config);
        if (bytes > most) most = bytes;
    }
    return most;
}

braid_err plan_whole_memory(const run_config *run, uint32_t wanted, uint64_t max_memory, bool data_peer, bool on_disk,
                            uint64_t *own, uint64_t *each, braid_error *error) {
    bool fixed = wanted || run->capacity;
    uint32_t capacity = wanted ? wanted : run->capacity ? run->capacity : 1;
    char need[QUANTITY_TEXT], limit[QUANTITY_TEXT];
    uint64_t relay = run->stages > 1 ? plan_least_bytes(run, capacity, fixed, false, on_disk) : 0;
    uint64_t first = data_peer ? plan_least_bytes(run, capacity, fixed, true, on_disk) : relay;
    uint64_t others = data_peer ? run->stages - 1 : run->stages - 2, all = first + others * relay;
    *own = *each = 0;
    if (max_memory == 0) return BRAID_OK;
    if (all > max_memory)
        return braid_fail(error, BRAID_LIMIT, "a whole-model peer of this run needs %s, --max-memory allows %s; raise it to at least %lluK%s", quantity_size_text(all, need),
                          quantity_size_text(max_memory, limit), (unsigned long long)(all + 1023) >> 10, on_disk ? "" : ", or keep weights and optimizer in a file (--state-dir)");
    uint64_t share = (max_memory - all) / (others + 1);
    *own = first + share;
    *each = relay + share;
    return BRAID_OK;
}
