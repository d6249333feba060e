// Writes adapters as peft does.
#include "format/json.h"
#include "format/safetensors.h"
#include "model/rows.h"
#include "weights/output.h"
#include "weights/peft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALVES = 2 };

static braid_err write_config(const peft_adapter *p, const peft_about *about, const model_file *model,
                              const char *directory, braid_error *error) {
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "base_model_name_or_path", about->base);
    json_out_string(&o, "bias", "none");
    json_out_bool(&o, "fan_in_fan_out", model_row_of(model_file_config(model)->arch)->transposed);
    json_out_bool(&o, "inference_mode", true);
    json_out_bool(&o, "init_lora_weights", true);
    json_out_float(&o, "lora_alpha", p->alpha);
    json_out_double(&o, "lora_dropout", 0);
    json_out_null(&o, "modules_to_save");
    json_out_string(&o, "peft_type", "LORA");
    json_out_u64(&o, "r", p->rank);
    json_out_open(&o, "target_modules", '[');
    for (uint32_t i = 0; i < about->target_count; i++) json_out_string(&o, NULL, about->targets[i]);
    json_out_close(&o, ']');
    json_out_string(&o, "task_type", "CAUSAL_LM");
    json_out_bool(&o, "use_dora", false);
    json_out_bool(&o, "use_rslora", p->rank_stabilised);
    json_out_close(&o, '}');
    output_piece piece = {0};
    char *text = json_out_take(&o, &piece.bytes);
    piece.at = text;
    braid_err err = text ? output_replace(directory, "adapter_config.json", &piece, 1, error)
                         : braid_fail(error, BRAID_MEMORY, "no memory for an adapter's configuration");
    free(text);
    return err;
}

// One half of a matrix.
typedef struct half {
    char name[MODEL_FILE_NAME + 48];
    const float *values;
    uint64_t rows, cols;
} half;

static void set_half(half *h, const peft_matrix *m, bool b) {
    int stem = (int)(strlen(m->name) - strlen(".weight"));
    snprintf(h->name, sizeof h->name, "base_model.model.%.*s.lora_%c.weight", stem, m->name, b ? 'B' : 'A');
    h->values = b ? m->b : m->a;
    h->rows = b ? m->out : m->rank;
    h->cols = b ? m->rank : m->in;
}

static int by_name(const void *a, const void *b) { return strcmp(((const half *)a)->name, ((const half *)b)->name); }

typedef struct tensors {
    half *half;
    safetensors_tensor *entry;
    output_piece *piece;  // the prefix, then each half
    uint8_t *prefix;
    uint32_t count;
} tensors;

static bool plan(const peft_adapter *p, tensors *t) {
    t->count = HALVES * p->count;
    t->half = calloc(t->count, sizeof *t->half);
    t->entry = calloc(t->count, sizeof *t->entry);
    t->piece = calloc(t->count + 1, sizeof *t->piece);
    if (!t->half || !t->entry || !t->piece) return false;
    for (uint32_t i = 0; i < t->count; i++) set_half(&t->half[i], &p->matrix[i / HALVES], i % HALVES);
    qsort(t->half, t->count, sizeof *t->half, by_name);
    for (uint32_t i = 0; i < t->count; i++) {
        const half *h = &t->half[i];
        t->entry[i] =
            (safetensors_tensor){.name = h->name, .dtype = SAFETENSORS_F32, .dims = 2, .shape = {h->rows, h->cols}};
        t->piece[i + 1] = (output_piece){h->values, (size_t)(h->rows * h->cols) * sizeof *h->values};
    }
    t->prefix = safetensors_prefix(t->entry, t->count, NULL, 0, &t->piece[0].bytes);
    t->piece[0].at = t->prefix;
    return t->prefix != NULL;
}

braid_err peft_write(const peft_adapter *p, const peft_about *about, const model_file *model, const char *directory,
                     braid_error *error) {
    tensors t = {0};
    braid_err err = plan(p, &t) ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory to write an adapter");
    if (!err) err = output_replace(directory, "adapter_model.safetensors", t.piece, t.count + 1, error);
    if (!err) err = write_config(p, about, model, directory, error);
    free(t.half);
    free(t.entry);
    free(t.piece);
    free(t.prefix);
    return err;
}
