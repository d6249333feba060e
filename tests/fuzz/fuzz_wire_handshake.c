// Bytes of a handshake message, the first input from an unknown peer. The first byte of an input
// selects the expected message.
#include "fuzz.h"

#include "wire/handshake.h"
#include "wire_random.h"

enum { HELLO, WELCOME, REFUSE, GREETINGS };

static size_t example_welcome(wire_random *w, uint8_t *bytes, size_t capacity) {
    static char description[300];
    handshake_welcome welcome = {.run = random_hash(w), .generation = 1, .kind = MEMBER_DATA, .software = "braid 0.1.0",
                                 .leader.bytes = {9}, .description_bytes = rng_below(w->r, sizeof description)};
    random_text(w, welcome.address, sizeof welcome.address);
    random_text(w, welcome.leader_address, sizeof welcome.leader_address);
    memset(description, 'y', sizeof description);
    welcome.description = description;
    return handshake_welcome_encode(&welcome, bytes, capacity);
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(43, number)};
    wire_random w = {.r = &r};
    handshake_hello hello = {.run = random_hash(&w), .generation = random_u64(&w), .address = "127.0.0.1:9000"};
    handshake_refuse refuse = {.code = random_below(&w, REFUSE_CODES), .sentence = "there is no room for another link"};
    random_text(&w, hello.software, sizeof hello.software);
    bytes[0] = (uint8_t)(number % GREETINGS);
    size_t count = 0;
    if (bytes[0] == HELLO) count = handshake_hello_encode(&hello, bytes + 1, capacity - 1);
    if (bytes[0] == WELCOME) count = example_welcome(&w, bytes + 1, capacity - 1);
    if (bytes[0] == REFUSE) count = handshake_refuse_encode(&refuse, bytes + 1, capacity - 1);
    return count > 0 ? count + 1 : 0;
}

static uint8_t again[WIRE_MAX_CONTROL_BYTES];

static void check_same(size_t count, const uint8_t *data, size_t size) {
    FUZZ_CHECK(count == size);
    FUZZ_CHECK(memcmp(again, data, size) == 0);
}

static void check_hello(const uint8_t *data, size_t size) {
    handshake_hello hello;
    if (handshake_hello_decode(data, size, &hello) != HANDSHAKE_OK) return;
    check_same(handshake_hello_encode(&hello, again, sizeof again), data, size);
}

static void check_welcome(const uint8_t *data, size_t size) {
    handshake_welcome welcome;
    if (handshake_welcome_decode(data, size, &welcome) != HANDSHAKE_OK) return;
    FUZZ_CHECK(welcome.description_bytes <= WIRE_MAX_DESCRIPTION_BYTES);
    FUZZ_CHECK((welcome.description == NULL) == (welcome.description_bytes == 0));
    check_same(handshake_welcome_encode(&welcome, again, sizeof again), data, size);
}

static void check_refuse(const uint8_t *data, size_t size) {
    handshake_refuse refuse;
    if (handshake_refuse_decode(data, size, &refuse) != HANDSHAKE_OK) return;
    FUZZ_CHECK(handshake_refusal_text(refuse.code)[0] != '\0');
    // a refusal of another version is accepted, but only this version is written
    if (refuse.version == WIRE_VERSION) check_same(handshake_refuse_encode(&refuse, again, sizeof again), data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (data[0] % GREETINGS == HELLO) check_hello(data + 1, size - 1);
    if (data[0] % GREETINGS == WELCOME) check_welcome(data + 1, size - 1);
    if (data[0] % GREETINGS == REFUSE) check_refuse(data + 1, size - 1);
    return 0;
}
