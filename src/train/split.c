#include "train/split.h"

#include "base/sha256.h"
#include "model/layout.h"

#include <stdlib.h>
#include <string.h>

static braid_err no_memory(braid_error *error) {
    return braid_fail(error, BRAID_MEMORY, "no memory for the model's table of tensors");
}

static bool has_adapter(const adapter_config *trained) { return trained && trained->rank > 0; }

static braid_err copy_tensors(const model_config *model, const adapter_config *trained, split *s, braid_error *error) {
    layout whole;
    stage_shape shape = {.layer_begin = 0, .layer_end = model->layers, .ends = true, .sequences = 1, .tokens = 1};
    if (has_adapter(trained)) return adapter_table_new(model, &shape, trained, &s->tensors, &s->tensor_count, error);
    braid_err err = layout_new(model, &shape, &whole, error);
    if (err) return err;
    s->tensor_count = whole.tensors;
    s->tensors = malloc(whole.tensors * sizeof *s->tensors);
    if (s->tensors) memcpy(s->tensors, whole.tensor, whole.tensors * sizeof *s->tensors);
    layout_free(&whole);
    return s->tensors ? BRAID_OK : no_memory(error);
}

static void order_blocks(split *s) {
    uint32_t next = 0;
    for (uint32_t stage_number = 0; stage_number < s->stages; stage_number++) {
        s->stage_first[stage_number] = next;
        for (uint32_t b = 0; b < s->block_count; b++)
            if (s->tensor_stage[s->blocks[b].tensor] == stage_number) s->stage_blocks[next++] = b;
    }
    s->stage_first[s->stages] = next;
}

// The stage of each tensor of an adapter. The last one belongs to the ends.
static void adapter_stages(const model_config *model, uint64_t roles, const uint32_t *layers, split *s) {
    uint32_t per_layer = adapter_tensors_per_layer(model, roles), t = 0;
    for (uint32_t number = 0; number < s->stages; number++)
        for (uint32_t i = 0; i < layers[number] * per_layer; i++) s->tensor_stage[t++] = (uint16_t)number;
    BRAID_ASSERT(t + 1 == s->tensor_count);
    s->tensor_stage[t] = 0;
}

braid_err split_new(const model_config *model, const adapter_config *trained, const uint32_t *layers, uint32_t stages,
                    split *out, braid_error *error) {
    *out = (split){.stages = stages};
    braid_err err = copy_tensors(model, trained, out, error);
    if (err) return err;
    out->block_count = blocks_count(out->tensors, out->tensor_count);
    out->tensor_stage = calloc(out->tensor_count, sizeof *out->tensor_stage);
    out->blocks = calloc(out->block_count, sizeof *out->blocks);
    out->stage_blocks = calloc(out->block_count, sizeof *out->stage_blocks);
    out->stage_first = calloc((size_t)stages + 1, sizeof *out->stage_first);
    if (!out->tensor_stage || !out->blocks || !out->stage_blocks || !out->stage_first) {
        split_free(out);
        return no_memory(error);
    }
    if (has_adapter(trained))
        adapter_stages(model, trained->roles, layers, out);
    else
        model_tensor_stages(model, layers, stages, out->tensor_stage);
    blocks_fill(out->tensors, out->tensor_count, out->blocks);
    order_blocks(out);
    return BRAID_OK;
}

void split_free(split *s) {
    free(s->tensors);
    free(s->tensor_stage);
    free(s->blocks);
    free(s->stage_blocks);
    free(s->stage_first);
    *s = (split){0};
}

uint32_t split_count(const split *s, uint32_t stage_number) {
    return s->stage_first[stage_number + 1] - s->stage_first[stage_number];
}
uint32_t split_block(const split *s, uint32_t stage_number, uint32_t index) {
    return s->stage_blocks[s->stage_first[stage_number] + index];
}

bool split_put_leaves(const split *s, uint32_t stage_number, const void *leaves, uint64_t bytes, braid_hash *all) {
    if (stage_number >= s->stages || bytes != (uint64_t)split_count(s, stage_number) * sizeof *all) return false;
    const uint8_t *from = leaves;
    for (uint32_t i = 0; i < split_count(s, stage_number); i++)
        memcpy(&all[split_block(s, stage_number, i)], from + i * sizeof *all, sizeof *all);
    return true;
}

braid_hash split_weights_hash(const split *s, const braid_hash *all) {
    return sha256_of(all, (size_t)s->block_count * sizeof *all);
}
