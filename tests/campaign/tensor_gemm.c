// unit_tensor_gemm at every size, with more of the elements of large products.
#define ALL_CASES
#include "../unit/tensor_gemm.c"
