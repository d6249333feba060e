// A directory for the identities of data peers with private data and, without --log, for their
// logs. `braid up` keeps it locked while it runs. A killed `braid up` leaves its directory behind;
// the next one removes unlocked ones.
#include "cli/up_swarm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "braid-keys-";

static const char *temporary(void) {
    const char *directory = getenv("TMPDIR");
    return directory && *directory ? directory : "/tmp";
}

static int open_locked(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

// Takes ownership of `fd`.
static void directory_remove(const char *path, int fd) {
    DIR *directory = fdopendir(fd);
    if (!directory) {
        close(fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) unlinkat(fd, entry->d_name, 0);
    rmdir(path);
    closedir(directory);
}

// Removes only directories of this user, and only unlocked ones: a running `braid up` holds the
// lock of its own.
static void remove_if_left(const char *name) {
    char path[UP_MAX_KEY_PATH];
    struct stat status;
    if (snprintf(path, sizeof path, "%s/%s", temporary(), name) >= (int)sizeof path) return;
    int fd = open_locked(path);
    if (fd < 0) return;
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid()) directory_remove(path, fd);
    else close(fd);
}

static void remove_left(void) {
    DIR *all = opendir(temporary());
    if (!all) return;
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0) remove_if_left(entry->d_name);
    closedir(all);
}

// Another `braid up` that starts at the same time may mistake the directory for an abandoned one
// before it is locked.
static bool make_locked(swarm *s) {
    struct stat here, there;
    for (int tries = 0; tries < 10; tries++) {
        int written = snprintf(s->keys.path, sizeof s->keys.path, "%s/%sXXXXXX", temporary(), prefix);
        if (written >= (int)sizeof s->keys.path || !mkdtemp(s->keys.path)) return false;
        s->keys.fd = open_locked(s->keys.path);
        if (s->keys.fd < 0) continue;
        if (fstat(s->keys.fd, &here) == 0 && stat(s->keys.path, &there) == 0 && here.st_ino == there.st_ino) return true;
        close(s->keys.fd);
    }
    errno = EBUSY;
    return false;
}

braid_err swarm_open_keys(swarm *s, braid_error *error) {
    if (!s->settings.private_data) return BRAID_OK;
    remove_left();
    if (make_locked(s)) return BRAID_OK;
    braid_fail(error, BRAID_IO, "cannot make a directory for the data peers' keys, %.300s: %s; set TMPDIR to a directory that this user may write to", s->keys.path, strerror(errno));
    s->keys.path[0] = '\0';
    return BRAID_IO;
}

void swarm_close_keys(swarm *s) {
    if (s->keys.path[0]) directory_remove(s->keys.path, s->keys.fd);
}
