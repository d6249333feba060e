// tokenizer.json and the files beside it.
#include "text/load.h"

#include "text/json_scan.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static braid_err read_file(const char *path, size_t most, char **text, size_t *length, bool optional,
                           braid_error *error) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    *text = NULL;
    if (!file && optional && errno == ENOENT) return BRAID_OK;
    if (!file || fstat(fileno(file), &info) != 0) {
        int why = errno;
        if (file) fclose(file);
        return braid_fail(error, BRAID_IO, "cannot open %s: %s", path, strerror(why));
    }
    braid_err err = BRAID_OK;
    if (!S_ISREG(info.st_mode))
        err = braid_fail(error, BRAID_IO, "%s is not a file", path);
    else if ((size_t)info.st_size > most)
        err = braid_fail(error, BRAID_LIMIT, "%s is too large: more than %zu bytes", path, most);
    else if ((*text = malloc((size_t)info.st_size + 1)) == NULL)
        err = text_no_memory(error);
    if (!err) {
        *length = fread(*text, 1, (size_t)info.st_size, file);
        (*text)[*length] = 0;
        if (ferror(file) || *length != (size_t)info.st_size) err = braid_fail(error, BRAID_IO, "cannot read %s", path);
    }
    fclose(file);
    if (err) {
        free(*text);
        *text = NULL;
    }
    return err;
}

// A small member, read as a tree by `load`; null and absent ones are left.
static braid_err read_member(tokenizer *t, json_span span, load_step load, const char *name, braid_error *error) {
    json *d = NULL;
    if (span.length == 0) return BRAID_OK;
    braid_err err = json_parse(span.at, span.length, &d, error);
    if (err) {
        braid_error why = error ? *error : (braid_error){0};
        return braid_fail(error, err, "tokenizer.json: %s: %.300s", name, why.text);
    }
    if (json_root(d)->kind != JSON_NULL) err = load(t, d, json_root(d), 0, error);
    json_free(d);
    return err;
}

static braid_err load_added(tokenizer *t, const json *d, const json_value *list, unsigned depth, braid_error *error) {
    (void)depth;
    uint32_t next_id = t->vocabulary.count;
    braid_err err = BRAID_OK;
    if (list->kind != JSON_ARRAY) return load_malformed("the file", "added_tokens", error);
    for (const json_value *v = json_first(d, list); v && !err; v = json_next(d, v)) {
        const json_value *content = json_member(d, v, "content");
        if (!json_string(content)) return load_malformed("an added token", "content", error);
        added_token token = {.single_word = load_flag(d, v, "single_word", false),
                             .lstrip = load_flag(d, v, "lstrip", false),
                             .rstrip = load_flag(d, v, "rstrip", false),
                             .special = load_flag(d, v, "special", false)};
        token.normalized = load_flag(d, v, "normalized", !token.special);
        err = added_add(t, &token, content->text, content->length, &next_id, error);
    }
    return err;
}

static bool all_bytes_known(const bpe *b) {
    for (unsigned i = 0; i < 256; i++)
        if (b->byte_ids[i] == TOKENIZER_NO_ID) return false;
    return true;
}

void choose_ways(tokenizer *t) {
    bpe *b = &t->bpe;
    pre_step *last = t->pres ? &t->pre[t->pres - 1] : NULL;
    if (t->kind != MODEL_BPE || b->prefix || b->suffix || !last || last->kind != PRE_BYTE_LEVEL || !all_bytes_known(b))
        return;
    for (uint32_t i = 0; i + 1 < t->pres; i++)
        if (t->pre[i].kind == PRE_BYTE_LEVEL) return;
    b->raw = true;
    last->map_bytes = false;
    if (last->prefix_space) return;
    if (t->pres == 1 && last->use_regex) t->fast = SCAN_GPT2;
    bool isolated = t->pre[0].kind == PRE_SPLIT &&
                    (t->pre[0].behavior == SPLIT_ISOLATED || (t->pre[0].behavior == SPLIT_REMOVED && t->pre[0].invert));
    if (t->pres == 2 && isolated && !last->use_regex) t->fast = t->pre[0].scan;
}

typedef struct members {
    json_span version, added, normalizer, pre_tokenizer, post_processor, decoder, model;
} members;

static bool find_members(const char *text, size_t length, members *m) {
    const struct {
        const char *name;
        json_span *span;
    } known[] = {{"\"version\"", &m->version},
                 {"\"added_tokens\"", &m->added},
                 {"\"normalizer\"", &m->normalizer},
                 {"\"pre_tokenizer\"", &m->pre_tokenizer},
                 {"\"decoder\"", &m->decoder},
                 {"\"post_processor\"", &m->post_processor},
                 {"\"model\"", &m->model}};
    json_scan s = {text, text + length};
    bool first = true, fine = json_scan_take(&s, '{');
    while (fine && json_scan_more(&s, '}', &first, &fine)) {
        json_span key, value;
        if (!json_scan_value(&s, &key) || !json_scan_take(&s, ':') || !json_scan_value(&s, &value)) return false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (key.length == strlen(known[i].name) && memcmp(key.at, known[i].name, key.length) == 0)
                *known[i].span = value;
    }
    return fine && json_scan_peek(&s) == 0;
}

static braid_err load_all(tokenizer *t, const char *text, size_t length, braid_error *error) {
    members m;
    memset(&m, 0, sizeof m);
    if (!find_members(text, length, &m) || m.model.length == 0)
        return braid_fail(error, BRAID_FORMAT, "tokenizer.json: it is not a JSON object with a 'model'");
    if (m.version.length && (m.version.length != 5 || memcmp(m.version.at, "\"1.0\"", 5) != 0))
        return braid_fail(error, BRAID_FORMAT, "tokenizer.json: version %.*s is not supported",
                          (int)(m.version.length < 20 ? m.version.length : 20), m.version.at);
    braid_err err = load_model(t, m.model.at, m.model.length, error);
    if (!err) err = read_member(t, m.normalizer, load_normalizer, "normalizer", error);
    if (!err) err = read_member(t, m.pre_tokenizer, load_pre_tokenizer, "pre_tokenizer", error);
    if (!err) err = read_member(t, m.post_processor, load_post_processor, "post_processor", error);
    if (!err) err = read_member(t, m.decoder, load_decoder, "decoder", error);
    if (!err && t->decodes == 0) t->decode[t->decodes++].kind = DECODE_JOIN;
    if (!err) err = read_member(t, m.added, load_added, "added_tokens", error);
    if (err) return err;
    choose_ways(t);
    return added_finish(t, error);
}

braid_err tokenizer_parse(const char *text, size_t length, tokenizer **out, braid_error *error) {
    braid_error own = {0};
    tokenizer *t = unicode_init() ? calloc(1, sizeof *t) : NULL;
    if (!t) return text_no_memory(error);
    t->bos = t->eos = TOKENIZER_NO_ID;
    braid_err err = load_all(t, text, length, &own);
    if (err) {
        tokenizer_free(t);
        bool named = strncmp(own.text, "tokenizer.json", 14) == 0 || err == BRAID_MEMORY;
        return braid_fail(error, err, "%s%s", named ? "" : "tokenizer.json: ", own.text);
    }
    *out = t;
    return BRAID_OK;
}

// A token named as text, or as an object with the text.
static bool find_named(const tokenizer *t, const json *d, const char *name, uint32_t *id) {
    const json_value *v = json_member(d, json_root(d), name);
    if (v && v->kind == JSON_OBJECT) v = json_member(d, v, "content");
    if (!json_string(v)) return false;
    *id = tokenizer_id(t, v->text, v->length);
    return true;
}

static braid_err read_stops(tokenizer *t, const json *d, const char *directory, const char *name, braid_error *error) {
    const json_value *v = json_member(d, json_root(d), "eos_token_id");
    const json_value *item = v && v->kind == JSON_ARRAY ? json_first(d, v) : v;
    for (; item && t->stop_count < TOKENIZER_MAX_STOPS; item = v->kind == JSON_ARRAY ? json_next(d, item) : NULL) {
        uint64_t id;
        if (json_u64(item, &id) && id < TOKENIZER_MAX_IDS) t->stops[t->stop_count++] = (uint32_t)id;
        if (item->kind != JSON_NUMBER && item->kind != JSON_NULL)
            return braid_fail(error, BRAID_FORMAT,
                              "%.150s/%s: 'eos_token_id' is neither a token's id nor a list of ids", directory, name);
    }
    return BRAID_OK;
}

enum { SIDE_FILE_BYTES = 16 << 20, PATH_BYTES = 4096 };

// NULL: it is not there. A file that cannot be read is an error.
static braid_err open_beside(const char *directory, const char *name, json **d, braid_error *error) {
    char path[PATH_BYTES], *text = NULL;
    size_t length = 0;
    *d = NULL;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) return BRAID_OK;
    braid_err err = read_file(path, SIDE_FILE_BYTES, &text, &length, true, error);
    if (!err && text) err = json_parse(text, length, d, error);
    if (err == BRAID_FORMAT) {
        braid_error why = error ? *error : (braid_error){0};
        braid_fail(error, err, "%.150s: %.300s", path, why.text);
    }
    free(text);
    return err;
}

static braid_err read_beside(tokenizer *t, const char *directory, braid_error *error) {
    static const char *const named[] = {"special_tokens_map.json", "tokenizer_config.json"};
    static const char *const stops[] = {"generation_config.json", "config.json"};
    bool bos = false, eos = false, stopped = false;
    json *d;
    braid_err err = BRAID_OK;
    for (int i = 0; i < 2 && !err; i++) {
        err = open_beside(directory, named[i], &d, error);
        if (err || !d) continue;
        if (!bos) bos = find_named(t, d, "bos_token", &t->bos);
        if (!eos) eos = find_named(t, d, "eos_token", &t->eos);
        json_free(d);
    }
    // generation_config.json counts even when it names no end: then config.json does not
    for (int i = 0; i < 2 && !err && !stopped; i++) {
        err = open_beside(directory, stops[i], &d, error);
        if (err || !d) continue;
        err = read_stops(t, d, directory, stops[i], error);
        stopped = true;
        json_free(d);
    }
    if (!err && !stopped && t->eos != TOKENIZER_NO_ID) t->stops[t->stop_count++] = t->eos;
    return err;
}

braid_err tokenizer_open(const char *path, tokenizer **out, braid_error *error) {
    char file[PATH_BYTES], directory[PATH_BYTES];
    struct stat info;
    bool is_directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (snprintf(file, sizeof file, "%s%s", path, is_directory ? "/tokenizer.json" : "") >= (int)sizeof file)
        return braid_fail(error, BRAID_LIMIT, "a path is too long");
    memcpy(directory, file, sizeof file);
    char *slash = strrchr(directory, '/');
    if (slash) *slash = 0;
    char *text = NULL;
    size_t length = 0;
    tokenizer *t = NULL;
    braid_err err = read_file(file, TOKENIZER_MAX_FILE_BYTES, &text, &length, false, error);
    if (!err) err = tokenizer_parse(text, length, &t, error);
    free(text);
    if (!err) err = read_beside(t, slash ? (slash == directory ? "/" : directory) : ".", error);
    if (err) {
        tokenizer_free(t);
        return err;
    }
    *out = t;
    return BRAID_OK;
}
