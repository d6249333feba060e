// Writes a checkpoint block by block, and computes the hash of all weights, with or without a
// directory.
#ifndef BRAID_NODE_SAVER_H
#define BRAID_NODE_SAVER_H

#include "base/err.h"
#include "base/id.h"
#include "model/config.h"
#include "train/checkpoint.h"
#include "train/files.h"
#include "train/recipe.h"
#include "train/split.h"

#include <stdint.h>

typedef struct saver saver;

typedef struct saver_config {
    const char *directory;      // NULL or "": only the hash is computed
    const model_config *model;  // borrowed, as is the split
    const split *split;
    braid_hash run;
    const train_recipe *recipe;  // of checkpoint_config, as are the next four
    checkpoint_adapter adapter;
    const char *base_name;
    const files_text *files;
    uint32_t file_count;
} saver_config;

braid_err saver_new(const saver_config *config, saver **out, braid_error *error);
void saver_free(saver *s);

// Takes the names of all blocks of a stage, as JOB_NAMES_GET gives them, and computes their root.
// BRAID_FORMAT: their number is wrong.
braid_err saver_names(saver *s, uint64_t version, uint32_t stage, const void *bytes, uint64_t byte_count, braid_hash *root);
// Takes blocks as JOB_STATE_GET gives them. A block of another version than the previous one begins
// another checkpoint. BRAID_IO and other errors of the disk do not stop the hash. BRAID_FORMAT: the
// bytes are not these blocks at this version or, if `named`, contradict their names; they are
// discarded.
braid_err saver_put(saver *s, uint64_t version, uint32_t stage, uint32_t first, uint32_t count, bool named, const void *bytes, uint64_t byte_count);
// Completes the checkpoint. With `give_up`, or if blocks are missing, removes the partial one and
// reports why. `weights` receives the hash of all weights even after an error of the disk; it is
// zero if blocks are missing.
braid_err saver_end(saver *s, uint64_t version, bool give_up, braid_hash *weights);
// Path of the last complete checkpoint, "" if there is none.
const char *saver_path(const saver *s);
// Number of older checkpoints that were removed to make room for it.
uint32_t saver_removed(const saver *s);
// The error of the last call, or NULL.
const braid_error *saver_error(const saver *s);

#endif
