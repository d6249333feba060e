// Normalizers and pre-tokenizers of a tokenizer.json.
#include "text/inside.h"
#include "text/load.h"

enum { LOAD_MAX_DEPTH = 8 };

braid_err load_refuse(const char *kind, const char *name, braid_error *error) {
    return braid_fail(error, BRAID_CONFIG, "tokenizer.json: %s '%.64s' is not supported", kind, name ? name : "");
}

braid_err load_malformed(const char *kind, const char *member, braid_error *error) {
    return braid_fail(error, BRAID_FORMAT, "tokenizer.json: %s has no usable '%s'", kind, member);
}

bool load_flag(const json *d, const json_value *v, const char *name, bool fallback) {
    bool value = fallback;
    json_bool(json_member(d, v, name), &value);
    return value;
}

braid_err load_text(const json_value *v, const char *kind, const char *member, char **out, size_t *length,
                    braid_error *error) {
    if (!json_string(v)) return load_malformed(kind, member, error);
    *out = malloc(v->length + 1);
    if (!*out) return text_no_memory(error);
    memcpy(*out, v->text, v->length + 1);
    *length = v->length;
    return BRAID_OK;
}

bool load_character(const json_value *v, char out[5]) {
    const char *text = json_string(v);
    if (!text || v->length == 0 || utf8_width(text[0]) != v->length) return false;
    memcpy(out, text, v->length + 1);
    return true;
}

braid_err load_pattern(pattern *p, const json *d, const json_value *v, const char **source, braid_error *error) {
    const json_value *literal = json_member(d, v, "String"), *expression = json_member(d, v, "Regex");
    *source = NULL;
    if (json_string(expression)) {
        *source = expression->text;
        return regex_new(expression->text, expression->length, &p->regex, error);
    }
    if (!json_string(literal)) return load_malformed("a pattern", "String or Regex", error);
    if (literal->length == 0)
        return braid_fail(error, BRAID_CONFIG, "tokenizer.json: an empty pattern is not supported");
    return load_text(literal, "a pattern", "String", &p->literal, &p->literal_length, error);
}

// The items of a Sequence, each by `load`.
braid_err load_sequence(tokenizer *t, const json *d, const json_value *list, unsigned depth, load_step load,
                        const char *kind, braid_error *error) {
    if (!list || list->kind != JSON_ARRAY) return load_malformed(kind, "list of steps", error);
    if (depth == LOAD_MAX_DEPTH)
        return braid_fail(error, BRAID_LIMIT, "tokenizer.json: %ss are nested too deeply", kind);
    braid_err err = BRAID_OK;
    for (const json_value *v = json_first(d, list); v && !err; v = json_next(d, v))
        err = load(t, d, v, depth + 1, error);
    return err;
}

static braid_err read_base64(const char *text, buffer *out, braid_error *error) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, count = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        if (!digit) return load_malformed("normalizer 'Precompiled'", "precompiled_charsmap", error);
        bits = bits << 6 | (uint32_t)(digit - digits);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        buffer_byte(out, (char)(bits >> count));
    }
    return out->failed ? text_no_memory(error) : BRAID_OK;
}

// Bytes of the trie as u32, the trie, then texts that end with 0.
static braid_err load_charsmap(normal_step *s, const json_value *v, braid_error *error) {
    buffer b = {0};
    uint32_t bytes = 0;
    if (!json_string(v)) return load_malformed("normalizer 'Precompiled'", "precompiled_charsmap", error);
    braid_err err = read_base64(v->text, &b, error);
    if (!err && b.count >= 4) memcpy(&bytes, b.at, 4);
    if (!err && (bytes < 4 || bytes % 4 || bytes > b.count - 4))
        err = load_malformed("normalizer 'Precompiled'", "precompiled_charsmap", error);
    if (!err) {
        s->map.count = bytes / 4;
        s->map.length = b.count - 4 - bytes;
        s->map.units = malloc(bytes);
        s->map.texts = calloc(1, s->map.length + 1);
        if (!s->map.units || !s->map.texts) err = text_no_memory(error);
    }
    if (!err) {
        memcpy(s->map.units, b.at + 4, bytes);
        memcpy(s->map.texts, b.at + 4 + bytes, s->map.length);
        if (utf8_valid(s->map.texts, s->map.length) != s->map.length)
            err = load_malformed("normalizer 'Precompiled'", "precompiled_charsmap", error);
    }
    buffer_free(&b);
    return err;
}

static void load_bert(normal_step *s, const json *d, const json_value *v) {
    s->clean = load_flag(d, v, "clean_text", true);
    s->chinese = load_flag(d, v, "handle_chinese_chars", true);
    s->lowercase = load_flag(d, v, "lowercase", true);
    s->accents = load_flag(d, v, "strip_accents", s->lowercase);
}

static braid_err fill_normalizer(normal_step *s, const json *d, const json_value *v, braid_error *error) {
    const char *source;
    braid_err err = BRAID_OK;
    switch (s->kind) {
    case NORMAL_STRIP:
        s->left = load_flag(d, v, "strip_left", false);
        s->right = load_flag(d, v, "strip_right", false);
        return BRAID_OK;
    case NORMAL_REPLACE:
        err = load_pattern(&s->pattern, d, json_member(d, v, "pattern"), &source, error);
        return err ? err
                   : load_text(json_member(d, v, "content"), "normalizer 'Replace'", "content", &s->content,
                               &s->content_length, error);
    case NORMAL_PREPEND:
        return load_text(json_member(d, v, "prepend"), "normalizer 'Prepend'", "prepend", &s->content,
                         &s->content_length, error);
    case NORMAL_PRECOMPILED: return load_charsmap(s, json_member(d, v, "precompiled_charsmap"), error);
    case NORMAL_BERT: load_bert(s, d, v); return BRAID_OK;
    default: return BRAID_OK;
    }
}

braid_err load_normalizer(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error) {
    static const char *const names[] = {[NORMAL_NFC] = "NFC",
                                        [NORMAL_NFD] = "NFD",
                                        [NORMAL_NFKC] = "NFKC",
                                        [NORMAL_NFKD] = "NFKD",
                                        [NORMAL_LOWERCASE] = "Lowercase",
                                        [NORMAL_STRIP] = "Strip",
                                        [NORMAL_STRIP_ACCENTS] = "StripAccents",
                                        [NORMAL_REPLACE] = "Replace",
                                        [NORMAL_PREPEND] = "Prepend",
                                        [NORMAL_BERT] = "BertNormalizer",
                                        [NORMAL_NMT] = "Nmt",
                                        [NORMAL_BYTE_LEVEL] = "ByteLevel",
                                        [NORMAL_PRECOMPILED] = "Precompiled"};
    const char *type = json_string(json_member(d, v, "type"));
    if (type && strcmp(type, "Sequence") == 0)
        return load_sequence(t, d, json_member(d, v, "normalizers"), depth, load_normalizer, "normalizer", error);
    if (t->normals == TOKENIZER_MAX_STEPS)
        return braid_fail(error, BRAID_LIMIT, "tokenizer.json: too many normalizers");
    for (unsigned i = 0; type && i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i]) != 0) continue;
        normal_step *s = &t->normal[t->normals++];
        s->kind = (normal_kind)i;
        return fill_normalizer(s, d, v, error);
    }
    return load_refuse("normalizer", type, error);
}

static bool load_behavior(const json_value *v, behavior *out) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *text = json_string(v);
    for (unsigned i = 0; text && i < 5; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *out = (behavior)i;
        return true;
    }
    return false;
}

static braid_err load_metaspace(pre_step *s, const json *d, const json_value *v, braid_error *error) {
    const char *scheme = json_string(json_member(d, v, "prepend_scheme"));
    if (!load_character(json_member(d, v, "replacement"), s->replacement))
        return load_malformed("pre-tokenizer 'Metaspace'", "replacement", error);
    s->split = load_flag(d, v, "split", true);
    s->scheme = PREPEND_ALWAYS;
    if (scheme && strcmp(scheme, "first") == 0) s->scheme = PREPEND_FIRST;
    if (scheme && strcmp(scheme, "never") == 0) s->scheme = PREPEND_NEVER;
    if (!load_flag(d, v, "add_prefix_space", true)) s->scheme = PREPEND_NEVER;
    return BRAID_OK;
}

static braid_err fill_pre_tokenizer(pre_step *s, const json *d, const json_value *v, braid_error *error) {
    uint64_t length = 0;
    const char *source;
    braid_err err;
    switch (s->kind) {
    case PRE_BYTE_LEVEL:
        s->prefix_space = load_flag(d, v, "add_prefix_space", true);
        s->use_regex = load_flag(d, v, "use_regex", true);
        s->map_bytes = true;
        return BRAID_OK;
    case PRE_SPLIT:
        s->invert = load_flag(d, v, "invert", false);
        err = load_pattern(&s->pattern, d, json_member(d, v, "pattern"), &source, error);
        if (!err && !load_behavior(json_member(d, v, "behavior"), &s->behavior))
            err = load_malformed("pre-tokenizer 'Split'", "behavior", error);
        s->scan = !err && source ? scan_of_pattern(source) : SCAN_NONE;
        return err;
    case PRE_DIGITS: s->individual = load_flag(d, v, "individual_digits", false); return BRAID_OK;
    case PRE_METASPACE: return load_metaspace(s, d, v, error);
    case PRE_PUNCTUATION:
        if (!load_behavior(json_member(d, v, "behavior"), &s->behavior)) s->behavior = SPLIT_ISOLATED;
        return BRAID_OK;
    case PRE_DELIMITER:
        if (!load_character(json_member(d, v, "delimiter"), s->replacement))
            return load_malformed("pre-tokenizer 'CharDelimiterSplit'", "delimiter", error);
        return BRAID_OK;
    case PRE_FIXED_LENGTH:
        if (!json_u64(json_member(d, v, "length"), &length) || length == 0 || length > UINT32_MAX)
            return load_malformed("pre-tokenizer 'FixedLength'", "length", error);
        s->length = (uint32_t)length;
        return BRAID_OK;
    default: return BRAID_OK;
    }
}

braid_err load_pre_tokenizer(tokenizer *t, const json *d, const json_value *v, unsigned depth, braid_error *error) {
    static const char *const names[] = {[PRE_BYTE_LEVEL] = "ByteLevel",
                                        [PRE_SPLIT] = "Split",
                                        [PRE_DIGITS] = "Digits",
                                        [PRE_WHITESPACE] = "Whitespace",
                                        [PRE_WHITESPACE_SPLIT] = "WhitespaceSplit",
                                        [PRE_METASPACE] = "Metaspace",
                                        [PRE_PUNCTUATION] = "Punctuation",
                                        [PRE_BERT] = "BertPreTokenizer",
                                        [PRE_DELIMITER] = "CharDelimiterSplit",
                                        [PRE_FIXED_LENGTH] = "FixedLength"};
    const char *type = json_string(json_member(d, v, "type"));
    if (type && strcmp(type, "Sequence") == 0)
        return load_sequence(t, d, json_member(d, v, "pretokenizers"), depth, load_pre_tokenizer, "pre-tokenizer",
                             error);
    if (t->pres == TOKENIZER_MAX_STEPS)
        return braid_fail(error, BRAID_LIMIT, "tokenizer.json: too many pre-tokenizers");
    for (unsigned i = 0; type && i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i]) != 0) continue;
        pre_step *s = &t->pre[t->pres++];
        s->kind = (pre_kind)i;
        return fill_pre_tokenizer(s, d, v, error);
    }
    return load_refuse("pre-tokenizer", type, error);
}
