#include "node/gguf_tokenizer.h"

#include "base/sha256.h"
#include "weights/convert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 12 };

bool gguf_tokenizer_is(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

static braid_err place_of(const char *path, const char *cache, char out[FILES_MAX_PATH], braid_error *error) {
    char directory[PLACE_MAX_PATH], name[2 * KEY_BYTES + 1];
    struct stat about;
    if (stat(path, &about) != 0) return braid_fail(error, BRAID_IO, "cannot read '%s': %s", path, strerror(errno));
    braid_err err = place_directory(cache, directory, error);
    if (err) return err;
    int64_t state[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, path, strlen(path) + 1);
    sha256_update(&s, state, sizeof state);
    braid_hash key = sha256_final(&s);
    id_hex(key.bytes, KEY_BYTES, name);
    if (snprintf(out, FILES_MAX_PATH, "%s/%s.tokenizer", directory, name) < FILES_MAX_PATH - 64) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "the path of data.cache is too long");
}

// Appears under its name when it is complete.
static braid_err write_files(const char *path, const char *directory, braid_error *error) {
    char part[FILES_MAX_PATH + 8];
    model_file *f = NULL;
    snprintf(part, sizeof part, "%s.part", directory);
    files_remove_directory(part);
    braid_err err = model_file_open(path, &f, error);
    if (!err && mkdir(part, 0777) != 0)
        err = braid_fail(error, BRAID_IO, "cannot make '%s': %s; set data.cache", part, strerror(errno));
    if (!err) err = directory_write_tokenizer(f, part, error);
    if (!err && rename(part, directory) != 0)
        err = braid_fail(error, BRAID_IO, "cannot make '%s': %s; set data.cache", directory, strerror(errno));
    model_file_close(f);
    return err;
}

braid_err gguf_tokenizer_make(const char *path, const char *cache, const place_host *host, char out[FILES_MAX_PATH],
                              braid_error *error) {
    int fd = -1;
    braid_err err = place_of(path, cache, out, error);
    if (err || access(out, F_OK) == 0) return err;
    err = place_lock(out, host, &fd, error);
    if (!err && access(out, F_OK) != 0) err = write_files(path, out, error);
    if (fd >= 0) close(fd);
    return err;
}
