// JSON lines of events: no line harms the reader, and an accepted event reads back after it is
// written.
#include "fuzz.h"

#include "base/rng.h"
#include "cli/report.h"

#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(46, number)};
    char line[REPORT_MAX_LINE];
    report_event event = {
        .kind = (report_kind)rng_below(&r, REPORT_KINDS),
        .iteration = rng_below(&r, 1000),
        .of = 1000,
        .loss = rng_unit(&r) * 9,
        .norm = rng_unit(&r),
        .tokens = rng_below(&r, 1u << 30),
        .stage = rng_below(&r, 64),
        .member = rng_below(&r, 500),
        .failed = rng_below(&r, 2) != 0,
        .phase = "backward",
        .peer = "0a1b2c3d",
        .path = "out \"quoted\"\n",
        .text = "\xc3\xa9 why",
    };
    size_t length = report_to_json(&event, line);
    if (length > capacity) return 0;
    memcpy(bytes, line, length);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static report_event event, again;
    char line[REPORT_MAX_LINE], second[REPORT_MAX_LINE];
    braid_error error = {0};
    braid_err code = report_from_json((const char *)data, size, &event, &error);
    FUZZ_CHECK(code == BRAID_OK || error.text[0] != 0);
    if (code != BRAID_OK) return 0;
    size_t length = report_to_json(&event, line);
    FUZZ_CHECK(length < REPORT_MAX_LINE && line[length] == 0);
    FUZZ_CHECK(report_from_json(line, length, &again, &error) == BRAID_OK);
    FUZZ_CHECK(report_to_json(&again, second) == length);
    FUZZ_CHECK(memcmp(line, second, length) == 0);
    return 0;
}
