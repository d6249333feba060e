// Training of byte-level BPE (Sennrich et al. 2016): words are counted once, then pairs of neighbours are merged by frequency.
#include "text/train.h"

#include "text/inside.h"
#include "text/train_inside.h"

#include <errno.h>
#include <stdio.h>

// ---- words: pieces of the texts with their counts

static braid_err add_word(training *t, const char *text, size_t length, braid_error *error) {
    uint32_t before = t->words.count, id = vocabulary_find(&t->words, text, length);
    if (id == TOKENIZER_NO_ID) {
        braid_err err = vocabulary_add(&t->words, text, length, before, error);
        if (err) return err;
        uint64_t one = 1;
        buffer_add(&t->counts, &one, sizeof one);
        return t->counts.failed ? text_no_memory(error) : BRAID_OK;
    }
    ((uint64_t *)(void *)t->counts.at)[id]++;
    return BRAID_OK;
}

static braid_err add_text(training *t, const char *text, size_t length, braid_error *error) {
    braid_err err = BRAID_OK;
    for (size_t at = 0, next; at < length && !err; at = next) {
        next = scan_piece(SCAN_GPT2, text, at, length);
        if (next - at <= TRAIN_MAX_WORD_BYTES) err = add_word(t, text + at, next - at, error);
    }
    t->bytes += length;
    return err;
}

// A text is cut at its lines, so that files of any size pass.
static braid_err add_file(training *t, const char *path, braid_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t capacity = 0;
    braid_err err = BRAID_OK;
    for (ssize_t n; !err && (n = getline(&line, &capacity, file)) >= 0;) {
        buffer repaired = {0};
        utf8_repair(line, (size_t)n, &repaired);
        err = repaired.failed ? text_no_memory(error) : add_text(t, repaired.at, repaired.count, error);
        buffer_free(&repaired);
    }
    if (!err && ferror(file)) err = braid_fail(error, BRAID_IO, "cannot read %s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return err;
}

// ---- pairs

static uint64_t hash_pair(uint64_t pair) {
    pair *= 0x9e3779b97f4a7c15u;
    return pair ^ pair >> 32;
}

static bool grow_pairs(training *t) {
    uint64_t slots = t->pair_mask ? (t->pair_mask + 1) * 2 : 1 << 16;
    uint32_t *table = calloc(slots, sizeof *table);
    train_pair *pairs = realloc(t->pairs, slots / 2 * sizeof *pairs);
    if (pairs) t->pairs = pairs;
    if (!table || !pairs) {
        free(table);
        return false;
    }
    free(t->pair_slots);
    t->pair_slots = table;
    t->pair_mask = slots - 1;
    for (uint32_t i = 0; i < t->pair_count; i++) {
        uint64_t at = hash_pair(t->pairs[i].pair) & t->pair_mask;
        while (table[at]) at = (at + 1) & t->pair_mask;
        table[at] = i + 1;
    }
    return true;
}

static train_pair *find_pair(training *t, uint64_t pair) {
    if (t->pair_count >= (t->pair_mask + 1) / 2 && !grow_pairs(t)) return NULL;
    uint64_t at = hash_pair(pair) & t->pair_mask;
    for (; t->pair_slots[at]; at = (at + 1) & t->pair_mask)
        if (t->pairs[t->pair_slots[at] - 1].pair == pair) return &t->pairs[t->pair_slots[at] - 1];
    t->pairs[t->pair_count] = (train_pair){.pair = pair};
    t->pair_slots[at] = ++t->pair_count;
    return &t->pairs[t->pair_count - 1];
}

// The most frequent first, of equal ones the one with the lowest ids.
static bool before(const training *t, uint32_t a, uint32_t b) {
    const train_pair *x = &t->pairs[a], *y = &t->pairs[b];
    return x->count != y->count ? x->count > y->count : x->pair < y->pair;
}

static void set(training *t, uint32_t at, uint32_t pair) {
    t->heap[at] = pair;
    t->pairs[pair].heap_at = at + 1;
}

static void sift_up(training *t, uint32_t at) {
    uint32_t pair = t->heap[at];
    for (; at > 0 && before(t, pair, t->heap[(at - 1) / 2]); at = (at - 1) / 2) set(t, at, t->heap[(at - 1) / 2]);
    set(t, at, pair);
}

static void sift_down(training *t, uint32_t at) {
    uint32_t pair = t->heap[at];
    for (uint32_t child; (child = 2 * at + 1) < t->heap_count; at = child) {
        if (child + 1 < t->heap_count && before(t, t->heap[child + 1], t->heap[child])) child++;
        if (!before(t, t->heap[child], pair)) break;
        set(t, at, t->heap[child]);
    }
    set(t, at, pair);
}

static bool change_pair(training *t, uint64_t pair, int64_t by, uint32_t word) {
    train_pair *p = find_pair(t, pair);
    if (!p) return false;
    p->count = (uint64_t)((int64_t)p->count + by);
    uint32_t index = (uint32_t)(p - t->pairs);
    if (by > 0 && (p->words.count == 0 || memcmp(p->words.at + p->words.count - 4, &word, 4) != 0)) {
        buffer_add(&p->words, &word, 4);
        if (p->words.failed) return false;
    }
    if (!p->heap_at) {
        if (t->heap_count == t->heap_capacity) {
            uint32_t capacity = t->heap_capacity ? t->heap_capacity * 2 : 1024;
            uint32_t *heap = realloc(t->heap, capacity * sizeof *heap);
            if (!heap) return false;
            t->heap = heap;
            t->heap_capacity = capacity;
        }
        set(t, t->heap_count++, index);
    }
    sift_up(t, t->pairs[index].heap_at - 1);
    sift_down(t, t->pairs[index].heap_at - 1);
    return true;
}

// ---- merging

static uint64_t pair_at(const uint32_t *symbols) { return (uint64_t)symbols[0] << 32 | symbols[1]; }

static bool count_pairs(training *t) {
    for (uint32_t w = 0; w < t->words.count; w++) {
        uint64_t count = ((const uint64_t *)(const void *)t->counts.at)[w];
        for (uint32_t i = 0; i + 1 < t->lengths[w]; i++)
            if (!change_pair(t, pair_at(t->symbols + t->words.entries[w].start + i), (int64_t)count, w)) return false;
    }
    return true;
}

static bool spread_words(training *t) {
    t->symbols = malloc((t->words.text.count + 1) * sizeof *t->symbols);
    t->lengths = malloc((t->words.count + 1) * sizeof *t->lengths);
    if (!t->symbols || !t->lengths) return false;
    for (size_t i = 0; i < t->words.text.count; i++)
        t->symbols[i] = TRAIN_FIRST_BYTE + t->order[(uint8_t)t->words.text.at[i]];
    for (uint32_t w = 0; w < t->words.count; w++) t->lengths[w] = t->words.entries[w].length;
    return true;
}

// Replaces the pair in one word by `id`, and counts its neighbours anew.
static bool merge_in(training *t, uint32_t w, uint64_t pair, uint32_t id) {
    uint32_t *s = t->symbols + t->words.entries[w].start, n = t->lengths[w], to = 0;
    int64_t count = (int64_t)((const uint64_t *)(const void *)t->counts.at)[w];
    bool found = false;
    for (uint32_t i = 0; i + 1 < n && !found; i++) found = pair_at(s + i) == pair;
    if (!found) return true;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!change_pair(t, pair_at(s + i), -count, w)) return false;
    for (uint32_t i = 0; i < n; to++) {
        bool here = i + 1 < n && pair_at(s + i) == pair;
        s[to] = here ? id : s[i];
        i += here ? 2 : 1;
    }
    t->lengths[w] = to;
    for (uint32_t i = 0; i + 1 < to; i++)
        if (!change_pair(t, pair_at(s + i), count, w)) return false;
    return true;
}

static bool merge_all(training *t, uint32_t tokens) {
    while (TRAIN_FIRST_MERGE + t->merges < tokens && t->heap_count > 0) {
        train_pair top = t->pairs[t->heap[0]];
        uint32_t id = TRAIN_FIRST_MERGE + t->merges;
        if (top.count < 2) break;
        buffer_add(&t->merged, &top.pair, sizeof top.pair);
        if (t->merged.failed) return false;
        t->merges++;
        // the list of words is taken away: new ones cannot have this pair
        t->pairs[t->heap[0]].words = (buffer){0};
        bool fine = true;
        for (size_t i = 0; i < top.words.count && fine; i += 4) {
            uint32_t w;
            memcpy(&w, top.words.at + i, 4);
            fine = merge_in(t, w, top.pair, id);
        }
        buffer_free(&top.words);
        if (!fine) return false;
    }
    return true;
}

static void training_free(training *t) {
    for (uint32_t i = 0; i < t->pair_count; i++) buffer_free(&t->pairs[i].words);
    free(t->pairs);
    free(t->pair_slots);
    free(t->heap);
    free(t->symbols);
    free(t->lengths);
    vocabulary_free(&t->words);
    buffer_free(&t->counts);
    buffer_free(&t->merged);
}

// The bytes in the order of their characters, as `tokenizers` has them.
static void order_bytes(training *t) {
    uint8_t next = 0;
    for (uint32_t c = 0; c < 512; c++) {
        int byte = char_byte(c);
        if (byte < 0) continue;
        t->order[byte] = next;
        t->bytes_in_order[next++] = (uint8_t)byte;
    }
}

static double bytes_a_token(const training *t) {
    double tokens = 0;
    for (uint32_t w = 0; w < t->words.count; w++)
        tokens += (double)t->lengths[w] * (double)((const uint64_t *)(const void *)t->counts.at)[w];
    return tokens > 0 ? (double)t->bytes / tokens : 0;
}

braid_err tokenizer_train(const char *const *paths, uint32_t count, uint32_t tokens, const char *directory,
                          tokenizer_training *result, braid_error *error) {
    training t = {0};
    braid_err err = unicode_init() ? BRAID_OK : text_no_memory(error);
    if (!err) order_bytes(&t);
    for (uint32_t i = 0; i < count && !err; i++) err = add_file(&t, paths[i], error);
    if (!err && t.words.count == 0)
        err = braid_fail(error, BRAID_ARGUMENT, "the texts to train a tokenizer on are empty");
    if (!err && !(grow_pairs(&t) && spread_words(&t) && count_pairs(&t) && merge_all(&t, tokens)))
        err = text_no_memory(error);
    if (!err) err = train_write(&t, directory, error);
    if (!err) *result = (tokenizer_training){TRAIN_FIRST_MERGE + t.merges, bytes_a_token(&t)};
    training_free(&t);
    return err;
}
