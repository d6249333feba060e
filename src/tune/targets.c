#include "tune/targets.h"

#include <stdio.h>
#include <string.h>

static const uint64_t attention = 1u << ROLE_QKV | 1u << ROLE_Q | 1u << ROLE_K | 1u << ROLE_V | 1u << ROLE_O;
static const uint64_t mlp = 1u << ROLE_GATE | 1u << ROLE_UP | 1u << ROLE_DOWN;

static bool has(const model_config *c, model_role role) { return adapter_may_target(role) && model_has(c, role); }

// The last part of a module's name, without ".weight" where there is one.
static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

// A module's name without the ending of its tensor, from the row of the architecture.
static bool module_of(const model_config *c, model_role role, char out[MODEL_TENSOR_NAME]) {
    const char *tensor = model_row_of(c->arch)->tensor[role];
    if (!has(c, role) || !tensor) return false;
    snprintf(out, MODEL_TENSOR_NAME, "%s", tensor);
    char *ending = strstr(out, ".weight");
    if (ending) *ending = 0;
    return true;
}

const char *targets_name(const model_config *config, model_role role) {
    static _Thread_local char name[MODEL_TENSOR_NAME];
    char other[MODEL_TENSOR_NAME];
    if (!module_of(config, role, name)) return NULL;
    for (uint32_t i = 0; i < MODEL_ROLES; i++)
        if (i != role && module_of(config, (model_role)i, other) && strcmp(last_part(other), last_part(name)) == 0)
            return name[0] == '.' ? name + 1 : name;
    return last_part(name);
}

static void list(const model_config *c, char text[TARGETS_TEXT]) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < MODEL_ROLES; i++) {
        const char *name = targets_name(c, (model_role)i);
        if (name && used < TARGETS_TEXT)
            used += (size_t)snprintf(text + used, TARGETS_TEXT - used, "%s%s", used ? ", " : "", name);
    }
}

static uint64_t roles_of(const model_config *c, const char *word, size_t length) {
    uint64_t roles = 0;
    bool all = length == 3 && strncmp(word, "all", 3) == 0;
    bool group_attention = length == 9 && strncmp(word, "attention", 9) == 0;
    bool group_mlp = length == 3 && strncmp(word, "mlp", 3) == 0;
    for (uint32_t i = 0; i < MODEL_ROLES; i++) {
        const char *name = targets_name(c, (model_role)i);
        if (!name) continue;
        bool named = strlen(name) == length && strncmp(name, word, length) == 0;
        bool grouped = all || (group_attention && (attention >> i & 1)) || (group_mlp && (mlp >> i & 1));
        if (named || grouped) roles |= (uint64_t)1 << i;
    }
    char text[MODEL_TENSOR_NAME];
    if (length > 0 && length < sizeof text) {
        snprintf(text, sizeof text, "%.*s", (int)length, word);
        (void)adapter_role_named(c, text, &roles);
    }
    return roles;
}

braid_err targets_read(const model_config *config, const char *text, uint64_t *roles, braid_error *error) {
    *roles = 0;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, ",");
        uint64_t found = roles_of(config, at, (size_t)(end - at));
        char known[TARGETS_TEXT];
        list(config, known);
        if (!found)
            return braid_fail(error, BRAID_CONFIG,
                              "the model has no module '%.*s' to adapt; it has %s, and all, attention and mlp stand "
                              "for several",
                              (int)(end - at > 60 ? 60 : end - at), at, known);
        *roles |= found;
    }
    return BRAID_OK;
}
