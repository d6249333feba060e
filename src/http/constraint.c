#include "http/constraint.h"

#include "http/matcher.h"
#include "http/tokens.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN_BYTES = 256, MAX_MASK_BYTES = 64 << 20 };

// The tokens in the order of their bytes, so that common beginnings are matched once.
typedef struct vocabulary_token {
    const char *bytes;            // [length], in trie.bytes
    size_t at;                    // of them, while that array grows
    uint32_t id, length, common;  // bytes in common with the token before
} vocabulary_token;

typedef struct trie {
    vocabulary_token *token;
    uint32_t count;
    uint32_t *place;  // [vocab] index of each token, UINT32_MAX: none
    char *bytes;
    uint32_t *stop;
    uint32_t stops;
} trie;

typedef struct constraint {
    const trie *t;
    const grammar *g;
    matcher *m;
    uint32_t state;
    bool ended;
    char *text;  // read so far
    size_t length, capacity;
    size_t mask_bytes;
} constraint;

// ---- the vocabulary

static int by_bytes(const void *a, const void *b) {
    const vocabulary_token *x = a, *y = b;
    uint32_t n = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, n);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void trie_free(trie *t) {
    if (!t) return;
    free(t->token);
    free(t->place);
    free(t->bytes);
    free(t->stop);
    free(t);
}

static bool collect(trie *t, http_server *s, uint32_t vocab) {
    const tokenizer *k = s->model->tokenizer;
    size_t used = 0, capacity = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        if (used + MAX_TOKEN_BYTES > capacity) {
            char *larger = realloc(t->bytes, capacity = 2 * capacity + (1 << 16));
            if (!larger) return false;
            t->bytes = larger;
        }
        size_t n = k && tokenizer_is_special(k, id) ? 0 : tokens_bytes(s, id, t->bytes + used, MAX_TOKEN_BYTES);
        if (n == 0 || n > MAX_TOKEN_BYTES) continue;
        t->token[t->count++] = (vocabulary_token){.id = id, .at = used, .length = (uint32_t)n};
        used += n;
    }
    for (uint32_t i = 0; i < t->count; i++) t->token[i].bytes = t->bytes + t->token[i].at;
    return true;
}

static void find_common(trie *t) {
    for (uint32_t i = 1; i < t->count; i++) {
        const vocabulary_token *before = &t->token[i - 1];
        vocabulary_token *k = &t->token[i];
        while (k->common < k->length && k->common < before->length && k->bytes[k->common] == before->bytes[k->common])
            k->common++;
    }
}

static trie *trie_new(http_server *s) {
    uint32_t vocab = tokens_vocabulary(s), stops = 0;
    const uint32_t *stop = s->model->tokenizer ? tokenizer_stops(s->model->tokenizer, &stops) : NULL;
    trie *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->token = malloc((vocab + 1u) * sizeof *t->token);
    t->stop = malloc((stops + 1u) * sizeof *t->stop);
    t->place = malloc((vocab + 1u) * sizeof *t->place);
    if (!t->token || !t->stop || !t->place || !collect(t, s, vocab)) {
        trie_free(t);
        return NULL;
    }
    for (uint32_t i = 0; i < stops; i++)
        if (stop[i] < vocab) t->stop[t->stops++] = stop[i];
    qsort(t->token, t->count, sizeof *t->token, by_bytes);
    find_common(t);
    for (uint32_t i = 0; i < vocab; i++) t->place[i] = UINT32_MAX;
    for (uint32_t i = 0; i < t->count; i++) t->place[t->token[i].id] = i;
    return t;
}

void constraint_vocabulary_free(http_server *s) { trie_free(s->trie); }

// ---- one text

static bool is_stop(const trie *t, uint32_t token) {
    for (uint32_t i = 0; i < t->stops; i++)
        if (t->stop[i] == token) return true;
    return false;
}

// Sets the bit of each token that may follow.
static void allow(constraint *c, uint64_t *bits) {
    const trie *t = c->t;
    uint32_t state[MAX_TOKEN_BYTES + 1] = {c->state}, reached = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const vocabulary_token *k = &t->token[i];
        // `reached` bytes of the token before have a state that goes on
        if (k->common < reached) reached = k->common;
        if (reached < k->common) continue;
        while (reached < k->length) {
            uint32_t next = matcher_next(c->m, state[reached], (unsigned char)k->bytes[reached]);
            if (next == MATCHER_DEAD) break;
            state[++reached] = next;
        }
        if (reached == k->length) bits[k->id >> 6] |= UINT64_C(1) << (k->id & 63);
    }
}

// The mask of the present state, kept with it; NULL: no memory.
static const uint64_t *mask_of(constraint *c, uint32_t vocab) {
    size_t bytes = ((size_t)vocab + 63) / 64 * sizeof(uint64_t);
    void **note = matcher_note(c->m, c->state);
    if (*note) return *note;
    uint64_t *bits = calloc(1, bytes);
    if (!bits) return NULL;
    matcher_rest(c->m);
    allow(c, bits);
    c->mask_bytes += bytes;
    return *matcher_note(c->m, c->state) = bits;
}

static void forbid_all(float *logits, uint32_t vocab, const constraint *c) {
    for (uint32_t i = 0; i < vocab; i++)
        if (!is_stop(c->t, i)) logits[i] = -INFINITY;
    // a model without a stop id goes on with line breaks
    if (c->t->stops == 0 && vocab > '\n') logits['\n'] = 0;
}

static void on_mask(void *context, float *logits, uint32_t vocab) {
    constraint *c = context;
    const uint64_t *bits = c->ended || c->state == MATCHER_DEAD ? NULL : mask_of(c, vocab);
    bool may_end = c->ended || matcher_complete(c->m, c->state), any = false;
    if (!bits) {
        forbid_all(logits, vocab, c);
        return;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        bool allowed = (bits[i >> 6] >> (i & 63) & 1) || (may_end && is_stop(c->t, i));
        if (!allowed) logits[i] = -INFINITY;
        any |= allowed;
    }
    if (!any) forbid_all(logits, vocab, c);
}

static void drop_matcher(constraint *c) {
    for (uint32_t i = 0; c->m && i < matcher_states(c->m); i++) free(*matcher_note(c->m, i));
    matcher_free(c->m);
    c->m = NULL;
    c->mask_bytes = 0;
}

// The automaton has grown to its maximum: begins anew and reads the text again.
static void rebuild(constraint *c) {
    matcher *m = matcher_new(c->g);
    if (!m) return;
    drop_matcher(c);
    c->m = m;
    c->state = matcher_start(m);
    for (size_t i = 0; i < c->length; i++, matcher_rest(m))
        c->state = matcher_next(m, c->state, (unsigned char)c->text[i]);
}

static bool keep_bytes(constraint *c, const char *bytes, size_t n) {
    if (c->length + n > c->capacity) {
        size_t capacity = 2 * (c->length + n) + 256;
        char *larger = realloc(c->text, capacity);
        if (!larger) return false;
        c->text = larger;
        c->capacity = capacity;
    }
    memcpy(c->text + c->length, bytes, n);
    c->length += n;
    return true;
}

static const vocabulary_token *find_token(const trie *t, uint32_t id) {
    return t->place[id] == UINT32_MAX ? NULL : &t->token[t->place[id]];
}

static void on_accept(void *context, uint32_t token) {
    constraint *c = context;
    const vocabulary_token *k = is_stop(c->t, token) ? NULL : find_token(c->t, token);
    if (!k || !keep_bytes(c, k->bytes, k->length)) {
        c->ended = true;
        return;
    }
    matcher_rest(c->m);
    for (uint32_t i = 0; i < k->length; i++) c->state = matcher_next(c->m, c->state, (unsigned char)k->bytes[i]);
    if (matcher_states(c->m) > MATCHER_MAX_STATES / 2 || c->mask_bytes > MAX_MASK_BYTES) rebuild(c);
}

static void on_release(void *context) {
    constraint *c = context;
    drop_matcher(c);
    free(c->text);
    free(c);
}

static const trie *vocabulary_of(http_server *s) {
    pthread_mutex_lock(&s->trie_lock);
    if (!s->trie) s->trie = trie_new(s);
    const trie *t = s->trie;
    pthread_mutex_unlock(&s->trie_lock);
    return t;
}

braid_err constraint_new(http_server *s, const grammar *g, service_constraint *out, braid_error *error) {
    constraint *c = calloc(1, sizeof *c);
    const trie *t = vocabulary_of(s);
    matcher *m = c && t ? matcher_new(g) : NULL;
    if (!m) {
        free(c);
        return braid_fail(error, BRAID_MEMORY, "no memory for the grammar of a text");
    }
    *c = (constraint){.t = t, .g = g, .m = m, .state = matcher_start(m)};
    *out = (service_constraint){c, on_mask, on_accept, on_release};
    return BRAID_OK;
}
