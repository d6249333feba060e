#include "cli/node_serve.h"

#include "base/machine.h"
#include "cli/adapter_flags.h"
#include "cli/cli.h"
#include "cli/generator.h"
#include "format/json.h"
#include "net/identity.h"
#include "span/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// By default a peer takes half of the memory that this process may use.
enum { MEMORY_PART = 2 };

static void print_json(json_out *o) {
    json_out_close(o, '}');
    char *text = json_out_take(o, NULL);
    if (text) puts(text);
    free(text);
    fflush(stdout);
}

static void begin_json(json_out *o, const char *event) {
    *o = (json_out){0};
    json_out_open(o, NULL, '{');
    json_out_string(o, "event", event);
}

static void on_note(void *context, const char *text) {
    const node_serve_flags *f = context;
    json_out o;
    if (!f->json) {
        fprintf(stderr, "braid node: %s\n", text);
        return;
    }
    begin_json(&o, "note");
    json_out_string(&o, "text", text);
    print_json(&o);
}

static void on_listening(void *context, const braid_id *id, const char *address) {
    const node_serve_flags *f = context;
    char hex[2 * BRAID_ID_BYTES + 1];
    json_out o;
    id_hex(id->bytes, BRAID_ID_BYTES, hex);
    if (!f->json) {
        printf("peer %.8s at %s, process %d\n", hex, address, (int)getpid());
        fflush(stdout);
        return;
    }
    begin_json(&o, "ready");
    json_out_string(&o, "peer", hex);
    json_out_string(&o, "address", address);
    json_out_u64(&o, "process", (uint64_t)getpid());
    print_json(&o);
}

static void on_holds(void *context, uint32_t begin, uint32_t end) {
    const node_serve_flags *f = context;
    json_out o;
    if (!f->json) {
        printf("serving layers %u to %u\n", begin, end - 1);
        fflush(stdout);
        return;
    }
    begin_json(&o, "serving");
    json_out_u64(&o, "first_layer", begin);
    json_out_u64(&o, "last_layer", end - 1);
    print_json(&o);
}

// Adapters of other peers come and go with each iteration, so only a program is told.
static void on_lends(void *context, uint32_t adapters, uint64_t bytes) {
    const node_serve_flags *f = context;
    json_out o;
    if (!f->json) return;
    begin_json(&o, "lends");
    json_out_u64(&o, "adapters", adapters);
    json_out_u64(&o, "bytes", bytes);
    print_json(&o);
}

// "0:10": layers 0 to 9.
static braid_err read_layers(const char *text, uint32_t *begin, uint32_t *end, braid_error *error) {
    unsigned first = 0, last = 0;
    int used = 0;
    if (!text) return BRAID_OK;
    bool good = sscanf(text, "%5u:%5u%n", &first, &last, &used) == 2 && text[used] == '\0' && first < last;
    *begin = first;
    *end = last;
    return good ? BRAID_OK
                : braid_fail(error, BRAID_ARGUMENT, "--layers %.32s: give FIRST:END, such as 0:10 for layers 0 to 9",
                             text);
}

static braid_err open_identity(const char *path, identity **out, int *lock, braid_error *error) {
    if (!path) return identity_new(out, error);
    braid_err err = identity_load_or_create(path, out, error);
    return err ? err : identity_lock(path, lock, error);
}

static braid_err serve(const node_serve_flags *f, const identity *own, const model_file *file,
                       const adapter_flags *adapters, braid_error *error) {
    machine here;
    machine_look(&here);
    uint64_t half = here.memory_bytes == UINT64_MAX ? (uint64_t)1 << 30 : here.memory_bytes / MEMORY_PART;
    span_config config = {
        .identity = own,
        .listen = f->listen,
        .public_address = f->public_address,
        .path = f->model ? f->model : "what peers sent",
        .state_directory = f->state_directory,
        .file = file,
        .join = *f->join,
        .guest = &span_lending,
        .memory = f->max_memory ? f->max_memory : half,
        .threads = (unsigned)f->threads,
        .patience_ns = f->patience_ns,
        .dead_ns = f->dead_ns,
        .adapters = adapters->place,
        .adapter_count = adapters->count,
        .supervised = f->supervised,
        .signals = true,
        .callbacks = {.context = (void *)(uintptr_t)f,
                      .note = on_note,
                      .listening = on_listening,
                      .holds = on_holds,
                      .lends = on_lends},
    };
    span_peer *p = NULL;
    braid_err err = read_layers(f->layers, &config.layer_begin, &config.layer_end, error);
    if (!err) err = span_peer_new(&config, &p, error);
    if (!err) err = span_peer_run(p, error);
    span_peer_free(p);
    return err;
}

int node_serve(const node_serve_flags *f) {
    braid_error error = {0};
    identity *own = NULL;
    model_file *file = NULL;
    int lock = -1;
    if (!f->model && f->adapters->count > 0)
        return cli_complain(CLI_USAGE, "node", "--adapter needs the model's shapes: give its file with --model FILE");
    adapter_flags adapters;
    braid_err err = adapter_flags_read(&adapters, f->adapters, SESSION_MAX_ADAPTERS, &error);
    if (!err) err = open_identity(f->identity, &own, &lock, &error);
    if (!err && f->model) err = generator_open_file(f->model, &file, &error);
    if (!err) err = serve(f, own, file, &adapters, &error);
    adapter_flags_close(&adapters);
    model_file_close(file);
    identity_free(own);
    if (lock >= 0) close(lock);
    if (!err) return CLI_OK;
    return cli_complain(err == BRAID_ARGUMENT || err == BRAID_CONFIG ? CLI_USAGE : CLI_FAILED, "node", "%s",
                        error.text);
}
