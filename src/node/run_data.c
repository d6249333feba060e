#include "node/run_data.h"

#include "base/sha256.h"
#include "data/build.h"
#include "node/carried.h"
#include "node/gguf_tokenizer.h"
#include "text/tokenizer.h"
#include "train/files.h"
#include "weights/model_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The tokenizer and the settings that all sources of a run share.
typedef struct opening {
    const run_data_config *config;
    const run_config *run;
    tokenizer *tokenizer;  // NULL: bytes
    braid_hash hash;
} opening;

static void note(const opening *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const opening *o, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (o->config->host.note) o->config->host.note(o->config->host.context, text);
}

// ---- one source ----

static bool read_cache(void *context, uint64_t at, uint32_t count, int32_t *out) {
    return cache_read(context, at, count, out);
}

static void why_damaged(void *context, braid_error *error) {
    braid_fail(error, BRAID_IO, "the cache of tokens '%s' is damaged; remove it and start again, and it is made anew",
               cache_path(context));
}

static void free_cache(void *context) { cache_close(context); }

static braid_err open_source(const opening *o, const run_source *s, train_tokens *out, braid_error *error) {
    const char *paths[RUN_MAX_TEXTS];
    cache *c = NULL;
    for (uint32_t i = 0; i < s->count; i++) paths[i] = o->run->text[s->first + i];
    const data_source source = {
        .paths = paths,
        .count = s->count,
        .field = s->field,
        .tokenizer = o->tokenizer,
        .tokenizer_hash = o->hash,
        .end = o->run->end,
        .directory = o->run->cache,
        .threads = o->config->threads,
        .host = o->config->host,
    };
    braid_err err = data_cache_get(&source, &c, error);
    if (err) return err;
    const cache_summary *about = cache_about(c);
    *out = (train_tokens){
        .weight = s->weight,
        .tokens = about->tokens,
        .documents = about->documents,
        .ends = cache_ends(c),
        .limit = about->limit,
        .hash = about->content,
        .context = c,
        .read = read_cache,
        .why = why_damaged,
        .free = free_cache,
    };
    snprintf(out->name, sizeof out->name, "%s", s->name[0] ? s->name : "data.text");
    return BRAID_OK;
}

static void describe(const opening *o, const train_data *data) {
    const packed_data *p = train_data_packed(data);
    for (uint32_t i = 0; p && i < packed_sources(p) && o->config->describes; i++) {
        const train_tokens *t = packed_source(p, i);
        const cache_summary *about = cache_about(t->context);
        note(o, "%s: %llu documents, %llu tokens (%.2f bytes each), %.2f %% of the sequences; cache %.300s", t->name,
             (unsigned long long)t->documents, (unsigned long long)t->tokens,
             (double)about->text_bytes / (double)t->tokens, 100 * packed_share(p, i), cache_path(t->context));
    }
}

static braid_err open_sources(const opening *o, const run_source *sources, uint32_t count, train_data **out,
                              braid_error *error) {
    const run_config *run = o->run;
    const packed_settings settings = {
        .holdout = run->holdout, .tokens = run->tokens, .vocabulary = run->model.vocab, .masks_next = run->documents};
    train_tokens tokens[RUN_MAX_SOURCES];
    uint32_t opened = 0;
    braid_err err = BRAID_OK;
    while (opened < count && !err) {
        err = open_source(o, &sources[opened], &tokens[opened], error);
        if (!err) opened++;
    }
    if (!err) return train_data_open_tokens(tokens, count, &settings, run->microbatches, out, error);
    for (uint32_t i = 0; i < opened; i++) tokens[i].free(tokens[i].context);
    return err;
}

// ---- all texts of a run ----

static braid_err open_text(const opening *o, uint32_t i, train_data **out, braid_error *error) {
    run_source one = o->run->source[0];
    one.first = i;
    one.count = 1;
    snprintf(one.name, sizeof one.name, "text %u", i + 1);
    return open_sources(o, &one, 1, out, error);
}

static braid_err open_shares(const opening *o, train_data **out, braid_error *error) {
    const train_shares shares = {o->run->slots, o->run->microbatches};
    train_data *each[RUN_MAX_TEXTS] = {0};
    uint32_t count = o->run->text_count;
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < count && !err; i++) err = open_text(o, i, &each[i], error);
    for (uint32_t i = 0; i < count && !err; i++) describe(o, each[i]);
    if (!err) return train_data_join_shares(each, count, &shares, out, error);
    for (uint32_t i = 0; i < count; i++) train_data_free(each[i]);
    return err;
}

static bool has_several(const run_config *run) { return run->private_data > 0 && run->text_count > 1; }

static braid_err open_tokens(const opening *o, train_data **out, braid_error *error) {
    const run_config *run = o->run;
    if (has_several(run) && o->config->own == 0) return open_shares(o, out, error);
    braid_err err = has_several(run) ? open_text(o, o->config->own - 1, out, error)
                                     : open_sources(o, run->source, run->source_count, out, error);
    if (!err) describe(o, *out);
    return err;
}

static braid_err open_bytes(const run_data_config *config, train_data **out, braid_error *error) {
    const run_config *run = config->run;
    const char *paths[RUN_MAX_TEXTS];
    const train_shares shares = {run->slots, run->microbatches};
    for (uint32_t i = 0; i < run->text_count; i++) paths[i] = run->text[i];
    if (has_several(run) && config->own > 0)
        return train_data_open(&paths[config->own - 1], 1, run->holdout, run->tokens, out, error);
    if (run->private_data > 0 && config->own == 0)
        return train_data_open_shares(paths, run->text_count, &shares, run->holdout, run->tokens, out, error);
    return train_data_open(paths, run->text_count, run->holdout, run->tokens, out, error);
}

static braid_err open_tokenizer(const char *path, tokenizer **out, braid_error *error) {
    model_file *f = NULL;
    if (!gguf_tokenizer_is(path)) return tokenizer_open(path, out, error);
    braid_err err = model_file_open(path, &f, error);
    if (!err) err = model_file_tokenizer(f, out, error);
    model_file_close(f);
    return err;
}

// Opens the tokenizer, and reads the files that checkpoints carry.
static braid_err take_tokenizer(opening *o, files_text **files, uint32_t *count, braid_error *error) {
    char made[FILES_MAX_PATH];
    const char *path = o->run->tokenizer;
    braid_err err = BRAID_OK;
    if (gguf_tokenizer_is(path)) {
        err = gguf_tokenizer_make(path, o->run->cache, &o->config->host, made, error);
        path = made;
    }
    if (!err) err = tokenizer_open(path, &o->tokenizer, error);
    if (!err) err = carried_read(path, o->tokenizer, o->run->end, o->run->model.context, files, count, error);
    if (!err) o->hash = sha256_of((*files)[0].text, (*files)[0].length);
    return err;
}

braid_err run_data_open(const run_data_config *config, train_data **out, braid_error *error) {
    opening o = {.config = config, .run = config->run};
    files_text *files = NULL;
    uint32_t count = 0;
    if (!o.run->tokenizer[0]) return open_bytes(config, out, error);
    braid_err err = BRAID_OK;
    if (strcmp(o.run->tokenizer, "bytes") != 0) err = take_tokenizer(&o, &files, &count, error);
    if (!err && o.run->private_data > 0) config->run->tokenizer_hash = o.hash;
    if (!err) err = open_tokens(&o, out, error);
    if (!err)
        train_data_carry(*out, files, count);
    else
        carried_free(files, count);
    tokenizer_free(o.tokenizer);
    return err;
}

static braid_err read_vocabulary(const char *path, uint32_t *tokens, braid_error *error) {
    tokenizer *t = NULL;
    braid_err err = open_tokenizer(path, &t, error);
    if (!err) *tokens = tokenizer_size(t);
    tokenizer_free(t);
    return err;
}

static braid_err read_model(const char *path, model_config *out, braid_error *error) {
    model_file *f = NULL;
    braid_err err = model_file_open(path, &f, error);
    if (!err) *out = *model_file_config(f);
    model_file_close(f);
    return err;
}

run_readers run_data_readers(const char *from) {
    return (run_readers){.vocabulary = read_vocabulary, .model = read_model, .from = from};
}
