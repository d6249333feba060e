// The checkpoint that is being written, block by block, and the hash of all weights, with or without a directory.
#ifndef BRAID_NODE_SAVER_H
#define BRAID_NODE_SAVER_H

#include "base/err.h"
#include "base/id.h"
#include "model/config.h"
#include "train/split.h"

#include <stdint.h>

typedef struct saver saver;

typedef struct saver_config {
    const char *directory;      // NULL or "": only the hash is wanted
    const model_config *model;  // borrowed, as is the split
    const split *split;
    braid_hash run;
} saver_config;

braid_err saver_new(const saver_config *config, saver **out, braid_error *error);
void saver_free(saver *s);

// Blocks as JOB_STATE_GET gives them. A block of another version than the last one's begins another checkpoint.
// BRAID_IO and the like: the disk; the hash is gathered all the same.
braid_err saver_put(saver *s, uint64_t version, uint32_t stage, uint32_t first, uint32_t count, const void *bytes, uint64_t byte_count);
// Completes the checkpoint. `weights` is the hash of all weights (zero when blocks are missing), even when the disk failed.
braid_err saver_end(saver *s, uint64_t version, braid_hash *weights);
// Where the last complete checkpoint lies, "" when there is none.
const char *saver_path(const saver *s);
// Why the last call failed, or NULL.
const braid_error *saver_error(const saver *s);

#endif
