// TLS 1.3 between two peers, over memory: bytes from the socket go in, bytes for the socket come
// out. Both sides present a certificate. Only its Ed25519 key counts, which TLS proves to be owned
// by the peer (RFC 8446, 4.4.3), and the id derived from it. No authority, no names, no expiry, no
// resumption.
#ifndef BRAID_NET_TLS_H
#define BRAID_NET_TLS_H

#include "base/err.h"
#include "base/id.h"
#include "net/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TLS_RECORD_BYTES = 16 * 1024,    // maximum of plain bytes in one record
    TLS_RECORD_EXTRA = 64,           // upper bound of the bytes that encryption adds to a record
    TLS_OUTPUT_BYTES = 128 * 1024,   // encrypted bytes of one connection that wait for the socket
    TLS_RESERVED_BYTES = 16 * 1024,  // of those, reserved for TLS itself (handshake, key updates, alerts)
    TLS_MAX_CERTIFICATE_BYTES = 4096,
    TLS_RECORDS_PER_KEY = 1 << 22,  // then new keys: far below AES-GCM's 2^24.5 records (RFC 8446, 5.5)
    TLS_SPARE_BUFFERS = 16,         // output buffers kept for reuse
};

typedef struct tls_context tls_context;  // one per identity
typedef struct tls tls;                  // one per connection

typedef enum tls_result {
    TLS_OK,
    TLS_AGAIN,   // more bytes from the socket are needed
    TLS_CLOSED,  // the other side closed the TLS stream
    TLS_FAILED,  // tls_reason has the reason
} tls_result;

// `id` is borrowed for the lifetime of the context.
braid_err tls_context_new(const identity *id, tls_context **out, braid_error *error);
void tls_context_free(tls_context *c);
// Received plaintext is overwritten in OpenSSL's buffers after it was read.
void tls_context_cleanse(tls_context *c);

// `expected` (copied): the id to dial; NULL on the accepting side, which learns the id. Returns
// NULL when there is no memory.
tls *tls_new(tls_context *c, const braid_id *expected);
void tls_free(tls *t);

// Bytes from the socket, borrowed until the calls below return TLS_AGAIN, which means that all of
// them were consumed.
void tls_feed(tls *t, const uint8_t *bytes, size_t count);
// TLS_OK when both sides are authenticated.
tls_result tls_handshake(tls *t);
tls_result tls_read(tls *t, uint8_t *bytes, size_t capacity, size_t *count);
// Encrypts 1 .. TLS_RECORD_BYTES bytes as one record, or nothing: TLS_AGAIN when the output buffer
// has no room.
tls_result tls_write(tls *t, const uint8_t *bytes, size_t count);
// Number of encrypted bytes that wait for the socket.
size_t tls_waiting(const tls *t);
// Says goodbye.
void tls_shutdown(tls *t);

// The waiting encrypted bytes. The buffer is the caller's until tls_give_back; NULL when nothing
// waits.
uint8_t *tls_take_output(tls *t, size_t *count);
void tls_give_back(tls_context *c, uint8_t *buffer);

// The id of the other side; only after tls_handshake returned TLS_OK.
const braid_id *tls_peer_id(const tls *t);
// The reason as a sentence, after TLS_FAILED.
const char *tls_reason(const tls *t);
// Number of key updates that this side started (for tests).
uint64_t tls_key_updates(const tls *t);
// Sets the number of records between two key updates (for tests).
void tls_set_records_per_key(tls *t, uint64_t records);

#endif
