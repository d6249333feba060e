// Checkpoints: a directory that Hugging Face transformers can load, with the optimizer's state and
// a manifest.
//
//     DIR/latest -> step-000050       switched when the new version is complete; a file with the
//                                     name where links are not possible
//     DIR/step-000050/
//       config.json, tokenizer.json, tokenizer_config.json, ..., model.safetensors.index.json
//       model-00001-of-00003.safetensors      a file per stage, fp32, Hugging Face's names
//       optimizer-00001-of-00003.safetensors  NAME.exp_avg, NAME.exp_avg_sq
//       braid-manifest.json                   version, run, hash of the weights, bytes and SHA-256
//                                             of each file of tensors
//
// Every safetensors file repeats version and run in its __metadata__, so that files and manifest
// verify each other. The other files may be edited, and further files may be added.
//
// A run with an adapter has adapter_model.safetensors and adapter_config.json in place of the
// model's files and their index.
//
// A version is written as DIR/step-000050.tmp-<run>-<process>.<n>, synced, then renamed: after a
// crash DIR has the old or the new version, never a mix. The newest CHECKPOINT_KEEP versions of the
// run stay, and all that are newer than the saved one. A checkpoint is read by tensor name, so it
// can be resumed with any split.
#ifndef BRAID_TRAIN_CHECKPOINT_H
#define BRAID_TRAIN_CHECKPOINT_H

#include "base/err.h"
#include "base/id.h"
#include "model/adapter.h"
#include "model/config.h"
#include "train/files.h"
#include "train/run.h"
#include "train/run_notes.h"
#include "train/split.h"

#include <inttypes.h>
#include <stdbool.h>

enum { CHECKPOINT_KEEP = 2, CHECKPOINT_MAX_FILES = 256 };

#define CHECKPOINT_STEP "step-%06" PRIu64  // name of its directory, by version

typedef struct checkpoint_writer checkpoint_writer;

// The adapter of a checkpoint without a model. Its directory is one of peft: it has
// adapter_model.safetensors in place of the model's files, and adapter_config.json.
typedef struct checkpoint_adapter {
    adapter_config config;  // rank 0: a whole model
    braid_hash base;        // of the model's weights (split_weights_hash)
} checkpoint_adapter;

typedef struct checkpoint_config {
    const char *directory;  // DIR; created if it does not exist
    const model_config *model;
    const split *split;  // borrowed until the writer is freed
    checkpoint_adapter adapter;
    const char *base_name;  // where the adapter's model was found, for other programs
    braid_hash run;      // hash of the run's description
    uint64_t version;    // iterations done
    const train_recipe *recipe;  // stored for resuming with another recipe; NULL: unknown
    // Files of the run's tokenizer, copied; none: a tokenizer of bytes is written.
    const files_text *files;
    uint32_t file_count;
    bool weights_only;  // no files of moments and of a tokenizer; blocks are put with moments all the same
} checkpoint_config;

typedef struct checkpoint_summary {
    braid_hash weights;         // split_weights_hash
    braid_hash manifest;        // SHA-256 of braid-manifest.json
    uint32_t removed;           // number of older versions that were removed to make room
    char path[FILES_MAX_PATH];  // DIR/step-...
} checkpoint_summary;

// The adapter of a run; the hash of its model is known (start_model_make).
checkpoint_adapter run_adapter(const run_config *run);
// Creates DIR and checks that a checkpoint can be written into it. Called at the start, before
// there is work to lose.
braid_err checkpoint_try(const char *directory, braid_error *error);
// Begins a checkpoint. A DIR has one run at a time (checkpoint_claim.h). Several peers of one run
// may write, and one of them may be paused: the newest version stays the newest. Removes the
// leftovers of killed writers. When the disk is full (BRAID_FULL), removes the oldest version of
// the run and tries again, but never removes the only complete one.
braid_err checkpoint_begin(const checkpoint_config *config, checkpoint_writer **out, braid_error *error);
// Adds blocks [first, first + count) of a stage in the format of JOB_STATE_GET, all at the
// checkpoint's version, in any order. BRAID_FORMAT: malformed or of another version; the writer
// remains usable.
braid_err checkpoint_put(checkpoint_writer *c, uint32_t stage_number, uint32_t first, uint32_t count, const void *bytes,
                         uint64_t byte_count, braid_error *error);
// Completes the checkpoint and frees the writer. On failure (a missing block, the disk) as
// checkpoint_abort.
braid_err checkpoint_end(checkpoint_writer *c, checkpoint_summary *out, braid_error *error);
void checkpoint_abort(checkpoint_writer *c);  // NULL is allowed

typedef struct checkpoint checkpoint;

// Opens a checkpoint. `path`: DIR (its latest, or else its newest) or the directory of one step,
// under any name. The path is resolved once, and all files are opened before anything is read.
// Verifies size and hash of every file of tensors, and the manifest against the metadata of the
// files. Errors name the file and the field.
braid_err checkpoint_open(const char *path, checkpoint **out, braid_error *error);
// The same without the optimizer's files: opens, verifies and reads only the weights.
braid_err checkpoint_open_weights(const char *path, checkpoint **out, braid_error *error);
// The same for resuming: if all of the optimizer's files are missing, the moments are zero
// (checkpoint_lacks_moments).
braid_err checkpoint_open_start(const char *path, checkpoint **out, braid_error *error);
void checkpoint_close(checkpoint *c);
// Closes the files, so that the disk gets their space back when they are removed. The checkpoint's
// description remains available; its state does not.
void checkpoint_close_files(checkpoint *c);  // NULL is allowed
bool checkpoint_has_files(const checkpoint *c);
uint64_t checkpoint_version(const checkpoint *c);
const model_config *checkpoint_model(const checkpoint *c);
const braid_hash *checkpoint_run(const checkpoint *c);  // hash of the description that it was trained with
const braid_hash *checkpoint_weights(const checkpoint *c);
const char *checkpoint_path(const checkpoint *c);  // path of the step's directory
// True if DIR has a checkpoint of this run and version with this hash of the weights (NULL: any),
// according to its manifest; returns its path.
bool checkpoint_find(const char *directory, const braid_hash *run, uint64_t version, const braid_hash *weights,
                     char path[FILES_MAX_PATH]);
// The newest complete version of this run in DIR, by manifests and sizes alone. False: there is none.
bool checkpoint_find_newest(const char *directory, const braid_hash *run, char path[FILES_MAX_PATH], uint64_t *version);
enum { CHECKPOINT_NOTE = 512 };
// True if the checkpoint was made with another description (seed, text, recipe, ...) than the one
// with this hash; explains it in `text`.
bool checkpoint_of_another_run(const checkpoint *c, const braid_hash *run, char text[CHECKPOINT_NOTE]);
// True if the moments are zero because the optimizer's files are missing; explains it in `text`.
bool checkpoint_lacks_moments(const checkpoint *c, char text[CHECKPOINT_NOTE]);
// The message for a run that is already complete; `described`: train.iterations.
void checkpoint_nothing_to_do(uint64_t done, uint64_t described, char text[CHECKPOINT_NOTE]);
// Refuses another model and names the first difference.
braid_err checkpoint_match(const checkpoint *c, const model_config *model, braid_error *error);
const checkpoint_adapter *checkpoint_adapter_of(const checkpoint *c);
// Refuses a checkpoint that a run with this adapter (rank 0: without one) cannot continue.
braid_err checkpoint_match_adapter(const checkpoint *c, const checkpoint_adapter *wanted, braid_error *error);
// Fills arrays that are indexed like a stage's parameters. moment1 and moment2 may be NULL (text
// generation).
braid_err checkpoint_read_stage(checkpoint *c, const model_config *model, const stage_tensor *tensors, uint32_t count,
                                float *weights, float *moment1, float *moment2, braid_error *error);
// Blocks [first, first + count) of a stage of `s` in the format of JOB_STATE_GET (state_blob_bytes
// of room).
braid_err checkpoint_state(checkpoint *c, const split *s, uint32_t stage_number, uint32_t first, uint32_t count,
                           void *out, braid_error *error);
// Content hashes of all blocks of a stage (state_name).
braid_err checkpoint_names(checkpoint *c, const split *s, uint32_t stage_number, braid_hash *out, braid_error *error);
// Size of the blob of checkpoint_state.
uint64_t checkpoint_state_bytes(const split *s, uint32_t stage_number, uint32_t first, uint32_t count);
// True if the learning rate jumps where `recipe` continues the checkpoint's schedule; explains it
// in `text`.
bool checkpoint_rate_jumps(const checkpoint *c, const train_recipe *recipe, char text[RUN_NOTE]);

#endif
