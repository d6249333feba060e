// One single-threaded product: OpenBLAS where it is built in, else a plain C kernel with packed panels.
#include "tensor/cpu/wide.h"
#include "tensor/gemm.h"

#include <string.h>

#ifdef BRAID_BLAS
#include <cblas.h>
#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool take_turns;

// The loader may give us another flavour than the one we were linked with. The serial one (parallel 0) hands the same
// buffer to two threads: wrong sums without a word, so its callers take turns.
static void look_at_flavour(void) {
    take_turns = openblas_get_parallel() == 0;
    openblas_set_num_threads(1);
}

void tensor_gemm_setup(void) { pthread_once(&once, look_at_flavour); }

const char *tensor_gemm_name(void) { return openblas_get_config(); }

void tensor_gemm_tile(const tensor_gemm *g) {
    if (take_turns) pthread_mutex_lock(&turn);
    cblas_sgemm(CblasRowMajor, g->a.transposed ? CblasTrans : CblasNoTrans, g->b.transposed ? CblasTrans : CblasNoTrans,
                (blasint)g->m, (blasint)g->n, (blasint)g->k, 1.0f, g->a.at, (blasint)g->a.stride, g->b.at,
                (blasint)g->b.stride, g->mode == GEMM_ADD ? 1.0f : 0.0f, g->c, (blasint)g->c_stride);
    if (take_turns) pthread_mutex_unlock(&turn);
}

#else

enum { PANEL_ROWS = 6, PANEL_COLS = 32, PANEL_DEPTH = 256 };

void tensor_gemm_setup(void) {}

const char *tensor_gemm_name(void) { return "plain C"; }

// sum[PANEL_ROWS][PANEL_COLS] += a[depth][PANEL_ROWS] * b[depth][PANEL_COLS]
TENSOR_WIDE
static void panel_product(size_t depth, const float *a, const float *b, float *sum) {
    float local[PANEL_ROWS][PANEL_COLS];
    memcpy(local, sum, sizeof local);
    for (size_t p = 0; p < depth; p++, a += PANEL_ROWS, b += PANEL_COLS)
        for (size_t i = 0; i < PANEL_ROWS; i++)
            for (size_t j = 0; j < PANEL_COLS; j++) local[i][j] += a[i] * b[j];
    memcpy(sum, local, sizeof local);
}

// panel[depth][width] from `count` <= width vectors, the rest zero.
static void panel_pack(float *panel, size_t width, const float *from, size_t count, size_t depth, size_t vector_step,
                       size_t depth_step) {
    for (size_t p = 0; p < depth; p++)
        for (size_t i = 0; i < width; i++)
            panel[p * width + i] = i < count ? from[i * vector_step + p * depth_step] : 0.0f;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void panel_store(const float *sum, float *c, size_t stride, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) c[i * stride + j] += sum[i * PANEL_COLS + j];
}

// One column panel of b against all of a.
static void column_product(const tensor_gemm *g, size_t col, size_t from, size_t depth, const float *b) {
    size_t a_row = g->a.transposed ? 1 : g->a.stride, a_col = g->a.transposed ? g->a.stride : 1;
    float a[PANEL_DEPTH * PANEL_ROWS], sum[PANEL_ROWS * PANEL_COLS];
    for (size_t row = 0; row < g->m; row += PANEL_ROWS) {
        size_t rows = least(PANEL_ROWS, g->m - row);
        panel_pack(a, PANEL_ROWS, g->a.at + row * a_row + from * a_col, rows, depth, a_row, a_col);
        memset(sum, 0, sizeof sum);
        panel_product(depth, a, b, sum);
        panel_store(sum, g->c + row * g->c_stride + col, g->c_stride, rows, least(PANEL_COLS, g->n - col));
    }
}

void tensor_gemm_tile(const tensor_gemm *g) {
    size_t b_row = g->b.transposed ? 1 : g->b.stride, b_col = g->b.transposed ? g->b.stride : 1;
    float b[PANEL_DEPTH * PANEL_COLS];
    if (g->mode == GEMM_SET)
        for (size_t i = 0; i < g->m; i++) memset(g->c + i * g->c_stride, 0, g->n * sizeof *g->c);
    for (size_t from = 0; from < g->k; from += PANEL_DEPTH) {
        size_t depth = least(PANEL_DEPTH, g->k - from);
        for (size_t col = 0; col < g->n; col += PANEL_COLS) {
            panel_pack(b, PANEL_COLS, g->b.at + from * b_row + col * b_col, least(PANEL_COLS, g->n - col), depth, b_col,
                       b_row);
            column_product(g, col, from, depth, b);
        }
    }
}
#endif
