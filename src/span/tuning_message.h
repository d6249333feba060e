// The messages between a client that trains an adapter of its own and the peers that lend it their
// layers (docs/session-tuning.md). Each has a payload, so that the net keeps their order.
#ifndef BRAID_SPAN_TUNING_MESSAGE_H
#define BRAID_SPAN_TUNING_MESSAGE_H

#include "base/id.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TUNING_VERSION = 0xA1,  // first byte of each message; those of src/session begin below 0x80
    TUNING_MAX_MESSAGE_BYTES = 1024,
    TUNING_MAX_ROWS = 1 << 16,  // of a microbatch
    TUNING_MAX_LAYERS = 1024,
    TUNING_MAX_PARAMETERS = 1 << 27,  // of the layers that one message adapts
    TUNING_TEXT = 256,                // of a refusal, with its end
};

// X(KIND, body)
#define TUNING_MESSAGES(X) \
    X(ADAPT, adapt)        \
    X(FORWARD, forward)    \
    X(OUTPUT, output) X(BACKWARD, backward) X(GRADIENT, gradient) X(FORGET, forget) X(REFUSE, refuse)

typedef enum tuning_kind {
    TUNING_NONE,
#define X(upper, lower) TUNING_##upper,
    TUNING_MESSAGES(X)
#undef X
        TUNING_KINDS
} tuning_kind;

// Names a request and its answer. `session` is the client's number of one use of these layers; a
// client never uses it again. `serial` ascends.
typedef struct tuning_name {
    uint64_t session;
    uint32_t serial;
} tuning_name;

// Client -> peer. Payload: the parameters of layers [layer_begin, layer_end), fp32.
typedef struct tuning_adapt {
    uint16_t layer_begin, layer_end;  // within the receiver's span
    uint32_t rank;
    float alpha;
    bool rank_stabilised;
    uint64_t roles;              // as in adapter_config
    uint32_t sequences, tokens;  // of a microbatch
    uint32_t parameters;         // elements
    braid_hash kernels;          // kernel class; the peer's must be equal
} tuning_adapt;

// Client -> peer. Payload: documents[rows] as u32, then x[rows, dim].
typedef struct tuning_forward {
    bool keep;  // BACKWARD follows
} tuning_forward;

typedef struct tuning_output {  // peer -> client, of a FORWARD. Payload: y[rows, dim]
    uint32_t rows;
} tuning_output;

typedef struct tuning_backward {  // client -> peer. Payload: dy[rows, dim]
    uint32_t rows;
} tuning_backward;

// Peer -> client, of a BACKWARD. Payload: dx[rows, dim], then the gradient of the parameters.
typedef struct tuning_gradient {
    uint32_t rows, parameters;
} tuning_gradient;

// Client -> peer: the adapter and all that was computed from it. Payload: one byte.
typedef struct tuning_forget {
    bool done;  // always true
} tuning_forget;

typedef enum tuning_refusal {
    TUNING_FULL,       // no memory, or too many adapters; later perhaps
    TUNING_NOT_HERE,   // these layers are not here, or the peer drains
    TUNING_OTHER,      // another kernel class
    TUNING_MALFORMED,  // no peer will do it; `text` has the reason
    TUNING_REFUSALS
} tuning_refusal;

// Peer -> client, instead of the answer. The peer has forgotten the session. Payload: one byte.
typedef struct tuning_refuse {
    uint8_t reason;  // tuning_refusal
    char text[TUNING_TEXT];
} tuning_refuse;

typedef struct tuning_message {
    tuning_kind kind;
    tuning_name name;
    union {
#define X(upper, lower) tuning_##lower lower;
        TUNING_MESSAGES(X)
#undef X
    };
} tuning_message;

static inline bool tuning_is_message(const uint8_t *bytes, size_t count) {
    return count > 0 && bytes[0] == TUNING_VERSION;
}
// Bytes written; 0: it does not fit, or a value violates a limit.
size_t tuning_encode(const tuning_message *msg, uint8_t *bytes, size_t capacity);
// False: malformed. `msg` is complete or must not be used.
bool tuning_decode(const uint8_t *bytes, size_t count, tuning_message *msg);

#endif
