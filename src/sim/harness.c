// The parts of the cluster that every other file uses: queued items, the first violation, the
// leader, and a worker's access to blobs. Nothing here calls a peer.
#include "sim/inside.h"

#include <stdarg.h>
#include <stdlib.h>

sim_item *sim_item_new(sim_item_kind kind, uint32_t node, size_t bytes) {
    sim_item *item = malloc(sizeof *item + bytes);
    BRAID_ALLOCATED(item, sizeof *item + bytes);
    *item = (sim_item){.kind = kind, .node = node, .byte_count = bytes};
    return item;
}

void sim_item_put(sim_cluster *s, uint64_t at_ns, sim_item *item) { sim_queue_put(&s->queue, at_ns, item); }

void sim_fail(sim_cluster *s, const char *format, ...) {
    if (s->report->failed) return;
    s->report->failed = true;
    int used = snprintf(s->report->text, sizeof s->report->text, "at %.6f s: ", (double)(s->now - s->begin_ns) / 1e9);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->report->text + used, sizeof s->report->text - (size_t)used, format, arguments);
    va_end(arguments);
    if (s->trace) fprintf(s->trace, "!! %s\n", s->report->text);
}

bool sim_failed(const sim_cluster *s) { return s->report->failed; }

uint32_t sim_leader(const sim_cluster *s) { return s->leader; }

static const void *blobs_read(void *context, blob_id blob, uint64_t *bytes) {
    const sim_buffer *buffer = sim_blobs_borrowed(context, blob);
    if (!buffer) buffer = sim_blobs_get(context, blob);
    if (!buffer) return NULL;
    *bytes = buffer->bytes;
    return buffer->data;
}

static void *blobs_write(void *context, uint64_t bytes, blob_id *blob) {
    sim_buffer *buffer = sim_buffer_new(bytes);
    *blob = sim_blobs_add(context, buffer);
    return buffer->data;
}

worker_blobs sim_blobs_access(sim_blobs *blobs) { return (worker_blobs){blobs, blobs_read, blobs_write}; }
