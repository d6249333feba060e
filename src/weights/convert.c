#include "weights/convert.h"

#include "weights/convert_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_gguf(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

weight_type convert_lossless(const model_file *f, bool one_file) {
    weight_type type = WEIGHT_TYPES;
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->tensor[i].vector) continue;
        bool same = type == WEIGHT_TYPES || type == f->tensor[i].weights.type;
        type = same ? f->tensor[i].weights.type : WEIGHT_F32;
        if (!same) break;
    }
    bool kept = type == WEIGHT_F16 || type == WEIGHT_BF16 || (one_file && type == WEIGHT_Q8_0) ||
                (!one_file && type == WEIGHT_MIXED8);
    return kept ? type : WEIGHT_F32;
}

// A directory of plain files.
static void remove_directory(const char *path) {
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *entry; (entry = readdir(d));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
    rmdir(path);
}

static void sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);  // a file system that cannot is no error: there is nothing to wait for
    close(fd);
}

static braid_err write_directory(const model_file *f, const char *temporary, convert_options *options,
                                 braid_error *error) {
    if (mkdir(temporary, 0777) != 0)
        return braid_fail(error, BRAID_IO, "cannot create '%s': %s", temporary, strerror(errno));
    braid_err err = directory_write(f, temporary, options, error);
    if (!err) sync_directory(temporary);
    return err;
}

static braid_err check_type(weight_type to, bool one_file, braid_error *error) {
    if (to == WEIGHT_F32 || to == WEIGHT_F16 || to == WEIGHT_BF16) return BRAID_OK;
    if (to == WEIGHT_Q8_0)
        return one_file
                   ? BRAID_OK
                   : braid_fail(error, BRAID_ARGUMENT, "q8_0 is a form of GGUF files; the output must end with .gguf");
    if (to == WEIGHT_MIXED8)
        return one_file ? braid_fail(error, BRAID_ARGUMENT,
                                     "mixed8 is a form of directories; the output cannot be a GGUF file")
                        : BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT, "braid does not write %s", weight_type_name(to));
}

braid_err convert_write(const model_file *f, const char *path, convert_options *options, braid_error *error) {
    char temporary[MAPPED_MAX_PATH];
    bool one_file = is_gguf(path);
    braid_err err = check_type(options->to, one_file, error);
    if (!err) err = output_check_free(path, error);
    if (!err) err = output_temporary(path, temporary, error);
    if (err) return err;
    err = one_file ? gguf_write(f, temporary, options, error) : write_directory(f, temporary, options, error);
    if (!err) err = output_rename(temporary, path, error);
    if (!err) return BRAID_OK;
    if (one_file)
        unlink(temporary);
    else
        remove_directory(temporary);
    return err;
}
