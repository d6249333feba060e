#include "weights/expected.h"

#include <stdlib.h>

braid_err expected_tensors(const model_config *config, expected_list *out, braid_error *error) {
    uint32_t count = model_tensor_count(config);
    *out = (expected_list){0};
    if (count > EXPECTED_MAX_TENSORS)
        return braid_fail(error, BRAID_LIMIT, "a model of %u tensors is too large; at most %d are possible", count,
                          EXPECTED_MAX_TENSORS);
    out->tensor = calloc((size_t)count + 1, sizeof *out->tensor);
    if (!out->tensor) return braid_fail(error, BRAID_MEMORY, "no memory for the list of %u tensors", count);
    out->count = count;
    for (uint32_t i = 0; i < count; i++) model_tensor_at(config, i, &out->tensor[i]);
    return BRAID_OK;
}
