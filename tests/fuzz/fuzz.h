// A fuzz target is a file fuzz_<subject>.c that defines
//     int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)      which returns 0 for every input, or stops,
// and may define
//     size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity)
// which writes the `number`-th well-formed input and returns its length: the same number, the same bytes. Inputs are made
// from these by mutation, so that they get past the first check. 0: no input this time.
//
// With clang and BRAID_FUZZ a target is run by libFuzzer. Every build runs it under driver.c with a fixed seed.
#ifndef BRAID_FUZZ_FUZZ_H
#define BRAID_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { FUZZ_MAX_BYTES = 1 << 17 };  // maximum size of one input

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) __attribute__((weak));

// A property that must hold for every input.
#define FUZZ_CHECK(condition)                                                           \
    do {                                                                                \
        if (condition) break;                                                           \
        fprintf(stderr, "%s:%d: (%s) does not hold\n", __FILE__, __LINE__, #condition); \
        abort();                                                                        \
    } while (0)

#endif
