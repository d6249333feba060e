// A fast 64-bit digest that identifies tensors on the wire. It detects damage and differing copies,
// not attacks. The same on every machine.
#ifndef BRAID_TRAIN_DIGEST_H
#define BRAID_TRAIN_DIGEST_H

#include <stddef.h>
#include <stdint.h>

// Never 0, because 0 means "no digest".
uint64_t digest64(const void *data, size_t bytes);

#endif
