// How a peer comes to its layers: the swarm's description, the choice, the engine.
#include "base/sha256.h"
#include "base/rng.h"
#include "format/quantity.h"
#include "node/clock.h"
#include "span/choose.h"
#include "span/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MILLISECOND = 1000000;
enum { PROBE_ROWS = 8, PROBE_SEED = 1, TIMED_ROWS = 8, TIMED_RUNS = 3 };

// --- the kernel class

static engine_settings settings_of(const span_model *m, tensor_pool *pool) {
    return (engine_settings){.pool = pool,
                             .no_ends = true,
                             .context = m->context,
                             .exact = m->exact,
                             .half_cache = m->half_cache,
                             .narrow = m->narrow};
}

static void fixed_rows(float *x, size_t count) {
    rng r = {rng_seed(PROBE_SEED, 0)};
    for (size_t i = 0; i < count; i++) x[i] = (float)(2 * rng_unit(&r) - 1);
}

static braid_err probe(const model_file *file, const span_model *m, uint32_t layer, tensor_pool *pool, float *x,
                       braid_error *error) {
    engine_settings settings = settings_of(m, pool);
    engine_source source = engine_source_file(file);
    engine *e = NULL;
    sequence *s = NULL;
    settings.layer_begin = layer;
    settings.layer_end = layer + 1;
    braid_err err = engine_new(&source, &settings, &e, error);
    if (!err) err = sequence_new(e, &s, error);
    uint32_t rows = m->context < PROBE_ROWS ? m->context : PROBE_ROWS;
    if (!err) err = engine_layers(e, &(engine_part){s, rows, NULL}, 1, x, error);
    sequence_free(s);
    engine_free(e);
    return err;
}

braid_err span_kernels(const model_file *file, const span_model *m, tensor_pool *pool, braid_hash *out,
                       braid_error *error) {
    size_t count = (size_t)PROBE_ROWS * m->dim;
    float *x = malloc(count * sizeof *x);
    if (!x) return braid_fail(error, BRAID_MEMORY, "no memory to try the kernels");
    fixed_rows(x, count);
    braid_err err = probe(file, m, 0, pool, x, error);
    if (!err && m->layers > 1) err = probe(file, m, m->layers - 1, pool, x, error);
    if (!err) *out = sha256_of(x, count * sizeof *x);
    free(x);
    return err;
}

// --- memory

// The tensors of the file stay mapped, and the engine may have a copy in its kernels' order.
static uint64_t layer_cost(const model_file *file, uint32_t layer) { return span_model_bytes(file, layer, layer + 1); }

static uint64_t token_cost(const model_file *file, const span_model *m) {
    const model_config *c = model_file_config(file);
    uint64_t width = c->head_dim ? c->head_dim : c->dim / c->heads;
    return 2 * width * c->kv_heads * (m->half_cache ? 2 : 4);
}

uint32_t span_layers_fit(const model_file *file, const span_model *m, uint64_t memory) {
    uint64_t used = 0, tokens = m->context < SPAN_LEAST_TOKENS ? m->context : SPAN_LEAST_TOKENS;
    uint32_t count = 0;
    while (count < m->layers) {
        used += layer_cost(file, count) + tokens * token_cost(file, m);
        if (used > memory) break;
        count++;
    }
    return count;
}

uint64_t span_cache_room(const model_file *file, const span_model *m, uint64_t memory, uint32_t begin, uint32_t end) {
    uint64_t weights = span_model_bytes(file, begin, end);
    if (end <= begin || weights >= memory) return 0;
    uint64_t tokens = (memory - weights) / (token_cost(file, m) * (end - begin)),
             most = (uint64_t)SPAN_SLOTS * m->context;
    if (tokens > most) tokens = most;
    return tokens < SESSION_MAX_TOKENS ? tokens : SESSION_MAX_TOKENS;
}

// --- loading

static braid_err time_layers(span_layers *l, const span_model *m, braid_error *error) {
    sequence *s = NULL;
    uint32_t rows = m->context < TIMED_ROWS ? m->context : TIMED_ROWS;
    size_t count = (size_t)rows * m->dim;
    float *x = malloc(count * sizeof *x);
    if (!x) return braid_fail(error, BRAID_MEMORY, "no memory to time the layers");
    uint64_t best = UINT64_MAX;
    braid_err err = sequence_new(l->engine, &s, error);
    for (int i = 0; i < TIMED_RUNS && !err; i++) {
        fixed_rows(x, count);
        sequence_truncate(s, 0);
        uint64_t start = clock_now_ns();
        err = engine_layers(l->engine, &(engine_part){s, rows, NULL}, 1, x, error);
        uint64_t took = clock_now_ns() - start;
        if (took < best) best = took;
    }
    sequence_free(s);
    free(x);
    uint64_t each = best / rows / (l->end - l->begin);
    l->layer_ns = each < 1 ? 1 : each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
    return err;
}

uint64_t span_adapter_id(const braid_hash *hash) {
    uint64_t id = 0;
    for (unsigned i = 0; i < 8; i++) id |= (uint64_t)hash->bytes[i] << (8 * i);
    return id;
}

void span_layers_free(span_layers *l) {
    for (uint32_t i = 0; i < SESSION_MAX_ADAPTERS; i++) adapter_version_give_back(l->version[i]);
    memset(l->version, 0, sizeof l->version);
    adapter_set_free(l->adapters);
    l->adapters = NULL;
    engine_free(l->engine);
    l->engine = NULL;
}

static braid_err load_adapters(const span_peer *p, span_layers *l, braid_error *error) {
    const span_config *c = &p->config;
    l->other_bytes = 0;
    if (c->adapter_count == 0) return BRAID_OK;
    braid_err err =
        adapter_set_new(l->engine, c->file, p->model.name, c->adapters, c->adapter_count, &l->adapters, error);
    for (uint32_t i = 0; i < c->adapter_count && !err; i++) {
        l->version[i] = adapter_set_take(l->adapters, c->adapters[i].name);
        const executor_adapter *a = adapter_version_of(l->version[i]);
        l->adapter[i] = (worker_adapter){span_adapter_id(&a->key), a->weights};
    }
    if (!err) l->other_bytes = adapter_set_bytes(l->adapters);
    return err;
}

static void load(uv_work_t *request) {
    span_peer *p = request->data;
    span_layers *l = &p->layers;
    engine_settings settings = settings_of(&p->model, p->pool);
    engine_source source = engine_source_file(p->config.file);
    settings.layer_begin = l->begin;
    settings.layer_end = l->end;
    l->err = span_model_check(&p->model, p->config.file, p->config.path, l->begin, l->end, false, &l->error);
    if (!l->err) l->err = span_kernels(p->config.file, &p->model, p->pool, &l->kernels, &l->error);
    if (!l->err) l->err = engine_new(&source, &settings, &l->engine, &l->error);
    if (!l->err) l->err = load_adapters(p, l, &l->error);
    if (!l->err) l->err = engine_reserve(l->engine, ENGINE_CHUNK_ROWS, p->model.context, &l->error);
    if (!l->err) l->err = time_layers(l, &p->model, &l->error);
    if (!l->err) l->other_bytes += engine_scratch_bytes(l->engine) - engine_copied_bytes(l->engine);
}

// Tokens for which the memory has room besides weights, adapters and computing.
static uint64_t room_left(const span_peer *p) {
    const span_layers *l = &p->layers;
    uint64_t memory = p->config.memory > l->other_bytes ? p->config.memory - l->other_bytes : 0;
    return span_cache_room(p->config.file, &p->model, memory, l->begin, l->end);
}

static void announce(span_peer *p) {
    const span_layers *l = &p->layers;
    session_span span = {
        .model = p->hash,
        .kernels = l->kernels,
        .layer_begin = (uint16_t)l->begin,
        .layer_end = (uint16_t)l->end,
        .layers = (uint16_t)p->model.layers,
        .cache_tokens = (uint32_t)room_left(p),
        .adapters = (uint16_t)p->config.adapter_count,
        .row_bytes = (uint32_t)span_row_bytes(p),
        .token_layer_bytes = (uint32_t)sequence_layer_bytes(l->engine),
        .layer_ns = l->layer_ns,
    };
    for (uint32_t i = 0; i < p->config.adapter_count; i++) span.adapter[i] = l->adapter[i].id;
    span_feed(p, &(session_event){.kind = SESSION_EVENT_SPAN, .span = &span});
    if (p->callbacks.holds) p->callbacks.holds(p->callbacks.context, l->begin, l->end);
}

static braid_err no_room_left(const span_peer *p, braid_error *error) {
    const span_layers *l = &p->layers;
    char have[QUANTITY_TEXT], need[QUANTITY_TEXT], other[QUANTITY_TEXT];
    return braid_fail(error, BRAID_LIMIT,
                      "layers %u to %u have %s of weights and need %s for computing and adapters, and this peer may use"
                      " %s; give it more (--max-memory) or fewer layers",
                      l->begin, l->end - 1,
                      quantity_size_text(span_model_bytes(p->config.file, l->begin, l->end), need),
                      quantity_size_text(l->other_bytes, other), quantity_size_text(p->config.memory, have));
}

// The protocol admits sessions by tokens, and each may have one page that is not full.
static braid_err limit_cache(span_peer *p, braid_error *error) {
    engine *e = p->layers.engine;
    uint64_t room = room_left(p);
    if (room == 0) return no_room_left(p, error);
    return engine_limit_cache(e, room * engine_token_bytes(e) + (SPAN_SLOTS + 1) * engine_page_bytes(e), error);
}

static void begin_loading(span_peer *p, uint32_t begin, uint32_t end);

static void end_fetching(span_peer *p) {
    char size[QUANTITY_TEXT];
    uint64_t bytes = span_fetch_keep(p, p->layers.begin, p->layers.end);
    if (bytes > 0)
        span_note(p, "received %s of the model from other peers", quantity_size_text(bytes, size));
    else
        span_note(p, "the layers were kept in %s", p->config.state_directory);
}

static void loaded(uv_work_t *request, int status) {
    span_peer *p = request->data;
    span_layers *l = &p->layers;
    l->loading = false;
    if (status != 0 || p->phase != SPAN_RUNNING) return;
    bool fewer = !l->err && !span_holds(p) && room_left(p) == 0 && l->end - l->begin > 1;
    if (fewer) {
        span_layers_free(l);
        begin_loading(p, l->begin, l->end - 1);
        return;
    }
    l->loaded = true;
    if (p->layers.fetch) end_fetching(p);
    const worker_settings settings = {.engine = l->engine,
                                      .adapters = l->adapter,
                                      .adapter_count = p->config.adapter_count,
                                      .done = span_work_done,
                                      .context = p};
    braid_err err = l->err;
    if (!err) err = limit_cache(p, &l->error);
    if (!err) err = span_worker_new(&p->loop, &settings, &l->worker, &l->error);
    if (err)
        span_fail(p, &l->error);
    else
        announce(p);
}

static void begin_loading(span_peer *p, uint32_t begin, uint32_t end) {
    span_layers *l = &p->layers;
    braid_error error = {0};
    if (end > p->model.layers) {
        braid_fail(&error, BRAID_ARGUMENT, "layers %u to %u do not exist: the model has %u", begin, end,
                   p->model.layers);
        span_fail(p, &error);
        return;
    }
    if (span_cache_room(p->config.file, &p->model, p->config.memory, begin, end) == 0) {
        char have[QUANTITY_TEXT], need[QUANTITY_TEXT];
        braid_fail(
            &error, BRAID_LIMIT,
            "layers %u to %u have %s of weights, and this peer may use %s; give it more (--max-memory) or fewer layers",
            begin, end - 1, quantity_size_text(span_model_bytes(p->config.file, begin, end), need),
            quantity_size_text(p->config.memory, have));
        span_fail(p, &error);
        return;
    }
    l->begin = begin;
    l->end = end;
    l->chosen = true;
    if (p->layers.fetch && !span_fetch_layers(p, begin, end)) return;  // again at the next tick
    l->loading = true;
    l->request.data = p;
    uv_queue_work(&p->loop, &l->request, load, loaded);
}

// --- the choice

// Memory for computing, whatever the layers are.
static braid_err measure_computing(const span_peer *p, uint64_t *bytes, braid_error *error) {
    engine_settings settings = settings_of(&p->model, p->pool);
    engine_source source = engine_source_file(p->config.file);
    engine *e = NULL;
    settings.layer_end = 1;
    braid_err err = engine_new(&source, &settings, &e, error);
    if (!err) err = engine_reserve(e, ENGINE_CHUNK_ROWS, p->model.context, error);
    if (!err) *bytes = engine_scratch_bytes(e) - engine_copied_bytes(e);
    engine_free(e);
    return err;
}

static void choose(span_peer *p) {
    session_view view;
    uint64_t computing = 0;
    braid_error error = {0};
    if (measure_computing(p, &computing, &error)) {
        span_fail(p, &error);
        return;
    }
    uint64_t left = p->config.memory > computing ? p->config.memory - computing : 0;
    uint16_t begin = 0, count = (uint16_t)span_layers_fit(p->config.file, &p->model, left);
    if (count == 0) {
        char have[QUANTITY_TEXT], need[QUANTITY_TEXT];
        braid_fail(&error, BRAID_LIMIT,
                   "one layer of this model needs %s, and this peer may use %s; give it more (--max-memory)",
                   quantity_size_text(computing + layer_cost(p->config.file, 0) +
                                          SPAN_LEAST_TOKENS * token_cost(p->config.file, &p->model),
                                      need),
                   quantity_size_text(p->config.memory, have));
        span_fail(p, &error);
        return;
    }
    session_peer_view(p->core, &view);
    choose_layers(&view, &p->hash, (uint16_t)p->model.layers, count, &begin);
    begin_loading(p, begin, begin + (uint32_t)count);
}

static void fetch_news(span_peer *p) { span_join_tick(p); }

// The first and the last layer, by which kernels are tried. A peer without the file fetches them.
static bool has_probes(span_peer *p) {
    if (p->config.file && !p->layers.fetch) return true;
    if (!span_fetch_open(p, fetch_news)) {
        span_fail(p, &(braid_error){BRAID_MEMORY, "no memory to receive the model's layers"});
        return false;
    }
    return span_fetch_shape(p) && span_fetch_layers(p, 0, 1) &&
           span_fetch_layers(p, p->model.layers - 1, p->model.layers);
}

static void go_on(span_peer *p) {
    bool waits = p->phase == SPAN_RUNNING && (span_holds(p) || !p->config.origin) && !p->layers.loading &&
                 !p->layers.loaded && !p->state.draining && !p->config.tuner;
    if (!waits || !has_probes(p)) return;
    if (p->layers.chosen) {
        begin_loading(p, p->layers.begin, p->layers.end);
        return;
    }
    if (span_holds(p)) {
        begin_loading(p, p->config.layer_begin, p->config.layer_end);
        return;
    }
    bool knows = p->state.linked && clock_now_ns() - p->state.linked_ns > SPAN_LOOK_MS * MILLISECOND;
    if (knows) choose(p);
}

void span_join_tick(span_peer *p) {
    braid_id to;
    session_message get;
    go_on(p);
    if (span_fetch_error(p)) span_fail(p, span_fetch_error(p));
    while (p->phase == SPAN_RUNNING && span_fetch_next(p, &to, &get)) span_send_message(p, &to, &get, 0);
}

// --- the description

void span_enquire(span_peer *p) {
    braid_error error = {0};
    uint64_t passed = clock_now_ns() - p->state.begun_ns;
    if (p->config.patience_ns && passed > p->config.patience_ns) {
        braid_fail(&error, BRAID_NETWORK, "no peer of the swarm has answered at %s: %s", p->config.join.address,
                   *p->state.lost ? p->state.lost : "no answer");
        span_fail(p, &error);
        return;
    }
    if (net_enquire(p->net, &p->config.join.leader, p->config.join.address, &error)) span_fail(p, &error);
}

static braid_err take_description(span_peer *p, const net_run *run, braid_error *error) {
    if (!run->description) return braid_fail(error, BRAID_FORMAT, "that peer sent no description of its model");
    braid_err err = span_model_parse(run->description, run->description_bytes, &p->model, error);
    if (err) return err;
    p->hash = span_model_hash(&p->model);
    if (!hash_equal(&p->hash, &run->hash))
        return braid_fail(error, BRAID_FORMAT, "the description of the model does not match its hash");
    // the file's shape; each layer is compared when it is taken
    if (p->config.file)
        err = span_model_check(&p->model, p->config.file, p->config.path, 0, 0, p->config.tuner != NULL, error);
    if (err) return err;
    p->description = malloc(run->description_bytes);
    if (!p->description) return braid_fail(error, BRAID_MEMORY, "no memory for the description of the model");
    memcpy(p->description, run->description, run->description_bytes);
    p->description_bytes = run->description_bytes;
    return BRAID_OK;
}

void span_described(span_peer *p, const net_run *run) {
    braid_error error = {0};
    if (p->phase != SPAN_ENQUIRING) return;
    braid_err err = take_description(p, run, &error);
    if (!err) err = span_begin(p, &error);
    if (err) {
        span_fail(p, &error);
        return;
    }
    const session_event join = {
        .kind = SESSION_EVENT_JOIN, .id = p->config.join.leader, .address = p->config.join.address};
    span_feed(p, &join);
    span_join_tick(p);
}
