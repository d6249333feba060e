#include "base/sha256.h"

#include "base/sha256_blocks.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <unistd.h>

static void assert_hash(const braid_hash *hash, const char *expected) {
    char text[2 * BRAID_ID_BYTES + 1];
    id_hex(hash->bytes, BRAID_ID_BYTES, text);
    assert_string_equal(text, expected);
}

// FIPS 180-2, appendix B, and the empty message of the NIST test vectors.
static void test_published_vectors(void **state) {
    (void)state;
    braid_hash hash = sha256_of(NULL, 0);
    assert_hash(&hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash = sha256_of("abc", 3);
    assert_hash(&hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    hash = sha256_of(two, strlen(two));
    assert_hash(&hash, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    sha256 s;
    sha256_init(&s);
    char piece[1000];
    memset(piece, 'a', sizeof piece);
    for (int i = 0; i < 1000; i++) sha256_update(&s, piece, sizeof piece);
    hash = sha256_final(&s);
    assert_hash(&hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_true(sha256_short("abc", 3) == 0xba7816bf8f01cfeau);
}

static void test_split_input_has_the_same_hash(void **state) {
    (void)state;
    rng r = seeded_rng("pieces", 1);
    uint8_t data[1000];
    random_bytes(&r, data, sizeof data);
    for (int round = 0; round < 500; round++) {
        size_t bytes = rng_below(&r, sizeof data + 1);
        braid_hash whole = sha256_of(data, bytes);
        sha256 s;
        sha256_init(&s);
        for (size_t at = 0; at < bytes;) {
            size_t piece = rng_below(&r, rng_below(&r, 2) ? 200 : 4);
            if (piece > bytes - at) piece = bytes - at;
            sha256_update(&s, data + at, piece);
            at += piece;
        }
        braid_hash pieces = sha256_final(&s);
        assert_true(hash_equal(&whole, &pieces));
    }
}

// Messages of different lengths, also behind other bytes.
static void test_pairs_have_the_hashes_of_single_messages(void **state) {
    (void)state;
    rng r = seeded_rng("pairs", 1);
    uint8_t data[2][1000];
    for (int i = 0; i < 2; i++) random_bytes(&r, data[i], sizeof data[i]);
    for (int round = 0; round < 500; round++) {
        const void *at[2] = {data[0], data[1]};
        size_t bytes[2], first = round % 3 ? 0 : rng_below(&r, 200);
        sha256 s[2];
        braid_hash out[2], expected;
        for (int i = 0; i < 2; i++) {
            bytes[i] = rng_below(&r, sizeof data[i] + 1);
            sha256_init(&s[i]);
            sha256_update(&s[i], data[0], first);
        }
        sha256_update_pair(s, at, bytes);
        for (int i = 0; i < 2; i++) {
            sha256 one;
            sha256_init(&one);
            sha256_update(&one, data[0], first);
            sha256_update(&one, at[i], bytes[i]);
            expected = sha256_final(&one);
            braid_hash got = sha256_final(&s[i]);
            assert_true(hash_equal(&expected, &got));
        }
        sha256_of_pair(at, bytes, out);
        for (int i = 0; i < 2; i++) {
            expected = sha256_of(at[i], bytes[i]);
            assert_true(hash_equal(&expected, &out[i]));
        }
    }
}

static void test_instruction_sets_agree(void **state) {
    (void)state;
    if (!sha256_has_x86()) {
        print_message("this processor has no SHA extensions: only the portable code is in use\n");
        skip();
    }
    rng r = seeded_rng("instruction sets", 2);
    uint8_t data[64 * 9 + 1];
    for (int round = 0; round < 200; round++) {
        uint32_t portable[8], extended[8];
        random_bytes(&r, portable, sizeof portable);
        memcpy(extended, portable, sizeof extended);
        random_bytes(&r, data, sizeof data);
        size_t blocks = rng_below(&r, 10);
        sha256_blocks_portable(portable, data + round % 2, blocks);
        sha256_blocks_x86(extended, data + round % 2, blocks);
        assert_memory_equal(portable, extended, sizeof portable);
    }
}

// Compares with coreutils, an independent implementation: random lengths around block boundaries
// and above.
static void test_agrees_with_sha256sum(void **state) {
    (void)state;
    enum { FILES = 40, MAX_BYTES = 5000 };
    rng r = seeded_rng("sha256sum", 3);
    const char *base = getenv("TMPDIR");
    char directory[512], path[600], command[1200];
    snprintf(directory, sizeof directory, "%s/braid-sha-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(directory));
    static uint8_t data[MAX_BYTES];
    braid_hash ours[FILES];
    for (int i = 0; i < FILES; i++) {
        size_t bytes = i < 20 ? 50 + (size_t)i : rng_below(&r, MAX_BYTES + 1);
        random_bytes(&r, data, bytes);
        ours[i] = sha256_of(data, bytes);
        snprintf(path, sizeof path, "%s/%02d", directory, i);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(data, 1, bytes, file), bytes);
        assert_int_equal(fclose(file), 0);
    }
    snprintf(command, sizeof command, "sha256sum '%s'/*; rm -r '%s'", directory, directory);
    FILE *theirs = popen(command, "r");
    assert_non_null(theirs);
    for (int i = 0; i < FILES; i++) {
        char line[1024];
        assert_non_null(fgets(line, sizeof line, theirs));
        line[2 * BRAID_ID_BYTES] = '\0';
        assert_hash(&ours[i], line);
    }
    assert_int_equal(pclose(theirs), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),
        cmocka_unit_test(test_split_input_has_the_same_hash),
        cmocka_unit_test(test_pairs_have_the_hashes_of_single_messages),
        cmocka_unit_test(test_instruction_sets_agree),
        cmocka_unit_test(test_agrees_with_sha256sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
