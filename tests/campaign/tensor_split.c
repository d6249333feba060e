// unit_tensor_split at every size and form.
#define ALL_CASES
#include "../unit/tensor_split.c"
