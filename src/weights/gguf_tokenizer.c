// The tokenizer of a GGUF file.
#include "weights/inside.h"

#include <stdlib.h>
#include <string.h>

static const gguf_key *find(const gguf *g, const char *name, gguf_type type) {
    const gguf_key *key = gguf_find(g, name);
    return key && key->array && key->type == type && key->count <= TOKENIZER_MAX_IDS ? key : NULL;
}

// Copies an array of strings; NULL: absent, or no memory.
static tokenizer_text *read_texts(const gguf_key *key) {
    tokenizer_text *out = key ? malloc((key->count + 1) * sizeof *out) : NULL;
    const uint8_t *at = key ? key->at : NULL;
    for (uint64_t i = 0; out && i < key->count; i++) {
        gguf_text text = gguf_next_string(&at);
        out[i] = (tokenizer_text){text.at, text.length};
    }
    return out;
}

// Copies an array of 4-byte values, because the file does not align them; NULL: absent, or no
// memory.
static void *read_words(const gguf_key *key) {
    void *out = key ? malloc(key->count * 4 + 1) : NULL;
    if (out) memcpy(out, key->at, key->count * 4);
    return out;
}

static uint32_t read_id(const gguf *g, const char *name) {
    uint64_t id;
    return gguf_u64(gguf_find(g, name), &id) && id < TOKENIZER_MAX_IDS ? (uint32_t)id : TOKENIZER_NO_ID;
}

static int read_flag(const gguf *g, const char *name) {
    bool flag;
    return gguf_bool(gguf_find(g, name), &flag) ? flag : -1;
}

static char *read_name(const gguf *g, const char *name) {
    gguf_text text;
    return gguf_string(gguf_find(g, name), &text) ? model_file_copy(text.at, text.length) : NULL;
}

static braid_err check_lengths(const model_file *f, const gguf_key *scores, const gguf_key *types, uint64_t count,
                               braid_error *error) {
    if ((!scores || scores->count == count) && (!types || types->count == count)) return BRAID_OK;
    return braid_fail(error, BRAID_FORMAT, "%s: tokenizer.ggml.scores or token_type has not one element for each token",
                      f->path);
}

static braid_err load(const model_file *f, tokenizer_vocabulary *v, tokenizer **out, braid_error *error) {
    const gguf *g = &f->gguf[0];
    const gguf_key *tokens = find(g, "tokenizer.ggml.tokens", GGUF_STRING);
    const gguf_key *merges = find(g, "tokenizer.ggml.merges", GGUF_STRING);
    const gguf_key *scores = find(g, "tokenizer.ggml.scores", GGUF_F32);
    const gguf_key *types = find(g, "tokenizer.ggml.token_type", GGUF_I32);
    if (!v->model || !tokens)
        return braid_fail(error, BRAID_CONFIG, "%s has no tokenizer (tokenizer.ggml.model and tokens)", f->path);
    braid_err err = check_lengths(f, scores, types, tokens->count, error);
    if (err) return err;
    v->count = (uint32_t)tokens->count;
    v->merge_count = merges ? (uint32_t)merges->count : 0;
    v->tokens = read_texts(tokens);
    v->merges = read_texts(merges);
    v->scores = read_words(scores);
    v->types = read_words(types);
    if (!v->tokens || (merges && !v->merges) || (scores && !v->scores) || (types && !v->types))
        return braid_fail(error, BRAID_MEMORY, "no memory for the tokenizer of %s", f->path);
    braid_error why = {0};
    err = tokenizer_from_vocabulary(v, out, &why);
    return err ? braid_fail(error, err, "%s: %s", f->path, why.text) : BRAID_OK;
}

braid_err gguf_tokenizer(const model_file *f, tokenizer **out, braid_error *error) {
    const gguf *g = &f->gguf[0];
    char *model = read_name(g, "tokenizer.ggml.model"), *pre = read_name(g, "tokenizer.ggml.pre");
    tokenizer_vocabulary v = {.model = model,
                              .pre = pre,
                              .bos = read_id(g, "tokenizer.ggml.bos_token_id"),
                              .eos = read_id(g, "tokenizer.ggml.eos_token_id"),
                              .unknown = read_id(g, "tokenizer.ggml.unknown_token_id"),
                              .separator = read_id(g, "tokenizer.ggml.seperator_token_id"),
                              .classifier = read_id(g, "tokenizer.ggml.cls_token_id"),
                              .add_bos = read_flag(g, "tokenizer.ggml.add_bos_token"),
                              .add_eos = read_flag(g, "tokenizer.ggml.add_eos_token"),
                              .add_space_prefix = read_flag(g, "tokenizer.ggml.add_space_prefix")};
    braid_err err = load(f, &v, out, error);
    free((void *)(uintptr_t)v.tokens);
    free((void *)(uintptr_t)v.merges);
    free((void *)(uintptr_t)v.scores);
    free((void *)(uintptr_t)v.types);
    free(model);
    free(pre);
    return err;
}
