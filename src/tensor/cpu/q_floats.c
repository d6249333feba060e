#include "tensor/cpu/q_floats.h"

#include "tensor/cpu/wide.h"
#include "tensor/cpu/q_format.h"
#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <string.h>

enum { BF16_SHIFT = 16 };

TENSOR_WIDE
void q_widen_bf16(const uint8_t *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + i * sizeof bits, sizeof bits);
        uint32_t all = (uint32_t)bits << BF16_SHIFT;
        memcpy(&to[i], &all, sizeof all);
    }
}

// Branches would prevent vectors: the exponent's change is a multiplication, which is exact and
// right for subnormal numbers, too. What is left are infinity and NaN.
TENSOR_WIDE
void q_widen_f16(const uint8_t *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + i * sizeof bits, sizeof bits);
        uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
        float x;
        memcpy(&x, &magnitude, sizeof x);
        x *= 0x1p112f;
        uint32_t all, special = 0u - (uint32_t)((bits & 0x7c00) == 0x7c00);
        memcpy(&all, &x, sizeof all);
        all |= sign | (special & 0x7f800000u);
        memcpy(&to[i], &all, sizeof all);
    }
}

static const q_few_kernels *few_here(void) {
#if defined(__x86_64__)
    for (size_t i = 0; i < Q_FEW_KERNELS; i++)
        if (q_few_all[i]->works_here()) return q_few_all[i];
#endif
    return NULL;
}

static void multiply(const q_call *call, const tensor_quantised_product *p, size_t first, size_t count,
                     const float *rows) {
    const q_few_kernels *few = call->m <= Q_FEW_ROWS ? few_here() : NULL;
    size_t done = 0;
    if (few) {
        q_few job = {.w = rows, .x = call->x, .rows = count, .cols = call->cols, .m = call->m, .add = p->add};
        job.x_stride = call->x_stride, job.y_stride = p->y_stride, job.y = p->y + first;
        done = few->product(&job);
    }
    if (done == count) return;
    tensor_gemm g = {.m = call->m, .n = count - done, .k = call->cols, .c_stride = p->y_stride};
    g.c = p->y + first + done;
    g.a = tensor_plain(call->x, call->x_stride);
    g.b = tensor_transposed(rows + done * call->cols, call->cols);
    g.mode = p->add ? GEMM_ADD : GEMM_SET;
    tensor_gemm_tile(&g);
}

// mixed8: a table of critical columns, and rows of a scale, an integer for each column, and an fp16
// number for each critical column.
enum { COLUMNS_PER_CRITICAL = 128 };

TENSOR_WIDE
static void widen_integers(const int8_t *from, size_t count, float scale, float *to) {
    for (size_t i = 0; i < count; i++) to[i] = scale * (float)from[i];
}

static void widen_mixed8(const tensor_quantised *w, size_t first, size_t rows, float *to) {
    size_t critical = size_pieces(w->cols, COLUMNS_PER_CRITICAL);
    size_t row_bytes = sizeof(float) + w->cols + critical * sizeof(uint16_t);
    const uint8_t *table = w->at, *at = table + critical * sizeof(uint32_t) + first * row_bytes;
    for (size_t r = 0; r < rows; r++, at += row_bytes, to += w->cols) {
        const uint8_t *integers = at + sizeof(float);
        float scale;
        memcpy(&scale, at, sizeof scale);
        widen_integers((const int8_t *)integers, w->cols, scale, to);
        for (size_t i = 0; i < critical; i++) {
            uint32_t column;
            uint16_t bits;
            memcpy(&column, table + i * sizeof column, sizeof column);
            memcpy(&bits, integers + w->cols + i * sizeof bits, sizeof bits);
            if (column < w->cols) to[column] = q_half(bits);
        }
    }
}

// Rows [first, first + rows) as fp32.
static void widen(const tensor_quantised *w, size_t first, size_t rows, float *to) {
    const q_few_kernels *few = few_here();
    const uint8_t *at = w->at;
    size_t begin = first * w->cols, count = rows * w->cols;
    if (w->type == WEIGHT_MIXED8)
        widen_mixed8(w, first, rows, to);
    else if (w->type == WEIGHT_F32)
        memcpy(to, at + begin * sizeof *to, count * sizeof *to);
    else if (w->type == WEIGHT_F16)
        (few ? few->widen_f16 : q_widen_f16)(at + begin * sizeof(uint16_t), count, to);
    else
        (few ? few->widen_bf16 : q_widen_bf16)(at + begin * sizeof(uint16_t), count, to);
}

void q_float_product(const q_call *call, const tensor_quantised_product *p, size_t first, size_t count, float *wide) {
    const tensor_quantised *w = p->w;
    if (w->type == WEIGHT_F32 && (uintptr_t)w->at % sizeof(float) == 0) {
        multiply(call, p, first, count, (const float *)w->at + first * w->cols);
        return;
    }
    for (size_t done = 0; done < count; done += q_float_rows(call->m)) {
        size_t rows = size_least(q_float_rows(call->m), count - done);
        widen(w, first + done, rows, wide);
        multiply(call, p, first + done, rows, wide);
    }
}
