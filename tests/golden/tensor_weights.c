// The formats of GGUF against the package gguf 0.19.0, bit for bit (tools/make-weights-fixture).
#include "tensor/half.h"
#include "tensor/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

static const char fixture[] = BRAID_TEST_FIXTURES "/golden/fixtures/weights.bin";

enum { MOST = 4096 };

typedef struct record {
    char name[9];
    weight_type type;
    bool pack;
    uint32_t bytes, values;
    uint8_t data[MOST];
    float value[MOST];
} record;

static bool read_record(FILE *f, record *r) {
    *r = (record){0};
    if (fread(r->name, 1, 8, f) != 8) return false;
    assert_int_equal(fread(&r->bytes, 4, 1, f) + fread(&r->values, 4, 1, f), 2);
    assert_in_range(r->bytes, 1, MOST);
    assert_in_range(r->values, 1, MOST);
    assert_int_equal(fread(r->data, 1, r->bytes, f), r->bytes);
    assert_int_equal(fread(r->value, sizeof(float), r->values, f), r->values);
    char *mark = strchr(r->name, '<');
    r->pack = mark;
    if (mark) *mark = 0;
    while (r->type < WEIGHT_TYPES && strcmp(weight_type_name(r->type), r->name) != 0) r->type++;
    assert_int_not_equal(r->type, WEIGHT_TYPES);
    return true;
}

static void unpack(const record *r) {
    static float out[MOST];
    size_t cols = r->values / 2;
    weight_matrix w = {r->type, 2, cols, r->data};
    assert_int_equal(weight_bytes(r->type, 2, cols), r->bytes);
    weight_rows(&w, 0, 2, out);
    assert_memory_equal(out, r->value, r->values * sizeof *out);
    weight_rows(&w, 1, 1, out);
    assert_memory_equal(out, r->value + cols, cols * sizeof *out);
}

static void pack(const record *r) {
    static uint8_t out[MOST];
    assert_int_equal(weight_row_bytes(r->type, r->values), r->bytes);
    weight_pack(r->type, r->value, r->values, out);
    assert_memory_equal(out, r->data, r->bytes);
}

static void test_formats(void **state) {
    (void)state;
    FILE *f = fopen(fixture, "rb");
    assert_non_null(f);
    static record r;
    uint32_t unpacked = 0, packed = 0;
    while (read_record(f, &r)) {
        if (r.pack)
            pack(&r);
        else
            unpack(&r);
        packed += r.pack;
        unpacked += !r.pack;
    }
    fclose(f);
    assert_int_equal(unpacked, 10);
    assert_int_equal(packed, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
