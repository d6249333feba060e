#include "weights/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static braid_err map(int fd, mapped *m, braid_error *error) {
    struct stat info;
    if (fstat(fd, &info) != 0) return braid_fail(error, BRAID_IO, "cannot read '%s': %s", m->path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return braid_fail(error, BRAID_IO, "'%s' is not a regular file", m->path);
    m->bytes = (size_t)info.st_size;
    if (m->bytes == 0) return BRAID_OK;
    void *at = mmap(NULL, m->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) return braid_fail(error, BRAID_IO, "cannot map '%s': %s", m->path, strerror(errno));
    m->at = at;
    return BRAID_OK;
}

braid_err mapped_open(const char *path, mapped *out, braid_error *error) {
    *out = (mapped){0};
    if (snprintf(out->path, sizeof out->path, "%s", path) >= (int)sizeof out->path)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return braid_fail(error, BRAID_IO, "cannot open '%s': %s", path, strerror(errno));
    braid_err err = map(fd, out, error);
    close(fd);
    return err;
}

void mapped_close(mapped *m) {
    if (m->at) munmap((void *)(uintptr_t)m->at, m->bytes);
    *m = (mapped){0};
}
