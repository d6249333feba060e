// A run's description (RUN.yaml): everything that decides the result, and the hash that names it.
#ifndef BRAID_TRAIN_RUN_H
#define BRAID_TRAIN_RUN_H

#include "base/err.h"
#include "base/id.h"
#include "model/config.h"
#include "model/stage.h"
#include "train/recipe.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUN_MAX_TEXTS = 16, RUN_MAX_PATH = 1024, RUN_MAX_NAME = 64 };

// Who takes which microbatch (docs/routing.md), in the order of the routers' algorithms.
typedef enum run_routing { RUN_ROUTING_BRAID, RUN_ROUTING_GWTF, RUN_ROUTING_SWARM, RUN_ROUTINGS } run_routing;

// What braid and gwtf make small, in the order of the routers' objectives.
typedef enum run_objective { RUN_OBJECTIVE_SUM, RUN_OBJECTIVE_WORST, RUN_OBJECTIVES } run_objective;

// Who multiplies matrices (tensor/gemm.h): so that all processors get the same bits, or each as it can best. By default the first in a
// reproducible run, the second in a fast one.
typedef enum run_products { RUN_PRODUCTS_BY_MODE, RUN_PRODUCTS_COMMON, RUN_PRODUCTS_FASTEST, RUN_PRODUCTS } run_products;

typedef struct run_config {
    char name[RUN_MAX_NAME];
    uint64_t seed;
    model_config model;
    uint32_t stages;                   // stage 0 included; 1: the whole model in the data peers
    uint32_t blocks[WIRE_MAX_STAGES];  // model blocks (layers) per stage, stage 0 first; they add up to model.layers
    uint32_t text_count;
    char text[RUN_MAX_TEXTS][RUN_MAX_PATH];  // absolute after loading
    double holdout;
    uint32_t private_data;             // data peers, each with a text of its own; 0: all have the same text
    train_recipe recipe;
    run_products products;
    uint32_t microbatches, sequences, tokens;  // per iteration; sequences of tokens per microbatch
    bool elastic;           // private data: an iteration waits `patience` seconds for a data peer that is gone, then goes on without it
    uint32_t patience;
    uint32_t max_skipped;   // iterations in a row without a finite gradient that end the run, 0: any number goes on
    uint32_t slots;
    run_routing routing;
    run_objective objective;
    bool plan_first;  // of braid: data peers plan their first ways on a map of the run
    bool recompute;
    uint32_t eval_every, eval_microbatches;
    char checkpoint[RUN_MAX_PATH];  // directory, "" : none
    uint32_t checkpoint_every;      // iterations, 0: only at the end
    uint32_t data_peers;            // that `up` starts
    uint32_t capacity;              // microbatches a peer holds; 0: from memory
    uint64_t max_memory;            // bytes per peer, 0: no cap
} run_config;

// Whether a file of this name can be read only once, or through this process's descriptors alone.
bool run_config_is_stream(const char *path);
// Reads and checks a file, and that each text is there and is text. Paths in it are relative to the
// directory of `path` as it is named, whatever it links to; of a stream, to the working directory.
// Errors name file, line, column, key and the mend.
braid_err run_config_load(const char *path, run_config *out, braid_error *error);
// The same; the file may choose swarm.routing: swarm, a baseline that users' runs are refused.
braid_err run_config_load_with_baselines(const char *path, run_config *out, braid_error *error);
// The same from text; `origin` names it in messages. Paths are taken relative to `base_dir` (NULL: as they are).
braid_err run_config_parse(const char *text, size_t length, const char *origin, const char *base_dir, run_config *out,
                           braid_error *error);

// The canonical text that travels to joining peers (no local paths): parsing it gives the same run. `data` is the hash
// of the text, so that data peers with other text are refused; with private data it is left out. Bytes written, 0 when `capacity` is too small.
size_t run_config_describe(const run_config *run, const braid_hash *data, char *text, size_t capacity);
// Parses run_config_describe's output.
braid_err run_config_from_description(const char *text, size_t length, run_config *out, braid_hash *data,
                                      braid_error *error);
// Private data: every data peer's text must be named, for a process that plays all of them.
braid_err run_config_has_all_texts(const run_config *run, braid_error *error);
// SHA-256 of the canonical text.
braid_hash run_config_hash(const run_config *run, const braid_hash *data);

// Which of the two products a run has.
bool run_multiplies_fastest(const run_config *run);
// Shape of stage `number` of the run, and of the whole model in one stage, for solo.
void run_stage_shape(const run_config *run, uint32_t number, stage_shape *out);
void run_solo_shape(const run_config *run, stage_shape *out);

#endif
