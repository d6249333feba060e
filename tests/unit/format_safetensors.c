#include "format/safetensors.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static safetensors_tensor example[] = {
    {.name = "model.norm.weight", .dims = 1, .shape = {5}},
    {.name = "a \"quoted\" name", .dims = 2, .shape = {3, 7}},
    {.name = "scalar", .dims = 0},
};
enum { EXAMPLES = sizeof example / sizeof example[0], EXAMPLE_DATA = 4 * (5 + 21 + 1) };

static braid_err parse_header(const char *header, uint64_t data_bytes, safetensors **out, braid_error *error) {
    uint64_t length = strlen(header);
    uint8_t *prefix = malloc(8 + length);
    assert_non_null(prefix);
    memcpy(prefix, &length, 8);
    memcpy(prefix + 8, header, length);
    braid_err err = safetensors_parse(prefix, 8 + length, 8 + length + data_bytes, "file.safetensors", out, error);
    free(prefix);
    return err;
}

static void test_written_output_reads_back(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *prefix = safetensors_prefix(example, EXAMPLES, NULL, 0, &bytes);
    assert_non_null(prefix);
    assert_int_equal(bytes % 8, 0);
    assert_int_equal(safetensors_prefix_bytes(prefix, bytes + EXAMPLE_DATA), bytes);
    safetensors *s = NULL;
    assert_int_equal(safetensors_parse(prefix, bytes, bytes + EXAMPLE_DATA, "x", &s, NULL), BRAID_OK);
    assert_int_equal(safetensors_count(s), EXAMPLES);
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        const safetensors_tensor *t = safetensors_find(s, example[i].name);
        assert_ptr_equal(t, safetensors_at(s, i));
        assert_int_equal(t->dtype, SAFETENSORS_F32);
        assert_int_equal(t->dims, example[i].dims);
        assert_int_equal(t->offset, example[i].offset);
        assert_int_equal(t->bytes, example[i].bytes);
        assert_memory_equal(t->shape, example[i].shape, t->dims * sizeof t->shape[0]);
    }
    assert_null(safetensors_find(s, "other"));
    safetensors_free(s);
    free(prefix);
}

static void test_notes_read_back(void **state) {
    (void)state;
    const safetensors_note notes[] = {{"one", "1"}, {"quoted \"key\"", "its text"}};
    size_t bytes;
    uint8_t *prefix = safetensors_prefix(example, EXAMPLES, notes, 2, &bytes);
    assert_non_null(prefix);
    safetensors *s = NULL;
    assert_int_equal(safetensors_parse(prefix, bytes, bytes + EXAMPLE_DATA, "x", &s, NULL), BRAID_OK);
    assert_int_equal(safetensors_count(s), EXAMPLES);
    for (int i = 0; i < 2; i++) assert_string_equal(safetensors_metadata(s, notes[i].key), notes[i].text);
    assert_string_equal(safetensors_metadata(s, "format"), "pt");
    assert_null(safetensors_metadata(s, "two"));
    safetensors_free(s);
    free(prefix);
    const char *odd[] = {"{}", "{\"__metadata__\":[]}", "{\"__metadata__\":{\"one\":1}}"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(parse_header(odd[i], 0, &s, NULL), BRAID_OK);
        assert_null(safetensors_metadata(s, "one"));
        safetensors_free(s);
    }
}

static void test_a_truncated_file_is_refused(void **state) {
    (void)state;
    size_t bytes;
    uint8_t *prefix = safetensors_prefix(example, EXAMPLES, NULL, 0, &bytes);
    assert_non_null(prefix);
    for (uint64_t file = 8; file < bytes + EXAMPLE_DATA; file++) {
        safetensors *s = NULL;
        braid_error error = {0};
        uint64_t need = safetensors_prefix_bytes(prefix, file);
        assert_int_equal(need, file < bytes ? 0 : bytes);
        if (need) {
            assert_int_equal(safetensors_parse(prefix, bytes, file, "cut.safetensors", &s, &error), BRAID_FORMAT);
            assert_non_null(strstr(error.text, "cut.safetensors"));
        }
    }
    free(prefix);
}

static void test_false_headers_are_refused(void **state) {
    (void)state;
    const struct {
        const char *header;
        uint64_t data;
    } bad[] = {
        {"[]", 0},
        {"{\"a\":1}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551615]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[0,4]}}",
         4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[4,8]}}",
         8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        safetensors *s = NULL;
        braid_error error = {0};
        if (parse_header(bad[i].header, bad[i].data, &s, &error) != BRAID_FORMAT)
            fail_msg("accepted: %s", bad[i].header);
        assert_non_null(strstr(error.text, "file.safetensors"));
    }
}

static void test_other_types_and_metadata_are_read(void **state) {
    (void)state;
    safetensors *s = NULL;
    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\"},\"h\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[4,12]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[4,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
        "offsets\":[0,4]}}";
    assert_int_equal(parse_header(header, 12, &s, NULL), BRAID_OK);
    assert_int_equal(safetensors_count(s), 3);
    assert_int_equal(safetensors_find(s, "h")->dtype, SAFETENSORS_BF16);
    assert_int_equal(safetensors_find(s, "b")->dtype, SAFETENSORS_U8);
    assert_int_equal(safetensors_find(s, "e")->bytes, 0);
    safetensors_free(s);
}

static void test_a_huge_header_length_allocates_nothing(void **state) {
    (void)state;
    const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 62, SAFETENSORS_MAX_HEADER + 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t first[8];
        memcpy(first, &lengths[i], 8);
        assert_int_equal(safetensors_prefix_bytes(first, UINT64_MAX), 0);
    }
}

static void test_damaged_bytes_never_harm(void **state) {
    (void)state;
    rng r = seeded_rng("damage", 7);
    size_t bytes;
    uint8_t *prefix = safetensors_prefix(example, EXAMPLES, NULL, 0, &bytes);
    assert_non_null(prefix);
    int sound = 0;
    for (int i = 0; i < 20000; i++) {
        uint8_t *copy = malloc(bytes);
        assert_non_null(copy);
        memcpy(copy, prefix, bytes);
        for (uint64_t k = rng_below(&r, 3) + 1; k > 0; k--) copy[8 + rng_below(&r, bytes - 8)] = (uint8_t)rng_next(&r);
        safetensors *s = NULL;
        if (!safetensors_parse(copy, bytes, bytes + EXAMPLE_DATA, "x", &s, NULL)) sound++;
        safetensors_free(s);
        free(copy);
    }
    assert_true(sound > 0 && sound < 20000);
    free(prefix);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_output_reads_back),
        cmocka_unit_test(test_notes_read_back),
        cmocka_unit_test(test_a_truncated_file_is_refused),
        cmocka_unit_test(test_false_headers_are_refused),
        cmocka_unit_test(test_other_types_and_metadata_are_read),
        cmocka_unit_test(test_a_huge_header_length_allocates_nothing),
        cmocka_unit_test(test_damaged_bytes_never_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
