#include "tune/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 10, PATH_ROOM = 4096 };

static braid_err lock_path(const char *directory, char path[PATH_ROOM], braid_error *error) {
    if (!*directory) return braid_fail(error, BRAID_CONFIG, "--out is empty; name a directory");
    int length = snprintf(path, PATH_ROOM, "%s/braid.lock", directory);
    return length < PATH_ROOM ? BRAID_OK : braid_fail(error, BRAID_CONFIG, "the path of --out is too long");
}

braid_err tune_claim(const char *directory, int *lock, braid_error *error) {
    char path[PATH_ROOM];
    struct stat held;
    *lock = -1;
    braid_err err = lock_path(directory, path, error);
    if (err) return err;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return braid_fail(error, BRAID_IO, "cannot create the directory '%s': %s; give another --out", directory,
                          strerror(errno));
    // again if its last owner removed the file between open and flock
    for (int i = 0; i < TRIES; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return braid_fail(error, BRAID_IO, "cannot write into '%s': %s; give another --out", directory,
                              strerror(errno));
        bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(fd, &held) == 0 && held.st_nlink > 0) {
            *lock = fd;
            return BRAID_OK;
        }
        close(fd);
        if (taken) break;
    }
    return braid_fail(error, BRAID_STATE, "another process tunes into '%s'; end it first, or give another --out",
                      directory);
}

void tune_release(const char *directory, int lock) {
    char path[PATH_ROOM];
    if (lock < 0) return;
    if (lock_path(directory, path, NULL) == BRAID_OK) unlink(path);
    close(lock);
}
