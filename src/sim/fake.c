// Exact pseudo-tensors. A tensor is one tagged number. Forward passes, input gradients and weight
// gradients mix the numbers that they depend on; sums are integer sums; a state mixes every result
// that was applied to it. A wrong microbatch, stage, version or order, or a repeated contribution,
// gives other numbers, and mostly an error at once.
#include "base/bitset.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "sim/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_SEEDED_BLOCKS = 32, FAKE_MAX_BLOCKS = SIM_FAKE_BLOCKS, FAKE_TENSORS_PER_STAGE = 2 };
static const uint64_t FAKE_NOT_FINITE = UINT64_MAX;

typedef enum fake_tag { FAKE_Y = 1, FAKE_DX, FAKE_PART, FAKE_RESULT, FAKE_STATE, FAKE_NAMES } fake_tag;

typedef struct fake_model {
    sim_model base;
    sim_fake_config config;
} fake_model;

// One activation or gradient.
typedef struct fake_tensor {
    uint64_t tag, iteration, m, stage, value, seal;
} fake_tensor;

typedef struct fake_header {
    uint64_t tag, iteration, stage, first, count;
    uint64_t overflow;  // FAKE_PART only
    uint64_t round;     // FAKE_RESULT in fast mode: identifies the parts and their order
    message_set set;    // FAKE_PART only
} fake_header;

typedef struct fake_state {
    uint64_t version, weight, moment;
} fake_state;

typedef enum stash_phase { STASH_EMPTY, STASH_FORWARD, STASH_LOSS, STASH_BACKWARD } stash_phase;

typedef struct fake_stash {
    stash_phase phase;
    uint64_t iteration, x, dy, head;
    uint32_t m;
} fake_stash;

typedef struct fake_worker {
    sim_worker base;
    const fake_model *model;
    uint32_t blocks, capacity;
    fake_state state[FAKE_MAX_BLOCKS];
    int64_t sum[FAKE_MAX_BLOCKS];
    uint64_t sum_iteration;
    message_set sum_set;
    uint32_t overflows;  // overflowed microbatches in the sum
    uint64_t result[FAKE_MAX_BLOCKS], result_iteration[FAKE_MAX_BLOCKS];  // iteration + 1; 0: none
    uint64_t result_round[FAKE_MAX_BLOCKS];
    double norm2[FAKE_TENSORS_PER_STAGE];
    braid_hash own_name[FAKE_MAX_BLOCKS];  // hashes of the last JOB_STATE_ROOT
    uint64_t own_version;
    struct {
        bool known;
        uint64_t version;
        braid_hash name[FAKE_MAX_BLOCKS];
    } names[2];  // by version modulo 2
    fake_stash stash[];
} fake_worker;

static void __attribute__((format(printf, 2, 3))) fake_complain(fake_worker *w, const char *format, ...) {
    if (w->base.complaint[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->base.complaint, sizeof w->base.complaint, format, arguments);
    va_end(arguments);
}

static uint64_t mix3(uint64_t a, uint64_t b, uint64_t c) { return rng_seed(rng_seed(rng_mix(a), b), c); }

static uint64_t state_value(const fake_worker *w) {
    uint64_t value = w->base.stage;
    for (uint32_t b = 0; b < w->blocks; b++) value = mix3(value, w->state[b].weight, w->state[b].version);
    return value;
}

static bool percent(const fake_model *model, uint64_t what, uint64_t iteration, uint64_t m, uint32_t share) {
    return mix3(model->config.seed ^ what, iteration, m) % 100 < share;
}

static const fake_tensor *tensor_read(fake_worker *w, const job *work, const worker_blobs *blobs, fake_tag tag, uint16_t from) {
    uint64_t bytes;
    const fake_tensor *x = blobs->read(blobs->context, work->in, &bytes);
    if (!x || bytes != sizeof *x || x->seal != mix3(x->tag, x->iteration, x->value)) {
        fake_complain(w, "the input is not a tensor");
        return NULL;
    }
    if (x->tag != (uint64_t)tag || x->iteration != work->iteration || x->m != work->m || x->stage != from) {
        fake_complain(w, "the input is %s of t=%llu m=%llu stage %llu, wanted %s of t=%llu m=%u stage %u",
                      x->tag == FAKE_Y ? "y" : "dx", (unsigned long long)x->iteration, (unsigned long long)x->m,
                      (unsigned long long)x->stage, tag == FAKE_Y ? "y" : "dx", (unsigned long long)work->iteration, work->m, from);
        return NULL;
    }
    return x;
}

static void tensor_write(fake_worker *w, const job *work, const worker_blobs *blobs, fake_tag tag, uint64_t value, job_result *result) {
    fake_tensor *y = blobs->write(blobs->context, sizeof *y, &result->out);
    *y = (fake_tensor){(uint64_t)tag, work->iteration, work->m, w->base.stage, value, 0};
    y->seal = mix3(y->tag, y->iteration, y->value);
    result->hash64 = sha256_short(y, sizeof *y);
}

static fake_stash *stash_of(fake_worker *w, const job *work) {
    if (work->slot < w->capacity) return &w->stash[work->slot];
    fake_complain(w, "slot %u of %u", work->slot, w->capacity);
    return NULL;
}

static void versions_check(fake_worker *w, const job *work) {
    for (uint32_t b = 0; b < w->blocks; b++)
        if (w->state[b].version != work->iteration)
            fake_complain(w, "block %u is at version %llu, the job is of iteration %llu", b,
                          (unsigned long long)w->state[b].version, (unsigned long long)work->iteration);
}

static void run_forward(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    fake_stash *stash = stash_of(w, work);
    versions_check(w, work);
    uint64_t x = mix3(w->model->config.seed, work->iteration, work->m);
    if (w->base.stage > 0) {
        const fake_tensor *in = tensor_read(w, work, blobs, FAKE_Y, (uint16_t)(w->base.stage - 1));
        if (!in) return;
        x = in->value;
    }
    if (!stash) return;
    *stash = (fake_stash){.phase = STASH_FORWARD, .iteration = work->iteration, .m = work->m, .x = x};
    tensor_write(w, work, blobs, FAKE_Y, mix3(x, state_value(w), w->base.stage), result);
}

static bool stash_check(fake_worker *w, const fake_stash *stash, const job *work, stash_phase phase) {
    if (!stash) return false;
    if (stash->phase == phase && stash->iteration == work->iteration && stash->m == work->m) return true;
    fake_complain(w, "slot %u holds t=%llu m=%u in phase %d, wanted t=%llu m=%u in phase %d", work->slot,
                  (unsigned long long)stash->iteration, stash->m, (int)stash->phase, (unsigned long long)work->iteration, work->m, (int)phase);
    return false;
}

static void run_loss(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    fake_stash *stash = stash_of(w, work);
    const fake_tensor *in = tensor_read(w, work, blobs, FAKE_Y, (uint16_t)(w->model->base.stages - 1));
    versions_check(w, work);
    if (!in || !stash_check(w, stash, work, STASH_FORWARD)) return;
    stash->phase = STASH_LOSS;
    stash->head = in->value;
    uint64_t value = mix3(in->value, state_value(w), 77);
    result->tokens = 32 + (uint32_t)(mix3(5, work->iteration, work->m) % 8);
    result->finite = !percent(w->model, 11, work->iteration, work->m, w->model->config.void_percent);
    result->loss = result->finite ? (double)(value % 100000) / 700.0 : (double)NAN;
    if (work->m >= w->model->config.microbatches) return;  // held-out text has no gradient
    tensor_write(w, work, blobs, FAKE_DX, value, result);
    // the head's gradient has the number of a stage after the last one
    fake_tensor *dx = (fake_tensor *)(uintptr_t)blobs->read(blobs->context, result->out, &(uint64_t){0});
    dx->stage = w->model->base.stages;
    result->hash64 = sha256_short(dx, sizeof *dx);
}

static void run_backward(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    fake_stash *stash = stash_of(w, work);
    const fake_tensor *in = tensor_read(w, work, blobs, FAKE_DX, (uint16_t)(w->base.stage + 1));
    versions_check(w, work);
    if (!in || !stash_check(w, stash, work, w->base.stage == 0 ? STASH_LOSS : STASH_FORWARD)) return;
    stash->phase = STASH_BACKWARD;
    stash->dy = in->value;
    result->finite = w->base.stage != 0 || !percent(w->model, 12, work->iteration, work->m, w->model->config.overflow_percent);
    if (w->base.stage == 0) return;
    tensor_write(w, work, blobs, FAKE_DX, mix3(in->value, stash->x, state_value(w)), result);
}

static void run_weight(fake_worker *w, const job *work, job_result *result) {
    fake_stash *stash = stash_of(w, work);
    versions_check(w, work);
    if (!stash_check(w, stash, work, STASH_BACKWARD)) return;
    bool empty = bitset_count(w->sum_set.words, WIRE_SET_WORDS) == 0;
    if (empty) w->sum_iteration = work->iteration;
    if (w->sum_iteration != work->iteration)
        fake_complain(w, "the sum is of iteration %llu", (unsigned long long)w->sum_iteration);
    if (bitset_has(w->sum_set.words, work->m) != work->minus) fake_complain(w, "m=%u is %s", work->m, work->minus ? "not in the sum" : "in the sum already");
    if (work->minus) bitset_remove(w->sum_set.words, work->m);
    else bitset_add(w->sum_set.words, work->m);
    for (uint32_t b = 0; b < w->blocks; b++)
        w->sum[b] += (work->minus ? -1 : 1) * ((int64_t)mix3(stash->x ^ rng_mix(stash->head), stash->dy, mix3(b, work->m, w->base.stage)) >> 20);
    result->overflow = percent(w->model, 13 + w->base.stage, work->iteration, work->m, w->model->config.overflow_percent);
    if (result->overflow) w->overflows += work->minus ? UINT32_MAX : 1;
    stash->phase = STASH_EMPTY;
}

static bool range_check(fake_worker *w, const job *work) {
    if (work->count > 0 && work->first < w->blocks && work->count <= w->blocks - work->first) return true;
    fake_complain(w, "blocks [%u, +%u) of %u", work->first, work->count, w->blocks);
    return false;
}

// A blob of `count` numbers of 8 bytes, or states of 24, behind a header.
static void *range_write(fake_worker *w, const job *work, const worker_blobs *blobs, fake_tag tag, size_t each, job_result *result) {
    fake_header *header = blobs->write(blobs->context, sizeof *header + work->count * each, &result->out);
    *header = (fake_header){.tag = (uint64_t)tag, .iteration = work->iteration, .stage = w->base.stage, .first = work->first, .count = work->count};
    if (tag == FAKE_PART) {
        header->set = w->sum_set;
        header->overflow = w->overflows > 0;
    }
    return header + 1;
}

static void range_seal(job_result *result, const worker_blobs *blobs) {
    uint64_t bytes;
    const void *data = blobs->read(blobs->context, result->out, &bytes);
    result->hash64 = sha256_short(data, bytes);
}

static const fake_header *range_read(fake_worker *w, const job *work, const worker_blobs *blobs, blob_id blob, fake_tag tag, size_t each) {
    uint64_t bytes;
    const fake_header *header = blobs->read(blobs->context, blob, &bytes);
    if (!header || bytes != sizeof *header + work->count * each || header->tag != (uint64_t)tag || header->stage != w->base.stage ||
        header->first != work->first || header->count != work->count) {
        fake_complain(w, "the blob is not what blocks [%u, +%u) of tag %d need", work->first, work->count, (int)tag);
        return NULL;
    }
    if (tag < FAKE_STATE && header->iteration != work->iteration) {
        fake_complain(w, "the blob is of iteration %llu", (unsigned long long)header->iteration);
        return NULL;
    }
    return header;
}

static void run_pack(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    if (!range_check(w, work)) return;
    int64_t *sum = range_write(w, work, blobs, FAKE_PART, sizeof *sum, result);
    memcpy(sum, w->sum + work->first, work->count * sizeof *sum);
    range_seal(result, blobs);
}

static void set_unite(fake_worker *w, message_set *all, const message_set *set) {
    for (uint32_t i = 0; i < WIRE_SET_WORDS; i++) {
        if (all->words[i] & set->words[i]) fake_complain(w, "two inputs of the reduction share a microbatch");
        all->words[i] |= set->words[i];
    }
}

static void run_reduce(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    if (!range_check(w, work) || work->tokens == 0) {
        fake_complain(w, "reduction over no tokens");
        return;
    }
    int64_t total[FAKE_MAX_BLOCKS] = {0};
    message_set all = {{0}};
    bool overflow = false;
    uint64_t round = work->iteration;
    for (uint32_t i = 0; i < work->inputs; i++) {
        const int64_t *sum = w->sum + work->first;
        const message_set *set = &w->sum_set;
        if (work->input[i] != JOB_OWN_SUM) {
            const fake_header *header = range_read(w, work, blobs, work->input[i], FAKE_PART, sizeof *sum);
            if (!header) return;
            sum = (const int64_t *)(header + 1);
            set = &header->set;
            overflow = overflow || header->overflow;
        } else {
            overflow = overflow || w->overflows > 0;
        }
        set_unite(w, &all, set);
        round = rng_seed(round, sha256_short(set, sizeof *set));
        for (uint32_t b = 0; b < work->count; b++) total[b] += sum[b];
    }
    w->base.reduced = all;
    w->base.reduced_known = true;
    uint64_t *out = range_write(w, work, blobs, FAKE_RESULT, sizeof *out, result);
    ((fake_header *)(void *)out)[-1].round = round;
    for (uint32_t b = 0; b < work->count; b++) {
        w->result_round[work->first + b] = round;
        out[b] = overflow ? FAKE_NOT_FINITE : mix3((uint64_t)total[b], work->tokens, work->iteration);
        w->result[work->first + b] = out[b];
        w->result_iteration[work->first + b] = work->iteration + 1;
    }
    result->hash = sha256_of(out, work->count * sizeof *out);
    range_seal(result, blobs);
}

static void run_result_put(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    const fake_header *header = range_check(w, work) ? range_read(w, work, blobs, work->in, FAKE_RESULT, sizeof(uint64_t)) : NULL;
    result->failed = !header;
    if (!header) return;
    memcpy(w->result + work->first, header + 1, work->count * sizeof *w->result);
    for (uint32_t b = 0; b < work->count; b++) {
        w->result_iteration[work->first + b] = work->iteration + 1;
        w->result_round[work->first + b] = header->round;
    }
    result->hash = sha256_of(header + 1, work->count * sizeof *w->result);
}

static void results_check(fake_worker *w, uint64_t iteration, uint32_t first, uint32_t count) {
    for (uint32_t b = first; b < first + count; b++)
        if (w->result_iteration[b] != iteration + 1)
            fake_complain(w, "result block %u is of iteration %lld", b, (long long)w->result_iteration[b] - 1);
}

// True sums in fast mode depend on the order of the parts.
static bool of_one_attempt(const fake_worker *w, uint32_t first, uint32_t count) {
    for (uint32_t b = first + 1; w->model->config.fast && b < first + count; b++)
        if (w->result_round[b] != w->result_round[first]) return false;
    return true;
}

static void attempt_check(fake_worker *w, uint32_t first, uint32_t count) {
    if (!of_one_attempt(w, first, count)) fake_complain(w, "results of blocks from %u on are of more than one round", first);
}

static void run_result_get(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    if (!range_check(w, work)) return;
    // results of the requested version; the peer itself may be one iteration ahead
    results_check(w, work->version, work->first, work->count);
    attempt_check(w, work->first, work->count);
    uint64_t *out = range_write(w, work, blobs, FAKE_RESULT, sizeof *out, result);
    fake_header *header = (fake_header *)(void *)out - 1;
    header->iteration = work->version;
    header->round = w->result_round[work->first];
    memcpy(out, w->result + work->first, work->count * sizeof *out);
    result->hash = sha256_of(out, work->count * sizeof *out);
    range_seal(result, blobs);
}

// Like true sums: a mixture of results from several attempts has another root.
static braid_hash results_root(const fake_worker *w) {
    const size_t bytes = w->blocks * sizeof(uint64_t);
    const braid_hash parts[2] = {sha256_of(w->result, bytes), sha256_of(w->result_round, bytes)};
    return of_one_attempt(w, 0, w->blocks) ? parts[0] : sha256_of(parts, sizeof parts);
}

static void run_norm(fake_worker *w, const job *work, job_result *result) {
    results_check(w, work->iteration, 0, w->blocks);
    memset(w->norm2, 0, sizeof w->norm2);
    for (uint32_t b = 0; b < w->blocks; b++) {
        if (w->result[b] == FAKE_NOT_FINITE) result->overflow = true;
        w->norm2[b * FAKE_TENSORS_PER_STAGE / w->blocks] += (double)(w->result[b] % 1000003) / 4096.0;
    }
    result->hash = results_root(w);
    result->norms = FAKE_TENSORS_PER_STAGE;
    result->norm2 = w->norm2;
}

static void run_decide(const job *work, job_result *result) {
    double step = (double)(work->iteration + 1);
    result->skip = !isfinite(work->norm2) || work->tokens == 0;
    result->clip = work->norm2 > 1.0 ? (float)(1.0 / sqrt(work->norm2)) : 1.0f;
    result->learning_rate = (float)(0.01 * step);
    result->bias1 = (float)(1.0 - pow(0.9, step));
    result->bias2 = (float)(1.0 - pow(0.95, step));
}

static uint64_t float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static void run_apply(fake_worker *w, const job *work) {
    if (!work->skip) attempt_check(w, 0, w->blocks);
    for (uint32_t b = 0; b < w->blocks; b++) {
        fake_state *state = &w->state[b];
        if (state->version != work->iteration) continue;
        state->version++;
        if (work->skip) continue;
        results_check(w, work->iteration, b, 1);
        uint64_t bits = mix3(float_bits(work->clip) ^ float_bits(work->bias1) << 32, float_bits(work->learning_rate), float_bits(work->bias2));
        state->weight = mix3(state->weight, w->result[b], bits);
        state->moment = mix3(state->moment, w->result[b], state->weight);
    }
}

static void run_state_get(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    if (!range_check(w, work)) return;
    fake_state *out = range_write(w, work, blobs, FAKE_STATE, sizeof *out, result);
    memcpy(out, w->state + work->first, work->count * sizeof *out);
    result->version = out->version;
    range_seal(result, blobs);
}

static braid_hash name_of(const fake_state *state) {
    const uint64_t parts[2] = {state->weight, state->moment};
    return sha256_of(parts, sizeof parts);
}

static void run_state_root(fake_worker *w, job_result *result) {
    for (uint32_t b = 0; b < w->blocks; b++) w->own_name[b] = name_of(&w->state[b]);
    w->own_version = w->state[0].version;
    result->hash = sha256_of(w->own_name, w->blocks * sizeof *w->own_name);
}

static void run_names_get(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    if (w->own_version != work->version) fake_complain(w, "names of another version than the last root's");
    const job all = {.iteration = work->iteration, .count = w->blocks};
    memcpy(range_write(w, &all, blobs, FAKE_NAMES, sizeof *w->own_name, result), w->own_name, w->blocks * sizeof *w->own_name);
    range_seal(result, blobs);
}

static void run_names_put(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    const job all = {.iteration = work->iteration, .in = work->in, .count = w->blocks};
    const fake_header *header = range_read(w, &all, blobs, work->in, FAKE_NAMES, sizeof *w->own_name);
    result->failed = !header;
    if (!header) return;
    braid_hash *name = w->names[work->version % 2].name;
    memcpy(name, header + 1, w->blocks * sizeof *name);
    w->names[work->version % 2].version = work->version;
    w->names[work->version % 2].known = true;
    result->hash = sha256_of(name, w->blocks * sizeof *name);
}

static const braid_hash *names_at(const fake_worker *w, uint64_t version) {
    return w->names[version % 2].known && w->names[version % 2].version == version ? w->names[version % 2].name : NULL;
}

static bool all_named(const fake_worker *w, const job *work, const fake_state *in) {
    const braid_hash *name = names_at(w, work->version);
    for (uint32_t b = 0; b < work->count; b++) {
        braid_hash hash = name_of(&in[b]);
        if (!name || in[b].version != work->version || !hash_equal(&hash, &name[work->first + b])) return false;
    }
    return true;
}

static void run_state_keep(fake_worker *w, const job *work, job_result *result) {
    const braid_hash *name = names_at(w, work->version);
    result->version = work->version;
    if (!range_check(w, work)) return;
    for (uint32_t b = 0; name && b < work->count; b++) {
        braid_hash hash = name_of(&w->state[work->first + b]);
        if (!hash_equal(&hash, &name[work->first + b])) continue;
        w->state[work->first + b].version = work->version;
        result->hash64 |= (uint64_t)1 << b;
    }
}

static void run_state_put(fake_worker *w, const job *work, const worker_blobs *blobs, job_result *result) {
    const fake_header *header = range_check(w, work) ? range_read(w, work, blobs, work->in, FAKE_STATE, sizeof(fake_state)) : NULL;
    uint64_t bytes;
    const void *data = blobs->read(blobs->context, work->in, &bytes);
    result->failed = !header || (work->expected != 0 && sha256_short(data, bytes) != work->expected);
    if (!result->failed && work->named) result->failed = !all_named(w, work, (const fake_state *)(header + 1));
    if (result->failed) return;
    memcpy(w->state + work->first, header + 1, work->count * sizeof *w->state);
    result->version = w->state[work->first].version;
    for (uint32_t b = 0; b < work->count; b++)
        if (w->state[work->first + b].version != result->version) fake_complain(w, "a chunk with blocks of two versions");
}

static void run_state_init(fake_worker *w, const job *work, job_result *result) {
    for (uint32_t b = 0; b < w->blocks; b++)
        w->state[b] = (fake_state){work->version, mix3(w->model->config.seed, w->base.stage, b), 0};
    result->version = work->version;
}

static void run_leaves(fake_worker *w, const worker_blobs *blobs, job_result *result) {
    braid_hash *leaf = blobs->write(blobs->context, w->blocks * sizeof *leaf, &result->out);
    for (uint32_t b = 0; b < w->blocks; b++) leaf[b] = sha256_of(&w->state[b].weight, sizeof w->state[b].weight);
    range_seal(result, blobs);
}

static void run_join(const job *work, const worker_blobs *blobs, job_result *result) {
    uint64_t bytes, all = 0, at = 0;
    for (uint32_t i = 0; i < work->inputs; i++) {
        blobs->read(blobs->context, work->input[i], &bytes);
        all += bytes;
    }
    uint8_t *whole = blobs->write(blobs->context, all, &result->out);
    for (uint32_t i = 0; i < work->inputs; i++, at += bytes) {
        const void *piece = blobs->read(blobs->context, work->input[i], &bytes);
        memcpy(whole + at, piece, bytes);
    }
    range_seal(result, blobs);
}

static void run_sum_clear(fake_worker *w) {
    memset(w->sum, 0, sizeof w->sum);
    w->sum_set = (message_set){{0}};
    w->overflows = 0;
}

static void fake_run(sim_worker *base, const job *work, const worker_blobs *blobs, job_result *result) {
    fake_worker *w = (fake_worker *)base;
    *result = (job_result){.id = work->id, .kind = work->kind};
    switch (work->kind) {
    case JOB_FORWARD: run_forward(w, work, blobs, result); break;
    case JOB_LOSS: run_loss(w, work, blobs, result); break;
    case JOB_BACKWARD: run_backward(w, work, blobs, result); break;
    case JOB_WEIGHT: run_weight(w, work, result); break;
    case JOB_PACK: run_pack(w, work, blobs, result); break;
    case JOB_REDUCE: run_reduce(w, work, blobs, result); break;
    case JOB_RESULT_PUT: run_result_put(w, work, blobs, result); break;
    case JOB_RESULT_GET: run_result_get(w, work, blobs, result); break;
    case JOB_NORM: run_norm(w, work, result); break;
    case JOB_DECIDE: run_decide(work, result); break;
    case JOB_APPLY: run_apply(w, work); break;
    case JOB_STATE_ROOT: run_state_root(w, result); break;
    case JOB_STATE_GET: run_state_get(w, work, blobs, result); break;
    case JOB_STATE_PUT: run_state_put(w, work, blobs, result); break;
    case JOB_STATE_KEEP: run_state_keep(w, work, result); break;
    case JOB_NAMES_GET: run_names_get(w, work, blobs, result); break;
    case JOB_NAMES_PUT: run_names_put(w, work, blobs, result); break;
    case JOB_STATE_INIT: run_state_init(w, work, result); break;
    case JOB_LEAVES: run_leaves(w, blobs, result); break;
    case JOB_SUM_CLEAR: run_sum_clear(w); break;
    case JOB_JOIN: run_join(work, blobs, result); break;
    default: fake_complain(w, "job %d is not a worker's", (int)work->kind);
    }
}

static void fake_free(sim_worker *base) { free(base); }

static sim_worker *fake_open(const sim_model *model, uint16_t index, uint32_t capacity) {
    fake_worker *w = calloc(1, sizeof *w + capacity * sizeof *w->stash);
    BRAID_ASSERT(w && index < model->stages);
    w->base = (sim_worker){.run = fake_run, .free = fake_free, .stage = index};
    w->model = (const fake_model *)model;
    w->blocks = model->blocks[index];
    w->capacity = capacity;
    for (uint32_t b = 0; b < w->blocks; b++) w->state[b].version = UINT64_MAX;
    return &w->base;
}

static void fake_model_free(sim_model *model) {
    free(model->tensor_stage);
    free(model);
}

sim_model *sim_fake_new(const sim_fake_config *config) {
    fake_model *model = calloc(1, sizeof *model);
    BRAID_ASSERT(model && config->stages >= 1);
    model->config = *config;
    model->base = (sim_model){.stages = config->stages, .activation_bytes = sizeof(fake_tensor), .reproducible = !config->fast,
                              .open = fake_open, .free = fake_model_free};
    model->base.model_tensors = (uint32_t)config->stages * FAKE_TENSORS_PER_STAGE;
    model->base.tensor_stage = calloc(model->base.model_tensors, sizeof(uint16_t));
    BRAID_ALLOCATED(model->base.tensor_stage, model->base.model_tensors * sizeof(uint16_t));
    for (uint16_t s = 0; s < config->stages; s++) {
        model->base.blocks[s] = config->blocks[s] ? config->blocks[s] : 2 + (uint32_t)(mix3(config->seed, 3, s) % (FAKE_SEEDED_BLOCKS - 1));
        BRAID_ASSERT(model->base.blocks[s] <= FAKE_MAX_BLOCKS);
        model->base.tensors[s] = FAKE_TENSORS_PER_STAGE;
    }
    // the canonical order begins and ends with stage 0, as embedding and head do
    for (uint32_t i = 0; i + 2 < model->base.model_tensors; i++) model->base.tensor_stage[i + 1] = (uint16_t)(i / 2 + 1);
    return &model->base;
}
