#include "data/sources.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void data_files_free(data_files *files) {
    for (size_t i = 0; i < files->count; i++) free(files->file[i].path);
    free(files->file);
    *files = (data_files){0};
}

static braid_err no_memory(braid_error *error) {
    return braid_fail(error, BRAID_MEMORY, "no memory for the list of sources");
}

static braid_err add_file(data_files *files, const char *path, const struct stat *about, braid_error *error) {
    if (files->count == DATA_MAX_FILES)
        return braid_fail(error, BRAID_LIMIT, "the sources are more than %d files; join some", DATA_MAX_FILES);
    if (files->count == files->capacity) {
        size_t capacity = files->capacity ? 2 * files->capacity : 16;
        data_file *more = realloc(files->file, capacity * sizeof *more);
        if (!more) return no_memory(error);
        files->file = more;
        files->capacity = capacity;
    }
    data_file *f = &files->file[files->count];
    *f = (data_file){.path = strdup(path),
                     .bytes = (uint64_t)about->st_size,
                     .changed_s = about->st_mtim.tv_sec,
                     .changed_ns = about->st_mtim.tv_nsec};
    if (!f->path) return no_memory(error);
    files->count++;
    files->bytes += f->bytes;
    return BRAID_OK;
}

// ---- names in a directory, sorted ----

typedef struct name_list {
    char **name;
    size_t count, capacity;
} name_list;

static void names_free(name_list *list) {
    for (size_t i = 0; i < list->count; i++) free(list->name[i]);
    free(list->name);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool name_add(name_list *list, const char *name) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        char **more = capacity <= 2 * (size_t)DATA_MAX_FILES ? realloc(list->name, capacity * sizeof *more) : NULL;
        if (!more) return false;
        list->name = more;
        list->capacity = capacity;
    }
    list->name[list->count] = strdup(name);
    return list->name[list->count] && ++list->count;
}

static braid_err names_read(const char *directory, name_list *list, braid_error *error) {
    DIR *open = opendir(directory);
    if (!open) return braid_fail(error, BRAID_IO, "cannot read the directory '%s': %s", directory, strerror(errno));
    bool fits = true;
    for (struct dirent *entry; fits && (entry = readdir(open));)
        if (entry->d_name[0] != '.') fits = name_add(list, entry->d_name);
    closedir(open);
    if (!fits) return no_memory(error);
    if (list->count > 0) qsort(list->name, list->count, sizeof *list->name, by_bytes);
    return BRAID_OK;
}

// ---- paths and patterns ----

static bool is_pattern(const char *name) { return strpbrk(name, "*?[") != NULL; }

static braid_err join(const char *directory, const char *name, char out[DATA_MAX_PATH], braid_error *error) {
    const char *between = directory[0] == 0 || directory[strlen(directory) - 1] == '/' ? "" : "/";
    if (snprintf(out, DATA_MAX_PATH, "%s%s%s", directory, between, name) < DATA_MAX_PATH) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "the path '%.200s...' is longer than %d bytes", directory, DATA_MAX_PATH - 1);
}

static braid_err visit(data_files *files, const char *path, unsigned depth, braid_error *error);

static braid_err visit_directory(data_files *files, const char *path, unsigned depth, braid_error *error) {
    char inside[DATA_MAX_PATH];
    name_list names = {0};
    if (depth == DATA_MAX_DEPTH)
        return braid_fail(error, BRAID_LIMIT,
                          "'%.200s': more than %d directories inside each other; a link may lead back", path,
                          DATA_MAX_DEPTH);
    braid_err err = names_read(path, &names, error);
    for (size_t i = 0; i < names.count && !err; i++) {
        err = join(path, names.name[i], inside, error);
        if (!err) err = visit(files, inside, depth + 1, error);
    }
    names_free(&names);
    return err;
}

// Adds a file, or all files below a directory. Other kinds are added, too, and refused when they
// are read.
static braid_err visit(data_files *files, const char *path, unsigned depth, braid_error *error) {
    struct stat about;
    if (stat(path, &about) != 0) return braid_fail(error, BRAID_IO, "cannot read '%s': %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode)) return visit_directory(files, path, depth, error);
    return add_file(files, path, &about, error);
}

static braid_err match(data_files *files, const char *directory, const char *pattern, unsigned depth,
                       braid_error *error);

// One name of the pattern's first component. ** stands for this directory and for all below it.
static braid_err match_name(data_files *files, const char *path, const char *rest, bool any, const char *pattern,
                            unsigned depth, braid_error *error) {
    struct stat about;
    if (stat(path, &about) != 0) return BRAID_OK;  // a link to nothing matches nothing
    if (any) return S_ISDIR(about.st_mode) ? match(files, path, pattern, depth + 1, error) : BRAID_OK;
    if (*rest == 0) return visit(files, path, depth, error);
    return S_ISDIR(about.st_mode) ? match(files, path, rest, depth + 1, error) : BRAID_OK;
}

// `pattern` is relative to `directory`.
static braid_err match(data_files *files, const char *directory, const char *pattern, unsigned depth,
                       braid_error *error) {
    char first[DATA_MAX_PATH], inside[DATA_MAX_PATH];
    if (depth == DATA_MAX_DEPTH) return BRAID_OK;
    size_t length = strcspn(pattern, "/");
    const char *rest = pattern + length + strspn(pattern + length, "/");
    memcpy(first, pattern, length);
    first[length] = 0;
    bool any = strcmp(first, "**") == 0;
    name_list names = {0};
    braid_err err = BRAID_OK;
    if (any && *rest) err = match(files, directory, rest, depth, error);
    if (!is_pattern(first)) {
        err = join(directory, first, inside, error);
        return err ? err : match_name(files, inside, rest, false, pattern, depth, error);
    }
    if (!err) err = names_read(*directory ? directory : ".", &names, error);
    for (size_t i = 0; i < names.count && !err; i++) {
        if (fnmatch(first, names.name[i], FNM_PERIOD) != 0) continue;
        err = join(directory, names.name[i], inside, error);
        if (!err) err = match_name(files, inside, any && !*rest ? "" : rest, any && *rest, pattern, depth, error);
    }
    names_free(&names);
    return err;
}

static braid_err find(data_files *files, const char *path, braid_error *error) {
    struct stat about;
    size_t before = files->count;
    braid_err err;
    if (strlen(path) >= DATA_MAX_PATH) return braid_fail(error, BRAID_LIMIT, "the path '%.200s...' is too long", path);
    if (stat(path, &about) != 0 && is_pattern(path)) {
        err = match(files, *path == '/' ? "/" : "", path + strspn(path, "/"), 0, error);
        if (!err && files->count == before) err = braid_fail(error, BRAID_CONFIG, "no file matches '%s'", path);
        return err;
    }
    err = visit(files, path, 0, error);
    if (!err && files->count == before) err = braid_fail(error, BRAID_CONFIG, "the directory '%s' has no files", path);
    return err;
}

braid_err data_files_find(const char *const *paths, uint32_t count, data_files *out, braid_error *error) {
    braid_err err = BRAID_OK;
    *out = (data_files){0};
    for (uint32_t i = 0; i < count && !err; i++) err = find(out, paths[i], error);
    return err;
}
