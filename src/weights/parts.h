// A model in groups of tensors that come one after the other, such as the layers that a peer receives
// from others. A group is a range of tensors in canonical order; its bytes are the same on every machine:
//   for each tensor 32 bytes, little-endian: type u32, flags u32, rows u64, cols u64, bytes u64
//   the values of each tensor, which begin at multiples of PARTS_ALIGNMENT
// flags: bit 0 vector, bit 1 transposed, bit 2 pairs (model_file.h).
#ifndef BRAID_WEIGHTS_PARTS_H
#define BRAID_WEIGHTS_PARTS_H

#include "weights/model_file.h"

enum { PARTS_ALIGNMENT = 64 };

// A model of that shape without values. Free with model_file_close. It has no tokenizer.
braid_err parts_new(const model_config *config, model_file **out, braid_error *error);
// Whether all tensors of the group have values.
bool parts_has(const model_file *f, uint32_t first, uint32_t end);
// The bytes of a group that has values.
uint64_t parts_bytes(const model_file *f, uint32_t first, uint32_t end);
// Copies `count` of them from `offset` on.
void parts_read(const model_file *f, uint32_t first, uint32_t end, uint64_t offset, uint64_t count, void *out);
// Takes the values of a group from untrusted bytes, which stay the caller's until parts_clear.
braid_err parts_set(model_file *f, uint32_t first, uint32_t end, const void *bytes, uint64_t count, braid_error *error);
void parts_clear(model_file *f, uint32_t first, uint32_t end);

#endif
