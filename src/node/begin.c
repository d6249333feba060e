// The start of the protocol core, once the run's description is known.
#include "format/quantity.h"
#include "node/clock.h"
#include "node/internal.h"
#include "node/plan.h"
#include "protocol/core/faults.h"
#include "train/checkpoint.h"
#include "train/checkpoint_claim.h"
#include "train/kernel_class.h"
#include "train/run_notes.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

// Without a cap, the capacity follows from the memory. If not even one microbatch fits, the user is
// notified.
static void fit_memory(node *n, bool data_peer) {
    uint32_t capacity;
    braid_error why;
    if (n->config.max_memory || !n->config.usable_bytes) return;
    if (plan_capacity(&n->run, n->config.capacity, n->config.usable_bytes, data_peer, false, &capacity, &why) ==
        BRAID_OK) {
        if (capacity < n->capacity)
            node_note(
                n,
                "holding at most %u microbatches at once, not %u: more do not fit the memory that this process may use",
                capacity, n->capacity);
        n->capacity = capacity;
        return;
    }
    char need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    uint64_t needed = plan_least_bytes(&n->run, n->capacity, n->config.capacity || n->run.capacity, data_peer, false);
    node_note(n,
              "this peer may need %s of memory, and the process may use %s: it may be killed for lack of memory; give "
              "it more, or cut the model into more stages",
              quantity_size_text(needed, need), quantity_size_text(n->config.usable_bytes, have));
}

static braid_err begin_jobs(node *n, braid_error *error) {
    bool data_peer = n->config.role != NODE_RELAY;
    char note[TENSOR_POOL_NOTE];
    braid_err err = plan_capacity(&n->run, n->config.capacity, n->config.max_memory, data_peer,
                                  n->config.state_directory != NULL, &n->capacity, error);
    if (!err) fit_memory(n, data_peer);
    jobs_config config = {
        .run = &n->run,
        .split = &n->split,
        .run_hash = n->run_hash,
        .saves = data_peer,
        .data = n->data,
        .blobs = n->blobs,
        .threads = n->config.threads,
        .capacity = n->capacity,
        .max_memory = n->config.max_memory,
        .state_directory = n->config.state_directory,
        .base = n->run.recipe.adapter.rank > 0 ? n->start.model : NULL,
        .resume = n->config.resume,
        .save = data_peer ? n->run.checkpoint : NULL,
    };
    // created first, so that the tensor threads get what the system has left
    if (!err) err = compute_new(&n->loop, node_job_run, node_job_done, n, &n->compute, error);
    if (!err) err = jobs_new(&config, &n->jobs, error);
    if (!err && jobs_threads_refused(n->jobs, note)) node_note(n, "%s", note);
    return err;
}

// A whole-model peer divides its memory among its processes.
braid_err node_share_memory(node *n, braid_error *error) {
    uint64_t each;
    if (!n->config.whole || n->config.max_memory == 0) return BRAID_OK;
    return plan_whole_memory(&n->run, n->config.capacity, n->config.max_memory, n->config.role != NODE_RELAY,
                             n->config.state_directory != NULL, &n->config.max_memory, &each, error);
}

// Prepares all that depends on the run's description alone.
braid_err node_prepare(node *n, braid_error *error) {
    braid_err err = split_new(&n->run.model, &n->run.recipe.adapter, n->run.blocks, n->run.stages, &n->split, error);
    if (!err && n->config.role == NODE_RELAY) err = node_share_memory(n, error);
    if (err) return err;
    plan_make(&n->run, &n->run_hash, &n->split, &n->plan);
    return begin_jobs(n, error);
}

static void core_config(node *n, peer_config *config) {
    *config = (peer_config){
        .self = identity_id(n->config.identity),
        .leader = n->config.role == NODE_LEADER,
        .lacks_start = n->start.goes_on && jobs_start_version(n->jobs) != n->plan.start_version,
        .kind = node_kind(n),
        .capacity = n->capacity,
        .store = n->start.log_store,
        .voters = (uint16_t)n->config.voters,
        .share = (uint16_t)n->config.share,
        .stage = (uint16_t)n->config.stage,
        .has_checkpoint = n->config.resume != NULL,
        .upload_percent = (uint8_t)n->config.upload_percent,
        .carries_nothing = n->config.carries_nothing,
    };
    if (n->data) config->text = train_data_hash(n->data);
    config->host = n->config.beside;
    strcpy(config->address, n->own.address);
    config->leader_id = config->leader ? config->self : n->config.leader.leader;
    strcpy(config->leader_address, config->leader ? n->own.address : n->config.leader.address);
    if (!config->leader && !id_equal(&n->leader.named.leader, &config->leader_id)) {
        config->named_id = n->leader.named.leader;
        strcpy(config->named_address, n->leader.named.address);
    }
    if (getrandom(&config->random_seed, sizeof config->random_seed, 0) != sizeof config->random_seed)
        memcpy(&config->random_seed, config->self.bytes, sizeof config->random_seed);
}

static bool recall(void *context, const log_entry *record) {
    node *n = context;
    if (peer_recall(n->core, record)) return true;
    braid_fail(&n->error, BRAID_FORMAT, "the log %s is inconsistent; restore it or name another file",
               n->config.log_path);
    return false;
}

static braid_err begin_core(node *n, braid_error *error) {
    if (n->config.stage >= n->run.stages && n->config.stage > 0)
        return braid_fail(error, BRAID_ARGUMENT,
                          "there is no stage %u: the run has the stages 0 to %u, and relays work for those above 0",
                          n->config.stage, n->run.stages - 1);
    n->plan.start_version = n->start.generation % NODE_START_VERSIONS - 1;
    n->plan.start_data_peers = (uint16_t)n->config.start_data_peers;
    n->plan.start_relays = (uint16_t)n->config.start_relays;
    n->plan.standbys = (uint16_t)n->config.shadows;
    peer_config config;
    core_config(n, &config);
    n->memory.bytes = peer_bytes(&n->plan, &config);
    // Untouched zero pages take no memory.
    n->memory.start =
        mmap(NULL, n->memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (n->memory.start == MAP_FAILED) {
        n->memory.start = NULL;
        return braid_fail(
            error, BRAID_MEMORY,
            "no memory for the protocol: it needs %zu MiB; make some free, or raise the limit (ulimit -v)",
            n->memory.bytes >> 20);
    }
    n->core = peer_init(n->memory.start, &n->plan, &config, clock_now_ns());
    peer_inject(n->core, (peer_faults){.carried_percent = (uint8_t)n->config.carried_percent});
    log_file_recall(n->start.log_file, recall, n);
    if (n->error.code) return braid_fail(error, n->error.code, "%s", n->error.text);
    log_file *file = n->start.log_file;
    n->start.log_file = NULL;
    return log_writer_new(&n->loop, file, node_committed, node_log_failed, n, &n->log, error);
}

// In a reproducible run all kernels must give the same bits.
braid_err node_try_kernels(node *n, braid_error *error) {
    const run_config *run = &n->run;
    return run->recipe.reproducible ? kernel_class_of(&run->model, run_multiplies_fastest(run), &n->kernels, error)
                                    : BRAID_OK;
}

static void say_note(void *context, const char *text) { node_note(context, "%s", text); }

static void tell_notes(node *n) {
    char text[RUN_NOTE];
    if (n->start.goes_on) return;
    run_notes(&n->run, train_data_size(n->data), say_note, n);
    if (jobs_rate_jumps(n->jobs, text)) node_note(n, "%s", text);
}

braid_err node_begin(node *n, braid_error *error) {
    braid_err err = n->jobs ? BRAID_OK : node_prepare(n, error);
    if (!err && !n->start.log_file) err = node_open_log(n, error);
    if (!err) err = begin_core(n, error);
    if (!err) err = node_announce(n, error);
    if (err) return err;
    if (n->config.role == NODE_LEADER) tell_notes(n);
    n->phase = NODE_RUNNING;
    char text[CHECKPOINT_NOTE];
    bool resumes = n->config.resume != n->start.model && !(run_has_model(&n->run) && jobs_start_version(n->jobs) == 0);
    if (resumes && jobs_start_differs(n->jobs, text)) node_note(n, "%s", text);
    if (resumes && n->config.role == NODE_LEADER && jobs_start_lacks_moments(n->jobs, text)) node_note(n, "%s", text);
    if (n->callbacks.run_known) n->callbacks.run_known(n->callbacks.context, &n->run, plan_parameters(&n->split));
    node_feed(n, &(event){.kind = EVENT_TICK});
    return BRAID_OK;
}
