// The handshake of two peers, inside TLS, after both certificates were verified. The dialing peer
// sends HELLO; the other answers WELCOME or REFUSE. All begin with the magic and the version, and
// REFUSE never changes, so that programs of different versions can report the mismatch to each
// other.
#ifndef BRAID_WIRE_HANDSHAKE_H
#define BRAID_WIRE_HANDSHAKE_H

#include "base/id.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HANDSHAKE_MAGIC = 0x64727262 };  // "brrd" in the stream

// The reason of a REFUSE.
#define HANDSHAKE_REFUSALS(X)                                            \
    X(OTHER_RUN, "it belongs to another run")                            \
    X(OTHER_GENERATION, "the run was rolled back since")                 \
    X(OTHER_VERSION, "it speaks another version of the protocol")        \
    X(FULL, "there is no room for another link")                         \
    X(NOT_ALLOWED, "it is not on the list of allowed peers")             \
    X(IDENTITY, "the certificate does not prove the expected peer id")   \
    X(DUPLICATE, "there is a link to it already")                        \
    X(NOT_READY, "the run is not known here yet")                        \
    X(LEAVING, "this peer is leaving the run")                           \
    X(MALFORMED, "it sent a malformed greeting")                       \
    X(OTHER_KERNELS, "its kernels compute different bits")

typedef enum handshake_refusal {
#define X(name, text) REFUSE_##name,
    HANDSHAKE_REFUSALS(X)
#undef X
    REFUSE_CODES
} handshake_refusal;

typedef struct handshake_hello {
    uint16_t version;        // set by the encoder to WIRE_VERSION
    braid_hash run;          // all zero: unknown run, the WELCOME carries its description
    uint64_t generation;     // 0 if the run is unknown
    braid_hash kernels;      // the kernel class; all zero if the run is unknown or allows any class
    uint8_t kind;            // member_kind
    // an address at which the sender can be dialed, "" when it does not listen
    char address[WIRE_MAX_ADDRESS];
    char software[WIRE_MAX_SOFTWARE];  // "braid 0.1.0", for people
} handshake_hello;

typedef struct handshake_welcome {
    uint16_t version;
    braid_hash run;
    uint64_t generation;
    braid_hash kernels;
    uint8_t kind;
    char address[WIRE_MAX_ADDRESS];
    char software[WIRE_MAX_SOFTWARE];
    braid_id leader;                       // the recipient for JOIN; all zero when unknown
    char leader_address[WIRE_MAX_ADDRESS];
    const char *description;               // borrowed, not terminated; NULL when not requested
    size_t description_bytes;
} handshake_welcome;

typedef struct handshake_refuse {
    uint16_t version;  // version of the refusing peer
    uint8_t code;      // handshake_refusal; a code of a later version is kept unchanged
    char sentence[WIRE_MAX_SENTENCE];  // a sentence: what is wrong and how to fix it
} handshake_refuse;

typedef enum handshake_result {
    HANDSHAKE_OK,
    HANDSHAKE_MALFORMED,
    HANDSHAKE_OTHER_VERSION,  // only `version` is set
} handshake_result;

// Returns the bytes written, 0 when `capacity` is too small or a limit is violated.
// WIRE_MAX_CONTROL_BYTES is always enough. Texts are printable ASCII, because they are shown on
// terminals.
size_t handshake_hello_encode(const handshake_hello *hello, uint8_t *bytes, size_t capacity);
size_t handshake_welcome_encode(const handshake_welcome *welcome, uint8_t *bytes, size_t capacity);
size_t handshake_refuse_encode(const handshake_refuse *refuse, uint8_t *bytes, size_t capacity);

handshake_result handshake_hello_decode(const uint8_t *bytes, size_t count, handshake_hello *hello);
// `description` points into `bytes`.
handshake_result handshake_welcome_decode(const uint8_t *bytes, size_t count, handshake_welcome *welcome);
// Never returns HANDSHAKE_OTHER_VERSION.
handshake_result handshake_refuse_decode(const uint8_t *bytes, size_t count, handshake_refuse *refuse);

// The meaning of a code as a clause: "the peer refused: it belongs to another run".
const char *handshake_refusal_text(uint8_t code);

#endif
