// A model in a GGUF file or its shards.
#include "weights/gguf_config.h"
#include "weights/gguf_names.h"
#include "weights/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARD_SUFFIX = 20 };  // "-00001-of-00003.gguf"

typedef struct found_tensor {
    const gguf_tensor *tensor;
    uint32_t shard;
    bool used;
} found_tensor;

typedef struct finder {
    model_file *f;
    found_tensor *found;  // by name
    uint32_t count;
    braid_error *error;
} finder;

static int compare_found(const void *a, const void *b) {
    return strcmp(((const found_tensor *)a)->tensor->name, ((const found_tensor *)b)->tensor->name);
}

static found_tensor *find(const finder *s, const char *name) {
    gguf_tensor wanted;
    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    found_tensor key = {.tensor = &wanted};
    return bsearch(&key, s->found, s->count, sizeof key, compare_found);
}

static const uint8_t *data_of(const finder *s, const found_tensor *t) {
    return s->f->map[t->shard].at + t->tensor->offset;
}

// ---- shards

// "DIR/name-00001-of-00003.gguf" -> 1 of 3, and the length in front of the suffix.
static bool shard_name(const char *path, uint64_t *index, uint64_t *count, size_t *stem) {
    size_t length = strlen(path);
    if (length < SHARD_SUFFIX) return false;
    const char *suffix = path + length - SHARD_SUFFIX;
    unsigned i, n;
    int end = 0;
    if (sscanf(suffix, "-%5u-of-%5u.gguf%n", &i, &n, &end) != 2 || end != SHARD_SUFFIX) return false;
    *index = i;
    *count = n;
    *stem = length - SHARD_SUFFIX;
    return true;
}

static braid_err open_shard(model_file *f, const char *path, braid_error *error) {
    mapped *m = &f->map[f->shards];
    braid_err err = mapped_open(path, m, error);
    if (err) return err;
    err = gguf_parse(m->at, m->bytes, path, &f->gguf[f->shards], error);
    if (err) {
        mapped_close(m);
        return err;
    }
    f->shards++;
    return BRAID_OK;
}

static uint64_t count_of(const gguf *g, const char *key, uint64_t fallback) {
    uint64_t n = fallback;
    return gguf_u64(gguf_find(g, key), &n) ? n : fallback;
}

static braid_err check_shard(const model_file *f, uint32_t i, uint64_t count, braid_error *error) {
    const gguf *g = &f->gguf[i];
    if (count_of(g, "split.no", UINT64_MAX) != i || count_of(g, "split.count", 0) != count)
        return braid_fail(error, BRAID_FORMAT, "%s: its keys split.no and split.count do not say shard %u of %llu",
                          f->map[i].path, (unsigned)(i + 1), (unsigned long long)count);
    // gguf-py 0.19.0 pads every shard to the first one's alignment, but names it only there
    if (i > 0 && f->gguf[0].alignment != g->alignment)
        return braid_fail(
            error, BRAID_FORMAT,
            "%s: it does not name the first shard's alignment (%u), so its offsets cannot be trusted; convert "
            "the model again without a custom alignment",
            f->map[i].path, (unsigned)f->gguf[0].alignment);
    return BRAID_OK;
}

static braid_err open_further(model_file *f, uint64_t count, size_t stem, braid_error *error) {
    char path[MAPPED_MAX_PATH];
    uint64_t tensors = f->gguf[0].tensor_count;
    for (uint32_t i = 1; i < count; i++) {
        if (snprintf(path, sizeof path, "%.*s-%05u-of-%05u.gguf", (int)stem, f->path, (unsigned)(i + 1),
                     (unsigned)count) >= (int)sizeof path)
            return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", f->path);
        braid_err err = open_shard(f, path, error);
        if (!err) err = check_shard(f, i, count, error);
        if (err) return err;
        tensors += f->gguf[i].tensor_count;
    }
    if (count_of(&f->gguf[0], "split.tensors.count", tensors) == tensors) return BRAID_OK;
    return braid_fail(error, BRAID_FORMAT, "%s: its shards have %llu tensors, its key split.tensors.count says %llu",
                      f->path, (unsigned long long)tensors,
                      (unsigned long long)count_of(&f->gguf[0], "split.tensors.count", tensors));
}

static braid_err open_shards(model_file *f, braid_error *error) {
    uint64_t index = 1, count = 1;
    size_t stem = 0;
    bool named = shard_name(f->path, &index, &count, &stem);
    if (named && (count == 0 || count > GGUF_MAX_SHARDS))
        return braid_fail(error, BRAID_LIMIT, "%s: 1 to %d shards are possible", f->path, GGUF_MAX_SHARDS);
    if (named && index != 1)
        return braid_fail(error, BRAID_ARGUMENT,
                          "%s is shard %llu of a model; name the first one, %.*s-00001-of-%05llu.gguf", f->path,
                          (unsigned long long)index, (int)stem, f->path, (unsigned long long)count);
    braid_err err = model_file_reserve(f, (uint32_t)count, error);
    if (!err) err = open_shard(f, f->path, error);
    if (err) return err;
    uint64_t claimed = count_of(&f->gguf[0], "split.count", 1);
    if (claimed > 1 && !named)
        return braid_fail(
            error, BRAID_FORMAT,
            "%s: a shard of %llu, but its name does not end with -00001-of-%05llu.gguf; give the shards their "
            "names back",
            f->path, (unsigned long long)claimed, (unsigned long long)claimed);
    if (count > 1) err = check_shard(f, 0, count, error);
    return err || count == 1 ? err : open_further(f, count, stem, error);
}

// ---- tensors

static braid_err list_tensors(finder *s) {
    model_file *f = s->f;
    size_t total = 0;
    for (uint32_t i = 0; i < f->shards; i++) total += f->gguf[i].tensor_count;
    if (total > GGUF_MAX_TENSORS) return braid_fail(s->error, BRAID_LIMIT, "%s: too many tensors", f->path);
    s->found = calloc(total + 1, sizeof *s->found);
    if (!s->found) return braid_fail(s->error, BRAID_MEMORY, "no memory for the tensors of %s", f->path);
    for (uint32_t i = 0; i < f->shards; i++)
        for (uint32_t k = 0; k < f->gguf[i].tensor_count; k++)
            s->found[s->count++] = (found_tensor){.tensor = &f->gguf[i].tensor[k], .shard = i};
    qsort(s->found, s->count, sizeof *s->found, compare_found);
    for (uint32_t i = 1; i < s->count; i++)
        if (compare_found(&s->found[i - 1], &s->found[i]) == 0)
            return braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' is in two shards", f->path,
                              s->found[i].tensor->name);
    return BRAID_OK;
}

static braid_err read_config(finder *s) {
    model_file *f = s->f;
    found_tensor *embedding = find(s, "token_embd.weight"), *freqs = find(s, "rope_freqs.weight");
    float *factors = NULL;
    gguf_facts facts = {.vocab = embedding ? embedding->tensor->shape[1] : 0,
                        .tied = !find(s, "output.weight"),
                        .qkv_bias = find(s, "blk.0.attn_q.bias"),
                        .o_bias = find(s, "blk.0.attn_output.bias"),
                        .mlp_bias = find(s, "blk.0.ffn_up.bias")};
    if (!embedding)
        return braid_fail(s->error, BRAID_FORMAT,
                          "%s: the tensor 'token_embd.weight' is missing; is it the file of a model?", f->path);
    if (freqs && freqs->tensor->type == WEIGHT_F32 && freqs->tensor->dims == 1 &&
        freqs->tensor->shape[0] <= GGUF_MAX_PAIRS) {
        facts.rope_pairs = freqs->tensor->shape[0];
        facts.rope_freqs = factors = malloc(freqs->tensor->bytes);
        if (!factors) return braid_fail(s->error, BRAID_MEMORY, "no memory for rotary factors");
        memcpy(factors, data_of(s, freqs), freqs->tensor->bytes);
        freqs->used = true;
    }
    braid_err err = gguf_config_read(&f->gguf[0], &facts, f->path, &f->config, s->error);
    free(factors);
    return err;
}

// Shapes without their trailing ones.
static void write_shape(const gguf_tensor *t, char out[96]) {
    size_t at = 0;
    for (uint32_t d = 0; d < t->dims && at < 80; d++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%llu", d ? ", " : "", (unsigned long long)t->shape[d]);
}

// `e` as GGUF stores it: [out, in] always, experts as slices of one tensor.
static braid_err place(finder *s, const model_tensor *e, found_tensor *t, model_file_tensor *out) {
    const uint64_t *shape = t->tensor->shape;
    bool slice = gguf_is_slice(e);
    uint64_t rows = e->transposed ? e->cols : e->rows, cols = e->transposed ? e->rows : e->cols;
    uint64_t experts = slice ? s->f->config.experts : 1;
    if (shape[0] != cols || shape[1] != rows || shape[2] != experts || shape[3] != 1) {
        char text[96], wanted[96];
        write_shape(t->tensor, text);
        write_shape(&(gguf_tensor){.dims = slice ? 3 : e->vector ? 1 : 2, .shape = {cols, rows, experts}}, wanted);
        return braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' has the shape [%s], the model's keys say [%s]",
                          s->f->path, t->tensor->name, text, wanted);
    }
    size_t bytes = weight_bytes(t->tensor->type, rows, cols);
    out->weights = (weight_matrix){t->tensor->type, rows, cols, data_of(s, t) + bytes * (slice ? e->expert : 0)};
    out->transposed = false;
    out->rope_pairs = gguf_pairs_rows(&s->f->config, e->role);
    t->used = true;
    return BRAID_OK;
}

static braid_err place_tensors(finder *s) {
    for (uint32_t i = 0; i < s->f->count; i++) {
        const model_tensor *e = &s->f->expected.tensor[i];
        char name[GGUF_MAX_NAME_BYTES + 1];
        if (!gguf_name_of(e, name))
            return braid_fail(s->error, BRAID_CONFIG, "%s: GGUF has no name for the tensor '%s'", s->f->path, e->name);
        found_tensor *t = find(s, name);
        if (!t) return braid_fail(s->error, BRAID_FORMAT, "%s: the tensor '%s' is missing", s->f->path, name);
        braid_err err = place(s, e, t, &s->f->tensor[i]);
        if (err) return err;
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (!s->found[i].used)
            return braid_fail(s->error, BRAID_FORMAT,
                              "%s: the tensor '%s' is no part of the model that its keys describe", s->f->path,
                              s->found[i].tensor->name);
    return BRAID_OK;
}

// Values to which GGUF adds something are kept in memory without it.
static braid_err shift_values(model_file *f, braid_error *error) {
    size_t total = 0;
    for (uint32_t i = 0; i < f->count; i++)
        total += gguf_shift(&f->config, f->expected.tensor[i].role) > 0 ? f->tensor[i].weights.cols : 0;
    if (total == 0) return BRAID_OK;
    float *to = f->owned.read = malloc(total * sizeof *to);
    if (!to) return braid_fail(error, BRAID_MEMORY, "no memory for the norms of %s", f->path);
    for (uint32_t i = 0; i < f->count; i++) {
        weight_matrix *w = &f->tensor[i].weights;
        float shift = gguf_shift(&f->config, f->expected.tensor[i].role);
        if (!(shift > 0)) continue;
        weight_rows(w, 0, 1, to);
        for (size_t j = 0; j < w->cols; j++) to[j] -= shift;
        *w = (weight_matrix){WEIGHT_F32, 1, w->cols, to};
        to += w->cols;
    }
    return BRAID_OK;
}

// ---- vocabulary and template

static braid_err check_vocabulary(const model_file *f, braid_error *error) {
    const gguf_key *tokens = gguf_find(&f->gguf[0], "tokenizer.ggml.tokens");
    if (!tokens || tokens->count == f->config.vocab) return BRAID_OK;
    return braid_fail(error, BRAID_FORMAT,
                      "%s: the tokenizer has %llu tokens, the embedding %u rows; one of them is damaged", f->path,
                      (unsigned long long)tokens->count, (unsigned)f->config.vocab);
}

static braid_err read_template(model_file *f, braid_error *error) {
    gguf_text text;
    if (!gguf_string(gguf_find(&f->gguf[0], "tokenizer.chat_template"), &text)) return BRAID_OK;
    f->chat_template = model_file_copy(text.at, text.length);
    return f->chat_template ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the chat template");
}

static braid_err open_model(finder *s) {
    model_file *f = s->f;
    braid_err err = list_tensors(s);
    if (!err) err = read_config(s);
    if (!err) err = model_file_expect(f, s->error);
    if (!err) err = place_tensors(s);
    if (!err) err = shift_values(f, s->error);
    if (!err) err = check_vocabulary(f, s->error);
    return err ? err : read_template(f, s->error);
}

braid_err gguf_model_open(model_file *f, braid_error *error) {
    braid_err err = open_shards(f, error);
    if (err) return err;
    finder s = {.f = f, .error = error};
    err = open_model(&s);
    free(s.found);
    return err;
}
