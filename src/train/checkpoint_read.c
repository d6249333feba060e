#include "train/checkpoint.h"

#include "base/sha256.h"
#include "format/hf_config.h"
#include "format/safetensors.h"
#include "train/checkpoint_directory.h"
#include "train/checkpoint_manifest.h"
#include "train/state_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX_BYTES = 1 << 20 };

#define CONFIG_FILE "config.json"

// An open safetensors file.
typedef struct tensor_file {
    int fd;
    const manifest_file *listed;
    char path[FILES_MAX_PATH];
    safetensors *header;
} tensor_file;

struct checkpoint {
    char path[FILES_MAX_PATH];
    int fd;           // path of the step's directory
    bool no_moments;  // the files are missing or were not requested; moments read as zero
    model_config model;
    manifest manifest;
    uint32_t file_count;
    tensor_file files[CHECKPOINT_MAX_FILES];
};

typedef enum checkpoint_need { NEED_WEIGHTS, NEED_START, NEED_STATE } checkpoint_need;

static braid_err missing(const char *path, braid_error *error) {
    if (errno == ENOENT) return braid_fail(error, BRAID_IO, "the checkpoint's file '%s' is missing", path);
    return braid_fail(error, BRAID_IO, "cannot read '%s': %s", path, strerror(errno));
}

static braid_err verify_file(const tensor_file *f, const manifest_file *listed, braid_error *error) {
    struct stat info;
    braid_hash hash;
    uint64_t bytes;
    if (fstat(f->fd, &info) != 0) return braid_fail(error, BRAID_IO, "cannot read '%s': %s", f->path, strerror(errno));
    if ((uint64_t)info.st_size != listed->bytes)
        return braid_fail(error, BRAID_FORMAT,
                          "'%s' has %" PRIu64 " bytes instead of %" PRIu64
                          "; it was truncated or altered, use another checkpoint",
                          f->path, (uint64_t)info.st_size, listed->bytes);
    braid_err err = files_hash_opened(f->fd, f->path, &hash, &bytes, error);
    if (err || hash_equal(&hash, &listed->hash)) return err;
    return braid_fail(error, BRAID_FORMAT,
                      "'%s' was altered: its SHA-256 is not the one in " MANIFEST_FILE "; use another checkpoint",
                      f->path);
}

// Opens one of the step's files; -1 with errno.
static int open_file(const checkpoint *c, const char *name) { return openat(c->fd, name, O_RDONLY | O_CLOEXEC); }

static braid_err read_config(checkpoint *c, braid_error *error) {
    char path[FILES_MAX_PATH], *text = NULL;
    size_t length;
    braid_err err = files_join(c->path, CONFIG_FILE, path, error);
    int fd = open_file(c, CONFIG_FILE);
    if (!err && fd < 0) err = missing(path, error);
    if (!err) err = files_read_opened(fd, path, CONFIG_MAX_BYTES, &text, &length, error);
    if (!err) err = hf_config_read(text, length, path, &c->model, error);
    if (fd >= 0) close(fd);
    free(text);
    return err;
}

static braid_err read_manifest(checkpoint *c, braid_error *error) {
    char path[FILES_MAX_PATH], *text = NULL;
    size_t length;
    braid_err err = files_join(c->path, MANIFEST_FILE, path, error);
    int fd = open_file(c, MANIFEST_FILE);
    if (!err && fd < 0) err = missing(path, error);
    if (!err) err = files_read_opened(fd, path, MANIFEST_MAX_BYTES, &text, &length, error);
    if (!err) err = manifest_parse(text, length, path, &c->manifest, error);
    if (fd >= 0) close(fd);
    free(text);
    return err;
}

static braid_err read_header(tensor_file *f, uint64_t file_bytes, braid_error *error) {
    uint8_t first[SAFETENSORS_LENGTH_BYTES];
    if (file_bytes < sizeof first) return braid_fail(error, BRAID_FORMAT, "'%s' is truncated", f->path);
    braid_err err = files_read_at(f->fd, f->path, first, sizeof first, 0, error);
    if (err) return err;
    uint64_t bytes = safetensors_prefix_bytes(first, file_bytes);
    uint8_t *prefix = bytes ? malloc(bytes) : NULL;
    if (!prefix) return braid_fail(error, BRAID_FORMAT, "'%s' is not a safetensors file, or truncated", f->path);
    err = files_read_at(f->fd, f->path, prefix, bytes, 0, error);
    if (!err) err = safetensors_parse(prefix, bytes, file_bytes, f->path, &f->header, error);
    free(prefix);
    return err;
}

static braid_err open_tensors(checkpoint *c, const manifest_file *listed, braid_error *error) {
    tensor_file *f = &c->files[c->file_count];
    braid_err err = files_join(c->path, listed->name, f->path, error);
    if (err) return err;
    f->fd = open_file(c, listed->name);
    if (f->fd < 0) return missing(f->path, error);
    f->listed = listed;
    c->file_count++;
    return BRAID_OK;
}

static bool is_there(const checkpoint *c, const manifest_file *listed) {
    struct stat info;
    return fstatat(c->fd, listed->name, &info, 0) == 0 || errno != ENOENT;
}

static bool has_moments(const checkpoint *c) {
    for (uint32_t i = 0; i < c->manifest.count; i++)
        if (manifest_is_optimizer(&c->manifest.files[i]) && is_there(c, &c->manifest.files[i])) return true;
    return false;
}

static braid_err open_files(checkpoint *c, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < c->manifest.count && !err; i++) {
        const manifest_file *listed = &c->manifest.files[i];
        if (manifest_is_tensors(listed) && !(c->no_moments && manifest_is_optimizer(listed)))
            err = open_tensors(c, listed, error);
    }
    return err;
}

static braid_err verify_files(checkpoint *c, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < c->file_count && !err; i++) err = verify_file(&c->files[i], c->files[i].listed, error);
    for (uint32_t i = 0; i < c->file_count && !err; i++)
        err = read_header(&c->files[i], c->files[i].listed->bytes, error);
    return err;
}

// Finds the file of a tensor and the tensor's position; NULL and `error` on failure.
static const tensor_file *find_tensor(const checkpoint *c, const stage_tensor *t, const char *suffix, uint64_t *offset,
                                      braid_error *error) {
    char name[SAFETENSORS_MAX_NAME];
    snprintf(name, sizeof name, "%s%s", t->name, suffix);
    for (uint32_t i = 0; i < c->file_count; i++) {
        const tensor_file *file = &c->files[i];
        const safetensors_tensor *f = safetensors_find(file->header, name);
        if (!f) continue;
        bool fits = f->dtype == SAFETENSORS_F32 && f->dims == t->dims && f->shape[0] == t->rows &&
                    (t->dims == 1 || f->shape[1] == t->cols);
        *offset = f->offset;
        if (fits) return file;
        braid_fail(error, BRAID_FORMAT, "'%s': the tensor '%s' has another shape or type than the model's", file->path,
                   name);
        return NULL;
    }
    braid_fail(error, BRAID_FORMAT, "the checkpoint '%s' has no tensor '%s'", c->path, name);
    return NULL;
}

static const char *const part_suffix[STATE_PARTS] = {"", ".exp_avg", ".exp_avg_sq"};

// Reads `count` elements of a tensor's part, from element `first` on.
static braid_err read_part(const checkpoint *c, const stage_tensor *t, uint32_t part, size_t first, size_t count,
                           void *out, braid_error *error) {
    uint64_t offset;
    if ((part > 0 && c->no_moments) || adapter_is_filler(t)) {
        memset(out, 0, count * sizeof(float));
        return BRAID_OK;
    }
    const tensor_file *file = find_tensor(c, t, part_suffix[part], &offset, error);
    if (!file) return BRAID_FORMAT;
    return files_read_at(file->fd, file->path, out, count * sizeof(float), offset + first * sizeof(float), error);
}

static braid_err refuse_manifest(const checkpoint *c, const char *field, const char *why, const char *file,
                                 braid_error *error) {
    return braid_fail(error, BRAID_FORMAT,
                      "'%s/" MANIFEST_FILE "' was altered: its '%s' is not %s%s%s%s; use another checkpoint", c->path,
                      field, why, *file ? " '" : "", file, *file ? "'" : "");
}

static braid_err check_note(const checkpoint *c, const tensor_file *f, const char *key, const char *field,
                            const char *wanted, braid_error *error) {
    const char *note = safetensors_metadata(f->header, key);
    if (note && strcmp(note, wanted) == 0) return BRAID_OK;
    return refuse_manifest(c, field, "that of", f->path, error);
}

static braid_err check_notes(const checkpoint *c, braid_error *error) {
    char version[24], run[2 * BRAID_ID_BYTES + 1];
    braid_err err = BRAID_OK;
    snprintf(version, sizeof version, "%" PRIu64, c->manifest.version);
    id_hex(c->manifest.run.bytes, BRAID_ID_BYTES, run);
    for (uint32_t i = 0; i < c->file_count && !err; i++) {
        err = check_note(c, &c->files[i], MANIFEST_NOTE_VERSION, "version", version, error);
        if (!err) err = check_note(c, &c->files[i], MANIFEST_NOTE_RUN, "run", run, error);
    }
    return err;
}

static braid_err hash_blocks(const checkpoint *c, const split *s, braid_hash *leaves, braid_error *error) {
    float *room = malloc(BLOCK_ELEMENTS * sizeof *room);
    braid_err err = room ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory to verify a checkpoint");
    for (uint32_t i = 0; i < s->block_count && !err; i++) {
        const block *range = &s->blocks[i];
        const stage_tensor *t = &s->tensors[range->tensor];
        err = read_part(c, t, 0, range->offset - t->offset, range->count, room, error);
        if (!err) leaves[i] = sha256_of(room, range->count * sizeof *room);
    }
    free(room);
    return err;
}

static braid_err check_weights(const checkpoint *c, braid_error *error) {
    split whole;
    braid_err err = split_new(&c->model, &c->manifest.adapter.config, &c->model.layers, 1, &whole, error);
    if (err) return err;
    braid_hash *leaves = calloc(whole.block_count, sizeof *leaves), found;
    err = leaves ? hash_blocks(c, &whole, leaves, error)
                 : braid_fail(error, BRAID_MEMORY, "no memory to verify a checkpoint");
    if (!err) {
        found = split_weights_hash(&whole, leaves);
        if (!hash_equal(&found, &c->manifest.weights))
            err = refuse_manifest(c, "weights", "the hash of its files' weights", "", error);
    }
    free(leaves);
    split_free(&whole);
    return err;
}

// The roles of the adapter's targets in this model.
static braid_err read_targets(checkpoint *c, braid_error *error) {
    char names[ADAPTER_TARGETS_TEXT], *rest = NULL;
    uint64_t *roles = &c->manifest.adapter.config.roles;
    bool fine = true;
    snprintf(names, sizeof names, "%s", c->manifest.targets);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        fine = fine && adapter_role_named(&c->model, name, roles);
    if (c->manifest.adapter.config.rank == 0 || (fine && *roles)) return BRAID_OK;
    return braid_fail(error, BRAID_FORMAT,
                      "'%s/" MANIFEST_FILE "' was altered: its model has no matrices '%s'; use another checkpoint",
                      c->path, c->manifest.targets);
}

// Opens all files before the first is read, so that a step that is replaced or removed meanwhile
// stays readable.
static braid_err open_step(checkpoint *c, checkpoint_need need, braid_error *error) {
    c->fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0) return missing(c->path, error);
    braid_err err = read_manifest(c, error);
    c->no_moments = !err && (need == NEED_WEIGHTS || (need == NEED_START && !has_moments(c)));
    if (!err) err = open_files(c, error);
    if (!err) err = read_config(c, error);
    return err ? err : read_targets(c, error);
}

// True if the step's path now names another directory than the opened one.
static bool was_replaced(const checkpoint *c) {
    struct stat opened, named;
    if (stat(c->path, &named) != 0) return true;
    return c->fd >= 0 && fstat(c->fd, &opened) == 0 && (opened.st_ino != named.st_ino || opened.st_dev != named.st_dev);
}

static void close_files(checkpoint *c) {
    for (uint32_t i = 0; i < c->file_count; i++) {
        safetensors_free(c->files[i].header);
        close(c->files[i].fd);
    }
    memset(c->files, 0, c->file_count * sizeof *c->files);
    c->file_count = 0;
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

static braid_err open_found(checkpoint *c, const char *path, checkpoint_need need, braid_error *error) {
    enum { TRIES = 5 };
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < TRIES; i++) {
        err = checkpoint_locate(path, c->path, error);
        if (!err) err = open_step(c, need, error);
        if (!err || c->path[0] == 0 || !was_replaced(c)) return err;
        close_files(c);
    }
    return err;
}

static braid_err open_checkpoint(const char *path, checkpoint_need need, checkpoint **out, braid_error *error) {
    checkpoint *c = calloc(1, sizeof *c);
    if (!c) return braid_fail(error, BRAID_MEMORY, "no memory to open a checkpoint");
    c->fd = -1;
    braid_err err = open_found(c, path, need, error);
    if (!err) err = verify_files(c, error);
    if (!err) err = check_notes(c, error);
    if (!err) err = check_weights(c, error);
    if (err)
        checkpoint_close(c);
    else
        *out = c;
    return err;
}

braid_err checkpoint_open(const char *path, checkpoint **out, braid_error *error) {
    return open_checkpoint(path, NEED_STATE, out, error);
}

braid_err checkpoint_open_weights(const char *path, checkpoint **out, braid_error *error) {
    return open_checkpoint(path, NEED_WEIGHTS, out, error);
}

braid_err checkpoint_open_start(const char *path, checkpoint **out, braid_error *error) {
    return open_checkpoint(path, NEED_START, out, error);
}

void checkpoint_close_files(checkpoint *c) {
    if (c) close_files(c);
}

bool checkpoint_has_files(const checkpoint *c) { return c->fd >= 0; }

void checkpoint_close(checkpoint *c) {
    if (!c) return;
    close_files(c);
    free(c);
}

uint64_t checkpoint_version(const checkpoint *c) { return c->manifest.version; }
const model_config *checkpoint_model(const checkpoint *c) { return &c->model; }
const braid_hash *checkpoint_run(const checkpoint *c) { return &c->manifest.run; }
const braid_hash *checkpoint_weights(const checkpoint *c) { return &c->manifest.weights; }
const char *checkpoint_path(const checkpoint *c) { return c->path; }

bool checkpoint_find(const char *directory, const braid_hash *run, uint64_t version, const braid_hash *weights,
                     char path[FILES_MAX_PATH]) {
    char step[STEP_NAME];
    manifest *m = malloc(sizeof *m);
    snprintf(step, sizeof step, CHECKPOINT_STEP, version);
    bool there = m && !files_join(directory, step, path, NULL) && !manifest_read(path, m, NULL);
    bool found = there && m->version == version && hash_equal(&m->run, run) &&
                 (!weights || hash_equal(&m->weights, weights));
    free(m);
    return found;
}

bool checkpoint_find_newest(const char *directory, const braid_hash *run, char path[FILES_MAX_PATH], uint64_t *version) {
    checkpoint_steps steps;
    bool found = false;
    if (checkpoint_steps_read(directory, &steps, NULL)) steps.count = 0;
    for (uint32_t i = steps.count; i-- > 0 && !found;) {
        const checkpoint_step *step = &steps.step[i];
        found = step->complete && hash_equal(&step->run, run) && !files_join(directory, step->name, path, NULL);
        if (found) *version = step->version;
    }
    checkpoint_steps_free(&steps);
    return found;
}

bool checkpoint_of_another_run(const checkpoint *c, const braid_hash *run, char text[CHECKPOINT_NOTE]) {
    enum { SHOWN = 6 };
    char has[2 * SHOWN + 1], wants[2 * SHOWN + 1];
    if (hash_equal(&c->manifest.run, run)) return false;
    id_hex(c->manifest.run.bytes, SHOWN, has);
    id_hex(run->bytes, SHOWN, wants);
    snprintf(text, CHECKPOINT_NOTE,
             "this checkpoint is of another run (%s, version %" PRIu64
             "): its seed, text or recipe differ; continuing from it with this description (%s)",
             has, c->manifest.version, wants);
    return true;
}

bool checkpoint_lacks_moments(const checkpoint *c, char text[CHECKPOINT_NOTE]) {
    if (c->no_moments)
        snprintf(text, CHECKPOINT_NOTE,
                 "the checkpoint '%.200s' has no optimizer state: its moments begin at zero, so the weights will "
                 "differ from "
                 "those of a run that was never interrupted",
                 c->path);
    return c->no_moments;
}

void checkpoint_nothing_to_do(uint64_t done, uint64_t described, char text[CHECKPOINT_NOTE]) {
    snprintf(text, CHECKPOINT_NOTE, "nothing to do: iteration %" PRIu64 " of %" PRIu64 " is done; %s extends the run",
             done, described, done < described ? "a larger --iterations" : "a larger train.iterations");
}

braid_err checkpoint_match(const checkpoint *c, const model_config *model, braid_error *error) {
    model_difference d;
    if (model_config_differ(&c->model, model, &d))
        return braid_fail(error, BRAID_CONFIG, "the checkpoint '%s' is of another model: its %s is %g, the run's is %g",
                          c->path, d.member, d.first, d.second);
    return BRAID_OK;
}

const checkpoint_adapter *checkpoint_adapter_of(const checkpoint *c) { return &c->manifest.adapter; }

braid_err checkpoint_read_stage(checkpoint *c, const model_config *model, const stage_tensor *tensors, uint32_t count,
                                float *weights, float *moment1, float *moment2, braid_error *error) {
    float *const arrays[STATE_PARTS] = {weights, moment1, moment2};
    braid_err err = checkpoint_match(c, model, error);
    for (uint32_t t = 0; t < count && !err; t++)
        for (uint32_t part = 0; part < STATE_PARTS && !err; part++)
            if (arrays[part])
                err = read_part(c, &tensors[t], part, 0, tensors[t].elements, arrays[part] + tensors[t].offset, error);
    return err;
}

uint64_t checkpoint_state_bytes(const split *s, uint32_t stage_number, uint32_t first, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = first; i < first + count; i++)
        bytes += state_block_bytes(s->blocks[split_block(s, stage_number, i)].count);
    return bytes;
}

braid_err checkpoint_state(checkpoint *c, const split *s, uint32_t stage_number, uint32_t first, uint32_t count,
                           void *out, braid_error *error) {
    uint8_t *at = out;
    braid_err err = BRAID_OK;
    for (uint32_t i = first; i < first + count && !err; i++) {
        const block *range = &s->blocks[split_block(s, stage_number, i)];
        const stage_tensor *t = &s->tensors[range->tensor];
        memcpy(at, &c->manifest.version, sizeof c->manifest.version);
        at += sizeof c->manifest.version;
        for (uint32_t part = 0; part < STATE_PARTS && !err; part++, at += range->count * sizeof(float))
            err = read_part(c, t, part, range->offset - t->offset, range->count, at, error);
    }
    return err;
}

braid_err checkpoint_names(checkpoint *c, const split *s, uint32_t stage_number, braid_hash *out, braid_error *error) {
    uint8_t *bytes = malloc(state_block_bytes(BLOCK_ELEMENTS));
    if (!bytes) return braid_fail(error, BRAID_MEMORY, "no memory for a block of the checkpoint");
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < split_count(s, stage_number) && !err; i++) {
        uint32_t count = s->blocks[split_block(s, stage_number, i)].count;
        err = checkpoint_state(c, s, stage_number, i, 1, bytes, error);
        const void *const parts[STATE_PARTS] = {state_block_part(bytes, count, 0), state_block_part(bytes, count, 1),
                                                state_block_part(bytes, count, 2)};
        if (!err) out[i] = state_name(parts, count);
    }
    free(bytes);
    return err;
}

bool checkpoint_rate_jumps(const checkpoint *c, const train_recipe *recipe, char text[RUN_NOTE]) {
    return run_rate_jumps(recipe, c->manifest.version, &c->manifest.schedule, text);
}
