// Sequences of tokens from shuffled documents.
//
// The documents of a source, in a random order, form one stream of tokens, cut into sequences that
// are drawn in a random order. Another epoch has another order of both and other cuts. All follow
// from the seed by permutations that are computed, not stored, so memory does not depend on the
// number of documents but for one offset per PACKED_STRIDE of them.
//
// Several sources share the sequences by weight: of each PACKED_ROUND consecutive sequences, every
// source gives a fixed number, at positions in a random order.
#ifndef BRAID_TRAIN_PACKED_H
#define BRAID_TRAIN_PACKED_H

#include "train/tokens.h"

enum { PACKED_ROUND = 4096, PACKED_STRIDE = 64, PACKED_MAX_SOURCES = 16 };

typedef struct packed_data packed_data;

typedef struct packed_settings {
    double holdout;       // share of the documents that are held out, 0 .. 0.5
    uint32_t tokens;      // per sequence
    uint32_t vocabulary;  // of the model: every id must be below
    bool masks_next;      // the target behind a document's end is -1
} packed_settings;

// Takes the sources (their `free` is called), also on failure. BRAID_CONFIG: too few tokens, or ids
// beyond the vocabulary. A source with too few documents to hold some out holds out the end of
// each.
braid_err packed_open(train_tokens *sources, uint32_t count, const packed_settings *settings, packed_data **out,
                      braid_error *error);
void packed_free(packed_data *p);  // NULL is allowed

// Writes `tokens` inputs and the targets, which are the tokens that follow. `first`, unless NULL,
// gets for each token the position in the sequence where its document begins. False: see
// packed_why.
bool packed_sequence(packed_data *p, uint64_t seed, uint64_t number, int32_t *inputs, int32_t *targets,
                     uint32_t *first);
// Sequence `number` of the held-out text.
bool packed_held_out(packed_data *p, uint64_t seed, uint64_t number, int32_t *inputs, int32_t *targets,
                     uint32_t *first);
bool packed_failed(const packed_data *p);
void packed_why(const packed_data *p, braid_error *error);

bool packed_has_held_out(const packed_data *p);
uint64_t packed_tokens(const packed_data *p);  // of all sources
// Of the sources' hashes, names and shares.
braid_hash packed_hash(const packed_data *p);
uint32_t packed_sources(const packed_data *p);
const train_tokens *packed_source(const packed_data *p, uint32_t i);
double packed_share(const packed_data *p, uint32_t i);  // of the sequences, exactly

#endif
