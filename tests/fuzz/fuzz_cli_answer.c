// The answer of a server to `braid status`: its head, and the state records in its document.
#include "fuzz.h"

#include "base/rng.h"
#include "cli/http_get.h"
#include "format/peer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const examples[] = {
    ("HTTP/1.1 200 OK\r\nContent-Type: "
     "application/json\r\n\r\n{\"state\":\"working\",\"since_s\":3.5,\"blocker\":\"b\\u0007\"}"),
    "HTTP/1.0 401 Unauthorized\r\n\r\n{\"error\":{\"message\":\"no key\"}}",
    "HTTP/1.1 200 OK\r\n\r\n{\"id\":1,\"state\":[],\"waiting_for\":\"x\",\"next_step\":\"y\"}",
};

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(89, number)};
    return (size_t)snprintf((char *)bytes, capacity, "%s", examples[rng_below(&r, sizeof examples / sizeof *examples)]);
}

static void read_document(const char *text, size_t length) {
    json *doc = NULL;
    braid_error error;
    peer_state s;
    char line[PEER_STATE_LINE];
    if (json_parse(text, length, &doc, &error) != BRAID_OK) return;
    peer_state_get(doc, json_root(doc), &s);
    peer_state_line(&s, line);
    for (const char *c = line; *c; c++) FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    braid_error error = {0};
    unsigned status = 0;
    size_t body = 0;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (http_get_parse(text, size, &status, &body, &error) == BRAID_OK) {
        FUZZ_CHECK(status <= 999 && body >= 4 && body <= size);
        read_document(text + body, size - body);
    } else {
        FUZZ_CHECK(error.text[0] != 0);
    }
    free(text);
    return 0;
}
