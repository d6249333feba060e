// YAML files with positions: a tree of the file's nodes, and typed getters with errors that name
// file, line, column and the fix. libfyaml does the parsing. Aliases, tags and several documents
// are refused, because descriptions do not need them.
#ifndef BRAID_FORMAT_YAML_H
#define BRAID_FORMAT_YAML_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YAML_MAX_BYTES = 1 << 20, YAML_MAX_NODES = 8192, YAML_MAX_DEPTH = 16 };

typedef enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP } yaml_kind;

// Read-only; owned by its file.
typedef struct yaml_node {
    yaml_kind kind;
    bool quoted;            // a quoted scalar is text, never a number
    char *text;             // of a scalar; NULL for others
    char *key;              // in a map; NULL in a list
    unsigned line, column;  // of the value, counted from 1
    unsigned key_line, key_column;
    struct yaml_node *first, *next;
    size_t children;
} yaml_node;

typedef struct yaml yaml;

// `origin` is the text's name in messages (copied). BRAID_CONFIG with the position when the text is
// no YAML.
braid_err yaml_parse(const char *text, size_t length, const char *origin, yaml **out, braid_error *error);
// Reads a file. BRAID_IO names the file and the fix.
braid_err yaml_load(const char *path, yaml **out, braid_error *error);
void yaml_free(yaml *file);
// The root is always a map; an empty file has an empty one.
const yaml_node *yaml_root(const yaml *file);

// The value of a key; NULL when it is absent.
const yaml_node *yaml_find(const yaml_node *map, const char *key);
// Refuses keys that are not in `known`, and suggests the nearest one, or lists all. `where` names
// the map in messages ("train"; "" for the file itself).
braid_err yaml_check_keys(const yaml *file, const yaml_node *map, const char *where, const char *const *known,
                          size_t count, braid_error *error);
// Fails with BRAID_CONFIG and "file:line:column: ...".
braid_err yaml_fail(const yaml *file, const yaml_node *node, braid_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Typed values; `name` is the full name of the key in messages ("train.iterations").
braid_err yaml_read_map(const yaml *file, const yaml_node *node, const char *name, braid_error *error);  // is a map
braid_err yaml_read_text(const yaml *file, const yaml_node *node, const char *name, char *out, size_t capacity,
                         braid_error *error);
braid_err yaml_read_count(const yaml *file, const yaml_node *node, const char *name, uint64_t min, uint64_t max,
                          uint64_t *out, braid_error *error);
braid_err yaml_read_real(const yaml *file, const yaml_node *node, const char *name, double min, double max, double *out,
                         braid_error *error);
braid_err yaml_read_bool(const yaml *file, const yaml_node *node, const char *name, bool *out, braid_error *error);
braid_err yaml_read_size(const yaml *file, const yaml_node *node, const char *name, uint64_t *out, braid_error *error);
braid_err yaml_read_choice(const yaml *file, const yaml_node *node, const char *name, const char *const *choices,
                           size_t count, size_t *out, braid_error *error);

#endif
