// Products with F32, F16 and BF16 weights.
#ifndef BRAID_TENSOR_CPU_Q_FLOATS_H
#define BRAID_TENSOR_CPU_Q_FLOATS_H

#include "tensor/cpu/q_product.h"

enum { Q_FLOAT_ROWS = 48 };  // outputs that are widened to fp32 at a time

// Outputs [first, first + count) of a product, on the calling thread. wide[Q_FLOAT_ROWS, cols] is
// scratch.
void q_float_product(const q_call *call, const tensor_quantised_product *p, size_t first, size_t count, float *wide);

#endif
