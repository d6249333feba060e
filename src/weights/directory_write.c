// Writes a model as a Hugging Face directory.
#include "format/hf_config.h"
#include "weights/config_json.h"
#include "weights/convert_inside.h"
#include "weights/read_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_SHARD_BYTES_GB = 5 };

typedef struct planned {
    const model_file_tensor *t;
    tensor_target target;
    safetensors_tensor entry;  // dtype and shape as in the file
    uint64_t bytes;
    uint32_t shard;
} planned;

typedef struct plan {
    const model_file *f;
    const char *directory;
    convert_options *options;
    planned *tensor;  // in the order of the files
    uint32_t shards;
    uint64_t total;
    braid_error *error;
} plan;

// ---- tensors

// Vectors and routers of experts stay fp32 where matrices are 8-bit.
static weight_type choose_type(const model_tensor *e, weight_type to) {
    return to == WEIGHT_MIXED8 && (e->vector || e->role == ROLE_ROUTER) ? WEIGHT_F32 : to;
}

static void plan_tensor(const plan *p, uint32_t i, planned *out) {
    static const safetensors_dtype dtypes[WEIGHT_TYPES] = {[WEIGHT_F32] = SAFETENSORS_F32,
                                                           [WEIGHT_F16] = SAFETENSORS_F16,
                                                           [WEIGHT_BF16] = SAFETENSORS_BF16,
                                                           [WEIGHT_MIXED8] = SAFETENSORS_U8};
    const model_file_tensor *t = &p->f->tensor[i];
    const model_tensor *e = &p->f->expected.tensor[i];
    size_t rows, cols;
    weight_type type = choose_type(e, p->options->to);
    *out = (planned){.t = t, .target = {.type = type, .transposed = e->transposed && type != WEIGHT_MIXED8}};
    tensor_target_shape(t, &out->target, &rows, &cols);
    out->bytes = weight_bytes(type, rows, cols);
    out->entry = (safetensors_tensor){
        .name = t->name, .dtype = dtypes[type], .dims = t->vector ? 1 : 2, .shape = {t->vector ? cols : rows, cols}};
    if (type == WEIGHT_MIXED8) {
        out->entry.dims = 1;
        out->entry.shape[0] = out->bytes;
    }
}

// As the library safetensors writes: wide types first, then by name.
static int compare(const void *a, const void *b) {
    const planned *x = a, *y = b;
    size_t wide = weight_block_bytes(x->target.type), other = weight_block_bytes(y->target.type);
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (wide != other) return wide > other ? -1 : 1;
    return strcmp(x->t->name, y->t->name);
}

// Fills one file after the other in the model's order.
static braid_err plan_tensors(plan *p) {
    uint64_t most = p->options->shard_bytes, held = 0;
    if (most == 0) most = (uint64_t)DEFAULT_SHARD_BYTES_GB * 1000 * 1000 * 1000;
    p->tensor = calloc((size_t)p->f->count + 1, sizeof *p->tensor);
    if (!p->tensor) return braid_fail(p->error, BRAID_MEMORY, "no memory for %u tensors", p->f->count);
    for (uint32_t i = 0; i < p->f->count; i++) {
        planned *t = &p->tensor[i];
        plan_tensor(p, i, t);
        if (held > 0 && t->bytes > most - (held < most ? held : most)) {
            p->shards++;
            held = 0;
        }
        t->shard = p->shards;
        held += t->bytes;
        p->total += t->bytes;
    }
    p->shards++;
    p->options->progress.total = p->total;
    qsort(p->tensor, p->f->count, sizeof *p->tensor, compare);
    return p->shards < 100000 ? BRAID_OK : braid_fail(p->error, BRAID_LIMIT, "too many files of weights");
}

static void shard_name(const plan *p, uint32_t shard, char name[48]) {
    if (p->shards == 1)
        snprintf(name, 48, "model.safetensors");
    else
        snprintf(name, 48, "model-%05u-of-%05u.safetensors", (unsigned)(shard + 1), (unsigned)p->shards);
}

static braid_err write_bytes(const plan *p, const planned *first, uint32_t count, const uint8_t *prefix, size_t bytes) {
    char name[48], path[MAPPED_MAX_PATH];
    output out;
    shard_name(p, first->shard, name);
    if (snprintf(path, sizeof path, "%s/%s", p->directory, name) >= (int)sizeof path)
        return braid_fail(p->error, BRAID_LIMIT, "the path '%.64s...' is too long", p->directory);
    braid_err err = output_open(&out, path, &p->options->progress, p->error);
    if (err) return err;
    err = output_put(&out, prefix, bytes, p->error);
    for (uint32_t i = 0; i < count && !err; i++) err = tensor_write(first[i].t, &first[i].target, &out, p->error);
    if (!err) return output_finish(&out, p->error);
    output_abandon(&out);
    return err;
}

static braid_err write_shard(const plan *p, const planned *first, uint32_t count) {
    safetensors_tensor *entries = calloc(count, sizeof *entries);
    uint8_t *prefix = NULL;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count && entries; i++) entries[i] = first[i].entry;
    if (entries) prefix = safetensors_prefix(entries, count, NULL, 0, &bytes);
    braid_err err = prefix ? write_bytes(p, first, count, prefix, bytes)
                           : braid_fail(p->error, BRAID_MEMORY, "no memory for the header of a file");
    free(entries);
    free(prefix);
    return err;
}

static braid_err write_index(const plan *p) {
    json_out o = {.pretty = true};
    char name[48];
    size_t length;
    if (p->shards == 1) return BRAID_OK;
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "metadata", '{');
    json_out_u64(&o, "total_size", p->total);
    json_out_close(&o, '}');
    json_out_open(&o, "weight_map", '{');
    for (uint32_t i = 0; i < p->f->count; i++) {
        shard_name(p, p->tensor[i].shard, name);
        json_out_string(&o, p->tensor[i].t->name, name);
    }
    json_out_close(&o, '}');
    json_out_close(&o, '}');
    char *text = json_out_take(&o, &length);
    braid_err err = text ? output_file(p->directory, "model.safetensors.index.json", text, length, p->error)
                         : braid_fail(p->error, BRAID_MEMORY, "no memory for the index");
    free(text);
    return err;
}

static braid_err write_weights(const plan *p) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0, end; i < p->f->count && !err; i = end) {
        for (end = i; end < p->f->count && p->tensor[end].shard == p->tensor[i].shard;) end++;
        err = write_shard(p, &p->tensor[i], end - i);
    }
    return err ? err : write_index(p);
}

// ---- the other files

static braid_err write_config(const plan *p) {
    static const char *const dtypes[WEIGHT_TYPES] = {
        [WEIGHT_F32] = "float32", [WEIGHT_F16] = "float16", [WEIGHT_BF16] = "bfloat16", [WEIGHT_MIXED8] = "float32"};
    config_change change = {.dtype = dtypes[p->options->to],
                            .tied = p->f->config.tied,
                            .set_ends = !p->f->directory,
                            .bos = TOKENIZER_NO_ID,
                            .eos = TOKENIZER_NO_ID,
                            .quant_method = p->options->to == WEIGHT_MIXED8 ? MODEL_FILE_MIXED8 : NULL};
    char *text = NULL, *changed = NULL;
    size_t length;
    tokenizer *t = NULL;
    braid_err err = BRAID_OK;
    if (p->f->directory)
        err = read_text(p->f->path, "config.json", READ_TEXT_MAX_BYTES, &text, &length, p->error);
    else
        text = hf_config_write(&p->f->config, &length);
    if (!err && !text) err = braid_fail(p->error, BRAID_MEMORY, "no memory for config.json");
    if (!err && change.set_ends && model_file_has_tokenizer(p->f)) err = model_file_tokenizer(p->f, &t, p->error);
    if (t) {
        change.bos = tokenizer_bos(t);
        change.eos = tokenizer_eos(t);
    }
    if (!err) err = config_json_change(text, length, &change, &changed, &length, p->error);
    if (!err) err = output_file(p->directory, "config.json", changed, length, p->error);
    tokenizer_free(t);
    free(text);
    free(changed);
    return err;
}

// Files about the tokenizer and generation are the model's own.
static braid_err copy_files(const plan *p) {
    static const char *const names[] = {"generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja"};
    braid_err err = BRAID_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !err; i++) {
        char *text;
        size_t length;
        err = read_text(p->f->path, names[i], TOKENIZER_MAX_FILE_BYTES, &text, &length, p->error);
        if (!err && text) err = output_file(p->directory, names[i], text, length, p->error);
        free(text);
    }
    return err;
}

static braid_err write_texts(const plan *p) {
    const char *template = p->f->chat_template;
    if (p->f->directory) return copy_files(p);
    braid_err err = template ? output_file(p->directory, "chat_template.jinja", template, strlen(template), p->error)
                             : BRAID_OK;
    return err || !model_file_has_tokenizer(p->f) ? err : directory_write_tokenizer(p->f, p->directory, p->error);
}

braid_err directory_write(const model_file *f, const char *path, convert_options *options, braid_error *error) {
    plan p = {.f = f, .directory = path, .options = options, .error = error};
    braid_err err = plan_tensors(&p);
    if (!err) err = write_config(&p);
    if (!err) err = write_texts(&p);
    if (!err) err = write_weights(&p);
    free(p.tensor);
    return err;
}
