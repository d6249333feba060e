// Content hashes of blocks of state (state_name). Their hash list root is the state hash. The
// hashes of two versions are kept, for blocks that were sent before the last FINAL and arrive after
// it.
#include "train/worker_inside.h"

#include "train/state_blob.h"

static braid_hash name_here(const worker *w, size_t i) {
    size_t at = w->blocks[i].offset;
    const void *const parts[STATE_PARTS] = {w->weights + at, w->moment1 + at, w->moment2 + at};
    return state_name(parts, w->blocks[i].count);
}

static void name_own(void *context, size_t pair) {
    worker *w = context;
    size_t i = 2 * pair;
    if (i + 1 == w->block_count) {
        w->own_name[i] = name_here(w, i);
        return;
    }
    size_t at = w->blocks[i].offset, next = w->blocks[i + 1].offset;
    const void *const parts[2][STATE_PARTS] = {{w->weights + at, w->moment1 + at, w->moment2 + at},
                                               {w->weights + next, w->moment1 + next, w->moment2 + next}};
    state_name_pair(parts, (const uint32_t[2]){w->blocks[i].count, w->blocks[i + 1].count}, &w->own_name[i]);
}

void worker_state_root(const worker_call *call) {
    worker *w = call->w;
    worker_each(call, (w->block_count + 1) / 2, name_own, w);
    call->result->hash = worker_root(w->own_name, w->block_count);
    call->result->version = w->own_version = worker_version(w);
}

void worker_names_get(const worker_call *call) {
    worker *w = call->w;
    call->result->version = w->own_version;
    if (w->own_version != call->work->version) {
        call->result->failed = true;
        return;
    }
    void *out = worker_write(call, w->block_count * sizeof *w->own_name);
    if (out) memcpy(out, w->own_name, w->block_count * sizeof *w->own_name);
}

void worker_names_put(const worker_call *call) {
    worker *w = call->w;
    worker_names *names = &w->names[call->work->version % 2];
    const void *in = worker_read(call, call->work->in, w->block_count * sizeof *names->name);
    if (!in) return;
    memcpy(names->name, in, w->block_count * sizeof *names->name);
    names->known = true;
    names->version = call->result->version = call->work->version;
    call->result->hash = worker_root(names->name, w->block_count);
}

static const braid_hash *names_of(const worker *w, uint64_t version) {
    const worker_names *names = &w->names[version % 2];
    return names->known && names->version == version ? names->name : NULL;
}

bool worker_is_named(const worker *w, uint64_t version, uint32_t index, const uint8_t *bytes) {
    const braid_hash *name = names_of(w, version);
    uint32_t count = w->blocks[index].count;
    if (!name || state_block_version(bytes) != version) return false;
    const void *const parts[STATE_PARTS] = {state_block_part(bytes, count, 0), state_block_part(bytes, count, 1), state_block_part(bytes, count, 2)};
    braid_hash hash = state_name(parts, count);
    return hash_equal(&hash, &name[index]);
}

void worker_state_keep(const worker_call *call) {
    worker *w = call->w;
    const job *work = call->work;
    const braid_hash *name = names_of(w, work->version);
    if (!worker_range(call)) return;
    for (uint32_t i = 0; name && i < work->count && i < 64; i++) {
        uint32_t b = work->first + i;
        braid_hash hash = name_here(w, b);
        if (!hash_equal(&hash, &name[b])) continue;
        w->versions[b] = work->version;
        call->result->hash64 |= (uint64_t)1 << i;
    }
    call->result->version = work->version;
}
