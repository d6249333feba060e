// Checkpoints of training in one process.
#include "train/checkpoint_directory.h"
#include "train/solo_inside.h"
#include "train/state_blob.h"

#include <stdio.h>

enum { SAVE_BLOCKS = 8 };

// Refuses to save weights that are not finite, because they are useless and would replace good
// ones.
static braid_err blocks_are_finite(const solo *s, uint32_t first, uint32_t count, const uint8_t *at,
                                   braid_error *error) {
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t elements = s->split.blocks[split_block(&s->split, 0, i)].count;
        if (!state_block_is_finite(at, elements))
            return braid_fail(
                error, BRAID_STATE,
                "the weights are not finite after iteration %llu: they are not saved, and older checkpoints are kept",
                (unsigned long long)s->version);
        at += state_block_bytes(elements);
    }
    return BRAID_OK;
}

static braid_err save_blocks(solo *s, checkpoint_writer *writer, braid_error *error) {
    braid_err err = BRAID_OK;
    uint32_t all = s->split.block_count;
    for (uint32_t first = 0; first < all && !err; first += SAVE_BLOCKS) {
        uint32_t count = all - first < SAVE_BLOCKS ? all - first : SAVE_BLOCKS;
        job_result state = {0};
        if (s->swap)
            err = solo_swapped_state(s, first, count, &state.out, error);
        else
            state = solo_job(
                s, &(job){.id = 1, .kind = JOB_STATE_GET, .first = first, .count = count, .version = s->version});
        uint64_t bytes = 0;
        const void *data = solo_blob_read(s, state.out, &bytes);
        if (!err)
            err = data ? blocks_are_finite(s, first, count, data, error)
                       : braid_fail(error, BRAID_MEMORY, "no memory to save");
        if (!err) err = checkpoint_put(writer, 0, first, count, data, bytes, error);
        solo_blob_release(s, state.out);
    }
    return err;
}

static braid_err save_once(solo *s, checkpoint_summary *summary, braid_error *why) {
    checkpoint_config config = {.directory = s->run->checkpoint,
                                .model = &s->run->model,
                                .split = &s->split,
                                .run = s->run_hash,
                                .version = s->version,
                                .recipe = &s->run->recipe,
                                .adapter = run_adapter(s->run),
                                .base_name = s->run->from};
    config.files = train_data_carried(s->config.data, &config.file_count);
    checkpoint_writer *writer = NULL;
    braid_err err = checkpoint_begin(&config, &writer, why);
    if (err) return err;
    err = save_blocks(s, writer, why);
    if (!err) return checkpoint_end(writer, summary, why);
    checkpoint_abort(writer);
    return err;
}

static void note_room(solo *s, uint32_t removed) {
    char text[CHECKPOINT_NOTE];
    snprintf(text, sizeof text, "the disk is full: %u older checkpoint%s removed to save this one", removed,
             removed == 1 ? " was" : "s were");
    if (removed > 0) solo_note(s, text);
}

// A failed save is reported and the run continues, because the older checkpoint still exists. Some
// file systems report a full disk only at the final sync (NFS); then everything is written again.
void solo_save(solo *s) {
    checkpoint_summary summary = {0};
    braid_error why = {0};
    braid_err err;
    uint32_t removed = 0;
    do err = save_once(s, &summary, &why);
    while (err == BRAID_FULL && checkpoint_make_room(s->run->checkpoint, &s->run_hash, s->version) && ++removed);
    s->result->save_failed = err != BRAID_OK;
    if (!err) {
        s->saved = s->version;
        note_room(s, removed + summary.removed);
    }
    solo_event event = {.kind = SOLO_CHECKPOINT, .iteration = s->version, .failed = err != BRAID_OK, .text = why.text};
    if (!err) {
        snprintf(s->result->path, sizeof s->result->path, "%s", summary.path);
        event.path = s->result->path;
    }
    solo_tell(s, &event);
}
