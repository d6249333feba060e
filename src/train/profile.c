#include "train/profile.h"

#include "model/stage.h"
#include "train/profile_inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALIGNMENT = 64, MOST_REPS = 101 };

double profile_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value, uint32_t count) {
    qsort(value, count, sizeof *value, by_size);
    return value[count / 2];
}

typedef struct bench {
    stage *s;
    float *parameters, *sums, *x, *y, *dx, *dy;
    int32_t *tokens;
    void *stash;
    size_t elements;
} bench;

static void *room(size_t bytes) {
    void *p = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (p) memset(p, 0, bytes);
    return p;
}

static void close_bench(bench *b) {
    void *all[] = {b->parameters, b->sums, b->x, b->y, b->dx, b->dy, b->tokens, b->stash};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    if (b->s) stage_free(b->s);
}

static braid_err open_bench(const run_config *run, const stage_shape *shape, tensor_pool *pool, bench *b,
                            braid_error *error) {
    *b = (bench){0};
    braid_err err = stage_new(&run->model, shape, pool, &b->s, error);
    if (err) return err;
    size_t rows = (size_t)shape->sequences * shape->tokens, bytes = stage_activation_elements(b->s) * sizeof(float);
    b->elements = stage_parameters(b->s);
    b->parameters = room(b->elements * sizeof(float));
    b->sums = room(b->elements * sizeof(float));
    b->x = room(bytes);
    b->y = room(bytes);
    b->dx = room(bytes);
    b->dy = room(bytes);
    b->tokens = room(rows * sizeof *b->tokens);
    b->stash = room(stage_stash_bytes(b->s));
    if (!b->parameters || !b->sums || !b->x || !b->y || !b->dx || !b->dy || !b->tokens || !b->stash)
        return braid_fail(error, BRAID_MEMORY, "no memory to measure a layer of %zu parameters", b->elements);
    stage_init(b->s, b->parameters, run->seed);
    stage_bind(b->s, b->parameters);
    for (size_t i = 0; i < rows; i++) b->tokens[i] = (int32_t)(i * 7919 % run->model.vocab);
    // the values do not matter for the time, but must be ordinary numbers
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        b->x[i] = b->dy[i] = (float)((i * 2654435761u >> 16) % 2048) / 1024 - 1;
    return BRAID_OK;
}

static void add(void *context, size_t offset, const float *gradient, size_t count) {
    float *sums = (float *)context + offset;
    for (size_t i = 0; i < count; i++) sums[i] += gradient[i];
}

static void time_layer(bench *b, uint32_t reps, profile_item *out) {
    double forward[MOST_REPS], backward[MOST_REPS];
    const stage_sink sink = {.take = add, .context = b->sums};
    for (uint32_t i = 0; i < reps; i++) {
        double start = profile_now();
        stage_forward(b->s, b->stash, NULL, b->x, b->y);
        double middle = profile_now();
        stage_gradients(b->s, b->stash, b->dy, b->dx, &sink);
        forward[i] = middle - start;
        backward[i] = profile_now() - middle;
    }
    *out = (profile_item){median(forward, reps), median(backward, reps), b->elements};
}

// The embedding's backward pass also has the head's weight gradient: stage_gradients passes both.
static void time_ends(bench *b, uint32_t reps, uint64_t embedding, profile_item *first, profile_item *last) {
    double forward[MOST_REPS], loss[MOST_REPS], backward[MOST_REPS];
    const stage_sink sink = {.take = add, .context = b->sums};
    for (uint32_t i = 0; i < reps; i++) {
        uint32_t counted;
        double start = profile_now();
        stage_forward(b->s, b->stash, b->tokens, NULL, b->y);
        double middle = profile_now();
        stage_loss(b->s, b->stash, b->x, b->tokens, b->dx, &counted);
        double end = profile_now();
        stage_gradients(b->s, b->stash, b->dy, NULL, &sink);
        forward[i] = middle - start;
        loss[i] = end - middle;
        backward[i] = profile_now() - end;
    }
    *first = (profile_item){median(forward, reps), median(backward, reps), embedding};
    *last = (profile_item){0, median(loss, reps), b->elements - embedding};
}

// Parameters of the embeddings; with tied weights the head has only the final norm of its own.
static uint64_t embedding_parameters(const bench *b) {
    uint64_t count = 0;
    const stage_tensor *tensor = stage_tensors(b->s);
    for (uint32_t i = 0; i < stage_tensor_count(b->s); i++)
        if (strstr(tensor[i].name, "embed") || strstr(tensor[i].name, "wte") || strstr(tensor[i].name, "wpe"))
            count += tensor[i].elements;
    return count;
}

static void note_room(const bench *b, train_profile *out) {
    uint64_t bytes = stage_stash_bytes(b->s) + stage_work_bytes(b->s);
    if (bytes > out->work_bytes) out->work_bytes = bytes;
    out->activation_bytes = stage_activation_elements(b->s) * sizeof(float);
}

static braid_err measure_part(const run_config *run, uint32_t begin, uint32_t end, bool ends, tensor_pool *pool,
                              uint32_t reps, train_profile *out, braid_error *error) {
    bench b;
    stage_shape shape = {.layer_begin = begin,
                         .layer_end = end,
                         .ends = ends,
                         .sequences = run->sequences,
                         .tokens = run->tokens,
                         .recompute = true};
    braid_err err = open_bench(run, &shape, pool, &b, error);
    if (!err) {
        note_room(&b, out);
        if (ends)
            time_ends(&b, reps, embedding_parameters(&b), &out->item[0], &out->item[out->items - 1]);
        else
            time_layer(&b, reps, &out->item[begin + 1]);
    }
    close_bench(&b);
    return err;
}

// The layer before `layer` that has the same shape, or `layer` itself: windows and mixtures differ
// by a layer's position.
static bool repeats(const run_config *run, tensor_pool *pool, uint32_t layer, uint32_t before) {
    stage *one = NULL, *other = NULL;
    stage_shape shape = {.sequences = run->sequences, .tokens = run->tokens, .recompute = true};
    braid_error ignored;
    shape.layer_begin = layer, shape.layer_end = layer + 1;
    bool same = stage_new(&run->model, &shape, pool, &one, &ignored) == BRAID_OK;
    shape.layer_begin = before, shape.layer_end = before + 1;
    same = same && stage_new(&run->model, &shape, pool, &other, &ignored) == BRAID_OK &&
           stage_parameters(one) == stage_parameters(other) && stage_stash_bytes(one) == stage_stash_bytes(other) &&
           model_layer_windowed(&run->model, layer) == model_layer_windowed(&run->model, before);
    if (one) stage_free(one);
    if (other) stage_free(other);
    return same;
}

static braid_err measure_layers(const run_config *run, tensor_pool *pool, uint32_t reps, train_profile *out,
                                braid_error *error) {
    braid_err err = measure_part(run, 0, 0, true, pool, reps, out, error);
    for (uint32_t layer = 0; layer < run->model.layers && !err; layer++) {
        uint32_t before = 0;
        while (before < layer && !repeats(run, pool, layer, before)) before++;
        if (before < layer)
            out->item[layer + 1] = out->item[before + 1];
        else
            err = measure_part(run, layer, layer + 1, false, pool, reps, out, error);
    }
    return err;
}

braid_err profile_measure(const run_config *run, unsigned threads, uint32_t reps, const char *directory,
                          train_profile *out, braid_error *error) {
    *out = (train_profile){
        .items = run->model.layers + 2, .sequences = run->sequences, .tokens = run->tokens, .threads = threads};
    if (out->items > PROFILE_MAX_ITEMS)
        return braid_fail(error, BRAID_LIMIT, "a profile has at most %d layers, this model has %u",
                          PROFILE_MAX_ITEMS - 2, run->model.layers);
    if (reps == 0 || reps > MOST_REPS)
        return braid_fail(error, BRAID_ARGUMENT, "a profile is the median of 1 to %d repetitions", MOST_REPS);
    tensor_pool *pool = NULL;
    braid_err err = tensor_pool_new(threads, &pool, error);
    if (!err) err = measure_layers(run, pool, reps, out, error);
    tensor_pool_free(pool);
    if (!err) profile_memory_rate(out);
    if (!err && directory) err = profile_file_rates(directory, out, error);
    return err;
}
