#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *memory;
    uint32_t spares;
    uint8_t *spare[TLS_SPARE_BUFFERS];
};

struct tls {
    tls_context *context;
    SSL *ssl;
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
    uint64_t records, records_per_key, key_updates;
    bool dials, verified;
    braid_id expected, peer;
    char reason[256];
};

// --- OpenSSL reads from `in` and writes to `out` through a custom BIO

static int memory_read(BIO *bio, char *bytes, size_t capacity, size_t *count) {
    tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *count = capacity < t->in_bytes ? capacity : t->in_bytes;
    if (*count == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(bytes, t->in, *count);
    t->in += *count;
    t->in_bytes -= *count;
    return 1;
}

static uint8_t *buffer_take(tls_context *c) { return c->spares > 0 ? c->spare[--c->spares] : malloc(TLS_OUTPUT_BYTES); }

// A full buffer is an error and not a wait: tls_write leaves TLS_RESERVED_BYTES free, so only a
// peer that makes TLS respond without reading the responses gets here.
static int memory_write(BIO *bio, const char *bytes, size_t size, size_t *count) {
    tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *count = 0;
    if (t->out == NULL) t->out = buffer_take(t->context);
    if (t->out == NULL || size > TLS_OUTPUT_BYTES - t->out_bytes) return 0;
    memcpy(t->out + t->out_bytes, bytes, size);
    t->out_bytes += size;
    *count = size;
    return 1;
}

static long memory_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int memory_create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

static BIO_METHOD *memory_method(void) {
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "memory of a link");
    if (m == NULL) return NULL;
    if (BIO_meth_set_read_ex(m, memory_read) && BIO_meth_set_write_ex(m, memory_write) &&
        BIO_meth_set_ctrl(m, memory_control) && BIO_meth_set_create(m, memory_create)) {
        return m;
    }
    BIO_meth_free(m);
    return NULL;
}

// --- the certificate

static bool verify_key(tls *t, X509 *certificate) {
    EVP_PKEY *key = certificate != NULL ? X509_get0_pubkey(certificate) : NULL;
    uint8_t raw[IDENTITY_KEY_BYTES];
    size_t raw_bytes = sizeof raw;
    if (key == NULL || !EVP_PKEY_is_a(key, "ED25519") || !EVP_PKEY_get_raw_public_key(key, raw, &raw_bytes) ||
        raw_bytes != sizeof raw) {
        snprintf(t->reason, sizeof t->reason, "its certificate does not hold an Ed25519 key, so it has no peer id");
        return false;
    }
    t->peer = identity_id_of(raw);
    if (t->dials && !id_equal(&t->peer, &t->expected)) {
        char expected[2 * BRAID_ID_BYTES + 1], shown[2 * BRAID_ID_BYTES + 1];
        id_hex(t->expected.bytes, BRAID_ID_BYTES, expected);
        id_hex(t->peer.bytes, BRAID_ID_BYTES, shown);
        snprintf(t->reason, sizeof t->reason, "wrong certificate: peer %s was expected and peer %s answered", expected,
                 shown);
        return false;
    }
    t->verified = true;
    return true;
}

// Replaces OpenSSL's verification of a certificate chain: the key alone is the identity.
static int verify(X509_STORE_CTX *store, void *unused) {
    (void)unused;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    if (verify_key(SSL_get_app_data(ssl), X509_STORE_CTX_get0_cert(store))) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

// --- context

static bool context_set(SSL_CTX *ssl, const identity *id) {
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    // idle links release their 34 KiB of record buffers
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_max_cert_list(ssl, TLS_MAX_CERTIFICATE_BYTES);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(ssl, verify, NULL);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) && SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_num_tickets(ssl, 0) &&
           SSL_CTX_set_ciphersuites(ssl,
                                    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") &&
           SSL_CTX_set1_sigalgs_list(ssl, "ed25519") && SSL_CTX_set1_client_sigalgs_list(ssl, "ed25519") &&
           SSL_CTX_use_certificate(ssl, identity_certificate(id)) && SSL_CTX_use_PrivateKey(ssl, identity_key(id));
}

braid_err tls_context_new(const identity *id, tls_context **out, braid_error *error) {
    tls_context *c = calloc(1, sizeof *c);
    if (c == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for TLS");
    c->memory = memory_method();
    c->ssl = SSL_CTX_new(TLS_method());
    if (c->memory == NULL || c->ssl == NULL || !context_set(c->ssl, id)) {
        const char *why = ERR_reason_error_string(ERR_get_error());
        ERR_clear_error();
        tls_context_free(c);
        return braid_fail(error, BRAID_IDENTITY, "TLS could not be set up: OpenSSL says: %s",
                          why != NULL ? why : "no reason");
    }
    *out = c;
    return BRAID_OK;
}

void tls_context_free(tls_context *c) {
    if (c == NULL) return;
    while (c->spares > 0) free(c->spare[--c->spares]);
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->memory);
    free(c);
}

// --- connection

static bool connection_set(tls *t) {
    t->ssl = SSL_new(t->context->ssl);
    BIO *bio = BIO_new(t->context->memory);
    if (t->ssl == NULL || bio == NULL) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, t);
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_app_data(t->ssl, t);
    if (t->dials) {
        SSL_set_connect_state(t->ssl);
    } else {
        SSL_set_accept_state(t->ssl);
    }
    return true;
}

void tls_context_cleanse(tls_context *c) { SSL_CTX_set_options(c->ssl, SSL_OP_CLEANSE_PLAINTEXT); }

tls *tls_new(tls_context *c, const braid_id *expected) {
    tls *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    t->context = c;
    t->records_per_key = TLS_RECORDS_PER_KEY;
    t->dials = expected != NULL;
    if (expected != NULL) t->expected = *expected;
    if (connection_set(t)) return t;
    ERR_clear_error();
    tls_free(t);
    return NULL;
}

void tls_free(tls *t) {
    if (t == NULL) return;
    SSL_free(t->ssl);
    if (t->out != NULL) tls_give_back(t->context, t->out);
    free(t);
}

void tls_feed(tls *t, const uint8_t *bytes, size_t count) {
    t->in = bytes;
    t->in_bytes = count;
}

static tls_result failed(tls *t) {
    unsigned long code = ERR_peek_error();
    const char *why = ERR_reason_error_string(code);
    if (t->reason[0] != '\0') return TLS_FAILED;  // verify_key has a more precise reason
    if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER || ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST ||
        ERR_GET_REASON(code) == SSL_R_UNSUPPORTED_PROTOCOL) {
        snprintf(t->reason, sizeof t->reason, "it does not speak TLS 1.3, so it is not a braid peer (%s)",
                 why != NULL ? why : "no reason");
    } else {
        snprintf(t->reason, sizeof t->reason, "TLS failed: %s", why != NULL ? why : "the output buffer is full");
    }
    return TLS_FAILED;
}

static tls_result result_of(tls *t, int returned) {
    switch (SSL_get_error(t->ssl, returned)) {
    case SSL_ERROR_NONE: return TLS_OK;
    case SSL_ERROR_WANT_READ: return TLS_AGAIN;
    case SSL_ERROR_ZERO_RETURN: return TLS_CLOSED;
    default: return failed(t);
    }
}

tls_result tls_handshake(tls *t) {
    ERR_clear_error();
    tls_result result = result_of(t, SSL_do_handshake(t->ssl));
    if (result != TLS_OK || t->verified) return result;
    snprintf(t->reason, sizeof t->reason, "it sent no certificate");
    return TLS_FAILED;
}

tls_result tls_read(tls *t, uint8_t *bytes, size_t capacity, size_t *count) {
    ERR_clear_error();
    *count = 0;
    return result_of(t, SSL_read_ex(t->ssl, bytes, capacity, count));
}

tls_result tls_write(tls *t, const uint8_t *bytes, size_t count) {
    if (t->out_bytes + count + TLS_RECORD_EXTRA > TLS_OUTPUT_BYTES - TLS_RESERVED_BYTES) return TLS_AGAIN;
    ERR_clear_error();
    if (++t->records > t->records_per_key) {
        t->records = 1;
        t->key_updates++;
        if (SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return failed(t);
    }
    size_t written = 0;
    return result_of(t, SSL_write_ex(t->ssl, bytes, count, &written));
}

void tls_shutdown(tls *t) {
    if (!SSL_is_init_finished(t->ssl)) return;
    ERR_clear_error();
    SSL_shutdown(t->ssl);
    ERR_clear_error();
}

size_t tls_waiting(const tls *t) { return t->out_bytes; }

uint8_t *tls_take_output(tls *t, size_t *count) {
    *count = t->out_bytes;
    if (t->out_bytes == 0) return NULL;
    uint8_t *out = t->out;
    t->out = NULL;
    t->out_bytes = 0;
    return out;
}

void tls_give_back(tls_context *c, uint8_t *buffer) {
    if (buffer == NULL) return;
    if (c->spares == TLS_SPARE_BUFFERS) {
        free(buffer);
    } else {
        c->spare[c->spares++] = buffer;
    }
}

const braid_id *tls_peer_id(const tls *t) { return &t->peer; }
const char *tls_reason(const tls *t) { return t->reason; }
uint64_t tls_key_updates(const tls *t) { return t->key_updates; }
void tls_set_records_per_key(tls *t, uint64_t records) { t->records_per_key = records; }
