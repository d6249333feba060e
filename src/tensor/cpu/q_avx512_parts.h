// Parts of the kernels for AVX-512 with VNNI, which those for AMX use, too.
#ifndef BRAID_TENSOR_CPU_Q_AVX512_PARTS_H
#define BRAID_TENSOR_CPU_Q_AVX512_PARTS_H

#include "tensor/cpu/q_kernels.h"

bool q_avx512_works(void);
void q_avx512_quantise(const float *x, size_t stride, const q_rows *to);
void q_avx512_unpack(const uint8_t *strip, const q_panel *to);
void q_avx512_product(const q_rows *x, const q_panel *w, float *y, size_t y_stride);
void q_avx512_direct(const q_format *f, const q_rows *x, const uint8_t *strip, float *y, size_t y_stride);

#endif
