// Replacing, removing and setting aside versions in a checkpoint directory.
#define _GNU_SOURCE  // renameat2
#include "train/checkpoint_directory.h"

#include "train/checkpoint.h"
#include "train/checkpoint_manifest.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUN_SHOWN = 4,
    MARK = 2 * RUN_SHOWN,
    MOST_NUMBERED = 10000
};  // bytes of the run's hash in the name of a temporary directory

// ---- temporary names: step-000050.tmp-<run>-<process>.<n> while it is written,
// ...tmp-<run>-old-<process> before removal ----

static void mark_of(const braid_hash *run, char mark[MARK + 1]) { id_hex(run->bytes, RUN_SHOWN, mark); }

void checkpoint_temporary_name(uint64_t version, const braid_hash *run, unsigned number, char name[STEP_TEMPORARY]) {
    char mark[MARK + 1];
    mark_of(run, mark);
    snprintf(name, STEP_TEMPORARY, CHECKPOINT_STEP ".tmp-%s-%ld.%u", version, mark, (long)getpid(), number);
}

static bool skip_digits(const char **at) {
    const char *from = *at;
    while (isdigit((unsigned char)**at)) ++*at;
    return *at > from;
}

// Parses a temporary name: the step and the run in it. False: braid did not create this name.
static bool is_temporary(const char *name, char step[STEP_NAME], char mark[MARK + 1], bool *old) {
    const char *at = strstr(name, ".tmp-");
    uint64_t version;
    if (!at || at - name >= STEP_NAME || strlen(at) < 5 + MARK + 2) return false;
    snprintf(step, STEP_NAME, "%.*s", (int)(at - name), name);
    snprintf(mark, MARK + 1, "%.*s", MARK, at + 5);
    at += 5 + MARK;
    if (!checkpoint_step_name(step, &version) || strspn(mark, "0123456789abcdef") != MARK || *at++ != '-') return false;
    *old = strncmp(at, "old-", 4) == 0;
    if (*old) at += 4;
    if (!skip_digits(&at)) return false;
    return *old ? *at == 0 : *at++ == '.' && skip_digits(&at) && *at == 0;
}

static bool aside_name(const char *directory, const char *name, const braid_hash *run, char aside[FILES_MAX_PATH]) {
    char gone[STEP_TEMPORARY], mark[MARK + 1];
    mark_of(run, mark);
    snprintf(gone, sizeof gone, "%.*s.tmp-%s-old-%ld", STEP_NAME, name, mark, (long)getpid());
    return !files_join(directory, gone, aside, NULL);
}

// ---- removing ----

static bool numbered_file(const char *name, const char *kind) {
    size_t n = strlen(kind);
    const char *at = name + n;
    if (strncmp(name, kind, n) != 0 || !skip_digits(&at) || strncmp(at, "-of-", 4) != 0) return false;
    at += 4;
    return skip_digits(&at) && strcmp(at, ".safetensors") == 0;
}

// Files that braid writes into a checkpoint, and files that file managers create in every folder.
static bool may_go(const char *name) {
    static const char *const known[] = {"config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "model.safetensors.index.json",
                                        MANIFEST_FILE,
                                        ".DS_Store",
                                        "Thumbs.db",
                                        "desktop.ini"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, known[i]) == 0) return true;
    return strncmp(name, "._", 2) == 0 || numbered_file(name, "model-") || numbered_file(name, "optimizer-");
}

// Removes the manifest first, because a directory without it is no checkpoint. Of a link only the
// link is removed.
static bool remove_own_files(const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) return unlink(path) == 0;
    DIR *directory = opendir(path);
    if (!directory) return false;
    unlinkat(dirfd(directory), MANIFEST_FILE, 0);
    for (struct dirent *entry; (entry = readdir(directory));)
        if (may_go(entry->d_name)) unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    return rmdir(path) == 0;
}

bool checkpoint_keep_other(const char *directory, const char *name, const char *path) {
    char other[FILES_MAX_PATH], kept[STEP_TEMPORARY];
    struct stat info;
    for (unsigned i = 1; i < MOST_NUMBERED; i++) {
        if (i == 1)
            snprintf(kept, sizeof kept, "%.*s.other", STEP_NAME, name);
        else
            snprintf(kept, sizeof kept, "%.*s.other-%u", STEP_NAME, name, i);
        if (files_join(directory, kept, other, NULL)) return false;
        if (lstat(other, &info) == 0) continue;
        return rename(path, other) == 0;
    }
    return false;
}

// Keeps files of other programs.
static void remove_directory(const char *directory, const char *name, const char *path) {
    if (!remove_own_files(path)) checkpoint_keep_other(directory, name, path);
}

static void remove_step(const char *directory, const checkpoint_step *step) {
    char path[FILES_MAX_PATH], aside[FILES_MAX_PATH];
    if (files_join(directory, step->name, path, NULL)) return;
    bool moved = aside_name(directory, step->name, &step->run, aside) && rename(path, aside) == 0;
    remove_directory(directory, step->name, moved ? aside : path);
}

void checkpoint_clear_older(const char *directory, const braid_hash *run, uint64_t version) {
    checkpoint_steps steps;
    uint32_t kept = 0;
    if (checkpoint_steps_read(directory, &steps, NULL)) steps.count = 0;
    for (uint32_t i = steps.count; i-- > 0;) {
        const checkpoint_step *step = &steps.step[i];
        if (step->version > version || !hash_equal(&step->run, run)) continue;
        if (kept >= CHECKPOINT_KEEP)
            remove_step(directory, step);
        else
            kept += step->complete;
    }
    checkpoint_steps_free(&steps);
}

bool checkpoint_make_room(const char *directory, const braid_hash *run, uint64_t version) {
    checkpoint_steps steps;
    const checkpoint_step *oldest = NULL;
    uint32_t complete = 0;
    if (checkpoint_steps_read(directory, &steps, NULL)) steps.count = 0;
    for (uint32_t i = 0; i < steps.count; i++) {
        const checkpoint_step *step = &steps.step[i];
        if (!hash_equal(&step->run, run)) continue;
        complete += step->complete;
        if (!oldest && step->version < version) oldest = step;
    }
    bool room = oldest && complete > (oldest->complete ? 1 : 0);
    if (room) remove_step(directory, oldest);
    checkpoint_steps_free(&steps);
    return room;
}

// ---- leftovers of killed writers ----

static bool is_locked(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

static bool is_whole(const char *path) {
    manifest *m = malloc(sizeof *m);
    char file[FILES_MAX_PATH];
    struct stat info;
    bool whole = m && !manifest_read(path, m, NULL);
    for (uint32_t i = 0; whole && i < m->count; i++)
        whole = !files_join(path, m->files[i].name, file, NULL) && stat(file, &info) == 0 &&
                (uint64_t)info.st_size == m->files[i].bytes;
    free(m);
    return whole;
}

// Restores the only copy after a writer was killed between two renames.
static void clear_leftover(const char *directory, const char *step, bool old, const char *path) {
    char place[FILES_MAX_PATH];
    struct stat info;
    bool missing = !files_join(directory, step, place, NULL) && lstat(place, &info) != 0;
    if (old && missing && is_whole(path) && rename(path, place) == 0) return;
    remove_directory(directory, step, path);
}

braid_err checkpoint_clear_leftovers(const char *directory, const braid_hash *run, bool alone, braid_error *error) {
    char own[MARK + 1], mark[MARK + 1], step[STEP_NAME], path[FILES_MAX_PATH];
    bool old;
    braid_err err = BRAID_OK;
    DIR *open = opendir(directory);
    mark_of(run, own);
    for (struct dirent *entry; open && !err && (entry = readdir(open));) {
        if (!is_temporary(entry->d_name, step, mark, &old) || files_join(directory, entry->d_name, path, NULL))
            continue;
        if (is_locked(path)) {
            if (strcmp(mark, own) != 0)
                err = braid_fail(
                    error, BRAID_STATE,
                    "another process is writing a checkpoint of another run into '%s'; choose another directory",
                    directory);
        } else if (alone) {
            clear_leftover(directory, step, old, path);
        }
    }
    if (open) closedir(open);
    return err;
}

// ---- replacing a version ----

static bool is_own(const char *path, const char *name, const braid_hash *run) {
    manifest *m = malloc(sizeof *m);
    uint64_t version;
    bool own = m && checkpoint_step_name(name, &version) && !manifest_read(path, m, NULL) && m->version == version &&
               hash_equal(&m->run, run);
    free(m);
    return own;
}

// For file systems that cannot exchange two names (NFS). The step is missing for a moment.
static bool replace_in_turn(const char *directory, const char *temporary, const char *name, const char *path,
                            const braid_hash *run) {
    char aside[FILES_MAX_PATH];
    if (!aside_name(directory, name, run, aside) || rename(path, aside) != 0) return false;
    bool moved = rename(temporary, path) == 0;
    int why = errno;
    if (moved)
        remove_directory(directory, name, aside);
    else if (rename(aside, path) != 0)
        why = errno;
    errno = why;
    return moved;
}

static bool replace_own(const char *directory, const char *temporary, const char *name, const char *path,
                        const braid_hash *run) {
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) != 0)
        return replace_in_turn(directory, temporary, name, path, run);
    remove_directory(directory, name, temporary);
    return true;
}

braid_err checkpoint_publish(const char *directory, const char *temporary, const char *name, const braid_hash *run,
                             braid_error *error) {
    char path[FILES_MAX_PATH];
    braid_err err = files_join(directory, name, path, error);
    if (err || rename(temporary, path) == 0) return err;
    bool there = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;
    if (there && is_own(path, name, run)) {
        if (replace_own(directory, temporary, name, path, run)) return BRAID_OK;
    } else if (there && checkpoint_keep_other(directory, name, path) && rename(temporary, path) == 0) {
        return BRAID_OK;
    }
    int why = errno;
    return braid_fail(error, why == ENOSPC || why == EDQUOT ? BRAID_FULL : BRAID_IO,
                      "cannot move the finished checkpoint to '%s': %s%s", path, strerror(why), checkpoint_mend(why));
}

// ---- set aside ----

static braid_err make_place(const char *directory, char place[FILES_MAX_PATH], braid_error *error) {
    char name[STEP_NAME];
    for (unsigned i = 1; i < MOST_NUMBERED; i++) {
        snprintf(name, sizeof name, "set-aside-%u", i);
        braid_err err = files_join(directory, name, place, error);
        if (err || mkdir(place, 0777) == 0) return err;
        if (errno != EEXIST) break;
    }
    return braid_fail(error, BRAID_IO, "cannot make '%s' for the older checkpoints: %s", place, strerror(errno));
}

static braid_err move_into(const char *directory, const char *name, const char *place, braid_error *error) {
    char from[FILES_MAX_PATH], to[FILES_MAX_PATH];
    braid_err err = files_join(directory, name, from, error);
    if (!err) err = files_join(place, name, to, error);
    if (err || rename(from, to) == 0) return err;
    return braid_fail(error, BRAID_IO, "cannot set '%s' aside: %s", from, strerror(errno));
}

braid_err checkpoint_set_aside(const char *directory, uint64_t version, char place[FILES_MAX_PATH], uint32_t *moved,
                               braid_error *error) {
    char latest[STEP_NAME];
    checkpoint_steps steps;
    bool latest_moves = false;
    place[0] = 0;
    *moved = 0;
    checkpoint_latest_read(directory, latest);
    braid_err err = checkpoint_steps_read(directory, &steps, error);
    for (uint32_t i = 0; i < steps.count && !err; i++) {
        if (steps.step[i].version <= version) continue;
        if (*moved == 0) err = make_place(directory, place, error);
        if (!err) err = move_into(directory, steps.step[i].name, place, error);
        if (!err) ++*moved;
        latest_moves = latest_moves || strcmp(latest, steps.step[i].name) == 0;
    }
    checkpoint_steps_free(&steps);
    if (!err && latest_moves) err = move_into(directory, CHECKPOINT_LATEST, place, error);
    return err || *moved == 0 ? err : files_sync_directory(directory, error);
}
