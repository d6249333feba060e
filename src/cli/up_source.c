// A copy of the description for the children, if the user's can be read only once.
#define _GNU_SOURCE
#include "cli/up_swarm.h"
#include "train/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COPY_BYTES = 4096 };

static bool copy(int from, int to) {
    char bytes[COPY_BYTES];
    for (;;) {
        ssize_t count = read(from, bytes, sizeof bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count == 0;
        if (write(to, bytes, (size_t)count) != count) return false;
    }
}

// The copy is in memory and inherited by the children. Paths in it are relative to the working
// directory, which the children share.
braid_err swarm_keep_description(swarm *s, const char *path, braid_error *error) {
    s->run_path = path;
    if (!run_config_is_stream(path)) return BRAID_OK;
    if (s->measure) return braid_fail(error, BRAID_ARGUMENT, "--measure writes the path of the run's description: give it as a file, not as %.200s", path);
    int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("run.yaml", 0);
    bool good = from >= 0 && to >= 0 && copy(from, to);
    int why = errno;
    if (from >= 0) close(from);
    snprintf(s->run_copy, sizeof s->run_copy, "/proc/self/fd/%d", to);
    s->run_path = s->run_copy;
    return good ? BRAID_OK : braid_fail(error, BRAID_IO, "cannot read %.200s: %s", path, strerror(why));
}
