// TLS over memory: two connections joined by hand.
#include "net/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

typedef struct side {
    identity *identity;
    tls_context *context;
    tls *tls;
} side;

static side dialer, acceptor;

static void side_open(side *s, const braid_id *expected) {
    if (s->identity == NULL) assert_int_equal(identity_new(&s->identity, NULL), BRAID_OK);
    if (s->context == NULL) assert_int_equal(tls_context_new(s->identity, &s->context, NULL), BRAID_OK);
    s->tls = tls_new(s->context, expected);
    assert_non_null(s->tls);
}

static void side_close(side *s) {
    tls_free(s->tls);
    tls_context_free(s->context);
    identity_free(s->identity);
    *s = (side){0};
}

static int setup(void **state) {
    (void)state;
    side_open(&acceptor, NULL);
    braid_id id = identity_id(acceptor.identity);
    side_open(&dialer, &id);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    side_close(&dialer);
    side_close(&acceptor);
    return 0;
}

// Transfers the output of one side to the other, which then takes a step of its handshake.
static tls_result pass_on(side *from, side *to) {
    size_t count = 0;
    uint8_t *bytes = tls_take_output(from->tls, &count);
    tls_feed(to->tls, bytes, count);
    tls_result result = tls_handshake(to->tls);
    tls_give_back(from->context, bytes);
    return result;
}

static void shake_hands(void) {
    assert_int_equal(tls_handshake(dialer.tls), TLS_AGAIN);
    assert_int_equal(pass_on(&dialer, &acceptor), TLS_AGAIN);
    assert_int_equal(pass_on(&acceptor, &dialer), TLS_OK);
    assert_int_equal(pass_on(&dialer, &acceptor), TLS_OK);
}

static size_t carry(side *from, side *to, uint8_t *out, size_t capacity) {
    size_t count = 0, all = 0, got = 0;
    uint8_t *bytes = tls_take_output(from->tls, &count);
    tls_feed(to->tls, bytes, count);
    while (tls_read(to->tls, out + all, capacity - all, &got) == TLS_OK) all += got;
    tls_give_back(from->context, bytes);
    return all;
}

static void test_both_sides_learn_the_other_id(void **state) {
    (void)state;
    shake_hands();
    braid_id a = identity_id(acceptor.identity), d = identity_id(dialer.identity);
    assert_true(id_equal(tls_peer_id(dialer.tls), &a));
    assert_true(id_equal(tls_peer_id(acceptor.tls), &d));
    uint8_t out[64];
    assert_int_equal(tls_write(dialer.tls, (const uint8_t *)"one", 3), TLS_OK);
    assert_int_equal(tls_write(dialer.tls, (const uint8_t *)"two", 3), TLS_OK);
    assert_int_equal(carry(&dialer, &acceptor, out, sizeof out), 6);
    assert_memory_equal(out, "onetwo", 6);
    tls_shutdown(dialer.tls);
    size_t count = 0;
    uint8_t *bytes = tls_take_output(dialer.tls, &count);
    tls_feed(acceptor.tls, bytes, count);
    assert_int_equal(tls_read(acceptor.tls, out, sizeof out, &count), TLS_CLOSED);
    tls_give_back(dialer.context, bytes);
}

static void test_wrong_id_is_named(void **state) {
    (void)state;
    tls_free(dialer.tls);
    braid_id wrong = identity_id(acceptor.identity);
    wrong.bytes[31] ^= 0x80;
    side_open(&dialer, &wrong);
    assert_int_equal(tls_handshake(dialer.tls), TLS_AGAIN);
    assert_int_equal(pass_on(&dialer, &acceptor), TLS_AGAIN);
    assert_int_equal(pass_on(&acceptor, &dialer), TLS_FAILED);
    assert_non_null(strstr(tls_reason(dialer.tls), "wrong certificate"));
    assert_int_equal(pass_on(&dialer, &acceptor), TLS_FAILED);  // the alert informs the other side
    assert_non_null(strstr(tls_reason(acceptor.tls), "alert"));
}

static void test_altered_bytes(void **state) {
    (void)state;
    shake_hands();
    assert_int_equal(tls_write(dialer.tls, (const uint8_t *)"secret", 6), TLS_OK);
    size_t count = 0;
    uint8_t out[64], *bytes = tls_take_output(dialer.tls, &count);
    bytes[count / 2] ^= 1;
    tls_feed(acceptor.tls, bytes, count);
    assert_int_equal(tls_read(acceptor.tls, out, sizeof out, &count), TLS_FAILED);
    assert_non_null(strstr(tls_reason(acceptor.tls), "TLS failed"));
    tls_give_back(dialer.context, bytes);
}

static void test_not_tls(void **state) {
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    tls_feed(acceptor.tls, (const uint8_t *)request, sizeof request - 1);
    assert_int_equal(tls_handshake(acceptor.tls), TLS_FAILED);
    assert_non_null(strstr(tls_reason(acceptor.tls), "not a braid peer"));
}

static void test_fresh_keys_while_bytes_flow(void **state) {
    (void)state;
    shake_hands();
    tls_set_records_per_key(dialer.tls, 10);
    uint8_t out[64];
    for (unsigned i = 0; i < 100; i++) {
        uint8_t value = (uint8_t)i;
        assert_int_equal(tls_write(dialer.tls, &value, 1), TLS_OK);
        assert_int_equal(carry(&dialer, &acceptor, out, sizeof out), 1);
        assert_int_equal(out[0], value);
        assert_int_equal(tls_write(acceptor.tls, &value, 1), TLS_OK);
        assert_int_equal(carry(&acceptor, &dialer, out, sizeof out), 1);
    }
    assert_int_equal(tls_key_updates(dialer.tls), 9);
    assert_int_equal(tls_key_updates(acceptor.tls), 0);
}

static void test_output_is_bounded(void **state) {
    (void)state;
    static uint8_t bytes[TLS_RECORD_BYTES];
    shake_hands();
    unsigned records = 0;
    while (tls_write(dialer.tls, bytes, sizeof bytes) == TLS_OK) records++;
    assert_true(records >= 5 && records <= TLS_OUTPUT_BYTES / TLS_RECORD_BYTES);
    assert_true(tls_waiting(dialer.tls) <= TLS_OUTPUT_BYTES - TLS_RESERVED_BYTES);
}

// --- a foreign client, with certificates that braid never creates

typedef struct stranger {
    SSL_CTX *context;
    SSL *ssl;
    EVP_PKEY *key;
    X509 *certificate;
} stranger;

static stranger stranger_open(const char *kind, const char *curve) {
    stranger s = {.context = SSL_CTX_new(TLS_client_method())};
    if (kind != NULL) {
        s.key = curve != NULL ? EVP_PKEY_Q_keygen(NULL, NULL, kind, curve) : EVP_PKEY_Q_keygen(NULL, NULL, kind);
        s.certificate = X509_new();
        X509_set_pubkey(s.certificate, s.key);
        // long expired; the dates are never checked
        X509_gmtime_adj(X509_getm_notBefore(s.certificate), -7200);
        X509_gmtime_adj(X509_getm_notAfter(s.certificate), -3600);
        assert_true(X509_sign(s.certificate, s.key, curve != NULL ? EVP_sha256() : NULL) > 0);
        assert_int_equal(SSL_CTX_use_certificate(s.context, s.certificate), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(s.context, s.key), 1);
    }
    s.ssl = SSL_new(s.context);
    SSL_set_bio(s.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(s.ssl);
    return s;
}

static void stranger_close(stranger *s) {
    SSL_free(s->ssl);
    SSL_CTX_free(s->context);
    X509_free(s->certificate);
    EVP_PKEY_free(s->key);
}

static tls_result stranger_says(stranger *s) {
    char *bytes = NULL;
    SSL_do_handshake(s->ssl);
    long count = BIO_get_mem_data(SSL_get_wbio(s->ssl), &bytes);
    tls_feed(acceptor.tls, (const uint8_t *)bytes, (size_t)count);
    tls_result result = tls_handshake(acceptor.tls);
    BIO_reset(SSL_get_wbio(s->ssl));
    size_t answer_bytes = 0;
    uint8_t *answer = tls_take_output(acceptor.tls, &answer_bytes);
    if (answer != NULL) BIO_write(SSL_get_rbio(s->ssl), answer, (int)answer_bytes);
    tls_give_back(acceptor.context, answer);
    return result;
}

static void test_clock_does_not_matter(void **state) {
    (void)state;
    stranger s = stranger_open("ED25519", NULL);
    assert_int_equal(stranger_says(&s), TLS_AGAIN);
    assert_int_equal(stranger_says(&s), TLS_OK);
    stranger_close(&s);
}

static void test_other_kinds_of_keys(void **state) {
    (void)state;
    stranger s = stranger_open("EC", "P-256");
    assert_int_equal(stranger_says(&s), TLS_AGAIN);
    assert_int_equal(stranger_says(&s), TLS_FAILED);
    stranger_close(&s);
}

static void test_no_certificate(void **state) {
    (void)state;
    stranger s = stranger_open(NULL, NULL);
    assert_int_equal(stranger_says(&s), TLS_AGAIN);
    assert_int_equal(stranger_says(&s), TLS_FAILED);
    assert_non_null(strstr(tls_reason(acceptor.tls), "certificate"));
    stranger_close(&s);
}

static void test_older_tls(void **state) {
    (void)state;
    stranger s = stranger_open("ED25519", NULL);
    SSL_set_max_proto_version(s.ssl, TLS1_2_VERSION);
    assert_int_equal(stranger_says(&s), TLS_FAILED);
    assert_non_null(strstr(tls_reason(acceptor.tls), "TLS 1.3"));
    stranger_close(&s);
}

#define PAIR_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR_TEST(test_both_sides_learn_the_other_id),
        PAIR_TEST(test_wrong_id_is_named),
        PAIR_TEST(test_altered_bytes),
        PAIR_TEST(test_not_tls),
        PAIR_TEST(test_fresh_keys_while_bytes_flow),
        PAIR_TEST(test_output_is_bounded),
        PAIR_TEST(test_clock_does_not_matter),
        PAIR_TEST(test_other_kinds_of_keys),
        PAIR_TEST(test_no_certificate),
        PAIR_TEST(test_older_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
