// Declarations shared by the kernel files, one file per kind of processor.
#ifndef BRAID_TENSOR_CPU_GEMM_PARTS_H
#define BRAID_TENSOR_CPU_GEMM_PARTS_H

#include "tensor/cpu/gemm_kernels.h"

#define UNROLL _Pragma("GCC unroll 8")
#define INLINE static inline __attribute__((always_inline))

extern const gemm_kernels gemm_plain, gemm_avx2, gemm_avx512, gemm_neon;

// gemm_kernels.transpose and .copy; AVX-512 uses those of AVX2.
void gemm_transpose_plain(const float *from, size_t from_stride, size_t count, float *to, size_t to_step);
void gemm_copy_plain(const float *from, size_t from_stride, size_t rows, size_t chunks, float *to, size_t chunk_step,
                     size_t row_step);
void gemm_transpose_avx2(const float *from, size_t from_stride, size_t count, float *to, size_t to_step);
void gemm_copy_avx2(const float *from, size_t from_stride, size_t rows, size_t chunks, float *to, size_t chunk_step,
                    size_t row_step);

static inline bool gemm_always(void) { return true; }

#endif
