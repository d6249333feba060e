#include "cli/serve_draft.h"

#include "format/quantity.h"

#include <string.h>

enum { CACHE_SHARE = 8, MODEL_SHARE = 2 };  // parts of the memory

static uint64_t file_bytes(const model_file *f) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < model_file_count(f); i++) {
        const weight_matrix *w = &model_file_at(f, i)->weights;
        sum += weight_bytes(w->type, w->rows, w->cols);
    }
    return sum;
}

static bool same_tokens(const tokenizer *a, const tokenizer *b) {
    if (!a || !b) return a == b;
    if (tokenizer_size(a) != tokenizer_size(b)) return false;
    for (uint32_t i = 0; i < tokenizer_size(a); i++) {
        size_t x = 0, y = 0;
        const char *s = tokenizer_token(a, i, &x), *t = tokenizer_token(b, i, &y);
        if (x != y || !s != !t || (s && memcmp(s, t, x) != 0)) return false;
    }
    return true;
}

static braid_err open_engine(serve_draft *d, const char *path, const generator *served, uint32_t context,
                             uint64_t memory, braid_error *error) {
    engine_source source = engine_source_file(d->model.file);
    const model_config *c = model_file_config(d->model.file);
    const engine_settings settings = {.pool = served->pool, .context = context && context < c->context ? context : 0};
    braid_err err = engine_new(&source, &settings, &d->model.engine, error);
    if (err || memory == 0) return err;
    uint64_t weights = file_bytes(d->model.file) + engine_copied_bytes(d->model.engine), cache = memory / CACHE_SHARE;
    char needs[QUANTITY_TEXT], has[QUANTITY_TEXT];
    d->bytes = weights + cache;
    if (d->bytes > memory / MODEL_SHARE || cache < engine_page_bytes(d->model.engine))
        return braid_fail(error, BRAID_LIMIT,
                          "the draft model %s needs %s with its keys and values, and may use half of %s; give a smaller"
                          " one or a larger --max-memory",
                          path, quantity_size_text(d->bytes, needs), quantity_size_text(memory, has));
    return engine_limit_cache(d->model.engine, cache, error);
}

braid_err serve_draft_open(serve_draft *d, const char *draft, const generator *served, uint32_t context,
                           uint64_t memory, braid_error *error) {
    *d = (serve_draft){.on = strcmp(draft, "off") != 0};
    if (!d->on || strcmp(draft, "lookup") == 0) return BRAID_OK;
    braid_err err = generator_open_model(&d->model, draft, 1, error);
    if (!err && !same_tokens(d->model.tokenizer, served->tokenizer))
        err = braid_fail(error, BRAID_CONFIG,
                         "the draft model %s has other tokens than the model that is served; give one of its family",
                         draft);
    return err ? err : open_engine(d, draft, served, context, memory, error);
}

void serve_draft_close(serve_draft *d) { generator_close(&d->model); }
