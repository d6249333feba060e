// JSON from files and downloads: no text harms the reader, and an accepted document is consistent.
#include "fuzz.h"

#include "base/rng.h"
#include "format/json.h"

#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const values[] = {"1",    "-2.5e-3", "\"x\\u00e9\\n\"", "true",
                                         "null", "[]",      "{\"k\":[1,[2]]}", "\"\\ud83d\\ude00\""};
    rng r = {rng_seed(51, number)};
    size_t length = 0;
    uint64_t members = rng_below(&r, 6);
    length += (size_t)snprintf((char *)bytes, capacity, "{");
    for (uint64_t i = 0; i < members && length < capacity; i++)
        length += (size_t)snprintf((char *)bytes + length, capacity - length, "%s\"key%u\" : %s", i ? ", " : "",
                                   (unsigned)i, values[rng_below(&r, 8)]);
    if (length < capacity) length += (size_t)snprintf((char *)bytes + length, capacity - length, "}");
    return length < capacity ? length : 0;
}

static void walk(const json *doc, const json_value *v, bool in_object) {
    uint32_t children = 0;
    FUZZ_CHECK((v->key != NULL) == in_object);
    if (v->kind == JSON_STRING || v->kind == JSON_NUMBER) FUZZ_CHECK(strlen(v->text) == v->length);
    for (const json_value *c = json_first(doc, v); c; c = json_next(doc, c), children++) {
        walk(doc, c, v->kind == JSON_OBJECT);
        if (c->key) FUZZ_CHECK(json_member(doc, v, c->key) == c);
    }
    FUZZ_CHECK(children == v->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json *doc = NULL;
    braid_error error = {0};
    braid_err err = json_parse((const char *)data, size, &doc, &error);
    FUZZ_CHECK((err == BRAID_OK) == (doc != NULL));
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (doc) walk(doc, json_root(doc), false);
    json_free(doc);
    return 0;
}
