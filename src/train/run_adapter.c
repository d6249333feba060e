// The section `adapter` of a description.
#include "format/yaml.h"
#include "model/rows.h"
#include "train/run_fields.h"

#include <stdio.h>

static braid_err read_target(const yaml *file, const yaml_node *node, const model_config *model, uint64_t *roles,
                             braid_error *error) {
    char names[ADAPTER_TARGETS_TEXT], target[MODEL_TENSOR_NAME];
    braid_err code = yaml_read_text(file, node, "adapter.targets", target, sizeof target, error);
    if (code != BRAID_OK || adapter_role_named(model, target, roles)) return code;
    adapter_targets_text(model, adapter_all_roles(model), ", ", names);
    return yaml_fail(file, node, error, "adapter.targets: the model has no matrix '%.60s'; name some of %s, or all",
                     target, names);
}

braid_err run_read_targets(const yaml *file, const yaml_node *node, const model_config *model, uint64_t *roles,
                           braid_error *error) {
    if (node->kind == YAML_LIST && node->children == 0)
        return yaml_fail(file, node, error, "adapter.targets is an empty list: name matrices, or leave it out for all");
    if (node->kind != YAML_LIST) return read_target(file, node, model, roles, error);
    braid_err code = BRAID_OK;
    for (const yaml_node *item = node->first; item != NULL && code == BRAID_OK; item = item->next)
        code = read_target(file, item, model, roles, error);
    return code;
}

bool run_adapter_check(const run_config *run, const char **key, char why[RUN_ADAPTER_WHY]) {
    const adapter_config *a = &run->recipe.adapter;
    bool has_model = run->from[0] || !hash_equal(&run->weights, &(braid_hash){{0}});
    *key = "rank";
    if (a->rank == 0) {
        bool others = a->alpha > 0 || a->roles || a->rank_stabilised;
        snprintf(
            why, RUN_ADAPTER_WHY,
            "adapter.rank is missing: it says how large the adapter is; add for example 'rank: 16' under 'adapter:'");
        return !others;
    }
    snprintf(why, RUN_ADAPTER_WHY,
             "an adapter adapts a model: name one with 'from: MODEL' under 'model:', or with --from");
    if (!has_model) return false;
    *key = "targets";
    snprintf(why, RUN_ADAPTER_WHY, "adapter: a model of the architecture %s has no matrices that an adapter adapts",
             model_row_of(run->model.arch)->name);
    return a->roles != 0;
}
