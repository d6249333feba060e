// The identity of a served model, layer by layer, so that a peer checks and reads only the layers
// that it holds. The description of a swarm is its text form, which a joiner receives first.
#ifndef BRAID_SPAN_MODEL_H
#define BRAID_SPAN_MODEL_H

#include "base/err.h"
#include "base/id.h"
#include "weights/model_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPAN_MAX_NAME = 64, SPAN_MAX_LAYERS = 400, SPAN_MAX_DESCRIPTION = 32 * 1024 };

// Everything that decides the bits of a text, apart from the kernels.
typedef struct span_model {
    char name[SPAN_MAX_NAME];  // of the file, without its ending; not part of the identity
    uint32_t layers, dim, vocab;
    uint32_t context;                // the longest text
    bool exact, half_cache, narrow;  // as in engine_settings
    braid_hash shape;                // of the model's config.json
    braid_hash ends;                 // of embedding, final norm and head
    braid_hash layer[SPAN_MAX_LAYERS];
} span_model;

// The SHA-256 of each part of an open file, which is read to its end once. `path` gives the name.
// The caller sets exact, half_cache, narrow and context. BRAID_LIMIT: more than SPAN_MAX_LAYERS.
braid_err span_model_read(const model_file *file, const char *path, span_model *out, braid_error *error);
// The identity of the swarm on its links: two peers with another hash refuse each other.
braid_hash span_model_hash(const span_model *m);
// Whether the file has the same shape, and the same bytes in layers [begin, end) and, if `ends`, in
// the ends. Reads only those. BRAID_IDENTITY names the first part that differs, with both hashes.
braid_err span_model_check(const span_model *m, const model_file *file, const char *path, uint32_t begin, uint32_t end,
                           bool ends, braid_error *error);
// Tensors [*first, *end) of a layer, in canonical order.
void span_model_layer(const model_config *c, uint32_t layer, uint32_t *first, uint32_t *end);
// config.json of the model's shape; its SHA-256 is `shape`. The caller frees it; NULL: no memory.
char *span_model_shape(const model_file *file, size_t *length);
// Whether the file's layer has the bytes of the swarm's.
bool span_model_same_layer(const span_model *m, const model_file *file, uint32_t layer);
// Bytes of the weights of layers [begin, end) in the file. A layer without values counts as layer 0.
uint64_t span_model_bytes(const model_file *file, uint32_t begin, uint32_t end);
uint64_t span_model_ends_bytes(const model_file *file);

// JSON of at most SPAN_MAX_DESCRIPTION bytes; the caller frees it. NULL: no memory.
char *span_model_describe(const span_model *m, size_t *length);
// Untrusted text. BRAID_STATE: it describes something else, such as a training run.
braid_err span_model_parse(const char *text, size_t length, span_model *out, braid_error *error);

#endif
