// Keys: their files, permissions, and the ids derived from them.
#include "net/identity.h"

#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/braid-identity-XXXXXX";
static char path[64], other_path[64];

static int setup(void **state) {
    (void)state;
    strcpy(directory + sizeof directory - 7, "XXXXXX");
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/peer.key", directory);
    snprintf(other_path, sizeof other_path, "%s/other.key", directory);
    return 0;
}

static unsigned files_in_directory(void) {
    unsigned count = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static int teardown(void **state) {
    (void)state;
    unlink(path);
    unlink(other_path);
    return rmdir(directory);
}

static void test_id_is_the_hash_of_the_key(void **state) {
    (void)state;
    identity *id = NULL;
    assert_int_equal(identity_new(&id, NULL), BRAID_OK);
    uint8_t raw[IDENTITY_KEY_BYTES];
    size_t bytes = sizeof raw;
    assert_int_equal(EVP_PKEY_get_raw_public_key(identity_key(id), raw, &bytes), 1);
    braid_hash hash = sha256_of(raw, sizeof raw);
    braid_id own = identity_id(id);
    assert_memory_equal(own.bytes, hash.bytes, sizeof own.bytes);
    // the certificate is signed with its own key
    assert_int_equal(X509_verify(identity_certificate(id), identity_key(id)), 1);
    identity_free(id);
}

static void test_saved_key_loads(void **state) {
    (void)state;
    identity *id = NULL, *again = NULL;
    struct stat s;
    assert_int_equal(identity_new(&id, NULL), BRAID_OK);
    assert_int_equal(identity_save(id, path, false, NULL), BRAID_OK);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(identity_load(path, &again, NULL), BRAID_OK);
    braid_id first = identity_id(id), second = identity_id(again);
    assert_true(id_equal(&first, &second));
    identity_free(again);
    identity_free(id);
    assert_int_equal(files_in_directory(), 1);
}

static void test_a_key_is_not_replaced_unasked(void **state) {
    (void)state;
    braid_error error = {0};
    identity *first = NULL, *second = NULL, *loaded = NULL;
    assert_int_equal(identity_new(&first, NULL), BRAID_OK);
    assert_int_equal(identity_new(&second, NULL), BRAID_OK);
    assert_int_equal(identity_save(first, path, false, NULL), BRAID_OK);
    assert_int_equal(identity_save(second, path, false, &error), BRAID_STATE);
    assert_non_null(strstr(error.text, "--force"));
    assert_int_equal(files_in_directory(), 1);
    assert_int_equal(identity_save(second, path, true, NULL), BRAID_OK);
    assert_int_equal(identity_load(path, &loaded, NULL), BRAID_OK);
    braid_id wanted = identity_id(second), got = identity_id(loaded);
    assert_true(id_equal(&wanted, &got));
    identity_free(first);
    identity_free(second);
    identity_free(loaded);
}

static void test_load_or_create(void **state) {
    (void)state;
    identity *first = NULL, *second = NULL;
    assert_int_equal(identity_load_or_create(path, &first, NULL), BRAID_OK);
    assert_int_equal(identity_load_or_create(path, &second, NULL), BRAID_OK);
    braid_id a = identity_id(first), b = identity_id(second);
    assert_true(id_equal(&a, &b));
    identity_free(first);
    identity_free(second);
}

static void expect_refusal(const char *file, const char *words) {
    braid_error error = {0};
    identity *id = NULL;
    assert_int_not_equal(identity_load(file, &id, &error), BRAID_OK);
    assert_null(id);
    if (strstr(error.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void write_file(const char *file, const char *text) {
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(file, 0600), 0);
}

static void test_invalid_keys_are_refused(void **state) {
    (void)state;
    expect_refusal(path, "braid keygen");
    write_file(path, "");
    expect_refusal(path, "PEM");
    write_file(path, "-----BEGIN PRIVATE KEY-----\nbm90aGluZw==\n-----END PRIVATE KEY-----\n");
    expect_refusal(path, "PEM");
    char large[IDENTITY_MAX_FILE_BYTES + 2];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    write_file(path, large);
    expect_refusal(path, "PEM");
    expect_refusal(directory, "not a plain file");
}

static void test_readable_key_files_are_refused(void **state) {
    (void)state;
    identity *id = NULL;
    assert_int_equal(identity_new(&id, NULL), BRAID_OK);
    assert_int_equal(identity_save(id, path, false, NULL), BRAID_OK);
    identity_free(id);
    static const mode_t open_modes[] = {0640, 0604, 0620, 0610, 0644};
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        expect_refusal(path, "chmod 600");
    }
}

static void test_symbolic_link(void **state) {
    (void)state;
    identity *id = NULL;
    assert_int_equal(identity_new(&id, NULL), BRAID_OK);
    assert_int_equal(identity_save(id, other_path, false, NULL), BRAID_OK);
    assert_int_equal(symlink(other_path, path), 0);
    expect_refusal(path, "symbolic link");
    // and a write replaces the link itself, not its target
    struct stat s;
    assert_int_equal(identity_save(id, path, true, NULL), BRAID_OK);
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISREG(s.st_mode));
    identity_free(id);
}

static void test_key_of_another_kind(void **state) {
    (void)state;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    FILE *f = fopen(path, "w");
    assert_int_equal(PEM_write_PKCS8PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    chmod(path, 0600);
    EVP_PKEY_free(key);
    expect_refusal(path, "Ed25519");
}

static void test_encrypted_key_does_not_ask_the_terminal(void **state) {
    (void)state;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    FILE *f = fopen(path, "w");
    char pass[] = "secret";
    assert_int_equal(PEM_write_PKCS8PrivateKey(f, key, EVP_aes_256_cbc(), pass, 6, NULL, NULL), 1);
    fclose(f);
    chmod(path, 0600);
    EVP_PKEY_free(key);
    expect_refusal(path, "unencrypted");
}

static void test_unwritable_places_are_reported(void **state) {
    (void)state;
    identity *id = NULL;
    braid_error error = {0};
    char nowhere[96];
    snprintf(nowhere, sizeof nowhere, "%s/missing/peer.key", directory);
    assert_int_equal(identity_new(&id, NULL), BRAID_OK);
    assert_int_equal(identity_save(id, nowhere, false, &error), BRAID_IO);
    assert_non_null(strstr(error.text, nowhere));
    identity_free(id);
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_is_the_hash_of_the_key),
        FILE_TEST(test_saved_key_loads),
        FILE_TEST(test_a_key_is_not_replaced_unasked),
        FILE_TEST(test_load_or_create),
        FILE_TEST(test_invalid_keys_are_refused),
        FILE_TEST(test_readable_key_files_are_refused),
        FILE_TEST(test_symbolic_link),
        FILE_TEST(test_key_of_another_kind),
        FILE_TEST(test_encrypted_key_does_not_ask_the_terminal),
        FILE_TEST(test_unwritable_places_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
