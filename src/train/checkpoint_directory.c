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
#include <sys/stat.h>
#include <unistd.h>

enum { LATEST_MAX_BYTES = 4096, MAX_LINKS = 8 };

const char *checkpoint_mend(int why) {
    switch (why) {
    case ENOENT: return "; create its parent directory, or choose another directory";
    case EACCES:
    case EPERM:
    case EROFS: return "; let this user write there, or choose another directory";
    case ENOSPC:
    case EDQUOT: return "; free some space or choose another directory";
    case EMFILE:
    case ENFILE: return "; raise the limit on open files (ulimit -n)";
    default: return "; choose another directory";
    }
}

bool checkpoint_step_name(const char *name, uint64_t *version) {
    char again[STEP_NAME], *end;
    if (strncmp(name, "step-", 5) != 0 || !isdigit((unsigned char)name[5])) return false;
    errno = 0;
    *version = strtoull(name + 5, &end, 10);
    if (*end || errno) return false;
    snprintf(again, sizeof again, CHECKPOINT_STEP, *version);
    return strcmp(again, name) == 0;
}

// ---- reading the directory ----

static bool has_size(const char *directory, const manifest_file *f) {
    char path[FILES_MAX_PATH];
    struct stat info;
    return !files_join(directory, f->name, path, NULL) && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size == f->bytes;
}

static void look_at_files(const char *directory, const manifest *m, checkpoint_step *step) {
    step->complete = step->readable = true;
    for (uint32_t i = 0; i < m->count; i++) {
        if (!manifest_is_tensors(&m->files[i]) || has_size(directory, &m->files[i])) continue;
        step->complete = false;
        if (!manifest_is_optimizer(&m->files[i])) step->readable = false;
    }
}

static bool look_at_step(const char *directory, const char *name, manifest *m, checkpoint_step *out) {
    char path[FILES_MAX_PATH];
    uint64_t version;
    if (!checkpoint_step_name(name, &version) || files_join(directory, name, path, NULL)) return false;
    if (manifest_read(path, m, NULL) || m->version != version) return false;
    *out = (checkpoint_step){.version = version, .run = m->run};
    snprintf(out->name, sizeof out->name, CHECKPOINT_STEP, version);
    look_at_files(path, m, out);
    return true;
}

static int compare_steps(const void *a, const void *b) {
    const checkpoint_step *x = a, *y = b;
    return x->version < y->version ? -1 : x->version > y->version;
}

static braid_err add_step(checkpoint_steps *s, const checkpoint_step *found, braid_error *error) {
    checkpoint_step *grown = realloc(s->step, (s->count + 1) * sizeof *grown);
    if (!grown) return braid_fail(error, BRAID_MEMORY, "no memory for the list of checkpoints");
    s->step = grown;
    s->step[s->count++] = *found;
    return BRAID_OK;
}

braid_err checkpoint_steps_read(const char *directory, checkpoint_steps *out, braid_error *error) {
    *out = (checkpoint_steps){0};
    checkpoint_step found;
    manifest *m = malloc(sizeof *m);
    if (!m) return braid_fail(error, BRAID_MEMORY, "no memory for the list of checkpoints");
    DIR *open = opendir(directory);
    braid_err err = BRAID_OK;
    if (!open && errno != ENOENT)
        err = braid_fail(error, BRAID_IO, "cannot read the directory '%s': %s", directory, strerror(errno));
    for (struct dirent *entry; open && !err && (entry = readdir(open));)
        if (look_at_step(directory, entry->d_name, m, &found)) err = add_step(out, &found, error);
    if (open) closedir(open);
    free(m);
    if (out->count > 0) qsort(out->step, out->count, sizeof *out->step, compare_steps);
    return err;
}

void checkpoint_steps_free(checkpoint_steps *s) {
    free(s->step);
    *s = (checkpoint_steps){0};
}

// ---- latest ----

bool checkpoint_is_step(const char *path) {
    char file[FILES_MAX_PATH];
    struct stat info;
    return !files_join(path, MANIFEST_FILE, file, NULL) && stat(file, &info) == 0;
}

static void parent_of(const char *path, char parent[FILES_MAX_PATH]) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(parent, FILES_MAX_PATH, ".");
    else
        snprintf(parent, FILES_MAX_PATH, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

// Replaces a link by its target.
static void follow_links(char path[FILES_MAX_PATH]) {
    char target[FILES_MAX_PATH], parent[FILES_MAX_PATH];
    for (int i = 0; i < MAX_LINKS; i++) {
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0) return;
        target[length] = 0;
        parent_of(path, parent);
        if (target[0] == '/')
            snprintf(path, FILES_MAX_PATH, "%s", target);
        else if (files_join(parent, target, path, NULL))
            return;
    }
}

// Reads the name in a plain file. Only a name in the same directory is accepted.
static bool read_name(const char *file, char name[FILES_MAX_PATH]) {
    char *text;
    size_t length;
    if (files_read(file, LATEST_MAX_BYTES, &text, &length, NULL)) return false;
    size_t first = strspn(text, " \t\r\n"), count = strcspn(text + first, "\r\n");
    while (count > 0 && isspace((unsigned char)text[first + count - 1])) count--;
    snprintf(name, FILES_MAX_PATH, "%.*s", (int)count, text + first);
    free(text);
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

static bool locate_latest(const char *directory, char step[FILES_MAX_PATH]) {
    char latest[FILES_MAX_PATH], name[FILES_MAX_PATH];
    struct stat info;
    if (files_join(directory, CHECKPOINT_LATEST, latest, NULL) || lstat(latest, &info) != 0) return false;
    if (S_ISREG(info.st_mode))
        return read_name(latest, name) && !files_join(directory, name, step, NULL) && checkpoint_is_step(step);
    snprintf(step, FILES_MAX_PATH, "%s", latest);
    follow_links(step);
    return checkpoint_is_step(step);
}

static braid_err locate_newest(const char *directory, char step[FILES_MAX_PATH], braid_error *error) {
    checkpoint_steps steps;
    braid_err err = checkpoint_steps_read(directory, &steps, error);
    uint32_t i = steps.count;
    while (i > 0 && !steps.step[i - 1].readable) i--;
    if (!err && i > 0)
        err = files_join(directory, steps.step[i - 1].name, step, error);
    else if (!err && steps.count > 0)
        err = braid_fail(error, BRAID_FORMAT, "'%s' has no complete checkpoint: files of '%s' are missing or truncated",
                         directory, steps.step[steps.count - 1].name);
    else if (!err)
        err = braid_fail(error, BRAID_IO,
                         "'%s' is no checkpoint: it has neither " MANIFEST_FILE " nor a complete step-NNNNNN"
                         "; name the directory that a run saved into",
                         directory);
    checkpoint_steps_free(&steps);
    return err;
}

static braid_err locate_in(const char *directory, char step[FILES_MAX_PATH], braid_error *error) {
    return locate_latest(directory, step) ? BRAID_OK : locate_newest(directory, step, error);
}

static bool is_named_latest(const char *path) {
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, CHECKPOINT_LATEST) == 0;
}

braid_err checkpoint_locate(const char *path, char step[FILES_MAX_PATH], braid_error *error) {
    char named[FILES_MAX_PATH], parent[FILES_MAX_PATH];
    struct stat info;
    if (snprintf(named, sizeof named, "%s", path) >= (int)sizeof named)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", path);
    for (size_t n = strlen(named); n > 1 && named[n - 1] == '/'; n--) named[n - 1] = 0;
    if (checkpoint_is_step(named)) {
        snprintf(step, FILES_MAX_PATH, "%s", named);
        follow_links(step);
        return BRAID_OK;
    }
    parent_of(named, parent);
    bool there = stat(named, &info) == 0;
    int why = errno;
    if (is_named_latest(named) && (!there || S_ISREG(info.st_mode)) && stat(parent, &info) == 0 &&
        S_ISDIR(info.st_mode))
        return locate_in(parent, step, error);
    if (!there) return braid_fail(error, BRAID_IO, "no checkpoint at '%s': %s", path, strerror(why));
    if (!S_ISDIR(info.st_mode))
        return braid_fail(error, BRAID_IO, "'%s' is no checkpoint; name the directory that a run saved into", path);
    return locate_in(named, step, error);
}

void checkpoint_latest_read(const char *directory, char name[STEP_NAME]) {
    char latest[FILES_MAX_PATH], text[FILES_MAX_PATH] = "";
    struct stat info;
    name[0] = 0;
    if (files_join(directory, CHECKPOINT_LATEST, latest, NULL) || lstat(latest, &info) != 0) return;
    if (S_ISLNK(info.st_mode)) {
        ssize_t length = readlink(latest, text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
    } else if (!S_ISREG(info.st_mode) || !read_name(latest, text)) {
        return;
    }
    if (strlen(text) < STEP_NAME) memcpy(name, text, strlen(text) + 1);
}

static bool make_link(const char *name, const char *fresh, const char *latest) {
    unlink(fresh);
    return symlink(name, fresh) == 0 && rename(fresh, latest) == 0;
}

static bool make_file(const char *name, const char *fresh, const char *latest) {
    char text[STEP_NAME + 2];
    int length = snprintf(text, sizeof text, "%s\n", name);
    unlink(fresh);
    if (files_write(fresh, text, (size_t)length, NULL)) return false;
    if (rename(fresh, latest) == 0) return true;
    return unlink(latest) == 0 && rename(fresh, latest) == 0;
}

braid_err checkpoint_latest_point(const char *directory, const char *name, braid_error *error) {
    char latest[FILES_MAX_PATH], fresh[FILES_MAX_PATH];
    braid_err err = files_join(directory, CHECKPOINT_LATEST, latest, error);
    if (!err) err = files_join(directory, CHECKPOINT_LATEST ".tmp", fresh, error);
    if (err) return err;
    struct stat info;
    bool done = false;
    if (lstat(latest, &info) == 0 && S_ISDIR(info.st_mode)) checkpoint_keep_other(directory, CHECKPOINT_LATEST, latest);
    for (uint32_t tries = 0; tries < 5 && !done; tries++)  // another writer of this run may have created it
        done = make_link(name, fresh, latest) || make_file(name, fresh, latest);
    if (done) return files_sync_directory(directory, error);
    int why = errno;
    unlink(fresh);
    return braid_fail(error, why == ENOSPC || why == EDQUOT ? BRAID_FULL : BRAID_IO,
                      "cannot point '%s' at the new checkpoint: %s%s", latest, strerror(why), checkpoint_mend(why));
}
