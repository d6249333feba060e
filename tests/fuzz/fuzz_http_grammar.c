// Grammars and schemas from requests: no source harms the reader or the matcher, and a grammar that
// is accepted matches any bytes within its limits.
#include "fuzz.h"

#include "base/rng.h"
#include "http/grammar.h"
#include "http/matcher.h"

#include <string.h>

static const char *const grammars[] = {
    "root ::= \"a\" [b-d]{1,3} | (\"x\" | y)* # c\ny ::= \"\\u00e9\" root?",
    "root ::= object\nobject ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= [^\"\\x00]+ \":\" (object | .)",
};
static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"$ref\":\"#/$defs/"
    "x\"}},\"required\":[\"a\"],"
    "\"$defs\":{\"x\":{\"type\":\"array\",\"items\":{\"enum\":[1,\"q\",null]},\"maxItems\":4}}}",
    "{\"anyOf\":[{\"type\":[\"string\",\"null\"],\"maxLength\":9},{\"const\":{\"k\":[true]}},"
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\"}}]}",
};

// A byte that chooses the form, the source, a zero byte, and a text.
size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(78, number)};
    bool schema = rng_below(&r, 2) == 0;
    bytes[0] = schema ? 's' : 'g';
    size_t n = 1 +
               (size_t)snprintf((char *)bytes + 1, capacity - 1, "%s", (schema ? schemas : grammars)[rng_below(&r, 2)]);
    bytes[n++] = 0;
    return n + (size_t)snprintf((char *)bytes + n, capacity - n, "%s", schema ? "{\"a\": 1, \"b\": [null]}" : "abcx");
}

static void match(const grammar *g, const uint8_t *text, size_t length) {
    matcher *m = matcher_new(g);
    FUZZ_CHECK(m != NULL);
    uint32_t at = matcher_start(m);
    for (size_t i = 0; i < length && i < 4096 && at != MATCHER_DEAD; i++) at = matcher_next(m, at, text[i]);
    FUZZ_CHECK(!matcher_complete(m, MATCHER_DEAD));
    matcher_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const char *source = (const char *)data + 1;
    const uint8_t *end = memchr(source, 0, size - 1);
    size_t length = end ? (size_t)(end - (const uint8_t *)source) : size - 1;
    grammar *g = NULL;
    json *doc = NULL;
    braid_error error = {0};
    braid_err err;
    if (data[0] == 's') {
        err = json_parse(source, length, &doc, &error);
        if (!err) err = grammar_from_schema(doc, json_root(doc), &g, &error);
    } else {
        err = grammar_from_text(source, length, &g, &error);
    }
    FUZZ_CHECK((err == BRAID_OK) == (g != NULL));
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (g) match(g, end ? end + 1 : data, end ? size - length - 2 : 0);
    json_free(doc);
    grammar_free(g);
    return 0;
}
