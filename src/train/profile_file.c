// A profile as JSON.
#include "format/json.h"
#include "train/files.h"
#include "train/profile.h"

#include <stdlib.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

braid_err profile_write(const train_profile *p, const char *path, braid_error *error) {
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_u64(&o, "sequences", p->sequences);
    json_out_u64(&o, "tokens", p->tokens);
    json_out_u64(&o, "threads", p->threads);
    json_out_u64(&o, "activation_bytes", p->activation_bytes);
    json_out_u64(&o, "work_bytes", p->work_bytes);
    json_out_double(&o, "memory_bytes_per_second", p->memory_bytes_s);
    json_out_double(&o, "read_bytes_per_second", p->read_bytes_s);
    json_out_double(&o, "write_bytes_per_second", p->write_bytes_s);
    json_out_bool(&o, "direct", p->direct);
    json_out_open(&o, "items", '[');
    for (uint32_t i = 0; i < p->items; i++) {
        json_out_open(&o, NULL, '{');
        json_out_double(&o, "forward_s", p->item[i].forward_s);
        json_out_double(&o, "backward_s", p->item[i].backward_s);
        json_out_u64(&o, "parameters", p->item[i].parameters);
        json_out_close(&o, '}');
    }
    json_out_close(&o, ']');
    json_out_close(&o, '}');
    size_t length;
    char *text = json_out_take(&o, &length);
    if (!text) return braid_fail(error, BRAID_MEMORY, "no memory for a profile");
    unlink(path);  // an older profile
    braid_err err = files_write(path, text, length, error);
    free(text);
    return err;
}

static bool read_u32(const json *d, const char *key, uint32_t *out) {
    uint64_t n;
    if (!json_u64(json_member(d, json_root(d), key), &n) || n > UINT32_MAX) return false;
    *out = (uint32_t)n;
    return true;
}

// Times and rates are finite and not negative.
static bool amount(const json *d, const json_value *of, const char *key, double *out) {
    return json_double(json_member(d, of, key), out) && *out >= 0 && *out < 1e30;
}

static bool read_items(const json *d, train_profile *p) {
    const json_value *list = json_member(d, json_root(d), "items");
    if (!list || list->kind != JSON_ARRAY || list->count < 3 || list->count > PROFILE_MAX_ITEMS) return false;
    for (const json_value *v = json_first(d, list); v; v = json_next(d, v)) {
        profile_item *item = &p->item[p->items++];
        bool fine = v->kind == JSON_OBJECT && amount(d, v, "forward_s", &item->forward_s) &&
                    amount(d, v, "backward_s", &item->backward_s) &&
                    json_u64(json_member(d, v, "parameters"), &item->parameters) &&
                    item->parameters < (uint64_t)1 << 48;
        if (!fine) return false;
    }
    return true;
}

static bool read_all(const json *d, train_profile *p) {
    const json_value *root = json_root(d);
    *p = (train_profile){0};
    return root->kind == JSON_OBJECT && read_u32(d, "sequences", &p->sequences) && read_u32(d, "tokens", &p->tokens) &&
           read_u32(d, "threads", &p->threads) &&
           json_u64(json_member(d, root, "activation_bytes"), &p->activation_bytes) &&
           json_u64(json_member(d, root, "work_bytes"), &p->work_bytes) && p->activation_bytes < (uint64_t)1 << 48 &&
           p->work_bytes < (uint64_t)1 << 48 && amount(d, root, "memory_bytes_per_second", &p->memory_bytes_s) &&
           amount(d, root, "read_bytes_per_second", &p->read_bytes_s) &&
           amount(d, root, "write_bytes_per_second", &p->write_bytes_s) &&
           json_bool(json_member(d, root, "direct"), &p->direct) && read_items(d, p);
}

braid_err profile_read(const char *path, const run_config *run, train_profile *out, braid_error *error) {
    char *text;
    size_t length;
    json *d = NULL;
    braid_err err = files_read(path, MOST_BYTES, &text, &length, error);
    if (err) return err;
    err = json_parse(text, length, &d, error);
    free(text);
    if (!err && !read_all(d, out))
        err = braid_fail(error, BRAID_FORMAT, "%s is no profile of 'braid profile'; measure again", path);
    if (!err && (out->items != run->model.layers + 2 || out->sequences != run->sequences || out->tokens != run->tokens))
        err = braid_fail(
            error, BRAID_CONFIG,
            "%s is of %u layers and microbatches of %u x %u tokens, the run has %u and %u x %u; measure again", path,
            out->items - 2, out->sequences, out->tokens, run->model.layers, run->sequences, run->tokens);
    json_free(d);
    return err;
}
