// The adapter of a checkpoint: its configuration for peft, and whether a run can continue it.
#include "train/checkpoint_peft.h"

#include "format/json.h"
#include "model/rows.h"

static void put_targets(json_out *o, const model_config *model, uint64_t roles) {
    char name[MODEL_TENSOR_NAME];
    json_out_open(o, "target_modules", '[');
    for (uint32_t role = 0; role < MODEL_ROLES; role++) {
        if (!(roles >> role & 1)) continue;
        adapter_role_name(model, (model_role)role, name);
        json_out_string(o, NULL, name);
    }
    json_out_close(o, ']');
}

char *checkpoint_peft_text(const checkpoint_config *c, size_t *length) {
    const adapter_config *a = &c->adapter.config;
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "peft_type", "LORA");
    json_out_string(&o, "task_type", "CAUSAL_LM");
    json_out_string(&o, "base_model_name_or_path", c->base_name ? c->base_name : "");
    json_out_u64(&o, "r", a->rank);
    json_out_float(&o, "lora_alpha", a->alpha);
    json_out_bool(&o, "use_rslora", a->rank_stabilised);
    json_out_float(&o, "lora_dropout", 0);
    json_out_string(&o, "bias", "none");
    json_out_bool(&o, "fan_in_fan_out", model_row_of(c->model->arch)->transposed);
    json_out_bool(&o, "inference_mode", true);
    put_targets(&o, c->model, a->roles);
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}

checkpoint_adapter run_adapter(const run_config *run) {
    checkpoint_adapter a = {.config = run->recipe.adapter};
    if (a.config.rank > 0) a.base = run->weights;
    return a;
}

static bool same_adapter(const adapter_config *a, const adapter_config *b) {
    return a->rank == b->rank && a->alpha == b->alpha && a->rank_stabilised == b->rank_stabilised &&
           a->roles == b->roles;
}

braid_err checkpoint_match_adapter(const checkpoint *c, const checkpoint_adapter *wanted, braid_error *error) {
    const checkpoint_adapter *have = checkpoint_adapter_of(c);
    char targets[ADAPTER_TARGETS_TEXT];
    if (have->config.rank == 0 && wanted->config.rank == 0) return BRAID_OK;
    if (wanted->config.rank == 0)
        return braid_fail(error, BRAID_CONFIG,
                          "the checkpoint '%s' is one of an adapter, and the run trains the whole model; add its "
                          "'adapter:' to the run, or add it to its model with braid merge",
                          checkpoint_path(c));
    if (have->config.rank == 0)
        return braid_fail(error, BRAID_CONFIG,
                          "the checkpoint '%s' is one of a whole model, and the run trains an adapter; name it with "
                          "--from to adapt it",
                          checkpoint_path(c));
    adapter_targets_text(checkpoint_model(c), have->config.roles, " ", targets);
    if (!same_adapter(&have->config, &wanted->config))
        return braid_fail(error, BRAID_CONFIG,
                          "the checkpoint '%s' has an adapter of rank %u for %s, and the run trains another one; "
                          "make the run's 'adapter:' equal to it",
                          checkpoint_path(c), have->config.rank, targets);
    if (hash_equal(&have->base, &wanted->base)) return BRAID_OK;
    return braid_fail(error, BRAID_CONFIG,
                      "the checkpoint '%s' is one of an adapter of another model; give the model that it was trained "
                      "with (--from)",
                      checkpoint_path(c));
}
