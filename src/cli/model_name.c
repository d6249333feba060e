#include "cli/model_name.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_CONFIG_BYTES = 1 << 20 };

static void name_from(const char *base, char name[MODEL_NAME]) {
    static const char ending[] = ".gguf";
    size_t length = strlen(base), tail = sizeof ending - 1, kept = 0;
    if (length > tail && strcasecmp(base + length - tail, ending) == 0) length -= tail;
    for (size_t i = 0; i < length && kept + 1 < MODEL_NAME; i++) {
        unsigned char c = (unsigned char)base[i];
        name[kept++] = (char)(isalnum(c) || strchr("._-", c) ? tolower(c) : '-');
    }
    name[kept] = 0;
}

void model_name_of(const char *path, char name[MODEL_NAME]) {
    char *real = realpath(path, NULL);
    const char *whole = real ? real : path, *slash = strrchr(whole, '/');
    name_from(slash ? slash + 1 : whole, name);
    if (!name[0]) snprintf(name, MODEL_NAME, "model");
    free(real);
}

uint64_t model_time(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && info.st_mtime > 0 ? (uint64_t)info.st_mtime : 0;
}

char *model_generation_config(const char *path) {
    char file[PATH_MAX];
    if (snprintf(file, sizeof file, "%s/generation_config.json", path) >= (int)sizeof file) return NULL;
    FILE *in = fopen(file, "rb");
    char *text = in ? malloc(MOST_CONFIG_BYTES + 1) : NULL;
    size_t length = text ? fread(text, 1, MOST_CONFIG_BYTES + 1, in) : 0;
    if (in) fclose(in);
    if (length == 0 || length > MOST_CONFIG_BYTES) {
        free(text);
        return NULL;
    }
    text[length] = 0;
    return text;
}
