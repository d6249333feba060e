#include "weights/vocabulary.h"

#include "text/gguf_pre.h"
#include "text/json_scan.h"
#include "weights/convert_inside.h"
#include "weights/read_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

// The members of tokenizer.json that GGUF's arrays are made from, as spans of its text.
typedef struct members {
    json_span model, added, type, merges, fallback, ignore;
} members;

typedef struct maker {
    const tokenizer *t;
    uint32_t rows;
    vocabulary_out *out;
    members m;
    braid_error *error;
} maker;

static braid_err no_memory(const maker *k) {
    return braid_fail(k->error, BRAID_MEMORY, "no memory for the vocabulary");
}

static bool is(json_span span, const char *text) {
    return span.length == strlen(text) && memcmp(span.at, text, span.length) == 0;
}

// Finds members of an object by their keys.
static bool find_members(json_span object, const char *const *names, json_span **spans, size_t count) {
    json_scan s = json_scan_of(object);
    bool first = true, fine = json_scan_take(&s, '{');
    while (fine && json_scan_more(&s, '}', &first, &fine)) {
        json_span key, value;
        fine = json_scan_value(&s, &key) && json_scan_take(&s, ':') && json_scan_value(&s, &value);
        for (size_t i = 0; i < count && fine; i++)
            if (is(key, names[i])) *spans[i] = value;
    }
    return fine;
}

static bool read_members(const char *text, size_t length, members *m) {
    static const char *const outer[] = {"\"model\"", "\"added_tokens\""};
    static const char *const inner[] = {"\"type\"", "\"merges\"", "\"byte_fallback\"", "\"ignore_merges\""};
    json_span *outside[] = {&m->model, &m->added}, *inside[] = {&m->type, &m->merges, &m->fallback, &m->ignore};
    return find_members((json_span){text, length}, outer, outside, 2) && find_members(m->model, inner, inside, 4);
}

// ---- tokens

// The texts move while they are collected, so `at` is an offset + 1 until they are complete.
static void add_text(vocabulary_out *out, tokenizer_text *slot, const char *text, size_t length) {
    *slot = (tokenizer_text){(const char *)(uintptr_t)(out->texts.count + 1), length};
    buffer_add(&out->texts, text, length);
}

static void settle(const vocabulary_out *out, tokenizer_text *texts, size_t count) {
    const char *from = out->texts.at ? out->texts.at : "";
    for (size_t i = 0; i < count; i++) texts[i].at = from + ((uintptr_t)texts[i].at - 1);
}

static int32_t type_of(const maker *k, uint32_t id, const char *text, size_t length) {
    bool byte = length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' && is(k->m.fallback, "true");
    return tokenizer_is_special(k->t, id) ? TYPE_CONTROL : byte ? TYPE_BYTE : TYPE_NORMAL;
}

// Ids without a token, and rows of the embedding behind the last one, get names that no text has.
static braid_err add_tokens(maker *k) {
    vocabulary_out *out = k->out;
    out->tokens = calloc(k->rows, sizeof *out->tokens);
    out->types = calloc(k->rows, sizeof *out->types);
    if (!out->tokens || !out->types) return no_memory(k);
    for (uint32_t id = 0; id < k->rows; id++) {
        char pad[24];
        size_t length;
        const char *text = tokenizer_token(k->t, id, &length);
        out->types[id] = text ? type_of(k, id, text, length) : TYPE_UNUSED;
        if (!text) {
            length = (size_t)snprintf(pad, sizeof pad, "[PAD%u]", (unsigned)id);
            text = pad;
        }
        add_text(out, &out->tokens[id], text, length);
    }
    return BRAID_OK;
}

// Added tokens that are not special are matched before the text is cut, too.
static braid_err mark_added(maker *k) {
    json *d = NULL;
    braid_err err = k->m.added.at ? json_parse(k->m.added.at, k->m.added.length, &d, k->error) : BRAID_OK;
    for (const json_value *v = d ? json_first(d, json_root(d)) : NULL; v; v = json_next(d, v)) {
        const json_value *content = json_member(d, v, "content");
        if (!json_string(content)) continue;
        uint32_t id = tokenizer_id(k->t, content->text, content->length);
        if (id < k->rows && k->out->types[id] == TYPE_NORMAL) k->out->types[id] = TYPE_USER;
    }
    json_free(d);
    return err;
}

// ---- merges

// "left right", or a pair, which becomes such a text.
static bool read_merge(json_scan *s, buffer b[2], bool pairs, buffer *joined) {
    const char *text;
    size_t length;
    joined->count = 0;
    if (!pairs) {
        if (!json_scan_string(s, &b[0], &text, &length)) return false;
        buffer_add(joined, text, length);
        return true;
    }
    bool fine = json_scan_take(s, '[') && json_scan_string(s, &b[0], &text, &length);
    if (fine) buffer_add(joined, text, length);
    buffer_byte(joined, ' ');
    fine = fine && json_scan_take(s, ',') && json_scan_string(s, &b[1], &text, &length) && json_scan_take(s, ']');
    if (fine) buffer_add(joined, text, length);
    return fine;
}

static braid_err add_merges(maker *k) {
    vocabulary_out *out = k->out;
    json_scan s = json_scan_of(k->m.merges);
    buffer b[2] = {{0}, {0}}, joined = {0};
    size_t most = 1, count = 0;
    for (size_t i = 0; i < k->m.merges.length; i++) most += k->m.merges.at[i] == ',';
    out->merges = calloc(most + 1, sizeof *out->merges);
    bool first = true, fine = out->merges && json_scan_take(&s, '[');
    bool pairs = fine && json_scan_peek(&s) == '[';
    while (fine && json_scan_more(&s, ']', &first, &fine)) {
        fine = count < most && read_merge(&s, b, pairs, &joined) && !joined.failed;
        bool version = joined.count >= 8 && memcmp(joined.at, "#version", 8) == 0;
        if (fine && !version) add_text(out, &out->merges[count++], joined.at, joined.count);
    }
    out->v.merge_count = (uint32_t)count;
    buffer_free(&b[0]);
    buffer_free(&b[1]);
    buffer_free(&joined);
    if (!out->merges) return no_memory(k);
    return fine ? BRAID_OK : braid_fail(k->error, BRAID_FORMAT, "tokenizer.json: model.merges is malformed");
}

// Scores in the order of the merges: the token that an earlier merge makes is taken first. Tokens
// that no merge makes are single characters, or are never made.
static braid_err score_merges(maker *k) {
    vocabulary_out *out = k->out;
    buffer whole = {0};
    out->scores = calloc(k->rows, sizeof *out->scores);
    if (!out->scores) return no_memory(k);
    for (uint32_t i = out->v.merge_count; i-- > 0;) {
        tokenizer_text merge = out->merges[i];
        const char *space = merge.length > 1 ? memchr(merge.at + 1, ' ', merge.length - 1) : NULL;
        if (!space) continue;
        whole.count = 0;
        buffer_add(&whole, merge.at, (size_t)(space - merge.at));
        buffer_add(&whole, space + 1, merge.length - (size_t)(space + 1 - merge.at));
        if (whole.failed) break;
        uint32_t id = tokenizer_id(k->t, whole.at, whole.count);
        if (id < k->rows) out->scores[id] = -(float)i;
    }
    bool failed = whole.failed;
    buffer_free(&whole);
    return failed ? no_memory(k) : BRAID_OK;
}

// ---- the kind of tokenizer

static void settle_all(vocabulary_out *out) {
    settle(out, out->tokens, out->v.count);
    settle(out, out->merges, out->v.merge_count);
    out->v.tokens = out->tokens;
    out->v.merges = out->merges;
    out->v.types = out->types;
}

static braid_err try_kind(const maker *k, bool *agree) {
    tokenizer *made = NULL;
    braid_error ignored;
    *agree = false;
    // a vocabulary that this kind of tokenizer cannot have is not of this kind
    braid_err err = tokenizer_from_vocabulary(&k->out->v, &made, &ignored);
    if (err) return err == BRAID_MEMORY ? no_memory(k) : BRAID_OK;
    err = tokenizers_agree(k->t, made, agree, k->error);
    tokenizer_free(made);
    return err;
}

// The name that llama.cpp gives to the pattern of the pre-tokenizer: the first that gives the same
// ids.
static braid_err choose_pre(const maker *k, bool *agree) {
    static const char *const names[] = {"gpt-2",          "smollm",      "llama-bpe",   "qwen2",      "dbrx",
                                        "tekken",         "gpt-4o",      "deepseek-v3", "falcon",     "deepseek-llm",
                                        "deepseek-coder", "chatglm-bpe", "glm4",        "seed-coder", "bailingmoe",
                                        "qwen35",         "default"};
    bool ignores = is(k->m.ignore, "true");
    braid_err err = BRAID_OK;
    k->out->v.model = "gpt2";
    for (size_t i = 0; i < sizeof names / sizeof *names && !*agree && !err; i++) {
        const gguf_pre *pre = gguf_pre_find(names[i]);
        if (!pre || ignores != ((pre->flags & GGUF_IGNORE_MERGES) != 0)) continue;
        k->out->v.pre = names[i];
        err = try_kind(k, agree);
    }
    return err;
}

static braid_err choose_spm(maker *k, bool *agree) {
    braid_err err = score_merges(k);
    k->out->v.model = "llama";
    k->out->v.pre = "default";
    k->out->v.scores = k->out->scores;
    for (int prefix = 1; prefix >= 0 && !*agree && !err; prefix--) {
        k->out->v.add_space_prefix = prefix;
        err = try_kind(k, agree);
    }
    return err;
}

static braid_err choose_ends(const maker *k) {
    tokenizer_vocabulary *v = &k->out->v;
    tokenizer_encoder *e = tokenizer_encoder_new(k->t);
    tokenizer_ids ids = {0};
    braid_err err = e ? tokenizer_encode(e, "", 0, TOKENIZER_ADD_SPECIAL, &ids, k->error) : no_memory(k);
    uint32_t stops, stop = *tokenizer_stops(k->t, &stops);
    v->bos = tokenizer_bos(k->t);
    v->eos = tokenizer_eos(k->t);
    // llama.cpp takes token 11 for what is absent
    if (v->eos == TOKENIZER_NO_ID) v->eos = stops > 0 ? stop : v->bos;
    if (v->bos == TOKENIZER_NO_ID) v->bos = v->eos;
    v->unknown = v->separator = v->classifier = TOKENIZER_NO_ID;
    v->add_bos = !err && ids.count > 0 && ids.at[0] == v->bos;
    v->add_eos = !err && ids.count > (size_t)v->add_bos && ids.at[ids.count - 1] == v->eos;
    v->add_space_prefix = -1;
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
    return err;
}

static braid_err make(maker *k) {
    if (!is(k->m.type, "\"BPE\"") && (k->m.type.at || !k->m.merges.at))
        return braid_fail(k->error, BRAID_CONFIG,
                          "tokenizer.json: a model of type %.*s; braid writes BPE tokenizers into GGUF files",
                          (int)(k->m.type.length < 40 ? k->m.type.length : 40), k->m.type.at ? k->m.type.at : "");
    bool agree = false, fallback = is(k->m.fallback, "true");
    k->out->v.count = k->rows;
    braid_err err = add_tokens(k);
    if (!err) err = mark_added(k);
    if (!err) err = add_merges(k);
    if (!err && k->out->texts.failed) err = no_memory(k);
    if (err) return err;
    settle_all(k->out);
    err = choose_ends(k);
    if (!err) err = fallback ? choose_spm(k, &agree) : choose_pre(k, &agree);
    if (err || agree) return err;
    return braid_fail(
        k->error, BRAID_CONFIG,
        "tokenizer.json: no tokenizer of llama.cpp gives the same ids; write a directory instead of a GGUF file");
}

braid_err vocabulary_of_tokenizer(const char *directory, const tokenizer *t, uint32_t rows, vocabulary_out *out,
                                  braid_error *error) {
    char *text;
    size_t length;
    *out = (vocabulary_out){0};
    braid_err err = read_text(directory, "tokenizer.json", TOKENIZER_MAX_FILE_BYTES, &text, &length, error);
    if (err) return err;
    maker k = {.t = t, .rows = rows, .out = out, .error = error};
    err = text && read_members(text, length, &k.m) ? make(&k)
                                                   : braid_fail(error, BRAID_FORMAT, "tokenizer.json is malformed");
    free(text);
    return err;
}

void vocabulary_out_free(vocabulary_out *out) {
    buffer_free(&out->texts);
    free(out->tokens);
    free(out->merges);
    free(out->scores);
    free(out->types);
    *out = (vocabulary_out){0};
}
