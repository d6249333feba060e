// Macros shared by the assembly loops of both vector widths: addresses and counters.
#ifndef BRAID_TENSOR_CPU_GEMM_LOOPS_H
#define BRAID_TENSOR_CPU_GEMM_LOOPS_H

// clang-format off
// Addresses of four rows or steps at a variable distance STEP: AT points to the first, LAST to the
// last.
#define FAR_0(AT, LAST, STEP) "(%%" AT ")"
#define FAR_1(AT, LAST, STEP) "(%%" AT ",%%" STEP ")"
#define FAR_2(AT, LAST, STEP) "(%%" AT ",%%" STEP ",2)"
#define FAR_3(AT, LAST, STEP) "(%%" LAST ")"
#define TO_LAST(AT, LAST, STEP) "lea (%%" AT ",%%" STEP ",2), %%" LAST "\n\t" "add %%" STEP ", %%" LAST "\n\t"
#define ADD(N, TO) "add $" N ", %%" TO "\n\t"
#define ADD_FOUR(STEP, TO) "lea (%%" TO ",%%" STEP ",4), %%" TO "\n\t"
#define FETCH_FROM(BASE, FIELD, TO) "mov " FIELD "(" BASE "), %%" TO "\n\t"
// clang-format on

#endif
