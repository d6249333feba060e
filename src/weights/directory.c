// A model in a Hugging Face directory, or in a checkpoint of braid, which is such a directory.
#include "format/hf_config.h"
#include "weights/config_json.h"
#include "weights/inside.h"
#include "weights/read_text.h"
#include "weights/shards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG "config.json"
#define INDEX  "model.safetensors.index.json"

// Files from other programs spell the names of tensors in one of these ways, as transformers 5.23
// accepts them.
typedef enum name_spelling { PLAIN, BARE, DOUBLE } name_spelling;

typedef struct finder {
    model_file *f;
    const json *index;  // NULL: none
    bool mixed8;
    name_spelling spelling;
    braid_error *error;
} finder;

typedef struct found_tensor {
    const safetensors_tensor *tensor;
    uint32_t shard;
} found_tensor;

// ---- files

static bool has_config(const char *directory) {
    char path[MAPPED_MAX_PATH];
    struct stat info;
    return snprintf(path, sizeof path, "%s/" CONFIG, directory) < (int)sizeof path && stat(path, &info) == 0;
}

// A directory of checkpoints has `latest`: a link, or a file with the name of a directory beside
// it.
static void follow_latest(model_file *f) {
    char path[sizeof f->path], *text = NULL;
    struct stat info;
    size_t length;
    if (has_config(f->path) || snprintf(path, sizeof path, "%s/latest", f->path) >= (int)sizeof path) return;
    if (stat(path, &info) != 0) return;
    if (S_ISREG(info.st_mode) && !read_text(f->path, "latest", 256, &text, &length, NULL) && text) {
        text[strcspn(text, "\r\n")] = 0;
        bool inside = text[0] && text[0] != '.' && !strchr(text, '/');
        if (!inside || snprintf(path, sizeof path, "%s/%s", f->path, text) >= (int)sizeof path) path[0] = 0;
    }
    free(text);
    if (has_config(path)) memcpy(f->path, path, sizeof path);
}

// Weights in a form of their own need a reader of their own.
static braid_err read_quantization(finder *s, const json *d) {
    const json_value *q = json_member(d, json_root(d), "quantization_config");
    const char *method = json_string(json_member(d, q, "quant_method"));
    if (!q || q->kind == JSON_NULL) return BRAID_OK;
    s->mixed8 = method && strcmp(method, MODEL_FILE_MIXED8) == 0;
    if (s->mixed8) return BRAID_OK;
    return braid_fail(s->error, BRAID_CONFIG,
                      "%s/" CONFIG
                      ": the key 'quantization_config' says %.64s, which braid does not read; use the weights "
                      "before quantization, or a GGUF file",
                      s->f->path, method ? method : "an unnamed method");
}

static braid_err read_config(finder *s) {
    model_file *f = s->f;
    char *text, origin[MAPPED_MAX_PATH + 16];
    size_t length;
    json *d = NULL;
    braid_err err = read_text(f->path, CONFIG, READ_TEXT_MAX_BYTES, &text, &length, s->error);
    if (!err && !text) err = shards_refuse_adapter(f->path, s->error);
    if (!err && !text)
        return braid_fail(s->error, BRAID_FORMAT, "%s has no " CONFIG "; is it the directory of a model?", f->path);
    if (!err) err = read_json(f->path, CONFIG, READ_TEXT_MAX_BYTES, &d, s->error);
    if (!err) err = read_quantization(s, d);
    if (!err && s->mixed8) err = config_json_without(&text, &length, "quantization_config", s->error);
    snprintf(origin, sizeof origin, "%s/" CONFIG, f->path);
    if (!err) err = hf_config_read(text, length, origin, &f->config, s->error);
    json_free(d);
    free(text);
    return err;
}

static braid_err open_shard(model_file *f, const char *name, braid_error *error) {
    char path[MAPPED_MAX_PATH];
    mapped *m = &f->map[f->shards];
    if (snprintf(path, sizeof path, "%s/%s", f->path, name) >= (int)sizeof path)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", f->path);
    braid_err err = mapped_open(path, m, error);
    if (err) return err;
    uint64_t prefix = m->bytes < SAFETENSORS_LENGTH_BYTES ? 0 : safetensors_prefix_bytes(m->at, m->bytes);
    err = safetensors_parse(m->at, prefix, m->bytes, path, &f->header[f->shards], error);
    f->shards++;
    return err;
}

static braid_err open_shards(finder *s) {
    shard_names names;
    braid_err err = shards_of_directory(s->f->path, s->index, &names, s->error);
    if (!err) err = model_file_reserve(s->f, names.count, s->error);
    for (uint32_t i = 0; i < names.count && !err; i++) err = open_shard(s->f, names.name[i], s->error);
    free(names.name);
    return err;
}

// ---- tensors

static bool find_exact(const finder *s, const char *name, found_tensor *out) {
    for (uint32_t i = 0; i < s->f->shards; i++) {
        const safetensors_tensor *t = safetensors_find(s->f->header[i], name);
        if (!t) continue;
        *out = (found_tensor){t, i};
        return true;
    }
    return false;
}

static const char *without_prefix(const char *name) {
    if (strncmp(name, "model.", 6) == 0) return name + 6;
    return strncmp(name, "transformer.", 12) == 0 ? name + 12 : name;
}

static bool find_spelled(const finder *s, const char *name, name_spelling spelling, found_tensor *out) {
    char longer[MODEL_FILE_NAME + 16];
    if (spelling == PLAIN) return find_exact(s, name, out);
    if (spelling == BARE) return find_exact(s, without_prefix(name), out);
    snprintf(longer, sizeof longer, "model.%s", name);
    return find_exact(s, longer, out);
}

// The tensor that was kept for one of equal values: metadata {dropped: kept}, by
// safetensors.torch.save_model.
static bool find_alias(const finder *s, const char *name, found_tensor *out) {
    const char *kept = NULL;
    if (s->index)
        kept = json_string(json_member(s->index, json_member(s->index, json_root(s->index), "metadata"), name));
    for (uint32_t i = 0; i < s->f->shards && !kept; i++) kept = safetensors_metadata(s->f->header[i], name);
    return kept && find_exact(s, kept, out);
}

static bool find(const finder *s, const char *name, found_tensor *out) {
    return find_spelled(s, name, s->spelling, out) || find_exact(s, name, out) || find_alias(s, name, out);
}

// The names of the embedding and of the first block's first tensor decide.
static void choose_spelling(finder *s) {
    model_tensor first, block;
    found_tensor ignored;
    model_tensor_at(&s->f->config, 0, &first);
    model_tensor_at(&s->f->config, model_tensors_before(&s->f->config), &block);
    for (name_spelling k = PLAIN; k <= DOUBLE; k++) {
        s->spelling = k;
        if (find_spelled(s, first.name, k, &ignored) || find_spelled(s, block.name, k, &ignored)) return;
    }
    s->spelling = PLAIN;
}

// transformers 5.23: of a tied pair one is enough, and two of different values are no pair.
static void decide_tied(finder *s) {
    model_config *c = &s->f->config;
    found_tensor head, embedding;
    model_tensor first;
    model_tensor_at(c, 0, &first);
    if (!c->tied || !find(s, "lm_head.weight", &head) || !find(s, first.name, &embedding)) return;
    const uint8_t *a = s->f->map[head.shard].at + head.tensor->offset;
    const uint8_t *b = s->f->map[embedding.shard].at + embedding.tensor->offset;
    if (head.tensor->bytes != embedding.tensor->bytes || memcmp(a, b, head.tensor->bytes) != 0) c->tied = false;
}

static bool is_shape(const safetensors_tensor *t, uint64_t rows, uint64_t cols, bool vector) {
    if (vector) return t->dims == 1 && t->shape[0] == cols;
    return t->dims == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

static braid_err refuse_shape(const finder *s, const found_tensor *t, const model_tensor *e) {
    char text[8 + 24 * SAFETENSORS_MAX_DIMS] = "", expected[64];
    size_t at = 0;
    for (uint32_t d = 0; d < t->tensor->dims; d++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu", d ? ", " : "",
                               (unsigned long long)t->tensor->shape[d]);
    if (e->vector)
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)e->cols);
    else
        snprintf(expected, sizeof expected, "%llu, %llu", (unsigned long long)e->rows, (unsigned long long)e->cols);
    return braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' has the shape [%s], " CONFIG " says [%s]",
                      s->f->map[t->shard].path, t->tensor->name, text, expected);
}

// The bytes of a mixed8 matrix are one tensor of U8. It is stored [out, in].
static braid_err place_mixed8(const finder *s, const model_tensor *e, const found_tensor *t, model_file_tensor *out) {
    uint64_t rows = e->transposed ? e->cols : e->rows, cols = e->transposed ? e->rows : e->cols;
    out->weights = (weight_matrix){WEIGHT_MIXED8, rows, cols, s->f->map[t->shard].at + t->tensor->offset};
    out->transposed = false;
    if (t->tensor->bytes != weight_bytes(WEIGHT_MIXED8, rows, cols))
        return braid_fail(s->error, BRAID_FORMAT,
                          "%s: the tensor '%s' has %llu bytes, " CONFIG " says a matrix of %llu",
                          s->f->map[t->shard].path, t->tensor->name, (unsigned long long)t->tensor->bytes,
                          (unsigned long long)weight_bytes(WEIGHT_MIXED8, rows, cols));
    if (mixed8_valid(&out->weights)) return BRAID_OK;
    return braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' has a damaged table of columns",
                      s->f->map[t->shard].path, t->tensor->name);
}

static braid_err place(const finder *s, const model_tensor *e, const found_tensor *t, model_file_tensor *out) {
    static const weight_type types[] = {
        [SAFETENSORS_F32] = WEIGHT_F32, [SAFETENSORS_F16] = WEIGHT_F16, [SAFETENSORS_BF16] = WEIGHT_BF16};
    if (s->mixed8 && t->tensor->dtype == SAFETENSORS_U8 && !e->vector) return place_mixed8(s, e, t, out);
    if (t->tensor->dtype > SAFETENSORS_BF16)
        return braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' has the dtype %s; braid reads F32, F16 and BF16",
                          s->f->map[t->shard].path, t->tensor->name, t->tensor->dtype_name);
    if (!is_shape(t->tensor, e->rows, e->cols, e->vector)) return refuse_shape(s, t, e);
    out->weights =
        (weight_matrix){types[t->tensor->dtype], e->rows, e->cols, s->f->map[t->shard].at + t->tensor->offset};
    return BRAID_OK;
}

// Tensors that older programs save beside the parameters.
static bool is_buffer(const char *name) {
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(name), tail = strlen(ends[i]);
        if (length >= tail && strcmp(name + length - tail, ends[i]) == 0) return true;
    }
    return strcmp(name, "lm_head.weight") == 0 || strcmp(name, "model.lm_head.weight") == 0;
}

static int compare_tensors(const void *a, const void *b) {
    const safetensors_tensor *x = *(const safetensors_tensor *const *)a, *y = *(const safetensors_tensor *const *)b;
    return (x > y) - (x < y);
}

// `used` are the tensors that the model has.
static braid_err check_extra(const finder *s, const safetensors_tensor **used, uint32_t count) {
    qsort(used, count, sizeof *used, compare_tensors);
    for (uint32_t i = 0; i < s->f->shards; i++)
        for (uint32_t k = 0; k < safetensors_count(s->f->header[i]); k++) {
            const safetensors_tensor *t = safetensors_at(s->f->header[i], k);
            if (is_buffer(t->name) || bsearch(&t, used, count, sizeof *used, compare_tensors)) continue;
            return braid_fail(s->error, BRAID_FORMAT,
                              "%s: the tensor '%s' is no part of the model that " CONFIG " describes",
                              s->f->map[i].path, t->name);
        }
    return BRAID_OK;
}

static braid_err place_tensors(finder *s) {
    const safetensors_tensor **used = calloc((size_t)s->f->count + 1, sizeof *used);
    braid_err err = used ? BRAID_OK : braid_fail(s->error, BRAID_MEMORY, "no memory for %u tensors", s->f->count);
    for (uint32_t i = 0; i < s->f->count && !err; i++) {
        const model_tensor *e = &s->f->expected.tensor[i];
        found_tensor t;
        bool tied = e->role == ROLE_EMBEDDING && s->f->config.tied;  // the head may stand for it
        if (!find(s, e->name, &t) && !(tied && find(s, "lm_head.weight", &t)))
            err = braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' is missing", s->f->path, e->name);
        else
            err = place(s, e, &t, &s->f->tensor[i]);
        used[i] = err ? NULL : t.tensor;
    }
    if (!err) err = check_extra(s, used, s->f->count);
    free(used);
    return err;
}

// ---- chat template

// A string, or a list of {name, template}, of which "default" counts.
static const json_value *find_template(const json *d) {
    const json_value *v = json_member(d, json_root(d), "chat_template");
    if (!v || v->kind != JSON_ARRAY) return v;
    for (const json_value *item = json_first(d, v); item; item = json_next(d, item)) {
        const char *name = json_string(json_member(d, item, "name"));
        if (name && strcmp(name, "default") == 0) return json_member(d, item, "template");
    }
    return NULL;
}

static braid_err read_template(model_file *f, braid_error *error) {
    size_t length;
    json *d = NULL;
    braid_err err = read_text(f->path, "chat_template.jinja", READ_TEXT_MAX_BYTES, &f->chat_template, &length, error);
    if (err || f->chat_template) return err;
    err = read_json(f->path, "tokenizer_config.json", READ_TEXT_MAX_BYTES, &d, error);
    const json_value *found = d ? find_template(d) : NULL;
    if (!err && json_string(found)) {
        f->chat_template = model_file_copy(found->text, found->length);
        if (!f->chat_template) err = braid_fail(error, BRAID_MEMORY, "no memory for the chat template");
    }
    json_free(d);
    return err;
}

static braid_err open_model(finder *s, json **index) {
    braid_err err = read_config(s);
    if (!err) err = read_json(s->f->path, INDEX, READ_INDEX_MAX_BYTES, index, s->error);
    s->index = *index;
    if (!err) err = open_shards(s);
    if (err) return err;
    choose_spelling(s);
    decide_tied(s);
    err = model_file_expect(s->f, s->error);
    if (!err) err = place_tensors(s);
    return err ? err : read_template(s->f, s->error);
}

braid_err directory_open(model_file *f, braid_error *error) {
    finder s = {.f = f, .error = error};
    json *index = NULL;
    follow_latest(f);
    braid_err err = open_model(&s, &index);
    json_free(index);
    return err;
}
