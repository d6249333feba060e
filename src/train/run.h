// A run's description (RUN.yaml): everything that determines the result, and the hash that
// identifies it.
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

enum { RUN_MAX_TEXTS = 32, RUN_MAX_SOURCES = 16, RUN_MAX_PATH = 1024, RUN_MAX_NAME = 64 };

// The routing algorithms (docs/routing.md), in the order of the routers' enum.
typedef enum run_routing { RUN_ROUTING_BRAID, RUN_ROUTING_GWTF, RUN_ROUTING_SWARM, RUN_ROUTINGS } run_routing;

// The objectives of braid and gwtf, in the order of the routers' enum.
typedef enum run_objective { RUN_OBJECTIVE_SUM, RUN_OBJECTIVE_WORST, RUN_OBJECTIVES } run_objective;

// The stage of joiners and later moves, in the order of peer_placement. The last one, for tests, moves
// relays without a reason.
typedef enum run_placement { RUN_PLACEMENT_GAIN, RUN_PLACEMENT_GWTF, RUN_PLACEMENT_STAY, RUN_PLACEMENT_SHUFFLE, RUN_PLACEMENTS } run_placement;

// The kernels of matrix products (tensor/gemm.h): the same bits on all processors, or the fastest
// of each. Default: the first for a reproducible run, the second for a fast one.
typedef enum run_products { RUN_PRODUCTS_BY_MODE, RUN_PRODUCTS_COMMON, RUN_PRODUCTS_FASTEST, RUN_PRODUCTS } run_products;

// Texts that share the sequences by weight (data.mix).
typedef struct run_source {
    char name[RUN_MAX_NAME];   // "" without data.mix
    char field[RUN_MAX_NAME];  // of JSON lines
    double weight;
    uint32_t first, count;  // its texts in run_config.text
} run_source;

typedef struct run_config {
    char name[RUN_MAX_NAME];
    uint64_t seed;
    model_config model;
    uint32_t stages;                   // including stage 0; 1: the data peers have the whole model
    // model blocks (layers) per stage, stage 0 first; their sum is model.layers
    uint32_t blocks[WIRE_MAX_STAGES];
    char from[RUN_MAX_PATH];  // the model to start from: a path, resolved by the program; "": the seed makes the first weights
    braid_hash weights;       // of that model's weights (split_weights_hash); zero without one
    uint32_t text_count;
    char text[RUN_MAX_TEXTS][RUN_MAX_PATH];  // absolute paths after loading
    // Tokenised texts. "": none, the bytes of plain texts are the tokens; "bytes": the bytes of
    // texts of all kinds; else a tokenizer's path.
    char tokenizer[RUN_MAX_PATH];
    braid_hash tokenizer_hash;  // private data: all data peers need the same; else zero
    char field[RUN_MAX_NAME], end[RUN_MAX_NAME];  // data.field; data.end, "": the tokenizer's
    char cache[RUN_MAX_PATH];                     // directory of token caches, "": the user's
    uint32_t source_count;                        // at least 1 with a tokenizer
    run_source source[RUN_MAX_SOURCES];
    bool documents;  // no attention across documents
    double holdout;
    uint32_t private_data;             // number of data peers with a text of their own; 0: all have the same text
    train_recipe recipe;
    run_products products;
    tensor_links links;
    uint32_t microbatches, sequences, tokens;  // per iteration; and sequences of tokens per microbatch
    // private data: an iteration waits `patience` seconds for a missing data peer, then continues
    // without it
    bool elastic;
    uint32_t patience;
    uint32_t max_skipped;   // consecutive iterations without a finite gradient that end the run; 0: no limit
    uint32_t slots;
    run_routing routing;
    run_objective objective;
    struct {
        bool first;  // braid: data peers plan their initial routes on a map of the run
        run_placement placement;
    } plan;
    bool recompute;
    uint32_t eval_every, eval_microbatches;
    char checkpoint[RUN_MAX_PATH];  // directory, "" : none
    uint32_t checkpoint_every;      // in iterations; 0: only at the end
    uint32_t data_peers;            // number of peers that `up` starts
    uint32_t capacity;              // microbatches that a peer holds; 0: derived from memory
    uint64_t max_memory;            // bytes per peer; 0: no limit
} run_config;

// True for names that can be read only once, or only through this process's descriptors.
bool run_config_is_stream(const char *path);
enum { RUN_FROM_TOKENS = 1024 };  // default tokens of a sequence of a run from a model, at most

// Reads what a RUN.yaml names and this room cannot read.
typedef struct run_readers {
    // The number of tokens of a tokenizer.
    braid_err (*vocabulary)(const char *tokenizer, uint32_t *tokens, braid_error *error);
    // The shape of a model.
    braid_err (*model)(const char *path, model_config *out, braid_error *error);
    const char *from;  // a model that replaces the file's model.from; NULL: none
} run_readers;

// Reads and checks a file, and checks that each text exists and is text. Paths in it are relative
// to the directory of `path` as written, even if `path` is a link; for streams, to the working
// directory. Errors name file, line, column, key and the fix.
// `readers` may be NULL: then data.tokenizer is refused.
braid_err run_config_load(const char *path, const run_readers *readers, run_config *out, braid_error *error);
// The same, but the file may select swarm.routing: swarm, a baseline that is refused in users'
// runs.
braid_err run_config_load_with_baselines(const char *path, const run_readers *readers, run_config *out, braid_error *error);
// The same from text; `origin` names it in errors. Paths are relative to `base_dir` (NULL:
// unchanged).
braid_err run_config_parse(const char *text, size_t length, const char *origin, const char *base_dir, run_config *out,
                           braid_error *error);

// The canonical text that is sent to joining peers (without local paths); parsing it gives the same
// run. `data` is the hash of the text, so that data peers with another text are refused; it is
// omitted with private data. Returns the bytes written, 0 when `capacity` is too small.
size_t run_config_describe(const run_config *run, const braid_hash *data, char *text, size_t capacity);
// Parses the output of run_config_describe.
braid_err run_config_from_description(const char *text, size_t length, run_config *out, braid_hash *data,
                                      braid_error *error);
// Private data in a process that plays all data peers: every data peer's text must be given.
braid_err run_config_has_all_texts(const run_config *run, braid_error *error);
// SHA-256 of the canonical text.
braid_hash run_config_hash(const run_config *run, const braid_hash *data);

// True if the first weights are those of a model (model.from). False if the seed makes them; it also
// makes those of an adapter.
bool run_has_model(const run_config *run);
// Tokens of an iteration, those of local steps included.
uint64_t run_iteration_tokens(const run_config *run);
// The kind of product that a run uses.
bool run_multiplies_fastest(const run_config *run);
// The shape of stage `number` of the run, and of the whole model in one stage for solo training.
// Bytes of one microbatch's tensor between stages.
// Reads a codec for both directions, or {forward: CODEC, backward: CODEC}.
struct yaml;
struct yaml_node;
braid_err run_read_links(const struct yaml *file, const struct yaml_node *node, const char *name, tensor_links *out,
                         braid_error *error);
uint64_t run_activation_bytes(const run_config *run);  // encoded for a link
uint64_t run_gradient_bytes(const run_config *run);
void run_stage_shape(const run_config *run, uint32_t number, stage_shape *out);
void run_solo_shape(const run_config *run, stage_shape *out);

#endif
