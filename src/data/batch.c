#include "data/batch.h"

#include <stdlib.h>

// One thread's share of a batch: consecutive texts.
typedef struct share {
    tokenizer_encoder *encoder;
    tokenizer_ids ids;
    uint32_t first, count;
    braid_err err;
    braid_error error;
} share;

struct batch {
    const tokenizer *tokenizer;
    tensor_pool *pool;
    buffer bytes;
    batch_text text[BATCH_MAX_TEXTS];
    size_t id_count[BATCH_MAX_TEXTS];
    uint32_t count, shares;
    share *share;  // [shares]
};

braid_err batch_new(const tokenizer *t, unsigned threads, batch **out, braid_error *error) {
    batch *b = calloc(1, sizeof *b);
    if (!b) return braid_fail(error, BRAID_MEMORY, "no memory to tokenise");
    b->tokenizer = t;
    braid_err err = tensor_pool_new(threads, &b->pool, error);
    if (!err) {
        b->shares = tensor_pool_threads(b->pool);
        b->share = calloc(b->shares, sizeof *b->share);
        for (uint32_t i = 0; b->share && t && i < b->shares; i++)
            if (!(b->share[i].encoder = tokenizer_encoder_new(t))) err = BRAID_MEMORY;
        if (!b->share || err) err = braid_fail(error, BRAID_MEMORY, "no memory to tokenise");
    }
    if (err)
        batch_free(b);
    else
        *out = b;
    return err;
}

void batch_free(batch *b) {
    if (!b) return;
    for (uint32_t i = 0; b->share && i < b->shares; i++) {
        tokenizer_encoder_free(b->share[i].encoder);
        tokenizer_ids_free(&b->share[i].ids);
    }
    free(b->share);
    buffer_free(&b->bytes);
    if (b->pool) tensor_pool_free(b->pool);
    free(b);
}

braid_err batch_add(batch *b, const char *text, size_t length, bool last, braid_error *error) {
    BRAID_ASSERT(b->count < BATCH_MAX_TEXTS);
    b->text[b->count++] = (batch_text){b->bytes.count, length, last};
    buffer_add(&b->bytes, text, length);
    return b->bytes.failed ? braid_fail(error, BRAID_MEMORY, "no memory for %zu bytes of text", length) : BRAID_OK;
}

bool batch_is_full(const batch *b) {
    return b->count == BATCH_MAX_TEXTS || b->bytes.count >= (size_t)BATCH_BYTES * b->shares;
}

static bool ids_room(tokenizer_ids *ids, size_t more) {
    if (ids->capacity - ids->count >= more) return true;
    size_t capacity = 2 * ids->capacity < ids->count + more ? ids->count + more : 2 * ids->capacity;
    uint32_t *at = realloc(ids->at, capacity * sizeof *at);
    if (!at) return false;
    ids->at = at;
    ids->capacity = capacity;
    return true;
}

static braid_err encode_bytes(share *s, const char *text, size_t length) {
    if (!ids_room(&s->ids, length))
        return braid_fail(&s->error, BRAID_MEMORY, "no memory for the ids of %zu bytes", length);
    for (size_t i = 0; i < length; i++) s->ids.at[s->ids.count++] = (unsigned char)text[i];
    return BRAID_OK;
}

static void encode_share(void *context, size_t index) {
    batch *b = context;
    share *s = &b->share[index];
    s->ids.count = 0;
    s->err = BRAID_OK;
    for (uint32_t i = s->first; i < s->first + s->count && !s->err; i++) {
        const batch_text *t = &b->text[i];
        size_t before = s->ids.count;
        const char *text = t->length ? b->bytes.at + t->offset : "";
        s->err = s->encoder ? tokenizer_encode(s->encoder, text, t->length, 0, &s->ids, &s->error)
                            : encode_bytes(s, text, t->length);
        b->id_count[i] = s->ids.count - before;
    }
}

// Shares of about equal bytes.
static void divide(batch *b) {
    uint32_t i = 0;
    for (uint32_t k = 0; k < b->shares; k++) {
        size_t end = b->bytes.count / b->shares * (k + 1);
        b->share[k].first = i;
        while (i < b->count && (k + 1 == b->shares || b->text[i].offset < end)) i++;
        b->share[k].count = i - b->share[k].first;
    }
}

braid_err batch_run(batch *b, batch_take_fn take, void *context, braid_error *error) {
    braid_err err = BRAID_OK;
    divide(b);
    tensor_pool_run(b->pool, b->shares, encode_share, b);
    for (uint32_t k = 0; k < b->shares && !err; k++) {
        const share *s = &b->share[k];
        const uint32_t *at = s->ids.at;
        if (s->err) err = braid_fail(error, s->err, "%s", s->error.text);
        for (uint32_t i = s->first; i < s->first + s->count && !err; i++) {
            err = take(context, at, b->id_count[i], b->text[i].last, error);
            at += b->id_count[i];
        }
    }
    b->count = 0;
    b->bytes.count = 0;
    return err;
}
