#include "eval/likelihood.h"

#include "infer/sampler.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_ROWS = 64 };  // rows that have their logits in memory together

typedef struct row {
    const float *x;
    uint32_t target, part;
} row;

struct likelihood {
    engine *engine;
    float *x;       // [rows, dim] of a call
    float *block;   // [BLOCK_ROWS, dim]
    float *logits;  // [BLOCK_ROWS, vocab]
    double logprobs[BLOCK_ROWS];
    row *rows;
    engine_part *reads;
    size_t x_capacity, row_capacity, part_capacity;
};

braid_err likelihood_new(engine *e, likelihood **out, braid_error *error) {
    const model_config *c = engine_config(e);
    likelihood *l = calloc(1, sizeof *l);
    *out = l;
    if (l) {
        l->engine = e;
        l->block = malloc(BLOCK_ROWS * (size_t)c->dim * sizeof *l->block);
        l->logits = malloc(BLOCK_ROWS * (size_t)c->vocab * sizeof *l->logits);
    }
    if (l && l->block && l->logits) return BRAID_OK;
    likelihood_free(l);
    *out = NULL;
    return braid_fail(error, BRAID_MEMORY, "no memory for the logits of %d tokens", BLOCK_ROWS);
}

void likelihood_free(likelihood *l) {
    if (!l) return;
    free(l->x);
    free(l->block);
    free(l->logits);
    free(l->rows);
    free(l->reads);
    free(l);
}

static bool reserve(void **at, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return true;
    void *more = realloc(*at, count * size);
    if (!more) return false;
    *at = more;
    *capacity = count;
    return true;
}

static bool reserve_all(likelihood *l, size_t parts, size_t read, size_t scored) {
    size_t dim = engine_config(l->engine)->dim;
    return reserve((void **)&l->x, &l->x_capacity, read, dim * sizeof *l->x) &&
           reserve((void **)&l->rows, &l->row_capacity, scored + 1, sizeof *l->rows) &&
           reserve((void **)&l->reads, &l->part_capacity, parts, sizeof *l->reads);
}

typedef struct block_job {
    likelihood *l;
    const row *rows;
    uint32_t vocab;
} block_job;

static void take_logprob(void *context, size_t i) {
    const block_job *j = context;
    j->l->logprobs[i] = (double)sampler_logprob(j->l->logits + i * j->vocab, j->vocab, j->rows[i].target);
}

static braid_err score_block(likelihood *l, likelihood_part *parts, const row *rows, size_t count, braid_error *error) {
    const model_config *c = engine_config(l->engine);
    for (size_t i = 0; i < count; i++) memcpy(l->block + i * c->dim, rows[i].x, c->dim * sizeof *l->block);
    braid_err err = engine_logits(l->engine, l->block, count, l->logits, error);
    if (err) return err;
    block_job job = {l, rows, c->vocab};
    tensor_pool_run(engine_pool(l->engine), count, take_logprob, &job);
    for (size_t i = 0; i < count; i++) parts[rows[i].part].sum += l->logprobs[i];
    return BRAID_OK;
}

// The rows that predict a target, in the order of the parts.
static size_t find_rows(likelihood *l, const likelihood_part *parts, uint32_t count) {
    size_t dim = engine_config(l->engine)->dim, found = 0;
    const float *x = l->x;
    for (uint32_t p = 0; p < count; p++) {
        x += parts[p].read.count * dim;
        for (uint32_t i = 0; i < parts[p].scored; i++)
            l->rows[found++] = (row){x - (parts[p].scored - i) * dim, parts[p].targets[i], p};
    }
    return found;
}

braid_err likelihood_read(likelihood *l, likelihood_part *parts, uint32_t count, braid_error *error) {
    const model_config *c = engine_config(l->engine);
    size_t read = 0, scored = 0;
    for (uint32_t p = 0; p < count; p++) {
        read += parts[p].read.count;
        scored += parts[p].scored;
        parts[p].sum = 0;
        BRAID_ASSERT(parts[p].scored <= parts[p].read.count);
        for (uint32_t i = 0; i < parts[p].scored; i++)
            if (parts[p].targets[i] >= c->vocab)
                return braid_fail(error, BRAID_ARGUMENT, "token %u is not one of the model's %u", parts[p].targets[i],
                                  c->vocab);
    }
    if (!reserve_all(l, count, read, scored))
        return braid_fail(error, BRAID_MEMORY, "no memory to read %zu tokens", read);
    for (uint32_t p = 0; p < count; p++) l->reads[p] = parts[p].read;
    braid_err err = engine_embed(l->engine, l->reads, count, l->x, error);
    if (!err) err = engine_layers(l->engine, l->reads, count, l->x, error);
    if (err) return err;
    size_t rows = find_rows(l, parts, count);
    for (size_t i = 0; i < rows && !err; i += BLOCK_ROWS)
        err = score_block(l, parts, l->rows + i, rows - i < BLOCK_ROWS ? rows - i : BLOCK_ROWS, error);
    return err;
}
