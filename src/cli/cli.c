#include "cli/cli.h"

#include "node/run_data.h"
#include "train/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_complain(int code, const char *verb, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s %s: ", cli_program_name, verb);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}

braid_err cli_load_run(const char *path, const char *from, run_config *out, braid_error *error) {
    const run_readers readers = run_data_readers(from);
    return cli_has_baselines ? run_config_load_with_baselines(path, &readers, out, error) : run_config_load(path, &readers, out, error);
}

// 0, or the error number that prevents writing.
static int try_file(const char *path) {
    int file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENXIO) return 0;  // a pipe without a reader so far
    if (file < 0 && errno != ENOENT) return errno;
    if (file < 0) {
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0) return errno == EEXIST ? 0 : errno;  // a link to a file that does not exist yet
        unlink(path);
    }
    close(file);
    return 0;
}

bool cli_can_write(const char *verb, const char *flag, const char *path) {
    int wrong = path != NULL ? try_file(path) : 0;
    if (wrong) cli_complain(CLI_FAILED, verb, "--%s: cannot write '%s': %s; name another file", flag, path, strerror(wrong));
    return wrong == 0;
}

bool cli_can_fill(const char *verb, const char *flag, const char *path) {
    struct stat about;
    int wrong = 0;
    if (path == NULL) return true;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        wrong = errno;
    else if (stat(path, &about) != 0 || access(path, W_OK | X_OK) != 0)
        wrong = errno;
    else if (!S_ISDIR(about.st_mode))
        wrong = ENOTDIR;
    if (wrong) cli_complain(CLI_FAILED, verb, "--%s: cannot write into the folder '%s': %s; name another one", flag, path, strerror(wrong));
    return wrong == 0;
}
