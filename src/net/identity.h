// The identity of a peer: an Ed25519 key (RFC 8032). Its id is the SHA-256 of the 32 raw bytes of
// the public key.
#ifndef BRAID_NET_IDENTITY_H
#define BRAID_NET_IDENTITY_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>

enum { IDENTITY_KEY_BYTES = 32, IDENTITY_MAX_FILE_BYTES = 4096 };

typedef struct identity identity;

// Generates a key, in memory only.
braid_err identity_new(identity **out, braid_error *error);
// Reads a PEM key file. Refuses a symbolic link and a file that other users may read; the error
// names the fix.
braid_err identity_load(const char *path, identity **out, braid_error *error);
// Writes the key as PEM (PKCS #8) with mode 0600, atomically. An existing file is BRAID_STATE
// unless `replace`.
braid_err identity_save(const identity *id, const char *path, bool replace, braid_error *error);
// identity_load, or identity_new + identity_save when the file does not exist.
braid_err identity_load_or_create(const char *path, identity **out, braid_error *error);
void identity_free(identity *id);

braid_id identity_id(const identity *id);
// The id of a raw public key.
braid_id identity_id_of(const uint8_t key[IDENTITY_KEY_BYTES]);

// For net/tls.c: the key (EVP_PKEY) and a self-signed certificate (X509), made in memory. Borrowed.
void *identity_key(const identity *id);
void *identity_certificate(const identity *id);

// Locks the key file, so that no other process of this machine uses the identity: two would push
// each other out of the run without end. Held until `*lock` is closed; -1 if the file system has no
// locks.
braid_err identity_lock(const char *path, int *lock, braid_error *error);

#endif
