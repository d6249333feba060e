// The lifetime of a node: creation, joining, running, end.
#include "node/node.h"

#include "base/machine.h"
#include "format/quantity.h"
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
#include "train/kernel_class.h"
#include "train/run_notes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

void node_note(node *n, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n->callbacks.note) n->callbacks.note(n->callbacks.context, text);
}

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
    braid_err err = start_model_make(&n->run, &host, n->model, error);
    if (!err) err = open_data(n, error);
    if (!err) err = try_to_save(n, error);
    if (err) return err;
    braid_hash data = train_data_hash(n->data);
    n->run_hash = run_config_hash(&n->run, &data);
    n->description_bytes = run_config_describe(&n->run, &data, n->description, sizeof n->description);
    if (n->description_bytes == 0) return braid_fail(error, BRAID_LIMIT, "the run's description is too long");
    return plan_capacity(&n->run, n->config.capacity, n->config.max_memory, true, &n->capacity, error);
}

static member_kind kind_of(const node *n) { return n->config.role != NODE_RELAY ? MEMBER_DATA : n->config.shadow ? MEMBER_SHADOW : MEMBER_RELAY; }

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
    n->max_links = config->max_links;
    return BRAID_OK;
}

static braid_err open_links(node *n, braid_error *error) {
    net_config config = {.software = "braid " BRAID_VERSION, .kind = (uint8_t)kind_of(n)};
    node_net_callbacks(n, &config.callbacks);
    braid_err err = share_files(n, &config, error);
    if (!err) err = net_new(&n->loop, n->config.identity, &config, &n->net, error);
    return err ? err : node_listen(n, error);
}

static void on_tick(uv_timer_t *timer) { node_tick(timer->data); }

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

// Without a cap, the capacity follows from the memory. If not even one microbatch fits, the user is
// notified.
static void fit_memory(node *n, bool data_peer) {
    uint32_t capacity;
    braid_error why;
    if (n->config.max_memory || !n->config.usable_bytes) return;
    if (plan_capacity(&n->run, n->config.capacity, n->config.usable_bytes, data_peer, &capacity, &why) == BRAID_OK) {
        if (capacity < n->capacity) node_note(n, "holding at most %u microbatches at once, not %u: more do not fit the memory that this process may use", capacity, n->capacity);
        n->capacity = capacity;
        return;
    }
    char need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    uint64_t needed = plan_least_bytes(&n->run, n->capacity, n->config.capacity || n->run.capacity, data_peer);
    node_note(n, "this peer may need %s of memory, and the process may use %s: it may be killed for lack of memory; give it more, or cut the model into more stages",
              quantity_size_text(needed, need), quantity_size_text(n->config.usable_bytes, have));
}

static braid_err begin_jobs(node *n, braid_error *error) {
    bool data_peer = n->config.role != NODE_RELAY;
    char note[TENSOR_POOL_NOTE];
    braid_err err = plan_capacity(&n->run, n->config.capacity, n->config.max_memory, data_peer, &n->capacity, error);
    if (!err) fit_memory(n, data_peer);
    jobs_config config = {
        .run = &n->run, .split = &n->split, .run_hash = n->run_hash, .saves = data_peer, .data = n->data, .blobs = n->blobs, .threads = n->config.threads, .capacity = n->capacity,
        .max_memory = n->config.max_memory, .state_directory = n->config.state_directory, .resume = n->config.resume,
        .save = data_peer ? n->run.checkpoint : NULL,
    };
    // created first, so that the tensor threads get what the system has left
    if (!err) err = compute_new(&n->loop, node_job_run, node_job_done, n, &n->compute, error);
    if (!err) err = jobs_new(&config, &n->jobs, error);
    if (!err && jobs_threads_refused(n->jobs, note)) node_note(n, "%s", note);
    return err;
}

// Prepares all that depends on the run's description alone.
static braid_err prepare(node *n, braid_error *error) {
    braid_err err = split_new(&n->run.model, n->run.blocks, n->run.stages, &n->split, error);
    if (err) return err;
    plan_make(&n->run, &n->run_hash, &n->split, &n->plan);
    return begin_jobs(n, error);
}

static void note_claim(void *context, const char *text) { node_note(context, "%s", text); }

// A new run must not overwrite existing checkpoints; a run that continues by its log wrote them
// itself.
static braid_err claim_checkpoints(node *n, braid_error *error) {
    if (!n->run.checkpoint[0]) return BRAID_OK;
    const checkpoint_start start = {.directory = n->run.checkpoint, .run = n->run_hash, .version = jobs_start_version(n->jobs),
                                    .from = jobs_start_path(n->jobs), .anew = n->config.sets_aside, .newest = n->config.continues, .goes_on = n->goes_on,
                                    .wait_ms = CHECKPOINT_WAIT_MS, .note = note_claim, .context = n};
    return checkpoint_claim(&start, &n->lock, error);
}

static void start_from_model(node *n) {
    if (!n->config.resume && n->model[0]) n->config.resume = n->model;
}

// A leader reports faults of its checkpoint and log immediately; other peers first ask which run it
// is.
static braid_err prepare_leader(node *n, braid_error *error) {
    braid_err err = node_find_first_log(n, error);
    if (!err) err = node_find_newest(n, error);
    start_from_model(n);
    if (!err) err = prepare(n, error);
    uint64_t done = err ? 0 : jobs_start_version(n->jobs), wanted = n->run.recipe.iterations;
    if (!err && !n->goes_on && done > wanted)
        err = braid_fail(error, BRAID_CONFIG, "the checkpoint '%s' has done %llu iterations already, more than the %llu wanted; raise train.iterations to do more", n->config.resume,
                         (unsigned long long)done, (unsigned long long)wanted);
    n->nothing = !err && !n->goes_on && done == wanted;
    if (err || n->nothing) return err;
    err = claim_checkpoints(n, error);
    return err ? err : node_open_first_log(n, error);
}

braid_err node_new(const node_config *config, node **out, braid_error *error) {
    node *n = calloc(1, sizeof *n);
    if (!n) return braid_fail(error, BRAID_MEMORY, "no memory for a peer");
    n->config = *config;
    n->named = config->leader;
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

static void core_config(node *n, peer_config *config) {
    *config = (peer_config){
        .self = identity_id(n->config.identity), .leader = n->config.role == NODE_LEADER,
        .lacks_start = n->goes_on && jobs_start_version(n->jobs) != n->plan.start_version,
        .kind = kind_of(n), .capacity = n->capacity,
        .store = n->log_store, .voters = (uint16_t)n->config.voters, .share = (uint16_t)n->config.share,
        .has_checkpoint = n->config.resume != NULL, .upload_percent = (uint8_t)n->config.upload_percent, .carried_percent = (uint8_t)n->config.carried_percent,
        .carries_nothing = n->config.carries_nothing,
    };
    if (n->data) config->text = train_data_hash(n->data);
    config->host = n->config.beside;
    strcpy(config->address, n->address);
    config->leader_id = config->leader ? config->self : n->config.leader.leader;
    strcpy(config->leader_address, config->leader ? n->address : n->config.leader.address);
    if (!config->leader && !id_equal(&n->named.leader, &config->leader_id)) {
        config->named_id = n->named.leader;
        strcpy(config->named_address, n->named.address);
    }
    if (getrandom(&config->random_seed, sizeof config->random_seed, 0) != sizeof config->random_seed)
        memcpy(&config->random_seed, config->self.bytes, sizeof config->random_seed);
}

static bool recall(void *context, const log_entry *record) {
    node *n = context;
    if (peer_recall(n->core, record)) return true;
    braid_fail(&n->error, BRAID_FORMAT, "the log %s is inconsistent; restore it or name another file", n->config.log_path);
    return false;
}

static braid_err begin_core(node *n, braid_error *error) {
    n->plan.start_version = n->generation % NODE_START_VERSIONS - 1;
    n->plan.start_data_peers = (uint16_t)n->config.start_data_peers;
    n->plan.start_relays = (uint16_t)n->config.start_relays;
    n->plan.standbys = (uint16_t)n->config.shadows;
    peer_config config;
    core_config(n, &config);
    n->core_bytes = peer_bytes(&n->plan, &config);
    // Untouched zero pages take no memory.
    n->core_memory = mmap(NULL, n->core_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (n->core_memory == MAP_FAILED) {
        n->core_memory = NULL;
        return braid_fail(error, BRAID_MEMORY, "no memory for the protocol: it needs %zu MiB; make some free, or raise the limit (ulimit -v)", n->core_bytes >> 20);
    }
    n->core = peer_init(n->core_memory, &n->plan, &config, clock_now_ns());
    log_file_recall(n->log_file, recall, n);
    if (n->error.code) return braid_fail(error, n->error.code, "%s", n->error.text);
    log_file *file = n->log_file;
    n->log_file = NULL;
    return log_writer_new(&n->loop, file, node_committed, node_log_failed, n, &n->log, error);
}

static braid_err announce_run(node *n, braid_error *error) {
    net_run run = {
        // A joining peer needs the run's first version before it steps its core: the generation
        // contains it. The generation also rejects peers of an earlier start of the same run.
        .hash = n->run_hash, .generation = n->generation, .leader = n->config.leader.leader,
        .kernels = n->kernels, .leader_address = n->config.leader.address,
        .description = n->description, .description_bytes = n->description_bytes,
    };
    return net_set_run(n->net, &run, error);
}

// In a reproducible run all kernels must give the same bits.
braid_err node_try_kernels(node *n, braid_error *error) {
    const run_config *run = &n->run;
    return run->recipe.reproducible ? kernel_class_of(&run->model, run_multiplies_fastest(run), &n->kernels, error) : BRAID_OK;
}

static void tell_notes(node *n) {
    char text[RUN_NOTE];
    if (n->goes_on) return;
    run_notes(&n->run, train_data_size(n->data), say_note, n);
    if (jobs_rate_jumps(n->jobs, text)) node_note(n, "%s", text);
}

braid_err node_begin(node *n, braid_error *error) {
    braid_err err = n->jobs ? BRAID_OK : prepare(n, error);
    if (!err && !n->log_file) err = node_open_log(n, error);
    if (!err) err = begin_core(n, error);
    if (!err) err = announce_run(n, error);
    if (err) return err;
    if (n->config.role == NODE_LEADER) tell_notes(n);
    n->phase = NODE_RUNNING;
    char text[CHECKPOINT_NOTE];
    bool resumes = n->config.resume != n->model && !(run_has_model(&n->run) && jobs_start_version(n->jobs) == 0);
    if (resumes && jobs_start_differs(n->jobs, text)) node_note(n, "%s", text);
    if (resumes && n->config.role == NODE_LEADER && jobs_start_lacks_moments(n->jobs, text)) node_note(n, "%s", text);
    if (n->callbacks.run_known) n->callbacks.run_known(n->callbacks.context, &n->run, plan_parameters(&n->split));
    node_feed(n, &(event){.kind = EVENT_TICK});
    return BRAID_OK;
}

// Sets the leader that a joining peer is referred to.
void node_leader_is(node *n, const braid_id *id, const char *address) {
    const braid_id self = identity_id(n->config.identity);
    n->config.leader.leader = *id;
    snprintf(n->config.leader.address, sizeof n->config.leader.address, "%s", address ? address : "");
    n->by_log = false;
    n->leader_lost_ns = id_equal(id, &self) || net_linked(n->net, id) ? 0 : clock_now_ns();
    braid_error error;
    if (announce_run(n, &error)) node_note(n, "cannot announce the leader to joining peers: %s", error.text);
}

// A relay of a run on this machine needs no other address, nor do the processes of `braid up`.
static void note_local(node *n) {
    bool joins_local = n->config.role == NODE_RELAY && address_list_is_local(n->config.leader.address);
    if (n->config.supervised || joins_local || !address_list_is_local(n->address)) return;
    if (n->address_guessed)
        node_note(n, "only processes on this machine can join at %s: it has no address but loopback; connect it to a network, or give the address of a tunnel to it (--public-address HOST:PORT)", n->address);
    else node_note(n, "only processes on this machine can join at %s (loopback); so that others can, give --listen 0.0.0.0:PORT, or the address of a router or tunnel to this machine (--public-address HOST:PORT)",
              n->address);
}

static void tell_listening(node *n) {
    if (!n->callbacks.listening) return;
    braid_id self = identity_id(n->config.identity);
    ticket own = {.leader = self};
    note_local(n);
    char text[TICKET_MAX_TEXT];
    strcpy(own.address, n->address);
    ticket_format(&own, text);
    n->callbacks.listening(n->callbacks.context, &self, n->address, n->config.role == NODE_LEADER ? text : NULL);
}

static void tell_complete(node *n) {
    char text[CHECKPOINT_NOTE];
    checkpoint_nothing_to_do(jobs_start_version(n->jobs), n->run.recipe.iterations, text);
    node_note(n, "%s", text);
    if (n->callbacks.complete) n->callbacks.complete(n->callbacks.context, jobs_start_version(n->jobs), jobs_start_weights(n->jobs), jobs_start_path(n->jobs));
}

braid_err node_run(node *n, braid_error *error) {
    if (n->nothing) {
        tell_complete(n);
        node_end(n);
    } else {
        tell_listening(n);
    }
    if (n->nothing) {
        // No other peer knows this one.
    } else if (n->config.role == NODE_LEADER) {
        n->config.leader.leader = identity_id(n->config.identity);
        strcpy(n->config.leader.address, n->address);
        braid_error why;
        if (node_try_kernels(n, &why) || node_begin(n, &why)) node_fail(n, &why);
    } else {
        node_enquire(n);
    }
    node_request(n);  // a request may have arrived while the node was created
    uv_run(&n->loop, UV_RUN_DEFAULT);
    return n->error.code ? braid_fail(error, n->error.code, "%s", n->error.text) : BRAID_OK;
}

void node_fail(node *n, const braid_error *error) {
    if (!n->error.code) n->error = *error;
    node_end(n);
}

static void stop_passed(uv_timer_t *timer) { node_stop_now(timer->data); }

// Sends the last messages, then stops. Callable from anywhere: a timer runs what must not happen
// inside a link's callback.
void node_end(node *n) {
    if (n->phase >= NODE_STOPPING) return;
    n->phase = NODE_STOPPING;
    n->end_wanted = false;
    for (uint32_t i = 0; i < n->link_count; i++) net_close(n->net, &n->links[i], "this peer has left");
    uv_timer_start(&n->deadline, stop_passed, n->link_count ? NODE_STOP_MS : 0, 0);
}

static void close_handle(uv_handle_t *handle, void *unused) {
    (void)unused;
    if (!uv_is_closing(handle) && handle->data) uv_close(handle, NULL);
}

// Must not be called inside a link's callback.
void node_stop_now(node *n) {
    if (n->phase == NODE_STOPPED) return;
    n->phase = NODE_STOPPED;
    net_free(n->net);
    n->net = NULL;
    compute_close(n->compute);
    n->compute = NULL;
    log_writer_close(n->log);
    n->log = NULL;
    log_thread_end(&n->loop);
    log_file_close(n->log_file);
    n->log_file = NULL;
    uv_handle_t *own[] = {(uv_handle_t *)&n->deadline,  (uv_handle_t *)&n->ticking,   (uv_handle_t *)&n->retry,
                          (uv_handle_t *)&n->signals,   (uv_handle_t *)&n->commands};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) close_handle(own[i], NULL);
}

void node_free(node *n) {
    if (!n) return;
    uv_loop_close(&n->loop);
    jobs_free(n->jobs);
    train_data_free(n->data);
    blobs_free(n->blobs);
    split_free(&n->split);
    if (n->core_memory) munmap(n->core_memory, n->core_bytes);
    if (n->trace) fclose(n->trace);
    checkpoint_release(n->run.checkpoint, n->lock);
    free(n->links);
    free(n);
}
