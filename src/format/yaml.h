// YAML files with positions: a small tree of what was written, and typed getters whose messages name file, line, column
// and the mend. Parsing itself is libfyaml's. Aliases, tags and several documents are refused: a description needs
// none.
#ifndef BRAID_FORMAT_YAML_H
#define BRAID_FORMAT_YAML_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YAML_MAX_BYTES = 1 << 20, YAML_MAX_NODES = 8192, YAML_MAX_DEPTH = 16 };

typedef enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP } yaml_kind;

// Read-only; lives as long as its file.
typedef struct yaml_node {
    yaml_kind kind;
    bool quoted;            // a scalar in quotes is text, never a number
    char *text;             // of a scalar, else NULL
    char *key;              // in a map, else NULL
    unsigned line, column;  // of the value, from 1
    unsigned key_line, key_column;
    struct yaml_node *first, *next;
    size_t children;
} yaml_node;

typedef struct yaml yaml;

// `origin` names the text in messages (copied). BRAID_CONFIG with the position when it is no YAML.
braid_err yaml_parse(const char *text, size_t length, const char *origin, yaml **out, braid_error *error);
// Reads a file. BRAID_IO names it and says what to do.
braid_err yaml_load(const char *path, yaml **out, braid_error *error);
void yaml_free(yaml *file);
// Always a map; of an empty file an empty one.
const yaml_node *yaml_root(const yaml *file);

// The value of a key, NULL when it is not there.
const yaml_node *yaml_find(const yaml_node *map, const char *key);
// Refuses keys that are not among `known`, with the nearest one, else with all that there are; `where` names the map ("train"; ""
// for the file itself).
braid_err yaml_check_keys(const yaml *file, const yaml_node *map, const char *where, const char *const *known,
                          size_t count, braid_error *error);
// BRAID_CONFIG, "file:line:column: ...".
braid_err yaml_fail(const yaml *file, const yaml_node *node, braid_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Typed values; `name` is the key's full name in messages ("train.iterations").
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
