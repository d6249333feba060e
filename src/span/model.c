#include "span/model.h"

#include "base/sha256.h"
#include "format/hf_config.h"
#include "format/json.h"
#include "model/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kind[] = "braid serving 1";
enum { HASH_TEXT = 2 * BRAID_ID_BYTES, SHORT = 8 };

// --- hashes

static void add_number(sha256 *s, uint64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    sha256_update(s, bytes, sizeof bytes);
}

static void add_tensor(sha256 *s, const model_file_tensor *t) {
    const weight_matrix *w = &t->weights;
    sha256_update(s, t->name, strlen(t->name) + 1);
    add_number(s, (uint64_t)w->type);
    add_number(s, w->rows);
    add_number(s, w->cols);
    add_number(s, (uint64_t)t->vector | (uint64_t)t->transposed << 1 | (uint64_t)t->rope_pairs << 2);
    sha256_update(s, w->data, weight_bytes(w->type, w->rows, w->cols));
}

void span_model_layer(const model_config *c, uint32_t layer, uint32_t *first, uint32_t *end) {
    uint32_t each = model_tensors_per_block(c);
    *first = model_tensors_before(c) + layer * each;
    *end = *first + each;
}

static braid_hash hash_of_layer(const model_file *file, uint32_t layer) {
    uint32_t first, end;
    sha256 s;
    sha256_init(&s);
    span_model_layer(model_file_config(file), layer, &first, &end);
    for (uint32_t i = first; i < end; i++) add_tensor(&s, model_file_at(file, i));
    return sha256_final(&s);
}

static bool is_end(const model_config *c, uint32_t i) {
    uint32_t before = model_tensors_before(c);
    return i < before || i >= before + c->layers * model_tensors_per_block(c);
}

static braid_hash hash_of_ends(const model_file *file) {
    sha256 s;
    sha256_init(&s);
    for (uint32_t i = 0; i < model_file_count(file); i++)
        if (is_end(model_file_config(file), i)) add_tensor(&s, model_file_at(file, i));
    return sha256_final(&s);
}

char *span_model_shape(const model_file *file, size_t *length) {
    return hf_config_write(model_file_config(file), length);
}

static braid_err hash_of_shape(const model_file *file, braid_hash *out, braid_error *error) {
    size_t length = 0;
    char *text = span_model_shape(file, &length);
    if (!text) return braid_fail(error, BRAID_MEMORY, "no memory for the model's shape");
    *out = sha256_of(text, length);
    free(text);
    return BRAID_OK;
}

// --- reading

static uint64_t tensor_bytes(const model_file_tensor *t) {
    return weight_bytes(t->weights.type, t->weights.rows, t->weights.cols);
}

uint64_t span_model_bytes(const model_file *file, uint32_t begin, uint32_t end) {
    uint64_t bytes = 0;
    for (uint32_t layer = begin; layer < end; layer++) {
        uint32_t first, last;
        span_model_layer(model_file_config(file), layer, &first, &last);
        if (!model_file_at(file, first)->weights.data) span_model_layer(model_file_config(file), 0, &first, &last);
        for (uint32_t i = first; i < last; i++) bytes += tensor_bytes(model_file_at(file, i));
    }
    return bytes;
}

uint64_t span_model_ends_bytes(const model_file *file) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < model_file_count(file); i++)
        if (is_end(model_file_config(file), i)) bytes += tensor_bytes(model_file_at(file, i));
    return bytes;
}

// "dir/SmolLM2.Q4_1.gguf" becomes "SmolLM2.Q4_1"; other than printable characters become '_'.
static void name_of(const char *path, char out[SPAN_MAX_NAME]) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    size_t count = length - begin;
    if (count > 5 && strncmp(path + length - 5, ".gguf", 5) == 0) count -= 5;
    if (count >= SPAN_MAX_NAME) count = SPAN_MAX_NAME - 1;
    for (size_t i = 0; i < count; i++) {
        char c = path[begin + i];
        out[i] = (char)(c > ' ' && c < 0x7f ? c : '_');
    }
    out[count] = 0;
}

braid_err span_model_read(const model_file *file, const char *path, span_model *out, braid_error *error) {
    const model_config *c = model_file_config(file);
    if (c->layers > SPAN_MAX_LAYERS)
        return braid_fail(error, BRAID_LIMIT, "%s has %u layers; a swarm serves models of at most %d", path, c->layers,
                          SPAN_MAX_LAYERS);
    *out = (span_model){.layers = c->layers, .dim = c->dim, .vocab = c->vocab, .context = c->context};
    name_of(path, out->name);
    braid_err err = hash_of_shape(file, &out->shape, error);
    if (err) return err;
    out->ends = hash_of_ends(file);
    for (uint32_t i = 0; i < c->layers; i++) out->layer[i] = hash_of_layer(file, i);
    return BRAID_OK;
}

braid_hash span_model_hash(const span_model *m) {
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, kind, sizeof kind);
    add_number(&s, m->layers);
    add_number(&s, m->context);
    add_number(&s, (uint64_t)m->exact | (uint64_t)m->half_cache << 1 | (uint64_t)m->narrow << 2);
    sha256_update(&s, m->shape.bytes, sizeof m->shape.bytes);
    sha256_update(&s, m->ends.bytes, sizeof m->ends.bytes);
    for (uint32_t i = 0; i < m->layers; i++) sha256_update(&s, m->layer[i].bytes, sizeof m->layer[i].bytes);
    return sha256_final(&s);
}

static braid_err differs(const span_model *m, const char *path, const char *part, const braid_hash *here,
                         const braid_hash *there, braid_error *error) {
    char own[2 * SHORT + 1], theirs[2 * SHORT + 1];
    id_hex(here->bytes, SHORT, own);
    id_hex(there->bytes, SHORT, theirs);
    return braid_fail(
        error, BRAID_IDENTITY,
        "%.200s is not the model that the swarm serves, '%s': its %s has SHA-256 %s..., the swarm's %s...; "
        "give the same file, in the same quantisation",
        path, m->name, part, own, theirs);
}

bool span_model_same_layer(const span_model *m, const model_file *file, uint32_t layer) {
    const braid_hash own = hash_of_layer(file, layer);
    return hash_equal(&own, &m->layer[layer]);
}

braid_err span_model_check(const span_model *m, const model_file *file, const char *path, uint32_t begin, uint32_t end,
                           bool ends, braid_error *error) {
    braid_hash own;
    char part[32];
    braid_err err = hash_of_shape(file, &own, error);
    if (err) return err;
    if (!hash_equal(&own, &m->shape) || model_file_config(file)->layers != m->layers)
        return differs(m, path, "shape (config.json)", &own, &m->shape, error);
    for (uint32_t i = begin; i < end; i++) {
        own = hash_of_layer(file, i);
        snprintf(part, sizeof part, "layer %u", i);
        if (!hash_equal(&own, &m->layer[i])) return differs(m, path, part, &own, &m->layer[i], error);
    }
    if (!ends) return BRAID_OK;
    own = hash_of_ends(file);
    return hash_equal(&own, &m->ends) ? BRAID_OK : differs(m, path, "embedding or head", &own, &m->ends, error);
}

// --- text

static void put_hash(json_out *o, const char *key, const braid_hash *hash) {
    char text[HASH_TEXT + 1];
    id_hex(hash->bytes, BRAID_ID_BYTES, text);
    json_out_string(o, key, text);
}

char *span_model_describe(const span_model *m, size_t *length) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "kind", kind);
    json_out_string(&o, "name", m->name);
    json_out_u64(&o, "dim", m->dim);
    json_out_u64(&o, "vocab", m->vocab);
    json_out_u64(&o, "context", m->context);
    json_out_bool(&o, "exact", m->exact);
    json_out_bool(&o, "half_cache", m->half_cache);
    json_out_bool(&o, "narrow", m->narrow);
    put_hash(&o, "shape", &m->shape);
    put_hash(&o, "ends", &m->ends);
    json_out_open(&o, "layers", '[');
    for (uint32_t i = 0; i < m->layers; i++) put_hash(&o, NULL, &m->layer[i]);
    json_out_close(&o, ']');
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}

static bool read_hash(const json_value *v, braid_hash *out) {
    const char *text = json_string(v);
    return text && strlen(text) == HASH_TEXT && id_unhex(text, BRAID_ID_BYTES, out->bytes);
}

static bool read_u32(const json_value *v, uint64_t most, uint32_t *out) {
    uint64_t value = 0;
    if (!json_u64(v, &value) || value < 1 || value > most) return false;
    *out = (uint32_t)value;
    return true;
}

static bool read_name(const json_value *v, char out[SPAN_MAX_NAME]) {
    const char *text = json_string(v);
    if (!text || strlen(text) >= SPAN_MAX_NAME) return false;
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c >= 0x7f) return false;
    strcpy(out, text);
    return true;
}

static bool read_layers(const json *j, const json_value *list, span_model *out) {
    if (!list || list->kind != JSON_ARRAY || list->count < 1 || list->count > SPAN_MAX_LAYERS) return false;
    const json_value *v = json_first(j, list);
    for (out->layers = 0; v; v = json_next(j, v))
        if (!read_hash(v, &out->layer[out->layers++])) return false;
    return true;
}

static bool read_members(const json *j, span_model *out) {
    const json_value *root = json_root(j);
    return read_name(json_member(j, root, "name"), out->name) &&
           read_u32(json_member(j, root, "dim"), MODEL_MAX_DIM, &out->dim) &&
           read_u32(json_member(j, root, "vocab"), MODEL_MAX_VOCAB, &out->vocab) &&
           read_u32(json_member(j, root, "context"), MODEL_MAX_CONTEXT, &out->context) &&
           json_bool(json_member(j, root, "exact"), &out->exact) &&
           json_bool(json_member(j, root, "half_cache"), &out->half_cache) &&
           json_bool(json_member(j, root, "narrow"), &out->narrow) &&
           read_hash(json_member(j, root, "shape"), &out->shape) &&
           read_hash(json_member(j, root, "ends"), &out->ends) && read_layers(j, json_member(j, root, "layers"), out);
}

static bool is_serving(const json *j) {
    const json_value *root = json_root(j);
    const char *text = root->kind == JSON_OBJECT ? json_string(json_member(j, root, "kind")) : NULL;
    return text && strcmp(text, kind) == 0;
}

braid_err span_model_parse(const char *text, size_t length, span_model *out, braid_error *error) {
    json *j = NULL;
    braid_error why = {0};
    *out = (span_model){0};
    if (length > SPAN_MAX_DESCRIPTION || json_parse(text, length, &j, &why) || !is_serving(j)) {
        json_free(j);
        return braid_fail(
            error, BRAID_STATE,
            "that peer serves no model: its ticket is that of a training run, or of another version of braid");
    }
    bool good = read_members(j, out);
    json_free(j);
    return good ? BRAID_OK : braid_fail(error, BRAID_FORMAT, "the swarm's description of its model is malformed");
}
