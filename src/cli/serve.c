// braid serve: a model behind an HTTP API, for many texts at once.
#include "cli/adapter_flags.h"
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/generator.h"
#include "cli/model_name.h"
#include "cli/options.h"
#include "cli/serve_draft.h"
#include "cli/serve_swarm.h"
#include "format/quantity.h"
#include "http/server.h"
#include "node/clock.h"
#include "node/stop.h"
#include "serve/local.h"
#include "serve/scheduler.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_MS = 50 };
#define SERVE_STOP_WITHIN_NS UINT64_C(10000000000)

static const char examples[] =
    "braid serve SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "braid serve models/Qwen3-0.6B --port 8000 --parallel 32 --max-memory 4G\n"
    "braid serve checkpoints --host 0.0.0.0 --keys keys.txt\n"
    "braid serve models/Qwen3-8B --peers 6 --copies 2      layers in child processes; other machines can join\n";

typedef struct serve_flags {
    const char *host, *name, *draft, *keys, *certificate, *private_key;
    const char *listen, *public_address, *identity;
    uint64_t port, max_memory, context, parallel, queue, threads, stop_within_ns, peers, copies, own_layers, dead_ns;
    bool exact, int8, half_cache, without_key, page;
    bool swarm;         // the layers are on peers
    bool peer_threads;  // --threads is of each peer
    option_list origins, adapters;
} serve_flags;

typedef struct serving {
    generator model;
    serve_draft draft;
    char name[MODEL_NAME];
    char *generation_config;
    http_keys keys;
    service *service;
    http_server *server;
    service_local_memory memory;
    serve_swarm swarm;
    adapter_flags adapters;
} serving;

// --- start

static void print_note(void *context, const char *text) {
    (void)context;
    printf("%s\n", text);
    fflush(stdout);
}

// Memory of one process with layers: the API node has the embedding, the head and the draft model besides.
static braid_err share_memory(const serving *s, const serve_flags *flags, uint64_t *share, braid_error *error) {
    uint64_t sharers = flags->peers + (flags->own_layers > 0),
             api = span_model_ends_bytes(s->model.file) + s->draft.bytes;
    char have[QUANTITY_TEXT], need[QUANTITY_TEXT];
    *share = 0;
    if (flags->max_memory == 0 || sharers == 0) return BRAID_OK;
    if (api >= flags->max_memory)
        return braid_fail(error, BRAID_LIMIT,
                          "embedding, head and draft model need %s, and --max-memory is %s; give more, or a smaller"
                          " --draft",
                          quantity_size_text(api, need), quantity_size_text(flags->max_memory, have));
    *share = (flags->max_memory - api) / sharers;
    return BRAID_OK;
}

static braid_err open_swarm(serving *s, const char *path, const serve_flags *flags, braid_error *error) {
    uint64_t share = 0;
    braid_err err = share_memory(s, flags, &share, error);
    if (err) return err;
    const serve_swarm_settings settings = {.path = path,
                                           .file = s->model.file,
                                           .pool = s->model.pool,
                                           .tokenizer = s->model.tokenizer,
                                           .name = s->name,
                                           .generation_config = s->generation_config,
                                           .created = model_time(path),
                                           .parallel = (uint32_t)flags->parallel,
                                           .queue = (uint32_t)flags->queue,
                                           .draft = s->draft.on,
                                           .draft_model = s->draft.model.engine,
                                           .peers = (uint32_t)flags->peers,
                                           .copies = (uint32_t)flags->copies,
                                           .own_layers = (uint32_t)flags->own_layers,
                                           .own_memory = flags->own_layers ? share : 0,
                                           .listen = flags->listen,
                                           .public_address = flags->public_address,
                                           .identity = flags->identity,
                                           .context = (uint32_t)flags->context,
                                           .exact = flags->exact,
                                           .half_cache = flags->half_cache,
                                           .narrow = flags->int8,
                                           .threads = flags->peer_threads ? (unsigned)flags->threads : 0,
                                           .peer_memory = flags->peers ? share : 0,
                                           .dead_ns = flags->dead_ns,
                                           .adapters = s->adapters.place,
                                           .adapter_count = s->adapters.count,
                                           .note = print_note};
    err = serve_swarm_open(&s->swarm, &settings, error);
    s->service = s->swarm.service;
    return err;
}

static braid_err open_service(serving *s, const char *path, const serve_flags *flags, braid_error *error) {
    braid_err err = generator_open_model(&s->model, path, (unsigned)flags->threads, error);
    if (err) return err;
    snprintf(s->name, sizeof s->name, "%s", flags->name ? flags->name : "");
    if (!flags->name) model_name_of(path, s->name);
    s->generation_config = model_generation_config(path);
    err =
        adapter_flags_read(&s->adapters, &flags->adapters, flags->swarm ? SESSION_MAX_ADAPTERS : ADAPTERS_MOST, error);
    if (err) return err;
    err = serve_draft_open(&s->draft, flags->draft, &s->model, (uint32_t)flags->context, flags->max_memory, error);
    if (err) return err;
    if (flags->swarm) return open_swarm(s, path, flags, error);
    service_local_settings settings = {.file = s->model.file,
                                       .tokenizer = s->model.tokenizer,
                                       .name = s->name,
                                       .generation_config = s->generation_config,
                                       .created = model_time(path),
                                       .pool = s->model.pool,
                                       .exact = flags->exact,
                                       .half_cache = flags->half_cache,
                                       .narrow = flags->int8,
                                       .context = (uint32_t)flags->context,
                                       .parallel = (uint32_t)flags->parallel,
                                       .queue = (uint32_t)flags->queue,
                                       .adapters = s->adapters.place,
                                       .adapter_count = s->adapters.count,
                                       .draft = s->draft.on,
                                       .draft_model = s->draft.model.engine,
                                       .memory_limit = flags->max_memory - s->draft.bytes};
    return service_local_new(&settings, &s->service, &s->memory, error);
}

static braid_err open_server(serving *s, const serve_flags *flags, braid_error *error) {
    if (flags->keys) {
        braid_err err = http_keys_read(flags->keys, &s->keys, error);
        if (err) return err;
    }
    http_settings settings = {.host = flags->host,
                              .port = (uint16_t)flags->port,
                              .service = s->service,
                              .keys = s->keys.at,
                              .key_count = s->keys.count,
                              .without_key = flags->without_key,
                              .certificate = flags->certificate,
                              .private_key = flags->private_key,
                              .page = flags->page,
                              .origins = flags->origins.item,
                              .origin_count = flags->origins.count};
    return http_server_new(&settings, &s->server, error);
}

static void close_serving(serving *s, const serve_flags *flags) {
    http_server_free(s->server);
    if (flags->swarm)
        serve_swarm_close(&s->swarm);
    else
        service_free(s->service);
    http_keys_free(&s->keys);
    free(s->generation_config);
    adapter_flags_close(&s->adapters);
    serve_draft_close(&s->draft);
    generator_close(&s->model);
}

static void print_swarm(const serving *s) {
    printf("%s at %s\n", s->name, http_server_address(s->server));
    printf("another machine joins with: braid node --join %s\n", s->swarm.ticket);
    fflush(stdout);
}

static void print_start(const serving *s, const serve_flags *flags) {
    char limit[QUANTITY_TEXT], weights[QUANTITY_TEXT], computing[QUANTITY_TEXT], cache[QUANTITY_TEXT];
    const service_model *m = service_model_of(s->service);
    printf("%s at %s\n", s->name, http_server_address(s->server));
    printf("memory: at most %s, of which %s for weights, %s for computing and %s for keys and values\n",
           flags->max_memory ? quantity_size_text(flags->max_memory, limit) : "what is needed",
           quantity_size_text(s->memory.weights, weights), quantity_size_text(s->memory.computing, computing),
           quantity_size_text(s->memory.cache, cache));
    printf("context: %u tokens a text%s; up to %llu texts at once, %llu threads\n", m->context,
           m->context < m->config->context && !flags->context ? " (more do not fit into the memory)" : "",
           (unsigned long long)flags->parallel, (unsigned long long)flags->threads);
    fflush(stdout);
}

// --- end

static void reload(serving *s, uint32_t adapters, bool swarm) {
    braid_error error = {0};
    if (swarm && adapters > 0)
        printf("SIGUSR1: peers have read the adapters, too; start again to read them again\n");
    else if (adapters == 0)
        printf("SIGUSR1: there is no --adapter to read again\n");
    else if (service_reload(s->service, &error))
        printf("SIGUSR1: the adapters stay as they are: %s\n", error.text);
    else
        printf("SIGUSR1: read %u adapter%s again\n", adapters, adapters == 1 ? "" : "s");
    fflush(stdout);
}

static void wait_for_signal(serving *s, const serve_flags *flags) {
    struct pollfd signals = {.fd = stop_descriptor(), .events = POLLIN};
    while (!stop_requested()) {
        poll(&signals, 1, -1);
        stop_clear();
        if (stop_take_save()) reload(s, flags->adapters.count, flags->swarm);
    }
}

static uint32_t texts_left(service *s) {
    service_status status;
    service_status_of(s, &status);
    return status.running + status.queued;
}

// New texts are refused; those that there are may end within half of the limit.
static void finish_texts(serving *s, const serve_flags *flags) {
    uint64_t until = clock_now_ns() + flags->stop_within_ns / 2;
    char time[QUANTITY_TEXT];
    service_drain(s->service);
    uint32_t left = texts_left(s->service);
    if (left > 0) {
        printf("%s: %u text%s may end within %s; repeat the signal to end at once\n",
               stop_signal_name(stop_requested()), left, left == 1 ? "" : "s",
               quantity_duration_text((double)flags->stop_within_ns * 0.5e-9, time));
        fflush(stdout);
    }
    while (texts_left(s->service) > 0 && !stop_at_once() && clock_now_ns() < until) poll(NULL, 0, POLL_MS);
    left = texts_left(s->service);
    if (left > 0) printf("cancelling %u text%s\n", left, left == 1 ? "" : "s");
}

static int serve(const char *path, const serve_flags *flags) {
    serving s = {.service = NULL};
    braid_error error = {0};
    const stop_config stop = {.verb = "serve", .within_ns = flags->stop_within_ns};
    braid_err err = stop_watch(&stop, &error);
    if (!err) err = open_service(&s, path, flags, &error);
    if (!err) err = open_server(&s, flags, &error);
    if (!err) {
        if (flags->swarm)
            print_swarm(&s);
        else
            print_start(&s, flags);
        wait_for_signal(&s, flags);
        finish_texts(&s, flags);
    }
    close_serving(&s, flags);
    return err ? cli_complain(err == BRAID_CONFIG ? CLI_USAGE : CLI_FAILED, "serve", "%s", error.text) : CLI_OK;
}

static int parse_and_run(int argc, char **argv, serve_flags *flags) {
    option table[] = {
        {"port", OPTION_COUNT, &flags->port, .help = "port to listen on, 0: any free one", .max = UINT16_MAX},
        {"host", OPTION_TEXT, &flags->host, .unit = "HOST", .help = "address to listen on"},
        {"keys", OPTION_TEXT, &flags->keys, .unit = "FILE",
         .help = "bearer keys, one a line: LABEL SECRET [concurrent=N] [per-minute=N]",
         .fallback = "none is asked for"},
        {"without-key", OPTION_SWITCH, &flags->without_key,
         .help = "with a --host that other machines reach: answer requests without a key"},
        {"certificate", OPTION_TEXT, &flags->certificate, .unit = "FILE", .help = "certificate chain (PEM) for https",
         .fallback = "http"},
        {"private-key", OPTION_TEXT, &flags->private_key, .unit = "FILE", .help = "its private key (PEM)",
         .fallback = ""},
        {"origin", OPTION_LIST, &flags->origins, .unit = "URL",
         .help = "web pages of this origin may call the API, '*': all; may be repeated"},
        {"page", OPTION_SWITCH, &flags->page, .help = "a page for chatting at /"},
        {"name", OPTION_TEXT, &flags->name, .unit = "NAME", .help = "the model's name in the API",
         .fallback = "that of its file"},
        {"adapter", OPTION_LIST, &flags->adapters, .unit = "NAME=DIR",
         .help = "LoRA adapter of peft, for requests with this NAME as their model; SIGUSR1 reads all again; may be "
                 "repeated",
         .fallback = ""},
        {"max-memory", OPTION_SIZE, &flags->max_memory, .help = "memory of weights, keys and values together at most",
         .min = 1, .fallback = "half of what the process may use"},
        {"context", OPTION_COUNT, &flags->context, .help = "tokens of prompt and text together at most", .min = 1,
         .max = 1 << 20, .fallback = "the model's"},
        {"parallel", OPTION_COUNT, &flags->parallel, .help = "texts that are written at once", .min = 1,
         .max = SCHEDULER_MOST_PARALLEL},
        {"draft", OPTION_TEXT, &flags->draft, .unit = "lookup|off|MODEL",
         .help = "guess the next tokens where that is faster, from the text itself or by a smaller model; texts stay "
                 "the same"},
        {"queue", OPTION_COUNT, &flags->queue, .help = "texts that wait for a place; more are refused", .min = 1,
         .max = SCHEDULER_MOST_QUEUE},
        {"threads", OPTION_COUNT, &flags->threads, .help = "threads that compute", .min = 1,
         .max = ALLOWANCE_MOST_THREADS, .fallback = "one a processor that may be used"},
        {"exact", OPTION_SWITCH, &flags->exact, .help = "do not round activations to 8 bits for quantised weights"},
        {"int8", OPTION_SWITCH, &flags->int8, .help = "weights as 8-bit integers: faster, and nearly as good"},
        {"cache-f16", OPTION_SWITCH, &flags->half_cache, .help = "keys and values in 16 bits: half the memory"},
        {"peers", OPTION_COUNT, &flags->peers,
         .help = "child processes that hold the layers; 0: only machines that join", .max = SERVE_MAX_PEERS,
         .fallback = "this process holds all layers, and none can join"},
        {"copies", OPTION_COUNT, &flags->copies, .help = "with --peers: each layer is on so many of them", .min = 1,
         .max = SERVE_MAX_PEERS},
        {"own-layers", OPTION_COUNT, &flags->own_layers,
         .help = "with --peers: first layers that this process holds itself, which saves a hop", .max = 1024,
         .fallback = "none"},
        {"listen", OPTION_TEXT, &flags->listen, .unit = "HOST:PORT", .help = "with --peers: address for links of peers",
         .fallback = "this machine alone with --peers above 0, else every address"},
        {"public-address", OPTION_TEXT, &flags->public_address, .unit = "HOST:PORT",
         .help = "with --peers: address at which peers reach this process", .fallback = "detected"},
        {"identity", OPTION_TEXT, &flags->identity, .unit = "PATH",
         .help = "with --peers: key file, so that the ticket stays valid after a restart",
         .fallback = "a new key each time"},
        {"dead-after", OPTION_DURATION, &flags->dead_ns, .hidden = true,
         .help = "silence after which a peer is replaced"},
        {"stop-within", OPTION_DURATION, &flags->stop_within_ns,
         .help = "time limit for an orderly stop after SIGINT, SIGTERM or SIGHUP; texts get half of it", .min = 1},
    };
    options o = {.verb = "serve",
                 .arguments = "MODEL",
                 .summary = "Serves a model over HTTP: the API of OpenAI, and a page for chatting.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    flags->swarm = option_is_set(&o, "peers");
    if (flags->own_layers && !flags->swarm) {
        options_close(&o);
        return cli_complain(CLI_USAGE, "serve", "--own-layers shares the layers with peers; give --peers, too");
    }
    flags->peer_threads = option_is_set(&o, "threads");
    code = serve(o.given[0], flags);
    options_close(&o);
    return code;
}

int cli_serve(int argc, char **argv) {
    machine here;
    machine_look(&here);
    serve_flags flags = {.host = "127.0.0.1",
                         .draft = "lookup",
                         .port = 8080,
                         .copies = 1,
                         .parallel = SCHEDULER_PARALLEL,
                         .queue = SCHEDULER_QUEUE,
                         .threads = allowance_threads(&here),
                         .max_memory = here.memory_bytes == UINT64_MAX ? 0 : here.memory_bytes / 2,
                         .page = true,
                         .stop_within_ns = SERVE_STOP_WITHIN_NS};
    return parse_and_run(argc, argv, &flags);
}
