#include "cli/generator.h"

#include "train/checkpoint.h"
#include "train/checkpoint_directory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES = 256 };

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// A checkpoint's files are verified before its weights are used. `step` is its path, or the path as
// given.
static braid_err verify(const char *path, char step[FILES_MAX_PATH], bool *is_checkpoint, braid_error *error) {
    struct stat info;
    // `latest` may be a link, a file with the name of the step, or missing in a copy
    bool is_file = stat(path, &info) == 0 && S_ISREG(info.st_mode) && strcmp(base_name(path), CHECKPOINT_LATEST) != 0;
    *is_checkpoint = !is_file && !checkpoint_locate(path, step, NULL) && checkpoint_is_step(step);
    if (!*is_checkpoint) {
        if (strlen(path) >= FILES_MAX_PATH)
            return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", path);
        memcpy(step, path, strlen(path) + 1);
        return BRAID_OK;
    }
    checkpoint *c = NULL;
    braid_err err = checkpoint_open_weights(step, &c, error);
    checkpoint_close(c);
    return err;
}

// True for the tokenizer of a checkpoint of bytes: its ids are the bytes.
static bool is_of_bytes(const tokenizer *t) {
    char byte[8];
    if (tokenizer_size(t) != BYTES) return false;
    for (uint32_t i = 0; i < BYTES; i++)
        if (tokenizer_token_bytes(t, i, byte, sizeof byte) != 1 || (unsigned char)byte[0] != i) return false;
    return true;
}

// A checkpoint without a tokenizer is one of bytes, for which the file is only a help to other
// programs.
static braid_err open_tokenizer(generator *g, bool is_checkpoint, braid_error *error) {
    braid_err err = model_file_tokenizer(g->file, &g->tokenizer, error);
    if (is_checkpoint && (err == BRAID_CONFIG || (!err && is_of_bytes(g->tokenizer)))) {
        tokenizer_free(g->tokenizer);
        g->tokenizer = NULL;
        return BRAID_OK;
    }
    if (!err && !(g->encoder = tokenizer_encoder_new(g->tokenizer)))
        err = braid_fail(error, BRAID_MEMORY, "no memory for the tokenizer");
    return err;
}

braid_err generator_open_model(generator *g, const char *path, unsigned threads, braid_error *error) {
    char step[FILES_MAX_PATH];
    bool is_checkpoint = false;
    *g = (generator){0};
    braid_err err = verify(path, step, &is_checkpoint, error);
    if (!err) err = model_file_open(step, &g->file, error);
    if (!err) err = open_tokenizer(g, is_checkpoint, error);
    return err ? err : tensor_pool_new(threads, &g->pool, error);
}

static braid_err open_adapter(generator *g, const char *directory, braid_error *error) {
    peft_adapter *p = NULL;
    braid_err err = peft_open(directory, g->file, &p, error);
    if (!err) err = engine_adapter_new(g->engine, p, &g->adapter, error);
    peft_close(p);
    return err;
}

braid_err generator_open(generator *g, const char *path, const generator_settings *settings, braid_error *error) {
    braid_err err = generator_open_model(g, path, settings->threads, error);
    if (err) return err;
    engine_settings computing = settings->engine;
    generation_settings text = settings->text;
    engine_source source = engine_source_file(g->file);
    computing.pool = g->pool;
    text.shift = g->tokenizer == NULL;
    err = engine_new(&source, &computing, &g->engine, error);
    if (!err && settings->adapter) err = open_adapter(g, settings->adapter, error);
    text.adapter = g->adapter;
    return err ? err : generation_new(g->engine, g->tokenizer, &text, &g->text, error);
}

braid_err generator_open_file(const char *path, model_file **out, braid_error *error) {
    char step[FILES_MAX_PATH];
    bool is_checkpoint = false;
    braid_err err = verify(path, step, &is_checkpoint, error);
    return err ? err : model_file_open(step, out, error);
}

void generator_close(generator *g) {
    generation_free(g->text);
    engine_adapter_free(g->adapter);
    engine_free(g->engine);
    tensor_pool_free(g->pool);
    tokenizer_encoder_free(g->encoder);
    tokenizer_free(g->tokenizer);
    model_file_close(g->file);
}

static braid_err add(tokenizer_ids *ids, uint32_t id, braid_error *error) {
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        uint32_t *more = realloc(ids->at, capacity * sizeof *more);
        if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for the prompt");
        ids->at = more;
        ids->capacity = capacity;
    }
    ids->at[ids->count++] = id;
    return BRAID_OK;
}

braid_err generator_encode(generator *g, const char *text, size_t length, tokenizer_ids *ids, braid_error *error) {
    braid_err err = BRAID_OK;
    size_t before = ids->count;
    for (size_t i = 0; i < length && !g->tokenizer && !err; i++) err = add(ids, (unsigned char)text[i], error);
    if (g->tokenizer)
        err = tokenizer_encode(g->encoder, text, length, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, ids, error);
    if (err || ids->count > before) return err;
    uint32_t first = g->tokenizer ? tokenizer_bos(g->tokenizer) : '\n';
    if (first == TOKENIZER_NO_ID)
        return braid_fail(error, BRAID_CONFIG, "the model has no token that begins a text: give a --prompt");
    return add(ids, first, error);
}
