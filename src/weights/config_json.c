#include "weights/config_json.h"

#include "format/json.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static void copy_value(json_out *o, const json *d, const char *key, const json_value *v) {
    switch (v->kind) {
    case JSON_NULL: json_out_null(o, key); return;
    case JSON_FALSE:
    case JSON_TRUE: json_out_bool(o, key, v->kind == JSON_TRUE); return;
    case JSON_NUMBER: json_out_number(o, key, v->text); return;
    case JSON_STRING: json_out_string(o, key, v->text); return;
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    }
    json_out_open(o, key, v->kind == JSON_ARRAY ? '[' : '{');
    // json_parse bounds the depth
    for (const json_value *item = json_first(d, v); item; item = json_next(d, item)) copy_value(o, d, item->key, item);
    json_out_close(o, v->kind == JSON_ARRAY ? ']' : '}');
}

static void put_id(json_out *o, const char *key, uint32_t id) {
    if (id == TOKENIZER_NO_ID)
        json_out_null(o, key);
    else
        json_out_u64(o, key, id);
}

// Whether the key was written with another value, or left out.
static bool change_key(json_out *o, const char *key, const config_change *c) {
    if (strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0)
        json_out_string(o, key, c->dtype);
    else if (strcmp(key, "tie_word_embeddings") == 0)
        json_out_bool(o, key, c->tied);
    else if (c->set_ends && strcmp(key, "bos_token_id") == 0)
        put_id(o, key, c->bos);
    else if (c->set_ends && strcmp(key, "eos_token_id") == 0)
        put_id(o, key, c->eos);
    else
        return strcmp(key, "quantization_config") == 0;
    return true;
}

// transformers has defaults of its own for absent keys.
static void add_missing(json_out *o, const json *d, const config_change *c) {
    const json_value *root = json_root(d);
    bool typed = json_member(d, root, "dtype") || json_member(d, root, "torch_dtype");
    if (!typed) json_out_string(o, "dtype", c->dtype);
    if (!json_member(d, root, "tie_word_embeddings")) json_out_bool(o, "tie_word_embeddings", c->tied);
    if (!c->quant_method) return;
    json_out_open(o, "quantization_config", '{');
    json_out_string(o, "quant_method", c->quant_method);
    json_out_close(o, '}');
}

braid_err config_json_change(const char *text, size_t length, const config_change *change, char **out,
                             size_t *out_length, braid_error *error) {
    json *d = NULL;
    json_out o = {.pretty = true};
    braid_err err = json_parse(text, length, &d, error);
    if (err) return err;
    json_out_open(&o, NULL, '{');
    for (const json_value *v = json_first(d, json_root(d)); v; v = json_next(d, v))
        if (!change_key(&o, v->key, change)) copy_value(&o, d, v->key, v);
    add_missing(&o, d, change);
    json_out_close(&o, '}');
    json_free(d);
    *out = json_out_take(&o, out_length);
    return *out ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for config.json");
}

braid_err config_json_without(char **text, size_t *length, const char *key, braid_error *error) {
    json *d = NULL;
    json_out o = {.pretty = true};
    braid_err err = json_parse(*text, *length, &d, error);
    if (err) return err;
    json_out_open(&o, NULL, '{');
    for (const json_value *v = json_first(d, json_root(d)); v; v = json_next(d, v))
        if (strcmp(v->key, key) != 0) copy_value(&o, d, v->key, v);
    json_out_close(&o, '}');
    json_free(d);
    char *out = json_out_take(&o, length);
    if (!out) return braid_fail(error, BRAID_MEMORY, "no memory for config.json");
    free(*text);
    *text = out;
    return BRAID_OK;
}
