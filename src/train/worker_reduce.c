// The jobs between the last weight gradient and FINAL: packing, reduction, results, norm, decision.
#include "train/worker_inside.h"
#include "base/sha256.h"
#include "train/byte_sum.h"
#include "train/optimizer.h"
#include "train/sum.h"

#include <math.h>
#include <string.h>

_Static_assert((int)WIRE_MAX_STAGE_MEMBERS <= (int)SUM_MAX_PARTS, "the sums of all members of a stage are added at once");

typedef struct reduction {
    const worker_call *call;
    uint8_t *out;
    const uint8_t *bytes[WIRE_MAX_STAGE_MEMBERS];  // per input; NULL: the own sum
    uint32_t from;  // range of the wanted blocks that is being reduced
} reduction;

static bool block_overflowed(const worker *w, uint32_t b) {
    return atomic_load_explicit(&w->lost[b], memory_order_relaxed) > 0;
}

// Offsets of the blocks of input `p`, with one more entry for the end.
static size_t *starts_of(const worker *w, uint32_t p) { return w->part_at + (size_t)p * (w->block_count + 1); }

// Bytes of a block's sum or result as other members get it, where that is not packed.
static size_t plain_bytes(const worker *w, uint32_t b) {
    size_t count = w->blocks[b].count;
    return worker_has_byte_sums(w) ? byte_sum_bytes(count) : count * sizeof(float);
}

static size_t results_bytes(const worker *w, const job *work) {
    size_t bytes = 0;
    for (uint32_t b = work->first; b < work->first + work->count; b++) bytes += plain_bytes(w, b);
    return bytes;
}

static void measure_block(void *context, size_t i) {
    reduction *r = context;
    worker *w = r->call->w;
    uint32_t b = r->call->work->first + (uint32_t)i;
    const block *range = &w->blocks[b];
    bool plain = !w->config.recipe.reproducible;
    starts_of(w, 0)[i + 1] = plain
                                 ? plain_bytes(w, b)
                                 : sum_packed_bytes(w->fixed_sum + range->offset, range->count, block_overflowed(w, b));
}

static void pack_block(void *context, size_t i) {
    reduction *r = context;
    worker *w = r->call->w;
    uint32_t b = r->call->work->first + (uint32_t)i;
    const block *range = &w->blocks[b];
    uint8_t *out = r->out + starts_of(w, 0)[i];
    if (w->config.recipe.reproducible)
        sum_pack(w->fixed_sum + range->offset, range->count, block_overflowed(w, b), out);
    else if (worker_has_byte_sums(w))
        byte_sum_encode(w->plain_sum + range->offset, range->count, out);
    else
        memcpy(out, w->plain_sum + range->offset, range->count * sizeof(float));
}

void worker_pack(const worker_call *call) {
    worker *w = call->w;
    if (!worker_range(call)) return;
    reduction r = {.call = call};
    size_t *start = starts_of(w, 0);
    uint32_t count = call->work->count;
    start[0] = 0;
    worker_each(call, count, measure_block, &r);
    for (uint32_t i = 0; i < count; i++) start[i + 1] += start[i];
    r.out = worker_write(call, start[count]);
    if (r.out) worker_each(call, count, pack_block, &r);
}

// Finds the blocks in a peer's packed bytes; false unless they fill the blob exactly.
static bool find_packed(const worker *w, const job *work, const uint8_t *bytes, size_t count, size_t *start) {
    start[0] = 0;
    for (uint32_t i = 0; i < work->count; i++) {
        size_t length = sum_packed_length(bytes + start[i], count - start[i], w->blocks[work->first + i].count);
        if (length == 0) return false;
        start[i + 1] = start[i] + length;
    }
    return start[work->count] == count;
}

static bool find_plain(const worker *w, const job *work, size_t count, size_t *start) {
    start[0] = 0;
    for (uint32_t i = 0; i < work->count; i++)
        start[i + 1] = start[i] + plain_bytes(w, work->first + i);
    return start[work->count] == count;
}

static bool open_inputs(reduction *r) {
    const worker_call *call = r->call;
    worker *w = call->w;
    for (uint32_t p = 0; p < call->work->inputs; p++) {
        if (call->work->input[p] == JOB_OWN_SUM) continue;
        uint64_t count = 0;
        r->bytes[p] = call->blobs->read(call->blobs->context, call->work->input[p], &count);
        if (!r->bytes[p]) return false;
        bool sound = w->config.recipe.reproducible
                         ? find_packed(w, call->work, r->bytes[p], (size_t)count, starts_of(w, p))
                         : find_plain(w, call->work, (size_t)count, starts_of(w, p));
        if (!sound) return false;
    }
    return true;
}

static sum_part part_of(const reduction *r, uint32_t p, uint32_t i) {
    worker *w = r->call->w;
    uint32_t b = r->call->work->first + i;
    size_t offset = w->blocks[b].offset;
    bool fixed = w->config.recipe.reproducible;
    if (!r->bytes[p]) {
        if (!fixed) return (sum_part){.plain = (const uint8_t *)(w->plain_sum + offset)};
        return (sum_part){.own = w->fixed_sum + offset, .overflow = block_overflowed(w, b)};
    }
    const uint8_t *bytes = r->bytes[p] + starts_of(w, p)[i];
    return fixed || worker_has_byte_sums(w) ? (sum_part){.packed = bytes} : (sum_part){.plain = bytes};
}

// Sums the squares of results while they are in the cache.
static void measure_result(worker *w, uint32_t b) {
    w->block_norm2[b] = sum_norm2(w->results + w->blocks[b].offset, w->blocks[b].count);
}

static void reduce_block(void *context, size_t index) {
    reduction *r = context;
    worker *w = r->call->w;
    size_t i = r->from + index;
    const block *range = &w->blocks[r->call->work->first + i];
    sum_part parts[WIRE_MAX_STAGE_MEMBERS];
    uint32_t count = r->call->work->inputs;
    for (uint32_t p = 0; p < count; p++) parts[p] = part_of(r, p, (uint32_t)i);
    uint32_t b = r->call->work->first + (uint32_t)i;
    if (worker_has_byte_sums(w)) {
        byte_sum_reduce(parts, count, range->count, r->call->work->tokens, w->results + range->offset);
    } else {
        sum_reduce(parts, count, range->count, w->config.recipe.reproducible, r->call->work->tokens,
                   w->results + range->offset);
    }
    measure_result(w, b);
}

// Results of 4 bytes overwrite sums of 8 bytes from the front. Each pass reduces as many blocks as
// fit over sums that are already reduced.
static void reduce_in_place(reduction *r) {
    worker *w = r->call->w;
    uint32_t count = w->block_count;
    BRAID_ASSERT(r->call->work->count == count);
    for (uint32_t end; r->from < count; r->from = end) {
        size_t reduced = w->blocks[r->from].offset * (sizeof *w->fixed_sum / sizeof *w->results);
        for (end = r->from + 1; end < count && w->blocks[end].offset + w->blocks[end].count <= reduced; end++) {}
        worker_each(r->call, end - r->from, reduce_block, r);
    }
}

static void get_results(const worker_call *call) {
    worker *w = call->w;
    const job *work = call->work;
    uint8_t *out = worker_write(call, results_bytes(w, work));
    if (!out) return;
    for (uint32_t i = 0; i < work->count; i++) {
        const block *range = &w->blocks[work->first + i];
        if (worker_has_byte_sums(w)) byte_sum_encode(w->results + range->offset, range->count, out);
        else memcpy(out, w->results + range->offset, range->count * sizeof(float));
        out += plain_bytes(w, work->first + i);
    }
}

void worker_reduce(const worker_call *call) {
    reduction r = {.call = call};
    if (!worker_range(call)) return;
    if (call->work->inputs == 0 || call->work->inputs > WIRE_MAX_STAGE_MEMBERS || !open_inputs(&r)) {
        call->result->failed = true;
        return;
    }
    if (call->w->config.alone && call->w->fixed_sum)
        reduce_in_place(&r);
    else
        worker_each(call, call->work->count, reduce_block, &r);
}

void worker_result_get(const worker_call *call) {
    if (worker_range(call)) get_results(call);
}

void worker_result_put(const worker_call *call) {
    worker *w = call->w;
    const job *work = call->work;
    if (!worker_range(call)) return;
    const uint8_t *in = worker_read(call, work->in, results_bytes(w, work));
    if (!in) return;
    for (uint32_t i = 0; i < work->count; i++) {
        const block *range = &w->blocks[work->first + i];
        if (worker_has_byte_sums(w)) byte_sum_decode(in, range->count, w->results + range->offset);
        else memcpy(w->results + range->offset, in, range->count * sizeof(float));
        measure_result(w, work->first + i);
        in += plain_bytes(w, work->first + i);
    }
}

// A quarter of the bytes of the values, which are the same for all members exactly when these are.
static void hash_codes(worker *w, size_t pair) {
    enum { PIECE = 64 * BYTE_SUM_GROUP };
    uint8_t codes[2][PIECE + PIECE / BYTE_SUM_GROUP];
    const void *const data[2] = {codes[0], codes[1]};
    const block *b = &w->blocks[2 * pair];
    size_t many = 2 * pair + 1 == w->block_count ? 1 : 2;
    sha256 hash[2];
    for (size_t i = 0; i < 2; i++) sha256_init(&hash[i]);
    for (size_t at = 0; at < BLOCK_ELEMENTS; at += PIECE) {
        size_t bytes[2] = {0};
        for (size_t i = 0; i < many; i++) {
            if (at >= b[i].count) continue;
            size_t count = b[i].count - at < PIECE ? b[i].count - at : PIECE;
            byte_sum_encode(w->results + b[i].offset + at, count, codes[i]);
            bytes[i] = byte_sum_bytes(count);
        }
        sha256_update_pair(hash, data, bytes);
    }
    for (size_t i = 0; i < many; i++) w->block_hash[2 * pair + i] = sha256_final(&hash[i]);
}

static void hash_result(void *context, size_t pair) {
    worker *w = context;
    if (worker_has_byte_sums(w)) hash_codes(w, pair);
    else worker_hash_pair(w, pair, w->results);
}

void worker_norm(const worker_call *call) {
    worker *w = call->w;
    if (!w->config.alone) worker_each(call, (w->block_count + 1) / 2, hash_result, w);
    memset(w->tensor_norm2, 0, w->tensor_count * sizeof *w->tensor_norm2);
    for (uint32_t b = 0; b < w->block_count; b++) {
        w->tensor_norm2[w->blocks[b].tensor] += w->block_norm2[b];
        if (!isfinite(w->block_norm2[b])) call->result->overflow = true;
    }
    if (!w->config.alone) call->result->hash = worker_root(w->block_hash, w->block_count);
    call->result->norms = w->tensor_count;
    call->result->norm2 = w->tensor_norm2;
}

void worker_decide(const worker_call *call) {
    const job *work = call->work;
    train_step step = train_decide(&call->w->config.recipe, work->iteration, work->norm2, work->tokens);
    call->result->clip = step.clip;
    call->result->learning_rate = step.learning_rate;
    call->result->bias1 = step.bias1;
    call->result->bias2 = step.bias2;
    call->result->skip = step.skip;
}
