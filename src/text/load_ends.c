// Post-processors and decoders of a tokenizer.json.
#include "text/load.h"

static braid_err append(uint32_t **list, uint32_t *count, uint32_t id, bool front, braid_error *error) {
    if (*count == TOKENIZER_MAX_STEPS)
        return braid_fail(error, BRAID_LIMIT, "tokenizer.json: the post-processor adds too many tokens");
    uint32_t *more = realloc(*list, (*count + 1) * sizeof *more);
    if (!more) return text_no_memory(error);
    *list = more;
    if (front) memmove(more + 1, more, *count * sizeof *more);
    more[front ? 0 : *count] = id;
    ++*count;
    return BRAID_OK;
}

static bool read_id(const json_value *v, uint32_t *id) {
    uint64_t number;
    if (!json_u64(v, &number) || number >= TOKENIZER_MAX_IDS) return false;
    *id = (uint32_t)number;
    return true;
}

// The ids of a special token of a template, in front of the text (before) or behind it.
static braid_err add_special(tokenizer *t, const json *d, const json_value *ids, bool before, uint32_t at,
                             braid_error *error) {
    braid_err err = BRAID_OK;
    if (!ids || ids->kind != JSON_ARRAY)
        return load_malformed("post-processor 'TemplateProcessing'", "special_tokens", error);
    for (const json_value *v = json_first(d, ids); v && !err; v = json_next(d, v), at++) {
        uint32_t id;
        if (!read_id(v, &id)) return load_malformed("post-processor 'TemplateProcessing'", "special_tokens", error);
        if (!before) {
            err = append(&t->suffix, &t->suffix_count, id, false, error);
            continue;
        }
        err = append(&t->prefix, &t->prefix_count, id, false, error);
        // in front of what an earlier processor has put there
        if (err) continue;
        memmove(t->prefix + at + 1, t->prefix + at, (t->prefix_count - 1 - at) * sizeof *t->prefix);
        t->prefix[at] = id;
    }
    return err;
}

static braid_err load_template(tokenizer *t, const json *d, const json_value *v, braid_error *error) {
    const json_value *single = json_member(d, v, "single"), *tokens = json_member(d, v, "special_tokens");
    bool seen = false;
    uint32_t at = 0;
    braid_err err = BRAID_OK;
    if (!single || single->kind != JSON_ARRAY)
        return load_malformed("post-processor 'TemplateProcessing'", "single", error);
    for (const json_value *part = json_first(d, single); part && !err; part = json_next(d, part)) {
        const json_value *special = json_member(d, part, "SpecialToken"), *text = json_member(d, part, "Sequence");
        const char *name = json_string(json_member(d, special ? special : text, "id"));
        if (text && name && strcmp(name, "A") == 0 && !seen) {
            seen = true;
        } else if (special && name) {
            const json_value *ids = json_member(d, json_member(d, tokens, name), "ids");
            uint32_t before = t->prefix_count;
            err = add_special(t, d, ids, !seen, at, error);
            at += t->prefix_count - before;
        } else {
            return braid_fail(error, BRAID_CONFIG,
                              "tokenizer.json: a template that does not use the text exactly once is not supported");
        }
    }
    if (!err && !seen)
        err = braid_fail(error, BRAID_CONFIG,
                         "tokenizer.json: a template that does not use the text exactly once is not supported");
    return err;
}

// ["text", id]
static bool pair_id(const json *d, const json_value *pair, uint32_t *id) {
    if (!pair || pair->kind != JSON_ARRAY || pair->count != 2) return false;
    return read_id(json_next(d, json_first(d, pair)), id);
}

static braid_err load_around(tokenizer *t, const json *d, const json_value *v, const char *kind, braid_error *error) {
    uint32_t cls, sep;
    if (!pair_id(d, json_member(d, v, "cls"), &cls) || !pair_id(d, json_member(d, v, "sep"), &sep))
        return load_malformed(kind, "cls and sep", error);
    braid_err err = append(&t->prefix, &t->prefix_count, cls, true, error);
    return err ? err : append(&t->suffix, &t->suffix_count, sep, false, error);
}

braid_err load_post_processor(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error) {
    const char *type = json_string(json_member(d, v, "type"));
    if (!type) return load_malformed("a post-processor", "type", error);
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(t, d, json_member(d, v, "processors"), depth, load_post_processor, "post-processor",
                             error);
    if (strcmp(type, "ByteLevel") == 0) return BRAID_OK;  // it moves offsets only
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(t, d, v, error);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return load_around(t, d, v, "a post-processor", error);
    return load_refuse("post-processor", type, error);
}

static braid_err load_strip(decode_step *s, const json *d, const json_value *v, braid_error *error) {
    bool fine = load_character(json_member(d, v, "content"), s->character) &&
                json_u64(json_member(d, v, "start"), &s->start) && json_u64(json_member(d, v, "stop"), &s->stop);
    return fine ? BRAID_OK : load_malformed("decoder 'Strip'", "content, start and stop", error);
}

static braid_err fill_decoder(decode_step *s, const json *d, const json_value *v, braid_error *error) {
    const char *source, *scheme;
    braid_err err;
    switch (s->kind) {
    case DECODE_REPLACE:
        err = load_pattern(&s->pattern, d, json_member(d, v, "pattern"), &source, error);
        return err ? err
                   : load_text(json_member(d, v, "content"), "decoder 'Replace'", "content", &s->text, &s->text_length,
                               error);
    case DECODE_STRIP: return load_strip(s, d, v, error);
    case DECODE_METASPACE:
        if (!load_character(json_member(d, v, "replacement"), s->character))
            return load_malformed("decoder 'Metaspace'", "replacement", error);
        scheme = json_string(json_member(d, v, "prepend_scheme"));
        s->drop_first = !(scheme && strcmp(scheme, "never") == 0) && load_flag(d, v, "add_prefix_space", true);
        return BRAID_OK;
    case DECODE_WORDPIECE:
        s->cleanup = load_flag(d, v, "cleanup", true);
        return load_text(json_member(d, v, "prefix"), "decoder 'WordPiece'", "prefix", &s->text, &s->text_length,
                         error);
    case DECODE_BPE:
        return load_text(json_member(d, v, "suffix"), "decoder 'BPEDecoder'", "suffix", &s->text, &s->text_length,
                         error);
    default: return BRAID_OK;
    }
}

braid_err load_decoder(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error) {
    static const char *const names[] = {[DECODE_BYTE_LEVEL] = "ByteLevel",
                                        [DECODE_BYTE_FALLBACK] = "ByteFallback",
                                        [DECODE_FUSE] = "Fuse",
                                        [DECODE_REPLACE] = "Replace",
                                        [DECODE_STRIP] = "Strip",
                                        [DECODE_METASPACE] = "Metaspace",
                                        [DECODE_WORDPIECE] = "WordPiece",
                                        [DECODE_BPE] = "BPEDecoder"};
    const char *type = json_string(json_member(d, v, "type"));
    if (type && strcmp(type, "Sequence") == 0)
        return load_sequence(t, d, json_member(d, v, "decoders"), depth, load_decoder, "decoder", error);
    if (t->decodes == TOKENIZER_MAX_STEPS) return braid_fail(error, BRAID_LIMIT, "tokenizer.json: too many decoders");
    for (unsigned i = 0; type && i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i]) != 0) continue;
        decode_step *s = &t->decode[t->decodes++];
        s->kind = (decode_kind)i;
        return fill_decoder(s, d, v, error);
    }
    return load_refuse("decoder", type, error);
}
