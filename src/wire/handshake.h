// What two peers say to each other first, inside TLS, when both certificates are checked. The one that dialled sends
// HELLO; the other answers WELCOME or REFUSE. All begin with the magic and the version, and REFUSE never changes, so that
// programs of different versions can tell each other so.
#ifndef BRAID_WIRE_HANDSHAKE_H
#define BRAID_WIRE_HANDSHAKE_H

#include "base/id.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HANDSHAKE_MAGIC = 0x64727262 };  // "brrd" in the stream

// Why a peer was not let in.
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
    X(MALFORMED, "it sent what is not a greeting")                       \
    X(OTHER_KERNELS, "its kernels compute other bits")

typedef enum handshake_refusal {
#define X(name, text) REFUSE_##name,
    HANDSHAKE_REFUSALS(X)
#undef X
    REFUSE_CODES
} handshake_refusal;

typedef struct handshake_hello {
    uint16_t version;        // set by the encoder to WIRE_VERSION
    braid_hash run;          // all zero: "tell me": the answer carries the description
    uint64_t generation;     // 0 with an unknown run
    braid_hash kernels;      // the kernel class; all zero with an unknown run, or one to which it does not matter
    uint8_t kind;            // member_kind
    char address[WIRE_MAX_ADDRESS];    // where the sender may be dialled, "" when it does not listen
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
    braid_id leader;                       // whom to send JOIN; all zero when not known
    char leader_address[WIRE_MAX_ADDRESS];
    const char *description;               // borrowed, not terminated; NULL when not asked for
    size_t description_bytes;
} handshake_welcome;

typedef struct handshake_refuse {
    uint16_t version;  // of the one that refuses
    uint8_t code;      // handshake_refusal; a code of a later version reads as it is
    char sentence[WIRE_MAX_SENTENCE];  // what is wrong and what to do about it
} handshake_refuse;

typedef enum handshake_result {
    HANDSHAKE_OK,
    HANDSHAKE_MALFORMED,
    HANDSHAKE_OTHER_VERSION,  // only `version` is filled
} handshake_result;

// Bytes written, 0 when `capacity` is too small or a limit is broken. WIRE_MAX_CONTROL_BYTES is always enough.
// Texts are printable ASCII: they are shown on terminals.
size_t handshake_hello_encode(const handshake_hello *hello, uint8_t *bytes, size_t capacity);
size_t handshake_welcome_encode(const handshake_welcome *welcome, uint8_t *bytes, size_t capacity);
size_t handshake_refuse_encode(const handshake_refuse *refuse, uint8_t *bytes, size_t capacity);

handshake_result handshake_hello_decode(const uint8_t *bytes, size_t count, handshake_hello *hello);
// `description` points into `bytes`.
handshake_result handshake_welcome_decode(const uint8_t *bytes, size_t count, handshake_welcome *welcome);
// Never HANDSHAKE_OTHER_VERSION.
handshake_result handshake_refuse_decode(const uint8_t *bytes, size_t count, handshake_refuse *refuse);

// What a code means, as a clause: "the peer refused: it belongs to another run".
const char *handshake_refusal_text(uint8_t code);

#endif
