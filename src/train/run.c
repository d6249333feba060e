#include "train/run.h"

#include "format/yaml.h"
#include "model/rows.h"
#include "train/run_fields.h"
#include "format/text_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUN_DESCRIPTION_VERSION = 1,
    RUN_MAX_SECTION_KEYS = 64,
    RUN_MAX_END_TENSORS = 5,
    RUN_LEAST_BLOCK_TENSORS = 12,  // counted for each block even where it has fewer
};

typedef struct run_reader {
    const yaml *file;
    const char *base_dir;
    bool travelled;  // reading the canonical text, not a user's file
    bool baselines;  // the file may select the routing of a baseline
    const run_readers *readers;  // NULL: none
    run_config *run;
    braid_error *error;
} run_reader;

// ---- one value ----

static braid_err read_betas(const run_reader *r, const run_field *f, const yaml_node *node, float *betas) {
    if (node->kind != YAML_LIST || node->children != 2)
        return yaml_fail(r->file, node, r->error, "train.betas must be two numbers, like [0.9, 0.95]");
    const yaml_node *item = node->first;
    for (uint32_t i = 0; i < 2; i++, item = item->next) {
        double value = 0;
        braid_err code = yaml_read_real(r->file, item, "train.betas", f->from, f->to, &value, r->error);
        if (code != BRAID_OK) return code;
        betas[i] = (float)value;
    }
    return BRAID_OK;
}

static braid_err read_stages(const run_reader *r, const run_field *f, const yaml_node *node) {
    if (node->kind != YAML_LIST || node->children == 0) {
        return yaml_fail(r->file, node, r->error,
                         "stages must be a list of how many blocks each stage has, stage 0 first, like [0, 2, 2, 2]");
    }
    if (node->children > WIRE_MAX_STAGES)
        return yaml_fail(r->file, node, r->error, "more than %d stages", WIRE_MAX_STAGES);
    r->run->stages = 0;
    for (const yaml_node *item = node->first; item != NULL; item = item->next) {
        uint64_t blocks = 0;
        braid_err code =
            yaml_read_count(r->file, item, "stages", r->run->stages == 0 ? 0 : 1, f->most, &blocks, r->error);
        if (code != BRAID_OK) return code;
        r->run->blocks[r->run->stages++] = (uint32_t)blocks;
    }
    return BRAID_OK;
}

// True if "DIRECTORY/.." is DIRECTORY without its last component, which fails behind a symbolic
// link or another "..".
static bool parent_is_prefix(const char *directory, size_t length) {
    char path[RUN_MAX_PATH];
    struct stat about;
    if (length == 0 || length >= sizeof path) return false;
    memcpy(path, directory, length);
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (!name || strcmp(name, "/..") == 0) return false;
    return lstat(path, &about) != 0 || !S_ISLNK(about.st_mode);
}

// Resolves `path` relative to `directory`; a leading ../ removes a component.
static int join_path(char out[RUN_MAX_PATH], const char *directory, const char *path) {
    size_t length = strlen(directory);
    for (;;) {
        if (strncmp(path, "./", 2) == 0) {
            path += 2;
        } else if (strncmp(path, "../", 3) == 0 && parent_is_prefix(directory, length)) {
            path += 3;
            while (length > 0 && directory[--length] != '/') continue;
        } else {
            return snprintf(out, RUN_MAX_PATH, "%.*s/%s", (int)length, directory, path);
        }
    }
}

static braid_err read_path(const run_reader *r, const yaml_node *node, const char *name, char out[RUN_MAX_PATH]) {
    char path[RUN_MAX_PATH];
    braid_err code = yaml_read_text(r->file, node, name, path, sizeof path, r->error);
    if (code != BRAID_OK) return code;
    bool whole = path[0] == '/' || r->base_dir == NULL;
    int length = whole ? snprintf(out, RUN_MAX_PATH, "%s", path) : join_path(out, r->base_dir, path);
    if (length >= 0 && length < RUN_MAX_PATH) return BRAID_OK;
    return yaml_fail(r->file, node, r->error, "%s is longer than %d bytes", name, RUN_MAX_PATH - 1);
}

// Adds the texts of `name`: a path or a list of them.
static braid_err read_texts(const run_reader *r, const yaml_node *node, const char *name) {
    run_config *run = r->run;
    const yaml_node *item = node->kind == YAML_LIST ? node->first : node;
    size_t count = node->kind == YAML_LIST ? node->children : 1;
    if (count == 0)
        return yaml_fail(r->file, node, r->error, "%s is an empty list: name a plain text file to learn from", name);
    if (count > RUN_MAX_TEXTS - run->text_count)
        return yaml_fail(r->file, node, r->error, "%s names more than %d files: join some, or with data.tokenizer name their directory", name, RUN_MAX_TEXTS);
    for (; item != NULL && count-- > 0; item = item->next) {
        braid_err code = read_path(r, item, name, run->text[run->text_count++]);
        if (code != BRAID_OK) return code;
    }
    return BRAID_OK;
}

static braid_err read_tokenizer(const run_reader *r, const yaml_node *node, const char *name, char out[RUN_MAX_PATH]) {
    if (node->text == NULL || strcmp(node->text, "bytes") != 0) return read_path(r, node, name, out);
    strcpy(out, "bytes");
    return BRAID_OK;
}

// One source of data.mix: {text: ..., weight: ..., field: ...}.
static braid_err read_source(const run_reader *r, const yaml_node *node, run_source *s) {
    static const char *const keys[] = {"text", "weight", "field"};
    char name[RUN_MAX_NAME + 16];
    snprintf(s->name, sizeof s->name, "%.*s", RUN_MAX_NAME - 1, node->key);
    snprintf(name, sizeof name, "data.mix.%.*s", RUN_MAX_NAME - 1, node->key);
    braid_err code = yaml_read_map(r->file, node, name, r->error);
    if (code == BRAID_OK) code = yaml_check_keys(r->file, node, name, keys, 3, r->error);
    if (code != BRAID_OK) return code;
    const yaml_node *text = yaml_find(node, "text"), *weight = yaml_find(node, "weight"), *field = yaml_find(node, "field");
    if (text == NULL) return yaml_fail(r->file, node, r->error, "%s.text is missing: name files, directories or patterns", name);
    s->weight = 1;
    s->first = r->run->text_count;
    code = read_texts(r, text, name);
    s->count = r->run->text_count - s->first;
    if (code == BRAID_OK && weight != NULL) code = yaml_read_real(r->file, weight, "a weight in data.mix", 1e-6, 1e9, &s->weight, r->error);
    if (code == BRAID_OK && field != NULL) code = yaml_read_text(r->file, field, "a field in data.mix", s->field, sizeof s->field, r->error);
    return code;
}

static braid_err read_mix(const run_reader *r, const yaml_node *node) {
    run_config *run = r->run;
    braid_err code = yaml_read_map(r->file, node, "data.mix", r->error);
    if (code != BRAID_OK) return code;
    if (node->children == 0 || node->children > RUN_MAX_SOURCES)
        return yaml_fail(r->file, node, r->error, "data.mix has %zu sources, and must have 1 to %d", (size_t)node->children, RUN_MAX_SOURCES);
    for (const yaml_node *item = node->first; item != NULL && code == BRAID_OK; item = item->next)
        code = read_source(r, item, &run->source[run->source_count++]);
    return code;
}

static braid_err read_choice(const run_reader *r, const yaml_node *node, const char *name, const char *const names[2],
                             size_t *choice) {
    return yaml_read_choice(r->file, node, name, names, 2, choice, r->error);
}

// The last name is a baseline. Joiners accept it from the leader's description; of users' files
// only braid-bench accepts it.
static braid_err read_routing(const run_reader *r, const yaml_node *node, const char *name, size_t *choice) {
    uint32_t names = r->baselines || r->travelled ? RUN_ROUTINGS : RUN_ROUTING_SWARM;
    if (names == RUN_ROUTING_SWARM && node->text != NULL && strcmp(node->text, run_routing_names[RUN_ROUTING_SWARM]) == 0)
        return yaml_fail(r->file, node, r->error,
                         "%s 'swarm' is a baseline for comparisons, which only braid-bench runs; write braid or gwtf, or leave it out", name);
    return yaml_read_choice(r->file, node, name, run_routing_names, names, choice, r->error);
}

static braid_err read_arch(const run_reader *r, const yaml_node *node, const char *name, model_arch *arch) {
    const char *names[MODEL_ARCHS];
    size_t choice = 0;
    for (uint32_t i = 0; i < MODEL_ARCHS; i++) names[i] = model_row_of((model_arch)i)->name;
    braid_err code = yaml_read_choice(r->file, node, name, names, MODEL_ARCHS, &choice, r->error);
    if (code == BRAID_OK) *arch = (model_arch)choice;
    return code;
}

// model.layers precedes sets of layers in the table.
static braid_err read_layers(const run_reader *r, const yaml_node *node, const char *name, uint64_t *layers) {
    uint32_t count = r->run->model.layers;
    if (node->kind == YAML_SCALAR && node->text && strcmp(node->text, "all") == 0) {
        for (uint32_t i = 0; i < count && i < MODEL_MAX_LAYERS; i++) model_set_layer(layers, i);
        return BRAID_OK;
    }
    if (node->kind != YAML_LIST)
        return yaml_fail(r->file, node, r->error, "%s must be all, or a list of layers, like [0, 1, 2]", name);
    for (const yaml_node *item = node->first; item != NULL; item = item->next) {
        uint64_t layer = 0;
        braid_err code = yaml_read_count(r->file, item, name, 0, count - 1, &layer, r->error);
        if (code != BRAID_OK) return code;
        model_set_layer(layers, (uint32_t)layer);
    }
    return BRAID_OK;
}

static braid_err read_codec(const yaml *file, const yaml_node *node, const char *name, tensor_codec *out, braid_error *error) {
    size_t choice = 0;
    braid_err code = yaml_read_choice(file, node, name, tensor_codec_names, TENSOR_CODECS, &choice, error);
    if (code == BRAID_OK) *out = (tensor_codec)choice;
    return code;
}

braid_err run_read_links(const yaml *file, const yaml_node *node, const char *name, tensor_links *out, braid_error *error) {
    static const char *const known[] = {"forward", "backward"};
    if (node->kind != YAML_MAP) {
        braid_err code = read_codec(file, node, name, &out->forward, error);
        out->backward = out->forward;
        return code;
    }
    braid_err code = yaml_check_keys(file, node, name, known, 2, error);
    const yaml_node *forward = yaml_find(node, "forward"), *backward = yaml_find(node, "backward");
    if (code == BRAID_OK && forward) code = read_codec(file, forward, "forward", &out->forward, error);
    if (code == BRAID_OK && backward) code = read_codec(file, backward, "backward", &out->backward, error);
    return code;
}

static braid_err read_number(const run_reader *r, const run_field *f, const yaml_node *node, const char *name,
                             void *place) {
    uint64_t whole = 0;
    double real = 0;
    braid_err code = BRAID_OK;
    if (f->kind == FIELD_COUNT || f->kind == FIELD_LONG)
        code = yaml_read_count(r->file, node, name, f->least, f->most, &whole, r->error);
    else
        code = yaml_read_real(r->file, node, name, f->from, f->to, &real, r->error);
    if (code != BRAID_OK) return code;
    if (f->kind == FIELD_COUNT) *(uint32_t *)place = (uint32_t)whole;
    if (f->kind == FIELD_LONG) *(uint64_t *)place = whole;
    if (f->kind == FIELD_REAL) *(double *)place = real;
    if (f->kind == FIELD_FLOAT) *(float *)place = (float)real;
    return BRAID_OK;
}

static braid_err read_hash(const run_reader *r, const yaml_node *node, const char *name, braid_hash *out) {
    char hex[2 * BRAID_ID_BYTES + 1];
    braid_err code = yaml_read_text(r->file, node, name, hex, sizeof hex, r->error);
    if (code != BRAID_OK) return code;
    if (strlen(hex) == sizeof hex - 1 && id_unhex(hex, BRAID_ID_BYTES, out->bytes)) return BRAID_OK;
    return yaml_fail(r->file, node, r->error, "%s must be %d hexadecimal digits", name, 2 * BRAID_ID_BYTES);
}

static braid_err read_field(const run_reader *r, const run_field *f, const yaml_node *node) {
    char name[64];
    void *place = (char *)r->run + f->offset;
    size_t choice = 0;
    braid_err code = BRAID_OK;
    snprintf(name, sizeof name, "%s%s%s", f->section, *f->section ? "." : "", f->key);
    switch (f->kind) {
    case FIELD_NAME: return yaml_read_text(r->file, node, name, place, RUN_MAX_NAME, r->error);
    case FIELD_PATH: return read_path(r, node, name, place);
    case FIELD_SWITCH: return yaml_read_bool(r->file, node, name, place, r->error);
    case FIELD_SIZE: return yaml_read_size(r->file, node, name, place, r->error);
    case FIELD_BETAS: return read_betas(r, f, node, place);
    case FIELD_STAGES: return read_stages(r, f, node);
    case FIELD_TEXTS: return read_texts(r, node, name);
    case FIELD_MIX: return read_mix(r, node);
    case FIELD_TOKENIZER: return read_tokenizer(r, node, name, place);
    case FIELD_HASH: return read_hash(r, node, name, place);
    case FIELD_LAYERS: return read_layers(r, node, name, place);
    case FIELD_TARGETS: return run_read_targets(r->file, node, &r->run->model, place, r->error);
    case FIELD_LINKS: return run_read_links(r->file, node, name, place, r->error);
    case FIELD_ARCH: return read_arch(r, node, name, place);
    case FIELD_SCALING:
        code = yaml_read_choice(r->file, node, name, run_scaling_names, MODEL_ROPE_YARN + 1, &choice, r->error);
        if (code == BRAID_OK) *(model_rope_kind *)place = (model_rope_kind)choice;
        return code;
    case FIELD_MODE:
        code = read_choice(r, node, name, run_mode_names, &choice);
        if (code == BRAID_OK) *(bool *)place = choice == 0;
        return code;
    case FIELD_SUMS:
        code = read_choice(r, node, name, run_sum_names, &choice);
        if (code == BRAID_OK) *(bool *)place = choice == 1;
        return code;
    case FIELD_BATCHES:
        code = read_choice(r, node, name, run_batch_names, &choice);
        if (code == BRAID_OK) *(bool *)place = choice == 1;
        return code;
    case FIELD_PRODUCTS:
        code = yaml_read_choice(r->file, node, name, run_product_names, RUN_PRODUCTS - 1, &choice, r->error);
        if (code == BRAID_OK) *(run_products *)place = (run_products)(choice + 1);
        return code;
    case FIELD_ROUTING:
        code = read_routing(r, node, name, &choice);
        if (code == BRAID_OK) *(run_routing *)place = (run_routing)choice;
        return code;
    case FIELD_OBJECTIVE:
        code = yaml_read_choice(r->file, node, name, run_objective_names, RUN_OBJECTIVES, &choice, r->error);
        if (code == BRAID_OK) *(run_objective *)place = (run_objective)choice;
        return code;
    case FIELD_PLACEMENT:
        code = yaml_read_choice(r->file, node, name, run_placement_names,
                                r->baselines || r->travelled ? RUN_PLACEMENTS : RUN_PLACEMENT_SHUFFLE, &choice, r->error);
        if (code == BRAID_OK) *(run_placement *)place = (run_placement)choice;
        return code;
    default: return read_number(r, f, node, name, place);
    }
}

// ---- the whole file ----

static const yaml_node *section_of(const yaml *file, const char *section) {
    return *section ? yaml_find(yaml_root(file), section) : yaml_root(file);
}

// The node for the position of an error about `section.key`: its value, else its section, else the
// file.
static const yaml_node *place_of(const yaml *file, const char *section, const char *key) {
    const yaml_node *map = section_of(file, section);
    const yaml_node *node = map != NULL && map->kind == YAML_MAP ? yaml_find(map, key) : NULL;
    return node != NULL ? node : map != NULL ? map : yaml_root(file);
}

static braid_err check_section(const run_reader *r, const char *section) {
    const char *known[RUN_MAX_SECTION_KEYS];
    size_t count = 0;
    const yaml_node *map = section_of(r->file, section);
    if (map == NULL) return BRAID_OK;
    braid_err code = yaml_read_map(r->file, map, section, r->error);
    if (code != BRAID_OK) return code;
    for (size_t i = 0; i < run_field_count; i++) {
        bool here = strcmp(run_fields[i].section, section) == 0 && !(r->travelled ? run_fields[i].local : run_fields[i].derived);
        if (here) known[count++] = run_fields[i].key;
    }
    for (size_t i = 1; i < run_section_count && !*section; i++) known[count++] = run_sections[i];
    if (r->travelled && !*section) known[count++] = "braid";
    if (r->travelled && strcmp(section, "data") == 0) known[count++] = "hash";
    BRAID_ASSERT(count <= RUN_MAX_SECTION_KEYS);
    return yaml_check_keys(r->file, map, section, known, count, r->error);
}

static bool from_model(const run_reader *r) { return r->run->from[0] != 0; }

// The model's shape comes from its files; only the context may be another one.
static braid_err read_model(const run_reader *r) {
    run_config *run = r->run;
    const yaml_node *map = section_of(r->file, "model"), *node = map != NULL && map->kind == YAML_MAP ? yaml_find(map, "from") : NULL;
    const char *given = r->readers != NULL ? r->readers->from : NULL;
    braid_error why = {0};
    if (r->travelled || (node == NULL && given == NULL)) return BRAID_OK;
    braid_err code = given == NULL ? read_path(r, node, "model.from", run->from) : BRAID_OK;
    if (code != BRAID_OK) return code;
    if (given != NULL && snprintf(run->from, sizeof run->from, "%s", given) >= (int)sizeof run->from)
        return braid_fail(r->error, BRAID_LIMIT, "--from: the path is longer than %d bytes", RUN_MAX_PATH - 1);
    for (const yaml_node *item = map != NULL ? map->first : NULL; item != NULL; item = item->next)
        if (strcmp(item->key, "from") != 0 && strcmp(item->key, "context") != 0)
            return yaml_fail(r->file, item, r->error, "model.%s: the model '%.100s' says it itself; leave it out", item->key, run->from);
    if (r->readers == NULL) return yaml_fail(r->file, node, r->error, "model.from: this program reads no models; leave it out");
    code = r->readers->model(run->from, &run->model, &why);
    if (code == BRAID_OK) return code;
    if (node == NULL || given != NULL) return braid_fail(r->error, code, "--from: %.400s", why.text);
    return yaml_fail(r->file, node, r->error, "model.from: %.400s", why.text);
}

// Learned positions end with the model's context.
static braid_err check_context(const run_reader *r, uint32_t context) {
    if (!from_model(r) || r->run->model.context == context || r->run->model.arch != MODEL_GPT) return BRAID_OK;
    return yaml_fail(r->file, place_of(r->file, "model", "context"), r->error, "model.context: the model '%.100s' has learned positions for a context of %u; leave it out",
                     r->run->from, context);
}

static braid_err read_fields(const run_reader *r) {
    braid_err code = BRAID_OK;
    for (size_t i = 0; i < run_section_count && code == BRAID_OK; i++) code = check_section(r, run_sections[i]);
    for (size_t i = 0; i < run_field_count && code == BRAID_OK; i++) {
        const run_field *f = &run_fields[i];
        const yaml_node *map = section_of(r->file, f->section);
        const yaml_node *node = map != NULL ? yaml_find(map, f->key) : NULL;
        if (node != NULL)
            code = read_field(r, f, node);
        else if (from_model(r) && strcmp(f->section, "model") == 0)
            continue;  // the model's own
        else if (f->kind == FIELD_LAYERS)
            run_default_layers(r->run, f);
        else if (f->missing != NULL && !(r->travelled && f->local)) {
            code = yaml_fail(r->file, place_of(r->file, f->section, f->key), r->error, "%s.%s is missing: %s",
                             f->section, f->key, f->missing);
        }
    }
    return code;
}

static uint32_t most_blocks(const run_config *run) {
    const adapter_config *a = &run->recipe.adapter;
    uint32_t each = a->rank ? adapter_tensors_per_layer(&run->model, a->roles) : model_tensors_per_block(&run->model);
    return (WIRE_MAX_STAGE_TENSORS - RUN_MAX_END_TENSORS) / (each > RUN_LEAST_BLOCK_TENSORS ? each : RUN_LEAST_BLOCK_TENSORS);
}

static braid_err check_stages(const run_reader *r) {
    const run_config *run = r->run;
    uint32_t most = most_blocks(run);
    const yaml_node *at = place_of(r->file, "", "stages");
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < run->stages; i++) {
        blocks += run->blocks[i];
        if (run->stages > 1 && run->blocks[i] > most) {
            return yaml_fail(r->file, at, r->error,
                             "stage %u has %u blocks, at most %d fit one stage: cut the model into more stages", i,
                             run->blocks[i], most);
        }
    }
    if (blocks == run->model.layers) return BRAID_OK;
    return yaml_fail(r->file, at, r->error, "stages add up to %llu blocks but model.layers is %u: make the two equal",
                     (unsigned long long)blocks, run->model.layers);
}

static braid_err check_name(const run_reader *r) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-";
    const char *name = r->run->name;
    if (*name && name[strspn(name, allowed)] == 0) return BRAID_OK;
    return yaml_fail(r->file, place_of(r->file, "", "name"), r->error,
                     "name may hold letters, digits, spaces and . _ -");
}

static braid_err check_sizes(const run_reader *r) {
    const run_config *run = r->run;
    const yaml *file = r->file;
    if (run->tokens > run->model.context) {
        return yaml_fail(file, place_of(file, "train", "tokens"), r->error,
                         "train.tokens is %u but model.context is %u: a sequence must fit the context", run->tokens,
                         run->model.context);
    }
    uint64_t bytes = run_activation_bytes(run);
    if (bytes > WIRE_MAX_PAYLOAD_BYTES) {
        return yaml_fail(
            file, place_of(file, "train", "sequences"), r->error,
            "one microbatch between two stages is %llu MiB, at most %d: lower train.sequences or train.tokens",
            (unsigned long long)(bytes >> 20), WIRE_MAX_PAYLOAD_BYTES >> 20);
    }
    return BRAID_OK;
}

static braid_err check_swarm(const run_reader *r) {
    const run_config *run = r->run;
    const yaml *file = r->file;
    if (run->slots > run->microbatches) {
        return yaml_fail(file, place_of(file, "swarm", "slots"), r->error,
                         "swarm.slots is %u but there are %u microbatches: lower swarm.slots to at most that many",
                         run->slots, run->microbatches);
    }
    if (run->data_peers > run->slots) {
        return yaml_fail(file, place_of(file, "swarm", "data_peers"), r->error,
                         "swarm.data_peers is %u but swarm.slots is %u: each data peer needs a slot", run->data_peers,
                         run->slots);
    }
    if (run->eval_every > 0 && run->holdout == 0) {
        return yaml_fail(file, place_of(file, "eval", "every"), r->error,
                         "eval.every needs held-out text: set data.holdout above 0, or eval.every to 0");
    }
    return BRAID_OK;
}

static braid_err check_recipe(const run_reader *r) {
    const train_recipe *recipe = &r->run->recipe;
    if (recipe->byte_sums && recipe->reproducible)
        return yaml_fail(r->file, place_of(r->file, "swarm", "sums"), r->error,
                         "swarm.sums is int8, but sums of a reproducible run are exact: set train.mode to fast, or leave sums out");
    if (recipe->min_learning_rate <= recipe->learning_rate) return BRAID_OK;
    return yaml_fail(r->file, place_of(r->file, "train", "min_learning_rate"), r->error,
                     "train.min_learning_rate is above train.learning_rate");
}

// A contribution's tokens are counted in 32 bits.
static braid_err check_local(const run_reader *r) {
    const run_config *run = r->run;
    const train_recipe *recipe = &run->recipe;
    const yaml_node *at = place_of(r->file, "train", "local_steps");
    bool outer = recipe->outer_rate > 0 || recipe->outer_momentum >= 0;
    if (recipe->local_steps == 0 && outer)
        return yaml_fail(r->file, place_of(r->file, "train", recipe->outer_rate > 0 ? "outer_learning_rate" : "outer_momentum"), r->error,
                         "train.outer_learning_rate and train.outer_momentum are for local steps: set train.local_steps, or leave them out");
    if (recipe->local_steps == 0) return BRAID_OK;
    if (run->stages > 1)
        return yaml_fail(r->file, at, r->error, "train.local_steps needs peers with the whole model: leave 'stages' out, or set it to [%u]", run->model.layers);
    if (recipe->adapter.rank > 0)
        return yaml_fail(r->file, at, r->error, "train.local_steps and an adapter cannot be combined: leave one of them out");
    if ((uint64_t)run->sequences * run->tokens * recipe->local_steps <= INT32_MAX) return BRAID_OK;
    return yaml_fail(r->file, at, r->error, "train.local_steps times train.sequences times train.tokens is above 2^31: lower one of them");
}

static braid_err check_routing(const run_reader *r) {
    if (r->run->plan.first && (r->run->routing != RUN_ROUTING_BRAID || r->run->objective != RUN_OBJECTIVE_SUM))
        return yaml_fail(r->file, place_of(r->file, "swarm", "plan_first"), r->error,
                         "swarm.plan_first is for the routing braid with the objective sum; leave it out, or choose those");
    if (r->run->routing != RUN_ROUTING_SWARM || r->run->objective == RUN_OBJECTIVE_SUM) return BRAID_OK;
    return yaml_fail(r->file, place_of(r->file, "swarm", "objective"), r->error,
                     "swarm.objective is for the routings braid and gwtf: 'swarm' sends each microbatch where it is "
                     "soonest; leave the objective out, or choose another routing");
}

static braid_err check_private(const run_reader *r) {
    const run_config *run = r->run;
    const yaml_node *at = place_of(r->file, "data", "private");
    if (run->elastic && run->private_data == 0)
        return yaml_fail(r->file, place_of(r->file, "train", "batches"), r->error,
                         "train.batches is elastic, but all data peers have the same text, so no microbatch is ever left out: leave batches out, or set "
                         "data.private");
    if (run->private_data == 0) return BRAID_OK;
    if (run->private_data > run->microbatches)
        return yaml_fail(r->file, at, r->error, "data.private is %u but there are %u microbatches: each data peer needs one", run->private_data, run->microbatches);
    if (run->private_data > run->slots)
        return yaml_fail(r->file, at, r->error, "data.private is %u but swarm.slots is %u: each data peer needs a slot", run->private_data, run->slots);
    if (r->travelled) return BRAID_OK;
    if (run->data_peers != run->private_data)
        return yaml_fail(r->file, at, r->error, "data.private is %u but swarm.data_peers is %u: with private data they are the same", run->private_data,
                         run->data_peers);
    if (run->text_count != 1 && run->text_count != run->private_data)
        return yaml_fail(r->file, place_of(r->file, "data", "text"), r->error,
                         "data.private is %u and data.text names %u files: name %u, one for each data peer, or one, this peer's own", run->private_data,
                         run->text_count, run->private_data);
    return BRAID_OK;
}

static braid_err check_data(const run_reader *r) {
    const run_config *run = r->run;
    const yaml *file = r->file;
    const yaml_node *data = yaml_find(yaml_root(file), "data"), *text = data ? yaml_find(data, "text") : NULL, *mix = data ? yaml_find(data, "mix") : NULL;
    if (r->travelled) return BRAID_OK;
    bool tokenised = run->tokenizer[0] || from_model(r);
    if (!text && !mix)
        return yaml_fail(file, place_of(file, "data", "text"), r->error, "data.text is missing: add 'text: FILE' under 'data:', a plain text file to learn from");
    if (run->end[0] && strcmp(run->tokenizer, "bytes") == 0)
        return yaml_fail(file, place_of(file, "data", "end"), r->error, "data.end is for tokenizers: with bytes a zero byte ends a document; leave it out");
    if (text && mix) return yaml_fail(file, mix, r->error, "data.text and data.mix are both set: name all texts in one of them");
    if (mix && !tokenised)
        return yaml_fail(file, mix, r->error, "data.mix needs tokenised texts: set data.tokenizer to a tokenizer's path, or to bytes");
    if (mix && run->private_data > 0)
        return yaml_fail(file, mix, r->error, "data.mix and data.private cannot be combined: each data peer has one text of its own");
    for (size_t i = 0; !tokenised && i < 4; i++) {
        static const char *const keys[] = {"field", "end", "cache", "document_attention"};
        const yaml_node *node = yaml_find(data, keys[i]);
        if (node) return yaml_fail(file, node, r->error, "data.%s is for tokenised texts: set data.tokenizer, too, or leave it out", keys[i]);
    }
    return BRAID_OK;
}

// The model knows at least the tokens of the tokenizer.
static braid_err fill_vocabulary(const run_reader *r) {
    run_config *run = r->run;
    uint32_t tokens = 256;
    braid_error why = {0};
    if (from_model(r) && !run->tokenizer[0]) memcpy(run->tokenizer, run->from, sizeof run->tokenizer);
    if (!run->tokenizer[0] && (r->travelled || run->model.vocab == 0 || run->model.vocab >= tokens)) return BRAID_OK;
    if (!run->tokenizer[0])
        return yaml_fail(r->file, place_of(r->file, "model", "vocab"), r->error, "model.vocab must be at least %u, a token for each byte, or set data.tokenizer", tokens);
    const yaml_node *at = place_of(r->file, "data", "tokenizer");
    if (strcmp(run->tokenizer, "bytes") != 0) {
        if (!r->readers) return yaml_fail(r->file, at, r->error, "data.tokenizer: this program reads no tokenizers; leave it out");
        braid_err code = r->readers->vocabulary(run->tokenizer, &tokens, &why);
        if (code != BRAID_OK) return yaml_fail(r->file, at, r->error, "data.tokenizer: %.300s", why.text);
    }
    if (run->model.vocab == 0) run->model.vocab = tokens;
    if (run->model.vocab >= tokens) return BRAID_OK;
    return yaml_fail(r->file, place_of(r->file, "model", "vocab"), r->error, "model.vocab is %u and the tokenizer has %u tokens: raise it, or leave it out", run->model.vocab, tokens);
}

braid_err run_config_has_all_texts(const run_config *run, braid_error *error) {
    if (run->private_data == 0 || run->text_count == run->private_data) return BRAID_OK;
    return braid_fail(error, BRAID_CONFIG, "data.private is %u and data.text names %u file%s: name one for each data peer", run->private_data, run->text_count,
                      run->text_count == 1 ? "" : "s");
}

static braid_err check_adapter(const run_reader *r) {
    char why[RUN_ADAPTER_WHY];
    const char *key;
    if (run_adapter_check(r->run, &key, why)) return BRAID_OK;
    return yaml_fail(r->file, place_of(r->file, "adapter", key), r->error, "%s", why);
}

static braid_err check_run(const run_reader *r) {
    braid_error why = {0};
    braid_err code = model_config_check(&r->run->model, &why);
    if (code != BRAID_OK)
        return yaml_fail(r->file, place_of(r->file, "model", "arch"), r->error, "model: %.300s", why.text);
    code = check_name(r);
    if (code == BRAID_OK) code = check_adapter(r);
    if (code == BRAID_OK) code = check_stages(r);
    if (code == BRAID_OK) code = check_sizes(r);
    if (code == BRAID_OK) code = check_recipe(r);
    if (code == BRAID_OK) code = check_local(r);
    if (code == BRAID_OK) code = check_routing(r);
    if (code == BRAID_OK) code = check_private(r);
    return code == BRAID_OK ? check_swarm(r) : code;
}

static braid_err read_run(const run_reader *r) {
    run_set_defaults(r->run);
    braid_err code = read_model(r);
    uint32_t context = r->run->model.context;
    if (code == BRAID_OK) code = read_fields(r);
    if (code == BRAID_OK) code = check_context(r, context);
    if (code == BRAID_OK) code = check_data(r);
    if (code == BRAID_OK) code = fill_vocabulary(r);
    if (code != BRAID_OK) return code;
    run_fill_defaults(r->run);
    return check_run(r);
}

braid_err run_config_parse(const char *text, size_t length, const char *origin, const char *base_dir, run_config *out,
                           braid_error *error) {
    yaml *file = NULL;
    braid_err code = yaml_parse(text, length, origin, &file, error);
    if (code != BRAID_OK) return code;
    code = read_run(&(run_reader){.file = file, .base_dir = base_dir, .run = out, .error = error});
    yaml_free(file);
    return code;
}

// Reports a missing text, or a file that is no text, early and with its line.
static braid_err check_texts(const run_reader *r) {
    if (r->run->tokenizer[0]) return BRAID_OK;  // checked when they are tokenised
    const yaml_node *node = place_of(r->file, "data", "text");
    const yaml_node *item = node->kind == YAML_LIST ? node->first : node;
    for (uint32_t i = 0; i < r->run->text_count; i++, item = item->next) {
        char why[TEXT_WHY];
        if (!text_check_file(r->run->text[i], why)) return yaml_fail(r->file, item, r->error, "data.text: cannot use '%.160s': it %s", r->run->text[i], why);
    }
    return BRAID_OK;
}

// A pipe or an inherited descriptor (/dev/stdin, <(...)) is in no directory of the user.
bool run_config_is_stream(const char *path) {
    struct stat about;
    bool descriptor = strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0;
    return descriptor || (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode));
}

// The directory of `path` as the user wrote it, absolute. Links are not followed: the target may be
// anywhere (a Kubernetes ConfigMap), and texts are relative to the link.
static braid_err directory_of(const char *path, char out[RUN_MAX_PATH], braid_error *error) {
    char here[RUN_MAX_PATH] = "";
    bool stream = run_config_is_stream(path), relative = stream || path[0] != '/';
    if (relative && !getcwd(here, sizeof here))
        return braid_fail(error, BRAID_IO, "cannot determine the working directory: %s; name the run's description with its whole path", strerror(errno));
    if (strcmp(here, "/") == 0) here[0] = 0;
    while (strncmp(path, "./", 2) == 0) path += 1 + strspn(path + 1, "/");
    const char *slash = stream ? NULL : strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 0;
    if (snprintf(out, RUN_MAX_PATH, "%s%s%.*s", here, relative && length > 0 ? "/" : "", length, path) < RUN_MAX_PATH) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "the path of '%.256s' is longer than %d bytes", path, RUN_MAX_PATH - 1);
}

static braid_err load(const char *path, bool baselines, const run_readers *readers, run_config *out, braid_error *error) {
    char directory[RUN_MAX_PATH];
    yaml *file = NULL;
    braid_err code = yaml_load(path, &file, error);
    if (code != BRAID_OK) return code;
    code = directory_of(path, directory, error);
    if (code != BRAID_OK) {
        yaml_free(file);
        return code;
    }
    run_reader reader = {.file = file, .base_dir = directory, .baselines = baselines, .readers = readers, .run = out, .error = error};
    code = read_run(&reader);
    if (code == BRAID_OK) code = check_texts(&reader);
    yaml_free(file);
    return code;
}

braid_err run_config_load(const char *path, const run_readers *readers, run_config *out, braid_error *error) {
    return load(path, false, readers, out, error);
}

braid_err run_config_load_with_baselines(const char *path, const run_readers *readers, run_config *out, braid_error *error) {
    return load(path, true, readers, out, error);
}

// ---- reading the canonical text ----

static braid_err read_travelled(const run_reader *r, braid_hash *data) {
    uint64_t version = 0;
    const yaml_node *node = yaml_find(yaml_root(r->file), "braid");
    if (node == NULL) return yaml_fail(r->file, yaml_root(r->file), r->error, "not a run's canonical description");
    braid_err code =
        yaml_read_count(r->file, node, "braid", RUN_DESCRIPTION_VERSION, RUN_DESCRIPTION_VERSION, &version, r->error);
    if (code == BRAID_OK) code = read_run(r);
    if (code != BRAID_OK) return code;
    return read_hash(r, place_of(r->file, "data", "hash"), "data.hash", data);
}

braid_err run_config_from_description(const char *text, size_t length, run_config *out, braid_hash *data,
                                      braid_error *error) {
    yaml *file = NULL;
    if (length > WIRE_MAX_DESCRIPTION_BYTES)
        return braid_fail(error, BRAID_LIMIT, "a run's description of more than %d bytes", WIRE_MAX_DESCRIPTION_BYTES);
    braid_err code = yaml_parse(text, length, "the run's description", &file, error);
    if (code != BRAID_OK) return code;
    code = read_travelled(&(run_reader){.file = file, .travelled = true, .run = out, .error = error}, data);
    yaml_free(file);
    return code;
}

// ---- shapes ----

bool run_has_model(const run_config *run) {
    static const braid_hash none;
    return run->recipe.adapter.rank == 0 && !hash_equal(&run->weights, &none);
}

bool run_multiplies_fastest(const run_config *run) {
    return run->products == RUN_PRODUCTS_BY_MODE ? !run->recipe.reproducible : run->products == RUN_PRODUCTS_FASTEST;
}

static uint64_t link_bytes(const run_config *run, tensor_codec codec) {
    uint64_t rows = (uint64_t)run->sequences * run->tokens;
    return tensor_codec_bytes(codec, rows * run->model.dim) + (run->documents ? rows * sizeof(uint32_t) : 0);
}

uint64_t run_iteration_tokens(const run_config *run) {
    uint64_t steps = run->recipe.local_steps > 0 ? run->recipe.local_steps : 1;
    return steps * run->microbatches * run->sequences * run->tokens;
}

uint64_t run_activation_bytes(const run_config *run) { return link_bytes(run, run->links.forward); }
uint64_t run_gradient_bytes(const run_config *run) { return link_bytes(run, run->links.backward); }

// Without a second stage no link is used.
static stage_links links_of(const run_config *run) {
    return run->stages > 1 ? (stage_links){.forward = run->links.forward, .backward = run->links.backward} : (stage_links){0};
}

void run_stage_shape(const run_config *run, uint32_t number, stage_shape *out) {
    BRAID_ASSERT(number < run->stages);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < number; i++) begin += run->blocks[i];
    *out = (stage_shape){.layer_begin = begin,
                         .layer_end = begin + run->blocks[number],
                         .ends = number == 0,
                         .sequences = run->sequences,
                         .tokens = run->tokens,
                         .recompute = run->recompute,
                         .documents = run->documents,
                         .links = links_of(run),
                         .fastest = run_multiplies_fastest(run)};
}

void run_solo_shape(const run_config *run, stage_shape *out) {
    stage_links links = links_of(run);
    for (uint32_t i = 0, layer = 0; i + 1 < run->stages; i++) {
        layer += run->blocks[i];
        if (layer < run->model.layers) model_set_layer(links.starts, layer);
    }
    *out = (stage_shape){.layer_end = run->model.layers,
                         .ends = true,
                         .sequences = run->sequences,
                         .tokens = run->tokens,
                         .recompute = run->recompute,
                         .documents = run->documents,
                         .links = links,
                         .fastest = run_multiplies_fastest(run)};
}
