#include "weights/shards.h"

#include "weights/mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Files of the directory itself only.
static bool is_file_name(const char *name) {
    size_t length = strlen(name);
    if (length < 13 || length >= SHARD_NAME || name[0] == '.' || strchr(name, '/')) return false;
    return strcmp(name + length - 12, ".safetensors") == 0;
}

static int compare(const void *a, const void *b) { return strcmp(a, b); }

// Adds a name unless it is the last or the first one so far; the rest is sorted out at the end.
static bool add(shard_names *s, uint32_t *capacity, const char *name) {
    if (s->count > 0 && (strcmp(s->name[s->count - 1], name) == 0 || strcmp(s->name[0], name) == 0)) return true;
    if (s->count == *capacity) {
        uint32_t more = *capacity ? *capacity * 2 : 16;
        void *larger = realloc(s->name, more * sizeof *s->name);
        if (!larger) return false;
        s->name = larger;
        *capacity = more;
    }
    snprintf(s->name[s->count++], SHARD_NAME, "%s", name);
    return true;
}

static void sort(shard_names *s) {
    uint32_t kept = 0;
    if (s->count > 0) qsort(s->name, s->count, sizeof *s->name, compare);
    for (uint32_t i = 0; i < s->count; i++)
        if (kept == 0 || strcmp(s->name[kept - 1], s->name[i]) != 0) memmove(s->name[kept++], s->name[i], SHARD_NAME);
    s->count = kept;
}

braid_err shards_of_index(const json *index, const char *origin, shard_names *out, braid_error *error) {
    const json_value *map = json_member(index, json_root(index), "weight_map");
    uint32_t capacity = 0;
    braid_err err = BRAID_OK;
    *out = (shard_names){0};
    if (!map || map->kind != JSON_OBJECT || map->count == 0)
        return braid_fail(error, BRAID_FORMAT, "%s: there is no 'weight_map' that names files", origin);
    for (const json_value *v = json_first(index, map); v && !err; v = json_next(index, v)) {
        const char *name = json_string(v);
        if (!name || !is_file_name(name))
            err = braid_fail(error, BRAID_FORMAT,
                             "%s: 'weight_map' has something other than the name of a safetensors file "
                             "in the same directory",
                             origin);
        else if (!add(out, &capacity, name))
            err = braid_fail(error, BRAID_MEMORY, "no memory for the index %s", origin);
    }
    sort(out);
    if (!err && out->count > SHARDS_MAX)
        err = braid_fail(error, BRAID_LIMIT, "%s: %u files, at most %d are possible", origin, (unsigned)out->count,
                         SHARDS_MAX);
    if (!err) return BRAID_OK;
    free(out->name);
    *out = (shard_names){0};
    return err;
}

static bool exists(const char *directory, const char *name) {
    char path[MAPPED_MAX_PATH];
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path && access(path, F_OK) == 0;
}

braid_err shards_refuse_adapter(const char *directory, braid_error *error) {
    if (!exists(directory, "adapter_model.safetensors")) return BRAID_OK;
    return braid_fail(error, BRAID_FORMAT,
                      "%s is an adapter and no model; name its model, and give the adapter to generate, chat or "
                      "serve with --adapter, or add it to the model with braid merge",
                      directory);
}

static braid_err refuse_missing(const char *directory, braid_error *error) {
    bool pickled = exists(directory, "pytorch_model.bin") || exists(directory, "pytorch_model.bin.index.json");
    if (pickled)
        return braid_fail(
            error, BRAID_FORMAT,
            "%s has its weights only as pytorch_model.bin, which braid does not read; save it as safetensors",
            directory);
    if (shards_refuse_adapter(directory, error)) return BRAID_FORMAT;
    return braid_fail(error, BRAID_FORMAT, "%s has neither model.safetensors nor model.safetensors.index.json",
                      directory);
}

braid_err shards_of_directory(const char *directory, const json *index, shard_names *out, braid_error *error) {
    static const char single[] = "model.safetensors";
    bool alone = exists(directory, single), complete = true;
    char origin[256];
    *out = (shard_names){0};
    if (!index && !alone) return refuse_missing(directory, error);
    if (index) {
        snprintf(origin, sizeof origin, "%.200s/model.safetensors.index.json", directory);
        braid_err err = shards_of_index(index, origin, out, error);
        if (err && !alone) return err;
        complete = !err;
        for (uint32_t i = 0; i < out->count && complete; i++) complete = exists(directory, out->name[i]);
        bool same = out->count == 1 && strcmp(out->name[0], single) == 0;
        if (same || !alone) return BRAID_OK;
        free(out->name);
        *out = (shard_names){0};
        if (complete)
            return braid_fail(
                error, BRAID_FORMAT,
                "%s has model.safetensors and the files of model.safetensors.index.json; one of them is older, "
                "remove it",
                directory);
    }
    uint32_t capacity = 0;
    return add(out, &capacity, single) ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for a file name");
}
