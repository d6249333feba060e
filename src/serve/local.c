#include "serve/local.h"

#include "format/quantity.h"
#include "serve/executor_local.h"
#include "serve/scheduler.h"

#include <stdlib.h>

typedef struct local_service {
    service_model model;
    engine *engine;
    adapter_set *adapters;  // NULL: none
    const model_file *file;
    uint64_t released;  // bytes of the file that the engine has copies of
} local_service;

static void free_local(void *context) {
    local_service *l = context;
    adapter_set_free(l->adapters);
    engine_free(l->engine);
    free(l);
}

static void release(const void *context, const void *at, size_t bytes) {
    local_service *l = (local_service *)(uintptr_t)context;
    if (!l->engine) l->released += bytes;  // later calls are for the embedding, of which there is no copy
    model_file_release(l->file, at, bytes);
}

static const model_file_tensor *find(const void *context, const char *name) {
    return model_file_find(((const local_service *)context)->file, name);
}

static braid_err open_adapters(local_service *l, const service_local_settings *p, braid_error *error) {
    if (p->adapter_count == 0) return BRAID_OK;
    return adapter_set_new(l->engine, p->file, p->name, p->adapters, p->adapter_count, &l->adapters, error);
}

static braid_err open_engine(local_service *l, const service_local_settings *p, braid_error *error) {
    engine_source source = {.config = model_file_config(p->file), .find = find, .context = l, .release = release};
    engine_settings settings = {
        .pool = p->pool, .context = p->context, .exact = p->exact, .half_cache = p->half_cache, .narrow = p->narrow};
    return engine_new(&source, &settings, &l->engine, error);
}

// --- memory

static uint64_t file_bytes(const model_file *f) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < model_file_count(f); i++) {
        const weight_matrix *w = &model_file_at(f, i)->weights;
        sum += weight_bytes(w->type, w->rows, w->cols);
    }
    return sum;
}

static uint64_t cache_needed(const engine *e, uint32_t tokens) {
    return (tokens + ENGINE_PAGE_TOKENS - 1) / ENGINE_PAGE_TOKENS * (uint64_t)engine_page_bytes(e);
}

static braid_err too_little(const service_local_settings *p, const service_local_memory *m, uint64_t cache,
                            uint32_t tokens, braid_error *error) {
    char limit[QUANTITY_TEXT], all[QUANTITY_TEXT], weights[QUANTITY_TEXT];
    return braid_fail(error, BRAID_LIMIT,
                      "%s of memory are too few for this model: its weights need %s, and with one text of %u tokens"
                      " about %s are needed; give a larger --max-memory or a shorter --context",
                      quantity_size_text(p->memory_limit, limit), quantity_size_text(m->weights, weights), tokens,
                      quantity_size_text(m->weights + m->computing + cache, all));
}

static uint32_t least_context(const service_local_settings *p, const engine *e) {
    uint32_t most = engine_context(e);
    return p->context || most < SERVICE_LOCAL_LEAST ? most : SERVICE_LOCAL_LEAST;
}

// Memory besides keys and values, for texts of up to `context` tokens.
static braid_err measure(const local_service *l, const service_local_settings *p, uint32_t context,
                         service_local_memory *m, braid_error *error) {
    braid_err err = engine_reserve(l->engine, ENGINE_CHUNK_ROWS, context, error);
    size_t copies = engine_copied_bytes(l->engine);
    m->computing = engine_scratch_bytes(l->engine) - copies + scheduler_bytes(engine_config(l->engine), p->parallel);
    m->weights = file_bytes(p->file) - l->released + copies + (l->adapters ? adapter_set_bytes(l->adapters) : 0);
    return err;
}

// The part of the limit that is left for keys and values, and the longest text that it has room for.
// Tables of positions grow with the context, so the room is computed before and after them.
static braid_err share_memory(local_service *l, const service_local_settings *p, service_local_memory *m,
                              braid_error *error) {
    uint32_t context = least_context(p, l->engine);
    uint64_t page = engine_page_bytes(l->engine), rest = 0;
    braid_err err = measure(l, p, context, m, error);
    for (int round = 0; round < 2 && !err; round++) {
        uint64_t used = m->weights + m->computing, least = cache_needed(l->engine, context);
        if (used + least > p->memory_limit) {
            if (round == 0) return too_little(p, m, least, context, error);
            context = (uint32_t)(rest / page * ENGINE_PAGE_TOKENS);
        }
        rest = p->memory_limit > used ? p->memory_limit - used : 0;
        if (round == 1) break;
        uint64_t tokens = rest / page * ENGINE_PAGE_TOKENS;
        context = tokens < engine_context(l->engine) ? (uint32_t)tokens : engine_context(l->engine);
        err = measure(l, p, context, m, error);
    }
    if (!err && rest < page) err = too_little(p, m, page, ENGINE_PAGE_TOKENS, error);
    m->cache = rest / page * page;
    return err ? err : engine_limit_cache(l->engine, m->cache, error);
}

static braid_err share_freely(local_service *l, const service_local_settings *p, service_local_memory *m,
                              braid_error *error) {
    uint32_t context = engine_context(l->engine), parallel = p->parallel ? p->parallel : SCHEDULER_PARALLEL;
    braid_err err = measure(l, p, context, m, error);
    m->cache = parallel * cache_needed(l->engine, context);
    return err ? err : engine_limit_cache(l->engine, m->cache, error);
}

// --- start

static service_model describe(const local_service *l, const service_local_settings *p, uint32_t context) {
    return (service_model){.name = p->name,
                           .adapters = l->adapters,
                           .config = model_file_config(p->file),
                           .tokenizer = p->tokenizer,
                           .chat_template = model_file_chat_template(p->file),
                           .context = context,
                           .created = p->created,
                           .generation_config = p->generation_config};
}

static braid_err start(local_service *l, const service_local_settings *p, service **out, braid_error *error) {
    scheduler_settings settings = {.ends = l->engine,
                                   .model = &l->model,
                                   .parallel = p->parallel,
                                   .queue = p->queue,
                                   .prompt_rows = p->prompt_rows,
                                   .draft_model = p->draft_model,
                                   .draft = p->draft ? SCHEDULER_DRAFT_PAYS : SCHEDULER_DRAFT_OFF,
                                   .memory_limit = p->memory_limit,
                                   .released = free_local,
                                   .context = l};
    executor_room room;
    braid_err err = executor_local_new(l->engine, p->name, engine_context(l->engine), &settings.executor, error);
    if (err) {
        free_local(l);
        return err;
    }
    executor_room_of(settings.executor, &room);
    l->model = describe(l, p, room.session_tokens);
    return scheduler_new(&settings, out, error);
}

braid_err service_local_new(const service_local_settings *p, service **out, service_local_memory *memory,
                            braid_error *error) {
    service_local_memory ignored, *m = memory ? memory : &ignored;
    local_service *l = calloc(1, sizeof *l);
    *out = NULL;
    *m = (service_local_memory){0};
    if (!l) return braid_fail(error, BRAID_MEMORY, "no memory for a service");
    l->file = p->file;
    braid_err err = open_engine(l, p, error);
    if (!err) err = open_adapters(l, p, error);
    if (!err) err = p->memory_limit ? share_memory(l, p, m, error) : share_freely(l, p, m, error);
    if (err) {
        free_local(l);
        return err;
    }
    return start(l, p, out, error);
}
