// The keys of a description (RUN.yaml): one table for reading, checking and writing. Private to
// run*.c.
#ifndef BRAID_TRAIN_RUN_FIELDS_H
#define BRAID_TRAIN_RUN_FIELDS_H

#include "train/run.h"

// One bad batch causes one iteration without a finite gradient. Ten different batches in a row mean
// that the weights are bad, and a skipped iteration does not change them.
enum { RUN_MAX_SKIPPED = 10 };
enum { RUN_ADAPTER_WHY = 256 };

typedef enum run_field_kind {
    FIELD_NAME,    // char[RUN_MAX_NAME]
    FIELD_PATH,    // char[RUN_MAX_PATH], relative to the file
    FIELD_COUNT,   // uint32_t
    FIELD_LONG,    // uint64_t
    FIELD_REAL,    // double
    FIELD_FLOAT,   // float
    FIELD_SWITCH,  // bool
    FIELD_SIZE,    // uint64_t, bytes
    FIELD_ARCH,    // model_arch: the names of rows.h
    FIELD_SCALING, // model_rope_kind: plain, linear, llama3, yarn
    FIELD_LINKS,   // tensor_links: a codec, or {forward: codec, backward: codec}
    FIELD_LAYERS,  // a set of layers of model_config: all, or a list of their numbers
    FIELD_MODE,    // bool: reproducible, fast
    FIELD_SUMS,    // bool: exact, int8
    FIELD_PRODUCTS,  // run_products: common, fastest
    FIELD_ROUTING, // run_routing: braid, gwtf, swarm
    FIELD_OBJECTIVE,  // run_objective: sum, worst
    FIELD_PLACEMENT,  // run_placement: braid, gwtf, stay
    FIELD_BATCHES,    // bool: strict, elastic
    FIELD_BETAS,   // two floats
    FIELD_STAGES,  // run_config.stages and .blocks
    FIELD_TEXTS,   // run_config.text_count and .text
    FIELD_MIX,     // run_config.source_count, .source and its texts
    FIELD_TOKENIZER,  // char[RUN_MAX_PATH], relative to the file, or "bytes"
    FIELD_HASH,    // braid_hash
    FIELD_TARGETS,  // uint64_t, roles of an adapter: all, or a list of matrices
} run_field_kind;

typedef struct run_field {
    const char *section, *key;  // "" for keys of the file itself
    run_field_kind kind;
    size_t offset;         // offset in run_config
    uint64_t least, most;  // whole numbers
    double from, to;       // other numbers
    bool local;            // local to each machine: not in the canonical text
    bool optional;         // zero means absent: then not in the canonical text
    bool derived;          // in the canonical text only: a file cannot set it
    const char *missing;   // required key: the fix for a missing one
} run_field;

extern const run_field run_fields[];
extern const size_t run_field_count;
// "", "model", ... in the order of the canonical text.
extern const char *const run_sections[];
extern const size_t run_section_count;
extern const char *const run_scaling_names[MODEL_ROPE_YARN + 1];
extern const char *const run_mode_names[2];  // index 0: reproducible
extern const char *const run_sum_names[2];   // index 1: int8
extern const char *const run_batch_names[2];  // index 1: elastic
extern const char *const run_product_names[RUN_PRODUCTS - 1];  // index 1: fastest
extern const char *const run_routing_names[RUN_ROUTINGS];
extern const char *const run_placement_names[RUN_PLACEMENTS];
extern const char *const run_objective_names[RUN_OBJECTIVES];

// Fills in missing values that depend on others (0, negative or all ones before).
void run_fill_defaults(run_config *run);
void run_set_defaults(run_config *run);
// Fills in a set of layers that a description does not have, from the members that precede it in the
// table.
void run_default_layers(run_config *run, const run_field *f);
struct yaml;
struct yaml_node;
// One name of a matrix, or a list of them, as roles of this model.
braid_err run_read_targets(const struct yaml *file, const struct yaml_node *node, const model_config *model,
                           uint64_t *roles, braid_error *error);
// Checks a run's adapter, once the model's shape is known. `why`: the cause and the remedy.
bool run_adapter_check(const run_config *run, const char **key, char why[RUN_ADAPTER_WHY]);
// False for a value that the canonical text leaves out.
bool run_field_is_written(const run_config *run, const run_field *f);

#endif
