// braid-manifest.json: the identity of a checkpoint and the hashes of its files. Shared by the
// writer and the reader.
#ifndef BRAID_TRAIN_CHECKPOINT_MANIFEST_H
#define BRAID_TRAIN_CHECKPOINT_MANIFEST_H

#include "base/err.h"
#include "base/id.h"
#include "train/checkpoint.h"
#include "train/run_notes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MANIFEST_MAX_NAME = 64, MANIFEST_FORMAT = 1, MANIFEST_MAX_BYTES = 1 << 20 };

#define MANIFEST_FILE "braid-manifest.json"
#define ADAPTER_FILE  "adapter_model.safetensors"

// Repeated in the __metadata__ of every safetensors file, so that an altered manifest is noticed.
#define MANIFEST_NOTE_VERSION "braid_version"
#define MANIFEST_NOTE_RUN     "braid_run"

typedef struct manifest_file {
    char name[MANIFEST_MAX_NAME];
    uint64_t bytes;
    braid_hash hash;
} manifest_file;

typedef struct manifest {
    uint64_t version;
    braid_hash run, weights;
    run_schedule schedule;               // written if known
    checkpoint_adapter adapter;          // its roles are not filled in: only a model can say what a name means
    char targets[ADAPTER_TARGETS_TEXT];  // names of those roles, separated by spaces
    uint32_t count;
    manifest_file files[CHECKPOINT_MAX_FILES];
} manifest;

// Returns the file's text, which the caller frees; NULL when there is no memory.
char *manifest_text(const manifest *m, size_t *length);
// `origin` names the file in errors. Names with a '/' are refused, because a manifest lists files
// of its own directory only.
braid_err manifest_parse(const char *text, size_t length, const char *origin, manifest *out, braid_error *error);
// Reads DIRECTORY/braid-manifest.json.
braid_err manifest_read(const char *directory, manifest *out, braid_error *error);
// True if a file must be verified. Only files of tensors are: other listed files (older checkpoints
// list config.json) may be edited.
bool manifest_is_tensors(const manifest_file *f);
// True for files of moments, which text generation does not need.
bool manifest_is_optimizer(const manifest_file *f);

#endif
