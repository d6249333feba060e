// config.json of a model that is written: the text of its source with the keys changed that the
// conversion decides.
#ifndef BRAID_WEIGHTS_CONFIG_JSON_H
#define BRAID_WEIGHTS_CONFIG_JSON_H

#include "base/err.h"

#include <stdint.h>

typedef struct config_change {
    const char *dtype;  // "float32", "float16", "bfloat16"
    bool tied;
    const char *quant_method;  // NULL: none
    bool set_ends;             // replace the ids that begin and end a text
    uint32_t bos, eos;         // TOKENIZER_NO_ID: null
} config_change;

// Keys that stay keep their order and their numbers' spelling. *out is 0-terminated and the
// caller's.
braid_err config_json_change(const char *text, size_t length, const config_change *change, char **out,
                             size_t *out_length, braid_error *error);

// Replaces *text by the same object without a key. The old text is freed, unless it fails.
braid_err config_json_without(char **text, size_t *length, const char *key, braid_error *error);

#endif
