#include "data/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static braid_err make_directories(char *path, braid_error *error) {
    for (char *slash = path; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash) *slash = 0;
        bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        int why = errno;
        if (!made)
            braid_fail(error, BRAID_IO, "cannot make the directory '%.300s' for caches: %s; set data.cache", path,
                       strerror(why));
        if (slash) *slash = '/';
        if (!made) return BRAID_IO;
    }
    return BRAID_OK;
}

braid_err place_directory(const char *given, char out[PLACE_MAX_PATH], braid_error *error) {
    const char *cache_home = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (given && *given)
        length = snprintf(out, PLACE_MAX_PATH, "%s", given);
    else if (cache_home && *cache_home == '/')
        length = snprintf(out, PLACE_MAX_PATH, "%s/braid", cache_home);
    else if (home && *home == '/')
        length = snprintf(out, PLACE_MAX_PATH, "%s/.cache/braid", home);
    else
        return braid_fail(error, BRAID_CONFIG, "there is no home directory for caches; set data.cache");
    if (length >= PLACE_MAX_PATH) return braid_fail(error, BRAID_LIMIT, "the path of data.cache is too long");
    return make_directories(out, error);
}

braid_err place_lock(const char *path, void (*note)(void *context, const char *text), void *context, int *fd,
                     braid_error *error) {
    char name[PLACE_MAX_PATH + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return braid_fail(error, BRAID_IO,
                          "cannot write '%.300s': %s; set data.cache to a directory that can be written", name,
                          strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0) return BRAID_OK;
    if (errno == EWOULDBLOCK && note) note(context, "another process makes the same cache; waiting for it");
    int code;
    do code = flock(*fd, LOCK_EX);
    while (code != 0 && errno == EINTR);
    return code == 0 ? BRAID_OK
                     : braid_fail(error, BRAID_IO, "cannot lock '%.300s': %s; set data.cache to a local directory",
                                  name, strerror(errno));
}
