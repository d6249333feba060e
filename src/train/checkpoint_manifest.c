#include "train/checkpoint_manifest.h"

#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_MOST_RATE = 1000000 };

static void put_hash(json_out *o, const char *key, const braid_hash *hash) {
    char text[2 * BRAID_ID_BYTES + 1];
    id_hex(hash->bytes, BRAID_ID_BYTES, text);
    json_out_string(o, key, text);
}

static void put_adapter(json_out *o, const manifest *m) {
    const adapter_config *a = &m->adapter.config;
    if (a->rank == 0) return;
    json_out_open(o, "adapter", '{');
    json_out_u64(o, "rank", a->rank);
    json_out_float(o, "alpha", a->alpha);
    json_out_bool(o, "rslora", a->rank_stabilised);
    json_out_string(o, "targets", m->targets);
    put_hash(o, "base", &m->adapter.base);
    json_out_close(o, '}');
}

char *manifest_text(const manifest *m, size_t *length) {
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_u64(&o, "braid_checkpoint", MANIFEST_FORMAT);
    json_out_u64(&o, "version", m->version);
    put_hash(&o, "run", &m->run);
    put_hash(&o, "weights", &m->weights);
    if (m->schedule.iterations > 0) {
        json_out_u64(&o, "iterations", m->schedule.iterations);
        json_out_float(&o, "learning_rate", m->schedule.learning_rate);
    }
    put_adapter(&o, m);
    json_out_open(&o, "files", '{');
    for (uint32_t i = 0; i < m->count; i++) {
        json_out_open(&o, m->files[i].name, '{');
        json_out_u64(&o, "bytes", m->files[i].bytes);
        put_hash(&o, "sha256", &m->files[i].hash);
        json_out_close(&o, '}');
    }
    json_out_close(&o, '}');
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}

static bool take_hash(const json *doc, const json_value *object, const char *key, braid_hash *out) {
    const char *text = json_string(json_member(doc, object, key));
    return text && strlen(text) == 2 * BRAID_ID_BYTES && id_unhex(text, BRAID_ID_BYTES, out->bytes);
}

static bool take_file(const json *doc, const json_value *entry, manifest_file *out) {
    if (entry->kind != JSON_OBJECT || strlen(entry->key) >= sizeof out->name || strchr(entry->key, '/')) return false;
    snprintf(out->name, sizeof out->name, "%s", entry->key);
    return json_u64(json_member(doc, entry, "bytes"), &out->bytes) && take_hash(doc, entry, "sha256", &out->hash);
}

// Checkpoints of older versions have none, and a malformed one is ignored.
static void take_schedule(const json *doc, const json_value *root, run_schedule *out) {
    uint64_t iterations = 0;
    double rate = 0;
    bool fine = json_u64(json_member(doc, root, "iterations"), &iterations) && json_double(json_member(doc, root, "learning_rate"), &rate) && rate >= 0 && rate <= MANIFEST_MOST_RATE;
    *out = (run_schedule){.iterations = fine ? iterations : 0, .learning_rate = fine ? (float)rate : 0};
}

// False: it is malformed. A whole model's checkpoint has none.
static bool take_adapter(const json *doc, const json_value *root, manifest *out) {
    const json_value *at = json_member(doc, root, "adapter");
    adapter_config *a = &out->adapter.config;
    uint64_t rank = 0;
    double alpha = 0;
    if (!at) return true;
    if (at->kind != JSON_OBJECT) return false;
    const char *targets = json_string(json_member(doc, at, "targets"));
    bool fine = json_u64(json_member(doc, at, "rank"), &rank) && rank > 0 && rank <= ADAPTER_MAX_RANK &&
                json_double(json_member(doc, at, "alpha"), &alpha) && (float)alpha > 0 && alpha <= MANIFEST_MOST_RATE &&
                json_bool(json_member(doc, at, "rslora"), &a->rank_stabilised) && targets &&
                strlen(targets) < sizeof out->targets && take_hash(doc, at, "base", &out->adapter.base);
    if (!fine) return false;
    a->rank = (uint32_t)rank;
    a->alpha = (float)alpha;
    snprintf(out->targets, sizeof out->targets, "%s", targets);
    return true;
}

static bool take_manifest(const json *doc, manifest *out) {
    const json_value *root = json_root(doc), *files = json_member(doc, root, "files");
    bool fine = json_u64(json_member(doc, root, "version"), &out->version) && take_hash(doc, root, "run", &out->run) &&
                take_hash(doc, root, "weights", &out->weights) && files && files->kind == JSON_OBJECT &&
                files->count <= CHECKPOINT_MAX_FILES && take_adapter(doc, root, out);
    if (!fine) return false;
    take_schedule(doc, root, &out->schedule);
    for (const json_value *v = json_first(doc, files); v && fine; v = json_next(doc, v))
        fine = take_file(doc, v, &out->files[out->count++]);
    return fine;
}

braid_err manifest_parse(const char *text, size_t length, const char *origin, manifest *out, braid_error *error) {
    memset(out, 0, sizeof *out);
    json *doc = NULL;
    braid_error why = {0};
    if (json_parse(text, length, &doc, &why))
        return braid_fail(error, BRAID_FORMAT, "'%s' is damaged: %s", origin, why.text);
    uint64_t format = 0;
    json_u64(json_member(doc, json_root(doc), "braid_checkpoint"), &format);
    braid_err err = BRAID_OK;
    if (format > MANIFEST_FORMAT)
        err = braid_fail(error, BRAID_FORMAT, "'%s' was written by a newer braid (format %llu, this one reads %d)",
                         origin, (unsigned long long)format, MANIFEST_FORMAT);
    else if (format == 0 || !take_manifest(doc, out))
        err = braid_fail(error, BRAID_FORMAT, "'%s' is damaged, or was not written by braid", origin);
    json_free(doc);
    return err;
}

braid_err manifest_read(const char *directory, manifest *out, braid_error *error) {
    char path[FILES_MAX_PATH], *text;
    size_t length;
    braid_err err = files_join(directory, MANIFEST_FILE, path, error);
    if (!err) err = files_read(path, MANIFEST_MAX_BYTES, &text, &length, error);
    if (err) return err;
    err = manifest_parse(text, length, path, out, error);
    free(text);
    return err;
}

bool manifest_is_tensors(const manifest_file *f) {
    const char *suffix = ".safetensors";
    size_t n = strlen(f->name), m = strlen(suffix);
    return n > m && strcmp(f->name + n - m, suffix) == 0;
}

bool manifest_is_optimizer(const manifest_file *f) {
    return manifest_is_tensors(f) && strncmp(f->name, "optimizer-", 10) == 0;
}
