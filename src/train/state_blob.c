#include "train/state_blob.h"

#include "base/sha256.h"
#include "train/digest.h"

#include <math.h>

// The moments are covered by a fast digest: it detects a diverged replica, at a third of the cost.
braid_hash state_name(const void *const parts[STATE_PARTS], uint32_t elements) {
    size_t bytes = elements * sizeof(float);
    sha256 hash;
    sha256_init(&hash);
    uint64_t moments[2] = {digest64(parts[1], bytes), digest64(parts[2], bytes)};
    sha256_update(&hash, parts[0], bytes);
    sha256_update(&hash, moments, sizeof moments);
    return sha256_final(&hash);
}

bool state_block_is_finite(const uint8_t *bytes, uint32_t elements) {
    const uint8_t *weights = state_block_part(bytes, elements, 0);
    bool finite = true;
    for (uint32_t i = 0; i < elements; i++) {
        float weight;
        memcpy(&weight, weights + i * sizeof weight, sizeof weight);
        finite &= isfinite(weight) != 0;
    }
    return finite;
}
