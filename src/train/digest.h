// A fast 64-bit digest that names tensors on the wire: it notices damage and differing copies, not an attacker.
// The same on every machine.
#ifndef BRAID_TRAIN_DIGEST_H
#define BRAID_TRAIN_DIGEST_H

#include <stddef.h>
#include <stdint.h>

// Never 0, which stands for "no digest".
uint64_t digest64(const void *data, size_t bytes);

#endif
