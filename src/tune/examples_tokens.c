// Tokens of examples, and which of them count.
#include "tune/inside.h"

#include <stdlib.h>
#include <string.h>

braid_err examples_no_memory(const examples_reader *r) {
    return braid_fail(r->error, BRAID_MEMORY, "no memory for the examples of %s", r->source->path);
}

static bool reach_learned(tune_examples *e, size_t count) {
    if (count <= e->learned_room) return true;
    size_t room = 2 * e->learned_room > count ? 2 * e->learned_room : count + 1024;
    uint8_t *more = realloc(e->learned, room);
    if (!more) return false;
    e->learned = more;
    e->learned_room = room;
    return true;
}

static bool append(tokenizer_ids *ids, uint32_t id) {
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 1024;
        uint32_t *more = realloc(ids->at, capacity * sizeof *more);
        if (!more) return false;
        ids->at = more;
        ids->capacity = capacity;
    }
    ids->at[ids->count++] = id;
    return true;
}

static braid_err mark(examples_reader *r, size_t first, bool learned) {
    tune_examples *e = r->out;
    if (!reach_learned(e, e->ids.count)) return examples_no_memory(r);
    for (size_t i = first; i < e->ids.count; i++) e->learned[i] = learned;
    return BRAID_OK;
}

braid_err examples_add(examples_reader *r, const char *text, size_t length, unsigned flags, bool learned) {
    tokenizer_ids *ids = &r->out->ids;
    size_t first = ids->count;
    braid_err err = BRAID_OK;
    if (r->source->tokenizer) err = tokenizer_encode(r->source->encoder, text, length, flags, ids, r->error);
    for (size_t i = 0; i < length && !r->source->tokenizer && !err; i++)
        if (!append(ids, (unsigned char)text[i])) err = examples_no_memory(r);
    return err ? err : mark(r, first, learned);
}

static uint32_t end_token(const tokenizer *t) {
    uint32_t count = 0;
    if (!t) return TOKENIZER_NO_ID;
    const uint32_t *stops = tokenizer_stops(t, &count);
    return tokenizer_eos(t) != TOKENIZER_NO_ID ? tokenizer_eos(t) : count > 0 ? stops[0] : TOKENIZER_NO_ID;
}

braid_err examples_add_end(examples_reader *r) {
    size_t first = r->out->ids.count;
    uint32_t id = end_token(r->source->tokenizer);
    if (id == TOKENIZER_NO_ID) return BRAID_OK;
    return append(&r->out->ids, id) ? mark(r, first, true) : examples_no_memory(r);
}
