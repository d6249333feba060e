#include "train/checkpoint_claim.h"

#include "train/checkpoint.h"
#include "train/checkpoint_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_FILE "braid.lock"

enum { HOST = 64, OWNER_BYTES = 512, POLL_MS = 20, TRIES = 10, RUN_SHOWN = 6, WHOSE = 160 };

// The process that the lock file names.
typedef struct owner {
    long process;
    char host[HOST];
    braid_hash run;
    bool known;
} owner;

static void write_owner(int fd, const braid_hash *run) {
    char host[HOST] = "?", hex[2 * BRAID_ID_BYTES + 1], text[OWNER_BYTES];
    gethostname(host, sizeof host - 1);
    id_hex(run->bytes, BRAID_ID_BYTES, hex);
    int length = snprintf(text, sizeof text, "process %ld\nhost %s\nrun %s\n", (long)getpid(), host, hex);
    // A full disk must not prevent the run: the lock file is empty then.
    if (ftruncate(fd, pwrite(fd, text, (size_t)length, 0) == length ? length : 0) != 0) return;
}

static owner read_owner(int fd) {
    char text[OWNER_BYTES], hex[2 * BRAID_ID_BYTES + 1];
    owner o = {0};
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    o.known = sscanf(text, "process %ld\nhost %63s\nrun %64s", &o.process, o.host, hex) == 3 &&
              strlen(hex) == 2 * BRAID_ID_BYTES && id_unhex(hex, BRAID_ID_BYTES, o.run.bytes);
    return o;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

// Another user of a shared group may have created it.
static int open_lock_file(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return fd >= 0 ? fd : open(path, O_RDONLY | O_CLOEXEC);
}

// Detects that a run which has just ended removed this lock file.
static bool is_still_there(int fd, const char *path) {
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

typedef enum take_result { TAKEN, HELD, IMPOSSIBLE } take_result;

// TAKEN: `*fd` is open; HELD: `other` names the holder; IMPOSSIBLE: errno has the reason.
static take_result try_lock(const char *path, int *fd, owner *other) {
    for (uint32_t i = 0; i < TRIES; i++) {
        *fd = open_lock_file(path);
        if (*fd < 0) return IMPOSSIBLE;
        int done = flock(*fd, LOCK_EX | LOCK_NB), why = errno;
        if (done == 0 && is_still_there(*fd, path)) return TAKEN;
        *other = read_owner(*fd);
        close(*fd);
        bool impossible = done != 0 && why != EWOULDBLOCK && why != EINTR;
        if (impossible) unlink(path);
        errno = why;
        if (impossible) return IMPOSSIBLE;
        if (done != 0 && why == EWOULDBLOCK) return HELD;
    }
    return HELD;
}

static braid_err refuse_second(const char *directory, const owner *o, braid_error *error) {
    char whose[WHOSE] = "another process";
    if (o->known) snprintf(whose, sizeof whose, "process %ld on %s", o->process, o->host);
    return braid_fail(
        error, BRAID_STATE,
        "%s saves a run into '%.200s' already; end it first, or choose another directory (checkpoint.dir)", whose,
        directory);
}

static void say(const checkpoint_start *s, const char *text) {
    if (s->note) s->note(s->context, text);
}

static void note_no_lock(const checkpoint_start *s, int why) {
    char text[CHECKPOINT_NOTE];
    snprintf(text, sizeof text, "'%.200s' cannot be locked (%s): make sure that no other run saves there", s->directory,
             strerror(why));
    say(s, text);
}

static braid_err lock_directory(const checkpoint_start *s, int *lock, braid_error *error) {
    char path[FILES_MAX_PATH];
    owner other = {0};
    braid_err err = files_join(s->directory, LOCK_FILE, path, error);
    if (err) return err;
    for (uint32_t waited = 0;; waited += POLL_MS) {
        take_result result = try_lock(path, lock, &other);
        if (result == TAKEN) {
            write_owner(*lock, &s->run);
            return BRAID_OK;
        }
        *lock = -1;
        if (result == IMPOSSIBLE) {
            note_no_lock(s, errno);
            return BRAID_OK;
        }
        if (s->goes_on && (!other.known || hash_equal(&other.run, &s->run))) return BRAID_OK;
        if (waited >= s->wait_ms) return refuse_second(s->directory, &other, error);
        pause_ms(POLL_MS);
    }
}

void checkpoint_release(const char *directory, int lock) {
    char path[FILES_MAX_PATH];
    if (lock < 0) return;
    if (!files_join(directory, LOCK_FILE, path, NULL) && is_still_there(lock, path)) unlink(path);
    close(lock);
}

// ---- newer versions ----

static bool lies_in(const char *step, const char *directory) {
    char parent[FILES_MAX_PATH];
    struct stat one, other;
    if (!step || files_join(step, "..", parent, NULL)) return false;
    return stat(parent, &one) == 0 && stat(directory, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

static braid_err set_aside(const checkpoint_start *s, braid_error *error) {
    char place[FILES_MAX_PATH], text[CHECKPOINT_NOTE];
    uint32_t moved;
    braid_err err = checkpoint_set_aside(s->directory, s->version, place, &moved, error);
    if (err || moved == 0) return err;
    snprintf(text, sizeof text,
             "%u newer checkpoint%s moved to '%.300s'; remove that folder when you do not need %s any more", moved,
             moved == 1 ? " was" : "s were", place, moved == 1 ? "it" : "them");
    say(s, text);
    return BRAID_OK;
}

static braid_err refuse_newer(const checkpoint_start *s, const checkpoint_step *newest, bool own, braid_error *error) {
    char which[WHOSE] = "this run", run[2 * RUN_SHOWN + 1];
    id_hex(newest->run.bytes, RUN_SHOWN, run);
    if (!own) snprintf(which, sizeof which, "another run (%s)", run);
    return braid_fail(
        error, BRAID_STATE,
        "'%.200s' has iteration %llu of %s: --resume %.200s continues from it, --anew sets it aside and starts again%s",
        s->directory, (unsigned long long)newest->version, which, s->directory,
        own ? "" : "; or choose another directory (checkpoint.dir)");
}

// The start uses an older version on purpose. Newer versions of the run remain until the run
// reaches them again.
static void note_newer(const checkpoint_start *s, const checkpoint_step *newest) {
    char text[CHECKPOINT_NOTE];
    snprintf(text, sizeof text,
             "'%.200s' has iteration %llu of this run, which is newer than the start; newer checkpoints stay "
             "until the run saves the same iterations again",
             s->directory, (unsigned long long)newest->version);
    say(s, text);
}

static braid_err look_at_newer(const checkpoint_start *s, braid_error *error) {
    checkpoint_steps steps;
    const checkpoint_step *own = NULL, *others = NULL;
    braid_err err = checkpoint_steps_read(s->directory, &steps, error);
    for (uint32_t i = 0; i < steps.count; i++) {
        const checkpoint_step *step = &steps.step[i];
        if (step->version <= s->version) continue;
        if (hash_equal(&step->run, &s->run))
            own = step;
        else
            others = step;
    }
    if (!err && others)
        err = refuse_newer(s, own && own->version > others->version ? own : others,
                           own && own->version > others->version, error);
    else if (!err && own && (!lies_in(s->from, s->directory) || (s->newest && own->complete)))
        err = refuse_newer(s, own, true, error);
    else if (!err && own)
        note_newer(s, own);
    checkpoint_steps_free(&steps);
    return err;
}

braid_err checkpoint_claim(const checkpoint_start *start, int *lock, braid_error *error) {
    *lock = -1;
    braid_err err = checkpoint_try(start->directory, error);
    if (!err) err = lock_directory(start, lock, error);
    if (!err && !start->goes_on) err = start->anew ? set_aside(start, error) : look_at_newer(start, error);
    if (err) {
        checkpoint_release(start->directory, *lock);
        *lock = -1;
    }
    return err;
}

braid_err checkpoint_claim_to_save(const char *directory, const braid_hash *run, int *lock, braid_error *error) {
    *lock = -1;
    const checkpoint_start start = {.directory = directory, .run = *run, .goes_on = true};
    return lock_directory(&start, lock, error);
}
