// Reads adapters, and merges them.
#include "weights/peft.h"

#include "weights/inside.h"
#include "weights/read_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "base_model.model."

typedef struct reading {
    const char *directory;
    const model_file *model;
    peft_adapter *out;
    mapped map;
    safetensors *header;
    uint32_t used;  // tensors of the file
    braid_error *error;
} reading;

// ---- adapter_config.json

static bool is_empty(const json_value *v) {
    return !v || v->kind == JSON_NULL || v->kind == JSON_FALSE || (v->kind >= JSON_ARRAY && v->count == 0);
}

static braid_err check_kind(const reading *r, const json *j) {
    static const char *const refused[] = {
        "use_dora",   "modules_to_save",         "alpha_pattern",     "rank_pattern",     "lora_bias",
        "use_qalora", "trainable_token_indices", "target_parameters", "layer_replication"};
    const json_value *root = json_root(j);
    const char *type = json_string(json_member(j, root, "peft_type")),
               *bias = json_string(json_member(j, root, "bias"));
    if (!type || strcmp(type, "LORA") != 0)
        return braid_fail(r->error, BRAID_FORMAT, "%s/adapter_config.json: peft_type is %.40s; braid reads LORA",
                          r->directory, type ? type : "absent");
    if (bias && strcmp(bias, "none") != 0)
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s/adapter_config.json: bias is %.40s; braid reads adapters that train no biases (none)",
                          r->directory, bias);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!is_empty(json_member(j, root, refused[i])))
            return braid_fail(r->error, BRAID_FORMAT,
                              "%s/adapter_config.json: %s is set, which braid does not read; train the adapter without",
                              r->directory, refused[i]);
    return BRAID_OK;
}

static braid_err read_numbers(const reading *r, const json *j) {
    const json_value *root = json_root(j), *rank = json_member(j, root, "r"),
                     *alpha = json_member(j, root, "lora_alpha");
    const json_value *stabilised = json_member(j, root, "use_rslora");
    uint64_t ranks = 8;  // both defaults are peft's
    double number = 8;
    if (rank && (!json_u64(rank, &ranks) || ranks < 1 || ranks > ADAPTER_MAX_RANK))
        return braid_fail(r->error, BRAID_FORMAT, "%s/adapter_config.json: r must be from 1 to %d", r->directory,
                          ADAPTER_MAX_RANK);
    if (alpha && (!json_double(alpha, &number) || !isfinite((float)number)))
        return braid_fail(r->error, BRAID_FORMAT, "%s/adapter_config.json: lora_alpha must be a number", r->directory);
    if (stabilised && stabilised->kind != JSON_NULL && !json_bool(stabilised, &r->out->rank_stabilised))
        return braid_fail(r->error, BRAID_FORMAT, "%s/adapter_config.json: use_rslora must be true or false",
                          r->directory);
    r->out->rank = (uint32_t)ranks;
    r->out->alpha = (float)number;
    return BRAID_OK;
}

static braid_err read_config(const reading *r) {
    json *j = NULL;
    braid_err err = read_json(r->directory, "adapter_config.json", READ_TEXT_MAX_BYTES, &j, r->error);
    if (!err && !j)
        return braid_fail(r->error, BRAID_CONFIG,
                          "'%s' has no adapter_config.json; give the directory of an adapter, of a run DIR/latest",
                          r->directory);
    if (!err) err = check_kind(r, j);
    if (!err) err = read_numbers(r, j);
    json_free(j);
    return err;
}

// ---- adapter_model.safetensors

// The tensor of one half ("lora_A", "lora_B") of a matrix; NULL: none.
static const safetensors_tensor *half_of(const reading *r, const char *name, const char *half) {
    char key[SAFETENSORS_MAX_NAME];
    int stem = (int)(strlen(name) - strlen(".weight"));
    snprintf(key, sizeof key, PREFIX "%.*s.%s.weight", stem, name, half);
    const safetensors_tensor *t = safetensors_find(r->header, key);
    snprintf(key, sizeof key, PREFIX "%.*s.%s.default.weight", stem, name, half);
    return t ? t : safetensors_find(r->header, key);
}

static braid_err read_half(reading *r, const safetensors_tensor *t, uint64_t rows, uint64_t cols, float **out) {
    static const weight_type types[] = {
        [SAFETENSORS_F32] = WEIGHT_F32, [SAFETENSORS_F16] = WEIGHT_F16, [SAFETENSORS_BF16] = WEIGHT_BF16};
    if (t->dtype > SAFETENSORS_BF16)
        return braid_fail(r->error, BRAID_FORMAT, "%s: '%.200s' is %.20s; braid reads F32, F16 and BF16", r->map.path,
                          t->name, t->dtype_name);
    if (t->dims != 2 || t->shape[0] != rows || t->shape[1] != cols)
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s: '%.200s' is not %llu x %llu, as this model and r need; the adapter is of another model",
                          r->map.path, t->name, (unsigned long long)rows, (unsigned long long)cols);
    *out = malloc((size_t)(rows * cols) * sizeof **out);
    if (!*out) return braid_fail(r->error, BRAID_MEMORY, "no memory for '%.200s'", t->name);
    const weight_matrix w = {types[t->dtype], (size_t)rows, (size_t)cols, r->map.at + t->offset};
    weight_rows(&w, 0, w.rows, *out);
    for (size_t i = 0; i < w.rows * w.cols; i++)
        if (!isfinite((*out)[i]))
            return braid_fail(r->error, BRAID_FORMAT, "%s: '%.200s' has a value that is not finite", r->map.path,
                              t->name);
    r->used++;
    return BRAID_OK;
}

static braid_err read_matrix(reading *r, uint32_t i) {
    const model_file_tensor *base = model_file_at(r->model, i);
    const model_tensor *e = &r->model->expected.tensor[i];
    peft_adapter *p = r->out;
    if (!adapter_may_target(e->role)) return BRAID_OK;
    const safetensors_tensor *a = half_of(r, base->name, "lora_A"), *b = half_of(r, base->name, "lora_B");
    if (!a && !b) return BRAID_OK;
    if (!a || !b)
        return braid_fail(r->error, BRAID_FORMAT, "%s: '%.200s' has no other half; the file is not complete",
                          r->map.path, a ? a->name : b->name);
    peft_matrix *m = &p->matrix[p->count++];
    *m = (peft_matrix){.role = e->role, .layer = e->layer, .rank = p->rank, .in = e->transposed ? e->rows : e->cols};
    m->out = e->transposed ? e->cols : e->rows;
    m->scale = adapter_scale(p->alpha, p->rank, p->rank_stabilised);
    snprintf(m->name, sizeof m->name, "%s", base->name);
    braid_err err = read_half(r, a, m->rank, m->in, &m->a);
    return err ? err : read_half(r, b, m->out, m->rank, &m->b);
}

// A tensor that no matrix used.
static braid_err refuse_rest(const reading *r) {
    for (uint32_t i = 0; i < safetensors_count(r->header); i++) {
        const char *name = safetensors_at(r->header, i)->name;
        bool known = false;
        for (uint32_t k = 0; k < r->out->count && !known; k++) {
            const char *base = r->out->matrix[k].name;
            size_t stem = strlen(base) - strlen(".weight");
            known = strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strncmp(name + strlen(PREFIX), base, stem) == 0 &&
                    name[strlen(PREFIX) + stem] == '.';
        }
        if (!known)
            return braid_fail(r->error, BRAID_FORMAT,
                              "%s: '%.200s' belongs to no matrix of the model that braid adapts (attention and MLP); "
                              "the adapter is of another model or has other targets",
                              r->map.path, name);
    }
    return braid_fail(r->error, BRAID_FORMAT, "%s: a matrix has two spellings of its tensors", r->map.path);
}

static braid_err read_tensors(reading *r) {
    char path[MAPPED_MAX_PATH];
    if (snprintf(path, sizeof path, "%s/adapter_model.safetensors", r->directory) >= (int)sizeof path)
        return braid_fail(r->error, BRAID_LIMIT, "the path '%.64s...' is too long", r->directory);
    braid_err err = mapped_open(path, &r->map, r->error);
    if (err) return err;
    uint64_t prefix = r->map.bytes < SAFETENSORS_LENGTH_BYTES ? 0 : safetensors_prefix_bytes(r->map.at, r->map.bytes);
    if (!prefix) return braid_fail(r->error, BRAID_FORMAT, "%s: this is no complete safetensors file", path);
    err = safetensors_parse(r->map.at, (size_t)prefix, r->map.bytes, path, &r->header, r->error);
    for (uint32_t i = 0; i < model_file_count(r->model) && !err; i++) err = read_matrix(r, i);
    if (!err && r->used != safetensors_count(r->header)) err = refuse_rest(r);
    if (!err && r->out->count == 0)
        err = braid_fail(r->error, BRAID_FORMAT, "%s: it adapts no matrix of the model", path);
    return err;
}

braid_err peft_open(const char *directory, const model_file *model, peft_adapter **out, braid_error *error) {
    reading r = {.directory = directory, .model = model, .error = error};
    *out = NULL;
    r.out = calloc(1, sizeof *r.out);
    if (r.out) r.out->matrix = calloc((size_t)model_file_count(model) + 1, sizeof *r.out->matrix);
    braid_err err = r.out && r.out->matrix ? read_config(&r)
                                           : braid_fail(error, BRAID_MEMORY, "no memory for an adapter");
    if (!err) err = read_tensors(&r);
    safetensors_free(r.header);
    mapped_close(&r.map);
    if (err)
        peft_close(r.out);
    else
        *out = r.out;
    return err;
}

void peft_close(peft_adapter *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->count && p->matrix; i++) {
        free(p->matrix[i].a);
        free(p->matrix[i].b);
    }
    free(p->matrix);
    free(p);
}

// ---- merge

// One rank-1 update after the other, so each element is a chain of fused multiply-adds in order of
// rank.
static void add_product(const peft_matrix *m, bool transposed, float *w) {
    for (uint32_t o = 0; o < m->out; o++)
        for (uint32_t k = 0; k < m->rank; k++) {
            float factor = m->scale * m->b[(size_t)o * m->rank + k];
            const float *a = m->a + (size_t)k * m->in;
            float *row = transposed ? w + o : w + (size_t)o * m->in;
            size_t step = transposed ? m->out : 1;
            for (uint32_t i = 0; i < m->in; i++) row[i * step] = fmaf(factor, a[i], row[i * step]);
        }
}

braid_err peft_merge(const peft_adapter *p, model_file *f, braid_error *error) {
    size_t elements = 0;
    if (f->owned.merged) return braid_fail(error, BRAID_STATE, "an adapter was merged into this model already");
    for (uint32_t k = 0; k < p->count; k++) elements += (size_t)p->matrix[k].in * p->matrix[k].out;
    f->owned.merged = malloc(elements * sizeof *f->owned.merged);
    if (!f->owned.merged) return braid_fail(error, BRAID_MEMORY, "no memory for %zu merged weights", elements);
    float *at = f->owned.merged;
    for (uint32_t i = 0, k = 0; i < f->count && k < p->count; i++) {
        model_file_tensor *t = &f->tensor[i];
        if (strcmp(t->name, p->matrix[k].name) != 0) continue;
        model_file_values(t, at);
        add_product(&p->matrix[k++], t->transposed, at);
        t->weights.type = WEIGHT_F32;
        t->weights.data = at;
        t->rope_pairs = false;
        at += t->weights.rows * t->weights.cols;
    }
    return BRAID_OK;
}
