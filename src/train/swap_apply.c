// The optimizer step: a pass over the file in chunks. While one is computed, the next one is read and
// the last one is written.
#include "train/swap_inside.h"

#include <string.h>

enum { PIECE = 1 << 14 };

typedef struct place {
    swap_unit *unit;
    size_t first, count;  // elements
    float *cached;        // weights that are in memory; NULL: none
} place;

typedef struct step_job {
    const swap *s;
    const train_step *step;
    const place *at;
    const swap_chunk *chunk;
} step_job;

static size_t padded(size_t elements) { return (size_t)block_file_padded(elements * sizeof(float)); }

static void apply_piece(void *context, size_t index) {
    const step_job *j = context;
    const swap_table *t = swap_table_of(j->s, j->at->unit);
    size_t from = j->at->first + index * PIECE, end = j->at->first + j->at->count;
    if (end > from + PIECE) end = from + PIECE;
    for (uint32_t i = 0; i < t->tensor_count; i++) {
        const stage_tensor *of = &t->tensors[i];
        size_t first = of->offset > from ? of->offset : from, last = of->offset + of->elements;
        if (last > end) last = end;
        if (first >= last) continue;
        size_t at = first - j->at->first;
        float *const *part = j->chunk->part;
        adamw_apply(&j->s->run->recipe, j->step, of->decay, last - first, part[SWAP_RESULTS] + at,
                    part[SWAP_WEIGHTS] + at, part[SWAP_MOMENT1] + at, part[SWAP_MOMENT2] + at);
    }
}

static void transfer(swap *s, swap_chunk *c, const place *at, int part, bool write) {
    store_io_start(s->io, &c->transfer[part], write, at->unit->at[part] + at->first * sizeof(float), c->part[part],
                   padded(at->count));
}

static braid_err wait_for(swap *s, swap_chunk *c, braid_error *error) {
    braid_err err = BRAID_OK;
    for (int part = 0; part < SWAP_PARTS; part++) {
        braid_err one = store_io_wait(s->io, &c->transfer[part], err ? NULL : error);
        if (!err) err = one;
    }
    return err;
}

static braid_err begin(swap *s, swap_chunk *c, place *at, braid_error *error) {
    braid_err err = wait_for(s, c, error);
    if (err) return err;
    float *whole = at->unit == swap_ends(s) ? s->ends_weights : tier_cached(s->tier, &at->unit->weights);
    at->cached = whole ? whole + at->first : NULL;
    for (int part = 0; part < SWAP_PARTS; part++)
        if (part != SWAP_WEIGHTS || !at->cached) transfer(s, c, at, part, false);
    return BRAID_OK;
}

static braid_err finish(swap *s, swap_chunk *c, const place *at, const train_step *step, braid_error *error) {
    braid_err err = wait_for(s, c, error);
    if (err) return err;
    size_t bytes = at->count * sizeof(float);
    if (at->cached) memcpy(c->part[SWAP_WEIGHTS], at->cached, bytes);
    step_job job = {s, step, at, c};
    tensor_pool_run(s->pool, (at->count + PIECE - 1) / PIECE, apply_piece, &job);
    if (at->cached) memcpy(at->cached, c->part[SWAP_WEIGHTS], bytes);
    for (int part = 0; part < SWAP_RESULTS; part++) transfer(s, c, at, part, true);
    return s->options.naive ? wait_for(s, c, error) : BRAID_OK;
}

// The next chunk; false behind the last one.
static bool next_place(swap *s, place *at) {
    if (!at->unit)
        *at = (place){.unit = &s->unit[0]};
    else
        at->first += at->count;
    if (at->first == at->unit->elements) *at = (place){.unit = at->unit + 1};
    if (at->unit > swap_ends(s)) return false;
    size_t left = at->unit->elements - at->first;
    at->count = left < s->chunk ? left : s->chunk;
    return true;
}

static braid_err pass(swap *s, const train_step *step, braid_error *error) {
    place begun = {0}, at[CHUNKS] = {{0}};
    uint64_t begins = 0, ends = 0, ahead = s->options.naive ? 1 : CHUNKS - 1;
    bool more = true;
    braid_err err = BRAID_OK;
    while (!err) {
        while (!err && more && begins < ends + ahead && (more = next_place(s, &begun))) {
            at[begins % CHUNKS] = begun;
            err = begin(s, &s->chunks[begins % CHUNKS], &at[begins % CHUNKS], error);
            begins++;
        }
        if (err || ends == begins) break;
        err = finish(s, &s->chunks[ends % CHUNKS], &at[ends % CHUNKS], step, error);
        ends++;
    }
    for (int i = 0; i < CHUNKS; i++) {
        braid_err one = wait_for(s, &s->chunks[i], err ? NULL : error);
        if (!err) err = one;
    }
    return err;
}

braid_err swap_apply(swap *s, const train_step *step, braid_error *error) {
    if (step->skip) return BRAID_OK;
    braid_err err = tier_settle(s->tier, error);
    if (err) return err;
    s->torn = true;
    err = pass(s, step, error);
    s->torn = err != BRAID_OK;
    return err;
}
