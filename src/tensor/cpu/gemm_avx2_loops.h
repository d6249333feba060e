// The innermost loops of AVX2's products, in assembly.
#ifndef BRAID_TENSOR_CPU_GEMM_AVX2_LOOPS_H
#define BRAID_TENSOR_CPU_GEMM_AVX2_LOOPS_H

#include "tensor/cpu/gemm_loops.h"
#include "tensor/cpu/gemm_parts.h"

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))

enum { AVX2_PAIRS = 3, AVX2_SUMS = 12 };

// Eight or twelve sums, row after row. Twelve let two multiply-adds start per cycle and are all
// that sixteen registers leave room for.
typedef __m256 avx2_sums[AVX2_SUMS];

// Operands of the loops below; steps in bytes.
typedef struct avx2_loop {
    size_t fours;
    const float *a[AVX2_PAIRS];
    size_t a_step;
    const float *b;
    size_t b_step;
    const float *prefetch;
    size_t prefetch_step;
} avx2_loop;
_Static_assert(offsetof(avx2_loop, a_step) == 32 && offsetof(avx2_loop, b) == 40 &&
                   offsetof(avx2_loop, prefetch_step) == 64,
               "the loops know where it has what");

// Four unrolled steps with their loop counter in assembly. Reason: compilers run out of registers,
// load b twice, and spend a tenth of the issue slots on counters and addresses.
//
// Registers: rsi points to a, rdi to b. For rows at a variable distance, r8 is the step of a, r9
// that of b, and rax and rdx point to the last of four rows. Pairs of rows use rsi, rax and rdx.
// Each iteration prefetches one line, because a processor drops most of many prefetches at once.
// clang-format off
#define FETCH(FIELD, TO) FETCH_FROM("%[loop]", FIELD, TO)
#define AT_FOURS "0"
#define AT_A "8"
#define AT_A_1 "16"
#define AT_A_2 "24"
#define AT_A_STEP "32"
#define AT_B "40"
#define AT_B_STEP "48"
#define AT_PREFETCH "56"
#define AT_PREFETCH_STEP "64"
// Addresses for step K of four. Of b: a packed strip (B_STRIP) or rows with a stride (B_FAR). Of a:
// packed rows (A_PACKED), adjacent rows with a stride per step (A_BESIDE), or adjacent steps with a
// stride per row (A_ALONG).
#define B_STRIP(K, V, WIDTH) "4*(" WIDTH "*" #K "+8*" V ")(%%rdi)"
#define B_STRIP_BEGIN ""
#define B_STRIP_ON(WIDTH) ADD("16*" WIDTH, "rdi")
#define B_FAR(K, V, WIDTH) "32*" V FAR_##K("rdi", "rdx", "r9")
#define B_FAR_BEGIN FETCH(AT_B_STEP, "r9") TO_LAST("rdi", "rdx", "r9")
#define B_FAR_ON(WIDTH) ADD_FOUR("r9", "rdi") ADD_FOUR("r9", "rdx")
#define A_PACKED(K, I) "32*" #K "+4*" #I "(%%rsi)"
#define A_PACKED_BEGIN ""
#define A_PACKED_ON ADD("128", "rsi")
#define A_BESIDE(K, I) "4*" #I FAR_##K("rsi", "rax", "r8")
#define A_BESIDE_BEGIN FETCH(AT_A_STEP, "r8") TO_LAST("rsi", "rax", "r8")
#define A_BESIDE_ON ADD_FOUR("r8", "rsi") ADD_FOUR("r8", "rax")
#define A_ALONG(K, I) "4*" #K FAR_##I("rsi", "rax", "r8")
#define A_ALONG_BEGIN A_BESIDE_BEGIN
#define A_ALONG_ON ADD("16", "rsi") ADD("16", "rax")
#define PAIR_0 "rsi"
#define PAIR_1 "rax"
#define PAIR_2 "rdx"
#define PAIRS_BEGIN FETCH(AT_A_1, "rax") FETCH(AT_A_2, "rdx")
#define ADD_PAIRS(N) ADD(N, "rsi") ADD(N, "rax") ADD(N, "rdx")
#define PAIRS_PACKED(K, P, I) "32*" #K "+4*" #I "(%%" PAIR_##P ")"
#define PAIRS_PACKED_BEGIN PAIRS_BEGIN
#define PAIRS_PACKED_ON ADD_PAIRS("128")
#define PAIRS_ALONG(K, P, I) "4*" #K FAR_##I(PAIR_##P, "", "r8")
#define PAIRS_ALONG_BEGIN FETCH(AT_A_STEP, "r8") PAIRS_BEGIN
#define PAIRS_ALONG_ON ADD_PAIRS("16")
#define TIMES_2(AT, S, T) "vbroadcastss " AT ", %%ymm15\n\t"              \
                          "vfmadd231ps %%ymm12, %%ymm15, %[" S "]\n\t"   \
                          "vfmadd231ps %%ymm13, %%ymm15, %[" T "]\n\t"
#define TIMES_3(AT, S, T, U) TIMES_2(AT, S, T) "vfmadd231ps %%ymm14, %%ymm15, %[" U "]\n\t"
#define LOAD_2(B, K, WIDTH) "vmovups " B(K, "0", WIDTH) ", %%ymm12\n\t" "vmovups " B(K, "1", WIDTH) ", %%ymm13\n\t"
#define LOAD_3(B, K, WIDTH) LOAD_2(B, K, WIDTH) "vmovups " B(K, "2", WIDTH) ", %%ymm14\n\t"
#define STEP_4X24(A, B, K) LOAD_3(B, K, "24") TIMES_3(A(K, 0), "s0", "s1", "s2") TIMES_3(A(K, 1), "s3", "s4", "s5") \
                                              TIMES_3(A(K, 2), "s6", "s7", "s8") TIMES_3(A(K, 3), "s9", "s10", "s11")
#define STEP_4X16(A, B, K) LOAD_2(B, K, "16") TIMES_2(A(K, 0), "s0", "s1") TIMES_2(A(K, 1), "s2", "s3") \
                                              TIMES_2(A(K, 2), "s4", "s5") TIMES_2(A(K, 3), "s6", "s7")
#define STEP_6X16(A, B, K) LOAD_2(B, K, "16") TIMES_2(A(K, 0, 0), "s0", "s1") TIMES_2(A(K, 0, 1), "s2", "s3") \
                                              TIMES_2(A(K, 1, 0), "s4", "s5") TIMES_2(A(K, 1, 1), "s6", "s7") \
                                              TIMES_2(A(K, 2, 0), "s8", "s9") TIMES_2(A(K, 2, 1), "s10", "s11")
#define SUMS_8 [s0] "+x"(sum[0]), [s1] "+x"(sum[1]), [s2] "+x"(sum[2]), [s3] "+x"(sum[3]), \
               [s4] "+x"(sum[4]), [s5] "+x"(sum[5]), [s6] "+x"(sum[6]), [s7] "+x"(sum[7])
#define SUMS_12 SUMS_8, [s8] "+x"(sum[8]), [s9] "+x"(sum[9]), [s10] "+x"(sum[10]), [s11] "+x"(sum[11])
#define MULTIPLY(STEP, WIDTH, A, B, SUMS)                                                                          \
    __asm__ volatile(FETCH(AT_FOURS, "rcx") FETCH(AT_A, "rsi") FETCH(AT_B, "rdi") FETCH(AT_PREFETCH, "r10") FETCH(AT_PREFETCH_STEP, "r11") \
            A##_BEGIN B##_BEGIN ".p2align 5\n" "1:\n\t" "prefetcht1 (%%r10)\n\t" "add %%r11, %%r10\n\t"             \
            STEP(A, B, 0) STEP(A, B, 1) STEP(A, B, 2) STEP(A, B, 3)                                                \
            A##_ON B##_ON(WIDTH) "dec %%rcx\n\t" "jnz 1b\n\t"                                                      \
            : SUMS : [loop] "r"(loop)                                                                              \
            : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm12", "xmm13", "xmm14", "xmm15")
// clang-format on

// b is packed in strips.
AVX2 INLINE void avx2_of_strips(const avx2_loop *loop, bool packed, const size_t rows, const size_t vectors,
                                avx2_sums sum) {
    if (rows == 6 && packed)
        MULTIPLY(STEP_6X16, "16", PAIRS_PACKED, B_STRIP, SUMS_12);
    else if (rows == 6)
        MULTIPLY(STEP_6X16, "16", PAIRS_ALONG, B_STRIP, SUMS_12);
    else if (vectors == 3 && packed)
        MULTIPLY(STEP_4X24, "24", A_PACKED, B_STRIP, SUMS_12);
    else if (vectors == 3)
        MULTIPLY(STEP_4X24, "24", A_ALONG, B_STRIP, SUMS_12);
    else if (packed)
        MULTIPLY(STEP_4X16, "16", A_PACKED, B_STRIP, SUMS_8);
    else
        MULTIPLY(STEP_4X16, "16", A_ALONG, B_STRIP, SUMS_8);
}

// Neither a nor b is packed.
AVX2 INLINE void avx2_far(const avx2_loop *loop, bool beside, const size_t vectors, avx2_sums sum) {
    if (vectors == 3 && beside)
        MULTIPLY(STEP_4X24, "24", A_BESIDE, B_FAR, SUMS_12);
    else if (vectors == 3)
        MULTIPLY(STEP_4X24, "24", A_ALONG, B_FAR, SUMS_12);
    else if (beside)
        MULTIPLY(STEP_4X16, "16", A_BESIDE, B_FAR, SUMS_8);
    else
        MULTIPLY(STEP_4X16, "16", A_ALONG, B_FAR, SUMS_8);
}

#endif
