// The texts of a run, opened for training: as bytes, or as tokens from caches (src/data). Here,
// because src/train knows neither tokenizers nor caches.
#ifndef BRAID_NODE_RUN_DATA_H
#define BRAID_NODE_RUN_DATA_H

#include "data/place.h"
#include "train/data.h"
#include "train/run.h"

typedef struct run_data_config {
    run_config *run;  // with private data its tokenizer_hash is set
    // Private data: the number of the one text to open, from 1. 0: all of the run's texts, one for
    // each data peer if there are several.
    uint32_t own;
    unsigned threads;  // that tokenise
    bool describes;    // notes for each source: documents, tokens, cache, share
    place_host host;
} run_data_config;

// Texts that are not in a cache yet are tokenised, which may take long. Free with train_data_free.
braid_err run_data_open(const run_data_config *config, train_data **out, braid_error *error);

// Reads the tokenizers and models that a RUN.yaml names. `from` (borrowed): the model that replaces
// model.from; NULL: none.
run_readers run_data_readers(const char *from);

#endif
