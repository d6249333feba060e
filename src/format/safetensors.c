#include "format/safetensors.h"

#include "format/json.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are little-endian");

struct safetensors {
    json *doc;  // owns the names
    uint32_t count;
    safetensors_tensor *tensors;  // by offset
    safetensors_tensor **by_name;
};

uint64_t safetensors_prefix_bytes(const uint8_t first[SAFETENSORS_LENGTH_BYTES], uint64_t file_bytes) {
    uint64_t length;
    memcpy(&length, first, sizeof length);
    if (length > SAFETENSORS_MAX_HEADER || file_bytes < sizeof length || length > file_bytes - sizeof length) return 0;
    return length + sizeof length;
}

// safetensors 0.8.0 knows these. F4 counts elements of half a byte, F6 of six bits.
static const struct {
    const char *name;
    safetensors_dtype dtype;
    unsigned bits;
} dtypes[] = {
    {"F32", SAFETENSORS_F32, 32},          {"F16", SAFETENSORS_F16, 16},
    {"BF16", SAFETENSORS_BF16, 16},        {"U8", SAFETENSORS_U8, 8},
    {"F64", SAFETENSORS_OTHER, 64},        {"I64", SAFETENSORS_OTHER, 64},
    {"U64", SAFETENSORS_OTHER, 64},        {"C64", SAFETENSORS_OTHER, 64},
    {"I32", SAFETENSORS_OTHER, 32},        {"U32", SAFETENSORS_OTHER, 32},
    {"I16", SAFETENSORS_OTHER, 16},        {"U16", SAFETENSORS_OTHER, 16},
    {"I8", SAFETENSORS_OTHER, 8},          {"BOOL", SAFETENSORS_OTHER, 8},
    {"F8_E4M3", SAFETENSORS_OTHER, 8},     {"F8_E5M2", SAFETENSORS_OTHER, 8},
    {"F8_E8M0", SAFETENSORS_OTHER, 8},     {"F8_E4M3FNUZ", SAFETENSORS_OTHER, 8},
    {"F8_E5M2FNUZ", SAFETENSORS_OTHER, 8}, {"F6_E2M3", SAFETENSORS_OTHER, 6},
    {"F6_E3M2", SAFETENSORS_OTHER, 6},     {"F4", SAFETENSORS_OTHER, 4},
};

static unsigned read_dtype(const char *name, safetensors_tensor *t) {
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(name, dtypes[i].name) != 0) continue;
        t->dtype = dtypes[i].dtype;
        t->dtype_name = dtypes[i].name;
        return dtypes[i].bits;
    }
    return 0;
}

// Returns the error in this entry, or NULL. `data` is the range for tensors: [begin, end) of the
// file.
static const char *read_tensor(const json *doc, const json_value *entry, uint64_t begin, uint64_t end,
                               safetensors_tensor *t) {
    uint64_t bits = read_dtype(json_string(json_member(doc, entry, "dtype")), t);
    if (bits == 0) return "has an unknown dtype";
    const json_value *shape = json_member(doc, entry, "shape");
    if (!shape || shape->kind != JSON_ARRAY || shape->count > SAFETENSORS_MAX_DIMS) return "has no usable shape";
    for (const json_value *v = json_first(doc, shape); v; v = json_next(doc, v)) {
        if (!json_u64(v, &t->shape[t->dims])) return "has no usable shape";
        if (__builtin_mul_overflow(bits, t->shape[t->dims++], &bits)) return "has too large a shape";
    }
    const json_value *offsets = json_member(doc, entry, "data_offsets");
    const json_value *low = offsets && offsets->kind == JSON_ARRAY && offsets->count == 2 ? json_first(doc, offsets)
                                                                                          : NULL;
    uint64_t from, to;
    if (!low || !json_u64(low, &from) || !json_u64(json_next(doc, low), &to)) return "has no usable data_offsets";
    if (from > to || to > end - begin) return "lies outside the file; the file is truncated or damaged";
    if (bits % 8 != 0 || to - from != bits / 8) return "has a size that is not its shape's";
    t->offset = begin + from;
    t->bytes = bits / 8;
    return NULL;
}

static int compare_offsets(const void *a, const void *b) {
    const safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(safetensors_tensor *const *)a)->name, (*(safetensors_tensor *const *)b)->name);
}

static braid_err read_tensors(safetensors *s, uint64_t begin, uint64_t end, const char *origin, braid_error *error) {
    for (const json_value *v = json_first(s->doc, json_root(s->doc)); v; v = json_next(s->doc, v)) {
        if (strcmp(v->key, "__metadata__") == 0) continue;
        if (strlen(v->key) > SAFETENSORS_MAX_NAME)
            return braid_fail(error, BRAID_LIMIT, "%s: a tensor's name is too long", origin);
        safetensors_tensor *t = &s->tensors[s->count];
        t->name = v->key;
        const char *wrong = read_tensor(s->doc, v, begin, end, t);
        if (wrong) return braid_fail(error, BRAID_FORMAT, "%s: the tensor '%s' %s", origin, v->key, wrong);
        s->count++;
    }
    qsort(s->tensors, s->count, sizeof *s->tensors, compare_offsets);
    uint64_t at = begin;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->tensors[i].offset != at)
            return braid_fail(error, BRAID_FORMAT, "%s: the tensor '%s' %s", origin, s->tensors[i].name,
                              s->tensors[i].offset < at ? "overlaps another" : "is behind a hole");
        at += s->tensors[i].bytes;
        s->by_name[i] = &s->tensors[i];
    }
    if (at != end)
        return braid_fail(error, BRAID_FORMAT,
                          "%s: %llu bytes are expected, the file has %llu; it is truncated or damaged", origin,
                          (unsigned long long)at, (unsigned long long)end);
    qsort(s->by_name, s->count, sizeof(safetensors_tensor *), compare_names);
    return BRAID_OK;
}

static braid_err read_header(safetensors *s, const uint8_t *prefix, size_t count, const char *origin,
                             braid_error *error) {
    braid_error why = {0};
    braid_err err =
        json_parse((const char *)prefix + SAFETENSORS_LENGTH_BYTES, count - SAFETENSORS_LENGTH_BYTES, &s->doc, &why);
    if (err) return braid_fail(error, err, "%s: %s", origin, why.text);
    const json_value *root = json_root(s->doc);
    if (root->kind != JSON_OBJECT)
        return braid_fail(error, BRAID_FORMAT, "%s: the header is not a JSON object", origin);
    if (root->count > SAFETENSORS_MAX_TENSORS) return braid_fail(error, BRAID_LIMIT, "%s: too many tensors", origin);
    s->tensors = calloc((size_t)root->count + 1, sizeof *s->tensors);
    s->by_name = calloc((size_t)root->count + 1, sizeof(safetensors_tensor *));
    return s->tensors && s->by_name ? BRAID_OK
                                    : braid_fail(error, BRAID_MEMORY, "no memory for the header of %s", origin);
}

braid_err safetensors_parse(const uint8_t *prefix, size_t count, uint64_t file_bytes, const char *origin,
                            safetensors **out, braid_error *error) {
    if (count < SAFETENSORS_LENGTH_BYTES || safetensors_prefix_bytes(prefix, file_bytes) != count)
        return braid_fail(error, BRAID_FORMAT, "%s: not a safetensors file, or truncated", origin);
    safetensors *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for the header of %s", origin);
    braid_err err = read_header(s, prefix, count, origin, error);
    if (!err) err = read_tensors(s, count, file_bytes, origin, error);
    if (err) {
        safetensors_free(s);
        return err;
    }
    *out = s;
    return BRAID_OK;
}

void safetensors_free(safetensors *s) {
    if (!s) return;
    json_free(s->doc);
    free(s->tensors);
    free(s->by_name);
    free(s);
}

uint32_t safetensors_count(const safetensors *s) { return s->count; }
const safetensors_tensor *safetensors_at(const safetensors *s, uint32_t i) { return &s->tensors[i]; }

const safetensors_tensor *safetensors_find(const safetensors *s, const char *name) {
    safetensors_tensor wanted = {.name = name}, *key = &wanted;
    safetensors_tensor **found = bsearch(&key, s->by_name, s->count, sizeof(safetensors_tensor *), compare_names);
    return found ? *found : NULL;
}

const char *safetensors_metadata(const safetensors *s, const char *key) {
    const json_value *notes = json_member(s->doc, json_root(s->doc), "__metadata__");
    return notes && notes->kind == JSON_OBJECT ? json_string(json_member(s->doc, notes, key)) : NULL;
}

static size_t dtype_index(const safetensors_tensor *t) {
    size_t i = 0;
    while (dtypes[i].dtype != t->dtype) i++;
    return i;
}

static void write_entry(json_out *o, const safetensors_tensor *t) {
    json_out_open(o, t->name, '{');
    json_out_string(o, "dtype", dtypes[dtype_index(t)].name);
    json_out_open(o, "shape", '[');
    for (uint32_t d = 0; d < t->dims; d++) json_out_u64(o, NULL, t->shape[d]);
    json_out_close(o, ']');
    json_out_open(o, "data_offsets", '[');
    json_out_u64(o, NULL, t->offset);
    json_out_u64(o, NULL, t->offset + t->bytes);
    json_out_close(o, ']');
    json_out_close(o, '}');
}

static void place(safetensors_tensor *tensors, uint32_t count, uint64_t at) {
    for (uint32_t i = 0; i < count; i++) {
        tensors[i].offset = at;
        tensors[i].bytes = dtypes[dtype_index(&tensors[i])].bits / 8;
        for (uint32_t d = 0; d < tensors[i].dims; d++) tensors[i].bytes *= tensors[i].shape[d];
        at += tensors[i].bytes;
    }
}

uint8_t *safetensors_prefix(safetensors_tensor *tensors, uint32_t count, const safetensors_note *notes,
                            uint32_t note_count, size_t *bytes) {
    json_out o = {0};
    place(tensors, count, 0);
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "__metadata__", '{');
    json_out_string(&o, "format", "pt");  // transformers requires it
    for (uint32_t i = 0; i < note_count; i++) json_out_string(&o, notes[i].key, notes[i].text);
    json_out_close(&o, '}');
    for (uint32_t i = 0; i < count; i++) write_entry(&o, &tensors[i]);
    json_out_close(&o, '}');
    size_t length;
    char *text = json_out_take(&o, &length);
    // Padded with spaces, so that the data is aligned for fp32.
    uint64_t padded = (length + SAFETENSORS_LENGTH_BYTES - 1) / SAFETENSORS_LENGTH_BYTES * SAFETENSORS_LENGTH_BYTES;
    uint8_t *prefix = text ? malloc(SAFETENSORS_LENGTH_BYTES + padded) : NULL;
    if (prefix) {
        memcpy(prefix, &padded, sizeof padded);
        memset(prefix + SAFETENSORS_LENGTH_BYTES, ' ', padded);
        memcpy(prefix + SAFETENSORS_LENGTH_BYTES, text, length);
        *bytes = SAFETENSORS_LENGTH_BYTES + padded;
        place(tensors, count, *bytes);
    }
    free(text);
    return prefix;
}
