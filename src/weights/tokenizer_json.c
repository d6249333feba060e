// tokenizer.json and its companions for the vocabulary of a GGUF file.
#include "format/json.h"
#include "text/gguf_pre.h"
#include "text/unicode.h"
#include "weights/convert_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4 };

#define SPACE "\xe2\x96\x81"  // U+2581, which stands for a space in SentencePiece's tokens

typedef struct merge {
    gguf_text left, right;
    float score;
} merge;

typedef struct maker {
    const gguf *g;
    const model_file *f;
    const tokenizer *t;
    const gguf_key *tokens, *types, *scores;
    bool spm, prefix;
    const gguf_pre *pre;
    json_out o;
    merge *merges;
    size_t merge_count;
    braid_error *error;
} maker;

// ---- merges of SentencePiece, which has scores instead

static bool scored(const maker *k, const char *text, size_t length, float *score) {
    uint32_t id = tokenizer_id(k->t, text, length);
    if (id == TOKENIZER_NO_ID || id >= k->tokens->count) return false;
    memcpy(score, k->scores->at + 4 * (size_t)id, 4);
    return true;
}

// The higher score first; of one token's pairs, the one with the longer left part.
static int compare_merges(const void *a, const void *b) {
    const merge *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    if (x->left.length != y->left.length) return x->left.length > y->left.length ? -1 : 1;
    return (x->right.length < y->right.length) - (x->right.length > y->right.length);
}

static bool add_merge(maker *k, size_t *capacity, merge m) {
    if (k->merge_count == *capacity) {
        size_t more = *capacity ? *capacity * 2 : 1024;
        merge *larger = more <= TOKENIZER_MAX_MERGES * 2 ? realloc(k->merges, more * sizeof *larger) : NULL;
        if (!larger) return false;
        k->merges = larger;
        *capacity = more;
    }
    k->merges[k->merge_count++] = m;
    return true;
}

// Every way to put a token together from two others.
static braid_err derive_merges(maker *k) {
    const uint8_t *at = k->tokens->at;
    size_t capacity = 0;
    bool room = true;
    for (uint64_t i = 0; i < k->tokens->count && room; i++) {
        gguf_text token = gguf_next_string(&at);
        int64_t type = 1;
        float score, ignored;
        if ((k->types && (!gguf_element(k->types, i, &type) || type != 1)) || token.length > 256) continue;
        memcpy(&score, k->scores->at + 4 * i, 4);
        for (size_t cut = 1; cut < token.length && room; cut++) {
            if (((uint8_t)token.at[cut] & 0xc0) == 0x80) continue;  // within a character
            bool both = scored(k, token.at, cut, &ignored) && scored(k, token.at + cut, token.length - cut, &ignored);
            if (both)
                room = add_merge(k, &capacity, (merge){{token.at, cut}, {token.at + cut, token.length - cut}, score});
        }
    }
    if (!room) return braid_fail(k->error, BRAID_MEMORY, "no memory for the merges");
    if (k->merge_count > 0) qsort(k->merges, k->merge_count, sizeof *k->merges, compare_merges);
    return BRAID_OK;
}

// ---- writing

static braid_err put_text(const maker *k, json_out *o, const char *key, gguf_text text) {
    char *copy = NULL;
    if (utf8_valid(text.at, text.length) != text.length || memchr(text.at, 0, text.length))
        return braid_fail(k->error, BRAID_FORMAT, "%s: a token is not UTF-8, so tokenizer.json cannot have it",
                          k->f->path);
    copy = model_file_copy(text.at, text.length);
    if (!copy) return braid_fail(k->error, BRAID_MEMORY, "no memory for a token");
    json_out_string(o, key, copy);
    free(copy);
    return BRAID_OK;
}

static braid_err put_vocabulary(maker *k) {
    const uint8_t *at = k->tokens->at;
    braid_err err = BRAID_OK;
    json_out_open(&k->o, "vocab", '{');
    for (uint64_t i = 0; i < k->tokens->count && !err; i++) {
        gguf_text token = gguf_next_string(&at);
        char *copy = NULL;
        // of equal texts the last has the id
        if (tokenizer_id(k->t, token.at, token.length) != i) continue;
        if (utf8_valid(token.at, token.length) == token.length && !memchr(token.at, 0, token.length))
            copy = model_file_copy(token.at, token.length);
        if (!copy)
            err = braid_fail(k->error, BRAID_FORMAT, "%s: token %llu is not UTF-8, so tokenizer.json cannot have it",
                             k->f->path, (unsigned long long)i);
        else
            json_out_u64(&k->o, copy, i);
        free(copy);
    }
    json_out_close(&k->o, '}');
    return err;
}

static braid_err put_pair(maker *k, gguf_text left, gguf_text right) {
    json_out_open(&k->o, NULL, '[');
    braid_err err = put_text(k, &k->o, NULL, left);
    if (!err) err = put_text(k, &k->o, NULL, right);
    json_out_close(&k->o, ']');
    return err;
}

static braid_err put_merges(maker *k) {
    const gguf_key *key = gguf_find(k->g, "tokenizer.ggml.merges");
    const uint8_t *at = key && key->array && key->type == GGUF_STRING ? key->at : NULL;
    braid_err err = BRAID_OK;
    json_out_open(&k->o, "merges", '[');
    for (size_t i = 0; i < k->merge_count && !err; i++) err = put_pair(k, k->merges[i].left, k->merges[i].right);
    for (uint64_t i = 0; !k->spm && at && i < key->count && !err; i++) {
        gguf_text m = gguf_next_string(&at);
        const char *space = m.length > 1 ? memchr(m.at + 1, ' ', m.length - 1) : NULL;
        if (!space) continue;
        gguf_text left = {m.at, (size_t)(space - m.at)}, right = {space + 1, m.length - (size_t)(space + 1 - m.at)};
        // a merge of what is no token is never reached, and the package tokenizers refuses it
        bool known = tokenizer_id(k->t, left.at, left.length) != TOKENIZER_NO_ID &&
                     tokenizer_id(k->t, right.at, right.length) != TOKENIZER_NO_ID;
        if (known) err = put_pair(k, left, right);
    }
    json_out_close(&k->o, ']');
    return err;
}

static braid_err put_model(maker *k) {
    json_out_open(&k->o, "model", '{');
    json_out_string(&k->o, "type", "BPE");
    json_out_null(&k->o, "dropout");
    json_out_null(&k->o, "unk_token");
    json_out_null(&k->o, "continuing_subword_prefix");
    json_out_null(&k->o, "end_of_word_suffix");
    json_out_bool(&k->o, "fuse_unk", k->spm);
    json_out_bool(&k->o, "byte_fallback", k->spm);
    json_out_bool(&k->o, "ignore_merges", k->pre && (k->pre->flags & GGUF_IGNORE_MERGES));
    braid_err err = put_vocabulary(k);
    if (!err) err = put_merges(k);
    json_out_close(&k->o, '}');
    return err;
}

static braid_err put_added(maker *k) {
    const uint8_t *at = k->tokens->at;
    braid_err err = BRAID_OK;
    json_out_open(&k->o, "added_tokens", '[');
    for (uint64_t i = 0; i < k->tokens->count && !err; i++) {
        gguf_text token = gguf_next_string(&at);
        int64_t type = 1;
        if (!k->types || !gguf_element(k->types, i, &type) || type < TYPE_UNKNOWN || type > TYPE_USER) continue;
        if (tokenizer_id(k->t, token.at, token.length) != i) continue;
        json_out_open(&k->o, NULL, '{');
        json_out_u64(&k->o, "id", i);
        err = put_text(k, &k->o, "content", token);
        json_out_bool(&k->o, "single_word", false);
        json_out_bool(&k->o, "lstrip", false);
        json_out_bool(&k->o, "rstrip", false);
        json_out_bool(&k->o, "normalized", false);
        json_out_bool(&k->o, "special", type != TYPE_USER);
        json_out_close(&k->o, '}');
    }
    json_out_close(&k->o, ']');
    return err;
}

static void put_split(json_out *o, const char *regex) {
    json_out_open(o, NULL, '{');
    json_out_string(o, "type", "Split");
    json_out_open(o, "pattern", '{');
    json_out_string(o, "Regex", regex);
    json_out_close(o, '}');
    json_out_string(o, "behavior", "Isolated");
    json_out_bool(o, "invert", false);
    json_out_close(o, '}');
}

static void put_byte_level(json_out *o, const char *key) {
    json_out_open(o, key, '{');
    json_out_string(o, "type", "ByteLevel");
    json_out_bool(o, "add_prefix_space", false);
    json_out_bool(o, "trim_offsets", true);
    json_out_bool(o, "use_regex", false);
    json_out_close(o, '}');
}

static void open_sequence(json_out *o, const char *key, const char *list) {
    json_out_open(o, key, '{');
    json_out_string(o, "type", "Sequence");
    json_out_open(o, list, '[');
}

static void close_sequence(json_out *o) {
    json_out_close(o, ']');
    json_out_close(o, '}');
}

static void put_bpe_steps(json_out *o, const gguf_pre *pre) {
    json_out_null(o, "normalizer");
    open_sequence(o, "pre_tokenizer", "pretokenizers");
    for (size_t i = 0; i < sizeof pre->patterns / sizeof *pre->patterns && pre->patterns[i]; i++)
        put_split(o, pre->patterns[i]);
    put_byte_level(o, NULL);
    close_sequence(o);
    put_byte_level(o, "decoder");
}

static void put_replace(json_out *o, const char *from, const char *to) {
    json_out_open(o, NULL, '{');
    json_out_string(o, "type", "Replace");
    json_out_open(o, "pattern", '{');
    json_out_string(o, "String", from);
    json_out_close(o, '}');
    json_out_string(o, "content", to);
    json_out_close(o, '}');
}

static void put_step(json_out *o, const char *type) {
    json_out_open(o, NULL, '{');
    json_out_string(o, "type", type);
    json_out_close(o, '}');
}

static void put_spm_steps(json_out *o, bool prefix) {
    open_sequence(o, "normalizer", "normalizers");
    if (prefix) {
        json_out_open(o, NULL, '{');
        json_out_string(o, "type", "Prepend");
        json_out_string(o, "prepend", SPACE);
        json_out_close(o, '}');
    }
    put_replace(o, " ", SPACE);
    close_sequence(o);
    json_out_null(o, "pre_tokenizer");
    open_sequence(o, "decoder", "decoders");
    put_replace(o, SPACE, " ");
    put_step(o, "ByteFallback");
    put_step(o, "Fuse");
    if (prefix) {
        json_out_open(o, NULL, '{');
        json_out_string(o, "type", "Strip");
        json_out_string(o, "content", " ");
        json_out_u64(o, "start", 1);
        json_out_u64(o, "stop", 0);
        json_out_close(o, '}');
    }
    close_sequence(o);
}

// ---- the tokens around a text

static void put_item(json_out *o, const char *kind, const char *id) {
    json_out_open(o, NULL, '{');
    json_out_open(o, kind, '{');
    json_out_string(o, "id", id);
    json_out_u64(o, "type_id", 0);
    json_out_close(o, '}');
    json_out_close(o, '}');
}

// One or two texts, each with the tokens around it.
static void put_template(json_out *o, const char *key, int texts, const char *bos, const char *eos) {
    json_out_open(o, key, '[');
    for (int i = 0; i < texts; i++) {
        if (bos) put_item(o, "SpecialToken", bos);
        put_item(o, "Sequence", i == 0 ? "A" : "B");
        if (eos) put_item(o, "SpecialToken", eos);
    }
    json_out_close(o, ']');
}

static void put_special(json_out *o, const char *text, uint32_t id) {
    if (!text) return;
    json_out_open(o, text, '{');
    json_out_string(o, "id", text);
    json_out_open(o, "ids", '[');
    json_out_u64(o, NULL, id);
    json_out_close(o, ']');
    json_out_open(o, "tokens", '[');
    json_out_string(o, NULL, text);
    json_out_close(o, ']');
    json_out_close(o, '}');
}

// The token's text, which the caller frees; NULL: none.
static char *text_of(const maker *k, uint32_t id) {
    size_t length;
    const char *text = id == TOKENIZER_NO_ID ? NULL : tokenizer_token(k->t, id, &length);
    return text && utf8_valid(text, length) == length ? model_file_copy(text, length) : NULL;
}

static braid_err put_around(maker *k) {
    tokenizer_encoder *e = tokenizer_encoder_new(k->t);
    tokenizer_ids ids = {0};
    braid_err err = e ? tokenizer_encode(e, "", 0, TOKENIZER_ADD_SPECIAL, &ids, k->error)
                      : braid_fail(k->error, BRAID_MEMORY, "no memory for a tokenizer");
    uint32_t bos = tokenizer_bos(k->t), eos = tokenizer_eos(k->t);
    bool begins = ids.count > 0 && ids.at[0] == bos, ends = ids.count > begins && ids.at[ids.count - 1] == eos;
    char *first = begins ? text_of(k, bos) : NULL, *last = ends ? text_of(k, eos) : NULL;
    if (!first && !last) {
        json_out_null(&k->o, "post_processor");
    } else {
        json_out_open(&k->o, "post_processor", '{');
        json_out_string(&k->o, "type", "TemplateProcessing");
        put_template(&k->o, "single", 1, first, last);
        put_template(&k->o, "pair", 2, first, last);
        json_out_open(&k->o, "special_tokens", '{');
        put_special(&k->o, first, bos);
        if (!first || !last || strcmp(first, last) != 0) put_special(&k->o, last, eos);
        json_out_close(&k->o, '}');
        json_out_close(&k->o, '}');
    }
    free(first);
    free(last);
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
    return err;
}

static braid_err make_tokenizer(maker *k) {
    k->o = (json_out){.pretty = true};
    json_out_open(&k->o, NULL, '{');
    json_out_string(&k->o, "version", "1.0");
    json_out_null(&k->o, "truncation");
    json_out_null(&k->o, "padding");
    braid_err err = put_added(k);
    if (k->spm)
        put_spm_steps(&k->o, k->prefix);
    else
        put_bpe_steps(&k->o, k->pre);
    if (!err) err = put_around(k);
    if (!err) err = put_model(k);
    json_out_close(&k->o, '}');
    return err;
}

// ---- the files

static braid_err write_json(const maker *k, json_out *o, const char *directory, const char *name) {
    size_t length;
    char *text = json_out_take(o, &length);
    braid_err err = text ? output_file(directory, name, text, length, k->error)
                         : braid_fail(k->error, BRAID_MEMORY, "no memory for %s", name);
    free(text);
    return err;
}

// The class is named so that transformers keeps the tokenizer as the file has it.
static braid_err write_tokenizer_config(const maker *k, const char *directory) {
    json_out o = {.pretty = true};
    char *bos = text_of(k, tokenizer_bos(k->t)), *eos = text_of(k, tokenizer_eos(k->t));
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "tokenizer_class", "PreTrainedTokenizerFast");
    json_out_bool(&o, "clean_up_tokenization_spaces", false);
    json_out_u64(&o, "model_max_length", k->f->config.context);
    if (bos) json_out_string(&o, "bos_token", bos);
    if (eos) json_out_string(&o, "eos_token", eos);
    json_out_close(&o, '}');
    free(bos);
    free(eos);
    return write_json(k, &o, directory, "tokenizer_config.json");
}

// The ids that end a text: the file's end, and its end of a turn.
static braid_err write_generation_config(const maker *k, const char *directory) {
    json_out o = {.pretty = true};
    uint64_t turn;
    uint32_t eos = tokenizer_eos(k->t);
    bool more = gguf_u64(gguf_find(k->g, "tokenizer.ggml.eot_token_id"), &turn) && turn != eos &&
                turn < k->tokens->count;
    json_out_open(&o, NULL, '{');
    if (tokenizer_bos(k->t) != TOKENIZER_NO_ID) json_out_u64(&o, "bos_token_id", tokenizer_bos(k->t));
    if (eos != TOKENIZER_NO_ID && !more) json_out_u64(&o, "eos_token_id", eos);
    if (eos != TOKENIZER_NO_ID && more) {
        json_out_open(&o, "eos_token_id", '[');
        json_out_u64(&o, NULL, eos);
        json_out_u64(&o, NULL, turn);
        json_out_close(&o, ']');
    }
    json_out_close(&o, '}');
    return write_json(k, &o, directory, "generation_config.json");
}

// The ids must be those of the GGUF file.
static braid_err check(const maker *k, const char *text, size_t length) {
    tokenizer *made = NULL;
    bool agree = false;
    braid_err err = tokenizer_parse(text, length, &made, k->error);
    if (!err) err = tokenizers_agree(k->t, made, &agree, k->error);
    tokenizer_free(made);
    if (err || agree) return err;
    return braid_fail(k->error, BRAID_CONFIG,
                      "%s: a tokenizer.json cannot give the ids of its tokenizer; write a GGUF file instead",
                      k->f->path);
}

static braid_err choose_kind(maker *k) {
    const gguf_key *model = gguf_find(k->g, "tokenizer.ggml.model"), *pre = gguf_find(k->g, "tokenizer.ggml.pre");
    gguf_text name;
    char *copy = gguf_string(pre, &name) ? model_file_copy(name.at, name.length) : NULL;
    k->spm = gguf_is_text(model, "llama");
    k->pre = k->spm ? NULL : gguf_pre_find(copy);
    free(copy);
    bool flag = true;
    gguf_bool(gguf_find(k->g, "tokenizer.ggml.add_space_prefix"), &flag);
    k->prefix = flag;
    bool scores = k->scores && k->scores->array && k->scores->type == GGUF_F32 && k->scores->count == k->tokens->count;
    if ((k->spm && scores) || (k->pre && gguf_is_text(model, "gpt2"))) return BRAID_OK;
    return braid_fail(
        k->error, BRAID_CONFIG,
        "%s: braid writes a tokenizer.json for the tokenizers gpt2 and llama with scores; write a GGUF file "
        "instead",
        k->f->path);
}

static braid_err write_all(maker *k, const char *directory) {
    braid_err err = choose_kind(k);
    if (!err && k->spm) err = derive_merges(k);
    if (!err) err = make_tokenizer(k);
    size_t length = 0;
    char *text = json_out_take(&k->o, &length);
    if (!err && !text) err = braid_fail(k->error, BRAID_MEMORY, "no memory for tokenizer.json");
    if (!err) err = check(k, text, length);
    if (!err) err = output_file(directory, "tokenizer.json", text, length, k->error);
    free(text);
    if (!err) err = write_tokenizer_config(k, directory);
    return err ? err : write_generation_config(k, directory);
}

braid_err directory_write_tokenizer(const model_file *f, const char *directory, braid_error *error) {
    tokenizer *t = NULL;
    const gguf *g = &f->gguf[0];
    braid_err err = model_file_tokenizer(f, &t, error);
    if (err) return err;
    maker k = {.g = g,
               .f = f,
               .t = t,
               .tokens = gguf_find(g, "tokenizer.ggml.tokens"),
               .types = gguf_find(g, "tokenizer.ggml.token_type"),
               .scores = gguf_find(g, "tokenizer.ggml.scores"),
               .error = error};
    err = write_all(&k, directory);
    free(k.merges);
    tokenizer_free(t);
    return err;
}
