#include "infer/engine.h"

static const model_file_tensor *find_in_file(const void *context, const char *name) {
    return model_file_find(context, name);
}

static void release_in_file(const void *context, const void *at, size_t bytes) {
    model_file_release(context, at, bytes);
}

engine_source engine_source_file(const model_file *file) {
    return (engine_source){model_file_config(file), find_in_file, file, release_in_file};
}
