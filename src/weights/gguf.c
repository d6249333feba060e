#include "weights/gguf.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const uint8_t *data, *at, *end;
    const char *origin;
    braid_error *error;
} reader;

static const uint8_t type_bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// ggml's numbers of the tensor types that braid reads.
static const struct {
    uint32_t number;
    weight_type type;
} tensor_types[] = {
    {0, WEIGHT_F32},  {1, WEIGHT_F16},   {2, WEIGHT_Q4_0},  {3, WEIGHT_Q4_1},  {6, WEIGHT_Q5_0},  {7, WEIGHT_Q5_1},
    {8, WEIGHT_Q8_0}, {12, WEIGHT_Q4_K}, {13, WEIGHT_Q5_K}, {14, WEIGHT_Q6_K}, {30, WEIGHT_BF16},
};

// Names of further types, for messages.
static const char *const other_types[] = {
    [9] = "Q8_1",     [10] = "Q2_K",  [11] = "Q3_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS",
    [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS",
    [24] = "I8",      [25] = "I16",   [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",
    [34] = "TQ1_0",   [35] = "TQ2_0", [39] = "MXFP4",  [40] = "NVFP4", [42] = "Q2_0",
};

static braid_err bad(const reader *r, const char *what) {
    return braid_fail(r->error, BRAID_FORMAT, "%s: %s; the file is truncated or damaged", r->origin, what);
}

// Names are printed in messages.
static bool printable(gguf_text name) {
    for (size_t i = 0; i < name.length; i++)
        if (name.at[i] <= ' ' || name.at[i] > '~') return false;
    return name.length > 0;
}

static bool take(reader *r, void *out, size_t bytes) {
    if ((size_t)(r->end - r->at) < bytes) return false;
    memcpy(out, r->at, bytes);
    r->at += bytes;
    return true;
}

static bool take_string(reader *r, gguf_text *out) {
    uint64_t length;
    if (!take(r, &length, sizeof length) || length > (uint64_t)(r->end - r->at)) return false;
    *out = (gguf_text){(const char *)r->at, (size_t)length};
    r->at += length;
    return true;
}

// Skips `count` values.
static bool skip_values(reader *r, gguf_type type, uint64_t count) {
    gguf_text ignored;
    uint64_t bytes;
    if (type == GGUF_STRING) {
        while (count > 0 && take_string(r, &ignored)) count--;
        return count == 0;
    }
    if (__builtin_mul_overflow(count, type_bytes[type], &bytes) || bytes > (uint64_t)(r->end - r->at)) return false;
    r->at += bytes;
    return true;
}

static braid_err read_key(reader *r, gguf_key *k) {
    uint32_t type;
    if (!take_string(r, &k->name) || !take(r, &type, sizeof type)) return bad(r, "it ends within its keys");
    if (k->name.length > GGUF_MAX_KEY_BYTES || !printable(k->name)) return bad(r, "a key has no usable name");
    int length = (int)k->name.length;
    k->count = 1;
    k->array = type == GGUF_ARRAY;
    if (k->array && (!take(r, &type, sizeof type) || !take(r, &k->count, sizeof k->count)))
        return bad(r, "it ends within its keys");
    if (k->array && type == GGUF_ARRAY)
        return braid_fail(r->error, BRAID_FORMAT, "%s: the key '%.*s' is an array of arrays, which braid does not read",
                          r->origin, length, k->name.at);
    if (type >= GGUF_TYPES)
        return braid_fail(r->error, BRAID_FORMAT, "%s: the key '%.*s' has the unknown type %u", r->origin, length,
                          k->name.at, (unsigned)type);
    k->type = (gguf_type)type;
    k->at = r->at;
    if (!skip_values(r, k->type, k->count)) {
        braid_fail(r->error, BRAID_FORMAT,
                   "%s: the value of the key '%.*s' ends outside the file; it is truncated or damaged", r->origin,
                   length, k->name.at);
        return BRAID_FORMAT;
    }
    return BRAID_OK;
}

static int compare_text(const gguf_text *a, const gguf_text *b) {
    size_t least = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->at, b->at, least);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_keys(const void *a, const void *b) {
    return compare_text(&((const gguf_key *)a)->name, &((const gguf_key *)b)->name);
}

static braid_err read_keys(reader *r, gguf *g) {
    for (uint32_t i = 0; i < g->key_count; i++) {
        braid_err err = read_key(r, &g->key[i]);
        if (err) return err;
    }
    qsort(g->key, g->key_count, sizeof *g->key, compare_keys);
    for (uint32_t i = 1; i < g->key_count; i++)
        if (compare_keys(&g->key[i - 1], &g->key[i]) == 0)
            return braid_fail(r->error, BRAID_FORMAT, "%s: the key '%.*s' stands twice in it", r->origin,
                              (int)g->key[i].name.length, g->key[i].name.at);
    return BRAID_OK;
}

static braid_err find_type(const reader *r, uint32_t number, gguf_tensor *t) {
    for (size_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++)
        if (tensor_types[i].number == number) {
            t->type = tensor_types[i].type;
            return BRAID_OK;
        }
    bool named = number < sizeof other_types / sizeof *other_types && other_types[number];
    return braid_fail(
        r->error, BRAID_FORMAT,
        "%s: the tensor '%s' has the type %s (number %u), which braid does not read; use a file of type F32, "
        "F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K",
        r->origin, t->name, named ? other_types[number] : "unknown", (unsigned)number);
}

static braid_err read_shape(reader *r, gguf_tensor *t) {
    uint64_t rows = 1;
    if (!take(r, &t->dims, sizeof t->dims)) return bad(r, "it ends within its list of tensors");
    if (t->dims < 1 || t->dims > GGUF_MAX_DIMS)
        return braid_fail(r->error, BRAID_FORMAT, "%s: the tensor '%s' has %u dimensions; 1 to %d are possible",
                          r->origin, t->name, (unsigned)t->dims, GGUF_MAX_DIMS);
    for (uint32_t d = 0; d < GGUF_MAX_DIMS; d++) {
        t->shape[d] = 1;
        if (d < t->dims && !take(r, &t->shape[d], sizeof t->shape[d]))
            return bad(r, "it ends within its list of tensors");
        if (t->shape[d] == 0 || (d > 0 && __builtin_mul_overflow(rows, t->shape[d], &rows)))
            return braid_fail(r->error, BRAID_FORMAT, "%s: the tensor '%s' has no usable shape", r->origin, t->name);
    }
    uint32_t number;
    if (!take(r, &number, sizeof number) || !take(r, &t->offset, sizeof t->offset))
        return bad(r, "it ends within its list of tensors");
    braid_err err = find_type(r, number, t);
    if (err) return err;
    t->bytes = weight_bytes(t->type, rows, t->shape[0]);
    if (t->bytes == 0)
        return braid_fail(
            r->error, BRAID_FORMAT,
            "%s: the tensor '%s' of type %s has rows of %llu elements, which its blocks of %zu do not fill", r->origin,
            t->name, weight_type_name(t->type), (unsigned long long)t->shape[0], weight_block_elements(t->type));
    return BRAID_OK;
}

static braid_err read_tensor(reader *r, gguf_tensor *t) {
    gguf_text name;
    if (!take_string(r, &name)) return bad(r, "it ends within its list of tensors");
    if (name.length > GGUF_MAX_NAME_BYTES || !printable(name))
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s: the name of a tensor has %zu bytes; 1 to %d printable characters are possible",
                          r->origin, name.length, GGUF_MAX_NAME_BYTES);
    memcpy(t->name, name.at, name.length);
    t->name[name.length] = 0;
    return read_shape(r, t);
}

static int compare_offsets(const void *a, const void *b) {
    const gguf_tensor *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(gguf_tensor *const *)a)->name, (*(gguf_tensor *const *)b)->name);
}

static braid_err check_names(const reader *r, const gguf *g) {
    const gguf_tensor **by_name = malloc(((size_t)g->tensor_count + 1) * sizeof(gguf_tensor *));
    braid_err err = BRAID_OK;
    if (!by_name) return braid_fail(r->error, BRAID_MEMORY, "no memory for the tensors of %s", r->origin);
    for (uint32_t i = 0; i < g->tensor_count; i++) by_name[i] = &g->tensor[i];
    qsort(by_name, g->tensor_count, sizeof(gguf_tensor *), compare_names);
    for (uint32_t i = 1; i < g->tensor_count && !err; i++)
        if (strcmp(by_name[i - 1]->name, by_name[i]->name) == 0)
            err = braid_fail(r->error, BRAID_FORMAT, "%s: the tensor '%s' stands twice in it", r->origin,
                             by_name[i]->name);
    free(by_name);
    return err;
}

// Offsets count from `begin`, the start of the tensors' bytes.
static braid_err place_tensors(const reader *r, gguf *g, uint64_t begin) {
    uint64_t size = (uint64_t)(r->end - r->data);
    qsort(g->tensor, g->tensor_count, sizeof *g->tensor, compare_offsets);
    uint64_t taken = 0;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        gguf_tensor *t = &g->tensor[i];
        if (t->offset % g->alignment != 0)
            return braid_fail(r->error, BRAID_FORMAT, "%s: the tensor '%s' is at %llu, which is no multiple of %u",
                              r->origin, t->name, (unsigned long long)t->offset, (unsigned)g->alignment);
        if (t->offset < taken)
            return braid_fail(r->error, BRAID_FORMAT, "%s: the tensors '%s' and '%s' overlap", r->origin,
                              g->tensor[i - 1].name, t->name);
        if (begin > size || t->offset > size - begin || t->bytes > size - begin - t->offset)
            return braid_fail(r->error, BRAID_FORMAT,
                              "%s: the tensor '%s' ends outside the file; it is truncated or damaged, fetch it again",
                              r->origin, t->name);
        taken = t->offset + t->bytes;
        t->offset += begin;
    }
    return check_names(r, g);
}

static braid_err read_alignment(const reader *r, gguf *g) {
    const gguf_key *key = gguf_find(g, "general.alignment");
    g->alignment = GGUF_DEFAULT_ALIGNMENT;
    if (!key) return BRAID_OK;
    uint64_t n = 0;
    if (key->array || key->type != GGUF_U32 || !gguf_u64(key, &n) || n == 0 || (n & (n - 1)) != 0)
        return braid_fail(r->error, BRAID_FORMAT, "%s: the key 'general.alignment' is not a u32 and a power of two",
                          r->origin);
    g->alignment = (uint32_t)n;
    return BRAID_OK;
}

bool gguf_is(const uint8_t *data, size_t bytes) { return bytes >= 4 && memcmp(data, "GGUF", 4) == 0; }

static braid_err read_header(reader *r, gguf *g) {
    uint64_t keys, tensors;
    if (!gguf_is(r->data, (size_t)(r->end - r->data)))
        return braid_fail(r->error, BRAID_FORMAT, "%s: not a GGUF file", r->origin);
    r->at += 4;
    if (!take(r, &g->version, sizeof g->version)) return bad(r, "it ends within its first bytes");
    if (g->version != 0 && (g->version & 0xffff) == 0)
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s: a big-endian GGUF file, which braid does not read; convert it again "
                          "for little-endian machines",
                          r->origin);
    if (g->version != 2 && g->version != 3)
        return braid_fail(r->error, BRAID_FORMAT, "%s: GGUF version %u, braid reads 2 and 3; convert the model again",
                          r->origin, (unsigned)g->version);
    if (!take(r, &tensors, sizeof tensors) || !take(r, &keys, sizeof keys))
        return bad(r, "it ends within its first bytes");
    if (tensors > GGUF_MAX_TENSORS || keys > GGUF_MAX_KEYS)
        return braid_fail(r->error, BRAID_LIMIT, "%s: %llu tensors and %llu keys; at most %d and %d are possible",
                          r->origin, (unsigned long long)tensors, (unsigned long long)keys, GGUF_MAX_TENSORS,
                          GGUF_MAX_KEYS);
    // the least bytes of a key and of a tensor bound the memory by the size of the file
    if (keys > (uint64_t)(r->end - r->at) / 13 || tensors > (uint64_t)(r->end - r->at) / 33)
        return bad(r, "it is too short for its counts of keys and tensors");
    g->key_count = (uint32_t)keys;
    g->tensor_count = (uint32_t)tensors;
    g->key = calloc(keys + 1, sizeof *g->key);
    g->tensor = calloc(tensors + 1, sizeof *g->tensor);
    return g->key && g->tensor ? BRAID_OK
                               : braid_fail(r->error, BRAID_MEMORY, "no memory for the header of %s", r->origin);
}

static braid_err read_file(reader *r, gguf *g) {
    braid_err err = read_header(r, g);
    if (!err) err = read_keys(r, g);
    if (!err) err = read_alignment(r, g);
    for (uint32_t i = 0; i < g->tensor_count && !err; i++) err = read_tensor(r, &g->tensor[i]);
    if (err) return err;
    uint64_t used = (uint64_t)(r->at - r->data);
    return place_tensors(r, g, (used + g->alignment - 1) / g->alignment * g->alignment);
}

braid_err gguf_parse(const uint8_t *data, size_t bytes, const char *origin, gguf *out, braid_error *error) {
    static const uint8_t none;
    const uint8_t *from = data ? data : &none;
    reader r = {.data = from, .at = from, .end = from + (data ? bytes : 0), .origin = origin, .error = error};
    *out = (gguf){0};
    braid_err err = read_file(&r, out);
    if (err) gguf_free(out);
    return err;
}

void gguf_free(gguf *g) {
    free(g->key);
    free(g->tensor);
    *g = (gguf){0};
}

const gguf_key *gguf_find(const gguf *g, const char *name) {
    gguf_key wanted = {.name = {name, strlen(name)}};
    return bsearch(&wanted, g->key, g->key_count, sizeof *g->key, compare_keys);
}

// One integer or boolean.
static bool read_integer(gguf_type type, const uint8_t *at, int64_t *out, bool *too_large) {
    uint64_t bits = 0;
    *too_large = false;
    if (type == GGUF_F32 || type == GGUF_F64 || type == GGUF_STRING || type == GGUF_ARRAY) return false;
    memcpy(&bits, at, type_bytes[type]);
    unsigned width = 8u * type_bytes[type];
    bool is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
    if (is_signed && width < 64 && bits >> (width - 1)) bits |= ~(uint64_t)0 << width;
    if (type == GGUF_BOOL && bits > 1) return false;
    *too_large = type == GGUF_U64 && bits > INT64_MAX;
    *out = (int64_t)bits;
    return true;
}

bool gguf_element(const gguf_key *key, uint64_t i, int64_t *out) {
    bool too_large;
    if (!key || i >= key->count || key->type == GGUF_STRING) return false;
    return read_integer(key->type, key->at + i * type_bytes[key->type], out, &too_large) && !too_large;
}

bool gguf_u64(const gguf_key *key, uint64_t *out) {
    int64_t value;
    bool too_large;
    if (!key || key->array || key->type == GGUF_BOOL || !read_integer(key->type, key->at, &value, &too_large))
        return false;
    if (value < 0 && !too_large) return false;
    *out = (uint64_t)value;
    return true;
}

bool gguf_real(const gguf_key *key, double *out) {
    float single;
    if (!key || key->array) return false;
    if (key->type == GGUF_F64) {
        memcpy(out, key->at, sizeof *out);
        return true;
    }
    if (key->type != GGUF_F32) return false;
    memcpy(&single, key->at, sizeof single);
    *out = (double)single;
    return true;
}

bool gguf_bool(const gguf_key *key, bool *out) {
    int64_t value;
    bool too_large;
    if (!key || key->array || key->type != GGUF_BOOL || !read_integer(key->type, key->at, &value, &too_large))
        return false;
    *out = value != 0;
    return true;
}

gguf_text gguf_next_string(const uint8_t **at) {
    uint64_t length;
    memcpy(&length, *at, sizeof length);
    gguf_text text = {(const char *)*at + sizeof length, (size_t)length};
    *at += sizeof length + length;
    return text;
}

size_t gguf_value_bytes(const gguf_key *key) {
    const uint8_t *at = key->at;
    if (key->type != GGUF_STRING) return (size_t)key->count * type_bytes[key->type];
    for (uint64_t i = 0; i < key->count; i++) gguf_next_string(&at);
    return (size_t)(at - key->at);
}

bool gguf_string(const gguf_key *key, gguf_text *out) {
    if (!key || key->array || key->type != GGUF_STRING) return false;
    const uint8_t *at = key->at;
    *out = gguf_next_string(&at);
    return true;
}

bool gguf_is_text(const gguf_key *key, const char *text) {
    gguf_text t;
    return gguf_string(key, &t) && t.length == strlen(text) && memcmp(t.at, text, t.length) == 0;
}
