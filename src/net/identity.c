#include "net/identity.h"

#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct identity {
    braid_id id;
    EVP_PKEY *key;
    X509 *certificate;
};

static braid_err openssl_fail(braid_error *error, const char *what) {
    const char *why = ERR_reason_error_string(ERR_get_error());
    ERR_clear_error();
    return braid_fail(error, BRAID_IDENTITY, "%s: OpenSSL says: %s", what, why != NULL ? why : "no reason");
}

braid_id identity_id_of(const uint8_t key[IDENTITY_KEY_BYTES]) {
    braid_hash hash = sha256_of(key, IDENTITY_KEY_BYTES);
    braid_id id;
    memcpy(id.bytes, hash.bytes, sizeof id.bytes);
    return id;
}

// TLS requires a certificate, but only its key is used. Name, dates and issuer are never checked,
// so it is valid for the whole range of X.509.
static X509 *certificate_make(EVP_PKEY *key, const braid_id *id) {
    char name[2 * BRAID_ID_BYTES + 1];
    id_hex(id->bytes, BRAID_ID_BYTES, name);
    X509 *x = X509_new();
    if (x == NULL) return NULL;
    X509_NAME *subject = X509_get_subject_name(x);
    bool ok = X509_set_version(x, X509_VERSION_3) && ASN1_INTEGER_set(X509_get_serialNumber(x), 1) &&
              ASN1_TIME_set_string(X509_getm_notBefore(x), "19700101000000Z") &&
              ASN1_TIME_set_string(X509_getm_notAfter(x), "99991231235959Z") &&
              X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) &&
              X509_set_issuer_name(x, subject) && X509_set_pubkey(x, key) && X509_sign(x, key, NULL) > 0;
    if (ok) return x;
    X509_free(x);
    return NULL;
}

// Takes ownership of `key`, also on failure.
static braid_err identity_wrap(EVP_PKEY *key, const char *origin, identity **out, braid_error *error) {
    uint8_t raw[IDENTITY_KEY_BYTES];
    size_t raw_bytes = sizeof raw;
    if (!EVP_PKEY_is_a(key, "ED25519") || !EVP_PKEY_get_raw_public_key(key, raw, &raw_bytes) ||
        raw_bytes != sizeof raw) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return braid_fail(
            error, BRAID_IDENTITY,
            "%s holds a key of another kind, a peer's key is Ed25519: make one with `braid keygen --out PATH`", origin);
    }
    identity *id = calloc(1, sizeof *id);
    if (id == NULL) {
        EVP_PKEY_free(key);
        return braid_fail(error, BRAID_MEMORY, "no memory for an identity");
    }
    id->key = key;
    id->id = identity_id_of(raw);
    id->certificate = certificate_make(key, &id->id);
    if (id->certificate == NULL) {
        identity_free(id);
        return openssl_fail(error, "the certificate could not be made");
    }
    *out = id;
    return BRAID_OK;
}

braid_err identity_new(identity **out, braid_error *error) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (key == NULL) return openssl_fail(error, "a key could not be made");
    return identity_wrap(key, "the new identity", out, error);
}

void identity_free(identity *id) {
    if (id == NULL) return;
    X509_free(id->certificate);
    EVP_PKEY_free(id->key);
    free(id);
}

braid_id identity_id(const identity *id) { return id->id; }
void *identity_key(const identity *id) { return id->key; }
void *identity_certificate(const identity *id) { return id->certificate; }

static braid_err key_file_check(int fd, const char *path, braid_error *error) {
    struct stat s;
    if (fstat(fd, &s) != 0) return braid_fail(error, BRAID_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode)) return braid_fail(error, BRAID_IDENTITY, "%s is not a plain file, so it cannot be a key", path);
    if ((s.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return braid_fail(error, BRAID_IDENTITY, "the key file %s is open to other users (mode %03o): run `chmod 600 %s`",
                          path, (unsigned)(s.st_mode & 0777), path);
    }
    if (s.st_uid != geteuid() && geteuid() != 0) {
        return braid_fail(error, BRAID_IDENTITY,
                          "the key file %s belongs to another user (uid %u): use a key of your own", path,
                          (unsigned)s.st_uid);
    }
    return BRAID_OK;
}

static braid_err key_file_open(const char *path, int *out, braid_error *error) {
    // O_NONBLOCK: a named pipe in place of the key must not block before it is recognised
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP) {
        return braid_fail(error, BRAID_IDENTITY, "%s is a symbolic link: name the key file itself", path);
    }
    if (fd < 0 && errno == ENOENT) {
        return braid_fail(error, BRAID_IO, "there is no key file %s: make one with `braid keygen --out %s`", path,
                          path);
    }
    if (fd < 0) return braid_fail(error, BRAID_IO, "the key file %s could not be opened: %s", path, strerror(errno));
    braid_err e = key_file_check(fd, path, error);
    if (e != BRAID_OK) {
        close(fd);
        return e;
    }
    *out = fd;
    return BRAID_OK;
}

// Reads to the end of the file or to `capacity`; -1 with errno.
static ssize_t read_all(int fd, char *bytes, size_t capacity) {
    size_t used = 0;
    while (used < capacity) {
        ssize_t n = read(fd, bytes + used, capacity - used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

// Without it OpenSSL would prompt for the passphrase of an encrypted key.
static int no_pass_phrase(char *text, int size, int writing, void *context) {
    (void)text, (void)size, (void)writing, (void)context;
    return -1;
}

static EVP_PKEY *key_parse(const char *pem, size_t bytes) {
    BIO *bio = BIO_new_mem_buf(pem, (int)bytes);
    if (bio == NULL) return NULL;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL);
    BIO_free(bio);
    return key;
}

braid_err identity_load(const char *path, identity **out, braid_error *error) {
    int fd = -1;
    braid_err e = key_file_open(path, &fd, error);
    if (e != BRAID_OK) return e;
    char pem[IDENTITY_MAX_FILE_BYTES + 1];
    ssize_t bytes = read_all(fd, pem, sizeof pem);
    int cause = errno;
    close(fd);
    EVP_PKEY *key = bytes > 0 && bytes <= IDENTITY_MAX_FILE_BYTES ? key_parse(pem, (size_t)bytes) : NULL;
    OPENSSL_cleanse(pem, sizeof pem);
    ERR_clear_error();
    if (bytes < 0) return braid_fail(error, BRAID_IO, "the key file %s could not be read: %s", path, strerror(cause));
    if (key == NULL) {
        return braid_fail(error, BRAID_IDENTITY,
                          "%s is not an unencrypted PEM private key: make one with `braid keygen --out PATH`", path);
    }
    return identity_wrap(key, path, out, error);
}

static bool write_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t n = write(fd, bytes, count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        bytes += n;
        count -= (size_t)n;
    }
    return fsync(fd) == 0;
}

// The new name is durable only when the directory is synced too.
static bool directory_sync(const char *path) {
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = fsync(fd) == 0;
    close(fd);
    return ok;
}

// rename replaces an existing file, link does not. Each is atomic, even with concurrent writers.
static braid_err key_file_place(const char *fresh, const char *path, bool replace, braid_error *error) {
    int failed = replace ? rename(fresh, path) : link(fresh, path);
    int cause = errno;
    if (failed || !replace) unlink(fresh);
    if (failed && cause == EEXIST) {
        return braid_fail(error, BRAID_STATE,
                          "%s exists, and a replaced key is lost for good: name another file, or give --force",
                          path);
    }
    if (failed)
        return braid_fail(error, BRAID_IO, "the key file %s could not be put in place: %s", path, strerror(cause));
    if (!directory_sync(path))
        return braid_fail(error, BRAID_IO, "the directory of %s could not be synced: %s", path, strerror(errno));
    return BRAID_OK;
}

static braid_err key_file_write(const char *pem, size_t bytes, const char *path, bool replace, braid_error *error) {
    uint64_t suffix = 0;
    char fresh[PATH_MAX];
    if (RAND_bytes((unsigned char *)&suffix, sizeof suffix) != 1) return openssl_fail(error, "the system provides no random numbers");
    int length = snprintf(fresh, sizeof fresh, "%s.%016llx", path, (unsigned long long)suffix);
    if (length < 0 || (size_t)length >= sizeof fresh)
        return braid_fail(error, BRAID_ARGUMENT, "the path of the key file is too long");
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return braid_fail(error, BRAID_IO, "the key file %s could not be made: %s", path, strerror(errno));
    bool ok = fchmod(fd, 0600) == 0 && write_all(fd, pem, bytes);
    int cause = errno;
    ok = close(fd) == 0 && ok;
    if (ok) return key_file_place(fresh, path, replace, error);
    unlink(fresh);
    return braid_fail(error, BRAID_IO, "the key file %s could not be written: %s", path, strerror(cause));
}

braid_err identity_save(const identity *id, const char *path, bool replace, braid_error *error) {
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio == NULL || !PEM_write_bio_PKCS8PrivateKey(bio, id->key, NULL, NULL, 0, NULL, NULL)) {
        BIO_free(bio);
        return openssl_fail(error, "the key could not be written as PEM");
    }
    char *pem = NULL;
    long bytes = BIO_get_mem_data(bio, &pem);
    braid_err e = key_file_write(pem, (size_t)bytes, path, replace, error);
    OPENSSL_cleanse(pem, (size_t)bytes);
    BIO_free(bio);
    return e;
}

braid_err identity_load_or_create(const char *path, identity **out, braid_error *error) {
    struct stat s;
    if (lstat(path, &s) == 0 || errno != ENOENT) return identity_load(path, out, error);
    identity *id = NULL;
    braid_err e = identity_new(&id, error);
    if (id == NULL) return e;
    e = identity_save(id, path, false, error);
    if (e == BRAID_OK) {
        *out = id;
        return BRAID_OK;
    }
    identity_free(id);
    // another process created the file meanwhile; its key is used
    return e == BRAID_STATE ? identity_load(path, out, error) : e;
}

braid_err identity_lock(const char *path, int *lock, braid_error *error) {
    *lock = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0) return BRAID_OK;
    bool held = errno == EWOULDBLOCK;
    close(*lock);
    *lock = -1;
    if (!held) return BRAID_OK;
    return braid_fail(error, BRAID_STATE, "the key %s is in use by another process on this machine; stop that process first, or give this peer a key of its own (`braid keygen`)", path);
}
