#include "train/checkpoint.h"

#include "base/bitset.h"
#include "base/sha256.h"
#include "format/hf_config.h"
#include "format/hf_tokenizer.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "train/checkpoint_directory.h"
#include "train/checkpoint_manifest.h"
#include "train/checkpoint_peft.h"
#include "train/optimizer.h"
#include "train/state_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// The two files of a stage.
typedef struct stage_files {
    int fd[2];  // file descriptors of model and optimizer; -1: closed
    char name[2][MANIFEST_MAX_NAME];
} stage_files;

struct checkpoint_writer {
    checkpoint_config config;
    const split *split;
    int lock;  // temporary directory, locked as proof that its writer is alive
    struct timespec begun;
    char directory[FILES_MAX_PATH], temporary[FILES_MAX_PATH];
    char step[STEP_NAME];            // step-000050
    stage_files *stages;             // [split->stages]
    uint64_t (*place)[STATE_PARTS];  // [tensor_count] offset of each tensor's part in its file
    uint32_t removed;  // older versions that were removed for room
    uint64_t *stored;  // [block_count] bits: the block was written
    braid_hash *leaves;              // [block_count]
    manifest manifest;
};

static braid_err directory_error(const char *verb, const char *path, braid_error *error) {
    int why = errno;
    return braid_fail(error, why == ENOSPC || why == EDQUOT ? BRAID_FULL : BRAID_IO,
                      "cannot %s the directory '%s' for checkpoints: %s%s", verb, path, strerror(why),
                      checkpoint_mend(why));
}

// Opens a directory, and creates it if it does not exist; `fd` stays open.
static braid_err open_or_make(const char *path, int *fd, braid_error *error) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return directory_error("make", path, error);
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? directory_error("open", path, error) : BRAID_OK;
}

// On a full disk, removal of an older version can make room for a newer one.
static bool may_make_room(const char *directory) {
    checkpoint_steps steps;
    bool may = !checkpoint_steps_read(directory, &steps, NULL) && steps.count > 1;
    checkpoint_steps_free(&steps);
    return may;
}

// Runs without the lock, because several peers of one machine may try at the same time.
static braid_err try_to_make(const char *directory, int fd, braid_error *error) {
    char name[STEP_NAME];
    struct stat latest;
    snprintf(name, sizeof name, "step-trial.tmp-%ld", (long)getpid());
    if (mkdirat(fd, name, 0777) != 0 && errno != EEXIST) {
        braid_err err = directory_error("write into", directory, error);
        if (err != BRAID_FULL || !may_make_room(directory)) return err;
    }
    unlinkat(fd, name, AT_REMOVEDIR);
    if (fstatat(fd, CHECKPOINT_LATEST, &latest, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(latest.st_mode)) return BRAID_OK;
    char path[FILES_MAX_PATH];
    if (!files_join(directory, CHECKPOINT_LATEST, path, NULL) && checkpoint_is_step(path))
        return BRAID_OK;  // `latest` is a directory in copies that followed the link
    return braid_fail(error, BRAID_IO,
                      "'%s/%s' is a directory, where the link to the newest checkpoint belongs; move it away, or "
                      "choose another directory",
                      directory, CHECKPOINT_LATEST);
}

braid_err checkpoint_try(const char *directory, braid_error *error) {
    int fd = -1;
    braid_err err = open_or_make(directory, &fd, error);
    if (!err) err = try_to_make(directory, fd, error);
    if (fd >= 0) close(fd);
    return err;
}

// Removes an older version, because the newest state is worth more than the oldest one. True: the
// write may be retried.
static bool make_room(checkpoint_writer *c) {
    int why = errno;
    if (!checkpoint_make_room(c->directory, &c->config.run, c->config.version)) {
        errno = why;
        return false;
    }
    c->removed++;
    return true;
}

static braid_err make_temporary(checkpoint_writer *c, braid_error *error) {
    char name[STEP_TEMPORARY];
    struct stat made;
    bool there = false;
    snprintf(c->step, sizeof c->step, CHECKPOINT_STEP, c->config.version);
    for (unsigned i = 0; i < 100 && !there;
         i++) {  // processes on other machines and in other containers may have the same number
        checkpoint_temporary_name(c->config.version, &c->config.run, i, name);
        braid_err err = files_join(c->directory, name, c->temporary, error);
        if (err) return err;
        do there = mkdir(c->temporary, 0777) == 0;
        while (!there && (errno == ENOSPC || errno == EDQUOT) && make_room(c));
        if (!there && errno != EEXIST) break;
    }
    if (!there) {
        braid_err err = directory_error("make", c->temporary, error);
        c->temporary[0] = 0;
        return err;
    }
    c->lock = open(c->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->lock < 0 || fstat(c->lock, &made) != 0) return directory_error("open", c->temporary, error);
    c->begun = made.st_mtim;
    flock(c->lock,
          LOCK_EX | LOCK_NB);  // without locks, leftovers may be removed too early or not at all
    return BRAID_OK;
}

static braid_err open_directory(checkpoint_writer *c, braid_error *error) {
    const char *path = c->config.directory;
    int fd = -1;
    if (snprintf(c->directory, sizeof c->directory, "%s", path) >= (int)sizeof c->directory)
        return braid_fail(error, BRAID_LIMIT, "the path of the checkpoints is too long");
    braid_err err = open_or_make(path, &fd, error);
    bool alone = !err && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!err) err = checkpoint_clear_leftovers(c->directory, &c->config.run, alone, error);
    if (!err) err = make_temporary(c, error);
    if (fd >= 0) close(fd);
    return err;
}

static braid_err write_at(checkpoint_writer *c, int fd, const char *path, const void *data, size_t bytes,
                          uint64_t offset, braid_error *error) {
    braid_err err;
    do err = files_write_at(fd, path, data, bytes, offset, error);
    while (err == BRAID_FULL && make_room(c));
    return err;
}

// Creates one file of a stage, with at least one tensor.
static braid_err write_prefix(checkpoint_writer *c, uint32_t stage_number, uint32_t file, safetensors_tensor *tensors,
                              uint32_t count, braid_error *error) {
    stage_files *s = &c->stages[stage_number];
    char path[FILES_MAX_PATH];
    braid_err err = files_join(c->temporary, s->name[file], path, error);
    if (err) return err;
    char version[24], run[2 * BRAID_ID_BYTES + 1];
    snprintf(version, sizeof version, "%" PRIu64, c->config.version);
    id_hex(c->config.run.bytes, BRAID_ID_BYTES, run);
    const safetensors_note notes[] = {{MANIFEST_NOTE_VERSION, version}, {MANIFEST_NOTE_RUN, run}};
    size_t bytes;
    uint8_t *prefix = safetensors_prefix(tensors, count, notes, sizeof notes / sizeof notes[0], &bytes);
    if (!prefix) return braid_fail(error, BRAID_MEMORY, "no memory for the header of '%s'", path);
    do s->fd[file] = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    while (s->fd[file] < 0 && (errno == ENOSPC || errno == EDQUOT) && make_room(c));
    if (s->fd[file] < 0) {
        int why = errno;
        err = braid_fail(error, why == ENOSPC || why == EDQUOT ? BRAID_FULL : BRAID_IO, "cannot create '%s': %s", path,
                         strerror(why));
    } else {
        const safetensors_tensor *last = &tensors[count - 1];
        uint64_t whole = last->offset + last->bytes;
        do err = files_reserve(s->fd[file], path, whole, error);
        while (err == BRAID_FULL && make_room(c));
        if (!err) err = write_at(c, s->fd[file], path, prefix, bytes, 0, error);
    }
    free(prefix);
    return err;
}

enum { FILE_MODEL, FILE_OPTIMIZER };

typedef char tensor_name[SAFETENSORS_MAX_NAME];

static const char *const part_suffix[STATE_PARTS] = {"", ".exp_avg", ".exp_avg_sq"};
static uint32_t file_of_part(uint32_t part) { return part == 0 ? FILE_MODEL : FILE_OPTIMIZER; }
static bool is_adapter(const checkpoint_writer *c) { return c->config.adapter.config.rank > 0; }

// The stage that has the file with the parts of a stage's tensors. An adapter is one file.
static uint32_t owner_of(const checkpoint_writer *c, uint32_t stage_number, uint32_t file) {
    return is_adapter(c) && file == FILE_MODEL ? 0 : stage_number;
}

static bool is_in_file(const checkpoint_writer *c, uint32_t tensor, uint32_t part, uint32_t stage_number, uint32_t file) {
    const split *s = c->split;
    return !adapter_is_filler(&s->tensors[tensor]) && file_of_part(part) == file &&
           owner_of(c, s->tensor_stage[tensor], file) == stage_number;
}

// Lists the tensors of a stage's file in `tensors`; `names` holds their names.
static uint32_t list_tensors(const checkpoint_writer *c, uint32_t stage_number, uint32_t file,
                             safetensors_tensor *tensors, tensor_name *names) {
    const split *s = c->split;
    uint32_t n = 0;
    for (uint32_t t = 0; t < s->tensor_count; t++) {
        for (uint32_t part = 0; part < STATE_PARTS; part++) {
            if (!is_in_file(c, t, part, stage_number, file)) continue;
            snprintf(names[n], sizeof names[n], "%s%s", s->tensors[t].name, part_suffix[part]);
            tensors[n] = (safetensors_tensor){.name = names[n], .dims = s->tensors[t].dims};
            tensors[n].shape[0] = s->tensors[t].rows;
            tensors[n++].shape[1] = s->tensors[t].cols;
        }
    }
    return n;
}

static void note_places(checkpoint_writer *c, uint32_t stage_number, uint32_t file, const safetensors_tensor *tensors) {
    for (uint32_t t = 0; t < c->split->tensor_count; t++)
        for (uint32_t part = 0; part < STATE_PARTS; part++)
            if (is_in_file(c, t, part, stage_number, file))
                c->place[t][part] = (tensors++)->offset;
}

static braid_err make_file(checkpoint_writer *c, uint32_t stage_number, uint32_t file, braid_error *error) {
    static const char *const kind[] = {"model", "optimizer"};
    char *name = c->stages[stage_number].name[file];
    if (owner_of(c, stage_number, file) != stage_number) return BRAID_OK;
    snprintf(name, MANIFEST_MAX_NAME, "%s-%05u-of-%05u.safetensors", kind[file], stage_number + 1, c->split->stages);
    if (is_adapter(c) && file == FILE_MODEL) snprintf(name, MANIFEST_MAX_NAME, ADAPTER_FILE);
    size_t most = (size_t)c->split->tensor_count * STATE_PARTS;
    safetensors_tensor *tensors = calloc(most, sizeof *tensors);
    tensor_name *names = calloc(most, sizeof *names);
    braid_err err = BRAID_OK;
    if (tensors && names) {
        uint32_t count = list_tensors(c, stage_number, file, tensors, names);
        if (count > 0) err = write_prefix(c, stage_number, file, tensors, count, error);
        note_places(c, stage_number, file, tensors);
    } else {
        err = braid_fail(error, BRAID_MEMORY, "no memory for the list of tensors");
    }
    free(tensors);
    free(names);
    return err;
}

static braid_err allocate(checkpoint_writer *c, braid_error *error) {
    const split *s = c->split;
    c->stages = malloc(s->stages * sizeof *c->stages);
    for (uint32_t i = 0; c->stages && i < s->stages; i++) c->stages[i] = (stage_files){.fd = {-1, -1}};
    c->place = calloc(s->tensor_count, sizeof *c->place);
    c->stored = calloc(BITSET_WORDS(s->block_count), sizeof *c->stored);
    c->leaves = calloc(s->block_count, sizeof *c->leaves);
    if (c->stages && c->place && c->stored && c->leaves) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "no memory to write a checkpoint");
}

braid_err checkpoint_begin(const checkpoint_config *config, checkpoint_writer **out, braid_error *error) {
    checkpoint_writer *c = calloc(1, sizeof *c);
    if (!c) return braid_fail(error, BRAID_MEMORY, "no memory to write a checkpoint");
    c->config = *config;
    c->split = config->split;
    c->lock = -1;
    braid_err err = allocate(c, error);
    if (!err) err = open_directory(c, error);
    for (uint32_t stage_number = 0; stage_number < c->split->stages && !err; stage_number++) {
        err = make_file(c, stage_number, FILE_MODEL, error);
        if (!err && !config->weights_only) err = make_file(c, stage_number, FILE_OPTIMIZER, error);
    }
    if (err)
        checkpoint_abort(c);
    else
        *out = c;
    return err;
}

static void writer_free(checkpoint_writer *c) {
    for (uint32_t i = 0; c->stages && i < c->split->stages; i++)
        for (uint32_t file = 0; file < 2; file++)
            if (c->stages[i].fd[file] >= 0) close(c->stages[i].fd[file]);
    if (c->lock >= 0) close(c->lock);
    free(c->stages);
    free(c->place);
    free(c->stored);
    free(c->leaves);
    free(c);
}

void checkpoint_abort(checkpoint_writer *c) {
    if (!c) return;
    if (c->temporary[0]) files_remove_directory(c->temporary);
    writer_free(c);
}

static braid_err put_block(checkpoint_writer *c, uint32_t stage_number, uint32_t canonical, const uint8_t *bytes,
                           braid_error *error) {
    const block *range = &c->split->blocks[canonical];
    uint64_t within = (range->offset - c->split->tensors[range->tensor].offset) * sizeof(float);
    size_t length = range->count * sizeof(float);
    braid_err err = BRAID_OK;
    for (uint32_t part = 0; part < (c->config.weights_only ? 1 : STATE_PARTS) && !err; part++) {
        uint32_t file = file_of_part(part);
        const stage_files *files = &c->stages[owner_of(c, stage_number, file)];
        char path[FILES_MAX_PATH];
        if (adapter_is_filler(&c->split->tensors[range->tensor])) break;
        err = files_join(c->temporary, files->name[file], path, error);
        if (!err)
            err = write_at(c, files->fd[file], path, state_block_part(bytes, range->count, part),
                           length, c->place[range->tensor][part] + within, error);
    }
    if (err) return err;
    c->leaves[canonical] = sha256_of(state_block_part(bytes, range->count, 0), length);
    bitset_add(c->stored, canonical);
    return BRAID_OK;
}

braid_err checkpoint_put(checkpoint_writer *c, uint32_t stage_number, uint32_t first, uint32_t count, const void *bytes,
                         uint64_t byte_count, braid_error *error) {
    const split *s = c->split;
    bool range = stage_number < s->stages && count > 0 && first < split_count(s, stage_number) &&
                 count <= split_count(s, stage_number) - first;
    if (!range || byte_count != checkpoint_state_bytes(s, stage_number, first, count))
        return braid_fail(error, BRAID_FORMAT, "blocks %u + %u of stage %u do not fit this model", first, count,
                          stage_number);
    const uint8_t *at = bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t canonical = split_block(s, stage_number, first + i);
        if (state_block_version(at) != c->config.version)
            return braid_fail(error, BRAID_FORMAT,
                              "a block of version %" PRIu64 " was offered for the checkpoint of version %" PRIu64,
                              state_block_version(at), c->config.version);
        braid_err err = put_block(c, stage_number, canonical, at, error);
        if (err) return err;
        at += state_block_bytes(s->blocks[canonical].count);
    }
    return BRAID_OK;
}

static char *index_text(const checkpoint_writer *c, size_t *length) {
    const split *s = c->split;
    uint64_t total = 0;
    for (uint32_t t = 0; t < s->tensor_count; t++) total += s->tensors[t].elements * sizeof(float);
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "metadata", '{');
    json_out_u64(&o, "total_size", total);
    json_out_close(&o, '}');
    json_out_open(&o, "weight_map", '{');
    for (uint32_t t = 0; t < s->tensor_count; t++)
        json_out_string(&o, s->tensors[t].name, c->stages[s->tensor_stage[t]].name[FILE_MODEL]);
    json_out_close(&o, '}');
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}

static braid_err note_file(checkpoint_writer *c, const char *name, braid_error *error) {
    char path[FILES_MAX_PATH];
    BRAID_ASSERT(c->manifest.count < CHECKPOINT_MAX_FILES);
    manifest_file *f = &c->manifest.files[c->manifest.count++];
    snprintf(f->name, sizeof f->name, "%s", name);
    braid_err err = files_join(c->temporary, name, path, error);
    return err ? err : files_hash(path, &f->hash, &f->bytes, error);
}

// Takes `text`.
static braid_err write_text(checkpoint_writer *c, const char *name, char *text, size_t length, braid_error *error) {
    char path[FILES_MAX_PATH];
    braid_err err = text ? files_join(c->temporary, name, path, error)
                         : braid_fail(error, BRAID_MEMORY, "no memory to write '%s'", name);
    if (!err) do
            err = files_write(path, text, length, error);
        while (err == BRAID_FULL && make_room(c));
    free(text);
    return err;
}

static void note_schedule(checkpoint_writer *c) {
    const train_recipe *recipe = c->config.recipe;
    if (!recipe || c->config.version == 0) return;
    c->manifest.schedule = (run_schedule){.iterations = recipe->iterations, .learning_rate = train_learning_rate(recipe, c->config.version - 1)};
}

static braid_err finish_stage(checkpoint_writer *c, uint32_t stage_number, braid_error *error) {
    stage_files *s = &c->stages[stage_number];
    for (uint32_t file = 0; file < (c->config.weights_only ? 1 : 2); file++) {
        if (s->fd[file] < 0) continue;  // an adapter is in the file of stage 0
        bool synced = fsync(s->fd[file]) == 0;
        int why = errno;
        bool closed = close(s->fd[file]) == 0;
        if (synced && !closed) why = errno;
        s->fd[file] = -1;
        if (!synced || !closed)
            return braid_fail(error, why == ENOSPC || why == EDQUOT ? BRAID_FULL : BRAID_IO,
                              "cannot write '%s/%s': %s%s", c->temporary, s->name[file], strerror(why),
                              checkpoint_mend(why));
        braid_err err = note_file(c, s->name[file], error);
        if (err) return err;
    }
    return BRAID_OK;
}

static braid_err write_copies(checkpoint_writer *c, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < c->config.file_count && !err; i++) {
        const files_text *f = &c->config.files[i];
        char *copy = malloc(f->length + 1);
        if (copy) memcpy(copy, f->text, f->length);
        err = write_text(c, f->name, copy, f->length, error);
    }
    return err;
}

// Writes the files that other programs need. Users may edit them later, so the manifest does not
// list them.
static braid_err write_texts(checkpoint_writer *c, braid_error *error) {
    size_t length;
    char *text = hf_config_write(c->config.model, &length);
    braid_err err = write_text(c, "config.json", text, length, error);
    if (err) return err;
    text = is_adapter(c) ? checkpoint_peft_text(&c->config, &length) : index_text(c, &length);
    err = write_text(c, is_adapter(c) ? "adapter_config.json" : "model.safetensors.index.json", text, length, error);
    if (err) return err;
    if (c->config.file_count > 0 || c->config.weights_only) return write_copies(c, error);
    text = hf_tokenizer_write(&length);
    err = write_text(c, "tokenizer.json", text, length, error);
    if (err) return err;
    text = hf_tokenizer_config_write(c->config.model, &length);
    return write_text(c, "tokenizer_config.json", text, length, error);
}

static braid_err finish_files(checkpoint_writer *c, checkpoint_summary *out, braid_error *error) {
    size_t length;
    braid_err err = write_texts(c, error);
    for (uint32_t stage_number = 0; stage_number < c->split->stages && !err; stage_number++)
        err = finish_stage(c, stage_number, error);
    if (err) return err;
    c->manifest.version = c->config.version;
    c->manifest.run = c->config.run;
    c->manifest.adapter = c->config.adapter;
    adapter_targets_text(c->config.model, c->config.adapter.config.roles, " ", c->manifest.targets);
    note_schedule(c);
    c->manifest.weights = out->weights = split_weights_hash(c->split, c->leaves);
    char *text = manifest_text(&c->manifest, &length);
    if (text) out->manifest = sha256_of(text, length);
    err = write_text(c, MANIFEST_FILE, text, length, error);
    return err ? err : files_sync_directory(c->temporary, error);
}

static braid_err publish(checkpoint_writer *c, braid_error *error) {
    braid_err err;
    do err = checkpoint_publish(c->directory, c->temporary, c->step, &c->config.run, error);
    while (err == BRAID_FULL && make_room(c));
    return err;
}

static braid_err point_latest(checkpoint_writer *c, braid_error *error) {
    braid_err err;
    do err = checkpoint_latest_point(c->directory, c->step, error);
    while (err == BRAID_FULL && make_room(c));
    return err;
}

// True if another process of the run saved a newer version while this writer was paused.
static bool is_outdated(const checkpoint_writer *c, const char *before) {
    char link[FILES_MAX_PATH], path[FILES_MAX_PATH];
    struct stat said;
    manifest *m = malloc(sizeof *m);
    bool newer = m && before[0] && !files_join(c->directory, CHECKPOINT_LATEST, link, NULL) &&
                 lstat(link, &said) == 0 &&
                 (said.st_mtim.tv_sec > c->begun.tv_sec ||
                  (said.st_mtim.tv_sec == c->begun.tv_sec && said.st_mtim.tv_nsec > c->begun.tv_nsec)) &&
                 !files_join(c->directory, before, path, NULL) && !manifest_read(path, m, NULL) &&
                 hash_equal(&m->run, &c->config.run) && m->version > c->config.version;
    free(m);
    return newer;
}

braid_err checkpoint_end(checkpoint_writer *c, checkpoint_summary *out, braid_error *error) {
    char before[STEP_NAME];
    braid_err err = BRAID_OK;
    uint32_t have = bitset_count(c->stored, BITSET_WORDS(c->split->block_count));
    if (have != c->split->block_count)
        err = braid_fail(error, BRAID_STATE, "only %u of the checkpoint's %u blocks arrived", have,
                         c->split->block_count);
    if (!err) err = finish_files(c, out, error);
    if (!err) err = files_join(c->directory, c->step, out->path, error);
    if (!err) err = publish(c, error);
    if (err) {
        checkpoint_abort(c);
        return err;
    }
    checkpoint_latest_read(c->directory, before);
    if (!is_outdated(c, before)) {
        err = point_latest(c, error);
        checkpoint_clear_older(c->directory, &c->config.run, c->config.version);
    }
    out->removed = c->removed;
    writer_free(c);
    return err;
}
