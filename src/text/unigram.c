// Unigram: the segmentation with the greatest sum of scores (Kudo 2018), found from the left (Viterbi).
#include "text/inside.h"

static bool room(tokenizer_encoder *e, size_t nodes) {
    if (e->node_capacity >= nodes) return true;
    size_t capacity = nodes * 2;
    double *best = realloc(e->best, capacity * sizeof *best);
    if (best) e->best = best;
    uint32_t *from = realloc(e->from, capacity * sizeof *from);
    if (from) e->from = from;
    uint32_t *id = realloc(e->node_id, capacity * sizeof *id);
    if (id) e->node_id = id;
    if (!best || !from || !id) return false;
    e->node_capacity = capacity;
    return true;
}

static void offer(tokenizer_encoder *e, size_t from, size_t to, double score, uint32_t id) {
    if (e->from[to] != UINT32_MAX && score <= e->best[to]) return;
    e->best[to] = score;
    e->from[to] = (uint32_t)from;
    e->node_id[to] = id;
}

static braid_err find_paths(tokenizer_encoder *e, const char *text, size_t length) {
    const unigram *u = &e->t->unigram;
    memset(e->from, 0xff, (length + 1) * sizeof *e->from);
    e->best[0] = 0;
    for (size_t at = 0; at < length;) {
        size_t width = utf8_width(text[at]);
        bool single = false;
        uint32_t node = 0;
        for (size_t end = at; end < length && (node = trie_child(&u->trie, node, (uint8_t)text[end])) != 0; end++) {
            uint32_t id = u->trie.nodes[node].value;
            if (id == TOKENIZER_NO_ID) continue;
            offer(e, at, end + 1, u->scores[id] + e->best[at], id);
            single |= end + 1 - at == width;
        }
        if (!single) {
            if (u->unknown == TOKENIZER_NO_ID)
                return braid_fail(
                    e->error, BRAID_FORMAT,
                    "the text has a character that the vocabulary lacks, and the Unigram model has no unk_id");
            offer(e, at, at + width, u->unknown_score + e->best[at], u->unknown);
        }
        at += width;
    }
    return BRAID_OK;
}

// A part without a token: its bytes, or the unknown token.
static bool put_unknown(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    const unigram *u = &e->t->unigram;
    uint32_t id = vocabulary_find(&e->t->vocabulary, text, length);
    if (id != TOKENIZER_NO_ID) return ids_add(ids, id);
    bool bytes = u->byte_fallback;
    for (size_t i = 0; i < length && bytes; i++) bytes = u->fallback_ids[(uint8_t)text[i]] != TOKENIZER_NO_ID;
    if (!bytes) return ids_add(ids, u->unknown);
    for (size_t i = 0; i < length; i++)
        if (!ids_add(ids, u->fallback_ids[(uint8_t)text[i]])) return false;
    return true;
}

braid_err unigram_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    if (!room(e, length + 1)) return text_no_memory(e->error);
    braid_err err = find_paths(e, text, length);
    if (err) return err;
    // the path backwards: each end gets the start that follows it
    uint32_t unknown = e->t->unigram.unknown;
    size_t end = length, after = length;
    while (end > 0) {
        size_t from = e->from[end];
        e->from[end] = (uint32_t)after;
        after = end;
        end = from;
    }
    for (size_t at = 0, to = after; at < length;) {
        size_t start = at;
        uint32_t id = e->node_id[to];
        bool fine = true;
        if (id != unknown) {
            fine = ids_add(ids, id);
        } else {
            while (to < length && e->node_id[e->from[to]] == unknown) to = e->from[to];
            fine = put_unknown(e, text + start, to - start, ids);
        }
        if (!fine) return text_no_memory(e->error);
        at = to;
        to = at < length ? e->from[at] : length;
    }
    return BRAID_OK;
}
