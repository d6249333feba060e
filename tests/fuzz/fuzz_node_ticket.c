// Tickets with typing errors: an accepted one is written back as the same ticket, a refused one has
// a reason.
#include "fuzz.h"

#include "base/rng.h"
#include "node/ticket.h"

#include <string.h>

enum { MAX_TEXT = 2 * TICKET_MAX_TEXT };

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const addresses[] = {"127.0.0.1:4711", "[2001:db8::7]:1", "a-host.example:65535", "h:1"};
    rng r = {rng_seed(45, number)};
    ticket t = {.serves = number % 2 == 1};
    char text[TICKET_MAX_TEXT];
    for (size_t i = 0; i < sizeof t.leader.bytes; i++) t.leader.bytes[i] = (uint8_t)rng_next(&r);
    snprintf(t.address, sizeof t.address, "%s", addresses[rng_below(&r, sizeof addresses / sizeof *addresses)]);
    ticket_format(&t, text);
    size_t count = strlen(text);
    if (count > capacity) return 0;
    memcpy(bytes, text, count);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MAX_TEXT + 1], again[TICKET_MAX_TEXT];
    ticket t, same;
    braid_error error = {0};
    if (size > MAX_TEXT) size = MAX_TEXT;
    memcpy(text, data, size);
    text[size] = '\0';
    if (ticket_parse(text, &t, &error) != BRAID_OK) {
        FUZZ_CHECK(error.code == BRAID_ARGUMENT && strlen(error.text) > 0);
        return 0;
    }
    ticket_format(&t, again);
    FUZZ_CHECK(ticket_parse(again, &same, NULL) == BRAID_OK);
    FUZZ_CHECK(id_equal(&t.leader, &same.leader) && t.serves == same.serves && strcmp(t.address, same.address) == 0);
    return 0;
}
