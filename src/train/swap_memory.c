// The plan: which part of the state is where in the file, and which buffers are in memory.
#include "format/quantity.h"
#include "train/swap_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_ELEMENTS = 1 << 18,
    LEAST_WEIGHTS = 2,      // a layer in use and the next one
    LEAST_SUMS = 2,         // one in use and one being written
    LEAST_ACTIVATIONS = 8,  // an input and an output or gradient, two that are read, some that are written
    LEAST_ENDS = 2,
    LEAST_STASHES = 4,       // one in use, two that are read or written, one more
    SPARE_BYTES = 2 << 20,   // stacks of threads, tables
    SAVING_BYTES = 8 << 20,  // blobs and buffers of a checkpoint being written
};

static size_t page_up(size_t bytes) { return (size_t)block_file_padded(bytes); }

static size_t up(size_t n, size_t step) { return (n + step - 1) / step * step; }

// Divides a reservation into pieces. With `base` NULL it only counts.
typedef struct carver {
    uint8_t *base;
    size_t used;
} carver;

static void *carve(carver *c, size_t bytes) {
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += page_up(bytes);
    return piece;
}

static void carve_chunks(swap *s, carver *c) {
    for (int i = 0; i < CHUNKS; i++)
        for (int part = 0; part < SWAP_PARTS; part++) s->chunks[i].part[part] = carve(c, s->chunk * sizeof(float));
}

// Returns the memory of the tier.
static void *carve_all(swap *s, carver *c) {
    size_t activation = s->activation * sizeof(float);
    s->ends_weights = carve(c, swap_ends(s)->elements * sizeof(float));
    s->room.stash = s->options.stashes ? NULL : carve(c, stage_stash_bytes(s->layer));
    s->room.output = carve(c, activation);
    s->room.gradient = carve(c, activation);
    s->room.carry = carve(c, BLOCK_ELEMENTS * sizeof *s->room.carry);
    s->room.bounce = carve(c, STATE_ROOM * (BLOCK_ELEMENTS * sizeof(float) + 2 * BLOCK_FILE_ALIGNMENT));
    carve_chunks(s, c);
    s->drawn.tokens = carve(c, s->group * s->rows * sizeof *s->drawn.tokens);
    s->drawn.targets = carve(c, s->group * s->rows * sizeof *s->drawn.targets);
    s->drawn.documents = carve(c, s->group * s->rows * sizeof *s->drawn.documents);
    s->drawn.counted = carve(c, s->group * sizeof *s->drawn.counted);
    s->lost = carve(c, s->config.split->block_count * sizeof *s->lost);
    s->block_norm2 = carve(c, s->config.split->block_count * sizeof *s->block_norm2);
    return carve(c, tier_memory(s->shelf, SHELVES));
}

static uint64_t resident_now(void) {
    unsigned long long size, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    int got = f ? fscanf(f, "%llu %llu", &size, &pages) : 0;
    if (f) fclose(f);
    return got == 2 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t memory_with(swap *s, uint64_t base) {
    carver count = {NULL, 0};
    carve_all(s, &count);
    return base + count.used + stage_work_bytes(s->layer) + stage_work_bytes(s->ends) + SPARE_BYTES +
           (s->run->checkpoint[0] ? SAVING_BYTES : 0);
}

// Gives a shelf more buffers while memory is left, up to `most`.
static void widen(swap *s, uint64_t base, int shelf, uint32_t most) {
    tier_shelf *of = &s->shelf[shelf];
    uint64_t used = memory_with(s, base), limit = s->options.max_memory;
    uint64_t more = limit == 0 ? most : limit > used ? (limit - used) / of->bytes : 0;
    if (of->buffers + more < most)
        of->buffers += (uint32_t)more;
    else if (of->buffers < most)
        of->buffers = most;
}

static braid_err too_little(uint64_t need, uint64_t cap, braid_error *error) {
    char needed[QUANTITY_TEXT], limit[QUANTITY_TEXT];
    return braid_fail(error, BRAID_LIMIT,
                      "with its state in a file this run needs %s of memory, the limit is %s; raise --max-memory to at "
                      "least %lluK, or make the microbatches smaller",
                      quantity_size_text(need, needed), quantity_size_text(cap, limit),
                      (unsigned long long)(need + 1023) >> 10);
}

static braid_err plan_memory(swap *s, braid_error *error) {
    uint64_t base = s->options.used_bytes ? s->options.used_bytes : resident_now();
    size_t layer = s->layers ? s->unit[0].elements : 1,
           segment = up(layer > BLOCK_ELEMENTS ? layer : BLOCK_ELEMENTS, 1024);
    s->shelf[SHELF_WEIGHTS] = (tier_shelf){page_up(layer * sizeof(float)), LEAST_WEIGHTS};
    s->shelf[SHELF_SUMS] = (tier_shelf){page_up(segment * s->sum_bytes), LEAST_SUMS};
    s->shelf[SHELF_ACTIVATIONS] = (tier_shelf){page_up(s->activation * sizeof(float)), LEAST_ACTIVATIONS};
    s->shelf[SHELF_ENDS] = (tier_shelf){page_up(stage_stash_bytes(s->ends)), LEAST_ENDS};
    s->shelf[SHELF_STASHES] =
        (tier_shelf){page_up(stage_stash_bytes(s->layer)), s->options.stashes ? LEAST_STASHES : 0};
    uint64_t least = memory_with(s, base);
    if (s->options.max_memory > 0 && least > s->options.max_memory)
        return too_little(least, s->options.max_memory, error);
    if (!s->options.naive) {
        widen(s, base, SHELF_ENDS, s->group + 1);
        widen(s, base, SHELF_ACTIVATIONS, s->group + LEAST_ACTIVATIONS);
        if (s->options.stashes)
            widen(s, base, SHELF_STASHES, s->options.max_memory ? s->layers * s->group : LEAST_STASHES + 2);
        widen(s, base, SHELF_WEIGHTS, s->options.max_memory ? s->layers + 1 : LEAST_WEIGHTS + 1);
    }
    s->memory_bytes = memory_with(s, base);
    return BRAID_OK;
}

// --- the file

static uint64_t place(swap *s, uint64_t bytes) {
    uint64_t at = s->file_bytes;
    s->file_bytes += block_file_padded(bytes);
    return at;
}

static void place_unit(swap *s, swap_unit *u) {
    for (int part = 0; part < SWAP_RESULTS; part++) u->at[part] = place(s, u->elements * sizeof(float));
    u->at[SWAP_RESULTS] = place(s, u->elements * (s->options.naive ? s->sum_bytes : sizeof(float)));
    u->weights = tier_block_at(u->at[SWAP_WEIGHTS], page_up(u->elements * sizeof(float)), SHELF_WEIGHTS);
}

static braid_err place_segments(swap *s, swap_unit *u, braid_error *error) {
    u->segment = s->shelf[SHELF_SUMS].bytes / s->sum_bytes / 1024 * 1024;
    u->segments = (uint32_t)((u->elements + u->segment - 1) / u->segment);
    u->sums = calloc(u->segments, sizeof *u->sums);
    if (!u->sums) return braid_fail(error, BRAID_MEMORY, "no memory for a table of sums");
    for (uint32_t i = 0; i < u->segments; i++) u->sums[i] = tier_block_at(0, 0, SHELF_SUMS);
    return BRAID_OK;
}

static void place_blocks(swap *s, tier_block *blocks, size_t count, uint32_t shelf) {
    for (size_t i = 0; i < count; i++)
        blocks[i] = tier_block_at(place(s, s->shelf[shelf].bytes), s->shelf[shelf].bytes, shelf);
}

static braid_err plan_file(swap *s, braid_error *error) {
    braid_err err = BRAID_OK;
    size_t inputs = (size_t)(s->layers + 1) * s->group;
    size_t kept = s->options.stashes ? (size_t)s->layers * s->group : 0;
    tier_block *all = calloc(inputs + 2 * (size_t)s->group + kept, sizeof *all);
    if (!all) return braid_fail(error, BRAID_MEMORY, "no memory for a table of %zu inputs", inputs);
    s->tables = all;
    s->inputs = all;
    s->gradients = all + inputs;
    s->stashes = s->gradients + s->group;
    if (kept > 0) s->kept = s->stashes + s->group;
    for (uint32_t i = 0; i <= s->layers && !err; i++) {
        place_unit(s, &s->unit[i]);
        err = place_segments(s, &s->unit[i], error);
    }
    place_blocks(s, s->inputs, inputs + s->group, SHELF_ACTIVATIONS);
    place_blocks(s, s->stashes, s->group, SHELF_ENDS);
    place_blocks(s, s->kept, kept, SHELF_STASHES);
    return err;
}

static braid_err open_file(swap *s, braid_error *error) {
    enum { THREADS = 4 };
    char owner[2 * BRAID_ID_BYTES + 1];
    id_hex(s->config.owner.bytes, BRAID_ID_BYTES, owner);
    const block_file_config config = {.directory = s->options.directory,
                                      .owner = owner,
                                      .bytes = s->file_bytes,
                                      .rate = s->options.rate,
                                      .faults = s->options.faults};
    braid_err err = block_file_open(&config, &s->file, error);
    return err ? err : store_io_new(s->file, s->options.naive ? 1 : THREADS, s->config.host, &s->io, error);
}

braid_err swap_reserve(swap *s, braid_error *error) {
    size_t most = 1024;
    for (uint32_t i = 0; i <= s->layers; i++)
        if (s->unit[i].elements > most) most = up(s->unit[i].elements, 1024);
    s->chunk = most < CHUNK_ELEMENTS ? most : CHUNK_ELEMENTS;
    braid_err err = plan_memory(s, error);
    if (!err) err = plan_file(s, error);
    if (!err) err = open_file(s, error);
    if (err) return err;
    carver count = {NULL, 0};
    carve_all(s, &count);
    void *memory = mmap(NULL, count.used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return braid_fail(error, BRAID_MEMORY, "cannot reserve %zu MiB; set a lower --max-memory", count.used >> 20);
    s->arena = memory;
    s->arena_bytes = count.used;
    carver pieces = {memory, 0};
    void *buffers = carve_all(s, &pieces);
    return tier_new(s->shelf, SHELVES, s->io, buffers, &s->tier, error);
}

// --- the whole

static braid_err table_new(swap_table *t, const stage *from, braid_error *error) {
    t->tensors = stage_tensors(from);
    t->tensor_count = stage_tensor_count(from);
    t->block_count = blocks_count(t->tensors, t->tensor_count);
    t->blocks = calloc(t->block_count ? t->block_count : 1, sizeof *t->blocks);
    if (!t->blocks) return braid_fail(error, BRAID_MEMORY, "no memory for a table of blocks");
    blocks_fill(t->tensors, t->tensor_count, t->blocks);
    return BRAID_OK;
}

static braid_err make_stages(swap *s, braid_error *error) {
    const model_config *model = &s->run->model;
    stage_shape whole, one, ends;
    run_solo_shape(s->run, &whole);
    s->links = whole.links;
    one = ends = whole;
    one.layer_begin = 0;
    one.layer_end = 1;
    one.ends = one.recompute = false;
    ends.layer_begin = ends.layer_end = 0;
    ends.recompute = true;
    ends.documents = false;
    braid_err err = stage_new(model, &one, s->pool, &s->layer, error);
    if (!err) err = stage_new(model, &ends, s->pool, &s->ends, error);
    if (!err) err = table_new(&s->layer_table, s->layer, error);
    if (!err) err = table_new(&s->ends_table, s->ends, error);
    if (err) return err;
    s->rows = (size_t)whole.sequences * whole.tokens;
    s->activation = stage_activation_elements(s->layer);
    s->unit = calloc(s->layers + 1, sizeof *s->unit);
    if (!s->unit) return braid_fail(error, BRAID_MEMORY, "no memory for a table of layers");
    for (uint32_t i = 0; i <= s->layers; i++) {
        s->unit[i].stage = i < s->layers ? s->layer : s->ends;
        s->unit[i].elements = stage_parameters(s->unit[i].stage);
    }
    for (uint32_t i = 0; i < model_tensors_before(model); i++)
        s->before_blocks += blocks_of_tensor(&s->ends_table.tensors[i]);
    return BRAID_OK;
}

braid_err swap_new(const swap_config *config, tensor_pool *pool, swap **out, braid_error *error) {
    swap *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for training with a state file");
    s->config = *config;
    s->options = *config->options;
    s->run = config->run;
    s->pool = pool;
    s->layers = config->run->model.layers;
    s->group = s->options.naive ? 1 : config->run->microbatches;
    s->fixed = config->run->recipe.reproducible;
    s->sum_bytes = s->fixed ? sizeof(int64_t) : sizeof(float);
    braid_err err = make_stages(s, error);
    if (!err) err = swap_reserve(s, error);
    if (err)
        swap_free(s);
    else
        *out = s;
    return err;
}

void swap_free(swap *s) {
    if (!s) return;
    tier_free(s->tier);
    store_io_free(s->io);
    block_file_close(s->file);
    if (s->arena) munmap(s->arena, s->arena_bytes);
    for (uint32_t i = 0; s->unit && i <= s->layers; i++) free(s->unit[i].sums);
    free(s->unit);
    free(s->tables);
    free(s->layer_table.blocks);
    free(s->ends_table.blocks);
    stage_free(s->layer);
    stage_free(s->ends);
    free(s);
}

swap_figures swap_measure(swap *s) {
    return (swap_figures){.memory_bytes = s->memory_bytes,
                          .file_bytes = s->file_bytes,
                          .layers_at_once = s->shelf[SHELF_WEIGHTS].buffers,
                          .direct = block_file_direct(s->file),
                          .io = store_io_statistics(s->io)};
}

uint32_t swap_block_number(const swap *s, const swap_unit *u, uint32_t index) {
    uint32_t each = s->layer_table.block_count;
    if (u != swap_ends(s)) return s->before_blocks + (uint32_t)(u - s->unit) * each + index;
    return index < s->before_blocks ? index : index + s->layers * each;
}

braid_err swap_pause(swap *s, braid_error *error) { return s->options.naive ? tier_settle(s->tier, error) : BRAID_OK; }
