#include "weights/expected.h"

#include "model/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_conv1d(const model_config *c, const char *name) {
    return c->arch == MODEL_GPT && (strstr(name, ".c_attn.weight") || strstr(name, ".c_proj.weight") ||
                                    strstr(name, ".c_fc.weight"));
}

braid_err expected_tensors(const model_config *config, expected_list *out, braid_error *error) {
    stage_shape whole = {.layer_begin = 0, .layer_end = config->layers, .ends = true, .sequences = 1, .tokens = 1};
    layout l;
    *out = (expected_list){0};
    braid_err err = layout_new(config, &whole, &l, error);
    if (err) return err;
    out->tensor = calloc((size_t)l.tensors + 1, sizeof *out->tensor);
    out->count = out->tensor ? l.tensors : 0;
    for (uint32_t i = 0; i < out->count; i++) {
        const stage_tensor *t = &l.tensor[i];
        expected_tensor *e = &out->tensor[i];
        snprintf(e->name, sizeof e->name, "%s", t->name);
        e->vector = t->dims == 1;
        e->rows = e->vector ? 1 : t->rows;
        e->cols = e->vector ? t->rows : t->cols;
        e->transposed = is_conv1d(config, t->name);
    }
    layout_free(&l);
    return out->tensor ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the list of tensors");
}
