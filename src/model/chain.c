// The steps of a block in sequence. With enough sequences for all threads, each thread runs all
// steps for one sequence, some rows at a time, so that a step reads from the cache what the
// previous one wrote. Otherwise all threads share each step before the next one begins. The bits
// are the same.
#include "base/err.h"
#include "model/stage_inner.h"
#include "tensor/sizes.h"

enum {
    SEQUENCES_PER_THREAD = 4,  // with fewer, threads would wait long for the last sequence
    NORM_ROWS = 32,            // rows of a sequence that share one partial sum of a norm's weight gradients
};

size_t chain_norm_pieces(const stage_shape *shape) { return shape->sequences * size_pieces(shape->tokens, NORM_ROWS); }

block_step *chain_add(block_chain *c, step_kind kind) {
    BRAID_ASSERT(c->steps < CHAIN_MOST);
    block_step *step = &c->step[c->steps++];
    *step = (block_step){.kind = kind};
    return step;
}

static void norm_piece(const stage *s, const block_step *step, size_t piece) {
    size_t dim = s->config.dim, tokens = s->shape.tokens, per_sequence = s->norms.pieces / s->shape.sequences;
    size_t from = piece % per_sequence * NORM_ROWS;
    tensor_norm_gradient g = step->gradient;
    g.norm = &step->norm;
    g.d_weight += piece * dim;
    if (g.d_bias) g.d_bias += piece * dim;
    tensor_norm_gradient_rows(&g, piece / per_sequence * tokens + from, size_least(NORM_ROWS, tokens - from));
}

// --- each step on all threads

typedef struct norm_job {
    const stage *s;
    const block_step *step;
} norm_job;

static void norm_task(void *context, size_t piece) {
    const norm_job *job = context;
    norm_piece(job->s, job->step, piece);
}

static void run_step(const stage *s, const block_step *step) {
    norm_job job = {s, step};
    switch (step->kind) {
    case STEP_PRODUCT: tensor_gemm_run_rows(s->pool, &step->product, &step->rows); break;
    case STEP_ATTENTION: tensor_attention_forward(s->pool, &step->attention, step->qkv, step->out); break;
    case STEP_ATTENTION_GRADIENT:
        tensor_attention_input_gradient(s->pool, &step->attention, step->qkv, step->out, step->d_out);
        break;
    case STEP_NORM_GRADIENT: tensor_pool_run(s->pool, s->norms.pieces, norm_task, &job); break;
    }
}

// --- all steps on one thread

static bool needs_sequence(const block_step *step) {
    return step->kind == STEP_ATTENTION || step->kind == STEP_ATTENTION_GRADIENT;
}

static void attend(const block_step *step, size_t sequence) {
    if (step->kind == STEP_ATTENTION)
        tensor_attention_forward_one(&step->attention, sequence, step->qkv, step->out);
    else
        tensor_attention_input_gradient_one(&step->attention, sequence, step->qkv, step->out, step->d_out);
}

// Runs a step on rows [from, from + count) of a sequence; `from` is a multiple of NORM_ROWS.
static void step_rows(const stage *s, const block_step *step, size_t sequence, size_t from, size_t count) {
    size_t piece = sequence * (s->norms.pieces / s->shape.sequences) + from / NORM_ROWS;
    if (step->kind == STEP_PRODUCT)
        tensor_gemm_some_rows(&step->product, &step->rows, sequence * s->shape.tokens + from, count);
    for (size_t done = 0; step->kind == STEP_NORM_GRADIENT && done < count; done += NORM_ROWS)
        norm_piece(s, step, piece++);
}

static void sequence_task(void *context, size_t sequence) {
    const block_chain *c = context;
    size_t tokens = c->s->shape.tokens, at_once = tensor_gemm_group(c->s->shape.fastest);
    for (uint32_t i = 0, end; i < c->steps; i = end) {
        end = i + 1;
        if (needs_sequence(&c->step[i])) {
            attend(&c->step[i], sequence);
            continue;
        }
        while (end < c->steps && !needs_sequence(&c->step[end])) end++;
        for (size_t from = 0; from < tokens; from += at_once)
            for (uint32_t k = i; k < end; k++)
                step_rows(c->s, &c->step[k], sequence, from, size_least(at_once, tokens - from));
    }
}

// Assigns adjacent memory to the packed weights of all steps; false when one of them is too large
// to be packed.
static bool place_packed(block_chain *c) {
    float *at = c->s->packed;
    for (uint32_t i = 0; i < c->steps; i++) {
        block_step *step = &c->step[i];
        if (step->kind != STEP_PRODUCT) continue;
        size_t floats = tensor_gemm_packed(step->product.n, step->product.k);
        if (floats == 0) return false;
        step->rows.packed = at;
        at += floats;
    }
    return true;
}

static bool by_sequence(const stage *s) {
    unsigned threads = tensor_pool_threads(s->pool);
    return threads == 1 || s->shape.sequences >= SEQUENCES_PER_THREAD * threads;
}

void chain_run(block_chain *c) {
    const stage *s = c->s;
    if (by_sequence(s) && place_packed(c)) {
        for (uint32_t i = 0; i < c->steps; i++)
            if (c->step[i].kind == STEP_PRODUCT) tensor_gemm_pack(s->pool, &c->step[i].product, &c->step[i].rows);
        tensor_pool_run(s->pool, s->shape.sequences, sequence_task, c);
        return;
    }
    for (uint32_t i = 0; i < c->steps; i++) {
        c->step[i].rows.packed = s->packed;
        run_step(s, &c->step[i]);
    }
}
