#include "data/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

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

bool place_stopped(const place_host *host) { return host->stopped && host->stopped(host->context); }

// Polls, because a signal need not interrupt a wait for a lock.
static braid_err wait_for_lock(const char *name, const place_host *host, int fd, braid_error *error) {
    const struct timespec pause = {.tv_nsec = 50000000};
    bool told = false;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return braid_fail(error, BRAID_IO, "cannot lock '%.300s': %s; set data.cache to a local directory", name,
                              strerror(errno));
        if (place_stopped(host)) return braid_fail(error, BRAID_STATE, "stopped while another process makes the cache");
        if (!told && host->note) host->note(host->context, "another process makes the same cache; waiting for it");
        told = true;
        nanosleep(&pause, NULL);
    }
    return BRAID_OK;
}

braid_err place_lock(const char *path, const place_host *host, int *fd, braid_error *error) {
    char name[PLACE_MAX_PATH + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd >= 0) return wait_for_lock(name, host, *fd, error);
    return braid_fail(error, BRAID_IO, "cannot write '%.300s': %s; set data.cache to a directory that can be written",
                      name, strerror(errno));
}
