// How things are cut into pieces: from their sizes alone.
#ifndef BRAID_TENSOR_SIZES_H
#define BRAID_TENSOR_SIZES_H

#include <stddef.h>

static inline size_t size_least(size_t a, size_t b) { return a < b ? a : b; }

static inline size_t size_clamp(size_t value, size_t least, size_t most) {
    return value < least ? least : size_least(value, most);
}

// The next multiple of `step`.
static inline size_t size_up(size_t count, size_t step) { return (count + step - 1) / step * step; }

// How many pieces of at most `most`.
static inline size_t size_pieces(size_t count, size_t most) { return (count + most - 1) / most; }

// Of nearly equal pieces of at most `most`, up to a multiple of `step`; count > 0.
static inline size_t size_even(size_t count, size_t most, size_t step) {
    return size_up(size_pieces(count, size_pieces(count, most)), step);
}

#endif
