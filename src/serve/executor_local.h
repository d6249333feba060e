// The executor of one machine: an engine with all layers, and a prefix cache. It computes in
// executor_read.
#ifndef BRAID_SERVE_EXECUTOR_LOCAL_H
#define BRAID_SERVE_EXECUTOR_LOCAL_H

#include "infer/engine.h"
#include "braid/executor.h"

// The engine is borrowed until executor_free, and limits its cache by engine_limit_cache before this
// call. `model`: name or hash of the weights, part of the keys of the prefix cache. Texts have up to
// `context` tokens, fewer where the cache has no room for that.
braid_err executor_local_new(engine *e, const char *model, uint32_t context, executor **out, braid_error *error);

#endif
