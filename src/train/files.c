#define _GNU_SOURCE  // fallocate
#include "train/files.h"

#include "base/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH_CHUNK = 1 << 20 };

static braid_err io_error(const char *verb, const char *path, braid_error *error) {
    int why = errno;
    const char *mend = why == ENOSPC || why == EDQUOT ? "; free some space or choose another directory"
                       : why == EMFILE || why == ENFILE ? "; raise the limit on open files (ulimit -n)"
                       : why == EFBIG                 ? "; raise the limit on file sizes (ulimit -f)"
                                                      : "";
    braid_err err = why == ENOSPC || why == EDQUOT ? BRAID_FULL : BRAID_IO;
    return braid_fail(error, err, "cannot %s '%s': %s%s", verb, path, strerror(why), mend);
}

braid_err files_join(const char *directory, const char *name, char out[FILES_MAX_PATH], braid_error *error) {
    int length = snprintf(out, FILES_MAX_PATH, "%s/%s", directory, name);
    if (length >= 0 && length < FILES_MAX_PATH) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", directory);
}

braid_err files_read_at(int fd, const char *path, void *data, size_t bytes, uint64_t offset, braid_error *error) {
    char *to = data;
    while (bytes > 0) {
        ssize_t got = pread(fd, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return io_error("read", path, error);
        if (got == 0) return braid_fail(error, BRAID_FORMAT, "'%s' is truncated", path);
        to += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return BRAID_OK;
}

braid_err files_write_at(int fd, const char *path, const void *data, size_t bytes, uint64_t offset,
                         braid_error *error) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t done = pwrite(fd, from, bytes, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_error("write", path, error);
        from += done;
        bytes -= (size_t)done;
        offset += (uint64_t)done;
    }
    return BRAID_OK;
}

braid_err files_read_opened(int fd, const char *path, size_t most, char **text, size_t *length, braid_error *error) {
    struct stat info;
    *text = NULL;
    if (fstat(fd, &info) != 0) return io_error("read", path, error);
    if (!S_ISREG(info.st_mode)) return braid_fail(error, BRAID_IO, "'%s' is not a regular file", path);
    if ((uint64_t)info.st_size > most)
        return braid_fail(error, BRAID_LIMIT, "'%s' is larger than %zu bytes", path, most);
    *length = (size_t)info.st_size;
    *text = malloc(*length + 1);
    if (!*text) return braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", path);
    (*text)[*length] = 0;
    braid_err err = files_read_at(fd, path, *text, *length, 0, error);
    if (err) {
        free(*text);
        *text = NULL;
    }
    return err;
}

braid_err files_read(const char *path, size_t most, char **text, size_t *length, braid_error *error) {
    *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error("read", path, error);
    braid_err err = files_read_opened(fd, path, most, text, length, error);
    close(fd);
    return err;
}

static braid_err hash_chunks(int fd, const char *path, uint8_t *chunk, braid_hash *hash, uint64_t *bytes,
                             braid_error *error) {
    sha256 s;
    sha256_init(&s);
    for (*bytes = 0;;) {
        ssize_t got = pread(fd, chunk, HASH_CHUNK, (off_t)*bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return io_error("read", path, error);
        if (got == 0) break;
        sha256_update(&s, chunk, (size_t)got);
        *bytes += (uint64_t)got;
    }
    *hash = sha256_final(&s);
    return BRAID_OK;
}

braid_err files_hash_opened(int fd, const char *path, braid_hash *hash, uint64_t *bytes, braid_error *error) {
    uint8_t *chunk = malloc(HASH_CHUNK);
    if (!chunk) return braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", path);
    braid_err err = hash_chunks(fd, path, chunk, hash, bytes, error);
    free(chunk);
    return err;
}

braid_err files_hash(const char *path, braid_hash *hash, uint64_t *bytes, braid_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error("read", path, error);
    braid_err err = files_hash_opened(fd, path, hash, bytes, error);
    close(fd);
    return err;
}

braid_err files_reserve(int fd, const char *path, uint64_t bytes, braid_error *error) {
    int done;
    do done = fallocate(fd, 0, 0, (off_t)bytes);
    while (done != 0 && errno == EINTR);
    bool cannot = done != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
    return cannot ? io_error("write", path, error) : BRAID_OK;
}

braid_err files_write(const char *path, const void *data, size_t bytes, braid_error *error) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return io_error("create", path, error);
    braid_err err = files_write_at(fd, path, data, bytes, 0, error);
    if (!err && fsync(fd) != 0) err = io_error("write", path, error);
    if (close(fd) != 0 && !err) err = io_error("write", path, error);
    if (err) unlink(path);
    return err;
}

braid_err files_sync_directory(const char *path, braid_error *error) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_error("open", path, error);
    // Some file systems cannot sync a directory and return EINVAL; nothing needs to be awaited
    // there.
    braid_err err = fsync(fd) != 0 && errno != EINVAL ? io_error("sync", path, error) : BRAID_OK;
    close(fd);
    return err;
}

void files_remove_directory(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    rmdir(path);
}
