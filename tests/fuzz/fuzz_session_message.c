// Bytes of a message of src/session: refused, or the only encoding of their content.
#include "fuzz.h"

#include "session/message.h"
#include "session_random.h"

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static session_message msg;
    rng r = {rng_seed(43, number)};
    session_random w = {.r = &r};
    session_random_message(&w, (session_message_kind)(1 + number % (SESSION_MESSAGE_KINDS - 1)), &msg);
    return session_message_encode(&msg, bytes, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static session_message msg;
    static uint8_t again[SESSION_MAX_MESSAGE_BYTES];
    if (!session_message_decode(data, size, &msg)) return 0;
    FUZZ_CHECK(session_message_encode(&msg, again, sizeof again) == size);
    FUZZ_CHECK(memcmp(again, data, size) == 0);
    FUZZ_CHECK(session_message_name(msg.kind)[0] != '\0');
    return 0;
}
