// The parameters of an adapter as a table, and the names of its targets.
#include "model/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEFT_PREFIX "base_model.model."

uint64_t adapter_all_roles(const model_config *model) {
    uint64_t roles = 0;
    for (uint32_t role = 0; role < MODEL_ROLES; role++)
        if (adapter_may_target((model_role)role) && model_has(model, (model_role)role)) roles |= (uint64_t)1 << role;
    return roles;
}

void adapter_role_name(const model_config *model, model_role role, char out[MODEL_TENSOR_NAME]) {
    const char *name = model_has(model, role) ? model_row_of(model->arch)->tensor[role] : NULL;
    int stem = name ? (int)(strlen(name) - strlen(".weight")) : 0;
    snprintf(out, MODEL_TENSOR_NAME, "%.*s", stem, name ? name : "");
}

// `*` stands for any letters, `?` for one.
static bool matches(const char *pattern, const char *text) {
    const char *star = NULL, *from = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

static bool matches_part(const char *module, const char *pattern) {
    for (const char *at = module; at; at = strchr(at, '.')) {
        if (*at == '.') at++;
        if (matches(pattern, at)) return true;
    }
    return false;
}

static bool means(const char *module, const char *name) {
    if (strpbrk(name, "*?")) return matches_part(module, name);
    size_t whole = strlen(module), part = strlen(name);
    if (part == 0 || part > whole || strcmp(module + whole - part, name) != 0) return false;
    return part == whole || module[whole - part - 1] == '.';
}

bool adapter_role_named(const model_config *model, const char *name, uint64_t *roles) {
    uint64_t all = adapter_all_roles(model), found = 0;
    char module[MODEL_TENSOR_NAME];
    for (uint32_t role = 0; role < MODEL_ROLES; role++) {
        if (!(all >> role & 1)) continue;
        adapter_role_name(model, (model_role)role, module);
        if (means(module, name)) found |= (uint64_t)1 << role;
    }
    if (strcmp(name, "all") == 0) found = all;
    *roles |= found;
    return found != 0;
}

void adapter_targets_text(const model_config *model, uint64_t roles, const char *between,
                          char out[ADAPTER_TARGETS_TEXT]) {
    char module[MODEL_TENSOR_NAME];
    size_t length = 0;
    out[0] = 0;
    for (uint32_t role = 0; role < MODEL_ROLES; role++) {
        if (!(roles >> role & 1)) continue;
        adapter_role_name(model, (model_role)role, module);
        int more = snprintf(out + length, ADAPTER_TARGETS_TEXT - length, "%s%s", length > 0 ? between : "", module);
        if (more < 0 || (size_t)more >= ADAPTER_TARGETS_TEXT - length) return;
        length += (size_t)more;
    }
}

uint32_t adapter_tensors_per_layer(const model_config *model, uint64_t roles) {
    uint32_t count = 0;
    for (uint32_t role = 0; role < MODEL_ROLES; role++)
        if (roles >> role & 1 && model_has(model, (model_role)role)) count += 2;
    return count;
}

typedef struct table {
    stage_tensor *tensor;
    uint32_t count, canonical;
    size_t offset;
} table;

static void add(table *t, const char *base, const char *half, uint32_t rows, uint32_t cols) {
    stage_tensor *to = &t->tensor[t->count++];
    *to = (stage_tensor){.canonical = t->canonical++, .rows = rows, .cols = cols, .dims = 2, .decay = true};
    to->offset = t->offset;
    to->elements = (size_t)rows * cols;
    t->offset += to->elements;
    int stem = (int)(strlen(base) - strlen(".weight"));
    int length = snprintf(to->name, sizeof to->name, PEFT_PREFIX "%.*s.%s.weight", stem, base, half);
    BRAID_ASSERT(length > 0 && (size_t)length < sizeof to->name);
}

static void add_filler(table *t) {
    t->tensor[t->count++] = (stage_tensor){
        .canonical = t->canonical++, .rows = 1, .cols = 1, .dims = 1, .offset = t->offset, .elements = 1};
}

static void add_matrix(table *t, const model_tensor *m, uint32_t rank) {
    uint32_t in = m->transposed ? m->rows : m->cols, out = m->transposed ? m->cols : m->rows;
    add(t, m->name, "lora_A", rank, in);
    add(t, m->name, "lora_B", out, rank);
}

braid_err adapter_table_new(const model_config *model, const stage_shape *shape, const adapter_config *config,
                            stage_tensor **out, uint32_t *count, braid_error *error) {
    uint32_t each = model_tensors_per_block(model), per_layer = adapter_tensors_per_layer(model, config->roles);
    uint32_t first = model_tensors_before(model) + shape->layer_begin * each;
    uint32_t last = model_tensors_before(model) + shape->layer_end * each;
    table t = {.canonical = shape->layer_begin * per_layer};
    t.tensor = calloc((size_t)(shape->layer_end - shape->layer_begin) * per_layer + 1, sizeof *t.tensor);
    if (!t.tensor) return braid_fail(error, BRAID_MEMORY, "no memory for an adapter's list of tensors");
    for (uint32_t i = first; i < last; i++) {
        model_tensor m;
        model_tensor_at(model, i, &m);
        if (adapter_may_target(m.role) && config->roles >> m.role & 1) add_matrix(&t, &m, config->rank);
    }
    t.canonical = model->layers * per_layer;
    if (shape->ends) add_filler(&t);
    *out = t.tensor;
    *count = t.count;
    return BRAID_OK;
}
