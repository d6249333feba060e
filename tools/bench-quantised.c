// Products with quantised weights in the shapes of SmolLM2-135M, for each format: whole passes of the
// model's matrices (30 layers and the head, each with memory of its own) with m rows, and single
// shapes that stay in the cache. Medians of interleaved rounds. Not built with braid:
//
//     cmake --build --preset release --target braid_tensor
//     cc -O2 -std=c17 -D_DEFAULT_SOURCE -Isrc tools/bench-quantised.c -o bench-quantised
//         build/release/libbraid_tensor.a build/release/libbraid_base.a -lpthread -lm
//     ./bench-quantised [THREADS [TYPE...]]
//
// Of a pass it prints milliseconds of wall time and of processor time. From the latter, which other work
// on the machine changes less: 10^9 operations a second (two for each weight and row), bytes of weights
// a second and tokens a second. `memory` reads as many bytes and does nothing else: the limit of
// decoding.
#include "tensor/cpu/q_format.h"
#include "tensor/cpu/q_kernels.h"
#include "tensor/quantised.h"
#include "tensor/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LAYERS = 30, MATRICES = 7, DIM = 576, KV = 192, HIDDEN = 1536, VOCABULARY = 49152, MOST_M = 512, ROUNDS = 7 };

static const struct {
    const char *name;
    weight_type type;
} types[] = {{"F32", WEIGHT_F32},   {"F16", WEIGHT_F16},   {"BF16", WEIGHT_BF16}, {"Q8_0", WEIGHT_Q8_0},
             {"Q4_0", WEIGHT_Q4_0}, {"Q4_1", WEIGHT_Q4_1}, {"Q5_0", WEIGHT_Q5_0}, {"Q5_1", WEIGHT_Q5_1},
             {"Q4_K", WEIGHT_Q4_K}, {"Q5_K", WEIGHT_Q5_K}, {"Q6_K", WEIGHT_Q6_K}};
enum { TYPES = sizeof types / sizeof *types };

static const size_t shape[MATRICES + 1][2] = {{DIM, DIM},    {KV, DIM},     {KV, DIM},     {DIM, DIM},
                                              {HIDDEN, DIM}, {HIDDEN, DIM}, {DIM, HIDDEN}, {VOCABULARY, DIM}};

static tensor_pool *pool;
static tensor_quantised layer[LAYERS][MATRICES], head;
static double layer_bytes, head_bytes, layer_weights, head_weights;
static float *x, *y[MATRICES];
static uint8_t *scratch;

static double clock_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *get(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) exit(1);
    return memory;
}

// Weights lie side by side in large pages, as far as the system has them.
enum { LARGE_PAGE = 1 << 21, ARENA = 640 << 20 };
static uint8_t *arena;
static size_t arena_used;

static void *get_weights(size_t bytes) {
    if (!arena) {
        arena = aligned_alloc(LARGE_PAGE, ARENA);
        if (!arena) exit(1);
        if (!getenv("SMALL_PAGES")) madvise(arena, ARENA, MADV_HUGEPAGE);
    }
    void *memory = arena + arena_used;
    arena_used += (bytes + 63) / 64 * 64;
    if (arena_used > ARENA) exit(1);
    return memory;
}

static uint32_t next_random(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static size_t row_bytes(weight_type type, size_t cols) {
    const q_format *f = q_format_of(type);
    return f ? cols / f->elements * f->bytes : cols * (type == WEIGHT_F32 ? 4 : 2);
}

// Cells that are no multiple of a block of 256 use Q8_0, as files do.
static tensor_quantised matrix(weight_type type, const size_t size[2]) {
    if (!tensor_quantised_fits(type, size[1])) type = WEIGHT_Q8_0;
    size_t bytes = size[0] * row_bytes(type, size[1]);
    bool floats = type == WEIGHT_F32 || type == WEIGHT_F16 || type == WEIGHT_BF16;
    uint8_t *data = floats ? get_weights(bytes) : get(bytes);
    for (size_t i = 0; i + 1 < bytes; i += 2) {  // halves of about 0.01 where they are scales
        uint16_t bits = (uint16_t)((next_random() & 0x83ff) | 0x2000);
        memcpy(data + i, &bits, sizeof bits);
    }
    for (size_t i = 0; type == WEIGHT_F32 && i < bytes / 4; i++)
        ((float *)data)[i] = (float)next_random() * 0x1p-31f - 0.5f;
    weight_matrix w = {type, size[0], size[1], data};
    tensor_quantised q;
    size_t copy = tensor_quantised_bytes(&w);
    void *packed = copy ? get_weights(copy) : NULL;
    tensor_quantised_prepare(pool, &w, packed, &q);
    if (copy) free(data);
    return q;
}

static void open_model(weight_type type) {
    arena_used = 0;
    layer_bytes = head_bytes = layer_weights = head_weights = 0;
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < MATRICES; i++) {
            layer[l][i] = matrix(type, shape[i]);
            layer_bytes += (double)(shape[i][0] * row_bytes(layer[l][i].type, shape[i][1]));
            layer_weights += (double)(shape[i][0] * shape[i][1]);
        }
    head = matrix(type, shape[MATRICES]);
    head_bytes = (double)(VOCABULARY * row_bytes(head.type, DIM));
    head_weights = (double)VOCABULARY * DIM;
}

static void multiply(const tensor_quantised *w, size_t count, size_t m) {
    tensor_quantised_product products[MATRICES];
    for (size_t i = 0; i < count; i++) products[i] = (tensor_quantised_product){&w[i], y[i], w[i].rows, false};
    tensor_quantised_run(pool, x, w->cols, m, w->cols, products, count, scratch);
}

static void pass(size_t m) {
    for (size_t l = 0; l < LAYERS; l++) {
        multiply(&layer[l][0], 3, m);
        multiply(&layer[l][3], 1, m);
        multiply(&layer[l][4], 2, m);
        multiply(&layer[l][6], 1, m);
    }
    multiply(&head, 1, 1);
}

static int ascending(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

static void bench(const char *name, weight_type type) {
    static const size_t rows[] = {1, 2, 4, 8, 16, 128, 512};
    open_model(type);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double wall[ROUNDS], processor[ROUNDS];
        size_t m = rows[i], repeats = m < 8 ? 10 : m < 128 ? 4 : 1;
        pass(m);
        for (size_t r = 0; r < ROUNDS; r++) {
            double start = clock_of(CLOCK_MONOTONIC), start_cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
            for (size_t j = 0; j < repeats; j++) pass(m);
            wall[r] = (clock_of(CLOCK_MONOTONIC) - start) / (double)repeats;
            processor[r] = (clock_of(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / (double)repeats;
        }
        double w = median(wall), p = median(processor), operations = 2 * ((double)m * layer_weights + head_weights);
        printf("%-5s m %4zu: %8.3f ms, processor %8.3f ms, %7.1f G/s, %6.2f GB/s, %8.1f tokens/s\n", name, m, 1e3 * w,
               1e3 * p, 1e-9 * operations / p * tensor_pool_threads(pool), 1e-9 * (layer_bytes + head_bytes) / p * tensor_pool_threads(pool),
               (double)m / p * tensor_pool_threads(pool));
        fflush(stdout);
    }
}

// --- memory

static uint64_t *words;
static uint64_t sums[64];

static void read_range(const void *context, size_t begin, size_t end) {
    (void)context;
    uint64_t s[8] = {0};
    for (size_t i = begin; i < end; i += 8)
        for (size_t j = 0; j < 8; j++) s[j] += words[i + j];
    for (size_t j = 0; j < 8; j++) sums[tensor_pool_slot() * 8 + j] += s[j];
}

static void bench_memory(size_t bytes) {
    double wall[ROUNDS], processor[ROUNDS];
    arena_used = 0;
    words = get_weights(bytes);
    memset(words, 1, bytes);
    for (size_t r = 0; r < ROUNDS; r++) {
        double start = clock_of(CLOCK_MONOTONIC), start_cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < 4; i++) tensor_pool_ranges(pool, bytes / 8, 1 << 14, read_range, NULL);
        wall[r] = (clock_of(CLOCK_MONOTONIC) - start) / 4;
        processor[r] = (clock_of(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / 4;
    }
    double w = median(wall), p = median(processor);
    printf("memory %4zu MB: %8.3f ms, processor %8.3f ms, %6.2f GB/s (%u)\n", bytes >> 20, 1e3 * w, 1e3 * p,
           1e-9 * (double)bytes / p * tensor_pool_threads(pool), (unsigned)(sums[0] & 1));
}

int main(int argc, char **argv) {
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    if (tensor_pool_new(threads, &pool, NULL)) return 1;
    x = get(MOST_M * HIDDEN * sizeof *x);
    for (size_t i = 0; i < MOST_M * HIDDEN; i++) x[i] = (float)next_random() * 0x1p-31f - 0.5f;
    for (size_t i = 0; i < MATRICES; i++) y[i] = get(MOST_M * VOCABULARY / (i ? 16 : 1) * sizeof *x);
    scratch = get(tensor_quantised_scratch(pool, MOST_M, HIDDEN));
    printf("%s, %u threads\n", tensor_quantised_name(), threads);
    bench_memory((size_t)84 << 20);
    bench_memory((size_t)540 << 20);
    for (size_t t = 0; t < TYPES; t++) {
        bool wanted = argc <= 2;
        for (int i = 2; i < argc; i++) wanted |= strcmp(argv[i], types[t].name) == 0;
        if (wanted) bench(types[t].name, types[t].type);
    }
    tensor_pool_free(pool);
    return 0;
}
