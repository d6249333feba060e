// Tokenizers from the vocabulary of a GGUF file, with llama.cpp's rules.
#include "text/gguf_pre.h"
#include "text/inside.h"

#include <math.h>
#include <stdio.h>

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4 };

static braid_err add_tokens(tokenizer *t, const tokenizer_vocabulary *v, braid_error *error) {
    braid_err err = BRAID_OK;
    if (v->count > TOKENIZER_MAX_IDS)
        return braid_fail(error, BRAID_LIMIT, "a vocabulary of %u tokens is too large", (unsigned)v->count);
    for (uint32_t i = 0; i < v->count && !err; i++)
        err = vocabulary_add(&t->vocabulary, v->tokens[i].at, v->tokens[i].length, i, error);
    if (!err) err = vocabulary_index(&t->vocabulary, error);
    for (uint32_t i = 0; i < v->count && !err && v->types; i++) {
        uint32_t next_id = 0;
        if (v->types[i] < TYPE_UNKNOWN || v->types[i] > TYPE_USER) continue;
        added_token token = {.special = v->types[i] != TYPE_USER};
        if (vocabulary_find(&t->vocabulary, v->tokens[i].at, v->tokens[i].length) != i) continue;
        err = added_add(t, &token, v->tokens[i].at, v->tokens[i].length, &next_id, error);
    }
    return err;
}

static braid_err add_merges(tokenizer *t, const tokenizer_vocabulary *v, braid_error *error) {
    if (!v->merges)
        return braid_fail(error, BRAID_FORMAT, "a vocabulary of model '%s' without merges is not supported", v->model);
    braid_err err = bpe_reserve(&t->bpe, v->merge_count, error);
    for (uint32_t i = 0; i < v->merge_count && !err; i++) {
        tokenizer_text whole = v->merges[i];
        const char *space = whole.length > 1 ? memchr(whole.at + 1, ' ', whole.length - 1) : NULL;
        if (!space) return braid_fail(error, BRAID_FORMAT, "merge %u has no space", (unsigned)i);
        size_t left = (size_t)(space - whole.at);
        // merges of what is no token are never reached
        braid_error ignored = {0};
        err = bpe_add(&t->bpe, &t->vocabulary, (tokenizer_text){whole.at, left},
                      (tokenizer_text){space + 1, whole.length - left - 1}, &ignored);
        if (err == BRAID_FORMAT) err = BRAID_OK;
        if (err) braid_fail(error, err, "%s", ignored.text);
    }
    return err;
}

static braid_err literal(pattern *p, const char *text) {
    p->literal = malloc(strlen(text) + 1);
    if (!p->literal) return BRAID_MEMORY;
    strcpy(p->literal, text);
    p->literal_length = strlen(text);
    return BRAID_OK;
}

// Spaces become U+2581.
static braid_err escape_spaces(tokenizer *t, braid_error *error) {
    normal_step *s = &t->normal[t->normals++];
    *s = (normal_step){.kind = NORMAL_REPLACE, .content = malloc(4), .content_length = 3};
    if (!s->content || literal(&s->pattern, " ")) return text_no_memory(error);
    strcpy(s->content, "\xe2\x96\x81");
    return BRAID_OK;
}

static braid_err add_patterns(tokenizer *t, const gguf_pre *pre, braid_error *error) {
    for (size_t i = 0; i < 6 && pre->patterns[i]; i++) {
        pre_step *s = &t->pre[t->pres++];
        *s = (pre_step){.kind = PRE_SPLIT, .behavior = SPLIT_ISOLATED, .scan = scan_of_pattern(pre->patterns[i])};
        braid_err err = regex_new(pre->patterns[i], strlen(pre->patterns[i]), &s->pattern.regex, error);
        if (err) return err;
    }
    return BRAID_OK;
}

static braid_err load_bpe(tokenizer *t, const tokenizer_vocabulary *v, const char *name, bool *add_bos,
                          braid_error *error) {
    const gguf_pre *pre = gguf_pre_find(name);
    if (!pre) return braid_fail(error, BRAID_CONFIG, "tokenizer.ggml.pre '%.64s' is not supported", name);
    t->kind = MODEL_BPE;
    t->bpe.unknown = TOKENIZER_NO_ID;
    t->bpe.ignore_merges = pre->flags & GGUF_IGNORE_MERGES;
    *add_bos = pre->flags & GGUF_ADD_BOS;
    if (pre->flags & GGUF_NO_BOS && v->bos == TOKENIZER_NO_ID) t->bos = TOKENIZER_NO_ID;
    braid_err err = add_merges(t, v, error);
    if (!err) err = add_patterns(t, pre, error);
    bpe_finish(&t->bpe, &t->vocabulary);
    if (pre->flags & GGUF_ESCAPE) {
        t->bpe.byte_fallback = t->bpe.whole_newlines = true;
        return err ? err : escape_spaces(t, error);
    }
    t->pre[t->pres++] = (pre_step){.kind = PRE_BYTE_LEVEL, .map_bytes = true};
    t->decode[t->decodes++].kind = DECODE_BYTE_LEVEL;
    choose_ways(t);
    return err;
}

static braid_err load_spm(tokenizer *t, const tokenizer_vocabulary *v, braid_error *error) {
    t->kind = MODEL_SPM;
    t->gguf_space_prefix = v->add_space_prefix != 0;
    t->spm.scores = calloc(v->count + 1, sizeof *t->spm.scores);
    if (!t->spm.scores) return text_no_memory(error);
    for (uint32_t i = 0; i < v->count && v->scores; i++) {
        if (isnan(v->scores[i]))
            return braid_fail(error, BRAID_FORMAT, "the score of token %u is not a number", (unsigned)i);
        t->spm.scores[i] = v->scores[i];
    }
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        t->spm.byte_ids[i] = vocabulary_find(&t->vocabulary, name, 6);
        name[0] = (char)i;
        if (t->spm.byte_ids[i] == TOKENIZER_NO_ID) t->spm.byte_ids[i] = vocabulary_find(&t->vocabulary, name, 1);
    }
    return escape_spaces(t, error);
}

static void load_wordpiece(tokenizer *t, const tokenizer_vocabulary *v) {
    wordpiece *w = &t->wordpiece;
    t->kind = MODEL_WORDPIECE;
    w->phantom = true;
    w->most_chars = UINT64_MAX;
    w->unknown = v->unknown == TOKENIZER_NO_ID ? 100 : v->unknown;
    for (uint32_t i = 0; i < t->vocabulary.count; i++)
        if (t->vocabulary.entries[i].length > w->longest) w->longest = t->vocabulary.entries[i].length;
    t->normal[t->normals++] = (normal_step){.kind = NORMAL_WPM, .accents = true, .lowercase = true};
    t->pre[t->pres++].kind = PRE_WHITESPACE_SPLIT;
}

static braid_err add_around(tokenizer *t, const tokenizer_vocabulary *v, bool bos, bool eos, braid_error *error) {
    if (v->add_bos >= 0) bos = v->add_bos;
    if (v->add_eos >= 0) eos = v->add_eos;
    t->prefix = malloc(sizeof *t->prefix);
    t->suffix = malloc(sizeof *t->suffix);
    if (!t->prefix || !t->suffix) return text_no_memory(error);
    if (bos && t->bos != TOKENIZER_NO_ID) t->prefix[t->prefix_count++] = t->bos;
    if (eos && t->eos != TOKENIZER_NO_ID) t->suffix[t->suffix_count++] = t->eos;
    return BRAID_OK;
}

static void add_stop(tokenizer *t, uint32_t id) {
    if (id >= t->size || t->stop_count == TOKENIZER_MAX_STOPS) return;
    for (uint32_t i = 0; i < t->stop_count; i++)
        if (t->stops[i] == id) return;
    t->stops[t->stop_count++] = id;
}

// Besides the end token of the file, the tokens of these texts end a generated text, as in llama.cpp 0c1e57098: the ends of
// turns of chat models, and the marks of models that fill in the middle.
static void add_stops(tokenizer *t) {
    static const char *const texts[] = {
        "</s>",
        "<EOT>",
        "<PAD>",
        "<REPO>",
        "<end_of_turn>",
        "<eos>",
        "<fim-pad>",
        "<fim-repo>",
        "<fim_pad>",
        "<reponame>",
        "<turn|>",
        "<|call|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|end|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|file_sep|>",
        "<|fim_pad|>",
        "<|fim_repo|>",
        "<|im_end|>",
        "<|repo_name|>",
        "<|return|>",
        "[EOS]",
        "[EOT]",
        "_<EOT>",
        "<end_of_utterance>",
    };
    if (t->eos != TOKENIZER_NO_ID) add_stop(t, t->eos);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t id = tokenizer_id(t, texts[i], strlen(texts[i]));
        if (id != TOKENIZER_NO_ID) add_stop(t, id);
    }
}

static braid_err load(tokenizer *t, const tokenizer_vocabulary *v, braid_error *error) {
    bool add_bos = false, add_eos = false;
    t->gguf = true;
    t->bos = v->bos;
    t->eos = v->eos;
    braid_err err = add_tokens(t, v, error);
    if (err) return err;
    if (strcmp(v->model, "gpt2") == 0 || strcmp(v->model, "gemma4") == 0) {
        // llama.cpp's defaults
        if (t->bos == TOKENIZER_NO_ID) t->bos = 11;
        if (t->eos == TOKENIZER_NO_ID) t->eos = 11;
        err = load_bpe(t, v, strcmp(v->model, "gpt2") == 0 ? v->pre : "gemma4", &add_bos, error);
    } else if (strcmp(v->model, "llama") == 0) {
        if (t->bos == TOKENIZER_NO_ID) t->bos = 1;
        if (t->eos == TOKENIZER_NO_ID) t->eos = 2;
        add_bos = true;
        err = load_spm(t, v, error);
    } else if (strcmp(v->model, "bert") == 0) {
        t->bos = v->classifier != TOKENIZER_NO_ID ? v->classifier : v->bos != TOKENIZER_NO_ID ? v->bos : 101;
        t->eos = v->separator != TOKENIZER_NO_ID ? v->separator : 102;
        add_bos = add_eos = true;
        load_wordpiece(t, v);
    } else {
        return braid_fail(error, BRAID_CONFIG, "tokenizer.ggml.model '%.64s' is not supported", v->model);
    }
    if (!err) err = add_around(t, v, add_bos, add_eos, error);
    if (!err) err = added_finish(t, error);
    if (!err) add_stops(t);
    return err;
}

braid_err tokenizer_from_vocabulary(const tokenizer_vocabulary *v, tokenizer **out, braid_error *error) {
    if (!v->model) return braid_fail(error, BRAID_FORMAT, "the file has no tokenizer.ggml.model");
    if (!v->tokens || v->count == 0) return braid_fail(error, BRAID_FORMAT, "the file has no tokenizer.ggml.tokens");
    tokenizer *t = unicode_init() ? calloc(1, sizeof *t) : NULL;
    if (!t) return text_no_memory(error);
    braid_err err = load(t, v, error);
    if (err) {
        tokenizer_free(t);
        return err;
    }
    *out = t;
    return BRAID_OK;
}
