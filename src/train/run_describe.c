// A run's canonical text: the same bytes for the same run on every machine.
#include "base/sha256.h"
#include "model/rows.h"
#include "train/run_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct run_writer {
    char *text;
    size_t length, capacity;
    bool full;
} run_writer;

static void put(run_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(run_writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = w->full ? -1 : vsnprintf(w->text + w->length, w->capacity - w->length, format, arguments);
    va_end(arguments);
    if (written < 0 || (size_t)written >= w->capacity - w->length)
        w->full = true;
    else
        w->length += (size_t)written;
}

// The fewest digits that read back as the same bits.
static void put_float(run_writer *w, float value) { put(w, "%.9g", (double)value); }

static void put_stages(run_writer *w, const run_config *run) {
    for (uint32_t i = 0; i < run->stages; i++) put(w, "%s%u", i == 0 ? "[" : ", ", run->blocks[i]);
    put(w, "]");
}

static void put_layers(run_writer *w, const uint64_t *layers) {
    const char *before = "[";
    for (uint32_t i = 0; i < MODEL_MAX_LAYERS; i++) {
        if (!(layers[i / 64] >> i % 64 & 1)) continue;
        put(w, "%s%u", before, i);
        before = ", ";
    }
    put(w, "%s]", *before == '[' ? before : "");
}

static void put_hash(run_writer *w, const braid_hash *hash) {
    char hex[2 * BRAID_ID_BYTES + 1];
    id_hex(hash->bytes, BRAID_ID_BYTES, hex);
    put(w, "\"%s\"", hex);
}

static void put_targets(run_writer *w, const run_config *run) {
    char names[ADAPTER_TARGETS_TEXT];
    adapter_targets_text(&run->model, run->recipe.adapter.roles, "\", \"", names);
    put(w, "[\"%s\"]", names);
}

static void put_value(run_writer *w, const run_config *run, const run_field *f) {
    const void *place = (const char *)run + f->offset;
    switch (f->kind) {
    case FIELD_NAME: put(w, "\"%s\"", (const char *)place); break;
    case FIELD_COUNT: put(w, "%u", *(const uint32_t *)place); break;
    case FIELD_LONG: put(w, "%llu", (unsigned long long)*(const uint64_t *)place); break;
    case FIELD_REAL: put(w, "%.17g", *(const double *)place); break;
    case FIELD_FLOAT: put_float(w, *(const float *)place); break;
    case FIELD_SWITCH: put(w, "%s", *(const bool *)place ? "true" : "false"); break;
    case FIELD_ARCH: put(w, "%s", model_row_of(*(const model_arch *)place)->name); break;
    case FIELD_SCALING: put(w, "%s", run_scaling_names[*(const model_rope_kind *)place]); break;
    case FIELD_LAYERS: put_layers(w, place); break;
    case FIELD_LINKS:
        put(w, "{forward: %s, backward: %s}", tensor_codec_names[run->links.forward],
            tensor_codec_names[run->links.backward]);
        break;
    case FIELD_HASH: put_hash(w, place); break;
    case FIELD_TARGETS: put_targets(w, run); break;
    case FIELD_MODE: put(w, "%s", run_mode_names[*(const bool *)place ? 0 : 1]); break;
    case FIELD_SUMS: put(w, "%s", run_sum_names[*(const bool *)place]); break;
    case FIELD_BATCHES: put(w, "%s", run_batch_names[*(const bool *)place]); break;
    case FIELD_PRODUCTS: put(w, "%s", run_product_names[run_multiplies_fastest(run)]); break;
    case FIELD_ROUTING: put(w, "%s", run_routing_names[*(const run_routing *)place]); break;
    case FIELD_OBJECTIVE: put(w, "%s", run_objective_names[*(const run_objective *)place]); break;
    case FIELD_PLACEMENT: put(w, "%s", run_placement_names[*(const run_placement *)place]); break;
    case FIELD_STAGES: put_stages(w, run); break;
    case FIELD_BETAS:
        put(w, "[");
        put_float(w, run->recipe.beta1);
        put(w, ", ");
        put_float(w, run->recipe.beta2);
        put(w, "]");
        break;
    case FIELD_PATH:
    case FIELD_SIZE:
    case FIELD_MIX:
    case FIELD_TOKENIZER:
    case FIELD_TEXTS: BRAID_ASSERT(f->local); break;
    }
}

// True for the section `adapter` of a run without one.
static bool is_empty(const run_config *run, const char *section) {
    for (size_t i = 0; i < run_field_count; i++)
        if (strcmp(run_fields[i].section, section) == 0 && run_field_is_written(run, &run_fields[i])) return false;
    return true;
}

static void put_section(run_writer *w, const run_config *run, const char *section, const char *data_hex) {
    if (is_empty(run, section)) return;
    if (*section) put(w, "%s:\n", section);
    if (strcmp(section, "data") == 0) put(w, "  hash: \"%s\"\n", data_hex);
    for (size_t i = 0; i < run_field_count; i++) {
        if (strcmp(run_fields[i].section, section) != 0 || !run_field_is_written(run, &run_fields[i])) continue;
        put(w, "%s%s: ", *section ? "  " : "", run_fields[i].key);
        put_value(w, run, &run_fields[i]);
        put(w, "\n");
    }
}

size_t run_config_describe(const run_config *run, const braid_hash *data, char *text, size_t capacity) {
    run_writer w = {.text = text, .capacity = capacity};
    char hex[2 * BRAID_ID_BYTES + 1];
    const braid_hash none = {{0}};  // local to each data peer
    id_hex(run->private_data > 0 ? none.bytes : data->bytes, BRAID_ID_BYTES, hex);
    put(&w, "braid: 1\n");
    for (size_t i = 0; i < run_section_count; i++) put_section(&w, run, run_sections[i], hex);
    return w.full ? 0 : w.length;
}

braid_hash run_config_hash(const run_config *run, const braid_hash *data) {
    char text[WIRE_MAX_DESCRIPTION_BYTES];
    size_t length = run_config_describe(run, data, text, sizeof text);
    BRAID_ASSERT(length > 0);
    return sha256_of(text, length);
}
