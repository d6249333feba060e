#include "tune/state.h"

#include "format/json.h"
#include "format/safetensors.h"
#include "weights/mapped.h"
#include "weights/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ARRAYS = 4, NUMBER = 64 };
static const char *const names[ARRAYS] = {"now", "moment1", "moment2", "best"};

braid_err tune_state_new(size_t parameters, tune_state *out, braid_error *error) {
    *out = (tune_state){.best_loss = INFINITY, .parameters = parameters};
    float **arrays[ARRAYS] = {&out->now, &out->moment1, &out->moment2, &out->best};
    for (int i = 0; i < ARRAYS; i++) {
        *arrays[i] = calloc(parameters, sizeof **arrays[i]);
        if (!*arrays[i]) return braid_fail(error, BRAID_MEMORY, "no memory for an adapter of %zu numbers", parameters);
    }
    return BRAID_OK;
}

void tune_state_free(tune_state *s) {
    free(s->now);
    free(s->moment1);
    free(s->moment2);
    free(s->best);
    *s = (tune_state){0};
}

static float *const *arrays_of(const tune_state *s, float *out[ARRAYS]) {
    out[0] = s->now;
    out[1] = s->moment1;
    out[2] = s->moment2;
    out[3] = s->best;
    return out;
}

// ---- writing

braid_err tune_state_save(const tune_state *s, const char *settings, const char *directory, braid_error *error) {
    char iteration[NUMBER], best[NUMBER], loss[NUMBER], without[NUMBER], evaluated[NUMBER];
    snprintf(iteration, sizeof iteration, "%" PRIu64, s->iteration);
    snprintf(best, sizeof best, "%" PRIu64, s->best_iteration);
    snprintf(loss, sizeof loss, "%a", s->best_loss);
    snprintf(without, sizeof without, "%" PRIu32, s->without_gain);
    snprintf(evaluated, sizeof evaluated, "%" PRIu64, s->evaluations);
    const safetensors_note notes[] = {{"settings", settings},   {"evaluations", evaluated}, {"iteration", iteration},
                                      {"best_iteration", best}, {"best_loss", loss},        {"without_gain", without}};
    safetensors_tensor entry[ARRAYS];
    output_piece piece[ARRAYS + 1];
    float *array[ARRAYS];
    arrays_of(s, array);
    for (int i = 0; i < ARRAYS; i++) {
        entry[i] =
            (safetensors_tensor){.name = names[i], .dtype = SAFETENSORS_F32, .dims = 1, .shape = {s->parameters}};
        piece[i + 1] = (output_piece){array[i], s->parameters * sizeof(float)};
    }
    uint8_t *prefix = safetensors_prefix(entry, ARRAYS, notes, sizeof notes / sizeof *notes, &piece[0].bytes);
    if (!prefix) return braid_fail(error, BRAID_MEMORY, "no memory to save the state of tuning");
    piece[0].at = prefix;
    braid_err err = output_replace(directory, TUNE_STATE_FILE, piece, ARRAYS + 1, error);
    free(prefix);
    return err;
}

// ---- reading

static bool same(const json *a, const json_value *x, const json *b, const json_value *y) {
    json_out left = {0}, right = {0};
    if (!x || !y) return x == y;
    json_out_value(&left, NULL, a, x);
    json_out_value(&right, NULL, b, y);
    char *one = json_out_take(&left, &(size_t){0}), *two = json_out_take(&right, &(size_t){0});
    bool equal = one && two && strcmp(one, two) == 0;
    free(one);
    free(two);
    return equal;
}

static braid_err compare(const char *path, const char *saved, const char *settings, braid_error *error) {
    json *a = NULL, *b = NULL;
    braid_err err = json_parse(saved, strlen(saved), &a, error);
    if (!err) err = json_parse(settings, strlen(settings), &b, error);
    for (const json_value *x = err ? NULL : json_first(b, json_root(b)); x && !err; x = json_next(b, x))
        if (!same(a, json_member(a, json_root(a), x->key), b, x))
            err = braid_fail(error, BRAID_STATE,
                             "%s is of a run with another %s: repeat its command line, or give another --out", path,
                             x->key);
    json_free(a);
    json_free(b);
    return err;
}

static bool number_of(const safetensors *header, const char *key, uint64_t *out) {
    const char *text = safetensors_metadata(header, key);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9') return false;
    *out = strtoull(text, &end, 10);
    return *end == 0;
}

static braid_err read_numbers(tune_state *s, const safetensors *header, const char *path, braid_error *error) {
    uint64_t without = 0;
    const char *loss = safetensors_metadata(header, "best_loss");
    char *end = NULL;
    bool good = number_of(header, "iteration", &s->iteration) && number_of(header, "evaluations", &s->evaluations) &&
                number_of(header, "best_iteration", &s->best_iteration) &&
                number_of(header, "without_gain", &without) && without <= UINT32_MAX && loss;
    if (good) s->best_loss = strtod(loss, &end);
    s->without_gain = (uint32_t)without;
    return good && *end == 0 && !isnan(s->best_loss)
               ? BRAID_OK
               : braid_fail(error, BRAID_FORMAT, "%s is no state of tuning; remove it to begin anew", path);
}

static braid_err read_arrays(tune_state *s, const mapped *map, const safetensors *header, braid_error *error) {
    float *array[ARRAYS];
    arrays_of(s, array);
    for (int i = 0; i < ARRAYS; i++) {
        const safetensors_tensor *t = safetensors_find(header, names[i]);
        if (!t || t->dtype != SAFETENSORS_F32 || t->bytes != s->parameters * sizeof(float))
            return braid_fail(error, BRAID_FORMAT, "%s has no '%s' of %zu numbers; remove it to begin anew", map->path,
                              names[i], s->parameters);
        memcpy(array[i], map->at + t->offset, (size_t)t->bytes);
    }
    return BRAID_OK;
}

static bool exists(const char *directory, const char *name) {
    char path[MAPPED_MAX_PATH];
    struct stat info;
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path && stat(path, &info) == 0;
}

bool tune_state_exists(const char *directory) {
    return exists(directory, TUNE_STATE_FILE) || exists(directory, "adapter_config.json") ||
           exists(directory, "adapter_model.safetensors");
}

// Of a damaged state.
static void name_the_ways_on(const char *directory, braid_error *error) {
    char why[sizeof error->text];
    snprintf(why, sizeof why, "%s", error->text);
    braid_fail(error, BRAID_FORMAT,
               "%.200s; begin anew with another --out, or from its adapter with --from-adapter %.150s", why, directory);
}

braid_err tune_state_load(tune_state *s, const char *settings, const char *directory, bool *there, braid_error *error) {
    char path[MAPPED_MAX_PATH];
    mapped map = {0};
    safetensors *header = NULL;
    *there = exists(directory, TUNE_STATE_FILE);
    if (!*there) return BRAID_OK;
    snprintf(path, sizeof path, "%s/%s", directory, TUNE_STATE_FILE);
    braid_err err = mapped_open(path, &map, error);
    if (err) return err;
    uint64_t prefix = map.bytes < SAFETENSORS_LENGTH_BYTES ? 0 : safetensors_prefix_bytes(map.at, map.bytes);
    err = prefix ? safetensors_parse(map.at, (size_t)prefix, map.bytes, path, &header, error)
                 : braid_fail(error, BRAID_FORMAT, "%s is no complete safetensors file", path);
    const char *saved = err ? NULL : safetensors_metadata(header, "settings");
    if (!err && !saved) err = braid_fail(error, BRAID_FORMAT, "%s is no state of tuning", path);
    if (err) name_the_ways_on(directory, error);
    if (!err) err = compare(path, saved, settings, error);
    if (!err) err = read_numbers(s, header, path, error);
    if (!err) err = read_arrays(s, &map, header, error);
    safetensors_free(header);
    mapped_close(&map);
    return err;
}
