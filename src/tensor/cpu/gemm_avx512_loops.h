// The innermost loops of AVX-512's products, in assembly.
#ifndef BRAID_TENSOR_CPU_GEMM_AVX512_LOOPS_H
#define BRAID_TENSOR_CPU_GEMM_AVX512_LOOPS_H

#include "tensor/cpu/gemm_loops.h"
#include "tensor/cpu/gemm_parts.h"

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx2,fma")))

// A part of the loop: `fours` iterations of four steps, each of which prefetches one line of c and
// four other lines; steps in bytes.
typedef struct avx512_part {
    size_t fours;  // 0: end of the list
    const float *c;
    size_t c_step, prefetch_step;
} avx512_part;

// four lines of c, the end of the other prefetches among them, the rest, and the end mark
enum { AVX512_PARTS = 7 };

// Operands of one panel of c; steps in bytes.
typedef struct avx512_panel {
    const float *a;
    size_t a_step;  // from one row to the next, or from one k to the next
    const float *b;
    size_t b_step;
    const float *prefetch;
    float *keep_a, *keep_b;
    float *c;
    const float *add;
    size_t c_step;
    size_t ones;  // steps left after the iterations of four
    avx512_part part[AVX512_PARTS];
} avx512_panel;
_Static_assert(offsetof(avx512_panel, prefetch) == 32 && offsetof(avx512_panel, keep_b) == 48 &&
                   offsetof(avx512_panel, ones) == 80 && offsetof(avx512_panel, part) == 88 && sizeof(avx512_part) == 32,
               "the loops know where it has what");

// Four unrolled steps with few instructions between the products, because some processors execute
// counters and addresses on the multipliers' ports.
//
// Registers: rbx points to the panel and then to its parts, rsi to a, rdi to b. r10 is the step
// from one k of b to the next, rdx points to the last of four. Where steps of a have a stride, r8
// and rax do the same for a. Where rows of a have a stride, rax points to the fifth row, and r9 is
// three times r8. r9 and r13 point to the packed copies of a and b. All instructions have AVX
// encodings, because an SSE instruction would wait for the upper halves of registers.
// clang-format off
#define ROW_0 "(%%rsi)"
#define ROW_1 "(%%rsi,%%r8)"
#define ROW_2 "(%%rsi,%%r8,2)"
#define ROW_3 "(%%rsi,%%r9)"
#define ROW_4 "(%%rax)"
#define ROW_5 "(%%rax,%%r8)"
#define ROW_6 "(%%rax,%%r8,2)"
#define ROW_7 "(%%rax,%%r9)"
#define FETCH(FIELD, TO) FETCH_FROM("%%rbx", FIELD, TO)
#define AT_A "0"
#define AT_A_STEP "8"
#define AT_B "16"
#define AT_B_STEP "24"
#define AT_PREFETCH "32"
#define AT_KEEP_A "40"
#define AT_KEEP_B "48"
#define AT_C "56"
#define AT_ADD "64"
#define AT_C_STEP "72"
#define AT_ONES "80"
#define AT_PART "88"
// Addresses for step K of four. Of b: rows with a stride (B_FAR), which B_KEPT also packs into a
// strip. Of a: packed rows (A_PACKED), adjacent rows with a stride per step (A_BESIDE), which
// A_KEPT also packs, or adjacent steps with a stride per row (A_ALONG).
#define B_FAR(K, V, WIDTH) "vmovups 64*" #V FAR_##K("rdi", "rdx", "r10") ", %%zmm" #V "\n\t"
#define B_FAR_BEGIN FETCH(AT_B_STEP, "r10") TO_LAST("rdi", "rdx", "r10")
#define B_FAR_ON(WIDTH) ADD_FOUR("r10", "rdi") ADD_FOUR("r10", "rdx")
#define B_FAR_ONE(WIDTH) "add %%r10, %%rdi\n\t"
#define B_KEPT(K, V, WIDTH) B_FAR(K, V, WIDTH) "vmovups %%zmm" #V ", 4*(" WIDTH "*" #K "+16*" #V ")(%%r13)\n\t"
#define B_KEPT_BEGIN B_FAR_BEGIN FETCH(AT_KEEP_B, "r13")
#define B_KEPT_ON(WIDTH) B_FAR_ON(WIDTH) ADD("16*" WIDTH, "r13")
#define B_KEPT_ONE(WIDTH) B_FAR_ONE(WIDTH) ADD("4*" WIDTH, "r13")
#define A_PACKED(K, I) "32*" #K "+4*" #I "(%%rsi)"
#define A_PACKED_BEGIN ""
#define A_PACKED_STEP(K) ""
#define A_PACKED_ON ADD("128", "rsi")
#define A_PACKED_ONE ADD("32", "rsi")
#define A_BESIDE(K, I) "4*" #I FAR_##K("rsi", "rax", "r8")
#define A_BESIDE_BEGIN FETCH(AT_A_STEP, "r8") TO_LAST("rsi", "rax", "r8")
#define A_BESIDE_STEP(K) ""
#define A_BESIDE_ON ADD_FOUR("r8", "rsi") ADD_FOUR("r8", "rax")
#define A_BESIDE_ONE "add %%r8, %%rsi\n\t"
#define A_KEPT(K, I) A_BESIDE(K, I)
#define A_KEPT_BEGIN A_BESIDE_BEGIN FETCH(AT_KEEP_A, "r9")
#define A_KEPT_STEP(K) "vmovups " A_BESIDE(K, 0) ", %%ymm4\n\t" "vmovups %%ymm4, 32*" #K "(%%r9)\n\t"
#define A_KEPT_ON A_BESIDE_ON ADD("128", "r9")
#define A_KEPT_ONE A_BESIDE_ONE ADD("32", "r9")
#define A_ALONG(K, I) "4*" #K ROW_##I
#define A_ALONG_BEGIN FETCH(AT_A_STEP, "r8") "lea (%%r8,%%r8,2), %%r9\n\t" "lea (%%rsi,%%r8,4), %%rax\n\t"
#define A_ALONG_STEP(K) ""
#define A_ALONG_ON ADD("16", "rsi") ADD("16", "rax")
#define A_ALONG_ONE ADD("4", "rsi") ADD("4", "rax")
#define TIMES_1(A, K, I) "vbroadcastss " A(K, I) ", %%zmm3\n\t" "vfmadd231ps %%zmm0, %%zmm3, " SUM_##I##_0 "\n\t"
#define TIMES_2(A, K, I) TIMES_1(A, K, I) "vfmadd231ps %%zmm1, %%zmm3, " SUM_##I##_1 "\n\t"
#define TIMES_3(A, K, I) TIMES_2(A, K, I) "vfmadd231ps %%zmm2, %%zmm3, " SUM_##I##_2 "\n\t"
#define LOAD_1(B, K, WIDTH) B(K, 0, WIDTH)
#define LOAD_2(B, K, WIDTH) LOAD_1(B, K, WIDTH) B(K, 1, WIDTH)
#define LOAD_3(B, K, WIDTH) LOAD_2(B, K, WIDTH) B(K, 2, WIDTH)
#define STEP(N, WIDTH, A, B, K) LOAD_##N(B, K, WIDTH) A##_STEP(K)                                               \
    TIMES_##N(A, K, 0) TIMES_##N(A, K, 1) TIMES_##N(A, K, 2) TIMES_##N(A, K, 3)                              \
    TIMES_##N(A, K, 4) TIMES_##N(A, K, 5) TIMES_##N(A, K, 6) TIMES_##N(A, K, 7)
#define SUM_0_0 "%%zmm8"
#define SUM_0_1 "%%zmm9"
#define SUM_0_2 "%%zmm10"
#define SUM_1_0 "%%zmm11"
#define SUM_1_1 "%%zmm12"
#define SUM_1_2 "%%zmm13"
#define SUM_2_0 "%%zmm14"
#define SUM_2_1 "%%zmm15"
#define SUM_2_2 "%%zmm16"
#define SUM_3_0 "%%zmm17"
#define SUM_3_1 "%%zmm18"
#define SUM_3_2 "%%zmm19"
#define SUM_4_0 "%%zmm20"
#define SUM_4_1 "%%zmm21"
#define SUM_4_2 "%%zmm22"
#define SUM_5_0 "%%zmm23"
#define SUM_5_1 "%%zmm24"
#define SUM_5_2 "%%zmm25"
#define SUM_6_0 "%%zmm26"
#define SUM_6_1 "%%zmm27"
#define SUM_6_2 "%%zmm28"
#define SUM_7_0 "%%zmm29"
#define SUM_7_1 "%%zmm30"
#define SUM_7_2 "%%zmm31"
#define ZERO_1(I) "vpxord " SUM_##I##_0 ", " SUM_##I##_0 ", " SUM_##I##_0 "\n\t"
#define ZERO_2(I) ZERO_1(I) "vpxord " SUM_##I##_1 ", " SUM_##I##_1 ", " SUM_##I##_1 "\n\t"
#define ZERO_3(I) ZERO_2(I) "vpxord " SUM_##I##_2 ", " SUM_##I##_2 ", " SUM_##I##_2 "\n\t"
#define MORE_1(I) "vaddps (%%rdi), " SUM_##I##_0 ", " SUM_##I##_0 "\n\t"
#define MORE_2(I) MORE_1(I) "vaddps 64(%%rdi), " SUM_##I##_1 ", " SUM_##I##_1 "\n\t"
#define MORE_3(I) MORE_2(I) "vaddps 128(%%rdi), " SUM_##I##_2 ", " SUM_##I##_2 "\n\t"
#define MORE_ROW(N, I) MORE_##N(I) "add %%r8, %%rdi\n\t"
#define PUT_1(I) "vmovups " SUM_##I##_0 ", (%%rsi)\n\t"
#define PUT_2(I) PUT_1(I) "vmovups " SUM_##I##_1 ", 64(%%rsi)\n\t"
#define PUT_3(I) PUT_2(I) "vmovups " SUM_##I##_2 ", 128(%%rsi)\n\t"
#define PUT_ROW(N, I) PUT_##N(I) "add %%r8, %%rsi\n\t"
#define ROWS_8(N, WHAT) WHAT(N, 0) WHAT(N, 1) WHAT(N, 2) WHAT(N, 3) WHAT(N, 4) WHAT(N, 5) WHAT(N, 6) WHAT(N, 7)
#define ZERO_ROW(N, I) ZERO_##N(I)
#define PREFETCH_NEXT "prefetcht1 (%%r11)\n\t"
#define PREFETCH_SECOND "prefetcht1 (%%r11,%%r12)\n\t" "lea (%%r11,%%r12,2), %%r11\n\t"
#define MULTIPLY(N, WIDTH, A, B)                                                                                     \
    __asm__ volatile("vmovq %%rbx, %%xmm5\n\t" FETCH(AT_A, "rsi") FETCH(AT_B, "rdi") FETCH(AT_PREFETCH, "r11")            \
            A##_BEGIN B##_BEGIN ROWS_8(N, ZERO_ROW)                                                                  \
            "0:\n\t" FETCH(AT_PART, "rcx") FETCH(AT_PART "+8", "r14") FETCH(AT_PART "+16", "r15") FETCH(AT_PART "+24", "r12") \
            "test %%rcx, %%rcx\n\t" "jz 2f\n\t" ADD("32", "rbx") ".p2align 5\n" "1:\n\t"                            \
            PREFETCH_NEXT STEP(N, WIDTH, A, B, 0) PREFETCH_SECOND STEP(N, WIDTH, A, B, 1)                                             \
            PREFETCH_NEXT STEP(N, WIDTH, A, B, 2) "prefetcht1 (%%r14)\n\t" PREFETCH_SECOND STEP(N, WIDTH, A, B, 3)                \
            A##_ON B##_ON(WIDTH) "add %%r15, %%r14\n\t" "dec %%rcx\n\t" "jnz 1b\n\t" "jmp 0b\n" "2:\n\t"            \
            "vmovq %%xmm5, %%rbx\n\t"                                                                                \
            FETCH(AT_ONES, "rcx") "test %%rcx, %%rcx\n\t" "jz 2f\n" "1:\n\t"                                       \
            STEP(N, WIDTH, A, B, 0) A##_ONE B##_ONE(WIDTH) "dec %%rcx\n\t" "jnz 1b\n" "2:\n\t"                     \
            FETCH(AT_C_STEP, "r8") FETCH(AT_C, "rsi") FETCH(AT_ADD, "rdi") "test %%rdi, %%rdi\n\t" "jz 3f\n\t"      \
            ROWS_8(N, MORE_ROW) "3:\n\t" ROWS_8(N, PUT_ROW)                                                          \
            : : "b"(panel)                                                                                           \
            : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", \
              "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",   \
              "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",     \
              "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31")
// clang-format on

#endif
