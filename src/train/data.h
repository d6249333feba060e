// Training text as bytes or tokens, and samples as a pure function of (seed, iteration, microbatch
// index).
#ifndef BRAID_TRAIN_DATA_H
#define BRAID_TRAIN_DATA_H

#include "base/err.h"
#include "base/id.h"
#include "train/files.h"
#include "train/packed.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct train_data train_data;

// Reads the files in order; the last `holdout` share (0 .. 0.5) of the bytes is held out. `tokens`
// per sequence: too short a text is refused.
braid_err train_data_open(const char *const *paths, uint32_t count, double holdout, uint32_t tokens, train_data **out,
                          braid_error *error);
// The same for tokens (train/packed.h): takes the sources, also on failure. `microbatches`: per
// iteration.
braid_err train_data_open_tokens(train_tokens *sources, uint32_t count, const packed_settings *settings, uint32_t microbatches,
                                 train_data **out, braid_error *error);
// Private data in a process that has all texts: microbatch m is drawn from file m mod slots mod
// count (held-out microbatches begin at `microbatches`).
typedef struct train_shares {
    uint32_t slots, microbatches;
} train_shares;
braid_err train_data_open_shares(const char *const *paths, uint32_t count, const train_shares *shares, double holdout, uint32_t tokens,
                                 train_data **out, braid_error *error);
// The same for texts that are open. Takes them, also on failure.
braid_err train_data_join_shares(train_data *const *each, uint32_t count, const train_shares *shares, train_data **out, braid_error *error);
void train_data_free(train_data *data);
// Of all texts: in tokens if train_data_packed, else in bytes.
uint64_t train_data_size(const train_data *data);
// The sequences of tokens, of the first text with private data; NULL: bytes.
const packed_data *train_data_packed(const train_data *data);
// Files that a checkpoint gets so that its tokens can be read: a tokenizer. Takes `files`, an array
// from malloc.
void train_data_carry(train_data *data, files_text *files, uint32_t count);
const files_text *train_data_carried(const train_data *data, uint32_t *count);
bool train_data_has_held_out(const train_data *data);
// With private data: of the first file.
braid_hash train_data_hash(const train_data *data);
// Writes inputs and targets, sequences * tokens elements each; targets are the inputs shifted by
// one. `first`, unless NULL, gets for each token the position in its sequence where its document
// begins; of bytes it is 0. False: the text changed since it was opened; train_data_why has the
// message.
bool train_data_sample(const train_data *data, uint64_t seed, uint64_t iteration, uint32_t m, uint32_t sequences,
                       uint32_t tokens, int32_t *inputs, int32_t *targets, uint32_t *first);
// Microbatch `m` of the held-out sequences, the same in every evaluation.
bool train_data_held_out(const train_data *data, uint64_t seed, uint32_t m, uint32_t sequences, uint32_t tokens,
                         int32_t *inputs, int32_t *targets, uint32_t *first);
void train_data_why(const train_data *data, braid_error *error);

#endif
