#include "http/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20, MAX_WORDS = 4 };

static braid_err bad(braid_error *error, const char *name, size_t line, const char *mistake) {
    return braid_fail(error, BRAID_CONFIG, "%s, line %zu: %s; a line is LABEL SECRET [concurrent=N] [per-minute=N]",
                      name, line, mistake);
}

static bool limit(const char *word, const char *key, uint32_t *out) {
    size_t n = strlen(key);
    char *end;
    if (strncmp(word, key, n) != 0 || word[n] != '=' || word[n + 1] < '0' || word[n + 1] > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(word + n + 1, &end, 10);
    if (*end || errno || value > UINT32_MAX) return false;
    *out = (uint32_t)value;
    return true;
}

static bool printable(const char *word) {
    for (; *word; word++)
        if (*word < 0x21 || *word > 0x7e) return false;
    return true;
}

static braid_err parse_line(char *line, const char *name, size_t number, http_keys *out, braid_error *error) {
    char *word[MAX_WORDS + 1], *rest = NULL;
    size_t words = 0;
    line[strcspn(line, "#\r")] = 0;
    for (char *w = strtok_r(line, " \t", &rest); w && words <= MAX_WORDS; w = strtok_r(NULL, " \t", &rest))
        word[words++] = w;
    if (words == 0) return BRAID_OK;
    if (words < 2 || words > MAX_WORDS) return bad(error, name, number, "too few or too many words");
    if (strlen(word[0]) > HTTP_MAX_LABEL_BYTES) return bad(error, name, number, "the label is too long");
    if (strlen(word[1]) > HTTP_MAX_SECRET_BYTES || !printable(word[1]))
        return bad(error, name, number, "the secret is too long or has characters that a header cannot have");
    if (out->count == HTTP_MAX_KEYS) return bad(error, name, number, "too many keys");
    http_key *key = &out->at[out->count];
    *key = (http_key){.secret = word[1], .label = word[0]};
    for (size_t i = 2; i < words; i++)
        if (!limit(word[i], "concurrent", &key->concurrent) && !limit(word[i], "per-minute", &key->per_minute))
            return bad(error, name, number, "a limit is misspelt");
    for (size_t i = 0; i < out->count; i++)
        if (strcmp(out->at[i].secret, key->secret) == 0) return bad(error, name, number, "the secret is there twice");
    out->count++;
    return BRAID_OK;
}

braid_err http_keys_parse(const char *text, size_t length, const char *name, http_keys *out, braid_error *error) {
    *out = (http_keys){.at = calloc(HTTP_MAX_KEYS, sizeof *out->at), .owned = malloc(length + 1)};
    braid_err err = out->at && out->owned ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the keys");
    if (!err) {
        memcpy(out->owned, text, length);
        out->owned[length] = 0;
        if (memchr(text, 0, length)) err = bad(error, name, 1, "the file is no text");
    }
    char *at = out->owned;
    for (size_t line = 1; !err && at; line++) {
        char *end = strchr(at, '\n'), *next = end ? end + 1 : NULL;
        if (end) *end = 0;
        err = parse_line(at, name, line, out, error);
        at = next;
    }
    if (!err && out->count == 0) err = bad(error, name, 1, "there is no key");
    if (err) http_keys_free(out);
    return err;
}

braid_err http_keys_read(const char *path, http_keys *out, braid_error *error) {
    *out = (http_keys){0};
    FILE *file = fopen(path, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open the keys %s: %s", path, strerror(errno));
    char *text = malloc(MAX_FILE_BYTES + 1);
    size_t n = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
    bool failed = ferror(file) || n > MAX_FILE_BYTES;
    fclose(file);
    braid_err err = !text    ? braid_fail(error, BRAID_MEMORY, "no memory for the keys %s", path)
                    : failed ? braid_fail(error, BRAID_IO, "cannot read the keys %s, or they are too many", path)
                             : http_keys_parse(text, n, path, out, error);
    free(text);
    return err;
}

void http_keys_free(http_keys *keys) {
    free(keys->at);
    free(keys->owned);
    *keys = (http_keys){0};
}
