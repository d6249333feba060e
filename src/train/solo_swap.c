// Training in one process with the state in a file.
#include "format/quantity.h"
#include "train/solo_inside.h"

#include <stdio.h>

static solo_sum sum_of(const swap_sum *sum) { return (solo_sum){sum->loss, sum->tokens, sum->counted, sum->stopped}; }

braid_err solo_swapped_gradients(solo *s, solo_sum *sum, double *norm2, braid_error *error) {
    swap_sum found;
    braid_err err = swap_gradients(s->swap, s->version, (swap_stop){s, solo_is_dropped}, &found, norm2, error);
    *sum = sum_of(&found);
    return err;
}

braid_err solo_swapped_held_out(solo *s, solo_sum *sum, braid_error *error) {
    swap_sum found;
    braid_err err =
        swap_held_out(s->swap, s->version, s->run->eval_microbatches, (swap_stop){s, solo_is_dropped}, &found, error);
    *sum = sum_of(&found);
    return err;
}

static void note_swap(solo *s) {
    swap_figures f = swap_measure(s->swap);
    char text[512], memory[QUANTITY_TEXT], file[QUANTITY_TEXT];
    snprintf(text, sizeof text,
             "the state is in a file of %s in '%.300s'%s; this process uses at most %s of memory, %u layers at once",
             quantity_size_text(f.file_bytes, file), s->config.swap->directory,
             f.direct ? "" : " (its file system has no direct I/O, so the page cache holds copies)",
             quantity_size_text(f.memory_bytes, memory), f.layers_at_once);
    solo_note(s, text);
}

void solo_note_transfers(solo *s) {
    swap_figures f = swap_measure(s->swap);
    char text[256], in[QUANTITY_TEXT], out[QUANTITY_TEXT];
    snprintf(text, sizeof text, "the state file: %s read, %s written, %.1f s waited for it",
             quantity_size_text(f.io.read_bytes, in), quantity_size_text(f.io.written_bytes, out),
             (double)f.io.waited_ns * 1e-9);
    solo_note(s, text);
}

braid_err solo_open_swap(solo *s, braid_error *error) {
    const swap_config config = {.options = s->config.swap,
                                .run = s->run,
                                .owner = s->run_hash,
                                .split = &s->split,
                                .data = s->config.data,
                                .host = {.context = s, .note = solo_note}};
    braid_err err = swap_new(&config, s->pool, &s->swap, error);
    if (!err) note_swap(s);
    return err;
}

braid_err solo_swapped_state(solo *s, uint32_t first, uint32_t count, blob_id *blob, braid_error *error) {
    size_t bytes = (size_t)checkpoint_state_bytes(&s->split, 0, first, count);
    void *out = solo_blob_write(s, bytes, blob);
    return out ? swap_state_get(s->swap, first, count, s->version, out, error) : BRAID_OK;
}
