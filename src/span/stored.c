#include "span/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool path_of(char path[4096], const char *directory, const braid_hash *part, const char *ending) {
    char hex[2 * BRAID_ID_BYTES + 1];
    id_hex(part->bytes, BRAID_ID_BYTES, hex);
    return snprintf(path, 4096, "%s/layer-%s%s", directory, hex, ending) < 4096;
}

static braid_err map_file(stored *s, int file, braid_error *error) {
    void *at = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)s->bytes) == 0)
        at = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        braid_fail(error, BRAID_IO, "cannot write %.200s: %s", s->path, strerror(errno));
        if (file >= 0) unlink(s->path);
        s->path[0] = 0;
        return BRAID_IO;
    }
    s->at = at;
    return BRAID_OK;
}

braid_err stored_new(stored *s, const char *directory, const braid_hash *part, uint64_t bytes, braid_error *error) {
    *s = (stored){.bytes = bytes};
    if (!directory) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return braid_fail(error, BRAID_MEMORY, "no memory for a layer of the model");
        s->at = at;
        return BRAID_OK;
    }
    char ending[32];
    snprintf(ending, sizeof ending, ".%d.part", (int)getpid());  // two processes may share the directory
    if (!path_of(s->path, directory, part, ending))
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", directory);
    int file = open(s->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    braid_err err = map_file(s, file, error);
    if (file >= 0) close(file);
    return err;
}

bool stored_find(stored *s, const char *directory, const braid_hash *part) {
    struct stat info;
    *s = (stored){0};
    if (!directory || !path_of(s->path, directory, part, "")) return false;
    int file = open(s->path, O_RDONLY | O_CLOEXEC);
    bool good = file >= 0 && fstat(file, &info) == 0 && info.st_size > 0;
    void *at = good ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    if (at == MAP_FAILED) {
        *s = (stored){0};
        return false;
    }
    s->at = at;
    s->bytes = (uint64_t)info.st_size;
    return true;
}

braid_err stored_keep(stored *s, const char *directory, const braid_hash *part, braid_error *error) {
    char final[4096];
    if (!s->path[0]) return BRAID_OK;
    if (!path_of(final, directory, part, "") || rename(s->path, final) != 0)
        return braid_fail(error, BRAID_IO, "cannot rename %.200s: %s", s->path, strerror(errno));
    strcpy(s->path, final);
    return BRAID_OK;
}

void stored_close(stored *s) {
    size_t length = strlen(s->path);
    if (s->at) munmap(s->at, s->bytes);
    if (length > 5 && strcmp(s->path + length - 5, ".part") == 0) unlink(s->path);
    *s = (stored){0};
}

void stored_discard(stored *s) {
    if (s->at) munmap(s->at, s->bytes);
    if (s->path[0]) unlink(s->path);
    *s = (stored){0};
}
