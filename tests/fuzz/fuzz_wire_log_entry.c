// Bytes of a log entry, as the log file holds it.
#include "fuzz.h"

#include "wire/message.h"
#include "wire_random.h"

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static log_entry entry;
    rng r = {rng_seed(42, number)};
    wire_random w = {.r = &r};
    random_log_entry(&w, (uint8_t)(1 + number % (LOG_KINDS - 1)), &entry);
    return log_entry_encode(&entry, bytes, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static log_entry entry;
    static uint8_t again[WIRE_MAX_CONTROL_BYTES];
    if (!log_entry_decode(data, size, &entry)) return 0;
    FUZZ_CHECK(log_entry_encode(&entry, again, sizeof again) == size);
    FUZZ_CHECK(memcmp(again, data, size) == 0);
    return 0;
}
