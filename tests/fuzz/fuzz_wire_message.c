// Bytes of a message: refused, or the only encoding of their content.
#include "fuzz.h"

#include "wire/message.h"
#include "wire_random.h"

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static message msg;
    rng r = {rng_seed(41, number)};
    wire_random w = {.r = &r};
    random_message(&w, (uint8_t)(1 + number % (MESSAGE_KINDS - 1)), &msg);
    return message_encode(&msg, bytes, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static message msg;
    static uint8_t again[WIRE_MAX_CONTROL_BYTES];
    if (!message_decode(data, size, &msg)) return 0;
    FUZZ_CHECK(message_encode(&msg, again, sizeof again) == size);
    FUZZ_CHECK(memcmp(again, data, size) == 0);
    FUZZ_CHECK(message_kind_name(msg.kind)[0] != '\0');
    return 0;
}
