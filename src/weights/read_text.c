#include "weights/read_text.h"

#include "weights/mapped.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

braid_err read_text(const char *directory, const char *name, size_t most, char **text, size_t *length,
                    braid_error *error) {
    char path[MAPPED_MAX_PATH];
    mapped m;
    *text = NULL;
    *length = 0;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return braid_fail(error, BRAID_LIMIT, "the path '%.64s...' is too long", directory);
    if (access(path, F_OK) != 0 && errno == ENOENT) return BRAID_OK;
    braid_err err = mapped_open(path, &m, error);
    if (err) return err;
    *length = m.bytes;
    *text = m.bytes > most ? NULL : malloc(m.bytes + 1);
    if (*text && m.bytes > 0) memcpy(*text, m.at, m.bytes);
    if (*text) (*text)[m.bytes] = 0;
    if (m.bytes > most)
        err = braid_fail(error, BRAID_LIMIT, "'%s' is larger than %zu bytes", path, most);
    else if (!*text)
        err = braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", path);
    mapped_close(&m);
    return err;
}

braid_err read_json(const char *directory, const char *name, size_t most, json **out, braid_error *error) {
    char *text;
    size_t length;
    braid_error why = {0};
    *out = NULL;
    braid_err err = read_text(directory, name, most, &text, &length, error);
    if (err || !text) return err;
    err = json_parse(text, length, out, &why);
    if (err) braid_fail(error, err, "%.150s/%s: %.250s", directory, name, why.text);
    free(text);
    return err;
}
