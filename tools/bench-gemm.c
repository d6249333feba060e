// The matrix products of the models of `braid bench step`, by braid's kernels and by two libraries, on one thread: shares of the
// core's peak, medians of interleaved rounds. Not built with braid, which needs neither library:
//
//     apt-get install libopenblas-pthread-dev libdnnl-dev && cmake --build --preset release
//     cc -O2 -std=c17 -D_DEFAULT_SOURCE -Isrc -I/usr/include/x86_64-linux-gnu/openblas-pthread tools/bench-gemm.c -o bench-gemm
//         build/release/libbraid_tensor.a build/release/libbraid_base.a -L/usr/lib/x86_64-linux-gnu/openblas-pthread
//         -lopenblas -ldnnl -lpthread -lm
//     OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ./bench-gemm
#include "tensor/cpu/gemm_kernels.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LIBRARIES = 2, WAYS = LIBRARIES + GEMM_KERNELS - 1, ROUNDS = 7, FORMS = 3 };

static const char *const library_names[LIBRARIES] = {"OpenBLAS", "oneDNN"};

// All kernels but the last, the portable one, which is slow.
static const gemm_kernels *kernels_of(int way) { return gemm_kernels_all[way - LIBRARIES]; }

// y[rows, out] = x[rows, in] W, with W as [in, out] (GPT's files) or [out, in].
typedef struct layer {
    const char *name;
    size_t rows, in, out;
    bool conv1d;
} layer;

static const layer layers[] = {
    {"gpt2-124m qkv", 1024, 768, 2304, true},   {"gpt2-124m o", 1024, 768, 768, true},
    {"gpt2-124m up", 1024, 768, 3072, true},    {"gpt2-124m down", 1024, 3072, 768, true},
    {"llama-15m qkv", 2048, 288, 864, false},   {"llama-15m o", 2048, 288, 288, false},
    {"llama-15m up", 2048, 288, 1536, false},   {"llama-15m down", 2048, 768, 288, false},
    {"llama-15m head", 512, 288, 32000, false}, {"llama-4.9m qkv", 1024, 256, 768, false},
    {"llama-4.9m o", 1024, 256, 256, false},    {"llama-4.9m up", 1024, 256, 1408, false},
    {"llama-4.9m down", 1024, 704, 256, false}, {"llama-1.2m qkv", 1024, 128, 384, false},
    {"llama-1.2m o", 1024, 128, 128, false},    {"llama-1.2m up", 1024, 128, 704, false},
    {"llama-1.2m down", 1024, 352, 128, false},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void multiply(int way, const tensor_gemm *g) {
    const tensor_matrix *a = &g->a, *b = &g->b;
    if (way == 0)
        cblas_sgemm(CblasRowMajor, a->transposed ? CblasTrans : CblasNoTrans, b->transposed ? CblasTrans : CblasNoTrans,
                    (int)g->m, (int)g->n, (int)g->k, 1, a->at, (int)a->stride, b->at, (int)b->stride, 0, g->c,
                    (int)g->c_stride);
    else if (way == 1)
        dnnl_sgemm(a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', (dnnl_dim_t)g->m, (dnnl_dim_t)g->n,
                   (dnnl_dim_t)g->k, 1, a->at, (dnnl_dim_t)a->stride, b->at, (dnnl_dim_t)b->stride, 0, g->c,
                   (dnnl_dim_t)g->c_stride);
    else
        gemm_tile_by(kernels_of(way), g);
}

static bool works(int way) { return way < LIBRARIES || kernels_of(way)->works_here(); }

static float *filled(size_t count) {
    float *values = aligned_alloc(64, (count * sizeof *values + 63) / 64 * 64);
    if (!values) exit(1);
    for (size_t i = 0; i < count; i++) values[i] = (float)(i * 7 % 17) - 8;
    return values;
}

// Forward, input gradient, weight gradient.
static tensor_gemm product_of(const layer *l, int form) {
    static const bool a_transposed[FORMS] = {false, false, true};
    size_t sizes[FORMS][3] = {{l->rows, l->out, l->in}, {l->rows, l->in, l->out}, {l->out, l->in, l->rows}};
    if (l->conv1d) sizes[2][0] = l->in, sizes[2][1] = l->out;
    tensor_gemm g = {.m = sizes[form][0], .n = sizes[form][1], .k = sizes[form][2], .mode = GEMM_SET};
    bool b_transposed = form < 2 && (form == 0) != l->conv1d;
    g.a = (tensor_matrix){filled(g.m * g.k), a_transposed[form] ? g.m : g.k, a_transposed[form]};
    g.b = (tensor_matrix){filled(g.k * g.n), b_transposed ? g.k : g.n, b_transposed};
    g.c = filled(g.m * g.n);
    g.c_stride = g.n;
    return g;
}

static void show(const layer *l, int form, double peak) {
    tensor_gemm g = product_of(l, form);
    double work = 2.0 * (double)g.m * (double)g.n * (double)g.k, seconds[WAYS][ROUNDS];
    int repeats = 1 + (int)(2e9 / work);
    for (int round = -1; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            if (!works(way)) continue;
            double start = now();
            for (int i = 0; i < repeats; i++) multiply(way, &g);
            if (round >= 0) seconds[way][round] = (now() - start) / repeats;
        }
    printf("| %s%s | %zu x %zu x %zu | %c%c |", l->name,
           form == 0   ? ""
           : form == 1 ? " dx"
                       : " dW",
           g.m, g.n, g.k, g.a.transposed ? 'T' : 'N', g.b.transposed ? 'T' : 'N');
    for (int way = 0; way < WAYS; way++) {
        if (works(way)) qsort(seconds[way], ROUNDS, sizeof seconds[way][0], ascending);
        printf(" %.1f |", works(way) ? 100 * work / seconds[way][ROUNDS / 2] / peak : 0.0);
    }
    printf("\n");
    free((float *)g.a.at), free((float *)g.b.at), free(g.c);
}

int main(void) {
    double peak = 0;
    float sink;
    for (int i = 0; i < 9; i++) {
        double start = now(), rate = tensor_peak_burst(&sink) / (now() - start);
        if (rate > peak) peak = rate;
    }
    printf("peak %.1f GFLOP/s\n\n| product | m x n x k | form |", peak * 1e-9);
    for (int way = 0; way < WAYS; way++) printf(" %s |", way < LIBRARIES ? library_names[way] : kernels_of(way)->name);
    printf("\n|-|-|-|-|-|-|-|\n");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int form = 0; form < FORMS; form++) show(&layers[i], form, peak);
    return 0;
}
