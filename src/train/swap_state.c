// The state in the file: its initial values, and blocks of it for checkpoints and hashes.
#include "base/sha256.h"
#include "train/state_blob.h"
#include "train/swap_inside.h"

#include <string.h>

// Memory for one part of a unit's state, to be written by write_part.
static float *open_part(swap *s, swap_unit *u, swap_part part, braid_error *error) {
    if (u == swap_ends(s)) return s->ends_weights;
    s->moment = tier_block_at(u->at[part], u->weights.bytes, SHELF_WEIGHTS);
    return tier_take(s->tier, &s->moment, true, error);
}

static braid_err write_part(swap *s, swap_unit *u, swap_part part, float *data, braid_error *error) {
    if (u != swap_ends(s)) {
        tier_give(s->tier, &s->moment, TIER_WRITE);
        return tier_forget(s->tier, error);
    }
    store_transfer t = {0};
    store_io_start(s->io, &t, true, u->at[part], data, (size_t)block_file_padded(u->elements * sizeof(float)));
    return store_io_wait(s->io, &t, error);
}

typedef braid_err (*fill_fn)(swap *s, swap_unit *u, swap_part part, float *out, void *context, braid_error *error);

// The weights come last, so that those of the ends stay in memory.
static braid_err fill(swap *s, fill_fn fn, void *context, braid_error *error) {
    braid_err err = BRAID_OK;
    s->ends_loaded = false;
    for (uint32_t i = 0; i <= s->layers && !err; i++) {
        swap_unit *u = &s->unit[i];
        if (i < s->layers) stage_move(s->layer, i);
        for (int part = SWAP_RESULTS; part-- > 0 && !err;) {
            float *data = open_part(s, u, (swap_part)part, error);
            if (!data) return BRAID_IO;
            err = fn(s, u, (swap_part)part, data, context, error);
            braid_err put = write_part(s, u, (swap_part)part, data, err ? NULL : error);
            if (!err) err = put;
        }
    }
    s->torn = err != BRAID_OK;
    return err;
}

static braid_err fresh(swap *s, swap_unit *u, swap_part part, float *out, void *context, braid_error *error) {
    (void)context;
    (void)error;
    if (part == SWAP_WEIGHTS)
        stage_init(u->stage, out, s->run->seed);
    else
        memset(out, 0, u->elements * sizeof *out);
    return BRAID_OK;
}

braid_err swap_init(swap *s, braid_error *error) { return fill(s, fresh, NULL, error); }

static braid_err loaded(swap *s, swap_unit *u, swap_part part, float *out, void *context, braid_error *error) {
    const swap_table *t = swap_table_of(s, u);
    return checkpoint_read_stage(context, &s->run->model, t->tensors, t->tensor_count,
                                 part == SWAP_WEIGHTS ? out : NULL, part == SWAP_MOMENT1 ? out : NULL,
                                 part == SWAP_MOMENT2 ? out : NULL, error);
}

braid_err swap_load(swap *s, checkpoint *from, braid_error *error) { return fill(s, loaded, from, error); }

// --- blocks

typedef struct block_place {
    const swap_unit *unit;
    const block *block;
} block_place;

static block_place place_of(const swap *s, uint32_t number) {
    uint32_t each = s->layer_table.block_count, in_layers = s->layers * each;
    if (number >= s->before_blocks && number < s->before_blocks + in_layers) {
        uint32_t index = number - s->before_blocks;
        return (block_place){&s->unit[index / each], &s->layer_table.blocks[index % each]};
    }
    uint32_t index = number < s->before_blocks ? number : number - in_layers;
    return (block_place){swap_ends(s), &s->ends_table.blocks[index]};
}

// Parts [0, count) of a block, into the bounce buffer.
static braid_err read_block(swap *s, uint32_t number, uint32_t count, const float *out[STATE_PARTS],
                            braid_error *error) {
    enum { ROOM = BLOCK_ELEMENTS * sizeof(float) + 2 * BLOCK_FILE_ALIGNMENT };
    _Static_assert((int)STATE_PARTS == (int)STATE_ROOM, "the bounce buffer has room for all parts of a block");
    block_place at = place_of(s, number);
    store_transfer transfer[STATE_PARTS] = {{0}};
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t first = at.unit->at[i] + at.block->offset * sizeof(float),
                 aligned = first / BLOCK_FILE_ALIGNMENT * BLOCK_FILE_ALIGNMENT;
        uint64_t bytes = block_file_padded(first + at.block->count * sizeof(float) - aligned);
        uint8_t *room = s->room.bounce + i * ROOM;
        store_io_start(s->io, &transfer[i], false, aligned, room, (size_t)bytes);
        out[i] = (const float *)(const void *)(room + (first - aligned));
    }
    for (uint32_t i = 0; i < count; i++) {
        braid_err one = store_io_wait_alone(s->io, &transfer[i], err ? NULL : error);
        if (!err) err = one;
    }
    return err;
}

static braid_err refuse_torn(const swap *s, braid_error *error) {
    if (!s->torn) return BRAID_OK;
    return braid_fail(error, BRAID_STATE,
                      "the state in '%s' is between two iterations after an error, so it is not saved; resume from the "
                      "newest checkpoint",
                      block_file_path(s->file));
}

braid_err swap_state_get(swap *s, uint32_t first, uint32_t count, uint64_t version, void *out, braid_error *error) {
    braid_err err = refuse_torn(s, error);
    uint8_t *to = out;
    for (uint32_t i = first; i < first + count && !err; i++) {
        const float *parts[STATE_PARTS];
        uint32_t elements = place_of(s, i).block->count;
        err = read_block(s, i, STATE_PARTS, parts, error);
        if (!err) state_block_write(to, version, elements, parts);
        to += state_block_bytes(elements);
    }
    return err;
}

braid_err swap_leaves(swap *s, braid_hash *out, braid_error *error) {
    braid_err err = refuse_torn(s, error);
    for (uint32_t i = 0; i < s->config.split->block_count && !err; i++) {
        const float *weights[STATE_PARTS];
        err = read_block(s, i, 1, weights, error);
        if (!err) out[i] = sha256_of(weights[0], place_of(s, i).block->count * sizeof(float));
    }
    return err;
}
