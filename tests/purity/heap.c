// Planted: a pure module that allocates.
#include <stdlib.h>

void *purity_heap(size_t bytes);

void *purity_heap(size_t bytes) { return malloc(bytes); }
