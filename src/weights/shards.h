// The safetensors files of a Hugging Face directory.
#ifndef BRAID_WEIGHTS_SHARDS_H
#define BRAID_WEIGHTS_SHARDS_H

#include "base/err.h"
#include "format/json.h"

enum { SHARDS_MAX = 1024, SHARD_NAME = 256, SHARDS_INDEX_BYTES = 64 << 20 };

typedef struct shard_names {
    char (*name)[SHARD_NAME];  // ascending, each one once
    uint32_t count;
} shard_names;

// BRAID_FORMAT if the directory has an adapter of peft instead of a model.
braid_err shards_refuse_adapter(const char *directory, braid_error *error);

// The files that an index (model.safetensors.index.json) names. Its tensors are not read:
// transformers 5.23 reads each file whole, whatever tensors the index has for it. The caller frees
// out->name.
braid_err shards_of_index(const json *index, const char *origin, shard_names *out, braid_error *error);
// The files with the weights of a directory: model.safetensors, or those of the index. Both
// complete is refused, because one of them is older; transformers would load model.safetensors.
braid_err shards_of_directory(const char *directory, const json *index, shard_names *out, braid_error *error);

#endif
