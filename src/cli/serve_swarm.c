#include "cli/serve_swarm.h"

#include "base/machine.h"

#include <stdlib.h>
#include <unistd.h>

static braid_err open_identity(serve_swarm *s, const char *path, braid_error *error) {
    if (!path) return identity_new(&s->id, error);
    braid_err err = identity_load_or_create(path, &s->id, error);
    return err ? err : identity_lock(path, &s->lock, error);
}

static braid_err describe(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error) {
    braid_err err = span_model_read(settings->file, settings->path, &s->model, error);
    if (err) return err;
    if (settings->context > s->model.context)
        return braid_fail(error, BRAID_LIMIT,
                          "a context of %u tokens is longer than the model's, %u; give at most that", settings->context,
                          s->model.context);
    if (settings->own_layers > s->model.layers || (settings->own_layers == s->model.layers && settings->peers))
        return braid_fail(error, BRAID_CONFIG, "%u own layers of the model's %u leave none for peers; give fewer",
                          settings->own_layers, s->model.layers);
    if (settings->context) s->model.context = settings->context;
    s->model.exact = settings->exact;
    s->model.half_cache = settings->half_cache;
    s->model.narrow = settings->narrow;
    return BRAID_OK;
}

// Of `spans` processes that compute on this machine, this one among them.
static unsigned own_threads(const serve_swarm_settings *settings, const machine *here) {
    unsigned share = here->processors / (settings->peers + 1);
    if (settings->threads) return settings->threads;
    return share ? share : 1;
}

static braid_err open_executor(serve_swarm *s, const serve_swarm_settings *settings, executor **out,
                               braid_error *error) {
    machine here;
    machine_look(&here);
    const span_config config = {
        .identity = s->id,
        .listen = settings->listen  ? settings->listen
                  : settings->peers ? "127.0.0.1:0"
                                    : NULL,
        .public_address = settings->public_address,
        .path = settings->path,
        .file = settings->file,
        .origin = true,
        .model = s->model,
        .layer_end = settings->own_layers,
        .memory = settings->own_memory ? settings->own_memory : here.memory_bytes / 2,
        .threads = settings->own_layers ? own_threads(settings, &here) : 1,
        .dead_ns = settings->dead_ns,
        .adapters = settings->adapters,
        .adapter_count = settings->adapter_count,
        .callbacks = {.context = settings->note_context, .note = settings->note},
    };
    braid_err err = executor_chain_new(&config, out, error);
    if (!err) executor_chain_ticket(*out, s->ticket);
    return err;
}

static braid_err open_ends(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error) {
    engine_source source = engine_source_file(settings->file);
    const engine_settings ends = {.pool = settings->pool,
                                  .layer_begin = s->model.layers,
                                  .layer_end = s->model.layers,
                                  .context = s->model.context,
                                  .exact = s->model.exact,
                                  .half_cache = s->model.half_cache,
                                  .narrow = s->model.narrow};
    return engine_new(&source, &ends, &s->ends, error);
}

static braid_err open_adapters(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error) {
    if (settings->adapter_count == 0) return BRAID_OK;
    braid_err err = adapter_set_new(s->ends, settings->file, s->described.name, settings->adapters,
                                    settings->adapter_count, &s->adapters, error);
    s->described.adapters = s->adapters;
    return err;
}

static braid_err open_service(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error) {
    executor *e = NULL;
    braid_hash hash = span_model_hash(&s->model);
    s->described = (service_model){.name = settings->name ? settings->name : s->model.name,
                                   .config = model_file_config(settings->file),
                                   .tokenizer = settings->tokenizer,
                                   .chat_template = model_file_chat_template(settings->file),
                                   .context = s->model.context,
                                   .created = settings->created,
                                   .generation_config = settings->generation_config};
    id_hex(hash.bytes, BRAID_ID_BYTES, s->described.hash);
    braid_err err = open_ends(s, settings, error);
    if (!err) err = open_adapters(s, settings, error);
    if (!err) err = open_executor(s, settings, &e, error);
    if (err) return err;
    const scheduler_settings scheduling = {.executor = e,
                                           .ends = s->ends,
                                           .model = &s->described,
                                           .parallel = settings->parallel,
                                           .queue = settings->queue,
                                           .prompt_rows = settings->prompt_rows,
                                           .draft_model = settings->draft_model,
                                           .draft = settings->draft ? SCHEDULER_DRAFT_PAYS : SCHEDULER_DRAFT_OFF};
    return scheduler_new(&scheduling, &s->service, error);
}

static braid_err start_peers(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error) {
    machine here;
    machine_look(&here);
    unsigned share = here.processors / settings->peers;
    const serve_peers_config config = {
        .program = settings->program,
        .ticket = s->ticket,
        .model = settings->path,
        .peers = settings->peers,
        .copies = settings->copies ? settings->copies : 1,
        .first_layer = settings->own_layers,
        .layers = s->model.layers,
        .threads = settings->threads ? settings->threads
                   : share           ? share
                                     : 1,
        .max_memory = settings->peer_memory,
        .dead_ns = settings->dead_ns,
        .adapters = settings->adapters,
        .adapter_count = settings->adapter_count,
        .note = settings->note,
        .context = settings->note_context,
    };
    return serve_peers_start(&config, &s->peers, error);
}

braid_err serve_swarm_open(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error) {
    *s = (serve_swarm){.lock = -1};
    braid_err err = open_identity(s, settings->identity, error);
    if (!err) err = describe(s, settings, error);
    if (!err) err = open_service(s, settings, error);
    if (!err && settings->peers) err = start_peers(s, settings, error);
    return err;
}

void serve_swarm_close(serve_swarm *s) {
    service_free(s->service);
    serve_peers_stop(s->peers);
    adapter_set_free(s->adapters);
    engine_free(s->ends);
    identity_free(s->id);
    if (s->lock >= 0) close(s->lock);
    *s = (serve_swarm){.lock = -1};
}
