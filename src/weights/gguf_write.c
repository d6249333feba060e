// Writes a model as a GGUF file that llama.cpp (commit 0c1e57098) reads: tensors in the order of
// their bytes without holes, no tensor that it does not use, each key with its one type.
#include "weights/convert_inside.h"
#include "weights/gguf_config.h"
#include "weights/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A tensor of the file, made of `parts` tensors of the model that follow each other (experts), or
// of none (rope_freqs).
typedef struct planned {
    char name[GGUF_MAX_NAME_BYTES + 1];
    const model_file_tensor **part;
    uint32_t parts;
    bool slices;  // three dimensions
    tensor_target target;
} planned;

typedef struct plan {
    const model_file *f;
    planned *tensor;
    uint32_t count;
    const model_file_tensor **parts;  // memory for all of them
    float *rope_factors;              // NULL: none
    braid_error *error;
} plan;

// Vectors, positions and the routers of experts are fp32, as llama.cpp wants them; rows that blocks
// do not fill are F16.
static weight_type choose_type(const model_tensor *e, size_t cols, weight_type to) {
    if (e->vector || e->role == ROLE_ROUTER || e->role == ROLE_POSITIONS) return WEIGHT_F32;
    return to == WEIGHT_Q8_0 && weight_row_bytes(to, cols) == 0 ? WEIGHT_F16 : to;
}

static tensor_target choose_target(const plan *p, uint32_t i, weight_type to) {
    const model_tensor *e = &p->f->expected.tensor[i];
    size_t rows, cols;
    tensor_target target = {.rope_pairs = gguf_pairs_rows(&p->f->config, e->role),
                            .shift = gguf_shift(&p->f->config, e->role)};
    tensor_target_shape(&p->f->tensor[i], &target, &rows, &cols);
    target.type = choose_type(e, cols, to);
    return target;
}

static planned *find_planned(plan *p, const char *name) {
    for (uint32_t i = p->count; i-- > 0;)
        if (strcmp(p->tensor[i].name, name) == 0) return &p->tensor[i];
    return NULL;
}

// Experts of one kind and layer become one tensor.
static braid_err plan_tensors(plan *p, weight_type to) {
    const model_file *f = p->f;
    p->tensor = calloc((size_t)f->count + 2, sizeof *p->tensor);
    size_t room = (size_t)f->count * (f->config.experts ? f->config.experts : 1);
    p->parts = calloc(room + 1, sizeof *p->parts);
    if (!p->tensor || !p->parts) return braid_fail(p->error, BRAID_MEMORY, "no memory for %u tensors", f->count);
    const model_file_tensor **next = p->parts;
    for (uint32_t i = 0; i < f->count; i++) {
        const model_tensor *e = &f->expected.tensor[i];
        char name[GGUF_MAX_NAME_BYTES + 1];
        if (!gguf_name_of(e, name))
            return braid_fail(p->error, BRAID_CONFIG, "GGUF has no name for the tensor '%s'", e->name);
        planned *known = gguf_is_slice(e) ? find_planned(p, name) : NULL;
        if (!known) {
            known = &p->tensor[p->count++];
            *known = (planned){.part = next, .slices = gguf_is_slice(e), .target = choose_target(p, i, to)};
            memcpy(known->name, name, sizeof known->name);
            next += known->slices ? f->config.experts : 1;
        }
        known->part[known->parts++] = &f->tensor[i];  // experts are listed in order
    }
    return BRAID_OK;
}

static braid_err plan_rope_factors(plan *p) {
    const model_config *c = &p->f->config;
    if (c->rope.kind != MODEL_ROPE_LLAMA3) return BRAID_OK;
    p->rope_factors = malloc((model_head_dim(c) / 2 + 1) * sizeof *p->rope_factors);
    if (!p->rope_factors) return braid_fail(p->error, BRAID_MEMORY, "no memory for rotary factors");
    gguf_rope_factors(c, p->rope_factors);
    planned *t = &p->tensor[p->count++];
    snprintf(t->name, sizeof t->name, "rope_freqs.weight");
    t->target.type = WEIGHT_F32;
    return BRAID_OK;
}

static void put_tensor(gguf_out *o, const plan *p, const planned *t) {
    size_t rows, cols;
    uint64_t shape[3] = {model_head_dim(&p->f->config) / 2};
    if (t->parts == 0) {
        gguf_out_tensor(o, t->name, WEIGHT_F32, shape, 1);
        return;
    }
    tensor_target_shape(t->part[0], &t->target, &rows, &cols);
    shape[0] = cols;
    shape[1] = rows;
    shape[2] = t->parts;
    gguf_out_tensor(o, t->name, t->target.type, shape, t->part[0]->vector ? 1 : t->slices ? 3 : 2);
}

// llama.cpp's numbers of a file's kind; braid does not use them.
static uint32_t file_type(weight_type to) {
    return to == WEIGHT_F16 ? 1 : to == WEIGHT_Q8_0 ? 7 : to == WEIGHT_BF16 ? 32 : 0;
}

// Keys about the model's origin, as its GGUF file has them.
static void copy_general(gguf_out *o, const model_file *f) {
    static const char *const made[] = {"general.architecture", "general.alignment", "general.file_type",
                                       "general.quantization_version"};
    if (f->directory) return;
    for (uint32_t i = 0; i < f->gguf[0].key_count; i++) {
        const gguf_key *key = &f->gguf[0].key[i];
        bool general = key->name.length > 8 && memcmp(key->name.at, "general.", 8) == 0;
        for (size_t k = 0; k < sizeof made / sizeof *made; k++)
            general &= key->name.length != strlen(made[k]) || memcmp(key->name.at, made[k], key->name.length) != 0;
        if (general) gguf_out_copy(o, key);
    }
}

static braid_err build_header(gguf_out *o, const plan *p, weight_type to) {
    gguf_out_begin(o);
    gguf_write_config(o, &p->f->config);
    copy_general(o, p->f);
    gguf_out_u32(o, "general.file_type", file_type(to));
    if (to == WEIGHT_Q8_0) gguf_out_u32(o, "general.quantization_version", 2);
    braid_err err = gguf_write_tokenizer(o, p->f, p->error);
    if (err) return err;
    for (uint32_t i = 0; i < p->count; i++) put_tensor(o, p, &p->tensor[i]);
    return gguf_out_end(o) ? BRAID_OK : braid_fail(p->error, BRAID_MEMORY, "no memory for the file's keys");
}

static braid_err write_tensors(const plan *p, output *out) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < p->count && !err; i++) {
        const planned *t = &p->tensor[i];
        if (t->parts == 0)
            err = output_put(out, p->rope_factors, model_head_dim(&p->f->config) / 2 * sizeof(float), p->error);
        for (uint32_t k = 0; k < t->parts && !err; k++) err = tensor_write(t->part[k], &t->target, out, p->error);
        if (!err) err = output_pad(out, GGUF_DEFAULT_ALIGNMENT, p->error);
    }
    return err;
}

static braid_err write_file(const plan *p, const char *path, convert_options *options) {
    gguf_out header = {0};
    output out;
    braid_err err = build_header(&header, p, options->to);
    options->progress.total = header.length + header.offset;
    if (!err) err = output_open(&out, path, &options->progress, p->error);
    if (!err) {
        err = output_put(&out, header.at, header.length, p->error);
        if (!err) err = write_tensors(p, &out);
        if (!err)
            err = output_finish(&out, p->error);
        else
            output_abandon(&out);
    }
    gguf_out_free(&header);
    return err;
}

braid_err gguf_write(const model_file *f, const char *path, convert_options *options, braid_error *error) {
    plan p = {.f = f, .error = error};
    braid_err err = gguf_check_config(&f->config, error);
    if (!err) err = plan_tensors(&p, options->to);
    if (!err) err = plan_rope_factors(&p);
    if (!err) err = write_file(&p, path, options);
    free(p.tensor);
    free(p.parts);
    free(p.rope_factors);
    return err;
}
