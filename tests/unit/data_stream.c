// Decompression: the bytes come back from both formats, in any parts, and damage is reported.
#include "base/rng.h"
#include "data/stream.h"

#include "data_files.h"

enum { COUNT = 700000, ROOM = COUNT + 10000 };

static uint8_t plain[COUNT], packed[ROOM], got[ROOM];

static void fill(void) {
    rng r = {3};
    for (size_t i = 0; i < COUNT; i++) plain[i] = (uint8_t)('a' + rng_below(&r, 7));
}

// Reads all of a file in pieces of a size.
static braid_err read_file(const char *path, size_t piece, size_t *total, braid_error *error) {
    data_stream *s = NULL;
    braid_err err = data_stream_open(path, &s, error);
    size_t count = 1;
    for (*total = 0; !err && count > 0;) {
        size_t room = ROOM - *total < piece ? ROOM - *total : piece;
        err = data_stream_read(s, got + *total, room, &count, error);
        if (!err && count < room) assert_true(*total + count <= ROOM);
        *total += count;
        if (room == 0) break;
    }
    data_stream_close(s);
    return err;
}

static void assert_reads(const char *path, size_t count) {
    static const size_t pieces[] = {1000, 65536, ROOM};
    for (size_t i = 0; i < 3; i++) {
        size_t total;
        braid_error error = {0};
        if (read_file(path, pieces[i], &total, &error)) fail_msg("%s", error.text);
        assert_int_equal(total, count);
        assert_memory_equal(got, plain, count);
    }
}

static void all_formats_give_the_bytes(void **state) {
    char path[DATA_PATH];
    (void)state;
    assert_reads(data_write("a", plain, COUNT, path), COUNT);
    assert_reads(data_write("b.gz", packed, data_gzip(plain, COUNT, packed, ROOM), path), COUNT);
    assert_reads(data_write("c.zst", packed, data_zstd(plain, COUNT, packed, ROOM), path), COUNT);
    assert_reads(data_write("empty", "", 0, path), 0);
    assert_reads(data_write("short", plain, 3, path), 3);
    assert_reads(data_write("nothing.gz", packed, data_gzip("", 0, packed, ROOM), path), 0);
}

// As `cat a.gz b.gz` makes them.
static void several_parts_are_one_text(void **state) {
    char path[DATA_PATH];
    (void)state;
    size_t first = data_gzip(plain, 1000, packed, ROOM),
           second = data_gzip(plain + 1000, 5000, packed + first, ROOM - first);
    assert_reads(data_write("two.gz", packed, first + second, path), 6000);
    first = data_zstd(plain, 1000, packed, ROOM);
    second = data_zstd(plain + 1000, 5000, packed + first, ROOM - first);
    assert_reads(data_write("two.zst", packed, first + second, path), 6000);
}

static void damage_is_reported(void **state) {
    char path[DATA_PATH];
    braid_error error;
    size_t total;
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        size_t count = kind ? data_zstd(plain, COUNT, packed, ROOM) : data_gzip(plain, COUNT, packed, ROOM);
        data_write("cut", packed, count - 5, path);
        assert_int_equal(read_file(path, 65536, &total, &error), BRAID_FORMAT);
        assert_non_null(strstr(error.text, "truncated"));
        if (kind) continue;  // this zstd has no checksum
        packed[count / 2] ^= 0x40;
        data_write("bad", packed, count, path);
        assert_int_equal(read_file(path, 65536, &total, &error), BRAID_FORMAT);
        assert_non_null(strstr(error.text, "cannot be decompressed"));
    }
    assert_int_equal(read_file(data_directory, 10, &total, &error), BRAID_IO);
    assert_int_equal(read_file(data_path("none", path), 10, &total, &error), BRAID_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_give_the_bytes),
        cmocka_unit_test(several_parts_are_one_text),
        cmocka_unit_test(damage_is_reported),
    };
    fill();
    return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
