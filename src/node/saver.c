#include "node/saver.h"

#include "base/bitset.h"
#include "base/sha256.h"
#include "train/checkpoint.h"
#include "train/state_blob.h"

#include <stdlib.h>
#include <string.h>

struct saver {
    saver_config config;
    checkpoint_writer *writer;
    bool begun;
    uint64_t version;
    braid_hash *leaves;   // [block_count], of the weights
    uint64_t *have;       // set of blocks
    char path[FILES_MAX_PATH];
    braid_error error;
};

braid_err saver_new(const saver_config *config, saver **out, braid_error *error) {
    saver *s = calloc(1, sizeof *s);
    uint32_t blocks = config->split->block_count;
    if (s) {
        s->config = *config;
        s->leaves = calloc(blocks, sizeof *s->leaves);
        s->have = calloc(BITSET_WORDS(blocks), sizeof *s->have);
    }
    if (!s || !s->leaves || !s->have) {
        saver_free(s);
        return braid_fail(error, BRAID_MEMORY, "no memory for saving checkpoints");
    }
    *out = s;
    return BRAID_OK;
}

void saver_free(saver *s) {
    if (!s) return;
    checkpoint_abort(s->writer);
    free(s->leaves);
    free(s->have);
    free(s);
}

const braid_error *saver_error(const saver *s) { return s->error.code ? &s->error : NULL; }

const char *saver_path(const saver *s) { return s->path; }

static bool wants_files(const saver *s) { return s->config.directory && *s->config.directory; }

static void saver_begin(saver *s, uint64_t version) {
    checkpoint_abort(s->writer);
    s->writer = NULL;
    s->begun = true;
    s->version = version;
    s->error.code = BRAID_OK;
    memset(s->have, 0, BITSET_WORDS(s->config.split->block_count) * sizeof *s->have);
    if (!wants_files(s)) return;
    checkpoint_config config = {.directory = s->config.directory, .model = s->config.model, .split = s->config.split,
                                .run = s->config.run, .version = version};
    checkpoint_begin(&config, &s->writer, &s->error);
}

static const block *stage_block(const saver *s, uint32_t number, uint32_t index, uint32_t *canonical) {
    *canonical = split_block(s->config.split, number, index);
    return &s->config.split->blocks[*canonical];
}

// Hashes the weights of each block; BRAID_FORMAT when the bytes are not these blocks at this version.
static braid_err leaves_put(saver *s, uint32_t number, uint32_t first, uint32_t count, const uint8_t *at, uint64_t bytes) {
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t canonical;
        const block *b = stage_block(s, number, i, &canonical);
        size_t size = state_block_bytes(b->count);
        if (bytes < size || state_block_version(at) != s->version)
            return braid_fail(&s->error, BRAID_FORMAT, "block %u of stage %u is not one of version %llu", i, number, (unsigned long long)s->version);
        s->leaves[canonical] = sha256_of(state_block_part(at, b->count, 0), b->count * sizeof(float));
        bitset_add(s->have, canonical);
        at += size;
        bytes -= size;
    }
    return bytes == 0 ? BRAID_OK : braid_fail(&s->error, BRAID_FORMAT, "blocks of stage %u with bytes left over", number);
}

braid_err saver_put(saver *s, uint64_t version, uint32_t number, uint32_t first, uint32_t count, const void *bytes, uint64_t byte_count) {
    if (!s->begun || version != s->version) saver_begin(s, version);
    const split *split_of = s->config.split;
    uint32_t blocks = number < split_of->stages ? split_count(split_of, number) : 0;
    if (count == 0 || first >= blocks || count > blocks - first)
        return braid_fail(&s->error, BRAID_FORMAT, "blocks %u to %u of stage %u do not exist", first, first + count, number);
    braid_err err = leaves_put(s, number, first, count, bytes, byte_count);
    if (err || !wants_files(s)) return err;
    if (!s->writer) return s->error.code;
    err = checkpoint_put(s->writer, number, first, count, bytes, byte_count, &s->error);
    if (err && err != BRAID_FORMAT) {
        checkpoint_abort(s->writer);
        s->writer = NULL;
    }
    return err;
}

braid_err saver_end(saver *s, uint64_t version, braid_hash *weights) {
    const split *split_of = s->config.split;
    memset(weights, 0, sizeof *weights);
    if (!s->begun || version != s->version) return braid_fail(&s->error, BRAID_STATE, "no checkpoint of version %llu was begun", (unsigned long long)version);
    s->begun = false;
    if (bitset_count(s->have, BITSET_WORDS(split_of->block_count)) != split_of->block_count) {
        checkpoint_abort(s->writer);
        s->writer = NULL;
        return braid_fail(&s->error, BRAID_STATE, "the checkpoint of version %llu lacks blocks", (unsigned long long)version);
    }
    *weights = split_weights_hash(split_of, s->leaves);
    if (!wants_files(s)) return BRAID_OK;
    if (!s->writer) return s->error.code;
    checkpoint_summary summary;
    braid_err err = checkpoint_end(s->writer, &summary, &s->error);
    s->writer = NULL;
    if (!err) memcpy(s->path, summary.path, sizeof s->path);
    return err;
}
