#include "train/worker.h"

#include "base/sha256.h"
#include "format/quantity.h"
#include "train/checkpoint.h"
#include "train/digest.h"
#include "train/worker_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

static size_t padded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// Divides one reservation into pieces. With `base` NULL it only counts.
typedef struct carver {
    uint8_t *base;
    size_t used;
} carver;

static void *carve(carver *c, size_t count, size_t size) {
    size_t at = c->used;
    c->used += padded(count * size);
    return c->base ? c->base + at : NULL;
}

static size_t sum_element(const worker *w) {
    return w->config.recipe.reproducible ? sizeof *w->fixed_sum : sizeof *w->plain_sum;
}

static void carve_sum(worker *w, carver *c) {
    size_t bytes = padded(w->parameters * sum_element(w)), stashes = w->config.capacity * w->stash_bytes;
    void *sum;
    if (w->sum_shares) {
        size_t all = stashes + stage_sum_overhang(w->stage, sum_element(w));
        w->stashes = carve(c, all, 1);
        sum = w->stashes ? w->stashes + all - bytes : NULL;
    } else {
        w->stashes = carve(c, stashes, 1);
        sum = carve(c, bytes, 1);
    }
    if (w->config.recipe.reproducible)
        w->fixed_sum = sum;
    else
        w->plain_sum = sum;
    w->results = w->config.alone ? sum : carve(c, w->parameters, sizeof *w->results);
}

static void carve_local(worker *w, carver *c) {
    float **parts[] = {&w->local.weights, &w->local.moment1, &w->local.moment2, &w->local.gradient};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i] = carve(c, w->parameters, sizeof(float));
    w->local.y = carve(c, w->activation_floats, sizeof(float));
    w->local.dx = carve(c, w->activation_floats, sizeof(float));
    w->local.norm2 = carve(c, w->block_count, sizeof(double));
}

static void carve_all(worker *w, carver *c) {
    size_t p = w->parameters, capacity = w->config.capacity;
    w->weights = carve(c, p, sizeof *w->weights);
    w->moment1 = carve(c, p, sizeof *w->moment1);
    w->moment2 = carve(c, p, sizeof *w->moment2);
    w->blocks = carve(c, w->block_count, sizeof *w->blocks);
    w->versions = carve(c, w->block_count, sizeof *w->versions);
    w->lost = carve(c, w->block_count, sizeof *w->lost);
    w->part_at = carve(c, (size_t)WIRE_MAX_STAGE_MEMBERS * (w->block_count + 1), sizeof *w->part_at);
    w->block_hash = carve(c, w->block_count, sizeof *w->block_hash);
    w->own_name = carve(c, w->block_count, sizeof *w->own_name);
    for (int i = 0; i < 2; i++) w->names[i].name = carve(c, w->block_count, sizeof(braid_hash));
    w->block_norm2 = carve(c, w->block_count, sizeof *w->block_norm2);
    w->tensor_norm2 = carve(c, w->tensor_count, sizeof *w->tensor_norm2);
    if (w->config.shape.links.forward != CODEC_FP32 || w->config.shape.links.backward != CODEC_FP32) {
        w->link.decoded = carve(c, w->activation_floats, sizeof *w->link.decoded);
        w->link.plain = carve(c, w->activation_floats, sizeof *w->link.plain);
    }
    if (w->config.shape.documents) w->documents = carve(c, w->rows, sizeof *w->documents);
    if (w->config.shape.ends) {
        w->inputs = carve(c, capacity * w->rows, sizeof *w->inputs);
        w->targets = carve(c, capacity * w->rows, sizeof *w->targets);
    }
    carve_sum(w, c);
    if (w->config.recipe.local_steps > 0) carve_local(w, c);
    if (!w->adapter.parts) return;
    w->adapter.base = carve(c, stage_parameters(w->stage), sizeof(float));
    w->adapter.merged = carve(c, stage_parameters(w->stage), sizeof(float));
}

static braid_err measure_adapter(worker *w, braid_error *error) {
    const worker_config *c = &w->config;
    braid_err err = adapter_new(w->stage, &c->recipe.adapter, &w->adapter.parts, error);
    if (!err) err = adapter_table_new(&c->model, &c->shape, &c->recipe.adapter, &w->adapter.table, &w->tensor_count, error);
    if (err) return err;
    w->tensors = w->adapter.table;
    const stage_tensor *last = &w->tensors[w->tensor_count - 1];
    w->parameters = last->offset + last->elements;
    w->sum_shares = false;  // an adapter's sum may be larger than a stash
    return BRAID_OK;
}

// Initialises everything except the memory: the stage and the derived sizes.
static braid_err worker_measure(worker *w, const worker_config *config, tensor_pool *pool, braid_error *error) {
    *w = (worker){.config = *config, .pool = pool};
    w->config.shape.frozen = config->recipe.adapter.rank > 0;
    braid_err err = stage_new(&config->model, &w->config.shape, pool, &w->stage, error);
    if (err) return err;
    // If only one microbatch is ever added, its sum replaces the stash as the stash becomes unused.
    w->sum_shares = config->alone && config->microbatches == 1 && config->capacity == 1 && config->recipe.local_steps == 0;
    w->tensors = stage_tensors(w->stage);
    w->tensor_count = stage_tensor_count(w->stage);
    w->parameters = stage_parameters(w->stage);
    if (config->recipe.adapter.rank > 0) err = measure_adapter(w, error);
    if (err) return err;
    w->block_count = blocks_count(w->tensors, w->tensor_count);
    w->rows = (size_t)config->shape.sequences * config->shape.tokens;
    w->activation_floats = stage_activation_elements(w->stage);
    size_t documents = config->shape.documents ? w->rows * sizeof(uint32_t) : 0;
    w->link.forward_bytes = tensor_codec_bytes(config->shape.links.forward, w->activation_floats) + documents;
    w->link.backward_bytes = tensor_codec_bytes(config->shape.links.backward, w->activation_floats) + documents;
    w->stash_bytes = padded(stage_stash_bytes(w->stage));
    carver count = {NULL, 0};
    carve_all(w, &count);
    w->memory_bytes = count.used;
    return BRAID_OK;
}

// Maps the pages of the state to an unlinked file, which disappears with this process.
static braid_err state_to_disk(worker *w, braid_error *error) {
    const char *directory = w->config.state_directory;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (size_t)((const uint8_t *)(w->moment2 + w->parameters) - (const uint8_t *)w->memory) / page * page;
    char path[1024];
    if (bytes == 0) return BRAID_OK;
    snprintf(path, sizeof path, "%s/braid-state-XXXXXX", directory);
    int file = mkstemp(path);
    if (file < 0) return braid_fail(error, BRAID_IO, "cannot make a file in %s: %s; name another directory", directory, strerror(errno));
    unlink(path);
    bool good = posix_fallocate(file, 0, (off_t)bytes) == 0 && mmap(w->memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    close(file);
    if (good) return BRAID_OK;
    return braid_fail(error, BRAID_IO, "no room in %s for the %llu MiB of this stage's state; name another directory", directory, (unsigned long long)(bytes >> 20));
}

static uint64_t work_bytes(const worker *w) {
    return stage_work_bytes(w->stage) + (w->adapter.parts ? adapter_work_bytes(w->adapter.parts) : 0);
}

// Pages of a file, which the system writes out when memory is short.
static uint64_t file_bytes(const worker *w) { return w->config.state_directory ? 3 * padded(w->parameters * sizeof(float)) : 0; }

static braid_err worker_reserve(worker *w, braid_error *error) {
    uint64_t need = w->memory_bytes + work_bytes(w) - file_bytes(w), cap = w->config.max_memory;
    if (cap > 0 && need > cap) {
        uint32_t capacity = w->config.capacity;
        char needed[QUANTITY_TEXT], limit[QUANTITY_TEXT];
        return braid_fail(error, BRAID_LIMIT,
                          "this stage with room for %u microbatch%s needs %s, the limit is %s; raise "
                          "--max-memory to at least %lluK, or %s",
                          capacity, capacity == 1 ? "" : "es", quantity_size_text(need, needed),
                          quantity_size_text(cap, limit), (unsigned long long)(need + 1023) >> 10,
                          capacity == 1 ? "make the microbatches or the stage smaller" : "lower the capacity");
    }
    // Reserved now and touched on use, so an idle peer costs only its state.
    void *memory = mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return braid_fail(error, BRAID_MEMORY,
                          "cannot reserve %llu MiB for this stage: %s; lower the capacity or the microbatch",
                          (unsigned long long)(w->memory_bytes >> 20), strerror(errno));
    w->memory = memory;
#ifdef MADV_HUGEPAGE
    madvise(memory, w->memory_bytes, MADV_HUGEPAGE);  // reduces page faults and TLB misses; optional
#endif
    carver pieces = {memory, 0};
    carve_all(w, &pieces);
    braid_err err = w->config.state_directory ? state_to_disk(w, error) : BRAID_OK;
    blocks_fill(w->tensors, w->tensor_count, w->blocks);
    stage_bind(w->stage, w->adapter.parts ? w->adapter.merged : w->weights);
    return err;
}

braid_err worker_new(const worker_config *config, tensor_pool *pool, worker **out, braid_error *error) {
    if (config->capacity == 0)
        return braid_fail(error, BRAID_ARGUMENT, "a worker needs room for at least one microbatch");
    worker *w = malloc(sizeof *w);
    if (!w) return braid_fail(error, BRAID_MEMORY, "no memory for a worker");
    braid_err err = worker_measure(w, config, pool, error);
    if (!err) err = worker_reserve(w, error);
    if (err) {
        worker_free(w);
        return err;
    }
    *out = w;
    return BRAID_OK;
}

static void release_stage(worker *w) {
    adapter_free(w->adapter.parts);
    free(w->adapter.table);
    stage_free(w->stage);
}

void worker_free(worker *w) {
    if (!w) return;
    if (w->memory) munmap(w->memory, w->memory_bytes);
    release_stage(w);
    free(w);
}

static void sizes_of(const worker *w, worker_sizes *out) {
    uint64_t p = w->parameters;
    *out = (worker_sizes){.parameters = p, .weights = p * sizeof(float), .optimizer = 2 * p * sizeof(float)};
    out->gradients = w->sum_shares ? stage_sum_overhang(w->stage, sum_element(w)) : p * sum_element(w);
    if (!w->config.alone) out->gradients += p * sizeof(float);
    out->total = w->memory_bytes + work_bytes(w);
    out->microbatch = w->stash_bytes;
    if (w->config.shape.ends) out->microbatch += w->rows * (sizeof *w->inputs + sizeof *w->targets);
    out->work = out->total - out->weights - out->optimizer - out->gradients - w->config.capacity * out->microbatch;
    out->total -= file_bytes(w);
}

braid_err worker_measure_sizes(const worker_config *config, worker_sizes *out, braid_error *error) {
    tensor_pool *pool = NULL;
    worker w = {0};
    *out = (worker_sizes){0};
    braid_err err = tensor_pool_new(config->threads ? config->threads : 1, &pool, error);
    if (!err) err = worker_measure(&w, config, pool, error);
    if (!err) sizes_of(&w, out);
    release_stage(&w);
    if (pool) tensor_pool_free(pool);
    return err;
}

uint64_t worker_memory_bytes(const worker_config *config) {
    worker_sizes sizes;
    return worker_measure_sizes(config, &sizes, NULL) ? 0 : sizes.total;
}

uint32_t worker_fitting_capacity(const worker_config *config, uint64_t bytes, uint32_t most) {
    worker_config one = *config, two = *config;
    one.capacity = 1;
    two.capacity = 2;
    uint64_t first = worker_memory_bytes(&one), second = worker_memory_bytes(&two);
    if (first == 0 || first > bytes) return 0;
    uint64_t step = second > first ? second - first : 1;
    uint64_t more = (bytes - first) / step;
    return more >= most ? most : 1 + (uint32_t)more > most ? most : 1 + (uint32_t)more;
}

braid_err worker_load(worker *w, checkpoint *from, braid_error *error) {
    uint64_t version = checkpoint_version(from);
    braid_err err = checkpoint_read_stage(from, &w->config.model, w->tensors, w->tensor_count, w->weights, w->moment1,
                                          w->moment2, error);
    if (err) return err;
    for (uint32_t i = 0; i < w->block_count; i++) w->versions[i] = version;
    w->loaded = true;
    w->adapter.stale = true;
    w->loaded_version = version;
    return BRAID_OK;
}

braid_err worker_load_base(worker *w, checkpoint *from, braid_error *error) {
    const stage_tensor *tensors = stage_tensors(w->stage);
    float *merged = w->adapter.merged;
    braid_err err = checkpoint_read_stage(from, &w->config.model, tensors, stage_tensor_count(w->stage), merged, NULL,
                                          NULL, error);
    if (err) return err;
    const adapter_tensor *a = adapter_tensors(w->adapter.parts);
    for (uint32_t i = 0; i < adapter_tensor_count(w->adapter.parts); i++) {
        const stage_tensor *t = &tensors[a[i].tensor];
        memcpy(w->adapter.base + t->offset, merged + t->offset, t->elements * sizeof *merged);
    }
    w->adapter.has_base = w->adapter.stale = true;
    return BRAID_OK;
}

void worker_refresh(worker *w) {
    if (!w->adapter.parts || !w->adapter.stale) return;
    BRAID_ASSERT(w->adapter.has_base);
    adapter_merge(w->adapter.parts, w->adapter.base, w->weights, false, w->adapter.merged);
    stage_bind(w->stage, w->adapter.merged);
    w->adapter.stale = false;
}

uint64_t worker_parameters(const worker *w) { return w->parameters; }

bool worker_text_changed(const worker *w) { return w->text_changed; }
uint32_t worker_blocks(const worker *w) { return w->block_count; }
stage *worker_stage(worker *w) { return w->stage; }
float *worker_weights(worker *w) { return w->weights; }

uint64_t worker_version(const worker *w) {
    uint64_t lowest = w->versions[0];
    for (uint32_t i = 1; i < w->block_count; i++)
        if (w->versions[i] < lowest) lowest = w->versions[i];
    return lowest;
}

const void *worker_read(const worker_call *call, blob_id blob, uint64_t bytes) {
    uint64_t got = 0;
    const void *data = blob == 0 ? NULL : call->blobs->read(call->blobs->context, blob, &got);
    if (data && got == bytes) return data;
    call->result->failed = true;
    return NULL;
}

void *worker_write(const worker_call *call, uint64_t bytes) {
    void *data = call->blobs->write(call->blobs->context, bytes, &call->result->out);
    if (!data) call->result->failed = true;
    return data;
}

bool worker_range(const worker_call *call) {
    uint32_t first = call->work->first, count = call->work->count, all = call->w->block_count;
    bool fine = count > 0 && first < all && count <= all - first;
    if (!fine) call->result->failed = true;
    return fine;
}

void worker_each(const worker_call *call, uint32_t count, tensor_task_fn task, void *context) {
    tensor_pool_run(call->w->pool, count, task, context);
}

braid_hash worker_root(const braid_hash *hashes, uint32_t count) {
    return sha256_of(hashes, (size_t)count * sizeof *hashes);
}

void worker_hash_pair(worker *w, size_t pair, const float *values) {
    const block *b = &w->blocks[2 * pair];
    braid_hash *out = &w->block_hash[2 * pair];
    if (2 * pair + 1 == w->block_count) {
        *out = sha256_of(values + b->offset, b->count * sizeof *values);
        return;
    }
    const void *const data[2] = {values + b[0].offset, values + b[1].offset};
    sha256_of_pair(data, (const size_t[2]){b[0].count * sizeof *values, b[1].count * sizeof *values}, out);
}

// Blobs that other peers sent may have any size.
static void worker_join(const worker_call *call) {
    const worker_blobs *blobs = call->blobs;
    const void *piece[WIRE_MAX_PIECES];
    uint64_t bytes[WIRE_MAX_PIECES], all = 0, at = 0;
    uint32_t pieces = call->work->inputs;
    BRAID_ASSERT(pieces <= WIRE_MAX_PIECES);
    for (uint32_t i = 0; i < pieces; i++) {
        piece[i] = blobs->read(blobs->context, call->work->input[i], &bytes[i]);
        if (piece[i] == NULL) call->result->failed = true;
        else all += bytes[i];
    }
    uint8_t *whole = call->result->failed || all == 0 ? NULL : worker_write(call, all);
    for (uint32_t i = 0; whole != NULL && i < pieces; i++) {
        memcpy(whole + at, piece[i], bytes[i]);
        at += bytes[i];
    }
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef void (*job_fn)(const worker_call *call);

static const job_fn jobs[JOB_KINDS] = {
    [JOB_FORWARD] = worker_forward,
    [JOB_LOSS] = worker_loss,
    [JOB_BACKWARD] = worker_backward,
    [JOB_WEIGHT] = worker_weight,
    [JOB_PACK] = worker_pack,
    [JOB_REDUCE] = worker_reduce,
    [JOB_RESULT_PUT] = worker_result_put,
    [JOB_RESULT_GET] = worker_result_get,
    [JOB_NORM] = worker_norm,
    [JOB_DECIDE] = worker_decide,
    [JOB_APPLY] = worker_apply,
    [JOB_STATE_ROOT] = worker_state_root,
    [JOB_STATE_GET] = worker_state_get,
    [JOB_STATE_PUT] = worker_state_put,
    [JOB_STATE_INIT] = worker_state_init,
    [JOB_STATE_KEEP] = worker_state_keep,
    [JOB_NAMES_GET] = worker_names_get,
    [JOB_NAMES_PUT] = worker_names_put,
    [JOB_LEAVES] = worker_leaves,
    [JOB_SUM_CLEAR] = worker_sum_clear,
    [JOB_JOIN] = worker_join,
};

void worker_run(worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    BRAID_ASSERT(work->kind > JOB_NONE && work->kind < JOB_KINDS && jobs[work->kind]);
    uint64_t start = now_ns();
    *result = (job_result){.id = work->id, .kind = work->kind};
    worker_call call = {.w = w, .work = work, .blobs = blobs, .result = result};
    jobs[work->kind](&call);
    if (result->out != 0) {
        uint64_t bytes = 0;
        const void *data = blobs->read(blobs->context, result->out, &bytes);
        result->hash64 = data ? digest64(data, (size_t)bytes) : 0;
    }
    result->cost_ns = now_ns() - start;
}
