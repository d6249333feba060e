// How sizes are divided into pieces; the result depends on the sizes alone.
#ifndef BRAID_TENSOR_SIZES_H
#define BRAID_TENSOR_SIZES_H

#include <stddef.h>

static inline size_t size_least(size_t a, size_t b) { return a < b ? a : b; }

static inline size_t size_clamp(size_t value, size_t least, size_t most) {
    return value < least ? least : size_least(value, most);
}

// `x` rounded up to a multiple of `step`.
static inline size_t size_up(size_t count, size_t step) { return (count + step - 1) / step * step; }

// The number of pieces of at most `most`.
static inline size_t size_pieces(size_t count, size_t most) { return (count + most - 1) / most; }

// The size of nearly equal pieces of at most `most`, rounded up to a multiple of `step`; count > 0.
static inline size_t size_even(size_t count, size_t most, size_t step) {
    return size_up(size_pieces(count, size_pieces(count, most)), step);
}

#endif
