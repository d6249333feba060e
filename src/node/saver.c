#include "node/saver.h"

#include "base/bitset.h"
#include "base/sha256.h"
#include "train/checkpoint.h"
#include "train/checkpoint_claim.h"
#include "train/state_blob.h"

#include <stdlib.h>
#include <string.h>

struct saver {
    saver_config config;
    checkpoint_writer *writer;
    bool begun;
    uint64_t version;
    braid_hash *leaves;   // [block_count], of the weights
    braid_hash *names;    // [block_count], of the state; only those of `named` stages
    bool *named;          // [stages]
    uint64_t *have;       // set of blocks
    int lock;             // on the directory, -1: none
    uint32_t removed;     // older versions removed to make room for the last complete one
    char path[FILES_MAX_PATH];
    braid_error error;
};

braid_err saver_new(const saver_config *config, saver **out, braid_error *error) {
    saver *s = calloc(1, sizeof *s);
    uint32_t blocks = config->split->block_count;
    if (s) {
        s->config = *config;
        s->lock = -1;
        s->leaves = calloc(blocks, sizeof *s->leaves);
        s->names = calloc(blocks, sizeof *s->names);
        s->named = calloc(config->split->stages, sizeof *s->named);
        s->have = calloc(BITSET_WORDS(blocks), sizeof *s->have);
    }
    if (!s || !s->leaves || !s->names || !s->named || !s->have) {
        saver_free(s);
        return braid_fail(error, BRAID_MEMORY, "no memory for saving checkpoints");
    }
    *out = s;
    return BRAID_OK;
}

void saver_free(saver *s) {
    if (!s) return;
    checkpoint_abort(s->writer);
    checkpoint_release(s->config.directory, s->lock);
    free(s->leaves);
    free(s->names);
    free(s->named);
    free(s->have);
    free(s);
}

const braid_error *saver_error(const saver *s) { return s->error.code ? &s->error : NULL; }

const char *saver_path(const saver *s) { return s->path; }

uint32_t saver_removed(const saver *s) { return s->removed; }

static bool wants_files(const saver *s) { return s->config.directory && *s->config.directory; }

static void saver_begin(saver *s, uint64_t version) {
    checkpoint_abort(s->writer);
    s->writer = NULL;
    s->begun = true;
    s->version = version;
    s->error.code = BRAID_OK;
    memset(s->named, 0, s->config.split->stages * sizeof *s->named);
    memset(s->have, 0, BITSET_WORDS(s->config.split->block_count) * sizeof *s->have);
    if (!wants_files(s)) return;
    checkpoint_config config = {.directory = s->config.directory, .recipe = s->config.recipe, .adapter = s->config.adapter, .base_name = s->config.base_name, .files = s->config.files, .file_count = s->config.file_count, .model = s->config.model, .split = s->config.split,
                                .run = s->config.run, .version = version};
    // The first leader has locked the directory; a later leader locks it here.
    if (s->lock >= 0 || !checkpoint_claim_to_save(s->config.directory, &s->config.run, &s->lock, &s->error)) checkpoint_begin(&config, &s->writer, &s->error);
}

static const block *stage_block(const saver *s, uint32_t number, uint32_t index, uint32_t *canonical) {
    *canonical = split_block(s->config.split, number, index);
    return &s->config.split->blocks[*canonical];
}

static bool has_its_name(const saver *s, uint32_t canonical, const uint8_t *bytes, uint32_t count) {
    const void *const parts[STATE_PARTS] = {state_block_part(bytes, count, 0), state_block_part(bytes, count, 1), state_block_part(bytes, count, 2)};
    braid_hash name = state_name(parts, count);
    return hash_equal(&name, &s->names[canonical]);
}

// Where to report bad data of other peers; an error of the disk takes precedence.
static braid_error *sent_wrong(saver *s) { return s->error.code == BRAID_OK || s->error.code == BRAID_FORMAT ? &s->error : NULL; }

// Checks that the bytes are these blocks at this version and match their names.
static braid_err blocks_check(saver *s, uint32_t number, uint32_t first, uint32_t count, bool named, const uint8_t *at, uint64_t bytes) {
    if (named && !s->named[number]) return braid_fail(sent_wrong(s), BRAID_FORMAT, "the hashes of stage %u's blocks are not known", number);
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t canonical;
        const block *b = stage_block(s, number, i, &canonical);
        size_t size = state_block_bytes(b->count);
        if (bytes < size || state_block_version(at) != s->version)
            return braid_fail(sent_wrong(s), BRAID_FORMAT, "block %u of stage %u is not one of version %llu", i, number, (unsigned long long)s->version);
        if (named && !has_its_name(s, canonical, at, b->count))
            return braid_fail(sent_wrong(s), BRAID_FORMAT, "block %u of stage %u does not match its hash", i, number);
        at += size;
        bytes -= size;
    }
    return bytes == 0 ? BRAID_OK : braid_fail(sent_wrong(s), BRAID_FORMAT, "blocks of stage %u with bytes left over", number);
}

// Weights that are not finite are useless, and saving them would displace a usable checkpoint.
static braid_err blocks_are_finite(saver *s, uint32_t number, uint32_t first, uint32_t count, const uint8_t *at) {
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t canonical;
        const block *b = stage_block(s, number, i, &canonical);
        if (!state_block_is_finite(at, b->count))
            return braid_fail(&s->error, BRAID_STATE, "the weights of stage %u are not finite after iteration %llu: they are not saved, and older checkpoints are kept", number,
                              (unsigned long long)s->version);
        at += state_block_bytes(b->count);
    }
    return BRAID_OK;
}

static void leaves_put(saver *s, uint32_t number, uint32_t first, uint32_t count, const uint8_t *at) {
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t canonical;
        const block *b = stage_block(s, number, i, &canonical);
        s->leaves[canonical] = sha256_of(state_block_part(at, b->count, 0), b->count * sizeof(float));
        bitset_add(s->have, canonical);
        at += state_block_bytes(b->count);
    }
}

braid_err saver_names(saver *s, uint64_t version, uint32_t number, const void *bytes, uint64_t byte_count, braid_hash *root) {
    if (!s->begun || version != s->version) saver_begin(s, version);
    uint32_t blocks = number < s->config.split->stages ? split_count(s->config.split, number) : 0;
    if (blocks == 0 || byte_count != blocks * sizeof *s->names)
        return braid_fail(sent_wrong(s), BRAID_FORMAT, "stage %u has %u blocks, and the hashes of other blocks were sent", number, blocks);
    const braid_hash *name = bytes;
    for (uint32_t i = 0; i < blocks; i++) memcpy(&s->names[split_block(s->config.split, number, i)], &name[i], sizeof *name);
    s->named[number] = true;
    *root = sha256_of(bytes, byte_count);
    return BRAID_OK;
}

braid_err saver_put(saver *s, uint64_t version, uint32_t number, uint32_t first, uint32_t count, bool named, const void *bytes, uint64_t byte_count) {
    if (!s->begun || version != s->version) saver_begin(s, version);
    const split *split_of = s->config.split;
    uint32_t blocks = number < split_of->stages ? split_count(split_of, number) : 0;
    if (count == 0 || first >= blocks || count > blocks - first)
        return braid_fail(sent_wrong(s), BRAID_FORMAT, "blocks %u to %u of stage %u do not exist", first, first + count, number);
    braid_err err = blocks_check(s, number, first, count, named, bytes, byte_count);
    if (err) return err;
    leaves_put(s, number, first, count, bytes);
    if (!wants_files(s)) return BRAID_OK;
    if (!s->writer) return s->error.code;
    err = blocks_are_finite(s, number, first, count, bytes);
    if (!err) err = checkpoint_put(s->writer, number, first, count, bytes, byte_count, &s->error);
    if (err && err != BRAID_FORMAT) {
        checkpoint_abort(s->writer);
        s->writer = NULL;
    }
    return err;
}

braid_err saver_end(saver *s, uint64_t version, bool give_up, braid_hash *weights) {
    const split *split_of = s->config.split;
    memset(weights, 0, sizeof *weights);
    if (!s->begun || version != s->version) return braid_fail(&s->error, BRAID_STATE, "no checkpoint of version %llu was started", (unsigned long long)version);
    s->begun = false;
    if (give_up || bitset_count(s->have, BITSET_WORDS(split_of->block_count)) != split_of->block_count) {
        checkpoint_abort(s->writer);
        s->writer = NULL;
        return s->error.code ? s->error.code : braid_fail(&s->error, BRAID_STATE, "the checkpoint of version %llu lacks blocks", (unsigned long long)version);
    }
    *weights = split_weights_hash(split_of, s->leaves);
    if (!wants_files(s)) return BRAID_OK;
    if (!s->writer) return s->error.code;
    checkpoint_summary summary;
    braid_err err = checkpoint_end(s->writer, &summary, &s->error);
    s->writer = NULL;
    if (!err) memcpy(s->path, summary.path, sizeof s->path);
    s->removed = err ? 0 : summary.removed;
    return err;
}
