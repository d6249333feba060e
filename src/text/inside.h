// Internal structures and functions shared by the files of this room.
#ifndef BRAID_TEXT_INSIDE_H
#define BRAID_TEXT_INSIDE_H

#include "format/json.h"
#include "text/regex.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

// ---- vocabulary.c: texts and ids, both ways

typedef struct vocabulary_entry {
    uint32_t start, length, id;  // of `text`
} vocabulary_entry;

typedef struct vocabulary {
    buffer text;
    vocabulary_entry *entries;
    uint32_t count, capacity;
    uint64_t *slots;  // 0: free
    uint32_t mask;
    uint32_t *by_id;        // entry; UINT32_MAX: a hole
    uint32_t end;           // one more than the largest id
} vocabulary;

static inline uint64_t hash_bytes(const char *at, size_t length) {
    uint64_t h = length * 0x9e3779b97f4a7c15u, word;
    for (; length >= 8; at += 8, length -= 8) {
        memcpy(&word, at, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    word = 0;
    for (size_t i = 0; i < length; i++) word |= (uint64_t)(uint8_t)at[i] << (8 * i);
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

// Room for so many; more are taken all the same.
bool vocabulary_reserve(vocabulary *v, size_t count);
// A text that is there already gets the new id.
braid_err vocabulary_add(vocabulary *v, const char *text, size_t length, uint32_t id, braid_error *error);
// After the last: the way from ids to texts.
braid_err vocabulary_index(vocabulary *v, braid_error *error);
uint32_t vocabulary_find(const vocabulary *v, const char *text, size_t length);  // TOKENIZER_NO_ID: none
const char *vocabulary_text(const vocabulary *v, uint32_t id, size_t *length);   // NULL: none
void vocabulary_free(vocabulary *v);

// ---- the models

typedef struct bpe_slot {
    uint64_t pair, value;  // left id << 32 | right id, rank << 32 | merged id
} bpe_slot;

typedef struct bpe {
    bpe_slot *slots;
    uint64_t mask;
    uint32_t merges;
    uint32_t unknown;  // TOKENIZER_NO_ID: none
    char *prefix, *suffix;
    bool ignore_merges, byte_fallback, fuse_unknown;
    bool raw;                    // pieces are bytes, each of them a symbol
    bool whole_newlines;         // a piece of newlines that is a token is taken whole
    uint32_t byte_ids[256];      // raw: of the byte's character
    uint32_t fallback_ids[256];  // of <0xHH>
} bpe;

braid_err bpe_reserve(bpe *b, size_t merges, braid_error *error);
// Adds left + right with the next rank; a pair that is there gets it.
braid_err bpe_add(bpe *b, const vocabulary *v, tokenizer_text left, tokenizer_text right, braid_error *error);
// After the last merge and all flags.
void bpe_finish(bpe *b, const vocabulary *v);
void bpe_free(bpe *b);

typedef struct trie_node {
    uint32_t children, count;  // in `nodes`
    uint32_t value;            // TOKENIZER_NO_ID: none
    uint8_t label;
} trie_node;

// Byte strings with values.
typedef struct trie {
    trie_node *nodes;
    uint32_t count;
} trie;

typedef struct trie_key {
    const char *at;
    uint32_t length, value;
} trie_key;

// Sorts the keys; of equal ones the last in the order given counts, or BRAID_FORMAT where `unique` is set.
braid_err trie_build(trie *t, trie_key *keys, uint32_t count, bool unique, braid_error *error);
void trie_free(trie *t);
// The child of `node` with this label, 0: none.
uint32_t trie_child(const trie *t, uint32_t node, uint8_t label);

typedef struct unigram {
    double *scores;  // [vocabulary.end]
    double unknown_score;
    uint32_t unknown;
    bool byte_fallback;
    uint32_t fallback_ids[256];
    trie trie;
} unigram;

typedef struct wordpiece {
    char *prefix;
    uint32_t unknown;  // TOKENIZER_NO_ID: an unknown word is an error
    uint64_t most_chars;
    bool words_only;   // WordLevel
    bool phantom;      // GGUF: a word begins with U+2581 instead of parts having a prefix
    uint32_t longest;  // bytes of the longest token
} wordpiece;

typedef struct spm {
    float *scores;  // [vocabulary.end]
    uint32_t byte_ids[256];
} spm;

typedef enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_SPM } model_kind;

// ---- steps

typedef enum normal_kind {
    NORMAL_NFC,
    NORMAL_NFD,
    NORMAL_NFKC,
    NORMAL_NFKD,
    NORMAL_LOWERCASE,
    NORMAL_STRIP,
    NORMAL_STRIP_ACCENTS,
    NORMAL_REPLACE,
    NORMAL_PREPEND,
    NORMAL_BERT,
    NORMAL_NMT,
    NORMAL_BYTE_LEVEL,
    NORMAL_PRECOMPILED,
    NORMAL_WPM
} normal_kind;

typedef struct pattern {
    char *literal;  // or else:
    size_t literal_length;
    regex *regex;
} pattern;

typedef struct charsmap {
    uint32_t *units;
    uint32_t count;
    char *texts;  // 0-terminated behind the end
    size_t length;
} charsmap;

typedef struct normal_step {
    normal_kind kind;
    bool left, right;                         // STRIP
    bool clean, chinese, accents, lowercase;  // BERT, WPM
    pattern pattern;                          // REPLACE
    char *content;                            // REPLACE, PREPEND
    size_t content_length;
    charsmap map;
} normal_step;

typedef enum behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_WITH_PREVIOUS,
    SPLIT_WITH_NEXT,
    SPLIT_CONTIGUOUS
} behavior;
typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef enum pre_kind {
    PRE_BYTE_LEVEL,
    PRE_SPLIT,
    PRE_DIGITS,
    PRE_WHITESPACE,
    PRE_WHITESPACE_SPLIT,
    PRE_METASPACE,
    PRE_PUNCTUATION,
    PRE_BERT,
    PRE_DELIMITER,
    PRE_FIXED_LENGTH
} pre_kind;

// Patterns that have a scanner written by hand.
typedef enum scan_kind { SCAN_NONE, SCAN_GPT2, SCAN_LLAMA3, SCAN_QWEN2 } scan_kind;
// The end of the first piece of text[from, end).
size_t scan_piece(scan_kind kind, const char *text, size_t from, size_t end);
scan_kind scan_of_pattern(const char *pattern);

typedef struct pre_step {
    pre_kind kind;
    bool prefix_space, use_regex, map_bytes;  // BYTE_LEVEL; map_bytes: the text becomes byte characters
    bool individual;                          // DIGITS
    bool invert;
    behavior behavior;
    pattern pattern;
    scan_kind scan;  // SPLIT
    char replacement[5];
    prepend_scheme scheme;
    bool split;       // METASPACE
    uint32_t length;  // FIXED_LENGTH
} pre_step;

typedef enum decode_kind {
    DECODE_BYTE_LEVEL,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_REPLACE,
    DECODE_STRIP,
    DECODE_METASPACE,
    DECODE_WORDPIECE,
    DECODE_BPE,
    DECODE_JOIN,     // no decoder: spaces between tokens
    DECODE_GGUF_SPM  // bytes of tokens, U+2581 as a space
} decode_kind;

typedef struct decode_step {
    decode_kind kind;
    pattern pattern;
    char *text;  // REPLACE's content, WORDPIECE's prefix, BPE's suffix
    size_t text_length;
    char character[5];
    uint64_t start, stop;
    bool cleanup, drop_first;
} decode_step;

typedef struct added_token {
    uint32_t id;
    char *text, *normalized_text;  // the second is NULL when it is the same
    uint32_t length, normalized_length;
    bool single_word, lstrip, rstrip, normalized, special;
} added_token;

struct tokenizer {
    vocabulary vocabulary;  // of the model
    model_kind kind;
    bpe bpe;
    unigram unigram;
    wordpiece wordpiece;
    spm spm;

    added_token *added;
    uint32_t added_count;
    uint32_t *added_by_id;       // [size]; UINT32_MAX: none
    trie raw_trie, normal_trie;  // values: index of `added`

    normal_step normal[TOKENIZER_MAX_STEPS];
    pre_step pre[TOKENIZER_MAX_STEPS];
    decode_step decode[TOKENIZER_MAX_STEPS];
    uint32_t normals, pres, decodes;
    scan_kind fast;  // all pre-tokenizing is this scanner and bytes

    uint32_t *prefix, *suffix;  // ids that the post-processor adds
    uint32_t prefix_count, suffix_count;

    uint32_t size, bos, eos;
    uint32_t stops[TOKENIZER_MAX_STOPS];
    uint32_t stop_count;
    bool gguf;               // llama.cpp's rules for special texts
    bool gguf_space_prefix;  // SPM: a space before the text and behind special tokens
};

// ---- encoding

typedef struct piece {
    uint32_t start, length;
    bool first;  // begins where the whole text begins
} piece;

typedef struct pieces {
    piece *at;
    size_t count, capacity;
    bool failed;
} pieces;

typedef struct bpe_symbol {
    uint32_t id, length;
    int32_t before, after;
} bpe_symbol;

typedef struct bpe_candidate {
    uint32_t rank, position, id, spare;
} bpe_candidate;

enum { CACHE_KEY_BYTES = 30, CACHE_IDS = 8, CACHE_SLOTS = 1 << 15 };
typedef struct cache_entry {
    uint8_t length, count;
    char key[CACHE_KEY_BYTES];
    uint32_t ids[CACHE_IDS];
} cache_entry;

struct tokenizer_encoder {
    const tokenizer *t;
    cache_entry *cache;  // of pieces, by hash; BPE only
    buffer repaired, normal[2], text[2], word;
    pieces list[2];
    bpe_symbol *symbols;
    bpe_candidate *heap;
    size_t symbol_capacity, heap_capacity;
    double *best;  // Unigram: of the paths that end at each byte
    uint32_t *from, *node_id;
    size_t node_capacity;
    regex_scratch *scratch;
    braid_error *error;  // of the call
};

static inline bool ids_add(tokenizer_ids *ids, uint32_t id) {
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? ids->capacity * 2 : 256;
        uint32_t *at = realloc(ids->at, capacity * sizeof *at);
        if (!at) return false;
        ids->at = at;
        ids->capacity = capacity;
    }
    ids->at[ids->count++] = id;
    return true;
}
braid_err text_no_memory(braid_error *error);

// A heap in e->heap: the lowest rank first, of equal ones the leftmost. False: no memory.
bool candidate_push(tokenizer_encoder *e, size_t *count, bpe_candidate c);
bpe_candidate candidate_pop(tokenizer_encoder *e, size_t *count);
bool symbol_add(tokenizer_encoder *e, size_t *count, uint32_t id);

braid_err bpe_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids);
braid_err unigram_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids);
braid_err wordpiece_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids);
braid_err spm_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids);
// The model's ids of one piece.
braid_err model_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids);

// Applies all normalizers; *zero is how many of the leading bytes come from the first character of the text. The result
// is `text` itself or lies in e->normal.
braid_err normalize(tokenizer_encoder *e, const char **text, size_t *length, size_t *zero);
// Pre-tokenizes and encodes text[0, length). `zero` as above, 0 where the text is not the beginning.
braid_err pretokenize_encode(tokenizer_encoder *e, const char *text, size_t length, size_t zero, tokenizer_ids *ids);

typedef struct added_match {
    size_t start, end;  // with the spaces that it strips
    uint32_t index;     // of tokenizer.added
} added_match;
// Looks for the next token in text[*at, length) that counts; `taken` is the end of the last one. False: none.
bool added_next(const tokenizer *t, const trie *in, const char *text, size_t length, size_t *at, size_t taken,
                bool parse_special, added_match *match);
// Appends one; its id follows the rules of tokenizers.
braid_err added_add(tokenizer *t, const added_token *token, const char *text, size_t length, uint32_t *next_id,
                    braid_error *error);
// After the last one: the normalized texts, the tries, the size.
braid_err added_finish(tokenizer *t, braid_error *error);

// True: matches were replaced and `out` has the result.
bool pattern_replace(const pattern *p, const char *text, size_t length, const char *content, size_t content_length,
                     buffer *out, regex_scratch *scratch, braid_error *error, braid_err *err);
void pattern_free(pattern *p);
bool pattern_next(const pattern *p, const char *text, size_t length, regex_place *place, size_t *start, size_t *end,
                  regex_scratch *scratch, braid_error *error, braid_err *err);

// ---- reading tokenizer.json

braid_err load_model(tokenizer *t, const char *text, size_t length, braid_error *error);
braid_err load_normalizer(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error);
braid_err load_pre_tokenizer(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error);
braid_err load_decoder(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error);
braid_err load_post_processor(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error);
braid_err load_pattern(pattern *p, const json *d, const json_value *v, const char **source, braid_error *error);
// After model and pre-tokenizers are known: whether pieces stay bytes, and the fast scanner.
void choose_ways(tokenizer *t);

#endif
