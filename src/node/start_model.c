#include "node/start_model.h"

#include "base/sha256.h"
#include "data/sources.h"
#include "format/quantity.h"
#include "train/checkpoint.h"
#include "train/checkpoint_manifest.h"
#include "train/split.h"
#include "train/state_blob.h"
#include "weights/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_BYTES = 12, CONVERSION = 1 };

typedef struct conversion {
    const run_config *run;
    const place_host *host;
    model_file *model;
    split split;
    checkpoint_writer *writer;
    float *values;   // of the present tensor
    uint8_t *state;  // of one block
    float *zeros;    // [BLOCK_ELEMENTS] its moments
} conversion;

// Names the model's files as they are now, and the context, which is part of the checkpoint.
static braid_err key_of(const run_config *run, braid_hash *key, braid_error *error) {
    const char *paths[] = {run->from};
    data_files files;
    uint32_t numbers[] = {CONVERSION, run->model.context};
    braid_err err = data_files_find(paths, 1, &files, error);
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, numbers, sizeof numbers);
    for (size_t i = 0; i < files.count; i++) {
        const data_file *f = &files.file[i];
        int64_t state[] = {(int64_t)f->bytes, f->changed_s, f->changed_ns};
        sha256_update(&s, f->path, strlen(f->path) + 1);
        sha256_update(&s, state, sizeof state);
    }
    *key = sha256_final(&s);
    data_files_free(&files);
    return err;
}

static braid_err read_tensor(conversion *c, const stage_tensor *t, braid_error *error) {
    const model_file_tensor *from = model_file_find(c->model, t->name);
    if (!from) return braid_fail(error, BRAID_FORMAT, "the model '%.200s' has no tensor '%s'", c->run->from, t->name);
    if ((uint64_t)from->weights.rows * from->weights.cols != t->elements)
        return braid_fail(error, BRAID_FORMAT, "the tensor '%s' of '%.200s' has %zu x %zu elements and not %zu",
                          t->name, c->run->from, from->weights.rows, from->weights.cols, t->elements);
    free(c->values);
    c->values = malloc(t->elements * sizeof *c->values);
    if (!c->values) return braid_fail(error, BRAID_MEMORY, "no memory for the tensor '%s'", t->name);
    model_file_values(from, c->values);
    return BRAID_OK;
}

// The weights of a block, with moments of zero, at version 0.
static void fill_state(conversion *c, const block *range, const stage_tensor *t) {
    const float *parts[STATE_PARTS] = {c->values + (range->offset - t->offset), c->zeros, c->zeros};
    state_block_write(c->state, 0, range->count, parts);
}

static braid_err stopped(braid_error *error) {
    return braid_fail(error, BRAID_STATE, "stopped while the model was converted; the next start begins again");
}

static braid_err write_blocks(conversion *c, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0, tensor = UINT32_MAX; i < c->split.block_count && !err; i++) {
        const block *range = &c->split.blocks[split_block(&c->split, 0, i)];
        const stage_tensor *t = &c->split.tensors[range->tensor];
        if (range->tensor != tensor) err = place_stopped(c->host) ? stopped(error) : read_tensor(c, t, error);
        tensor = range->tensor;
        if (err) break;
        fill_state(c, range, t);
        err = checkpoint_put(c->writer, 0, i, 1, c->state, state_block_bytes(range->count), error);
    }
    return err;
}

static braid_err write_checkpoint(conversion *c, const char *directory, braid_error *error) {
    const model_config *model = &c->run->model;
    checkpoint_summary summary;
    braid_err err = split_new(model, NULL, &model->layers, 1, &c->split, error);
    if (err) return err;
    const checkpoint_config config = {.directory = directory, .model = model, .split = &c->split, .weights_only = true};
    err = checkpoint_begin(&config, &c->writer, error);
    if (err) return err;
    c->state = malloc(state_block_bytes(BLOCK_ELEMENTS));
    c->zeros = calloc(BLOCK_ELEMENTS, sizeof *c->zeros);
    err = c->state && c->zeros ? write_blocks(c, error)
                               : braid_fail(error, BRAID_MEMORY, "no memory to convert '%.200s'", c->run->from);
    if (!err) return checkpoint_end(c->writer, &summary, error);
    checkpoint_abort(c->writer);
    return err;
}

static braid_err convert(const run_config *run, const char *directory, const place_host *host, braid_error *error) {
    conversion c = {.run = run, .host = host};
    braid_err err = model_file_open(run->from, &c.model, error);
    if (!err) err = write_checkpoint(&c, directory, error);
    split_free(&c.split);
    free(c.values);
    free(c.state);
    free(c.zeros);
    model_file_close(c.model);
    return err;
}

static bool find(const char *directory, char path[FILES_MAX_PATH]) {
    const braid_hash none = {{0}};
    return checkpoint_find(directory, &none, 0, NULL, path);
}

static braid_err make(const run_config *run, const char *directory, const place_host *host, char path[FILES_MAX_PATH],
                      braid_error *error) {
    char text[512];
    int fd = -1;
    braid_err err = place_lock(directory, host, &fd, error);
    if (!err && !find(directory, path)) {
        snprintf(text, sizeof text, "converting the weights of %.200s into %.200s", run->from, directory);
        if (host->note) host->note(host->context, text);
        err = convert(run, directory, host, error);
        if (!err && !find(directory, path))
            err = braid_fail(error, BRAID_STATE, "the converted model in '%.300s' is gone again", directory);
    }
    if (fd >= 0) close(fd);
    return err;
}

static braid_err take_hash(run_config *run, const char *path, braid_error *error) {
    manifest *m = malloc(sizeof *m);
    if (!m) return braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", path);
    braid_err err = manifest_read(path, m, error);
    if (!err) run->weights = m->weights;
    free(m);
    return err;
}

braid_err start_model_make(run_config *run, const place_host *host, char path[FILES_MAX_PATH], braid_error *error) {
    char place[PLACE_MAX_PATH], directory[PLACE_MAX_PATH + 64], name[2 * KEY_BYTES + 1];
    braid_hash key;
    path[0] = 0;
    if (!run->from[0]) return BRAID_OK;
    braid_err err = key_of(run, &key, error);
    if (!err) err = place_directory(run->cache, place, error);
    if (err) return err;
    id_hex(key.bytes, KEY_BYTES, name);
    if (snprintf(directory, sizeof directory, "%s/%s.model", place, name) >= FILES_MAX_PATH - 64)
        return braid_fail(error, BRAID_LIMIT, "the path of data.cache is too long");
    if (!find(directory, path)) err = make(run, directory, host, path, error);
    return err ? err : take_hash(run, path, error);
}
