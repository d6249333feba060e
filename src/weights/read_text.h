// Small text files beside a model's weights.
#ifndef BRAID_WEIGHTS_READ_TEXT_H
#define BRAID_WEIGHTS_READ_TEXT_H

#include "format/json.h"

enum { READ_TEXT_MAX_BYTES = 16 << 20, READ_INDEX_MAX_BYTES = 64 << 20 };

// *text = the file's text, 0-terminated, which the caller frees; NULL when the file does not exist.
braid_err read_text(const char *directory, const char *name, size_t most, char **text, size_t *length,
                    braid_error *error);
// The same for a JSON document; *out is NULL when the file does not exist. Free with json_free.
braid_err read_json(const char *directory, const char *name, size_t most, json **out, braid_error *error);

#endif
