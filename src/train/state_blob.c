#include "train/state_blob.h"

#include "base/sha256.h"
#include "train/digest.h"

#include <math.h>

// The moments are covered by a fast digest: it detects a diverged replica, at a third of the cost.
static braid_hash with_moments(sha256 *hash, const void *const parts[STATE_PARTS], size_t bytes) {
    uint64_t moments[2] = {digest64(parts[1], bytes), digest64(parts[2], bytes)};
    sha256_update(hash, moments, sizeof moments);
    return sha256_final(hash);
}

braid_hash state_name(const void *const parts[STATE_PARTS], uint32_t elements) {
    sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, parts[0], elements * sizeof(float));
    return with_moments(&hash, parts, elements * sizeof(float));
}

void state_name_pair(const void *const parts[2][STATE_PARTS], const uint32_t elements[2], braid_hash out[2]) {
    sha256 hash[2];
    const void *const weights[2] = {parts[0][0], parts[1][0]};
    const size_t bytes[2] = {elements[0] * sizeof(float), elements[1] * sizeof(float)};
    for (int i = 0; i < 2; i++) sha256_init(&hash[i]);
    sha256_update_pair(hash, weights, bytes);
    for (int i = 0; i < 2; i++) out[i] = with_moments(&hash[i], parts[i], bytes[i]);
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
