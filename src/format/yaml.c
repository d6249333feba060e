#include "format/yaml.h"

#include "format/quantity.h"
#include "format/suggest.h"
#include "format/utf8.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct yaml {
    char *origin;
    yaml_node *root;
};

// ---- the tree ----

static void node_free(yaml_node *node) {
    while (node != NULL) {
        yaml_node *next = node->next;
        node_free(node->first);  // the depth is at most YAML_MAX_DEPTH
        free(node->text);
        free(node->key);
        free(node);
        node = next;
    }
}

void yaml_free(yaml *file) {
    if (file == NULL) return;
    node_free(file->root);
    free(file->origin);
    free(file);
}

const yaml_node *yaml_root(const yaml *file) { return file->root; }

const yaml_node *yaml_find(const yaml_node *map, const char *key) {
    for (const yaml_node *child = map->first; child != NULL; child = child->next) {
        if (strcmp(child->key, key) == 0) return child;
    }
    return NULL;
}

// ---- building the tree from libfyaml's events ----

typedef struct yaml_builder {
    yaml *file;
    braid_error *error;
    yaml_node *open[YAML_MAX_DEPTH];  // the open maps and lists around the next event
    yaml_node *last[YAML_MAX_DEPTH];  // the last child of each of them
    unsigned depth, nodes, documents;
    char *key;  // a key without its value so far
    unsigned key_line, key_column;
} yaml_builder;

static braid_err fail_at(const yaml *file, unsigned line, unsigned column, braid_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static braid_err fail_at(const yaml *file, unsigned line, unsigned column, braid_error *error, const char *format,
                         ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return braid_fail(error, BRAID_CONFIG, "%s:%u:%u: %s", file->origin, line, column, text);
}

// An empty value has no position in libfyaml: 1:1, false.
static bool mark_of(struct fy_event *event, unsigned *line, unsigned *column) {
    const struct fy_mark *mark = fy_event_start_mark(event);
    *line = mark != NULL ? (unsigned)mark->line + 1 : 1;
    *column = mark != NULL ? (unsigned)mark->column + 1 : 1;
    return mark != NULL;
}

static char *token_text(struct fy_token *token, size_t *length) {
    const char *text = token != NULL ? fy_token_get_text(token, length) : NULL;
    if (text == NULL) *length = 0;
    char *copy = malloc(*length + 1);
    if (copy == NULL) return NULL;
    if (*length > 0) memcpy(copy, text, *length);
    copy[*length] = 0;
    return copy;
}

// The innermost open map or list; NULL at the top level.
static yaml_node *innermost(const yaml_builder *b) { return b->depth > 0 ? b->open[b->depth - 1] : NULL; }

// The position of a key or a value. An empty value gets that of its key, of the preceding node, or
// of its parent.
static void place_of(const yaml_builder *b, struct fy_event *event, unsigned *line, unsigned *column) {
    const yaml_node *parent = innermost(b);
    if (mark_of(event, line, column) || parent == NULL) return;
    const yaml_node *near = b->last[b->depth - 1] != NULL ? b->last[b->depth - 1] : parent;
    *line = b->key != NULL ? b->key_line : near->line;
    *column = b->key != NULL ? b->key_column : near->column;
}

// A scalar in the position of a key.
static braid_err build_key(yaml_builder *b, struct fy_event *event) {
    size_t length = 0;
    place_of(b, event, &b->key_line, &b->key_column);
    b->key = token_text(fy_event_get_token(event), &length);
    if (b->key == NULL) return braid_fail(b->error, BRAID_MEMORY, "out of memory");
    if (strlen(b->key) != length)
        return fail_at(b->file, b->key_line, b->key_column, b->error, "a key holds a zero byte");
    if (yaml_find(b->open[b->depth - 1], b->key) == NULL) return BRAID_OK;
    return fail_at(b->file, b->key_line, b->key_column, b->error, "key '%.64s' is given twice: keep one of them",
                   b->key);
}

static yaml_node *append_node(yaml_builder *b, yaml_node *node) {
    yaml_node *parent = innermost(b);
    if (parent == NULL) {
        b->file->root = node;
    } else {
        yaml_node **last = &b->last[b->depth - 1];
        if (*last != NULL)
            (*last)->next = node;
        else
            parent->first = node;
        *last = node;
        parent->children++;
    }
    node->key = b->key;
    node->key_line = b->key != NULL ? b->key_line : node->line;
    node->key_column = b->key != NULL ? b->key_column : node->column;
    b->key = NULL;
    return node;
}

static braid_err build_node(yaml_builder *b, struct fy_event *event, yaml_kind kind) {
    unsigned line = 0, column = 0;
    place_of(b, event, &line, &column);
    if (fy_event_get_tag_token(event) != NULL)
        return fail_at(b->file, line, column, b->error, "tags (!name) are not used here: leave it out");
    if (b->nodes++ == YAML_MAX_NODES)
        return fail_at(b->file, line, column, b->error, "more than %d values in one file", YAML_MAX_NODES);
    yaml_node *node = calloc(1, sizeof *node);
    if (node == NULL) return braid_fail(b->error, BRAID_MEMORY, "out of memory");
    node->kind = kind;
    node->line = line;
    node->column = column;
    append_node(b, node);
    if (kind != YAML_SCALAR) {
        if (b->depth == YAML_MAX_DEPTH)
            return fail_at(b->file, line, column, b->error, "more than %d levels deep", YAML_MAX_DEPTH);
        b->last[b->depth] = NULL;
        b->open[b->depth++] = node;
        return BRAID_OK;
    }
    size_t length = 0;
    enum fy_node_style style = fy_event_get_node_style(event);
    node->quoted = style == FYNS_SINGLE_QUOTED || style == FYNS_DOUBLE_QUOTED || style == FYNS_LITERAL ||
                   style == FYNS_FOLDED;
    node->text = token_text(fy_event_get_token(event), &length);
    if (node->text == NULL) return braid_fail(b->error, BRAID_MEMORY, "out of memory");
    if (strlen(node->text) != length) return fail_at(b->file, line, column, b->error, "a value holds a zero byte");
    return BRAID_OK;
}

static braid_err build_event(yaml_builder *b, struct fy_event *event) {
    const yaml_node *parent = innermost(b);
    bool key_due = parent != NULL && parent->kind == YAML_MAP && b->key == NULL;
    unsigned line = 0, column = 0;
    switch (event->type) {
    case FYET_DOCUMENT_START:
        mark_of(event, &line, &column);
        if (b->documents++ > 0)
            return fail_at(b->file, line, column, b->error, "a second document begins here: keep one");
        return BRAID_OK;
    case FYET_ALIAS:
        mark_of(event, &line, &column);
        return fail_at(b->file, line, column, b->error, "aliases (*name) are not used here: write the value out");
    case FYET_SCALAR: return key_due ? build_key(b, event) : build_node(b, event, YAML_SCALAR);
    case FYET_SEQUENCE_START:
    case FYET_MAPPING_START:
        mark_of(event, &line, &column);
        if (key_due) return fail_at(b->file, line, column, b->error, "a key must be a plain word");
        return build_node(b, event, event->type == FYET_MAPPING_START ? YAML_MAP : YAML_LIST);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END: b->depth--; return BRAID_OK;
    default: return BRAID_OK;
    }
}

// libfyaml's error with its position.
static braid_err build_refused(yaml_builder *b, struct fy_parser *parser) {
    struct fy_diag *diag = fy_parser_get_diag(parser);
    void *iterator = NULL;
    struct fy_diag_error *found = diag != NULL ? fy_diag_errors_iterate(diag, &iterator) : NULL;
    braid_err code = BRAID_CONFIG;
    if (found != NULL && found->line > 0) {
        code = fail_at(b->file, (unsigned)found->line, found->column > 0 ? (unsigned)found->column : 1, b->error,
                       "not YAML: %.200s", found->msg);
    } else {
        code = fail_at(b->file, 1, 1, b->error, "not YAML: %.200s",
                       found != NULL ? found->msg : "the text cannot be read");
    }
    if (diag != NULL) fy_diag_unref(diag);
    return code;
}

static braid_err build(yaml_builder *b, struct fy_parser *parser) {
    for (;;) {
        struct fy_event *event = fy_parser_parse(parser);
        if (event == NULL) return build_refused(b, parser);  // a complete text ends with FYET_STREAM_END
        braid_err code = build_event(b, event);
        bool end = event->type == FYET_STREAM_END;
        fy_parser_event_free(parser, event);
        if (code != BRAID_OK || end) return code;
    }
}

// A file with only comments is an empty map.
static braid_err finish_root(yaml *file, braid_error *error) {
    yaml_node *root = file->root;
    if (root == NULL || (root->kind == YAML_SCALAR && !root->quoted && root->text[0] == 0)) {
        node_free(root);
        file->root = calloc(1, sizeof *file->root);
        if (file->root == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
        *file->root = (yaml_node){.kind = YAML_MAP, .line = 1, .column = 1, .key_line = 1, .key_column = 1};
        return BRAID_OK;
    }
    if (root->kind == YAML_MAP) return BRAID_OK;
    return yaml_fail(file, root, error, "a list of 'key: value' lines is expected here");
}

// libfyaml treats an invalid byte as the end of the text, so invalid bytes are rejected first.
static braid_err check_text(const yaml *file, const char *text, size_t length, braid_error *error) {
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        bool control = (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
        size_t bytes = control ? 0 : utf8_bytes(text + i, length - i);
        if (bytes == 0)
            return fail_at(file, line, column, error, "not text: byte 0x%02x is not valid UTF-8", c);
        column = c == '\n' ? 1 : column + 1;
        line += c == '\n';
        i += bytes;
    }
    return BRAID_OK;
}

static braid_err parse_into(yaml *file, const char *text, size_t length, braid_error *error) {
    struct fy_diag *diag = fy_diag_create(NULL);
    if (diag == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_JSON_NONE, .diag = diag};
    struct fy_parser *parser = fy_parser_create(&cfg);
    braid_err code = BRAID_MEMORY;
    yaml_builder b = {.file = file, .error = error};
    if (parser != NULL && fy_parser_set_string(parser, text, length) == 0) {
        code = build(&b, parser);
    } else {
        braid_fail(error, BRAID_MEMORY, "out of memory");
    }
    free(b.key);
    if (parser != NULL) fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return code == BRAID_OK ? finish_root(file, error) : code;
}

braid_err yaml_parse(const char *text, size_t length, const char *origin, yaml **out, braid_error *error) {
    *out = NULL;
    if (length > YAML_MAX_BYTES)
        return braid_fail(error, BRAID_CONFIG, "%s: larger than %d KiB, so not a description of a run", origin,
                          YAML_MAX_BYTES >> 10);
    yaml *file = calloc(1, sizeof *file);
    if (file != NULL) file->origin = strdup(origin);
    if (file == NULL || file->origin == NULL) {
        free(file);
        return braid_fail(error, BRAID_MEMORY, "out of memory");
    }
    braid_err code = check_text(file, text, length, error);
    if (code == BRAID_OK) code = parse_into(file, text, length, error);
    if (code == BRAID_OK)
        *out = file;
    else
        yaml_free(file);
    return code;
}

braid_err yaml_load(const char *path, yaml **out, braid_error *error) {
    *out = NULL;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return braid_fail(error, BRAID_IO, "cannot read '%s': %s", path, strerror(errno));
    char *text = malloc(YAML_MAX_BYTES + 1);
    size_t length = text != NULL ? fread(text, 1, YAML_MAX_BYTES + 1, stream) : 0;
    int wrong = ferror(stream) ? errno : 0;
    fclose(stream);
    braid_err code = BRAID_OK;
    if (text == NULL)
        code = braid_fail(error, BRAID_MEMORY, "out of memory");
    else if (wrong != 0)
        code = braid_fail(error, BRAID_IO, "cannot read '%s': %s", path, strerror(wrong));
    else
        code = yaml_parse(text, length, path, out, error);
    free(text);
    return code;
}

// ---- reading it ----

braid_err yaml_fail(const yaml *file, const yaml_node *node, braid_error *error, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail_at(file, node->line, node->column, error, "%s", text);
}

enum { MOST_LISTED = 256 };

// "; did you mean 'b'?", else "; choose one of a, b, c" if the list is short enough.
static void write_mend(const char *key, const char *const *known, size_t count, char mend[MOST_LISTED]) {
    const char *near = suggest_name(key, known, count);
    size_t length = near != NULL ? (size_t)snprintf(mend, MOST_LISTED, "; did you mean '%s'?", near)
                                 : (size_t)snprintf(mend, MOST_LISTED, "; choose one of");
    for (size_t i = 0; i < count && near == NULL && length < MOST_LISTED; i++)
        length += (size_t)snprintf(mend + length, MOST_LISTED - length, "%s %s", i > 0 ? "," : "", known[i]);
    if (length >= MOST_LISTED) mend[0] = 0;
}

braid_err yaml_check_keys(const yaml *file, const yaml_node *map, const char *where, const char *const *known,
                          size_t count, braid_error *error) {
    char mend[MOST_LISTED];
    for (const yaml_node *child = map->first; child != NULL; child = child->next) {
        size_t i = 0;
        while (i < count && strcmp(child->key, known[i]) != 0) i++;
        if (i < count) continue;
        write_mend(child->key, known, count, mend);
        return fail_at(file, child->key_line, child->key_column, error, "unknown key '%.64s'%s%s%s%s", child->key,
                       *where ? " in '" : "", where, *where ? "'" : "", mend);
    }
    return BRAID_OK;
}

static const char *kind_text(const yaml_node *node) {
    if (node->kind == YAML_MAP) return "a group of keys";
    if (node->kind == YAML_LIST) return "a list";
    return node->quoted ? "text" : node->text[0] == 0 ? "nothing" : node->text;
}

static braid_err wrong_kind(const yaml *file, const yaml_node *node, const char *name, const char *expected,
                            braid_error *error) {
    bool plain = node->kind == YAML_SCALAR && !node->quoted && node->text[0] != 0;
    return yaml_fail(file, node, error, "%s must be %s, not %s%.64s%s", name, expected, plain ? "'" : "",
                     kind_text(node), plain ? "'" : "");
}

braid_err yaml_read_map(const yaml *file, const yaml_node *node, const char *name, braid_error *error) {
    return node->kind == YAML_MAP ? BRAID_OK : wrong_kind(file, node, name, "a group of keys", error);
}

braid_err yaml_read_text(const yaml *file, const yaml_node *node, const char *name, char *out, size_t capacity,
                         braid_error *error) {
    if (node->kind != YAML_SCALAR || (!node->quoted && node->text[0] == 0))
        return wrong_kind(file, node, name, "text", error);
    size_t length = strlen(node->text);
    if (length >= capacity) return yaml_fail(file, node, error, "%s is longer than %zu bytes", name, capacity - 1);
    memcpy(out, node->text, length + 1);
    return BRAID_OK;
}

braid_err yaml_read_count(const yaml *file, const yaml_node *node, const char *name, uint64_t min, uint64_t max,
                          uint64_t *out, braid_error *error) {
    uint64_t value = 0;
    braid_error why = {0};
    if (node->kind != YAML_SCALAR || node->quoted ||
        (quantity_read_count(node->text, &value, &why) != BRAID_OK && strstr(why.text, "too large") == NULL)) {
        return wrong_kind(file, node, name, "a whole number", error);
    }
    if (why.code != BRAID_OK || value < min || value > max) {
        return yaml_fail(file, node, error, "%s must be from %llu to %llu, not %.32s", name, (unsigned long long)min,
                         (unsigned long long)max, node->text);
    }
    *out = value;
    return BRAID_OK;
}

braid_err yaml_read_real(const yaml *file, const yaml_node *node, const char *name, double min, double max, double *out,
                         braid_error *error) {
    double value = 0;
    if (node->kind != YAML_SCALAR || node->quoted || quantity_read_real(node->text, &value, NULL) != BRAID_OK) {
        return wrong_kind(file, node, name, "a number", error);
    }
    if (value < min || value > max)
        return yaml_fail(file, node, error, "%s must be from %g to %g, not %.32s", name, min, max, node->text);
    *out = value;
    return BRAID_OK;
}

braid_err yaml_read_bool(const yaml *file, const yaml_node *node, const char *name, bool *out, braid_error *error) {
    static const char *const words[] = {"true", "yes", "on", "false", "no", "off"};
    for (size_t i = 0; i < 6 && node->kind == YAML_SCALAR && !node->quoted; i++) {
        if (strcmp(node->text, words[i]) != 0) continue;
        *out = i < 3;
        return BRAID_OK;
    }
    return wrong_kind(file, node, name, "true or false", error);
}

braid_err yaml_read_size(const yaml *file, const yaml_node *node, const char *name, uint64_t *out, braid_error *error) {
    if (node->kind == YAML_SCALAR && quantity_read_size(node->text, out, NULL) == BRAID_OK) return BRAID_OK;
    return wrong_kind(file, node, name, "a size like 512M", error);
}

braid_err yaml_read_choice(const yaml *file, const yaml_node *node, const char *name, const char *const *choices,
                           size_t count, size_t *out, braid_error *error) {
    char expected[160] = "";
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (node->kind == YAML_SCALAR && strcmp(node->text, choices[i]) == 0) {
            *out = i;
            return BRAID_OK;
        }
        int written = snprintf(expected + length, sizeof expected - length, "%s%s",
                               i == 0           ? ""
                               : i + 1 == count ? " or "
                                                : ", ",
                               choices[i]);
        if (written > 0 && length + (size_t)written < sizeof expected) length += (size_t)written;
    }
    return wrong_kind(file, node, name, expected, error);
}
