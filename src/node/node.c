// The lifetime of a node: creation, joining, running, end.
#include "node/node.h"

#include "base/machine.h"
#include "node/address.h"
#include "node/clock.h"
#include "node/internal.h"
#include "node/log_thread.h"
#include "node/plan.h"
#include "node/run_data.h"
#include "node/start_model.h"
#include "node/stop.h"
#include "train/checkpoint.h"
#include "train/checkpoint_claim.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void say_note(void *context, const char *text) { node_note(context, "%s", text); }

static bool is_stopped(void *context) {
    const node *n = context;
    return n->config.signals && stop_requested() != 0;
}

static braid_err open_data(node *n, braid_error *error) {
    uint32_t count = n->run.text_count, own = n->config.share;
    if (n->run.private_data == 0 && own != 0)
        return braid_fail(error, BRAID_ARGUMENT, "all data peers of this run have the same text; leave out --share, or set data.private");
    if (own > n->run.private_data) return braid_fail(error, BRAID_ARGUMENT, "--share is %u, but data.private is %u; give a number up to that", own, n->run.private_data);
    if (n->run.private_data > 1 && count > 1 && own == 0)  // one text per data peer
        return braid_fail(error, BRAID_ARGUMENT, "data.text names a text for each data peer; give the number of this peer's text with --share, 1 to %u", count);
    // this peer's own text, also when it is the only one that is named
    const run_data_config texts = {.run = &n->run, .own = n->run.private_data > 0 && own == 0 ? 1 : own, .threads = n->config.threads,
                                   .describes = n->config.role == NODE_LEADER && !n->config.supervised, .host = {.context = n, .note = say_note, .stopped = is_stopped}};
    return run_data_open(&texts, &n->data, error);
}

// The first leader must be able to save. Another data peer may run without a checkpoint directory:
// its text and its work are still useful.
static braid_err try_to_save(node *n, braid_error *error) {
    braid_error why;
    braid_err err = n->run.checkpoint[0] ? checkpoint_try(n->run.checkpoint, &why) : BRAID_OK;
    if (!err) return BRAID_OK;
    if (n->config.role == NODE_LEADER) return braid_fail(error, err, "%s", why.text);
    node_note(n, "this peer could not save the run as its leader: %s", why.text);
    return BRAID_OK;
}

// A peer with the text has the run's description; a relay asks for it.
static braid_err open_run(node *n, braid_error *error) {
    if (n->config.role == NODE_RELAY) return BRAID_OK;
    n->run = *n->config.run;
    if (n->config.max_memory == 0) n->config.max_memory = n->run.max_memory;
    const place_host host = {.context = n, .note = say_note, .stopped = is_stopped};
    braid_err err = start_model_make(&n->run, &host, n->start.model, error);
    if (!err) err = open_data(n, error);
    if (!err) err = try_to_save(n, error);
    if (err) return err;
    braid_hash data = train_data_hash(n->data);
    n->run_hash = run_config_hash(&n->run, &data);
    n->description.bytes = run_config_describe(&n->run, &data, n->description.text, sizeof n->description.text);
    if (n->description.bytes == 0) return braid_fail(error, BRAID_LIMIT, "the run's description is too long");
    err = node_share_memory(n, error);
    return err ? err : plan_capacity(&n->run, n->config.capacity, n->config.max_memory, true, n->config.state_directory != NULL, &n->capacity, error);
}

// Reserves file descriptors for the log, checkpoints and name look-ups; the rest is for links.
static braid_err share_files(node *n, net_config *config, braid_error *error) {
    uint64_t open = machine_files_open(), left = n->config.files > open ? n->config.files - open : 0;
    uint64_t of_stages = n->config.role == NODE_RELAY ? 0 : 2 * n->run.stages;  // a checkpoint opens two files per stage
    uint64_t needed = NODE_LEAST_FILES + of_stages, reserved = NODE_RESERVED_FILES + of_stages;
    if (n->config.files == 0 || left >= reserved + NET_MAX_LINKS + NET_MAX_HANDSHAKES) return BRAID_OK;
    if (left <= needed)
        return braid_fail(error, BRAID_LIMIT, "this peer needs %llu open files, and %llu are allowed; raise the limit (ulimit -n)", (unsigned long long)(open + needed + 1),
                          (unsigned long long)n->config.files);
    if (reserved > left / 2) reserved = left / 2 > needed ? left / 2 : needed;
    uint64_t sockets = left - reserved, handshakes = sockets / 4, links;
    if (handshakes < 1) handshakes = 1;
    if (handshakes > NET_MAX_HANDSHAKES) handshakes = NET_MAX_HANDSHAKES;
    links = sockets > handshakes ? sockets - handshakes : 1;
    config->max_handshakes = (uint32_t)handshakes;
    config->max_links = links < NET_MAX_LINKS ? (uint32_t)links : NET_MAX_LINKS;
    n->refused.max_links = config->max_links;
    return BRAID_OK;
}

static braid_err open_links(node *n, braid_error *error) {
    net_config config = {.software = "braid " BRAID_VERSION, .kind = (uint8_t)node_kind(n)};
    node_net_callbacks(n, &config.callbacks);
    braid_err err = share_files(n, &config, error);
    if (!err) err = net_new(&n->loop, n->config.identity, &config, &n->net, error);
    return err ? err : node_listen(n, error);
}

static void on_tick(uv_timer_t *timer) {
    node *n = timer->data;
    n->idle.ticks = n->idle.worked ? 0 : n->idle.ticks + 1;
    n->idle.worked = n->compute && compute_busy(n->compute);
    if (n->idle.ticks == NODE_IDLE_TICKS) {
        blobs_trim(n->blobs);
        malloc_trim(0);
    }
    if (n->callbacks.tick) n->callbacks.tick(n->callbacks.context);
    if (n->phase == NODE_RUNNING) node_look_at_voters(n);
    if (n->phase == NODE_RUNNING) node_look_for_gaps(n);
    node_ending_tick(n);
    if (n->phase == NODE_RUNNING) node_enquire_again(n);
    bool lost = n->phase == NODE_RUNNING && n->leader.lost_ns && n->config.patience_ns;
    if (lost && clock_now_ns() - n->leader.lost_ns > n->config.patience_ns) {
        braid_error error;
        braid_fail(&error, BRAID_NETWORK, "the leader at %s has not answered for %.0f s%s%s", n->config.leader.address, (double)n->config.patience_ns * 1e-9, *n->leader.lost ? ": " : "",
                   n->leader.lost);
        node_fail(n, &error);
    }
}

static braid_err open_timers(node *n, braid_error *error) {
    uv_timer_t *timers[] = {&n->deadline, &n->ticking, &n->retry};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&n->loop, timers[i]);
        timers[i]->data = n;
    }
    uv_timer_start(&n->ticking, on_tick, NODE_TICK_MS, NODE_TICK_MS);
    return node_watch(n, error);
}

static braid_err open_trace(node *n, braid_error *error) {
    n->start_ns = clock_now_ns();
    if (!n->config.trace) return BRAID_OK;
    n->trace = fopen(n->config.trace, "w");
    return n->trace ? BRAID_OK : braid_fail(error, BRAID_IO, "cannot write the trace %s: %s", n->config.trace, strerror(errno));
}

static void note_claim(void *context, const char *text) { node_note(context, "%s", text); }

// A new run must not overwrite existing checkpoints; a run that continues by its log wrote them
// itself.
static braid_err claim_checkpoints(node *n, braid_error *error) {
    if (!n->run.checkpoint[0]) return BRAID_OK;
    const checkpoint_start start = {.directory = n->run.checkpoint, .run = n->run_hash, .version = jobs_start_version(n->jobs),
                                    .from = jobs_start_path(n->jobs), .anew = n->config.sets_aside, .newest = n->config.continues, .goes_on = n->start.goes_on,
                                    .wait_ms = CHECKPOINT_WAIT_MS, .note = note_claim, .context = n};
    return checkpoint_claim(&start, &n->lock, error);
}

static void start_from_model(node *n) {
    if (!n->config.resume && run_has_model(&n->run)) n->config.resume = n->start.model;
}

// A leader reports faults of its checkpoint and log immediately; other peers first ask which run it
// is.
static braid_err prepare_leader(node *n, braid_error *error) {
    braid_err err = node_find_first_log(n, error);
    if (!err) err = node_find_newest(n, error);
    start_from_model(n);
    if (!err) err = node_prepare(n, error);
    uint64_t done = err ? 0 : jobs_start_version(n->jobs), wanted = n->run.recipe.iterations;
    if (!err && !n->start.goes_on && done > wanted)
        err = braid_fail(error, BRAID_CONFIG, "the checkpoint '%s' has done %llu iterations already, more than the %llu wanted; raise train.iterations to do more", n->config.resume,
                         (unsigned long long)done, (unsigned long long)wanted);
    n->start.nothing = !err && !n->start.goes_on && done == wanted;
    if (err || n->start.nothing) return err;
    err = claim_checkpoints(n, error);
    return err ? err : node_open_first_log(n, error);
}

braid_err node_new(const node_config *config, node **out, braid_error *error) {
    node *n = calloc(1, sizeof *n);
    if (!n) return braid_fail(error, BRAID_MEMORY, "no memory for a peer");
    n->config = *config;
    n->leader.named = config->leader;
    n->callbacks = config->callbacks;
    n->die_at = config->die_at;
    n->lock = -1;
    if (uv_loop_init(&n->loop) != 0) {
        free(n);
        return braid_fail(error, BRAID_STATE, "cannot create an event loop; raise the limit on open files (ulimit -n)");
    }
    braid_err err = log_thread_begin(&n->loop, error);
    if (!err) err = open_timers(n, error);
    if (!err) err = open_trace(n, error);
    if (!err) err = blobs_new(0, NODE_RECYCLE_BYTES, &n->blobs, error);
    if (!err) err = open_run(n, error);
    if (!err) err = open_links(n, error);
    if (!err && config->role == NODE_DATA) err = node_find_newest(n, error);
    if (!err && config->role == NODE_DATA) start_from_model(n);
    if (!err && config->role == NODE_LEADER) err = prepare_leader(n, error);
    if (err) {
        node_stop_now(n);
        uv_run(&n->loop, UV_RUN_DEFAULT);
        node_free(n);
        return err;
    }
    *out = n;
    return BRAID_OK;
}

// A relay of a run on this machine needs no other address, nor do the processes of `braid up`.
static void note_local(node *n) {
    bool joins_local = n->config.role == NODE_RELAY && address_list_is_local(n->config.leader.address);
    if (n->config.supervised || joins_local || !address_list_is_local(n->own.address)) return;
    if (n->own.guessed)
        node_note(n, "only processes on this machine can join at %s: it has no address but loopback; connect it to a network, or give the address of a tunnel to it (--public-address HOST:PORT)", n->own.address);
    else node_note(n, "only processes on this machine can join at %s (loopback); so that others can, give --listen 0.0.0.0:PORT, or the address of a router or tunnel to this machine (--public-address HOST:PORT)",
              n->own.address);
}

static void tell_listening(node *n) {
    if (!n->callbacks.listening) return;
    braid_id self = identity_id(n->config.identity);
    ticket own = {.leader = self};
    note_local(n);
    char text[TICKET_MAX_TEXT];
    strcpy(own.address, n->own.address);
    ticket_format(&own, text);
    n->callbacks.listening(n->callbacks.context, &self, n->own.address, n->config.role == NODE_LEADER ? text : NULL);
}

static void tell_complete(node *n) {
    char text[CHECKPOINT_NOTE];
    checkpoint_nothing_to_do(jobs_start_version(n->jobs), n->run.recipe.iterations, text);
    node_note(n, "%s", text);
    if (n->callbacks.complete) n->callbacks.complete(n->callbacks.context, jobs_start_version(n->jobs), jobs_start_weights(n->jobs), jobs_start_path(n->jobs));
}

braid_err node_run(node *n, braid_error *error) {
    if (n->start.nothing) {
        tell_complete(n);
        node_end(n);
    } else {
        tell_listening(n);
    }
    if (n->start.nothing) {
        // No other peer knows this one.
    } else if (n->config.role == NODE_LEADER) {
        n->config.leader.leader = identity_id(n->config.identity);
        strcpy(n->config.leader.address, n->own.address);
        braid_error why;
        if (node_try_kernels(n, &why) || node_begin(n, &why)) node_fail(n, &why);
    } else {
        node_enquire(n);
    }
    node_request(n);  // a request may have arrived while the node was created
    uv_run(&n->loop, UV_RUN_DEFAULT);
    return n->error.code ? braid_fail(error, n->error.code, "%s", n->error.text) : BRAID_OK;
}

bool node_look(const node *n, peer_view *view) {
    if (n->phase != NODE_RUNNING) return false;
    peer_look(n->core, view);
    return true;
}

void node_free(node *n) {
    if (!n) return;
    uv_loop_close(&n->loop);
    jobs_free(n->jobs);
    train_data_free(n->data);
    blobs_free(n->blobs);
    split_free(&n->split);
    if (n->memory.start) munmap(n->memory.start, n->memory.bytes);
    if (n->trace) fclose(n->trace);
    checkpoint_release(n->run.checkpoint, n->lock);
    free(n->links.id);
    free(n);
}
