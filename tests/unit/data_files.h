// Shared by the tests of src/data: a directory for files, and their contents.
#ifndef BRAID_TEST_DATA_FILES_H
#define BRAID_TEST_DATA_FILES_H

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { DATA_PATH = 512 };

static char data_directory[64];

static inline void data_remove(const char *path) {
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char inside[DATA_PATH];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) >= (int)sizeof inside) continue;
        if (lstat(inside, &info) == 0 && S_ISDIR(info.st_mode))
            data_remove(inside);
        else
            unlink(inside);
    }
    if (directory) closedir(directory);
    rmdir(path);
}

static inline int data_setup(void **state) {
    const char *parent = getenv("TMPDIR");
    (void)state;
    snprintf(data_directory, sizeof data_directory, "%.40s/braid-test-XXXXXX", parent ? parent : P_tmpdir);
    return mkdtemp(data_directory) ? 0 : 1;
}

static inline int data_teardown(void **state) {
    (void)state;
    data_remove(data_directory);
    return 0;
}

// The path of a file in the directory; its parent directories are made.
static inline const char *data_path(const char *name, char out[DATA_PATH]) {
    snprintf(out, DATA_PATH, "%s/%s", data_directory, name);
    for (char *slash = out + strlen(data_directory) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(out, 0777);
        *slash = '/';
    }
    return out;
}

static inline const char *data_write(const char *name, const void *bytes, size_t count, char out[DATA_PATH]) {
    FILE *f = fopen(data_path(name, out), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
    return out;
}

static inline const char *data_text(const char *name, const char *text, char out[DATA_PATH]) {
    return data_write(name, text, strlen(text), out);
}

static inline size_t data_gzip(const void *bytes, size_t count, uint8_t *out, size_t room) {
    z_stream s = {
        .next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)count, .next_out = out, .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&s, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    deflateEnd(&s);
    return room - s.avail_out;
}

static inline size_t data_zstd(const void *bytes, size_t count, uint8_t *out, size_t room) {
    size_t n = ZSTD_compress(out, room, bytes, count, 3);
    assert_false(ZSTD_isError(n));
    return n;
}

#endif
