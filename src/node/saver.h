// The checkpoint that is being written, block by block, and the hash of all weights, with or without a directory.
#ifndef BRAID_NODE_SAVER_H
#define BRAID_NODE_SAVER_H

#include "base/err.h"
#include "base/id.h"
#include "model/config.h"
#include "train/recipe.h"
#include "train/split.h"

#include <stdint.h>

typedef struct saver saver;

typedef struct saver_config {
    const char *directory;      // NULL or "": only the hash is wanted
    const model_config *model;  // borrowed, as is the split
    const split *split;
    braid_hash run;
    const train_recipe *recipe;  // of checkpoint_config
} saver_config;

braid_err saver_new(const saver_config *config, saver **out, braid_error *error);
void saver_free(saver *s);

// The names of all blocks of a stage, as JOB_NAMES_GET gives them, and their root. BRAID_FORMAT: not as many as it has blocks.
braid_err saver_names(saver *s, uint64_t version, uint32_t stage, const void *bytes, uint64_t byte_count, braid_hash *root);
// Blocks as JOB_STATE_GET gives them. A block of another version than the last one's begins another checkpoint.
// BRAID_IO and the like: the disk; the hash is gathered all the same. BRAID_FORMAT: not these blocks at this version, or, when
// they are `named`, not what their names say; nothing is kept of them.
braid_err saver_put(saver *s, uint64_t version, uint32_t stage, uint32_t first, uint32_t count, bool named, const void *bytes, uint64_t byte_count);
// Completes the checkpoint; with `give_up`, or when blocks are missing, removes what there is of it and says why. `weights` is
// the hash of all weights (zero when blocks are missing), even when the disk failed.
braid_err saver_end(saver *s, uint64_t version, bool give_up, braid_hash *weights);
// Where the last complete checkpoint lies, "" when there is none.
const char *saver_path(const saver *s);
// Older checkpoints that were removed to make room for it.
uint32_t saver_removed(const saver *s);
// Why the last call failed, or NULL.
const braid_error *saver_error(const saver *s);

#endif
