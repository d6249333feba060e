#include "infer/inside.h"

#include <stdlib.h>

bool memory_grow(engine_memory *m, size_t bytes) {
    free(m->at);
    m->at = aligned_alloc(INFER_ALIGNMENT, bytes);
    m->bytes = m->at ? bytes : 0;
    return m->at != NULL;
}
